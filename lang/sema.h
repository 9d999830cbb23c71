/* Inside of lang: names, compile-time values and the specialiser. Only this folder includes it.
 *
 * The specialiser is an abstract interpreter. It walks the tree of one kernel with known types and constants; a value
 * is either known now (a number, a dtype, a tuple ..) or a tensor, that is a value of the tile IR that it emits. The
 * two mix by Triton's rules: a number written in an expression is weak and takes the tensor's type; a number assigned
 * to a name becomes a strong scalar tensor, here an OP_const, whose constness the folding in sema_emit keeps alive, so
 * that such a name may still size an arange. A value that failed is POISON, and whatever touches it is POISON in
 * silence. */
#ifndef LANG_SEMA_H
#define LANG_SEMA_H

#include "lang/lang.h"

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "lang/sema_diags.def"
#undef DIAG

/* ---- files and their names (resolve.c) ------------------------------------------------------------------------ */

typedef enum sema_global_kind { GLOBAL_FUNCTION, GLOBAL_CONSTANT, GLOBAL_IMPORT } sema_global_kind;

typedef struct sema_global {
  const char *name;
  sema_global_kind kind;
  const ast_node *node; /* FUNCTION: def; CONSTANT: the value's expression */
  lang_value *value;    /* made on first use for constants */
  bool busy;            /* being evaluated: a constant that needs itself */
} sema_global;

/* A map from interned names to indices. */
typedef struct sema_map {
  const char **key;
  int *at;
  int n, cap;
} sema_map;
int sema_map_get(const sema_map *m, const char *key); /* -1 if absent */
void sema_map_put(arena *a, sema_map *m, const char *key, int at);

typedef struct sema_scope {
  lang_unit *unit;
  const ast_file *file;
  bool is_std;
  VEC(sema_global) globals;
  sema_map index;
} sema_scope;

struct lang_unit {
  tir_cx *cx;
  arena *a;
  diag_sink *sink;
  src_map *sources;
  sema_scope *main;
  sema_scope **std; /* one scope for each file of the standard library */
  int n_std;
  VEC(const lang_kernel *) kernels;
  lang_value *none, *yes, *no, *poison, *ellipsis;
  sema_map builtins; /* interned name -> row of builtins.def */
  int n_loads;       /* texts given to bind functions, registered as sources */
};

/* The decorator of a def by its last name: "jit" for @triton.jit(..). NULL if there is none. */
const ast_node *sema_decorator(const ast_node *def, const char *name);

/* ---- the specialiser ------------------------------------------------------------------------------------------- */

typedef struct sema_local {
  const char *name;
  lang_value *value;
  const ast_node *constexpr_at; /* the `x: constexpr = v` that made it; else NULL */
  span at;                      /* of the name where it was last bound */
} sema_local;
typedef VEC(sema_local) sema_locals;

typedef struct sema_frame {
  const sema_scope *scope;
  const ast_node *def; /* NULL: module level */
  struct sema_frame *caller;
  span call_at; /* of the call, in the caller's file */
  span user_at; /* in the standard library: the innermost call outside of it */
  sema_locals locals;
  VEC(const char *) gone; /* bound in one branch or in a loop only */
} sema_frame;

typedef struct sema {
  lang_unit *unit;
  tir_cx *cx;
  arena *a;
  const lang_options *opt;
  tir_fn *fn; /* NULL: only compile-time values (module constants, defaults) */
  tir_builder b;
  sema_frame *frame;
  int depth;               /* nesting of eval and exec: bounds the C stack */
  int n_calls;             /* inlined calls around here */
  int n_ops;               /* emitted so far */
  int64_t steps;           /* nodes evaluated so far */
  int loops;               /* run-time loops around here, in this function */
  bool failed;             /* an error was reported */
  int n_errors;            /* reported so far, repetitions too */
  VEC(tir_value *) hinted; /* by id of a value: it with a hint, NULL if there is none */
  bool stop;               /* give up: a budget is spent */
  diag_sink *sink;
} sema;

/* What a suite did: went on, returned on every path, or returned where `flag` == `when`. */
typedef enum sema_flow_kind { FLOW_ON, FLOW_RETURNED, FLOW_MAYBE } sema_flow_kind;
typedef struct sema_flow {
  sema_flow_kind kind;
  tir_value *flag; /* MAYBE: scalar i1 */
  bool when;
  lang_value *ret; /* RETURNED, MAYBE: the value; MAYBE: arbitrary where it did not return */
  span at;         /* of a return */
} sema_flow;

/* To evaluate what stands outside of functions. */
sema *sema_new(lang_unit *u, const sema_scope *sc, diag_sink *sink);

/* Reports at a place in the current frame's file (from the standard library: at the user's call) and returns POISON.
   `out` receives the diagnostic for notes; may be NULL. The arguments follow the row's format. */
