/* Tile IR as text, and building and changing it: printing what was read gives the same text, bad text is reported at
 * its place, and the verifier finds each kind of mistake. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/ir/tir.h"

typedef struct desk {
  arena *a;
  tir_cx *cx;
  src_map *sources;
  diag_sink sink;
} desk;

static desk *desk_new(void) {
  arena *a = arena_new();
  desk *k = ARENA_NEW(a, desk);
  k->a = a;
  k->cx = tir_cx_new(a, strtab_new(a));
  k->sources = src_map_new(a);
  diag_sink_init(&k->sink, a, k->sources);
  return k;
}

static tir_fn *read_bytes(desk *k, const char *text, size_t len) {
  return tir_read(k->cx, k->a, &k->sink, src_add(k->sources, "t.tir", text, len));
}

static const char *messages(desk *k) {
  textbuf b;
  text_init(&b, k->a);
  diag_render(&k->sink, DIAG_LINE, false, &b);
  return b.at;
}

static tir_fn *read_good(desk *k, const char *text) {
  tir_fn *fn = read_bytes(k, text, strlen(text));
  cr_assert(fn != NULL, "%s%s", messages(k), text);
  return fn;
}

static const char *print(desk *k, const tir_fn *fn) {
  textbuf b;
  text_init(&b, k->a);
  tir_print(fn, &b);
  return b.at;
}

/* ---- round trip -------------------------------------------------------------------------------------------------- */

/* One text with everything that the form has: names, strings, numbers of all kinds, layouts, every kind of region. */
static const char everything[] =
    "kernel @everything(%x: *f32 {divisible = 16}, %y: *const f16, %t: **i32, %n: i32 {divisible = 2, positive, "
    "promised = 8}) num_warps(2) "
    "num_stages(4) "
    "stage(laid_out) gang(2) shared(1024) gang_shared(512) {\n"
    "  %4 = const {value = -2147483648} : i32\n"
    "  %5 = const {value = 18446744073709551615} : u64\n"
    "  %6 = const {value = 1} : i1\n"
    "  %7 = const {value = -0.0} : f32\n"
    "  %8 = const {value = 0.1} : f32\n"
    "  %9 = const {value = 1e-45} : f32\n"
    "  %10 = const {value = 0.1} : f64\n"
    "  %11 = const {value = 3.3333333333333335} : f64\n"
    "  %12 = const {value = inf} : f16\n"
    "  %13 = const {value = -inf} : f32\n"
    "  %14 = const {value = nan} : bf16\n"
    "  %15 = const {value = 0x7fc00001} : f32\n"
    "  %16 = const {value = 448.0} : f8e4m3\n"
    "  %17 = const {value = 1e+300} : f64\n"
    "  %v.18 = const {value = 2.0} : f32[4,64]@r(1,2)l(4..64)w(128)\n"
    "  %tr.19 = trans %v.18 {perm = [1, 0]} : f32[64,4]@r(4,8)l(16..128,1)w(2)\n"
    "  %20 = reduce %v.18 {axis = 1} : f32[4]@r()l(0,0,0,0,1)w(2) (%a.21: f32, %b.22: f32) {\n"
    "    %23 = add %a.21, %b.22 : f32\n"
    "    yield %23\n"
    "  }\n"
    "  %acc.24, %last.25 = for %4, %n, %4, %8, %n {num_stages = 3, no_licm = 1} : f32, i32 (%i.26: i32, %acc.27: f32, "
    "%last.28: i32) {\n"
    "    %29 = lt %i.26, %n : i1\n"
    "    %30 = if %29 : f32 {\n"
    "      yield %acc.27\n"
    "    } else {\n"
    "      yield %8\n"
    "    }\n"
    "    yield %30, %i.26\n"
    "  }\n"
    "  %31 = while %n : i32 (%w.32: i32) {\n"
    "    condition %6, %w.32\n"
    "  } else (%w.33: i32) {\n"
    "    yield %w.33\n"
    "  }\n"
    "  print %n, %acc.24 {message = \"a \\\"quoted\\\" \\\\ line\\n\\ttab \\x01\xc3\xa9\", hex = 1}\n"
    "  print\n"
    "  %34 = hint %n {kind = \"multiple_of\", values = [16]} : i32\n"
    "  %35 = cast %8 {rounding = \"rtz\"} : f16\n"
    "  return\n"
    "}\n";

Test(text, prints_what_it_read) {
  desk *k = desk_new();
  cr_assert_str_eq(print(k, read_good(k, everything)), everything);
  arena_free(k->a);
}

Test(text, reads_loosely_and_prints_strictly) {
  desk *k = desk_new();
  tir_fn *fn = read_good(
      k,
      "// a comment\nkernel @\"odd name\" ( %p : * const float32 , %7:int32 ) stage(plain) num_warps(8) {\n"
      "%q=add %7 ,\n %7:i32 // behind it\n\n%big = const{value=0x10}:i64\n%s.44 = const { value = 5 } : fp32 return }");
  cr_assert_str_eq(print(k, fn),
                   "kernel @\"odd name\"(%p: *const f32, %1: i32) num_warps(8) num_stages(3) stage(plain) {\n"
                   "  %q.2 = add %1, %1 : i32\n"
                   "  %big.3 = const {value = 16} : i64\n"
                   "  %s.4 = const {value = 5.0} : f32\n"
                   "  return\n"
                   "}\n");
  arena_free(k->a);
}

