/* boxes: see boxes.h.
 *
 * The address of a tile is a polynomial (affine.h). The factors of the tile's axes are the strides of two axes of the
 * tensor. A mask that compares an index with a size, or an index that is taken modulo a size or replaced by 0 from
 * there on, says how long an axis is and where the box begins on it; an axis without either is taken to be endless, so
 * that nothing is ever cut off that the load would read. What is left of the address belongs to further axes: each
 * product of parameters is the stride of one, and what it is multiplied with the position there. */
#include "compiler/passes/boxes.h"

enum { ENDLESS = INT32_MAX, ALIGNMENT = 16 /* bytes, of base and strides */ };

typedef struct bound { /* of an axis of a tile: position + first < size, and, if from_zero, >= 0 */
  bool upper, from_zero;
  affine_poly first, size;
} bound;

static bool at_launch(const affine_cx *cx, const affine_poly *x) {
  for (int i = 0; i < x->n; i++) {
    affine_term launch, run;
    affine_split(cx, &x->at[i], &launch, &run);
    if (run.n) return false;
  }
  return x->known;
}

static affine_poly term(affine_term t) {
  affine_poly p = affine_const(1);
  p.at[0] = t;
  return p;
}

/* Which axis of two a term holds, and the rest of its factors. -1: none; -2: more than one. */
static int axis_in(const affine_term *t, affine_term *rest) {
  int axis = -1;
  *rest = (affine_term){.coef = t->coef};
  for (int i = 0; i < t->n; i++) {
    bool is_axis = false;
    for (int k = 0; k < TIR_MAX_RANK; k++) {
      if (t->atom[i] != &affine_axis[k]) continue;
      axis = axis == -1 ? k : -2;
      is_axis = true;
    }
    if (!is_axis) rest->atom[rest->n++] = t->atom[i];
  }
  return axis;
}

/* x = axis * *factor + *rest, for the one axis that it mentions; -1 if it is not of that form. */
static int take_axis(const affine_poly *x, affine_poly *factor, affine_poly *rest) {
  int axis = -1;
  *factor = *rest = affine_const(0);
  for (int i = 0; i < x->n; i++) {
    affine_term t;
    int a = axis_in(&x->at[i], &t);
    if (a == -2 || (a >= 0 && axis >= 0 && a != axis)) return -1;
    if (a >= 0) axis = a;
    *(a >= 0 ? factor : rest) = affine_add(a >= 0 ? *factor : *rest, term(a >= 0 ? t : x->at[i]));
  }
  return x->known ? axis : -1;
}

/* ---- masks ---- */

static const tir_value *begin_of(const tir_value *v, int64_t *step);

/* lane < v, where v counts down from its beginning while pointers go up: beginning - v + lane < beginning. */
static void count_up(box_cx *cx, affine_poly *first, affine_poly *size) {
  int64_t step;
  for (int i = 0; i < first->n && size->known && !size->n; i++) {
    const affine_term *t = &first->at[i];
    const tir_value *begin = t->n == 1 && t->coef == -1 ? begin_of(t->atom[0], &step) : NULL;
    affine_poly from = begin && step < 0 ? affine_of(&cx->affine, begin) : affine_const(0);
    if (!at_launch(&cx->affine, &from) || !from.n) continue;
    *first = affine_add(*first, from);
    *size = from;
  }
}

/* lesser < greater as a bound of an axis; false if it is none. What of `greater` is known at launch is the size. */
static bool bound_of(box_cx *cx, const affine_poly *lesser, const affine_poly *greater, bound *bounds) {
  affine_poly factor, rest, below = affine_add(*lesser, affine_scaled(*greater, -1));
  int axis = take_axis(&below, &factor, &rest);
  if (axis < 0 || axis > 1 || factor.n != 1 || factor.at[0].n) return false;
  bound *b = &bounds[axis];
  if (factor.at[0].coef == 1) {
    affine_poly size = affine_const(0);
    for (int i = 0; i < greater->n; i++) {
      affine_poly one = term(greater->at[i]);
      if (at_launch(&cx->affine, &one)) size = affine_add(size, one);
    }
    affine_poly first = affine_add(rest, size);
    count_up(cx, &first, &size);
    if (b->upper && !(affine_equal(&b->first, &first) && affine_equal(&b->size, &size))) return false;
    b->upper = true;
    b->first = first;
    b->size = size;
    return size.known && first.known;
  }
  if (factor.at[0].coef == -1) { /* -position - first - 1 < 0: the first is compared when the upper bound is known */
    affine_poly first = affine_scaled(affine_add(rest, affine_const(1)), -1);
    if (!b->upper || !affine_equal(&b->first, &first)) return false;
    b->from_zero = true;
    return true;
  }
  return false;
}

