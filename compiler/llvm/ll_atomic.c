/* Read-modify-write of global memory, by inline assembly: LLVM's atomicrmw drops the ordering and the scope.
 *
 * Each element is updated once, by its owner (lay_free_masks), under its mask. Where the old values are not used this
 * is `red`, which does not wait, and on consecutive elements one instruction for several: pairs of f16 and bf16,
 * vectors of f32. Where they are used and some threads hold copies, owners leave them in scratch (row-major) for the
 * others.
 *
 * What has no instruction is a compare-and-swap loop: bf16 below sm_90. The smallest and the largest of floats are
 * those of their encodings: as signed integers for a non-negative operand; a negative one compares the other way round,
 * as unsigned. Two guarded instructions, of which a thread executes one. */
#include <string.h>

#include "compiler/ir/scratch.h"
#include "compiler/llvm/ll_internal.h"

typedef struct rmw {
  const tir_op *op;
  tir_dtype d;
  bool is_float, used;
  const char *kind, *sem, *scope; /* as in the op's attributes */
  LLVMTypeRef type, bits;
} rmw;

/* PTX operation and type: "add.f32", "max.s64". NULL: the target has none. */
static const char *instruction(ll *e, const rmw *a) {
  const char *kind = a->kind;
  int bits = tir_dtypes[a->d].bits;
  if (strcmp(kind, "xchg") == 0) return arena_printf(e->a, "exch.b%d", bits);
  if (strcmp(kind, "and") == 0 || strcmp(kind, "or") == 0 || strcmp(kind, "xor") == 0)
    return arena_printf(e->a, "%s.b%d", kind, bits);
  if (strcmp(kind, "add") == 0 || strcmp(kind, "fadd") == 0) {
    if (a->d == DT_bf16) return e->arch->has_atom_bf16 ? "add.noftz.bf16" : NULL;
    if (a->d == DT_f16) return "add.noftz.f16";
    return a->is_float ? arena_printf(e->a, "add.f%d", bits) : arena_printf(e->a, "add.u%d", bits);
  }
  if (strcmp(kind, "umax") == 0) return arena_printf(e->a, "max.u%d", bits);
  if (strcmp(kind, "umin") == 0) return arena_printf(e->a, "min.u%d", bits);
  return arena_printf(e->a, "%s.%c%d", kind, dt_is_signed(a->d) ? 's' : 'u', bits);
}

static char letter(int bits) { return bits == 64 ? 'l' : bits == 32 ? 'r' : 'h'; }

/* An update whose old value nobody looks at synchronises with nothing that came before it: `red` knows only relaxed and
 * release (PTX ISA, red). */
static const char *unobserved(const char *sem) {
  return !strcmp(sem, "acq_rel") || !strcmp(sem, "release") ? "release" : "relaxed";
}

/* One `atom` (or `red`, result NULL) on bits; lanes without pred give `otherwise`. */
static ll_v one_atomic(ll *e, const rmw *a, const char *what, ll_v at, ll_v value, ll_v pred, ll_v otherwise) {
  char c = letter(tir_dtypes[a->d].bits);
  ll_v args[4];
  int n = 0, first = a->used ? 1 : 0;
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  text_printf(&cons, a->used ? "=%c,l,%c" : "l,%c", c, c);
  args[n++] = at;
  args[n++] = value;
  if (pred) {
    text_printf(&text, "@$%d ", first + 2);
    text_str(&cons, ",b");
    args[n++] = pred;
    if (a->used) {
      text_str(&cons, ",0");
      args[n++] = otherwise;
    }
  }
  text_str(&cons, ",~{memory}");
  text_printf(&text, "%s.%s.%s.global.%s ", a->used ? "atom" : "red", a->sem, a->scope, what);
  if (a->used) text_str(&text, "$0, ");
  text_printf(&text, "[$%d], $%d;", first, first + 1);
  return ll_asm_text(e, text.at, cons.at, a->used ? a->bits : e->void_, n, args, -1, LL_EFFECT);
}

