/* Loads and stores of global memory.
 *
 * A tile's registers are grouped into runs that are consecutive in memory (`vec` of the op, along its `axis`), and each
 * group is one access of up to 16 bytes (32 where the target can). It is moved as 32- or 64-bit words, packed and
 * unpacked here. A mask is the same for all lanes of a group (the pass made `vec` small enough), so that its first
 * register's bit guards the access: `@p ld.global.v4.b32`. Branches around each access, which masked intrinsics become,
 * cost LLVM's time and gain nothing: ptxas turns them back into predicates. Words that are not loaded keep what was in
 * their registers: `other`, tied to the outputs.
 *
 * What is neither guarded nor hinted is plain IR, so that LLVM can fold addresses and share loads.
 *
 * Every thread loads what its registers hold, also where another thread holds it too. A store is done by one owner of
 * each element (lay_free_masks): the same value twice is harmless but costs bandwidth. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

enum { MAX_OPERANDS = 24 };

/* One access: `words` words of word_bits bits hold `elems` elements. */
typedef struct shape {
  int words, word_bits, elems, elem_bits;
} shape;

static shape access_shape(int elems, int elem_bytes) {
  int bits = 8 * elem_bytes, total = bits * elems;
  int word = bits >= 32 ? bits : total < 32 ? total : 32;
  return (shape){total / word, word, elems, bits};
}

static LLVMTypeRef word_type(const ll *e, shape s) { return LLVMIntTypeInContext(e->c, (unsigned)s.word_bits); }

/* elems -> words; bits[] are integers of elem_bits. */
static void pack(ll *e, shape s, const ll_v *bits, ll_v *words) {
  int per = s.word_bits / s.elem_bits;
  for (int w = 0; w < s.words; w++) {
    if (per == 1) {
      words[w] = bits[w];
      continue;
    }
    ll_v v = LLVMGetUndef(LLVMVectorType(LLVMIntTypeInContext(e->c, (unsigned)s.elem_bits), (unsigned)per));
    for (int i = 0; i < per; i++) v = LLVMBuildInsertElement(e->b, v, bits[w * per + i], ll_i32(e, (uint32_t)i), "");
    words[w] = LLVMBuildBitCast(e->b, v, word_type(e, s), "");
  }
}

static void unpack(ll *e, shape s, const ll_v *words, ll_v *bits) {
  int per = s.word_bits / s.elem_bits;
  LLVMTypeRef vt = LLVMVectorType(LLVMIntTypeInContext(e->c, (unsigned)s.elem_bits), (unsigned)per);
  for (int w = 0; w < s.words; w++) {
    if (per == 1) {
      bits[w] = words[w];
      continue;
    }
    ll_v v = LLVMBuildBitCast(e->b, words[w], vt, "");
    for (int i = 0; i < per; i++) bits[w * per + i] = LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)i), "");
  }
}

/* ---- plain accesses ------------------------------------------------------------------------------------------- */

static void plain_load(ll *e, shape s, ll_v at, unsigned align, bool invariant, bool is_volatile, ll_v *words) {
  LLVMTypeRef w = word_type(e, s), t = s.words > 1 ? LLVMVectorType(w, (unsigned)s.words) : w;
  ll_v v = LLVMBuildLoad2(e->b, t, at, "");
  LLVMSetAlignment(v, align);
  LLVMSetVolatile(v, is_volatile);
  if (invariant) {
    unsigned kind = LLVMGetMDKindIDInContext(e->c, "invariant.load", 14);
    LLVMSetMetadata(v, kind, LLVMMetadataAsValue(e->c, LLVMMDNodeInContext2(e->c, NULL, 0)));
  }
  for (int i = 0; i < s.words; i++)
    words[i] = s.words > 1 ? LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)i), "") : v;
}

static void plain_store(ll *e, shape s, ll_v at, unsigned align, const ll_v *words) {
  ll_v v = words[0];
  if (s.words > 1) {
    v = LLVMGetUndef(LLVMVectorType(word_type(e, s), (unsigned)s.words));
    for (int i = 0; i < s.words; i++) v = LLVMBuildInsertElement(e->b, v, words[i], ll_i32(e, (uint32_t)i), "");
  }
  LLVMSetAlignment(LLVMBuildStore(e->b, v, at), align);
}

