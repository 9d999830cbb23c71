/* Conversion of a value between two register layouts: classify, plan every way that is possible, take the cheapest.
 *
 *   level    the elements a thread needs are ...       done by
 *   thread   in its own registers, same in all lanes    renaming registers (nothing at all if in order)
 *   thread   in its own registers, depends on the lane  selects: the shuffle plan without shuffles
 *   warp     in its own warp                            shuffles, or shared memory and a warp barrier
 *   block    anywhere in the CTA                        shared memory and a CTA barrier
 *   cluster  in another CTA                             not possible
 *
 * Cost in issue slots per warp: select 1, shuffle 2, shared access its wavefronts, 12 for the round trip through shared
 * memory, 20 more for a CTA barrier; measured choices are in the table of the layout design. Copies count: an element
 * that a warp holds anywhere is in it, so replicated values convert at a lower level than an inverse of the source
 * would say. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

/* Scratch that a conversion takes without being asked to do with less: what a block has without opting in to more
   (CUDA C Programming Guide, technical specifications). Larger tiles go in rounds if they can. */
enum { SCRATCH_PREFERRED = 48 * 1024 };
enum { COST_SHUFFLE = 2, COST_SELECT = 1, COST_ROUND_TRIP = 12, COST_BARRIER = 20 };

lay_move lay_movement(const lay_t *src, const lay_t *dst) {
  for (int scope = LAY_REG; scope < LAY_BLOCK; ++scope) {
    lay_span inside;
    lay_span_init(&inside);
    for (int h = LAY_REG; h <= scope; ++h) lay_span_add_all(&inside, src->basis[h], src->nbits[h]);
    bool ok = true;
    for (int h = LAY_REG; h < LAY_NHW && ok; ++h) {
      if (h > scope && src->nbits[h] != dst->nbits[h]) ok = false;
      for (int i = 0; i < dst->nbits[h] && ok; ++i)
        ok = lay_span_has(&inside, h <= scope ? dst->basis[h][i] : dst->basis[h][i] ^ src->basis[h][i]);
    }
    if (ok) return (lay_move)scope;
  }
  return LAY_MOVE_CLUSTER;
}

static bool is_identity(const uint16_t *map, int n, int n_in) {
  if (n != n_in) return false;
  for (int i = 0; i < n; ++i)
    if (map[i] != i) return false;
  return true;
}

static int shuffle_cost(const lay_shuffle *s) { return COST_SHUFFLE * s->shuffles + COST_SELECT * s->selects; }

static int wavefronts(const lay_way *w) { return w->by_matrix ? w->matrix.wavefronts : w->vectors.wavefronts; }

static int exchange_cost(const lay_exchange *e) {
  int each_round = COST_ROUND_TRIP + (e->warp_local ? 0 : COST_BARRIER);
  return wavefronts(&e->store) + wavefronts(&e->load) + e->rounds * each_round;
}

const lay_cvt *lay_convert(lay_cx *cx, arena *a, const lay_t *src, const lay_t *dst, int elem_bits,
                           const lay_cvt_options *opt) {
  static const lay_cvt_options usual = {.max_scratch = SCRATCH_PREFERRED};
  bool may_exceed = !opt;
  if (!opt) opt = &usual;
  if (elem_bits < 8) elem_bits = 8;
  BASE_ASSERT(lay_shape_eq(lay_shape_of(src), lay_shape_of(dst)) && src->flags & LAY_SURJECTIVE);
  lay_cvt *c = ARENA_NEW(a, lay_cvt);
  *c = (lay_cvt){.level = lay_movement(src, dst), .src = src, .dst = dst, .elem_bytes = elem_bits / 8};
  lay_view same = lay_view_identity(lay_bits(src));
  if (c->level == LAY_MOVE_THREAD && (c->regs = lay_regmap(a, src, dst, &same))) {
    c->kind = is_identity(c->regs, lay_regs(dst), lay_regs(src)) ? LAY_CVT_NOOP : LAY_CVT_REGS;
    return c;
  }
  if (!opt->no_shuffle) c->shuffle = lay_plan_shuffle(cx, a, src, dst, elem_bits);
  if (!(opt->no_shared && c->shuffle))
    c->shared = lay_plan_exchange(cx, a, c, opt->max_scratch, may_exceed, (bool[2]){false, false});
  if (c->shuffle && c->shared && shuffle_cost(c->shuffle) > exchange_cost(c->shared)) c->shuffle = NULL;
  if (c->shuffle) {
    c->kind = LAY_CVT_SHUFFLE;
    c->shared = NULL;
    c->cost = shuffle_cost(c->shuffle);
  } else if (c->shared) {
    c->kind = LAY_CVT_SHARED;
    c->cost = exchange_cost(c->shared);
  } else {
    return NULL;
  }
  return c;
}

const lay_cvt *lay_with_matrices(lay_cx *cx, arena *a, const lay_cvt *c, bool stmatrix, bool ldmatrix) {
  if (c->kind != LAY_CVT_SHARED || !(stmatrix || ldmatrix)) return c;
  lay_cvt *m = ARENA_NEW(a, lay_cvt);
  *m = *c;
  m->shared = lay_plan_exchange(cx, a, c, c->shared->bytes, false, (bool[2]){stmatrix, ldmatrix});
  BASE_ASSERT(m->shared && m->shared->rounds == c->shared->rounds);
  m->cost = exchange_cost(m->shared);
  return m;
}

/* ---- costs by pair ----------------------------------------------------------------------------------------------- */

typedef struct cost_row {
  const lay_t *src, *dst;
  int bits, cost;
} cost_row;

struct lay_cost_table {
  cost_row *row;
  int n, cap;
};

static cost_row *find_row(const lay_cost_table *t, const lay_t *src, const lay_t *dst, int bits) {
  for (uint64_t i = src->hash + 31 * dst->hash + (uint64_t)bits;; ++i) {
    cost_row *r = &t->row[i & (uint64_t)(t->cap - 1)];
    if (!r->src || (r->src == src && r->dst == dst && r->bits == bits)) return r;
  }
}

int lay_convert_cost(lay_cx *cx, const lay_t *src, const lay_t *dst, int elem_bits) {
  if (src == dst) return 0;
  lay_cost_table **t = lay_cx_costs(cx);
  if (!*t) *t = ARENA_NEW(lay_cx_arena(cx), lay_cost_table);
  if (2 * ((*t)->n + 1) > (*t)->cap) {
    lay_cost_table old = **t;
    (*t)->cap = old.cap ? 2 * old.cap : 64;
    (*t)->row = ARENA_ARRAY(lay_cx_arena(cx), cost_row, (*t)->cap);
    for (int i = 0; i < old.cap; ++i)
      if (old.row[i].src) *find_row(*t, old.row[i].src, old.row[i].dst, old.row[i].bits) = old.row[i];
  }
  cost_row *r = find_row(*t, src, dst, elem_bits);
  if (!r->src) {
    arena *scratch = arena_new();
    const lay_cvt *c = lay_convert(cx, scratch, src, dst, elem_bits, NULL);
    *r = (cost_row){src, dst, elem_bits, c ? c->cost : INT32_MAX};
    (*t)->n++;
    arena_free(scratch);
  }
  return r->cost;
}
