/* Tensor descriptors as launch arguments: what the entry and its tensor maps get, what is refused, and what a prepared
 * launch keeps. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "tests/fake/start.h"
#include "tests/unit/runtime_checks.h"

static tk_artifact_param params[] = {
    {.name = "n", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .equals_one = true},
    {.name = "a",
     .kind = TK_PARAM_DESCRIPTOR,
     .dtype = TK_f16,
     .divisible = 2,
     .passed = true,
     .rank = 3,
     .block = {1, 128, 64}},
    {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .divisible = 4, .passed = true},
    {.name = "BM", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = 128}},
    {.name = "line",
     .kind = TK_PARAM_DESCRIPTOR,
     .dtype = TK_i8,
     .divisible = 1,
     .passed = true,
     .rank = 1,
     .block = {16}}};
static tk_artifact_map map = {
    "a", "f16", 3, "a.shape[2], a.shape[1], a.shape[0]", "1, a.stride(1), a.stride(0)", {64, 128, 1}, 128};
static const char body[] =
    ".version 8.0\n.target sm_90a\n"
    ".visible .entry k(.param .u64 .ptr p0, .param .u32 p1, .param .u32 p2, .param .u32 p3, .param .u64 p4, "
    ".param .u64 p5, .param .u64 .ptr p6, .param .u64 .ptr p7, .param .u32 p8, .param .align 64 .b8 map[128]) { ret; "
    "}\n";

static tk_kernel *load(tk_context *cx) {
  tk_artifact_kernel k = {.name = "k",
                          .num_warps = 4,
                          .num_stages = 3,
                          .num_ctas = 1,
                          .gang = 1,
                          .grid = "cdiv(a.shape[1], BM), a.shape[0], line.numel()",
                          .n_params = N(params),
                          .params = params,
                          .n_maps = 1,
                          .maps = &map};
  tk_artifact a = {.source = "k.tk", .arch = "sm_90a", .ptx_version = 80, .n_kernels = 1, .kernels = &k};
  char *head;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(&a, &head, &e), "%s", e.message);
  char *text = malloc(strlen(head) + sizeof body);
  strcat(strcpy(text, head), body);
  tk_module *m;
  tk_kernel *out;
  OK(cx, tk_module_load_text(cx, "k.ptx", text, strlen(text), NULL, &m));
  OK(cx, tk_module_kernel(m, NULL, &out));
  tk_module_free(m);
  free(text);
  free(head);
  return out;
}

static tk_context *open_fake(void) {
  tk_options o = fake_start();
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &o));
  return cx;
}

static void entry_gets(int i, unsigned size, uint64_t wanted) {
  uint64_t got = 0;
  const fake_param *p = &fake->last.params[i];
  memcpy(&got, p->bytes, p->size < sizeof got ? p->size : sizeof got);
  cr_assert(p->size == size && got == wanted, "parameter %d: %u bytes, %llx", i, p->size, (unsigned long long)got);
}

static const tk_descriptor good_a = {
    .base = {.kind = TK_ARG_ADDRESS, .v.address = 4096}, .rank = 3, .shape = {5, 300, 70}, .strides = {30000, 72, 1}};
static const tk_descriptor good_line = {
    .base = {.kind = TK_ARG_ADDRESS, .v.address = 8192}, .rank = 1, .shape = {7}, .strides = {1}, .block = {16}};

Test(runtime_descriptors, what_the_entry_and_its_map_get) {
  tk_context *cx = open_fake();
  tk_kernel *k = load(cx);
  cr_assert(tk_kernel_n_args(k) == 4 && strcmp(tk_kernel_arg_name(k, 1), "a") == 0);
  OK(cx, tk_launch(k, NULL, TK_ARGS(tk_i32(1), tk_desc(&good_a), tk_ptr(256), tk_desc(&good_line))));
  const fake_launch *l = &fake->last;
  cr_assert(l->n_params == 10 && l->grid[0] == 3 && l->grid[1] == 5 && l->grid[2] == 7);
  static const uint64_t values[] = {4096, 5, 300, 70, 30000, 72, 256, 8192, 7};
  static const unsigned sizes[] = {8, 4, 4, 4, 8, 8, 8, 8, 4};
  for (int i = 0; i < N(values); i++) entry_gets(i, sizes[i], values[i]);
  fake_map m;
  memcpy(&m, l->params[9].bytes, sizeof m);
  cr_assert(m.address == 4096 && m.rank == 3 && m.sizes[0] == 70 && m.sizes[1] == 300 && m.sizes[2] == 5 &&
            m.strides[0] == 144 && m.strides[1] == 60000);

  tk_buffer *whole, *line; /* a described buffer is a descriptor of all of it */
  OK(cx, tk_tensor_new(cx, TK_f16, 3, (int64_t[]){2, 130, 8}, &whole));
  OK(cx, tk_tensor_new(cx, TK_i8, 1, (int64_t[]){9}, &line));
  OK(cx, tk_launch(k, NULL, TK_ARGS(tk_i32(1), tk_buf(whole), tk_ptr(256), tk_buf(line))));
  static const uint64_t others[] = {2, 130, 8, 1040, 8};
  entry_gets(0, 8, tk_buffer_address(whole));
  for (int i = 0; i < N(others); i++) entry_gets(i + 1, sizes[i + 1], others[i]);
  cr_assert(fake->last.grid[0] == 2 && fake->last.grid[2] == 9);
  tk_buffer_free(whole);
  tk_buffer_free(line);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_descriptors, what_is_refused) {
  tk_context *cx = open_fake();
  tk_kernel *k = load(cx);
  tk_buffer *bytes, *words, *flat;
  OK(cx, tk_buffer_new(cx, 2 * 16 * 64, &bytes));
  OK(cx, tk_tensor_new(cx, TK_f32, 3, (int64_t[]){1, 16, 64}, &words));
  OK(cx, tk_tensor_new(cx, TK_f16, 2, (int64_t[]){16, 64}, &flat));
  const tk_arg base = tk_buf(bytes);
  const struct {
    tk_arg base;
    tk_dtype dtype;
    int rank;
    int64_t shape[3], strides[3], block[3];
    tk_status status;
    const char *says;
  } cases[] = {
      {base, TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_OK, ""},
      {base, TK_NO_DTYPE, 3, {1, 16, 64}, {0, 64, 1}, {1, 128, 64}, TK_OK, ""},
      {tk_i32(4), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_WRONG_ARGUMENT_TYPE, "was given as i32"},
      {tk_desc(&good_a), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_WRONG_ARGUMENT_TYPE, "given as descriptor"},
      {tk_buf(NULL), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_INVALID_ARGUMENT, "is a NULL buffer"},
      {tk_buf(words), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_WRONG_ARGUMENT_TYPE, "is a buffer of f32"},
      {tk_ptr(4104),
       TK_f16,
       3,
       {1, 16, 64},
       {1024, 64, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "no tensor that a descriptor can describe: argument 2 of 'k' (a: tensordesc<f16[1, 128, 64]>:2) must be aligned "
       "to 16 bytes; it is 0x1008. Base and strides are multiples of 16 bytes"},
      {base, TK_bf16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_WRONG_ARGUMENT_TYPE, "is a descriptor of bf16"},
      {base, TK_f16, 2, {1, 16, 64}, {1024, 64, 1}, {0}, TK_WRONG_ARGUMENT_TYPE, "was given with 2 axes"},
      {base,
       TK_f16,
       3,
       {1, 16, 64},
       {1024, 64, 1},
       {1, 64, 64},
       TK_SPECIALIZATION_MISMATCH,
       "was given a block of 64 elements along axis 1"},
      {base,
       TK_f16,
       3,
       {0, 16, 64},
       {1024, 64, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "has 0 elements along axis 0, not 1 .. 2^31 - 1"},
      {base, TK_f16, 3, {1, -4, 64}, {1024, 64, 1}, {0}, TK_BAD_DESCRIPTOR, "has -4 elements along axis 1"},
      {base,
       TK_f16,
       3,
       {INT64_C(1) << 31, 16, 64},
       {1024, 64, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "has 2147483648 elements along axis 0"},
      {base,
       TK_f16,
       3,
       {1, 16, 63},
       {1024, 64, 1},
       {0},
       TK_SPECIALIZATION_MISMATCH,
       "has 63 elements along its last axis: no multiple of 2, the kernel was compiled for that"},
      {base, TK_f16, 3, {1, 16, 64}, {1024, 64, 2}, {0}, TK_BAD_DESCRIPTOR, "has a last stride of 2, not 1"},
      {base,
       TK_f16,
       3,
       {1, 16, 64},
       {1024, 60, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "has a stride of 60 elements at axis 1: in bytes no multiple of 16"},
      {base,
       TK_f16,
       3,
       {1, 16, 64},
       {-1024, 64, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "has a stride of -1024 elements at axis 0"},
      {base,
       TK_f16,
       3,
       {INT32_MAX, 16, 64},
       {INT64_MAX / 8 * 8, 64, 1},
       {0},
       TK_BAD_DESCRIPTOR,
       "has the stride 9223372036854775800 at axis 0, which is too large"},
      {base,
       TK_f16,
       3,
       {1, 17, 64},
       {1024, 64, 1},
       {0},
       TK_OUT_OF_RANGE,
       "needs elements up to number 1087 of a buffer that ends with number 1023"},
      {tk_buf_at(bytes, 16), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_OUT_OF_RANGE, "ends with number 1015"},
      {tk_buf_at(bytes, 4096), TK_f16, 3, {1, 16, 64}, {1024, 64, 1}, {0}, TK_OUT_OF_RANGE, "starts 4096 bytes into"},
  };
  tk_launch_opts one = {.grid = TK_GRID(1)};
  for (int i = 0; i < N(cases); i++) {
    int before = fake->n_launches;
    tk_descriptor d = {.base = cases[i].base, .dtype = cases[i].dtype, .rank = cases[i].rank};
    memcpy(d.shape, cases[i].shape, sizeof cases[i].shape);
    memcpy(d.strides, cases[i].strides, sizeof cases[i].strides);
    memcpy(d.block, cases[i].block, sizeof cases[i].block);
    tk_status s = tk_launch(k, &one, TK_ARGS(tk_i32(1), tk_desc(&d), tk_ptr(256), tk_desc(&good_line)));
    cr_expect(s == cases[i].status && strstr(tk_error(cx), cases[i].says) && fake->n_launches == before + (s == TK_OK),
              "case %d: %s: %s", i, tk_status_name(s), tk_error(cx));
  }
  const struct {
    int index;
    tk_arg arg;
    tk_status status;
    const char *says;
  } others[] = {
      {1, tk_desc(NULL), TK_INVALID_ARGUMENT, "is a NULL descriptor"},
      {1, tk_buf(NULL), TK_INVALID_ARGUMENT, "is a NULL buffer"},
      {1, tk_buf(bytes), TK_WRONG_ARGUMENT_TYPE, "was given as a buffer without a shape: pass tk_desc"},
      {1, tk_buf(flat), TK_WRONG_ARGUMENT_TYPE, "was given with 2 axes"},
      {1, tk_ptr(4096), TK_WRONG_ARGUMENT_TYPE, "was given as address: pass tk_desc"},
      {1, tk_i32(4), TK_WRONG_ARGUMENT_TYPE, "was given as i32: pass tk_desc"},
      {2, tk_desc(&good_a), TK_WRONG_ARGUMENT_TYPE, "argument 3 of 'k' (x: *f32) was given as descriptor"},
      {0, tk_desc(&good_a), TK_WRONG_ARGUMENT_TYPE, "(n: i32) was given as descriptor"},
  };
  for (int i = 0; i < N(others); i++) {
    tk_arg args[] = {tk_i32(1), tk_desc(&good_a), tk_ptr(256), tk_desc(&good_line)};
    args[others[i].index] = others[i].arg;
    tk_status s = tk_launch(k, &one, args, N(args));
    cr_expect(s == others[i].status && strstr(tk_error(cx), others[i].says), "case %d: %s: %s", i, tk_status_name(s),
              tk_error(cx));
  }
  FAILS(cx, TK_BAD_GRID, "this descriptor has fewer axes",
        tk_launch(k, &(tk_launch_opts){.grid = TK_GRID_EXPR("a.shape[3]")},
                  TK_ARGS(tk_i32(1), tk_desc(&good_a), tk_ptr(256), tk_desc(&good_line))));
  FAILS(cx, TK_BAD_GRID, "this argument is no integer",
        tk_launch(k, &(tk_launch_opts){.grid = TK_GRID_EXPR("a")},
                  TK_ARGS(tk_i32(1), tk_desc(&good_a), tk_ptr(256), tk_desc(&good_line))));
  tk_buffer_free(bytes);
  tk_buffer_free(words);
  tk_buffer_free(flat);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

static tk_grid rows(const tk_meta *meta, void *user) {
  (void)user;
  return TK_GRID(tk_meta_int(meta, "a.shape[-2]"), tk_meta_int(meta, "line.stride(0)"));
}

Test(runtime_descriptors, prepared_launches_keep_a_copy) {
  tk_context *cx = open_fake();
  tk_kernel *k = load(cx);
  tk_prepared *p;
  tk_descriptor a = good_a, line = good_line;
  OK(cx, tk_launch_prepare(k, &(tk_launch_opts){.grid = TK_GRID_FN(rows, NULL)},
                           TK_ARGS(tk_i32(1), tk_desc(&a), tk_ptr(256), tk_desc(&line)), &p));
  memset(&a, 0xff, sizeof a);
  memset(&line, 0xff, sizeof line);
  OK(cx, tk_prepared_set(p, 2, tk_ptr(512)));
  OK(cx, tk_prepared_run(p));
  cr_assert(fake->last.grid[0] == 300 && fake->last.grid[1] == 1 && fake->n_encoded == 1);
  entry_gets(6, 8, 512);
  a = good_a;
  a.shape[1] = 100;
  OK(cx, tk_prepared_set(p, 1, tk_desc(&a)));
  a.shape[1] = 0;
  FAILS(cx, TK_BAD_DESCRIPTOR, "has 0 elements", tk_prepared_set(p, 1, tk_desc(&a)));
  OK(cx, tk_prepared_run(p));
  cr_assert(fake->last.grid[0] == 100 && fake->n_encoded == 2);
  entry_gets(2, 4, 100);
  entry_gets(8, 4, 7);
  tk_prepared_free(p);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}
