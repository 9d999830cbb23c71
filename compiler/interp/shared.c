/* Buffers in shared memory, asynchronous copies and products.
 *
 * A buffer's elements lie here in row-major order, stage after stage, each with a byte that says whether it is defined;
 * where a shared layout puts them does not matter. A view is an offset and a stride for each axis.
 *
 * What is asynchronous happens as late as it may. A copy takes its elements when it is issued, but they land at the
 * copy_wait that covers its group; until then the view holds nothing. A wgmma reads its operands and makes its result
 * at the wgmma_wait that covers it. Using a result that was not handed on by a wait gives no value, except as the
 * accumulator of the next one.
 *
 * A tma_load, in contrast, has done its work when it is passed: what it hides is its own affair. It takes the stages of
 * its rings in turn and finds none if a tma_release is missing.
 *
 * A wait that is missing is found where it matters, whether or not the value goes anywhere: at the read of a view whose
 * copy has not landed (or where nothing was ever written), and at the write into a view that a wgmma still reads. The
 * finding names the copy or the wgmma. What such a read gives is undefined, and not reported again further on. Barriers
 * are not looked at: here is one thread, and the passes place them last. */
#include "compiler/interp/machine.h"

typedef struct view {
  int64_t offset, shape[TIR_MAX_RANK], stride[TIR_MAX_RANK]; /* elements */
  int rank;
} view;

typedef struct storage { /* in a block: then the elements, then a byte for each */
  const tir_op *alloc;
  int64_t n;
  int bytes;     /* of an element */
  int64_t place; /* byte in shared memory; -1: not known yet */
  /* of a ring: */
  int64_t taken, released; /* stages, since the program began */
} storage;
_Static_assert(sizeof(storage) % 16 == 0, "elements are aligned to 16 bytes");

typedef struct copy {
  const tir_op *op;
  ival what;
  view to;
  block *buffer;
  uint64_t group;
} copy;

typedef struct product {
  const tir_op *op;
  ival a, b, acc, out; /* a and b: tiles or views */
} product;

typedef struct stored { /* written by threads since the last fence_async */
  const tir_op *op;
  const block *buffer;
  int64_t offset, n; /* elements */
} stored;

typedef struct async_work {
  VEC(copy) copies;
  VEC(product) products; /* oldest first */
  VEC(stored) unfenced;
  uint64_t group; /* number of the group that copies go to now */
} async_work;

static async_work *work_of(worker *w) {
  if (!w->async) w->async = ARENA_NEW(w->pool.a, async_work);
  return w->async;
}

static char *storage_data(block *b) { return (char *)block_at(b) + sizeof(storage); }

static uint8_t *storage_undef(block *b) {
  const storage *s = block_at(b);
  return (uint8_t *)storage_data(b) + s->n * s->bytes;
}

static const view *view_of(const ival *x) { return val_at(x); }

/* ---- elements through a view ---- */

typedef struct cursor {
  int64_t index[TIR_MAX_RANK], at;
} cursor;

/* From one element of a view to the next in row-major order; false behind the last. */
static bool next_element(const view *v, cursor *c) {
  for (int axis = v->rank - 1; axis >= 0; axis--) {
    c->at += v->stride[axis];
    if (++c->index[axis] < v->shape[axis]) return true;
    c->at -= v->stride[axis] * v->shape[axis];
    c->index[axis] = 0;
  }
  return false;
}

static void write_view(const view *v, block *buffer, const ival *tile) {
  int bytes = ((const storage *)block_at(buffer))->bytes;
  char *data = storage_data(buffer);
  uint8_t *undef = storage_undef(buffer);
  const uint8_t *from = val_undef(tile);
  cursor c = {.at = v->offset};
  size_t i = 0;
  do {
    copy_strided(data + c.at * bytes, 1, (const char *)val_at(tile) + i * (size_t)bytes, 1, 1, bytes);
    undef[c.at] = from ? from[i] : 0;
    i++;
  } while (next_element(v, &c));
}

static void poison_view(const view *v, block *buffer, uint8_t origin) {
  uint8_t *undef = storage_undef(buffer);
  cursor c = {.at = v->offset};
  do undef[c.at] = origin;
  while (next_element(v, &c));
}

