/* Expressions: from a node to a value. */
#include "lang/sema.h"

#include <string.h>

enum { MAX_DEPTH = 1200, MAX_STEPS = 2000000 };

/* ---- and, or, comparisons ---------------------------------------------------------------------------------------- */

static lang_value *eval_boolop(sema *s, const ast_node *e) {
  bool is_and = e->op == AOP_AND, truth;
  lang_value *x = sema_eval(s, e->kid[0]);
  if (sema_is_poison(x)) return x;
  lang_value *known = sema_is_tensor(x) ? sema_known(s, x) : x;
  if (known) {
    if (!const_truth(known, &truth))
      return sema_fail(s, e->at, &D_bad_condition, is_and ? "and" : "or", value_describe(s->a, x));
    return truth == is_and ? sema_eval(s, e->kid[1]) : x;
  }
  lang_value *y = sema_eval(s, e->kid[1]);
  if (sema_is_poison(y)) return y;
  if (!sema_is_tensor(y)) {
    if (!const_truth(y, &truth))
      return sema_fail(s, e->at, &D_bad_condition, is_and ? "and" : "or", value_describe(s->a, y));
    return truth == is_and ? x : y;
  }
  s->b.at = sema_place(s, e->at);
  return sema_logical(s, e->at, is_and, x, y);
}

/* a < b < c: the middle operand is evaluated once. Returns the last operand's value. */
static lang_value *eval_chain(sema *s, const ast_node *e, lang_value **result) {
  if (e->kind == AST_COMPARE) {
    lang_value *x = sema_eval(s, e->kid[0]), *y = sema_eval(s, e->kid[1]);
    s->b.at = sema_place(s, e->at);
    *result = sema_compare(s, e->at, e->op, x, y);
    return y;
  }
  const ast_node *right = e->kid[1];
  lang_value *left_result, *middle = eval_chain(s, e->kid[0], &left_result);
  lang_value *known = sema_known(s, left_result);
  bool truth = true;
  if (sema_is_poison(left_result) || (known && const_truth(known, &truth) && !truth)) {
    *result = left_result;
    return middle;
  }
  lang_value *y = sema_eval(s, right->kid[1]);
  s->b.at = sema_place(s, e->at);
  lang_value *r = sema_compare(s, right->at, right->op, middle, y);
  *result = known ? r : sema_is_poison(r) ? r : sema_logical(s, e->at, true, left_result, r);
  return y;
}

/* ---- subscripts -------------------------------------------------------------------------------------------------- */

static lang_value *eval_slice(sema *s, const ast_node *e) {
  lang_value *part[3];
  for (int i = 0; i < 3; i++) {
    part[i] = e->kid[i] ? sema_eval(s, e->kid[i]) : s->unit->none;
    if (sema_is_poison(part[i])) return part[i];
  }
  lang_value *v = value_new(s->a, LANG_SLICE);
  v->u.items.at = arena_copy(s->a, part, sizeof part);
  v->u.items.n = 3;
  return v;
}

static bool is_whole(const lang_value *v) {
  if (v->kind != LANG_SLICE) return false;
  for (int i = 0; i < 3; i++)
    if (v->u.items.at[i]->kind != LANG_NONE) return false;
  return true;
}

/* x[:, None]: None inserts an axis, `:` keeps one; axes that are not mentioned are kept. */
static lang_value *index_tensor(sema *s, const ast_node *e, lang_value *x, lang_value *const *index, int n) {
  tir_value *t = x->u.tensor;
  int axis = 0, kept = 0, rank = t->type->rank;
  for (int i = 0; i < n; i++) kept += is_whole(index[i]);
  if (kept > rank) return sema_fail(s, e->at, &D_too_many_indices, value_describe(s->a, x), kept);
  for (int i = 0; i < n; i++) {
    if (index[i]->kind == LANG_NONE) {
      if (t->type->rank >= TIR_MAX_RANK) return sema_fail(s, e->at, &D_rank_limit, TIR_MAX_RANK);
      sema_count(s, 1);
      t = tir_expand_dims(&s->b, t, axis);
      axis++;
    } else if (is_whole(index[i])) {
      axis++;
    } else {
      diag *d = sema_report(s, e->list[i]->at, &D_bad_tensor_index, value_describe(s->a, index[i]));
      diag_fix(d, sema_place(s, e->list[i]->at),
               "elements are reached through pointers (load) or reductions; a tile takes only ':' and None here");
      return s->unit->poison;
    }
  }
  return sema_tensor(s, t);
}

