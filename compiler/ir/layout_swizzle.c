/* Conversion of register layouts through shared memory, without bank conflicts and with the widest vectors.
 *
 * Wanted: a bijection S from the tile to element offsets such that the store by src and the load by dst are both
 * conflict free. Let V be the vector space (low offset bits), P = V + phase lanes of the writer and Q = V + phase lanes
 * of the reader, each at most 128 bytes. Two lanes of a side collide iff their difference lies in V + Seg (Seg: offset
 * bits of 128 bytes and more) without lying in V. So Seg must meet neither P nor Q; two subspaces of equal dimension
 * always have a common complement: with I = P & Q, pair e_i in P\I with f_i in Q\I and take
 *
 *     Seg = complement(P + Q) + { e_i ^ f_i }
 *
 * Hence every pair of linear layouts converts without conflicts. Row padding, the obvious way, needs 2.8 times the
 * wavefronts on random pairs, and cannot be folded into address bits.
 *
 * Vectors: V0 = vectors in the register spans of both sides that stay independent modulo all lanes and warps (so no
 * lane lands inside a vector); one side may add W, more of its own registers. All sizes of W on either side are
 * candidates, and the cheapest by measured wavefronts + instructions wins.
 *
 * Rounds: vectors common to both register spans that are not in V can be treated as a loop counter: one value of it is
 * stored, loaded, and its scratch used again. The problem is then solved in the quotient by these vectors: change the
 * basis of the tile so that they are its top bits and that all lanes and warps lie in the rest. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

typedef struct vlist {
  uint32_t v[2 * LAY_MAX_COLS];
  int n;
} vlist;

static void append(vlist *l, const uint32_t *v, int n) {
  BASE_ASSERT(l->n + n <= (int)(sizeof l->v / sizeof l->v[0]));
  memcpy(l->v + l->n, v, sizeof *v * (size_t)n);
  l->n += n;
}

static void append_list(vlist *l, const vlist *from) { append(l, from->v, from->n); }
static void append_one(vlist *l, uint32_t v) { append(l, &v, 1); }

static void append_units(vlist *l, int d) {
  for (int i = 0; i < d; ++i) append_one(l, UINT32_C(1) << i);
}

static lay_span span_of(const vlist *l) {
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, l->v, l->n);
  return s;
}

static vlist independent(const vlist *l) {
  vlist r = {.n = 0};
  r.n = lay_independent(l->v, l->n, r.v);
  return r;
}

/* Bases of lanes and warps, independent. */
static vlist lanes_and_warps(const lay_t *l) {
  vlist all = {.n = 0}, r = {.n = 0};
  append(&all, l->basis[LAY_LANE], l->nbits[LAY_LANE]);
  append(&all, l->basis[LAY_WARP], l->nbits[LAY_WARP]);
  r.n = lay_independent(all.v, all.n, r.v);
  return r;
}

/* Appends to l those of cand that are independent of it, until it has `size` members. */
static void grow(vlist *l, const vlist *cand, int size) {
  lay_span s = span_of(l);
  for (int i = 0; i < cand->n && l->n < size; ++i)
    if (lay_span_add(&s, cand->v[i])) append_one(l, cand->v[i]);
}

enum { SRC, DST };

typedef struct candidate {
  uint32_t s[LAY_MAX_BITS];
  uint32_t vec[2][LAY_MAX_BITS];
  int n_vec[2];
} candidate;

/* V0 then W first, the rest of the tile behind: a complement of V0 that contains W and every lane and warp. */
static bool complement_of(const vlist *v0, const vlist *w, const vlist x[2], int wide, int d, vlist *k) {
  lay_span s = span_of(v0);
  vlist offer = *w;
  append_list(&offer, &x[wide]);
  append_list(&offer, &x[1 - wide]);
  append_units(&offer, d);
  k->n = 0;
  for (int i = 0; i < offer.n; ++i)
    if (lay_span_add(&s, offer.v[i])) append_one(k, offer.v[i]);
  lay_span in_k = span_of(k);
  for (int i = 0; i < w->n + x[0].n + x[1].n; ++i)
    if (!lay_span_has(&in_k, offer.v[i])) return false;
  return true;
}

