/* Computes the grid in a C function that receives the launch's arguments and constexprs by name, for what an expression
 * cannot say: here, a limit that the host program chooses, above which the work is split over several launches.
 *
 *   embed_grid_function vector_add.tk */
#include <stdio.h>
#include <stdlib.h>

#include "tk.h"

enum { N = 20000 };

typedef struct limit {
  int64_t most_programs;
  int64_t done; /* how many elements the last launch covers */
} limit;

static tk_grid limited(const tk_meta *meta, void *user) {
  limit *l = user;
  int64_t n = tk_meta_int(meta, "n"), block = tk_meta_int(meta, "BLOCK");
  int64_t programs = (n + block - 1) / block;
  if (programs > l->most_programs) programs = l->most_programs;
  l->done = programs * block;
  return TK_GRID(programs);
}

static void must(tk_context *cx, tk_status s) {
  if (s == TK_OK) return;
  fprintf(stderr, "%s\n", tk_error(cx));
  exit(1);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "examples/vector_add.tk";
  static float x[N], out[N];
  int64_t shape[] = {N};
  limit l = {.most_programs = 8};
  tk_context *cx;
  tk_kernel *add;
  tk_buffer *dx, *dout;
  for (int i = 0; i < N; i++) x[i] = (float)i;

  tk_status s = tk_context_open(&cx, &(tk_options){.device = "auto", .compiler = tk_jit()});
  must(cx, s);
  must(cx, tk_kernel_load(cx, path, "add", NULL, &add));
  must(cx, tk_tensor_new(cx, TK_f32, 1, shape, &dx));
  must(cx, tk_tensor_new(cx, TK_f32, 1, shape, &dout));
  must(cx, tk_upload(dx, 0, x, sizeof x));

  tk_launch_opts opts = {.grid = TK_GRID_FN(limited, &l)};
  int launches = 0;
  for (int64_t at = 0; at < N; at += l.done, launches++) {
    size_t skip = (size_t)at * sizeof(float);
    must(cx, tk_launch(add, &opts,
                       TK_ARGS(tk_buf_at(dx, skip), tk_buf_at(dx, skip), tk_buf_at(dout, skip), tk_int(N - at))));
  }
  must(cx, tk_download(dout, 0, out, sizeof out));

  int wrong = 0;
  for (int i = 0; i < N; i++) wrong += out[i] != 2 * x[i];
  printf("%s on %s: %d sums in %d launches, %d wrong\n", path, tk_context_device(cx), N, launches, wrong);

  tk_buffer_free(dx);
  tk_buffer_free(dout);
  tk_kernel_free(add);
  tk_context_close(cx);
  return wrong != 0;
}