static void read_view(worker *w, ival *out, const ival *x, const tir_type *t) {
  const view *v = view_of(x);
  int bytes = elem_bytes(t);
  ival made = {0};
  char *data = val_new(w, &made, (size_t)t->numel, bytes);
  uint8_t *to = val_undef_new(w, &made);
  const char *from = storage_data(x->storage);
  const uint8_t *undef = storage_undef(x->storage);
  cursor c = {.at = v->offset};
  size_t i = 0;
  do {
    copy_strided(data + i * (size_t)bytes, 1, from + c.at * bytes, 1, 1, bytes);
    to[i++] = undef[c.at];
  } while (next_element(v, &c));
  val_take(w, out, &made);
}

/* ---- checks ---- */

/* A view is one stage, whole: its elements lie from its offset on, in whatever order. */
static int64_t view_size(const view *v) {
  int64_t n = 1;
  for (int i = 0; i < v->rank; i++) n *= v->shape[i];
  return n;
}

/* Some elements of a buffer. */
typedef struct part {
  block *buffer;
  int64_t from, n;
} part;

static part part_of(block *buffer, const view *v) { return (part){buffer, v->offset, view_size(v)}; }

static int64_t buffer_bytes(const storage *s) {
  const tir_type *t = s->alloc->out[0]->type;
  return tir_buffer_stage_bytes(t) * (t->stages ? t->stages : 1);
}

/* Whether two parts are the same memory. What one alloc gives in the next iteration of a loop is where it was before;
   different buffers, once they have a place, may share it whole. */
static bool overlap(part x, part y) {
  const storage *sx = block_at(x.buffer), *sy = block_at(y.buffer);
  if (x.buffer == y.buffer || sx->alloc == sy->alloc) return x.from < y.from + y.n && y.from < x.from + x.n;
  if (sx->place < 0 || sy->place < 0) return false;
  return sx->place < sy->place + buffer_bytes(sy) && sy->place < sx->place + buffer_bytes(sx);
}

/* What the view holds must have landed. */
static void check_read(worker *w, const tir_op *op, const tir_value *v) {
  if (!tir_is_buffer(v->type)) return;
  const ival *x = val_of(w, v);
  const view *from = view_of(x);
  const uint8_t *undef = storage_undef(x->storage);
  const tir_op *origin = NULL;
  int64_t lane = 0;
  cursor c = {.at = from->offset};
  do {
    if (undef[c.at]) origin = w->m->plan->origins[undef[c.at]];
    if (origin && (origin->code == OP_copy_async || origin->code == OP_alloc || origin->code == OP_tma_release)) break;
    origin = NULL;
    lane++;
  } while (next_element(from, &c));
  if (!origin) return;
  bool copied = origin->code == OP_copy_async, given_back = origin->code == OP_tma_release;
  const diag_desc *what = copied ? &D_interp_not_landed : given_back ? &D_interp_released : &D_interp_unwritten;
  machine_lock(w);
  if (finding_first(w, what, op->at)) {
    diag *d = diag_add(w->m->sink, op->at, what, tir_ops[op->code].name);
    finding_describe(w, d, v->type, lane);
    if (copied) {
      diag_note(d, origin->at, "the copy begins here");
      diag_fix(d, op->at, "a wait is missing: a copy_wait that covers the copy's group, behind its copy_commit");
    } else if (given_back) {
      diag_note(d, origin->at, "it was released here");
    } else {
      diag_note(d, origin->at, "this is the buffer");
    }
  }
  machine_unlock(w);
}

/* wgmma sees what threads stored only behind a fence_async. */
static void check_fenced(worker *w, const tir_op *op, const tir_value *v) {
  const async_work *work = w->async;
  if (!work || !tir_is_buffer(v->type)) return;
  const ival *x = val_of(w, v);
  for (int i = 0; i < work->unfenced.n; i++) {
    const stored *s = &work->unfenced.at[i];
    const view *v0 = view_of(x);
    if (s->buffer != x->storage || s->offset >= v0->offset + view_size(v0) || v0->offset >= s->offset + s->n) continue;
    machine_lock(w);
    if (finding_first(w, &D_interp_unfenced, op->at)) {
      diag *d = diag_add(w->m->sink, op->at, &D_interp_unfenced);
      finding_describe(w, d, NULL, NO_LANE);
      diag_note(d, s->op->at, "it was stored here");
      diag_fix(d, op->at, "a fence_async is missing between the two");
    }
    machine_unlock(w);
    return;
  }
}

static void report_write(worker *w, const tir_op *op, const diag_desc *what, const tir_op *other, const char *note,
                         const char *fix) {
  machine_lock(w);
  if (finding_first(w, what, op->at)) {
    diag *d = diag_add(w->m->sink, op->at, what, tir_ops[op->code].name);
    finding_describe(w, d, NULL, NO_LANE);
    diag_note(d, other->at, "%s", note);
    diag_fix(d, op->at, "%s", fix);
  }
  machine_unlock(w);
}

