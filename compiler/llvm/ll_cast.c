/* Conversions between scalar types, each rounded once.
 *
 *   float -> int     cvt.rzi saturates to 32 or 64 bits; narrower results are the low bits of the 32. NaN gives 0,
 * which the hardware does for f32 to 32 bits only (PTX ISA, cvt): elsewhere a select. wide -> narrow   f64 or a
 * 32/64-bit integer to bf16 or f8 must not round to f32 in between. The trick: convert to f32 toward zero and set the
 * last bit if that lost anything (rounding to odd); f32 has more than two bits to spare for every narrower format, so
 * the second rounding is the only one that counts. f8               sm_89 converts pairs natively; older targets by
 * integer arithmetic on the f32 encoding: normal results by adding the rounding increment below the kept bits, denormal
 * ones by adding a power of two so large that the adder itself rounds at the right place. Saturates to the largest
 * finite value; infinities too. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

static ll_v select_if(ll *e, ll_v cond, ll_v x, ll_v y) { return LLVMBuildSelect(e->b, cond, x, y, ""); }
static ll_v as_i32(ll *e, ll_v f32) { return LLVMBuildBitCast(e->b, f32, e->i32, ""); }
static ll_v as_f32(ll *e, ll_v i32) { return LLVMBuildBitCast(e->b, i32, e->f32, ""); }
static ll_v is_nan(ll *e, ll_v x) { return LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""); }
static bool is_f8(tir_dtype d) { return d == DT_f8e4m3 || d == DT_f8e5m2; }
static bool is_16(tir_dtype d) { return d == DT_f16 || d == DT_bf16; }

/* ---- integers ------------------------------------------------------------------------------------------------- */

