/* The runtime with the real compiler on the CPU device: sources through the interpreter, and the same kernel's PTX
 * through the emulator. */
#include "compiler/tkc.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "runtime/internal.h"
#include "tests/fake/start.h"
#include "tests/unit/runtime_checks.h"

/* A strided copy with a scale, in Triton's surface: every type comes from the launch. */
static const char scaled[] =
    "import triton\n"
    "import triton.language as tl\n"
    "@triton.jit\n"
    "def scaled(x, out, n, stride, scale, BLOCK: tl.constexpr):\n"
    "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    mask = offs < n\n"
    "    v = tl.load(x + offs * stride, mask=mask)\n"
    "    tl.store(out + offs, v * scale, mask=mask)\n";

enum { COUNT = 777 };

static tk_context *open_cpu(void) {
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu", .compiler = tk_jit()}));
  return cx;
}

static tk_kernel *load(tk_context *cx, const char *text, const tk_load_options *o) {
  tk_module *m;
  tk_kernel *k;
  OK(cx, tk_module_load_text(cx, "scaled.tk", text, strlen(text), o, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  tk_module_free(m);
  return k;
}

static const char *block[] = {"BLOCK=128"};
static const tk_load_options with_block = {.defines = block, .n_defines = 1};

Test(runtime_tkc, types_come_from_the_arguments) {
  static float in[2 * COUNT], out[COUNT];
  tk_context *cx = open_cpu();
  tk_kernel *k = load(cx, scaled, &with_block);
  tk_buffer *x, *y;
  tk_launch_opts o = {.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")};
  for (int i = 0; i < 2 * COUNT; i++) in[i] = (float)i;
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){2 * COUNT}, &x));
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){COUNT}, &y));
  OK(cx, tk_upload(x, 0, in, sizeof in));
  for (int stride = 1; stride <= 2; stride++) { /* 1 is folded into the kernel, 2 is passed */
    OK(cx, tk_launch(k, &o, TK_ARGS(tk_buf(x), tk_buf(y), tk_int(COUNT), tk_int(stride), tk_float(0.5))));
    OK(cx, tk_download(y, 0, out, sizeof out));
    for (int i = 0; i < COUNT; i++)
      cr_assert_eq(out[i], (float)(i * stride) * 0.5f, "stride %d, element %d: %g", stride, i, (double)out[i]);
  }
  OK(cx, tk_launch(k, &o, TK_ARGS(tk_buf_at(x, 4), tk_buf(y), tk_i64(16), tk_i64(1), tk_float(2))));
  OK(cx, tk_download(y, 0, out, sizeof out));
  cr_assert(out[0] == 2 && out[15] == 32 && out[16] == 16 * 2 * 0.5f);
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_tkc, mistakes_of_a_kernel_name_their_line) {
  tk_context *cx = open_cpu();
  tk_kernel *k = load(cx, scaled, &with_block);
  tk_buffer *x;
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){COUNT}, &x));
  OK(cx, tk_fill(x, 0, 0, 4 * COUNT));
  tk_launch_opts o = {.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")};
  FAILS(cx, TK_CHECK_FAILED, "scaled.tk:7",
        tk_launch(k, &o, TK_ARGS(tk_buf(x), tk_buf(x), tk_int(COUNT), tk_int(3), tk_float(1))));
  tk_buffer_free(x);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_tkc, errors_of_the_compiler) {
  tk_context *cx = open_cpu();
  tk_module *m;
  static const char broken[] = "@kernel\ndef k(x: *f32, n: i32):\n    y = = 3\n";
  FAILS(cx, TK_COMPILE_ERROR, "bad.tk:3", tk_module_load_text(cx, "bad.tk", broken, strlen(broken), NULL, &m));
  static const char unknown[] = "@kernel\ndef k(x: *f32, n: i32):\n    store(x, frobnicate(n))\n";
  tk_kernel *k = load(cx, unknown, NULL);
  FAILS(cx, TK_COMPILE_ERROR, "scaled.tk:3",
        tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, TK_ARGS(tk_ptr(0), tk_i32(1))));
  tk_kernel_free(k);
  k = load(cx, scaled, NULL); /* BLOCK has no value */
  FAILS(cx, TK_COMPILE_ERROR, "BLOCK",
        tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)},
                  TK_ARGS(tk_i32(1), tk_i32(1), tk_i32(1), tk_i32(1), tk_i32(1))));
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_tkc, what_is_defined_is_no_argument) {
  static const char source[] =
      "@kernel\ndef k(x, bias=None, out=None, n=16):\n    i = arange(0, 16)\n    v = load(x + i)\n"
      "    if bias is not None:\n        v += load(bias + i)\n    store(out + i, v, i < n)\n";
  static const struct {
    const char *define, *signature;
    int bias, n; /* places among the arguments; -1: none */
  } cases[] = {{"bias=None", NULL, -1, 2},
               {" bias = None", "x=*f32,out=*f32,n=i32", -1, 2},
               {NULL, "x=*f32,bias=None,out=*f32,n=i32:1", -1, 2},
               {"n=16", NULL, 1, -1},
               {NULL, "x=*f32,bias=*f32,out=*f32,n=16", 1, -1},
               {NULL, NULL, 1, 3}};
  for (int c = 0; c < N(cases); c++) {
    float in[16], got[16];
    bool one = cases[c].signature && strstr(cases[c].signature, ":1"), given = cases[c].bias > 0;
    tk_context *cx = open_cpu();
    tk_load_options o = {
        .defines = &cases[c].define, .n_defines = cases[c].define != NULL, .signature = cases[c].signature};
    tk_kernel *k = load(cx, source, &o);
    tk_buffer *x, *out;
    tk_arg args[4];
    int n = 0;
    for (int i = 0; i < 16; i++) in[i] = (float)i;
    OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){16}, &x));
    OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){16}, &out));
    OK(cx, tk_upload(x, 0, in, sizeof in));
    OK(cx, tk_fill(out, 0, 0, sizeof got));
    args[n++] = tk_buf(x);
    if (given) args[n++] = tk_buf(x);
    args[n++] = tk_buf(out);
    if (cases[c].n >= 0) args[n++] = tk_int(one ? 1 : 16);
    cr_assert_eq(tk_kernel_n_args(k), n, "case %d", c);
    if (given) cr_assert_str_eq(tk_kernel_arg_name(k, cases[c].bias), "bias");
    if (cases[c].n >= 0) cr_assert_str_eq(tk_kernel_arg_name(k, cases[c].n), "n");
    FAILS(cx, TK_WRONG_ARGUMENT_COUNT, "takes", tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, args, n - 1));
    OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, args, n));
    OK(cx, tk_download(out, 0, got, sizeof got));
    for (int i = 0; i < 16; i++)
      cr_assert_eq(got[i], one && i ? 0 : (given ? 2 : 1) * in[i], "case %d, element %d", c, i);
    tk_buffer_free(x);
    tk_buffer_free(out);
    tk_kernel_free(k);
    OK(cx, tk_context_close(cx));
  }
}

