/* Structured control flow to basic blocks. Carried values become one phi per register, or one in all where registers
 * differ by constants. Narrow floats that lie side by side in a word have one phi together, as the operands of tensor
 * cores take them; and an accumulator of wgmma in f16 may be under way round the loop, where nothing may take it apart.
 *
 * A counted loop is entered by a test and left at its end, so that its body is one straight run and code that LLVM
 * hoists out of it is guarded by that first test. It goes on while iv + step < ub, if that sum cannot wrap; else while
 * the rest (ub - iv) is larger than the step, as unsigned numbers. Of a constant bound LLVM would make an unsigned test
 * of iv + step that relies on wrapping, like iv + step < -3 for a loop down to 0 in steps of 2, and ptxas (13.0)
 * unrolls that into a loop that never ends. */
#include "compiler/llvm/ll_internal.h"

typedef struct phis {
  int n;
  tir_value *const *of;
  ll_v **at; /* [i][k]: phi k of value i */
} phis;

/* Registers that share a phi. */
static int in_word(const ll *e, const tir_value *v) {
  const lay_t *l = tir_is_tile(v->type) ? v->type->layout : NULL;
  tir_dtype d = tir_dtype_of(v->type);
  if (!l || e->delta[v->id] || !dt_is_float(d)) return 1;
  int n = 1;
  for (int i = 0; n * tir_dtypes[d].bytes < 4; i++, n *= 2)
    if (i >= l->nbits[LAY_REG] || l->basis[LAY_REG][i] != (uint32_t)n) return 1;
  return n;
}

/* The first register alone needs a phi if the others follow from it. */
static int n_phis(const ll *e, const tir_value *v) {
  if (ll_skips(e, v)) return 0;
  if (tir_is_tile(v->type) && e->delta[v->id]) return 1;
  return ll_regs(v->type) / in_word(e, v);
}

/* Phis for the registers of each value, in the block the builder is at, which must be empty but for phis. */
static phis make_phis(ll *e, int n, tir_value *const *of) {
  phis p = {n, of, ARENA_ARRAY(e->a, ll_v *, n + 1)};
  for (int i = 0; i < n; i++) {
    if (ll_skips(e, of[i])) continue;
    LLVMTypeRef t = in_word(e, of[i]) > 1 ? e->i32 : ll_type(e, of[i]->type);
    p.at[i] = ll_new(e, ll_regs(of[i]->type));
    for (int k = 0; k < n_phis(e, of[i]); k++) p.at[i][k] = LLVMBuildPhi(e->b, t, "");
  }
  for (int i = 0; i < n; i++) {
    if (ll_skips(e, of[i])) continue;
    ll_v *regs = p.at[i];
    int per = in_word(e, of[i]);
    if (per > 1) {
      regs = ll_new(e, ll_regs(of[i]->type));
      for (int k = 0; k < n_phis(e, of[i]); k++)
        ll_unpack_word(e, p.at[i][k], ll_type(e, of[i]->type), regs + per * k, per);
    }
    ll_def(e, of[i], regs);
    ll_derive(e, of[i], regs);
  }
  return p;
}

/* Adds the registers of operands first.. of op as incoming values from a block, which has its branch already. */
static void feed(ll *e, phis p, const tir_op *op, int first, LLVMBasicBlockRef from) {
  LLVMBasicBlockRef at = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderBefore(e->b, LLVMGetBasicBlockTerminator(from));
  for (int i = 0; i < p.n; i++) {
    if (ll_skips(e, p.of[i])) continue;
    ll_v *regs = ll_use(e, tir_in(op, first + i));
    int per = in_word(e, p.of[i]);
    for (int k = 0; k < n_phis(e, p.of[i]); k++) {
      ll_v in = per > 1 ? ll_pack_word(e, regs + per * k, per) : regs[k];
      LLVMAddIncoming(p.at[i][k], &in, &from, 1);
    }
  }
  LLVMPositionBuilderAtEnd(e->b, at);
}

static LLVMBasicBlockRef block(ll *e) { return LLVMAppendBasicBlockInContext(e->c, e->f, ""); }
static LLVMBasicBlockRef here(ll *e) { return LLVMGetInsertBlock(e->b); }

static void forbid_unrolling(ll *e, ll_v branch) {
  LLVMMetadataRef name = LLVMMDStringInContext2(e->c, "llvm.loop.unroll.disable", 24);
  LLVMMetadataRef self = LLVMTemporaryMDNode(e->c, NULL, 0), parts[2] = {self, LLVMMDNodeInContext2(e->c, &name, 1)};
  LLVMMetadataRef loop = LLVMMDNodeInContext2(e->c, parts, 2);
  LLVMMetadataReplaceAllUsesWith(self, loop);
  LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->c, "llvm.loop", 9), LLVMMetadataAsValue(e->c, loop));
}

