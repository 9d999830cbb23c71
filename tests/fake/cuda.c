/* The fake driver of fake/cuda.h. Streams run at once; events carry a counter; a module is its PTX text, of which only
 * the parameter lists of entries are read. Compiled as a shared object by the tests; WITHOUT_LAUNCH leaves out a
 * function that the runtime needs, as a very old driver would, WITHOUT_TENSOR_MAPS one that it can do without. */
#include "tests/fake/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, INVALID_PTX = 218, NO_CONTEXT = 201, INVALID_HANDLE = 400 };

extern fake_cuda fake_cuda_state;
fake_cuda fake_cuda_state;
#define S (&fake_cuda_state)

static char primary_context;
static _Thread_local void *stack[FAKE_MAX_CONTEXTS];
static _Thread_local int depth;

/* Counts a call; the result to fail with, or 0. */
static result enter(const char *name) {
  if (!S->fail || strcmp(S->fail, name) != 0) return OK;
  return S->fail_after-- > 0 ? OK : S->fail_result;
}

static int or_default(int value, int otherwise) { return value ? value : otherwise; }

#define ENTER()                  \
  do {                           \
    result r_ = enter(__func__); \
    if (r_ != OK) return r_;     \
  } while (0)
#define NEED_CONTEXT()                 \
  do {                                 \
    ENTER();                           \
    if (depth == 0) return NO_CONTEXT; \
  } while (0)

#define FAKE(name, ...)     \
  result name(__VA_ARGS__); \
  result name(__VA_ARGS__)

FAKE(cuInit, unsigned flags) {
  ENTER();
  return flags ? INVALID : OK;
}
FAKE(cuDriverGetVersion, int *v) {
  ENTER();
  *v = or_default(S->driver_version, 12040);
  return OK;
}
FAKE(cuGetErrorName, result r, const char **name) {
  *name = r == 12345 ? "CUDA_ERROR_FROM_THE_FUTURE" : NULL;
  return *name ? OK : INVALID;
}
FAKE(cuDeviceGetCount, int *n) {
  ENTER();
  *n = S->no_devices ? 0 : 2;
  return OK;
}
FAKE(cuDeviceGet, int *d, int ordinal) {
  ENTER();
  *d = ordinal;
  return OK;
}
FAKE(cuDeviceGetName, char *name, int size, int d) {
  ENTER();
  snprintf(name, (size_t)size, "Fake GPU %d", d);
  return OK;
}
FAKE(cuDeviceTotalMem_v2, size_t *bytes, int d) {
  ENTER();
  (void)d;
  *bytes = S->memory ? S->memory : (size_t)1 << 30;
  return OK;
}
FAKE(cuDeviceGetAttribute, int *value, int attribute, int d) {
  ENTER();
  (void)d;
  int capability = or_default(S->capability, 90);
  switch (attribute) {
    case 16: *value = 132; break;
    case 39: *value = 2048; break;
    case 75: *value = capability / 10; break;
    case 76: *value = capability % 10; break;
    case 97: *value = or_default(S->shared_per_block, 232448); break;
    default: *value = 1;
  }
  return OK;
}

/* ---- contexts */
FAKE(cuDevicePrimaryCtxRetain, void **c, int d) {
  ENTER();
  (void)d;
  *c = &primary_context;
  S->primary_references++;
  return OK;
}
FAKE(cuDevicePrimaryCtxRelease_v2, int d) {
  (void)d;
  S->primary_references--;
  return OK;
}
FAKE(cuCtxGetCurrent, void **c) {
  ENTER();
  *c = depth ? stack[depth - 1] : NULL;
  return OK;
}
FAKE(cuCtxPushCurrent_v2, void *c) {
  ENTER();
  if (depth == FAKE_MAX_CONTEXTS) return INVALID;
  stack[depth++] = c;
  return OK;
}
FAKE(cuCtxPopCurrent_v2, void **c) {
  if (depth == 0) return NO_CONTEXT;
  *c = stack[--depth];
  return OK;
}
FAKE(cuCtxGetDevice, int *d) {
  NEED_CONTEXT();
  *d = 1;
  return OK;
}
FAKE(cuCtxSynchronize, void) {
  NEED_CONTEXT();
  return OK;
}

