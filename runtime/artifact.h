/* artifact: the metadata of a compiled file, kept as a comment block at the head of its PTX.
 *
 * One PTX file holds every entry kernel of a .tk file. The block is readable, the driver ignores it, and nothing else
 * has to travel with the PTX. Each line is one flat JSON object with its keys in a fixed order, so equal metadata is
 * equal text and a diff of two builds reads well:
 *
 *   // tkc 5 {"source":"vector_add.tk","hash":"1f0a52c81b9e77d3","arch":"sm_90a","ptx":"8.0","kernels":1}
 *   // tkc kernel {"name":"add","warps":4,"stages":3,"ctas":1,"shared":0,"dynamic_shared":0,"grid":"cdiv(n,
 * BLOCK)","params":5}
 *   // tkc param {"name":"x","kind":"pointer","dtype":"f32","const":true,"divisible":16}
 *   // tkc param {"name":"y","kind":"pointer","dtype":"f32","divisible":16}
 *   // tkc param {"name":"out","kind":"pointer","dtype":"f32","divisible":16}
 *   // tkc param {"name":"n","kind":"scalar","dtype":"i32"}
 *   // tkc param {"name":"BLOCK","kind":"constexpr","type":"int","value":"1024"}
 *
 * A tensor descriptor is one parameter of the source and several of the PTX entry (tk_artifact_n_passed):
 *
 *   // tkc param {"name":"a","kind":"descriptor","dtype":"f16","block":"128, 64"}
 *
 * A kernel that copies through tensor maps says "maps":N behind its "params", and N lines follow those of its
 * parameters (runtime/README.md tells how a launch makes the maps):
 *
 *   // tkc map {"param":"a","dtype":"f16","sizes":"k, m","strides":"1, stride_am","box":"64, 128","swizzle":128}
 *
 * The first line is the first line of the file. The counts (`kernels`, `params`, `maps`) say where the block ends, so a
 * truncated block is an error. Keys that equal their default are left out: producer_warps 0, gang 1, maps 0, persistent
 * false, nan false, const false, divisible 1, equals_one false, passed true. Values of constexprs are strings, because
 * JSON numbers cannot hold an int64. A reader refuses keys it does not know: whoever adds a key raises
 * TK_ARTIFACT_FORMAT, and readers go on accepting the older formats. Format 1 had neither producer_warps nor maps,
 * format 2 not persistent, format 3 no descriptors, format 4 no gang. */
#ifndef TK_ARTIFACT_H
#define TK_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/tk.h"

enum {
  TK_ARTIFACT_FORMAT = 5,
  TK_ARTIFACT_MAX_KERNELS = 1024,                /* in one file */
  TK_ARTIFACT_MAX_PARAMS = 512,                  /* of one kernel; its launches have no more values either */
  TK_ARTIFACT_MAX_MAPS = 16,                     /* of one kernel */
  TK_ARTIFACT_MAX_RANK = TK_MAX_DESCRIPTOR_RANK, /* of a tensor map too */
  TK_ARTIFACT_MAX_LINE = 1 << 16,                /* bytes of one metadata line */
  TK_ARTIFACT_MAX_NAME = 255,                    /* bytes of a source, kernel or parameter name */
  TK_ARTIFACT_MAX_SHARED = 1 << 24,              /* bytes; a bound on nonsense, not a hardware limit */
};

typedef enum tk_param_kind {
  TK_PARAM_POINTER, /* dtype is the element type */
  TK_PARAM_SCALAR,
  TK_PARAM_CONSTEXPR,  /* fixed at compile time; not an argument of a launch, its value serves grid expressions */
  TK_PARAM_DESCRIPTOR, /* a tensor's address, extents and strides; dtype is the element type */
} tk_param_kind;

typedef enum tk_constant_kind {
  TK_CONSTANT_INT,
  TK_CONSTANT_FLOAT,
  TK_CONSTANT_BOOL,
  TK_CONSTANT_STRING,
  TK_CONSTANT_DTYPE, /* text holds its name, which need not be one of tk_dtype's */
  TK_CONSTANT_NONE,
  TK_CONSTANT_OTHER, /* a function, a tuple, ...: text holds what a reader should see */
} tk_constant_kind;

typedef struct tk_constant {
  tk_constant_kind kind;
  int64_t i;        /* INT; BOOL as 0 or 1 */
  double f;         /* FLOAT: any value, NaN and infinities included */
  const char *text; /* STRING, DTYPE, OTHER */
} tk_constant;

typedef struct tk_artifact_param {
  const char *name;
  tk_param_kind kind;
  tk_dtype dtype; /* POINTER, DESCRIPTOR: of the element; SCALAR: of the value; CONSTEXPR: TK_NO_DTYPE */
  bool is_const;  /* POINTER: the kernel only reads through it */
  int divisible;  /* POINTER: the address, SCALAR: the value, DESCRIPTOR: the last extent is a multiple of this; a power
                     of two, 1 = nothing known */
  bool equals_one; /* SCALAR: compiled for the value 1 only */
  bool passed;     /* is a parameter of the PTX entry. A folded one (equals_one) is not, yet stays in the launch list */
  tk_constant value; /* CONSTEXPR */
  int rank;          /* DESCRIPTOR: axes, and the extents of the block that an access moves; else 0 */
  int block[TK_ARTIFACT_MAX_RANK];
  bool pads_nan; /* DESCRIPTOR of floats: elements outside of the tensor read as NaN */
} tk_artifact_param;