typedef struct conjunct {
  const tir_op *op;
  int to[TIR_MAX_RANK]; /* axes of its operands in the tile */
} conjunct;
enum { MOST_CONJUNCTS = 8 };

/* The comparisons that a mask is the conjunction of, and at most one scalar; false if it is something else. */
static bool conjuncts_of(const tir_value *v, const int *to, conjunct *list, int *n, const tir_value **when) {
  const tir_op *op = v->def;
  tir_scalar s;
  if (tir_known_scalar(v, &s)) return s.bits == 1;
  if (!op || !tir_is_tile(v->type)) return false;
  int from[TIR_MAX_RANK];
  switch (op->code) {
    case OP_splat:
      if (!when || (*when && *when != tir_in(op, 0))) return false;
      *when = tir_in(op, 0);
      return true;
    case OP_and:
      return conjuncts_of(tir_in(op, 0), to, list, n, when) && conjuncts_of(tir_in(op, 1), to, list, n, when);
    case OP_broadcast:
    case OP_convert_layout:
    case OP_hint: return conjuncts_of(tir_in(op, 0), to, list, n, when);
    case OP_expand_dims: {
      int at = (int)tir_attr_int(op, ATTR_axis, 0);
      for (int i = 0; i < v->type->rank - 1; i++) from[i] = to[i < at ? i : i + 1];
      return conjuncts_of(tir_in(op, 0), from, list, n, when);
    }
    case OP_trans: {
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      for (int i = 0; i < perm->n; i++) from[perm->ints[i]] = to[i];
      return conjuncts_of(tir_in(op, 0), from, list, n, when);
    }
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
      if (*n == MOST_CONJUNCTS) return false;
      list[*n].op = op;
      for (int i = 0; i < v->type->rank; i++) list[*n].to[i] = to[i];
      (*n)++;
      return true;
    default: return false;
  }
}

static bool not_negative(box_cx *cx, const affine_poly *x, box *b);

/* max(size, 0), as the sizes of block pointers are compared with, is the size where that is not negative. */
static affine_poly without_max(box_cx *cx, affine_poly x, box *b) {
  for (int i = 0; i < x.n; i++)
    for (int k = 0; k < x.at[i].n; k++) {
      const tir_value *v = x.at[i].atom[k];
      int64_t least;
      if (!v->def || v->def->code != OP_max || !tir_known_int(tir_in(v->def, 1), &least) || least) continue;
      affine_poly size = affine_of(&cx->affine, tir_in(v->def, 0));
      if (at_launch(&cx->affine, &size) && not_negative(cx, &size, b))
        return without_max(cx, affine_put(&x, v, size), b);
    }
  return x;
}

/* What a comparison says, as *lesser < *greater. Among unsigned numbers it says of the lesser too that it is not
   negative, unless the greater may be: *natural. */
static void compared(box_cx *cx, const conjunct *c, box *b, affine_poly *lesser, affine_poly *greater, bool *natural) {
  bool up = c->op->code == OP_lt || c->op->code == OP_le;
  const tir_type *t = tir_in(c->op, 0)->type;
  *lesser = affine_axes(affine_of(&cx->affine, tir_in(c->op, !up)), c->to, t->rank);
  *greater = affine_axes(without_max(cx, affine_of(&cx->affine, tir_in(c->op, up)), b), c->to, t->rank);
  *natural = !dt_is_signed(tir_dtype_of(t)) && not_negative(cx, greater, b);
  if (c->op->code == OP_le || c->op->code == OP_ge) *greater = affine_add(*greater, affine_const(1));
}

