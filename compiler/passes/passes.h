/* passes: from the IR that the front end made to the IR that the emitter takes. The pipeline is passes.def. */
#ifndef PASSES_H
#define PASSES_H

#include "compiler/arch/arch.h"
#include "compiler/ir/tir.h"

typedef struct pass_cx {
  const arch_t *arch;
  diag_sink *sink;
} pass_cx;

typedef struct pass_info {
  const char *name;
  tir_stage stage;
  const char *sentence;
  bool (*run)(tir_fn *fn, const pass_cx *cx); /* true = changed. Errors of the user's go to cx->sink */
} pass_info;
extern const pass_info pass_table[];
extern const int pass_count;

/* Index in pass_table; -1 if there is none of that name. */
int pass_named(const char *name, size_t len);

/* Called after each pass: for dumps, timing and interpretation between passes. NULL hooks are allowed. */
typedef struct pass_hooks {
  void (*after)(void *user, int pass, tir_fn *fn, double seconds);
  void *user;
  bool verify; /* run the verifier after each pass; a complaint is a panic that holds the function's text */
} pass_hooks;

/* Runs passes first..last (indices, inclusive). False if a pass reported an error. */
bool pass_run(tir_fn *fn, const pass_cx *cx, int first, int last, const pass_hooks *hooks);

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/passes/diags.def"
#undef DIAG

#define PASS(name, stage, sentence) bool pass_##name(tir_fn *fn, const pass_cx *cx);
#include "compiler/passes/passes.def"
#undef PASS

#endif
