/* The verifier: what one op demands of its attributes, types and layouts.
 *
 * Ops with a type rule are held against tir_infer_type. Ops whose types are given have a function here each; shapes are
 * compared without layouts, and then, from LAID_OUT on, the layouts on their own: an op that moves no data between
 * threads must have operand and result layouts for which it is a renaming of registers (lay_regmap). */
#include <string.h>

#include "compiler/ir/internal.h"
#include "compiler/ir/scratch.h"

/* ---- attributes ---- */

typedef struct attr_rule {
  tir_opcode op;
  tir_attr_key key;
  bool required;
  int64_t min, max;  /* INT, and each of INTS */
  const char *words; /* STR: what it may be, separated by blanks; NULL = anything */
} attr_rule;

#define CACHE_LOAD "ca cg cv"
#define CACHE_STORE "wb cg cs wt"
#define EVICT "evict_first evict_last"
#define ANY_INT INT64_MIN, INT64_MAX
static const attr_rule attr_rules[] = {
    {OP_const, ATTR_value, true, 0, 0, NULL},
    {OP_arange, ATTR_start, true, INT32_MIN, INT32_MAX, NULL},
    {OP_program_id, ATTR_axis, true, 0, 2, NULL},
    {OP_num_programs, ATTR_axis, true, 0, 2, NULL},
    {OP_expand_dims, ATTR_axis, true, 0, TIR_MAX_RANK - 1, NULL},
    {OP_reduce, ATTR_axis, true, 0, TIR_MAX_RANK - 1, NULL},
    {OP_reduce, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_trans, ATTR_perm, true, 0, TIR_MAX_RANK - 1, NULL},
    {OP_cast, ATTR_rounding, false, 0, 0, "rtz"},
    {OP_div, ATTR_approx, false, 1, 1, NULL},
    {OP_sqrt, ATTR_approx, false, 1, 1, NULL},
    {OP_cast, ATTR_small, false, 1, 1, NULL},
    {OP_add, ATTR_nowrap, false, 1, 1, NULL},
    {OP_sub, ATTR_nowrap, false, 1, 1, NULL},
    {OP_mul, ATTR_nowrap, false, 1, 1, NULL},
    {OP_addptr, ATTR_nowrap, false, 1, 1, NULL},
    {OP_mul, ATTR_unless_one, false, 1, 1, NULL},
    {OP_load, ATTR_cache, false, 0, 0, CACHE_LOAD},
    {OP_load, ATTR_evict, false, 0, 0, EVICT},
    {OP_load, ATTR_is_volatile, false, 0, 1, NULL},
    {OP_load, ATTR_axis, false, 0, TIR_MAX_RANK - 1, NULL},
    {OP_load, ATTR_vec, false, 1, TIR_MAX_NUMEL, NULL},
    {OP_store, ATTR_cache, false, 0, 0, CACHE_STORE},
    {OP_store, ATTR_evict, false, 0, 0, EVICT},
    {OP_store, ATTR_axis, false, 0, TIR_MAX_RANK - 1, NULL},
    {OP_store, ATTR_vec, false, 1, TIR_MAX_NUMEL, NULL},
    {OP_atomic_rmw, ATTR_kind, true, 0, 0, "add fadd max min umax umin and or xor xchg"},
    {OP_atomic_rmw, ATTR_sem, false, 0, 0, "relaxed acquire release acq_rel"},
    {OP_atomic_rmw, ATTR_scope, false, 0, 0, "cta gpu sys"},
    {OP_atomic_rmw, ATTR_axis, false, 0, TIR_MAX_RANK - 1, NULL},
    {OP_atomic_rmw, ATTR_vec, false, 1, TIR_MAX_NUMEL, NULL},
    {OP_atomic_rmw, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_dot, ATTR_precision, false, 0, 0, "ieee tf32 tf32x3 bf16x3 bf16x6"},
    {OP_dot, ATTR_max_imprecise, false, 0, INT32_MAX, NULL},
    {OP_dot, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_hint, ATTR_kind, true, 0, 0, "multiple_of max_contiguous max_constancy"},
    {OP_hint, ATTR_values, true, 1, INT64_MAX, NULL},
    {OP_print, ATTR_message, false, 0, 0, NULL},
    {OP_print, ATTR_hex, false, 0, 1, NULL},
    {OP_assert, ATTR_message, true, 0, 0, NULL},
    {OP_for, ATTR_num_stages, false, 0, INT32_MAX, NULL},
    {OP_for, ATTR_unroll, false, 0, INT32_MAX, NULL},
    {OP_for, ATTR_flatten, false, 0, 1, NULL},
    {OP_for, ATTR_warp_specialize, false, 0, 1, NULL},
    {OP_for, ATTR_no_licm, false, 0, 1, NULL},
    {OP_for, ATTR_no_multi_buffer, false, 0, 1, NULL},
    {OP_while, ATTR_no_licm, false, 0, 1, NULL},
    {OP_convert_layout, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_dot, ATTR_inst, false, 0, 0, NULL},
    {OP_alloc, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_alloc, ATTR_managed, false, 1, 1, NULL},
    {OP_alloc, ATTR_ring, false, 1, 1, NULL},
    {OP_alloc, ATTR_common, false, 1, 1, NULL},
    {OP_alloc, ATTR_early, false, 0, 1, NULL},
    {OP_tensor_map, ATTR_swizzle, true, 32, 128, NULL},
    {OP_tensor_map, ATTR_box, true, 1, 256, NULL},
    {OP_tensor_map, ATTR_rounding, false, 0, 0, "tf32"},
    {OP_tma_store, ATTR_axis, true, 0, 1, NULL},
    {OP_tma_store, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_tma_store, ATTR_by_warp, false, 1, 1, NULL},
    {OP_next_program, ATTR_scratch, false, 0, INT64_MAX, NULL},
    {OP_buffer_trans, ATTR_perm, true, 0, TIR_MAX_RANK - 1, NULL},
    {OP_copy_async, ATTR_axis, false, 0, TIR_MAX_RANK - 1, NULL},
    {OP_copy_async, ATTR_vec, false, 1, TIR_MAX_NUMEL, NULL},
    {OP_copy_async, ATTR_evict, false, 0, 0, EVICT},
    {OP_copy_async, ATTR_cache, false, 0, 0, "ca"},
    {OP_copy_wait, ATTR_pending, true, 0, INT32_MAX, NULL},
    {OP_wgmma, ATTR_max_imprecise, false, 1, INT32_MAX, NULL},
    {OP_wgmma_wait, ATTR_pending, true, 0, INT32_MAX, NULL},
};
enum { N_ATTR_RULES = sizeof attr_rules / sizeof *attr_rules };

