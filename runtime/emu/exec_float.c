/* Float arithmetic. .f32 and .f64 use the host's IEEE operations under the host's rounding mode; 16-bit formats go
 * through half.c. The approximations (.approx, .full) are computed in double and rounded, which is closer to the exact
 * value than hardware is; their documented special cases are kept. */
#include "runtime/emu/half.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

static float f32_of(uint64_t b) {
  uint32_t u = (uint32_t)b;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static uint64_t f32_bits(float f) {
  uint32_t u;
  if (f != f) return 0x7fffffffu;
  memcpy(&u, &f, sizeof u);
  return u;
}

static double f64_of(uint64_t b) {
  double v;
  memcpy(&v, &b, sizeof v);
  return v;
}

static uint64_t f64_bits(double v) {
  uint64_t b;
  memcpy(&b, &v, sizeof b);
  return b;
}

static emu_type element(emu_type t) {
  return t == EMU_T_F16X2 ? EMU_T_F16 : t == EMU_T_BF16X2 ? EMU_T_BF16 : t == EMU_T_F32X2 ? EMU_T_F32 : t;
}

/* .sat and .relu on the bits of a result. */
static uint64_t clamp(const emu_ins *i, emu_type t, uint64_t bits) {
  if (!(i->flags & (EMU_FLAG(SAT) | EMU_FLAG(RELU)))) return bits;
  double v = emu__float_value(t, bits, false);
  if (i->flags & EMU_FLAG(SAT)) {
    if (isnan(v)) return 0;
    return v <= 0 ? 0 : v >= 1 ? emu__float_bits(t, 1, 0, false) : bits;
  }
  return v <= 0 ? 0 : bits;
}

/* division, exact or as .approx and .full define it */
static float divide(const emu_ins *i, float a, float b) {
  if ((i->flags & EMU_FLAG(APPROX)) && fabsf(b) > 0x1p126f && isfinite(b))
    return isinf(a) ? NAN : copysignf(0, a) * copysignf(1, b);
  return a / b;
}

static uint64_t f32_op(const emu_ins *i, uint64_t ab, uint64_t bb, uint64_t cb) {
  bool ftz = (i->flags & EMU_FLAG(FTZ)) != 0;
  if (ftz) {
    ab = emu__flush(EMU_T_F32, ab);
    bb = emu__flush(EMU_T_F32, bb);
    cb = emu__flush(EMU_T_F32, cb);
  }
  float a = f32_of(ab), b = f32_of(bb), c = f32_of(cb), r;
  switch (i->op) {
    case EMU_I_FADD: r = a + b; break;
    case EMU_I_FSUB: r = a - b; break;
    case EMU_I_FMUL: r = a * b; break;
    case EMU_I_FDIV: r = divide(i, a, b); break;
    default: r = fmaf(a, b, c); break;
  }
  uint64_t out = f32_bits(r);
  if (ftz) out = emu__flush(EMU_T_F32, out);
  return clamp(i, EMU_T_F32, out);
}

static uint64_t f64_op(const emu_ins *i, uint64_t ab, uint64_t bb, uint64_t cb) {
  double a = f64_of(ab), b = f64_of(bb);
  switch (i->op) {
    case EMU_I_FADD: return f64_bits(a + b);
    case EMU_I_FSUB: return f64_bits(a - b);
    case EMU_I_FMUL: return f64_bits(a * b);
    case EMU_I_FDIV: return f64_bits(a / b);
    default: return f64_bits(fma(a, b, f64_of(cb)));
  }
}

static uint64_t small_op(const emu_ins *i, emu_type t, uint64_t ab, uint64_t bb, uint64_t cb) {
  bool ftz = (i->flags & EMU_FLAG(FTZ)) != 0;
  double a = emu__float_value(t, ab, ftz), b = emu__float_value(t, bb, ftz), r;
  switch (i->op) {
    case EMU_I_FADD: r = emu__add_odd(a, b); break;
    case EMU_I_FSUB: r = emu__add_odd(a, -b); break;
    case EMU_I_FMUL: r = a * b; break;
    default: r = emu__add_odd(a * b, emu__float_value(t, cb, ftz)); break;
  }
  uint64_t out = emu__float_bits(t, r, EMU_M_RN, false);
  if (ftz) out = emu__flush(t, out);
  return clamp(i, t, out);
}

static uint64_t float_op(const emu_ins *i, uint64_t a, uint64_t b, uint64_t c) {
  emu_type t = (emu_type)i->type[0], e = element(t);
  if (t == EMU_T_F32) return f32_op(i, a, b, c);
  if (t == EMU_T_F64) return f64_op(i, a, b, c);
  if (t == EMU_T_F32X2)
    return f32_op(i, a & 0xffffffff, b & 0xffffffff, c & 0xffffffff) | f32_op(i, a >> 32, b >> 32, c >> 32) << 32;
  if (e == t) return small_op(i, t, a & 0xffff, b & 0xffff, c & 0xffff);
  return small_op(i, e, a & 0xffff, b & 0xffff, c & 0xffff) |
         small_op(i, e, a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff) << 16;
}

emu_next emu__x_farith(emu_exec *x, const emu_ins *i, uint32_t mask) {
  static const uint64_t zeros[EMU_LANES];
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  const uint64_t *c = i->nopd == 4 ? emu__src(x, &i->opd[3], 3) : zeros;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  int mode = emu__fenv_mode(i->mod[EMU_G_RND]);
  if (mode != FE_TONEAREST) fesetround(mode);
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], float_op(i, a[l], b[l], c[l]));
  if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
  return EMU_NEXT;
}

