/* The emitter on whole kernels: accesses, addresses, reductions, conversions, control flow, atomics, dot, print,
 * assert, line tables. Kernels are tile IR text; results come from the PTX emulator and are compared with plain C. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "compiler/llvm/ll.h"
#include "tests/test.h"
#include "tests/unit/llvm_run.h"

static void expect_text(const ll_case *c, const char *part, int count) {
  int n = ll_count(c->ptx, part);
  cr_assert_eq(n, count, "'%s' occurs %d times, not %d, in\n%s", part, n, count, c->ptx);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static const char add_kernel[] =
    "kernel @add(%x: *f32 {divisible = 16}, %y: *f32 {divisible = 16}, %out: *f32 {divisible = 16}, %n: i32 {divisible "
    "= 16})"
    " num_warps(4) num_stages(3) stage(plain) {\n"
    " %2 = program_id {axis = 0} : i32\n %3 = const {value = 1024} : i32\n %4 = mul %2, %3 : i32\n"
    " %5 = arange {start = 0} : i32[1024]\n %6 = splat %4 : i32[1024]\n %7 = add %6, %5 : i32[1024]\n"
    " %8 = splat %n : i32[1024]\n %9 = lt %7, %8 : i1[1024]\n"
    " %10 = splat %x : *f32[1024]\n %11 = addptr %10, %7 : *f32[1024]\n"
    " %12 = splat %y : *f32[1024]\n %13 = addptr %12, %7 : *f32[1024]\n"
    " %14 = splat %out : *f32[1024]\n %15 = addptr %14, %7 : *f32[1024]\n"
    " %16 = load %11, %9 : f32[1024]\n %17 = load %13, %9 : f32[1024]\n %18 = add %16, %17 : f32[1024]\n"
    " store %15, %18, %9\n return\n}\n";

Test(llvm_tile, vector_add_on_every_target) {
  int n_archs;
  const arch_t *archs = arch_all(&n_archs);
  static float x[3072], y[3072], out[3072];
  for (int i = 0; i < 3072; i++) {
    x[i] = (float)i;
    y[i] = 0.25f * (float)(i % 7);
  }
  for (int k = 0; k < n_archs; k++) {
    ll_case c;
    ll_case_open(&c, add_kernel, archs[k].name);
    ll_case_ptx(&c);
    expect_text(&c, "ld.global.v4.b32", 4);
    expect_text(&c, "st.global.v4.b32", 2);
    expect_text(&c, "+2048]", 3); /* one address each, the second half as an immediate */
    expect_text(&c, "mul.wide.s32", 1);
    expect_text(
        &c, arena_printf(c.a, ".version %d.%d\n.target %s\n", archs[k].ptx / 10, archs[k].ptx % 10, archs[k].name), 1);
    for (int i = 0; i < 3072; i++) out[i] = -1;
    ll_case_run(&c, 3, (ll_arg[]){LL_BUF(x), LL_BUF(y), LL_BUF(out), LL_INT(2576)}, 4, NULL);
    for (int i = 0; i < 3072; i++)
      cr_assert_eq(out[i], i < 2576 ? x[i] + y[i] : -1, "%s: [%d] is %g", archs[k].name, i, (double)out[i]);
    ll_case_close(&c);
  }
}

Test(llvm_tile, output_is_the_same_each_time) {
  ll_case c;
  ll_case_open(&c, add_kernel, "sm_90a");
  const char *first = ll_case_ptx(&c), *second = ll_case_ptx(&c);
  cr_assert_str_eq(first, second);
  ll_case_close(&c);
}

