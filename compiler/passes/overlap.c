/* overlap: where one product of a loop's iteration feeds another, as in attention, the first of an iteration is issued
 * before the last of the iteration before it, which then runs while the registers of the first are worked on.
 *
 *   for j:                                     p = 0
 *     s = wait (q * k(j))                      for j:
 *     x, f = .. s ..                             s' = q * k(j)
 *     p = cast x                                 acc' = p * v(j - step) + acc
 *     acc = wait (p * v(j) + acc * f)            s = wait s'                     acc' stays under way
 *                                                x, f = .. s ..
 *                                                acc = (wait acc') * f
 *                                                p = cast x
 *                                              acc = wait (p * v(last) + acc)
 *
 * The first iteration has no product before it: p is zero there, and v is masked off to zeros because what lies before
 * its first tile could be infinite. Adding 0 * 0 costs nothing but time in which the tensor cores had no other work.
 * Peeling that iteration instead would need a second copy of everything between the products, under a test for loops
 * that never run, and its tile of k would not be copied ahead with the others.
 *
 * What v's address is computed from must be pure: it is computed again, with iv - step, and with carried values from
 * which what an iteration adds to them is taken off again, or which are carried one iteration longer. Behind the loop
 * the same ops serve the last product, for an iv one step further. If another loop goes on where this one ends, its
 * first iteration takes the last product over instead (handover.h). The cast comes behind the wait, where the registers
 * of the old p are free.
 *
 * ptxas may move the second wait up over arithmetic, and does. Both products are in the queue at once in any case.
 */
#include "compiler/passes/handover.h"

/* Where it pays: with tiles that are copied ahead, for else the loop waits for memory. NULL, or what is missing. */
static const char *not_worthwhile(const chain *c) {
  if (tir_attr_int(c->loop, ATTR_num_stages, c->fn->num_stages) < 2) return "num_stages is 1";
  return NULL;
}

static bool in_body(const chain *c, const tir_value *v) {
  return v->def && tir_region_contains(c->body, v->def->parent);
}

/* ---- the products ---- */

/* Marks what the first n operands of op are computed from. */
static void mark_operands(chain *c, const tir_op *op, int n) {
  for (int i = 0; i < n; i++) {
    const tir_value *v = tir_in(op, i);
    if (!in_body(c, v) || c->leads[v->id]) continue;
    c->leads[v->id] = true;
    mark_operands(c, v->def, v->def->n_in);
  }
  for (int i = 0; i < op->n_regions; i++)
    for (const tir_op *inner = op->regions[i]->first; inner; inner = inner->next) mark_operands(c, inner, inner->n_in);
}

static bool waits_for_all(const tir_op *op) {
  return op->code == OP_wgmma_wait && tir_attr_int(op, ATTR_pending, 0) == 0;
}

/* A product from registers whose result, waited for at once, is only carried on; and in the loop none but products that
   it is computed from, waited for before it. */
static bool find_last(chain *c) {
  for (tir_op *op = c->body->first; op && !c->last; op = op->next) {
    if (op->code != OP_wgmma) continue;
    const tir_use *u = op->out[0]->uses;
    if (u && !u->next && u->op->code == OP_wgmma && u == &u->op->in[2]) continue; /* its sum goes on under way */
    if (!u || u->next || !waits_for_all(u->op) || u->op->n_in != 1) return false;
    const tir_use *carried = u->op->out[0]->uses;
    if (!carried || carried->next || carried->op != c->body->last || !tir_is_tile(tir_in(op, 0)->type)) continue;
    c->last = op;
    c->last_wait = u->op;
    c->slot = (int)(carried - c->body->last->in);
  }
  if (!c->last) return false;
  mark_operands(c, c->last, 1);
  bool behind = false;
  for (tir_op *op = c->body->first; op; op = op->next) {
    if (op == c->last) behind = true;
    if (op == c->last || op == c->last_wait) continue;
    if (op->code == OP_wgmma && (behind || !c->leads[op->out[0]->id])) return false;
    if (op->code != OP_wgmma_wait) continue;
    if (behind || !waits_for_all(op)) return false;
    c->meet = op;
  }
  return c->meet != NULL;
}

/* The casts at the end of what makes the first operand, which nothing else reads. */
static void find_casts(chain *c, const tir_value *v) {
  if (!in_body(c, v) || v->uses->next || (v->def->code != OP_cast && v->def->code != OP_convert_layout)) return;
  find_casts(c, tir_in(v->def, 0));
  VEC_PUSH(c->a, c->casts, v->def);
}

