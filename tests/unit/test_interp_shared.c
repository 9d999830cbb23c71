/* The interpreter on shared memory and asynchronous work: each missing wait or fence is found where it matters, once,
 * and the twin that has it is clean and right. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/interp_lab.h"

/* x and y are 8x8; %b has two stages, %v0 and %v1 its views. */
#define L "@r(1)l(2..32)w()"
#define S "@s(1..32)row(0,1)align(16)"
#define ASYNC                                                                \
  "kernel @a(%x: *f32, %y: *f32) num_warps(1) stage(staged) {\n"             \
  "  %r = arange {start = 0} : i32[64]" L "\n  %o = reshape %r : i32[8,8]" L \
  "\n"                                                                       \
  "  %xs = splat %x : *f32[8,8]" L "\n  %px = addptr %xs, %o : *f32[8,8]" L  \
  "\n"                                                                       \
  "  %ys = splat %y : *f32[8,8]" L "\n  %py = addptr %ys, %o : *f32[8,8]" L  \
  "\n"                                                                       \
  "  %zero = const {value = 0.0} : f32[8,8]" L                               \
  "\n  %i0 = const {value = 0} : i32\n  %i1 = const {value = 1} : i32\n"     \
  "  %b = alloc : shared(2) f32[8,8]" S                                      \
  "\n"                                                                       \
  "  %v0 = buffer_at %b, %i0 : shared f32[8,8]" S "\n  %v1 = buffer_at %b, %i1 : shared f32[8,8]" S "\n"
#define COPY(view) "copy_async %px, " view "\n copy_commit\n"
#define WAIT(n) "copy_wait {pending = " #n "}\n"
#define LOAD(view) "%t = buffer_load " view " : f32[8,8]" L "\n"
#define T "@s(1..16,36)tma(32,1)align(256)"
#define RING(n)                                                                                                     \
  "%e8 = const {value = 8} : i64\n %i4 = const {value = 4} : i32\n %m1 = const {value = -1} : i32\n"                \
  "%q = alloc {ring = 1, early = " #n "} : shared(2) f32[8,8]" T "\n %q2 = alloc {ring = 1} : shared(2) f32[8,8]" T \
  "\n %m = tensor_map %x, %e8, %e8, %e8 {swizzle = 32, box = [8, 8]} : u64\n"
#define TAKE(view, at) view " = tma_load %m, %q, " at ", " at " : shared f32[8,8]" T "\n"
#define GIVE "tma_release %q\n"
/* x to the box of a tensor of `side` rows and columns at y that begins at (at, at). */
#define PUT(side, at, axis)                                                                                 \
  "%e8 = const {value = 8} : i64\n %es = const {value = " #side                                             \
  "} : i64\n"                                                                                               \
  "%i4 = const {value = 4} : i32\n %m1 = const {value = -1} : i32\n %t = load %px : f32[8,8]" L             \
  "\n %m = tensor_map %y, %es, %es, %e8 {swizzle = 32, box = [8, 8]} : u64\n tma_store %m, %t, " at ", " at \
  " {axis = " #axis "}\n"
#define BOTH COPY("%v0") COPY("%v1") WAIT(0)
#define WGMMA(result, acc) result " = wgmma %v0, %v1, " acc " : f32[8,8]" L "\n"
#define WGMMA_WAIT(result, of, n) result " = wgmma_wait " of " {pending = " #n "} : f32[8,8]" L "\n"
#define Y(value) "store %py, " value "\n"

