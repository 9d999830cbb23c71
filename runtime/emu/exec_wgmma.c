/* wgmma: D = A B + D on the registers of a warpgroup, with B, and mostly A, in shared memory.
 *
 * Warp w of the group owns rows 16(w%4) .. +15 of A and D and shares nothing else with the other three, so each warp
 * computes its own slab. An operation is checked and its shared reads are recorded when it is issued; it runs, and
 * reads shared memory and registers, only at the wait for its group: a buffer that is given back before the wait shows
 * as a race or as a wrong result.
 *
 * A descriptor holds, in units of 16 bytes, the start address (bits 0-13), the leading (16-29) and the stride byte
 * offset (32-45), and the swizzle (62-63: none, 128, 64, 32 bytes). With rows of W bytes the 16-byte chunk at an
 * address is found by XOR of address bits 4.. with bits 7..; without swizzle the unit is a core matrix of 8 rows of 16
 * bytes. K-major operands step by the stride offset every 8 rows; transposed ones hold W/2 elements of M or N in a row,
 * step by the stride offset every 8 k and by the leading offset every W/2 elements (PTX ISA, "Strides" and "Shared
 * memory layout" of wgmma). */
#include "runtime/emu/half.h"

#include <stdlib.h>
#include <string.h>

typedef struct slab {
  double a[16][32];
  double b[32][256];
} slab;

typedef struct descriptor {
  uint64_t start, lead, stride;
  unsigned width; /* bytes of a swizzled row, 0 without */
} descriptor;

static bool read_descriptor(emu_exec *x, uint64_t v, descriptor *d) {
  static const uint8_t widths[4] = {0, 128, 64, 32};
  if (v >> 49 & 7) {
    emu__fault(x, -1, "a base offset in a wgmma descriptor is not supported");
    return false;
  }
  *d = (descriptor){(v & 0x3fff) << 4, (v >> 16 & 0x3fff) << 4, (v >> 32 & 0x3fff) << 4, widths[v >> 62]};
  return true;
}

/* The 16 bytes at `off` from the start of the operand. */
static const uint8_t *chunk(emu_exec *x, const descriptor *d, uint64_t off) {
  uint64_t addr = d->start + off;
  if (d->width != 0) addr ^= (addr >> 7 & (d->width / 16 - 1)) << 4;
  return emu__access(x, EMU_SHARED, addr, 16, 0, EMU_READ);
}

static double element(emu_type t, const uint8_t *p) {
  unsigned bits = emu__type_bits[t];
  uint64_t v = 0;
  memcpy(&v, p, bits / 8);
  if (emu__type_class[t] == EMU_C_FLT) return emu__float_value(t, v, false);
  return t == EMU_T_S8 ? (double)emu__sext(v, 8) : (double)v;
}

/* Offset of the chunk that holds (r, k): r along M or N. For K-major operands k is the first of a chunk, else r is. */
static uint64_t place(const descriptor *d, bool trans, unsigned r, unsigned k, unsigned bytes) {
  unsigned kb = k * bytes;
  if (!trans) {
    if (d->width == 0) return r / 8 * d->stride + r % 8 * 16 + kb / 16 * d->lead;
    return r / 8 * d->stride + (uint64_t)(r % 8) * d->width + kb;
  }
  if (d->width == 0) return r / 8 * d->stride + k / 8 * d->lead + k % 8 * 16;
  unsigned box = d->width / 2;
  return r / box * d->lead + k / 8 * d->stride + (uint64_t)(k % 8) * d->width + r % box * 2;
}

/* Reads rows [first, first + count) of an operand; put(out, r, k, value) stores. */
typedef void put_fn(slab *s, unsigned r, unsigned k, double v);
static void put_a(slab *s, unsigned r, unsigned k, double v) { s->a[r][k] = v; }
static void put_b(slab *s, unsigned r, unsigned k, double v) { s->b[k][r] = v; }

static bool read_shared(emu_exec *x, uint64_t desc, emu_type t, bool trans, unsigned first, unsigned count,
                        unsigned depth, slab *s, put_fn *put) {
  descriptor d;
  unsigned bytes = emu__type_bits[t] / 8u, per = 16 / bytes;
  if (!read_descriptor(x, desc, &d)) return false;
  for (unsigned r = 0; r < count; r += trans ? per : 1)
    for (unsigned k = 0; k < depth; k += trans ? 1 : per) {
      const uint8_t *p = chunk(x, &d, place(&d, trans, first + r, k, bytes));
      if (p == NULL) return false;
      for (unsigned e = 0; e < per; e++) put(s, trans ? r + e : r, trans ? k : k + e, element(t, p + e * bytes));
    }
  return true;
}

static uint64_t *register_row(const emu_exec *x, const emu_wgmma *g, unsigned operand, unsigned e) {
  const emu_opd *o = emu__elem(x, &g->i->opd[operand], e);
  return x->w->regs + (size_t)(g->reg_base + o->reg) * EMU_LANES;
}

static bool read_operands(emu_exec *x, const emu_wgmma *g, slab *s) {
  const emu_ins *i = g->i;
  emu_type ta = (emu_type)i->type[1], tb = (emu_type)i->type[2];
  bool regs = i->opd[1].kind == EMU_O_VEC;
  bool trans_a = !regs && i->nopd == 8 && i->opd[6].imm != 0, trans_b = i->nopd > 6 && i->opd[i->nopd - 1].imm != 0;
  if (!read_shared(x, g->b, tb, trans_b, 0, i->wide_n, i->wide_k, s, put_b)) return false;
  if (!regs) return read_shared(x, g->a, ta, trans_a, x->w->id % 4 * 16, 16, i->wide_k, s, put_a);
  unsigned p = 32u / emu__type_bits[ta];
  for (unsigned r = 0; r < 4; r++) {
    const uint64_t *row = register_row(x, g, 1, r);
    for (unsigned l = 0; l < EMU_LANES; l++)
      for (unsigned k = 0; k < p; k++) {
        uint32_t v = (uint32_t)row[l] >> (emu__type_bits[ta] * k);
        s->a[l / 4 + 8 * (r & 1)][l % 4 * p + k + 4 * p * (r >> 1)] = element(ta, (const uint8_t *)&v);
      }
  }
  return true;
}

