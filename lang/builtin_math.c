/* Builtins of elementwise arithmetic. */
#include "lang/builtin.h"

#include <string.h>

static bool is_half(tir_dtype d) { return d == DT_f16 || d == DT_bf16; }

static tir_value *number_arg(sema *s, const sema_call_info *c, int i) {
  tir_value *t = arg_tensor(s, c, i);
  if (t && tir_is_ptr(t->type)) {
    arg_wrong(s, c, i, "a number", c->arg[i]);
    return NULL;
  }
  return t;
}

/* ---- one operand ------------------------------------------------------------------------------------------------- */

/* Of f32 and f64; f16 and bf16 are computed in f32 and rounded back (Triton refuses them). NULL: reported. */
static tir_value *unary_math(sema *s, const sema_call_info *c, tir_opcode op, bool approx) {
  tir_value *t = number_arg(s, c, 0);
  if (!t) return NULL;
  tir_dtype d = tir_dtype_of(t->type);
  if (!(d == DT_f32 || d == DT_f64 || is_half(d))) {
    diag *e = sema_report(s, c->place[0], &D_math_dtype, c->builtin->name, tir_type_text(s->a, t->type));
    diag_fix(e, sema_place(s, c->place[0]), "convert it: x.to(f32)");
    return NULL;
  }
  tir_value *r = sema_emit1(s, op, is_half(d) ? sema_cast(s, t, DT_f32) : t);
  if (approx && tir_dtype_of(r->type) == DT_f32) tir_set_int(r->def, ATTR_approx, 1);
  return sema_cast(s, r, d);
}

lang_value *builtin_unary(sema *s, const sema_call_info *c) {
  tir_value *r = unary_math(s, c, (tir_opcode)c->builtin->data, c->builtin->data == OP_sqrt);
  return r ? sema_tensor(s, r) : s->unit->poison;
}

lang_value *builtin_sqrt_rn(sema *s, const sema_call_info *c) {
  tir_value *r = unary_math(s, c, OP_sqrt, false);
  return r ? sema_tensor(s, r) : s->unit->poison;
}

lang_value *builtin_abs(sema *s, const sema_call_info *c) {
  if (sema_is_number(c->arg[0])) {
    lang_value *v = c->arg[0], *zero = sema_int(s, 0), *less = const_compare(s, c->at, AOP_LT, v, zero);
    return const_unary(s, c->at, less->u.b ? AOP_NEG : AOP_POS, v);
  }
  tir_value *t = number_arg(s, c, 0);
  if (!t) return s->unit->poison;
  tir_dtype d = tir_dtype_of(t->type);
  return dt_is_float(d) || dt_is_signed(d) ? sema_tensor(s, sema_emit1(s, OP_abs, t)) : sema_tensor(s, t);
}

/* ---- two and three operands -------------------------------------------------------------------------------------- */

/* Numbers take their own type first, bf16 becomes f32: the rule of minimum, maximum and clamp. */
static lang_value *strong(sema *s, const sema_call_info *c, int i, bool widen_bf16) {
  tir_value *t = number_arg(s, c, i);
  if (!t) return NULL;
  return sema_tensor(s, widen_bf16 && tir_dtype_of(t->type) == DT_bf16 ? sema_cast(s, t, DT_f32) : t);
}

static bool nan_wins(sema *s, const sema_call_info *c, int i, bool *out) {
  const char *mode;
  if (!arg_str(s, c, i, "NONE", &mode)) return false;
  *out = strcmp(mode, "ALL") == 0;
  if (*out || strcmp(mode, "NONE") == 0) return true;
  arg_wrong(s, c, i, "PropagateNan.NONE or PropagateNan.ALL", c->arg[i]);
  return false;
}

static tir_value *pick(sema *s, bool is_max, bool nan, tir_value *x, tir_value *y) {
  bool floats = dt_is_float(tir_dtype_of(x->type));
  return sema_emit2(s, nan && floats ? (is_max ? OP_max_nan : OP_min_nan) : is_max ? OP_max : OP_min, x, y);
}