Test(runtime_tkc, ptx_and_source_agree) {
  static float in[2 * COUNT], out[2][COUNT];
  tk_context *cx = open_cpu();
  tkc_session *s = tkc_open();
  tkc_output ptx;
  tkc_options o = {.arch = "sm_80",
                   .signature = "x=*f32:16,out=*f32:16,n=i32,stride=i32,scale=f32",
                   .defines = block,
                   .n_defines = 1};
  cr_assert_eq(tkc_load_text(s, "scaled.tk", scaled, strlen(scaled)), TKC_OK);
  cr_assert_eq(tkc_compile(s, &o, &ptx), TKC_OK, "%s", tkc_diagnostics(s, TKC_DIAG_LINE, false));
  tk_module *m;
  tk_kernel *k[2];
  tk_buffer *x, *y;
  OK(cx, tk_module_load_text(cx, "scaled.ptx", ptx.text, ptx.len, NULL, &m));
  OK(cx, tk_module_kernel(m, "scaled", &k[0]));
  k[1] = load(cx, scaled, &with_block);
  for (int i = 0; i < 2 * COUNT; i++) in[i] = 1.0f / (float)(i + 1);
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){2 * COUNT}, &x));
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){COUNT}, &y));
  OK(cx, tk_upload(x, 0, in, sizeof in));
  for (int i = 0; i < 2; i++) {
    OK(cx, tk_launch(k[i], &(tk_launch_opts){.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")},
                     TK_ARGS(tk_buf(x), tk_buf(y), tk_i32(COUNT), tk_i32(2), tk_f32(1.7f))));
    OK(cx, tk_download(y, 0, out[i], sizeof out[i]));
    tk_kernel_free(k[i]);
  }
  for (int i = 0; i < COUNT; i++) cr_assert(out[0][i] == out[1][i] && out[0][i] == in[2 * i] * 1.7f, "element %d", i);
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_module_free(m);
  tkc_close(s);
  OK(cx, tk_context_close(cx));
}

