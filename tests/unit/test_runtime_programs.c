/* Launches of persistent kernels: how many blocks, which counter, and when each program, or gang, gets its own block.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/internal.h"
#include "tests/fake/start.h"
#include "tests/test.h"
#include "tests/unit/runtime_checks.h"

enum { ROOM = 132 * (1024 / 384) }; /* of the fake: 1024 threads on each of 132 multiprocessors */

static tk_context *open_kernel(const char *text, tk_kernel **k) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_module *m;
  OK(cx, tk_context_open(&cx, &o));
  OK(cx, tk_module_load_text(cx, "p.ptx", text, strlen(text), NULL, &m));
  OK(cx, tk_module_kernel(m, "p", k));
  tk_module_free(m);
  return cx;
}

static void close_fake(tk_context *cx, tk_kernel *k) {
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
  cr_assert(fake->live_allocations == 0);
}

static tk_context *open_fake(tk_kernel **k) {
  static const char text[] =
      "// tkc 3 {\"source\":\"p.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_90a\",\"ptx\":\"8.0\",\"kernels\":1}\n"
      "// tkc kernel {\"name\":\"p\",\"warps\":8,\"producer_warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,"
      "\"dynamic_shared\":0,\"params\":1,\"persistent\":true}\n"
      "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\"}\n"
      ".version 8.0\n.target sm_90a\n.visible .entry p(.param .u32 n, .param .align 8 .b8 programs[24]) { ret; }\n";
  return open_kernel(text, k);
}

/* Launches a grid, and gives what the kernel was told; *blocks: the blocks along x. */
static tk__programs launch(tk_context *cx, tk_kernel *k, tk_stream *s, tk_grid grid, unsigned *blocks) {
  tk__programs p;
  OK(cx, tk_launch(k, &(tk_launch_opts){.grid = grid, .stream = s}, TK_ARGS(tk_i32(1))));
  const fake_launch *l = &fake->last;
  cr_assert(l->n_params == 2 && l->params[1].size == sizeof p);
  memcpy(&p, l->params[1].bytes, sizeof p);
  *blocks = l->grid[0];
  if (p.counter) cr_assert(l->grid[1] == 1 && l->grid[2] == 1 && *(uint32_t *)(uintptr_t)p.counter == 0);
  return p;
}

static bool is_plain(tk__programs p) { return !p.counter && !p.turns && !p.grid[0] && !p.grid[1] && !p.grid[2]; }

Test(runtime_programs, large_grids_share_blocks) {
  tk_kernel *k;
  tk_context *cx = open_fake(&k);
  unsigned blocks;
  tk__programs p = launch(cx, k, NULL, TK_GRID(100, 7, 3), &blocks);
  cr_assert(blocks == ROOM && p.counter && p.turns == 2100);
  cr_assert(p.grid[0] == 100 && p.grid[1] == 7 && p.grid[2] == 3);
  cr_assert(is_plain(launch(cx, k, NULL, TK_GRID(ROOM), &blocks)) && blocks == ROOM, "all run at a time");
  p = launch(cx, k, NULL, TK_GRID(ROOM + 1), &blocks);
  cr_assert(p.counter && p.turns == ROOM + 1 && blocks == ROOM);
  cr_assert(is_plain(launch(cx, k, NULL, TK_GRID(65536, 32768), &blocks)) && blocks == 65536, "2^31 are not counted");
  close_fake(cx, k);
}

/* Three programs along x are one turn of a block; the kernel has to know the grid in any case. */
Test(runtime_programs, gangs_take_turns) {
  static const char text[] =
      "// tkc 5 {\"source\":\"p.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_90a\",\"ptx\":\"8.0\",\"kernels\":1}\n"
      "// tkc kernel {\"name\":\"p\",\"warps\":2,\"producer_warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,"
      "\"dynamic_shared\":0,\"params\":1,\"persistent\":true,\"gang\":3}\n"
      "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\"}\n"
      ".version 8.0\n.target sm_90a\n.visible .entry p(.param .u32 n, .param .align 8 .b8 programs[24]) { ret; }\n";
  enum { THREADS = 32 * (3 * 2 + 4), PLACES = 132 * (1024 / THREADS) };
  tk_kernel *k;
  tk_context *cx = open_kernel(text, &k);
  unsigned blocks;
  tk__programs p = launch(cx, k, NULL, TK_GRID(8, 5, 2), &blocks);
  cr_assert(fake->last.block[0] == THREADS && blocks == 30 && !p.counter && p.turns == 30);
  cr_assert(p.grid[0] == 8 && p.grid[1] == 5 && p.grid[2] == 2 && fake->last.grid[1] == 1 && fake->last.grid[2] == 1);
  p = launch(cx, k, NULL, TK_GRID(8, 1000), &blocks);
  cr_assert(p.counter && p.turns == 3000 && blocks == PLACES && p.grid[0] == 8 && p.grid[1] == 1000);
  fake->capturing = 1;
  p = launch(cx, k, NULL, TK_GRID(8, 1000), &blocks);
  cr_assert(!p.counter && p.turns == 3000 && blocks == 3000, "a block for each turn");
  fake->capturing = 0;
  cr_assert(is_plain(launch(cx, k, NULL, TK_GRID(65536, 65535, 2), &blocks)) && blocks == 65536,
            "2^31 are not counted");
  tk_kernel_attributes about;
  OK(cx, tk_kernel_attributes_get(k, &about));
  cr_assert(about.programs_per_block == 3 && about.num_warps == 2);
  close_fake(cx, k);
}

