/* cuda_device: a CUDA device behind the seam of device.h.
 *
 * The driver works on the calling thread's current context. Every function here makes ours current and restores what
 * was there (enter, leave): a host program (PyTorch, MPI) must not find its context changed. When ours is current
 * already, as in any program that uses the primary context, that costs one cuCtxGetCurrent; this keeps a launch near
 * the price of a bare cuLaunchKernel.
 *
 * After a fault inside a kernel the driver answers every call with the same error: the statuses say that the context is
 * lost, and calls that give resources back ignore what the driver answers. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"

enum { MOST_STREAMS = 1024, PROBES = 16 }; /* counters of programs, and how many of them a stream may try to get */

typedef struct cuda_device {
  cuda_api api;
  cu_context context;
  cu_stream stream; /* for calls that name none */
  cu_device device;
  bool primary; /* retained by us */
  int driver_version;
  cuda_facts facts;
  pthread_mutex_t lock; /* making the counters */
  uint64_t counters;    /* of programs: MOST_STREAMS zeros; 0 until a kernel wants one */
  _Atomic(unsigned long long) counter_of[MOST_STREAMS]; /* 1 + id of the stream that has it; 0: it is free */
} cuda_device;

/* Values of CUfunction_attribute, CUjit_option, CUevent_flags and CUstream_flags (CUDA driver API reference). */
enum {
  FUNC_MAX_THREADS = 0,
  FUNC_SHARED_BYTES = 1,
  FUNC_LOCAL_BYTES = 3,
  FUNC_REGISTERS = 4,
  FUNC_MAX_DYNAMIC_SHARED = 8,
  JIT_ERROR_LOG = 5,
  JIT_ERROR_LOG_BYTES = 6,
  STREAM_NON_BLOCKING = 1,
  SHARED_WITHOUT_OPT_IN = 48 * 1024,
  UNSUPPORTED_PTX_VERSION = 222, /* CUresult */
  TENSOR_TF32 = 11,              /* CUtensorMapDataType TFLOAT32 */
  INTERLEAVE_NONE = 0,
  PROMOTE_TO_128_BYTES = 2, /* CUtensorMapL2promotion */
  FILL_WITH_ZEROS = 0,      /* CUtensorMapFloatOOBfill */
};

static cuda_device *device_of(const tk_context *cx) { return cx->device; }

static cu_stream stream_of(const cuda_device *d, const tk_stream *s) { return s ? s->handle : d->stream; }

/* Reports a result, if it is a failure, as "<what>: cuda says <name>". */
static tk_status check(const tk_context *cx, cu_result r, const char *what) {
  if (r == 0) return TK_OK;
  char scratch[64];
  return tk__fail(cx, tk__cuda_status(r), "%s: %s", what,
                  tk__cuda_result_name(&device_of(cx)->api, r, scratch, sizeof scratch));
}

static cu_result enter(const cuda_device *d, bool *pushed) {
  cu_context current = NULL;
  *pushed = false;
  cu_result r = d->api.CtxGetCurrent(&current);
  if (r != 0 || current == d->context) return r;
  r = d->api.CtxPushCurrent(d->context);
  *pushed = r == 0;
  return r;
}

static void leave(const cuda_device *d, bool pushed) {
  cu_context ours;
  if (pushed) d->api.CtxPopCurrent(&ours);
}

/* One driver call with our context current; `call` may use d. */
#define WITH_CONTEXT(r, d, call)       \
  do {                                 \
    bool pushed_;                      \
    (r) = enter((d), &pushed_);        \
    if ((r) == 0) (r) = (d)->api.call; \
    leave((d), pushed_);               \
  } while (0)

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static tk_status cuda_alloc(tk_context *cx, size_t bytes, uint64_t *address) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, MemAlloc(address, bytes));
  if (tk__cuda_status(r) == TK_OUT_OF_MEMORY) {
    size_t free_bytes = 0, total = 0;
    cu_result known = 1;
    if (d->api.MemGetInfo) WITH_CONTEXT(known, d, MemGetInfo(&free_bytes, &total));
    if (known == 0)
      return tk__fail(cx, TK_OUT_OF_MEMORY, "%zu bytes on %s, where %zu of %zu are free", bytes, cx->name, free_bytes,
                      total);
    return tk__fail(cx, TK_OUT_OF_MEMORY, "%zu bytes on %s", bytes, cx->name);
  }
  return check(cx, r, "cuMemAlloc");
}

