/* Operators on tensors: how two operands come to one type and one shape, and which op that is.
 *
 * The promotion rules are Triton's, case by case (the numbers R0 .. R6 are those of the language reference):
 *   R0 one operand is a number written in the program, of a kind (bool < int < float) not above the tensor's: the
 * tensor's type wins and the number is converted. / // % of f16 and bf16 give f32. A number of a higher kind takes its
 * own type (int: i32 u32 i64 u64, the first that holds it; float: f32, or f64 if f32 cannot hold it) and then: R1 f64
 * with anything is f64   R2 f32 with anything is f32   R3 f16 with anything is f16 (/ // %: f32) R4 bf16 with bf16 is
 * bf16 (/ // %: f32), with anything else left f32   R5 equal f8 stay, different ones are f16 R6 ints: the wider; of one
 * width the unsigned one. / // % of different signs is an error. i1 is unsigned. Comparisons, minimum and the like
 * first give numbers their own type, so that R0 never holds for them: that a comparison of f16 with 1.0 happens in f32
 * keeps values, that maximum(f16, 0.0) is f32 surprises, and is so in Triton. */
#include "lang/sema.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------------------------- */

bool sema_literal_dtype(const lang_value *v, tir_dtype *out) {
  if (v->kind == LANG_BOOL) {
    *out = DT_i1;
    return true;
  }
  if (v->kind == LANG_FLOAT) {
    double m = fabs(v->u.f);
    *out = m == 0 || isinf(m) || isnan(m) || (m >= FLT_MIN && m <= FLT_MAX) ? DT_f32 : DT_f64;
    return true;
  }
  if (v->u.i >= INT32_MIN && v->u.i <= INT32_MAX)
    *out = DT_i32;
  else if (v->u.i >= 0 && v->u.i <= UINT32_MAX)
    *out = DT_u32;
  else if (v->u.i >= INT64_MIN && v->u.i <= INT64_MAX)
    *out = DT_i64;
  else if (v->u.i >= 0 && v->u.i <= (lang_int)UINT64_MAX)
    *out = DT_u64;
  else
    return false;
  return true;
}

static tir_scalar encode(const lang_value *v, tir_dtype d) {
  if (v->kind == LANG_FLOAT) return tir_scalar_float(d, v->u.f);
  lang_int i = v->kind == LANG_BOOL ? (lang_int)v->u.b : v->u.i;
  return dt_is_float(d) ? tir_scalar_float(d, (double)i) : tir_scalar_int(d, (int64_t)(uint64_t)i);
}

/* A number as a scalar of a dtype that can hold it; floats do not become integers here. NULL: reported. */
tir_value *sema_number(sema *s, span at, lang_value *v, tir_dtype d) {
  if (dt_is_int(d) && v->kind == LANG_FLOAT) {
    if (!(fabs(v->u.f) < 9e18) || v->u.f != floor(v->u.f)) {
      sema_fail(s, at, &D_literal_range, lang_value_text(s->a, v), tir_dtypes[d].text);
      return NULL;
    }
    return sema_number(s, at, sema_int(s, (lang_int)v->u.f), d);
  }
  if (dt_is_int(d) && v->kind == LANG_INT && d != DT_i1) {
    int bits = tir_dtypes[d].bits;
    lang_int low = dt_is_signed(d) ? -((lang_int)1 << (bits - 1)) : 0,
             high = ((lang_int)1 << (dt_is_signed(d) ? bits - 1 : bits)) - 1;
    if (v->u.i < low || v->u.i > high) {
      if (v->u.i < 0 && !dt_is_signed(d))
        sema_fail(s, at, &D_negative_unsigned, lang_value_text(s->a, v), tir_dtypes[d].text);
      else
        sema_fail(s, at, &D_literal_range, lang_value_text(s->a, v), tir_dtypes[d].text);
      return NULL;
    }
  }
  sema_count(s, 1);
  tir_scalar bits = d == DT_i1 && v->kind == LANG_INT ? (tir_scalar){v->u.i != 0} : encode(v, d);
  return tir_const(&s->b, tir_scalar_type(s->cx, d), bits);
}

