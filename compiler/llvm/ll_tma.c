/* Rings of tiles that the tensor memory accelerator fills, and the two roles of the block's threads.
 *
 * A ring has two mbarriers for each stage, behind its stages. `full`: one thread of the producer warps arrives, with
 * the number of bytes that it has just asked for, and the copies count them down. `empty`: one arrival of each consumer
 * warp. Each side keeps the stage it is at and the parity to wait for; both flip when the last stage has been passed.
 * The producer's first wait for each stage passes at once, because it waits for the phase before the first.
 *
 * The function is emitted twice. First what its tma_loads need (the slice), for one thread of the producer warps: there
 * a tma_load waits for an empty stage and starts the copies. Then the whole of it, for the other warps: there a
 * tma_load waits for a full stage. What the consumers' part would compute for coordinates alone has no use and falls
 * away.
 *
 * The producers need few registers: with setmaxnreg they leave theirs to the consumers, where that many are needed.
 * In a kernel whose blocks run several programs the producer draws their numbers and hands them on in the same way.
 *
 * The state of a ring is kept in variables that LLVM's mem2reg turns into values.
 * Sources: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "setmaxnreg"; CUTLASS documents the same scheme as "warp
 * specialised". */
#include <string.h>

#include "compiler/analysis/roles.h"
#include "compiler/ir/scratch.h"
#include "compiler/llvm/ll_internal.h"

enum { BARRIER_BYTES = 8 };

typedef struct ring {
  const tir_op *lead; /* its alloc; of the numbers of programs: their next_program */
  int stages, early;
  int64_t barriers_at; /* byte of the first full barrier; the empty ones follow those */
  bool common;         /* for all programs of the block */
  bool in_turn;        /* what is released is always the stage that was taken last */
  ll_v taken;          /* which that is */
  /* i32 variables of the role that is being emitted; of the producer, for each of those programs */
  ll_v stage[TIR_MAX_GANG], parity[TIR_MAX_GANG], released;
} ring;

struct ll_rings {
  VEC(ring) list;
  VEC(const tir_op *) maps;
  ll_v in_warp; /* i1: this thread arrives for its warp */
};

/* ---- what there is ---- */

static int64_t place_of(const tir_op *op) { return tir_attr_int(op, ATTR_scratch, 0); }

bool ll_is_common(const tir_op *load) { return tir_attr_int(tir_in(load, 1)->def, ATTR_common, 0) != 0; }

/* Whether each load from the ring is followed by a release in the same region before there is another one. */
static bool in_turn(const ll *e, const tir_op *lead) {
  const tir_op *taken = NULL;
  for (const tir_op *op = tir_first(e->fn); op; op = tir_next(op)) {
    bool load = op->code == OP_tma_load && tir_in(op, 1)->def == lead;
    bool release = op->code == OP_tma_release && tir_in(op, 0)->def == lead;
    if ((load && taken) || (release && (!taken || taken->parent != op->parent))) return false;
    if (load || release) taken = load ? op : NULL;
  }
  return !taken && !tir_attr_int(lead, ATTR_early, 0);
}

static void find_rings(ll *e) {
  e->rings = ARENA_NEW(e->a, struct ll_rings);
  for (const tir_op *op = tir_first(e->fn); op; op = tir_next(op)) {
    if (op->code == OP_tensor_map) VEC_PUSH(e->a, e->rings->maps, op);
    if (op->code == OP_next_program) {
      ring r = {.lead = op, .stages = TIR_PROGRAM_STAGES, .common = true};
      r.barriers_at = place_of(op) + TIR_PROGRAM_BYTES * TIR_PROGRAM_STAGES;
      VEC_PUSH(e->a, e->rings->list, r);
    }
    if (op->code != OP_tma_load) continue;
    const tir_op *lead = tir_in(op, 1)->def;
    bool seen = false;
    for (int i = 0; i < e->rings->list.n; i++) seen |= e->rings->list.at[i].lead == lead;
    if (seen) continue;
    ring r = {.lead = lead, .stages = lead->out[0]->type->stages, .early = (int)tir_attr_int(lead, ATTR_early, 0)};
    r.barriers_at = place_of(lead) + tir_buffer_stage_bytes(lead->out[0]->type) * r.stages;
    r.common = ll_is_common(op);
    r.in_turn = in_turn(e, lead);
    VEC_PUSH(e->a, e->rings->list, r);
  }
}

