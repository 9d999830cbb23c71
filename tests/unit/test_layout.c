/* Linear layouts: algebra, fragment tables against the formulas of the PTX ISA, shape operations, text. */
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct place {
  int row, col;
} place;

static place at(const lay_t *l, uint32_t reg, uint32_t lane, uint32_t warp) {
  uint32_t c[2];
  lay_unflat(lay_shape_of(l), lay_apply(l, reg, lane, warp, 0), c);
  return (place){(int)c[0], (int)c[1]};
}

static void assert_place(place got, int row, int col, const char *what, int lane, int i) {
  cr_assert(got.row == row && got.col == col, "%s: element %d of lane %d is (%d,%d), the ISA says (%d,%d)", what, i,
            lane, got.row, got.col, row, col);
}

/* ---- GF(2) ------------------------------------------------------------------------------------------------------- */

Test(layout, gf2_on_all_small_matrices) {
  /* Every 3x3 matrix, and every 3x4 one for the null space. */
  for (uint32_t code = 0; code < 1u << 12; ++code) {
    uint32_t c[4] = {code & 7, code >> 3 & 7, code >> 6 & 7, code >> 9 & 7}, inv[3];
    uint64_t null[4];
    int reached = 0, zero = 0, n = lay_nullspace(c, 4, null);
    bool hit[8] = {false};
    for (uint32_t x = 0; x < 16; ++x) {
      uint32_t y = lay_mul(c, x);
      reached += !hit[y];
      hit[y] = true;
      zero += y == 0;
    }
    cr_assert_eq(1 << lay_rank(c, 4), reached);
    cr_assert_eq(1 << n, zero);
    for (int i = 0; i < n; ++i) cr_assert_eq(lay_mul(c, null[i]), 0);
    if (c[3]) continue;
    bool ok = lay_invert(c, 3, inv);
    cr_assert_eq(ok, lay_rank(c, 3) == 3);
    for (uint32_t x = 0; ok && x < 8; ++x) cr_assert_eq(lay_mul(inv, lay_mul(c, x)), x);
  }
}

Test(layout, gf2_intersection_and_complement) {
  for (uint32_t code = 0; code < 1u << 12; ++code) {
    uint32_t a[2] = {code & 7, code >> 3 & 7}, b[2] = {code >> 6 & 7, code >> 9 & 7}, both[2], rest[5];
    int n = lay_intersect(a, 2, b, 2, both);
    lay_span sa, sb, si;
    lay_span_init(&sa);
    lay_span_init(&sb);
    lay_span_init(&si);
    lay_span_add_all(&sa, a, 2);
    lay_span_add_all(&sb, b, 2);
    lay_span_add_all(&si, both, n);
    cr_assert_eq(lay_span_dim(&si), n);
    for (uint32_t v = 0; v < 8; ++v) cr_assert_eq(lay_span_has(&si, v), lay_span_has(&sa, v) && lay_span_has(&sb, v));
    int k = lay_complement(a, 2, 3, rest);
    memcpy(rest + k, a, sizeof a);
    cr_assert_eq(lay_rank(rest, k + 2), 3);
    cr_assert_eq(k, 3 - lay_rank(a, 2));
  }
}

/* ---- fragments --------------------------------------------------------------------------------------------------- */

typedef struct shape_row {
  const char *name;
  int m, n, k, kw;
} shape_row;

static const shape_row mma_shapes[] = {
    {"m16n8k8.f16", 16, 8, 8, 2},  {"m16n8k16.f16", 16, 8, 16, 2}, {"m16n8k4.tf32", 16, 8, 4, 1},
    {"m16n8k8.tf32", 16, 8, 8, 1}, {"m8n8k16.s8", 8, 8, 16, 4},    {"m16n8k16.s8", 16, 8, 16, 4},
    {"m16n8k32.s8", 16, 8, 32, 4}, {"m16n8k32.fp8", 16, 8, 32, 4}, {"m16n8k32.s4", 16, 8, 32, 8},
    {"m16n8k64.s4", 16, 8, 64, 8}, {"m8n8k4.f64", 8, 8, 4, 1},     {"m16n8k4.f64", 16, 8, 4, 1},
    {"m16n8k8.f64", 16, 8, 8, 1},  {"m16n8k16.f64", 16, 8, 16, 1},
};
enum { N_SHAPES = sizeof mma_shapes / sizeof *mma_shapes };

