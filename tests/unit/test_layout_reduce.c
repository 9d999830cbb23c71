/* Plans of reductions and scans, executed on arrays. */
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>

static uint32_t add(uint32_t x, uint32_t y) { return x + y; }
static uint32_t larger(uint32_t x, uint32_t y) { return x > y ? x : y; }
static uint32_t mix(uint32_t x, uint32_t y) { return x ^ y; }

/* Composition of maps v -> a v + b modulo 251, packed as a << 8 | b: associative, not commutative. */
static uint32_t compose(uint32_t f, uint32_t g) {
  uint32_t a = (f >> 8) * (g >> 8) % 251, b = ((f >> 8) * (g & 255) + (f & 255)) % 251;
  return a << 8 | b;
}

static uint32_t *random_data(arena *a, sim_rng *r, int bits, bool maps) {
  uint32_t *d = ARENA_ARRAY(a, uint32_t, 1 << bits);
  for (int i = 0; i < 1 << bits; ++i)
    d[i] = maps ? (uint32_t)(1 + sim_below(r, 250)) << 8 | (uint32_t)sim_below(r, 251) : (uint32_t)sim_below(r, 1000);
  return d;
}

Test(layout_reduce, random_layouts) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {21};
  static const int extents[4][2] = {{32, 32}, {64, 32}, {16, 64}, {4, 8}};
  static const sim_op ops[3] = {add, larger, mix};
  int n = 0, in_lanes = 0, across_warps = 0, swizzled = 0;
  for (int round = 0; round < 300; ++round) {
    const int *e = extents[sim_below(&rng, 4)];
    lay_shape s = sim_shape2(e[0], e[1]);
    int warps = 1 << sim_below(&rng, 4), axis = sim_below(&rng, 2);
    const lay_t *l = sim_any(cx, &rng, s, warps, e[0] == 4 ? SIM_BLOCKED : SIM_ANY);
    if (!(l->flags & LAY_SURJECTIVE) || l->nbits[LAY_LANE] != 5) continue;
    if (sim_chance(&rng, 20)) l = lay_join(cx, l);
    if (l->rank == 3) axis = sim_below(&rng, 3);
    const lay_reduce *p = lay_reduce_plan(cx, a, l, axis);
    cr_assert_not_null(p);
    cr_assert_eq(p->result, lay_reduced(cx, l, axis));
    const char *bad = sim_reduce(p, random_data(a, &rng, lay_bits(l), false), ops[sim_below(&rng, 3)]);
    cr_assert_null(bad, "round %d: %s", round, bad);
    ++n;
    in_lanes += p->n_lane_steps;
    across_warps += p->n_warp > 1;
    for (int k = 0; k < p->n_lane_steps; ++k) swizzled += p->lane_step[k].partner[0] != 0;
  }
  cr_assert(n > 200 && in_lanes > 200 && across_warps > 50 && swizzled > 20, "%d %d %d %d", n, in_lanes, across_warps,
            swizzled);
  arena_free(a);
}

Test(layout_reduce, what_common_layouts_cost) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  /* One row per program: 8 registers, 5 butterflies, 4 warps through 4 words of scratch. */
  const lay_t *l = lay_blocked(cx, sim_shape1(1024), &(lay_blocking){{8}, {32}, {4}, {0}});
  const lay_reduce *p = lay_reduce_plan(cx, a, l, 0);
  cr_assert(p->n_out == 1 && p->n_fold == 8 && p->n_lane_steps == 5 && p->n_warp == 4 && p->scratch_elems == 4);
  cr_assert_eq(lay_bits(p->result), 0);
  for (int i = 0; i < 8; ++i) cr_assert_eq(p->fold[i], i, "folded in order");
  cr_assert(p->lane_free == 31 && p->warp_free == 0);
  /* Row maxima of an accumulator: two butterflies per row, no scratch. */
  p = lay_reduce_plan(cx, a, lay_wgmma_acc(cx, sim_shape2(64, 128), 4, 1), 1);
  cr_assert(p->n_out == 2 && p->n_fold == 32 && p->n_lane_steps == 2 && p->n_warp == 1);
  cr_assert_eq(p->lane_step[0].lane_xor, 1);
  cr_assert_eq(p->lane_step[1].lane_xor, 2);
  /* A row per warp. */
  p = lay_reduce_plan(cx, a, lay_blocked(cx, sim_shape2(4, 256), &(lay_blocking){{1, 8}, {1, 32}, {4, 1}, {1, 0}}), 1);
  cr_assert(p->n_out == 1 && p->n_lane_steps == 5 && p->n_warp == 1);
  /* A replicated operand: copies are not added twice. */
  p = lay_reduce_plan(cx, a, lay_replicated(cx, sim_shape1(4), 4), 0);
  cr_assert(p->n_out == 1 && p->n_fold == 4 && p->n_lane_steps == 0 && p->n_warp == 1);
  arena_free(a);
}

Test(layout_reduce, scans_of_random_blocked_layouts) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {22};
  static const int extents[5][2] = {{16, 64}, {64, 16}, {8, 256}, {1, 512}, {32, 2}};
  int n = 0, warps_used = 0, chunks = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    lay_shape s = sim_shape2(e[0], e[1]);
    int axis = sim_below(&rng, 2);
    const lay_t *l = sim_any(cx, &rng, s, 1 << sim_below(&rng, 4), s.bits[1] > 4 ? SIM_ANY : SIM_BLOCKED);
    if (!(l->flags & LAY_SURJECTIVE)) continue;
    const lay_scan *p = lay_scan_plan(cx, a, l, axis, sim_chance(&rng, 40));
    if (!p) {
      ++refused;
      l = lay_scan_layout(cx, s, axis, lay_warps(l));
      p = lay_scan_plan(cx, a, l, axis, sim_chance(&rng, 40));
      cr_assert_not_null(p, "the layout made for scans must do");
    }
    const char *bad = sim_scan(p, random_data(a, &rng, lay_bits(l), true), compose);
    cr_assert_null(bad, "round %d: %s", round, bad);
    ++n;
    warps_used += p->n_warp > 1;
    chunks += p->n_chunk > 1;
  }
  cr_assert(n > 300 && warps_used > 50 && chunks > 50 && refused > 5, "%d %d %d %d", n, warps_used, chunks, refused);
  const lay_t *swizzled = sim_linear(cx, &rng, sim_shape2(64, 64), 4);
  cr_assert_null(lay_scan_plan(cx, a, swizzled, 0, false));
  arena_free(a);
}
