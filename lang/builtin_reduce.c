/* Builtins across elements: reduce and dot. */
#include "lang/builtin.h"

#include <string.h>
#include <strings.h>

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* One reduction of n tiles along an axis. The combining function is inlined into the op's region on 2n scalars. */
static bool reduce_axis(sema *s, const sema_call_info *c, int n, tir_value **t, int axis) {
  const tir_type *from = t[0]->type, *types[BUILTIN_MAX_PARAMS];
  int64_t shape[TIR_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < from->rank; i++)
    if (i != axis) shape[rank++] = from->shape[i];
  for (int i = 0; i < n; i++) {
    const tir_type *e = tir_elem(t[i]->type);
    types[i] = rank ? tir_tile_type(s->cx, e, rank, shape, NULL) : e;
  }
  sema_count(s, 2);
  tir_op *op = tir_build(&s->b, OP_reduce, n, t, n, types);
  tir_set_int(op, ATTR_axis, axis);
  tir_region *outer = s->b.region, *r = op->regions[0];
  lang_value *args[2 * BUILTIN_MAX_PARAMS];
  for (int i = 0; i < 2 * n; i++) args[i] = sema_tensor(s, tir_region_add_arg(r, tir_elem(t[i % n]->type), s->b.at));
  s->b.region = r;
  lang_value *v = sema_call_values(s, c->place[2], c->arg[2], 2 * n, args);
  sema_tensors out = {0};
  bool ok = !sema_is_poison(v);
  if (ok) {
    v = sema_decay(s, c->place[2], v);
    sema_flatten(s, v, &out);
    bool fits = out.n == n && (n == 1 ? v->kind == LANG_TENSOR : v->kind == LANG_TUPLE && v->u.items.n == n);
    for (int i = 0; i < n && fits; i++) fits = out.at[i]->type == tir_elem(t[i]->type);
    if (!fits) {
      lang_value **wanted = ARENA_ARRAY(s->a, lang_value *, n);
      for (int i = 0; i < n; i++) wanted[i] = sema_type(s, tir_elem(t[i]->type));
      sema_fail(s, c->place[2], &D_combine_result, lang_value_text(s->a, n == 1 ? wanted[0] : sema_tuple(s, wanted, n)),
                lang_value_text(s->a, v));
      ok = false;
    }
  }
  for (tir_op *o = r->first; o && ok; o = o->next)
    if (!tir_is_pure(o)) {
      sema_fail(s, c->place[2], &D_combine_effects, tir_ops[o->code].name);
      ok = false;
    }
  if (!ok) {
    out.n = 0;
    for (int i = 0; i < n; i++) VEC_PUSH(s->a, out, r->args[i]);
  }
  tir_build(&s->b, OP_yield, n, out.at, 0, NULL);
  s->b.region = outer;
  for (int i = 0; i < n; i++) t[i] = op->out[i];
  return ok;
}

