/* Functions of one float. The hot ones on f32 are written here over the hardware's ex2, rcp and rsqrt, with an error of
 * one to two units in the last place; sin, cos and everything on f64 come from the library that is linked in.
 *
 *   exp2(x)  ex2.approx.ftz: one instruction, where keeping subnormal results takes four. They become 0, as in Triton.
 *
 *   exp(x)   ex2(t) with t = x log2(e) alone is off by 40 units at x = -80, because the rounding of t is an error in
 * the exponent. So 2^n * ex2(t - n) with n = floor(t): t - n is small and keeps its bits. n is saturated to what an
 * exponent can say; beyond that t - n grows and ex2 and the product do the right thing: 0, inf, subnormal results, NaN.
 * No case is selected: eight instructions in all. In a kernel with products on tensor cores, whose instructions the
 * exponentials of attention take most of, ex2(x log2(e)) serves, as in Triton: what it is taken of has come from
 * rounded operands, and off by |x| 2^-24 of itself is less than they are. log(x)   x = 2^e * m with m in [2/3, 4/3): e
 * ln 2 + log(1 + f), f = m
 * - 1; near 1 e is 0 and the polynomial has small relative error, which lg2.approx (2^-22 absolute) has not. tanh odd
 * polynomial below 0.55, else 1 - 2 / (exp(2x) + 1).  erf: odd polynomial below 1, else 1 - 2^g(x).
 *
 * The polynomials are minimax fits in the stated weight, made by the Remez exchange for this file. */
#include "compiler/llvm/ll_internal.h"

#define LOG2E 0x1.715476p+0
#define LOG2E_REST 0x1.4ae0cp-26 /* log2(e) - LOG2E */
#define LN2 0x1.62e43p-1

static ll_v fma32(ll *e, ll_v a, ll_v b, ll_v c) { return ll_intrinsic(e, IN_fma, 3, (ll_v[]){a, b, c}); }
static ll_v mul(ll *e, ll_v a, ll_v b) { return LLVMBuildFMul(e->b, a, b, ""); }
static ll_v k(ll *e, double v) { return ll_f32(e, v); }
static ll_v below(ll *e, ll_v x, double limit) { return LLVMBuildFCmp(e->b, LLVMRealOLT, x, k(e, limit), ""); }
static ll_v select_if(ll *e, ll_v cond, ll_v x, ll_v y) { return LLVMBuildSelect(e->b, cond, x, y, ""); }
static ll_v fabs32(ll *e, ll_v x) { return ll_intrinsic(e, IN_fabs, 1, &x); }
static ll_v as_i32(ll *e, ll_v x) { return LLVMBuildBitCast(e->b, x, e->i32, ""); }
static ll_v as_f32(ll *e, ll_v x) { return LLVMBuildBitCast(e->b, x, e->f32, ""); }

/* c[0] + c[1] x + .. + c[n-1] x^(n-1) */
static ll_v polynomial(ll *e, ll_v x, int n, const float *c) {
  ll_v v = k(e, (double)c[n - 1]);
  for (int i = n - 2; i >= 0; i--) v = fma32(e, v, x, k(e, (double)c[i]));
  return v;
}

static ll_v exp_f32(ll *e, ll_v x) {
  if (e->multiplies) {
    ll_v t = mul(e, x, k(e, LOG2E));
    return ll_asm(e, ASM_ex2_ftz, e->f32, 1, &t);
  }
  /* n as the low bits of a float: n + 126 in [0, 252] on top of 1.5 * 2^23 + 1, so that they are n's exponent field. */
  ll_v unit = ll_asm(e, ASM_exp_unit, e->f32, 1, &x), biased = ll_asm(e, ASM_exp_floor, e->f32, 1, &unit);
  ll_v minus_n = LLVMBuildFSub(e->b, k(e, 0x1.8p23 + 127), biased, "");
  ll_v f = fma32(e, x, k(e, LOG2E_REST), fma32(e, x, k(e, LOG2E), minus_n));
  ll_v power = as_f32(e, LLVMBuildShl(e->b, as_i32(e, biased), ll_i32(e, 23), ""));
  return mul(e, ll_asm(e, ASM_ex2_ftz, e->f32, 1, &f), power);
}

/* log(x), with the exponent's part left out of it: log(x) = *exponent * ln 2 + *mantissa, and special values. */
static void log_parts(ll *e, ll_v x, ll_v *exponent, ll_v *mantissa) {
  /* Minimax in relative error of log(1 + f) = f + f^2 q(f) over |f| <= 1/3: 2^-27.7. */
  static const float q[] = {-0x1p-1f,       0x1.555502p-2f,  -0x1.fffe84p-3f, 0x1.99d1f2p-3f, -0x1.55a754p-3f,
                            0x1.1ebe68p-3f, -0x1.f25ddcp-4f, 0x1.1ed144p-3f,  -0x1.0931ep-3f};
  ll_v bits = as_i32(e, x);
  ll_v top = LLVMBuildAnd(e->b, LLVMBuildSub(e->b, bits, ll_i32(e, 0x3f2aaaab), ""), ll_i32(e, 0xff800000), "");
  ll_v m = as_f32(e, LLVMBuildSub(e->b, bits, top, ""));
  *exponent = mul(e, LLVMBuildSIToFP(e->b, top, e->f32, ""), k(e, 0x1p-23));
  ll_v f = LLVMBuildFAdd(e->b, m, k(e, -1), "");
  *mantissa = fma32(e, mul(e, f, f), polynomial(e, f, sizeof q / sizeof *q, q), f);
}

