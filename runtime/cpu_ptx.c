/* cpu_ptx: kernels of a .ptx on the CPU device, through the PTX emulator.
 *
 * Device memory of the CPU device is host memory, so buffers are shown to the emulator at their own addresses, for the
 * time of one launch: it then knows the bounds of exactly what the kernel was given. An emulator's module serves one
 * thread at a time, hence the lock; machines are made for each launch. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/emu.h"
#include "runtime/internal.h"

typedef struct cpu_module {
  emu_module *emu;
  pthread_mutex_t lock;
} cpu_module;

tk_status tk__ptx_load(tk_context *cx, const char *name, const char *ptx, size_t len, const tk_artifact *a,
                       void **module) {
  emu_error e = {0};
  (void)a;
  *module = NULL;
  cpu_module *m = calloc(1, sizeof *m);
  if (!m || pthread_mutex_init(&m->lock, NULL) != 0) {
    free(m);
    return tk__no_memory(cx);
  }
  m->emu = emu_parse(ptx, len, &e);
  if (!m->emu) {
    pthread_mutex_destroy(&m->lock);
    free(m);
    return tk__fail(cx, TK_CPU_CANNOT_RUN_PTX, "%s:%u: %s", name, (unsigned)e.line, e.text);
  }
  *module = m;
  return TK_OK;
}

void tk__ptx_unload(tk_context *cx, void *module) {
  cpu_module *m = module;
  (void)cx;
  emu_module_free(m->emu);
  pthread_mutex_destroy(&m->lock);
  free(m);
}

/* The entry's parameter number i has that size; one past the last passes, for their number is checked afterwards. */
static tk_status check_size(tk_context *cx, const emu_kernel *e, uint32_t i, const char *name, size_t bytes) {
  if (i >= e->nparams || e->params[i].size == bytes) return TK_OK;
  return tk__fail(cx, TK_BAD_ARTIFACT, "'%s' of '%s' has %zu bytes in the metadata and %u in the PTX", name, e->name,
                  bytes, (unsigned)e->params[i].size);
}

tk_status tk__ptx_bind(tk_context *cx, void *module, const tk_artifact_kernel *k, void **fn, uint32_t *room) {
  const emu_kernel *e = emu_module_kernel(((cpu_module *)module)->emu, k->name);
  if (!e) return tk__fail(cx, TK_NO_SUCH_KERNEL, "the metadata names '%s', the PTX has no such entry", k->name);
  uint32_t n = 0;
  tk_status s = TK_OK;
  for (int i = 0; i < k->n_params && s == TK_OK; i++) {
    const tk_artifact_param *p = &k->params[i];
    for (int j = 0; j < tk_artifact_n_passed(p) && s == TK_OK; j++)
      s = check_size(cx, e, n++, p->name, tk_artifact_passed_bytes(p, j));
  }
  for (int i = 0; i < k->n_maps && s == TK_OK; i++)
    s = check_size(cx, e, n++, k->maps[i].param, sizeof((tk__map *)0)->bytes);
  if (k->persistent && s == TK_OK) s = check_size(cx, e, n++, "programs", sizeof(tk__programs));
  if (s != TK_OK) return s;
  if (n != e->nparams)
    return tk__fail(cx, TK_BAD_ARTIFACT, "the entry '%s' has %u parameters, its metadata %u", k->name,
                    (unsigned)e->nparams, (unsigned)n);
  *fn = (void *)e;
  *room = 0; /* so that reports name blocks as the grid does */
  return TK_OK;
}

/* Shows the launch's buffers to the machine, each once. */
static tk_status map_buffers(tk_context *cx, emu_machine *machine, const tk__launch *l) {
  const tk__variant *v = l->variant;
  tk__memory memory[TK_ARTIFACT_MAX_PARAMS];
  int n;
  tk_status s = tk__launch_memory(cx, l, memory, &n);
  if (s != TK_OK) return s;
  for (int i = 0; i < n; i++) {
    uint64_t address;
    if (!emu_map(machine, memory[i].data, memory[i].bytes, memory[i].name, EMU_MAP_IDENTITY, &address))
      return tk__fail(cx, TK_UNSUPPORTED, "the buffer '%s' of '%s' overlaps another one, or memory is short",
                      memory[i].name, v->kernel->name);
  }
  return TK_OK;
}

static tk_status emulate(tk_context *cx, emu_machine *machine, cpu_module *m, const tk__launch *l) {
  const tk_artifact_kernel *k = l->variant->meta;
  const emu_kernel *e = l->variant->fn;
  unsigned char
      params[8 * TK_ARTIFACT_MAX_PARAMS + (TK_ARTIFACT_MAX_MAPS + 1) * sizeof(tk__map) + sizeof(tk__programs)] = {0};
  emu_report report;
  if (e->params_size > sizeof params) return tk__fail(cx, TK_UNSUPPORTED, "'%s' has too many parameters", k->name);
  for (uint32_t i = 0; i < e->nparams; i++) memcpy(params + e->params[i].offset, l->passed[i], e->params[i].size);
  emu_launch_options o = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                          .block = {(uint32_t)tk_artifact_threads(k), 1, 1},
                          .dynamic_shared = (uint32_t)k->dynamic_shared_bytes,
                          .params = params,
                          .params_size = e->params_size,
                          .print = cx->print,
                          .user = cx->print_user};
  pthread_mutex_lock(&m->lock);
  emu_status s = emu_launch(machine, m->emu, e, &o, &report);
  pthread_mutex_unlock(&m->lock);
  if (s == EMU_OK) return TK_OK;
  if (s == EMU_NO_MEMORY) return tk__no_memory(cx);
  return tk__fail(cx, s == EMU_BAD_LAUNCH ? TK_LAUNCH_OUT_OF_RESOURCES : TK_CHECK_FAILED, "kernel '%s': %s:\n%s",
                  k->name, emu_status_text(s), report.text);
}

tk_status tk__ptx_launch(tk_context *cx, const tk__launch *l) {
  emu_machine *machine = emu_machine_new();
  if (!machine) return tk__no_memory(cx);
  tk_status s = map_buffers(cx, machine, l);
  if (s == TK_OK) s = emulate(cx, machine, l->variant->kernel->module->device_module, l);
  emu_machine_free(machine);
  return s;
}

tk_status tk__ptx_encode_map(tk_context *cx, const tk__tensor_map *t, void *bytes, char *why, size_t size) {
  emu_tensor_map m = {.rank = (uint32_t)t->rank,
                      .elem_bytes = (uint32_t)tk_dtype_bytes(t->dtype),
                      .is_tf32 = t->is_tf32,
                      .swizzle = (uint32_t)t->swizzle,
                      .address = t->address};
  (void)cx;
  memcpy(m.dims, t->sizes, sizeof m.dims);
  memcpy(m.strides, t->strides + 1, sizeof m.strides);
  memcpy(m.box, t->box, sizeof m.box);
  if (emu_tensor_map_encode(&m, bytes)) return TK_OK;
  snprintf(why, size, "the emulator refuses it");
  return TK_UNSUPPORTED;
}
