/* A kernel: its signature, and one emission per op.
 *
 * Parameters are what a launch packs: pointers, integers and floats in their memory encoding (i1 as a byte, f16, bf16
 * and f8 as integers of their width, because LLVM passes bf16 as an array). Pointers are to global memory.
 *
 * No parameter is `noalias`: programs pass one buffer as input and output. So `ld.global.nc`, which may return what
 * was there before a store of this launch, is used for pointers to const alone (ll_memory.c): `*const T` in a signature
 * is the promise that nothing writes that memory while the kernel runs. */
#include <string.h>

#include "compiler/analysis/analysis.h"
#include "compiler/llvm/ll_internal.h"

static LLVMTypeRef param_type(const ll *e, const tir_type *t) {
  if (t->kind == TY_PTR) return e->global_ptr;
  switch (tir_dtypes[t->dtype].bytes) {
    case 1: return e->i8;
    case 2: return e->i16;
    default: return ll_dtype(e, t->dtype);
  }
}

static void string_attribute(ll *e, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(e->f, LL_FUNCTION,
                          LLVMCreateStringAttribute(e->c, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void pointer_alignment(ll *e, int param, int divisibility) {
  uint64_t align = 1;
  while (align < 16 && divisibility % (int)(align * 2) == 0) align *= 2;
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddAttributeAtIndex(e->f, (LLVMAttributeIndex)(param + 1), LLVMCreateEnumAttribute(e->c, kind, align));
}

enum { MAP_BYTES = 128, MAP_ALIGN = 64 };

/* Bytes that are passed by value and read where they are: a tensor map, by the hardware. */
static void bytes_parameter(ll *e, int param, uint64_t size, uint64_t align) {
  LLVMAttributeIndex at = (LLVMAttributeIndex)(param + 1);
  LLVMTypeRef bytes = LLVMArrayType2(e->i8, size);
  LLVMAddAttributeAtIndex(e->f, at, LLVMCreateTypeAttribute(e->c, LLVMGetEnumAttributeKindForName("byval", 5), bytes));
  LLVMAddAttributeAtIndex(e->f, at, LLVMCreateEnumAttribute(e->c, LLVMGetEnumAttributeKindForName("align", 5), align));
  LLVMAddAttributeAtIndex(e->f, at, LLVMCreateStringAttribute(e->c, "nvvm.grid_constant", 18, "", 0));
}

static void read_tid(ll *e, int threads) {
  e->tid = ll_intrinsic(e, IN_tid, 0, NULL);
  unsigned kind = LLVMGetEnumAttributeKindForName("range", 5);
  uint64_t lo = 0, hi = (uint64_t)threads;
  LLVMAddCallSiteAttribute(e->tid, LLVMAttributeReturnIndex,
                           LLVMCreateConstantRangeAttribute(e->c, kind, 32, &lo, &hi));
}

/* Everything is unrolled into registers: beyond these numbers LLVM and ptxas would run for minutes, and what came out
 * would live in local memory. (A thread has 255 registers; at 4096 values LLVM takes half a second.) */
enum { MAX_VALUES = 4096, MAX_MULTIPLY_ADDS = 65536 };

static bool fits(ll *e, const tir_fn *fn) {
  int threads = 32 * fn->num_warps, errors = e->sink->n_errors;
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    for (int i = 0; i < op->n_out; i++) {
      const tir_type *t = tir_out(op, i)->type;
      if (ll_regs(t) <= MAX_VALUES) continue;
      diag *d =
          diag_add(e->sink, op->at, &D_ll_too_many_registers, tir_type_text(e->a, t), threads, ll_regs(t), MAX_VALUES);
      diag_fix(d, op->at, "use a smaller block, or more warps");
      return false;
    }
    if (op->code != OP_dot || tir_attr_of(op, ATTR_inst)) continue;
    const tir_type *a = tir_in(op, 0)->type, *c = tir_out(op, 0)->type;
    int64_t steps = (int64_t)ll_regs(c) * a->shape[a->rank - 1];
    if (steps <= MAX_MULTIPLY_ADDS) continue;
    diag *d = diag_add(e->sink, op->at, &D_ll_dot_too_big, (long long)steps, MAX_MULTIPLY_ADDS);
    diag_fix(d, op->at, "use smaller blocks, or more warps");
  }
  return e->sink->n_errors == errors;
}

/* The entry keeps the kernel's name, so that it must be one that PTX can say and the module does not use itself. */
static bool nameable(ll *e, const tir_fn *fn) {
  static const char *const taken[] = {"vprintf", "__assertfail", "tkc_shared", "tkc_text"};
  const char *why = NULL;
  for (const char *p = fn->name; *p; p++) {
    bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || *p == '$';
    if (!letter && (p == fn->name || *p < '0' || *p > '9')) why = "only letters, digits, '_' and '$' are possible";
  }
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (strcmp(fn->name, taken[i]) == 0) why = "the generated code uses that name";
  if (strcmp(fn->name, "_") == 0 || strcmp(fn->name, "WARP_SZ") == 0) why = "PTX has another use for it";
  if (why) diag_add(e->sink, fn->at, &D_ll_kernel_name, fn->name, why);
  return !why;
}

/* Registers of tiles with which ptxas is told that one block at a time will do. Where it finds no number that it likes
   it falls back to 32 and spills the rest (13.0: 5760 bytes where 255 registers spill 284); with mma.sync it spills a
   few bytes to make room for another block, with wgmma more if it is told. */
enum { MANY_REGISTERS = 200, MANY_WITHOUT_WGMMA = 96 };

bool ll_kernel(ll *e, tir_fn *fn) {
  BASE_ASSERT(fn->stage == STAGE_PLACED);
  e->fn = fn;
  if (!nameable(e, fn) || !fits(e, fn)) return false;
  arena *a = e->a;
  int n_maps = ll_n_maps(fn), n_params = fn->n_params + n_maps;
  bool persistent = tir_is_persistent(fn);
  LLVMTypeRef *types = ARENA_ARRAY(a, LLVMTypeRef, n_params + 1);
  for (int i = 0; i < fn->n_params; i++) types[i] = param_type(e, fn->params[i].value->type);
  for (int i = fn->n_params; i <= n_params; i++) types[i] = LLVMPointerTypeInContext(e->c, 0);
  LLVMTypeRef ft = LLVMFunctionType(e->void_, types, (unsigned)(n_params + persistent), false);

  e->f = LLVMAddFunction(e->m, fn->name, ft);
  e->val = ARENA_ARRAY(a, ll_v *, fn->n_values + 1);
  e->delta = ll_deltas(a, fn);
  e->multiplies = false;
  for (const tir_op *op = tir_first(fn); op && !e->multiplies; op = tir_next(op))
    e->multiplies = op->code == OP_wgmma || (op->code == OP_dot && tir_attr_of(op, ATTR_inst));
  e->policy[0] = e->policy[1] = NULL;
  e->warp = NULL;
  e->warp_bits = 0;
  while (1 << e->warp_bits < fn->num_warps) e->warp_bits++;
  for (int i = fn->n_params; i < n_params; i++) bytes_parameter(e, i, MAP_BYTES, MAP_ALIGN);
  if (persistent) bytes_parameter(e, n_params, LL_PROGRAMS_BYTES, LL_PROGRAMS_ALIGN);
  int threads = 32 * tir_block_warps(fn);
  LLVMSetFunctionCallConv(e->f, LLVMPTXKernelCallConv);
  string_attribute(e, "nvvm.reqntid", arena_printf(a, "%d,1,1", threads));
  bool many = pressure_of(fn, a).registers >= (pressure_of_wgmma(fn) ? MANY_REGISTERS : MANY_WITHOUT_WGMMA);
  if (many && !fn->producer_warps) string_attribute(e, "nvvm.minctasm", "1"); /* otherwise ll_part_roles says */
  ll_debug_fn(e);

  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->c, e->f, ""));
  ll_debug_at(e, fn->at);
  read_tid(e, threads);
  for (int i = 0; i < fn->n_params; i++) {
    const tir_param *p = &fn->params[i];
    ll_v *reg = ll_new(e, 1);
    reg[0] = LLVMGetParam(e->f, (unsigned)i);
    LLVMSetValueName2(reg[0], p->name, strlen(p->name));
    if (p->value->type->kind == TY_PTR)
      pointer_alignment(e, i, p->divisibility);
    else
      reg[0] = ll_from_bits(e, reg[0], ll_type(e, p->value->type));
    ll_def(e, p->value, reg);
  }
  if (persistent) ll_programs_begin(e, LLVMGetParam(e->f, (unsigned)n_params));
  ll_part_roles(e);
  ll_region(e, fn->body);
  LLVMBuildRetVoid(e->b);
  return true;
}