static lang_value *eval_subscript(sema *s, const ast_node *e) {
  lang_value *x = sema_eval(s, e->kid[0]);
  lang_value **index = ARENA_ARRAY(s->a, lang_value *, e->n_list ? e->n_list : 1);
  bool bad = sema_is_poison(x);
  for (int i = 0; i < e->n_list; i++) {
    index[i] = sema_eval(s, e->list[i]);
    bad = bad || sema_is_poison(index[i]);
  }
  if (bad) return s->unit->poison;
  s->b.at = sema_place(s, e->at);
  if (sema_is_tensor(x)) return index_tensor(s, e, x, index, e->n_list);
  if (x->kind == LANG_BUILTIN && strcmp(x->u.builtin->name, "constexpr") == 0) return x; /* tl.constexpr[int] */
  if (e->n_list != 1) return sema_fail(s, e->at, &D_bad_index, "a tuple");
  return const_index(s, e->list[0]->at, x, index[0]);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static lang_value *shape_of(sema *s, const tir_type *t) {
  lang_value *dims[TIR_MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = sema_int(s, t->shape[i]);
  return sema_tuple(s, dims, t->rank);
}

static lang_value *tensor_attribute(sema *s, span at, span name_at, lang_value *x, const char *name) {
  tir_value *t = x->u.tensor;
  if (strcmp(name, "dtype") == 0) return sema_type(s, tir_elem(t->type));
  if (strcmp(name, "type") == 0) return sema_type(s, t->type);
  if (strcmp(name, "shape") == 0) return shape_of(s, t->type);
  if (strcmp(name, "numel") == 0) return sema_int(s, t->type->numel);
  if (strcmp(name, "value") == 0) {
    lang_value *known = sema_known(s, x);
    if (known) return known;
  }
  if (strcmp(name, "T") == 0) {
    if (t->type->rank != 2) return sema_fail(s, at, &D_bad_transpose, value_describe(s->a, x));
    sema_count(s, 1);
    return sema_tensor(s, tir_trans(&s->b, t, (int64_t[]){1, 0}));
  }
  const sema_builtin *b = builtin_named(s->unit, name);
  if ((b && (b->flags & BUILTIN_MEMBER)) || sema_std_function(s->unit, name))
    return sema_fail(s, name_at, &D_method_not_called, name, name);
  if (sema_is_triton_name(name)) return sema_fail(s, name_at, &D_not_supported_yet, "tensor", name);
  diag *d = sema_report(s, name_at, &D_no_member, value_describe(s->a, x), name);
  if (tir_is_ptr(t->type) && (strcmp(name, "load") == 0 || strcmp(name, "element_ty") == 0))
    diag_fix(d, sema_place(s, name_at), strcmp(name, "load") == 0 ? "write load(p)" : "write p.dtype.element_ty");
  else if (sema_nearest(s, name, true))
    diag_fix(d, sema_place(s, name_at), "did you mean '%s'?", sema_nearest(s, name, true));
  return s->unit->poison;
}

lang_value *sema_attribute(sema *s, span at, span name_at, lang_value *x, const char *name) {
  bool method;
  switch (x->kind) {
    case LANG_POISON: return x;
    case LANG_TENSOR: return tensor_attribute(s, at, name_at, x, name);
    case LANG_BLOCK: return block_attribute(s, name_at, x, name);
    case LANG_MODULE: return sema_module_member(s, name_at, x->u.name, name);
    case LANG_TYPE: {
      lang_value *v = type_member(s, x->u.type, name, &method);
      if (v && !method) return v;
      if (v) return sema_fail(s, name_at, &D_method_not_called, name, name);
      break;
    }
    case LANG_FUNCTION:
      if (strcmp(name, "__name__") == 0) return sema_str(s, x->u.fn.def->name, strlen(x->u.fn.def->name));
      if (strcmp(name, "fn") == 0) return x;
      break;
    case LANG_FOREIGN: s->failed = true; return sema_fail(s, at, &D_host_member, x->u.name, name);
    default:
      if (strcmp(name, "value") == 0) return x; /* of a constexpr */
      if (sema_is_number(x) && (strcmp(name, "dtype") == 0 || strcmp(name, "type") == 0)) {
        tir_dtype d;
        if (sema_literal_dtype(x, &d)) return sema_type(s, tir_scalar_type(s->cx, d));
      }
      if (sema_is_number(x) && strcmp(name, "shape") == 0) return sema_tuple(s, NULL, 0);
      break;
  }
  return sema_fail(s, name_at, &D_no_member, value_describe(s->a, x), name);
}

/* ---- strings, comprehensions ------------------------------------------------------------------------------------- */

static bool format_into(sema *s, const ast_node *e, textbuf *out);

static bool format_value(sema *s, const ast_node *e, textbuf *out) {
  lang_value *v = sema_eval(s, e->kid[0]);
  if (sema_is_poison(v)) return false;
  lang_value *known = sema_known(s, v);
  if (value_has_tensor(v) && !known) {
    sema_fail(s, e->at, &D_fstring_tensor, value_describe(s->a, v));
    return false;
  }
  if (known) v = known;
  textbuf spec;
  text_init(&spec, s->a);
  if (e->kid[1] && !format_into(s, e->kid[1], &spec)) return false;
  if (e->name || (e->flag && !spec.n)) {
    textbuf t;
    text_init(&t, s->a);
    value_print(&t, v, !e->name || e->name[0] != 's');
    v = sema_str(s, t.n ? t.at : "", t.n);
  }
  return const_format(s, e->at, out, v, spec.n ? spec.at : "", spec.n);
}

static bool format_into(sema *s, const ast_node *e, textbuf *out) {
  for (int i = 0; i < e->n_list; i++) {
    const ast_node *part = e->list[i];
    if (part->kind == AST_STRING)
      text_add(out, part->u.s, part->u.s_len);
    else if (!format_value(s, part, out))
      return false;
    if (out->n > SEMA_MAX_STRING) {
      sema_fail(s, part->at, &D_sequence_too_long, SEMA_MAX_STRING);
      return false;
    }
  }
  return true;
}

static lang_value *eval_comprehension(sema *s, const ast_node *e) {
  lang_value *over = sema_eval(s, e->kid[2]);
  if (sema_is_poison(over)) return over;
  if (over->kind == LANG_RANGE) {
    int64_t from, to, step;
    if (!sema_known_int(s, over->u.items.at[0], &from) || !sema_known_int(s, over->u.items.at[1], &to) ||
        !sema_known_int(s, over->u.items.at[2], &step) || step == 0)
      return sema_fail(s, e->kid[2]->at, &D_static_range_bounds, "range of a comprehension");
    VEC(lang_value *) numbers = {0};
    for (int64_t i = from; (step > 0 ? i < to : i > to) && numbers.n < 4096; i += step)
      VEC_PUSH(s->a, numbers, sema_int(s, i));
    over = sema_tuple(s, numbers.at, numbers.n);
  }
  if (over->kind != LANG_TUPLE) return sema_fail(s, e->kid[2]->at, &D_comprehension_tuple, value_describe(s->a, over));
  const ast_node *target = e->kid[1];
  VEC(lang_value *) out = {0};
  sema_locals saved = s->frame->locals;
  s->frame->locals = sema_locals_copy(s, &saved);
  for (int i = 0; i < over->u.items.n && !s->stop; i++) {
    if (target->kind == AST_NAME)
      sema_local_set(s, target->name, target->at, over->u.items.at[i]);
    else
      sema_assign(s, target, over->u.items.at[i]);
    bool keep = true;
    for (int k = 0; k < e->n_list && keep; k++) {
      lang_value *c = sema_condition(s, e->list[k]->at, sema_eval(s, e->list[k]), "if");
      if (c->kind == LANG_BOOL)
        keep = c->u.b;
      else if (!sema_is_poison(c))
        keep = (sema_fail(s, e->list[k]->at, &D_needs_constexpr, "the condition of a comprehension",
                          value_describe(s->a, c)),
                false);
    }
    if (keep) VEC_PUSH(s->a, out, sema_eval(s, e->kid[0]));
  }
  s->frame->locals = saved;
  for (int i = 0; i < out.n; i++)
    if (sema_is_poison(out.at[i])) return out.at[i];
  return sema_tuple(s, out.at, out.n);
}

/* ---- the switch -------------------------------------------------------------------------------------------------- */

static lang_value *eval_items(sema *s, const ast_node *e) {
  VEC(lang_value *) items = {0};
  bool bad = false;
  for (int i = 0; i < e->n_list; i++) {
    const ast_node *n = e->list[i];
    lang_value *v = sema_eval(s, n->kind == AST_STAR ? n->kid[0] : n);
    bad = bad || sema_is_poison(v);
    if (n->kind != AST_STAR) {
      VEC_PUSH(s->a, items, v);
    } else if (v->kind == LANG_TUPLE) {
      for (int k = 0; k < v->u.items.n; k++) VEC_PUSH(s->a, items, v->u.items.at[k]);
    } else if (!sema_is_poison(v)) {
      v = sema_fail(s, n->at, &D_star_not_tuple, value_describe(s->a, v));
      bad = true;
    }
  }
  return bad ? s->unit->poison : sema_tuple(s, items.at, items.n);
}

static lang_value *eval_node(sema *s, const ast_node *e) {
  switch (e->kind) {
    case AST_NAME: return sema_lookup(s, e);
    case AST_INT:
      if (e->u.big) return sema_fail(s, e->at, &D_int_too_big, "this number");
      return sema_int(s, (lang_int)e->u.i);
    case AST_FLOAT: return sema_float(s, e->u.f);
    case AST_STRING:
      if (e->flag) return sema_fail(s, e->at, &D_unsupported_syntax, "a bytes literal");
      return sema_str(s, e->u.s, e->u.s_len);
    case AST_FSTRING: {
      textbuf b;
      text_init(&b, s->a);
      if (!format_into(s, e, &b)) return s->unit->poison;
      return sema_str(s, b.n ? b.at : "", b.n);
    }
    case AST_TRUE: return s->unit->yes;
    case AST_FALSE: return s->unit->no;
    case AST_NONE: return s->unit->none;
    case AST_ELLIPSIS: return s->unit->ellipsis;
    case AST_TUPLE:
    case AST_LIST: return eval_items(s, e);
    case AST_UNARY: {
      lang_value *x = sema_eval(s, e->kid[0]);
      s->b.at = sema_place(s, e->at);
      return sema_unary(s, e->at, e->op, x);
    }
    case AST_BINARY: {
      lang_value *x = sema_eval(s, e->kid[0]), *y = sema_eval(s, e->kid[1]);
      s->b.at = sema_place(s, e->at);
      return sema_binary(s, e->at, e->op, x, y);
    }
    case AST_COMPARE: {
      lang_value *r;
      eval_chain(s, e, &r);
      return r;
    }
    case AST_BOOLOP: {
      if (!e->flag) return eval_boolop(s, e);
      lang_value *r;
      eval_chain(s, e, &r);
      return r;
    }
    case AST_TERNARY: {
      lang_value *c = sema_condition(s, e->kid[0]->at, sema_eval(s, e->kid[0]), "if");
      if (sema_is_poison(c)) return c;
      if (c->kind == LANG_BOOL) return sema_eval(s, c->u.b ? e->kid[1] : e->kid[2]);
      return sema_arms(s, e->at, c->u.tensor, e->kid[1], e->kid[2]);
    }
    case AST_CALL: return sema_eval_call(s, e);
    case AST_ATTRIBUTE: {
      lang_value *x = sema_eval(s, e->kid[0]);
      s->b.at = sema_place(s, e->at);
      return sema_attribute(s, e->at, e->name_at, x, e->name);
    }
    case AST_SUBSCRIPT: return eval_subscript(s, e);
    case AST_SLICE: return eval_slice(s, e);
    case AST_COMPREHENSION: return eval_comprehension(s, e);
    case AST_WALRUS: {
      lang_value *v = sema_eval(s, e->kid[1]);
      sema_assign(s, e->kid[0], v);
      return sema_is_poison(v) ? v : sema_local_get(s->frame, e->kid[0]->name);
    }
    case AST_ERROR: s->failed = true; return s->unit->poison;
    case AST_LAMBDA: return sema_fail(s, e->at, &D_unsupported_syntax, "a lambda");
    case AST_DICT: return sema_fail(s, e->at, &D_unsupported_syntax, "a dict");
    case AST_IMAG: return sema_fail(s, e->at, &D_unsupported_syntax, "an imaginary number");
    default: return sema_fail(s, e->at, &D_unsupported_syntax, ast_kind_name(e->kind));
  }
}

void sema_charge(sema *s, size_t steps) { s->steps += (int64_t)steps; }

bool sema_step(sema *s, span at) {
  if (s->stop) return false;
  if (++s->steps <= MAX_STEPS && s->depth < MAX_DEPTH) return true;
  s->stop = true;
  sema_fail(s, at, s->depth < MAX_DEPTH ? &D_too_many_steps : &D_too_deep_eval);
  return false;
}

lang_value *sema_eval(sema *s, const ast_node *e) {
  if (!sema_step(s, e->at)) return s->unit->poison;
  s->depth++;
  s->b.at = sema_place(s, e->at);
  lang_value *v = eval_node(s, e);
  s->depth--;
  if (s->hinted.n && sema_is_tensor(v)) {
    tir_value *t = sema_hinted(s, v->u.tensor);
    if (t != v->u.tensor) v = sema_tensor(s, t);
  }
  return v;
}
