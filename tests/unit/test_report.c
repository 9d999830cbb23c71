/* --resource-usage: what is said of accesses, shared memory and occupancy, and that nothing is said where nothing is in
 * the way. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "compiler/tkc.h"

typedef struct told {
  tkc_session *s;
  const char *text;
} told;

static told report(const char *kernel, const char *arch, const char *log) {
  told t = {.s = tkc_open()};
  tkc_options opt = {.arch = arch, .resource_usage = true};
  tkc_output out;
  tkc_status st = tkc_load_text(t.s, "k.tk", kernel, strlen(kernel));
  if (st == TKC_OK) st = tkc_compile(t.s, &opt, &out);
  cr_assert(st == TKC_OK, "%s", tkc_diagnostics(t.s, TKC_DIAG_LINE, false));
  t.text = tkc_report(t.s, log);
  return t;
}

static void says(const char *name, const char *text, const char *part, bool wanted) {
  cr_assert((strstr(text, part) != NULL) == wanted, "%s: '%s' is %s in\n%s", name, part, wanted ? "missing" : "there",
            text);
}

/* A load of 8 halves per thread, and what stands between it and 16 bytes. */
typedef struct narrow {
  const char *name, *params, *body, *part; /* part NULL: 16 bytes, nothing to explain */
} narrow;

static const narrow cases[] = {
    {"aligned", "x: *f16:16, s: i32", "p = x + i", NULL},
    {"unaligned pointer", "x: *f16, s: i32", "p = x + i", "(x is not known to be aligned to 16 bytes)"},
    {"aligned to 8", "x: *f16:8, s: i32", "p = x + i", "the alignment is 8 bytes"},
    {"unaligned offset", "x: *f16:16, s: i32", "p = x + s + i",
     "the alignment is 2 bytes (s is not known to be a multiple of 8)"},
    {"aligned offset", "x: *f16:16, s: i32:8", "p = x + s + i", NULL},
    {"scaled program", "x: *f16:16, s: i32", "p = x + program_id(0) * s + i", "(s is not known to be a multiple of 8)"},
    {"scaled by a number", "x: *f16:16, s: i32", "p = x + s * 8 + i", NULL},
    {"scaled by half the number", "x: *f16:16, s: i32", "p = x + s * 4 + i", "(s is not known to be a multiple of 2)"},
    {"stride", "x: *f16:16, s: i32", "p = x + i * s", "the contiguous run is 1 element (s is not known to be 1)"},
    {"step of 2", "x: *f16:16, s: i32", "p = x + i * 2", "(neighbours are 2 elements apart)"},
    {"wrapped", "x: *f16:16, s: i32", "p = x + i % s", "(s is not known to be a multiple of 8)"},
    {"wrapped at a multiple", "x: *f16:16, s: i32:8", "p = x + i % s", NULL},
    {"wrapped from below", "x: *f16:16, s: i32:16", "p = x + (s + i) % 512",
     "(what is divided may be negative: tl.assume"},
    {"reversed", "x: *f16:16, s: i32", "p = x + (1023 - i)", "the offsets do not grow by one"},
    {"gathered", "x: *f16:16, s: *i32:16", "p = x + load(s + i)", "(an offset is loaded from memory)"},
    {"squared", "x: *f16:16, s: i32", "p = x + i * i", "(the offsets are a product of two indices)"},
    {"smaller", "x: *f16:16, s: i32", "p = x + minimum(i, 100)", "(the offsets go through `min`)"},
    {"mask", "x: *f16:16, s: i32", "p = x + i; m = i < s",
     "the mask may change with every element (s is not known to be a multiple of 8)"},
    {"mask at a multiple", "x: *f16:16, s: i32:8", "p = x + i; m = i < s", NULL},
    {"mask of a descriptor", "x: *f16:16, s: tensordesc[f16[8]]", "p = x + i; m = i < s.shape[0]",
     "(s_shape_0 is not known to be a multiple of 8; of a descriptor's last extent :16 behind its type says so)"},
    {"mask of a told descriptor", "x: *f16:16, s: tensordesc[f16[8]]:16", "p = x + i; m = i < s.shape[0]", NULL},
    {"two masks", "x: *f16:16, s: i32:2", "p = x + i; m = (i < s) & (i >= 8)",
     "the mask may change every 2 elements (s is not known to be a multiple of 8)"},
    {"mask of every other", "x: *f16:16, s: i32", "p = x + i; m = i % 2 == 0", "(the mask goes through `eq`)"},
    {"carried pointer", "x: *f16:16, s: i32", "p = x + i\n    for j in range(0, 4):\n        p += s",
     "(s is not known to be a multiple of 8)"},
    {"carried by a multiple", "x: *f16:16, s: i32:8", "p = x + i\n    for j in range(0, 4):\n        p += s", NULL},
    {"hint", "x: *f16:16, s: i32", "p = x + multiple_of(s, 8) + i", NULL},
};