/* A copy of n elements of a type with a mask: widths follow the type. */
static void copy_of(const char *type, int bytes, int warps, const char *load_attrs, const char *store_attrs,
                    const char *arch, const char *load, int loads, const char *store, int stores) {
  ll_case c;
  arena *a = arena_new();
  const char *text = arena_printf(
      a,
      "kernel @copy(%%x: *%s {divisible = 16}, %%out: *%s {divisible = 16}, %%n: i32 {divisible = 16}) num_warps(%d)"
      " num_stages(1) stage(plain) {\n %%5 = arange {start = 0} : i32[512]\n %%8 = splat %%n : i32[512]\n"
      " %%9 = lt %%5, %%8 : i1[512]\n %%10 = splat %%x : *%s[512]\n %%11 = addptr %%10, %%5 : *%s[512]\n"
      " %%14 = splat %%out : *%s[512]\n %%15 = addptr %%14, %%5 : *%s[512]\n"
      " %%16 = load %%11, %%9 %s : %s[512]\n store %%15, %%16, %%9 %s\n return\n}\n",
      type, type, warps, type, type, type, type, load_attrs, type, store_attrs);
  ll_case_open(&c, text, arch);
  ll_case_ptx(&c);
  expect_text(&c, load, loads);
  expect_text(&c, store, stores);
  static unsigned char in[512 * 8], out[512 * 8];
  for (int i = 0; i < 512 * bytes; i++) in[i] = (unsigned char)(strcmp(type, "i1") == 0 ? i % 3 == 0 : i * 37);
  memset(out, 0xee, sizeof out);
  size_t size = (size_t)(512 * bytes);
  ll_case_run(&c, 1, (ll_arg[]){{in, size, 0}, {out, size, 0}, LL_INT(320)}, 3, NULL);
  cr_assert_arr_eq(out, in, (size_t)(320 * bytes));
  for (int i = 320 * bytes; i < 512 * bytes; i++) cr_assert_eq(out[i], 0xee);
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_tile, widths_of_access) {
  copy_of("f64", 8, 1, "", "", "sm_80", "ld.global.v2.b64", 8, "st.global.v2.b64", 8);
  copy_of("f32", 4, 1, "", "", "sm_80", "ld.global.v4.b32", 4, "st.global.v4.b32", 4);
  copy_of("f16", 2, 1, "", "", "sm_75", "ld.global.v4.b32", 2, "st.global.v4.b32", 2);
  copy_of("bf16", 2, 4, "", "", "sm_80", "ld.global.v2.b32", 1, "st.global.v2.b32", 1);
  copy_of("i8", 1, 1, "", "", "sm_80", "ld.global.v4.b32", 1, "st.global.v4.b32", 1);
  copy_of("f8e4m3", 1, 4, "", "", "sm_80", "ld.global.b32", 1, "st.global.b32", 1);
  copy_of("i1", 1, 8, "", "", "sm_80", "ld.global.b16", 1, "st.global.b16", 1);
  copy_of("i16", 2, 16, "", "", "sm_80", "ld.global.b16", 1, "st.global.b16", 1);
  copy_of("u8", 1, 16, "", "", "sm_80", "ld.global.b8", 1, "st.global.b8", 1);
}

Test(llvm_tile, cache_hints) {
  copy_of("f32", 4, 4, "{cache = \"cg\"}", "{cache = \"cs\"}", "sm_80", "ld.global.cg.v4.b32", 1, "st.global.cs.v4.b32",
          1);
  copy_of("f32", 4, 4, "{evict = \"evict_first\"}", "{evict = \"evict_last\"}", "sm_80",
          "ld.global.L1::evict_first.L2::cache_hint.v4.b32", 1, "st.global.L1::evict_last.L2::cache_hint.v4.b32", 1);
  copy_of("f32", 4, 4, "{evict = \"evict_first\"}", "{evict = \"evict_first\"}", "sm_80", ".version 7.4", 1,
          "createpolicy.fractional.L2::evict_first", 1);
  copy_of("f32", 4, 4, "{evict = \"evict_first\"}", "", "sm_75", "ld.global.L1::evict_first.v4.b32", 1, ".version 7.4",
          1);
  copy_of("f32", 4, 4, "{cache = \"ca\", evict = \"evict_first\"}", "{cache = \"wt\"}", "sm_90",
          "ld.global.ca.L2::cache_hint.v4.b32", 1, "st.global.wt.v4.b32", 1);
  copy_of("f16", 2, 2, "{is_volatile = 1}", "", "sm_80", "ld.volatile.global.v4.b32", 1, "st.global.v4.b32", 1);
}

