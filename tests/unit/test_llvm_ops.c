/* The emitter's elementwise ops against tir_eval, over every type, on targets with and without the types' instructions;
 * functions of floats against the C library, in units of the last place. One kernel per type holds all of its ops. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "compiler/llvm/ll.h"
#include "tests/unit/llvm_run.h"

enum { N = 128 }; /* elements of a tile */

static const char *const targets[] = {"sm_75", "sm_80", "sm_89", "sm_90a"};
enum { N_TARGETS = sizeof targets / sizeof targets[0] };

/* Encodings that matter for every width, then a mix. */
static uint64_t sample(tir_dtype d, int i) {
  static const double reals[] = {0.0,     -0.0,  1.0,    -1.0,      0.5,       2.0,   3.0,       -7.25,
                                 1e-8,    -1e-8, 448.0,  464.0,     1e30,      -1e30, 65504,     65520.0,
                                 57344.0, 1e-40, 0x1p-9, 0x1.8p-10, 127.5,     255.5, -128.5,    2147483647.0,
                                 4e9,     -4e9,  1e19,   INFINITY,  -INFINITY, NAN,   1.0625001, 9.0};
  static const int64_t ints[] = {0,         1,         -1,         2,          3,         -3,        7,
                                 31,        32,        33,         63,         64,        127,       -128,
                                 255,       32767,     -32768,     65535,      INT32_MAX, INT32_MIN, 16777217,
                                 INT64_MAX, INT64_MIN, 1000000007, -1000000007};
  int n_reals = sizeof reals / sizeof *reals, n_ints = sizeof ints / sizeof *ints;
  uint64_t x = ((uint64_t)i + 17) * UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  int bits = tir_dtypes[d].bits;
  if (dt_is_float(d)) {
    if (i < n_reals) return tir_scalar_float(d, reals[i]).bits;
    if (i % 3 == 0) return tir_scalar_float(d, ldexp((double)(int64_t)x, -60)).bits;
    if (i % 3 == 1) return tir_scalar_float(d, ldexp((double)(int64_t)x, (int)(x & 31) - 75)).bits;
  } else if (i < n_ints) {
    return tir_scalar_int(d, ints[i]).bits;
  }
  return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static void fill_samples(tir_dtype d, int from, int stride, unsigned char *out) {
  for (int i = 0; i < N; i++) {
    uint64_t v = sample(d, (from + i * stride) % N);
    memcpy(out + i * tir_dtypes[d].bytes, &v, tir_dtypes[d].bytes);
  }
}

static bool is_nan_bits(tir_dtype d, uint64_t v) {
  return dt_is_float(d) && isnan(tir_scalar_as_float(d, (tir_scalar){v}));
}

static uint64_t at(const unsigned char *p, tir_dtype d, int i) {
  uint64_t v = 0;
  memcpy(&v, p + i * tir_dtypes[d].bytes, tir_dtypes[d].bytes);
  return v;
}

static void expect_same(tir_dtype d, const unsigned char *want, const unsigned char *got, const char *what,
                        const char *arch, tir_dtype in, const unsigned char *x, const unsigned char *y) {
  for (int i = 0; i < N; i++) {
    uint64_t w = at(want, d, i), g = at(got, d, i);
    if (w == g || (is_nan_bits(d, w) && is_nan_bits(d, g))) continue;
    cr_assert_fail("%s of %s on %s: (0x%llx, 0x%llx) gives 0x%llx, not 0x%llx", what, tir_dtypes[in].text, arch,
                   (unsigned long long)at(x, in, i), y ? (unsigned long long)at(y, in, i) : 0ull, (unsigned long long)g,
                   (unsigned long long)w);
  }
}

/* ---- casts ---- */

/* Whether a cast rounds toward zero: asked for, and float to a narrower float. */
static bool rounds(tir_dtype from, tir_dtype to, bool rtz) {
  return rtz && dt_is_float(from) && dt_is_float(to) && tir_dtypes[to].bits < tir_dtypes[from].bits;
}

static void cast_from(tir_dtype from, bool rtz, const char *arch) {
  arena *a = arena_new();
  textbuf t;
  text_init(&t, a);
  const char *ft = tir_dtypes[from].text;
  text_printf(&t, "kernel @k(%%x: *%s {divisible = 16}", ft);
  for (int d = 0; d < DT_N; d++) text_printf(&t, ", %%o%d: *%s {divisible = 16}", d, tir_dtypes[d].text);
  text_printf(&t, ") num_warps(1) num_stages(1) stage(plain) {\n %%100 = arange {start = 0} : i32[%d]\n", N);
  text_printf(&t,
              " %%101 = splat %%x : *%s[%d]\n %%102 = addptr %%101, %%100 : *%s[%d]\n %%103 = load %%102 : %s[%d]\n",
              ft, N, ft, N, ft, N);
  for (int d = 0; d < DT_N; d++) {
    const char *dt = tir_dtypes[d].text;
    text_printf(&t, " %%%d = splat %%o%d : *%s[%d]\n %%%d = addptr %%%d, %%100 : *%s[%d]\n", 200 + 3 * d, d, dt, N,
                201 + 3 * d, 200 + 3 * d, dt, N);
    if (d != (int)from)
      text_printf(&t, " %%%d = cast %%103%s : %s[%d]\n", 202 + 3 * d,
                  rounds(from, (tir_dtype)d, rtz) ? " {rounding = \"rtz\"}" : "", dt, N);
    text_printf(&t, " store %%%d, %%%d\n", 201 + 3 * d, d != (int)from ? 202 + 3 * d : 103);
  }
  text_str(&t, " return\n}\n");
  ll_case c;
  ll_case_open(&c, t.at, arch);
  ll_case_ptx(&c);
  static unsigned char in[N * 8], out[DT_N][N * 8], want[N * 8];
  fill_samples(from, 0, 1, in);
  memset(out, 0xee, sizeof out);
  ll_arg args[DT_N + 1] = {{in, N * tir_dtypes[from].bytes, 0}};
  for (int d = 0; d < DT_N; d++) args[d + 1] = (ll_arg){out[d], N * tir_dtypes[d].bytes, 0};
  ll_case_run(&c, 1, args, DT_N + 1, NULL);
  for (int d = 0; d < DT_N; d++) {
    const void *ins[1] = {in};
    if (d == (int)from) continue;
    tir_eval(OP_cast, 1, &from, ins, (tir_dtype)d, want, N, (tir_eval_opts){.rtz = rounds(from, (tir_dtype)d, rtz)});
    expect_same((tir_dtype)d, want, out[d], arena_printf(a, "cast to %s", tir_dtypes[d].text), arch, from, in, NULL);
  }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_ops, casts) {
  for (int k = 0; k < N_TARGETS; k++)
    for (int d = 0; d < DT_N; d++) cast_from((tir_dtype)d, false, targets[k]);
}

Test(llvm_ops, casts_toward_zero) {
  for (int d = DT_f16; d < DT_N; d++) {
    cast_from((tir_dtype)d, true, "sm_75");
    cast_from((tir_dtype)d, true, "sm_90a");
  }
}

/* ---- arithmetic ---- */

typedef struct op_row {
  tir_opcode code;
  bool on_int, on_float, on_bool, on_wide_float_only;
} op_row;
static const op_row rows[] = {
    {OP_add, 1, 1, 0, 0},     {OP_sub, 1, 1, 0, 0},     {OP_mul, 1, 1, 0, 0}, {OP_div, 1, 1, 0, 0},
    {OP_rem, 1, 1, 0, 0},     {OP_neg, 1, 1, 0, 0},     {OP_and, 1, 0, 1, 0}, {OP_or, 1, 0, 1, 0},
    {OP_xor, 1, 0, 1, 0},     {OP_shl, 1, 0, 0, 0},     {OP_shr, 1, 0, 0, 0}, {OP_min, 1, 1, 0, 0},
    {OP_max, 1, 1, 0, 0},     {OP_eq, 1, 1, 1, 0},      {OP_ne, 1, 1, 1, 0},  {OP_lt, 1, 1, 0, 0},
    {OP_le, 1, 1, 0, 0},      {OP_gt, 1, 1, 0, 0},      {OP_ge, 1, 1, 0, 0},  {OP_abs, 1, 1, 0, 0},
    {OP_min_nan, 0, 1, 0, 0}, {OP_max_nan, 0, 1, 0, 0}, {OP_fma, 0, 1, 0, 0}, {OP_floor, 0, 1, 0, 1},
    {OP_ceil, 0, 1, 0, 1},    {OP_sqrt, 0, 1, 0, 1}};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static bool applies(const op_row *r, tir_dtype d) {
  if (d == DT_i1) return r->on_bool;
  if (!dt_is_float(d)) return r->on_int;
  return r->on_float && (!r->on_wide_float_only || d == DT_f32 || d == DT_f64);
}

/* -0 and +0 are both right for the smaller and larger of the two. */
static bool zeros(tir_opcode code, tir_dtype d, uint64_t w, uint64_t g) {
  bool extremum = code == OP_min || code == OP_max || code == OP_min_nan || code == OP_max_nan;
  uint64_t sign = UINT64_C(1) << (tir_dtypes[d].bits - 1);
  return extremum && dt_is_float(d) && (w & ~sign) == 0 && (g & ~sign) == 0;
}

static void arithmetic_on(tir_dtype d, const char *arch) {
  arena *a = arena_new();
  textbuf t;
  text_init(&t, a);
  const char *dt = tir_dtypes[d].text;
  text_printf(&t,
              "kernel @k(%%x: *%s {divisible = 16}, %%y: *%s {divisible = 16}, %%o: *%s {divisible = 16}, %%b: *i1)",
              dt, dt, dt);
  text_printf(&t, " num_warps(1) num_stages(1) stage(plain) {\n %%100 = arange {start = 0} : i32[%d]\n", N);
  for (int i = 0; i < 2; i++)
    text_printf(&t, " %%%d = splat %%%c : *%s[%d]\n %%%d = addptr %%%d, %%100 : *%s[%d]\n %%%d = load %%%d : %s[%d]\n",
                101 + i, "xy"[i], dt, N, 103 + i, 101 + i, dt, N, 105 + i, 103 + i, dt, N);
  for (int k = 0; k < N_ROWS; k++) {
    if (!applies(&rows[k], d)) continue;
    bool flag = tir_ops[rows[k].code].rule == RULE_CMP;
    int v = 200 + 10 * k, n_in = tir_ops[rows[k].code].n_in;
    text_printf(&t, " %%%d = %s %%105%s%s : %s[%d]\n", v, tir_ops[rows[k].code].name, n_in > 1 ? ", %106" : "",
                n_in > 2 ? ", %105" : "", flag ? "i1" : dt, N);
    text_printf(&t, " %%%d = const {value = %d} : i32[%d]\n %%%d = add %%100, %%%d : i32[%d]\n", v + 1, k * N, N, v + 2,
                v + 1, N);
    text_printf(&t, " %%%d = splat %%%c : *%s[%d]\n %%%d = addptr %%%d, %%%d : *%s[%d]\n store %%%d, %%%d\n", v + 3,
                flag ? 'b' : 'o', flag ? "i1" : dt, N, v + 4, v + 3, v + 2, flag ? "i1" : dt, N, v + 4, v);
  }
  text_str(&t, " return\n}\n");
  ll_case c;
  ll_case_open(&c, t.at, arch);
  ll_case_ptx(&c);
  static unsigned char x[N * 8], y[N * 8], out[N_ROWS * N * 8], flags[N_ROWS * N], want[N * 8];
  int bytes = tir_dtypes[d].bytes;
  for (int shift = 0; shift < 3; shift++) { /* different pairs of the same samples */
    fill_samples(d, 0, 1, x);
    fill_samples(d, 5 * shift, shift == 1 ? 5 : 1, y);
    memset(out, 0xee, sizeof out);
    memset(flags, 0xee, sizeof flags);
    ll_arg args[] = {{x, (size_t)(N * bytes), 0},
                     {y, (size_t)(N * bytes), 0},
                     {out, (size_t)(N_ROWS * N * bytes), 0},
                     LL_BUF(flags)};
    ll_case_run(&c, 1, args, 4, NULL);
    for (int k = 0; k < N_ROWS; k++) {
      if (!applies(&rows[k], d)) continue;
      bool flag = tir_ops[rows[k].code].rule == RULE_CMP;
      tir_dtype od = flag ? DT_i1 : d, in_dt[3] = {d, d, d};
      const void *ins[3] = {x, y, x};
      unsigned char *got = flag ? flags + k * N : out + k * N * bytes;
      tir_eval(rows[k].code, tir_ops[rows[k].code].n_in, in_dt, ins, od, want, N, (tir_eval_opts){0});
      for (int i = 0; i < N; i++) {
        uint64_t w = at(want, od, i), g = at(got, od, i);
        if (zeros(rows[k].code, od, w, g))
          memcpy(got + i * tir_dtypes[od].bytes, want + i * tir_dtypes[od].bytes, tir_dtypes[od].bytes);
      }
      expect_same(od, want, got, tir_ops[rows[k].code].name, arch, d, x, y);
    }
  }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_ops, arithmetic) {
  for (int k = 0; k < N_TARGETS; k++)
    for (int d = 0; d < DT_N; d++) arithmetic_on((tir_dtype)d, targets[k]);
}

/* ---- functions ---- */

typedef struct function {
  tir_opcode code;
  double (*exact)(double);
  double ulp32, ulp64; /* allowed error */
} function;
static double rsqrt_exact(double x) { return 1 / sqrt(x); }
static const function functions[] = {{OP_exp, exp, 2, 2},   {OP_exp2, exp2, 2.5, 2}, {OP_log, log, 2, 2},
                                     {OP_log2, log2, 2, 2}, {OP_sin, sin, 3, 2},     {OP_cos, cos, 3, 2},
                                     {OP_erf, erf, 2.5, 2}, {OP_tanh, tanh, 3, 2.5}, {OP_rsqrt, rsqrt_exact, 2.5, 2}};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0], POINTS = 4096 };

