/* flight: see flight.h. */
#include "compiler/passes/flight.h"

#include "compiler/passes/shared.h"

/* Whether an operand of a wgmma may still be read when the next iteration has begun: not a buffer of the loop's body,
   which that one writes at once. */
static bool outlives_iteration(const tir_region *body, const tir_value *v) {
  while (v->def && (v->def->code == OP_buffer_at || v->def->code == OP_buffer_trans)) v = tir_in(v->def, 0);
  if (v->def && v->def->code == OP_tma_load) return true;
  return !tir_is_buffer(v->type) || !v->def || !tir_region_contains(body, v->def->parent);
}

/* Whether v is a stage of a ring that the body gives back already, behind a wait as it is. */
static bool given_back(const tir_region *body, const tir_value *v) {
  while (v->def && v->def->code == OP_buffer_trans) v = tir_in(v->def, 0);
  for (const tir_op *op = body->first; op && v->def && v->def->code == OP_tma_load; op = op->next)
    if (op->code == OP_tma_release && tir_in(op, 0) == tir_in(v->def, 1)) return true;
  return false;
}

/* The op of `r` that is or contains `op`. */
static const tir_op *op_of(const tir_region *r, const tir_op *op) {
  while (op->parent != r) op = op->parent->owner;
  return op;
}

/* The product whose sum `mma` goes on with while it is under way, or NULL. */
static tir_op *summand_before(const tir_op *mma) {
  tir_op *before = tir_in(mma, 2)->def;
  return before && before->code == OP_wgmma ? before : NULL;
}

typedef struct sum { /* products that add to the same registers, under way together */
  int n;
  const tir_value *start; /* what they add to */
  bool carries_rows;      /* one has rows in registers that the next iteration's value takes */
  bool ahead;             /* what they read outlives the iteration */
  bool given_back;        /* a stage that one reads is given back by the body already */
} sum;

static sum sum_of(const tir_region *body, const tir_op *last) {
  sum s = {.ahead = true};
  for (const tir_op *mma = last; mma; mma = summand_before(mma)) {
    s.n++;
    s.start = tir_in(mma, 2);
    s.carries_rows |= tir_in(mma, 0)->region == body;
    for (int k = 0; k < 2; k++) {
      s.ahead &= outlives_iteration(body, tir_in(mma, k));
      s.given_back |= given_back(body, tir_in(mma, k));
    }
  }
  return s;
}

/* Whether registers that these products read are written in an iteration before `wait`, or, if that is NULL, at all. */
static bool rewritten_before(const tir_region *body, const tir_op *last, const tir_op *wait) {
  bool rewritten = false;
  for (const tir_op *mma = last; mma && !rewritten; mma = summand_before(mma)) {
    const tir_value *rows = tir_in(mma, 0);
    if (tir_is_buffer(rows->type) || !rows->def || !tir_region_contains(body, rows->def->parent)) continue;
    const tir_op *op = op_of(body, rows->def);
    while (op && op != wait) op = op->next;
    rewritten = !wait || op == wait;
  }
  return rewritten;
}

/* The first wait of an iteration, if it waits for every group and comes before whatever reads `carried`. */
static tir_op *wait_before_uses(const tir_region *body, const tir_value *carried) {
  tir_op *op = body->first;
  for (; op && op->code != OP_wgmma_wait; op = op->next)
    for (const tir_use *u = carried->uses; u; u = u->next)
      if (op_of(body, u->op) == op) return NULL;
  return op && tir_attr_int(op, ATTR_pending, 0) == 0 ? op : NULL;
}

/* Makes `wait` wait for `v` too; every other use of v becomes its result. */
static void wait_for_too(tir_fn *fn, arena *a, tir_op *wait, tir_value *v) {
  tir_value **in = ARENA_ARRAY(a, tir_value *, wait->n_in + 1);
  const tir_type **out = ARENA_ARRAY(a, const tir_type *, wait->n_in + 1);
  for (int i = 0; i < wait->n_in; i++) {
    in[i] = tir_in(wait, i);
    out[i] = in[i]->type;
  }
  tir_builder b = tir_before(fn, wait);
  in[wait->n_in] = v;
  out[wait->n_in] = v->type;
  tir_op *both = tir_build(&b, OP_wgmma_wait, wait->n_in + 1, in, wait->n_in + 1, out);
  tir_set_int(both, ATTR_pending, 0);
  tir_replace_uses(v, both->out[wait->n_in]);
  tir_set_in(both, wait->n_in, v);
  for (int i = 0; i < wait->n_in; i++) tir_replace_uses(wait->out[i], both->out[i]);
  tir_remove(wait);
}

