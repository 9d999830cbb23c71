/* The emitter: control flow, atomics, dot, print, assert, line tables, and what it refuses. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "compiler/llvm/ll.h"
#include "compiler/ptx/ptx.h"
#include "tests/test.h"
#include "tests/unit/llvm_run.h"

static void expect_text(const ll_case *c, const char *part, int count) {
  int n = ll_count(c->ptx, part);
  cr_assert_eq(n, count, "'%s' occurs %d times, not %d, in\n%s", part, n, count, c->ptx);
}

#define HEAD " num_warps(1) num_stages(1) stage(plain) {\n"

/* ---- control flow --------------------------------------------------------------------------------------------- */

/* Trips of `for iv in lb..ub step`: counts them and sums iv. */
static void count_trips(const char *type, const char *step, int64_t lb, int64_t ub, int64_t want_n, int64_t want_sum) {
  ll_case c;
  arena *a = arena_new();
  const char *text =
      arena_printf(a,
                   "kernel @k(%%lb: %s, %%ub: %s, %%step: %s, %%o: *%s)" HEAD
                   " %s %%5 = const {value = 0} : %s\n %%6 = const {value = 1} : %s\n"
                   " %%7, %%8 = for %%lb, %%ub, %s, %%5, %%5 : %s, %s (%%9: %s, %%10: %s, %%11: %s) {\n"
                   "  %%12 = add %%10, %%6 : %s\n  %%13 = add %%11, %%9 : %s\n  yield %%12, %%13\n }\n"
                   " store %%o, %%7\n %%14 = addptr %%o, %%6 : *%s\n store %%14, %%8\n return\n}\n",
                   type, type, type, type, step ? arena_printf(a, "%%4 = const {value = %s} : %s\n", step, type) : "",
                   type, type, step ? "%4" : "%step", type, type, type, type, type, type, type, type);
  ll_case_open(&c, text, "sm_80");
  ll_case_ptx(&c);
  int64_t o[2] = {0};
  bool wide = strcmp(type, "i64") == 0;
  ll_case_run(&c, 1, (ll_arg[]){LL_INT(lb), LL_INT(ub), LL_INT(3), LL_BUF(o)}, 4, NULL);
  int32_t half[2];
  memcpy(half, o, sizeof half);
  int64_t n = wide ? o[0] : half[0], sum = wide ? o[1] : half[1];
  cr_assert_eq(n, want_n, "%lld trips, not %lld", (long long)n, (long long)want_n);
  cr_assert_eq(sum, want_sum);
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_flow, counted_loops) {
  count_trips("i32", "1", 0, 10, 10, 45);
  count_trips("i32", "4", 2, 11, 3, 18);
  count_trips("i32", NULL, 0, 7, 3, 9);
  count_trips("i32", "1", 5, 5, 0, 0);
  count_trips("i32", "2", 9, 5, 0, 0);
  count_trips("i32", "-3", 10, 0, 4, 22);
  count_trips("i32", "-1", 0, 10, 0, 0);
  count_trips("i32", "1000000000", 2000000000, 2147483647, 1, 2000000000); /* the next one would wrap */
  count_trips("i32", NULL, 2147483645, 2147483647, 1, 2147483645);
  count_trips("u32", "2147483648", 0, 4294967295u, 2, (int32_t)2147483648u);
  count_trips("i64", "5", 4000000000, 4000000011, 3, 12000000015);
}

