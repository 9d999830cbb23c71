/* device: the two seams of the runtime.
 *
 * tk__device_ops is what a device does: cuda_device.c through the driver, cpu.c on host memory. Everything above it
 * (checking, packing, grids, errors, ownership) is common.
 *
 * tk_compiler is what the runtime asks of a compiler. jit.c fills it from tkc.h; nothing else knows that there is one.
 *
 * Device functions report through tk__fail and return its status. Sizes are bytes; addresses are the device's; offsets,
 * bounds, contexts and NULL were checked before. A NULL stream is the context's own. */
#ifndef TK_DEVICE_H
#define TK_DEVICE_H

#include "runtime/artifact.h"
#include "runtime/tk.h"

struct tk__variant;

/* The last parameter of a persistent kernel (compiler/llvm/ll_program.c). With zeros each block runs the program of its
   index, as in any other kernel. Otherwise blocks lie along x, and are given numbers of turns: in a turn a block runs
   the gang's programs side by side, which follow each other along x. There is a block for each turn, or, with a
   counter, there may be fewer: they take all turns, and leave the counter at 0. */
typedef struct tk__programs {
  uint64_t counter;        /* address of a 32-bit 0 that nothing else uses until the launch has ended */
  uint32_t grid[3], turns; /* ceil(grid[0] / gang) * grid[1] * grid[2], below 2^31 */
} tk__programs;

typedef struct tk__launch {
  const struct tk__variant *variant;
  uint32_t grid[3];      /* programs */
  void **passed;         /* address of each parameter of the PTX entry, in order, maps and `programs` included */
  const uint64_t *slots; /* launch arguments in their memory encoding, folded ones too, at their rules' slots */
  const tk_arg *args;    /* as the caller gave them */
  tk_stream *stream;
  tk__programs programs; /* the device's to fill in */
} tk__launch;

/* A tensor map that keeps the rules of hardware. Axes from the innermost on. */
typedef struct tk__tensor_map {
  tk_dtype dtype;
  bool is_tf32; /* f32 data, which loads round to tf32 */
  int rank, swizzle;
  uint64_t address;
  uint64_t sizes[TK_ARTIFACT_MAX_RANK];   /* elements */
  uint64_t strides[TK_ARTIFACT_MAX_RANK]; /* bytes; [0] is one element */
  uint32_t box[TK_ARTIFACT_MAX_RANK];
} tk__tensor_map;

typedef struct tk__device_ops {
  void (*close)(tk_context *cx);
  tk_status (*synchronize)(tk_context *cx);

  tk_status (*alloc)(tk_context *cx, size_t bytes, uint64_t *address);
  void (*release)(tk_context *cx, uint64_t address);
  tk_status (*host_alloc)(tk_context *cx, size_t bytes, void **out);
  void (*host_release)(tk_context *cx, void *memory);
  /* Queued; the caller waits with stream_synchronize if it has to. */
  tk_status (*upload)(tk_context *cx, uint64_t to, const void *from, size_t bytes, tk_stream *s);
  tk_status (*download)(tk_context *cx, void *to, uint64_t from, size_t bytes, tk_stream *s);
  tk_status (*copy)(tk_context *cx, uint64_t to, uint64_t from, size_t bytes, tk_stream *s);
  tk_status (*fill)(tk_context *cx, uint64_t to, uint8_t value, size_t bytes, tk_stream *s);

  tk_status (*stream_new)(tk_context *cx, void **handle);
  void (*stream_release)(tk_context *cx, void *handle);
  tk_status (*stream_synchronize)(tk_context *cx, tk_stream *s);
  tk_status (*stream_wait)(tk_context *cx, tk_stream *s, const tk_event *e);
  tk_status (*event_new)(tk_context *cx, void **handle);
  void (*event_release)(tk_context *cx, void *handle);
  tk_status (*event_record)(tk_event *e, tk_stream *s);
  tk_status (*event_synchronize)(tk_event *e);
  tk_status (*event_elapsed)(const tk_event *begin, const tk_event *end, double *milliseconds);

  /* PTX with its metadata. The text is NUL-terminated and need not outlive the call; `name` is for messages. */
  tk_status (*load)(tk_context *cx, const char *name, const char *ptx, size_t len, const tk_artifact *a, void **module);
  void (*unload)(tk_context *cx, void *module);
  /* *room: of a persistent kernel, the blocks that the device runs at a time; 0: a block for each program. */
  tk_status (*bind)(tk_context *cx, void *module, const tk_artifact_kernel *k, void **fn, uint32_t *room);
  tk_status (*attributes)(tk_context *cx, void *fn, const tk_artifact_kernel *k, tk_kernel_attributes *out);
  tk_status (*launch)(tk_context *cx, tk__launch *l);
  /* Writes 128 bytes. Does not report: `why` gets the text, for a source has another way. */
  tk_status (*encode_map)(tk_context *cx, const tk__tensor_map *t, void *bytes, char *why, size_t size);

  bool interprets; /* kernels of sources are interpreted, not loaded as PTX */
} tk__device_ops;

