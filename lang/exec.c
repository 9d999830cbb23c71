/* Statements, except those that branch (flow.c) or loop (loops.c). */
#include "lang/sema.h"

#include <string.h>

enum { MAX_LOCALS = 1000 };

/* ---- locals ------------------------------------------------------------------------------------------------------ */

static sema_local *find(sema_frame *f, const char *name) {
  for (int i = f->locals.n - 1; i >= 0; i--)
    if (f->locals.at[i].name == name) return &f->locals.at[i];
  return NULL;
}

void sema_local_set(sema *s, const char *name, span at, lang_value *v) {
  sema_local *l = find(s->frame, name);
  if (l) {
    *l = (sema_local){.name = name, .value = v, .at = at};
    return;
  }
  if (s->frame->locals.n >= MAX_LOCALS) {
    s->stop = true;
    sema_fail(s, at, &D_too_many_locals, MAX_LOCALS);
    return;
  }
  VEC_PUSH(s->a, s->frame->locals, ((sema_local){.name = name, .value = v, .at = at}));
}

sema_locals sema_locals_copy(sema *s, const sema_locals *from) {
  sema_locals c = {.n = from->n, .cap = from->n};
  sema_charge(s, (size_t)from->n / 2);
  if (c.n) c.at = arena_copy(s->a, from->at, sizeof *from->at * (size_t)from->n);
  return c;
}

void sema_gone(sema *s, const char *name) {
  for (int i = 0; i < s->frame->gone.n; i++)
    if (s->frame->gone.at[i] == name) return;
  VEC_PUSH(s->a, s->frame->gone, name);
}

/* ---- names that a tree binds ------------------------------------------------------------------------------------- */

bool sema_has_name(const sema_names *names, const char *name) {
  for (int i = 0; i < names->n; i++)
    if (names->at[i] == name) return true;
  return false;
}

static void bound_target(sema *s, const ast_node *t, sema_names *out) {
  if (!t) return;
  if (t->kind == AST_NAME) {
    if (out->n <= MAX_LOCALS && !sema_has_name(out, t->name)) VEC_PUSH(s->a, *out, t->name);
  } else if (t->kind == AST_TUPLE || t->kind == AST_LIST) {
    for (int i = 0; i < t->n_list; i++) bound_target(s, t->list[i], out);
  }
}

void sema_assigned(sema *s, const ast_node *n, sema_names *out) {
  if (!n || n->kind == AST_FUNCTION) return;
  if (n->kind == AST_ASSIGN)
    for (int i = 0; i < n->n_list; i++) bound_target(s, n->list[i], out);
  if (n->kind == AST_ANNASSIGN || n->kind == AST_AUGASSIGN || n->kind == AST_FOR || n->kind == AST_WALRUS)
    bound_target(s, n->kid[0], out);
  for (int i = 0; i < 4; i++) sema_assigned(s, n->kid[i], out);
  for (int i = 0; i < n->n_list; i++) sema_assigned(s, n->list[i], out);
}

void sema_poison_names(sema *s, const ast_node *n) {
  sema_names names = {0};
  sema_assigned(s, n, &names);
  for (int i = 0; i < names.n; i++) sema_local_set(s, names.at[i], n->at, s->unit->poison);
}

bool sema_contains_return(const ast_node *n) {
  if (!n || n->kind == AST_FUNCTION) return false;
  if (n->kind == AST_RETURN) return true;
  if (n->kind != AST_SUITE && n->kind != AST_IF && n->kind != AST_WITH) return false;
  for (int i = 0; i < 4; i++)
    if (sema_contains_return(n->kid[i])) return true;
  for (int i = 0; i < n->n_list; i++)
    if (sema_contains_return(n->list[i])) return true;
  return false;
}

/* ---- assignment -------------------------------------------------------------------------------------------------- */

static void assign_tuple(sema *s, const ast_node *target, lang_value *v) {
  bool fits = v->kind == LANG_TUPLE && v->u.items.n == target->n_list;
  if (!fits && !sema_is_poison(v)) {
    if (v->kind == LANG_TUPLE)
      sema_fail(s, target->at, &D_unpack_count, target->n_list, v->u.items.n);
    else
      sema_fail(s, target->at, &D_unpack_not_tuple, value_describe(s->a, v));
  }
  for (int i = 0; i < target->n_list; i++) sema_assign(s, target->list[i], fits ? v->u.items.at[i] : s->unit->poison);
}

void sema_assign(sema *s, const ast_node *target, lang_value *v) {
  switch (target->kind) {
    case AST_NAME:
      if (sema_is_number(v) && s->fn) v = sema_lift(s, target->at, v);
      if (sema_is_tensor(v) && !v->u.tensor->name && !s->frame->scope->is_std) v->u.tensor->name = target->name;
      sema_local_set(s, target->name, target->at, v);
      break;
    case AST_TUPLE:
    case AST_LIST: assign_tuple(s, target, v); break;
    case AST_SUBSCRIPT: {
      diag *d = sema_report(s, target->at, &D_setitem);
      diag_fix(d, sema_place(s, target->at), "tiles are values: use where(mask, new, old), or store to memory");
      break;
    }
    case AST_ATTRIBUTE: sema_fail(s, target->at, &D_set_attribute); break;
    case AST_STAR: sema_fail(s, target->at, &D_unsupported_syntax, "a starred target"); break;
    default: s->failed = true; break; /* reported by the parser */
  }
}

