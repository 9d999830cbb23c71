/* Dot by mma.sync, the tensor core instruction of one warp.
 *
 * The operands are in registers, in the fragments of the instruction that the op names (arch's mma.def): the layouts
 * pass chose lay_mma_operand's layouts or others that agree with them. Nothing is assumed of the order of registers:
 * each fragment register of the instruction is an element of the tile (lay_mma_tile), and the register that holds it is
 * found in the operand's layout. That lanes and warps agree with the instruction is asserted.
 *
 * A tile that is smaller than the instruction is padded here. Along M and N the missing rows and columns repeat those
 * that are there (bases of the layout are zero), and so does what comes out of them. Along K they would be added, so
 * that both operands are zeroed there: one of them would not do, because 0 * inf is NaN.
 *
 * Steps of K go outermost: neighbours are then products into different accumulators, which do not wait for each other.
 *
 * f32 by the tf32 instruction hands the bits over as they are; the hardware does not read the low 13. The split forms
 * write a factor as a sum of narrow parts, x = x0 + x1 (+ x2), and leave out the smallest products: the small ones are
 * summed first, from zero, then x0 * y0 on top of them, then the accumulator. Where x0 is infinite x1 is NaN: a sum of
 * small products that is NaN counts as 0, so that inf * y remains what it is. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

enum { MAX_PARTS = 3, MAX_TERMS = 6, MAX_WORDS = 8 };

/* How the factors of a dot on f32 are made of narrower parts; terms in the order in which they are summed. */
typedef struct split {
  const char *precision, *type;
  int parts, n_terms;
  uint8_t term[MAX_TERMS][2]; /* part of a, part of b */
} split;

static const split splits[] = {
    {"tf32", "tf32", 1, 1, {{0, 0}}},
    {"tf32x3", "tf32", 2, 3, {{1, 0}, {0, 1}, {0, 0}}},
    {"bf16x3", "bf16", 2, 3, {{1, 0}, {0, 1}, {0, 0}}},
    {"bf16x6", "bf16", 3, 6, {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}}},
};

/* ---- words ---------------------------------------------------------------------------------------------------- */

ll_v ll_word_of(ll *e, const ll_v *x, int n) {
  ll_v vector = NULL;
  for (int i = 0; i < n; i++) {
    if (!LLVMIsAExtractElementInst(x[i])) return NULL;
    ll_v from = LLVMGetOperand(x[i], 0), at = LLVMGetOperand(x[i], 1);
    if (!LLVMIsAConstantInt(at) || LLVMConstIntGetZExtValue(at) != (unsigned)i || (i && from != vector)) return NULL;
    vector = from;
  }
  if (!LLVMIsABitCastInst(vector)) return NULL;
  ll_v word = LLVMGetOperand(vector, 0);
  return LLVMTypeOf(word) == e->i32 && LLVMGetVectorSize(LLVMTypeOf(vector)) == (unsigned)n ? word : NULL;
}

ll_v ll_pack_word(ll *e, const ll_v *x, int n) {
  if (n == 1) return LLVMTypeOf(x[0]) == e->i32 ? x[0] : LLVMBuildBitCast(e->b, x[0], e->i32, "");
  ll_v known = ll_word_of(e, x, n);
  if (known) return known;
  ll_v v = LLVMGetUndef(LLVMVectorType(LLVMTypeOf(x[0]), (unsigned)n));
  for (int i = 0; i < n; i++) v = LLVMBuildInsertElement(e->b, v, x[i], ll_i32(e, (uint32_t)i), "");
  return LLVMBuildBitCast(e->b, v, e->i32, "");
}

void ll_unpack_word(ll *e, ll_v word, LLVMTypeRef elem, ll_v *x, int n) {
  if (n == 1) {
    x[0] = elem == e->i32 ? word : LLVMBuildBitCast(e->b, word, elem, "");
    return;
  }
  ll_v v = LLVMBuildBitCast(e->b, word, LLVMVectorType(elem, (unsigned)n), "");
  for (int i = 0; i < n; i++) x[i] = LLVMBuildExtractElement(e->b, v, ll_i32(e, (uint32_t)i), "");
}