static bool is(const char *name, const char *what) { return strcmp(name, what) == 0; }
static bool ends(const char *name, const char *what) { return strstr(name, what) != NULL; }

/* From the PTX ISA's text for each shape: "row = groupID for a_i where .., col = ..". */
static place isa_a(const char *name, int lane, int i) {
  int g = lane >> 2, t = lane & 3;
  if (ends(name, ".f16")) return (place){i < 2 || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  if (is(name, "m16n8k4.tf32") || is(name, "m16n8k4.f64")) return (place){i == 0 ? g : g + 8, t};
  if (is(name, "m16n8k8.tf32") || is(name, "m16n8k8.f64"))
    return (place){i == 0 || i == 2 ? g : g + 8, i == 0 || i == 1 ? t : t + 4};
  if (is(name, "m16n8k16.f64")) return (place){i % 2 == 0 ? g : g + 8, t + 4 * (i / 2)};
  if (is(name, "m8n8k4.f64")) return (place){g, t};
  if (is(name, "m8n8k16.s8")) return (place){g, t * 4 + i};
  if (is(name, "m16n8k16.s8")) return (place){i < 4 ? g : g + 8, t * 4 + (i & 3)};
  if (is(name, "m16n8k32.s8") || is(name, "m16n8k32.fp8"))
    return (place){i < 4 || (i >= 8 && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  if (is(name, "m16n8k32.s4")) return (place){i < 8 ? g : g + 8, t * 8 + (i & 7)};
  return (place){i < 8 || (i >= 16 && i < 24) ? g : g + 8, t * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
}

static place isa_b(const char *name, int lane, int i) {
  int g = lane >> 2, t = lane & 3;
  if (ends(name, ".f16")) return (place){t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g};
  if (ends(name, ".tf32") || ends(name, ".f64")) return (place){t + 4 * i, g};
  if (ends(name, ".s8") || ends(name, ".fp8")) return (place){t * 4 + (i & 3) + (i >= 4 ? 16 : 0), g};
  return (place){t * 8 + (i & 7) + (i >= 8 ? 32 : 0), g};
}

static place isa_c(const char *name, int lane, int i) {
  int g = lane >> 2, t = lane & 3;
  return (place){strncmp(name, "m8", 2) == 0 || i < 2 ? g : g + 8, t * 2 + (i & 1)};
}

Test(layout, mma_fragments_follow_the_isa) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  int checked = 0;
  for (int s = 0; s < N_SHAPES; ++s) {
    const shape_row *r = &mma_shapes[s];
    for (int which = LAY_A; which <= LAY_C; ++which) {
      const lay_t *l = lay_mma_tile(cx, (lay_operand)which, r->m, r->n, r->k, r->kw);
      cr_assert(l->flags & LAY_SURJECTIVE && l->flags & LAY_INJECTIVE && l->flags & LAY_UNIT, "%s", r->name);
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < lay_regs(l); ++i, ++checked) {
          place p = which == LAY_A   ? isa_a(r->name, lane, i)
                    : which == LAY_B ? isa_b(r->name, lane, i)
                                     : isa_c(r->name, lane, i);
          assert_place(at(l, (uint32_t)i, (uint32_t)lane, 0), p.row, p.col, r->name, lane, i);
        }
    }
  }
  cr_assert(checked > 6000, "%d", checked);
  arena_free(a);
}

Test(layout, wgmma_and_volta_fragments_follow_the_isa) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  for (int n = 8; n <= 256; n *= 2) {
    const lay_t *l = lay_wgmma_acc(cx, sim_shape2(64, n), 4, 1);
    for (int tid = 0; tid < 128; ++tid)
      for (int i = 0; i < n / 2; ++i)
        assert_place(at(l, (uint32_t)i, (uint32_t)tid % 32, (uint32_t)tid / 32),
                     16 * (tid / 32) + tid % 32 / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (tid % 4) + i % 2, "wgmma D",
                     tid, i);
  }
  for (int kw = 1; kw <= 4; kw *= 2) {
    const lay_t *l = lay_wgmma_a(cx, sim_shape2(64, 8 * kw), kw, 4, 1);
    for (int tid = 0; tid < 128; ++tid)
      for (int i = 0; i < 4 * kw; ++i)
        assert_place(at(l, (uint32_t)i, (uint32_t)tid % 32, (uint32_t)tid / 32),
                     16 * (tid / 32) + tid % 32 / 4 + 8 * (i / kw % 2), tid % 4 * kw + i % kw + 4 * kw * (i / kw / 2),
                     "wgmma A", tid, i);
  }
  const lay_t *row = lay_volta_tile(cx, LAY_A, true, false), *col = lay_volta_tile(cx, LAY_A, false, false);
  const lay_t *f32 = lay_volta_tile(cx, LAY_C, false, true), *f16 = lay_volta_tile(cx, LAY_C, false, false);
  for (int lane = 0; lane < 32; ++lane) {
    int hi = lane >= 16 ? 4 : 0;
    for (int i = 0; i < 4; ++i) {
      assert_place(at(row, (uint32_t)i, (uint32_t)lane, 0), lane % 4 + hi, i, "m8n8k4 A row", lane, i);
      assert_place(at(col, (uint32_t)i, (uint32_t)lane, 0), i + hi, lane % 4, "m8n8k4 A col", lane, i);
    }
    for (int i = 0; i < 8; ++i) {
      assert_place(at(f32, (uint32_t)i, (uint32_t)lane, 0), (lane & 1) + (i & 2) + hi, (i & 4) + (lane & 2) + (i & 1),
                   "m8n8k4 C f32", lane, i);
      assert_place(at(f16, (uint32_t)i, (uint32_t)lane, 0), lane % 4 + hi, i, "m8n8k4 C f16", lane, i);
    }
  }
  arena_free(a);
}

Test(layout, dot_operands_of_a_cta) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  lay_mma m = {16, 8, 16, 2, 4, 2, true};
  const lay_t *la = lay_mma_operand(cx, LAY_A, &m, sim_shape2(128, 64));
  const lay_t *lb = lay_mma_operand(cx, LAY_B, &m, sim_shape2(64, 128));
  const lay_t *lc = lay_mma_operand(cx, LAY_C, &m, sim_shape2(128, 128));
  for (uint32_t lane = 0; lane < 32; ++lane)
    for (uint32_t w = 0; w < 8; ++w) {
      /* warp = 2 * warp_m + warp_n; reg bits of A: (0,1) (8,0) (0,8) then k 16, 32, then m 64 */
      place c = at(lc, 0, lane, w), pa = at(la, 0, lane, w), pb = at(lb, 0, lane, w);
      cr_assert(c.row == (int)(w / 2 * 16 + lane / 4) && c.col == (int)(w % 2 * 8 + lane % 4 * 2));
      cr_assert(pa.row == c.row && pa.col == (int)(lane % 4 * 2));
      cr_assert(pb.col == (int)(w % 2 * 8 + lane / 4) && pb.row == (int)(lane % 4 * 2));
    }
  cr_assert_eq(lay_regs(la), 8 * 4 * 2);
  cr_assert_eq(at(la, 8, 0, 0).col, 16);
  cr_assert_eq(at(la, 32, 0, 0).row, 64);
  cr_assert_eq(at(lb, 4, 0, 0).row, 16);
  arena_free(a);
}

