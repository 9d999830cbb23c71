#include "tests/unit/interp_lab.h"

#include <criterion/criterion.h>
#include <string.h>

static void print_line(void *user, const char *text, size_t len) { text_add(&((lab *)user)->printed, text, len); }

lab *lab_new(void) {
  arena *a = arena_new();
  lab *l = ARENA_NEW(a, lab);
  l->a = a;
  l->cx = tir_cx_new(a, strtab_new(a));
  l->sources = src_map_new(a);
  diag_sink_init(&l->sink, a, l->sources);
  text_init(&l->printed, a);
  l->options = (interp_options){.grid = {1, 1, 1}, .print = print_line, .user = l};
  return l;
}

const char *lab_messages(lab *l) {
  textbuf b;
  text_init(&b, l->a);
  diag_render(&l->sink, DIAG_LINE, false, &b);
  return b.at;
}

tir_fn *lab_read(lab *l, const char *text) {
  tir_fn *fn = tir_read(l->cx, l->a, &l->sink, src_add(l->sources, "k.tir", text, strlen(text)));
  cr_assert(fn != NULL, "%s\n%s", lab_messages(l), text);
  const char *complaint = tir_verify(fn);
  cr_assert(complaint == NULL, "%s", complaint);
  return fn;
}

void job_add(job *j, const char *name, void *data, size_t bytes) {
  j->buffers[j->n_buffers++] = (interp_buffer){name, data, bytes};
  j->args[j->n_args++] = (uint64_t)(uintptr_t)data;
}

interp_status lab_run(lab *l, const char *text, const job *j) {
  tir_fn *fn = lab_read(l, text);
  return interp_run(fn, j->buffers, j->n_buffers, j->args, j->n_args, &l->options, &l->sink);
}

void lab_run_clean(lab *l, const char *text, const job *j) {
  interp_status s = lab_run(l, text, j);
  cr_assert(s == INTERP_OK && l->sink.first == NULL, "status %d\n%s%s", s, lab_messages(l), text);
}