Test(text, every_scalar_reads_back_bit_for_bit) {
  desk *k = desk_new();
  static const tir_dtype narrow[] = {DT_i8, DT_u8, DT_f8e4m3, DT_f8e5m2, DT_f16, DT_bf16};
  for (size_t t = 0; t < sizeof narrow / sizeof *narrow; t++) {
    tir_fn *fn = tir_fn_new(k->cx, k->a, "k", (span){0, 0});
    tir_builder b = tir_at_end(fn, fn->body);
    uint64_t n = UINT64_C(1) << tir_dtypes[narrow[t]].bits, step = n > 256 ? 7 : 1;
    for (uint64_t bits = 0; bits < n; bits += step)
      tir_const(&b, tir_scalar_type(k->cx, narrow[t]), (tir_scalar){bits});
    tir_build(&b, OP_return, 0, NULL, 0, NULL);
    const char *text = print(k, fn);
    const tir_op *op = tir_first(read_good(k, text));
    for (uint64_t bits = 0; bits < n; bits += step, op = op->next)
      cr_assert_eq(tir_attr_of(op, ATTR_value)->scalar.bits, bits, "%s %llx", tir_dtypes[narrow[t]].text,
                   (unsigned long long)bits);
  }
  arena_free(k->a);
}

/* ---- bad text ---------------------------------------------------------------------------------------------------- */

Test(text, mistakes_are_reported_at_their_place) {
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"", "1:1: error: expected 'kernel'"},
      {"kernel add() { return }", "1:8: error: expected '@'"},
      {"kernel @k(%n: i32 {}) { return }", "expected 'divisible', 'positive' or 'promised'"},
      {"kernel @k(%n: i32 {divisible = 4, 4}) { return }", "expected 'divisible', 'positive' or 'promised'"},
      {"kernel @k(%n: i32 {divisible = 4 4}) { return }", "expected '}'"},
      {"kernel @k(%n: i32 {positive = 1}) { return }", "expected '}'"},
      {"kernel @k(%x: f33) { return }", "1:15: error: unknown type 'f33'"},
      {"kernel @k(%x: f32, %x: f32) { return }", "1:20: error: value 'x' is given twice"},
      {"kernel @k() {\n  foo\n}", "2:3: error: unknown op 'foo'"},
      {"kernel @k() {\n  %1 = add %2, %2 : i32\n}", "2:12: error: no value is called '2' here"},
      {"kernel @k(%x: i32) {\n  %1 = add %x : i32\n}", "2:3: error: add has 1 operands, not 2"},
      {"kernel @k(%x: i32) {\n  add %x, %x\n}", "2:3: error: add has 0 results, not 1"},
      {"kernel @k(%x: i32) {\n  %1 = neg %x : i32, i32\n}", "2:3: error: neg has 2 result types, not 1"},
      {"kernel @k() {\n  %1 = const {valeu = 1} : i32\n}", "2:15: error: unknown attribute 'valeu'"},
      {"kernel @k() {\n  %1 = const {value = 1, value = 2} : i32\n}", "2:26: error: attribute 'value' is given twice"},
      {"kernel @k() {\n  %1 = const {value = 300} : i8\n}", "2:23: error: '300' is no i8"},
      {"kernel @k() {\n  %1 = const {value = -1} : u8\n}", "2:23: error: '-1' is no u8"},
      {"kernel @k() {\n  %1 = const {value = 1.0} : i32\n}", "2:23: error: '1.0' is no i32"},
      {"kernel @k() {\n  %1 = const {value = 1e} : f32\n}", "2:23: error: '1e' is no f32"},
      {"kernel @k() {\n  %1 = const {value = 0x100} : i8\n}", "2:23: error: '0x100' is no bits of i8"},
      {"kernel @k() {\n  %1 = arange {start = 99999999999999999999} : i32[4]\n}",
       "2:24: error: '99999999999999999999' is no 64-bit integer"},
      {"kernel @k(%x: f32[3]) { return }",
       "1:18: error: axis 0 has extent 3, which is no power of two: the next one is 4"},
      {"kernel @k(%x: f32[2097152]) { return }", "more than 1048576 elements"},
      {"kernel @k(%x: f32[0]) { return }", "at least one element"},
      {"kernel @k(%x: f32[1,1,1,1,1,1,1,1,1]) { return }", "at most 8 axes"},
      {"kernel @k(%x: f32[4]@r(9)l(1)w()) { return }", "error: not a layout of this tile"},
      {"kernel @k() stage(done) { return }", "1:19: error: unknown stage 'done'"},
      {"kernel @k() num_warps(-1) { return }", "1:23: error: '-1' is no number that is possible here"},
      {"kernel @k() {\n  print {message = \"abc\n}", "error: expected '\"' at the end of the string"},
      {"kernel @k() {\n  print {message = \"\\q\"}\n}", "error: expected an escape"},
      {"kernel @k() {\n  return\n", "3:1: error: expected '}'"},
      {"kernel @k() { return } more", "1:24: error: expected the end of the text"},
      {"kernel @k(%c: i1) {\n  if %c { yield }\n}", "expected 'else'"},
      {"kernel @k() {\n  \x02\n}", "2:3: error: a byte that no text holds here: 0x02"},
      {"kernel @k(%x: ****************f32*f32) { return }", "error: expected"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    desk *k = desk_new();
    tir_fn *fn = read_bytes(k, cases[i].text, strlen(cases[i].text));
    const char *said = messages(k);
    cr_assert(fn == NULL && k->sink.n_errors == 1 && strstr(said, cases[i].message), "case %zu: no '%s' in\n%s", i,
              cases[i].message, said);
    arena_free(k->a);
  }
}