/* A pointer tile that moves in a loop: one pointer is carried, all accesses are immediates of it. */
Test(llvm_flow, moving_pointers_are_carried_once) {
  ll_case c;
  ll_case_open(&c,
               "kernel @k(%x: *f32 {divisible = 16}, %o: *f32 {divisible = 16}, %n: i32)" HEAD
               " %3 = arange {start = 0} : i32[512]\n %4 = splat %x : *f32[512]\n %5 = addptr %4, %3 : *f32[512]\n"
               " %6 = const {value = 0.0} : f32[512]\n %7 = const {value = 0} : i32\n %8 = const {value = 1} : i32\n"
               " %9 = const {value = 512} : i32[512]\n"
               " %10, %11 = for %7, %n, %8, %5, %6 : *f32[512], f32[512] (%12: i32, %13: *f32[512], %14: f32[512]) {\n"
               "  %15 = load %13 : f32[512]\n  %16 = add %14, %15 : f32[512]\n  %17 = addptr %13, %9 : *f32[512]\n  "
               "yield %17, %16\n }\n"
               " %18 = splat %o : *f32[512]\n %19 = addptr %18, %3 : *f32[512]\n store %19, %11\n return\n}\n",
               "sm_90a");
  ll_case_ptx(&c);
  static float x[512 * 5], o[512];
  for (int i = 0; i < 512 * 5; i++) x[i] = (float)(i % 97);
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x), LL_BUF(o), LL_INT(5)}, 3, NULL);
  for (int i = 0; i < 512; i++) {
    float want = 0;
    for (int k = 0; k < 5; k++) want += x[k * 512 + i];
    cr_assert_eq(o[i], want);
  }
  expect_text(&c, "ld.global.v4.b32", 4);
  expect_text(&c, "+512]", 2);
  expect_text(&c, "+1536]", 2);
  cr_assert_leq(ll_count(c.ptx, "add.s64"), 4, "%s", c.ptx);
  ll_case_close(&c);
}

Test(llvm_flow, while_and_if) {
  ll_case c; /* steps of the 3n+1 problem */
  ll_case_open(&c,
               "kernel @k(%n: i32, %o: *i32)" HEAD
               " %2 = const {value = 0} : i32\n %3 = const {value = 1} : i32\n %4 = const {value = 2} : i32\n"
               " %5 = const {value = 3} : i32\n"
               " %6, %7 = while %n, %2 : i32, i32 (%8: i32, %9: i32) {\n  %10 = ne %8, %3 : i1\n  condition %10, %8, "
               "%9\n } else (%11: i32, %12: i32) {\n"
               "  %13 = and %11, %3 : i32\n  %14 = ne %13, %2 : i1\n  %15 = if %14 : i32 {\n   %16 = mul %11, %5 : "
               "i32\n   %17 = add %16, %3 : i32\n"
               "   yield %17\n  } else {\n   %18 = div %11, %4 : i32\n   yield %18\n  }\n  %19 = add %12, %3 : i32\n  "
               "yield %15, %19\n }\n"
               " %20 = gt %7, %2 : i1\n if %20 {\n  store %o, %7\n  yield\n } else {\n  yield\n }\n return\n}\n",
               "sm_75");
  ll_case_ptx(&c);
  int32_t o[1] = {-5};
  ll_case_run(&c, 1, (ll_arg[]){LL_INT(27), LL_BUF(o)}, 2, NULL);
  cr_assert_eq(o[0], 111);
  o[0] = -5;
  ll_case_run(&c, 1, (ll_arg[]){LL_INT(1), LL_BUF(o)}, 2, NULL);
  cr_assert_eq(o[0], -5);
  ll_case_close(&c);
}

/* ---- atomics -------------------------------------------------------------------------------------------------- */

