/* Shared memory layouts: TMA boxes and wgmma descriptors, ldmatrix, access plans, the bank model. */
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>

/* What TMA and wgmma do to a byte address in swizzle mode `width`, from the CUDA driver API's description of the modes:
   16-byte chunk index ^= row of 128 bytes, modulo the number of chunks of the width. */
static uint32_t hardware_swizzle(uint32_t byte, uint32_t width) { return byte ^ ((byte >> 7 & (width / 16 - 1)) << 4); }

static uint32_t desc_field(const lay_desc *d, int low) { return (uint32_t)(d->fixed >> low & 0x3fff) << 4; }

/* Where the hardware finds element (m, k) of an instruction, starting at `start`, in a K-major operand; compared with
   the shared layout. And the TMA side: chunk pattern of the programming guide. */
Test(layout_memory, tma_boxes_are_what_wgmma_reads) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  for (uint32_t width = 32; width <= 128; width *= 2)
    for (uint32_t eb = 1; eb <= 4; eb *= 2) {
      uint32_t mn = 128, k = 2 * width / eb > 64 / eb ? 2 * width / eb : 64 / eb, kin = 32 / eb;
      const sh_t *s = lay_sh_tma(cx, sim_shape2((int)mn, (int)k), 1, (int)width, (int)eb);
      lay_desc d;
      cr_assert(lay_sh_desc(s, 0, (int)eb, &d) && !d.transposed);
      cr_assert_eq(d.fixed >> 62, width == 128 ? 1u : width == 64 ? 2u : 3u);
      cr_assert_eq(s->align_bytes, 8 * width);
      for (uint32_t m0 = 0; m0 < mn; m0 += 64)
        for (uint32_t ks = 0; ks < k / kin; ++ks) {
          uint32_t start = m0 / 64 * d.mn_64 + ks / d.box_steps * d.k_box + ks % d.box_steps * d.k_step;
          for (uint32_t m = 0; m < 64; ++m)
            for (uint32_t e = 0; e < kin; ++e) {
              uint32_t addr = start + m / 8 * desc_field(&d, 32) + m % 8 * width + e * eb;
              cr_assert_eq(hardware_swizzle(addr, width), lay_sh_offset(s, (m0 + m) * k + ks * kin + e) * eb);
            }
        }
      uint32_t per = 128 / width;
      for (uint32_t r = 0; r < mn; ++r)
        for (uint32_t c = 0; c < k; c += 16 / eb) {
          uint32_t box = c * eb / width, chunk = (c * eb % width / 16) ^ (r / per % (width / 16));
          cr_assert_eq(lay_sh_offset(s, r * k + c) * eb, box * mn * width + r * width + chunk * 16);
        }
    }
  arena_free(a);
}

Test(layout_memory, mn_major_descriptors) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  for (uint32_t width = 32; width <= 128; width *= 2) {
    uint32_t k = 64, mn = 256, per_box = width / 2;
    const sh_t *s = lay_sh_tma(cx, sim_shape2((int)k, (int)mn), 1, (int)width, 2);
    lay_desc d;
    cr_assert(lay_sh_desc(s, 1, 2, &d) && d.transposed);
    for (uint32_t ks = 0; ks < k / 16; ++ks)
      for (uint32_t x = 0; x < mn; ++x)
        for (uint32_t kk = 0; kk < 16; ++kk) {
          uint32_t addr = ks * d.k_step + x / per_box * desc_field(&d, 16) + x % per_box * 2 +
                          kk / 8 * desc_field(&d, 32) + kk % 8 * width;
          cr_assert_eq(hardware_swizzle(addr, width), lay_sh_offset(s, (ks * 16 + kk) * mn + x) * 2);
        }
    cr_assert_eq(d.mn_64, 64 / per_box * desc_field(&d, 16));
    cr_assert_not(lay_sh_desc(s, 1, 4, &d), "only 16-bit operands may be MN-major");
    static const int swap[2] = {1, 0};
    const sh_t *t = lay_sh_permute(cx, s, swap);
    cr_assert(t->inner_axis == 0 && lay_sh_desc(t, 0, 2, &d) && d.transposed, "a transposed view is the same memory");
    for (uint32_t e = 0; e < 997; ++e)
      cr_assert_eq(lay_sh_offset(t, e % mn * k + e % k), lay_sh_offset(s, e % k * mn + e % mn));
  }
  cr_assert_not(lay_sh_desc(lay_sh_rowmajor(cx, sim_shape2(64, 64), NULL), 0, 2, &(lay_desc){0}));
  cr_assert_eq(lay_sh_tma_width(sim_shape2(64, 64), 1, 2), 128);
  cr_assert_eq(lay_sh_tma_width(sim_shape2(64, 16), 1, 2), 32);
  cr_assert_eq(lay_sh_tma_width(sim_shape2(64, 8), 1, 2), 0);
  arena_free(a);
}

