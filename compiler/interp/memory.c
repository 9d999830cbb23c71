/* Loads, stores and atomics, with the checks of every address.
 *
 * A pointer remembers the buffer that it was derived from, so that an access beyond its end is found even where the
 * address happens to lie in another buffer. A pointer that came out of memory or of an integer has no such memory and
 * is looked up by its address. Whatever is wrong with a lane, the lane is left out: a load gives 0 there, a store
 * writes nothing; one mistake then makes one finding. Host memory is only ever reached through the buffer's own
 * pointer. */
#include "compiler/interp/machine.h"

typedef enum access_kind { READS, WRITES, UPDATES } access_kind;
static const char *const verbs[] = {"reads", "writes", "updates"}, *const nouns[] = {"load", "store", "atomic"};

typedef struct access {
  worker *w;
  const tir_op *op;
  const tir_type *tile; /* of the pointers */
  const ival *ptr;
  const uint64_t *address;
  const uint8_t *undef;             /* of the pointers */
  const uint8_t *mask, *mask_undef; /* NULL: every lane; every lane of the mask is defined */
  access_kind kind;
  int bytes;
  bool racing; /* takes part in races: not a volatile load */
} access;

static access access_of(worker *w, const tir_op *op, access_kind kind, int mask_index) {
  const tir_type *t = tir_in(op, 0)->type;
  const ival *ptr = val_of(w, tir_in(op, 0)), *mask = op->n_in > mask_index ? val_of(w, tir_in(op, mask_index)) : NULL;
  return (access){.w = w,
                  .op = op,
                  .tile = t,
                  .ptr = ptr,
                  .address = val_at(ptr),
                  .undef = val_undef(ptr),
                  .mask = mask ? val_at(mask) : NULL,
                  .mask_undef = mask ? val_undef(mask) : NULL,
                  .kind = kind,
                  .bytes = elem_bytes(tir_elem(t)->elem),
                  .racing = !tir_attr_int(op, ATTR_is_volatile, 0)};
}

/* Of elements of `tile` at the addresses, those that are on; *ptr is filled in: memory that belongs to `pointer`. */
static access access_at(worker *w, const tir_op *op, access_kind kind, const tir_type *tile, const ival *pointer,
                        const uint64_t *address, const uint8_t *on, size_t n, ival *ptr) {
  *ptr = (ival){.n = n, .from_all = val_buffer(pointer, 0)};
  return (access){.w = w,
                  .op = op,
                  .tile = tile,
                  .ptr = ptr,
                  .address = address,
                  .mask = on,
                  .kind = kind,
                  .bytes = elem_bytes(tile),
                  .racing = true};
}

/* ---- findings ---- */

static const char *program_text(const machine *m, int64_t program) {
  if (program == RACE_SOMEONE) return "several programs";
  int64_t x = program % m->grid[0], y = program / m->grid[0] % m->grid[1], z = program / m->grid[0] / m->grid[1];
  return arena_printf(m->a, "program (%lld, %lld, %lld)", (long long)x, (long long)y, (long long)z);
}

static void out_of_bounds(const access *ac, size_t lane, const memory_buffer *b, int64_t offset) {
  machine *m = ac->w->m;
  const diag_desc *what = offset < 0 ? &D_interp_before_start : &D_interp_past_end;
  if (!finding_first(ac->w, what, ac->op->at)) return;
  int64_t by = offset < 0 ? -offset : offset + ac->bytes - (int64_t)b->bytes;
  diag *d = diag_add(m->sink, ac->op->at, what, verbs[ac->kind], (long long)by, b->name);
  finding_describe(ac->w, d, ac->tile, (int64_t)lane);
  diag_note(d, ac->op->at, "element %lld of %lld, %d bytes each", (long long)(offset / ac->bytes),
            (long long)((int64_t)b->bytes / ac->bytes), ac->bytes);
  if (ac->mask)
    diag_fix(d, ac->op->at, "the mask is on for this lane: does it compare with the size of '%s'?", b->name);
  else
    diag_fix(d, ac->op->at, "no mask guards this access: add one, such as mask=offsets < n");
}

