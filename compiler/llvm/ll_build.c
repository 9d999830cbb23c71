/* Small verbs of emission, and threads and indices.
 *
 * The thread's place is kept as %tid.x alone: lane bits are its bits 0..4, warp bits those above. An index term of the
 * lanes that goes on in the warps, as in every blocked layout, is then one shift and at most one mask, and needs no
 * warp number; a warp number by shuffle would cost more than it saves here. Disjoint terms are added with nuw nsw,
 * because LLVM folds constants through such sums into addresses, and not through xor. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

/* ---- values --------------------------------------------------------------------------------------------------- */

int ll_regs(const tir_type *t) { return tir_is_tile(t) ? lay_regs(t->layout) : 1; }

LLVMTypeRef ll_dtype(const ll *e, tir_dtype d) {
  switch (d) {
    case DT_i1: return e->i1;
    case DT_f16: return e->f16;
    case DT_bf16: return e->bf16;
    case DT_f32: return e->f32;
    case DT_f64: return e->f64;
    default: break;
  }
  switch (tir_dtypes[d].bytes) {
    case 1: return e->i8;
    case 2: return e->i16;
    case 4: return e->i32;
    default: return e->i64;
  }
}

LLVMTypeRef ll_type(const ll *e, const tir_type *t) {
  const tir_type *elem = tir_elem(t);
  return elem->kind == TY_PTR ? e->global_ptr : ll_dtype(e, elem->dtype);
}

int ll_elem_bytes(const tir_type *t) { return tir_dtypes[tir_dtype_of(t)].bytes; }

ll_v *ll_use(ll *e, const tir_value *v) {
  BASE_ASSERT(v->id < e->fn->n_values && e->val[v->id]);
  return e->val[v->id];
}

ll_v ll_use_scalar(ll *e, const tir_value *v) {
  BASE_ASSERT(!tir_is_tile(v->type));
  return ll_use(e, v)[0];
}

ll_v *ll_new(ll *e, int n) { return ARENA_ARRAY(e->a, ll_v, n); }

void ll_def(ll *e, const tir_value *v, ll_v *regs) {
  BASE_ASSERT(v->id < e->fn->n_values);
  e->val[v->id] = regs;
}

ll_v ll_int(LLVMTypeRef t, uint64_t v) { return LLVMConstInt(t, v, false); }
ll_v ll_i32(const ll *e, uint32_t v) { return LLVMConstInt(e->i32, v, false); }
ll_v ll_f32(const ll *e, double v) { return LLVMConstReal(e->f32, v); }

ll_v ll_const(const ll *e, const tir_type *elem, tir_scalar v) {
  if (elem->kind == TY_PTR) {
    ll_v bits = ll_int(e->i64, v.bits);
    return v.bits ? LLVMConstIntToPtr(bits, e->global_ptr) : LLVMConstNull(e->global_ptr);
  }
  LLVMTypeRef t = ll_dtype(e, elem->dtype);
  switch (elem->dtype) {
    case DT_f16:
    case DT_bf16: return LLVMConstBitCast(ll_int(e->i16, v.bits), t);
    case DT_f32: return LLVMConstBitCast(ll_int(e->i32, v.bits), t);
    case DT_f64: return LLVMConstBitCast(ll_int(e->i64, v.bits), t);
    default: return ll_int(t, v.bits);
  }
}

bool ll_is_true(ll_v v) { return LLVMIsAConstantInt(v) && LLVMConstIntGetZExtValue(v) == 1; }

ll_v ll_and(ll *e, ll_v a, ll_v b) {
  if (!a || ll_is_true(a)) return b;
  if (!b || ll_is_true(b)) return a;
  return LLVMBuildAnd(e->b, a, b, "");
}

