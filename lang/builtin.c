/* Builtins: the table, binding of arguments, and reading them. */
#include "lang/builtin.h"

#include <string.h>

const sema_builtin sema_builtins[] = {
#define BUILTIN(name, params, flags, handler, data) {#name, params, flags, builtin_##handler, data},
#include "lang/builtins.def"
#undef BUILTIN
};
const int sema_n_builtins = (int)(sizeof sema_builtins / sizeof *sema_builtins);

/* ---- binding ----------------------------------------------------------------------------------------------------- */

typedef struct builtin_param {
  const char *name;
  size_t len;
  bool optional, star;
} builtin_param;

static int parse_params(const char *p, builtin_param *out) {
  int n = 0;
  while (*p) {
    BASE_ASSERT(n < BUILTIN_MAX_PARAMS);
    builtin_param *q = &out[n++];
    *q = (builtin_param){.star = *p == '*'};
    p += q->star;
    q->name = p;
    while (*p && *p != ' ' && *p != '?') p++;
    q->len = (size_t)(p - q->name);
    q->optional = *p == '?' || q->star;
    p += *p == '?';
    while (*p == ' ') p++;
  }
  return n;
}

lang_value *builtin_call(sema *s, span at, const sema_builtin *b, lang_value *self, const sema_args *args) {
  builtin_param param[BUILTIN_MAX_PARAMS];
  int n = parse_params(b->params, param), star = -1, positional = 0;
  for (int i = 0; i < n; i++)
    if (param[i].star) star = i;
  sema_call_info c = {.at = at, .builtin = b, .self = self};
  if (!s->fn && !(b->flags & BUILTIN_STATIC)) return sema_fail(s, at, &D_tensor_outside, b->name);
  VEC(lang_value *) rest = {0};
  if (self) {
    c.arg[0] = self;
    c.place[0] = at;
    positional = 1;
  }
  for (int i = 0; i < args->at.n; i++) {
    lang_value *v = args->at.at[i];
    span place = args->place.at[i];
    if (sema_is_poison(v)) return v;
    if (!args->key.at[i]) {
      if (star >= 0 && positional >= star) {
        if (rest.n == 0) c.place[star] = place;
        VEC_PUSH(s->a, rest, v);
      } else if (positional >= n) {
        return sema_fail(s, place, &D_too_many_args, b->name, n);
      } else {
        c.place[positional] = place;
        c.arg[positional++] = v;
      }
      continue;
    }
    int k = 0;
    while (k < n &&
           (param[k].len != strlen(args->key.at[i]) || memcmp(param[k].name, args->key.at[i], param[k].len) != 0))
      k++;
    if (k == n) {
      diag *d = sema_report(s, place, &D_no_such_keyword, b->name, args->key.at[i]);
      textbuf t;
      text_init(&t, s->a);
      for (int q = 0; q < n; q++) text_printf(&t, "%s%.*s", q ? ", " : "", (int)param[q].len, param[q].name);
      if (t.n) diag_note(d, sema_place(s, place), "its parameters: %s", t.at);
      return s->unit->poison;
    }
    if (c.arg[k] || (k == star && rest.n)) return sema_fail(s, place, &D_arg_twice, b->name, args->key.at[i]);
    c.arg[k] = v;
    c.place[k] = place;
  }
  if (star >= 0 && !c.arg[star]) c.arg[star] = sema_tuple(s, rest.at, rest.n);
  for (int k = 0; k < n; k++) {
    if (!c.arg[k] && !param[k].optional)
      return sema_fail(s, at, &D_missing_arg, b->name, arena_printf(s->a, "%.*s", (int)param[k].len, param[k].name));
    if (c.place[k].pos == 0) c.place[k] = at;
  }
  return b->run(s, &c);
}

/* ---- reading arguments ------------------------------------------------------------------------------------------- */

bool arg_given(const sema_call_info *c, int i) { return c->arg[i] && c->arg[i]->kind != LANG_NONE; }

const char *arg_name(sema *s, const sema_call_info *c, int i) {
  builtin_param param[BUILTIN_MAX_PARAMS];
  int n = parse_params(c->builtin->params, param);
  return i < n ? arena_printf(s->a, "%.*s", (int)param[i].len, param[i].name) : "argument";
}