/* The bounds that hold of all elements of a mask that are on; false if it says anything else as well. */
static bool bounds_of(box_cx *cx, const tir_value *mask, bound *bounds, box *b) {
  static const int same[TIR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  conjunct list[MOST_CONJUNCTS];
  int n = 0, known = 0, before = cx->affine.wraps.n;
  if (!conjuncts_of(mask, same, list, &n, &b->when)) return false;
  for (int round = 0; round < 2; round++) /* upper bounds, then lower ones */
    for (int i = 0; i < n; i++) {
      if (!list[i].op) continue;
      affine_poly lesser, greater, minus_one = affine_const(-1);
      bool natural;
      compared(cx, &list[i], b, &lesser, &greater, &natural);
      if (!bound_of(cx, &lesser, &greater, bounds)) continue;
      if (natural) bound_of(cx, &minus_one, &lesser, bounds);
      list[i].op = NULL;
      known++;
    }
  return known == n && cx->affine.wraps.n == before;
}

/* ---- elements that nothing stores ---- */

typedef struct follow {
  box_cx *cx;
  box *box;
  const affine_poly *first, *size;
  struct {
    const tir_value *v;
    int axis;
  } seen[64];
  int n_seen;
} follow;

static bool unseen(follow *f, const tir_value *v, int axis);

/* The store's mask leaves out the elements from `size` on. */
static bool masked(follow *f, const tir_op *store, int axis) {
  static const int same[TIR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  conjunct list[MOST_CONJUNCTS];
  int n = 0;
  if (store->n_in < 3 || !conjuncts_of(tir_in(store, 2), same, list, &n, NULL)) return false;
  for (int i = 0; i < n; i++) {
    bound bounds[2] = {{0}};
    affine_poly lesser, greater;
    bool natural;
    int before = f->cx->affine.wraps.n;
    compared(f->cx, &list[i], f->box, &lesser, &greater, &natural);
    bool wraps = f->cx->affine.wraps.n > before; /* then it leaves out nothing */
    f->cx->affine.wraps.n = before;
    if (!wraps && bound_of(f->cx, &lesser, &greater, bounds) && bounds[axis].upper &&
        affine_equal(&bounds[axis].first, f->first) && affine_equal(&bounds[axis].size, f->size))
      return true;
  }
  return false;
}

static bool unseen_use(follow *f, const tir_use *u, int axis) {
  const tir_op *op = u->op;
  int i = (int)(u - op->in);
  switch (op->code) {
    case OP_buffer_store: return unseen(f, tir_in(op, 1), axis);
    case OP_buffer_at:
    case OP_buffer_load:
    case OP_convert_layout:
    case OP_hint: return unseen(f, op->out[0], axis);
    case OP_trans:
    case OP_buffer_trans: {
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      for (int k = 0; k < perm->n; k++)
        if (perm->ints[k] == axis) return unseen(f, op->out[0], k);
      return false;
    }
    case OP_wgmma:
    case OP_dot: return (i == 2 || i == axis) && op->out[0]->type->rank == 2 && unseen(f, op->out[0], axis);
    case OP_wgmma_wait: return unseen(f, op->out[i], axis);
    case OP_for: return i >= 3 && unseen(f, op->regions[0]->args[i - 2], axis) && unseen(f, op->out[i - 3], axis);
    case OP_yield: {
      const tir_op *owner = op->parent->owner;
      if (owner->code == OP_for && !unseen(f, op->parent->args[i + 1], axis)) return false;
      return (owner->code == OP_for || owner->code == OP_if) && unseen(f, owner->out[i], axis);
    }
    case OP_store: return i == 1 && masked(f, op, axis);
    default: return (tir_ops[op->code].flags & OPF_ELT) && unseen(f, op->out[0], axis);
  }
}

/* Whether nobody sees the elements of v whose position along `axis` is f->size - f->first or more. */
static bool unseen(follow *f, const tir_value *v, int axis) {
  for (int i = 0; i < f->n_seen; i++)
    if (f->seen[i].v == v && f->seen[i].axis == axis) return true;
  if (axis > 1 || f->n_seen == (int)(sizeof f->seen / sizeof *f->seen)) return false;
  f->seen[f->n_seen].v = v;
  f->seen[f->n_seen++].axis = axis;
  for (const tir_use *u = v->uses; u; u = u->next)
    if (u->op->code != OP_buffer_store || u == &u->op->in[0])
      if (!unseen_use(f, u, axis)) return false;
  return true;
}

/* ---- facts ---- */

/* What t is a multiple of; promises count, because the launch makes no map of what breaks them. */
static int64_t known_factor(const affine_cx *cx, const affine_term *t) {
  int64_t factor = t->coef & -t->coef;
  for (int i = 0; i < t->n; i++)
    for (int k = 0; k < cx->fn->n_params; k++) {
      const tir_param *p = &cx->fn->params[k];
      if (p->value == t->atom[i]) factor *= p->promised > p->divisibility ? p->promised : p->divisibility;
    }
  return factor;
}

/* Whether every integer that is not negative and of the type of `from` is one of v's type as well. */
static bool keeps_values(const tir_value *from, const tir_value *v) {
  tir_dtype f = tir_dtype_of(from->type), t = tir_dtype_of(v->type);
  return dt_is_int(f) && dt_is_int(t) && tir_dtypes[f].bits - dt_is_signed(f) <= tir_dtypes[t].bits - dt_is_signed(t);
}

/* That v is not negative, provided that the parameters which *b then lists are not. */
static bool value_not_negative(box_cx *cx, const tir_value *v, box *b, int depth) {
  if (axis_of(cx->facts, v).nonneg) return true;
  if (!v->def) {
    const tir_op *owner = v->region->owner;
    int64_t step;
    if (owner) /* an induction variable that begins at 0 or more */
      return depth && owner->code == OP_for && v->index == 0 && tir_known_int(tir_in(owner, 2), &step) && step > 0 &&
             value_not_negative(cx, tir_in(owner, 0), b, depth - 1);
    for (int i = 0; i < b->n_natural; i++)
      if (b->natural[i] == v) return true;
    if (b->n_natural == MOST_NATURAL) return false;
    b->natural[b->n_natural++] = v;
    return true;
  }
  const tir_op *op = v->def;
  switch (op->code) {
    case OP_add:
    case OP_mul:
    case OP_div:
    case OP_rem:
    case OP_min:
    case OP_cast:
      if (op->code == OP_cast ? !keeps_values(tir_in(op, 0), v) : affine_is_narrow(op)) return false;
      for (int i = 0; i < op->n_in; i++)
        if (!depth || !dt_is_int(tir_dtype_of(tir_in(op, i)->type)) ||
            !value_not_negative(cx, tir_in(op, i), b, depth - 1))
          return false;
      return true;
    case OP_sub: {
      affine_poly x = affine_of(&cx->affine, v);
      return depth && x.known && !affine_mentions(&x, v) && not_negative(cx, &x, b);
    }
    case OP_max:
      for (int i = 0; i < op->n_in && depth; i++)
        if (axis_of(cx->facts, tir_in(op, i)).nonneg) return true;
      return false;
    default: return false;
  }
}

/* What v is at most, in terms of atoms of x: a remainder, or the number of a program. */
static affine_poly upper_of(box_cx *cx, const affine_poly *x, const tir_value *v, box *b) {
  const tir_op *op = v->def;
  enum { DEPTH = 8 };
  if (op && op->code == OP_rem && value_not_negative(cx, tir_in(op, 0), b, DEPTH) &&
      value_not_negative(cx, tir_in(op, 1), b, DEPTH))
    return affine_add(affine_of(&cx->affine, tir_in(op, 1)), affine_const(-1));
  for (int i = 0; i < x->n && op && op->code == OP_program_id; i++)
    for (int k = 0; k < x->at[i].n; k++) {
      const tir_op *n = x->at[i].atom[k]->def;
      if (n && n->code == OP_num_programs && tir_attr_int(n, ATTR_axis, 0) == tir_attr_int(op, ATTR_axis, 0))
        return affine_add(affine_of(&cx->affine, n->out[0]), affine_const(-1));
    }
  return (affine_poly){.known = false};
}

/* x with one of the atoms that make it smaller at its largest. */
static bool not_negative_at_most(box_cx *cx, const affine_poly *x, box *b) {
  int n_natural = b->n_natural;
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < x->at[i].n && x->at[i].coef < 0; k++) {
      b->n_natural = n_natural;
      const tir_value *v = x->at[i].atom[k];
      affine_poly most = upper_of(cx, x, v, b);
      bool falls = most.known && !affine_mentions(&most, v);
      for (int j = 0; j < x->n && falls; j++)
        for (int a = 0; a < x->at[j].n; a++)
          if (x->at[j].atom[a] == v && x->at[j].coef > 0) falls = false;
      if (!falls) continue;
      affine_poly least = affine_put(x, v, most);
      if (least.known && not_negative(cx, &least, b)) return true;
    }
  return false;
}

/* v is the value that loop variable v begins with, or *step (which may be negative) or more beyond it: the induction
   variable, or what is carried along to know it behind the loop. */
static const tir_value *begin_of(const tir_value *v, int64_t *step) {
  const tir_op *loop = v->def ? v->def : v->region->owner;
  if (!loop || loop->code != OP_for || !tir_known_int(tir_in(loop, 2), step)) return NULL;
  const tir_value *iv = loop->regions[0]->args[0];
  if (v == iv) return tir_in(loop, 0);
  int i = v->def ? v->index : v->index - 1;
  const tir_op *next = tir_in(loop->regions[0]->last, i)->def;
  bool follows = next && next->code == OP_add && tir_in(next, 0) == iv && tir_in(next, 1) == tir_in(loop, 2);
  return follows && tir_in(loop, i + 3) == tir_in(loop, 0) ? tir_in(loop, 0) : NULL;
}

/* Whether x is not negative with v at its least, which is `end`; if v counts down, at its largest. */
static bool not_negative_from(box_cx *cx, const affine_poly *x, const tir_value *v, affine_poly end, bool down,
                              box *b) {
  enum { DEPTH = 8 };
  affine_poly y = affine_put(x, v, end);
  int n_natural = b->n_natural;
  bool all = !affine_mentions(&y, v);
  for (int i = 0; i < x->n && all; i++) {
    const affine_term *t = &x->at[i];
    int at = 0;
    while (at < t->n && t->atom[at] != v) at++;
    if (at == t->n) continue;
    all = down ? t->coef < 0 : t->coef > 0;
    for (int k = 0; k < t->n && all; k++) all = k == at || value_not_negative(cx, t->atom[k], b, DEPTH);
  }
  if (all && not_negative(cx, &y, b)) return true;
  b->n_natural = n_natural;
  return false;
}

static bool is_zero(const tir_value *v) {
  int64_t c;
  return tir_known_int(v, &c) && c == 0;
}

/* Whether x is not negative where b->when holds: `v != begin of v`, which makes v one step larger at least; or
   `v != min(begin of v, w)`, as where a loop goes on behind one that began at w: both are multiples of the step, so
   that v is one step beyond one of them. `v != 0` does as well if v begins with a multiple of the step. */
static bool not_negative_when(box_cx *cx, const affine_poly *x, box *b) {
  const tir_op *ne = b->when ? b->when->def : NULL;
  int n_natural = b->n_natural;
  for (int i = 0; ne && ne->code == OP_ne && i < 2; i++) {
    const tir_value *v = tir_in(ne, i), *first = tir_in(ne, 1 - i), *firsts[2] = {first, first};
    int64_t step;
    const tir_value *begin = begin_of(v, &step);
    if (!begin || step < 0) continue;
    if (first != begin && first->def && first->def->code == OP_min)
      for (int k = 0; k < 2; k++) firsts[k] = tir_in(first->def, k);
    axis_info from = axis_of(cx->facts, begin);
    bool beyond = is_zero(first) && from.nonneg && from.divisibility[0] % step == 0;
    if (firsts[0] != begin && firsts[1] != begin && !beyond) continue;
    bool all = true;
    for (int k = 0; k < 2 && all; k++)
      all = (first == begin || axis_of(cx->facts, firsts[k]).divisibility[0] % step == 0) &&
            not_negative_from(cx, x, v, affine_add(affine_of(&cx->affine, firsts[k]), affine_const(step)), false, b);
    if (all) return true;
    b->n_natural = n_natural;
  }
  return false;
}

/* What an attempt that fails has listed in *b is taken back. */
static bool not_negative(box_cx *cx, const affine_poly *x, box *b) {
  enum { DEPTH = 8 };
  int n_natural = b->n_natural;
  bool all = x->known;
  for (int i = 0; i < x->n && all; i++) {
    all = x->at[i].coef > 0;
    for (int k = 0; k < x->at[i].n && all; k++) all = value_not_negative(cx, x->at[i].atom[k], b, DEPTH);
  }
  if (all || !x->known) return all;
  b->n_natural = n_natural;
  for (int i = 0; i < x->n; i++) /* least where an induction variable begins */
    for (int k = 0; k < x->at[i].n; k++) {
      int64_t step;
      const tir_value *v = x->at[i].atom[k], *begin = begin_of(v, &step);
      if (begin && not_negative_from(cx, x, v, affine_of(&cx->affine, begin), step < 0, b)) return true;
    }
  if (not_negative_at_most(cx, x, b)) return true;
  b->n_natural = n_natural;
  return false;
}

bool box_not_negative(box_cx *cx, const tir_value *v, box *b) {
  enum { DEPTH = 8 };
  int n_natural = b->n_natural;
  if (value_not_negative(cx, v, b, DEPTH)) return true;
  b->n_natural = n_natural;
  return false;
}

/* ---- the box ---- */

/* Moves the terms of *from that are products of `stride` and no parameter beside it to *to, divided by it. Steps of
   more than `longest` stay: they are strides of their own, along which a position never exceeds 32 bits. */
static void move_multiples(const affine_cx *cx, affine_poly *from, const affine_term *stride, int64_t longest,
                           affine_poly *to) {
  affine_poly left = affine_const(0);
  for (int i = 0; i < from->n; i++) {
    affine_term rest, launch, run;
    bool fits = affine_divide(&from->at[i], stride, &rest);
    affine_split(cx, &rest, &launch, &run);
    if (fits && !launch.n && rest.coef <= longest)
      *to = affine_add(*to, term(rest));
    else
      left = affine_add(left, term(from->at[i]));
  }
  *from = left;
}

/* A bound i + c < size + c says the same for every c: takes that c with which the position is that of the address, of
   which *left is what a position without c leaves. */
static void move_constant(affine_poly *left, const affine_term *stride, affine_poly *at, affine_poly *size) {
  affine_term by;
  for (int i = 0; i < left->n; i++) {
    if (!affine_divide(&left->at[i], stride, &by) || by.n) continue;
    *at = affine_add(*at, term(by));
    *size = affine_add(*size, term(by));
    *left = affine_add(*left, affine_scaled(term(left->at[i]), -1));
    return;
  }
}

/* Further axes, for what is left of the address. */
static bool further_axes(const affine_cx *cx, const affine_poly *left, box *b) {
  for (int i = 0; i < left->n; i++) {
    affine_term launch, run;
    affine_split(cx, &left->at[i], &launch, &run);
    if (launch.coef < 0) { /* a position there is wrong, a stride that is negative cannot be */
      launch.coef = -launch.coef;
      run.coef = -run.coef;
    }
    affine_poly stride = term(launch);
    int axis = 2;
    while (axis < b->rank && !affine_equal(&b->stride[axis], &stride)) axis++;
    if (axis == TIR_MAX_MAP_RANK) return false;
    if (axis == b->rank) {
      b->rank++;
      b->stride[axis] = stride;
      b->size[axis] = affine_const(ENDLESS);
      b->at[axis] = affine_const(0);
    }
    b->at[axis] = affine_add(b->at[axis], term(run));
  }
  return true;
}

static const char *param_name(const affine_cx *cx, const tir_value *v) {
  for (int i = 0; i < cx->fn->n_params; i++)
    if (cx->fn->params[i].value == v) return cx->fn->params[i].name;
  return "?";
}

static const char *unaligned(box_cx *cx, const box *b, int bytes) {
  affine_term base = {.coef = 1, .n = 1, .atom = {b->base}};
  if (known_factor(&cx->affine, &base) % ALIGNMENT)
    return arena_printf(cx->affine.a, "%s is not known to be a multiple of %d bytes", param_name(&cx->affine, b->base),
                        ALIGNMENT);
  for (int axis = 1; axis < b->rank; axis++) {
    if (known_factor(&cx->affine, &b->stride[axis].at[0]) * bytes % ALIGNMENT == 0) continue;
    const affine_term *t = &b->stride[axis].at[0];
    if (!t->n) return "a stride is no multiple of 16 bytes";
    return arena_printf(cx->affine.a, "%s is not known to be a multiple of %d", param_name(&cx->affine, t->atom[0]),
                        ALIGNMENT / bytes);
  }
  return NULL;
}

/* Whether the values that a position is computed from fit into the 32 bits of a coordinate. */
static bool fits_coordinate(const box_cx *cx, const affine_poly *x) {
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < x->at[i].n; k++) {
      const tir_value *v = x->at[i].atom[k];
      tir_dtype d = tir_dtype_of(v->type);
      axis_info range = axis_of(cx->facts, v);
      if ((tir_dtypes[d].bits > 32 || d == DT_u32) && (range.lo < INT32_MIN || range.hi > INT32_MAX)) return false;
    }
  return true;
}