lang_value *sema_fail(sema *s, span at, const diag_desc *d, ...);
diag *sema_report(sema *s, span at, const diag_desc *d, ...);
span sema_place(const sema *s, span at);

/* What `:16` may be: the launch checks it, and an artefact can say it (runtime/artifact.c). */
static inline bool sema_is_divisibility(uint64_t d) { return d >= 1 && d <= 4096 && (d & (d - 1)) == 0; }
static inline bool sema_is_poison(const lang_value *v) { return v->kind == LANG_POISON; }
static inline bool sema_is_tensor(const lang_value *v) { return v->kind == LANG_TENSOR; }
static inline bool sema_is_number(const lang_value *v) {
  return v->kind == LANG_INT || v->kind == LANG_FLOAT || v->kind == LANG_BOOL;
}

/* value.c: making values */
lang_value *sema_int(sema *s, lang_int v);
lang_value *sema_float(sema *s, double v);
lang_value *sema_bool(sema *s, bool v);
lang_value *sema_str(sema *s, const char *p, size_t len);
lang_value *sema_type(sema *s, const tir_type *t);
/* Strings and tuples are bounded, so that no constant expression can eat the memory: POISON, reported, beyond. */
enum { SEMA_MAX_STRING = 1 << 16, SEMA_MAX_TUPLE = 4096, SEMA_MAX_TUPLE_DEPTH = 64 };
lang_value *sema_tuple(sema *s, lang_value *const *at, int n);
lang_value *sema_tensor(sema *s, tir_value *t);
lang_value *sema_module(sema *s, const char *path);
lang_value *value_new(arena *a, lang_kind kind);
lang_value *value_int(arena *a, int64_t i);
lang_value *value_str(arena *a, const char *p, size_t len);
const char *value_kind_name(const lang_value *v);               /* "int", "str", "tensor" .. */
const char *value_describe(arena *a, const lang_value *v);      /* for messages: "f32[128]", "int 3", "None" */
void value_print(textbuf *out, const lang_value *v, bool repr); /* Python's str or repr */
const char *value_int_text(arena *a, lang_int v);
bool value_has_tensor(const lang_value *v);
bool value_has_items(const lang_value *v);                      /* a tuple or a block */
bool value_same_form(const lang_value *x, const lang_value *y); /* of two that have items: alike but for those */
lang_value *value_block(arena *a, const struct sema_block *form, lang_value *const *at, int n);
lang_value *value_with_items(sema *s, const lang_value *like, lang_value *const *at); /* as many, in their places */
/* The number that a value is known to be: Python numbers, and scalar tensors that are constants. NULL if unknown. */
lang_value *sema_known(sema *s, lang_value *v);
bool sema_known_int(sema *s, lang_value *v, int64_t *out);

/* constexpr.c: arithmetic of compile-time values */
lang_value *const_unary(sema *s, span at, ast_op op, lang_value *x);
lang_value *const_binary(sema *s, span at, ast_op op, lang_value *x, lang_value *y);
lang_value *const_compare(sema *s, span at, ast_op op, lang_value *x, lang_value *y);
bool const_truth(const lang_value *v, bool *out); /* false: a value without a truth value here */
lang_value *const_index(sema *s, span at, lang_value *v, lang_value *index); /* int or SLICE */
/* Appends str(v), repr(v) or v under a format spec; false, reported, if the spec does not fit. */
bool const_format(sema *s, span at, textbuf *out, const lang_value *v, const char *spec, size_t len);

/* operate.c: arithmetic of tensors */
lang_value *sema_lift(sema *s, span at, lang_value *v); /* a number becomes a strong tensor; others must be tensors */
lang_value *sema_binary(sema *s, span at, ast_op op, lang_value *x, lang_value *y);
lang_value *sema_unary(sema *s, span at, ast_op op, lang_value *x);
lang_value *sema_compare(sema *s, span at, ast_op op, lang_value *x, lang_value *y);
lang_value *sema_logical(sema *s, span at, bool is_and, lang_value *x, lang_value *y);
/* Brings two values to one element type (by the promotion rules; numbers are weak) and one shape. False: reported. */
typedef enum sema_promotion { PROMOTE_ARITH, PROMOTE_DIV } sema_promotion;
bool sema_unify(sema *s, span at, ast_op op, sema_promotion mode, lang_value *x, lang_value *y, tir_value **tx,
                tir_value **ty);
tir_dtype sema_promoted(tir_dtype x, tir_dtype y, sema_promotion mode, bool *ok);
bool sema_literal_dtype(const lang_value *v, tir_dtype *out); /* of a number on its own; false: not representable */
tir_value *sema_number(sema *s, span at, lang_value *v, tir_dtype d);
tir_value *sema_cast(sema *s, tir_value *v, tir_dtype d);
/* tl.cast in full; rounding NULL, "rtne" or "rtz" */
lang_value *sema_cast_checked(sema *s, span at, lang_value *v, const tir_type *elem, const char *rounding,
                              bool bitcast);
