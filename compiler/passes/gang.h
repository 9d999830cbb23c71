/* gang: programs that a block runs side by side, since their loops read the same tiles.
 *
 * Programs that follow each other along the grid's first axis are a gang if what their loops load by the tensor memory
 * accelerator does not depend on which of them it is: the keys and values of attention, where programs along that axis
 * have other queries. The tiles then come once for all of them, and warpgroups of several programs cover for each other
 * on a multiprocessor with as many registers each as a block of one program would leave them.
 *
 * Programs of a gang may run their loops for different times, as under a causal mask, if each reads the first tiles of
 * what the longest one reads. */
#ifndef PASSES_GANG_H
#define PASSES_GANG_H

#include "compiler/passes/boxes.h"

typedef struct gang_load { /* a load of a tile to be shared */
  const tir_op *load;
  box *box;
  const tir_value *ring; /* that it is to go to */
  int64_t side;          /* of the tile along axis 1 of the box */
} gang_load;

/* Why programs side by side could not share the tiles of n loads in `body`; NULL if they could, provided that the
   parameters are not negative which then the boxes list. A size of a box that the loop stays within may become one that
   another load of the ring needs. */
const char *gang_refused(box_cx *cx, const tir_region *body, const gang_load *loads, int n);

#endif
