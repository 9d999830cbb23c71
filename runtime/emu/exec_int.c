/* Integer arithmetic, logic, comparison and selection. Sources are extended by the type of the instruction, results cut
 * to the width of the destination register. */
#include "runtime/emu/internal.h"

#include "runtime/emu/half.h"

#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 i128;

/* How an instruction reads its integers: bits of the type and whether they are signed. */
typedef struct shape {
  unsigned bits;
  bool is_signed;
} shape;

static shape shape_of(const emu_ins *i, int k) { return (shape){emu__bits(i, k), emu__is_signed(i, k)}; }
static inline int64_t get(shape s, uint64_t v) {
  return s.is_signed ? emu__sext(v, s.bits) : (int64_t)emu__zext(v, s.bits);
}

static inline void put(const emu_opd *o, uint64_t *d, uint32_t l, unsigned bits, uint64_t v) {
  d[l] = emu__fit(o, emu__zext(v, bits));
}

/* Applies f to both 16-bit halves. */
static uint32_t halves(uint32_t a, uint32_t b, bool is_signed, int64_t (*f)(int64_t, int64_t)) {
  uint32_t r = 0;
  for (int h = 0; h < 2; h++) {
    uint64_t x = a >> (16 * h) & 0xffff, y = b >> (16 * h) & 0xffff;
    int64_t v = is_signed ? f(emu__sext(x, 16), emu__sext(y, 16)) : f((int64_t)x, (int64_t)y);
    r |= ((uint32_t)v & 0xffff) << (16 * h);
  }
  return r;
}