Test(layout_memory, classic_swizzle_equals_one_box) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  static const int pitch[3][3] = {{128, 1, 8}, {64, 2, 4}, {32, 4, 2}};
  for (int i = 0; i < 3; ++i)
    for (int eb = 1; eb <= 4; eb *= 2) {
      lay_shape s = sim_shape2(64, pitch[i][0] / eb);
      const sh_t *x = lay_sh_xor(cx, s, 16 / eb, pitch[i][1], pitch[i][2], NULL),
                 *t = lay_sh_tma(cx, s, 1, pitch[i][0], eb);
      for (uint32_t e = 0; e < 1u << x->d; ++e) cr_assert_eq(lay_sh_offset(x, e), lay_sh_offset(t, e));
    }
  arena_free(a);
}

/* Whoever holds a tile writes and reads it without conflicts, by the whole vectors that copies take. */
Test(layout_memory, straight_layouts_have_no_conflicts) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  for (int eb = 1; eb <= 4; eb *= 2)
    for (int per = 4 / eb; per * eb <= 32; per *= 2)
      for (int axis = 0; axis < 2; ++axis)
        for (int rows = 16; rows <= 256; rows *= 4) {
          lay_shape s = sim_shape2(rows, 64);
          lay_blocking b = {.order = {axis, 1 - axis}};
          int lanes = (rows * 64 >> (axis ? lay_shape_bits(s) - 6 : 6)) / per, vec = per * eb > 16 ? 16 / eb : per;
          if (lanes < 1) continue;
          lanes = lanes > 32 ? 32 : lanes;
          b.per_thread[axis] = per, b.per_thread[1 - axis] = 1;
          b.threads[axis] = lanes, b.threads[1 - axis] = 32 / lanes;
          b.warps[axis] = 1, b.warps[1 - axis] = 4;
          const lay_t *l = lay_blocked(cx, s, &b);
          const sh_t *straight = lay_sh_straight(cx, l, axis, vec);
          lay_access x = lay_sh_access(cx, a, l, straight, eb, 16);
          cr_assert(x.vec == vec && x.wavefronts == x.ideal, "%d bytes, %d a thread, axis %d of %d rows: %d, %d not %d",
                    eb, per, axis, rows, x.vec, x.wavefronts, x.ideal);
          for (int i = 0; 1 << i < vec; ++i) cr_assert_eq(straight->col[lay_axis_shift(s, axis) + i], UINT32_C(1) << i);
        }
  arena_free(a);
}

typedef struct matrix_case {
  const char *name;
  const lay_t *l;
  const sh_t *s;
  int eb;
  bool trans;
  int instructions, swizzled, rowmajor; /* per warp */
} matrix_case;

Test(layout_memory, ldmatrix_is_conflict_free_on_swizzled_tiles) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  const lay_mma f16 = {16, 8, 16, 2, 4, 1, true}, fp8 = {16, 8, 32, 4, 4, 1, true}, tf32 = {16, 8, 8, 1, 4, 1, true};
  const lay_mma along_n = {16, 8, 16, 2, 1, 4, true};
