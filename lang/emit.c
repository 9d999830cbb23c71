/* The specialiser's way to the builder: folding of scalars, and the budget.
 *
 * An elementwise op whose operands are all scalar constants becomes a constant at once, through the same tir_eval that
 * the canonicaliser and the interpreter use. This is not for speed: it is what keeps `n = BLOCK // 2` usable as a size
 * and `flag = X is not None` as a compile-time condition. Approximate functions and divisions of floats are left alone,
 * because the GPU's result may differ from ours in the last bit. */
#include "lang/sema.h"

#include <string.h>

void sema_count(sema *s, int n) {
  int limit = s->opt && s->opt->max_ops > 0 ? s->opt->max_ops : 100000;
  s->n_ops += n;
  if (s->n_ops > limit && !s->stop) {
    s->stop = true;
    diag *d = sema_report(s, s->b.at, &D_too_many_ops, limit);
    diag_fix(d, s->b.at,
             "an unrolled loop (static_range) or a recursion makes too much code; use range, or smaller steps");
  }
}

static bool folds(tir_opcode code) {
  if (!(tir_ops[code].flags & OPF_ELT) || tir_ops[code].effect != FX_PURE) return false;
  switch (code) {
    case OP_fma:
    case OP_sqrt:
    case OP_rsqrt:
    case OP_exp:
    case OP_exp2:
    case OP_log:
    case OP_log2:
    case OP_sin:
    case OP_cos:
    case OP_erf:
    case OP_tanh:
    case OP_addptr: return false;
    default: return true;
  }
}

static tir_value *fold(sema *s, tir_opcode code, int n_in, tir_value *const *in, const tir_type *type) {
  if (!folds(code) || n_in > 3 || type->kind != TY_SCALAR) return NULL;
  uint64_t word[3], result = 0;
  tir_dtype dt[3];
  const void *at[3];
  for (int i = 0; i < n_in; i++) {
    if (in[i]->type->kind != TY_SCALAR || !tir_is_const(in[i])) return NULL;
    word[i] = tir_attr_of(in[i]->def, ATTR_value)->scalar.bits; /* little-endian: the element's bytes come first */
    dt[i] = in[i]->type->dtype;
    at[i] = &word[i];
  }
  if (code == OP_div && dt_is_float(type->dtype)) return NULL;
  if (tir_eval(code, n_in, dt, at, type->dtype, &result, 1, (tir_eval_opts){0}) != 0) return NULL; /* x / 0 */
  return tir_const(&s->b, type, (tir_scalar){result});
}

tir_value *sema_emit(sema *s, tir_opcode code, int n_in, tir_value *const *in, const tir_type *type) {
  sema_count(s, 1);
  const tir_type *result = type;
  if (!result) {
    const tir_type *types[4];
    const char *why = NULL;
    for (int i = 0; i < n_in; i++) types[i] = in[i]->type;
    result = tir_infer_type(s->cx, code, n_in, types, &why);
    if (!result) base_panic("specialise: %s: %s", tir_ops[code].name, why ? why : "no type");
  }
  tir_value *constant = fold(s, code, n_in, in, result);
  return constant ? constant : tir_build1(&s->b, code, n_in, in, type);
}

tir_value *sema_emit1(sema *s, tir_opcode code, tir_value *x) { return sema_emit(s, code, 1, &x, NULL); }

tir_value *sema_emit2(sema *s, tir_opcode code, tir_value *x, tir_value *y) {
  tir_value *in[2] = {x, y};
  return sema_emit(s, code, 2, in, NULL);
}

/* ---- hints ---- */

tir_value *sema_hint(sema *s, const char *kind, tir_value *v, int n, const int64_t *values) {
  tir_value *r = sema_emit(s, OP_hint, 1, &v, v->type);
  tir_set_str(r->def, ATTR_kind, kind);
  tir_set_ints(r->def, ATTR_values, n, values);
  if (tir_is_const(v)) return r; /* everything is known of it; a use that is no constant would know less */
  while (s->hinted.n <= (int)v->id) VEC_PUSH(s->a, s->hinted, NULL);
  s->hinted.at[v->id] = r;
  return r;
}

/* Ops are made in program order, so that one in a region around here comes before what is made next. */
tir_value *sema_hinted(const sema *s, tir_value *v) {
  while ((int)v->id < s->hinted.n) {
    tir_value *r = s->hinted.at[v->id];
    if (!r || !tir_region_contains(r->def->parent, s->b.region)) break;
    v = r;
  }
  return v;
}

tir_value *sema_zero(sema *s, const tir_type *t) {
  sema_count(s, 1);
  if (!tir_is_ptr(t)) return tir_const(&s->b, t, (tir_scalar){0});
  tir_value *address = tir_const(&s->b, tir_with_elem(s->cx, t, tir_scalar_type(s->cx, DT_i64)), (tir_scalar){0});
  return tir_cast(&s->b, address, tir_elem(t));
}
