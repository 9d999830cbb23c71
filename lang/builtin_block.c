/* Block pointers and tensor descriptors.
 *
 * Both name a rectangle of a strided array. Of one, the specialiser knows the tile that an access gives (sema_block);
 * the rest are scalars of the running kernel, the items of the LANG_BLOCK value: an address, then in i64 the sizes and
 * the strides of the axes and, for a block pointer, the block's offsets. Loops, branches and calls carry the items like
 * those of a tuple. There is no type for it in tile IR: an access becomes pointers, a mask, and a load or store.
 *
 * The address is that of the block's first element, so that `advance` is one scalar addition, and a loop over blocks
 * multiplies nothing: what remains of an access, lane * stride along each axis, does not change in the loop. It is
 * added axis by axis, broadcast as late as possible; a stride that is the constant 1 leaves the lanes as they are,
 * which the analysis of vector widths understands. The obvious form, (offset + lane) * stride for each element, costs
 * 64-bit products of tiles in every iteration. The offsets are kept beside the address for the bounds alone. */
#include "lang/builtin.h"

#include <math.h>
#include <string.h>

typedef struct block {
  const sema_block *form;
  int rank;
  const int64_t *shape; /* of the tile */
  tir_value *at;
  tir_value *size[TIR_MAX_RANK], *stride[TIR_MAX_RANK], *offset[TIR_MAX_RANK];
} block;

static block unpack(const lang_value *v) {
  const sema_block *f = v->u.items.form;
  block b = {.form = f, .rank = f->tile->rank, .shape = f->tile->shape};
  lang_value *const *item = v->u.items.at;
  b.at = (*item++)->u.tensor;
  for (int i = 0; i < b.rank; i++) b.size[i] = (*item++)->u.tensor;
  for (int i = 0; i < b.rank; i++) b.stride[i] = (*item++)->u.tensor;
  for (int i = 0; i < b.rank && !f->is_descriptor; i++) b.offset[i] = (*item++)->u.tensor;
  return b;
}

static lang_value *pack(sema *s, const block *b) {
  lang_value *item[1 + 3 * TIR_MAX_RANK];
  int n = 0;
  item[n++] = sema_tensor(s, b->at);
  for (int i = 0; i < b->rank; i++) item[n++] = sema_tensor(s, b->size[i]);
  for (int i = 0; i < b->rank; i++) item[n++] = sema_tensor(s, b->stride[i]);
  for (int i = 0; i < b->rank && !b->form->is_descriptor; i++) item[n++] = sema_tensor(s, b->offset[i]);
  return value_block(s->a, b->form, item, n);
}

/* ---- arithmetic of the items ------------------------------------------------------------------------------------ */

static tir_value *wide(sema *s, int64_t v) {
  sema_count(s, 1);
  return tir_const_int(&s->b, tir_scalar_type(s->cx, DT_i64), v);
}

static bool is_known(const tir_value *v, int64_t want) {
  int64_t n;
  return tir_known_int(v, &n) && n == want;
}

/* The address `offset` elements further along each axis. What does not move stays the same value, so that a
   loop does not carry it. */
static tir_value *moved(sema *s, tir_value *at, int rank, tir_value *const *offset, tir_value *const *stride) {
  for (int i = 0; i < rank; i++)
    if (!is_known(offset[i], 0))
      at = sema_emit2(s, OP_addptr, at,
                      is_known(stride[i], 1) ? offset[i] : sema_emit2(s, OP_mul, offset[i], stride[i]));
  return at;
}

/* A tile over one axis of the block, with its other axes of size 1. */
static tir_value *along(sema *s, tir_value *v, int axis, int rank) {
  sema_count(s, rank - 1);
  for (int i = 0; i < rank; i++)
    if (i != axis) v = tir_expand_dims(&s->b, v, i);
  return v;
}

