/* The meaning of elementwise ops against slow, independent definitions: exhaustively for 8 and 16 bits where that is
 * cheap, else over corner values. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/tir.h"

/* ---- one element ---- */

static uint64_t eval_opts(tir_opcode op, tir_dtype d, tir_dtype out_dt, uint64_t a, uint64_t b, uint64_t c,
                          tir_eval_opts opts, int64_t *by_zero) {
  uint64_t result = 0;
  tir_dtype dt[3] = {d, d, d};
  if (op == OP_select) dt[0] = DT_i1;
  int64_t n = tir_eval(op, tir_ops[op].n_in, dt, (const void *[]){&a, &b, &c}, out_dt, &result, 1, opts);
  if (by_zero) *by_zero = n;
  return result;
}

static uint64_t eval(tir_opcode op, tir_dtype d, uint64_t a, uint64_t b, uint64_t c) {
  bool compares = tir_ops[op].rule == RULE_CMP;
  return eval_opts(op, d, compares ? DT_i1 : d, a, b, c, (tir_eval_opts){0}, NULL);
}

static uint64_t convert(tir_dtype from, tir_dtype to, uint64_t v) {
  return eval_opts(OP_cast, from, to, v, 0, 0, (tir_eval_opts){0}, NULL);
}

static uint64_t f32_bits(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  return b;
}
static float f32_of(uint64_t b) {
  uint32_t w = (uint32_t)b;
  float v;
  memcpy(&v, &w, 4);
  return v;
}
static uint64_t f64_bits(double v) {
  uint64_t b;
  memcpy(&b, &v, 8);
  return b;
}

/* ---- formats by the book ---- */

typedef struct format {
  tir_dtype dtype;
  int bits, exp, mant, bias;
  bool finite; /* no infinity: e4m3fn */
  bool saturates;
} format;
static const format formats[] = {{DT_f8e5m2, 8, 5, 2, 15, false, true},
                                 {DT_f8e4m3, 8, 4, 3, 7, true, true},
                                 {DT_f16, 16, 5, 10, 15, false, false},
                                 {DT_bf16, 16, 8, 7, 127, false, false}};
enum { N_FORMATS = 4 };

static double decode_by_the_book(const format *f, uint32_t b) {
  int e = (int)(b >> f->mant & ((1u << f->exp) - 1));
  uint32_t m = b & ((1u << f->mant) - 1);
  double sign = b >> (f->bits - 1) ? -1 : 1;
  if (f->finite ? (b & 0x7f) == 0x7f : e == (1 << f->exp) - 1) return m ? (double)NAN : sign * (double)INFINITY;
  return sign * (e ? ldexp(1 + ldexp(m, -f->mant), e - f->bias) : ldexp(m, 1 - f->bias - f->mant));
}

static double decode(const format *f, uint32_t b) {
  static double table[N_FORMATS][1 << 16];
  static bool made[N_FORMATS];
  ptrdiff_t k = f - formats;
  for (uint32_t i = 0; !made[k] && i < 1u << f->bits; i++) table[k][i] = decode_by_the_book(f, i);
  made[k] = true;
  return table[k][b];
}

/* Nearest value by bisection over the finite values in order; ties to the even code. */
static uint32_t encode(const format *f, double v) {
  uint32_t sign = signbit(v) ? 1u << (f->bits - 1) : 0, lo = 0, hi = (1u << (f->bits - 1)) - 1;
  if (isnan(v)) return f->bits == 8 ? 0x7f : 0x7fff;
  v = fabs(v);
  while (!isfinite(decode(f, hi))) hi--;
  uint32_t max = hi;
  double last = decode(f, max), step = last - decode(f, max - 1);
  if (v >= last + step / 2) return sign | (f->saturates ? max : max + 1);
  if (v >= last) return sign | max;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (decode(f, mid) <= v)
      lo = mid;
    else
      hi = mid;
  }
  double below = v - decode(f, lo), above = decode(f, hi) - v;
  return sign | (below < above || (below == above && lo % 2 == 0) ? lo : hi);
}

