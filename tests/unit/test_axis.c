/* Axis facts by enumeration: random functions (arithmetic, shapes, loops, branches) are run on concrete numbers by a
 * small machine of this file, and every fact is checked at every definition, each time it is executed.
 *
 * Facts are allowed to be wrong about values whose index arithmetic has wrapped or was divided by a negative number on
 * the way (analysis.h says which); ranges and "cannot wrap" must hold even then. */
#include "compiler/analysis/analysis.h"
#include "tests/harness/layout_sim.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct run {
  tir_fn *fn;
  arena *a;
  const axis_facts *facts;
  uint8_t **at; /* by value id: elements in memory encoding */
  bool outside; /* of what facts take for granted */
  int64_t program;
  int checked, sharp, no_wrap;
  const char *text;
} run;

static size_t bytes_of(const tir_type *t) { return tir_dtypes[tir_dtype_of(t)].bytes; }

static int64_t element(const tir_type *t, const uint8_t *p, int64_t i) {
  tir_scalar s = {0};
  memcpy(&s.bits, p + (size_t)i * bytes_of(t), bytes_of(t));
  return tir_scalar_as_int(tir_dtype_of(t), s);
}

static int64_t element_of(const run *r, const tir_value *v, int64_t i) { return element(v->type, r->at[v->id], i); }

/* ---- the facts of one value ---- */

static int step_bytes(const tir_type *t) { return tir_is_ptr(t) ? tir_dtypes[tir_elem(t)->elem->dtype].bytes : 1; }

static void check_axis(run *r, const tir_value *v, const axis_info *x, int axis) {
  const tir_type *t = v->type;
  int64_t n = tir_is_tile(t) ? t->shape[axis] : 1, inner = 1;
  for (int i = axis + 1; tir_is_tile(t) && i < t->rank; i++) inner *= t->shape[i];
  int64_t c = x->contiguity[axis] < n ? x->contiguity[axis] : n, k = x->constancy[axis] < n ? x->constancy[axis] : n;
  for (int64_t e = 0; e < t->numel; ++e) {
    int64_t i = e / inner % n, value = element_of(r, v, e);
    if (i % c)
      cr_assert_eq(value, element_of(r, v, e - inner) + step_bytes(t), "%%%u: not contiguous by %ld along %d\n%s",
                   v->id, (long)c, axis, r->text);
    else
      cr_assert(value % x->divisibility[axis] == 0, "%%%u: %ld is no multiple of %ld along %d\n%s", v->id, (long)value,
                (long)x->divisibility[axis], axis, r->text);
    if (i % k)
      cr_assert_eq(value, element_of(r, v, e - inner), "%%%u: not constant by %ld along %d\n%s", v->id, (long)k, axis,
                   r->text);
  }
  r->sharp += c > 1 || (k > 1 && k < n) || x->divisibility[axis] > 1;
}

static void check(run *r, const tir_value *v) {
  axis_info x = axis_of(r->facts, v);
  const tir_type *t = v->type;
  if (!tir_is_ptr(t) && !dt_is_int(tir_dtype_of(t))) return;
  if (!tir_is_ptr(t))
    for (int64_t e = 0; e < t->numel && tir_dtype_of(t) != DT_u64; ++e) {
      int64_t value = element_of(r, v, e);
      cr_assert(value >= x.lo && value <= x.hi, "%%%u: %ld is outside %ld..%ld\n%s", v->id, (long)value, (long)x.lo,
                (long)x.hi, r->text);
      if (!r->outside) cr_assert(!x.nonneg || value >= 0, "%%%u: %ld is negative\n%s", v->id, (long)value, r->text);
    }
  ++r->checked;
  if (r->outside) return;
  for (int axis = 0; axis < x.rank; ++axis) check_axis(r, v, &x, axis);
}

/* ---- the machine ---- */

static uint8_t *room(run *r, const tir_value *v) {
  return r->at[v->id] = arena_alloc(r->a, bytes_of(v->type) * (size_t)v->type->numel);
}

/* x op y in exact arithmetic, if that lies in lo..hi. */
static bool within(tir_opcode code, int64_t x, int64_t y, int64_t lo, int64_t hi) {
  int64_t z = 0;
  if (code == OP_shl) return y < 0 || y > 63 || (y > 61 ? x == 0 : x >= (lo >> y) && x <= (hi >> y));
  bool over = code == OP_add   ? __builtin_add_overflow(x, y, &z)
              : code == OP_sub ? __builtin_sub_overflow(x, y, &z)
                               : __builtin_mul_overflow(x, y, &z);
  return !over && z >= lo && z <= hi;
}