Test(llvm_tile, const_pointers_are_read_through_the_read_only_path) {
  ll_case c;
  ll_case_open(
      &c,
      "kernel @k(%x: *const f32 {divisible = 16}, %o: *f32 {divisible = 16}) num_warps(1) num_stages(1) stage(plain) "
      "{\n"
      " %5 = arange {start = 0} : i32[128]\n %6 = splat %x : *const f32[128]\n %7 = addptr %6, %5 : *const f32[128]\n"
      " %8 = load %7 : f32[128]\n %9 = splat %o : *f32[128]\n %10 = addptr %9, %5 : *f32[128]\n store %10, %8\n "
      "return\n}\n",
      "sm_80");
  ll_case_ptx(&c);
  expect_text(&c, "ld.global.nc.v4.b32", 1);
  expect_text(&c, "st.global.v4.b32", 1);
  ll_case_close(&c);
}

/* 32 bytes at once where the target can; the version follows. */
Test(llvm_tile, wide_access) {
  static const char text[] =
      "kernel @k(%x: *f32 {divisible = 32}, %o: *f32 {divisible = 32}, %n: i32) num_warps(1) num_stages(1) "
      "stage(placed) {\n"
      " %1 = arange {start = 0} : i32[256]@r(1,2,4)l(8..128)w()\n %2 = splat %x : *f32[256]@r(1,2,4)l(8..128)w()\n"
      " %3 = addptr %2, %1 : *f32[256]@r(1,2,4)l(8..128)w()\n %4 = splat %n : i32[256]@r(1,2,4)l(8..128)w()\n"
      " %5 = lt %1, %4 : i1[256]@r(1,2,4)l(8..128)w()\n %6 = load %3, %5 {axis = 0, vec = 8} : "
      "f32[256]@r(1,2,4)l(8..128)w()\n"
      " %7 = splat %o : *f32[256]@r(1,2,4)l(8..128)w()\n %8 = addptr %7, %1 : *f32[256]@r(1,2,4)l(8..128)w()\n"
      " store %8, %6, %5 {axis = 0, vec = 8}\n return\n}\n";
  static const char *const archs[] = {"sm_100a", "sm_90a"};
  for (int k = 0; k < 2; k++) {
    ll_case c;
    ll_case_open(&c, text, archs[k]);
    ll_case_ptx(&c);
    expect_text(&c, k ? ".v4.b32" : ".v8.b32", k ? 4 : 2);
    expect_text(&c, k ? ".version 8.0" : ".version 8.8", 1);
    static float x[256] __attribute__((aligned(32))), o[256];
    for (int i = 0; i < 256; i++) {
      x[i] = (float)(i + 1);
      o[i] = 0;
    }
    ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x), LL_BUF(o), LL_INT(192)}, 3, NULL);
    for (int i = 0; i < 256; i++) cr_assert_eq(o[i], i < 192 ? x[i] : 0);
    ll_case_close(&c);
  }
}

