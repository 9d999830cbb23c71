/* Shared memory: reads of bytes that nobody wrote, races between warps, and copies in flight.
 *
 * Each warp carries a vector clock; a barrier joins the clocks of all that arrive and hands the result to all that
 * wait, so named barriers with a part of the warps order exactly those warps. Each byte remembers the last write and
 * the reads since, as (warp, clock): one reader while reads are ordered among themselves, a full vector once they are
 * not (FastTrack, Flanagan and Freund, PLDI 2009). Remembering only "touched since the last barrier" is the obvious
 * idea; it fails for producer and consumer warps that meet at different barriers. Lanes of one warp count as ordered by
 * the program.
 *
 * Accesses with a memory order (volatile, relaxed and stronger, atomics) do not race with each other; acquire and
 * release go through one clock for the whole CTA, which can hide a race between unrelated flags but never invents one.
 *
 * A copy marks its bytes until it is waited for: any other access to them is reported, and the data arrive only then.
 */
#include "runtime/emu/internal.h"

#include <stdlib.h>
#include <string.h>

void emu__clock_join(uint32_t *into, const uint32_t *from) {
  for (int k = 0; k < EMU_MAX_WARPS; k++)
    if (from[k] > into[k]) into[k] = from[k];
}

void emu__acquire(emu_exec *x) { emu__clock_join(x->w->clock, x->sync_clock); }

void emu__release(emu_exec *x) {
  emu__clock_join(x->sync_clock, x->w->clock);
  x->w->clock[x->w->id]++;
}

/* Each line is reported once; a loop over a tile would otherwise fill the report with one mistake. */
static bool first_time(emu_exec *x, uint32_t line) {
  for (uint32_t k = 0; k < x->nseen; k++)
    if (x->seen[k] == line) return false;
  if (x->nseen == sizeof x->seen / sizeof *x->seen) return false;
  x->seen[x->nseen++] = line;
  return true;
}

static bool ordered(const emu_exec *x, uint32_t warp, uint32_t clock) {
  return warp == x->w->id || x->w->clock[warp] >= clock;
}

static void race(emu_exec *x, uint32_t at, uint32_t lane, const char *mine, const char *theirs, uint32_t warp,
                 uint32_t line) {
  if ((x->o->flags & EMU_NO_RACES) || !first_time(x, x->i->line)) return;
  char place[256];
  emu__describe(x, EMU_SHARED, EMU_SHARED_START + (uint64_t)at, place, sizeof place);
  emu__report(x, (int)lane,
              "race in shared memory: %s of %s and %s by warp %u at PTX line %u have no barrier between them", mine,
              place, theirs, warp, line);
}

static void misuse(emu_exec *x, uint32_t at, uint32_t lane, const char *what) {
  if (!first_time(x, x->i->line)) return;
  char place[256];
  emu__describe(x, EMU_SHARED, EMU_SHARED_START + (uint64_t)at, place, sizeof place);
  emu__report(x, (int)lane, "%s: %s", what, place);
}

/* A reader vector for the byte, made from its single reader; NULL when memory is short (then the byte forgets that
 * reader). */
static uint32_t *reader_vector(emu_exec *x, emu_shadow *s) {
  if (s->readers != 0) return x->readers[s->readers - 1];
  if (x->nreaders == x->cap_readers) {
    uint32_t cap = x->cap_readers == 0 ? 1024 : x->cap_readers * 2;
    void *p = realloc(x->readers, cap * sizeof *x->readers);
    if (p == NULL) return NULL;
    x->readers = p;
    x->cap_readers = cap;
  }
  uint32_t *v = x->readers[x->nreaders++];
  memset(v, 0, sizeof *x->readers);
  s->readers = x->nreaders;
  v[s->read_warp] = s->read_clock;
  return v;
}