/* f32 arithmetic whose first operands are 16-bit floats, which widen without loss */
emu_next emu__x_fmixed(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  const uint64_t *c = i->nopd == 4 ? emu__src(x, &i->opd[3], 3) : NULL;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type t = (emu_type)i->type[1];
  int mode = emu__fenv_mode(i->mod[EMU_G_RND]);
  if (mode != FE_TONEAREST) fesetround(mode);
  EMU_FOR_LANES(mask, l) {
    float u = (float)emu__float_value(t, a[l] & 0xffff, false), r;
    if (c != NULL)
      r = fmaf(u, (float)emu__float_value(t, b[l] & 0xffff, false), f32_of(c[l]));
    else
      r = i->op == EMU_I_FADD_MIXED ? u + f32_of(b[l]) : u - f32_of(b[l]);
    d[l] = emu__fit(&i->opd[0], clamp(i, EMU_T_F32, f32_bits(r)));
  }
  if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
  return EMU_NEXT;
}

/* min and max: a NaN loses against a number unless .NaN; -0 is less than +0. */
static uint64_t choose(const emu_ins *i, emu_type t, uint64_t a, uint64_t b) {
  unsigned bits = emu__type_bits[t];
  uint64_t sign = (uint64_t)1 << (bits - 1), signs = 0;
  a = emu__zext(a, bits);
  b = emu__zext(b, bits);
  if (i->flags & EMU_FLAG(FTZ)) {
    a = emu__flush(t, a);
    b = emu__flush(t, b);
  }
  if (i->flags & EMU_FLAG(XORSIGN)) signs = (a ^ b) & sign;
  if (i->flags & EMU_FLAG(ABS)) {
    a &= ~sign;
    b &= ~sign;
  }
  double u = emu__float_value(t, a, false), v = emu__float_value(t, b, false);
  uint64_t nan = t == EMU_T_F64 ? 0x7fffffffffffffffu : emu__float_bits(t, NAN, 0, false);
  if (isnan(u) || isnan(v)) {
    if ((i->flags & EMU_FLAG(NANF)) || (isnan(u) && isnan(v))) return nan;
    return (isnan(u) ? b : a) | signs;
  }
  bool less = u < v || (u == v && signbit(u) && !signbit(v));
  return (less == (i->op == EMU_I_FMIN) ? a : b) | signs;
}

emu_next emu__x_fminmax(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  const uint64_t *c = i->nopd == 4 ? emu__src(x, &i->opd[3], 3) : NULL;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type t = (emu_type)i->type[0], e = element(t);
  EMU_FOR_LANES(mask, l) {
    uint64_t r = choose(i, e, a[l], b[l]);
    if (c != NULL) r = choose(i, e, r, c[l]);
    if (e != t) r |= choose(i, e, a[l] >> 16, b[l] >> 16) << 16;
    d[l] = emu__fit(&i->opd[0], r);
  }
  return EMU_NEXT;
}