Test(text, every_prefix_and_every_changed_byte_is_survived) {
  size_t len = strlen(everything);
  static const char instead[] = {'\0', '%', '{', '}', '\n', '9', (char)0xff};
  desk *k = desk_new();
  for (size_t i = 0; i + 1 < len; i++) {
    if (i % 64 == 0) {
      arena_free(k->a);
      k = desk_new();
    }
    cr_assert_null(read_bytes(k, everything, i), "a prefix of %zu bytes was accepted", i);
    for (size_t c = i % 2; c < sizeof instead; c += 2) {
      char *copy = arena_copy(k->a, everything, len);
      copy[i] = instead[c];
      k->sink.n_errors = 0;
      tir_fn *fn = read_bytes(k, copy, len);
      cr_assert(fn || k->sink.n_errors == 1);
      if (fn) tir_verify(fn);
    }
  }
  arena_free(k->a);
}

Test(text, deep_nesting_is_an_error) {
  desk *k = desk_new();
  textbuf b;
  text_init(&b, k->a);
  text_str(&b, "kernel @k(%c: i1) {\n");
  for (int i = 0; i < 100000; i++) text_str(&b, "if %c {\n");
  cr_assert_null(read_bytes(k, b.at, b.n));
  cr_assert(strstr(messages(k), "nested more than 256 deep"), "%s", messages(k));
  arena_free(k->a);
}

/* ---- the verifier ------------------------------------------------------------------------------------------------ */

#define PLAIN "kernel @k(%x: *f32, %cx: *const f32, %n: i32, %c: i1, %f: f32) {\n"
#define LAID "kernel @k(%x: *f32, %cx: *const f32, %n: i32, %c: i1, %f: f32) num_warps(1) stage(laid_out) {\n"
#define PLACED "kernel @k(%x: *f32, %n: i32) num_warps(2) stage(placed) shared(512) {\n"
#define SPLAT "%t = const {value = 0.0} : f32[8,8]@r(1)l(2..32)w()\n"
#define RINGS                                                                                        \
  "kernel @k(%x: *f32, %h: *f16, %n: i64, %i: i32) num_warps(1) stage(staged) producer_warps(4) {\n" \
  "%r = alloc {ring = 1} : shared(2) f32[8,8]" TMA "\n %b = alloc : shared(2) f32[8,8]" TMA          \
  "\n %m = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n"
#define GANG(common)                                                                                          \
  "kernel @k(%x: *f32, %n: i64, %i: i32) num_warps(1) stage(staged) producer_warps(4) gang(2) {\n"            \
  "%r = alloc {ring = 1" common "} : shared(2) f32[8,8]" TMA                                                  \
  "\n %m = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n %f = program_id {axis = 0} : i32\n" \
  "%w = while %f : i32 (%p: i32) {\n %g = ge %p, %i : i1\n condition %g, %p\n } else (%q: i32) {\n"
#define TILED " : shared f32[8,8]" TMA "\n"
#define NEXT "%t = next_program : i32\n yield %t\n }\n return }"
#define TMA "@s(1..16,36)tma(32,1)align(256)"
#define TILE " : shared f32[8,8]" TMA "\n return }"
#define L64 "@r(1)l(2..32)w()"
#define L64B "@r(32)l(1..16)w()"

