/* Atomics and reductions in memory. Lanes take effect in order of their number. */
#include "runtime/emu/half.h"

#include <math.h>
#include <string.h>

static uint64_t add_floats(emu_type t, uint64_t a, uint64_t b) {
  if (t == EMU_T_F64) {
    double u, v;
    memcpy(&u, &a, sizeof u);
    memcpy(&v, &b, sizeof v);
    u += v;
    memcpy(&a, &u, sizeof a);
    return a;
  }
  return emu__float_bits(t, emu__add_odd(emu__float_value(t, a, false), emu__float_value(t, b, false)), EMU_M_RN,
                         false);
}

static uint64_t extreme_float(emu_type t, uint64_t a, uint64_t b, bool max) {
  double u = emu__float_value(t, a, false), v = emu__float_value(t, b, false);
  if (isnan(u)) return isnan(v) ? emu__float_bits(t, NAN, 0, false) : b;
  if (isnan(v)) return a;
  bool less = u < v || (u == v && signbit(u) && !signbit(v));
  return less != max ? a : b;
}

static uint64_t combine_float(unsigned op, emu_type t, uint64_t a, uint64_t b) {
  return op == EMU_M_ADD ? add_floats(t, a, b) : extreme_float(t, a, b, op == EMU_M_MAX);
}

/* What is stored over `old`, given the operand b. */
static uint64_t combine(unsigned op, emu_type t, uint64_t old, uint64_t b) {
  unsigned bits = emu__type_bits[t];
  if (emu__type_class[t] == EMU_C_FLT) return combine_float(op, t, old, b);
  if (emu__type_class[t] == EMU_C_PACK) {
    emu_type h = t == EMU_T_F16X2 ? EMU_T_F16 : EMU_T_BF16;
    return combine_float(op, h, old & 0xffff, b & 0xffff) | combine_float(op, h, old >> 16, b >> 16 & 0xffff) << 16;
  }
  bool less = emu__type_class[t] == EMU_C_SINT ? emu__sext(old, bits) < emu__sext(b, bits) : old < b;
  switch (op) {
    case EMU_M_ADD: return old + b;
    case EMU_M_MIN: return less ? old : b;
    case EMU_M_MAX: return less ? b : old;
    case EMU_M_AND: return old & b;
    case EMU_M_OR: return old | b;
    case EMU_M_XOR: return old ^ b;
    case EMU_M_INC: return old >= b ? 0 : old + 1;
    case EMU_M_DEC: return old == 0 || old > b ? b : old - 1;
    default: return b;
  }
}

/* d may be NULL; data and swap are operand numbers, swap 0 for all but .cas. */
static emu_next atomic(emu_exec *x, const emu_ins *i, uint32_t mask, const emu_opd *d, unsigned mem, unsigned data) {
  emu_type t = (emu_type)i->type[0];
  unsigned op = i->mod[EMU_G_AOP], sem = i->mod[EMU_G_SEM], bits = emu__type_bits[t], bytes = bits / 8;
  unsigned n = emu__count(&i->opd[data]);
  uint64_t addr[EMU_LANES], old_row[EMU_LANES];
  const uint64_t *rows[8], *swap = op == EMU_M_CAS ? emu__src(x, &i->opd[data + 1], data + 1) : NULL;
  emu__addr(x, &i->opd[mem], addr);
  for (unsigned e = 0; e < n; e++) rows[e] = emu__src(x, emu__elem(x, &i->opd[data], e), data);
  if (sem == EMU_M_ACQUIRE || sem == EMU_M_ACQ_REL) emu__acquire(x);
  if (sem == EMU_M_RELEASE || sem == EMU_M_ACQ_REL) emu__release(x);
  emu_space space = emu__space(i, EMU_G_SPACE);
  EMU_FOR_LANES(mask, l) {
    uint8_t *p = emu__access(x, space, addr[l], bytes * n, l, EMU_READ | EMU_WRITE | EMU_STRONG);
    if (p == NULL) return EMU_FAILED;
    for (unsigned e = 0; e < n; e++) {
      uint64_t old = 0, b = emu__zext(rows[e][l], bits);
      memcpy(&old, p + e * bytes, bytes);
      uint64_t now = swap == NULL ? combine(op, t, old, b) : old == b ? swap[l] : old;
      memcpy(p + e * bytes, &now, bytes);
      if (d != NULL && n > 1)
        emu__dst(x, emu__elem(x, d, e))[l] = emu__fit(emu__elem(x, d, e), old);
      else
        old_row[l] = old;
    }
  }
  if (d == NULL || n > 1) return EMU_NEXT;
  uint64_t *out = emu__dst(x, emu__elem(x, d, 0));
  EMU_FOR_LANES(mask, l) out[l] = emu__fit(emu__elem(x, d, 0), old_row[l]);
  return EMU_NEXT;
}

emu_next emu__x_atom(emu_exec *x, const emu_ins *i, uint32_t mask) { return atomic(x, i, mask, &i->opd[0], 1, 2); }

emu_next emu__x_red(emu_exec *x, const emu_ins *i, uint32_t mask) { return atomic(x, i, mask, NULL, 0, 1); }