static bool same_float(const format *f, uint64_t a, uint64_t b) {
  return a == b || (isnan(decode(f, (uint32_t)a)) && isnan(decode(f, (uint32_t)b)));
}

Test(eval, every_narrow_float_decodes_and_encodes) {
  for (int k = 0; k < N_FORMATS; k++) {
    const format *f = &formats[k];
    for (uint32_t b = 0; b < 1u << f->bits; b++) {
      double v = decode(f, b), got = tir_scalar_as_float(f->dtype, (tir_scalar){b});
      cr_assert(isnan(v) ? isnan(got) : f64_bits(v) == f64_bits(got), "%s %x", tir_dtypes[f->dtype].text, b);
      cr_assert_eq(convert(f->dtype, DT_f64, b), isnan(v) ? f64_bits((double)NAN) : f64_bits(v));
      uint64_t back = tir_scalar_float(f->dtype, v).bits;
      cr_assert_eq(back, encode(f, v), "%s %x -> %llx", tir_dtypes[f->dtype].text, b, (unsigned long long)back);
    }
  }
}

Test(eval, narrowing_rounds_once_to_even) {
  for (int k = 0; k < N_FORMATS; k++) {
    const format *f = &formats[k];
    for (uint32_t b = 0; b + 1 < 1u << (f->bits - 1); b++) {
      double lo = decode(f, b), hi = decode(f, b + 1);
      if (!isfinite(lo) || !isfinite(hi)) continue;
      double mid = lo + (hi - lo) / 2;
      const double at[] = {mid, nextafter(mid, 0), nextafter(mid, DBL_MAX), nextafter(lo, DBL_MAX), nextafter(hi, 0)};
      for (int i = 0; i < 5; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
          double v = sign * at[i];
          cr_assert_eq(convert(DT_f64, f->dtype, f64_bits(v)), encode(f, v), "%s %a", tir_dtypes[f->dtype].text, v);
          uint64_t rtz = eval_opts(OP_cast, DT_f64, f->dtype, f64_bits(v), 0, 0, (tir_eval_opts){.rtz = true}, NULL);
          cr_assert_eq(rtz, (b | (sign < 0 ? 1u << (f->bits - 1) : 0)), "%s toward zero %a", tir_dtypes[f->dtype].text,
                       v);
          float single = (float)v;
          cr_assert_eq(convert(DT_f32, f->dtype, f32_bits(single)), encode(f, (double)single));
        }
    }
    const double beyond[] = {1e5,   6e4,      57344, 61440,  448,     464,   465,      480,
                             65504, 65519.99, 65520, 3.4e38, 3.39e38, 1e300, INFINITY, NAN};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
      for (int sign = -1; sign <= 1; sign += 2)
        cr_assert_eq(convert(DT_f64, f->dtype, f64_bits(sign * beyond[i])), encode(f, sign * beyond[i]), "%s %g",
                     tir_dtypes[f->dtype].text, sign * beyond[i]);
  }
  cr_assert_eq(convert(DT_f32, DT_f8e4m3, f32_bits(INFINITY)), 0x7e);
  cr_assert_eq(convert(DT_f32, DT_f8e5m2, f32_bits(-INFINITY)), 0xfb);
  cr_assert_eq(eval_opts(OP_cast, DT_f32, DT_f16, f32_bits(1e6f), 0, 0, (tir_eval_opts){.rtz = true}, NULL), 0x7bff);
}

static double exact(tir_opcode op, double a, double b) {
  switch (op) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return a / b;
    default: return fmod(a, b);
  }
}

Test(eval, f8_arithmetic_is_correctly_rounded) {
  static const tir_opcode ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_rem};
  for (int k = 0; k < 2; k++)
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
      for (uint32_t a = 0; a < 256; a++)
        for (uint32_t b = 0; b < 256; b++) {
          const format *f = &formats[k];
          uint64_t want = encode(f, exact(ops[o], decode(f, a), decode(f, b))), got = eval(ops[o], f->dtype, a, b, 0);
          cr_assert(same_float(f, want, got), "%s %s %x %x: %llx, not %llx", tir_dtypes[f->dtype].text,
                    tir_ops[ops[o]].name, a, b, (unsigned long long)got, (unsigned long long)want);
        }
}

