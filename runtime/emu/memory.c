/* Addresses to host memory: registered global memory, the module's variables, shared, local and parameter memory.
 *
 * Every access of a lane passes emu__access, which knows the bounds of what it points into; nothing is clamped or
 * wrapped. Registered memory gets fake addresses with wide gaps, so that an index that runs past a buffer meets nothing
 * rather than the next buffer, and a report can name the buffer that was overrun. */
#include "runtime/emu/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t first_address = (uint64_t)1 << 33, gap = (uint64_t)1 << 24, last_address = (uint64_t)1 << 56;

emu_machine *emu_machine_new(void) {
  emu_machine *mc = calloc(1, sizeof *mc);
  if (mc != NULL) mc->next = first_address;
  return mc;
}

void emu_machine_free(emu_machine *mc) {
  if (mc == NULL) return;
  for (uint32_t k = 0; k < mc->nregions; k++) free(mc->regions[k].name);
  free(mc->regions);
  free(mc);
}

/* The number of regions that start at or below addr. */
static uint32_t regions_below(const emu_machine *mc, uint64_t addr) {
  uint32_t lo = 0, hi = mc->nregions;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (mc->regions[mid].addr <= addr)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

bool emu_map(emu_machine *mc, void *host, size_t size, const char *name, unsigned flags, uint64_t *device) {
  if (host == NULL || size == 0 || size > (size_t)1 << 46) return false;
  uint64_t addr = (flags & EMU_MAP_IDENTITY) ? (uint64_t)(uintptr_t)host : mc->next;
  if (addr + size + gap > last_address) return false;
  uint32_t at = regions_below(mc, addr);
  if (at > 0 && mc->regions[at - 1].addr + mc->regions[at - 1].size > addr) return false;
  if (at < mc->nregions && mc->regions[at].addr < addr + size) return false;
  if (mc->nregions == mc->cap_regions) {
    uint32_t cap = mc->cap_regions == 0 ? 16 : mc->cap_regions * 2;
    emu_region *r = realloc(mc->regions, cap * sizeof *r);
    if (r == NULL) return false;
    mc->regions = r;
    mc->cap_regions = cap;
  }
  if (name == NULL) name = "buffer";
  char *copy = malloc(strlen(name) + 1);
  if (copy == NULL) return false;
  strcpy(copy, name);
  memmove(&mc->regions[at + 1], &mc->regions[at], (mc->nregions - at) * sizeof *mc->regions);
  mc->regions[at] = (emu_region){addr, size, host, copy, (flags & EMU_MAP_READ_ONLY) != 0};
  mc->nregions++;
  if (!(flags & EMU_MAP_IDENTITY)) mc->next = (addr + size + 2 * gap - 1) & ~(gap - 1);
  *device = addr;
  return true;
}

bool emu_unmap(emu_machine *mc, uint64_t device) {
  uint32_t at = regions_below(mc, device);
  if (at == 0 || mc->regions[at - 1].addr != device) return false;
  at--;
  free(mc->regions[at].name);
  mc->nregions--;
  memmove(&mc->regions[at], &mc->regions[at + 1], (mc->nregions - at) * sizeof *mc->regions);
  return true;
}

/* reports */

static void describe_range(char *out, size_t cap, const char *name, uint64_t base, uint64_t size, uint64_t addr) {
  if (addr >= base + size)
    snprintf(out, cap, "%llu bytes past the end of '%s' (%llu bytes)", (unsigned long long)(addr - base - size), name,
             (unsigned long long)size);
  else if (addr < base)
    snprintf(out, cap, "%llu bytes before the start of '%s' (%llu bytes)", (unsigned long long)(base - addr), name,
             (unsigned long long)size);
  else
    snprintf(out, cap, "'%s' + %llu (%llu bytes)", name, (unsigned long long)(addr - base), (unsigned long long)size);
}

static void describe_global(const emu_exec *x, uint64_t addr, char *out, size_t cap) {
  uint64_t best = UINT64_MAX;
  snprintf(out, cap, "no buffer is near");
  for (uint32_t k = 0; k < x->mc->nregions; k++) {
    const emu_region *r = &x->mc->regions[k];
    uint64_t far = addr < r->addr ? r->addr - addr : addr >= r->addr + r->size ? addr - (r->addr + r->size) + 1 : 0;
    if (far >= best) continue;
    best = far;
    describe_range(out, cap, r->name, r->addr, r->size, addr);
  }
  for (uint32_t k = 0; k < x->m->nvars; k++) {
    const emu_var *v = &x->m->vars[k];
    if (v->space != EMU_GLOBAL || addr < v->addr || addr > v->addr + v->size) continue;
    describe_range(out, cap, v->name, v->addr, v->size, addr);
  }
}

static void describe_variable(const emu_exec *x, emu_space space, uint64_t addr, char *out, size_t cap) {
  const emu_var *near = NULL;
  for (uint32_t k = 0; k < x->m->nvars; k++) {
    const emu_var *v = &x->m->vars[k];
    if (space == EMU_SHARED && v->user != UINT32_MAX && v->user != 1 + (uint32_t)(x->kernel - x->m->funcs)) continue;
    if (v->space == space && v->addr <= addr && (near == NULL || v->addr >= near->addr)) near = v;
  }
  if (near == NULL) {
    snprintf(out, cap, "below every variable of its space");
    return;
  }
  uint64_t size = near->external ? EMU_SHARED_START + (uint64_t)x->shared_size - near->addr : near->size;
  describe_range(out, cap, near->name, near->addr, size, addr);
}

void emu__describe(const emu_exec *x, emu_space space, uint64_t addr, char *out, size_t cap) {
  if (space == EMU_GLOBAL)
    describe_global(x, addr, out, cap);
  else if (space == EMU_SHARED || space == EMU_CONST)
    describe_variable(x, space, addr, out, cap);
  else if (space == EMU_LOCAL)
    snprintf(out, cap, "the thread has %u bytes of local memory",
             emu__top(x->f)->local_base + x->m->funcs[emu__top(x->f)->func].local_size);
  else
    snprintf(out, cap, "the kernel has %u bytes of parameters", x->kernel->kernel.params_size);
}

/* accesses */

static uint8_t *out_of_bounds(emu_exec *x, emu_space space, uint64_t addr, uint32_t size, uint32_t lane, unsigned how) {
  static const char *const names[] = {"generic", "global", "shared", "local", "const", "param"};
  char place[256];
  emu__describe(x, space, addr, place, sizeof place);
  emu__fault(x, (int)lane, "%s of %u bytes out of bounds at %s address 0x%llx: %s%s",
             (how & EMU_WRITE) ? "write" : "read", size, names[space], (unsigned long long)addr,
             space == EMU_GLOBAL && addr < 4096 ? "null pointer; " : "", place);
  return NULL;
}

static bool inside(uint64_t base, uint64_t size, uint64_t addr, uint32_t n) {
  return addr >= base && addr - base < size && n <= size - (addr - base);
}

static uint8_t *access_global(emu_exec *x, uint64_t addr, uint32_t size, uint32_t lane, unsigned how) {
  const emu_machine *mc = x->mc;
  const emu_region *r = x->last_region < mc->nregions ? &mc->regions[x->last_region] : NULL;
  if (r == NULL || !inside(r->addr, r->size, addr, size)) {
    uint32_t at = regions_below(mc, addr);
    r = at > 0 ? &mc->regions[at - 1] : NULL;
    if (r != NULL && inside(r->addr, r->size, addr, size))
      x->last_region = at - 1;
    else
      r = NULL;
  }
  if (r != NULL) {
    if ((how & EMU_WRITE) && r->read_only) {
      emu__fault(x, (int)lane, "write to the read-only buffer '%s' at offset %llu", r->name,
                 (unsigned long long)(addr - r->addr));
      return NULL;
    }
    return r->host + (addr - r->addr);
  }
  for (uint32_t k = 0; k < x->m->nvars; k++) {
    const emu_var *v = &x->m->vars[k];
    if (v->space == EMU_GLOBAL && inside(v->addr, v->size, addr, size)) return v->data + (addr - v->addr);
  }
  return out_of_bounds(x, EMU_GLOBAL, addr, size, lane, how);
}

static uint8_t *access_const(emu_exec *x, uint64_t addr, uint32_t size, uint32_t lane, unsigned how) {
  if (how & EMU_WRITE) {
    emu__fault(x, (int)lane, "write to constant memory");
    return NULL;
  }
  for (uint32_t k = 0; k < x->m->nvars; k++) {
    const emu_var *v = &x->m->vars[k];
    if (v->space == EMU_CONST && inside(v->addr, v->size, addr, size)) return v->data + (addr - v->addr);
  }
  return out_of_bounds(x, EMU_CONST, addr, size, lane, how);
}

static uint8_t *access_param(emu_exec *x, uint64_t addr, uint32_t size, uint32_t lane, unsigned how) {
  const emu_frame *top = emu__top(x->f);
  if (addr & EMU_PARAM_FRAME_BIT) {
    uint64_t at = addr & ~EMU_PARAM_FRAME_BIT;
    uint64_t have = top->param_base + (uint64_t)x->m->funcs[top->func].param_size;
    if (!inside(0, have, at, size)) return out_of_bounds(x, EMU_PARAM, addr, size, lane, how);
    return x->w->param + (size_t)lane * x->w->param_cap + at;
  }
  if (!inside(0, x->kernel->kernel.params_size, addr, size)) return out_of_bounds(x, EMU_PARAM, addr, size, lane, how);
  if (how & EMU_WRITE) {
    emu__fault(x, (int)lane, "write to a parameter of the kernel");
    return NULL;
  }
  return x->params + addr;
}

uint8_t *emu__access(emu_exec *x, emu_space space, uint64_t addr, uint32_t size, uint32_t lane, unsigned how) {
  if (space == EMU_GENERIC) {
    unsigned window = (unsigned)(addr >> EMU_WINDOW_SHIFT);
    space = window == 0 ? EMU_GLOBAL : window >= EMU_SHARED && window <= EMU_PARAM ? (emu_space)window : EMU_GLOBAL;
    if (space != EMU_GLOBAL) addr &= emu__ones(EMU_WINDOW_SHIFT);
  }
  if ((addr & (size - 1)) != 0) {
    char place[256];
    emu__describe(x, space, addr, place, sizeof place);
    emu__fault(x, (int)lane, "misaligned %s of %u bytes at address 0x%llx: %s", (how & EMU_WRITE) ? "write" : "read",
               size, (unsigned long long)addr, place);
    return NULL;
  }
  switch (space) {
    case EMU_SHARED: {
      if (!inside(EMU_SHARED_START, x->shared_size, addr, size)) return out_of_bounds(x, space, addr, size, lane, how);
      uint32_t at = (uint32_t)(addr - EMU_SHARED_START);
      emu__shadow_touch(x, at, size, lane, how, x->i->line);
      return x->shared + at;
    }
    case EMU_LOCAL: {
      const emu_frame *top = emu__top(x->f);
      uint64_t have = top->local_base + (uint64_t)x->m->funcs[top->func].local_size;
      if (!inside(EMU_LOCAL_START, have, addr, size)) return out_of_bounds(x, space, addr, size, lane, how);
      return x->w->local + (size_t)lane * x->w->local_cap + (addr - EMU_LOCAL_START);
    }
    case EMU_CONST: return access_const(x, addr, size, lane, how);
    case EMU_PARAM: return access_param(x, addr, size, lane, how);
    default: return access_global(x, addr, size, lane, how);
  }
}
