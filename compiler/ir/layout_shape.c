/* Shape operations on layouts, and the register renaming that implements them.
 *
 * Flat row-major elements make reshape free and turn every other shape operation into moving bits of the bases. Each
 * forward function gives the result layout for which the operation moves no data; each `_back` function gives the
 * operand layout for a wanted result, which rematerialisation and layout assignment need.
 *
 * How an operation is then emitted is one question for all of them: a shape operation is an affine map f from elements
 * of the result to elements of the operand (a lay_view); out register r holds f(result(r, lane, warp)), so it is
 * operand register x with operand(x, 0, 0) = f(result(r, 0, 0)), if lanes and warps of both agree under f. lay_regmap
 * solves that, also when operand and result have different numbers of registers because dependent register bases were
 * dropped. The obvious alternative, a renaming rule per operation on register numbers, is wrong as soon as one of the
 * layouts was deduped or chosen by a pass. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

/* ---- forward ----------------------------------------------------------------------------------------------------- */

const lay_t *lay_reshape(lay_cx *cx, const lay_t *l, lay_shape shape) {
  BASE_ASSERT(lay_shape_bits(shape) == lay_bits(l));
  lay_t r = lay_blank(shape);
  memcpy(r.nbits, l->nbits, sizeof r.nbits);
  memcpy(r.basis, l->basis, sizeof r.basis);
  return lay_intern(cx, &r);
}

const lay_t *lay_permute(lay_cx *cx, const lay_t *l, const int *axes) {
  lay_shape from = lay_shape_of(l), to = from;
  int8_t dest[LAY_MAX_BITS] = {0}, where[LAY_MAX_RANK] = {0};
  for (int a = 0; a < from.rank; ++a) {
    to.bits[a] = from.bits[axes[a]];
    where[axes[a]] = (int8_t)a;
  }
  lay_axis_dest(from, to, where, dest);
  lay_t r = lay_move_bits(l, to, dest);
  return lay_intern(cx, &r);
}

const lay_t *lay_expand_dims(lay_cx *cx, const lay_t *l, int axis) {
  BASE_ASSERT(axis >= 0 && axis <= l->rank && l->rank < LAY_MAX_RANK);
  lay_shape s = {.rank = (uint8_t)(l->rank + 1)};
  for (int a = 0; a < s.rank; ++a) s.bits[a] = a < axis ? l->axis_bits[a] : a == axis ? 0 : l->axis_bits[a - 1];
  return lay_reshape(cx, l, s);
}

const lay_t *lay_broadcast(lay_cx *cx, const lay_t *l, lay_shape shape) {
  lay_shape from = lay_shape_of(l);
  BASE_ASSERT(from.rank == shape.rank);
  int8_t dest[LAY_MAX_BITS] = {0}, same[LAY_MAX_RANK];
  for (int a = 0; a < shape.rank; ++a) {
    BASE_ASSERT(from.bits[a] == shape.bits[a] || from.bits[a] == 0);
    same[a] = (int8_t)a;
  }
  lay_axis_dest(from, shape, same, dest);
  lay_t r = lay_move_bits(l, shape, dest);
  for (int a = shape.rank - 1; a >= 0; --a)
    for (int i = from.bits[a]; i < shape.bits[a]; ++i)
      lay_push(&r, LAY_REG, UINT32_C(1) << (lay_axis_shift(shape, a) + i));
  return lay_intern(cx, &r);
}

static lay_t drop_axis(const lay_t *l, int axis) {
  BASE_ASSERT(axis >= 0 && axis < l->rank);
  lay_shape from = lay_shape_of(l), to = {.rank = (uint8_t)(l->rank - 1)};
  int8_t dest[LAY_MAX_BITS] = {0}, where[LAY_MAX_RANK] = {0};
  for (int a = 0; a < from.rank; ++a) {
    where[a] = (int8_t)(a == axis ? -1 : a - (a > axis));
    if (a != axis) to.bits[where[a]] = from.bits[a];
  }
  lay_axis_dest(from, to, where, dest);
  return lay_move_bits(l, to, dest);
}

