/* Warps in lockstep, divergence, and the round of warps in a CTA.
 *
 * A warp is a set of fragments: groups of lanes at the same place (same call path, same program counter). The fragment
 * with the lowest place in the text runs first and fragments that meet are merged; for the layouts that code generators
 * produce this reconverges at the immediate post-dominator without computing it. What it does not give by itself is
 * that all lanes reach a .sync instruction together, so such an instruction parks a fragment until the lanes that it
 * names have come. A fixed order could also starve a lane that another one spins for: now and then the highest fragment
 * runs instead.
 *
 * Warps take turns of a fixed number of instructions. When a whole round passes without an instruction, nobody can ever
 * move again: the report says which lanes wait where. The order depends on nothing but the input, so runs repeat
 * exactly. */
#include "runtime/emu/internal.h"

#include <stdlib.h>
#include <string.h>

enum { QUANTUM = 4096, FAIR_TURN = 1024, MAX_ROWS = 1 << 18, MAX_STACK = 512 << 10 };

static int compare_paths(const emu_frag *a, const emu_frag *b) {
  for (uint32_t d = 0;; d++) {
    uint32_t pa = a->stack[d].pc, pb = b->stack[d].pc;
    if (pa != pb) return pa < pb ? -1 : 1;
    bool ea = d == a->depth, eb = d == b->depth;
    if (ea || eb) return ea == eb ? 0 : ea ? -1 : 1;
  }
}

static void remove_frag(emu_warp *w, uint32_t k) {
  w->nfrag--;
  if (k != w->nfrag) w->frag[k] = w->frag[w->nfrag];
}

static void merge(emu_warp *w) {
  for (uint32_t a = 0; a < w->nfrag; a++) {
    if (w->frag[a].state == EMU_F_BARRIER) continue;
    for (uint32_t b = a + 1; b < w->nfrag; b++) {
      if (w->frag[b].state == EMU_F_BARRIER || compare_paths(&w->frag[a], &w->frag[b]) != 0) continue;
      w->frag[a].mask |= w->frag[b].mask;
      w->frag[a].state = EMU_F_RUN;
      remove_frag(w, b--);
    }
  }
}

static emu_frag *pick(emu_warp *w) {
  if (w->nfrag == 1) return w->frag[0].state == EMU_F_RUN ? &w->frag[0] : NULL;
  merge(w);
  bool highest = ++w->turn % FAIR_TURN == 0;
  emu_frag *best = NULL;
  for (uint32_t k = 0; k < w->nfrag; k++) {
    emu_frag *f = &w->frag[k];
    if (f->state != EMU_F_RUN) continue;
    if (best == NULL || (compare_paths(f, best) < 0) != highest) best = f;
  }
  return best;
}

void emu__split(emu_exec *x, uint32_t mask, uint32_t pc) {
  emu_warp *w = x->w;
  emu_frag *f = &w->frag[w->nfrag++];
  *f = *x->f;
  f->mask = mask;
  f->stack[f->depth].pc = pc;
  x->f->mask &= ~mask;
}

void emu__isolate(emu_exec *x, uint32_t mask) {
  if (mask != x->f->mask) emu__split(x, x->f->mask & ~mask, emu__top(x->f)->pc + 1);
}

void emu__kill(emu_exec *x, uint32_t mask) {
  emu_warp *w = x->w;
  w->live &= ~mask;
  x->f->mask &= ~mask;
  if (x->f->mask == 0)
    remove_frag(w, (uint32_t)(x->f - w->frag));
  else
    x->f->stack[x->f->depth].pc++;
  for (uint32_t k = 0; k < w->nfrag; k++)
    if (w->frag[k].state == EMU_F_SYNC) w->frag[k].state = EMU_F_RUN;
}

emu_next emu__wait_for(emu_exec *x, uint32_t need) {
  if ((need & x->w->live & ~x->f->mask) == 0) return EMU_NEXT;
  x->f->state = EMU_F_SYNC;
  return EMU_BLOCKED;
}

static bool grow_lanes(uint8_t **p, uint32_t *cap, uint32_t need) {
  if (need <= *cap) return true;
  if (need > MAX_STACK) return false;
  uint32_t want = need < 256 ? 256 : need + need / 4;
  uint8_t *q = malloc((size_t)want * EMU_LANES);
  if (q == NULL) return false;
  memset(q, 0xa5, (size_t)want * EMU_LANES);
  for (size_t l = 0; *p != NULL && l < EMU_LANES; l++) memcpy(q + l * want, *p + l * *cap, *cap);
  free(*p);
  *p = q;
  *cap = want;
  return true;
}

bool emu__reserve(emu_warp *w, const emu_func *fn, const emu_frame *base) {
  uint32_t rows = base->reg_base + fn->nregs;
  if (rows > MAX_ROWS) return false;
  if (rows > w->regs_rows) {
    uint32_t want = w->regs_rows == 0 ? rows + 1 : rows * 2;
    uint64_t *r = realloc(w->regs, (size_t)want * EMU_LANES * sizeof *r);
    if (r == NULL) return false;
    memset(r + (size_t)w->regs_rows * EMU_LANES, 0xa5, (size_t)(want - w->regs_rows) * EMU_LANES * sizeof *r);
    w->regs = r;
    w->regs_rows = want;
  }
  return grow_lanes(&w->local, &w->local_cap, base->local_base + fn->local_size) &&
         grow_lanes(&w->param, &w->param_cap, base->param_base + fn->param_size);
}

