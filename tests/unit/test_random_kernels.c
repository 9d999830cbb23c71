/* Random kernels: the interpreter on the IR as it was made, after every pass, and the emulator on the PTX leave the
 * same memory behind. RANDOM_SEEDS in the environment asks for more kernels than the few of an ordinary run. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/interp/interp.h"
#include "compiler/passes/passes.h"
#include "tests/unit/llvm_run.h"
#include "tests/harness/tir_random.h"

static int32_t in[RANDOM_IN], out[RANDOM_OUT], wanted[RANDOM_OUT];

typedef struct check {
  arena *a;
  diag_sink *sink;
  uint64_t args[4];
  uint64_t seed;
} check;

static void interpret(const tir_fn *fn, const check *c, const char *when) {
  interp_buffer buffers[2] = {{"x", in, sizeof in}, {"out", out, sizeof out}};
  interp_options o = {.grid = {1, 1, 1}};
  memset(out, 0, sizeof out);
  interp_status status = interp_run(fn, buffers, 2, c->args, 4, &o, c->sink);
  if (status == INTERP_OK) return;
  textbuf t;
  text_init(&t, c->a);
  diag_render(c->sink, DIAG_LINE, false, &t);
  tir_print(fn, &t);
  cr_assert_fail("seed %lu, %s: %s", (unsigned long)c->seed, when, t.at);
}

static void compare(const tir_fn *fn, const check *c, const char *when) {
  for (int i = 0; i < RANDOM_OUT; i++) {
    if (out[i] == wanted[i]) continue;
    textbuf t;
    text_init(&t, c->a);
    tir_print(fn, &t);
    cr_assert_fail("seed %lu, %s: out[%d] is %d, not %d\n%s", (unsigned long)c->seed, when, i, out[i], wanted[i], t.at);
  }
}

static void after(void *user, int pass, tir_fn *fn, double seconds) {
  (void)seconds;
  interpret(fn, user, pass_table[pass].name);
  compare(fn, user, pass_table[pass].name);
}

static void one(uint64_t seed, const char *arch) {
  arena *a = arena_new();
  diag_sink sink;
  diag_sink_init(&sink, a, src_map_new(a));
  check c = {.a = a, .sink = &sink, .seed = seed};
  int32_t n = 16 * (int32_t)(seed % 9), k = (int32_t)(seed * 7 % 23) - 6;
  uint64_t args[4] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out, (uint32_t)n, (uint32_t)k};
  memcpy(c.args, args, sizeof args);
  tir_fn *fn = tir_random(tir_cx_new(a, strtab_new(a)), a, seed);
  textbuf text;
  text_init(&text, a);
  tir_print(fn, &text);
  const char *complaint = tir_verify(fn);
  cr_assert_null(complaint, "%s", complaint);
  interpret(fn, &c, "as it was made");
  memcpy(wanted, out, sizeof out);

  pass_cx pass = {.arch = arch_find(arch), .sink = &sink};
  pass_hooks hooks = {.after = after, .user = &c, .verify = true};
  base_guard g;
  base_guard_push(&g);
  if (setjmp(g.jump)) cr_assert_fail("seed %lu: %s\n%s", (unsigned long)seed, g.message, text.at);
  cr_assert(pass_run(fn, &pass, 0, pass_count - 1, &hooks), "seed %lu was refused", (unsigned long)seed);
  base_guard_pop(&g);

  ll_case ll;
  ll_case_open(&ll, text.at, arch);
  ll_case_ptx(&ll);
  memset(out, 0, sizeof out);
  ll_arg ll_args[4] = {LL_BUF(in), LL_BUF(out), LL_INT((uint32_t)n), LL_INT((uint32_t)k)};
  ll_case_run(&ll, 1, ll_args, 4, NULL);
  compare(fn, &c, "in the emulator");
  ll_case_close(&ll);
  arena_free(a);
}

Test(random_kernels, every_stage_and_executor_agrees) {
  static const char *const targets[] = {"sm_80", "sm_90a", "sm_75", "sm_120a"};
  const char *asked = getenv("RANDOM_SEEDS"), *from = getenv("RANDOM_FIRST");
  int count = asked ? atoi(asked) : 24;
  uint64_t first = from ? strtoull(from, NULL, 10) : 1;
  for (int i = 0; i < RANDOM_IN; i++) in[i] = (int32_t)((uint32_t)i * 2654435761u >> (i % 24));
  for (int i = 0; i < count; i++) one(first + (uint64_t)i, targets[i % 4]);
}