static const struct {
  const char *name, *id; /* id of the only finding; NULL: clean */
  const char *text;      /* of one that must occur in it */
  const char *body;
  float want[3]; /* of y[0], y[1], y[63] where clean; x[i] = i */
} twins[] = {
    {"copied", NULL, NULL, COPY("%v0") WAIT(0) "barrier\n" LOAD("%v0") Y("%t"), {0, 1, 63}},
    {"not waited for",
     "interp_not_landed",
     "k.tir:14:1: note: the copy begins here",
     COPY("%v0") WAIT(1) LOAD("%v0") Y("%t"),
     {0}},
    {"read, but not used", "interp_not_landed", "this buffer_load reads", COPY("%v0") LOAD("%v0"), {0}},
    {"not committed",
     "interp_not_landed",
     "behind its copy_commit",
     "copy_async %px, %v0\n" WAIT(0) LOAD("%v0") Y("%t"),
     {0}},
    {"the older of two groups", NULL, NULL, COPY("%v0") COPY("%v1") WAIT(1) LOAD("%v0") Y("%t"), {0, 1, 63}},
    {"the younger of two groups",
     "interp_not_landed",
     "k.tir:16:1: note: the copy begins here",
     COPY("%v0") COPY("%v1") WAIT(1) LOAD("%v1") Y("%t"),
     {0}},
    {"two copies in one group",
     NULL,
     NULL,
     "copy_async %px, %v0\n" COPY("%v1") "copy_commit\n" WAIT(1) LOAD("%v1") Y("%t"),
     {0, 1, 63}},
    {"overwritten by the next copy",
     "interp_not_landed",
     "a wait is missing",
     COPY("%v0") WAIT(0) COPY("%v0") LOAD("%v0") Y("%t"),
     {0}},
    {"operand of a wgmma",
     "interp_not_landed",
     "this wgmma reads shared memory before the copy to it has landed",
     COPY("%v0") COPY("%v1") WAIT(1) WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"never written", "interp_unwritten", "k.tir:11:3: note: this is the buffer", LOAD("%v0") Y("%t"), {0}},
    {"written in the other stage", "interp_unwritten", "element [0, 0]", COPY("%v0") WAIT(0) LOAD("%v1") Y("%t"), {0}},
    {"lanes that are off become zero",
     NULL,
     NULL,
     "%k = const {value = 1} : i32[8,8]" L "\n %m = le %o, %k : i1[8,8]" L
     "\n copy_async %px, %v0, %m\n copy_commit\n" WAIT(0) LOAD("%v0") Y("%t"),
     {0, 1, 0}},
    {"lanes that are on read past the end",
     "interp_past_end",
     "reads 4 bytes past the end of buffer 'x'",
     "%k = const {value = 1} : i32[8,8]" L "\n %p = addptr %px, %k : *f32[8,8]" L "\n copy_async %p, %v0\n",
     {0}},
    {"lanes that are off do not",
     NULL,
     NULL,
     "%k = const {value = 1} : i32[8,8]" L "\n %p = addptr %px, %k : *f32[8,8]" L
     "\n %c = const {value = 63} : i32[8,8]" L "\n %m = lt %o, %c : i1[8,8]" L
     "\n copy_async %p, %v0, %m\n copy_commit\n" WAIT(0) LOAD("%v0") Y("%t"),
     {1, 2, 0}},
    {"copies from a misaligned address",
     "interp_misaligned",
     "reads 4 bytes at an address",
     "%i = cast %px : i64[8,8]" L "\n %k = const {value = -2} : i64[8,8]" L "\n %z = const {value = 2} : i64[8,8]" L
     "\n %a = add %i, %z : i64[8,8]" L "\n %p = cast %a : *f32[8,8]" L "\n %c = const {value = 63} : i32[8,8]" L
     "\n %m = lt %o, %c : i1[8,8]" L "\n copy_async %p, %v0, %m\n",
     {0}},
    {"no such stage",
     "interp_stage",
     "stage 2 of a buffer with 2 stages",
     "%i2 = const {value = 2} : i32\n %v2 = buffer_at %b, %i2 : shared f32[8,8]" S "\n",
     {0}},
    {"stored and loaded transposed",
     NULL,
     NULL,
     "%a = load %px : f32[8,8]" L "\n buffer_store %a, %v0\n %w = buffer_trans %v0 {perm = [1, 0]} : shared "
     "f32[8,8]@s(8..32,1..4)row(0,0)align(16)\n" LOAD("%w") Y("%t"),
     {0, 8, 63}},

    {"product that was waited for",
     NULL,
     NULL,
     BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {1120, 1148, 16996}},
    {"product that was not waited for",
     "interp_undef_value",
     "did not go through a wgmma_wait that covers it",
     BOTH WGMMA("%d", "%zero") Y("%d"),
     {0}},
    {"product behind its wait, but not through it",
     "interp_undef_value",
     "did not go through",
     BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%d"),
     {0}},
    {"product with its group under way",
     "interp_undef_value",
     "did not go through",
     BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 1) Y("%e"),
     {0}},
    {"the older of two products",
     NULL,
     NULL,
     BOTH WGMMA("%d", "%zero") WGMMA("%f", "%zero") WGMMA_WAIT("%e", "%d", 1) Y("%e"),
     {1120, 1148, 16996}},
    {"sum of two products",
     NULL,
     NULL,
     BOTH WGMMA("%d", "%zero") WGMMA("%f", "%d") WGMMA_WAIT("%e", "%f", 0) Y("%e"),
     {2240, 2296, 33992}},
    {"sum through a loop",
     NULL,
     NULL,
     BOTH "%n = const {value = 3} : i32\n %s = for %i0, %n, %i1, %zero : f32[8,8]" L " (%i: i32, %acc: f32[8,8]" L
          ") {\n" WGMMA("%p", "%acc") "yield %p }\n" WGMMA_WAIT("%e", "%s", 0) Y("%e"),
     {3360, 3444, 50988}},
    {"left operand in registers",
     NULL,
     NULL,
     BOTH LOAD("%v0") "%d = wgmma %t, %v1, %zero : f32[8,8]" L "\n" WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {1120, 1148, 16996}},

    {"operand overwritten by a store",
     "interp_still_read",
     "this buffer_store overwrites shared memory",
     BOTH WGMMA("%d", "%zero") "buffer_store %zero, %v1\n" WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"operand overwritten by a copy",
     "interp_still_read",
     "this wgmma reads it, and nothing has waited for it",
     BOTH WGMMA("%d", "%zero") COPY("%v1") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"transposed operand overwritten",
     "interp_still_read",
     "this copy_async overwrites",
     BOTH "%w = buffer_trans %v1 {perm = [1, 0]} : shared f32[8,8]@s(8..32,1..4)row(0,0)align(16)\n"
          "%d = wgmma %v0, %w, %zero : f32[8,8]" L "\n" COPY("%v1") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"operand overwritten behind the wait",
     NULL,
     NULL,
     BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) "buffer_store %zero, %v1\n" Y("%e"),
     {1120, 1148, 16996}},
    {"operand of the older product overwritten",
     NULL,
     NULL,
     "%u = alloc : shared f32[8,8]" S "\n" BOTH COPY("%u") WAIT(0) "%d = wgmma %u, %v1, %zero : f32[8,8]" L "\n" WGMMA(
         "%f", "%zero") WGMMA_WAIT("%g", "%d", 1) COPY("%u") WGMMA_WAIT("%e", "%f", 0) Y("%e"),
     {1120, 1148, 16996}},

    {"buffer of a loop's body in the next iteration",
     "interp_still_read",
     "a wgmma_wait that covers it",
     BOTH
     "%n = const {value = 2} : i32\n %s = for %i0, %n, %i1, %zero : f32[8,8]" L " (%i: i32, %acc: f32[8,8]" L ") {\n"
     "%u = alloc : shared f32[8,8]" S "\n buffer_store %zero, %u\n fence_async\n"
     "%p = wgmma %v0, %u, %acc : f32[8,8]" L "\n" WGMMA_WAIT("%q", "%p", 1) "yield %q }\n" WGMMA_WAIT("%e", "%s", 0)
         Y("%e"),
     {0}},
    {"buffer of a loop's body with a wait",
     NULL,
     NULL,
     BOTH "%n = const {value = 2} : i32\n %s = for %i0, %n, %i1, %zero : f32[8,8]" L " (%i: i32, %acc: f32[8,8]" L
          ") {\n"
          "%u = alloc : shared f32[8,8]" S "\n buffer_store %zero, %u\n fence_async\n"
          "%p = wgmma %v0, %u, %acc : f32[8,8]" L "\n" WGMMA_WAIT("%q", "%p", 0) "yield %q }\n" Y("%s"),
     {0, 0, 0}},
    {"overwritten while a copy is under way",
     "interp_still_copied",
     "the copy begins here",
     COPY("%v0") "buffer_store %zero, %v0\n",
     {0}},
    {"overwritten behind the copy",
     NULL,
     NULL,
     COPY("%v0") WAIT(0) "buffer_store %zero, %v0\n" LOAD("%v0") Y("%t"),
     {0, 0, 0}},

    {"tensor copy", NULL, NULL, RING(0) TAKE("%a", "%i0") LOAD("%a") GIVE Y("%t"), {0, 1, 63}},
    {"tensor copy that begins in front", NULL, NULL, RING(0) TAKE("%a", "%m1") LOAD("%a") Y("%t"), {0, 0, 54}},
    {"tensor copy that ends behind", NULL, NULL, RING(0) TAKE("%a", "%i4") LOAD("%a") Y("%t"), {36, 37, 0}},
    {"rows out of range may lie anywhere",
     NULL,
     NULL,
     RING(0) "%one = const {value = 1} : i64\n %far = const {value = 4611686018427387904} : i64\n"
             "%m2 = tensor_map %x, %e8, %one, %far {swizzle = 32, box = [8, 8]} : u64\n"
             "%a = tma_load %m2, %q, %i0, %i0 : shared f32[8,8]" T "\n" LOAD("%a") Y("%t"),
     {0, 1, 0}},
    {"more tensor copies than stages",
     "interp_ring_full",
     "this is the ring",
     RING(0) TAKE("%a", "%i0") TAKE("%b1", "%i0") TAKE("%c", "%i0"),
     {0}},
    {"as many as there are free again",
     NULL,
     NULL,
     RING(0) TAKE("%a", "%i0") TAKE("%b1", "%i0") GIVE TAKE("%c", "%i4") LOAD("%c") GIVE TAKE("%d", "%i0") Y("%t"),
     {36, 37, 0}},
    {"a release that has no effect",
     "interp_ring_full",
     "a tma_release is missing",
     RING(1) TAKE("%a", "%i0") GIVE TAKE("%b1", "%i0") TAKE("%c", "%i0"),
     {0}},
    {"read behind a release that has no effect",
     NULL,
     NULL,
     RING(1) TAKE("%a", "%i0") GIVE LOAD("%a") Y("%t"),
     {0, 1, 63}},
    {"read behind its release",
     "interp_released",
     "it was released here",
     RING(0) TAKE("%a", "%i0") GIVE LOAD("%a") Y("%t"),
     {0}},
    {"the stage behind the one that was released",
     NULL,
     NULL,
     RING(0) TAKE("%a", "%i4") TAKE("%b1", "%i0") GIVE LOAD("%b1") Y("%t"),
     {0, 1, 63}},
    {"a ring that moves along",
     "interp_released",
     "this buffer_load reads",
     RING(0) "%a, %c = tma_load %m, %q, %m, %q2, %i0, %i0, %i0, %i0 : shared f32[8,8]" T ", shared f32[8,8]" T
             "\n" GIVE LOAD("%c") Y("%t"),
     {0}},
    {"operand that is released before the wait",
     "interp_still_needed",
     "this wgmma reads it, and nothing has waited for it",
     RING(0) TAKE("%a", "%i0") "%d = wgmma %a, %a, %zero : f32[8,8]" L "\n" GIVE WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"operand that is released behind the wait",
     NULL,
     NULL,
     RING(0) TAKE("%a", "%i0") "%d = wgmma %a, %a, %zero : f32[8,8]" L "\n" WGMMA_WAIT("%e", "%d", 0) GIVE Y("%e"),
     {1120, 1148, 16996}},

    {"tensor store", NULL, NULL, PUT(8, "%i0", 1), {0, 1, 63}},
    {"tensor store by columns", NULL, NULL, PUT(8, "%i0", 0), {0, 8, 63}},
    {"tensor store that begins in front", NULL, NULL, PUT(8, "%m1", 1), {9, 10, 0}},
    {"tensor store that ends behind", NULL, NULL, PUT(8, "%i4", 1), {0, 0, 27}},
    {"tensor store behind the memory's end",
     "interp_past_end",
     "writes 4 bytes past the end of buffer 'y'",
     PUT(12, "%i4", 1),
     {0}},

    {"stored operand without a fence",
     "interp_unfenced",
     "it was stored here",
     BOTH "buffer_store %zero, %v1\n" WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"stored operand with a fence",
     NULL,
     NULL,
     BOTH "buffer_store %zero, %v1\n fence_async\n" WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0, 0, 0}},
    {"fence before the store",
     "interp_unfenced",
     "without a fence_async since then",
     BOTH "fence_async\n buffer_store %zero, %v1\n" WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e"),
     {0}},
    {"stored in another buffer",
     NULL,
     NULL,
     "%u = alloc : shared f32[8,8]" S "\n buffer_store %zero, %u\n" BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0)
         Y("%e"),
     {1120, 1148, 16996}},
};

