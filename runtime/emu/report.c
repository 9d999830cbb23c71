/* Findings as text: what happened, then where: kernel, CTA, thread, PTX line, and the source position of the last .loc.
 */
#include "runtime/emu/internal.h"

#include <stdio.h>

static void put(emu_exec *x, const char *fmt, va_list ap) {
  size_t room = sizeof x->report->text - x->report_len;
  int n = vsnprintf(x->report->text + x->report_len, room, fmt, ap);
  if (n > 0) x->report_len += (size_t)n < room ? (size_t)n : room - 1;
}

void emu__note(emu_exec *x, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  put(x, fmt, ap);
  va_end(ap);
}

static void where(emu_exec *x, int lane) {
  const emu_module *m = x->m;
  emu__note(x, " [kernel %s, CTA (%u,%u,%u)", x->kernel->name, x->ctaid[0], x->ctaid[1], x->ctaid[2]);
  if (x->w != NULL && lane >= 0) {
    uint32_t t = x->w->id * EMU_LANES + (uint32_t)lane;
    const uint32_t *b = x->o->block;
    emu__note(x, ", thread (%u,%u,%u)", t % b[0], t / b[0] % b[1], t / b[0] / b[1]);
  } else if (x->w != NULL && x->i != NULL) {
    emu__note(x, ", warp %u", x->w->id);
  }
  if (x->i != NULL) {
    emu__note(x, ", PTX line %u: %s", x->i->line, emu__op_name[x->i->op]);
    const emu_loc *l = &m->locs[x->i->loc];
    if (x->i->loc != 0) {
      const char *file = l->file < m->nfiles && m->files[l->file] != NULL ? m->files[l->file] : "file ?";
      emu__note(x, ", %s:%u:%u", file, l->line, l->column);
    }
  }
  emu__note(x, "]");
}

static void finding(emu_exec *x, int lane, const char *fmt, va_list ap) {
  emu_report *r = x->report;
  if (r->count++ == 0) r->line = x->i != NULL ? x->i->line : 0;
  if (x->status == EMU_OK) x->status = EMU_FAULT;
  if (r->count > 1) emu__note(x, "\n");
  put(x, fmt, ap);
  where(x, lane);
}

void emu__report(emu_exec *x, int lane, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  finding(x, lane, fmt, ap);
  va_end(ap);
}

emu_next emu__fault(emu_exec *x, int lane, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  finding(x, lane, fmt, ap);
  va_end(ap);
  return EMU_FAILED;
}
