/* shared: what a function needs of shared memory, before it is placed. */
#ifndef PASSES_SHARED_H
#define PASSES_SHARED_H

#include "compiler/passes/passes.h"

/* The bytes that pass shared would make of fn, if the n ops `without` needed none. */
int64_t shared_bytes_of(tir_fn *fn, const tir_op *const *without, int n);

#endif
