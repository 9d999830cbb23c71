/* Tile IR: types, functions, the builder, text, the verifier.
 *
 * A function is one kernel for one binding of types and constants. Control flow is structured: for, while and if own
 * regions and carry values as region arguments and results; there are no phis and no jumps. A value is defined once,
 * before its uses, in an enclosing region. Integer arithmetic wraps in two's complement; evaluation order matters only
 * for ops whose effect is not PURE, which keep their order. Signedness lives in the element type (i32, u32).
 *
 * Memory: everything of a function lies in its arena, types and layouts in the context's. Nothing is freed singly; ops
 * that are removed are unlinked. */
#ifndef IR_TIR_H
#define IR_TIR_H

#include "compiler/base/base.h"
#include "compiler/ir/layout.h"

/* ---- scalar types --------------------------------------------------------------------------------------------- */

typedef enum tir_dtype {
#define DTYPE(name, text, triton, bits, bytes, kind, mantissa) DT_##name,
#include "compiler/ir/dtypes.def"
#undef DTYPE
  DT_N
} tir_dtype;

typedef enum tir_dkind { DK_BOOL, DK_SINT, DK_UINT, DK_FLOAT } tir_dkind;

typedef struct tir_dtype_info {
  const char *text, *triton;
  uint8_t bits, bytes;
  tir_dkind kind;
  uint8_t mantissa;
} tir_dtype_info;
extern const tir_dtype_info tir_dtypes[DT_N];

static inline bool dt_is_float(tir_dtype d) { return tir_dtypes[d].kind == DK_FLOAT; }
static inline bool dt_is_int(tir_dtype d) { return tir_dtypes[d].kind != DK_FLOAT; } /* i1 included */
static inline bool dt_is_signed(tir_dtype d) { return tir_dtypes[d].kind == DK_SINT; }
bool tir_dtype_named(const char *text, size_t len, tir_dtype *out); /* "f32", "fp32", "float32", ... */

/* A constant of some dtype: its encoding in the low bits (f32 as its 32 bits, i8 as 8 bits, ..), the rest zero. */
typedef struct tir_scalar {
  uint64_t bits;
} tir_scalar;
tir_scalar tir_scalar_int(tir_dtype d, int64_t v);     /* wraps for integers, rounds to nearest even for floats */
tir_scalar tir_scalar_float(tir_dtype d, double v);    /* rounds once, to nearest even; f8 saturates */
int64_t tir_scalar_as_int(tir_dtype d, tir_scalar s);  /* integers: the value (u64 reinterpreted) */
double tir_scalar_as_float(tir_dtype d, tir_scalar s); /* floats: exact; integers: converted */

/* ---- types ---------------------------------------------------------------------------------------------------- */

typedef enum tir_tkind { TY_SCALAR, TY_PTR, TY_TILE, TY_BUFFER } tir_tkind;
enum { TIR_MAX_RANK = LAY_MAX_RANK, TIR_MAX_NUMEL = 1 << 20, TIR_MAX_MAP_RANK = 5, TIR_MAX_GANG = 3 };

/* Interned in a tir_cx: equal types are one pointer. */
typedef struct tir_type tir_type;
struct tir_type {
  tir_tkind kind;
  tir_dtype dtype;      /* SCALAR: itself; PTR: of the pointee if that is a scalar */
  const tir_type *elem; /* PTR: pointee (SCALAR or PTR); TILE: element (SCALAR or PTR); BUFFER: element (SCALAR) */
  bool is_const;        /* PTR: storing through it is an error */
  int rank;             /* TILE, BUFFER (of one stage): 1..TIR_MAX_RANK; else 0 */
  int64_t shape[TIR_MAX_RANK];
  int64_t numel;       /* TILE, BUFFER: product of the shape; else 1 */
  const lay_t *layout; /* TILE, from LAID_OUT on; else NULL */
  const sh_t *shared;  /* BUFFER: where the elements of one stage lie; else NULL */
  int stages;          /* BUFFER: 0 = one tile (a view), else that many behind each other */
};

typedef struct tir_cx {
  arena *a;
  strtab *names;
  lay_cx *layouts;
  struct tir_type_table *types;
} tir_cx;

tir_cx *tir_cx_new(arena *a, strtab *names);
const tir_type *tir_scalar_type(tir_cx *cx, tir_dtype d);
const tir_type *tir_ptr_type(tir_cx *cx, const tir_type *pointee, bool is_const);
/* Every axis must be a power of two and the product at most TIR_MAX_NUMEL: the caller has checked (tir_shape_ok). */
const tir_type *tir_tile_type(tir_cx *cx, const tir_type *elem, int rank, const int64_t *shape, const lay_t *layout);
/* elem is a SCALAR type; the shape is that of `shared`. */
const tir_type *tir_buffer_type(tir_cx *cx, const tir_type *elem, int rank, const int64_t *shape, const sh_t *shared,
                                int stages);