const lay_t *lay_slice(lay_cx *cx, const lay_t *l, int axis) {
  lay_t r = drop_axis(l, axis);
  return lay_intern(cx, &r);
}

const lay_t *lay_reduced(lay_cx *cx, const lay_t *l, int axis) { return lay_dedupe(cx, lay_slice(cx, l, axis), NULL); }

const lay_t *lay_join(lay_cx *cx, const lay_t *l) {
  BASE_ASSERT(l->rank < LAY_MAX_RANK);
  lay_shape s = lay_shape_of(l);
  s.bits[s.rank++] = 1;
  lay_t r = lay_blank(s);
  lay_push(&r, LAY_REG, 1);
  for (int h = 0; h < LAY_NHW; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) lay_push(&r, h, l->basis[h][i] << 1);
  return lay_intern(cx, &r);
}

const lay_t *lay_split(lay_cx *cx, const lay_t *l) {
  if (l->rank == 0 || l->axis_bits[l->rank - 1] != 1) return NULL;
  lay_shape s = lay_shape_of(l);
  s.rank--;
  s.bits[s.rank] = 0;
  lay_t r = lay_blank(s);
  int odd = 0, at = -1;
  for (int h = 0; h < LAY_NHW; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) {
      odd += (int)(l->basis[h][i] & 1);
      if (h == LAY_REG && l->basis[h][i] == 1)
        at = i;
      else
        lay_push(&r, h, l->basis[h][i] >> 1);
    }
  return odd == 1 && at >= 0 ? lay_intern(cx, &r) : NULL;
}