static tir_value *lanes(sema *s, int64_t n) {
  tir_value *v = sema_emit(s, OP_arange, 0, NULL, tir_tile_type(s->cx, tir_scalar_type(s->cx, DT_i32), 1, &n, NULL));
  tir_set_int(v->def, ATTR_start, 0);
  return sema_cast(s, v, DT_i64);
}

static tir_value *pointers(sema *s, span at, const block *b) {
  tir_value *p = b->at;
  for (int i = 0; i < b->rank; i++) {
    if (b->shape[i] == 1) continue;
    tir_value *step = lanes(s, b->shape[i]);
    if (!is_known(b->stride[i], 1))
      step = sema_emit2(s, OP_mul, step, sema_broadcast_to(s, at, b->stride[i], 1, &b->shape[i]));
    tir_value *pair[2] = {p, along(s, step, i, b->rank)};
    if (!sema_broadcast(s, at, 2, pair)) return NULL;
    p = sema_emit2(s, OP_addptr, pair[0], pair[1]);
  }
  return sema_broadcast_to(s, at, p, b->rank, b->shape);
}

/* The lanes of an axis whose element lies in the array: 0 <= offset + lane < size, as one unsigned comparison. */
static tir_value *inside(sema *s, span at, const block *b, int axis) {
  int64_t n = b->shape[axis];
  tir_value *size = sema_cast(s, sema_emit2(s, OP_max, b->size[axis], wide(s, 0)), DT_u64);
  tir_value *first = sema_broadcast_to(s, at, b->offset[axis], 1, &n), *index = lanes(s, n);
  index = sema_cast(s, sema_emit2(s, OP_add, first, index), DT_u64);
  size = sema_broadcast_to(s, at, size, 1, &n);
  return along(s, sema_emit2(s, OP_lt, index, size), axis, b->rank);
}

/* Pointers to the elements of the block, and the mask of those inside of the array along the axes in `checked`; NULL
   if none is checked. */
static bool access(sema *s, span at, const block *b, unsigned checked, tir_value **p, tir_value **mask) {
  *mask = NULL;
  for (int i = 0; i < b->rank; i++) {
    if (!(checked >> i & 1)) continue;
    tir_value *pair[2] = {*mask, inside(s, at, b, i)};
    if (*mask && !sema_broadcast(s, at, 2, pair)) return false;
    *mask = *mask ? sema_emit2(s, OP_and, pair[0], pair[1]) : pair[1];
  }
  *p = pointers(s, at, b);
  if (*mask) *mask = sema_broadcast_to(s, at, *mask, b->rank, b->shape);
  return *p && (!checked || *mask);
}