/* ---- ops that rename registers -------------------------------------------------------------------------------- */

static lay_shape shape_of(const tir_type *t) { return lay_shape_make(t->rank, t->shape); }

static lay_view view_of(const tir_op *op) {
  const tir_type *in = tir_in(op, 0)->type, *out = tir_out(op, 0)->type;
  switch (op->code) {
    case OP_broadcast: return lay_view_broadcast(shape_of(in), shape_of(out));
    case OP_trans: {
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      int axes[TIR_MAX_RANK];
      for (int i = 0; i < perm->n; i++) axes[i] = (int)perm->ints[i];
      return lay_view_permute(shape_of(in), axes);
    }
    default: return lay_view_identity(lay_bits(out->layout));
  }
}

static const uint16_t *renaming(arena *a, const tir_op *op, const tir_value *out, lay_view view) {
  const uint16_t *map = lay_regmap(a, tir_in(op, 0)->type->layout, out->type->layout, &view);
  if (!map) base_panic("%s is not a renaming of registers here", tir_ops[op->code].name);
  return map;
}

const uint16_t *ll_renaming(arena *a, const tir_op *op) { return renaming(a, op, tir_out(op, 0), view_of(op)); }

static void rename_registers(ll *e, const tir_op *op, const tir_value *out, lay_view view) {
  const uint16_t *map = renaming(e->a, op, out, view);
  int n = ll_regs(out->type);
  ll_v *from = ll_use(e, tir_in(op, 0)), *to = ll_new(e, n);
  for (int r = 0; r < n; r++) to[r] = from[map[r]];
  ll_def(e, out, to);
}

