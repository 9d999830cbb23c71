/* Tensor maps of launches: what is asked of a driver and how often, what hardware cannot do, and kernels of sources
 * that then run without maps. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "tests/fake/start.h"
#include "tests/test.h"
#include "tests/unit/runtime_checks.h"

/* ---- a kernel with maps ------------------------------------------------------------------------------------------ */

static tk_artifact_param params[] = {
    {.name = "a", .kind = TK_PARAM_POINTER, .dtype = TK_f16, .is_const = true, .divisible = 2, .passed = true},
    {.name = "b", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .divisible = 4, .passed = true},
    {.name = "m", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true},
    {.name = "k", .kind = TK_PARAM_SCALAR, .dtype = TK_i64, .divisible = 1, .passed = true},
    {.name = "one", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .equals_one = true},
    {.name = "stride", .kind = TK_PARAM_SCALAR, .dtype = TK_i64, .divisible = 1, .passed = true},
    {.name = "scale", .kind = TK_PARAM_SCALAR, .dtype = TK_f32, .divisible = 1, .passed = true},
    {.name = "BK", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = 64}}};
static tk_artifact_map maps[] = {{"a", "f16", 2, "k, m", "one, stride", {64, 128}, 128},
                                 {"b", "tf32", 3, "BK, cdiv(k, BK), m", "1, BK, k", {8, 2, 256}, 32}};
static const char body[] =
    ".version 8.0\n.target sm_90a\n"
    ".visible .entry copy(.param .u64 .ptr p0, .param .u64 .ptr p1, .param .u32 p2, .param .u64 p3, .param .u64 p4, "
    ".param .f32 p5";
static const char map_param[] = ", .param .align 64 .b8 map[128]";
enum { FIRST_MAP = 6 }; /* among the parameters of the entry */

static char *copy_ptx(const tk_artifact_map *its_maps, int n_maps) {
  tk_artifact_kernel k = {.name = "copy",
                          .num_warps = 8,
                          .producer_warps = 4,
                          .num_stages = 3,
                          .num_ctas = 1,
                          .gang = 1,
                          .n_params = N(params),
                          .params = params,
                          .n_maps = n_maps,
                          .maps = (tk_artifact_map *)its_maps};
  tk_artifact a = {.source = "copy.tk", .arch = "sm_90a", .ptx_version = 80, .n_kernels = 1, .kernels = &k};
  char *head, *text;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(&a, &head, &e), "%s", e.message);
  text = malloc(strlen(head) + sizeof body + (size_t)n_maps * sizeof map_param + 16);
  strcpy(text, head);
  strcat(text, body);
  for (int i = 0; i < n_maps; i++) strcat(text, map_param);
  strcat(text, ") { ret; }\n");
  free(head);
  return text;
}

static tk_status try_load(tk_context *cx, const tk_artifact_map *its_maps, int n_maps, tk_kernel **out) {
  tk_module *m;
  char *text = copy_ptx(its_maps, n_maps);
  OK(cx, tk_module_load_text(cx, "copy.ptx", text, strlen(text), NULL, &m));
  free(text);
  tk_status s = tk_module_kernel(m, "copy", out);
  tk_module_free(m);
  return s;
}

static const tk_launch_opts one_block = {.grid = {.dims = 1, .at = {1}}};

#define ARGS(a, b, m, k, stride, scale) \
  TK_ARGS(tk_ptr(a), tk_ptr(b), tk_i32(m), tk_i64(k), tk_i32(1), tk_i64(stride), tk_f32(scale))

static fake_map map_of(const fake_launch *l, int i) {
  fake_map m;
  memcpy(&m, l->params[FIRST_MAP + i].bytes, sizeof m);
  return m;
}

static tk_context *open_fake(void) {
  tk_options o = fake_start();
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &o));
  return cx;
}

/* ---- a .ptx ------------------------------------------------------------------------------------------------------ */

