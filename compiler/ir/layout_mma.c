/* Register layouts of dot operands and results: mma.sync, wgmma, sm_70's m8n8k4, and plain FMA.
 *
 * A fragment of the PTX ISA ("Matrix fragments for mma...", with groupID = lane >> 2 and threadID_in_group = lane & 3)
 * is a table of bases. kw is the number of elements that lie next to each other along K in one 32-bit register (16-bit
 * types 2, 8-bit 4, 4-bit 8, tf32 1; f64 counts as 1 with 64-bit registers):
 *
 *   C 16x8 (row, col)   reg (0,1) (8,0)                               lane (0,2) (0,4)     (1,0) (2,0) (4,0)
 *   A 16xK (m, k)       reg (0,1)..(0,kw/2) (8,0) (0,4kw) (0,8kw)..   lane (0,kw) (0,2kw)  (1,0) (2,0) (4,0)
 *   B Kx8  (k, n)       reg (1,0)..(kw/2,0)       (4kw,0) (8kw,0)..   lane (kw,0) (2kw,0)  (0,1) (0,2) (0,4)
 *
 * wgmma's accumulator is C with more columns per warp and four warps along M; its register operand A is A with four
 * warps along M. A CTA's layout is the fragment, times the grid of warps, fitted to the shape. An operand does not see
 * the warps that differ only in the other operand's axis: their bases are zero, that is, these warps hold copies.
 *
 * The rows of wgmma may stand for any rows of a tile, as long as A and the accumulator agree. For fragments that are
 * loaded from 128-byte rows of 32-bit elements along M (K goes down, 16-byte chunks are swizzled by k % 8), bits of the
 * instruction's row become bits of the tile's such that a load is 8 bytes wide and free of bank conflicts: the two rows
 * of one thread are neighbours; of a half warp, four values of k differ in the low two bits of the chunk, and the lane
 * bits for rows in the half of a chunk and in the chunk's high bit:
 *
 *   row of the instruction   lane bits 2 3 4   register bit 1   warp bits 0 1
 *   row of the tile          2  16  4          1                8  32
 *
 * Two facts used elsewhere follow from the tables and are checked in the unit tests: an f16 accumulator is the A
 * operand of the next dot, register by register; an fp8 accumulator is one after K is relabelled by a permutation of
 * its bits.
 *
 * Operands of instructions keep all their registers, also those that a small shape leaves without an element of their
 * own (zero bases): the instruction has as many operands as it has. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

typedef struct coords {
  uint32_t row, col;
} coords;

static void push2(lay_t *l, int dim, uint32_t row, uint32_t col) {
  uint32_t c[2] = {row, col};
  lay_push(l, dim, lay_flat(lay_shape_of(l), c));
}

static lay_t blank2(int rows, int cols) {
  int64_t e[2] = {rows, cols};
  return lay_blank(lay_shape_make(2, e));
}

static const lay_t *tile_a(lay_cx *cx, int m, int k, int kw) {
  lay_t l = blank2(m, k);
  for (int i = 1; i < kw; i *= 2) push2(&l, LAY_REG, 0, (uint32_t)i);
  if (m == 16) push2(&l, LAY_REG, 8, 0);
  for (int i = 4 * kw; i < k; i *= 2) push2(&l, LAY_REG, 0, (uint32_t)i);
  push2(&l, LAY_LANE, 0, (uint32_t)kw);
  push2(&l, LAY_LANE, 0, 2 * (uint32_t)kw);
  for (uint32_t i = 1; i < 8; i *= 2) push2(&l, LAY_LANE, i, 0);
  return lay_intern(cx, &l);
}

static const lay_t *tile_b(lay_cx *cx, int k, int kw) {
  lay_t l = blank2(k, 8);
  for (int i = 1; i < kw; i *= 2) push2(&l, LAY_REG, (uint32_t)i, 0);
  for (int i = 4 * kw; i < k; i *= 2) push2(&l, LAY_REG, (uint32_t)i, 0);
  push2(&l, LAY_LANE, (uint32_t)kw, 0);
  push2(&l, LAY_LANE, 2 * (uint32_t)kw, 0);
  for (uint32_t i = 1; i < 8; i *= 2) push2(&l, LAY_LANE, 0, i);
  return lay_intern(cx, &l);
}

static const lay_t *tile_c(lay_cx *cx, int m, int n) {
  lay_t l = blank2(m, n);
  push2(&l, LAY_REG, 0, 1);
  if (m == 16) push2(&l, LAY_REG, 8, 0);
  for (int i = 8; i < n; i *= 2) push2(&l, LAY_REG, 0, (uint32_t)i);
  push2(&l, LAY_LANE, 0, 2);
  push2(&l, LAY_LANE, 0, 4);
  for (uint32_t i = 1; i < 8; i *= 2) push2(&l, LAY_LANE, i, 0);
  return lay_intern(cx, &l);
}

const lay_t *lay_mma_tile(lay_cx *cx, lay_operand which, int m, int n, int k, int kw) {
  BASE_ASSERT(m == 8 || m == 16);
  BASE_ASSERT(k >= 4 * kw || which == LAY_C);
  if (which == LAY_A) return tile_a(cx, m, k, kw);
  if (which == LAY_B) {
    BASE_ASSERT(n == 8);
    return tile_b(cx, k, kw);
  }
  return tile_c(cx, m, n);
}

/* A grid of warps; `drop` is the axis that the operand does not have (-1: none). */
static const lay_t *warp_grid(lay_cx *cx, int wm, int wn, bool n_fast, int drop) {
  lay_t l = blank2(drop == 0 ? 1 : wm, drop == 1 ? 1 : wn);
  for (int pass = 0; pass < 2; ++pass) {
    int axis = (pass == 0) == n_fast ? 1 : 0;
    for (int i = 1; i < (axis ? wn : wm); i *= 2) {
      uint32_t at = axis == drop ? 0 : (uint32_t)i;
      push2(&l, LAY_WARP, axis ? 0 : at, axis ? at : 0);
    }
  }
  return lay_intern(cx, &l);
}