const char *box_of(box_cx *cx, const tir_op *access, int inner, box *out) {
  affine_cx *affine = &cx->affine;
  bool is_load = access->code == OP_load;
  int bytes = tir_dtypes[tir_elem(tir_in(access, 0)->type)->elem->dtype].bytes, outer = 1 - inner;
  int mask = is_load ? 1 : 2;
  affine->wraps.n = 0;
  *out = (box){.rank = 2};
  affine_poly address = affine_address(affine, tir_in(access, 0), &out->base), factor[2], rest = address;
  if (!address.known || !out->base) return "its address is no sum of products of indices and strides";
  for (int axis = 1; axis >= 0; axis--) {
    affine_poly with = affine_const(0), without = affine_const(0);
    for (int i = 0; i < rest.n; i++) {
      affine_term t;
      int a = axis_in(&rest.at[i], &t);
      if (a == -2) return "its address is not linear in the indices";
      if (a == axis)
        with = affine_add(with, term(t));
      else
        without = affine_add(without, term(rest.at[i]));
    }
    factor[axis] = with;
    rest = without;
  }
  if (factor[inner].n != 1 || factor[inner].at[0].n || factor[inner].at[0].coef != 1)
    return "its contiguous axis has a stride that is not known to be 1";
  if (factor[outer].n != 1 || !at_launch(affine, &factor[outer]) || factor[outer].at[0].coef < 0)
    return "its stride is computed in the kernel";

  bound bounds[2] = {{0}};
  for (int i = 0; i < affine->wraps.n; i++) {
    const affine_wrap *w = &affine->wraps.at[i];
    affine_poly one, first;
    int axis = take_axis(&w->index, &one, &first);
    bool fits = axis >= 0 && axis <= 1 && one.n == 1 && !one.at[0].n && one.at[0].coef == 1;
    bool again = fits && bounds[axis].upper;
    if (!fits || !at_launch(affine, &w->bound) ||
        (again && !(affine_equal(&bounds[axis].first, &first) && affine_equal(&bounds[axis].size, &w->bound))))
      return "its index is taken modulo something that is no size";
    bounds[axis] = (bound){.upper = true, .first = first, .size = w->bound};
  }
  int n_wraps = affine->wraps.n;
  if (n_wraps && !is_load) return "its index wraps around";
  for (int axis = 0; axis < 2 && n_wraps; axis++) {
    follow f = {.cx = cx, .box = out, .first = &bounds[axis].first, .size = &bounds[axis].size};
    if (bounds[axis].upper && !unseen(&f, tir_out(access, 0), axis))
      return "its index wraps around, and elements behind the wrap are not known to be masked off where they are "
             "stored";
  }
  affine->wraps.n = 0;
  bool masks_fit = access->n_in <= mask || bounds_of(cx, tir_in(access, mask), bounds, out);
  if (!masks_fit || (!is_load && out->when)) return "its mask is no comparison of indices with sizes";

  for (int k = 0; k < 2; k++) {
    int axis = k ? outer : inner;
    out->stride[k] = factor[axis];
    out->size[k] = bounds[axis].upper ? bounds[axis].size : affine_const(ENDLESS);
    out->at[k] = bounds[axis].upper ? bounds[axis].first : affine_const(0);
    if (bounds[axis].upper) rest = affine_add(rest, affine_scaled(affine_mul(out->at[k], factor[axis]), -1));
  }
  if (!bounds[outer].upper)
    move_multiples(affine, &rest, &factor[outer].at[0], INT64_MAX, &out->at[1]);
  else if (rest.known && !bounds[outer].from_zero)
    move_constant(&rest, &factor[outer].at[0], &out->at[1], &out->size[1]);
  if (!bounds[inner].upper)
    move_multiples(affine, &rest, &factor[inner].at[0], tir_in(access, 0)->type->shape[inner], &out->at[0]);
  if (!rest.known || !further_axes(affine, &rest, out)) return "its address has too many parts";
  for (int k = 0; k < out->rank; k++) {
    bool checked = is_load && k < 2 && bounds[k ? outer : inner].from_zero;
    if (!out->at[k].known ||
        (!checked && !not_negative(cx, &out->at[k], out) && !not_negative_when(cx, &out->at[k], out)))
      return "an index is not known to be 0 or more";
    if (!fits_coordinate(cx, &out->at[k])) return "an index is not known to fit into 32 bits";
  }
  return unaligned(cx, out, bytes);
}

