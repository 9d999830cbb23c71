/* tk: compiled tile kernels from C. The whole public interface of libtk; needs neither CUDA's headers nor LLVM.
 *
 *   tk_context *cx;
 *   tk_kernel *add;
 *   tk_context_open(&cx, &(tk_options){.device = "auto"});
 *   tk_kernel_load(cx, "vector_add.ptx", "add", NULL, &add);
 *   tk_launch(add, &(tk_launch_opts){.grid = TK_GRID_EXPR("cdiv(n, BLOCK)")},
 *             TK_ARGS(tk_buf(x), tk_buf(y), tk_buf(out), tk_i32(n)));
 *
 * Rules that hold for every call:
 *   - It returns a tk_status. The text of the calling thread's last failure is tk_error(cx): what happened and what to
 * do. Handles come back through out-parameters, which are set to NULL on failure.
 *   - Strings and arrays handed in are copied where the call needs them later. Handles belong to the caller, who gives
 * each back with its *_free; the context is closed last.
 *   - The library has no global state, prints nothing and never exits. Different threads may use one context, its
 * buffers, modules, kernels and streams at the same time; a tk_prepared belongs to one thread at a time. No handle may
 * be freed while another thread uses it.
 *   - The calling thread's current CUDA context is the same after a call as before.
 *   - Work on a device is queued on streams. A kernel's fault (an illegal access, say) is therefore often reported by a
 *     later call, usually one that waits; after it the CUDA context is lost and every call reports it again. */
#ifndef TK_H
#define TK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ----------------------------------------------------------------------------------------------------- */

#define TK_VERSION_MAJOR 0
#define TK_VERSION_MINOR 1
#define TK_VERSION (100 * TK_VERSION_MAJOR + TK_VERSION_MINOR)
int tk_version(void); /* of the library; tk_context_open compares it with the header's */

/* ---- status ------------------------------------------------------------------------------------------------------ */