lang_value *builtin_minmax(sema *s, const sema_call_info *c) {
  bool nan;
  if (!nan_wins(s, c, 2, &nan)) return s->unit->poison;
  lang_value *x = strong(s, c, 0, true), *y = strong(s, c, 1, true);
  tir_value *tx, *ty;
  if (!x || !y || !sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, x, y, &tx, &ty)) return s->unit->poison;
  return sema_tensor(s, pick(s, c->builtin->data != 0, nan, tx, ty));
}

lang_value *builtin_clamp(sema *s, const sema_call_info *c) {
  bool nan;
  if (!nan_wins(s, c, 3, &nan)) return s->unit->poison;
  lang_value *v[3];
  for (int i = 0; i < 3; i++)
    if (!(v[i] = strong(s, c, i, true))) return s->unit->poison;
  tir_value *x, *low, *high, *again;
  if (!sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, v[0], v[1], &x, &low) ||
      !sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, sema_tensor(s, x), v[2], &x, &high) ||
      !sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, sema_tensor(s, x), sema_tensor(s, low), &again, &low))
    return s->unit->poison;
  return sema_tensor(s, pick(s, false, nan, pick(s, true, nan, again, low), high));
}

lang_value *builtin_fma(sema *s, const sema_call_info *c) {
  lang_value *v[3];
  for (int i = 0; i < 3; i++)
    if (!(v[i] = strong(s, c, i, false))) return s->unit->poison;
  tir_value *t[3];
  if (!sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, v[0], v[1], &t[0], &t[1]) ||
      !sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, sema_tensor(s, t[0]), v[2], &t[0], &t[2]) ||
      !sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, sema_tensor(s, t[0]), sema_tensor(s, t[1]), &t[0], &t[1]))
    return s->unit->poison;
  if (!dt_is_float(tir_dtype_of(t[0]->type)))
    return sema_fail(s, c->at, &D_needs_floats, "fma", tir_type_text(s->a, t[0]->type));
  return sema_tensor(s, sema_emit(s, OP_fma, 3, t, NULL));
}

/* fdiv and div_rn: quotients of floats; f32 correctly rounded if so asked. */
lang_value *builtin_fdiv(sema *s, const sema_call_info *c) {
  bool exact = true;
  if (c->builtin->data && !arg_bool(s, c, 2, false, &exact)) return s->unit->poison;
  lang_value *x = strong(s, c, 0, false), *y = strong(s, c, 1, false);
  tir_value *tx, *ty;
  if (!x || !y || !sema_unify(s, c->at, AOP_DIV, PROMOTE_DIV, x, y, &tx, &ty)) return s->unit->poison;
  if (!dt_is_float(tir_dtype_of(tx->type)))
    return sema_fail(s, c->at, &D_needs_floats, c->builtin->name, tir_type_text(s->a, tx->type));
  tir_value *r = sema_emit2(s, OP_div, tx, ty);
  if (!exact && tir_dtype_of(r->type) == DT_f32) tir_set_int(r->def, ATTR_approx, 1);
  return sema_tensor(s, r);
}

lang_value *builtin_umulhi(sema *s, const sema_call_info *c) {
  lang_value *x = strong(s, c, 0, false), *y = strong(s, c, 1, false);
  tir_value *tx, *ty;
  if (!x || !y || !sema_unify(s, c->at, AOP_MUL, PROMOTE_ARITH, x, y, &tx, &ty)) return s->unit->poison;
  tir_dtype d = tir_dtype_of(tx->type);
  if (dt_is_float(d) || tir_dtypes[d].bits < 32)
    return sema_fail(s, c->at, &D_umulhi_dtype, tir_type_text(s->a, tx->type));
  return sema_tensor(s, sema_emit2(s, OP_umulhi, tx, ty));
}

lang_value *builtin_logical(sema *s, const sema_call_info *c) {
  return sema_logical(s, c->at, c->builtin->data != 0, c->arg[0], c->arg[1]);
}
