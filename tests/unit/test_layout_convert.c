/* Conversion plans: every plan is executed on element ids; shared memory without conflicts; the typical cases by name.
 */
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>
#include <string.h>

static const int extents[5][2] = {{32, 32}, {64, 32}, {32, 64}, {64, 64}, {128, 32}};

static const lay_t *surjective(lay_cx *cx, sim_rng *r, lay_shape s, int warps, unsigned kinds) {
  for (;;) {
    const lay_t *l = sim_any(cx, r, s, warps, kinds);
    if (l->flags & LAY_SURJECTIVE) return l;
  }
}

Test(layout_convert, random_pairs_through_shared_memory_without_conflicts) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {11};
  static const unsigned kinds[4] = {SIM_BLOCKED, SIM_BLOCKED | SIM_MMA, SIM_MMA, SIM_ANY};
  int n = 0, rowmajor = 0, best = 0;
  for (int round = 0; round < 200; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    lay_shape s = sim_shape2(e[0], e[1]);
    int warps = 2 << sim_below(&rng, 3), eb = 1 << sim_below(&rng, 4);
    unsigned k = kinds[sim_below(&rng, 4)];
    const lay_t *src = surjective(cx, &rng, s, warps, k), *dst = surjective(cx, &rng, s, warps, k);
    lay_cvt_options opt = {.no_shuffle = true};
    const lay_cvt *c = lay_convert(cx, a, src, dst, 8 * eb, &opt);
    cr_assert_not_null(c);
    const char *bad = sim_convert(c);
    cr_assert_null(bad, "round %d: %s", round, bad);
    if (c->kind != LAY_CVT_SHARED) continue;
    ++n;
    const lay_exchange *x = c->shared;
    const lay_access *st = &x->store.vectors, *ld = &x->load.vectors;
    cr_assert(!x->store.by_matrix && !x->load.by_matrix);
    cr_assert(st->wavefronts == st->ideal && ld->wavefronts == ld->ideal, "round %d has conflicts", round);
    cr_assert(st->vec * eb <= 16 && ld->vec * eb <= 16);
    cr_assert_eq(x->bytes, (uint32_t)(e[0] * e[1] * eb));
    best += st->wavefronts + ld->wavefronts;
    const sh_t *row = lay_sh_rowmajor(cx, s, NULL);
    rowmajor += lay_sh_access(cx, a, src, row, eb, 16).wavefronts + lay_sh_access(cx, a, dst, row, eb, 16).wavefronts;
  }
  cr_assert(n > 180 && rowmajor > 3 * best, "%d pairs, %d wavefronts, row-major %d", n, best, rowmajor);
  arena_free(a);
}