/* Notes whether the op leaves its type or divides by a negative scalar, and checks the promise that it does not wrap
 * with its operands read as signed.
 */
static void exact(run *r, const tir_op *op) {
  tir_dtype d = tir_dtype_of(op->out[0]->type);
  bool one = op->code == OP_div && (!tir_is_tile(op->out[0]->type) || tir_is_filled(tir_in(op, 1)));
  for (int64_t i = 0; one && dt_is_signed(d) && i < op->out[0]->type->numel; ++i)
    if (element_of(r, tir_in(op, 1), i) < 0) r->outside = true;
  if (op->code != OP_add && op->code != OP_sub && op->code != OP_mul && op->code != OP_shl) return;
  bool promised = axis_no_wrap(r->facts, op), is_signed = dt_is_signed(d);
  int64_t top = INT64_MAX >> (64 - tir_dtypes[d].bits);
  r->no_wrap += promised;
  for (int64_t i = 0; i < op->out[0]->type->numel; ++i) {
    int64_t x = element_of(r, tir_in(op, 0), i), y = element_of(r, tir_in(op, 1), i);
    if (!within(op->code, x, y, is_signed ? -top - 1 : 0, is_signed ? top : 2 * top + 1)) r->outside = true;
    if (!is_signed && x > top) x -= 2 * top + 2;
    if (!is_signed && y > top) y -= 2 * top + 2;
    if (promised)
      cr_assert(within(op->code, x, y, -top - 1, top), "%%%u was promised not to wrap\n%s", op->out[0]->id, r->text);
  }
}

static void alias(run *r, const tir_value *to, const tir_value *from) { r->at[to->id] = r->at[from->id]; }

static void move_elements(run *r, const tir_op *op) {
  const tir_value *in = tir_in(op, 0), *out = op->out[0];
  const tir_type *to = out->type, *from = in->type;
  uint8_t *p = room(r, out);
  const tir_attr *perm = tir_attr_of(op, ATTR_perm);
  for (int64_t e = 0; e < to->numel; ++e) {
    int64_t rest = e, c[TIR_MAX_RANK] = {0}, at[TIR_MAX_RANK] = {0}, src = 0;
    for (int i = to->rank - 1; i >= 0; i--) c[i] = rest % to->shape[i], rest /= to->shape[i];
    if (op->code == OP_reshape || op->code == OP_expand_dims) {
      src = e;
    } else if (op->code != OP_splat) {
      for (int i = 0; i < to->rank; i++) {
        if (op->code == OP_trans)
          at[perm->ints[i]] = c[i];
        else
          at[i] = from->shape[i] == 1 ? 0 : c[i];
      }
      for (int i = 0; i < from->rank; i++) src = src * from->shape[i] + at[i];
    }
    memcpy(p + (size_t)e * bytes_of(to), r->at[in->id] + (size_t)src * bytes_of(to), bytes_of(to));
  }
}

static void run_region(run *r, const tir_region *region);

static void run_for(run *r, const tir_op *op) {
  tir_region *body = op->regions[0];
  int64_t lb = element_of(r, tir_in(op, 0), 0), ub = element_of(r, tir_in(op, 1), 0),
          step = element_of(r, tir_in(op, 2), 0);
  for (int i = 1; i < body->n_args; i++) alias(r, body->args[i], tir_in(op, i + 2));
  for (int64_t iv = lb; step > 0 ? iv < ub : iv > ub; iv += step) {
    tir_scalar s = tir_scalar_int(tir_dtype_of(body->args[0]->type), iv);
    memcpy(room(r, body->args[0]), &s.bits, bytes_of(body->args[0]->type));
    for (int i = 0; i < body->n_args; i++) check(r, body->args[i]);
    run_region(r, body);
    uint8_t *next[8];
    for (int i = 1; i < body->n_args; i++) next[i] = r->at[tir_in(body->last, i - 1)->id];
    for (int i = 1; i < body->n_args; i++) r->at[body->args[i]->id] = next[i];
  }
  for (int i = 0; i < op->n_out; i++) alias(r, op->out[i], body->args[i + 1]);
}

