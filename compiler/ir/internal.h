/* What the files of compiler/ir share among themselves and nobody else includes. */
#ifndef IR_INTERNAL_H
#define IR_INTERNAL_H

#include "compiler/ir/tir.h"

/* ---- raw construction (build.c): no type rule is checked, for the reader and for clones */

/* An op that is in no region yet. `types` gives n_out types; the op gets n_regions empty regions. */
tir_op *tir_op_new(tir_fn *fn, tir_opcode code, span at, int n_in, tir_value *const *in, int n_out,
                   const tir_type *const *types, int n_regions);
/* A new value at the end of a list of results or arguments. */
tir_value *tir_value_push(tir_fn *fn, const tir_type *type, span at, tir_value ***list, int *n);
void tir_op_insert(tir_op *op, tir_region *r, tir_op *before); /* before NULL: at the end */
void tir_op_unlink(tir_op *op);
void tir_use_link(tir_use *u, tir_op *op, tir_value *v);
void tir_use_unlink(tir_use *u);
/* Puts *a (copied, its payload shared) into the op's sorted list; replaces an attribute of the same key. */
void tir_attr_put(tir_op *op, const tir_attr *a);

/* ---- facts about the vocabulary (infer.c, text_print.c) */

typedef enum tir_attr_type { AT_INT, AT_STR, AT_INTS, AT_SCALAR } tir_attr_type;
typedef struct tir_attr_info {
  const char *name;
  tir_attr_type type;
} tir_attr_info;
extern const tir_attr_info tir_attr_table[ATTR_N];

/* Which element types an op with a type rule takes; NULL if d is one of them, else what it takes ("floats"). */
const char *tir_wrong_elem(tir_opcode code, const tir_type *elem);

static inline bool tir_is_ident_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}
static inline bool tir_is_ident_char(char c) { return tir_is_ident_start(c) || (c >= '0' && c <= '9'); }
bool tir_is_ident(const char *s); /* one identifier of the text form, all of s */

/* Decimal text of a double and back, with '.' whatever the locale of the program we live in says. */
void tir_decimal_print(double v, int digits, char *out, size_t size); /* digits 0: as a whole number and ".0" */
double tir_decimal_read(const char *text);                            /* at most 400 characters are looked at */
/* Text of a scalar that tir_read takes back bit for bit. */
void tir_scalar_print(tir_dtype d, tir_scalar s, textbuf *out);
extern const char *const tir_stage_names[];
enum { TIR_N_STAGES = STAGE_PLACED + 1 };

/* The printer with a hook: `after(user, op, out)` runs behind the first line of every op, and once with NULL behind the
   function's head, so that the verifier can put its complaints there. */
typedef void tir_after_line(void *user, const tir_op *op, textbuf *out);
void tir_print_with(const tir_fn *fn, textbuf *out, tir_after_line *after, void *user);

/* ---- verifier */

typedef struct verifier {
  tir_fn *fn;
  struct complaint *first, **last; /* in the order they were made */
  bool broken;                     /* lists of ops are damaged: the function cannot be printed */
} verifier;
void tir_complain(verifier *v, const tir_op *op, const char *fmt, ...) BASE_PRINTF(3, 4); /* op NULL: the head line */
/* Types, attributes and layouts of one op whose structure (counts, links, terminators) is sound. */
void tir_verify_op(verifier *v, const tir_op *op);
void tir_verify_shared(verifier *v, const tir_op *op); /* ops on shared memory: operand counts by table are checked */
/* Whether a dot of elements a and b into acc exists: of dot and wgmma alike. */
bool tir_dot_exists(tir_dtype a, tir_dtype b, tir_dtype acc);

#endif