/* Adds 1..256 (masked: multiples of 3 left out) to bins i / 2. */
static void atomic_case(tir_dtype d, int vec_bins, const char *sem, const char *arch, const char *instruction,
                        int count) {
  arena *a = arena_new();
  const char *t = tir_dtypes[d].text;
  const char *text = arena_printf(
      a,
      "kernel @k(%%o: *%s {divisible = 16}) num_warps(2) num_stages(1) stage(plain) {\n %%2 = arange {start = 0} : "
      "i32[256]\n"
      " %%3 = const {value = %d} : i32[256]\n %%4 = div %%2, %%3 : i32[256]\n %%5 = const {value = 3} : i32[256]\n %%6 "
      "= rem %%2, %%5 : i32[256]\n"
      " %%7 = const {value = 0} : i32[256]\n %%8 = ne %%6, %%7 : i1[256]\n %%9 = cast %%2 : %s[256]\n %%10 = splat %%o "
      ": *%s[256]\n"
      " %%11 = addptr %%10, %s : *%s[256]\n %%12 = atomic_rmw %%11, %%9%s {kind = \"%s\"%s} : %s[256]\n return\n}\n",
      t, vec_bins, t, t, vec_bins > 1 ? "%4" : "%2", t, vec_bins > 1 ? ", %8" : "", dt_is_float(d) ? "fadd" : "add",
      sem, t);
  ll_case c;
  ll_case_open(&c, text, arch);
  ll_case_ptx(&c);
  expect_text(&c, instruction, count);
  static unsigned char o[256 * 8];
  memset(o, 0, sizeof o);
  ll_case_run(&c, 2, (ll_arg[]){{o, (size_t)(256 / vec_bins * tir_dtypes[d].bytes), 0}}, 1, NULL);
  for (int b = 0; b < 256 / vec_bins; b++) {
    double want = 0;
    for (int i = b * vec_bins; i < (b + 1) * vec_bins; i++)
      if (vec_bins == 1 || i % 3) want += 2 * i;
    tir_scalar got = {0};
    memcpy(&got.bits, o + b * tir_dtypes[d].bytes, tir_dtypes[d].bytes);
    cr_assert_eq(tir_scalar_as_float(d, got), want, "%s on %s: bin %d is %g, not %g\n%s", t, arch, b,
                 tir_scalar_as_float(d, got), want, c.ptx);
  }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_flow, atomic_add) {
  atomic_case(DT_i32, 2, ", sem = \"relaxed\", scope = \"gpu\"", "sm_75", "red.relaxed.gpu.global.add.u32", 4);
  atomic_case(DT_u64, 2, ", sem = \"release\", scope = \"sys\"", "sm_80", "red.release.sys.global.add.u64", 4);
  atomic_case(DT_f32, 2, ", sem = \"relaxed\", scope = \"cta\"", "sm_80", "red.relaxed.cta.global.add.f32", 4);
  atomic_case(DT_f64, 2, ", sem = \"relaxed\", scope = \"gpu\"", "sm_70", "red.relaxed.gpu.global.add.f64", 4);
  atomic_case(DT_f16, 2, ", sem = \"relaxed\", scope = \"gpu\"", "sm_80", "red.relaxed.gpu.global.add.noftz.f16", 4);
  atomic_case(DT_f16, 2, ", sem = \"relaxed\", scope = \"gpu\"", "sm_70", ".version 6.3", 1);
  atomic_case(DT_bf16, 1, ", sem = \"relaxed\", scope = \"gpu\"", "sm_80", "atom.relaxed.gpu.global.cas.b16", 4);
}

/* Consecutive registers, placed by hand: one instruction for several elements. */
static void red_case(tir_dtype d, const char *arch, const char *instruction, int count) {
  arena *a = arena_new();
  const char *t = tir_dtypes[d].text, *lay = "r(1,2,128)l(4..64)w()";
  const char *text = arena_printf(
      a,
      "kernel @k(%%o: *%s {divisible = 16}) num_warps(1) num_stages(1) stage(placed) {\n %%2 = arange {start = 0} : "
      "i32[256]@%s\n"
      " %%9 = cast %%2 : %s[256]@%s\n %%10 = splat %%o : *%s[256]@%s\n %%11 = addptr %%10, %%2 : *%s[256]@%s\n"
      " %%12 = atomic_rmw %%11, %%9 {axis = 0, kind = \"fadd\", scope = \"gpu\", sem = \"relaxed\", vec = 4} : "
      "%s[256]@%s\n return\n}\n",
      t, lay, t, lay, t, lay, t, lay, t, lay);
  ll_case c;
  ll_case_open(&c, text, arch);
  ll_case_ptx(&c);
  expect_text(&c, instruction, count);
  static unsigned char o[256 * 4];
  memset(o, 0, sizeof o);
  ll_case_run(&c, 2, (ll_arg[]){{o, (size_t)(256 * tir_dtypes[d].bytes), 0}}, 1, NULL);
  for (int i = 0; i < 256; i++) {
    tir_scalar got = {0};
    memcpy(&got.bits, o + i * tir_dtypes[d].bytes, tir_dtypes[d].bytes);
    cr_assert_eq(tir_scalar_as_float(d, got), 2.0 * i);
  }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_flow, vectors_of_atomics) {
  red_case(DT_f32, "sm_90", "red.relaxed.gpu.global.add.v4.f32", 2);
  red_case(DT_f16, "sm_80", "red.relaxed.gpu.global.add.noftz.f16x2", 4);
  red_case(DT_bf16, "sm_90", "red.relaxed.gpu.global.add.noftz.bf16x2", 4);
  red_case(DT_bf16, "sm_80", ".cas.b16", 8);
  red_case(DT_f32, "sm_80", "red.relaxed.gpu.global.add.f32", 8);
}

