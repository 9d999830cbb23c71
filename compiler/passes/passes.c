/* The pass runner: runs a range of the table in order, checks the IR after each pass on request, and tells the hooks.
 */
#include "compiler/passes/passes.h"

#include <string.h>
#include <time.h>

const pass_info pass_table[] = {
#define PASS(name, stage, sentence) {#name, STAGE_##stage, sentence, pass_##name},
#include "compiler/passes/passes.def"
#undef PASS
};
#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "compiler/passes/diags.def"
#undef DIAG

const int pass_count = (int)(sizeof pass_table / sizeof pass_table[0]);

int pass_named(const char *name, size_t len) {
  for (int i = 0; i < pass_count; i++)
    if (strlen(pass_table[i].name) == len && !memcmp(pass_table[i].name, name, len)) return i;
  return -1;
}

void pass_remark(const pass_cx *cx, span at, const char *fmt, ...) {
  pass_remarks *r = cx->remarks;
  if (!r) return;
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(r->a, fmt, ap);
  va_end(ap);
  for (int i = 0; i < r->list.n; i++)
    if (r->list.at[i].at.pos == at.pos && r->list.at[i].at.len == at.len && !strcmp(r->list.at[i].text, text)) return;
  VEC_PUSH(r->a, r->list, ((struct pass_remark){at, text}));
}

void pass_remark_no_width(const pass_cx *cx, span at) {
  pass_remarks *r = cx->remarks;
  int kept = 0;
  for (int i = 0; r && i < r->list.n; i++) {
    const struct pass_remark *x = &r->list.at[i];
    if (x->at.pos != at.pos || x->at.len != at.len || !strstr(x->text, PASS_REMARK_WIDTH)) r->list.at[kept++] = *x;
  }
  if (r) r->list.n = kept;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool pass_run(tir_fn *fn, const pass_cx *cx, int first, int last, const pass_hooks *hooks) {
  int errors = cx->sink->n_errors;
  for (int i = first; i <= last && i < pass_count; i++) {
    double start = now();
    tir_renumber(fn);
    pass_table[i].run(fn, cx);
    fn->stage = pass_table[i].stage;
    tir_renumber(fn);
    double seconds = now() - start;
    if (cx->sink->n_errors > errors) return false;
    if (hooks && hooks->verify) {
      const char *why = tir_verify(fn);
      if (why) base_panic("the IR is broken after pass %s:\n%s", pass_table[i].name, why);
    }
    if (hooks && hooks->after) hooks->after(hooks->user, i, fn, seconds);
  }
  return true;
}
