/* From a layout to index arithmetic: bit-field moves for the lane and warp part, constants for the registers, and
 * groups of registers for vector accesses.
 *
 * The lane/warp part of an index (or of a shared memory address) is a linear function of the bits of lane and warp.
 * Each pair (source bit, result bit) of its matrix is one bit move; pairs on one diagonal that follow each other move
 * together as a field: ((x >> from) & mask) << to. So any linear map is an XOR of field moves; ordinary layouts need
 * one to three. Expanding every bit as (-(x >> i & 1)) & basis, the obvious way, needs one term per bit.
 *
 * Fields that write disjoint result bits may be joined by OR or ADD, and a register constant outside of all the bits
 * that the terms can set may be added: LLVM then folds it into the address. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

typedef VEC(lay_term) term_list;

static void add_dim(arena *a, term_list *t, int dim, const uint32_t *basis, int n) {
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < 32; ++to) {
      if (!(basis[from] >> to & 1)) continue;
      if (from > 0 && to > 0 && (basis[from - 1] >> (to - 1) & 1)) continue; /* inside a run that began earlier */
      int count = 1;
      while (from + count < n && to + count < 32 && (basis[from + count] >> (to + count) & 1)) ++count;
      lay_term field = {(uint8_t)dim, (uint8_t)from, (uint8_t)count, (uint8_t)to};
      VEC_PUSH(a, *t, field);
    }
}

lay_terms lay_terms_of(arena *a, const uint32_t *lane, int n_lane, const uint32_t *warp, int n_warp) {
  term_list t = {0};
  add_dim(a, &t, LAY_LANE, lane, n_lane);
  add_dim(a, &t, LAY_WARP, warp, n_warp);
  lay_terms r = {.n = t.n, .disjoint = true, .at = t.at};
  for (int i = 0; i < t.n; ++i) {
    uint32_t bits = (uint32_t)((UINT64_C(1) << t.at[i].count) - 1) << t.at[i].to;
    if (r.bits & bits) r.disjoint = false;
    r.bits |= bits;
  }
  return r;
}

lay_index lay_index_of(arena *a, const lay_t *l, int axis) {
  uint32_t lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS];
  BASE_ASSERT(l->nbits[LAY_BLOCK] == 0);
  for (int i = 0; i < l->nbits[LAY_LANE]; ++i) lane[i] = lay_coord(l, axis, l->basis[LAY_LANE][i]);
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i) warp[i] = lay_coord(l, axis, l->basis[LAY_WARP][i]);
  lay_index r = {.terms = lay_terms_of(a, lane, l->nbits[LAY_LANE], warp, l->nbits[LAY_WARP])};
  uint32_t *reg = ARENA_ARRAY(a, uint32_t, lay_regs(l));
  for (int i = 0; i < lay_regs(l); ++i) reg[i] = lay_coord(l, axis, lay_apply(l, (uint32_t)i, 0, 0, 0));
  r.reg = reg;
  return r;
}

/* Columns of the registers that hold elements 1, 2, 4, .. of a vector along the axis: at most `max` of them. */
static int vector_bits(const lay_t *l, int axis, int max, uint32_t *reg) {
  lay_shape s = lay_shape_of(l);
  int shift = lay_axis_shift(s, axis), k = 0;
  if (max > s.bits[axis]) max = s.bits[axis];
  lay_span regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, l->basis[LAY_REG], l->nbits[LAY_REG]);
  uint32_t outside = 0;
  for (int h = LAY_LANE; h < LAY_NHW; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) outside |= lay_coord(l, axis, l->basis[h][i]);
  while (k < max && !(outside >> k & 1)) {
    uint64_t x;
    if (!lay_span_solve(&regs, UINT32_C(1) << (shift + k), &x)) break;
    reg[k++] = (uint32_t)x;
  }
  return k;
}

int lay_vec_len(const lay_t *l, int axis) {
  uint32_t reg[LAY_MAX_BITS];
  return 1 << vector_bits(l, axis, LAY_MAX_BITS, reg);
}

lay_vectors lay_vectors_of(arena *a, const lay_t *l, int axis, int vec) {
  uint32_t reg[LAY_MAX_BITS], rest[LAY_MAX_HWBITS];
  int k = lay_log2(vec), nr = l->nbits[LAY_REG];
  BASE_ASSERT(vector_bits(l, axis, k, reg) == k && nr <= 16);
  int n = lay_complement(reg, k, nr, rest);
  for (int i = 0; i < n; ++i) {
    uint32_t c = lay_coord(l, axis, lay_mul(l->basis[LAY_REG], rest[i])) & ((uint32_t)vec - 1);
    rest[i] ^= lay_mul(reg, c);
  }
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, 1 << nr);
  for (int g = 0; g < 1 << n; ++g)
    for (int i = 0; i < vec; ++i)
      regs[g * vec + i] = (uint16_t)(lay_mul(rest, (uint64_t)g) ^ lay_mul(reg, (uint64_t)i));
  return (lay_vectors){vec, 1 << n, regs};
}
