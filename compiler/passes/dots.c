/* dots: instruction, warps and layouts of a dot, from types, shapes and the target.
 *
 * Preference: wgmma (a multiple of 4 warps, 64 rows for each warpgroup, 16-bit types, or 8-bit and tf32 whose K is
 * contiguous: only 16-bit operands can be transposed on the way from shared memory), then mma.sync, then FMA, which
 * alone is exact for f32 (`precision` ieee).
 *
 * Of tf32 one operand may have K the other way: wgmma takes its rows from registers, and a 32-bit fragment can be
 * loaded from a tile of either order. If that operand is b, the rows are b's columns: the product is formed transposed,
 * and the layout of the result says so. Fragments of 8-bit types hold four K in a register, which only a byte shuffle
 * could put there.
 *
 * Warpgroups go along M as long as each has 64 rows, then along N. Warps of mma.sync are split so that the fragments
 * that one warp needs of both operands together are fewest; when the result is the first operand of another dot, all
 * along M, because then that dot finds its rows in the same warps. A batch axis takes warps first, then registers. */
#include "compiler/passes/dots.h"

#include <string.h>

static const char *operand_name(const tir_op *dot, tir_dtype d) {
  const char *precision = tir_attr_str(dot, ATTR_precision, "ieee");
  if (d != DT_f32) return tir_dtypes[d].text;
  if (!strncmp(precision, "bf16", 4)) return "bf16"; /* bf16x3, bf16x6, tf32x3: several products of narrow parts */
  return strcmp(precision, "ieee") ? "tf32" : "f32";
}

static lay_shape shape_of(const tir_type *t) { return lay_shape_make(t->rank, t->shape); }

static int min_int(int a, int b) { return a < b ? a : b; }

static bool is_tf32(const tir_op *dot) {
  return tir_dtype_of(tir_in(dot, 0)->type) == DT_f32 && !strcmp(tir_attr_str(dot, ATTR_precision, "ieee"), "tf32");
}

/* Whether wgmma's rows are b's columns: tf32, both by rows in memory. */
static bool transposed(const tir_op *dot, int inner_a, int inner_b) {
  return is_tf32(dot) && inner_a == 1 && inner_b == 1;
}

static const char *no_wgmma(const pass_cx *cx, const tir_fn *fn, const tir_op *dot, int inner_a, int inner_b) {
  const tir_type *a = tir_in(dot, 0)->type, *b = tir_in(dot, 1)->type, *c = tir_in(dot, 2)->type;
  tir_dtype d = tir_dtype_of(a), acc = tir_dtype_of(c);
  int bytes = tir_dtypes[d].bytes, rows = transposed(dot, inner_a, inner_b) ? 1 : 0;
  bool half = d == DT_f16 || d == DT_bf16, fp8 = d == DT_f8e4m3 || d == DT_f8e5m2;
  if (!cx->arch->has_wgmma) return "the target has no wgmma";
  if (fn->num_warps % 4) return "wgmma needs a multiple of 4 warps";
  if (c->rank != 2) return "wgmma takes two axes";
  if (c->shape[rows] < 64) return rows ? "wgmma of the transposed product needs 64 columns" : "wgmma needs 64 rows";
  enum { NARROWEST = 32 /* bytes: the smallest swizzle, and K of one instruction */ };
  if (c->shape[1 - rows] < 8 || a->shape[1] * bytes < NARROWEST || b->shape[inner_b ? 1 : 0] * bytes < NARROWEST)
    return "the tile is smaller than one wgmma";
  if (d == DT_f32 && !is_tf32(dot)) return "wgmma has no such precision of f32";
  if (!half && !fp8 && d != DT_i8 && d != DT_f32) return "wgmma has no such type";
  if (!fp8 && tir_dtype_of(b) != d) return "wgmma takes one type for both operands";
  if (acc != (d == DT_i8 ? DT_i32 : DT_f32) && !(acc == DT_f16 && (d == DT_f16 || fp8)))
    return "wgmma has no such accumulator";
  if (half || rows) return NULL;
  if (d == DT_f32 && inner_b != 0)
    return "wgmma reads tf32 with K contiguous in memory, of at least one loaded operand, and b's is not";
  if (inner_b != 0) return "wgmma reads this type only with K contiguous in memory, and b's is not";
  if (d != DT_f32 && inner_a == 0) return "wgmma reads this type only with K contiguous in memory, and a's is not";
  return NULL;
}

static bool by_wgmma(tir_fn *fn, const tir_op *dot, int inner_a, int inner_b, dot_plan *p) {
  const tir_type *a = tir_in(dot, 0)->type, *c = tir_in(dot, 2)->type;
  lay_cx *cx = fn->cx->layouts;
  bool turned = transposed(dot, inner_a, inner_b), rows_loaded = turned || (is_tf32(dot) && inner_a == 0);
  const int64_t shape[2] = {c->shape[turned ? 1 : 0], c->shape[turned ? 0 : 1]};
  int groups = fn->num_warps / 4, along_m = min_int(groups, (int)(shape[0] / 64)), along_n = groups / along_m;
  if (shape[1] / along_n < 8) return false;
  enum { MOST_ACCUMULATORS = 256 };
  if (c->numel / (32 * fn->num_warps) > MOST_ACCUMULATORS) return false;
  int bytes = tir_dtypes[tir_dtype_of(a)].bytes;
  p->way = DOT_WGMMA;
  p->transposed = turned;
  p->c = lay_wgmma_acc(cx, lay_shape_make(2, shape), fn->num_warps, along_n);
  if (rows_loaded) p->c = lay_wgmma_paired(cx, p->c, turned ? 1 : 0);
  if (!rows_loaded) p->a = lay_wgmma_a(cx, shape_of(a), 4 / bytes, fn->num_warps, along_n);
  return true;
}

