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
 * candidates, and the cheapest by measured wavefronts and instructions wins.
 *
 * Matrices: ldmatrix and stmatrix move rows of 16 bytes that four lanes hold together. To the swizzle that is a layout
 * too: the row is its vector, the eight rows are its phase, every other register counts as a lane (as_matrices). So
 * matrices on either side or both are further candidates, and S puts the rows wherever the other side wants them.
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

/* One side of the exchange in one round: a layout of the quotient, how its registers are numbered in the original, and
   what the swizzle takes it for. */
typedef struct half {
  const lay_t *lay;
  uint32_t reg[LAY_MAX_HWBITS];   /* register bit of `lay` -> register of the whole side */
  uint32_t round[LAY_MAX_HWBITS]; /* bit of the round -> register of the whole side */
  bool by_matrix, trans;
  const lay_t *seen; /* lay itself, unless by matrices */
} half;

typedef struct candidate {
  half side[2];
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

/* The side if it moves by matrices; false if that is impossible whatever the swizzle. A word of a row is one register
   for each of its elements: of these, registers that the other side has as well come first, as it may then have the
   row in one vector; turned, a word's elements lie in different rows. */
static bool as_matrices(lay_cx *cx, const half *from, const lay_t *other, int elem_bytes, bool trans, half *m) {
  const lay_t *l = from->lay;
  int n_reg = l->nbits[LAY_REG], n_first = 0, k = 0;
  if (elem_bytes > 4 || (trans && elem_bytes != 2) || l->nbits[LAY_LANE] != LAY_LANE_BITS) return false;
  int n_word = lay_log2(4 / elem_bytes);
  if (n_reg < n_word) return false;
  lay_span theirs;
  lay_span_init(&theirs);
  lay_span_add_all(&theirs, other->basis[LAY_REG], other->nbits[LAY_REG]);
  bool first[LAY_MAX_HWBITS] = {false};
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < n_reg && n_first < n_word; ++i)
      if (!first[i] && (pass == 1 || (!trans && lay_span_has(&theirs, l->basis[LAY_REG][i]))))
        first[i] = true, ++n_first;
  lay_t ordered = *l, seen = lay_blank(lay_shape_of(l));
  *m = *from;
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < n_reg; ++i)
      if (first[i] == (pass == 0)) {
        ordered.basis[LAY_REG][k] = l->basis[LAY_REG][i];
        m->reg[k++] = from->reg[i];
      }
  const uint32_t *regs = ordered.basis[LAY_REG], *lanes = ordered.basis[LAY_LANE];
  /* Words and lane bits 0, 1 lie in a row, lane bits 2, 3, 4 go over the rows; turned, the other way round. */
  int low = trans ? LAY_LANE : LAY_REG, high = trans ? LAY_REG : LAY_LANE;
  for (int i = 0; i < n_word; ++i) lay_push(&seen, low, regs[i]);
  for (int i = 0; i < LAY_LANE_BITS; ++i) lay_push(&seen, i < 2 ? low : high, lanes[i]);
  for (int i = n_word; i < n_reg; ++i) lay_push(&seen, LAY_LANE, regs[i]);
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i) lay_push(&seen, LAY_WARP, l->basis[LAY_WARP][i]);
  m->lay = lay_intern(cx, &ordered);
  m->seen = lay_intern(cx, &seen);
  m->by_matrix = true;
  m->trans = trans;
  return lay_rank(seen.basis[LAY_REG], seen.nbits[LAY_REG]) == seen.nbits[LAY_REG];
}

static sh_t swizzle_of(const candidate *c) {
  sh_t s = {.rank = 1, .kind = LAY_SH_GENERIC, .align_bytes = 16};
  s.d = s.axis_bits[0] = (uint8_t)lay_bits(c->side[SRC].lay);
  memcpy(s.col, c->s, sizeof s.col[0] * s.d);
  return s;
}