static void cuda_release(tk_context *cx, uint64_t address) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), MemFree(address));
  (void)r;
}

static tk_status cuda_host_alloc(tk_context *cx, size_t bytes, void **out) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), MemHostAlloc(out, bytes, 0));
  if (tk__cuda_status(r) == TK_OUT_OF_MEMORY)
    return tk__fail(cx, TK_OUT_OF_HOST_MEMORY, "%zu bytes that are pinned", bytes);
  return check(cx, r, "cuMemHostAlloc");
}

static void cuda_host_release(tk_context *cx, void *memory) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), MemFreeHost(memory));
  (void)r;
}

static tk_status cuda_upload(tk_context *cx, uint64_t to, const void *from, size_t bytes, tk_stream *s) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, MemcpyHtoDAsync(to, from, bytes, stream_of(d, s)));
  return check(cx, r, "copy to the device");
}

static tk_status cuda_download(tk_context *cx, void *to, uint64_t from, size_t bytes, tk_stream *s) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, MemcpyDtoHAsync(to, from, bytes, stream_of(d, s)));
  return check(cx, r, "copy from the device");
}

static tk_status cuda_copy(tk_context *cx, uint64_t to, uint64_t from, size_t bytes, tk_stream *s) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, MemcpyDtoDAsync(to, from, bytes, stream_of(d, s)));
  return check(cx, r, "copy on the device");
}

static tk_status cuda_fill(tk_context *cx, uint64_t to, uint8_t value, size_t bytes, tk_stream *s) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, MemsetD8Async(to, value, bytes, stream_of(d, s)));
  return check(cx, r, "filling memory");
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

static tk_status cuda_synchronize(tk_context *cx) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), CtxSynchronize());
  return check(cx, r, "waiting for the device");
}

static tk_status cuda_stream_new(tk_context *cx, void **handle) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), StreamCreate(handle, STREAM_NON_BLOCKING));
  return check(cx, r, "cuStreamCreate");
}

static void cuda_stream_release(tk_context *cx, void *handle) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), StreamDestroy(handle));
  (void)r;
}

static tk_status cuda_stream_synchronize(tk_context *cx, tk_stream *s) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, StreamSynchronize(stream_of(d, s)));
  return check(cx, r, "waiting for a stream");
}

static tk_status cuda_stream_wait(tk_context *cx, tk_stream *s, const tk_event *e) {
  cuda_device *d = device_of(cx);
  cu_result r;
  WITH_CONTEXT(r, d, StreamWaitEvent(stream_of(d, s), e->handle, 0));
  return check(cx, r, "cuStreamWaitEvent");
}

static tk_status cuda_event_new(tk_context *cx, void **handle) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), EventCreate(handle, 0));
  return check(cx, r, "cuEventCreate");
}

static void cuda_event_release(tk_context *cx, void *handle) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), EventDestroy(handle));
  (void)r;
}

static tk_status cuda_event_record(tk_event *e, tk_stream *s) {
  cuda_device *d = device_of(e->cx);
  cu_result r;
  WITH_CONTEXT(r, d, EventRecord(e->handle, stream_of(d, s)));
  return check(e->cx, r, "cuEventRecord");
}

static tk_status cuda_event_synchronize(tk_event *e) {
  cu_result r;
  WITH_CONTEXT(r, device_of(e->cx), EventSynchronize(e->handle));
  return check(e->cx, r, "waiting for an event");
}

static tk_status cuda_event_elapsed(const tk_event *begin, const tk_event *end, double *milliseconds) {
  float ms = 0;
  cu_result r;
  WITH_CONTEXT(r, device_of(begin->cx), EventElapsedTime(&ms, begin->handle, end->handle));
  *milliseconds = (double)ms;
  return check(begin->cx, r, "the time between two events");
}

