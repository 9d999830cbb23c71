/* verify_shared: ops on shared memory and asynchronous work. */
#include "compiler/ir/internal.h"
#include "compiler/ir/scratch.h"

static const tir_type *in_type(const tir_op *op, int i) { return tir_in(op, i)->type; }

static const char *text(verifier *v, const tir_type *t) { return tir_type_text(v->fn->a, t); }

static bool is_view(verifier *v, const tir_op *op, int i) {
  const tir_type *t = in_type(op, i);
  if (tir_is_buffer(t) && t->stages == 0) return true;
  tir_complain(v, op, "operand %d is %s, not a buffer without stages", i, text(v, t));
  return false;
}

static bool holds(const tir_type *buffer, const tir_type *tile) {
  return tir_is_tile(tile) && buffer->elem == tile->elem && tir_same_shape(buffer, tile);
}

static void check_copy(verifier *v, const tir_op *op) {
  if (op->n_in < 2 || op->n_in > 3) {
    tir_complain(v, op, "%d operands, not 2 or 3", op->n_in);
    return;
  }
  const tir_type *p = in_type(op, 0);
  if (!is_view(v, op, 1)) return;
  if (!tir_is_tile(p) || !tir_is_ptr(p) || p->elem->elem != in_type(op, 1)->elem || !tir_same_shape(p, in_type(op, 1)))
    tir_complain(v, op, "%s does not point to the elements of %s", text(v, p), text(v, in_type(op, 1)));
  else if (op->n_in == 3 && (in_type(op, 2)->layout != p->layout || !tir_same_shape(in_type(op, 2), p) ||
                             tir_dtype_of(in_type(op, 2)) != DT_i1))
    tir_complain(v, op, "the mask %s does not belong to %s", text(v, in_type(op, 2)), text(v, p));
}

static void check_wgmma(verifier *v, const tir_op *op) {
  const tir_type *a = in_type(op, 0), *b = in_type(op, 1), *c = in_type(op, 2);
  if (!tir_is_tile(a) && !is_view(v, op, 0)) return;
  if (!is_view(v, op, 1)) return;
  if (op->out[0]->type != c || !tir_is_tile(c)) tir_complain(v, op, "the result has the type of acc, a tile");
  if (a->rank != 2 || b->rank != 2 || c->rank != 2 || a->shape[1] != b->shape[0] || a->shape[0] != c->shape[0] ||
      b->shape[1] != c->shape[1])
    tir_complain(v, op, "shapes do not fit: %s, %s, %s", text(v, a), text(v, b), text(v, c));
  if (tir_is_ptr(a) || tir_is_ptr(c) || !tir_dot_exists(tir_dtype_of(a), tir_dtype_of(b), tir_dtype_of(c)))
    tir_complain(v, op, "no product of %s and %s into %s", text(v, a), text(v, b), text(v, c));
  else if (tir_attr_of(op, ATTR_max_imprecise) && tir_dtype_of(c) != DT_f32)
    tir_complain(v, op, "max_imprecise is for sums in f32, not in %s", text(v, c));
}

static bool is_integer(const tir_type *t, tir_dtype d) { return t->kind == TY_SCALAR && t->dtype == d; }

static void check_tensor_map(verifier *v, const tir_op *op) {
  const tir_attr *box = tir_attr_of(op, ATTR_box);
  if (box->n < 1 || box->n > TIR_MAX_MAP_RANK || op->n_in != 2 * box->n) {
    tir_complain(v, op, "%d operands do not go with a box of %d axes", op->n_in, box->n);
    return;
  }
  const tir_value *p = tir_in(op, 0);
  if (p->type->kind != TY_PTR || p->def || p->region != v->fn->body)
    tir_complain(v, op, "operand 0 is no pointer that the kernel was given");
  for (int i = 1; i < op->n_in; i++)
    if (!is_integer(in_type(op, i), DT_i64)) tir_complain(v, op, "operand %d is not an i64", i);
  if (!is_integer(op->out[0]->type, DT_u64)) tir_complain(v, op, "the result is u64");
}

