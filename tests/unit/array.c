/* Arrays of the command line: specs, .npy files, comparison. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"

static char message[512];

static array make(const char *spec) {
  array a;
  cr_assert(array_make(spec, 1, NULL, &a, message, sizeof message), "%s: %s", spec, message);
  return a;
}

static bool lookup_n(void *user, const char *name, const char *member, int64_t index, int64_t *value) {
  (void)index;
  *value = *(int64_t *)user;
  return !member && !strcmp(name, "n");
}

Test(array, what_is_wrong) {
  static const char *const bad[] = {"zeros",
                                    "zeros:f32",
                                    "zeros:f33[4]",
                                    "zeros:f32[4",
                                    "zero:f32[4]",
                                    "zeros:f32[-1]",
                                    "zeros:f32[n]",
                                    "randint:i32[4]",
                                    "full:f32[4]",
                                    "full(1,2):f32[4]",
                                    "@/nowhere.npy",
                                    "zeros:f64[1<<3]",
                                    "randint(1:i32[4]",
                                    "zeros:f32[4]x",
                                    "zeros:f64[1152921504606846976, 16]",
                                    "",
                                    "@",
                                    "zeros:f32[1,1,1,1,1,1,1,1,1]",
                                    "arange:[3]",
                                    "zeros:f32[4,,4]"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    array a = {0};
    message[0] = 0;
    cr_expect_not(array_make(bad[i], 1, NULL, &a, message, sizeof message), "%s was accepted", bad[i]);
    cr_expect(message[0], "%s: no message", bad[i]);
  }
}

Test(array, kinds_and_types) {
  array a = make("arange:bf16[300]");
  cr_assert_eq(array_get(&a, 256), 256);
  cr_assert_eq(array_get(&a, 257), 256, "bf16 rounds to nearest even");
  array_free(&a);
  int64_t n = 5;
  const array_names names = {lookup_n, &n};
  cr_assert(array_make("ones:u8[n, max(2, n - 1)]", 1, &names, &a, message, sizeof message), "%s", message);
  cr_assert(a.rank == 2 && a.shape[0] == 5 && a.shape[1] == 4 && a.bytes == 20);
  cr_assert_eq(array_get(&a, 19), 1);
  array_free(&a);
  a = make("full(-inf):f32[2]");
  cr_assert(isinf(array_get(&a, 1)) && array_get(&a, 1) < 0);
  array_free(&a);
  a = make("full(3):i1[2]");
  cr_assert_eq(a.data[1], 1, "an i1 is 0 or 1 in memory");
  array_free(&a);
  a = make("randint(-3, 4):i8[1000]");
  int seen[7] = {0};
  for (size_t i = 0; i < a.numel; i++) {
    double v = array_get(&a, i);
    cr_assert(v >= -3 && v < 4);
    seen[(int)v + 3]++;
  }
  for (int i = 0; i < 7; i++) cr_assert(seen[i] > 90 && seen[i] < 200, "%d came %d times", i - 3, seen[i]);
  array_free(&a);
  a = make("randn:f32[100001]");
  double sum = 0, squares = 0;
  for (size_t i = 0; i < a.numel; i++) {
    sum += array_get(&a, i);
    squares += array_get(&a, i) * array_get(&a, i);
  }
  cr_assert(fabs(sum / 1e5) < 0.02 && fabs(squares / 1e5 - 1) < 0.02);
  array_free(&a);
}

Test(array, seeds) {
  array a = make("rand:f32[64]"), b = make("rand:f32[64]"), c;
  cr_assert(array_make("rand:f32[64]", 2, NULL, &c, message, sizeof message));
  cr_assert_arr_eq(a.data, b.data, a.bytes);
  cr_assert_arr_neq(a.data, c.data, a.bytes);
  array_free(&a);
  array_free(&b);
  array_free(&c);
}

Test(array, npy_round_trip) {
  for (tk_dtype d = (tk_dtype)1; d < TK_N_DTYPES; d++) {
    char spec[64];
    snprintf(spec, sizeof spec, "randint(0,2):%s[3, 5]", tk_dtype_name(d));
    array a = make(spec), back;
    size_t len;
    unsigned char *npy = array_npy(&a, &len);
    cr_assert(array_from_npy(npy, len, &back, message, sizeof message), "%s: %s", spec, message);
    cr_assert(back.rank == 2 && back.shape[0] == 3 && back.shape[1] == 5, "%s", spec);
    for (size_t i = 0; i < a.numel; i++) cr_assert_eq(array_get(&a, i), array_get(&back, i), "%s", spec);
    array_free(&a);
    array_free(&back);
    free(npy);
  }
}

/* Every prefix of a good file, and every byte of its header changed: an array or a message, never anything else. */
Test(array, npy_broken, .timeout = 60) {
  array a = make("arange:i16[2,3]"), b;
  size_t len;
  unsigned char *good = array_npy(&a, &len);
  for (size_t n = 0; n < len; n++) {
    unsigned char *cut = malloc(n ? n : 1); /* a heap block of its own, so that a sanitizer sees reads past the end */
    memcpy(cut, good, n);
    cr_assert_not(array_from_npy(cut, n, &b, message, sizeof message), "%d of %d bytes were accepted", (int)n,
                  (int)len);
    free(cut);
  }
  int accepted = 0;
  for (size_t i = 0; i < len - a.bytes; i++) {
    unsigned char was = good[i];
    for (int c = 0; c < 256; c++) {
      good[i] = (unsigned char)c;
      if (!array_from_npy(good, len, &b, message, sizeof message)) continue;
      accepted++;
      array_free(&b);
    }
    good[i] = was;
  }
  cr_assert(accepted >= (int)(len - a.bytes), "the unchanged file is good");
  free(good);
  array_free(&a);
}

Test(array, distance) {
  array a = make("full(1):f32[4]"), b = array_copy(&a);
  size_t at = 0;
  cr_assert_eq(array_distance(&b, &a, &at), 0);
  array_set(&b, 2, 1 + 1e-5);
  cr_assert(fabs(array_distance(&b, &a, &at) - 1e-5) < 1e-6 && at == 2);
  array_set(&b, 2, NAN);
  cr_assert(array_distance(&b, &a, &at) > 1e30 && at == 2, "a NaN on one side");
  array_set(&a, 2, NAN);
  cr_assert_eq(array_distance(&b, &a, &at), 0);
  array_set(&a, 2, INFINITY);
  cr_assert(array_distance(&b, &a, &at) > 1e30, "NaN is not infinity");
  array_set(&b, 2, INFINITY);
  cr_assert_eq(array_distance(&b, &a, &at), 0);
  array_set(&b, 2, -INFINITY);
  cr_assert(array_distance(&b, &a, &at) > 1e30);
  array_free(&a);
  array_free(&b);
}