static ring *ring_of(ll *e, const tir_op *lead) {
  for (int i = 0; i < e->rings->list.n; i++)
    if (e->rings->list.at[i].lead == lead) return &e->rings->list.at[i];
  base_panic("a ring that no tma_load fills");
}

int ll_n_maps(const tir_fn *fn) {
  int n = 0;
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) n += op->code == OP_tensor_map;
  return n;
}

bool ll_skips(const ll *e, const tir_value *v) { return e->ahead && !slice_has_value(e->ahead, v); }

/* ---- small verbs ---- */

static ll_v effect(ll *e, const char *text, const char *constraints, int n, ll_v *args, ll_asm_kind kind) {
  return ll_asm_text(e, text, constraints, e->void_, n, args, -1, kind);
}

static ll_v times(ll *e, ll_v v, int64_t by, int64_t plus) {
  ll_v x = LLVMBuildMul(e->b, v, ll_i32(e, (uint32_t)by), "");
  return LLVMBuildAdd(e->b, x, ll_shared_address(e, plus), "");
}

static ll_v get(ll *e, ll_v variable) { return LLVMBuildLoad2(e->b, e->i32, variable, ""); }

/* mem2reg looks at the entry block alone. */
static ll_v variable(ll *e, uint32_t value) {
  LLVMBasicBlockRef here = ll_hoist_begin(e);
  ll_v v = LLVMBuildAlloca(e->b, e->i32, "");
  ll_hoist_end(e, here);
  LLVMBuildStore(e->b, ll_i32(e, value), v);
  return v;
}

/* Which of a ring's variables count. */
static int index_of(const ll *e, const ring *r) { return r->common ? 0 : e->gang.index; }

static ll_v stage_of(ll *e, const ring *r) { return get(e, r->stage[index_of(e, r)]); }
static ll_v parity_of(ll *e, const ring *r) { return get(e, r->parity[index_of(e, r)]); }

/* The stage behind `at`; *wraps: it is the first one again. */
static ll_v following(ll *e, const ring *r, ll_v at, ll_v *wraps) {
  *wraps = LLVMBuildICmp(e->b, LLVMIntEQ, at, ll_i32(e, (uint32_t)r->stages - 1), "");
  return LLVMBuildSelect(e->b, *wraps, ll_i32(e, 0), LLVMBuildAdd(e->b, at, ll_i32(e, 1), ""), "");
}

static void wait_for(ll *e, ll_v barrier, ll_v parity) {
  ll_v args[] = {barrier, parity};
  effect(e,
         "{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; @p bra DONE; bra AGAIN; DONE: }",
         "r,r,~{memory}", 2, args, e->ahead ? LL_EFFECT : LL_COLLECTIVE);
}

/* The barriers of the stage that r is at. */
static ll_v full_barrier(ll *e, const ring *r, ll_v at) { return times(e, at, BARRIER_BYTES, r->barriers_at); }

static ll_v empty_barrier(ll *e, const ring *r, ll_v at) {
  return times(e, at, BARRIER_BYTES, r->barriers_at + BARRIER_BYTES * r->stages);
}

static void move_on(ll *e, ring *r, ll_v at, ll_v parity) {
  ll_v wraps, next = following(e, r, at, &wraps);
  LLVMBuildStore(e->b, next, r->stage[index_of(e, r)]);
  LLVMBuildStore(e->b, LLVMBuildXor(e->b, parity, LLVMBuildZExt(e->b, wraps, e->i32, ""), ""),
                 r->parity[index_of(e, r)]);
}

/* ---- ops ---- */

void ll_tensor_map(ll *e, const tir_op *op) {
  int i = 0;
  while (e->rings->maps.at[i] != op) i++;
  ll_v *one = ll_new(e, 1);
  one[0] = LLVMGetParam(e->f, (unsigned)(e->fn->n_params + i));
  ll_def(e, op->out[0], one);
}

