/* wgmma: matrix products by warpgroups, operands in shared memory (b always, a mostly).
 *
 * The instruction takes rows (its A: a descriptor or registers) and columns (its B: a descriptor). Mostly rows are a's
 * and columns b's. 32-bit operands are read through a descriptor only with K contiguous; a view that has not is the
 * rows, loaded from shared memory into registers here. If that is b, the transposed product is formed, B^T A^T: the
 * accumulator then holds C^T, which is a matter of its layout alone. Rows that are loaded come in another order, so
 * that loads are wide (lay_wgmma_row).
 *
 * One op is one group: fence, every instruction, commit. Where rows are loaded, each step along K is a group: its loads
 * run under the products of the steps before, also those of the iteration before, and overwrite registers that only
 * finished products have read. That needs neither a second set of registers nor a loop unrolled by two. A warpgroup
 * computes its rows (and columns) of the accumulator, 64 x up to 256 at a time, over all steps of K. Shared operands
 * are named by descriptors: the low word holds the address in units of 16 bytes and the leading offset, the high word
 * the stride and the swizzle, which is constant. Steps along K, and to the next block of rows or columns, are constants
 * added to the low word: addresses stay below 256 KB, so nothing carries out of the field. Which warpgroup a thread is
 * in comes from shfl.idx, so that ptxas keeps descriptors in uniform registers.
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

enum { GROUP_WARP_BITS = 2, ROWS = 64, MOST_COLUMNS = 256, K_BYTES = 32, MOST_GROUPS = 4 };
/* Registers that accumulator and sums should take together at most; columns that an instruction makes even so. */
enum { MOST_SUMS = 192, NARROW = 64 };

typedef struct operand { /* of the instruction */
  const tir_value *v;
  int axis; /* of v, and of c: rows of a, or columns of b */
  lay_desc desc;
  ll_v low; /* low word of the descriptor of this warpgroup's first block */
} operand;

typedef struct product {
  ll *e;
  const tir_op *op;
  const tir_type *c;
  operand rows, columns;
  tir_dtype d;
  int k, n, steps;           /* K and N of one instruction; instructions along K */
  int64_t row_step;          /* to the next rows of this warpgroup */
  int64_t n_rows, n_columns; /* of the whole tile; of this warpgroup */
  int per;                   /* elements in one register of the accumulator */
  ll_v *acc;
  lay_span acc_span;
  ll_v *words;       /* of rows in registers: those of step 0, of step 1 .. */
  lay_span held;     /* of rows in registers */
  ll_reader *reader; /* of rows that are loaded, else NULL */
  const char *name;  /* "m64n256k16.f32.bf16.bf16" */
} product;

static ll_v effect(ll *e, const char *text, const char *constraints, LLVMTypeRef result, int n, ll_v *args) {
  return ll_asm_text(e, text, constraints, result, n, args, -1, LL_COLLECTIVE);
}

/* ---- places ---- */

static bool described(const tir_op *op, int i, lay_desc *out) {
  const tir_type *t = tir_in(op, i)->type;
  return lay_sh_desc(t->shared, i, ll_elem_bytes(t), out);
}

/* The operand whose rows are loaded from its view, because no descriptor can say where they are; -1: none. */
static int loaded(const tir_op *op) {
  lay_desc d;
  for (int i = 0; i < 2; i++)
    if (tir_is_buffer(tir_in(op, i)->type) && !described(op, i, &d)) return i;
  return -1;
}

static int k_steps(const tir_op *op) {
  const tir_type *a = tir_in(op, 0)->type;
  return (int)(a->shape[1] * ll_elem_bytes(a) / K_BYTES);
}

/* Groups of one op that may be under way together. */
static int groups(const tir_op *op) {
  int n = k_steps(op);
  return loaded(op) < 0 ? 1 : n < MOST_GROUPS ? n : MOST_GROUPS;
}

/* Flat element at `along` on the axis and `across` on the other. */
static uint32_t element(const tir_type *t, int axis, int64_t along, int64_t across) {
  uint32_t at[2];
  at[axis] = (uint32_t)along;
  at[1 - axis] = (uint32_t)across;
  return lay_flat(lay_shape_make(2, t->shape), at);
}

/* Bytes from the start of an operand's view to a row or column, a multiple of what the swizzle leaves in place. */
static uint32_t distance(const operand *o, int64_t along) {
  const tir_type *t = o->v->type;
  return lay_sh_offset(t->shared, element(t, o->axis, along, 0)) * (uint32_t)ll_elem_bytes(t);
}