static bool is_word_of(const char *word, const char *words) {
  size_t n = strlen(word);
  for (const char *p = words; n && (p = strstr(p, word)); p += n)
    if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
  return false;
}

static void check_attr(verifier *v, const tir_op *op, const tir_attr *a, const attr_rule *rule) {
  const char *name = tir_attr_table[a->key].name;
  switch (tir_attr_table[a->key].type) {
    case AT_INT:
      if (a->i < rule->min || a->i > rule->max)
        tir_complain(v, op, "%s is %lld, outside %lld .. %lld", name, (long long)a->i, (long long)rule->min,
                     (long long)rule->max);
      break;
    case AT_INTS:
      for (int i = 0; i < a->n; i++)
        if (a->ints[i] < rule->min || a->ints[i] > rule->max)
          tir_complain(v, op, "%s[%d] is %lld, outside %lld .. %lld", name, i, (long long)a->ints[i],
                       (long long)rule->min, (long long)rule->max);
      break;
    case AT_STR:
      if (rule->words && !is_word_of(a->str, rule->words))
        tir_complain(v, op, "%s is \"%s\", not one of: %s", name, a->str, rule->words);
      break;
    case AT_SCALAR: {
      int bits = op->n_out ? tir_dtypes[tir_dtype_of(op->out[0]->type)].bits : 64;
      if (bits < 64 && a->scalar.bits >> bits) tir_complain(v, op, "%s has more than %d bits", name, bits);
      break;
    }
  }
}

/* Whether every required attribute is there; a rule of the op's own may then rely on it. */
static bool check_attrs(verifier *v, const tir_op *op) {
  bool complete = true;
  for (const tir_attr *a = op->attrs; a; a = a->next) {
    int i = 0;
    while (i < N_ATTR_RULES && (attr_rules[i].op != op->code || attr_rules[i].key != a->key)) i++;
    if (i < N_ATTR_RULES)
      check_attr(v, op, a, &attr_rules[i]);
    else
      tir_complain(v, op, "%s has no attribute '%s'", tir_ops[op->code].name, tir_attr_table[a->key].name);
    if (a->next && a->next->key <= a->key) tir_complain(v, op, "attributes are not in order");
  }
  for (int i = 0; i < N_ATTR_RULES; i++) {
    const attr_rule *rule = &attr_rules[i];
    if (rule->op != op->code || !rule->required || tir_attr_of(op, rule->key)) continue;
    tir_complain(v, op, "attribute '%s' is missing", tir_attr_table[rule->key].name);
    complete = false;
  }
  return complete;
}