#define A_OF(mma, r, c) lay_mma_operand(cx, LAY_A, &(mma), sim_shape2(r, c))
  const sh_t *acc = lay_sh_tma(cx, sim_shape2(128, 128), 1, 128, 2);
  static const int swap[2] = {1, 0};
  const matrix_case cases[] = {
      {"A (128,64) bf16", A_OF(f16, 128, 64), lay_sh_tma(cx, sim_shape2(128, 64), 1, 128, 2), 2, false, 8, 32, 256},
      {"A (128,32) bf16", A_OF(f16, 128, 32), lay_sh_tma(cx, sim_shape2(128, 32), 1, 64, 2), 2, false, 4, 16, 64},
      {"A (64,16) bf16", A_OF(f16, 64, 16), lay_sh_tma(cx, sim_shape2(64, 16), 1, 32, 2), 2, false, 1, 4, 8},
      {"A (128,128) fp8", A_OF(fp8, 128, 128), lay_sh_tma(cx, sim_shape2(128, 128), 1, 128, 1), 1, false, 8, 32, 256},
      {"A (128,32) tf32", A_OF(tf32, 128, 32), lay_sh_tma(cx, sim_shape2(128, 32), 1, 128, 4), 4, false, 8, 32, 256},
      {"B (64,128) bf16 .trans", lay_mma_operand(cx, LAY_B, &along_n, sim_shape2(64, 128)),
       lay_sh_tma(cx, sim_shape2(64, 128), 1, 128, 2), 2, true, 8, 32, 256},
      {"stmatrix of a wgmma accumulator", lay_wgmma_acc(cx, sim_shape2(128, 128), 8, 1), acc, 2, false, 8, 32, 256},
      {"stmatrix.trans of it", lay_wgmma_acc(cx, sim_shape2(128, 128), 8, 1), lay_sh_permute(cx, acc, swap), 2, true, 8,
       32, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const matrix_case *c = &cases[i];
    lay_matrix m;
    cr_assert(lay_ldmatrix(cx, a, c->l, c->s, c->eb, c->trans, false, &m), "%s", c->name);
    cr_assert_null(sim_ldmatrix(c->l, c->s, c->eb, &m), "%s: %s", c->name, sim_ldmatrix(c->l, c->s, c->eb, &m));
    cr_assert(m.n_matrix == 4 && m.n_groups == c->instructions && m.wavefronts == c->swizzled,
              "%s: %d x%d, %d wavefronts", c->name, m.n_groups, m.n_matrix, m.wavefronts);
    cr_assert(lay_ldmatrix(cx, a, c->l, c->s, c->eb, c->trans, true, &m), "%s", c->name);
    cr_assert_null(sim_ldmatrix(c->l, c->s, c->eb, &m), "%s, load", c->name);
    cr_assert(m.n_groups == c->instructions && m.wavefronts == c->swizzled, "%s, load", c->name);
    for (int k = 0; k < m.n_matrix * m.per_matrix; ++k) cr_assert_eq(m.regs[k], k, "%s: words out of order", c->name);
    cr_assert(lay_ldmatrix(cx, a, c->l, c->s, c->eb, c->trans, false, &m));
    if (!c->rowmajor) continue;
    const sh_t *row = lay_sh_rowmajor(cx, lay_shape_of(c->l), NULL);
    cr_assert(lay_ldmatrix(cx, a, c->l, row, c->eb, c->trans, false, &m));
    cr_assert_null(sim_ldmatrix(c->l, row, c->eb, &m));
    cr_assert_eq(m.wavefronts, c->rowmajor, "%s: %d wavefronts in row-major", c->name, m.wavefronts);
    const sh_t *padded = lay_sh_padded(cx, row, lay_shape_of(c->l).bits[1], 16 / c->eb);
    cr_assert(lay_ldmatrix(cx, a, c->l, padded, c->eb, c->trans, false, &m));
    cr_assert_null(sim_ldmatrix(c->l, padded, c->eb, &m));
    padded = lay_sh_padded(cx, row, lay_shape_of(c->l).bits[1], c->eb == 4 ? 1 : 4 / c->eb);
    cr_assert_not(lay_ldmatrix(cx, a, c->l, padded, c->eb, c->trans, false, &m), "rows would not be aligned");
  }
  lay_matrix m;
  const lay_t *b = lay_mma_operand(cx, LAY_B, &along_n, sim_shape2(64, 128));
  cr_assert_not(lay_ldmatrix(cx, a, b, lay_sh_tma(cx, sim_shape2(64, 128), 1, 128, 2), 2, false, false, &m));
  cr_assert_not(lay_ldmatrix(cx, a, lay_wgmma_acc(cx, sim_shape2(128, 128), 8, 1),
                             lay_sh_rowmajor(cx, sim_shape2(128, 128), NULL), 4, false, false, &m),
                "a 4-byte accumulator does not fit");
  /* Rows that begin inside a 16-byte chunk: one other basis reaches into it. */
  const sh_t *row = lay_sh_rowmajor(cx, sim_shape2(64, 64), NULL);
  lay_t bent = *lay_mma_operand(cx, LAY_A, &f16, sim_shape2(64, 64));
  for (int h = 0; h < LAY_BLOCK; ++h)
    for (int i = 0; i < bent.nbits[h]; ++i) {
      if (!(bent.basis[h][i] & ~7u)) continue;
      bent.basis[h][i] ^= 2;
      cr_assert_not(lay_ldmatrix(cx, a, lay_intern(cx, &bent), row, 2, false, false, &m));
      bent.basis[h][i] ^= 2;
    }
  cr_assert(lay_ldmatrix(cx, a, lay_intern(cx, &bent), row, 2, false, false, &m));
  arena_free(a);
}

