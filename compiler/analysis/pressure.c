/* pressure: where most registers are alive at once, and which tiles hold them.
 *
 * Each value is alive from its definition to its last use; what a loop uses but does not define, over the whole loop.
 * That is known from one walk in program order: when a loop ends, every older value that was used inside of it is alive
 * until there. What an op computes element by element, or adds to its accumulator, takes the place of operands that end
 * there; a value that only renames another's registers has none of its own. Pointers and indices count nothing, for
 * most of a tile differ from one of them by constants.
 *
 * An estimate: the scheduler moves definitions, and addresses and masks are often computed again rather than kept. */
#include "compiler/analysis/analysis.h"

typedef struct walk {
  int *from, *to; /* by value id: moments, two for each op: its operands end, its results begin; from 0 = not yet */
  const tir_value **values;
  bool *derived;           /* by value id: needs no registers of its own, see is_derived */
  VEC(const tir_op *) ops; /* by number */
  uint32_t n;
  arena *a;
} walk;

/* Whether v is loaded for shared memory alone: it is copied there asynchronously in the end, or part by part. */
static bool goes_to_shared(const tir_value *v) {
  const tir_use *u = v->uses;
  return v->def->code == OP_load && u && !u->next && u->op->code == OP_buffer_store;
}

/* Registers of 32 bits in each thread. Constants and splats cost nothing or one, masks are predicates. */
static int registers(const tir_value *v) {
  const tir_type *t = v->type;
  if (!tir_is_tile(t) || !t->layout || tir_dtype_of(t) == DT_i1 || tir_is_ptr(t)) return 0;
  if (v->def && (v->def->code == OP_const || v->def->code == OP_splat || goes_to_shared(v))) return 0;
  return (lay_regs(t->layout) * tir_dtypes[tir_dtype_of(t)].bytes + 3) / 4;
}

/* The value whose registers v has. */
static const tir_value *held_by(const tir_value *v) {
  for (;;) {
    const tir_op *op = v->def;
    if (!op) return v;
    switch (op->code) {
      case OP_expand_dims:
      case OP_broadcast:
      case OP_reshape:
      case OP_trans:
      case OP_hint: v = tir_in(op, 0); break;
      case OP_wgmma_wait: v = tir_in(op, v->index); break;
      default: return v;
    }
  }
}

/* The rows that a product still reads from registers when `wait` begins; NULL if it has none. */
static const tir_value *rows_until(const tir_op *wait, int i) {
  const tir_value *product = held_by(tir_in(wait, i));
  if (wait->code != OP_wgmma_wait || !product->def || product->def->code != OP_wgmma) return NULL;
  return tir_is_tile(tir_in(product->def, 0)->type) ? held_by(tir_in(product->def, 0)) : NULL;
}

static bool takes_place(const tir_op *op, int i) {
  if (op->code == OP_wgmma || op->code == OP_dot) return i == 2;
  return op->n_regions || op->code == OP_yield || (tir_ops[op->code].flags & OPF_ELT);
}

/* Whether an element is computed anew wherever it is used: integers that follow from arange and scalars, and what else
   is computed from nothing but those, masks and constants, for an op beside it. */
static bool is_derived(const walk *w, const tir_value *v) {
  const tir_op *op = v->def;
  if (!tir_is_tile(v->type)) return true;
  if (!op) return false;
  if (op->code == OP_arange || op->code == OP_splat || op->code == OP_const) return true;
  if (!(tir_ops[op->code].flags & OPF_ELT) && held_by(v) == v) return false;
  bool all = true, beside = true;
  for (int i = 0; i < op->n_in; i++) all = all && (!tir_is_tile(tir_in(op, i)->type) || w->derived[tir_in(op, i)->id]);
  for (const tir_use *u = v->uses; u; u = u->next) beside = beside && u->op->parent == op->parent;
  return all && (beside || dt_is_int(tir_dtype_of(v->type)));
}

