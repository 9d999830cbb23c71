/* Programs side by side in a block (passes/gang.h): each has its own consumer warps and its own part of shared memory;
 * rings of tiles that all of them read, and their barriers, are there once.
 *
 * The producer makes, for a block's next programs p, p + 1, .., first the copies that each of them has for itself, then
 * those that all read, as the program whose loops run longest needs them. The other programs take up and give back the
 * tiles that they do not need when they are done, so that all stay at the same stage. Programs behind the end of the
 * grid do nothing else, and there may be none that does anything, in a block that a launch did not need. How long loops
 * run is computed from their bounds by both roles, for each of the programs. */
#include "compiler/llvm/ll_internal.h"

void ll_gang_for(ll *e, int index, ll_v member) {
  e->gang.index = index;
  e->gang.member = member ? member : ll_i32(e, (uint32_t)index);
  uint32_t own = (uint32_t)((e->fn->shared_bytes - e->fn->gang_bytes) / e->fn->gang);
  e->gang.offset = LLVMBuildMul(e->b, e->gang.member, ll_i32(e, own), "");
}

void ll_gang_begin(ll *e) {
  if (e->fn->gang == 1) return;
  ll_v warp = ll_uniform_warp(e);
  ll_gang_for(e, 0, LLVMBuildLShr(e->b, warp, ll_i32(e, (uint32_t)e->warp_bits), ""));
  uint32_t warps = (uint32_t)e->fn->num_warps;
  e->warp = LLVMBuildAnd(e->b, warp, ll_i32(e, warps - 1), "");
  e->tid = LLVMBuildAnd(e->b, e->tid, ll_i32(e, (warps << LAY_LANE_BITS) - 1), "");
}

static bool loads_common(const tir_op *loop) {
  if (loop->code != OP_for) return false;
  for (const tir_op *op = loop->regions[0]->first; op; op = op->next)
    if (op->code == OP_tma_load && ll_is_common(op)) return true;
  return false;
}

static ll_v iterations(ll *e, const tir_op *loop) {
  ll_v bound[3];
  for (int i = 0; i < 3; i++) bound[i] = ll_use_scalar(e, tir_in(loop, i));
  ll_v some = LLVMBuildICmp(e->b, LLVMIntSLT, bound[0], bound[1], ""), one = ll_int(LLVMTypeOf(bound[2]), 1);
  ll_v rest = LLVMBuildSub(e->b, LLVMBuildSub(e->b, bound[1], bound[0], ""), one, "");
  ll_v n = LLVMBuildAdd(e->b, LLVMBuildUDiv(e->b, rest, bound[2], ""), one, "");
  return LLVMBuildSelect(e->b, some, LLVMBuildIntCast2(e->b, n, e->i32, false, ""), ll_i32(e, 0), "");
}

/* Iterations of the loops of one program that load what all read; -1: there is no such program. */
static ll_v length(ll *e, const tir_region *body, const tir_op *next) {
  const slice *before = e->ahead;
  slice *bounds = slice_new(e->fn, e->a);
  for (const tir_op *op = body->first; op; op = op->next)
    for (int i = 0; i < 3 && loads_common(op); i++) slice_need(bounds, tir_in(op, i));
  BASE_ASSERT(!slice_problem(bounds));
  e->ahead = bounds;
  ll_ops(e, body->first, next);
  e->ahead = before;
  ll_v sum = ll_i32(e, 0), n = ll_use_scalar(e, body->args[0]);
  for (const tir_op *op = body->first; op; op = op->next)
    if (loads_common(op)) sum = LLVMBuildAdd(e->b, sum, iterations(e, op), "");
  ll_v there = LLVMBuildICmp(e->b, LLVMIntULT, ll_program_along(e, n, 0), ll_programs_along(e, 0), "");
  return LLVMBuildSelect(e->b, there, sum, ll_i32(e, UINT32_MAX), "");
}

static ll_v larger(ll *e, ll_v x, ll_v y) { return LLVMBuildICmp(e->b, LLVMIntSGT, x, y, ""); }

static bool is_own(const tir_op *load) { return !ll_is_common(load); }

static void produce(ll *e, const tir_region *body, const tir_op *next, const ll_v *lengths) {
  const slice *all = e->ahead, *own = slice_of_copies(e->fn, e->a, is_own);
  ll_v longest = lengths[0], leader = ll_i32(e, 0);
  for (int i = 0; i < e->fn->gang; i++) {
    ll_gang_for(e, i, NULL);
    ll_guard g = ll_if(e, LLVMBuildICmp(e->b, LLVMIntSGE, lengths[i], ll_i32(e, 0), ""));
    e->ahead = own;
    ll_ops(e, body->first, next);
    ll_end_if(e, g);
    ll_v more = larger(e, lengths[i], longest);
    leader = LLVMBuildSelect(e->b, more, ll_i32(e, (uint32_t)i), leader, "");
    longest = LLVMBuildSelect(e->b, more, lengths[i], longest, "");
  }
  ll_gang_for(e, 0, leader);
  ll_guard any = ll_if(e, LLVMBuildICmp(e->b, LLVMIntSGE, longest, ll_i32(e, 0), ""));
  e->ahead = slice_of_copies(e->fn, e->a, ll_is_common);
  ll_ops(e, body->first, next);
  ll_end_if(e, any);
  e->ahead = all;
  ll_ops(e, next, NULL);
}

void ll_gang_body(ll *e, const tir_region *body, const tir_op *next) {
  ll_v lengths[TIR_MAX_GANG];
  ll_gang own_gang = e->gang;
  for (int i = 0; i < e->fn->gang; i++) {
    ll_gang_for(e, i, NULL);
    lengths[i] = length(e, body, next);
  }
  if (e->ahead) {
    produce(e, body, next, lengths);
    return;
  }
  e->gang = own_gang;
  ll_v longest = lengths[0], own = lengths[0];
  for (int i = 1; i < e->fn->gang; i++) {
    longest = LLVMBuildSelect(e->b, larger(e, lengths[i], longest), lengths[i], longest, "");
    own = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, e->gang.member, ll_i32(e, (uint32_t)i), ""), lengths[i],
                          own, "");
  }
  ll_v absent = LLVMBuildICmp(e->b, LLVMIntSLT, own, ll_i32(e, 0), "");
  ll_guard g = ll_if(e, LLVMBuildNot(e->b, absent, ""));
  ll_ops(e, body->first, next);
  ll_end_if(e, g);
  own = LLVMBuildSelect(e->b, absent, ll_i32(e, 0), own, "");
  ll_v others = LLVMBuildICmp(e->b, LLVMIntSGE, longest, ll_i32(e, 0), "");
  ll_skip_tiles(e, body, LLVMBuildSub(e->b, longest, own, ""), LLVMBuildAnd(e->b, absent, others, ""));
  ll_ops(e, next, NULL);
}
