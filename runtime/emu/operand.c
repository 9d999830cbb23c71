/* Operands at run time: each becomes a row of 32 values. */
#include "runtime/emu/internal.h"

static uint32_t tid(const emu_exec *x, uint32_t l, int axis) {
  uint32_t t = x->w->id * EMU_LANES + l;
  const uint32_t *b = x->o->block;
  return axis == 0 ? t % b[0] : axis == 1 ? t / b[0] % b[1] : t / b[0] / b[1];
}

static uint64_t sreg_value(const emu_exec *x, uint32_t sreg, uint32_t l) {
  const emu_launch_options *o = x->o;
  uint64_t clock = x->executed * 4, nanos = x->executed * 2 + 1000;
  switch ((emu_sreg)sreg) {
    case EMU_S_TID_X:
    case EMU_S_TID_Y:
    case EMU_S_TID_Z: return tid(x, l, (int)(sreg - EMU_S_TID_X));
    case EMU_S_NTID_X:
    case EMU_S_NTID_Y:
    case EMU_S_NTID_Z: return o->block[sreg - EMU_S_NTID_X];
    case EMU_S_CTAID_X:
    case EMU_S_CTAID_Y:
    case EMU_S_CTAID_Z: return x->ctaid[sreg - EMU_S_CTAID_X];
    case EMU_S_CLUSTERID_X:
    case EMU_S_CLUSTERID_Y:
    case EMU_S_CLUSTERID_Z: return x->ctaid[sreg - EMU_S_CLUSTERID_X];
    case EMU_S_NCTAID_X:
    case EMU_S_NCTAID_Y:
    case EMU_S_NCTAID_Z: return o->grid[sreg - EMU_S_NCTAID_X];
    case EMU_S_NCLUSTERID_X:
    case EMU_S_NCLUSTERID_Y:
    case EMU_S_NCLUSTERID_Z: return o->grid[sreg - EMU_S_NCLUSTERID_X];
    case EMU_S_CLUSTER_CTARANK:
    case EMU_S_CLUSTER_CTAID_X:
    case EMU_S_CLUSTER_CTAID_Y:
    case EMU_S_CLUSTER_CTAID_Z: return 0;
    case EMU_S_CLUSTER_NCTARANK:
    case EMU_S_CLUSTER_NCTAID_X:
    case EMU_S_CLUSTER_NCTAID_Y:
    case EMU_S_CLUSTER_NCTAID_Z: return 1;
    case EMU_S_LANEID: return l;
    case EMU_S_WARPID: return x->w->id;
    case EMU_S_NWARPID: return x->nwarps;
    case EMU_S_SMID: return 0;
    case EMU_S_NSMID: return 1;
    case EMU_S_GRIDID: return 1;
    case EMU_S_LANEMASK_EQ: return 1u << l;
    case EMU_S_LANEMASK_LE: return 0xffffffffu >> (31 - l);
    case EMU_S_LANEMASK_LT: return (1u << l) - 1;
    case EMU_S_LANEMASK_GE: return 0xffffffffu << l;
    case EMU_S_LANEMASK_GT: return 0xfffffffeu << l;
    case EMU_S_CLOCK: return (uint32_t)clock;
    case EMU_S_CLOCK_HI: return clock >> 32;
    case EMU_S_CLOCK64: return clock;
    case EMU_S_GLOBALTIMER: return nanos;
    case EMU_S_GLOBALTIMER_LO: return (uint32_t)nanos;
    case EMU_S_GLOBALTIMER_HI: return nanos >> 32;
    case EMU_S_TOTAL_SMEM: return x->shared_size;
    case EMU_S_DYNAMIC_SMEM: return o->dynamic_shared;
    case EMU_NSREGS: break;
  }
  return 0;
}

void emu__sreg_row(const emu_exec *x, uint32_t sreg, uint64_t *row) {
  for (uint32_t l = 0; l < EMU_LANES; l++) row[l] = sreg_value(x, sreg, l);
}

const uint64_t *emu__src(emu_exec *x, const emu_opd *o, unsigned k) {
  const emu_frame *frame = &x->f->stack[x->f->depth];
  uint64_t *row = x->scratch[k];
  switch ((emu_opd_kind)o->kind) {
    case EMU_O_REG: return emu__reg(x, o->reg);
    case EMU_O_IMM: return o->row;
    case EMU_O_SREG: emu__sreg_row(x, o->reg, row); return row;
    case EMU_O_LOCAL_FRAME:
      for (int l = 0; l < EMU_LANES; l++) row[l] = EMU_LOCAL_START + frame->local_base + (uint64_t)o->off;
      return row;
    case EMU_O_PARAM_FRAME:
      for (int l = 0; l < EMU_LANES; l++) row[l] = EMU_PARAM_FRAME_BIT | (frame->param_base + (uint64_t)o->off);
      return row;
    default: break;
  }
  for (int l = 0; l < EMU_LANES; l++) row[l] = 0;
  return row;
}

uint64_t *emu__dst(emu_exec *x, const emu_opd *o) { return o->kind == EMU_O_REG ? emu__reg(x, o->reg) : x->sink; }

uint32_t emu__pred(emu_exec *x, const emu_opd *o, unsigned k) {
  const uint64_t *row = emu__src(x, o, k);
  uint32_t bits = 0;
  for (int l = 0; l < EMU_LANES; l++) bits |= (uint32_t)(row[l] & 1) << l;
  return o->neg ? ~bits : bits;
}

const emu_opd *emu__elem(const emu_exec *x, const emu_opd *o, unsigned e) {
  return o->kind == EMU_O_VEC ? &x->m->pool[o->first + e] : o;
}

void emu__addr(emu_exec *x, const emu_opd *o, uint64_t *out) {
  const emu_opd *base = &x->m->pool[o->first];
  const uint64_t *row = emu__src(x, base, EMU_MAX_OPERANDS - 1);
  for (int l = 0; l < EMU_LANES; l++) out[l] = row[l] + (uint64_t)o->off;
}

emu_space emu__space(const emu_ins *i, emu_group g) {
  switch (i->mod[g]) {
    case EMU_M_GLOBAL: return EMU_GLOBAL;
    case EMU_M_SHARED:
    case EMU_M_SHAREDCTA:
    case EMU_M_SHAREDCLUSTER: return EMU_SHARED; /* a cluster is one block */
    case EMU_M_LOCAL: return EMU_LOCAL;
    case EMU_M_CONST: return EMU_CONST;
    case EMU_M_PARAM:
    case EMU_M_PARAMENTRY:
    case EMU_M_PARAMFUNC: return EMU_PARAM;
    default: return EMU_GENERIC;
  }
}
