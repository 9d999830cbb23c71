/* The runtime with the real compiler on the CPU device: sources through the interpreter, and the same kernel's PTX
 * through the emulator. */
#include "compiler/tkc.h"

#include <criterion/criterion.h>
#include <string.h>

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