static int phase_lanes(int vec_bytes) { return vec_bytes >= 16 ? 3 : vec_bytes == 8 ? 4 : 5; }

/* The vectors that one phase of an access covers: its vector space and its lanes. */
static vlist phase_space(const vlist *v, int n_low, const lay_t *l, int vec_bytes) {
  vlist all = {.n = 0};
  append(&all, v->v, n_low);
  append(&all, l->basis[LAY_LANE], phase_lanes(vec_bytes));
  return independent(&all);
}

static bool try_candidate(const lay_t *const lay[2], int elem_bytes, const vlist *v0, const vlist *w, int wide,
                          candidate *out) {
  int d = lay_bits(lay[0]), narrow = 1 - wide;
  int word = lay_log2(elem_bytes < 4 ? 4 / elem_bytes : 1), row = lay_log2(128 / elem_bytes);
  if (word > d) word = d;
  if (row > d) row = d;
  vlist x[2] = {lanes_and_warps(lay[0]), lanes_and_warps(lay[1])}, k;
  if (!complement_of(v0, w, x, wide, d, &k)) return false;

  vlist v = *v0, fill = {.n = 0};
  append_list(&v, w);
  int n_vec[2];
  n_vec[wide] = v0->n + w->n;
  n_vec[narrow] = v0->n;
  lay_span in_k = span_of(&k);
  for (int side = 0; side < 2; ++side) /* registers fill the first 4 bytes, else anything of k */
    for (int i = 0; i < lay[side]->nbits[LAY_REG]; ++i)
      if (lay_span_has(&in_k, lay[side]->basis[LAY_REG][i])) append_one(&fill, lay[side]->basis[LAY_REG][i]);
  append_list(&fill, &k);
  grow(&v, &fill, word);

  int low = n_vec[narrow] > word ? n_vec[narrow] : word;
  vlist p = phase_space(&v, v.n, lay[wide], elem_bytes << n_vec[wide]);
  vlist q = phase_space(&v, low < v.n ? low : v.n, lay[narrow], elem_bytes << n_vec[narrow]);
  if (p.n > row || q.n > row) return false;
  vlist both = p, others = {.n = 0}, p0 = p, q0 = q;
  append_list(&both, &q);
  lay_span in_both = span_of(&both);
  for (int i = 0; i < k.n; ++i)
    if (!lay_span_has(&in_both, k.v[i])) append_one(&others, k.v[i]);
  grow(&p, &q0, row);
  grow(&p, &others, row);
  grow(&p, &k, row);
  grow(&q, &p0, row);
  grow(&q, &p, row);
  grow(&q, &others, row);
  grow(&q, &k, row);
  BASE_ASSERT(p.n == row && q.n == row);

  vlist meet = {.n = 0}, e = {.n = 0}, f = {.n = 0}, seg = {.n = 0};
  meet.n = lay_intersect(p.v, p.n, q.v, q.n, meet.v);
  lay_span s = span_of(&meet), in_p = span_of(&p), wide_lanes = span_of(&x[wide]);
  vlist order = v;
  append_list(&order, &p);
  for (int i = 0; i < order.n; ++i)
    if (lay_span_has(&in_p, order.v[i]) && lay_span_add(&s, order.v[i])) append_one(&e, order.v[i]);
  s = span_of(&meet);
  for (int pass = 0; pass < 2; ++pass) /* vectors that are not lanes of the wide side first */
    for (int i = 0; i < q.n; ++i)
      if (lay_span_has(&wide_lanes, q.v[i]) == (pass == 1) && lay_span_add(&s, q.v[i])) append_one(&f, q.v[i]);
  BASE_ASSERT(e.n == f.n);
  both = p;
  append_list(&both, &q);
  s = span_of(&both);
  for (int i = 0; i < k.n; ++i)
    if (lay_span_add(&s, k.v[i])) append_one(&seg, k.v[i]);
  for (int i = 0; i < e.n; ++i) append_one(&seg, e.v[i] ^ f.v[i]);
  BASE_ASSERT(seg.n == d - row);

  vlist all = v;
  append_list(&all, &seg);
  s = span_of(&all);
  all = v;
  order.n = 0;
  append_list(&order, &x[wide]);
  append_list(&order, &x[narrow]);
  append_list(&order, &k);
  for (int i = 0; i < order.n; ++i)
    if (lay_span_add(&s, order.v[i])) append_one(&all, order.v[i]);
  append_list(&all, &seg);
  if (all.n != d || !lay_invert(all.v, d, out->s)) return false;
  for (int side = 0; side < 2; ++side) {
    uint32_t inside = (UINT32_C(1) << n_vec[side]) - 1;
    for (int i = 0; i < x[side].n; ++i)
      if (lay_mul(out->s, x[side].v[i]) & inside) return false;
    out->n_vec[side] = n_vec[side];
    memcpy(out->vec[side], v.v, sizeof v.v[0] * (size_t)n_vec[side]);
  }
  return true;
}

