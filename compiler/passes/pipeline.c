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
 * What computes the addresses of a load, its slice, must be pure and may use the induction variable and carried values
 * that the slice itself advances (pa += BK): it is computed ahead, by a copy of the slice with carried values of its
 * own. A loop that also writes memory is left alone: a copy made ahead could miss what an iteration in between writes.
 *
 * An accumulator stays in flight over the back edge: of a matrix product, where only the next wgmma reads it (the wait
 * leaves one group pending), and that of P*V in attention, which the next iteration waits for together with Q*K, unless
 * pass overlap has moved it there altogether.
 */
#include <string.h>

#include "compiler/passes/passes.h"

typedef struct ahead { /* one load that is copied ahead */
  tir_op *load, *store, *alloc;
  tir_value *stages; /* the buffer with stages */
} ahead;

typedef struct loop {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  tir_op *op;
  tir_region *body;
  int stages;
  int64_t step;
  VEC(ahead) loads;
  VEC(tir_op *) slice; /* in program order */
  int n_carried;       /* before the loop is rewritten */
  bool *carried;       /* by carried value: the slice uses it */
  bool wgmma;
} loop;

static int pointee_bytes(const tir_type *pointer) {
  const tir_type *p = tir_elem(pointer)->elem;
  return p->kind == TY_PTR ? 8 : tir_dtypes[p->dtype].bytes;
}

/* ---- what can be copied ahead ---- */

static bool in_slice(const loop *l, const tir_op *op) {
  for (int i = 0; i < l->slice.n; i++)
    if (l->slice.at[i] == op) return true;
  return false;
}

/* Takes what v is computed from inside the loop into the slice; false if that cannot be computed ahead. */
static bool take(loop *l, const tir_value *v) {
  if (!v->def) {
    if (v->region != l->body || v->index == 0) return v->region == l->body || !tir_region_contains(l->body, v->region);
    if (l->carried[v->index - 1]) return true;
    l->carried[v->index - 1] = true;
    return take(l, tir_in(l->body->last, v->index - 1));
  }
  if (!tir_region_contains(l->body, v->def->parent) || in_slice(l, v->def)) return true;
  if (v->def->parent != l->body || v->def->n_regions || tir_ops[v->def->code].effect != FX_PURE) return false;
  VEC_PUSH(l->a, l->slice, v->def);
  for (int i = 0; i < v->def->n_in; i++)
    if (!take(l, tir_in(v->def, i))) return false;
  return true;
}

static bool is_zero(const tir_value *v) {
  tir_scalar s;
  return tir_known_scalar(v, &s) && s.bits == 0;
}

/* Why the tile that `store` puts into a buffer cannot be copied ahead; NULL if it can. */
static const char *refused(loop *l, const tir_op *store) {
  const tir_op *load = tir_in(store, 0)->def, *alloc = tir_in(store, 1)->def;
  if (!load || load->code != OP_load || load->parent != l->body) return "it is computed, not loaded";
  if (!alloc || alloc->code != OP_alloc || alloc->parent != l->body)
    return "its buffer lives longer than the iteration";
  const tir_use *u = tir_out(load, 0)->uses;
  if (u->next) return "the loaded tile has other uses than the dot";
  if (tir_attr_int(load, ATTR_is_volatile, 0)) return "the load is volatile";
  if (load->n_in == 3 && !is_zero(tir_in(load, 2))) return "its `other` is not zero";
  enum { SMALLEST_COPY = 4 };
  if (tir_attr_int(load, ATTR_vec, 1) * pointee_bytes(tir_in(load, 0)->type) < SMALLEST_COPY)
    return "its elements are not known to be contiguous and aligned over 4 bytes: state the divisibility of pointer "
           "and strides";
  int slice = l->slice.n;
  bool *carried = arena_copy(l->a, l->carried, sizeof(bool) * (size_t)(l->op->n_out + 1));
  for (int i = 0; i < load->n_in && i < 2; i++)
    if (!take(l, tir_in(load, i))) {
      l->slice.n = slice;
      memcpy(l->carried, carried, sizeof(bool) * (size_t)(l->op->n_out + 1));
      return "its address depends on what the loop loads or decides";
    }
  return NULL;
}