/* Masks of single elements, a value for the rest, and offsets that are no run. */
Test(llvm_tile, gather_with_other) {
  ll_case c;
  ll_case_open(
      &c,
      "kernel @k(%x: *i16, %at: *i32 {divisible = 16}, %o: *i16 {divisible = 16}) num_warps(2) num_stages(1) "
      "stage(plain) {\n"
      " %5 = arange {start = 0} : i32[256]\n %6 = splat %at : *i32[256]\n %7 = addptr %6, %5 : *i32[256]\n %8 = load "
      "%7 : i32[256]\n"
      " %9 = const {value = 0} : i32[256]\n %10 = ge %8, %9 : i1[256]\n %11 = splat %x : *i16[256]\n %12 = addptr %11, "
      "%8 : *i16[256]\n"
      " %13 = const {value = -77} : i16[256]\n %14 = load %12, %10, %13 : i16[256]\n %15 = splat %o : *i16[256]\n"
      " %16 = addptr %15, %5 : *i16[256]\n store %16, %14\n return\n}\n",
      "sm_80");
  ll_case_ptx(&c);
  static int16_t x[1000], o[256];
  static int32_t at[256];
  for (int i = 0; i < 1000; i++) x[i] = (int16_t)(i * 3);
  for (int i = 0; i < 256; i++) at[i] = i % 5 == 0 ? -1000000 : i * 389 % 1000;
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x), LL_BUF(at), LL_BUF(o)}, 3, NULL);
  for (int i = 0; i < 256; i++) cr_assert_eq(o[i], at[i] < 0 ? -77 : at[i] * 3);
  ll_case_close(&c);
}

/* A scalar store is done by one thread, a replicated tile stored once. */
Test(llvm_tile, scalars_and_replicas_are_stored_once) {
  ll_case c;
  ll_case_open(
      &c,
      "kernel @k(%x: *f32, %o: *f32 {divisible = 16}) num_warps(4) num_stages(1) stage(plain) {\n"
      " %2 = load %x : f32\n %3 = const {value = 2.0} : f32\n %4 = mul %2, %3 : f32\n %5 = const {value = 9} : i32\n"
      " %6 = addptr %o, %5 : *f32\n store %6, %4\n %7 = arange {start = 0} : i32[8]\n %8 = splat %o : *f32[8]\n"
      " %9 = addptr %8, %7 : *f32[8]\n %10 = cast %7 : f32[8]\n store %9, %10\n return\n}\n",
      "sm_80");
  ll_case_ptx(&c);
  static float x[1] = {21}, o[16];
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x), LL_BUF(o)}, 2, NULL);
  for (int i = 0; i < 16; i++) cr_assert_eq(o[i], i < 8 ? (float)i : i == 9 ? 42 : 0);
  cr_assert_geq(ll_count(c.ptx, "@%p"), 2);
  ll_case_close(&c);
}

/* ---- reductions ----------------------------------------------------------------------------------------------- */

/* Reduces a [rows, cols] tile along an axis, with a kernel that holds %20 = the tile's type T and `body` for the
 * region. */
static void reduce_case(const char *type, int rows, int cols, int axis, int warps, const char *op, const char *arch,
                        ll_case *c) {
  arena *a = arena_new();
  int n = axis ? rows : cols;
  const char *text = arena_printf(
      a,
      "kernel @k(%%x: *%s {divisible = 16}, %%o: *%s {divisible = 16}) num_warps(%d) num_stages(1) stage(plain) {\n"
      " %%2 = arange {start = 0} : i32[%d]\n %%3 = expand_dims %%2 {axis = 1} : i32[%d,1]\n %%4 = const {value = %d} : "
      "i32[%d,1]\n"
      " %%5 = mul %%3, %%4 : i32[%d,1]\n %%6 = broadcast %%5 : i32[%d,%d]\n %%7 = arange {start = 0} : i32[%d]\n"
      " %%8 = expand_dims %%7 {axis = 0} : i32[1,%d]\n %%9 = broadcast %%8 : i32[%d,%d]\n %%10 = add %%6, %%9 : "
      "i32[%d,%d]\n"
      " %%11 = splat %%x : *%s[%d,%d]\n %%12 = addptr %%11, %%10 : *%s[%d,%d]\n %%13 = load %%12 : %s[%d,%d]\n"
      " %%14 = reduce %%13 {axis = %d} : %s[%d] (%%15: %s, %%16: %s) {\n %%17 = %s %%15, %%16 : %s\n yield %%17\n }\n"
      " %%18 = arange {start = 0} : i32[%d]\n %%19 = splat %%o : *%s[%d]\n %%20 = addptr %%19, %%18 : *%s[%d]\n store "
      "%%20, %%14\n return\n}\n",
      type, type, warps, rows, rows, cols, rows, rows, rows, cols, cols, cols, rows, cols, rows, cols, type, rows, cols,
      type, rows, cols, type, rows, cols, axis, type, n, type, type, op, type, n, type, n, type, n);
  ll_case_open(c, text, arch);
  ll_case_ptx(c);
  arena_free(a);
}