static ll_v int_to_int(ll *e, ll_v x, tir_dtype from, tir_dtype to) {
  LLVMTypeRef t = ll_dtype(e, to);
  if (to == DT_i1) return LLVMBuildICmp(e->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
  if (tir_dtypes[from].bits >= tir_dtypes[to].bits) return LLVMBuildTruncOrBitCast(e->b, x, t, "");
  return dt_is_signed(from) ? LLVMBuildSExt(e->b, x, t, "") : LLVMBuildZExt(e->b, x, t, "");
}

static ll_v float_to_int(ll *e, ll_v x, tir_dtype from, tir_dtype to) {
  bool f64 = from == DT_f64, is_signed = dt_is_signed(to);
  if (to == DT_i1) return LLVMBuildFCmp(e->b, LLVMRealUNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
  int bits = tir_dtypes[to].bits;
  static const ll_asm_id narrow[2][2] = {{ASM_u32_f32, ASM_s32_f32}, {ASM_u32_f64, ASM_s32_f64}};
  static const ll_asm_id wide[2][2] = {{ASM_u64_f32, ASM_s64_f32}, {ASM_u64_f64, ASM_s64_f64}};
  LLVMTypeRef t = bits == 64 ? e->i64 : e->i32;
  ll_v v = ll_asm(e, (bits == 64 ? wide : narrow)[f64][is_signed], t, 1, &x);
  if (f64 || bits == 64) v = select_if(e, is_nan(e, x), LLVMConstNull(t), v);
  return bits >= 32 ? v : LLVMBuildTrunc(e->b, v, ll_dtype(e, to), "");
}

/* x rounded to f32 toward zero, with the last bit set if that was not exact. */
static ll_v wide_to_odd(ll *e, ll_v x, tir_dtype from) {
  ll_v f, back, exact;
  if (from == DT_f64) {
    f = ll_asm(e, ASM_f32_rtz_f64, e->f32, 1, &x);
    back = LLVMBuildFPExt(e->b, f, e->f64, "");
    exact = LLVMBuildFCmp(e->b, LLVMRealUEQ, back, x, "");
  } else {
    bool is_signed = dt_is_signed(from), w64 = tir_dtypes[from].bits == 64;
    static const ll_asm_id to_f32[2][2] = {{ASM_f32_rtz_u32, ASM_f32_rtz_s32}, {ASM_f32_rtz_u64, ASM_f32_rtz_s64}};
    static const ll_asm_id from_f32[2][2] = {{ASM_u32_f32, ASM_s32_f32}, {ASM_u64_f32, ASM_s64_f32}};
    f = ll_asm(e, to_f32[w64][is_signed], e->f32, 1, &x);
    back = ll_asm(e, from_f32[w64][is_signed], LLVMTypeOf(x), 1, &f);
    exact = LLVMBuildICmp(e->b, LLVMIntEQ, back, x, "");
  }
  ll_v odd = LLVMBuildOr(e->b, as_i32(e, f), ll_i32(e, 1), "");
  return select_if(e, exact, f, as_f32(e, odd));
}

/* ---- f8 ------------------------------------------------------------------------------------------------------- */

typedef struct f8_format {
  int mant, bias;
  uint32_t max; /* encoding of the largest finite value */
} f8_format;

static f8_format format_of(tir_dtype d) { return d == DT_f8e4m3 ? (f8_format){3, 7, 0x7e} : (f8_format){2, 15, 0x7b}; }

static ll_v f32_to_f8_bits(ll *e, ll_v x, tir_dtype to, bool rtz) {
  f8_format f = format_of(to);
  int drop = 23 - f.mant;
  ll_v bits = as_i32(e, x), mag = LLVMBuildAnd(e->b, bits, ll_i32(e, 0x7fffffff), "");
  ll_v sign = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, bits, ll_i32(e, 24), ""), ll_i32(e, 0x80), "");

  ll_v kept = mag;
  if (!rtz) {
    ll_v last = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, mag, ll_i32(e, (uint32_t)drop), ""), ll_i32(e, 1), "");
    kept = LLVMBuildAdd(e->b, mag, ll_i32(e, (UINT32_C(1) << (drop - 1)) - 1), "");
    kept = LLVMBuildAdd(e->b, kept, last, "");
  }
  ll_v normal = LLVMBuildLShr(e->b, kept, ll_i32(e, (uint32_t)drop), "");
  normal = LLVMBuildSub(e->b, normal, ll_i32(e, (uint32_t)(127 - f.bias) << f.mant), "");
  normal = ll_intrinsic(e, IN_umin, 2, (ll_v[]){normal, ll_i32(e, f.max)});

  /* The unit of denormals is 2^(1 - bias - mant): a float whose own unit that is has exponent 24 - bias - mant. */
  uint32_t magic = (uint32_t)(127 + 24 - f.bias - f.mant) << 23;
  ll_v m = LLVMConstBitCast(ll_i32(e, magic), e->f32), a = as_f32(e, mag);
  ll_v sum = rtz ? ll_asm(e, ASM_f32_add_rtz, e->f32, 2, (ll_v[]){a, m}) : LLVMBuildFAdd(e->b, a, m, "");
  ll_v denormal = LLVMBuildSub(e->b, as_i32(e, sum), ll_i32(e, magic), "");

  ll_v tiny = LLVMBuildICmp(e->b, LLVMIntULT, mag, ll_i32(e, (uint32_t)(127 + 1 - f.bias) << 23), "");
  ll_v v = LLVMBuildOr(e->b, select_if(e, tiny, denormal, normal), sign, "");
  v = select_if(e, is_nan(e, x), ll_i32(e, 0x7f), v);
  return LLVMBuildTrunc(e->b, v, e->i8, "");
}

