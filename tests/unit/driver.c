/* The driver as a library: every mistake in options and in tile IR text is a diagnostic of its own id, the session
 * stays usable, and no output comes with an error. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/tkc.h"
#include "tests/test.h"

static const char add[] =
    "@kernel\n"
    "def add(x: *f32, y: *f32, n: i32, BLOCK: constexpr = 64):\n"
    "    i = arange(0, BLOCK)\n"
    "    store(y + i, load(x + i, mask=i < n, other=0.0), mask=i < n)\n";
static const char two[] =
    "@kernel\ndef a(x: *f32):\n    store(x, 1.0)\n"
    "@kernel\ndef b(x: *f32):\n    store(x, 2.0)\n";
static const char heavy[] =
    "@kernel\n"
    "def heavy(x: *f32, y: *f32, M: constexpr = 256, N: constexpr = 512, K: constexpr = 32):\n"
    "    m = arange(0, M)\n"
    "    n = arange(0, N)\n"
    "    k = arange(0, K)\n"
    "    a = load(x + m[:, None] * K + k[None, :])\n"
    "    b = load(x + k[:, None] * N + n[None, :])\n"
    "    store(y + m[:, None] * N + n[None, :], dot(a, b, input_precision=\"ieee\"))\n";
static const char hints[] =
    "@kernel\n"
    "def hints(x: *f32):\n"
    "    store(x, load(x + 1, eviction_policy=\"evict_first\"))\n";

#define OPTIONS(...) \
  { __VA_ARGS__ }
static const char *const nowhere[] = {"NOWHERE=1"}, *const misspelt[] = {"int32-ofset"},
                         *const no_misspelt[] = {"no-all"};

static const struct {
  const char *id;
  tkc_status status;
  const char *text;
  tkc_options opt;
} mistakes[] = {
    {"unknown_arch", TKC_USAGE, add, OPTIONS(.arch = "sm_1")},
    {"unknown_pass", TKC_USAGE, add, OPTIONS(.emit = TKC_EMIT_TILE, .stop_after = "nothing")},
    {"unknown_pass", TKC_USAGE, add, OPTIONS(.dump_after = "canon,nothing")},
    {"unknown_warning", TKC_USAGE, add, OPTIONS(.warnings = misspelt, .n_warnings = 1)},
    {"unknown_warning", TKC_USAGE, add, OPTIONS(.warnings = no_misspelt, .n_warnings = 1)},
    {"bad_warps", TKC_USAGE, add, OPTIONS(.num_warps = 3)},
    {"bad_warps", TKC_USAGE, add, OPTIONS(.num_warps = 64)},
    {"bad_stages", TKC_USAGE, add, OPTIONS(.num_stages = 99)},
    {"bad_ptx_version", TKC_USAGE, add, OPTIONS(.arch = "sm_90a", .ptx_version = 70)},
    {"bad_ptx_version", TKC_USAGE, add, OPTIONS(.ptx_version = 99)},
    {"unknown_define", TKC_ERRORS, add, OPTIONS(.defines = nowhere, .n_defines = 1)},
    {"unknown_signature", TKC_ERRORS, add, OPTIONS(.signature = "nowhere=*f32")},
    {"ptx_version", TKC_ERRORS, hints, OPTIONS(.arch = "sm_80", .ptx_version = 70)},
    {"ll_dot_too_big", TKC_ERRORS, heavy, OPTIONS(.num_warps = 1)},
};

/* Compiles `text`; returns what was said, one diagnostic a line. */
static const char *compile(arena *a, const char *path, const char *text, const tkc_options *opt, tkc_status *status) {
  tkc_session *s = tkc_open();
  cr_assert_not_null(s);
  tkc_output out = {0};
  *status = tkc_load_text(s, path, text, strlen(text));
  if (*status == TKC_OK) *status = tkc_compile(s, opt, &out);
  const char *said = arena_printf(a, "%s", tkc_diagnostics(s, TKC_DIAG_LINE, false));
  cr_assert(*status == TKC_OK || out.text == NULL, "an output despite: %s", said);
  tkc_close(s);
  return said;
}

Test(driver, mistakes_in_options, .timeout = 120) {
  arena *a = arena_new();
  for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
    tkc_status status;
    const char *said = compile(a, "t.tk", mistakes[i].text, &mistakes[i].opt, &status);
    cr_expect(strstr(said, arena_printf(a, "[%s]", mistakes[i].id)), "%s: said\n%s", mistakes[i].id, said);
    cr_expect_eq(status, mistakes[i].status, "%s: status %d", mistakes[i].id, (int)status);
  }
  arena_free(a);
}