static bool scales(const chain *c, const tir_op *op) {
  for (int i = 0; i < c->scaling.n; i++)
    if (c->scaling.at[i] == op) return true;
  return false;
}

/* Whether v, which can wait until a product is done, leads to the accumulator of `last` and nowhere else, through ops
   that can wait as well. */
static bool find_scaling(chain *c, const tir_value *v) {
  for (const tir_use *u = v->uses; u; u = u->next) {
    if (u->op == c->last && u == &u->op->in[2]) continue;
    if (u->op->parent != c->body || !(tir_ops[u->op->code].flags & OPF_ELT)) return false;
    if (scales(c, u->op)) continue;
    VEC_PUSH(c->a, c->scaling, u->op);
    if (!find_scaling(c, u->op->out[0])) return false;
  }
  return true;
}

/* ---- the second operand of the last ---- */

static bool in_slice(const chain *c, const tir_op *op) {
  for (int i = 0; i < c->slice.n; i++)
    if (c->slice.at[i] == op) return true;
  return false;
}

/* Takes what v is computed from inside the loop into the slice; false if that cannot be computed again. */
static bool take(chain *c, const tir_value *v) {
  if (v->region == c->body && v->index > 0) c->used[v->index - 1] = true;
  if (!in_body(c, v) || in_slice(c, v->def)) return true;
  if (v->def->parent != c->body || v->def->n_regions || tir_ops[v->def->code].effect != FX_PURE) return false;
  for (int i = 0; i < v->def->n_in; i++)
    if (!take(c, tir_in(v->def, i))) return false;
  VEC_PUSH(c->a, c->slice, v->def);
  return true;
}

static bool is_zero(const tir_value *v) {
  tir_scalar s;
  return tir_known_scalar(v, &s) && s.bits == 0;
}

/* Why the tile that `last` multiplies by cannot be loaded one iteration later; NULL if it can. */
static const char *no_later_load(chain *c) {
  static const char *shared = "its second operand has other uses";
  const tir_value *b = tir_in(c->last, 1);
  if (in_body(c, b) && b->def->code == OP_buffer_trans) {
    if (b->uses->next) return shared;
    c->view = b->def;
    b = tir_in(b->def, 0);
  }
  if (!in_body(c, b) || b->def->code != OP_alloc) return "its second operand lives longer than the iteration";
  c->alloc = b->def;
  for (const tir_use *u = b->uses; u; u = u->next) {
    if (u->op == c->last || u->op == c->view) continue;
    if (u->op->code != OP_buffer_store || c->store) return shared;
    c->store = u->op;
  }
  c->load = c->store && c->store->parent == c->body ? tir_in(c->store, 0)->def : NULL;
  if (!c->load || c->load->code != OP_load || c->load->parent != c->body)
    return "its second operand is computed, not loaded";
  if (c->load->out[0]->uses->next) return shared;
  if (c->load->n_in == 3 && !is_zero(tir_in(c->load, 2))) return "the `other` of its load is not zero";
  for (int i = 0; i < c->load->n_in && i < 2; i++)
    if (!take(c, tir_in(c->load, i))) return "its address depends on what the loop loads or decides";
  return NULL;
}

static const char *refused(chain *c) {
  const char *why = not_worthwhile(c), *effect = handover_effect(c->body->first, c->body->last);
  int64_t step;
  if (why) return why;
  if (!tir_known_int(tir_in(c->loop, 2), &step)) return "the step of the loop is not known";
  if (effect) return arena_printf(c->a, "the loop has other effects (%s)", effect);
  const tir_value *acc = c->body->args[c->slot + 1];
  if (!find_scaling(c, acc)) return "its accumulator has other uses in the loop";
  const tir_value *sum = tir_in(c->last, 2);
  if (sum != acc && !(sum->def && scales(c, sum->def))) return "it does not add to what the loop carries";
  find_casts(c, tir_in(c->last, 0));
  return no_later_load(c);
}

/* ---- the change ---- */

/* One more carried value; its index among them. */
static int carry(chain *c, tir_value *init, tir_value *next) {
  tir_append_in(c->loop, init);
  tir_append_out(c->loop, init->type);
  tir_region_add_arg(c->body, init->type, c->loop->at);
  tir_append_in(c->body->last, next);
  return c->loop->n_out - 1;
}