void ll_vector_load(ll *e, ll_v at, int elems, int elem_bytes, ll_v *bits) {
  shape s = access_shape(elems, elem_bytes);
  ll_v words[4];
  plain_load(e, s, at, (unsigned)(elems * elem_bytes), false, false, words);
  unpack(e, s, words, bits);
}

void ll_vector_store(ll *e, ll_v at, int elems, int elem_bytes, const ll_v *bits) {
  shape s = access_shape(elems, elem_bytes);
  ll_v words[4];
  pack(e, s, bits, words);
  plain_store(e, s, at, (unsigned)(elems * elem_bytes), words);
}

/* ---- guarded and hinted accesses ------------------------------------------------------------------------------ */

typedef struct hints {
  char modifiers[64]; /* between `.global` and the vector's size */
  ll_v policy;        /* NULL = none */
  bool is_volatile, invariant, any;
} hints;

/* The eviction policy as a value; created in the entry block, once per kernel. */
ll_v ll_l2_policy(ll *e, bool last) {
  if (!e->policy[last]) {
    LLVMBasicBlockRef here = ll_hoist_begin(e);
    e->policy[last] = ll_asm(e, last ? ASM_policy_last : ASM_policy_first, e->i64, 0, NULL);
    ll_hoist_end(e, here);
  }
  return e->policy[last];
}

/* PTX allows a cache operator or an L1 eviction priority, not both; the L2 policy goes with either. */
static hints hints_of(ll *e, const tir_op *op) {
  hints h = {.is_volatile = tir_attr_int(op, ATTR_is_volatile, 0) != 0};
  const char *cache = tir_attr_str(op, ATTR_cache, NULL), *evict = tir_attr_str(op, ATTR_evict, NULL);
  if (h.is_volatile) return h;
  h.invariant = op->code != OP_store && tir_elem(tir_in(op, 0)->type)->is_const;
  if (cache)
    snprintf(h.modifiers, sizeof h.modifiers, ".%s", cache);
  else if (evict)
    snprintf(h.modifiers, sizeof h.modifiers, "%s.L1::%s", h.invariant ? ".nc" : "", evict);
  else if (h.invariant)
    snprintf(h.modifiers, sizeof h.modifiers, ".nc");
  if (evict && e->arch->has_cache_policy) {
    h.policy = ll_l2_policy(e, strcmp(evict, "evict_last") == 0);
    strcat(h.modifiers, ".L2::cache_hint");
  }
  h.any = cache || evict;
  return h;
}

static char letter(int word_bits) { return word_bits == 64 ? 'l' : word_bits == 32 ? 'r' : 'h'; }

static void vector_suffix(textbuf *t, shape s) {
  if (s.words > 1) text_printf(t, ".v%d", s.words);
  text_printf(t, ".b%d", s.word_bits);
}

static void operand_list(textbuf *t, int first, int n) {
  if (n == 1) {
    text_printf(t, "$%d", first);
    return;
  }
  for (int i = 0; i < n; i++) text_printf(t, "%s$%d", i ? ", " : "{", first + i);
  text_char(t, '}');
}

/* 8-bit words live in 16-bit registers. */
static ll_v to_register(ll *e, shape s, ll_v w) { return s.word_bits == 8 ? LLVMBuildZExt(e->b, w, e->i16, "") : w; }

