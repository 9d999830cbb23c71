/* Values and addresses as polynomials: a row is tile IR that makes %v, and the polynomial of %v: its terms in the order
 * of their text, `$i` for the position along axis i, `?` for one that is not known. What is built from a polynomial has
 * that polynomial again. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/analysis/affine.h"
#include "tests/unit/interp_lab.h"
#include "tests/unit/poly_text.h"

static bool is_v(const tir_value *v) { return v->name && strcmp(v->name, "v") == 0; }

static const tir_value *find(const tir_fn *fn) {
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    for (int i = 0; i < op->n_out; i++)
      if (is_v(op->out[i])) return op->out[i];
    for (int r = 0; r < op->n_regions; r++)
      for (int i = 0; i < op->regions[r]->n_args; i++)
        if (is_v(op->regions[r]->args[i])) return op->regions[r]->args[i];
  }
  cr_assert_fail("no %%v");
  return NULL;
}

/* Asks for nothing but what is known at launch or computed: an axis has no value. */
static void check_build(lab *l, tir_fn *fn, affine_cx *cx, const affine_poly *x, const char *body) {
  for (int axis = 0; axis < TIR_MAX_RANK; axis++)
    if (affine_mentions(x, &affine_axis[axis])) return;
  const tir_value *v = find(fn);
  tir_builder b = {.fn = fn, .region = v->def ? v->def->parent : v->region, .at = fn->at};
  b.before = v->def ? v->def->next : v->region->first;
  affine_poly again = affine_of(cx, affine_build(&b, x, tir_scalar_type(l->cx, DT_i64)));
  cr_assert(affine_equal(x, &again), "%s: %s comes back as %s", body, poly_text(l->a, x), poly_text(l->a, &again));
}

#define SUM3 "%a = add %n, %s : i32\n %e = add %a, %t : i32\n %e2 = mul %e, %e : i32\n %e4 = mul %e2, %e2 : i32\n"
#define FOR(init) "%i0 = const {value = 0} : i32\n %i2 = const {value = 2} : i32\n %i7 = const {value = 7} : i32\n" init

typedef struct row {
  const char *body, *poly; /* of an address: the base before it. Behind it: "index % bound" that was met */
} row;