/* ---- types ---- */

static const char *text(verifier *v, const tir_type *t) {
  textbuf b;
  text_init(&b, v->fn->a);
  tir_type_print(t, true, &b);
  return b.at;
}

static const tir_type *in_type(const tir_op *op, int i) { return tir_in(op, i)->type; }
static const tir_type *out_type(const tir_op *op) { return op->out[0]->type; }

static bool is_scalar_of(const tir_type *t, tir_dtype d) { return t->kind == TY_SCALAR && t->dtype == d; }

static bool is_given(tir_opcode code) {
  tir_rule r = tir_ops[code].rule;
  return r == RULE_GIVEN || r == RULE_NONE || r == RULE_CAST;
}

static void check_derived(verifier *v, const tir_op *op) {
  const tir_type *in[3];
  const char *why;
  for (int i = 0; i < op->n_in; i++) in[i] = in_type(op, i);
  const tir_type *t = tir_infer_type(v->fn->cx, op->code, op->n_in, in, &why);
  if (!t)
    tir_complain(v, op, "%s", why);
  else if (t != out_type(op))
    tir_complain(v, op, "the result is %s, not %s", text(v, t), text(v, out_type(op)));
}

/* A shape rule: the result must be `elem` in this shape (rank 0: a scalar), in any layout. */
static bool result_is(verifier *v, const tir_op *op, int result, const tir_type *elem, int rank, const int64_t *shape) {
  const tir_type *have = op->out[result]->type;
  bool fits = have->rank == rank && tir_elem(have) == elem;
  for (int i = 0; fits && i < rank; i++) fits = have->shape[i] == shape[i];
  if (fits) return true;
  const char *problem = rank ? tir_shape_problem(v->fn->cx, rank, shape) : NULL;
  if (problem) {
    tir_complain(v, op, "%s", problem);
  } else {
    const tir_type *want = rank ? tir_tile_type(v->fn->cx, elem, rank, shape, NULL) : elem;
    tir_complain(v, op, "result %d is %s, not %s", result, tir_type_text(v->fn->a, have),
                 tir_type_text(v->fn->a, want));
  }
  return false;
}

/* ---- layouts ---- */

static bool has_layouts(const verifier *v) { return v->fn->stage >= STAGE_LAID_OUT; }

static void check_layout_of(verifier *v, const tir_op *op, const tir_type *t) {
  if (!tir_is_tile(t)) return;
  const lay_t *l = t->layout;
  if (!l) {
    if (has_layouts(v)) tir_complain(v, op, "%s has no layout", text(v, t));
    return;
  }
  if (v->fn->stage == STAGE_PLAIN) {
    tir_complain(v, op, "%s has a layout, but no pass has given any yet", text(v, t));
    return;
  }
  if (!lay_shape_eq(lay_shape_of(l), lay_shape_make(t->rank, t->shape)))
    tir_complain(v, op, "the layout of %s is for another shape", text(v, t));
  else if (!(l->flags & LAY_SURJECTIVE))
    tir_complain(v, op, "the layout of %s leaves elements out", text(v, t));
  if (l->nbits[LAY_LANE] != LAY_LANE_BITS || lay_warps(l) != v->fn->num_warps)
    tir_complain(v, op, "the layout of %s is for %d lanes and %d warps", text(v, t), 1 << l->nbits[LAY_LANE],
                 lay_warps(l));
}

/* The op must not move data between threads: the view says which operand element each result element is. */
static void check_local(verifier *v, const tir_op *op, int operand, int result, const lay_view *view) {
  enum { MAX_REG_BITS = 16 };
  const lay_t *from = in_type(op, operand)->layout, *to = op->out[result]->type->layout;
  if (!from || !to) return;
  if (from->nbits[LAY_REG] > MAX_REG_BITS || to->nbits[LAY_REG] > MAX_REG_BITS) {
    tir_complain(v, op, "more than %d registers per thread", 1 << MAX_REG_BITS);
    return;
  }
  arena *scratch = arena_new();
  bool local = lay_regmap(scratch, from, to, view) != NULL;
  arena_free(scratch);
  if (!local)
    tir_complain(v, op, "moves data between threads: from %s to %s", text(v, in_type(op, operand)),
                 text(v, op->out[result]->type));
}