static void record_read(emu_exec *x, emu_shadow *s, bool strong, uint32_t line) {
  uint32_t w = x->w->id, clock = x->w->clock[w];
  bool alone = !(s->state & EMU_SH_READ) || (s->readers == 0 && ordered(x, s->read_warp, s->read_clock));
  if (!alone) {
    uint32_t *v = reader_vector(x, s);
    if (v != NULL) v[w] = clock;
    if (!strong) s->state &= (uint8_t)~EMU_SH_STRONG_R;
  } else {
    s->state = (uint8_t)((s->state & ~EMU_SH_STRONG_R) | EMU_SH_READ | (strong ? EMU_SH_STRONG_R : 0));
  }
  s->read_warp = (uint8_t)w;
  s->read_clock = clock;
  s->read_line = line;
}

static void check_readers(emu_exec *x, const emu_shadow *s, uint32_t at, uint32_t lane) {
  if (s->readers == 0) {
    if (!ordered(x, s->read_warp, s->read_clock)) race(x, at, lane, "write", "read", s->read_warp, s->read_line);
    return;
  }
  const uint32_t *v = x->readers[s->readers - 1];
  for (uint32_t r = 0; r < x->nwarps; r++) {
    if (v[r] == 0 || ordered(x, r, v[r])) continue;
    race(x, at, lane, "write", "read", r, s->read_line);
    return;
  }
}

void emu__shadow_touch(emu_exec *x, uint32_t at, uint32_t size, uint32_t lane, unsigned how, uint32_t line) {
  uint32_t w = x->w->id;
  bool strong = (how & EMU_STRONG) != 0;
  for (uint32_t k = at; k < at + size; k++) {
    emu_shadow *s = &x->shadow[k];
    if (s->state & EMU_SH_PENDING) misuse(x, k, lane, "access to shared memory while a copy into it is in flight");
    if ((how & EMU_WRITE) && (s->state & EMU_SH_SOURCE))
      misuse(x, k, lane, "write to shared memory while a bulk copy out of it is in flight");
    if ((how & EMU_READ) && !(s->state & (EMU_SH_INIT | EMU_SH_PENDING)) && !(x->o->flags & EMU_NO_UNINIT))
      misuse(x, k, lane, "read of shared memory that was never written");
    if ((s->state & EMU_SH_WRITTEN) && !(strong && (s->state & EMU_SH_STRONG_W)) &&
        !ordered(x, s->write_warp, s->write_clock))
      race(x, k, lane, (how & EMU_WRITE) ? "write" : "read", "write", s->write_warp, s->write_line);
    if (how & EMU_WRITE) {
      if ((s->state & EMU_SH_READ) && !(strong && (s->state & EMU_SH_STRONG_R))) check_readers(x, s, k, lane);
      s->state = (uint8_t)((s->state & (EMU_SH_PENDING | EMU_SH_SOURCE)) | EMU_SH_INIT | EMU_SH_WRITTEN |
                           (strong ? EMU_SH_STRONG_W : 0));
      s->readers = 0;
      s->write_warp = (uint8_t)w;
      s->write_clock = x->w->clock[w];
      s->write_line = line;
    } else {
      record_read(x, s, strong, line);
    }
  }
}

void emu__land_copies(emu_exec *x, uint32_t lane, uint32_t groups, uint32_t numbers) {
  emu_warp *w = x->w;
  uint32_t keep = 0;
  for (uint32_t k = 0; k < w->ncopies; k++) {
    emu_copy *c = &w->copies[k];
    if (c->lane != lane || c->group >= groups || c->number >= numbers) {
      w->copies[keep++] = *c;
      continue;
    }
    for (uint32_t b = 0; b < c->size; b++) x->shadow[c->shared + b].state &= (uint8_t)~EMU_SH_PENDING;
    emu__shadow_touch(x, c->shared, c->size, lane, EMU_WRITE, c->line);
    memcpy(x->shared + c->shared, c->data, c->size);
  }
  w->ncopies = keep;
}
