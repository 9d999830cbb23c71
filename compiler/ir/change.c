/* Changing functions: uses, removal, moving, cloning, walking.
 *
 * Invariant: op->in[i] is on the use list of its value exactly while the op hangs in a function; every list is doubly
 * linked through `link`, so that dropping one use costs nothing. Arrays of uses cannot simply be copied: the list
 * points into them, so growing one means linking every slot anew. */
#include <string.h>

#include "compiler/ir/internal.h"

tir_fn *tir_fn_of(const tir_op *op) { return op->parent->fn; }

bool tir_known_scalar(const tir_value *v, tir_scalar *out) {
  for (;;) {
    const tir_op *op = v->def;
    if (!op) return false;
    switch (op->code) {
      case OP_const: {
        const tir_attr *a = tir_attr_of(op, ATTR_value);
        if (!a) return false;
        *out = a->scalar;
        return true;
      }
      case OP_splat:
      case OP_broadcast:
      case OP_expand_dims:
      case OP_reshape:
      case OP_trans:
      case OP_unsplat:
      case OP_convert_layout:
      case OP_hint: v = tir_in(op, 0); break;
      default: return false;
    }
  }
}

bool tir_known_int(const tir_value *v, int64_t *out) {
  tir_scalar s;
  if (tir_is_ptr(v->type) || dt_is_float(tir_dtype_of(v->type)) || !tir_known_scalar(v, &s)) return false;
  *out = tir_scalar_as_int(tir_dtype_of(v->type), s);
  return true;
}

void tir_set_in(tir_op *op, int i, tir_value *v) {
  BASE_ASSERT(i >= 0 && i < op->n_in);
  tir_use_unlink(&op->in[i]);
  tir_use_link(&op->in[i], op, v);
}

void tir_replace_uses(tir_value *old, tir_value *with) {
  if (old == with) return;
  while (old->uses) {
    tir_use *u = old->uses;
    tir_op *op = u->op;
    tir_use_unlink(u);
    tir_use_link(u, op, with);
  }
}

bool tir_has_uses(const tir_value *v) { return v->uses != NULL; }

bool tir_is_filled(const tir_value *v) { return v->def && (v->def->code == OP_splat || v->def->code == OP_const); }

static void drop_operands(tir_op *op) {
  for (int i = 0; i < op->n_in; i++) tir_use_unlink(&op->in[i]);
  for (int i = 0; i < op->n_regions; i++)
    for (tir_op *inner = op->regions[i]->first; inner; inner = inner->next) drop_operands(inner);
}

void tir_remove(tir_op *op) {
  for (int i = 0; i < op->n_out; i++) BASE_ASSERT(!op->out[i]->uses);
  drop_operands(op);
  tir_op_unlink(op);
}

void tir_move_before(tir_op *op, tir_op *where) {
  if (op == where) return;
  tir_op_unlink(op);
  tir_op_insert(op, where->parent, where);
}

static void set_operands(tir_op *op, int n, tir_value *const *values) {
  for (int i = 0; i < op->n_in; i++) tir_use_unlink(&op->in[i]);
  if (n > op->n_in) op->in = ARENA_ARRAY(tir_fn_of(op)->a, tir_use, n);
  op->n_in = n;
  for (int i = 0; i < n; i++) tir_use_link(&op->in[i], op, values[i]);
}

void tir_append_in(tir_op *op, tir_value *v) {
  tir_value **values = ARENA_ARRAY(tir_fn_of(op)->a, tir_value *, op->n_in + 1);
  for (int i = 0; i < op->n_in; i++) values[i] = tir_in(op, i);
  values[op->n_in] = v;
  set_operands(op, op->n_in + 1, values);
}

tir_value *tir_append_out(tir_op *op, const tir_type *type) {
  tir_value *v = tir_value_push(tir_fn_of(op), type, op->at, &op->out, &op->n_out);
  v->def = op;
  return v;
}

static void drop_value(tir_value **list, int *n, int i) {
  BASE_ASSERT(i >= 0 && i < *n && !list[i]->uses);
  for (int k = i; k + 1 < *n; k++) {
    list[k] = list[k + 1];
    list[k]->index = k;
  }
  --*n;
}

void tir_drop_out(tir_op *op, int i) { drop_value(op->out, &op->n_out, i); }

void tir_drop_arg(tir_region *r, int i) { drop_value(r->args, &r->n_args, i); }

void tir_drop_in(tir_op *op, int i) {
  BASE_ASSERT(i >= 0 && i < op->n_in);
  tir_value **values = ARENA_ARRAY(tir_fn_of(op)->a, tir_value *, op->n_in);
  int n = 0;
  for (int k = 0; k < op->n_in; k++)
    if (k != i) values[n++] = tir_in(op, k);
  set_operands(op, n, values);
}

