/* See dot_case.h. */
#include "tests/unit/dot_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/passes/passes.h"
#include "tests/test.h"
#include "tests/unit/llvm_run.h"

/* ---- building ------------------------------------------------------------------------------------------------- */

static tir_value *index_along(tir_builder *b, const lay_t *layout, int axis, int64_t stride) {
  tir_cx *cx = b->fn->cx;
  int other = 1 - axis;
  const lay_t *line = lay_reduced(cx->layouts, layout, other);
  int64_t n = INT64_C(1) << layout->axis_bits[axis], shape[2] = {1, 1};
  const tir_type *i32 = tir_scalar_type(cx, DT_i32);
  tir_value *at = tir_build1(b, OP_arange, 0, NULL, tir_tile_type(cx, i32, 1, &n, line));
  tir_set_int(at->def, ATTR_start, 0);
  at = tir_binary(b, OP_mul, at, tir_const_int(b, at->type, stride));
  shape[axis] = n;
  at = tir_build1(b, OP_expand_dims, 1, &at,
                  tir_tile_type(cx, i32, 2, shape, lay_expand_dims(cx->layouts, line, other)));
  tir_set_int(at->def, ATTR_axis, other);
  for (int i = 0; i < 2; i++) shape[i] = INT64_C(1) << layout->axis_bits[i];
  return tir_build1(b, OP_broadcast, 1, &at, tir_tile_type(cx, i32, 2, shape, layout));
}

tir_value *dot_pointers(tir_builder *b, tir_value *base, const lay_t *layout, int64_t row, int64_t col) {
  tir_value *at = tir_binary(b, OP_add, index_along(b, layout, 0, row), index_along(b, layout, 1, col));
  const tir_type *like = at->type;
  tir_value *p = tir_build1(b, OP_splat, 1, &base, tir_with_elem(b->fn->cx, like, base->type));
  return tir_binary(b, OP_addptr, p, at);
}

void dot_open(ll_case *c, tir_fn *fn, const char *arch) {
  diag_sink sink;
  diag_sink_init(&sink, fn->a, src_map_new(fn->a));
  pass_cx pc = {.arch = arch_find(arch), .sink = &sink};
  pass_hooks hooks = {.verify = true};
  base_guard g;
  base_guard_push(&g);
  if (setjmp(g.jump)) cr_assert_fail("%s", g.message);
  cr_assert(pass_run(fn, &pc, pass_named("widths", 6), pass_count - 1, &hooks));
  base_guard_pop(&g);
  textbuf text;
  text_init(&text, fn->a);
  tir_print(fn, &text);
  ll_case_open(c, text.at, arch);
}

typedef struct dot_sizes {
  int rows, cols, deep;
} dot_sizes;

