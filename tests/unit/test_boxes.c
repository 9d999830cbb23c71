/* Boxes: what a load of a tile reads, as base, sizes, strides and position (innermost axis first), or why it is no box.
 * A row is the load in a loop over K; rm, ka are its rows and columns, p and q the program. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/passes/boxes.h"
#include "lang/lang.h"
#include "tests/unit/poly_text.h"

static arena *mem;
static void setup(void) { mem = arena_new(); }
static void teardown(void) { arena_free(mem); }
TestSuite(boxes, .init = setup, .fini = teardown);

/* The function up to where pass_tma finds it. */
static tir_fn *lowered(const char *source) {
  src_map *sources = src_map_new(mem);
  diag_sink sink;
  diag_sink_init(&sink, mem, sources);
  tir_cx *cx = tir_cx_new(mem, strtab_new(mem));
  lang_unit *u = lang_load(cx, &sink, sources, "box.tk", source, strlen(source));
  tir_fn *fn = NULL;
  if (sink.n_errors == 0) {
    const lang_kernel *k = lang_kernel_at(u, 0);
    lang_binding *b = ARENA_ARRAY(mem, lang_binding, k->n_params + 1);
    lang_options o = {.has_f8e4m3 = true};
    lang_bind_init(k, b);
    if (lang_bind_finish(u, k, b)) fn = lang_specialise(u, k, b, &o, mem);
  }
  const pass_cx passes = {.arch = arch_find("sm_90a"), .sink = &sink};
  const pass_hooks hooks = {.verify = true};
  if (fn) pass_run(fn, &passes, 0, pass_named("widths", strlen("widths")), &hooks);
  textbuf said;
  text_init(&said, mem);
  diag_render(&sink, DIAG_LINE, false, &said);
  cr_assert(fn && sink.n_errors == 0, "%s\n%s", source, said.at);
  tir_renumber(fn);
  return fn;
}

static const char *list(const affine_poly *at, int n) {
  const char *text = "";
  for (int i = 0; i < n; i++) text = arena_printf(mem, "%s%s%s", text, i ? ", " : "", poly_text(mem, &at[i]));
  return text;
}

static const char *text_of(const box *b) {
  const char *text = arena_printf(mem, "%s: %s; %s; %s", b->base->name, list(b->size, b->rank),
                                  list(b->stride, b->rank), list(b->at, b->rank));
  for (int i = 0; i < b->n_natural; i++)
    text = arena_printf(mem, "%s%s%s", text, i ? ", " : "; not negative ", b->natural[i]->name);
  return text;
}

/* The box of the first load in a loop that fills a buffer. */
static const char *first_box(tir_fn *fn) {
  box_cx cx = {.affine = {.fn = fn, .a = mem}, .facts = axis_analyse(fn, mem)};
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    const tir_use *u = op->code == OP_load && op->parent->owner ? op->out[0]->uses : NULL;
    if (!u || u->op->code != OP_buffer_store) continue;
    box b;
    const char *why = box_of(&cx, op, tir_in(u->op, 1)->type->shared->inner_axis, &b);
    return why ? why : text_of(&b);
  }
  cr_assert_fail("no load fills a buffer");
  return NULL;
}

static const char *source(const char *load) {
  return arena_printf(mem,
                      "@kernel(num_warps=4)\n"
                      "def box(a: *f16:16, b: *f16:16, c: *f16:16, a8: *f16:8, m: i32, n: i32, k: i32, sa: i32:16, sz: "
                      "i32:16, s4: i32:4, i: *i32, d: tensordesc[f16[8]]):\n"
                      "    p = program_id(0)\n"
                      "    q = program_id(1)\n"
                      "    row = p * 64\n"
                      "    rm = (row + arange(0, 64))[:, None]\n"
                      "    rn = arange(0, 64)[None, :]\n"
                      "    acc = zeros([64, 64], f32)\n"
                      "    for at in range(0, k, 64):\n"
                      "        ka = (at + arange(0, 64))[None, :]\n"
                      "        x = load(%s)\n"
                      "        y = load(b + (at + arange(0, 64))[:, None] * 64 + rn)\n"
                      "        acc = dot(x, y, acc)\n"
                      "    store(c + rm * 64 + rn, acc, mask=rm < m)\n",
                      load);
}

#define ENDLESS "+2147483647"

