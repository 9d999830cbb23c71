/* Loads, stores, asynchronous copies and matrix loads. */
#include "runtime/emu/internal.h"

#include <stdlib.h>
#include <string.h>

static unsigned order_of(const emu_ins *i) {
  unsigned sem = i->mod[EMU_G_SEM];
  return sem == 0 || sem == EMU_M_WEAK ? 0 : EMU_STRONG;
}

emu_next emu__x_ld(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const emu_opd *to = &i->opd[0];
  emu_space space = emu__space(i, EMU_G_SPACE);
  unsigned n = emu__count(to), bytes = emu__bits(i, 0) / 8u;
  bool is_signed = emu__is_signed(i, 0);
  uint64_t addr[EMU_LANES], *rows[8];
  emu__addr(x, &i->opd[1], addr);
  for (unsigned e = 0; e < n; e++) rows[e] = emu__dst(x, emu__elem(x, to, e));
  if (i->mod[EMU_G_SEM] == EMU_M_ACQUIRE) emu__acquire(x);
  EMU_FOR_LANES(mask, l) {
    const uint8_t *p = emu__access(x, space, addr[l], bytes * n, l, EMU_READ | order_of(i));
    if (p == NULL) return EMU_FAILED;
    for (unsigned e = 0; e < n; e++) {
      const emu_opd *o = emu__elem(x, to, e);
      uint64_t v = 0;
      memcpy(&v, p + e * bytes, bytes);
      if (is_signed) v = (uint64_t)emu__sext(v, bytes * 8);
      rows[e][l] = emu__fit(o, v);
    }
  }
  return EMU_NEXT;
}

emu_next emu__x_st(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const emu_opd *from = &i->opd[1];
  emu_space space = emu__space(i, EMU_G_SPACE);
  unsigned n = emu__count(from), bytes = emu__bits(i, 0) / 8u;
  uint64_t addr[EMU_LANES];
  const uint64_t *rows[8];
  emu__addr(x, &i->opd[0], addr);
  for (unsigned e = 0; e < n; e++) rows[e] = emu__src(x, emu__elem(x, from, e), 1);
  if (i->mod[EMU_G_SEM] == EMU_M_RELEASE) emu__release(x);
  EMU_FOR_LANES(mask, l) {
    uint8_t *p = emu__access(x, space, addr[l], bytes * n, l, EMU_WRITE | order_of(i));
    if (p == NULL) return EMU_FAILED;
    for (unsigned e = 0; e < n; e++) memcpy(p + e * bytes, &rows[e][l], bytes);
  }
  return EMU_NEXT;
}

emu_next emu__x_policy(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) d[l] = i->mod[EMU_G_L2EVICT];
  return EMU_NEXT;
}

/* cp.async: the data are fetched at once and kept with the warp; they reach shared memory at the wait (shadow.c). */
static bool fetch(emu_exec *x, uint64_t src, uint32_t size, uint32_t have, uint32_t lane, uint8_t *out) {
  memset(out, 0, 16);
  if (have == 0) return true;
  if ((src & (size - 1)) != 0) {
    emu__fault(x, (int)lane, "cp.async reads %u bytes from the misaligned address 0x%llx", size,
               (unsigned long long)src);
    return false;
  }
  if (have == size) {
    const uint8_t *p = emu__access(x, EMU_GLOBAL, src, size, lane, EMU_READ);
    if (p != NULL) memcpy(out, p, size);
    return p != NULL;
  }
  for (uint32_t b = 0; b < have; b++) {
    const uint8_t *p = emu__access(x, EMU_GLOBAL, src + b, 1, lane, EMU_READ);
    if (p == NULL) return false;
    out[b] = *p;
  }
  return true;
}

static emu_copy *new_copy(emu_exec *x) {
  emu_warp *w = x->w;
  if (w->ncopies == w->cap_copies) {
    uint32_t cap = w->cap_copies == 0 ? 256 : w->cap_copies * 2;
    emu_copy *c = cap > 1u << 22 ? NULL : realloc(w->copies, cap * sizeof *c);
    if (c == NULL) {
      x->status = EMU_NO_MEMORY;
      return NULL;
    }
    w->copies = c;
    w->cap_copies = cap;
  }
  return &w->copies[w->ncopies++];
}

emu_next emu__x_cp_async(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint32_t size = (uint32_t)i->opd[2].imm;
  bool hint = (i->flags & EMU_FLAG(CACHE_HINT)) != 0, limited = i->nopd == (hint ? 5 : 4);
  const uint64_t *limit = limited ? emu__src(x, &i->opd[3], 3) : NULL;
  bool ignore = limited && i->opd[3].kind == EMU_O_REG && i->opd[3].bits == 1;
  uint64_t dst[EMU_LANES], src[EMU_LANES];
  emu__addr(x, &i->opd[0], dst);
  emu__addr(x, &i->opd[1], src);
  EMU_FOR_LANES(mask, l) {
    uint32_t have = !limited ? size : ignore ? (limit[l] & 1 ? 0 : size) : (uint32_t)limit[l];
    if (have > size) return emu__fault(x, (int)l, "cp.async of %u bytes from a source of %u", size, have);
    const uint8_t *p = emu__access(x, EMU_SHARED, dst[l], size, l, EMU_WRITE);
    emu_copy *c = p != NULL ? new_copy(x) : NULL;
    if (c == NULL) return EMU_FAILED;
    *c = (emu_copy){.shared = (uint32_t)(p - x->shared),
                    .group = x->w->groups[l],
                    .number = x->w->copy_number++,
                    .line = i->line,
                    .lane = (uint8_t)l,
                    .size = (uint8_t)size};
    if (!fetch(x, src[l], size, have, l, c->data)) return EMU_FAILED;
    for (uint32_t b = 0; b < size; b++) x->shadow[c->shared + b].state |= EMU_SH_PENDING;
  }
  return EMU_NEXT;
}

