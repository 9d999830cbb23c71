/* The interpreter: what kernels compute, and that each check finds its mistake and is silent about the twin without it.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/unit/interp_lab.h"

/* ---- checks: a mistake and its clean twin ------------------------------------------------------------------------ */

/* 8 elements a program: %o the offsets, %m whether they are below %n, pointers %px and %py; %z and %zi are zeros. */
#define HEAD                                                \
  "kernel @k(%x: *f32, %y: *i32, %n: i32) stage(plain) {\n" \
  "  %pid = program_id {axis = 0} : i32\n"                  \
  "  %c8 = const {value = 8} : i32\n"                       \
  "  %c0 = const {value = 0} : i32\n"                       \
  "  %c1 = const {value = 1} : i32\n"                       \
  "  %first = mul %pid, %c8 : i32\n"                        \
  "  %fs = splat %first : i32[8]\n"                         \
  "  %r = arange {start = 0} : i32[8]\n"                    \
  "  %o = add %fs, %r : i32[8]\n"                           \
  "  %ns = splat %n : i32[8]\n"                             \
  "  %m = lt %o, %ns : i1[8]\n"                             \
  "  %xs = splat %x : *f32[8]\n"                            \
  "  %px = addptr %xs, %o : *f32[8]\n"                      \
  "  %ys = splat %y : *i32[8]\n"                            \
  "  %py = addptr %ys, %o : *i32[8]\n"                      \
  "  %z = const {value = 0.0} : f32[8]\n"                   \
  "  %zi = const {value = 0} : i32[8]\n"                    \
  "  %oi = const {value = 1} : i32[8]\n"
#define TAIL "  return\n}\n"
#define SUM " : f32 (%a: f32, %b: f32) { %s1 = add %a, %b : f32\n yield %s1 }\n"

#define STORE "%si = cast %s : i32\n %p = addptr %y, %pid : *i32\n store %p, %si\n"

typedef struct twin {
  const char *name, *id; /* id of the finding; NULL: none */
  const char *text;      /* of one that must occur in the message */
  const char *body;
} twin;