static void define(walk *w, const tir_value *v, int at) {
  w->from[v->id] = w->to[v->id] = at;
  w->values[v->id] = v;
}

static void visit(walk *w, const tir_region *r) {
  for (int i = 0; i < r->n_args; i++) define(w, r->args[i], 2 * w->ops.n + 1);
  for (const tir_op *op = r->first; op; op = op->next) {
    VEC_PUSH(w->a, w->ops, op);
    int at = 2 * w->ops.n;
    for (int i = 0; i < op->n_out; i++) w->derived[op->out[i]->id] = is_derived(w, op->out[i]);
    for (int i = 0; op->code == OP_for && i < op->n_out; i++) {
      const tir_value *arg = op->regions[0]->args[i + 1];
      w->derived[arg->id] = w->derived[tir_in(op, i + 3)->id] && dt_is_int(tir_dtype_of(arg->type));
    }
    for (int i = 0; i < op->n_in; i++) {
      const tir_value *rows = rows_until(op, i);
      w->to[held_by(tir_in(op, i))->id] = at + !takes_place(op, i);
      if (rows) w->to[rows->id] = at;
    }
    for (int i = 0; i < op->n_regions; i++) visit(w, op->regions[i]);
    if (tir_is_loop(op))
      for (uint32_t id = 0; id < w->n; id++)
        if (w->from[id] && w->from[id] < at && w->to[id] > at + 1) w->to[id] = 2 * w->ops.n + 1;
    for (int i = 0; i < op->n_out; i++)
      if (held_by(op->out[i]) == op->out[i]) define(w, op->out[i], 2 * w->ops.n + 1);
  }
}

pressure pressure_of(const tir_fn *fn, arena *a) {
  walk w = {.n = fn->n_values, .a = a};
  w.from = ARENA_ARRAY(a, int, w.n + 1);
  w.to = ARENA_ARRAY(a, int, w.n + 1);
  w.derived = ARENA_ARRAY(a, bool, w.n + 1);
  w.values = ARENA_ARRAY(a, const tir_value *, w.n + 1);
  visit(&w, fn->body);
  int *alive = ARENA_ARRAY(a, int, 2 * w.ops.n + 4);
  for (uint32_t id = 0; id < w.n; id++) {
    if (!w.values[id]) continue;
    int n = w.derived[id] ? 0 : registers(w.values[id]);
    alive[w.from[id]] += n;
    alive[w.to[id] + 1] -= n;
  }
  pressure p = {0};
  int sum = 0, peak = 0;
  for (int at = 0; at <= 2 * w.ops.n + 1; at++) {
    sum += alive[at];
    if (sum > p.registers) p.registers = sum, peak = at;
  }
  if (!peak) return p;
  p.at = w.ops.at[peak / 2 - 1]->at;
  for (uint32_t id = 0; id < w.n; id++) {
    const tir_value *v = w.values[id];
    int n = v && !w.derived[id] ? registers(v) : 0;
    if (!n || w.from[id] > peak || w.to[id] < peak) continue;
    int k = p.n < PRESSURE_TILES ? p.n++ : PRESSURE_TILES - 1;
    if (k == PRESSURE_TILES - 1 && p.held[k] >= n) continue;
    for (; k > 0 && p.held[k - 1] < n; k--) p.tiles[k] = p.tiles[k - 1], p.held[k] = p.held[k - 1];
    p.tiles[k] = v, p.held[k] = n;
  }
  return p;
}

int pressure_of_wgmma(const tir_fn *fn) {
  enum { MOST_ACCUMULATORS = 128, BESIDES = 30 };
  int widest = 0;
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code != OP_wgmma) continue;
    int n = lay_regs(op->out[0]->type->layout);
    if (n > MOST_ACCUMULATORS) n = MOST_ACCUMULATORS;
    if (n > widest) widest = n;
  }
  return widest ? widest + BESIDES : 0;
}
