/* Elementwise arithmetic on one element. tir_eval (compiler/ir) defines what each op means; where LLVM or PTX leave a
 * case open (division by zero, shifts by the width and more), it is closed here by selects that constants fold away.
 *
 * f8 has no arithmetic: it is done in f32 and rounded once more, which is exact enough for one operation (f32 has more
 * than twice the significand bits plus two). bf16 below sm_90 and f16 functions go the same way, inside LLVM or here.
 */
#include "compiler/llvm/ll_internal.h"

static bool is_f8(tir_dtype d) { return d == DT_f8e4m3 || d == DT_f8e5m2; }

/* Products and sums may be fused into fma if the caller allows it. */
static ll_v fusable(ll *e, ll_v v) {
  if (e->o->fp_fusion && LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

static ll_v select_if(ll *e, ll_v cond, ll_v x, ll_v y) { return LLVMBuildSelect(e->b, cond, x, y, ""); }
static ll_v is(ll *e, ll_v x, uint64_t c) { return LLVMBuildICmp(e->b, LLVMIntEQ, x, ll_int(LLVMTypeOf(x), c), ""); }

/* ---- division ------------------------------------------------------------------------------------------------- */

/* A divisor that makes LLVM's division defined: 1 instead of 0 and, for signed types, instead of -1. */
static ll_v safe_divisor(ll *e, ll_v y, bool is_signed) {
  LLVMTypeRef t = LLVMTypeOf(y);
  ll_v bad = is(e, y, 0);
  if (is_signed) bad = LLVMBuildOr(e->b, bad, is(e, y, UINT64_MAX), "");
  return select_if(e, bad, ll_int(t, 1), y);
}

static bool divisor_is_plain(ll_v y) {
  if (!LLVMIsAConstantInt(y)) return false;
  int64_t v = LLVMConstIntGetSExtValue(y);
  return v != 0 && v != -1;
}

ll_v ll_div(ll *e, tir_dtype d, ll_v x, ll_v y, bool approx) {
  if (dt_is_float(d)) {
    if (approx && d == DT_f32) return ll_asm(e, ASM_div_full, e->f32, 2, (ll_v[]){x, y});
    return LLVMBuildFDiv(e->b, x, y, "");
  }
  bool is_signed = dt_is_signed(d);
  if (divisor_is_plain(y)) return is_signed ? LLVMBuildSDiv(e->b, x, y, "") : LLVMBuildUDiv(e->b, x, y, "");
  ll_v by = safe_divisor(e, y, is_signed);
  ll_v q = is_signed ? LLVMBuildSDiv(e->b, x, by, "") : LLVMBuildUDiv(e->b, x, by, "");
  if (is_signed) q = select_if(e, is(e, y, UINT64_MAX), LLVMBuildNeg(e->b, x, ""), q);
  return select_if(e, is(e, y, 0), ll_int(LLVMTypeOf(y), UINT64_MAX), q);
}

/* x / y in f32 within 2 units, for registers of which many have the same y (a row divided by its sum): one reciprocal
 * for each y, two products for each x. y is brought into the middle of the range first by a power of two, so that
 * neither it nor its reciprocal is subnormal; what overflows or vanishes in x * (1 / ys) * scale does so in x / y as
 * well. A lone y takes the hardware's division, which does all that for itself. */
void ll_div_shared(ll *e, int n, const ll_v *x, const ll_v *y, ll_v *out) {
  enum { MAX_SHARED = 64 };
  struct {
    ll_v y, reciprocal, scale;
  } seen[MAX_SHARED];
  int n_seen = 0;
  for (int r = 0; r < n; r++) {
    int k = 0, uses = 0;
    while (k < n_seen && seen[k].y != y[r]) k++;
    for (int i = r; i < n && k == n_seen && uses < 3; i++) uses += y[i] == y[r];
    if (k == n_seen && (uses < 3 || k == MAX_SHARED)) {
      out[r] = ll_asm(e, ASM_div_full, e->f32, 2, (ll_v[]){x[r], y[r]});
      continue;
    }
    if (k == n_seen) {
      ll_v size = ll_intrinsic(e, IN_fabs, 1, (ll_v *)&y[r]);
      ll_v large = LLVMBuildFCmp(e->b, LLVMRealOGT, size, ll_f32(e, 0x1p96), "");
      ll_v small = LLVMBuildFCmp(e->b, LLVMRealOLT, size, ll_f32(e, 0x1p-96), "");
      seen[k].y = y[r];
      seen[k].scale = select_if(e, large, ll_f32(e, 0x1p-32), select_if(e, small, ll_f32(e, 0x1p32), ll_f32(e, 1)));
      ll_v scaled = LLVMBuildFMul(e->b, y[r], seen[k].scale, "");
      seen[k].reciprocal = ll_asm(e, ASM_rcp, e->f32, 1, &scaled);
      n_seen++;
    }
    out[r] = LLVMBuildFMul(e->b, LLVMBuildFMul(e->b, x[r], seen[k].reciprocal, ""), seen[k].scale, "");
  }
}

/* fmod by long division of significands, as many bits at a time as 64-bit integers leave room for: exact for every
 * operand. (libclc's drops subnormal results, LLVM's frem is x - trunc(x / y) * y.) */
static ll_v float_rem(ll *e, ll_v x, ll_v y) {
  LLVMBuilderRef b = e->b;
  bool f64 = LLVMTypeOf(x) == e->f64;
  LLVMTypeRef real = LLVMTypeOf(x), t = f64 ? e->i64 : e->i32;
  unsigned mant = f64 ? 52 : 23, width = f64 ? 64 : 32;
  uint64_t sign_bit = UINT64_C(1) << (width - 1), inf = f64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;
  ll_v bits = ll_to_bits(e, x), mag_x = LLVMBuildAnd(b, bits, ll_int(t, sign_bit - 1), "");
  ll_v mag_y = LLVMBuildAnd(b, ll_to_bits(e, y), ll_int(t, sign_bit - 1), "");
  ll_v unordered = LLVMBuildICmp(b, LLVMIntUGE, mag_x, ll_int(t, inf), "");
  unordered = LLVMBuildOr(b, unordered, LLVMBuildICmp(b, LLVMIntUGT, mag_y, ll_int(t, inf), ""), "");
  unordered = LLVMBuildOr(b, unordered, is(e, mag_y, 0), "");
  ll_v is_x = LLVMBuildICmp(b, LLVMIntULT, mag_x, mag_y, ""), skip = LLVMBuildOr(b, unordered, is_x, "");

  ll_v expo[2], sig[2], mag[2] = {mag_x, mag_y};
  for (int i = 0; i < 2; i++) {
    ll_v exp_field = LLVMBuildLShr(b, mag[i], ll_int(t, mant), "");
    ll_v frac = LLVMBuildAnd(b, mag[i], ll_int(t, (UINT64_C(1) << mant) - 1), "");
    ll_v subnormal = is(e, exp_field, 0);
    expo[i] = select_if(e, subnormal, ll_int(t, 1), exp_field);
    sig[i] = select_if(e, subnormal, frac, LLVMBuildOr(b, frac, ll_int(t, UINT64_C(1) << mant), ""));
    sig[i] = LLVMBuildZExt(b, sig[i], e->i64, "");
  }
  ll_v by = select_if(e, skip, ll_int(e->i64, 1), sig[1]);
  ll_v todo = LLVMBuildZExt(b, select_if(e, skip, ll_int(t, 0), LLVMBuildSub(b, expo[0], expo[1], "")), e->i64, "");

  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), loop = LLVMAppendBasicBlockInContext(e->c, e->f, ""),
                    after = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  LLVMBuildBr(b, loop);
  LLVMPositionBuilderAtEnd(b, loop);
  ll_v rest = LLVMBuildPhi(b, e->i64, ""), left = LLVMBuildPhi(b, e->i64, "");
  ll_v step = ll_intrinsic(e, IN_umin, 2, (ll_v[]){left, ll_int(e->i64, 63 - mant)});
  ll_v next = LLVMBuildURem(b, LLVMBuildShl(b, rest, step, ""), by, ""), fewer = LLVMBuildSub(b, left, step, "");
  LLVMAddIncoming(rest, (ll_v[]){sig[0], next}, (LLVMBasicBlockRef[]){before, loop}, 2);
  LLVMAddIncoming(left, (ll_v[]){todo, fewer}, (LLVMBasicBlockRef[]){before, loop}, 2);
  LLVMBuildCondBr(b, is(e, fewer, 0), after, loop);
  LLVMPositionBuilderAtEnd(b, after);

  /* next * 2^(expo[1] - bias - mant): both factors are normal and the product is exact. */
  ll_v v = LLVMBuildFMul(b, LLVMBuildUIToFP(b, next, real, ""), LLVMConstReal(real, f64 ? 0x1p-52 : 0x1p-23), "");
  v = LLVMBuildFMul(b, v, ll_from_bits(e, LLVMBuildShl(b, expo[1], ll_int(t, mant), ""), real), "");
  v = ll_intrinsic(e, IN_copysign, 2, (ll_v[]){v, x});
  v = select_if(e, is_x, x, v);
  return select_if(e, unordered, ll_from_bits(e, ll_int(t, inf | inf >> 1), real), v);
}

ll_v ll_rem(ll *e, tir_dtype d, ll_v x, ll_v y) {
  if (d == DT_f32 || d == DT_f64) return float_rem(e, x, y);
  bool is_signed = dt_is_signed(d);
  if (divisor_is_plain(y)) return is_signed ? LLVMBuildSRem(e->b, x, y, "") : LLVMBuildURem(e->b, x, y, "");
  /* By -1 the remainder is 0, as it is by the 1 that stands in for it. */
  ll_v by = safe_divisor(e, y, is_signed);
  ll_v r = is_signed ? LLVMBuildSRem(e->b, x, by, "") : LLVMBuildURem(e->b, x, by, "");
  return select_if(e, is(e, y, 0), x, r);
}

/* ---- one operation -------------------------------------------------------------------------------------------- */

/* LLVM turns the guard of a shift into PTX's own, which clamps a 32-bit amount, and cuts a 64-bit amount to 32 bits for
 * it without looking at the rest (LLVM 22): so the amount is clamped to 32 bits first. */
static ll_v shift(ll *e, tir_opcode code, tir_dtype d, ll_v x, ll_v n) {
  LLVMTypeRef t = LLVMTypeOf(x);
  unsigned bits = LLVMGetIntTypeWidth(t);
  if (code == OP_shr && dt_is_signed(d))
    return LLVMBuildAShr(e->b, x, ll_intrinsic(e, IN_umin, 2, (ll_v[]){n, ll_int(t, bits - 1)}), "");
  if (bits == 64) {
    n = ll_intrinsic(e, IN_umin, 2, (ll_v[]){n, ll_int(t, bits)});
    n = LLVMBuildZExt(e->b, LLVMBuildTrunc(e->b, n, e->i32, ""), t, "");
  }
  ll_v in_range = LLVMBuildICmp(e->b, LLVMIntULT, n, ll_int(t, bits), "");
  ll_v by = select_if(e, in_range, n, ll_int(t, 0));
  ll_v v = code == OP_shl ? LLVMBuildShl(e->b, x, by, "") : LLVMBuildLShr(e->b, x, by, "");
  return select_if(e, in_range, v, ll_int(t, 0));
}

static ll_v compare(ll *e, tir_opcode code, tir_dtype d, ll_v x, ll_v y) {
  int i = (int)code - OP_eq;
  static const LLVMRealPredicate real[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOLT,
                                           LLVMRealOLE, LLVMRealOGT, LLVMRealOGE};
  static const LLVMIntPredicate sint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntSLT, LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
  static const LLVMIntPredicate uint[] = {LLVMIntEQ, LLVMIntNE, LLVMIntULT, LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
  _Static_assert(
      OP_ne == OP_eq + 1 && OP_lt == OP_eq + 2 && OP_le == OP_eq + 3 && OP_gt == OP_eq + 4 && OP_ge == OP_eq + 5,
      "the tables above are in the order of ops.def");
  if (dt_is_float(d)) return LLVMBuildFCmp(e->b, real[i], x, y, "");
  return LLVMBuildICmp(e->b, dt_is_signed(d) ? sint[i] : uint[i], x, y, "");
}

static ll_v extremum(ll *e, tir_opcode code, tir_dtype d, ll_v x, ll_v y) {
  bool max = code == OP_max || code == OP_max_nan, nan_wins = code == OP_min_nan || code == OP_max_nan;
  ll_intrinsic_id id;
  if (dt_is_float(d))
    id = nan_wins ? (max ? IN_maximum : IN_minimum) : (max ? IN_maxnum : IN_minnum);
  else if (dt_is_signed(d))
    id = max ? IN_smax : IN_smin;
  else
    id = max ? IN_umax : IN_umin;
  return ll_intrinsic(e, id, 2, (ll_v[]){x, y});
}

static ll_v mul_high(ll *e, ll_v x, ll_v y) {
  LLVMTypeRef t = LLVMTypeOf(x);
  if (t == e->i32) return ll_intrinsic(e, IN_mulhi_u32, 2, (ll_v[]){x, y});
  if (t == e->i64) return ll_intrinsic(e, IN_mulhi_u64, 2, (ll_v[]){x, y});
  unsigned bits = LLVMGetIntTypeWidth(t);
  ll_v wide = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, x, e->i32, ""), LLVMBuildZExt(e->b, y, e->i32, ""), "");
  return LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, wide, ll_i32(e, bits), ""), t, "");
}

