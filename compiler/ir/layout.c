/* Construction of register layouts: interning, evaluation, and the builders from which every layout is put together.
 *
 * A layout is a table of bases, so a builder is short: enumerate unit vectors in an order (lay_identity), place one
 * layout inside another (lay_product, a Kronecker-like product: the left one is minor on every axis and every hardware
 * dim), and make the result cover a shape exactly (lay_fit). Every other layout of the compiler is one of these applied
 * to a table of layout_mma.c.
 *
 * Interning is what makes equality a pointer test; layout assignment compares layouts far more often than it makes
 * them. The table holds layouts by their bases and never forgets one: there are few per kernel and they die with the
 * arena. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

/* ---- interning --------------------------------------------------------------------------------------------------- */

typedef struct table {
  const void **slot;
  int n, cap;
} table;

struct lay_cx {
  arena *a;
  table registers, shared;
  lay_cost_table *costs;
};

lay_cx *lay_cx_new(arena *a) {
  lay_cx *cx = ARENA_NEW(a, lay_cx);
  cx->a = a;
  return cx;
}

arena *lay_cx_arena(lay_cx *cx) { return cx->a; }
lay_cost_table **lay_cx_costs(lay_cx *cx) { return &cx->costs; }

static uint64_t hash_lay(const void *p) { return ((const lay_t *)p)->hash; }
static uint64_t hash_sh(const void *p) { return ((const sh_t *)p)->hash; }

static bool same_lay(const void *pa, const void *pb) {
  const lay_t *a = pa, *b = pb;
  return a->hash == b->hash && a->rank == b->rank && !memcmp(a->axis_bits, b->axis_bits, sizeof a->axis_bits) &&
         !memcmp(a->nbits, b->nbits, sizeof a->nbits) && !memcmp(a->basis, b->basis, sizeof a->basis);
}

static bool same_sh(const void *pa, const void *pb) {
  const sh_t *a = pa, *b = pb;
  return a->hash == b->hash && a->rank == b->rank && !memcmp(a->axis_bits, b->axis_bits, sizeof a->axis_bits) &&
         a->kind == b->kind && a->pad_log2 == b->pad_log2 && a->pad_elems == b->pad_elems &&
         a->swizzle_bytes == b->swizzle_bytes && a->inner_axis == b->inner_axis && a->align_bytes == b->align_bytes &&
         !memcmp(a->col, b->col, sizeof a->col);
}

static const void **find(const table *t, const void *key, uint64_t (*hash)(const void *),
                         bool (*same)(const void *, const void *)) {
  for (uint64_t i = hash(key);; ++i) {
    const void **s = &t->slot[i & (uint64_t)(t->cap - 1)];
    if (!*s || same(*s, key)) return s;
  }
}

static const void *intern(arena *a, table *t, const void *key, size_t bytes, uint64_t (*hash)(const void *),
                          bool (*same)(const void *, const void *)) {
  if (2 * (t->n + 1) > t->cap) {
    table bigger = {NULL, t->n, t->cap ? 2 * t->cap : 64};
    bigger.slot = ARENA_ARRAY(a, const void *, bigger.cap);
    for (int i = 0; i < t->cap; ++i)
      if (t->slot[i]) *find(&bigger, t->slot[i], hash, same) = t->slot[i];
    *t = bigger;
  }
  const void **s = find(t, key, hash, same);
  if (!*s) {
    *s = arena_copy(a, key, bytes);
    t->n++;
  }
  return *s;
}

