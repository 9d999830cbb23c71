/* Making functions, ops and attributes. */
#include <string.h>

#include "compiler/ir/internal.h"

#define ANY TIR_ANY
#define PURE FX_PURE
#define READ FX_READ
#define WRITE FX_WRITE
#define RMW FX_RMW
#define SYNC FX_SYNC
#define CTRL FX_CTRL
#define DEBUG FX_DEBUG
#define SHARED FX_SHARED
#define ELT OPF_ELT
#define COMM OPF_COMM
#define ASSOC OPF_ASSOC
#define CHEAP OPF_CHEAP
#define TERM OPF_TERM
const tir_op_info tir_ops[OP_N] = {
#define OP(name, n_in, n_out, regions, effects, rule, flags, meaning) \
  {#name, n_in, n_out, regions, effects, RULE_##rule, flags},
#include "compiler/ir/ops.def"
#undef OP
};

const tir_attr_info tir_attr_table[ATTR_N] = {
#define ATTR(name, type) {#name, AT_##type},
#include "compiler/ir/attrs.def"
#undef ATTR
};

/* ---- functions ---- */

static tir_region *region_new(tir_fn *fn, tir_op *owner) {
  tir_region *r = ARENA_NEW(fn->a, tir_region);
  r->fn = fn;
  r->owner = owner;
  return r;
}

tir_fn *tir_fn_new(tir_cx *cx, arena *a, const char *name, span at) {
  tir_fn *fn = ARENA_NEW(a, tir_fn);
  fn->a = a;
  fn->cx = cx;
  fn->name = strtab_str(cx->names, name);
  fn->at = at;
  fn->num_warps = 4;
  fn->gang = 1;
  fn->num_stages = 3;
  fn->body = region_new(fn, NULL);
  return fn;
}

/* Arrays of values grow by doubling: their capacity is at least the power of two at or above the count. */
static bool is_full(int n) { return (n & (n - 1)) == 0; }

tir_value *tir_value_push(tir_fn *fn, const tir_type *type, span at, tir_value ***list, int *n) {
  tir_value *v = ARENA_NEW(fn->a, tir_value);
  v->type = type;
  v->at = at;
  v->index = *n;
  v->id = fn->n_values++;
  if (is_full(*n)) {
    tir_value **larger = ARENA_ARRAY(fn->a, tir_value *, *n ? 2 * *n : 1);
    if (*n) memcpy(larger, *list, sizeof *larger * (size_t)*n);
    *list = larger;
  }
  (*list)[(*n)++] = v;
  return v;
}

tir_value *tir_region_add_arg(tir_region *r, const tir_type *type, span at) {
  tir_value *v = tir_value_push(r->fn, type, at, &r->args, &r->n_args);
  v->region = r;
  return v;
}

tir_value *tir_fn_add_param(tir_fn *fn, const char *name, const tir_type *type, int divisibility, span at) {
  if (is_full(fn->n_params)) {
    tir_param *larger = ARENA_ARRAY(fn->a, tir_param, fn->n_params ? 2 * fn->n_params : 1);
    if (fn->n_params) memcpy(larger, fn->params, sizeof *larger * (size_t)fn->n_params);
    fn->params = larger;
  }
  tir_value *v = tir_region_add_arg(fn->body, type, at);
  v->name = strtab_str(fn->cx->names, name);
  fn->params[fn->n_params++] = (tir_param){v->name, v, divisibility < 1 ? 1 : divisibility, at, false, 1};
  return v;
}

/* ---- ops ---- */

void tir_use_link(tir_use *u, tir_op *op, tir_value *v) {
  u->op = op;
  u->value = v;
  u->next = v->uses;
  u->link = &v->uses;
  if (u->next) u->next->link = &u->next;
  v->uses = u;
}

void tir_use_unlink(tir_use *u) {
  if (!u->link) return;
  *u->link = u->next;
  if (u->next) u->next->link = u->link;
  u->next = NULL;
  u->link = NULL;
  u->value = NULL;
}

void tir_op_insert(tir_op *op, tir_region *r, tir_op *before) {
  op->parent = r;
  op->next = before;
  op->prev = before ? before->prev : r->last;
  if (op->prev)
    op->prev->next = op;
  else
    r->first = op;
  if (before)
    before->prev = op;
  else
    r->last = op;
}

void tir_op_unlink(tir_op *op) {
  tir_region *r = op->parent;
  if (op->prev)
    op->prev->next = op->next;
  else
    r->first = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    r->last = op->prev;
  op->prev = op->next = NULL;
  op->parent = NULL;
}

tir_op *tir_op_new(tir_fn *fn, tir_opcode code, span at, int n_in, tir_value *const *in, int n_out,
                   const tir_type *const *types, int n_regions) {
  tir_op *op = ARENA_NEW(fn->a, tir_op);
  op->code = code;
  op->at = at;
  op->n_in = n_in;
  if (n_in) op->in = ARENA_ARRAY(fn->a, tir_use, n_in);
  for (int i = 0; i < n_in; i++) tir_use_link(&op->in[i], op, in[i]);
  for (int i = 0; i < n_out; i++) tir_value_push(fn, types[i], at, &op->out, &op->n_out)->def = op;
  op->n_regions = n_regions;
  if (n_regions) op->regions = ARENA_ARRAY(fn->a, tir_region *, n_regions);
  for (int i = 0; i < n_regions; i++) op->regions[i] = region_new(fn, op);
  return op;
}

static bool is_derived(tir_rule r) { return r == RULE_SAME || r == RULE_CMP || r == RULE_SELECT || r == RULE_ADDPTR; }

tir_op *tir_build(tir_builder *b, tir_opcode code, int n_in, tir_value *const *in, int n_out,
                  const tir_type *const *types) {
  enum { FEW = 8 };
  const tir_op_info *info = &tir_ops[code];
  tir_fn *fn = b->fn;
  tir_cx *cx = fn->cx;
  if ((info->n_in != TIR_ANY && info->n_in != n_in) || (info->n_out != TIR_ANY && info->n_out != n_out))
    base_panic("building %s with %d operands and %d results", info->name, n_in, n_out);
  const tir_type *few_in[FEW], *few_out[FEW];
  const tir_type **in_types = n_in <= FEW ? few_in : ARENA_ARRAY(fn->a, const tir_type *, n_in);
  const tir_type **out_types = n_out <= FEW ? few_out : ARENA_ARRAY(fn->a, const tir_type *, n_out);
  for (int i = 0; i < n_in; i++) {
    BASE_ASSERT(in[i]);
    in_types[i] = in[i]->type;
  }
  bool missing = false;
  for (int i = 0; i < n_out; i++) {
    out_types[i] = types ? types[i] : NULL;
    if (!out_types[i]) missing = true;
  }
  if (n_out && (missing || is_derived(info->rule))) {
    const char *why;
    const tir_type *t = tir_infer_type(cx, code, n_in, in_types, &why);
    if (!t) base_panic("building %s: %s", info->name, why);
    for (int i = 0; i < n_out; i++) {
      if (!out_types[i]) out_types[i] = t;
      if (is_derived(info->rule) && out_types[i] != t)
        base_panic("building %s: the result is %s, not %s", info->name, tir_type_text(cx->a, t),
                   tir_type_text(cx->a, out_types[i]));
    }
  }
  tir_op *op = tir_op_new(fn, code, b->at, n_in, in, n_out, out_types, info->n_regions);
  tir_op_insert(op, b->region, b->before);
  return op;
}

tir_value *tir_build1(tir_builder *b, tir_opcode code, int n_in, tir_value *const *in, const tir_type *type) {
  return tir_out(tir_build(b, code, n_in, in, 1, &type), 0);
}

tir_value *tir_const(tir_builder *b, const tir_type *type, tir_scalar v) {
  tir_op *op = tir_build(b, OP_const, 0, NULL, 1, &type);
  tir_set_scalar(op, ATTR_value, v);
  return tir_out(op, 0);
}

tir_value *tir_const_int(tir_builder *b, const tir_type *type, int64_t v) {
  return tir_const(b, type, tir_scalar_int(tir_dtype_of(type), v));
}

tir_value *tir_unary(tir_builder *b, tir_opcode code, tir_value *x) { return tir_build1(b, code, 1, &x, NULL); }

tir_value *tir_binary(tir_builder *b, tir_opcode code, tir_value *x, tir_value *y) {
  return tir_build1(b, code, 2, (tir_value *[]){x, y}, NULL);
}

tir_value *tir_select(tir_builder *b, tir_value *c, tir_value *x, tir_value *y) {
  return tir_build1(b, OP_select, 3, (tir_value *[]){c, x, y}, NULL);
}

tir_value *tir_cast(tir_builder *b, tir_value *x, const tir_type *elem) {
  if (tir_elem(x->type) == elem) return x;
  return tir_build1(b, OP_cast, 1, &x, tir_with_elem(b->fn->cx, x->type, elem));
}

tir_value *tir_splat(tir_builder *b, tir_value *x, const tir_type *like) {
  BASE_ASSERT(!tir_is_tile(x->type));
  if (!tir_is_tile(like)) return x;
  return tir_build1(b, OP_splat, 1, &x, tir_with_elem(b->fn->cx, like, x->type));
}

tir_value *tir_expand_dims(tir_builder *b, tir_value *x, int axis) {
  tir_cx *cx = b->fn->cx;
  const tir_type *t = x->type;
  BASE_ASSERT(axis >= 0 && axis <= t->rank && t->rank < TIR_MAX_RANK);
  int64_t shape[TIR_MAX_RANK];
  for (int i = 0, from = 0; i <= t->rank; i++) shape[i] = i == axis ? 1 : t->shape[from++];
  const lay_t *layout = t->layout ? lay_expand_dims(cx->layouts, t->layout, axis) : NULL;
  tir_value *v = tir_build1(b, OP_expand_dims, 1, &x, tir_tile_type(cx, tir_elem(t), t->rank + 1, shape, layout));
  tir_set_int(v->def, ATTR_axis, axis);
  return v;
}

tir_value *tir_broadcast(tir_builder *b, tir_value *x, int rank, const int64_t *shape) {
  tir_cx *cx = b->fn->cx;
  const tir_type *t = x->type;
  BASE_ASSERT(rank == t->rank);
  const lay_t *layout = t->layout ? lay_broadcast(cx->layouts, t->layout, lay_shape_make(rank, shape)) : NULL;
  const tir_type *to = tir_tile_type(cx, tir_elem(t), rank, shape, layout);
  return tir_same_shape(t, to) ? x : tir_build1(b, OP_broadcast, 1, &x, to);
}

tir_value *tir_reshape(tir_builder *b, tir_value *x, int rank, const int64_t *shape) {
  tir_cx *cx = b->fn->cx;
  const tir_type *t = x->type;
  const lay_t *layout = t->layout ? lay_reshape(cx->layouts, t->layout, lay_shape_make(rank, shape)) : NULL;
  const tir_type *to = tir_tile_type(cx, tir_elem(t), rank, shape, layout);
  BASE_ASSERT(to->numel == t->numel);
  return tir_same_shape(t, to) ? x : tir_build1(b, OP_reshape, 1, &x, to);
}

tir_value *tir_trans(tir_builder *b, tir_value *x, const int64_t *perm) {
  tir_cx *cx = b->fn->cx;
  const tir_type *t = x->type;
  int64_t shape[TIR_MAX_RANK];
  int axes[TIR_MAX_RANK];
  BASE_ASSERT(t->rank >= 1);
  for (int i = 0; i < t->rank; i++) {
    BASE_ASSERT(perm[i] >= 0 && perm[i] < t->rank);
    axes[i] = (int)perm[i];
    shape[i] = t->shape[perm[i]];
  }
  const lay_t *layout = t->layout ? lay_permute(cx->layouts, t->layout, axes) : NULL;
  tir_value *v = tir_build1(b, OP_trans, 1, &x, tir_tile_type(cx, t->elem, t->rank, shape, layout));
  tir_set_ints(v->def, ATTR_perm, t->rank, perm);
  return v;
}

/* ---- attributes ---- */

static tir_fn *fn_of_new(const tir_op *op) {
  if (op->parent) return op->parent->fn;
  base_panic("an attribute of %s, which is in no function", tir_ops[op->code].name);
}

static void attr_put(arena *a, tir_op *op, const tir_attr *attr) {
  tir_attr **p = &op->attrs;
  while (*p && (*p)->key < attr->key) p = &(*p)->next;
  tir_attr *made = arena_copy(a, attr, sizeof *attr);
  made->next = *p && (*p)->key == attr->key ? (*p)->next : *p;
  *p = made;
}

void tir_attr_put(tir_op *op, const tir_attr *a) { attr_put(fn_of_new(op)->a, op, a); }

void tir_set_int(tir_op *op, tir_attr_key k, int64_t v) { tir_attr_put(op, &(tir_attr){.key = k, .i = v}); }

void tir_set_str(tir_op *op, tir_attr_key k, const char *s) {
  tir_attr_put(op, &(tir_attr){.key = k, .str = strtab_str(fn_of_new(op)->cx->names, s)});
}

void tir_set_ints(tir_op *op, tir_attr_key k, int n, const int64_t *v) {
  const int64_t *copy = arena_copy(fn_of_new(op)->a, v, sizeof *v * (size_t)n);
  tir_attr_put(op, &(tir_attr){.key = k, .n = n, .ints = copy});
}

void tir_set_scalar(tir_op *op, tir_attr_key k, tir_scalar v) { tir_attr_put(op, &(tir_attr){.key = k, .scalar = v}); }

const tir_attr *tir_attr_of(const tir_op *op, tir_attr_key k) {
  for (const tir_attr *a = op->attrs; a; a = a->next)
    if (a->key == k) return a;
  return NULL;
}

int64_t tir_attr_int(const tir_op *op, tir_attr_key k, int64_t otherwise) {
  const tir_attr *a = tir_attr_of(op, k);
  return a ? a->i : otherwise;
}

const char *tir_attr_str(const tir_op *op, tir_attr_key k, const char *otherwise) {
  const tir_attr *a = tir_attr_of(op, k);
  return a ? a->str : otherwise;
}