Test(runtime_maps, what_the_driver_is_asked) {
  tk_context *cx = open_fake();
  tk_kernel *k;
  tk_kernel_attributes attributes;
  OK(cx, try_load(cx, maps, N(maps), &k));
  OK(cx, tk_launch(k, &one_block, ARGS(0x10010, 0x20000, 100, 1000, 1008, 2)));
  const fake_launch *l = &fake->last;
  cr_assert(l->block[0] == 32 * 12 && l->n_params == 8 && fake->n_encoded == 2);
  const fake_map wanted[] = {{0x10010, {1000, 100}, {2016}, {64, 128}, 6, 2, 3, 2},
                             {0x20000, {64, 16, 100}, {256, 4000}, {8, 2, 256}, 11, 3, 1, 2}};
  for (int i = 0; i < 2; i++) {
    fake_map m = map_of(l, i);
    cr_expect(m.address == wanted[i].address && m.type == wanted[i].type && m.rank == wanted[i].rank &&
                  m.swizzle == wanted[i].swizzle && m.promotion == wanted[i].promotion,
              "map %d: address %llx type %d rank %d swizzle %d promotion %d", i, (unsigned long long)m.address, m.type,
              m.rank, m.swizzle, m.promotion);
    cr_expect(memcmp(m.sizes, wanted[i].sizes, sizeof m.sizes) == 0, "map %d", i);
    cr_expect(memcmp(m.strides, wanted[i].strides, sizeof m.strides) == 0, "map %d", i);
    cr_expect(memcmp(m.box, wanted[i].box, sizeof m.box) == 0, "map %d", i);
  }
  OK(cx, tk_kernel_attributes_get(k, &attributes));
  cr_assert(attributes.num_warps == 8 && attributes.producer_warps == 4 && attributes.blocks_per_sm == 2);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

/* The driver's number for each type that a map may have. */
Test(runtime_maps, types) {
  static const struct {
    tk_dtype of;
    const char *name;
    int type, row; /* elements in 16 bytes */
  } cases[] = {
      {TK_i8, "i8", 0, 16},  {TK_u8, "u8", 0, 16},         {TK_f8e4m3, "f8e4m3", 0, 16}, {TK_i1, "i1", 0, 16},
      {TK_i16, "i16", 1, 8}, {TK_f8e5m2, "f8e5m2", 0, 16}, {TK_u16, "u16", 1, 8},        {TK_u32, "u32", 2, 4},
      {TK_i32, "i32", 3, 4}, {TK_u64, "u64", 4, 2},        {TK_i64, "i64", 5, 2},        {TK_f16, "f16", 6, 8},
      {TK_f32, "f32", 7, 4}, {TK_f64, "f64", 8, 2},        {TK_bf16, "bf16", 9, 8},      {TK_f32, "tf32", 11, 4}};
  tk_context *cx = open_fake();
  for (int i = 0; i < N(cases); i++) {
    tk_artifact_map m = {"b", cases[i].name, 1, "k", "1", {cases[i].row}, 0};
    tk_kernel *k;
    params[1].dtype = cases[i].of;
    OK(cx, try_load(cx, &m, 1, &k));
    OK(cx, tk_launch(k, &one_block, ARGS(0, 256, 1, 7, 16, 1)));
    cr_expect(map_of(&fake->last, 0).type == cases[i].type && map_of(&fake->last, 0).swizzle == 0, "%s", cases[i].name);
    tk_kernel_free(k);
  }
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, equal_inputs_are_encoded_once) {
  tk_context *cx = open_fake();
  tk_kernel *k;
  tk_prepared *p;
  OK(cx, try_load(cx, maps, N(maps), &k));
  const struct {
    uint64_t a;
    int m;
    int64_t k, stride;
    float scale;
    int encoded;
  } cases[] = {{256, 32, 128, 128, 1, 2}, {256, 32, 128, 128, 1, 0}, {256, 32, 128, 128, 2, 0},
               {512, 32, 128, 128, 2, 1}, {512, 32, 128, 256, 2, 1}, {512, 33, 128, 256, 2, 2},
               {512, 33, 128, 256, 2, 0}, {512, 33, 192, 256, 2, 2}, {256, 32, 128, 128, 1, 2}};
  for (int i = 0; i < N(cases); i++) {
    int before = fake->n_encoded;
    OK(cx, tk_launch(k, &one_block, ARGS(cases[i].a, 1024, cases[i].m, cases[i].k, cases[i].stride, cases[i].scale)));
    cr_expect_eq(fake->n_encoded - before, cases[i].encoded, "case %d: %d", i, fake->n_encoded - before);
    fake_map m = map_of(&fake->last, 0);
    cr_expect(
        m.address == cases[i].a && m.sizes[1] == (uint64_t)cases[i].m && m.strides[0] == 2 * (uint64_t)cases[i].stride,
        "case %d", i);
  }

  int before = fake->n_encoded;
  OK(cx, tk_launch_prepare(k, &one_block, ARGS(256, 1024, 32, 128, 128, 1), &p)); /* has its own */
  for (int i = 0; i < 3; i++) OK(cx, tk_prepared_run(p));
  cr_assert_eq(fake->n_encoded - before, 2);
  OK(cx, tk_prepared_set(p, 6, tk_f32(3)));
  OK(cx, tk_prepared_run(p));
  cr_assert_eq(fake->n_encoded - before, 2);
  OK(cx, tk_prepared_set(p, 0, tk_ptr(768)));
  cr_assert_eq(fake->n_encoded - before, 3);
  OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 32, 128, 136, 1)));
  OK(cx, tk_prepared_run(p));
  cr_assert(map_of(&fake->last, 0).address == 768 && map_of(&fake->last, 0).strides[0] == 256);

  before = fake->n_encoded;
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "no multiple of 16", tk_prepared_set(p, 5, tk_i64(129)));
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "no multiple of 16", tk_prepared_set(p, 1, tk_ptr(1028)));
  OK(cx, tk_prepared_run(p)); /* as it was */
  cr_assert(map_of(&fake->last, 0).strides[0] == 256 && map_of(&fake->last, 1).address == 1024);
  OK(cx, tk_prepared_set(p, 6, tk_f32(4)));
  cr_assert_eq(fake->n_encoded, before);
  tk_prepared_free(p);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, an_empty_tensor_has_a_map_of_zeros) {
  static const unsigned char zeros[128];
  tk_context *cx = open_fake();
  tk_kernel *k;
  OK(cx, try_load(cx, maps, N(maps), &k));
  for (int i = 0; i < 2; i++) {
    OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
    OK(cx, tk_launch(k, &one_block, ARGS(i ? 258 : 256, 1024, 8, 0, 3, 1))); /* whatever the address and stride */
    cr_assert(fake->n_encoded == 2 * (i + 1) && fake->n_launches == 2 * (i + 1));
    for (int m = 0; m < 2; m++)
      cr_assert(memcmp(fake->last.params[FIRST_MAP + m].bytes, zeros, sizeof zeros) == 0, "map %d", m);
  }
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, what_hardware_cannot_do) {
  static const struct {
    uint64_t a, b;
    int m;
    int64_t k, stride;
    const char *says; /* NULL: it can */
  } cases[] = {
      {16, 32, 1, 1 << 2, 8, NULL},
      {24, 32, 1, 4, 8, "tensor behind argument 'a' through a tensor map: its address 0x18 is no multiple of 16"},
      {16, 36, 1, 4, 8, "tensor behind argument 'b' through a tensor map: its address 0x24 is no multiple of 16"},
      {16, 32, 1, 4, 12, "its axis 1 has a stride of 12 elements: in bytes no multiple of 16 below 2^40"},
      {16, 32, 1, 4, -8, "its axis 1 has a stride of -8"},
      {16, 32, 1, 6, 8, "'b' through a tensor map: its axis 2 has a stride of 6"},
      {16, 32, 1, 4, (INT64_C(1) << 39) - 8, NULL},
      {16, 32, 1, 4, INT64_C(1) << 39, "its axis 1 has a stride of 549755813888"},
      {16, 32, 1, 4, INT64_MIN, "its axis 1 has a stride of -9223372036854775808"},
      {16, 32, 1, (INT64_C(1) << 32), 8, NULL},
      {16, 32, 1, (INT64_C(1) << 32) + 4, 8, "its axis 0 has 4294967300 elements, not 1 .. 2^32"},
      {16, 32, -1, 4, 8, "its axis 1 has -1 elements"},
      {16, 32, 1, -1, 8,
       "'a' through a tensor map: an argument that its size or a position in it depends on is negative."},
  };
  tk_context *cx = open_fake();
  tk_kernel *k;
  OK(cx, try_load(cx, maps, N(maps), &k));
  for (int i = 0; i < N(cases); i++) {
    int before = fake->n_launches;
    tk_status s = tk_launch(k, &one_block, ARGS(cases[i].a, cases[i].b, cases[i].m, cases[i].k, cases[i].stride, 1));
    cr_expect(s == (cases[i].says ? TK_SPECIALIZATION_MISMATCH : TK_OK), "case %d: %s: %s", i, tk_status_name(s),
              tk_error(cx));
    cr_expect_eq(fake->n_launches, before + (s == TK_OK), "case %d", i);
    if (cases[i].says)
      cr_expect(strstr(tk_error(cx), cases[i].says) && strstr(tk_error(cx), "Compile it with --no-tensor-maps."),
                "case %d: %s", i, tk_error(cx));
  }
  OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(0)}, ARGS(24, 32, 1, 4, 8, 1))); /* runs nothing */
  tk_kernel_free(k);

  tk_artifact_map m = {"b", "f32", 2, "k, m", "stride, 4 * k * k", {4, 1}, 0};
  OK(cx, try_load(cx, &m, 1, &k));
  OK(cx, tk_launch(k, &one_block, ARGS(16, 32, 2, 4, 1, 1)));
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "elements of its axis 0 lie 2 apart",
        tk_launch(k, &one_block, ARGS(16, 32, 2, 4, 2, 1)));
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "column 15: the result does not fit in 64 bits. Compile",
        tk_launch(k, &one_block, ARGS(16, 32, 2, INT64_C(1) << 31, 1, 1)));
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, a_driver_that_makes_none) {
  tk_context *cx = open_fake();
  tk_kernel *k;
  OK(cx, try_load(cx, maps, N(maps), &k));
  fail_with("cuTensorMapEncodeTiled", 1);
  FAILS(cx, TK_INVALID_ARGUMENT, "argument 'a' through a tensor map: the driver says CUDA_ERROR_INVALID_VALUE (1)",
        tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
  fake->fail = NULL;
  OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
  fail_with("cuTensorMapEncodeTiled", 700);
  fake->fail_after = 1; /* the second map of the launch */
  FAILS(cx, TK_ILLEGAL_ACCESS, "argument 'b'", tk_launch(k, &one_block, ARGS(512, 2048, 8, 64, 64, 1)));
  fake->fail = NULL;
  OK(cx, tk_launch(k, &one_block, ARGS(512, 2048, 8, 64, 64, 1)));
  cr_assert(map_of(&fake->last, 0).address == 512 && map_of(&fake->last, 1).address == 2048);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));

  char path[160];
  snprintf(path, sizeof path, "./%s", fake_library("fake_cuda_no_maps", "-DWITHOUT_TENSOR_MAPS"));
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cuda", .driver_path = path}));
  OK(cx, try_load(cx, maps, N(maps), &k));
  FAILS(cx, TK_DRIVER_TOO_OLD, "has no cuTensorMapEncodeTiled",
        tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, expressions_are_checked_when_a_kernel_is_loaded) {
  static const struct {
    tk_artifact_map map;
    const char *says;
  } cases[] = {
      {{"a", "f16", 2, "k, q", "1, k", {8, 1}, 0}, "the tensor map of 'a' in 'copy' has the sizes \"k, q\": column 4"},
      {{"a", "f16", 2, "k, m", "1, k *", {8, 1}, 0}, "has the strides \"1, k *\": column 7"},
      {{"a", "f16", 2, "k", "1, k", {8, 1}, 0}, "another number of axes"},
      {{"a", "f16", 1, "k", "1, k", {8}, 0}, "another number of axes"},
      {{"a", "f16", 5, "k, 1, 1, 1, 1, 1", "1, k, k, k, k", {8, 1, 1, 1, 1}, 0}, "more than 5 values"},
  };
  tk_context *cx = open_fake();
  for (int i = 0; i < N(cases); i++) {
    tk_kernel *k;
    FAILS(cx, TK_BAD_ARTIFACT, cases[i].says, try_load(cx, &cases[i].map, 1, &k));
  }
  OK(cx, tk_context_close(cx));
}

