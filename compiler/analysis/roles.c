/* roles: see roles.h.
 *
 * As many blocks at a time as their shared memory and what the tiles of loops need allow, up to four, so that one
 * computes while another waits; with more registers for consumers (setmaxnreg) if those need them. */
#include "compiler/analysis/roles.h"

#include "compiler/analysis/analysis.h"

enum {
  MOST_BLOCKS = 4,
  MOST_REGISTERS = 240, /* of a consumer; leaves room for what a launch reserves */
  LEAST_OVERHEAD = 28,  /* registers for addresses and the like, beyond the tiles of a loop; measured */
  ENOUGH_OVERHEAD = 40, /* with that many ptxas has never spilled */
  FRAGMENTS = 64,       /* of tf32 that wgmma cannot read by descriptors: four sets of 16 */
};

static int words(const tir_type *t) {
  if (!tir_is_tile(t) || tir_is_ptr(t)) return 0;
  int bits = tir_dtypes[tir_dtype_of(t)].bits;
  return lay_regs(t->layout) * (bits < 32 ? bits : 32 * (bits / 32)) / 32;
}

static bool is_carried(const tir_value *v, const tir_region *body) {
  while (v->def && v->def->parent == body && v->def->n_in) v = tir_in(v->def, 0);
  return v->region == body;
}

/* Registers that the tiles of a loop with products need: what it carries, and products with the operands that they have
   in registers. What is computed from a product takes its place. The most of any loop. */
static int hot_registers(const tir_region *r) {
  int most = 0, own = 0;
  bool multiplies = false;
  if (r->owner && r->owner->code == OP_for)
    for (int i = 1; i < r->n_args; i++) own += words(r->args[i]->type);
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) {
      int inner = hot_registers(op->regions[i]);
      if (inner > most) most = inner;
    }
    multiplies |= op->code == OP_wgmma || op->code == OP_dot;
    if (op->code != OP_wgmma) continue;
    if (!is_carried(tir_in(op, 2), r)) own += words(op->out[0]->type);
    if (!is_carried(tir_in(op, 0), r)) own += words(tir_in(op, 0)->type);
    if (tir_dtype_of(tir_in(op, 1)->type) == DT_f32) own += FRAGMENTS;
  }
  return multiplies && own > most ? own : most;
}

roles roles_of(const tir_fn *fn, const arch_t *arch, int producer_warps, int64_t shared_bytes) {
  int consumers = ARCH_WARP * fn->num_warps, producers = ARCH_WARP * producer_warps, threads = consumers + producers;
  int hot = hot_registers(fn->body), wgmma = pressure_of_wgmma(fn), room = arch_blocks_by_shared(arch, shared_bytes);
  for (int blocks = room < MOST_BLOCKS ? room : MOST_BLOCKS; blocks > 0; blocks--) {
    int each = ARCH_REGISTERS_SM / (blocks * threads) / ARCH_REGISTER_STEP * ARCH_REGISTER_STEP;
    int most =
        (each * threads - ROLES_PRODUCER_REGISTERS * producers) / consumers / ARCH_REGISTER_STEP * ARCH_REGISTER_STEP;
    if (most > MOST_REGISTERS) most = MOST_REGISTERS;
    if (each < wgmma || (blocks > 1 && hot + LEAST_OVERHEAD > most)) continue;
    return (roles){blocks, hot + ENOUGH_OVERHEAD <= each || !arch->has_setmaxnreg ? 0 : most};
  }
  return (roles){0, 0};
}