static const struct {
  const char *load, *says;
} rows[] = {
    /* Axes without a bound are endless. */
    {"a + rm * sa + ka", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p"},
    {"a + rm * 512 + ka", "a: " ENDLESS ", " ENDLESS "; +1, +512; +at, +64*p"},
    {"a + rm * sa + ka, mask=ka < k, other=0.0", "a: +k, " ENDLESS "; +1, +sa; +at, +64*p"},
    {"a + rm * sa + ka, mask=(rm < m) & (k > ka), other=0.0", "a: +k, +m; +1, +sa; +at, +64*p"},
    {"a + rm * sa + ka, mask=(rm <= m) & (k >= ka)", "a: +1+k, +1+m; +1, +sa; +at, +64*p"},
    {"a + rm * sa + ka, mask=ka - at < k - at", "a: +k, " ENDLESS "; +1, +sa; +at, +64*p"},
    {"a + rm * sa + ka, mask=rm < 100", "a: " ENDLESS ", +100; +1, +sa; +at, +64*p"},
    {"a + rm % m * sa + ka", "a: " ENDLESS ", +m; +1, +sa; +at, +64*p"},
    {"a + where(rm < m, rm, 0) * sa + ka", "a: " ENDLESS ", +m; +1, +sa; +at, +64*p"},
    {"a + where(m <= rm, 0, rm) * sa + ka", "a: " ENDLESS ", +m; +1, +sa; +at, +64*p"},
    {"a + rm * sa + ka, mask=(rm < m) & (rm < m)", "a: " ENDLESS ", +m; +1, +sa; +at, +64*p"},
    /* In front of the tensor, where the mask says so. */
    {"a + (rm - 3) * sa + ka, mask=(rm - 3 < m) & (rm - 3 >= 0)", "a: " ENDLESS ", +m; +1, +sa; +at, +64*p-3"},
    {"a + (rm - 3) * sa + ka, mask=(0 <= rm - 3) & (rm < m + 3)", "its mask is no comparison of indices with sizes"},
    {"a + (rm - 3) * sa + ka, mask=(rm - 3 < m) & (rm >= 0)", "its mask is no comparison of indices with sizes"},
    {"a + (rm - 3) * sa + ka, mask=rm - 3 < m", "an index is not known to be 0 or more"},
    {"a + (rm - 3) * sa + ka, mask=(rm - 3).to(u32) < maximum(m, 0).to(u32)",
     "a: " ENDLESS ", +m; +1, +sa; +at, +64*p-3; not negative m"},
    {"a + (rm - 3) * sa + ka, mask=(rm - 3).to(u32) < m.to(u32)",
     "a: " ENDLESS ", +m; +1, +sa; +at, +64*p-3; not negative m"},
    /* Further axes. */
    {"a + q * sz + rm * sa + ka", "a: " ENDLESS ", " ENDLESS ", " ENDLESS "; +1, +sa, +sz; +at, +64*p, +q"},
    {"a + q * (sz * sa) + p * (sz * sa) + rm * sa + ka",
     "a: " ENDLESS ", " ENDLESS ", " ENDLESS "; +1, +sa, +sa*sz; +at, +64*p, +p+q"},
    {"a + q * sa + rm * sa + ka", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p+q"},
    {"a + q * sa + rm * sa + ka, mask=rm < m", "a: " ENDLESS ", +m, " ENDLESS "; +1, +sa, +sa; +at, +64*p, +q"},
    {"a + p.to(i64) * 524288 + rm * 64 + q * 64 + ka, mask=rm < m",
     "a: " ENDLESS ", +m, " ENDLESS "; +1, +64, +524288; +64*q+at, +64*p, +p"}, /* 2^31 elements and more */
    {"a + p.to(i64) * 524288 + rm * 64 + ka", "a: " ENDLESS ", " ENDLESS "; +1, +64; +at, +8256*p"},
    {"a + n * sz + rm * sa + ka", "a: " ENDLESS ", " ENDLESS ", " ENDLESS "; +1, +sa, +n*sz; +at, +64*p, +1"},
    {"a + (n + q) * sa + rm * sa + ka", "a: " ENDLESS ", " ENDLESS ", " ENDLESS "; +1, +sa, +n*sa; +at, +64*p+q, +1"},
    {"a + (q - 1) * sz + rm * sa + ka", "an index is not known to be 0 or more"},
    {"a + q * sz + p * 512 + p * sz * sa + q * 1024 + rm * sa + ka", "its address has too many parts"},
    /* Positions that are not negative if a parameter is not. */
    {"a + rm * sa + (ka + q % n)", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at+rem, +64*p"},
    {"a + (rm + maximum(n, q)) * sa + ka", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p+max"},
    {"a + (rm + minimum(n, q)) * sa + ka", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p+min; not negative n"},
    {"a + (rm + minimum(d.shape[0], q)) * sa + ka", "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p+min"},
    {"a + (rm + (q - n)) * sa + ka", "an index is not known to be 0 or more"},
    {"a + (rm + n.to(u32).to(i64)) * sa + ka",
     "a: " ENDLESS ", " ENDLESS ", " ENDLESS "; +1, +sa, +n*sa; +at, +64*p, +1"},
    {"a + (rm + minimum(n.to(i8), q.to(i8)).to(i32)) * sa + ka", "an index is not known to be 0 or more"},
    {"a + (rm + (i8(100) + minimum(q, 100).to(i8)).to(i32)) * sa + ka", "an index is not known to be 0 or more"},
    {"a + rm * sa + ka, mask=rm.to(u32) < (m - n).to(u32)", "a: " ENDLESS ", +m-n; +1, +sa; +at, +64*p"},
    {"a + (rm + load(i)) * sa + ka", "an index is not known to be 0 or more"},
    {"a + (rm + at * load(i)) * sa + ka", "an index is not known to be 0 or more"}, /* 0 at first, then anything */
    {"a + (rm + at * minimum(n, q)) * sa + ka",
     "a: " ENDLESS ", " ENDLESS "; +1, +sa; +at, +64*p+at*min; not negative n"},

    {"a + load(i + rm) * sa + ka", "its address is no sum of products of indices and strides"},
    {"where(q == 0, a, b) + rm * sa + ka", "its address is no sum of products of indices and strides"},
    {"a + rm * rm * 8 + ka", "its address is not linear in the indices"},
    {"a + rm * ka + ka", "its address is not linear in the indices"},
    {"a + rm * sa + ka * sz", "its contiguous axis has a stride that is not known to be 1"},
    {"a + rm * sa + ka * 2", "its contiguous axis has a stride that is not known to be 1"},
    {"a + rm * q + ka", "its stride is computed in the kernel"},
    {"a + (0 - rm) * 64 + ka", "its stride is computed in the kernel"},
    {"a + rm % q * sa + ka", "its index is taken modulo something that is no size"},
    {"a + (rm * 2) % m * sa + ka", "its index is taken modulo something that is no size"},
    {"a + rm % m * sa + rm % n * sa + ka", "its index is taken modulo something that is no size"},
    {"a + where(rm < q, rm, 0) * sa + ka", "its index is taken modulo something that is no size"},
    {"a + where(rm < m, rm, 1) * sa + ka", "its address is no sum of products of indices and strides"},
    {"a + where(rm < m, 0, rm) * sa + ka", "its address is no sum of products of indices and strides"},
    {"a + where(rm - 1 < m, rm, 0) * sa + ka", "its address is no sum of products of indices and strides"},
    {"a + where(rm < n, rm, 0) * sa + ka",
     "its index wraps around, and elements behind the wrap are not known to be masked off where they are stored"},
    {"a + rm * sa + where(ka < k, ka, 0)",
     "its index wraps around, and elements behind the wrap are not known to be masked off where they are stored"},
    {"a + rm % n * sa + ka",
     "its index wraps around, and elements behind the wrap are not known to be masked off where they are stored"},
    {"a + rm * sa + ka % k",
     "its index wraps around, and elements behind the wrap are not known to be masked off where they are stored"},
    {"a + rm * sa + ka, mask=ka % 2 == 0", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=(ka < k) | (rm < m)", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=rm > 1", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=2 * ka < k", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=ka < rm", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=(rm < m) & (rm < n)", "its mask is no comparison of indices with sizes"},
    {"a + rm * sa + ka, mask=load(i + ka) < k", "its mask is no comparison of indices with sizes"},
    {"a8 + rm * sa + ka", "a8 is not known to be a multiple of 16 bytes"},
    {"a + rm * s4 + ka", "s4 is not known to be a multiple of 8"},
    {"a + rm * (s4 * 2) + ka", "a: " ENDLESS ", " ENDLESS "; +1, +2*s4; +at, +64*p"},
    {"a + rm * 68 + ka", "a stride is no multiple of 16 bytes"},
    {"a + q * s4 + rm * sa + ka", "s4 is not known to be a multiple of 8"},
};

Test(boxes, what_loads_read) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *says = first_box(lowered(source(rows[i].load)));
    cr_expect(strcmp(says, rows[i].says) == 0, "%s:\n%s\nnot\n%s", rows[i].load, says, rows[i].says);
  }
}
