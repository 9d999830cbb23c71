/* wgmma: matrix products by warpgroups, operands in shared memory (b always, a mostly).
 *
 * One op is one group: fence, every instruction, commit. A warpgroup computes its rows (and columns) of the
 * accumulator, 64 x up to 256 at a time, over all steps of K. Shared operands are named by descriptors: the low word
 * holds the address in units of 16 bytes and the leading offset, the high word the stride and the swizzle, which is
 * constant. Steps along K, and to the next block of rows or columns, are constants added to the low word: addresses
 * stay below 256 KB, so nothing carries out of the field. Which warpgroup a thread is in comes from shfl.idx, so that
 * ptxas keeps descriptors in uniform registers.
 *
 * Accumulators belong to the hardware from here to the wait; each is one SSA value from phi to phi. An accumulator that
 * is known to be zero is not read at all (scale-d = 0 in the first step). The wait takes and returns the accumulators,
 * which keeps every use of theirs behind it and costs nothing. f16 accumulators come in pairs, one register each: the
 * pair is taken apart behind the wait only (ll_pack_word finds the register again), so that they cannot be under way
 * from one iteration of a loop to the next, where each would be a value of its own.
 *
 * Products of f8 are summed with fewer bits than f32 has. An op with max_imprecise starts a sum of its own for every so
 * many of them (to whole instructions), waits for it, and adds it to the accumulator in f32; then nothing of it is
 * under way behind the op, and a wait for its group waits for nothing. These sums need registers beside the
 * accumulator, so one instruction makes fewer columns where that is large. Sources: PTX ISA, "Asynchronous warpgroup
 * level matrix instructions"; lay_sh_desc for the descriptors. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

enum { GROUP_WARP_BITS = 2, ROWS = 64, MOST_COLUMNS = 256, K_BYTES = 32 };
/* Registers that accumulator and sums should take together at most; columns that an instruction makes even so. */
enum { MOST_SUMS = 192, NARROW = 64 };

typedef struct product {
  ll *e;
  const tir_op *op;
  const tir_type *a, *b, *c;
  tir_dtype d;
  int k, n;         /* of one instruction */
  int64_t row_step; /* to the next rows of this warpgroup */
  int per;          /* elements in one register of the accumulator */
  lay_shape shape;  /* of c */
  lay_desc desc_a, desc_b;
  ll_v low_a, low_b; /* low words of the descriptors of this warpgroup's first block */
  ll_v *acc;
  lay_span acc_span;
  ll_v *a_words; /* of an a in registers: four for each instruction, in the order of the instructions of one column */
  const char *name; /* "m64n256k16.f32.bf16.bf16" */
} product;

static ll_v effect(ll *e, const char *text, const char *constraints, LLVMTypeRef result, int n, ll_v *args) {
  return ll_asm_text(e, text, constraints, result, n, args, -1, LL_COLLECTIVE);
}

/* ---- places ---- */

static uint32_t element(lay_shape s, int64_t row, int64_t column) {
  return lay_flat(s, (uint32_t[]){(uint32_t)row, (uint32_t)column});
}

/* Bytes from the start of a view to its element (row, column), both multiples of what the swizzle leaves in place. */
static uint32_t distance(const tir_type *view, int64_t row, int64_t column) {
  lay_shape s = lay_shape_make(view->rank, view->shape);
  return lay_sh_offset(view->shared, element(s, row, column)) * tir_dtypes[view->elem->dtype].bytes;
}