Test(interp_shared, each_mistake_and_its_clean_twin) {
  for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
    lab *l = lab_new();
    float x[64], y[64] = {0};
    for (int k = 0; k < 64; k++) x[k] = (float)k;
    job j = {.args = {0}};
    job_add(&j, "x", x, sizeof x);
    job_add(&j, "y", y, sizeof y);
    const char *text = arena_printf(l->a, "%s%s  return\n}\n", ASYNC, twins[i].body), *name = twins[i].name;
    interp_status s = lab_run(l, text, &j);
    const char *said = lab_messages(l);
    if (twins[i].id) {
      cr_assert(s == INTERP_FINDINGS, "%s: nothing was found", name);
      cr_assert(strcmp(l->sink.first->desc->id, twins[i].id) == 0 && l->sink.first == l->sink.last, "%s: found\n%s",
                name, said);
      cr_assert(strstr(said, twins[i].text), "%s: says\n%s", name, said);
    } else {
      const float *want = twins[i].want;
      cr_assert(s == INTERP_OK && !*said, "%s: false alarm\n%s", name, said);
      cr_assert(y[0] == want[0] && y[1] == want[1] && y[63] == want[2], "%s: %g %g .. %g", name, (double)y[0],
                (double)y[1], (double)y[63]);
    }
    arena_free(l->a);
  }
}

