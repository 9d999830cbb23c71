/* rescale: a softmax that goes block by block scales its accumulator by exp(old maximum - new maximum), row by row. A
 * kernel may keep a maximum until a row has grown by much (lazy rescaling, as in FlashAttention-4); hardly a factor
 * then differs from 1, and a warp whose factors are all 1 can leave its registers alone: x * 1 is x. Such products are
 * marked here, and the emitter lets each warp decide (ll_fn.c).
 *
 *   for .. (top, acc):
 *     new = select(max - top > 8, max, top)
 *     acc = dot(p, v, acc * broadcast exp2(top - new))
 *
 * Where every row takes its new maximum some row of a warp nearly always grows, and the branch would only cost. It
 * costs in any case what ptxas then no longer moves across it: with wgmma it pays where four warpgroups of a
 * multiprocessor cover for each other, or three of one block (tests/bench/README.md). */
#include "compiler/analysis/roles.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/shared.h"

enum { REGISTERS_PER_FACTOR = 8, WARPS_THAT_COVER = 16, WARPS_OF_A_BLOCK = 12, DEEP = 6 };

static bool is_one(const tir_value *v) {
  tir_scalar x, one = {0x3f800000};
  return tir_known_scalar(v, &x) && x.bits == one.bits;
}

/* Whether v comes, element by element, from a choice that can leave a tile which the loop of region r carries as it is,
   or can be 1. */
static bool chosen(const tir_region *r, const tir_value *v, int depth) {
  const tir_op *op = v->def;
  if (!op || op->parent != r || depth == 0 || !(tir_ops[op->code].flags & OPF_ELT)) return false;
  for (int i = 0; i < op->n_in; i++) {
    const tir_value *x = tir_in(op, i);
    bool carried = !x->def && x->region == r && tir_is_tile(x->type);
    if ((i && op->code == OP_select && (carried || is_one(x))) || chosen(r, x, depth - 1)) return true;
  }
  return false;
}

/* What v repeats along an axis; v itself if nothing. */
static tir_value *factors(tir_value *v) {
  while (v->def && (v->def->code == OP_broadcast || v->def->code == OP_expand_dims)) v = tir_in(v->def, 0);
  return v;
}

/* Whether a product takes v as its accumulator, at once or in the next iteration. */
static bool accumulates(const tir_value *v) {
  const tir_use *u = v->uses;
  if (!u || u->next) return false;
  if (u->op->code == OP_wgmma || u->op->code == OP_dot) return u == &u->op->in[2];
  const tir_op *loop = u->op->parent->owner;
  return u->op->code == OP_yield && loop && loop->code == OP_for && accumulates(u->op->parent->args[u - u->op->in + 1]);
}

/* Whether enough warps share a multiprocessor. Without wgmma nothing is under way when an accumulator is scaled. */
static bool covered(tir_fn *fn, const pass_cx *cx) {
  bool wgmma = false;
  for (const tir_op *op = tir_first(fn); op && !wgmma; op = tir_next(op)) wgmma = op->code == OP_wgmma;
  if (!wgmma) return true;
  int blocks = fn->producer_warps ? roles_of(fn, cx->arch, fn->producer_warps, shared_bytes_of(fn, NULL, 0)).blocks : 1;
  int warps = fn->num_warps * fn->gang;
  return warps >= WARPS_OF_A_BLOCK || blocks * warps >= WARPS_THAT_COVER;
}

bool pass_rescale(tir_fn *fn, const pass_cx *cx) {
  bool any = false;
  for (tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    const tir_type *t = op->n_out ? op->out[0]->type : NULL;
    if (op->code != OP_mul || !tir_is_tile(t) || tir_dtype_of(t) != DT_f32 || !accumulates(op->out[0])) continue;
    for (int i = 0; i < 2; i++) {
      tir_value *by = tir_in(op, i), *acc = tir_in(op, 1 - i), *f = factors(by);
      if (!tir_is_tile(f->type) || lay_regs(t->layout) < REGISTERS_PER_FACTOR * lay_regs(f->type->layout)) continue;
      if (!chosen(op->parent, f, DEEP) || !covered(fn, cx)) continue;
      tir_set_in(op, 0, acc);
      tir_set_in(op, 1, by);
      tir_set_int(op, ATTR_unless_one, 1);
      any = true;
      break;
    }
  }
  return any;
}
