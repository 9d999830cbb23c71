/* pressure: where most registers are alive at once, and which tiles hold them.
 *
 * Each value is alive from its definition to its last use; what a loop uses but does not define, over the whole loop.
 * That is known from one walk in program order: when a loop ends, every older value that was used inside of it is alive
 * until there. An estimate: the scheduler moves definitions, and addresses and masks are often computed again rather
 * than kept. It says which tiles to make smaller, not how many registers there will be. */
#include "compiler/analysis/analysis.h"

typedef struct walk {
  int *from, *to; /* by value id: op numbers; from 0 = not defined yet */
  const tir_value **values;
  VEC(const tir_op *) ops; /* by number */
  uint32_t n;
  arena *a;
} walk;

/* Registers of 32 bits in each thread. Constants and splats cost nothing or one, masks are predicates. */
static int registers(const tir_value *v) {
  const tir_type *t = v->type;
  if (!tir_is_tile(t) || !t->layout || tir_dtype_of(t) == DT_i1) return 0;
  if (v->def && (v->def->code == OP_const || v->def->code == OP_splat)) return 0;
  int bytes = tir_is_ptr(t) ? 8 : tir_dtypes[tir_dtype_of(t)].bytes;
  return (lay_regs(t->layout) * bytes + 3) / 4;
}

static void define(walk *w, const tir_value *v, int at) {
  w->from[v->id] = w->to[v->id] = at;
  w->values[v->id] = v;
}

static void visit(walk *w, const tir_region *r) {
  for (int i = 0; i < r->n_args; i++) define(w, r->args[i], w->ops.n);
  for (const tir_op *op = r->first; op; op = op->next) {
    VEC_PUSH(w->a, w->ops, op);
    int at = w->ops.n;
    for (int i = 0; i < op->n_in; i++) w->to[tir_in(op, i)->id] = at;
    for (int i = 0; i < op->n_regions; i++) visit(w, op->regions[i]);
    if (tir_is_loop(op))
      for (uint32_t id = 0; id < w->n; id++)
        if (w->from[id] && w->from[id] < at && w->to[id] > at) w->to[id] = w->ops.n;
    for (int i = 0; i < op->n_out; i++) define(w, op->out[i], w->ops.n);
  }
}

pressure pressure_of(const tir_fn *fn, arena *a) {
  walk w = {.n = fn->n_values, .a = a};
  w.from = ARENA_ARRAY(a, int, w.n + 1);
  w.to = ARENA_ARRAY(a, int, w.n + 1);
  w.values = ARENA_ARRAY(a, const tir_value *, w.n + 1);
  visit(&w, fn->body);
  int *alive = ARENA_ARRAY(a, int, w.ops.n + 2);
  for (uint32_t id = 0; id < w.n; id++) {
    if (!w.values[id]) continue;
    int n = registers(w.values[id]);
    alive[w.from[id]] += n;
    alive[w.to[id] + 1] -= n;
  }
  pressure p = {0};
  int sum = 0, peak = 0;
  for (int at = 0; at <= w.ops.n; at++) {
    sum += alive[at];
    if (sum > p.registers) p.registers = sum, peak = at;
  }
  if (!peak) return p;
  p.at = w.ops.at[peak - 1]->at;
  for (uint32_t id = 0; id < w.n; id++) {
    const tir_value *v = w.values[id];
    int n = v ? registers(v) : 0;
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
