/* widths: how many consecutive elements each access of global memory moves at once (attributes vec and axis), and which
 * index arithmetic cannot wrap (nowrap), so that the emitter may fold constants into 64-bit addresses; which integers
 * that become floats are small, so that it need not ask the slow converters.
 *
 * The facts are those of the final IR: layouts are assigned and hints still stand. Afterwards hints and assumptions
 * have served and go; their operands become dead with them. What hints say of parameters is kept with those: whoever
 * makes tensor maps of them, which launches check, may try. */
#include "compiler/analysis/analysis.h"
#include "compiler/passes/passes.h"

#include <string.h>

static void access_width(const pass_cx *cx, const axis_facts *facts, tir_op *op) {
  tir_value *p = tir_in(op, 0);
  if (!tir_is_tile(p->type)) return;
  int order[TIR_MAX_RANK], mask_at = op->code == OP_load ? 1 : 2;
  axis_order(facts, p, order);
  const tir_value *mask = op->n_in > mask_at ? tir_in(op, mask_at) : NULL;
  int vec = axis_vector(facts, p, mask, order[0]), held = lay_vec_len(p->type->layout, order[0]);
  if (vec > held) vec = held;
  tir_set_int(op, ATTR_axis, order[0]);
  tir_set_int(op, ATTR_vec, vec);
  if (!cx->remarks || op->code == OP_atomic_rmw) return;
  const tir_type *to = tir_elem(p->type)->elem;
  int bytes = vec * (to->kind == TY_PTR ? 8 : tir_dtypes[to->dtype].bytes);
  const char *why = axis_vector_why(facts, p, mask, order[0], held, cx->remarks->a);
  if (why)
    pass_remark(cx, op->at, "%d " PASS_REMARK_WIDTH ": %s", bytes, why);
  else
    pass_remark(cx, op->at, "%d " PASS_REMARK_WIDTH, bytes);
}

/* multiple_of a scalar that is a parameter. */
static void keep_promise(tir_fn *fn, const tir_op *hint) {
  const tir_value *v = tir_in(hint, 0);
  const tir_attr *values = tir_attr_of(hint, ATTR_values);
  if (tir_is_tile(v->type) || strcmp(tir_attr_str(hint, ATTR_kind, ""), "multiple_of") != 0) return;
  while (v->def && (v->def->code == OP_cast || v->def->code == OP_hint)) v = tir_in(v->def, 0);
  for (int i = 0; i < fn->n_params; i++)
    if (fn->params[i].value == v && values->ints[0] > fn->params[i].promised && values->ints[0] <= INT32_MAX)
      fn->params[i].promised = (int)values->ints[0];
}

/* Whether a tile of integers becomes floats that are exact in any type but f8: bf16 has eight bits. */
static bool is_small(const axis_facts *facts, const tir_op *op) {
  const tir_value *x = tir_in(op, 0), *out = op->out[0];
  if (!tir_is_tile(out->type) || tir_is_ptr(x->type) || tir_is_ptr(out->type)) return false;
  if (!dt_is_int(tir_dtype_of(x->type)) || !dt_is_float(tir_dtype_of(out->type))) return false;
  axis_info i = axis_of(facts, x);
  return i.lo >= -256 && i.hi <= 255;
}

bool pass_widths(tir_fn *fn, const pass_cx *cx) {
  arena *a = arena_new();
  axis_facts *facts = axis_analyse(fn, a);
  for (tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code == OP_load || op->code == OP_store || op->code == OP_atomic_rmw || op->code == OP_copy_async)
      access_width(cx, facts, op);
    if (axis_no_wrap(facts, op)) tir_set_int(op, ATTR_nowrap, 1);
    if (op->code == OP_cast && is_small(facts, op)) tir_set_int(op, ATTR_small, 1);
  }
  for (tir_op *op = tir_first(fn), *next; op; op = next) {
    next = tir_next(op);
    if (op->code == OP_hint) keep_promise(fn, op), tir_replace_uses(op->out[0], tir_in(op, 0));
    if (op->code == OP_hint || op->code == OP_assume) tir_remove(op);
  }
  arena_free(a);
  return true;
}
