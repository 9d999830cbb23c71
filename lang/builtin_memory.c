/* load, store, atomics. */
#include "lang/builtin.h"

#include <string.h>

static const tir_type *pointee(const tir_value *p) { return tir_elem(p->type)->elem; }

static bool is_none_or_empty(const lang_value *v) {
  return !v || v->kind == LANG_NONE || (v->kind == LANG_STR && v->u.str.len == 0) ||
         (v->kind == LANG_TUPLE && v->u.items.n == 0);
}

/* The pointer operand; NULL: reported. */
static tir_value *pointer_arg(sema *s, const sema_call_info *c) {
  lang_value *v = c->arg[0];
  if (v->kind == LANG_TENSOR && tir_is_ptr(v->u.tensor->type)) return v->u.tensor;
  diag *d = sema_report(s, c->place[0], &D_not_a_pointer, value_describe(s->a, v), c->builtin->name);
  if (v->kind == LANG_TENSOR || sema_is_number(v))
    diag_fix(d, sema_place(s, c->place[0]),
             "is the parameter declared as a pointer (*f32), and is the base address added?");
  return NULL;
}

/* The mask as an i1 tensor; *out stays NULL where there is none or it is literally True. */
static bool mask_arg(sema *s, const sema_call_info *c, int i, const tir_value *pointer, tir_value **out) {
  *out = NULL;
  lang_value *v = c->arg[i];
  if (!arg_given(c, i) || (v->kind == LANG_BOOL && v->u.b)) return true;
  tir_value *m = arg_tensor(s, c, i);
  if (!m) return false;
  if (tir_is_ptr(m->type) || tir_dtype_of(m->type) != DT_i1) {
    diag *d = sema_report(s, c->place[i], &D_mask_dtype, tir_type_text(s->a, m->type));
    diag_fix(d, sema_place(s, c->place[i]), "a mask is a comparison, such as offs < n, or several joined by &");
    return false;
  }
  if (m->type->kind == TY_TILE && pointer->type->kind != TY_TILE) {
    sema_fail(s, c->place[i], &D_mask_on_scalar, "mask", tir_type_text(s->a, m->type), c->builtin->name);
    return false;
  }
  *out = m;
  return true;
}

static bool option_arg(sema *s, const sema_call_info *c, int i, const char *what, const char *const *allowed,
                       const char **out) {
  const char *text;
  *out = NULL;
  if (!arg_str(s, c, i, "", &text)) return false;
  if (*text == '\0') return true;
  if (*text == '.') text++;
  textbuf b;
  text_init(&b, s->a);
  for (int k = 0; allowed[k]; k++) {
    if (strcmp(allowed[k], text) == 0) {
      *out = allowed[k];
      return true;
    }
    text_printf(&b, "%s'%s'", k ? ", " : "", allowed[k]);
  }
  sema_fail(s, c->place[i], &D_bad_choice, what, c->arg[i]->u.str.s, b.at);
  return false;
}

static void set_text(tir_op *op, tir_attr_key key, const char *text) {
  if (text) tir_set_str(op, key, text);
}

static const char *const evictions[] = {"evict_first", "evict_last", NULL};

/* `other` and `value` in the element type. */
static tir_value *as_element(sema *s, const sema_call_info *c, int i, const tir_type *elem) {
  if (!sema_is_tensor(c->arg[i]) && !sema_is_number(c->arg[i])) {
    arg_wrong(s, c, i, "a tensor or a number", c->arg[i]);
    return NULL;
  }
  lang_value *v = sema_cast_checked(s, c->place[i], c->arg[i], elem, NULL, false);
  return sema_is_poison(v) ? NULL : v->u.tensor;
}

enum { LOAD_MASK = 1, LOAD_OTHER, LOAD_CHECK, LOAD_PADDING, LOAD_CACHE, LOAD_EVICT, LOAD_VOLATILE };