/* The low word for this warpgroup: `along_rows` says whether its rows or its columns select the block of the view. */
static ll_v low_word(product *p, const tir_value *view, const lay_desc *d, bool along_rows) {
  ll *e = p->e;
  ll_v at = ll_use_scalar(e, view);
  if (LLVMGetTypeKind(LLVMTypeOf(at)) == LLVMPointerTypeKind) at = LLVMBuildPtrToInt(e->b, at, e->i32, "");
  ll_v low = LLVMBuildLShr(e->b, at, ll_i32(e, 4), "");
  const lay_t *l = p->c->layout;
  for (int i = GROUP_WARP_BITS; i < l->nbits[LAY_WARP]; i++) {
    uint32_t moved = l->basis[LAY_WARP][i], index = lay_coord(l, along_rows ? 0 : 1, moved);
    if (!index) continue;
    uint32_t bytes = along_rows ? distance(view->type, index, 0) : distance(view->type, 0, index);
    ll_v warp = ll_uniform_warp(e);
    LLVMBasicBlockRef here = ll_hoist_begin(e);
    ll_v bit = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, warp, ll_i32(e, (uint32_t)i), ""), ll_i32(e, 1), "");
    ll_v by = LLVMBuildMul(e->b, bit, ll_i32(e, bytes / 16), "");
    ll_hoist_end(e, here);
    low = LLVMBuildAdd(e->b, low, by, "");
  }
  return LLVMBuildOr(e->b, low, ll_i32(e, (uint32_t)d->fixed), "");
}

static uint32_t k_bytes(const lay_desc *d, int step) {
  if (!d->box_steps) return (uint32_t)step * d->k_step;
  return ((uint32_t)step % d->box_steps) * d->k_step + ((uint32_t)step / d->box_steps) * d->k_box;
}

static ll_v descriptor(ll *e, ll_v low, const lay_desc *d, uint32_t bytes) {
  BASE_ASSERT(bytes % 16 == 0);
  ll_v word = bytes ? LLVMBuildAdd(e->b, low, ll_i32(e, bytes / 16), "") : low;
  ll_v high = ll_int(e->i64, d->fixed >> 32 << 32);
  return LLVMBuildOr(e->b, LLVMBuildZExt(e->b, word, e->i64, ""), high, "");
}

/* ---- registers ---- */

/* Elements in one register of an accumulator. */
static int registers_hold(const tir_type *acc) { return tir_dtype_of(acc) == DT_f16 ? 2 : 1; }

/* The registers that hold an accumulator, in words[]; pairs are those along its last axis. Returns how many. */
static int words_of(ll *e, const tir_type *t, const ll_v *regs, ll_v *words) {
  int n = ll_regs(t);
  if (registers_hold(t) == 1) {
    memcpy(words, regs, sizeof(ll_v) * (size_t)n);
    return n;
  }
  lay_span held = ll_register_span(t->layout);
  int count = 0;
  for (int r = 0; r < n; r++) {
    uint32_t at = lay_apply(t->layout, (uint32_t)r, 0, 0, 0);
    if (at & 1) continue;
    ll_v pair[2] = {regs[r], regs[ll_register_of(&held, at | 1)]};
    words[count++] = ll_pack_word(e, pair, 2);
  }
  return count;
}

static void elements_of(ll *e, const tir_type *t, const ll_v *words, ll_v *regs) {
  int n = ll_regs(t);
  if (registers_hold(t) == 1) {
    memcpy(regs, words, sizeof(ll_v) * (size_t)n);
    return;
  }
  lay_span held = ll_register_span(t->layout);
  for (int r = 0; r < n; r++) {
    uint32_t at = lay_apply(t->layout, (uint32_t)r, 0, 0, 0);
    if (at & 1) continue;
    ll_v pair[2];
    ll_unpack_word(e, *words++, ll_type(e, t), pair, 2);
    regs[r] = pair[0];
    regs[ll_register_of(&held, at | 1)] = pair[1];
  }
}

/* An instruction that takes the values and gives them back, in the same registers. */
static void pass_through(ll *e, const char *text, int n, ll_v *values) {
  textbuf cons;
  text_init(&cons, e->a);
  LLVMTypeRef *types = ARENA_ARRAY(e->a, LLVMTypeRef, n + 1);
  for (int i = 0; i < n; i++) {
    types[i] = LLVMTypeOf(values[i]);
    text_printf(&cons, "=%c,", types[i] == e->i32 ? 'r' : 'f');
  }
  for (int i = 0; i < n; i++) text_printf(&cons, "%d,", i);
  text_str(&cons, "~{memory}");
  LLVMTypeRef result = n == 0 ? e->void_ : n == 1 ? types[0] : LLVMStructTypeInContext(e->c, types, (unsigned)n, false);
  ll_v call = effect(e, text, cons.at, result, n, values);
  for (int i = 0; i < n; i++) values[i] = n == 1 ? call : LLVMBuildExtractValue(e->b, call, (unsigned)i, "");
}

