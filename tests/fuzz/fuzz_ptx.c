/* Bounded fuzzing of what reads a .ptx: the metadata block, the emulator's parser, and the binding of kernels; to be
 * built under ASan and UBSan.
 *
 *     fuzz_ptx [ROUNDS [SEED]]       from the root of the repository
 *
 * The examples are compiled first. Each round mutates one of the results (bytes, ranges, lines, words of PTX and of the
 * metadata) or makes raw bytes, loads it on the CPU device and binds every kernel of it. Nothing is launched: a mutated
 * kernel may run for ever. A text is accepted or refused with a message; a refusal by the metadata names line and
 * column. Seeded: FUZZ_ROUND=n runs only that round and FUZZ_SAVE=path writes its text. Exit status 1 on a broken
 * invariant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compiler/tkc.h"
#include "runtime/tk.h"

enum { MAX_SEEDS = 8, MAX_TEXT = 1 << 18, MAX_SECONDS = 5 };

static const char *const sources[] = {"examples/vector_add.tk", "examples/softmax.tk"};

/* What no example compiles to: a persistent kernel with tensor maps. */
static const char mapped[] =
    "// tkc 5 {\"source\":\"m.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_90a\",\"ptx\":\"8.0\",\"kernels\":1}\n"
    "// tkc kernel {\"name\":\"m\",\"warps\":8,\"producer_warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,"
    "\"dynamic_shared\":0,\"params\":4,\"maps\":2,\"persistent\":true}\n"
    "// tkc param {\"name\":\"x\",\"kind\":\"pointer\",\"dtype\":\"f32\"}\n"
    "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\"}\n"
    "// tkc param {\"name\":\"d\",\"kind\":\"descriptor\",\"dtype\":\"f16\",\"block\":\"8, 8\"}\n"
    "// tkc param {\"name\":\"K\",\"kind\":\"constexpr\",\"type\":\"int\",\"value\":\"64\"}\n"
    "// tkc map {\"param\":\"x\",\"dtype\":\"tf32\",\"sizes\":\"K, n\",\"strides\":\"1, K\",\"box\":\"32, "
    "8\",\"swizzle\":128}\n"
    "// tkc map "
    "{\"param\":\"d\",\"dtype\":\"f16\",\"sizes\":\"d.shape[1]\",\"strides\":\"1\",\"box\":\"8\",\"swizzle\":0}\n"
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry m(.param .u64 x, .param .u32 n, .param .u64 d, .param .u32 d0, .param .u32 d1, .param .u64 d2, "
    ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 8 .b8 p[24])\n"
    "{\n ret;\n}\n";

