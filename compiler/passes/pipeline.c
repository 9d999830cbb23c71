/* pipeline: loops whose dots read loaded tiles copy those tiles ahead, asynchronously, into a ring of stages.
 *
 * With S stages (num_stages), before:                       after:
 *
 *   for k:                                                    for s in 0 .. S-2: copy tile s into stage s; commit
 *     x = load p(k)                                           for k:
 *     buffer_store x, buf                                       copy_wait S-2          tile k is there, not S-2 more
 *     .. wgmma or buffer_load of buf ..                         fence_async; barrier   for every thread
 *                                                               .. of stage k % S ..
 *                                                               wgmma_wait 1; barrier  tile k-1 has been read by all
 *                                                               copy tile k+S-1 into stage (k-1) % S; commit
 *                                                             wgmma_wait 0; copy_wait 0; barrier
 *
 * A group is committed in every iteration, also when nothing is left to copy, because copy_wait counts groups. Copies
 * of tiles behind the end are masked off whole. Without wgmma the barrier at the top says already that tile k-1 has
 * been read, so the copies go there and one barrier is left. Copying before the wait would save the second barrier with
 * wgmma too, but then has to leave one more stage alone: 2.6 % slower with 4 stages, far worse with 3.
 *
 * A tile that is not what a dot reads, but what it is computed from, is loaded from its stage where it was loaded from
 * memory; behind that all is as it was.
 *
 * Tiles too small for stages are loaded to registers one iteration before the one that uses them.
 *
 * Which loads, and what is computed again for their addresses: ahead.c. A loop that also writes memory is left alone: a
 * copy made ahead could miss what an iteration in between writes. Stages of tiles that go to registers are given up,
 * the largest first, if the kernel does not fit into shared memory with them: whether it does is found by doing all to
 * a copy of the function.
 */
#include "compiler/passes/ahead.h"
#include "compiler/passes/flight.h"
#include "compiler/passes/shared.h"

typedef ahead_loop loop;

/* ---- the change ---- */

static tir_value *number(tir_builder *b, const tir_value *like, int64_t v) { return tir_const_int(b, like->type, v); }

/* `count` steps of the loop as a number of type d, which holds them if it has 64 bits. */
static tir_value *steps(loop *l, tir_builder *b, tir_dtype d, int64_t count) {
  const tir_type *t = tir_scalar_type(l->fn->cx, d);
  tir_value *one = tir_cast(b, tir_in(l->op, 2), t);
  return count == 1 ? one : tir_binary(b, OP_mul, one, tir_const_int(b, t, count));
}

static bool goes_down(const loop *l) { return l->step < 0; }

/* Whether the iteration `distance` steps behind `iv` exists, given that iv's own does. The difference of the bounds is
   exact as an unsigned number, so nothing wraps. A step that is not known goes up, or the loop ends after one. */
static tir_value *reaches(loop *l, tir_builder *b, tir_value *iv, int64_t distance) {
  static const tir_dtype unsigned_of[DT_N] = {[DT_i8] = DT_u8, [DT_i16] = DT_u16, [DT_i32] = DT_u32, [DT_i64] = DT_u64,
                                              [DT_u8] = DT_u8, [DT_u16] = DT_u16, [DT_u32] = DT_u32, [DT_u64] = DT_u64};
  const tir_type *u64 = tir_scalar_type(l->fn->cx, DT_u64);
  tir_value *ub = tir_in(l->op, 1);
  tir_value *left = goes_down(l) ? tir_binary(b, OP_sub, iv, ub) : tir_binary(b, OP_sub, ub, iv);
  left = tir_cast(b, left, tir_scalar_type(l->fn->cx, unsigned_of[tir_dtype_of(iv->type)]));
  if (l->step) return tir_binary(b, OP_gt, left, number(b, left, distance * (goes_down(l) ? -l->step : l->step)));
  return tir_binary(b, OP_gt, tir_cast(b, left, u64), tir_cast(b, steps(l, b, DT_i64, distance), u64));
}

/* Whether iteration `lb` + s steps exists. */
static tir_value *runs(loop *l, tir_builder *b, int64_t s) {
  tir_value *lb = tir_in(l->op, 0), *any = tir_binary(b, goes_down(l) ? OP_gt : OP_lt, lb, tir_in(l->op, 1));
  return s ? tir_binary(b, OP_and, any, reaches(l, b, lb, s)) : any;
}

