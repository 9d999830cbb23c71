/* Texts for fuzzers: the seeded generator, editing within a size limit, the files that rounds start from. Each fuzzer
 * is one file and one process, so that the state may be static. */
#ifndef TESTS_FUZZ_TEXTS_H
#define TESTS_FUZZ_TEXTS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1 << 16 };

typedef struct text {
  char *at;
  size_t n;
} text;

static uint64_t state;

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random_bits(void) {
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static inline size_t below(size_t n) { return n ? (size_t)(random_bits() % n) : 0; }

/* Replaces `gone` bytes at `where` by `n` others, within the size limit. */
static inline void replace(text *t, size_t where, size_t gone, const char *with, size_t n) {
  if (gone > t->n - where) gone = t->n - where;
  if (t->n - gone + n > MAX_TEXT) return;
  char *copy = malloc(n + 1);
  if (!copy) abort();
  if (n) memcpy(copy, with, n);
  memmove(t->at + where + n, t->at + where + gone, t->n - where - gone);
  if (n) memcpy(t->at + where, copy, n);
  t->n = t->n - gone + n;
  free(copy);
}

typedef struct corpus {
  text *at;
  size_t n;
} corpus;

static inline bool load(corpus *c, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  text t = {.at = malloc(MAX_TEXT)};
  c->at = realloc(c->at, (c->n + 1) * sizeof *c->at);
  if (!t.at || !c->at) abort();
  t.n = fread(t.at, 1, MAX_TEXT, f);
  fclose(f);
  c->at[c->n++] = t;
  return true;
}

/* Every .tk and .py file below a folder, in order of names, so that rounds do not depend on the file system. */
static inline void load_folder(corpus *c, const char *folder) {
  struct dirent **entries;
  int n = scandir(folder, &entries, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    size_t len = strlen(name);
    char path[1024];
    int size = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (size > 0 && (size_t)size < sizeof path && name[0] != '.') {
      if (len > 3 && (!strcmp(name + len - 3, ".tk") || !strcmp(name + len - 3, ".py")))
        load(c, path);
      else if (!strchr(name, '.'))
        load_folder(c, path);
    }
    free(entries[i]);
  }
  if (n >= 0) free(entries);
}

#endif
