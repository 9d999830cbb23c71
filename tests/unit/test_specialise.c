/* Specialisation: promotion of types, compile-time arithmetic, the shapes of control flow, casts and member forms.
 *
 * Rows are source text and what comes out, so that a row reads like the language reference. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "lang/lang.h"

static arena *mem;
static textbuf printed;
static bool old_target; /* without f8e4m3 */

static void setup(void) { mem = arena_new(); }
static void teardown(void) { arena_free(mem); }
TestSuite(specialise, .init = setup, .fini = teardown);

static void keep(void *user, const char *text, size_t len) {
  (void)user;
  text_add(&printed, text, len);
}

typedef struct outcome {
  tir_fn *fn;
  const char *ir;       /* its text; "" if there is none */
  const char *printed;  /* by static_print */
  const char *messages; /* one a line */
} outcome;

static outcome run(const char *source, const char *signature) {
  outcome r = {.ir = ""};
  src_map *sources = src_map_new(mem);
  diag_sink sink;
  diag_sink_init(&sink, mem, sources);
  text_init(&printed, mem);
  text_str(&printed, "");
  tir_cx *cx = tir_cx_new(mem, strtab_new(mem));
  lang_unit *u = lang_load(cx, &sink, sources, "test.tk", source, strlen(source));
  if (sink.n_errors == 0 && lang_n_kernels(u) > 0) {
    const lang_kernel *k = lang_kernel_at(u, 0);
    lang_binding *b = ARENA_ARRAY(mem, lang_binding, k->n_params + 1);
    lang_options o = {.print = keep, .has_f8e4m3 = !old_target, .debug = true};
    lang_bind_init(k, b);
    if (lang_bind_signature(u, k, signature, b) && lang_bind_finish(u, k, b)) r.fn = lang_specialise(u, k, b, &o, mem);
  }
  if (r.fn) {
    const char *broken = tir_verify(r.fn);
    cr_assert_null(broken, "%s\n%s", source, broken);
    textbuf ir;
    text_init(&ir, mem);
    tir_print(r.fn, &ir);
    r.ir = ir.at;
  }
  textbuf t;
  text_init(&t, mem);
  diag_render(&sink, DIAG_LINE, false, &t);
  r.messages = t.n ? t.at : "";
  r.printed = printed.at ? printed.at : "";
  cr_assert_eq(r.fn == NULL, *r.messages != '\0', "%s\nresult and messages do not agree: %s", source, r.messages);
  return r;
}

/* Scalars of every type (b1 = an i1, i8_, u8_ ..), tiles t16 (f16[4]) and so on, pointers p (f32) and p8 (u8). */
static const char head[] =
    "import triton\nimport triton.language as tl\n"
    "@kernel\n"
    "def k(p: *f32, p8: *u8, pi: *i32, b1: i1, i8_: i8, i16_: i16, i32_: i32, i64_: i64, u8_: u8, u16_: u16, u32_: "
    "u32, u64_: u64,\n"
    "      e5: f8e5m2, e4: f8e4m3, h: f16, bf: bf16, f: f32, d: f64, C: constexpr = 7):\n"
    "  th = full([4], h, f16)\n  tf = full([4], f, f32)\n  ti = arange(0, 4)\n  tb = ti > 1\n  t2 = ti[:, None] + "
    "arange(0, 2)[None, :]\n";

static outcome run_expression(const char *e) {
  return run(arena_printf(mem, "%s  static_print((%s).type)\n", head, e), "");
}

typedef struct row {
  const char *source, *result; /* a type, or "! part of the message" */
} row;

static void check(const char *what, outcome r, const char *got, const char *wanted) {
  if (*wanted == '!') {
    cr_expect(strstr(r.messages, wanted + 2), "%s: expected the message '%s', got '%s%s'", what, wanted + 2, r.messages,
              got);
    return;
  }
  size_t n = strlen(got);
  bool same = n > 0 && got[n - 1] == '\n' && strlen(wanted) == n - 1 && memcmp(got, wanted, n - 1) == 0;
  cr_expect(same, "%s: expected %s, got %s%s", what, wanted, got, r.messages);
}

#define ROWS(name)                                             \
  for (size_t i_ = 0; i_ < sizeof name / sizeof *name; i_++) { \
    outcome r_ = run_expression(name[i_].source);              \
    check(name[i_].source, r_, r_.printed, name[i_].result);   \
  }

Test(specialise, promotion_of_tensors) {
  static const row rows[] = {
      {"i8_ + i16_", "i16"},
      {"i32_ + u32_", "u32"},
      {"i64_ + u32_", "i64"},
      {"i32_ + u64_", "u64"},
      {"i16_ + u8_", "i16"},
      {"i8_ + u16_", "u16"},
      {"i64_ + h", "f16"},
      {"i32_ + bf", "f32"},
      {"h + bf", "f16"},
      {"h / h", "f32"},
      {"bf % bf", "f32"},
      {"bf + bf", "bf16"},
      {"bf / bf", "f32"},
      {"i32_ / i32_", "f32"},
      {"i64_ / i64_", "f32"},
      {"d / i32_", "f64"},
      {"f + d", "f64"},
      {"h * f", "f32"},
      {"i32_ // u32_", "! different signedness"},
      {"i32_ / u32_", "! different signedness"},
      {"e5 + e4", "f16"},
      {"e5 + i32_", "! invalid operands"},
      {"e5 + bf", "f32"},
      {"b1 & i32_", "i32"},
      {"b1 + b1", "i1"},
      {"b1 + i8_", "i8"},
      {"b1 + u8_", "u8"},
      {"u8_ << u16_", "u16"},
      {"f & i32_", "! invalid operands"},
      {"f // f", "! invalid operands"},
      {"f % f", "f32"},
      {"i8_ ^ u8_", "u8"},
      {"th + tf", "f32[4]"},
      {"ti + tf", "f32[4]"},
      {"t2 + ti[:, None]", "i32[4,2]"},
      {"ti + arange(0, 8)", "! incompatible dimensions at index 0: 4 and 8"},
  };
  ROWS(rows)
}

