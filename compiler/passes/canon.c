/* canon: the same program with less work in it.
 *
 * Four steps are repeated until none changes anything: local rules (each announced by the shape that it matches),
 * common subexpressions, loop invariants, dead code. Requirements on a new rule: the result has the type of the value
 * that it replaces; it only ever makes the program smaller or moves it towards the leaves (splat outwards, constants to
 * the right), so that the repetition ends; it holds for every bit pattern (x*0 is no rule for floats: NaN).
 *
 * Uniform work is done once: an elementwise op of splats becomes a splat of the scalar op, which is why the address
 * arithmetic of a kernel costs scalars and not tiles.
 *
 * Common subexpressions need no scopes: ops are met in program order, and an earlier op serves a later one when its
 * region encloses the later one's. Loads are never shared, since a store may lie between. */
#include "compiler/passes/passes.h"

#include <string.h>

typedef struct canon {
  tir_fn *fn;
  bool changed;
} canon;

static void replace(canon *c, tir_op *op, tir_value *with) {
  BASE_ASSERT(op->out[0]->type == with->type);
  tir_replace_uses(op->out[0], with);
  tir_remove(op);
  c->changed = true;
}

static bool elementwise(const tir_op *op) { return (tir_ops[op->code].flags & OPF_ELT) != 0; }

static bool all_ones(tir_dtype d, int64_t v) {
  return d == DT_i1 ? (v & 1) != 0 : v == -1 || (uint64_t)v == UINT64_MAX >> (64 - tir_dtypes[d].bits);
}

/* op(constants..) -> constant */
static bool fold(canon *c, tir_op *op) {
  if (!elementwise(op) || op->n_in == 0 || op->n_in > 3) return false;
  tir_scalar in[3];
  const void *arrays[3];
  tir_dtype dts[3];
  for (int i = 0; i < op->n_in; i++) {
    if (!tir_known_scalar(tir_in(op, i), &in[i])) return false;
    dts[i] = tir_dtype_of(tir_in(op, i)->type);
    arrays[i] = &in[i].bits;
  }
  tir_scalar out = {0};
  const tir_type *t = op->out[0]->type;
  const tir_type *base = tir_elem(tir_in(op, 0)->type);
  tir_eval_opts opts = {.rtz = tir_attr_str(op, ATTR_rounding, NULL) != NULL};
  if (op->code == OP_addptr) opts.scale = base->elem->kind == TY_PTR ? 8 : tir_dtypes[base->elem->dtype].bytes;
  if (tir_eval(op->code, op->n_in, dts, arrays, tir_dtype_of(t), &out.bits, 1, opts)) return false;
  tir_builder b = tir_before(c->fn, op);
  replace(c, op, tir_const(&b, t, out));
  return true;
}

/* The scalar that a tile holds in every element; NULL if it is no such tile. A constant tile is made a scalar at b. */
static tir_value *uniform(tir_builder *b, tir_value *v) {
  if (!tir_is_tile(v->type)) return v;
  if (!v->def) return NULL;
  if (v->def->code == OP_splat) return tir_in(v->def, 0);
  if (v->def->code == OP_const) return tir_const(b, tir_elem(v->type), tir_attr_of(v->def, ATTR_value)->scalar);
  return NULL;
}

/* op(splat x, splat y) -> splat op(x, y) */
static bool outwards(canon *c, tir_op *op) {
  if (!elementwise(op) || op->n_in == 0 || !tir_is_tile(op->out[0]->type)) return false;
  for (int i = 0; i < op->n_in; i++)
    if (!tir_is_filled(tir_in(op, i))) return false;
  tir_builder b = tir_before(c->fn, op);
  tir_value *in[3];
  for (int i = 0; i < op->n_in; i++) in[i] = uniform(&b, tir_in(op, i));
  const tir_type *one = tir_elem(op->out[0]->type);
  tir_op *scalar = tir_build(&b, op->code, op->n_in, in, 1, &one);
  for (const tir_attr *a = op->attrs; a; a = a->next) {
    if (a->key == ATTR_rounding) tir_set_str(scalar, a->key, a->str);
    if (a->key == ATTR_approx) tir_set_int(scalar, a->key, a->i);
  }
  replace(c, op, tir_splat(&b, scalar->out[0], op->out[0]->type));
  return true;
}