static lay_shape shape_of(const tir_type *t) { return lay_shape_make(t->rank, t->shape); }

static void check_same_elements(verifier *v, const tir_op *op) {
  if (!tir_is_tile(in_type(op, 0)) || !tir_is_tile(out_type(op))) return;
  lay_view view = lay_view_identity(lay_shape_bits(shape_of(out_type(op))));
  check_local(v, op, 0, 0, &view);
}

/* ---- shapes of tiles ---- */

static void check_expand_dims(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0);
  int64_t axis = tir_attr_int(op, ATTR_axis, 0), shape[TIR_MAX_RANK + 1];
  if (axis < 0 || axis > t->rank) {
    tir_complain(v, op, "axis %lld of a tile of rank %d", (long long)axis, t->rank + 1);
    return;
  }
  for (int i = 0, from = 0; i <= t->rank; i++) shape[i] = i == axis ? 1 : t->shape[from++];
  if (result_is(v, op, 0, tir_elem(t), t->rank + 1, shape)) check_same_elements(v, op);
}

static void check_broadcast(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0), *r = out_type(op);
  bool fits = tir_is_tile(t) && t->rank == r->rank && t->elem == tir_elem(r);
  for (int i = 0; fits && i < t->rank; i++) fits = t->shape[i] == r->shape[i] || t->shape[i] == 1;
  if (!fits) {
    tir_complain(v, op, "%s cannot become %s", tir_type_text(v->fn->a, t), tir_type_text(v->fn->a, r));
    return;
  }
  lay_view view = lay_view_broadcast(shape_of(t), shape_of(r));
  check_local(v, op, 0, 0, &view);
}

static void check_reshape(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0), *r = out_type(op);
  if (!tir_is_tile(t) || !tir_is_tile(r) || t->elem != r->elem || t->numel != r->numel)
    tir_complain(v, op, "%s cannot become %s", tir_type_text(v->fn->a, t), tir_type_text(v->fn->a, r));
  else
    check_same_elements(v, op);
}

static void check_trans(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0);
  const tir_attr *perm = tir_attr_of(op, ATTR_perm);
  unsigned seen = 0;
  int64_t shape[TIR_MAX_RANK];
  int axes[TIR_MAX_RANK];
  bool fits = tir_is_tile(t) && perm->n == t->rank;
  for (int i = 0; fits && i < perm->n; i++) {
    fits = perm->ints[i] >= 0 && perm->ints[i] < t->rank && !(seen >> perm->ints[i] & 1);
    if (!fits) break;
    seen |= 1u << perm->ints[i];
    axes[i] = (int)perm->ints[i];
    shape[i] = t->shape[axes[i]];
  }
  if (!fits) {
    tir_complain(v, op, "perm is no permutation of the axes of %s", tir_type_text(v->fn->a, t));
    return;
  }
  if (!result_is(v, op, 0, t->elem, t->rank, shape)) return;
  lay_view view = lay_view_permute(shape_of(t), axes);
  check_local(v, op, 0, 0, &view);
}

static void check_join(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0);
  int64_t shape[TIR_MAX_RANK + 1];
  if (t != in_type(op, 1)) {
    tir_complain(v, op, "operands differ in type: %s and %s", text(v, t), text(v, in_type(op, 1)));
    return;
  }
  for (int i = 0; i < t->rank; i++) shape[i] = t->shape[i];
  shape[t->rank] = 2;
  if (!result_is(v, op, 0, tir_elem(t), t->rank + 1, shape) || !tir_is_tile(t)) return;
  lay_view view = lay_view_join(lay_shape_bits(shape_of(out_type(op))));
  check_local(v, op, 0, 0, &view);
}

static void check_split(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0);
  if (!tir_is_tile(t) || t->shape[t->rank - 1] != 2) {
    tir_complain(v, op, "the last axis of %s must have extent 2", tir_type_text(v->fn->a, t));
    return;
  }
  for (int i = 0; i < 2; i++) {
    if (!result_is(v, op, i, t->elem, t->rank - 1, t->shape) || t->rank == 1) continue;
    lay_view view = lay_view_split(lay_shape_bits(shape_of(op->out[i]->type)), i);
    check_local(v, op, 0, i, &view);
  }
}

static void check_arange(verifier *v, const tir_op *op) {
  const tir_type *t = out_type(op);
  int64_t start = tir_attr_int(op, ATTR_start, 0);
  if (t->rank != 1 || !is_scalar_of(t->elem, DT_i32))
    tir_complain(v, op, "the result is %s, not a tile of i32 with one axis", text(v, t));
  else if (start > INT32_MAX - (t->numel - 1))
    tir_complain(v, op, "the last element does not fit i32");
}