static dot_sizes dot_sizes_of(const dot_case *c) {
  return (dot_sizes){c->rows ? c->rows : c->m, c->cols ? c->cols : c->n, c->deep ? c->deep : c->k};
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

double dot_element(tir_dtype d, const void *p, size_t i) {
  tir_scalar s = {0};
  size_t bytes = tir_dtypes[d].bytes;
  memcpy(&s.bits, (const char *)p + i * bytes, bytes);
  return dt_is_float(d) ? tir_scalar_as_float(d, s) : (double)tir_scalar_as_int(d, s);
}

double dot_factor(tir_dtype d, const char *precision, const void *p, size_t i) {
  double x = dot_element(d, p, i);
  if (d != DT_f32 || !precision || strcmp(precision, "tf32") != 0 || isnan(x)) return x;
  uint32_t bits;
  memcpy(&bits, (const char *)p + 4 * i, 4);
  bits &= UINT32_C(0xffffe000);
  float f;
  memcpy(&f, &bits, 4);
  return (double)f;
}

void dot_fill(tir_dtype d, uint64_t seed, bool specials, void *out, size_t n) {
  size_t bytes = tir_dtypes[d].bytes;
  uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (size_t i = 0; i < n; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    double v = (double)(int64_t)x * 0x1p-62;
    if (specials && i % 37 == 5) v = i % 3 == 0 ? INFINITY : i % 3 == 1 ? -INFINITY : (double)NAN;
    tir_scalar s = dt_is_float(d) ? tir_scalar_float(d, v) : tir_scalar_int(d, (int64_t)(x >> 40));
    memcpy((char *)out + i * bytes, &s.bits, bytes);
  }
}

static double tolerance(tir_dtype acc, const char *precision) {
  switch (acc) {
    case DT_f16: return 0x1p-9;
    case DT_f64: return 0x1p-48;
    case DT_i32: return 0;
    default: break;
  }
  return precision && strcmp(precision, "bf16x3") == 0 ? 0x1p-14 : 0x1p-19;
}

bool dot_agrees(tir_dtype acc, const char *precision, double want, double size, double got) {
  if (!isfinite(want)) return isnan(want) ? isnan(got) : want == got;
  if (acc == DT_i32) return (int32_t)(uint32_t)(int64_t)want == (int32_t)got;
  return fabs(want - got) <= tolerance(acc, precision) * size;
}

/* ---- a dot on fragments --------------------------------------------------------------------------------------- */

typedef struct maker {
  const dot_case *c;
  tir_builder b;
  tir_cx *cx;
  int warps;
} maker;

/* Rows of up to 16 bytes a thread, lanes along a row first. */
static const lay_t *rows_layout(const maker *m, const int64_t *shape, int bytes) {
  int per = 16 / bytes;
  while (per > shape[1]) per /= 2;
  int across = (int)(shape[1] / per) < 32 ? (int)(shape[1] / per) : 32;
  lay_blocking b = {.per_thread = {1, per}, .threads = {32 / across, across}, .warps = {m->warps, 1}, .order = {1, 0}};
  return lay_blocked(m->cx->layouts, lay_shape_make(2, shape), &b);
}

static const sh_t *shared_layout(const maker *m, const int64_t *shape, int bytes) {
  lay_cx *cx = m->cx->layouts;
  lay_shape s = lay_shape_make(2, shape);
  int widest = lay_sh_tma_width(s, 1, bytes);
  static const int width[] = {[DOT_TMA] = 128, [DOT_TMA64] = 64, [DOT_TMA32] = 32};
  if (m->c->shared <= DOT_TMA32 && widest)
    return lay_sh_tma(cx, s, 1, widest < width[m->c->shared] ? widest : width[m->c->shared], bytes);
  if (m->c->shared == DOT_XOR) return lay_sh_xor(cx, s, 16 / bytes, 1, 8, NULL);
  const sh_t *plain = lay_sh_rowmajor(cx, s, NULL);
  return m->c->shared == DOT_PADDED ? lay_sh_padded(cx, plain, s.bits[1], 16 / bytes) : plain;
}

/* i1: row < rows and column < cols, for the elements of `pointers`. */
static tir_value *inside(maker *m, const lay_t *l, int rows, int cols) {
  tir_value *in[2];
  for (int axis = 0; axis < 2; axis++) {
    tir_value *at = index_along(&m->b, l, axis, 1);
    in[axis] = tir_binary(&m->b, OP_lt, at, tir_const_int(&m->b, at->type, axis ? cols : rows));
  }
  return tir_binary(&m->b, OP_and, in[0], in[1]);
}

static tir_value *load(maker *m, tir_value *pointers, tir_value *mask) {
  const tir_type *t = pointers->type;
  tir_value *in[2] = {pointers, mask};
  return tir_build1(&m->b, OP_load, mask ? 2 : 1, in, tir_with_elem(m->cx, t, t->elem->elem));
}

/* A view of a matrix that lies in memory as rows x cols; the transposed one if `turned`. */
static tir_value *in_shared(maker *m, tir_value *base, int rows, int cols, int valid_rows, int valid_cols,
                            bool turned) {
  static const int axes[2] = {1, 0};
  tir_builder *b = &m->b;
  int64_t shape[2] = {rows, cols}, view_shape[2] = {turned ? cols : rows, turned ? rows : cols};
  const tir_type *elem = base->type->elem;
  int bytes = tir_dtypes[elem->dtype].bytes;
  const lay_t *l = rows_layout(m, shape, bytes);
  const sh_t *s = shared_layout(m, shape, bytes);
  tir_value *p = dot_pointers(b, base, l, valid_cols, 1);
  tir_value *mask = valid_rows < rows || valid_cols < cols ? inside(m, l, valid_rows, valid_cols) : NULL;
  tir_value *buffer = tir_build1(b, OP_alloc, 0, NULL, tir_buffer_type(m->cx, elem, 2, shape, s, m->c->stages)),
            *view = buffer;
  if (m->c->stages) {
    tir_value *in[2] = {buffer, tir_const_int(b, tir_scalar_type(m->cx, DT_i32), m->c->stages - 1)};
    view = tir_build1(b, OP_buffer_at, 2, in, tir_buffer_type(m->cx, elem, 2, shape, s, 0));
  }
  if (m->c->path == DOT_COPY) {
    tir_build(b, OP_copy_async, mask ? 3 : 2, (tir_value *[]){p, view, mask}, 0, NULL);
    tir_build(b, OP_copy_commit, 0, NULL, 0, NULL);
    tir_set_int(tir_build(b, OP_copy_wait, 0, NULL, 0, NULL), ATTR_pending, 0);
    tir_build(b, OP_debug_barrier, 0, NULL, 0, NULL); /* who copies places the barriers */
  } else {
    tir_build(b, OP_buffer_store, 2, (tir_value *[]){load(m, p, mask), view}, 0, NULL);
  }
  if (turned) {
    const sh_t *st = lay_sh_permute(m->cx->layouts, s, axes);
    view = tir_build1(b, OP_buffer_trans, 1, &view, tir_buffer_type(m->cx, elem, 2, view_shape, st, 0));
    tir_set_ints(view->def, ATTR_perm, 2, (const int64_t[]){1, 0});
  }
  return view;
}

static tir_value *from_shared(maker *m, tir_value *view, const lay_t *to) {
  const tir_type *t = view->type;
  return tir_build1(&m->b, OP_buffer_load, 1, &view, tir_tile_type(m->cx, t->elem, 2, t->shape, to));
}

/* The layouts of a, b and the result. */
static void operand_layouts(maker *m, int64_t (*shapes)[2], const lay_t **out) {
  const dot_case *c = m->c;
  lay_cx *cx = m->cx->layouts;
  int wn = c->wn ? c->wn : 1;
  if (c->wgmma) {
    lay_shape a = lay_shape_make(2, shapes[0]), acc = lay_shape_make(2, shapes[2]);
    out[0] = lay_wgmma_a(cx, a, 4 / tir_dtypes[c->a].bytes, m->warps, wn);
    out[1] = NULL;
    if (c->a == DT_f32 && !c->tb) { /* c^T = b^T a^T */
      const int64_t turned[2] = {shapes[2][1], shapes[2][0]};
      out[2] = lay_wgmma_paired(cx, lay_wgmma_acc(cx, lay_shape_make(2, turned), m->warps, wn), 1);
    } else {
      out[2] = lay_wgmma_acc(cx, acc, m->warps, wn);
      if (c->a == DT_f32 && c->ta) out[2] = lay_wgmma_paired(cx, out[2], 0);
    }
    return;
  }
  /* f32 goes through the instruction of another type */
  const char *type = c->a != DT_f32 ? NULL : strstr(c->inst, "bf16") ? "bf16" : "tf32";
  const arch_mma *row = arch_mma_named(arch_find(c->arch), c->inst, type ? type : tir_dtypes[c->a].text,
                                       type ? type : tir_dtypes[c->b].text, tir_dtypes[c->acc].text);
  cr_assert_not_null(row, "%s has no %s", c->arch, c->inst);
  lay_mma mma = {row->m, row->n, row->k, row->kw, m->warps / wn, wn, c->n_fast};
  for (int i = 0; i < 3; i++) out[i] = lay_mma_operand(cx, (lay_operand)i, &mma, lay_shape_make(2, shapes[i]));
}

/* The layout of `batch` tiles one above the other, each in layout l: a thread holds the same places of each. */
static const lay_t *stacked(maker *m, const lay_t *l, int rank) {
  lay_t s = *l;
  int bits = lay_bits(l), n = 0;
  while (1 << n < m->c->batch) n++;
  if (rank == 3) {
    s.rank = 3;
    s.axis_bits[0] = (uint8_t)n;
    s.axis_bits[1] = l->axis_bits[0];
    s.axis_bits[2] = l->axis_bits[1];
  } else {
    s.axis_bits[0] = (uint8_t)(s.axis_bits[0] + n);
  }
  for (int i = 0; i < n; i++) s.basis[LAY_REG][s.nbits[LAY_REG]++] = UINT32_C(1) << (bits + i);
  return lay_intern(m->cx->layouts, &s);
}

/* Loads a batch of tiles and gives it its axis. */
static tir_value *load_batch(maker *m, tir_value *base, const int64_t *shape, const lay_t *l, tir_value **pointers) {
  int64_t whole[3] = {m->c->batch, shape[0], shape[1]};
  *pointers = dot_pointers(&m->b, base, stacked(m, l, 2), shape[1], 1);
  tir_value *x = load(m, *pointers, NULL);
  return tir_build1(&m->b, OP_reshape, 1, &x, tir_tile_type(m->cx, x->type->elem, 3, whole, stacked(m, l, 3)));
}

static tir_value *by_wgmma(maker *m, tir_value **x) {
  tir_builder *b = &m->b;
  tir_build(b, OP_fence_async, 0, NULL, 0, NULL);
  tir_build(b, OP_debug_barrier, 0, NULL, 0, NULL);
  tir_value *d = tir_build1(b, OP_wgmma, 3, x, x[2]->type);
  if (m->c->max_imprecise) tir_set_int(d->def, ATTR_max_imprecise, m->c->max_imprecise);
  d = tir_build1(b, OP_wgmma_wait, 1, &d, d->type);
  tir_set_int(d->def, ATTR_pending, 0);
  return d;
}

static tir_fn *build(const dot_case *c, arena *a) {
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  tir_fn *fn = tir_fn_new(cx, a, "k", (span){0, 0});
  int warps = (c->wm ? c->wm : 1) * (c->wn ? c->wn : 1);
  fn->num_warps = warps;
  fn->stage = STAGE_LAID_OUT;
  dot_sizes s = dot_sizes_of(c);
  int64_t shapes[3][2] = {{c->m, c->k}, {c->k, c->n}, {c->m, c->n}};
  int valid[3][2] = {{s.rows, s.deep}, {s.deep, s.cols}, {s.rows, s.cols}};
  bool turned[3] = {c->ta, c->tb, false};
  tir_dtype types[3] = {c->a, c->b, c->acc};
  static const char *const names[3] = {"a", "b", "c"};
  maker m = {c, tir_at_end(fn, fn->body), cx, warps};
  const lay_t *layouts[3];
  operand_layouts(&m, shapes, layouts);
  tir_value *base[3], *x[3], *p = NULL, *mask = NULL;
  for (int i = 0; i < 3; i++) {
    const tir_type *pt = tir_ptr_type(cx, tir_scalar_type(cx, types[i]), false);
    base[i] = tir_fn_add_param(fn, names[i], pt, 16, fn->at);
  }
  for (int i = 0; i < 3; i++) {
    int r = valid[i][0], k = valid[i][1], flip = turned[i];
    if (i < 2 && c->path != DOT_DIRECT) {
      x[i] = in_shared(&m, base[i], (int)shapes[i][flip], (int)shapes[i][!flip], valid[i][flip], valid[i][!flip], flip);
      if (!c->wgmma || (i == 0 && c->a_in_registers)) x[i] = from_shared(&m, x[i], layouts[i]);
      continue;
    }
    if (c->batch) {
      x[i] = load_batch(&m, base[i], shapes[i], layouts[i], &p);
      continue;
    }
    p = dot_pointers(&m.b, base[i], layouts[i], flip ? 1 : k, flip ? r : 1);
    mask = r < shapes[i][0] || k < shapes[i][1] ? inside(&m, layouts[i], r, k) : NULL;
    x[i] = load(&m, p, mask);
  }
  tir_value *d = c->wgmma ? by_wgmma(&m, x) : tir_build1(&m.b, OP_dot, 3, x, NULL);
  if (!c->wgmma) tir_set_str(d->def, ATTR_inst, c->inst);
  if (!c->wgmma && c->precision) tir_set_str(d->def, ATTR_precision, c->precision);
  if (c->batch) d = tir_build1(&m.b, OP_reshape, 1, &d, tir_with_elem(cx, p->type, d->type->elem));
  tir_build(&m.b, OP_store, mask ? 3 : 2, (tir_value *[]){p, d, mask}, 0, NULL);
  tir_build(&m.b, OP_return, 0, NULL, 0, NULL);
  return fn;
}

void dot_case_run(const dot_case *c) {
  arena *a = arena_new();
  tir_fn *fn = build(c, a);
  ll_case run;
  dot_open(&run, fn, c->arch);
  ll_case_ptx(&run);
  const char *dirty = test_ptxas_clean(a, run.ptx, c->arch);
  cr_assert_null(dirty, "%s\n%s", dirty, run.ptx);
  if (c->has) cr_assert(strstr(run.ptx, c->has), "no %s in\n%s", c->has, run.ptx);
  if (c->waits) cr_assert_eq(ll_count(run.ptx, "wgmma.wait_group.sync.aligned 0;"), c->waits, "%s", run.ptx);
  dot_sizes s = dot_sizes_of(c);
  int batch = c->batch ? c->batch : 1;
  size_t na = (size_t)(batch * s.rows * s.deep), nb = (size_t)(batch * s.deep * s.cols);
  size_t nc = (size_t)(batch * s.rows * s.cols);
  size_t sizes[3] = {na, nb, nc};
  tir_dtype types[3] = {c->a, c->b, c->acc};
  ll_arg args[3];
  char *start = arena_alloc(a, nc * tir_dtypes[c->acc].bytes);
  for (int i = 0; i < 3; i++) {
    size_t bytes = sizes[i] * tir_dtypes[types[i]].bytes;
    void *p = arena_alloc(a, bytes);
    dot_fill(types[i], (uint64_t)i + 1, c->specials && i < 2, p, sizes[i]);
    args[i] = (ll_arg){p, bytes, 0};
  }
  memcpy(start, args[2].data, args[2].bytes);
  ll_case_run(&run, 1, args, 3, NULL);
  for (int i = 0; i < batch * s.rows; i++)
    for (int j = 0; j < s.cols; j++) {
      size_t at = (size_t)(i * s.cols + j);
      int below = i / s.rows * s.deep; /* rows of b before this product's */
      double want = dot_element(c->acc, start, at), size = fabs(want);
      for (int k = 0; k < s.deep; k++) {
        size_t ka = (size_t)(c->ta ? k * s.rows + i : i * s.deep + k);
        size_t kb = (size_t)(c->tb ? j * s.deep + k : (below + k) * s.cols + j);
        double x = dot_factor(c->a, c->precision, args[0].data, ka),
               y = dot_factor(c->b, c->precision, args[1].data, kb);
        want += x * y;
        size += fabs(x * y);
      }
      double got = dot_element(c->acc, args[2].data, at);
      cr_assert(dot_agrees(c->acc, c->precision, want, size, got), "%s %s %dx%dx%d, element (%d,%d): %g, not %g\n%s",
                c->arch, c->inst ? c->inst : "wgmma", c->m, c->n, c->k, i, j, got, want, run.ptx);
    }
  ll_case_close(&run);
  arena_free(a);
}