/* The parameters of the PTX entry that one of the source becomes. A descriptor: the address, a multiple of
   TK_ARTIFACT_ALIGN; `rank` extents as i32; `rank` - 1 strides as i64, in elements and multiples of TK_ARTIFACT_ALIGN
   in bytes. The last stride is 1. */
enum { TK_ARTIFACT_ALIGN = 16 };
static inline int tk_artifact_n_passed(const tk_artifact_param *p) {
  return p->kind == TK_PARAM_DESCRIPTOR ? 2 * p->rank : p->passed;
}
/* The values that a launch argument has: those, and one if it is folded. */
static inline int tk_artifact_n_values(const tk_artifact_param *p) {
  return p->kind == TK_PARAM_DESCRIPTOR ? 2 * p->rank : p->kind != TK_PARAM_CONSTEXPR;
}
/* Bytes of the i-th of them. */
static inline size_t tk_artifact_passed_bytes(const tk_artifact_param *p, int i) {
  if (p->kind == TK_PARAM_DESCRIPTOR) return i >= 1 && i <= p->rank ? sizeof(int32_t) : sizeof(int64_t);
  return p->kind == TK_PARAM_POINTER ? sizeof(uint64_t) : tk_dtype_bytes(p->dtype);
}

/* A tensor map that a launch makes: a box of `box` elements moves between the tensor behind a pointer and shared
   memory. Axes are counted from the innermost. */
typedef struct tk_artifact_map {
  const char *param; /* POINTER or DESCRIPTOR: its address is the tensor's */
  const char *dtype; /* as tk_dtype_name, of the size of the parameter's elements; "tf32": f32 data, rounded by loads */
  int rank;          /* 1 .. TK_ARTIFACT_MAX_RANK */
  const char *sizes, *strides; /* `rank` grid expressions each, separated by commas, in elements; strides[0] is 1 */
  int box[TK_ARTIFACT_MAX_RANK];
  int swizzle; /* bytes: 0, 32, 64, 128 */
} tk_artifact_map;

typedef struct tk_artifact_kernel {
  const char *name; /* name of the kernel and of its PTX .entry */
  int num_warps;
  int num_stages;
  int num_ctas;             /* blocks of a cluster; 1 = none */
  int shared_bytes;         /* declared in the PTX (static) */
  int dynamic_shared_bytes; /* to be given at launch */
  const char *grid;         /* default grid expression; NULL if the source names none */
  int n_params;
  tk_artifact_param *params; /* in the order of the source, constexprs included */
  int producer_warps;        /* beyond the others of the block: warps that only copy */
  int gang;                  /* programs that a block runs side by side, on num_warps each; 1 unless persistent */
  int n_maps;
  tk_artifact_map *maps; /* in the order of the PTX entry's parameters behind the others, 128 bytes each */
  bool persistent;       /* blocks can run several programs; the entry's last parameter is a tk__programs (device.h) */
} tk_artifact_kernel;

typedef struct tk_artifact {
  const char *source;   /* base name of the .tk file: no directories, so that a build does not depend on its place */
  uint64_t source_hash; /* XXH3-64 of the source text (seed 0) */
  const char *arch;     /* "sm_90a" */
  int ptx_version;      /* 10 * major + minor: 80 is PTX 8.0 */
  int n_kernels;
  tk_artifact_kernel *kernels;
} tk_artifact;

/* Where and why; line and column are 1-based, 0 when the trouble has no place in a text. */
typedef struct tk_artifact_error {
  int line, column;
  char message[256];
} tk_artifact_error;

/* Writes the block, each line ended by '\n', for the head of the PTX. The artefact is checked by the rules of the
   reader, so what was written reads back. *out is NUL-terminated and belongs to the caller (free). On failure (a broken
   rule, or no memory) returns false, sets *out to NULL and says why in *error. */
bool tk_artifact_write(const tk_artifact *a, char **out, tk_artifact_error *error);

/* Reads the block at the head of `text` (any `len` bytes, no NUL needed; what follows the block is not looked at).
   *out belongs to the caller (tk_artifact_free), is independent of `text`, and holds only values inside the limits
   above. On failure returns false, sets *out to NULL and says where and why in *error. */
bool tk_artifact_parse(const char *text, size_t len, tk_artifact **out, tk_artifact_error *error);

/* Frees what tk_artifact_parse made; NULL is allowed. Never for an artefact built by hand. */
void tk_artifact_free(tk_artifact *a);

/* The kernel of that name, or NULL. */
const tk_artifact_kernel *tk_artifact_find(const tk_artifact *a, const char *name);

/* Threads of a block. */
static inline int tk_artifact_threads(const tk_artifact_kernel *k) {
  return 32 * (k->num_warps * k->gang + k->producer_warps);
}

/* The element type in memory of a map's dtype, and whether it is "tf32"; false if there is no such dtype. */
bool tk_artifact_map_dtype(const tk_artifact_map *m, tk_dtype *out, bool *is_tf32);

#endif
