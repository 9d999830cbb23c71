/* driver: what the parts of the driver share; everybody else uses tkc.h. */
#ifndef DRIVER_H
#define DRIVER_H

#include "compiler/arch/arch.h"
#include "compiler/passes/passes.h"
#include "compiler/tkc.h"
#include "lang/lang.h"

struct tkc_session {
  arena *a;
  strtab *names;
  src_map *sources;
  diag_sink sink;
  tir_cx *cx;
  const src_file *source;
  lang_unit *unit;     /* `.tk`, `.py` */
  tir_fn *read;        /* `.tir` */
  tkc_kernel *kernels; /* as tkc_kernel_at hands them out */
  int n_kernels;
  textbuf dump, prints;
  struct driver_usage *usage; /* for tkc_report, newest first */
  bool broken;                /* an internal error was met */
};

/* One kernel on its way: its IR and how its parameters were bound. */
typedef struct driver_kernel {
  const lang_kernel *kernel; /* NULL for a `.tir` */
  lang_binding *bindings;
  tir_fn *fn;
} driver_kernel;

/* Options that every command shares, checked and looked up once. */
typedef struct driver_plan {
  const tkc_options *opt;
  const arch_t *arch;
  int last_pass; /* -1 = as the front end made it */
} driver_plan;

/* Checks options; TKC_USAGE (reported) if one is wrong. */
tkc_status driver_plan_make(tkc_session *s, const tkc_options *opt, driver_plan *out);
/* Front end and passes up to plan->last_pass for the kernels that opt->kernel selects; *n = 0 after errors. */
driver_kernel *driver_kernels(tkc_session *s, const driver_plan *plan, int *n);
/* The metadata block for kernels at PLACED; NULL (reported) if it cannot be written. Lives in the session's arena. */
const char *driver_metadata(tkc_session *s, const driver_plan *plan, const driver_kernel *k, int n, int ptx_version);

/* What tkc_report tells of one kernel. */
typedef struct driver_usage {
  const tir_fn *fn;
  const arch_t *arch;
  pass_remarks remarks;
  bool listed;                           /* subjects are known */
  VEC(struct driver_subject *) subjects; /* loads, stores and dots as canon left them, by place */
  struct driver_usage *next;
} driver_usage;
driver_usage *driver_usage_new(tkc_session *s, const driver_plan *plan, const tir_fn *fn);
/* Notes the function's accesses and dots, once: at the first call. */
void driver_usage_list(tkc_session *s, driver_usage *u);

/* Body of a public function: runs `call` (a tkc_status) inside a guard and returns its result. After an internal error
   the session accepts nothing but reading its diagnostics and closing. */
tkc_status driver_internal_error(tkc_session *s, const base_guard *g);
#define DRIVER_GUARDED(s, call)                                   \
  do {                                                            \
    if ((s)->broken) return TKC_INTERNAL;                         \
    base_guard guard_;                                            \
    base_guard_push(&guard_);                                     \
    volatile tkc_status result_ = TKC_INTERNAL;                   \
    volatile bool fell_ = true;                                   \
    if (setjmp(guard_.jump) == 0) {                               \
      result_ = (call);                                           \
      fell_ = false;                                              \
    }                                                             \
    base_guard_pop(&guard_);                                      \
    return fell_ ? driver_internal_error((s), &guard_) : result_; \
  } while (0)

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/diags.def"
#undef DIAG

#endif