/* Two programs: what one leaves under way, or its buffer holds, is nothing to the next. */
Test(interp_shared, programs_begin_with_nothing_under_way) {
  lab *l = lab_new();
  float x[64] = {0}, y[64] = {0};
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  job_add(&j, "y", y, sizeof y);
  l->options.grid[0] = 2;
  lab_run_clean(l, ASYNC "buffer_store %zero, %v0\n fence_async\n" COPY("%v1") "  return\n}\n", &j);
  arena_free(l->a);
}

Test(interp_shared, copies_of_programs_race_with_stores) {
  lab *l = lab_new();
  float x[64] = {0}, y[64] = {0};
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  job_add(&j, "y", y, sizeof y);
  l->options.grid[0] = 2;
  const char *body = "%pid = program_id {axis = 0} : i32\n %one = eq %pid, %i1 : i1\n %k = splat %one : i1[8,8]" L
                     "\n copy_async %px, %v0\n store %px, %zero, %k\n  return\n}\n";
  cr_assert_eq(lab_run(l, arena_printf(l->a, "%s%s", ASYNC, body), &j), INTERP_FINDINGS);
  cr_assert_str_eq(l->sink.first->desc->id, "interp_read_write", "%s", lab_messages(l));
  arena_free(l->a);
}

/* Whatever the precision attribute says of a dot, wgmma and mma read f32 as tf32. */
Test(interp_shared, f32_operands_are_read_as_tf32) {
  lab *l = lab_new();
  float x[64], y[64] = {0};
  for (int k = 0; k < 64; k++) x[k] = 1 + 0x1p-13f;
  job j = {.args = {0}};
  job_add(&j, "x", x, sizeof x);
  job_add(&j, "y", y, sizeof y);
  lab_run_clean(l, ASYNC BOTH WGMMA("%d", "%zero") WGMMA_WAIT("%e", "%d", 0) Y("%e") "  return\n}\n", &j);
  cr_assert_eq(y[0], 8.0f);
  arena_free(l->a);
}

