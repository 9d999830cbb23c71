/* References in double precision, element by element. */
#include "tests/reference.h"

#include <math.h>
#include <string.h>

static array *find(const argument_list *l, const char *name, int rank) {
  argument *a = argument_named(l, name);
  return a && a->is_array && a->host.rank == rank ? &a->host : NULL;
}

static double at(const array *a, int64_t row, int64_t column) {
  return array_get(a, (size_t)(row * a->shape[1] + column));
}
static void put(array *a, int64_t row, int64_t column, double v) {
  array_set(a, (size_t)(row * a->shape[1] + column), v);
}

static bool reference_add(argument_list *l) {
  array *x = find(l, "x", 1), *y = find(l, "y", 1), *out = find(l, "out", 1);
  argument *n = argument_named(l, "n");
  if (!x || !y || !out || !n) return false;
  for (int64_t i = 0; i < n->scalar.v.i; i++)
    array_set(out, (size_t)i, array_get(x, (size_t)i) + array_get(y, (size_t)i));
  return true;
}

static bool reference_softmax(argument_list *l) {
  array *x = find(l, "x", 2), *out = find(l, "out", 2);
  if (!x || !out) return false;
  for (int64_t r = 0; r < x->shape[0]; r++) {
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < x->shape[1]; c++) top = fmax(top, at(x, r, c));
    for (int64_t c = 0; c < x->shape[1]; c++) sum += exp(at(x, r, c) - top);
    for (int64_t c = 0; c < x->shape[1]; c++) put(out, r, c, exp(at(x, r, c) - top) / sum);
  }
  return true;
}

static bool reference_row_sum(argument_list *l) {
  array *x = find(l, "x", 2), *out = find(l, "out", 1);
  if (!x || !out) return false;
  for (int64_t r = 0; r < x->shape[0]; r++) {
    double sum = 0;
    for (int64_t c = 0; c < x->shape[1]; c++) sum += at(x, r, c);
    array_set(out, (size_t)r, sum);
  }
  return true;
}

static bool reference_layer_norm(argument_list *l) {
  array *x = find(l, "x", 2), *w = find(l, "w", 1), *b = find(l, "b", 1), *out = find(l, "out", 2);
  argument *eps = argument_named(l, "eps");
  if (!x || !w || !b || !out || !eps || eps->scalar.kind != TK_ARG_FLOAT) return false;
  int64_t n = x->shape[1];
  for (int64_t r = 0; r < x->shape[0]; r++) {
    double mean = 0, var = 0;
    for (int64_t c = 0; c < n; c++) mean += at(x, r, c) / (double)n;
    for (int64_t c = 0; c < n; c++) var += (at(x, r, c) - mean) * (at(x, r, c) - mean) / (double)n;
    double scale = 1 / sqrt(var + eps->scalar.v.f);
    for (int64_t c = 0; c < n; c++)
      put(out, r, c, (at(x, r, c) - mean) * scale * array_get(w, (size_t)c) + array_get(b, (size_t)c));
  }
  return true;
}

static bool reference_matmul(argument_list *l) {
  array *a = find(l, "a", 2), *b = find(l, "b", 2), *c = find(l, "c", 2);
  if (!a || !b || !c || a->shape[1] != b->shape[0]) return false;
  for (int64_t m = 0; m < c->shape[0]; m++)
    for (int64_t n = 0; n < c->shape[1]; n++) {
      double sum = 0;
      for (int64_t k = 0; k < a->shape[1]; k++) sum += at(a, m, k) * at(b, k, n);
      put(c, m, n, sum);
    }
  return true;
}

reference_fn reference_named(const char *name) {
#define REFERENCE(f) \
  if (!strcmp(name, #f)) return reference_##f;
#include "tests/reference.def"
#undef REFERENCE
  return NULL;
}