static void run_while(run *r, const tir_op *op) {
  tir_region *before = op->regions[0], *after = op->regions[1];
  uint8_t *next[8];
  for (int i = 0; i < before->n_args; i++) next[i] = r->at[tir_in(op, i)->id];
  for (;;) {
    for (int i = 0; i < before->n_args; i++) {
      r->at[before->args[i]->id] = next[i];
      check(r, before->args[i]);
    }
    run_region(r, before);
    for (int i = 0; i < after->n_args; i++) next[i] = r->at[tir_in(before->last, i + 1)->id];
    if (!element_of(r, tir_in(before->last, 0), 0)) break;
    for (int i = 0; i < after->n_args; i++) {
      r->at[after->args[i]->id] = next[i];
      check(r, after->args[i]);
    }
    run_region(r, after);
    for (int i = 0; i < before->n_args; i++) next[i] = r->at[tir_in(after->last, i)->id];
  }
  for (int i = 0; i < op->n_out; i++) r->at[op->out[i]->id] = next[i];
}

static void run_op(run *r, const tir_op *op) {
  switch (op->code) {
    case OP_for: run_for(r, op); break;
    case OP_while: run_while(r, op); break;
    case OP_if: {
      const tir_region *taken = op->regions[element_of(r, tir_in(op, 0), 0) ? 0 : 1];
      run_region(r, taken);
      for (int i = 0; i < op->n_out; i++) alias(r, op->out[i], tir_in(taken->last, i));
      break;
    }
    case OP_const: {
      uint64_t bits = tir_attr_of(op, ATTR_value)->scalar.bits;
      uint8_t *p = room(r, op->out[0]);
      for (int64_t i = 0; i < op->out[0]->type->numel; ++i)
        memcpy(p + (size_t)i * bytes_of(op->out[0]->type), &bits, bytes_of(op->out[0]->type));
      break;
    }
    case OP_arange: {
      uint8_t *p = room(r, op->out[0]);
      for (int32_t i = 0; i < op->out[0]->type->numel; ++i) {
        int32_t v = (int32_t)tir_attr_int(op, ATTR_start, 0) + i;
        memcpy(p + 4 * (size_t)i, &v, 4);
      }
      break;
    }
    case OP_program_id: {
      int32_t v = (int32_t)r->program;
      memcpy(room(r, op->out[0]), &v, 4);
      break;
    }
    case OP_hint: alias(r, op->out[0], tir_in(op, 0)); break;
    case OP_assume:
    case OP_yield:
    case OP_condition:
    case OP_return: break;
    case OP_splat:
    case OP_expand_dims:
    case OP_broadcast:
    case OP_trans:
    case OP_reshape: move_elements(r, op); break;
    default: {
      tir_dtype dt[3];
      const void *in[3];
      for (int i = 0; i < op->n_in; i++) dt[i] = tir_dtype_of(tir_in(op, i)->type), in[i] = r->at[tir_in(op, i)->id];
      exact(r, op);
      tir_eval_opts opts = {.scale = op->code == OP_addptr ? step_bytes(op->out[0]->type) : 1};
      cr_assert(tir_ops[op->code].flags & OPF_ELT);
      if (tir_eval(op->code, op->n_in, dt, in, tir_dtype_of(op->out[0]->type), room(r, op->out[0]),
                   (size_t)op->out[0]->type->numel, opts))
        r->outside = true; /* a division by zero: the program is wrong, and gets -1 */
    }
  }
  for (int i = 0; i < op->n_out; i++) check(r, op->out[i]);
}

static void run_region(run *r, const tir_region *region) {
  for (const tir_op *op = region->first; op; op = op->next) run_op(r, op);
}

/* ---- random functions ---- */

enum { MAX_POOL = 64 };
typedef struct maker {
  sim_rng rng;
  tir_fn *fn;
  tir_cx *cx;
  tir_builder b;
  tir_value *pool[MAX_POOL];
  int n;
} maker;

static const tir_type *tile_of(maker *m, const tir_type *elem, int rank, int64_t x, int64_t y) {
  int64_t shape[2] = {x, y};
  return tir_tile_type(m->cx, elem, rank, shape, NULL);
}

static tir_value *keep(maker *m, tir_value *v) {
  if (m->n < MAX_POOL) m->pool[m->n++] = v;
  return v;
}

static tir_value *pick(maker *m) { return m->pool[sim_below(&m->rng, m->n)]; }

/* A value of exactly this type: from the pool, or made from what is there. */
static tir_value *of_type(maker *m, const tir_type *t) {
  for (int tries = 0; tries < 12; ++tries) {
    tir_value *v = pick(m);
    if (v->type == t) return v;
    if (tir_is_tile(t) && !tir_is_tile(v->type) && v->type == tir_elem(t)) return tir_splat(&m->b, v, t);
    if (tir_is_tile(t) == tir_is_tile(v->type) && tir_same_shape(t, v->type) && !tir_is_ptr(v->type) && !tir_is_ptr(t))
      return tir_cast(&m->b, v, tir_elem(t));
  }
  static const int64_t constants[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 24, 31, 32, 64, 100, 1024, -1, -8, 65536, 1 << 30};
  return tir_const_int(&m->b, t, constants[sim_below(&m->rng, sizeof constants / sizeof *constants)]);
}