static const struct {
  const char *line, *complaint; /* of the line that the complaint stands under; NULL: none */
  const char *text;
} verdicts[] = {
    {NULL, NULL, PLAIN "return }"},
    {"kernel", "region 0 of the kernel must end in return", PLAIN "}"},
    {"neg", "region 0 of the kernel must end in return", PLAIN "%a = neg %n : i32 }"},
    {"return", "terminator stands before the end", PLAIN "return\n %a = neg %n : i32\n return }"},
    {"neg %a", "defined in a region that has ended",
     PLAIN "if %c { %a = neg %n : i32\n yield } else { yield }\n %b = neg %a : i32\n return }"},
    {"add", "operands differ in type: i32 and f32", PLAIN "%a = add %n, %f : i32\n return }"},
    {"add", "the result is i32, not i64", PLAIN "%a = add %n, %n : i64\n return }"},
    {"add", "add takes numbers, not *f32", PLAIN "%a = add %x, %x : *f32\n return }"},
    {"and", "and takes integers, not f32", PLAIN "%a = and %f, %f : f32\n return }"},
    {"exp", "exp takes f32 or f64, not i32", PLAIN "%a = exp %n : i32\n return }"},
    {"lt", "the result is i1, not i32", PLAIN "%a = lt %n, %n : i32\n return }"},
    {"select", "the condition must be i1, not i32", PLAIN "%a = select %n, %f, %f : f32\n return }"},
    {"addptr", "the offset must be an integer, not f32", PLAIN "%a = addptr %x, %f : *f32\n return }"},
    {"addptr", "operand 0 must be a pointer, not i32", PLAIN "%a = addptr %n, %n : i32\n return }"},
    {"load", "operand 1 must be i1, not i32", PLAIN "%a = load %x, %n : f32\n return }"},
    {"load", "the result is f32, not i32", PLAIN "%a = load %x : i32\n return }"},
    {"load", "0 operands, not 1 to 3", PLAIN "%a = load : i32\n return }"},
    {"store", "writes through a pointer to const", PLAIN "store %cx, %f\n return }"},
    {"store", "operand 1 must be f32, not i32", PLAIN "store %x, %n\n return }"},
    {"atomic", "no atomic add of f32", PLAIN "%a = atomic_rmw %x, %f {kind = \"add\"} : f32\n return }"},
    {"atomic", "kind is \"plus\", not one of: add", PLAIN "%a = atomic_rmw %x, %f {kind = \"plus\"} : f32\n return }"},
    {"const", "attribute 'value' is missing", PLAIN "%a = const : i32\n return }"},
    {"neg", "neg has no attribute 'axis'", PLAIN "%a = neg %n {axis = 0} : i32\n return }"},
    {"program_id", "axis is 3, outside 0 .. 2", PLAIN "%a = program_id {axis = 3} : i32\n return }"},
    {"arange", "not a tile of i32 with one axis", PLAIN "%a = arange {start = 0} : i64[4]\n return }"},
    {"arange", "the last element does not fit i32", PLAIN "%a = arange {start = 2147483646} : i32[4]\n return }"},
    {"splat", "i32 cannot become f32[4]", PLAIN "%a = splat %n : f32[4]\n return }"},
    {"expand_dims", "axis 2 of a tile of rank 2",
     PLAIN "%a = splat %n : i32[4]\n %b = expand_dims %a {axis = 2} : i32[4,1]\n return }"},
    {"expand_dims", "result 0 is i32[4,1], not i32[1,4]",
     PLAIN "%a = splat %n : i32[4]\n %b = expand_dims %a {axis = 0} : i32[4,1]\n return }"},
    {"broadcast", "i32[2,4] cannot become i32[4,4]",
     PLAIN "%a = splat %n : i32[2,4]\n %b = broadcast %a : i32[4,4]\n return }"},
    {"reshape", "i32[2,4] cannot become i32[4]",
     PLAIN "%a = splat %n : i32[2,4]\n %b = reshape %a : i32[4]\n return }"},
    {"trans", "no permutation", PLAIN "%a = splat %n : i32[2,4]\n %b = trans %a {perm = [0, 0]} : i32[4,2]\n return }"},
    {"split", "must have extent 2", PLAIN "%a = splat %n : i32[2,4]\n %b, %d = split %a : i32[2], i32[2]\n return }"},
    {"join", "result 0 is i32[4], not i32[4,2]", PLAIN "%a = splat %n : i32[4]\n %b = join %a, %a : i32[4]\n return }"},
    {"unsplat", "takes a tile of one element", PLAIN "%a = splat %n : i32[4]\n %b = unsplat %a : i32\n return }"},
    {"bitcast", "differ in width", PLAIN "%a = bitcast %n : i64\n return }"},
    {"cast", "no conversion from *f32 to i32", PLAIN "%a = cast %x : i32\n return }"},
    {"cast", "rounding is for conversions to a narrower float",
     PLAIN "%a = cast %n {rounding = \"rtz\"} : f32\n return }"},
    {"dot", "shapes do not fit", PLAIN "%a = splat %f : f32[2,4]\n %b = dot %a, %a, %a : f32[2,4]\n return }"},
    {"dot", "no dot of f32 and f32 into f64",
     PLAIN
     "%a = splat %f : f32[4,4]\n %z = const {value = 0.0} : f64[4,4]\n %b = dot %a, %a, %z : f64[4,4]\n return }"},
    {"reduce", "axis 1 of f32[4]",
     PLAIN "%a = splat %f : f32[4]\n %b = reduce %a {axis = 1} : f32 (%p: f32, %q: f32) { yield %p }\n return }"},
    {"yield", "value 0 is i1, not f32",
     PLAIN "%a = splat %f : f32[4]\n %b = reduce %a {axis = 0} : f32 (%p: f32, %q: f32) { %l = lt %p, %q : i1\n yield "
           "%l }\n return }"},
    {"reduce", "more than compute with scalars",
     PLAIN "%a = splat %f : f32[4]\n %b = reduce %a {axis = 0} : f32 (%p: f32, %q: f32) { store %x, %p\n yield %p }\n "
           "return }"},
    {"for", "the index is f32, not an integer", PLAIN "for %f, %f, %f (%i: f32) { yield }\n return }"},
    {"for", "initial value 0 is i32, not f32",
     PLAIN "%a = for %n, %n, %n, %n : f32 (%i: i32, %p: f32) { yield %p }\n return }"},
    {"for", "carries 1 initial values, 0 arguments",
     PLAIN "%a = for %n, %n, %n, %n : i32 (%i: i32) { yield %n }\n return }"},
    {"yield", "yield hands on 0 values, for has 1 results",
     PLAIN "%a = for %n, %n, %n, %n : i32 (%i: i32, %p: i32) { yield }\n return }"},
    {"if", "the condition is i32, not i1", PLAIN "if %n { yield } else { yield }\n return }"},
    {"yield", "region 0 of while must end in condition", PLAIN "while { yield } else { yield }\n return }"},
    {"condition", "operand 0 must be i1", PLAIN "while { condition %n } else { yield }\n return }"},
    {"hint", "2 values for rank 0", PLAIN "%a = hint %n {kind = \"multiple_of\", values = [1, 2]} : i32\n return }"},
    {"assert", "the condition is i32, not i1", PLAIN "assert %n {message = \"\"}\n return }"},
    {"const", "has a layout, but no pass has given any yet",
     PLAIN "%a = const {value = 0.0} : f32[64]" L64 "\n return }"},
    {"barrier", "barriers come when layouts have been assigned", PLAIN "barrier\n return }"},
    {"kernel", "num_warps is 3: it must be a power of two", "kernel @k() num_warps(3) { return }"},
    {"kernel", "parameter 'x' is a tile", "kernel @k(%x: f32[4]) { return }"},

    {NULL, NULL,
     LAID "%a = splat %f : f32[64]" L64 "\n %b = add %a, %a : f32[64]" L64 "\n %d = convert_layout %b : f32[64]" L64B
          "\n return }"},
    {"splat", "f32[64] has no layout", LAID "%a = splat %f : f32[64]\n return }"},
    {"add", "operands differ in type",
     LAID "%a = splat %f : f32[64]" L64 "\n %d = splat %f : f32[64]" L64B "\n %b = add %a, %d : f32[64]" L64
          "\n return }"},
    {"splat", "is for 32 lanes and 2 warps", LAID "%a = splat %f : f32[64]@r()l(1..16)w(32)\n return }"},
    {"reshape", "moves data between threads",
     LAID "%a = splat %f : f32[64]" L64 "\n %b = reshape %a : f32[8,8]" L64B "\n return }"},
    {NULL, NULL,
     LAID "%a = splat %f : f32[64]" L64 "\n %b = reshape %a : f32[8,8]" L64
          "\n %t = trans %b {perm = [1, 0]} : f32[8,8]@r(8)l(16,32,1,2,4)w()\n return }"},
    {"trans", "moves data between threads",
     LAID "%b = splat %f : f32[8,8]" L64 "\n %t = trans %b {perm = [1, 0]} : f32[8,8]" L64 "\n return }"},
    {"reduce", "the layout of result 0 is not that of the reduced operand",
     LAID "%b = splat %f : f32[8,8]" L64
          "\n %r = reduce %b {axis = 1} : f32[8]@r()l(1,2,4,0,0)w() (%p: f32, %q: f32) { yield %p }\n return }"},
    {"convert_layout", "changes more than the layout",
     LAID "%a = splat %f : f32[64]" L64 "\n %d = convert_layout %a : f32[8,8]" L64 "\n return }"},

    {NULL, NULL,
     PLACED "barrier\n %a = splat %n : i32[64]@r()l(1..16)w(32)\n %b = convert_layout %a {scratch = 0} : "
            "i32[64]@r()l(2..32)w(1)\n return }"},
    {"convert_layout", "needs 256 bytes of shared memory but has no place",
     PLACED "%a = splat %n : i32[64]@r()l(1..16)w(32)\n %b = convert_layout %a : i32[64]@r()l(2..32)w(1)\n return }"},
    {NULL, NULL, RINGS "%a = tma_load %m, %r, %i, %i : shared f32[8,8]" TMA "\n tma_release %r\n return }"},
    {"kernel", "parameter 'x' is no integer, but positive", "kernel @k(%x: *f32 {positive}) { return }"},
    {"kernel", "producer_warps is 3, not 0 or 4", "kernel @k() producer_warps(3) { return }"},
    {"kernel", "gang is 4, not 1 to 3", "kernel @k() gang(4) { return }"},
    {"kernel", "a gang of 36 warps", "kernel @k() num_warps(16) producer_warps(4) gang(2) { return }"},
    {"kernel", "a gang shares more than there is", "kernel @k() shared(8) gang_shared(9) { return }"},
    {"kernel", "a gang without producers or a loop over programs", "kernel @k() gang(2) { return }"},
    {NULL, NULL, GANG("") "%a = tma_load %m, %r, %i, %i" TILED "tma_release %r\n" NEXT},
    {NULL, NULL,
     GANG(", common = 1") "%s = const {value = 2} : i32\n for %i, %i, %s (%c: i32) {\n %a = tma_load %m, %r, %c, "
                          "%i" TILED "tma_release %r\n yield }\n" NEXT},
    {"tma_load", "is for a gang, but in no loop of a program that counts up",
     GANG(", common = 1") "for %i, %i, %i (%c: i32) {\n %a = tma_load %m, %r, %c, %i" TILED
                          "tma_release %r\n yield }\n" NEXT},
    {"tma_load", "is one program's of a gang, but in a loop of it",
     GANG("") "%s = const {value = 2} : i32\n for %i, %i, %s (%c: i32) {\n %a = tma_load %m, %r, %c, %i" TILED
              "tma_release %r\n yield }\n" NEXT},
    {"tensor_map", "comes when layouts have been assigned",
     "kernel @k(%x: *f32, %n: i64) { %m = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n return }"},
    {"tensor_map", "3 operands do not go with a box of 2 axes",
     RINGS "%a = tensor_map %x, %n, %n {swizzle = 32, box = [8, 8]} : u64\n return }"},
    {"tensor_map", "12 operands do not go with a box of 6 axes",
     RINGS "%a = tensor_map %x, %n, %n, %n, %n, %n, %n, %n, %n, %n, %n, %n {swizzle = 32, box = [8, 8, 1, 1, 1, 1]} : "
           "u64\n return }"},
    {"tensor_map", "operand 0 is no pointer that the kernel was given",
     RINGS "%p = addptr %x, %n : *f32\n %a = tensor_map %p, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n return }"},
    {"tensor_map", "operand 2 is not an i64",
     RINGS "%a = tensor_map %x, %n, %i, %n {swizzle = 32, box = [8, 8]} : u64\n return }"},
    {"tensor_map", "the result is u64",
     RINGS "%a = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 8]} : i64\n return }"},
    {"tensor_map", "attribute 'swizzle' is missing",
     RINGS "%a = tensor_map %x, %n, %n, %n {box = [8, 8]} : u64\n return }"},
    {"tensor_map", "box[1] is 512, outside 1 .. 256",
     RINGS "%a = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 512]} : u64\n return }"},
    {"tensor_map", "rounding is \"rtz\", not one of: tf32",
     RINGS "%a = tensor_map %x, %n, %n, %n {rounding = \"rtz\", swizzle = 32, box = [8, 8]} : u64\n return }"},
    {"tma_load", "copy 0 lacks a tensor_map or a ring", RINGS "%u = cast %n : u64\n %a = tma_load %u, %r, %i, %i" TILE},
    {"tma_load", "copy 0 lacks a tensor_map or a ring", RINGS "%a = tma_load %m, %b, %i, %i" TILE},
    {"tma_load", "copy 1 lacks a tensor_map or a ring",
     RINGS "%a, %c = tma_load %m, %r, %m, %i : shared f32[8,8]" TMA ", shared f32[8,8]" TMA "\n return }"},
    {"tma_load", "result 0 is one stage of shared(2) f32[8,8]",
     RINGS "%a = tma_load %m, %r, %i, %i : shared f32[8,8]@s(1..32)row(0,1)align(16)\n return }"},
    {"tma_load", "a map of *f16 does not fill shared(2) f32[8,8]",
     RINGS "%u = tensor_map %h, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n %a = tma_load %u, %r, %i, %i" TILE},
    {"tma_load", "a map of *f32 does not fill shared(2) f32[8,8]",
     RINGS "%u = tensor_map %x, %n, %n, %n {swizzle = 64, box = [8, 8]} : u64\n %a = tma_load %u, %r, %i, %i" TILE},
    {"tma_load", "boxes of map 0 do not make up shared(2) f32[8,8]",
     RINGS "%u = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 16]} : u64\n %a = tma_load %u, %r, %i, %i" TILE},
    {"tma_load", "3 operands, not 4", RINGS "%a = tma_load %m, %r, %i" TILE},
    {"tma_load", "coordinate 3 is not an i32", RINGS "%a = tma_load %m, %r, %i, %n" TILE},
    {"tma_release", "releases a stage of a ring", RINGS "tma_release %b\n return }"},
    {NULL, NULL, RINGS SPLAT "tma_store %m, %t, %i, %i {axis = 1}\n return }"},
    {"tma_store", "takes a tensor_map and a tile of two axes",
     RINGS SPLAT "tma_store %n, %t, %i, %i {axis = 1}\n return }"},
    {"tma_store", "takes a tensor_map and a tile of two axes",
     RINGS SPLAT "%u = tensor_map %h, %n, %n, %n {swizzle = 32, box = [8, 8]} : u64\n"
                 "tma_store %u, %t, %i, %i {axis = 1}\n return }"},
    {"tma_store", "3 operands, not 4", RINGS SPLAT "tma_store %m, %t, %i {axis = 1}\n return }"},
    {"tma_store", "coordinate 1 is not an i32", RINGS SPLAT "tma_store %m, %t, %i, %n {axis = 1}\n return }"},
    {"tma_store", "attribute 'axis' is missing", RINGS SPLAT "tma_store %m, %t, %i, %i\n return }"},
    {"tma_store", "the map's box is not that of the panels: 8 x 8",
     RINGS SPLAT "%u = tensor_map %x, %n, %n, %n {swizzle = 32, box = [8, 16]} : u64\n"
                 "tma_store %u, %t, %i, %i {axis = 1}\n return }"},
    {"tma_store", "is not stored in panels along axis 1",
     RINGS "%z = const {value = 0.0} : f32[8,4]@r()l(1..16)w()\n tma_store %m, %z, %i, %i {axis = 1}\n return }"},
    {"tma_release", "releases a stage of a ring",
     RINGS "%a = tma_load %m, %r, %i, %i : shared f32[8,8]" TMA "\n tma_release %a\n return }"},
    {"convert_layout", "scratch of 256 bytes at byte 384 of 512",
     PLACED "%a = splat %n : i32[64]@r()l(1..16)w(32)\n %b = convert_layout %a {scratch = 384} : "
            "i32[64]@r()l(2..32)w(1)\n return }"},
};