/* Describes the operand to this warpgroup. */
static void describe(product *p, operand *o) {
  ll *e = p->e;
  if (!tir_is_buffer(o->v->type) || !described(p->op, o->axis, &o->desc))
    base_panic("wgmma cannot read operand %d", o->axis);
  ll_v at = ll_use_scalar(e, o->v);
  if (LLVMGetTypeKind(LLVMTypeOf(at)) == LLVMPointerTypeKind) at = LLVMBuildPtrToInt(e->b, at, e->i32, "");
  ll_v low = LLVMBuildLShr(e->b, at, ll_i32(e, 4), "");
  const lay_t *l = p->c->layout;
  for (int i = GROUP_WARP_BITS; i < l->nbits[LAY_WARP]; i++) {
    uint32_t index = lay_coord(l, o->axis, l->basis[LAY_WARP][i]);
    if (!index) continue;
    ll_v warp = ll_uniform_warp(e);
    LLVMBasicBlockRef here = ll_hoist_begin(e);
    ll_v bit = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, warp, ll_i32(e, (uint32_t)i), ""), ll_i32(e, 1), "");
    ll_v by = LLVMBuildMul(e->b, bit, ll_i32(e, distance(o, index) / 16), "");
    ll_hoist_end(e, here);
    low = LLVMBuildAdd(e->b, low, by, "");
  }
  o->low = LLVMBuildOr(e->b, low, ll_i32(e, (uint32_t)o->desc.fixed), "");
}

static uint32_t k_bytes(const lay_desc *d, int step) {
  if (!d->box_steps) return (uint32_t)step * d->k_step;
  return ((uint32_t)step % d->box_steps) * d->k_step + ((uint32_t)step / d->box_steps) * d->k_box;
}