static void foreign(const access *ac, size_t lane) {
  machine *m = ac->w->m;
  uint64_t address = ac->address[lane];
  const diag_desc *what = address ? &D_interp_foreign : &D_interp_null;
  if (!finding_first(ac->w, what, ac->op->at)) return;
  diag *d = diag_add(m->sink, ac->op->at, what, verbs[ac->kind], (unsigned long long)address);
  finding_describe(ac->w, d, ac->tile, (int64_t)lane);
  diag_fix(d, ac->op->at, "every buffer must live until the kernel has run and be known to it");
}

static void misaligned(const access *ac, size_t lane, const memory_buffer *b) {
  if (!finding_first(ac->w, &D_interp_misaligned, ac->op->at)) return;
  diag *d = diag_add(ac->w->m->sink, ac->op->at, &D_interp_misaligned, verbs[ac->kind], ac->bytes, ac->bytes, b->name);
  finding_describe(ac->w, d, ac->tile, (int64_t)lane);
  diag_fix(d, ac->op->at, "a pointer must be a multiple of its element's size: was it cast from a narrower type?");
}

static void race(const access *ac, size_t lane, const memory_buffer *b, const race_found *found) {
  machine *m = ac->w->m;
  const diag_desc *what = found->write_write ? &D_interp_write_write : &D_interp_read_write;
  if (!finding_first(ac->w, what, ac->op->at)) return;
  diag *d = diag_add(m->sink, ac->op->at, what, b->name);
  finding_describe(ac->w, d, ac->tile, (int64_t)lane);
  diag_note(d, ac->op->at, "the other one is %s, and nothing orders the two", program_text(m, found->other));
  diag_fix(d, ac->op->at, "let every program have elements of its own (program_id), or use an atomic");
}

/* ---- one lane ---- */

static int find_buffer(const machine *m, uint64_t address) {
  for (int i = 0; i < m->n_buffers; i++) {
    uint64_t base = (uint64_t)(uintptr_t)m->buffers[i].data;
    if (address >= base && address - base < m->buffers[i].bytes) return i;
  }
  return BUFFER_UNKNOWN;
}

static bool lane_is_on(const access *ac, size_t lane) {
  if (!ac->mask) return true;
  if (ac->mask_undef && ac->mask_undef[lane]) {
    finding_undefined(ac->w, &D_interp_undef_mask, nouns[ac->kind], ac->op, ac->tile, (int64_t)lane,
                      ac->mask_undef[lane]);
    return false;
  }
  return ac->mask[lane] & 1;
}

/* Where the lane's element is; NULL if it must not be touched. */
static char *reach(const access *ac, size_t lane) {
  machine *m = ac->w->m;
  if (ac->undef && ac->undef[lane]) {
    finding_undefined(ac->w, &D_interp_undef_address, nouns[ac->kind], ac->op, ac->tile, (int64_t)lane,
                      ac->undef[lane]);
    return NULL;
  }
  int32_t which = val_buffer(ac->ptr, lane);
  if (which == BUFFER_UNKNOWN) which = find_buffer(m, ac->address[lane]);
  if (which == BUFFER_UNKNOWN) {
    foreign(ac, lane);
    return NULL;
  }
  memory_buffer *b = &m->buffers[which];
  uint64_t offset = ac->address[lane] - (uint64_t)(uintptr_t)b->data;
  if (offset > b->bytes || b->bytes - offset < (size_t)ac->bytes) {
    out_of_bounds(ac, lane, b, (int64_t)offset);
    return NULL;
  }
  if (ac->address[lane] & (uint64_t)(ac->bytes - 1)) misaligned(ac, lane, b);
  race_found found;
  bool races = ac->racing && (ac->kind == READS ? race_read(ac->w, b, offset, ac->bytes, &found)
                                                : race_write(ac->w, b, offset, ac->bytes, ac->kind == UPDATES, &found));
  if (races) race(ac, lane, b, &found);
  return b->data + offset;
}