/* The load of the tile before the one at `iv`: zeros if there is none. */
static void load_before(chain *c, tir_builder *b, tir_value *iv, tir_map *map) {
  tir_op *load = tir_clone(b, c->load, map);
  tir_builder at = tir_before(c->fn, load);
  const tir_type *t = load->out[0]->type, *mask_type = tir_with_elem(c->fn->cx, t, tir_scalar_type(c->fn->cx, DT_i1));
  tir_value *exists = tir_binary(&at, OP_ne, iv, c->first), *mask = tir_splat(&at, exists, mask_type);
  if (load->n_in > 1)
    tir_set_in(load, 1, tir_binary(&at, OP_and, tir_in(load, 1), mask));
  else
    tir_append_in(load, mask);
  tir_value *zero = tir_const_int(&at, t, 0);
  if (load->n_in == 3)
    tir_set_in(load, 2, zero);
  else
    tir_append_in(load, zero);
}

/* What every iteration adds to carried value i, if that is the same each time; else NULL. */
static tir_value *advance_of(const chain *c, int i) {
  const tir_value *arg = c->body->args[i + 1];
  const tir_op *next = tir_in(c->body->last, i)->def;
  if (!next || (next->code != OP_add && next->code != OP_addptr)) return NULL;
  int at = tir_in(next, 1) == arg;
  tir_value *by = tir_in(next, 1 - at);
  bool is_int = !tir_is_ptr(by->type) && dt_is_int(tir_dtype_of(by->type));
  if (tir_in(next, at) != arg || !is_int || in_body(c, by) || by->region == c->body) return NULL;
  return next->code == OP_add || dt_is_signed(tir_dtype_of(by->type)) ? by : NULL;
}

/* Carried value i an iteration earlier, where those of the chain are `now`. */
static tir_value *earlier(const chain *c, tir_builder *b, int i, tir_value *const *now) {
  tir_value *by = c->advance[i], *v = now[i];
  if (!by) return now[c->longer[i]];
  if (!tir_is_ptr(v->type)) return tir_binary(b, OP_sub, v, by);
  by = tir_cast(b, by, tir_scalar_type(c->fn->cx, DT_i64)); /* where its negative exists */
  return tir_binary(b, OP_addptr, v, tir_unary(b, OP_neg, by));
}

/* Issues the last product of the iteration before the one at `iv`, whose carried values are `now`. */
static tir_op *issue(chain *c, tir_builder b, tir_value *iv, tir_value *const *now) {
  tir_map map = {0};
  tir_map_set(c->fn, &map, c->body->args[0], tir_binary(&b, OP_sub, iv, tir_in(c->loop, 2)));
  for (int i = 0; i < c->n_carried; i++)
    if (c->used[i]) tir_map_set(c->fn, &map, c->body->args[i + 1], earlier(c, &b, i, now));
  for (int i = 0; i < c->slice.n; i++) tir_clone(&b, c->slice.at[i], &map);
  load_before(c, &b, iv, &map);
  tir_clone(&b, c->alloc, &map);
  tir_clone(&b, c->store, &map);
  b.at = c->last->at;
  tir_build(&b, OP_fence_async, 0, NULL, 0, NULL);
  if (c->view) tir_clone(&b, c->view, &map);
  tir_op *product = tir_clone(&b, c->last, &map);
  tir_set_in(product, 0, now[c->p_slot]);
  tir_set_in(product, 2, now[c->slot]);
  return product;
}

/* Waits at b for a product, and for all before it; what used its accumulator uses its result. */
static tir_op *wait_for(tir_builder b, tir_op *product) {
  tir_value *acc = tir_in(product, 2);
  b.at = product->at;
  tir_op *wait = tir_build(&b, OP_wgmma_wait, 1, product->out, 1, &acc->type);
  tir_set_int(wait, ATTR_pending, 0);
  tir_replace_uses(acc, wait->out[0]);
  tir_set_in(product, 2, acc);
  return wait;
}