static bool writes_memory(const tir_region *r) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (tir_ops[op->code].effect == FX_WRITE || tir_ops[op->code].effect == FX_RMW || op->code == OP_debug_barrier)
      return true;
    for (int i = 0; i < op->n_regions; i++)
      if (writes_memory(op->regions[i])) return true;
  }
  return false;
}

/* Program order, for a slice that was found from its uses. */
static void order_slice(loop *l) {
  VEC(tir_op *) sorted = {0};
  for (tir_op *op = l->body->first; op; op = op->next)
    if (in_slice(l, op)) VEC_PUSH(l->a, sorted, op);
  memcpy(l->slice.at, sorted.at, sizeof(tir_op *) * (size_t)sorted.n);
}

static bool find_loads(loop *l) {
  for (tir_op *op = l->body->first; op; op = op->next) {
    if (op->code == OP_wgmma) l->wgmma = true;
    if (op->code != OP_buffer_store) continue;
    const char *why = l->stages < 2 ? "num_stages is 1" : writes_memory(l->body) ? "the loop writes memory" : NULL;
    if (!why && !l->step) why = "the step of the loop is not known";
    if (!why && !l->cx->arch->has_cp_async) why = "the target has no asynchronous copies";
    if (!why) why = refused(l, op);
    span at = tir_in(op, 0)->def ? tir_in(op, 0)->def->at : op->at;
    if (why) {
      pass_remark(l->cx, at, "not pipelined: %s", why);
      continue;
    }
    pass_remark(l->cx, at, "pipelined over %d stages", l->stages);
    VEC_PUSH(l->a, l->loads, ((ahead){.load = tir_in(op, 0)->def, .store = op, .alloc = tir_in(op, 1)->def}));
  }
  if (l->loads.n) order_slice(l);
  return l->loads.n > 0;
}

/* ---- the change ---- */

static tir_value *number(tir_builder *b, const tir_value *like, int64_t v) { return tir_const_int(b, like->type, v); }

/* Whether the iteration `distance` steps behind `iv` exists, given that iv's own does. The difference of the bounds is
   exact as an unsigned number, so nothing wraps. */
static tir_value *reaches(loop *l, tir_builder *b, tir_value *iv, int64_t distance) {
  static const tir_dtype unsigned_of[DT_N] = {[DT_i8] = DT_u8, [DT_i16] = DT_u16, [DT_i32] = DT_u32, [DT_i64] = DT_u64,
                                              [DT_u8] = DT_u8, [DT_u16] = DT_u16, [DT_u32] = DT_u32, [DT_u64] = DT_u64};
  tir_value *ub = tir_in(l->op, 1);
  tir_value *left = l->step > 0 ? tir_binary(b, OP_sub, ub, iv) : tir_binary(b, OP_sub, iv, ub);
  left = tir_cast(b, left, tir_scalar_type(l->fn->cx, unsigned_of[tir_dtype_of(iv->type)]));
  int64_t steps = distance * (l->step > 0 ? l->step : -l->step);
  return tir_binary(b, OP_gt, left, number(b, left, steps));
}

/* Computes the slice for iteration `iv` with carried values `now` (advanced to the iteration after it) and copies every
   tile into `stage`, unless `exists` is false. */