static double point(int i) {
  static const double special[] = {
      0.0,    -0.0,    1,     -1,   INFINITY,   -INFINITY, NAN,  88.72283, 88.73, -87.3,     -103, -104, 1e-40, -1e-40,
      3.4e38, -3.4e38, -1e30, -1e9, 0.99999994, 1.0000001, 0.55, 4,        128,   127.99999, -126, -150, 700,   -745};
  if (i < (int)(sizeof special / sizeof *special)) return special[i];
  uint64_t x = ((uint64_t)i + 99) * UINT64_C(0x9e3779b97f4a7c15);
  double unit = (double)(int64_t)(x ^ x >> 31) * 0x1p-63;
  return i % 4 == 0   ? unit * 100
         : i % 4 == 1 ? unit * 4
         : i % 4 == 2 ? 1 + unit * 0.5
                      : ldexp(unit, (int)(x >> 40 & 63) - 40);
}

static double ulp_of(tir_dtype d, double want) {
  int e;
  frexp(want, &e);
  int least = d == DT_f32 ? -149 : -1074, place = e - (d == DT_f32 ? 24 : 53);
  return ldexp(1, place > least ? place : least);
}

static void functions_on(tir_dtype d, const char *arch) {
  const char *dt = tir_dtypes[d].text;
  arena *a = arena_new();
  textbuf t;
  text_init(&t, a);
  text_printf(
      &t, "kernel @k(%%x: *%s {divisible = 16}, %%o: *%s {divisible = 16}) num_warps(4) num_stages(1) stage(plain) {\n",
      dt, dt);
  text_printf(
      &t,
      " %%100 = arange {start = 0} : i32[1024]\n %%99 = program_id {axis = 0} : i32\n %%98 = const {value = 1024} : "
      "i32\n"
      " %%97 = mul %%99, %%98 : i32\n %%96 = splat %%97 : i32[1024]\n %%95 = add %%96, %%100 : i32[1024]\n"
      " %%101 = splat %%x : *%s[1024]\n %%102 = addptr %%101, %%95 : *%s[1024]\n %%103 = load %%102 : %s[1024]\n",
      dt, dt, dt);
  for (int k = 0; k < N_FUNCTIONS; k++)
    text_printf(
        &t,
        " %%%d = %s %%103 : %s[1024]\n %%%d = const {value = %d} : i32[1024]\n %%%d = add %%95, %%%d : i32[1024]\n"
        " %%%d = splat %%o : *%s[1024]\n %%%d = addptr %%%d, %%%d : *%s[1024]\n store %%%d, %%%d\n",
        200 + 10 * k, tir_ops[functions[k].code].name, dt, 201 + 10 * k, k * POINTS, 202 + 10 * k, 201 + 10 * k,
        203 + 10 * k, dt, 204 + 10 * k, 203 + 10 * k, 202 + 10 * k, dt, 204 + 10 * k, 200 + 10 * k);
  text_str(&t, " return\n}\n");
  ll_case c;
  ll_case_open(&c, t.at, arch);
  ll_case_ptx(&c);
  static float x32[POINTS], o32[N_FUNCTIONS * POINTS];
  static double x64[POINTS], o64[N_FUNCTIONS * POINTS];
  for (int i = 0; i < POINTS; i++) x32[i] = (float)(x64[i] = point(i));
  ll_arg args[2] = {d == DT_f32 ? LL_BUF(x32) : LL_BUF(x64), d == DT_f32 ? LL_BUF(o32) : LL_BUF(o64)};
  ll_case_run(&c, POINTS / 1024, args, 2, NULL);
  for (int k = 0; k < N_FUNCTIONS; k++) {
    double worst = 0, worst_at = 0, limit = d == DT_f32 ? functions[k].ulp32 : functions[k].ulp64;
    for (int i = 0; i < POINTS; i++) {
      double in = d == DT_f32 ? (double)x32[i] : x64[i],
             got = d == DT_f32 ? (double)o32[k * POINTS + i] : o64[k * POINTS + i];
      double want = functions[k].exact(in);
      if (isnan(want) || isnan(got)) {
        cr_assert(isnan(want) && isnan(got), "%s(%g) on %s is %g, not %g", tir_ops[functions[k].code].name, in, arch,
                  got, want);
        continue;
      }
      if (d == DT_f32) {
        if (fabs(want) > 0x1.fffffefp127) want = copysign(INFINITY, want);
        if (functions[k].code == OP_exp2 && fabs(want) < 0x1p-126) want = 0; /* flushed, as ll_math.c says */
      }
      if (isinf(want) || isinf(got)) {
        cr_assert_eq(want, got, "%s(%.9g) on %s is %g, not %g", tir_ops[functions[k].code].name, in, arch, got, want);
        continue;
      }
      double err = fabs(got - want) / ulp_of(d, want);
      if (err > worst) worst = err, worst_at = in;
    }
    cr_log_info("%s %s: %.2f ulp", dt, tir_ops[functions[k].code].name, worst);
    cr_assert(worst <= limit, "%s of %s on %s is off by %.2f units at %.9g", tir_ops[functions[k].code].name, dt, arch,
              worst, worst_at);
  }
  ll_case_close(&c);
  arena_free(a);
}

Test(llvm_ops, functions_f32) { functions_on(DT_f32, "sm_90a"); }
Test(llvm_ops, functions_f32_old) { functions_on(DT_f32, "sm_70"); }
Test(llvm_ops, functions_f64) { functions_on(DT_f64, "sm_80"); }
