/* Shared memory layouts, and what an access through one costs.
 *
 * A shared layout maps tile elements to element offsets, a bijection given by one column per tile bit. All of them here
 * are a permutation of the tile's bits with some XORs on top:
 *
 *   row major   the axes in an order, no XOR
 *   XOR         row major, chunk ^= (row / per_phase) % max_phase
 *   TMA box     boxes of rows x W bytes one after the other; in each box address bits 4.. ^= bits 7.. (1, 2, 3 bits for
 *               W = 32, 64, 128). TMA writes it, wgmma reads it through a descriptor, ldmatrix reads it without
 * conflicts: use it for every operand that is pipelined. padding     on top of any: pad_elems after every 2^pad_log2
 * elements. The only thing that is not linear; needs 2.8 times the wavefronts of the best swizzle (measured on random
 * pairs), so a last resort.
 *
 * Cost model: 32 banks of 4 bytes; one wavefront serves each bank one word; 8-byte accesses go in 2 phases of 16 lanes,
 * 16-byte ones in 4 phases of 8. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

static sh_t blank(lay_shape shape) {
  sh_t s = {.rank = shape.rank, .d = (uint8_t)lay_shape_bits(shape), .align_bytes = 16};
  memcpy(s.axis_bits, shape.bits, sizeof s.axis_bits);
  return s;
}

static sh_t rowmajor(lay_shape shape, const int *order) {
  sh_t s = blank(shape);
  int pos = 0;
  for (int k = 0; k < shape.rank; ++k) {
    int a = order ? order[k] : shape.rank - 1 - k;
    for (int i = 0; i < shape.bits[a]; ++i) s.col[lay_axis_shift(shape, a) + i] = UINT32_C(1) << pos++;
  }
  return s;
}

const sh_t *lay_sh_rowmajor(lay_cx *cx, lay_shape shape, const int *order) {
  sh_t s = rowmajor(shape, order);
  return lay_sh_intern(cx, &s);
}

const sh_t *lay_sh_xor(lay_cx *cx, lay_shape shape, int vec, int per_phase, int max_phase, const int *order) {
  BASE_ASSERT(shape.rank >= 2);
  sh_t s = rowmajor(shape, order);
  s.kind = LAY_SH_XOR;
  int fast = order ? order[0] : shape.rank - 1, slow = order ? order[1] : shape.rank - 2;
  for (int i = 0; i < shape.bits[slow]; ++i) {
    uint32_t chunk = ((UINT32_C(1) << i) / (uint32_t)per_phase) % (uint32_t)max_phase;
    s.col[lay_axis_shift(shape, slow) + i] ^= ((uint32_t)vec * chunk) & ((UINT32_C(1) << shape.bits[fast]) - 1);
  }
  return lay_sh_intern(cx, &s);
}

const sh_t *lay_sh_straight(lay_cx *cx, const lay_t *l, int axis, int vec) {
  lay_shape shape = lay_shape_of(l);
  sh_t s = blank(shape);
  uint32_t first[LAY_MAX_BITS + LAY_MAX_COLS], basis[LAY_MAX_BITS + LAY_MAX_COLS];
  int n = 0;
  for (int i = 0; 1 << i < vec; ++i) first[n++] = UINT32_C(1) << (lay_axis_shift(shape, axis) + i);
  n += lay_cols(l, 1 << LAY_LANE, first + n);
  n += lay_cols(l, 1 << LAY_WARP, first + n);
  n += lay_cols(l, 1 << LAY_REG, first + n);
  n = lay_independent(first, n, basis);
  BASE_ASSERT(n == s.d);
  s.kind = LAY_SH_GENERIC;
  bool good = lay_invert(basis, n, s.col);
  BASE_ASSERT(good);
  (void)good;
  return lay_sh_intern(cx, &s);
}

static uint32_t swizzle_address(uint32_t byte, int width) {
  return byte ^ ((byte >> 7 & ((uint32_t)width / 16 - 1)) << 4);
}

const sh_t *lay_sh_tma(lay_cx *cx, lay_shape shape, int inner, int swizzle, int elem_bytes) {
  BASE_ASSERT(shape.rank == 2 && (inner == 0 || inner == 1) && (swizzle == 32 || swizzle == 64 || swizzle == 128));
  int box_bits = lay_log2(swizzle) - lay_log2(elem_bytes), outer = 1 - inner, rows = shape.bits[outer];
  BASE_ASSERT(shape.bits[inner] >= box_bits && rows >= 3);
  sh_t s = blank(shape);
  s.kind = LAY_SH_TMA_BOX;
  s.swizzle_bytes = (uint8_t)swizzle;
  s.inner_axis = (uint8_t)inner;
  s.align_bytes = (uint16_t)(8 * swizzle);
  for (int i = 0; i < shape.bits[inner]; ++i) {
    int pos = i < box_bits ? i : rows + i;
    s.col[lay_axis_shift(shape, inner) + i] = UINT32_C(1) << pos;
  }
  for (int i = 0; i < rows; ++i) s.col[lay_axis_shift(shape, outer) + i] = UINT32_C(1) << (box_bits + i);
  for (int i = 0; i < s.d; ++i)
    s.col[i] = swizzle_address(s.col[i] * (uint32_t)elem_bytes, swizzle) / (uint32_t)elem_bytes;
  return lay_sh_intern(cx, &s);
}

int lay_sh_tma_width(lay_shape shape, int inner, int elem_bytes) {
  if (shape.rank != 2 || shape.bits[1 - inner] < 3) return 0;
  int64_t bytes = (INT64_C(1) << shape.bits[inner]) * elem_bytes;
  return bytes >= 128 ? 128 : bytes >= 64 ? 64 : bytes >= 32 ? 32 : 0;
}

const sh_t *lay_sh_padded(lay_cx *cx, const sh_t *s, int interval_log2, int pad_elems) {
  BASE_ASSERT(interval_log2 > 0 && pad_elems > 0);
  sh_t r = *s;
  r.pad_log2 = (uint8_t)interval_log2;
  r.pad_elems = (uint16_t)pad_elems;
  return lay_sh_intern(cx, &r);
}

const sh_t *lay_sh_permute(lay_cx *cx, const sh_t *s, const int *axes) {
  sh_t r = *s;
  lay_shape from = lay_sh_shape(s), to = from;
  for (int a = 0; a < s->rank; ++a) to.bits[a] = from.bits[axes[a]];
  memcpy(r.axis_bits, to.bits, sizeof r.axis_bits);
  for (int a = 0; a < s->rank; ++a) {
    for (int i = 0; i < to.bits[a]; ++i) r.col[lay_axis_shift(to, a) + i] = s->col[lay_axis_shift(from, axes[a]) + i];
    if (axes[a] == s->inner_axis) r.inner_axis = (uint8_t)a;
  }
  return lay_sh_intern(cx, &r);
}

uint32_t lay_sh_offset(const sh_t *s, uint32_t flat) {
  uint32_t o = lay_mul(s->col, flat);
  return s->pad_log2 ? o + (o >> s->pad_log2) * s->pad_elems : o;
}

uint32_t lay_sh_elems(const sh_t *s) {
  uint32_t n = UINT32_C(1) << s->d;
  return s->pad_log2 ? n + (n >> s->pad_log2) * s->pad_elems : n;
}

/* ---- wgmma descriptors ------------------------------------------------------------------------------------------- */