static void copy_tiles(loop *l, tir_builder *b, tir_value *iv, tir_value **now, tir_value *stage, tir_value *exists) {
  tir_map map = {0};
  tir_map_set(l->fn, &map, l->body->args[0], iv);
  for (int i = 0; i < l->n_carried; i++)
    if (l->carried[i]) tir_map_set(l->fn, &map, l->body->args[i + 1], now[i]);
  for (int i = 0; i < l->slice.n; i++) tir_clone(b, l->slice.at[i], &map);
  for (int i = 0; i < l->loads.n; i++) {
    const ahead *x = &l->loads.at[i];
    b->at = x->load->at;
    tir_value *pointer = tir_map_get(&map, tir_in(x->load, 0));
    const tir_type *mask_type = tir_with_elem(l->fn->cx, pointer->type, tir_scalar_type(l->fn->cx, DT_i1));
    tir_value *mask = tir_splat(b, exists, mask_type);
    if (x->load->n_in > 1) mask = tir_binary(b, OP_and, tir_map_get(&map, tir_in(x->load, 1)), mask);
    const tir_type *t = x->stages->type, *one = tir_buffer_type(l->fn->cx, t->elem, t->rank, t->shape, t->shared, 0);
    tir_value *view = tir_build1(b, OP_buffer_at, 2, (tir_value *[]){x->stages, stage}, one);
    tir_op *copy = tir_build(b, OP_copy_async, 3, (tir_value *[]){pointer, view, mask}, 0, NULL);
    tir_set_int(copy, ATTR_vec, tir_attr_int(x->load, ATTR_vec, 1));
    tir_set_int(copy, ATTR_axis, tir_attr_int(x->load, ATTR_axis, 0));
    if (tir_attr_str(x->load, ATTR_evict, NULL)) tir_set_str(copy, ATTR_evict, tir_attr_str(x->load, ATTR_evict, NULL));
  }
  tir_build(b, OP_copy_commit, 0, NULL, 0, NULL);
  for (int i = 0; i < l->n_carried; i++)
    if (l->carried[i]) now[i] = tir_map_get(&map, tir_in(l->body->last, i));
}

static void build_int(tir_builder *b, tir_opcode code, int64_t pending) {
  tir_op *op = tir_build(b, code, 0, NULL, 0, NULL);
  tir_set_int(op, ATTR_pending, pending);
}

/* Whether an operand of a wgmma may still be read when the next iteration has begun: not a buffer of the loop's body,
   which that one writes at once. */
static bool outlives_iteration(const loop *l, const tir_value *v) {
  while (v->def && (v->def->code == OP_buffer_at || v->def->code == OP_buffer_trans)) v = tir_in(v->def, 0);
  return !tir_is_buffer(v->type) || !v->def || !tir_region_contains(l->body, v->def->parent);
}

/* The op of `r` that is or contains `op`. */
static const tir_op *op_of(const tir_region *r, const tir_op *op) {
  while (op->parent != r) op = op->parent->owner;
  return op;
}

/* The first wait of an iteration, if it waits for every group and comes before whatever reads `carried`. */
static tir_op *wait_before_uses(const loop *l, const tir_value *carried) {
  tir_op *op = l->body->first;
  for (; op && op->code != OP_wgmma_wait; op = op->next)
    for (const tir_use *u = carried->uses; u; u = u->next)
      if (op_of(l->body, u->op) == op) return NULL;
  return op && tir_attr_int(op, ATTR_pending, 0) == 0 ? op : NULL;
}

/* Makes `wait` wait for `v` too; every other use of v becomes its result. */
static void wait_for_too(loop *l, tir_op *wait, tir_value *v) {
  tir_value **in = ARENA_ARRAY(l->a, tir_value *, wait->n_in + 1);
  const tir_type **out = ARENA_ARRAY(l->a, const tir_type *, wait->n_in + 1);
  for (int i = 0; i < wait->n_in; i++) {
    in[i] = tir_in(wait, i);
    out[i] = in[i]->type;
  }
  tir_builder b = tir_before(l->fn, wait);
  in[wait->n_in] = v;
  out[wait->n_in] = v->type;
  tir_op *both = tir_build(&b, OP_wgmma_wait, wait->n_in + 1, in, wait->n_in + 1, out);
  tir_set_int(both, ATTR_pending, 0);
  tir_replace_uses(v, both->out[wait->n_in]);
  tir_set_in(both, wait->n_in, v);
  for (int i = 0; i < wait->n_in; i++) tir_replace_uses(wait->out[i], both->out[i]);
  tir_remove(wait);
}

