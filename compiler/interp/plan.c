/* The plan: what can be known of a function before it runs.
 *
 * Ops become arrays, each with the values that die behind it, so that memory in use follows what is alive and not the
 * length of the kernel. A value dies, in the region that defines it, behind the last op that uses it or holds a user in
 * its regions: walking a region forward and overwriting `last` gives that op without any analysis. */
#include "compiler/interp/machine.h"

typedef struct planner {
  arena *a;
  plan *plan;
  int *last;   /* by value id: index in its region of the op behind which it dies */
  bool *index; /* by value id: an address or a mask is computed from it */
} planner;

static const tir_region *region_of(const tir_value *v) { return v->def ? v->def->parent : v->region; }

static void mark_uses(planner *p, const tir_op *op, const tir_region *home, int index) {
  for (int i = 0; i < op->n_in; i++)
    if (region_of(tir_in(op, i)) == home) p->last[tir_in(op, i)->id] = index;
  if (op->code == OP_tma_release) /* of the rings that move along too */
    for (const tir_use *u = tir_in(op, 0)->uses; u; u = u->next)
      for (int i = 0; i < u->op->n_out && u->op->code == OP_tma_load; i++)
        if (region_of(tir_in(u->op, 2 * i + 1)) == home) p->last[tir_in(u->op, 2 * i + 1)->id] = index;
  for (int i = 0; i < op->n_regions; i++)
    for (const tir_op *inner = op->regions[i]->first; inner; inner = inner->next) mark_uses(p, inner, home, index);
}

typedef VEC(const tir_value *) values;

static void push_inputs(planner *p, values *to, const tir_op *op) {
  for (int i = 0; op && i < op->n_in; i++) VEC_PUSH(p->a, *to, tir_in(op, i));
}

static void push_accesses(planner *p, values *to, const tir_region *r) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (op->code == OP_load || op->code == OP_store || op->code == OP_atomic_rmw || op->code == OP_copy_async) {
      int mask = op->code == OP_load ? 1 : 2;
      VEC_PUSH(p->a, *to, tir_in(op, 0));
      if (op->n_in > mask) VEC_PUSH(p->a, *to, tir_in(op, mask));
    }
    if (op->code == OP_tma_load) push_inputs(p, to, op);
    for (int i = 0; op->code == OP_tma_store && i < op->n_in; i++)
      if (i != 1) VEC_PUSH(p->a, *to, tir_in(op, i));
    for (int i = 0; i < op->n_regions; i++) push_accesses(p, to, op->regions[i]);
  }
}

/* What was read from memory is data, whatever its address was. Of an op with regions, all that it takes and yields. */
static void mark_indices(planner *p, const tir_fn *fn) {
  values todo = {0};
  push_accesses(p, &todo, fn->body);
  while (todo.n) {
    const tir_value *v = todo.at[--todo.n];
    if (p->index[v->id]) continue;
    p->index[v->id] = true;
    const tir_op *op = v->def ? v->def : v->region->owner;
    if (!op || (tir_ops[op->code].effect != FX_PURE && !op->n_regions)) continue;
    push_inputs(p, &todo, op);
    for (int i = 0; i < op->n_regions; i++) push_inputs(p, &todo, op->regions[i]->last);
  }
}

static bool divides_index(const planner *p, const tir_op *op) {
  tir_scalar known;
  if (op->code != OP_div || (tir_is_tile(op->out[0]->type) && !tir_is_filled(tir_in(op, 1)))) return false;
  return dt_is_int(tir_dtype_of(op->out[0]->type)) && dt_is_signed(tir_dtype_of(op->out[0]->type)) &&
         p->index[op->out[0]->id] && !tir_known_scalar(tir_in(op, 1), &known);
}

static bool makes_undefined(const tir_op *op) {
  switch (op->code) {
    case OP_load: return op->n_in == 2;
    case OP_atomic_rmw: return op->n_in == 3;
    case OP_alloc:
    case OP_copy_async:
    case OP_tma_release:
    case OP_wgmma: return true;
    case OP_div:
    case OP_rem: return dt_is_int(tir_dtype_of(op->out[0]->type));
    default: return false;
  }
}

