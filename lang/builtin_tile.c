/* Builtins that make, shape and convert tiles. */
#include "lang/builtin.h"

#include <string.h>

lang_value *builtin_program(sema *s, const sema_call_info *c) {
  int64_t axis;
  if (!arg_int(s, c, 0, NULL, &axis)) return s->unit->poison;
  if (axis < 0 || axis > 2) return sema_fail(s, c->place[0], &D_program_axis, c->builtin->name, (long long)axis);
  tir_value *v = sema_emit(s, (tir_opcode)c->builtin->data, 0, NULL, tir_scalar_type(s->cx, DT_i32));
  tir_set_int(v->def, ATTR_axis, axis);
  return sema_tensor(s, v);
}

lang_value *builtin_arange(sema *s, const sema_call_info *c) {
  int64_t bound[2];
  for (int i = 0; i < 2; i++)
    if (!sema_known_int(s, c->arg[i], &bound[i])) {
      diag *d = sema_report(s, c->place[i], &D_arange_constexpr, value_describe(s->a, c->arg[i]));
      diag_fix(d, sema_place(s, c->place[i]),
               "declare the size as a parameter `NAME: constexpr`, and mask what is too much");
      return s->unit->poison;
    }
  if (bound[1] <= bound[0]) return sema_fail(s, c->at, &D_arange_empty, (long long)bound[0], (long long)bound[1]);
  if (bound[0] < INT32_MIN || bound[1] > INT32_MAX)
    return sema_fail(s, c->at, &D_arange_range, (long long)bound[0], (long long)bound[1]);
  int64_t n = bound[1] - bound[0];
  if (n & (n - 1)) {
    int64_t next = 1;
    while (next < n) next *= 2;
    diag *d = sema_report(s, c->at, &D_arange_power, (long long)n);
    if (next <= TIR_MAX_NUMEL)
      diag_fix(d, sema_place(s, c->at), "use %lld elements and a mask: offs < %lld", (long long)next, (long long)n);
    return s->unit->poison;
  }
  if (!sema_check_shape(s, c->at, 1, &n)) return s->unit->poison;
  tir_value *v = sema_emit(s, OP_arange, 0, NULL, tir_tile_type(s->cx, tir_scalar_type(s->cx, DT_i32), 1, &n, NULL));
  tir_set_int(v->def, ATTR_start, bound[0]);
  return sema_tensor(s, v);
}

lang_value *builtin_full(sema *s, const sema_call_info *c) {
  int rank;
  int64_t shape[TIR_MAX_RANK];
  if (!arg_shape(s, c, 0, &rank, shape) || !sema_check_shape(s, c->place[0], rank, shape)) return s->unit->poison;
  lang_value *v = c->arg[1];
  const tir_type *elem = NULL;
  if (c->arg[2]->kind == LANG_NONE) {
    if (!sema_is_tensor(v)) return sema_fail(s, c->place[2], &D_full_dtype);
    elem = tir_elem(v->u.tensor->type);
  } else if (!arg_type(s, c, 2, &elem)) {
    return s->unit->poison;
  }
  tir_value *t;
  if (sema_is_number(v) && elem->kind == TY_SCALAR) {
    t = sema_number(s, c->place[1], v, elem->dtype);
    if (!t) return s->unit->poison;
  } else {
    v = sema_cast_checked(s, c->place[1], v, elem, NULL, false);
    if (sema_is_poison(v)) return v;
    t = v->u.tensor;
    if (t->type->kind == TY_TILE) {
      if (t->type->numel != 1) return arg_wrong(s, c, 1, "a scalar", v);
      t = sema_emit(s, OP_unsplat, 1, &t, elem);
    }
  }
  t = sema_broadcast_to(s, c->at, t, rank, shape);
  return t ? sema_tensor(s, t) : s->unit->poison;
}

lang_value *builtin_cast(sema *s, const sema_call_info *c) {
  const tir_type *elem;
  const char *rounding;
  bool bitcast;
  if (!arg_type(s, c, 1, &elem) || !arg_str(s, c, 2, NULL, &rounding) || !arg_bool(s, c, 3, false, &bitcast))
    return s->unit->poison;
  return sema_cast_checked(s, c->at, c->arg[0], elem, rounding, bitcast);
}