/* Accumulators that are carried on as they come: theirs is waited for behind the loop, and in the next iteration where
   another wait is reached before anything but a wgmma reads them. */
static void leave_in_flight(loop *l, tir_builder *after) {
  for (tir_op *wait = l->body->first, *next; wait; wait = next) {
    next = wait->next;
    if (wait->code != OP_wgmma_wait || wait->n_in != 1) continue;
    tir_value *mma = tir_in(wait, 0);
    const tir_use *u = wait->out[0]->uses;
    if (!mma->def || mma->def->code != OP_wgmma || !u || u->next || u->op != l->body->last) continue;
    if (tir_in(mma->def, 0)->region == l->body) continue; /* in registers that the next iteration's value takes */
    int i = (int)(u - l->body->last->in);
    if (!outlives_iteration(l, tir_in(mma->def, 0)) || !outlives_iteration(l, tir_in(mma->def, 1))) {
      pass_remark(l->cx, mma->def->at, "waited for in every iteration: an operand is not copied ahead");
      continue;
    }
    tir_value *carried = l->body->args[i + 1];
    if (tir_in(mma->def, 2) == carried && !carried->uses->next) {
      tir_set_int(wait, ATTR_pending, 1);
    } else {
      tir_op *earlier = wait_before_uses(l, carried);
      if (!earlier || earlier == wait) continue;
      wait_for_too(l, earlier, carried);
      tir_replace_uses(wait->out[0], mma);
      tir_remove(wait);
    }
    tir_value *out = l->op->out[i];
    if (!tir_has_uses(out)) continue;
    tir_op *done = tir_build(after, OP_wgmma_wait, 1, &out, 1, &out->type);
    tir_replace_uses(out, done->out[0]);
    tir_set_in(done, 0, out);
    tir_set_int(done, ATTR_pending, 0);
  }
}

