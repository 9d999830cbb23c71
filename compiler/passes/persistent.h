/* persistent: blocks that run one program after the other. */
#ifndef PASSES_PERSISTENT_H
#define PASSES_PERSISTENT_H

#include "compiler/passes/passes.h"

/* Why a block may run no more than one program; NULL if it may run several. */
const char *persistent_refused(const tir_fn *fn);
/* Moves all that a program does, the ops of the body from `from` on, into a loop over programs; the first op behind
   those that stay in front of it. */
tir_op *persistent_wrap(tir_fn *fn, tir_op *from);
/* Undoes that, for want of shared memory: tiles that a program loads once then need one stage. Behind pass tma. */
void persistent_unwrap(tir_fn *fn);

#endif