static const twin twins[] = {
    {"masked accesses", NULL, NULL, "%v = load %px, %m : f32[8]\n store %px, %v, %m\n"},
    {"no mask on a load", "interp_past_end", "reads 4 bytes past the end of buffer 'x'", "%v = load %px : f32[8]\n"},
    {"no mask on a store", "interp_past_end", "writes 4 bytes past the end of buffer 'x'", "store %px, %z\n"},
    {"no mask on an atomic", "interp_past_end", "updates 4 bytes past the end of buffer 'y'",
     "%v = atomic_rmw %py, %zi {kind = \"add\"} : i32[8]\n"},
    {"before the start", "interp_before_start", "reads 4 bytes before the start of buffer 'x'",
     "%b = sub %o, %oi : i32[8]\n %p = addptr %xs, %b : *f32[8]\n %v = load %p, %m : f32[8]\n"},

    {"undefined lanes stored", "interp_undef_value", "stores a value that is undefined",
     "%off = ne %o, %zi : i1[8]\n %k = and %off, %m : i1[8]\n %v = load %px, %k : f32[8]\n store %px, %v, %m\n"},
    {"undefined lanes selected away", NULL, NULL,
     "%off = ne %o, %zi : i1[8]\n %k = and %off, %m : i1[8]\n %v = load %px, %k : f32[8]\n"
     "%s = select %k, %v, %z : f32[8]\n store %px, %s, %m\n"},
    {"undefined lanes filled by other", NULL, NULL,
     "%off = ne %o, %zi : i1[8]\n %k = and %off, %m : i1[8]\n %v = load %px, %k, %z : f32[8]\n store %px, %v, %m\n"},
    {"undefined times zero and and-ed with false", NULL, NULL,
     "%none = const {value = 0} : i1[8]\n %v = load %py, %none : i32[8]\n %w = mul %v, %zi : i32[8]\n"
     "%g = gt %v, %zi : i1[8]\n %h = and %g, %none : i1[8]\n store %py, %w, %m\n store %py, %zi, %h\n"},
    {"undefined plus one", "interp_undef_value", "stores",
     "%none = const {value = 0} : i1[8]\n %v = load %py, %none : i32[8]\n %w = add %v, %oi : i32[8]\n"
     "store %py, %w, %m\n"},
    {"undefined address", "interp_undef_address", "the address of this load is undefined",
     "%none = const {value = 0} : i1[8]\n %i = load %py, %none : i32[8]\n %p = addptr %xs, %i : *f32[8]\n"
     "%v = load %p, %m : f32[8]\n"},
    {"undefined address under the same mask", NULL, NULL,
     "%i = load %py, %m : i32[8]\n %p = addptr %xs, %i : *f32[8]\n %v = load %p, %m : f32[8]\n"},
    {"undefined mask", "interp_undef_mask", "the mask of this store is undefined",
     "%none = const {value = 0} : i1[8]\n %i = load %py, %none : i32[8]\n %k = eq %i, %zi : i1[8]\n store %px, %z, "
     "%k\n"},
    {"undefined branch", "interp_undef_branch", "this branch depends on a value that is undefined",
     "%f = const {value = 0} : i1\n %i = load %y, %f : i32\n %c = eq %i, %c0 : i1\n"
     "if %c { yield } else { yield }\n"},
    {"undefined trip count", "interp_undef_branch", "how often this loop runs",
     "%f = const {value = 0} : i1\n %i = load %y, %f : i32\n for %c0, %i, %c1 (%iv: i32) { yield }\n"},
    {"defined branch", NULL, NULL,
     "%t = const {value = 1} : i1\n %i = load %y, %t : i32\n %c = eq %i, %c0 : i1\n"
     "if %c { yield } else { yield }\n"},
    {"undefined lanes in a sum that is stored", "interp_undef_value", "stores",
     "%v = load %px, %m : f32[8]\n %s = reduce %v {axis = 0}" SUM STORE},
    {"filled lanes in a sum that is stored", NULL, NULL,
     "%v = load %px, %m, %z : f32[8]\n %s = reduce %v {axis = 0}" SUM
     "%q = ge %first, %n : i1\n %h = add %n, %c1 : i32\n"},
    {"undefined factor in a dot", "interp_undef_value", "stores",
     "%v = load %px, %m : f32[8]\n %a = expand_dims %v {axis = 0} : f32[1,8]\n %b = expand_dims %z {axis = 1} : "
     "f32[8,1]\n"
     "%acc = const {value = 0.0} : f32[1,1]\n %d = dot %a, %b, %acc : f32[1,1]\n %s = unsplat %d : f32\n" STORE},

    {"integer division by zero", "interp_div_zero", "division by zero",
     "%v = div %o, %zi : i32[8]\n store %py, %v, %m\n"},
    {"remainder by zero in an address", "interp_div_zero", "division by zero",
     "%i = rem %o, %zi : i32[8]\n %p = addptr %xs, %i : *f32[8]\n %v = load %p, %m : f32[8]\n"},
    {"index divided by a negative number", "interp_negative_divisor", "divided by -",
     "%d = sub %c0, %pid : i32\n %n1 = sub %d, %c1 : i32\n %ds = splat %n1 : i32[8]\n %q = div %o, %ds : i32[8]\n"
     "%i = mul %q, %zi : i32[8]\n %p = addptr %xs, %i : *f32[8]\n %v = load %p, %m : f32[8]\n"},
    {"data divided by a negative number", NULL, NULL,
     "%d = sub %c0, %pid : i32\n %n1 = sub %d, %c1 : i32\n %ds = splat %n1 : i32[8]\n %q = div %o, %ds : i32[8]\n"
     "store %py, %q, %m\n"},
    {"division by zero that is masked off", NULL, NULL,
     "%d = select %m, %oi, %zi : i32[8]\n %v = div %o, %d : i32[8]\n store %py, %v, %m\n"},

    {"misaligned", "interp_misaligned", "reads 4 bytes at an address that is no multiple of 4",
     "%i = cast %x : i64\n %two = const {value = 2} : i64\n %j = add %i, %two : i64\n %p = cast %j : *f32\n"
     "%v = load %p : f32\n"},
    {"through an integer and aligned", NULL, NULL,
     "%i = cast %x : i64\n %two = const {value = 4} : i64\n %j = add %i, %two : i64\n %p = cast %j : *f32\n"
     "%v = load %p : f32\n"},
    {"foreign pointer", "interp_foreign", "reads through a pointer into none of the kernel's buffers",
     "%i = const {value = 4096} : i64\n %p = cast %i : *f32\n %v = load %p : f32\n"},
    {"null pointer", "interp_null", "writes through a null pointer",
     "%i = const {value = 0} : i64\n %p = cast %i : *i32\n store %p, %c0\n"},

    {"every program stores to one element", "interp_write_write", "two programs write the same element of buffer 'y'",
     "store %y, %pid\n"},
    {"one program stores to it", NULL, NULL, "%k = eq %pid, %c0 : i1\n store %y, %pid, %k\n"},
    {"every program adds to it", NULL, NULL, "%v = atomic_rmw %y, %pid {kind = \"add\"} : i32\n"},
    {"one stores, others add", "interp_write_write", "two programs write",
     "%k = eq %pid, %c0 : i1\n store %y, %pid, %k\n %v = atomic_rmw %y, %pid {kind = \"add\", sem = \"relaxed\"} : "
     "i32\n"},
    {"reading what another one wrote", "interp_read_write", "one program reads what another one writes in buffer 'y'",
     "%p = addptr %y, %pid : *i32\n store %p, %pid\n %v = load %y : i32\n"},
    {"writing what another one read", "interp_read_write", "one program reads",
     "%v = load %y : i32\n %k = eq %pid, %c1 : i1\n store %y, %pid, %k\n"},
    {"reading what one wrote oneself", NULL, NULL,
     "%p = addptr %y, %pid : *i32\n store %p, %pid\n %v = load %p : i32\n"},
    {"polling an atomic's element", NULL, NULL,
     "%v = atomic_rmw %y, %pid {kind = \"add\"} : i32\n %w = load %y {is_volatile = 1} : i32\n"},
    /* Element 1 + pid is published through the counter in element 0; the last program reads all. */
    {"ordered by acquire and release", NULL, NULL,
     "%i = add %pid, %c1 : i32\n %p = addptr %y, %i : *i32\n store %p, %pid\n"
     "%v = atomic_rmw %y, %c1 {kind = \"add\"} : i32\n %c = eq %v, %c1 : i1\n %q = addptr %y, %c1 : *i32\n"
     "%w = load %q, %c, %c0 : i32\n"},
    {"not ordered by a relaxed atomic", "interp_read_write", "one program reads",
     "%i = add %pid, %c1 : i32\n %p = addptr %y, %i : *i32\n store %p, %pid\n"
     "%v = atomic_rmw %y, %c1 {kind = \"add\", sem = \"relaxed\"} : i32\n %c = eq %v, %c1 : i1\n"
     "%q = addptr %y, %c1 : *i32\n %w = load %q, %c, %c0 : i32\n"},

    {"failed assertion", "interp_assert", "assertion failed: below n", "assert %m {message = \"below n\"}\n"},
    {"assertion that holds where it is asked", NULL, NULL, "assert %m, %m {message = \"below n\"}\n"},
    {"false assumption", "interp_assume", "assumes is false", "%c = gt %c0, %n : i1\n assume %c\n"},
    {"true assumption", NULL, NULL, "%c = lt %c0, %n : i1\n assume %c\n"},
    {"hint: not a multiple", "interp_hint", "multiple_of 16",
     "%h = hint %first {kind = \"multiple_of\", values = [16]} : i32\n"},
    {"hint: a multiple", NULL, NULL, "%h = hint %o {kind = \"multiple_of\", values = [8]} : i32[8]\n"},
    {"hint: not contiguous", "interp_hint", "max_contiguous 8",
     "%t = add %o, %o : i32[8]\n %h = hint %t {kind = \"max_contiguous\", values = [8]} : i32[8]\n"},
    {"hint: contiguous pointers", NULL, NULL, "%h = hint %px {kind = \"max_contiguous\", values = [8]} : *f32[8]\n"},
    {"hint: not constant", "interp_hint", "max_constancy 2",
     "%h = hint %o {kind = \"max_constancy\", values = [2]} : i32[8]\n"},
    {"hint: constant", NULL, NULL,
     "%d = div %o, %oi : i32[8]\n %two = const {value = 2} : i32[8]\n %e = div %o, %two : i32[8]\n"
     "%h = hint %e {kind = \"max_constancy\", values = [2]} : i32[8]\n"},

    {"a loop that never ends", "interp_steps", "without coming to an end",
     "while { %t = const {value = 1} : i1\n condition %t } else { yield }\n"},
    {"a step of zero", "interp_steps", "without coming to an end", "for %c0, %c8, %c0 (%iv: i32) { yield }\n"},
    {"a loop that ends", NULL, NULL,
     "%w = while %c0 : i32 (%a: i32) { %t = lt %a, %c8 : i1\n condition %t, %a } else (%b: i32) {\n"
     "%d = add %b, %c1 : i32\n yield %d }\n"},
};

