/* Types: interned, so that equal types are one pointer; their text; which shapes can be tiles. */
#include <string.h>

#include "compiler/ir/tir.h"

typedef struct tir_type_table {
  tir_type **at; /* open addressing, a power of two, at most half full */
  size_t cap, n;
} type_table;

tir_cx *tir_cx_new(arena *a, strtab *names) {
  tir_cx *cx = ARENA_NEW(a, tir_cx);
  cx->a = a;
  cx->names = names;
  cx->layouts = lay_cx_new(a);
  cx->types = ARENA_NEW(a, type_table);
  cx->types->cap = 64;
  cx->types->at = ARENA_ARRAY(a, tir_type *, cx->types->cap);
  return cx;
}

static uint64_t type_hash(const tir_type *t) {
  uint64_t h = hash_bytes(HASH_SEED, &t->kind, sizeof t->kind);
  h = hash_bytes(h, &t->dtype, sizeof t->dtype);
  h = hash_bytes(h, &t->elem, sizeof t->elem);
  h = hash_bytes(h, &t->is_const, sizeof t->is_const);
  h = hash_bytes(h, t->shape, sizeof t->shape[0] * (size_t)t->rank);
  h = hash_bytes(h, &t->shared, sizeof t->shared);
  h = hash_bytes(h, &t->stages, sizeof t->stages);
  return hash_bytes(h, &t->layout, sizeof t->layout);
}

static bool type_equal(const tir_type *a, const tir_type *b) {
  return a->kind == b->kind && a->dtype == b->dtype && a->elem == b->elem && a->is_const == b->is_const &&
         a->rank == b->rank && a->layout == b->layout && a->shared == b->shared && a->stages == b->stages &&
         (a->rank == 0 || memcmp(a->shape, b->shape, sizeof a->shape[0] * (size_t)a->rank) == 0);
}

static size_t type_slot(tir_type *const *at, size_t cap, const tir_type *t) {
  size_t k = (size_t)type_hash(t) & (cap - 1);
  while (at[k] && !type_equal(at[k], t)) k = (k + 1) & (cap - 1);
  return k;
}

static const tir_type *type_intern(tir_cx *cx, const tir_type *t) {
  type_table *table = cx->types;
  size_t k = type_slot(table->at, table->cap, t);
  if (table->at[k]) return table->at[k];
  tir_type *made = arena_copy(cx->a, t, sizeof *t);
  table->at[k] = made;
  table->n++;
  if (table->n * 2 > table->cap) {
    size_t cap = table->cap * 2;
    tir_type **at = ARENA_ARRAY(cx->a, tir_type *, cap);
    for (size_t i = 0; i < table->cap; i++)
      if (table->at[i]) at[type_slot(at, cap, table->at[i])] = table->at[i];
    table->at = at;
    table->cap = cap;
  }
  return made;
}

const tir_type *tir_scalar_type(tir_cx *cx, tir_dtype d) {
  return type_intern(cx, &(tir_type){.kind = TY_SCALAR, .dtype = d, .numel = 1});
}

const tir_type *tir_ptr_type(tir_cx *cx, const tir_type *pointee, bool is_const) {
  BASE_ASSERT(pointee->kind != TY_TILE);
  tir_dtype d = pointee->kind == TY_SCALAR ? pointee->dtype : DT_i64;
  return type_intern(cx, &(tir_type){.kind = TY_PTR, .dtype = d, .elem = pointee, .is_const = is_const, .numel = 1});
}

const tir_type *tir_tile_type(tir_cx *cx, const tir_type *elem, int rank, const int64_t *shape, const lay_t *layout) {
  BASE_ASSERT(elem->kind != TY_TILE && rank >= 1 && rank <= TIR_MAX_RANK);
  tir_type t = {.kind = TY_TILE, .dtype = elem->dtype, .elem = elem, .rank = rank, .numel = 1, .layout = layout};
  for (int i = 0; i < rank; i++) {
    BASE_ASSERT(shape[i] >= 1 && shape[i] <= TIR_MAX_NUMEL && (shape[i] & (shape[i] - 1)) == 0);
    t.shape[i] = shape[i];
    t.numel *= shape[i];
    BASE_ASSERT(t.numel <= TIR_MAX_NUMEL);
  }
  return type_intern(cx, &t);
}

