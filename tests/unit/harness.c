/* The test helpers themselves: each must fail when it should. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

static arena *mem;
static void setup(void) { mem = arena_new(); }
static void teardown(void) { arena_free(mem); }
TestSuite(harness, .init = setup, .fini = teardown);

static const char *const text =
    "mov.u32 %r1, %tid.x;\n"
    "add.f32   %f3, %f1, %f2;\n"
    "st.global.f32 [%rd1], %f3;\n"
    "bar.sync 0;\n"
    "st.global.f32 [%rd2], %f3;\n"
    "ret;\n";

static bool holds(const char *directives) { return test_check(mem, "t", directives, text) == NULL; }

Test(harness, check_order) {
  cr_assert(holds("// CHECK: mov.u32\n// CHECK: ret;\n"));
  cr_assert(holds("# CHECK: mov.u32\n  # CHECK: add.f32 %f3\n"));
  cr_assert_not(holds("// CHECK: ret;\n// CHECK: mov.u32\n"));
  cr_assert_not(holds("// CHECK: sub\n"));
  cr_assert_not(holds("// no directive\n"));
  cr_assert_not(holds("// CHECK-PREV: ret\n"));
  cr_assert_not(holds("// CHECK:\n"));
}

Test(harness, check_next) {
  cr_assert(holds("// CHECK: mov.u32\n// CHECK-NEXT: add.f32\n// CHECK-NEXT: st.global\n"));
  cr_assert_not(holds("// CHECK: mov.u32\n// CHECK-NEXT: st.global\n"));
  cr_assert_not(holds("// CHECK: ret\n// CHECK-NEXT: ret\n"));
}

Test(harness, check_not) {
  cr_assert(holds("// CHECK: mov\n// CHECK-NOT: bar.sync\n// CHECK: [%rd1]\n"));
  cr_assert_not(holds("// CHECK: mov\n// CHECK-NOT: bar.sync\n// CHECK: [%rd2]\n"));
  cr_assert(holds("// CHECK: bar.sync\n// CHECK-NOT: bar.sync\n"));
  cr_assert_not(holds("// CHECK-NOT: ret\n"));
}

Test(harness, check_count) {
  cr_assert(holds("// CHECK-COUNT 2: st.global.f32\n// CHECK: mov\n"));
  cr_assert_not(holds("// CHECK-COUNT 1: st.global.f32\n"));
  cr_assert_not(holds("// CHECK: [%rd1]\n// CHECK-COUNT 2: st.global.f32\n"));
}

Test(harness, check_captures) {
  cr_assert(holds("// CHECK: add.f32 [[s:%f\\d+]], [[a:\\w*%f\\d+]]\n// CHECK: st.global.f32 [%rd1], [[s]];\n"));
  cr_assert_not(holds("// CHECK: add.f32 [[s:%f\\d+]], [[a:%f\\d+]]\n// CHECK: st.global.f32 [%rd1], [[a]];\n"));
  cr_assert_not(holds("// CHECK: st.global.f32 [%rd1], [[s]];\n"));
  cr_assert(holds("// CHECK: [[line:.*]]sync [[n:.]];\n"));
  cr_assert(holds("// CHECK: [[[p:%rd\\d+]]], %f3\n"));
  cr_assert_not(holds("// CHECK: [[[p:%rd\\d+]]], %f3\n// CHECK: [[[p]]]\n"));
  cr_assert_not(holds("// CHECK: [[n:\\d+]]x\n"));
}

Test(harness, diff) {
  cr_assert_null(test_diff(mem, "t", "a \nb\n", "a\nb"));
  cr_assert_not_null(test_diff(mem, "t", "a\nb\n", "a\nc\n"));
  cr_assert_not_null(test_diff(mem, "t", "a\n", "a\nb\n"));
  cr_assert_not_null(test_diff(mem, "t", " a\n", "a\n"));
}

Test(harness, words) {
  int n = 0;
  const char **w = test_words(mem, "  --grid 'cdiv(n, B)'  -D B=8 ''", &n);
  cr_assert_eq(n, 5);
  cr_assert_str_eq(w[1], "cdiv(n, B)");
  cr_assert_str_eq(w[3], "B=8");
  cr_assert_str_eq(w[4], "");
  cr_assert_null(w[5]);
}

Test(harness, file_and_update) {
  char path[] = "/tmp/tkc_harness_XXXXXX";
  int fd = mkstemp(path);
  cr_assert_geq(fd, 0);
  close(fd);
  static const char body[] = "// passes: canon dce\n// What it is about.\n// arch: sm_80\nfn @k() {}\n====\nold\n";
  cr_assert(test_write_file(path, body, sizeof body - 1));
  const char *problem = NULL;
  cr_assert_null(test_file_read(mem, path, "passes", &problem));
  cr_assert(strstr(problem, "unknown option 'arch'") != NULL, "%s", problem);
  test_file *f = test_file_read(mem, path, "passes arch", &problem);
  cr_assert_not_null(f);
  cr_assert_str_eq(test_option_get(f, "passes", ""), "canon dce");
  cr_assert_str_eq(test_option_get(f, "arch", ""), "sm_80");
  cr_assert_str_eq(test_option_get(f, "emit", "none"), "none");
  cr_assert_str_eq(f->expected, "old\n");
  cr_assert_not(f->has_checks);

  unsetenv("UPDATE");
  cr_assert_null(test_golden(mem, f, "old\n"));
  cr_assert_not_null(test_golden(mem, f, "new\n"));
  setenv("UPDATE", "1", 1);
  cr_assert_null(test_golden(mem, f, "new\n"));
  test_file *g = test_file_read(mem, path, "passes arch", &problem);
  cr_assert_str_eq(g->expected, "new\n");
  cr_assert_eq(g->input_len, f->input_len);
  unlink(path);
}

static const diag_desc D_odd = {"odd", DIAG_ERROR, "odd thing %d"};

Test(harness, expected_diagnostics) {
  static const char source[] = "a #! odd thing 1\nb #! error: odd #! thing 3 [odd]\n\n#!^ odd thing 4\n";
  src_map *map = src_map_new(mem);
  const src_file *f = src_add(map, "t.tk", source, sizeof source - 1);
  diag_sink sink;
  diag_sink_init(&sink, mem, map);
  const int lines[] = {1, 2, 2, 3};
  textbuf out;
  for (int i = 0; i < 4; i++) {
    text_init(&out, mem);
    text_str(&out, "");
    diag_render(&sink, DIAG_LINE, false, &out);
    cr_assert_not_null(test_expect_diags(mem, "t.tk", source, out.at), "nothing is missing after %d", i);
    diag *d = diag_add(&sink, (span){f->base + f->line_start[lines[i] - 1], 1}, &D_odd, i + 1);
    diag_note(d, (span){f->base, 1}, "a note is free");
  }
  text_init(&out, mem);
  diag_render(&sink, DIAG_LINE, false, &out);
  const char *why = test_expect_diags(mem, "t.tk", source, out.at);
  cr_assert_null(why, "%s", why);
  diag_add(&sink, (span){f->base, 1}, &D_odd, 9);
  text_init(&out, mem);
  diag_render(&sink, DIAG_LINE, false, &out);
  cr_assert_not_null(test_expect_diags(mem, "t.tk", source, out.at));
  cr_assert_not_null(test_expect_diags(mem, "t.tk", "no expectation\n", "warning: nowhere [odd]\n"));
  cr_assert_null(test_expect_diags(mem, "t.tk", "no expectation\n", ""));
}
