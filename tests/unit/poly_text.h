/* Polynomials as text, for tests. */
#ifndef TESTS_UNIT_POLY_TEXT_H
#define TESTS_UNIT_POLY_TEXT_H

#include "compiler/analysis/affine.h"

/* The terms in the order of their text, "+2*n-3"; atoms by their names, or those of their ops, and `$i` for the
   position along axis i; "?" if x is not known. */
const char *poly_text(arena *a, const affine_poly *x);

#endif
