/* Bounded fuzzing of names, binding and specialisation; to be built under ASan and UBSan.
 *
 *     fuzz_specialise [ROUNDS [SEED [FILE...]]]       from the root of the repository
 *
 * Each round takes a file (those given, or the repository's .tk files) and replaces some of its words by others, by
 * numbers and by whole expressions, moves or drops lines, or repeats them: most of the results still parse, and few
 * make sense. Every kernel is bound, parameters without a type to one drawn at random, and specialised. A function is
 * made exactly if nothing was reported as an error, and what is made passes the verifier. Seeded: FUZZ_ROUND=n runs
 * only that round and FUZZ_SAVE=path writes its text. Exit status 1 on a broken invariant. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lang/lang.h"
#include "tests/fuzz/texts.h"

enum { MAX_SECONDS = 5 };

static const char *const words[] = {
#define BUILTIN(name, params, flags, handler, data) #name,
#include "lang/builtins.def"
#undef BUILTIN
    "zeros",
    "sum",
    "softmax",
    "argmax",
    "cdiv",
    "zeros_like",
    "ravel",
    "sigmoid",
    "swizzle2d",
    "_max",
    "nothing",
    "f32",
    "f16",
    "bf16",
    "f8e4m3",
    "i1",
    "i8",
    "u8",
    "u32",
    "i64",
    "f64",
    "tensordesc",
    "tensordesc[f16[8, 8]]",
    "tensordesc[x[i], \"nan\"]",
    "None",
    "True",
    "False",
    "x",
    "n",
    "i",
    "a",
    "0",
    "1",
    "-1",
    "2",
    "3",
    "16",
    "1024",
    "65536",
    "1048576",
    "2147483648",
    "-9223372036854775808",
    "18446744073709551615",
    "1 << 100",
    "0.5",
    "-0.0",
    "1e300",
    "1e-40",
    "float('inf')",
    "float('nan')",
    "''",
    "'ieee'",
    "f'{n}'",
    "f'{1:08.3f}'",
    "()",
    "(1,)",
    "(0, 1)",
    "[4, 4]",
    "[None, :]",
    "[:, None]",
    "[0]",
    "[::2]",
    ".T",
    ".shape",
    ".dtype",
    ".to(f16)",
    ".to(i64)",
    ".type.element_ty",
    "(x + x)",
    "arange(0, 16)",
    "arange(0, 16)[:, None]",
    "zeros([8, 8], f16)",
    "load(x)",
    "make_block_ptr(x, (n, n), (n, 1), (0, 0), (8, 8), (1, 0))",
    "make_tensor_descriptor(x, [n, n], [n, 1], [8, 8])",
    ".advance((0, 8))",
    ".load([n, 0])",
    "boundary_check=(0, 1)",
    "(n > 0)",
    "(1 if n > 0 else 2)",
    "(x if n else 0.0)",
    "and",
    "or",
    "not",
    "is",
    "in",
    "**",
    "//",
    "%",
    "<<",
    "@",
    "== 0",
    "max(x, axis=0)",
    "range(0, n)",
    "static_range(3)",
    "range(n, 0, -1)",
    "return",
    "return n",
    "pass",
    "break",
    "lambda: 1",
    "y := n",
    "*x",
    "keep_dims=True",
    "mask=n > 0",
    "other=0",
    "axis=-1",
    "constexpr",
    "tl",
    "triton",
    "libdevice"};
enum { N_WORDS = sizeof words / sizeof *words };

static size_t line_start(const text *t, size_t i) {
  while (i > 0 && t->at[i - 1] != '\n') i--;
  return i;
}

static size_t line_length(const text *t, size_t i) {
  size_t n = 0;
  while (i + n < t->n && t->at[i + n] != '\n') n++;
  return i + n < t->n ? n + 1 : n;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static void mutate(text *t) {
  size_t where = below(t->n), line = line_start(t, where), other = line_start(t, below(t->n));
  const char *w = words[below(N_WORDS)];
  switch (below(8)) {
    case 0: replace(t, line, line_length(t, line), "", 0); break;
    case 1: replace(t, line, 0, t->at + other, line_length(t, other)); break;
    case 2: replace(t, line, 0, "  ", 2); break;
    case 3: replace(t, where, 0, w, strlen(w)); break;
    default: {
      while (where > 0 && is_word(t->at[where - 1])) where--;
      while (where < t->n && !is_word(t->at[where])) where++;
      size_t n = 0;
      while (where + n < t->n && is_word(t->at[where + n])) n++;
      replace(t, where, n, w, strlen(w));
    }
  }
}

/* NAME=VALUE for a constexpr, else NAME=TYPE with or without a divisibility. A descriptor is what it is annotated as.
 */
