/* CTA barriers: bar.sync, bar.arrive, bar.red and their barrier.* forms.
 *
 * An aligned barrier is executed by whole warps and counts 32 threads for each, as hardware does, even for a last warp
 * that is not full; the others count threads. Without a count a barrier expects all threads that have not exited.
 * Vector clocks are joined on arrival and handed out on release (shadow.c). */
#include "runtime/emu/internal.h"

static uint32_t live_threads(const emu_exec *x) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < x->nwarps; k++) n += emu__popcount(x->warps[k].live);
  return n;
}

static void release_frag(emu_exec *x, emu_warp *w, emu_frag *f, const emu_barrier *b) {
  const emu_ins *i = &x->m->ins[emu__top(f)->pc];
  if (i->mod[EMU_G_RED] != 0 && i->opd[0].kind == EMU_O_REG) {
    uint64_t v = i->mod[EMU_G_RED] == EMU_M_POPC ? b->popc : i->mod[EMU_G_RED] == EMU_M_AND ? b->all : b->any;
    uint64_t *d = w->regs + (size_t)(emu__top(f)->reg_base + i->opd[0].reg) * EMU_LANES;
    EMU_FOR_LANES(f->mask, l) d[l] = emu__fit(&i->opd[0], v);
  }
  f->state = EMU_F_RUN;
  f->stack[f->depth].pc++;
}

static void release(emu_exec *x, uint32_t id) {
  emu_barrier *b = &x->barriers[id];
  for (uint32_t k = 0; k < x->nwarps; k++) {
    emu_warp *w = &x->warps[k];
    bool waited = false;
    for (uint32_t a = 0; a < w->nfrag; a++) {
      if (w->frag[a].state != EMU_F_BARRIER || w->frag[a].barrier != id) continue;
      release_frag(x, w, &w->frag[a], b);
      waited = true;
    }
    if (!waited) continue;
    emu__clock_join(w->clock, b->clock);
    w->clock[k]++;
  }
  *b = (emu_barrier){0};
}

bool emu__barrier_check(emu_exec *x) {
  uint32_t live = live_threads(x);
  for (uint32_t id = 0; id < EMU_MAX_BARRIERS; id++) {
    emu_barrier *b = &x->barriers[id];
    if (!b->active) continue;
    if (!b->counted) b->expected = live;
    if (b->arrived > b->expected) {
      emu__fault(x, -1, "barrier %u expects %u threads but %u arrived", id, b->expected, b->arrived);
      return false;
    }
    if (b->arrived == b->expected) release(x, id);
  }
  return true;
}

/* The value of a source that all lanes must agree on. */
static bool uniform(emu_exec *x, const emu_opd *o, unsigned k, uint32_t mask, uint32_t *out) {
  const uint64_t *row = emu__src(x, o, k);
  *out = (uint32_t)row[__builtin_ctz(mask)];
  EMU_FOR_LANES(mask, l) if ((uint32_t)row[l] != *out) return false;
  return true;
}

static bool is_aligned(const emu_ins *i) {
  switch (i->op) {
    case EMU_I_BARRIER_SYNC:
    case EMU_I_BARRIERC_SYNC:
    case EMU_I_BARRIER_ARRIVE:
    case EMU_I_BARRIERC_ARRIVE:
    case EMU_I_BARRIER_RED:
    case EMU_I_BARRIER_REDN:
    case EMU_I_BARRIERC_RED:
    case EMU_I_BARRIERC_REDN: return (i->flags & EMU_FLAG(ALIGNED)) != 0;
    default: return true;
  }
}

emu_next emu__x_barrier(emu_exec *x, const emu_ins *i, uint32_t mask) {
  bool red = i->mod[EMU_G_RED] != 0, aligned = is_aligned(i);
  bool arrive = i->op == EMU_I_BAR_ARRIVE || i->op == EMU_I_BARC_ARRIVE || i->op == EMU_I_BARRIER_ARRIVE ||
                i->op == EMU_I_BARRIERC_ARRIVE;
  unsigned first = red ? 1 : 0;
  bool counted = i->nopd > (red ? 3u : 1u);
  uint32_t id, count = 0;
  if (aligned) {
    if (mask != x->f->mask) return emu__fault(x, -1, "aligned barrier under a guard that differs between lanes");
    emu_next next = emu__wait_for(x, x->w->live);
    if (next != EMU_NEXT) return next;
  }
  if (!uniform(x, &i->opd[first], first, mask, &id) ||
      (counted && !uniform(x, &i->opd[first + 1], first + 1, mask, &count)))
    return emu__fault(x, -1, "the operands of a barrier differ between lanes");
  if (id >= EMU_MAX_BARRIERS) return emu__fault(x, -1, "barrier %u does not exist; there are %d", id, EMU_MAX_BARRIERS);
  if (counted && (count == 0 || count % EMU_LANES != 0))
    return emu__fault(x, -1, "barrier count %u is not a multiple of %d", count, EMU_LANES);
  emu_barrier *b = &x->barriers[id];
  if (!b->active) {
    *b = (emu_barrier){.active = true, .counted = counted, .expected = count, .all = true};
  } else if (b->counted != counted || (counted && b->expected != count)) {
    return emu__fault(x, -1, "barrier %u is used with %u threads while others wait for %u", id, count, b->expected);
  }
  b->arrived += aligned && counted ? EMU_LANES : emu__popcount(mask);
  emu__clock_join(b->clock, x->w->clock);
  if (red) {
    uint32_t p = emu__pred(x, &i->opd[i->nopd - 1], i->nopd - 1u);
    b->popc += emu__popcount(p & mask);
    b->all = b->all && (mask & ~p) == 0;
    b->any = b->any || (mask & p) != 0;
  }
  if (arrive) {
    x->w->clock[x->w->id]++;
    return emu__barrier_check(x) ? EMU_NEXT : EMU_FAILED;
  }
  emu__isolate(x, mask);
  x->f->state = EMU_F_BARRIER;
  x->f->barrier = id;
  return emu__barrier_check(x) ? EMU_JUMPED : EMU_FAILED;
}

emu_next emu__x_fence(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)i, (void)mask;
  emu__acquire(x);
  emu__release(x);
  return EMU_NEXT;
}
