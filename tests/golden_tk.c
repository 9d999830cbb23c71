/* Golden tests of whole compilations: tests/golden/AREA/NAME.tk, one Criterion test each (`--filter 'AREA/NAME'`).
 *
 *   # emit: ptx                   ast, tile, llvm or ptx (the default)
 *   # kernel: NAME                default: every entry kernel
 *   # arch: sm_90a                default sm_80
 *   # signature: x=*f32:16,n=i32
 *   # define: BLOCK=64            may be repeated
 *   # num_warps: 8   # num_stages: 2   # stop_after: PASS   # debug: yes   # tensor_maps: no   # gang: no
 *   # report: yes                 behind the output stands what --resource-usage says
 *
 * The verifier runs after every pass. PTX is assembled too, if there is a ptxas, and may neither spill nor
 * serialise wgmma; and compiling twice gives the same bytes. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tkc.h"
#include "tests/test.h"

static const char words[] =
    "emit kernel arch signature define num_warps num_stages stop_after debug tensor_maps gang report";

static tkc_emit emit_named(const char *path, const char *name) {
  static const char *const names[] = {
      [TKC_EMIT_PTX] = "ptx", [TKC_EMIT_LLVM] = "llvm", [TKC_EMIT_TILE] = "tile", [TKC_EMIT_AST] = "ast"};
  for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
    if (!strcmp(names[i], name)) return (tkc_emit)i;
  cr_assert_fail("%s: cannot emit '%s'", path, name);
  return TKC_EMIT_PTX;
}

static const char *compile(arena *a, const test_file *f, const tkc_options *opt) {
  tkc_session *s = tkc_open();
  cr_assert_not_null(s);
  tkc_output out = {0};
  tkc_status status = tkc_load_text(s, f->path, f->text, f->input_len);
  if (status == TKC_OK) status = tkc_compile(s, opt, &out);
  const char *said = tkc_diagnostics(s, TKC_DIAG_TEXT, false);
  cr_assert_eq(status, TKC_OK, "%s: status %d\n%s", f->path, (int)status, said);
  cr_assert_str_empty(said, "%s: unexpected\n%s", f->path, said);
  const char *text = arena_copy(a, out.text, out.len + 1);
  cr_assert_eq(strlen(text), out.len, "%s: the output holds a NUL", f->path);
  if (opt->resource_usage) text = arena_printf(a, "%s%s", text, tkc_report(s, NULL));
  tkc_close(s);
  return text;
}

static void golden_tk(const char *path) {
  arena *a = arena_new();
  const char *problem = NULL;
  test_file *f = test_file_read(a, path, words, &problem);
  cr_assert_not_null(f, "%s", problem);
  VEC(const char *) defines = {0};
  for (int i = 0; i < f->options.n; i++)
    if (!strcmp(f->options.at[i].word, "define")) VEC_PUSH(a, defines, f->options.at[i].value);
  tkc_options opt = {
      .kernel = test_option_get(f, "kernel", NULL),
      .arch = test_option_get(f, "arch", "sm_80"),
      .signature = test_option_get(f, "signature", NULL),
      .defines = defines.at,
      .n_defines = defines.n,
      .num_warps = atoi(test_option_get(f, "num_warps", "0")),
      .num_stages = atoi(test_option_get(f, "num_stages", "0")),
      .stop_after = test_option_get(f, "stop_after", NULL),
      .debug = !strcmp(test_option_get(f, "debug", "no"), "yes"),
      .no_tensor_maps = !strcmp(test_option_get(f, "tensor_maps", "yes"), "no"),
      .no_gang = !strcmp(test_option_get(f, "gang", "yes"), "no"),
      .resource_usage = !strcmp(test_option_get(f, "report", "no"), "yes"),
      .emit = emit_named(path, test_option_get(f, "emit", "ptx")),
      .verify = true,
  };
  const char *got = compile(a, f, &opt);
  problem = test_diff(a, path, got, compile(a, f, &opt));
  cr_assert_null(problem, "two runs differ: %s", problem);
  if (opt.emit == TKC_EMIT_PTX) {
    problem = test_ptxas_clean(a, got, opt.arch);
    cr_assert_null(problem, "%s: %s\n%s", path, problem, got);
  }
  if (f->has_checks) {
    problem = test_check(a, path, f->text, got);
    cr_assert_null(problem, "%s%s", problem, got);
  }
  if (f->expected || !f->has_checks) {
    problem = test_golden(a, f, got);
    cr_assert_null(problem, "%s", problem);
  }
  arena_free(a);
}

#define TK_CASE(area, name) \
  Test(golden_##area, name, .timeout = 60) { golden_tk("tests/golden/" #area "/" #name ".tk"); }
#include TEST_CASES