/* Every kind, on values that tell them apart; the old values are used. */
static void kinds_case(tir_dtype d, const char *arch) {
  static const struct {
    const char *kind;
    double want_of_7_and_minus_3, want_of_minus_2_and_5;
  } kinds[] = {{"max", 7, 5}, {"min", -3, -2}, {"xchg", -3, 5}, {"and", 5, 4}, {"or", -1, -1}, {"xor", -6, -5}};
  arena *a = arena_new();
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (dt_is_float(d) && strcmp(kinds[k].kind, "xchg") != 0) continue;
    const char *t = tir_dtypes[d].text;
    const char *text =
        arena_printf(a,
                     "kernel @k(%%o: *%s, %%v: *%s, %%old: *%s) num_warps(1) num_stages(1) stage(plain) {\n %%1 = "
                     "arange {start = 0} : i32[2]\n"
                     " %%2 = splat %%o : *%s[2]\n %%3 = addptr %%2, %%1 : *%s[2]\n %%4 = splat %%v : *%s[2]\n %%5 = "
                     "addptr %%4, %%1 : *%s[2]\n"
                     " %%6 = load %%5 : %s[2]\n %%7 = atomic_rmw %%3, %%6 {kind = \"%s\", sem = \"acq_rel\", scope = "
                     "\"gpu\"} : %s[2]\n"
                     " %%8 = splat %%old : *%s[2]\n %%9 = addptr %%8, %%1 : *%s[2]\n store %%9, %%7\n return\n}\n",
                     t, t, t, t, t, t, t, t, kinds[k].kind, t, t, t);
    ll_case c;
    ll_case_open(&c, text, arch);
    ll_case_ptx(&c);
    int b = tir_dtypes[d].bytes;
    uint64_t o[2] = {0}, v[2] = {0}, old[2] = {0};
    static const double start[2] = {7, -2}, by[2] = {-3, 5};
    for (int i = 0; i < 2; i++) {
      tir_scalar s = tir_scalar_float(d, start[i]), w = tir_scalar_float(d, by[i]);
      if (!dt_is_float(d)) s = tir_scalar_int(d, (int64_t)start[i]), w = tir_scalar_int(d, (int64_t)by[i]);
      memcpy((char *)o + i * b, &s, (size_t)b);
      memcpy((char *)v + i * b, &w, (size_t)b);
    }
    ll_case_run(&c, 1, (ll_arg[]){{o, (size_t)(2 * b), 0}, {v, (size_t)(2 * b), 0}, {old, (size_t)(2 * b), 0}}, 3,
                NULL);
    for (int i = 0; i < 2; i++) {
      tir_scalar got = {0}, was = {0};
      memcpy(&got, (char *)o + i * b, (size_t)b);
      memcpy(&was, (char *)old + i * b, (size_t)b);
      cr_assert_eq(tir_scalar_as_float(d, got), i ? kinds[k].want_of_minus_2_and_5 : kinds[k].want_of_7_and_minus_3,
                   "%s of %s: %g", kinds[k].kind, t, tir_scalar_as_float(d, got));
      cr_assert_eq(tir_scalar_as_float(d, was), start[i], "%s of %s: old %g", kinds[k].kind, t,
                   tir_scalar_as_float(d, was));
    }
    ll_case_close(&c);
  }
  arena_free(a);
}

Test(llvm_flow, kinds_of_atomics) {
  kinds_case(DT_i32, "sm_75");
  kinds_case(DT_i64, "sm_80");
  kinds_case(DT_f32, "sm_70");
  kinds_case(DT_f64, "sm_90");
}

/* A scalar atomic happens once for each program and every thread learns the old value. */
Test(llvm_flow, atomic_result_reaches_every_thread) {
  ll_case c;
  ll_case_open(&c,
               "kernel @k(%ticket: *i32, %o: *i32 {divisible = 16}) num_warps(4) num_stages(1) stage(plain) {\n %2 = "
               "const {value = 1} : i32\n"
               " %3 = atomic_rmw %ticket, %2 {kind = \"add\", sem = \"acq_rel\", scope = \"gpu\"} : i32\n %4 = const "
               "{value = 128} : i32\n"
               " %5 = mul %3, %4 : i32\n %6 = arange {start = 0} : i32[128]\n %7 = splat %5 : i32[128]\n %8 = add %7, "
               "%6 : i32[128]\n"
               " %9 = splat %o : *i32[128]\n %10 = addptr %9, %8 : *i32[128]\n %11 = splat %3 : i32[128]\n store %10, "
               "%11\n return\n}\n",
               "sm_80");
  ll_case_ptx(&c);
  expect_text(&c, "atom.acq_rel.gpu.global.add.u32", 1);
  static int32_t ticket[1], o[128 * 5];
  ll_case_run(&c, 5, (ll_arg[]){LL_BUF(ticket), LL_BUF(o)}, 2, NULL);
  cr_assert_eq(ticket[0], 5);
  for (int i = 0; i < 128 * 5; i++) cr_assert_eq(o[i], i / 128);
  ll_case_close(&c);
}