Test(specialise, promotion_of_numbers) {
  static const row rows[] = {
      {"bf * 2.0", "bf16"},
      {"bf / 2.0", "f32"},
      {"h // 1", "! invalid operands"},
      {"h % 2", "f32"},
      {"i32_ * 2.0", "f32"},
      {"i64_ + 1.5", "f32"},
      {"i64_ + 1e300", "f64"},
      {"b1 + 1", "i32"},
      {"b1 & True", "i1"},
      {"i8_ * 2", "i8"},
      {"u8_ + (-1)", "! unsigned tensor and a negative scalar"},
      {"u8_ - 1", "u8"},
      {"i8_ + 300", "! out of range for type i8"},
      {"u32_ // 3", "u32"},
      {"2 * e5", "f8e5m2"},
      {"h + 1", "f16"},
      {"h * 1e-40", "f16"},
      {"C * h", "f16"},
      {"i32_ + 3000000000", "! out of range"},
      {"i64_ + 3000000000", "i64"},
      {"0x8000000000000000 + u64_", "u64"},
      {"1 << i8_", "i8"},
      {"th * 0.5", "f16[4]"},
      /* comparisons and functions give numbers their own type first */
      {"h > 1.0", "i1"},
      {"u8_ == -1", "i1"},
      {"tl.maximum(h, 0.0)", "f32"},
      {"tl.minimum(i8_, 127)", "i32"},
      {"tl.maximum(bf, bf)", "f32"},
      {"tl.maximum(h, h)", "f16"},
      {"tl.clamp(h, 0.0, 1.0)", "f32"},
      {"tl.fma(f, 2.0, h)", "f32"},
      {"tl.where(b1, 1, 0.0)", "f32"},
      {"tl.where(tb, th, 0.0)", "f16[4]"},
      {"tl.where(b1, h, f)", "f32"},
      {"max(h, 0.0)", "f32"},
      {"tl.exp(h)", "f16"},
      {"tl.exp(bf)", "bf16"},
      {"tl.exp(d)", "f64"},
      {"tl.exp(i32_)", "! works on floats"},
      {"tl.abs(u8_)", "u8"},
      {"tl.cdiv(i64_, 3)", "i64"},
      {"tl.fdiv(i32_, i32_)", "! needs floating operands"},
  };
  ROWS(rows)
}

