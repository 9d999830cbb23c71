/* Slices: which values, loops and branches one value needs, and what cannot be executed apart. A row is tile IR, and
 * the names of the values that %v needs, in the order of their ids, or why it cannot be had. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/analysis/slice.h"
#include "tests/unit/interp_lab.h"

typedef void visit(void *user, const tir_op *op, const tir_value *v);

static void each(const tir_fn *fn, visit *f, void *user) {
  for (int i = 0; i < fn->n_params; i++) f(user, NULL, fn->params[i].value);
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    for (int r = 0; r < op->n_regions; r++)
      for (int i = 0; i < op->regions[r]->n_args; i++) f(user, NULL, op->regions[r]->args[i]);
    for (int i = 0; i < op->n_out; i++) f(user, op, op->out[i]);
  }
}

static void find_v(void *user, const tir_op *op, const tir_value *v) {
  (void)op;
  if (v->name && strcmp(v->name, "v") == 0) *(const tir_value **)user = v;
}

typedef struct listing {
  const slice *s;
  textbuf out;
} listing;

static void list_value(void *user, const tir_op *op, const tir_value *v) {
  listing *l = user;
  if (slice_has_value(l->s, v)) text_printf(&l->out, "%s%s", l->out.n ? " " : "", v->name);
  bool own = op && !op->n_regions && op->n_out == 1;
  cr_assert(!own || slice_has_op(l->s, op) == slice_has_value(l->s, v), "%s", v->name);
}

static const struct {
  const char *body, *names; /* in the order in which the ops stand; a reason has no %v in it */
} rows[] = {
    {"%a = add %n, %s : i32\n %b = mul %n, %t : i32\n %v = sub %a, %s : i32", "n s a v"},
    {"for %n, %s, %t (%i: i32) {\n %a = program_id {axis = 0} : i32\n %v = mul %i, %a : i32\n yield }", "n s t i a v"},
    {"%a = neg %n : i32\n %b = neg %s : i32\n"
     "%r, %q = for %t, %t, %t, %a, %b : i32, i32 (%i: i32, %e: i32, %g: i32) {\n"
     "%e2 = add %e, %i : i32\n %g2 = mul %g, %g : i32\n %v = neg %e : i32\n yield %e2, %g2 }",
     "n t a i e e2 v"},
    {"%r, %q = for %t, %t, %t, %n, %s : i32, i32 (%i: i32, %e: i32, %g: i32) {\n"
     "%e2 = neg %e : i32\n %g2 = neg %g : i32\n yield %e2, %g2 }\n %v = neg %q : i32",
     "s t g q g2 v"},
    {"%r = if %c : i32 { %a = neg %n : i32\n yield %a } else { yield %s }\n %v = neg %r : i32", "n s c r a v"},
    {"if %c { if %d { %v = neg %n : i32\n yield } else { yield }\n yield } else { yield }", "n c d v"},
    {"%r = while %n : i32 (%a: i32) { %b = lt %a, %s : i1\n condition %b, %a } else (%e: i32) {\n"
     "%g = add %e, %t : i32\n yield %g }\n %v = neg %r : i32",
     "n s t a e r b g v"},
    {"%v = load %p : i32", "p v"},
    {"%v = load %k : i32\n store %p, %v", "k v"},
    {"%v = load %p : i32\n store %p, %v", "a coordinate is loaded from memory that the kernel may write"},
    {"%v = load %p : i32\n if %c { store %p, %n\n yield } else { yield }",
     "a coordinate is loaded from memory that the kernel may write"},
    {"%a = splat %n : i32[1]\n %v = unsplat %a : i32", "a coordinate is computed from a tile"},
    {"%a = arange {start = 0} : i32[4]\n %v = reduce %a {axis = 0} : i32 (%e: i32, %g: i32) { yield %e }",
     "a coordinate depends on more than scalar arithmetic"},
    {"%v = atomic_rmw %p, %n {kind = \"add\"} : i32", "a coordinate depends on more than scalar arithmetic"},
    {"%a = splat %n : i32[1]\n %b = unsplat %a : i32\n for %n, %b, %t (%i: i32) { %v = neg %n : i32\n yield }",
     "a coordinate is computed from a tile"}, /* how often */
    {"%r = for %n, %s, %t, %n : i32 (%i: i32, %v: i32) {\n"
     "%a = atomic_rmw %p, %n {kind = \"add\"} : i32\n yield %a }",
     "a coordinate depends on more than scalar arithmetic"},
};

Test(slice, what_a_value_needs) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    lab *l = lab_new();
    tir_fn *fn = lab_read(l, arena_printf(l->a,
                                          "kernel @k(%%n: i32, %%s: i32, %%t: i32, %%c: i1, %%d: i1, %%p: *i32, %%k: "
                                          "*const i32) {\n%s\n return }\n",
                                          rows[i].body));
    tir_renumber(fn);
    const tir_value *v = NULL;
    each(fn, find_v, &v);
    slice *s = slice_new(fn, l->a);
    slice_need(s, v);
    slice_need_around(s, v->def ? v->def->parent : v->region);
    const char *why = slice_problem(s);
    listing out = {.s = s};
    text_init(&out.out, l->a);
    if (!why) each(fn, list_value, &out);
    const char *said = why ? why : out.out.at;
    cr_assert(strcmp(said, rows[i].names) == 0, "%s:\n%s", rows[i].body, said);
    arena_free(l->a);
  }
}

/* The loop that fills the ring and what its coordinates need, not the loop beside it nor what reads the stage. */
Test(slice, of_tensor_copies) {
#define T "@s(1..16,36)tma(32,1)align(256)"
  static const char text[] =
      "kernel @k(%x: *f32, %n: i32, %s: i32, %w: i64) num_warps(1) stage(staged) producer_warps(4) {\n"
      "%q = alloc {ring = 1} : shared(2) f32[8,8]" T
      "\n %m = tensor_map %x, %w, %w, %w {swizzle = 32, box = [8, 8]} : u64\n"
      "for %s, %s, %s (%i: i32) { yield }\n"
      "%a = neg %n : i32\n %b = neg %n : i32\n"
      "for %n, %n, %n (%j: i32) {\n %e = mul %j, %b : i32\n %g = tma_load %m, %q, %e, %j : shared f32[8,8]" T
      "\n tma_release %q\n yield }\n return }\n";
  lab *l = lab_new();
  tir_fn *fn = lab_read(l, text);
  tir_renumber(fn);
  slice *s = slice_of_copies(fn, l->a, NULL);
  cr_assert_null(slice_problem(s));
  int loops = 0, copies = 0;
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code == OP_for) cr_assert_eq(slice_has_op(s, op), loops++ == 1);
    if (op->code == OP_tma_load) cr_assert(slice_has_op(s, op) && ++copies);
    if (op->code == OP_tma_release || op->code == OP_alloc || op->code == OP_tensor_map)
      cr_assert(!slice_has_op(s, op));
  }
  cr_assert(loops == 2 && copies == 1);
  listing out = {.s = s};
  text_init(&out.out, l->a);
  for (int i = 0; i < fn->n_params; i++) list_value(&out, NULL, fn->params[i].value);
  cr_assert_str_eq(out.out.at, "n");
  arena_free(l->a);
}
