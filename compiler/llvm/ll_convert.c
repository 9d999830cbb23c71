/* Conversions between layouts, by the plan of lay_convert: a renaming of registers, shuffles, or shared memory.
 *
 * In a shuffle one 32-bit word carries the bits of as many elements as fit; a 64-bit element is two words. Through
 * shared memory, by matrices where the target has them and they are cheaper, each round is store, synchronise, load; a
 * further round synchronises again before it stores, because the places are the same. What was in the scratch before is
 * other ops' business (barriers pass). */
#include "compiler/ir/scratch.h"
#include "compiler/llvm/ll_internal.h"

static ll_v parity_of(ll *e, ll_v lane, uint32_t lanes) {
  ll_v bits = LLVMBuildAnd(e->b, lane, ll_i32(e, lanes), "");
  if ((lanes & (lanes - 1)) == 0) return LLVMBuildICmp(e->b, LLVMIntNE, bits, ll_i32(e, 0), "");
  for (uint32_t s = 16; s; s /= 2) bits = LLVMBuildXor(e->b, bits, LLVMBuildLShr(e->b, bits, ll_i32(e, s), ""), "");
  return LLVMBuildTrunc(e->b, bits, e->i1, "");
}

static void selects(ll *e, ll_v *work, ll_v *old, int n, const lay_select *steps, int n_steps) {
  ll_v lane = n_steps ? ll_lane(e) : NULL;
  for (int k = 0; k < n_steps; k++) {
    ll_v swap = parity_of(e, lane, steps[k].lanes);
    for (int x = 0; x < n; x++) old[x] = work[x];
    for (int x = 0; x < n; x++) work[x] = LLVMBuildSelect(e->b, swap, old[x ^ steps[k].reg], old[x], "");
  }
}

static ll_v shuffle_word(ll *e, const lay_shuffle *s, const lay_word *w, ll_v lane_map, ll_v word) {
  ll_v all = ll_i32(e, UINT32_MAX), clamp = ll_i32(e, 31), by = ll_i32(e, w->lane_xor);
  if (s->butterfly) return ll_intrinsic(e, IN_shfl_bfly, 4, (ll_v[]){all, word, by, clamp});
  ll_v from = w->lane_xor ? LLVMBuildXor(e->b, lane_map, by, "") : lane_map;
  return ll_intrinsic(e, IN_shfl_idx, 4, (ll_v[]){all, word, from, clamp});
}

/* The elements of one word, packed into 32 bits (or two halves of one element), shuffled, unpacked. */
static void move_word(ll *e, const lay_shuffle *s, const lay_word *w, int bytes, ll_v lane_map, const ll_v *work,
                      ll_v *u) {
  if (!w->moves) {
    for (int i = 0; i < w->n; i++) u[w->to[i]] = work[w->from[i]];
    return;
  }
  if (bytes == 8) {
    ll_v v = work[w->from[0]], half[2];
    for (int i = 0; i < 2; i++) {
      ll_v part = i ? LLVMBuildLShr(e->b, v, ll_int(e->i64, 32), "") : v;
      half[i] = shuffle_word(e, s, w, lane_map, LLVMBuildTrunc(e->b, part, e->i32, ""));
    }
    ll_v hi = LLVMBuildShl(e->b, LLVMBuildZExt(e->b, half[1], e->i64, ""), ll_int(e->i64, 32), "");
    u[w->to[0]] = LLVMBuildOr(e->b, hi, LLVMBuildZExt(e->b, half[0], e->i64, ""), "");
    return;
  }
  unsigned bits = 8u * (unsigned)bytes;
  LLVMTypeRef elem = LLVMIntTypeInContext(e->c, bits);
  int per = (int)(32 / bits);
  LLVMTypeRef vt = LLVMVectorType(elem, (unsigned)per);
  ll_v v = work[w->from[0]];
  if (per > 1) {
    v = LLVMGetUndef(vt);
    for (int i = 0; i < w->n; i++) v = LLVMBuildInsertElement(e->b, v, work[w->from[i]], ll_i32(e, (uint32_t)i), "");
    v = LLVMBuildBitCast(e->b, v, e->i32, "");
  }
  v = shuffle_word(e, s, w, lane_map, v);
  if (per > 1) v = LLVMBuildBitCast(e->b, v, vt, "");
  for (int i = 0; i < w->n; i++)
    u[w->to[i]] = per > 1 ? LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)i), "") : v;
}