/* ---- operands that every iteration computes ---- */

/* The buffer of the body that a product's operand is a view of, filled once, with what the body has computed, and read
   by products of the sum that ends in `last` alone; else NULL. */
static tir_op *computed_buffer(const tir_region *body, tir_value *v, const tir_op *last) {
  while (v->def && v->def->code == OP_buffer_trans) v = tir_in(v->def, 0);
  if (!v->def || v->def->code != OP_alloc || v->def->parent != body) return NULL;
  const tir_op *store = NULL;
  VEC(tir_value *) views = {0};
  arena *a = arena_new();
  bool good = true;
  VEC_PUSH(a, views, v);
  for (int i = 0; i < views.n && good; i++)
    for (const tir_use *u = views.at[i]->uses; u && good; u = u->next) {
      const tir_op *reader = last;
      while (reader && reader != u->op) reader = summand_before(reader);
      if (u->op->code == OP_buffer_trans)
        VEC_PUSH(a, views, u->op->out[0]);
      else if (u->op->code == OP_buffer_store && !store && u->op->parent == body)
        store = u->op;
      else
        good = reader != NULL;
    }
  arena_free(a);
  const tir_op *from = store ? tir_in(store, 0)->def : NULL;
  return good && from && from->code != OP_load && from->parent == body ? v->def : NULL;
}

static int64_t count_products(const tir_region *r) {
  int64_t n = 0;
  for (const tir_op *op = r->first; op; op = op->next) {
    n += op->code == OP_wgmma;
    for (int i = 0; i < op->n_regions; i++) n += count_products(op->regions[i]);
  }
  return n;
}

/* Two stages for the buffers that an iteration computes for the products that `wait` waits for, which then are under
 * way while the next iteration computes:
 *
 *   y = .. ; buffer_store y, buf              y = .. ; buffer_store y, buf[k % 2]
 *   fence; acc' = wgmma buf + acc             acc = wait acc            of the iteration before
 *   wait acc'                                 fence; barrier; acc' = wgmma buf[k % 2] + acc
 *
 * Behind that barrier every thread has waited for the iteration before, so that its stage may be written. False if it
 * cannot be or does not fit. */