const lay_t *lay_intern(lay_cx *cx, const lay_t *l) {
  lay_t k;
  memset(&k, 0, sizeof k);
  BASE_ASSERT(l->rank <= LAY_MAX_RANK);
  k.rank = l->rank;
  int d = 0;
  for (int a = 0; a < l->rank; ++a) d += k.axis_bits[a] = l->axis_bits[a];
  BASE_ASSERT(d <= LAY_MAX_BITS);
  uint32_t cols[LAY_MAX_COLS], any = 0;
  int n = 0;
  bool unit = true;
  for (int h = 0; h < LAY_NHW; ++h) {
    BASE_ASSERT(l->nbits[h] <= LAY_MAX_HWBITS);
    k.nbits[h] = l->nbits[h];
    for (int i = 0; i < l->nbits[h]; ++i) {
      uint32_t v = l->basis[h][i];
      k.basis[h][i] = cols[n++] = v;
      any |= v;
      unit = unit && (v & (v - 1)) == 0;
    }
  }
  BASE_ASSERT((any >> d) == 0);
  int r = lay_rank(cols, n);
  k.flags = (uint8_t)((r == d ? LAY_SURJECTIVE : 0) | (r == n ? LAY_INJECTIVE : 0) | (unit ? LAY_UNIT : 0));
  uint64_t h = hash_bytes(HASH_SEED, &k.rank, sizeof k.rank);
  h = hash_bytes(h, k.axis_bits, sizeof k.axis_bits);
  h = hash_bytes(h, k.nbits, sizeof k.nbits);
  k.hash = hash_bytes(h, cols, sizeof cols[0] * (size_t)n);
  return intern(cx->a, &cx->registers, &k, sizeof k, hash_lay, same_lay);
}

