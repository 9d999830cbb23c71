/* Golden tests of tile IR: tests/golden/AREA/NAME.tir, one Criterion test each (`--filter 'AREA/NAME'`).
 *
 *   // passes: canon layouts      run in this order, the verifier after each; `a..b` stands for a range of the
 * pipeline, `all` for all of it; no line: the input is read and printed
 *   // arch: sm_90a               the target that passes ask (sm_80)
 *   // tensor_maps: no            the user wants none
 *   // errors: yes                a pass is expected to report what `#!` comments say; then nothing is compared
 *
 * Before and after the passes the function's text must read back to the same text. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/arch/arch.h"
#include "compiler/ir/tir.h"
#include "compiler/passes/passes.h"
#include "tests/test.h"

typedef struct golden {
  arena *a;
  tir_cx *cx;
  src_map *sources;
  diag_sink sink;
} golden;

static void golden_open(golden *g) {
  g->a = arena_new();
  g->cx = tir_cx_new(g->a, strtab_new(g->a));
  g->sources = src_map_new(g->a);
  diag_sink_init(&g->sink, g->a, g->sources);
}

static const char *diags(golden *g) {
  textbuf b;
  text_init(&b, g->a);
  text_str(&b, "");
  diag_render(&g->sink, DIAG_LINE, false, &b);
  return b.at;
}

static const char *print(golden *g, tir_fn *fn) {
  textbuf b;
  text_init(&b, g->a);
  tir_renumber(fn);
  tir_print(fn, &b);
  return b.at;
}

static tir_fn *read(golden *g, const char *path, const char *text, size_t len) {
  const src_file *source = src_add(g->sources, path, text, len);
  tir_fn *fn = tir_read(g->cx, g->a, &g->sink, source);
  cr_assert(fn && g->sink.n_errors == 0, "%s cannot be read:\n%s", path, diags(g));
  const char *complaint = tir_verify(fn);
  cr_assert_null(complaint, "%s: the verifier complains:\n%s", path, complaint);
  return fn;
}

/* print(read(print(x))) = print(x), and what was read is as valid as what was printed. */
static void check_round_trip(golden *g, const char *path, tir_fn *fn) {
  const char *once = print(g, fn);
  const char *name = arena_printf(g->a, "%s (printed)", path);
  const char *twice = print(g, read(g, name, once, strlen(once)));
  const char *why = test_diff(g->a, path, once, twice);
  cr_assert_null(why, "%sdoes not read back:\n%s", why, once);
}

static int pass_or_fail(const char *path, const char *name, size_t len) {
  int p = pass_named(name, len);
  cr_assert_geq(p, 0, "%s: no pass is called '%.*s'", path, (int)len, name);
  return p;
}

static void run_passes(golden *g, const test_file *f, tir_fn *fn, const char *list) {
  const char *arch_name = test_option_get(f, "arch", "sm_80");
  const pass_cx cx = {.arch = arch_find(arch_name),
                      .sink = &g->sink,
                      .no_tensor_maps = !strcmp(test_option_get(f, "tensor_maps", "yes"), "no")};
  cr_assert_not_null(cx.arch, "%s: no target is called '%s'", f->path, arch_name);
  const pass_hooks hooks = {.verify = true};
  const char **words = test_words(g->a, list, NULL);
  for (int i = 0; words[i]; i++) {
    const char *dots = strstr(words[i], "..");
    int first = 0, last = pass_count - 1;
    if (strcmp(words[i], "all") != 0) {
      first = pass_or_fail(f->path, words[i], dots ? (size_t)(dots - words[i]) : strlen(words[i]));
      last = dots ? pass_or_fail(f->path, dots + 2, strlen(dots + 2)) : first;
    }
    if (!pass_run(fn, &cx, first, last, &hooks)) break;
  }
}

static void golden_tir(const char *path) {
  golden g;
  golden_open(&g);
  const char *problem = NULL;
  test_file *f = test_file_read(g.a, path, "passes arch tensor_maps errors", &problem);
  cr_assert_not_null(f, "%s", problem);
  tir_fn *fn = read(&g, path, f->text, f->input_len);
  check_round_trip(&g, path, fn);
  run_passes(&g, f, fn, test_option_get(f, "passes", ""));
  if (!strcmp(test_option_get(f, "errors", "no"), "yes")) {
    problem = test_expect_diags(g.a, path, f->text, diags(&g));
    cr_assert_null(problem, "%s", problem);
    cr_assert_gt(g.sink.n_errors, 0, "%s: expects errors, and there was none", path);
    arena_free(g.a);
    return;
  }
  cr_assert(g.sink.first == NULL, "%s: unexpected\n%s", path, diags(&g));
  check_round_trip(&g, path, fn);
  const char *got = print(&g, fn);
  if (f->has_checks) {
    problem = test_check(g.a, path, f->text, got);
    cr_assert_null(problem, "%s%s", problem, got);
  }
  if (f->expected || !f->has_checks) {
    problem = test_golden(g.a, f, got);
    cr_assert_null(problem, "%s", problem);
  }
  arena_free(g.a);
}

#define TIR_CASE(area, name) \
  Test(golden_##area, name, .timeout = 60) { golden_tir("tests/golden/" #area "/" #name ".tir"); }
#include TEST_CASES