Test(layout, fma_operands_hold_what_the_result_needs) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  static const int sizes[][3] = {{64, 64, 32}, {16, 16, 16}, {128, 32, 8}, {32, 128, 1}, {256, 128, 16}};
  for (int s = 0; s < 5; ++s)
    for (int warps = 1; warps <= 8; warps *= 2) {
      int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
      const lay_t *c = lay_fma_result(cx, sim_shape2(m, n), warps);
      const lay_t *la = lay_fma_operand(cx, LAY_A, c, k), *lb = lay_fma_operand(cx, LAY_B, c, k);
      cr_assert(c->flags & LAY_SURJECTIVE && la->flags & LAY_SURJECTIVE && lb->flags & LAY_SURJECTIVE);
      for (uint32_t w = 0; w < (uint32_t)warps; ++w)
        for (uint32_t lane = 0; lane < 32; lane += 5) {
          bool *rows = arena_alloc(a, (size_t)m * (size_t)k), *cols = arena_alloc(a, (size_t)n * (size_t)k);
          for (int r = 0; r < lay_regs(la); ++r) rows[lay_apply(la, (uint32_t)r, lane, w, 0)] = true;
          for (int r = 0; r < lay_regs(lb); ++r) cols[lay_apply(lb, (uint32_t)r, lane, w, 0)] = true;
          for (int r = 0; r < lay_regs(c); ++r) {
            place p = at(c, (uint32_t)r, lane, w);
            for (int i = 0; i < k; ++i) cr_assert(rows[p.row * k + i] && cols[i * n + p.col]);
          }
        }
    }
  arena_free(a);
}

