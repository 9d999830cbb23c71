/* See tir_random.h. A pool of values grows step by step; each step picks operands from the pool and puts its results
 * in. Values inside a loop or a branch leave the pool with it. Divisors are made odd, indices are cut to the buffer. */
#include "tests/harness/tir_random.h"
#include "tests/harness/layout_sim.h"

#include <string.h>

enum { MAX_POOL = 256, MAX_TILE = 4096 };

typedef struct maker {
  sim_rng rng;
  tir_fn *fn;
  tir_cx *cx;
  tir_builder b;
  tir_value *x, *out;
  tir_value *pool[MAX_POOL];
  int n, budget, depth;
} maker;

static const tir_dtype dtypes[] = {DT_i32, DT_i32, DT_i32, DT_i64, DT_u32, DT_i16, DT_u8};

static int below(maker *m, int n) { return sim_below(&m->rng, n); }
static const tir_type *scalar(maker *m, tir_dtype d) { return tir_scalar_type(m->cx, d); }

static tir_value *keep(maker *m, tir_value *v) {
  if (m->n < MAX_POOL) m->pool[m->n++] = v;
  return v;
}

static tir_value *any(maker *m) {
  return m->pool[sim_chance(&m->rng, 50) && m->n > 8 ? m->n - 1 - below(m, 8) : below(m, m->n)];
}

static tir_value *tile(maker *m) {
  for (int tries = 0; tries < 30; ++tries) {
    tir_value *v = any(m);
    if (tir_is_tile(v->type)) return v;
  }
  return m->pool[m->n - 1];
}

static bool shaped_alike(const tir_type *t, const tir_type *u) {
  return tir_is_tile(t) == tir_is_tile(u) && (!tir_is_tile(t) || tir_same_shape(t, u));
}

/* A value of exactly this type, from the pool where that is possible. */
static tir_value *of_type(maker *m, const tir_type *t) {
  for (int tries = 0; tries < 10; ++tries) {
    tir_value *v = any(m);
    if (v->type == t) return v;
    if (shaped_alike(v->type, t)) return tir_cast(&m->b, v, tir_elem(t));
    if (tir_is_tile(t) && !tir_is_tile(v->type)) return tir_splat(&m->b, tir_cast(&m->b, v, tir_elem(t)), t);
  }
  static const int64_t constants[] = {0, 1, 2, 3, 5, 8, 16, 31, -1, 100, 1023};
  return tir_const_int(&m->b, t, constants[below(m, 11)]);
}

static tir_value *binary(maker *m, tir_opcode code, tir_value *v, tir_value *w) {
  return tir_binary(&m->b, code, v, w);
}
static tir_value *number(maker *m, const tir_type *t, int64_t v) { return tir_const_int(&m->b, t, v); }

static tir_value *condition(maker *m, const tir_type *like) {
  static const tir_opcode compare[] = {OP_lt, OP_le, OP_gt, OP_ge, OP_eq, OP_ne};
  const tir_type *t = tir_is_tile(like) ? tir_with_elem(m->cx, like, scalar(m, DT_i32)) : scalar(m, DT_i32);
  tir_value *v = of_type(m, t);
  return binary(m, compare[below(m, 6)], v, of_type(m, t));
}

static void arithmetic(maker *m) {
  static const tir_opcode codes[] = {OP_add, OP_add, OP_sub, OP_mul, OP_and, OP_or,  OP_xor, OP_shl,
                                     OP_shr, OP_min, OP_max, OP_div, OP_rem, OP_add, OP_xor};
  tir_value *v = sim_chance(&m->rng, 80) ? tile(m) : any(m), *w = of_type(m, v->type);
  tir_opcode code = codes[below(m, 15)];
  if (code == OP_div || code == OP_rem) w = binary(m, OP_or, w, number(m, w->type, 1));
  keep(m, binary(m, code, v, w));
}