Test(runtime_tkc, compiled_for_the_gpu_when_launched) {
  static const struct {
    int64_t stride;
    int n_params;
  } cases[] = {{1, 4}, {2, 5}, {3, 5}, {16, 5}, {1, 4}};
  tk_context *cx;
  tk_options o = fake_start();
  o.compiler = tk_jit();
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load(cx, scaled, &with_block);
  for (int i = 0; i < N(cases); i++) {
    tk_buffer *x;
    OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){16}, &x));
    OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")},
                     TK_ARGS(tk_buf(x), tk_buf(x), tk_int(1000), tk_int(cases[i].stride), tk_float(1.5))));
    const fake_launch *l = &fake->last;
    float scale;
    memcpy(&scale, l->params[cases[i].n_params - 1].bytes, sizeof scale);
    cr_assert(l->n_params == cases[i].n_params && l->params[cases[i].n_params - 1].size == 4 && scale == 1.5f,
              "case %d", i);
    cr_assert(l->grid[0] == 8 && l->block[0] == 128 && !strcmp(l->kernel, "scaled"));
    tk_buffer_free(x);
  }
  cr_assert_eq(fake->live_modules, 3); /* 1; 2 and 3; a multiple of 16 */
  tk_kernel_attributes a;
  OK(cx, tk_kernel_attributes_get(k, &a));
  cr_assert_eq(a.num_warps, 4);
  tk_kernel_free(k);
  cr_assert_eq(fake->live_modules, 0);
  OK(cx, tk_context_close(cx));
}

/* One tile of a product, on tensor cores by warpgroups where the device has them. */
static const char product[] =
    "@kernel\n"
    "def product(a: *f16, b: *f16, c: *f32, k: i32):\n"
    "    r = arange(0, 64)\n"
    "    acc = zeros([64, 64], f32)\n"
    "    for at in range(0, k, 64):\n"
    "        x = load(a + r[:, None] * k + (at + r)[None, :])\n"
    "        y = load(b + (at + r)[:, None] * 64 + r[None, :])\n"
    "        acc = dot(x, y, acc)\n"
    "    store(c + r[:, None] * 64 + r[None, :], acc)\n";

Test(runtime_tkc, tensor_maps_can_be_left_out) {
  static const struct {
    bool none;
    int params;
    unsigned threads;
  } cases[] = {{false, 4 + 3, 256}, {true, 4, 128}};
  tk_context *cx;
  tk_options o = fake_start();
  o.compiler = tk_jit();
  OK(cx, tk_context_open(&cx, &o));
  tk_buffer *x;
  OK(cx, tk_buffer_new(cx, 64 * 128 * 4, &x));
  for (int i = 0; i < N(cases); i++) {
    tk_kernel *k = load(cx, product, &(tk_load_options){.no_tensor_maps = cases[i].none});
    OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, TK_ARGS(tk_buf(x), tk_buf(x), tk_buf(x), tk_int(128))));
    cr_assert_eq(fake->last.n_params, cases[i].params, "case %d: %d parameters", i, fake->last.n_params);
    cr_assert_eq(fake->last.block[0], cases[i].threads);
    tk_kernel_free(k);
  }
  tk_buffer_free(x);
  OK(cx, tk_context_close(cx));
}

/* Programs of one head's rows have its keys in common. */
static const char attend[] =
    "@kernel(num_warps=4)\n"
    "def attend(q: *f16, k: *f16, o: *f32, t: i32):\n"
    "    r = program_id(0) * 64 + arange(0, 64)\n"
    "    d = arange(0, 64)\n"
    "    n = arange(0, 128)\n"
    "    x = load(q + r[:, None] * 64 + d[None, :])\n"
    "    acc = zeros([64, 64], f32)\n"
    "    for at in range(0, t, 128):\n"
    "        y = load(k + (at + n)[:, None] * 64 + d[None, :])\n"
    "        acc = dot(exp2(dot(x, trans(y))).to(f16), y, acc)\n"
    "    store(o + r[:, None] * 64 + d[None, :], acc)\n";

