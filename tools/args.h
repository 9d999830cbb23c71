/* Arguments on a command line: `x=randn:f32[n,64]`, `n=1000`, `stride=x.stride(0)`, and what they become.
 *
 *   array   KIND:dtype[shape]   KIND: zeros ones arange rand randn randint(lo,hi) full(v)
 *           @file.npy           or @file.npy:dtype, the file's bits taken as that type (bf16 and f8 are stored so)
 *   scalar  an integer expression as in grids, a number with a point or exponent, inf, -inf, nan, True, False
 *
 * Shapes, bounds and integer scalars are expressions over the other arguments and the defines, in any order. The random
 * numbers of an array depend on the seed, its name and its shape alone. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include "compiler/base/base.h"
#include "compiler/ir/tir.h"
#include "runtime/tk.h"

/* A dense row-major array in host memory. */
typedef struct array {
  tk_dtype dtype;
  tir_dtype element; /* the same, for conversions */
  int rank;
  int64_t shape[TK_MAX_RANK];
  int64_t numel;
  size_t bytes;
  void *data; /* aligned to 64 bytes; owned: array_free */
} array;

/* Zeroed memory. False if the shape is negative or too large, or memory is short. */
bool array_new(array *out, tk_dtype dtype, int rank, const int64_t *shape);
bool array_copy(array *out, const array *from);
void array_free(array *a); /* of a zeroed array: allowed */
double array_get(const array *a, int64_t i);
void array_set(array *a, int64_t i, double v); /* rounded to the element type */
/* Python's nested brackets; of long axes the first and last three elements. */
void array_print(const array *a, textbuf *out);

/* How two arrays differ: elements are equal if both are NaN, or the same infinity, or |want - got| is at most
   tolerance * max(|want|, root mean square of want). Integers must be the same. */
typedef struct array_difference {
  int64_t count, first; /* elements that differ; the first of them */
  double worst;         /* largest |want - got| / max(|want|, rms); infinity if a NaN or infinity is missing */
} array_difference;
array_difference array_compare(const array *want, const array *got, double tolerance);
/* What rounding in another order may cost in this element type: 2e-6 for f32, 2e-3 for f16, .. */
double array_tolerance(tk_dtype dtype);

/* NumPy's format, version 1.0 to 3.0, little endian, C order. NULL, or what is wrong (in `a`). Any bytes are allowed.
 */
const char *array_read_npy(arena *a, const char *path, array *out);
/* Written beside and renamed. bf16 is stored as uint16, f8 as uint8. */
const char *array_write_npy(arena *a, const char *path, const array *from);

typedef struct arg {
  const char *name, *spec;
  bool is_define; /* -D: a constexpr; visible in expressions if it is an integer */
  enum { ARG_ARRAY, ARG_INT, ARG_FLOAT, ARG_TEXT } kind; /* TEXT: a define that is no number */
  array array;
  int64_t i; /* INT; of True and False too */
  double f;  /* FLOAT */
  enum { ARG_RAW, ARG_BUSY, ARG_DONE } state;
} arg;

typedef struct args {
  arena *a;
  uint64_t seed;
  VEC(arg) list;
  const char *problem; /* of the last call that returned false */
} args;

void args_init(args *s, arena *a, uint64_t seed);
bool args_add(args *s, const char *text);    /* "name=spec"; a name may be given once */
bool args_define(args *s, const char *text); /* "NAME=VALUE" */
bool args_make(args *s);                     /* evaluates everything */
arg *args_named(args *s, const char *name);  /* NULL if there is none */
/* For tk_evaluate: integers, x.shape[i], x.stride(i), x.numel(). user = the args. */
bool args_lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value);
/* "cdiv(n, BLOCK), 4": one to three expressions. */
bool args_grid(args *s, const char *text, int64_t grid[3]);
void args_free(args *s); /* the arrays */

#endif
