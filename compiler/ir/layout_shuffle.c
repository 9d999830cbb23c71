/* Conversion of register layouts inside a warp, by shuffles.
 *
 * With equal numbers of register bits (the smaller side is padded with zero bases) there is an invertible matrix M on
 * (register | lane) with src(M x) = dst(x): location x of the result finds its element at location M x. Split it,
 * rows source register and source lane, columns destination register and lane:
 *
 *        M = [ A  B ]     choose E (lane -> register) so that D' = D + C E is invertible;
 *            [ C  D ]     F = (A E + B) D'^-1 ;  A2 = A + F C
 *
 * and the conversion is three stages:
 *
 *   1   w[x]  = v[x ^ F lane]                      rank(F) layers of selects
 *   2   u[t]  = shfl.idx(w[A2 t], C t ^ D' lane)   one shuffle per word; the register read is the same in every lane
 *   3   o[r]  = u[r ^ E lane]                      rank(E) layers of selects
 *
 * Shuffling element by element with a select chain over the source registers, the obvious way, costs registers^2; and
 * the usual swap networks need M to be a permutation of bits. This needs neither.
 *
 * Two choices of E are tried. identity: C E = I + D, so that D' = I, the shuffles are butterflies with constant masks,
 * and words with C t = 0 stay where they are. minimal rank: E maps the kernel of D onto registers whose images under C
 * complete the image of D.
 *
 * Elements below 32 bits are packed: vectors of the kernel of C are registers that travel to the same lane, so up to
 * 32/bits of them share a word. 64-bit elements take two shuffles. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

enum { NL = LAY_LANE_BITS, MAXN = LAY_MAX_HWBITS + LAY_LANE_BITS };

typedef struct problem {
  int nr;
  uint32_t s[MAXN], t[MAXN]; /* source and destination bases: registers, then lanes */
  uint32_t m[MAXN];
} problem;

/* Where destination bit i finds its image y, in an order of preference: its own lane bit and registers, its own
   register, any registers, one location bit, anything. */
static bool locate(const problem *p, const lay_span *s_regs, const lay_span *s_all, int i, uint32_t *x) {
  int n = p->nr + NL;
  uint32_t y = p->t[i];
  uint64_t c;
  if (i >= p->nr) {
    if (lay_span_solve(s_regs, y ^ p->s[i], &c)) {
      *x = (uint32_t)c | UINT32_C(1) << i;
      return true;
    }
  } else if (p->s[i] == y) {
    *x = UINT32_C(1) << i;
    return true;
  } else if (lay_span_solve(s_regs, y, &c)) {
    *x = (uint32_t)c;
    return true;
  }
  for (int j = 0; j < n && y; ++j)
    if (p->s[j] == y) {
      *x = UINT32_C(1) << j;
      return true;
    }
  bool ok = lay_span_solve(s_all, y, &c);
  *x = (uint32_t)c;
  return ok;
}

static int nullspace32(const uint32_t *cols, int n, uint32_t *out) {
  uint64_t wide[64];
  int k = lay_nullspace(cols, n, wide);
  for (int i = 0; i < k; ++i) out[i] = (uint32_t)wide[i];
  return k;
}

/* Members of v that are independent of base and of each other. */
static int beyond(const uint32_t *base, int n_base, const uint32_t *v, int n, uint32_t *out) {
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, base, n_base);
  int k = 0;
  for (int i = 0; i < n; ++i)
    if (lay_span_add(&s, v[i])) out[k++] = v[i];
  return k;
}

static bool solve_matrix(problem *p) {
  int n = p->nr + NL, k = 0;
  lay_span sr, sa, image;
  lay_span_init(&sr);
  lay_span_add_all(&sr, p->s, p->nr);
  lay_span_init(&sa);
  lay_span_add_all(&sa, p->s, n);
  if (lay_rank(p->s, n) != lay_rank(p->t, n)) return false;
  uint32_t dom[MAXN], img[MAXN], inv[MAXN], null_s[MAXN], null_t[MAXN], common[MAXN], rest_s[MAXN], rest_t[MAXN];
  lay_span_init(&image);
  for (int step = 0; step < n; ++step) { /* lanes first: they stay fixed where that is possible */
    int i = step < NL ? p->nr + step : step - NL;
    if (!lay_span_add(&image, p->t[i])) continue;
    dom[k] = UINT32_C(1) << i;
    if (!locate(p, &sr, &sa, i, &img[k])) return false;
    ++k;
  }
  int ns = nullspace32(p->s, n, null_s), nt = nullspace32(p->t, n, null_t);
  int nc = lay_intersect(null_t, nt, null_s, ns, common);
  int rt = beyond(common, nc, null_t, nt, rest_t), rs = beyond(common, nc, null_s, ns, rest_s);
  BASE_ASSERT(rt == rs && k + nc + rt == n);
  for (int i = 0; i < nc; ++i, ++k) dom[k] = img[k] = common[i];
  for (int i = 0; i < rt; ++i, ++k) {
    dom[k] = rest_t[i];
    img[k] = rest_s[i];
  }
  BASE_ASSERT(lay_invert(dom, n, inv));
  lay_matmul(img, inv, n, p->m);
  if (lay_rank(p->m, n) != n) return false;
  for (int i = 0; i < n; ++i) BASE_ASSERT(lay_mul(p->s, p->m[i]) == p->t[i]);
  return true;
}

