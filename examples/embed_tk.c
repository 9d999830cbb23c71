/* Compiles a kernel when it is first launched, for the arguments of that launch: needs libtkc. On the CPU the kernel
 * runs in the checked interpreter, so a mistake in it is reported with its line.
 *
 *   embed_tk vector_add.tk */
#include <stdio.h>
#include <stdlib.h>

#include "tk.h"

enum { N = 10000 };

static void must(tk_context *cx, tk_status s) {
  if (s == TK_OK) return;
  fprintf(stderr, "%s\n", tk_error(cx));
  exit(1);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "examples/vector_add.tk";
  const char *defines[] = {"BLOCK=256"};
  tk_load_options load = {.defines = defines, .n_defines = 1};
  static float x[N], y[N], out[N];
  int64_t shape[] = {N};
  tk_context *cx;
  tk_kernel *add;
  tk_buffer *dx, *dy, *dout;
  tk_prepared *again;
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 1;

  tk_status s = tk_context_open(&cx, &(tk_options){.device = "auto", .compiler = tk_jit()});
  must(cx, s);
  must(cx, tk_kernel_load(cx, path, "add", &load, &add));
  must(cx, tk_tensor_new(cx, TK_f32, 1, shape, &dx));
  must(cx, tk_tensor_new(cx, TK_f32, 1, shape, &dy));
  must(cx, tk_tensor_new(cx, TK_f32, 1, shape, &dout));
  must(cx, tk_upload(dx, 0, x, sizeof x));
  must(cx, tk_upload(dy, 0, y, sizeof y));

  /* out = x + y, then three times out = out + y by a prepared launch */
  tk_launch_opts opts = {.grid = TK_GRID_EXPR("cdiv(x.numel(), BLOCK)")};
  must(cx, tk_launch(add, &opts, TK_ARGS(tk_buf(dx), tk_buf(dy), tk_buf(dout), tk_i32(N))));
  must(cx, tk_launch_prepare(add, &opts, TK_ARGS(tk_buf(dout), tk_buf(dy), tk_buf(dout), tk_i32(N)), &again));
  for (int i = 0; i < 3; i++) must(cx, tk_prepared_run(again));
  must(cx, tk_download(dout, 0, out, sizeof out));

  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += out[i] != x[i] + 4;
  printf("%s on %s: %d sums, %d wrong\n", path, tk_context_device(cx), N, wrong);

  tk_prepared_free(again);
  tk_buffer_free(dx);
  tk_buffer_free(dy);
  tk_buffer_free(dout);
  tk_kernel_free(add);
  tk_context_close(cx);
  return wrong != 0;
}