Test(eval, f16_and_bf16_arithmetic_is_correctly_rounded) {
  static const tir_opcode ops[] = {OP_add, OP_sub, OP_mul, OP_div};
  uint32_t seed = 1;
  for (int k = 2; k < N_FORMATS; k++)
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
      for (int i = 0; i < 20000; i++) {
        const format *f = &formats[k];
        seed = seed * 1664525u + 1013904223u;
        uint32_t a = seed >> 16;
        seed = seed * 1664525u + 1013904223u;
        uint32_t b = i % 3 ? seed >> 16 : (a ^ (seed >> 28)) & 0xffff;
        uint64_t want = encode(f, exact(ops[o], decode(f, a), decode(f, b))), got = eval(ops[o], f->dtype, a, b, 0);
        cr_assert(same_float(f, want, got), "%s %s %x %x: %llx, not %llx", tir_dtypes[f->dtype].text,
                  tir_ops[ops[o]].name, a, b, (unsigned long long)got, (unsigned long long)want);
      }
}

Test(eval, fma_rounds_once) {
  /* 1.0625 * 1.0625 = 1.125 + 2^-8 is a tie of bf16; the addend decides it although double cannot hold the sum. */
  const format *bf = &formats[3];
  uint64_t x = encode(bf, 1.0625), tiny = encode(bf, ldexp(1, -100));
  cr_assert_eq(eval(OP_fma, DT_bf16, x, x, 0), encode(bf, 1.125));
  cr_assert_eq(eval(OP_fma, DT_bf16, x, x, tiny), encode(bf, 1.125 + ldexp(1, -7)));
  cr_assert_eq(eval(OP_fma, DT_bf16, x, x, tiny | 0x8000), encode(bf, 1.125));
  uint32_t seed = 5;
  for (int i = 0; i < 100000; i++) {
    float v[3];
    for (int k = 0; k < 3; k++) {
      seed = seed * 1664525u + 1013904223u;
      uint32_t bits = (seed & 0x807fffffu) | ((100 + (seed >> 8) % 50) << 23);
      v[k] = f32_of(bits);
    }
    if (i % 2) v[2] = -v[0] * v[1];
    float want = fmaf(v[0], v[1], v[2]);
    cr_assert_eq(eval(OP_fma, DT_f32, f32_bits(v[0]), f32_bits(v[1]), f32_bits(v[2])), f32_bits(want), "%a %a %a",
                 (double)v[0], (double)v[1], (double)v[2]);
  }
  cr_assert_eq(eval(OP_fma, DT_f64, f64_bits(0.1), f64_bits(10), f64_bits(-1)), f64_bits(fma(0.1, 10, -1)));
}

/* ---- integers ---- */

static int64_t wrap(int64_t v, int bits, bool is_signed) {
  uint64_t u = (uint64_t)v & (UINT64_MAX >> (64 - bits));
  return is_signed && u >> (bits - 1) & 1 ? (int64_t)(u | (bits < 64 ? UINT64_MAX << bits : 0)) : (int64_t)u;
}

static int64_t int_meaning(tir_opcode op, int64_t a, int64_t b, int bits, bool is_signed) {
  uint64_t amount = (uint64_t)wrap(b, bits, false);
  switch (op) {
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return b ? a / b : -1;
    case OP_rem: return b ? a % b : a;
    case OP_and: return a & b;
    case OP_or: return a | b;
    case OP_xor: return a ^ b;
    case OP_shl: return amount < (uint64_t)bits ? a * ((int64_t)1 << amount) : 0;
    case OP_shr: return amount < (uint64_t)bits ? a >> amount : is_signed && a < 0 ? -1 : 0;
    case OP_min: return a < b ? a : b;
    case OP_max: return a > b ? a : b;
    case OP_eq: return a == b;
    case OP_ne: return a != b;
    case OP_lt: return a < b;
    case OP_le: return a <= b;
    case OP_gt: return a > b;
    case OP_ge: return a >= b;
    case OP_neg: return -a;
    default: return a < 0 ? -a : a; /* abs */
  }
}