/* Whether the induction variable plus the step is a number of its type wherever the loop is not at its end yet. */
static bool cannot_wrap(const tir_op *op, int64_t step) {
  tir_dtype d = tir_dtype_of(tir_in(op, 0)->type);
  int bits = tir_dtypes[d].bits;
  int64_t ub, most = dt_is_signed(d) ? INT64_MAX >> (64 - bits) : bits < 64 ? (INT64_C(1) << bits) - 1 : INT64_MAX;
  int64_t least = dt_is_signed(d) ? -most - 1 : 0;
  if (step == 1 || (step == -1 && dt_is_signed(d))) return true;
  if (!step || !tir_known_int(tir_in(op, 1), &ub) || ub < least || ub > most) return false;
  return step > 0 ? ub <= most - (step - 1) : ub >= least - (step + 1);
}

void ll_for(ll *e, const tir_op *op) {
  const tir_region *body = op->regions[0];
  ll_v lb = ll_use_scalar(e, tir_in(op, 0)), ub = ll_use_scalar(e, tir_in(op, 1)),
       step = ll_use_scalar(e, tir_in(op, 2));
  bool is_signed = dt_is_signed(tir_in(op, 0)->type->dtype);
  int64_t stride = 0; /* 0: not known */
  if (!tir_known_int(tir_in(op, 2), &stride)) stride = 0;
  bool down = is_signed && stride < 0;
  LLVMIntPredicate enters = down ? LLVMIntSGT : is_signed ? LLVMIntSLT : LLVMIntULT;

  LLVMBasicBlockRef before = here(e), loop = block(e), after = block(e);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, enters, lb, ub, ""), loop, after);

  LLVMPositionBuilderAtEnd(e->b, loop);
  ll_v *iv = ll_new(e, 1);
  iv[0] = LLVMBuildPhi(e->b, LLVMTypeOf(lb), "");
  LLVMAddIncoming(iv[0], &lb, &before, 1);
  ll_def(e, body->args[0], iv);
  phis carried = make_phis(e, op->n_out, body->args + 1);
  feed(e, carried, op, 3, before);
  ll_region(e, body);

  ll_v next = LLVMBuildAdd(e->b, iv[0], step, "");
  if (is_signed) LLVMSetNSW(next, true);
  ll_v again;
  if (cannot_wrap(op, stride)) {
    again = LLVMBuildICmp(e->b, enters, next, ub, "");
  } else {
    ll_v rest = down ? LLVMBuildSub(e->b, iv[0], ub, "") : LLVMBuildSub(e->b, ub, iv[0], "");
    again = LLVMBuildICmp(e->b, LLVMIntUGT, rest, down ? LLVMBuildNeg(e->b, step, "") : step, "");
  }
  LLVMBasicBlockRef latch = here(e);
  ll_v branch = LLVMBuildCondBr(e->b, again, loop, after);
  if (tir_attr_int(op, ATTR_unroll, 0) == 1) forbid_unrolling(e, branch);
  LLVMAddIncoming(iv[0], &next, &latch, 1);
  feed(e, carried, body->last, 0, latch);

  LLVMPositionBuilderAtEnd(e->b, after);
  phis results = make_phis(e, op->n_out, op->out);
  feed(e, results, op, 3, before);
  feed(e, results, body->last, 0, latch);
}

void ll_while(ll *e, const tir_op *op) {
  const tir_region *test = op->regions[0], *body = op->regions[1];
  LLVMBasicBlockRef before = here(e), head = block(e), loop = block(e), after = block(e);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  phis carried = make_phis(e, op->n_in, test->args);
  feed(e, carried, op, 0, before);
  ll_region(e, test);
  const tir_op *cond = test->last;
  LLVMBuildCondBr(e->b, ll_use_scalar(e, tir_in(cond, 0)), loop, after);

  LLVMPositionBuilderAtEnd(e->b, loop);
  for (int i = 0; i < body->n_args; i++)
    if (!ll_skips(e, body->args[i])) ll_def(e, body->args[i], ll_use(e, tir_in(cond, i + 1)));
  if (e->fn->gang > 1 && tir_next_program(op))
    ll_gang_body(e, body, tir_next_program(op));
  else
    ll_region(e, body);
  LLVMBasicBlockRef latch = here(e);
  LLVMBuildBr(e->b, head);
  feed(e, carried, body->last, 0, latch);

  LLVMPositionBuilderAtEnd(e->b, after);
  for (int i = 0; i < op->n_out; i++)
    if (!ll_skips(e, op->out[i])) ll_def(e, op->out[i], ll_use(e, tir_in(cond, i + 1)));
}

void ll_if_op(ll *e, const tir_op *op) {
  LLVMBasicBlockRef arm[2] = {block(e), block(e)}, after = block(e), end[2];
  LLVMBuildCondBr(e->b, ll_use_scalar(e, tir_in(op, 0)), arm[0], arm[1]);
  for (int k = 0; k < 2; k++) {
    LLVMPositionBuilderAtEnd(e->b, arm[k]);
    ll_region(e, op->regions[k]);
    end[k] = here(e);
    LLVMBuildBr(e->b, after);
  }
  LLVMPositionBuilderAtEnd(e->b, after);
  phis results = make_phis(e, op->n_out, op->out);
  for (int k = 0; k < 2 && op->n_out; k++) feed(e, results, op->regions[k]->last, 0, end[k]);
}