/* Whether ordinary instructions made the value. One that comes from a wgmma, or round a loop, may be under way. */
static bool is_computed(const tir_value *v) {
  return v->def && v->def->code != OP_wgmma && v->def->code != OP_wgmma_wait && v->def->n_regions == 0;
}

/* ---- instructions ---- */

/* Register of accumulator element i of the block at (row, column): PTX ISA, fragment D of wgmma. */
static int accumulator(const product *p, int64_t row, int64_t column, int i) {
  return ll_register_of(&p->acc_span, element(p->shape, row + 8 * (i >> 1 & 1), column + 8 * (i >> 2) + (i & 1)));
}

static int steps(const product *p) { return (int)(p->a->shape[1] / p->k); }

static ll_v *a_words(const product *p, int64_t row, int step) {
  return p->a_words + 4 * (row / p->row_step * steps(p) + step);
}

static void pack_a(product *p, const tir_value *a) {
  ll *e = p->e;
  const ll_v *regs = ll_use(e, a);
  lay_span held = ll_register_span(p->a->layout);
  lay_shape s = lay_shape_make(2, p->a->shape);
  int per = 4 / tir_dtypes[p->d].bytes;
  p->a_words = ll_new(e, (int)(4 * steps(p) * (p->a->shape[0] / p->row_step)));
  for (int64_t row = 0; row < p->a->shape[0]; row += p->row_step)
    for (int step = 0; step < steps(p); step++)
      for (int w = 0; w < 4; w++) {
        ll_v x[4];
        for (int i = 0; i < per; i++) {
          int64_t column = (int64_t)step * p->k + (w >> 1) * 4 * per + i;
          x[i] = regs[ll_register_of(&held, element(s, row + 8 * (w & 1), column))];
        }
        a_words(p, row, step)[w] = ll_pack_word(e, x, per);
      }
}

/* Registers that are written between the fence and a wgmma make ptxas insert another fence, which waits for the
 * products before (its advisory C7519). So the fence takes and returns all that ordinary instructions made: an a in
 * registers, and an accumulator, unless it may be under way. */
static void fence(product *p, bool fresh) {
  ll *e = p->e;
  int n_a = p->a_words ? (int)(4 * steps(p) * (p->a->shape[0] / p->row_step)) : 0;
  bool with_acc = !fresh && is_computed(tir_in(p->op, 2));
  ll_v *values = ll_new(e, n_a + ll_regs(p->c) + 1);
  if (n_a) memcpy(values, p->a_words, sizeof(ll_v) * (size_t)n_a);
  int n = n_a + (with_acc ? words_of(e, p->c, p->acc, values + n_a) : 0);
  pass_through(e, "wgmma.fence.sync.aligned;", n, values);
  if (n_a) memcpy(p->a_words, values, sizeof(ll_v) * (size_t)n_a);
  if (with_acc) elements_of(e, p->c, values + n_a, p->acc);
}