/* No product under way may still read it; false, and `what` is reported, if one does. */
static bool check_products(worker *w, const tir_op *op, part to, const diag_desc *what) {
  const async_work *work = w->async;
  for (int i = 0; work && i < work->products.n; i++) {
    const product *p = &work->products.at[i];
    const ival *in[2] = {&p->a, &p->b};
    for (int k = 0; k < 2; k++) {
      if (!in[k]->storage || !overlap(part_of(in[k]->storage, view_of(in[k])), to)) continue;
      report_write(w, op, what, p->op, "this wgmma reads it, and nothing has waited for it",
                   "a wait is missing: a wgmma_wait that covers it");
      return false;
    }
  }
  return true;
}

/* No product under way may still read what is overwritten, no copy still write it. */
static void check_write(worker *w, const tir_op *op, const tir_value *v) {
  const async_work *work = w->async;
  part to = part_of(val_of(w, v)->storage, view_of(val_of(w, v)));
  if (!check_products(w, op, to, &D_interp_still_read)) return;
  for (int i = 0; work && i < work->copies.n; i++) {
    const copy *c = &work->copies.at[i];
    if (!overlap(part_of(c->buffer, &c->to), to)) continue;
    report_write(w, op, &D_interp_still_copied, c->op, "the copy begins here, and nothing has waited for it",
                 "a wait is missing: a copy_wait that covers its group");
    return;
  }
}

/* ---- buffers ---- */

static void set_view(worker *w, const tir_value *result, const view *v, block *buffer) {
  ival out = {0};
  memcpy(val_new(w, &out, 1, sizeof *v), v, sizeof *v);
  out.storage = buffer;
  val_take(w, val_of(w, result), &out);
}

/* A buffer of earlier may have been where a new one is. */
static void forget_stores(async_work *work, const block *b) {
  int kept = 0;
  for (int i = 0; work && i < work->unfenced.n; i++)
    if (work->unfenced.at[i].buffer != b) work->unfenced.at[kept++] = work->unfenced.at[i];
  if (work) work->unfenced.n = kept;
}

static void alloc(worker *w, const plan_op *p) {
  const tir_type *t = p->op->out[0]->type;
  storage s = {.alloc = p->op,
               .n = t->numel * (t->stages ? t->stages : 1),
               .bytes = elem_bytes(t),
               .place = tir_attr_int(p->op, ATTR_scratch, -1)};
  block *b = block_new(&w->pool, sizeof s + (size_t)(s.n * (s.bytes + 1)));
  forget_stores(w->async, b);
  memcpy(block_at(b), &s, sizeof s);
  memset(storage_data(b), 0, (size_t)(s.n * s.bytes));
  memset(storage_undef(b), p->origin, (size_t)s.n);
  view v = {.rank = t->rank};
  int64_t step = 1;
  for (int i = t->rank - 1; i >= 0; i--) {
    v.shape[i] = t->shape[i];
    v.stride[i] = step;
    step *= t->shape[i];
  }
  set_view(w, p->op->out[0], &v, b);
}

/* The same storage, one more reference, through another view. */
static void set_view_of(worker *w, const tir_op *op, const view *v) {
  block *b = val_of(w, tir_in(op, 0))->storage;
  b->refs++;
  set_view(w, op->out[0], v, b);
}

static void buffer_at(worker *w, const tir_op *op) {
  const tir_type *t = tir_in(op, 0)->type;
  const ival *index = val_of(w, tir_in(op, 1));
  int64_t stage = (int32_t)val_bits(index, tir_in(op, 1)->type, 0);
  view v = *view_of(val_of(w, tir_in(op, 0)));
  if (index->undef && *val_undef(index)) {
    machine_lock(w);
    finding_undefined(w, &D_interp_undef_address, "access", op, NULL, NO_LANE, *val_undef(index));
    machine_unlock(w);
    stage = 0;
  }
  if (stage < 0 || stage >= t->stages) {
    machine_lock(w);
    if (finding_first(w, &D_interp_stage, op->at)) {
      diag *d = diag_add(w->m->sink, op->at, &D_interp_stage, (long long)stage, t->stages);
      finding_describe(w, d, NULL, NO_LANE);
    }
    machine_unlock(w);
    stage = 0;
  }
  v.offset += stage * t->numel;
  set_view_of(w, op, &v);
}