Test(verify, each_mistake_is_told_under_its_line) {
  for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
    desk *k = desk_new();
    const char *said = tir_verify(read_good(k, verdicts[i].text));
    if (!verdicts[i].complaint) {
      cr_assert(said == NULL, "case %zu: %s", i, said);
    } else {
      cr_assert(said != NULL, "case %zu: no complaint\n%s", i, verdicts[i].text);
      const char *at = strstr(said, "// error: ");
      cr_assert(at && strstr(at, verdicts[i].complaint), "case %zu: no '%s' in\n%s", i, verdicts[i].complaint, said);
      const char *line = at - 1;
      while (line > said && line[-1] != '\n') line--;
      const char *found = strstr(line, verdicts[i].line);
      cr_assert(found && found < at, "case %zu: not under '%s'\n%s", i, verdicts[i].line, said);
    }
    arena_free(k->a);
  }
}

static const char small[] =
    "kernel @k(%n: i32, %c: i1) {\n  %a = neg %n : i32\n  %b = add %a, %n : i32\n"
    "  %r = if %c : i32 { %t = mul %a, %b : i32\n yield %t } else { yield %a }\n  %s = add %r, %a : i32\n  return\n}\n";

static tir_op *nth(tir_fn *fn, int n) {
  tir_op *op = tir_first(fn);
  while (n-- > 0) op = tir_next(op);
  return op;
}

