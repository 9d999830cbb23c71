/* Tiles through buffers: every kind of register layout into every kind of shared layout and out again in another one,
 * by vectors, stmatrix and ldmatrix. The tile that arrives in memory is the one that was read. */
#include <criterion/criterion.h>
#include <string.h>

#include "compiler/llvm/ll.h"
#include "tests/unit/dot_case.h"

typedef enum form { ROWS, COLUMNS, FRAGMENT_A, FRAGMENT_B, FRAGMENT_C, WARPGROUP, COPIES, N_FORMS } form;

enum { WARPS = 4, M = 64, N = 32 };

static const lay_t *layout_of(lay_cx *cx, form f, int bytes) {
  int64_t shape[2] = {M, N};
  lay_shape s = lay_shape_make(2, shape);
  int kw = bytes < 4 ? 4 / bytes : 1;
  lay_mma mma = {16, 8, 8 * kw, kw, 2, 2, false};
  int per = 16 / bytes, across = N / per;
  lay_blocking rows = {{1, per}, {32 / across, across}, {WARPS, 1}, {1, 0}};
  lay_blocking columns = {{4, 1}, {8, 4}, {2, 2}, {0, 1}};
  lay_blocking copies = {{2, 2}, {8, 4}, {1, 1}, {1, 0}};
  switch (f) {
    case ROWS: return lay_blocked(cx, s, &rows);
    case COLUMNS: return lay_blocked(cx, s, &columns);
    case WARPGROUP: return lay_wgmma_acc(cx, s, WARPS, 1);
    case COPIES: { /* every warp holds all of it */
      lay_t l = *lay_blocked(cx, s, &copies);
      l.nbits[LAY_WARP] = 2;
      return lay_intern(cx, &l);
    }
    default: return lay_mma_operand(cx, (lay_operand)(f - FRAGMENT_A), &mma, s);
  }
}

static const sh_t *shared_of(lay_cx *cx, dot_shared kind, bool turned, int bytes) {
  int64_t shape[2] = {M, N};
  lay_shape s = lay_shape_make(2, shape);
  int inner = turned ? 0 : 1, order[2] = {inner, 1 - inner}, widest = lay_sh_tma_width(s, inner, bytes);
  switch (kind) {
    case DOT_TMA: return lay_sh_tma(cx, s, inner, widest, bytes);
    case DOT_XOR: return lay_sh_xor(cx, s, 16 / bytes, 1, 4, order);
    case DOT_PADDED: return lay_sh_padded(cx, lay_sh_rowmajor(cx, s, order), s.bits[inner], 16 / bytes);
    default: return lay_sh_rowmajor(cx, s, order);
  }
}

/* Returns how many times `part` stands in the PTX. */
static int move(const char *arch, tir_dtype d, form from, form to, dot_shared kind, bool turned, const char *part) {
  arena *a = arena_new();
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  tir_fn *fn = tir_fn_new(cx, a, "k", (span){0, 0});
  fn->num_warps = WARPS;
  fn->stage = STAGE_LAID_OUT;
  int bytes = tir_dtypes[d].bytes;
  int64_t shape[2] = {M, N};
  const tir_type *elem = tir_scalar_type(cx, d), *pointer = tir_ptr_type(cx, elem, false);
  tir_value *base[2] = {tir_fn_add_param(fn, "x", pointer, 16, fn->at), tir_fn_add_param(fn, "y", pointer, 16, fn->at)};
  tir_builder b = tir_at_end(fn, fn->body);
  const lay_t *in = layout_of(cx->layouts, from, bytes), *out = layout_of(cx->layouts, to, bytes);
  tir_value *p = dot_pointers(&b, base[0], in, N, 1);
  tir_value *x = tir_build1(&b, OP_load, 1, &p, tir_tile_type(cx, elem, 2, shape, in));
  const tir_type *view = tir_buffer_type(cx, elem, 2, shape, shared_of(cx->layouts, kind, turned, bytes), 0);
  tir_value *buffer = tir_build1(&b, OP_alloc, 0, NULL, view);
  tir_build(&b, OP_buffer_store, 2, (tir_value *[]){x, buffer}, 0, NULL);
  x = tir_build1(&b, OP_buffer_load, 1, &buffer, tir_tile_type(cx, elem, 2, shape, out));
  p = dot_pointers(&b, base[1], out, N, 1);
  tir_build(&b, OP_store, 2, (tir_value *[]){p, x}, 0, NULL);
  tir_build(&b, OP_return, 0, NULL, 0, NULL);

  ll_case run;
  dot_open(&run, fn, arch);
  ll_case_ptx(&run);
  int found = part ? ll_count(run.ptx, part) : 0;
  static unsigned char was[8 * M * N], is[8 * M * N];
  size_t n = (size_t)(bytes * M * N);
  for (size_t i = 0; i < n; i++) {
    was[i] = (unsigned char)(i * 37 + i / 251);
    is[i] = 0;
  }
  ll_case_run(&run, 1, (ll_arg[]){{was, n, 0}, {is, n, 0}}, 2, NULL);
  cr_assert_arr_eq(is, was, n, "%s %s: form %d to %d, shared layout %d%s\n%s", arch, tir_dtypes[d].text, from, to, kind,
                   turned ? " turned" : "", run.ptx);
  ll_case_close(&run);
  arena_free(a);
  return found;
}