/* ---- cloning ---- */

tir_value *tir_map_get(const tir_map *m, tir_value *v) { return v->id < m->n && m->at[v->id] ? m->at[v->id] : v; }

void tir_map_set(tir_fn *fn, tir_map *m, const tir_value *from, tir_value *to) {
  if (from->id >= m->n) {
    uint32_t n = fn->n_values > from->id + 1 ? fn->n_values : from->id + 1;
    tir_value **at = ARENA_ARRAY(fn->a, tir_value *, n);
    if (m->n) memcpy(at, m->at, sizeof *at * m->n);
    m->at = at;
    m->n = n;
  }
  m->at[from->id] = to;
}

static tir_op *clone_into(tir_fn *fn, tir_region *where, tir_op *before, const tir_op *op, tir_map *m) {
  int larger = op->n_in > op->n_out ? op->n_in : op->n_out;
  tir_value **in = ARENA_ARRAY(fn->a, tir_value *, larger + 1);
  const tir_type **types = ARENA_ARRAY(fn->a, const tir_type *, larger + 1);
  for (int i = 0; i < op->n_in; i++) in[i] = tir_map_get(m, tir_in(op, i));
  for (int i = 0; i < op->n_out; i++) types[i] = op->out[i]->type;
  tir_op *copy = tir_op_new(fn, op->code, op->at, op->n_in, in, op->n_out, types, op->n_regions);
  tir_op_insert(copy, where, before);
  for (const tir_attr *a = op->attrs; a; a = a->next) tir_attr_put(copy, a);
  for (int i = 0; i < op->n_out; i++) {
    copy->out[i]->name = op->out[i]->name;
    copy->out[i]->at = op->out[i]->at;
    tir_map_set(fn, m, op->out[i], copy->out[i]);
  }
  for (int i = 0; i < op->n_regions; i++) {
    const tir_region *from = op->regions[i];
    tir_region *to = copy->regions[i];
    for (int k = 0; k < from->n_args; k++) {
      tir_value *arg = tir_region_add_arg(to, from->args[k]->type, from->args[k]->at);
      arg->name = from->args[k]->name;
      tir_map_set(fn, m, from->args[k], arg);
    }
    for (const tir_op *inner = from->first; inner; inner = inner->next) clone_into(fn, to, NULL, inner, m);
  }
  return copy;
}

tir_op *tir_clone(tir_builder *b, const tir_op *op, tir_map *m) {
  return clone_into(b->fn, b->region, b->before, op, m);
}

/* ---- walking ---- */

bool tir_region_contains(const tir_region *outer, const tir_region *inner) {
  for (const tir_region *r = inner; r; r = r->owner ? r->owner->parent : NULL)
    if (r == outer) return true;
  return false;
}

bool tir_is_pure(const tir_op *op) {
  if (tir_ops[op->code].effect == FX_PURE) return true; /* a reduction's region holds pure ops only */
  if (op->code != OP_for && op->code != OP_while && op->code != OP_if) return false;
  for (int i = 0; i < op->n_regions; i++)
    for (const tir_op *inner = op->regions[i]->first; inner; inner = inner->next)
      if (!tir_is_term(inner) && !tir_is_pure(inner)) return false;
  return true;
}

tir_op *tir_first(const tir_fn *fn) { return fn->body->first; }

tir_op *tir_next(const tir_op *op) {
  for (int i = 0; i < op->n_regions; i++)
    if (op->regions[i]->first) return op->regions[i]->first;
  while (!op->next) {
    const tir_region *r = op->parent;
    op = r->owner;
    if (!op) return NULL;
    int i = 0;
    while (op->regions[i] != r) i++;
    for (i++; i < op->n_regions; i++)
      if (op->regions[i]->first) return op->regions[i]->first;
  }
  return op->next;
}

static void number_region(tir_fn *fn, tir_region *r) {
  for (int i = 0; i < r->n_args; i++) r->args[i]->id = fn->n_values++;
  for (tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_out; i++) op->out[i]->id = fn->n_values++;
    for (int i = 0; i < op->n_regions; i++) number_region(fn, op->regions[i]);
  }
}

bool tir_in_loop(const tir_op *op) {
  for (const tir_op *o = op->parent->owner; o; o = o->parent->owner)
    if (tir_is_loop(o)) return true;
  return false;
}

tir_op *tir_next_program(const tir_op *op) {
  tir_op *next = op->code == OP_while && op->n_in == 1 ? tir_in(op->regions[1]->last, 0)->def : NULL;
  return next && next->code == OP_next_program ? next : NULL;
}

bool tir_is_persistent(const tir_fn *fn) {
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op))
    if (op->code == OP_next_program) return true;
  return false;
}

void tir_renumber(tir_fn *fn) {
  fn->n_values = 0;
  number_region(fn, fn->body);
}