static void rewrite(loop *l) {
  const tir_type *i32 = tir_scalar_type(l->fn->cx, DT_i32);
  int carried = l->n_carried, n = l->stages;
  tir_builder front = tir_before(l->fn, l->op);
  for (int i = 0; i < l->loads.n; i++) {
    ahead *x = &l->loads.at[i];
    const tir_type *one = x->alloc->out[0]->type;
    const tir_type *ring = tir_buffer_type(l->fn->cx, one->elem, one->rank, one->shape, one->shared, n);
    front.at = x->load->at;
    tir_op *alloc = tir_build(&front, OP_alloc, 0, NULL, 1, &ring);
    tir_set_int(alloc, ATTR_managed, 1);
    x->stages = alloc->out[0];
  }
  front.at = l->op->at;
  tir_value **now = ARENA_ARRAY(l->a, tir_value *, carried + 1), *lb = tir_in(l->op, 0), *ub = tir_in(l->op, 1);
  for (int i = 0; i < carried; i++) now[i] = tir_in(l->op, i + 3);
  tir_value *runs = tir_binary(&front, l->step > 0 ? OP_lt : OP_gt, lb, ub);
  for (int s = 0; s < n - 1; s++) {
    tir_value *exists = s ? tir_binary(&front, OP_and, runs, reaches(l, &front, lb, s)) : runs;
    tir_value *iv = s ? tir_binary(&front, OP_add, lb, number(&front, lb, s * l->step)) : lb;
    copy_tiles(l, &front, iv, now, tir_const_int(&front, i32, s), exists);
  }

  /* Carried on: the slice's values, S-1 iterations ahead, and the stage that is read. */
  tir_value **ahead_arg = ARENA_ARRAY(l->a, tir_value *, carried + 1);
  for (int i = 0; i < carried; i++)
    if (l->carried[i]) {
      tir_append_in(l->op, now[i]);
      tir_append_out(l->op, now[i]->type);
      ahead_arg[i] = tir_region_add_arg(l->body, now[i]->type, l->op->at);
    }
  tir_append_in(l->op, tir_const_int(&front, i32, 0));
  tir_append_out(l->op, i32);
  tir_value *slot = tir_region_add_arg(l->body, i32, l->op->at);

  tir_builder top = tir_before(l->fn, l->body->first);
  build_int(&top, OP_copy_wait, n - 2);
  if (l->wgmma) tir_build(&top, OP_fence_async, 0, NULL, 0, NULL);
  tir_build(&top, OP_barrier, 0, NULL, 0, NULL);
  for (int i = 0; i < l->loads.n; i++) {
    ahead *x = &l->loads.at[i];
    tir_value *view = tir_build1(&top, OP_buffer_at, 2, (tir_value *[]){x->stages, slot}, x->alloc->out[0]->type);
    tir_remove(x->store);
    tir_replace_uses(x->alloc->out[0], view);
    tir_remove(x->alloc);
  }

  tir_builder next = l->wgmma ? tir_before(l->fn, l->body->last) : top;
  next.at = l->op->at;
  if (l->wgmma) tir_build(&next, OP_barrier, 0, NULL, 0, NULL);
  tir_value *iv = l->body->args[0], *first = tir_binary(&next, OP_eq, slot, number(&next, slot, 0));
  tir_value *behind = tir_binary(&next, OP_sub, slot, number(&next, slot, 1));
  tir_value *stage = tir_select(&next, first, number(&next, slot, n - 1), behind);
  tir_value *iv_ahead = tir_binary(&next, OP_add, iv, number(&next, iv, (n - 1) * l->step));
  for (int i = 0; i < carried; i++) now[i] = ahead_arg[i];
  copy_tiles(l, &next, iv_ahead, now, stage, reaches(l, &next, iv, n - 1));
  tir_value *last = tir_binary(&next, OP_eq, slot, number(&next, slot, n - 1));
  tir_value *following = tir_binary(&next, OP_add, slot, number(&next, slot, 1));
  for (int i = 0; i < carried; i++)
    if (l->carried[i]) tir_append_in(l->body->last, now[i]);
  tir_append_in(l->body->last, tir_select(&next, last, number(&next, slot, 0), following));
  for (int i = 0; i < l->loads.n; i++) tir_remove(l->loads.at[i].load);

  tir_builder after = {l->fn, l->op->parent, l->op->next, l->op->at};
  if (l->wgmma) leave_in_flight(l, &after);
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

static bool pipeline_loop(tir_fn *fn, const pass_cx *cx, tir_op *op) {
  loop l = {.fn = fn, .cx = cx, .a = arena_new(), .op = op, .body = op->regions[0]};
  l.stages = (int)tir_attr_int(op, ATTR_num_stages, fn->num_stages);
  l.n_carried = op->n_out;
  l.carried = ARENA_ARRAY(l.a, bool, op->n_out + 1);
  if (!tir_known_int(tir_in(op, 2), &l.step)) l.step = 0;
  bool changed = find_loads(&l);
  if (changed) {
    rewrite(&l);
    drop_fences(&l);
  }
  arena_free(l.a);
  return changed;
}

static bool walk(tir_fn *fn, const pass_cx *cx, tir_region *r) {
  bool changed = false;
  for (tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) changed |= walk(fn, cx, op->regions[i]);
    if (op->code == OP_for) changed |= pipeline_loop(fn, cx, op);
  }
  return changed;
}

bool pass_pipeline(tir_fn *fn, const pass_cx *cx) {
  bool changed = walk(fn, cx, fn->body);
  if (changed) pass_canon(fn, cx); /* constants of the prologue, and carried values that nothing reads any more */
  return changed;
}
