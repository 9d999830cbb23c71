/* Calls: arguments, member forms, and the inlining of functions.
 *
 * A call of a `def` is inlined: its parameters are bound to the arguments as they are, so that a number, a dtype or a
 * function stays a compile-time value in the callee, and its body is executed in a frame of its own. Recursion works as
 * long as it ends at compile time; its depth is bounded. */
#include "lang/sema.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_CALLS = 48 };

/* ---- reporting --------------------------------------------------------------------------------------------------- */

span sema_place(const sema *s, span at) { return s->frame->scope->is_std ? s->frame->user_at : at; }

static diag *report(sema *s, span at, const diag_desc *d, va_list ap) {
  const char *message = arena_vprintf(s->sink->a, d->format, ap);
  diag_desc *row = ARENA_NEW(s->sink->a, diag_desc); /* the same row with its text filled in */
  *row = (diag_desc){d->id, d->severity, "%s"};
  diag *e = diag_add(s->sink, sema_place(s, at), row, message);
  if (d->severity == DIAG_ERROR) {
    s->failed = true;
    s->n_errors++;
  }
  int n = 0;
  for (const sema_frame *f = s->frame; f && f->caller && n < 4; f = f->caller)
    if (!f->scope->is_std && f->def && !f->caller->scope->is_std) {
      diag_note(e, f->call_at, "in '%s', called from here", f->def->name);
      n++;
    }
  return e;
}

diag *sema_report(sema *s, span at, const diag_desc *d, ...) {
  va_list ap;
  va_start(ap, d);
  diag *e = report(s, at, d, ap);
  va_end(ap);
  return e;
}

lang_value *sema_fail(sema *s, span at, const diag_desc *d, ...) {
  va_list ap;
  va_start(ap, d);
  report(s, at, d, ap);
  va_end(ap);
  return s->unit->poison;
}

/* ---- inlining ---------------------------------------------------------------------------------------------------- */

static lang_value *default_value(sema *s, const sema_scope *scope, const ast_node *e) {
  sema_frame frame = {.scope = scope, .caller = s->frame, .user_at = s->frame->user_at};
  sema_frame *outer = s->frame;
  s->frame = &frame;
  lang_value *v = sema_eval(s, e);
  s->frame = outer;
  return v;
}

bool sema_is_constexpr(const ast_node *e) {
  if (!e) return false;
  if (e->kind == AST_SUBSCRIPT) return sema_is_constexpr(e->kid[0]);
  if (e->kind == AST_STRING) return strcmp(e->u.s, "constexpr") == 0 || strcmp(e->u.s, "tl.constexpr") == 0;
  return (e->kind == AST_NAME || e->kind == AST_ATTRIBUTE) && e->name && strcmp(e->name, "constexpr") == 0;
}

/* The value for a parameter: constexpr ones take compile-time values, and constants that were assigned to a name. A
   tensor is let in too, as Triton does (helpers of attention kernels declare tiles so): what needs it at compile time
   says so. The standard library means what it declares. */
static lang_value *bind(sema *s, span at, const lang_value *callee, const ast_node *param, lang_value *v) {
  if (!sema_is_constexpr(param->kid[0]) || !value_has_tensor(v)) return v;
  lang_value *known = sema_known(s, v);
  if (known) return known;
  const ast_node *def = callee->u.fn.def;
  if (!callee->u.fn.scope->is_std) return v;
  return sema_fail(s, at, &D_param_not_constexpr, param->name, def->name, value_describe(s->a, v));
}