/* Bytes of one stage in shared memory, padding included, rounded up to what the next stage's alignment needs. */
int64_t tir_buffer_stage_bytes(const tir_type *buffer);
/* Why a shape cannot be a tile: NULL if it can; else a message (in cx's arena) that names the next power of two. */
const char *tir_shape_problem(tir_cx *cx, int rank, const int64_t *shape);

static inline bool tir_is_tile(const tir_type *t) { return t->kind == TY_TILE; }
static inline bool tir_is_buffer(const tir_type *t) { return t->kind == TY_BUFFER; }
static inline const tir_type *tir_elem(const tir_type *t) {
  return t->kind == TY_TILE || t->kind == TY_BUFFER ? t->elem : t;
}
static inline bool tir_is_ptr(const tir_type *t) { return tir_elem(t)->kind == TY_PTR; }
/* dtype of the elements; for pointers 64-bit integer encoding (DT_i64). */
static inline tir_dtype tir_dtype_of(const tir_type *t) {
  return tir_elem(t)->kind == TY_PTR ? DT_i64 : tir_elem(t)->dtype;
}
/* Type with the same shape and layout but another element type / the element shaped like `like`. */
const tir_type *tir_with_elem(tir_cx *cx, const tir_type *like, const tir_type *elem);
const tir_type *tir_with_layout(tir_cx *cx, const tir_type *t, const lay_t *layout);
bool tir_same_shape(const tir_type *a, const tir_type *b);
/* "f32", "*f32", "f32[128,64]", "*const f16[64]", "shared f16[64,32]", "shared(3) f16[64,32]"; a layout is printed
   after
   '@' if with_layout. */
void tir_type_print(const tir_type *t, bool with_layout, textbuf *out);
const char *tir_type_text(arena *a, const tir_type *t); /* without layout, for messages */

/* ---- ops, values, regions ------------------------------------------------------------------------------------- */

typedef enum tir_opcode {
#define OP(name, n_in, n_out, regions, effects, rule, flags, meaning) OP_##name,
#include "compiler/ir/ops.def"
#undef OP
  OP_N
} tir_opcode;

typedef enum tir_effect { FX_PURE, FX_READ, FX_WRITE, FX_RMW, FX_SYNC, FX_CTRL, FX_DEBUG, FX_SHARED } tir_effect;
typedef enum tir_rule { RULE_SAME, RULE_CMP, RULE_SELECT, RULE_CAST, RULE_ADDPTR, RULE_GIVEN, RULE_NONE } tir_rule;
enum { OPF_ELT = 1, OPF_COMM = 2, OPF_ASSOC = 4, OPF_CHEAP = 8, OPF_TERM = 16 };
enum { TIR_ANY = -1 };

typedef struct tir_op_info {
  const char *name;
  int8_t n_in, n_out; /* TIR_ANY = variable */
  uint8_t n_regions;
  tir_effect effect;
  tir_rule rule;
  uint8_t flags;
} tir_op_info;
extern const tir_op_info tir_ops[OP_N];

typedef enum tir_attr_key {
#define ATTR(name, type) ATTR_##name,
#include "compiler/ir/attrs.def"
#undef ATTR
  ATTR_N
} tir_attr_key;

typedef struct tir_attr {
  tir_attr_key key;
  int n;                 /* INTS: number of values */
  int64_t i;             /* INT */
  tir_scalar scalar;     /* SCALAR */
  const char *str;       /* STR, interned */
  const int64_t *ints;   /* INTS */
  struct tir_attr *next; /* sorted by key */
} tir_attr;

typedef struct tir_op tir_op;
typedef struct tir_value tir_value;
typedef struct tir_region tir_region;
typedef struct tir_fn tir_fn;

/* One operand slot: the value and its place in that value's list of uses. */
typedef struct tir_use {
  tir_value *value;
  tir_op *op;
  struct tir_use *next, **link;
} tir_use;

struct tir_value {
  const tir_type *type;
  tir_op *def;        /* NULL for region arguments and parameters */
  tir_region *region; /* of an argument */
  int index;          /* among the op's results or the region's arguments */
  uint32_t id;        /* dense within the function; side tables are arrays of fn->n_values */
  tir_use *uses;
  const char *name; /* hint for the printer: the source variable; may be NULL */
  span at;
};

struct tir_op {
  tir_opcode code;
  span at;
  tir_op *prev, *next;
  tir_region *parent; /* NULL once removed */
  tir_attr *attrs;
  tir_use *in;
  tir_value **out;
  tir_region **regions;
  int n_in, n_out, n_regions;
};