/* The copies of one tile: a box of the tensor for each swizzled row's width along the contiguous axis. */
static void copy_tile(ll *e, const tir_op *op, int i, int first_coordinate, ll_v to, ll_v barrier) {
  const tir_op *map = tir_in(op, 2 * i)->def;
  const tir_attr *sides = tir_attr_of(map, ATTR_box);
  const tir_type *t = op->out[i]->type;
  int64_t box_bytes = sides->ints[0] * sides->ints[1] * ll_elem_bytes(t),
          n = t->shape[t->shared->inner_axis] / sides->ints[0];
  for (int64_t k = 0; k < n; k++) {
    ll_v args[3 + TIR_MAX_MAP_RANK];
    textbuf text, cons;
    text_init(&text, e->a);
    text_init(&cons, e->a);
    args[0] = k ? LLVMBuildAdd(e->b, to, ll_i32(e, (uint32_t)(k * box_bytes)), "") : to;
    args[1] = ll_use_scalar(e, tir_in(op, 2 * i));
    args[2] = barrier;
    text_printf(&text, "cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, {",
                sides->n);
    text_str(&cons, "r,l,r");
    for (int c = 0; c < sides->n; c++) {
      ll_v at = ll_use_scalar(e, tir_in(op, first_coordinate + c));
      args[3 + c] = c || !k ? at : LLVMBuildAdd(e->b, at, ll_i32(e, (uint32_t)(k * sides->ints[0])), "");
      text_printf(&text, "%s$%d", c ? ", " : "", 3 + c);
      text_str(&cons, ",r");
    }
    text_str(&text, "}], [$2];");
    text_str(&cons, ",~{memory}");
    effect(e, text.at, cons.at, 3 + sides->n, args, LL_EFFECT);
  }
}

void ll_tma_load(ll *e, const tir_op *op) {
  ring *r = ring_of(e, tir_in(op, 1)->def);
  ll_v at = stage_of(e, r), parity = parity_of(e, r), full = full_barrier(e, r, at);
  if (e->ahead) {
    int64_t bytes = 0;
    int coordinate = 2 * op->n_out;
    for (int i = 0; i < op->n_out; i++) bytes += tir_buffer_stage_bytes(op->out[i]->type);
    wait_for(e, empty_barrier(e, r, at), parity);
    effect(e, arena_printf(e->a, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], %lld;", (long long)bytes),
           "r,~{memory}", 1, &full, LL_EFFECT);
    for (int i = 0; i < op->n_out; i++) {
      const tir_op *alloc = tir_in(op, 2 * i + 1)->def;
      copy_tile(e, op, i, coordinate, times(e, at, tir_buffer_stage_bytes(op->out[i]->type), place_of(alloc)), full);
      coordinate += tir_attr_of(tir_in(op, 2 * i)->def, ATTR_box)->n;
    }
  } else {
    wait_for(e, full, parity);
    for (int i = 0; i < op->n_out; i++) {
      ll_v *view = ll_new(e, 1);
      view[0] = times(e, at, tir_buffer_stage_bytes(op->out[i]->type), place_of(tir_in(op, 2 * i + 1)->def));
      ll_def(e, op->out[i], view);
    }
    r->taken = at;
  }
  move_on(e, r, at, parity);
}

/* The stage that comes next to be released starts at -1 where the first release has no effect. */
static void release(ll *e, ring *r) {
  ll_v at = r->in_turn ? r->taken : get(e, r->released), wraps, arrives = e->rings->in_warp;
  if (r->early) arrives = LLVMBuildAnd(e->b, arrives, LLVMBuildICmp(e->b, LLVMIntSGE, at, ll_i32(e, 0), ""), "");
  ll_v args[] = {empty_barrier(e, r, at), arrives};
  ll_warp_sync(e);
  effect(e, "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b,~{memory}", 2, args, LL_COLLECTIVE);
  if (!r->in_turn) LLVMBuildStore(e->b, following(e, r, at, &wraps), r->released);
}

void ll_tma_release(ll *e, const tir_op *op) { release(e, ring_of(e, tir_in(op, 0)->def)); }