/* What an assignment makes of a number is strong. */
Test(specialise, assigned_numbers_are_strong) {
  static const row rows[] = {
      {"x = 1.0\n  static_print((h * x).dtype)", "f32"},
      {"x = 0\n  static_print((i8_ + x).dtype, (i64_ + x).dtype)", "i32 i64"},
      {"x: tl.constexpr = 1.0\n  static_print((h * x).dtype)", "f16"},
      {"x = 3000000000\n  static_print(x.dtype)", "u32"},
      {"x = 1e-40\n  static_print(x.dtype)", "f64"},
      {"x = float('inf')\n  static_print(x.dtype)", "f32"},
      {"x = True\n  static_print(x.dtype)", "i1"},
      {"x = -2147483649\n  static_print(x.dtype)", "i64"},
      {"x = 1 << 64\n  static_print(x)", "! Nonrepresentable integer"},
      {"x, y = 2, 2.5\n  static_print((h * y).dtype, (i8_ * x).dtype)", "f32 i32"},
      /* and still known: it may size a tile and choose a branch */
      {"n = C // 2 + 1\n  static_print(arange(0, n).shape)", "(4,)"},
      {"n = -7\n  static_print(n // 2, C // -2)", "-3 -4"},
      {"n = 4\n  n *= 2\n  static_print(zeros([n], f32).type)", "f32[8]"},
      {"big = C > 4\n  if big:\n    y = f\n  else:\n    y = ti\n  static_print(y.type)", "f32"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome r = run(arena_printf(mem, "%s  %s\n", head, rows[i].source), "");
    check(rows[i].source, r, r.printed, rows[i].result);
  }
}

Test(specialise, pointers) {
  static const row rows[] = {
      {"p + ti", "*f32[4]"},
      {"ti + p", "*f32[4]"},
      {"p - u32_", "*f32"},
      {"p + b1", "*f32"},
      {"p + p", "! cannot add pointers together"},
      {"p + f", "! invalid operands"},
      {"p * 2", "! invalid operands"},
      {"2 - p", "! invalid operands"},
      {"p < p", "! invalid operands"},
      {"-p", "! wrong type argument to unary"},
      {"tl.where(b1, p, p + 1)", "*f32"},
      {"tl.where(b1, p, pi)", "! where cannot choose"},
      {"p.to(i64)", "i64"},
      {"p.to(i32)", "! cannot cast"},
      {"p.to(tl.pointer_type(tl.int32))", "*i32"},
      {"i64_.to(tl.pointer_type(u8))", "*u8"},
      {"(p + ti).to(i1)", "i1[4]"},
      {"tl.load(p + ti)", "f32[4]"},
      {"tl.load(p8 + ti[:, None], mask=t2 > 0)", "u8[4,2]"},
      {"tl.load(f)", "! Unsupported ptr type f32 in `load`"},
      {"tl.load(p, other=1.0)", "! `other` cannot be provided without `mask`"},
      {"tl.load(p, mask=tb)", "! mask is a tile"},
      {"tl.load(p + ti, mask=ti)", "! Mask must have boolean scalar type"},
      {"tl.load(p, None, None)", "f32"},
      {"tl.atomic_add(pi + ti, 1)", "i32[4]"},
      {"tl.atomic_add(p8, 1)", "! does not support u8"},
  };
  ROWS(rows)
}

Test(specialise, casts) {
  static const row rows[] = {
      {"f.to(f16)", "f16"},
      {"f.to(tl.float16, fp_downcast_rounding='rtz')", "f16"},
      {"h.to(f32, fp_downcast_rounding='rtz')", "! only for truncating fp conversions"},
      {"f.to(f16, 'up')", "! Invalid rounding mode"},
      {"f.to(i32, bitcast=True)", "i32"},
      {"f.to(f16, bitcast=True)", "! Cannot bitcast"},
      {"tl.cast(1, f16)", "f16"},
      {"tl.cast(th, dtype=tl.int8)", "i8[4]"},
      {"e4.to(i32)", "i32"},
      {"b1.to(i32)", "i32"},
      {"f.to('bf16')", "bf16"},
      {"tl.float32(h)", "f32"},
      {"f.to(2)", "! must be a dtype"},
  };
  ROWS(rows)
}

Test(specialise, shapes) {
  static const row rows[] = {
      {"ti[:, None]", "i32[4,1]"},
      {"ti[None]", "i32[1,4]"},
      {"f[None]", "f32[1]"},
      {"t2[:, None, :]", "i32[4,1,2]"},
      {"ti[0]", "! unsupported tensor index"},
      {"t2.T", "i32[2,4]"},
      {"ti.T", "! it needs two axes"},
      {"tl.trans(t2[None])", "i32[1,2,4]"},
      {"tl.permute(t2[None], 2, 0, 1)", "i32[2,1,4]"},
      {"tl.permute(t2, (0, 0))", "! must be a permutation"},
      {"tl.reshape(t2, [2, 4])", "i32[2,4]"},
      {"t2.reshape(8)", "i32[8]"},
      {"t2.reshape(4)", "! cannot change total number of elements"},
      {"tl.ravel(t2)", "i32[8]"},
      {"tl.expand_dims(ti, [0, -1])", "i32[1,4,1]"},
      {"tl.expand_dims(ti, (0, 0))", "! received axis 0 twice"},
      {"ti[:, None].broadcast_to(4, 8)", "i32[4,8]"},
      {"tl.broadcast_to(ti, (8,))", "! must match the existing size"},
      {"tl.broadcast(ti[:, None], ti)[0]", "i32[4,4]"},
      {"tl.zeros((3,), f32)", "! power of 2"},
      {"tl.zeros([1 << 21], f32)", "! more than 1048576"},
      {"tl.zeros([], f32)", "f32"},
      {"tl.zeros_like(th)", "f16[4]"},
      {"tl.full([2], 1, None)", "! dtype must be specified"},
      {"tl.full([2], f, None)", "f32[2]"},
      {"tl.full([2], -1, u8)", "! unsigned"},
      {"tl.arange(0, i32_)", "! must be of type constexpr"},
      {"tl.arange(0, 6)", "! must be a power of 2, not 6"},
      {"tl.arange(4, 4)", "! must be greater"},
      {"tl.sum(t2, axis=1)", "i32[4]"},
      {"tl.sum(t2, 0, keep_dims=True)", "i32[1,2]"},
      {"tl.sum(t2, keep_dims=True)", "i32[1,1]"},
      {"tl.sum(tb)", "u32"},
      {"tl.sum(th)", "f16"},
      {"tl.sum(th, dtype=f32)", "f32"},
      {"t2.max()", "i32"},
      {"tl.max(th, axis=0)", "f32"},
      {"tl.max(tb, axis=0)", "i32"},
      {"tl.max(th, axis=0, return_indices=True)[0]", "f16"},
      {"tl.argmax(t2, axis=-1)", "i32[4]"},
      {"tl.max(t2, axis=2)", "! out of range for rank 2"},
      {"max(t2, axis=0)", "i32[2]"},
      {"tl.softmax(tf)", "f32[4]"},
      {"tl.sigmoid(th)", "f16[4]"},
      {"tl.dot(th[:, None], th[None, :])", "f32[4,4]"},
      {"tl.dot(th[:, None], th[None, :], out_dtype=f16)", "f16[4,4]"},
      {"tl.dot(th[:, None], tf[None, :])", "! Both operands must be same dtype"},
      {"tl.dot(th[:, None], th[:, None])", "! not compatible for matmul"},
      {"tl.dot(ti.to(i8)[:, None], ti.to(i8)[None, :])", "i32[4,4]"},
      {"tl.swizzle2d(i32_, i32_, 8, 8, 4)[1]", "i32"},
  };
  ROWS(rows)
}

Test(specialise, compile_time_arithmetic) {
  static const row rows[] = {
      {"-7 // 2, -7 % 3, 7 // -2, -7.5 // 2", "(-4, 2, -4, -4.0)"},
      {"2 ** 10, 2 ** -1, 2.0 ** 0.5 > 1.41", "(1024, 0.5, True)"},
      {"2 ** 100 - 2 ** 100 + 1", "1"},
      {"2 ** 130", "! too large"},
      {"7 / 2, 6 / 3", "(3.5, 2.0)"},
      {"1 // 0", "! division by zero"},
      {"1 << 3 | 1, ~5, 6 ^ 3, 1 - -1", "(9, -6, 5, 2)"},
      {"'ab' + 'c' == 'abc', 'b' in 'abc', 'x' not in ('x', 'y')", "(True, True, False)"},
      {"(1, 2) + (3,), (1, 2, 3)[1:], (1, 2, 3)[-1], (0,) * 3", "((1, 2, 3), (2, 3), 3, (0, 0, 0))"},
      {"(1, 2) == (1, 2), (1, 2) < (1, 3)", "(True, True)"},
      {"(1, 2)[2]", "! out of range"},
      {"None is None, C is not None, not C", "(True, True, False)"},
      {"1 < C < 9, 1 < C > 9", "(True, False)"},
      {"C and 3, 0 or 'x'", "(3, 'x')"},
      {"1 if C > 3 else 2", "1"},
      {"max(1, 2.5), min(3, 2, 4), abs(-3), len((1, 2)), int(3.9), float(2), bool(0), str(1.5)",
       "(2.5, 2, 3, 2, 3, 2.0, False, '1.5')"},
      {"float('-inf'), float('nan') == float('nan'), 1e10, 1e16, 0.1", "(-inf, False, 10000000000.0, 1e+16, 0.1)"},
      {"triton.cdiv(10, 4), triton.next_power_of_2(33), tl.cdiv(8, 4)", "(3, 64, 2)"},
      {"f'{C}-{C:04d}|{C!r:>3}|{1.5:.2f}|{255:#x}|{1234567:,}'", "7-0007|  7|1.50|0xff|1,234,567"},
      {"f'{C=} {\"a\"!r}'", "C=7 'a'"},
      {"f'{f}'", "! compile-time values only"},
      {"isinstance(C, int), isinstance(f, tl.tensor), isinstance((1,), (int, tuple))", "(True, True, True)"},
      {"hasattr(f, 'shape'), hasattr(f, 'nope'), getattr(f, 'nope', 3)", "(True, False, 3)"},
      {"hasattr(f, 'sum'), hasattr(f, 'to'), hasattr(f, 'load'), hasattr(f32, 'is_int')", "(True, True, False, True)"},
      {"getattr(f, 'sum', 3)", "! 'sum' is a method"},
      {"f32.primitive_bitwidth, tl.float16.is_floating(), i8.is_int_signed(), u8.is_int(), i1.is_bool()",
       "(32, True, True, True, True)"},
      {"p.dtype.element_ty, p.type.element_ty, th.dtype, th.type.scalar, th.numel, th.shape[0]",
       "(f32, f32, f16, f16, 4, 4)"},
      {"[i * i for i in (1, 2, 3) if i != 2]", "(1, 9)"},
      {"'a' + 1", "! invalid operands"},
      {"3 @ 4", "! invalid operands"},
      {"tl.logical_and('x', tb)", "! cannot convert str 'x' to tensor"},
      {"f ** 2", "! not supported on tensors"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome r = run(arena_printf(mem, "%s  static_print((%s))\n", head, rows[i].source), "");
    check(rows[i].source, r, r.printed, rows[i].result);
  }
}

/* ---- control flow: what is emitted, without the lines that do not matter ----------------------------------------- */

static int count(const char *text, const char *part) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part)) n++;
  return n;
}

