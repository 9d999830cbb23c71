/* cpu: the CPU device. Device memory is host memory, every call has done its work when it returns, and streams are
 * therefore in order with each other. It has two executors that share this memory: kernels of a source are interpreted
 * with every check (by the compiler's interpreter, through tk_compiler), kernels of a .ptx run in the PTX emulator
 * (cpu_ptx.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/internal.h"

enum { ALIGNMENT = 256 }; /* as cuMemAlloc, so that divisibility does not depend on the device */

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

static tk_status cpu_host_alloc(tk_context *cx, size_t bytes, void **out) {
  if (bytes <= SIZE_MAX / 2 && posix_memalign(out, ALIGNMENT, bytes) == 0) return TK_OK;
  *out = NULL;
  return tk__fail(cx, TK_OUT_OF_HOST_MEMORY, "%zu bytes", bytes);
}

static void cpu_host_release(tk_context *cx, void *memory) {
  (void)cx;
  free(memory);
}

static tk_status cpu_alloc(tk_context *cx, size_t bytes, uint64_t *address) {
  void *p;
  tk_status s = cpu_host_alloc(cx, bytes, &p);
  *address = (uint64_t)(uintptr_t)p;
  return s;
}

static void cpu_release(tk_context *cx, uint64_t address) { cpu_host_release(cx, at(address)); }

static tk_status cpu_upload(tk_context *cx, uint64_t to, const void *from, size_t bytes, tk_stream *s) {
  (void)cx, (void)s;
  memcpy(at(to), from, bytes);
  return TK_OK;
}

static tk_status cpu_download(tk_context *cx, void *to, uint64_t from, size_t bytes, tk_stream *s) {
  (void)cx, (void)s;
  memcpy(to, at(from), bytes);
  return TK_OK;
}

static tk_status cpu_copy(tk_context *cx, uint64_t to, uint64_t from, size_t bytes, tk_stream *s) {
  return cpu_upload(cx, to, at(from), bytes, s);
}

static tk_status cpu_fill(tk_context *cx, uint64_t to, uint8_t value, size_t bytes, tk_stream *s) {
  (void)cx, (void)s;
  memset(at(to), value, bytes);
  return TK_OK;
}

/* ---- streams and events: there is nothing to wait for ------------------------------------------------------------ */

static tk_status cpu_synchronize(tk_context *cx) {
  (void)cx;
  return TK_OK;
}

static tk_status cpu_handle_new(tk_context *cx, void **handle) {
  (void)cx;
  *handle = NULL;
  return TK_OK;
}

static void cpu_handle_release(tk_context *cx, void *handle) { (void)cx, (void)handle; }

static tk_status cpu_stream_synchronize(tk_context *cx, tk_stream *s) {
  (void)cx, (void)s;
  return TK_OK;
}

static tk_status cpu_stream_wait(tk_context *cx, tk_stream *s, const tk_event *e) {
  (void)cx, (void)s, (void)e;
  return TK_OK;
}

static tk_status cpu_event_record(tk_event *e, tk_stream *s) {
  struct timespec now;
  (void)s;
  clock_gettime(CLOCK_MONOTONIC, &now);
  e->at = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
  return TK_OK;
}

static tk_status cpu_event_synchronize(tk_event *e) {
  (void)e;
  return TK_OK;
}

static tk_status cpu_event_elapsed(const tk_event *begin, const tk_event *end, double *milliseconds) {
  *milliseconds = end->at - begin->at;
  return TK_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static tk_status cpu_attributes(tk_context *cx, void *fn, const tk_artifact_kernel *k, tk_kernel_attributes *out) {
  (void)fn, (void)out;
  return tk__fail(cx, TK_UNSUPPORTED, "the CPU has no registers to report for '%s'", k->name);
}

tk_status tk__launch_memory(tk_context *cx, const tk__launch *l, tk__memory *out, int *n) {
  const tk__variant *v = l->variant;
  *n = 0;
  for (int i = 0; i < v->n_args; i++) {
    const tk_arg *a = tk__memory_of(&l->args[i]);
    if (a->kind == TK_ARG_ADDRESS && a->v.address)
      return tk__fail(cx, TK_UNSUPPORTED,
                      "argument '%s' is a raw address: the CPU device needs bounds; use tk_buffer_wrap",
                      v->rules[i].name);
    if (a->kind != TK_ARG_BUFFER || !a->v.buffer->address) continue;
    bool seen = false;
    for (int j = 0; j < *n && !seen; j++)
      seen = out[j].data == at(a->v.buffer->address) && out[j].bytes == a->v.buffer->bytes;
    if (!seen) out[(*n)++] = (tk__memory){v->rules[i].name, at(a->v.buffer->address), a->v.buffer->bytes};
  }
  return TK_OK;
}

static tk_status interpret(tk_context *cx, const tk__launch *l) {
  const tk__variant *v = l->variant;
  const tk_kernel *kernel = v->kernel;
  const tk_module *m = kernel->module;
  tk__memory memory[TK_ARTIFACT_MAX_PARAMS];
  uint64_t values[TK_ARTIFACT_MAX_PARAMS];
  int n, n_values = 0;
  tk_status s = tk__launch_memory(cx, l, memory, &n);
  if (s != TK_OK) return s;
  for (int i = 0; i < v->n_args; i++)
    for (int k = 0; k < v->rules[i].n_slots && v->rules[i].passed; k++)
      values[n_values++] = l->slots[v->rules[i].slot + k];
  tk__build b = {.path = m->name,
                 .text = m->text,
                 .len = m->len,
                 .kernel = kernel->name,
                 .signature = v->signature,
                 .options = &m->options,
                 .arch = cx->arch};
  tk__interpretation run = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                            .memory = memory,
                            .n_memory = n,
                            .args = values,
                            .n_args = n_values,
                            .print = cx->print,
                            .user = cx->print_user};
  char *why = NULL;
  bool fault = false;
  if (cx->compiler->interpret(&b, &run, &fault, &why)) return TK_OK;
  s = tk__fail(cx, fault ? TK_CHECK_FAILED : TK_COMPILE_ERROR, "kernel '%s':\n%s", kernel->name,
               why ? why : "out of memory");
  free(why);
  return s;
}

static tk_status cpu_launch(tk_context *cx, tk__launch *l) {
  return l->variant->kernel->module->is_source ? interpret(cx, l) : tk__ptx_launch(cx, l);
}

static void cpu_close(tk_context *cx) { (void)cx; }

static const tk__device_ops cpu_ops = {
    .close = cpu_close,
    .synchronize = cpu_synchronize,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .host_alloc = cpu_host_alloc,
    .host_release = cpu_host_release,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .stream_new = cpu_handle_new,
    .stream_release = cpu_handle_release,
    .stream_synchronize = cpu_stream_synchronize,
    .stream_wait = cpu_stream_wait,
    .event_new = cpu_handle_new,
    .event_release = cpu_handle_release,
    .event_record = cpu_event_record,
    .event_synchronize = cpu_event_synchronize,
    .event_elapsed = cpu_event_elapsed,
    .load = tk__ptx_load,
    .unload = tk__ptx_unload,
    .bind = tk__ptx_bind,
    .attributes = cpu_attributes,
    .launch = cpu_launch,
    .encode_map = tk__ptx_encode_map,
    .interprets = true,
};

tk_status tk__cpu_open(tk_context *cx) {
  cx->ops = &cpu_ops;
  snprintf(cx->name, sizeof cx->name, "cpu");
  snprintf(cx->arch, sizeof cx->arch, "sm_90a");
  return TK_OK;
}