static int64_t extent(const tir_type *t, int from_last) { return t->shape[t->rank - 1 - from_last]; }

/* Fragment words per thread of both operands for a split of the warps; warps beyond the tile hold copies. */
static int64_t fragments(const tir_type *c, const arch_mma *inst, int warps_m, int warps_n) {
  int64_t m = extent(c, 1) / (warps_m * inst->m), n = extent(c, 0) / (warps_n * inst->n);
  return (m ? m : 1) * inst->m + (n ? n : 1) * inst->n;
}

/* The layout of t, of which each matrix of the batch has layout l in some of the warps: `warps` of them side by side.
 */
static const lay_t *with_batch(lay_cx *cx, const lay_t *l, const tir_type *t, int warps) {
  if (t->rank == 2) return l;
  lay_t r = *l;
  r.rank = 3;
  r.axis_bits[2] = l->axis_bits[1];
  r.axis_bits[1] = l->axis_bits[0];
  r.axis_bits[0] = shape_of(t).bits[0];
  for (int i = 0; i < r.axis_bits[0]; i++, warps /= 2) {
    int dim = warps > 1 ? LAY_WARP : LAY_REG;
    r.basis[dim][r.nbits[dim]++] = UINT32_C(1) << (lay_bits(l) + i);
  }
  return lay_intern(cx, &r);
}

static void by_mma(tir_fn *fn, const tir_op *dot, bool chained, dot_plan *p) {
  const tir_type *t[3] = {tir_in(dot, 0)->type, tir_in(dot, 1)->type, tir_in(dot, 2)->type}, *c = t[2];
  lay_mma best = {.m = p->inst->m, .n = p->inst->n, .k = p->inst->k, .kw = p->inst->kw, .n_fast = true};
  int batches = c->rank == 3 ? min_int(fn->num_warps, (int)c->shape[0]) : 1, warps = fn->num_warps / batches;
  int64_t fewest = INT64_MAX;
  for (int m = warps; m >= 1; m /= 2) {
    int n = warps / m;
    int64_t words = fragments(c, p->inst, m, n);
    bool idle =
        m * p->inst->m > extent(c, 1) && n * p->inst->n < extent(c, 0); /* warps that only repeat others' rows */
    if (idle || words >= fewest) continue;
    fewest = words;
    best.warps_m = m;
    best.warps_n = n;
    if (chained) break;
  }
  if (fewest == INT64_MAX) best.warps_m = warps, best.warps_n = 1;
  lay_cx *cx = fn->cx->layouts;
  const lay_t **out[3] = {&p->a, &p->b, &p->c};
  p->way = DOT_MMA;
  for (int i = 0; i < 3; i++) {
    lay_shape matrix = lay_shape_make(2, t[i]->shape + t[i]->rank - 2);
    *out[i] = with_batch(cx, lay_mma_operand(cx, (lay_operand)i, &best, matrix), t[i], batches);
  }
}

dot_plan dot_choose(tir_fn *fn, const pass_cx *cx, const tir_op *dot, int inner_a, int inner_b, bool chained) {
  const tir_type *a = tir_in(dot, 0)->type, *b = tir_in(dot, 1)->type, *c = tir_in(dot, 2)->type;
  dot_plan p = {.way = DOT_FMA};
  p.why_slower = no_wgmma(cx, fn, dot, inner_a, inner_b);
  if (!p.why_slower && by_wgmma(fn, dot, inner_a, inner_b, &p)) return p;
  if (!cx->arch->has_wgmma) p.why_slower = NULL;
  p.inst = arch_mma_find(cx->arch, operand_name(dot, tir_dtype_of(a)), operand_name(dot, tir_dtype_of(b)),
                         tir_dtypes[tir_dtype_of(c)].text, (int)extent(a, 0));
  if (p.inst) {
    by_mma(fn, dot, chained, &p);
    return p;
  }
  p.why_slower = "the target has no tensor core instruction for these types";
  p.c = lay_fma_result(fn->cx->layouts, shape_of(c), fn->num_warps);
  int k = (int)a->shape[a->rank - 1];
  p.a = lay_fma_operand(fn->cx->layouts, LAY_A, p.c, k);
  p.b = lay_fma_operand(fn->cx->layouts, LAY_B, p.c, k);
  return p;
}

const sh_t *dot_shared_layout(tir_cx *cx, const tir_type *t, int inner) {
  if (t->rank != 2) return NULL;
  int bytes = tir_dtypes[tir_dtype_of(t)].bytes;
  int width = lay_sh_tma_width(shape_of(t), inner, bytes);
  return width ? lay_sh_tma(cx->layouts, shape_of(t), inner, width, bytes) : NULL;
}

void dot_widen_f8(tir_fn *fn, const pass_cx *cx) {
  if (cx->arch->has_fp8) return;
  for (tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code != OP_dot) continue;
    const tir_type *a = tir_in(op, 0)->type;
    tir_dtype d = tir_dtype_of(a);
    const char *acc = tir_dtypes[tir_dtype_of(tir_in(op, 2)->type)].text;
    if ((d != DT_f8e4m3 && d != DT_f8e5m2) || !arch_mma_find(cx->arch, "f16", "f16", acc, (int)a->shape[a->rank - 1]))
      continue;
    tir_builder b = tir_before(fn, op);
    for (int i = 0; i < 2; i++) tir_set_in(op, i, tir_cast(&b, tir_in(op, i), tir_scalar_type(fn->cx, DT_f16)));
    pass_remark(cx, op->at, "its operands become f16, as the target has no products of f8");
  }
}