static uint64_t accumulate(const emu_wgmma *g, const slab *s, unsigned row, unsigned col, uint64_t old, double sign) {
  const emu_ins *i = g->i;
  emu_type t = (emu_type)i->type[0];
  double sum = 0;
  for (unsigned k = 0; k < i->wide_k; k++) sum += s->a[row][k] * s->b[k][col];
  sum *= sign;
  if (t != EMU_T_S32) return emu__float_bits(t, sum + (g->keep ? emu__float_value(t, old, false) : 0), EMU_M_RN, false);
  int64_t v = (int64_t)sum + (g->keep ? emu__sext(old, 32) : 0);
  if (i->flags & EMU_FLAG(SATFINITE)) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
  return (uint32_t)v;
}

static bool complete(emu_exec *x, const emu_wgmma *g, slab *s) {
  const emu_ins *i = g->i;
  unsigned per = i->type[0] == EMU_T_F16 ? 2 : 1;
  if (!read_operands(x, g, s)) return false;
  double sign = i->op == EMU_I_WGMMA && i->opd[4].imm != i->opd[5].imm ? -1 : 1;
  for (unsigned r = 0; r < emu__count(&i->opd[0]); r++) {
    uint64_t *d = register_row(x, g, 0, r);
    for (unsigned l = 0; l < EMU_LANES; l++) {
      uint64_t v = 0;
      for (unsigned k = 0; k < per; k++) {
        unsigned e = r * per + k;
        uint64_t old = per == 2 ? d[l] >> (16 * k) & 0xffff : d[l] & 0xffffffff;
        v |= accumulate(g, s, l / 4 + 8 * (e >> 1 & 1), 8 * (e >> 2) + l % 4 * 2 + (e & 1), old, sign) << (16 * k);
      }
      d[l] = v;
    }
  }
  return true;
}

static emu_next whole_warp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  if (mask != x->f->mask)
    return emu__fault(x, -1, "'%s' under a guard that differs between lanes", emu__op_name[i->op]);
  emu_next next = emu__wait_for(x, x->w->live);
  if (next == EMU_NEXT && mask != 0xffffffffu) return emu__fault(x, -1, "'%s' needs all 32 lanes", emu__op_name[i->op]);
  return next;
}

static bool same(const uint64_t *row) {
  for (int l = 1; l < EMU_LANES; l++)
    if (row[l] != row[0]) return false;
  return true;
}

emu_next emu__x_wgmma(emu_exec *x, const emu_ins *i, uint32_t mask) {
  emu_next next = whole_warp(x, i, mask);
  if (next != EMU_NEXT) return next;
  emu_warp *w = x->w;
  if (w->nwgmma == w->cap_wgmma) {
    uint32_t cap = w->cap_wgmma == 0 ? 16 : w->cap_wgmma * 2;
    emu_wgmma *p = cap > 1u << 16 ? NULL : realloc(w->wgmma, cap * sizeof *p);
    if (p == NULL) {
      x->status = EMU_NO_MEMORY;
      return EMU_FAILED;
    }
    w->wgmma = p;
    w->cap_wgmma = cap;
  }
  static const uint64_t zeros[EMU_LANES];
  const uint64_t *a = i->opd[1].kind == EMU_O_VEC ? zeros : emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint32_t keep = emu__pred(x, &i->opd[3], 3);
  if (!same(a) || !same(b) || (keep != 0 && keep != 0xffffffffu))
    return emu__fault(x, -1, "descriptors and scale of a wgmma differ between lanes");
  emu_wgmma *g = &w->wgmma[w->nwgmma];
  *g = (emu_wgmma){i, emu__top(x->f)->reg_base, w->wgmma_groups, a[0], b[0], keep != 0};
  slab *s = malloc(sizeof *s);
  if (s == NULL) x->status = EMU_NO_MEMORY;
  bool ok = s != NULL && read_operands(x, g, s);
  free(s);
  if (!ok) return EMU_FAILED;
  w->nwgmma++;
  return EMU_NEXT;
}

emu_next emu__x_wgmma_commit(emu_exec *x, const emu_ins *i, uint32_t mask) {
  emu_next next = whole_warp(x, i, mask);
  if (next == EMU_NEXT) x->w->wgmma_groups++;
  return next;
}

emu_next emu__x_wgmma_wait(emu_exec *x, const emu_ins *i, uint32_t mask) {
  emu_next next = whole_warp(x, i, mask);
  if (next != EMU_NEXT) return next;
  emu_warp *w = x->w;
  uint64_t n = i->opd[0].imm;
  uint32_t limit = w->wgmma_groups > n ? w->wgmma_groups - (uint32_t)n : 0, done = 0;
  slab *s = malloc(sizeof *s);
  if (s == NULL) x->status = EMU_NO_MEMORY;
  bool ok = s != NULL;
  while (ok && done < w->nwgmma && w->wgmma[done].group < limit) {
    x->i = w->wgmma[done].i;
    ok = complete(x, &w->wgmma[done++], s);
  }
  free(s);
  x->i = i;
  w->nwgmma -= done;
  if (done > 0) memmove(w->wgmma, w->wgmma + done, w->nwgmma * sizeof *w->wgmma);
  return ok ? EMU_NEXT : EMU_FAILED;
}