Test(layout_convert, rounds_keep_the_scratch_small) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {12};
  int with_rounds = 0, impossible = 0;
  for (int round = 0; round < 120; ++round) {
    lay_shape s = sim_shape2(64, 128);
    int eb = 1 << sim_below(&rng, 4);
    const lay_t *src = surjective(cx, &rng, s, 4, SIM_BLOCKED | SIM_MMA), *dst = surjective(cx, &rng, s, 4, SIM_ANY);
    lay_cvt_options opt = {.no_shuffle = true, .max_scratch = (uint32_t)(64 * 128 * eb) >> (1 + sim_below(&rng, 3))};
    const lay_cvt *c = lay_convert(cx, a, src, dst, 8 * eb, &opt);
    if (!c) {
      ++impossible;
      continue;
    }
    const char *bad = sim_convert(c);
    cr_assert_null(bad, "round %d: %s", round, bad);
    if (c->kind != LAY_CVT_SHARED) continue;
    cr_assert(c->shared->bytes <= opt.max_scratch && c->shared->rounds > 1);
    ++with_rounds;
  }
  /* Without options: 128 KB go in rounds of 32. */
  const lay_t *rows = lay_blocked(cx, sim_shape2(256, 128), &(lay_blocking){{1, 4}, {8, 4}, {8, 1}, {1, 0}});
  const lay_t *columns = lay_blocked(cx, sim_shape2(256, 128), &(lay_blocking){{4, 1}, {8, 4}, {8, 1}, {0, 1}});
  const lay_cvt *big = lay_convert(cx, a, rows, columns, 32, NULL);
  cr_assert(big->kind == LAY_CVT_SHARED && big->shared->rounds == 4 && big->shared->bytes == 32768);
  cr_assert_null(sim_convert(big));
  /* One register bit in common that could count rounds: two halves. */
  const lay_t *other = lay_blocked(cx, sim_shape2(256, 128), &(lay_blocking){{1, 4}, {1, 32}, {8, 1}, {1, 0}});
  const lay_t *upright = lay_blocked(cx, sim_shape2(256, 128), &(lay_blocking){{4, 1}, {32, 1}, {1, 8}, {0, 1}});
  big = lay_convert(cx, a, other, upright, 32, NULL);
  cr_assert(big && big->shared->rounds == 2 && big->shared->bytes == 65536);
  cr_assert_null(sim_convert(big));
  cr_assert_null(lay_convert(cx, a, other, upright, 32, &(lay_cvt_options){.max_scratch = 49152}));
  cr_assert(with_rounds > 30 && impossible < 80, "%d with rounds, %d impossible", with_rounds, impossible);
  arena_free(a);
}

/* A pair that needs no movement between warps: two invertible mixes of the same register and lane space, with replicas.
 */
static void intra_warp_pair(lay_cx *cx, sim_rng *r, const lay_t **src, const lay_t **dst, bool *linear) {
  static const int shapes[3][2] = {{32, 16}, {16, 64}, {64, 32}};
  const int *e = shapes[sim_below(r, 3)];
  lay_shape s = sim_shape2(e[0], e[1]);
  int d = lay_shape_bits(s), nw = sim_below(r, 3), perm[LAY_MAX_BITS];
  for (int i = 0; i < d; ++i) {
    int j = sim_below(r, i + 1);
    perm[i] = perm[j];
    perm[j] = i;
  }
  *linear = sim_chance(r, 34);
  for (int side = 0; side < 2; ++side) {
    lay_t l = {.rank = 2, .nbits = {0, 5, (uint8_t)nw}};
    memcpy(l.axis_bits, s.bits, sizeof l.axis_bits);
    uint32_t v[LAY_MAX_BITS];
    int n = d - nw;
    for (int i = 0; i < nw; ++i) l.basis[LAY_WARP][i] = 1u << perm[i];
    for (int i = 0; i < n; ++i) {
      int j = sim_below(r, i + 1);
      v[i] = v[j];
      v[j] = 1u << perm[nw + i];
    }
    if (*linear) {
      uint32_t mixed[LAY_MAX_BITS];
      lay_span seen;
      lay_span_init(&seen);
      for (int have = 0; have < n;) {
        uint32_t x = lay_mul(v, sim_next(r) & ((1u << n) - 1));
        if (lay_span_add(&seen, x)) mixed[have++] = x;
      }
      memcpy(v, mixed, sizeof v[0] * (size_t)n);
    }
    for (int i = 0; i < 5; ++i) l.basis[LAY_LANE][i] = v[i];
    for (int i = 5; i < n; ++i) l.basis[LAY_REG][l.nbits[LAY_REG]++] = v[i];
    if (!*linear && sim_chance(r, 30))
      for (int k = 1 + sim_below(r, 2); k > 0; --k) {
        int j = sim_below(r, 5);
        if (!l.basis[LAY_LANE][j]) continue;
        l.basis[LAY_REG][l.nbits[LAY_REG]++] = l.basis[LAY_LANE][j];
        l.basis[LAY_LANE][j] = 0;
      }
    *(side ? dst : src) = lay_intern(cx, &l);
  }
}