Test(llvm_tile, reduce_integers_exactly) {
  static const struct {
    int rows, cols, axis, warps;
  } shapes[] = {{4, 256, 1, 4}, {64, 16, 0, 4}, {1, 1024, 1, 8}, {128, 2, 0, 2},
                {2, 32, 1, 1},  {16, 64, 0, 8}, {8, 8, 1, 4},    {32, 32, 1, 16}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    int rows = shapes[s].rows, cols = shapes[s].cols, axis = shapes[s].axis, n = axis ? rows : cols;
    static int32_t x[2048], o[1024];
    for (int i = 0; i < rows * cols; i++) x[i] = (i * 7919) % 2003 - 1000;
    for (int k = 0; k < 3; k++) {
      ll_case c;
      static const char *const ops[] = {"add", "max", "xor"};
      reduce_case("i32", rows, cols, axis, shapes[s].warps, ops[k], s % 2 ? "sm_90a" : "sm_75", &c);
      ll_case_run(&c, 1, (ll_arg[]){{x, (size_t)(rows * cols) * 4, 0}, {o, (size_t)n * 4, 0}}, 2, NULL);
      for (int i = 0; i < n; i++) {
        int32_t want = 0;
        for (int j = 0; j < (axis ? cols : rows); j++) {
          int32_t v = axis ? x[i * cols + j] : x[j * cols + i];
          want = j == 0 ? v : k == 0 ? want + v : k == 1 ? (v > want ? v : want) : (want ^ v);
        }
        cr_assert_eq(o[i], want, "%s of %dx%d along %d by %d warps: [%d] is %d, not %d\n%s", ops[k], rows, cols, axis,
                     shapes[s].warps, i, o[i], want, c.ptx);
      }
      ll_case_close(&c);
    }
  }
}

Test(llvm_tile, reduce_other_types) {
  static double x64[1024], o64[4];
  static uint16_t x16[1024], o16[4];
  static uint8_t x8[1024], o8[4];
  ll_case c;
  for (int i = 0; i < 1024; i++) {
    x64[i] = i * 0.5;
    x16[i] = (uint16_t)(tir_scalar_float(DT_f16, (i * 37 % 512) - 256.0).bits);
    x8[i] = (uint8_t)(i * 11 % 127);
  }
  reduce_case("f64", 4, 256, 1, 4, "add", "sm_80", &c);
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x64), LL_BUF(o64)}, 2, NULL);
  for (int r = 0; r < 4; r++) cr_assert_eq(o64[r], (r * 256 * 256 + 255 * 128) * 0.5);
  ll_case_close(&c);
  reduce_case("f16", 4, 256, 1, 8, "max", "sm_75", &c);
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x16), LL_BUF(o16)}, 2, NULL);
  for (int r = 0; r < 4; r++) {
    double want = -1e9;
    for (int i = 0; i < 256; i++) want = fmax(want, ((r * 256 + i) * 37 % 512) - 256.0);
    cr_assert_eq(tir_scalar_as_float(DT_f16, (tir_scalar){o16[r]}), want);
  }
  ll_case_close(&c);
  reduce_case("u8", 4, 256, 1, 8, "max", "sm_90", &c);
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x8), LL_BUF(o8)}, 2, NULL);
  for (int r = 0; r < 4; r++) cr_assert_eq(o8[r], 126);
  ll_case_close(&c);
}