static ll_v log_f32(ll *e, ll_v x, bool base2) {
  ll_v denormal = below(e, x, 0x1p-126), exponent, mantissa;
  ll_v scaled = select_if(e, denormal, mul(e, x, k(e, 0x1p23)), x);
  log_parts(e, scaled, &exponent, &mantissa);
  exponent = LLVMBuildFAdd(e->b, exponent, select_if(e, denormal, k(e, -23), k(e, 0)), "");
  ll_v v = base2 ? fma32(e, mantissa, k(e, LOG2E), fma32(e, mantissa, k(e, LOG2E_REST), exponent))
                 : fma32(e, exponent, k(e, LN2), mantissa);
  /* Infinity, NaN and everything negative have the largest encodings: inf, NaN and NaN come out of this fma. */
  ll_v inf = LLVMConstBitCast(ll_i32(e, 0x7f800000), e->f32);
  ll_v minus_inf = LLVMConstBitCast(ll_i32(e, 0xff800000), e->f32);
  ll_v special = LLVMBuildICmp(e->b, LLVMIntUGE, as_i32(e, scaled), ll_i32(e, 0x7f800000), "");
  v = select_if(e, special, fma32(e, scaled, inf, inf), v);
  return select_if(e, LLVMBuildFCmp(e->b, LLVMRealOEQ, x, k(e, 0), ""), minus_inf, v);
}

static ll_v copy_sign(ll *e, ll_v v, ll_v sign) { return ll_intrinsic(e, IN_copysign, 2, (ll_v[]){v, sign}); }

static ll_v tanh_f32(ll *e, ll_v x) {
  /* Minimax in relative error of tanh(x) = x + x s p(s), s = x^2 <= 0.55^2: 2^-29.8. */
  static const float p[] = {-0x1.55554ap-2f, 0x1.110d26p-3f, -0x1.b9287ap-5f, 0x1.593d08p-6f, -0x1.9b3046p-8f};
  ll_v a = fabs32(e, x), s = mul(e, x, x), t = mul(e, a, k(e, 2 * LOG2E));
  ll_v small = fma32(e, mul(e, x, s), polynomial(e, s, sizeof p / sizeof *p, p), x);
  ll_v d = LLVMBuildFAdd(e->b, ll_asm(e, ASM_ex2, e->f32, 1, &t), k(e, 1), "");
  ll_v large = copy_sign(e, fma32(e, ll_asm(e, ASM_rcp, e->f32, 1, &d), k(e, -2), k(e, 1)), x);
  return select_if(e, below(e, a, 0.55), small, large);
}

static ll_v erf_f32(ll *e, ll_v x) {
  /* Minimax in relative error of erf(x) = x + x p(x^2), |x| <= 1: 2^-29.6. */
  static const float p[] = {0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2cf8p-4f, -0x1.b7f90ep-6f,
                            0x1.5405b2p-8f, -0x1.a3f7p-11f,  0x1.496a32p-14f};
  /* Minimax in absolute error of 2^g(x) = 1 - erf(x), 1 <= x <= 4: 2^-29.9. At 4 the sum is 1. */
  static const float g[] = {-0x1.0b8c88p-11f, -0x1.a03fe6p+0f, -0x1.d76e84p-1f, -0x1.307032p-3f,
                            0x1.01b51ap-5f,   -0x1.15ef72p-8f, 0x1.18bb56p-12f};
  ll_v a = fabs32(e, x), s = mul(e, x, x);
  ll_v small = fma32(e, x, polynomial(e, s, sizeof p / sizeof *p, p), x);
  ll_v in = select_if(e, LLVMBuildFCmp(e->b, LLVMRealOGT, a, k(e, 4), ""), k(e, 4), a);
  ll_v t = polynomial(e, in, sizeof g / sizeof *g, g);
  ll_v rest = ll_asm(e, ASM_ex2_ftz, e->f32, 1, &t);
  ll_v large = copy_sign(e, LLVMBuildFSub(e->b, k(e, 1), rest, ""), x);
  return select_if(e, below(e, a, 1), small, large);
}

ll_v ll_math(ll *e, tir_opcode code, tir_dtype d, ll_v x) {
  BASE_ASSERT(d == DT_f32 || d == DT_f64);
  switch (code) {
    case OP_floor: return ll_intrinsic(e, IN_floor, 1, &x);
    case OP_ceil: return ll_intrinsic(e, IN_ceil, 1, &x);
    case OP_rsqrt:
      if (d == DT_f32) return ll_asm(e, ASM_rsqrt, e->f32, 1, &x);
      return LLVMBuildFDiv(e->b, LLVMConstReal(e->f64, 1), ll_intrinsic(e, IN_sqrt, 1, &x), "");
    default: break;
  }
  if (d == DT_f32) {
    switch (code) {
      case OP_exp: return exp_f32(e, x);
      case OP_exp2: return ll_asm(e, ASM_ex2_ftz, e->f32, 1, &x);
      case OP_log: return log_f32(e, x, false);
      case OP_log2: return log_f32(e, x, true);
      case OP_tanh: return tanh_f32(e, x);
      case OP_erf: return erf_f32(e, x);
      default: break;
    }
  }
  return ll_library(e, tir_ops[code].name, 1, &x);
}