/* Takes up `count` times a tile of each ring of `which`, as the producer fills them: in turn. */
static void skip(ll *e, ll_v count, int n, ring *const *which) {
  ll_v left = variable(e, 0);
  LLVMBuildStore(e->b, count, left);
  LLVMBasicBlockRef head = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  ll_v some = get(e, left);
  ll_guard g = ll_if(e, LLVMBuildICmp(e->b, LLVMIntSGT, some, ll_i32(e, 0), ""));
  for (int i = 0; i < n; i++) {
    ll_v at = stage_of(e, which[i]), parity = parity_of(e, which[i]);
    wait_for(e, full_barrier(e, which[i], at), parity);
    move_on(e, which[i], at, parity);
    which[i]->taken = at;
    release(e, which[i]);
  }
  LLVMBuildStore(e->b, LLVMBuildSub(e->b, some, ll_i32(e, 1), ""), left);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, g.after);
}

void ll_skip_tiles(ll *e, const tir_region *program, ll_v count, ll_v whole) {
  VEC(ring *) common = {0}, outside = {0};
  for (int i = 0; i < e->rings->list.n; i++)
    if (e->rings->list.at[i].common && e->rings->list.at[i].lead->code == OP_alloc)
      VEC_PUSH(e->a, common, &e->rings->list.at[i]);
  for (const tir_op *op = program->first; op; op = op->next)
    if (op->code == OP_tma_load && ll_is_common(op)) VEC_PUSH(e->a, outside, ring_of(e, tir_in(op, 1)->def));
  skip(e, count, common.n, common.at);
  if (outside.n) skip(e, LLVMBuildZExt(e->b, whole, e->i32, ""), outside.n, outside.at);
}

/* The producer draws a number and hands it on. Who draws the last one that can be drawn leaves the counter at 0: each
   block draws until it gets a number past the end, so there are as many draws as programs. */
void ll_next_program(ll *e, const tir_op *op) {
  ring *r = ring_of(e, op);
  ll_v at = stage_of(e, r), parity = parity_of(e, r), *next = ll_new(e, 1);
  ll_v args[] = {times(e, at, TIR_PROGRAM_BYTES, place_of(op)), full_barrier(e, r, at)};
  if (e->ahead) {
    next[0] = ll_draw_program(e);
    wait_for(e, empty_barrier(e, r, at), parity);
    ll_v all[] = {args[0], args[1], next[0]};
    effect(e, "st.shared.u32 [$0], $2; mbarrier.arrive.shared::cta.b64 _, [$1];", "r,r,r,~{memory}", 3, all, LL_EFFECT);
  } else {
    wait_for(e, args[1], parity);
    ll_v number = ll_asm_text(e, "ld.shared.u32 $0, [$1];", "=r,r,~{memory}", e->i32, 1, args, -1, LL_EFFECT);
    ll_v all[] = {ll_i32(e, UINT32_MAX), number, ll_i32(e, 0), ll_i32(e, 31)};
    next[0] = ll_intrinsic(e, IN_shfl_idx, 4, all); /* ptxas then knows that it is one value for the warp */
    ll_v release[] = {empty_barrier(e, r, at), e->rings->in_warp};
    effect(e, "@$1 mbarrier.arrive.shared::cta.b64 _, [$0];", "r,b,~{memory}", 2, release, LL_COLLECTIVE);
  }
  ll_def(e, op->out[0], next);
  move_on(e, r, at, parity);
}

/* ---- roles ---- */

static void start_rings(ll *e, bool producer) {
  for (int i = 0; i < e->rings->list.n; i++) {
    ring *r = &e->rings->list.at[i];
    for (int k = 0; k < (producer && !r->common ? e->fn->gang : 1); k++) {
      r->stage[k] = variable(e, 0);
      r->parity[k] = variable(e, producer ? 1 : 0);
    }
    if (!producer && !r->in_turn) r->released = variable(e, r->early ? UINT32_MAX : 0);
  }
}

