/* Exchange between the lanes of a warp. Each .sync instruction names the lanes that take part; it waits until those
 * that live have come, and lanes may name different groups as long as the groups agree among themselves. */
#include "runtime/emu/half.h"

#include <math.h>
#include <string.h>

/* EMU_NEXT when every group named in `members` is complete. */
static emu_next gather(emu_exec *x, const emu_ins *i, uint32_t mask, const uint64_t *members) {
  const char *name = emu__op_name[i->op];
  uint32_t need = 0;
  EMU_FOR_LANES(mask, l) {
    uint32_t m = (uint32_t)members[l];
    if (!(m >> l & 1))
      return emu__fault(x, (int)l, "'%s' with membermask 0x%08x, which lacks the lane itself", name, m);
    if (m & x->f->mask & ~mask)
      return emu__fault(x, (int)l, "'%s' names lanes 0x%08x that its guard leaves out", name, m & x->f->mask & ~mask);
    for (uint32_t k = 0; k < EMU_LANES; k++)
      if ((m & mask) >> k & 1 && (uint32_t)members[k] != m)
        return emu__fault(x, (int)l, "'%s': lanes %u and %u name different membermasks", name, l, k);
    need |= m;
  }
  return emu__wait_for(x, need);
}

emu_next emu__x_bar_warp(emu_exec *x, const emu_ins *i, uint32_t mask) {
  return gather(x, i, mask, emu__src(x, &i->opd[0], 0));
}

emu_next emu__x_shfl(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[2], 2), *b = emu__src(x, &i->opd[3], 3), *c = emu__src(x, &i->opd[4], 4);
  const uint64_t *members = emu__src(x, &i->opd[5], 5);
  emu_next next = gather(x, i, mask, members);
  if (next != EMU_NEXT) return next;
  uint64_t value[EMU_LANES];
  uint32_t valid = 0;
  EMU_FOR_LANES(mask, l) {
    int lane = (int)l, n = (int)(b[l] & 31), seg = (int)(c[l] >> 8 & 31), clamp = (int)(c[l] & 31);
    int low = lane & seg, high = low | (clamp & ~seg), j;
    bool ok;
    switch (i->mod[EMU_G_SHFL]) {
      case EMU_M_UP: j = lane - n, ok = j >= high; break;
      case EMU_M_DOWN: j = lane + n, ok = j <= high; break;
      case EMU_M_BFLY: j = lane ^ n, ok = j <= high; break;
      default: j = low | (n & ~seg), ok = j <= high; break;
    }
    if (!ok) j = lane;
    if (!(mask & (uint32_t)members[l]) || !((mask & (uint32_t)members[l]) >> j & 1))
      return emu__fault(x, lane, "shfl reads lane %d, which does not take part", j);
    value[l] = emu__zext(a[j], 32);
    valid |= (uint32_t)ok << l;
  }
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], value[l]);
  if (i->opd[1].kind != EMU_O_REG) return EMU_NEXT;
  uint64_t *p = emu__dst(x, &i->opd[1]);
  EMU_FOR_LANES(mask, l) p[l] = valid >> l & 1;
  return EMU_NEXT;
}

emu_next emu__x_vote(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint32_t p = emu__pred(x, &i->opd[1], 1);
  const uint64_t *members = emu__src(x, &i->opd[2], 2);
  bool ballot = i->mod[EMU_G_VOTE] == EMU_M_BALLOT;
  if (ballot != (i->type[0] == EMU_T_B32))
    return emu__fault(x, -1, "vote: .ballot goes with .b32 and the others with .pred");
  emu_next next = gather(x, i, mask, members);
  if (next != EMU_NEXT) return next;
  uint64_t *d = emu__dst(x, &i->opd[0]), r[EMU_LANES];
  EMU_FOR_LANES(mask, l) {
    uint32_t group = (uint32_t)members[l] & mask, on = p & group;
    switch (i->mod[EMU_G_VOTE]) {
      case EMU_M_ALL: r[l] = on == group; break;
      case EMU_M_ANY: r[l] = on != 0; break;
      case EMU_M_UNI: r[l] = on == group || on == 0; break;
      default: r[l] = on; break;
    }
  }
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], r[l]);
  return EMU_NEXT;
}

emu_next emu__x_activemask(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) d[l] = mask;
  return EMU_NEXT;
}