static tir_value *later(loop *l, tir_builder *b, tir_value *iv, int64_t s) {
  if (!s) return iv;
  return tir_binary(b, OP_add, iv, l->step ? number(b, iv, s * l->step) : steps(l, b, tir_dtype_of(iv->type), s));
}

/* The mask of a copy of `load`, or the load's own, so that it does nothing unless `exists`. */
static tir_value *masked(loop *l, tir_builder *b, const tir_map *map, const tir_op *load, tir_value *exists) {
  const tir_type *type = tir_with_elem(l->fn->cx, tir_in(load, 0)->type, tir_scalar_type(l->fn->cx, DT_i1));
  tir_value *mask = tir_splat(b, exists, type);
  return load->n_in > 1 ? tir_binary(b, OP_and, tir_map_get(map, tir_in(load, 1)), mask) : mask;
}

/* What the slice's ops use, for iteration `iv` with carried values `now`. */
static tir_map begin_slice(loop *l, const ahead_slice *s, tir_value *iv, tir_value *const *now) {
  tir_map map = {0};
  tir_map_set(l->fn, &map, l->body->args[0], iv);
  for (int i = 0; i < l->n_carried; i++)
    if (s->carried[i]) tir_map_set(l->fn, &map, l->body->args[i + 1], now[i]);
  return map;
}

/* Advances `now` to the iteration behind that of the slice. */
static void end_slice(loop *l, const ahead_slice *s, const tir_map *map, tir_value **now) {
  for (int i = 0; i < l->n_carried; i++)
    if (s->carried[i]) now[i] = tir_map_get(map, tir_in(l->body->last, i));
}

/* Does all of slice s, loads included, for iteration `iv`; its loads do nothing unless `exists`. */
static tir_map load_slice(loop *l, const ahead_slice *s, tir_builder *b, tir_value *iv, tir_value **now,
                          tir_value *exists) {
  tir_map map = begin_slice(l, s, iv, now);
  for (int i = 0; i < s->ops.n; i++) {
    const tir_op *op = s->ops.at[i];
    if (op->code != OP_load) {
      tir_clone(b, op, &map);
      continue;
    }
    b->at = op->at;
    tir_value *mask = masked(l, b, &map, op, exists);
    tir_value *other = op->n_in > 2 ? tir_map_get(&map, tir_in(op, 2)) : tir_const_int(b, op->out[0]->type, 0);
    tir_op *load = tir_clone(b, op, &map);
    if (op->n_in > 1)
      tir_set_in(load, 1, mask);
    else
      tir_append_in(load, mask);
    if (op->n_in < 3) tir_append_in(load, other);
  }
  end_slice(l, s, &map, now);
  return map;
}

/* Loads all indices of iteration `iv`. */
static void load_indices(loop *l, tir_builder *b, tir_value *iv, tir_value **now, tir_value *exists, tir_value **out) {
  tir_map map = load_slice(l, &l->indices, b, iv, now, exists);
  for (int i = 0; i < l->index.n; i++) out[i] = tir_map_get(&map, l->index.at[i]);
}

/* Computes the addresses for iteration `iv` and copies every tile into `stage`, unless `exists` is false. */
static void copy_tiles(loop *l, tir_builder *b, tir_value *iv, tir_value **now, tir_value *const *index,
                       tir_value *stage, tir_value *exists) {
  tir_map map = begin_slice(l, &l->addresses, iv, now);
  for (int i = 0; i < l->index.n; i++) tir_map_set(l->fn, &map, l->index.at[i], index[i]);
  for (int i = 0; i < l->addresses.ops.n; i++) tir_clone(b, l->addresses.ops.at[i], &map);
  for (int i = 0; i < l->loads.n; i++) {
    const ahead *x = &l->loads.at[i];
    b->at = x->load->at;
    tir_value *pointer = tir_map_get(&map, tir_in(x->load, 0));
    tir_value *mask = masked(l, b, &map, x->load, exists);
    tir_value *view = tir_build1(b, OP_buffer_at, 2, (tir_value *[]){x->stages, stage}, x->one);
    tir_op *copy = tir_build(b, OP_copy_async, 3, (tir_value *[]){pointer, view, mask}, 0, NULL);
    tir_set_int(copy, ATTR_vec, tir_attr_int(x->load, ATTR_vec, 1));
    tir_set_int(copy, ATTR_axis, tir_attr_int(x->load, ATTR_axis, 0));
    if (x->repeats) tir_set_str(copy, ATTR_cache, "ca");
    if (tir_attr_str(x->load, ATTR_evict, NULL)) tir_set_str(copy, ATTR_evict, tir_attr_str(x->load, ATTR_evict, NULL));
  }
  tir_build(b, OP_copy_commit, 0, NULL, 0, NULL);
  end_slice(l, &l->addresses, &map, now);
}