/* What no text can say: links that do not fit. */
Test(verify, damaged_links_are_found) {
  for (int i = 0; i < 8; i++) {
    desk *k = desk_new();
    tir_fn *fn = read_good(k, small);
    cr_assert_null(tir_verify(fn));
    tir_op *neg = nth(fn, 0), *add = nth(fn, 1);
    switch (i) {
      case 0: add->prev = NULL; break;
      case 1: neg->out[0]->uses = neg->out[0]->uses->next; break;
      case 2: add->in[0].value = fn->params[0].value; break;
      case 3: neg->out[0]->def = add; break;
      case 4: add->parent = NULL; break;
      case 5: add->out[0]->id = neg->out[0]->id; break;
      case 6: fn->body->last = neg; break;
      default: add->in[1].value = NULL;
    }
    const char *said = tir_verify(fn);
    cr_assert(said && strstr(said, "// error: "), "case %d", i);
    arena_free(k->a);
  }
}

/* ---- building and changing --------------------------------------------------------------------------------------- */

static void expect_text(desk *k, tir_fn *fn, const char *want) {
  const char *complaint = tir_verify(fn);
  cr_assert(complaint == NULL, "%s", complaint);
  cr_assert_str_eq(print(k, fn), want);
}

Test(build, types_are_one_pointer_each) {
  desk *k = desk_new();
  const tir_type *f32 = tir_scalar_type(k->cx, DT_f32);
  int64_t shape[2] = {4, 8};
  for (int i = 0; i < 500; i++) {
    int64_t other[2] = {INT64_C(1) << i % 8, INT64_C(1) << i / 8 % 8};
    cr_assert_eq(tir_tile_type(k->cx, f32, 2, other, NULL), tir_tile_type(k->cx, f32, 2, other, NULL));
  }
  const tir_type *t = tir_tile_type(k->cx, f32, 2, shape, NULL), *p = tir_ptr_type(k->cx, f32, false);
  cr_assert(t == tir_tile_type(k->cx, f32, 2, shape, NULL) && p != tir_ptr_type(k->cx, f32, true));
  cr_assert(tir_with_elem(k->cx, t, p)->elem == p && tir_with_elem(k->cx, f32, p) == p);
  cr_assert_eq(t->numel, 32);
  cr_assert_str_eq(tir_type_text(k->a, tir_with_elem(k->cx, t, tir_ptr_type(k->cx, p, true))), "*const *f32[4,8]");
  const lay_t *l = lay_default(k->cx->layouts, lay_shape_make(2, shape), 1);
  cr_assert(tir_with_layout(k->cx, t, l) != t && tir_with_layout(k->cx, tir_with_layout(k->cx, t, l), NULL) == t);
  arena_free(k->a);
}

