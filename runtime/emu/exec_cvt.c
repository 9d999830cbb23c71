/* Moves with packing and unpacking, and conversions between all types. */
#include "runtime/emu/half.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

emu_next emu__x_mov(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const emu_opd *to = &i->opd[0], *from = &i->opd[1];
  unsigned bits = emu__bits(i, 0);
  uint64_t whole[EMU_LANES] = {0};
  if (from->kind == EMU_O_VEC) {
    unsigned width = bits / from->n;
    for (unsigned e = 0; e < from->n; e++) {
      const uint64_t *s = emu__src(x, emu__elem(x, from, e), 1);
      EMU_FOR_LANES(mask, l) whole[l] |= emu__zext(s[l], width) << (width * e);
    }
  } else {
    const uint64_t *s = emu__src(x, from, 1);
    EMU_FOR_LANES(mask, l) whole[l] = emu__zext(s[l], bits);
  }
  unsigned n = emu__count(to), width = bits / n;
  for (unsigned e = 0; e < n; e++) {
    const emu_opd *o = emu__elem(x, to, e);
    uint64_t *d = emu__dst(x, o);
    EMU_FOR_LANES(mask, l) d[l] = emu__fit(o, emu__zext(whole[l] >> (width * e), width));
  }
  return EMU_NEXT;
}

static double to_integral(double v, unsigned rnd) {
  switch (rnd) {
    case EMU_M_RZI: return trunc(v);
    case EMU_M_RMI: return floor(v);
    case EMU_M_RPI: return ceil(v);
    default: return rint(v);
  }
}