static void fill(ll *e, const tir_value *out, ll_v v) {
  int n = ll_regs(out->type);
  ll_v *to = ll_new(e, n);
  for (int r = 0; r < n; r++) to[r] = v;
  ll_def(e, out, to);
}

static void emit_arange(ll *e, const tir_op *op) {
  const tir_type *t = tir_out(op, 0)->type;
  lay_index at = lay_index_of(e->a, t->layout, 0);
  ll_v base = ll_terms(e, &at.terms);
  int n = ll_regs(t);
  ll_v *to = ll_new(e, n), start = ll_i32(e, (uint32_t)tir_attr_int(op, ATTR_start, 0));
  for (int r = 0; r < n; r++) {
    to[r] = LLVMBuildAdd(e->b, ll_at(e, base, &at.terms, at.reg[r]), start, "");
    if (LLVMIsAInstruction(to[r]) && LLVMGetInstructionOpcode(to[r]) == LLVMAdd) LLVMSetNSW(to[r], true);
    if (r == 0 && ll_derive(e, tir_out(op, 0), to)) break;
  }
  ll_def(e, tir_out(op, 0), to);
}

static void emit_expand_dims(ll *e, const tir_op *op) {
  if (tir_is_tile(tir_in(op, 0)->type))
    rename_registers(e, op, tir_out(op, 0), view_of(op));
  else
    fill(e, tir_out(op, 0), ll_use_scalar(e, tir_in(op, 0)));
}

