/* slice: see slice.h. */
#include "compiler/analysis/slice.h"

struct slice {
  const tir_fn *fn;
  arena *a;
  bool *value;                    /* by id */
  VEC(const tir_op *) structures; /* for, while and if that hold a tma_load or a value of the slice */
  VEC(const tir_op *) copies;     /* tma_loads that belong to it */
  const char *why;
};

static bool listed(int n, const tir_op *const *ops, const tir_op *op) {
  for (int i = 0; i < n; i++)
    if (ops[i] == op) return true;
  return false;
}

static void need_structure(slice *s, const tir_op *op) {
  if (listed(s->structures.n, s->structures.at, op)) return;
  VEC_PUSH(s->a, s->structures, op);
  if (op->code == OP_for)
    for (int i = 0; i < 3; i++) slice_need(s, tir_in(op, i));
  if (op->code == OP_if) slice_need(s, tir_in(op, 0));
  if (op->code == OP_while) slice_need(s, tir_in(op->regions[0]->last, 0));
}

void slice_need_around(slice *s, const tir_region *r) {
  for (const tir_op *op = r->owner; op; op = op->parent->owner) need_structure(s, op);
}

/* Value i of those that a loop carries. */
static void need_carried(slice *s, const tir_op *loop, int i) {
  need_structure(s, loop);
  if (loop->code == OP_for) {
    slice_need(s, loop->regions[0]->args[i + 1]);
    slice_need(s, tir_in(loop, i + 3));
    slice_need(s, tir_in(loop->regions[0]->last, i));
  } else {
    slice_need(s, loop->regions[0]->args[i]);
    slice_need(s, loop->regions[1]->args[i]);
    slice_need(s, tir_in(loop, i));
    slice_need(s, tir_in(loop->regions[0]->last, i + 1));
    slice_need(s, tir_in(loop->regions[1]->last, i));
  }
}

static bool writes(const tir_fn *fn) {
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op))
    if (tir_ops[op->code].effect == FX_WRITE || tir_ops[op->code].effect == FX_RMW) return true;
  return false;
}

static bool runs_ahead(const slice *s, const tir_op *op) {
  if (op->code == OP_load) return tir_elem(tir_in(op, 0)->type)->is_const || !writes(s->fn);
  return tir_ops[op->code].effect == FX_PURE && !op->n_regions;
}

void slice_need(slice *s, const tir_value *v) {
  if (s->value[v->id]) return;
  s->value[v->id] = true;
  if (v->type->kind != TY_SCALAR && v->type->kind != TY_PTR) {
    s->why = "a coordinate is computed from a tile";
    return;
  }
  if (!v->def) {
    const tir_op *owner = v->region->owner;
    if (!owner) return;
    if (owner->code == OP_for && v->index == 0)
      need_structure(s, owner);
    else
      need_carried(s, owner, owner->code == OP_for ? v->index - 1 : v->index);
    return;
  }
  const tir_op *op = v->def;
  slice_need_around(s, op->parent);
  if (op->code == OP_if) {
    need_structure(s, op);
    for (int k = 0; k < 2; k++) slice_need(s, tir_in(op->regions[k]->last, v->index));
  } else if (tir_is_loop(op)) {
    need_carried(s, op, v->index);
  } else if (op->code == OP_next_program || runs_ahead(s, op)) {
    for (int i = 0; i < op->n_in; i++) slice_need(s, tir_in(op, i));
  } else {
    s->why = op->code == OP_load ? "a coordinate is loaded from memory that the kernel may write"
                                 : "a coordinate depends on more than scalar arithmetic";
  }
}

slice *slice_new(const tir_fn *fn, arena *a) {
  slice *s = ARENA_NEW(a, slice);
  *s = (slice){.fn = fn, .a = a, .value = ARENA_ARRAY(a, bool, fn->n_values + 1)};
  return s;
}

const char *slice_problem(const slice *s) { return s->why; }

slice *slice_of_copies(const tir_fn *fn, arena *a, bool (*wanted)(const tir_op *copy)) {
  slice *s = slice_new(fn, a);
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code != OP_tma_load || (wanted && !wanted(op))) continue;
    VEC_PUSH(a, s->copies, op);
    slice_need_around(s, op->parent);
    for (int i = 2 * op->n_out; i < op->n_in; i++) slice_need(s, tir_in(op, i));
  }
  return s;
}

bool slice_has_value(const slice *s, const tir_value *v) { return s->value[v->id]; }

bool slice_has_op(const slice *s, const tir_op *op) {
  if (op->code == OP_tma_load) return listed(s->copies.n, s->copies.at, op);
  if (op->n_regions) return listed(s->structures.n, s->structures.at, op);
  return op->n_out == 1 && s->value[op->out[0]->id];
}
