/* flight: products that stay under way. */
#ifndef PASSES_FLIGHT_H
#define PASSES_FLIGHT_H

#include "compiler/passes/passes.h"

/* Accumulators that loop `op` carries on as they come are waited for behind the loop, and in the next iteration where
   another wait is reached before anything but a wgmma reads them: of a matrix product, where only the next wgmma reads
   it (the wait leaves one group pending), and that of P*V in attention, which the next iteration waits for together
   with Q*K. Every operand of the products in shared memory must have been given a buffer that outlives the iteration.
 */
void flight_leave(tir_fn *fn, const pass_cx *cx, tir_op *op);

#endif
