/* driver_run: a kernel through the front end, some passes, and the interpreter. */
#include <string.h>

#include "compiler/driver.h"
#include "compiler/interp/interp.h"

static tkc_status interpret(tkc_session *s, const tkc_options *opt, const int64_t grid[3], const tkc_buffer *buffers,
                            int n_buffers, const tkc_arg *args, int n_args, const tkc_run_options *run) {
  driver_plan plan;
  tkc_options mine = *opt;
  mine.stop_after = run && run->after_pass ? run->after_pass : "specialise";
  tkc_status st = driver_plan_make(s, &mine, &plan);
  if (st != TKC_OK) return st;
  int n, errors = s->sink.n_errors;
  driver_kernel *k = driver_kernels(s, &plan, &n);
  if (n != 1) {
    if (s->sink.n_errors == errors) diag_add(&s->sink, (span){0, 0}, &D_one_kernel, s->source->path);
    return TKC_ERRORS;
  }
  interp_buffer *b = ARENA_ARRAY(s->a, interp_buffer, n_buffers + 1);
  for (int i = 0; i < n_buffers; i++) b[i] = (interp_buffer){buffers[i].name, buffers[i].data, buffers[i].bytes};
  uint64_t *values = ARENA_ARRAY(s->a, uint64_t, n_args + 1);
  for (int i = 0; i < n_args; i++) {
    bool pointer = i < k->fn->n_params && k->fn->params[i].value->type->kind == TY_PTR;
    values[i] = pointer ? (uint64_t)(uintptr_t)args[i].v.pointer : args[i].v.bits;
  }
  interp_options o = {.grid = {grid[0], grid[1], grid[2]}};
  if (run) {
    o.order_seed = run->order_seed;
    o.max_steps = run->max_steps;
    o.max_findings = run->max_findings;
    o.print = run->print;
    o.user = run->user;
  }
  return interp_run(k->fn, b, n_buffers, values, n_args, &o, &s->sink) == INTERP_OK ? TKC_OK : TKC_ERRORS;
}

tkc_status tkc_interpret(tkc_session *s, const tkc_options *opt, const int64_t grid[3], const tkc_buffer *buffers,
                         int n_buffers, const tkc_arg *args, int n_args, const tkc_run_options *run) {
  DRIVER_GUARDED(s, interpret(s, opt, grid, buffers, n_buffers, args, n_args, run));
}
