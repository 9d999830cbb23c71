/* scratch: how much shared memory an op needs while it runs, and how it uses it. One rule for the pass that places it
 * and for the emitter that uses it. */
#ifndef IR_SCRATCH_H
#define IR_SCRATCH_H

#include "compiler/ir/tir.h"

enum {
  TIR_RING_BARRIERS = 16, /* bytes of the mbarriers of one stage of a ring: full, empty */
  TIR_PROGRAM_STAGES = 2, /* of the numbers of next programs, which are handed on like the stages of a ring */
  TIR_PROGRAM_BYTES = 8,  /* of one, with padding */
};

typedef struct tir_scratch {
  int64_t bytes;   /* 0 = none */
  int align;       /* bytes; at least 16 */
  bool warp_local; /* each warp reads back only what it wrote itself: no barrier of all threads inside */
  bool private; /* warp_local, and warps hold copies of each other's elements: each has a part of its own, bytes / warps
                 */
} tir_scratch;

/* convert_layout whose plan goes through shared memory: the plan's bytes, for each warp if private. reduce across
   warps: for each operand in order the plan's partials, each operand's part starting at a multiple of 16 bytes
   (tir_scratch_part). atomic_rmw whose result is used where not every thread executes it: one element per element of
   the tile (row-major), or one for a scalar. tma_store: the buffers of its panels, which are read even when the op is
   over: they are its own from then on. next_program: the numbers that are handed on, and mbarriers behind them; all its
   own. Everything else needs none. The op writes, synchronises, reads; nothing is left in the scratch for others.
   Layouts must be assigned. Plans are made in `a`. */
tir_scratch tir_scratch_of(const tir_op *op, arena *a);

/* Bytes of one element as it lies in shared memory: i1 as a byte, pointers as 8. */
int tir_shared_bytes(const tir_type *t);
/* Where operand i's part of a reduce's scratch begins, for a plan with scratch_elems partials. */
int64_t tir_scratch_part(const tir_op *reduce, int i, int64_t scratch_elems);

#endif
