/* ahead: which loads of a loop pass pipeline can copy ahead, and what has to be computed for that. */
#ifndef AHEAD_H
#define AHEAD_H

#include "compiler/analysis/analysis.h"
#include "compiler/passes/passes.h"

/* One load that is copied ahead. A dot reads its tile from `stages`, where it read `alloc`, which `store` filled; or
   those are NULL, and the tile goes from there to registers. */
typedef struct ahead {
  tir_op *load, *store, *alloc;
  const tir_type *one; /* stage */
  /* The layout that the tile gets in registers. If that is another one than the load's: what comes of it in the ops
     `between` is converted to that layout, which then is its own already. */
  const lay_t *layout;
  VEC(tir_op *) between;
  tir_op *convert;
  tir_value *stages; /* the buffer with all of them */
  tir_value *view;   /* of the one that an iteration reads */
  bool repeats;      /* the same elements several times: they should come from the L1 cache but once */
} ahead;

/* What is computed ahead, for the same iteration of all its ops. */
typedef struct ahead_slice {
  VEC(tir_op *) ops; /* in program order */
  bool *carried;     /* by carried value: it is used */
} ahead_slice;

typedef struct ahead_loop {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  tir_op *op;
  tir_region *body;
  int stages;
  bool marked;  /* the source states the loop's stages: all its loads are wanted, not its dots' alone */
  int64_t step; /* 0: not known */
  int64_t most; /* bytes that stages of one load may have which goes to registers */
  VEC(ahead) loads;
  ahead_slice addresses;  /* what the copies' addresses and masks are computed from, up to */
  VEC(tir_value *) index; /* what is loaded for them, */
  ahead_slice indices;    /* which this loads, with all that those loads are computed from */
  VEC(tir_op *) small;    /* loads of tiles too small for stages: they are done one iteration ahead, with */
  ahead_slice early;      /* all that they are computed from, and themselves */
  int n_carried;          /* before the loop is rewritten */
  bool wgmma;             /* some product reads stages until it is waited for */
} ahead_loop;

/* Fills in all that is to be known of the loop `op`, in `a`, and remarks on its loads; false if nothing is done ahead.
   Without facts nothing repeats. */
bool ahead_find(ahead_loop *l, tir_fn *fn, const pass_cx *cx, const axis_facts *facts, arena *a, tir_op *op,
                int64_t most);

bool ahead_is_zero(const tir_value *v);

/* Bytes of all the stages of a load. */
int64_t ahead_bytes(const ahead_loop *l, const ahead *x);

#endif