/* ---- dot ------------------------------------------------------------------------------------------------------ */

static void dot_case(const char *in, tir_dtype in_d, const char *acc, tir_dtype acc_d, int m, int n, int k, int warps,
                     const char *arch) {
  arena *a = arena_new();
  textbuf t;
  text_init(&t, a);
  text_printf(&t,
              "kernel @k(%%a: *%s {divisible = 16}, %%b: *%s {divisible = 16}, %%c: *%s {divisible = 16}) "
              "num_warps(%d) num_stages(1) stage(plain) {\n",
              in, in, acc, warps);
  struct {
    char name;
    int rows, cols;
    const char *type;
  } tiles[3] = {{'a', m, k, in}, {'b', k, n, in}, {'c', m, n, acc}};
  for (int i = 0; i < 3; i++) {
    int r = tiles[i].rows, q = tiles[i].cols, v = 100 * (i + 1);
    text_printf(
        &t,
        " %%%d = arange {start = 0} : i32[%d]\n %%%d = reshape %%%d : i32[%d,%d]\n %%%d = splat %%%c : *%s[%d,%d]\n"
        " %%%d = addptr %%%d, %%%d : *%s[%d,%d]\n",
        v, r * q, v + 1, v, r, q, v + 2, tiles[i].name, tiles[i].type, r, q, v + 3, v + 2, v + 1, tiles[i].type, r, q);
    text_printf(&t, " %%%d = load %%%d : %s[%d,%d]\n", v + 4, v + 3, tiles[i].type, r, q);
  }
  text_printf(&t, " %%400 = dot %%104, %%204, %%304 : %s[%d,%d]\n store %%303, %%400\n return\n}\n", acc, m, n);
  ll_case c;
  ll_case_open(&c, t.at, arch);
  ll_case_ptx(&c);
  static unsigned char x[4096 * 8], y[4096 * 8], z[4096 * 8];
  int ib = tir_dtypes[in_d].bytes, ab = tir_dtypes[acc_d].bytes;
  for (int i = 0; i < m * k; i++) {
    tir_scalar s = tir_scalar_int(in_d, i * 7 % 11 - 5);
    memcpy(x + i * ib, &s, (size_t)ib);
  }
  for (int i = 0; i < k * n; i++) {
    tir_scalar s = tir_scalar_int(in_d, i * 5 % 13 - 6);
    memcpy(y + i * ib, &s, (size_t)ib);
  }
  for (int i = 0; i < m * n; i++) {
    tir_scalar s = tir_scalar_int(acc_d, i % 3);
    memcpy(z + i * ab, &s, (size_t)ab);
  }
  ll_case_run(&c, 1,
              (ll_arg[]){{x, (size_t)(m * k * ib), 0}, {y, (size_t)(k * n * ib), 0}, {z, (size_t)(m * n * ab), 0}}, 3,
              NULL);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      int64_t want = (i * n + j) % 3;
      for (int q = 0; q < k; q++) want += (int64_t)((i * k + q) * 7 % 11 - 5) * ((q * n + j) * 5 % 13 - 6);
      tir_scalar got = {0};
      memcpy(&got.bits, z + (i * n + j) * ab, (size_t)ab);
      double g = dt_is_float(acc_d) ? tir_scalar_as_float(acc_d, got) : (double)tir_scalar_as_int(acc_d, got);
      cr_assert_eq(g, (double)want, "%s %dx%dx%d [%d,%d] is %g, not %lld", in, m, n, k, i, j, g, (long long)want);
    }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_flow, dot) {
  dot_case("f32", DT_f32, "f32", DT_f32, 32, 32, 16, 4, "sm_80");
  dot_case("f16", DT_f16, "f32", DT_f32, 16, 64, 8, 2, "sm_75");
  dot_case("bf16", DT_bf16, "f32", DT_f32, 32, 16, 32, 4, "sm_75");
  dot_case("f64", DT_f64, "f64", DT_f64, 16, 16, 16, 1, "sm_80");
  dot_case("i8", DT_i8, "i32", DT_i32, 16, 32, 16, 4, "sm_70");
  dot_case("f8e5m2", DT_f8e5m2, "f32", DT_f32, 16, 16, 4, 2, "sm_89");
}

