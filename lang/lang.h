/* lang: the .tk language. Text in, tile IR of one kernel for one binding of its parameters out.
 *
 *   lang_unit *u = lang_load(cx, sink, sources, path, text, len);          the file, parsed; its kernels
 *   lang_binding b[k->n_params]; lang_bind_init(k, b);                     annotations and defaults
 *   lang_bind_signature(u, k, "x=*f32:16,n=i32", b); lang_bind_define(u, k, "BLOCK=128", b);
 *   if (lang_bind_finish(u, k, b)) fn = lang_specialise(u, k, b, &options, arena);
 *
 * What is wrong with the input goes to the sink and comes back as NULL or false; no function of this folder prints.
 * Everything lives in the arena of the type context, except functions, which live in the arena that the caller gives.
 */
#ifndef LANG_LANG_H
#define LANG_LANG_H

#include "compiler/ir/tir.h"
#include "lang/ast.h"

/* ---- compile-time values -------------------------------------------------------------------------------------- */

__extension__ typedef __int128 lang_int; /* Python's int; arithmetic beyond 127 bits is an error */
__extension__ typedef unsigned __int128 lang_uint;

typedef enum lang_kind {
  LANG_POISON, /* the value of what has been reported already */
  LANG_NONE,
  LANG_BOOL,
  LANG_INT,
  LANG_FLOAT,
  LANG_STR,
  LANG_TYPE, /* f32, *f16, a tile type */
  LANG_TUPLE,
  LANG_ELLIPSIS,
  LANG_SLICE,    /* items: start, stop, step */
  LANG_RANGE,    /* items: start, stop, step */
  LANG_FUNCTION, /* a `def` of the file or of the standard library */
  LANG_BUILTIN,
  LANG_MODULE,
  LANG_FOREIGN, /* a host value that tkc cannot evaluate: an error where a kernel uses it */
  LANG_BLOCK,   /* a block pointer or a tensor descriptor; items: its values of the running kernel */
  LANG_TENSOR,  /* a value of the running kernel: scalar or tile */
} lang_kind;

typedef struct lang_value lang_value;
struct lang_value {
  lang_kind kind;
  union {
    bool b;
    lang_int i;
    double f;
    struct {
      const char *s; /* NUL-terminated */
      size_t len;
    } str;
    const tir_type *type;
    struct {
      lang_value *const *at;
      int n;
      int size, depth;               /* TUPLE, BLOCK: of everything inside, and of the nesting: bounded */
      const struct sema_block *form; /* BLOCK: what is known of it now */
    } items;
    struct {
      const ast_node *def;
      const struct sema_scope *scope; /* the file that it is in */
    } fn;
    const struct sema_builtin *builtin;
    const char *name; /* MODULE: canonical dotted path; FOREIGN: the name */
    tir_value *tensor;
  } u;
};

/* Python's repr of a value (dtypes in tkc's spelling), in `a`: 128, -inf, 'gelu', None, f16, (1, 2). */
const char *lang_value_text(arena *a, const lang_value *v);
bool lang_value_equal(const lang_value *x, const lang_value *y);
bool lang_value_as_int(const lang_value *v, int64_t *out); /* ints and bools that fit */

/* ---- kernels of a file ---------------------------------------------------------------------------------------- */

typedef enum lang_param_kind {
  LANG_PARAM_POINTER,
  LANG_PARAM_SCALAR,
  LANG_PARAM_CONSTEXPR,
  LANG_PARAM_DESCRIPTOR,
  LANG_PARAM_UNTYPED
} lang_param_kind;

typedef struct lang_param {
  const char *name;
  span at;
  lang_param_kind kind;       /* as annotated */
  const tir_type *type;       /* POINTER, SCALAR: as annotated; else NULL */
  bool is_const;              /* POINTER: const-annotated. UNTYPED with true: tl.const, element type unknown */
  int divisibility;           /* `:16` of the annotation; 0 = not stated (then 1) */
  lang_value *value;          /* default; NULL if there is none */
  bool no_specialise;         /* do_not_specialize: neither ==1 nor %16 */
  bool is_wrong;              /* the annotation is no type: reported already */
  bool no_alignment;          /* do_not_specialize_on_alignment: no %16 */
  const ast_node *descriptor; /* DESCRIPTOR: the annotation, which may name constexpr parameters; else NULL */
  bool needs_block;           /* UNTYPED: annotated tl.tensor_descriptor, which says nothing of the block */
} lang_param;

typedef struct lang_kernel {
  const char *name;
  span at; /* of the name in the definition */
  const ast_node *def;
  lang_param *params;
  int n_params;
  int num_warps, num_stages; /* of the decorator; 0 = not given */
  const char *grid;          /* text of @grid(...); NULL = none */
} lang_kernel;

typedef struct lang_unit lang_unit;