Test(llvm_tile, redux_where_the_target_has_it) {
  ll_case c;
  reduce_case("i32", 1, 32, 1, 1, "add", "sm_80", &c);
  expect_text(&c, "redux.sync.add", 1);
  expect_text(&c, "shfl", 0);
  ll_case_close(&c);
  reduce_case("i32", 1, 32, 1, 1, "add", "sm_75", &c);
  expect_text(&c, "shfl.sync.bfly", 5);
  ll_case_close(&c);
}

/* Largest value with its index: two operands, a region with a select, across warps. */
Test(llvm_tile, reduce_pairs) {
  ll_case c;
  ll_case_open(&c,
               "kernel @k(%x: *f32 {divisible = 16}, %o: *i32) num_warps(4) num_stages(1) stage(plain) {\n"
               " %2 = arange {start = 0} : i32[1024]\n %3 = splat %x : *f32[1024]\n %4 = addptr %3, %2 : *f32[1024]\n "
               "%5 = load %4 : f32[1024]\n"
               " %6, %7 = reduce %5, %2 {axis = 0} : f32, i32 (%8: f32, %9: i32, %10: f32, %11: i32) {\n"
               "  %12 = gt %8, %10 : i1\n  %13 = eq %8, %10 : i1\n  %14 = lt %9, %11 : i1\n  %15 = and %13, %14 : i1\n "
               " %16 = or %12, %15 : i1\n"
               "  %17 = select %16, %8, %10 : f32\n  %18 = select %16, %9, %11 : i32\n  yield %17, %18\n }\n store %o, "
               "%7\n return\n}\n",
               "sm_90a");
  ll_case_ptx(&c);
  static float x[1024];
  static int32_t o[1];
  for (int i = 0; i < 1024; i++) x[i] = (float)(i * 709 % 613);
  int want = 0;
  for (int i = 1; i < 1024; i++)
    if (x[i] > x[want]) want = i;
  ll_case_run(&c, 1, (ll_arg[]){LL_BUF(x), LL_BUF(o)}, 2, NULL);
  cr_assert_eq(o[0], want);
  ll_case_close(&c);
}

/* A tile divided by one number: reciprocal and products, within 2 units over the whole range. */
Test(llvm_tile, division_by_a_common_number) {
  ll_case c;
  ll_case_open(
      &c,
      "kernel @k(%x: *f32 {divisible = 16}, %y: *f32, %o: *f32 {divisible = 16}) num_warps(1) num_stages(1) "
      "stage(plain) {\n"
      " %2 = program_id {axis = 0} : i32\n %3 = addptr %y, %2 : *f32\n %4 = load %3 : f32\n %5 = splat %4 : f32[128]\n"
      " %6 = arange {start = 0} : i32[128]\n %7 = splat %x : *f32[128]\n %8 = addptr %7, %6 : *f32[128]\n %9 = load %8 "
      ": f32[128]\n"
      " %10 = div %9, %5 {approx = 1} : f32[128]\n %11 = const {value = 128} : i32\n %12 = mul %2, %11 : i32\n"
      " %13 = splat %12 : i32[128]\n %14 = add %13, %6 : i32[128]\n %15 = splat %o : *f32[128]\n %16 = addptr %15, %14 "
      ": *f32[128]\n"
      " store %16, %10\n return\n}\n",
      "sm_90a");
  ll_case_ptx(&c);
  expect_text(&c, "rcp.approx", 1);
  expect_text(&c, "div.", 0);
  static const float y[] = {3,       -7.7f, 1e-40f, -1e-45f,  1.5e38f, 3.4e38f, 0x1p-126f,
                            0x1p96f, 0,     -0.0f,  INFINITY, NAN,     1e30f,   1e-30f};
  enum { N_Y = sizeof y / sizeof *y };
  static float x[128], o[128 * N_Y];
  for (int i = 0; i < 128; i++)
    x[i] = i == 0 ? 0.0f : i == 1 ? INFINITY : i == 2 ? 1e-45f : ldexpf((float)(i * 37 + 1), i * 2 - 130);
  ll_case_run(&c, N_Y, (ll_arg[]){LL_BUF(x), {(void *)y, sizeof y, 0}, LL_BUF(o)}, 3, NULL);
  for (int k = 0; k < N_Y; k++)
    for (int i = 0; i < 128; i++) {
      double want = (double)x[i] / (double)y[k], got = (double)o[k * 128 + i];
      if (fabs(want) > 0x1.fffffefp127) want = copysign(INFINITY, want);
      if (isnan(want) || isinf(want)) {
        cr_assert(isnan(want) ? isnan(got) : want == got, "%g / %g is %g, not %g", (double)x[i], (double)y[k], got,
                  want);
        continue;
      }
      int e;
      frexp(want, &e);
      double unit = ldexp(1, e - 24 > -149 ? e - 24 : -149);
      cr_assert_leq(fabs(got - want), 2 * unit, "%.9g / %.9g is %.9g, not %.9g", (double)x[i], (double)y[k], got, want);
    }
  ll_case_close(&c);
}

