/* roles: how a multiprocessor's registers are shared by blocks whose warps have two roles, consumers and producers. */
#ifndef ROLES_H
#define ROLES_H

#include "compiler/arch/arch.h"
#include "compiler/ir/tir.h"

enum { ROLES_PRODUCER_REGISTERS = 24 }; /* of a producer's thread that gives its own away: the fewest there are */

typedef struct roles {
  int blocks;    /* that are to run on a multiprocessor at a time; 0: not even one has enough registers */
  int consumers; /* registers of a consumer's thread when producers have given theirs away; 0: they keep them */
  int spare;     /* registers of a consumer's thread beside what tiles need */
} roles;

/* For fn, its gang and so many producer warps, and blocks that take shared_bytes each. Layouts must be assigned. */
roles roles_of(const tir_fn *fn, const arch_t *arch, int producer_warps, int64_t shared_bytes);

#endif