Test(layout_convert, random_pairs_by_shuffles) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {13};
  int by_shuffle = 0, at_bound = 0, words = 0, shuffles = 0;
  for (int round = 0; round < 400; ++round) {
    const lay_t *src = NULL, *dst = NULL;
    bool linear;
    intra_warp_pair(cx, &rng, &src, &dst, &linear);
    int bits = 8 << sim_below(&rng, 4);
    cr_assert(lay_movement(src, dst) <= LAY_MOVE_WARP);
    lay_cvt_options opt = {.no_shared = true};
    const lay_cvt *c = lay_convert(cx, a, src, dst, bits, &opt);
    cr_assert(c && c->kind != LAY_CVT_SHARED, "round %d fell back to shared memory", round);
    const char *bad = sim_convert(c);
    cr_assert_null(bad, "round %d: %s", round, bad);
    if (c->kind != LAY_CVT_SHUFFLE) continue;
    ++by_shuffle;
    words += c->shuffle->n_words * (bits == 64 ? 2 : 1);
    shuffles += c->shuffle->shuffles;
    int need = 0; /* a shuffle brings at most 32 bits to a lane */
    for (uint32_t lane = 0; lane < 32; ++lane) {
      int missing = 0;
      const lay_t *d = lay_dedupe(cx, dst, NULL);
      for (int r = 0; r < lay_regs(d); ++r) {
        bool have = false;
        for (int q = 0; q < lay_regs(src) && !have; ++q)
          have = lay_apply(src, (uint32_t)q, lane, 0, 0) == lay_apply(d, (uint32_t)r, lane, 0, 0);
        missing += !have;
      }
      if (missing > need) need = missing;
    }
    int bound = (need * bits + 31) / 32;
    cr_assert(c->shuffle->shuffles >= bound, "round %d: the simulator must be wrong", round);
    at_bound += c->shuffle->shuffles == bound;
  }
  cr_assert(by_shuffle > 350 && shuffles <= words && 2 * at_bound > by_shuffle,
            "%d plans, %d shuffles for %d words, %d at the bound", by_shuffle, shuffles, words, at_bound);
  arena_free(a);
}

/* With warp bases that differ inside the allowed span or fewer copies on one side: whatever is chosen must be right. */
Test(layout_convert, random_pairs_with_copies) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {14};
  int kinds[4] = {0};
  for (int round = 0; round < 300; ++round) {
    lay_shape s = sim_shape2(1 << sim_below(&rng, 6), 1 << sim_below(&rng, 6));
    int warps = 1 << sim_below(&rng, 4);
    const lay_t *src = sim_blocked(cx, &rng, s, warps), *dst = sim_blocked(cx, &rng, s, warps);
    if (sim_chance(&rng, 20)) dst = lay_default(cx, s, warps);
    if (sim_chance(&rng, 20)) src = lay_replicated(cx, s, warps);
    if (sim_chance(&rng, 20)) { /* slices of one layout: row statistics */
      const lay_t *wide = sim_mma(cx, &rng, sim_shape2(64, 64), warps);
      if (!(wide->flags & LAY_SURJECTIVE)) continue;
      src = lay_slice(cx, wide, 1);
      dst = lay_slice(cx, sim_blocked(cx, &rng, sim_shape2(64, 64), warps), 1);
    }
    const lay_cvt *c = lay_convert(cx, a, src, dst, 32, NULL);
    cr_assert_not_null(c);
    const char *bad = sim_convert(c);
    cr_assert_null(bad, "round %d, kind %d: %s", round, c->kind, bad);
    ++kinds[c->kind];
    cr_assert_eq(lay_convert_cost(cx, src, dst, 32), c->cost);
    cr_assert_eq(lay_convert_cost(cx, src, dst, 32), c->cost);
    cr_assert((c->cost == 0) == (c->kind <= LAY_CVT_REGS) || c->kind == LAY_CVT_SHUFFLE);
  }
  for (int k = 0; k < 4; ++k) cr_assert(kinds[k] > 2, "kind %d was tried %d times", k, kinds[k]);
  arena_free(a);
}