static bool integer(const tir_value *v) { return !tir_is_ptr(v->type) && tir_dtype_of(v->type) != DT_i1; }

static tir_value *some_integer(maker *m) {
  for (;;) {
    tir_value *v = pick(m);
    if (integer(v)) return v;
  }
}

static void straight(maker *m) {
  static const tir_opcode binary[] = {OP_add, OP_add, OP_add, OP_sub, OP_mul, OP_mul, OP_div, OP_rem,   OP_rem,
                                      OP_and, OP_or,  OP_xor, OP_shl, OP_shr, OP_min, OP_max, OP_umulhi};
  static const tir_opcode compare[] = {OP_lt, OP_le, OP_gt, OP_ge, OP_eq, OP_ne};
  tir_value *x = some_integer(m);
  switch (sim_below(&m->rng, 14)) {
    case 5: { /* a run against a constant, and what depends on the outcome */
      const tir_type *t = tile_of(m, tir_scalar_type(m->cx, DT_i32), 1, 16, 0);
      tir_value *u = of_type(m, t), *v = tir_const_int(&m->b, t, 4 * sim_below(&m->rng, 8));
      bool left = sim_chance(&m->rng, 50);
      tir_value *c = tir_binary(&m->b, compare[sim_below(&m->rng, 4)], left ? u : v, left ? v : u);
      keep(m, tir_select(&m->b, c, u, sim_chance(&m->rng, 50) ? v : of_type(m, t)));
      keep(m, tir_select(&m->b, c, v, tir_const_int(&m->b, t, 8)));
      break;
    }
    case 6: { /* a divisor that is a run */
      const tir_type *t = tile_of(m, tir_scalar_type(m->cx, DT_i32), 1, 16, 0);
      tir_op *op = tir_build(&m->b, OP_arange, 0, NULL, 1, &t);
      tir_set_int(op, ATTR_start, 16 << sim_below(&m->rng, 3));
      tir_value *v =
          sim_chance(&m->rng, 40) ? tir_binary(&m->b, OP_div, op->out[0], tir_const_int(&m->b, t, 4)) : op->out[0];
      keep(m, tir_binary(&m->b, sim_chance(&m->rng, 70) ? OP_rem : OP_div, of_type(m, t), v));
      break;
    }
    case 0: {
      tir_value *c = tir_binary(&m->b, compare[sim_below(&m->rng, 6)], x, of_type(m, x->type));
      keep(m, c);
      keep(m, tir_select(&m->b, c, x, of_type(m, x->type)));
      break;
    }
    case 1: {
      static const tir_dtype to[] = {DT_i32, DT_i64, DT_u32, DT_i16, DT_u8};
      keep(m, tir_cast(&m->b, x, tir_scalar_type(m->cx, to[sim_below(&m->rng, 5)])));
      break;
    }
    case 2: {
      if (!tir_is_tile(x->type)) {
        keep(m, tir_splat(&m->b, x, tile_of(m, x->type, 1 + sim_below(&m->rng, 2), 16, 8)));
      } else if (x->type->rank == 1) {
        int axis = sim_below(&m->rng, 2);
        tir_value *e = tir_expand_dims(&m->b, x, axis);
        int64_t shape[2] = {axis ? 16 : 8, axis ? 8 : 16};
        keep(m, e->type->shape[1 - axis] == 16 ? tir_broadcast(&m->b, e, 2, shape) : e);
      } else {
        static const int64_t perm[2] = {1, 0};
        keep(m, tir_trans(&m->b, x, perm));
      }
      break;
    }
    case 3:
      if (tir_is_tile(x->type)) {
        int64_t flat[1] = {x->type->numel}, two[2] = {x->type->numel / 4, 4};
        keep(m, sim_chance(&m->rng, 50) ? tir_reshape(&m->b, x, 1, flat) : tir_reshape(&m->b, x, 2, two));
      }
      break;
    case 4:
      for (int i = 0; i < m->n; ++i) { /* some pointer + this */
        tir_value *p = m->pool[i];
        if (!tir_is_ptr(p->type) || !sim_chance(&m->rng, 60)) continue;
        if (!tir_is_tile(p->type) && tir_is_tile(x->type))
          p = tir_splat(&m->b, p, tir_with_elem(m->cx, x->type, p->type));
        if (tir_same_shape(p->type, x->type) && tir_is_tile(p->type) == tir_is_tile(x->type))
          keep(m, tir_binary(&m->b, OP_addptr, p, x));
        break;
      }
      break;
    default: {
      tir_opcode code = binary[sim_below(&m->rng, sizeof binary / sizeof *binary)];
      int bits = tir_dtypes[tir_dtype_of(x->type)].bits;
      if (code == OP_umulhi && bits < 32) code = OP_add;
      tir_value *y = of_type(m, x->type);
      keep(m, sim_chance(&m->rng, 50) ? tir_binary(&m->b, code, x, y) : tir_binary(&m->b, code, y, x));
    }
  }
}