/* Pointers, mask and other; the last two may be NULL. */
static bool load_operands(sema *s, const sema_call_info *c, tir_value *in[3]) {
  tir_value *p = pointer_arg(s, c), *mask, *other = NULL;
  if (!p) return false;
  const tir_type *elem = pointee(p);
  if (elem->kind == TY_SCALAR && !sema_check_dtype(s, c->place[0], elem->dtype)) return false;
  if (!mask_arg(s, c, LOAD_MASK, p, &mask)) return false;
  if (arg_given(c, LOAD_OTHER)) {
    if (!arg_given(c, LOAD_MASK)) {
      sema_fail(s, c->place[LOAD_OTHER], &D_other_without_mask);
      return false;
    }
    other = as_element(s, c, LOAD_OTHER, elem);
    if (!other) return false;
    if (other->type->kind == TY_TILE && p->type->kind != TY_TILE) {
      sema_fail(s, c->place[LOAD_OTHER], &D_mask_on_scalar, "other", tir_type_text(s->a, other->type), "load");
      return false;
    }
    if (!mask) other = NULL; /* mask=True */
  }
  in[0] = p;
  in[1] = mask;
  in[2] = other;
  return sema_broadcast(s, c->at, !mask ? 1 : !other ? 2 : 3, in);
}

lang_value *builtin_load(sema *s, const sema_call_info *c) {
  static const char *const caches[] = {"ca", "cg", "cv", NULL};
  const char *cache, *evict;
  bool is_volatile;
  tir_value *in[3];
  if (!option_arg(s, c, LOAD_CACHE, "cache_modifier", caches, &cache) ||
      !option_arg(s, c, LOAD_EVICT, "eviction_policy", evictions, &evict) ||
      !arg_bool(s, c, LOAD_VOLATILE, false, &is_volatile))
    return s->unit->poison;
  if (c->arg[0]->kind == LANG_BLOCK) {
    if (arg_given(c, LOAD_MASK) || arg_given(c, LOAD_OTHER)) return sema_fail(s, c->at, &D_block_pointer_mask, "load");
    if (!block_load_operands(s, c, LOAD_CHECK, LOAD_PADDING, in)) return s->unit->poison;
  } else {
    if (!is_none_or_empty(c->arg[LOAD_CHECK]) || !is_none_or_empty(c->arg[LOAD_PADDING]))
      return sema_fail(s, c->at, &D_block_pointer_option);
    if (!load_operands(s, c, in)) return s->unit->poison;
  }
  const tir_type *type = tir_with_elem(s->cx, in[0]->type, pointee(in[0]));
  tir_value *r = sema_emit(s, OP_load, !in[1] ? 1 : !in[2] ? 2 : 3, in, type);
  set_text(r->def, ATTR_cache, cache);
  set_text(r->def, ATTR_evict, evict);
  if (is_volatile) tir_set_int(r->def, ATTR_is_volatile, 1);
  return sema_tensor(s, r);
}

/* Value and mask in the pointer's shape, which they may not enlarge. */
static bool fit(sema *s, const sema_call_info *c, int i, const tir_value *p, tir_value **v) {
  const tir_type *t = (*v)->type, *want = p->type;
  bool ok = t->rank <= want->rank;
  for (int k = 0; k < t->rank && ok; k++) {
    int64_t n = want->shape[want->rank - t->rank + k];
    ok = t->shape[k] == 1 || t->shape[k] == n;
  }
  if (!ok) {
    diag *d = sema_report(s, c->place[i], &D_store_shape, c->builtin->name, tir_type_text(s->a, want),
                          tir_type_text(s->a, t));
    if (want->kind != TY_TILE)
      diag_fix(d, sema_place(s, c->place[i]),
               "a single address takes a single value: add a tile of offsets to the pointer, or reduce the value");
    return false;
  }
  *v = sema_broadcast_to(s, c->at, *v, want->rank, want->shape);
  return *v != NULL;
}