ll_v ll_to_bits(ll *e, ll_v v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  switch (LLVMGetTypeKind(t)) {
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind: return LLVMBuildBitCast(e->b, v, e->i16, "");
    case LLVMFloatTypeKind: return LLVMBuildBitCast(e->b, v, e->i32, "");
    case LLVMDoubleTypeKind: return LLVMBuildBitCast(e->b, v, e->i64, "");
    case LLVMPointerTypeKind: return LLVMBuildPtrToInt(e->b, v, e->i64, "");
    default: return t == e->i1 ? LLVMBuildZExt(e->b, v, e->i8, "") : v;
  }
}

ll_v ll_from_bits(ll *e, ll_v bits, LLVMTypeRef t) {
  if (t == e->i1) return LLVMBuildICmp(e->b, LLVMIntNE, bits, LLVMConstNull(LLVMTypeOf(bits)), "");
  if (LLVMGetTypeKind(t) == LLVMPointerTypeKind) return LLVMBuildIntToPtr(e->b, bits, t, "");
  return LLVMBuildBitCast(e->b, bits, t, "");
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  bool overloaded;
} intrinsics[] = {
#define INTRINSIC(id, name, overloaded) {name, overloaded},
#include "compiler/llvm/intrinsics.def"
#undef INTRINSIC
};

ll_v ll_intrinsic(ll *e, ll_intrinsic_id id, int n, ll_v *args) {
  unsigned number = LLVMLookupIntrinsicID(intrinsics[id].name, strlen(intrinsics[id].name));
  if (!number) base_panic("LLVM has no intrinsic %s", intrinsics[id].name);
  LLVMTypeRef over = intrinsics[id].overloaded ? LLVMTypeOf(args[0]) : NULL;
  size_t n_over = over ? 1 : 0;
  ll_v f = LLVMGetIntrinsicDeclaration(e->m, number, &over, n_over);
  return LLVMBuildCall2(e->b, LLVMIntrinsicGetType(e->c, number, &over, n_over), f, args, (unsigned)n, "");
}

static void call_attribute(ll *e, ll_v call, const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  BASE_ASSERT(kind);
  LLVMAddCallSiteAttribute(call, LL_FUNCTION, LLVMCreateEnumAttribute(e->c, kind, value));
}

ll_v ll_asm_text(ll *e, const char *text, const char *constraints, LLVMTypeRef result, int n, ll_v *args,
                 int memory_operand, ll_asm_kind kind) {
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, n + 1);
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef ft = LLVMFunctionType(result, types, (unsigned)n, false);
  ll_v f = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints), kind >= LL_EFFECT, false,
                            LLVMInlineAsmDialectATT, false);
  ll_v call = LLVMBuildCall2(e->b, ft, f, args, (unsigned)n, "");
  call_attribute(e, call, "nounwind", 0);
  if (kind < LL_EFFECT) call_attribute(e, call, "memory", 0);
  if (kind == LL_CONVERGENT || kind == LL_COLLECTIVE) call_attribute(e, call, "convergent", 0);
  if (memory_operand >= 0) {
    unsigned et = LLVMGetEnumAttributeKindForName("elementtype", 11);
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)(memory_operand + 1), LLVMCreateTypeAttribute(e->c, et, e->i8));
  }
  return call;
}

static const struct {
  const char *text, *constraints;
  ll_asm_kind kind;
} asms[] = {
#define ASM(name, text, constraints, kind) {text, constraints, LL_##kind},
#include "compiler/llvm/asm.def"
#undef ASM
};

ll_v ll_asm(ll *e, ll_asm_id id, LLVMTypeRef result, int n, ll_v *args) {
  return ll_asm_text(e, asms[id].text, asms[id].constraints, result, n, args, -1, asms[id].kind);
}