static void asm_load(ll *e, shape s, ll_v at, const hints *h, ll_v pred, const ll_v *other, ll_v *words) {
  LLVMTypeRef reg = s.word_bits == 8 ? e->i16 : word_type(e, s), types[8];
  ll_v args[MAX_OPERANDS];
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  int n = 0, next = s.words;
  for (int i = 0; i < s.words; i++) {
    text_printf(&cons, "%s=%c", i ? "," : "", letter(s.word_bits));
    types[i] = reg;
  }
  text_str(&cons, ",*m");
  args[n++] = at;
  int at_no = next++;
  if (h->policy) {
    text_str(&cons, ",l");
    args[n++] = h->policy;
  }
  int policy_no = h->policy ? next++ : 0;
  if (pred) {
    text_printf(&text, "@$%d ", next++);
    text_str(&cons, ",b");
    args[n++] = pred;
    for (int i = 0; i < s.words; i++) {
      text_printf(&cons, ",%d", i);
      args[n++] = to_register(e, s, other[i]);
    }
  }
  text_printf(&text, "ld%s.global%s", h->is_volatile ? ".volatile" : "", h->modifiers);
  vector_suffix(&text, s);
  text_char(&text, ' ');
  operand_list(&text, 0, s.words);
  text_printf(&text, ", $%d", at_no);
  if (h->policy) text_printf(&text, ", $%d", policy_no);
  text_char(&text, ';');
  LLVMTypeRef result = s.words > 1 ? LLVMStructTypeInContext(e->c, types, (unsigned)s.words, false) : reg;
  ll_v v = ll_asm_text(e, text.at, cons.at, result, n, args, 0, LL_EFFECT);
  for (int i = 0; i < s.words; i++) {
    words[i] = s.words > 1 ? LLVMBuildExtractValue(e->b, v, (unsigned)i, "") : v;
    if (s.word_bits == 8) words[i] = LLVMBuildTrunc(e->b, words[i], e->i8, "");
  }
}

static void asm_store(ll *e, shape s, ll_v at, const hints *h, ll_v pred, const ll_v *words) {
  ll_v args[MAX_OPERANDS];
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  int n = 0;
  args[n++] = at;
  text_str(&cons, "=*m");
  for (int i = 0; i < s.words; i++) {
    args[n++] = to_register(e, s, words[i]);
    text_printf(&cons, ",%c", letter(s.word_bits));
  }
  if (h->policy) {
    args[n++] = h->policy;
    text_str(&cons, ",l");
  }
  if (pred) {
    args[n++] = pred;
    text_str(&cons, ",b");
    text_printf(&text, "@$%d ", n - 1);
  }
  text_str(&cons, ",~{memory}");
  text_printf(&text, "st%s.global%s", h->is_volatile ? ".volatile" : "", h->modifiers);
  vector_suffix(&text, s);
  text_str(&text, " $0, ");
  operand_list(&text, 1, s.words);
  if (h->policy) text_printf(&text, ", $%d", s.words + 1);
  text_char(&text, ';');
  ll_asm_text(e, text.at, cons.at, e->void_, n, args, 0, LL_EFFECT);
}

static int pointee_bytes(const tir_type *pointer) {
  const tir_type *t = tir_elem(pointer)->elem;
  return t->kind == TY_PTR ? 8 : tir_dtypes[t->dtype].bytes;
}

/* ---- groups --------------------------------------------------------------------------------------------------- */

/* How the registers of an access are grouped: groups of `vec` registers, consecutive in memory. */
typedef struct groups {
  int vec, n;
  const uint16_t *regs;
} groups;

static groups groups_of(ll *e, const tir_op *op, const tir_type *t, int elem_bytes) {
  static const uint16_t zero = 0;
  if (!tir_is_tile(t)) return (groups){1, 1, &zero};
  int axis = (int)tir_attr_int(op, ATTR_axis, t->rank - 1), vec = (int)tir_attr_int(op, ATTR_vec, 1);
  int widest = (e->arch->has_access_256 ? 32 : 16) / elem_bytes, fits = lay_vec_len(t->layout, axis);
  while (vec > widest || vec > fits) vec /= 2;
  lay_vectors v = lay_vectors_of(e->a, t->layout, axis, vec);
  return (groups){vec, v.n_groups, v.regs};
}

/* The width of an access says that its mask is the same for all lanes of a group: so is it wherever else it is used. */
static void share_mask(const groups *g, ll_v *mask) {
  for (int k = 0; mask && k < g->n * g->vec; k++) mask[g->regs[k]] = mask[g->regs[k - k % g->vec]];
}