/* Launches that had not the map of their own arguments. */
static atomic_int confused;

static void compare_strides(const fake_launch *l) {
  uint64_t stride;
  memcpy(&stride, l->params[4].bytes, sizeof stride);
  if (map_of(l, 0).strides[0] != 2 * stride) atomic_fetch_add(&confused, 1);
}

static void *launch_many(void *user) {
  for (int i = 0; i < 2000; i++)
    cr_expect_eq(tk_launch(user, &one_block, ARGS(256, 1024, 8, 64, 64 + i / 3 % 5 * 8, 1)), TK_OK);
  return NULL;
}

Test(runtime_maps, threads_share_a_kernel) {
  tk_context *cx = open_fake();
  tk_kernel *k;
  pthread_t t[4];
  OK(cx, try_load(cx, maps, N(maps), &k));
  fake->launched = compare_strides;
  for (int i = 0; i < N(t); i++) cr_assert_eq(pthread_create(&t[i], NULL, launch_many, k), 0);
  for (int i = 0; i < N(t); i++) pthread_join(t[i], NULL);
  cr_expect_eq(atomic_load(&confused), 0);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

/* ---- a source ---------------------------------------------------------------------------------------------------- */

static struct {
  int compiled, map_free;
  bool stubborn; /* gives maps that were not asked for */
} saw;

static tk__declared_param declared[] = {
    {.name = "a", .kind = TK_PARAM_POINTER, .typed = true, .dtype = TK_f16, .is_const = true, .no_specialize = true},
    {.name = "b", .kind = TK_PARAM_POINTER, .typed = true, .dtype = TK_f32, .no_specialize = true},
    {.name = "m", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_i32, .no_specialize = true},
    {.name = "k", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_i64, .no_specialize = true},
    {.name = "one", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_i32, .no_specialize = true},
    {.name = "stride", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_i64, .no_specialize = true},
    {.name = "scale", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_f32, .no_specialize = true},
    {.name = "BK", .kind = TK_PARAM_CONSTEXPR}};
static tk__declaration declaration = {"copy", N(declared), declared};

static bool describe(const char *path, const char *text, size_t len, tk__declaration **out, int *n, char **why) {
  (void)path, (void)text, (void)len;
  *out = &declaration;
  *n = 1;
  *why = NULL;
  return true;
}
static void forget(tk__declaration *d, int n) { (void)d, (void)n; }

static bool compile(const tk__build *b, char **ptx, size_t *len, char **said, char **why) {
  saw.compiled++;
  saw.map_free += b->no_tensor_maps;
  *said = *why = NULL;
  *ptx = copy_ptx(maps, b->no_tensor_maps && !saw.stubborn ? 0 : N(maps));
  *len = strlen(*ptx);
  return true;
}
static bool interpret(const tk__build *b, const tk__interpretation *run, bool *fault, char **why) {
  (void)b, (void)run;
  *fault = false;
  *why = NULL;
  return true;
}
static const tk_compiler compiler = {describe, forget, compile, interpret};

static tk_kernel *load_source(tk_context *cx, const char *signature) {
  tk_module *m;
  tk_kernel *k;
  OK(cx, tk_module_load_text(cx, "copy.tk", "", 0, &(tk_load_options){.signature = signature}, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  tk_module_free(m);
  return k;
}

static bool maps_went_along(void) { return fake->last.n_params == FIRST_MAP + N(maps); }

Test(runtime_maps, a_source_runs_without_maps_where_they_do_not_fit) {
  static const char *const signatures[] = {NULL, "a=*f16,b=*f32,m=i32,k=i64,one=i32:1,stride=i64,scale=f32"};
  for (int way = 0; way < N(signatures); way++) {
    tk_options o = fake_start();
    tk_context *cx;
    tk_prepared *p;
    o.compiler = &compiler;
    saw.compiled = saw.map_free = 0;
    OK(cx, tk_context_open(&cx, &o));
    tk_kernel *k = load_source(cx, signatures[way]);
    OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
    cr_assert(saw.compiled == 1 && maps_went_along());
    for (int i = 0; i < 3; i++) {
      OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 65, 1)));
      cr_assert(saw.compiled == 2 && saw.map_free == 1 && !maps_went_along());
      OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 64, 1)));
      cr_assert(saw.compiled == 2 && maps_went_along());
    }
    OK(cx, tk_launch(k, &one_block, ARGS(256, 1024, 0, 64, 64, 1))); /* empty: a mask may leave out all of it */
    cr_assert(saw.compiled == 2 && !maps_went_along());
    OK(cx, tk_launch_prepare(k, &one_block, ARGS(258, 1024, 8, 64, 64, 1), &p));
    OK(cx, tk_prepared_run(p));
    cr_assert(!maps_went_along());
    OK(cx, tk_prepared_set(p, 0, tk_ptr(512)));
    OK(cx, tk_prepared_run(p));
    cr_assert(maps_went_along() && map_of(&fake->last, 0).address == 512);
    fail_with("cuTensorMapEncodeTiled", 801);
    OK(cx, tk_prepared_set(p, 0, tk_ptr(1024)));
    OK(cx, tk_prepared_run(p));
    OK(cx, tk_launch(k, &one_block, ARGS(768, 1024, 8, 64, 64, 1)));
    fake->fail = NULL;
    cr_assert(!maps_went_along() && saw.compiled == 2);
    tk_prepared_free(p);
    tk_kernel_free(k);
    OK(cx, tk_context_close(cx));
    cr_assert_eq(fake->live_modules, 0);
  }
}