Test(report, says_what_keeps_a_load_narrow) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const narrow *c = &cases[k];
    char text[1024];
    snprintf(text, sizeof text,
             "@kernel(num_warps=4)\ndef k(%s, o: *f16:16):\n    i = arange(0, 1024)\n    m = i >= 0\n    %s\n"
             "    store(o + i, load(p, mask=m, other=0.0))\n",
             c->params, c->body);
    told t = report(text, "sm_80", NULL);
    const char *at = strstr(t.text, "load of f16[1024] from x\n");
    cr_assert(at != NULL, "%s:\n%s", c->name, t.text);
    const char *line = strchr(at, '\n') + 1;
    char own[1024];
    snprintf(own, sizeof own, "%.*s", (int)strcspn(line, "\n"), line);
    if (c->part) {
      says(c->name, own, c->part, true);
      says(c->name, own, "16 bytes per access", false);
    } else {
      cr_assert_str_eq(own, "    16 bytes per access", "%s", c->name);
    }
    tkc_close(t.s);
  }
}

/* A loop with two products, the first of which feeds the second, and what keeps it from overlapping with the next
   iteration. Words of the body that `with` replaces. */
typedef struct serial {
  const char *name, *word, *with, *why; /* why NULL: it overlaps */
} serial;

static const char chained[] =
    "@kernel(num_warps=8)\n"
    "def k(q: *f16:16, k: *f16:16, v: *f16:16, o: *f32:16, w: *i32:16, t: i32, by: i32):\n"
    "    r = arange(0, 64)\n"
    "    across = r[None, :]\n"
    "    own = arange(0, 128)[:, None] * 64 + across\n"
    "    x = load(q + own)\n"
    "    last = load(v + r[:, None] * 64 + across)\n"
    "    acc = zeros([128, 64], f32)\n"
    "    top = 0.0\n"
    "    for n in range(0, t, 64):\n"
    "        at = (n + r)[:, None] * 64 + across\n"
    "        m = (n + r)[:, None] < t\n"
    "        kt = load(k + at)\n"
    "        vt = load(v + at, mask=m, other=0.0)\n"
    "        s = dot(x, trans(kt))\n"
    "        acc = dot(s.to(f16), vt, acc * 0.5)\n"
    "    store(o + own, acc + top)\n";

static const serial serials[] = {
    {"as it is", "", "", NULL},
    {"downwards", "range(0, t, 64)", "range(t, 0, -64)", NULL},
    {"one stage", "num_warps=8", "num_warps=8, num_stages=1", "num_stages is 1"},
    {"unknown step", "range(0, t, 64)", "range(0, t, by)", "the step of the loop is not known"},
    {"store", "kt = ", "store(o + n, 1.0)\n        kt = ", "the loop has other effects (store)"},
    {"atomic", "kt = ", "atomic_add(o, 1.0)\n        kt = ", "the loop has other effects (atomic_rmw)"},
    {"print", "kt = ", "device_print(\"n\", n)\n        kt = ", "the loop has other effects (print)"},
    {"volatile", "load(k + at)", "load(k + at, volatile=True)", "the loop has other effects (volatile load)"},
    {"accumulator read", "kt = ", "top += sum(acc)\n        kt = ", "its accumulator has other uses in the loop"},
    {"no accumulator", "acc * 0.5", "zeros([128, 64], f32)", "it does not add to what the loop carries"},
    {"one tile for both", "load(v + at, mask=m, other=0.0)", "kt", "its second operand has other uses"},
    {"computed", "load(v + at, mask=m, other=0.0)", "load(v + at) + 1.0", "its second operand is computed, not loaded"},
    {"made before", "load(v + at, mask=m, other=0.0)", "last", "its second operand lives longer than the iteration"},
    {"other", "other=0.0", "other=1.0", "the `other` of its load is not zero"},
    {"gathered", "load(v + at,", "load(v + load(w + n) + at,", "its address depends on what the loop loads or decides"},
};