static void instruction(product *p, int64_t row, int64_t column, int step, bool fresh) {
  ll *e = p->e;
  int per = p->per, n_acc = p->n / 2 / per, n = 0;
  bool in_registers = tir_is_tile(p->a), is_int = tir_dtype_of(p->c) == DT_i32;
  LLVMTypeRef one = tir_dtype_of(p->c) == DT_f32 ? e->f32 : e->i32;
  char letter = one == e->f32 ? 'f' : 'r';
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  ll_v *args = ARENA_ARRAY(e->a, ll_v, n_acc + 5);
  text_printf(&text, "{ .reg .pred p; setp.ne.b32 p, %d, 0; wgmma.mma_async.sync.aligned.%s {", fresh ? 0 : 1, p->name);
  for (int i = 0; i < n_acc; i++) text_printf(&text, "%s$%d", i ? "," : "", i);
  text_str(&text, "}, ");
  for (int i = 0; i < n_acc; i++) text_printf(&cons, "%s=%c", i ? "," : "", letter);
  if (in_registers) {
    const ll_v *words = a_words(p, row, step);
    for (int w = 0; w < 4; w++) {
      args[n++] = words[w];
      text_printf(&text, "%s$%d", w ? "," : "{", n_acc + w);
      text_str(&cons, ",r");
    }
    text_str(&text, "}, ");
  } else {
    args[n++] = descriptor(e, p->low_a, &p->desc_a, distance(p->a, row, 0) + k_bytes(&p->desc_a, step));
    text_printf(&text, "$%d, ", n_acc);
    text_str(&cons, ",l");
  }
  args[n++] = descriptor(e, p->low_b, &p->desc_b, distance(p->b, 0, column) + k_bytes(&p->desc_b, step));
  text_str(&cons, ",l");
  text_printf(&text, "$%d, p", n_acc + n - 1);
  if (!is_int) text_str(&text, ", 1, 1");
  if (p->d == DT_f16 || p->d == DT_bf16) {
    if (!in_registers) text_printf(&text, ", %d", p->desc_a.transposed);
    text_printf(&text, ", %d", p->desc_b.transposed);
  }
  text_str(&text, "; }");
  LLVMTypeRef *parts = ARENA_ARRAY(e->a, LLVMTypeRef, n_acc);
  for (int i = 0; i < n_acc; i++) {
    ll_v old[2];
    for (int j = 0; j < per; j++) old[j] = p->acc[accumulator(p, row, column, i * per + j)];
    args[n++] = fresh ? LLVMGetUndef(one) : per > 1 ? ll_pack_word(e, old, per) : old[0];
    text_printf(&cons, ",%d", i);
    parts[i] = one;
  }
  ll_v call = effect(e, text.at, cons.at, LLVMStructTypeInContext(e->c, parts, (unsigned)n_acc, false), n, args);
  for (int i = 0; i < n_acc; i++) {
    ll_v x[2] = {LLVMBuildExtractValue(e->b, call, (unsigned)i, "")};
    if (per > 1) ll_unpack_word(e, x[0], ll_type(e, p->c), x, per);
    for (int j = 0; j < per; j++) p->acc[accumulator(p, row, column, i * per + j)] = x[j];
  }
}

static const char *type_name(tir_dtype d) {
  switch (d) {
    case DT_f16: return "f16";
    case DT_bf16: return "bf16";
    case DT_f8e4m3: return "e4m3";
    case DT_f8e5m2: return "e5m2";
    case DT_i8: return "s8";
    default: return "tf32";
  }
}

static void commit(ll *e) { effect(e, "wgmma.commit_group.sync.aligned;", "~{memory}", e->void_, 0, NULL); }

/* One block of the accumulator, by sums over `group` steps each. Wherever the accumulator comes from, the first wait is
   for it too. */
static void block_by_sums(product *p, int64_t row, int64_t column, int group, bool fresh) {
  ll *e = p->e;
  int n = p->n / 2;
  ll_v *values = ll_new(e, 2 * n), *old = values + n;
  for (int i = 0; i < n; i++) old[i] = p->acc[accumulator(p, row, column, i)];
  for (int first = 0; first < steps(p); first += group) {
    fence(p, true);
    for (int step = first; step < steps(p) && step < first + group; step++)
      instruction(p, row, column, step, step == first);
    commit(e);
    for (int i = 0; i < n; i++) values[i] = p->acc[accumulator(p, row, column, i)];
    pass_through(e, "wgmma.wait_group.sync.aligned 0;", first || fresh ? n : 2 * n, values);
    for (int i = 0; i < n; i++) {
      old[i] = first || !fresh ? LLVMBuildFAdd(e->b, old[i], values[i], "") : values[i];
      p->acc[accumulator(p, row, column, i)] = old[i];
    }
  }
}