static bool start_warp(emu_exec *x, uint32_t id) {
  emu_warp *w = &x->warps[id];
  uint32_t lanes = x->nthreads - id * EMU_LANES;
  const emu_func *fn = x->kernel;
  w->id = id;
  w->live = lanes >= EMU_LANES ? 0xffffffffu : (1u << lanes) - 1;
  w->nfrag = 1;
  w->carry = w->turn = 0;
  w->ncopies = w->copy_number = w->nwgmma = w->wgmma_groups = 0;
  memset(w->bulk_groups, 0, sizeof w->bulk_groups);
  memset(w->groups, 0, sizeof w->groups);
  memset(w->clock, 0, sizeof w->clock);
  w->clock[id] = 1;
  emu_frag *f = &w->frag[0];
  memset(f, 0, sizeof *f);
  f->mask = w->live;
  f->stack[0].pc = fn->first;
  f->stack[0].func = (uint32_t)(fn - x->m->funcs);
  if (w->regs != NULL) memset(w->regs, 0xa5, (size_t)w->regs_rows * EMU_LANES * sizeof *w->regs);
  if (w->local != NULL) memset(w->local, 0xa5, (size_t)w->local_cap * EMU_LANES);
  return emu__reserve(w, fn, &f->stack[0]);
}

/* Runs the warp until it cannot go on or its turn is over; false when the launch is over. */
static bool run_warp(emu_exec *x, emu_warp *w, bool *progress) {
  const emu_ins *code = x->m->ins;
  x->w = w;
  for (int n = 0; n < QUANTUM && w->nfrag > 0; n++) {
    emu_frag *f = pick(w);
    if (f == NULL) return true;
    const emu_ins *i = &code[f->stack[f->depth].pc];
    uint32_t mask = f->mask;
    x->f = f;
    x->i = i;
    if (x->executed >= x->budget) {
      x->status = EMU_TIMEOUT;
      emu__fault(x, -1, "the launch used up its %llu instructions; a loop may have no end",
                 (unsigned long long)x->budget);
      return false;
    }
    x->executed++;
    if (i->guarded) {
      const uint64_t *g = emu__reg(x, i->guard);
      uint32_t on = 0;
      for (int l = 0; l < EMU_LANES; l++) on |= (uint32_t)(g[l] & 1) << l;
      mask &= i->guard_neg ? ~on : on;
      if (mask == 0) {
        f->stack[f->depth].pc++;
        *progress = true;
        continue;
      }
    }
    switch (i->run(x, i, mask)) {
      case EMU_NEXT: x->f->stack[x->f->depth].pc++; break;
      case EMU_JUMPED: break;
      case EMU_BLOCKED: continue;
      case EMU_FAILED:
        if (x->status == EMU_OK) x->status = EMU_FAULT;
        return false;
    }
    *progress = true;
    if (x->report->count != 0 && x->status == EMU_NO_MEMORY) return false;
  }
  return true;
}

static void report_deadlock(emu_exec *x) {
  x->w = NULL;
  x->i = NULL;
  emu__report(x, -1, "deadlock: every thread waits");
  for (uint32_t k = 0; k < x->nwarps; k++) {
    const emu_warp *w = &x->warps[k];
    for (uint32_t a = 0; a < w->nfrag; a++) {
      const emu_frag *f = &w->frag[a];
      const emu_ins *i = &x->m->ins[emu__top(f)->pc];
      emu__note(x, "\n  warp %u, lanes 0x%08x: %s at PTX line %u", k, f->mask, emu__op_name[i->op], i->line);
      if (f->state == EMU_F_BARRIER) {
        const emu_barrier *b = &x->barriers[f->barrier];
        emu__note(x, ", barrier %u with %u of %u threads", f->barrier, b->arrived, b->expected);
      } else {
        emu__note(x, ", for lanes of its warp that do not come");
      }
    }
  }
}

bool emu__run_cta(emu_exec *x) {
  memset(x->barriers, 0, sizeof x->barriers);
  memset(x->sync_clock, 0, sizeof x->sync_clock);
  x->nreaders = 0;
  emu__async_reset(x);
  if (x->shared_size > 0) {
    memset(x->shared, 0xa5, x->shared_size);
    memset(x->shadow, 0, x->shared_size * sizeof *x->shadow);
  }
  for (uint32_t k = 0; k < x->nwarps; k++) {
    if (start_warp(x, k)) continue;
    x->status = EMU_NO_MEMORY;
    return false;
  }
  for (;;) {
    bool progress = false;
    uint32_t left = 0;
    for (uint32_t k = 0; k < x->nwarps; k++) {
      if (!run_warp(x, &x->warps[k], &progress)) return false;
      left += x->warps[k].nfrag;
    }
    if (left == 0) return x->status == EMU_OK;
    if (!progress) {
      report_deadlock(x);
      return false;
    }
  }
}
