/* What the tests share: files, comparisons with a useful message, the CHECK matcher, the header of a test file.
 *
 * Three kinds of test live in files of their own (one Criterion test each, found by the Makefile):
 *   tests/golden/AREA/NAME.tir, .tk   input and expected text, or CHECK lines       tests/golden*.c
 *   tests/error/NAME.tk               diagnostics, each beside the guilty line      tests/error.c
 *   tests/run/NAME.tk                 a kernel and its arguments: all executors     tests/run.c
 * Such a file begins with comment lines `// word: value` (.tir) or `# word: value` (.tk); a word that its kind does
 * not know is an error. Helpers return NULL or a message; the test asserts, so that a failure names the file. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "compiler/base/base.h"

/* ---- files ---------------------------------------------------------------------------------------------------- */

/* The whole file, NUL-terminated, in `a`; NULL if it cannot be read. `len` may be NULL. */
char *test_read_file(arena *a, const char *path, size_t *len);
bool test_write_file(const char *path, const char *text, size_t len);

/* ---- the header of a test file --------------------------------------------------------------------------------- */

typedef struct test_option {
  const char *word, *value; /* value without surrounding blanks */
  int line;                 /* 1-based */
} test_option;

typedef struct test_file {
  const char *path, *text; /* the whole file */
  size_t len;
  size_t input_len;     /* of the input: up to the line `====`, or everything */
  const char *expected; /* what follows the line `====`, or NULL */
  VEC(test_option) options;
  bool has_checks; /* holds at least one CHECK directive */
} test_file;

/* Reads and splits a test file. `words` lists the known header words, separated by blanks. On failure *problem says
   why (in `a`) and the result is NULL. */
test_file *test_file_read(arena *a, const char *path, const char *words, const char **problem);
/* The value of the last option `word`, or `absent`. */
const char *test_option_get(const test_file *f, const char *word, const char *absent);
/* Splits a value at blanks; single quotes group, as in a shell. NULL-terminated, *n without the NULL. */
const char **test_words(arena *a, const char *value, int *n);

/* ---- comparisons ------------------------------------------------------------------------------------------------ */

/* NULL if the texts are equal apart from blanks at line ends, and blank lines at the very end; else a message with the
   first different line of both. */
const char *test_diff(arena *a, const char *path, const char *wanted, const char *got);

/* Whole golden: compares `got` with what follows `====`. With UPDATE=1 in the environment, rewrites that part instead
   when it differs, and says so on stderr. */
const char *test_golden(arena *a, const test_file *f, const char *got);

/* Runs the CHECK directives that stand in the comments of `directives` against `text`; NULL if all hold.
     CHECK: text            a later line contains text
     CHECK-NEXT: text       the very next line does
     CHECK-NOT: text        nothing up to the next match (or the end) contains it
     CHECK-COUNT 8: text    exactly eight lines, from here to the end, do
   Blanks in text match any run of blanks. [[r:PATTERN]] captures what PATTERN matches as r, [[r]] is that text again;
   PATTERN knows \d \w . and * + after a character. */
const char *test_check(arena *a, const char *path, const char *directives, const char *text);

/* ---- diagnostics beside the line that causes them ---------------------------------------------------------------- */

/* Compares diagnostics, rendered one a line (DIAG_LINE), with the expectations in the source's comments, both ways.
   `#! text` at the end of a line expects one that starts on that line, `#!^ text` one on the line above (^^ two above);
   text must occur in "severity: message [id]". A line may expect several: each diagnostic satisfies one. Notes and
   helps may be expected, but need not be. */
const char *test_expect_diags(arena *a, const char *path, const char *source, const char *rendered);

/* Whether `word` occurs in the text with no letter, digit or underscore on either side. */
bool test_has_word(const char *text, const char *word);

/* ---- ptxas ------------------------------------------------------------------------------------------------------- */

bool test_has_ptxas(void);
/* Assembles PTX for a target ("sm_90a"). NULL if it was accepted or there is no ptxas, else what it said. */
const char *test_ptxas(arena *a, const char *ptx, const char *arch);
/* The same, and registers may not be spilled, nor wgmma be serialised. */
const char *test_ptxas_clean(arena *a, const char *ptx, const char *arch);

#endif