/* splat const, expand_dims/broadcast/reshape/trans of a uniform tile -> uniform tile */
static bool uniform_shape(canon *c, tir_op *op) {
  const tir_type *t = op->out[0]->type;
  tir_builder b = tir_before(c->fn, op);
  tir_value *x = tir_in(op, 0);
  if (op->code == OP_unsplat) {
    if (!tir_is_filled(x)) return false;
    replace(c, op, uniform(&b, x));
    return true;
  }
  if (op->code == OP_splat || (op->code == OP_expand_dims && !tir_is_tile(x->type))) {
    tir_scalar v;
    if (tir_known_scalar(x, &v)) {
      replace(c, op, tir_const(&b, t, v));
      return true;
    }
    if (op->code == OP_splat) return false;
    replace(c, op, tir_splat(&b, x, t));
    return true;
  }
  if (!tir_is_filled(x)) return false;
  tir_scalar v;
  if (tir_known_scalar(x, &v))
    replace(c, op, tir_const(&b, t, v));
  else
    replace(c, op, tir_splat(&b, uniform(&b, x), t));
  return true;
}

/* Shape ops that change nothing, and reshapes in a row. */
static bool idle_shape(canon *c, tir_op *op) {
  tir_value *x = tir_in(op, 0);
  if (x->type == op->out[0]->type && op->code != OP_trans) {
    replace(c, op, x);
    return true;
  }
  if (op->code == OP_trans) {
    const tir_attr *perm = tir_attr_of(op, ATTR_perm);
    for (int i = 0; i < perm->n; i++)
      if (perm->ints[i] != i) return false;
    replace(c, op, x);
    return true;
  }
  if (op->code == OP_reshape && x->def && x->def->code == OP_reshape) {
    tir_set_in(op, 0, tir_in(x->def, 0));
    c->changed = true;
    return true;
  }
  return false;
}

static bool zero_or_const(canon *c, tir_op *op, int64_t v) {
  tir_builder b = tir_before(c->fn, op);
  replace(c, op, tir_const_int(&b, op->out[0]->type, v));
  return true;
}

/* x+0 x-0 x*1 x/1 x|0 x&-1 x^0 x<<0 p+0 -> x;  x*0 x&0 -> 0;  x-x x^x -> 0 (integers);  x&x x|x min max -> x;
   integer comparison of a value with itself */
static bool identity(canon *c, tir_op *op) {
  tir_value *x = tir_in(op, 0), *y = op->n_in > 1 ? tir_in(op, 1) : NULL;
  bool is_int = !tir_is_ptr(x->type) && dt_is_int(tir_dtype_of(x->type));
  tir_dtype d = tir_dtype_of(op->out[0]->type);
  int64_t v;
  if (op->n_in == 2 && (tir_ops[op->code].flags & OPF_COMM) && tir_known_int(x, &v) && !tir_known_int(y, &v)) {
    tir_set_in(op, 0, y);
    tir_set_in(op, 1, x);
    c->changed = true;
    return true;
  }
  if (op->code == OP_addptr && tir_known_int(y, &v) && v == 0) return replace(c, op, x), true;
  if (!is_int || op->n_in != 2) return false;
  if (x == y) switch (op->code) {
      case OP_and:
      case OP_or:
      case OP_min:
      case OP_max: return replace(c, op, x), true;
      case OP_sub:
      case OP_xor: return zero_or_const(c, op, 0);
      case OP_eq:
      case OP_le:
      case OP_ge: return zero_or_const(c, op, 1);
      case OP_ne:
      case OP_lt:
      case OP_gt: return zero_or_const(c, op, 0);
      default: break;
    }
  if (!tir_known_int(y, &v)) return false;
  switch (op->code) {
    case OP_add:
    case OP_sub:
    case OP_xor:
    case OP_shl:
    case OP_shr:
      if (v == 0) return replace(c, op, x), true;
      break;
    case OP_or:
      if (v == 0) return replace(c, op, x), true;
      if (all_ones(d, v)) return replace(c, op, y), true;
      break;
    case OP_and:
      if (v == 0) return replace(c, op, y), true;
      if (all_ones(d, v)) return replace(c, op, x), true;
      break;
    case OP_mul:
      if (v == 0) return replace(c, op, y), true;
      if (v == 1 && d != DT_i1) return replace(c, op, x), true;
      break;
    case OP_div:
      if (v == 1) return replace(c, op, x), true;
      break;
    default: break;
  }
  return false;
}

