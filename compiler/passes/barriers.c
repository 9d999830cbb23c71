/* barriers: a barrier before every op that would otherwise meet data of another thread too early.
 *
 * Shared memory: the scratch of an op is written, then read; a barrier of all threads lies between (unless the exchange
 * is within warps). Before the writes, reads and writes that are still under way in overlapping bytes must have ended.
 * Buffers alike. Among the accesses of a managed buffer a pass has placed the barriers itself, and one behind the last;
 * what is written to it may still meet others in memory that was theirs before. Of a ring only reads count, for whoever
 * gets its memory later: what fills it keeps clear of them by its own barriers. wgmma reads until it is waited for, so
 * its reads count once more at that wait, behind barriers that came before it.
 *
 * A tma_store takes part with its scratch alone, which must be free when it begins and is its own from then on: it
 * stores behind a barrier of its own, or each warp by itself, and nothing later sees that (ops.def).
 *
 * Global memory: within one program a later access sees an earlier one in program order, whatever thread made either
 * (Triton leaves this to the user). Two accesses that may meet, one of them a write, need a barrier between unless each
 * thread meets only its own elements: same layout and the same offset value, in the same iteration. Different pointer
 * parameters may be one buffer (in-place kernels), so they count as meeting. Scalars are read by all threads and
 * written by one, so they always need it. A copy_async counts as a load; what it still reads behind a barrier has been
 * waited for before anything is written (pipeline.c). Programs of one warp need the barrier as well: lanes may run
 * apart.
 *
 * State: what is under way since the last barrier. Loops are walked twice, so that the end of one iteration meets the
 * start of the next; accesses of an earlier iteration are never "the same offset value". `if` joins both sides. */
#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"

typedef struct touch { /* an access that is under way */
  bool shared, write;
  int64_t from, to;       /* shared: bytes */
  const tir_op *op;       /* global: the access */
  bool earlier_iteration; /* values of its operands are those of another iteration */
} touch;

typedef struct under_way {
  VEC(touch) list;
} under_way;

typedef struct place {
  tir_fn *fn;
  arena *a;
  VEC(tir_op *) products; /* wgmma that nothing has waited for, oldest first */
  bool changed;
} place;

static bool global_access(const tir_op *op) {
  return op->code == OP_load || op->code == OP_store || op->code == OP_atomic_rmw || op->code == OP_copy_async;
}

static const tir_value *offset_of(const tir_value *pointer) {
  return pointer->def && pointer->def->code == OP_addptr ? tir_in(pointer->def, 1) : NULL;
}

static bool uniform_base(const tir_value *pointer) {
  const tir_value *base = pointer->def ? tir_in(pointer->def, 0) : NULL;
  return base && base->def && base->def->code == OP_splat;
}

static bool replicated(const lay_t *l) {
  uint32_t free[LAY_NHW];
  lay_free_masks(l, free);
  return free[LAY_LANE] || free[LAY_WARP];
}

/* Each thread touches in `later` what it touched itself in `earlier`, and nobody else does. */
static bool own_elements(const touch *earlier, const tir_op *later) {
  const tir_value *p = tir_in(earlier->op, 0), *q = tir_in(later, 0);
  if (earlier->earlier_iteration || !tir_is_tile(p->type) || !tir_is_tile(q->type)) return false;
  if (later->code == OP_copy_async) return false; /* not ordered behind what its thread stored */
  if (p->type->layout != q->type->layout || !tir_same_shape(p->type, q->type) || replicated(p->type->layout))
    return false;
  if (p == q) return true;
  return offset_of(p) && offset_of(p) == offset_of(q) && uniform_base(p) && uniform_base(q) &&
         tir_elem(p->type)->elem == tir_elem(q->type)->elem;
}

static bool writes_global(const tir_op *op) { return op->code != OP_load && op->code != OP_copy_async; }

static bool hazard(const under_way *u, const tir_op *op, const touch *scratch) {
  for (int i = 0; i < u->list.n; i++) {
    const touch *t = &u->list.at[i];
    if (t->shared != (scratch != NULL)) continue;
    if (scratch) {
      if ((t->write || scratch->write) && t->from < scratch->to && scratch->from < t->to) return true;
    } else if ((t->write || writes_global(op)) && !own_elements(t, op)) {
      if (t->op->code == OP_atomic_rmw && op->code == OP_atomic_rmw) continue; /* ordered by the memory itself */
      return true;
    }
  }
  return false;
}

static void add(place *p, under_way *u, touch t) {
  for (int i = 0; i < u->list.n; i++) {
    touch *o = &u->list.at[i];
    if (o->op == t.op && o->shared == t.shared && o->write == t.write && o->from == t.from &&
        o->earlier_iteration == t.earlier_iteration)
      return;
  }
  VEC_PUSH(p->a, u->list, t);
}

static under_way copy(place *p, const under_way *u) {
  under_way r = {0};
  for (int i = 0; i < u->list.n; i++) VEC_PUSH(p->a, r.list, u->list.at[i]);
  return r;
}

static void join(place *p, under_way *u, const under_way *other) {
  for (int i = 0; i < other->list.n; i++) add(p, u, other->list.at[i]);
}