Test(layout_memory, access_plans_reach_every_element) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  sim_rng rng = {7};
  static const int sizes[4][2] = {{32, 32}, {64, 32}, {32, 64}, {64, 64}};
  for (int round = 0; round < 150; ++round) {
    const int *e = sizes[sim_below(&rng, 4)];
    lay_shape shape = sim_shape2(e[0], e[1]);
    int eb = 1 << sim_below(&rng, 4), inner = sim_below(&rng, 2);
    const lay_t *l = sim_any(cx, &rng, shape, 1 << sim_below(&rng, 4), SIM_ANY);
    if (!(l->flags & LAY_SURJECTIVE)) continue;
    int order[2] = {inner, 1 - inner}, width = lay_sh_tma_width(shape, inner, eb);
    const sh_t *s[3] = {lay_sh_rowmajor(cx, shape, order), NULL, NULL};
    s[1] = lay_sh_padded(cx, s[0], shape.bits[inner], eb < 16 ? 16 / eb : 1);
    s[2] = width && eb <= 4 ? lay_sh_tma(cx, shape, inner, width, eb) : s[0];
    for (int i = 0; i < 3; ++i) {
      lay_access acc = lay_sh_access(cx, a, l, s[i], eb, 16);
      const char *bad = sim_access(l, s[i], &acc);
      cr_assert_null(bad, "round %d, layout %d: %s", round, i, bad);
      cr_assert(acc.wavefronts >= acc.ideal);
    }
  }
  const lay_t *rows = lay_blocked(cx, sim_shape2(64, 64), &(lay_blocking){{1, 8}, {4, 8}, {4, 1}, {1, 0}});
  lay_access acc = lay_sh_access(cx, a, rows, lay_sh_rowmajor(cx, sim_shape2(64, 64), NULL), 2, 16);
  cr_assert(acc.vec == 8 && acc.n_groups == 4 && acc.wavefronts == 16 && acc.ideal == 16);
  acc = lay_sh_access(cx, a, rows, lay_sh_rowmajor(cx, sim_shape2(64, 64), NULL), 2, 4);
  cr_assert(acc.vec == 2 && acc.n_groups == 16);
  arena_free(a);
}

/* Every element is in one part, in the box of the tensor that begins at the part's `first`, where the copy engine looks
   for it; by warp, in a box of the warp that holds it. */
static void check_panels(lay_cx *cx, arena *a, const lay_t *l, int inner, int elem_bytes, bool by_warp, int rounds,
                         int n_boxes) {
  lay_panels p;
  cr_assert(lay_panels_of(cx, a, l, inner, elem_bytes, by_warp, &p));
  cr_assert(p.rounds == rounds && p.n_boxes == n_boxes, "%d rounds, %d boxes", p.rounds, p.n_boxes);
  cr_assert_eq(p.part_bytes << lay_bits(l) >> lay_bits(p.part), (uint32_t)elem_bytes << lay_bits(l));
  cr_assert_eq(p.width * elem_bytes, p.shared->swizzle_bytes);
  uint32_t box = (uint32_t)(p.rows * p.width * elem_bytes), n = (uint32_t)lay_regs(p.part);
  uint8_t *seen = ARENA_ARRAY(a, uint8_t, 1 << lay_bits(l));
  for (uint32_t k = 0; k < (uint32_t)p.rounds; ++k)
    for (uint32_t w = 0; w < (uint32_t)lay_warps(l); ++w) {
      uint32_t ahead = by_warp ? sim_terms(&p.warp_rows, 0, w) : 0;
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t r = 0; r < n; ++r) {
          uint32_t element = lay_apply(l, p.regs[k * n + r], lane, w, 0);
          uint32_t byte = lay_sh_offset(p.shared, lay_apply(p.part, r, lane, w, 0)) * (uint32_t)elem_bytes;
          uint32_t at = hardware_swizzle(byte, p.shared->swizzle_bytes) - ahead * p.shared->swizzle_bytes, b = 0;
          while (b < (uint32_t)p.n_boxes && at - p.from[b] >= box) ++b;
          cr_assert_lt(b, (uint32_t)p.n_boxes, "element %u is in no box", element);
          uint32_t first = p.first[k * (uint32_t)p.n_boxes + b], in = (at - p.from[b]) / (uint32_t)elem_bytes;
          cr_assert_eq(lay_coord(l, inner, element), lay_coord(l, inner, first) + in % (uint32_t)p.width);
          cr_assert_eq(lay_coord(l, 1 - inner, element),
                       lay_coord(l, 1 - inner, first) + ahead + in / (uint32_t)p.width);
          ++seen[element];
        }
    }
  for (int i = 0; i < 1 << lay_bits(l); ++i) cr_assert_eq(seen[i], 1, "element %d is stored %d times", i, seen[i]);
}

