/* Branches, calls and the end of threads. */
#include "runtime/emu/internal.h"

#include <string.h>

emu_next emu__x_nop(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)x, (void)i, (void)mask;
  return EMU_NEXT;
}

static emu_next jump(emu_exec *x, uint32_t mask, uint32_t target) {
  if (mask == x->f->mask) {
    x->f->stack[x->f->depth].pc = target;
  } else {
    emu__split(x, mask, target);
    x->f->stack[x->f->depth].pc++;
  }
  return EMU_JUMPED;
}

emu_next emu__x_bra(emu_exec *x, const emu_ins *i, uint32_t mask) {
  if ((i->flags & EMU_FLAG(UNI)) && mask != x->f->mask) return emu__fault(x, -1, "bra.uni diverges");
  return jump(x, mask, i->opd[0].reg);
}

emu_next emu__x_brx(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *index = emu__src(x, &i->opd[0], 0);
  const uint32_t *table = &x->m->targets[i->opd[1].reg];
  uint32_t off = x->f->mask & ~mask;
  if (off != 0) emu__split(x, off, emu__top(x->f)->pc + 1);
  while (mask != 0) {
    uint32_t first = (uint32_t)__builtin_ctz(mask), k = (uint32_t)index[first], same = 0;
    if (k >= table[0]) return emu__fault(x, (int)first, "brx.idx index %u is past its table of %u", k, table[0]);
    EMU_FOR_LANES(mask, l) if ((uint32_t)index[l] == k) same |= 1u << l;
    mask &= ~same;
    if (mask != 0)
      emu__split(x, same, table[1 + k]);
    else
      x->f->stack[x->f->depth].pc = table[1 + k];
  }
  return EMU_JUMPED;
}

static emu_next call_builtin(emu_exec *x, const emu_func *fn, const emu_call *c, uint32_t mask) {
  emu_warp *w = x->w;
  uint32_t base = emu__top(x->f)->param_base;
  EMU_FOR_LANES(mask, l) {
    uint8_t *mine = w->param + (size_t)l * w->param_cap + base;
    uint64_t args[3] = {0};
    for (uint32_t k = 0; k < c->nin && k < 3; k++)
      memcpy(&args[k], mine + c->in[k].offset, c->in[k].size < 8 ? c->in[k].size : 8);
    emu_next next = fn->builtin == EMU_FN_VPRINTF ? emu__print(x, args[0], args[1], l) : emu__assert_fail(x, args, l);
    if (next == EMU_FAILED) return next;
    int32_t one = 1;
    if (c->nout > 0 && c->out[0].size >= sizeof one) memcpy(mine + c->out[0].offset, &one, sizeof one);
  }
  return EMU_NEXT;
}

emu_next emu__x_call(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const emu_call *c = &x->m->calls[i->call];
  const emu_func *fn = &x->m->funcs[c->func];
  if (fn->builtin != EMU_FN_USER) return call_builtin(x, fn, c, mask);
  emu_warp *w = x->w;
  emu__isolate(x, mask);
  emu_frag *f = x->f;
  if (f->depth + 1 == EMU_MAX_DEPTH) return emu__fault(x, -1, "calls are nested more than %d deep", EMU_MAX_DEPTH);
  const emu_frame *from = emu__top(f);
  const emu_func *caller = &x->m->funcs[from->func];
  emu_frame to = {fn->first, c->func, from->reg_base + caller->nregs,
                  from->local_base + ((caller->local_size + 15) & ~15u),
                  from->param_base + ((caller->param_size + 15) & ~15u)};
  if (!emu__reserve(w, fn, &to)) {
    x->status = EMU_NO_MEMORY;
    return EMU_FAILED;
  }
  EMU_FOR_LANES(mask, l) {
    uint8_t *mine = w->param + (size_t)l * w->param_cap;
    for (uint32_t k = 0; k < c->nin; k++)
      memcpy(mine + to.param_base + fn->in[k].offset, mine + from->param_base + c->in[k].offset, fn->in[k].size);
  }
  f->stack[++f->depth] = to;
  return EMU_JUMPED;
}

static emu_next end_threads(emu_exec *x, uint32_t mask) {
  if (!emu__async_exit(x, mask)) return EMU_FAILED;
  emu__kill(x, mask);
  return emu__barrier_check(x) ? EMU_JUMPED : EMU_FAILED;
}

emu_next emu__x_ret(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)i;
  if (x->f->depth == 0) return end_threads(x, mask);
  emu_warp *w = x->w;
  emu__isolate(x, mask);
  emu_frag *f = x->f;
  const emu_frame *from = emu__top(f);
  const emu_frame *to = &f->stack[f->depth - 1];
  const emu_func *fn = &x->m->funcs[from->func];
  const emu_call *c = &x->m->calls[x->m->ins[to->pc].call];
  EMU_FOR_LANES(mask, l) {
    uint8_t *mine = w->param + (size_t)l * w->param_cap;
    for (uint32_t k = 0; k < c->nout; k++)
      memcpy(mine + to->param_base + c->out[k].offset, mine + from->param_base + fn->out[k].offset, fn->out[k].size);
  }
  f->depth--;
  f->stack[f->depth].pc++;
  return EMU_JUMPED;
}

emu_next emu__x_exit(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)i;
  return end_threads(x, mask);
}

emu_next emu__x_trap(emu_exec *x, const emu_ins *i, uint32_t mask) {
  return emu__fault(x, __builtin_ctz(mask), "the kernel executed '%s'", emu__op_name[i->op]);
}
