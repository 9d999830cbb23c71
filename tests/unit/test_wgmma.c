/* Dots by warpgroups: both operands in shared memory in both orders, or A in registers, against sums in double. */
#include <criterion/criterion.h>

#include "compiler/llvm/ll.h"
#include "tests/unit/dot_case.h"

static void run_all(const dot_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) dot_case_run(&cases[i]);
}
#define RUN(cases) run_all(cases, sizeof(cases) / sizeof *(cases))

/* clang-format off */
#define SS .arch = "sm_90a", .wgmma = true, .path = DOT_COPY
#define RS .arch = "sm_90a", .wgmma = true, .path = DOT_COPY, .a_in_registers = true
#define F16 .a = DT_f16, .b = DT_f16, .acc = DT_f32
#define BF16 .a = DT_bf16, .b = DT_bf16, .acc = DT_f32
#define TF32 .a = DT_f32, .b = DT_f32, .acc = DT_f32, .precision = "tf32", .tb = true
#define I8 .a = DT_i8, .b = DT_i8, .acc = DT_i32, .tb = true
#define F8 .a = DT_f8e4m3, .b = DT_f8e4m3, .acc = DT_f32, .tb = true

Test(wgmma, f16_in_both_orders) {
  static const dot_case cases[] = {
      {SS, F16, .m = 64, .n = 64, .k = 64, .wm = 4},
      {SS, F16, .m = 64, .n = 128, .k = 64, .wm = 4, .tb = true},
      {SS, F16, .m = 128, .n = 128, .k = 128, .wm = 8, .ta = true},
      {SS, BF16, .m = 128, .n = 64, .k = 64, .wm = 4, .ta = true, .tb = true},
      {SS, BF16, .m = 64, .n = 256, .k = 32, .wm = 4, .wn = 2},
      {SS, BF16, .m = 128, .n = 256, .k = 64, .wm = 8, .stages = 2, .has = "m64n256k16.f32.bf16.bf16"},
      {SS, BF16, .m = 256, .n = 128, .k = 64, .wm = 8, .tb = true},
      {SS, F16, .m = 64, .n = 8, .k = 64, .wm = 4, .tb = true},
  };
  RUN(cases);
}

Test(wgmma, narrow_swizzles) {
  static const dot_case cases[] = {
      {SS, F16, .m = 128, .n = 64, .k = 64, .wm = 4, .shared = DOT_TMA64},
      {SS, F16, .m = 128, .n = 64, .k = 64, .wm = 4, .shared = DOT_TMA64, .ta = true, .tb = true},
      {SS, F16, .m = 64, .n = 64, .k = 64, .wm = 4, .shared = DOT_TMA32},
      {SS, F16, .m = 64, .n = 32, .k = 64, .wm = 4, .shared = DOT_TMA32, .ta = true, .tb = true},
      {SS, F16, .m = 64, .n = 32, .k = 16, .wm = 4, .tb = true},
  };
  RUN(cases);
}

Test(wgmma, types) {
  static const dot_case cases[] = {
      {SS, .a = DT_f16, .b = DT_f16, .acc = DT_f16, .m = 64, .n = 64, .k = 64, .wm = 4},
      {SS, .a = DT_f16, .b = DT_f16, .acc = DT_f16, .m = 128, .n = 64, .k = 32, .wm = 4, .ta = true, .tb = true},
      {SS, TF32, .m = 64, .n = 64, .k = 32, .wm = 4},
      {SS, TF32, .m = 128, .n = 32, .k = 64, .wm = 8},
      {SS, I8, .m = 64, .n = 64, .k = 128, .wm = 4},
      {SS, I8, .m = 128, .n = 32, .k = 64, .wm = 8},
      {SS, F8, .m = 64, .n = 64, .k = 128, .wm = 4},
      {SS, .a = DT_f8e5m2, .b = DT_f8e4m3, .acc = DT_f32, .tb = true, .m = 64, .n = 32, .k = 64, .wm = 4},
      {SS, .a = DT_f8e4m3, .b = DT_f8e5m2, .acc = DT_f16, .tb = true, .m = 64, .n = 32, .k = 64, .wm = 4},
  };
  RUN(cases);
}

#define TF32_ROWS .a = DT_f32, .b = DT_f32, .acc = DT_f32, .precision = "tf32"