typedef struct split {
  uint32_t a[LAY_MAX_HWBITS], c[LAY_MAX_HWBITS], b[NL], d[NL];
} split;

typedef struct factored {
  uint32_t a2[LAY_MAX_HWBITS], dp[NL], e[NL], f[NL];
} factored;

static bool identity_e(const split *x, int nr, uint32_t *e) {
  lay_span sc;
  lay_span_init(&sc);
  lay_span_add_all(&sc, x->c, nr);
  for (int i = 0; i < NL; ++i) {
    uint64_t r;
    if (!lay_span_solve(&sc, x->d[i] ^ UINT32_C(1) << i, &r)) return false;
    e[i] = (uint32_t)r;
  }
  return true;
}

static bool min_rank_e(const split *x, int nr, uint32_t *e) {
  uint32_t ker[NL], dom[NL], img[NL] = {0}, inv[NL];
  int k = nullspace32(x->d, NL, ker), picked = 0;
  memset(e, 0, sizeof *e * NL);
  if (k == 0) return true;
  lay_span sd;
  lay_span_init(&sd);
  lay_span_add_all(&sd, x->d, NL);
  for (int i = 0; i < nr && picked < k; ++i)
    if (lay_span_add(&sd, x->c[i])) img[picked++] = UINT32_C(1) << i;
  if (picked < k) return false;
  memcpy(dom, ker, sizeof *ker * (size_t)k);
  lay_complement(ker, k, NL, dom + k);
  BASE_ASSERT(lay_invert(dom, NL, inv));
  lay_matmul(img, inv, NL, e);
  return true;
}

static bool factor(const split *x, int nr, factored *f) {
  uint32_t inv[NL], aeb[NL];
  for (int i = 0; i < NL; ++i) f->dp[i] = x->d[i] ^ lay_mul(x->c, f->e[i]);
  if (!lay_invert(f->dp, NL, inv)) return false;
  for (int i = 0; i < NL; ++i) aeb[i] = lay_mul(x->a, f->e[i]) ^ x->b[i];
  lay_matmul(aeb, inv, NL, f->f);
  for (int i = 0; i < nr; ++i) f->a2[i] = x->a[i] ^ lay_mul(f->f, x->c[i]);
  return true;
}

static bool is_identity(const uint32_t *m) {
  for (int i = 0; i < NL; ++i)
    if (m[i] != UINT32_C(1) << i) return false;
  return true;
}

static void count(const split *x, const factored *f, int nr, int pack, int elem_bits, lay_shuffle *out) {
  int per = elem_bits > 32 ? elem_bits / 32 : 1, words = (per << nr) >> pack;
  out->butterfly = is_identity(f->dp);
  int still = out->butterfly ? (per << (nr - lay_rank(x->c, nr))) >> pack : 0;
  out->shuffles = words - still;
  out->selects = (lay_rank(f->e, NL) + lay_rank(f->f, NL)) * words;
}

/* The map lane -> register as a sum of rank one maps: registers v[k] where parity(lane & lanes[k]). */
static const lay_select *layers(arena *a, const uint32_t *map, int *n) {
  lay_span s;
  uint32_t basis[NL];
  lay_select *out = ARENA_ARRAY(a, lay_select, NL);
  int k = lay_independent(map, NL, basis);
  lay_span_init(&s);
  lay_span_add_all(&s, basis, k);
  for (int i = 0; i < k; ++i) out[i].reg = (uint16_t)basis[i];
  for (int lane = 0; lane < NL; ++lane) {
    uint64_t c = 0;
    BASE_ASSERT(lay_span_solve(&s, map[lane], &c));
    for (int i = 0; i < k; ++i)
      if (c >> i & 1) out[i].lanes = (uint8_t)(out[i].lanes | 1u << lane);
  }
  *n = k;
  return out;
}