/* ---- its map ---- */

/* A size; -1, with which no map can be made, where a parameter is negative that must not be. */
static tir_value *size_of(tir_builder *b, const box *x, int axis) {
  const tir_type *i64 = tir_scalar_type(b->fn->cx, DT_i64);
  tir_value *size = affine_build(b, &x->size[axis], i64);
  for (int i = 0; i < x->n_natural && axis == 0; i++) {
    tir_value *p = tir_cast(b, (tir_value *)x->natural[i], i64);
    size = tir_select(b, tir_binary(b, OP_ge, p, tir_const_int(b, i64, 0)), size, tir_const_int(b, i64, -1));
  }
  return size;
}

tir_op *box_map(tir_builder *b, const box *x, const int64_t sides[2], int swizzle) {
  const tir_type *i64 = tir_scalar_type(b->fn->cx, DT_i64), *u64 = tir_scalar_type(b->fn->cx, DT_u64);
  const int64_t all[TIR_MAX_MAP_RANK] = {sides[0], sides[1], 1, 1, 1};
  tir_value *in[2 * TIR_MAX_MAP_RANK] = {(tir_value *)x->base};
  int n = 1;
  for (int i = 0; i < x->rank; i++) in[n++] = size_of(b, x, i);
  for (int i = 1; i < x->rank; i++) in[n++] = affine_build(b, &x->stride[i], i64);
  tir_op *map = tir_build(b, OP_tensor_map, n, in, 1, &u64);
  tir_set_int(map, ATTR_swizzle, swizzle);
  tir_set_ints(map, ATTR_box, x->rank, all);
  return map;
}