bool lay_sh_desc(const sh_t *s, int mn_axis, int elem_bytes, lay_desc *out) {
  if (s->kind != LAY_SH_TMA_BOX || s->rank != 2 || s->pad_log2 || elem_bytes > 4) return false;
  uint32_t w = s->swizzle_bytes;
  bool mn_major = s->inner_axis == mn_axis;
  if (mn_major && elem_bytes != 2) return false;
  uint32_t outer = UINT32_C(1) << s->axis_bits[1 - s->inner_axis];
  uint32_t sbo = 8 * w, lbo = mn_major ? outer * w : 16;
  if (lbo >> 4 >= 1 << 14 || sbo >> 4 >= 1 << 14) return false;
  uint64_t mode = w == 128 ? 1 : w == 64 ? 2 : 3;
  *out = (lay_desc){.fixed = (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 | mode << 62,
                    .k_step = mn_major ? 16 * w : 32,
                    .k_box = mn_major ? 0 : outer * w,
                    .box_steps = mn_major ? 0 : w / 32,
                    .mn_64 = mn_major ? 64 * 2 / w * outer * w : 64 * w,
                    .transposed = mn_major};
  return true;
}

/* ---- cost of an access ------------------------------------------------------------------------------------------- */

int lay_wavefronts(const uint32_t *addr, int n, int bytes) {
  int phase = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32, total = 0;
  for (int start = 0; start < n; start += phase) {
    uint32_t words[32 * 4], count = 0;
    uint8_t load[32] = {0};
    int worst = 0;
    for (int i = start; i < start + phase && i < n; ++i) {
      if (addr[i] == UINT32_MAX) continue;
      for (uint32_t w = addr[i] / 4; w < (addr[i] + (uint32_t)bytes + 3) / 4; ++w) {
        uint32_t k = 0;
        while (k < count && words[k] != w) ++k;
        if (k < count) continue;
        words[count++] = w;
        if (++load[w % 32] > worst) worst = load[w % 32];
      }
    }
    total += worst;
  }
  return total;
}