/* Rows of either order of a tile, as 8-byte loads without bank conflicts; the result holds the same rows. */
Test(layout, wgmma_rows_are_loaded_in_pairs) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  static const int turned[2] = {1, 0};
  static const int sizes[][4] = {{64, 8, 4, 1}, {64, 32, 8, 2}, {128, 32, 4, 1}, {128, 32, 8, 1}, {256, 64, 8, 1}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
    for (int axis = 0; axis < 2; ++axis) {
      int rows = sizes[s][0], k = sizes[s][1], warps = sizes[s][2], warps_n = sizes[s][3];
      const lay_t *plain = lay_wgmma_a(cx, sim_shape2(rows, k), 1, warps, warps_n);
      const lay_t *l = lay_wgmma_paired(cx, plain, axis);
      const lay_t *acc = lay_wgmma_paired(cx, lay_wgmma_acc(cx, sim_shape2(rows, 32), warps, warps_n), axis);
      const sh_t *sh = lay_sh_tma(cx, sim_shape2(k, rows), 1, 128, 4);
      lay_access way = lay_sh_access(cx, a, l, axis ? sh : lay_sh_permute(cx, sh, turned), 4, 16);
      cr_assert(way.vec == 2 && way.wavefronts == way.ideal, "%dx%d: %d wide, %d wavefronts, not %d", rows, k, way.vec,
                way.wavefronts, way.ideal);
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t w = 0; w < (uint32_t)warps; ++w)
          for (uint32_t i = 0; i < 4; ++i) {
            place was = at(plain, i, lane, w), is = at(l, i, lane, w);
            int row = (int)lay_wgmma_row((uint32_t)was.row);
            cr_assert(is.row == (axis ? was.col : row) && is.col == (axis ? row : was.col));
            /* registers 0 and 1 of A hold the rows of registers 0 and 2 of the accumulator */
            place sum = at(acc, i % 2 * 2, lane, w);
            cr_assert_eq(axis ? sum.col : sum.row, row);
          }
    }
  arena_free(a);
}

/* The accumulator of one dot as the A operand of the next: the two facts that chained dots rest on. */
Test(layout, accumulators_as_operands) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  cr_assert_eq(lay_wgmma_acc(cx, sim_shape2(64, 128), 4, 1), lay_wgmma_a(cx, sim_shape2(64, 128), 2, 4, 1));
  lay_mma m = {16, 8, 16, 2, 4, 1, true};
  cr_assert_eq(lay_mma_operand(cx, LAY_C, &m, sim_shape2(64, 64)), lay_mma_operand(cx, LAY_A, &m, sim_shape2(64, 64)));
  /* fp8: with the registers n1, n8, m8, n16, .. and K relabelled by a permutation of its bits. */
  const lay_t *c = lay_wgmma_acc(cx, sim_shape2(64, 128), 4, 1), *fp8 = lay_wgmma_a(cx, sim_shape2(64, 128), 4, 4, 1);
  uint32_t c_reg[LAY_MAX_HWBITS], to[8] = {0};
  memcpy(c_reg, c->basis[LAY_REG], sizeof c_reg);
  c_reg[1] = c->basis[LAY_REG][2];
  c_reg[2] = c->basis[LAY_REG][1];
  for (int h = 0; h < LAY_BLOCK; ++h)
    for (int i = 0; i < c->nbits[h]; ++i) {
      uint32_t from = h == LAY_REG ? c_reg[i] : c->basis[h][i], want = fp8->basis[h][i];
      cr_assert_eq(from >> 7, want >> 7, "the rows must agree");
      cr_assert_eq((from & 127) == 0, (want & 127) == 0);
      if (from & 127) to[__builtin_ctz(from & 127)] = want & 127;
    }
  static const uint32_t relabel[7] = {1, 4, 8, 2, 16, 32, 64}; /* n bit -> k bit: 1->1 2->4 4->8 8->2 */
  for (int i = 0; i < 7; ++i) cr_assert_eq(to[i], relabel[i], "n bit %d goes to k %u", i, to[i]);
  arena_free(a);
}

