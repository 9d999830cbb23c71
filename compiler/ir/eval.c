/* The meaning of elementwise ops, over arrays. The constant folder and the interpreter both call tir_eval.
 *
 * Integers: one function per type, with one plain loop per op, so that the compiler vectorises them. Arithmetic is done
 * on unsigned words at least 32 bits wide, because C's own promotion of 16-bit operands would overflow. An i1 is a byte
 * 0 or 1 and every result of it is masked.
 *
 * Floats: f32 and f64 have loops of their own. f16, bf16 and f8 are computed in double and rounded once; that is the
 * correctly rounded result because double has more than 2p+2 bits for each of them (Figueroa, "When is double rounding
 * innocuous?"), except for fma, whose exact sum is rounded to odd first. Functions of f32 (exp, sin, ..) are computed
 * in double as well. A NaN result is always the one bit pattern that GPUs make (PTX ISA: 0x7fffffff for f32): which
 * operand's payload survives on the host would depend on how the compiler ordered them.
 *
 * Casts read a block of elements into 64-bit integers or doubles and write them out again, so that 15 types need 30
 * loops and not 225. The block is exact in either form: no value is rounded on the way in. */
#include <math.h>

#include "compiler/ir/convert.h"

#define EACH for (size_t i = 0; i < n; i++)

/* ---- integers ---- */

/* T the type with its sign, U its unsigned twin, W the word that arithmetic is done in. */
#define INT_OPS(type, T, U, W, BITS, MASK)                                                                    \
  static int64_t eval_##type(tir_opcode op, const void *const *in, void *out, size_t n) {                     \
    const U *a = in[0], *b = in[1];                                                                           \
    const T *sa = in[0], *sb = in[1];                                                                         \
    U *o = out;                                                                                               \
    uint8_t *c = out;                                                                                         \
    int64_t by_zero = 0;                                                                                      \
    const bool is_signed = (T)-1 < (T)1;                                                                      \
    switch (op) {                                                                                             \
      case OP_add: EACH o[i] = (U)(((W)a[i] + (W)b[i]) & MASK); break;                                        \
      case OP_sub: EACH o[i] = (U)(((W)a[i] - (W)b[i]) & MASK); break;                                        \
      case OP_mul: EACH o[i] = (U)(((W)a[i] * (W)b[i]) & MASK); break;                                        \
      case OP_div:                                                                                            \
        EACH {                                                                                                \
          by_zero += b[i] == 0;                                                                               \
          if (b[i] == 0)                                                                                      \
            o[i] = (U)MASK;                                                                                   \
          else if (is_signed && b[i] == (U)MASK)                                                              \
            o[i] = (U)(0 - (W)a[i]);                                                                          \
          else                                                                                                \
            o[i] = (U)(sa[i] / sb[i]);                                                                        \
        }                                                                                                     \
        break;                                                                                                \
      case OP_rem:                                                                                            \
        EACH {                                                                                                \
          by_zero += b[i] == 0;                                                                               \
          if (b[i] == 0)                                                                                      \
            o[i] = a[i];                                                                                      \
          else if (is_signed && b[i] == (U)MASK)                                                              \
            o[i] = 0;                                                                                         \
          else                                                                                                \
            o[i] = (U)(sa[i] % sb[i]);                                                                        \
        }                                                                                                     \
        break;                                                                                                \
      case OP_neg: EACH o[i] = (U)((0 - (W)a[i]) & MASK); break;                                              \
      case OP_abs: EACH o[i] = (U)(is_signed && a[i] >> (BITS - 1) ? 0 - (W)a[i] : (W)a[i]); break;           \
      case OP_and: EACH o[i] = (U)(a[i] & b[i]); break;                                                       \
      case OP_or: EACH o[i] = (U)(a[i] | b[i]); break;                                                        \
      case OP_xor: EACH o[i] = (U)(a[i] ^ b[i]); break;                                                       \
      case OP_shl: EACH o[i] = (U)(b[i] < BITS ? (W)a[i] << b[i] : 0); break;                                 \
      case OP_shr: EACH o[i] = (U)(b[i] < BITS ? sa[i] >> b[i] : is_signed ? sa[i] >> (BITS - 1) : 0); break; \
      case OP_min: EACH o[i] = sa[i] < sb[i] ? a[i] : b[i]; break;                                            \
      case OP_max: EACH o[i] = sa[i] > sb[i] ? a[i] : b[i]; break;                                            \
      case OP_eq: EACH c[i] = a[i] == b[i]; break;                                                            \
      case OP_ne: EACH c[i] = a[i] != b[i]; break;                                                            \
      case OP_lt: EACH c[i] = sa[i] < sb[i]; break;                                                           \
      case OP_le: EACH c[i] = sa[i] <= sb[i]; break;                                                          \
      case OP_gt: EACH c[i] = sa[i] > sb[i]; break;                                                           \
      case OP_ge: EACH c[i] = sa[i] >= sb[i]; break;                                                          \
      case OP_umulhi: EACH o[i] = (U)umulhi(a[i], b[i], BITS); break;                                         \
      default: base_panic("no meaning for %s on " #type, tir_ops[op].name);                                   \
    }                                                                                                         \
    return by_zero;                                                                                           \
  }

