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

static tir_fn *build(const dot_case *c, arena *a) {
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  tir_fn *fn = tir_fn_new(cx, a, "k", (span){0, 0});
  const arch_t *arch = arch_find(c->arch);
  bool narrow = c->a == DT_f32; /* f32 goes through the instruction of another type */
  const char *type = narrow ? (strstr(c->inst, "bf16") ? "bf16" : "tf32") : NULL;
  const arch_mma *row = arch_mma_named(arch, c->inst, type ? type : tir_dtypes[c->a].text,
                                       type ? type : tir_dtypes[c->b].text, tir_dtypes[c->acc].text);
  cr_assert_not_null(row, "%s has no %s", c->arch, c->inst);
  int wm = c->wm ? c->wm : 1, wn = c->wn ? c->wn : 1;
  fn->num_warps = wm * wn;
  fn->stage = STAGE_LAID_OUT;
  lay_mma mma = {row->m, row->n, row->k, row->kw, wm, wn, c->n_fast};
  int64_t shapes[3][2] = {{c->m, c->k}, {c->k, c->n}, {c->m, c->n}};
  tir_dtype types[3] = {c->a, c->b, c->acc};
  int64_t strides[3][2] = {{c->ta ? 1 : c->k, c->ta ? c->m : 1}, {c->tb ? 1 : c->n, c->tb ? c->k : 1}, {c->n, 1}};
  static const char *const names[3] = {"a", "b", "c"};
  tir_builder b = tir_at_end(fn, fn->body);
  tir_value *base[3], *pointer[3], *x[3];
  for (int i = 0; i < 3; i++) {
    const tir_type *p = tir_ptr_type(cx, tir_scalar_type(cx, types[i]), false);
    base[i] = tir_fn_add_param(fn, names[i], p, 16, fn->at);
  }
  for (int i = 0; i < 3; i++) {
    const lay_t *l = lay_mma_operand(cx->layouts, (lay_operand)i, &mma, lay_shape_make(2, shapes[i]));
    pointer[i] = dot_pointers(&b, base[i], l, strides[i][0], strides[i][1]);
    x[i] = tir_build1(&b, OP_load, 1, &pointer[i], tir_tile_type(cx, tir_scalar_type(cx, types[i]), 2, shapes[i], l));
  }
  tir_value *d = tir_build1(&b, OP_dot, 3, x, NULL);
  tir_set_str(d->def, ATTR_inst, c->inst);
  if (c->precision) tir_set_str(d->def, ATTR_precision, c->precision);
  tir_build(&b, OP_store, 2, (tir_value *[]){pointer[2], d}, 0, NULL);
  tir_build(&b, OP_return, 0, NULL, 0, NULL);
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
  size_t na = (size_t)(c->m * c->k), nb = (size_t)(c->k * c->n), nc = (size_t)(c->m * c->n);
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
  for (int i = 0; i < c->m; i++)
    for (int j = 0; j < c->n; j++) {
      size_t at = (size_t)(i * c->n + j);
      double want = dot_element(c->acc, start, at), size = fabs(want);
      for (int k = 0; k < c->k; k++) {
        double x = dot_factor(c->a, c->precision, args[0].data, (size_t)(c->ta ? k * c->m + i : i * c->k + k));
        double y = dot_factor(c->b, c->precision, args[1].data, (size_t)(c->tb ? j * c->k + k : k * c->n + j));
        want += x * y;
        size += fabs(x * y);
      }
      double got = dot_element(c->acc, args[2].data, at);
      cr_assert(dot_agrees(c->acc, c->precision, want, size, got), "%s %s %dx%dx%d, element (%d,%d): %g, not %g\n%s",
                c->arch, c->inst, c->m, c->n, c->k, i, j, got, want, run.ptx);
    }
  ll_case_close(&run);
  arena_free(a);
}
