/* Running a kernel's text in the interpreter, for its tests. */
#ifndef TESTS_INTERP_LAB_H
#define TESTS_INTERP_LAB_H

#include "compiler/interp/interp.h"

typedef struct lab {
  arena *a;
  tir_cx *cx;
  src_map *sources;
  diag_sink sink;
  interp_options options;
  textbuf printed;
} lab;

enum { MAX_BUFFERS = 4 };
typedef struct job {
  interp_buffer buffers[MAX_BUFFERS];
  int n_buffers;
  uint64_t args[8];
  int n_args;
} job;

lab *lab_new(void); /* one program; arena_free(l->a) ends it */
const char *lab_messages(lab *l);
/* The kernel; the test fails if the text is none, or not sound. */
tir_fn *lab_read(lab *l, const char *text);
void job_add(job *j, const char *name, void *data, size_t bytes); /* a buffer that is the next argument */
interp_status lab_run(lab *l, const char *text, const job *j);
void lab_run_clean(lab *l, const char *text, const job *j); /* the test fails if anything is found */

#endif