static outcome run_body(const char *body) { return run(arena_printf(mem, "%s%s", head, body), ""); }

Test(specialise, early_return_becomes_structure) {
  outcome r = run_body(
      "  if i32_ > 3:\n    return\n"
      "  tl.store(p, 1.0)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "if %"), 1, "%s", r.ir);
  cr_expect(strstr(r.ir, "} else {") < strstr(r.ir, "store"), "the rest is in the other arm:\n%s", r.ir);
  r = run_body(
      "  if b1:\n    if f > 0:\n      return\n    tl.store(p, 1.0)\n  else:\n    tl.store(p, 2.0)\n"
      "  tl.store(p, 3.0)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "store"), 3, "the rest is not repeated:\n%s", r.ir);
}

Test(specialise, valued_early_return) {
  outcome r =
      run("def pick(a, b):\n  if a > b:\n    return a\n  if a < 0:\n    return 1.0\n  return b + 1\n"
          "@kernel\ndef k(p: *f32):\n  v = pick(load(p), load(p + 1))\n  static_print(v.dtype)\n  store(p, v)\n",
          "");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "if %"), 2, "%s", r.ir);
  cr_expect_str_eq(r.printed, "f32\n");
  r = run("def pick(a):\n  if a > 0:\n    return a\n  return 1\n@kernel\ndef k(p: *f32):\n  store(p, pick(load(p)))\n",
          "");
  cr_expect(strstr(r.messages, "Inconsistent return types"), "%s", r.messages);
  r = run("def pick(a):\n  if a > 0:\n    return a\n@kernel\ndef k(p: *f32):\n  store(p, pick(load(p)))\n", "");
  cr_expect(strstr(r.messages, "falls off its end"), "%s", r.messages);
}