static void check_splat(verifier *v, const tir_op *op) {
  if (tir_is_tile(in_type(op, 0)) || !tir_is_tile(out_type(op)) || out_type(op)->elem != in_type(op, 0))
    tir_complain(v, op, "%s cannot become %s", text(v, in_type(op, 0)), text(v, out_type(op)));
}

static void check_unsplat(verifier *v, const tir_op *op) {
  const tir_type *t = in_type(op, 0);
  if (!tir_is_tile(t) || t->numel != 1 || out_type(op) != t->elem)
    tir_complain(v, op, "takes a tile of one element and gives that: not %s to %s", text(v, t), text(v, out_type(op)));
}

/* ---- conversions ---- */

static void check_cast(verifier *v, const tir_op *op) {
  const tir_type *from = in_type(op, 0), *to = out_type(op);
  const tir_type *fe = tir_elem(from), *te = tir_elem(to);
  if (tir_with_elem(v->fn->cx, from, te) != to) {
    tir_complain(v, op, "operand and result differ in shape or layout: %s and %s", text(v, from), text(v, to));
    return;
  }
  const tir_dtype_info *f = &tir_dtypes[tir_dtype_of(from)], *t = &tir_dtypes[tir_dtype_of(to)];
  if (op->code == OP_bitcast) {
    if (f->bits != t->bits) tir_complain(v, op, "%s and %s differ in width", text(v, fe), text(v, te));
    return;
  }
  bool ptr = fe->kind == TY_PTR || te->kind == TY_PTR;
  if (ptr && (f->bits != 64 || t->bits != 64 || f->kind == DK_FLOAT || t->kind == DK_FLOAT))
    tir_complain(v, op, "no conversion from %s to %s", text(v, fe), text(v, te));
  if (tir_attr_of(op, ATTR_rounding) &&
      (ptr || f->kind != DK_FLOAT || t->kind != DK_FLOAT || f->mantissa <= t->mantissa))
    tir_complain(v, op, "rounding is for conversions to a narrower float");
}

static void check_convert_layout(verifier *v, const tir_op *op) {
  const tir_type *from = in_type(op, 0), *to = out_type(op);
  if (v->fn->stage == STAGE_PLAIN) tir_complain(v, op, "there are no layouts before coalescing");
  if (!tir_is_tile(from) || tir_with_layout(v->fn->cx, from, to->layout) != to)
    tir_complain(v, op, "changes more than the layout: %s to %s", text(v, from), text(v, to));
}

/* ---- memory ---- */

static void check_memory(verifier *v, const tir_op *op) {
  enum { FEW = 3 };
  bool is_load = op->code == OP_load;
  int min = is_load ? 1 : 2, max = 3;
  if (op->n_in < min || op->n_in > max) {
    tir_complain(v, op, "%d operands, not %d to %d", op->n_in, min, max);
    return;
  }
  const tir_type *in[FEW];
  const char *why;
  for (int i = 0; i < op->n_in; i++) in[i] = in_type(op, i);
  const tir_type *t = tir_infer_type(v->fn->cx, is_load ? OP_load : OP_atomic_rmw, op->n_in, in, &why);
  if (!t) {
    tir_complain(v, op, "%s", why);
    return;
  }
  if (op->n_out && out_type(op) != t)
    tir_complain(v, op, "the result is %s, not %s", text(v, t), text(v, out_type(op)));
  if (!is_load && tir_elem(in[0])->is_const) tir_complain(v, op, "writes through a pointer to const");
}

static void check_atomic(verifier *v, const tir_op *op) {
  check_memory(v, op);
  const char *kind = tir_attr_str(op, ATTR_kind, "");
  if (op->n_in < 2 || !is_word_of(kind, "add fadd max min umax umin and or xor xchg")) return;
  const tir_type *t = in_type(op, 1);
  tir_dtype d = tir_dtype_of(t);
  bool is_float = dt_is_float(d) && !tir_is_ptr(t);
  int bits = tir_dtypes[d].bits;
  bool fits = strcmp(kind, "fadd") == 0   ? is_float && bits >= 16
              : strcmp(kind, "xchg") == 0 ? bits >= 32
                                          : !is_float && bits >= 32;
  if (!fits) tir_complain(v, op, "no atomic %s of %s", kind, text(v, tir_elem(t)));
}

/* ---- across elements ---- */

