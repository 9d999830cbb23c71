/* affine: see affine.h. */
#include "compiler/analysis/affine.h"

/* Ids above all of a function's, so that axes come last in a term. */
const tir_value affine_axis[TIR_MAX_RANK] = {{.id = UINT32_MAX - 7}, {.id = UINT32_MAX - 6}, {.id = UINT32_MAX - 5},
                                             {.id = UINT32_MAX - 4}, {.id = UINT32_MAX - 3}, {.id = UINT32_MAX - 2},
                                             {.id = UINT32_MAX - 1}, {.id = UINT32_MAX}};
_Static_assert(TIR_MAX_RANK == 8, "an atom for each axis");

static const affine_poly unknown = {.known = false};

/* ---- polynomials ---- */

static bool in_range(int64_t coef) { return coef >= -AFFINE_COEF && coef <= AFFINE_COEF; }

affine_poly affine_const(int64_t c) {
  affine_poly p = {.known = in_range(c), .n = c != 0};
  p.at[0].coef = c;
  return p;
}

static affine_poly atom(const tir_value *v) {
  affine_poly p = {.known = true, .n = 1};
  p.at[0] = (affine_term){.coef = 1, .n = 1, .atom = {v}};
  return p;
}

static bool same_atoms(const affine_term *x, const affine_term *y) {
  if (x->n != y->n) return false;
  for (int i = 0; i < x->n; i++)
    if (x->atom[i] != y->atom[i]) return false;
  return true;
}

static void add_term(affine_poly *p, const affine_term *t) {
  for (int i = 0; i < p->n; i++) {
    if (!same_atoms(&p->at[i], t)) continue;
    p->at[i].coef += t->coef;
    if (!in_range(p->at[i].coef)) p->known = false;
    if (!p->at[i].coef) p->at[i] = p->at[--p->n];
    return;
  }
  if (p->n == AFFINE_TERMS || !in_range(t->coef))
    p->known = false;
  else
    p->at[p->n++] = *t;
}

affine_poly affine_add(affine_poly x, affine_poly y) {
  if (!x.known || !y.known) return unknown;
  for (int i = 0; i < y.n && x.known; i++) add_term(&x, &y.at[i]);
  return x;
}

affine_poly affine_scaled(affine_poly x, int64_t by) { return affine_mul(x, affine_const(by)); }

static bool multiply(const affine_term *x, const affine_term *y, affine_term *out) {
  *out = (affine_term){.coef = x->coef * y->coef};
  if (x->n + y->n > AFFINE_ATOMS) return false;
  int i = 0, j = 0;
  while (i < x->n || j < y->n) {
    bool from_x = j == y->n || (i < x->n && x->atom[i]->id <= y->atom[j]->id);
    out->atom[out->n++] = from_x ? x->atom[i++] : y->atom[j++];
  }
  return true;
}

affine_poly affine_mul(affine_poly x, affine_poly y) {
  if (!x.known || !y.known) return unknown;
  affine_poly p = affine_const(0);
  for (int i = 0; i < x.n; i++)
    for (int j = 0; j < y.n; j++) {
      affine_term t;
      if (!multiply(&x.at[i], &y.at[j], &t)) return unknown;
      add_term(&p, &t);
      if (!p.known) return unknown;
    }
  return p;
}

bool affine_equal(const affine_poly *x, const affine_poly *y) {
  affine_poly d = affine_add(*x, affine_scaled(*y, -1));
  return d.known && d.n == 0;
}

bool affine_mentions(const affine_poly *x, const tir_value *v) {
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < x->at[i].n; k++)
      if (x->at[i].atom[k] == v) return true;
  return false;
}

affine_poly affine_put(const affine_poly *x, const tir_value *v, affine_poly by) {
  affine_poly sum = affine_const(0);
  for (int i = 0; i < x->n; i++) {
    affine_poly product = affine_const(x->at[i].coef);
    for (int k = 0; k < x->at[i].n; k++)
      product = affine_mul(product, x->at[i].atom[k] == v ? by : atom(x->at[i].atom[k]));
    sum = affine_add(sum, product);
  }
  return x->known ? sum : unknown;
}

bool affine_divide(const affine_term *t, const affine_term *d, affine_term *out) {
  *out = (affine_term){0};
  if (!d->coef || t->coef % d->coef) return false;
  out->coef = t->coef / d->coef;
  int k = 0;
  for (int i = 0; i < t->n; i++) {
    if (k < d->n && t->atom[i] == d->atom[k])
      k++;
    else
      out->atom[out->n++] = t->atom[i];
  }
  return k == d->n;
}