/* Parses a file and the standard library, resolves its names and finds its kernels. Never returns NULL; what is wrong
   is in the sink. The text is copied. */
lang_unit *lang_load(tir_cx *cx, diag_sink *sink, src_map *sources, const char *path, const char *text, size_t len);
int lang_n_kernels(const lang_unit *u);
const lang_kernel *lang_kernel_at(const lang_unit *u, int i); /* in source order */
/* The entry of that name, or any other jitted function of that name as an entry; NULL, reported, if there is none. */
const lang_kernel *lang_kernel_named(lang_unit *u, const char *name);
const ast_file *lang_syntax(const lang_unit *u);

/* ---- binding parameters --------------------------------------------------------------------------------------- */

typedef enum lang_bound { LANG_UNBOUND, LANG_ARGUMENT, LANG_CONSTANT } lang_bound;

typedef struct lang_binding {
  lang_bound bound;
  const tir_type *type; /* ARGUMENT: scalar, pointer, or the tile that an access through a tensor descriptor moves.
                           CONSTANT with `folded`: type of the argument that is left out */
  int divisibility;  /* ARGUMENT: pointers in bytes, integers by value, descriptors by the last extent; 1 = unknown */
  lang_value *value; /* CONSTANT */
  bool folded;       /* CONSTANT: a launch argument that must equal `value` (n = 1); not a parameter of the code */
  bool by_default;   /* CONSTANT: from the default in the source; a later define or argument replaces it */
  bool pads_nan;     /* a descriptor's reads outside of the tensor give NaN, not 0 */
} lang_binding;

/* A descriptor is passed as several parameters of the function: the address, which is a multiple of
   LANG_DESCRIPTOR_ALIGN bytes, `rank` extents as i32, and `rank` - 1 strides as i64, in elements: the last one is 1. */
enum { LANG_DESCRIPTOR_ALIGN = 16 /* bytes, of the strides too */ };
static inline bool lang_is_descriptor(const tir_type *t) { return t->kind == TY_TILE; }
static inline int lang_n_passed(const tir_type *t) { return lang_is_descriptor(t) ? 2 * t->rank : 1; }

void lang_bind_init(const lang_kernel *k, lang_binding *b); /* annotations and defaults */
/* One NAME=VALUE: a Python literal (ints, floats, strings with or without quotes, True, None, tuples), a dtype, or the
   name of a function of the file. Reports and returns false if the name or the value is wrong. */
bool lang_bind_define(lang_unit *u, const lang_kernel *k, const char *text, lang_binding *b);
/* Comma-separated NAME=TYPE[:DIVISIBILITY] ('x=*f32:16, n=i32'), integers with `:1` are folded to the constant 1;
   NAME=tensordesc<f16[64, 32]> is a descriptor, with `:16` its last extent is a multiple, with `:nan` it pads so;
   NAME=tensordesc, NAME=tensordesc:16: the descriptor that the source annotates, whatever the default;
   NAME=LITERAL binds a constant. Triton's spellings of the types are accepted too. */
bool lang_bind_signature(lang_unit *u, const lang_kernel *k, const char *text, lang_binding *b);
/* Evaluates the annotations of descriptors, and reports every parameter that has neither a type nor a value yet. */
bool lang_bind_finish(lang_unit *u, const lang_kernel *k, lang_binding *b);
int lang_param_index(const lang_kernel *k, const char *name); /* -1 if there is none */
/* A type as written in a signature; NULL if it is none. */
const tir_type *lang_type_named(tir_cx *cx, const char *text, size_t len);

/* ---- specialising --------------------------------------------------------------------------------------------- */

typedef struct lang_options {
  int num_warps, num_stages;   /* 0 = the decorator's, else 4 and 3 */
  bool debug;                  /* device_assert is compiled in */
  bool has_f8e4m3;             /* the target converts and stores f8e4m3 */
  int capability;              /* 90 for sm_90: tl.target_info; 0 = unknown */
  const char *target;          /* its name, for messages; NULL = "this target" */
  const char *dot_precision;   /* of f32 operands where the source does not say: "tf32" or "ieee"; NULL = "ieee" */
  const char *const *warnings; /* names of lints to give (lint_diags.def), "all" for every one; others are ignored */
  int n_warnings;
  int max_ops;                                             /* most operations one kernel may have; 0 = 100000 */
  void (*print)(void *user, const char *text, size_t len); /* static_print; NULL drops it */
  void *user;
} lang_options;

/* Tile IR (PLAIN) of the kernel for a finished binding, in arena `a`: its parameters are those bound as ARGUMENT, in
   order, a descriptor being several. NULL if anything was reported as an error. */
tir_fn *lang_specialise(lang_unit *u, const lang_kernel *k, const lang_binding *b, const lang_options *o, arena *a);

#endif