static void body(maker *m, int steps, int depth);

static void make_loop(maker *m, int depth) {
  const tir_type *i32 = tir_scalar_type(m->cx, DT_i32);
  static const int64_t steps[] = {1, 2, 4, 16, -1, -4};
  int64_t step = steps[sim_below(&m->rng, 6)];
  int64_t first = step > 0 ? sim_below(&m->rng, 3) * 8 : 9, trips = sim_below(&m->rng, 5);
  tir_value *in[5] = {tir_const_int(&m->b, i32, first), tir_const_int(&m->b, i32, first + trips * step),
                      tir_const_int(&m->b, i32, step), some_integer(m), some_integer(m)};
  const tir_type *types[2] = {in[3]->type, in[4]->type};
  tir_op *op = tir_build(&m->b, OP_for, 5, in, 2, types);
  tir_region *r = op->regions[0];
  tir_builder outer = m->b;
  int n = m->n;
  m->b = tir_at_end(m->fn, r);
  keep(m, tir_region_add_arg(r, i32, (span){0, 0}));
  tir_value *c0 = keep(m, tir_region_add_arg(r, types[0], (span){0, 0}));
  tir_value *c1 = keep(m, tir_region_add_arg(r, types[1], (span){0, 0}));
  body(m, 4, depth + 1);
  tir_value *next[2] = {of_type(m, types[0]), of_type(m, types[1])};
  if (sim_chance(&m->rng, 50)) next[0] = tir_binary(&m->b, OP_add, c0, of_type(m, types[0]));
  if (sim_chance(&m->rng, 30)) next[1] = c1;
  tir_build(&m->b, OP_yield, 2, next, 0, NULL);
  m->n = n;
  m->b = outer;
  keep(m, op->out[0]);
  keep(m, op->out[1]);
}

/* A counter that falls to zero, and one more carried value. */
static void make_while(maker *m, int depth) {
  const tir_type *i32 = tir_scalar_type(m->cx, DT_i32);
  tir_value *in[2] = {tir_const_int(&m->b, i32, sim_below(&m->rng, 6)), some_integer(m)};
  const tir_type *types[2] = {i32, in[1]->type};
  tir_op *op = tir_build(&m->b, OP_while, 2, in, 2, types);
  tir_builder outer = m->b;
  int n = m->n;
  tir_value *at[2][2], *next[3];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) at[i][j] = tir_region_add_arg(op->regions[i], types[j], (span){0, 0});
  m->b = tir_at_end(m->fn, op->regions[0]);
  keep(m, at[0][1]);
  body(m, 2, depth + 1);
  next[0] = tir_binary(&m->b, OP_gt, at[0][0], tir_const_int(&m->b, i32, 0));
  next[1] = at[0][0];
  next[2] = sim_chance(&m->rng, 60) ? at[0][1] : of_type(m, types[1]);
  tir_build(&m->b, OP_condition, 3, next, 0, NULL);
  m->n = n;
  m->b = tir_at_end(m->fn, op->regions[1]);
  keep(m, at[1][1]);
  body(m, 2, depth + 1);
  next[0] = tir_binary(&m->b, OP_sub, at[1][0], tir_const_int(&m->b, i32, 1));
  next[1] = of_type(m, types[1]);
  tir_build(&m->b, OP_yield, 2, next, 0, NULL);
  m->n = n;
  m->b = outer;
  keep(m, op->out[0]);
  keep(m, op->out[1]);
}