static void copy_element(void *to, const void *from, int bytes) {
  switch (bytes) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8);
  }
}

/* ---- ops ---- */

/* Lanes that are on; the others are left to the caller and keep what `data` and `undef` hold. */
static void load_active(const access *ac, char *data, uint8_t *undef, uint8_t *off) {
  size_t n = ac->ptr->n, size = (size_t)ac->bytes;
  machine_lock(ac->w);
  for (size_t i = 0; i < n; i++) {
    if (!lane_is_on(ac, i)) {
      if (off) off[i] = 1;
      continue;
    }
    const char *at = reach(ac, i);
    if (at)
      copy_element(data + i * size, at, ac->bytes);
    else
      memset(data + i * size, 0, size);
    if (undef) undef[i] = 0;
  }
  machine_unlock(ac->w);
}

static void normalise_booleans(const access *ac, char *data) {
  const tir_type *t = tir_elem(ac->tile)->elem;
  if (t->kind == TY_PTR || t->dtype != DT_i1) return;
  for (size_t i = 0; i < ac->ptr->n; i++) data[i] = data[i] != 0;
}

void load_lanes(worker *w, const tir_op *op, int mask_index, ival *out, uint8_t origin_of_off) {
  access ac = access_of(w, op, READS, mask_index);
  size_t n = ac.ptr->n;
  char *data = val_new(w, out, n, ac.bytes);
  if (!ac.mask) {
    load_active(&ac, data, NULL, NULL);
  } else {
    uint8_t *off = val_undef_new(w, out);
    memset(data, 0, n * (size_t)ac.bytes);
    load_active(&ac, data, NULL, off);
    bool any = false;
    for (size_t i = 0; i < n; i++) {
      any = any || off[i];
      off[i] = off[i] ? origin_of_off : 0;
    }
    if (!any || !origin_of_off) {
      block_drop(&w->pool, out->undef);
      out->undef = NULL;
    }
  }
  normalise_booleans(&ac, data);
}

void load_addresses(worker *w, const tir_op *op, const tir_type *tile, const ival *pointer, const uint64_t *address,
                    const uint8_t *on, size_t n, ival *out) {
  ival ptr;
  access ac = access_at(w, op, READS, tile, pointer, address, on, n, &ptr);
  char *data = val_new(w, out, n, ac.bytes);
  memset(data, 0, n * (size_t)ac.bytes);
  load_active(&ac, data, NULL, NULL);
}

static void load_or_other(worker *w, const tir_op *op, ival *out) {
  access ac = access_of(w, op, READS, 1);
  const ival *other = val_of(w, tir_in(op, 2));
  size_t n = ac.ptr->n;
  char *data = val_new(w, out, n, ac.bytes);
  memcpy(data, val_at(other), n * (size_t)ac.bytes);
  if (other->undef) memcpy(val_undef_new(w, out), val_undef(other), n);
  load_active(&ac, data, out->undef ? block_at(out->undef) : NULL, NULL);
  normalise_booleans(&ac, data);
}

void exec_load(worker *w, const plan_op *p) {
  ival out = {0};
  if (p->op->n_in == 3)
    load_or_other(w, p->op, &out);
  else
    load_lanes(w, p->op, 1, &out, p->origin);
  val_take(w, val_of(w, p->op->out[0]), &out);
}

static void store_active(const access *ac, const ival *x) {
  worker *w = ac->w;
  const uint8_t *undef = val_undef(x);
  const char *data = val_at(x);
  machine_lock(w);
  for (size_t i = 0; i < ac->ptr->n; i++) {
    if (!lane_is_on(ac, i)) continue;
    char *at = reach(ac, i);
    if (!at) continue;
    if (undef && undef[i])
      finding_undefined(w, &D_interp_undef_value, "stores", ac->op, ac->tile, (int64_t)i, undef[i]);
    copy_element(at, data + i * (size_t)ac->bytes, ac->bytes);
  }
  machine_unlock(w);
}