/* In quarters of an instruction: an address is an XOR and a sum; of moves ptxas avoids most. With these weights it
   makes the fewest instructions of the examples' matrix products. */
enum { COST_ACCESS = 4, COST_WAVEFRONT = 4, COST_ADDRESS = 8, COST_MOVE = 1 };

/* Different addresses among those of a side: offsets differ in bits that depend on the thread too. */
static int addresses(const uint32_t *offset, int n, uint32_t thread_bits) {
  uint32_t v[LAY_MAX_HWBITS];
  for (int i = 0; i < n; ++i) v[i] = offset[i] & thread_bits;
  return 1 << lay_rank(v, n);
}

/* Of a side; INT32_MAX if rows of matrices do not come to lie as they have to. Words that one load brings in another
   order than that of the registers have to be moved afterwards; what is stored has mostly just been computed, so that
   it comes wherever it is wanted. */
static int side_cost(lay_cx *cx, arena *a, const candidate *c, int which, int elem_bytes) {
  const half *x = &c->side[which];
  const lay_t *l = x->lay;
  uint32_t offset[LAY_MAX_HWBITS], thread[LAY_MAX_HWBITS], thread_bits = 0;
  int n_offset = 0, accesses, wavefronts, n_reg = l->nbits[LAY_REG];
  bool in_order = true;
  if (x->by_matrix) {
    sh_t s = swizzle_of(c);
    lay_matrix m;
    if (!lay_ldmatrix(cx, a, l, &s, elem_bytes, x->trans, which == DST, &m)) return INT32_MAX;
    for (int i = 0; i < m.n_matrix * m.per_matrix; ++i) in_order &= lay_mul(x->reg, m.regs[i]) == (uint32_t)i;
    for (int g = 1; g < m.n_groups; g *= 2) offset[n_offset++] = m.offset[g];
    thread_bits = m.terms.bits;
    accesses = m.n_groups;
    wavefronts = m.wavefronts;
  } else {
    lay_span regs;
    lay_span_init(&regs);
    lay_span_add_all(&regs, l->basis[LAY_REG], n_reg);
    for (int i = 0; i < c->n_vec[which]; ++i) {
      uint64_t reg = 0;
      BASE_ASSERT(lay_span_solve(&regs, c->vec[which][i], &reg));
      in_order &= lay_mul(x->reg, reg) == UINT32_C(1) << i;
    }
    for (int h = LAY_LANE; h <= LAY_WARP; ++h) {
      lay_matmul(c->s, l->basis[h], l->nbits[h], thread);
      for (int i = 0; i < l->nbits[h]; ++i) thread_bits |= thread[i];
    }
    lay_matmul(c->s, l->basis[LAY_REG], n_reg, offset);
    n_offset = n_reg;
    int ideal;
    lay_count_access(l, c->s, 1 << c->n_vec[which], elem_bytes, &wavefronts, &ideal);
    accesses = 1 << (n_reg - c->n_vec[which]);
    wavefronts *= accesses;
  }
  int moves = which == DST && !in_order ? (elem_bytes << n_reg) / 4 : 0;
  return COST_ACCESS * accesses + COST_WAVEFRONT * wavefronts +
         COST_ADDRESS * addresses(offset, n_offset, thread_bits) + COST_MOVE * moves;
}

typedef struct contest {
  lay_cx *cx;
  arena *a;
  int elem_bytes;
  candidate best;
  int64_t best_cost;
} contest;

static void offer(contest *t, const half pair[2], const vlist *v0, const vlist *w, int wide) {
  const lay_t *const seen[2] = {pair[SRC].seen, pair[DST].seen};
  candidate c = {.side = {pair[SRC], pair[DST]}};
  if (!try_candidate(seen, t->elem_bytes, v0, w, wide, &c)) return;
  int64_t cost = 0;
  for (int which = 0; which < 2; ++which) cost += side_cost(t->cx, t->a, &c, which, t->elem_bytes);
  if (cost >= t->best_cost) return;
  t->best_cost = cost;
  t->best = c;
}

