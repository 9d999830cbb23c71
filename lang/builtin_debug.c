/* Hints to the compiler; printing and assertions, at compile time and at run time. */
#include "lang/builtin.h"

#include <string.h>

lang_value *builtin_hint(sema *s, const sema_call_info *c) {
  static const char *const kinds[] = {"multiple_of", "max_contiguous", "max_constancy"};
  if (!sema_is_tensor(c->arg[0]))
    return sema_is_number(c->arg[0]) ? c->arg[0] : arg_wrong(s, c, 0, "a tensor", c->arg[0]);
  tir_value *t = c->arg[0]->u.tensor;
  int n, want = t->type->rank ? t->type->rank : 1;
  int64_t values[TIR_MAX_RANK];
  if (!arg_shape(s, c, 1, &n, values)) return s->unit->poison;
  if (n != want)
    return sema_fail(s, c->place[1], &D_hint_count, c->builtin->name, want, tir_type_text(s->a, t->type), n);
  for (int i = 0; i < n; i++)
    if (values[i] < 1) return sema_fail(s, c->place[1], &D_hint_value, c->builtin->name, (long long)values[i]);
  return sema_tensor(s, sema_hint(s, kinds[c->builtin->data], t, n, values));
}

lang_value *builtin_assume(sema *s, const sema_call_info *c) {
  lang_value *v = sema_condition(s, c->place[0], c->arg[0], "assume");
  if (sema_is_poison(v)) return v;
  if (v->kind == LANG_BOOL) return v->u.b ? s->unit->none : sema_fail(s, c->place[0], &D_assume_false);
  sema_count(s, 1);
  tir_build(&s->b, OP_assume, 1, &v->u.tensor, 0, NULL);
  return s->unit->none;
}

lang_value *builtin_barrier(sema *s, const sema_call_info *c) {
  (void)c;
  sema_count(s, 1);
  tir_build(&s->b, OP_debug_barrier, 0, NULL, 0, NULL);
  return s->unit->none;
}

/* ---- at run time ------------------------------------------------------------------------------------------------- */

static lang_value *print_op(sema *s, span at, const char *prefix, lang_value *args, bool hex) {
  enum { MAX_OPERANDS = 32 }; /* what the device's printf takes */
  sema_tensors in = {0};
  if (args->u.items.n > MAX_OPERANDS) return sema_fail(s, at, &D_print_operands, MAX_OPERANDS);
  for (int i = 0; i < args->u.items.n; i++) {
    lang_value *v = sema_lift(s, at, args->u.items.at[i]);
    if (sema_is_poison(v)) return v;
    VEC_PUSH(s->a, in, v->u.tensor);
  }
  for (const char *p = prefix; *p; p++)
    if ((unsigned char)*p < 32 || (unsigned char)*p > 126) return sema_fail(s, at, &D_print_prefix, prefix);
  sema_count(s, 1);
  tir_op *op = tir_build(&s->b, OP_print, in.n, in.at, 0, NULL);
  tir_set_str(op, ATTR_message, prefix);
  if (hex) tir_set_int(op, ATTR_hex, 1);
  return s->unit->none;
}

lang_value *builtin_device_print(sema *s, const sema_call_info *c) {
  const char *prefix;
  bool hex;
  if (c->arg[0]->kind != LANG_STR) return arg_wrong(s, c, 0, "a string", c->arg[0]);
  if (!arg_str(s, c, 0, "", &prefix) || !arg_bool(s, c, 2, false, &hex)) return s->unit->poison;
  return print_op(s, c->at, prefix, c->arg[1], hex);
}

/* Python's print in a kernel: device_print with the leading string, if there is one, as prefix. */
lang_value *builtin_print(sema *s, const sema_call_info *c) {
  const lang_value *v = c->arg[0];
  bool has_prefix = v->u.items.n && v->u.items.at[0]->kind == LANG_STR;
  lang_value *rest = has_prefix ? sema_tuple(s, v->u.items.at + 1, v->u.items.n - 1) : c->arg[0];
  return print_op(s, c->at, has_prefix ? v->u.items.at[0]->u.str.s : "", rest, false);
}

lang_value *builtin_device_assert(sema *s, const sema_call_info *c) {
  const char *message;
  if (!arg_str(s, c, 1, "", &message)) return s->unit->poison;
  tir_value *cond = arg_tensor(s, c, 0), *mask = NULL;
  if (!cond) return s->unit->poison;
  if (arg_given(c, 2) && !(mask = arg_tensor(s, c, 2))) return s->unit->poison;
  if (!s->opt->debug) return s->unit->none;
  tir_value *in[2] = {cond, mask};
  for (int i = 0; i < (mask ? 2 : 1); i++) {
    lang_value *v =
        sema_cast_checked(s, c->place[i * 2], sema_tensor(s, in[i]), tir_scalar_type(s->cx, DT_i1), NULL, false);
    if (sema_is_poison(v)) return v;
    in[i] = v->u.tensor;
  }
  if (mask && !sema_broadcast(s, c->at, 2, in)) return s->unit->poison;
  sema_count(s, 1);
  tir_op *op = tir_build(&s->b, OP_assert, mask ? 2 : 1, in, 0, NULL);
  tir_set_str(op, ATTR_message, message);
  return s->unit->none;
}

/* ---- at compile time --------------------------------------------------------------------------------------------- */

lang_value *builtin_static_print(sema *s, const sema_call_info *c) {
  const char *sep, *end;
  if (!arg_str(s, c, 1, " ", &sep) || !arg_str(s, c, 2, "\n", &end)) return s->unit->poison;
  textbuf b;
  text_init(&b, s->a);
  for (int i = 0; i < c->arg[0]->u.items.n; i++) {
    lang_value *v = c->arg[0]->u.items.at[i], *known = sema_known(s, v);
    if (i) text_str(&b, sep);
    value_print(&b, known ? known : v, false);
  }
  text_str(&b, end);
  sema_charge(s, b.n / 64);
  if (s->opt && s->opt->print) s->opt->print(s->opt->user, b.at, b.n);
  return s->unit->none;
}

lang_value *builtin_static_assert(sema *s, const sema_call_info *c) {
  const lang_value *known = sema_is_tensor(c->arg[0]) ? sema_known(s, c->arg[0]) : c->arg[0];
  bool truth;
  if (!known || !const_truth(known, &truth)) {
    diag *d = sema_report(s, c->place[0], &D_static_assert_unknown, value_describe(s->a, c->arg[0]));
    diag_fix(d, sema_place(s, c->place[0]), "for values of the running kernel there is device_assert");
    return s->unit->poison;
  }
  if (truth) return s->unit->none;
  textbuf b;
  text_init(&b, s->a);
  if (arg_given(c, 1)) value_print(&b, c->arg[1], false);
  return sema_fail(s, c->at, &D_static_assert_failed, b.n ? ": " : "", b.n ? b.at : "");
}