Test(runtime_tkc, one_program_needs_no_gang) {
  static const struct {
    unsigned programs, blocks, threads;
    bool none;
  } cases[] = {{7, 3, 32 * 16, false}, {1, 1, 32 * 8, false}, {2, 1, 32 * 16, false}, {7, 7, 32 * 8, true}};
  tk_context *cx;
  tk_options o = fake_start();
  o.compiler = tk_jit();
  OK(cx, tk_context_open(&cx, &o));
  tk_buffer *x;
  OK(cx, tk_buffer_new(cx, 7 * 64 * 64 * 4, &x));
  tk_arg args[] = {tk_buf(x), tk_buf(x), tk_buf(x), tk_int(128)};
  for (int i = 0; i < N(cases); i++) {
    tk_kernel *k = load(cx, attend, &(tk_load_options){.no_gang = cases[i].none});
    tk_prepared *p;
    const tk_launch_opts grid = {.grid = TK_GRID(cases[i].programs)};
    OK(cx, tk_launch(k, &grid, args, N(args)));
    cr_assert(fake->last.grid[0] == cases[i].blocks && fake->last.block[0] == cases[i].threads, "case %d: %u of %u", i,
              fake->last.grid[0], fake->last.block[0]);
    OK(cx, tk_launch_prepare(k, &grid, args, N(args), &p));
    OK(cx, tk_prepared_run(p));
    cr_assert(fake->last.grid[0] == cases[i].blocks && fake->last.block[0] == cases[i].threads, "case %d, prepared", i);
    tk_prepared_free(p);
    tk_kernel_free(k);
  }
  tk_buffer_free(x);
  OK(cx, tk_context_close(cx));
}

/* ---- tensor descriptors ------------------------------------------------------------------------------------------ */

/* A kernel that knows nothing of the tensors but what the launch says. */
static const char shifted[] =
    "import triton\n"
    "import triton.language as tl\n"
    "@triton.jit\n"
    "def shifted(x, out, by):\n"
    "    for row in range(0, out.shape[0], out.block_shape[0]):\n"
    "        for col in range(0, out.shape[1], out.block_shape[1]):\n"
    "            out.store([row, col], x.load([row + by, col + by]).to(out.dtype) + 1)\n";

enum { ROWS = 6, COLUMNS = 5, ROW = 8 };

/* out[i, j] = in[i + by, j + by] + 1, of a view that leaves out the ends of rows. */
static void check_shifted(const float *in, const float *out, int by) {
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < ROW; j++) {
      bool is_view = j < COLUMNS, inside = i + by >= 0 && i + by < ROWS && j + by >= 0 && j + by < COLUMNS;
      float want = !is_view ? -7 : inside ? in[(i + by) * ROW + j + by] + 1 : 1;
      cr_assert_eq(out[i * ROW + j], want, "by %d: [%d, %d] is %g, not %g", by, i, j, (double)out[i * ROW + j],
                   (double)want);
    }
}

Test(runtime_tkc, descriptors_bring_their_block_shapes) {
  float in[ROWS * ROW], out[ROWS * ROW];
  tk_context *cx = open_cpu();
  tk_kernel *k = load(cx, shifted, NULL);
  tk_buffer *x, *y;
  for (int i = 0; i < ROWS * ROW; i++) in[i] = (float)(i * i % 101);
  OK(cx, tk_buffer_new(cx, sizeof in, &x));
  OK(cx, tk_buffer_new(cx, sizeof out, &y));
  OK(cx, tk_upload(x, 0, in, sizeof in));
  tk_descriptor from = {.base = tk_buf(x), .dtype = TK_f32, .rank = 2, .shape = {ROWS, COLUMNS}, .strides = {ROW, 1}},
                to = from;
  to.base = tk_buf(y);
  tk_launch_opts one = {.grid = TK_GRID_EXPR("x.shape[0] // 6")};
  static const int64_t blocks[][2] = {{2, 4}, {8, 16}, {2, 4}};
  for (int by = -1; by < N(blocks) - 1; by++) { /* two variants */
    for (int i = 0; i < ROWS * ROW; i++) out[i] = -7;
    OK(cx, tk_upload(y, 0, out, sizeof out));
    memcpy(from.block, blocks[by + 1], sizeof blocks[0]);
    memcpy(to.block, blocks[by + 1], sizeof blocks[0]);
    OK(cx, tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&to), tk_i32(by))));
    OK(cx, tk_download(y, 0, out, sizeof out));
    check_shifted(in, out, by);
  }
  from.pads_nan = to.pads_nan = true; /* a third one */
  OK(cx, tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&to), tk_i32(1))));
  OK(cx, tk_download(y, 0, out, sizeof out));
  cr_assert(out[0] == in[ROW + 1] + 1 && isnan(out[COLUMNS - 1]) && isnan(out[(ROWS - 1) * ROW]) && out[COLUMNS] == -7);
  tk_descriptor wrong = to;
  wrong.block[1] = 0;
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "argument 2 of 'shifted' (out) was given as descriptor: its block is not known",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&wrong), tk_i32(0))));
  wrong.block[1] = 12;
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "no power of two",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&wrong), tk_i32(0))));
  wrong.block[1] = 2;
  FAILS(cx, TK_COMPILE_ERROR, "a row of f32[2,2] has 8",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&wrong), tk_i32(0))));
  wrong = to;
  wrong.dtype = TK_NO_DTYPE;
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "its element type is not known; set dtype",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&wrong), tk_i32(0))));
  wrong.rank = 6;
  wrong.dtype = TK_f32;
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "no rank from 1 to 5",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(&wrong), tk_i32(0))));
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "it is NULL",
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_desc(NULL), tk_i32(0))));
  OK(cx, tk_buffer_describe(y, TK_f32, 2, (int64_t[]){ROWS, ROW}, NULL));
  FAILS(cx, TK_COMPILE_ERROR, "*f32 has no member 'block_shape'", /* a buffer is a pointer, as a tensor is in Triton */
        tk_launch(k, &one, TK_ARGS(tk_desc(&from), tk_buf(y), tk_i32(0))));
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

