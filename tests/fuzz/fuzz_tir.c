/* Bounded fuzzing of tile IR: reader, verifier, printer, interpreter; to be built under ASan and UBSan.
 *
 *     fuzz_tir [ROUNDS [SEED]]       from the root of the repository
 *
 * Each round mutates one of the goldens (bytes, ranges, lines, numbers, words of the language, lines of another golden)
 * or makes raw bytes. What cannot be read must be reported. What the verifier accepts must print, read back to the same
 * text and be accepted again, and is run by the interpreter on small buffers with a small budget: whatever that finds,
 * it must not crash. Seeded: FUZZ_ROUND=n runs only that round and FUZZ_SAVE=path writes its text. Exit status 1 on a
 * broken invariant. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/interp/interp.h"
#include "tests/test.h"

enum { MAX_SEEDS = 256, MAX_TEXT = 1 << 16, MAX_SECONDS = 5, N_BUFFERS = 3, BUFFER_BYTES = 4096 };

static const char *const words[] = {
#define OP(name, n_in, n_out, regions, effects, rule, flags, meaning) #name,
#include "compiler/ir/ops.def"
#undef OP
#define ATTR(name, type) #name " = ",
#include "compiler/ir/attrs.def"
#undef ATTR
#define DTYPE(name, text, triton, bits, bytes, kind, mantissa) text,
#include "compiler/ir/dtypes.def"
#undef DTYPE
    "%0",
    "%1",
    "%7",
    "%12",
    "%x",
    " = ",
    ", ",
    " : ",
    "{",
    "}",
    "(",
    ")",
    "[4]",
    "[1,1]",
    "[64]",
    "[1048576]",
    "[2,2]",
    "*",
    "*const ",
    "@r(1)l(2..32)w()",
    "@r()l(0,0,0,0,0)w(0)",
    "\"\"",
    "-1",
    "0",
    "1",
    "2147483647",
    "-9223372036854775808",
    "nan",
    "1e400",
    "0x7fffffff",
    "else",
    "stage(laid_out)",
    "stage(placed)",
    "num_warps(1)",
    "// x\n",
    "\n",
    "\xff"};
enum { N_WORDS = sizeof words / sizeof *words };

typedef struct seeds {
  char *text[MAX_SEEDS];
  size_t len[MAX_SEEDS];
  int n;
} seeds;

static uint64_t state;
static uint32_t draw(uint32_t n) { /* SplitMix64 (Steele, Lea, Flood) */
  uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ z >> 31) % n);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names in a folder, sorted: the order of rounds must not depend on the file system. */
static char **names_in(arena *a, const char *path, int *n) {
  VEC(char *) names = {0};
  DIR *d = opendir(path);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') VEC_PUSH(a, names, arena_printf(a, "%s/%s", path, e->d_name));
  if (d) closedir(d);
  if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_name);
  *n = names.n;
  return names.at;
}

static void load_seeds(arena *a, seeds *s) {
  int n_areas, n_files;
  char **areas = names_in(a, "tests/golden", &n_areas);
  for (int i = 0; i < n_areas; i++) {
    char **files = names_in(a, areas[i], &n_files);
    for (int k = 0; k < n_files && s->n < MAX_SEEDS; k++) {
      if (!strstr(files[k], ".tir")) continue;
      const char *problem;
      test_file *f = test_file_read(a, files[k], "passes arch tensor_maps errors", &problem);
      if (!f || f->input_len >= MAX_TEXT / 2) continue;
      s->text[s->n] = arena_copy(a, f->text, f->input_len);
      s->len[s->n++] = f->input_len;
    }
  }
}

/* ---- mutation ---- */

typedef struct text {
  char at[MAX_TEXT];
  size_t n;
} text;

static void replace(text *t, size_t at, size_t len, const char *with, size_t n) {
  if (at > t->n) at = t->n;
  if (len > t->n - at) len = t->n - at;
  if (t->n - len + n > MAX_TEXT) return;
  memmove(t->at + at + n, t->at + at + len, t->n - at - len);
  memcpy(t->at + at, with, n);
  t->n = t->n - len + n;
}

static size_t line_at(const char *s, size_t n, size_t pos, size_t *len) {
  size_t from = pos, to = pos;
  while (from > 0 && s[from - 1] != '\n') from--;
  while (to < n && s[to] != '\n') to++;
  *len = to < n ? to - from + 1 : to - from;
  return from;
}

static void mutate(text *t, const seeds *s) {
  char copy[4096];
  size_t pos = t->n ? draw((uint32_t)t->n) : 0, len, from;
  const char *word = words[draw(N_WORDS)];
  switch (draw(8)) {
    case 0: replace(t, pos, 1, (char[]){(char)draw(256)}, 1); break;
    case 1: replace(t, pos, draw(40), "", 0); break;
    case 2: replace(t, pos, 0, word, strlen(word)); break;
    case 3: { /* a word or number gives way to another one */
      const char *stop = " ,(){}[]:\n";
      while (pos > 0 && !strchr(stop, t->at[pos - 1])) pos--;
      for (len = 0; pos + len < t->n && !strchr(stop, t->at[pos + len]);) len++;
      replace(t, pos, len, word, strlen(word));
      break;
    }
    case 4:
      from = line_at(t->at, t->n, pos, &len);
      replace(t, from, len, "", 0);
      break;
    case 5: /* a line again, elsewhere */
      from = line_at(t->at, t->n, pos, &len);
      if (len > sizeof copy) return;
      memcpy(copy, t->at + from, len);
      from = line_at(t->at, t->n, draw((uint32_t)t->n + 1), &from);
      replace(t, from, 0, copy, len);
      break;
    case 6: { /* a line of another golden */
      int k = (int)draw((uint32_t)s->n);
      from = line_at(s->text[k], s->len[k], draw((uint32_t)s->len[k]), &len);
      size_t ignored;
      replace(t, line_at(t->at, t->n, pos, &ignored), 0, s->text[k] + from, len);
      break;
    }
    default: { /* another value name: of a definition or a use */
      while (pos < t->n && t->at[pos] != '%') pos++;
      for (len = 1; pos + len < t->n && !strchr(" ,(){}:\n", t->at[pos + len]);) len++;
      size_t other = t->n ? draw((uint32_t)t->n) : 0, n = 1;
      while (other < t->n && t->at[other] != '%') other++;
      if (other == t->n || pos == t->n) return;
      while (other + n < t->n && !strchr(" ,(){}:\n", t->at[other + n])) n++;
      if (n > sizeof copy) return;
      memcpy(copy, t->at + other, n);
      replace(t, pos, len, copy, n);
    }
  }
}