emu_next emu__x_match(emu_exec *x, const emu_ins *i, uint32_t mask) {
  bool all = i->op == EMU_I_MATCH_ALL;
  unsigned at = all ? 2 : 1, bits = emu__bits(i, 0);
  const uint64_t *a = emu__src(x, &i->opd[at], 1), *members = emu__src(x, &i->opd[at + 1], 2);
  emu_next next = gather(x, i, mask, members);
  if (next != EMU_NEXT) return next;
  uint32_t r[EMU_LANES];
  EMU_FOR_LANES(mask, l) {
    uint32_t group = (uint32_t)members[l] & mask, same = 0;
    for (uint32_t k = 0; k < EMU_LANES; k++)
      if (group >> k & 1 && emu__zext(a[k], bits) == emu__zext(a[l], bits)) same |= 1u << k;
    r[l] = all && same != group ? 0 : same;
  }
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], r[l]);
  if (!all || i->opd[1].kind != EMU_O_REG) return EMU_NEXT;
  uint64_t *p = emu__dst(x, &i->opd[1]);
  EMU_FOR_LANES(mask, l) p[l] = r[l] != 0;
  return EMU_NEXT;
}

static uint64_t reduce_float(const emu_ins *i, uint64_t a, uint64_t b) {
  if (i->flags & EMU_FLAG(ABS)) {
    a &= 0x7fffffff;
    b &= 0x7fffffff;
  }
  double u = emu__float_value(EMU_T_F32, a, false), v = emu__float_value(EMU_T_F32, b, false);
  if (isnan(u) || isnan(v))
    return (i->flags & EMU_FLAG(NANF)) || (isnan(u) && isnan(v)) ? 0x7fffffff : isnan(u) ? b : a;
  bool less = u < v || (u == v && signbit(u) && !signbit(v));
  return less == (i->mod[EMU_G_AOP] == EMU_M_MIN) ? a : b;
}

static uint64_t reduce(const emu_ins *i, uint64_t a, uint64_t b) {
  if (i->type[0] == EMU_T_F32) return reduce_float(i, a, b);
  bool less = emu__is_signed(i, 0) ? emu__sext(a, 32) < emu__sext(b, 32) : emu__zext(a, 32) < emu__zext(b, 32);
  switch (i->mod[EMU_G_AOP]) {
    case EMU_M_ADD: return a + b;
    case EMU_M_MIN: return less ? a : b;
    case EMU_M_MAX: return less ? b : a;
    case EMU_M_AND: return a & b;
    case EMU_M_OR: return a | b;
    default: return a ^ b;
  }
}

emu_next emu__x_redux(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *members = emu__src(x, &i->opd[2], 2);
  emu_next next = gather(x, i, mask, members);
  if (next != EMU_NEXT) return next;
  uint64_t *d = emu__dst(x, &i->opd[0]), r[EMU_LANES];
  EMU_FOR_LANES(mask, l) {
    uint32_t group = (uint32_t)members[l] & mask;
    uint32_t first = (uint32_t)__builtin_ctz(group);
    uint64_t v = emu__zext(a[first], 32);
    if (group == 1u << first && i->type[0] == EMU_T_F32) v = reduce_float(i, v, v);
    for (uint32_t k = first + 1; k < EMU_LANES; k++)
      if (group >> k & 1) v = emu__zext(reduce(i, v, emu__zext(a[k], 32)), 32);
    r[l] = v;
  }
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], r[l]);
  return EMU_NEXT;
}

/* Any lane of the group may be elected; this takes the lowest. */
emu_next emu__x_elect(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *members = emu__src(x, &i->opd[2], 2);
  emu_next next = gather(x, i, mask, members);
  if (next != EMU_NEXT) return next;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  uint32_t leader[EMU_LANES];
  EMU_FOR_LANES(mask, l) leader[l] = (uint32_t)__builtin_ctz((uint32_t)members[l] & mask);
  EMU_FOR_LANES(mask, l) d[l] = emu__fit(&i->opd[0], leader[l]);
  if (i->opd[1].kind != EMU_O_REG) return EMU_NEXT;
  uint64_t *p = emu__dst(x, &i->opd[1]);
  EMU_FOR_LANES(mask, l) p[l] = leader[l] == l;
  return EMU_NEXT;
}