Test(runtime_programs, streams_have_counters_of_their_own) {
  enum { STREAMS = 1200 };
  tk_kernel *k;
  tk_context *cx = open_fake(&k);
  unsigned blocks;
  uint64_t first = launch(cx, k, NULL, TK_GRID(5000), &blocks).counter, low = first, high = first;
  int without = 0;
  static uint64_t seen[STREAMS];
  for (int i = 0; i < STREAMS; i++) {
    tk_stream *s;
    OK(cx, tk_stream_new(cx, &s));
    tk__programs p = launch(cx, k, s, TK_GRID(5000), &blocks);
    if (p.counter) {
      cr_assert(p.counter == launch(cx, k, s, TK_GRID(5000), &blocks).counter && p.counter != first);
      for (int j = 0; j < i; j++) cr_assert(seen[j] != p.counter, "streams %d and %d", j, i);
    } else {
      cr_assert(is_plain(p) && blocks == 5000);
      without++;
    }
    seen[i] = p.counter;
    if (p.counter && p.counter < low) low = p.counter;
    if (p.counter > high) high = p.counter;
    tk_stream_free(s); /* its counter stays taken */
  }
  cr_assert(without >= STREAMS + 1 - 1024 && without < STREAMS / 2 && high - low < 4096);
  close_fake(cx, k);
}

Test(runtime_programs, what_is_captured_gets_a_block_for_each) {
  tk_kernel *k;
  tk_context *cx = open_fake(&k);
  unsigned blocks;
  tk_prepared *prepared;
  OK(cx, tk_launch_prepare(k, &(tk_launch_opts){.grid = TK_GRID(5000)}, TK_ARGS(tk_i32(1)), &prepared));
  for (int capturing = 0; capturing < 2; capturing++) {
    fake->capturing = capturing;
    tk__programs p = launch(cx, k, NULL, TK_GRID(5000), &blocks);
    cr_assert(is_plain(p) == capturing && blocks == (capturing ? 5000 : ROOM));
    OK(cx, tk_prepared_run(prepared));
    cr_assert(fake->last.grid[0] == blocks);
    memcpy(&p, fake->last.params[1].bytes, sizeof p);
    cr_assert(is_plain(p) == capturing);
  }
  tk_prepared_free(prepared);
  close_fake(cx, k);
}

Test(runtime_programs, no_counters_are_made_during_a_capture) {
  fake_start();
  fake->capturing = 1;
  tk_kernel *k;
  tk_context *cx = open_fake(&k);
  cr_assert(fake->live_allocations == 0 && fake->live_streams == 0);
  fake->capturing = 0;
  unsigned blocks;
  cr_assert(is_plain(launch(cx, k, NULL, TK_GRID(5000), &blocks)) && blocks == 5000);
  close_fake(cx, k);
}

Test(runtime_programs, without_counters_each_gets_a_block) {
  static const char *const fails[] = {"cuStreamCreate",      "cuStreamIsCapturing",
                                      "cuMemAlloc_v2",       "cuMemsetD8Async",
                                      "cuStreamSynchronize", "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  for (int i = 0; i < N(fails); i++) {
    fake_start();
    fail_with(fails[i], 2);
    tk_kernel *k;
    tk_context *cx = open_fake(&k);
    fake->fail = NULL;
    unsigned blocks;
    cr_assert(is_plain(launch(cx, k, NULL, TK_GRID(5000), &blocks)) && blocks == 5000, "%s", fails[i]);
    close_fake(cx, k);
  }
}
