/* A module: context, target, passes, text.
 *
 * Facts about LLVM 22 that shape this file (all measured):
 *   - The data layout has to be set before the first load or store is built: default alignments come from it.
 *   - Some failures of the back end arrive as diagnostics while emission still returns success, others (an instruction
 *     that cannot be selected) as a fatal error that would end the process. Diagnostics are counted; the fatal handler
 *     panics, which jumps to the caller's guard and leaks that module.
 *   - Straight-line strength reduction (slsr) is quadratic in the number of addresses and takes sext(i32 add) for
 *     non-wrapping even without nsw: it is switched off. Command line options of LLVM are global: parsed once.
 *   - O1, O2 and O3 give no better code for tile kernels than the short list below and take three times as long.
 *     Invariants are hoisted by tile passes already; LLVM's licm on top costs registers (166 instead of 128 in the fma
 *     matmul, equal code). Constant distances of addresses are said by emission (ll_delta.c), not searched for.
 *   - Library functions must be inlined: a call in PTX spills around it. */
#include <string.h>
#include <threads.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitReader.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Linker.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "compiler/llvm/clc.h"
#include "compiler/llvm/ll_internal.h"

#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "compiler/llvm/diags.def"
#undef DIAG

#define COMBINE "instcombine<max-iterations=1;no-verify-fixpoint>"
#define CLEAN_UP "function(early-cse," COMBINE ",early-cse,simplifycfg)"

static void fatal(const char *reason) { base_panic("LLVM gave up: %s", reason); }

static void start_llvm(void) {
  static const char *const argv[] = {"tkc", "-opt-disable=slsr"};
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  LLVMParseCommandLineOptions(2, argv, NULL);
  LLVMInstallFatalErrorHandler(fatal);
}

typedef struct backend_errors {
  arena *a;
  const char *first;
} backend_errors;

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  backend_errors *errors = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || errors->first) return;
  char *text = LLVMGetDiagInfoDescription(info);
  errors->first = arena_printf(errors->a, "%s", text);
  LLVMDisposeMessage(text);
}

static LLVMTargetMachineRef target_machine(const arch_t *arch, int ptx) {
  static const char triple[] = "nvptx64-nvidia-cuda";
  LLVMTargetRef target;
  char *why = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &why)) base_panic("no NVPTX target: %s", why);
  char features[16];
  snprintf(features, sizeof features, "+ptx%d", ptx);
  LLVMTargetMachineOptionsRef opts = LLVMCreateTargetMachineOptions();
  LLVMTargetMachineOptionsSetCPU(opts, arch->name);
  LLVMTargetMachineOptionsSetFeatures(opts, features);
  LLVMTargetMachineOptionsSetCodeGenOptLevel(opts, LLVMCodeGenLevelDefault);
  LLVMTargetMachineRef tm = LLVMCreateTargetMachineWithOptions(target, triple, opts);
  LLVMDisposeTargetMachineOptions(opts);
  return tm;
}

static void make_types(ll *e) {
  e->void_ = LLVMVoidTypeInContext(e->c);
  e->i1 = LLVMInt1TypeInContext(e->c);
  e->i8 = LLVMInt8TypeInContext(e->c);
  e->i16 = LLVMInt16TypeInContext(e->c);
  e->i32 = LLVMInt32TypeInContext(e->c);
  e->i64 = LLVMInt64TypeInContext(e->c);
  e->f16 = LLVMHalfTypeInContext(e->c);
  e->bf16 = LLVMBFloatTypeInContext(e->c);
  e->f32 = LLVMFloatTypeInContext(e->c);
  e->f64 = LLVMDoubleTypeInContext(e->c);
  e->global_ptr = LLVMPointerTypeInContext(e->c, LL_GLOBAL);
  e->shared_ptr = LLVMPointerTypeInContext(e->c, LL_SHARED);
}

