/* Launching: checks of the shape, memory of a CTA, and the loop over the grid. */
#include "runtime/emu/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t emu_module_kernel_count(const emu_module *m) {
  size_t n = 0;
  for (uint32_t k = 0; k < m->nfuncs; k++) n += m->funcs[k].is_entry;
  return n;
}

const emu_kernel *emu_module_kernel_at(const emu_module *m, size_t index) {
  for (uint32_t k = 0; k < m->nfuncs; k++)
    if (m->funcs[k].is_entry && index-- == 0) return &m->funcs[k].kernel;
  return NULL;
}

const emu_kernel *emu_module_kernel(const emu_module *m, const char *name) {
  for (uint32_t k = 0; k < m->nfuncs; k++)
    if (m->funcs[k].is_entry && strcmp(m->funcs[k].name, name) == 0) return &m->funcs[k].kernel;
  return NULL;
}

const char *emu_module_target(const emu_module *m) { return m->target; }

const char *emu_status_text(emu_status s) {
  static const char *const text[] = {"ok", "bad launch", "fault", "instruction budget used up", "out of memory"};
  return (unsigned)s < sizeof text / sizeof *text ? text[s] : "?";
}

/* NULL, or what is wrong with the launch. */
static const char *check_launch(const emu_exec *x, char *buf, size_t cap) {
  const emu_launch_options *o = x->o;
  const emu_kernel *k = &x->kernel->kernel;
  uint64_t threads = 1;
  for (int a = 0; a < 3; a++) {
    if (o->grid[a] == 0 || o->block[a] == 0) return "grid and block extents must be at least 1";
    if (o->block[a] > 1024) return "a block has at most 1024 threads";
    threads *= o->block[a];
  }
  if (threads > 1024 || o->block[2] > 64) return "a block has at most 1024 threads (64 along z)";
  if (o->grid[1] > 65535 || o->grid[2] > 65535 || o->grid[0] > 0x7fffffff) return "the grid is too large";
  for (int a = 0; a < 3; a++) {
    if (k->reqntid[0] == 0 || k->reqntid[a] == o->block[a]) continue;
    snprintf(buf, cap, "the kernel requires blocks of %ux%ux%u threads", k->reqntid[0], k->reqntid[1], k->reqntid[2]);
    return buf;
  }
  if (k->maxntid[0] != 0 && threads > (uint64_t)k->maxntid[0] * k->maxntid[1] * k->maxntid[2])
    return "more threads than the kernel's .maxntid";
  if (o->params_size != k->params_size) {
    snprintf(buf, cap, "the parameter buffer has %zu bytes, the kernel takes %u", o->params_size, k->params_size);
    return buf;
  }
  if (o->params == NULL && k->params_size > 0) return "the parameter buffer is missing";
  if (o->dynamic_shared > EMU_SHARED_LIMIT || x->shared_size > EMU_SHARED_LIMIT) {
    snprintf(buf, cap, "%u bytes of shared memory are more than %d", x->shared_size, EMU_SHARED_LIMIT);
    return buf;
  }
  return NULL;
}

static bool allocate(emu_exec *x) {
  x->warps = calloc(x->nwarps, sizeof *x->warps);
  x->shared = malloc(x->shared_size + 16);
  x->shadow = malloc((x->shared_size + 16) * sizeof *x->shadow);
  x->params = calloc(1, x->o->params_size + 16);
  if (x->warps == NULL || x->shared == NULL || x->shadow == NULL || x->params == NULL) return false;
  if (x->o->params_size > 0) memcpy(x->params, x->o->params, x->o->params_size);
  return true;
}

static void release(emu_exec *x) {
  for (uint32_t k = 0; x->warps != NULL && k < x->nwarps; k++) {
    free(x->warps[k].regs);
    free(x->warps[k].local);
    free(x->warps[k].param);
    free(x->warps[k].copies);
    free(x->warps[k].wgmma);
  }
  emu__async_reset(x);
  free(x->async);
  free(x->mbars);
  free(x->warps);
  free(x->shared);
  free(x->shadow);
  free(x->readers);
  free(x->params);
}

static void run_grid(emu_exec *x) {
  const uint32_t *g = x->o->grid;
  for (x->ctaid[2] = 0; x->ctaid[2] < g[2]; x->ctaid[2]++)
    for (x->ctaid[1] = 0; x->ctaid[1] < g[1]; x->ctaid[1]++)
      for (x->ctaid[0] = 0; x->ctaid[0] < g[0]; x->ctaid[0]++)
        if (!emu__run_cta(x)) return;
}

emu_status emu_launch(emu_machine *mc, emu_module *m, const emu_kernel *k, const emu_launch_options *o,
                      emu_report *report) {
  emu_report *scratch = report != NULL ? report : malloc(sizeof *scratch);
  emu_exec *x = calloc(1, sizeof *x);
  emu_status status = EMU_NO_MEMORY;
  if (x != NULL && scratch != NULL) {
    memset(scratch, 0, sizeof *scratch);
    x->mc = mc;
    x->m = m;
    x->o = o;
    x->report = scratch;
    for (uint32_t f = 0; f < m->nfuncs; f++)
      if (&m->funcs[f].kernel == k) x->kernel = &m->funcs[f];
    char buf[160];
    const char *why = "the kernel does not belong to the module";
    if (x->kernel != NULL) {
      uint32_t fixed = x->kernel->kernel.static_shared;
      x->shared_size = o->dynamic_shared > 0 ? m->dynamic_start + o->dynamic_shared : fixed;
      x->budget = o->max_instructions != 0 ? o->max_instructions : (uint64_t)1 << 32;
      why = check_launch(x, buf, sizeof buf);
    }
    if (why != NULL) {
      x->status = EMU_BAD_LAUNCH;
      scratch->count = 1;
      emu__note(x, "%s", why);
    } else {
      x->nthreads = o->block[0] * o->block[1] * o->block[2];
      x->nwarps = (x->nthreads + EMU_LANES - 1) / EMU_LANES;
      x->status = EMU_OK;
      if (allocate(x))
        run_grid(x);
      else
        x->status = EMU_NO_MEMORY;
    }
    status = x->status;
    scratch->instructions = x->executed;
    if (status == EMU_NO_MEMORY) emu__note(x, "%sout of memory", scratch->count > 0 ? "\n" : "");
    release(x);
  }
  if (scratch != report) free(scratch);
  free(x);
  return status;
}