static void next_iteration(under_way *u) {
  for (int i = 0; i < u->list.n; i++) u->list.at[i].earlier_iteration = true;
}

static void barrier_before(place *p, under_way *u, tir_op *op) {
  if (!(op->prev && (op->prev->code == OP_barrier || op->prev->code == OP_debug_barrier))) {
    tir_builder b = tir_before(p->fn, op);
    tir_build(&b, OP_barrier, 0, NULL, 0, NULL);
    p->changed = true;
  }
  u->list.n = 0;
}

static void walk(place *p, tir_region *r, under_way *u);

static void walk_loop(place *p, tir_op *op, under_way *u) {
  /* The state after the body flows into its start. Two rounds settle it: a barrier that the second inserts only
     shortens what is under way. */
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < op->n_regions; i++) {
      under_way before = copy(p, u);
      walk(p, op->regions[i], u);
      if (op->code == OP_for)
        join(p, u, &before); /* the body may not run at all */
      else if (i == 1)
        join(p, u, &before);
    }
    next_iteration(u);
  }
}

/* What op does to the view that is its operand i, and whether the buffer is managed; false if that is no view. */
static bool touch_of(const place *p, tir_op *op, int i, bool write, touch *t, bool *managed) {
  if (!tir_is_buffer(tir_in(op, i)->type)) return false;
  const tir_op *alloc = tir_in(op, i)->def;
  for (const tir_value *v = tir_in(op, i); alloc->code != OP_alloc; alloc = v->def)
    v = tir_in(alloc, alloc->code == OP_tma_load ? 2 * v->index + 1 : 0);
  *managed = tir_attr_int(alloc, ATTR_managed, 0) != 0 && !(tir_attr_int(alloc, ATTR_ring, 0) && !write);
  int64_t at = tir_attr_int(alloc, ATTR_scratch, 0);
  *t = (touch){.shared = true, .write = write, .from = at, .to = at + tir_scratch_of(alloc, p->a).bytes, .op = op};
  return true;
}

static void touch_buffer(place *p, under_way *u, tir_op *op, int i, bool write) {
  touch t;
  bool managed;
  if (!touch_of(p, op, i, write, &t, &managed) || (managed && !write)) return;
  if (hazard(u, op, &t)) barrier_before(p, u, op);
  if (!managed) add(p, u, t);
}

/* A wait until at most `pending` products are under way: the others may have read their operands only now. */
static void end_products(place *p, under_way *u, int pending) {
  int done = p->products.n - pending, kept = 0;
  for (int i = 0; i < p->products.n; i++) {
    tir_op *op = p->products.at[i];
    touch t;
    bool managed;
    if (i >= done) p->products.at[kept++] = op;
    for (int k = 0; k < 2 && i < done; k++)
      if (touch_of(p, op, k, false, &t, &managed) && !managed) add(p, u, t);
  }
  p->products.n = kept;
}

static void walk(place *p, tir_region *r, under_way *u) {
  for (tir_op *op = r->first; op; op = op->next) {
    switch (op->code) {
      case OP_barrier:
      case OP_debug_barrier: u->list.n = 0; continue;
      case OP_for:
      case OP_while: walk_loop(p, op, u); continue;
      case OP_if: {
        under_way other = copy(p, u);
        walk(p, op->regions[0], u);
        walk(p, op->regions[1], &other);
        join(p, u, &other);
        continue;
      }
      default: break;
    }
    if (global_access(op)) {
      if (hazard(u, op, NULL)) barrier_before(p, u, op);
      if (op->code != OP_store) add(p, u, (touch){.op = op});
      if (writes_global(op)) add(p, u, (touch){.op = op, .write = true});
    }
    if (op->code == OP_buffer_store || op->code == OP_copy_async) touch_buffer(p, u, op, 1, true);
    if (op->code == OP_buffer_load) touch_buffer(p, u, op, 0, false);
    if (op->code == OP_wgmma) {
      touch_buffer(p, u, op, 0, false);
      touch_buffer(p, u, op, 1, false);
      VEC_PUSH(p->a, p->products, op);
    }
    if (op->code == OP_wgmma_wait) end_products(p, u, (int)tir_attr_int(op, ATTR_pending, 0));
    const tir_attr *at = tir_attr_of(op, ATTR_scratch);
    if (at && op->code != OP_alloc && op->code != OP_next_program) {
      tir_scratch s = tir_scratch_of(op, p->a);
      touch t = {.shared = true, .write = true, .from = at->i, .to = at->i + s.bytes, .op = op};
      if (hazard(u, op, &t)) barrier_before(p, u, op);
      if (op->code == OP_tma_store && tir_attr_int(op, ATTR_by_warp, 0)) continue;
      if (s.warp_local)
        add(p, u, t);
      else
        u->list.n = 0; /* the barrier inside */
      if (op->code == OP_tma_store) continue;
      t.write = false;
      add(p, u, t);
    }
  }
}

bool pass_barriers(tir_fn *fn, const pass_cx *cx) {
  (void)cx;
  place p = {.fn = fn, .a = arena_new()};
  under_way u = {0};
  walk(&p, fn->body, &u);
  arena_free(p.a);
  return p.changed;
}
