/* Races between programs: a shadow of memory that knows who touched what.
 *
 * Programs run one after the other here, but nothing orders them on a GPU, so whoever touches an element another
 * program wrote is in a race, unless a chain of atomics orders the two. For each granule (the narrowest element that
 * the kernel accesses) the shadow holds the segment that wrote it last and the one that read it last; a second reader
 * sets MANY.
 *
 * A segment is a stretch of one program between two releases. A scalar atomic that releases appends (program, segment)
 * to the list of its address and begins a new segment; one that acquires notes how long that list is. A segment s of
 * program q then lies before what program p does now if some list that p acquired names q with a segment >= s, or names
 * a program for which the same held at that time. Only a conflict asks this question, so it is answered by a search,
 * and the last answer is kept (a tile meets the same writer in all its lanes). Vector clocks would answer at once, but
 * cost the square of the number of programs for a counter that all of them increment. */
#include "compiler/interp/machine.h"

#define ATOMIC (UINT32_C(1) << 31) /* of writer: the last write was an atomic */
#define MANY (UINT32_C(1) << 31)   /* of reader: other programs read it too */
#define SEGMENT (~ATOMIC)

struct shadow {
  uint32_t *writer, *reader; /* by granule: segment, 0 = nobody */
};

typedef struct release {
  int64_t program;
  uint32_t segment;
  int acquired; /* acquires of that program before it */
} release;

typedef struct place { /* an address that orders programs */
  uint64_t address;
  VEC(release) releases;
  int visited; /* of one search: releases that were looked at */
  struct place *next_visited, *next_in_bucket;
} place;

typedef struct acquire {
  place *at;
  int n_releases;
} acquire;

typedef struct history {
  VEC(acquire) acquires;
} history;

enum { N_BUCKETS = 1 << 12 };
struct race_log {
  machine *m;
  int shift;               /* log2 of the bytes of a granule */
  VEC(int64_t) program_of; /* by segment; 0 is nobody */
  place *buckets[N_BUCKETS];
  history **histories;              /* by program; made with the first acquire */
  uint32_t asked_segment, asked_by; /* the last search */
  int asked_acquires;
  bool answer;
};

race_log *race_log_new(machine *m) {
  race_log *log = ARENA_NEW(m->a, race_log);
  log->m = m;
  while (1 << log->shift < m->plan->granule) log->shift++;
  VEC_PUSH(m->a, log->program_of, RACE_NONE);
  for (int i = 0; i < m->n_buffers; i++) {
    shadow *s = ARENA_NEW(m->a, shadow);
    size_t n = (m->buffers[i].bytes >> log->shift) + 1;
    s->writer = ARENA_ARRAY(m->a, uint32_t, n);
    s->reader = ARENA_ARRAY(m->a, uint32_t, n);
    m->buffers[i].shadow = s;
  }
  return log;
}

static void begin_segment(worker *w) {
  race_log *log = w->m->races;
  if ((uint32_t)log->program_of.n >= SEGMENT - 1)
    base_panic("more than %d atomics that order programs", log->program_of.n);
  w->segment = (uint32_t)log->program_of.n;
  VEC_PUSH(w->m->a, log->program_of, w->program);
}

void race_begin_program(worker *w) { begin_segment(w); }

/* ---- order ---- */

static const history *history_of(const race_log *log, int64_t program) {
  return log->histories ? log->histories[program] : NULL;
}

static bool lies_before(race_log *log, worker *w, int64_t program, uint32_t segment) {
  const history *own = history_of(log, w->program);
  place *visited = NULL;
  bool found = false;
  VEC(acquire) todo = {0};
  arena *a = arena_new();
  for (int i = 0; own && i < own->acquires.n; i++) VEC_PUSH(a, todo, own->acquires.at[i]);
  while (todo.n && !found) {
    acquire next = todo.at[--todo.n];
    place *p = next.at;
    if (p->visited == 0) {
      p->next_visited = visited;
      visited = p;
    }
    int from = p->visited;
    if (next.n_releases > p->visited) p->visited = next.n_releases;
    for (int i = next.n_releases - 1; i >= from && !found; i--) {
      const release *r = &p->releases.at[i];
      found = r->program == program && r->segment >= segment;
      const history *h = history_of(log, r->program);
      for (int k = 0; h && k < r->acquired && !found; k++)
        if (h->acquires.at[k].n_releases > h->acquires.at[k].at->visited) VEC_PUSH(a, todo, h->acquires.at[k]);
    }
  }
  for (; visited; visited = visited->next_visited) visited->visited = 0;
  arena_free(a);
  return found;
}