static void measure(const lay_t *l, const candidate *c, int side, int elem_bytes, int *instructions, int *wavefronts,
                    int *ideal) {
  lay_count_access(l, c->s, 1 << c->n_vec[side], elem_bytes, wavefronts, ideal);
  *instructions = 1 << (l->nbits[LAY_REG] - c->n_vec[side]);
  *wavefronts *= *instructions;
  *ideal *= *instructions;
}

/* The best bijection for a store by lay[SRC] and a load by lay[DST]; both deduped and surjective. */
static void best_swizzle(const lay_t *const lay[2], int elem_bytes, candidate *best) {
  int max_vec = lay_log2(elem_bytes < 16 ? 16 / elem_bytes : 1), best_cost = INT32_MAX;
  vlist x = lanes_and_warps(lay[SRC]), xd = lanes_and_warps(lay[DST]), v0 = {.n = 0}, common = {.n = 0};
  append_list(&x, &xd);
  lay_span s = span_of(&x);
  common.n = lay_intersect(lay[SRC]->basis[LAY_REG], lay[SRC]->nbits[LAY_REG], lay[DST]->basis[LAY_REG],
                           lay[DST]->nbits[LAY_REG], common.v);
  for (int i = 0; i < common.n && v0.n < max_vec; ++i)
    if (lay_span_add(&s, common.v[i])) append_one(&v0, common.v[i]);
  for (int wide = 0; wide < 2; ++wide) {
    const lay_t *mine = lay[wide], *other = lay[1 - wide];
    vlist w = {.n = 0};
    lay_span lanes, taken = span_of(&v0);
    lay_span_init(&lanes);
    lay_span_add_all(&lanes, other->basis[LAY_LANE], other->nbits[LAY_LANE]);
    for (int pass = 0; pass < 2; ++pass) /* registers that are lanes of the other side first */
      for (int i = 0; i < mine->nbits[LAY_REG]; ++i) {
        uint32_t v = mine->basis[LAY_REG][i];
        if (lay_span_has(&lanes, v) == (pass == 0) && lay_span_add(&taken, v)) append_one(&w, v);
      }
    int extra = w.n < max_vec - v0.n ? w.n : max_vec - v0.n;
    for (; extra >= 0; --extra) {
      vlist some = w;
      some.n = extra;
      candidate c;
      if (!try_candidate(lay, elem_bytes, &v0, &some, wide, &c)) continue;
      int cost = 0;
      for (int side = 0; side < 2; ++side) {
        int n, wf, ideal;
        measure(lay[side], &c, side, elem_bytes, &n, &wf, &ideal);
        cost += n + wf;
      }
      if (cost < best_cost) {
        best_cost = cost;
        *best = c;
      }
    }
  }
  BASE_ASSERT(best_cost < INT32_MAX);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* One side of the problem for one round: a layout of the quotient, and how its registers are numbered in the original.
 */
typedef struct reduced {
  const lay_t *lay;
  uint32_t reg[LAY_MAX_HWBITS];   /* register bit of `lay` -> register of the whole side */
  uint32_t round[LAY_MAX_HWBITS]; /* bit of the round -> register of the whole side */
} reduced;

/* to_new: tile bits -> (quotient bits | round bits << m). */
static reduced reduce_side(lay_cx *cx, const lay_t *l, const uint32_t *to_new, int m, const vlist *rounds) {
  reduced r = {.lay = NULL};
  lay_span regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, l->basis[LAY_REG], l->nbits[LAY_REG]);
  for (int i = 0; i < rounds->n; ++i) {
    uint64_t x = 0;
    BASE_ASSERT(lay_span_solve(&regs, rounds->v[i], &x));
    r.round[i] = (uint32_t)x;
  }
  int64_t extent = INT64_C(1) << m;
  lay_t q = lay_blank(lay_shape_make(1, &extent));
  int n = lay_complement(r.round, rounds->n, l->nbits[LAY_REG], r.reg);
  for (int i = 0; i < n; ++i) {
    r.reg[i] ^= lay_mul(r.round, lay_mul(to_new, lay_mul(l->basis[LAY_REG], r.reg[i])) >> m);
    lay_push(&q, LAY_REG, lay_mul(to_new, lay_mul(l->basis[LAY_REG], r.reg[i])));
  }
  for (int h = LAY_LANE; h <= LAY_WARP; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) lay_push(&q, h, lay_mul(to_new, l->basis[h][i]));
  r.lay = lay_intern(cx, &q);
  return r;
}