/* High half of a product of `bits`-bit numbers, from 32-bit halves. */
static uint64_t umulhi(uint64_t a, uint64_t b, int bits) {
  if (bits <= 32) return a * b >> bits;
  uint64_t al = a & UINT32_MAX, ah = a >> 32, bl = b & UINT32_MAX, bh = b >> 32;
  uint64_t mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & UINT32_MAX);
  return ah * bh + (mid >> 32) + (mid2 >> 32);
}

INT_OPS(i1, uint8_t, uint8_t, uint32_t, 1, 1u)
INT_OPS(i8, int8_t, uint8_t, uint32_t, 8, 0xffu)
INT_OPS(i16, int16_t, uint16_t, uint32_t, 16, 0xffffu)
INT_OPS(i32, int32_t, uint32_t, uint32_t, 32, UINT32_MAX)
INT_OPS(i64, int64_t, uint64_t, uint64_t, 64, UINT64_MAX)
INT_OPS(u8, uint8_t, uint8_t, uint32_t, 8, 0xffu)
INT_OPS(u16, uint16_t, uint16_t, uint32_t, 16, 0xffffu)
INT_OPS(u32, uint32_t, uint32_t, uint32_t, 32, UINT32_MAX)
INT_OPS(u64, uint64_t, uint64_t, uint64_t, 64, UINT64_MAX)

/* ---- floats ---- */

static double nan_f64(double v) { return isnan(v) ? (double)NAN : v; }
static float nan_f32(float v) { return isnan(v) ? float_of_bits(float_format_of(DT_f32)->nan) : v; }

/* minNum and maxNum with -0 below +0, as PTX has them. */
#define MIN_MAX(suffix, T)                             \
  static T min_##suffix(T a, T b) {                    \
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a; \
    return a < b || (a == b && signbit(a)) ? a : b;    \
  }                                                    \
  static T max_##suffix(T a, T b) {                    \
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a; \
    return a > b || (a == b && !signbit(a)) ? a : b;   \
  }
MIN_MAX(f32, float)
MIN_MAX(f64, double)