/* The same with types in the source: described buffers will do. The .ptx of it and its prepared launches too. */
static const char typed[] =
    "@kernel\n"
    "def shifted(x: tensordesc[f32[N, N]], out: tensordesc[f32[N, N]], by: i32, p: *f32, N: constexpr = 4):\n"
    "    for row in range(0, out.shape[0], N):\n"
    "        for col in range(0, out.shape[1], N):\n"
    "            out.store([row, col], x.load([row + by, col + by]) + load(p))\n";

Test(runtime_tkc, descriptors_of_the_source_take_buffers) {
  float in[ROWS * ROW], out[ROWS * ROW];
  tk_context *cx = open_cpu();
  tkc_session *s = tkc_open();
  tkc_output ptx;
  cr_assert_eq(tkc_load_text(s, "typed.tk", typed, strlen(typed)), TKC_OK);
  const tkc_kernel *declared = tkc_kernel_at(s, 0);
  cr_assert(declared->params[0].kind == TKC_PARAM_DESCRIPTOR && declared->params[3].kind == TKC_PARAM_POINTER);
  cr_assert_eq(tkc_compile(s, &(tkc_options){.arch = "sm_90a"}, &ptx), TKC_OK, "%s",
               tkc_diagnostics(s, TKC_DIAG_LINE, false));
  tk_module *m;
  tk_kernel *k[2];
  OK(cx, tk_module_load_text(cx, "typed.ptx", ptx.text, ptx.len, NULL, &m));
  OK(cx, tk_module_kernel(m, NULL, &k[0]));
  tk_module_free(m);
  tkc_close(s);
  k[1] = load(cx, typed, NULL);
  tk_buffer *x, *y, *one;
  OK(cx, tk_tensor_new(cx, TK_f32, 2, (int64_t[]){ROWS, ROW}, &x));
  OK(cx, tk_tensor_new(cx, TK_f32, 2, (int64_t[]){ROWS, ROW}, &y));
  OK(cx, tk_tensor_new(cx, TK_f32, 0, NULL, &one));
  OK(cx, tk_upload(one, 0, &(float){1}, 4));
  for (int i = 0; i < ROWS * ROW; i++) in[i] = (float)(i * i % 103);
  OK(cx, tk_upload(x, 0, in, sizeof in));
  OK(cx, tk_buffer_describe(x, TK_f32, 2, (int64_t[]){ROWS, COLUMNS}, (int64_t[]){ROW, 1}));
  tk_launch_opts o = {.grid = TK_GRID(1)};
  for (int i = 0; i < 2; i++) {
    tk_descriptor view = {.base = tk_buf(y), .rank = 2, .shape = {ROWS, COLUMNS}, .strides = {ROW, 1}, .block = {4, 4}};
    tk_prepared *p;
    for (int j = 0; j < ROWS * ROW; j++) out[j] = -7;
    OK(cx, tk_upload(y, 0, out, sizeof out));
    OK(cx, tk_launch_prepare(k[i], &o, TK_ARGS(tk_buf(x), tk_desc(&view), tk_i32(2), tk_buf(one)), &p));
    OK(cx, tk_prepared_run(p));
    OK(cx, tk_download(y, 0, out, sizeof out));
    check_shifted(in, out, 2);
    tk_prepared_free(p);
    FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "given as i32",
          tk_launch(k[i], &o, TK_ARGS(tk_i32(1), tk_desc(&view), tk_i32(2), tk_buf(one))));
    FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "given as descriptor",
          tk_launch(k[i], &o, TK_ARGS(tk_buf(x), tk_desc(&view), tk_i32(2), tk_desc(&view))));
    view.pads_nan = true;
    FAILS(cx, TK_SPECIALIZATION_MISMATCH, "was given with NaN outside",
          tk_launch(k[i], &o, TK_ARGS(tk_buf(x), tk_desc(&view), tk_i32(2), tk_buf(one))));
    view.pads_nan = false;
    view.block[0] = 8;
    FAILS(cx, TK_SPECIALIZATION_MISMATCH, "(out: tensordesc<f32[4, 4]>) was given a block of 8",
          tk_launch(k[i], &o, TK_ARGS(tk_buf(x), tk_desc(&view), tk_i32(2), tk_buf(one))));
    tk_kernel_free(k[i]);
  }
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_buffer_free(one);
  OK(cx, tk_context_close(cx));
}