/* ---- persistent kernels ------------------------------------------------------------------------------------------ */

/* Their programs are counted in memory that is 0 before a launch and after it. Launches of one stream do not overlap,
 * so each stream has a counter; what has none gets a block for each program. That is also what a launch gets that is
 * captured: its graph may run beside anything else, itself in another instance included. The ids of streams are never
 * used again (CUDA driver API reference, cuStreamGetId), and no counter is given back: the work of a stream may outlive
 * its handle. */

/* Makes the counters, on a stream of their own: nothing that is queued on others is waited for, or captured. */
static void make_counters(cuda_device *d) {
  int capturing = 0;
  uint64_t made;
  cu_stream own;
  size_t bytes = MOST_STREAMS * sizeof(uint32_t);
  if (!d->api.StreamGetId || !d->api.StreamIsCapturing) return;
  if (d->api.StreamIsCapturing(d->stream, &capturing) != 0 || capturing) return;
  if (d->api.StreamCreate(&own, STREAM_NON_BLOCKING) != 0) return;
  if (d->api.MemAlloc(&made, bytes) == 0) {
    if (d->api.MemsetD8Async(made, 0, bytes, own) == 0 && d->api.StreamSynchronize(own) == 0)
      d->counters = made;
    else
      d->api.MemFree(made);
  }
  d->api.StreamDestroy(own);
}

/* With the context current. */
static bool has_counters(cuda_device *d) {
  pthread_mutex_lock(&d->lock);
  if (!d->counters) make_counters(d);
  bool has = d->counters != 0;
  pthread_mutex_unlock(&d->lock);
  return has;
}

static uint32_t room_for(cuda_device *d, void *fn, const tk_artifact_kernel *k) {
  int blocks = 0;
  if (!d->api.Occupancy || !has_counters(d) ||
      d->api.Occupancy(&blocks, fn, tk_artifact_threads(k), (size_t)k->dynamic_shared_bytes) != 0)
    return 0;
  return (uint32_t)(blocks * d->facts.sm_count);
}