lang_value *builtin_identity(sema *s, const sema_call_info *c) {
  lang_value *known = sema_known(s, c->arg[0]);
  if (value_has_tensor(c->arg[0]) && !known)
    return sema_fail(s, c->place[0], &D_needs_constexpr, "constexpr()", value_describe(s->a, c->arg[0]));
  return known ? known : c->arg[0];
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

lang_value *builtin_broadcast(sema *s, const sema_call_info *c) {
  tir_value *v[2] = {arg_tensor(s, c, 0), arg_tensor(s, c, 1)};
  if (!v[0] || !v[1] || !sema_broadcast(s, c->at, 2, v)) return s->unit->poison;
  lang_value *pair[2] = {sema_tensor(s, v[0]), sema_tensor(s, v[1])};
  return sema_tuple(s, pair, 2);
}

lang_value *builtin_broadcast_to(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  int rank;
  int64_t shape[TIR_MAX_RANK];
  if (!v || !arg_shape(s, c, 1, &rank, shape)) return s->unit->poison;
  const tir_type *t = v->type;
  if (t->kind == TY_TILE) {
    if (t->rank != rank) return sema_fail(s, c->at, &D_broadcast_rank, tir_type_text(s->a, t), rank);
    for (int i = 0; i < rank; i++)
      if (t->shape[i] != shape[i] && t->shape[i] != 1)
        return sema_fail(s, c->at, &D_broadcast_size, (long long)shape[i], (long long)t->shape[i], i);
  }
  v = sema_broadcast_to(s, c->at, v, rank, shape);
  return v ? sema_tensor(s, v) : s->unit->poison;
}

lang_value *builtin_expand_dims(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  if (!v) return s->unit->poison;
  int n;
  int64_t axes[TIR_MAX_RANK];
  if (!arg_shape(s, c, 1, &n, axes)) return s->unit->poison;
  int rank = v->type->rank + n;
  if (rank > TIR_MAX_RANK) return sema_fail(s, c->at, &D_rank_limit, TIR_MAX_RANK);
  bool insert[TIR_MAX_RANK] = {false};
  for (int i = 0; i < n; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return sema_fail(s, c->place[1], &D_axis_range, (long long)axes[i], rank);
    if (insert[axis]) return sema_fail(s, c->place[1], &D_duplicate_axis, (long long)axis);
    insert[axis] = true;
  }
  for (int i = 0; i < rank; i++)
    if (insert[i]) {
      sema_count(s, 1);
      v = tir_expand_dims(&s->b, v, i);
    }
  return sema_tensor(s, v);
}

lang_value *builtin_reshape(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  int rank;
  int64_t shape[TIR_MAX_RANK], numel = 1;
  if (!v || !arg_shape(s, c, 1, &rank, shape)) return s->unit->poison;
  if (rank == 0 && v->type->kind != TY_TILE) return sema_tensor(s, v);
  if (!sema_check_shape(s, c->at, rank, shape) || rank == 0)
    return rank == 0 ? arg_wrong(s, c, 1, "a shape", c->arg[1]) : s->unit->poison;
  for (int i = 0; i < rank; i++) numel *= shape[i];
  if (numel != v->type->numel)
    return sema_fail(s, c->at, &D_reshape_count, tir_type_text(s->a, v->type), (long long)v->type->numel,
                     (long long)numel);
  if (v->type->kind != TY_TILE) {
    v = sema_broadcast_to(s, c->at, v, rank, shape);
    return v ? sema_tensor(s, v) : s->unit->poison;
  }
  if (tir_tile_type(s->cx, v->type->elem, rank, shape, NULL) == v->type) return sema_tensor(s, v);
  sema_count(s, 1);
  return sema_tensor(s, tir_reshape(&s->b, v, rank, shape));
}

lang_value *builtin_permute(sema *s, const sema_call_info *c) {
  bool is_trans = c->builtin->data != 0;
  tir_value *v = arg_tensor(s, c, 0);
  int n;
  int64_t dims[TIR_MAX_RANK];
  if (!v || !arg_shape(s, c, 1, &n, dims)) return s->unit->poison;
  int rank = v->type->rank;
  if (is_trans && n == 0) {
    if (rank < 2) return sema_fail(s, c->at, &D_bad_transpose, tir_type_text(s->a, v->type));
    for (int i = 0; i < rank; i++) dims[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    n = rank;
  }
  bool seen[TIR_MAX_RANK] = {false}, ok = n == rank && rank > 0;
  for (int i = 0; i < n && ok; i++) {
    if (dims[i] < 0) dims[i] += rank;
    ok = dims[i] >= 0 && dims[i] < rank && !seen[dims[i]];
    if (ok) seen[dims[i]] = true;
  }
  if (!ok) return sema_fail(s, c->at, &D_bad_permutation, rank - 1, tir_type_text(s->a, v->type));
  sema_count(s, 1);
  return sema_tensor(s, tir_trans(&s->b, v, dims));
}

/* Two tensors side by side in a new last axis. */
static tir_value *joined(sema *s, const sema_call_info *c, tir_value *x, tir_value *y) {
  int rank = x->type->rank;
  int64_t shape[TIR_MAX_RANK + 1];
  for (int i = 0; i < rank; i++) shape[i] = x->type->shape[i];
  shape[rank] = 2;
  return sema_check_shape(s, c->at, rank + 1, shape) ? sema_emit2(s, OP_join, x, y) : NULL;
}

lang_value *builtin_join(sema *s, const sema_call_info *c) {
  tir_value *v[2] = {arg_tensor(s, c, 0), arg_tensor(s, c, 1)};
  if (!v[0] || !v[1]) return s->unit->poison;
  if (tir_elem(v[0]->type) != tir_elem(v[1]->type))
    return sema_fail(s, c->at, &D_join_dtypes, tir_type_text(s->a, v[0]->type), tir_type_text(s->a, v[1]->type));
  if (!sema_broadcast(s, c->at, 2, v)) return s->unit->poison;
  tir_value *r = joined(s, c, v[0], v[1]);
  return r ? sema_tensor(s, r) : s->unit->poison;
}

lang_value *builtin_split(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  if (!v) return s->unit->poison;
  const tir_type *t = v->type;
  if (t->rank < 1 || t->shape[t->rank - 1] != 2) return sema_fail(s, c->at, &D_split_axis, tir_type_text(s->a, t));
  const char *why;
  const tir_type *half = tir_infer_type(s->cx, OP_split, 1, &t, &why), *types[2] = {half, half};
  sema_count(s, 1);
  tir_op *op = tir_build(&s->b, OP_split, 1, &v, 2, types);
  lang_value *pair[2] = {sema_tensor(s, tir_out(op, 0)), sema_tensor(s, tir_out(op, 1))};
  return sema_tuple(s, pair, 2);
}

/* In order, along any axis: joined, the new axis moved before `dim`, and both made one. Layouts follow such moves by
   renaming, so that no element moves between threads here, and can_reorder has nothing to gain. */
lang_value *builtin_cat(sema *s, const sema_call_info *c) {
  enum { DIM = 3 };
  tir_value *x = arg_tensor(s, c, 0), *y = arg_tensor(s, c, 1);
  bool can_reorder;
  if (!x || !y || !arg_bool(s, c, 2, false, &can_reorder)) return s->unit->poison;
  int rank = x->type->rank, dim = 0;
  if (x->type != y->type || rank == 0)
    return sema_fail(s, c->at, &D_cat_types, tir_type_text(s->a, x->type), tir_type_text(s->a, y->type));
  if (arg_given(c, DIM) && !arg_axis(s, c, DIM, rank, &dim)) return s->unit->poison;
  int64_t perm[TIR_MAX_RANK], shape[TIR_MAX_RANK];
  tir_value *pair = joined(s, c, x, y);
  if (!pair) return s->unit->poison;
  for (int i = 0; i <= rank; i++) perm[i] = i < dim ? i : i == dim ? rank : i - 1;
  for (int i = 0; i < rank; i++) shape[i] = x->type->shape[i] * (i == dim ? 2 : 1);
  sema_count(s, 2);
  return sema_tensor(s, tir_reshape(&s->b, tir_trans(&s->b, pair, perm), rank, shape));
}

/* Reverses an axis of 2^k elements: element i goes to i ^ (2^k - 1), so that each bit of the position is flipped by
   exchanging two halves. That is a renaming where the bit is one of registers; where it is not, the layouts bring it
   there. */
lang_value *builtin_flip(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  if (!v) return s->unit->poison;
  const tir_type *t = v->type;
  int rank = t->rank, dim = rank - 1;
  if (rank == 0) return arg_wrong(s, c, 0, "a tile", c->arg[0]);
  if (arg_given(c, 1) && !arg_axis(s, c, 1, rank, &dim)) return s->unit->poison;
  int64_t before = 1, after = 1;
  for (int i = 0; i < rank; i++)
    if (i < dim)
      before *= t->shape[i];
    else if (i > dim)
      after *= t->shape[i];
  for (int64_t half = 1; half < t->shape[dim]; half *= 2) {
    sema_count(s, 6);
    v = tir_reshape(&s->b, v, 3, (int64_t[]){before * (t->shape[dim] / (2 * half)), 2, half * after});
    v = tir_trans(&s->b, v, (int64_t[]){0, 2, 1});
    const char *why;
    const tir_type *one = tir_infer_type(s->cx, OP_split, 1, (const tir_type *const[]){v->type}, &why),
                   *types[2] = {one, one};
    tir_op *op = tir_build(&s->b, OP_split, 1, &v, 2, types);
    v = tir_trans(&s->b, sema_emit2(s, OP_join, tir_out(op, 1), tir_out(op, 0)), (int64_t[]){0, 2, 1});
  }
  return sema_tensor(s, tir_reshape(&s->b, v, rank, t->shape));
}

/* The position of each element along an axis, in the shape of `input`. */
lang_value *builtin_lane_index(sema *s, const sema_call_info *c) {
  tir_value *v = arg_tensor(s, c, 0);
  int axis;
  if (!v || !arg_axis(s, c, 1, v->type->rank, &axis)) return s->unit->poison;
  int64_t n = v->type->shape[axis];
  tir_value *r = sema_emit(s, OP_arange, 0, NULL, tir_tile_type(s->cx, tir_scalar_type(s->cx, DT_i32), 1, &n, NULL));
  tir_set_int(r->def, ATTR_start, 0);
  for (int i = 0; i < v->type->rank; i++)
    if (i != axis) r = tir_expand_dims(&s->b, r, i);
  r = sema_broadcast_to(s, c->at, r, v->type->rank, v->type->shape);
  return r ? sema_tensor(s, r) : s->unit->poison;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

lang_value *builtin_where(sema *s, const sema_call_info *c) {
  lang_value *cond = sema_cast_checked(s, c->place[0], c->arg[0], tir_scalar_type(s->cx, DT_i1), NULL, false);
  if (sema_is_poison(cond)) return cond;
  lang_value *x = c->arg[1], *y = c->arg[2];
  tir_value *v[3] = {cond->u.tensor, NULL, NULL};
  bool px = sema_is_tensor(x) && tir_is_ptr(x->u.tensor->type), py = sema_is_tensor(y) && tir_is_ptr(y->u.tensor->type);
  if (px && py && tir_elem(x->u.tensor->type) == tir_elem(y->u.tensor->type)) {
    v[1] = x->u.tensor;
    v[2] = y->u.tensor;
  } else if (!((sema_is_tensor(x) || sema_is_number(x)) && (sema_is_tensor(y) || sema_is_number(y))) || px || py) {
    return sema_fail(s, c->at, &D_where_operands, value_describe(s->a, x), value_describe(s->a, y));
  } else {
    if (sema_is_number(x) && sema_is_number(y)) x = sema_lift(s, c->place[1], x), y = sema_lift(s, c->place[2], y);
    if (!sema_unify(s, c->at, AOP_NOP, PROMOTE_ARITH, x, y, &v[1], &v[2])) return s->unit->poison;
  }
  if (!sema_broadcast(s, c->at, 3, v)) return s->unit->poison;
  return sema_tensor(s, sema_emit(s, OP_select, 3, v, NULL));
}

/* ---- types as values --------------------------------------------------------------------------------------------- */

lang_value *builtin_dtype(sema *s, const sema_call_info *c) {
  const tir_type *t;
  return arg_type(s, c, 0, &t) ? sema_type(s, t) : s->unit->poison;
}

lang_value *builtin_pointer_type(sema *s, const sema_call_info *c) {
  const tir_type *t;
  bool is_const;
  if (!arg_type(s, c, 0, &t) || !arg_bool(s, c, 2, false, &is_const)) return s->unit->poison;
  return sema_type(s, tir_ptr_type(s->cx, t, is_const));
}

lang_value *builtin_not_callable(sema *s, const sema_call_info *c) {
  return sema_fail(s, c->at, &D_not_callable, c->builtin->name);
}
