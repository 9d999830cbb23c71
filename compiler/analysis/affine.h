/* affine: integer values and addresses as polynomials, to find out which box of which tensor a tile of pointers is.
 *
 * A polynomial is a sum of products of atoms: scalar integers that are computed in ways nobody looks into, and, in a
 * tile, the position along an axis. Arithmetic of 32 and 64 bits is taken to be exact: where it wraps, the address
 * would be wrong anyway. What is computed with fewer bits is an atom. What a loop carries and advances by the same
 * amount each time is expressed through the induction variable. */
#ifndef AFFINE_H
#define AFFINE_H

#include "compiler/ir/tir.h"

enum { AFFINE_TERMS = 20, AFFINE_ATOMS = 6 };
#define AFFINE_COEF (INT64_C(1) << 31) /* the most that a coefficient may be, so that no product of two overflows */

typedef struct affine_term {
  int64_t coef;
  int n;
  const tir_value *atom[AFFINE_ATOMS]; /* by increasing id */
} affine_term;

typedef struct affine_poly {
  bool known; /* false: no polynomial, or one with too many terms, factors or too large a coefficient */
  int n;
  affine_term at[AFFINE_TERMS]; /* no two with the same atoms, none with coefficient 0 */
} affine_poly;

/* The atoms that stand for the position along an axis of a tile. */
extern const tir_value affine_axis[TIR_MAX_RANK];

typedef struct affine_wrap { /* a tile `index % bound`, or 0 from the bound on, which was taken for `index` */
  affine_poly index, bound;
} affine_wrap;

typedef struct affine_cx {
  const tir_fn *fn;
  arena *a;
  VEC(affine_wrap) wraps; /* added to; the caller looks at them, and empties the list */
  VEC(const tir_value *) evaluating;
} affine_cx;

/* An integer scalar, or a tile of integers. */
affine_poly affine_of(affine_cx *cx, const tir_value *v);
/* A pointer, or a tile of pointers: elements behind *base, which is a parameter. Not known if the base is none. */
affine_poly affine_address(affine_cx *cx, const tir_value *v, const tir_value **base);

/* Whether op is arithmetic with so few bits that a result which wraps may well be meant. */
bool affine_is_narrow(const tir_op *op);

affine_poly affine_const(int64_t c);
affine_poly affine_add(affine_poly x, affine_poly y);
affine_poly affine_mul(affine_poly x, affine_poly y);
affine_poly affine_scaled(affine_poly x, int64_t by);
bool affine_equal(const affine_poly *x, const affine_poly *y);
/* x with an atom replaced. */
affine_poly affine_put(const affine_poly *x, const tir_value *atom, affine_poly by);
/* x with axis i called to[i], for i < n. */
affine_poly affine_axes(affine_poly x, const int *to, int n);
bool affine_mentions(const affine_poly *x, const tir_value *atom);
/* t without the factors of d; false if they do not all divide it. */
bool affine_divide(const affine_term *t, const affine_term *d, affine_term *out);
/* The factors of a term that are known at launch (the coefficient and parameters), and the others. */
void affine_split(const affine_cx *cx, const affine_term *t, affine_term *launch, affine_term *run);

/* Builds the value of x, of an integer scalar type. No atom may be an axis. */
tir_value *affine_build(tir_builder *b, const affine_poly *x, const tir_type *type);

#endif