/* (x / d) * d + x % d -> x: true of integers whatever d is, by the meaning that division by 0 and overflow have.
   Numbering programs anew (swizzle2d) is written like that, and says of x that it is not negative. */
static bool divided_and_back(canon *c, tir_op *op) {
  if (op->code != OP_add || !dt_is_int(tir_dtype_of(op->out[0]->type))) return false;
  for (int i = 0; i < 2; i++) {
    const tir_op *product = tir_in(op, i)->def, *rest = tir_in(op, 1 - i)->def;
    if (!product || product->code != OP_mul || !rest || rest->code != OP_rem) continue;
    for (int k = 0; k < 2; k++) {
      const tir_op *quotient = tir_in(product, k)->def;
      if (quotient && quotient->code == OP_div && tir_in(quotient, 0) == tir_in(rest, 0) &&
          tir_in(quotient, 1) == tir_in(rest, 1) && tir_in(product, 1 - k) == tir_in(rest, 1)) {
        replace(c, op, tir_in(rest, 0));
        return true;
      }
    }
  }
  return false;
}

/* Whether v is made, in region r, from what a load brings. */
static bool loaded_in(const tir_region *r, const tir_value *v, int depth) {
  if (!v->def || v->def->parent != r || depth == 0) return false;
  if (v->def->code == OP_load) return true;
  if (v->def->code == OP_dot || tir_ops[v->def->code].effect != FX_PURE) return false;
  for (int i = 0; i < v->def->n_in; i++)
    if (loaded_in(r, tir_in(v->def, i), depth - 1)) return true;
  return false;
}

/* x + dot(a, b, 0) -> dot(a, b, x): tensor cores add for nothing, and an accumulator that only they touch can stay
   under way. As in Triton, the sum is rounded where the product rounds. Not of f8, whose products are summed with few
   bits: a kernel that adds by itself wants it done in f32. Nor where x is loaded beside the product, which would wait
   for it. */
static bool accumulated(canon *c, tir_op *op) {
  enum { DEEP = 8 };
  for (int i = 1; i >= 0; i--) {
    tir_value *sum = tir_in(op, i), *x = tir_in(op, 1 - i);
    tir_op *dot = sum->def;
    tir_scalar start;
    if (!dot || dot->code != OP_dot || dot->parent != op->parent || sum->uses->next) continue;
    tir_dtype d = tir_dtype_of(tir_in(dot, 0)->type);
    if (d == DT_f8e4m3 || d == DT_f8e5m2 || !tir_known_scalar(tir_in(dot, 2), &start) || start.bits) continue;
    if (loaded_in(op->parent, x, DEEP)) continue;
    tir_set_in(dot, 2, x);
    tir_move_before(dot, op);
    replace(c, op, sum);
    return true;
  }
  return false;
}

/* select(constant, x, y), select(c, x, x) */
static bool choose(canon *c, tir_op *op) {
  int64_t v;
  if (tir_in(op, 1) == tir_in(op, 2)) return replace(c, op, tir_in(op, 1)), true;
  if (!tir_known_int(tir_in(op, 0), &v)) return false;
  return replace(c, op, tir_in(op, v & 1 ? 1 : 2)), true;
}

/* Moves the ops of a region before `op`, without its terminator; the terminator stays in the region. */
static void inline_region(tir_op *op, tir_region *r) {
  while (r->first != r->last) tir_move_before(r->first, op);
}