typedef struct typical {
  const char *name;
  const lay_t *src, *dst;
  int eb;
  lay_move level;
  lay_cvt_kind kind;
  int shuffles, selects;                  /* SHUFFLE */
  int st_n, st_bytes, ld_n, ld_bytes, wf; /* SHARED: accesses and their bytes, wavefronts of both sides */
} typical;

#define BLOCKED(r, c, p0, p1, t0, t1, w0, w1, o0) \
  lay_blocked(cx, sim_shape2(r, c), &(lay_blocking){{p0, p1}, {t0, t1}, {w0, w1}, {o0, 1 - o0}})

Test(layout_convert, typical_conversions) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  const lay_mma grid = {16, 8, 16, 2, 4, 2, true}, column = {16, 8, 16, 2, 4, 1, true},
                tf32 = {16, 8, 8, 1, 4, 1, true};
  const lay_t *mma_a = lay_mma_operand(cx, LAY_A, &grid, sim_shape2(128, 64));
  const lay_t *mma_c = lay_mma_operand(cx, LAY_C, &grid, sim_shape2(128, 128));
  const lay_t *wg = lay_wgmma_acc(cx, sim_shape2(128, 128), 4, 1), *wg64 = lay_wgmma_acc(cx, sim_shape2(64, 128), 4, 1);
  const lay_t *c64 = lay_mma_operand(cx, LAY_C, &column, sim_shape2(64, 64));
  const lay_t *rows = BLOCKED(64, 64, 1, 4, 2, 16, 4, 1, 1), *columns = BLOCKED(64, 64, 4, 1, 16, 2, 1, 4, 0);
  const lay_t *x = lay_intern(
      cx, &(lay_t){.rank = 2, .axis_bits = {3, 5}, .nbits = {3, 5}, .basis = {{1, 2, 4}, {8, 16, 32, 64, 128}}});
  const lay_t *y = lay_intern(
      cx, &(lay_t){.rank = 2, .axis_bits = {3, 5}, .nbits = {3, 5}, .basis = {{1, 2, 8}, {4, 16, 32, 64, 128}}});
  const lay_t *lanes =
      lay_intern(cx, &(lay_t){.rank = 1, .axis_bits = {5}, .nbits = {0, 5}, .basis = {{0}, {1, 2, 4, 8, 16}}});
  const lay_t *other =
      lay_intern(cx, &(lay_t){.rank = 1, .axis_bits = {5}, .nbits = {0, 5}, .basis = {{0}, {4, 8, 16, 1, 2}}});
  const lay_t *per_lane = lay_intern(
      cx, &(lay_t){.rank = 1, .axis_bits = {6}, .nbits = {0, 5, 2}, .basis = {{0}, {1, 2, 4, 8, 0}, {16, 32}}});
  const typical cases[] = {
      {"bf16 coalesced -> mma A", BLOCKED(128, 64, 1, 8, 4, 8, 8, 1, 1), mma_a, 2, LAY_MOVE_BLOCK, LAY_CVT_SHARED, 0, 0,
       8, 8, 8, 16, 48},
      {"f32 mma C -> coalesced", mma_c, BLOCKED(128, 128, 1, 4, 1, 32, 8, 1, 1), 4, LAY_MOVE_BLOCK, LAY_CVT_SHARED, 0,
       0, 16, 16, 16, 16, 128},
      {"bf16 mma C -> coalesced", mma_c, BLOCKED(128, 128, 1, 8, 2, 16, 8, 1, 1), 2, LAY_MOVE_BLOCK, LAY_CVT_SHARED, 0,
       0, 16, 8, 8, 16, 64},
      {"bf16 wgmma C -> coalesced", wg, BLOCKED(128, 128, 1, 8, 2, 16, 4, 1, 1), 2, LAY_MOVE_BLOCK, LAY_CVT_SHARED, 0,
       0, 16, 16, 16, 16, 128},
      {"bf16 wgmma C -> wgmma A", wg64, lay_wgmma_a(cx, sim_shape2(64, 128), 2, 4, 1), 2, LAY_MOVE_THREAD, LAY_CVT_NOOP,
       0, 0, 0, 0, 0, 0, 0},
      {"fp8 wgmma C -> wgmma A", wg64, lay_wgmma_a(cx, sim_shape2(64, 128), 4, 4, 1), 1, LAY_MOVE_WARP, LAY_CVT_SHARED,
       0, 0, 4, 16, 4, 16, 32},
      {"bf16 mma C -> mma A", c64, lay_mma_operand(cx, LAY_A, &column, sim_shape2(64, 64)), 2, LAY_MOVE_THREAD,
       LAY_CVT_NOOP, 0, 0, 0, 0, 0, 0, 0},
      {"tf32 mma C -> mma A", c64, lay_mma_operand(cx, LAY_A, &tf32, sim_shape2(64, 64)), 4, LAY_MOVE_WARP,
       LAY_CVT_SHARED, 0, 0, 8, 16, 8, 16, 64},
      {"f32 transpose", rows, columns, 4, LAY_MOVE_BLOCK, LAY_CVT_SHARED, 0, 0, 8, 16, 32, 4, 64},
      {"f32 row statistic -> one per lane", lay_reduced(cx, lay_wgmma_acc(cx, sim_shape2(64, 64), 4, 1), 1), per_lane,
       4, LAY_MOVE_WARP, LAY_CVT_SHUFFLE, 2, 4, 0, 0, 0, 0, 0},
      {"f32 swap of a register and a lane bit", x, y, 4, LAY_MOVE_WARP, LAY_CVT_SHUFFLE, 4, 16, 0, 0, 0, 0, 0},
      {"bf16 swap of a register and a lane bit", x, y, 2, LAY_MOVE_WARP, LAY_CVT_SHUFFLE, 2, 8, 0, 0, 0, 0, 0},
      {"f32 lanes permuted", lanes, other, 4, LAY_MOVE_WARP, LAY_CVT_SHUFFLE, 1, 0, 0, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const typical *t = &cases[i];
    const lay_cvt *c = lay_convert(cx, a, t->src, t->dst, 8 * t->eb, NULL);
    cr_assert_not_null(c, "%s", t->name);
    const char *bad = sim_convert(c);
    cr_assert_null(bad, "%s: %s", t->name, bad);
    cr_assert_eq(c->level, t->level, "%s: level %d", t->name, c->level);
    cr_assert_eq(c->kind, t->kind, "%s: kind %d", t->name, c->kind);
    if (c->kind == LAY_CVT_SHUFFLE)
      cr_assert(c->shuffle->shuffles == t->shuffles && c->shuffle->selects == t->selects, "%s: %d shuffles, %d selects",
                t->name, c->shuffle->shuffles, c->shuffle->selects);
    if (c->kind == LAY_CVT_SHARED) {
      const lay_access *st = &c->shared->store.vectors, *ld = &c->shared->load.vectors;
      cr_assert(st->wavefronts + ld->wavefronts == t->wf, "%s: %d wavefronts", t->name,
                st->wavefronts + ld->wavefronts);
      cr_assert(st->n_groups == t->st_n && st->vec * t->eb == t->st_bytes && ld->n_groups == t->ld_n &&
                    ld->vec * t->eb == t->ld_bytes,
                "%s: st %dx%d ld %dx%d", t->name, st->n_groups, st->vec * t->eb, ld->n_groups, ld->vec * t->eb);
      cr_assert_eq(c->shared->warp_local, t->level == LAY_MOVE_WARP);
    }
  }
  arena_free(a);
}