Test(runtime_maps, a_compiler_that_cannot_do_without_is_found_out) {
  tk_options o = fake_start();
  tk_context *cx;
  o.compiler = &compiler;
  saw.stubborn = true;
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load_source(cx, NULL);
  FAILS(cx, TK_BAD_ARTIFACT, "a tensor map that was not asked for",
        tk_launch(k, &one_block, ARGS(256, 1024, 8, 64, 65, 1)));
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_maps, an_interpreted_kernel_needs_none) {
  tk_context *cx;
  tk_buffer *b;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu", .compiler = &compiler}));
  tk_kernel *k = load_source(cx, NULL);
  OK(cx, tk_buffer_new(cx, 64, &b));
  OK(cx,
     tk_launch(k, &one_block, TK_ARGS(tk_buf(b), tk_buf(b), tk_i32(1), tk_i64(1), tk_i32(1), tk_i64(3), tk_f32(1))));
  cr_assert_eq(saw.compiled, 1);
  tk_buffer_free(b);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

/* ---- in the emulator --------------------------------------------------------------------------------------------- */

/* out[m][n] = sum over t of tf32(x[t][m][n]) + y[m][32 t + n], in tiles of 8 x 32. Warp 8 copies tiles of x (3 axes)
   and y (2 axes) into a ring of two stages; warps 0 to 7 add them up, one element a thread, and copy the tile of out
   back. */
static const char sums_body[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n"
    ".visible .entry sums(.param .u64 .ptr .align 16 px, .param .u64 .ptr .align 16 py, .param .u64 .ptr .align 16 "
    "pout,\n"
    " .param .u32 pt, .param .u32 pm, .param .u32 pn, .param .align 64 .b8 map_x[128], .param .align 64 .b8 "
    "map_y[128],\n"
    " .param .align 64 .b8 map_out[128])\n.reqntid 384, 1, 1\n{\n"
    " .reg .pred %p<6>; .reg .b32 %r<32>; .reg .f32 %f<4>; .reg .b64 %rd<8>;\n"
    " mov.b64 %rd1, map_x; cvta.param.u64 %rd1, %rd1;\n mov.b64 %rd2, map_y; cvta.param.u64 %rd2, %rd2;\n"
    " mov.b64 %rd3, map_out; cvta.param.u64 %rd3, %rd3;\n"
    " ld.param.u32 %r1, [pt]; mov.u32 %r2, %tid.x; mov.u32 %r3, smem;\n"
    " add.u32 %r4, %r3, 5120;\n" /* full, 8 bytes a stage */
    " add.u32 %r5, %r3, 5136;\n" /* empty */
    " mov.u32 %r6, %ctaid.x; shl.b32 %r6, %r6, 5;\n mov.u32 %r7, %ctaid.y; shl.b32 %r7, %r7, 3;\n mov.u32 %r8, 0;\n"
    " setp.ne.u32 %p1, %r2, 0; @%p1 bra READY;\n"
    " mbarrier.init.shared::cta.b64 [%r4], 1; mbarrier.init.shared::cta.b64 [%r4+8], 1;\n"
    " mbarrier.init.shared::cta.b64 [%r5], 8; mbarrier.init.shared::cta.b64 [%r5+8], 8;\n"
    " fence.mbarrier_init.release.cluster;\n"
    "READY:\n bar.sync 0;\n setp.ge.u32 %p2, %r2, 256; @%p2 bra PRODUCE;\n"
    /* consumers: element c of row r lies in chunk (c / 4) ^ r of its row */
    " setmaxnreg.inc.sync.aligned.u32 232;\n mov.f32 %f1, 0f00000000;\n"
    " shr.u32 %r10, %r2, 5; and.b32 %r11, %r2, 31; shr.u32 %r12, %r11, 2; xor.b32 %r12, %r12, %r10;\n"
    " shl.b32 %r12, %r12, 4; and.b32 %r13, %r11, 3; shl.b32 %r13, %r13, 2; shl.b32 %r10, %r10, 7;\n"
    " add.u32 %r10, %r10, %r12; add.u32 %r10, %r10, %r13;\n setp.eq.u32 %p3, %r11, 0;\n"
    "CONSUMER:\n setp.ge.u32 %p4, %r8, %r1; @%p4 bra SUMMED;\n"
    " and.b32 %r14, %r8, 1; shr.u32 %r15, %r8, 1; and.b32 %r15, %r15, 1;\n mad.lo.u32 %r16, %r14, 8, %r4;\n"
    "FULL:\n mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r16], %r15;\n @!%p5 bra FULL;\n"
    " mad.lo.u32 %r17, %r14, 2048, %r3; add.u32 %r17, %r17, %r10;\n"
    " ld.shared.f32 %f2, [%r17]; ld.shared.f32 %f3, [%r17+1024];\n add.f32 %f1, %f1, %f2; add.f32 %f1, %f1, %f3;\n"
    " bar.warp.sync -1;\n mad.lo.u32 %r18, %r14, 8, %r5;\n @%p3 mbarrier.arrive.shared::cta.b64 _, [%r18];\n"
    " add.u32 %r8, %r8, 1;\n bra CONSUMER;\n"
    "SUMMED:\n add.u32 %r19, %r3, 4096; add.u32 %r20, %r19, %r10;\n st.shared.f32 [%r20], %f1;\n"
    " fence.proxy.async.shared::cta;\n bar.sync 1, 256;\n @%p1 bra END;\n"
    " cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r6, %r7}], [%r19];\n"
    " cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;\n bra END;\n"
    "PRODUCE:\n setmaxnreg.dec.sync.aligned.u32 40;\n setp.ne.u32 %p1, %r2, 256; @%p1 bra END;\n mov.u32 %r21, %r6;\n"
    "PRODUCER:\n setp.ge.u32 %p4, %r8, %r1; @%p4 bra END;\n"
    " and.b32 %r14, %r8, 1; shr.u32 %r15, %r8, 1; and.b32 %r15, %r15, 1; xor.b32 %r15, %r15, 1;\n"
    " mad.lo.u32 %r16, %r14, 8, %r4; mad.lo.u32 %r18, %r14, 8, %r5; mad.lo.u32 %r17, %r14, 2048, %r3;\n"
    "EMPTY:\n mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r18], %r15;\n @!%p5 bra EMPTY;\n"
    " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], 2048;\n"
    " cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%r17], [%rd1, {%r6, %r7, %r8}], "
    "[%r16];\n"
    " add.u32 %r17, %r17, 1024;\n"
    " cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r17], [%rd2, {%r21, %r7}], "
    "[%r16];\n"
    " add.u32 %r21, %r21, 32; add.u32 %r8, %r8, 1;\n bra PRODUCER;\n"
    "END:\n ret;\n}\n";

static char *sums_ptx(void) {
  tk_artifact_param p[] = {
      {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .is_const = true, .divisible = 16, .passed = true},
      {.name = "y", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .is_const = true, .divisible = 16, .passed = true},
      {.name = "out", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .divisible = 16, .passed = true},
      {.name = "T", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true},
      {.name = "M", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true},
      {.name = "N", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true}};
  tk_artifact_map m[] = {{"x", "tf32", 3, "N, M, T", "1, N, M * N", {32, 8, 1}, 128},
                         {"y", "f32", 2, "32 * T + N, M", "1, 32 * T + N", {32, 8}, 128},
                         {"out", "f32", 2, "N, M", "1, N", {32, 8}, 128}};
  tk_artifact_kernel k = {.name = "sums",
                          .num_warps = 8,
                          .producer_warps = 4,
                          .num_stages = 2,
                          .num_ctas = 1,
                          .gang = 1,
                          .dynamic_shared_bytes = 5152,
                          .grid = "cdiv(N, 32), cdiv(M, 8)",
                          .n_params = N(p),
                          .params = p,
                          .n_maps = N(m),
                          .maps = m};
  tk_artifact a = {.source = "sums.tk", .arch = "sm_90a", .ptx_version = 80, .n_kernels = 1, .kernels = &k};
  char *head, *text;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(&a, &head, &e), "%s", e.message);
  text = malloc(strlen(head) + sizeof sums_body);
  strcpy(text, head);
  strcat(text, sums_body);
  free(head);
  return text;
}

/* To nearest, ties away from zero. */
static float tf32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  bits = (bits + 0x1000) & ~UINT32_C(0x1fff);
  memcpy(&v, &bits, sizeof bits);
  return v;
}