static void offer_vectors(contest *t, const half pair[2]) {
  const lay_t *const lay[2] = {pair[SRC].lay, pair[DST].lay};
  int max_vec = lay_log2(t->elem_bytes < 16 ? 16 / t->elem_bytes : 1);
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
      offer(t, pair, &v0, &some, wide);
    }
  }
}

/* The vector is a row of the side by matrices; as much of its beginning as the other side can have is common. */
static void offer_matrices(contest *t, const half pair[2]) {
  int wide = pair[SRC].by_matrix ? SRC : DST;
  const half *other = &pair[1 - wide];
  const lay_t *row = pair[wide].seen, *theirs = other->seen;
  vlist x = lanes_and_warps(theirs), v0 = {.n = 0}, w = {.n = 0};
  lay_span taken = span_of(&x), regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, theirs->basis[LAY_REG], theirs->nbits[LAY_REG]);
  for (int i = 0; i < row->nbits[LAY_REG]; ++i) {
    uint32_t v = row->basis[LAY_REG][i];
    bool both = other->by_matrix ? v == theirs->basis[LAY_REG][i] : lay_span_has(&regs, v) && lay_span_add(&taken, v);
    append_one(both && !w.n ? &v0 : &w, v);
  }
  if (!other->by_matrix || !w.n) offer(t, pair, &v0, &w, wide);
}

/* The best bijection for a store by given[SRC] and a load by given[DST], both deduped and surjective; matrices[] says
   where they are allowed. */
static candidate best_swizzle(lay_cx *cx, arena *a, const half given[2], int elem_bytes, const bool matrices[2]) {
  contest t = {.cx = cx, .a = a, .elem_bytes = elem_bytes, .best_cost = INT32_MAX};
  enum { VECTORS, MATRICES, TURNED, N_KINDS };
  for (int i = 0; i < N_KINDS * N_KINDS; ++i) {
    int kind[2] = {i % N_KINDS, i / N_KINDS}; /* of equals, stmatrix before ldmatrix */
    half pair[2] = {given[SRC], given[DST]};
    bool possible = true;
    for (int k = 0; k < 2 && possible; ++k)
      if (kind[k] != VECTORS)
        possible = matrices[k] && as_matrices(cx, &given[k], given[1 - k].lay, elem_bytes, kind[k] == TURNED, &pair[k]);
    if (possible && i) offer_matrices(&t, pair);
    if (!i) offer_vectors(&t, pair);
  }
  BASE_ASSERT(t.best_cost < INT32_MAX);
  return t.best;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* to_new: tile bits -> (quotient bits | round bits << m). */
static half reduce_side(lay_cx *cx, const lay_t *l, const uint32_t *to_new, int m, const vlist *rounds) {
  half r = {.lay = NULL};
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
  r.lay = r.seen = lay_intern(cx, &q);
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

/* The register of the whole side that is `reg` of the quotient in a round. kept (or NULL): of the side as it was before
   lay_dedupe. */
static uint16_t whole_register(const half *x, uint32_t reg, uint32_t round, const uint8_t *kept) {
  uint32_t whole = lay_mul(x->reg, reg) ^ lay_mul(x->round, round);
  return (uint16_t)(kept ? lay_old_reg(whole, kept) : whole);
}

static lay_access make_access(arena *a, const candidate *c, int which, int elem_bytes, int rounds,
                              const uint8_t *kept) {
  const half *x = &c->side[which];
  const lay_t *l = x->lay;
  uint32_t low[LAY_MAX_BITS], rest[LAY_MAX_HWBITS], mask[LAY_NHW], lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS];
  int k = c->n_vec[which], n = lay_group_regs(l, c->vec[which], k, c->s, low, rest);
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
    for (uint32_t i = 0; i < UINT32_C(1) << k; ++i)
      regs[((uint32_t)g << k) + i] = whole_register(x, first ^ lay_mul(low, i), round, kept);
  }
  acc.regs = regs;
  acc.offset = offset;
  lay_count_access(l, c->s, acc.vec, elem_bytes, &acc.wavefronts, &acc.ideal);
  acc.wavefronts *= acc.n_groups;
  acc.ideal *= acc.n_groups;
  return acc;
}