/* A combining region is evaluated on single elements, in any order and number: no effects, no tiles. */
static bool is_scalar_code(const tir_region *r) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (!tir_is_term(op) && !tir_is_pure(op)) return false;
    for (int i = 0; i < op->n_out; i++)
      if (op->out[i]->type->rank) return false;
    for (int i = 0; i < op->n_regions; i++)
      if (!is_scalar_code(op->regions[i])) return false;
  }
  return true;
}

static void check_reduce(verifier *v, const tir_op *op) {
  int n = op->n_in;
  int64_t axis = tir_attr_int(op, ATTR_axis, -1);
  const tir_region *r = op->regions[0];
  if (n < 1 || op->n_out != n || r->n_args != 2 * n) {
    tir_complain(v, op, "%d operands, %d results, %d arguments of the region: want n, n, 2n", n, op->n_out, r->n_args);
    return;
  }
  for (int i = 0; i < n; i++) {
    const tir_type *t = in_type(op, i);
    if (!tir_is_tile(t) || !tir_same_shape(t, in_type(op, 0)) || t->layout != in_type(op, 0)->layout) {
      tir_complain(v, op, "operand %d is %s: all must be tiles of one shape and layout", i, text(v, t));
      return;
    }
    if (axis < 0 || axis >= t->rank) {
      tir_complain(v, op, "axis %lld of %s", (long long)axis, tir_type_text(v->fn->a, t));
      return;
    }
    if (r->args[i]->type != t->elem || r->args[n + i]->type != t->elem)
      tir_complain(v, op, "arguments %d and %d of the region must be %s", i, n + i, text(v, t->elem));
    int64_t shape[TIR_MAX_RANK];
    for (int k = 0, from = 0; from < t->rank; from++)
      if (from != axis) shape[k++] = t->shape[from];
    if (!result_is(v, op, i, t->elem, t->rank - 1, shape)) return;
    const tir_type *result = op->out[i]->type;
    if (t->layout && result->layout && result->layout != lay_reduced(v->fn->cx->layouts, t->layout, (int)axis))
      tir_complain(v, op, "the layout of result %d is not that of the reduced operand", i);
  }
  if (!is_scalar_code(r)) tir_complain(v, op, "the region does more than compute with scalars");
}

bool tir_dot_exists(tir_dtype a, tir_dtype b, tir_dtype acc) {
  bool f8 = (a == DT_f8e4m3 || a == DT_f8e5m2) && (b == DT_f8e4m3 || b == DT_f8e5m2);
  if (f8) return acc == DT_f32 || acc == DT_f16;
  if (a != b) return false;
  switch (a) {
    case DT_i8: return acc == DT_i32;
    case DT_f16: return acc == DT_f32 || acc == DT_f16;
    case DT_bf16:
    case DT_f32: return acc == DT_f32;
    case DT_f64: return acc == DT_f64;
    default: return false;
  }
}

/* Which instructions there are is the target's affair. */
static bool is_instruction_name(const char *s) {
  const char *p = s;
  while ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '.') p++;
  return *s && !*p;
}

static void check_dot(verifier *v, const tir_op *op) {
  const char *inst = tir_attr_str(op, ATTR_inst, NULL);
  if (inst && !is_instruction_name(inst)) tir_complain(v, op, "inst is \"%s\", not the name of an instruction", inst);
  const tir_type *a = in_type(op, 0), *b = in_type(op, 1), *c = in_type(op, 2);
  int r = a->rank;
  bool fits = (r == 2 || r == 3) && b->rank == r && c->rank == r && a->shape[r - 1] == b->shape[r - 2] &&
              c->shape[r - 2] == a->shape[r - 2] && c->shape[r - 1] == b->shape[r - 1];
  if (fits && r == 3) fits = a->shape[0] == b->shape[0] && a->shape[0] == c->shape[0];
  if (!fits)
    tir_complain(v, op, "shapes do not fit: %s, %s, %s", tir_type_text(v->fn->a, a), tir_type_text(v->fn->a, b),
                 tir_type_text(v->fn->a, c));
  else if (tir_is_ptr(a) || tir_is_ptr(b) || tir_is_ptr(c) ||
           !tir_dot_exists(tir_dtype_of(a), tir_dtype_of(b), tir_dtype_of(c)))
    tir_complain(v, op, "no dot of %s and %s into %s", text(v, tir_elem(a)), text(v, tir_elem(b)),
                 text(v, tir_elem(c)));
}

/* ---- control flow ---- */

