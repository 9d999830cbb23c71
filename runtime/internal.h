/* internal: what the files of the runtime share. The device seam is device.h; here are the handles and the helpers.
 *
 * A context holds a device (ops and their state), the errors of its threads, and counts of what is open. Kernels hold
 * variants: one PTX entry with its metadata and the rules by which arguments are checked and packed. A kernel from a
 * .ptx has one variant; a kernel compiled at run time gets one for each kind of arguments that it meets. */
#ifndef TK_INTERNAL_H
#define TK_INTERNAL_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/tk.h"

#define TK__PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- errors ------------------------------------------------------------------------------------------------------ */

typedef struct tk__error {
  struct tk__error *next;
  pthread_t thread;
  char *text; /* NULL = no memory for it: the status's own text stands in */
  tk_status status;
} tk__error;

/* Records the calling thread's failure and returns `status`. The text becomes "<status text>: <message>. <advice>"; the
   advice is left out when `message` brings its own and ends with '.'. */
tk_status tk__fail(const tk_context *cx, tk_status status, const char *fmt, ...) TK__PRINTF(3, 4);
tk_status tk__no_memory(const tk_context *cx);

/* ---- context ----------------------------------------------------------------------------------------------------- */

struct tk_context {
  const tk__device_ops *ops; /* NULL: failed to open */
  void *device;              /* state of ops */
  const tk_compiler *compiler;
  void (*print)(void *user, const char *text, size_t len); /* of device_print on the CPU */
  void *print_user;
  char name[32], arch[16], fallback[1024];
  pthread_mutex_t lock; /* of errors */
  tk__error *errors;
  atomic_int n_buffers, n_streams, n_events, n_modules, n_pinned, n_prepared;
};

struct tk_stream {
  tk_context *cx;
  void *handle;
  bool adopted;
};

struct tk_event {
  tk_context *cx;
  void *handle;
  bool recorded;
  double at; /* on the CPU: milliseconds of a monotonic clock */
};

struct tk_buffer {
  tk_context *cx;
  uint64_t address;
  size_t bytes;
  bool wrapped;
  tk_dtype dtype;
  int rank; /* -1: not described */
  int64_t shape[TK_MAX_RANK], strides[TK_MAX_RANK];
};

/* ---- grid expressions (grid.c) ----------------------------------------------------------------------------------- */

typedef enum tk__member { TK__VALUE, TK__SHAPE, TK__STRIDE, TK__NUMEL } tk__member;

enum { TK__EXPR_MAX_CODE = 96, TK__EXPR_MAX_STACK = 24, TK__EXPR_MAX_TEXT = 1024 };

typedef struct tk__instruction {
  uint8_t op;
  uint8_t member;  /* of a load */
  uint16_t slot;   /* of a load: the name's number; of a jump: where to */
  uint16_t column; /* 1-based, for messages */
  int64_t value;   /* constant, or index of a member */
} tk__instruction;

typedef struct tk__expr {
  int n_code, dims; /* dims: how many values it leaves, at least 1 */
  tk__instruction code[TK__EXPR_MAX_CODE];
} tk__expr;

/* How an expression finds names. `find` gives a name's number (or -1) at compile time, `get` its value at run time; get
   returns NULL or, if there is no such value, what to say about it. */
typedef struct tk__names {
  int (*find)(const void *user, const char *name, size_t len);
  const char *(*get)(const void *user, int slot, tk__member member, int64_t index, int64_t *value);
  const void *user;
} tk__names;

/* Compiles 1 .. max_dims expressions; on failure false, and the message names the column. A grid has at most 3, an
   axis list of a tensor map 5. */
bool tk__expr_compile(const char *text, int max_dims, const tk__names *names, tk__expr *out, char *message,
                      size_t size);
/* Computes the e->dims values. */
bool tk__expr_run(const tk__expr *e, const tk__names *names, int64_t *out, char *message, size_t size);

/* ---- tensor maps (tensor_map.c) ---------------------------------------------------------------------------------- */

/* How a launch makes one. */
typedef struct tk__map_rule {
  int arg; /* the launch argument that it describes */
  tk_dtype dtype;
  bool is_tf32;
  tk__expr sizes, strides;
} tk__map_rule;

typedef struct tk__map_source {
  uint64_t address;
  int64_t sizes[TK_ARTIFACT_MAX_RANK], strides[TK_ARTIFACT_MAX_RANK]; /* elements; unused axes are 0 */
} tk__map_source;

/* The bytes that a kernel takes, and what they were made from. */
typedef struct tk__map {
  _Alignas(64) unsigned char bytes[128];
  tk__map_source from;
  bool made;
} tk__map;