Test(eval, small_integers_exhaustively) {
  static const tir_opcode ops[] = {OP_add, OP_sub, OP_mul, OP_div, OP_rem, OP_and, OP_or, OP_xor, OP_shl, OP_shr,
                                   OP_min, OP_max, OP_eq,  OP_ne,  OP_lt,  OP_le,  OP_gt, OP_ge,  OP_neg, OP_abs};
  static const tir_dtype types[] = {DT_i8, DT_u8, DT_i1};
  for (int t = 0; t < 3; t++)
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
      int bits = tir_dtypes[types[t]].bits, n = 1 << bits;
      bool is_signed = types[t] == DT_i8, compares = tir_ops[ops[o]].rule == RULE_CMP;
      for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
          int64_t want = int_meaning(ops[o], wrap(a, bits, is_signed), wrap(b, bits, is_signed), bits, is_signed);
          uint64_t bits_wanted = (uint64_t)wrap(want, compares ? 1 : bits, false);
          uint64_t got = eval(ops[o], types[t], (uint64_t)a, (uint64_t)b, 0);
          cr_assert_eq(got, bits_wanted, "%s.%s %d %d: %llu, not %llu", tir_ops[ops[o]].name, tir_dtypes[types[t]].text,
                       a, b, (unsigned long long)got, (unsigned long long)bits_wanted);
        }
    }
}

typedef struct int_case {
  tir_opcode op;
  tir_dtype d;
  uint64_t a, b, want;
} int_case;

Test(eval, wide_integer_corners) {
  static const int_case cases[] = {
      {OP_add, DT_i16, 0x7fff, 1, 0x8000},
      {OP_mul, DT_u16, 0xffff, 0xffff, 1},
      {OP_mul, DT_i16, 0x8000, 0xffff, 0x8000},
      {OP_add, DT_i32, 0x7fffffff, 1, 0x80000000},
      {OP_mul, DT_i32, 0x10000, 0x10000, 0},
      {OP_sub, DT_i64, UINT64_C(1) << 63, 1, INT64_MAX},
      {OP_mul, DT_i64, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 63},
      {OP_div, DT_i32, 0x80000000, 0xffffffff, 0x80000000},
      {OP_rem, DT_i32, 0x80000000, 0xffffffff, 0},
      {OP_div, DT_i64, UINT64_C(1) << 63, UINT64_MAX, UINT64_C(1) << 63},
      {OP_rem, DT_i64, UINT64_C(1) << 63, UINT64_MAX, 0},
      {OP_div, DT_i32, (uint32_t)-7, 2, (uint32_t)-3},
      {OP_rem, DT_i32, (uint32_t)-7, 3, (uint32_t)-1},
      {OP_div, DT_i32, 5, 0, 0xffffffff},
      {OP_div, DT_u64, 5, 0, UINT64_MAX},
      {OP_rem, DT_u32, 5, 0, 5},
      {OP_div, DT_u32, 0xffffffff, 2, 0x7fffffff},
      {OP_shl, DT_i32, 1, 31, 0x80000000},
      {OP_shl, DT_i32, 1, 32, 0},
      {OP_shl, DT_i64, 1, 64, 0},
      {OP_shl, DT_i32, 1, 0xffffffff, 0},
      {OP_shr, DT_i32, 0x80000000, 31, 0xffffffff},
      {OP_shr, DT_i32, 0x80000000, 77, 0xffffffff},
      {OP_shr, DT_u32, 0x80000000, 31, 1},
      {OP_shr, DT_u32, 0x80000000, 32, 0},
      {OP_shr, DT_i64, UINT64_C(1) << 63, 200, UINT64_MAX},
      {OP_shr, DT_u64, UINT64_C(1) << 63, 63, 1},
      {OP_min, DT_i32, 0x80000000, 1, 0x80000000},
      {OP_min, DT_u32, 0x80000000, 1, 1},
      {OP_lt, DT_i64, UINT64_MAX, 0, 1},
      {OP_lt, DT_u64, UINT64_MAX, 0, 0},
      {OP_abs, DT_i32, 0x80000000, 0, 0x80000000},
      {OP_abs, DT_u32, 0x80000000, 0, 0x80000000},
      {OP_neg, DT_u16, 1, 0, 0xffff},
      {OP_umulhi, DT_u32, 0xffffffff, 0xffffffff, 0xfffffffe},
      {OP_umulhi, DT_i32, 0x80000000, 4, 2},
      {OP_umulhi, DT_u64, UINT64_MAX, UINT64_MAX, UINT64_MAX - 1},
      {OP_umulhi, DT_u64, UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210), UINT64_C(0x121fa00ad77d7422)},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int_case *c = &cases[i];
    uint64_t got = eval(c->op, c->d, c->a, c->b, 0);
    cr_assert_eq(got, c->want, "%s.%s %llx %llx: %llx, not %llx", tir_ops[c->op].name, tir_dtypes[c->d].text,
                 (unsigned long long)c->a, (unsigned long long)c->b, (unsigned long long)got,
                 (unsigned long long)c->want);
  }
  int32_t a[4] = {1, 2, 3, 4}, b[4] = {0, 1, 0, 2}, out[4];
  tir_dtype dt[2] = {DT_i32, DT_i32};
  cr_assert_eq(tir_eval(OP_div, 2, dt, (const void *[]){a, b}, DT_i32, out, 4, (tir_eval_opts){0}), 2);
}

