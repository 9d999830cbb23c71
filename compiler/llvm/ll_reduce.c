/* Reductions, by the plan of lay_reduce_plan: fold registers, then lanes by butterflies, then warps through scratch.
 *
 * The combining region is emitted inline for each pair of partials. Registers are folded as a balanced tree of
 * neighbours, which keeps the order of elements and leaves no long chain of dependent operations; lane steps go over
 * all results at once, so that their shuffles overlap. Across warps every thread reads all partials of its results with
 * the widest loads there are: one wavefront each, since a warp reads the same place; a second round of shuffles would
 * take twice as long for any number of warps that a block can have. */
#include "compiler/ir/scratch.h"
#include "compiler/llvm/ll_internal.h"

enum { MAX_OPERANDS = 8 };

typedef struct reduction {
  const tir_op *op;
  const tir_region *combine;
  const lay_reduce *plan;
  int n; /* operands */
} reduction;

/* out[i] = combine(lhs.., rhs..)[i]; out may be lhs. */
static void combine(ll *e, const reduction *r, const ll_v *lhs, const ll_v *rhs, ll_v *out) {
  for (int i = 0; i < 2 * r->n; i++) {
    ll_v *one = ll_new(e, 1);
    one[0] = i < r->n ? lhs[i] : rhs[i - r->n];
    ll_def(e, r->combine->args[i], one);
  }
  ll_region(e, r->combine);
  for (int i = 0; i < r->n; i++) out[i] = ll_use_scalar(e, tir_in(r->combine->last, i));
}

/* Folds rows of n values each, in order, as a tree; the result is in row 0. */
static void fold_tree(ll *e, const reduction *r, ll_v (*row)[MAX_OPERANDS], int rows) {
  while (rows > 1) {
    int pairs = rows / 2;
    for (int i = 0; i < pairs; i++) {
      ll_v v[MAX_OPERANDS];
      combine(e, r, row[2 * i], row[2 * i + 1], v);
      for (int k = 0; k < r->n; k++) row[i][k] = v[k];
    }
    if (rows & 1)
      for (int k = 0; k < r->n; k++) row[pairs][k] = row[rows - 1][k];
    rows = pairs + (rows & 1);
  }
}

/* ---- lanes ---------------------------------------------------------------------------------------------------- */

static ll_v butterfly(ll *e, ll_v v, uint32_t lane_xor) {
  LLVMTypeRef t = LLVMTypeOf(v);
  ll_v bits = ll_to_bits(e, v), all = ll_i32(e, UINT32_MAX), by = ll_i32(e, lane_xor), clamp = ll_i32(e, 31);
  LLVMTypeRef bt = LLVMTypeOf(bits);
  unsigned width = LLVMGetIntTypeWidth(bt);
  if (width == 64) {
    ll_v half[2];
    for (int i = 0; i < 2; i++) {
      ll_v part = i ? LLVMBuildLShr(e->b, bits, ll_int(e->i64, 32), "") : bits;
      part = LLVMBuildTrunc(e->b, part, e->i32, "");
      half[i] = LLVMBuildZExt(e->b, ll_intrinsic(e, IN_shfl_bfly, 4, (ll_v[]){all, part, by, clamp}), e->i64, "");
    }
    bits = LLVMBuildOr(e->b, LLVMBuildShl(e->b, half[1], ll_int(e->i64, 32), ""), half[0], "");
  } else {
    if (width < 32) bits = LLVMBuildZExt(e->b, bits, e->i32, "");
    bits = ll_intrinsic(e, IN_shfl_bfly, 4, (ll_v[]){all, bits, by, clamp});
    if (width < 32) bits = LLVMBuildTrunc(e->b, bits, bt, "");
  }
  return ll_from_bits(e, bits, t);
}

/* The one instruction that folds a whole warp: 32-bit integers, one operation, all lanes; IN_N if there is none. */
static ll_intrinsic_id whole_warp(const ll *e, const reduction *r) {
  const tir_op *op = r->combine->first;
  if (!e->arch->has_redux || r->n != 1 || r->plan->n_lane_steps != LAY_LANE_BITS || !op || op->next != r->combine->last)
    return IN_N;
  tir_value *x = r->combine->args[0], *y = r->combine->args[1];
  if (op->n_in != 2 || op->n_out != 1 || tir_in(r->combine->last, 0) != tir_out(op, 0)) return IN_N;
  if (!(tir_in(op, 0) == x && tir_in(op, 1) == y) && !(tir_in(op, 0) == y && tir_in(op, 1) == x)) return IN_N;
  tir_dtype d = x->type->dtype;
  if (x->type->kind != TY_SCALAR || (d != DT_i32 && d != DT_u32)) return IN_N;
  for (int k = 0; k < r->plan->n_lane_steps; k++)
    for (int j = 0; j < r->plan->n_out; j++)
      if (r->plan->lane_step[k].partner[j] != j) return IN_N;
  switch (op->code) {
    case OP_add: return IN_redux_add;
    case OP_min: return d == DT_i32 ? IN_redux_min : IN_redux_umin;
    case OP_max: return d == DT_i32 ? IN_redux_max : IN_redux_umax;
    case OP_and: return IN_redux_and;
    case OP_or: return IN_redux_or;
    case OP_xor: return IN_redux_xor;
    default: return IN_N;
  }
}