void affine_split(const affine_cx *cx, const affine_term *t, affine_term *launch, affine_term *run) {
  *launch = (affine_term){.coef = t->coef};
  *run = (affine_term){.coef = 1};
  for (int i = 0; i < t->n; i++) {
    affine_term *to = !t->atom[i]->def && t->atom[i]->region == cx->fn->body ? launch : run;
    to->atom[to->n++] = t->atom[i];
  }
}

/* ---- values ---- */

static bool is_int(const tir_type *t) {
  const tir_type *e = tir_elem(t);
  return e->kind == TY_SCALAR && dt_is_int(e->dtype) && e->dtype != DT_i1;
}

affine_poly affine_axes(affine_poly x, const int *to, int n) {
  affine_poly sum = {.known = x.known};
  for (int i = 0; i < x.n; i++) {
    affine_term t = {.coef = x.at[i].coef}, one, product;
    for (int k = 0; k < x.at[i].n; k++) {
      one = (affine_term){.coef = 1, .n = 1, .atom = {x.at[i].atom[k]}};
      for (int axis = 0; axis < n; axis++)
        if (x.at[i].atom[k] == &affine_axis[axis]) {
          one.atom[0] = &affine_axis[to[axis]];
          break;
        }
      if (!multiply(&t, &one, &product)) return unknown;
      t = product;
    }
    add_term(&sum, &t);
  }
  return sum;
}

/* The same for x and for what was found on the way to it: the wraps behind the first `before`. */
static affine_poly renamed(affine_cx *cx, affine_poly x, const int *to, int n, int before) {
  for (int i = before; i < cx->wraps.n; i++) cx->wraps.at[i].index = affine_axes(cx->wraps.at[i].index, to, n);
  return affine_axes(x, to, n);
}

static void expanded_axes(const tir_op *op, int *to) {
  int at = (int)tir_attr_int(op, ATTR_axis, 0);
  for (int i = 0; i < TIR_MAX_RANK - 1; i++) to[i] = i < at ? i : i + 1;
}

static void permuted_axes(const tir_op *op, int *to) {
  const tir_attr *perm = tir_attr_of(op, ATTR_perm);
  for (int i = 0; i < perm->n; i++) to[perm->ints[i]] = i;
}

typedef affine_poly (*evaluate)(affine_cx *cx, const tir_value *v, const tir_value **base);

/* What loop `op` carries as argument i, in terms of its induction variable: init + (iv - lb) / step * increment; or,
   of a value that is handed on for one iteration, what it was then. */
static affine_poly carried(affine_cx *cx, const tir_value *arg, const tir_value **base, evaluate eval) {
  const tir_op *loop = arg->region->owner;
  int64_t step;
  if (loop->code != OP_for || arg->index == 0 || !tir_known_int(tir_in(loop, 2), &step) || step == 0) return unknown;
  const tir_value *iv = arg->region->args[0], *init_base = NULL, *next_base = NULL;
  affine_poly lb = affine_of(cx, tir_in(loop, 0));
  affine_poly init = eval(cx, tir_in(loop, arg->index + 2), &init_base);
  VEC_PUSH(cx->a, cx->evaluating, arg);
  affine_poly next = eval(cx, tir_in(arg->region->last, arg->index - 1), &next_base);
  cx->evaluating.n--;
  if (!lb.known || !init.known || !next.known) return unknown;
  if (base) {
    bool same = next_base == arg || next_base == init_base;
    if (!init_base || !same) return unknown;
    *base = init_base;
  }
  affine_poly self = base && next_base == arg ? affine_const(0) : atom(arg);
  affine_poly inc = affine_add(next, affine_scaled(self, -1));
  bool own = base ? next_base == arg : affine_mentions(&next, arg);
  if (!own) {
    affine_poly back = affine_scaled(affine_const(step), -1);
    affine_poly before = affine_put(&next, iv, affine_add(lb, back));
    if (!affine_equal(&before, &init)) return unknown;
    return affine_put(&next, iv, affine_add(atom(iv), back));
  }
  if (!inc.known || affine_mentions(&inc, arg)) return unknown;
  for (int i = 0; i < inc.n; i++) {
    if (inc.at[i].coef % step) return unknown;
    inc.at[i].coef /= step;
    for (int k = 0; k < inc.at[i].n; k++) { /* it must be the same in every iteration */
      const tir_value *v = inc.at[i].atom[k];
      const tir_region *r = v->def ? v->def->parent : v->region;
      if (r && tir_region_contains(arg->region, r)) return unknown;
    }
  }
  affine_poly passed = affine_add(atom(iv), affine_scaled(lb, -1));
  return affine_add(init, affine_mul(passed, inc));
}