static void emit_words(arena *a, const split *x, const factored *f, int nr, const uint32_t *pack, int n_pack,
                       lay_shuffle *out) {
  uint32_t rest[LAY_MAX_HWBITS];
  int n = lay_complement(pack, n_pack, nr, rest);
  lay_word *w = ARENA_ARRAY(a, lay_word, 1 << n);
  for (uint32_t g = 0; g < UINT32_C(1) << n; ++g) {
    uint32_t base = lay_mul(rest, g);
    w[g].n = (uint8_t)(1 << n_pack);
    w[g].lane_xor = (uint8_t)lay_mul(x->c, base);
    w[g].moves = !out->butterfly || w[g].lane_xor != 0;
    for (uint32_t i = 0; i < UINT32_C(1) << n_pack; ++i) {
      uint32_t t = base ^ lay_mul(pack, i);
      w[g].to[i] = (uint16_t)t;
      w[g].from[i] = (uint16_t)lay_mul(f->a2, t);
    }
  }
  out->words = w;
  out->n_words = 1 << n;
}

const lay_shuffle *lay_plan_shuffle(lay_cx *cx, arena *a, const lay_t *src, const lay_t *dst, int elem_bits) {
  if (lay_movement(src, dst) > LAY_MOVE_WARP) return NULL;
  for (int h = LAY_WARP; h < LAY_NHW; ++h)
    if (memcmp(src->basis[h], dst->basis[h], sizeof src->basis[h]) != 0) return NULL;
  uint8_t kept[LAY_MAX_HWBITS];
  uint32_t dst_map[LAY_MAX_HWBITS];
  lay_kept_regs(src, kept);
  const lay_t *s = lay_dedupe(cx, src, NULL), *d = lay_dedupe(cx, dst, dst_map);
  problem p = {.nr = s->nbits[LAY_REG] > d->nbits[LAY_REG] ? s->nbits[LAY_REG] : d->nbits[LAY_REG]};
  if (p.nr > 14) return NULL;
  memcpy(p.s, s->basis[LAY_REG], sizeof p.s[0] * (size_t)p.nr);
  memcpy(p.t, d->basis[LAY_REG], sizeof p.t[0] * (size_t)p.nr);
  memcpy(p.s + p.nr, s->basis[LAY_LANE], sizeof p.s[0] * NL);
  memcpy(p.t + p.nr, d->basis[LAY_LANE], sizeof p.t[0] * NL);
  if (!solve_matrix(&p)) return NULL;

  split x;
  uint32_t low = (UINT32_C(1) << p.nr) - 1;
  for (int i = 0; i < p.nr; ++i) {
    x.a[i] = p.m[i] & low;
    x.c[i] = p.m[i] >> p.nr;
  }
  for (int i = 0; i < NL; ++i) {
    x.b[i] = p.m[p.nr + i] & low;
    x.d[i] = p.m[p.nr + i] >> p.nr;
  }
  uint32_t pack[LAY_MAX_HWBITS];
  int n_pack = 0, n_ker = nullspace32(x.c, p.nr, pack);
  while (elem_bits << (n_pack + 1) <= 32 && n_pack < n_ker) ++n_pack;

  lay_shuffle *best = NULL;
  factored chosen = {{0}, {0}, {0}, {0}};
  for (int mode = 0; mode < 2; ++mode) {
    factored f;
    lay_shuffle tried = {.n_work = 1 << p.nr};
    if (!(mode == 0 ? identity_e(&x, p.nr, f.e) : min_rank_e(&x, p.nr, f.e)) || !factor(&x, p.nr, &f)) continue;
    count(&x, &f, p.nr, n_pack, elem_bits, &tried);
    if (best && 2 * tried.shuffles + tried.selects >= 2 * best->shuffles + best->selects) continue;
    if (!best) best = ARENA_NEW(a, lay_shuffle);
    *best = tried;
    chosen = f;
  }
  if (!best) return NULL;
  best->pre = layers(a, chosen.f, &best->n_pre);
  best->post = layers(a, chosen.e, &best->n_post);
  best->lane_map = lay_terms_of(a, chosen.dp, NL, NULL, 0);
  emit_words(a, &x, &chosen, p.nr, pack, n_pack, best);
  best->n_in = lay_regs(src);
  best->n_out = lay_regs(dst);
  uint16_t *first = ARENA_ARRAY(a, uint16_t, best->n_work), *last = ARENA_ARRAY(a, uint16_t, best->n_out);
  for (int w = 0; w < best->n_work; ++w)
    for (int b = 0; b < s->nbits[LAY_REG]; ++b) first[w] = (uint16_t)(first[w] | (w >> b & 1) << kept[b]);
  for (int r = 0; r < best->n_out; ++r) last[r] = (uint16_t)lay_mul(dst_map, (uint64_t)r);
  best->first = first;
  best->last = last;
  return best;
}