static int64_t add2(int64_t a, int64_t b) { return a + b; }
static int64_t min2(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max2(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t relu_min2(int64_t a, int64_t b) { return max2(min2(a, b), 0); }
static int64_t relu_max2(int64_t a, int64_t b) { return max2(max2(a, b), 0); }

static bool packed(const emu_ins *i) { return i->type[0] == EMU_T_U16X2 || i->type[0] == EMU_T_S16X2; }

static uint64_t saturate_signed(shape s, int64_t a, int64_t b, bool minus) {
  int64_t r = 0;
  bool over = minus ? __builtin_sub_overflow(a, b, &r) : __builtin_add_overflow(a, b, &r);
  int64_t hi = (int64_t)(emu__ones(s.bits) >> 1), lo = -hi - 1;
  if (over) return (uint64_t)((a < 0) ? lo : hi);
  return (uint64_t)(r > hi ? hi : r < lo ? lo : r);
}

/* add, sub and their forms with carry in and carry out */
emu_next emu__x_iadd(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  bool minus = i->op == EMU_I_SUB || i->op == EMU_I_SUBC, in = i->op == EMU_I_ADDC || i->op == EMU_I_SUBC;
  bool sat = (i->flags & EMU_FLAG(SAT)) != 0, out = (i->flags & EMU_FLAG(CC)) != 0;
  EMU_FOR_LANES(mask, l) {
    if (packed(i)) {
      put(&i->opd[0], d, l, 32, halves((uint32_t)a[l], (uint32_t)b[l], false, add2));
      continue;
    }
    uint64_t u = emu__zext(a[l], s.bits), v = emu__zext(b[l], s.bits), c = in ? x->w->carry >> l & 1 : 0;
    if (sat && s.is_signed) {
      put(&i->opd[0], d, l, s.bits, saturate_signed(s, get(s, u), get(s, v), minus));
      continue;
    }
    u128 r = minus ? (u128)u - v - c : (u128)u + v + c;
    if (out) x->w->carry = (x->w->carry & ~(1u << l)) | (uint32_t)((r >> s.bits) & 1) << l;
    put(&i->opd[0], d, l, s.bits, (uint64_t)r);
  }
  return EMU_NEXT;
}

/* mul and mad: .lo, .hi and .wide, with carry for the extended-precision forms */
emu_next emu__x_imul(emu_exec *x, const emu_ins *i, uint32_t mask) {
  bool add = i->nopd == 4;
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  const uint64_t *c = add ? emu__src(x, &i->opd[3], 3) : NULL;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  bool wide = i->op == EMU_I_MULWIDE || i->op == EMU_I_MADWIDE;
  bool high = i->op == EMU_I_MULHI || i->op == EMU_I_MADHI || i->op == EMU_I_MADCHI;
  bool in = i->op == EMU_I_MADCLO || i->op == EMU_I_MADCHI, out = (i->flags & EMU_FLAG(CC)) != 0;
  unsigned bits = wide ? s.bits * 2 : s.bits;
  EMU_FOR_LANES(mask, l) {
    u128 p = s.is_signed ? (u128)((i128)emu__sext(a[l], s.bits) * emu__sext(b[l], s.bits))
                         : (u128)emu__zext(a[l], s.bits) * emu__zext(b[l], s.bits);
    uint64_t r = emu__zext((uint64_t)(high ? p >> s.bits : p), bits);
    if (add && (i->flags & EMU_FLAG(SAT)) && s.is_signed) {
      r = saturate_signed(s, emu__sext(r, s.bits), emu__sext(c[l], s.bits), false);
    } else if (add) {
      u128 sum = (u128)r + emu__zext(c[l], bits) + (in ? x->w->carry >> l & 1 : 0);
      if (out) x->w->carry = (x->w->carry & ~(1u << l)) | (uint32_t)((sum >> bits) & 1) << l;
      r = (uint64_t)sum;
    }
    put(&i->opd[0], d, l, bits, r);
  }
  return EMU_NEXT;
}

/* The result of a division by zero is unspecified; this gives what hardware does, all ones, and the dividend as
 * remainder. */
emu_next emu__x_idiv(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  bool rem = i->op == EMU_I_REM;
  EMU_FOR_LANES(mask, l) {
    uint64_t v = emu__zext(b[l], s.bits), r;
    if (v == 0) {
      r = rem ? emu__zext(a[l], s.bits) : UINT64_MAX;
    } else if (s.is_signed) {
      int64_t p = emu__sext(a[l], s.bits), q = emu__sext(v, s.bits);
      r = q == -1 ? (rem ? 0 : 0 - (uint64_t)p) : (uint64_t)(rem ? p % q : p / q);
    } else {
      uint64_t p = emu__zext(a[l], s.bits);
      r = rem ? p % v : p / v;
    }
    put(&i->opd[0], d, l, s.bits, r);
  }
  return EMU_NEXT;
}

emu_next emu__x_iminmax(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  bool max = i->op == EMU_I_MAX, relu = (i->flags & EMU_FLAG(RELU)) != 0;
  int64_t (*f)(int64_t, int64_t) = relu ? (max ? relu_max2 : relu_min2) : max ? max2 : min2;
  EMU_FOR_LANES(mask, l) {
    if (packed(i)) {
      put(&i->opd[0], d, l, 32, halves((uint32_t)a[l], (uint32_t)b[l], i->type[0] == EMU_T_S16X2, f));
      continue;
    }
    if (s.is_signed) {
      put(&i->opd[0], d, l, s.bits, (uint64_t)f(get(s, a[l]), get(s, b[l])));
      continue;
    }
    uint64_t u = emu__zext(a[l], s.bits), v = emu__zext(b[l], s.bits);
    put(&i->opd[0], d, l, s.bits, (u > v) == max ? u : v);
  }
  return EMU_NEXT;
}

static uint64_t reverse(uint64_t v, unsigned bits) {
  uint64_t r = 0;
  for (unsigned k = 0; k < bits; k++) r |= (v >> k & 1) << (bits - 1 - k);
  return r;
}

static unsigned leading_zeros(uint64_t v, unsigned bits) {
  return v == 0 ? bits : (unsigned)__builtin_clzll(v) - (64 - bits);
}

emu_next emu__x_iunary(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  unsigned bits = s.bits;
  EMU_FOR_LANES(mask, l) {
    uint64_t v = emu__zext(a[l], bits), r;
    switch (i->op) {
      case EMU_I_ABS: r = emu__sext(v, bits) < 0 ? 0 - v : v; break;
      case EMU_I_NEG: r = 0 - v; break;
      case EMU_I_NOT: r = ~v; break;
      case EMU_I_CNOT: r = v == 0; break;
      case EMU_I_BREV: r = reverse(v, bits); break;
      case EMU_I_POPC: r = (uint64_t)__builtin_popcountll(v); break;
      case EMU_I_CLZ: r = leading_zeros(v, bits); break;
      default: { /* bfind: the most significant bit that differs from the sign */
        if (s.is_signed && emu__sext(v, bits) < 0) v = emu__zext(~v, bits);
        unsigned z = leading_zeros(v, bits);
        r = v == 0 ? 0xffffffffu : (i->flags & EMU_FLAG(SHIFTAMT)) ? z : bits - 1 - z;
        break;
      }
    }
    bool counts = i->op == EMU_I_POPC || i->op == EMU_I_CLZ || i->op == EMU_I_BFIND;
    put(&i->opd[0], d, l, counts ? 32 : bits, r);
  }
  return EMU_NEXT;
}

emu_next emu__x_ilogic(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  unsigned bits = emu__bits(i, 0);
  EMU_FOR_LANES(mask, l)
  put(&i->opd[0], d, l, bits, i->op == EMU_I_AND ? a[l] & b[l] : i->op == EMU_I_OR ? a[l] | b[l] : a[l] ^ b[l]);
  return EMU_NEXT;
}

/* The amount is an unsigned 32-bit number and clamps at the width. */
emu_next emu__x_ishift(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  EMU_FOR_LANES(mask, l) {
    uint32_t n = (uint32_t)b[l];
    uint64_t r;
    if (i->op == EMU_I_SHL)
      r = n >= s.bits ? 0 : a[l] << n;
    else if (s.is_signed)
      r = (uint64_t)(emu__sext(a[l], s.bits) >> (n >= s.bits ? s.bits - 1 : n));
    else
      r = n >= s.bits ? 0 : emu__zext(a[l], s.bits) >> n;
    put(&i->opd[0], d, l, s.bits, r);
  }
  return EMU_NEXT;
}

/* The funnel b:a, shifted by c; .l keeps the upper word, .r the lower one. */
emu_next emu__x_shf(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) {
    uint32_t n = (uint32_t)c[l];
    n = i->mod[EMU_G_CLAMP] == EMU_M_WRAP ? n & 31 : n > 32 ? 32 : n;
    uint64_t v = emu__zext(b[l], 32) << 32 | emu__zext(a[l], 32);
    put(&i->opd[0], d, l, 32, i->mod[EMU_G_SHF] == EMU_M_LEFT ? (v << n) >> 32 : v >> n);
  }
  return EMU_NEXT;
}

emu_next emu__x_bfe(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  EMU_FOR_LANES(mask, l) {
    unsigned pos = b[l] & 0xff, len = c[l] & 0xff;
    uint64_t v = emu__zext(a[l], s.bits);
    uint64_t sign = s.is_signed && len > 0 ? v >> (pos + len - 1 < s.bits - 1 ? pos + len - 1 : s.bits - 1) & 1 : 0;
    uint64_t r = pos >= s.bits ? 0 : v >> pos;
    unsigned have = pos >= s.bits ? 0 : s.bits - pos;
    if (len < have) have = len;
    r = emu__zext(r, have);
    if (sign && have < 64) r |= UINT64_MAX << have;
    put(&i->opd[0], d, l, s.bits, len == 0 ? 0 : r);
  }
  return EMU_NEXT;
}

emu_next emu__x_bfi(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  const uint64_t *c = emu__src(x, &i->opd[3], 3), *e = emu__src(x, &i->opd[4], 4);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  unsigned bits = emu__bits(i, 0);
  EMU_FOR_LANES(mask, l) {
    unsigned pos = c[l] & 0xff, len = e[l] & 0xff;
    uint64_t field = pos >= bits ? 0 : emu__zext(emu__ones(len) << pos, bits);
    put(&i->opd[0], d, l, bits, (b[l] & ~field) | (pos >= bits ? 0 : (a[l] << pos) & field));
  }
  return EMU_NEXT;
}

emu_next emu__x_szext(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  EMU_FOR_LANES(mask, l) {
    uint32_t n = (uint32_t)b[l];
    n = i->mod[EMU_G_CLAMP] == EMU_M_WRAP ? n & 31 : n > 32 ? 32 : n;
    put(&i->opd[0], d, l, s.bits, n == 0 ? 0 : s.is_signed ? (uint64_t)emu__sext(a[l], n) : emu__zext(a[l], n));
  }
  return EMU_NEXT;
}

emu_next emu__x_bmsk(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) {
    uint32_t pos = (uint32_t)a[l], len = (uint32_t)b[l];
    bool wrap = i->mod[EMU_G_CLAMP] == EMU_M_WRAP;
    pos = wrap ? pos & 31 : pos > 32 ? 32 : pos;
    len = wrap ? len & 31 : len > 32 ? 32 : len;
    put(&i->opd[0], d, l, 32, emu__ones(len) << pos);
  }
  return EMU_NEXT;
}