struct tir_region {
  tir_op *owner; /* NULL for a function's body */
  tir_fn *fn;
  tir_value **args;
  int n_args;
  tir_op *first, *last;
};

typedef enum tir_stage { STAGE_PLAIN, STAGE_COALESCED, STAGE_LAID_OUT, STAGE_STAGED, STAGE_PLACED } tir_stage;

typedef struct tir_param {
  const char *name;
  tir_value *value; /* an argument of the body region */
  int divisibility; /* pointers: bytes; integers: the value; 1 = unknown */
  span at;
  bool positive; /* integers: at least 1, which launches see to */
  int promised;  /* as divisibility, what a hint says where it stands; from WIDTHS on, where no hints are left */
} tir_param;

struct tir_fn {
  arena *a;
  tir_cx *cx;
  const char *name;
  span at;
  tir_param *params;
  int n_params;
  tir_region *body;
  tir_stage stage;
  int num_warps, num_stages;
  int producer_warps;   /* beyond num_warps: they do nothing but tma_load; 0 or 4 */
  int gang;             /* programs that a block runs side by side, on num_warps each; 1 but for passes/gang.h */
  int64_t shared_bytes; /* from PLACED: of a block */
  int64_t
      gang_bytes; /* from PLACED: of these, what a gang's programs share; the rest is each one's, one after the other */
  uint32_t n_values; /* ids are below this */
};

/* ---- building ------------------------------------------------------------------------------------------------- */

tir_fn *tir_fn_new(tir_cx *cx, arena *a, const char *name, span at);
tir_value *tir_fn_add_param(tir_fn *fn, const char *name, const tir_type *type, int divisibility, span at);

/* Where new ops go: at the end of `region`, or before `before`. */
typedef struct tir_builder {
  tir_fn *fn;
  tir_region *region;
  tir_op *before;
  span at; /* span of the ops that are built */
} tir_builder;

static inline tir_builder tir_at_end(tir_fn *fn, tir_region *r) { return (tir_builder){fn, r, NULL, {0, 0}}; }
static inline tir_builder tir_before(tir_fn *fn, tir_op *op) { return (tir_builder){fn, op->parent, op, op->at}; }

/* The general form. `types` gives n_out result types; NULL where the op's rule derives them. Region objects are made
   empty. Checks counts and, for derived types, the rule: a mistake is tkc's own and panics. */
tir_op *tir_build(tir_builder *b, tir_opcode code, int n_in, tir_value *const *in, int n_out,
                  const tir_type *const *types);
tir_value *tir_build1(tir_builder *b, tir_opcode code, int n_in, tir_value *const *in,
                      const tir_type *type); /* 1 result */
tir_value *tir_region_add_arg(tir_region *r, const tir_type *type, span at);

tir_value *tir_const(tir_builder *b, const tir_type *type, tir_scalar v);
tir_value *tir_const_int(tir_builder *b, const tir_type *type, int64_t v); /* element type int or float */
tir_value *tir_unary(tir_builder *b, tir_opcode code, tir_value *x);
tir_value *tir_binary(tir_builder *b, tir_opcode code, tir_value *x, tir_value *y); /* also comparisons and addptr */
tir_value *tir_select(tir_builder *b, tir_value *c, tir_value *x, tir_value *y);
tir_value *tir_cast(tir_builder *b, tir_value *x, const tir_type *elem);  /* no-op if already that element type */
tir_value *tir_splat(tir_builder *b, tir_value *x, const tir_type *like); /* shape and layout of `like` */
tir_value *tir_expand_dims(tir_builder *b, tir_value *x, int axis);
tir_value *tir_broadcast(tir_builder *b, tir_value *x, int rank, const int64_t *shape);
tir_value *tir_reshape(tir_builder *b, tir_value *x, int rank, const int64_t *shape);
tir_value *tir_trans(tir_builder *b, tir_value *x, const int64_t *perm);

/* What the type rule of a result is, for operand types; NULL (with *why) if the operands do not fit. */
const tir_type *tir_infer_type(tir_cx *cx, tir_opcode code, int n_in, const tir_type *const *in, const char **why);

void tir_set_int(tir_op *op, tir_attr_key k, int64_t v);
void tir_set_str(tir_op *op, tir_attr_key k, const char *s);
void tir_set_ints(tir_op *op, tir_attr_key k, int n, const int64_t *v);
void tir_set_scalar(tir_op *op, tir_attr_key k, tir_scalar v);
const tir_attr *tir_attr_of(const tir_op *op, tir_attr_key k); /* NULL if absent */
int64_t tir_attr_int(const tir_op *op, tir_attr_key k, int64_t otherwise);
const char *tir_attr_str(const tir_op *op, tir_attr_key k, const char *otherwise);

