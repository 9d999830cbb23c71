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

static int64_t stride(argument_list *l, const char *name, int64_t otherwise) {
  const argument *a = argument_named(l, name);
  return a ? a->scalar.v.i : otherwise;
}

static bool reference_matmul(argument_list *l) {
  array *a = find(l, "a", 2), *b = find(l, "b", 2), *c = find(l, "c", 2);
  if (!a || !b || !c) return false;
  int64_t am = stride(l, "stride_am", a->shape[1]), ak = stride(l, "stride_ak", 1);
  int64_t bk = stride(l, "stride_bk", b->shape[1]), bn = stride(l, "stride_bn", 1);
  int64_t rows = c->shape[0], depth = rows ? (int64_t)a->numel / rows : 0;
  if (depth * rows != (int64_t)a->numel || (rows && depth * c->shape[1] != (int64_t)b->numel)) return false;
  for (int64_t m = 0; m < rows; m++)
    for (int64_t n = 0; n < c->shape[1]; n++) {
      double sum = 0;
      for (int64_t k = 0; k < depth; k++)
        sum += array_get(a, (size_t)(m * am + k * ak)) * array_get(b, (size_t)(k * bk + n * bn));
      put(c, m, n, sum);
    }
  return true;
}

static bool reference_batched_matmul(argument_list *l) {
  array *a = find(l, "a", 3), *b = find(l, "b", 3), *c = find(l, "c", 3);
  if (!a || !b || !c || a->shape[2] != b->shape[1]) return false;
  int64_t rows = c->shape[1], columns = c->shape[2], depth = a->shape[2];
  for (int64_t row = 0; row < c->shape[0] * rows; row++) /* of all matrices behind each other */
    for (int64_t n = 0; n < columns; n++) {
      double sum = 0;
      for (int64_t k = 0; k < depth; k++)
        sum += array_get(a, (size_t)(row * depth + k)) * array_get(b, (size_t)((row / rows * depth + k) * columns + n));
      array_set(c, (size_t)(row * columns + n), sum);
    }
  return true;
}

static bool reference_scaled_matmul(argument_list *l) {
  array *a = find(l, "a", 2), *b = find(l, "b", 2), *c = find(l, "c", 2);
  array *sa = find(l, "scale_a", 1), *sb = find(l, "scale_b", 1);
  if (!a || !b || !c || !sa || !sb || a->shape[1] != b->shape[1]) return false;
  int64_t k = a->shape[1];
  for (int64_t m = 0; m < c->shape[0]; m++)
    for (int64_t n = 0; n < c->shape[1]; n++) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++) sum += at(a, m, i) * at(b, n, i);
      put(c, m, n, sum * array_get(sa, (size_t)m) * array_get(sb, (size_t)n));
    }
  return true;
}

static bool attend(argument_list *l, bool causal) {
  array *q = find(l, "q", 4), *k = find(l, "k", 4), *v = find(l, "v", 4), *o = find(l, "o", 4);
  array *lse = find(l, "lse", 2);
  argument *scale = argument_named(l, "scale");
  if (!q || !k || !v || !o || !scale || scale->scalar.kind != TK_ARG_FLOAT) return false;
  enum { MAX_D = 256 };
  int64_t t = q->shape[2], d = q->shape[3], heads = q->shape[0] * q->shape[1];
  if (d > MAX_D) return false;
  for (int64_t row = 0; row < heads * t; row++) {
    int64_t head = row / t * t, last = causal ? row : head + t - 1;
    double top = -INFINITY, total = 0, sum[MAX_D] = {0};
    for (int pass = 0; pass < 3; pass++) /* the largest score, the sum of exponentials, the weighted sum of v */
      for (int64_t x = head; x <= last; x++) {
        double score = 0;
        for (int64_t i = 0; i < d; i++)
          score += array_get(q, (size_t)(row * d + i)) * array_get(k, (size_t)(x * d + i)) * scale->scalar.v.f;
        if (pass == 0) top = fmax(top, score);
        if (pass == 1) total += exp(score - top);
        for (int64_t i = 0; pass == 2 && i < d; i++)
          sum[i] += exp(score - top) / total * array_get(v, (size_t)(x * d + i));
      }
    for (int64_t i = 0; i < d; i++) array_set(o, (size_t)(row * d + i), sum[i]);
    if (lse) array_set(lse, (size_t)row, (top + log(total)) / log(2));
  }
  return true;
}

static bool reference_attention(argument_list *l) { return attend(l, false); }
static bool reference_causal_attention(argument_list *l) { return attend(l, true); }

static double dot_rows(const array *a, int64_t row_a, const array *b, int64_t row_b, int64_t d) {
  double sum = 0;
  for (int64_t i = 0; i < d; i++) sum += array_get(a, (size_t)(row_a * d + i)) * array_get(b, (size_t)(row_b * d + i));
  return sum;
}

/* to[row] += factor * from[other] */
static void add_row(array *to, int64_t row, double factor, const array *from, int64_t other, int64_t d) {
  for (int64_t i = 0; i < d; i++) {
    size_t at = (size_t)(row * d + i);
    array_set(to, at, array_get(to, at) + factor * array_get(from, (size_t)(other * d + i)));
  }
}

static bool attend_backward(argument_list *l, bool causal) {
  array *q = find(l, "q", 4), *k = find(l, "k", 4), *v = find(l, "v", 4), *o = find(l, "o", 4), *g = find(l, "grad", 4);
  array *lse = find(l, "lse", 2), *dq = find(l, "dq", 4), *dk = find(l, "dk", 4), *dv = find(l, "dv", 4);
  argument *scale = argument_named(l, "scale");
  if (!q || !k || !v || !o || !g || !lse || !dq || !dk || !dv || !scale || dk->dtype != TK_f32) return false;
  int64_t t = q->shape[2], d = q->shape[3];
  double factor = scale->scalar.v.f;
  for (int64_t row = 0; row < q->shape[0] * q->shape[1] * t; row++) {
    int64_t head = row / t * t, last = causal ? row : head + t - 1;
    double delta = dot_rows(g, row, o, row, d);
    for (int64_t x = head; x <= last; x++) {
      double p = exp2(dot_rows(q, row, k, x, d) * factor / log(2) - array_get(lse, (size_t)row));
      double ds = p * (dot_rows(g, row, v, x, d) - delta) * factor;
      add_row(dv, x, p, g, row, d);
      add_row(dq, row, ds, k, x, d);
      add_row(dk, x, ds, q, row, d);
    }
  }
  return true;
}

static bool reference_attention_backward(argument_list *l) { return attend_backward(l, false); }
static bool reference_causal_attention_backward(argument_list *l) { return attend_backward(l, true); }

reference_fn reference_named(const char *name) {
#define REFERENCE(f) \
  if (!strcmp(name, #f)) return reference_##f;
#include "tests/reference.def"
#undef REFERENCE
  return NULL;
}