static void choose(maker *m) {
  tir_value *v = tile(m);
  keep(m, tir_select(&m->b, condition(m, v->type), v, of_type(m, v->type)));
}

static void convert(maker *m) {
  tir_value *v = any(m);
  keep(m, tir_cast(&m->b, v, scalar(m, dtypes[below(m, 7)])));
}

static void load(maker *m) {
  tir_value *v = tile(m);
  const tir_type *t = tir_is_tile(v->type) ? tir_with_elem(m->cx, v->type, scalar(m, DT_i32)) : scalar(m, DT_i32);
  tir_value *at = binary(m, OP_and, tir_cast(&m->b, v, scalar(m, DT_i32)), number(m, t, RANDOM_IN - 1));
  tir_value *p = tir_is_tile(t) ? tir_splat(&m->b, m->x, tir_with_elem(m->cx, t, m->x->type)) : m->x;
  tir_value *in[3] = {binary(m, OP_addptr, p, at), NULL, NULL};
  int n = 1;
  if (sim_chance(&m->rng, 50)) {
    in[1] = condition(m, t);
    in[2] = of_type(m, t);
    n = 3;
  }
  keep(m, tir_build1(&m->b, OP_load, n, in, t));
}

static void reshape(maker *m) {
  tir_value *v = tile(m);
  if (!tir_is_tile(v->type)) return;
  int rank = v->type->rank;
  switch (below(m, 6)) {
    case 0:
      if (rank < 3) keep(m, tir_expand_dims(&m->b, v, below(m, rank + 1)));
      break;
    case 1: {
      int64_t shape[TIR_MAX_RANK], numel = v->type->numel;
      memcpy(shape, v->type->shape, sizeof shape);
      for (int i = 0; i < rank; i++)
        if (shape[i] == 1) {
          int64_t by = 2 << below(m, 4);
          if (numel * by <= MAX_TILE) shape[i] = by, numel *= by;
        }
      if (numel > v->type->numel) keep(m, tir_broadcast(&m->b, v, rank, shape));
      break;
    }
    case 2: {
      int64_t perm[TIR_MAX_RANK];
      for (int i = 0; i < rank; i++) {
        int j = below(m, i + 1);
        perm[i] = perm[j];
        perm[j] = i;
      }
      keep(m, tir_trans(&m->b, v, perm));
      break;
    }
    case 3: {
      int64_t two[2] = {v->type->numel, 1};
      while (two[0] > 1 && sim_chance(&m->rng, 60)) two[0] /= 2, two[1] *= 2;
      keep(m, tir_reshape(&m->b, v, 2, two));
      break;
    }
    case 4: {
      if (rank >= 3 || v->type->numel * 2 > MAX_TILE) break;
      tir_value *in[2] = {v, of_type(m, v->type)};
      int64_t shape[TIR_MAX_RANK];
      memcpy(shape, v->type->shape, sizeof shape);
      shape[rank] = 2;
      keep(m, tir_build1(&m->b, OP_join, 2, in, tir_tile_type(m->cx, v->type->elem, rank + 1, shape, NULL)));
      break;
    }
    default: {
      if (rank < 2 || v->type->shape[rank - 1] != 2) break;
      const tir_type *half = tir_tile_type(m->cx, v->type->elem, rank - 1, v->type->shape, NULL);
      const tir_type *types[2] = {half, half};
      tir_op *op = tir_build(&m->b, OP_split, 1, &v, 2, types);
      keep(m, op->out[0]);
      keep(m, op->out[1]);
    }
  }
}

