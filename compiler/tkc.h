/* tkc: the compiler as a library.
 *
 * A session holds sources, diagnostics and everything made from them; it is used by one thread at a time, any number of
 * sessions may run side by side. Nothing is printed and nothing exits: diagnostics are rendered on request.
 *
 *   tkc_session *s = tkc_open();
 *   if (tkc_load_file(s, "vector_add.tk") == TKC_OK && tkc_compile(s, &opt, &out) == TKC_OK) use(out.text, out.len);
 *   else fputs(tkc_diagnostics(s, TKC_DIAG_TEXT, 0), stderr);
 *   tkc_close(s);
 *
 * Strings and structures handed out belong to the session and live until tkc_close. */
#ifndef TKC_H
#define TKC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TKC_VERSION_MAJOR 0
#define TKC_VERSION_MINOR 1
/* The version of the library: 100 * major + minor. A program compares it with the header's. */
int tkc_version(void);

typedef struct tkc_session tkc_session;

typedef enum tkc_status {
  TKC_OK = 0,
  TKC_ERRORS = 1,   /* the input is wrong: see tkc_diagnostics */
  TKC_USAGE = 2,    /* an option is wrong: see tkc_diagnostics */
  TKC_INTERNAL = 70 /* a bug of tkc: tkc_diagnostics says where; the session can only be closed */
} tkc_status;

/* NULL only when there is no memory. */
tkc_session *tkc_open(void);
void tkc_close(tkc_session *s); /* NULL is allowed */

/* One source per session. `.tk` and `.py` hold the language; `.tir` holds tile IR as tkc prints it. */
tkc_status tkc_load_file(tkc_session *s, const char *path);
tkc_status tkc_load_text(tkc_session *s, const char *path, const char *text, size_t len);

/* ---- what a file holds ---- */

typedef enum tkc_param_kind {
  TKC_PARAM_POINTER,
  TKC_PARAM_SCALAR,
  TKC_PARAM_CONSTEXPR,
  TKC_PARAM_UNTYPED,
  TKC_PARAM_DESCRIPTOR /* whose type is stated; the block shape may depend on constexpr parameters */
} tkc_param_kind;
typedef struct tkc_param {
  const char *name;
  tkc_param_kind kind;
  const char
      *dtype;    /* "f32": of the pointee or the scalar; NULL when not known without a signature, or of a descriptor */
  bool is_const; /* pointer to const */
  bool no_specialize;        /* do_not_specialize: neither ==1 nor divisibility */
  int divisibility;          /* stated in the source (`:16`); 1 = nothing stated */
  const char *default_value; /* text of the default, NULL = none */
} tkc_param;
typedef struct tkc_kernel {
  const char *name;
  int n_params;
  const tkc_param *params;
  const char *grid; /* text of @grid(...), NULL = none */
} tkc_kernel;
int tkc_n_kernels(const tkc_session *s);
const tkc_kernel *tkc_kernel_at(const tkc_session *s, int i); /* entry kernels in source order; NULL beyond */

/* ---- compiling ---- */

typedef enum tkc_emit { TKC_EMIT_PTX, TKC_EMIT_LLVM, TKC_EMIT_TILE, TKC_EMIT_AST } tkc_emit;

typedef struct tkc_options {
  const char *kernel;         /* NULL = every entry kernel (that has types for all of its parameters) */
  const char *arch;           /* "sm_90a"; NULL = "sm_80" */
  const char *signature;      /* 'x=*f32:16,n=i32,k=i32:1,d=tensordesc<f16[64, 32]>'; NULL = annotations only */
  const char *const *defines; /* "NAME=VALUE" */
  int n_defines;
  int num_warps, num_stages; /* 0 = the kernel's own, else 4 and 3 */
  int ptx_version;           /* 10 * major + minor; 0 = the lowest that the used features need */
  bool debug;                /* device_assert is active */
  bool no_line_info;         /* no .loc */
  bool no_tensor_maps;       /* no copies through tensor maps, which demand more of strides than other loads do */
  bool no_gang;              /* each program has a block of its own at a time: for grids of one or two along x */
  tkc_emit emit;
  const char *dump_after; /* comma-separated pass names or "all": their output goes to tkc_dump */
  const char *stop_after; /* --emit tile: after this pass (default: after the last) */
  bool time_passes;       /* table in tkc_dump */
  bool verify;            /* check the IR after every pass (tests, debugging) */
  bool resource_usage;    /* keep what tkc_report tells */
  bool warnings_error;
  const char *const *warnings; /* -W names without "-W": "name" on, "no-name" off, "all" */
  int n_warnings;
} tkc_options;

typedef struct tkc_output {
  const char *text; /* NUL-terminated */
  size_t len;
} tkc_output;

/* Checks options and source completely; `out` is set only on TKC_OK. */
tkc_status tkc_compile(tkc_session *s, const tkc_options *opt, tkc_output *out);
const char *tkc_dump(const tkc_session *s); /* text asked for by dump_after and time_passes; "" if none */
/* After tkc_compile with resource_usage: what each kernel needs (shared memory piece by piece, occupancy) and what
   became of every load, store and dot, with the reasons. `assembler_log` is what `ptxas -v` said about the PTX, for
   registers and spills; NULL = not assembled. "" if there is nothing to tell. */
const char *tkc_report(tkc_session *s, const char *assembler_log);
const char *tkc_static_prints(const tkc_session *s); /* what static_print said; "" if nothing */

typedef enum tkc_diag_style { TKC_DIAG_TEXT, TKC_DIAG_LINE, TKC_DIAG_JSON } tkc_diag_style;
/* Every diagnostic so far, rendered; "" if none (JSON: "[]\n"). */
const char *tkc_diagnostics(tkc_session *s, tkc_diag_style style, bool colour);
int tkc_n_errors(const tkc_session *s);

/* Names of passes in order, for help texts; NULL beyond the last. */
const char *tkc_pass_name(int i);
const char *tkc_pass_sentence(int i);
const char *tkc_arch_name(int i); /* targets, for help texts; NULL beyond the last */

/* ---- running on the CPU ---- */

/* Memory that a kernel may touch, with its bounds. Pointer arguments point into one of them. */
typedef struct tkc_buffer {
  const char *name; /* for reports */
  void *data;
  size_t bytes;
} tkc_buffer;

/* One argument a parameter, constexprs left out, in order: the value in its memory encoding. Integers and floats of the
   parameter's type; pointers as the host address. A descriptor is several: the address, the extents (i32), and the
   strides but the last (i64, in elements). */
typedef struct tkc_arg {
  union {
    int64_t i;
    uint64_t bits; /* floats: encoding in the low bits */
    const void *pointer;
  } v;
} tkc_arg;

typedef struct tkc_run_options {
  const char *after_pass; /* interpret the IR as it is after this pass; NULL = as the front end made it */
  uint64_t order_seed;    /* 0 = programs in order, else in a random order from this seed */
  uint64_t max_steps;     /* ops executed per program; 0 = a large default */
  int max_findings;       /* 0 = 20 */
  void (*print)(void *user, const char *text, size_t len); /* device_print; NULL = dropped */
  void *user;
} tkc_run_options;

/* Interprets one kernel over the grid with every check of the interpreter; findings become diagnostics and TKC_ERRORS.
 */
tkc_status tkc_interpret(tkc_session *s, const tkc_options *opt, const int64_t grid[3], const tkc_buffer *buffers,
                         int n_buffers, const tkc_arg *args, int n_args, const tkc_run_options *run);

#ifdef __cplusplus
}
#endif
#endif
