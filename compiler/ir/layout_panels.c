/* Panels: how a tile of registers goes to global memory by the copy engine, part after part. See layout.h.
 *
 * A part is the tile without some bits of its element's number. Those bits must be register bits that move nothing
 * else: then a part is a selection of registers, each with the same layout of threads. Boxes of the contiguous axis
 * beyond the first are left to later parts before rows are, and rows only from the last on, so that a part's boxes have
 * rows side by side. Where a warp moves along the contiguous axis, a part has several boxes.
 *
 * By warp, a box has the rows below the first bit that warps move; rows above that are no warp's make further boxes. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

enum { PART_BYTES = 16384, MOST_ROWS = 256 /* of a box */, LEAST_ROW_BITS = 3 };

/* The register bit that alone moves tile bit `bit`, and moves nothing else; -1: there is none. */
static int own_register_bit(const lay_t *l, int bit) {
  uint32_t unit = UINT32_C(1) << bit;
  int found = -1;
  for (int dim = 0; dim < LAY_NHW; dim++)
    for (int i = 0; i < l->nbits[dim]; i++) {
      if (!(l->basis[dim][i] & unit)) continue;
      if (dim != LAY_REG || l->basis[dim][i] != unit || found >= 0) return -1;
      found = i;
    }
  return found;
}

/* The bits of x at the positions that are set in `kept`, side by side. */
static uint32_t gather(uint32_t x, uint32_t kept) {
  uint32_t out = 0;
  for (int i = 0, to = 0; kept >> i; i++)
    if (kept >> i & 1) out |= (x >> i & 1) << to++;
  return out;
}

static uint32_t scatter(uint32_t x, uint32_t kept) {
  uint32_t out = 0;
  for (int i = 0, from = 0; kept >> i; i++)
    if (kept >> i & 1) out |= (x >> from++ & 1) << i;
  return out;
}

/* The bits of a row's number that warps move, each by itself, and nothing else does; false if it is not so. */
static bool rows_of_warps(const lay_t *l, int outer_at, int n_rows, uint32_t *rows) {
  *rows = 0;
  for (int i = 0; i < l->nbits[LAY_WARP]; i++) {
    uint32_t b = l->basis[LAY_WARP][i], row = b >> outer_at;
    if (!b || b != row << outer_at || row & (row - 1) || row >> n_rows || *rows & row) return false;
    *rows |= row;
  }
  for (int dim = 0; dim < LAY_NHW; dim++)
    for (int i = 0; i < l->nbits[dim]; i++)
      if (dim != LAY_WARP && l->basis[dim][i] & *rows << outer_at) return false;
  return true;
}

static lay_terms warp_rows(arena *a, const lay_t *l, int outer_at) {
  uint32_t rows[LAY_MAX_HWBITS];
  for (int i = 0; i < l->nbits[LAY_WARP]; i++) rows[i] = l->basis[LAY_WARP][i] >> outer_at;
  return lay_terms_of(a, NULL, 0, rows, l->nbits[LAY_WARP]);
}

bool lay_panels_of(lay_cx *cx, arena *a, const lay_t *l, int inner, int elem_bytes, bool by_warp, lay_panels *out) {
  lay_shape shape = lay_shape_of(l);
  if (l->rank != 2) return false;
  int outer = 1 - inner, swizzle = lay_sh_tma_width(shape, inner, elem_bytes);
  if (!swizzle) return false;
  int box_bits = lay_log2(swizzle / elem_bytes), bits = lay_bits(l), part_bits = bits;
  int inner_at = lay_axis_shift(shape, inner), outer_at = lay_axis_shift(shape, outer);
  uint32_t dropped = 0, dropped_regs = 0;
  lay_shape part = shape;
  for (int pass = 0; pass < 2; pass++)
    for (int i = shape.bits[pass ? outer : inner] - 1; i >= (pass ? LEAST_ROW_BITS : box_bits); i--) {
      if ((elem_bytes << part_bits) <= PART_BYTES) break;
      int bit = (pass ? outer_at : inner_at) + i, reg = own_register_bit(l, bit);
      if (reg < 0 && pass) break;
      if (reg < 0) continue;
      dropped |= UINT32_C(1) << bit;
      dropped_regs |= UINT32_C(1) << reg;
      part.bits[pass ? outer : inner]--;
      part_bits--;
    }
  uint32_t of_warps = 0;
  int row_bits = part.bits[outer]; /* of a box */
  if (by_warp) {
    if (!rows_of_warps(l, outer_at, part.bits[outer], &of_warps)) return false;
    while (of_warps & ((UINT32_C(1) << row_bits) - 1)) row_bits--;
    if (row_bits < LEAST_ROW_BITS) return false;
  }
  if (1 << row_bits > MOST_ROWS) return false;

  uint32_t kept = ((UINT32_C(1) << bits) - 1) & ~dropped;
  uint32_t kept_regs = ((UINT32_C(1) << l->nbits[LAY_REG]) - 1) & ~dropped_regs;
  lay_t p = lay_blank(part);
  for (int dim = 0; dim < LAY_NHW; dim++)
    for (int i = 0; i < l->nbits[dim]; i++)
      if (dim != LAY_REG || (kept_regs >> i & 1)) lay_push(&p, dim, gather(l->basis[dim][i], kept));
  *out = (lay_panels){.rounds = 1 << (bits - part_bits),
                      .width = 1 << box_bits,
                      .rows = 1 << row_bits,
                      .part = lay_intern(cx, &p),
                      .shared = lay_sh_tma(cx, part, inner, swizzle, elem_bytes)};
  out->n_buffers = out->rounds > 1 ? 2 : 1;
  out->part_bytes = (uint32_t)elem_bytes << part_bits;
  if (by_warp) out->warp_rows = warp_rows(a, l, outer_at);

  /* Boxes: each width of the contiguous axis, with each of the rows that are not inside a box and no warp's. */
  uint32_t apart = ((UINT32_C(1) << part.bits[outer]) - (UINT32_C(1) << row_bits)) & ~of_warps;
  int n_across = 1 << (part.bits[inner] - box_bits), n_down = 1 << __builtin_popcount(apart),
      n_regs = lay_regs(out->part);
  out->n_boxes = n_across * n_down;
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, out->rounds * n_regs);
  uint32_t *first = ARENA_ARRAY(a, uint32_t, out->rounds * out->n_boxes);
  uint32_t *from = ARENA_ARRAY(a, uint32_t, out->n_boxes), *begins = ARENA_ARRAY(a, uint32_t, out->n_boxes);
  for (int b = 0; b < out->n_boxes; b++) {
    uint32_t across = (uint32_t)(b / n_down), row = scatter((uint32_t)(b % n_down), apart);
    from[b] = ((across << part.bits[outer]) + row) * (uint32_t)swizzle;
    begins[b] = across << (lay_axis_shift(part, inner) + box_bits) | row << lay_axis_shift(part, outer);
  }
  for (int k = 0; k < out->rounds; k++) {
    uint32_t element = scatter((uint32_t)k, dropped), own = 0;
    for (int i = 0; i < l->nbits[LAY_REG]; i++)
      if (l->basis[LAY_REG][i] & element) own |= (dropped_regs >> i & 1) << i;
    for (int r = 0; r < n_regs; r++) regs[k * n_regs + r] = (uint16_t)(scatter((uint32_t)r, kept_regs) | own);
    for (int b = 0; b < out->n_boxes; b++) first[k * out->n_boxes + b] = element | scatter(begins[b], kept);
  }
  out->regs = regs;
  out->from = from;
  out->first = first;
  return true;
}
