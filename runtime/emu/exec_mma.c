/* mma.sync: D = A B + C on the fragments of a warp.
 *
 * A register holds p = 32/bits elements (one f64). With g = lane/4 and t = lane%4, register r of A holds row g +
 * 8(r%2), columns t*p .. t*p+p-1 plus 4p(r/2); register r of B holds column g, rows t*p .. plus 4p*r; C and D hold row
 * g (and g+8), columns 2t and 2t+1. Where A has 8 rows, register r holds row g, columns t*p .. plus 4p*r (PTX ISA,
 * "Matrix Fragments for mma"). Products of small floats are exact in double; their sum is taken in double and rounded
 * once, where hardware truncates in ways that are not documented. */
#include "runtime/emu/half.h"

#include <string.h>

typedef struct tiles {
  double a[16][32], b[32][8];
  int32_t ia[16][32], ib[32][8];
  double c[16][8];
  int64_t ic[16][8];
} tiles;

unsigned emu__mma_rows(unsigned shape) { return shape == EMU_M_M8N8K4 || shape == EMU_M_M8N8K16 ? 8 : 16; }

unsigned emu__mma_depth(unsigned shape) {
  switch (shape) {
    case EMU_M_M8N8K4:
    case EMU_M_M16N8K4: return 4;
    case EMU_M_M16N8K8: return 8;
    case EMU_M_M8N8K16:
    case EMU_M_M16N8K16: return 16;
    default: return 32;
  }
}

static double float_element(emu_type t, uint64_t reg, unsigned k) {
  unsigned bits = emu__type_bits[t];
  if (bits == 64) return emu__float_value(t, reg, false);
  return emu__float_value(t, emu__zext(reg >> (bits * k), bits), false);
}

static int32_t int_element(emu_type t, uint64_t reg, unsigned k) {
  uint64_t v = reg >> (8 * k);
  return (int32_t)(t == EMU_T_S8 ? emu__sext(v, 8) : (int64_t)emu__zext(v, 8));
}

static void read_inputs(emu_exec *x, const emu_ins *i, tiles *m) {
  emu_type ta = (emu_type)i->type[1], tb = (emu_type)i->type[2];
  unsigned p = ta == EMU_T_F64 ? 1 : 32u / emu__type_bits[ta];
  bool tall = emu__mma_rows(i->mod[EMU_G_SHAPE]) == 16;
  bool ints = ta == EMU_T_S8 || ta == EMU_T_U8;
  for (unsigned r = 0; r < emu__count(&i->opd[1]); r++) {
    const uint64_t *s = emu__src(x, emu__elem(x, &i->opd[1], r), 1);
    for (unsigned l = 0; l < EMU_LANES; l++)
      for (unsigned k = 0; k < p; k++) {
        unsigned row = l / 4 + (tall ? 8 * (r & 1) : 0), col = l % 4 * p + k + 4 * p * (tall ? r >> 1 : r);
        if (ints)
          m->ia[row][col] = int_element(ta, s[l], k);
        else
          m->a[row][col] = float_element(ta, s[l], k);
      }
  }
  for (unsigned r = 0; r < emu__count(&i->opd[2]); r++) {
    const uint64_t *s = emu__src(x, emu__elem(x, &i->opd[2], r), 2);
    for (unsigned l = 0; l < EMU_LANES; l++)
      for (unsigned k = 0; k < p; k++) {
        unsigned row = l % 4 * p + k + 4 * p * r;
        if (ints)
          m->ib[row][l / 4] = int_element(tb, s[l], k);
        else
          m->b[row][l / 4] = float_element(tb, s[l], k);
      }
  }
}

static void accumulate(emu_exec *x, const emu_ins *i, tiles *m, unsigned depth) {
  emu_type t = (emu_type)i->type[3];
  unsigned per = t == EMU_T_F16 ? 2 : 1;
  for (unsigned r = 0; r < emu__count(&i->opd[3]); r++) {
    const uint64_t *s = emu__src(x, emu__elem(x, &i->opd[3], r), 3);
    for (unsigned l = 0; l < EMU_LANES; l++)
      for (unsigned k = 0; k < per; k++) {
        unsigned e = r * per + k, row = l / 4 + 8 * (e >> 1), col = l % 4 * 2 + (e & 1);
        if (t == EMU_T_S32) {
          int64_t sum = emu__sext(s[l], 32);
          for (unsigned d = 0; d < depth; d++) sum += (int64_t)m->ia[row][d] * m->ib[d][col];
          m->ic[row][col] = sum;
        } else {
          double sum = 0;
          for (unsigned d = 0; d < depth; d++) sum += m->a[row][d] * m->b[d][col];
          m->c[row][col] = sum + float_element(t, s[l], k);
        }
      }
  }
}

static uint64_t result(const emu_ins *i, const tiles *m, unsigned row, unsigned col) {
  if (i->type[0] != EMU_T_S32) return emu__float_bits((emu_type)i->type[0], m->c[row][col], EMU_M_RN, false);
  int64_t v = m->ic[row][col];
  if (i->flags & EMU_FLAG(SATFINITE)) v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
  return (uint32_t)v;
}

emu_next emu__x_mma(emu_exec *x, const emu_ins *i, uint32_t mask) {
  if (mask != x->f->mask) return emu__fault(x, -1, "mma under a guard that differs between lanes");
  emu_next next = emu__wait_for(x, x->w->live);
  if (next != EMU_NEXT) return next;
  if (mask != 0xffffffffu) return emu__fault(x, -1, "mma needs all 32 lanes");
  tiles m;
  read_inputs(x, i, &m);
  accumulate(x, i, &m, emu__mma_depth(i->mod[EMU_G_SHAPE]));
  unsigned per = i->type[0] == EMU_T_F16 ? 2 : 1;
  for (unsigned r = 0; r < emu__count(&i->opd[0]); r++) {
    const emu_opd *o = emu__elem(x, &i->opd[0], r);
    uint64_t *d = emu__dst(x, o);
    for (unsigned l = 0; l < EMU_LANES; l++) {
      uint64_t v = 0;
      for (unsigned k = 0; k < per; k++) {
        unsigned e = r * per + k;
        v |= result(i, &m, l / 4 + 8 * (e >> 1), l % 4 * 2 + (e & 1)) << (16 * k);
      }
      d[l] = emu__fit(o, v);
    }
  }
  return EMU_NEXT;
}