static bool compute_beside(tir_fn *fn, const pass_cx *cx, tir_op *loop, tir_op *wait, int slot_of_acc) {
  tir_region *body = loop->regions[0];
  tir_op *last = tir_in(wait, 0)->def, *first = last;
  sum all = sum_of(body, last);
  tir_value *carried = body->args[slot_of_acc + 1];
  if (all.start != carried || carried->uses->next || all.n != count_products(body)) return false;
  arena *a = arena_new();
  VEC(tir_op *) buffers = {0};
  int64_t more = 0;
  bool good = true;
  for (tir_op *mma = last; mma && good; mma = summand_before(mma)) {
    first = mma;
    for (int k = 0; k < 2; k++) {
      tir_value *v = tir_in(mma, k);
      if (tir_is_tile(v->type) && v->def && tir_region_contains(body, v->def->parent)) good = false;
      if (outlives_iteration(body, v)) continue;
      tir_op *alloc = computed_buffer(body, v, last);
      bool seen = false;
      for (int i = 0; i < buffers.n; i++) seen |= buffers.at[i] == alloc;
      if (!alloc) good = false;
      if (!alloc || seen) continue;
      VEC_PUSH(a, buffers, alloc);
      more += tir_buffer_stage_bytes(alloc->out[0]->type);
    }
  }
  int64_t stages = tir_attr_int(loop, ATTR_num_stages, fn->num_stages); /* of what they are computed from */
  if (!good || !buffers.n || shared_bytes_of(fn, NULL, 0) + (1 + stages) * more > cx->arch->shared_block) {
    arena_free(a);
    return false;
  }

  const tir_type *i32 = tir_scalar_type(fn->cx, DT_i32);
  tir_builder front = tir_before(fn, loop), top = tir_before(fn, body->first), end = tir_before(fn, body->last);
  tir_append_in(loop, tir_const_int(&front, i32, 0));
  tir_append_out(loop, i32);
  tir_value *slot = tir_region_add_arg(body, i32, loop->at);
  tir_append_in(body->last, tir_binary(&end, OP_xor, slot, tir_const_int(&end, i32, 1)));
  for (int i = 0; i < buffers.n; i++) {
    tir_value *one = buffers.at[i]->out[0];
    const tir_type *t = one->type, *two = tir_buffer_type(fn->cx, t->elem, t->rank, t->shape, t->shared, 2);
    front.at = buffers.at[i]->at;
    tir_op *ring = tir_build(&front, OP_alloc, 0, NULL, 1, &two);
    tir_set_int(ring, ATTR_managed, 1);
    tir_replace_uses(one, tir_build1(&top, OP_buffer_at, 2, (tir_value *[]){ring->out[0], slot}, t));
    tir_remove(buffers.at[i]);
  }
  arena_free(a);
  tir_op *fence = first->prev && first->prev->code == OP_fence_async ? first->prev : NULL;
  tir_builder before = tir_before(fn, fence ? fence : first), behind = tir_before(fn, first);
  tir_op *done = tir_build(&before, OP_wgmma_wait, 1, &carried, 1, &carried->type);
  tir_set_int(done, ATTR_pending, 0);
  if (!fence) tir_build(&behind, OP_fence_async, 0, NULL, 0, NULL);
  tir_build(&behind, OP_barrier, 0, NULL, 0, NULL);
  tir_set_in(first, 2, done->out[0]);
  tir_replace_uses(wait->out[0], last->out[0]);
  tir_remove(wait);
  pass_remark(cx, last->at, "under way while the next operand is computed");
  return true;
}

void flight_leave(tir_fn *fn, const pass_cx *cx, tir_op *op) {
  arena *a = arena_new();
  const tir_region *body = op->regions[0];
  tir_builder after = {fn, op->parent, op->next, op->at};
  for (tir_op *wait = body->first, *next; wait; wait = next) {
    next = wait->next;
    if (wait->code != OP_wgmma_wait || wait->n_in != 1) continue;
    tir_value *mma = tir_in(wait, 0);
    const tir_use *u = wait->out[0]->uses;
    if (!mma->def || mma->def->code != OP_wgmma || !u || u->next || u->op != body->last) continue;
    int i = (int)(u - body->last->in);
    sum all = sum_of(body, mma->def);
    if (all.carries_rows || all.given_back) continue;
    if (!all.ahead && !compute_beside(fn, cx, op, wait, i)) {
      pass_remark(cx, mma->def->at, "waited for in every iteration: an operand is not copied ahead");
      continue;
    }
    tir_value *carried = body->args[i + 1];
    if (!all.ahead) {
      /* waited for in the next iteration already */
    } else if (all.start == carried && !carried->uses->next) {
      if (rewritten_before(body, mma->def, NULL)) {
        pass_remark(cx, mma->def->at, "waited for in every iteration: its first operand is computed there");
        continue;
      }
      tir_set_int(wait, ATTR_pending, all.n);
    } else {
      tir_op *earlier = wait_before_uses(body, carried);
      if (!earlier || earlier == wait || rewritten_before(body, mma->def, earlier)) continue;
      wait_for_too(fn, a, earlier, carried);
      tir_replace_uses(wait->out[0], mma);
      tir_remove(wait);
    }
    tir_value *out = op->out[i];
    if (!tir_has_uses(out) && all.ahead) continue;
    tir_op *done = tir_build(&after, OP_wgmma_wait, 1, &out, 1, &out->type);
    tir_replace_uses(out, done->out[0]);
    tir_set_in(done, 0, out);
    tir_set_int(done, ATTR_pending, 0);
    if (!all.ahead) tir_build(&after, OP_barrier, 0, NULL, 0, NULL);
  }
  arena_free(a);
}