static void make_text(text *t, const seeds *s) {
  t->n = 0;
  if (draw(20) == 0) {
    for (uint32_t n = draw(200); t->n < n;) t->at[t->n++] = (char)draw(256);
    return;
  }
  int k = (int)draw((uint32_t)s->n);
  memcpy(t->at, s->text[k], t->n = s->len[k]);
  for (uint32_t n = draw(6); n > 0; n--) mutate(t, s);
}

/* ---- one round ---- */

static void ignore_print(void *user, const char *line, size_t len) { *(size_t *)user += line[0] ? len : 0; }

static void interpret(const tir_fn *fn, diag_sink *sink) {
  static char memory[N_BUFFERS][BUFFER_BYTES];
  static const char *const names[] = {"a", "b", "c"};
  interp_buffer buffers[N_BUFFERS];
  for (int i = 0; i < N_BUFFERS; i++) buffers[i] = (interp_buffer){names[i], memory[i], BUFFER_BYTES};
  uint64_t *args = ARENA_ARRAY(fn->a, uint64_t, fn->n_params);
  for (int i = 0; i < fn->n_params; i++)
    args[i] =
        tir_is_ptr(fn->params[i].value->type) ? (uint64_t)(uintptr_t)memory[i % N_BUFFERS] : 16 * (uint64_t)draw(8);
  size_t printed = 0;
  interp_options o = {.grid = {2, 1 + draw(2), 1},
                      .order_seed = draw(2),
                      .max_steps = 3000,
                      .max_findings = 10,
                      .print = ignore_print,
                      .user = &printed};
  interp_run(fn, buffers, N_BUFFERS, args, fn->n_params, &o, sink);
}

static const char *print(arena *a, const tir_fn *fn) {
  textbuf b;
  text_init(&b, a);
  tir_print(fn, &b);
  return b.at;
}

typedef struct counts {
  long read, valid;
} counts;

/* NULL, or what is wrong. */
static const char *round_trip(arena *a, const text *t, counts *c) {
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  src_map *sources = src_map_new(a);
  diag_sink sink;
  diag_sink_init(&sink, a, sources);
  tir_fn *fn = tir_read(cx, a, &sink, src_add(sources, "fuzz.tir", t->at, t->n));
  if (!fn) return sink.n_errors == 1 ? NULL : "no error reported";
  if (sink.first) return "an error although it was read";
  c->read++;
  const char *complaint = tir_verify(fn), *once = print(a, fn);
  tir_fn *again = tir_read(cx, a, &sink, src_add(sources, "again.tir", once, strlen(once)));
  if (!again) return "its print does not read back";
  if (strcmp(print(a, again), once) != 0) return "its print reads back to another text";
  if ((tir_verify(again) == NULL) != (complaint == NULL)) return "the verifier judges its print differently";
  if (complaint) return NULL;
  c->valid++;
  interpret(again, &sink);
  textbuf b;
  text_init(&b, a);
  diag_render(&sink, DIAG_TEXT, true, &b);
  return NULL;
}

static const char *guarded(arena *a, const text *t, counts *c) {
  base_guard g;
  const char *volatile wrong = NULL;
  base_guard_push(&g);
  if (setjmp(g.jump) == 0)
    wrong = round_trip(a, t, c);
  else
    wrong = arena_printf(a, "panic: %s", g.message);
  base_guard_pop(&g);
  return wrong;
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  const char *only = getenv("FUZZ_ROUND"), *save = getenv("FUZZ_SAVE");
  arena *keep = arena_new();
  static seeds s;
  static text t;
  load_seeds(keep, &s);
  if (s.n == 0) {
    fprintf(stderr, "fuzz_tir: no goldens found: run it from the root of the repository\n");
    return 1;
  }
  counts c = {0, 0};
  long i = only ? strtol(only, NULL, 10) : 0;
  clock_t end = clock() + MAX_SECONDS * CLOCKS_PER_SEC;
  for (; i < rounds && (argc > 1 || clock() < end); i++) {
    state = seed * UINT64_C(1000003) + (uint64_t)i;
    make_text(&t, &s);
    if (save && !test_write_file(save, t.at, t.n)) return 1;
    arena *a = arena_new();
    const char *wrong = guarded(a, &t, &c);
    if (wrong) {
      fprintf(stderr, "fuzz_tir: round %ld of seed %llu: %s\n%.*s\n", i, (unsigned long long)seed, wrong, (int)t.n,
              t.at);
      return 1;
    }
    arena_free(a);
    if (only) break;
  }
  printf("%ld rounds, %ld read, %ld valid and run\n", i, c.read, c.valid);
  arena_free(keep);
  return 0;
}