static void replaced(const char *body, const serial *c, char *out, size_t size) {
  const char *at = strstr(body, c->word);
  cr_assert_not_null(at, "%s", c->name);
  snprintf(out, size, "%.*s%s%s", (int)(at - body), body, c->with, at + strlen(c->word));
}

Test(report, says_what_keeps_products_from_overlapping) {
  for (size_t k = 0; k < sizeof serials / sizeof *serials; k++) {
    const serial *c = &serials[k];
    char text[2048];
    replaced(chained, c, text, sizeof text);
    told t = report(text, "sm_90a", NULL);
    says(c->name, t.text, "    overlapped with the next iteration\n", !c->why);
    says(c->name, t.text, "not overlapped with the next iteration: ", c->why);
    if (c->why) says(c->name, t.text, c->why, true);
    tkc_close(t.s);
  }
}

/* Two loops of such products, and what keeps the second from taking over the last product of the first. */
static const char in_turn[] =
    "@kernel(num_warps=8)\n"
    "def k(q: *f16:16, k: *f16:16, v: *f16:16, o: *f32:16, m: i32:16, t: i32:16):\n"
    "    r = arange(0, 64)\n"
    "    across = r[None, :]\n"
    "    own = arange(0, 128)[:, None] * 64 + across\n"
    "    x = load(q + own)\n"
    "    acc = zeros([128, 64], f32)\n"
    "    middle = t // 64 * 64\n"
    "    for n in range(0, middle, 64):\n"
    "        a = (n + r)[:, None] * 64 + across\n"
    "        s = dot(x, trans(load(k + a)))\n"
    "        acc = dot(s.to(f16), load(v + a), acc * 0.5)\n"
    "    for n in range(middle, t, 64):\n"
    "        b = (n + r)[:, None] * 64 + across\n"
    "        s = dot(x, trans(load(k + b)))\n"
    "        acc = dot(s.to(f16), load(v + b, mask=(n + r)[:, None] < t, other=0.0), acc * 0.5)\n"
    "    store(o + own, acc)\n";

static const char different_masks[] = "the loops load with different masks";
static const serial neighbours[] = {
    {"as it is", "", "", NULL},
    {"begins later", "range(middle, t", "range(middle + 64, t", "the loop behind it does not go on where it ends"},
    {"other step", "range(middle, t, 64", "range(middle, t, 32", "the loop behind it does not go on where it ends"},
    {"unknown end", "t // 64 * 64", "t", "its bounds are not known to be multiples of 64"},
    {"unknown begin", "range(0, middle", "range(m + 1, middle", "its bounds are not known to be multiples of 64"},
    {"store between", "    for n in range(middle", "    store(v, 1.0)\n    for n in range(middle",
     "other effects lie between the loops (store)"},
    {"other address", "load(v + b,", "load(v + b + 64,", "the loops load from different addresses"},
    {"other base", "load(v + b,", "load(k + b,", "the loops load from different addresses"},
    {"masked in the first", "load(v + a)", "load(v + a, mask=across < m, other=0.0)", different_masks},
    {"masked in both", "load(v + a)", "load(v + a, mask=(n + r)[:, None] < t, other=0.0)", NULL},
    {"end as bound", "< t, other", "< middle, other", NULL},
    {"end below two bounds", "t // 64 * 64", "minimum(m, t) // 64 * 64", NULL},
    {"end below another bound", "t // 64 * 64", "m // 64 * 64", different_masks},
    {"end not below the bound", "t // 64 * 64", "(t + 63) // 64 * 64", different_masks},
    {"negative begin", "range(0, middle", "range(m * 64, middle", different_masks},
    {"masked ahead", "(n + r)[:, None] < t", "(n + 1 + r)[:, None] < t", different_masks},
};