/* Why the arguments of a launch have no tensor map. */
typedef struct tk__misfit {
  const char *param;
  char text[160];
} tk__misfit;

/* ---- modules, kernels, variants ---------------------------------------------------------------------------------- */

struct tk_module {
  tk_context *cx;
  atomic_int refs; /* the caller's handle and one for each kernel */
  char *text;      /* of the file, NUL-terminated */
  size_t len;
  char *name;                /* path as given */
  bool is_source;            /* .tk or .py, else .ptx */
  tk_artifact *artifact;     /* of a .ptx */
  void *device_module;       /* of a .ptx */
  tk__declaration *declared; /* of a source */
  int n_declared;
  tk_load_options options; /* its strings are owned */
};

typedef enum tk__class { TK__POINTER, TK__BOOL, TK__SINT, TK__UINT, TK__FLOAT, TK__ANY, TK__DESCRIPTOR } tk__class;

/* How one launch argument is checked and packed. */
typedef struct tk__rule {
  const char *name;
  tk_dtype dtype;
  uint8_t klass; /* tk__class */
  bool passed;
  bool equals_one;
  uint16_t mask; /* divisibility - 1 */
  uint16_t slot; /* of its value, or of the first of its values */
  uint8_t n_slots;
  const tk_artifact_param *param;
} tk__rule;

typedef struct tk__grid_entry {
  struct tk__grid_entry *next;
  tk__expr expr;
  char text[];
} tk__grid_entry;

/* What a kernel of a source is compiled without: tensor maps, for arguments that misfit; a gang, for grids of one
   program along x. */
enum { TK__MAPS, TK__GANG, TK__N_WITHOUT };

typedef struct tk__variant {
  struct tk__variant *next; /* written before the variant is published */
  tk_kernel *kernel;
  const tk_artifact_kernel *meta;
  tk__rule *rules; /* one per launch argument */
  int n_args;
  int n_slots; /* at most TK_ARTIFACT_MAX_PARAMS */
  int n_maps;  /* 0 also where the kernel is interpreted */
  tk__map_rule *maps;
  _Atomic(tk__map *) kept;                              /* the last launch's; NULL while a launch uses them */
  _Atomic(struct tk__variant *) without[TK__N_WITHOUT]; /* of a source: the same without maps, or without a gang */
  void *fn;                                             /* the device's function */
  uint32_t room;                                        /* as bind gave it */
  _Atomic(tk__grid_entry *) grids;                      /* compiled expressions; only ever grows at its head */
  /* compiled at run time: */
  tk_artifact *artifact;
  void *device_module;
  char *signature;
  uint64_t *key; /* n_args words, see launch.c */
} tk__variant;

struct tk_kernel {
  tk_module *module;
  char *name;
  const tk__declaration *declared; /* of a source, else NULL */
  int n_args;
  const char **arg_names;          /* n_args; owned array, strings of module */
  pthread_mutex_t lock;            /* compiling a variant, adding a grid expression */
  _Atomic(tk__variant *) variants; /* most recent first; only ever grows at its head */
};

/* The variant for these arguments, compiled now if there is none yet. */
tk_status tk__variant_for(tk_kernel *k, const tk_arg *args, int n_args, tk__variant **out);
/* Builds the variant of a source kernel for a signature, under k->lock, and publishes it. Takes over key and
   signature. */
tk_status tk__variant_build(tk_kernel *k, char *signature, uint64_t *key, tk__variant **out);
/* The same kernel compiled without maps or a gang, now if it was not before. Only of a source's variant. */
tk_status tk__variant_without(tk__variant *v, int what, tk__variant **out);

/* The arguments of a launch, for those who look up values by name. */
struct tk_meta {
  const tk__variant *variant;
  const tk_arg *args;
  char *problem; /* of a grid function: the first name that it asked for in vain (PROBLEM_BYTES, launch.c) */
};
tk__names tk__names_of(const tk_meta *meta);

/* Compiles the expressions of the variant's maps, once. */
tk_status tk__maps_compile(tk__variant *v);
/* Makes maps[0 .. v->n_maps) for a launch; one that stands there for equal inputs stays. On failure nothing is reported
   but what *why holds, and the maps are good for another try. */
tk_status tk__maps_make(const tk__variant *v, const uint64_t *slots, const tk_arg *args, tk__map *maps,
                        tk__misfit *why);

/* Where a prepared launch runs. */
tk_context *tk__prepared_context(const tk_prepared *p);
tk_stream *tk__prepared_stream(const tk_prepared *p);

/* The class of a dtype's scalar arguments. */
tk__class tk__class_of(tk_dtype t);
/* Encodes a float in the low bits of a word; false if t is no float type. */
bool tk__encode_float(double v, tk_dtype t, uint64_t *bits);

#endif