static void check_types_equal(verifier *v, const tir_op *op, const char *what, int i, const tir_type *have,
                              const tir_type *want) {
  if (have != want) tir_complain(v, op, "%s %d is %s, not %s", what, i, text(v, have), text(v, want));
}

/* Carried values: initial operands from `first_in`, arguments from `first_arg`, results, all of one type each. */
static void check_carried(verifier *v, const tir_op *op, int first_in, const tir_region *r, int first_arg) {
  if (op->n_in != first_in + op->n_out || r->n_args != first_arg + op->n_out) {
    tir_complain(v, op, "carries %d initial values, %d arguments and %d results", op->n_in - first_in,
                 r->n_args - first_arg, op->n_out);
    return;
  }
  for (int i = 0; i < op->n_out; i++) {
    const tir_type *t = op->out[i]->type;
    check_types_equal(v, op, "initial value", i, in_type(op, first_in + i), t);
    check_types_equal(v, op, "argument", first_arg + i, r->args[first_arg + i]->type, t);
  }
}

static void check_for(verifier *v, const tir_op *op) {
  const tir_region *r = op->regions[0];
  if (op->n_in < 3 || r->n_args < 1) {
    tir_complain(v, op, "needs a lower bound, an upper bound, a step and an argument for the index");
    return;
  }
  const tir_type *t = in_type(op, 0);
  if (t->kind != TY_SCALAR || dt_is_float(t->dtype) || t->dtype == DT_i1)
    tir_complain(v, op, "the index is %s, not an integer", text(v, t));
  check_types_equal(v, op, "bound", 1, in_type(op, 1), t);
  check_types_equal(v, op, "bound", 2, in_type(op, 2), t);
  check_types_equal(v, op, "argument", 0, r->args[0]->type, t);
  check_carried(v, op, 3, r, 1);
}

static void check_while(verifier *v, const tir_op *op) {
  check_carried(v, op, 0, op->regions[0], 0);
  check_carried(v, op, 0, op->regions[1], 0);
}

static void check_if(verifier *v, const tir_op *op) {
  if (!is_scalar_of(in_type(op, 0), DT_i1)) tir_complain(v, op, "the condition is %s, not i1", text(v, in_type(op, 0)));
  if (op->regions[0]->n_args || op->regions[1]->n_args) tir_complain(v, op, "its regions take no arguments");
}

/* ---- hints and debugging ---- */

static void check_hint(verifier *v, const tir_op *op) {
  const tir_attr *values = tir_attr_of(op, ATTR_values);
  int rank = in_type(op, 0)->rank;
  if (values->n != (rank ? rank : 1)) tir_complain(v, op, "%d values for rank %d", values->n, rank);
  check_derived(v, op);
}

static void check_assert(verifier *v, const tir_op *op) {
  if (op->n_in < 1 || op->n_in > 2) {
    tir_complain(v, op, "%d operands, not 1 or 2", op->n_in);
    return;
  }
  const tir_type *t = in_type(op, 0);
  if (!is_scalar_of(tir_elem(t), DT_i1)) tir_complain(v, op, "the condition is %s, not i1", text(v, t));
  if (op->n_in == 2) check_types_equal(v, op, "mask", 1, in_type(op, 1), t);
}

/* ---- scratch memory ---- */

/* Whether a plan for the op exists; tir_scratch_of relies on it. */
static bool can_be_lowered(verifier *v, const tir_op *op, arena *a) {
  const tir_type *from = op->n_in ? in_type(op, 0) : NULL, *to = op->n_out ? out_type(op) : NULL;
  if ((from && tir_is_tile(from) && !from->layout) || (to && tir_is_tile(to) && !to->layout)) return false;
  if (op->code == OP_convert_layout &&
      !lay_convert(v->fn->cx->layouts, a, from->layout, to->layout, 8 * tir_shared_bytes(from), NULL)) {
    tir_complain(v, op, "there is no way to convert between these layouts");
    return false;
  }
  if (op->code == OP_reduce &&
      !lay_reduce_plan(v->fn->cx->layouts, a, from->layout, (int)tir_attr_int(op, ATTR_axis, 0))) {
    tir_complain(v, op, "there is no way to reduce this layout");
    return false;
  }
  return true;
}