void ll_wgmma(ll *e, const tir_op *op) {
  product p = {.e = e, .op = op, .a = tir_in(op, 0)->type, .b = tir_in(op, 1)->type, .c = tir_in(op, 2)->type};
  p.d = tir_dtype_of(p.b);
  p.k = K_BYTES / tir_dtypes[p.d].bytes;
  p.shape = lay_shape_make(2, p.c->shape);
  const lay_t *l = p.c->layout;
  int64_t groups_m = 1, groups_n = 1;
  for (int i = GROUP_WARP_BITS; i < l->nbits[LAY_WARP]; i++) {
    if (lay_coord(l, 0, l->basis[LAY_WARP][i])) groups_m *= 2;
    if (lay_coord(l, 1, l->basis[LAY_WARP][i])) groups_n *= 2;
  }
  int64_t columns = p.c->shape[1] / groups_n;
  p.n = (int)(columns < MOST_COLUMNS ? columns : MOST_COLUMNS);
  int64_t most = tir_attr_int(op, ATTR_max_imprecise, 0);
  int group = (int)((most + p.k - 1) / p.k);
  /* ptxas adds one sum while the next is under way, in other registers. */
  int at_once = group < steps(&p) ? 2 : 1;
  while (group && p.n > NARROW && ll_regs(p.c) + at_once * p.n / 2 > MOST_SUMS) p.n /= 2;
  p.per = registers_hold(p.c);
  p.name = arena_printf(e->a, "m64n%dk%d.%s.%s.%s", p.n, p.k,
                        tir_dtype_of(p.c) == DT_i32 ? "s32"
                        : p.per > 1                 ? "f16"
                                                    : "f32",
                        type_name(tir_dtype_of(p.a)), type_name(p.d));
  int n_regs = ll_regs(p.c);
  p.acc = ll_new(e, n_regs);
  memcpy(p.acc, ll_use(e, tir_in(op, 2)), sizeof(ll_v) * (size_t)n_regs);
  p.acc_span = ll_register_span(l);
  p.row_step = ROWS * groups_m;
  if (tir_is_tile(p.a)) {
    pack_a(&p, tir_in(op, 0));
  } else {
    if (!lay_sh_desc(p.a->shared, 0, tir_dtypes[tir_dtype_of(p.a)].bytes, &p.desc_a)) base_panic("wgmma cannot read a");
    p.low_a = low_word(&p, tir_in(op, 0), &p.desc_a, true);
  }
  if (!lay_sh_desc(p.b->shared, 1, tir_dtypes[p.d].bytes, &p.desc_b)) base_panic("wgmma cannot read b");
  p.low_b = low_word(&p, tir_in(op, 1), &p.desc_b, false);
  tir_scalar start;
  bool fresh = tir_known_scalar(tir_in(op, 2), &start) && start.bits == 0;
  if (!group) fence(&p, fresh);
  for (int64_t row = 0; row < p.c->shape[0]; row += p.row_step)
    for (int64_t column = 0; column < columns; column += p.n)
      if (group)
        block_by_sums(&p, row, column, group, fresh);
      else
        for (int step = 0; step < steps(&p); step++) instruction(&p, row, column, step, fresh && step == 0);
  if (!group) commit(e);
  ll_def(e, op->out[0], p.acc);
}

void ll_wgmma_wait(ll *e, const tir_op *op) {
  int most = 0, n = 0;
  for (int i = 0; i < op->n_in; i++) most += ll_regs(tir_in(op, i)->type);
  ll_v *words = ll_new(e, most + 1);
  for (int i = 0; i < op->n_in; i++) n += words_of(e, tir_in(op, i)->type, ll_use(e, tir_in(op, i)), words + n);
  int pending = (int)tir_attr_int(op, ATTR_pending, 0);
  pass_through(e, arena_printf(e->a, "wgmma.wait_group.sync.aligned %d;", pending), n, words);
  n = 0;
  for (int i = 0; i < op->n_in; i++) {
    const tir_type *t = tir_in(op, i)->type;
    ll_v *out = ll_new(e, ll_regs(t));
    elements_of(e, t, words + n, out);
    n += ll_regs(t) / registers_hold(t);
    ll_def(e, op->out[i], out);
  }
}