static void make_if(maker *m, int depth) {
  const tir_type *i32 = tir_scalar_type(m->cx, DT_i32);
  tir_value *c = tir_binary(&m->b, OP_lt, of_type(m, i32), of_type(m, i32));
  const tir_type *t = some_integer(m)->type;
  tir_op *op = tir_build(&m->b, OP_if, 1, &c, 1, &t);
  tir_builder outer = m->b;
  int n = m->n;
  for (int i = 0; i < 2; ++i) {
    m->b = tir_at_end(m->fn, op->regions[i]);
    body(m, 3, depth + 1);
    tir_value *v = of_type(m, t);
    tir_build(&m->b, OP_yield, 1, &v, 0, NULL);
    m->n = n;
  }
  m->b = outer;
  keep(m, op->out[0]);
}

static void body(maker *m, int steps, int depth) {
  for (int i = 0; i < steps; ++i) {
    int what = sim_below(&m->rng, 14);
    if (what == 0 && depth < 2)
      make_loop(m, depth);
    else if (what == 2 && depth < 2)
      make_while(m, depth);
    else if (what == 3)
      keep(m, tir_unary(&m->b, OP_neg, some_integer(m)));
    else if (what == 1 && depth < 2)
      make_if(m, depth);
    else
      straight(m);
  }
}

static void start(maker *m, arena *a, uint64_t seed) {
  memset(m, 0, sizeof *m);
  m->rng.state = seed;
  m->cx = tir_cx_new(a, strtab_new(a));
  m->fn = tir_fn_new(m->cx, a, "random", (span){0, 0});
  m->b = tir_at_end(m->fn, m->fn->body);
  const tir_type *i32 = tir_scalar_type(m->cx, DT_i32);
  keep(m, tir_fn_add_param(m->fn, "n", i32, 16, (span){0, 0}));
  keep(m, tir_fn_add_param(m->fn, "k", i32, 1, (span){0, 0}));
  keep(m, tir_fn_add_param(m->fn, "u", tir_scalar_type(m->cx, DT_u32), 1, (span){0, 0}));
  keep(m, tir_fn_add_param(m->fn, "p", tir_ptr_type(m->cx, tir_scalar_type(m->cx, DT_f32), false), 16, (span){0, 0}));
  keep(m, tir_fn_add_param(m->fn, "h", tir_ptr_type(m->cx, tir_scalar_type(m->cx, DT_f16), false), 1, (span){0, 0}));
  tir_op *pid = tir_build(&m->b, OP_program_id, 0, NULL, 1, &i32);
  tir_set_int(pid, ATTR_axis, 0);
  keep(m, pid->out[0]);
  for (int i = 0; i < 3; ++i) {
    static const int64_t starts[] = {0, 0, 16, 5, 8};
    const tir_type *t = tile_of(m, i32, 1, i == 2 ? 8 : 16, 0);
    tir_op *op = tir_build(&m->b, OP_arange, 0, NULL, 1, &t);
    tir_set_int(op, ATTR_start, starts[sim_below(&m->rng, 5)]);
    keep(m, op->out[0]);
  }
}

static void set_param(run *r, int i, int64_t v) {
  const tir_value *p = r->fn->params[i].value;
  memcpy(room(r, p), &v, bytes_of(p->type));
  check(r, p);
}

static void run_with(run *r, const int64_t *params, int64_t program) {
  r->outside = false;
  r->program = program;
  r->at = ARENA_ARRAY(r->a, uint8_t *, r->fn->n_values);
  for (int i = 0; i < r->fn->n_params; i++) set_param(r, i, params[i]);
  run_region(r, r->fn->body);
}

Test(axis, facts_hold_in_random_functions) {
  int checked = 0, sharp = 0, no_wrap = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    arena *a = arena_new();
    maker m;
    start(&m, a, seed);
    body(&m, 14, 0);
    tir_build(&m.b, OP_return, 0, NULL, 0, NULL);
    tir_renumber(m.fn);
    textbuf text;
    text_init(&text, a);
    tir_print(m.fn, &text);
    run r = {.fn = m.fn, .a = a, .facts = axis_analyse(m.fn, a), .text = text.at};
    static const int64_t inputs[][5] = {{0, 0, 0, 0, 0},
                                        {48, 7, 9, 4096, 2},
                                        {1024, -5, 4000000000, 16, 1 << 20},
                                        {-32, 3, 1, 65536 + 16, 7},
                                        {2147483632, 2147483647, 4294967295, 1 << 30, 64},
                                        {16, 64, 16, 256, 32}};
    for (int i = 0; i < 6; ++i) run_with(&r, inputs[i], i == 4 ? 2147483646 : 3 * i);
    checked += r.checked, sharp += r.sharp, no_wrap += r.no_wrap;
    arena_free(a);
  }
  cr_assert(checked > 50000 && sharp > 10000 && no_wrap > 1000, "%d checked, %d sharp, %d without wrap", checked, sharp,
            no_wrap);
}

