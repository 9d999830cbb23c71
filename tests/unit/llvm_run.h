/* Runs a kernel, given as tile IR text, through the passes (unless it is placed already), the emitter, ptxas where it
 * is installed, and the PTX emulator. */
#ifndef TESTS_UNIT_LLVM_RUN_H
#define TESTS_UNIT_LLVM_RUN_H

#include "compiler/llvm/ll.h"

typedef struct ll_case {
  arena *a;
  diag_sink sink;
  tir_fn *fn;
  const arch_t *arch;
  ll_options options; /* may be changed before ll_case_ptx */
  const char *ptx;    /* finished text */
} ll_case;

/* Fails the test with the reader's or the passes' message. */
void ll_case_open(ll_case *c, const char *text, const char *arch);
/* Emits, finishes, assembles; c->ptx. */
const char *ll_case_ptx(ll_case *c);
void ll_case_close(ll_case *c);

/* Arguments in the order of the parameters: memory with its size, or a scalar of the parameter's type. */
typedef struct ll_arg {
  void *data; /* NULL: scalar */
  size_t bytes;
  uint64_t scalar;
} ll_arg;
#define LL_BUF(array) ((ll_arg){(array), sizeof(array), 0})
#define LL_INT(v) ((ll_arg){NULL, 0, (uint64_t)(v)})

/* Runs the PTX; fails the test with the emulator's report. `printed` (or NULL) receives what the kernel printed. */
void ll_case_run(ll_case *c, int grid, const ll_arg *args, int n, textbuf *printed);

int ll_count(const char *text, const char *part);

#endif
