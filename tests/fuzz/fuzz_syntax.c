/* Bounded fuzzing of lexer, parser, tree printer and diagnostics; to be built under ASan and UBSan.
 *
 *     fuzz_syntax [ROUNDS [SEED [FILE...]]]       from the root of the repository
 *
 * Each round makes one text: a file (those given, or the repository's own .tk files) with a few mutations of bytes,
 * ranges, lines, tokens of the language, indentation; a text put together from tokens alone; or raw bytes. It is
 * parsed, checked, printed, and its diagnostics are rendered in every style. The generator is seeded, so that a failure
 * is reproduced by its round alone: FUZZ_ROUND=n runs only that round and FUZZ_SAVE=path writes its text. Exit status 1
 * on a broken invariant. */
#include "compiler/base/base.h"
#include "lang/ast.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/fuzz/texts.h"

#define MAX_SECONDS 5.0

static const char *const token_texts[] = {
#define LAYOUT(name, text)
#define FAMILY(name, text)
#define TOKEN(name, text) text,
#include "lang/tokens.def"
#undef TOKEN
    "\n",
    "\n    ",
    "\n\t",
    "\r\n",
    "\\\n",
    " ",
    "x",
    "match",
    "const",
    "1",
    "0x1f",
    "1.5e3",
    "2j",
    "'a'",
    "\"\"\"",
    "f'{x}'",
    "f\"{x!r:>{w}}\"",
    "rb'\\x'",
    "# c\n",
    "\xc3\xa9",
    "\xff",
    "\xe2\x80\x9c",
    "\f",
    "def f(x):\n ",
    "if x:\n  ",
    "f'{",
    "$",
    "07",
    "type",
    "case _:\n",
};
#define N_TOKEN_TEXTS (sizeof token_texts / sizeof *token_texts)

/* Start of a line picked at random. */
static size_t random_line(const text *t) {
  size_t i = below(t->n + 1);
  while (i > 0 && t->at[i - 1] != '\n') i--;
  return i;
}

static void mutate(text *t) {
  size_t where = below(t->n + 1);
  switch (below(9)) {
    case 0: {
      char byte = (char)random_bits();
      replace(t, where, 1, &byte, 1);
      break;
    }
    case 1: replace(t, where, 1 + below(8), NULL, 0); break;
    case 2: replace(t, where, below(t->n / 4 + 1), NULL, 0); break;
    case 3: {
      size_t from = below(t->n + 1), n = below(64);
      replace(t, where, 0, t->at + from, n < t->n - from ? n : t->n - from);
      break;
    }
    case 4:
    case 5: {
      const char *token = token_texts[below(N_TOKEN_TEXTS)];
      replace(t, where, below(4), token, strlen(token));
      break;
    }
    case 6: replace(t, random_line(t), 0, "\t       ", 1 + below(8)); break;
    case 7: replace(t, random_line(t), 1 + below(4), NULL, 0); break;
    case 8: {
      const char *token = token_texts[below(N_TOKEN_TEXTS)];
      for (size_t i = below(300); i > 0; i--) replace(t, where, 0, token, strlen(token));
      break;
    }
  }
}

static void make_text(text *t, const text *files, size_t n_files) {
  t->n = 0;
  size_t kind = below(8);
  if (kind == 0) {
    t->n = below(2048);
    for (size_t i = 0; i < t->n; i++) t->at[i] = (char)random_bits();
  } else if (kind <= 2 || n_files == 0) {
    for (size_t i = below(400); i > 0; i--) {
      const char *token = token_texts[below(N_TOKEN_TEXTS)];
      replace(t, t->n, 0, token, strlen(token));
      if (below(2)) replace(t, t->n, 0, " ", 1);
    }
  } else {
    const text *f = &files[below(n_files)];
    replace(t, 0, 0, f->at, f->n);
    for (size_t i = 1 + below(6); i > 0; i--) mutate(t);
  }
}

/* ---- invariants ----------------------------------------------------------------------------------------------- */

static const char *span_fault(const src_file *f, span s) {
  if (s.pos < f->base) return "a span starts before the file";
  if (s.pos - f->base > f->len || s.len > f->len - (s.pos - f->base)) return "a span ends behind the file";
  return NULL;
}