Test(specialise, if_joins_variables) {
  outcome r = run_body("  x = f\n  if b1:\n    x = x + 1\n    y = h\n  else:\n    y = h * 2\n  tl.store(p, x + y)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect(strstr(r.ir, "if %b1 : f32, f16"), "%s", r.ir);
  r = run_body("  if b1:\n    y = f\n  tl.store(p, y)\n");
  cr_expect(strstr(r.messages, "bound only in one branch"), "%s", r.messages);
  r = run_body("  if b1:\n    y = f\n  else:\n    y = h\n  tl.store(p, y)\n");
  cr_expect(strstr(r.messages, "Mismatched type for y between then block (f32) and else block (f16)"), "%s",
            r.messages);
  r = run_body("  y = f\n  if b1:\n    y = h\n  tl.store(p, y)\n");
  cr_expect(strstr(r.messages, "'y' is f32"), "%s", r.messages);
}

Test(specialise, constant_branches_are_pruned) {
  outcome r = run_body(
      "  if C == 8:\n    x = undefined_name\n  elif C == 7:\n    x = f\n  else:\n    x = ti + th[:, None] + "
      "undefined_name\n  tl.store(p, x)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "if %"), 0, "%s", r.ir);
}

Test(specialise, loops_carry_what_changes) {
  outcome r = run_body(
      "  acc = 0.0\n  same = f\n  n = 4\n  for i in range(0, i32_, 2):\n    acc += f\n    if C == 8:\n      same = h\n "
      "   t = arange(0, n)\n"
      "  tl.store(p, acc + same)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect(strstr(r.ir, "= for %") && strstr(r.ir, "(%i."), "%s", r.ir);
  cr_expect_eq(count(r.ir, "yield %"), 1, "%s", r.ir);
  cr_expect(strstr(r.ir, ": f32 (%i"), "only acc is carried:\n%s", r.ir);
  r = run_body("  acc = 0.0\n  for i in range(4):\n    acc += d\n");
  cr_expect(strstr(r.messages, "Loop-carried variable acc has initial type f32 but is re-assigned to f64"), "%s",
            r.messages);
  r = run_body("  for i in range(4):\n    z = f\n  tl.store(p, z)\n");
  cr_expect(strstr(r.messages, "inside a loop"), "%s", r.messages);
  r = run_body(
      "  for i in range(i64_):\n    tl.static_print(i.dtype)\n  for i in range(u8_, u32_):\n    "
      "tl.static_print(i.dtype)\n");
  cr_expect_str_eq(r.printed, "i64\nu32\n");
}

Test(specialise, static_range_unrolls) {
  outcome r = run_body(
      "  for i in tl.static_range(3, 0, -1):\n    x: tl.constexpr = i * 2\n    tl.store(p + i, tl.zeros([1], "
      "f32).numel + x)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "store"), 3, "%s", r.ir);
  r = run_body(
      "  n = 0\n  for i in tl.static_range(3):\n    n += 1 if hasattr(p, 'nope') else 10\n  static_print(n)\n");
  cr_expect_str_eq(r.printed, "30\n"); /* a question is no mistake, which would end the loop */
  r = run_body("  for i in tl.static_range(100000000):\n    tl.store(p, 1.0)\n");
  cr_expect(strstr(r.messages, "more than 100000 operations"), "%s", r.messages);
  r = run_body("  for i in tl.static_range(i32_):\n    pass\n");
  cr_expect(strstr(r.messages, "not a constexpr"), "%s", r.messages);
}

Test(specialise, while_loops) {
  outcome r =
      run_body("  k = 0\n  x = f\n  while (k < i32_) & (x > 1):\n    k += 1\n    x = x * 0.5\n  tl.store(p + k, x)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect(strstr(r.ir, "while %") && strstr(r.ir, "condition %"), "%s", r.ir);
  r = run_body("  while True:\n    tl.store(p, 1.0)\n");
  cr_expect(strstr(r.messages, "never ends"), "%s", r.messages);
}

Test(specialise, short_circuit_and_ternary) {
  outcome r = run_body(
      "  x = None\n  if x is not None and tl.load(x) > 0:\n    tl.store(p, 1.0)\n  y = f if b1 else f * 2\n  "
      "tl.store(p, y)\n");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_eq(count(r.ir, "load"), 0, "%s", r.ir);
  cr_expect_eq(count(r.ir, "if %b1 : f32"), 1, "%s", r.ir);
  r = run_body("  y = f if b1 else h\n");
  cr_expect(strstr(r.messages, "Ternary expression with dynamic condition has inconsistent types f32 and f16"), "%s",
            r.messages);
  r = run_body("  y = f if tb else h\n");
  cr_expect(strstr(r.messages, "ambiguous"), "%s", r.messages);
}

/* ---- functions, parameters --------------------------------------------------------------------------------------- */

Test(specialise, functions) {
  outcome r =
      run("def two(a, b=2, *, scale: constexpr = 1):\n  return a + b, scale\n"
          "def all_of(*xs):\n  return len(xs)\n"
          "def apply(f: constexpr, x):\n  return f(x)\n"
          "def neg(x):\n  return -x\n"
          "def fact(n: constexpr):\n  return 1 if n <= 1 else n * fact(n - 1)\n"
          "@kernel\ndef k(p: *f32):\n"
          "  a, s = two(load(p), scale=3)\n  static_print(a.dtype, s, all_of(1, 2, 3), two(*(1, 2)), fact(5))\n"
          "  store(p, apply(neg, a))\n",
          "");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_str_eq(r.printed, "f32 3 3 (3, 1) 120\n");
  r = run("def f(x):\n  return f(x)\n@kernel\ndef k(p: *f32):\n  f(p)\n", "");
  cr_expect(strstr(r.messages, "calls deep"), "%s", r.messages);
}

Test(specialise, bindings) {
  static const char source[] =
      "import triton.language as tl\nimport triton\n@triton.jit\ndef k(x, n, m, B: tl.constexpr, ACT: tl.constexpr = "
      "'none', bias=None, eps=1e-5):\n"
      "  tl.static_print(x.dtype, n, B, ACT, bias is None, eps.dtype)\n  tl.store(x + n, m)\n";
  outcome r = run(source, "x=*fp16:16, n=i32:1, m=fp32, B=64, ACT=gelu");
  cr_assert(r.fn, "%s", r.messages);
  cr_expect_str_eq(r.printed, "*f16 1 64 gelu True f32\n");
  cr_expect_eq(r.fn->n_params, 2);
  cr_expect_eq(r.fn->params[0].divisibility, 16);
  r = run(source, "x=*fp16, n=i32, B=64");
  cr_expect(strstr(r.messages, "the type of parameter 'm' is not known"), "%s", r.messages);
  r = run(source, "x=*fp16, n=i32, m=i32");
  cr_expect(strstr(r.messages, "constexpr parameter 'B' has no value"), "%s", r.messages);
  r = run(source, "x=*fp17");
  cr_expect(strstr(r.messages, "no type"), "%s", r.messages);
  r = run("@kernel\ndef k(x: *f32:16, n: i32:8, w: *const f16):\n  store(w, 1.0)\n", "");
  cr_expect(strstr(r.messages, "Cannot store to a constant pointer"), "%s", r.messages);
}

Test(specialise, a_mistake_is_reported_once) {
  outcome r = run_body(
      "  x = undefined_name + 1\n  y = x * 2\n  if y > 0:\n    z = y\n  for i in range(y):\n    y += 1\n  tl.store(p, "
      "y)\n");
  cr_expect_eq(count(r.messages, "error:"), 1, "%s", r.messages);
  r = run_body("  a = tl.lod(p)\n  b = tl.cumsum(ti)\n  c = ti.shape[3]\n");
  cr_expect_eq(count(r.messages, "error:"), 3, "%s", r.messages);
  cr_expect(strstr(r.messages, "cumsum is not supported by tkc yet"), "%s", r.messages);
}

Test(specialise, wrong_bindings) {
  static const char source[] = "@kernel\ndef k(x: *f32, n, B: constexpr = 1):\n  store(x + n, B)\n";
  static const char *const rows[][2] = {
      {"n", "[bad_signature]"},
      {"n=i32:x", "[bad_signature_type]"},
      {"n=*f99", "[bad_signature_type]"},
      {"n=f32:16", "[bad_divisibility]"},
      {"m=i32", "[param_unknown]"},
      {"n=i32,x=*f16", "[signature_conflict]"},
      {"n=i32,B=(1,", "[bad_define_value]"},
      {"n=i32,B=1 +", "[bad_define_value]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome r = run(source, rows[i][0]);
    cr_expect(strstr(r.messages, rows[i][1]) && strstr(r.messages, "<signature>:1:"), "%s: %s", rows[i][0], r.messages);
  }
}

Test(specialise, wrong_descriptors) {
  static const char source[] =
      "@kernel\ndef k(x: *f32, n: i32, a, d: tensordesc[f16[64, B]], t: tl.tensor_descriptor, B: constexpr = 32):\n"
      "  store(x, n)\n";
  static const char *const rows[][2] = {
      {"x=tensordesc<f32[64]>", "'x' cannot be tensordesc<f32[64]> [signature_conflict]"},
      {"n=tensordesc<i32[64]>", "[signature_conflict]"},
      {"B=tensordesc<i32[64]>", "[signature_conflict]"},
      {"d=*f16:16", "'d' cannot be *f16 [signature_conflict]"},
      {"t=i32", "[signature_conflict]"},
      {"d=tensordesc<f16[64, 64]>", "'d' cannot be tensordesc<f16[64, 64]> [signature_conflict]"},
      {"d=tensordesc<f16[64, 32]>:nan", "'d' cannot be tensordesc<f16[64, 32]>:nan [signature_conflict]"},
      {"a=tensordesc<f16[64, 48]>", "[bad_shape]"},
      {"a=tensordesc<f16[64, 0]>", "[bad_shape]"},
      {"a=tensordesc<f16[2097152]>", "[bad_shape]"},
      {"a=tensordesc<f16[9999999999999]>", "[descriptor_type]"},
      {"a=tensordesc<f16[64, 4]>", "[descriptor_bytes]"},
      {"a=tensordesc<f16[1, 1, 1, 1, 1, 8]>", "[descriptor_rank]"},
      {"a=tensordesc<i8[64]>:nan", "[block_nan]"},
      {"a=tensordesc<*f16[64]>", "[descriptor_type]"},
      {"a=tensordesc<f17[64]>", "[descriptor_type]"},
      {"a=tensordesc<f16>", "[descriptor_type]"},
      {"a=tensordesc<f16[]>", "[descriptor_type]"},
      {"a=tensordesc<f16[64,]>", "[descriptor_type]"},
      {"a=tensordesc<f16[64]", "[descriptor_type]"},
      {"a=tensordesc<", "[descriptor_type]"},
      {"a=tensordesc<f16[64]>:12", "[descriptor_type]"},
      {"a=tensordesc<f16[64]>x", "[descriptor_type]"},
      {"a=tensordesc<f16[64]>:nam", "[descriptor_type]"},
      {"a=tensordesc<f16[64]>:", "[descriptor_type]"},
      {"d=tensordesc<f16[64]>:16:nan", "'d' cannot be tensordesc<f16[64]>:16:nan [signature_conflict]"},
      {"z=tensordesc<f16[64]>", "[param_unknown]"},
      {"z=tensordesc", "[param_unknown]"},
      {"a=tensordesc", "'a' cannot be tensordesc [signature_conflict]"},
      {"t=tensordesc:16", "'t' cannot be tensordesc:16 [signature_conflict]"},
      {"x=tensordesc", "[signature_conflict]"},
      {"d=tensordesc:nan", "[descriptor_word]"},
      {"d=tensordesc:12", "[descriptor_word]"},
      {"d=tensordesc:", "[descriptor_word]"},
      {"d=tensordesc:16x", "[descriptor_word]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    outcome r = run(source, rows[i][0]);
    cr_expect(strstr(r.messages, rows[i][1]), "%s: %s", rows[i][0], r.messages);
  }
}

Test(specialise, descriptor_parameters) {
  static const char source[] =
      "def f(d):\n  return d.shape[1] + d.block_shape[0]\n"
      "@kernel\ndef k(a, a_shape_0: i32, b: tensordesc[T[N // 2, N], \"nan\"], c=None, N: constexpr = 16, T: constexpr "
      "= f32):\n"
      "  static_print(isinstance(a, tl.tensor_descriptor), a.block_shape, a.dtype, a.shape[0].dtype, "
      "a.strides[0].dtype)\n"
      "  static_print(b.block_shape, b.dtype, c is None, f(b).dtype)\n"
      "  static_print(a.block_type, hasattr(a, 'load'), hasattr(a, 'store'), hasattr(a, 'advance'), hasattr(a, "
      "'gather'))\n"
      "  b.store([0, 0], a.load([f(a), a_shape_0]))\n";
  static const char *const same[] = {"a=tensordesc<fp16[8, 16]>", "a = tensordesc < f16 [ 8 , 16 ] > ",
                                     "a=tensordesc<float16[8,16]>,b=tensordesc<fp32[8, 16]>:nan",
                                     "c=None, a=tensordesc<f16[8, 16]>"};
  outcome first = run(source, same[0]);
  cr_assert_not_null(first.fn, "%s", first.messages);
  cr_expect_str_eq(first.printed, "True (8, 16) f16 i32 i64\n(8, 16) f32 True i32\nf16[8,16] True True False False\n");
  static const char wanted[] =
      "kernel @k(%a: *f16 {divisible = 16}, %a_shape_0_: i32 {positive}, %a_shape_1: i32 {positive}, %a_stride_0: i64 "
      "{divisible = 8}, "
      "%a_shape_0: i32, %b: *f32 {divisible = 16}, %b_shape_0: i32 {positive}, %b_shape_1: i32 {positive}, "
      "%b_stride_0: i64 {divisible = 4})";
  cr_expect(strncmp(first.ir, wanted, sizeof wanted - 1) == 0, "%s", first.ir);
  for (size_t i = 1; i < sizeof same / sizeof *same; i++) {
    outcome r = run(source, same[i]);
    cr_assert_not_null(r.fn, "%s: %s", same[i], r.messages);
    cr_expect_str_eq(r.ir, first.ir);
  }
  static const char *const divisible[][2] = {
      {"@kernel\ndef k(a):\n  a.store([0], 1)\n", "a=tensordesc<i32[8]>:32"},
      {"@kernel\ndef k(a):\n  a.store([0], 1)\n", "a=tensordesc<i32[8]> : 32 "},
      {"@kernel\ndef k(a: tensordesc[i32[8]]:32):\n  a.store([0], 1)\n", ""},
      {"@kernel\ndef k(a: \"tensordesc<i32[8]>\":32):\n  a.store([0], 1)\n", ""},
      {"@kernel\ndef k(a: \"tensordesc<i32[8]>:32\"):\n  a.store([0], 1)\n", ""},
      {"@kernel\ndef k(a: tensordesc[i32[8]]:8):\n  a.store([0], 1)\n", "a=tensordesc<i32[8]>:32"},
      {"@kernel\ndef k(a: tensordesc[i32[8]]:32):\n  a.store([0], 1)\n", "a=tensordesc<i32[8]>"},
      {"@kernel\ndef k(a: tensordesc[i32[8]]:32):\n  a.store([0], 1)\n", "a=tensordesc:16"},
      {"@kernel\ndef k(a: tensordesc[i32[8]]:8 = None):\n  a.store([0], 1)\n", "a=tensordesc : 32 "},
      {"@kernel\ndef k(a: tensordesc[i32[N]]:32 = None, N: constexpr = 8):\n  a.store([0], 1)\n", "a=tensordesc"},
  };
  for (size_t i = 0; i < sizeof divisible / sizeof *divisible; i++) {
    outcome r = run(divisible[i][0], divisible[i][1]);
    cr_expect(
        strncmp(r.ir, "kernel @k(%a: *i32 {divisible = 16}, %a_shape_0: i32 {divisible = 32, positive})", 80) == 0,
        "%zu: %s%s", i, r.messages, r.ir);
  }
  /* A parameter is what make_tensor_descriptor makes of the same values. */
  static const char param[] = "@kernel\ndef k(a: tensordesc[i1[16]]):\n  a.store([3], a.load([-1]))\n";
  static const char made[] =
      "@kernel\ndef k(a: *i1:16, a_shape_0: i32):\n"
      "  d = make_tensor_descriptor(a, [a_shape_0], [1], [16])\n  d.store([3], d.load([-1]))\n";
  outcome x = run(param, ""), y = run(made, "");
  cr_assert(x.fn && y.fn, "%s%s", x.messages, y.messages);
  int n[2] = {0, 0};
  for (const tir_op *op = tir_first(x.fn); op; op = tir_next(op)) n[0]++;
  for (const tir_op *op = tir_first(y.fn); op; op = tir_next(op)) n[1]++;
  cr_expect(n[0] == n[1], "%s%s", x.ir, y.ir);
  outcome none = run("@kernel\ndef k(x: *f32, d: tensordesc[f32[4]] = None):\n  static_assert(d is None)\n", "");
  cr_expect_not_null(none.fn, "%s", none.messages);
}

Test(specialise, defines) {
  src_map *sources = src_map_new(mem);
  diag_sink sink;
  diag_sink_init(&sink, mem, sources);
  tir_cx *cx = tir_cx_new(mem, strtab_new(mem));
  static const char source[] =
      "def act(x):\n  return x\n@kernel\ndef k(x: *f32, B: constexpr, C: constexpr, D: constexpr, E: constexpr, F: "
      "constexpr):\n  store(x, B)\n";
  lang_unit *u = lang_load(cx, &sink, sources, "t.tk", source, strlen(source));
  const lang_kernel *k = lang_kernel_at(u, 0);
  lang_binding b[6];
  lang_bind_init(k, b);
  static const char *const good[] = {"B=-128", "C=gelu", "D=act", "E = float('-inf')", "F=(1, 'a', f16, None)"};
  for (int i = 0; i < 5; i++) cr_assert(lang_bind_define(u, k, good[i], b), "%s", good[i]);
  static const char *const text[] = {"-128", "'gelu'", "<function act>", "-inf", "(1, 'a', f16, None)"};
  for (int i = 0; i < 5; i++) cr_expect_str_eq(lang_value_text(mem, b[i + 1].value), text[i]);
  cr_assert_eq(sink.n_errors, 0);
  cr_expect_not(lang_bind_define(u, k, "B", b));
  cr_expect_not(lang_bind_define(u, k, "Q=1", b));
  cr_expect_not(lang_bind_define(u, k, "B=1 2", b));
  cr_expect_null(lang_kernel_named(u, "nobody"));
  textbuf t;
  text_init(&t, mem);
  diag_render(&sink, DIAG_LINE, false, &t);
  cr_expect(strstr(t.at, "[bad_define]") && strstr(t.at, "[param_unknown]") && strstr(t.at, "[bad_define_value]") &&
                strstr(t.at, "[kernel_unknown]"),
            "%s", t.at);
}

Test(specialise, limits) {
  textbuf t;
  text_init(&t, mem);
  text_str(&t, "@kernel\ndef k(p: *f32, n: i32):\n");
  for (int i = 0; i < 500; i++) text_printf(&t, "  if n == %d:\n    return\n", i);
  outcome r = run(t.at, "");
  cr_expect(strstr(r.messages, "[too_deep_eval]"), "%s", r.messages);
  text_init(&t, mem);
  text_str(&t, "@kernel\ndef k(p: *f32, n: i32):\n");
  for (int i = 0; i < 1100; i++) text_printf(&t, "  v%d = n\n", i);
  r = run(t.at, "");
  cr_expect(strstr(r.messages, "[too_many_locals]"), "%s", r.messages);
  size_t big = (1 << 26) + 1;
  char *text = arena_alloc(mem, big + 1);
  memset(text, '#', big);
  r = run(text, "");
  cr_expect(strstr(r.messages, "[source_too_big]"), "%s", r.messages);
}

Test(specialise, types_of_the_target) {
  old_target = true;
  outcome r = run("@kernel\ndef k(p: *f32):\n  store(p, load(p).to(f8e4m3).to(f32))\n", "");
  cr_expect(strstr(r.messages, "[dtype_unsupported]"), "%s", r.messages);
  r = run("@kernel\ndef k(p: *f32):\n  store(p, load(p).to(f8e5m2).to(f32))\n", "");
  cr_expect(r.fn, "%s", r.messages);
}