static ll_v f8_to_f32(ll *e, ll_v x, tir_dtype from) {
  if (from == DT_f8e5m2) {
    ll_v half = LLVMBuildShl(e->b, LLVMBuildZExt(e->b, x, e->i16, ""), ll_int(e->i16, 8), "");
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, half, e->f16, ""), e->f32, "");
  }
  if (e->arch->has_fp8) {
    ll_v pair = LLVMBuildZExt(e->b, x, e->i16, "");
    ll_v halves = LLVMBuildTrunc(e->b, ll_asm(e, ASM_f16x2_e4m3x2, e->i32, 1, &pair), e->i16, "");
    return LLVMBuildFPExt(e->b, LLVMBuildBitCast(e->b, halves, e->f16, ""), e->f32, "");
  }
  ll_v wide = LLVMBuildZExt(e->b, x, e->i32, ""), mag = LLVMBuildAnd(e->b, wide, ll_i32(e, 0x7f), "");
  ll_v sign = LLVMBuildShl(e->b, LLVMBuildAnd(e->b, wide, ll_i32(e, 0x80), ""), ll_i32(e, 24), "");
  ll_v small = as_f32(e, LLVMBuildShl(e->b, mag, ll_i32(e, 20), ""));
  ll_v v = LLVMBuildFMul(e->b, small, LLVMConstBitCast(ll_i32(e, (127 + 120) << 23), e->f32), "");
  v = as_f32(e, LLVMBuildOr(e->b, as_i32(e, v), sign, ""));
  ll_v nan = LLVMBuildICmp(e->b, LLVMIntEQ, mag, ll_i32(e, 0x7f), "");
  return select_if(e, nan, LLVMConstBitCast(ll_i32(e, 0x7fc00000), e->f32), v);
}

static ll_v f32_pair_to_f8(ll *e, ll_v lo, ll_v hi, tir_dtype to) {
  return ll_asm(e, to == DT_f8e4m3 ? ASM_e4m3x2 : ASM_e5m2x2, e->i16, 2, (ll_v[]){lo, hi});
}

static ll_v f32_to_f8(ll *e, ll_v x, tir_dtype to, bool rtz) {
  if (rtz || !e->arch->has_fp8) return f32_to_f8_bits(e, x, to, rtz);
  return LLVMBuildTrunc(e->b, f32_pair_to_f8(e, x, LLVMConstNull(e->f32), to), e->i8, "");
}

/* ---- floats --------------------------------------------------------------------------------------------------- */

static ll_v narrow_rtz(ll *e, ll_v x, tir_dtype from, tir_dtype to) {
  if (from == DT_f64 && to == DT_f16) return ll_from_bits(e, ll_asm(e, ASM_f16_rtz_f64, e->i16, 1, &x), e->f16);
  if (from == DT_f64) {
    x = ll_asm(e, ASM_f32_rtz_f64, e->f32, 1, &x);
    if (to == DT_f32) return x;
  }
  if (from == DT_f16 || from == DT_bf16) x = LLVMBuildFPExt(e->b, x, e->f32, "");
  if (to == DT_f16) return ll_from_bits(e, ll_asm(e, ASM_f16_rtz, e->i16, 1, &x), e->f16);
  if (is_f8(to)) return f32_to_f8(e, x, to, true);
  BASE_ASSERT(to == DT_bf16);
  ll_v high = LLVMBuildLShr(e->b, as_i32(e, x), ll_i32(e, 16), "");
  high = select_if(e, is_nan(e, x), ll_i32(e, 0x7fff), high);
  return LLVMBuildBitCast(e->b, LLVMBuildTrunc(e->b, high, e->i16, ""), e->bf16, "");
}

static ll_v float_to_float(ll *e, ll_v x, tir_dtype from, tir_dtype to, bool rtz) {
  LLVMTypeRef t = ll_dtype(e, to);
  if (is_f8(from)) return ll_cast(e, f8_to_f32(e, x, from), DT_f32, to, rtz);
  bool narrows = tir_dtypes[to].mantissa < tir_dtypes[from].mantissa;
  if (rtz && narrows && !(from == DT_f16 && to == DT_bf16)) return narrow_rtz(e, x, from, to);
  if (rtz && narrows) return narrow_rtz(e, LLVMBuildFPExt(e->b, x, e->f32, ""), DT_f32, to);
  if (from == DT_f64 && (to == DT_bf16 || is_f8(to))) return ll_cast(e, wide_to_odd(e, x, from), DT_f32, to, false);
  if (is_16(from) && (is_16(to) || is_f8(to)))
    return ll_cast(e, LLVMBuildFPExt(e->b, x, e->f32, ""), DT_f32, to, false);
  if (is_f8(to)) return f32_to_f8(e, x, to, false);
  return tir_dtypes[to].bits < tir_dtypes[from].bits ? LLVMBuildFPTrunc(e->b, x, t, "")
                                                     : LLVMBuildFPExt(e->b, x, t, "");
}