/* ---- the library of math functions ---------------------------------------------------------------------------- */

/* Functions the module calls and does not define, before the library is there. */
static bool wanted(LLVMValueRef f) { return LLVMIsDeclaration(f) && LLVMGetIntrinsicID(f) == 0; }

/* What the driver provides, and libdevice's question about the target, which the nvvm-reflect pass answers. */
static bool is_known_extern(const char *name) {
  return strcmp(name, "vprintf") == 0 || strcmp(name, "__assertfail") == 0 || strcmp(name, "__nvvm_reflect") == 0;
}

/* Makes what came from the library private and inlined; false (with a diagnostic) if something is still missing. */
static bool settle_library(ll *e, const char *path) {
  unsigned inline_kind = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
  unsigned noinline_kind = LLVMGetEnumAttributeKindForName("noinline", 8);
  unsigned optnone_kind = LLVMGetEnumAttributeKindForName("optnone", 7);
  for (LLVMValueRef f = LLVMGetFirstFunction(e->m); f; f = LLVMGetNextFunction(f)) {
    size_t len;
    const char *name = LLVMGetValueName2(f, &len);
    if (wanted(f)) {
      if (is_known_extern(name) || !LLVMGetFirstUse(f)) continue;
      diag_add(e->sink, (span){0, 0}, &D_ll_no_function, path ? path : "the embedded library", name);
      return false;
    }
    if (LLVMIsDeclaration(f) || LLVMGetFunctionCallConv(f) == LLVMPTXKernelCallConv) continue;
    LLVMSetLinkage(f, LLVMInternalLinkage);
    LLVMRemoveEnumAttributeAtIndex(f, LL_FUNCTION, noinline_kind);
    LLVMRemoveEnumAttributeAtIndex(f, LL_FUNCTION, optnone_kind);
    LLVMAddAttributeAtIndex(f, LL_FUNCTION, LLVMCreateEnumAttribute(e->c, inline_kind, 0));
  }
  for (LLVMValueRef g = LLVMGetFirstGlobal(e->m); g; g = LLVMGetNextGlobal(g))
    if (!LLVMIsDeclaration(g)) LLVMSetLinkage(g, LLVMInternalLinkage);
  return true;
}

