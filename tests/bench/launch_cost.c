/* launch_cost: what a launch costs the host, in microseconds, beside a bare cuLaunchKernel with the same arguments.
 *
 *   build/tests/launch_cost vector_add.ptx
 *
 * The PTX holds `add(x, y, out, n)` as examples/vector_add.tk makes it. The grid is one block and the queue is drained
 * before every batch, so that nothing but the host's work is timed. Rounds alternate between the three ways; medians.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/tk.h"

enum { ROUNDS = 201, BATCH = 200 };
typedef int (*launch_fn)(void *fn, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *stream,
                         void **params, void **extra);
typedef int (*load_fn)(void **module, const void *image);
typedef int (*get_fn)(void **fn, void *module, const char *name);
typedef int (*sync_fn)(void);

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *symbol(void *lib, const char *name) {
  void *p = dlsym(lib, name);
  if (!p) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(3);
  }
  return p;
}

#define MUST(call)                                      \
  do {                                                  \
    if ((call) != TK_OK) {                              \
      fprintf(stderr, "%s: %s\n", #call, tk_error(cx)); \
      return 3;                                         \
    }                                                   \
  } while (0)

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: launch_cost vector_add.ptx\n");
    return 2;
  }
  tk_context *cx = NULL;
  tk_kernel *add = NULL;
  tk_buffer *b[3] = {NULL, NULL, NULL};
  MUST(tk_context_open(&cx, &(tk_options){.device = "cuda"}));
  MUST(tk_kernel_load(cx, argv[1], "add", NULL, &add));
  for (int i = 0; i < 3; i++) MUST(tk_buffer_new(cx, 4096, &b[i]));
  tk_launch_opts opts = {.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")};
  tk_prepared *prepared = NULL;
  MUST(tk_launch(add, &opts, TK_ARGS(tk_buf(b[0]), tk_buf(b[1]), tk_buf(b[2]), tk_i32(1024))));
  MUST(tk_launch_prepare(add, &opts, TK_ARGS(tk_buf(b[0]), tk_buf(b[1]), tk_buf(b[2]), tk_i32(1024)), &prepared));
  MUST(tk_synchronize(cx));

  /* The same module once more through the bare driver; the context is the device's primary one, made current here. */
  void *lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) return 3;
  launch_fn launch = (launch_fn)(uintptr_t)symbol(lib, "cuLaunchKernel");
  load_fn load = (load_fn)(uintptr_t)symbol(lib, "cuModuleLoad");
  get_fn get = (get_fn)(uintptr_t)symbol(lib, "cuModuleGetFunction");
  sync_fn sync = (sync_fn)(uintptr_t)symbol(lib, "cuCtxSynchronize");
  int (*retain)(void **, int) = (int (*)(void **, int))(uintptr_t)symbol(lib, "cuDevicePrimaryCtxRetain");
  int (*current)(void *) = (int (*)(void *))(uintptr_t)symbol(lib, "cuCtxSetCurrent");
  void *primary = NULL, *module = NULL, *fn = NULL;
  if (retain(&primary, 0) || current(primary) || load(&module, argv[1]) || get(&fn, module, "add")) return 3;
  unsigned long long at[3];
  for (int i = 0; i < 3; i++) at[i] = tk_buffer_address(b[i]);
  int n = 1024;
  void *params[] = {&at[0], &at[1], &at[2], &n};
  tk_kernel_attributes info;
  MUST(tk_kernel_attributes_get(add, &info));
  unsigned threads = 32u * (unsigned)(info.num_warps * info.programs_per_block + info.producer_warps),
           shared = (unsigned)info.dynamic_shared_bytes;

  static double bare[ROUNDS], ready[ROUNDS], plain[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    sync();
    double t = now();
    for (int i = 0; i < BATCH; i++)
      if (launch(fn, 1, 1, 1, threads, 1, 1, shared, NULL, params, NULL)) return 3;
    bare[r] = (now() - t) / BATCH;
    sync();
    t = now();
    for (int i = 0; i < BATCH; i++) MUST(tk_prepared_run(prepared));
    ready[r] = (now() - t) / BATCH;
    sync();
    t = now();
    for (int i = 0; i < BATCH; i++)
      MUST(tk_launch(add, &opts, TK_ARGS(tk_buf(b[0]), tk_buf(b[1]), tk_buf(b[2]), tk_i32(1024))));
    plain[r] = (now() - t) / BATCH;
  }
  qsort(bare, ROUNDS, sizeof *bare, by_value);
  qsort(ready, ROUNDS, sizeof *ready, by_value);
  qsort(plain, ROUNDS, sizeof *plain, by_value);
  double base = bare[ROUNDS / 2];
  printf("bare cuLaunchKernel %.3f us; prepared %.3f us (%.2f times); tk_launch %.3f us (%.2f times)\n", base,
         ready[ROUNDS / 2], ready[ROUNDS / 2] / base, plain[ROUNDS / 2], plain[ROUNDS / 2] / base);
  tk_prepared_free(prepared);
  for (int i = 0; i < 3; i++) tk_buffer_free(b[i]);
  tk_kernel_free(add);
  tk_context_close(cx);
  return 0;
}