static void init_barriers(ll *e) {
  for (int i = 0; i < e->rings->list.n; i++) {
    const ring *r = &e->rings->list.at[i];
    int programs = r->common ? 1 : e->fn->gang, warps = e->fn->num_warps * e->fn->gang / programs;
    for (int k = 0; k < 2 * r->stages * programs; k++) {
      int stage = k % (2 * r->stages);
      ll_gang_for(e, k / (2 * r->stages), NULL);
      ll_v at = ll_shared_address(e, r->barriers_at + BARRIER_BYTES * stage);
      effect(e, arena_printf(e->a, "mbarrier.init.shared::cta.b64 [$0], %d;", stage < r->stages ? 1 : warps),
             "r,~{memory}", 1, &at, LL_EFFECT);
    }
  }
  effect(e, "fence.mbarrier_init.release.cluster;", "~{memory}", 0, NULL, LL_EFFECT);
}

static void set_registers(ll *e, const char *how, int count) {
  effect(e, arena_printf(e->a, "setmaxnreg.%s.sync.aligned.u32 %d;", how, count), "~{memory}", 0, NULL, LL_COLLECTIVE);
}

static void function_attribute(ll *e, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(e->f, LL_FUNCTION,
                          LLVMCreateStringAttribute(e->c, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

/* Consumers wait until the barriers have been made; the producers go on at once. */
static void meet(ll *e, const char *how) {
  int threads = ARCH_WARP * tir_block_warps(e->fn);
  effect(e, arena_printf(e->a, "bar.%s 0, %d;", how, threads), "~{memory}", 0, NULL, LL_COLLECTIVE);
}

static void produce(ll *e, ll_v first) {
  ll_v **mine = e->val;
  e->val = ARENA_ARRAY(e->a, ll_v *, e->fn->n_values + 1);
  for (int i = 0; i < e->fn->n_params; i++) ll_def(e, e->fn->params[i].value, mine[e->fn->params[i].value->id]);
  for (int i = 0; i < e->rings->maps.n; i++) ll_tensor_map(e, e->rings->maps.at[i]);
  e->ahead = slice_of_copies(e->fn, e->a, NULL);
  BASE_ASSERT(!slice_problem(e->ahead));
  ll_guard g = ll_if(e, first);
  for (int i = 0; i < e->rings->maps.n; i++) {
    ll_v map = ll_use_scalar(e, e->rings->maps.at[i]->out[0]);
    effect(e, "prefetch.tensormap [$0];", "l,~{memory}", 1, &map, LL_EFFECT);
  }
  init_barriers(e);
  ll_end_if(e, g);
  ll_warp_sync(e);
  meet(e, "arrive");
  g = ll_if(e, first);
  start_rings(e, true);
  ll_region(e, e->fn->body);
  ll_end_if(e, g);
  LLVMBuildRetVoid(e->b);
  e->ahead = NULL;
  e->val = mine;
}

void ll_part_roles(ll *e) {
  find_rings(e);
  if (!e->rings->list.n) return;
  e->uses_rings = true;
  int consumers = ARCH_WARP * e->fn->num_warps * e->fn->gang;
  roles registers = roles_of(e->fn, e->arch, e->fn->producer_warps, e->fn->shared_bytes);
  if (registers.blocks > 1 || registers.consumers)
    function_attribute(e, "nvvm.minctasm", arena_printf(e->a, "%d", registers.blocks));
  e->rings->in_warp = LLVMBuildICmp(e->b, LLVMIntEQ, ll_lane(e), ll_i32(e, 0), "");
  LLVMBasicBlockRef producer = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  LLVMBasicBlockRef consumer = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  ll_v ahead = LLVMBuildICmp(e->b, LLVMIntUGE, ll_uniform_warp(e), ll_i32(e, (uint32_t)consumers / ARCH_WARP), "");
  ll_v first = LLVMBuildICmp(e->b, LLVMIntEQ, e->tid, ll_i32(e, (uint32_t)consumers), "");
  ll_gang_begin(e);
  LLVMBuildCondBr(e->b, ahead, producer, consumer);
  LLVMPositionBuilderAtEnd(e->b, producer);
  if (registers.consumers) set_registers(e, "dec", ROLES_PRODUCER_REGISTERS);
  ll_gang consumers_gang = e->gang;
  produce(e, first);
  e->gang = consumers_gang;
  LLVMPositionBuilderAtEnd(e->b, consumer);
  if (registers.consumers) set_registers(e, "inc", registers.consumers);
  meet(e, "sync");
  start_rings(e, false);
}