/* Of the block at row or column `along`, and the step. */
static ll_v descriptor(ll *e, const operand *o, int64_t along, int step) {
  uint32_t bytes = distance(o, along) + k_bytes(&o->desc, step);
  BASE_ASSERT(bytes % 16 == 0);
  ll_v word = bytes ? LLVMBuildAdd(e->b, o->low, ll_i32(e, bytes / 16), "") : o->low;
  ll_v high = ll_int(e->i64, o->desc.fixed >> 32 << 32);
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

/* The row of the tile that is this row of the instruction. */
static int64_t tile_row(const product *p, int64_t row) { return p->reader ? lay_wgmma_row((uint32_t)row) : row; }

/* Register of accumulator element i of the block at (row, column): PTX ISA, fragment D of wgmma. */
static int accumulator(const product *p, int64_t row, int64_t column, int i) {
  row = tile_row(p, row + 8 * (i >> 1 & 1));
  return ll_register_of(&p->acc_span, element(p->c, p->rows.axis, row, column + 8 * (i >> 2) + (i & 1)));
}

static ll_v *words_of_rows(const product *p, int64_t row, int step) {
  return p->words + 4 * (step * (p->n_rows / p->row_step) + row / p->row_step);
}

/* Fragments of rows in registers, of one step: PTX ISA, fragment A of wgmma. */
static void take_words(product *p, int step) {
  ll *e = p->e;
  int per = 4 / tir_dtypes[p->d].bytes;
  for (int64_t row = 0; row < p->n_rows; row += p->row_step)
    for (int w = 0; w < 4; w++) {
      ll_v x[4];
      for (int i = 0; i < per; i++) {
        int64_t at = (int64_t)step * p->k + (w >> 1) * 4 * per + i;
        uint32_t elem = element(p->rows.v->type, p->rows.axis, tile_row(p, row + 8 * (w & 1)), at);
        int reg = ll_register_of(&p->held, elem);
        x[i] = p->reader ? ll_reader_get(e, p->reader, reg) : ll_use(e, p->rows.v)[reg];
      }
      words_of_rows(p, row, step)[w] = ll_pack_word(e, x, per);
    }
}

/* Registers that are written between the fence and a wgmma make ptxas insert another fence, which waits for the
 * products before (its advisory C7519). So the fence takes and returns all that ordinary instructions made: rows in
 * registers, of n steps, and an accumulator, unless it may be under way. */
static void fence(product *p, int step, int n, bool with_acc) {
  ll *e = p->e;
  ll_v *words = p->words ? words_of_rows(p, 0, step) : NULL;
  int n_words = words ? (int)(4 * n * (p->n_rows / p->row_step)) : 0, n_all = n_words;
  ll_v *values = ll_new(e, n_words + ll_regs(p->c) + 1);
  if (words) memcpy(values, words, sizeof(ll_v) * (size_t)n_words);
  if (with_acc) n_all += words_of(e, p->c, p->acc, values + n_words);
  pass_through(e, "wgmma.fence.sync.aligned;", n_all, values);
  if (words) memcpy(words, values, sizeof(ll_v) * (size_t)n_words);
  if (with_acc) elements_of(e, p->c, values + n_words, p->acc);
}

static void commit(ll *e) { effect(e, "wgmma.commit_group.sync.aligned;", "~{memory}", e->void_, 0, NULL); }

static void instruction(product *p, int64_t row, int64_t column, int step, bool fresh) {
  ll *e = p->e;
  int per = p->per, n_acc = p->n / 2 / per, n = 0;
  bool is_int = tir_dtype_of(p->c) == DT_i32;
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
  if (p->words) {
    const ll_v *words = words_of_rows(p, row, step);
    for (int w = 0; w < 4; w++) {
      args[n++] = words[w];
      text_printf(&text, "%s$%d", w ? "," : "{", n_acc + w);
      text_str(&cons, ",r");
    }
    text_str(&text, "}, ");
  } else {
    args[n++] = descriptor(e, &p->rows, row, step);
    text_printf(&text, "$%d, ", n_acc);
    text_str(&cons, ",l");
  }
  args[n++] = descriptor(e, &p->columns, column, step);
  text_str(&cons, ",l");
  text_printf(&text, "$%d, p", n_acc + n - 1);
  if (!is_int) text_str(&text, ", 1, 1");
  if (p->d == DT_f16 || p->d == DT_bf16) {
    if (!p->words) text_printf(&text, ", %d", p->rows.desc.transposed);
    text_printf(&text, ", %d", p->columns.desc.transposed);
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

/* Everything is there: one group. */
static void multiply(product *p, bool fresh, bool with_acc) {
  for (int step = 0; p->words && step < p->steps; step++) take_words(p, step);
  fence(p, 0, p->steps, with_acc);
  for (int64_t row = 0; row < p->n_rows; row += p->row_step)
    for (int64_t column = 0; column < p->n_columns; column += p->n)
      for (int step = 0; step < p->steps; step++) instruction(p, row, column, step, fresh && step == 0);
  commit(p->e);
}

/* Rows are loaded: a group for each step. Its loads may overwrite the registers that instructions of the step `groups`
   before read. */
static void load_and_multiply(product *p, bool fresh, bool with_acc) {
  const char *wait = arena_printf(p->e->a, "wgmma.wait_group.sync.aligned %d;", groups(p->op) - 1);
  for (int step = 0; step < p->steps; step++) {
    effect(p->e, wait, "~{memory}", p->e->void_, 0, NULL);
    take_words(p, step);
    fence(p, step, 1, with_acc && step == 0);
    for (int64_t row = 0; row < p->n_rows; row += p->row_step)
      for (int64_t column = 0; column < p->n_columns; column += p->n)
        instruction(p, row, column, step, fresh && step == 0);
    commit(p->e);
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

/* One block of the accumulator, by sums over `group` steps each. Wherever the accumulator comes from, the first wait is
   for it too. */
static void block_by_sums(product *p, int64_t row, int64_t column, int group, bool fresh) {
  ll *e = p->e;
  int n = p->n / 2;
  ll_v *values = ll_new(e, 2 * n), *old = values + n;
  for (int i = 0; i < n; i++) old[i] = p->acc[accumulator(p, row, column, i)];
  for (int first = 0; first < p->steps; first += group) {
    fence(p, 0, p->steps, false);
    for (int step = first; step < p->steps && step < first + group; step++)
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

/* f8 whose sums are not to grow long in the hardware. */
static void multiply_by_sums(product *p, int group, bool fresh) {
  for (int step = 0; p->words && step < p->steps; step++) take_words(p, step);
  for (int64_t row = 0; row < p->n_rows; row += p->row_step)
    for (int64_t column = 0; column < p->n_columns; column += p->n) block_by_sums(p, row, column, group, fresh);
}

/* Prepares to load the rows, in the fragments that go with the accumulator. */
static void read_rows(product *p, int groups_n) {
  lay_cx *cx = p->e->fn->cx->layouts;
  int axis = p->rows.axis, warps = p->e->fn->num_warps;
  const int64_t shape[2] = {p->n_rows, (int64_t)p->steps * p->k}, c[2] = {p->n_rows, p->c->shape[1 - axis]};
  if (p->c->layout != lay_wgmma_paired(cx, lay_wgmma_acc(cx, lay_shape_make(2, c), warps, groups_n), axis))
    base_panic("wgmma cannot load operand %d for this accumulator", axis);
  const lay_t *l = lay_wgmma_paired(cx, lay_wgmma_a(cx, lay_shape_make(2, shape), 1, warps, groups_n), axis);
  p->reader = ll_reader_new(p->e, p->op, p->rows.v, l);
  p->held = ll_register_span(l);
}

void ll_wgmma(ll *e, const tir_op *op) {
  product p = {
      .e = e, .op = op, .c = tir_in(op, 2)->type, .steps = k_steps(op), .d = tir_dtype_of(tir_in(op, 1)->type)};
  int by_loads = loaded(op);
  p.rows = (operand){.axis = by_loads == 1 ? 1 : 0};
  p.columns = (operand){.axis = 1 - p.rows.axis};
  p.rows.v = tir_in(op, p.rows.axis);
  p.columns.v = tir_in(op, p.columns.axis);
  p.k = K_BYTES / tir_dtypes[p.d].bytes;
  const lay_t *l = p.c->layout;
  int groups_m = 1, groups_n = 1;
  for (int i = GROUP_WARP_BITS; i < l->nbits[LAY_WARP]; i++) {
    if (lay_coord(l, p.rows.axis, l->basis[LAY_WARP][i])) groups_m *= 2;
    if (lay_coord(l, p.columns.axis, l->basis[LAY_WARP][i])) groups_n *= 2;
  }
  p.n_rows = p.c->shape[p.rows.axis];
  p.n_columns = p.c->shape[p.columns.axis] / groups_n;
  p.n = (int)(p.n_columns < MOST_COLUMNS ? p.n_columns : MOST_COLUMNS);
  int64_t most = tir_attr_int(op, ATTR_max_imprecise, 0);
  int group = (int)((most + p.k - 1) / p.k);
  /* ptxas adds one sum while the next is under way, in other registers. */
  int at_once = group < p.steps ? 2 : 1;
  while (group && p.n > NARROW && ll_regs(p.c) + at_once * p.n / 2 > MOST_SUMS) p.n /= 2;
  p.per = registers_hold(p.c);
  p.name = arena_printf(e->a, "m64n%dk%d.%s.%s.%s", p.n, p.k,
                        tir_dtype_of(p.c) == DT_i32 ? "s32"
                        : p.per > 1                 ? "f16"
                                                    : "f32",
                        type_name(tir_dtype_of(p.rows.v->type)), type_name(tir_dtype_of(p.columns.v->type)));
  int n_regs = ll_regs(p.c);
  p.acc = ll_new(e, n_regs);
  memcpy(p.acc, ll_use(e, tir_in(op, 2)), sizeof(ll_v) * (size_t)n_regs);
  p.acc_span = ll_register_span(l);
  p.row_step = ROWS * groups_m;
  if (by_loads >= 0)
    read_rows(&p, groups_n);
  else if (tir_is_tile(p.rows.v->type))
    p.held = ll_register_span(p.rows.v->type->layout);
  else
    describe(&p, &p.rows);
  describe(&p, &p.columns);
  if (p.reader || tir_is_tile(p.rows.v->type)) p.words = ll_new(e, (int)(4 * p.steps * (p.n_rows / p.row_step)));
  tir_scalar start;
  bool fresh = tir_known_scalar(tir_in(op, 2), &start) && start.bits == 0;
  bool with_acc = !fresh && is_computed(tir_in(op, 2));
  if (group)
    multiply_by_sums(&p, group, fresh);
  else if (p.reader)
    load_and_multiply(&p, fresh, with_acc);
  else
    multiply(&p, fresh, with_acc);
  ll_def(e, op->out[0], p.acc);
}

/* How many groups may be under way where so many ops may: the last op's are all counted if it is known. */
static int pending_groups(const tir_op *wait) {
  int ops = (int)tir_attr_int(wait, ATTR_pending, 0);
  return ops && wait->prev && wait->prev->code == OP_wgmma ? ops - 1 + groups(wait->prev) : ops;
}

void ll_wgmma_wait(ll *e, const tir_op *op) {
  int most = 0, n = 0;
  for (int i = 0; i < op->n_in; i++) most += ll_regs(tir_in(op, i)->type);
  ll_v *words = ll_new(e, most + 1);
  for (int i = 0; i < op->n_in; i++) n += words_of(e, tir_in(op, i)->type, ll_use(e, tir_in(op, i)), words + n);
  pass_through(e, arena_printf(e->a, "wgmma.wait_group.sync.aligned %d;", pending_groups(op)), n, words);
  n = 0;
  for (int i = 0; i < op->n_in; i++) {
    const tir_type *t = tir_in(op, i)->type;
    ll_v *out = ll_new(e, ll_regs(t));
    elements_of(e, t, words + n, out);
    n += ll_regs(t) / registers_hold(t);
    ll_def(e, op->out[i], out);
  }
}