Test(interp, each_mistake_and_its_clean_twin) {
  for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
    const twin *t = &twins[i];
    lab *l = lab_new();
    float x[12] = {0};
    int32_t y[12] = {0};
    job j = {.args = {0}};
    job_add(&j, "x", x, sizeof x);
    job_add(&j, "y", y, sizeof y);
    j.args[j.n_args++] = 12;
    l->options.grid[0] = 2;
    l->options.max_steps = 2000;
    const char *text = arena_printf(l->a, "%s%s%s", HEAD, t->body, TAIL);
    interp_status s = lab_run(l, text, &j);
    const char *said = lab_messages(l);
    if (!t->id) {
      cr_assert(s == INTERP_OK && !*said, "%s: false alarm\n%s", t->name, said);
    } else {
      bool warning = l->sink.first && l->sink.first->severity == DIAG_WARNING;
      cr_assert(s == (warning ? INTERP_OK : INTERP_FINDINGS), "%s: nothing was found", t->name);
      cr_assert(strcmp(l->sink.first->desc->id, t->id) == 0 && l->sink.first == l->sink.last, "%s: found\n%s", t->name,
                said);
      cr_assert(strstr(said, t->text) != NULL, "%s: says\n%s", t->name, said);
    }
    arena_free(l->a);
  }
}