static void buffer_trans(worker *w, const tir_op *op) {
  const view from = *view_of(val_of(w, tir_in(op, 0)));
  const int64_t *perm = tir_attr_of(op, ATTR_perm)->ints;
  view v = from;
  for (int i = 0; i < from.rank; i++) {
    v.shape[i] = from.shape[perm[i]];
    v.stride[i] = from.stride[perm[i]];
  }
  set_view_of(w, op, &v);
}

static void buffer_store(worker *w, const tir_op *op) {
  async_work *work = work_of(w);
  const ival *to = val_of(w, tir_in(op, 1));
  const view *v = view_of(to);
  check_write(w, op, tir_in(op, 1));
  write_view(v, to->storage, val_of(w, tir_in(op, 0)));
  for (int i = 0; i < work->unfenced.n; i++)
    if (work->unfenced.at[i].buffer == to->storage && work->unfenced.at[i].offset == v->offset) return;
  VEC_PUSH(w->pool.a, work->unfenced, ((stored){op, to->storage, v->offset, view_size(v)}));
}

/* ---- copies ---- */

static void copy_async(worker *w, const plan_op *p) {
  async_work *work = work_of(w);
  const ival *to = val_of(w, tir_in(p->op, 1));
  copy c = {.op = p->op, .to = *view_of(to), .buffer = to->storage, .group = work->group};
  check_write(w, p->op, tir_in(p->op, 1));
  load_lanes(w, p->op, 2, &c.what, 0);
  c.buffer->refs++;
  poison_view(&c.to, c.buffer, p->origin);
  VEC_PUSH(w->pool.a, work->copies, c);
}

static void copy_wait(worker *w, uint64_t pending) {
  async_work *work = work_of(w);
  int kept = 0;
  for (int i = 0; i < work->copies.n; i++) {
    copy *c = &work->copies.at[i];
    if (c->group + pending >= work->group) {
      work->copies.at[kept++] = *c;
      continue;
    }
    write_view(&c->to, c->buffer, &c->what);
    val_clear(w, &c->what);
    block_drop(&w->pool, c->buffer);
  }
  work->copies.n = kept;
}

/* ---- rings ---- */

typedef struct tensor { /* behind the address that stands for a tensor_map */
  ival pointer;
  const tir_type *pointer_type;
  int rank;
  int64_t size[TIR_MAX_MAP_RANK], stride[TIR_MAX_MAP_RANK]; /* elements */
} tensor;

static void tensor_map(worker *w, const tir_op *op) {
  tensor *t = ARENA_NEW(w->pool.a, tensor);
  const tir_value *p = tir_in(op, 0);
  t->pointer = val_share(val_of(w, p));
  t->pointer_type = p->type;
  t->rank = op->n_in / 2;
  t->stride[0] = 1;
  for (int i = 0; i < t->rank; i++) {
    t->size[i] = (int64_t)val_bits(val_of(w, tir_in(op, 1 + i)), tir_in(op, 1 + i)->type, 0);
    if (i) t->stride[i] = (int64_t)val_bits(val_of(w, tir_in(op, t->rank + i)), tir_in(op, t->rank + i)->type, 0);
  }
  uint64_t address = (uint64_t)(uintptr_t)t;
  ival out = {0};
  memcpy(val_new(w, &out, 1, sizeof address), &address, sizeof address);
  val_take(w, val_of(w, op->out[0]), &out);
}

typedef struct box { /* of a tensor: a tile's elements */
  const tensor *t;
  block *addresses, *flags; /* uint64_t, uint8_t of each: where it is, and whether it is in range */
} box;

/* The box that is operands first.. of op: its map is `map`, its first element has these coordinates, and axis `inner`
   of the tile is axis 0 of the tensor. */
static box box_of(worker *w, const tir_op *op, const tir_value *map, int first, const tir_type *tile, int inner) {
  const tensor *t = (const tensor *)(uintptr_t)val_bits(val_of(w, map), map->type, 0);
  size_t n = (size_t)tile->numel;
  int bytes = elem_bytes(tile);
  int64_t at[TIR_MAX_MAP_RANK];
  for (int k = 0; k < t->rank; k++) {
    const tir_value *x = tir_in(op, first + k);
    at[k] = (int32_t)val_bits(val_of(w, x), x->type, 0);
  }
  uint64_t base = val_bits(&t->pointer, t->pointer_type, 0);
  box b = {t, block_new(&w->pool, n * 8), block_new(&w->pool, n)};
  uint64_t *address = block_at(b.addresses);
  uint8_t *on = block_at(b.flags);
  for (size_t i = 0; i < n; i++) {
    int64_t index[2] = {(int64_t)i / tile->shape[1], (int64_t)i % tile->shape[1]};
    uint64_t offset = 0; /* wraps where elements are out of range */
    on[i] = 1;
    for (int axis = 0; axis < t->rank; axis++) {
      int64_t x = at[axis] + (axis == 0 ? index[inner] : axis == 1 ? index[1 - inner] : 0);
      if (x < 0 || x >= t->size[axis]) on[i] = 0;
      offset += (uint64_t)x * (uint64_t)t->stride[axis];
    }
    address[i] = base + offset * (uint64_t)bytes;
  }
  return b;
}