static void emit_join(ll *e, const tir_op *op) {
  const tir_value *out = tir_out(op, 0), *x = tir_in(op, 0), *y = tir_in(op, 1);
  const lay_t *l = out->type->layout;
  int n = ll_regs(out->type);
  ll_v *a = ll_use(e, x), *b = ll_use(e, y), *to = ll_new(e, n);
  const uint16_t *map = NULL;
  if (tir_is_tile(x->type)) {
    lay_view view = lay_view_join(lay_bits(l));
    map = lay_regmap(e->a, x->type->layout, l, &view);
    if (!map) base_panic("join is not a renaming of registers here");
  }
  for (int i = 0; i < LAY_LANE_BITS; i++) BASE_ASSERT(!(l->basis[LAY_LANE][i] & 1));
  for (int i = 0; i < l->nbits[LAY_WARP]; i++) BASE_ASSERT(!(l->basis[LAY_WARP][i] & 1));
  for (int r = 0; r < n; r++) to[r] = (lay_apply(l, (uint32_t)r, 0, 0, 0) & 1 ? b : a)[map ? map[r] : 0];
  ll_def(e, out, to);
}

static void emit_split(ll *e, const tir_op *op) {
  const tir_value *in = tir_in(op, 0);
  for (int k = 0; k < 2; k++) {
    const tir_value *out = tir_out(op, k);
    if (tir_is_tile(out->type)) {
      rename_registers(e, op, out, lay_view_split(lay_bits(out->type->layout), k));
      continue;
    }
    ll_v *from = ll_use(e, in), *to = ll_new(e, 1);
    for (int r = 0; r < ll_regs(in->type); r++)
      if (lay_apply(in->type->layout, (uint32_t)r, 0, 0, 0) == (uint32_t)k) to[0] = from[r];
    BASE_ASSERT(to[0]);
    ll_def(e, out, to);
  }
}

/* ---- elementwise ---------------------------------------------------------------------------------------------- */

static bool same_operands(ll_v *const *in, int n_in, int r) {
  for (int i = 0; i < n_in; i++)
    if (in[i][r] != in[i][r - 1]) return false;
  return true;
}

static void emit_addptr(ll *e, const tir_op *op) {
  const tir_value *p = tir_in(op, 0), *off = tir_in(op, 1), *out = tir_out(op, 0);
  const tir_type *pointee = tir_elem(p->type)->elem;
  LLVMTypeRef step =
      pointee->kind == TY_PTR ? e->i64 : LLVMIntTypeInContext(e->c, 8u * tir_dtypes[pointee->dtype].bytes);
  bool is_signed = dt_is_signed(tir_dtype_of(off->type));
  int n = ll_regs(out->type);
  ll_v *in[2] = {ll_use(e, p), ll_use(e, off)}, *to = ll_new(e, n);
  for (int r = 0; r < n; r++) {
    if (r && same_operands(in, 2, r)) {
      to[r] = to[r - 1];
      continue;
    }
    ll_v at = in[1][r];
    if (LLVMTypeOf(at) != e->i64)
      at = is_signed ? LLVMBuildSExt(e->b, at, e->i64, "") : LLVMBuildZExt(e->b, at, e->i64, "");
    to[r] = LLVMBuildGEP2(e->b, step, in[0][r], &at, 1, "");
    if (r == 0 && ll_derive(e, out, to)) break;
  }
  ll_def(e, out, to);
}

/* x * y by a warp that skips it where its y are all 1. The vote tells ptxas that the branch is uniform, without which
   it would serialise the wgmma around it. */
static void emit_mul_unless_one(ll *e, const tir_op *op) {
  int n = ll_regs(op->out[0]->type);
  ll_v *x = ll_use(e, tir_in(op, 0)), *y = ll_use(e, tir_in(op, 1)), *product = ll_new(e, n), *to = ll_new(e, n);
  ll_v one = LLVMConstReal(LLVMTypeOf(y[0]), 1), differs = NULL;
  for (int r = 0; r < n; r++) {
    bool seen = false;
    for (int k = 0; k < r && !seen; k++) seen = y[k] == y[r];
    if (seen) continue;
    ll_v other = LLVMBuildFCmp(e->b, LLVMRealUNE, y[r], one, "");
    differs = differs ? LLVMBuildOr(e->b, differs, other, "") : other;
  }
  ll_v any = ll_intrinsic(e, IN_vote_any, 2, (ll_v[]){ll_i32(e, UINT32_MAX), differs});
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  ll_guard g = ll_if(e, any);
  for (int r = 0; r < n; r++) product[r] = LLVMBuildFMul(e->b, x[r], y[r], "");
  LLVMBasicBlockRef scaled = LLVMGetInsertBlock(e->b);
  ll_end_if(e, g);
  for (int r = 0; r < n; r++) {
    to[r] = LLVMBuildPhi(e->b, LLVMTypeOf(x[r]), "");
    LLVMAddIncoming(to[r], (ll_v[]){x[r], product[r]}, (LLVMBasicBlockRef[]){before, scaled}, 2);
  }
  ll_def(e, op->out[0], to);
}