/* Every status: X(NAME, "what it means", "what to do"). */
#define TK_STATUS_TABLE(X)                                                                                             \
  X(OK, "success", "")                                                                                                 \
  X(INVALID_ARGUMENT, "invalid argument", "")                                                                          \
  X(OUT_OF_HOST_MEMORY, "out of host memory", "Free memory of this process.")                                          \
  X(VERSION_MISMATCH, "the program and the library differ in version",                                                 \
    "Compile the program against the tk.h that belongs to the library.")                                               \
  X(BAD_DEVICE, "no such device", "Name a device as auto, cpu, cuda or cuda:N; `tkc info` lists what there is.")       \
  X(NO_DRIVER, "no NVIDIA driver",                                                                                     \
    "Install the driver (Debian: nvidia-driver; in a container: start it with the GPU made visible), or use the "      \
    "device \"cpu\".")                                                                                                 \
  X(DRIVER_MISMATCH, "the NVIDIA driver is broken or half updated",                                                    \
    "Library and kernel module of the driver must have one version: reboot or reload the module after an update.")     \
  X(DRIVER_TOO_OLD, "the NVIDIA driver is too old", "Update the driver, or compile for an older one (tkc --arch).")    \
  X(NO_DEVICE, "no GPU",                                                                                               \
    "Check that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide it, or use "                        \
    "the device \"cpu\".")                                                                                             \
  X(DEVICE_BUSY, "the GPU is not available", "Another process holds it exclusively, or its compute mode forbids it.")  \
  X(OUT_OF_MEMORY, "out of device memory", "Free buffers, use smaller ones, or look for other processes on the GPU.")  \
  X(ILLEGAL_ACCESS, "a kernel accessed memory that is not its own",                                                    \
    "The CUDA context is lost: close it. Run the kernel on the device \"cpu\", which names the line and the element.") \
  X(MISALIGNED_ADDRESS, "a kernel used a misaligned address",                                                          \
    "The CUDA context is lost: close it. Check that each pointer has the alignment that the kernel was compiled for.") \
  X(LAUNCH_OUT_OF_RESOURCES, "a launch needs more than the device has",                                                \
    "Use smaller blocks, fewer warps or fewer stages.")                                                                \
  X(LAUNCH_TIMEOUT, "a kernel ran too long",                                                                           \
    "The display driver's watchdog stopped it: use a GPU without display, or less work per launch.")                   \
  X(KERNEL_ASSERT, "a device_assert failed",                                                                           \
    "The CUDA context is lost: close it. The device \"cpu\" names the line and the element.")                          \
  X(KERNEL_FAULT, "a kernel failed", "The CUDA context is lost: close it. Run the kernel on the device \"cpu\".")      \
  X(DEVICE_FAILURE, "the GPU or its driver failed", "See the system log (dmesg: Xid).")                                \
  X(FILE_ERROR, "cannot read a file", "")                                                                              \
  X(BAD_ARTIFACT, "not a compiled tile kernel", "Compile it with `tkc kernel.tk -o kernel.ptx`.")                      \
  X(BAD_PTX, "the driver refuses the PTX", "If tkc made it, this is a bug of tkc: please report it with the file.")    \
  X(WRONG_ARCH, "compiled for another GPU", "Compile for this one: tkc --arch native.")                                \
  X(NO_COMPILER, "this library has no compiler",                                                                       \
    "Link libtkc and open the context with `.compiler = tk_jit()`, or compile before: tkc kernel.tk -o kernel.ptx.")   \
  X(COMPILE_ERROR, "the kernel does not compile", "")                                                                  \
  X(CPU_CANNOT_RUN_PTX, "the PTX emulator of the CPU device refuses a file", "Load the .tk instead.")                  \
  X(NO_SUCH_KERNEL, "no such kernel", "")                                                                              \
  X(WRONG_ARGUMENT_COUNT, "wrong number of arguments", "Constexpr parameters are no launch arguments.")                \
  X(WRONG_ARGUMENT_TYPE, "an argument has the wrong type", "")                                                         \
  X(SPECIALIZATION_MISMATCH, "an argument breaks what the kernel was compiled for",                                    \
    "Give such an argument, or compile without that assumption (tkc --signature).")                                    \
  X(BAD_DESCRIPTOR, "no tensor that a descriptor can describe",                                                        \
    "Base and strides are multiples of 16 bytes, the last stride is 1, extents are 1 .. 2^31 - 1.")                    \
  X(BAD_GRID, "bad grid", "")                                                                                          \
  X(OUT_OF_RANGE, "outside of a buffer", "")                                                                           \
  X(WRONG_CONTEXT, "a handle of another context", "")                                                                  \
  X(IN_USE, "handles are still open", "Free them before the context is closed.")                                       \
  X(NOT_READY, "not finished yet", "")                                                                                 \
  X(UNSUPPORTED, "not supported", "")                                                                                  \
  X(CHECK_FAILED, "the checked run found mistakes", "")

typedef enum tk_status {
#define TK_STATUS_ROW(name, text, advice) TK_##name,
  TK_STATUS_TABLE(TK_STATUS_ROW)
#undef TK_STATUS_ROW
      TK_N_STATUS
} tk_status;

/* Static strings: "NO_DRIVER", "no NVIDIA driver", "Install the driver ..." ("" if there is nothing to advise). */
const char *tk_status_name(tk_status s);
const char *tk_status_text(tk_status s);
const char *tk_status_advice(tk_status s);

/* ---- element types ----------------------------------------------------------------------------------------------- */

/* X(name, bytes of one element in memory, class): the class decides which scalar arguments a parameter accepts. */
#define TK_DTYPE_TABLE(X) \
  X(i1, 1, BOOL)          \
  X(i8, 1, SINT)          \
  X(i16, 2, SINT)         \
  X(i32, 4, SINT)         \
  X(i64, 8, SINT)         \
  X(u8, 1, UINT)          \
  X(u16, 2, UINT)         \
  X(u32, 4, UINT)         \
  X(u64, 8, UINT)         \
  X(f8e4m3, 1, FLOAT) X(f8e5m2, 1, FLOAT) X(f16, 2, FLOAT) X(bf16, 2, FLOAT) X(f32, 4, FLOAT) X(f64, 8, FLOAT)

