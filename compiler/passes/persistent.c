/* persistent: see persistent.h.
 *
 *   kernel(..):                  %first = program_id {axis = 0}
 *     body                       while (%n = %first):
 *     return                       test: %n >= 0
 *                                  body, with program_id and num_programs of %n
 *                                  %next = next_program
 *                                  yield %next
 *                                return
 *
 * So what a program begins with, the copies of its first tiles, overlaps what the one before it ends with, and
 * multiprocessors share what is left at the end evenly, whatever each program has to do. A launch starts as many blocks
 * as fit on the device and counts programs in memory (runtime/device.h); one that starts a block for each program has
 * next_program answer -1.
 *
 * Programs of a grid are independent but for what they do to memory: a program that waits for another one may need it
 * to run at the same time, so kernels with atomics or volatile loads are left alone. */
#include "compiler/passes/persistent.h"

const char *persistent_refused(const tir_fn *fn) {
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (tir_ops[op->code].effect == FX_RMW) return "it has atomics";
    if (op->code == OP_print || op->code == OP_assert) return "it prints or asserts";
    if (op->code == OP_debug_barrier) return "it has a barrier";
    if (op->code == OP_return && op->parent != fn->body) return "it may end early";
    if (op->code == OP_load && tir_attr_int(op, ATTR_is_volatile, 0)) return "it has volatile loads";
  }
  return NULL;
}

tir_op *persistent_wrap(tir_fn *fn, tir_op *from) {
  const tir_type *i32 = tir_scalar_type(fn->cx, DT_i32);
  tir_builder b = tir_before(fn, fn->body->last);
  b.at = fn->at;
  tir_value *first = tir_build1(&b, OP_program_id, 0, NULL, i32);
  tir_set_int(first->def, ATTR_axis, 0);
  tir_op *loop = tir_build(&b, OP_while, 1, &first, 1, &i32);
  tir_set_int(loop, ATTR_no_licm, 1); /* once per program is often enough */

  tir_builder test = tir_at_end(fn, loop->regions[0]);
  test.at = fn->at;
  tir_value *n = tir_region_add_arg(loop->regions[0], i32, fn->at);
  tir_value *goes_on[] = {tir_binary(&test, OP_ge, n, tir_const_int(&test, i32, 0)), n};
  tir_build(&test, OP_condition, 2, goes_on, 0, NULL);

  tir_builder in = tir_at_end(fn, loop->regions[1]);
  in.at = fn->at;
  n = tir_region_add_arg(loop->regions[1], i32, fn->at);
  tir_value *next = tir_build1(&in, OP_next_program, 0, NULL, i32);
  tir_build(&in, OP_yield, 1, &next, 0, NULL);
  for (tir_op *op = from, *following; op != first->def; op = following) {
    following = op->next;
    tir_move_before(op, next->def);
  }
  for (tir_op *op = tir_first(fn); op; op = tir_next(op))
    if ((op->code == OP_program_id || op->code == OP_num_programs) && op != first->def) tir_append_in(op, n);
  return first->def;
}

/* A ring whose tiles are all loaded once in a program has one stage. */
static void shorten_ring(tir_fn *fn, tir_op *alloc, const tir_region *once) {
  const tir_type *t = alloc->out[0]->type;
  for (const tir_use *u = alloc->out[0]->uses; u; u = u->next)
    if (u->op->code == OP_tma_load && u->op->parent != once) return;
  tir_builder b = tir_before(fn, alloc);
  const tir_type *one = tir_buffer_type(fn->cx, t->elem, t->rank, t->shape, t->shared, 1);
  tir_op *shorter = tir_build(&b, OP_alloc, 0, NULL, 1, &one);
  tir_set_int(shorter, ATTR_managed, 1);
  tir_set_int(shorter, ATTR_ring, 1);
  tir_replace_uses(alloc->out[0], shorter->out[0]);
  tir_remove(alloc);
}

void persistent_unwrap(tir_fn *fn) {
  tir_op *loop = fn->body->first;
  while (!tir_next_program(loop)) loop = loop->next;
  tir_region *body = loop->regions[1];
  for (tir_op *op = fn->body->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_alloc && tir_attr_int(op, ATTR_ring, 0)) shorten_ring(fn, op, body);
  }
  for (tir_op *op = tir_first(fn); op; op = tir_next(op))
    if ((op->code == OP_program_id || op->code == OP_num_programs) && op->n_in) tir_drop_in(op, 0);
  for (tir_op *op = body->first, *next; op->code != OP_next_program; op = next) {
    next = op->next;
    tir_move_before(op, loop);
  }
  tir_op *first = tir_in(loop, 0)->def;
  tir_remove(loop);
  if (!tir_has_uses(first->out[0])) tir_remove(first);
}