/* Out of range saturates; NaN gives 0, or the top bit alone when either side has 64 bits. */
static uint64_t float_to_int(const emu_ins *i, uint64_t bits) {
  emu_type to = (emu_type)i->type[0], from = (emu_type)i->type[1];
  unsigned width = emu__type_bits[to];
  bool is_signed = emu__type_class[to] == EMU_C_SINT;
  double v = emu__float_value(from, bits, (i->flags & EMU_FLAG(FTZ)) && from == EMU_T_F32);
  if (isnan(v)) return from == EMU_T_F64 || width == 64 ? (uint64_t)1 << (width - 1) : 0;
  v = to_integral(v, i->mod[EMU_G_RND]);
  double top = ldexp(1, (int)width - (is_signed ? 1 : 0));
  if (v >= top) return emu__ones(is_signed ? width - 1 : width);
  if (v < (is_signed ? -top : 0)) return is_signed ? 0 - ((uint64_t)1 << (width - 1)) : 0;
  return is_signed ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t int_to_int(const emu_ins *i, uint64_t v) {
  unsigned from = emu__bits(i, 1), to = emu__bits(i, 0);
  bool sf = emu__is_signed(i, 1), st = emu__is_signed(i, 0);
  uint64_t u = sf ? (uint64_t)emu__sext(v, from) : emu__zext(v, from);
  if (!(i->flags & EMU_FLAG(SAT))) return u;
  bool neg = sf && (int64_t)u < 0;
  uint64_t hi = emu__ones(st ? to - 1 : to);
  if (neg) {
    if (!st) return 0;
    int64_t lo = (int64_t)~hi;
    return (int64_t)u < lo ? (uint64_t)lo : u;
  }
  return u > hi ? hi : u;
}

static uint64_t finish_float(const emu_ins *i, emu_type to, double v) {
  if (i->flags & EMU_FLAG(SAT)) v = isnan(v) || v <= 0 ? 0 : v > 1 ? 1 : v;
  if ((i->flags & EMU_FLAG(RELU)) && v <= 0) v = 0;
  uint64_t r = emu__float_bits(to, v, i->mod[EMU_G_RND], (i->flags & EMU_FLAG(SATFINITE)) != 0);
  return (i->flags & EMU_FLAG(FTZ)) && to == EMU_T_F32 ? emu__flush(to, r) : r;
}

static uint64_t int_to_float(const emu_ins *i, uint64_t v) {
  unsigned from = emu__bits(i, 1);
  bool is_signed = emu__is_signed(i, 1);
  uint64_t u = is_signed ? (uint64_t)emu__sext(v, from) : emu__zext(v, from);
  if (i->type[0] != EMU_T_F64) return finish_float(i, (emu_type)i->type[0], emu__int_odd(u, is_signed));
  fesetround(emu__fenv_mode(i->mod[EMU_G_RND]));
  double d = is_signed ? (double)(int64_t)u : (double)u;
  fesetround(FE_TONEAREST);
  return finish_float(i, EMU_T_F64, d);
}

static uint64_t float_to_float(const emu_ins *i, uint64_t v) {
  emu_type from = (emu_type)i->type[1];
  unsigned r = i->mod[EMU_G_RND];
  double d = emu__float_value(from, v, (i->flags & EMU_FLAG(FTZ)) && from == EMU_T_F32);
  if (r >= EMU_M_RNI && r <= EMU_M_RPI) d = to_integral(d, r);
  return finish_float(i, (emu_type)i->type[0], d);
}

emu_next emu__x_cvt(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *s = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  bool ff = emu__type_class[i->type[1]] == EMU_C_FLT, tf = emu__type_class[i->type[0]] == EMU_C_FLT;
  unsigned to = emu__bits(i, 0);
  bool is_signed = emu__is_signed(i, 0);
  EMU_FOR_LANES(mask, l) {
    uint64_t v = emu__zext(s[l], emu__bits(i, 1));
    v = ff ? (tf ? float_to_float(i, v) : float_to_int(i, v)) : tf ? int_to_float(i, v) : int_to_int(i, v);
    d[l] = emu__fit(&i->opd[0], is_signed ? (uint64_t)emu__sext(v, to) : emu__zext(v, to));
  }
  return EMU_NEXT;
}

static emu_type half_of(emu_type t) {
  switch (t) {
    case EMU_T_F16X2: return EMU_T_F16;
    case EMU_T_BF16X2: return EMU_T_BF16;
    case EMU_T_E4M3X2: return EMU_T_E4M3;
    default: return EMU_T_E5M2;
  }
}

/* d = {a, b}: a becomes the upper half */
emu_next emu__x_cvt_pack(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type half = half_of((emu_type)i->type[0]);
  unsigned width = emu__type_bits[half];
  EMU_FOR_LANES(mask, l) {
    uint64_t hi = finish_float(i, half, emu__float_value(EMU_T_F32, a[l], false));
    uint64_t lo = finish_float(i, half, emu__float_value(EMU_T_F32, b[l], false));
    d[l] = emu__fit(&i->opd[0], hi << width | lo);
  }
  return EMU_NEXT;
}

/* between .f16x2 and pairs of 8-bit floats */
emu_next emu__x_cvt_unpack(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type to = half_of((emu_type)i->type[0]), from = half_of((emu_type)i->type[1]);
  unsigned wt = emu__type_bits[to], wf = emu__type_bits[from];
  EMU_FOR_LANES(mask, l) {
    uint64_t lo = finish_float(i, to, emu__float_value(from, emu__zext(a[l], wf), false));
    uint64_t hi = finish_float(i, to, emu__float_value(from, emu__zext(a[l] >> wf, wf), false));
    d[l] = emu__fit(&i->opd[0], hi << wt | lo);
  }
  return EMU_NEXT;
}

/* A null pointer is null in every space. */
emu_next emu__x_cvta(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *s = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_space space = emu__space(i, EMU_G_SPACE);
  uint64_t window = space == EMU_GLOBAL ? 0 : (uint64_t)space << EMU_WINDOW_SHIFT;
  bool to = (i->flags & EMU_FLAG(TO)) != 0;
  EMU_FOR_LANES(mask, l) {
    uint64_t v = to ? s[l] ^ window : s[l] | window;
    d[l] = emu__fit(&i->opd[0], s[l] == 0 && space != EMU_PARAM ? 0 : v);
  }
  return EMU_NEXT;
}