static void box_drop(worker *w, const box *b) {
  block_drop(&w->pool, b->addresses);
  block_drop(&w->pool, b->flags);
}

/* The stage of a ring that was taken as number `index`. */
static view stage_of(worker *w, const tir_value *ring, int64_t index) {
  view v = *view_of(val_of(w, ring));
  v.offset += index % ring->type->stages * ring->type->numel;
  return v;
}

/* Of the stages that were taken, how many may be filled again. */
static int64_t stages_free(const storage *ring) {
  int64_t n = ring->released - tir_attr_int(ring->alloc, ATTR_early, 0);
  return n > 0 ? n : 0;
}

static void tma_load(worker *w, const tir_op *op) {
  int next = 2 * op->n_out;
  const tir_value *first = tir_in(op, 1);
  storage *lead = block_at(val_of(w, first)->storage);
  if (lead->taken - stages_free(lead) >= first->type->stages) {
    report_write(w, op, &D_interp_ring_full, tir_in(op, 1)->def, "this is the ring", "a tma_release is missing");
    lead->released++;
  }
  for (int i = 0; i < op->n_out; i++) {
    const tir_value *ring = tir_in(op, 2 * i + 1);
    block *b = val_of(w, ring)->storage;
    const tir_type *t = ring->type;
    box from = box_of(w, op, tir_in(op, 2 * i), next, t, t->shared->inner_axis);
    next += from.t->rank;
    view v = stage_of(w, ring, lead->taken);
    ival tile = {0};
    load_addresses(w, op, t, &from.t->pointer, block_at(from.addresses), block_at(from.flags), (size_t)t->numel, &tile);
    box_drop(w, &from);
    write_view(&v, b, &tile);
    val_clear(w, &tile);
    b->refs++;
    set_view(w, op->out[i], &v, b);
  }
  lead->taken++;
}

/* Here nothing is stored later than it is passed; what may not look at it does not (ops.def). */
static void tma_store(worker *w, const tir_op *op) {
  const tir_value *tile = tir_in(op, 1);
  box to = box_of(w, op, tir_in(op, 0), 2, tile->type, (int)tir_attr_int(op, ATTR_axis, 0));
  store_addresses(w, op, tile->type, &to.t->pointer, block_at(to.addresses), block_at(to.flags), val_of(w, tile));
  box_drop(w, &to);
}

/* The stage that is given back, of the ring itself and of every ring that some tma_load moves along with it. */
static void tma_release(worker *w, const plan_op *p) {
  const tir_value *first = tir_in(p->op, 0);
  storage *lead = block_at(val_of(w, first)->storage);
  int64_t index = lead->released++ - tir_attr_int(first->def, ATTR_early, 0);
  if (index < 0) return;
  for (const tir_use *u = first->uses; u; u = u->next) {
    if (u->op->code != OP_tma_load || tir_in(u->op, 1) != first) continue;
    for (int i = 0; i < u->op->n_out; i++) {
      const tir_value *ring = tir_in(u->op, 2 * i + 1);
      block *b = val_of(w, ring)->storage;
      if (!b) continue; /* not made yet, or not here */
      view v = stage_of(w, ring, index);
      if (check_products(w, p->op, part_of(b, &v), &D_interp_still_needed)) poison_view(&v, b, p->origin);
    }
  }
}

/* ---- products ---- */

static void wgmma(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  const tir_type *t = op->out[0]->type;
  ival out = {0};
  for (int i = 0; i < 2; i++) {
    check_read(w, op, tir_in(op, i));
    check_fenced(w, op, tir_in(op, i));
  }
  memset(val_new(w, &out, (size_t)t->numel, elem_bytes(t)), 0, (size_t)(t->numel * elem_bytes(t)));
  val_undef_new(w, &out);
  out.in_flight = true;
  out.origin = p->origin;
  product made = {.op = op,
                  .a = val_share(val_of(w, tir_in(op, 0))),
                  .b = val_share(val_of(w, tir_in(op, 1))),
                  .acc = val_share(val_of(w, tir_in(op, 2))),
                  .out = val_share(&out)};
  VEC_PUSH(w->pool.a, work_of(w)->products, made);
  val_take(w, val_of(w, op->out[0]), &out);
}