/* FMOD and FMA: the remainder and the fused multiply-add of T. All other functions are computed in double. */
#define FLOAT_OPS(type, T, FMOD, FMA)                                                                               \
  static void eval_##type(tir_opcode op, const void *const *in, void *out, size_t n) {                              \
    const T *a = in[0], *b = in[1], *d = in[2];                                                                     \
    T *o = out;                                                                                                     \
    uint8_t *c = out;                                                                                               \
    switch (op) {                                                                                                   \
      case OP_add: EACH o[i] = nan_##type(a[i] + b[i]); break;                                                      \
      case OP_sub: EACH o[i] = nan_##type(a[i] - b[i]); break;                                                      \
      case OP_mul: EACH o[i] = nan_##type(a[i] * b[i]); break;                                                      \
      case OP_div: EACH o[i] = nan_##type(a[i] / b[i]); break;                                                      \
      case OP_rem: EACH o[i] = nan_##type(FMOD(a[i], b[i])); break;                                                 \
      case OP_fma: EACH o[i] = nan_##type((T)FMA(a[i], b[i], d[i])); break;                                         \
      case OP_neg: EACH o[i] = -a[i]; break;                                                                        \
      case OP_abs: EACH o[i] = (T)fabs(a[i]); break;                                                                \
      case OP_min: EACH o[i] = nan_##type(min_##type(a[i], b[i])); break;                                           \
      case OP_max: EACH o[i] = nan_##type(max_##type(a[i], b[i])); break;                                           \
      case OP_min_nan: EACH o[i] = isnan(a[i]) || isnan(b[i]) ? nan_##type((T)NAN) : min_##type(a[i], b[i]); break; \
      case OP_max_nan: EACH o[i] = isnan(a[i]) || isnan(b[i]) ? nan_##type((T)NAN) : max_##type(a[i], b[i]); break; \
      case OP_eq: EACH c[i] = a[i] == b[i]; break;                                                                  \
      case OP_ne: EACH c[i] = a[i] != b[i]; break;                                                                  \
      case OP_lt: EACH c[i] = a[i] < b[i]; break;                                                                   \
      case OP_le: EACH c[i] = a[i] <= b[i]; break;                                                                  \
      case OP_gt: EACH c[i] = a[i] > b[i]; break;                                                                   \
      case OP_ge: EACH c[i] = a[i] >= b[i]; break;                                                                  \
      case OP_floor: EACH o[i] = nan_##type((T)floor(a[i])); break;                                                 \
      case OP_ceil: EACH o[i] = nan_##type((T)ceil(a[i])); break;                                                   \
      case OP_sqrt: EACH o[i] = nan_##type((T)sqrt(a[i])); break;                                                   \
      case OP_rsqrt: EACH o[i] = nan_##type((T)(1 / sqrt(a[i]))); break;                                            \
      case OP_exp: EACH o[i] = nan_##type((T)exp(a[i])); break;                                                     \
      case OP_exp2: EACH o[i] = nan_##type((T)exp2(a[i])); break;                                                   \
      case OP_log: EACH o[i] = nan_##type((T)log(a[i])); break;                                                     \
      case OP_log2: EACH o[i] = nan_##type((T)log2(a[i])); break;                                                   \
      case OP_sin: EACH o[i] = nan_##type((T)sin(a[i])); break;                                                     \
      case OP_cos: EACH o[i] = nan_##type((T)cos(a[i])); break;                                                     \
      case OP_erf: EACH o[i] = nan_##type((T)erf(a[i])); break;                                                     \
      case OP_tanh: EACH o[i] = nan_##type((T)tanh(a[i])); break;                                                   \
      default: base_panic("no meaning for %s on " #type, tir_ops[op].name);                                         \
    }                                                                                                               \
  }

/* a*b is exact in double for operands of at most 26 bits. */
static double fma_odd(double a, double b, double c) { return sum_to_odd(a * b, c); }

FLOAT_OPS(f32, float, fmodf, fma_odd)
FLOAT_OPS(f64, double, fmod, fma)

enum { BLOCK = 256 };

static void block_from_float(tir_dtype d, const void *in, double *out, size_t n) {
  const float_format *f = float_format_of(d);
  switch (d) {
    case DT_f64: memcpy(out, in, n * 8); break;
    case DT_f32: EACH out[i] = (double)((const float *)in)[i]; break;
    case DT_f16: EACH out[i] = float_to_double(float_format_of(DT_f16), ((const uint16_t *)in)[i]); break;
    case DT_bf16: EACH out[i] = (double)float_of_bits((uint32_t)((const uint16_t *)in)[i] << 16); break;
    default: EACH out[i] = float_to_double(f, ((const uint8_t *)in)[i]);
  }
}

static void block_to_float(tir_dtype d, const double *in, void *out, size_t n, bool rtz) {
  const float_format *f = float_format_of(d);
  switch (tir_dtypes[d].bytes) {
    case 8: EACH((double *)out)[i] = nan_f64(in[i]); break;
    case 4:
      if (rtz)
        EACH((uint32_t *)out)[i] = float_from_double(f, in[i], true);
      else
        EACH((float *)out)[i] = nan_f32((float)in[i]);
      break;
    case 2: EACH((uint16_t *)out)[i] = (uint16_t)float_from_double(f, in[i], rtz); break;
    default: EACH((uint8_t *)out)[i] = (uint8_t)float_from_double(f, in[i], rtz);
  }
}