/* Open into cx (ops, device, name, arch). */
tk_status tk__cuda_open(tk_context *cx, const tk_options *o, int ordinal);
tk_status tk__cpu_open(tk_context *cx);

/* The CPU device's PTX executor (cpu_ptx.c), as in tk__device_ops. */
tk_status tk__ptx_load(tk_context *cx, const char *name, const char *ptx, size_t len, const tk_artifact *a,
                       void **module);
void tk__ptx_unload(tk_context *cx, void *module);
tk_status tk__ptx_bind(tk_context *cx, void *module, const tk_artifact_kernel *k, void **fn, uint32_t *room);
tk_status tk__ptx_launch(tk_context *cx, const tk__launch *l);
tk_status tk__ptx_encode_map(tk_context *cx, const tk__tensor_map *t, void *bytes, char *why, size_t size);

/* ---- compiler ---------------------------------------------------------------------------------------------------- */

typedef struct tk__declared_param {
  const char *name;
  tk_param_kind kind; /* of an untyped parameter: TK_PARAM_SCALAR with typed = false */
  bool typed;         /* the source states the type */
  tk_dtype dtype;     /* if typed; of a descriptor it may still be open */
  bool is_const;
  bool no_specialize;
  int divisibility; /* that the source states; 1: none */
} tk__declared_param;

typedef struct tk__declaration {
  const char *name;
  int n_params;
  tk__declared_param *params; /* source order, constexprs included */
} tk__declaration;

typedef struct tk__build {
  const char *path, *text; /* the source */
  size_t len;
  const char *kernel, *signature; /* signature "x=*f32:16,n=i32"; "" = annotations only */
  const tk_load_options *options;
  const char *arch;
  bool no_tensor_maps, no_gang; /* compile without them */
} tk__build;

typedef struct tk__memory {
  const char *name;
  void *data;
  size_t bytes;
} tk__memory;

/* The argument that says where the memory of a pointer or a descriptor lies. */
static inline const tk_arg *tk__memory_of(const tk_arg *a) {
  return a->kind == TK_ARG_DESCRIPTOR ? &a->v.descriptor->base : a;
}

/* The memory that a launch on the CPU may touch: its buffers, each once. `out` holds TK_ARTIFACT_MAX_PARAMS. Refuses
   raw addresses, which have no bounds. */
tk_status tk__launch_memory(tk_context *cx, const tk__launch *l, tk__memory *out, int *n);

typedef struct tk__interpretation {
  uint32_t grid[3];
  const tk__memory *memory;
  int n_memory;
  const uint64_t
      *args; /* parameters of the entry (folded ones left out) in their memory encoding, pointers as host addresses */
  int n_args;
  void (*print)(void *user, const char *text, size_t len); /* of device_print; NULL = dropped */
  void *user;
} tk__interpretation;

/* Functions return false with *why (malloc'd, or NULL for want of memory) set to the diagnostics. They hold no state
   and may run on several threads at once. */
struct tk_compiler {
  bool (*describe)(const char *path, const char *text, size_t len, tk__declaration **out, int *n, char **why);
  void (*forget)(tk__declaration *d, int n);
  /* PTX with its metadata, malloc'd and NUL-terminated; *said is what static_print said, malloc'd, NULL if nothing. */
  bool (*compile)(const tk__build *b, char **ptx, size_t *len, char **said, char **why);
  /* Runs the kernel on the CPU with every check. *fault tells a fault of the kernel (true) from any other failure. */
  bool (*interpret)(const tk__build *b, const tk__interpretation *run, bool *fault, char **why);
};

#endif