static affine_poly int_of(affine_cx *cx, const tir_value *v, const tir_value **base);

/* What loop `op` leaves of a carried value: what that is for the induction variable that would come next, if the loop
   leaves that as well. */
static affine_poly left_by(affine_cx *cx, const tir_value *out, const tir_value **base, evaluate eval) {
  const tir_op *loop = out->def;
  const tir_region *body = loop->regions[0];
  for (int k = 0; k < loop->n_out; k++) {
    const tir_op *next = tir_in(body->last, k)->def;
    bool counts = next && next->code == OP_add && tir_in(next, 0) == body->args[0] &&
                  tir_in(next, 1) == tir_in(loop, 2) && tir_in(loop, k + 3) == tir_in(loop, 0);
    if (!counts || loop->out[k] == out) continue;
    int n_wraps = cx->wraps.n;
    affine_poly p = carried(cx, body->args[out->index + 1], base, eval);
    bool wraps = cx->wraps.n > n_wraps;
    cx->wraps.n = n_wraps;
    return wraps ? unknown : affine_put(&p, body->args[0], atom(loop->out[k]));
  }
  return unknown;
}

static bool under_evaluation(const affine_cx *cx, const tir_value *v) {
  for (int i = 0; i < cx->evaluating.n; i++)
    if (cx->evaluating.at[i] == v) return true;
  return false;
}

static affine_poly argument(affine_cx *cx, const tir_value *v) {
  if (under_evaluation(cx, v)) return atom(v);
  affine_poly p = v->region->owner && v->region->owner->code == OP_for ? carried(cx, v, NULL, int_of) : unknown;
  return p.known || tir_is_tile(v->type) ? p : atom(v);
}

static affine_poly remainder_of(affine_cx *cx, const tir_op *op) {
  affine_wrap w = {affine_of(cx, tir_in(op, 0)), affine_of(cx, tir_in(op, 1))};
  if (!w.index.known || !w.bound.known) return unknown;
  VEC_PUSH(cx->a, cx->wraps, w);
  return w.index;
}

/* where(index < bound, index, 0), in any of the ways to write it. */
static affine_poly replaced_by_0(affine_cx *cx, const tir_op *op) {
  const tir_op *c = tir_in(op, 0)->def;
  while (c && (c->code == OP_convert_layout || c->code == OP_hint)) c = tir_in(c, 0)->def;
  if (!c || (c->code != OP_lt && c->code != OP_gt && c->code != OP_ge && c->code != OP_le)) return unknown;
  bool inside = c->code == OP_lt || c->code == OP_gt, index_first = c->code == OP_lt || c->code == OP_ge;
  int64_t instead;
  if (!tir_known_int(tir_in(op, inside ? 2 : 1), &instead) || instead || !is_int(tir_in(c, 0)->type)) return unknown;
  affine_wrap w = {affine_of(cx, tir_in(op, inside ? 1 : 2)), affine_of(cx, tir_in(c, index_first ? 1 : 0))};
  affine_poly compared = affine_of(cx, tir_in(c, index_first ? 0 : 1));
  if (!w.index.known || !w.bound.known || !affine_equal(&compared, &w.index)) return unknown;
  VEC_PUSH(cx->a, cx->wraps, w);
  return w.index;
}

bool affine_is_narrow(const tir_op *op) {
  return (tir_ops[op->code].flags & OPF_ELT) && op->code != OP_cast &&
         tir_dtypes[tir_dtype_of(op->out[0]->type)].bits < 32;
}