/* The same kind, level, scratch and rounds as without matrices; right, and without conflicts on either side. */
static const lay_cvt *with_matrices(lay_cx *cx, arena *a, const lay_cvt *c, bool stmatrix, bool ldmatrix,
                                    const char *name) {
  const lay_cvt *m = lay_with_matrices(cx, a, c, stmatrix, ldmatrix);
  cr_assert_eq(m->kind, c->kind);
  const char *bad = sim_convert(m);
  cr_assert_null(bad, "%s: %s", name, bad);
  if (c->kind != LAY_CVT_SHARED) return m;
  const lay_exchange *x = m->shared, *was = c->shared;
  cr_assert(x->bytes == was->bytes && x->rounds == was->rounds && x->warp_local == was->warp_local &&
            x->warp_free == was->warp_free);
  const lay_way *side[2] = {&x->store, &x->load};
  for (int i = 0; i < 2; ++i) {
    const lay_matrix *b = &side[i]->matrix;
    if (side[i]->by_matrix)
      cr_assert_eq(b->wavefronts, b->n_groups * b->n_matrix, "%s: conflicts of matrices", name);
    else
      cr_assert_eq(side[i]->vectors.wavefronts, side[i]->vectors.ideal, "%s: conflicts", name);
    cr_assert(!side[i]->by_matrix || (i ? ldmatrix : stmatrix));
  }
  return m;
}