/* Comparisons of a row's index and a column's, as causal masks are made of: where x[r] and y[r] differ from the first
   registers by constants, x[r] < y[r] if x[0] - y[0] is less than a constant, with one register for all. The difference
   saturates, for beyond the constants it only counts on which side of them it is. */
static bool emit_compare_indices(ll *e, const tir_op *op) {
  enum { FEWEST = 16, MOST = 1 << 30 };
  if (op->code < OP_eq || op->code > OP_ge) return false;
  const tir_value *x = tir_in(op, 0), *y = tir_in(op, 1), *out = op->out[0];
  if (!tir_is_tile(out->type) || tir_is_ptr(x->type)) return false;
  const int64_t *dx = e->delta[x->id], *dy = e->delta[y->id];
  int n = ll_regs(out->type);
  if (tir_dtype_of(x->type) != DT_i32 || !dx || !dy || n < FEWEST) return false;
  bool x_varies = false, y_varies = false;
  for (int r = 0; r < n; r++) {
    if (dx[r] > MOST || dx[r] < -MOST || dy[r] > MOST || dy[r] < -MOST) return false;
    x_varies = x_varies || dx[r];
    y_varies = y_varies || dy[r];
  }
  if (!x_varies || !y_varies) return false;
  tir_dtype i32[2] = {DT_i32, DT_i32};
  ll_v args[] = {ll_use(e, x)[0], ll_use(e, y)[0]}, *to = ll_new(e, n);
  args[0] = ll_asm(e, ASM_sub_sat, e->i32, 2, args);
  for (int r = 0; r < n; r++) {
    args[1] = ll_i32(e, (uint32_t)(dy[r] - dx[r]));
    to[r] = ll_scalar_op(e, op, i32, DT_i1, args);
  }
  ll_def(e, out, to);
  return true;
}

static void emit_elementwise(ll *e, const tir_op *op) {
  if (emit_compare_indices(e, op)) return;
  if (tir_attr_int(op, ATTR_unless_one, 0)) {
    emit_mul_unless_one(e, op);
    return;
  }
  const tir_value *out = tir_out(op, 0);
  ll_v *in[3], arg[3];
  tir_dtype in_dt[3];
  BASE_ASSERT(op->n_in <= 3);
  for (int i = 0; i < op->n_in; i++) {
    in[i] = ll_use(e, tir_in(op, i));
    in_dt[i] = tir_dtype_of(tir_in(op, i)->type);
  }
  int n = ll_regs(out->type);
  ll_v *to = ll_new(e, n);
  if (op->code == OP_cast && !tir_is_ptr(out->type) && !tir_is_ptr(tir_in(op, 0)->type)) {
    bool rtz = strcmp(tir_attr_str(op, ATTR_rounding, ""), "rtz") == 0;
    bool one = tir_is_tile(out->type) && e->delta[out->id];
    ll_cast_all(e, in[0], to, one ? 1 : n, in_dt[0], tir_dtype_of(out->type), rtz, tir_attr_int(op, ATTR_small, 0));
    ll_derive(e, out, to);
  } else if (op->code == OP_div && in_dt[0] == DT_f32 && tir_attr_int(op, ATTR_approx, 0)) {
    ll_div_shared(e, n, in[0], in[1], to);
  } else {
    for (int r = 0; r < n; r++) {
      if (r && same_operands(in, op->n_in, r)) {
        to[r] = to[r - 1];
        continue;
      }
      for (int i = 0; i < op->n_in; i++) arg[i] = in[i][r];
      to[r] = ll_scalar_op(e, op, in_dt, tir_dtype_of(out->type), arg);
      if (r == 0 && ll_derive(e, out, to)) break;
    }
  }
  ll_def(e, out, to);
}