/* A default is for who compiles ahead: a launch has the argument. Its last extent makes a variant, as those of untyped
   parameters do. */
Test(runtime_tkc, descriptors_of_the_source_are_specialised) {
  static const char source[] =
      "@triton.jit(do_not_specialize=['loose'])\n"
      "def fill(out: tensordesc[tl.float32[N]] = None, loose: tensordesc[tl.float32[4]] = None,\n"
      "         told: \"tensordesc<fp32[8]>\":16 = None, N: tl.constexpr = 4):\n"
      "    out.store([0], 1.0)\n"
      "    loose.store([0], 2.0)\n"
      "    told.store([0], 3.0)\n";
  tk_context *cx = open_cpu();
  tk_kernel *k = load(cx, source, NULL);
  tk_buffer *b[3];
  for (int i = 0; i < 3; i++) OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){32}, &b[i]));
  tk_descriptor out = {.base = tk_buf(b[0]), .rank = 1, .shape = {32}, .strides = {1}}, told = out;
  told.base = tk_buf(b[2]);
  tk_launch_opts one = {.grid = TK_GRID(1)};
  const struct {
    int64_t extent;
    const char *signature;
  } launches[] = {{32, "out=tensordesc:16,loose=tensordesc,told=tensordesc"},
                  {31, "out=tensordesc,loose=tensordesc,told=tensordesc"},
                  {16, "out=tensordesc:16,loose=tensordesc,told=tensordesc"}};
  const tk__variant *made[N(launches)];
  for (int i = 0; i < N(launches); i++) {
    float got[3];
    out.shape[0] = launches[i].extent;
    OK(cx, tk_launch(k, &one, TK_ARGS(tk_desc(&out), tk_buf(b[1]), tk_desc(&told))));
    for (int j = 0; j < 3; j++) OK(cx, tk_download(b[j], 0, &got[j], sizeof *got));
    cr_assert(got[0] == 1 && got[1] == 2 && got[2] == 3);
    const tk_arg args[] = {tk_desc(&out), tk_buf(b[1]), tk_desc(&told)};
    tk__variant *v;
    OK(cx, tk__variant_for(k, args, 3, &v));
    cr_assert_str_eq(v->signature, launches[i].signature);
    cr_assert_eq(v->meta->params[0].divisible, i == 1 ? 1 : 16);
    cr_assert_eq(v->meta->params[2].divisible, 16);
    made[i] = v;
  }
  cr_assert(made[0] == made[2] && made[0] != made[1]);
  told.shape[0] = 31;
  FAILS(cx, TK_SPECIALIZATION_MISMATCH,
        "argument 3 of 'fill' (told: tensordesc<f32[8]>:16) has 31 elements along its last axis: no multiple of 16",
        tk_launch(k, &one, TK_ARGS(tk_desc(&out), tk_buf(b[1]), tk_desc(&told))));
  for (int i = 0; i < 3; i++) tk_buffer_free(b[i]);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}