bool sema_check_dtype(sema *s, span at, tir_dtype d); /* false, reported: the target has no such type */
bool sema_check_shape(sema *s, span at, int rank, const int64_t *shape);
tir_value *sema_broadcast_to(sema *s, span at, tir_value *v, int rank, const int64_t *shape); /* NULL: reported */
bool sema_broadcast(sema *s, span at, int n, tir_value **v);                                  /* all to one shape */
lang_value *sema_condition(sema *s, span at, lang_value *v, const char *what); /* scalar i1 tensor, or BOOL if known */

/* emit: the builder with constant folding of scalars and the budget */
tir_value *sema_emit(sema *s, tir_opcode code, int n_in, tir_value *const *in, const tir_type *type);
tir_value *sema_emit1(sema *s, tir_opcode code, tir_value *x);
tir_value *sema_emit2(sema *s, tir_opcode code, tir_value *x, tir_value *y);
tir_value *sema_zero(sema *s, const tir_type *t); /* any value of the type: zeros, null pointers */
void sema_count(sema *s, int n);                  /* ops built without sema_emit */
/* A hint marks its operand: whatever uses that from here on, by any name, sees it. n: the axes, at least 1. */
tir_value *sema_hint(sema *s, const char *kind, tir_value *v, int n, const int64_t *values);
tir_value *sema_hinted(const sema *s, tir_value *v); /* with all hints that hold here */

/* eval.c: expressions */
lang_value *sema_eval(sema *s, const ast_node *e);
bool sema_step(sema *s, span at);        /* one step of the budget; false, reported once: it is spent */
void sema_charge(sema *s, size_t steps); /* work and memory that is no evaluation; 64 bytes count as one step */
lang_value *sema_attribute(sema *s, span at, span name_at, lang_value *object, const char *name);
lang_value *sema_lookup(sema *s, const ast_node *name);

/* call.c */
typedef struct sema_args {
  VEC(lang_value *) at;
  VEC(span) place;
  VEC(const char *) key; /* NULL: positional */
} sema_args;
lang_value *sema_eval_call(sema *s, const ast_node *call);
lang_value *sema_call(sema *s, span at, lang_value *callee, const sema_args *args);
/* Calls a function with positional values only. */
lang_value *sema_call_values(sema *s, span at, lang_value *callee, int n, lang_value *const *v);

/* exec.c, flow.c: statements */
typedef struct sema_rest { /* what follows a suite */
  ast_node *const *stmt;
  int n, i;
  const struct sema_rest *next;
  bool last; /* the function ends with it */
} sema_rest;
sema_flow sema_exec(sema *s, const sema_rest *rest);
sema_flow sema_exec_unless(sema *s, span at, sema_flow f,
                           const sema_rest *rest); /* the rest, where f has not returned */
sema_flow sema_exec_if(sema *s, const ast_node *node, const sema_rest *rest, bool *took_rest);
void sema_exec_for(sema *s, const ast_node *node);
void sema_exec_while(sema *s, const ast_node *node);
void sema_assign(sema *s, const ast_node *target, lang_value *v);
lang_value *sema_local_get(const sema_frame *f, const char *name);
void sema_local_set(sema *s, const char *name, span at, lang_value *v);
sema_locals sema_locals_copy(sema *s, const sema_locals *from);
typedef VEC(const char *) sema_names;
void sema_assigned(sema *s, const ast_node *n, sema_names *out); /* names that a tree binds, each once */
bool sema_has_name(const sema_names *names, const char *name);
void sema_poison_names(sema *s, const ast_node *n); /* after an error: whatever the tree binds is POISON */
void sema_gone(sema *s, const char *name);
bool sema_contains_return(const ast_node *n);
bool sema_is_constexpr(const ast_node *annotation);
lang_value *sema_arms(sema *s, span at, tir_value *cond, const ast_node *yes, const ast_node *no); /* ternary */
/* Tensors inside a value, in order; and the same value with others in their places. */
typedef VEC(tir_value *) sema_tensors;
void sema_flatten(sema *s, lang_value *v, sema_tensors *out);
lang_value *sema_rebuild(sema *s, lang_value *like, tir_value *const **next);
/* The same structure with the same types; numbers count as equal only if they are. */
bool sema_same_type(const lang_value *x, const lang_value *y);
lang_value *sema_decay(sema *s, span at, lang_value *v); /* numbers in it (also inside tuples) become tensors */

/* lint.c: the warnings of the finished function; `names` are those asked for ("all": every one). */
void sema_lint(const tir_fn *fn, diag_sink *sink, arena *a, const char *const *names, int n_names);