static void by_shuffles(ll *e, const lay_shuffle *s, int bytes, const ll_v *in, ll_v *out) {
  int n = s->n_work;
  ll_v *work = ll_new(e, n), *u = ll_new(e, n), *old = ll_new(e, n);
  for (int x = 0; x < n; x++) work[x] = in[s->first[x]];
  selects(e, work, old, n, s->pre, s->n_pre);
  ll_v lane_map = s->butterfly ? NULL : ll_terms(e, &s->lane_map);
  for (int k = 0; k < s->n_words; k++) move_word(e, s, &s->words[k], bytes, lane_map, work, u);
  selects(e, u, old, n, s->post, s->n_post);
  for (int r = 0; r < s->n_out; r++) out[r] = u[s->last[r]];
}

static void synchronise(ll *e, const lay_exchange *x) {
  if (x->warp_local)
    ll_warp_sync(e);
  else
    ll_barrier(e);
}

/* Where warps hold copies of the source, warps that stored the same value to the same place would race: either each
 * warp has a part of the scratch (is_private), or one of them stores. */
static void by_shared(ll *e, const lay_exchange *x, int bytes, int64_t scratch, bool is_private, const ll_v *in,
                      LLVMTypeRef type, int n_out, ll_v *out) {
  ll_v base = ll_shared_address(e, scratch), *loaded = ll_new(e, n_out);
  ll_v owner = is_private ? NULL : ll_owner(e, 0, x->warp_free);
  if (is_private) {
    ll_v warp = LLVMBuildLShr(e->b, e->tid, ll_i32(e, LAY_LANE_BITS), "");
    base = LLVMBuildAdd(e->b, base, LLVMBuildMul(e->b, warp, ll_i32(e, x->bytes), ""), "");
  }
  for (int k = 0; k < x->rounds; k++) {
    if (k) synchronise(e, x);
    ll_guard g = ll_if(e, owner);
    ll_shared_store(e, base, &x->store, bytes, in, k, x->rounds);
    ll_end_if(e, g);
    synchronise(e, x);
    ll_shared_load(e, base, &x->load, bytes, type, loaded, k, x->rounds);
  }
  for (int r = 0; r < n_out; r++) out[r] = loaded[x->held[r]];
}

void ll_convert(ll *e, const tir_op *op) {
  const tir_value *in = tir_in(op, 0), *out = tir_out(op, 0);
  lay_cx *cx = e->fn->cx->layouts;
  int bytes = ll_elem_bytes(in->type), n_in = ll_regs(in->type), n_out = ll_regs(out->type);
  const lay_cvt *plan = lay_convert(cx, e->a, in->type->layout, out->type->layout, 8 * bytes, NULL);
  if (!plan) base_panic("no plan for a conversion of layouts");
  plan = lay_with_matrices(cx, e->a, plan, e->arch->has_stmatrix, e->arch->has_ldmatrix);
  ll_v *from = ll_use(e, in), *to = ll_new(e, n_out);
  LLVMTypeRef t = ll_type(e, out->type);
  switch (plan->kind) {
    case LAY_CVT_NOOP:
    case LAY_CVT_REGS:
      for (int r = 0; r < n_out; r++) to[r] = from[plan->regs[r]];
      break;
    case LAY_CVT_SHUFFLE: {
      ll_v *bits = ll_new(e, n_in);
      for (int r = 0; r < n_in; r++) bits[r] = ll_to_bits(e, from[r]);
      by_shuffles(e, plan->shuffle, bytes, bits, to);
      for (int r = 0; r < n_out; r++) to[r] = ll_from_bits(e, to[r], t);
      break;
    }
    case LAY_CVT_SHARED: {
      int64_t scratch = tir_attr_int(op, ATTR_scratch, -1);
      tir_scratch need = tir_scratch_of(op, e->a);
      BASE_ASSERT(scratch >= 0 && scratch + need.bytes <= e->fn->shared_bytes);
      by_shared(e, plan->shared, bytes, scratch, need.private, from, t, n_out, to);
      break;
    }
  }
  ll_def(e, out, to);
}