Test(build, shapes_that_no_tile_has_are_explained) {
  desk *k = desk_new();
  cr_assert_null(tir_shape_problem(k->cx, 2, (int64_t[]){1, 1 << 20}));
  cr_assert(strstr(tir_shape_problem(k->cx, 1, (int64_t[]){1000}), "the next one is 1024"));
  cr_assert(strstr(tir_shape_problem(k->cx, 2, (int64_t[]){1 << 11, 1 << 10}), "more than 1048576 elements"));
  cr_assert(strstr(tir_shape_problem(k->cx, 1, (int64_t[]){INT64_MAX}), "no power of two"));
  cr_assert(tir_shape_problem(k->cx, 0, NULL) && tir_shape_problem(k->cx, 1, (int64_t[]){-4}));
  arena_free(k->a);
}

Test(build, shape_ops_carry_layouts) {
  desk *k = desk_new();
  tir_fn *fn = tir_fn_new(k->cx, k->a, "k", (span){0, 0});
  fn->stage = STAGE_LAID_OUT;
  fn->num_warps = 2;
  tir_builder b = tir_at_end(fn, fn->body);
  int64_t n = 64, wide[2] = {64, 4}, flat = 256;
  const tir_type *t = tir_tile_type(k->cx, tir_scalar_type(k->cx, DT_i32), 1, &n,
                                    lay_default(k->cx->layouts, lay_shape_make(1, &n), 2));
  tir_value *x = tir_const_int(&b, t, 3), *e = tir_expand_dims(&b, x, 1), *w = tir_broadcast(&b, e, 2, wide);
  tir_value *r = tir_reshape(&b, w, 1, &flat), *j = tir_build1(&b, OP_join, 2, (tir_value *[]){r, r}, NULL);
  tir_op *s = tir_build(&b, OP_split, 1, &j, 2, NULL);
  tir_value *q = tir_trans(&b, w, (int64_t[]){1, 0});
  tir_build(&b, OP_return, 0, NULL, 0, NULL);
  const char *complaint = tir_verify(fn);
  cr_assert(complaint == NULL, "%s", complaint);
  cr_assert(tir_out(s, 1)->type == r->type && q->type->shape[0] == 4 && q->type->layout);
  int64_t v;
  cr_assert(tir_known_int(w, &v) && v == 3 && !tir_known_int(j, &v));
  arena_free(k->a);
}