static uint32_t permute(uint64_t bytes, uint32_t sel) {
  uint32_t r = 0;
  for (unsigned k = 0; k < 4; k++) {
    unsigned s = sel >> (4 * k) & 15;
    uint32_t b = (uint32_t)(bytes >> (8 * (s & 7)) & 0xff);
    if (s & 8) b = (b & 0x80) ? 0xff : 0;
    r |= b << (8 * k);
  }
  return r;
}

/* The selectors of the special modes by the two low bits of c. */
static uint32_t special_selector(unsigned mode, unsigned n) {
  static const uint16_t f4e[4] = {0x3210, 0x4321, 0x5432, 0x6543}, b4e[4] = {0x5670, 0x6701, 0x7012, 0x0123};
  static const uint16_t rc8[4] = {0x0000, 0x1111, 0x2222, 0x3333}, ecl[4] = {0x3210, 0x3211, 0x3222, 0x3333};
  static const uint16_t ecr[4] = {0x0000, 0x1110, 0x2210, 0x3210}, rc16[4] = {0x1010, 0x3232, 0x1010, 0x3232};
  switch (mode) {
    case EMU_M_F4E: return f4e[n];
    case EMU_M_B4E: return b4e[n];
    case EMU_M_RC8: return rc8[n];
    case EMU_M_ECL: return ecl[n];
    case EMU_M_ECR: return ecr[n];
    default: return rc16[n];
  }
}

