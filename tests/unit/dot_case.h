/* Kernels that multiply two matrices on tensor cores, built from layouts and checked against sums in double. */
#ifndef TESTS_UNIT_DOT_CASE_H
#define TESTS_UNIT_DOT_CASE_H

#include "compiler/ir/tir.h"
#include "tests/unit/llvm_run.h"

/* How the operands get from memory to the dot. */
typedef enum dot_path {
  DOT_DIRECT, /* loads into the fragments */
  DOT_COPY,   /* copy_async, buffer_load */
  DOT_STORE,  /* load, buffer_store, buffer_load */
} dot_path;
/* Where the elements of a buffer lie. */
typedef enum dot_shared { DOT_TMA, DOT_TMA64, DOT_TMA32, DOT_XOR, DOT_ROWMAJOR, DOT_PADDED } dot_shared;

typedef struct dot_case {
  const char *arch, *inst; /* inst: NULL for wgmma */
  tir_dtype a, b, acc;
  const char *precision; /* of f32; NULL = none given */
  int m, n, k;
  int wm, wn;    /* warps along M and N; 0 = 1 */
  bool n_fast;   /* neighbouring warps along N */
  bool ta, tb;   /* the matrix lies in memory by columns */
  bool specials; /* infinities and NaN among the elements */
  dot_path path;
  dot_shared shared;
  int stages;           /* of the buffers; 0 = none, used by the last */
  int rows, cols, deep; /* elements of the matrices that there are: the rest is masked off; 0 = all */
  const char *has;      /* a part of the PTX text, or NULL */
  int batch;            /* products side by side, of matrices by rows and DOT_DIRECT; 0 = 1 without that axis */
  bool wgmma;           /* by warpgroups: wm * wn is a multiple of 4, wn warpgroups lie along N */
  bool a_in_registers;  /* of wgmma */
  int max_imprecise;    /* of wgmma; 0 = not given */
  int waits;            /* for wgmma in the PTX text; 0 = not counted */
} dot_case;

/* c = a * b + c0 by one block; fails the test with the case's name. */
void dot_case_run(const dot_case *c);

/* ---- what other tests build upon ---- */

/* Pointers to the elements of a tile: row i, column j at base + i * row + j * col (elements). */
tir_value *dot_pointers(tir_builder *b, tir_value *base, const lay_t *layout, int64_t row, int64_t col);
/* A matrix of n reproducible elements; encodings of `d`. With specials a few are not finite. */
void dot_fill(tir_dtype d, uint64_t seed, bool specials, void *out, size_t n);
double dot_element(tir_dtype d, const void *p, size_t i);
/* What an element counts in a dot: f32 loses its low bits where precision is "tf32". */
double dot_factor(tir_dtype d, const char *precision, const void *p, size_t i);
/* Whether `got` is the sum: `size` is the sum of the absolute values of what was added. */
bool dot_agrees(tir_dtype acc, const char *precision, double want, double size, double got);
/* Finishes a function whose tiles have layouts by the passes that follow, and reads it back from text. */
void dot_open(ll_case *c, tir_fn *fn, const char *arch);

#endif
