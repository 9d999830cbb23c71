/* flight: see flight.h. */
#include "compiler/passes/flight.h"

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
static const tir_op *summand_before(const tir_op *mma) {
  const tir_op *before = tir_in(mma, 2)->def;
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
    if (all.carries_rows) continue;
    if (!all.ahead) {
      pass_remark(cx, mma->def->at, "waited for in every iteration: an operand is not copied ahead");
      continue;
    }
    if (all.given_back) continue;
    tir_value *carried = body->args[i + 1];
    if (all.start == carried && !carried->uses->next) {
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
    if (!tir_has_uses(out)) continue;
    tir_op *done = tir_build(&after, OP_wgmma_wait, 1, &out, 1, &out->type);
    tir_replace_uses(out, done->out[0]);
    tir_set_in(done, 0, out);
    tir_set_int(done, ATTR_pending, 0);
  }
  arena_free(a);
}