/* ---- floats: corner values ---- */

Test(eval, float_corners) {
  const uint64_t nan = f32_bits(NAN), gpu_nan = 0x7fffffff;
  const struct {
    tir_opcode op;
    float a, b;
    uint64_t want;
  } cases[] = {
      {OP_min, NAN, 1, f32_bits(1)},
      {OP_max, 1, NAN, f32_bits(1)},
      {OP_min, NAN, NAN, gpu_nan},
      {OP_min_nan, NAN, 1, gpu_nan},
      {OP_max_nan, 1, NAN, gpu_nan},
      {OP_min_nan, 2, 1, f32_bits(1)},
      {OP_min, -0.0f, 0.0f, f32_bits(-0.0f)},
      {OP_min, 0.0f, -0.0f, f32_bits(-0.0f)},
      {OP_max, -0.0f, 0.0f, 0},
      {OP_max, 0.0f, -0.0f, 0},
      {OP_neg, 0.0f, 0, f32_bits(-0.0f)},
      {OP_abs, -0.0f, 0, 0},
      {OP_eq, NAN, NAN, 0},
      {OP_ne, NAN, NAN, 1},
      {OP_lt, NAN, 1, 0},
      {OP_ge, NAN, 1, 0},
      {OP_eq, 0.0f, -0.0f, 1},
      {OP_div, 1, 0, f32_bits(INFINITY)},
      {OP_div, 0, 0, gpu_nan},
      {OP_sub, INFINITY, INFINITY, gpu_nan},
      {OP_rem, -7, 3, f32_bits(-1)},
      {OP_rem, 7, -3, f32_bits(1)},
      {OP_rem, 1, 0, gpu_nan},
      {OP_sqrt, -1, 0, gpu_nan},
      {OP_sqrt, 2, 0, f32_bits(sqrtf(2))},
      {OP_rsqrt, 0, 0, f32_bits(INFINITY)},
      {OP_rsqrt, 4, 0, f32_bits(0.5f)},
      {OP_floor, -1.5f, 0, f32_bits(-2)},
      {OP_ceil, -1.5f, 0, f32_bits(-1)},
      {OP_exp, 0, 0, f32_bits(1)},
      {OP_exp, -INFINITY, 0, 0},
      {OP_exp2, 10, 0, f32_bits(1024)},
      {OP_log, 0, 0, f32_bits(-INFINITY)},
      {OP_log, -1, 0, gpu_nan},
      {OP_log2, 8, 0, f32_bits(3)},
      {OP_sin, 0, 0, 0},
      {OP_cos, 0, 0, f32_bits(1)},
      {OP_erf, INFINITY, 0, f32_bits(1)},
      {OP_tanh, -INFINITY, 0, f32_bits(-1)},
      {OP_mul, FLT_MAX, 2, f32_bits(INFINITY)},
      {OP_mul, FLT_MIN, 0.5f, 0x00400000},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t got = eval(cases[i].op, DT_f32, f32_bits(cases[i].a), f32_bits(cases[i].b), 0);
    cr_assert_eq(got, cases[i].want, "%s %g %g: %llx, not %llx", tir_ops[cases[i].op].name, (double)cases[i].a,
                 (double)cases[i].b, (unsigned long long)got, (unsigned long long)cases[i].want);
  }
  cr_assert_eq(eval(OP_neg, DT_f32, nan, 0, 0), nan ^ 0x80000000u);
  cr_assert_eq(eval(OP_neg, DT_f16, 0x7e01, 0, 0), 0xfe01);
  cr_assert_eq(eval(OP_abs, DT_f8e4m3, 0xff, 0, 0), 0x7f);
  cr_assert_eq(eval(OP_add, DT_f16, 0x7c00, 0xfc00, 0), 0x7fff);
  cr_assert_eq(eval(OP_add, DT_f8e4m3, 0x7e, 0x7e, 0), 0x7e);
  cr_assert_eq(eval(OP_select, DT_f16, 1, 0x1234, 0x5678), 0x1234);
  cr_assert_eq(eval(OP_select, DT_u64, 0, 1, UINT64_MAX), UINT64_MAX);
}

