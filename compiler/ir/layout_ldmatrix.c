/* ldmatrix and stmatrix: when one instruction moves a register fragment from or to shared memory, and how it is
 * addressed.
 *
 * The instruction moves 1, 2 or 4 matrices of 8 rows of 16 bytes; lane 8j + r supplies the address of row r of matrix
 * j; lane l gets word l % 4 of row l / 4. Let a = S . L in elements and eb the bytes of an element. It fits iff
 *
 *   plain   registers below 4 bytes: a = 1, 2, .. elements; lane bits 0, 1: a = 4/eb, 8/eb; all other bases are
 * multiples of 16/eb. The rows of a matrix are lane bits 2, 3, 4. trans   eb = 2; lane bits 2, 3, 4: a = 1, 2, 4;
 * register bit 0, lane bits 0, 1 and all others are multiples of 8. The rows of a matrix are register bit 0 and lane
 * bits 0, 1.
 *
 * Matrices of one instruction are up to two of the other register bits; those whose offset has no bit in common with
 * the rows are left for the outer loop, where they become immediates. stmatrix is the same with data going the other
 * way. A 4-byte accumulator never fits (its register 0 is the next column); it has to be converted to 16 bits first. */
#include <string.h>

#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

typedef struct fragment {
  uint32_t reg[LAY_MAX_HWBITS], lane[LAY_LANE_BITS], warp[LAY_MAX_HWBITS]; /* a = S . L */
  int n_low;                                                               /* register bits inside one lane's 4 bytes */
  uint32_t rows[3];
} fragment;

static bool fits(const lay_t *l, const sh_t *s, int elem_bytes, bool trans, fragment *f) {
  int nr = l->nbits[LAY_REG];
  if (elem_bytes > 4 || (trans && elem_bytes != 2) || l->nbits[LAY_LANE] != LAY_LANE_BITS || l->nbits[LAY_BLOCK])
    return false;
  uint32_t word = 4 / (uint32_t)elem_bytes, low = 16 / (uint32_t)elem_bytes - 1, others = 0;
  lay_matmul(s->col, l->basis[LAY_REG], nr, f->reg);
  lay_matmul(s->col, l->basis[LAY_LANE], LAY_LANE_BITS, f->lane);
  lay_matmul(s->col, l->basis[LAY_WARP], l->nbits[LAY_WARP], f->warp);
  f->n_low = trans ? 1 : lay_log2(word);
  if (nr < f->n_low) return false;
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i) others |= f->warp[i];
  for (int i = trans ? 0 : f->n_low; i < nr; ++i) others |= f->reg[i];
  if (trans) {
    for (int i = 0; i < 3; ++i)
      if (f->lane[2 + i] != UINT32_C(1) << i) return false;
    others |= f->lane[0] | f->lane[1];
    f->rows[0] = f->reg[0];
    f->rows[1] = f->lane[0];
    f->rows[2] = f->lane[1];
  } else {
    for (int i = 0; i < f->n_low; ++i)
      if (f->reg[i] != UINT32_C(1) << i) return false;
    if (f->lane[0] != word || f->lane[1] != 2 * word) return false;
    others |= f->lane[2] | f->lane[3] | f->lane[4];
    for (int i = 0; i < 3; ++i) f->rows[i] = f->lane[2 + i];
  }
  if (s->pad_log2 && ((s->pad_elems & low) || UINT32_C(1) << s->pad_log2 <= low)) return false;
  return (others & low) == 0;
}

/* Addresses that the instructions need if two register bits select the matrix: offsets differ in bits of the rows. */
static int n_addresses(const fragment *f, int nr, const int *bits) {
  uint32_t rows = f->rows[0] | f->rows[1] | f->rows[2], rest[LAY_MAX_HWBITS];
  int n = 0;
  for (int i = f->n_low; i < nr; ++i)
    if (i != bits[0] && i != bits[1]) rest[n++] = f->reg[i] & rows;
  return 1 << lay_rank(rest, n);
}

/* Up to two register bits that select the matrix of an instruction: those that share offset bits with the rows first;
   of a load the first ones, where moves then cost more than addresses. */
