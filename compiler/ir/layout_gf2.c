/* Linear algebra over GF(2) on small integers: a vector is a uint32_t, addition is XOR, a linear map is the array of
 * its columns (the images of the single bits).
 *
 * One routine does the work: an incremental echelon basis (lay_span) that remembers, for each stored row, which of the
 * vectors offered so far XOR to it. Rank, membership, coordinates, null space and inverse are loops around it.
 *
 * Sizes: at most LAY_MAX_COLS columns are offered to one span where coordinates are wanted (they are bits of a
 * uint64_t; offering more is allowed only to ask for membership), and vectors have at most 32 bits. Nothing here is
 * hot.
 *
 * The order in which vectors are offered is a preference everywhere: a vector that depends on earlier ones is expressed
 * by them. Callers use this to prefer registers to lanes and lanes to warps. Gauss-Jordan on a whole matrix, the
 * obvious way, would give some basis of the null space; this gives the one whose members reach no further than they
 * must. */
#include "compiler/ir/layout.h"

#include <string.h>

void lay_span_init(lay_span *s) { memset(s, 0, sizeof *s); }

static uint32_t reduce(const lay_span *s, uint32_t v, uint64_t *comb) {
  uint64_t c = 0;
  uint32_t hit = v & s->have;
  while (hit) {
    int h = 31 - __builtin_clz(hit);
    v ^= s->row[h];
    c ^= s->comb[h];
    hit = v & s->have & (uint32_t)((UINT64_C(1) << h) - 1);
  }
  *comb = c;
  return v;
}

static uint64_t coordinate(int i) { return i < 64 ? UINT64_C(1) << i : 0; }

/* Offers v; *relation receives the offered vectors (v included) that XOR to zero when v was dependent. */
static bool offer(lay_span *s, uint32_t v, uint64_t *relation) {
  uint64_t c;
  uint32_t rest = reduce(s, v, &c);
  c ^= coordinate(s->offered++);
  if (rest == 0) {
    *relation = c;
    return false;
  }
  int h = 31 - __builtin_clz(rest);
  s->row[h] = rest;
  s->comb[h] = c;
  s->have |= UINT32_C(1) << h;
  return true;
}

bool lay_span_add(lay_span *s, uint32_t v) {
  uint64_t unused;
  return offer(s, v, &unused);
}

void lay_span_add_all(lay_span *s, const uint32_t *v, int n) {
  for (int i = 0; i < n; ++i) lay_span_add(s, v[i]);
}

bool lay_span_has(const lay_span *s, uint32_t v) {
  uint64_t c;
  return reduce(s, v, &c) == 0;
}

bool lay_span_solve(const lay_span *s, uint32_t v, uint64_t *coords) {
  BASE_ASSERT(s->offered <= 64);
  return reduce(s, v, coords) == 0;
}

int lay_span_dim(const lay_span *s) { return __builtin_popcount(s->have); }

uint32_t lay_mul(const uint32_t *cols, uint64_t x) {
  uint32_t y = 0;
  for (; x; x &= x - 1) y ^= cols[__builtin_ctzll(x)];
  return y;
}

int lay_rank(const uint32_t *v, int n) {
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, v, n);
  return lay_span_dim(&s);
}

int lay_nullspace(const uint32_t *cols, int n, uint64_t *out) {
  BASE_ASSERT(n <= 64);
  lay_span s;
  lay_span_init(&s);
  int count = 0;
  for (int i = 0; i < n; ++i) {
    uint64_t relation;
    if (!offer(&s, cols[i], &relation)) out[count++] = relation;
  }
  return count;
}

int lay_independent(const uint32_t *v, int n, uint32_t *out) {
  lay_span s;
  lay_span_init(&s);
  int count = 0;
  for (int i = 0; i < n; ++i) {
    uint32_t x = v[i];
    if (lay_span_add(&s, x)) out[count++] = x;
  }
  return count;
}

int lay_intersect(const uint32_t *a, int na, const uint32_t *b, int nb, uint32_t *out) {
  uint32_t cols[64];
  BASE_ASSERT(na <= 64 && nb <= 64);
  uint32_t ia[64], ib[64];
  na = lay_independent(a, na, ia);
  nb = lay_independent(b, nb, ib);
  BASE_ASSERT(na + nb <= 64);
  lay_span in_b, found;
  lay_span_init(&in_b);
  lay_span_add_all(&in_b, ib, nb);
  lay_span_init(&found);
  int count = 0;
  for (int i = 0; i < na; ++i)
    if (lay_span_has(&in_b, ia[i]) && lay_span_add(&found, ia[i])) out[count++] = ia[i];
  memcpy(cols, ia, sizeof(uint32_t) * (size_t)na);
  memcpy(cols + na, ib, sizeof(uint32_t) * (size_t)nb);
  uint64_t null[64];
  int n_null = lay_nullspace(cols, na + nb, null);
  for (int i = 0; i < n_null; ++i) {
    uint32_t v = lay_mul(ia, null[i] & ((UINT64_C(1) << na) - 1));
    if (v && lay_span_add(&found, v)) out[count++] = v;
  }
  return count;
}

int lay_complement(const uint32_t *v, int n, int d, uint32_t *out) {
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, v, n);
  int count = 0;
  for (int i = 0; i < d; ++i)
    if (lay_span_add(&s, UINT32_C(1) << i)) out[count++] = UINT32_C(1) << i;
  return count;
}

bool lay_invert(const uint32_t *cols, int n, uint32_t *out) {
  BASE_ASSERT(n <= 32);
  lay_span s;
  lay_span_init(&s);
  for (int i = 0; i < n; ++i)
    if (!lay_span_add(&s, cols[i])) return false;
  for (int i = 0; i < n; ++i) {
    uint64_t c;
    if (!lay_span_solve(&s, UINT32_C(1) << i, &c)) return false;
    out[i] = (uint32_t)c;
  }
  return true;
}

void lay_matmul(const uint32_t *a, const uint32_t *b, int nb, uint32_t *out) {
  for (int i = 0; i < nb; ++i) out[i] = lay_mul(a, b[i]);
}