/* ---- algebra ----------------------------------------------------------------------------------------------------- */

static const int extents[5][2] = {{32, 32}, {64, 32}, {32, 128}, {64, 64}, {128, 32}};

Test(layout, random_algebra) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {1};
  for (int round = 0; round < 120; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    const lay_t *l = sim_any(cx, &rng, sim_shape2(e[0], e[1]), 2 << sim_below(&rng, 3), SIM_ANY);
    static const int swap[2] = {1, 0};
    const lay_t *p = lay_permute(cx, l, swap), *flat = lay_reshape(cx, l, sim_shape1(e[0] * e[1]));
    cr_assert_eq(lay_permute_back(cx, p, swap), l);
    for (int k = 0; k < 20; ++k) {
      uint32_t r = sim_next(&rng) % (uint32_t)lay_regs(l), lane = sim_next(&rng) % 32,
               w = sim_next(&rng) % (uint32_t)lay_warps(l);
      place x = at(l, r, lane, w), y = at(p, r, lane, w);
      cr_assert(x.row == y.col && x.col == y.row);
      cr_assert_eq(lay_apply(flat, r, lane, w, 0), lay_apply(l, r, lane, w, 0));
      cr_assert_eq(lay_coord(l, 0, lay_apply(l, r, lane, w, 0)), (uint32_t)x.row);
    }
    if (!(l->flags & LAY_SURJECTIVE)) continue;
    uint64_t inv[LAY_MAX_BITS];
    uint32_t cols[LAY_MAX_COLS], mask[LAY_NHW], map[LAY_MAX_HWBITS];
    cr_assert(lay_right_inverse(l, inv));
    lay_cols(l, 15, cols);
    uint8_t *owners = arena_alloc(a, (size_t)e[0] * (size_t)e[1]);
    for (uint32_t x = 0; x < (uint32_t)(e[0] * e[1]); x += 7) {
      uint64_t where = 0;
      for (int i = 0; x >> i; ++i)
        if (x >> i & 1) where ^= inv[i];
      cr_assert_eq(lay_mul(cols, where), x);
    }
    lay_free_masks(l, mask);
    const lay_t *d = lay_dedupe(cx, l, map);
    for (uint32_t w = 0; w < (uint32_t)lay_warps(l); ++w)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t r = 0; r < (uint32_t)lay_regs(l); ++r) {
          if (!(w & mask[LAY_WARP]) && !(lane & mask[LAY_LANE]) && !(r & mask[LAY_REG]))
            ++owners[lay_apply(l, r, lane, w, 0)];
          if (lane == 3) cr_assert_eq(lay_apply(d, lay_mul(map, r), lane, w, 0), lay_apply(l, r, lane, w, 0));
        }
    for (int x = 0; x < e[0] * e[1]; ++x) cr_assert_eq(owners[x], 1);
  }
  arena_free(a);
}

Test(layout, product_and_quotient) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  static const int regs[2] = {1, 4}, warps[2] = {4, 1}, order[2] = {1, 0};
  const lay_t *t = lay_mma_tile(cx, LAY_A, 16, 8, 16, 2);
  const lay_t *rest =
      lay_product(cx, lay_identity(cx, LAY_REG, 2, regs, order), lay_identity(cx, LAY_WARP, 2, warps, order));
  const lay_t *big = lay_product(cx, t, rest);
  cr_assert_eq(lay_divide_left(cx, big, t), rest);
  cr_assert_eq(lay_product(cx, t, lay_divide_left(cx, big, t)), big);
  cr_assert_null(lay_divide_left(cx, big, lay_mma_tile(cx, LAY_B, 16, 8, 16, 2)));
  cr_assert_null(lay_divide_left(cx, t, big));
  cr_assert_eq(lay_divide_left(cx, t, t)->nbits[LAY_LANE], 0);
  arena_free(a);
}