/* ---- conversions ---- */

typedef struct cast_case {
  tir_dtype from;
  uint64_t v;
  tir_dtype to;
  uint64_t want;
} cast_case;

Test(eval, conversions) {
  const cast_case cases[] = {
      /* float to integer: toward zero, saturated at 32 or 64 bits and then cut; NaN gives 0 */
      {DT_f32, f32_bits(-1.9f), DT_i32, 0xffffffff},
      {DT_f32, f32_bits(1e10f), DT_i32, 0x7fffffff},
      {DT_f32, f32_bits(-1e10f), DT_i32, 0x80000000},
      {DT_f32, f32_bits(NAN), DT_i32, 0},
      {DT_f32, f32_bits(INFINITY), DT_i64, INT64_MAX},
      {DT_f64, f64_bits(-1e300), DT_i64, UINT64_C(1) << 63},
      {DT_f64, f64_bits(NAN), DT_i64, 0},
      {DT_f64, f64_bits(2147483648.0), DT_i32, 0x7fffffff},
      {DT_f64, f64_bits(-2147483648.9), DT_i32, 0x80000000},
      {DT_f32, f32_bits(-1), DT_u32, 0},
      {DT_f32, f32_bits(4e9f), DT_u32, 4000000000u},
      {DT_f32, f32_bits(5e9f), DT_u32, 0xffffffff},
      {DT_f32, f32_bits(2e19f), DT_u64, UINT64_MAX},
      {DT_f32, f32_bits(1e19f), DT_u64, UINT64_C(9999999980506447872)},
      {DT_f32, f32_bits(300), DT_i8, 44},
      {DT_f32, f32_bits(300), DT_u8, 44},
      {DT_f32, f32_bits(-1), DT_i8, 0xff},
      {DT_f32, f32_bits(1e10f), DT_i16, 0xffff},
      {DT_f16, 0x7c00, DT_i32, 0x7fffffff},
      {DT_f16, 0xc248, DT_i32, (uint32_t)-3},
      /* to i1: not equal to zero */
      {DT_f32, f32_bits(NAN), DT_i1, 1},
      {DT_f32, f32_bits(-0.0f), DT_i1, 0},
      {DT_f32, f32_bits(0.25f), DT_i1, 1},
      {DT_i32, 2, DT_i1, 1},
      {DT_i64, UINT64_C(1) << 40, DT_i1, 1},
      {DT_u8, 0, DT_i1, 0},
      /* integer to integer by the source's sign; i1 is unsigned */
      {DT_i8, 0x80, DT_i32, 0xffffff80},
      {DT_i8, 0x80, DT_u32, 0xffffff80},
      {DT_u8, 0x80, DT_i32, 0x80},
      {DT_i1, 1, DT_i32, 1},
      {DT_i1, 1, DT_f32, f32_bits(1)},
      {DT_i32, 0x12345678, DT_i16, 0x5678},
      {DT_i32, 0xffffffff, DT_u64, UINT64_MAX},
      {DT_u32, 0xffffffff, DT_i64, 0xffffffff},
      /* integer to float: one rounding to nearest even */
      {DT_i32, 16777217, DT_f32, f32_bits(16777216)},
      {DT_i32, 16777219, DT_f32, f32_bits(16777220)},
      {DT_u32, 0xffffffff, DT_f32, f32_bits(4294967296.0f)},
      {DT_i64, INT64_MAX, DT_f64, f64_bits(9223372036854775808.0)},
      {DT_u64, UINT64_MAX, DT_f32, f32_bits(18446744073709551616.0f)},
      {DT_i32, (uint32_t)-3, DT_f64, f64_bits(-3)},
      {DT_i64, (UINT64_C(1) << 60) + (UINT64_C(1) << 52), DT_bf16, 0x5d80},
      {DT_i64, (UINT64_C(1) << 60) + (UINT64_C(1) << 52) + 1, DT_bf16, 0x5d81},
      {DT_i32, 65504, DT_f16, 0x7bff},
      {DT_i32, 65519, DT_f16, 0x7bff},
      {DT_i32, 65520, DT_f16, 0x7c00},
      {DT_i32, (uint32_t)-70000, DT_f16, 0xfc00},
      {DT_i32, 500, DT_f8e4m3, 0x7e},
      {DT_u64, UINT64_MAX, DT_f8e5m2, 0x7b},
      {DT_i8, 0xff, DT_f8e4m3, 0xb8},
      /* float to float */
      {DT_f64, f64_bits(1 + ldexp(1, -24)), DT_f32, f32_bits(1)},
      {DT_f64, f64_bits(1 + ldexp(1, -24) + ldexp(1, -50)), DT_f32, f32_bits(1 + FLT_EPSILON)},
      {DT_f64, f64_bits(1 + ldexp(1, -11) + ldexp(1, -40)), DT_f16, 0x3c01},
      {DT_f32, f32_bits(NAN), DT_f16, 0x7fff},
      {DT_f16, 0x7e01, DT_f32, 0x7fffffff},
      {DT_f8e4m3, 0x7f, DT_bf16, 0x7fff},
      {DT_f8e5m2, 0x7c, DT_f32, f32_bits(INFINITY)},
      {DT_f8e5m2, 0x7c, DT_f8e4m3, 0x7e},
      {DT_f16, 0x0001, DT_f32, f32_bits(0x1p-24f)},
      {DT_f64, f64_bits(1e-320), DT_f32, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const cast_case *c = &cases[i];
    uint64_t got = convert(c->from, c->to, c->v);
    cr_assert_eq(got, c->want, "%s %llx to %s: %llx, not %llx", tir_dtypes[c->from].text, (unsigned long long)c->v,
                 tir_dtypes[c->to].text, (unsigned long long)got, (unsigned long long)c->want);
  }
}

Test(eval, every_f16_to_every_integer) {
  static const tir_dtype ints[] = {DT_i8, DT_i16, DT_i32, DT_i64, DT_u8, DT_u16, DT_u32, DT_u64};
  for (uint32_t b = 0; b < 65536; b++) {
    double v = decode(&formats[2], b);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
      tir_dtype d = ints[i];
      int bits = tir_dtypes[d].bits, width = bits < 32 ? 32 : bits;
      bool is_signed = dt_is_signed(d);
      uint64_t want;
      if (isnan(v))
        want = 0;
      else if (isinf(v))
        want = v > 0 ? UINT64_MAX >> (is_signed ? 65 - width : 64 - width) : is_signed ? UINT64_C(1) << (width - 1) : 0;
      else
        want = !is_signed && v < 0 ? 0 : (uint64_t)(int64_t)v;
      cr_assert_eq(convert(DT_f16, d, b), want & (UINT64_MAX >> (64 - bits)), "%g to %s", v, tir_dtypes[d].text);
    }
  }
}