emu_next emu__x_fsign(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type t = (emu_type)i->type[0], e = element(t);
  uint64_t sign = (uint64_t)1 << (emu__type_bits[e] - 1);
  if (e != t) sign |= sign << 16;
  bool ftz = (i->flags & EMU_FLAG(FTZ)) != 0;
  EMU_FOR_LANES(mask, l) {
    uint64_t v = emu__zext(a[l], emu__type_bits[t]);
    if (ftz) v = e == t ? emu__flush(t, v) : emu__flush(e, v & 0xffff) | emu__flush(e, v >> 16) << 16;
    d[l] = emu__fit(&i->opd[0], i->op == EMU_I_FABS ? v & ~sign : v ^ sign);
  }
  return EMU_NEXT;
}

emu_next emu__x_copysign(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]), sign = (uint64_t)1 << (emu__bits(i, 0) - 1);
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], (a[l] & sign) | (b[l] & (sign - 1)));
  return EMU_NEXT;
}

static double function(unsigned op, double v) {
  switch (op) {
    case EMU_I_RCP: return 1 / v;
    case EMU_I_SQRT: return sqrt(v);
    case EMU_I_RSQRT: return 1 / sqrt(v);
    case EMU_I_EX2: return exp2(v);
    case EMU_I_LG2: return v < 0 ? NAN : log2(v);
    case EMU_I_SIN: return sin(v);
    case EMU_I_COS: return cos(v);
    default: return tanh(v);
  }
}

/* 1/x and the square root in the type itself, under the host's rounding mode. */
static uint64_t exact_function(const emu_ins *i, uint64_t v) {
  if (i->type[0] == EMU_T_F64) {
    double a = f64_of(v);
    return f64_bits(i->op == EMU_I_RCP ? 1 / a : sqrt(a));
  }
  if (i->flags & EMU_FLAG(FTZ)) v = emu__flush(EMU_T_F32, v);
  float a = f32_of(v);
  v = f32_bits(i->op == EMU_I_RCP ? 1 / a : sqrtf(a));
  return (i->flags & EMU_FLAG(FTZ)) ? emu__flush(EMU_T_F32, v) : v;
}

static uint64_t approximate(const emu_ins *i, emu_type t, uint64_t v) {
  bool ftz = (i->flags & EMU_FLAG(FTZ)) != 0;
  v = emu__zext(v, emu__type_bits[t]);
  if (t == EMU_T_F64) {
    double r = function(i->op, f64_of(ftz ? v & 0xffffffff00000000u : v));
    return f64_bits(r) & (ftz ? 0xffffffff00000000u : UINT64_MAX);
  }
  uint64_t r = emu__float_bits(t, function(i->op, emu__float_value(t, v, ftz)), EMU_M_RN, false);
  return ftz ? emu__flush(t, r) : r;
}

emu_next emu__x_funary(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu_type t = (emu_type)i->type[0], e = element(t);
  int mode = emu__fenv_mode(i->mod[EMU_G_RND]);
  bool exact = !(i->flags & EMU_FLAG(APPROX));
  if (mode != FE_TONEAREST) fesetround(mode);
  EMU_FOR_LANES(mask, l) {
    uint64_t r = exact ? exact_function(i, a[l]) : approximate(i, e, a[l]);
    if (e != t) r |= approximate(i, e, a[l] >> 16) << 16;
    d[l] = emu__fit(&i->opd[0], r);
  }
  if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
  return EMU_NEXT;
}

emu_next emu__x_testp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) {
    int k = i->type[0] == EMU_T_F64 ? fpclassify(f64_of(a[l])) : fpclassify(f32_of(a[l]));
    bool r;
    switch (i->mod[EMU_G_TESTP]) {
      case EMU_M_FINITE: r = k != FP_INFINITE && k != FP_NAN; break;
      case EMU_M_INFINITE: r = k == FP_INFINITE; break;
      case EMU_M_NUMBER: r = k != FP_NAN; break;
      case EMU_M_NOTANUMBER: r = k == FP_NAN; break;
      case EMU_M_NORMAL: r = k == FP_NORMAL; break;
      default: r = k == FP_SUBNORMAL; break;
    }
    d[l] = r;
  }
  return EMU_NEXT;
}