affine_poly affine_of(affine_cx *cx, const tir_value *v) {
  int64_t c;
  int to[TIR_MAX_RANK], n_wraps = cx->wraps.n;
  if (!is_int(v->type)) return unknown;
  if (tir_known_int(v, &c)) return affine_const(c);
  if (!v->def) return argument(cx, v);
  const tir_op *op = v->def;
  affine_poly p = unknown;
  switch (affine_is_narrow(op) ? OP_N : op->code) {
    case OP_arange: return affine_add(affine_const(tir_attr_int(op, ATTR_start, 0)), atom(&affine_axis[0]));
    case OP_splat:
    case OP_broadcast:
    case OP_hint:
    case OP_convert_layout: return affine_of(cx, tir_in(op, 0));
    case OP_cast:
      if (is_int(tir_in(op, 0)->type) &&
          tir_dtypes[tir_dtype_of(tir_in(op, 0)->type)].bytes <= tir_dtypes[tir_dtype_of(v->type)].bytes)
        p = affine_of(cx, tir_in(op, 0));
      break;
    case OP_expand_dims: {
      if (!tir_is_tile(tir_in(op, 0)->type)) return affine_of(cx, tir_in(op, 0));
      expanded_axes(op, to);
      return renamed(cx, affine_of(cx, tir_in(op, 0)), to, TIR_MAX_RANK - 1, n_wraps);
    }
    case OP_trans: permuted_axes(op, to); return renamed(cx, affine_of(cx, tir_in(op, 0)), to, v->type->rank, n_wraps);
    case OP_add: p = affine_add(affine_of(cx, tir_in(op, 0)), affine_of(cx, tir_in(op, 1))); break;
    case OP_sub: p = affine_add(affine_of(cx, tir_in(op, 0)), affine_scaled(affine_of(cx, tir_in(op, 1)), -1)); break;
    case OP_neg: p = affine_scaled(affine_of(cx, tir_in(op, 0)), -1); break;
    case OP_mul: p = affine_mul(affine_of(cx, tir_in(op, 0)), affine_of(cx, tir_in(op, 1))); break;
    case OP_shl:
      if (tir_known_int(tir_in(op, 1), &c) && c >= 0 && c < 32)
        p = affine_scaled(affine_of(cx, tir_in(op, 0)), INT64_C(1) << c);
      break;
    case OP_rem:
      if (tir_is_tile(v->type)) p = remainder_of(cx, op);
      break;
    case OP_for: p = left_by(cx, v, NULL, int_of); break;
    case OP_select:
      if (tir_is_tile(v->type)) p = replaced_by_0(cx, op);
      break;
    default: break;
  }
  return p.known || tir_is_tile(v->type) ? p : atom(v);
}

static affine_poly int_of(affine_cx *cx, const tir_value *v, const tir_value **base) {
  (void)base;
  return affine_of(cx, v);
}

affine_poly affine_address(affine_cx *cx, const tir_value *v, const tir_value **base) {
  int to[TIR_MAX_RANK], n_wraps = cx->wraps.n;
  *base = NULL;
  if (!tir_is_ptr(v->type)) return unknown;
  if (!v->def) {
    if (under_evaluation(cx, v) || v->region == cx->fn->body) {
      *base = v;
      return affine_const(0);
    }
    return v->region->owner ? carried(cx, v, base, affine_address) : unknown;
  }
  const tir_op *op = v->def;
  switch (op->code) {
    case OP_splat:
    case OP_broadcast:
    case OP_hint:
    case OP_convert_layout: return affine_address(cx, tir_in(op, 0), base);
    case OP_expand_dims: {
      affine_poly p = affine_address(cx, tir_in(op, 0), base);
      if (!tir_is_tile(tir_in(op, 0)->type)) return p;
      expanded_axes(op, to);
      return renamed(cx, p, to, TIR_MAX_RANK - 1, n_wraps);
    }
    case OP_trans:
      permuted_axes(op, to);
      return renamed(cx, affine_address(cx, tir_in(op, 0), base), to, v->type->rank, n_wraps);
    case OP_addptr: {
      affine_poly p = affine_address(cx, tir_in(op, 0), base);
      return affine_add(p, affine_of(cx, tir_in(op, 1)));
    }
    case OP_for: return left_by(cx, v, base, affine_address);
    default: return unknown;
  }
}

/* ---- back to values ---- */

tir_value *affine_build(tir_builder *b, const affine_poly *x, const tir_type *type) {
  BASE_ASSERT(x->known);
  tir_value *sum = NULL;
  for (int i = 0; i < x->n; i++) {
    const affine_term *t = &x->at[i];
    tir_value *product = NULL;
    for (int k = 0; k < t->n; k++) {
      tir_value *v = tir_cast(b, (tir_value *)t->atom[k], type);
      product = product ? tir_binary(b, OP_mul, product, v) : v;
    }
    if (!product)
      product = tir_const_int(b, type, t->coef);
    else if (t->coef != 1)
      product = tir_binary(b, OP_mul, product, tir_const_int(b, type, t->coef));
    sum = sum ? tir_binary(b, OP_add, sum, product) : product;
  }
  return sum ? sum : tir_const_int(b, type, 0);
}