static bool link_library(ll *e, LLVMTargetDataRef layout) {
  const char *path = e->o->libdevice;
  LLVMMemoryBufferRef bytes;
  char *why = NULL;
  if (path) {
    if (LLVMCreateMemoryBufferWithContentsOfFile(path, &bytes, &why)) {
      diag_add(e->sink, (span){0, 0}, &D_ll_libdevice, path, why);
      LLVMDisposeMessage(why);
      return false;
    }
  } else {
    bytes = LLVMCreateMemoryBufferWithMemoryRange((const char *)ll_clc_bitcode, ll_clc_bitcode_len, "math", false);
  }
  LLVMModuleRef library;
  if (LLVMGetBitcodeModuleInContext2(e->c, bytes, &library)) {
    if (!path) base_panic("the embedded math library is damaged");
    LLVMDisposeMemoryBuffer(bytes); /* it belongs to the module only if there is one */
    diag_add(e->sink, (span){0, 0}, &D_ll_libdevice, path, "it is not LLVM bitcode");
    return false;
  }
  LLVMSetTarget(library, LLVMGetTarget(e->m));
  LLVMSetModuleDataLayout(library, layout);
  /* Only what is referenced is taken from a module whose functions are all linkonce_odr. The embedded one is. */
  if (path)
    for (LLVMValueRef f = LLVMGetFirstFunction(library); f; f = LLVMGetNextFunction(f))
      if (!LLVMIsDeclaration(f)) LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
  if (LLVMLinkModules2(e->m, library)) base_panic("the math library does not link");
  return settle_library(e, path);
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void run_passes(ll *e, LLVMTargetMachineRef tm) {
  textbuf list;
  text_init(&list, e->a);
  const char *sep = "";
  if (e->uses_rings) {
    text_str(&list, "function(mem2reg)");
    sep = ",";
  }
  if (e->uses_library) {
    text_printf(&list, "%s%salways-inline,globaldce", sep, e->o->libdevice ? "nvvm-reflect," : "");
    sep = ",";
  }
  if (!e->o->unoptimized) text_printf(&list, "%s%s", sep, CLEAN_UP);
  if (!list.n) return;
  LLVMPassBuilderOptionsRef opts = LLVMCreatePassBuilderOptions();
  LLVMErrorRef err = LLVMRunPasses(e->m, list.at, tm, opts);
  LLVMDisposePassBuilderOptions(opts);
  if (err) base_panic("LLVM's passes: %s", LLVMGetErrorMessage(err));
}

static bool write_text(ll *e, LLVMTargetMachineRef tm, const backend_errors *errors, textbuf *ptx, textbuf *llvm_ir) {
  char *why = NULL;
  LLVMMemoryBufferRef out = NULL;
  char *ir = llvm_ir ? LLVMPrintModuleToString(e->m) : NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(tm, e->m, LLVMAssemblyFile, &why, &out))
    base_panic("LLVM cannot write PTX: %s", why);
  bool ok = !errors->first;
  if (ok) {
    text_add(ptx, LLVMGetBufferStart(out), LLVMGetBufferSize(out));
    if (ir) text_str(llvm_ir, ir);
  } else {
    diag_add(e->sink, e->fn ? e->fn->at : (span){0, 0}, &D_ll_backend, errors->first);
  }
  LLVMDisposeMemoryBuffer(out);
  if (ir) LLVMDisposeMessage(ir);
  return ok;
}

bool ll_emit(const ll_options *o, tir_fn *const *fns, int n, diag_sink *sink, textbuf *ptx, textbuf *llvm_ir) {
  static once_flag started = ONCE_FLAG_INIT;
  int version = o->ptx_version ? o->ptx_version : o->arch->ptx;
  if (version < o->arch->ptx || !arch_ptx_version_known(version)) {
    diag_add(sink, (span){0, 0}, &D_ll_ptx_version, version / 10, version % 10, o->arch->name, o->arch->ptx / 10,
             o->arch->ptx % 10);
    return false;
  }
  call_once(&started, start_llvm);

  ll e = {.o = o, .arch = o->arch, .sink = sink, .a = arena_new()};
  backend_errors errors = {e.a, NULL};
  e.c = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(e.c, on_diagnostic, &errors);
  LLVMContextSetDiscardValueNames(e.c, !llvm_ir);
  e.m = LLVMModuleCreateWithNameInContext("tkc", e.c);
  e.b = LLVMCreateBuilderInContext(e.c);
  LLVMTargetMachineRef tm = target_machine(o->arch, version);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  LLVMSetTarget(e.m, "nvptx64-nvidia-cuda");
  LLVMSetModuleDataLayout(e.m, layout);
  make_types(&e);

  ll_debug_begin(&e);
  bool ok = true;
  for (int i = 0; i < n; i++) ok = ll_kernel(&e, fns[i]) && ok;
  ll_debug_end(&e);

  ok = ok && (!e.uses_library || link_library(&e, layout));
  if (ok) {
    char *why = NULL;
    if (LLVMVerifyModule(e.m, LLVMReturnStatusAction, &why)) base_panic("emitted LLVM IR is not valid: %s", why);
    LLVMDisposeMessage(why);
    run_passes(&e, tm);
    ok = write_text(&e, tm, &errors, ptx, llvm_ir);
  }
  LLVMDisposeBuilder(e.b);
  LLVMDisposeModule(e.m);
  LLVMDisposeTargetData(layout);
  LLVMDisposeTargetMachine(tm);
  LLVMContextDispose(e.c);
  arena_free(e.a);
  return ok;
}