Test(layout, blocked_is_what_it_says) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  lay_blocking b = {{1, 8}, {4, 8}, {8, 1}, {1, 0}};
  const lay_t *l = lay_blocked(cx, sim_shape2(128, 64), &b);
  for (uint32_t w = 0; w < 8; ++w)
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t r = 0; r < 32; ++r) {
        place p = at(l, r, lane, w);
        cr_assert_eq(p.col, (int)(lane % 8 * 8 + r % 8));
        cr_assert_eq(p.row, (int)(r / 8 * 32 + w * 4 + lane / 8));
      }
  cr_assert_eq(lay_vec_len(l, 1), 8);
  cr_assert_eq(lay_vec_len(l, 0), 1);
  /* Larger than the tile: registers are dropped, lanes and warps hold copies. */
  l = lay_blocked(cx, sim_shape2(2, 16), &b);
  cr_assert_eq(lay_regs(l), 8);
  cr_assert_eq(l->nbits[LAY_WARP], 3);
  cr_assert(l->flags & LAY_SURJECTIVE && !(l->flags & LAY_INJECTIVE));
  for (int rank = 1; rank <= 4; ++rank)
    for (int n = 1; n <= 4096; n *= 4) {
      int64_t e[4] = {n, 2, 1, 8};
      const lay_t *d = lay_default(cx, lay_shape_make(rank, e), 4);
      cr_assert(d->flags & LAY_SURJECTIVE && d->nbits[LAY_LANE] == 5 && d->nbits[LAY_WARP] == 2);
    }
  arena_free(a);
}

/* ---- shape operations -------------------------------------------------------------------------------------------- */

/* out[r] = in[map[r]] must hold f(element of the result). */
static void assert_view(arena *a, const lay_t *operand, const lay_t *result, const lay_view *v, const char *what) {
  const uint16_t *map = lay_regmap(a, operand, result, v);
  cr_assert_not_null(map, "%s: not thread-local", what);
  for (uint32_t w = 0; w < (uint32_t)lay_warps(result); ++w)
    for (uint32_t lane = 0; lane < 32; ++lane)
      for (uint32_t r = 0; r < (uint32_t)lay_regs(result); ++r)
        cr_assert_eq(lay_apply(operand, map[r], lane, w, 0),
                     lay_mul(v->col, lay_apply(result, r, lane, w, 0)) ^ v->offset, "%s", what);
}

Test(layout, shape_operations_are_renamings) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {2};
  for (int round = 0; round < 60; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    lay_shape s = sim_shape2(e[0], e[1]);
    const lay_t *l = sim_any(cx, &rng, s, 4, SIM_ANY);
    if (!(l->flags & LAY_SURJECTIVE)) continue;
    int bits = lay_bits(l);
    static const int swap[2] = {1, 0};
    lay_view v = lay_view_permute(s, swap);
    assert_view(a, l, lay_permute(cx, l, swap), &v, "permute");
    v = lay_view_identity(bits);
    const lay_t *x = lay_expand_dims(cx, l, 1);
    cr_assert_eq(lay_expand_dims_back(cx, x, 1), l);
    assert_view(a, l, x, &v, "expand_dims");
    lay_shape wide = lay_shape_of(x);
    wide.bits[1] = 2;
    const lay_t *b = lay_broadcast(cx, x, wide);
    v = lay_view_broadcast(lay_shape_of(x), wide);
    assert_view(a, x, b, &v, "broadcast");
    /* The operand that suits any layout of the result: its slice, with fewer registers. */
    const lay_t *any = sim_any(cx, &rng, sim_shape2(e[0], e[1]), 4, SIM_ANY);
    lay_shape one = lay_shape_of(any);
    one.bits[0] = 0;
    const lay_t *back = lay_broadcast_back(cx, any, one);
    v = lay_view_broadcast(one, lay_shape_of(any));
    assert_view(a, back, any, &v, "broadcast, backward");
    const lay_t *j = lay_join(cx, l);
    v = lay_view_join(bits + 1);
    assert_view(a, l, j, &v, "join");
    cr_assert_eq(lay_split(cx, j), l);
    cr_assert_eq(lay_join_back(cx, j), l);
    for (int which = 0; which < 2; ++which) {
      v = lay_view_split(bits, which);
      assert_view(a, j, l, &v, "split");
    }
    const lay_t *c = lay_cat(cx, l);
    cr_assert_eq(lay_bits(c), bits + 1);
    cr_assert_eq(lay_apply(c, (uint32_t)lay_regs(l), 0, 0, 0), 1u << bits);
    for (int axis = 0; axis < 2; ++axis) {
      const lay_t *red = lay_reduced(cx, l, axis);
      const lay_t *again = lay_reduced_back(cx, red, l, axis);
      if (again) cr_assert_eq(lay_reduced(cx, again, axis), red);
      if (l->flags & LAY_UNIT) cr_assert_not_null(again);
    }
  }
  const lay_t *odd = sim_linear(cx, &rng, sim_shape2(256, 2), 4);
  while (odd->basis[LAY_LANE][0] & 1) odd = sim_linear(cx, &rng, sim_shape2(256, 2), 4);
  const lay_t *lanes_last = lay_blocked(cx, sim_shape2(64, 2), &(lay_blocking){{1, 1}, {16, 2}, {4, 1}, {1, 0}});
  cr_assert_null(lay_split(cx, lanes_last), "the last axis lies in a lane");
  arena_free(a);
}