Test(layout_convert, random_pairs_by_matrices) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {16};
  int n[2] = {0}, both = 0, trans = 0, rounds = 0;
  for (int round = 0; round < 300; ++round) {
    const int *e = extents[sim_below(&rng, 5)];
    lay_shape s = sim_shape2(e[0], e[1]);
    int warps = 2 << sim_below(&rng, 3), eb = 1 << sim_below(&rng, 4);
    unsigned kinds = sim_chance(&rng, 80) ? SIM_BLOCKED | SIM_MMA : SIM_ANY;
    const lay_t *src = surjective(cx, &rng, s, warps, kinds), *dst = surjective(cx, &rng, s, warps, kinds);
    lay_cvt_options opt = {.no_shuffle = true, .max_scratch = (uint32_t)(e[0] * e[1] * eb) >> sim_below(&rng, 2)};
    const lay_cvt *c = lay_convert(cx, a, src, dst, 8 * eb, &opt);
    if (!c || c->kind != LAY_CVT_SHARED) continue;
    c = with_matrices(cx, a, c, true, true, "random");
    const lay_way *st = &c->shared->store, *ld = &c->shared->load;
    n[0] += st->by_matrix;
    n[1] += ld->by_matrix;
    both += st->by_matrix && ld->by_matrix;
    trans += (st->by_matrix && st->matrix.trans) || (ld->by_matrix && ld->matrix.trans);
    rounds += c->shared->rounds > 1 && (st->by_matrix || ld->by_matrix);
  }
  cr_assert(n[0] > 20 && n[1] > 20 && both > 5 && trans > 5 && rounds > 5,
            "stores %d, loads %d, both %d, transposed %d, in rounds %d", n[0], n[1], both, trans, rounds);
  arena_free(a);
}

/* "8 x4", "8 x4.trans": instructions of a warp by matrices; "16 of 8": by vectors, of so many bytes. */
static const char *way_text(arena *a, const lay_way *w, int eb) {
  const lay_matrix *m = &w->matrix;
  if (w->by_matrix) return arena_printf(a, "%d x%d%s", m->n_groups, m->n_matrix, m->trans ? ".trans" : "");
  return arena_printf(a, "%d of %d", w->vectors.n_groups, w->vectors.vec * eb);
}

typedef struct matrix_case {
  const char *name;
  const lay_t *src, *dst;
  int eb;
  bool stmatrix, ldmatrix;
  const char *store, *load;
  int rounds;
} matrix_case;