/* Ops that only move or flip the sign keep every bit, so they must not pass through double, where a NaN loses it. */
static bool eval_sign(tir_opcode op, tir_dtype d, const void *in, void *out, size_t n) {
  if (op != OP_neg && op != OP_abs) return false;
  if (tir_dtypes[d].bytes == 2) {
    const uint16_t *a = in;
    uint16_t *o = out;
    EACH o[i] = (uint16_t)(op == OP_neg ? a[i] ^ 0x8000u : a[i] & 0x7fffu);
  } else {
    const uint8_t *a = in;
    uint8_t *o = out;
    EACH o[i] = (uint8_t)(op == OP_neg ? a[i] ^ 0x80u : a[i] & 0x7fu);
  }
  return true;
}

static void eval_narrow(tir_opcode op, int n_in, tir_dtype d, const void *const *in, tir_dtype out_dt, void *out,
                        size_t n) {
  if (eval_sign(op, d, in[0], out, n)) return;
  double operands[3][BLOCK], result[BLOCK];
  const void *blocks[3] = {operands[0], operands[1], operands[2]};
  size_t size = tir_dtypes[d].bytes;
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t k = n - at < BLOCK ? n - at : BLOCK;
    for (int i = 0; i < n_in; i++) block_from_float(d, (const char *)in[i] + at * size, operands[i], k);
    if (out_dt == DT_i1) {
      eval_f64(op, blocks, (uint8_t *)out + at, k);
      continue;
    }
    if (op == OP_fma) {
      for (size_t i = 0; i < k; i++) result[i] = fma_odd(operands[0][i], operands[1][i], operands[2][i]);
    } else {
      eval_f64(op, blocks, result, k);
    }
    block_to_float(d, result, (char *)out + at * size, k, false);
  }
}

/* ---- conversions ---- */

static void block_from_int(tir_dtype d, const void *in, uint64_t *out, size_t n) {
  switch (d) {
    case DT_i1:
    case DT_u8: EACH out[i] = ((const uint8_t *)in)[i]; break;
    case DT_u16: EACH out[i] = ((const uint16_t *)in)[i]; break;
    case DT_u32: EACH out[i] = ((const uint32_t *)in)[i]; break;
    case DT_i8: EACH out[i] = (uint64_t)((const int8_t *)in)[i]; break;
    case DT_i16: EACH out[i] = (uint64_t)((const int16_t *)in)[i]; break;
    case DT_i32: EACH out[i] = (uint64_t)((const int32_t *)in)[i]; break;
    default: memcpy(out, in, n * 8);
  }
}

static void block_to_int(tir_dtype d, const uint64_t *in, void *out, size_t n) {
  if (d == DT_i1) {
    EACH((uint8_t *)out)[i] = in[i] != 0;
    return;
  }
  switch (tir_dtypes[d].bytes) {
    case 1: EACH((uint8_t *)out)[i] = (uint8_t)in[i]; break;
    case 2: EACH((uint16_t *)out)[i] = (uint16_t)in[i]; break;
    case 4: EACH((uint32_t *)out)[i] = (uint32_t)in[i]; break;
    default: memcpy(out, in, n * 8);
  }
}

static void int_to_float(tir_dtype from, tir_dtype to, const uint64_t *in, void *out, size_t n) {
  const float_format *f = float_format_of(to);
  bool is_signed = dt_is_signed(from);
  switch (to) {
    case DT_f64: EACH((double *)out)[i] = is_signed ? (double)(int64_t)in[i] : (double)in[i]; break;
    case DT_f32: EACH((float *)out)[i] = is_signed ? (float)(int64_t)in[i] : (float)in[i]; break;
    case DT_f16:
    case DT_bf16: EACH((uint16_t *)out)[i] = (uint16_t)float_from_int(f, is_signed, in[i]); break;
    default: EACH((uint8_t *)out)[i] = (uint8_t)float_from_int(f, is_signed, in[i]);
  }
}

