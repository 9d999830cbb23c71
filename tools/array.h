/* array: host arrays for `tkc run` and the tests: made from a spec, read from and written to .npy, printed, compared.
 */
#ifndef TOOLS_ARRAY_H
#define TOOLS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/tk.h"

typedef struct array {
  tk_dtype dtype;
  int rank; /* 0: one element, no axes */
  int64_t shape[TK_MAX_RANK];
  size_t numel, bytes;
  unsigned char *data; /* row-major, in memory encoding */
} array;

/* Resolves names in the extents of a spec ("[n]"); NULL = numbers only. */
typedef struct array_names {
  tk_lookup_fn lookup;
  void *user;
} array_names;

/* Whether the text is an array spec: KIND[(..)]:DTYPE[extents] or @file.npy[:DTYPE]. */
bool array_is_spec(const char *text);
/* Reads "[extents]", the whole of p; at most `most` of them. On failure returns false and writes why. */
bool array_extents(const char *p, const array_names *names, int most, int64_t *shape, int *rank, char *message,
                   size_t size);
/* Makes the array of a spec. Random kinds draw from a stream that starts at `seed` (splitmix64; randn by Box and
   Muller). On failure returns false and writes why into message (with the byte position for a bad .npy). array_free
   what it made. */
bool array_make(const char *spec, uint64_t seed, const array_names *names, array *out, char *message, size_t size);
void array_free(array *a);
array array_copy(const array *a);

/* Element i as a number (exact for every type but 64-bit integers beyond 2^53) and back (rounded once, saturating). */
double array_get(const array *a, size_t i);
void array_set(array *a, size_t i, double v);

/* NumPy's format 1.0. Element types that NumPy lacks (bf16, f8) are written as f32. *out is malloc'd. */
unsigned char *array_npy(const array *a, size_t *len);
/* Reads formats 1.0 to 3.0, either byte order, C or Fortran order. Any bytes are safe. */
bool array_from_npy(const unsigned char *bytes, size_t len, array *out, char *message, size_t size);

void array_print(const array *a); /* on stdout, shortened like NumPy does */

/* Largest difference between two arrays of one type and shape: of floats relative to the wanted element's magnitude, or
   to the root mean square of all of them where that is larger; of integers the difference itself. NaNs are equal to
   NaNs, and nothing else is. *at receives the element. */
double array_distance(const array *got, const array *want, size_t *at);
/* What two devices may differ by, for the distance above: 0 for integers, else a few units of the type's precision. */
double array_tolerance(tk_dtype dtype);

#endif