/* So that a loop over huge tiles runs out of its budget about as soon as one over scalars. */
static uint64_t cost_of(const tir_op *op) {
  enum { ELEMENTS_PER_STEP = 256 };
  int64_t n = 1;
  for (int i = 0; i < op->n_in; i++)
    if (tir_in(op, i)->type->numel > n) n = tir_in(op, i)->type->numel;
  for (int i = 0; i < op->n_out; i++)
    if (op->out[i]->type->numel > n) n = op->out[i]->type->numel;
  if (op->code == OP_dot || op->code == OP_wgmma)
    n = tir_in(op, 2)->type->numel * tir_in(op, 0)->type->shape[tir_in(op, 0)->type->rank - 1];
  return 1 + (uint64_t)n / ELEMENTS_PER_STEP;
}

static uint8_t origin_new(planner *p, const tir_op *op) {
  if (p->plan->n_origins < MAX_ORIGINS) p->plan->n_origins++;
  p->plan->origins[p->plan->n_origins] = op;
  return (uint8_t)p->plan->n_origins;
}

static void note_granule(plan *pl, const tir_op *op) {
  if (op->code != OP_load && op->code != OP_store && op->code != OP_atomic_rmw && op->code != OP_copy_async &&
      op->code != OP_tensor_map)
    return;
  int bytes = elem_bytes(tir_elem(tir_in(op, 0)->type)->elem);
  if (bytes < pl->granule) pl->granule = bytes;
}

static const plan_region *plan_region_make(planner *p, const tir_region *r) {
  plan_region *made = ARENA_NEW(p->a, plan_region);
  made->region = r;
  for (const tir_op *op = r->first; op; op = op->next) made->n++;
  made->ops = ARENA_ARRAY(p->a, plan_op, made->n);
  int *n_dead = ARENA_ARRAY(p->a, int, made->n);
  int index = 0;
  for (int i = 0; i < r->n_args; i++) p->last[r->args[i]->id] = 0;
  for (const tir_op *op = r->first; op; op = op->next, index++) {
    plan_op *o = &made->ops[index];
    o->op = op;
    o->cost = cost_of(op);
    if (makes_undefined(op)) o->origin = origin_new(p, op);
    o->index = divides_index(p, op);
    o->once = op->code == OP_const || op->code == OP_arange;
    note_granule(p->plan, op);
    for (int i = 0; i < op->n_out; i++) p->last[op->out[i]->id] = index;
    mark_uses(p, op, r, index);
    for (int i = 0; i < op->n_regions; i++) {
      o->regions[i] = plan_region_make(p, op->regions[i]);
      made->structured = made->structured || op->code != OP_reduce;
    }
  }
  for (int i = 0; i < r->n_args; i++) n_dead[p->last[r->args[i]->id]]++;
  for (int k = 0; k < made->n; k++)
    for (int i = 0; i < made->ops[k].op->n_out; i++) n_dead[p->last[made->ops[k].op->out[i]->id]]++;
  uint32_t **dead = ARENA_ARRAY(p->a, uint32_t *, made->n);
  for (int k = 0; k < made->n; k++) made->ops[k].dead = dead[k] = ARENA_ARRAY(p->a, uint32_t, n_dead[k]);
  for (int i = 0; i < r->n_args; i++) {
    plan_op *at = &made->ops[p->last[r->args[i]->id]];
    dead[at - made->ops][at->n_dead++] = r->args[i]->id;
  }
  for (int k = 0; k < made->n; k++) {
    if (made->ops[k].once) continue;
    for (int i = 0; i < made->ops[k].op->n_out; i++) {
      uint32_t id = made->ops[k].op->out[i]->id;
      plan_op *at = &made->ops[p->last[id]];
      dead[at - made->ops][at->n_dead++] = id;
    }
  }
  return made;
}

const plan *plan_make(const tir_fn *fn, arena *a) {
  planner p = {.a = a, .plan = ARENA_NEW(a, plan), .last = ARENA_ARRAY(a, int, fn->n_values)};
  p.index = ARENA_ARRAY(a, bool, fn->n_values);
  p.plan->granule = 8;
  mark_indices(&p, fn);
  p.plan->body = plan_region_make(&p, fn->body);
  return p.plan;
}