Test(report, says_what_keeps_loops_from_handing_products_on) {
  for (size_t k = 0; k < sizeof neighbours / sizeof *neighbours; k++) {
    const serial *c = &neighbours[k];
    char text[2048];
    replaced(in_turn, c, text, sizeof text);
    told t = report(text, "sm_90a", NULL);
    says(c->name, t.text, "    overlapped with the next loop\n", !c->why);
    says(c->name, t.text, "not overlapped with the next loop: ", c->why);
    if (c->why) says(c->name, t.text, c->why, true);
    tkc_close(t.s);
  }
}

static const char transposed[] =
    "@kernel(num_warps=4)\n"
    "def k(x: *f32:16, o: *f32:16):\n"
    "    r = arange(0, 64)\n"
    "    v = load(x + r[:, None] * 64 + r[None, :])\n"
    "    store(o + r[:, None] + r[None, :] * 64, v)\n";

Test(report, lists_shared_memory_and_what_limits_occupancy) {
  told t = report(transposed, "sm_90a", NULL);
  says("kernel", t.text, "kernel k for sm_90a: 4 warps", true);
  says("total", t.text, " of 232448 bytes\n", true);
  says("piece", t.text, "k.tk:4: conversion of f32[64,64]", true);
  says("registers", t.text, "registers: not known without ptxas", true);
  says("occupancy", t.text, "limited by shared memory (registers not counted)", true);
  tkc_close(t.s);
}

Test(report, reads_what_the_assembler_says_of_this_kernel) {
  static const char log[] =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k2' for 'sm_90a'\n"
      "ptxas info    : Function properties for k2\n"
      "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 128 registers, used 1 barriers\n";
  told t = report(transposed, "sm_90a", log);
  says("registers", t.text, "registers: 128 of 255, none spilled", true);
  says("occupancy", t.text, "4 blocks, 16 of 64 warps on a multiprocessor, limited by registers\n", true);
  tkc_close(t.s);
  char spilled[1024];
  snprintf(spilled, sizeof spilled, "%s", strstr(log, "ptxas info    : Compiling entry function 'k2'"));
  char *name = strstr(spilled, "'k'");
  memcpy(strstr(spilled, "'k2'"), "'k' ", 4);
  name[1] = 'x';
  t = report(transposed, "sm_90a", spilled);
  says("largest tile", t.text, "32  k.tk:4: f32[64,64]\n", true);
  says("spills", t.text, "255 of 255; warning: 12 bytes are spilled, 16 read back", true);
  tkc_close(t.s);
}

Test(report, says_nothing_unless_asked) {
  tkc_session *s = tkc_open();
  tkc_options opt = {.arch = "sm_80"};
  tkc_output out;
  cr_assert_eq(tkc_load_text(s, "k.tk", transposed, strlen(transposed)), TKC_OK);
  cr_assert_eq(tkc_compile(s, &opt, &out), TKC_OK);
  cr_assert_str_eq(tkc_report(s, NULL), "");
  tkc_close(s);
}

Test(report, an_unrolled_load_is_told_once) {
  told t = report(
      "@kernel\n"
      "def k(x: *f32:16, o: *f32:16):\n"
      "    i = arange(0, 128)\n"
      "    v = zeros([128], f32)\n"
      "    for j in static_range(3):\n"
      "        v += load(x + i + 128 * j)\n"
      "    store(o + i, v)\n",
      "sm_80", NULL);
  says("times", t.text, "k.tk:6: load of f32[128] from x, 3 times\n", true);
  tkc_close(t.s);
}

/* A kernel with one buffer, and what the error about its size advises. */
static void advises(const char *stages, const char *shape, const char *layout, const char *part) {
  char text[1024];
  snprintf(text, sizeof text,
           "kernel @k() num_warps(1) stage(staged) {\n"
           "  %%b = alloc : shared%s f32[%s]@s(%s)row(0,1)align(16)\n"
           "  return\n}\n",
           stages, shape, layout);
  tkc_session *s = tkc_open();
  tkc_options opt = {.arch = "sm_80"};
  tkc_output out;
  cr_assert_eq(tkc_load_text(s, "k.tir", text, strlen(text)), TKC_OK, "%s", tkc_diagnostics(s, TKC_DIAG_LINE, false));
  cr_assert_eq(tkc_compile(s, &opt, &out), TKC_ERRORS);
  const char *said = tkc_diagnostics(s, TKC_DIAG_LINE, false);
  says("size", said, "k.tir:2:3: error: k needs ", true);
  says("piece", said, "bytes: shared", true);
  says("advice", said, part, true);
  tkc_close(s);
}