/* ---- conversions ---------------------------------------------------------------------------------------------- */

/* A copy that changes layout on the way, placed by hand: what arrives must be what was there. Returns how many times
   `part` stands in the PTX. */
static int convert_case(const char *type, int bytes, const char *shape, int numel, const char *from, const char *to,
                        int warps, int shared, const char *arch, const char *part) {
  arena *a = arena_new();
  const char *scratch = shared ? " {scratch = 0}" : "";
  const char *size = shared ? arena_printf(a, " shared(%d)", shared) : "";
  const char *text = arena_printf(
      a,
      "kernel @k(%%x: *%s {divisible = 16}, %%o: *%s {divisible = 16}) num_warps(%d) num_stages(1) stage(placed)%s {\n"
      " %%2 = arange {start = 0} : i32[%d]@%s\n %%3 = reshape %%2 : i32[%s]@%s\n %%4 = splat %%x : *%s[%s]@%s\n"
      " %%5 = addptr %%4, %%3 : *%s[%s]@%s\n %%6 = load %%5 : %s[%s]@%s\n %%7 = convert_layout %%6%s : %s[%s]@%s\n"
      " %%8 = arange {start = 0} : i32[%d]@%s\n %%9 = reshape %%8 : i32[%s]@%s\n %%10 = splat %%o : *%s[%s]@%s\n"
      " %%11 = addptr %%10, %%9 : *%s[%s]@%s\n store %%11, %%7\n return\n}\n",
      type, type, warps, size, numel, from, shape, from, type, shape, from, type, shape, from, type, shape, from,
      scratch, type, shape, to, numel, to, shape, to, type, shape, to, type, shape, to);
  ll_case c;
  ll_case_open(&c, text, arch);
  ll_case_ptx(&c);
  static unsigned char x[4096 * 8], o[4096 * 8];
  size_t n = (size_t)(numel * bytes);
  for (size_t i = 0; i < n; i++) x[i] = (unsigned char)(i * 131 + i / 256);
  for (size_t i = 0; i < n && !strcmp(type, "i1"); i++) x[i] &= 1;
  memset(o, 0, sizeof o);
  ll_case_run(&c, 1, (ll_arg[]){{x, n, 0}, {o, n, 0}}, 2, NULL);
  cr_assert_arr_eq(o, x, n, "%s from %s to %s on %s", type, from, to, arch);
  int found = ll_count(c.ptx, part);
  ll_case_close(&c);
  arena_free(a);
  return found;
}