typedef enum tk_dtype {
  TK_NO_DTYPE, /* not stated */
#define TK_DTYPE_ROW(name, bytes, class_) TK_##name,
  TK_DTYPE_TABLE(TK_DTYPE_ROW)
#undef TK_DTYPE_ROW
      TK_N_DTYPES
} tk_dtype;

const char *tk_dtype_name(tk_dtype t); /* "f32"; "?" for no dtype */
size_t tk_dtype_bytes(tk_dtype t);     /* of one element in memory; 0 for no dtype */
bool tk_dtype_parse(const char *name, size_t len, tk_dtype *out);

/* ---- context ----------------------------------------------------------------------------------------------------- */

typedef struct tk_context tk_context;
typedef struct tk_stream tk_stream;
typedef struct tk_event tk_event;
typedef struct tk_buffer tk_buffer;
typedef struct tk_module tk_module;
typedef struct tk_kernel tk_kernel;
typedef struct tk_prepared tk_prepared;
typedef struct tk_compiler tk_compiler;

/* What a context is made from; zeros are the defaults. */
typedef struct tk_options {
  const char *device;      /* NULL or "auto" (cuda:0, else the CPU), "cpu", "cuda" (cuda:0), "cuda:N" */
  void *cuda_context;      /* a CUcontext to live in, which must outlive the tk_context; `device` is not looked at */
  void *cuda_stream;       /* a CUstream for all calls that name no stream, which must outlive the tk_context */
  const char *driver_path; /* the CUDA driver's library; NULL = libcuda.so.1 */
  const tk_compiler *compiler; /* tk_jit() of libtkc, to load .tk files; NULL = only .ptx files can be loaded */
  /* Receives what kernels print (device_print) on the CPU, on the launching thread, during the launch, and what
     static_print says when a kernel is compiled for a context; NULL drops it. On a GPU the driver itself writes what
     device_print prints to stdout, when it synchronizes. */
  void (*print)(void *user, const char *text, size_t len);
  void *print_user;
} tk_options;

/* Opens a device. Without `cuda_context` this takes the device's primary context, which the CUDA runtime uses too.
   *out is set on failure as well (NULL only when there is no memory): ask tk_error(*out) for the text, then close it;
   any other call on a context that failed to open returns TK_INVALID_ARGUMENT. */
static inline tk_status tk_context_open(tk_context **out, const tk_options *options);
tk_status tk_context_open_version(tk_context **out, const tk_options *options, int version, size_t options_size);
static inline tk_status tk_context_open(tk_context **out, const tk_options *options) {
  return tk_context_open_version(out, options, TK_VERSION, sizeof(tk_options));
}

/* Closes the context; NULL is allowed. While handles made from it are open, nothing happens and the answer is
   TK_IN_USE. */
tk_status tk_context_close(tk_context *cx);

/* Text of the calling thread's last failure on this context; "" if there was none. Valid until this thread's next
   failing call on the context, or its closing. For NULL: what that means. */
const char *tk_error(const tk_context *cx);

/* "cuda:0", "cpu": lives as long as the context. For an adopted context, the device it is on. */
const char *tk_context_device(const tk_context *cx);
/* Why "auto" took the CPU; "" if it did not. Lives as long as the context. */
const char *tk_context_fallback(const tk_context *cx);
/* The arch that .tk files are compiled for here ("sm_90a", which is also what the CPU takes). Lives as long as the
 * context. */
const char *tk_context_arch(const tk_context *cx);

/* Waits for everything that was queued on the context's device. */
tk_status tk_synchronize(tk_context *cx);

/* ---- streams and events ------------------------------------------------------------------------------------------ */

