/* Layouts and widths that the passes choose for accesses of global memory, checked on concrete addresses: a vector's
 * elements are consecutive, aligned, and masked alike; and a warp touches no more 32-byte sectors than its bytes need.
 */
#include "compiler/passes/passes.h"
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef struct access_case {
  int rows, cols, fast; /* fast: the axis with unit stride in memory */
  tir_dtype dtype;
  int stride_div, n_div, num_warps;
  bool masked;
  int64_t stride, n; /* for the check: multiples of stride_div, n_div */
} access_case;

typedef struct made_case {
  arena *a;
  tir_fn *fn;
  diag_sink sink;
} made_case;

static tir_value *axis_range(tir_builder *b, int64_t n, int other) {
  const tir_type *t = tir_tile_type(b->fn->cx, tir_scalar_type(b->fn->cx, DT_i32), 1, &n, NULL);
  tir_op *op = tir_build(b, OP_arange, 0, NULL, 1, &t);
  tir_set_int(op, ATTR_start, 0);
  return tir_expand_dims(b, op->out[0], other);
}

static void make(made_case *m, const access_case *c) {
  m->a = arena_new();
  tir_cx *cx = tir_cx_new(m->a, strtab_new(m->a));
  span nowhere = {0, 0};
  m->fn = tir_fn_new(cx, m->a, "copy", nowhere);
  m->fn->num_warps = c->num_warps;
  const tir_type *i32 = tir_scalar_type(cx, DT_i32), *ptr = tir_ptr_type(cx, tir_scalar_type(cx, c->dtype), false);
  tir_value *p = tir_fn_add_param(m->fn, "p", ptr, 16, nowhere), *q = tir_fn_add_param(m->fn, "q", ptr, 16, nowhere);
  tir_value *stride = tir_fn_add_param(m->fn, "stride", i32, c->stride_div, nowhere);
  tir_value *n = tir_fn_add_param(m->fn, "n", i32, c->n_div, nowhere);
  tir_builder b = tir_at_end(m->fn, m->fn->body);
  int64_t shape[2] = {c->rows, c->cols};
  tir_value *at[2] = {axis_range(&b, c->rows, 1), axis_range(&b, c->cols, 0)}, *slow = at[1 - c->fast];
  tir_value *fast = tir_broadcast(&b, at[c->fast], 2, shape);
  slow = tir_binary(&b, OP_mul, slow, tir_splat(&b, stride, slow->type));
  tir_value *offs = tir_binary(&b, OP_add, tir_broadcast(&b, slow, 2, shape), fast);
  tir_value *in[3] = {NULL, tir_binary(&b, OP_lt, fast, tir_splat(&b, n, fast->type)), NULL};
  const tir_type *pt = tir_with_elem(cx, offs->type, ptr),
                 *vt = tir_with_elem(cx, offs->type, tir_scalar_type(cx, c->dtype));
  in[0] = tir_binary(&b, OP_addptr, tir_splat(&b, p, pt), offs);
  tir_value *v = tir_build1(&b, OP_load, c->masked ? 2 : 1, in, vt);
  tir_value *out[3] = {tir_binary(&b, OP_addptr, tir_splat(&b, q, pt), offs), v, in[1]};
  tir_build(&b, OP_store, c->masked ? 3 : 2, out, 0, NULL);
  tir_build(&b, OP_return, 0, NULL, 0, NULL);
  tir_renumber(m->fn);
  diag_sink_init(&m->sink, m->a, src_map_new(m->a));
  pass_cx pass = {.arch = arch_find("sm_90"), .sink = &m->sink};
  pass_hooks hooks = {.verify = true};
  cr_assert(pass_run(m->fn, &pass, 0, pass_named("widths", 6), &hooks) && m->sink.n_errors == 0);
}

static int64_t address(const access_case *c, uint32_t row, uint32_t col) {
  int64_t fast = c->fast ? col : row, slow = c->fast ? row : col;
  return (slow * c->stride + fast) * tir_dtypes[c->dtype].bytes;
}

typedef struct counted {
  int64_t sectors, ideal;
  int vec;
} counted;