/* ---- the patterns that matter ------------------------------------------------------------------------------------ */

typedef struct pattern {
  arena *a;
  maker m;
  const tir_type *i32;
  tir_value *n, *p, *pid;
} pattern;

static pattern begin(int divisibility) {
  pattern x = {.a = arena_new()};
  x.m.cx = tir_cx_new(x.a, strtab_new(x.a));
  x.m.fn = tir_fn_new(x.m.cx, x.a, "pattern", (span){0, 0});
  x.m.b = tir_at_end(x.m.fn, x.m.fn->body);
  x.i32 = tir_scalar_type(x.m.cx, DT_i32);
  x.n = tir_fn_add_param(x.m.fn, "n", x.i32, divisibility, (span){0, 0});
  x.p = tir_fn_add_param(x.m.fn, "p", tir_ptr_type(x.m.cx, tir_scalar_type(x.m.cx, DT_f32), false), 16, (span){0, 0});
  tir_op *pid = tir_build(&x.m.b, OP_program_id, 0, NULL, 1, &x.i32);
  tir_set_int(pid, ATTR_axis, 0);
  x.pid = pid->out[0];
  return x;
}

static tir_value *range(pattern *x, int64_t start, int64_t n) {
  const tir_type *t = tile_of(&x->m, x->i32, 1, n, 0);
  tir_op *op = tir_build(&x->m.b, OP_arange, 0, NULL, 1, &t);
  tir_set_int(op, ATTR_start, start);
  return op->out[0];
}

static tir_value *number(pattern *x, const tir_value *like, int64_t v) { return tir_const_int(&x->m.b, like->type, v); }
static tir_value *op2(pattern *x, tir_opcode c, tir_value *u, tir_value *v) { return tir_binary(&x->m.b, c, u, v); }
static tir_value *spread(pattern *x, tir_value *s, const tir_value *like) {
  return tir_splat(&x->m.b, s, tir_with_elem(x->m.cx, like->type, s->type));
}

static tir_value *pointers(pattern *x, tir_value *offsets) {
  return op2(x, OP_addptr, spread(x, x->p, offsets), offsets);
}

static int width(pattern *x, tir_value *ptr, tir_value *mask, int axis) {
  return axis_vector(axis_analyse(x->m.fn, x->a), ptr, mask, axis);
}

/* pid * 1024 + arange(1024) < n */
Test(axis, block_of_a_vector) {
  for (int div = 1; div <= 16; div *= 2) {
    pattern x = begin(div);
    tir_value *r = range(&x, 0, 1024), *base = op2(&x, OP_mul, x.pid, number(&x, x.pid, 1024));
    tir_value *offs = op2(&x, OP_add, spread(&x, base, r), r), *mask = op2(&x, OP_lt, offs, spread(&x, x.n, r));
    tir_value *ptr = pointers(&x, offs);
    cr_assert_eq(width(&x, ptr, NULL, 0), 4);
    cr_assert_eq(width(&x, ptr, mask, 0), div < 4 ? div : 4, "n divisible by %d", div);
    const axis_facts *f = axis_analyse(x.m.fn, x.a);
    cr_assert(axis_no_wrap(f, offs->def), "a multiple of 1024 and something below it");
    cr_assert_not(axis_no_wrap(f, base->def), "the product may wrap");
    arena_free(x.a);
  }
}

/* A row of a matrix: p + row * stride + arange: aligned if the stride is; the 16-byte limit. */
Test(axis, rows_of_a_matrix) {
  for (int div = 1; div <= 16; div *= 4) {
    pattern x = begin(div);
    tir_value *row = op2(&x, OP_addptr, x.p, op2(&x, OP_mul, x.pid, x.n)), *r = range(&x, 0, 256);
    tir_value *ptr = op2(&x, OP_addptr, spread(&x, row, r), r);
    cr_assert_eq(width(&x, ptr, NULL, 0), div < 4 ? div : 4);
    arena_free(x.a);
  }
}

