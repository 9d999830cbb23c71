/* slice: the part of a function that some of its values need: how they are computed, and the control flow around them.
 *
 * It is to be executed apart from the rest, ahead of it, by a single thread: so it must be scalar arithmetic, and
 * scalar loads of memory that the function does not write. */
#ifndef SLICE_H
#define SLICE_H

#include "compiler/ir/tir.h"

typedef struct slice slice;

/* An empty slice, in `a`. Ids must be dense; values that are made later do not belong to it. */
slice *slice_new(const tir_fn *fn, arena *a);
void slice_need(slice *s, const tir_value *v);
void slice_need_around(slice *s, const tir_region *r); /* the loops and branches that r lies in */
/* Why what was asked for cannot be executed apart; NULL if it can. */
const char *slice_problem(const slice *s);

/* The slice of the function's tma_loads, or of those that are wanted: their coordinates, and where they stand. */
slice *slice_of_copies(const tir_fn *fn, arena *a, bool (*wanted)(const tir_op *copy));
bool slice_has_value(const slice *s, const tir_value *v);
bool slice_has_op(const slice *s, const tir_op *op);

#endif