const tir_type *tir_buffer_type(tir_cx *cx, const tir_type *elem, int rank, const int64_t *shape, const sh_t *shared,
                                int stages) {
  BASE_ASSERT(elem->kind == TY_SCALAR && rank >= 1 && rank <= TIR_MAX_RANK && shared->rank == rank && stages >= 0);
  tir_type t = {.kind = TY_BUFFER, .dtype = elem->dtype, .elem = elem, .rank = rank, .numel = 1};
  t.shared = shared;
  t.stages = stages;
  for (int i = 0; i < rank; i++) {
    BASE_ASSERT(shape[i] == INT64_C(1) << shared->axis_bits[i]);
    t.shape[i] = shape[i];
    t.numel *= shape[i];
  }
  return type_intern(cx, &t);
}

int64_t tir_buffer_stage_bytes(const tir_type *buffer) {
  int64_t align = buffer->shared->align_bytes > 16 ? buffer->shared->align_bytes : 16;
  int64_t bytes = (int64_t)lay_sh_elems(buffer->shared) * tir_dtypes[buffer->elem->dtype].bytes;
  return (bytes + align - 1) / align * align;
}

const char *tir_shape_problem(tir_cx *cx, int rank, const int64_t *shape) {
  if (rank < 1) return "a tile has at least one axis";
  if (rank > TIR_MAX_RANK)
    return arena_printf(cx->a, "a tile has at most %d axes, this one has %d", TIR_MAX_RANK, rank);
  for (int i = 0; i < rank; i++) {
    int64_t n = shape[i];
    if (n < 1)
      return arena_printf(cx->a, "axis %d has extent %lld: every axis has at least one element", i, (long long)n);
    if (n & (n - 1)) {
      int64_t next = 1;
      while (next < n && next <= TIR_MAX_NUMEL) next *= 2;
      if (next <= TIR_MAX_NUMEL)
        return arena_printf(cx->a, "axis %d has extent %lld, which is no power of two: the next one is %lld", i,
                            (long long)n, (long long)next);
      return arena_printf(cx->a, "axis %d has extent %lld, which is no power of two and more than a tile may hold (%d)",
                          i, (long long)n, TIR_MAX_NUMEL);
    }
  }
  int64_t numel = 1;
  for (int i = 0; i < rank; i++) {
    if (shape[i] > TIR_MAX_NUMEL / numel)
      return arena_printf(cx->a, "the tile has more than %d elements", TIR_MAX_NUMEL);
    numel *= shape[i];
  }
  return NULL;
}

const tir_type *tir_with_elem(tir_cx *cx, const tir_type *like, const tir_type *elem) {
  BASE_ASSERT(elem->kind != TY_TILE);
  return like->kind == TY_TILE ? tir_tile_type(cx, elem, like->rank, like->shape, like->layout) : elem;
}

const tir_type *tir_with_layout(tir_cx *cx, const tir_type *t, const lay_t *layout) {
  return t->kind == TY_TILE ? tir_tile_type(cx, t->elem, t->rank, t->shape, layout) : t;
}

bool tir_same_shape(const tir_type *a, const tir_type *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return false;
  return true;
}

void tir_type_print(const tir_type *t, bool with_layout, textbuf *out) {
  if (t->kind == TY_BUFFER) text_str(out, "shared");
  if (t->kind == TY_BUFFER && t->stages) text_printf(out, "(%d)", t->stages);
  if (t->kind == TY_BUFFER) text_char(out, ' ');
  const tir_type *e = tir_elem(t);
  for (; e->kind == TY_PTR; e = e->elem) text_str(out, e->is_const ? "*const " : "*");
  text_str(out, tir_dtypes[e->dtype].text);
  if (t->kind != TY_TILE && t->kind != TY_BUFFER) return;
  for (int i = 0; i < t->rank; i++) text_printf(out, "%c%lld", i ? ',' : '[', (long long)t->shape[i]);
  text_char(out, ']');
  if (with_layout && t->layout) {
    text_char(out, '@');
    lay_print(out, t->layout);
  }
  if (with_layout && t->shared) {
    text_char(out, '@');
    lay_sh_print(out, t->shared);
  }
}

const char *tir_type_text(arena *a, const tir_type *t) {
  textbuf b;
  text_init(&b, a);
  tir_type_print(t, false, &b);
  return b.at;
}