static const tir_op *map_of(const tir_op *op, int i) {
  const tir_op *def = tir_in(op, i)->def;
  return def && def->code == OP_tensor_map && tir_attr_of(def, ATTR_box) ? def : NULL;
}

static bool is_ring(const tir_value *x) {
  return x->def && x->def->code == OP_alloc && tir_attr_int(x->def, ATTR_ring, 0) && x->type->stages > 0;
}

/* Whether copies of a box, side by side along the contiguous axis, make up a tile: else some would never end. */
static bool box_makes_up(const tir_attr *box, const tir_type *tile) {
  int inner = tile->shared->inner_axis;
  int64_t width = tile->shared->swizzle_bytes / tir_dtypes[tile->elem->dtype].bytes, extent = tile->shape[inner];
  bool fits = box->n > 1 && box->ints[0] == (extent < width ? extent : width) && box->ints[1] == tile->shape[1 - inner];
  for (int i = 2; i < box->n; i++) fits = fits && box->ints[i] == 1;
  return fits;
}

static void check_tma_load(verifier *v, const tir_op *op) {
  int at = 2 * op->n_out;
  for (int i = 0; i < op->n_out; i++) {
    if (op->n_in < at || !map_of(op, 2 * i) || !is_ring(tir_in(op, 2 * i + 1))) {
      tir_complain(v, op, "copy %d lacks a tensor_map or a ring", i);
      return;
    }
    const tir_type *b = in_type(op, 2 * i + 1);
    if (op->out[i]->type != tir_buffer_type(v->fn->cx, b->elem, b->rank, b->shape, b->shared, 0))
      tir_complain(v, op, "result %d is one stage of %s", i, text(v, b));
    if (tir_elem(tir_in(map_of(op, 2 * i), 0)->type)->elem != b->elem || b->rank != 2 ||
        b->shared->kind != LAY_SH_TMA_BOX ||
        b->shared->swizzle_bytes != tir_attr_int(map_of(op, 2 * i), ATTR_swizzle, 0))
      tir_complain(v, op, "a map of %s does not fill %s", text(v, in_type(map_of(op, 2 * i), 0)), text(v, b));
    else if (!box_makes_up(tir_attr_of(map_of(op, 2 * i), ATTR_box), b))
      tir_complain(v, op, "boxes of map %d do not make up %s", i, text(v, b));
    at += tir_attr_of(map_of(op, 2 * i), ATTR_box)->n;
  }
  if (at != op->n_in || !op->n_out) tir_complain(v, op, "%d operands, not %d", op->n_in, at);
  for (int i = 2 * op->n_out; i < op->n_in; i++)
    if (!is_integer(in_type(op, i), DT_i32)) tir_complain(v, op, "coordinate %d is not an i32", i);
}

static void check_tma_store(verifier *v, const tir_op *op) {
  const tir_op *map = op->n_in >= 2 ? map_of(op, 0) : NULL;
  const tir_type *t = map ? in_type(op, 1) : NULL;
  if (!map || !tir_is_tile(t) || t->rank != 2 || !t->layout || tir_elem(tir_in(map, 0)->type)->elem != t->elem) {
    tir_complain(v, op, "takes a tensor_map and a tile of two axes, of the elements that the map's pointer points to");
    return;
  }
  const tir_attr *box = tir_attr_of(map, ATTR_box);
  if (op->n_in != 2 + box->n) tir_complain(v, op, "%d operands, not %d", op->n_in, 2 + box->n);
  for (int i = 2; i < op->n_in; i++)
    if (!is_integer(in_type(op, i), DT_i32)) tir_complain(v, op, "coordinate %d is not an i32", i - 2);
  lay_panels p;
  arena *scratch = arena_new();
  int inner = (int)tir_attr_int(op, ATTR_axis, 0);
  bool by_warp = tir_attr_int(op, ATTR_by_warp, 0) != 0;
  if (!lay_panels_of(v->fn->cx->layouts, scratch, t->layout, inner, tir_shared_bytes(t), by_warp, &p))
    tir_complain(v, op, "%s is not stored in panels along axis %d", text(v, t), inner);
  else if (box->n < 2 || box->ints[0] != p.width || box->ints[1] != p.rows ||
           tir_attr_int(map, ATTR_swizzle, 0) != p.shared->swizzle_bytes)
    tir_complain(v, op, "the map's box is not that of the panels: %d x %d", p.width, p.rows);
  arena_free(scratch);
}

