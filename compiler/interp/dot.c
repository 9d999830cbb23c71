/* dot: acc + a * b, batch after batch: the sum over K from zero, in ascending order for every element, then acc. So a
 * kernel that adds a dot to its accumulator has the same bits as one that hands the accumulator to the dot.
 *
 * f16, bf16 and f8 are widened to f32, where their products are exact, and summed in f32, as tensor cores do apart from
 * the order; a sum of type f16 is rounded when it is complete, and once more with acc. f32 keeps its precision unless
 * the op says tf32: then the operands lose their low 13 bits, which is how the hardware reads them (the split forms
 * tf32x3, bf16x3 and bf16x6 are good approximations of full precision and are computed as that). f64 is f64, i8 is
 * exact and wraps in i32. */
#include "compiler/interp/machine.h"

#define DOT(name, T, C)                                                                   \
  static void dot_##name(const T *a, const T *b, C *c, int64_t m, int64_t n, int64_t k) { \
    for (int64_t i = 0; i < m; i++)                                                       \
      for (int64_t p = 0; p < k; p++) {                                                   \
        const C x = (C)a[i * k + p];                                                      \
        for (int64_t j = 0; j < n; j++) {                                                 \
          const C y = (C)b[p * n + j];                                                    \
          c[i * n + j] += x * y;                                                          \
        }                                                                                 \
      }                                                                                   \
  }
DOT(f32, float, float)
DOT(f64, double, double)
DOT(i8, int8_t, uint32_t)

/* Elements of x as f32, in a block of their own; NULL for types that are multiplied as they are. */
static block *widened(worker *w, const ival *x, tir_dtype d, bool tf32) {
  if (d == DT_f64 || d == DT_i8) return NULL;
  block *b = block_new(&w->pool, x->n * sizeof(float));
  uint32_t *bits = block_at(b);
  if (d == DT_f32)
    memcpy(bits, val_at(x), x->n * sizeof(float));
  else
    tir_eval(OP_cast, 1, &d, &(const void *){val_at(x)}, DT_f32, bits, x->n, (tir_eval_opts){0});
  if (tf32 && d == DT_f32)
    for (size_t i = 0; i < x->n; i++) bits[i] &= UINT32_C(0xffffe000);
  return b;
}

/* A result is undefined if any factor of its row or column is. */
static void undef_of_dot(worker *w, ival *out, const ival *a, const ival *b, int64_t batches, int64_t m, int64_t n,
                         int64_t k) {
  const uint8_t *ua = val_undef(a), *ub = val_undef(b);
  if (!ua && !ub) return;
  uint8_t *u = val_undef_new(w, out);
  for (int64_t t = 0; t < batches; t++)
    for (int64_t p = 0; p < k; p++) {
      for (int64_t i = 0; ua && i < m; i++) {
        uint8_t origin = ua[(t * m + i) * k + p];
        for (int64_t j = 0; origin && j < n; j++) u[(t * m + i) * n + j] = origin;
      }
      for (int64_t j = 0; ub && j < n; j++) {
        uint8_t origin = ub[(t * k + p) * n + j];
        for (int64_t i = 0; origin && i < m; i++) u[(t * m + i) * n + j] = origin;
      }
    }
}

void dot_into(worker *w, ival *out, const ival *a, const tir_type *at, const ival *b, const tir_type *bt,
              const ival *acc, const tir_type *result, bool tf32) {
  tir_dtype d = at->dtype, rd = result->dtype, f32 = DT_f32;
  int r = at->rank;
  int64_t m = at->shape[r - 2], k = at->shape[r - 1], n = result->shape[r - 1], batches = r == 3 ? at->shape[0] : 1;
  block *wa = widened(w, a, d, tf32), *wb = widened(w, b, bt->dtype, tf32);
  const char *pa = wa ? block_at(wa) : val_at(a), *pb = wb ? block_at(wb) : val_at(b);
  bool widens = rd == DT_f16;
  ival made = {0};
  char *c = val_new(w, &made, acc->n, elem_bytes(result));
  block *sum = widens ? block_new(&w->pool, acc->n * sizeof(float)) : NULL;
  char *total = sum ? block_at(sum) : c;
  memset(total, 0, acc->n * (size_t)(sum ? 4 : elem_bytes(result)));
  for (int64_t i = 0; i < batches; i++) {
    int64_t in_a = i * m * k, in_b = i * k * n, in_c = i * m * n;
    if (d == DT_f64)
      dot_f64((const double *)(const void *)pa + in_a, (const double *)(const void *)pb + in_b,
              (double *)(void *)total + in_c, m, n, k);
    else if (d == DT_i8)
      dot_i8((const int8_t *)pa + in_a, (const int8_t *)pb + in_b, (uint32_t *)(void *)total + in_c, m, n, k);
    else
      dot_f32((const float *)(const void *)pa + in_a, (const float *)(const void *)pb + in_b,
              (float *)(void *)total + in_c, m, n, k);
  }
  block_drop(&w->pool, wa);
  block_drop(&w->pool, wb);
  if (sum) tir_eval(OP_cast, 1, &f32, &(const void *){total}, rd, c, acc->n, (tir_eval_opts){0});
  tir_eval(OP_add, 2, (tir_dtype[]){rd, rd}, (const void *[]){val_at(acc), c}, rd, c, acc->n, (tir_eval_opts){0});
  block_drop(&w->pool, sum);
  if (acc->undef) memcpy(val_undef_new(w, &made), val_undef(acc), acc->n);
  undef_of_dot(w, &made, a, b, batches, m, n, k);
  val_take(w, out, &made);
}

void exec_dot(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  const tir_value *a = tir_in(op, 0), *b = tir_in(op, 1);
  bool tf32 = strcmp(tir_attr_str(op, ATTR_precision, "ieee"), "tf32") == 0;
  dot_into(w, val_of(w, op->out[0]), val_of(w, a), a->type, val_of(w, b), b->type, val_of(w, tir_in(op, 2)),
           op->out[0]->type, tf32);
}
