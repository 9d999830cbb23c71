/* roles: see roles.h.
 *
 * As many blocks at a time as their shared memory and what their tiles need allow, up to four, so that one
 * computes while another waits; and whatever registers the producers do not need for the consumers (setmaxnreg). */
#include "compiler/analysis/roles.h"

#include "compiler/analysis/analysis.h"

enum {
  MOST_BLOCKS = 4,
  MOST_REGISTERS = 240, /* of a consumer; leaves room for what a launch reserves */
  LEAST_OVERHEAD = 28,  /* registers for addresses and the like, beyond the tiles; measured */
  FRAGMENTS = 64,       /* of tf32 that wgmma cannot read by descriptors: four sets of 16 */
};

/* Registers that the tiles of fn need where most are alive. */
static int tile_registers(const tir_fn *fn) {
  arena *a = arena_new();
  int n = pressure_of(fn, a).registers;
  arena_free(a);
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op))
    if (op->code == OP_wgmma && tir_dtype_of(tir_in(op, 1)->type) == DT_f32) return n + FRAGMENTS;
  return n;
}

roles roles_of(const tir_fn *fn, const arch_t *arch, int producer_warps, int64_t shared_bytes) {
  int consumers = ARCH_WARP * fn->num_warps * fn->gang, producers = ARCH_WARP * producer_warps;
  int threads = consumers + producers;
  int tiles = tile_registers(fn), wgmma = pressure_of_wgmma(fn), room = arch_blocks_by_shared(arch, shared_bytes);
  for (int blocks = room < MOST_BLOCKS ? room : MOST_BLOCKS; blocks > 0; blocks--) {
    int each = ARCH_REGISTERS_SM / (blocks * threads) / ARCH_REGISTER_STEP * ARCH_REGISTER_STEP;
    int most =
        (each * threads - ROLES_PRODUCER_REGISTERS * producers) / consumers / ARCH_REGISTER_STEP * ARCH_REGISTER_STEP;
    if (most > MOST_REGISTERS) most = MOST_REGISTERS;
    if (each < wgmma || (blocks > 1 && tiles + LEAST_OVERHEAD > most)) continue;
    return (roles){blocks, arch->has_setmaxnreg && most > each ? most : 0, most - tiles};
  }
  return (roles){0};
}