#define KERNEL "kernel @k(%p: *f32) num_warps(4) num_stages(3) stage(plain) {\n"
static const struct {
  const char *id, *text;
} broken[] = {
    {"tir_expected", "kernel k"},
    {"tir_expected", KERNEL "  return\n"},
    {"tir_bad_byte", "kernel @k(\x01"},
    {"tir_unknown_op", KERNEL "  %a = frobnicate %p : f32\n  return\n}\n"},
    {"tir_unknown_attr", KERNEL "  %a = const {colour = 1} : f32\n  return\n}\n"},
    {"tir_unknown_type", KERNEL "  %a = const {value = 1} : f33\n  return\n}\n"},
    {"tir_unknown_stage", "kernel @k(%p: *f32) num_warps(4) num_stages(3) stage(early) {\n  return\n}\n"},
    {"tir_unknown_value", KERNEL "  %a = load %q : f32\n  return\n}\n"},
    {"tir_twice", KERNEL "  %a = load %p : f32\n  %a = load %p : f32\n  return\n}\n"},
    {"tir_bad_shape", KERNEL "  %a = arange {start = 0} : i32[3]\n  return\n}\n"},
    {"tir_bad_layout", KERNEL "  %a = arange {start = 0} : i32[8]@r(64)l()w()\n  return\n}\n"},
    {"tir_bad_number", KERNEL "  %a = const {value = 99999999999999999999} : i32\n  return\n}\n"},
    {"tir_count", KERNEL "  %a = load %p : f32\n  %b = add %a : f32\n  return\n}\n"},
    {"bad_tir", KERNEL "  %a = load %p : f32\n}\n"},
};

Test(driver, mistakes_in_tile_ir, .timeout = 60) {
  arena *a = arena_new();
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
    tkc_status status;
    const tkc_options opt = {.emit = TKC_EMIT_TILE};
    const char *said = compile(a, "t.tir", broken[i].text, &opt, &status);
    cr_expect(strstr(said, arena_printf(a, "[%s]", broken[i].id)), "%s: said\n%s", broken[i].id, said);
    cr_expect_eq(status, TKC_ERRORS, "%s: status %d", broken[i].id, (int)status);
  }
  textbuf deep;
  text_init(&deep, a);
  text_str(&deep, KERNEL "  %c = const {value = 1} : i1\n");
  for (int i = 0; i < 2000; i++) text_str(&deep, "if %c {\n");
  tkc_status status;
  const char *said = compile(a, "t.tir", deep.at, &(tkc_options){.emit = TKC_EMIT_TILE}, &status);
  cr_expect(strstr(said, "[tir_too_deep]"), "%s", said);
  arena_free(a);
}

Test(driver, files) {
  tkc_session *s = tkc_open();
  tkc_output out;
  cr_assert_neq(tkc_compile(s, &(tkc_options){.num_warps = 4}, &out), TKC_OK);
  cr_expect(strstr(tkc_diagnostics(s, TKC_DIAG_LINE, false), "[no_source]"));
  tkc_close(s);
  s = tkc_open();
  cr_assert_eq(tkc_load_text(s, "t.tk", "X = 1\n", 6), TKC_ERRORS);
  cr_assert_eq(tkc_compile(s, &(tkc_options){.num_warps = 4}, &out), TKC_ERRORS, "its failure was not looked at");
  cr_expect(strstr(tkc_diagnostics(s, TKC_DIAG_LINE, false), "[file_without_kernel]"));
  tkc_close(s);
  s = tkc_open();
  cr_assert_eq(tkc_load_file(s, "/nowhere/at_all.tk"), TKC_ERRORS);
  cr_expect(strstr(tkc_diagnostics(s, TKC_DIAG_LINE, false), "[cannot_read]"));
  cr_expect_str_eq(tkc_dump(s), "");
  tkc_close(s);
}

Test(driver, which_kernel_to_run) {
  tkc_session *s = tkc_open();
  cr_assert_eq(tkc_load_text(s, "t.tk", two, strlen(two)), TKC_OK);
  cr_assert_eq(tkc_n_kernels(s), 2);
  cr_assert_null(tkc_kernel_at(s, 2));
  float x = 0;
  const tkc_buffer buffer = {"x", &x, sizeof x};
  const tkc_arg arg = {.v.pointer = &x};
  const int64_t grid[3] = {1, 1, 1};
  cr_assert_eq(tkc_interpret(s, &(tkc_options){.num_warps = 4}, grid, &buffer, 1, &arg, 1, NULL), TKC_ERRORS);
  cr_expect(strstr(tkc_diagnostics(s, TKC_DIAG_LINE, false), "[one_kernel]"));
  cr_assert_eq(tkc_interpret(s, &(tkc_options){.kernel = "b"}, grid, &buffer, 1, &arg, 1, NULL), TKC_OK);
  cr_assert_eq(x, 2);
  tkc_close(s);
}

/* Sessions share nothing: one with errors beside one without. */
Test(driver, sessions_are_apart) {
  tkc_session *good = tkc_open(), *bad = tkc_open();
  tkc_output out, none = {0};
  cr_assert_eq(tkc_load_text(good, "t.tk", add, strlen(add)), TKC_OK);
  const char *wrong = "@kernel\ndef k(x: *f32):\n    store(x, y)\n";
  tkc_load_text(bad, "t.tk", wrong, strlen(wrong));
  cr_assert_eq(tkc_compile(bad, &(tkc_options){.num_warps = 4}, &none), TKC_ERRORS);
  cr_assert_eq(tkc_compile(good, &(tkc_options){.num_warps = 4}, &out), TKC_OK);
  tkc_close(bad);
  cr_assert_eq(tkc_n_errors(good), 0);
  cr_assert_eq(strlen(out.text), out.len);
  tkc_close(good);
}
