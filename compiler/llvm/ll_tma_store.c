/* Stores of tiles by the tensor memory accelerator.
 *
 * A round writes a part of the tile to one of two buffers in shared memory (lay_panels), from the layout that it has in
 * registers; after a barrier thread 0 starts the copies to the tensor, as one group. So it is thread 0 that knows when
 * a buffer has been read: before a round writes where an earlier one has written, it waits for all groups but the last,
 * and all wait for it. In a loop, and behind another store through the same pointer, the first round waits until those
 * have landed: copies of one thread do not keep an order. When the kernel ends, shared memory must have been read.
 *
 * What thread 0 does alone is predicated, without branches: ptxas gives up wgmma's asynchrony where accumulators are
 * read in several basic blocks. Source: PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.wait_group". */
#include "compiler/llvm/ll_internal.h"

/* Of the groups that `me` has started: until all but `pending` have landed, or been read. */
static void wait_for_copies(ll *e, ll_v me, const char *read, int pending) {
  ll_asm_text(e, arena_printf(e->a, "@$0 cp.async.bulk.wait_group%s %d;", read, pending), "b,~{memory}", e->void_, 1,
              &me, -1, LL_EFFECT);
}

static bool by_warp(const tir_op *op) { return tir_attr_int(op, ATTR_by_warp, 0) != 0; }

/* i1: this thread starts copies. */
static ll_v starts(ll *e, bool by_warp) {
  return by_warp ? LLVMBuildICmp(e->b, LLVMIntEQ, ll_lane(e), ll_i32(e, 0), "") : ll_single_thread(e);
}

static void meet(ll *e, bool by_warp) {
  if (by_warp)
    ll_warp_sync(e);
  else
    ll_barrier(e);
}

static lay_panels panels_of(ll *e, const tir_op *op) {
  const tir_type *t = tir_in(op, 1)->type;
  int inner = (int)tir_attr_int(op, ATTR_axis, 0);
  lay_panels p;
  bool possible = lay_panels_of(e->fn->cx->layouts, e->a, t->layout, inner, ll_elem_bytes(t), by_warp(op), &p);
  BASE_ASSERT(possible);
  return p;
}

static const tir_value *base_of(const tir_op *op) { return tir_in(tir_in(op, 0)->def, 0); }

/* Whether stores through the same pointer may be under way when op begins, which have to land first. */
static bool follows_another(const tir_op *op) {
  if (by_warp(op)) return false;
  if (tir_in_loop(op)) return true;
  for (const tir_op *o = tir_first(tir_fn_of(op)); o != op; o = tir_next(o))
    if (o->code == OP_tma_store && base_of(o) == base_of(op)) return true;
  return false;
}

/* Groups that stores through other pointers are known to have issued since the last one through op's. */
static int issued_since(ll *e, const tir_op *op) {
  int n = 0;
  for (const tir_op *o = op->prev; o && !o->n_regions; o = o->prev) {
    if (o->code != OP_tma_store) continue;
    if (base_of(o) == base_of(op)) break;
    n += panels_of(e, o).rounds;
  }
  return n;
}

/* The copies of one round. */
static void copy_boxes(ll *e, const tir_op *op, const lay_panels *p, int round, int64_t from) {
  const tir_type *t = tir_in(op, 1)->type;
  int inner = (int)tir_attr_int(op, ATTR_axis, 0), n = op->n_in - 2;
  ll_v me = starts(e, by_warp(op)), map = ll_use_scalar(e, tir_in(op, 0)), args[3 + TIR_MAX_MAP_RANK];
  ll_v row = by_warp(op) && p->warp_rows.n ? ll_terms(e, &p->warp_rows) : NULL;
  ll_v ahead = row ? LLVMBuildMul(e->b, row, ll_i32(e, p->shared->swizzle_bytes), "") : NULL;
  for (int b = 0; b < p->n_boxes; b++) {
    uint32_t first = p->first[round * p->n_boxes + b];
    textbuf text, cons;
    text_init(&text, e->a);
    text_init(&cons, e->a);
    args[0] = map;
    args[1] = ll_shared_address(e, from + p->from[b]);
    if (ahead) args[1] = LLVMBuildAdd(e->b, args[1], ahead, "");
    args[2] = me;
    text_printf(&text, "@$2 cp.async.bulk.tensor.%dd.global.shared::cta.tile.bulk_group [$0, {", n);
    text_str(&cons, "l,r,b");
    for (int i = 0; i < n; i++) {
      uint32_t by = i > 1 ? 0 : lay_coord(t->layout, i == 0 ? inner : 1 - inner, first);
      ll_v at = ll_use_scalar(e, tir_in(op, 2 + i));
      args[3 + i] = by ? LLVMBuildAdd(e->b, at, ll_i32(e, by), "") : at;
      if (row && i == 1) args[4] = LLVMBuildAdd(e->b, args[4], row, "");
      text_printf(&text, "%s$%d", i ? ", " : "", 3 + i);
      text_str(&cons, ",r");
    }
    text_str(&text, "}], [$1];");
    text_str(&cons, ",~{memory}");
    ll_asm_text(e, text.at, cons.at, e->void_, 3 + n, args, -1, LL_EFFECT);
  }
  ll_asm_text(e, "@$0 cp.async.bulk.commit_group;", "b,~{memory}", e->void_, 1, &me, -1, LL_EFFECT);
}

void ll_tma_store(ll *e, const tir_op *op) {
  const tir_value *tile = tir_in(op, 1);
  int bytes = ll_elem_bytes(tile->type);
  int64_t scratch = tir_attr_int(op, ATTR_scratch, -1);
  lay_panels p = panels_of(e, op);
  BASE_ASSERT(scratch >= 0 && scratch + p.n_buffers * (int64_t)p.part_bytes <= e->fn->shared_bytes);
  int n = lay_regs(p.part);
  ll_v *all = ll_use(e, tile), *x = ll_new(e, n);
  lay_way way = lay_way_of(e->fn->cx->layouts, e->a, p.part, p.shared, bytes, e->arch->has_stmatrix, false);
  uint32_t free_bits[LAY_NHW];
  lay_free_masks(p.part, free_bits);
  bool warp = by_warp(op);
  ll_v me = starts(e, warp);
  for (int k = 0; k < p.rounds; k++) {
    int64_t at = scratch + k % p.n_buffers * (int64_t)p.part_bytes;
    bool first = k == 0 && follows_another(op), again = k >= p.n_buffers || (warp && tir_in_loop(op));
    if (first) wait_for_copies(e, me, "", issued_since(e, op));
    if (again) wait_for_copies(e, me, ".read", p.n_buffers - 1);
    if (first || again) meet(e, warp);
    for (int r = 0; r < n; r++) x[r] = all[p.regs[k * n + r]];
    ll_guard owner = ll_if(e, ll_owner(e, 0, free_bits[LAY_WARP]));
    ll_shared_store(e, ll_shared_address(e, at), &way, bytes, x, 0, 1);
    ll_end_if(e, owner);
    ll_asm(e, ASM_fence_async, e->void_, 0, NULL);
    meet(e, warp);
    copy_boxes(e, op, &p, k, at);
  }
}

void ll_end_stores(ll *e) {
  bool any = false, warp = false;
  for (const tir_op *op = tir_first(e->fn); op; op = tir_next(op)) {
    any |= op->code == OP_tma_store;
    warp |= op->code == OP_tma_store && by_warp(op);
  }
  if (any) wait_for_copies(e, starts(e, warp), ".read", 0);
}