ll_v ll_library(ll *e, const char *name, int n, ll_v *args) {
  LLVMTypeRef t = LLVMTypeOf(args[0]), types[3];
  char mangled[64];
  if (e->o->libdevice) {
    snprintf(mangled, sizeof mangled, "__nv_%s%s", name, t == e->f32 ? "f" : "");
  } else {
    int at = snprintf(mangled, sizeof mangled, "_Z%zu%s", strlen(name), name);
    for (int i = 0; i < n; i++) mangled[at++] = t == e->f32 ? 'f' : 'd';
    mangled[at] = 0;
  }
  for (int i = 0; i < n; i++) types[i] = t;
  LLVMTypeRef ft = LLVMFunctionType(t, types, (unsigned)n, false);
  ll_v f = LLVMGetNamedFunction(e->m, mangled);
  if (!f) f = LLVMAddFunction(e->m, mangled, ft);
  e->uses_library = true;
  return LLVMBuildCall2(e->b, ft, f, args, (unsigned)n, "");
}

lay_span ll_register_span(const lay_t *l) {
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, l->basis[LAY_REG], l->nbits[LAY_REG]);
  return s;
}

int ll_register_of(const lay_span *regs, uint32_t element) {
  uint64_t x;
  if (!lay_span_solve(regs, element, &x)) base_panic("a tile lacks an element that is needed in this thread");
  return (int)x;
}

/* ---- threads and indices -------------------------------------------------------------------------------------- */

LLVMBasicBlockRef ll_hoist_begin(ll *e) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = LLVMGetEntryBasicBlock(e->f);
  ll_v end = LLVMGetBasicBlockTerminator(entry);
  if (end) LLVMPositionBuilderBefore(e->b, end);
  return here;
}

void ll_hoist_end(ll *e, LLVMBasicBlockRef here) { LLVMPositionBuilderAtEnd(e->b, here); }

ll_v ll_uniform_warp(ll *e) {
  if (!e->warp) {
    LLVMBasicBlockRef here = ll_hoist_begin(e);
    ll_v args[] = {ll_i32(e, UINT32_MAX), LLVMBuildLShr(e->b, e->tid, ll_i32(e, LAY_LANE_BITS), ""), ll_i32(e, 0),
                   ll_i32(e, 31)};
    e->warp = ll_intrinsic(e, IN_shfl_idx, 4, args);
    ll_hoist_end(e, here);
  }
  return e->warp;
}

ll_v ll_lane(ll *e) { return LLVMBuildAnd(e->b, e->tid, ll_i32(e, 31), ""); }

/* One run of tid bits moved to an index: ((tid >> from) & (2^count - 1)) << to. */
static ll_v run_value(ll *e, int from, int count, int to) {
  int tid_bits = LAY_LANE_BITS + e->warp_bits;
  ll_v v = e->tid;
  if (to >= from) {
    if (to > from) {
      v = LLVMBuildShl(e->b, v, ll_i32(e, (uint32_t)(to - from)), "");
      LLVMSetNUW(v, true);
      LLVMSetNSW(v, true);
    }
  } else {
    v = LLVMBuildLShr(e->b, v, ll_i32(e, (uint32_t)(from - to)), "");
  }
  bool low_clear = from == 0 || (to == 0 && from > 0);
  if (low_clear && from + count == tid_bits) return v;
  uint32_t mask = (count >= 32 ? UINT32_MAX : (UINT32_C(1) << count) - 1) << to;
  return LLVMBuildAnd(e->b, v, ll_i32(e, mask), "");
}

ll_v ll_terms(ll *e, const lay_terms *t) {
  ll_v sum = NULL;
  for (int i = 0; i < t->n; i++) {
    lay_term a = t->at[i];
    BASE_ASSERT(a.dim == LAY_LANE || a.dim == LAY_WARP);
    int from = a.dim == LAY_LANE ? a.from : LAY_LANE_BITS + a.from, count = a.count, to = a.to;
    while (i + 1 < t->n) {
      lay_term next = t->at[i + 1];
      int next_from = next.dim == LAY_LANE ? next.from : LAY_LANE_BITS + next.from;
      if (next_from != from + count || next.to != to + count) break;
      count += next.count;
      i++;
    }
    ll_v v = run_value(e, from, count, to);
    if (!sum) {
      sum = v;
    } else if (t->disjoint) {
      sum = LLVMBuildAdd(e->b, sum, v, "");
      LLVMSetNUW(sum, true);
      LLVMSetNSW(sum, true);
    } else {
      sum = LLVMBuildXor(e->b, sum, v, "");
    }
  }
  return sum ? sum : ll_i32(e, 0);
}