static void reduce(maker *m) {
  static const tir_opcode codes[] = {OP_add, OP_max, OP_min, OP_xor, OP_and, OP_or};
  tir_value *in[2] = {tile(m), NULL};
  if (!tir_is_tile(in[0]->type)) return;
  const tir_type *t = in[0]->type, *types[2];
  int axis = below(m, t->rank), n = 1;
  if (sim_chance(&m->rng, 30)) in[n++] = of_type(m, tir_with_elem(m->cx, t, scalar(m, DT_i32)));
  int64_t shape[TIR_MAX_RANK];
  for (int i = 0; i + 1 < t->rank; i++) shape[i] = t->shape[i + (i >= axis)];
  for (int i = 0; i < n; i++)
    types[i] =
        t->rank == 1 ? tir_elem(in[i]->type) : tir_tile_type(m->cx, tir_elem(in[i]->type), t->rank - 1, shape, NULL);
  tir_op *op = tir_build(&m->b, OP_reduce, n, in, n, types);
  tir_set_int(op, ATTR_axis, axis);
  tir_region *r = op->regions[0];
  tir_value *arg[4], *yields[2];
  for (int i = 0; i < 2 * n; i++) arg[i] = tir_region_add_arg(r, tir_elem(in[i % n]->type), (span){0, 0});
  tir_builder inner = tir_at_end(m->fn, r);
  for (int i = 0; i < n; i++) yields[i] = tir_binary(&inner, codes[below(m, 6)], arg[i], arg[n + i]);
  tir_build(&inner, OP_yield, n, yields, 0, NULL);
  for (int i = 0; i < n; i++) keep(m, op->out[i]);
}

/* A dot of small numbers: exact in f32 whatever the order. */
static void dot(maker *m) {
  int64_t rows = 1 << (1 + below(m, 5)), cols = 1 << (1 + below(m, 5)), inner = 1 << (1 + below(m, 5));
  int64_t shapes[3][2] = {{rows, inner}, {inner, cols}, {rows, cols}};
  tir_value *in[3];
  for (int i = 0; i < 3; i++) {
    const tir_type *t = tir_tile_type(m->cx, scalar(m, DT_i32), 2, shapes[i], NULL);
    tir_value *v = tile(m);
    if (!tir_is_tile(v->type) || v->type->numel != t->numel)
      v = of_type(m, t);
    else
      v = tir_reshape(&m->b, tir_cast(&m->b, v, t->elem), 2, shapes[i]);
    v = binary(m, OP_and, v, number(m, t, 7));
    in[i] = tir_cast(&m->b, v, scalar(m, DT_f32));
  }
  tir_op *op = tir_build(&m->b, OP_dot, 3, in, 1, NULL);
  tir_set_str(op, ATTR_precision, "ieee");
  keep(m, tir_cast(&m->b, op->out[0], scalar(m, DT_i32)));
}

/* Additions to elements of out's last slot, in any order; the old values are not looked at. */
static void atomic(maker *m) {
  tir_value *v = tile(m);
  if (!tir_is_tile(v->type)) return;
  const tir_type *t = tir_with_elem(m->cx, v->type, scalar(m, DT_i32));
  tir_value *at = binary(m, OP_and, of_type(m, t), number(m, t, 63));
  at = binary(m, OP_add, at, number(m, t, RANDOM_OUT - 64));
  tir_value *in[3] = {binary(m, OP_addptr, tir_splat(&m->b, m->out, tir_with_elem(m->cx, t, m->out->type)), at),
                      tir_cast(&m->b, v, scalar(m, DT_i32)), NULL};
  if (sim_chance(&m->rng, 50)) in[2] = condition(m, t);
  tir_op *op = tir_build(&m->b, OP_atomic_rmw, in[2] ? 3 : 2, in, 1, &t);
  tir_set_str(op, ATTR_kind, "add");
  tir_set_str(op, ATTR_sem, "relaxed");
  tir_set_str(op, ATTR_scope, "gpu");
}

static void steps(maker *m, int n);