lang_value *sema_lift(sema *s, span at, lang_value *v) {
  if (sema_is_poison(v) || sema_is_tensor(v)) return v;
  if (!sema_is_number(v)) return sema_fail(s, at, &D_not_a_tensor, value_describe(s->a, v));
  if (!s->fn) return sema_fail(s, at, &D_tensor_outside, value_describe(s->a, v));
  tir_dtype d;
  if (!sema_literal_dtype(v, &d)) return sema_fail(s, at, &D_int_nonrepresentable, lang_value_text(s->a, v));
  tir_value *t = sema_number(s, at, v, d);
  return t ? sema_tensor(s, t) : s->unit->poison;
}

/* ---- promotion ------------------------------------------------------------------------------------------------ */

static int kind_rank(tir_dtype d) { return d == DT_i1 ? 0 : dt_is_int(d) ? 1 : 2; }
static bool is_f8(tir_dtype d) { return d == DT_f8e4m3 || d == DT_f8e5m2; }
static bool is_half(tir_dtype d) { return d == DT_f16 || d == DT_bf16; }

tir_dtype sema_promoted(tir_dtype x, tir_dtype y, sema_promotion mode, bool *ok) {
  bool div = mode == PROMOTE_DIV;
  *ok = true;
  if (x == DT_f64 || y == DT_f64) return DT_f64;
  if (x == DT_f32 || y == DT_f32) return DT_f32;
  if (x == DT_f16 || y == DT_f16) return div ? DT_f32 : DT_f16;
  if (x == DT_bf16 || y == DT_bf16) return x == y && !div ? DT_bf16 : DT_f32;
  if (is_f8(x) && is_f8(y)) return x == y ? x : DT_f16;
  if (is_f8(x) || is_f8(y)) {
    *ok = false;
    return x;
  }
  bool sx = dt_is_signed(x), sy = dt_is_signed(y);
  int wx = tir_dtypes[x].bits, wy = tir_dtypes[y].bits;
  if (sx == sy) return wx >= wy ? x : y;
  if (div) *ok = false;
  return sx ? (wy >= wx ? y : x) : (wx >= wy ? x : y);
}