static bool bind_args(sema *s, span at, lang_value *callee, const sema_args *args, sema_frame *frame) {
  const ast_node *def = callee->u.fn.def;
  int n = def->n_list, positional = 0;
  bool ok = true;
  lang_value **value = ARENA_ARRAY(s->a, lang_value *, n ? n : 1);
  VEC(lang_value *) extra = {0};
  int next = 0;
  for (int i = 0; i < args->at.n; i++) {
    if (args->key.at[i]) continue;
    positional++;
    while (next < n && (def->list[next]->kind != AST_PARAM || def->list[next]->flag)) next++;
    if (next < n && def->list[next]->op == AOP_MUL) {
      VEC_PUSH(s->a, extra, args->at.at[i]);
      continue;
    }
    if (next >= n) {
      int takes = 0;
      for (int k = 0; k < n; k++) takes += def->list[k]->kind == AST_PARAM && !def->list[k]->flag;
      diag *d = sema_report(s, args->place.at[i], &D_too_many_args, def->name, takes);
      if (!callee->u.fn.scope->is_std) diag_note(d, def->name_at, "defined here");
      return false;
    }
    value[next] = bind(s, args->place.at[i], callee, def->list[next], args->at.at[i]);
    next++;
  }
  for (int i = 0; i < args->at.n; i++) {
    if (!args->key.at[i]) continue;
    int k = 0;
    while (k < n &&
           (def->list[k]->kind != AST_PARAM || def->list[k]->op != AOP_NOP || def->list[k]->name != args->key.at[i]))
      k++;
    if (k == n) {
      sema_fail(s, args->place.at[i], &D_no_such_keyword, def->name, args->key.at[i]);
      ok = false;
    } else if (value[k]) {
      sema_fail(s, args->place.at[i], &D_arg_twice, def->name, args->key.at[i]);
      ok = false;
    } else {
      value[k] = bind(s, args->place.at[i], callee, def->list[k], args->at.at[i]);
    }
  }
  for (int k = 0; k < n && ok; k++) {
    const ast_node *p = def->list[k];
    if (p->kind != AST_PARAM || !p->name) continue;
    if (p->op == AOP_MUL) {
      value[k] = sema_tuple(s, extra.at, extra.n);
    } else if (p->op == AOP_POW) {
      sema_fail(s, at, &D_unsupported_syntax, "a **parameter");
      ok = false;
      continue;
    } else if (!value[k] && p->kid[1]) {
      value[k] = default_value(s, callee->u.fn.scope, p->kid[1]);
    } else if (!value[k]) {
      diag *d = sema_report(s, at, &D_missing_arg, def->name, p->name);
      if (!callee->u.fn.scope->is_std) diag_note(d, p->at, "declared here");
      ok = false;
      continue;
    }
    VEC_PUSH(s->a, frame->locals, ((sema_local){.name = p->name, .value = value[k], .at = p->name_at}));
  }
  return ok;
}