/* if (constant): the region that runs takes the op's place. if without results and with two empty regions: gone. */
static bool settled_if(canon *c, tir_op *op) {
  int64_t v;
  if (tir_known_int(tir_in(op, 0), &v)) {
    tir_region *r = op->regions[v & 1 ? 0 : 1];
    inline_region(op, r);
    for (int i = 0; i < op->n_out; i++) tir_replace_uses(op->out[i], tir_in(r->last, i));
    tir_remove(op);
    return c->changed = true;
  }
  for (int i = op->n_out - 1; i >= 0; i--) {
    tir_value *x = tir_in(op->regions[0]->last, i), *y = tir_in(op->regions[1]->last, i);
    bool outside = x == y && (!x->def || !tir_region_contains(op->regions[0], x->def->parent)) &&
                   (x->def || x->region->owner != op);
    if (outside) tir_replace_uses(op->out[i], x);
    if (outside || !tir_has_uses(op->out[i])) {
      tir_drop_out(op, i);
      tir_drop_in(op->regions[0]->last, i);
      tir_drop_in(op->regions[1]->last, i);
      c->changed = true;
    }
  }
  return false;
}

/* Carried values that only go round: nothing but their own next values, and those of their like, is computed from them.
 */
static bool goes_round(const tir_op *loop, const tir_value *v, const bool *live, int depth) {
  enum { DEEP = 64 };
  if (depth > DEEP) return false;
  for (const tir_use *u = v->uses; u; u = u->next) {
    const tir_op *op = u->op;
    if (op == loop->regions[0]->last) {
      if (live[u - op->in]) return false;
      continue;
    }
    if (tir_ops[op->code].effect != FX_PURE || op->n_regions || !tir_region_contains(loop->regions[0], op->parent))
      return false;
    for (int i = 0; i < op->n_out; i++)
      if (!goes_round(loop, op->out[i], live, depth + 1)) return false;
  }
  return true;
}

static void drop_idle(canon *c, tir_op *loop) {
  tir_region *body = loop->regions[0];
  if (loop->n_out == 0) return;
  arena *a = arena_new();
  bool *live = ARENA_ARRAY(a, bool, loop->n_out);
  for (int i = 0; i < loop->n_out; i++) live[i] = tir_has_uses(loop->out[i]);
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < loop->n_out; i++)
      if (!live[i] && !goes_round(loop, body->args[i + 1], live, 0)) live[i] = again = true;
  }
  for (int i = loop->n_out - 1; i >= 0; i--) {
    if (live[i] || !tir_has_uses(body->args[i + 1])) continue;
    tir_replace_uses(body->args[i + 1], tir_in(loop, i + 3));
    c->changed = true; /* it has become a value that nobody reads: settled_for drops it */
  }
  arena_free(a);
}

/* x - y = z or x = z, of scalars of one type whose values may be known; y is NULL for the latter. */
static bool differ_by(const tir_value *x, const tir_value *y, const tir_value *z) {
  int64_t a, b = 0, c;
  if (!y && x == z) return true;
  if (!tir_known_int(x, &a) || (y && !tir_known_int(y, &b)) || !tir_known_int(z, &c)) return false;
  return ((uint64_t)a - (uint64_t)b - (uint64_t)c) << (64 - tir_dtypes[tir_dtype_of(x->type)].bits) == 0;
}

/* Whether v is the value of x - y. */
static bool is_difference(const tir_value *v, const tir_value *x, const tir_value *y) {
  const tir_op *op = v->def;
  if (differ_by(x, y, v)) return true;
  return op && op->code == OP_sub && differ_by(tir_in(op, 0), NULL, x) && differ_by(tir_in(op, 1), NULL, y);
}

/* A carried number that advances by the loop's step, from its lower bound or one step below it: the induction
   variable, of which more is known. Persistent kernels count their tiles a second time, one step behind, for the
   store. Exact where numbers wrap as well. */