/* Vectors that may count rounds: common to both register spans, independent modulo lanes and warps, the last ones first
   (the early ones make the best vectors). */
static vlist round_vectors(const lay_t *src, const lay_t *dst, int want) {
  vlist x = lanes_and_warps(src), xd = lanes_and_warps(dst), common = {.n = 0}, r = {.n = 0};
  append_list(&x, &xd);
  lay_span s = span_of(&x);
  common.n =
      lay_intersect(src->basis[LAY_REG], src->nbits[LAY_REG], dst->basis[LAY_REG], dst->nbits[LAY_REG], common.v);
  for (int i = common.n - 1; i >= 0 && r.n < want; --i)
    if (lay_span_add(&s, common.v[i])) append_one(&r, common.v[i]);
  return r;
}

static lay_access make_access(arena *a, const reduced *side, const candidate *c, int which, int elem_bytes, int rounds,
                              const uint8_t *kept) {
  const lay_t *l = side->lay;
  uint32_t low[LAY_MAX_BITS], rest[LAY_MAX_HWBITS], mask[LAY_NHW], lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS];
  int k = c->n_vec[which], n = lay_group_regs(l, c->vec[which], k, c->s, low, rest), unused;
  lay_matmul(c->s, l->basis[LAY_LANE], l->nbits[LAY_LANE], lane);
  lay_matmul(c->s, l->basis[LAY_WARP], l->nbits[LAY_WARP], warp);
  lay_free_masks(l, mask);
  lay_access acc = {.vec = 1 << k,
                    .n_groups = rounds << n,
                    .terms = lay_terms_of(a, lane, l->nbits[LAY_LANE], warp, l->nbits[LAY_WARP]),
                    .lane_free = mask[LAY_LANE],
                    .warp_free = mask[LAY_WARP]};
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, acc.n_groups << k);
  uint32_t *offset = ARENA_ARRAY(a, uint32_t, acc.n_groups);
  for (int g = 0; g < acc.n_groups; ++g) {
    uint32_t first = lay_mul(rest, (uint32_t)g & ((UINT32_C(1) << n) - 1)), round = (uint32_t)g >> n;
    offset[g] = lay_mul(c->s, lay_mul(l->basis[LAY_REG], first));
    for (uint32_t i = 0; i < UINT32_C(1) << k; ++i) {
      uint32_t x = lay_mul(side->reg, first ^ lay_mul(low, i)) ^ lay_mul(side->round, round);
      regs[((uint32_t)g << k) + i] = (uint16_t)(kept ? lay_old_reg(x, kept) : x);
    }
  }
  acc.regs = regs;
  acc.offset = offset;
  measure(l, c, which, elem_bytes, &unused, &acc.wavefronts, &acc.ideal);
  acc.wavefronts *= rounds;
  acc.ideal *= rounds;
  return acc;
}