ll_v ll_binary(ll *e, tir_opcode code, tir_dtype d, ll_v x, ll_v y) {
  bool real = dt_is_float(d);
  switch (code) {
    case OP_add: return real ? fusable(e, LLVMBuildFAdd(e->b, x, y, "")) : LLVMBuildAdd(e->b, x, y, "");
    case OP_sub: return real ? fusable(e, LLVMBuildFSub(e->b, x, y, "")) : LLVMBuildSub(e->b, x, y, "");
    case OP_mul: return real ? fusable(e, LLVMBuildFMul(e->b, x, y, "")) : LLVMBuildMul(e->b, x, y, "");
    case OP_and: return LLVMBuildAnd(e->b, x, y, "");
    case OP_or: return LLVMBuildOr(e->b, x, y, "");
    case OP_xor: return LLVMBuildXor(e->b, x, y, "");
    case OP_shl:
    case OP_shr: return shift(e, code, d, x, y);
    case OP_min:
    case OP_max:
    case OP_min_nan:
    case OP_max_nan: return extremum(e, code, d, x, y);
    case OP_umulhi: return mul_high(e, x, y);
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge: return compare(e, code, d, x, y);
    default: base_panic("op %s has no binary form", tir_ops[code].name);
  }
}

static ll_v negate(ll *e, tir_dtype d, ll_v x) {
  return dt_is_float(d) ? LLVMBuildFNeg(e->b, x, "") : LLVMBuildNeg(e->b, x, "");
}