emu_next emu__x_cp_commit(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)i;
  EMU_FOR_LANES(mask, l) x->w->groups[l]++;
  return EMU_NEXT;
}

emu_next emu__x_cp_wait(emu_exec *x, const emu_ins *i, uint32_t mask) {
  bool all = i->op == EMU_I_CP_WAIT_ALL;
  uint64_t n = all ? 0 : i->opd[0].imm;
  EMU_FOR_LANES(mask, l) {
    uint32_t groups = x->w->groups[l];
    emu__land_copies(x, l, all ? UINT32_MAX : groups > n ? groups - (uint32_t)n : 0, UINT32_MAX);
  }
  return EMU_NEXT;
}

/* ldmatrix, stmatrix: 8x8 matrices of 16-bit elements, a row per address; lane l holds row l/4, columns 2(l%4) and the
 * next, or the transposed element. */

static emu_next whole_warp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  if (mask != x->f->mask)
    return emu__fault(x, -1, "'%s' under a guard that differs between lanes", emu__op_name[i->op]);
  emu_next next = emu__wait_for(x, x->w->live);
  if (next == EMU_NEXT && mask != 0xffffffffu) return emu__fault(x, -1, "'%s' needs all 32 lanes", emu__op_name[i->op]);
  return next;
}

static uint16_t *element(uint8_t *rows[EMU_LANES], unsigned matrix, unsigned lane, unsigned k, bool trans) {
  unsigned r = lane / 4, c = lane % 4 * 2 + k;
  return (uint16_t *)(void *)(rows[matrix * 8 + (trans ? c : r)] + 2 * (trans ? r : c));
}

static bool matrix_rows(emu_exec *x, const emu_opd *o, unsigned n, emu_space space, unsigned how,
                        uint8_t *rows[EMU_LANES]) {
  uint64_t addr[EMU_LANES];
  emu__addr(x, o, addr);
  for (uint32_t l = 0; l < n * 8; l++) {
    if (space == EMU_GENERIC && addr[l] >> EMU_WINDOW_SHIFT != EMU_SHARED) {
      emu__fault(x, (int)l, "the address 0x%llx of a matrix row is not in shared memory", (unsigned long long)addr[l]);
      return false;
    }
    rows[l] = emu__access(x, space, addr[l], 16, l, how);
    if (rows[l] == NULL) return false;
  }
  return true;
}

emu_next emu__x_ldmatrix(emu_exec *x, const emu_ins *i, uint32_t mask) {
  emu_next next = whole_warp(x, i, mask);
  if (next != EMU_NEXT) return next;
  const emu_opd *to = &i->opd[0];
  unsigned n = emu__count(to);
  uint8_t *rows[EMU_LANES];
  uint16_t lo, hi;
  if (!matrix_rows(x, &i->opd[1], n, emu__space(i, EMU_G_SPACE), EMU_READ, rows)) return EMU_FAILED;
  bool trans = (i->flags & EMU_FLAG(TRANS)) != 0;
  for (unsigned m = 0; m < n; m++) {
    const emu_opd *o = emu__elem(x, to, m);
    uint64_t *d = emu__dst(x, o);
    EMU_FOR_LANES(mask, l) {
      memcpy(&lo, element(rows, m, l, 0, trans), sizeof lo);
      memcpy(&hi, element(rows, m, l, 1, trans), sizeof hi);
      d[l] = emu__fit(o, (uint64_t)hi << 16 | lo);
    }
  }
  return EMU_NEXT;
}

emu_next emu__x_stmatrix(emu_exec *x, const emu_ins *i, uint32_t mask) {
  emu_next next = whole_warp(x, i, mask);
  if (next != EMU_NEXT) return next;
  const emu_opd *from = &i->opd[1];
  unsigned n = emu__count(from);
  uint8_t *rows[EMU_LANES];
  if (!matrix_rows(x, &i->opd[0], n, emu__space(i, EMU_G_SPACE), EMU_WRITE, rows)) return EMU_FAILED;
  bool trans = (i->flags & EMU_FLAG(TRANS)) != 0;
  for (unsigned m = 0; m < n; m++) {
    const uint64_t *s = emu__src(x, emu__elem(x, from, m), 1);
    EMU_FOR_LANES(mask, l) {
      uint16_t lo = (uint16_t)s[l], hi = (uint16_t)(s[l] >> 16);
      memcpy(element(rows, m, l, 0, trans), &lo, sizeof lo);
      memcpy(element(rows, m, l, 1, trans), &hi, sizeof hi);
    }
  }
  return EMU_NEXT;
}