const lay_t *lay_mma_operand(lay_cx *cx, lay_operand which, const lay_mma *mma, lay_shape shape) {
  static const int n_first[2] = {1, 0}, k_first_b[2] = {0, 1};
  const lay_t *t = lay_mma_tile(cx, which, mma->m, mma->n, mma->k, mma->kw);
  int drop = which == LAY_A ? 1 : which == LAY_B ? 0 : -1;
  t = lay_product(cx, t, warp_grid(cx, mma->warps_m, mma->warps_n, mma->n_fast, drop));
  return lay_fit(cx, t, shape, which == LAY_B ? k_first_b : n_first);
}

static const lay_t *warpgroup(lay_cx *cx) { return warp_grid(cx, 4, 1, false, -1); }

const lay_t *lay_wgmma_acc(lay_cx *cx, lay_shape shape, int warps, int warps_n) {
  static const int n_first[2] = {1, 0};
  BASE_ASSERT(shape.rank == 2 && warps % (4 * warps_n) == 0);
  int n = (1 << shape.bits[1]) / warps_n;
  const lay_t *t = tile_c(cx, 16, n < 8 ? 8 : n > 256 ? 256 : n);
  t = lay_product(cx, t, warpgroup(cx));
  t = lay_product(cx, t, warp_grid(cx, warps / 4 / warps_n, warps_n, false, -1));
  return lay_fit(cx, t, shape, n_first);
}

const lay_t *lay_wgmma_a(lay_cx *cx, lay_shape shape, int kw, int warps, int warps_n) {
  static const int k_first[2] = {1, 0};
  BASE_ASSERT(shape.rank == 2 && warps % (4 * warps_n) == 0);
  const lay_t *t = lay_product(cx, tile_a(cx, 16, 8 * kw, kw), warpgroup(cx));
  t = lay_product(cx, t, warp_grid(cx, warps / 4 / warps_n, warps_n, false, 1));
  return lay_fit(cx, t, shape, k_first);
}

uint32_t lay_wgmma_row(uint32_t row) {
  static const uint8_t to[] = {1, 4, 2, 0, 3, 5};
  uint32_t moved = row & ~UINT32_C(63);
  for (int i = 0; i < 6; ++i) moved |= (row >> i & 1) << to[i];
  return moved;
}

