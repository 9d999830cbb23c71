/* A kernel for one binding: parameters, body, end. */
#include "lang/sema.h"

#include <string.h>

/* What a parameter is in the kernel. Constants of plain parameters (a default, a number from the command line) are what
   the launch would pass: a scalar of its type, except None, 1 that was folded, and what is no number. */
static lang_value *parameter(sema *s, const lang_kernel *k, const lang_param *p, const lang_binding *b) {
  if (b->bound == LANG_ARGUMENT) {
    if (lang_is_descriptor(b->type)) return block_parameter(s, k, p, b);
    if (tir_elem(b->type)->kind == TY_SCALAR && !sema_check_dtype(s, p->at, b->type->dtype)) return s->unit->poison;
    tir_value *v = tir_fn_add_param(s->fn, p->name, b->type, b->divisibility, p->at);
    return sema_tensor(s, v);
  }
  if (b->bound != LANG_CONSTANT) return s->unit->poison;
  if (p->kind == LANG_PARAM_CONSTEXPR || b->folded || !sema_is_number(b->value)) return b->value;
  bool is_one = b->value->kind == LANG_INT && b->value->u.i == 1 && p->kind == LANG_PARAM_UNTYPED && !p->no_specialise;
  if (is_one) return b->value;
  s->b.at = p->at;
  lang_value *v = sema_lift(s, p->at, b->value);
  return p->kind == LANG_PARAM_SCALAR && !sema_is_poison(v) ? sema_cast_checked(s, p->at, v, p->type, NULL, false) : v;
}

tir_fn *lang_specialise(lang_unit *u, const lang_kernel *k, const lang_binding *b, const lang_options *o, arena *a) {
  static const lang_options standard = {0};
  if (!o) o = &standard;
  tir_fn *fn = tir_fn_new(u->cx, a, k->name, k->at);
  fn->stage = STAGE_PLAIN;
  fn->num_warps = o->num_warps ? o->num_warps : k->num_warps ? k->num_warps : 4;
  fn->num_stages = o->num_stages ? o->num_stages : k->num_stages ? k->num_stages : 3;
  sema_frame frame = {.scope = u->main, .def = k->def};
  sema s = {.unit = u, .cx = u->cx, .a = a, .opt = o, .fn = fn, .frame = &frame, .sink = u->sink};
  s.b = tir_at_end(fn, fn->body);
  for (int i = 0; i < k->n_params; i++)
    sema_local_set(&s, k->params[i].name, k->params[i].at, parameter(&s, k, &k->params[i], &b[i]));

  const ast_node *body = k->def->kid[1];
  sema_rest all = {body->list, body->n_list, 0, NULL, true};
  sema_exec(&s, &all);
  s.b.at = k->at;
  tir_build(&s.b, OP_return, 0, NULL, 0, NULL);
  if (s.failed || s.stop) return NULL;
  tir_renumber(fn);
  int errors = u->sink->n_errors;
  sema_lint(fn, u->sink, a, o->warnings, o->n_warnings);
  return u->sink->n_errors == errors ? fn : NULL; /* -Werror */
}
