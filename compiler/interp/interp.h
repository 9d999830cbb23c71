/* interp: runs tile IR on the CPU, at any stage, and checks what it does.
 *
 * Whole tiles are evaluated op by op; layouts are ignored and convert_layout is the identity, so that the function
 * means the same after every pass. Includes no pass: it judges them.
 *
 * Checked: accesses outside of their buffer or through a pointer to none, misaligned accesses, lanes that nothing
 * defined (masked off in a load without `other`, or divided by zero) where they matter: in an address, a mask, a stored
 * value, a branch; programs that write one element, or read what another one writes, without an atomic or an
 * acquire/release chain between them; failed assertions and assumptions, hints and argument properties that do not
 * hold; loops that do not end. Each place is reported once per kind, with the first program and lane it happened in and
 * how often it did; the run goes on behind it: a bad access reads 0 and writes nothing. */
#ifndef INTERP_INTERP_H
#define INTERP_INTERP_H

#include "compiler/ir/tir.h"

/* Memory that the kernel may touch. Buffers do not overlap. */
typedef struct interp_buffer {
  const char *name; /* for reports */
  void *data;
  size_t bytes;
} interp_buffer;

typedef struct interp_options {
  int64_t grid[3];     /* programs along each axis, each >= 0, fewer than 2^31 in all */
  uint64_t order_seed; /* 0 = programs in order, x fastest; else in a random order made from this seed */
  int threads;         /* 0, 1 = one; memory is accessed under a lock, so more help kernels that compute */
  uint64_t max_steps;  /* ops that one program may execute, one more for every 256 elements; 0 = 50 million */
  int max_findings;    /* the run stops after so many different ones; 0 = 20 */
  void (*print)(void *user, const char *text, size_t len); /* lines of device_print; NULL = dropped */
  void *user;
} interp_options;

typedef enum interp_status {
  INTERP_OK,       /* nothing was found; there may be warnings (hints that do not hold) */
  INTERP_FINDINGS, /* errors are in the sink */
  INTERP_REFUSED   /* the arguments or the grid do not fit the kernel: one error is in the sink, nothing was run */
} interp_status;

/* Runs every program of the grid. fn must satisfy tir_verify. args: one value a parameter in its memory encoding (low
   bits; pointers as host addresses). Findings go to the sink, at the span of the op. Memory that the run needs is freed
   before it returns. */
interp_status interp_run(const tir_fn *fn, const interp_buffer *buffers, int n_buffers, const uint64_t *args,
                         int n_args, const interp_options *options, diag_sink *sink);

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/interp/diags.def"
#undef DIAG

#endif
