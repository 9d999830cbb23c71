/* dots: how each dot is computed. */
#ifndef PASSES_DOTS_H
#define PASSES_DOTS_H

#include "compiler/passes/passes.h"

typedef enum dot_way {
  DOT_FMA,   /* on the CUDA cores, all of K in registers */
  DOT_MMA,   /* mma.sync: fragments in registers */
  DOT_WGMMA, /* warpgroups; b in shared memory, a there or in registers */
} dot_way;

typedef struct dot_plan {
  dot_way way;
  const arch_mma *inst;   /* MMA */
  const lay_t *a, *b, *c; /* register layouts; WGMMA: b is NULL, a is that of an operand in registers, if it may */
  bool transposed;        /* WGMMA: as B^T A^T, of which c is the layout of the result */
  const char *why_slower; /* why not tensor cores, or why not wgmma where the target has it; NULL = nothing to say */
} dot_plan;

/* Makes f16 of the operands of products of f8, where the target multiplies those on tensor cores and f8 not: every f8
   is one of f16. */
void dot_widen_f8(tir_fn *fn, const pass_cx *cx);

/* inner_a, inner_b: the axis of the operand that is contiguous in memory if it comes straight from a load, else -1.
   chained: the result feeds another dot as its first operand, so that rows should stay inside a warp. */
dot_plan dot_choose(tir_fn *fn, const pass_cx *cx, const tir_op *dot, int inner_a, int inner_b, bool chained);

/* A layout in shared memory for an operand of shape t whose axis `inner` is contiguous in memory, with the swizzle that
   copies, ldmatrix and wgmma agree on; NULL if the tile is too narrow for one. */
const sh_t *dot_shared_layout(tir_cx *cx, const tir_type *t, int inner);

#endif