static tir_value *padding(sema *s, const block *b, bool nan) {
  sema_count(s, 1);
  if (!nan) return sema_zero(s, b->form->tile);
  return tir_const(&s->b, b->form->tile, tir_scalar_float(b->form->tile->elem->dtype, (double)NAN));
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

/* Integers, of the running kernel too, as i64 scalars; exactly `rank` of them. */
static bool list_arg(sema *s, const sema_call_info *c, int i, int rank, tir_value **out) {
  lang_value *v = c->arg[i], *const *items = v->kind == LANG_TUPLE ? v->u.items.at : &v;
  int n = v->kind == LANG_TUPLE ? v->u.items.n : 1;
  if (n != rank) {
    sema_fail(s, c->place[i], &D_block_count, arg_name(s, c, i), c->builtin->name, n, rank);
    return false;
  }
  for (int k = 0; k < n; k++) {
    lang_value *x = items[k];
    bool is_scalar =
        x->kind == LANG_BOOL || x->kind == LANG_INT ||
        (x->kind == LANG_TENSOR && x->u.tensor->type->kind == TY_SCALAR && dt_is_int(x->u.tensor->type->dtype));
    if (!is_scalar) {
      arg_wrong(s, c, i, "integers", x);
      return false;
    }
    out[k] = x->kind == LANG_TENSOR ? sema_cast(s, sema_hinted(s, x->u.tensor), DT_i64)
                                    : sema_number(s, c->place[i], x, DT_i64);
    if (!out[k]) return false;
  }
  return true;
}

/* Bools are bytes here, as in Triton. */
static tir_value *bytes_of_bools(sema *s, tir_value *p) {
  if (p->type->elem->dtype != DT_i1) return p;
  const tir_type *bytes = tir_ptr_type(s->cx, tir_scalar_type(s->cx, DT_i8), p->type->is_const);
  return sema_emit(s, OP_cast, 1, &p, bytes);
}

/* The base: a scalar pointer to numbers. */
static tir_value *base_arg(sema *s, const sema_call_info *c) {
  const lang_value *v = c->arg[0];
  if (v->kind != LANG_TENSOR || v->u.tensor->type->kind != TY_PTR || v->u.tensor->type->elem->kind != TY_SCALAR) {
    arg_wrong(s, c, 0, "a scalar pointer to numbers", v);
    return NULL;
  }
  tir_value *p = sema_hinted(s, v->u.tensor);
  return sema_check_dtype(s, c->place[0], p->type->elem->dtype) ? bytes_of_bools(s, p) : NULL;
}

static bool tile_arg(sema *s, const sema_call_info *c, int i, const tir_type *elem, const tir_type **out) {
  int rank;
  int64_t shape[TIR_MAX_RANK];
  if (!arg_shape(s, c, i, &rank, shape) || !sema_check_shape(s, c->place[i], rank, shape)) return false;
  if (rank == 0) {
    arg_wrong(s, c, i, "a shape", c->arg[i]);
    return false;
  }
  *out = tir_tile_type(s->cx, elem, rank, shape, NULL);
  return true;
}

/* padding_option: "", "zero" or "nan". */
static bool padding_arg(sema *s, const sema_call_info *c, int i, const tir_type *elem, bool *nan) {
  const char *text;
  if (!arg_str(s, c, i, "", &text)) return false;
  *nan = strcmp(text, "nan") == 0;
  if (!*nan && strcmp(text, "zero") != 0 && *text) {
    sema_fail(s, c->place[i], &D_bad_choice, "padding_option", text, "'', 'zero', 'nan'");
    return false;
  }
  if (*nan && !dt_is_float(elem->dtype)) {
    sema_fail(s, c->place[i], &D_block_nan, tir_type_text(s->a, elem));
    return false;
  }
  return true;
}

/* boundary_check: an axis or a tuple of axes. */
static bool check_arg(sema *s, const sema_call_info *c, int i, int rank, unsigned *out) {
  *out = 0;
  if (!arg_given(c, i)) return true;
  lang_value *v = c->arg[i], *const *items = v->kind == LANG_TUPLE ? v->u.items.at : &v;
  for (int k = 0, n = v->kind == LANG_TUPLE ? v->u.items.n : 1; k < n; k++) {
    int64_t axis;
    if (!sema_known_int(s, items[k], &axis)) {
      arg_wrong(s, c, i, "axes", items[k]);
      return false;
    }
    if (axis < 0 || axis >= rank) {
      sema_fail(s, c->place[i], &D_axis_range, (long long)axis, rank);
      return false;
    }
    if (*out >> axis & 1) {
      sema_fail(s, c->place[i], &D_block_check_twice, (long long)axis);
      return false;
    }
    *out |= 1u << axis;
  }
  return true;
}

static bool is_block(const lang_value *v, bool descriptor) {
  return v->kind == LANG_BLOCK && v->u.items.form->is_descriptor == descriptor;
}

/* ---- block pointers --------------------------------------------------------------------------------------------- */

lang_value *builtin_make_block_ptr(sema *s, const sema_call_info *c) {
  enum { BASE, SHAPE, STRIDES, OFFSETS, BLOCK_SHAPE, ORDER };
  sema_block *form = ARENA_NEW(s->a, sema_block);
  block b = {.form = form};
  b.at = base_arg(s, c);
  if (!b.at || !tile_arg(s, c, BLOCK_SHAPE, b.at->type->elem, &form->tile)) return s->unit->poison;
  int rank = b.rank = form->tile->rank, n_order;
  int64_t order[TIR_MAX_RANK];
  if (!list_arg(s, c, SHAPE, rank, b.size) || !list_arg(s, c, STRIDES, rank, b.stride) ||
      !list_arg(s, c, OFFSETS, rank, b.offset) || !arg_shape(s, c, ORDER, &n_order, order))
    return s->unit->poison;
  unsigned seen = 0;
  for (int i = 0; i < n_order; i++)
    if (order[i] >= 0 && order[i] < rank) seen |= 1u << order[i];
  if (n_order != rank || seen != (1u << rank) - 1)
    return sema_fail(s, c->place[ORDER], &D_block_order, rank - 1, lang_value_text(s->a, c->arg[ORDER]));
  b.at = moved(s, b.at, rank, b.offset, b.stride);
  return pack(s, &b);
}

lang_value *builtin_advance(sema *s, const sema_call_info *c) {
  if (!is_block(c->arg[0], false)) return arg_wrong(s, c, 0, "a block pointer", c->arg[0]);
  block b = unpack(c->arg[0]);
  tir_value *by[TIR_MAX_RANK];
  if (!list_arg(s, c, 1, b.rank, by)) return s->unit->poison;
  b.at = moved(s, b.at, b.rank, by, b.stride);
  for (int i = 0; i < b.rank; i++)
    if (!is_known(by[i], 0)) b.offset[i] = sema_emit2(s, OP_add, b.offset[i], by[i]);
  return pack(s, &b);
}

/* Argument 0 as a block pointer; `instead`: what to write for a descriptor. */
static bool block_arg(sema *s, const sema_call_info *c, const char *instead, block *b) {
  *b = unpack(c->arg[0]);
  if (!b->form->is_descriptor) return true;
  diag *d = sema_report(s, c->place[0], &D_not_a_pointer, value_describe(s->a, c->arg[0]), c->builtin->name);
  diag_fix(d, sema_place(s, c->place[0]), "write %s", instead);
  return false;
}

bool block_load_operands(sema *s, const sema_call_info *c, int check, int pad, tir_value *in[3]) {
  block b;
  unsigned checked;
  bool nan;
  if (!block_arg(s, c, "desc.load(offsets)", &b) || !check_arg(s, c, check, b.rank, &checked) ||
      !padding_arg(s, c, pad, b.form->tile->elem, &nan) || !access(s, c->at, &b, checked, &in[0], &in[1]))
    return false;
  in[2] = in[1] ? padding(s, &b, nan) : NULL;
  return true;
}

/* A value for the whole block, in its element type. */
static tir_value *block_value(sema *s, const sema_call_info *c, int i, const tir_type *tile) {
  if (!sema_is_tensor(c->arg[i]) && !sema_is_number(c->arg[i])) {
    arg_wrong(s, c, i, "a tensor or a number", c->arg[i]);
    return NULL;
  }
  lang_value *v = sema_cast_checked(s, c->place[i], c->arg[i], tile->elem, NULL, false);
  if (sema_is_poison(v)) return NULL;
  tir_value *t = v->u.tensor;
  if (tir_is_tile(t->type) && t->type != tile) {
    sema_fail(s, c->place[i], &D_block_value, value_describe(s->a, c->arg[0]), tir_type_text(s->a, t->type));
    return NULL;
  }
  return sema_broadcast_to(s, c->at, t, tile->rank, tile->shape);
}

bool block_store_operands(sema *s, const sema_call_info *c, int value, int check, tir_value *in[3]) {
  block b;
  unsigned checked;
  if (!block_arg(s, c, "desc.store(offsets, value)", &b)) return false;
  if (b.at->type->is_const) {
    sema_fail(s, c->place[0], &D_store_const, tir_type_text(s->a, b.at->type));
    return false;
  }
  return check_arg(s, c, check, b.rank, &checked) && (in[1] = block_value(s, c, value, b.form->tile)) &&
         access(s, c->at, &b, checked, &in[0], &in[2]);
}

/* ---- tensor descriptors ----------------------------------------------------------------------------------------- */

bool block_fits_descriptor(sema *s, span at, const tir_type *tile) {
  enum { MAX_RANK = 5, MIN_BYTES = 16 };
  int64_t bytes = tile->shape[tile->rank - 1] * tir_dtypes[tile->elem->dtype].bytes;
  if (tile->rank > MAX_RANK)
    sema_fail(s, at, &D_descriptor_rank, tile->rank);
  else if (bytes < MIN_BYTES)
    sema_fail(s, at, &D_descriptor_bytes, MIN_BYTES, tir_type_text(s->a, tile), (long long)bytes);
  else
    return true;
  return false;
}

/* Says of an argument that it is a multiple, unless a launch sees to it or it has been said. */
static void promise(sema *s, const lang_value *x, int64_t multiple) {
  tir_value *v = x->kind == LANG_TENSOR ? sema_hinted(s, x->u.tensor) : NULL;
  if (!v || tir_is_const(v) || multiple == 1) return;
  if (v->type->kind != TY_PTR && (v->type->kind != TY_SCALAR || !dt_is_int(v->type->dtype))) return;
  for (int i = 0; i < s->fn->n_params; i++)
    if (s->fn->params[i].value == v && s->fn->params[i].divisibility % multiple == 0) return;
  const tir_attr *said = v->def && v->def->code == OP_hint ? tir_attr_of(v->def, ATTR_values) : NULL;
  if (said && said->ints[0] == multiple && strcmp(tir_attr_str(v->def, ATTR_kind, ""), "multiple_of") == 0) return;
  sema_hint(s, "multiple_of", v, 1, &multiple);
}

/* What hardware's descriptors want: a base, and strides but the last, of multiples of 16 bytes. Said of the arguments
   themselves, before they are read: an extent is often a stride as well. */
static void promises(sema *s, const lang_value *base, const lang_value *strides) {
  if (base->kind != LANG_TENSOR || !tir_is_ptr(base->u.tensor->type) || tir_is_tile(base->u.tensor->type)) return;
  const tir_type *elem = base->u.tensor->type->elem;
  if (elem->kind != TY_SCALAR) return;
  promise(s, base, LANG_DESCRIPTOR_ALIGN);
  for (int i = 0; strides->kind == LANG_TUPLE && i < strides->u.items.n - 1; i++)
    promise(s, strides->u.items.at[i], LANG_DESCRIPTOR_ALIGN / tir_dtypes[elem->dtype].bytes);
}

lang_value *builtin_make_tensor_descriptor(sema *s, const sema_call_info *c) {
  enum { BASE, SHAPE, STRIDES, BLOCK_SHAPE, PADDING };
  promises(s, c->arg[BASE], c->arg[STRIDES]);
  sema_block *form = ARENA_NEW(s->a, sema_block);
  form->is_descriptor = true;
  block b = {.form = form};
  b.at = base_arg(s, c);
  if (!b.at || !tile_arg(s, c, BLOCK_SHAPE, b.at->type->elem, &form->tile)) return s->unit->poison;
  const tir_type *elem = b.at->type->elem;
  int last = form->tile->rank - 1;
  b.rank = form->tile->rank;
  if (!block_fits_descriptor(s, c->place[BLOCK_SHAPE], form->tile) || !list_arg(s, c, SHAPE, b.rank, b.size) ||
      !list_arg(s, c, STRIDES, b.rank, b.stride) || !padding_arg(s, c, PADDING, elem, &form->pads_nan))
    return s->unit->poison;
  if (!is_known(b.stride[last], 1)) {
    const lang_value *given = c->arg[STRIDES];
    if (given->kind == LANG_TUPLE) given = given->u.items.at[last];
    diag *d = sema_report(s, c->place[STRIDES], &D_descriptor_stride, value_describe(s->a, given));
    diag_fix(d, sema_place(s, c->place[STRIDES]),
             "write 1, or let the argument be the constant 1 (a launch with 1, or i32:1 in the signature)");
    return s->unit->poison;
  }
  return pack(s, &b);
}

/* A parameter of the function that belongs to parameter `p` of the source: p_shape_0 (i32), which a launch
   sees to be at least 1, or p_stride_0 (i64). A name that the source does not have. */
static tir_value *hidden(sema *s, const lang_kernel *k, const lang_param *p, int axis, tir_dtype d, int divisibility) {
  bool is_extent = d == DT_i32;
  const char *name = arena_printf(s->a, "%s_%s_%d", p->name, is_extent ? "shape" : "stride", axis);
  while (lang_param_index(k, name) >= 0) name = arena_printf(s->a, "%s_", name);
  tir_value *v = tir_fn_add_param(s->fn, name, tir_scalar_type(s->cx, d), divisibility, p->at);
  s->fn->params[s->fn->n_params - 1].positive = is_extent;
  return v;
}

lang_value *block_parameter(sema *s, const lang_kernel *k, const lang_param *p, const lang_binding *binding) {
  const tir_type *tile = binding->type;
  int bytes = tir_dtypes[tile->elem->dtype].bytes, rank = tile->rank;
  if (!sema_check_dtype(s, p->at, tile->elem->dtype)) return s->unit->poison;
  s->b.at = p->at;
  sema_block *form = ARENA_NEW(s->a, sema_block);
  block b = {.form = form, .rank = rank};
  b.at = tir_fn_add_param(s->fn, p->name, tir_ptr_type(s->cx, tile->elem, false), LANG_DESCRIPTOR_ALIGN, p->at);
  for (int i = 0; i < rank; i++) b.size[i] = hidden(s, k, p, i, DT_i32, i == rank - 1 ? binding->divisibility : 1);
  for (int i = 0; i < rank - 1; i++) b.stride[i] = hidden(s, k, p, i, DT_i64, LANG_DESCRIPTOR_ALIGN / bytes);
  b.at = bytes_of_bools(s, b.at);
  for (int i = 0; i < rank; i++) b.size[i] = sema_cast(s, b.size[i], DT_i64);
  b.stride[rank - 1] = wide(s, 1);
  *form = (sema_block){.tile = tir_tile_type(s->cx, b.at->type->elem, rank, tile->shape, NULL),
                       .is_descriptor = true,
                       .pads_nan = binding->pads_nan};
  return pack(s, &b);
}

/* The descriptor with its block moved to the offsets of an access. */
static bool descriptor_at(sema *s, const sema_call_info *c, int offsets, block *b) {
  if (!is_block(c->arg[0], true)) {
    arg_wrong(s, c, 0, "a tensor descriptor", c->arg[0]);
    return false;
  }
  *b = unpack(c->arg[0]);
  if (!list_arg(s, c, offsets, b->rank, b->offset)) return false;
  b->at = moved(s, b->at, b->rank, b->offset, b->stride);
  return true;
}

lang_value *builtin_load_tensor_descriptor(sema *s, const sema_call_info *c) {
  enum { OFFSETS = 1, BLOCK_SHAPE, DTYPE };
  block b;
  if (!descriptor_at(s, c, OFFSETS, &b)) return s->unit->poison;
  if (c->builtin->data) { /* the old form says again what the descriptor knows */
    const tir_type *tile, *elem;
    if (!arg_type(s, c, DTYPE, &elem) || !tile_arg(s, c, BLOCK_SHAPE, elem, &tile)) return s->unit->poison;
    if (tile != b.form->tile)
      return sema_fail(s, c->at, &D_block_value, value_describe(s->a, c->arg[0]), tir_type_text(s->a, tile));
  }
  tir_value *in[3];
  if (!access(s, c->at, &b, (1u << b.rank) - 1, &in[0], &in[1])) return s->unit->poison;
  in[2] = padding(s, &b, b.form->pads_nan);
  return sema_tensor(s, sema_emit(s, OP_load, 3, in, b.form->tile));
}

lang_value *builtin_store_tensor_descriptor(sema *s, const sema_call_info *c) {
  int offsets = c->builtin->data ? 2 : 1, value = 3 - offsets;
  block b;
  tir_value *in[3];
  if (!descriptor_at(s, c, offsets, &b)) return s->unit->poison;
  if (b.at->type->is_const) return sema_fail(s, c->place[0], &D_store_const, tir_type_text(s->a, b.at->type));
  if (!(in[1] = block_value(s, c, value, b.form->tile)) || !access(s, c->at, &b, (1u << b.rank) - 1, &in[0], &in[2]))
    return s->unit->poison;
  sema_count(s, 1);
  tir_build(&s->b, OP_store, 3, in, 0, NULL);
  return s->unit->none;
}

/* ---- members ---------------------------------------------------------------------------------------------------- */

const sema_builtin *block_method(const sema *s, const lang_value *v, const char *name) {
  static const struct {
    bool descriptor;
    const char *name, *builtin;
  } methods[] = {{false, "advance", "advance"},
                 {false, "store", "store"},
                 {true, "load", "load_tensor_descriptor"},
                 {true, "store", "store_tensor_descriptor"}};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (is_block(v, methods[i].descriptor) && strcmp(methods[i].name, name) == 0)
      return builtin_named(s->unit, methods[i].builtin);
  return NULL;
}

/* A size as i32, which it most often was before it became an item. */
static tir_value *extent(sema *s, tir_value *size) {
  const tir_op *op = size->def;
  const tir_type *i32 = tir_scalar_type(s->cx, DT_i32);
  return op && op->code == OP_cast && tir_in(op, 0)->type == i32 ? tir_in(op, 0) : sema_cast(s, size, DT_i32);
}

lang_value *block_attribute(sema *s, span name_at, lang_value *v, const char *name) {
  block b = unpack(v);
  const tir_type *tile = b.form->tile;
  bool is_descriptor = b.form->is_descriptor;
  lang_value *item[TIR_MAX_RANK];
  if (strcmp(name, "block_shape") == 0) {
    for (int i = 0; i < b.rank; i++) item[i] = sema_int(s, b.shape[i]);
    return sema_tuple(s, item, b.rank);
  }
  if (strcmp(name, "block_type") == 0 && is_descriptor) return sema_type(s, tile);
  if (strcmp(name, "dtype") == 0 || (strcmp(name, "type") == 0 && !is_descriptor))
    return sema_type(s, is_descriptor ? tile->elem : b.at->type);
  if (is_descriptor && (strcmp(name, "shape") == 0 || strcmp(name, "strides") == 0)) {
    bool sizes = strcmp(name, "shape") == 0;
    for (int i = 0; i < b.rank; i++) item[i] = sema_tensor(s, sizes ? extent(s, b.size[i]) : b.stride[i]);
    return sema_tuple(s, item, b.rank);
  }
  if (block_method(s, v, name)) return sema_fail(s, name_at, &D_method_not_called, name, name);
  const char *kind = is_descriptor ? "tensor descriptor" : "block pointer";
  if (is_descriptor &&
      (strncmp(name, "atomic_", 7) == 0 || strcmp(name, "gather") == 0 || strcmp(name, "scatter") == 0))
    return sema_fail(s, name_at, &D_not_supported_yet, kind, name);
  diag *d = sema_report(s, name_at, &D_no_member, value_describe(s->a, v), name);
  if (strcmp(name, "load") == 0) diag_fix(d, sema_place(s, name_at), "write load(p)");
  return s->unit->poison;
}