/* (pid * 64 + arange(64)) % n, as blocked matrix products index their rows, and the grid of elements from it. */
Test(axis, tile_of_a_matrix) {
  pattern x = begin(16);
  tir_value *rm = range(&x, 0, 64), *rk = range(&x, 0, 32);
  tir_value *base = op2(&x, OP_mul, x.pid, number(&x, x.pid, 64));
  tir_value *offs = op2(&x, OP_rem, op2(&x, OP_add, spread(&x, base, rm), rm), spread(&x, x.n, rm));
  int64_t shape[2] = {32, 64};
  tir_value *col = tir_broadcast(&x.m.b, tir_expand_dims(&x.m.b, offs, 0), 2, shape);
  tir_value *row = tir_broadcast(&x.m.b, tir_expand_dims(&x.m.b, rk, 1), 2, shape);
  tir_value *at = op2(&x, OP_add, op2(&x, OP_mul, row, spread(&x, x.n, row)), col);
  tir_value *ptr = pointers(&x, at);
  const axis_facts *f = axis_analyse(x.m.fn, x.a);
  axis_info i = axis_of(f, ptr);
  cr_assert(i.contiguity[1] == 16 && i.contiguity[0] == 1, "runs of %ld", (long)i.contiguity[1]);
  cr_assert_eq(axis_vector(f, ptr, NULL, 1), 4);
  int order[TIR_MAX_RANK];
  axis_order(f, ptr, order);
  cr_assert(order[0] == 1 && order[1] == 0);
  static const int64_t perm[2] = {1, 0};
  tir_value *t = tir_trans(&x.m.b, ptr, perm);
  f = axis_analyse(x.m.fn, x.a);
  axis_order(f, t, order);
  cr_assert(order[0] == 0 && order[1] == 1);
  cr_assert_eq(axis_vector(f, t, NULL, 0), 4);
  arena_free(x.a);
}

static tir_value *hinted(pattern *x, tir_value *v, const char *kind, int64_t value) {
  tir_op *op = tir_build(&x->m.b, OP_hint, 1, &v, 1, NULL);
  tir_set_str(op, ATTR_kind, kind);
  tir_set_ints(op, ATTR_values, 1, &value);
  return op->out[0];
}

Test(axis, hints_and_assumptions) {
  pattern x = begin(1);
  tir_value *r = range(&x, 0, 128), *n8 = hinted(&x, x.n, "multiple_of", 8);
  tir_value *ptr = pointers(&x, op2(&x, OP_add, spread(&x, n8, r), r)),
            *plain = pointers(&x, op2(&x, OP_add, spread(&x, x.n, r), r));
  cr_assert_eq(width(&x, plain, NULL, 0), 1);
  cr_assert_eq(width(&x, ptr, NULL, 0), 4);
  tir_value *odd = op2(&x, OP_mul, r, spread(&x, x.n, r));
  tir_value *same = hinted(&x, hinted(&x, odd, "max_contiguous", 8), "multiple_of", 8);
  cr_assert_eq(width(&x, pointers(&x, same), NULL, 0), 4);
  tir_value *flat = hinted(&x, odd, "max_constancy", 64);
  cr_assert_eq(axis_of(axis_analyse(x.m.fn, x.a), flat).constancy[0], 64);
  tir_value *total = op2(&x, OP_mul, x.n, x.n);
  cr_assert_not(axis_no_wrap(axis_analyse(x.m.fn, x.a), total->def));
  tir_value *low = op2(&x, OP_ge, x.n, number(&x, x.n, 0)), *high = op2(&x, OP_lt, x.n, number(&x, x.n, 46341));
  tir_value *both = op2(&x, OP_and, low, high);
  tir_build(&x.m.b, OP_assume, 1, &both, 0, NULL);
  cr_assert(axis_no_wrap(axis_analyse(x.m.fn, x.a), total->def), "46340 squared fits");
  tir_value *rest = op2(&x, OP_rem, x.n, number(&x, x.n, 16)), *even = op2(&x, OP_eq, rest, number(&x, x.n, 0));
  tir_build(&x.m.b, OP_assume, 1, &even, 0, NULL);
  cr_assert_eq(width(&x, plain, NULL, 0), 4);
  arena_free(x.a);
}

/* Unsigned values above the signed maximum: a sum that fits in 32 bits still wraps as a signed one. */
Test(axis, unsigned_is_not_signed) {
  pattern x = begin(1);
  const tir_type *u32 = tir_scalar_type(x.m.cx, DT_u32);
  tir_value *u = tir_cast(&x.m.b, x.n, u32), *half = op2(&x, OP_shr, u, tir_const_int(&x.m.b, u32, 1));
  tir_value *twice = op2(&x, OP_add, half, half), *small = op2(&x, OP_shr, u, tir_const_int(&x.m.b, u32, 2));
  tir_value *fits = op2(&x, OP_add, small, small);
  const axis_facts *f = axis_analyse(x.m.fn, x.a);
  cr_assert_not(axis_no_wrap(f, twice->def));
  cr_assert(axis_no_wrap(f, fits->def));
  arena_free(x.a);
}