/* A counter that falls to zero, with a tile carried along. */
static void count_down(maker *m) {
  const tir_type *i32 = scalar(m, DT_i32), *types[2] = {i32, NULL};
  tir_value *in[2] = {binary(m, OP_and, tir_cast(&m->b, m->pool[below(m, 2)], i32), number(m, i32, 3)), tile(m)};
  types[1] = in[1]->type;
  tir_op *op = tir_build(&m->b, OP_while, 2, in, 2, types);
  tir_builder outer = m->b;
  tir_value *arg[2][2], *v[3];
  int n = m->n;
  m->depth++;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) arg[i][j] = tir_region_add_arg(op->regions[i], types[j], (span){0, 0});
  m->b = tir_at_end(m->fn, op->regions[0]);
  v[0] = binary(m, OP_gt, arg[0][0], number(m, i32, 0));
  v[1] = arg[0][0];
  v[2] = sim_chance(&m->rng, 70) ? arg[0][1] : of_type(m, types[1]);
  tir_build(&m->b, OP_condition, 3, v, 0, NULL);
  m->b = tir_at_end(m->fn, op->regions[1]);
  keep(m, arg[1][1]);
  steps(m, 4);
  v[0] = binary(m, OP_sub, arg[1][0], number(m, i32, 1));
  v[1] = of_type(m, types[1]);
  tir_build(&m->b, OP_yield, 2, v, 0, NULL);
  m->depth--;
  m->n = n;
  m->b = outer;
  keep(m, op->out[1]);
}

static void loop(maker *m) {
  const tir_type *i32 = scalar(m, DT_i32);
  int64_t step = sim_chance(&m->rng, 30) ? -1 : 1 + below(m, 2), trips = below(m, 4), first = below(m, 3);
  tir_value *in[5] = {number(m, i32, first), number(m, i32, first + step * trips), number(m, i32, step), tile(m),
                      any(m)};
  if (sim_chance(&m->rng, 40)) { /* a bound that is not known when compiling */
    tir_value *k = tir_cast(&m->b, m->pool[1], i32);
    in[1] = binary(m, OP_add, binary(m, OP_and, k, number(m, i32, 3)), in[0]);
    in[2] = number(m, i32, 1);
  }
  const tir_type *types[2] = {in[3]->type, in[4]->type};
  tir_op *op = tir_build(&m->b, OP_for, 5, in, 2, types);
  tir_region *r = op->regions[0];
  tir_builder outer = m->b;
  int n = m->n;
  m->b = tir_at_end(m->fn, r);
  m->depth++;
  keep(m, tir_region_add_arg(r, i32, (span){0, 0}));
  for (int i = 0; i < 2; i++) keep(m, tir_region_add_arg(r, types[i], (span){0, 0}));
  steps(m, 4);
  tir_value *next[2] = {of_type(m, types[0]), of_type(m, types[1])};
  tir_build(&m->b, OP_yield, 2, next, 0, NULL);
  m->depth--;
  m->n = n;
  m->b = outer;
  for (int i = 0; i < 2; i++) keep(m, op->out[i]);
}

static void branch(maker *m) {
  tir_value *c = condition(m, scalar(m, DT_i32));
  const tir_type *types[2] = {tile(m)->type, any(m)->type};
  tir_op *op = tir_build(&m->b, OP_if, 1, &c, 2, types);
  tir_builder outer = m->b;
  int n = m->n;
  m->depth++;
  for (int side = 0; side < 2; side++) {
    m->b = tir_at_end(m->fn, op->regions[side]);
    steps(m, 3);
    tir_value *v[2] = {of_type(m, types[0]), of_type(m, types[1])};
    tir_build(&m->b, OP_yield, 2, v, 0, NULL);
    m->n = n;
  }
  m->depth--;
  m->b = outer;
  for (int i = 0; i < 2; i++) keep(m, op->out[i]);
}

static void steps(maker *m, int n) {
  for (int i = 0; i < n && m->budget > 0; ++i, --m->budget) {
    int what = below(m, 23);
    if (what < 7)
      arithmetic(m);
    else if (what < 8)
      choose(m);
    else if (what < 9)
      convert(m);
    else if (what < 12)
      load(m);
    else if (what < 15)
      reshape(m);
    else if (what < 17)
      reduce(m);
    else if (what < 18 && m->depth < 2)
      loop(m);
    else if (what < 19 && m->depth < 2)
      branch(m);
    else if (what < 20 && m->depth < 2)
      count_down(m);
    else if (what < 21)
      dot(m);
    else if (what < 22)
      atomic(m);
    else
      arithmetic(m);
  }
}