static void exec_annassign(sema *s, const ast_node *n) {
  if (!n->kid[2]) return;
  lang_value *v = sema_eval(s, n->kid[2]);
  if (!sema_is_constexpr(n->kid[1]) || n->kid[0]->kind != AST_NAME) {
    sema_assign(s, n->kid[0], v);
    return;
  }
  const char *name = n->kid[0]->name;
  sema_local *l = find(s->frame, name);
  if (l && l->constexpr_at != n && !sema_is_poison(l->value)) {
    diag *d = sema_report(s, n->kid[0]->at, &D_constexpr_again, name);
    diag_note(d, sema_place(s, l->at), "it is bound here");
    return;
  }
  if (value_has_tensor(v)) {
    lang_value *known = sema_known(s, v);
    v = known ? known : sema_fail(s, n->kid[2]->at, &D_needs_constexpr, name, value_describe(s->a, v));
  }
  sema_local_set(s, name, n->kid[0]->at, v);
  l = find(s->frame, name);
  if (l) l->constexpr_at = n;
}

static void exec_augassign(sema *s, const ast_node *n) {
  const ast_node *t = n->kid[0];
  if (t->kind != AST_NAME) {
    sema_eval(s, n->kid[1]);
    sema_assign(s, t, s->unit->poison);
    return;
  }
  lang_value *x = sema_eval(s, t), *y = sema_eval(s, n->kid[1]);
  s->b.at = sema_place(s, n->at);
  sema_assign(s, t, sema_binary(s, n->at, n->op, x, y));
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static sema_flow exec_return(sema *s, const ast_node *n) {
  lang_value *v = n->kid[0] ? sema_eval(s, n->kid[0]) : s->unit->none;
  if (s->loops > 0) {
    diag *d = sema_report(s, n->at, &D_return_in_loop);
    diag_fix(d, sema_place(s, n->at), "carry a flag through the loop and test it after it, or bound the loop by it");
    return (sema_flow){.kind = FLOW_ON};
  }
  if (s->frame->caller == NULL) v = s->unit->none; /* a kernel's value goes nowhere */
  return (sema_flow){.kind = FLOW_RETURNED, .ret = v, .at = n->at};
}

static void refuse(sema *s, const ast_node *n) {
  const char *what = n->name ? n->name : ast_kind_name(n->kind);
  if (n->kind == AST_BREAK || n->kind == AST_CONTINUE) {
    diag *d = sema_report(s, n->at, &D_no_break, what);
    diag_fix(d, sema_place(s, n->at),
             n->kind == AST_BREAK ? "use `while` with the condition, or a mask that turns the rest of the loop off"
                                  : "put the rest of the body under `if`");
  } else if (n->kind == AST_FUNCTION) {
    sema_fail(s, n->at, &D_nested_function);
  } else {
    sema_fail(s, n->at, &D_unsupported_syntax, arena_printf(s->a, "`%s`", what));
  }
}

static void exec_expression(sema *s, const ast_node *e) {
  lang_value *v = sema_eval(s, e);
  bool is_advance = e->kind == AST_CALL && e->kid[0]->name && strcmp(e->kid[0]->name, "advance") == 0;
  if (v->kind != LANG_BLOCK || !is_advance) return;
  diag *d = sema_report(s, e->at, &D_unused_advance);
  diag_fix(d, sema_place(s, e->at), "write p = advance(p, ..)");
}

static sema_flow exec_statement(sema *s, const ast_node *n, const sema_rest *rest, bool *took_rest) {
  sema_flow on = {.kind = FLOW_ON};
  s->b.at = sema_place(s, n->at);
  switch (n->kind) {
    case AST_ASSIGN: {
      lang_value *v = sema_eval(s, n->kid[0]);
      for (int i = 0; i < n->n_list; i++) sema_assign(s, n->list[i], v);
      return on;
    }
    case AST_ANNASSIGN: exec_annassign(s, n); return on;
    case AST_AUGASSIGN: exec_augassign(s, n); return on;
    case AST_EXPR:
      if (n->kid[0]->kind != AST_STRING) exec_expression(s, n->kid[0]);
      return on;
    case AST_IF: return sema_exec_if(s, n, rest, took_rest);
    case AST_FOR: sema_exec_for(s, n); return on;
    case AST_WHILE: sema_exec_while(s, n); return on;
    case AST_RETURN: return exec_return(s, n);
    case AST_ASSERT: {
      lang_value *v[2] = {sema_eval(s, n->kid[0]), n->kid[1] ? sema_eval(s, n->kid[1]) : s->unit->none};
      lang_value f = {.kind = LANG_BUILTIN, .u.builtin = builtin_named(s->unit, "device_assert")};
      s->b.at = sema_place(s, n->at);
      if (!sema_is_poison(v[0]) && !sema_is_poison(v[1])) sema_call_values(s, n->at, &f, n->kid[1] ? 2 : 1, v);
      return on;
    }
    case AST_PASS:
    case AST_IMPORT: return on;
    case AST_ERROR: s->failed = true; return on;
    default: refuse(s, n); return on;
  }
}

sema_flow sema_exec(sema *s, const sema_rest *r) {
  enum { MAX_NESTING = 400 };
  sema_flow on = {.kind = FLOW_ON};
  if (s->depth >= MAX_NESTING && !s->stop && r && r->i < r->n) {
    s->stop = true;
    sema_fail(s, r->stmt[r->i]->at, &D_too_deep_eval);
  }
  s->depth++;
  for (const sema_rest *c = r; c; c = c->next)
    for (int i = c->i; i < c->n && !s->stop; i++) {
      sema_rest after = {c->stmt, c->n, i + 1, c->next, c->last};
      bool took_rest = false;
      sema_flow f = exec_statement(s, c->stmt[i], &after, &took_rest);
      if (took_rest || f.kind == FLOW_RETURNED) {
        s->depth--;
        return f;
      }
      if (f.kind == FLOW_MAYBE) {
        f = sema_exec_unless(s, c->stmt[i]->at, f, &after);
        s->depth--;
        return f;
      }
    }
  s->depth--;
  return on;
}