Test(llvm_tile, convert_in_registers_and_by_shuffles) {
  static const struct {
    const char *type;
    int bytes;
  } types[] = {{"i8", 1}, {"f16", 2}, {"f32", 4}, {"i64", 8}};
  for (int k = 0; k < 4; k++) {
    const char *t = types[k].type;
    int b = types[k].bytes;
    cr_assert_eq(
        convert_case(t, b, "16,16", 256, "r(1,2,128)l(4..64)w()", "r(1,2,128)l(4..64)w()", 1, 0, "sm_80", "shfl.sync"),
        0);
    cr_assert_eq(
        convert_case(t, b, "16,16", 256, "r(1,2,128)l(4..64)w()", "r(128,1,2)l(4..64)w()", 1, 0, "sm_80", "shfl.sync"),
        0);
    cr_assert_gt(
        convert_case(t, b, "16,8", 128, "r(1,2)l(4..64)w()", "r(4,2)l(1,8,16,32,64)w()", 1, 0, "sm_80", "shfl.sync"),
        0);
    cr_assert_gt(convert_case(t, b, "64", 64, "r(1)l(2..32)w()", "r(32)l(1..16)w()", 1, 0, "sm_75", "shfl.sync"), 0);
  }
}

Test(llvm_tile, convert_through_shared_memory) {
  static const struct {
    const char *type;
    int bytes;
  } types[] = {{"i8", 1}, {"f16", 2}, {"f32", 4}, {"f64", 8}};
  for (int k = 0; k < 4; k++) {
    const char *t = types[k].type;
    int b = types[k].bytes;
    convert_case(t, b, "64,64", 4096, "r(1,2,4,1024,2048)l(8,16,32,64,128)w(256,512)",
                 "r(64,128,256,16,32)l(512,1024,2048,1,2)w(4,8)", 4, 4096 * b, "sm_80", "shfl.sync");
    convert_case(t, b, "32,32", 1024, "r(1,2)l(4,8,16,32,64)w(128,256,512)", "r(256,512)l(1..16)w(32,64,128)", 8,
                 1024 * b, "sm_90a", "shfl.sync");
  }
}

/* Fragments of a tensor core and rows, or columns, of 16 bytes in a thread, both ways. */
Test(llvm_tile, convert_by_matrices) {
  const char *fragment = "r(1,256,8,16)l(2,4,32,64,128)w(512,1024)";
  const char *columns = "r(32,64,128,8)l(1,2,4,256,512)w(16,1024)";
  const char *of_bytes = "r(1,2,4,8)l(16,32,64,128,256)w(512,1024)", *of_halves = "r(1,2,4,1024)l(8..128)w(256,512)";
  static const struct {
    const char *type;
    int bytes, instructions;
  } types[] = {{"i1", 1, 1}, {"i8", 1, 1}, {"f16", 2, 2}, {"bf16", 2, 2}, {"f64", 8, 0}};
  for (int k = 0; k < 5; k++) {
    const char *t = types[k].type, *rows = types[k].bytes == 1 ? of_bytes : of_halves;
    int b = types[k].bytes, n = 2048 * b;
    cr_assert_eq(convert_case(t, b, "64,32", 2048, fragment, rows, 4, n, "sm_90a", "stmatrix.sync.aligned.m8n8.x4"),
                 types[k].instructions, "%s", t);
    cr_assert_eq(convert_case(t, b, "64,32", 2048, rows, fragment, 4, n, "sm_75", "ldmatrix.sync.aligned.m8n8.x4"),
                 types[k].instructions, "%s", t);
    cr_assert_eq(convert_case(t, b, "64,32", 2048, fragment, rows, 4, n, "sm_70", "matrix"), 0);
  }
  cr_assert_eq(convert_case("f16", 2, "64,32", 2048, fragment, columns, 4, 4096, "sm_90a", ".x4.trans"), 2);
  cr_assert_eq(convert_case("f16", 2, "64,32", 2048, columns, fragment, 4, 4096, "sm_80", ".x4.trans"), 2);
}