/* Whether what segment s did is over before what this worker does now. */
static bool is_ordered(worker *w, uint32_t s) {
  race_log *log = w->m->races;
  int64_t program = log->program_of.at[s];
  if (program == w->program) return true;
  const history *own = history_of(log, w->program);
  if (!own) return false;
  if (log->asked_segment == s && log->asked_by == w->segment && log->asked_acquires == own->acquires.n)
    return log->answer;
  log->answer = lies_before(log, w, program, s);
  log->asked_segment = s;
  log->asked_by = w->segment;
  log->asked_acquires = own->acquires.n;
  return log->answer;
}

void race_sync(worker *w, uint64_t address, bool acquires, bool releases) {
  race_log *log = w->m->races;
  arena *a = w->m->a;
  place **bucket = &log->buckets[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52], *p = *bucket;
  while (p && p->address != address) p = p->next_in_bucket;
  if (!p) {
    p = ARENA_NEW(a, place);
    p->address = address;
    p->next_in_bucket = *bucket;
    *bucket = p;
  }
  if (!log->histories) log->histories = ARENA_ARRAY(a, history *, w->m->n_programs);
  history *own = log->histories[w->program];
  if (!own) own = log->histories[w->program] = ARENA_NEW(a, history);
  if (acquires && p->releases.n) {
    /* Waiting in a loop acquires the same address again and again: the longest list is enough. */
    acquire *last = own->acquires.n ? &own->acquires.at[own->acquires.n - 1] : NULL;
    bool again = last && last->at == p && last->n_releases == p->releases.n;
    if (!again) VEC_PUSH(a, own->acquires, ((acquire){p, p->releases.n}));
  }
  if (releases) {
    VEC_PUSH(a, p->releases, ((release){w->program, w->segment, own->acquires.n}));
    begin_segment(w);
  }
}

/* ---- accesses ---- */

static bool writer_races(worker *w, uint32_t writer, bool atomic, race_found *found) {
  if (!writer || (writer & SEGMENT) == w->segment || (atomic && (writer & ATOMIC)) || is_ordered(w, writer & SEGMENT))
    return false;
  found->other = w->m->races->program_of.at[writer & SEGMENT];
  return true;
}

bool race_read(worker *w, memory_buffer *b, size_t offset, int size, race_found *found) {
  race_log *log = w->m->races;
  size_t first = offset >> log->shift, last = (offset + (size_t)size - 1) >> log->shift;
  bool races = false;
  for (size_t g = first; g <= last; g++) {
    uint32_t r = b->shadow->reader[g];
    if (writer_races(w, b->shadow->writer[g], false, found)) {
      found->write_write = false;
      races = true;
    }
    if (r == w->segment) continue;
    b->shadow->reader[g] = w->segment | (r & MANY);
    if (r && !is_ordered(w, r & SEGMENT)) b->shadow->reader[g] |= MANY;
  }
  return races;
}

/* An atomic behind a plain write of the same program does not make that one harmless. */
static bool wrote_plainly(const race_log *log, const worker *w, uint32_t writer) {
  return writer && !(writer & ATOMIC) && log->program_of.at[writer] == w->program;
}

bool race_write(worker *w, memory_buffer *b, size_t offset, int size, bool atomic, race_found *found) {
  race_log *log = w->m->races;
  size_t first = offset >> log->shift, last = (offset + (size_t)size - 1) >> log->shift;
  bool races = false;
  for (size_t g = first; g <= last; g++) {
    uint32_t r = b->shadow->reader[g];
    if (writer_races(w, b->shadow->writer[g], atomic, found)) {
      found->write_write = true;
      races = true;
    } else if (r && !is_ordered(w, r & SEGMENT)) {
      found->write_write = false;
      found->other = log->program_of.at[r & SEGMENT];
      races = true;
    } else if ((r & MANY) && !history_of(log, w->program)) {
      found->write_write = false;
      found->other = RACE_SOMEONE;
      races = true;
    }
    b->shadow->writer[g] = w->segment | (atomic && !wrote_plainly(log, w, b->shadow->writer[g]) ? ATOMIC : 0);
  }
  return races;
}
