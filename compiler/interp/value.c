/* Values: counted blocks of elements.
 *
 * A block is written once, when its value is defined, and never again, so that ops which keep elements as they are
 * (reshape, hints, what a loop carries) share it. Each worker has a pool of blocks by powers of two: after the first
 * program nothing is allocated any more. */
#include "compiler/interp/machine.h"

block *block_new(pool *p, size_t bytes) {
  int c = 0;
  while (((size_t)16 << c) < bytes) c++;
  BASE_ASSERT(c < N_CLASSES);
  block *b = p->free[c];
  if (b)
    p->free[c] = b->next_free;
  else
    b = arena_alloc(p->a, sizeof *b + ((size_t)16 << c));
  b->refs = 1;
  b->size_class = c;
  return b;
}

void block_drop(pool *p, block *b) {
  if (!b || --b->refs > 0) return;
  b->next_free = p->free[b->size_class];
  p->free[b->size_class] = b;
}

ival *val_of(worker *w, const tir_value *v) { return &w->slots[v->id]; }

void val_clear(worker *w, ival *x) {
  block_drop(&w->pool, x->data);
  block_drop(&w->pool, x->undef);
  block_drop(&w->pool, x->from);
  block_drop(&w->pool, x->storage);
  *x = (ival){.from_all = BUFFER_UNKNOWN};
}

void val_take(worker *w, ival *to, ival *from) {
  val_clear(w, to);
  *to = *from;
  *from = (ival){.from_all = BUFFER_UNKNOWN};
}

ival val_share(const ival *x) {
  if (x->data) x->data->refs++;
  if (x->undef) x->undef->refs++;
  if (x->from) x->from->refs++;
  if (x->storage) x->storage->refs++;
  return *x;
}

void *val_new(worker *w, ival *x, size_t n, int bytes) {
  val_clear(w, x);
  x->n = n;
  x->data = block_new(&w->pool, n * (size_t)bytes);
  return val_at(x);
}

uint8_t *val_undef_new(worker *w, ival *x) {
  if (!x->undef) {
    x->undef = block_new(&w->pool, x->n);
    memset(block_at(x->undef), 0, x->n);
  }
  return block_at(x->undef);
}

ival *vals_new(worker *w, int n) {
  ival *x = block_at(block_new(&w->pool, sizeof *x * (size_t)n));
  for (int i = 0; i < n; i++) x[i] = (ival){.from_all = BUFFER_UNKNOWN};
  return x;
}

void vals_drop(worker *w, ival *x) { block_drop(&w->pool, (block *)(void *)x - 1); }

int elem_bytes(const tir_type *t) { return tir_is_ptr(t) ? 8 : tir_dtypes[tir_dtype_of(t)].bytes; }

uint64_t val_bits(const ival *x, const tir_type *t, size_t i) {
  const char *at = val_at(x);
  switch (elem_bytes(t)) {
    case 1: return ((const uint8_t *)(const void *)at)[i];
    case 2: return ((const uint16_t *)(const void *)at)[i];
    case 4: return ((const uint32_t *)(const void *)at)[i];
    default: return ((const uint64_t *)(const void *)at)[i];
  }
}

#define COPY(T)                                                                            \
  for (int64_t i = 0; i < n; i++) ((T *)out)[i * out_step] = ((const T *)in)[i * in_step]; \
  break
void copy_strided(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t n, int bytes) {
  if (out_step == 1 && in_step == 1) {
    memcpy(out, in, (size_t)(n * bytes));
    return;
  }
  switch (bytes) {
    case 1: COPY(uint8_t);
    case 2: COPY(uint16_t);
    case 4: COPY(uint32_t);
    default: COPY(uint64_t);
  }
}

void val_splat(worker *w, ival *out, const ival *in, size_t n, int bytes) {
  ival made = {.from_all = val_buffer(in, 0)};
  made.n = n;
  made.data = block_new(&w->pool, n * (size_t)bytes);
  copy_strided(val_at(&made), 1, val_at(in), 0, (int64_t)n, bytes);
  if (in->undef && *val_undef(in)) memset(val_undef_new(w, &made), *val_undef(in), n);
  val_take(w, out, &made);
}