/* ---- print, assert, lines ------------------------------------------------------------------------------------- */

Test(llvm_flow, print) {
  ll_case c;
  ll_case_open(&c,
               "kernel @k(%x: f32, %n: i64)" HEAD
               " %2 = arange {start = 5} : i32[4]\n print %2 {message = \"50% of it\"}\n print %x {message = \"x\"}\n"
               " print %n {message = \"n\", hex = 1}\n print {message = \"done\"}\n return\n}\n",
               "sm_80");
  ll_case_ptx(&c);
  textbuf out;
  text_init(&out, c.a);
  float x = 1.5f;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  ll_case_run(&c, 1, (ll_arg[]){LL_INT(bits), LL_INT(-2)}, 2, &out);
  for (int i = 0; i < 4; i++)
    cr_assert_not_null(strstr(out.at, arena_printf(c.a, "pid (0, 0, 0) idx (%d) 50%% of it: %d\n", i, i + 5)), "%s",
                       out.at);
  cr_assert_not_null(strstr(out.at, "x: 1.5\n"), "%s", out.at);
  cr_assert_not_null(strstr(out.at, "n: 0xfffffffffffffffe\n"), "%s", out.at);
  cr_assert_eq(ll_count(out.at, "\n"), 7, "%s", out.at);
  ll_case_close(&c);
}

Test(llvm_flow, assertions_name_the_line) {
  ll_case c;
  ll_case_open(&c,
               "kernel @k(%x: *i32)" HEAD
               " %2 = load %x : i32\n %3 = const {value = 7} : i32\n %4 = eq %2, %3 : i1\n assert %4 {message = "
               "\"seven\"}\n return\n}\n",
               "sm_80");
  ll_case_ptx(&c);
  expect_text(&c, "call.uni __assertfail", 1);
  int32_t x[1] = {7};
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x)}, 1, NULL);
  ll_case_close(&c);
}