static const char *random_binding(arena *a, const lang_param *p) {
  if (p->kind == LANG_PARAM_CONSTEXPR) return arena_printf(a, "%s=%d", p->name, 1 << below(12));
  const char *type = tir_dtypes[below(DT_N)].text;
  if (p->descriptor) return arena_printf(a, "%s=tensordesc%s", p->name, below(2) ? "" : ":16");
  if (p->needs_block) return arena_printf(a, "%s=tensordesc<%s[8, 16]>%s", p->name, type, below(2) ? "" : ":16");
  return arena_printf(a, "%s=%s%s%s", p->name, below(2) ? "*" : "", type, below(3) ? "" : ":16");
}

/* What is wrong; NULL if nothing is. */
static const char *check(arena *a, const text *t) {
  src_map *sources = src_map_new(a);
  diag_sink sink;
  diag_sink_init(&sink, a, sources);
  sink.max_errors = 50;
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  lang_unit *u = lang_load(cx, &sink, sources, "fuzz.tk", t->at, t->n);
  for (int i = 0; i < lang_n_kernels(u); i++) {
    const lang_kernel *k = lang_kernel_at(u, i);
    lang_binding *b = ARENA_ARRAY(a, lang_binding, k->n_params + 1);
    lang_bind_init(k, b);
    for (int p = 0; p < k->n_params; p++)
      if (b[p].bound == LANG_UNBOUND) lang_bind_signature(u, k, random_binding(a, &k->params[p]), b);
    if (!lang_bind_finish(u, k, b)) {
      if (sink.n_errors == 0) return "a binding is refused in silence";
      continue;
    }
    lang_options o = {.has_f8e4m3 = below(2), .debug = below(2), .max_ops = 20000};
    int errors = sink.n_errors;
    tir_fn *fn = lang_specialise(u, k, b, &o, a);
    if (!fn && sink.n_errors == 0) return "a kernel is refused in silence";
    if (fn && sink.n_errors != errors) return "a kernel is made in spite of errors";
    const char *broken = fn ? tir_verify(fn) : NULL;
    if (broken) return broken;
  }
  textbuf out;
  text_init(&out, a);
  diag_render(&sink, DIAG_TEXT, false, &out);
  return NULL;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
  corpus files = {0};
  for (int i = 3; i < argc; i++) {
    if (load(&files, argv[i])) continue;
    fprintf(stderr, "fuzz_specialise: cannot read %s\n", argv[i]);
    return 2;
  }
  static const char *const folders[] = {"examples", "tests/run", "tests/error", "lang/std"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders && argc <= 3; i++) load_folder(&files, folders[i]);
  if (files.n == 0) {
    fprintf(stderr, "fuzz_specialise: no files; run it from the root of the repository\n");
    return 2;
  }
  const char *only = getenv("FUZZ_ROUND"), *save = getenv("FUZZ_SAVE");
  text t = {malloc(MAX_TEXT + 1), 0};
  if (!t.at) return 2;
  time_t end = time(NULL) + MAX_SECONDS;
  long round = 0;
  for (; round < rounds && (only || argc > 1 || time(NULL) < end); round++) {
    if (only && round != atol(only)) continue;
    state = seed ^ (uint64_t)round * UINT64_C(0xd1342543de82ef95);
    const text *f = &files.at[below(files.n)];
    memcpy(t.at, f->at, f->n);
    t.n = f->n;
    for (size_t i = 1 + below(4); i > 0 && t.n > 0; i--) mutate(&t);
    if (save) {
      FILE *o = fopen(save, "wb");
      if (o) {
        fwrite(t.at, 1, t.n, o);
        fclose(o);
      }
    }
    base_guard guard;
    base_guard_push(&guard);
    arena *a = arena_new();
    const char *fault = setjmp(guard.jump) == 0 ? check(a, &t) : guard.message;
    base_guard_pop(&guard);
    if (fault) {
      fprintf(stderr, "fuzz_specialise: round %ld, seed %llu: %s\n", round, (unsigned long long)seed, fault);
      return 1;
    }
    arena_free(a);
  }
  for (size_t i = 0; i < files.n; i++) free(files.at[i].at);
  free(files.at);
  free(t.at);
  printf("fuzz_specialise: %ld rounds\n", round);
  return 0;
}
