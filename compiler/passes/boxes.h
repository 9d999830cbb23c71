/* boxes: which box of which tensor a load of a tile reads, or a store writes. */
#ifndef PASSES_BOXES_H
#define PASSES_BOXES_H

#include "compiler/analysis/affine.h"
#include "compiler/analysis/analysis.h"
#include "compiler/passes/passes.h"

/* Axis 0 of the tensor is the tile's contiguous one, axis 1 the tile's other one; along further axes the box has one
   element. Sizes and strides are polynomials of the kernel's parameters, in elements. */
enum { MOST_NATURAL = 4 };
typedef struct box {
  const tir_value *base; /* a parameter */
  int rank;
  affine_poly size[TIR_MAX_MAP_RANK], stride[TIR_MAX_MAP_RANK], at[TIR_MAX_MAP_RANK]; /* stride[0] is 1 */
  const tir_value *when; /* a scalar i1: if it is false, all of the tile is 0; NULL: always true */
  int n_natural;
  const tir_value *natural[MOST_NATURAL]; /* parameters that must not be negative, or positions might be */
} box;

typedef struct box_cx {
  affine_cx affine;
  axis_facts *facts; /* of cx.fn */
} box_cx;

/* The box that `access`, a load or a store of a tile of two axes, reads or writes, if the copy engine can do the same:
   NULL, or why not. `inner` is the tile's contiguous axis. What a load's mask leaves out is 0 (or undefined) in both;
   elements that `index % size`, or 0 in place of the index from the size on, takes from the start of the tensor are 0
   in the box, which is allowed where no store lets them be seen. What a store's mask leaves out is not written. */
const char *box_of(box_cx *cx, const tir_op *access, int inner, box *out);

/* Whether an integer is not negative, provided that the parameters are not which are then listed in *b. */
bool box_not_negative(box_cx *cx, const tir_value *v, box *b);

/* Makes the map of a box's tensor, for copies of sides[0] x sides[1] elements. */
tir_op *box_map(tir_builder *b, const box *x, const int64_t sides[2], int swizzle);

#endif