static bool writable(sema *s, const sema_call_info *c, const tir_value *p) {
  if (!tir_elem(p->type)->is_const) return true;
  sema_fail(s, c->place[0], &D_store_const, tir_type_text(s->a, p->type));
  return false;
}

enum { STORE_VALUE = 1, STORE_MASK, STORE_CHECK, STORE_CACHE, STORE_EVICT };

/* Pointers, value and mask; the mask may be NULL. */
static bool store_operands(sema *s, const sema_call_info *c, tir_value *in[3]) {
  in[0] = pointer_arg(s, c);
  if (!in[0] || !writable(s, c, in[0])) return false;
  in[1] = as_element(s, c, STORE_VALUE, pointee(in[0]));
  if (!in[1] || !mask_arg(s, c, STORE_MASK, in[0], &in[2])) return false;
  return fit(s, c, STORE_VALUE, in[0], &in[1]) && (!in[2] || fit(s, c, STORE_MASK, in[0], &in[2]));
}

lang_value *builtin_store(sema *s, const sema_call_info *c) {
  static const char *const caches[] = {"wb", "cg", "cs", "wt", NULL};
  const char *cache, *evict;
  tir_value *in[3];
  if (!option_arg(s, c, STORE_CACHE, "cache_modifier", caches, &cache) ||
      !option_arg(s, c, STORE_EVICT, "eviction_policy", evictions, &evict))
    return s->unit->poison;
  if (c->arg[0]->kind == LANG_BLOCK) {
    if (arg_given(c, STORE_MASK)) return sema_fail(s, c->at, &D_block_pointer_mask, "store");
    if (!block_store_operands(s, c, STORE_VALUE, STORE_CHECK, in)) return s->unit->poison;
  } else {
    if (!is_none_or_empty(c->arg[STORE_CHECK])) return sema_fail(s, c->at, &D_block_pointer_option);
    if (!store_operands(s, c, in)) return s->unit->poison;
  }
  sema_count(s, 1);
  tir_op *op = tir_build(&s->b, OP_store, in[2] ? 3 : 2, in, 0, NULL);
  set_text(op, ATTR_cache, cache);
  set_text(op, ATTR_evict, evict);
  return s->unit->none;
}

lang_value *builtin_atomic(sema *s, const sema_call_info *c) {
  enum { VALUE = 1, MASK, SEM, SCOPE };
  static const char *const sems[] = {"relaxed", "acquire", "release", "acq_rel", NULL}, *const scopes[] = {"gpu", "cta",
                                                                                                           "sys", NULL};
  tir_value *p = pointer_arg(s, c), *mask;
  if (!p || !writable(s, c, p)) return s->unit->poison;
  const tir_type *elem = pointee(p);
  if (elem->kind != TY_SCALAR || tir_dtypes[elem->dtype].bits < 16 ||
      (dt_is_int(elem->dtype) && tir_dtypes[elem->dtype].bits < 32))
    return sema_fail(s, c->place[0], &D_atomic_dtype, c->builtin->name, tir_type_text(s->a, elem));
  const char *sem, *scope;
  tir_value *v = as_element(s, c, VALUE, elem);
  if (!v || !mask_arg(s, c, MASK, p, &mask) || !option_arg(s, c, SEM, "sem", sems, &sem) ||
      !option_arg(s, c, SCOPE, "scope", scopes, &scope))
    return s->unit->poison;
  if (!fit(s, c, VALUE, p, &v) || (mask && !fit(s, c, MASK, p, &mask))) return s->unit->poison;
  tir_value *in[3] = {p, v, mask};
  tir_value *r = sema_emit(s, OP_atomic_rmw, mask ? 3 : 2, in, v->type);
  tir_set_str(r->def, ATTR_kind, dt_is_float(elem->dtype) ? "fadd" : "add");
  tir_set_str(r->def, ATTR_sem, sem ? sem : "acq_rel");
  tir_set_str(r->def, ATTR_scope, scope ? scope : "gpu");
  return sema_tensor(s, r);
}