static const row rows[] = {
    {"%v = const {value = 5} : i32", "+5"},
    {"%a = add %n, %s : i32\n %v = mul %a, %a : i32", "+2*n*s+n*n+s*s"},
    {"%v = sub %n, %n : i32", "0"},
    {"%a = neg %n : i32\n %c3 = const {value = 3} : i32\n %v = shl %a, %c3 : i32", "-8*n"},
    {"%v = shl %n, %s : i32", "+v"},
    {"%v = cast %n : i64", "+n"},
    {"%v = cast %w : i32", "+v"},
    {"%v = cast %c : i32", "+v"},
    {"%v = div %n, %s : i32", "+v"},
    {"%v = rem %n, %s : i32", "+v"},
    {"%v = load %p : i32", "+v"},
    {"%v = neg %f : f32", "?"},
    /* six factors, twenty terms, and one more */
    {"%a = mul %n, %n : i32\n %e = mul %a, %a : i32\n %v = mul %a, %e : i32", "+n*n*n*n*n*n"},
    {"%a = mul %n, %n : i32\n %e = mul %a, %a : i32\n %g = mul %a, %e : i32\n %v = mul %g, %n : i32", "+v"},
    {SUM3 "%v = sub %e4, %e4 : i32", "0"},
    {SUM3 "%v = mul %e4, %e : i32", "+v"},
    /* the largest coefficient, and larger ones */
    {"%a = const {value = 2147483648} : i64\n %v = mul %w, %a : i64", "+2147483648*w"},
    {"%a = const {value = 2147483649} : i64\n %v = mul %w, %a : i64", "+v"},
    {"%a = const {value = 2147483648} : i64\n %b = mul %w, %a : i64\n %v = add %b, %w : i64", "+v"},
    {"%a = const {value = 2147483648} : i64\n %b = mul %w, %a : i64\n %v = mul %b, %b : i64", "+v"},
    {"%a = const {value = -9223372036854775808} : i64\n %v = neg %a : i64", "+v"},
    {"%i0 = const {value = 0} : i64\n %a = const {value = -9223372036854775808} : i64\n"
     "%r = for %w, %i0, %a, %i0 : i64 (%i: i64, %v: i64) {\n yield %i }",
     "+v"},
    /* arithmetic that may wrap */
    {"%a = cast %n : i8\n %b = add %a, %a : i8\n %v = cast %b : i32", "+b"},
    {"%a = cast %n : i16\n %c1 = const {value = 1} : i32\n %b = cast %c1 : i16\n %d = sub %a, %b : i16\n"
     "%v = cast %d : i32",
     "+d"},

    {"%v = arange {start = 4} : i32[8]", "+$0+4"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %v = mul %a, %b : i32[8]", "+$0*n"},
    {"%a = arange {start = 0} : i32[8]\n %v = expand_dims %a {axis = 0} : i32[1,8]", "+$1"},
    {"%a = arange {start = 0} : i32[8]\n %b = expand_dims %a {axis = 1} : i32[8,1]\n %v = broadcast %b : i32[8,4]",
     "+$0"},
    {"%a = arange {start = 0} : i32[8]\n %b = expand_dims %a {axis = 1} : i32[8,1]\n"
     "%v = trans %b {perm = [1, 0]} : i32[1,8]",
     "+$1"},
    {"%a = arange {start = 0} : i32[8]\n %v = hint %a {kind = \"multiple_of\", values = [1]} : i32[8]", "+$0"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %v = div %a, %b : i32[8]", "?"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %v = rem %a, %b : i32[8]", "+$0, +$0 % +n"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %d = rem %a, %b : i32[8]\n"
     "%v = expand_dims %d {axis = 0} : i32[1,8]",
     "+$1, +$1 % +n"},
    {"%a = arange {start = 0} : i32[8]\n %b = div %a, %a : i32[8]\n %v = rem %a, %b : i32[8]", "?"},

    /* carried: by the same amount each time */
    {FOR("%r = for %n, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n %i4 = const {value = 4} : i32\n"
         "%e = add %v, %i4 : i32\n yield %e }"),
     "+2*i+7-2*n"},
    {FOR("%r = for %i0, %s, %i2, %n : i32 (%i: i32, %q: i32) {\n %i4 = mul %i2, %s : i32\n"
         "%e = add %q, %i4 : i32\n %v = mul %q, %q : i32\n yield %e }"),
     "+2*i*n*s+i*i*s*s+n*n"},
    {FOR("%m = const {value = -1} : i32\n %r = for %n, %i0, %m, %i7 : i32 (%i: i32, %v: i32) {\n"
         "%e = add %v, %i2 : i32\n yield %e }"),
     "+2*n+7-2*i"},
    {FOR("%r = for %n, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n %i4 = const {value = 3} : i32\n"
         "%e = add %v, %i4 : i32\n yield %e }"),
     "+v"}, /* 3 is no multiple of the step */
    {FOR("%r = for %n, %s, %t, %i7 : i32 (%i: i32, %v: i32) {\n %e = add %v, %i2 : i32\n yield %e }"), "+v"},
    {FOR("%r = for %i0, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n %e = add %v, %i : i32\n yield %e }"), "+v"},
    {FOR("%r = for %i0, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n %e = mul %v, %i2 : i32\n yield %e }"), "+v"},
    {FOR("%r = for %i0, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n %d = load %p : i32\n %e = add %v, %d : i32\n"
         "yield %e }"),
     "+v"}, /* another amount each time */
    {FOR("%v = for %i0, %s, %i2, %i7 : i32 (%i: i32, %q: i32) {\n %e = add %q, %i2 : i32\n yield %e }"), "+v"},
    {"%r = while %n : i32 (%v: i32) { condition %c, %v } else (%d: i32) { yield %d }", "+v"},

    /* carried: one iteration behind */
    {FOR("%b = sub %n, %i2 : i32\n %r = for %n, %s, %i2, %b : i32 (%i: i32, %v: i32) {\n yield %i }"), "+i-2"},
    {FOR("%r = for %n, %s, %i2, %n : i32 (%i: i32, %v: i32) {\n %e = add %i, %i2 : i32\n yield %e }"), "+i"},
    {FOR("%r = for %n, %s, %i2, %i7 : i32 (%i: i32, %v: i32) {\n yield %i }"), "+v"},

    /* nested */
    {FOR("for %i0, %s, %i2 (%i: i32) {\n %b = mul %i, %n : i32\n %r = for %i0, %s, %i2, %b : i32 (%j: i32, %v: i32) {\n"
         "%d = mul %i, %i2 : i32\n %e = add %v, %d : i32\n yield %e }\n yield }"),
     "+i*j+i*n"},
    {FOR("%o = for %i0, %s, %i2, %n : i32 (%i: i32, %b: i32) {\n"
         "%r = for %i0, %s, %i2, %b : i32 (%j: i32, %v: i32) {\n %e = add %v, %i2 : i32\n yield %e }\n"
         "%g = add %b, %i2 : i32\n yield %g }"),
     "+i+j+n"},
    {FOR("%o = for %i0, %s, %i2, %n : i32 (%i: i32, %v: i32) {\n"
         "%r = for %i0, %s, %i2, %v : i32 (%j: i32, %q: i32) {\n %e = add %q, %i2 : i32\n yield %e }\n yield %r }"),
     "+v"}, /* what the inner one ends with is not looked into */

    /* addresses */
    {"%v = addptr %x, %n : *f32", "x +n"},
    {"%a = addptr %x, %n : *f32\n %b = splat %a : *f32[8]\n %o = arange {start = 2} : i32[8]\n"
     "%v = addptr %b, %o : *f32[8]",
     "x +$0+2+n"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %o = rem %a, %b : i32[8]\n %d = splat %x : *f32[8]\n"
     "%e = addptr %d, %o : *f32[8]\n %g = expand_dims %e {axis = 1} : *f32[8,1]\n"
     "%v = trans %g {perm = [1, 0]} : *f32[1,8]",
     "x +$1, +$1 % +n"},
    {"%a = arange {start = 0} : i32[8]\n %b = splat %n : i32[8]\n %c1 = lt %a, %b : i1[8]\n"
     "%z = const {value = 0} : i32[8]\n %v = select %c1, %a, %z : i32[8]",
     "+$0, +$0 % +n"},
    {FOR("%r = for %n, %s, %i2, %x : *f32 (%i: i32, %v: *f32) {\n %i4 = const {value = 4} : i32\n"
         "%e = addptr %v, %i4 : *f32\n yield %e }"),
     "x +2*i-2*n"},
    {FOR("%o = for %i0, %s, %i2, %x : *f32 (%i: i32, %b: *f32) {\n"
         "%r = for %i0, %s, %i2, %b : *f32 (%j: i32, %v: *f32) {\n %e = addptr %v, %i2 : *f32\n yield %e }\n"
         "%g = addptr %b, %i2 : *f32\n yield %g }"),
     "x +i+j"},
    {FOR("%b = sub %i0, %i2 : i32\n %d = addptr %x, %b : *f32\n"
         "%r = for %i0, %s, %i2, %d : *f32 (%i: i32, %v: *f32) {\n %e = addptr %x, %i : *f32\n yield %e }"),
     "x +i-2"},
    {FOR("%r = for %i0, %s, %i2, %x : *f32 (%i: i32, %v: *f32) {\n yield %y }"), "?"},
    {FOR("%r = for %i0, %s, %i2, %x : *f32 (%i: i32, %v: *f32) {\n %e = addptr %y, %i : *f32\n yield %e }"), "?"},
    {"%b = select %c, %x, %y : *f32\n %v = addptr %b, %n : *f32", "?"},
    {"%v = cast %w : *f32", "?"},
};

Test(affine, what_values_are) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    lab *l = lab_new();
    tir_fn *fn =
        lab_read(l, arena_printf(l->a,
                                 "kernel @k(%%x: *f32, %%y: *f32, %%n: i32, %%s: i32, %%t: i32, %%w: i64, %%c: "
                                 "i1, %%f: f32, %%p: *i32) {\n%s\nreturn }\n",
                                 r->body));
    tir_renumber(fn);
    affine_cx cx = {.fn = fn, .a = l->a};
    const tir_value *v = find(fn), *base = NULL;
    bool address = tir_is_ptr(v->type);
    affine_poly x = address ? affine_address(&cx, v, &base) : affine_of(&cx, v);
    const char *said = poly_text(l->a, &x);
    if (address && x.known) said = arena_printf(l->a, "%s %s", base->name, said);
    for (int k = 0; k < cx.wraps.n && x.known; k++)
      said = arena_printf(l->a, "%s, %s %% %s", said, poly_text(l->a, &cx.wraps.at[k].index),
                          poly_text(l->a, &cx.wraps.at[k].bound));
    cr_assert(strcmp(said, r->poly) == 0, "%s\nis %s", r->body, said);
    cr_assert_eq(cx.evaluating.n, 0);
    if (x.known && !address) check_build(l, fn, &cx, &x, r->body);
    arena_free(l->a);
  }
}

