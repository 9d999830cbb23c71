/* Floating point formats: bits to double and back with one correct rounding.
 *
 * Every format of tkc but f64 is a subset of double, so decoding is exact. Encoding takes sign, an integer significand
 * of up to 64 bits and an exponent. Its low bit may be sticky (rounded to odd): 64 bits are more than any target's
 * precision plus two, so what was cut off before can no longer change the rounding. The idea that fails is to go
 * through float or double first and round again: that rounds twice, and i64 -> bf16 or an f16 fma then miss ties. */
#ifndef IR_CONVERT_H
#define IR_CONVERT_H

#include <math.h>
#include <string.h>

#include "compiler/ir/tir.h"

typedef struct float_format {
  int mant, exp_bits;  /* fraction bits, exponent bits; the bias is 2^(exp_bits-1) - 1 */
  uint32_t max_finite; /* bits of the largest finite value */
  uint32_t inf;        /* bits of what overflow gives: infinity, or max_finite for formats that saturate */
  uint32_t nan;        /* the NaN that conversions make; PTX ISA, cvt: canonical NaNs */
} float_format;

static inline const float_format *float_format_of(tir_dtype d) {
  static const float_format e5m2 = {2, 5, 0x7b, 0x7b, 0x7f}, e4m3 = {3, 4, 0x7e, 0x7e, 0x7f},
                            half = {10, 5, 0x7bff, 0x7c00, 0x7fff}, bf = {7, 8, 0x7f7f, 0x7f80, 0x7fff},
                            single = {23, 8, 0x7f7fffff, 0x7f800000, 0x7fffffff};
  switch (d) {
    case DT_f8e5m2: return &e5m2;
    case DT_f8e4m3: return &e4m3;
    case DT_f16: return &half;
    case DT_bf16: return &bf;
    default: return &single;
  }
}

/* significand * 2^exponent, rounded to nearest even or toward zero. */
static inline uint32_t float_encode(const float_format *f, bool negative, uint64_t significand, int exponent,
                                    bool rtz) {
  uint32_t sign = negative ? UINT32_C(1) << (f->mant + f->exp_bits) : 0;
  if (!significand) return sign;
  int top = 63 - __builtin_clzll(significand);
  int bias = (1 << (f->exp_bits - 1)) - 1, min_exp = 1 - bias;
  int exp = top + exponent;
  if (exp > bias + 1) return sign | (rtz ? f->max_finite : f->inf);
  int unit = (exp > min_exp ? exp : min_exp) - f->mant; /* weight of the last place */
  int drop = unit - exponent;
  uint64_t kept;
  if (drop <= 0) {
    kept = significand << -drop;
  } else {
    kept = drop < 64 ? significand >> drop : 0;
    if (!rtz && drop <= 64) {
      uint64_t rest = drop < 64 ? significand << (64 - drop) : significand;
      kept += rest > UINT64_C(1) << 63 || (rest == UINT64_C(1) << 63 && (kept & 1));
    }
  }
  /* A hidden bit in `kept` carries into the exponent field, as does rounding up to the next power of two. */
  uint64_t bits = ((uint64_t)(unit - (min_exp - f->mant)) << f->mant) + kept;
  if (bits > f->max_finite) return sign | (rtz ? f->max_finite : f->inf);
  return sign | (uint32_t)bits;
}

static inline uint32_t float_from_double(const float_format *f, double v, bool rtz) {
  uint64_t b;
  memcpy(&b, &v, 8);
  bool negative = b >> 63;
  int exp = (int)(b >> 52 & 0x7ff);
  uint64_t m = b & ((UINT64_C(1) << 52) - 1);
  if (exp == 0x7ff) return m ? f->nan : (negative ? UINT32_C(1) << (f->mant + f->exp_bits) : 0) | f->inf;
  if (exp) m |= UINT64_C(1) << 52;
  return float_encode(f, negative, m, (exp ? exp : 1) - 1075, rtz);
}

static inline uint32_t float_from_int(const float_format *f, bool is_signed, uint64_t v) {
  bool negative = is_signed && v >> 63;
  return float_encode(f, negative, negative ? 0 - v : v, 0, false);
}

static inline double float_to_double(const float_format *f, uint32_t bits) {
  bool negative = bits >> (f->mant + f->exp_bits) & 1;
  uint32_t exp = bits >> f->mant & ((UINT32_C(1) << f->exp_bits) - 1), m = bits & ((UINT32_C(1) << f->mant) - 1);
  uint32_t magnitude = exp << f->mant | m;
  int bias = (1 << (f->exp_bits - 1)) - 1;
  double v;
  if (f->mant == 3 ? magnitude == 0x7f : magnitude > ((UINT32_C(1) << f->exp_bits) - 1) << f->mant) {
    v = (double)NAN;
  } else if (f->mant != 3 && exp == (UINT32_C(1) << f->exp_bits) - 1) {
    v = (double)INFINITY;
  } else {
    /* m * 2^e built from its bits: the exponent is in the range of normal doubles for every format here. */
    uint64_t scale = (uint64_t)((int)(exp ? exp : 1) - bias - f->mant + 1023) << 52;
    double s;
    memcpy(&s, &scale, 8);
    v = (double)(exp ? m | UINT32_C(1) << f->mant : m) * s;
  }
  return negative ? -v : v;
}

static inline float float_of_bits(uint32_t b) {
  float v;
  memcpy(&v, &b, 4);
  return v;
}
static inline uint32_t bits_of_float(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  return b;
}
static inline double double_of_bits(uint64_t b) {
  double v;
  memcpy(&v, &b, 8);
  return v;
}
static inline uint64_t bits_of_double(double v) {
  uint64_t b;
  memcpy(&b, &v, 8);
  return b;
}

/* Exact sum of two doubles, rounded to odd instead of to nearest: rounding it to a format of at most 51 bits is then
   the correctly rounded sum (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums"). */
static inline double sum_to_odd(double a, double b) {
  double s = a + b;
  if (!isfinite(s)) return s;
  double bb = s - a, err = (a - (s - bb)) + (b - bb);
  uint64_t bits = bits_of_double(s);
  if (err != 0 && !(bits & 1)) {
    bool away = (err > 0) == (s > 0);
    return double_of_bits(away ? bits + 1 : bits - 1);
  }
  return s;
}

/* A double as an integer of `width` bits: truncated toward zero, saturated; NaN gives 0. */
static inline uint64_t int_from_double(double v, int width, bool is_signed) {
  if (isnan(v)) return 0;
  v = trunc(v);
  if (is_signed) {
    double limit = ldexp(1, width - 1);
    if (v >= limit) return (UINT64_C(1) << (width - 1)) - 1;
    if (v < -limit) return UINT64_C(1) << (width - 1) | (width == 64 ? 0 : UINT64_MAX << width);
    return (uint64_t)(int64_t)v;
  }
  if (v <= 0) return 0;
  if (v >= ldexp(1, width)) return width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1;
  return (uint64_t)v;
}

#endif