void store_addresses(worker *w, const tir_op *op, const tir_type *tile, const ival *pointer, const uint64_t *address,
                     const uint8_t *on, const ival *x) {
  ival ptr;
  access ac = access_at(w, op, WRITES, tile, pointer, address, on, x->n, &ptr);
  store_active(&ac, x);
}

void exec_store(worker *w, const plan_op *p) {
  access ac = access_of(w, p->op, WRITES, 2);
  store_active(&ac, val_of(w, tir_in(p->op, 1)));
}

typedef struct update {
  tir_opcode op; /* OP_N: exchange */
  tir_dtype dtype;
} update;

static tir_dtype with_sign(tir_dtype d, bool is_signed) {
  if (tir_dtypes[d].bytes == 4) return is_signed ? DT_i32 : DT_u32;
  return is_signed ? DT_i64 : DT_u64;
}

static update update_of(const char *kind, tir_dtype d) {
  static const struct {
    const char *kind;
    tir_opcode op;
  } table[] = {{"add", OP_add},  {"fadd", OP_add}, {"max", OP_max}, {"min", OP_min}, {"umax", OP_max},
               {"umin", OP_min}, {"and", OP_and},  {"or", OP_or},   {"xor", OP_xor}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(kind, table[i].kind) != 0) continue;
    bool by_sign = table[i].op == OP_max || table[i].op == OP_min;
    return (update){table[i].op, by_sign ? with_sign(d, kind[0] != 'u') : d};
  }
  return (update){OP_N, d};
}

/* Scalar atomics are how programs wait for each other; those of tiles only collect. */
static void order_programs(worker *w, const tir_op *op, uint64_t address, bool before) {
  const char *sem = tir_attr_str(op, ATTR_sem, "acq_rel");
  bool both = strcmp(sem, "acq_rel") == 0;
  if (before && (both || strcmp(sem, "acquire") == 0)) race_sync(w, address, true, false);
  if (!before && (both || strcmp(sem, "release") == 0)) race_sync(w, address, false, true);
}

void exec_atomic(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  access ac = access_of(w, op, UPDATES, 2);
  const tir_type *t = op->out[0]->type;
  update u = update_of(tir_attr_str(op, ATTR_kind, ""), tir_dtype_of(t));
  const ival *x = val_of(w, tir_in(op, 1));
  const uint8_t *x_undef = val_undef(x);
  size_t n = ac.ptr->n, size = (size_t)ac.bytes;
  bool orders = t->numel == 1;
  ival out = {0};
  char *old = val_new(w, &out, n, ac.bytes);
  uint8_t *undef = NULL;
  memset(old, 0, n * size);
  machine_lock(w);
  for (size_t i = 0; i < n; i++) {
    if (!lane_is_on(&ac, i)) {
      if (!undef) undef = val_undef_new(w, &out);
      undef[i] = p->origin;
      continue;
    }
    bool defined = !ac.undef || !ac.undef[i];
    if (orders && defined) order_programs(w, op, ac.address[i], true);
    char *at = reach(&ac, i);
    if (!at) continue;
    if (x_undef && x_undef[i])
      finding_undefined(w, &D_interp_undef_value, "updates memory with", op, ac.tile, (int64_t)i, x_undef[i]);
    const char *value = (const char *)val_at(x) + i * size;
    copy_element(old + i * size, at, ac.bytes);
    if (u.op == OP_N) {
      copy_element(at, value, ac.bytes);
    } else {
      uint64_t a = 0, b = 0, r = 0;
      copy_element(&a, at, ac.bytes);
      copy_element(&b, value, ac.bytes);
      tir_eval(u.op, 2, (tir_dtype[]){u.dtype, u.dtype}, (const void *[]){&a, &b}, u.dtype, &r, 1, (tir_eval_opts){0});
      copy_element(at, &r, ac.bytes);
    }
    if (orders) order_programs(w, op, ac.address[i], false);
  }
  machine_unlock(w);
  val_take(w, val_of(w, op->out[0]), &out);
}