Test(report, too_much_shared_memory_comes_with_what_would_fit) {
  advises("(3)", "128,128", "1..8192", "num_stages=2 would fit, with 131072 bytes");
  advises("(6)", "128,128", "1..8192", "num_stages=2 would fit, with 131072 bytes");
  advises("", "256,256", "1..32768", "blocks of 1/2 of the elements would fit, with about 131072 bytes");
  advises("(2)", "256,256", "1..32768",
          "blocks of 1/2 of the elements would fit with num_stages=1, with about 131072 bytes");
}

/* A product in a loop over K; what is known of the stride comes with the case. */
static const char product[] =
    "@kernel(num_warps=4, num_stages=3)\n"
    "def k(a: *f16:16, b: *f16:16, c: *f32:16, n: i32, s: i32%s):\n"
    "    i = arange(0, 64)\n"
    "    acc = zeros([64, 64], f32)\n"
    "    for j in range(0, n):\n"
    "        x = load(a + i[:, None] * s + i[None, :] + 64 * j)\n"
    "        y = load(b + i[:, None] * 64 + i[None, :] + 64 * 64 * j)\n"
    "        acc = dot(x, y, acc)\n"
    "    store(c + i[:, None] * 64 + i[None, :], acc)\n";

Test(report, says_what_became_of_products_and_their_loads) {
  char text[1024];
  static const struct {
    const char *divisible, *arch, *parts[2];
  } of[] = {{":16", "sm_90a", {"k.tk:6: load of f16[64,64] from a\n    ", "on tensor cores by wgmma"}},
            {":16", "sm_80", {"pipelined over 3 stages", "on tensor cores by mma.sync m16n8k16"}},
            {"", "sm_80", {"not pipelined: ", "s is not known to be a multiple of 8"}},
            {":16", "sm_70", {"16 bytes per access", "not on tensor cores: "}}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    snprintf(text, sizeof text, product, of[i].divisible);
    told t = report(text, of[i].arch, NULL);
    for (int k = 0; k < 2; k++) says(of[i].arch, t.text, of[i].parts[k], true);
    tkc_close(t.s);
  }
}

Test(report, says_that_while_loops_are_not_pipelined) {
  told t = report(
      "@kernel(num_warps=4)\n"
      "def k(a: *f16:16, b: *f16:16, c: *f32:16, n: i32):\n"
      "    i = arange(0, 64)\n"
      "    at = i[:, None] * 64 + i[None, :]\n"
      "    acc = zeros([64, 64], f32)\n"
      "    while n > 0:\n"
      "        acc = dot(load(a + at + n * 64), load(b + at + n * 64), acc)\n"
      "        n -= 1\n"
      "    store(c + at, acc)\n",
      "sm_90a", NULL);
  says("while", t.text, "not pipelined: a `while` does not say ahead how often it runs", true);
  tkc_close(t.s);
}

/* f32 in every order of both operands: how the address of a and of b grows along rows and columns. */
Test(report, says_which_way_round_a_product_is_formed) {
  static const struct {
    const char *a, *b, *part;
  } of[] = {
      {"i[:, None] * 64 + i[None, :]", "i[:, None] * 64 + i[None, :]", "by wgmma, as the transposed product\n"},
      {"i[:, None] * 64 + i[None, :]", "i[:, None] + i[None, :] * 64", "on tensor cores by wgmma\n"},
      {"i[:, None] + i[None, :] * 64", "i[:, None] + i[None, :] * 64", "on tensor cores by wgmma\n"},
      {"i[:, None] + i[None, :] * 64", "i[:, None] * 64 + i[None, :]", "with K contiguous in memory, of at least one"},
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "@kernel(num_warps=4)\ndef k(a: *f32:16, b: *f32:16, c: *f32:16):\n    i = arange(0, 64)\n"
             "    store(c + i[:, None] * 64 + i[None, :], dot(load(a + %s), load(b + %s)))\n",
             of[i].a, of[i].b);
    told t = report(text, "sm_90a", NULL);
    says("product", t.text, of[i].part, true);
    tkc_close(t.s);
  }
}