static ll_v int_to_float(ll *e, ll_v x, tir_dtype from, tir_dtype to) {
  LLVMTypeRef t = ll_dtype(e, to);
  bool is_signed = dt_is_signed(from);
  if (to == DT_f64 || to == DT_f32 || to == DT_f16)
    return is_signed ? LLVMBuildSIToFP(e->b, x, t, "") : LLVMBuildUIToFP(e->b, x, t, "");
  ll_v f = tir_dtypes[from].bits < 32 ? int_to_float(e, x, from, DT_f32) : wide_to_odd(e, x, from);
  return ll_cast(e, f, DT_f32, to, false);
}

ll_v ll_cast(ll *e, ll_v x, tir_dtype from, tir_dtype to, bool rtz) {
  if (from == to) return x;
  bool real_in = dt_is_float(from), real_out = dt_is_float(to);
  if (!real_in) return real_out ? int_to_float(e, x, from, to) : int_to_int(e, x, from, to);
  if (real_out) return float_to_float(e, x, from, to, rtz);
  if (from != DT_f32 && from != DT_f64) return ll_cast(e, ll_cast(e, x, from, DT_f32, false), DT_f32, to, false);
  return float_to_int(e, x, from, to);
}

/* ---- small integers in groups --------------------------------------------------------------------------------- */

static ll_v bytes_of(ll *e, ll_v low, uint32_t high, uint32_t selector) {
  return ll_asm(e, ASM_prmt, e->i32, 3, (ll_v[]){low, ll_i32(e, high), ll_i32(e, selector)});
}

/* Two bf16, as what has no more bits than they: the upper halves of f32. */
static void upper_halves(ll *e, ll_v lo, ll_v hi, ll_v *out) {
  ll_v args[] = {as_i32(e, lo), as_i32(e, hi), ll_i32(e, 0x7632)};
  ll_unpack_word(e, ll_asm(e, ASM_prmt, e->i32, 3, args), e->bf16, out, 2);
}

/* A word of two f16 of 1024 or more, less `by` each: exact, as are all integers up to 2048. */
static void less(ll *e, ll_v word, double by, ll_v *out) {
  ll_v one = LLVMConstReal(e->f16, by), both[2] = {one, one};
  ll_v v = LLVMBuildBitCast(e->b, word, LLVMVectorType(e->f16, 2), "");
  v = LLVMBuildFSub(e->b, v, LLVMConstVector(both, 2), "");
  for (int k = 0; k < 2; k++) out[k] = LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)k), "");
}

/* Four bytes of a word, which become the low bits of 1024 (f16) or 2^23 (f32), from which that is then taken off. The
   converters take 16 of them a cycle on a multiprocessor; the adders 128, and f16 in pairs. */
static void bytes_to_float(ll *e, ll_v word, bool is_signed, tir_dtype to, ll_v *out) {
  int offset = is_signed ? 128 : 0;
  if (is_signed) word = LLVMBuildXor(e->b, word, ll_i32(e, 0x80808080), "");
  if (to == DT_f16) {
    less(e, bytes_of(e, word, 0x64646464, 0x4140), 1024 + offset, out);
    less(e, bytes_of(e, word, 0x64646464, 0x4342), 1024 + offset, out + 2);
    return;
  }
  ll_v f[4];
  for (uint32_t k = 0; k < 4; k++)
    f[k] = LLVMBuildFSub(e->b, as_f32(e, bytes_of(e, word, 0x4b000000, 0x7650 + k)), ll_f32(e, 8388608 + offset), "");
  if (to == DT_bf16)
    upper_halves(e, f[0], f[1], out), upper_halves(e, f[2], f[3], out + 2);
  else
    memcpy(out, f, sizeof f);
}