Test(affine, terms_are_divided_and_split) {
  lab *l = lab_new();
  tir_fn *fn = lab_read(l, "kernel @k(%n: i32, %s: i32, %x: *f32) {\n %v = program_id {axis = 0} : i32\n return }\n");
  affine_cx cx = {.fn = fn, .a = l->a};
  affine_poly n = affine_of(&cx, fn->params[0].value), s = affine_of(&cx, fn->params[1].value),
              v = affine_of(&cx, find(fn));
  affine_poly six = affine_scaled(affine_mul(n, s), 6), two = affine_scaled(s, 2), four = affine_const(4);
  affine_poly square = affine_mul(n, n), all = affine_mul(six, v), got = affine_const(1);
  cr_assert(affine_divide(&six.at[0], &two.at[0], &got.at[0]));
  cr_assert_str_eq(poly_text(l->a, &got), "+3*n");
  cr_assert(affine_divide(&square.at[0], &n.at[0], &got.at[0]));
  cr_assert_str_eq(poly_text(l->a, &got), "+n");
  cr_assert_not(affine_divide(&six.at[0], &four.at[0], &got.at[0]), "6 / 4");
  cr_assert_not(affine_divide(&n.at[0], &s.at[0], &got.at[0]), "n / s");
  cr_assert_not(affine_divide(&n.at[0], &square.at[0], &got.at[0]), "n / n*n");
  affine_poly run = affine_const(1);
  affine_split(&cx, &all.at[0], &got.at[0], &run.at[0]);
  cr_assert_str_eq(poly_text(l->a, &got), "+6*n*s");
  cr_assert_str_eq(poly_text(l->a, &run), "+v");
  affine_poly put = affine_put(&all, find(fn), affine_add(n, affine_const(-1)));
  cr_assert_str_eq(poly_text(l->a, &put), "+6*n*n*s-6*n*s");
  arena_free(l->a);
}