Test(build, changes_keep_the_function_sound) {
  desk *k = desk_new();
  tir_fn *fn = read_good(k, small);
  tir_op *neg = nth(fn, 0), *add = nth(fn, 1), *branch = nth(fn, 2), *last = nth(fn, 6);
  cr_assert(last->code == OP_add && !tir_is_pure(nth(fn, 4)) && tir_is_pure(branch));
  cr_assert(tir_region_contains(fn->body, branch->regions[0]) && !tir_region_contains(branch->regions[0], fn->body));
  tir_replace_uses(tir_out(neg, 0), fn->params[0].value);
  cr_assert(!tir_has_uses(tir_out(neg, 0)));
  tir_remove(neg);
  expect_text(k, fn,
              "kernel @k(%n: i32, %c: i1) num_warps(4) num_stages(3) stage(plain) {\n  %b.2 = add %n, %n : i32\n"
              "  %r.3 = if %c : i32 {\n    %t.4 = mul %n, %b.2 : i32\n    yield %t.4\n  } else {\n    yield %n\n  }\n"
              "  %s.5 = add %r.3, %n : i32\n  return\n}\n");
  /* A copy of the branch uses the copied sum where the map says so. */
  tir_map map = {0};
  tir_builder b = tir_before(fn, last);
  tir_op *sum = tir_clone(&b, add, &map), *copy = tir_clone(&b, branch, &map);
  cr_assert(tir_map_get(&map, tir_out(branch, 0)) == tir_out(copy, 0) &&
            tir_in(copy->regions[0]->first, 1) == tir_out(sum, 0));
  tir_set_in(last, 1, tir_out(copy, 0));
  tir_move_before(sum, branch);
  expect_text(k, fn,
              "kernel @k(%n: i32, %c: i1) num_warps(4) num_stages(3) stage(plain) {\n  %b.2 = add %n, %n : i32\n"
              "  %b.3 = add %n, %n : i32\n"
              "  %r.4 = if %c : i32 {\n    %t.5 = mul %n, %b.2 : i32\n    yield %t.5\n  } else {\n    yield %n\n  }\n"
              "  %r.6 = if %c : i32 {\n    %t.7 = mul %n, %b.3 : i32\n    yield %t.7\n  } else {\n    yield %n\n  }\n"
              "  %s.8 = add %r.4, %r.6 : i32\n  return\n}\n");
  /* One more carried value, and then one less. */
  tir_append_out(copy, fn->params[0].value->type);
  for (int i = 0; i < 2; i++) tir_append_in(copy->regions[i]->last, fn->params[0].value);
  cr_assert_null(tir_verify(fn));
  tir_set_in(last, 1, tir_out(copy, 1));
  tir_drop_out(copy, 0);
  for (int i = 0; i < 2; i++) tir_drop_in(copy->regions[i]->last, 0);
  cr_assert_null(tir_verify(fn));
  cr_assert(tir_out(copy, 0)->index == 0 && copy->n_out == 1);
  tir_renumber(fn);
  cr_assert_null(tir_verify(fn));
  arena_free(k->a);
}

Test(build, attributes_stay_sorted) {
  desk *k = desk_new();
  tir_fn *fn = tir_fn_new(k->cx, k->a, "k", (span){0, 0});
  tir_builder b = tir_at_end(fn, fn->body);
  tir_op *op = tir_build(&b, OP_print, 0, NULL, 0, NULL);
  tir_set_int(op, ATTR_hex, 0);
  tir_set_str(op, ATTR_message, "m");
  tir_set_int(op, ATTR_hex, 1);
  tir_build(&b, OP_return, 0, NULL, 0, NULL);
  expect_text(
      k, fn,
      "kernel @k() num_warps(4) num_stages(3) stage(plain) {\n  print {message = \"m\", hex = 1}\n  return\n}\n");
  cr_assert(tir_attr_int(op, ATTR_hex, 7) == 1 && tir_attr_int(op, ATTR_axis, 7) == 7);
  cr_assert_str_eq(tir_attr_str(op, ATTR_message, ""), "m");
  arena_free(k->a);
}

static void build_wrongly(desk *k, int i) {
  tir_fn *fn = tir_fn_new(k->cx, k->a, "k", (span){0, 0});
  tir_builder b = tir_at_end(fn, fn->body);
  tir_value *n = tir_fn_add_param(fn, "n", tir_scalar_type(k->cx, DT_i32), 1, (span){0, 0});
  tir_value *f = tir_fn_add_param(fn, "f", tir_scalar_type(k->cx, DT_f32), 1, (span){0, 0});
  switch (i) {
    case 0: tir_binary(&b, OP_add, n, f); break;
    case 1: tir_unary(&b, OP_exp, n); break;
    case 2: tir_build(&b, OP_add, 1, &n, 1, NULL); break;
    case 3: tir_build1(&b, OP_add, 2, (tir_value *[]){n, n}, f->type); break;
    default: tir_build1(&b, OP_reshape, 1, &n, NULL);
  }
}

static bool panics(desk *k, int i, base_guard *g) {
  volatile bool panicked = true;
  base_guard_push(g);
  if (setjmp(g->jump) == 0) {
    build_wrongly(k, i);
    panicked = false;
  }
  base_guard_pop(g);
  return panicked;
}

Test(build, mistakes_of_the_builder_panic) {
  for (int i = 0; i < 5; i++) {
    desk *k = desk_new();
    base_guard g;
    cr_assert(panics(k, i, &g) && strncmp(g.message, "building ", 9) == 0, "case %d: %s", i, g.message);
    arena_free(k->a);
  }
}