const lay_t *lay_cat(lay_cx *cx, const lay_t *l) {
  BASE_ASSERT(l->rank > 0);
  lay_shape s = lay_shape_of(l);
  s.bits[0]++;
  lay_t r = lay_blank(s);
  memcpy(r.nbits, l->nbits, sizeof r.nbits);
  memcpy(r.basis, l->basis, sizeof r.basis);
  lay_push(&r, LAY_REG, UINT32_C(1) << lay_bits(l));
  return lay_intern(cx, &r);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

const lay_t *lay_permute_back(lay_cx *cx, const lay_t *result, const int *axes) {
  int inverse[LAY_MAX_RANK] = {0};
  for (int a = 0; a < result->rank; ++a) inverse[axes[a]] = a;
  return lay_permute(cx, result, inverse);
}

const lay_t *lay_expand_dims_back(lay_cx *cx, const lay_t *result, int axis) {
  BASE_ASSERT(result->axis_bits[axis] == 0);
  return lay_slice(cx, result, axis);
}

const lay_t *lay_broadcast_back(lay_cx *cx, const lay_t *result, lay_shape operand) {
  BASE_ASSERT(result->rank == operand.rank);
  int8_t dest[LAY_MAX_BITS] = {0}, same[LAY_MAX_RANK];
  for (int a = 0; a < operand.rank; ++a) same[a] = (int8_t)a;
  lay_axis_dest(lay_shape_of(result), operand, same, dest);
  lay_t r = lay_move_bits(result, operand, dest);
  return lay_dedupe(cx, lay_intern(cx, &r), NULL);
}

const lay_t *lay_join_back(lay_cx *cx, const lay_t *result) { return lay_split(cx, result); }
const lay_t *lay_split_back(lay_cx *cx, const lay_t *result) { return lay_join(cx, result); }

const lay_t *lay_reduced_back(lay_cx *cx, const lay_t *result, const lay_t *operand, int axis) {
  lay_shape to = lay_shape_of(operand);
  BASE_ASSERT(result->rank + 1 == operand->rank);
  uint32_t along = ((UINT32_C(1) << to.bits[axis]) - 1) << lay_axis_shift(to, axis);
  int8_t dest[LAY_MAX_BITS] = {0}, where[LAY_MAX_RANK] = {0};
  for (int a = 0; a < result->rank; ++a) where[a] = (int8_t)(a < axis ? a : a + 1);
  lay_axis_dest(lay_shape_of(result), to, where, dest);
  lay_t r = lay_move_bits(result, to, dest);
  for (int h = LAY_LANE; h < LAY_NHW; ++h) {
    if (result->nbits[h] != operand->nbits[h]) return NULL;
    for (int i = 0; i < r.nbits[h]; ++i) {
      uint32_t move = operand->basis[h][i] & along;
      if (move && r.basis[h][i]) return NULL;
      r.basis[h][i] |= move;
    }
  }
  for (int i = 0; i < operand->nbits[LAY_REG]; ++i)
    if (operand->basis[LAY_REG][i] && !(operand->basis[LAY_REG][i] & ~along))
      lay_push(&r, LAY_REG, operand->basis[LAY_REG][i]);
  const lay_t *l = lay_intern(cx, &r);
  return l->flags & LAY_SURJECTIVE && lay_reduced(cx, l, axis) == result ? l : NULL;
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

lay_view lay_view_identity(int bits) {
  lay_view v = {.offset = 0};
  for (int i = 0; i < bits; ++i) v.col[i] = UINT32_C(1) << i;
  return v;
}

lay_view lay_view_permute(lay_shape operand, const int *axes) {
  lay_view v = {.offset = 0};
  lay_shape result = operand;
  for (int a = 0; a < operand.rank; ++a) result.bits[a] = operand.bits[axes[a]];
  for (int a = 0; a < operand.rank; ++a)
    for (int i = 0; i < result.bits[a]; ++i)
      v.col[lay_axis_shift(result, a) + i] = UINT32_C(1) << (lay_axis_shift(operand, axes[a]) + i);
  return v;
}

lay_view lay_view_broadcast(lay_shape operand, lay_shape result) {
  lay_view v = {.offset = 0};
  BASE_ASSERT(operand.rank == result.rank);
  for (int a = 0; a < operand.rank; ++a)
    for (int i = 0; i < operand.bits[a]; ++i)
      v.col[lay_axis_shift(result, a) + i] = UINT32_C(1) << (lay_axis_shift(operand, a) + i);
  return v;
}

lay_view lay_view_join(int result_bits) {
  lay_view v = {.offset = 0};
  for (int i = 1; i < result_bits; ++i) v.col[i] = UINT32_C(1) << (i - 1);
  return v;
}

lay_view lay_view_split(int result_bits, int which) {
  lay_view v = {.offset = (uint32_t)which};
  for (int i = 0; i < result_bits; ++i) v.col[i] = UINT32_C(2) << i;
  return v;
}

const uint16_t *lay_regmap(arena *a, const lay_t *operand, const lay_t *result, const lay_view *view) {
  for (int h = LAY_LANE; h < LAY_NHW; ++h) {
    if (operand->nbits[h] != result->nbits[h]) return NULL;
    for (int i = 0; i < result->nbits[h]; ++i)
      if (operand->basis[h][i] != lay_mul(view->col, result->basis[h][i])) return NULL;
  }
  lay_span regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, operand->basis[LAY_REG], operand->nbits[LAY_REG]);
  uint64_t base;
  uint32_t cols[LAY_MAX_HWBITS];
  if (!lay_span_solve(&regs, view->offset, &base)) return NULL;
  for (int i = 0; i < result->nbits[LAY_REG]; ++i) {
    uint64_t x;
    if (!lay_span_solve(&regs, lay_mul(view->col, result->basis[LAY_REG][i]), &x)) return NULL;
    cols[i] = (uint32_t)x;
  }
  int n = lay_regs(result);
  BASE_ASSERT(operand->nbits[LAY_REG] <= 16);
  uint16_t *map = ARENA_ARRAY(a, uint16_t, n);
  for (int r = 0; r < n; ++r) map[r] = (uint16_t)(lay_mul(cols, (uint64_t)r) ^ base);
  return map;
}
