/* What the chapters of layout*.c share beyond layout.h. */
#ifndef IR_LAYOUT_INTERNAL_H
#define IR_LAYOUT_INTERNAL_H

#include "compiler/ir/layout.h"

static inline int lay_log2(int64_t x) {
  BASE_ASSERT(x > 0 && (x & (x - 1)) == 0);
  return __builtin_ctzll((unsigned long long)x);
}

static inline lay_shape lay_sh_shape(const sh_t *s) {
  lay_shape r = {.rank = s->rank};
  for (int a = 0; a < s->rank; ++a) r.bits[a] = s->axis_bits[a];
  return r;
}

/* A layout under construction of this shape, without any bases. */
static inline lay_t lay_blank(lay_shape shape) {
  lay_t l = {.rank = shape.rank};
  for (int a = 0; a < shape.rank; ++a) l.axis_bits[a] = shape.bits[a];
  return l;
}

void lay_push(lay_t *l, int dim, uint32_t basis); /* one more bit of a hardware dim */

/* The layout whose tile bits are moved: bit i of l goes to bit dest[i] of the new shape, or away if dest[i] < 0. */
lay_t lay_move_bits(const lay_t *l, lay_shape shape, const int8_t *dest);

/* dest[] for an operand whose axis a becomes axis to[a] of `shape` (to[a] < 0: the axis is dropped); low bits stay low.
 */
void lay_axis_dest(lay_shape from, lay_shape to_shape, const int8_t *to, int8_t *dest);

/* Positions of the register bits that lay_dedupe keeps: new bit k was old bit kept[k]. Returns how many. */
int lay_kept_regs(const lay_t *l, uint8_t *kept);

/* The register that lay_dedupe renamed to `reg`. */
static inline uint32_t lay_old_reg(uint32_t reg, const uint8_t *kept) {
  uint32_t old = 0;
  for (int b = 0; reg >> b; ++b) old |= (reg >> b & 1) << kept[b];
  return old;
}

/* Registers of l (deduped) in vectors: low[i] holds tile vector vec[i] (each in the span of the registers), rest[0 ..
   returned) enumerate the groups, each at an offset (by the map col) that is a multiple of the vector. */
int lay_group_regs(const lay_t *l, const uint32_t *vec, int n_vec, const uint32_t *col, uint32_t *low, uint32_t *rest);

/* Wavefronts of one unpadded access of a warp to the elements col . l(0, lane), vec elements each; and the least that
   the bytes touched would need. */
void lay_count_access(const lay_t *l, const uint32_t *col, int vec, int elem_bytes, int *wavefronts, int *ideal);

/* The plans that lay_convert chooses from; NULL where there is none. may_exceed: as many rounds as there can be, even
   if they are too few for max_scratch. c: level, layouts and size of elements are read. matrices: whether the store,
   the load may go by them. */
const lay_shuffle *lay_plan_shuffle(lay_cx *cx, arena *a, const lay_t *src, const lay_t *dst, int elem_bits);
const lay_exchange *lay_plan_exchange(lay_cx *cx, arena *a, const lay_cvt *c, uint32_t max_scratch, bool may_exceed,
                                      const bool matrices[2]);

/* The conversion costs that a cx remembers (layout_convert.c). */
typedef struct lay_cost_table lay_cost_table;
lay_cost_table **lay_cx_costs(lay_cx *cx);

#endif
