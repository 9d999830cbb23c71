/* Findings: one diagnostic for each kind and place, however many lanes and programs run into it. */
#include "compiler/interp/machine.h"

#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "compiler/interp/diags.def"
#undef DIAG

static const span NOWHERE = {0, 0};

bool finding_first(worker *w, const diag_desc *what, span at) {
  machine *m = w->m;
  for (finding *f = m->findings; f; f = f->next) {
    if (f->what != what || f->at.pos != at.pos || f->at.len != at.len) continue;
    f->times++;
    if (f->last_program != w->program) f->programs++;
    f->last_program = w->program;
    return false;
  }
  finding *f = ARENA_NEW(m->a, finding);
  *f = (finding){.what = what, .at = at, .times = 1, .programs = 1, .last_program = w->program, .next = m->findings};
  m->findings = f;
  if (what->severity == DIAG_ERROR) m->n_errors++;
  if (++m->n_findings >= m->max_findings) atomic_store(&m->stop, true);
  return true;
}

void finding_describe(worker *w, diag *d, const tir_type *tile, int64_t lane) {
  w->m->findings->diag = d;
  const char *where = arena_printf(w->m->a, "in program (%lld, %lld, %lld)", (long long)w->pid[0], (long long)w->pid[1],
                                   (long long)w->pid[2]);
  if (lane == NO_LANE || !tile || tile->rank == 0) {
    diag_note(d, NOWHERE, "%s", where);
    return;
  }
  int64_t coord[TIR_MAX_RANK], rest = lane;
  for (int i = tile->rank - 1; i >= 0; i--) {
    coord[i] = rest % tile->shape[i];
    rest /= tile->shape[i];
  }
  textbuf b;
  text_init(&b, w->m->a);
  for (int i = 0; i < tile->rank; i++) text_printf(&b, "%s%lld", i ? ", " : "", (long long)coord[i]);
  diag_note(d, NOWHERE, "%s, lane %lld of %s: element [%s]", where, (long long)lane, tir_type_text(w->m->a, tile),
            b.at);
}

/* What usually helps against an undefined element from this op. */
static void explain_origin(diag *d, const tir_op *origin) {
  if (origin->code == OP_load) {
    diag_note(d, origin->at, "it was loaded here with the mask off and without `other`");
    diag_fix(d, origin->at, "give this load an `other`, or keep the lane out with the same mask");
  } else if (origin->code == OP_wgmma) {
    diag_note(d, origin->at, "it comes from this wgmma, and did not go through a wgmma_wait that covers it");
  } else {
    diag_note(d, origin->at, "it comes from this atomic, where the mask is off");
    diag_fix(d, origin->at, "keep the lane out with the same mask");
  }
}

void finding_undefined(worker *w, const diag_desc *what, const char *verb, const tir_op *op, const tir_type *tile,
                       int64_t lane, uint8_t origin) {
  machine *m = w->m;
  const tir_op *from = m->plan->origins[origin];
  bool reported = from->code == OP_alloc || from->code == OP_copy_async || from->code == OP_tma_release;
  if (reported) return; /* where it was read */
  bool division = from->code == OP_div || from->code == OP_rem;
  if (!finding_first(w, division ? &D_interp_div_zero : what, division ? from->at : op->at)) return;
  diag *d = division ? diag_add(m->sink, from->at, &D_interp_div_zero) : diag_add(m->sink, op->at, what, verb);
  finding_describe(w, d, tile, lane);
  if (division) {
    diag_note(d, op->at, "the result matters here");
    diag_fix(d, from->at, "mask the lane, or divide by `where(d != 0, d, 1)`");
  } else {
    explain_origin(d, from);
  }
}

void findings_close(machine *m) {
  for (const finding *f = m->findings; f; f = f->next) {
    if (f->times == 1 || !f->diag) continue;
    if (f->programs == 1)
      diag_note(f->diag, NOWHERE, "found %lld times in this program", (long long)f->times);
    else
      diag_note(f->diag, NOWHERE, "found %lld times in %lld programs", (long long)f->times, (long long)f->programs);
  }
}