Test(layout, index_terms_give_coordinates) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {3};
  for (int round = 0; round < 60; ++round) {
    const lay_t *l = sim_any(cx, &rng, sim_shape2(64, 64), 4, SIM_ANY);
    for (int axis = 0; axis < 2; ++axis) {
      lay_index x = lay_index_of(a, l, axis);
      if (l->flags & LAY_UNIT) cr_assert(x.terms.disjoint && x.terms.n <= 7);
      for (uint32_t t = 0; t < 128; ++t)
        for (uint32_t r = 0; r < (uint32_t)lay_regs(l); ++r)
          cr_assert_eq(sim_terms(&x.terms, t % 32, t / 32) ^ x.reg[r],
                       lay_coord(l, axis, lay_apply(l, r, t % 32, t / 32, 0)));
      int vec = lay_vec_len(l, axis);
      lay_vectors v = lay_vectors_of(a, l, axis, vec);
      cr_assert_eq(v.vec * v.n_groups, lay_regs(l));
      for (int g = 0; g < v.n_groups; ++g)
        for (uint32_t lane = 0; lane < 32; ++lane) {
          uint32_t first = lay_apply(l, v.regs[g * vec], lane, 1, 0);
          cr_assert_eq(lay_coord(l, axis, first) % (uint32_t)vec, 0);
          for (int i = 1; i < vec; ++i)
            cr_assert_eq(lay_apply(l, v.regs[g * vec + i], lane, 1, 0), first + (uint32_t)i * (axis ? 1 : 64));
        }
    }
  }
  for (int round = 0; round < 60; ++round) { /* registers in any order, each a mix of several steps */
    lay_t l = *sim_blocked(cx, &rng, sim_shape2(64, 64), 4);
    int nr = l.nbits[LAY_REG], vec = lay_vec_len(lay_intern(cx, &l), 1);
    for (int i = 0; i < nr; ++i) {
      int j = sim_below(&rng, nr);
      if (i != j) l.basis[LAY_REG][i] ^= l.basis[LAY_REG][j];
    }
    const lay_t *mixed = lay_intern(cx, &l);
    cr_assert_eq(lay_vec_len(mixed, 1), vec);
    lay_vectors v = lay_vectors_of(a, mixed, 1, vec);
    for (int g = 0; g < v.n_groups; ++g)
      for (int i = 0; i < vec; ++i) {
        uint32_t first = lay_apply(mixed, v.regs[g * vec], 5, 1, 0);
        cr_assert(first % (uint32_t)vec == 0 && lay_apply(mixed, v.regs[g * vec + i], 5, 1, 0) == first + (uint32_t)i);
      }
  }
  const lay_t *b = lay_blocked(cx, sim_shape2(8, 1024), &(lay_blocking){{1, 4}, {1, 32}, {2, 2}, {1, 0}});
  lay_index x = lay_index_of(a, b, 1);
  cr_assert_eq(x.terms.n, 2, "one field of the lane, one of the warp");
  arena_free(a);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