/* ---- memory: each block is preceded by its size */
enum { HEAD = 256 };
FAKE(cuMemAlloc_v2, uint64_t *address, size_t bytes) {
  NEED_CONTEXT();
  size_t total = S->memory ? S->memory : (size_t)1 << 30;
  void *p;
  if (bytes == 0) return INVALID;
  if (bytes > total - S->allocated || posix_memalign(&p, 256, bytes + HEAD) != 0) return NO_MEMORY;
  memcpy(p, &bytes, sizeof bytes);
  memset((char *)p + HEAD, 0xcd, bytes);
  S->allocated += bytes;
  S->live_allocations++;
  *address = (uint64_t)(uintptr_t)p + HEAD;
  return OK;
}
FAKE(cuMemFree_v2, uint64_t address) {
  NEED_CONTEXT();
  size_t bytes;
  void *p = (void *)(uintptr_t)(address - HEAD);
  memcpy(&bytes, p, sizeof bytes);
  S->allocated -= bytes;
  S->live_allocations--;
  free(p);
  return OK;
}
FAKE(cuMemGetInfo_v2, size_t *available, size_t *total) {
  NEED_CONTEXT();
  *total = S->memory ? S->memory : (size_t)1 << 30;
  *available = *total - S->allocated;
  return OK;
}
FAKE(cuMemHostAlloc, void **memory, size_t bytes, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  *memory = malloc(bytes);
  S->live_pinned++;
  return *memory ? OK : NO_MEMORY;
}
FAKE(cuMemFreeHost, void *memory) {
  NEED_CONTEXT();
  S->live_pinned--;
  free(memory);
  return OK;
}
FAKE(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, void *s) {
  NEED_CONTEXT();
  (void)s;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return OK;
}
FAKE(cuMemcpyDtoHAsync_v2, void *to, uint64_t from, size_t bytes, void *s) {
  NEED_CONTEXT();
  (void)s;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return OK;
}
FAKE(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void *s) {
  NEED_CONTEXT();
  (void)s;
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
  return OK;
}
FAKE(cuMemsetD8Async, uint64_t to, unsigned char value, size_t n, void *s) {
  NEED_CONTEXT();
  (void)s;
  memset((void *)(uintptr_t)to, value, n);
  return OK;
}

/* ---- streams and events */
FAKE(cuStreamCreate, void **s, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  static unsigned long long ids = 100;
  unsigned long long *id = malloc(sizeof *id);
  *id = ids++;
  *s = id;
  S->live_streams++;
  return OK;
}
FAKE(cuStreamDestroy_v2, void *s) {
  NEED_CONTEXT();
  S->live_streams--;
  free(s);
  return OK;
}
FAKE(cuStreamSynchronize, void *s) {
  NEED_CONTEXT();
  (void)s;
  return OK;
}
FAKE(cuStreamIsCapturing, void *s, int *status) {
  NEED_CONTEXT();
  (void)s;
  *status = S->capturing;
  return OK;
}
FAKE(cuStreamGetId, void *s, unsigned long long *id) {
  NEED_CONTEXT();
  *id = s ? *(unsigned long long *)s : 1;
  return OK;
}
FAKE(cuStreamWaitEvent, void *s, void *e, unsigned flags) {
  NEED_CONTEXT();
  (void)s, (void)flags;
  return e ? OK : INVALID_HANDLE;
}
static float now;
FAKE(cuEventCreate, void **e, unsigned flags) {
  NEED_CONTEXT();
  (void)flags;
  *e = calloc(1, sizeof(float));
  S->live_events++;
  return OK;
}
FAKE(cuEventDestroy_v2, void *e) {
  NEED_CONTEXT();
  S->live_events--;
  free(e);
  return OK;
}
FAKE(cuEventRecord, void *e, void *s) {
  NEED_CONTEXT();
  (void)s;
  *(float *)e = now += 1;
  return OK;
}
FAKE(cuEventSynchronize, void *e) {
  NEED_CONTEXT();
  return e ? OK : INVALID_HANDLE;
}
FAKE(cuEventElapsedTime, float *ms, void *begin, void *end) {
  NEED_CONTEXT();
  *ms = *(float *)end - *(float *)begin;
  return OK;
}

/* ---- modules */
typedef struct function {
  struct function *next;
  fake_launch shape; /* kernel and parameter sizes */
} function;

typedef struct module {
  char *text;
  function *functions;
} module;

FAKE(cuModuleLoadDataEx, void **out, const void *image, unsigned n, const int *options, void **values) {
  result r = depth ? enter(__func__) : NO_CONTEXT;
  if (r == OK && !strstr(image, ".version")) r = INVALID_PTX;
  if (r != OK) {
    for (unsigned i = 0; i + 1 < n && S->log; i++)
      if (options[i] == 5 && options[i + 1] == 6) snprintf(values[i], (size_t)(uintptr_t)values[i + 1], "%s", S->log);
    return r;
  }
  module *m = calloc(1, sizeof *m);
  m->text = malloc(strlen(image) + 1);
  strcpy(m->text, image);
  S->live_modules++;
  *out = m;
  return OK;
}
FAKE(cuModuleUnload, void *handle) {
  NEED_CONTEXT();
  module *m = handle;
  for (function *f = m->functions, *next; f; f = next) {
    next = f->next;
    free(f);
  }
  free(m->text);
  free(m);
  S->live_modules--;
  return OK;
}