/* ---- operands ------------------------------------------------------------------------------------------------- */

/* One side of the product, seen as [batch][2 axes]: `k` is the axis that is summed, `other` the one it shares with the
 * result (its first axis for A, its second for B). */
typedef struct side {
  const lay_t *l, *tile;
  lay_shape shape;
  lay_span regs;
  int k, other;
  uint32_t zero_lanes; /* lanes with such a bit hold copies of elements beyond K */
  const ll_v *x[MAX_PARTS];
  ll_v *words[MAX_PARTS]; /* by register: the word that begins with it, NULL until it is needed */
} side;

static uint32_t extent(lay_shape s, int axis) { return UINT32_C(1) << s.bits[axis]; }

/* Coordinates along the two last axes. */
static uint32_t along(const lay_t *l, int axis, int hw, int bit) { return lay_coord(l, axis, l->basis[hw][bit]); }

/* Lanes hold what the instruction wants, where the tile is large enough, and warps what the result's warps want. */
static void check_side(const side *s, const lay_t *c, int c_axis) {
  int first = s->l->rank - 2;
  for (int i = 0; i < LAY_LANE_BITS; i++)
    for (int axis = 0; axis < 2; axis++) {
      uint32_t want = along(s->tile, axis, LAY_LANE, i) & (extent(s->shape, first + axis) - 1);
      BASE_ASSERT(along(s->l, first + axis, LAY_LANE, i) == want);
    }
  BASE_ASSERT(s->l->nbits[LAY_WARP] == c->nbits[LAY_WARP]);
  for (int i = 0; i < c->nbits[LAY_WARP]; i++) {
    BASE_ASSERT(along(s->l, s->k, LAY_WARP, i) == 0);
    BASE_ASSERT(along(s->l, s->other, LAY_WARP, i) == along(c, c_axis, LAY_WARP, i));
  }
  for (int b = 0; b < first; b++)
    for (int h = LAY_LANE; h <= LAY_WARP; h++)
      for (int i = 0; i < s->l->nbits[h]; i++)
        BASE_ASSERT(lay_coord(s->l, b, s->l->basis[h][i]) == lay_coord(c, b, c->basis[h][i]));
}

static side side_of(ll *e, const tir_value *v, const lay_t *tile, bool is_a) {
  const lay_t *l = v->type->layout;
  int r = l->rank;
  side s = {.l = l, .tile = tile, .shape = lay_shape_of(l), .regs = ll_register_span(l)};
  s.k = is_a ? r - 1 : r - 2;
  s.other = is_a ? r - 2 : r - 1;
  uint32_t depth = extent(s.shape, s.k);
  for (int i = 0; i < LAY_LANE_BITS; i++)
    if (along(tile, is_a ? 1 : 0, LAY_LANE, i) >= depth) s.zero_lanes |= UINT32_C(1) << i;
  for (int p = 0; p < MAX_PARTS; p++) s.words[p] = ll_new(e, lay_regs(l));
  return s;
}