static void rewrite(chain *c) {
  tir_builder front = tir_before(c->fn, c->loop), end = tir_before(c->fn, c->body->last);
  tir_value *iv = c->body->args[0], *p = tir_in(c->last, 0);
  const chain *before = c->before;
  tir_value **left = before ? before->loop->out : NULL, *begin = tir_in(c->loop, 0);
  /* The loop before, if it ran, began below where it ended, which is where this one begins. */
  c->first = !before           ? begin
             : c->begins_above ? tir_in(before->loop, 0)
                               : tir_binary(&front, OP_min, begin, tir_in(before->loop, 0));
  c->p_slot = carry(c, before ? left[before->p_slot] : tir_const_int(&front, p->type, 0), p);
  for (int i = 0; i < c->n_carried; i++) {
    if (c->used[i] && c->goes_on) c->advance[i] = advance_of(c, i);
    if (c->used[i] && !c->advance[i])
      c->longer[i] = carry(c, before ? earlier(before, &front, c->same[i] - 1, left) : tir_in(c->loop, i + 3),
                           c->body->args[i + 1]);
  }
  if (!c->handed_on) {
    int behind = carry(c, begin, tir_binary(&end, OP_add, iv, tir_in(c->loop, 2)));
    tir_builder after = {c->fn, c->loop->parent, c->loop->next, c->loop->at};
    wait_for(after, issue(c, after, c->loop->out[behind], c->loop->out));
  }

  tir_op *done = wait_for(end, issue(c, tir_before(c->fn, c->meet), iv, c->body->args + 1));
  tir_set_int(c->meet, ATTR_pending, 1);
  for (int i = 0; i < c->casts.n; i++) tir_move_before(c->casts.at[i], c->body->last);
  for (tir_op *op = c->body->first, *next; op != done; op = next) {
    next = op->next;
    if (scales(c, op)) tir_move_before(op, c->body->last);
  }
  tir_set_in(c->body->last, c->slot, tir_in(c->last, 2));

  tir_op *fence = c->last->prev;
  tir_remove(c->last_wait);
  tir_remove(c->last);
  if (fence->code == OP_fence_async) tir_remove(fence);
  if (c->view) tir_remove(c->view);
  tir_remove(c->store);
  tir_remove(c->load);
  tir_remove(c->alloc);
}

/* ---- all loops ---- */

typedef struct overlap {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  VEC(chain *) chains;
} overlap;

static void look_at(overlap *o, tir_op *op) {
  chain *c = ARENA_NEW(o->a, chain);
  *c = (chain){
      .fn = o->fn, .cx = o->cx, .a = o->a, .loop = op, .body = op->regions[0], .n_carried = op->n_out, .goes_on = true};
  c->leads = ARENA_ARRAY(c->a, bool, o->fn->n_values);
  c->used = ARENA_ARRAY(c->a, bool, op->n_out + 1);
  c->same = ARENA_ARRAY(c->a, int, op->n_out + 1);
  c->longer = ARENA_ARRAY(c->a, int, op->n_out + 1);
  c->advance = ARENA_ARRAY(c->a, tir_value *, op->n_out + 1);
  if (!find_last(c)) return;
  const char *why = refused(c);
  if (why)
    pass_remark(o->cx, c->last->at, "not overlapped with the next iteration: %s", why);
  else
    VEC_PUSH(o->a, o->chains, c);
}

static void find_chains(overlap *o, tir_region *r) {
  for (tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) find_chains(o, op->regions[i]);
    if (op->code == OP_for) look_at(o, op);
  }
}

/* Leaves the last product of a loop to the loop behind it where that can be. */
static void hand_over(overlap *o, const axis_facts *facts) {
  for (int i = 1; i < o->chains.n; i++) {
    chain *c = o->chains.at[i], *before = o->chains.at[i - 1];
    if (!handover_follows(c, before)) continue;
    const char *why = handover_refused(c, before, facts);
    if (why) {
      pass_remark(o->cx, before->last->at, "not overlapped with the next loop: %s", why);
      continue;
    }
    pass_remark(o->cx, before->last->at, "overlapped with the next loop");
    c->before = before;
    c->goes_on = handover_same_address(c, before);
    axis_info begin = axis_of(facts, tir_in(c->loop, 0));
    int64_t first;
    c->begins_above = begin.nonneg && tir_known_int(tir_in(before->loop, 0), &first) && first == 0;
    before->handed_on = true;
  }
}

bool pass_overlap(tir_fn *fn, const pass_cx *cx) {
  overlap o = {.fn = fn, .cx = cx, .a = arena_new()};
  find_chains(&o, fn->body);
  bool any = o.chains.n > 0;
  if (o.chains.n > 1) hand_over(&o, axis_analyse(fn, o.a));
  for (int i = 0; i < o.chains.n; i++) {
    pass_remark(cx, o.chains.at[i]->last->at, "overlapped with the next iteration");
    rewrite(o.chains.at[i]);
  }
  arena_free(o.a);
  if (any) pass_canon(fn, cx); /* what was only for the load that has moved */
  return any;
}
