/* gang: see gang.h.
 *
 * A value is `same` if all programs of a gang compute it alike, and a counter if it is the induction variable of one of
 * the loops, or what that is behind the last of them. Each loop takes one tile of each ring in an iteration, so tiles
 * have numbers, and what has to be shown is that the position of tile number n is the same for all programs:
 *
 *   * Where all bounds of the loops are the same, it is if it is computed from counters and values that are the same.
 *   * Where they are not, each loop has to go on counting where the one before it ended. Then the counter is n times
 *     the step, and the positions of all loads of a ring have to be the same function of it. */
#include "compiler/passes/gang.h"

typedef struct gang {
  box_cx *cx;
  const tir_region *body;
  VEC(const tir_op *) loops; /* that load, in program order */
  int8_t *same;              /* by value id: 0 not known yet, 1 yes, -1 no */
} gang;

static bool is_same(gang *g, const tir_value *v) {
  const tir_op *op = v->def;
  if (!op) return v->region == tir_fn_of(g->body->first)->body;
  int8_t *known = &g->same[v->id];
  if (*known) return *known > 0;
  bool same = !op->n_regions && (tir_ops[op->code].effect == FX_PURE || op->code == OP_load) &&
              (op->code != OP_program_id || tir_attr_int(op, ATTR_axis, 0) != 0);
  for (int i = 0; same && i < op->n_in; i++) same = is_same(g, tir_in(op, i));
  *known = same ? 1 : -1;
  return same;
}

static bool steps(const tir_value *v, const tir_value *iv, const tir_value *step) {
  const tir_op *op = v->def;
  return op && op->code == OP_add &&
         ((tir_in(op, 0) == iv && tir_in(op, 1) == step) || (tir_in(op, 1) == iv && tir_in(op, 0) == step));
}

static bool is_counter(const gang *g, const tir_value *v) {
  for (int i = 0; i < g->loops.n; i++) {
    const tir_op *loop = g->loops.at[i];
    const tir_value *iv = loop->regions[0]->args[0];
    if (v == iv) return true;
    if (v->def == loop && i == g->loops.n - 1)
      return tir_in(loop, v->index + 3) == tir_in(loop, 0) &&
             steps(tir_in(loop->regions[0]->last, v->index), iv, tir_in(loop, 2));
  }
  return false;
}

/* v; 0 for min(0, x) where x is what a loop ends with, which count_on has found not to be negative. */
static const tir_value *simpler(const gang *g, const tir_value *v) {
  const tir_op *op = v->def;
  int64_t zero;
  for (int i = 0; op && op->code == OP_min && i < 2; i++)
    for (int k = 0; k + 1 < g->loops.n; k++)
      if (tir_in(op, i) == tir_in(g->loops.at[k], 1) && tir_known_int(tir_in(op, 1 - i), &zero) && zero == 0)
        return tir_in(op, 1 - i);
  return v;
}

/* Whether x and y are the same function of counters and of values that are the same. */
static bool are_alike(gang *g, const tir_value *x, const tir_value *y) {
  int64_t cx, cy;
  x = simpler(g, x);
  y = simpler(g, y);
  if (is_counter(g, x) && is_counter(g, y)) return true;
  if (tir_known_int(x, &cx) && tir_known_int(y, &cy)) return cx == cy;
  if (x == y && is_same(g, x)) return true;
  const tir_op *a = x->def, *b = y->def;
  if (!a || !b || a->code != b->code || a->n_in != b->n_in || !a->n_in || a->n_regions) return false;
  if (tir_ops[a->code].effect != FX_PURE || x->type != y->type) return false;
  for (int i = 0; i < a->n_in; i++)
    if (!are_alike(g, tir_in(a, i), tir_in(b, i))) return false;
  return true;
}

/* x with the first loop's induction variable for every counter; not known if something else differs. */
static affine_poly of_counter(gang *g, const affine_poly *x) {
  affine_poly p = *x, iv = affine_of(&g->cx->affine, g->loops.at[0]->regions[0]->args[0]);
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < x->at[i].n; k++) {
      const tir_value *v = x->at[i].atom[k];
      if (is_counter(g, v))
        p = affine_put(&p, v, iv);
      else if (!is_same(g, v))
        p.known = false;
    }
  return p;
}

/* Whether every loop begins where the one before it ended, in full steps, so that one counter goes through all. */
static bool count_on(gang *g, const gang_load *loads, int n) {
  const tir_op *first = g->loops.at[0];
  int64_t from, step, first_step;
  if (!is_same(g, tir_in(first, 0)) || !tir_known_int(tir_in(first, 2), &first_step)) return false;
  for (int i = 1; i < g->loops.n; i++) {
    const tir_op *before = g->loops.at[i - 1], *loop = g->loops.at[i];
    axis_info end = axis_of(g->cx->facts, tir_in(before, 1));
    if (tir_in(loop, 0) != tir_in(before, 1)) return false;
    if (!tir_known_int(tir_in(loop, 2), &step) || step != first_step) return false;
    if (!tir_known_int(tir_in(first, 0), &from) || from || end.divisibility[0] % step) return false;
    for (int k = 0; k < n; k++)
      if (!box_not_negative(g->cx, tir_in(before, 1), loads[k].box)) return false;
  }
  return true;
}