Test(layout_convert, typical_conversions_by_matrices) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  const lay_mma grid = {16, 8, 16, 2, 4, 2, true}, other = {16, 8, 16, 2, 2, 4, true};
  const lay_t *wg = lay_wgmma_acc(cx, sim_shape2(128, 256), 8, 1), *rows = BLOCKED(128, 256, 1, 8, 1, 32, 8, 1, 1);
  const lay_t *wg64 = lay_wgmma_acc(cx, sim_shape2(64, 128), 4, 1);
  const lay_t *rows64 = BLOCKED(64, 128, 1, 8, 2, 16, 4, 1, 1), *columns64 = BLOCKED(64, 128, 8, 1, 8, 4, 1, 4, 0);
  const lay_t *bytes64 = BLOCKED(64, 128, 1, 16, 4, 8, 4, 1, 1), *words64 = BLOCKED(64, 128, 1, 4, 1, 32, 4, 1, 1);
  const lay_t *mma_a = lay_mma_operand(cx, LAY_A, &grid, sim_shape2(128, 64));
  const lay_t *mma_b = lay_mma_operand(cx, LAY_B, &grid, sim_shape2(64, 128));
  const lay_t *mma_c = lay_mma_operand(cx, LAY_C, &grid, sim_shape2(128, 64));
  const lay_t *rows_a = BLOCKED(128, 64, 1, 8, 4, 8, 8, 1, 1), *rows_b = BLOCKED(64, 128, 1, 8, 2, 16, 8, 1, 1);
  const matrix_case cases[] = {
      {"16-bit accumulator of [128,256] to rows", wg, rows, 2, true, true, "16 x4", "16 of 16", 2},
      {"16-bit accumulator to rows", wg64, rows64, 2, true, true, "8 x4", "8 of 16", 1},
      {"16-bit accumulator to rows without stmatrix", wg64, rows64, 2, false, true, "8 of 16", "8 x4", 1},
      {"16-bit accumulator to columns", wg64, columns64, 2, true, false, "8 x4.trans", "8 of 16", 1},
      {"8-bit accumulator to rows", wg64, bytes64, 1, true, false, "4 x4", "4 of 16", 1},
      {"32-bit accumulator to rows", wg64, words64, 4, true, false, "16 of 16", "16 of 16", 1},
      {"rows to A of mma.sync", rows_a, mma_a, 2, false, true, "4 of 16", "8 x4", 1},
      {"rows to B of mma.sync", rows_b, mma_b, 2, true, true, "4 of 16", "16 x4.trans", 1},
      {"C of mma.sync to A of others", mma_c, lay_mma_operand(cx, LAY_A, &other, sim_shape2(128, 64)), 2, true, true,
       "4 x4", "16 x4", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const matrix_case *t = &cases[i];
    const lay_cvt *c = lay_convert(cx, a, t->src, t->dst, 8 * t->eb, NULL);
    c = with_matrices(cx, a, c, t->stmatrix, t->ldmatrix, t->name);
    cr_assert_eq(c->kind, LAY_CVT_SHARED, "%s", t->name);
    const char *store = way_text(a, &c->shared->store, t->eb), *load = way_text(a, &c->shared->load, t->eb);
    cr_assert(!strcmp(store, t->store) && !strcmp(load, t->load) && c->shared->rounds == t->rounds,
              "%s: store %s, load %s, %d rounds", t->name, store, load, c->shared->rounds);
  }
  arena_free(a);
}

Test(layout_convert, a_register_permutation_is_free) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {15};
  for (int round = 0; round < 50; ++round) {
    const lay_t *l = sim_linear(cx, &rng, sim_shape2(64, 64), 4);
    lay_t p = *l;
    for (int i = 0; i < p.nbits[LAY_REG]; ++i) { /* an invertible mix of the register bases */
      int j = sim_below(&rng, p.nbits[LAY_REG]);
      if (i != j) p.basis[LAY_REG][i] ^= p.basis[LAY_REG][j];
    }
    const lay_t *dst = lay_intern(cx, &p);
    const lay_cvt *c = lay_convert(cx, a, l, dst, 16, NULL);
    cr_assert(c && c->kind == (l == dst ? LAY_CVT_NOOP : LAY_CVT_REGS) && c->cost == 0);
    cr_assert_null(sim_convert(c));
  }
  arena_free(a);
}
