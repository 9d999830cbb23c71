/* Type rules: what type an op's result has, for operand types. The builder derives types with them and the verifier
 * compares against them, so a rule is written once. Ops whose result needs attributes (reshape, reduce, ..) are not
 * here: their types are given, and verify_ops.c checks them. */
#include "compiler/ir/internal.h"

typedef enum elem_class { EC_ANY, EC_NUMBER, EC_INT, EC_FLOAT, EC_F32_F64, EC_WORD } elem_class;

static elem_class class_of(tir_opcode code) {
  switch (code) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_rem:
    case OP_neg:
    case OP_abs:
    case OP_min:
    case OP_max:
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
    case OP_dot: return EC_NUMBER;
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_shl:
    case OP_shr: return EC_INT;
    case OP_min_nan:
    case OP_max_nan:
    case OP_fma: return EC_FLOAT;
    case OP_floor:
    case OP_ceil:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_exp:
    case OP_exp2:
    case OP_log:
    case OP_log2:
    case OP_sin:
    case OP_cos:
    case OP_erf:
    case OP_tanh: return EC_F32_F64;
    case OP_umulhi: return EC_WORD;
    default: return EC_ANY;
  }
}

const char *tir_wrong_elem(tir_opcode code, const tir_type *elem) {
  tir_dtype d = elem->dtype;
  bool ptr = elem->kind == TY_PTR;
  switch (class_of(code)) {
    case EC_ANY: return NULL;
    case EC_NUMBER: return ptr ? "numbers" : NULL;
    case EC_INT: return ptr || dt_is_float(d) ? "integers" : NULL;
    case EC_FLOAT: return ptr || !dt_is_float(d) ? "floats" : NULL;
    case EC_F32_F64: return ptr || (d != DT_f32 && d != DT_f64) ? "f32 or f64" : NULL;
    case EC_WORD: return ptr || dt_is_float(d) || tir_dtypes[d].bits < 32 ? "32-bit or 64-bit integers" : NULL;
  }
  return NULL;
}

static const char *text(tir_cx *cx, const tir_type *t) {
  textbuf b;
  text_init(&b, cx->a);
  tir_type_print(t, true, &b);
  return b.at;
}

static const tir_type *bool_like(tir_cx *cx, const tir_type *t) {
  return tir_with_elem(cx, t, tir_scalar_type(cx, DT_i1));
}

static bool all_same(tir_cx *cx, int n, const tir_type *const *in, const char **why) {
  for (int i = 1; i < n; i++) {
    if (in[i] == in[0]) continue;
    *why = arena_printf(cx->a, "operands differ in type: %s and %s", text(cx, in[0]), text(cx, in[i]));
    return false;
  }
  return true;
}

static const tir_type *infer_load(tir_cx *cx, int n_in, const tir_type *const *in, bool value_first, const char **why) {
  const tir_type *ptr = n_in ? tir_elem(in[0]) : NULL;
  if (!ptr || ptr->kind != TY_PTR) {
    *why = n_in ? arena_printf(cx->a, "operand 0 must be a pointer, not %s", text(cx, in[0])) : "no operands";
    return NULL;
  }
  const tir_type *result = tir_with_elem(cx, in[0], ptr->elem);
  int mask = value_first ? 2 : 1;
  for (int i = 1; i < n_in; i++) {
    const tir_type *want = i == mask ? bool_like(cx, in[0]) : result;
    if (in[i] == want) continue;
    *why = arena_printf(cx->a, "operand %d must be %s, not %s", i, text(cx, want), text(cx, in[i]));
    return NULL;
  }
  return result;
}

static const tir_type *infer_join(tir_cx *cx, const tir_type *const *in, const char **why) {
  if (!all_same(cx, 2, in, why)) return NULL;
  const tir_type *t = in[0];
  int64_t shape[TIR_MAX_RANK + 1];
  for (int i = 0; i < t->rank; i++) shape[i] = t->shape[i];
  shape[t->rank] = 2;
  if ((*why = tir_shape_problem(cx, t->rank + 1, shape))) return NULL;
  const lay_t *layout = t->layout ? lay_join(cx->layouts, t->layout) : NULL;
  return tir_tile_type(cx, tir_elem(t), t->rank + 1, shape, layout);
}

static const tir_type *infer_split(tir_cx *cx, const tir_type *t, const char **why) {
  if (t->rank < 1 || t->shape[t->rank - 1] != 2) {
    *why = arena_printf(cx->a, "the last axis of %s must have extent 2", text(cx, t));
    return NULL;
  }
  if (t->rank == 1) return t->elem;
  const lay_t *layout = NULL;
  if (t->layout && !(layout = lay_split(cx->layouts, t->layout))) {
    *why = arena_printf(cx->a, "the last axis of %s is not in one register bit", text(cx, t));
    return NULL;
  }
  return tir_tile_type(cx, t->elem, t->rank - 1, t->shape, layout);
}

const tir_type *tir_infer_type(tir_cx *cx, tir_opcode code, int n_in, const tir_type *const *in, const char **why) {
  const tir_op_info *info = &tir_ops[code];
  *why = NULL;
  if (info->n_in != TIR_ANY && info->n_in != n_in) {
    *why = arena_printf(cx->a, "%s takes %d operands, not %d", info->name, info->n_in, n_in);
    return NULL;
  }
  switch (info->rule) {
    case RULE_SAME:
    case RULE_CMP: {
      const char *wanted = tir_wrong_elem(code, tir_elem(in[0]));
      if (wanted) {
        *why = arena_printf(cx->a, "%s takes %s, not %s", info->name, wanted, text(cx, in[0]));
        return NULL;
      }
      if (code == OP_dot) return in[2];
      if (!all_same(cx, n_in, in, why)) return NULL;
      return info->rule == RULE_CMP ? bool_like(cx, in[0]) : in[0];
    }
    case RULE_SELECT:
      if (!all_same(cx, 2, in + 1, why)) return NULL;
      if (in[0] == bool_like(cx, in[1])) return in[1];
      *why = arena_printf(cx->a, "the condition must be %s, not %s", text(cx, bool_like(cx, in[1])), text(cx, in[0]));
      return NULL;
    case RULE_ADDPTR:
      if (!tir_is_ptr(in[0])) {
        *why = arena_printf(cx->a, "operand 0 must be a pointer, not %s", text(cx, in[0]));
      } else if (tir_is_ptr(in[1]) || dt_is_float(tir_dtype_of(in[1]))) {
        *why = arena_printf(cx->a, "the offset must be an integer, not %s", text(cx, in[1]));
      } else if (tir_with_elem(cx, in[0], tir_elem(in[1])) != in[1]) {
        *why = arena_printf(cx->a, "pointer and offset differ in shape or layout: %s and %s", text(cx, in[0]),
                            text(cx, in[1]));
      } else {
        return in[0];
      }
      return NULL;
    default: break;
  }
  switch (code) {
    case OP_program_id:
    case OP_next_program:
    case OP_num_programs: return tir_scalar_type(cx, DT_i32);
    case OP_load: return infer_load(cx, n_in, in, false, why);
    case OP_atomic_rmw: return infer_load(cx, n_in, in, true, why);
    case OP_join: return infer_join(cx, in, why);
    case OP_split: return infer_split(cx, in[0], why);
    case OP_unsplat:
      if (tir_is_tile(in[0]) && in[0]->numel == 1) return in[0]->elem;
      *why = arena_printf(cx->a, "unsplat takes a tile of one element, not %s", text(cx, in[0]));
      return NULL;
    default: *why = arena_printf(cx->a, "the result type of %s is given, not derived", info->name); return NULL;
  }
}