emu_next emu__x_prmt(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  unsigned mode = i->mod[EMU_G_PRMT];
  EMU_FOR_LANES(mask, l) {
    uint32_t sel = mode == 0 ? (uint32_t)c[l] : special_selector(mode, c[l] & 3);
    put(&i->opd[0], d, l, 32, permute(emu__zext(b[l], 32) << 32 | emu__zext(a[l], 32), sel));
  }
  return EMU_NEXT;
}

emu_next emu__x_lop3(emu_exec *x, const emu_ins *i, uint32_t mask) {
  unsigned at = i->op == EMU_I_LOP3P ? 2 : 1;
  const uint64_t *a = emu__src(x, &i->opd[at], 1), *b = emu__src(x, &i->opd[at + 1], 2),
                 *c = emu__src(x, &i->opd[at + 2], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  uint32_t lut = (uint32_t)i->opd[at + 3].imm, q = at == 2 ? emu__pred(x, &i->opd[6], 4) : 0;
  uint64_t *p = at == 2 ? emu__dst(x, &i->opd[1]) : NULL;
  EMU_FOR_LANES(mask, l) {
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; k++)
      if (lut >> k & 1) r |= (uint32_t)((k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]));
    put(&i->opd[0], d, l, 32, r);
    if (p != NULL) p[l] = i->mod[EMU_G_BOOL] == EMU_M_AND ? (r != 0) & (q >> l & 1) : (r != 0) | (q >> l & 1);
  }
  return EMU_NEXT;
}

emu_next emu__x_sad(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  shape s = shape_of(i, 0);
  EMU_FOR_LANES(mask, l) {
    uint64_t u = (uint64_t)get(s, a[l]), v = (uint64_t)get(s, b[l]);
    bool less = s.is_signed ? (int64_t)u < (int64_t)v : u < v;
    put(&i->opd[0], d, l, s.bits, c[l] + (less ? v - u : u - v));
  }
  return EMU_NEXT;
}

/* dp4a: four 8-bit products; dp2a: two products of 16-bit and 8-bit numbers */
emu_next emu__x_dp4a(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  bool sa = emu__is_signed(i, 0), sb = emu__is_signed(i, 1), four = i->op == EMU_I_DP4A;
  unsigned wa = four ? 8 : 16, base = i->op == EMU_I_DP2AHI ? 16 : 0;
  EMU_FOR_LANES(mask, l) {
    int64_t sum = (int64_t)c[l];
    for (unsigned k = 0; k < (four ? 4u : 2u); k++) {
      uint64_t u = a[l] >> (wa * k), v = b[l] >> (base + 8 * k);
      sum += (sa ? emu__sext(u, wa) : (int64_t)emu__zext(u, wa)) * (sb ? emu__sext(v, 8) : (int64_t)emu__zext(v, 8));
    }
    put(&i->opd[0], d, l, 32, (uint64_t)sum);
  }
  return EMU_NEXT;
}

/* comparison and selection */

static bool compare_floats(double a, double b, unsigned cmp) {
  bool nan = isnan(a) || isnan(b);
  switch (cmp) {
    case EMU_M_EQ: return a == b;
    case EMU_M_NE: return !nan && a != b;
    case EMU_M_LT: return a < b;
    case EMU_M_LE: return a <= b;
    case EMU_M_GT: return a > b;
    case EMU_M_GE: return a >= b;
    case EMU_M_EQU: return nan || a == b;
    case EMU_M_NEU: return nan || a != b;
    case EMU_M_LTU: return nan || a < b;
    case EMU_M_LEU: return nan || a <= b;
    case EMU_M_GTU: return nan || a > b;
    case EMU_M_GEU: return nan || a >= b;
    case EMU_M_NUM: return !nan;
    default: return nan;
  }
}

