/* reduce: a tree over the axis. The upper half is combined with the lower half until one element is left, and each such
 * step runs the combining region once, on arrays of all pairs. The order is fixed by the shape alone, so that a result
 * does not depend on the order of programs or on a layout. A region with control flow cannot run on arrays: it is
 * executed for one pair after the other, in the same order. */
#include "compiler/interp/machine.h"

typedef struct axis_shape {
  int64_t outer, extent, inner;
} axis_shape;

static axis_shape split_at(const tir_type *t, int64_t axis) {
  axis_shape s = {1, t->shape[axis], 1};
  for (int i = 0; i < t->rank; i++) *(i < axis ? &s.outer : i > axis ? &s.inner : &(int64_t){0}) *= t->shape[i];
  return s;
}

/* The lower (0) or upper (1) half along the axis of one plane. */
static void half_plane(const axis_shape *s, int which, const void *in, void *out, int bytes) {
  size_t run = (size_t)(s->extent / 2 * s->inner * bytes);
  for (int64_t a = 0; a < s->outer; a++)
    memcpy((char *)out + (size_t)a * run, (const char *)in + (size_t)(2 * a + which) * run, run);
}

static void take_half(worker *w, const axis_shape *s, int which, const ival *in, ival *out, int bytes) {
  half_plane(s, which, val_at(in), val_new(w, out, in->n / 2, bytes), bytes);
  if (in->undef) half_plane(s, which, val_undef(in), val_undef_new(w, out), 1);
  out->from_all = in->from_all;
  if (!in->from) return;
  out->from = block_new(&w->pool, out->n * sizeof(int32_t));
  half_plane(s, which, block_at(in->from), block_at(out->from), sizeof(int32_t));
}

/* Runs the region on the arguments that were set; its n yielded values go to out, `count` elements each. */
static bool combine(worker *w, const plan_op *p, ival *out, size_t count) {
  const plan_op *yield = exec_region(w, p->regions[0]);
  if (!yield) return false;
  for (int i = 0; i < p->op->n_out; i++) {
    const tir_value *v = tir_in(yield->op, i);
    if (val_of(w, v)->n == count) {
      ival shared = val_share(val_of(w, v));
      val_take(w, &out[i], &shared);
    } else {
      val_splat(w, &out[i], val_of(w, v), count, elem_bytes(v->type));
    }
  }
  release_dead(w, yield);
  return true;
}

static bool combine_arrays(worker *w, const plan_op *p, ival *lower, ival *upper, ival *out) {
  const tir_region *r = p->regions[0]->region;
  size_t count = lower[0].n;
  for (int i = 0; i < p->op->n_in; i++) {
    val_take(w, val_of(w, r->args[i]), &lower[i]);
    val_take(w, val_of(w, r->args[p->op->n_in + i]), &upper[i]);
  }
  return combine(w, p, out, count);
}

static void set_element(worker *w, ival *out, const ival *in, size_t i, int bytes) {
  memcpy(val_new(w, out, 1, bytes), (const char *)val_at(in) + i * (size_t)bytes, (size_t)bytes);
  if (in->undef && val_undef(in)[i]) *val_undef_new(w, out) = val_undef(in)[i];
  out->from_all = val_buffer(in, i);
}

static void put_element(worker *w, ival *out, size_t i, const ival *in, int bytes) {
  memcpy((char *)val_at(out) + i * (size_t)bytes, val_at(in), (size_t)bytes);
  if (in->undef && *val_undef(in)) val_undef_new(w, out)[i] = *val_undef(in);
  if (val_buffer(in, 0) != out->from_all) {
    if (!out->from) {
      out->from = block_new(&w->pool, out->n * sizeof(int32_t));
      for (size_t k = 0; k < out->n; k++) ((int32_t *)block_at(out->from))[k] = out->from_all;
    }
    ((int32_t *)block_at(out->from))[i] = val_buffer(in, 0);
  }
}

static bool combine_pairs(worker *w, const plan_op *p, ival *lower, ival *upper, ival *out) {
  const tir_region *r = p->regions[0]->region;
  int n = p->op->n_in;
  size_t count = lower[0].n;
  ival *one = vals_new(w, n);
  for (int i = 0; i < n; i++) val_new(w, &out[i], count, elem_bytes(r->args[i]->type));
  for (size_t k = 0; k < count; k++) {
    for (int i = 0; i < n; i++) {
      int bytes = elem_bytes(r->args[i]->type);
      set_element(w, val_of(w, r->args[i]), &lower[i], k, bytes);
      set_element(w, val_of(w, r->args[n + i]), &upper[i], k, bytes);
    }
    if (!combine(w, p, one, 1)) return false;
    for (int i = 0; i < n; i++) put_element(w, &out[i], k, &one[i], elem_bytes(r->args[i]->type));
  }
  for (int i = 0; i < n; i++) {
    val_clear(w, &one[i]);
    val_clear(w, &lower[i]);
    val_clear(w, &upper[i]);
  }
  vals_drop(w, one);
  return true;
}

void exec_reduce(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  int n = op->n_in;
  ival *now = vals_new(w, 3 * n), *lower = now + n, *upper = lower + n;
  for (int i = 0; i < n; i++) now[i] = val_share(val_of(w, tir_in(op, i)));
  for (axis_shape s = split_at(tir_in(op, 0)->type, tir_attr_int(op, ATTR_axis, 0)); s.extent > 1; s.extent /= 2) {
    for (int i = 0; i < n; i++) {
      int bytes = elem_bytes(tir_in(op, i)->type);
      take_half(w, &s, 0, &now[i], &lower[i], bytes);
      take_half(w, &s, 1, &now[i], &upper[i], bytes);
    }
    bool structured = p->regions[0]->structured;
    if (!(structured ? combine_pairs : combine_arrays)(w, p, lower, upper, now)) return;
  }
  for (int i = 0; i < n; i++) val_take(w, val_of(w, op->out[i]), &now[i]);
  vals_drop(w, now);
}