/* One more carried value: its argument in the body. Values must be yielded in this order. */
static tir_value *carry(loop *l, tir_value *init) {
  tir_append_in(l->op, init);
  tir_append_out(l->op, init->type);
  return tir_region_add_arg(l->body, init->type, l->op->at);
}

/* The values that slice s uses, carried on as far ahead as they are in `now`, which become those of the body. */
static void carry_slice(loop *l, const ahead_slice *s, tir_value **now) {
  for (int i = 0; i < l->n_carried; i++)
    if (s->carried[i]) now[i] = carry(l, now[i]);
}

static void yield_slice(loop *l, const ahead_slice *s, tir_value *const *now) {
  for (int i = 0; i < l->n_carried; i++)
    if (s->carried[i]) tir_append_in(l->body->last, now[i]);
}

static void build_int(tir_builder *b, tir_opcode code, int64_t pending) {
  tir_op *op = tir_build(b, code, 0, NULL, 0, NULL);
  tir_set_int(op, ATTR_pending, pending);
}

/* Ops between a load and a conversion work in the layout that the conversion made. */
static void move_to_layout(loop *l, const ahead *x) {
  for (int i = 0; i < x->between.n; i++) {
    tir_op *op = x->between.at[i];
    op->out[0]->type = tir_with_layout(l->fn->cx, op->out[0]->type, x->layout);
    for (int k = 0; k < op->n_in; k++) {
      tir_value *v = tir_in(op, k);
      if (v->type->layout == x->layout || !tir_is_filled(v)) continue;
      tir_builder b = tir_before(l->fn, op);
      tir_map none = {0};
      tir_op *filled = tir_clone(&b, v->def, &none);
      filled->out[0]->type = tir_with_layout(l->fn->cx, v->type, x->layout);
      tir_set_in(op, k, filled->out[0]);
    }
  }
  tir_replace_uses(x->convert->out[0], tir_in(x->convert, 0));
  tir_remove(x->convert);
}

/* What uses the loaded tile in registers gets it from its stage. */
static void to_registers(loop *l, const ahead *x) {
  tir_value *loaded = x->load->out[0];
  if (!tir_has_uses(loaded)) return;
  tir_builder b = tir_before(l->fn, x->load);
  const tir_type *type = tir_with_layout(l->fn->cx, loaded->type, x->layout);
  tir_value *tile = tir_build1(&b, OP_buffer_load, 1, &x->view, type);
  if (x->load->n_in == 3 && !ahead_is_zero(tir_in(x->load, 2)))
    tile = tir_select(&b, tir_in(x->load, 1), tile, tir_in(x->load, 2));
  tir_replace_uses(loaded, tile);
  if (x->layout != loaded->type->layout) move_to_layout(l, x);
}

/* Small loads: each iteration does those of the next, first of all. */
static void load_small(loop *l) {
  int n = l->small.n;
  tir_builder front = tir_before(l->fn, l->op), top = tir_before(l->fn, l->body->first);
  tir_value **now = ARENA_ARRAY(l->a, tir_value *, l->n_carried + 1), **arg = ARENA_ARRAY(l->a, tir_value *, n);
  for (int i = 0; i < l->n_carried; i++) now[i] = tir_in(l->op, i + 3);
  tir_map map = load_slice(l, &l->early, &front, tir_in(l->op, 0), now, runs(l, &front, 0));
  carry_slice(l, &l->early, now);
  for (int i = 0; i < n; i++) arg[i] = carry(l, tir_map_get(&map, l->small.at[i]->out[0]));
  tir_value *iv = l->body->args[0];
  map = load_slice(l, &l->early, &top, later(l, &top, iv, 1), now, reaches(l, &top, iv, 1));
  yield_slice(l, &l->early, now);
  for (int i = 0; i < n; i++) tir_append_in(l->body->last, tir_map_get(&map, l->small.at[i]->out[0]));
  for (int i = 0; i < n; i++) {
    tir_replace_uses(l->small.at[i]->out[0], arg[i]);
    tir_remove(l->small.at[i]);
  }
}