static ll_v zeroed_beyond(ll *e, const side *s, ll_v word) {
  if (!s->zero_lanes) return word;
  ll_v zero = LLVMConstNull(LLVMTypeOf(word));
  ll_v bits = LLVMBuildAnd(e->b, ll_lane(e), ll_i32(e, s->zero_lanes), "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, bits, ll_i32(e, 0), ""), word, zero, "");
}

/* The words of one fragment: of the batch and at the place along `other` that `at` has, from k0 on. */
static void fragment(ll *e, side *s, int part, int kw, const uint32_t *at, uint32_t k0, ll_v *words) {
  int n = lay_regs(s->tile) / kw, tile_k = s->k == s->l->rank - 1 ? 1 : 0;
  for (int w = 0; w < n; w++) {
    ll_v in[4];
    int first = -1;
    for (int i = 0; i < kw; i++) {
      uint32_t c[LAY_MAX_RANK], t = lay_apply(s->tile, (uint32_t)(w * kw + i), 0, 0, 0);
      memcpy(c, at, sizeof c);
      c[s->k] = k0 + lay_coord(s->tile, tile_k, t);
      c[s->other] += lay_coord(s->tile, 1 - tile_k, t);
      c[s->other] &= extent(s->shape, s->other) - 1;
      if (c[s->k] >= extent(s->shape, s->k)) {
        in[i] = LLVMConstNull(LLVMTypeOf(s->x[part][0]));
      } else {
        int r = ll_register_of(&s->regs, lay_flat(s->shape, c));
        if (i == 0) first = r;
        in[i] = s->x[part][r];
      }
    }
    ll_v *known = first >= 0 ? &s->words[part][first] : NULL;
    if (known && *known) {
      words[w] = *known;
      continue;
    }
    bool is_f64 = LLVMTypeOf(in[0]) == e->f64;
    words[w] = zeroed_beyond(e, s, is_f64 ? in[0] : ll_pack_word(e, in, kw));
    if (known) *known = words[w];
  }
}

/* The parts of a factor: all of it, or a sum of narrower ones. */
static void make_parts(ll *e, side *s, const tir_value *v, const split *how) {
  int n = lay_regs(s->l);
  ll_v *x = ll_use(e, v);
  s->x[0] = x;
  if (!how || how->parts == 1) return;
  bool tf32 = strcmp(how->type, "tf32") == 0;
  ll_v *rest = ll_new(e, n);
  memcpy(rest, x, (size_t)n * sizeof *rest);
  for (int p = 0; p < how->parts; p++) {
    ll_v *part = ll_new(e, n);
    for (int r = 0; r < n; r++) {
      ll_v wide;
      if (tf32) {
        part[r] = wide = LLVMBuildBitCast(e->b, ll_asm(e, ASM_tf32, e->i32, 1, &rest[r]), e->f32, "");
      } else {
        part[r] = ll_cast(e, rest[r], DT_f32, DT_bf16, false);
        wide = ll_cast(e, part[r], DT_bf16, DT_f32, false);
      }
      if (p + 1 < how->parts) rest[r] = LLVMBuildFSub(e->b, rest[r], wide, "");
    }
    s->x[p] = part;
  }
}

/* ---- the instruction ------------------------------------------------------------------------------------------ */

typedef struct mma {
  const arch_mma *row;
  int na, nb, nc, per_c; /* registers of each operand; elements of one of the accumulator's */
  LLVMTypeRef c_type, result;
  const char *text, *constraints;
} mma;

static void register_list(textbuf *t, int first, int n) {
  for (int i = 0; i < n; i++) text_printf(t, "%s$%d", i ? ", " : "{", first + i);
  text_char(t, '}');
}

static mma mma_of(ll *e, const arch_mma *row, tir_dtype acc) {
  mma m = {.row = row,
           .na = row->m * row->k / 32 / row->kw,
           .nb = row->k * row->n / 32 / row->kw,
           .per_c = acc == DT_f16 ? 2 : 1};
  m.nc = row->m * row->n / 32 / m.per_c;
  char ab = strcmp(row->a, "f64") == 0 ? 'd' : 'r', c = acc == DT_f64 ? 'd' : acc == DT_f32 ? 'f' : 'r';
  m.c_type = c == 'd' ? e->f64 : c == 'f' ? e->f32 : e->i32;
  LLVMTypeRef all[4] = {m.c_type, m.c_type, m.c_type, m.c_type};
  m.result = LLVMStructTypeInContext(e->c, all, (unsigned)m.nc, false);
  textbuf text, cons;
  text_init(&text, e->a);
  text_init(&cons, e->a);
  text_printf(&text, "mma.sync.aligned.%s ", row->ptx);
  register_list(&text, 0, m.nc);
  text_str(&text, ", ");
  register_list(&text, m.nc, m.na);
  text_str(&text, ", ");
  register_list(&text, m.nc + m.na, m.nb);
  text_str(&text, ", ");
  register_list(&text, 0, m.nc);
  text_char(&text, ';');
  for (int i = 0; i < m.nc; i++) text_printf(&cons, "%s=%c", i ? "," : "", c);
  for (int i = 0; i < m.na + m.nb; i++) text_printf(&cons, ",%c", ab);
  for (int i = 0; i < m.nc; i++) text_printf(&cons, ",%d", i);
  m.text = text.at;
  m.constraints = cons.at;
  return m;
}

static void multiply(ll *e, const mma *m, const ll_v *a, const ll_v *b, ll_v *c) {
  ll_v args[3 * MAX_WORDS];
  int n = 0;
  for (int i = 0; i < m->na; i++) args[n++] = a[i];
  for (int i = 0; i < m->nb; i++) args[n++] = b[i];
  for (int i = 0; i < m->nc; i++) args[n++] = c[i];
  ll_v d = ll_asm_text(e, m->text, m->constraints, m->result, n, args, -1, LL_CONVERGENT);
  for (int i = 0; i < m->nc; i++) c[i] = LLVMBuildExtractValue(e->b, d, (unsigned)i, "");
}

/* ---- the dot -------------------------------------------------------------------------------------------------- */

/* One instruction's part of the result: where it begins, and its accumulator registers. */
typedef struct block {
  uint32_t at[LAY_MAX_RANK];
  int regs[2 * MAX_WORDS]; /* element -> register of the result's layout */
  ll_v c[MAX_WORDS];
} block;

static void check_result(const lay_t *c, const lay_t *tile) {
  lay_shape s = lay_shape_of(c);
  for (int i = 0; i < LAY_LANE_BITS; i++)
    for (int axis = 0; axis < 2; axis++) {
      int at = c->rank - 2 + axis;
      BASE_ASSERT(along(c, at, LAY_LANE, i) == (along(tile, axis, LAY_LANE, i) & (extent(s, at) - 1)));
    }
}

/* The instructions that cover the result, each once, in the order of its registers. */
static int blocks_of(ll *e, const lay_t *c, const lay_t *tile, block *out) {
  lay_shape s = lay_shape_of(c), ts = lay_shape_of(tile);
  lay_span regs = ll_register_span(c);
  int n = lay_regs(c), size = lay_regs(tile), count = 0, row = c->rank - 2, col = c->rank - 1;
  bool *taken = ARENA_ARRAY(e->a, bool, n);
  for (int r = 0; r < n; r++) {
    block b;
    int first = ll_register_of(&regs, lay_apply(c, (uint32_t)r, 0, 0, 0));
    if (taken[first]) continue;
    lay_unflat(s, lay_apply(c, (uint32_t)r, 0, 0, 0), b.at);
    b.at[row] &= ~(extent(ts, 0) - 1);
    b.at[col] &= ~(extent(ts, 1) - 1);
    for (int i = 0; i < size; i++) {
      uint32_t at[LAY_MAX_RANK], t = lay_apply(tile, (uint32_t)i, 0, 0, 0);
      memcpy(at, b.at, sizeof at);
      at[row] = (at[row] + lay_coord(tile, 0, t)) & (extent(s, row) - 1);
      at[col] = (at[col] + lay_coord(tile, 1, t)) & (extent(s, col) - 1);
      b.regs[i] = ll_register_of(&regs, lay_flat(s, at));
      taken[b.regs[i]] = true;
    }
    out[count++] = b;
  }
  return count;
}

static void read_accumulators(ll *e, const mma *m, block *b, const ll_v *acc) {
  for (int i = 0; i < m->nc; i++) {
    ll_v in[2];
    for (int j = 0; j < m->per_c; j++) in[j] = acc[b->regs[i * m->per_c + j]];
    b->c[i] = m->per_c > 1 ? ll_pack_word(e, in, m->per_c) : in[0];
  }
}

static void write_results(ll *e, const mma *m, const block *b, LLVMTypeRef elem, ll_v *out) {
  for (int i = m->nc - 1; i >= 0; i--) {
    ll_v x[2] = {b->c[i]};
    if (m->per_c > 1) ll_unpack_word(e, b->c[i], elem, x, m->per_c);
    for (int j = m->per_c - 1; j >= 0; j--) out[b->regs[i * m->per_c + j]] = x[j];
  }
}

/* sum of the products of one part of each factor, on top of what the blocks hold */
static void sum_products(ll *e, const mma *m, side *a, side *b, int pa, int pb, block *blocks, int n) {
  uint32_t depth = extent(a->shape, a->k);
  for (uint32_t k = 0; k < depth; k += (uint32_t)m->row->k)
    for (int i = 0; i < n; i++) {
      ll_v wa[MAX_WORDS], wb[MAX_WORDS];
      fragment(e, a, pa, m->row->kw, blocks[i].at, k, wa);
      fragment(e, b, pb, m->row->kw, blocks[i].at, k, wb);
      multiply(e, m, wa, wb, blocks[i].c);
    }
}

static ll_v nan_to_zero(ll *e, ll_v x) {
  return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealORD, x, x, ""), x, ll_f32(e, 0), "");
}

