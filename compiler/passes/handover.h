/* handover: loops whose products overlap.c overlaps, and whether one can leave its last product to the one behind it.
 */
#ifndef HANDOVER_H
#define HANDOVER_H

#include "compiler/analysis/analysis.h"
#include "compiler/passes/passes.h"

typedef struct chain chain;
struct chain {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  tir_op *loop;
  tir_region *body;
  int n_carried; /* before the loop is rewritten */

  tir_op *last, *last_wait; /* the product that moves to the next iteration, and its wait */
  tir_op *meet;             /* the wait that the moved product is issued before */
  int slot;                 /* of its accumulator, among the carried values */
  bool *leads;              /* by id: in the loop the first operand of `last` is computed from it */
  VEC(tir_op *) scaling;    /* from the carried accumulator to that of `last`, in any order */
  VEC(tir_op *) casts;      /* that end in the first operand of `last`, in program order */

  tir_op *load, *store, *alloc; /* of the second operand of `last` */
  tir_op *view;                 /* buffer_trans, or NULL */
  VEC(tir_op *) slice;          /* what address and mask of the load are computed from, in program order */
  bool *used;                   /* by carried value: the slice uses it */

  const chain *before; /* the loop whose last product this one issues, or NULL */
  bool goes_on;        /* no such loop, or its last load has the address of this load an iteration before its first */
  bool begins_above;   /* the loop of `before` is known not to begin behind where this one begins */
  bool handed_on;      /* the loop behind issues the last product of this one */
  int *same;           /* by carried value that is used: the argument of `before` that is the same to the slice */

  tir_value *first;    /* the induction variable where there is no product before it */
  int p_slot;          /* of p, among the carried values */
  int *longer;         /* by carried value that is used: the slot of its value in the iteration before */
  tir_value **advance; /* by carried value that is used: what each iteration adds to it, so that nothing need be carried
                          longer, or NULL */
};

/* What an op of first..end, without `end`, does besides loads and products, if that could notice that a load comes
   later; NULL if nothing. */
const char *handover_effect(const tir_op *first, const tir_op *end);

/* Whether the loop of c begins with the sum that that of `before` ends with, and nothing else reads it. */
bool handover_follows(const chain *c, const chain *before);
/* Whether c's load, an iteration earlier than its first, has the address of the last load of `before`. */
bool handover_same_address(const chain *c, const chain *before);
/* Why the first iteration of c cannot issue the last product of `before`, as if that were the iteration before it; NULL
   if it can, and then c->same is filled in. */
const char *handover_refused(chain *c, const chain *before, const axis_facts *facts);

#endif