const sh_t *lay_sh_intern(lay_cx *cx, const sh_t *s) {
  sh_t k;
  memset(&k, 0, sizeof k);
  BASE_ASSERT(s->rank <= LAY_MAX_RANK);
  k.rank = s->rank;
  int d = 0;
  for (int a = 0; a < s->rank; ++a) d += k.axis_bits[a] = s->axis_bits[a];
  BASE_ASSERT(d == s->d && d <= LAY_MAX_BITS && lay_rank(s->col, d) == d);
  k.d = s->d;
  k.kind = s->kind;
  k.pad_log2 = s->pad_log2;
  k.pad_elems = s->pad_elems;
  k.swizzle_bytes = s->swizzle_bytes;
  k.inner_axis = s->inner_axis;
  k.align_bytes = s->align_bytes;
  for (int i = 0; i < d; ++i) {
    BASE_ASSERT((s->col[i] >> d) == 0);
    k.col[i] = s->col[i];
  }
  uint64_t h = hash_bytes(HASH_SEED, &k.rank, sizeof k.rank);
  h = hash_bytes(h, k.axis_bits, sizeof k.axis_bits);
  h = hash_bytes(h, k.col, sizeof k.col);
  k.hash = hash_bytes(h, &k.pad_elems, sizeof k.pad_elems);
  return intern(cx->a, &cx->shared, &k, sizeof k, hash_sh, same_sh);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

lay_shape lay_shape_make(int rank, const int64_t *extents) {
  BASE_ASSERT(rank >= 0 && rank <= LAY_MAX_RANK);
  lay_shape s = {.rank = (uint8_t)rank};
  for (int a = 0; a < rank; ++a) s.bits[a] = (uint8_t)lay_log2(extents[a]);
  return s;
}

lay_shape lay_shape_of(const lay_t *l) {
  lay_shape s = {.rank = l->rank};
  memcpy(s.bits, l->axis_bits, sizeof s.bits);
  return s;
}

bool lay_shape_eq(lay_shape a, lay_shape b) { return a.rank == b.rank && !memcmp(a.bits, b.bits, a.rank); }

int lay_shape_bits(lay_shape s) {
  int d = 0;
  for (int a = 0; a < s.rank; ++a) d += s.bits[a];
  return d;
}

int lay_axis_shift(lay_shape s, int axis) {
  int shift = 0;
  for (int a = s.rank - 1; a > axis; --a) shift += s.bits[a];
  return shift;
}

uint32_t lay_flat(lay_shape s, const uint32_t *coords) {
  uint32_t f = 0;
  for (int a = 0; a < s.rank; ++a) {
    BASE_ASSERT((coords[a] >> s.bits[a]) == 0);
    f = f << s.bits[a] | coords[a];
  }
  return f;
}

void lay_unflat(lay_shape s, uint32_t flat, uint32_t *coords) {
  for (int a = s.rank - 1; a >= 0; --a) {
    coords[a] = flat & ((UINT32_C(1) << s.bits[a]) - 1);
    flat >>= s.bits[a];
  }
}

/* ---- reading a layout -------------------------------------------------------------------------------------------- */

int lay_bits(const lay_t *l) { return lay_shape_bits(lay_shape_of(l)); }
int lay_regs(const lay_t *l) { return 1 << l->nbits[LAY_REG]; }
int lay_warps(const lay_t *l) { return 1 << l->nbits[LAY_WARP]; }

uint32_t lay_apply(const lay_t *l, uint32_t reg, uint32_t lane, uint32_t warp, uint32_t block) {
  return lay_mul(l->basis[LAY_REG], reg) ^ lay_mul(l->basis[LAY_LANE], lane) ^ lay_mul(l->basis[LAY_WARP], warp) ^
         lay_mul(l->basis[LAY_BLOCK], block);
}

uint32_t lay_coord(const lay_t *l, int axis, uint32_t flat) {
  lay_shape s = lay_shape_of(l);
  return flat >> lay_axis_shift(s, axis) & ((UINT32_C(1) << s.bits[axis]) - 1);
}

int lay_cols(const lay_t *l, unsigned dims, uint32_t *out) {
  int n = 0;
  for (int h = 0; h < LAY_NHW; ++h)
    if (dims >> h & 1)
      for (int i = 0; i < l->nbits[h]; ++i) out[n++] = l->basis[h][i];
  return n;
}

/* ---- builders ---------------------------------------------------------------------------------------------------- */

void lay_push(lay_t *l, int dim, uint32_t basis) {
  BASE_ASSERT(l->nbits[dim] < LAY_MAX_HWBITS);
  l->basis[dim][l->nbits[dim]++] = basis;
}

lay_t lay_move_bits(const lay_t *l, lay_shape shape, const int8_t *dest) {
  lay_t r = lay_blank(shape);
  int d = lay_bits(l);
  memcpy(r.nbits, l->nbits, sizeof r.nbits);
  for (int h = 0; h < LAY_NHW; ++h)
    for (int i = 0; i < l->nbits[h]; ++i)
      for (int b = 0; b < d; ++b)
        if ((l->basis[h][i] >> b & 1) && dest[b] >= 0) r.basis[h][i] |= UINT32_C(1) << dest[b];
  return r;
}

void lay_axis_dest(lay_shape from, lay_shape to_shape, const int8_t *to, int8_t *dest) {
  for (int a = 0; a < from.rank; ++a) {
    int shift = lay_axis_shift(from, a);
    for (int i = 0; i < from.bits[a]; ++i) {
      bool kept = to[a] >= 0 && i < to_shape.bits[to[a]];
      dest[shift + i] = (int8_t)(kept ? lay_axis_shift(to_shape, to[a]) + i : -1);
    }
  }
}

static const int8_t same_axes[LAY_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};

/* Unit vectors of a shape in an order of the axes, order[0] fastest (NULL: the last axis). */
static int units(lay_shape s, const int *order, uint32_t *out) {
  int n = 0;
  for (int k = 0; k < s.rank; ++k) {
    int a = order ? order[k] : s.rank - 1 - k;
    int shift = lay_axis_shift(s, a);
    for (int i = 0; i < s.bits[a]; ++i) out[n++] = UINT32_C(1) << (shift + i);
  }
  return n;
}

static lay_shape shape_of_sizes(int rank, const int *sizes) {
  int64_t e[LAY_MAX_RANK];
  BASE_ASSERT(rank >= 0 && rank <= LAY_MAX_RANK);
  for (int a = 0; a < rank; ++a) e[a] = sizes[a];
  return lay_shape_make(rank, e);
}

const lay_t *lay_identity(lay_cx *cx, int dim, int rank, const int *sizes, const int *order) {
  lay_t l = lay_blank(shape_of_sizes(rank, sizes));
  uint32_t u[LAY_MAX_BITS];
  int n = units(lay_shape_of(&l), order, u);
  for (int i = 0; i < n; ++i) lay_push(&l, dim, u[i]);
  return lay_intern(cx, &l);
}

const lay_t *lay_product(lay_cx *cx, const lay_t *tile, const lay_t *repeat) {
  BASE_ASSERT(tile->rank == repeat->rank);
  lay_shape ts = lay_shape_of(tile), rs = lay_shape_of(repeat), s = ts;
  for (int a = 0; a < s.rank; ++a) s.bits[a] = (uint8_t)(s.bits[a] + rs.bits[a]);
  int8_t dest[LAY_MAX_BITS] = {0};
  lay_axis_dest(ts, s, same_axes, dest);
  lay_t r = lay_move_bits(tile, s, dest);
  for (int a = 0; a < rs.rank; ++a)
    for (int i = 0; i < rs.bits[a]; ++i)
      dest[lay_axis_shift(rs, a) + i] = (int8_t)(lay_axis_shift(s, a) + ts.bits[a] + i);
  lay_t outer = lay_move_bits(repeat, s, dest);
  for (int h = 0; h < LAY_NHW; ++h)
    for (int i = 0; i < outer.nbits[h]; ++i) lay_push(&r, h, outer.basis[h][i]);
  return lay_intern(cx, &r);
}

const lay_t *lay_divide_left(lay_cx *cx, const lay_t *l, const lay_t *tile) {
  if (l->rank != tile->rank) return NULL;
  lay_shape ls = lay_shape_of(l), ts = lay_shape_of(tile), qs = ls;
  int8_t up[LAY_MAX_BITS] = {0}, down[LAY_MAX_BITS] = {0};
  uint32_t low = 0;
  for (int a = 0; a < l->rank; ++a) {
    if (ts.bits[a] > ls.bits[a]) return NULL;
    qs.bits[a] = (uint8_t)(ls.bits[a] - ts.bits[a]);
    low |= ((UINT32_C(1) << ts.bits[a]) - 1) << lay_axis_shift(ls, a);
  }
  for (int a = 0; a < l->rank; ++a)
    for (int i = 0; i < ls.bits[a]; ++i)
      down[lay_axis_shift(ls, a) + i] = (int8_t)(i < ts.bits[a] ? -1 : lay_axis_shift(qs, a) + i - ts.bits[a]);
  lay_axis_dest(ts, ls, same_axes, up);
  lay_t inner = lay_move_bits(tile, ls, up), outer = lay_move_bits(l, qs, down), q = lay_blank(qs);
  for (int h = 0; h < LAY_NHW; ++h) {
    if (tile->nbits[h] > l->nbits[h]) return NULL;
    for (int i = 0; i < l->nbits[h]; ++i) {
      if (i < tile->nbits[h]) {
        if (l->basis[h][i] != inner.basis[h][i]) return NULL;
      } else {
        if (l->basis[h][i] & low) return NULL;
        lay_push(&q, h, outer.basis[h][i]);
      }
    }
  }
  return lay_intern(cx, &q);
}

const lay_t *lay_fit(lay_cx *cx, const lay_t *l, lay_shape shape, const int *order) {
  BASE_ASSERT(l->rank == shape.rank);
  int grow[LAY_MAX_RANK];
  for (int a = 0; a < shape.rank; ++a)
    grow[a] = shape.bits[a] > l->axis_bits[a] ? 1 << (shape.bits[a] - l->axis_bits[a]) : 1;
  l = lay_product(cx, l, lay_identity(cx, LAY_REG, shape.rank, grow, order));
  if (lay_shape_eq(lay_shape_of(l), shape)) return l;
  int8_t dest[LAY_MAX_BITS] = {0};
  lay_axis_dest(lay_shape_of(l), shape, same_axes, dest);
  lay_t r = lay_move_bits(l, shape, dest);
  return lay_intern(cx, &r);
}

const lay_t *lay_blocked(lay_cx *cx, lay_shape shape, const lay_blocking *b) {
  int rank = shape.rank;
  const lay_t *t = lay_identity(cx, LAY_REG, rank, b->per_thread, b->order);
  t = lay_product(cx, t, lay_identity(cx, LAY_LANE, rank, b->threads, b->order));
  t = lay_product(cx, t, lay_identity(cx, LAY_WARP, rank, b->warps, b->order));
  BASE_ASSERT(rank > 0 && t->nbits[LAY_LANE] == LAY_LANE_BITS);
  return lay_dedupe(cx, lay_fit(cx, t, shape, b->order), NULL);
}

const lay_t *lay_default(lay_cx *cx, lay_shape shape, int num_warps) {
  if (lay_shape_bits(shape) == 0) return lay_replicated(cx, shape, num_warps);
  lay_blocking b;
  int left_threads = 1 << LAY_LANE_BITS, left_warps = num_warps;
  for (int k = 0; k < shape.rank; ++k) {
    int a = shape.rank - 1 - k, room = 1 << shape.bits[a];
    b.order[k] = a;
    b.per_thread[a] = 1;
    b.threads[a] = room < left_threads ? room : left_threads;
    left_threads /= b.threads[a];
    room /= b.threads[a];
    b.warps[a] = room < left_warps ? room : left_warps;
    left_warps /= b.warps[a];
  }
  b.threads[0] *= left_threads;
  b.warps[0] *= left_warps;
  return lay_blocked(cx, shape, &b);
}

const lay_t *lay_replicated(lay_cx *cx, lay_shape shape, int num_warps) {
  lay_t l = lay_blank(shape);
  int d = lay_shape_bits(shape);
  for (int i = 0; i < d; ++i) lay_push(&l, LAY_REG, UINT32_C(1) << i);
  l.nbits[LAY_LANE] = LAY_LANE_BITS;
  l.nbits[LAY_WARP] = (uint8_t)lay_log2(num_warps);
  return lay_intern(cx, &l);
}

/* ---- redundancy -------------------------------------------------------------------------------------------------- */

void lay_free_masks(const lay_t *l, uint32_t mask[LAY_NHW]) {
  lay_span s;
  lay_span_init(&s);
  for (int h = 0; h < LAY_NHW; ++h) {
    mask[h] = 0;
    for (int i = 0; i < l->nbits[h]; ++i)
      if (!lay_span_add(&s, l->basis[h][i])) mask[h] |= UINT32_C(1) << i;
  }
}

const lay_t *lay_dedupe(lay_cx *cx, const lay_t *l, uint32_t *map) {
  lay_t r = lay_blank(lay_shape_of(l));
  lay_span kept;
  lay_span_init(&kept);
  for (int i = 0; i < l->nbits[LAY_REG]; ++i) {
    uint32_t v = l->basis[LAY_REG][i];
    uint64_t c;
    if (!lay_span_solve(&kept, v, &c)) {
      c = UINT64_C(1) << r.nbits[LAY_REG];
      lay_span_add(&kept, v);
      lay_push(&r, LAY_REG, v);
    }
    if (map) map[i] = (uint32_t)c;
  }
  for (int h = LAY_LANE; h < LAY_NHW; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) lay_push(&r, h, l->basis[h][i]);
  return r.nbits[LAY_REG] == l->nbits[LAY_REG] ? lay_intern(cx, l) : lay_intern(cx, &r);
}

bool lay_right_inverse(const lay_t *l, uint64_t *inv) {
  uint32_t cols[LAY_MAX_COLS];
  int n = lay_cols(l, (1u << LAY_NHW) - 1, cols);
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, cols, n);
  int d = lay_bits(l);
  for (int i = 0; i < d; ++i)
    if (!lay_span_solve(&s, UINT32_C(1) << i, &inv[i])) return false;
  return true;
}