Test(runtime_maps, two_roles_in_the_emulator) {
  enum { T = 5, M = 20, N_ = 44, WIDTH = 32 * T + N_ };
  static float x[T][M][N_], y[M][WIDTH], out[M][N_];
  tk_context *cx;
  tk_module *m;
  tk_kernel *k;
  tk_buffer *bx, *by, *bout;
  char *text = sums_ptx();
  arena *a = arena_new();
  const char *problem = test_ptxas(a, text, "sm_90a");
  cr_expect(!problem, "%s", problem);
  arena_free(a);
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  OK(cx, tk_module_load_text(cx, "sums.ptx", text, strlen(text), NULL, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  for (int t = 0; t < T; t++)
    for (int r = 0; r < M; r++)
      for (int c = 0; c < N_; c++) {
        static const float parts[] = {0, 0x1p-11f, 0x1p-11f - 0x1p-23f, 0x1p-12f}; /* exact, tie, below it, below it */
        float v = 1 + parts[(t + r + c) % 4];
        x[t][r][c] = c % 2 ? -v : v;
      }
  for (int r = 0; r < M; r++)
    for (int c = 0; c < WIDTH; c++) y[r][c] = (float)(r * WIDTH + c) / 16;
  OK(cx, tk_buffer_new(cx, sizeof x, &bx));
  OK(cx, tk_buffer_new(cx, sizeof y, &by));
  OK(cx, tk_buffer_new(cx, sizeof out, &bout));
  OK(cx, tk_upload(bx, 0, x, sizeof x));
  OK(cx, tk_upload(by, 0, y, sizeof y));
  const struct { int t, m, n; } sizes[] = {{T, M, N_}, {T, M, N_}, {0, M, N_}, {1, 8, 32}, {2, 3, 40}};
  for (int i = 0; i < N(sizes); i++) {
    int its_t = sizes[i].t, its_m = sizes[i].m, its_n = sizes[i].n, width = 32 * its_t + its_n;
    const float *from_x = &x[0][0][0], *from_y = &y[0][0];
    float *to = &out[0][0];
    OK(cx, tk_fill(bout, 0, 0xff, sizeof out));
    OK(cx,
       tk_launch(k, NULL, TK_ARGS(tk_buf(bx), tk_buf(by), tk_buf(bout), tk_i32(its_t), tk_i32(its_m), tk_i32(its_n))));
    OK(cx, tk_download(bout, 0, out, sizeof out));
    for (int r = 0; r < its_m; r++)
      for (int c = 0; c < its_n; c++) {
        float want = 0;
        for (int t = 0; t < its_t; t++) {
          want += tf32(from_x[(t * its_m + r) * its_n + c]);
          want += from_y[r * width + 32 * t + c];
        }
        cr_assert_eq(to[r * its_n + c], want, "case %d: out[%d][%d] is %g, not %g", i, r, c, to[r * its_n + c], want);
      }
    cr_assert(its_m * its_n == M * N_ || to[its_m * its_n] != to[its_m * its_n]); /* nothing behind the last row */
  }
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "a stride of 42 elements",
        tk_launch(k, NULL, TK_ARGS(tk_buf(bx), tk_buf(by), tk_buf(bout), tk_i32(1), tk_i32(8), tk_i32(42))));
  FAILS(cx, TK_CHECK_FAILED, "out of bounds", /* a tensor that is larger than its buffer */
        tk_launch(k, NULL, TK_ARGS(tk_buf(bx), tk_buf(by), tk_buf(bout), tk_i32(T), tk_i32(64), tk_i32(N_))));
  tk_kernel_free(k);
  tk_module_free(m);

  strcpy(strstr(text, ".b8 map_out[128]"), ".b8 map_out[64]) { ret; }");
  OK(cx, tk_module_load_text(cx, "sums.ptx", text, strlen(text), NULL, &m));
  FAILS(cx, TK_BAD_ARTIFACT, "'out' of 'sums' has 128 bytes in the metadata and 64 in the PTX",
        tk_module_kernel(m, NULL, &k));
  tk_module_free(m);
  free(text);
  tk_buffer_free(bx);
  tk_buffer_free(by);
  tk_buffer_free(bout);
  OK(cx, tk_context_close(cx));
}

/* A kernel that loads through the map of an empty tensor. */
Test(runtime_maps, a_map_of_zeros_faults) {
  tk_context *cx;
  tk_module *m;
  tk_kernel *k;
  tk_buffer *b;
  char *text = sums_ptx();
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  memcpy(strstr(text, "\"N, M, T\""), "\"N, M, 0\"", 9);
  OK(cx, tk_module_load_text(cx, "sums.ptx", text, strlen(text), NULL, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  OK(cx, tk_buffer_new(cx, 4096, &b));
  FAILS(cx, TK_CHECK_FAILED, "there is no tensor map",
        tk_launch(k, NULL, TK_ARGS(tk_buf(b), tk_buf(b), tk_buf(b), tk_i32(1), tk_i32(8), tk_i32(32))));
  tk_buffer_free(b);
  tk_kernel_free(k);
  tk_module_free(m);
  free(text);
  OK(cx, tk_context_close(cx));
}