static void runs_along(canon *c, tir_op *loop) {
  tir_region *body = loop->regions[0];
  tir_value *iv = body->args[0], *lb = tir_in(loop, 0), *step = tir_in(loop, 2);
  for (int i = 0; i < loop->n_out; i++) {
    tir_value *x = body->args[i + 1], *next = tir_in(body->last, i), *init = tir_in(loop, i + 3);
    tir_op *add = next->def;
    if (x->type != iv->type || !add || add->code != OP_add) continue;
    int from = tir_in(add, 0) == x ? 0 : 1;
    if (tir_in(add, from) != x || !differ_by(tir_in(add, 1 - from), NULL, step)) continue;
    if (differ_by(init, NULL, lb)) {
      tir_replace_uses(x, iv);
    } else if (is_difference(init, lb, step)) {
      tir_builder b = tir_before(c->fn, body->first);
      tir_replace_uses(next, iv);
      tir_replace_uses(x, tir_binary(&b, OP_sub, iv, step));
    } else {
      continue;
    }
    c->changed = true;
  }
}

/* for: a loop that never runs; carried values that never change, or that nobody reads. */
static bool settled_for(canon *c, tir_op *op) {
  int64_t lb, ub, st;
  if (tir_known_int(tir_in(op, 0), &lb) && tir_known_int(tir_in(op, 1), &ub) && tir_known_int(tir_in(op, 2), &st) &&
      (st > 0 ? lb >= ub : lb <= ub) && tir_dtype_of(tir_in(op, 0)->type) != DT_u64) {
    for (int i = 0; i < op->n_out; i++) tir_replace_uses(op->out[i], tir_in(op, i + 3));
    tir_remove(op);
    return c->changed = true;
  }
  runs_along(c, op);
  drop_idle(c, op);
  tir_region *body = op->regions[0];
  for (int i = op->n_out - 1; i >= 0; i--) {
    tir_value *arg = body->args[i + 1], *next = tir_in(body->last, i), *init = tir_in(op, i + 3);
    if (next == arg || next == init) {
      tir_replace_uses(arg, init);
      tir_replace_uses(op->out[i], init);
    } else if (tir_has_uses(arg) || tir_has_uses(op->out[i])) {
      continue;
    }
    tir_drop_in(body->last, i);
    tir_drop_arg(body, i + 1);
    tir_drop_in(op, i + 3);
    tir_drop_out(op, i);
    c->changed = true;
  }
  return false;
}

static bool local(canon *c, tir_op *op) {
  switch (op->code) {
    case OP_if: return settled_if(c, op);
    case OP_for: return settled_for(c, op);
    case OP_splat:
    case OP_unsplat: return uniform_shape(c, op);
    case OP_expand_dims:
    case OP_broadcast:
    case OP_reshape:
    case OP_trans: return idle_shape(c, op) || uniform_shape(c, op);
    case OP_cast:
    case OP_bitcast:
      if (tir_in(op, 0)->type == op->out[0]->type) return replace(c, op, tir_in(op, 0)), true;
      break;
    case OP_convert_layout:
      if (tir_in(op, 0)->type == op->out[0]->type) return replace(c, op, tir_in(op, 0)), true;
      return false;
    case OP_select:
      if (choose(c, op)) return true;
      break;
    case OP_add:
      if (divided_and_back(c, op) || accumulated(c, op)) return true;
      break;
    default: break;
  }
  return fold(c, op) || outwards(c, op) || (elementwise(op) && identity(c, op));
}

static void rules(canon *c) {
  for (tir_op *op = tir_first(c->fn), *next; op; op = next) {
    next = tir_next(op);
    tir_op *before = op->prev;
    tir_region *parent = op->parent;
    if (local(c, op)) next = before ? tir_next(before) : parent->first; /* what took its place is looked at as well */
  }
}

/* ---- common subexpressions ---- */

static uint64_t key(const tir_op *op) {
  uint64_t h = hash_bytes(HASH_SEED, &op->code, sizeof op->code);
  h = hash_bytes(h, &op->out[0]->type, sizeof(void *));
  for (int i = 0; i < op->n_in; i++) {
    const tir_value *v = tir_in(op, i);
    h = hash_bytes(h, &v, sizeof v);
  }
  for (const tir_attr *a = op->attrs; a; a = a->next) {
    h = hash_bytes(h, &a->i, sizeof a->i);
    h = hash_bytes(h, &a->scalar, sizeof a->scalar);
  }
  return h;
}