const lay_exchange *lay_plan_exchange(lay_cx *cx, arena *a, const lay_t *src, const lay_t *dst, int elem_bytes,
                                      lay_move level, uint32_t max_scratch, bool may_exceed) {
  if (level > LAY_MOVE_BLOCK || src->nbits[LAY_BLOCK] || dst->nbits[LAY_BLOCK]) return NULL;
  uint8_t kept[LAY_MAX_HWBITS];
  uint32_t dst_map[LAY_MAX_HWBITS], basis[LAY_MAX_BITS], to_new[LAY_MAX_BITS];
  lay_kept_regs(src, kept);
  const lay_t *s = lay_dedupe(cx, src, NULL), *d = lay_dedupe(cx, dst, dst_map);
  int bits = lay_bits(s), want = 0;
  if (s->nbits[LAY_REG] > 16 || d->nbits[LAY_REG] > 16) return NULL;
  while (max_scratch && want < bits && ((uint64_t)elem_bytes << (bits - want)) > max_scratch) ++want;
  vlist rounds = round_vectors(s, d, want);
  if (rounds.n < want && !may_exceed) return NULL;
  int m = bits - rounds.n, n = 0;
  vlist x = lanes_and_warps(s), xd = lanes_and_warps(d);
  append_list(&x, &xd);
  append_units(&x, bits);
  lay_span taken = span_of(&rounds);
  for (int i = 0; i < x.n; ++i)
    if (rounds.n && lay_span_add(&taken, x.v[i])) basis[n++] = x.v[i];
  if (rounds.n) {
    memcpy(basis + n, rounds.v, sizeof rounds.v[0] * (size_t)rounds.n);
    BASE_ASSERT(n == m && lay_invert(basis, bits, to_new));
  } else {
    for (int i = 0; i < bits; ++i) to_new[i] = UINT32_C(1) << i;
  }
  reduced side[2] = {reduce_side(cx, s, to_new, m, &rounds), reduce_side(cx, d, to_new, m, &rounds)};
  const lay_t *lay[2] = {side[SRC].lay, side[DST].lay};
  candidate c;
  best_swizzle(lay, elem_bytes, &c);

  sh_t sh = {.rank = 1, .axis_bits = {(uint8_t)m}, .d = (uint8_t)m, .kind = LAY_SH_GENERIC, .align_bytes = 16};
  if (!rounds.n) {
    sh.rank = src->rank;
    memcpy(sh.axis_bits, src->axis_bits, sizeof sh.axis_bits);
  }
  memcpy(sh.col, c.s, sizeof sh.col[0] * (size_t)m);
  lay_exchange *e = ARENA_NEW(a, lay_exchange);
  e->s = lay_sh_intern(cx, &sh);
  e->rounds = 1 << rounds.n;
  e->store = make_access(a, &side[SRC], &c, SRC, elem_bytes, e->rounds, kept);
  e->load = make_access(a, &side[DST], &c, DST, elem_bytes, e->rounds, NULL);
  e->bytes = (uint32_t)elem_bytes << m;
  e->warp_local = level <= LAY_MOVE_WARP;
  if (e->warp_local) e->store.warp_free = 0; /* each warp has to write what it will read */
  int loaded = lay_regs(d);
  uint16_t *slot = ARENA_ARRAY(a, uint16_t, lay_regs(dst)), *slot_of = ARENA_ARRAY(a, uint16_t, loaded);
  for (int i = 0; i < loaded; ++i) slot_of[e->load.regs[i]] = (uint16_t)i;
  for (int r = 0; r < lay_regs(dst); ++r) slot[r] = slot_of[lay_mul(dst_map, (uint64_t)r)];
  e->slot = slot;
  e->load.regs = NULL;
  return e;
}