/* A NULL stream in any call below is the context's own: `cuda_stream` of its options, else CUDA's legacy stream. */
tk_status tk_stream_new(tk_context *cx, tk_stream **out); /* a non-blocking stream */
/* A handle on a CUstream of someone else's, which must outlive it; freeing the handle leaves the CUstream alone. */
tk_status tk_stream_adopt(tk_context *cx, void *cuda_stream, tk_stream **out);
void tk_stream_free(tk_stream *s); /* NULL is allowed; queued work still completes */
tk_status tk_stream_synchronize(tk_context *cx, tk_stream *s);
tk_status tk_stream_wait(tk_context *cx, tk_stream *s, const tk_event *e); /* later work on s waits for e */

tk_status tk_event_new(tk_context *cx, tk_event **out);
void tk_event_free(tk_event *e); /* NULL is allowed */
tk_status tk_event_record(tk_event *e, tk_stream *s);
tk_status tk_event_synchronize(tk_event *e);
/* Milliseconds from `begin` to `end`, both recorded; TK_NOT_READY while the device has not passed both. */
tk_status tk_event_elapsed(const tk_event *begin, const tk_event *end, double *milliseconds);

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

/* Device memory, uninitialised, aligned to 256 bytes. Zero bytes are allowed. */
tk_status tk_buffer_new(tk_context *cx, size_t bytes, tk_buffer **out);
/* The same for a dense row-major array, described as tk_buffer_describe does. */
tk_status tk_tensor_new(tk_context *cx, tk_dtype dtype, int rank, const int64_t *shape, tk_buffer **out);
/* A handle on device memory of someone else's (on "cpu": host memory), which must outlive it; freeing leaves
   it alone. */
tk_status tk_buffer_wrap(tk_context *cx, void *device_pointer, size_t bytes, tk_buffer **out);
/* Waits for work that uses the buffer if the memory is its own. NULL is allowed. */
void tk_buffer_free(tk_buffer *b);

enum { TK_MAX_RANK = 8 };
/* States what the buffer holds: launches then check the element type, and grid expressions may say x.shape[0],
   x.stride(0) and x.numel(). Strides count elements; NULL = dense, row-major. The elements must lie inside. Not to be
   called while another thread uses the buffer. */
tk_status tk_buffer_describe(tk_buffer *b, tk_dtype dtype, int rank, const int64_t *shape, const int64_t *strides);

uint64_t tk_buffer_address(const tk_buffer *b); /* device address; 0 when it has no bytes */
size_t tk_buffer_bytes(const tk_buffer *b);
tk_dtype tk_buffer_dtype(const tk_buffer *b);

/* Copies of `bytes` bytes at byte offsets, checked against the buffers' sizes. These return when the copy is done. They
   are ordered after earlier work on the context's own stream, not after work on other streams. */
tk_status tk_upload(tk_buffer *to, size_t offset, const void *from, size_t bytes);
tk_status tk_download(const tk_buffer *from, size_t offset, void *to, size_t bytes);
tk_status tk_copy(tk_buffer *to, size_t to_offset, const tk_buffer *from, size_t from_offset, size_t bytes);
tk_status tk_fill(tk_buffer *to, size_t offset, uint8_t value, size_t bytes);

/* The same, queued on a stream. Host memory must stay as it is until the stream has passed the copy, and should come
   from tk_host_alloc: copies from and to other host memory may wait. */
tk_status tk_upload_async(tk_buffer *to, size_t offset, const void *from, size_t bytes, tk_stream *s);
tk_status tk_download_async(const tk_buffer *from, size_t offset, void *to, size_t bytes, tk_stream *s);
tk_status tk_copy_async(tk_buffer *to, size_t to_offset, const tk_buffer *from, size_t from_offset, size_t bytes,
                        tk_stream *s);
tk_status tk_fill_async(tk_buffer *to, size_t offset, uint8_t value, size_t bytes, tk_stream *s);

