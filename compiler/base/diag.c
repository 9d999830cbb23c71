/* Collecting diagnostics.
 *
 * Identical ones are dropped by a hash set over id, place and text: a helper that is specialised ten times reports its
 * mistake once, and a file with a mistake on each of a million lines stays linear. What is not kept is answered with
 * the sink's `ignored` diagnostic, whose missing sink makes notes on it do nothing. */
#include "compiler/base/base.h"

#include <string.h>

void diag_sink_init(diag_sink *s, arena *a, src_map *sources) {
  memset(s, 0, sizeof *s);
  s->a = a;
  s->sources = sources;
}

/* Command-line names use '-', ids '_'. */
static bool same_name(const char *a, const char *b) {
  for (;; a++, b++) {
    char x = *a == '-' ? '_' : *a, y = *b == '-' ? '_' : *b;
    if (x != y) return false;
    if (x == '\0') return true;
  }
}

static bool is_off(const diag_sink *s, const diag_desc *d) {
  for (int i = 0; i < s->off.n; i++)
    if (same_name(s->off.at[i], d->id)) return true;
  return false;
}

static uint64_t diag_hash(const diag_desc *d, span at, const char *message) {
  uint64_t h = hash_bytes(HASH_SEED, &at, sizeof at);
  h = hash_bytes(h, d->id, strlen(d->id));
  return hash_bytes(h, message, strlen(message));
}

/* Slot of the equal diagnostic, or the free slot where it belongs. */
static diag **seen_slot(diag **slots, int cap, const diag_desc *d, span at, const char *message) {
  uint32_t mask = (uint32_t)cap - 1;
  uint32_t k = (uint32_t)diag_hash(d, at, message) & mask;
  for (;; k = (k + 1) & mask) {
    const diag *e = slots[k];
    if (!e) return &slots[k];
    if (e->at.pos == at.pos && e->at.len == at.len && strcmp(e->desc->id, d->id) == 0 &&
        strcmp(e->message, message) == 0)
      return &slots[k];
  }
}

static void seen_reserve(diag_sink *s) {
  if (s->seen.n * 2 < s->seen.cap) return;
  int cap = s->seen.cap ? s->seen.cap * 2 : 64;
  diag **slots = ARENA_ARRAY(s->a, diag *, cap);
  for (diag *d = s->first; d; d = d->next) *seen_slot(slots, cap, d->desc, d->at, d->message) = d;
  s->seen.at = slots;
  s->seen.cap = cap;
}

static diag *ignored(diag_sink *s) {
  memset(&s->ignored, 0, sizeof s->ignored);
  return &s->ignored;
}

diag *diag_add(diag_sink *s, span at, const diag_desc *d, ...) {
  diag_severity severity = d->severity;
  if (severity == DIAG_WARNING) {
    if (is_off(s, d)) return ignored(s);
    if (s->warnings_error) severity = DIAG_ERROR;
  }
  if (severity == DIAG_ERROR && s->max_errors > 0 && s->n_errors >= s->max_errors) {
    s->n_errors++;
    return ignored(s);
  }

  va_list ap;
  va_start(ap, d);
  const char *message = arena_vprintf(s->a, d->format, ap);
  va_end(ap);
  seen_reserve(s);
  diag **slot = seen_slot(s->seen.at, s->seen.cap, d, at, message);
  if (*slot) return ignored(s);

  diag *x = ARENA_NEW(s->a, diag);
  *x = (diag){.desc = d, .severity = severity, .at = at, .message = message, .sink = s};
  *slot = x;
  s->seen.n++;
  if (s->last)
    s->last->next = x;
  else
    s->first = x;
  s->last = x;
  s->n_errors += severity == DIAG_ERROR;
  s->n_warnings += severity == DIAG_WARNING;
  return x;
}

static void add_remark(diag *d, span at, bool is_fix, const char *fmt, va_list ap) {
  if (!d->sink) return;
  diag_remark *r = ARENA_NEW(d->sink->a, diag_remark);
  *r = (diag_remark){.at = at, .is_fix = is_fix, .message = arena_vprintf(d->sink->a, fmt, ap)};
  diag_remark **end = &d->remarks;
  while (*end) end = &(*end)->next;
  *end = r;
}

void diag_note(diag *d, span at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add_remark(d, at, false, fmt, ap);
  va_end(ap);
}

void diag_fix(diag *d, span at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  add_remark(d, at, true, fmt, ap);
  va_end(ap);
}