static ll_v absolute(ll *e, tir_dtype d, ll_v x) {
  if (dt_is_float(d)) return ll_intrinsic(e, IN_fabs, 1, &x);
  if (!dt_is_signed(d)) return x;
  return ll_intrinsic(e, IN_abs, 2, (ll_v[]){x, ll_int(e->i1, 0)});
}

static ll_v pointer_cast(ll *e, ll_v x, LLVMTypeRef to) {
  bool from_ptr = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMPointerTypeKind,
       to_ptr = LLVMGetTypeKind(to) == LLVMPointerTypeKind;
  if (from_ptr == to_ptr) return x;
  return from_ptr ? LLVMBuildPtrToInt(e->b, x, to, "") : LLVMBuildIntToPtr(e->b, x, to, "");
}

static ll_v bit_cast(ll *e, ll_v x, LLVMTypeRef to) {
  LLVMTypeRef from = LLVMTypeOf(x);
  bool pointers = LLVMGetTypeKind(from) == LLVMPointerTypeKind || LLVMGetTypeKind(to) == LLVMPointerTypeKind;
  if (!pointers) return LLVMBuildBitCast(e->b, x, to, "");
  return LLVMGetTypeKind(from) == LLVMDoubleTypeKind || LLVMGetTypeKind(to) == LLVMDoubleTypeKind
             ? ll_from_bits(e, ll_to_bits(e, x), to)
             : pointer_cast(e, x, to);
}