/* Pinned host memory, which the device copies at full speed. Give it back with tk_host_free of the same context. */
tk_status tk_host_alloc(tk_context *cx, size_t bytes, void **out);
void tk_host_free(tk_context *cx, void *memory); /* NULL memory is allowed */

/* ---- modules and kernels ----------------------------------------------------------------------------------------- */

/* How a .tk (or .py) file is compiled; of no effect on .ptx. Zeros are the defaults. */
typedef struct tk_load_options {
  const char *const *defines; /* "NAME=VALUE": values of constexpr parameters; of others too ("bias=None"), which are no
                                 arguments of launches then */
  int n_defines;
  const char *signature;     /* 'x=*f32:16,n=i32,bias=None': compile once, for exactly this; launches have an argument
                                for each type. NULL: compile for the arguments of each launch (their types, divisible by
                                16, equal to 1), once for each kind */
  int num_warps, num_stages; /* 0 = as the source says */
  bool debug;                /* device_assert is active */
  bool no_tensor_maps;       /* no copies through tensor maps */
  bool no_gang;              /* no programs side by side in a block: for grids of one or two programs along x */
} tk_load_options;

/* A file with one or more kernels: .ptx as tkc wrote it, or .tk and .py if the context has a compiler. `options` may be
   NULL. The module lives on until the last of its kernels is freed. */
tk_status tk_module_load(tk_context *cx, const char *path, const tk_load_options *options, tk_module **out);
/* The same from memory; the ending of `name` (never opened) says what the text is. */
tk_status tk_module_load_text(tk_context *cx, const char *name, const char *text, size_t len,
                              const tk_load_options *options, tk_module **out);
void tk_module_free(tk_module *m); /* NULL is allowed */
int tk_module_count(const tk_module *m);
const char *tk_module_kernel_name(const tk_module *m, int i); /* lives as long as the module; NULL beyond the last */

/* A kernel of a module by name; a NULL name is allowed if the module has just one. */
tk_status tk_module_kernel(tk_module *m, const char *name, tk_kernel **out);
/* tk_module_load and tk_module_kernel in one. */
tk_status tk_kernel_load(tk_context *cx, const char *path, const char *name, const tk_load_options *options,
                         tk_kernel **out);
/* NULL is allowed. Waits for nothing: the caller sees to it that no launch of the module is still queued. */
void tk_kernel_free(tk_kernel *k);
const char *tk_kernel_name(const tk_kernel *k); /* lives as long as the kernel */

/* The launch arguments in order: parameters that are not constexpr. Names live as long as the kernel. */
int tk_kernel_n_args(const tk_kernel *k);
const char *tk_kernel_arg_name(const tk_kernel *k, int i); /* NULL outside */

typedef struct tk_kernel_attributes {
  int num_warps, num_stages;
  int programs_per_block;   /* that run side by side, on num_warps each */
  int producer_warps;       /* beyond those, in the same block: they only copy */
  int registers;            /* of one thread */
  int local_bytes;          /* of one thread: spilled registers and arrays; 0 is what one wants */
  int shared_bytes;         /* of one block, static */
  int dynamic_shared_bytes; /* of one block, given at launch */
  int max_threads;          /* the largest block that the registers allow */
  int ptx_version;          /* 10 * major + minor */
  int blocks_per_sm;        /* resident at once */
  double occupancy;         /* resident warps over the most that an SM holds: 0 .. 1 */
} tk_kernel_attributes;
/* Of the variant compiled last. TK_NOT_READY before the first launch of a kernel that is compiled for its arguments,
   TK_UNSUPPORTED on the CPU. */
tk_status tk_kernel_attributes_get(const tk_kernel *k, tk_kernel_attributes *out);

/* ---- arguments --------------------------------------------------------------------------------------------------- */

typedef enum tk_arg_kind { TK_ARG_BUFFER, TK_ARG_ADDRESS, TK_ARG_INT, TK_ARG_FLOAT, TK_ARG_DESCRIPTOR } tk_arg_kind;

