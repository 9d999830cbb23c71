/* Python's own builtins, on compile-time values, and ranges. */
#include "lang/builtin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* items: start, stop, step, is static, then the options of tl.range in the order of its parameters (None: not given) */
lang_value *builtin_range(sema *s, const sema_call_info *c) {
  enum { N = 10, OPTIONS = 3 };
  bool is_static = c->builtin->data != 0;
  lang_value *items[N];
  bool one = !c->arg[1] || c->arg[1]->kind == LANG_NONE;
  items[0] = one ? sema_int(s, 0) : c->arg[0];
  items[1] = one ? c->arg[0] : c->arg[1];
  items[2] = arg_given(c, 2) ? c->arg[2] : sema_int(s, 1);
  items[3] = sema_bool(s, is_static);
  for (int i = 0; i < 3; i++) {
    if (!is_static && (sema_is_tensor(items[i]) || (sema_is_number(items[i]) && items[i]->kind != LANG_FLOAT)))
      continue;
    lang_value *known = sema_known(s, items[i]);
    if (!known || known->kind == LANG_FLOAT) {
      static const char *const part[] = {"start", "stop", "step"};
      if (is_static)
        return sema_fail(s, c->place[one ? 0 : i], &D_static_range_bound, part[i], value_describe(s->a, items[i]));
      return sema_fail(s, c->place[one ? 0 : i], &D_range_bound, value_describe(s->a, items[i]));
    }
    items[i] = known;
  }
  for (int i = 4; i < N; i++) {
    items[i] = s->unit->none;
    int p = OPTIONS + i - 4;
    if (is_static || !arg_given(c, p)) continue;
    int64_t v;
    if (!arg_int(s, c, p, NULL, &v)) return s->unit->poison;
    if (v < 0 || v > 1024) return arg_wrong(s, c, p, "a small number", c->arg[p]);
    items[i] = c->arg[p]->kind == LANG_BOOL ? c->arg[p] : sema_int(s, v);
  }
  lang_value *r = value_new(s->a, LANG_RANGE);
  r->u.items.at = arena_copy(s->a, items, sizeof items);
  r->u.items.n = N;
  return r;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

lang_value *builtin_next_power_of_2(sema *s, const sema_call_info *c) {
  int64_t n, p = 1;
  if (!arg_int(s, c, 0, NULL, &n)) return s->unit->poison;
  if (n > INT64_MAX / 2) return arg_wrong(s, c, 0, "a smaller number", c->arg[0]);
  while (p < n) p *= 2;
  return sema_int(s, n <= 0 ? 0 : p);
}

/* max(tile, 0) is the reduction to whoever leaves out the `tl.`, and Python's elementwise max to others. A Triton
   function means the latter; in tkc's own surface it is not guessed. */
static bool may_be_axis(const sema *s, const lang_value *x, const lang_value *y) {
  if (x->kind != LANG_TENSOR || y->kind != LANG_INT || !s->frame->def || sema_decorator(s->frame->def, "jit"))
    return false;
  const tir_type *t = x->u.tensor->type;
  return t->kind == TY_TILE && y->u.i >= -t->rank && y->u.i < t->rank;
}

/* max(a, b, ..) and min: numbers by Python's rules, tensors element by element. With one argument: the reduction. */
lang_value *builtin_python_minmax(sema *s, const sema_call_info *c) {
  const char *name = c->builtin->name;
  bool is_max = c->builtin->data != 0;
  lang_value *values = c->arg[0];
  int n = values->u.items.n;
  if (n == 1 && values->u.items.at[0]->kind == LANG_TUPLE) values = values->u.items.at[0], n = values->u.items.n;
  if (n == 0) return sema_fail(s, c->at, &D_missing_arg, name, "values");
  bool keywords = c->arg[1] || c->arg[2] || c->arg[3] || c->arg[4];
  if (n == 1 || keywords) {
    static const char *const keys[] = {"axis", "return_indices", "return_indices_tie_break_left", "keep_dims"};
    if (n > 2 || (n == 2 && c->arg[1])) return sema_fail(s, c->at, &D_too_many_args, name, 2);
    sema_args args = {0};
    for (int i = 0; i < n; i++) {
      VEC_PUSH(s->a, args.at, values->u.items.at[i]);
      VEC_PUSH(s->a, args.place, c->at);
      VEC_PUSH(s->a, args.key, NULL);
    }
    for (int i = 1; i <= 4; i++)
      if (c->arg[i]) {
        VEC_PUSH(s->a, args.at, c->arg[i]);
        VEC_PUSH(s->a, args.place, c->place[i]);
        VEC_PUSH(s->a, args.key, strtab_str(s->cx->names, keys[i - 1]));
      }
    return sema_call(s, c->at, sema_std_function(s->unit, name), &args);
  }
  lang_value *best = values->u.items.at[0];
  if (n == 2 && may_be_axis(s, best, values->u.items.at[1])) {
    const char *number = lang_value_text(s->a, values->u.items.at[1]);
    diag *d = sema_report(s, c->at, &D_axis_or_number, name, number, value_describe(s->a, best));
    diag_fix(d, sema_place(s, c->at), "write %s(x, axis=%s), or %simum(x, %s) for each element", name, number, name,
             number);
    return s->unit->poison;
  }
  const sema_builtin *elementwise = builtin_named(s->unit, is_max ? "maximum" : "minimum");
  lang_value f = {.kind = LANG_BUILTIN, .u.builtin = elementwise};
  for (int i = 1; i < n && !sema_is_poison(best); i++) {
    lang_value *v = values->u.items.at[i];
    if (sema_is_number(best) && sema_is_number(v)) {
      lang_value *less = const_compare(s, c->at, is_max ? AOP_GT : AOP_LT, v, best);
      if (less->kind == LANG_BOOL && less->u.b) best = v;
    } else {
      best = sema_call_values(s, c->at, &f, 2, (lang_value *[]){best, v});
    }
  }
  return best;
}

lang_value *builtin_len(sema *s, const sema_call_info *c) {
  const lang_value *v = c->arg[0];
  if (v->kind == LANG_STR) return sema_int(s, (lang_int)v->u.str.len);
  if (v->kind == LANG_TUPLE) return sema_int(s, v->u.items.n);
  if (v->kind == LANG_TENSOR && v->u.tensor->type->kind == TY_TILE) return sema_int(s, v->u.tensor->type->shape[0]);
  return arg_wrong(s, c, 0, "a tuple, a string or a tile", v);
}

static lang_value *parse_float(sema *s, const sema_call_info *c, const char *text) {
  static const struct {
    const char *text;
    double value;
  } special[] = {{"inf", HUGE_VAL},      {"+inf", HUGE_VAL},       {"-inf", -HUGE_VAL},
                 {"infinity", HUGE_VAL}, {"-infinity", -HUGE_VAL}, {"nan", (double)NAN}};
  char low[64];
  size_t n = 0;
  for (const char *p = text; *p && n < sizeof low - 1; p++)
    if (*p != ' ') low[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
  low[n] = '\0';
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    if (strcmp(special[i].text, low) == 0) return sema_float(s, special[i].value);
  char *end;
  double v = strtod(low, &end);
  bool ok = n > 0 && n < sizeof low - 1 && *end == '\0' && strspn(low, "0123456789+-.e") == n;
  return ok ? sema_float(s, v) : arg_wrong(s, c, 0, "a number", c->arg[0]);
}

lang_value *builtin_convert(sema *s, const sema_call_info *c) {
  lang_value *v = c->arg[0], *known = sema_known(s, v);
  lang_kind to = (lang_kind)c->builtin->data;
  bool truth;
  if (value_has_tensor(v) && !known) {
    diag *d = sema_report(s, c->place[0], &D_needs_constexpr, c->builtin->name, value_describe(s->a, v));
    if (to != LANG_STR)
      diag_fix(d, sema_place(s, c->place[0]), "convert a tensor with x.to(%s)",
               to == LANG_INT     ? "i32"
               : to == LANG_FLOAT ? "f32"
                                  : "i1");
    return s->unit->poison;
  }
  if (known) v = known;
  if (to == LANG_STR) {
    textbuf b;
    text_init(&b, s->a);
    value_print(&b, v, false);
    return sema_str(s, b.n ? b.at : "", b.n);
  }
  if (to == LANG_BOOL && const_truth(v, &truth)) return sema_bool(s, truth);
  if (to == LANG_FLOAT && v->kind == LANG_STR) return parse_float(s, c, v->u.str.s);
  if (!sema_is_number(v)) return arg_wrong(s, c, 0, "a number", v);
  if (to == LANG_FLOAT)
    return v->kind == LANG_FLOAT ? v : sema_float(s, v->kind == LANG_BOOL ? (double)v->u.b : (double)v->u.i);
  if (v->kind != LANG_FLOAT) return sema_int(s, v->kind == LANG_BOOL ? (lang_int)v->u.b : v->u.i);
  if (!(fabs(v->u.f) < 1e38)) return sema_fail(s, c->place[0], &D_int_too_big, "int()");
  return sema_int(s, (lang_int)v->u.f);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

lang_value *builtin_make_tuple(sema *s, const sema_call_info *c) {
  const lang_value *v = c->arg[0];
  (void)s;
  if (v->u.items.n == 1 && v->u.items.at[0]->kind == LANG_TUPLE) return v->u.items.at[0];
  return c->arg[0];
}

/* 1 yes, 0 no, -1 not a type. */
static int is_instance(const lang_value *v, const lang_value *t) {
  if (t->kind == LANG_TUPLE) {
    int any = 0;
    for (int i = 0; i < t->u.items.n; i++) {
      int one = is_instance(v, t->u.items.at[i]);
      if (one < 0) return -1;
      any |= one;
    }
    return any;
  }
  if (t->kind != LANG_BUILTIN) return -1;
  const char *n = t->u.builtin->name;
  if (strcmp(n, "tensor") == 0) return v->kind == LANG_TENSOR;
  if (strcmp(n, "tensor_descriptor") == 0) return v->kind == LANG_BLOCK && v->u.items.form->is_descriptor;
  if (strcmp(n, "constexpr") == 0) return !value_has_tensor(v) && v->kind != LANG_TUPLE;
  if (strcmp(n, "tuple") == 0 || strcmp(n, "list") == 0) return v->kind == LANG_TUPLE;
  if (strcmp(n, "int") == 0) return v->kind == LANG_INT || v->kind == LANG_BOOL;
  if (strcmp(n, "float") == 0) return v->kind == LANG_FLOAT;
  if (strcmp(n, "bool") == 0) return v->kind == LANG_BOOL;
  if (strcmp(n, "str") == 0) return v->kind == LANG_STR;
  if (strcmp(n, "dtype") == 0) return v->kind == LANG_TYPE;
  return -1;
}

lang_value *builtin_isinstance(sema *s, const sema_call_info *c) {
  int r = is_instance(c->arg[0], c->arg[1]);
  return r < 0 ? arg_wrong(s, c, 1, "tensor, constexpr, int, float, bool, str, tuple or dtype", c->arg[1])
               : sema_bool(s, r);
}

lang_value *builtin_getattr(sema *s, const sema_call_info *c) {
  const char *name;
  if (c->arg[1]->kind != LANG_STR) return arg_wrong(s, c, 1, "a string", c->arg[1]);
  if (!arg_str(s, c, 1, "", &name)) return s->unit->poison;
  bool asks = c->builtin->data != 0;
  if (!asks && !c->arg[2]) return sema_attribute(s, c->at, c->place[1], c->arg[0], name);
  diag_sink quiet, *outer = s->sink;
  bool failed = s->failed;
  int n_errors = s->n_errors;
  diag_sink_init(&quiet, s->a, s->unit->sources);
  s->sink = &quiet;
  lang_value *v = sema_attribute(s, c->at, c->place[1], c->arg[0], name);
  s->sink = outer;
  s->failed = failed;
  s->n_errors = n_errors;
  bool found = !sema_is_poison(v), method = !found && quiet.last && quiet.last->desc->id == D_method_not_called.id;
  if (asks) return sema_bool(s, found || method);
  if (method) return sema_fail(s, c->at, &D_method_not_called, name, name); /* methods are no values */
  return found ? v : c->arg[2];
}