/* More than the shared memory of any GPU (227 KB on sm_90), so that nobody allocates what a text merely claims. */
enum { MAX_SHARED = 1 << 20 };

void tir_verify_shared(verifier *v, const tir_op *op) {
  const tir_type *out = op->n_out ? op->out[0]->type : NULL;
  if (v->fn->stage < STAGE_LAID_OUT) tir_complain(v, op, "comes when layouts have been assigned");
  switch (op->code) {
    case OP_alloc:
      if (!tir_is_buffer(out))
        tir_complain(v, op, "the result is a buffer, not %s", text(v, out));
      else if (tir_buffer_stage_bytes(out) * (out->stages ? out->stages : 1) > MAX_SHARED)
        tir_complain(v, op, "a buffer of more than %d bytes", MAX_SHARED);
      break;
    case OP_buffer_at: {
      const tir_type *b = in_type(op, 0);
      if (!tir_is_buffer(b) || b->stages < 1 || in_type(op, 1) != tir_scalar_type(v->fn->cx, DT_i32))
        tir_complain(v, op, "takes a buffer with stages and an i32");
      else if (out != tir_buffer_type(v->fn->cx, b->elem, b->rank, b->shape, b->shared, 0))
        tir_complain(v, op, "the result is one stage of %s, not %s", text(v, b), text(v, out));
      break;
    }
    case OP_buffer_trans: {
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      bool right = is_view(v, op, 0) && perm && perm->n == in_type(op, 0)->rank && tir_is_buffer(out) &&
                   out->rank == perm->n && out->stages == 0;
      unsigned seen = 0;
      for (int i = 0; right && i < perm->n; i++) {
        right = perm->ints[i] >= 0 && perm->ints[i] < perm->n && out->elem == in_type(op, 0)->elem &&
                out->shape[i] == in_type(op, 0)->shape[perm->ints[i]] && !(seen >> perm->ints[i] & 1);
        if (right) seen |= 1u << perm->ints[i];
      }
      if (!right) tir_complain(v, op, "the result is not the operand with its axes permuted");
      break;
    }
    case OP_buffer_store:
      if (is_view(v, op, 1) && !holds(in_type(op, 1), in_type(op, 0)))
        tir_complain(v, op, "%s does not fit into %s", text(v, in_type(op, 0)), text(v, in_type(op, 1)));
      break;
    case OP_buffer_load:
      if (is_view(v, op, 0) && !holds(in_type(op, 0), out))
        tir_complain(v, op, "the result is the tile in %s, not %s", text(v, in_type(op, 0)), text(v, out));
      break;
    case OP_copy_async: check_copy(v, op); break;
    case OP_tensor_map: check_tensor_map(v, op); break;
    case OP_tma_load: check_tma_load(v, op); break;
    case OP_tma_release:
      if (!is_ring(tir_in(op, 0))) tir_complain(v, op, "releases a stage of a ring");
      break;
    case OP_tma_store: check_tma_store(v, op); break;
    case OP_wgmma: check_wgmma(v, op); break;
    case OP_wgmma_wait:
      if (op->n_in != op->n_out) {
        tir_complain(v, op, "%d operands and %d results", op->n_in, op->n_out);
        break;
      }
      for (int i = 0; i < op->n_in; i++)
        if (in_type(op, i) != op->out[i]->type) tir_complain(v, op, "result %d has another type than operand %d", i, i);
      break;
    case OP_next_program:
      if (!is_integer(out, DT_i32)) tir_complain(v, op, "the result is i32");
      break;
    default: break; /* copy_commit, copy_wait, fence_async: no operands */
  }
}