/* What is wrong with the tree at n; NULL if nothing is. Middle operands of chained comparisons are visited once. */
static const char *node_fault(const src_file *f, const ast_node *n, int first, size_t *count) {
  ++*count;
  if (n->kind >= AST_N_KINDS) return "a node has no kind";
  if (n->op >= AOP_N) return "a node has an unknown operator";
  const char *fault = span_fault(f, n->at);
  if (!fault && n->name_at.pos) fault = span_fault(f, n->name_at);
  if (fault) return fault;
  if (n->height < 1 || n->height > AST_MAX_HEIGHT) return "a node is too high";
  if (n->kind == AST_STRING && (!n->u.s || n->u.s[n->u.s_len] != '\0')) return "a string does not end in NUL";
  if (n->kind == AST_NAME && !n->name) return "a name without a name";
  if (n->n_list > 0 && !n->list) return "a list without members";
  bool chain = n->kind == AST_BOOLOP && n->flag;
  for (int i = first; i < 4; i++) {
    if (!n->kid[i]) continue;
    if (n->kid[i]->height >= n->height) return "a kid is as high as its parent";
    fault = node_fault(f, n->kid[i], chain && i == 1, count);
    if (fault) return fault;
  }
  for (int i = 0; i < n->n_list; i++) {
    if (!n->list[i]) return "a hole in a list";
    fault = node_fault(f, n->list[i], 0, count);
    if (fault) return fault;
  }
  return NULL;
}

static const char *diagnostics_fault(const diag_sink *s, const src_file *f) {
  int errors = 0;
  for (const diag *d = s->first; d; d = d->next) {
    errors += d->severity == DIAG_ERROR;
    if (span_fault(f, d->at)) return "a diagnostic is not in the file";
    for (const diag_remark *r = d->remarks; r; r = r->next)
      if (r->at.pos && span_fault(f, r->at)) return "a remark is not in the file";
  }
  return errors == s->n_errors ? NULL : "errors are miscounted";
}

/* Parses and prints the text; returns what is wrong, NULL if nothing is. `out` receives tree and diagnostics. */
static const char *check(arena *a, const text *t, textbuf *out) {
  src_map *sources = src_map_new(a);
  diag_sink sink;
  diag_sink_init(&sink, a, sources);
  const src_file *source = src_add(sources, "fuzz.tk", t->at, t->n);
  if (!source) return "the text does not fit";
  ast_file *file = ast_parse(&sink, strtab_new(a), source);
  if (!file->module || file->module->kind != AST_MODULE) return "no module";
  size_t nodes = 0;
  const char *fault = node_fault(source, file->module, 0, &nodes);
  if (!fault) fault = diagnostics_fault(&sink, source);
  if (!fault && nodes > 4 * t->n + 16) fault = "more nodes than the text can hold";
  if (fault) return fault;
  ast_print(file, out);
  for (int style = DIAG_TEXT; style <= DIAG_JSON; style++)
    diag_render(&sink, (diag_style)style, style == DIAG_TEXT, out);
  return NULL;
}

static const char *check_guarded(const text *t, bool twice, char *message, size_t size) {
  const char *volatile fault = NULL;
  arena *a = arena_new();
  base_guard g;
  base_guard_push(&g);
  if (setjmp(g.jump) == 0) {
    textbuf one, two;
    text_init(&one, a);
    text_init(&two, a);
    fault = check(a, t, &one);
    if (!fault && twice) {
      fault = check(a, t, &two);
      if (!fault && (one.n != two.n || memcmp(one.at, two.at, one.n) != 0)) fault = "two runs differ";
    }
  } else {
    snprintf(message, size, "panic: %s", g.message);
    fault = message;
  }
  base_guard_pop(&g);
  arena_free(a);
  return fault;
}

/* ---- main ----------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv) {
  static const char *const folders[] = {"examples", "lang/std", "tests"};
  unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000;
  unsigned long seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
  corpus files = {0};
  text t = {.at = malloc(MAX_TEXT + 1)};
  if (!t.at) abort();
  for (int i = 3; i < argc; i++) {
    if (load(&files, argv[i])) continue;
    fprintf(stderr, "fuzz_syntax: cannot read %s\n", argv[i]);
    return 2;
  }
  for (size_t i = 0; argc <= 3 && i < sizeof folders / sizeof *folders; i++) load_folder(&files, folders[i]);
  const char *only = getenv("FUZZ_ROUND"), *save = getenv("FUZZ_SAVE");
  unsigned long round = only ? strtoul(only, NULL, 10) : 0, last = only ? round + 1 : rounds;
  int status = 0;
  for (; round < last && status == 0; round++) {
    state = seed * UINT64_C(1000003) + round;
    make_text(&t, files.at, files.n);
    if (save) {
      FILE *f = fopen(save, "wb");
      if (!f || fwrite(t.at, 1, t.n, f) != t.n || fclose(f) != 0) abort();
    }
    char message[600];
    clock_t start = clock();
    const char *fault = check_guarded(&t, round % 16 == 0, message, sizeof message);
    if (!fault && (double)(clock() - start) / CLOCKS_PER_SEC > MAX_SECONDS) fault = "it takes too long";
    if (!fault) continue;
    printf("round %lu (seed %lu, %zu bytes): %s\n", round, seed, t.n, fault);
    status = 1;
  }
  if (status == 0) printf("%lu rounds over %zu files, seed %lu: all invariants hold\n", rounds, files.n, seed);
  for (size_t i = 0; i < files.n; i++) free(files.at[i].at);
  free(files.at);
  free(t.at);
  return status;
}