/* ---- changing ------------------------------------------------------------------------------------------------- */

static inline tir_value *tir_in(const tir_op *op, int i) { return op->in[i].value; }
static inline tir_value *tir_out(const tir_op *op, int i) { return op->out[i]; }
static inline bool tir_is_const(const tir_value *v) { return v->def && v->def->code == OP_const; }
static inline bool tir_is_loop(const tir_op *op) { return op->code == OP_for || op->code == OP_while; }
static inline bool tir_is_term(const tir_op *op) { return (tir_ops[op->code].flags & OPF_TERM) != 0; }
tir_fn *tir_fn_of(const tir_op *op);
/* The constant a value is known to be (const, or splat/broadcast/expand_dims/reshape of one). */
bool tir_known_scalar(const tir_value *v, tir_scalar *out);
bool tir_known_int(const tir_value *v, int64_t *out); /* integers only, by value */
void tir_set_in(tir_op *op, int i, tir_value *v);
void tir_replace_uses(tir_value *old, tir_value *with);
bool tir_has_uses(const tir_value *v);
bool tir_is_filled(const tir_value *v); /* one value everywhere: a constant or a splat */
void tir_remove(tir_op *op);            /* results must be unused; operands (also in its regions) are dropped */
void tir_move_before(tir_op *op, tir_op *where);
void tir_append_in(tir_op *op, tir_value *v); /* one more operand, last */
tir_value *tir_append_out(tir_op *op, const tir_type *type);
/* Removes result i (unused) / operand i / argument i; the ones behind move up. */
void tir_drop_out(tir_op *op, int i);
void tir_drop_in(tir_op *op, int i);
void tir_drop_arg(tir_region *r, int i);
/* Copies an op with its regions, through a table old value -> new value that the caller keeps (`map` has n_values
   slots of the function, grows with it; values without entry are used as they are). Results are entered in the table.
 */
typedef struct tir_map {
  tir_value **at;
  uint32_t n;
} tir_map;
tir_value *tir_map_get(const tir_map *m, tir_value *v);
void tir_map_set(tir_fn *fn, tir_map *m, const tir_value *from, tir_value *to);
tir_op *tir_clone(tir_builder *b, const tir_op *op, tir_map *m);
bool tir_region_contains(const tir_region *outer, const tir_region *inner);
bool tir_is_pure(const tir_op *op); /* by table; if/for/while: whether everything inside is */
/* Ops of the function in program order, regions after their owner: for (tir_op *op = tir_first(fn); op; op =
 * tir_next(op)) */
tir_op *tir_first(const tir_fn *fn);
tir_op *tir_next(const tir_op *op);
bool tir_in_loop(const tir_op *op); /* whether some loop contains it */
static inline int tir_block_warps(const tir_fn *fn) { return fn->num_warps * fn->gang + fn->producer_warps; }
/* The next_program that gives a loop over programs its next number; NULL: op is no such loop. */
tir_op *tir_next_program(const tir_op *op);
bool tir_is_persistent(const tir_fn *fn); /* whether its blocks can run several programs: it has a next_program */
/* Gives values dense ids in program order; done by the printer's caller and after each pass. */
void tir_renumber(tir_fn *fn);

/* ---- meaning -------------------------------------------------------------------------------------------------- */

/* Evaluates an ELT op over n elements: arrays hold elements in their memory encoding (i1 as one byte 0/1, pointers as
   64-bit integers, `tir_dtypes[d].bytes` each). `in_dt[i]` / `out_dt` are element types; for addptr `scale` is the
   pointee's size in bytes, for cast `rtz` asks for rounding toward zero. The one definition of these ops: the folder
   and the interpreter both use it. f16/bf16/f8 arithmetic is computed exactly and rounded once; approximate functions
   are computed in double and rounded once. Returns the number of integer divisions by zero met. */
typedef struct tir_eval_opts {
  int scale;
  bool rtz;
} tir_eval_opts;
int64_t tir_eval(tir_opcode op, int n_in, const tir_dtype *in_dt, const void *const *in, tir_dtype out_dt, void *out,
                 size_t n, tir_eval_opts opts);

/* ---- text and checking ---------------------------------------------------------------------------------------- */

void tir_print(const tir_fn *fn, textbuf *out);
/* Reads one function back; reports to the sink (diags.def) and returns NULL if there was an error. Takes any byte
   sequence. What was read has the form of a function, not more: tir_verify says whether it is one. */
tir_fn *tir_read(tir_cx *cx, arena *a, diag_sink *sink, const src_file *source);

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/ir/diags.def"
#undef DIAG

/* Checks a function at its stage. Returns NULL if all is well, else the function's text with each complaint under the
   line that it belongs to (in fn's arena). */
const char *tir_verify(tir_fn *fn);

#endif