static void rewrite(loop *l) {
  const tir_type *i32 = tir_scalar_type(l->fn->cx, DT_i32);
  int n = l->stages;
  tir_builder front = tir_before(l->fn, l->op);
  for (int i = 0; i < l->loads.n; i++) {
    ahead *x = &l->loads.at[i];
    const tir_type *one = x->one, *ring = tir_buffer_type(l->fn->cx, one->elem, one->rank, one->shape, one->shared, n);
    front.at = x->load->at;
    tir_op *alloc = tir_build(&front, OP_alloc, 0, NULL, 1, &ring);
    tir_set_int(alloc, ATTR_managed, 1);
    x->stages = alloc->out[0];
  }
  front.at = l->op->at;
  tir_value *lb = tir_in(l->op, 0), *iv = l->body->args[0];
  tir_value **now = ARENA_ARRAY(l->a, tir_value *, l->n_carried + 1),
            **then = ARENA_ARRAY(l->a, tir_value *, l->n_carried + 1);
  tir_value **index = ARENA_ARRAY(l->a, tir_value *, n * l->index.n + 1), **next_index = index + (n - 1) * l->index.n;
  for (int i = 0; i < l->n_carried; i++) now[i] = then[i] = tir_in(l->op, i + 3);
  for (int s = 0; s < n && l->index.n; s++)
    load_indices(l, &front, later(l, &front, lb, s), then, runs(l, &front, s), index + s * l->index.n);
  for (int s = 0; s < n - 1; s++) {
    tir_value *exists = runs(l, &front, s);
    copy_tiles(l, &front, later(l, &front, lb, s), now, index + s * l->index.n, tir_const_int(&front, i32, s), exists);
  }

  /* Carried on: what the copies' addresses use, S-1 iterations ahead; the indices of those copies; what the indices of
     the following ones use; and the stage that is read. */
  carry_slice(l, &l->addresses, now);
  for (int i = 0; i < l->index.n; i++) next_index[i] = carry(l, next_index[i]);
  carry_slice(l, &l->indices, then);
  tir_value *slot = carry(l, tir_const_int(&front, i32, 0));

  tir_builder top = tir_before(l->fn, l->body->first);
  build_int(&top, OP_copy_wait, n - 2);
  if (l->wgmma) tir_build(&top, OP_fence_async, 0, NULL, 0, NULL);
  tir_build(&top, OP_barrier, 0, NULL, 0, NULL);
  for (int i = 0; i < l->loads.n; i++) {
    ahead *x = &l->loads.at[i];
    x->view = tir_build1(&top, OP_buffer_at, 2, (tir_value *[]){x->stages, slot}, x->one);
    if (!x->store) continue;
    tir_remove(x->store);
    tir_replace_uses(x->alloc->out[0], x->view);
    tir_remove(x->alloc);
  }

  tir_builder next = l->wgmma ? tir_before(l->fn, l->body->last) : top;
  next.at = l->op->at;
  if (l->wgmma) tir_build(&next, OP_barrier, 0, NULL, 0, NULL);
  tir_value *first = tir_binary(&next, OP_eq, slot, number(&next, slot, 0));
  tir_value *behind = tir_binary(&next, OP_sub, slot, number(&next, slot, 1));
  tir_value *stage = tir_select(&next, first, number(&next, slot, n - 1), behind);
  tir_value *iv_ahead = later(l, &next, iv, n - 1);
  copy_tiles(l, &next, iv_ahead, now, next_index, stage, reaches(l, &next, iv, n - 1));
  if (l->index.n) load_indices(l, &next, later(l, &next, iv, n), then, reaches(l, &next, iv, n), next_index);
  tir_value *last = tir_binary(&next, OP_eq, slot, number(&next, slot, n - 1));
  tir_value *following = tir_binary(&next, OP_add, slot, number(&next, slot, 1));
  yield_slice(l, &l->addresses, now);
  for (int i = 0; i < l->index.n; i++) tir_append_in(l->body->last, next_index[i]);
  yield_slice(l, &l->indices, then);
  tir_append_in(l->body->last, tir_select(&next, last, number(&next, slot, 0), following));
  for (int i = 0; i < l->loads.n; i++) { /* now that nothing is copied any more that may use it */
    to_registers(l, &l->loads.at[i]);
    tir_remove(l->loads.at[i].load);
  }

  if (l->wgmma) flight_leave(l->fn, l->cx, l->op);
  tir_op *behind_waits = l->op->next;
  while (behind_waits && behind_waits->code == OP_wgmma_wait) behind_waits = behind_waits->next;
  tir_builder after = {l->fn, l->op->parent, behind_waits, l->op->at};
  build_int(&after, OP_copy_wait, 0);
  tir_build(&after, OP_barrier, 0, NULL, 0, NULL);
}