/* An operand of a product as a tile. */
static void product_operand(worker *w, ival *x, const tir_type *t) {
  if (!tir_is_buffer(t)) return;
  ival tile = {0};
  read_view(w, &tile, x, t);
  val_take(w, x, &tile);
}

/* The result's block was handed out empty and is filled now; an accumulator in flight is older and so filled already.
 */
static void finish_product(worker *w, product *p) {
  const tir_type *a = tir_in(p->op, 0)->type, *b = tir_in(p->op, 1)->type, *t = p->op->out[0]->type;
  ival sum = {0};
  product_operand(w, &p->a, a);
  product_operand(w, &p->b, b);
  dot_into(w, &sum, &p->a, a, &p->b, b, &p->acc, t, true);
  memcpy(val_at(&p->out), val_at(&sum), (size_t)(t->numel * elem_bytes(t)));
  if (sum.undef) memcpy(block_at(p->out.undef), val_undef(&sum), sum.n);
  val_clear(w, &sum);
  val_clear(w, &p->a);
  val_clear(w, &p->b);
  val_clear(w, &p->acc);
  val_clear(w, &p->out);
}

static bool is_under_way(const async_work *work, const ival *x) {
  for (int i = 0; i < work->products.n; i++)
    if (work->products.at[i].out.data == x->data) return true;
  return false;
}

static void wgmma_wait(worker *w, const tir_op *op) {
  async_work *work = work_of(w);
  int64_t pending = tir_attr_int(op, ATTR_pending, 0);
  int done = work->products.n > pending ? work->products.n - (int)pending : 0;
  for (int i = 0; i < done; i++) finish_product(w, &work->products.at[i]);
  for (int i = done; i < work->products.n; i++) work->products.at[i - done] = work->products.at[i];
  work->products.n -= done;
  for (int i = 0; i < op->n_in; i++) {
    ival x = val_share(val_of(w, tir_in(op, i)));
    x.in_flight = x.in_flight && is_under_way(work, &x);
    val_take(w, val_of(w, op->out[i]), &x);
  }
}

/* ---- ops ---- */

void async_begin_program(worker *w) {
  async_work *work = w->async;
  if (!work) return;
  for (int i = 0; i < work->copies.n; i++) {
    val_clear(w, &work->copies.at[i].what);
    block_drop(&w->pool, work->copies.at[i].buffer);
  }
  for (int i = 0; i < work->products.n; i++) {
    val_clear(w, &work->products.at[i].a);
    val_clear(w, &work->products.at[i].b);
    val_clear(w, &work->products.at[i].acc);
    val_clear(w, &work->products.at[i].out);
  }
  work->copies.n = work->products.n = work->unfenced.n = 0;
  work->group = 0;
}

void exec_shared(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  switch (op->code) {
    case OP_alloc: alloc(w, p); break;
    case OP_buffer_at: buffer_at(w, op); break;
    case OP_buffer_trans: buffer_trans(w, op); break;
    case OP_buffer_store: buffer_store(w, op); break;
    case OP_buffer_load:
      check_read(w, op, tir_in(op, 0));
      read_view(w, val_of(w, op->out[0]), val_of(w, tir_in(op, 0)), op->out[0]->type);
      break;
    case OP_copy_async: copy_async(w, p); break;
    case OP_copy_commit: work_of(w)->group++; break;
    case OP_copy_wait: copy_wait(w, (uint64_t)tir_attr_int(op, ATTR_pending, 0)); break;
    case OP_fence_async: work_of(w)->unfenced.n = 0; break;
    case OP_tensor_map: tensor_map(w, op); break;
    case OP_tma_load: tma_load(w, op); break;
    case OP_tma_release: tma_release(w, p); break;
    case OP_tma_store: tma_store(w, op); break;
    case OP_next_program: *(int32_t *)val_new(w, val_of(w, op->out[0]), 1, 4) = -1; break;
    case OP_wgmma: wgmma(w, p); break;
    case OP_wgmma_wait: wgmma_wait(w, op); break;
    default: base_panic("the interpreter does not know %s", tir_ops[op->code].name);
  }
}