static lang_value *call_function(sema *s, span at, lang_value *callee, const sema_args *args) {
  const ast_node *def = callee->u.fn.def;
  if (s->n_calls >= MAX_CALLS) {
    s->stop = true;
    return sema_fail(s, at, &D_recursion, def->name, MAX_CALLS);
  }
  sema_frame frame = {.scope = callee->u.fn.scope, .def = def, .caller = s->frame, .call_at = at};
  frame.user_at = s->frame->scope->is_std ? s->frame->user_at : at;
  for (int i = 0; i < args->at.n; i++)
    if (sema_is_poison(args->at.at[i])) return args->at.at[i];
  if (!bind_args(s, at, callee, args, &frame)) return s->unit->poison;

  int loops = s->loops;
  s->loops = 0;
  s->n_calls++;
  s->frame = &frame;
  bool failed = s->failed;
  s->failed = false;
  sema_rest body = {def->kid[1]->list, def->kid[1]->n_list, 0, NULL, true};
  sema_flow f = sema_exec(s, &body);
  lang_value *result = f.kind == FLOW_ON ? s->unit->none : f.ret ? f.ret : s->unit->none;
  if (f.kind == FLOW_MAYBE && result->kind != LANG_NONE && !sema_is_poison(result))
    result = sema_fail(s, f.at, &D_falls_off_end, def->name);
  if (f.kind == FLOW_ON && s->failed) result = s->unit->poison; /* what it would have returned is unknown */
  s->failed = s->failed || failed;
  s->frame = frame.caller;
  s->n_calls--;
  s->loops = loops;
  s->b.at = sema_place(s, at);
  return result;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

lang_value *sema_call(sema *s, span at, lang_value *callee, const sema_args *args) {
  switch (callee->kind) {
    case LANG_POISON: return callee;
    case LANG_FUNCTION: return call_function(s, at, callee, args);
    case LANG_BUILTIN: return builtin_call(s, at, callee->u.builtin, NULL, args);
    case LANG_TYPE:
      if (args->at.n == 1 && !args->key.at[0] && callee->u.type->kind != TY_TILE)
        return sema_cast_checked(s, at, args->at.at[0], callee->u.type, NULL, false);
      break;
    default: break;
  }
  return sema_fail(s, at, &D_not_callable, value_describe(s->a, callee));
}

lang_value *sema_call_values(sema *s, span at, lang_value *callee, int n, lang_value *const *v) {
  sema_args args = {0};
  for (int i = 0; i < n; i++) {
    VEC_PUSH(s->a, args.at, v[i]);
    VEC_PUSH(s->a, args.place, at);
    VEC_PUSH(s->a, args.key, NULL);
  }
  return sema_call(s, at, callee, &args);
}

static void push_arg(sema *s, sema_args *args, lang_value *v, span at, const char *key) {
  VEC_PUSH(s->a, args->at, v);
  VEC_PUSH(s->a, args->place, at);
  VEC_PUSH(s->a, args->key, key);
}

static bool eval_args(sema *s, const ast_node *call, sema_args *args) {
  bool ok = true;
  for (int i = 0; i < call->n_list; i++) {
    const ast_node *n = call->list[i];
    bool wrapped = n->kind == AST_KEYWORD || n->kind == AST_STAR || n->kind == AST_DSTAR;
    const ast_node *e = wrapped ? n->kid[0] : n;
    if (n->kind == AST_DSTAR) {
      sema_fail(s, n->at, &D_unsupported_syntax, "a ** argument");
      ok = false;
      continue;
    }
    lang_value *v = sema_eval(s, e);
    if (sema_is_poison(v)) {
      ok = false;
    } else if (n->kind == AST_STAR) {
      if (v->kind != LANG_TUPLE) {
        sema_fail(s, n->at, &D_star_not_tuple, value_describe(s->a, v));
        ok = false;
        continue;
      }
      for (int k = 0; k < v->u.items.n; k++) push_arg(s, args, v->u.items.at[k], n->at, NULL);
    } else {
      push_arg(s, args, v, e->at, n->kind == AST_KEYWORD ? n->name : NULL);
    }
  }
  return ok;
}

/* x.name(...) of a value: a builtin's member form, a method of a block pointer or descriptor, a function of the
 * standard library, a question to a dtype. */
static lang_value *call_member(sema *s, const ast_node *call, lang_value *self) {
  const ast_node *attr = call->kid[0];
  const char *name = attr->name;
  sema_args args = {0};
  bool ok = eval_args(s, call, &args);
  bool method;
  if (!ok) return s->unit->poison;
  s->b.at = sema_place(s, call->at);
  if (self->kind == LANG_TYPE) {
    lang_value *v = type_member(s, self->u.type, name, &method);
    if (!v) return sema_attribute(s, attr->at, attr->name_at, self, name);
    if (method && args.at.n) return sema_fail(s, call->at, &D_too_many_args, name, 0);
    return method ? v : sema_fail(s, attr->at, &D_not_callable, value_describe(s->a, v));
  }
  if (self->kind == LANG_BLOCK) {
    const sema_builtin *m = block_method(s, self, name);
    return m ? builtin_call(s, call->at, m, self, &args) : sema_attribute(s, attr->at, attr->name_at, self, name);
  }
  const sema_builtin *b = builtin_named(s->unit, name);
  if (b && (b->flags & BUILTIN_MEMBER)) return builtin_call(s, call->at, b, self, &args);
  lang_value *f = sema_std_function(s->unit, name);
  if (f) {
    sema_args all = {0};
    push_arg(s, &all, self, attr->kid[0]->at, NULL);
    for (int i = 0; i < args.at.n; i++) push_arg(s, &all, args.at.at[i], args.place.at[i], args.key.at[i]);
    return sema_call(s, call->at, f, &all);
  }
  if (self->kind == LANG_INT && strcmp(name, "bit_length") == 0 && args.at.n == 0) {
    int bits = 0;
    for (lang_int m = self->u.i < 0 ? -(self->u.i + 1) : self->u.i; m; m /= 2) bits++;
    return sema_int(s, bits);
  }
  return sema_attribute(s, attr->at, attr->name_at, self, name);
}

lang_value *sema_eval_call(sema *s, const ast_node *call) {
  const ast_node *callee = call->kid[0];
  lang_value *f;
  if (callee->kind == AST_ATTRIBUTE) {
    lang_value *object = sema_eval(s, callee->kid[0]);
    if (object->kind == LANG_TENSOR || object->kind == LANG_BLOCK || object->kind == LANG_TYPE ||
        sema_is_number(object))
      return call_member(s, call, object);
    f = sema_attribute(s, callee->at, callee->name_at, object, callee->name);
  } else {
    f = sema_eval(s, callee);
  }
  sema_args args = {0};
  bool ok = eval_args(s, call, &args);
  if (sema_is_poison(f) || !ok) return s->unit->poison;
  s->b.at = sema_place(s, call->at);
  return sema_call(s, call->at, f, &args);
}
