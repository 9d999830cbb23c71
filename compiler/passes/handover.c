/* handover: see handover.h.
 *
 * A loop that goes on where another ended, as that over the diagonal of causal attention behind that over the blocks
 * before it, can take over the last product: then no tensor core waits in between, and one product with zeros less is
 * computed. The first iteration then loads the tile at iv - step by the address and the mask of its own loop. So
 * iv - step must be where the loop before was last, address and mask must be what they were there, and nothing that
 * lies between the loops may notice the delay. */
#include "compiler/passes/handover.h"

#include "compiler/analysis/affine.h"

const char *handover_effect(const tir_op *first, const tir_op *end) {
  for (const tir_op *op = first; op != end; op = op->next) {
    if (tir_is_pure(op) || tir_ops[op->code].effect == FX_SHARED) continue;
    if (op->code != OP_load) return tir_ops[op->code].name;
    if (tir_attr_int(op, ATTR_is_volatile, 0)) return "volatile load";
  }
  return NULL;
}

bool handover_follows(const chain *c, const chain *before) {
  const tir_use *u = before->loop->out[before->slot]->uses;
  return u && !u->next && u->op == c->loop && u == &c->loop->in[c->slot + 3] && c->loop->parent == before->loop->parent;
}

/* ---- the same in both loops ---- */

static bool of_body(const tir_region *body, const tir_value *v) {
  return v->def ? tir_region_contains(body, v->def->parent) : v->region == body;
}

/* What is proven of y must be of x too, because y is going to be computed for the iteration of x. */
static bool same_attrs(const tir_op *x, const tir_op *y) {
  const tir_attr *a = x->attrs, *b = y->attrs;
  for (; a && b && a->key == b->key; a = a->next, b = b->next) {
    if (a->n != b->n || a->i != b->i || a->scalar.bits != b->scalar.bits || a->str != b->str) return false;
    for (int i = 0; i < a->n; i++)
      if (a->ints[i] != b->ints[i]) return false;
  }
  return !b && (!a || (a->key == ATTR_nowrap && !a->next));
}

/* Whether x, in `before`, is computed from its induction variable as y is, in c, from the one there. What is carried
   counts as the same once, with what it is first compared with. */
static bool same(chain *c, const chain *before, const tir_value *x, const tir_value *y) {
  if (!of_body(before->body, x) || !of_body(c->body, y)) return x == y;
  if (x->type != y->type || !x->def != !y->def) return false;
  if (!x->def) {
    if (!x->index || !y->index) return x->index == y->index;
    int *pair = &c->same[y->index - 1];
    if (!*pair) *pair = x->index;
    return *pair == x->index;
  }
  const tir_op *a = x->def, *b = y->def;
  if (a->code != b->code || a->n_in != b->n_in || x->index != y->index || a->n_regions || b->n_regions) return false;
  for (int i = 0; i < a->n_in; i++)
    if (!same(c, before, tir_in(a, i), tir_in(b, i))) return false;
  return same_attrs(a, b);
}

/* ---- masks ---- */

enum { MOST_CONJUNCTS = 8 };
typedef struct conjuncts {
  int n; /* MOST_CONJUNCTS + 1: too many */
  const tir_value *at[MOST_CONJUNCTS];
} conjuncts;

static void conjuncts_of(const tir_value *v, conjuncts *out) {
  if (v->def && (v->def->code == OP_and || v->def->code == OP_broadcast)) {
    for (int i = 0; i < v->def->n_in; i++) conjuncts_of(tir_in(v->def, i), out);
  } else if (out->n < MOST_CONJUNCTS) {
    out->at[out->n++] = v;
  } else {
    out->n = MOST_CONJUNCTS + 1;
  }
}

/* Whether v <= bound, where v is greater than 0. */
static bool at_most(const tir_value *v, const tir_value *bound) {
  if (v == bound) return true;
  if (!v->def) return false;
  const tir_value *x = tir_in(v->def, 0);
  int64_t c;
  if (v->def->code == OP_min) return at_most(x, bound) || at_most(tir_in(v->def, 1), bound);
  return v->def->code == OP_mul && x->def && x->def->code == OP_div && tir_in(x->def, 1) == tir_in(v->def, 1) &&
         tir_known_int(tir_in(v->def, 1), &c) && c > 0 && at_most(tir_in(x->def, 0), bound);
}

/* Whether the conjunct of c's mask is on in all of the last tile of `before`, if that loop ran: `iv + axis < bound`,
   where bound is not below the loop's end. */
