/* llvm: from tile IR at stage PLACED to PTX text, through the LLVM C API. The only folder that includes llvm-c.
 *
 * A scalar value is one LLVM value that every thread computes. A tile value is an array of LLVM values, one per
 * register of its layout; which element a register holds in a thread follows from the layout (layout.h). */
#ifndef LL_LL_H
#define LL_LL_H

#include "compiler/arch/arch.h"
#include "compiler/ir/tir.h"

typedef struct ll_options {
  const arch_t *arch;
  int ptx_version;       /* major * 10 + minor that the caller wants to stay within; 0 = the target's lowest */
  bool line_tables;      /* `.loc` lines that name the sources of the sink's map */
  bool fp_fusion;        /* a*b+c in floating point may become one fma */
  bool unoptimized;      /* no optimisation passes: for looking at what was emitted */
  const char *libdevice; /* bitcode file used for math functions instead of the embedded one; NULL = embedded */
} ll_options;

/* Translates kernels (stage PLACED, `shared_bytes` set, convert_layout / reduce / scalar atomics with `scratch` where
   they go through shared memory) into one module and appends its PTX to `ptx`: `.version` is the lowest for the target
   (or ptx_version) and not yet raised for what inline assembly uses: ptx_finish does that. With llvm_ir, appends the
   optimised LLVM IR as well. Equal input gives equal bytes. False: diagnostics are in the sink, and nothing was
   appended. All buffers are the caller's. */
bool ll_emit(const ll_options *o, tir_fn *const *fns, int n, diag_sink *sink, textbuf *ptx, textbuf *llvm_ir);

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/llvm/diags.def"
#undef DIAG

#endif