lang_value *builtin_reduce(sema *s, const sema_call_info *c) {
  lang_value *input = c->arg[0];
  bool is_tuple = input->kind == LANG_TUPLE, keep, all = c->arg[1]->kind == LANG_NONE;
  int n = is_tuple ? input->u.items.n : 1, axis = 0;
  if (!arg_bool(s, c, 3, false, &keep)) return s->unit->poison;
  if (n < 1 || n > BUILTIN_MAX_PARAMS) return arg_wrong(s, c, 0, "a tensor or a tuple of tensors", input);
  tir_value *t[BUILTIN_MAX_PARAMS];
  for (int i = 0; i < n; i++) {
    lang_value *v = is_tuple ? input->u.items.at[i] : input;
    if (v->kind != LANG_TENSOR || v->u.tensor->type->kind != TY_TILE || tir_is_ptr(v->u.tensor->type))
      return arg_wrong(s, c, 0, is_tuple ? "tiles of numbers" : "a tile of numbers", v);
    t[i] = v->u.tensor;
    if (i && !tir_same_shape(t[i]->type, t[0]->type))
      return sema_fail(s, c->place[0], &D_reduce_shapes, tir_type_text(s->a, t[0]->type),
                       tir_type_text(s->a, t[i]->type));
  }
  if (c->arg[2]->kind != LANG_FUNCTION && c->arg[2]->kind != LANG_BUILTIN)
    return arg_wrong(s, c, 2, "a function of the file", c->arg[2]);
  int rank = t[0]->type->rank;
  if (!all && !arg_axis(s, c, 1, rank, &axis)) return s->unit->poison;
  /* Over everything: axis by axis from the last, which any associative and commutative function allows. */
  for (int i = all ? rank - 1 : axis; i >= (all ? 0 : axis); i--)
    if (!reduce_axis(s, c, n, t, i)) return s->unit->poison;
  lang_value *out[BUILTIN_MAX_PARAMS];
  for (int i = 0; i < n; i++) {
    for (int k = 0; keep && k < (all ? rank : 1); k++) {
      sema_count(s, 1);
      t[i] = tir_expand_dims(&s->b, t[i], all ? 0 : axis);
    }
    out[i] = sema_tensor(s, t[i]);
  }
  return is_tuple ? sema_tuple(s, out, n) : out[0];
}

/* ---- dot --------------------------------------------------------------------------------------------------------- */

enum { A, B, ACC, PRECISION, TF32, IMPRECISE, OUT };

static bool is_f8(tir_dtype d) { return d == DT_f8e4m3 || d == DT_f8e5m2; }

static bool dot_precision(sema *s, const sema_call_info *c, const char **out) {
  static const char *const known[] = {"ieee", "tf32", "tf32x3", "bf16x3", "bf16x6", NULL};
  const char *text;
  *out = s->opt && s->opt->dot_precision ? s->opt->dot_precision : "ieee";
  if (arg_given(c, TF32)) {
    bool tf32;
    if (arg_given(c, PRECISION)) {
      sema_fail(s, c->place[TF32], &D_dot_precision_twice);
      return false;
    }
    if (!arg_bool(s, c, TF32, true, &tf32)) return false;
    *out = tf32 ? "tf32" : "ieee";
    return true;
  }
  if (!arg_str(s, c, PRECISION, NULL, &text)) return false;
  if (!text) return true;
  for (int i = 0; known[i]; i++)
    if (strcasecmp(known[i], text) == 0) {
      *out = known[i];
      return true;
    }
  sema_fail(s, c->place[PRECISION], &D_bad_choice, "input_precision", text,
            "'ieee', 'tf32', 'tf32x3', 'bf16x3', 'bf16x6'");
  return false;
}

/* Element type of the result. false: reported. */
static bool dot_result(sema *s, const sema_call_info *c, tir_dtype operand, const tir_value *acc, tir_dtype *out) {
  *out = operand == DT_i8 ? DT_i32 : operand == DT_f64 ? DT_f64 : DT_f32;
  bool free = operand == DT_f16 || is_f8(operand); /* these may accumulate in f16 */
  const tir_type *asked = NULL;
  if (arg_given(c, OUT) && !arg_type(s, c, OUT, &asked)) return false;
  if (asked && asked->kind == TY_SCALAR && asked->dtype == DT_bf16) {
    sema_fail(s, c->place[OUT], &D_dot_bf16_out);
    return false;
  }
  if (asked && asked->kind == TY_SCALAR && asked->dtype != *out && !(free && asked->dtype == DT_f16)) {
    /* f16 is what bf16 and f32 operands may ask for and not get, as in Triton: the result stays f32 */
    if (!(asked->dtype == DT_f16 || asked->dtype == DT_f32)) {
      sema_fail(s, c->place[OUT], &D_dot_out_dtype, tir_type_text(s->a, asked), tir_dtypes[operand].text,
                tir_dtypes[*out].text);
      return false;
    }
  } else if (asked && asked->kind == TY_SCALAR) {
    *out = asked->dtype;
  } else if (!asked && acc && free && tir_dtype_of(acc->type) == DT_f16) {
    *out = DT_f16;
  }
  return true;
}