lang_value *arg_wrong(sema *s, const sema_call_info *c, int i, const char *wanted, const lang_value *got) {
  return sema_fail(s, c->place[i], &D_arg_kind, arg_name(s, c, i), c->builtin->name, wanted, value_describe(s->a, got));
}

bool arg_int(sema *s, const sema_call_info *c, int i, const char *what, int64_t *out) {
  if (sema_known_int(s, c->arg[i], out)) return true;
  arg_wrong(s, c, i, what ? what : "a compile-time integer", c->arg[i]);
  return false;
}

bool arg_bool(sema *s, const sema_call_info *c, int i, bool otherwise, bool *out) {
  *out = otherwise;
  if (!arg_given(c, i)) return true;
  lang_value *known = sema_known(s, c->arg[i]);
  if (known && const_truth(known, out)) return true;
  arg_wrong(s, c, i, "a compile-time bool", c->arg[i]);
  return false;
}

bool arg_str(sema *s, const sema_call_info *c, int i, const char *otherwise, const char **out) {
  *out = otherwise;
  if (!arg_given(c, i)) return true;
  if (c->arg[i]->kind == LANG_STR) {
    *out = c->arg[i]->u.str.s;
    return true;
  }
  arg_wrong(s, c, i, "a string", c->arg[i]);
  return false;
}

bool arg_type(sema *s, const sema_call_info *c, int i, const tir_type **out) {
  const lang_value *v = c->arg[i];
  const tir_type *t = NULL;
  if (v->kind == LANG_TYPE)
    t = tir_elem(v->u.type);
  else if (v->kind == LANG_STR)
    t = lang_type_named(s->cx, v->u.str.s, v->u.str.len);
  else if (v->kind == LANG_BUILTIN && (v->u.builtin->flags & BUILTIN_PYTHON)) /* int, float, bool */
    t = lang_type_named(s->cx, v->u.builtin->name, strlen(v->u.builtin->name));
  if (!t) {
    arg_wrong(s, c, i, "a dtype", v);
    return false;
  }
  *out = t;
  return t->kind != TY_SCALAR || sema_check_dtype(s, c->place[i], t->dtype);
}

bool arg_shape(sema *s, const sema_call_info *c, int i, int *rank, int64_t *shape) {
  const lang_value *v = c->arg[i];
  if (v->kind == LANG_TUPLE && v->u.items.n == 1 && v->u.items.at[0]->kind == LANG_TUPLE) v = v->u.items.at[0];
  lang_value *one[1] = {c->arg[i]};
  lang_value *const *items = v->kind == LANG_TUPLE ? v->u.items.at : one;
  int n = v->kind == LANG_TUPLE ? v->u.items.n : 1;
  if (n > TIR_MAX_RANK) {
    sema_fail(s, c->place[i], &D_rank_limit, TIR_MAX_RANK);
    return false;
  }
  for (int k = 0; k < n; k++)
    if (!sema_known_int(s, items[k], &shape[k])) {
      diag *d = sema_report(s, c->place[i], &D_shape_not_constexpr, k, value_describe(s->a, items[k]));
      diag_fix(d, sema_place(s, c->place[i]),
               "sizes of tiles are compile-time constants: declare the parameter as `NAME: constexpr`");
      return false;
    }
  *rank = n;
  return true;
}

bool arg_axis(sema *s, const sema_call_info *c, int i, int rank, int *axis) {
  int64_t v;
  if (!arg_int(s, c, i, "a compile-time integer", &v)) return false;
  if (v < -rank || v >= rank) {
    sema_fail(s, c->place[i], &D_axis_range, (long long)v, rank);
    return false;
  }
  *axis = (int)(v < 0 ? v + rank : v);
  return true;
}

tir_value *arg_tensor(sema *s, const sema_call_info *c, int i) {
  if (!sema_is_tensor(c->arg[i]) && !sema_is_number(c->arg[i])) {
    arg_wrong(s, c, i, "a tensor or a number", c->arg[i]);
    return NULL;
  }
  lang_value *v = sema_lift(s, c->place[i], c->arg[i]);
  return sema_is_poison(v) ? NULL : v->u.tensor;
}