/* Two integers of -256 .. 255 are added to the low bits of 1.5 * 1024, or 1.5 * 2^23, in the same way. */
static void small_to_float(ll *e, const ll_v *x, tir_dtype from, tir_dtype to, ll_v *out) {
  ll_v v[2];
  for (int k = 0; k < 2; k++)
    v[k] = LLVMBuildAdd(e->b, int_to_int(e, x[k], from, DT_i32), ll_i32(e, to == DT_f16 ? 0x6600 : 0x4b400000), "");
  if (to == DT_f16) less(e, ll_asm(e, ASM_prmt, e->i32, 3, (ll_v[]){v[0], v[1], ll_i32(e, 0x5410)}), 1024 + 512, out);
  for (int k = 0; k < 2 && to != DT_f16; k++) out[k] = LLVMBuildFSub(e->b, as_f32(e, v[k]), ll_f32(e, 12582912), "");
  if (to == DT_bf16) upper_halves(e, out[0], out[1], out);
}

/* Integers to floats where several at a time are cheaper; false: they are not. */
static bool ints_to_floats(ll *e, const ll_v *x, ll_v *out, int n, tir_dtype from, tir_dtype to, bool small) {
  enum { FEWEST = 4 };
  bool bytes = from == DT_i8 || from == DT_u8;
  if (dt_is_float(from) || from == DT_i1 || n < FEWEST || (to != DT_f16 && to != DT_bf16 && to != DT_f32)) return false;
  for (int r = 0; r < n && bytes; r += 4) bytes = ll_word_of(e, x + r, 4) != NULL;
  if (!bytes && !small) return false;
  for (int r = 0; r < n; r += bytes ? 4 : 2)
    if (bytes)
      bytes_to_float(e, ll_word_of(e, x + r, 4), from == DT_i8, to, out + r);
    else
      small_to_float(e, x + r, from, to, out + r);
  return true;
}

/* Where the target converts f8 in pairs, two at a time. */
void ll_cast_all(ll *e, const ll_v *x, ll_v *out, int n, tir_dtype from, tir_dtype to, bool rtz, bool small) {
  if (ints_to_floats(e, x, out, n, from, to, small)) return;
  bool pairs = e->arch->has_fp8 && n % 2 == 0 && !rtz;
  if (pairs && is_f8(to) && (from == DT_f32 || is_16(from))) {
    for (int r = 0; r < n; r += 2) {
      ll_v both =
          f32_pair_to_f8(e, ll_cast(e, x[r], from, DT_f32, false), ll_cast(e, x[r + 1], from, DT_f32, false), to);
      out[r] = LLVMBuildTrunc(e->b, both, e->i8, "");
      out[r + 1] = LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, both, ll_int(e->i16, 8), ""), e->i8, "");
    }
    return;
  }
  if (pairs && from == DT_f8e4m3 && dt_is_float(to)) {
    for (int r = 0; r < n; r += 2) {
      ll_v lo = LLVMBuildZExt(e->b, x[r], e->i16, ""), hi = LLVMBuildZExt(e->b, x[r + 1], e->i16, "");
      ll_v pair = LLVMBuildOr(e->b, lo, LLVMBuildShl(e->b, hi, ll_int(e->i16, 8), ""), "");
      ll_v halves =
          LLVMBuildBitCast(e->b, ll_asm(e, ASM_f16x2_e4m3x2, e->i32, 1, &pair), LLVMVectorType(e->f16, 2), "");
      for (int k = 0; k < 2; k++)
        out[r + k] = ll_cast(e, LLVMBuildExtractElement(e->b, halves, ll_i32(e, (uint32_t)k), ""), DT_f16, to, false);
    }
    return;
  }
  for (int r = 0; r < n; r++) out[r] = r && x[r] == x[r - 1] ? out[r - 1] : ll_cast(e, x[r], from, to, rtz);
}