static int choose_matrix_bits(const fragment *f, int nr, bool load, int *bits) {
  enum { MOVES_PER_ADDRESS = 4 };
  uint32_t rows = f->rows[0] | f->rows[1] | f->rows[2];
  int n = 0, first[2] = {f->n_low, f->n_low + 1};
  for (int pass = 0; pass < 2; ++pass)
    for (int i = f->n_low; i < nr && n < 2; ++i)
      if (((f->reg[i] & rows) != 0) == (pass == 0)) bits[n++] = i;
  if (n == 2 && bits[0] > bits[1]) {
    int t = bits[0];
    bits[0] = bits[1];
    bits[1] = t;
  }
  if (load && n == 2 &&
      (n_addresses(f, nr, first) - n_addresses(f, nr, bits)) * MOVES_PER_ADDRESS <= 1 << (nr - f->n_low))
    memcpy(bits, first, sizeof first);
  return n;
}

static int count_wavefronts(const fragment *f, const lay_matrix *m, const uint32_t *matrix, int n_matrix_bits,
                            int elem_bytes) {
  int total = 0;
  for (int g = 0; g < m->n_groups; ++g)
    for (uint32_t j = 0; j < UINT32_C(1) << n_matrix_bits; ++j) {
      uint32_t addr[8];
      for (uint32_t r = 0; r < 8; ++r) {
        uint32_t o = lay_mul(f->rows, r) ^ lay_mul(matrix, j) ^ m->offset[g];
        if (m->pad_log2) o += (o >> m->pad_log2) * m->pad_elems;
        addr[r] = o * (uint32_t)elem_bytes;
      }
      total += lay_wavefronts(addr, 8, 16);
    }
  return total;
}

bool lay_ldmatrix(lay_cx *cx, arena *a, const lay_t *layout, const sh_t *s, int elem_bytes, bool trans, bool load,
                  lay_matrix *out) {
  fragment f;
  uint8_t kept[LAY_MAX_HWBITS];
  lay_kept_regs(layout, kept);
  const lay_t *l = lay_dedupe(cx, layout, NULL);
  if (lay_bits(l) != s->d || !fits(l, s, elem_bytes, trans, &f)) return false;
  int bits[2], nr = l->nbits[LAY_REG], nm = choose_matrix_bits(&f, nr, load, bits), n_rest = 0;
  uint32_t matrix[2] = {0}, rest[LAY_MAX_HWBITS], lane[LAY_LANE_BITS] = {0};
  for (int i = 0; i < nm; ++i) matrix[i] = f.reg[bits[i]];
  for (int i = f.n_low; i < nr; ++i)
    if (!(nm > 0 && i == bits[0]) && !(nm > 1 && i == bits[1])) rest[n_rest++] = UINT32_C(1) << i;
  for (int i = 0; i < 3; ++i) lane[i] = f.rows[i];
  for (int i = 0; i < nm; ++i) lane[3 + i] = matrix[i];
  *out = (lay_matrix){.trans = trans,
                      .n_matrix = 1 << nm,
                      .n_groups = 1 << n_rest,
                      .per_matrix = 1 << f.n_low,
                      .terms = lay_terms_of(a, lane, LAY_LANE_BITS, f.warp, l->nbits[LAY_WARP]),
                      .pad_log2 = s->pad_log2,
                      .pad_elems = s->pad_elems};
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, 1 << nr);
  uint32_t *offset = ARENA_ARRAY(a, uint32_t, out->n_groups);
  int k = 0;
  for (int g = 0; g < out->n_groups; ++g) {
    uint32_t base = lay_mul(rest, (uint64_t)g);
    offset[g] = lay_mul(f.reg, base);
    for (int j = 0; j < out->n_matrix; ++j)
      for (int i = 0; i < out->per_matrix; ++i) {
        uint32_t x = base | (uint32_t)i;
        for (int b = 0; b < nm; ++b) x |= (uint32_t)(j >> b & 1) << bits[b];
        regs[k++] = (uint16_t)lay_old_reg(x, kept);
      }
  }
  out->regs = regs;
  out->offset = offset;
  out->wavefronts = count_wavefronts(&f, out, matrix, nm, elem_bytes);
  return true;
}

lay_way lay_way_of(lay_cx *cx, arena *a, const lay_t *l, const sh_t *s, int elem_bytes, bool matrices, bool load) {
  lay_way w = {.vectors = lay_sh_access(cx, a, l, s, elem_bytes, 16)};
  int best = w.vectors.n_groups + w.vectors.wavefronts;
  for (int trans = 0; matrices && trans < 2; ++trans) {
    lay_matrix m;
    if (!lay_ldmatrix(cx, a, l, s, elem_bytes, trans, load, &m) || m.n_groups + m.wavefronts >= best) continue;
    best = m.n_groups + m.wavefronts;
    w = (lay_way){.by_matrix = true, .matrix = m};
  }
  return w;
}