/* ---- dispatch ------------------------------------------------------------------------------------------------- */

static void emit_op(ll *e, const tir_op *op) {
  const tir_value *out = op->n_out ? tir_out(op, 0) : NULL;
  switch (op->code) {
    case OP_for: ll_for(e, op); return;
    case OP_while: ll_while(e, op); return;
    case OP_if: ll_if_op(e, op); return;
    case OP_program_id: fill(e, out, ll_program_id(e, op)); return;
    case OP_num_programs: fill(e, out, ll_num_programs(e, op)); return;
    case OP_next_program: ll_next_program(e, op); return;
    case OP_const: fill(e, out, ll_const(e, tir_elem(out->type), tir_attr_of(op, ATTR_value)->scalar)); return;
    case OP_arange: emit_arange(e, op); return;
    case OP_splat: fill(e, out, ll_use_scalar(e, tir_in(op, 0))); return;
    case OP_unsplat: {
      ll_v *one = ll_new(e, 1);
      one[0] = ll_use(e, tir_in(op, 0))[0];
      ll_def(e, out, one);
      return;
    }
    case OP_expand_dims: emit_expand_dims(e, op); return;
    case OP_reshape:
    case OP_broadcast:
    case OP_trans: rename_registers(e, op, out, view_of(op)); return;
    case OP_join: emit_join(e, op); return;
    case OP_split: emit_split(e, op); return;
    case OP_addptr: emit_addptr(e, op); return;
    case OP_load: ll_load(e, op); return;
    case OP_store: ll_store(e, op); return;
    case OP_atomic_rmw: ll_atomic(e, op); return;
    case OP_reduce: ll_reduce(e, op); return;
    case OP_dot: (tir_attr_of(op, ATTR_inst) ? ll_mma : ll_dot)(e, op); return;
    case OP_alloc: ll_alloc(e, op); return;
    case OP_buffer_at: ll_buffer_at(e, op); return;
    case OP_buffer_trans: ll_buffer_trans(e, op); return;
    case OP_buffer_store: ll_buffer_store(e, op); return;
    case OP_buffer_load: ll_buffer_load(e, op); return;
    case OP_copy_async: ll_copy_async(e, op); return;
    case OP_copy_commit: ll_copy_commit(e); return;
    case OP_copy_wait: ll_copy_wait(e, op); return;
    case OP_fence_async: ll_fence_async(e); return;
    case OP_tensor_map: ll_tensor_map(e, op); return;
    case OP_tma_load: ll_tma_load(e, op); return;
    case OP_tma_release: ll_tma_release(e, op); return;
    case OP_tma_store: ll_tma_store(e, op); return;
    case OP_wgmma: ll_wgmma(e, op); return;
    case OP_wgmma_wait: ll_wgmma_wait(e, op); return;
    case OP_convert_layout: ll_convert(e, op); return;
    case OP_hint: ll_def(e, out, ll_use(e, tir_in(op, 0))); return;
    case OP_assume: {
      ll_v cond = ll_use_scalar(e, tir_in(op, 0));
      ll_intrinsic(e, IN_assume, 1, &cond);
      return;
    }
    case OP_print: ll_print(e, op); return;
    case OP_assert: ll_assert(e, op); return;
    case OP_debug_barrier:
    case OP_barrier: ll_barrier(e); return;
    case OP_return: ll_end_stores(e); return;
    default: break;
  }
  if (!(tir_ops[op->code].flags & OPF_ELT)) base_panic("no emission of op %s", tir_ops[op->code].name);
  emit_elementwise(e, op);
}

void ll_ops(ll *e, const tir_op *from, const tir_op *end) {
  for (const tir_op *op = from; op != end; op = op->next) {
    if (op->code == OP_yield || op->code == OP_condition) return;
    if (e->ahead && !slice_has_op(e->ahead, op)) continue;
    ll_debug_at(e, op->at);
    emit_op(e, op);
  }
}

void ll_region(ll *e, const tir_region *r) { ll_ops(e, r->first, NULL); }