const lay_t *lay_wgmma_paired(lay_cx *cx, const lay_t *l, int axis) {
  static const int turned[2] = {1, 0};
  lay_t r = *l;
  for (int dim = 0; dim < LAY_NHW; ++dim)
    for (int i = 0; i < l->nbits[dim]; ++i) {
      uint32_t c[2];
      lay_unflat(lay_shape_of(l), l->basis[dim][i], c);
      c[0] = lay_wgmma_row(c[0]);
      r.basis[dim][i] = lay_flat(lay_shape_of(l), c);
    }
  const lay_t *paired = lay_intern(cx, &r);
  return axis ? lay_permute(cx, paired, turned) : paired;
}

const lay_t *lay_volta_tile(lay_cx *cx, lay_operand which, bool row_major, bool acc32) {
  static const coords a_row[2][5] = {{{0, 1}, {0, 2}}, {{1, 0}, {2, 0}, {0, 0}, {0, 0}, {4, 0}}};
  static const coords a_col[2][5] = {{{1, 0}, {2, 0}}, {{0, 1}, {0, 2}, {0, 0}, {0, 0}, {4, 0}}};
  static const coords c_f32[2][5] = {{{0, 1}, {2, 0}, {0, 4}}, {{1, 0}, {0, 2}, {0, 0}, {0, 0}, {4, 0}}};
  static const coords c_f16[2][5] = {{{0, 1}, {0, 2}, {0, 4}}, {{1, 0}, {2, 0}, {0, 0}, {0, 0}, {4, 0}}};
  const coords(*t)[5] = which == LAY_C ? (acc32 ? c_f32 : c_f16) : row_major ? a_row : a_col;
  lay_t l = blank2(8, which == LAY_C ? 8 : 4);
  for (int i = 0; i < (which == LAY_C ? 3 : 2); ++i) push2(&l, LAY_REG, t[0][i].row, t[0][i].col);
  for (int i = 0; i < LAY_LANE_BITS; ++i) push2(&l, LAY_LANE, t[1][i].row, t[1][i].col);
  return lay_intern(cx, &l);
}

const lay_t *lay_fma_operand(lay_cx *cx, lay_operand which, const lay_t *c, int k) {
  BASE_ASSERT(which != LAY_C && c->rank >= 2);
  int axis = which == LAY_A ? c->rank - 1 : c->rank - 2;
  lay_shape one = lay_shape_of(c), full = one;
  one.bits[axis] = 0;
  full.bits[axis] = (uint8_t)lay_log2(k);
  return lay_broadcast(cx, lay_broadcast_back(cx, c, one), full);
}

const lay_t *lay_fma_result(lay_cx *cx, lay_shape shape, int num_warps) {
  BASE_ASSERT(shape.rank >= 2);
  lay_blocking b;
  int threads_left = 1 << LAY_LANE_BITS, warps_left = num_warps;
  int64_t per = (INT64_C(1) << lay_shape_bits(shape)) / (threads_left * num_warps);
  int m = shape.rank - 2, n = shape.rank - 1;
  for (int a = 0; a < shape.rank; ++a) {
    b.order[a] = shape.rank - 1 - a;
    b.per_thread[a] = b.threads[a] = b.warps[a] = 1;
  }
  for (int step = 0; step < 4 && per >= 2; ++step, per /= 2) {
    int a = step % 2 ? m : n;
    if (b.per_thread[a] < 1 << shape.bits[a]) b.per_thread[a] *= 2;
  }
  for (int a = n; a >= 0; --a) {
    int room = (1 << shape.bits[a]) / b.per_thread[a];
    int want = a == n && threads_left > 8 ? 8 : threads_left;
    b.threads[a] = room < want ? room : want;
    threads_left /= b.threads[a];
    room /= b.threads[a];
    want = a == n && warps_left > 1 ? warps_left / 2 : warps_left;
    b.warps[a] = room < want ? room : want;
    warps_left /= b.warps[a];
  }
  b.threads[n] *= threads_left;
  b.warps[n] *= warps_left;
  return lay_blocked(cx, shape, &b);
}
