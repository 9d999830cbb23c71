/* Dot by fused multiply-add: each thread holds its piece of the result and, along all of K, the rows and columns that
 * it needs (lay_fma_operand), so that no data moves here. The accumulation runs over K in order, all results of a step
 * next to each other: chains are independent, and each operand is read once per step.
 *
 * Narrow types are widened first: floats to the accumulator's type (f32 for f16, bf16 and f8), integers to i32. */
#include "compiler/llvm/ll_internal.h"

/* Lanes and warps must place the operand's row (axis 0 of the pair) or column as they do the result's. */
static void check_agrees(const lay_t *c, const lay_t *x, int axis) {
  int last = c->rank - 1, other = axis == last ? last - 1 : last;
  for (int h = LAY_LANE; h <= LAY_WARP; h++)
    for (int i = 0; i < c->nbits[h]; i++) {
      BASE_ASSERT(lay_coord(c, axis, c->basis[h][i]) == lay_coord(x, axis, x->basis[h][i]));
      BASE_ASSERT(lay_coord(x, other, x->basis[h][i]) == 0);
      for (int b = 0; b < c->rank - 2; b++)
        BASE_ASSERT(lay_coord(c, b, c->basis[h][i]) == lay_coord(x, b, x->basis[h][i]));
    }
}

static ll_v *widened(ll *e, const tir_value *v, tir_dtype to) {
  int n = ll_regs(v->type);
  ll_v *out = ll_new(e, n);
  ll_cast_all(e, ll_use(e, v), out, n, tir_dtype_of(v->type), to, false, false);
  return out;
}

void ll_dot(ll *e, const tir_op *op) {
  const tir_value *a = tir_in(op, 0), *b = tir_in(op, 1), *acc = tir_in(op, 2), *out = tir_out(op, 0);
  const lay_t *c = out->type->layout;
  tir_dtype d = tir_dtype_of(out->type);
  bool real = dt_is_float(d);
  tir_dtype work = d == DT_f64 ? DT_f64 : real ? DT_f32 : d;
  int rank = out->type->rank, n = ll_regs(out->type);
  int64_t depth = a->type->shape[rank - 1];
  check_agrees(c, a->type->layout, rank - 2);
  check_agrees(c, b->type->layout, rank - 1);
  ll_v *x = widened(e, a, work), *y = widened(e, b, work), *sum = widened(e, acc, work);
  lay_span in_a = ll_register_span(a->type->layout), in_b = ll_register_span(b->type->layout);
  lay_shape sa = lay_shape_of(a->type->layout), sb = lay_shape_of(b->type->layout), sc = lay_shape_of(c);
  for (uint32_t k = 0; k < depth; k++) {
    for (int r = 0; r < n; r++) {
      uint32_t at[LAY_MAX_RANK];
      lay_unflat(sc, lay_apply(c, (uint32_t)r, 0, 0, 0), at);
      uint32_t row = at[rank - 2], col = at[rank - 1];
      at[rank - 1] = k;
      ll_v left = x[ll_register_of(&in_a, lay_flat(sa, at))];
      at[rank - 2] = k;
      at[rank - 1] = col;
      ll_v right = y[ll_register_of(&in_b, lay_flat(sb, at))];
      at[rank - 2] = row;
      sum[r] = real ? ll_intrinsic(e, IN_fma, 3, (ll_v[]){left, right, sum[r]})
                    : LLVMBuildAdd(e->b, LLVMBuildMul(e->b, left, right, ""), sum[r], "");
    }
  }
  ll_v *to = ll_new(e, n);
  ll_cast_all(e, sum, to, n, work, d, false, false);
  ll_def(e, out, to);
}
