/* passes: from the IR that the front end made to the IR that the emitter takes. The pipeline is passes.def. */
#ifndef PASSES_H
#define PASSES_H

#include "compiler/arch/arch.h"
#include "compiler/ir/tir.h"

/* What a pass decided about one access, dot or loop, in words: for --resource-usage. */
struct pass_remark {
  span at;
  const char *text;
};
typedef struct pass_remarks {
  arena *a;
  VEC(struct pass_remark) list;
} pass_remarks;

typedef struct pass_cx {
  const arch_t *arch;
  diag_sink *sink;
  pass_remarks *remarks; /* NULL: nobody asks */
  bool no_tensor_maps;   /* the user wants none, or the arguments at hand have none */
  bool no_gang;          /* the user wants no programs side by side in a block */
} pass_cx;

/* Appends a remark about what stands at `at`: half a sentence that follows "load:" or "dot:", such as "pipelined in 3
   stages" or "not pipelined: p is written in the loop". The same words about the same place are kept once. Does nothing
   if nobody asks; a pass whose reasons are costly to find asks for cx->remarks first. */
void pass_remark(const pass_cx *cx, span at, const char *fmt, ...) BASE_PRINTF(3, 4);
/* An access goes another way than by registers: drops what was said of its width. */
void pass_remark_no_width(const pass_cx *cx, span at);
#define PASS_REMARK_WIDTH "bytes per access" /* in a remark about an access' width */

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