Test(buffers, every_layout) {
  static const tir_dtype types[] = {DT_f16, DT_i8, DT_f32, DT_f64};
  static const dot_shared kinds[] = {DOT_TMA, DOT_XOR, DOT_ROWMAJOR, DOT_PADDED};
  for (int t = 0; t < 4; t++)
    for (int f = 0; f < N_FORMS; f++) {
      int to = (f + 1 + t) % N_FORMS;
      move("sm_90a", types[t], (form)f, (form)to, kinds[f % 4], (f + t) % 2 == 1, NULL);
    }
  for (int f = 0; f < N_FORMS; f++) move("sm_75", DT_bf16, (form)f, FRAGMENT_B, kinds[f % 4], f % 3 == 0, NULL);
}

/* Whole matrices where the layouts allow: four at a time, each of them stored and loaded once. */
Test(buffers, matrices) {
  int per_warp = M * N / WARPS / 256; /* .x4 instructions for 16-bit elements */
  cr_assert_eq(move("sm_90a", DT_f16, FRAGMENT_C, ROWS, DOT_TMA, false, "stmatrix.sync.aligned.m8n8.x4.shared"),
               per_warp);
  cr_assert_eq(move("sm_90a", DT_bf16, WARPGROUP, ROWS, DOT_TMA, false, "stmatrix.sync.aligned.m8n8.x4.shared"),
               per_warp);
  cr_assert_eq(move("sm_90a", DT_bf16, WARPGROUP, ROWS, DOT_TMA, true, "stmatrix.sync.aligned.m8n8.x4.trans"),
               per_warp);
  cr_assert_eq(move("sm_80", DT_f16, FRAGMENT_C, ROWS, DOT_TMA, false, "stmatrix"), 0);
  cr_assert_eq(move("sm_80", DT_f16, ROWS, FRAGMENT_C, DOT_TMA, false, "ldmatrix.sync.aligned.m8n8.x4.shared"),
               per_warp);
  cr_assert_eq(move("sm_75", DT_f16, ROWS, FRAGMENT_C, DOT_XOR, true, "ldmatrix.sync.aligned.m8n8.x4.trans"), per_warp);
  /* A is held by two warps each: twice as many */
  cr_assert_eq(move("sm_80", DT_f16, ROWS, FRAGMENT_A, DOT_TMA, false, "ldmatrix.sync.aligned.m8n8.x4.shared"),
               2 * per_warp);
  cr_assert_eq(move("sm_80", DT_i8, ROWS, FRAGMENT_A, DOT_TMA, false, "ldmatrix.sync.aligned.m8n8.x4.shared"),
               per_warp);
  cr_assert_eq(move("sm_80", DT_f32, ROWS, FRAGMENT_A, DOT_TMA, false, "ldmatrix.sync.aligned.m8n8.x4.shared"),
               4 * per_warp);
}
