/* Ops that make tiles or move their elements: every one is a strided walk over its operand, done for the elements and
 * for both shadow planes alike. Also hints and device_print. */
#include <math.h>

#include "compiler/interp/machine.h"

/* Result element (i0, i1, ..) of `shape` is operand element offset + sum of i[k] * stride[k]. */
typedef struct walk {
  int rank;
  int64_t shape[TIR_MAX_RANK], stride[TIR_MAX_RANK], offset;
} walk;

static void walk_copy(const walk *k, void *out, const void *in, int bytes) {
  int64_t index[TIR_MAX_RANK] = {0}, from = k->offset;
  int last = k->rank - 1;
  for (char *to = out;; to += k->shape[last] * bytes) {
    copy_strided(to, 1, (const char *)in + from * bytes, k->stride[last], k->shape[last], bytes);
    int axis = last - 1;
    for (; axis >= 0; axis--) {
      from += k->stride[axis];
      if (++index[axis] < k->shape[axis]) break;
      from -= k->stride[axis] * k->shape[axis];
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}

static void walk_value(worker *w, const tir_value *v, const ival *in, const walk *k) {
  int bytes = elem_bytes(v->type);
  ival out = {0};
  walk_copy(k, val_new(w, &out, (size_t)v->type->numel, bytes), val_at(in), bytes);
  if (in->undef) walk_copy(k, val_undef_new(w, &out), val_undef(in), 1);
  out.from_all = in->from_all;
  if (in->from) {
    out.from = block_new(&w->pool, out.n * sizeof(int32_t));
    walk_copy(k, block_at(out.from), block_at(in->from), sizeof(int32_t));
  }
  val_take(w, val_of(w, v), &out);
}

static void keep(worker *w, const tir_op *op) {
  ival shared = val_share(val_of(w, tir_in(op, 0)));
  val_take(w, val_of(w, op->out[0]), &shared);
}

static void row_major(const tir_type *t, int64_t *stride) {
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    stride[i] = step;
    step *= t->shape[i];
  }
}

static void broadcast(worker *w, const tir_op *op) {
  const tir_type *from = tir_in(op, 0)->type, *to = op->out[0]->type;
  walk k = {.rank = to->rank};
  row_major(from, k.stride);
  for (int i = 0; i < to->rank; i++) {
    k.shape[i] = to->shape[i];
    if (from->shape[i] == 1) k.stride[i] = 0;
  }
  walk_value(w, op->out[0], val_of(w, tir_in(op, 0)), &k);
}

static void trans(worker *w, const tir_op *op) {
  const tir_type *from = tir_in(op, 0)->type;
  const int64_t *perm = tir_attr_of(op, ATTR_perm)->ints;
  int64_t stride[TIR_MAX_RANK];
  walk k = {.rank = from->rank};
  row_major(from, stride);
  for (int i = 0; i < from->rank; i++) {
    k.shape[i] = from->shape[perm[i]];
    k.stride[i] = stride[perm[i]];
  }
  walk_value(w, op->out[0], val_of(w, tir_in(op, 0)), &k);
}

static void split(worker *w, const tir_op *op) {
  ival in = val_share(val_of(w, tir_in(op, 0)));
  for (int i = 0; i < 2; i++) {
    walk k = {.rank = 1, .shape = {op->out[i]->type->numel}, .stride = {2}, .offset = i};
    walk_value(w, op->out[i], &in, &k);
  }
  val_clear(w, &in);
}

static void join(worker *w, const tir_op *op) {
  const tir_type *t = op->out[0]->type;
  const ival *in[2] = {val_of(w, tir_in(op, 0)), val_of(w, tir_in(op, 1))};
  int64_t n = t->numel / 2;
  ival out = {0};
  val_new(w, &out, (size_t)t->numel, elem_bytes(t));
  bool mixed = in[0]->from || in[1]->from || in[0]->from_all != in[1]->from_all;
  if (mixed)
    out.from = block_new(&w->pool, out.n * sizeof(int32_t));
  else
    out.from_all = in[0]->from_all;
  for (int i = 0; i < 2; i++) {
    copy_strided((char *)val_at(&out) + i * elem_bytes(t), 2, val_at(in[i]), 1, n, elem_bytes(t));
    if (in[i]->undef) copy_strided(val_undef_new(w, &out) + i, 2, val_undef(in[i]), 1, n, 1);
    for (int64_t k = 0; mixed && k < n; k++) ((int32_t *)block_at(out.from))[2 * k + i] = val_buffer(in[i], (size_t)k);
  }
  val_take(w, val_of(w, op->out[0]), &out);
}

static void constant(worker *w, const tir_op *op) {
  const tir_type *t = op->out[0]->type;
  uint64_t bits = tir_attr_of(op, ATTR_value)->scalar.bits;
  copy_strided(val_new(w, val_of(w, op->out[0]), (size_t)t->numel, elem_bytes(t)), 1, &bits, 0, t->numel,
               elem_bytes(t));
}

static void arange(worker *w, const tir_op *op) {
  int64_t n = op->out[0]->type->numel, start = tir_attr_int(op, ATTR_start, 0);
  int32_t *at = val_new(w, val_of(w, op->out[0]), (size_t)n, 4);
  for (int64_t i = 0; i < n; i++) at[i] = (int32_t)(start + i);
}

/* ---- hints ---- */

static int64_t int_at(const ival *x, const tir_type *t, size_t i) {
  return tir_scalar_as_int(tir_dtype_of(t), (tir_scalar){val_bits(x, t, i)});
}

/* Whether element i, at position `pos` of an axis where its predecessor is element i - step, is as the hint says.
   Whoever says multiple_of(.., k) means groups of k that begin at a multiple, as the axis analysis takes it. */
static bool hint_holds(const char *kind, const ival *x, const tir_type *t, size_t i, int64_t pos, int64_t step,
                       int64_t k) {
  int64_t v = int_at(x, t, i), unit = tir_is_ptr(t) ? elem_bytes(tir_elem(t)->elem) : 1;
  if (strcmp(kind, "multiple_of") == 0) return pos % k != 0 || v % k == 0;
  if (pos % k == 0) return true;
  int64_t before = int_at(x, t, i - (size_t)step);
  return strcmp(kind, "max_contiguous") == 0 ? v - before == unit : v == before;
}

static void check_hint(worker *w, const tir_op *op) {
  const tir_type *t = op->out[0]->type;
  const ival *x = val_of(w, tir_in(op, 0));
  const uint8_t *undef = val_undef(x);
  const tir_attr *values = tir_attr_of(op, ATTR_values);
  const char *kind = tir_attr_str(op, ATTR_kind, "");
  if (!tir_is_ptr(t) && dt_is_float(tir_dtype_of(t))) return;
  int64_t step = 1;
  for (int axis = values->n - 1; axis >= 0; axis--) {
    int64_t extent = t->rank ? t->shape[axis] : 1, k = values->ints[axis];
    for (size_t i = 0; k > 1 && i < x->n; i++) {
      if ((undef && undef[i]) || hint_holds(kind, x, t, i, (int64_t)i / step % extent, step, k)) continue;
      machine_lock(w);
      if (finding_first(w, &D_interp_hint, op->at)) {
        const char *text = arena_printf(w->m->a, "%s %lld", kind, (long long)k);
        diag *d = diag_add(w->m->sink, op->at, &D_interp_hint, text);
        finding_describe(w, d, t, (int64_t)i);
      }
      machine_unlock(w);
      return;
    }
    step *= extent;
  }
}

/* ---- device_print ---- */

static void print_element(textbuf *b, const ival *x, const tir_type *t, size_t i, bool hex) {
  uint64_t bits = val_bits(x, t, i);
  tir_dtype d = tir_dtype_of(t);
  if (hex || tir_is_ptr(t))
    text_printf(b, "0x%0*llx", 2 * elem_bytes(t), (unsigned long long)bits);
  else if (d == DT_u64)
    text_printf(b, "%llu", (unsigned long long)bits);
  else if (!dt_is_float(d))
    text_printf(b, "%lld", (long long)tir_scalar_as_int(d, (tir_scalar){bits}));
  else
    text_printf(b, "%g", tir_scalar_as_float(d, (tir_scalar){bits}));
}

/* One line an element: `pid (x, y, z) idx (i, j) message: value`. */
void exec_print(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  machine *m = w->m;
  if (!m->options->print) return;
  bool hex = tir_attr_int(op, ATTR_hex, 0) != 0;
  const char *message = tir_attr_str(op, ATTR_message, "");
  machine_lock(w);
  arena *a = arena_new();
  textbuf b;
  for (int k = 0; k < op->n_in || k == 0; k++) {
    const ival *x = op->n_in ? val_of(w, tir_in(op, k)) : NULL;
    const tir_type *t = op->n_in ? tir_in(op, k)->type : NULL;
    for (size_t i = 0; i < (x ? x->n : 1); i++) {
      text_init(&b, a);
      text_printf(&b, "pid (%lld, %lld, %lld) idx (", (long long)w->pid[0], (long long)w->pid[1], (long long)w->pid[2]);
      int64_t step = t ? t->numel : 1;
      for (int axis = 0; t && axis < t->rank; axis++) {
        step /= t->shape[axis];
        text_printf(&b, "%s%lld", axis ? ", " : "", (long long)((int64_t)i / step % t->shape[axis]));
      }
      text_printf(&b, ")%s%s", *message ? " " : "", message);
      if (x) {
        text_str(&b, ": ");
        if (op->n_in > 1) text_printf(&b, "(operand %d) ", k);
        print_element(&b, x, t, i, hex);
      }
      text_char(&b, '\n');
      m->options->print(m->options->user, b.at, b.n);
    }
  }
  arena_free(a);
  machine_unlock(w);
}

void exec_tile(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  switch (op->code) {
    case OP_const: constant(w, op); break;
    case OP_arange: arange(w, op); break;
    case OP_splat: {
      const tir_type *t = op->out[0]->type;
      val_splat(w, val_of(w, op->out[0]), val_of(w, tir_in(op, 0)), (size_t)t->numel, elem_bytes(t));
      break;
    }
    case OP_expand_dims:
    case OP_reshape:
    case OP_unsplat:
    case OP_convert_layout: keep(w, op); break;
    case OP_broadcast: broadcast(w, op); break;
    case OP_trans: trans(w, op); break;
    case OP_join: join(w, op); break;
    case OP_split: split(w, op); break;
    case OP_hint:
      check_hint(w, op);
      keep(w, op);
      break;
    default: base_panic("the interpreter does not know %s", tir_ops[op->code].name);
  }
}
