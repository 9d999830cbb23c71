/* See llvm_run.h. */
#include "tests/unit/llvm_run.h"

#include <criterion/criterion.h>
#include <string.h>

#include "compiler/passes/passes.h"
#include "compiler/ptx/ptx.h"
#include "runtime/emu/emu.h"
#include "tests/test.h"

static void fail_with_diagnostics(ll_case *c) {
  textbuf t;
  text_init(&t, c->a);
  diag_render(&c->sink, DIAG_TEXT, false, &t);
  cr_assert_fail("%s", t.at);
}

void ll_case_open(ll_case *c, const char *text, const char *arch) {
  *c = (ll_case){.a = arena_new(), .arch = arch_find(arch)};
  cr_assert_not_null(c->arch);
  src_map *sources = src_map_new(c->a);
  diag_sink_init(&c->sink, c->a, sources);
  tir_cx *cx = tir_cx_new(c->a, strtab_new(c->a));
  base_guard g;
  base_guard_push(&g);
  if (setjmp(g.jump)) cr_assert_fail("%s", g.message);
  c->fn = tir_read(cx, c->a, &c->sink, src_add(sources, "kernel.tir", text, strlen(text)));
  if (!c->fn) fail_with_diagnostics(c);
  if (c->fn->stage != STAGE_PLACED) {
    pass_cx pc = {.arch = c->arch, .sink = &c->sink};
    pass_hooks hooks = {.verify = true};
    if (!pass_run(c->fn, &pc, 0, pass_count - 1, &hooks)) fail_with_diagnostics(c);
  }
  const char *complaint = tir_verify(c->fn);
  cr_assert_null(complaint, "%s", complaint);
  base_guard_pop(&g);
  c->options = (ll_options){.arch = c->arch, .fp_fusion = true};
}

const char *ll_case_ptx(ll_case *c) {
  textbuf raw, out;
  text_init(&raw, c->a);
  text_init(&out, c->a);
  base_guard g;
  base_guard_push(&g);
  if (setjmp(g.jump)) cr_assert_fail("%s", g.message);
  if (!ll_emit(&c->options, &c->fn, 1, &c->sink, &raw, NULL)) fail_with_diagnostics(c);
  int version = ptx_version_needed(raw.at, c->arch, c->options.ptx_version, &c->sink);
  if (!version) fail_with_diagnostics(c);
  ptx_finish(raw.at, version, "// a test\n", &out);
  base_guard_pop(&g);
  c->ptx = out.at;
  const char *refused = test_ptxas(c->a, c->ptx, c->arch->name);
  cr_assert_null(refused, "%s\n%s", refused, c->ptx);
  return c->ptx;
}

void ll_case_close(ll_case *c) { arena_free(c->a); }

static void keep_print(void *user, const char *text, size_t len) {
  if (user) text_add(user, text, len);
}

void ll_case_run(ll_case *c, int grid, const ll_arg *args, int n, textbuf *printed) {
  emu_error err;
  emu_module *m = emu_parse(c->ptx, strlen(c->ptx), &err);
  cr_assert_not_null(m, "line %u: %s\n%s", err.line, err.text, c->ptx);
  const emu_kernel *k = emu_module_kernel(m, c->fn->name);
  cr_assert_not_null(k);
  cr_assert_eq(k->nparams, (unsigned)n);
  emu_machine *mc = emu_machine_new();
  unsigned char params[256] = {0};
  for (int i = 0; i < n; i++) {
    uint64_t v = args[i].scalar;
    if (args[i].data) cr_assert(emu_map(mc, args[i].data, args[i].bytes, k->params[i].name, 0, &v));
    memcpy(params + k->params[i].offset, &v, k->params[i].size);
  }
  emu_launch_options o = {.grid = {(uint32_t)grid, 1, 1},
                          .block = {32u * (uint32_t)c->fn->num_warps, 1, 1},
                          .dynamic_shared = (uint32_t)c->fn->shared_bytes,
                          .params = params,
                          .params_size = k->params_size,
                          .print = keep_print,
                          .user = printed};
  emu_report report = {0};
  emu_status status = emu_launch(mc, m, k, &o, &report);
  cr_assert_eq(status, EMU_OK, "%s: %s\n%s", emu_status_text(status), report.text, c->ptx);
  emu_machine_free(mc);
  emu_module_free(m);
}

int ll_count(const char *text, const char *part) {
  int n = 0;
  for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
  return n;
}