static void check_scratch(verifier *v, const tir_op *op) {
  const tir_attr *offset = tir_attr_of(op, ATTR_scratch);
  if (v->fn->stage < STAGE_PLACED) {
    if (offset) tir_complain(v, op, "has a place in shared memory before any was assigned");
    return;
  }
  arena *scratch = arena_new();
  int64_t bytes = can_be_lowered(v, op, scratch) ? tir_scratch_of(op, scratch).bytes : 0;
  arena_free(scratch);
  if (bytes > 0 && !offset)
    tir_complain(v, op, "needs %lld bytes of shared memory but has no place there", (long long)bytes);
  if (offset && (offset->i < 0 || bytes > v->fn->shared_bytes - offset->i))
    tir_complain(v, op, "scratch of %lld bytes at byte %lld of %lld", (long long)bytes, (long long)offset->i,
                 (long long)v->fn->shared_bytes);
}

/* ---- one op ---- */

static void check_given(verifier *v, const tir_op *op) {
  switch (op->code) {
    case OP_for: check_for(v, op); break;
    case OP_while: check_while(v, op); break;
    case OP_if: check_if(v, op); break;
    case OP_condition:
      if (op->n_in < 1 || !is_scalar_of(in_type(op, 0), DT_i1)) tir_complain(v, op, "operand 0 must be i1");
      break;
    case OP_program_id:
    case OP_num_programs:
      if (!is_scalar_of(out_type(op), DT_i32)) tir_complain(v, op, "the result is i32");
      if (op->n_in > 1 || (op->n_in == 1 && !is_scalar_of(in_type(op, 0), DT_i32)))
        tir_complain(v, op, "takes nothing, or the number of a program, an i32");
      break;
    case OP_arange: check_arange(v, op); break;
    case OP_splat: check_splat(v, op); break;
    case OP_expand_dims: check_expand_dims(v, op); break;
    case OP_broadcast: check_broadcast(v, op); break;
    case OP_reshape: check_reshape(v, op); break;
    case OP_trans: check_trans(v, op); break;
    case OP_join: check_join(v, op); break;
    case OP_split: check_split(v, op); break;
    case OP_unsplat: check_unsplat(v, op); break;
    case OP_cast:
    case OP_bitcast: check_cast(v, op); break;
    case OP_load:
    case OP_store: check_memory(v, op); break;
    case OP_atomic_rmw: check_atomic(v, op); break;
    case OP_reduce: check_reduce(v, op); break;
    case OP_assume:
      if (!is_scalar_of(in_type(op, 0), DT_i1)) tir_complain(v, op, "takes a scalar i1");
      break;
    case OP_assert: check_assert(v, op); break;
    case OP_convert_layout: check_convert_layout(v, op); break;
    case OP_barrier:
      if (v->fn->stage < STAGE_LAID_OUT) tir_complain(v, op, "barriers come when layouts have been assigned");
      break;
    case OP_alloc:
    case OP_buffer_at:
    case OP_buffer_trans:
    case OP_buffer_store:
    case OP_buffer_load:
    case OP_copy_async:
    case OP_copy_commit:
    case OP_copy_wait:
    case OP_fence_async:
    case OP_wgmma:
    case OP_wgmma_wait:
    case OP_tensor_map:
    case OP_tma_load:
    case OP_tma_release:
    case OP_tma_store:
    case OP_next_program: tir_verify_shared(v, op); break;
    default: break; /* const, yield, return, print, debug_barrier: any types */
  }
}

/* Buffers go through control flow and into the ops made for them, nowhere else. */
static void check_no_buffers(verifier *v, const tir_op *op) {
  if (tir_ops[op->code].effect == FX_SHARED || tir_ops[op->code].effect == FX_CTRL || op->code == OP_buffer_at ||
      op->code == OP_buffer_trans)
    return;
  for (int i = 0; i < op->n_in; i++)
    if (tir_is_buffer(in_type(op, i))) tir_complain(v, op, "operand %d is a buffer", i);
  for (int i = 0; i < op->n_out; i++)
    if (tir_is_buffer(op->out[i]->type)) tir_complain(v, op, "result %d is a buffer", i);
}

void tir_verify_op(verifier *v, const tir_op *op) {
  struct complaint *const *sound = v->last; /* still NULL behind it if nothing was wrong */
  for (int i = 0; i < op->n_out; i++) check_layout_of(v, op, op->out[i]->type);
  for (int i = 0; i < op->n_regions; i++)
    for (int k = 0; k < op->regions[i]->n_args; k++) check_layout_of(v, op, op->regions[i]->args[k]->type);
  if (!check_attrs(v, op)) return;
  check_no_buffers(v, op);
  if (is_given(op->code))
    check_given(v, op);
  else if (op->code == OP_hint)
    check_hint(v, op);
  else
    check_derived(v, op);
  if (op->code == OP_dot) check_dot(v, op);
  if (*sound == NULL) check_scratch(v, op);
}