Test(layout_memory, panels_are_boxes_of_the_tile) {
  arena *a = arena_new();
  lay_cx *cx = lay_cx_new(a);
  const lay_t *below = lay_wgmma_acc(cx, sim_shape2(128, 256), 8, 1),
              *beside = lay_wgmma_acc(cx, sim_shape2(64, 256), 8, 2),
              *twice = lay_wgmma_acc(cx, sim_shape2(128, 64), 4, 1);
  check_panels(cx, a, below, 1, 2, false, 4, 1);
  check_panels(cx, a, below, 1, 4, false, 8, 1);
  check_panels(cx, a, below, 1, 1, false, 2, 1);
  check_panels(cx, a, below, 0, 2, false, 4, 2); /* the warpgroups have a box each, and rounds share the columns */
  check_panels(cx, a, beside, 1, 2, false, 2, 2);
  check_panels(cx, a, beside, 1, 4, false, 4, 2);
  check_panels(cx, a, lay_wgmma_acc(cx, sim_shape2(64, 16), 4, 1), 1, 2, false, 1, 1);
  check_panels(cx, a, lay_wgmma_acc(cx, sim_shape2(256, 64), 8, 1), 1, 2, false, 2, 1); /* rows from the last on */
  check_panels(cx, a, below, 1, 2, true, 4, 1);
  check_panels(cx, a, below, 1, 4, true, 8, 1);
  check_panels(cx, a, twice, 1, 2, true, 1, 2); /* a warp's rows are apart */
  check_panels(cx, a, lay_wgmma_acc(cx, sim_shape2(64, 16), 4, 1), 1, 2, true, 1, 1);
  lay_panels p;
  cr_assert_not(lay_panels_of(cx, a, lay_wgmma_acc(cx, sim_shape2(64, 8), 4, 1), 1, 2, false, &p), "a row of 16 bytes");
  cr_assert_not(lay_panels_of(cx, a, beside, 1, 2, true, &p), "warps beside each other");
  cr_assert_not(lay_panels_of(cx, a, below, 0, 2, true, &p), "warps along the rows of a box");
  arena_free(a);
}

Test(layout_memory, bank_model) {
  uint32_t addr[32];
  for (uint32_t stride = 1; stride <= 64; ++stride) {
    for (uint32_t i = 0; i < 32; ++i) addr[i] = 4 * stride * i;
    uint32_t conflict = 1;
    while (conflict < 32 && stride % (2 * conflict) == 0) conflict *= 2;
    cr_assert_eq(lay_wavefronts(addr, 32, 4), (int)conflict, "stride of %u words", stride);
  }
  for (uint32_t i = 0; i < 32; ++i) addr[i] = 64;
  cr_assert_eq(lay_wavefronts(addr, 32, 4), 1, "one word is broadcast");
  for (uint32_t i = 0; i < 32; ++i) addr[i] = i;
  cr_assert_eq(lay_wavefronts(addr, 32, 1), 1, "bytes of one word do not conflict");
  for (uint32_t i = 0; i < 32; ++i) addr[i] = 16 * i;
  cr_assert_eq(lay_wavefronts(addr, 32, 16), 4);
  for (uint32_t i = 0; i < 32; ++i) addr[i] = 128 * i;
  cr_assert_eq(lay_wavefronts(addr, 32, 16), 32);
  for (uint32_t i = 0; i < 32; ++i) addr[i] = i < 4 ? 128 * i : UINT32_MAX;
  cr_assert_eq(lay_wavefronts(addr, 32, 4), 4, "lanes that are off cost nothing");
}