static bool bad_operands(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  sema_fail(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
  return false;
}

static bool is_number_tensor(const lang_value *v) { return v->kind == LANG_TENSOR && !tir_is_ptr(v->u.tensor->type); }

bool sema_unify(sema *s, span at, ast_op op, sema_promotion mode, lang_value *x, lang_value *y, tir_value **tx,
                tir_value **ty) {
  if (sema_is_poison(x) || sema_is_poison(y)) return false;
  if (!(sema_is_number(x) || is_number_tensor(x)) || !(sema_is_number(y) || is_number_tensor(y)))
    return bad_operands(s, at, op, x, y);
  bool weak_x = sema_is_number(x), weak_y = sema_is_number(y), ok = true;
  tir_dtype dx, dy, d;
  lang_value *weak = weak_x ? x : y;
  if (!(weak_x ? sema_literal_dtype(x, &dx) : (dx = tir_dtype_of(x->u.tensor->type), true)) ||
      !(weak_y ? sema_literal_dtype(y, &dy) : (dy = tir_dtype_of(y->u.tensor->type), true))) {
    sema_fail(s, at, &D_int_nonrepresentable, lang_value_text(s->a, weak));
    return false;
  }
  bool adopts = weak_x != weak_y && kind_rank(weak_x ? dx : dy) <= kind_rank(weak_x ? dy : dx);
  if (adopts) {
    d = weak_x ? dy : dx;
    if (mode == PROMOTE_DIV && is_half(d)) d = DT_f32;
  } else {
    d = sema_promoted(dx, dy, mode, &ok);
  }
  if (!ok) {
    if (dt_is_int(dx) && dt_is_int(dy)) {
      diag *e = sema_report(s, at, &D_mixed_signs, ast_op_text(op), tir_dtypes[dx].text, tir_dtypes[dy].text);
      diag_fix(e, sema_place(s, at), "convert one operand: x.to(%s)", tir_dtypes[dt_is_signed(dx) ? dx : dy].text);
      return false;
    }
    return bad_operands(s, at, op, x, y);
  }
  *tx = weak_x ? sema_number(s, at, x, d) : sema_cast(s, x->u.tensor, d);
  *ty = weak_y ? sema_number(s, at, y, d) : sema_cast(s, y->u.tensor, d);
  if (!*tx || !*ty) return false;
  tir_value *pair[2] = {*tx, *ty};
  if (!sema_broadcast(s, at, 2, pair)) return false;
  *tx = pair[0];
  *ty = pair[1];
  return true;
}

/* ---- shapes --------------------------------------------------------------------------------------------------- */

bool sema_check_shape(sema *s, span at, int rank, const int64_t *shape) {
  const char *why = rank == 0 ? NULL : tir_shape_problem(s->cx, rank, shape);
  if (!why) return true;
  sema_fail(s, at, &D_bad_shape, why);
  return false;
}

tir_value *sema_broadcast_to(sema *s, span at, tir_value *v, int rank, const int64_t *shape) {
  if (rank == 0) return v;
  if (!sema_check_shape(s, at, rank, shape)) return NULL;
  const tir_type *want = tir_tile_type(s->cx, tir_elem(v->type), rank, shape, NULL);
  if (want == v->type) return v;
  sema_count(s, 2);
  if (v->type->kind != TY_TILE) {
    if (tir_is_const(v) && !tir_is_ptr(v->type)) return tir_const(&s->b, want, tir_attr_of(v->def, ATTR_value)->scalar);
    return tir_splat(&s->b, v, want);
  }
  while (v->type->rank < rank) v = tir_expand_dims(&s->b, v, 0);
  return tir_same_shape(v->type, want) ? v : tir_broadcast(&s->b, v, rank, shape);
}

bool sema_broadcast(sema *s, span at, int n, tir_value **v) {
  int rank = 0;
  int64_t shape[TIR_MAX_RANK];
  for (int k = 0; k < n; k++) {
    const tir_type *t = v[k]->type;
    if (t->rank > rank) {
      for (int i = rank - 1; i >= 0; i--) shape[i + t->rank - rank] = shape[i];
      for (int i = 0; i < t->rank - rank; i++) shape[i] = 1;
      rank = t->rank;
    }
    int lead = rank - t->rank;
    for (int i = 0; i < t->rank; i++) {
      int64_t have = t->shape[i];
      if (shape[lead + i] == 1) shape[lead + i] = have;
      if (have == 1 || have == shape[lead + i]) continue;
      const tir_type *other = v[0]->type;
      diag *d = sema_report(s, at, &D_shape_mismatch, tir_type_text(s->a, other), tir_type_text(s->a, t), lead + i,
                            (long long)shape[lead + i], (long long)have);
      if (other->rank == 1 && t->rank == 1)
        diag_fix(d, sema_place(s, at), "an outer product is written x[:, None] and y[None, :]");
      else if (other->rank != t->rank)
        diag_fix(d, sema_place(s, at), "shapes are aligned at their last axes; add one with x[:, None]");
      return false;
    }
  }
  for (int k = 0; k < n; k++)
    if (!(v[k] = sema_broadcast_to(s, at, v[k], rank, shape))) return false;
  return true;
}

/* ---- casts ---------------------------------------------------------------------------------------------------- */

tir_value *sema_cast(sema *s, tir_value *v, tir_dtype d) {
  if (!tir_is_ptr(v->type) && tir_elem(v->type)->dtype == d) return v;
  return sema_emit(s, OP_cast, 1, &v, tir_with_elem(s->cx, v->type, tir_scalar_type(s->cx, d)));
}

bool sema_check_dtype(sema *s, span at, tir_dtype d) {
  if (d != DT_f8e4m3 || !s->opt || s->opt->has_f8e4m3) return true;
  sema_fail(s, at, &D_dtype_unsupported, tir_dtypes[d].text, s->opt->target ? s->opt->target : "this target");
  return false;
}

static int elem_bits(const tir_type *e) { return e->kind == TY_PTR ? 64 : tir_dtypes[e->dtype].bits; }

lang_value *sema_cast_checked(sema *s, span at, lang_value *v, const tir_type *elem, const char *rounding,
                              bool bitcast) {
  v = sema_lift(s, at, v);
  if (sema_is_poison(v)) return v;
  tir_value *t = v->u.tensor;
  const tir_type *from = tir_elem(t->type), *to = elem;
  if (to->kind == TY_SCALAR && !sema_check_dtype(s, at, to->dtype)) return s->unit->poison;
  bool pointers = from->kind == TY_PTR || to->kind == TY_PTR;
  bool narrows =
      !pointers && !bitcast && dt_is_float(from->dtype) && dt_is_float(to->dtype) && elem_bits(from) > elem_bits(to);
  if (rounding && strcmp(rounding, "rtne") != 0 && strcmp(rounding, "rtz") != 0)
    return sema_fail(s, at, &D_bad_rounding, rounding);
  if (rounding && !narrows)
    return sema_fail(s, at, &D_rounding_not_narrowing, tir_type_text(s->a, from), tir_type_text(s->a, to));
  if (from == to) return v;
  if (bitcast && !(from->kind == TY_PTR && to->kind == TY_PTR)) {
    if (elem_bits(from) != elem_bits(to))
      return sema_fail(s, at, &D_bitcast_size, tir_type_text(s->a, from), elem_bits(from), tir_type_text(s->a, to),
                       elem_bits(to));
    return sema_tensor(s, sema_emit(s, pointers ? OP_cast : OP_bitcast, 1, &t, tir_with_elem(s->cx, t->type, to)));
  }
  if (from->kind == TY_PTR && to->kind == TY_SCALAR) {
    if (to->dtype != DT_i64 && to->dtype != DT_u64 && to->dtype != DT_i1)
      return sema_fail(s, at, &D_bad_cast, tir_type_text(s->a, from), tir_type_text(s->a, to));
    if (to->dtype == DT_i1) {
      t = sema_emit(s, OP_cast, 1, &t, tir_with_elem(s->cx, t->type, tir_scalar_type(s->cx, DT_i64)));
      return sema_tensor(s, sema_emit2(s, OP_ne, t, sema_zero(s, t->type)));
    }
  } else if (from->kind == TY_SCALAR && to->kind == TY_PTR) {
    if (dt_is_float(from->dtype))
      return sema_fail(s, at, &D_bad_cast, tir_type_text(s->a, from), tir_type_text(s->a, to));
    if (from->dtype != DT_u64) t = sema_cast(s, t, DT_i64);
  }
  tir_value *in[1] = {t};
  if (!rounding || strcmp(rounding, "rtz") != 0)
    return sema_tensor(s, sema_emit(s, OP_cast, 1, in, tir_with_elem(s->cx, t->type, to)));
  sema_count(s, 1);
  tir_value *r = tir_build1(&s->b, OP_cast, 1, in, tir_with_elem(s->cx, t->type, to));
  tir_set_str(r->def, ATTR_rounding, "rtz");
  return sema_tensor(s, r);
}

/* ---- binary operators ------------------------------------------------------------------------------------------ */

static lang_value *pointer_arith(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  lang_value *p = x, *offset = y;
  if (sema_is_number(x) || !tir_is_ptr(x->u.tensor->type)) p = y, offset = x;
  bool offset_is_ptr = sema_is_tensor(offset) && tir_is_ptr(offset->u.tensor->type);
  if (offset_is_ptr && op == AOP_ADD) {
    diag *d = sema_report(s, at, &D_pointer_sum, value_describe(s->a, x), value_describe(s->a, y));
    diag_fix(d, sema_place(s, at), "a pointer takes an integer offset");
    return s->unit->poison;
  }
  if ((op != AOP_ADD && op != AOP_SUB) || offset_is_ptr || (op == AOP_SUB && p != x)) {
    bad_operands(s, at, op, x, y);
    return s->unit->poison;
  }
  offset = sema_lift(s, at, offset);
  if (sema_is_poison(offset)) return offset;
  tir_value *pair[2] = {p->u.tensor, offset->u.tensor};
  tir_dtype d = tir_dtype_of(pair[1]->type);
  if (dt_is_float(d)) {
    diag *e = sema_report(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
    diag_fix(e, sema_place(s, at), "offsets are integers; for a whole quotient write // instead of /");
    return s->unit->poison;
  }
  if (d == DT_i1) pair[1] = sema_cast(s, pair[1], DT_i32);
  if (op == AOP_SUB) {
    if (!dt_is_signed(tir_dtype_of(pair[1]->type))) pair[1] = sema_cast(s, pair[1], DT_i64);
    pair[1] = sema_emit1(s, OP_neg, pair[1]);
  }
  if (!sema_broadcast(s, at, 2, pair)) return s->unit->poison;
  return sema_tensor(s, sema_emit2(s, OP_addptr, pair[0], pair[1]));
}

static bool is_pointer(const lang_value *v) { return v->kind == LANG_TENSOR && tir_is_ptr(v->u.tensor->type); }

static tir_opcode arith_op(ast_op op, tir_dtype d) {
  bool bit = d == DT_i1; /* one-bit integers wrap: + and - are xor, * is and */
  switch (op) {
    case AOP_ADD: return bit ? OP_xor : OP_add;
    case AOP_SUB: return bit ? OP_xor : OP_sub;
    case AOP_MUL: return bit ? OP_and : OP_mul;
    case AOP_DIV:
    case AOP_FLOORDIV: return OP_div;
    case AOP_MOD: return OP_rem;
    case AOP_BITAND: return OP_and;
    case AOP_BITOR: return OP_or;
    case AOP_BITXOR: return OP_xor;
    case AOP_SHL: return OP_shl;
    default: return OP_shr;
  }
}

lang_value *sema_binary(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  if (sema_is_poison(x) || sema_is_poison(y)) return s->unit->poison;
  if (!sema_is_tensor(x) && !sema_is_tensor(y)) return const_binary(s, at, op, x, y);
  if (op == AOP_MATMUL || op == AOP_POW) {
    diag *d = sema_report(s, at, &D_operator_unsupported, ast_op_text(op));
    diag_fix(d, sema_place(s, at), op == AOP_POW ? "multiply, or write exp2(log2(x) * y)" : "write dot(a, b)");
    return s->unit->poison;
  }
  if ((is_pointer(x) && (sema_is_tensor(y) || sema_is_number(y))) ||
      (is_pointer(y) && (sema_is_tensor(x) || sema_is_number(x))))
    return pointer_arith(s, at, op, x, y);

  bool divides = op == AOP_DIV || op == AOP_FLOORDIV || op == AOP_MOD;
  tir_value *tx, *ty;
  if (!sema_unify(s, at, op, divides ? PROMOTE_DIV : PROMOTE_ARITH, x, y, &tx, &ty)) return s->unit->poison;
  tir_dtype d = tir_dtype_of(tx->type);
  bool integers_only =
      op == AOP_FLOORDIV || op == AOP_BITAND || op == AOP_BITOR || op == AOP_BITXOR || op == AOP_SHL || op == AOP_SHR;
  if (integers_only && dt_is_float(d)) {
    diag *e = sema_report(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
    if (op == AOP_FLOORDIV) diag_fix(e, sema_place(s, at), "// works on integers; write floor(x / y) for floats");
    return s->unit->poison;
  }
  if (op == AOP_DIV && dt_is_int(d)) {
    tx = sema_cast(s, tx, DT_f32);
    ty = sema_cast(s, ty, DT_f32);
    d = DT_f32;
  }
  tir_value *r = sema_emit2(s, arith_op(op, d), tx, ty);
  if (op == AOP_DIV && d == DT_f32 && r->def && r->def->code == OP_div) tir_set_int(r->def, ATTR_approx, 1);
  return sema_tensor(s, r);
}

/* ---- comparing, logic, unary ------------------------------------------------------------------------------------ */

static tir_opcode compare_op(ast_op op) {
  switch (op) {
    case AOP_EQ: return OP_eq;
    case AOP_NE: return OP_ne;
    case AOP_LT: return OP_lt;
    case AOP_LE: return OP_le;
    case AOP_GT: return OP_gt;
    default: return OP_ge;
  }
}

lang_value *sema_compare(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  if (sema_is_poison(x) || sema_is_poison(y)) return s->unit->poison;
  if (!sema_is_tensor(x) && !sema_is_tensor(y)) return const_compare(s, at, op, x, y);
  if (op == AOP_IS || op == AOP_IS_NOT) return sema_bool(s, (x == y) == (op == AOP_IS));
  if ((op == AOP_EQ || op == AOP_NE) &&
      (x->kind == LANG_NONE || y->kind == LANG_NONE || x->kind == LANG_STR || y->kind == LANG_STR))
    return sema_bool(s, op == AOP_NE);
  if (op == AOP_IN || op == AOP_NOT_IN) return sema_fail(s, at, &D_operator_unsupported, ast_op_text(op));
  if (is_pointer(x) || is_pointer(y)) {
    diag *d = sema_report(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
    diag_fix(d, sema_place(s, at), "compare addresses as integers: p.to(i64)");
    return s->unit->poison;
  }
  if (sema_is_number(x)) x = sema_lift(s, at, x);
  if (sema_is_number(y)) y = sema_lift(s, at, y);
  tir_value *tx, *ty;
  if (!sema_unify(s, at, op, PROMOTE_ARITH, x, y, &tx, &ty)) return s->unit->poison;
  return sema_tensor(s, sema_emit2(s, compare_op(op), tx, ty));
}

static bool is_i1(const lang_value *v) {
  return v->kind == LANG_TENSOR && !tir_is_ptr(v->u.tensor->type) && tir_dtype_of(v->u.tensor->type) == DT_i1;
}

lang_value *sema_logical(sema *s, span at, bool is_and, lang_value *x, lang_value *y) {
  x = sema_lift(s, at, x);
  y = sema_lift(s, at, y);
  if (sema_is_poison(x) || sema_is_poison(y)) return s->unit->poison;
  if (!is_i1(x) || !is_i1(y)) {
    diag *d =
        sema_report(s, at, &D_logic_not_bool, is_and ? "and" : "or", value_describe(s->a, x), value_describe(s->a, y));
    diag_fix(d, sema_place(s, at), "compare first: (x != 0)");
    return s->unit->poison;
  }
  tir_value *pair[2] = {x->u.tensor, y->u.tensor};
  if (!sema_broadcast(s, at, 2, pair)) return s->unit->poison;
  return sema_tensor(s, sema_emit2(s, is_and ? OP_and : OP_or, pair[0], pair[1]));
}

static tir_value *ones(sema *s, const tir_type *t) {
  sema_count(s, 1);
  return tir_const(&s->b, t, tir_scalar_int(tir_dtype_of(t), -1));
}

lang_value *sema_unary(sema *s, span at, ast_op op, lang_value *x) {
  if (sema_is_poison(x)) return x;
  if (!sema_is_tensor(x)) return const_unary(s, at, op, x);
  tir_value *t = x->u.tensor;
  bool pointer = is_pointer(x);
  tir_dtype d = tir_dtype_of(t->type);
  if (pointer || (op == AOP_INVERT && dt_is_float(d)))
    return sema_fail(s, at, &D_bad_unary, ast_op_text(op), value_describe(s->a, x));
  switch (op) {
    case AOP_POS: return x;
    case AOP_NEG: return d == DT_i1 ? x : sema_tensor(s, sema_emit1(s, OP_neg, t));
    case AOP_INVERT: return sema_tensor(s, sema_emit2(s, OP_xor, t, ones(s, t->type)));
    default:
      if (d != DT_i1) {
        diag *e = sema_report(s, at, &D_bad_unary, "not", value_describe(s->a, x));
        diag_fix(e, sema_place(s, at), "compare instead: x == 0");
        return s->unit->poison;
      }
      return sema_tensor(s, sema_emit2(s, OP_xor, t, ones(s, t->type)));
  }
}

lang_value *sema_condition(sema *s, span at, lang_value *v, const char *what) {
  if (sema_is_poison(v)) return v;
  lang_value *known = sema_known(s, v);
  bool truth;
  if (sema_is_tensor(v) && known) return sema_bool(s, const_truth(known, &truth) && truth);
  if (v->kind == LANG_NONE || v->kind == LANG_BOOL || v->kind == LANG_INT)
    return sema_bool(s, const_truth(v, &truth) && truth);
  if (!sema_is_tensor(v)) {
    diag *d = sema_report(s, at, &D_bad_condition, what, value_describe(s->a, v));
    if (v->kind == LANG_FLOAT) diag_fix(d, sema_place(s, at), "compare it: x != 0.0");
    return s->unit->poison;
  }
  tir_value *t = v->u.tensor;
  if (t->type->kind == TY_TILE) {
    if (t->type->numel != 1) {
      diag *d = sema_report(s, at, &D_ambiguous_condition, what, value_describe(s->a, v));
      diag_fix(d, sema_place(s, at),
               "choose per element with where(c, x, y), or reduce the condition to a scalar, as in max(c, axis=0)");
      return s->unit->poison;
    }
    t = sema_emit(s, OP_unsplat, 1, &t, tir_elem(t->type));
  }
  if (tir_is_ptr(t->type)) t = sema_emit(s, OP_cast, 1, &t, tir_scalar_type(s->cx, DT_i64));
  if (tir_dtype_of(t->type) != DT_i1) t = sema_emit2(s, OP_ne, t, sema_zero(s, t->type));
  return sema_tensor(s, t);
}