/* Make one with the functions below. */
typedef struct tk_arg {
  tk_arg_kind kind;
  tk_dtype dtype; /* INT, FLOAT: the parameter must have this type; TK_NO_DTYPE: any that holds the value */
  union {
    const tk_buffer *buffer;
    uint64_t address;
    int64_t i;
    double f;
    const struct tk_descriptor *descriptor;
  } v;
  size_t offset; /* BUFFER: bytes to add to its address */
} tk_arg;

enum { TK_MAX_DESCRIPTOR_RANK = 5 };
/* A tensor, as a parameter of the type tensordesc<..> takes it: Triton's TensorDescriptor. Fields that are left out are
   zeros. A launch refuses what the kernel or the hardware cannot do, and names the argument. */
typedef struct tk_descriptor {
  tk_arg base;    /* where element 0 lies: tk_buf, tk_buf_at or tk_ptr. A multiple of 16 bytes. Not owned */
  tk_dtype dtype; /* of the elements; TK_NO_DTYPE: what the buffer was described as, or what the kernel takes */
  int rank;       /* axes, 1 .. TK_MAX_DESCRIPTOR_RANK, the outermost first */
  int64_t shape[TK_MAX_DESCRIPTOR_RANK];   /* elements of each axis, 1 .. 2^31 - 1. All lie inside of the buffer */
  int64_t strides[TK_MAX_DESCRIPTOR_RANK]; /* in elements. The last is 1, the others are multiples of 16 bytes */
  int64_t block[TK_MAX_DESCRIPTOR_RANK];   /* extents of what an access moves, powers of two. A source whose parameter
                                              states no type is compiled for them; else they may be left out */
  bool pads_nan; /* floats: elements outside of the tensor read as NaN, not 0. Refused by a kernel that reads 0 */
} tk_descriptor;

static inline tk_arg tk_arg_buffer_(const tk_buffer *b, size_t offset) {
  tk_arg a = {TK_ARG_BUFFER, TK_NO_DTYPE, {NULL}, 0};
  a.v.buffer = b;
  a.offset = offset;
  return a;
}
static inline tk_arg tk_arg_int_(tk_dtype t, int64_t v) {
  tk_arg a = {TK_ARG_INT, TK_NO_DTYPE, {NULL}, 0};
  a.dtype = t;
  a.v.i = v;
  return a;
}
static inline tk_arg tk_arg_float_(tk_dtype t, double v) {
  tk_arg a = {TK_ARG_FLOAT, TK_NO_DTYPE, {NULL}, 0};
  a.dtype = t;
  a.v.f = v;
  return a;
}

/* For a pointer parameter: a buffer, a place inside one, or a raw device address (unchecked; not on the CPU). */
static inline tk_arg tk_buf(const tk_buffer *b) { return tk_arg_buffer_(b, 0); }
static inline tk_arg tk_buf_at(const tk_buffer *b, size_t byte_offset) { return tk_arg_buffer_(b, byte_offset); }
static inline tk_arg tk_ptr(uint64_t device_address) {
  tk_arg a = {TK_ARG_ADDRESS, TK_NO_DTYPE, {NULL}, 0};
  a.v.address = device_address;
  return a;
}
/* For a descriptor parameter. Launches and tk_meta look at *d while they run; tk_launch_prepare and tk_prepared_set
   copy it. tk_buf of a described buffer stands for the whole of it, where the parameter's type is known. */
