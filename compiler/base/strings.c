/* Interned strings, text buffers, and the hash both they and other tables use.
 *
 * The table is open addressing with linear probing, a power of two in size and at most half full; entries keep their
 * hash, so that growing touches no text. */
#include "compiler/base/base.h"

#include <string.h>

uint64_t hash_bytes(uint64_t seed, const void *p, size_t n) {
  const unsigned char *b = p;
  uint64_t h = seed;
  for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(0x100000001b3);
  return h;
}

typedef struct entry {
  const char *s; /* NULL: free */
  size_t len;
  uint64_t hash;
} entry;

struct strtab {
  arena *a;
  entry *at;
  size_t cap, n;
};

strtab *strtab_new(arena *a) {
  strtab *t = ARENA_NEW(a, strtab);
  t->a = a;
  t->cap = 256;
  t->at = ARENA_ARRAY(a, entry, t->cap);
  return t;
}

static void strtab_double(strtab *t) {
  size_t cap = t->cap * 2;
  entry *at = ARENA_ARRAY(t->a, entry, cap);
  for (size_t i = 0; i < t->cap; i++) {
    if (!t->at[i].s) continue;
    size_t k = (size_t)t->at[i].hash & (cap - 1);
    while (at[k].s) k = (k + 1) & (cap - 1);
    at[k] = t->at[i];
  }
  t->at = at;
  t->cap = cap;
}

const char *strtab_intern(strtab *t, const char *s, size_t len) {
  uint64_t hash = hash_bytes(HASH_SEED, s, len);
  size_t k = (size_t)hash & (t->cap - 1);
  for (; t->at[k].s; k = (k + 1) & (t->cap - 1)) {
    const entry *e = &t->at[k];
    if (e->hash == hash && e->len == len && (len == 0 || memcmp(e->s, s, len) == 0)) return e->s;
  }
  char *copy = arena_alloc(t->a, len + 1);
  if (len) memcpy(copy, s, len);
  t->at[k] = (entry){.s = copy, .len = len, .hash = hash};
  t->n++;
  if (t->n * 2 > t->cap) strtab_double(t);
  return copy;
}

const char *strtab_str(strtab *t, const char *s) { return strtab_intern(t, s, strlen(s)); }

/* Makes room for n more bytes and the closing NUL. */
static void text_reserve(textbuf *b, size_t n) {
  if (n < b->cap - b->n) return;
  if (n > SIZE_MAX / 4 || b->cap > SIZE_MAX / 4) base_panic("out of memory (a text of %zu bytes)", b->n);
  size_t cap = b->cap * 2;
  if (cap < b->n + n + 1) cap = b->n + n + 1;
  char *at = arena_alloc(b->a, cap);
  memcpy(at, b->at, b->n + 1);
  b->at = at;
  b->cap = cap;
}

void text_init(textbuf *b, arena *a) {
  b->a = a;
  b->n = 0;
  b->cap = 64;
  b->at = arena_alloc(a, b->cap);
}

void text_add(textbuf *b, const char *s, size_t n) {
  if (n == 0) return;
  text_reserve(b, n);
  memcpy(b->at + b->n, s, n);
  b->n += n;
  b->at[b->n] = '\0';
}

void text_str(textbuf *b, const char *s) { text_add(b, s, strlen(s)); }

void text_char(textbuf *b, char c) { text_add(b, &c, 1); }

void text_printf(textbuf *b, const char *fmt, ...) {
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(b->at + b->n, b->cap - b->n, fmt, ap);
  va_end(ap);
  BASE_ASSERT(n >= 0);
  if ((size_t)n >= b->cap - b->n) {
    b->at[b->n] = '\0';
    text_reserve(b, (size_t)n);
    vsnprintf(b->at + b->n, b->cap - b->n, fmt, again);
  }
  va_end(again);
  b->n += (size_t)n;
}
