/* jit: the one file that joins the runtime to the compiler. It fills tk_compiler from tkc.h.
 *
 * Each call opens a session of its own and closes it again: a session serves one thread and keeps the memory of
 * everything it ever compiled, while kernels are compiled by whichever thread launches one first and then for a long
 * time not. Reading the source again costs far less than compiling it. */
#include <stdlib.h>
#include <string.h>

#include "compiler/tkc.h"
#include "runtime/device.h"

static char *copy_text(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = malloc(n);
  return copy ? memcpy(copy, s, n) : NULL;
}

/* Closes the session; false, with its diagnostics in *why. */
static bool failed(tkc_session *s, char **why) {
  *why = s ? copy_text(tkc_diagnostics(s, TKC_DIAG_TEXT, false)) : NULL;
  tkc_close(s);
  return false;
}

static tkc_session *open_source(const char *path, const char *text, size_t len, tkc_status *status) {
  tkc_session *s = tkc_open();
  *status = s ? tkc_load_text(s, path, text, len) : TKC_INTERNAL;
  return s;
}

/* ---- what a source declares -------------------------------------------------------------------------------------- */

static void jit_forget(tk__declaration *d, int n) {
  for (int i = 0; d && i < n; i++) {
    for (int j = 0; d[i].params && j < d[i].n_params; j++) free((char *)d[i].params[j].name);
    free(d[i].params);
    free((char *)d[i].name);
  }
  free(d);
}

static bool declare_param(const tkc_param *from, tk__declared_param *to) {
  static const struct {
    tk_param_kind kind;
    bool typed;
  } kinds[] = {[TKC_PARAM_POINTER] = {TK_PARAM_POINTER, true},
               [TKC_PARAM_SCALAR] = {TK_PARAM_SCALAR, true},
               [TKC_PARAM_CONSTEXPR] = {TK_PARAM_CONSTEXPR, false},
               [TKC_PARAM_DESCRIPTOR] = {TK_PARAM_DESCRIPTOR, true},
               [TKC_PARAM_UNTYPED] = {TK_PARAM_SCALAR, false}};
  to->kind = kinds[from->kind].kind;
  to->typed = kinds[from->kind].typed && from->dtype && tk_dtype_parse(from->dtype, strlen(from->dtype), &to->dtype);
  to->is_const = from->is_const;
  to->no_specialize = from->no_specialize;
  to->divisibility = from->divisibility;
  to->name = copy_text(from->name);
  return to->name != NULL;
}

static bool declare(const tkc_kernel *from, tk__declaration *to) {
  to->name = copy_text(from->name);
  to->params = calloc((size_t)from->n_params + 1, sizeof *to->params);
  if (!to->name || !to->params) return false;
  for (int i = 0; i < from->n_params; i++) {
    to->n_params = i + 1;
    if (!declare_param(&from->params[i], &to->params[i])) return false;
  }
  return true;
}

static bool jit_describe(const char *path, const char *text, size_t len, tk__declaration **out, int *n, char **why) {
  tkc_status st;
  tkc_session *s = open_source(path, text, len, &st);
  *out = NULL;
  *n = 0;
  *why = NULL;
  if (st != TKC_OK) return failed(s, why);
  int count = tkc_n_kernels(s);
  tk__declaration *d = calloc((size_t)count + 1, sizeof *d);
  bool ok = d != NULL;
  for (int i = 0; i < count && ok; i++) ok = declare(tkc_kernel_at(s, i), &d[i]);
  tkc_close(s);
  if (!ok) {
    jit_forget(d, count);
    return false;
  }
  *out = d;
  *n = count;
  return true;
}

/* ---- compiling and interpreting ---------------------------------------------------------------------------------- */

static tkc_options options_of(const tk__build *b) {
  const tk_load_options *o = b->options;
  return (tkc_options){.kernel = b->kernel,
                       .arch = b->arch,
                       .signature = b->signature && *b->signature ? b->signature : NULL,
                       .defines = o->defines,
                       .n_defines = o->n_defines,
                       .num_warps = o->num_warps,
                       .num_stages = o->num_stages,
                       .debug = o->debug,
                       .no_tensor_maps = b->no_tensor_maps || o->no_tensor_maps,
                       .no_gang = b->no_gang || o->no_gang};
}

static bool jit_compile(const tk__build *b, char **ptx, size_t *len, char **said, char **why) {
  tkc_status st;
  tkc_session *s = open_source(b->path, b->text, b->len, &st);
  tkc_options o = options_of(b);
  tkc_output out = {0};
  *ptx = *said = *why = NULL;
  if (st == TKC_OK) st = tkc_compile(s, &o, &out);
  if (st != TKC_OK) return failed(s, why);
  *ptx = malloc(out.len + 1);
  *len = out.len;
  if (*ptx) {
    memcpy(*ptx, out.text, out.len);
    (*ptx)[out.len] = '\0';
    if (*tkc_static_prints(s)) *said = copy_text(tkc_static_prints(s));
  }
  tkc_close(s);
  return *ptx != NULL;
}

static bool jit_interpret(const tk__build *b, const tk__interpretation *run, bool *fault, char **why) {
  tkc_status st;
  tkc_session *s = open_source(b->path, b->text, b->len, &st);
  tkc_options o = options_of(b);
  tkc_run_options how = {.print = run->print, .user = run->user};
  int64_t grid[3] = {run->grid[0], run->grid[1], run->grid[2]};
  tkc_buffer *buffers = calloc((size_t)run->n_memory + 1, sizeof *buffers);
  tkc_arg *args = calloc((size_t)run->n_args + 1, sizeof *args);
  *why = NULL;
  *fault = false;
  if (buffers && args) {
    for (int i = 0; i < run->n_memory; i++)
      buffers[i] = (tkc_buffer){run->memory[i].name, run->memory[i].data, run->memory[i].bytes};
    for (int i = 0; i < run->n_args; i++) args[i].v.bits = run->args[i];
    if (st == TKC_OK) {
      st = tkc_interpret(s, &o, grid, buffers, run->n_memory, args, run->n_args, &how);
      *fault = st == TKC_ERRORS; /* the kernel compiled before, so these are findings */
    }
  } else {
    st = TKC_INTERNAL;
  }
  free(buffers);
  free(args);
  if (st != TKC_OK) return failed(s, why);
  tkc_close(s);
  return true;
}

const tk_compiler *tk_jit(void) {
  static const tk_compiler compiler = {jit_describe, jit_forget, jit_compile, jit_interpret};
  return &compiler;
}