/* Updates by compare-and-swap until nobody came between. */
static ll_v swap_loop(ll *e, const rmw *a, ll_v at, ll_v value, ll_v pred, ll_v otherwise) {
  int bits = tir_dtypes[a->d].bits;
  char c = letter(bits);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
  ll_guard g = ll_if(e, pred);
  LLVMBasicBlockRef start = LLVMGetInsertBlock(e->b), loop = LLVMAppendBasicBlockInContext(e->c, e->f, ""),
                    done = LLVMAppendBasicBlockInContext(e->c, e->f, "");
  const char *load = arena_printf(e->a, "ld.relaxed.%s.global.b%d $0, [$1];", a->scope, bits);
  ll_v seen = ll_asm_text(e, load, arena_printf(e->a, "=%c,l,~{memory}", c), a->bits, 1, &at, -1, LL_EFFECT);
  LLVMBuildBr(e->b, loop);

  LLVMPositionBuilderAtEnd(e->b, loop);
  ll_v old = LLVMBuildPhi(e->b, a->bits, "");
  ll_v sum = ll_binary(e, OP_add, a->d, ll_from_bits(e, old, a->type), ll_from_bits(e, value, a->type));
  const char *swap = arena_printf(e->a, "atom.%s.%s.global.cas.b%d $0, [$1], $2, $3;", a->sem, a->scope, bits);
  ll_v args[3] = {at, old, ll_to_bits(e, sum)};
  ll_v got =
      ll_asm_text(e, swap, arena_printf(e->a, "=%c,l,%c,%c,~{memory}", c, c, c), a->bits, 3, args, -1, LL_EFFECT);
  LLVMAddIncoming(old, (ll_v[]){seen, got}, (LLVMBasicBlockRef[]){start, loop}, 2);
  LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, got, old, ""), done, loop);

  LLVMPositionBuilderAtEnd(e->b, done);
  ll_end_if(e, g);
  if (!g.after || !a->used) return got;
  ll_v result = LLVMBuildPhi(e->b, a->bits, "");
  LLVMAddIncoming(result, (ll_v[]){otherwise, got}, (LLVMBasicBlockRef[]){before, done}, 2);
  return result;
}

static ll_v update(ll *e, const rmw *a, ll_v at, ll_v value, ll_v pred) {
  ll_v zero = LLVMConstNull(a->bits), bits = ll_to_bits(e, value);
  const char *what = instruction(e, a);
  return what ? one_atomic(e, a, what, at, bits, pred, zero) : swap_loop(e, a, at, bits, pred, zero);
}

/* ---- several elements at once --------------------------------------------------------------------------------- */

/* `red` of n consecutive elements that the target has one instruction for: 1 if none. */
static int red_width(ll *e, const rmw *a, int vec) {
  if (a->used || !a->is_float || (strcmp(a->kind, "add") != 0 && strcmp(a->kind, "fadd") != 0)) return 1;
  if (a->d == DT_f32 && e->arch->has_red_vec) return vec >= 4 ? 4 : vec;
  bool pairs = (a->d == DT_f16 && e->arch->has_red_f16x2) || (a->d == DT_bf16 && e->arch->has_atom_bf16);
  return pairs && vec >= 2 ? 2 : 1;
}

static void red_vector(ll *e, const rmw *a, int n, ll_v at, const ll_v *values, ll_v pred) {
  ll_v args[6];
  int k = 0;
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  text_char(&cons, 'l');
  args[k++] = at;
  const char *type = a->d == DT_f32 ? (n == 4 ? "v4.f32" : "v2.f32") : a->d == DT_f16 ? "noftz.f16x2" : "noftz.bf16x2";
  if (a->d == DT_f32) {
    for (int i = 0; i < n; i++) {
      text_str(&cons, ",f");
      args[k++] = values[i];
    }
  } else {
    ll_v v = LLVMGetUndef(LLVMVectorType(a->type, 2));
    for (int i = 0; i < 2; i++) v = LLVMBuildInsertElement(e->b, v, values[i], ll_i32(e, (uint32_t)i), "");
    text_str(&cons, ",r");
    args[k++] = LLVMBuildBitCast(e->b, v, e->i32, "");
  }
  int words = k - 1;
  if (pred) {
    text_printf(&text, "@$%d ", k);
    text_str(&cons, ",b");
    args[k++] = pred;
  }
  text_str(&cons, ",~{memory}");
  text_printf(&text, "red.%s.%s.global.add.%s [$0], ", a->sem, a->scope, type);
  for (int i = 1; i <= words; i++) text_printf(&text, "%s$%d", i > 1 ? ", " : words > 1 ? "{" : "", i);
  text_str(&text, words > 1 ? "};" : ";");
  ll_asm_text(e, text.at, cons.at, e->void_, k, args, -1, LL_EFFECT);
}

/* ---- the op --------------------------------------------------------------------------------------------------- */