Test(eval, addresses_and_bits) {
  uint64_t p = 0x1000, q;
  int32_t back = -3;
  uint32_t up = 0xffffffffu;
  uint8_t one = 1;
  tir_dtype dt[2] = {DT_i64, DT_i32};
  tir_eval(OP_addptr, 2, dt, (const void *[]){&p, &back}, DT_i64, &q, 1, (tir_eval_opts){.scale = 4});
  cr_assert_eq(q, 0x1000 - 12);
  dt[1] = DT_u32;
  tir_eval(OP_addptr, 2, dt, (const void *[]){&p, &up}, DT_i64, &q, 1, (tir_eval_opts){.scale = 2});
  cr_assert_eq(q, 0x1000 + UINT64_C(0x1fffffffe));
  dt[1] = DT_i1;
  tir_eval(OP_addptr, 2, dt, (const void *[]){&p, &one}, DT_i64, &q, 1, (tir_eval_opts){.scale = 8});
  cr_assert_eq(q, 0x1008);
  cr_assert_eq(eval_opts(OP_bitcast, DT_f32, DT_i32, f32_bits(1), 0, 0, (tir_eval_opts){0}, NULL), 0x3f800000);
}

/* Long arrays cross the blocks that conversions and narrow floats work in. */
Test(eval, arrays_of_any_length) {
  enum { N = 1000 };
  static uint16_t a[N], b[N], out[N];
  static int32_t wide[N];
  for (int i = 0; i < N; i++) {
    a[i] = (uint16_t)encode(&formats[2], i);
    b[i] = (uint16_t)encode(&formats[2], 2 * i);
  }
  tir_dtype dt[2] = {DT_f16, DT_f16}, i32 = DT_i32;
  for (size_t n = 0; n <= N; n += n < 260 ? 1 : 137) {
    memset(out, 0xee, sizeof out);
    tir_eval(OP_add, 2, dt, (const void *[]){a, b}, DT_f16, out, n, (tir_eval_opts){0});
    for (size_t i = 0; i < N; i++) cr_assert_eq(out[i], i < n ? encode(&formats[2], 3.0 * (double)i) : 0xeeee);
    tir_eval(OP_cast, 1, dt, (const void *[]){a}, i32, wide, n, (tir_eval_opts){0});
    for (size_t i = 0; i < n; i++) cr_assert_eq(wide[i], (int32_t)i);
  }
}