static bool compare_ints(shape s, uint64_t a, uint64_t b, unsigned cmp) {
  uint64_t u = (uint64_t)get(s, a), v = (uint64_t)get(s, b);
  bool less = s.is_signed ? (int64_t)u < (int64_t)v : u < v;
  switch (cmp) {
    case EMU_M_EQ: return u == v;
    case EMU_M_NE: return u != v;
    case EMU_M_LT:
    case EMU_M_LO: return less;
    case EMU_M_LE:
    case EMU_M_LS: return less || u == v;
    case EMU_M_GT:
    case EMU_M_HI: return !less && u != v;
    default: return !less;
  }
}

static bool compare(const emu_ins *i, int k, uint64_t a, uint64_t b) {
  emu_type t = (emu_type)i->type[k];
  if (emu__type_class[t] == EMU_C_FLT) {
    bool ftz = (i->flags & EMU_FLAG(FTZ)) != 0;
    return compare_floats(emu__float_value(t, a, ftz), emu__float_value(t, b, ftz), i->mod[EMU_G_CMP]);
  }
  return compare_ints(shape_of(i, k), a, b, i->mod[EMU_G_CMP]);
}

static bool combine(const emu_ins *i, bool v, bool p) {
  switch (i->mod[EMU_G_BOOL]) {
    case EMU_M_AND: return v && p;
    case EMU_M_OR: return v || p;
    case EMU_M_XOR: return v != p;
    default: return v;
  }
}

emu_next emu__x_setp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[2], 2), *b = emu__src(x, &i->opd[3], 3);
  uint32_t c = i->nopd == 5 ? emu__pred(x, &i->opd[4], 4) : 0;
  uint64_t *p = emu__dst(x, &i->opd[0]), *q = emu__dst(x, &i->opd[1]);
  bool pair = emu__type_class[i->type[0]] == EMU_C_PACK;
  emu_ins half = *i;
  if (pair) half.type[0] = i->type[0] == EMU_T_F16X2 ? EMU_T_F16 : EMU_T_BF16;
  uint64_t rp[EMU_LANES], rq[EMU_LANES];
  EMU_FOR_LANES(mask, l) {
    bool extra = c >> l & 1, v = compare(&half, 0, a[l], b[l]);
    bool u = pair ? compare(&half, 0, a[l] >> 16, b[l] >> 16) : !v;
    rp[l] = combine(i, v, extra);
    rq[l] = combine(i, u, extra);
  }
  bool two = i->opd[1].kind == EMU_O_REG;
  EMU_FOR_LANES(mask, l) {
    p[l] = rp[l];
    if (two) q[l] = rq[l];
  }
  return EMU_NEXT;
}

emu_next emu__x_set(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint32_t c = i->nopd == 4 ? emu__pred(x, &i->opd[3], 3) : 0;
  uint64_t *d = emu__dst(x, &i->opd[0]), yes = i->type[0] == EMU_T_F32 ? 0x3f800000u : 0xffffffffu;
  EMU_FOR_LANES(mask, l) put(&i->opd[0], d, l, 32, combine(i, compare(i, 1, a[l], b[l]), c >> l & 1) ? yes : 0);
  return EMU_NEXT;
}

emu_next emu__x_selp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2);
  uint32_t p = emu__pred(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  unsigned bits = emu__bits(i, 0);
  EMU_FOR_LANES(mask, l) put(&i->opd[0], d, l, bits, p >> l & 1 ? a[l] : b[l]);
  return EMU_NEXT;
}

emu_next emu__x_slct(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *b = emu__src(x, &i->opd[2], 2), *c = emu__src(x, &i->opd[3], 3);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  unsigned bits = emu__bits(i, 0);
  EMU_FOR_LANES(mask, l) {
    bool first = i->type[1] == EMU_T_F32 ? emu__float_value(EMU_T_F32, c[l], (i->flags & EMU_FLAG(FTZ)) != 0) >= 0
                                         : emu__sext(c[l], 32) >= 0;
    put(&i->opd[0], d, l, bits, first ? a[l] : b[l]);
  }
  return EMU_NEXT;
}