static inline tk_arg tk_desc(const tk_descriptor *d) {
  tk_arg a = {TK_ARG_DESCRIPTOR, TK_NO_DTYPE, {NULL}, 0};
  a.v.descriptor = d;
  return a;
}
/* For a scalar parameter of exactly this type. */
static inline tk_arg tk_bool(bool v) { return tk_arg_int_(TK_i1, v); }
static inline tk_arg tk_i8(int8_t v) { return tk_arg_int_(TK_i8, v); }
static inline tk_arg tk_i16(int16_t v) { return tk_arg_int_(TK_i16, v); }
static inline tk_arg tk_i32(int32_t v) { return tk_arg_int_(TK_i32, v); }
static inline tk_arg tk_i64(int64_t v) { return tk_arg_int_(TK_i64, v); }
static inline tk_arg tk_u8(uint8_t v) { return tk_arg_int_(TK_u8, v); }
static inline tk_arg tk_u16(uint16_t v) { return tk_arg_int_(TK_u16, v); }
static inline tk_arg tk_u32(uint32_t v) { return tk_arg_int_(TK_u32, v); }
static inline tk_arg tk_u64(uint64_t v) { return tk_arg_int_(TK_u64, (int64_t)v); }
static inline tk_arg tk_f32(float v) { return tk_arg_float_(TK_f32, v); }
static inline tk_arg tk_f64(double v) { return tk_arg_float_(TK_f64, v); }
/* For a parameter of any integer type that holds the value, or of any float type (rounded to nearest, ties to even). */
static inline tk_arg tk_int(int64_t v) { return tk_arg_int_(TK_NO_DTYPE, v); }
static inline tk_arg tk_float(double v) { return tk_arg_float_(TK_NO_DTYPE, v); }

/* Expands to the last two arguments of a launch: an array and its length. C only. A kernel without arguments: NULL, 0.
 */
#define TK_ARGS(...) (const tk_arg[]){__VA_ARGS__}, (int)(sizeof((const tk_arg[]){__VA_ARGS__}) / sizeof(tk_arg))

/* ---- grids ------------------------------------------------------------------------------------------------------- */

/* The named values that a grid function receives: launch arguments and constexprs. */
typedef struct tk_meta tk_meta;
/* An integer, a bool (0 or 1), or `x.shape[0]` and the like as in grid expressions. A name that does not exist, or has
   no integer value, gives 0 and makes the launch fail with TK_BAD_GRID. */
int64_t tk_meta_int(const tk_meta *meta, const char *name);
bool tk_meta_has(const tk_meta *meta, const char *name);

/* How many programs run. One of: one to three numbers; an expression; a function. All zero: the default grid that the
   kernel's source states with @grid(...). */
typedef struct tk_grid tk_grid;
typedef tk_grid (*tk_grid_fn)(const tk_meta *meta, void *user); /* answers with TK_GRID(...) */
struct tk_grid {
  int dims; /* of `at` */
  int64_t at[3];
  const char *expr;
  tk_grid_fn fn;
  void *user;
};
/* TK_GRID(x), TK_GRID(x, y), TK_GRID(x, y, z). x may go up to 2^31 - 1, y and z up to 65535. If one is 0, a launch does
   nothing and succeeds. */
#define TK_GRID(...) \
  ((tk_grid){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, NULL, NULL, NULL})
/* One to three expressions separated by commas, over names of launch arguments and constexprs, in exact integers:
   + - * // % / (must divide exactly), comparisons, and or not, A if C else B, cdiv min max abs next_power_of_2,
   parentheses, x.shape[i], x.stride(i), x.numel() of descriptors and described buffers. // and % round down, as in
   Python. */
#define TK_GRID_EXPR(text) ((tk_grid){0, {0, 0, 0}, (text), NULL, NULL})
#define TK_GRID_FN(function, user_pointer) ((tk_grid){0, {0, 0, 0}, NULL, (function), (user_pointer)})

/* The evaluator of grid expressions for other uses: one expression, names through a callback, which returns false for
   what it does not know. `member` is NULL for a plain name, else "shape" or "stride" (with an index) or "numel". On
   failure returns false and writes a text with the column into message. */
typedef bool (*tk_lookup_fn)(void *user, const char *name, const char *member, int64_t index, int64_t *value);
bool tk_evaluate(const char *text, tk_lookup_fn lookup, void *user, int64_t *value, char *message, size_t message_size);

/* ---- launches ---------------------------------------------------------------------------------------------------- */

typedef struct tk_launch_opts {
  tk_grid grid;
  tk_stream *stream;
} tk_launch_opts;