Test(eval, scalars) {
  static const struct {
    const char *name;
    tir_dtype d;
  } names[] = {{"f32", DT_f32},       {"fp32", DT_f32},       {"float32", DT_f32},     {"bf16", DT_bf16},
               {"bfloat16", DT_bf16}, {"fp8e4nv", DT_f8e4m3}, {"float8e5", DT_f8e5m2}, {"int1", DT_i1},
               {"bool", DT_i1},       {"uint64", DT_u64},     {"i8", DT_i8},           {"half", DT_f16}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    tir_dtype d;
    cr_assert(tir_dtype_named(names[i].name, strlen(names[i].name), &d) && d == names[i].d, "%s", names[i].name);
  }
  tir_dtype d;
  cr_assert(!tir_dtype_named("f3", 2, &d) && !tir_dtype_named("f322", 4, &d) && !tir_dtype_named("", 0, &d));
  cr_assert_eq(tir_scalar_int(DT_i8, 300).bits, 44);
  cr_assert_eq(tir_scalar_int(DT_i64, -1).bits, UINT64_MAX);
  cr_assert_eq(tir_scalar_int(DT_f32, 16777217).bits, f32_bits(16777216));
  cr_assert_eq(tir_scalar_as_int(DT_i8, (tir_scalar){0x80}), -128);
  cr_assert_eq(tir_scalar_as_int(DT_u8, (tir_scalar){0x80}), 128);
  cr_assert_eq(tir_scalar_as_float(DT_u64, (tir_scalar){UINT64_MAX}), 18446744073709551616.0);
  cr_assert_eq(tir_scalar_as_float(DT_i32, (tir_scalar){0xffffffff}), -1);
  cr_assert_eq(tir_scalar_float(DT_i32, -2.7).bits, 0xfffffffe);
}
