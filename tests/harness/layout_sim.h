/* Random layouts and a host interpreter of the plans of compiler/ir/layout.h, for tests only.
 *
 * The interpreter does with arrays what the emitted code does with registers, shuffles and memory, and nothing else: it
 * knows no algebra. Each sim_ function returns NULL, or a text that says what went wrong. */
#ifndef TESTS_HARNESS_LAYOUT_SIM_H
#define TESTS_HARNESS_LAYOUT_SIM_H

#include "compiler/ir/layout.h"

typedef struct sim_rng {
  uint64_t state;
} sim_rng;
uint32_t sim_next(sim_rng *r);
int sim_below(sim_rng *r, int n); /* 0 .. n-1 */
bool sim_chance(sim_rng *r, int percent);

lay_shape sim_shape2(int rows, int cols);
lay_shape sim_shape1(int n);

const lay_t *sim_blocked(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps);
const lay_t *sim_mma(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps);
const lay_t *sim_linear(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps); /* any bijection: swizzled bases */
enum { SIM_BLOCKED = 1, SIM_MMA = 2, SIM_LINEAR = 4, SIM_ANY = 7 };
const lay_t *sim_any(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps, unsigned kinds);

uint32_t sim_terms(const lay_terms *t, uint32_t lane, uint32_t warp);

/* Moves element ids through the plan and compares with c->dst. */
const char *sim_convert(const lay_cvt *c);
/* Writes element ids by an access plan through the shared layout and looks at every one of them. */
const char *sim_access(const lay_t *l, const sh_t *s, const lay_access *acc);
/* Executes ldmatrix on memory that holds the tile in layout s, and compares the registers. */
const char *sim_ldmatrix(const lay_t *l, const sh_t *s, int elem_bytes, const lay_matrix *m);

typedef uint32_t (*sim_op)(uint32_t, uint32_t);
/* data: value of each flat element. Compares every copy of every result with the fold of its elements. */
const char *sim_reduce(const lay_reduce *r, const uint32_t *data, sim_op op);
const char *sim_scan(const lay_scan *p, const uint32_t *data, sim_op op);

#endif