/* Element i of a value goes to out[slot * RANDOM_SLOT + i], in row-major order; sometimes by an address that runs the
   other way, so that the store wants another layout. */
static void store(maker *m, tir_value *v, int slot) {
  const tir_type *i32 = scalar(m, DT_i32);
  v = tir_cast(&m->b, v, i32);
  if (!tir_is_tile(v->type)) {
    tir_value *in[2] = {binary(m, OP_addptr, m->out, number(m, i32, slot * RANDOM_SLOT)), v};
    tir_build(&m->b, OP_store, 2, in, 0, NULL);
    return;
  }
  const tir_type *t = v->type;
  tir_value *at = number(m, t, slot * RANDOM_SLOT);
  int64_t stride = 1;
  bool backwards = sim_chance(&m->rng, 40);
  for (int k = 0; k < t->rank; k++) {
    int axis = backwards ? k : t->rank - 1 - k;
    const tir_type *rt = tir_tile_type(m->cx, i32, 1, &t->shape[axis], NULL);
    tir_op *op = tir_build(&m->b, OP_arange, 0, NULL, 1, &rt);
    tir_set_int(op, ATTR_start, 0);
    tir_value *r = op->out[0];
    for (int i = 0; i < t->rank; i++)
      if (i != axis) r = tir_expand_dims(&m->b, r, i);
    r = tir_broadcast(&m->b, r, t->rank, t->shape);
    at = binary(m, OP_add, at, binary(m, OP_mul, r, number(m, t, stride)));
    stride *= t->shape[axis];
  }
  tir_value *in[3] = {binary(m, OP_addptr, tir_splat(&m->b, m->out, tir_with_elem(m->cx, t, m->out->type)), at), v,
                      NULL};
  if (sim_chance(&m->rng, 30)) in[2] = condition(m, t);
  tir_build(&m->b, OP_store, in[2] ? 3 : 2, in, 0, NULL);
}

tir_fn *tir_random(tir_cx *cx, arena *a, uint64_t seed) {
  span nowhere = {0, 0};
  maker m = {.cx = cx, .budget = 40};
  m.rng.state = seed;
  m.fn = tir_fn_new(cx, a, "random", nowhere);
  m.fn->num_warps = 1 << below(&m, 4);
  m.b = tir_at_end(m.fn, m.fn->body);
  const tir_type *i32 = tir_scalar_type(cx, DT_i32), *ptr = tir_ptr_type(cx, i32, false);
  m.x = tir_fn_add_param(m.fn, "x", ptr, 16, nowhere);
  m.out = tir_fn_add_param(m.fn, "out", ptr, 16, nowhere);
  keep(&m, tir_fn_add_param(m.fn, "n", i32, 16, nowhere));
  keep(&m, tir_fn_add_param(m.fn, "k", i32, 1, nowhere));
  for (int i = 0; i < 3; i++) {
    int64_t extent = 1 << (1 + below(&m, 8));
    const tir_type *t = tir_tile_type(cx, i32, 1, &extent, NULL);
    tir_op *op = tir_build(&m.b, OP_arange, 0, NULL, 1, &t);
    tir_set_int(op, ATTR_start, below(&m, 2) * 16);
    keep(&m, op->out[0]);
  }
  steps(&m, 24);
  for (int slot = 0; slot < RANDOM_OUT / RANDOM_SLOT - 1; slot++)
    store(&m, m.n > slot ? m.pool[m.n - 1 - slot] : m.pool[0], slot);
  tir_build(&m.b, OP_return, 0, NULL, 0, NULL);
  tir_renumber(m.fn);
  return m.fn;
}