lang_value *builtin_dot(sema *s, const sema_call_info *c) {
  tir_value *a = arg_tensor(s, c, A), *b = arg_tensor(s, c, B), *acc = NULL;
  if (!a || !b) return s->unit->poison;
  const tir_type *ta = a->type, *tb = b->type;
  if (ta->kind != TY_TILE || tb->kind != TY_TILE || tir_is_ptr(ta) || tir_is_ptr(tb) || ta->rank != tb->rank ||
      ta->rank < 2 || ta->rank > 3)
    return sema_fail(s, c->at, &D_dot_rank, tir_type_text(s->a, ta), tir_type_text(s->a, tb));
  int r = ta->rank;
  if (ta->shape[r - 1] != tb->shape[r - 2] || (r == 3 && ta->shape[0] != tb->shape[0])) {
    diag *d = sema_report(s, c->at, &D_dot_shapes, tir_type_text(s->a, ta), tir_type_text(s->a, tb),
                          (long long)ta->shape[r - 1], (long long)tb->shape[r - 2]);
    if (ta->shape[r - 1] == tb->shape[r - 1])
      diag_fix(d, sema_place(s, c->at), "the second operand is [K,N]: transpose it with trans(b)");
    return s->unit->poison;
  }
  tir_dtype da = tir_dtype_of(ta), db = tir_dtype_of(tb);
  if (da != db && !(is_f8(da) && is_f8(db))) {
    diag *d = sema_report(s, c->at, &D_dot_dtypes, tir_dtypes[da].text, tir_dtypes[db].text);
    diag_fix(d, sema_place(s, c->at), "convert one operand: a.to(b.dtype)");
    return s->unit->poison;
  }
  if (!(dt_is_float(da) || da == DT_i8)) return sema_fail(s, c->at, &D_dot_unsupported, tir_dtypes[da].text);
  const char *precision;
  if (!dot_precision(s, c, &precision)) return s->unit->poison;
  if (arg_given(c, ACC) && !(acc = arg_tensor(s, c, ACC))) return s->unit->poison;
  tir_dtype out;
  if (!dot_result(s, c, da, acc, &out)) return s->unit->poison;
  int64_t shape[TIR_MAX_RANK];
  for (int i = 0; i < r - 1; i++) shape[i] = ta->shape[i];
  shape[r - 1] = tb->shape[r - 1];
  if (!sema_check_shape(s, c->at, r, shape)) return s->unit->poison;
  const tir_type *type = tir_tile_type(s->cx, tir_scalar_type(s->cx, out), r, shape, NULL);
  if (acc && acc->type->kind != TY_TILE) acc = sema_broadcast_to(s, c->at, acc, r, shape);
  if (acc && acc->type != type)
    return sema_fail(s, c->place[ACC], &D_dot_acc, tir_type_text(s->a, acc->type), tir_type_text(s->a, type));
  if (!acc) acc = sema_zero(s, type);
  if (is_f8(da) && da != db) { /* the op takes one type: both are exact in f16 */
    a = sema_cast(s, a, DT_f16);
    b = sema_cast(s, b, DT_f16);
  }
  tir_value *in[3] = {a, b, acc};
  tir_value *v = sema_emit(s, OP_dot, 3, in, type);
  if (da == DT_f32) tir_set_str(v->def, ATTR_precision, precision);
  int64_t imprecise;
  if (arg_given(c, IMPRECISE)) {
    if (!arg_int(s, c, IMPRECISE, NULL, &imprecise)) return s->unit->poison;
    if (imprecise < 0 || imprecise > ta->shape[r - 1])
      return sema_fail(s, c->place[IMPRECISE], &D_dot_imprecise, (long long)imprecise, (long long)ta->shape[r - 1]);
    tir_set_int(v->def, ATTR_max_imprecise, imprecise);
  }
  return sema_tensor(s, v);
}