/* Owners leave the old values in scratch, everyone takes its own copies from there. */
static void share_results(ll *e, const tir_op *op, const tir_type *t, ll_v owner, ll_v *old) {
  int64_t scratch = tir_attr_int(op, ATTR_scratch, -1);
  BASE_ASSERT(scratch >= 0);
  static const uint32_t none[LAY_LANE_BITS + LAY_MAX_HWBITS] = {0};
  const lay_t *l = tir_is_tile(t) ? t->layout : NULL;
  lay_terms terms =
      l ? lay_terms_of(e->a, l->basis[LAY_LANE], l->nbits[LAY_LANE], l->basis[LAY_WARP], l->nbits[LAY_WARP])
        : lay_terms_of(e->a, none, LAY_LANE_BITS, none, 0);
  LLVMTypeRef bits = LLVMIntTypeInContext(e->c, 8u * (unsigned)ll_elem_bytes(t));
  int n = ll_regs(t);
  ll_v base = ll_shared_at(e, scratch), at = ll_terms(e, &terms), *place = ll_new(e, n);
  for (int r = 0; r < n; r++) {
    uint32_t element = l ? lay_apply(l, (uint32_t)r, 0, 0, 0) : 0;
    ll_v wide = LLVMBuildZExt(e->b, ll_at(e, at, &terms, element), e->i64, "");
    place[r] = LLVMBuildInBoundsGEP2(e->b, bits, base, &wide, 1, "");
  }
  ll_guard g = ll_if(e, owner);
  for (int r = 0; r < n; r++) LLVMBuildStore(e->b, old[r], place[r]);
  ll_end_if(e, g);
  ll_barrier(e);
  for (int r = 0; r < n; r++) old[r] = LLVMBuildLoad2(e->b, bits, place[r], "");
}

void ll_atomic(ll *e, const tir_op *op) {
  const tir_value *out = tir_out(op, 0), *value = tir_in(op, 1);
  const tir_type *t = value->type;
  tir_dtype d = tir_dtype_of(t);
  rmw a = {.op = op, .d = d, .is_float = dt_is_float(d), .used = tir_has_uses(out), .type = ll_type(e, t)};
  a.kind = tir_attr_str(op, ATTR_kind, "add");
  if (strcmp(a.kind, "xchg") == 0) a.used = true; /* there is no red.exch */
  a.sem = tir_attr_str(op, ATTR_sem, "acq_rel");
  if (!a.used) a.sem = unobserved(a.sem);
  a.scope = tir_attr_str(op, ATTR_scope, "gpu");
  a.bits = LLVMIntTypeInContext(e->c, tir_dtypes[d].bits);
  BASE_ASSERT(tir_dtypes[d].bits >= 16);

  ll_v *at = ll_use(e, tir_in(op, 0)), *in = ll_use(e, value), *mask = op->n_in > 2 ? ll_use(e, tir_in(op, 2)) : NULL;
  int n = ll_regs(t), width = 1;
  ll_v owner = tir_is_tile(t) ? NULL : ll_single_thread(e);
  const uint16_t *order = NULL;
  if (tir_is_tile(t)) {
    uint32_t free_bits[LAY_NHW];
    lay_free_masks(t->layout, free_bits);
    owner = ll_owner(e, free_bits[LAY_LANE], free_bits[LAY_WARP]);
    int axis = (int)tir_attr_int(op, ATTR_axis, t->rank - 1), vec = (int)tir_attr_int(op, ATTR_vec, 1);
    int fits = lay_vec_len(t->layout, axis);
    width = red_width(e, &a, vec < fits ? vec : fits);
    order = lay_vectors_of(e->a, t->layout, axis, width).regs;
  }
  ll_v *old = ll_new(e, n), values[4];
  for (int k = 0; k < n; k += width) {
    int r = order ? order[k] : k;
    ll_v pred = ll_and(e, mask ? mask[r] : NULL, owner);
    if (width > 1) {
      for (int i = 0; i < width; i++) values[i] = in[order[k + i]];
      red_vector(e, &a, width, at[r], values, pred);
    } else {
      old[r] = update(e, &a, at[r], in[r], pred);
    }
  }
  if (!a.used) return;
  if (tir_attr_of(op, ATTR_scratch)) share_results(e, op, t, owner, old);
  for (int r = 0; r < n; r++) old[r] = ll_from_bits(e, old[r], a.type);
  ll_def(e, out, old);
}