/* Of tf32 the operand that has K the wrong way is loaded into registers; for b the product is the transposed one. */
Test(wgmma, tf32_with_k_the_other_way) {
  static const dot_case cases[] = {
      {SS, TF32_ROWS, .m = 64, .n = 64, .k = 32, .wm = 4, .has = "m64n64k8.f32.tf32.tf32"},
      {SS, TF32_ROWS, .m = 128, .n = 64, .k = 32, .wm = 4, .has = "m64n128k8"},
      {SS, TF32_ROWS, .m = 64, .n = 128, .k = 64, .wm = 4, .stages = 2},
      {SS, TF32_ROWS, .m = 8, .n = 64, .k = 8, .wm = 4},
      {SS, TF32_ROWS, .m = 128, .n = 64, .k = 32, .wm = 4, .wn = 2, .has = "m64n64k8"},
      {SS, TF32_ROWS, .m = 64, .n = 128, .k = 32, .wm = 8, .has = "ld.shared.v2"},
      {SS, TF32_ROWS, .m = 256, .n = 128, .k = 32, .wm = 8, .has = "m64n256k8"},
      {SS, TF32, .ta = true, .m = 64, .n = 64, .k = 32, .wm = 4, .has = "ld.shared.v2"},
      {SS, TF32, .ta = true, .m = 128, .n = 32, .k = 64, .wm = 4},
      {SS, TF32, .ta = true, .m = 128, .n = 64, .k = 16, .wm = 8},
      {SS, TF32_ROWS, .m = 64, .n = 64, .k = 32, .wm = 4, .rows = 33, .cols = 47, .deep = 29},
      {SS, TF32, .ta = true, .m = 64, .n = 64, .k = 32, .wm = 4, .rows = 33, .cols = 47, .deep = 1},
  };
  RUN(cases);
}

/* Each sum is waited for, and the op at the end. */
Test(wgmma, sums_of_f8_are_added_in_f32) {
  static const dot_case cases[] = {
      {SS, F8, .m = 64, .n = 64, .k = 128, .wm = 4, .max_imprecise = 128, .waits = 2},
      {SS, F8, .m = 64, .n = 64, .k = 128, .wm = 4, .max_imprecise = 64, .waits = 3},
      {SS, F8, .m = 64, .n = 64, .k = 128, .wm = 4, .max_imprecise = 1, .waits = 5},
      {SS, F8, .m = 64, .n = 32, .k = 128, .wm = 4, .max_imprecise = 80, .waits = 3},
      {SS, F8, .m = 128, .n = 64, .k = 64, .wm = 4, .max_imprecise = 32, .waits = 5},
      {SS, F8, .m = 128, .n = 64, .k = 64, .wm = 4, .wn = 2, .max_imprecise = 32, .waits = 5},
      {SS, F8, .m = 64, .n = 256, .k = 64, .wm = 4, .max_imprecise = 64, .waits = 3, .has = "m64n128k32.f32.e4m3.e4m3"},
      {SS, F8, .m = 128, .n = 256, .k = 64, .wm = 8, .max_imprecise = 32, .waits = 9, .has = "m64n64k32.f32.e4m3.e4m3"},
      {RS, F8, .m = 64, .n = 64, .k = 128, .wm = 4, .max_imprecise = 32, .waits = 5},
      {SS, F8, .m = 64, .n = 32, .k = 64, .wm = 4, .max_imprecise = 32, .rows = 40, .cols = 32, .deep = 48},
  };
  RUN(cases);
}

Test(wgmma, a_in_registers) {
  static const dot_case cases[] = {
      {RS, F16, .m = 64, .n = 64, .k = 64, .wm = 4},
      {RS, BF16, .m = 128, .n = 128, .k = 64, .wm = 8, .ta = true, .tb = true},
      {RS, TF32, .m = 64, .n = 64, .k = 32, .wm = 4},
      {RS, TF32, .m = 128, .n = 64, .k = 32, .wm = 4, .wn = 2},
      {RS, I8, .m = 64, .n = 64, .k = 64, .wm = 4},
      {RS, F8, .m = 128, .n = 64, .k = 64, .wm = 4},
      {RS, .a = DT_f16, .b = DT_f16, .acc = DT_f16, .m = 64, .n = 32, .k = 32, .wm = 4},
  };
  RUN(cases);
}

Test(wgmma, stored_and_masked) {
  static const dot_case cases[] = {
      {.arch = "sm_90a", .wgmma = true, .path = DOT_STORE, F16, .m = 64, .n = 64, .k = 64, .wm = 4},
      {.arch = "sm_90a", .wgmma = true, .path = DOT_STORE, BF16, .m = 128, .n = 64, .k = 64, .wm = 8, .ta = true, .tb = true},
      {SS, F16, .m = 64, .n = 64, .k = 64, .wm = 4, .rows = 40, .cols = 56, .deep = 48},
      {SS, TF32, .m = 64, .n = 32, .k = 32, .wm = 4, .rows = 33, .cols = 31, .deep = 29},
  };
  RUN(cases);
}