ll_v ll_at(ll *e, ll_v base, const lay_terms *t, uint32_t constant) {
  if (!constant) return base;
  if (constant & t->bits) return LLVMBuildXor(e->b, base, ll_i32(e, constant), "");
  ll_v v = LLVMBuildAdd(e->b, base, ll_i32(e, constant), "");
  if (LLVMIsAInstruction(v)) {
    LLVMSetNUW(v, true);
    LLVMSetNSW(v, true);
  }
  return v;
}

ll_v ll_owner(ll *e, uint32_t lane_free, uint32_t warp_free) {
  uint32_t mask = lane_free | warp_free << LAY_LANE_BITS;
  uint32_t all = (UINT32_C(1) << (LAY_LANE_BITS + e->warp_bits)) - 1;
  mask &= all;
  if (!mask) return NULL;
  ll_v bits = mask == all ? e->tid : LLVMBuildAnd(e->b, e->tid, ll_i32(e, mask), "");
  return LLVMBuildICmp(e->b, LLVMIntEQ, bits, ll_i32(e, 0), "");
}

ll_v ll_single_thread(ll *e) { return LLVMBuildICmp(e->b, LLVMIntEQ, e->tid, ll_i32(e, 0), ""); }

ll_v ll_shared_at(ll *e, int64_t bytes) {
  if (!e->smem) {
    e->smem = LLVMAddGlobalInAddressSpace(e->m, LLVMArrayType2(e->i8, 0), "tkc_shared", LL_SHARED);
    LLVMSetLinkage(e->smem, LLVMExternalLinkage);
    LLVMSetAlignment(e->smem, 1024);
  }
  ll_v at = ll_i32(e, (uint32_t)bytes);
  if (e->fn->gang > 1 && bytes >= e->fn->gang_bytes) {
    at = LLVMBuildAdd(e->b, e->gang.offset, at, "");
    return LLVMBuildInBoundsGEP2(e->b, e->i8, e->smem, &at, 1, "");
  }
  return bytes ? LLVMConstInBoundsGEP2(e->i8, e->smem, &at, 1) : e->smem;
}

ll_v ll_shared_address(ll *e, int64_t bytes) { return LLVMBuildPtrToInt(e->b, ll_shared_at(e, bytes), e->i32, ""); }

void ll_barrier(ll *e) {
  ll_v id = ll_i32(e, 0);
  if (e->warp_bits == 0) {
    ll_warp_sync(e);
  } else if (e->fn->producer_warps) { /* of the consumers alone */
    int threads = 32 * e->fn->num_warps, gang = e->fn->gang > 1;
    ll_v own = gang ? LLVMBuildAdd(e->b, e->gang.member, ll_i32(e, 1), "") : NULL;
    ll_asm_text(e, arena_printf(e->a, gang ? "bar.sync $0, %d;" : "bar.sync 1, %d;", threads),
                gang ? "r,~{memory}" : "~{memory}", e->void_, gang, &own, -1, LL_COLLECTIVE);
  } else {
    ll_intrinsic(e, IN_barrier, 1, &id);
  }
}

void ll_warp_sync(ll *e) {
  ll_v all = ll_i32(e, UINT32_MAX);
  ll_intrinsic(e, IN_warp_sync, 1, &all);
}

ll_guard ll_if(ll *e, ll_v cond) {
  ll_guard g = {NULL};
  if (!cond || ll_is_true(cond)) return g;
  LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  g.after = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  LLVMBuildCondBr(e->b, cond, then, g.after);
  LLVMPositionBuilderAtEnd(e->b, then);
  return g;
}

void ll_end_if(ll *e, ll_guard g) {
  if (!g.after) return;
  LLVMBuildBr(e->b, g.after);
  LLVMPositionBuilderAtEnd(e->b, g.after);
}