/* Whether v is no more than `size`, provided that parameters are not negative which then *b lists. */
static bool at_most(gang *g, const tir_value *v, const affine_poly *size, box *b) {
  affine_poly p = affine_of(&g->cx->affine, v);
  if (p.known && affine_equal(&p, size)) return true;
  const tir_op *op = v->def, *quotient;
  int64_t by, factor;
  if (op && op->code == OP_min) return at_most(g, tir_in(op, 0), size, b) || at_most(g, tir_in(op, 1), size, b);
  if (!op || op->code != OP_mul || !tir_known_int(tir_in(op, 1), &factor)) return false;
  quotient = tir_in(op, 0)->def;
  if (!quotient || quotient->code != OP_div || !tir_known_int(tir_in(quotient, 1), &by) || by != factor) return false;
  return box_not_negative(g->cx, tir_in(quotient, 0), b) && at_most(g, tir_in(quotient, 0), size, b);
}

/* Whether no tile of a load reaches beyond `size` along axis 1: in a loop that ends there, in full steps. */
static bool stays_within(gang *g, const gang_load *x, const affine_poly *size) {
  const tir_op *loop = x->load->parent->owner;
  int64_t step;
  if (x->load->parent == g->body || !tir_known_int(tir_in(loop, 2), &step)) return false;
  affine_poly iv = affine_of(&g->cx->affine, loop->regions[0]->args[0]);
  affine_poly rest = affine_add(x->box->at[1], affine_scaled(iv, -1));
  int64_t ahead = rest.n ? rest.at[0].coef : 0;
  if (!rest.known || rest.n > 1 || (rest.n && rest.at[0].n) || ahead + x->side > step) return false;
  return loop != g->loops.at[g->loops.n - 1] && at_most(g, tir_in(loop, 1), size, x->box);
}

/* Whether two loads of a ring may have one size along an axis; then they have. */
static bool share_size(gang *g, const gang_load *x, const gang_load *y, int axis) {
  affine_poly *a = &x->box->size[axis], *b = &y->box->size[axis];
  if (affine_equal(a, b)) return true;
  if (axis == 1 && stays_within(g, x, b))
    *a = *b;
  else if (axis == 1 && stays_within(g, y, a))
    *b = *a;
  else
    return false;
  return true;
}

static bool bounds_are_same(gang *g) {
  for (int i = 0; i < g->loops.n; i++)
    for (int k = 0; k < 3; k++)
      if (!is_same(g, tir_in(g->loops.at[i], k))) return false;
  return true;
}

/* The loops in program order, if each loads one tile of each ring in an iteration, and counts up. */
static bool find_loops(gang *g, arena *a, const gang_load *loads, int n) {
  for (const tir_op *op = g->body->first; op; op = op->next) {
    bool any = false, all = true;
    for (int i = 0; i < n; i++) {
      int of_ring = 0;
      for (int k = 0; k < n; k++)
        of_ring += op->code == OP_for && loads[k].load->parent == op->regions[0] && loads[k].ring == loads[i].ring;
      any = any || of_ring > 0;
      all = all && of_ring == 1;
    }
    if (any && !all) return false;
    if (any) VEC_PUSH(a, g->loops, op);
  }
  for (int i = 0; i < g->loops.n; i++) { /* their iterations can be counted */
    int64_t step;
    if (!dt_is_signed(tir_dtype_of(tir_in(g->loops.at[i], 0)->type))) return false;
    if (!tir_known_int(tir_in(g->loops.at[i], 2), &step) || step <= 0) return false;
  }
  for (int i = 0; i < n; i++) { /* none in further loops, or in branches */
    bool found = loads[i].load->parent == g->body;
    for (int k = 0; k < g->loops.n; k++) found = found || loads[i].load->parent == g->loops.at[k]->regions[0];
    if (!found) return false;
  }
  return g->loops.n > 0;
}

/* Whether anything of a program depends on where it is along the grid's first axis. */
static bool is_used(const tir_fn *fn) {
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op))
    if (op->code == OP_program_id && tir_attr_int(op, ATTR_axis, 0) == 0) return true;
  return false;
}

const char *gang_refused(box_cx *cx, const tir_region *body, const gang_load *loads, int n) {
  const tir_fn *fn = cx->affine.fn;
  gang g = {.cx = cx, .body = body, .same = ARENA_ARRAY(cx->affine.a, int8_t, fn->n_values + 1)};
  if (!is_used(fn)) return "all along the grid's first axis are alike";
  if (!find_loops(&g, cx->affine.a, loads, n))
    return "not every loop that loads counts up and takes a tile of each kind";
  bool ragged = !bounds_are_same(&g);
  if (ragged && !count_on(&g, loads, n)) return "their loops have other bounds, and do not count on from each other";
  for (int i = 0; i < n; i++) {
    const box *x = loads[i].box;
    int other = 0; /* a load of the same ring */
    while (loads[other].ring != loads[i].ring) other++;
    if (!ragged) other = i;
    const box *y = loads[other].box;
    if (x->base != y->base || x->rank != y->rank || !x->when != !y->when) return "their loops read different tensors";
    for (int k = 0; k < x->rank; k++) {
      if (!share_size(&g, &loads[i], &loads[other], k) || !affine_equal(&x->stride[k], &y->stride[k]))
        return "their loops read different tensors";
      affine_poly p = of_counter(&g, &x->at[k]), q = of_counter(&g, &y->at[k]);
      if (!p.known || !affine_equal(&p, &q)) return "they read different tiles";
    }
    if (x->when && !are_alike(&g, x->when, y->when)) return "they leave out different tiles";
  }
  return NULL;
}