/* The types that an op is computed in: f8 in f32, f16 and bf16 functions in f32. */
static tir_dtype working_type(tir_opcode code, tir_dtype d) {
  if (is_f8(d)) return DT_f32;
  if (d != DT_f16 && d != DT_bf16) return d;
  switch (code) {
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_neg:
    case OP_min:
    case OP_max:
    case OP_min_nan:
    case OP_max_nan:
    case OP_abs:
    case OP_fma: return d;
    default: return DT_f32;
  }
}

ll_v ll_scalar_op(ll *e, const tir_op *op, const tir_dtype *in_dt, tir_dtype out_dt, ll_v *in) {
  tir_opcode code = op->code;
  tir_dtype d = in_dt[0];
  if (code == OP_select) return select_if(e, in[0], in[1], in[2]);
  if (code == OP_cast) {
    bool pointers = tir_is_ptr(tir_in(op, 0)->type) || tir_is_ptr(tir_out(op, 0)->type);
    BASE_ASSERT(pointers);
    return pointer_cast(e, in[0], ll_type(e, tir_out(op, 0)->type));
  }
  if (code == OP_bitcast) return bit_cast(e, in[0], ll_type(e, tir_out(op, 0)->type));
  if (tir_is_ptr(tir_in(op, 0)->type))
    for (int i = 0; i < op->n_in; i++) in[i] = pointer_cast(e, in[i], e->i64);

  tir_dtype work = dt_is_float(d) ? working_type(code, d) : d;
  ll_v x[3];
  for (int i = 0; i < op->n_in; i++) x[i] = ll_cast(e, in[i], d, work, false);
  ll_v v;
  switch (code) {
    case OP_neg: v = negate(e, work, x[0]); break;
    case OP_abs: v = absolute(e, work, x[0]); break;
    case OP_fma: v = ll_intrinsic(e, IN_fma, 3, x); break;
    case OP_div: v = ll_div(e, work, x[0], x[1], tir_attr_int(op, ATTR_approx, 0) != 0); break;
    case OP_rem: v = ll_rem(e, work, x[0], x[1]); break;
    case OP_floor:
    case OP_ceil:
    case OP_rsqrt:
    case OP_exp:
    case OP_exp2:
    case OP_log:
    case OP_log2:
    case OP_sin:
    case OP_cos:
    case OP_erf:
    case OP_tanh: v = ll_math(e, code, work, x[0]); break;
    case OP_sqrt:
      v = work == DT_f32 && tir_attr_int(op, ATTR_approx, 0) ? ll_asm(e, ASM_sqrt, e->f32, 1, x)
                                                             : ll_intrinsic(e, IN_sqrt, 1, x);
      break;
    default: v = ll_binary(e, code, work, x[0], x[1]); break;
  }
  bool nowrap = tir_attr_int(op, ATTR_nowrap, 0) != 0;
  if (nowrap && dt_is_int(d) && (code == OP_add || code == OP_sub || code == OP_mul) && LLVMIsAInstruction(v))
    LLVMSetNSW(v, true);
  return out_dt == DT_i1 ? v : ll_cast(e, v, work, out_dt, false);
}
