/* Memory of a module: everything that decoding makes lives until the module is freed, so it is taken from blocks and
 * never returned singly. Growing arrays double and leave their old copies behind, which costs at most as much again. A
 * total limit keeps hostile texts (a million declarations of a million registers) from eating the machine. */
#include "runtime/emu/internal.h"

#include <stdlib.h>
#include <string.h>

static const size_t block_size = (size_t)64 << 10;
static const size_t total_limit = (size_t)1 << 30;

void *emu__alloc(emu_arena *a, size_t size) {
  const size_t head = (sizeof(emu_block) + 15) & ~(size_t)15;
  if (size > total_limit || a->total + size > total_limit) longjmp(*a->oom, 2);
  size = (size + 15) & ~(size_t)15;
  if (a->head == NULL || a->head->size - a->head->used < size) {
    size_t want = size > block_size ? size : block_size;
    emu_block *b = calloc(1, head + want);
    if (b == NULL) longjmp(*a->oom, 2);
    b->size = want;
    b->next = a->head;
    a->head = b;
    a->total += want;
  }
  void *p = (uint8_t *)a->head + head + a->head->used;
  a->head->used += size;
  return p;
}

char *emu__strndup(emu_arena *a, const char *s, size_t n) {
  char *p = emu__alloc(a, n + 1);
  memcpy(p, s, n);
  p[n] = '\0';
  return p;
}

void *emu__grow(emu_arena *a, void *old, uint32_t count, uint32_t *cap, size_t elem) {
  if (count < *cap) return old;
  uint32_t want = *cap == 0 ? 16 : *cap * 2;
  if (want > UINT32_MAX / 4) longjmp(*a->oom, 2);
  void *p = emu__alloc(a, (size_t)want * elem);
  if (count > 0) memcpy(p, old, (size_t)count * elem);
  *cap = want;
  return p;
}

void emu__arena_free(emu_arena *a) {
  while (a->head != NULL) {
    emu_block *next = a->head->next;
    free(a->head);
    a->head = next;
  }
}
