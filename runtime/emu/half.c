/* f16, bf16, tf32, e4m3, e5m2 and f32 by integer arithmetic on doubles.
 *
 * Every operation on a small format is done exactly, or rounded to odd, in double and then rounded once. Rounding an
 * already rounded double again is the obvious way and is wrong in the halfway cases; round-to-odd keeps the information
 * that the second rounding needs (Boldo and Melquiond, 2008). */
#include "runtime/emu/half.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

typedef struct format {
  uint8_t ebits, mbits, shift; /* shift: unused low bits of the container */
  uint32_t max, inf, nan;      /* magnitudes, before the shift; inf == 0: the format has none */
} format;

static const format *format_of(emu_type t) {
  static const format f16 = {5, 10, 0, 0x7bff, 0x7c00, 0x7fff}, bf16 = {8, 7, 0, 0x7f7f, 0x7f80, 0x7fff};
  static const format tf32 = {8, 10, 13, 0x3fbff, 0x3fc00, 0x3ffff},
                      f32 = {8, 23, 0, 0x7f7fffff, 0x7f800000, 0x7fffffff};
  static const format e4m3 = {4, 3, 0, 0x7e, 0, 0x7f}, e5m2 = {5, 2, 0, 0x7b, 0x7c, 0x7f};
  switch (t) {
    case EMU_T_F16: return &f16;
    case EMU_T_BF16: return &bf16;
    case EMU_T_TF32: return &tf32;
    case EMU_T_E4M3: return &e4m3;
    case EMU_T_E5M2: return &e5m2;
    default: return &f32;
  }
}

static double from_bits(uint64_t b) {
  double v;
  memcpy(&v, &b, sizeof v);
  return v;
}

static uint64_t to_bits(double v) {
  uint64_t b;
  memcpy(&b, &v, sizeof b);
  return b;
}

double emu__float_value(emu_type t, uint64_t bits, bool ftz) {
  if (t == EMU_T_F64) return from_bits(bits);
  if (t == EMU_T_F32) {
    uint32_t u = (uint32_t)(ftz ? emu__flush(t, bits) : bits);
    float s;
    memcpy(&s, &u, sizeof s);
    return (double)s;
  }
  const format *f = format_of(t);
  unsigned width = 1u + f->ebits + f->mbits;
  uint64_t b = bits >> f->shift;
  bool neg = b >> (width - 1) & 1;
  b &= emu__ones(width - 1);
  double v;
  if (f->inf != 0 ? b > f->inf : b == f->nan) return neg ? -NAN : NAN;
  if (f->inf != 0 && b == f->inf) return neg ? -INFINITY : INFINITY;
  int bias = (1 << (f->ebits - 1)) - 1;
  uint64_t e = b >> f->mbits, m = b & emu__ones(f->mbits);
  if (e == 0)
    v = ftz ? 0.0 : ldexp((double)m, 1 - bias - f->mbits);
  else
    v = from_bits((uint64_t)((int64_t)e - bias + 1023) << 52 | m << (52 - f->mbits));
  return neg ? -v : v;
}

/* Whether rounding adds one to the kept bits, given the first dropped bit, whether any later one is set, and the sign.
 */
static bool rounds_up(unsigned rnd, bool neg, bool odd, bool half, bool sticky) {
  switch (rnd) {
    case EMU_M_RZ: return false;
    case EMU_M_RM: return neg && (half || sticky);
    case EMU_M_RP: return !neg && (half || sticky);
    case EMU_M_RNA: return half;
    default: return half && (sticky || odd);
  }
}

uint64_t emu__float_bits(emu_type t, double v, unsigned rnd, bool satfinite) {
  if (t == EMU_T_F64) return to_bits(v);
  const format *f = format_of(t);
  uint64_t b = to_bits(v), sign = (b >> 63) << (f->ebits + f->mbits), r;
  bool neg = sign != 0;
  if (isnan(v)) return (uint64_t)f->nan << f->shift;
  b &= emu__ones(63);
  if (b == 0) return sign << f->shift;
  if (t == EMU_T_F32 && (rnd == 0 || rnd == EMU_M_RN) && !satfinite) { /* the host's own rounding */
    float s = (float)v;
    uint32_t u;
    memcpy(&u, &s, sizeof u);
    return u;
  }
  bool overflow = isinf(v) != 0;
  r = f->inf;
  if (!overflow) {
    int e;
    double m53 = ldexp(frexp(from_bits(b), &e), 53);
    uint64_t m = (uint64_t)m53;
    int exponent = e - 1, emin = 2 - (1 << (f->ebits - 1));
    int drop = 52 - f->mbits + (exponent < emin ? emin - exponent : 0);
    uint64_t q = 0;
    bool half = false, sticky = true;
    if (drop <= 54) {
      q = m >> drop;
      half = m >> (drop - 1) & 1;
      sticky = (m & emu__ones((unsigned)drop - 1)) != 0;
    }
    q += rounds_up(rnd, neg, q & 1, half, sticky);
    r = exponent < emin ? q : q + ((uint64_t)(exponent - emin) << f->mbits);
    overflow = r > f->max;
    if (overflow) {
      bool inward = rnd == EMU_M_RZ || (rnd == EMU_M_RM && !neg) || (rnd == EMU_M_RP && neg);
      r = inward ? f->max : f->inf != 0 ? f->inf : f->nan;
    }
  } else if (f->inf == 0) {
    r = f->nan;
  }
  if (overflow && satfinite) r = f->max;
  return (r | sign) << f->shift;
}

uint64_t emu__flush(emu_type t, uint64_t bits) {
  if (t == EMU_T_F64) return bits;
  const format *f = format_of(t);
  uint64_t b = bits >> f->shift, magnitude = b & emu__ones((unsigned)f->ebits + f->mbits);
  return magnitude >> f->mbits != 0 ? bits : (b ^ magnitude) << f->shift;
}

double emu__add_odd(double a, double b) {
  double s = a + b;
  if (!isfinite(s)) return s;
  double bb = s - a, err = (a - (s - bb)) + (b - bb);
  uint64_t u = to_bits(s);
  if (err == 0 || (u & 1)) return s;
  bool away = (err > 0) == (s > 0);
  return from_bits(away ? u + 1 : u - 1);
}

double emu__int_odd(uint64_t v, bool is_signed) {
  bool neg = is_signed && (int64_t)v < 0;
  uint64_t m = neg ? 0 - v : v;
  unsigned extra = m >> 53 == 0 ? 0 : 11 - (unsigned)__builtin_clzll(m);
  uint64_t kept = m >> extra;
  if ((kept << extra) != m) kept |= 1;
  double d = ldexp((double)kept, (int)extra);
  return neg ? -d : d;
}

int emu__fenv_mode(unsigned rnd) {
  switch (rnd) {
    case EMU_M_RZ: return FE_TOWARDZERO;
    case EMU_M_RM: return FE_DOWNWARD;
    case EMU_M_RP: return FE_UPWARD;
    default: return FE_TONEAREST;
  }
}
