/* Which program a block runs.
 *
 * A block runs the one that its index names, or, in a kernel with next_program, one after the other. Such a kernel has
 * a last parameter of 24 bytes:
 *
 *   u64 counter    address of a 0 in global memory, or 0
 *   u32 grid[3]    programs along the axes
 *   u32 turns      their product; where a block runs a gang of programs side by side (ll_gang.c), which follow each
 *                  other along x, ceil(grid[0] / gang) * grid[1] * grid[2]
 *
 * Without turns a block runs the program that its index names. A gang begins at its index along x times the programs of
 * a gang: if there is a block for each program, most have nothing to do. With turns all blocks lie along x. Block i
 * takes turn i first, counting along x, then y, then z. With a counter there may be fewer blocks than turns: each other
 * number is drawn from the counter. */
#include "compiler/llvm/ll_internal.h"

static const ll_intrinsic_id block_id[3] = {IN_ctaid_x, IN_ctaid_y, IN_ctaid_z};
static const ll_intrinsic_id blocks[3] = {IN_nctaid_x, IN_nctaid_y, IN_nctaid_z};

static ll_v field(ll *e, LLVMTypeRef type, uint32_t at) {
  ll_v offset = ll_i32(e, at);
  return LLVMBuildLoad2(e->b, type, LLVMBuildInBoundsGEP2(e->b, e->i8, e->programs.param, &offset, 1, ""), "");
}

void ll_programs_begin(ll *e, ll_v param) {
  e->programs.param = param;
  e->programs.counter = field(e, e->i64, LL_PROGRAMS_COUNTER);
  e->programs.drawn = LLVMBuildICmp(e->b, LLVMIntNE, e->programs.counter, ll_int(e->i64, 0), "");
  e->programs.turns = field(e, e->i32, LL_PROGRAMS_TURNS);
  e->programs.counted = LLVMBuildICmp(e->b, LLVMIntNE, e->programs.turns, ll_i32(e, 0), "");
  for (uint32_t i = 0; i < 3; i++) e->programs.grid[i] = field(e, e->i32, LL_PROGRAMS_GRID + 4 * i);
}

/* Without turns the grid is zeros there, which nothing may be divided by. */
static ll_v divisor(ll *e, int axis) {
  ll_v n = e->programs.grid[axis];
  uint32_t gang = axis ? 1 : (uint32_t)e->fn->gang;
  if (gang > 1) n = LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, n, ll_i32(e, gang - 1), ""), ll_i32(e, gang), "");
  ll_v none = LLVMBuildICmp(e->b, LLVMIntEQ, n, ll_i32(e, 0), "");
  return LLVMBuildSelect(e->b, none, ll_i32(e, 1), n, "");
}

ll_v ll_program_id(ll *e, const tir_op *op) {
  int axis = (int)tir_attr_int(op, ATTR_axis, 0);
  return op->n_in ? ll_program_along(e, ll_use_scalar(e, tir_in(op, 0)), axis)
                  : ll_intrinsic(e, block_id[axis], 0, NULL);
}

ll_v ll_program_along(ll *e, ll_v n, int axis) {
  ll_v own = ll_intrinsic(e, block_id[axis], 0, NULL);
  for (int i = 0; i < axis; i++) n = LLVMBuildUDiv(e->b, n, divisor(e, i), "");
  if (axis < 2) n = LLVMBuildURem(e->b, n, divisor(e, axis), "");
  n = LLVMBuildSelect(e->b, e->programs.counted, n, own, "");
  if (axis || e->fn->gang == 1) return n;
  return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, n, ll_i32(e, (uint32_t)e->fn->gang), ""), e->gang.member, "");
}

ll_v ll_programs_along(ll *e, int axis) {
  ll_v own = ll_intrinsic(e, blocks[axis], 0, NULL);
  return LLVMBuildSelect(e->b, e->programs.counted, e->programs.grid[axis], own, "");
}

ll_v ll_num_programs(ll *e, const tir_op *op) {
  int axis = (int)tir_attr_int(op, ATTR_axis, 0);
  return op->n_in ? ll_programs_along(e, axis) : ll_intrinsic(e, blocks[axis], 0, NULL);
}

ll_v ll_draw_program(ll *e) {
  ll_v args[] = {e->programs.counter, e->programs.drawn, e->programs.turns, ll_intrinsic(e, IN_nctaid_x, 0, NULL)};
  /* With b blocks, number i of the counter is turn b + i; i = turns - 1 is the last draw of all. */
  return ll_asm_text(e,
                     "{ .reg .pred p; .reg .u32 last; mov.u32 $0, -1; @$2 atom.global.add.u32 $0, [$1], 1; "
                     "sub.u32 last, $3, 1; setp.eq.and.u32 p, $0, last, $2; @p st.global.u32 [$1], 0; "
                     "add.u32 $0, $0, $4; setp.lt.and.u32 p, $0, $3, $2; selp.b32 $0, $0, -1, p; }",
                     "=&r,l,b,r,r,~{memory}", e->i32, 4, args, -1, LL_EFFECT);
}
