/* How the size of the blocks decides the speed of a product: matmul.tk with several choices of BM, BN, BK and warps,
 * for several sizes of matrices, in TFLOP/s. Each choice is compiled when it is first launched, and its result is
 * checked; a dash is one that does not fit on the device. On the CPU the checked interpreter is timed, on small
 * matrices.
 *
 *   block_size_experiment [matmul.tk] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tk.h"

static const struct block {
  int bm, bn, bk, warps;
} blocks[] = {{32, 32, 32, 4},   {64, 64, 32, 4},   {64, 64, 64, 4},
              {128, 128, 32, 8}, {128, 128, 64, 8}, {128, 256, 64, 8}};
enum { N_BLOCKS = sizeof blocks / sizeof *blocks, HALF = 0x3800 /* 0.5 as f16 */ };

static void must(tk_context *cx, tk_status s) {
  if (s == TK_OK) return;
  fprintf(stderr, "%s\n", tk_error(cx));
  exit(1);
}

/* Milliseconds of one product of n x n matrices; 0 if the device has too little for it. */
static double product(tk_context *cx, const char *path, struct block x, int n, tk_buffer *const m[3]) {
  char text[3][16];
  snprintf(text[0], sizeof text[0], "BM=%d", x.bm);
  snprintf(text[1], sizeof text[1], "BN=%d", x.bn);
  snprintf(text[2], sizeof text[2], "BK=%d", x.bk);
  tk_load_options load = {.defines = (const char *[]){text[0], text[1], text[2]}, .n_defines = 3, .num_warps = x.warps};
  tk_bench_options few = {.warmup_ms = 5, .measure_ms = 50, .min_runs = 1};
  tk_kernel *matmul;
  tk_prepared *run;
  tk_bench_result r = {0};
  must(cx, tk_kernel_load(cx, path, "matmul", &load, &matmul));
  tk_arg s = tk_i32(n), one = tk_i32(1);
  tk_status st = tk_launch_prepare(
      matmul, NULL, TK_ARGS(tk_buf(m[0]), tk_buf(m[1]), tk_buf(m[2]), s, s, s, s, one, s, one, s, one), &run);
  if (st == TK_OK) st = tk_bench_prepared(run, &few, &r);
  tk_prepared_free(run);
  tk_kernel_free(matmul);
  if (st == TK_LAUNCH_OUT_OF_RESOURCES || st == TK_COMPILE_ERROR) return 0;
  must(cx, st);
  return r.median_ms;
}

/* One line of the table; how many elements were wrong. Both factors hold 0.5 everywhere, so the product holds n / 4. */
static long row(tk_context *cx, const char *path, int log_n) {
  int n = 1 << log_n;
  size_t numel = (size_t)n * (size_t)n, bytes = 2 * numel;
  uint16_t *host = malloc(bytes), quarter = (uint16_t)((15 + log_n - 2) << 10);
  long wrong = 0;
  tk_buffer *m[3];
  if (!host) exit(1);
  for (size_t i = 0; i < numel; i++) host[i] = HALF;
  for (int i = 0; i < 3; i++) must(cx, tk_tensor_new(cx, TK_f16, 2, (int64_t[]){n, n}, &m[i]));
  for (int i = 0; i < 2; i++) must(cx, tk_upload(m[i], 0, host, bytes));
  printf("%6d", n);
  for (int i = 0; i < N_BLOCKS; i++) {
    must(cx, tk_fill(m[2], 0, 0, bytes));
    double ms = product(cx, path, blocks[i], n, m);
    if (ms > 0)
      printf(" %12.4g", 2e-9 * n * n * n / ms);
    else
      printf(" %12s", "-");
    must(cx, tk_download(m[2], 0, host, bytes));
    for (size_t k = 0; k < numel && ms > 0; k++) wrong += host[k] != quarter;
  }
  printf("\n");
  for (int i = 0; i < 3; i++) tk_buffer_free(m[i]);
  free(host);
  return wrong;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "examples/matmul.tk";
  long wrong = 0;
  tk_context *cx;
  must(cx, tk_context_open(&cx, &(tk_options){.device = "auto", .compiler = tk_jit()}));
  bool gpu = strncmp(tk_context_device(cx), "cuda", 4) == 0;
  printf("%s on %s, TFLOP/s with BM x BN x BK / warps\n     n", path, tk_context_device(cx));
  for (int i = 0; i < N_BLOCKS; i++) {
    char name[32];
    snprintf(name, sizeof name, "%dx%dx%d/%d", blocks[i].bm, blocks[i].bn, blocks[i].bk, blocks[i].warps);
    printf(" %12s", name);
  }
  printf("\n");
  for (int log_n = gpu ? 10 : 5; log_n <= (gpu ? 13 : 6); log_n++) wrong += row(cx, path, log_n);
  printf("%ld elements wrong\n", wrong);
  return tk_context_close(cx) != TK_OK || wrong;
}