/* What the pointers (operand 0) point to, as bits by register; `other` (or zeros) where the mask is off. */
static void load_registers(ll *e, const tir_op *op, ll_v *mask, ll_v *other, ll_v *to) {
  const tir_type *t = tir_in(op, 0)->type;
  int bytes = pointee_bytes(t);
  groups g = groups_of(e, op, t, bytes);
  shape s = access_shape(g.vec, bytes);
  hints h = hints_of(e, op);
  ll_v *at = ll_use(e, tir_in(op, 0)), words[8], rest[8], bits[32];
  BASE_ASSERT(s.words <= 8 && g.vec <= 32);
  for (int k = 0; k < g.n; k++) {
    const uint16_t *regs = g.regs + k * g.vec;
    ll_v pred = mask ? ll_and(e, mask[regs[0]], NULL) : NULL;
    if (pred || h.any) {
      for (int i = 0; i < g.vec; i++)
        bits[i] = other ? ll_to_bits(e, other[regs[i]]) : ll_int(LLVMIntTypeInContext(e->c, (unsigned)s.elem_bits), 0);
      if (pred) pack(e, s, bits, rest);
      asm_load(e, s, at[regs[0]], &h, pred, rest, words);
    } else {
      plain_load(e, s, at[regs[0]], (unsigned)(bytes * g.vec), h.invariant, h.is_volatile, words);
    }
    unpack(e, s, words, bits);
    for (int i = 0; i < g.vec; i++) to[regs[i]] = bits[i];
  }
}

void ll_load(ll *e, const tir_op *op) {
  const tir_value *out = tir_out(op, 0);
  LLVMTypeRef type = ll_type(e, out->type);
  int n = ll_regs(out->type);
  ll_v *mask = op->n_in > 1 ? ll_use(e, tir_in(op, 1)) : NULL, *other = op->n_in > 2 ? ll_use(e, tir_in(op, 2)) : NULL;
  ll_v *to = ll_new(e, n);
  load_registers(e, op, mask, other, to);
  for (int r = 0; r < n; r++) to[r] = ll_from_bits(e, to[r], type);
  ll_def(e, out, to);
}

void ll_copy_load(ll *e, const tir_op *op, ll_v *bits) {
  load_registers(e, op, op->n_in > 2 ? ll_use(e, tir_in(op, 2)) : NULL, NULL, bits);
}

void ll_store(ll *e, const tir_op *op) {
  const tir_type *t = tir_in(op, 1)->type;
  int bytes = ll_elem_bytes(t);
  groups g = groups_of(e, op, t, bytes);
  shape s = access_shape(g.vec, bytes);
  hints h = hints_of(e, op);
  ll_v *at = ll_use(e, tir_in(op, 0)), *value = ll_use(e, tir_in(op, 1));
  ll_v *mask = op->n_in > 2 ? ll_use(e, tir_in(op, 2)) : NULL, owner;
  if (tir_is_tile(t)) {
    uint32_t free_bits[LAY_NHW];
    lay_free_masks(t->layout, free_bits);
    owner = ll_owner(e, free_bits[LAY_LANE], free_bits[LAY_WARP]);
  } else {
    owner = ll_single_thread(e);
  }
  ll_v words[8], bits[32];
  BASE_ASSERT(s.words <= 8 && g.vec <= 32);
  share_mask(&g, mask);
  for (int k = 0; k < g.n; k++) {
    const uint16_t *regs = g.regs + k * g.vec;
    ll_v pred = ll_and(e, mask ? mask[regs[0]] : NULL, owner);
    for (int i = 0; i < g.vec; i++) bits[i] = ll_to_bits(e, value[regs[i]]);
    pack(e, s, bits, words);
    if (pred || h.any || h.is_volatile)
      asm_store(e, s, at[regs[0]], &h, pred, words);
    else
      plain_store(e, s, at[regs[0]], (unsigned)(bytes * g.vec), words);
  }
}