static const char *const words[] = {
    "// tkc 1 {",
    "// tkc 2 {",
    "// tkc 3 {",
    "// tkc 4 {",
    "// tkc 5 {",
    "\"kind\":\"descriptor\"",
    "\"block\":\"64, 8\"",
    "d.stride(0)",
    "// tkc kernel {",
    "// tkc param {",
    "// tkc map {",
    "\"maps\":1",
    "\"persistent\":false",
    "\"gang\":3",
    "\"producer_warps\":31",
    "\"1, 1, 1, 1, 1\"",
    "\"dtype\":\"tf32\"",
    "\"params\":4096",
    "\"kernels\":2",
    "\"kernels\":0",
    "\"kind\":\"constexpr\"",
    "\"value\":\"1e999\"",
    "\"dtype\":\"i1\"",
    "\"passed\":false",
    "\"equals_one\":true",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[[[[[[[[",
    "}",
    "\n",
    "\r\n",
    ".version 9.9",
    ".target sm_90a",
    ".visible .entry ",
    ".func ",
    ".param .u64 ",
    ".reg .b32 %r<4294967295>;",
    ".reg .pred %p<2>;",
    ".shared .align 16 .b8 s[99999999999];",
    "bra $L__BB0_1;",
    "@%p1 ",
    "ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1+",
    "-9223372036854775808",
    "0f7f800000",
    "0x",
    "{",
    "(",
    ")",
    ";",
    "ret;",
    "\xff",
    "/*",
    "//",
    "\"",
    ".loc 1 2 3",
    ".file 1 \"x\"",
    "bar.sync 0;",
    "shfl.sync.bfly.b32",
};

static uint64_t state;

static uint32_t next_random(uint32_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((state >> 33) % below);
}

typedef struct text {
  char *at;
  size_t n;
} text;

/* Replaces `cut` bytes at `where` by `n` bytes of `with`, which must not point into the text. */
static void splice(text *t, size_t where, size_t cut, const char *with, size_t n) {
  if (where > t->n) where = t->n;
  if (cut > t->n - where) cut = t->n - where;
  if (t->n - cut + n > MAX_TEXT) return;
  memmove(t->at + where + n, t->at + where + cut, t->n - where - cut);
  memcpy(t->at + where, with, n);
  t->n = t->n - cut + n;
}

static size_t line_at(const text *t, size_t where, size_t *length) {
  while (where > 0 && t->at[where - 1] != '\n') where--;
  const char *end = memchr(t->at + where, '\n', t->n - where);
  *length = end ? (size_t)(end - t->at) - where + 1 : t->n - where;
  return where;
}

static void mutate(text *t) {
  if (t->n == 0) return;
  /* half of all mutations hit the metadata, which is a small part of the text */
  size_t where = next_random(next_random(2) && t->n > 600 ? 600 : (uint32_t)t->n), length;
  switch (next_random(7)) {
    case 0: t->at[where] = (char)next_random(256); break;
    case 1: t->at[where] = (char)(t->at[where] ^ (1 << next_random(8))); break;
    case 2: splice(t, where, 1 + next_random(40), "", 0); break;
    case 3: {
      const char *word = words[next_random(sizeof words / sizeof *words)];
      splice(t, where, next_random(2) ? strlen(word) : 0, word, strlen(word));
      break;
    }
    case 4: {
      char copy[512];
      where = line_at(t, where, &length);
      if (length > sizeof copy) length = sizeof copy;
      memcpy(copy, t->at + where, length);
      splice(t, next_random((uint32_t)t->n), 0, copy, length);
      break;
    }
    case 5:
      where = line_at(t, where, &length);
      splice(t, where, length, "", 0);
      break;
    default:
      if (next_random(8) == 0) t->n = where;
  }
}

static void make_text(text *t, const text *seeds, int n_seeds) {
  if (next_random(16) == 0) {
    t->n = next_random(400);
    for (size_t i = 0; i < t->n; i++) t->at[i] = (char)next_random(256);
    return;
  }
  const text *s = &seeds[next_random((uint32_t)n_seeds)];
  memcpy(t->at, s->at, s->n);
  t->n = s->n;
  for (uint32_t i = 1 + next_random(4); i > 0; i--) mutate(t);
}

/* NULL, or the invariant that broke. */
static const char *check(tk_context *cx, const text *t, int *accepted) {
  char *exact = malloc(t->n ? t->n : 1); /* so that the sanitizer sees a read past the end */
  tk_module *m;
  const char *fault = NULL;
  if (!exact) abort();
  memcpy(exact, t->at, t->n);
  tk_status s = tk_module_load_text(cx, "f.ptx", exact, t->n, NULL, &m);
  free(exact);
  if (s != TK_OK && (m || !*tk_error(cx))) return "a refusal without a text";
  if (s == TK_BAD_ARTIFACT && !strstr(tk_error(cx), "f.ptx:") && !strstr(tk_error(cx), "NUL"))
    return "a refusal without a place";
  if (s != TK_OK) return NULL;
  ++*accepted;
  for (int i = 0; i < tk_module_count(m) && !fault; i++) {
    tk_kernel *k;
    s = tk_module_kernel(m, tk_module_kernel_name(m, i), &k);
    if (s != TK_OK && (k || !*tk_error(cx))) fault = "a kernel refused without a text";
    tk_kernel_free(k);
  }
  tk_module_free(m);
  return fault;
}

static bool compile(const char *path, text *out) {
  tkc_session *s = tkc_open();
  tkc_output ptx;
  tkc_options o = {.arch = "sm_80"};
  bool ok = s && tkc_load_file(s, path) == TKC_OK && tkc_compile(s, &o, &ptx) == TKC_OK && ptx.len < MAX_TEXT;
  if (ok) {
    out->at = malloc(ptx.len + 1);
    out->n = ptx.len;
    if (!out->at) abort();
    memcpy(out->at, ptx.text, ptx.len);
  } else {
    fprintf(stderr, "fuzz_ptx: cannot compile %s\n%s", path, s ? tkc_diagnostics(s, TKC_DIAG_LINE, false) : "");
  }
  tkc_close(s);
  return ok;
}

int main(int argc, char **argv) {
  unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 4000, seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
  const char *only = getenv("FUZZ_ROUND"), *save = getenv("FUZZ_SAVE");
  unsigned long round = only ? strtoul(only, NULL, 10) : 0, last = only ? round + 1 : rounds;
  text seeds[MAX_SEEDS] = {{0}}, t = {.at = malloc(MAX_TEXT)};
  int n_seeds = 0, accepted = 0, status = 0;
  tk_context *cx;
  if (!t.at || tk_context_open(&cx, &(tk_options){.device = "cpu"}) != TK_OK) abort();
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    if (!compile(sources[i], &seeds[n_seeds++])) return 2;
    if (check(cx, &seeds[n_seeds - 1], &accepted) || accepted != n_seeds) {
      printf("%s: its own PTX is refused: %s\n", sources[i], tk_error(cx));
      return 1;
    }
  }
  seeds[n_seeds] = (text){.at = malloc(sizeof mapped), .n = sizeof mapped - 1};
  if (!seeds[n_seeds].at) abort();
  memcpy(seeds[n_seeds++].at, mapped, sizeof mapped);
  if (check(cx, &seeds[n_seeds - 1], &accepted) || accepted != n_seeds) {
    printf("a kernel with tensor maps is refused: %s\n", tk_error(cx));
    return 1;
  }
  for (accepted = 0; round < last && status == 0; round++) {
    state = seed * UINT64_C(1000003) + round;
    make_text(&t, seeds, n_seeds);
    if (save) {
      FILE *f = fopen(save, "wb");
      if (!f || fwrite(t.at, 1, t.n, f) != t.n || fclose(f) != 0) abort();
    }
    clock_t start = clock();
    const char *fault = check(cx, &t, &accepted);
    if (!fault && clock() - start > (clock_t)MAX_SECONDS * CLOCKS_PER_SEC) fault = "it takes too long";
    if (!fault) continue;
    printf("round %lu (seed %lu, %zu bytes): %s\n", round, seed, t.n, fault);
    status = 1;
  }
  if (status == 0) printf("%lu rounds, seed %lu, %d texts accepted: all invariants hold\n", rounds, seed, accepted);
  for (int i = 0; i < n_seeds; i++) free(seeds[i].at);
  free(t.at);
  tk_context_close(cx);
  return status;
}