/* Fences in front of wgmma were for stores that have become copies; the one at the top serves those. */
static void drop_fences(const loop *l) {
  bool stores = false;
  for (const tir_op *op = l->body->first; op; op = op->next) stores |= op->code == OP_buffer_store;
  int seen = 0;
  for (tir_op *op = l->body->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_fence_async && !stores && seen++) tir_remove(op);
  }
}

typedef struct run { /* of the pass, or of a trial */
  tir_fn *fn;
  const pass_cx *cx;
  const axis_facts *facts; /* NULL: they do not matter */
  int64_t most, largest;   /* bytes of stages of a load that goes to registers: that there may be, and that there are */
  bool changed;
} run;

static void pipeline_loop(run *r, tir_op *op) {
  arena *a = arena_new();
  loop l;
  if (ahead_find(&l, r->fn, r->cx, r->facts, a, op, r->most)) {
    for (int i = 0; i < l.loads.n; i++) {
      int64_t bytes = l.loads.at[i].store ? 0 : ahead_bytes(&l, &l.loads.at[i]);
      if (bytes > r->largest) r->largest = bytes;
    }
    if (l.loads.n) {
      rewrite(&l);
      drop_fences(&l);
    }
    if (l.small.n) load_small(&l);
    r->changed = true;
  }
  arena_free(a);
}

/* A `while` decides in every iteration whether there is another: nothing of it can be copied ahead. */
static void remark_on_while(const run *r, const tir_op *op_while) {
  const tir_region *body = op_while->regions[1];
  bool multiplies = false;
  for (const tir_op *op = body->first; op; op = op->next) multiplies |= op->code == OP_dot || op->code == OP_wgmma;
  for (const tir_op *op = body->first; op && multiplies; op = op->next)
    if (op->code == OP_load && tir_is_tile(op->out[0]->type))
      pass_remark(r->cx, op->at, "not pipelined: a `while` does not say ahead how often it runs");
}

static void walk(run *r, tir_region *region) {
  for (tir_op *op = region->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) walk(r, op->regions[i]);
    if (op->code == OP_for) pipeline_loop(r, op);
    if (op->code == OP_while && !tir_next_program(op)) remark_on_while(r, op);
  }
}

static void pipeline(run *r) {
  walk(r, r->fn->body);
  if (r->changed)
    pass_canon(r->fn, r->cx); /* constants of the prologue, and carried values that nothing reads any more */
}

static tir_fn *copy_of(const tir_fn *fn, arena *a) {
  tir_fn *copy = tir_fn_new(fn->cx, a, fn->name, fn->at);
  tir_map map = {0};
  for (int i = 0; i < fn->n_params; i++) {
    const tir_param *p = &fn->params[i];
    tir_map_set(copy, &map, p->value, tir_fn_add_param(copy, p->name, p->value->type, p->divisibility, p->at));
    copy->params[i].positive = p->positive;
    copy->params[i].promised = p->promised;
  }
  copy->stage = fn->stage;
  copy->num_warps = fn->num_warps;
  copy->num_stages = fn->num_stages;
  copy->producer_warps = fn->producer_warps;
  copy->gang = fn->gang;
  tir_builder b = tir_at_end(copy, copy->body);
  for (const tir_op *op = fn->body->first; op; op = op->next) tir_clone(&b, op, &map);
  return copy;
}

/* The most bytes that stages of a load that goes to registers may have: all that fits, else what is left without the
   largest, and so on. */
static int64_t most_that_fits(const tir_fn *fn, const pass_cx *cx) {
  int64_t most = INT64_MAX;
  pass_cx quiet = *cx;
  quiet.remarks = NULL;
  for (;;) {
    arena *a = arena_new();
    run trial = {.fn = copy_of(fn, a), .cx = &quiet, .most = most};
    pipeline(&trial);
    bool fits = !trial.largest || shared_bytes_of(trial.fn, NULL, 0) <= cx->arch->shared_block;
    arena_free(a);
    if (fits) return most;
    most = trial.largest - 1;
  }
}

bool pass_pipeline(tir_fn *fn, const pass_cx *cx) {
  arena *a = arena_new();
  run r = {.fn = fn, .cx = cx, .facts = axis_analyse(fn, a)};
  if (cx->arch->has_cp_async) r.most = most_that_fits(fn, cx);
  pipeline(&r);
  arena_free(a);
  return r.changed;
}
