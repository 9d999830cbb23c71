/* Arenas: memory that lives as long as a compilation (or a function) and is then dropped as a whole.
 *
 * A list of chunks from calloc, each filled from its front. Chunks double from 16 KiB to 1 MiB, so that a small kernel
 * costs one small chunk and a large one few calls; an item larger than a chunk gets one of its own behind the current
 * one, whose free room stays in use. Under AddressSanitizer every item is followed by 16 poisoned bytes, which brings
 * back the overrun checks that a bump allocator would lose. */
#include "compiler/base/base.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define REDZONE 16
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define REDZONE 0
#endif

#define ALIGN 16
#define FIRST_CHUNK ((size_t)16 << 10)
#define LARGEST_CHUNK ((size_t)1 << 20)

typedef struct chunk {
  struct chunk *next;
  size_t pad; /* keeps the items behind this header aligned */
} chunk;

_Static_assert(sizeof(chunk) % ALIGN == 0, "items follow the chunk header");

struct arena {
  chunk *chunks; /* the one being filled first */
  char *free;
  size_t room;
  size_t next_size;
};

static chunk *chunk_new(size_t bytes) {
  chunk *c = bytes > SIZE_MAX - sizeof(chunk) ? NULL : calloc(1, sizeof(chunk) + bytes);
  if (!c) base_panic("out of memory (asked for %zu bytes)", bytes);
  ASAN_POISON_MEMORY_REGION(c + 1, bytes);
  return c;
}

arena *arena_new(void) {
  arena *a = calloc(1, sizeof *a);
  if (!a) base_panic("out of memory (asked for %zu bytes)", sizeof *a);
  a->next_size = FIRST_CHUNK;
  return a;
}

void arena_free(arena *a) {
  if (!a) return;
  for (chunk *c = a->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}

void *arena_alloc(arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) base_panic("out of memory (asked for %zu bytes)", bytes);
  size_t step = ((bytes ? bytes : 1) + ALIGN - 1) / ALIGN * ALIGN + REDZONE;
  if (step > a->room) {
    bool own = step > a->next_size / 4;
    chunk *c = chunk_new(own ? step : a->next_size);
    if (own && a->chunks) {
      c->next = a->chunks->next;
      a->chunks->next = c;
      ASAN_UNPOISON_MEMORY_REGION(c + 1, bytes);
      return c + 1;
    }
    c->next = a->chunks;
    a->chunks = c;
    a->free = (char *)(c + 1);
    a->room = own ? step : a->next_size;
    if (!own && a->next_size < LARGEST_CHUNK) a->next_size *= 2;
  }
  void *p = a->free;
  a->free += step;
  a->room -= step;
  ASAN_UNPOISON_MEMORY_REGION(p, bytes);
  return p;
}

void *arena_copy(arena *a, const void *from, size_t bytes) {
  void *p = arena_alloc(a, bytes);
  if (bytes) memcpy(p, from, bytes);
  return p;
}

char *arena_vprintf(arena *a, const char *fmt, va_list ap) {
  BASE_ASSERT(fmt);
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  BASE_ASSERT(n >= 0);
  char *s = arena_alloc(a, (size_t)n + 1);
  vsnprintf(s, (size_t)n + 1, fmt, again);
  va_end(again);
  return s;
}

char *arena_printf(arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *s = arena_vprintf(a, fmt, ap);
  va_end(ap);
  return s;
}

void *vec_grow(arena *a, void *old, int *cap, int n, size_t item) {
  if (*cap > INT32_MAX / 2) base_panic("out of memory (a list of more than %d items)", *cap);
  int larger = *cap < 4 ? 8 : *cap * 2;
  void *p = arena_alloc(a, (size_t)larger * item);
  if (n > 0) memcpy(p, old, (size_t)n * item);
  *cap = larger;
  return p;
}
