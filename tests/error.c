/* Error tests: tests/error/NAME.tk, one Criterion test each. Comments beside the guilty lines say what is expected
 * (test_expect_diags); anything else that the compiler says fails the test, as does a message that does not come.
 *
 *   # signature: x=*f32,n=i32   # define: B=64   # kernel: NAME   # arch: sm_90a   # debug: yes
 *   # warnings: all no-name
 *
 * `every_id_occurs` holds the tables of diagnostics against what is tested: each id of each diags.def must be met by an
 * error test, or be named (as D_id, [id] or "id") in a unit test or golden. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tkc.h"
#include "tests/test.h"

static const char words[] = "signature define kernel arch warnings debug";

/* Everything that the compiler says about the file, one diagnostic a line. */
static const char *diagnose(arena *a, const test_file *f) {
  VEC(const char *) defines = {0};
  for (int i = 0; i < f->options.n; i++)
    if (!strcmp(f->options.at[i].word, "define")) VEC_PUSH(a, defines, f->options.at[i].value);
  int n_warnings;
  const char **warnings = test_words(a, test_option_get(f, "warnings", ""), &n_warnings);
  const tkc_options opt = {
      .kernel = test_option_get(f, "kernel", NULL),
      .arch = test_option_get(f, "arch", NULL),
      .signature = test_option_get(f, "signature", NULL),
      .defines = defines.at,
      .n_defines = defines.n,
      .debug = !strcmp(test_option_get(f, "debug", "no"), "yes"),
      .warnings = warnings,
      .n_warnings = n_warnings,
      .verify = true,
  };
  tkc_session *s = tkc_open();
  cr_assert_not_null(s);
  tkc_output out = {0};
  tkc_status status = tkc_load_text(s, f->path, f->text, f->len);
  if (status == TKC_OK) status = tkc_compile(s, &opt, &out);
  const char *said = arena_printf(a, "%s", tkc_diagnostics(s, TKC_DIAG_LINE, false));
  cr_assert_neq(status, TKC_INTERNAL, "%s: internal error\n%s", f->path, said);
  cr_assert_eq(status == TKC_OK, tkc_n_errors(s) == 0, "%s: status %d with %d errors\n%s", f->path, (int)status,
               tkc_n_errors(s), said);
  cr_assert(status == TKC_OK || out.text == NULL, "%s: an output despite errors", f->path);
  tkc_close(s);
  return said;
}

static test_file *open_file(arena *a, const char *path) {
  const char *problem = NULL;
  test_file *f = test_file_read(a, path, words, &problem);
  cr_assert_not_null(f, "%s", problem);
  return f;
}

static void error_tk(const char *path) {
  arena *a = arena_new();
  test_file *f = open_file(a, path);
  const char *said = diagnose(a, f);
  cr_assert_str_not_empty(said, "%s: no diagnostic at all", path);
  const char *problem = test_expect_diags(a, path, f->text, said);
  cr_assert_null(problem, "%s", problem);
  arena_free(a);
}

#define ERROR_CASE(name) \
  Test(error, name, .timeout = 60) { error_tk("tests/error/" #name ".tk"); }
#include TEST_CASES
#undef ERROR_CASE

static const char *const error_files[] = {
#define ERROR_CASE(name) "tests/error/" #name ".tk",
#include TEST_CASES
#undef ERROR_CASE
    NULL};
static const char *const other_files[] = {
#define TEXT_FILE(path) path,
#include TEST_CASES
#undef TEXT_FILE
    NULL};
static const char *const ids[][2] = {
#define DIAG_ID(table, id) {table, #id},
#include TEST_CASES
#undef DIAG_ID
    {NULL, NULL}};

/* What no input of a test's size leads to: tkc's own bugs, sources of gigabytes, a back end that gives up. */
static const char *const out_of_reach[] = {"internal", "metadata", "file_too_big", "ll_backend", "ll_no_function"};

static bool is_out_of_reach(const char *id) {
  for (size_t i = 0; i < sizeof out_of_reach / sizeof out_of_reach[0]; i++)
    if (!strcmp(id, out_of_reach[i])) return true;
  return false;
}

Test(error, every_id_occurs, .timeout = 120) {
  arena *a = arena_new();
  textbuf all;
  text_init(&all, a);
  for (int i = 0; error_files[i]; i++) text_str(&all, diagnose(a, open_file(a, error_files[i])));
  for (int i = 0; other_files[i]; i++) {
    const char *text = test_read_file(a, other_files[i], NULL);
    cr_assert_not_null(text, "%s cannot be read", other_files[i]);
    text_str(&all, text);
  }
  textbuf missing;
  text_init(&missing, a);
  int n = 0, n_missing = 0;
  for (; ids[n][0]; n++) {
    const char *id = ids[n][1];
    if (is_out_of_reach(id)) continue;
    if (strstr(all.at, arena_printf(a, "[%s]", id)) || strstr(all.at, arena_printf(a, "\"%s\"", id)) ||
        test_has_word(all.at, arena_printf(a, "D_%s", id)))
      continue;
    text_printf(&missing, "  %s: %s\n", ids[n][0], id);
    n_missing++;
  }
  cr_assert_gt(n, 0, "no diags.def was found");
  cr_assert_eq(n_missing, 0, "%d of %d diagnostics occur in no test:\n%s", n_missing, n, missing.at);
  arena_free(a);
}
