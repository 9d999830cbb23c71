/* Random kernels in tile IR: loads at computed indices, arithmetic on integers and tiles of several shapes, shape
 * operations, reductions, dots, atomic additions, loops and branches, and stores of whatever came out. All results are
 * exact, so executors and stages can be compared bit by bit. */
#ifndef TESTS_HARNESS_TIR_RANDOM_H
#define TESTS_HARNESS_TIR_RANDOM_H

#include "compiler/ir/tir.h"

enum {
  RANDOM_IN = 1024 /* elements of parameter x: *i32 */,
  RANDOM_SLOT = 4096,
  RANDOM_OUT = 8 * RANDOM_SLOT /* of out: *i32 */
};

/* A kernel @random(x: *i32, out: *i32, n: i32, k: i32); the same for the same seed. One program writes all of out's
   elements that any does; n is a multiple of 16. */
tir_fn *tir_random(tir_cx *cx, arena *a, uint64_t seed);

#endif