/* Reads the parameters of `.entry name(`. */
static int read_entry(const char *text, const char *name, fake_launch *out) {
  char head[96];
  snprintf(head, sizeof head, ".entry %s(", name);
  const char *at = strstr(text, head);
  if (!at) return 0;
  snprintf(out->kernel, sizeof out->kernel, "%s", name);
  const char *end = strchr(at, ')');
  while ((at = strstr(at, ".param .")) && at < end && out->n_params < FAKE_MAX_PARAMS) {
    const char *array = strncmp(at, ".param .align ", 14) == 0 ? strchr(at, '[') : NULL;
    out->params[out->n_params++].size = array ? (unsigned)atoi(array + 1) : (unsigned)atoi(at + 9) / 8;
    at += 9;
  }
  return 1;
}
FAKE(cuModuleGetFunction, void **out, void *handle, const char *name) {
  NEED_CONTEXT();
  module *m = handle;
  function *f = calloc(1, sizeof *f);
  if (!read_entry(m->text, name, &f->shape)) {
    free(f);
    return NOT_FOUND;
  }
  f->next = m->functions;
  m->functions = f;
  *out = f;
  return OK;
}
FAKE(cuFuncGetAttribute, int *value, int attribute, void *f) {
  NEED_CONTEXT();
  (void)f;
  switch (attribute) {
    case 0: *value = or_default(S->max_threads, 1024); break;
    case 3: *value = 8; break;
    case 4: *value = 40; break;
    default: *value = 0;
  }
  return OK;
}
FAKE(cuFuncSetAttribute, void *f, int attribute, int value) {
  NEED_CONTEXT();
  (void)f;
  if (attribute == 8) S->dynamic_shared_opt_in = value;
  return OK;
}
FAKE(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, void *f, int threads, size_t shared) {
  NEED_CONTEXT();
  (void)f, (void)shared;
  *blocks = 1024 / threads;
  return OK;
}

#ifndef WITHOUT_LAUNCH
FAKE(cuLaunchKernel, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
     unsigned shared, void *stream, void **params, void **extra) {
  NEED_CONTEXT();
  (void)extra;
  fake_launch l = ((function *)f)->shape;
  l.context = stack[depth - 1];
  l.grid[0] = gx, l.grid[1] = gy, l.grid[2] = gz;
  l.block[0] = bx, l.block[1] = by, l.block[2] = bz;
  l.dynamic_shared = shared;
  l.stream = stream;
  for (int i = 0; i < l.n_params; i++) memcpy(l.params[i].bytes, params[i], l.params[i].size);
  if (S->launched) S->launched(&l);
  S->last = l;
  S->n_launches++;
  return OK;
}
#endif

#ifndef WITHOUT_TENSOR_MAPS
/* Refuses what the driver's reference says of tiled maps. */
FAKE(cuTensorMapEncodeTiled, void *out, int type, unsigned rank, void *address, const uint64_t *sizes,
     const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion,
     int fill) {
  NEED_CONTEXT();
  static const unsigned bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if ((uintptr_t)out % 64 || (uintptr_t)address % 16 || type < 0 || type > 12 || rank < 1 || rank > 5) return INVALID;
  if (interleave != 0 || swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill != 0) return INVALID;
  fake_map m = {.address = (uint64_t)(uintptr_t)address,
                .type = (uint8_t)type,
                .rank = (uint8_t)rank,
                .swizzle = (uint8_t)swizzle,
                .promotion = (uint8_t)promotion};
  for (unsigned i = 0; i < rank; i++) {
    if (sizes[i] < 1 || sizes[i] > UINT64_C(1) << 32 || box[i] < 1 || box[i] > 256 || steps[i] != 1) return INVALID;
    m.sizes[i] = sizes[i];
    m.box[i] = box[i];
    if (i + 1 == rank) break;
    if (strides[i] % 16 || strides[i] >= UINT64_C(1) << 40) return INVALID;
    m.strides[i] = strides[i];
  }
  unsigned row = box[0] * bytes[type];
  if (row % 16 || (swizzle && row > 16u << swizzle)) return INVALID;
  memset(out, 0, 128);
  memcpy(out, &m, sizeof m);
  S->n_encoded++;
  return OK;
}
#endif