Test(interp, report_names_place_program_lane_and_element) {
  lab *l = lab_new();
  float x[12] = {0};
  int32_t y[12] = {0};
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  job_add(&j, "y", y, sizeof y);
  j.args[j.n_args++] = 12;
  l->options.grid[0] = 3;
  cr_assert_eq(lab_run(l, HEAD "%v = load %px : f32[8]\n" TAIL, &j), INTERP_FINDINGS);
  const char *said = lab_messages(l);
  static const char *const parts[] = {"k.tir:19:1: error: reads 4 bytes past the end of buffer 'x'",
                                      "in program (1, 0, 0), lane 4 of *f32[8]: element [4]",
                                      "element 12 of 12, 4 bytes each", "found 12 times in 2 programs",
                                      "no mask guards"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    cr_assert(strstr(said, parts[i]), "no '%s' in\n%s", parts[i], said);
  arena_free(l->a);
}

Test(interp, arguments_that_do_not_fit_are_refused) {
  static const char *const text = "kernel @k(%x: *f32 {divisible = 16}, %n: i32 {divisible = 4, positive}) { return }";
  _Alignas(16) float x[4];
  static const struct {
    int n_args, n, offset;
    int64_t grid;
    const char *id;
  } cases[] = {{2, 8, 0, 1, NULL},
               {1, 8, 0, 1, "interp_arguments"},
               {2, 6, 0, 1, "interp_divisible"},
               {2, 8, 4, 1, "interp_divisible"},
               {2, 0, 0, 1, "interp_positive"},
               {2, -4, 0, 1, "interp_positive"},
               {2, 8, 0, -1, "interp_grid"},
               {2, 8, 0, INT64_C(1) << 40, "interp_grid"},
               {2, 8, 0, 0, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab *l = lab_new();
    job j = {.args = {0}};
    job_add(&j, "x", x, sizeof x);
    j.args[0] += (uint64_t)cases[i].offset;
    j.args[1] = (uint64_t)cases[i].n;
    j.n_args = cases[i].n_args;
    l->options.grid[0] = cases[i].grid;
    interp_status s = lab_run(l, text, &j);
    cr_assert_eq(s, cases[i].id ? INTERP_REFUSED : INTERP_OK, "case %zu: %s", i, lab_messages(l));
    if (cases[i].id) cr_assert_str_eq(l->sink.first->desc->id, cases[i].id);
    arena_free(l->a);
  }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void check_f32(const float *got, const float *want, int n, float tolerance, const char *what) {
  for (int i = 0; i < n; i++)
    cr_assert(fabsf(got[i] - want[i]) <= tolerance * (1 + fabsf(want[i])), "%s[%d] is %g, not %g", what, i,
              (double)got[i], (double)want[i]);
}

static const char add_text[] =
    "kernel @add(%x: *f32, %y: *f32, %z: *f32, %n: i32) {\n"
    "  %pid = program_id {axis = 0} : i32\n  %c = const {value = 64} : i32\n  %f = mul %pid, %c : i32\n"
    "  %fs = splat %f : i32[64]\n  %r = arange {start = 0} : i32[64]\n  %o = add %fs, %r : i32[64]\n"
    "  %ns = splat %n : i32[64]\n  %m = lt %o, %ns : i1[64]\n"
    "  %xs = splat %x : *f32[64]\n  %px = addptr %xs, %o : *f32[64]\n  %a = load %px, %m : f32[64]\n"
    "  %ys = splat %y : *f32[64]\n  %py = addptr %ys, %o : *f32[64]\n  %b = load %py, %m : f32[64]\n"
    "  %s = add %a, %b : f32[64]\n"
    "  %zs = splat %z : *f32[64]\n  %pz = addptr %zs, %o : *f32[64]\n  store %pz, %s, %m\n  return\n}\n";

Test(interp, adds_in_any_order_and_on_threads) {
  enum { N = 1000 };
  static float x[N], y[N], want[N];
  for (int i = 0; i < N; i++) want[i] = (x[i] = (float)i) + (y[i] = (float)(3 * i % 17));
  for (int variant = 0; variant < 4; variant++) {
    float z[N] = {0};
    lab *l = lab_new();
    job j = {.args = {0}};
    job_add(&j, "x", x, sizeof x);
    job_add(&j, "y", y, sizeof y);
    job_add(&j, "z", z, sizeof z);
    j.args[j.n_args++] = N;
    l->options.grid[0] = (N + 63) / 64;
    l->options.order_seed = variant & 1 ? 7 : 0;
    l->options.threads = variant & 2 ? 3 : 1;
    lab_run_clean(l, add_text, &j);
    check_f32(z, want, N, 0, "z");
    arena_free(l->a);
  }
}

/* One row a program: argmax with the combine of Triton, and the sum along both axes of the whole. */
Test(interp, reduces) {
  enum { M = 8, N = 16 };
  static const char text[] =
      "kernel @r(%x: *f32, %rows: *f32, %cols: *f32, %arg: *i32) {\n"
      "  %r = arange {start = 0} : i32[8]\n  %r1 = expand_dims %r {axis = 1} : i32[8,1]\n"
      "  %c = arange {start = 0} : i32[16]\n  %c1 = expand_dims %c {axis = 0} : i32[1,16]\n"
      "  %k = const {value = 16} : i32[8,1]\n  %r16 = mul %r1, %k : i32[8,1]\n"
      "  %ro = broadcast %r16 : i32[8,16]\n  %co = broadcast %c1 : i32[8,16]\n  %o = add %ro, %co : i32[8,16]\n"
      "  %xs = splat %x : *f32[8,16]\n  %p = addptr %xs, %o : *f32[8,16]\n  %v = load %p : f32[8,16]\n"
      "  %s1 = reduce %v {axis = 1} : f32[8] (%a: f32, %b: f32) { %ab = add %a, %b : f32\n yield %ab }\n"
      "  %s0 = reduce %v {axis = 0} : f32[16] (%d: f32, %e: f32) { %de = add %d, %e : f32\n yield %de }\n"
      "  %mx, %am = reduce %v, %co {axis = 1} : f32[8], i32[8] (%v1: f32, %i1: i32, %v2: f32, %i2: i32) {\n"
      "    %gt = gt %v1, %v2 : i1\n    %eq = eq %v1, %v2 : i1\n    %lt = lt %i1, %i2 : i1\n"
      "    %tie = and %eq, %lt : i1\n    %left = or %gt, %tie : i1\n"
      "    %vr = select %left, %v1, %v2 : f32\n    %ir = select %left, %i1, %i2 : i32\n    yield %vr, %ir\n  }\n"
      "  %rs = splat %rows : *f32[8]\n  %rp = addptr %rs, %r : *f32[8]\n  store %rp, %s1\n"
      "  %cs = splat %cols : *f32[16]\n  %cp = addptr %cs, %c : *f32[16]\n  store %cp, %s0\n"
      "  %as = splat %arg : *i32[8]\n  %ap = addptr %as, %r : *i32[8]\n  store %ap, %am\n  return\n}\n";
  float x[M][N], rows[M] = {0}, cols[N] = {0}, want_rows[M] = {0}, want_cols[N] = {0};
  int32_t arg[M], want_arg[M] = {0};
  for (int i = 0; i < M; i++)
    for (int k = 0; k < N; k++) {
      x[i][k] = (float)((i * 7 + k * 5) % 11);
      want_rows[i] += x[i][k];
      want_cols[k] += x[i][k];
      if (x[i][k] > x[i][want_arg[i]]) want_arg[i] = k;
    }
  lab *l = lab_new();
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  job_add(&j, "rows", rows, sizeof rows);
  job_add(&j, "cols", cols, sizeof cols);
  job_add(&j, "arg", arg, sizeof arg);
  lab_run_clean(l, text, &j);
  check_f32(rows, want_rows, M, 0, "rows");
  check_f32(cols, want_cols, N, 0, "cols");
  cr_assert_arr_eq(arg, want_arg, sizeof arg);
  arena_free(l->a);
}

/* A combining region with a branch is run pair by pair; a constant one gives the same everywhere. */
Test(interp, reduces_with_control_flow) {
  static const char text[] =
      "kernel @r(%y: *i32) {\n  %v = arange {start = 3} : i32[8]\n"
      "  %s = reduce %v {axis = 0} : i32 (%a: i32, %b: i32) {\n    %c = gt %a, %b : i1\n"
      "    %m = if %c : i32 { yield %a } else { yield %b }\n    yield %m\n  }\n"
      "  %e = expand_dims %v {axis = 0} : i32[1,8]\n  %two = broadcast %e : i32[4,8]\n"
      "  %q = reduce %two {axis = 1} : i32[4] (%d: i32, %f: i32) { %five = const {value = 5} : i32\n yield %five }\n"
      "  %qs = reduce %q {axis = 0} : i32 (%g: i32, %h: i32) { %gh = add %g, %h : i32\n yield %gh }\n"
      "  store %y, %s\n  %one = const {value = 1} : i32\n  %p = addptr %y, %one : *i32\n  store %p, %qs\n  return\n}\n";
  int32_t y[2] = {0};
  lab *l = lab_new();
  job j = {.args = {0}};
  job_add(&j, "y", y, sizeof y);
  lab_run_clean(l, text, &j);
  cr_assert(y[0] == 10 && y[1] == 20, "%d %d", y[0], y[1]);
  arena_free(l->a);
}

Test(interp, moves_elements) {
  static const char text[] =
      "kernel @m(%y: *i32) {\n  %v = arange {start = 0} : i32[16]\n  %t = reshape %v : i32[2,4,2]\n"
      "  %p = trans %t {perm = [2, 0, 1]} : i32[2,2,4]\n  %f = reshape %p : i32[16]\n"
      "  %a, %b = split %t : i32[2,4], i32[2,4]\n  %n = neg %b : i32[2,4]\n  %j = join %a, %n : i32[2,4,2]\n"
      "  %g = reshape %j : i32[16]\n"
      "  %ys = splat %y : *i32[16]\n  %py = addptr %ys, %v : *i32[16]\n  store %py, %f\n"
      "  %k = const {value = 16} : i32[16]\n  %pz = addptr %py, %k : *i32[16]\n  store %pz, %g\n  return\n}\n";
  int32_t y[32] = {0};
  lab *l = lab_new();
  job j = {.args = {0}};
  job_add(&j, "y", y, sizeof y);
  lab_run_clean(l, text, &j);
  for (int c = 0; c < 2; c++)
    for (int a = 0; a < 2; a++)
      for (int b = 0; b < 4; b++) cr_assert_eq(y[c * 8 + a * 4 + b], a * 8 + b * 2 + c);
  for (int i = 0; i < 16; i++) cr_assert_eq(y[16 + i], i & 1 ? -i : i);
  arena_free(l->a);
}

/* Carried values that change places each round; nested loops; a count down; results of a loop that never runs. */
Test(interp, runs_loops) {
  static const char text[] =
      "kernel @f(%y: *i32, %n: i32) {\n  %c0 = const {value = 0} : i32\n  %c1 = const {value = 1} : i32\n"
      "  %m1 = const {value = -1} : i32\n"
      "  %a, %b = for %c0, %n, %c1, %c0, %c1 : i32, i32 (%i: i32, %u: i32, %v: i32) {\n"
      "    %s = add %u, %v : i32\n    yield %v, %s\n  }\n"
      "  %t = for %n, %c0, %m1, %c0 : i32 (%k: i32, %acc: i32) {\n"
      "    %in = for %c0, %k, %c1, %acc : i32 (%l: i32, %acc2: i32) { %d = add %acc2, %c1 : i32\n yield %d }\n"
      "    yield %in\n  }\n"
      "  %e = for %n, %c0, %c1, %m1 : i32 (%w: i32, %x: i32) { yield %c0 }\n"
      "  store %y, %a\n  %p1 = addptr %y, %c1 : *i32\n  store %p1, %t\n  %p2 = addptr %p1, %c1 : *i32\n  store %p2, "
      "%e\n"
      "  return\n}\n";
  int32_t y[3] = {0};
  lab *l = lab_new();
  job j = {.args = {0}};
  job_add(&j, "y", y, sizeof y);
  j.args[j.n_args++] = 10;
  lab_run_clean(l, text, &j);
  cr_assert(y[0] == 55 && y[1] == 55 && y[2] == -1, "%d %d %d", y[0], y[1], y[2]);
  arena_free(l->a);
}

Test(interp, multiplies) {
  static const struct {
    const char *a, *c, *attrs;
    float x, want; /* 16 products x * 1 + 1 */
  } cases[] = {{"f16", "f32", "", 0.5f, 9},
               {"bf16", "f32", "", 0.5f, 9},
               {"f8e4m3", "f32", "", 0.5f, 9},
               {"f16", "f16", "", 0.5f, 9},
               {"f64", "f64", "", 0.5f, 9},
               {"i8", "i32", "", -3, -47},
               {"f32", "f32", "", 1.00048828125f, 17.0078125f},               /* 1 + 2^-11 */
               {"f32", "f32", " {precision = \"tf32\"}", 1.00048828125f, 17}, /* lost in 10 bits */
               {"f32", "f32", " {precision = \"tf32x3\"}", 1.00048828125f, 17.0078125f}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab *l = lab_new();
    const char *text = arena_printf(
        l->a,
        "kernel @d(%%y: *f32) {\n  %%x = const {value = %.10g} : f32[2,16]\n  %%a = cast %%x : %s[2,16]\n"
        "  %%one = const {value = 1.0} : f32[16,4]\n  %%b = cast %%one : %s[16,4]\n"
        "  %%o2 = const {value = 1.0} : f32[2,4]\n  %%c = cast %%o2 : %s[2,4]\n"
        "  %%d = dot %%a, %%b, %%c%s : %s[2,4]\n  %%e = cast %%d : f32[2,4]\n  %%f = reshape %%e : f32[8]\n"
        "  %%r = arange {start = 0} : i32[8]\n  %%ys = splat %%y : *f32[8]\n  %%p = addptr %%ys, %%r : *f32[8]\n"
        "  store %%p, %%f\n  return\n}\n",
        (double)cases[i].x, cases[i].a, cases[i].a, cases[i].c, cases[i].attrs, cases[i].c);
    float y[8] = {0};
    job j = {.args = {0}};
    job_add(&j, "y", y, sizeof y);
    lab_run_clean(l, text, &j);
    for (int k = 0; k < 8; k++)
      cr_assert_eq(y[k], cases[i].want, "case %zu: %g, not %g", i, (double)y[k], (double)cases[i].want);
    arena_free(l->a);
  }
}

Test(interp, updates_atomically_in_any_order) {
  static const char text[] =
      "kernel @h(%y: *i32, %s: *f32) {\n  %pid = program_id {axis = 0} : i32\n  %r = arange {start = 0} : i32[16]\n"
      "  %k = const {value = 4} : i32[16]\n  %b = rem %r, %k : i32[16]\n  %ys = splat %y : *i32[16]\n"
      "  %p = addptr %ys, %b : *i32[16]\n  %one = const {value = 1} : i32[16]\n"
      "  %old = atomic_rmw %p, %one {kind = \"add\"} : i32[16]\n"
      "  %c4 = const {value = 4} : i32\n  %q = addptr %y, %c4 : *i32\n  %mx = atomic_rmw %q, %pid {kind = \"max\"} : "
      "i32\n"
      "  %h = const {value = 0.5} : f32\n  %was = atomic_rmw %s, %h {kind = \"fadd\", sem = \"relaxed\"} : f32\n  "
      "return\n}\n";
  for (uint64_t seed = 0; seed < 3; seed++) {
    int32_t y[5] = {0};
    float f = 0;
    lab *l = lab_new();
    job j = {.args = {0}};
    job_add(&j, "y", y, sizeof y);
    job_add(&j, "s", &f, sizeof f);
    l->options.grid[0] = 5;
    l->options.grid[1] = 2;
    l->options.order_seed = seed;
    l->options.threads = (int)seed;
    lab_run_clean(l, text, &j);
    for (int i = 0; i < 4; i++) cr_assert_eq(y[i], 40);
    cr_assert_eq(y[4], 4);
    cr_assert_eq(f, 5);
    arena_free(l->a);
  }
}

/* A pointer keeps its buffer: an access beyond its end is found although the address lies in the next buffer. */
Test(interp, pointers_keep_their_buffer) {
  static const char text[] =
      "kernel @p(%x: *f32, %y: *f32, %i: i32) {\n  %c1 = const {value = 1} : i1\n"
      "  %z = select %c1, %x, %y : *f32\n  %t = splat %z : *f32[2]\n  %m = arange {start = 0} : i32[2]\n"
      "  %one = const {value = 1} : i32[2]\n  %left = eq %m, %one : i1[2]\n  %ys = splat %y : *f32[2]\n"
      "  %mix = select %left, %t, %ys : *f32[2]\n  %is = splat %i : i32[2]\n  %p = addptr %mix, %is : *f32[2]\n"
      "  %v = load %p : f32[2]\n  store %p, %v\n  return\n}\n";
  float both[8] = {0};
  for (int i = 3; i <= 4; i++) {
    lab *l = lab_new();
    job j = {.args = {0}};
    job_add(&j, "x", both, 4 * sizeof(float));
    job_add(&j, "y", both + 4, 4 * sizeof(float));
    j.args[j.n_args++] = (uint64_t)i;
    interp_status s = lab_run(l, text, &j);
    const char *said = lab_messages(l);
    cr_assert_eq(s, i == 3 ? INTERP_OK : INTERP_FINDINGS, "%s", said);
    if (i == 4)
      cr_assert(strstr(said, "reads 4 bytes past the end of buffer 'y'") && strstr(said, "writes"), "%s", said);
    arena_free(l->a);
  }
}

Test(interp, loads_pointers_and_booleans_from_memory) {
  static const char text[] =
      "kernel @p(%t: **i32, %b: *i1, %y: *i32) {\n  %r = arange {start = 0} : i32[2]\n  %ts = splat %t : **i32[2]\n"
      "  %pt = addptr %ts, %r : **i32[2]\n  %p = load %pt : *i32[2]\n  %v = load %p : i32[2]\n"
      "  %bs = splat %b : *i1[2]\n  %pb = addptr %bs, %r : *i1[2]\n  %c = load %pb : i1[2]\n"
      "  %z = const {value = -1} : i32[2]\n  %s = select %c, %v, %z : i32[2]\n"
      "  %ys = splat %y : *i32[2]\n  %py = addptr %ys, %r : *i32[2]\n  store %py, %s\n  return\n}\n";
  int32_t data[2] = {11, 22}, y[2] = {0};
  int32_t *table[2] = {&data[1], &data[0]};
  uint8_t flags[2] = {0, 200};
  lab *l = lab_new();
  job j = {.args = {0}};
  job_add(&j, "t", table, sizeof table);
  job_add(&j, "b", flags, sizeof flags);
  job_add(&j, "y", y, sizeof y);
  j.buffers[j.n_buffers++] = (interp_buffer){"data", data, sizeof data};
  lab_run_clean(l, text, &j);
  cr_assert(y[0] == -1 && y[1] == 11, "%d %d", y[0], y[1]);
  arena_free(l->a);
}

/* Each program takes a lock, adds to a sum plainly, and releases it: ordered through a chain of programs. */
static const char lock_text[] =
    "kernel @l(%%lock: *i32, %%sum: *i32) {\n  %%c0 = const {value = 0} : i32\n  %%c1 = const {value = 1} : i32\n"
    "  while { %%o = atomic_rmw %%lock, %%c1 {kind = \"xchg\"%s} : i32\n    %%busy = ne %%o, %%c0 : i1\n"
    "    condition %%busy } else { yield }\n"
    "  %%v = load %%sum : i32\n  %%w = add %%v, %%c1 : i32\n  store %%sum, %%w\n"
    "  %%d = atomic_rmw %%lock, %%c0 {kind = \"xchg\"} : i32\n  return\n}\n";

Test(interp, a_lock_orders_programs) {
  for (int variant = 0; variant < 4; variant++) {
    lab *l = lab_new();
    int32_t lock = 0, sum = 0;
    job j = {.args = {0}};
    job_add(&j, "lock", &lock, sizeof lock);
    job_add(&j, "sum", &sum, sizeof sum);
    l->options.grid[0] = 50;
    l->options.order_seed = (uint64_t)variant & 1;
    l->options.threads = variant == 2 ? 3 : 1;
    bool relaxed = variant == 3;
    const char *text = arena_printf(l->a, lock_text, relaxed ? ", sem = \"relaxed\"" : "");
    interp_status s = lab_run(l, text, &j);
    cr_assert_eq(s, relaxed ? INTERP_FINDINGS : INTERP_OK, "variant %d: %s", variant, lab_messages(l));
    cr_assert_eq(sum, 50);
    arena_free(l->a);
  }
}

Test(interp, prints) {
  static const char text[] =
      "kernel @p(%n: i32) {\n  %pid = program_id {axis = 1} : i32\n  %r = arange {start = 5} : i32[2]\n"
      "  print %r, %n {message = \"v\"}\n  print %pid {message = \"hex\", hex = 1}\n  print {message = \"only text\"}\n"
      "  %f = const {value = 0.5} : f16\n  print %f\n  return\n}\n";
  lab *l = lab_new();
  job j = {.args = {7}, .n_args = 1};
  l->options.grid[1] = 2;
  lab_run_clean(l, text, &j);
  static const char want[] =
      "pid (0, 0, 0) idx (0) v: (operand 0) 5\npid (0, 0, 0) idx (1) v: (operand 0) 6\n"
      "pid (0, 0, 0) idx () v: (operand 1) 7\npid (0, 0, 0) idx () hex: 0x00000000\npid (0, 0, 0) idx () only text\n"
      "pid (0, 0, 0) idx (): 0.5\n"
      "pid (0, 1, 0) idx (0) v: (operand 0) 5\npid (0, 1, 0) idx (1) v: (operand 0) 6\n"
      "pid (0, 1, 0) idx () v: (operand 1) 7\npid (0, 1, 0) idx () hex: 0x00000001\npid (0, 1, 0) idx () only text\n"
      "pid (0, 1, 0) idx (): 0.5\n";
  cr_assert_str_eq(l->printed.at, want);
  arena_free(l->a);
}

Test(interp, stops_after_so_many_findings) {
  lab *l = lab_new();
  textbuf b;
  text_init(&b, l->a);
  text_str(&b, "kernel @f(%x: *f32) {\n  %c = const {value = -1} : i32\n  %p = addptr %x, %c : *f32\n");
  for (int i = 0; i < 30; i++) text_printf(&b, "  %%v%d = load %%p : f32\n", i);
  text_str(&b, "  return\n}\n");
  float x[1] = {0};
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  l->options.max_findings = 5;
  cr_assert_eq(lab_run(l, b.at, &j), INTERP_FINDINGS);
  cr_assert_eq(l->sink.n_errors, 5);
  arena_free(l->a);
}