static bool same_attrs(const tir_attr *a, const tir_attr *b) {
  for (; a && b; a = a->next, b = b->next) {
    if (a->key != b->key || a->n != b->n || a->i != b->i || a->scalar.bits != b->scalar.bits || a->str != b->str)
      return false;
    if (a->n && memcmp(a->ints, b->ints, sizeof(int64_t) * (size_t)a->n)) return false;
  }
  return !a && !b;
}

static bool same_op(const tir_op *a, const tir_op *b) {
  if (a->code != b->code || a->n_in != b->n_in || a->out[0]->type != b->out[0]->type) return false;
  for (int i = 0; i < a->n_in; i++)
    if (tir_in(a, i) != tir_in(b, i)) return false;
  return same_attrs(a->attrs, b->attrs);
}

typedef struct seen {
  tir_op *op;
  struct seen *next;
} seen;

static void share(canon *c) {
  arena *a = arena_new();
  enum { BUCKETS = 1024 };
  seen **table = ARENA_ARRAY(a, seen *, BUCKETS);
  for (tir_op *op = tir_first(c->fn), *next; op; op = next) {
    next = tir_next(op);
    if (tir_ops[op->code].effect != FX_PURE || op->n_regions || op->n_out != 1) continue;
    seen **slot = &table[key(op) % BUCKETS], *s = *slot;
    while (s && !(same_op(s->op, op) && tir_region_contains(s->op->parent, op->parent))) s = s->next;
    if (s) {
      replace(c, op, s->op->out[0]);
      continue;
    }
    s = ARENA_NEW(a, seen);
    *s = (seen){op, *slot};
    *slot = s;
  }
  arena_free(a);
}

/* ---- loop invariants ---- */

static bool defined_in(const tir_value *v, const tir_op *loop) {
  const tir_region *r = v->def ? v->def->parent : v->region;
  for (int i = 0; i < loop->n_regions; i++)
    if (tir_region_contains(loop->regions[i], r)) return true;
  return false;
}

static void hoist_from(canon *c, tir_op *loop, tir_region *r) {
  for (tir_op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (tir_ops[op->code].effect != FX_PURE || op->n_regions || tir_is_term(op)) continue;
    bool fixed = true;
    for (int i = 0; fixed && i < op->n_in; i++) fixed = !defined_in(tir_in(op, i), loop);
    if (!fixed) continue;
    tir_move_before(op, loop);
    c->changed = true;
  }
}

static void hoist(canon *c, tir_region *r) {
  for (tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) hoist(c, op->regions[i]);
    if (tir_is_loop(op) && !tir_attr_int(op, ATTR_no_licm, 0))
      for (int i = 0; i < op->n_regions; i++) hoist_from(c, op, op->regions[i]);
  }
}

/* ---- dead code: backwards, so that one walk suffices ---- */

static bool droppable(const tir_op *op) {
  if (tir_is_term(op)) return false;
  if (op->code == OP_load) return !tir_attr_int(op, ATTR_is_volatile, 0);
  return tir_is_pure(op);
}

static void sweep(canon *c, tir_region *r) {
  for (tir_op *op = r->last, *prev; op; op = prev) {
    prev = op->prev;
    bool used = !droppable(op);
    for (int i = 0; !used && i < op->n_out; i++) used = tir_has_uses(op->out[i]);
    if (used) {
      for (int i = 0; i < op->n_regions; i++) sweep(c, op->regions[i]);
      continue;
    }
    tir_remove(op);
    c->changed = true;
  }
}

bool pass_canon(tir_fn *fn, const pass_cx *cx) {
  (void)cx;
  canon c = {fn, true};
  bool any = false;
  enum { ROUNDS = 16 }; /* each round costs one walk; real kernels settle in three or four */
  for (int i = 0; i < ROUNDS && c.changed; i++) {
    c.changed = false;
    rules(&c);
    share(&c);
    hoist(&c, fn->body);
    sweep(&c, fn->body);
    any |= c.changed;
  }
  return any;
}

bool pass_clean(tir_fn *fn, const pass_cx *cx) { return pass_canon(fn, cx); }