/* The address of the stream's counter; 0: it has none. With the context current. */
static uint64_t counter_for(cuda_device *d, cu_stream s) {
  int capturing = 0;
  unsigned long long id, none;
  if (d->api.StreamIsCapturing(s, &capturing) != 0 || capturing || d->api.StreamGetId(s, &id) != 0) return 0;
  for (unsigned long long i = 0; i < PROBES; i++) {
    size_t at = (size_t)((id + i) % MOST_STREAMS);
    none = 0;
    if (atomic_load_explicit(&d->counter_of[at], memory_order_relaxed) == id + 1 ||
        atomic_compare_exchange_strong_explicit(&d->counter_of[at], &none, id + 1, memory_order_relaxed,
                                                memory_order_relaxed) ||
        none == id + 1)
      return d->counters + at * sizeof(uint32_t);
  }
  return 0;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static tk_status load_failed(tk_context *cx, const char *name, const tk_artifact *a, cu_result r, const char *log) {
  cuda_device *d = device_of(cx);
  char scratch[64];
  tk_status s = tk__cuda_status(r);
  if (s == TK_DRIVER_TOO_OLD)
    return tk__fail(cx, s, "%s needs PTX %d.%d, which this driver (CUDA %d.%d) does not read", name,
                    a->ptx_version / 10, a->ptx_version % 10, d->driver_version / 1000, d->driver_version % 1000 / 10);
  if (s == TK_INVALID_ARGUMENT) s = TK_BAD_PTX;
  const char *said = tk__cuda_result_name(&d->api, r, scratch, sizeof scratch);
  return *log ? tk__fail(cx, s, "%s: %s:\n%s", name, said, log) : tk__fail(cx, s, "%s: %s", name, said);
}

static tk_status cuda_load_module(tk_context *cx, const char *name, const char *ptx, size_t len, const tk_artifact *a,
                                  void **module) {
  cuda_device *d = device_of(cx);
  (void)len;
  if (!tk__cuda_reads_ptx(d->driver_version, a->ptx_version))
    return load_failed(cx, name, a, UNSUPPORTED_PTX_VERSION, "");
  if (!tk__cuda_arch_fits(a->arch, &d->facts))
    return tk__fail(cx, TK_WRONG_ARCH, "%s is for %s, and %s is %s", name, a->arch, cx->name, cx->arch);
  char log[4096] = "";
  int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  cu_result r;
  WITH_CONTEXT(r, d, ModuleLoadDataEx(module, ptx, 2, options, values));
  log[sizeof log - 1] = '\0';
  return r == 0 ? TK_OK : load_failed(cx, name, a, r, log);
}

static void cuda_unload_module(tk_context *cx, void *module) {
  cu_result r;
  WITH_CONTEXT(r, device_of(cx), ModuleUnload(module));
  (void)r;
}

static tk_status bind_entered(tk_context *cx, cuda_device *d, void *module, const tk_artifact_kernel *k, void **fn,
                              uint32_t *room) {
  int most_threads = 0, fixed_shared = 0, threads = tk_artifact_threads(k), dynamic = k->dynamic_shared_bytes;
  cu_result r = d->api.ModuleGetFunction(fn, module, k->name);
  if (tk__cuda_status(r) == TK_NO_SUCH_KERNEL)
    return tk__fail(cx, TK_NO_SUCH_KERNEL, "the metadata names '%s', the PTX has no such entry", k->name);
  if (r == 0) r = d->api.FuncGetAttribute(&most_threads, FUNC_MAX_THREADS, *fn);
  if (r == 0) r = d->api.FuncGetAttribute(&fixed_shared, FUNC_SHARED_BYTES, *fn);
  if (r != 0) return check(cx, r, "looking up a kernel");
  if (fixed_shared + dynamic > d->facts.shared_per_block)
    return tk__fail(cx, TK_LAUNCH_OUT_OF_RESOURCES, "'%s' needs %d bytes of shared memory, %s has %d per block",
                    k->name, fixed_shared + dynamic, cx->name, d->facts.shared_per_block);
  if (threads > most_threads)
    return tk__fail(cx, TK_LAUNCH_OUT_OF_RESOURCES, "'%s' has %d threads per block, its registers allow %d", k->name,
                    threads, most_threads);
  if (fixed_shared + dynamic > SHARED_WITHOUT_OPT_IN)
    r = d->api.FuncSetAttribute(*fn, FUNC_MAX_DYNAMIC_SHARED, dynamic);
  *room = k->persistent && r == 0 ? room_for(d, *fn, k) : 0;
  return check(cx, r, "opting in to more than 48 KiB of shared memory");
}

static tk_status cuda_bind(tk_context *cx, void *module, const tk_artifact_kernel *k, void **fn, uint32_t *room) {
  cuda_device *d = device_of(cx);
  bool pushed;
  if (k->num_ctas != 1) return tk__fail(cx, TK_UNSUPPORTED, "'%s' runs in clusters of %d blocks", k->name, k->num_ctas);
  cu_result r = enter(d, &pushed);
  tk_status s = r == 0 ? bind_entered(cx, d, module, k, fn, room) : check(cx, r, "cuCtxPushCurrent");
  leave(d, pushed);
  return s;
}

static tk_status cuda_attributes(tk_context *cx, void *fn, const tk_artifact_kernel *k, tk_kernel_attributes *out) {
  cuda_device *d = device_of(cx);
  bool pushed;
  int threads = tk_artifact_threads(k);
  cu_result r = enter(d, &pushed);
  if (r == 0) r = d->api.FuncGetAttribute(&out->registers, FUNC_REGISTERS, fn);
  if (r == 0) r = d->api.FuncGetAttribute(&out->local_bytes, FUNC_LOCAL_BYTES, fn);
  if (r == 0) r = d->api.FuncGetAttribute(&out->shared_bytes, FUNC_SHARED_BYTES, fn);
  if (r == 0) r = d->api.FuncGetAttribute(&out->max_threads, FUNC_MAX_THREADS, fn);
  if (r == 0 && d->api.Occupancy) {
    r = d->api.Occupancy(&out->blocks_per_sm, fn, threads, (size_t)k->dynamic_shared_bytes);
    if (d->facts.threads_per_sm > 0) out->occupancy = (double)(out->blocks_per_sm * threads) / d->facts.threads_per_sm;
  }
  leave(d, pushed);
  return check(cx, r, "attributes of a kernel");
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static tk_status launch_failed(tk_context *cx, const tk__launch *l, cu_result r) {
  const tk_artifact_kernel *k = l->variant->meta;
  char scratch[64];
  return tk__fail(cx, tk__cuda_status(r), "launching '%s' with a grid of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ": %s",
                  k->name, l->grid[0], l->grid[1], l->grid[2],
                  tk__cuda_result_name(&device_of(cx)->api, r, scratch, sizeof scratch));
}

/* The grid of the blocks that run l's programs: fewer of a persistent kernel if not all would run at a time. */
static void share_blocks(cuda_device *d, cu_stream s, tk__launch *l, uint32_t grid[3]) {
  uint32_t room = l->variant->room, gang = (uint32_t)l->variant->meta->gang;
  uint64_t turns = (uint64_t)((l->grid[0] + gang - 1) / gang) * l->grid[1] * l->grid[2], counter = 0;
  l->programs = (tk__programs){0};
  memcpy(grid, l->grid, sizeof l->grid);
  if (turns > INT32_MAX) return;
  if (room && turns > room) counter = counter_for(d, s);
  if (!counter && gang == 1) return;
  l->programs = (tk__programs){counter, {grid[0], grid[1], grid[2]}, (uint32_t)turns};
  grid[0] = counter ? room : (uint32_t)turns;
  grid[1] = grid[2] = 1;
}

static tk_status cuda_launch(tk_context *cx, tk__launch *l) {
  cuda_device *d = device_of(cx);
  const tk_artifact_kernel *k = l->variant->meta;
  cu_stream s = stream_of(d, l->stream);
  uint32_t grid[3];
  bool pushed;
  cu_result r = enter(d, &pushed);
  if (r == 0) {
    share_blocks(d, s, l, grid);
    r = d->api.LaunchKernel(l->variant->fn, grid[0], grid[1], grid[2], (unsigned)tk_artifact_threads(k), 1, 1,
                            (unsigned)k->dynamic_shared_bytes, s, l->passed, NULL);
  }
  leave(d, pushed);
  return r == 0 ? TK_OK : launch_failed(cx, l, r);
}

/* ---- tensor maps ------------------------------------------------------------------------------------------------- */

static tk_status cuda_encode_map(tk_context *cx, const tk__tensor_map *t, void *bytes, char *why, size_t size) {
  static const int types[TK_N_DTYPES] = {
#define CUDA_TENSOR_TYPE(dtype, number) [TK_##dtype] = number,
#include "runtime/cuda.def"
  };
  static const uint32_t steps[TK_ARTIFACT_MAX_RANK] = {1, 1, 1, 1, 1};
  const cuda_device *d = device_of(cx);
  int swizzle = t->swizzle == 128 ? 3 : t->swizzle / 32; /* CUtensorMapSwizzle counts 0, 32, 64, 128 */
  cu_result r;
  if (!d->api.TensorMapEncodeTiled) {
    snprintf(why, size, "the driver has no cuTensorMapEncodeTiled (CUDA 12.0 brought it)");
    return TK_DRIVER_TOO_OLD;
  }
  WITH_CONTEXT(r, d,
               TensorMapEncodeTiled(bytes, t->is_tf32 ? TENSOR_TF32 : types[t->dtype], (uint32_t)t->rank, t->address,
                                    t->sizes, t->strides + 1, t->box, steps, INTERLEAVE_NONE, swizzle,
                                    PROMOTE_TO_128_BYTES, FILL_WITH_ZEROS));
  char scratch[64];
  if (r != 0) snprintf(why, size, "the driver says %s", tk__cuda_result_name(&d->api, r, scratch, sizeof scratch));
  return tk__cuda_status(r);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void cuda_close(tk_context *cx) {
  cuda_device *d = device_of(cx);
  if (d->counters) cuda_release(cx, d->counters);
  if (d->primary) d->api.DevicePrimaryCtxRelease(d->device);
  tk__cuda_unload(&d->api);
  pthread_mutex_destroy(&d->lock);
  free(d);
}

static const tk__device_ops cuda_ops = {
    .close = cuda_close,
    .synchronize = cuda_synchronize,
    .alloc = cuda_alloc,
    .release = cuda_release,
    .host_alloc = cuda_host_alloc,
    .host_release = cuda_host_release,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .stream_new = cuda_stream_new,
    .stream_release = cuda_stream_release,
    .stream_synchronize = cuda_stream_synchronize,
    .stream_wait = cuda_stream_wait,
    .event_new = cuda_event_new,
    .event_release = cuda_event_release,
    .event_record = cuda_event_record,
    .event_synchronize = cuda_event_synchronize,
    .event_elapsed = cuda_event_elapsed,
    .load = cuda_load_module,
    .unload = cuda_unload_module,
    .bind = cuda_bind,
    .attributes = cuda_attributes,
    .launch = cuda_launch,
    .encode_map = cuda_encode_map,
};

/* Takes the primary context of device number `ordinal`. */
static tk_status open_ordinal(tk_context *cx, cuda_device *d, int ordinal) {
  int n = 0;
  cu_result r = d->api.DeviceGetCount(&n);
  if (r == 0 && n == 0) return tk__fail(cx, TK_NO_DEVICE, "the driver works and lists no device");
  if (r == 0 && ordinal >= n)
    return tk__fail(cx, TK_BAD_DEVICE, "cuda:%d, where the driver lists %d device%s", ordinal, n, n == 1 ? "" : "s");
  if (r == 0) r = d->api.DeviceGet(&d->device, ordinal);
  if (r == 0) r = d->api.DevicePrimaryCtxRetain(&d->context, d->device);
  d->primary = r == 0;
  return check(cx, r, "opening the device");
}

/* Lives in a context of the caller's. */
static tk_status open_adopted(tk_context *cx, cuda_device *d, cu_context theirs) {
  bool pushed;
  d->context = theirs;
  cu_result r = enter(d, &pushed);
  if (r == 0) r = d->api.CtxGetDevice(&d->device);
  leave(d, pushed);
  return check(cx, r, "adopting the CUDA context");
}

tk_status tk__cuda_open(tk_context *cx, const tk_options *o, int ordinal) {
  char why[256];
  cuda_device *d = calloc(1, sizeof *d);
  if (!d || pthread_mutex_init(&d->lock, NULL) != 0) {
    free(d);
    return tk__no_memory(cx);
  }
  tk_status s = tk__cuda_load(&d->api, o->driver_path, why, sizeof why);
  if (s != TK_OK) {
    pthread_mutex_destroy(&d->lock);
    free(d);
    return tk__fail(cx, s, "%s", why);
  }
  cx->device = d;
  d->stream = o->cuda_stream;
  s = check(cx, d->api.DriverGetVersion(&d->driver_version), "cuDriverGetVersion");
  if (s == TK_OK) s = ordinal < 0 ? open_adopted(cx, d, o->cuda_context) : open_ordinal(cx, d, ordinal);
  if (s == TK_OK)
    s = check(cx, tk__cuda_facts_get(&d->api, d->device, &d->facts), "asking for the device's attributes");
  if (s == TK_OK && tk__cuda_newest_ptx(d->driver_version) == 0)
    s = tk__fail(cx, TK_DRIVER_TOO_OLD, "it supports CUDA %d.%d, and 11.0 is the least that works",
                 d->driver_version / 1000, d->driver_version % 1000 / 10);
  if (s != TK_OK) {
    cuda_close(cx);
    cx->device = NULL;
    return s;
  }
  cx->ops = &cuda_ops;
  snprintf(cx->name, sizeof cx->name, "cuda:%d", (int)d->device);
  tk__cuda_arch_name(&d->facts, cx->arch);
  return TK_OK;
}