static lay_matrix make_matrix(lay_cx *cx, arena *a, const candidate *c, int which, int elem_bytes, int rounds,
                              const uint8_t *kept) {
  const half *x = &c->side[which];
  sh_t s = swizzle_of(c);
  lay_matrix one, m;
  bool fits = lay_ldmatrix(cx, a, x->lay, &s, elem_bytes, x->trans, which == DST, &one);
  BASE_ASSERT(fits);
  int per_group = one.n_matrix * one.per_matrix;
  m = one;
  m.n_groups *= rounds;
  m.wavefronts *= rounds;
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, m.n_groups * per_group);
  uint32_t *offset = ARENA_ARRAY(a, uint32_t, m.n_groups);
  for (int g = 0; g < m.n_groups; ++g) {
    int first = g % one.n_groups, round = g / one.n_groups;
    offset[g] = one.offset[first];
    for (int i = 0; i < per_group; ++i)
      regs[g * per_group + i] = whole_register(x, one.regs[first * per_group + i], (uint32_t)round, kept);
  }
  m.regs = regs;
  m.offset = offset;
  return m;
}

static lay_way make_way(lay_cx *cx, arena *a, const candidate *c, int which, int elem_bytes, int rounds,
                        const uint8_t *kept) {
  lay_way w = {.by_matrix = c->side[which].by_matrix};
  if (w.by_matrix)
    w.matrix = make_matrix(cx, a, c, which, elem_bytes, rounds, kept);
  else
    w.vectors = make_access(a, c, which, elem_bytes, rounds, kept);
  return w;
}

const lay_exchange *lay_plan_exchange(lay_cx *cx, arena *a, const lay_cvt *cvt, uint32_t max_scratch, bool may_exceed,
                                      const bool matrices[2]) {
  const lay_t *src = cvt->src, *dst = cvt->dst;
  int elem_bytes = cvt->elem_bytes;
  if (cvt->level > LAY_MOVE_BLOCK || src->nbits[LAY_BLOCK] || dst->nbits[LAY_BLOCK]) return NULL;
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
  half given[2] = {reduce_side(cx, s, to_new, m, &rounds), reduce_side(cx, d, to_new, m, &rounds)};
  candidate c = best_swizzle(cx, a, given, elem_bytes, matrices);

  sh_t sh = swizzle_of(&c);
  if (!rounds.n) {
    sh.rank = src->rank;
    memcpy(sh.axis_bits, src->axis_bits, sizeof sh.axis_bits);
  }
  lay_exchange *e = ARENA_NEW(a, lay_exchange);
  e->s = lay_sh_intern(cx, &sh);
  e->rounds = 1 << rounds.n;
  e->store = make_way(cx, a, &c, SRC, elem_bytes, e->rounds, kept);
  e->load = make_way(cx, a, &c, DST, elem_bytes, e->rounds, NULL);
  e->bytes = (uint32_t)elem_bytes << m;
  e->warp_local = cvt->level <= LAY_MOVE_WARP;
  uint32_t mask[LAY_NHW];
  lay_free_masks(s, mask);
  e->warp_free = e->warp_local ? 0 : mask[LAY_WARP]; /* each warp has to write what it will read */
  uint16_t *held = ARENA_ARRAY(a, uint16_t, lay_regs(dst));
  for (int r = 0; r < lay_regs(dst); ++r) held[r] = (uint16_t)lay_mul(dst_map, (uint64_t)r);
  e->held = held;
  return e;
}
