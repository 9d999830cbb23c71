/* Access of a register tile to a shared buffer: which registers form a vector, where each vector goes, what it costs.
 *
 * The map from (register, lane, warp) to an element offset is S . L. Registers can form vectors of 2^k elements iff
 * offsets 1 .. 2^(k-1) come from register space alone and no lane or warp moves inside a vector. It does not matter
 * which registers these are: the group of a register is found by solving, so that any order of registers in L will do.
 * The registers of a group are a coset of the vector space, shifted so that each group starts at a multiple of the
 * vector length; taking the lowest register number of a coset, the obvious choice, may start in the middle of a vector.
 *
 * Without padding all groups and all warps cost the same: their offsets differ by an XOR with a constant, which
 * permutes the banks. So one group of warp 0 is measured. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

int lay_kept_regs(const lay_t *l, uint8_t *kept) {
  lay_span s;
  lay_span_init(&s);
  int n = 0;
  for (int i = 0; i < l->nbits[LAY_REG]; ++i)
    if (lay_span_add(&s, l->basis[LAY_REG][i])) kept[n++] = (uint8_t)i;
  return n;
}

int lay_group_regs(const lay_t *l, const uint32_t *vec, int n_vec, const uint32_t *col, uint32_t *low, uint32_t *rest) {
  lay_span regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, l->basis[LAY_REG], l->nbits[LAY_REG]);
  for (int i = 0; i < n_vec; ++i) {
    uint64_t x = 0;
    BASE_ASSERT(lay_span_solve(&regs, vec[i], &x));
    low[i] = (uint32_t)x;
  }
  uint32_t mask = (UINT32_C(1) << n_vec) - 1;
  int n = lay_complement(low, n_vec, l->nbits[LAY_REG], rest);
  for (int i = 0; i < n; ++i) {
    uint32_t offset = lay_mul(col, lay_mul(l->basis[LAY_REG], rest[i]));
    rest[i] ^= lay_mul(low, offset & mask);
  }
  return n;
}

static int ideal_wavefronts(const uint32_t *addr, int n, int bytes) {
  int phase = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32, total = 0;
  for (int start = 0; start < n; start += phase) {
    uint32_t words[128];
    int count = 0;
    for (int i = start; i < start + phase && i < n; ++i)
      for (uint32_t w = addr[i] / 4; w < (addr[i] + (uint32_t)bytes + 3) / 4; ++w) {
        int k = 0;
        while (k < count && words[k] != w) ++k;
        if (k == count) words[count++] = w;
      }
    total += count > 32 ? (count + 31) / 32 : 1;
  }
  return total;
}

void lay_count_access(const lay_t *l, const uint32_t *col, int vec, int elem_bytes, int *wavefronts, int *ideal) {
  uint32_t addr[32];
  for (uint32_t lane = 0; lane < 32; ++lane)
    addr[lane] = lay_mul(col, lay_mul(l->basis[LAY_LANE], lane)) * (uint32_t)elem_bytes;
  *wavefronts = lay_wavefronts(addr, 32, vec * elem_bytes);
  *ideal = ideal_wavefronts(addr, 32, vec * elem_bytes);
}

/* Wavefronts of all groups, each measured: with padding they differ. */
static void count_padded(const lay_t *l, const sh_t *s, const lay_access *acc, int elem_bytes, int *wavefronts,
                         int *ideal) {
  *wavefronts = *ideal = 0;
  for (int g = 0; g < acc->n_groups; ++g) {
    uint32_t addr[32];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t o = lay_mul(s->col, lay_mul(l->basis[LAY_LANE], lane)) ^ acc->offset[g];
      addr[lane] = (o + (o >> s->pad_log2) * s->pad_elems) * (uint32_t)elem_bytes;
    }
    *wavefronts += lay_wavefronts(addr, 32, acc->vec * elem_bytes);
    *ideal += ideal_wavefronts(addr, 32, acc->vec * elem_bytes);
  }
}

lay_access lay_sh_access(lay_cx *cx, arena *a, const lay_t *l, const sh_t *s, int elem_bytes, int max_vec_bytes) {
  BASE_ASSERT(lay_bits(l) == s->d && l->nbits[LAY_BLOCK] == 0);
  uint8_t kept[LAY_MAX_HWBITS];
  lay_kept_regs(l, kept);
  const lay_t *u = lay_dedupe(cx, l, NULL);
  uint32_t inverse[LAY_MAX_BITS], lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS], outside = 0, vec[4];
  BASE_ASSERT(lay_invert(s->col, s->d, inverse));
  lay_matmul(s->col, u->basis[LAY_LANE], u->nbits[LAY_LANE], lane);
  lay_matmul(s->col, u->basis[LAY_WARP], u->nbits[LAY_WARP], warp);
  for (int i = 0; i < u->nbits[LAY_LANE]; ++i) outside |= lane[i];
  for (int i = 0; i < u->nbits[LAY_WARP]; ++i) outside |= warp[i];
  if (s->pad_log2) outside |= s->pad_elems | UINT32_C(1) << s->pad_log2;
  lay_span regs;
  lay_span_init(&regs);
  lay_span_add_all(&regs, u->basis[LAY_REG], u->nbits[LAY_REG]);
  int k = 0;
  while (k < 4 && k < s->d && elem_bytes << (k + 1) <= max_vec_bytes && !(outside >> k & 1) &&
         lay_span_has(&regs, inverse[k])) {
    vec[k] = inverse[k];
    ++k;
  }
  uint32_t low[4], rest[LAY_MAX_HWBITS], mask[LAY_NHW];
  int n = lay_group_regs(u, vec, k, s->col, low, rest), nr = u->nbits[LAY_REG];
  uint16_t *out = ARENA_ARRAY(a, uint16_t, 1 << nr);
  uint32_t *offset = ARENA_ARRAY(a, uint32_t, 1 << n);
  for (uint32_t g = 0; g < UINT32_C(1) << n; ++g) {
    uint32_t first = lay_mul(rest, g);
    offset[g] = lay_mul(s->col, lay_mul(u->basis[LAY_REG], first));
    for (uint32_t i = 0; i < UINT32_C(1) << k; ++i)
      out[(g << k) + i] = (uint16_t)lay_old_reg(first ^ lay_mul(low, i), kept);
  }
  lay_free_masks(u, mask);
  lay_access acc = {.vec = 1 << k,
                    .n_groups = 1 << n,
                    .regs = out,
                    .offset = offset,
                    .terms = lay_terms_of(a, lane, u->nbits[LAY_LANE], warp, u->nbits[LAY_WARP]),
                    .pad_log2 = s->pad_log2,
                    .pad_elems = s->pad_elems,
                    .lane_free = mask[LAY_LANE],
                    .warp_free = mask[LAY_WARP]};
  if (s->pad_log2) {
    count_padded(u, s, &acc, elem_bytes, &acc.wavefronts, &acc.ideal);
  } else {
    lay_count_access(u, s->col, acc.vec, elem_bytes, &acc.wavefronts, &acc.ideal);
    acc.wavefronts *= acc.n_groups;
    acc.ideal *= acc.n_groups;
  }
  return acc;
}