Test(llvm_flow, line_tables_name_the_source) {
  ll_case c;
  ll_case_open(
      &c,
      "kernel @k(%x: *i32, %o: *i32)" HEAD
      " %2 = load %x : i32\n %3 = const {value = 7} : i32\n %4 = mul %2, %3 : i32\n store %o, %4\n return\n}\n",
      "sm_90a");
  c.options.line_tables = true;
  ll_case_ptx(&c);
  expect_text(&c, ".file", 1);
  expect_text(&c, "kernel.tir", 1);
  cr_assert_geq(ll_count(c.ptx, ".loc"), 3, "%s", c.ptx);
  cr_assert_not_null(strstr(c.ptx, ".loc\t1 5 "), "%s", c.ptx);
  expect_text(&c, ".target sm_90a\n", 1); /* no `debug`: ptxas would not optimise */
  ll_case_close(&c);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void expect_diagnostic(const ll_case *c, const char *part) {
  textbuf t;
  text_init(&t, c->a);
  diag_render(&c->sink, DIAG_LINE, false, &t);
  cr_assert_not_null(strstr(t.at, part), "%s", t.at);
}

static const char small_kernel[] =
    "kernel @k(%x: f64, %o: *f64)" HEAD " %2 = sin %x : f64\n store %o, %2\n return\n}\n";

Test(llvm_flow, refused_options) {
  ll_case c;
  textbuf ptx;
  ll_case_open(&c, small_kernel, "sm_90a");
  text_init(&ptx, c.a);
  c.options.ptx_version = 70;
  cr_assert_not(ll_emit(&c.options, &c.fn, 1, &c.sink, &ptx, NULL));
  expect_diagnostic(&c, "[ll_ptx_version]");
  cr_assert_eq(ptx.n, 0);
  c.options.ptx_version = 0;
  c.options.libdevice = "/nowhere/libdevice.bc";
  cr_assert_not(ll_emit(&c.options, &c.fn, 1, &c.sink, &ptx, NULL));
  expect_diagnostic(&c, "[ll_libdevice]");
  c.options.libdevice = "Makefile";
  cr_assert_not(ll_emit(&c.options, &c.fn, 1, &c.sink, &ptx, NULL));
  expect_diagnostic(&c, "it is not LLVM bitcode");
  ll_case_close(&c);
}

static void refused_kernel(const char *text, const char *id) {
  ll_case c;
  textbuf ptx;
  ll_case_open(&c, text, "sm_80");
  text_init(&ptx, c.a);
  cr_assert_not(ll_emit(&c.options, &c.fn, 1, &c.sink, &ptx, NULL));
  expect_diagnostic(&c, id);
  cr_assert_eq(ptx.n, 0);
  ll_case_close(&c);
}

Test(llvm_flow, refused_kernels) {
  refused_kernel("kernel @vprintf(%x: *f32)" HEAD " return\n}\n", "[ll_kernel_name]");
  refused_kernel("kernel @WARP_SZ(%x: *f32)" HEAD " return\n}\n", "[ll_kernel_name]");
  refused_kernel("kernel @_(%x: *f32)" HEAD " return\n}\n", "[ll_kernel_name]");
  refused_kernel("kernel @\"caf\xc3\xa9\"(%x: *f32)" HEAD " return\n}\n", "[ll_kernel_name]");
  refused_kernel("kernel @k(%x: *f32)" HEAD
                 " %1 = arange {start = 0} : i32[262144]\n %2 = splat %x : *f32[262144]\n"
                 " %3 = addptr %2, %1 : *f32[262144]\n %4 = cast %1 : f32[262144]\n store %3, %4\n return\n}\n",
                 "[ll_too_many_registers]");
}

Test(llvm_flow, version_follows_the_instructions) {
  arena *a = arena_new();
  diag_sink sink;
  diag_sink_init(&sink, a, NULL);
  const arch_t *sm_80 = arch_find("sm_80"), *sm_89 = arch_find("sm_89");
  static const char plain[] =
      "\n.version 7.0\n.target sm_80\n\tadd.s32 %r1, %r2, %r3;\n // ld.global.L1::evict_first\n";
  static const char hinted[] = "\n.version 7.0\n.target sm_80\n\t@%p1 ld.global.L1::evict_first.b32 %r1, [%rd1];\n";
  static const char narrow[] = "\n.version 7.8\n.target sm_89\n\tcvt.rn.satfinite.e4m3x2.f32 %rs1, %r1, %r2;\n";
  cr_assert_eq(ptx_version_needed(plain, sm_80, 0, &sink), 70);
  cr_assert_eq(ptx_version_needed(hinted, sm_80, 0, &sink), 74);
  cr_assert_eq(ptx_version_needed(narrow, sm_89, 0, &sink), 81);
  cr_assert_eq(ptx_version_needed(plain, sm_80, 80, &sink), 80);
  cr_assert_eq(sink.n_errors, 0);
  cr_assert_eq(ptx_version_needed(hinted, sm_80, 73, &sink), 0);
  cr_assert_eq(sink.n_errors, 1);
  textbuf out;
  text_init(&out, a);
  ptx_finish(hinted, 74, "// one\n", &out);
  cr_assert_str_eq(out.at, "// one\n.version 7.4\n.target sm_80\n\t@%p1 ld.global.L1::evict_first.b32 %r1, [%rd1];\n");
  arena_free(a);
}

Test(llvm_flow, targets) {
  int n;
  const arch_t *all = arch_all(&n);
  cr_assert_eq(n, 12);
  for (int i = 0; i < n; i++) {
    cr_assert_eq(arch_find(all[i].name), &all[i]);
    cr_assert(arch_ptx_version_known(all[i].ptx));
  }
  cr_assert_null(arch_find("sm_91"));
  cr_assert_str_eq(arch_for_device(90)->name, "sm_90a");
  cr_assert_str_eq(arch_for_device(87)->name, "sm_86");
  cr_assert_str_eq(arch_for_device(121)->name, "sm_120");
  cr_assert_null(arch_for_device(61));
  cr_assert(arch_find("sm_90a")->has_wgmma && !arch_find("sm_90")->has_wgmma && arch_find("sm_90")->has_tma);
  cr_assert(arch_find("sm_80")->has_cp_async && !arch_find("sm_75")->has_cp_async);
}