static void fold_lanes(ll *e, const reduction *r, ll_v (*partial)[MAX_OPERANDS]) {
  const lay_reduce *p = r->plan;
  ll_intrinsic_id redux = whole_warp(e, r);
  if (redux != IN_N) {
    for (int j = 0; j < p->n_out; j++)
      partial[j][0] = ll_intrinsic(e, redux, 2, (ll_v[]){partial[j][0], ll_i32(e, UINT32_MAX)});
    return;
  }
  ll_v(*other)[MAX_OPERANDS] = arena_alloc(e->a, sizeof *other * (size_t)p->n_out);
  for (int k = 0; k < p->n_lane_steps; k++) {
    const lay_lane_step *step = &p->lane_step[k];
    for (int j = 0; j < p->n_out; j++)
      for (int i = 0; i < r->n; i++) other[j][i] = butterfly(e, partial[step->partner[j]][i], step->lane_xor);
    for (int j = 0; j < p->n_out; j++) combine(e, r, partial[j], other[j], partial[j]);
  }
}

/* ---- warps ---------------------------------------------------------------------------------------------------- */

static ll_v element_at(ll *e, ll_v base, LLVMTypeRef step, ll_v offset) {
  ll_v wide = LLVMBuildZExt(e->b, offset, e->i64, "");
  return LLVMBuildInBoundsGEP2(e->b, step, base, &wide, 1, "");
}

/* n consecutive elements, by vectors of up to 16 bytes. */
static void read_row(ll *e, ll_v at, LLVMTypeRef bits, int bytes, int n, ll_v *out) {
  int per = 16 / bytes < n ? 16 / bytes : n;
  LLVMTypeRef vt = LLVMVectorType(bits, (unsigned)per);
  for (int i = 0; i < n; i += per) {
    ll_v k = ll_int(e->i64, (uint64_t)i);
    ll_v v = LLVMBuildLoad2(e->b, vt, LLVMBuildInBoundsGEP2(e->b, bits, at, &k, 1, ""), "");
    LLVMSetAlignment(v, (unsigned)(per * bytes));
    for (int x = 0; x < per; x++) out[i + x] = LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)x), "");
  }
}

static void fold_warps(ll *e, const reduction *r, ll_v (*partial)[MAX_OPERANDS]) {
  const lay_reduce *p = r->plan;
  int64_t scratch = tir_attr_int(r->op, ATTR_scratch, -1);
  BASE_ASSERT(scratch >= 0);
  ll_v base[MAX_OPERANDS];
  LLVMTypeRef type[MAX_OPERANDS], bits[MAX_OPERANDS];
  int bytes[MAX_OPERANDS];
  for (int i = 0; i < r->n; i++) {
    const tir_type *t = tir_in(r->op, i)->type;
    bytes[i] = tir_shared_bytes(t);
    type[i] = ll_type(e, t);
    bits[i] = LLVMIntTypeInContext(e->c, 8u * (unsigned)bytes[i]);
    base[i] = ll_shared_at(e, scratch + tir_scratch_part(r->op, i, p->scratch_elems));
  }
  ll_v write = ll_terms(e, &p->write), read = ll_terms(e, &p->read);
  ll_guard g = ll_if(e, ll_owner(e, p->lane_free, p->warp_free));
  for (int j = 0; j < p->n_out; j++) {
    ll_v at = ll_at(e, write, &p->write, p->write_reg[j]);
    for (int i = 0; i < r->n; i++)
      LLVMSetAlignment(LLVMBuildStore(e->b, ll_to_bits(e, partial[j][i]), element_at(e, base[i], bits[i], at)),
                       (unsigned)bytes[i]);
  }
  ll_end_if(e, g);
  ll_barrier(e);

  ll_v(*row)[MAX_OPERANDS] = arena_alloc(e->a, sizeof *row * (size_t)p->n_warp), *flat = ll_new(e, p->n_warp);
  for (int j = 0; j < p->n_out; j++) {
    ll_v at = ll_at(e, read, &p->read, p->read_reg[j]);
    for (int i = 0; i < r->n; i++) {
      read_row(e, element_at(e, base[i], bits[i], at), bits[i], bytes[i], p->n_warp, flat);
      for (int w = 0; w < p->n_warp; w++) row[w][i] = ll_from_bits(e, flat[w], type[i]);
    }
    fold_tree(e, r, row, p->n_warp);
    for (int i = 0; i < r->n; i++) partial[j][i] = row[0][i];
  }
}

void ll_reduce(ll *e, const tir_op *op) {
  const tir_type *t = tir_in(op, 0)->type;
  reduction r = {op, op->regions[0], NULL, op->n_in};
  r.plan = lay_reduce_plan(e->fn->cx->layouts, e->a, t->layout, (int)tir_attr_int(op, ATTR_axis, 0));
  const lay_reduce *p = r.plan;
  BASE_ASSERT(p && r.n <= MAX_OPERANDS);
  const tir_type *result = tir_out(op, 0)->type;
  BASE_ASSERT(!tir_is_tile(result) || result->layout == p->result);

  ll_v(*partial)[MAX_OPERANDS] = arena_alloc(e->a, sizeof *partial * (size_t)p->n_out);
  ll_v(*row)[MAX_OPERANDS] = arena_alloc(e->a, sizeof *row * (size_t)p->n_fold);
  for (int j = 0; j < p->n_out; j++) {
    for (int x = 0; x < p->n_fold; x++)
      for (int i = 0; i < r.n; i++) row[x][i] = ll_use(e, tir_in(op, i))[p->fold[j * p->n_fold + x]];
    fold_tree(e, &r, row, p->n_fold);
    for (int i = 0; i < r.n; i++) partial[j][i] = row[0][i];
  }
  fold_lanes(e, &r, partial);
  if (p->n_warp > 1) fold_warps(e, &r, partial);
  for (int i = 0; i < r.n; i++) {
    ll_v *out = ll_new(e, p->n_out);
    for (int j = 0; j < p->n_out; j++) out[j] = partial[j][i];
    ll_def(e, tir_out(op, i), out);
  }
}
