/* Runs a kernel that was compiled before: needs libtk and, for the GPU, the driver; no compiler, no CUDA toolkit.
 *
 *   tkc vector_add.tk -o vector_add.ptx && embed_ptx vector_add.ptx */
#include <stdio.h>
#include <stdlib.h>

#include "tk.h"

enum { N = 100000 };

static void must(tk_context *cx, tk_status s) {
  if (s == TK_OK) return;
  fprintf(stderr, "%s\n", tk_error(cx));
  exit(1);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "vector_add.ptx";
  static float x[N], y[N], out[N];
  tk_context *cx;
  tk_kernel *add;
  tk_buffer *dx, *dy, *dout;
  for (int i = 0; i < N; i++) x[i] = (float)i, y[i] = 0.5f * (float)i;

  tk_status s = tk_context_open(&cx, &(tk_options){.device = "auto"});
  must(cx, s);
  must(cx, tk_kernel_load(cx, path, "add", NULL, &add));
  must(cx, tk_buffer_new(cx, sizeof x, &dx));
  must(cx, tk_buffer_new(cx, sizeof y, &dy));
  must(cx, tk_buffer_new(cx, sizeof out, &dout));
  must(cx, tk_upload(dx, 0, x, sizeof x));
  must(cx, tk_upload(dy, 0, y, sizeof y));

  tk_launch_opts opts = {.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")};
  must(cx, tk_launch(add, &opts, TK_ARGS(tk_buf(dx), tk_buf(dy), tk_buf(dout), tk_i32(N))));
  must(cx, tk_download(dout, 0, out, sizeof out));

  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += out[i] != x[i] + y[i];
  printf("%s on %s: %d sums, %d wrong\n", path, tk_context_device(cx), N, wrong);

  tk_buffer_free(dx);
  tk_buffer_free(dy);
  tk_buffer_free(dout);
  tk_kernel_free(add);
  tk_context_close(cx);
  return wrong != 0;
}