static int by_value(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

static int64_t distinct(int64_t *v, int n, int64_t unit) {
  qsort(v, (size_t)n, sizeof *v, by_value);
  int64_t count = 0;
  for (int i = 0; i < n; ++i) count += i == 0 || v[i] / unit != v[i - 1] / unit;
  return count;
}

static counted check_access(const access_case *c, const tir_op *op) {
  arena *a = arena_new();
  const tir_type *t = tir_in(op, 0)->type;
  const lay_t *l = t->layout;
  int bytes = tir_dtypes[c->dtype].bytes, vec = (int)tir_attr_int(op, ATTR_vec, 1),
      axis = (int)tir_attr_int(op, ATTR_axis, 1);
  lay_vectors v = lay_vectors_of(a, l, axis, vec);
  counted r = {.vec = vec};
  cr_assert(vec * bytes <= 16 && v.vec * v.n_groups == lay_regs(l));
  for (uint32_t w = 0; w < (uint32_t)lay_warps(l); ++w)
    for (int g = 0; g < v.n_groups; ++g) {
      int64_t at[32 * 16];
      int n = 0;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        int64_t first = 0;
        bool first_on = false;
        for (int i = 0; i < vec; ++i) {
          uint32_t e[2];
          lay_unflat(lay_shape_of(l), lay_apply(l, v.regs[g * vec + i], lane, w, 0), e);
          int64_t where = address(c, e[0], e[1]);
          bool on = !c->masked || e[c->fast] < c->n;
          if (i == 0) {
            first = where, first_on = on;
            cr_assert(!on || where % (vec * bytes) == 0, "a vector of %d x %d bytes at %ld", vec, bytes, (long)where);
          }
          cr_assert_eq(where, first + i * bytes, "a gap inside a vector");
          cr_assert_eq(on, first_on, "a mask splits a vector");
          if (on) at[n++] = where;
        }
      }
      r.ideal += (distinct(at, n, bytes) * bytes + 31) / 32;
      r.sectors += distinct(at, n, 32);
    }
  arena_free(a);
  return r;
}

static counted run_case(const access_case *c) {
  made_case m;
  make(&m, c);
  counted worst = {0, 0, 16};
  int found = 0;
  for (const tir_op *op = tir_first(m.fn); op; op = tir_next(op)) {
    if (op->code != OP_load && op->code != OP_store) continue;
    counted r = check_access(c, op);
    worst.sectors += r.sectors, worst.ideal += r.ideal;
    if (r.vec < worst.vec) worst.vec = r.vec;
    ++found;
  }
  cr_assert_eq(found, 2);
  arena_free(m.a);
  return worst;
}

Test(access, random_tiles_reach_the_ideal_number_of_sectors) {
  static const int shapes[][2] = {{32, 64}, {64, 32}, {128, 64}, {8, 512}, {512, 8}, {1, 1024}, {16, 16}, {4, 4}};
  static const tir_dtype dtypes[] = {DT_u8, DT_f16, DT_f32, DT_i64};
  sim_rng rng = {31};
  int wide = 0, judged = 0;
  for (int round = 0; round < 250; ++round) {
    const int *s = shapes[sim_below(&rng, 8)];
    access_case c = {.rows = s[0],
                     .cols = s[1],
                     .fast = sim_below(&rng, 2),
                     .dtype = dtypes[sim_below(&rng, 4)],
                     .stride_div = 1 << sim_below(&rng, 5),
                     .n_div = 1 << sim_below(&rng, 5),
                     .num_warps = 1 << sim_below(&rng, 4),
                     .masked = sim_chance(&rng, 60)};
    int extent = c.fast ? c.cols : c.rows, bytes = tir_dtypes[c.dtype].bytes;
    c.stride = c.stride_div * ((extent + c.stride_div - 1) / c.stride_div + sim_below(&rng, 3));
    c.n = c.n_div * sim_below(&rng, extent / c.n_div + 2);
    counted r = run_case(&c);
    wide += r.vec * bytes == 16;
    /* Rows shorter than a sector, or that begin inside one, cannot do better. */
    if (c.masked || extent * bytes < 32 || c.stride * bytes % 32) continue;
    ++judged;
    cr_assert(r.sectors <= r.ideal, "round %d: %d x %d of %s: %ld sectors, ideal %ld", round, c.rows, c.cols,
              tir_dtypes[c.dtype].text, (long)r.sectors, (long)r.ideal);
  }
  cr_assert(wide > 20 && judged > 40, "%d of 16 bytes, %d judged", wide, judged);
}

Test(access, aligned_rows_move_sixteen_bytes) {
  for (int warps = 1; warps <= 8; warps *= 2)
    for (int k = 0; k < 2; ++k) {
      access_case c = {1, 4096, 1, k ? DT_f16 : DT_f32, 16, 16, warps, true, 4096, 4000};
      counted r = run_case(&c);
      cr_assert_eq(r.vec, k ? 8 : 4);
      cr_assert_eq(r.sectors, r.ideal);
    }
}