Test(layout, text_reads_back) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {4};
  for (int round = 0; round < 200; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    lay_shape s = sim_shape2(e[0], e[1]);
    const lay_t *l = sim_any(cx, &rng, s, 1 << sim_below(&rng, 6), SIM_ANY);
    if (!(l->flags & LAY_SURJECTIVE)) continue;
    textbuf t;
    text_init(&t, a);
    lay_print(&t, l);
    text_str(&t, " rest");
    const char *p = t.at, *why;
    cr_assert_eq(lay_read(cx, &p, s, &why), l, "%s: %s", t.at, why);
    cr_assert_str_eq(p, " rest");
  }
  textbuf t;
  text_init(&t, a);
  lay_print(&t, lay_blocked(cx, sim_shape2(128, 64), &(lay_blocking){{1, 8}, {4, 8}, {8, 1}, {1, 0}}));
  cr_assert_str_eq(t.at, "r(1..4,2048,4096)l(8..128)w(256..1024)");
  text_init(&t, a);
  lay_print(&t, lay_replicated(cx, sim_shape1(1), 4));
  cr_assert_str_eq(t.at, "r()l(0,0,0,0,0)w(0,0)");
  for (int width = 32; width <= 128; width *= 2) {
    lay_shape s = sim_shape2(64, 128);
    const sh_t *both[] = {lay_sh_tma(cx, s, 1, width, 2), lay_sh_padded(cx, lay_sh_rowmajor(cx, s, NULL), 7, 8),
                          lay_sh_xor(cx, s, 8, 1, 8, NULL)};
    for (int i = 0; i < 3; ++i) {
      text_init(&t, a);
      lay_sh_print(&t, both[i]);
      const char *p = t.at, *why;
      cr_assert_eq(lay_sh_read(cx, &p, s, &why), both[i], "%s: %s", t.at, why);
      cr_assert_eq(*p, 0);
    }
  }
  arena_free(a);
}

Test(layout, bad_text_is_refused_where_it_is_wrong) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  static const struct {
    const char *text;
    int at;
    const char *why;
  } bad[] = {
      {"", 0, "expected"},
      {"r(1,2", 5, "expected"},
      {"r(1;2)l(4..64)w()", 3, "expected"},
      {"r(1)l(2..32)w(1)b", 0, "every element"},
      {"r(1,2)l(4,8)w()", 6, "five lane bases"},
      {"r(1,2)l(4..999)w()", 11, "too large"},
      {"r(1,2)l(4..24)w()", 11, "power of two"},
      {"r(1,2)l(0..0)w()", 11, "power of two"},
      {"r(1,99999999999999999999)l(4..64)w()", 4, "too large"},
      {"r(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)l(4..64)w()", 35, "too many"},
      {"r(1,2)l(4..64)w(0,0,0,0,0,0)", 27, "too many"},
      {"r(1,2)l(4..64)", 14, "expected"},
      {"r(1,1)l(4..64)w()", 0, "every element"},
      {"r(1,-2)l(4..64)w()", 4, "number"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    const char *p = bad[i].text, *why = NULL;
    cr_assert_null(lay_read(cx, &p, sim_shape1(128), &why), "%s was accepted", bad[i].text);
    cr_assert_not_null(why);
    cr_assert_eq(p - bad[i].text, bad[i].at, "%s: at %d", bad[i].text, (int)(p - bad[i].text));
    cr_assert_not_null(strstr(why, bad[i].why), "%s: %s", bad[i].text, why);
  }
  sim_rng rng = {5};
  const char alphabet[] = "rlwbs(),..0123456789";
  for (int round = 0; round < 20000; ++round) { /* any text: an answer, never a crash */
    char text[40];
    size_t n = (size_t)sim_below(&rng, 39);
    for (size_t i = 0; i < n; ++i) text[i] = alphabet[sim_below(&rng, (int)sizeof alphabet - 1)];
    text[n] = 0;
    const char *p = text, *q = text, *why;
    lay_read(cx, &p, sim_shape1(4), &why);
    lay_sh_read(cx, &q, sim_shape1(4), &why);
    cr_assert(p >= text && p <= text + n && q >= text && q <= text + n);
  }
  arena_free(a);
}

Test(layout, equal_layouts_are_one_pointer) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng r1 = {6}, r2 = {6};
  const lay_t *seen[300];
  for (int i = 0; i < 300; ++i) seen[i] = sim_any(cx, &r1, sim_shape2(64, 64), 4, SIM_ANY);
  for (int i = 0; i < 300; ++i) cr_assert_eq(sim_any(cx, &r2, sim_shape2(64, 64), 4, SIM_ANY), seen[i]);
  static const int two[1] = {2}, four[1] = {4};
  cr_assert_neq(lay_identity(cx, LAY_REG, 1, two, NULL), lay_identity(cx, LAY_REG, 1, four, NULL));
  cr_assert_neq(lay_identity(cx, LAY_REG, 1, two, NULL), lay_identity(cx, LAY_LANE, 1, two, NULL));
  arena_free(a);
}