/* Checks the arguments against the kernel's parameters and queues the launch; buffers must live until it has run.
   `options` may be NULL: default grid, the context's own stream. On the CPU the kernel has run when this returns: one
   of a source in the checked interpreter, one of a .ptx in the PTX emulator; TK_CHECK_FAILED then tells every mistake
   found. */
tk_status tk_launch(tk_kernel *k, const tk_launch_opts *options, const tk_arg *args, int n_args);

/* Does the checking once: *out holds arguments, grid and stream. The kernel, buffers and stream must outlive it. */
tk_status tk_launch_prepare(tk_kernel *k, const tk_launch_opts *options, const tk_arg *args, int n_args,
                            tk_prepared **out);
/* Replaces launch argument number `index` (from 0), and computes the grid anew if it is an expression or a function. On
   failure the prepared launch is as before. */
tk_status tk_prepared_set(tk_prepared *p, int index, tk_arg arg);
tk_status tk_prepared_run(tk_prepared *p);
void tk_prepared_free(tk_prepared *p); /* NULL is allowed */

/* ---- timing ------------------------------------------------------------------------------------------------------ */

typedef struct tk_bench_options {
  double warmup_ms, measure_ms; /* 0 = 25 and 100 */
  int min_runs, max_runs;       /* 0 = 5 and 10000 */
  size_t flush_bytes;           /* cleared before each run, to empty the L2 cache; 0 = 256 MiB */
  bool no_flush;
} tk_bench_options;

typedef struct tk_bench_result {
  int runs;
  double median_ms, p20_ms, p80_ms, mean_ms, min_ms, max_ms; /* of one run, between two events around it */
} tk_bench_result;

/* Queues what is to be timed on the stream; called many times. */
typedef tk_status (*tk_bench_fn)(void *user, tk_stream *s);
/* Times fn on a stream (NULL: the context's own). `options` may be NULL. Stops at fn's first failure and returns it. */
tk_status tk_bench(tk_context *cx, tk_stream *s, tk_bench_fn fn, void *user, const tk_bench_options *options,
                   tk_bench_result *out);
/* Times a prepared launch on its own stream. */
tk_status tk_bench_prepared(tk_prepared *p, const tk_bench_options *options, tk_bench_result *out);

/* ---- what this machine has --------------------------------------------------------------------------------------- */

typedef struct tk_device_info {
  char name[128];
  int major, minor; /* compute capability */
  const char *arch; /* what to compile for: "sm_90a" */
  size_t memory_bytes;
  int sm_count;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  int l2_bytes;
  int shared_bytes_per_block; /* with opt-in */
  bool has_bf16;              /* bf16 mma, cp.async: 8.0 */
  bool has_fp8;               /* fp8 mma: 8.9 */
  bool has_tma, has_clusters; /* bulk tensor copies, thread block clusters: 9.0 */
  bool has_wgmma;             /* warpgroup mma: 9.0 only */
  bool has_tcgen05;           /* tensor memory: 10.x */
} tk_device_info;

typedef struct tk_info {
  tk_status driver_status; /* TK_OK, or why there are no devices */
  char problem[512];       /* its text: what is missing and how to get it; "" if nothing is */
  int driver_version;      /* 1000 * major + 10 * minor of the CUDA version that the driver supports; 0 = no driver */
  int ptx_version;         /* newest PTX it reads: 10 * major + minor */
  int n_devices;
  tk_device_info *devices;
} tk_info;

/* Never fails for lack of a driver or a GPU: it says so. `driver_path` as in tk_options. *out: free with tk_info_free.
   Leaves no context behind. NULL options are allowed. */
tk_status tk_info_get(const tk_options *options, tk_info **out);
void tk_info_free(tk_info *info); /* NULL is allowed */

/* ---- compiling at run time --------------------------------------------------------------------------------------- */

/* The compiler, for tk_options.compiler. In libtkc, not in libtk. A static object: nothing to free. */
const tk_compiler *tk_jit(void);

#ifdef __cplusplus
}
#endif
#endif