/* ---- builtins -------------------------------------------------------------------------------------------------- */

enum {
  BUILTIN_MEMBER = 1,
  BUILTIN_LIBDEVICE = 2,
  BUILTIN_PYTHON = 4,
  BUILTIN_TRITON = 8,
  BUILTIN_HIDDEN = 16,
  BUILTIN_STATIC = 32
};
enum { BUILTIN_MAX_PARAMS = 12 };

typedef struct sema_call_info {
  span at;
  const struct sema_builtin *builtin;
  lang_value *arg[BUILTIN_MAX_PARAMS]; /* NULL: not given */
  span place[BUILTIN_MAX_PARAMS];
  lang_value *self; /* of the member form: also arg[0] */
} sema_call_info;

typedef struct sema_builtin {
  const char *name;
  const char
      *params; /* "pointer mask? other? *shape": '?' optional, '*' takes all further positional ones as a tuple */
  int flags;
  lang_value *(*run)(sema *s, const sema_call_info *c);
  int data; /* an opcode, a dtype question .. */
} sema_builtin;
extern const sema_builtin sema_builtins[];
extern const int sema_n_builtins;

lang_value *builtin_call(sema *s, span at, const sema_builtin *b, lang_value *self, const sema_args *args);
const sema_builtin *builtin_named(const lang_unit *u, const char *name);
lang_value *sema_module_member(sema *s, span name_at, const char *module, const char *name);
/* Name that looks most like `name` among locals, globals and builtins; NULL if none is near. */
const char *sema_nearest(sema *s, const char *name, bool in_language);
bool sema_is_triton_name(const char *name); /* Triton has it, tkc does not */
bool sema_known_module(const char *path);
lang_value *sema_std_function(const lang_unit *u, const char *name); /* NULL if the library has none */
lang_value *type_member(sema *s, const tir_type *t, const char *name, bool *is_method); /* NULL: none */

/* What is known now of a block pointer or a tensor descriptor (builtin_block.c). */
typedef struct sema_block {
  const tir_type *tile; /* of one access: element type and block shape */
  bool is_descriptor;
  bool pads_nan; /* a descriptor's reads outside of the array give NaN, not 0 */
} sema_block;
const sema_builtin *block_method(const sema *s, const lang_value *v, const char *name); /* NULL: it has none */
lang_value *block_attribute(sema *s, span name_at, lang_value *v, const char *name);
/* Operands of OP_load (pointers, mask, other) and OP_store (pointers, value, mask) for argument 0, a block pointer; the
   mask is NULL where no axis is checked. The numbers say which arguments are meant. False: reported. */
bool block_load_operands(sema *s, const sema_call_info *c, int check, int padding, tir_value *in[3]);
bool block_store_operands(sema *s, const sema_call_info *c, int value, int check, tir_value *in[3]);

/* The descriptor that a parameter bound to one is, made of parameters of the function. */
lang_value *block_parameter(sema *s, const lang_kernel *k, const lang_param *p, const lang_binding *b);
bool block_fits_descriptor(sema *s, span at, const tir_type *tile); /* false: reported */

/* descriptor.c: types of descriptor parameters, as bindings. False: reported. */
bool descriptor_is_text(const char *p, size_t n); /* of a signature: is it meant to be one? */
bool descriptor_is_annotation(const ast_node *e);
bool descriptor_of_text(lang_unit *u, span at, const char *p, size_t n, lang_binding *out);
/* `tensordesc`, with options: as annotated. */
bool descriptor_is_word(const char *p, size_t n);
bool descriptor_of_word(lang_unit *u, span at, const char *p, size_t n, lang_binding *out);
/* What the source says of parameter `of`, where the others are bound as in b. */
bool descriptor_of_annotation(lang_unit *u, const lang_kernel *k, const lang_param *of, const lang_binding *b,
                              lang_binding *out);
const char *descriptor_text(arena *a, const lang_binding *b); /* as in a signature */

/* Reading arguments of a builtin; false: reported. */
bool arg_int(sema *s, const sema_call_info *c, int i, const char *what, int64_t *out);
bool arg_bool(sema *s, const sema_call_info *c, int i, bool otherwise, bool *out);
bool arg_str(sema *s, const sema_call_info *c, int i, const char *otherwise, const char **out);
bool arg_type(sema *s, const sema_call_info *c, int i, const tir_type **out); /* a dtype or pointer type */
bool arg_shape(sema *s, const sema_call_info *c, int i, int *rank, int64_t *shape);
bool arg_axis(sema *s, const sema_call_info *c, int i, int rank, int *axis);
tir_value *arg_tensor(sema *s, const sema_call_info *c, int i); /* numbers are lifted; NULL: reported */
bool arg_given(const sema_call_info *c, int i);                 /* given and not None */

#endif