/* How the op's factors reach the instruction: NULL if they are of its types already. */
static const split *split_of(const tir_op *op) {
  if (tir_dtype_of(tir_in(op, 0)->type) != DT_f32) return NULL;
  const char *precision = tir_attr_str(op, ATTR_precision, "ieee");
  for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
    if (strcmp(splits[i].precision, precision) == 0) return &splits[i];
  base_panic("tensor cores do not multiply f32 in precision %s", precision);
}

static const arch_mma *instruction_of(const ll *e, const tir_op *op, const split *how) {
  const char *name = tir_attr_str(op, ATTR_inst, ""), *type[3];
  for (int i = 0; i < 3; i++) type[i] = tir_dtypes[tir_dtype_of(tir_in(op, i)->type)].text;
  const arch_mma *row = arch_mma_named(e->arch, name, how ? how->type : type[0], how ? how->type : type[1], type[2]);
  if (!row) base_panic("%s has no %s of %s and %s into %s", e->arch->name, name, type[0], type[1], type[2]);
  return row;
}

void ll_mma(ll *e, const tir_op *op) {
  const tir_value *acc = tir_in(op, 2), *out = tir_out(op, 0);
  const lay_t *c = out->type->layout;
  lay_cx *cx = e->fn->cx->layouts;
  const split *how = split_of(op);
  const arch_mma *row = instruction_of(e, op, how);
  mma m = mma_of(e, row, tir_dtype_of(out->type));
  const lay_t *tile_c = lay_mma_tile(cx, LAY_C, row->m, row->n, row->k, row->kw);
  side a = side_of(e, tir_in(op, 0), lay_mma_tile(cx, LAY_A, row->m, row->n, row->k, row->kw), true);
  side b = side_of(e, tir_in(op, 1), lay_mma_tile(cx, LAY_B, row->m, row->n, row->k, row->kw), false);
  check_result(c, tile_c);
  check_side(&a, c, c->rank - 2);
  check_side(&b, c, c->rank - 1);
  make_parts(e, &a, tir_in(op, 0), how);
  make_parts(e, &b, tir_in(op, 1), how);

  int n_out = ll_regs(out->type);
  block *blocks = ARENA_ARRAY(e->a, block, n_out);
  int n = blocks_of(e, c, tile_c, blocks);
  ll_v *sum = ll_use(e, acc), *to = ll_new(e, n_out);
  int terms = how ? how->n_terms : 1;
  for (int i = 0; i < n; i++) {
    if (terms == 1)
      read_accumulators(e, &m, &blocks[i], sum);
    else
      for (int j = 0; j < m.nc; j++) blocks[i].c[j] = ll_f32(e, 0);
  }
  for (int t = 0; t < terms; t++) {
    if (t && t + 1 == terms)
      for (int i = 0; i < n; i++)
        for (int j = 0; j < m.nc; j++) blocks[i].c[j] = nan_to_zero(e, blocks[i].c[j]);
    sum_products(e, &m, &a, &b, how ? how->term[t][0] : 0, how ? how->term[t][1] : 0, blocks, n);
  }
  for (int i = 0; i < n; i++) write_results(e, &m, &blocks[i], ll_type(e, out->type), to);
  lay_span regs = ll_register_span(c);
  for (int r = 0; r < n_out; r++) {
    int holds = ll_register_of(&regs, lay_apply(c, (uint32_t)r, 0, 0, 0));
    if (holds != r)
      to[r] = to[holds];
    else if (terms > 1)
      to[r] = LLVMBuildFAdd(e->b, to[r], sum[r], "");
  }
  ll_def(e, out, to);
}