static bool holds(chain *c, const chain *before, const axis_facts *facts, const tir_value *v) {
  const tir_value *end = tir_in(c->loop, 0), *iv = c->body->args[0];
  for (int i = 0; i < c->n_carried; i++)
    if (c->used[i]) return false;
  const tir_value *bound = v->def && v->def->code == OP_lt ? tir_in(v->def, 1) : NULL;
  while (bound && bound->def &&
         (bound->def->code == OP_splat || bound->def->code == OP_broadcast || bound->def->code == OP_expand_dims ||
          bound->def->code == OP_convert_layout))
    bound = tir_in(bound->def, 0);
  if (!bound || !dt_is_signed(tir_dtype_of(bound->type)) || axis_of(facts, tir_in(before->loop, 0)).lo < 0 ||
      !at_most(end, bound))
    return false;
  affine_cx affine = {.fn = c->fn, .a = c->a};
  affine_poly at = affine_of(&affine, tir_in(v->def, 0)), begin = affine_of(&affine, iv);
  int64_t step, most = 0;
  tir_known_int(tir_in(c->loop, 2), &step);
  at = affine_add(at, affine_scaled(begin, -1)); /* without iv: what is left is the position in the tile */
  for (int i = 0; i < at.n; i++) {
    int axis = 0;
    while (axis < TIR_MAX_RANK && at.at[i].n == 1 && at.at[i].atom[0] != &affine_axis[axis]) axis++;
    if (at.at[i].n > 1 || axis == TIR_MAX_RANK || (at.at[i].n == 1 && at.at[i].coef < 0)) return false;
    most += at.at[i].coef * (at.at[i].n ? tir_in(v->def, 0)->type->shape[axis] - 1 : 1);
  }
  return at.known && !affine.wraps.n && most < step;
}

/* Whether the mask of c's load is that of the load in `before`, or as good in the last tile there. */
static bool same_mask(chain *c, const chain *before, const axis_facts *facts) {
  conjuncts x = {0}, y = {0};
  if (before->load->n_in > 1) conjuncts_of(tir_in(before->load, 1), &x);
  if (c->load->n_in > 1) conjuncts_of(tir_in(c->load, 1), &y);
  if (x.n > MOST_CONJUNCTS || y.n > MOST_CONJUNCTS) return false;
  bool met[MOST_CONJUNCTS] = {false};
  for (int k = 0; k < y.n; k++) {
    bool fits = false;
    for (int i = 0; i < x.n; i++)
      if (same(c, before, x.at[i], y.at[k])) met[i] = fits = true;
    if (!fits && !holds(c, before, facts, y.at[k])) return false;
  }
  for (int i = 0; i < x.n; i++)
    if (!met[i]) return false;
  return true;
}

/* ---- addresses by induction variables ---- */

/* The address of the load in the iteration before that of the value `end`. */
static affine_poly before_end(const chain *c, const tir_value *end, const tir_value **base) {
  affine_cx affine = {.fn = c->fn, .a = c->a};
  affine_poly at = affine_address(&affine, tir_in(c->load, 0), base), last = affine_of(&affine, end);
  int64_t step = 0;
  tir_known_int(tir_in(c->loop, 2), &step);
  at = affine_put(&at, c->body->args[0], affine_add(last, affine_const(-step)));
  if (affine.wraps.n) at.known = false;
  return at;
}

bool handover_same_address(const chain *c, const chain *before) {
  const tir_value *begin = tir_in(c->loop, 0), *base[2];
  affine_poly x = before_end(c, begin, &base[0]), y = before_end(before, begin, &base[1]);
  return x.known && y.known && base[0] == base[1] && affine_equal(&x, &y);
}

/* ---- the decision ---- */

static bool same_product(const chain *c, const chain *before) {
  bool fits = !c->view == !before->view && c->load->out[0]->type == before->load->out[0]->type &&
              same_attrs(before->last, c->last);
  for (int i = 0; i < 3; i++) fits = fits && tir_in(c->last, i)->type == tir_in(before->last, i)->type;
  return fits;
}

const char *handover_refused(chain *c, const chain *before, const axis_facts *facts) {
  int64_t step, step_before;
  tir_known_int(tir_in(c->loop, 2), &step);
  tir_known_int(tir_in(before->loop, 2), &step_before);
  if (before->before) return "it has taken over one itself, and may not have run";
  if (tir_in(c->loop, 0) != tir_in(before->loop, 1) || step != step_before || step <= 0)
    return "the loop behind it does not go on where it ends";
  if (axis_of(facts, tir_in(c->loop, 0)).divisibility[0] % step ||
      axis_of(facts, tir_in(before->loop, 0)).divisibility[0] % step)
    return arena_printf(c->a, "its bounds are not known to be multiples of %lld", (long long)step);
  const char *effect = handover_effect(before->loop->next, c->loop);
  if (effect) return arena_printf(c->a, "other effects lie between the loops (%s)", effect);
  if (!same_product(c, before)) return "the products have different types";
  if (!same(c, before, tir_in(before->load, 0), tir_in(c->load, 0))) return "the loops load from different addresses";
  return same_mask(c, before, facts) ? NULL : "the loops load with different masks";
}