static void eval_cast(tir_dtype from, const void *in, tir_dtype to, void *out, size_t n, bool rtz) {
  union {
    double f[BLOCK];
    uint64_t u[BLOCK];
  } block, words;
  int width = tir_dtypes[to].bits < 32 ? 32 : tir_dtypes[to].bits;
  bool is_signed = dt_is_signed(to);
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t k = n - at < BLOCK ? n - at : BLOCK;
    const void *src = (const char *)in + at * tir_dtypes[from].bytes;
    void *dst = (char *)out + at * tir_dtypes[to].bytes;
    if (!dt_is_float(from)) {
      block_from_int(from, src, words.u, k);
      if (dt_is_float(to))
        int_to_float(from, to, words.u, dst, k);
      else
        block_to_int(to, words.u, dst, k);
      continue;
    }
    block_from_float(from, src, block.f, k);
    if (dt_is_float(to)) {
      block_to_float(to, block.f, dst, k, rtz);
    } else {
      for (size_t i = 0; i < k; i++)
        words.u[i] = to == DT_i1 ? block.f[i] != 0 : int_from_double(block.f[i], width, is_signed);
      block_to_int(to, words.u, dst, k);
    }
  }
}

static void eval_addptr(tir_dtype offset, const void *const *in, uint64_t *out, size_t n, int scale) {
  const uint64_t *p = in[0];
  uint64_t words[BLOCK];
  for (size_t at = 0; at < n; at += BLOCK) {
    size_t k = n - at < BLOCK ? n - at : BLOCK;
    block_from_int(offset, (const char *)in[1] + at * tir_dtypes[offset].bytes, words, k);
    for (size_t i = 0; i < k; i++) out[at + i] = p[at + i] + words[i] * (uint64_t)scale;
  }
}

#define SELECT(T) EACH((T *)out)[i] = c[i] ? ((const T *)in[1])[i] : ((const T *)in[2])[i]
static void eval_select(const void *const *in, void *out, size_t n, int bytes) {
  const uint8_t *c = in[0];
  switch (bytes) {
    case 1: SELECT(uint8_t); break;
    case 2: SELECT(uint16_t); break;
    case 4: SELECT(uint32_t); break;
    default: SELECT(uint64_t);
  }
}

int64_t tir_eval(tir_opcode op, int n_in, const tir_dtype *in_dt, const void *const *in, tir_dtype out_dt, void *out,
                 size_t n, tir_eval_opts opts) {
  const void *operands[3] = {NULL, NULL, NULL};
  BASE_ASSERT((tir_ops[op].flags & OPF_ELT) && n_in == tir_ops[op].n_in);
  for (int i = 0; i < n_in; i++) operands[i] = in[i];
  switch (op) {
    case OP_cast: eval_cast(in_dt[0], in[0], out_dt, out, n, opts.rtz); return 0;
    case OP_bitcast: memcpy(out, in[0], n * tir_dtypes[out_dt].bytes); return 0;
    case OP_addptr: eval_addptr(in_dt[1], in, out, n, opts.scale); return 0;
    case OP_select: eval_select(in, out, n, tir_dtypes[out_dt].bytes); return 0;
    default: break;
  }
  switch (in_dt[0]) {
    case DT_i1: return eval_i1(op, operands, out, n);
    case DT_i8: return eval_i8(op, operands, out, n);
    case DT_i16: return eval_i16(op, operands, out, n);
    case DT_i32: return eval_i32(op, operands, out, n);
    case DT_i64: return eval_i64(op, operands, out, n);
    case DT_u8: return eval_u8(op, operands, out, n);
    case DT_u16: return eval_u16(op, operands, out, n);
    case DT_u32: return eval_u32(op, operands, out, n);
    case DT_u64: return eval_u64(op, operands, out, n);
    case DT_f32: eval_f32(op, operands, out, n); return 0;
    case DT_f64: eval_f64(op, operands, out, n); return 0;
    default: eval_narrow(op, n_in, in_dt[0], operands, out_dt, out, n); return 0;
  }
}