/* Once buffers have places, two of them may be one. */
Test(interp_shared, buffers_may_share_their_place) {
  static const struct {
    int place;
    const char *id;
  } cases[] = {{256 + 128, "interp_still_read"}, {256 + 256, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lab *l = lab_new();
    float x[64] = {0}, y[64] = {0};
    job j = {.args = {0}};
    job_add(&j, "x", x, sizeof x);
    job_add(&j, "y", y, sizeof y);
    const char *text = arena_printf(
        l->a,
        "kernel @a(%%x: *f32, %%y: *f32) num_warps(1) shared(768) stage(placed) {\n"
        "  %%zero = const {value = 0.0} : f32[8,8]" L "\n  %%u = alloc {scratch = 0} : shared f32[8,8]" S
        "\n  %%v = alloc {scratch = 256} : shared f32[8,8]" S "\n  %%w = alloc {scratch = %d} : shared f32[8,8]" S
        "\n  buffer_store %%zero, %%u\n buffer_store %%zero, %%v\n fence_async\n"
        "  %%d = wgmma %%u, %%v, %%zero : f32[8,8]" L
        "\n  buffer_store %%zero, %%w\n %%e = wgmma_wait %%d {pending = 0} : f32[8,8]" L "\n  return\n}\n",
        cases[i].place);
    if (cases[i].id) {
      cr_assert_eq(lab_run(l, text, &j), INTERP_FINDINGS);
      cr_assert_str_eq(l->sink.first->desc->id, cases[i].id);
    } else {
      lab_run_clean(l, text, &j);
    }
    arena_free(l->a);
  }
}
