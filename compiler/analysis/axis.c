/* axis: contiguity, divisibility, constancy and range of integers and pointers.
 *
 * A forward dataflow over structured control flow. Facts start at "everything is possible" (not visited), so that loops
 * are optimistic: a region argument is the meet of its initial value and what the body yields, and a loop's body is
 * visited until nothing changes (each count only falls, ranges are widened at the second visit).
 *
 * The trap is divisibility under shrinking contiguity. A block of c' < c elements starts anywhere at x + i*c', so its
 * starts are multiples of min(d, c') only: `at_block` says what survives, and every rule that shrinks contiguity uses
 * it. Plain gcd of the divisibilities is wrong: (0..63) + 16*(i/4) has runs of 4 that start at 0, 20, 40.
 *
 * `/` and `%` truncate, so their rules need values that are not negative; `nonneg` ignores overflow of 32 and 64 bits,
 * because an index that wrapped below zero is out of bounds whatever vector width it is accessed with, and takes for
 * granted that a scalar that an index is divided by (a count of tiles, computed from arguments of any sign) is not
 * negative.
 *
 * assume(..) at the top level of the kernel holds wherever the value is used: it sharpens the value's own fact. */
#include "compiler/analysis/analysis.h"

#include <string.h>

#include "compiler/analysis/affine.h"

#define MAX_DIV (INT64_C(1) << 62)

struct axis_facts {
  tir_fn *fn;
  arena *a;
  axis_info *at; /* by value id */
  struct assumed {
    int64_t div, lo, hi;
  } * assumed; /* by value id; div 0 = nothing */
  uint32_t n;
  int visit; /* how often the loop at hand was visited */
};

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t min3(int64_t a, int64_t b, int64_t c) { return min64(a, min64(b, c)); }

/* Largest power of two that divides v; MAX_DIV for 0. */
static int64_t pow2_of(int64_t v) {
  if (v == 0) return MAX_DIV;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  return min64((int64_t)(u & (0 - u)), MAX_DIV);
}

static int64_t mul_div(int64_t a, int64_t b) { return a >= MAX_DIV / b ? MAX_DIV : a * b; }

static int pointee_bytes(const tir_type *t) {
  const tir_type *p = tir_elem(t)->elem;
  return p->kind == TY_PTR ? 8 : tir_dtypes[p->dtype].bytes;
}

static int rank_of(const tir_type *t) { return tir_is_tile(t) ? t->rank : 1; }
static int64_t extent(const tir_type *t, int axis) { return tir_is_tile(t) ? t->shape[axis] : 1; }
static bool tracked(const tir_type *t) { return tir_is_ptr(t) || dt_is_int(tir_dtype_of(t)); }

static void type_range(tir_dtype d, int64_t *lo, int64_t *hi) {
  int bits = tir_dtypes[d].bits;
  if (d == DT_u64 || d == DT_i64) {
    *lo = INT64_MIN, *hi = INT64_MAX;
  } else if (dt_is_signed(d)) {
    *lo = -(INT64_C(1) << (bits - 1)), *hi = (INT64_C(1) << (bits - 1)) - 1;
  } else {
    *lo = 0, *hi = (INT64_C(1) << bits) - 1;
  }
}

static axis_info pessimistic(const tir_type *t) {
  axis_info r = {.rank = rank_of(t), .visited = true};
  for (int i = 0; i < r.rank; i++) r.contiguity[i] = r.divisibility[i] = r.constancy[i] = 1;
  if (tracked(t))
    type_range(tir_dtype_of(t), &r.lo, &r.hi);
  else
    r.lo = INT64_MIN, r.hi = INT64_MAX;
  r.nonneg = tracked(t) && !tir_is_ptr(t) && !dt_is_signed(tir_dtype_of(t)) && tir_dtype_of(t) != DT_u64;
  return r;
}

/* Divisibility of the block starts when blocks of only c elements are kept; `step` = bytes per element of a pointer. */
static int64_t at_block(const axis_info *x, int axis, int64_t c, int64_t step) {
  return c >= x->contiguity[axis] ? x->divisibility[axis] : min64(x->divisibility[axis], mul_div(c, step));
}

static int64_t step_of(const tir_value *v) { return tir_is_ptr(v->type) ? pow2_of(pointee_bytes(v->type)) : 1; }

/* Divisibility that holds for every single element. */
static int64_t element_div(const axis_info *x, int64_t step) {
  int64_t best = 1;
  for (int i = 0; i < x->rank; i++) best = max64(best, at_block(x, i, 1, step));
  return best;
}

static axis_info get(const axis_facts *f, const tir_value *v) {
  return v->id < f->n && f->at[v->id].rank ? f->at[v->id] : pessimistic(v->type);
}

static bool same(const axis_info *a, const axis_info *b) {
  bool eq =
      a->rank == b->rank && a->lo == b->lo && a->hi == b->hi && a->nonneg == b->nonneg && a->visited == b->visited;
  for (int i = 0; eq && i < a->rank; i++)
    eq = a->contiguity[i] == b->contiguity[i] && a->divisibility[i] == b->divisibility[i] &&
         a->constancy[i] == b->constancy[i];
  return eq;
}

/* Enters a fact, sharpened by what the kernel assumes; true if it differs from what was there. */
static bool put(axis_facts *f, const tir_value *v, axis_info x) {
  if (v->id >= f->n) return false;
  x.visited = true;
  const struct assumed *as = &f->assumed[v->id];
  if (as->div) {
    for (int i = 0; i < x.rank; i++) x.divisibility[i] = max64(x.divisibility[i], as->div);
    x.lo = max64(x.lo, as->lo);
    x.hi = min64(x.hi, as->hi);
    x.nonneg = x.nonneg || x.lo >= 0;
  }
  if (same(&f->at[v->id], &x)) return false;
  f->at[v->id] = x;
  return true;
}

/* Meet of two facts about one value (the value is one or the other). */
static axis_info meet(const axis_info *a, const axis_info *b, int64_t step) {
  if (!a->visited) return *b;
  if (!b->visited) return *a;
  axis_info r = {.rank = a->rank, .visited = true};
  for (int i = 0; i < r.rank; i++) {
    r.contiguity[i] = min64(a->contiguity[i], b->contiguity[i]);
    r.divisibility[i] = min64(at_block(a, i, r.contiguity[i], step), at_block(b, i, r.contiguity[i], step));
    r.constancy[i] = min64(a->constancy[i], b->constancy[i]);
  }
  r.lo = min64(a->lo, b->lo);
  r.hi = max64(a->hi, b->hi);
  r.nonneg = a->nonneg && b->nonneg;
  return r;
}

/* Range of a + b, a - b, a * b in exact arithmetic; false if it leaves the type (then the value may wrap). */
static bool exact_range(tir_opcode op, const axis_info *a, const axis_info *b, tir_dtype d, int64_t *lo, int64_t *hi) {
  int64_t v[4], tlo, thi;
  bool over = false;
  switch (op) {
    case OP_add:
      over |= __builtin_add_overflow(a->lo, b->lo, &v[0]);
      over |= __builtin_add_overflow(a->hi, b->hi, &v[1]);
      v[2] = v[3] = v[0];
      break;
    case OP_sub:
      over |= __builtin_sub_overflow(a->lo, b->hi, &v[0]);
      over |= __builtin_sub_overflow(a->hi, b->lo, &v[1]);
      v[2] = v[3] = v[0];
      break;
    default:
      over |= __builtin_mul_overflow(a->lo, b->lo, &v[0]);
      over |= __builtin_mul_overflow(a->lo, b->hi, &v[1]);
      over |= __builtin_mul_overflow(a->hi, b->lo, &v[2]);
      over |= __builtin_mul_overflow(a->hi, b->hi, &v[3]);
  }
  type_range(d, &tlo, &thi);
  *lo = tlo, *hi = thi;
  if (over || d == DT_u64) return false;
  int64_t l = min64(min64(v[0], v[1]), min64(v[2], v[3])), h = max64(max64(v[0], v[1]), max64(v[2], v[3]));
  if (l < tlo || h > thi) return false;
  *lo = l, *hi = h;
  return true;
}

/* A multiple of D plus something in 0..D-1 keeps D's high bits: the sum cannot wrap, whatever the multiple is. */
static bool aligned_sum(const axis_info *a, const axis_info *b) { return b->lo >= 0 && b->hi < element_div(a, 1); }

/* Whether op is the number of programs along an axis less 1 less the program's own. */
static bool programs_behind(const tir_op *op) {
  const tir_op *own = tir_in(op, 1)->def, *last = tir_in(op, 0)->def, *all;
  int64_t less;
  if (op->code != OP_sub || !own || own->code != OP_program_id || !last || last->n_in != 2) return false;
  all = tir_in(last, 0)->def;
  if (!all || all->code != OP_num_programs || tir_attr_int(all, ATTR_axis, 0) != tir_attr_int(own, ATTR_axis, 0))
    return false;
  return tir_known_int(tir_in(last, 1), &less) &&
         ((last->code == OP_sub && less == 1) || (last->code == OP_add && less == -1));
}

/* add, sub, addptr; `code` says which (an `or` of disjoint bits is an add). */
static axis_info sum(const axis_facts *f, const tir_op *op, tir_opcode code) {
  const tir_value *va = tir_in(op, 0), *vb = tir_in(op, 1);
  axis_info a = get(f, va), b = get(f, vb), r = pessimistic(op->out[0]->type);
  bool ptr = code == OP_addptr;
  int64_t step = ptr ? step_of(va) : 1;
  for (int i = 0; i < r.rank; i++) {
    int64_t c = min64(a.contiguity[i], b.constancy[i]);
    if (code != OP_sub) c = max64(c, min64(b.contiguity[i], a.constancy[i]));
    c = max64(c, 1);
    r.contiguity[i] = c;
    int64_t db = at_block(&b, i, c, 1);
    r.divisibility[i] = min64(at_block(&a, i, c, step), ptr ? mul_div(db, step) : db);
    r.constancy[i] = min64(a.constancy[i], b.constancy[i]);
  }
  if (!ptr) {
    tir_dtype d = tir_dtype_of(op->out[0]->type);
    exact_range(code, &a, &b, d, &r.lo, &r.hi);
    r.nonneg = r.nonneg || r.lo >= 0 || (code == OP_add && a.nonneg && b.nonneg && !affine_is_narrow(op)) ||
               programs_behind(op);
  }
  return r;
}

static axis_info product(const axis_facts *f, const tir_op *op, const axis_info *a, const axis_info *b) {
  axis_info r = pessimistic(op->out[0]->type);
  for (int i = 0; i < r.rank; i++) {
    if (b->lo == 1 && b->hi == 1)
      r.contiguity[i] = a->contiguity[i], r.divisibility[i] = a->divisibility[i];
    else if (a->lo == 1 && a->hi == 1)
      r.contiguity[i] = b->contiguity[i], r.divisibility[i] = b->divisibility[i];
    else
      r.divisibility[i] = mul_div(at_block(a, i, 1, 1), at_block(b, i, 1, 1));
    r.constancy[i] = min64(a->constancy[i], b->constancy[i]);
  }
  (void)f;
  exact_range(OP_mul, a, b, tir_dtype_of(op->out[0]->type), &r.lo, &r.hi);
  r.nonneg = r.nonneg || r.lo >= 0 || (a->nonneg && b->nonneg && !affine_is_narrow(op));
  return r;
}

static axis_info quotient(const tir_op *op, const axis_info *a, const axis_info *b, bool remainder) {
  axis_info r = pessimistic(op->out[0]->type);
  bool fine = a->nonneg && (b->lo > 0 || b->nonneg || remainder);
  for (int i = 0; i < r.rank; i++) {
    r.constancy[i] = min64(a->constancy[i], b->constancy[i]);
    if (!fine) continue;
    int64_t block = min64(min64(a->contiguity[i], a->divisibility[i]), min64(b->divisibility[i], b->constancy[i]));
    if (remainder) {
      if (a->contiguity[i] > 1) r.contiguity[i] = max64(block, 1);
      r.divisibility[i] = min64(at_block(a, i, r.contiguity[i], 1), at_block(b, i, 1, 1));
    } else {
      r.constancy[i] = max64(r.constancy[i], block);
      if (b->lo == 1 && b->hi == 1)
        r.contiguity[i] = a->contiguity[i], r.divisibility[i] = a->divisibility[i];
      else if (a->contiguity[i] == 1 && b->lo == b->hi && pow2_of(b->lo) == b->lo)
        r.divisibility[i] = max64(1, a->divisibility[i] / b->lo);
    }
  }
  if (a->lo >= 0 && b->lo > 0) {
    if (remainder)
      r.lo = 0, r.hi = min64(a->hi, b->hi - 1);
    else
      r.lo = a->lo / b->hi, r.hi = a->hi / b->lo;
  } else if (a->lo >= 0 && remainder) { /* of any divisor, 0 included */
    r.lo = 0, r.hi = a->hi;
  } else if (a->lo >= 0 && dt_is_signed(tir_dtype_of(op->out[0]->type))) {
    r.lo = -max64(a->hi, 1), r.hi = a->hi; /* -1: by 0 */
  }
  bool count = b->hi > 0 && (!tir_is_tile(tir_in(op, 1)->type) || tir_is_filled(tir_in(op, 1)));
  r.nonneg = r.nonneg || (a->nonneg && (remainder || b->lo >= 0 || b->nonneg || count));
  return r;
}

/* Where one side is a run and the other does not change, blocks of the run fall wholly on one side of the limit. */
static axis_info comparison(const tir_op *op, const axis_info *a, const axis_info *b) {
  axis_info r = pessimistic(op->out[0]->type);
  bool run_left = op->code == OP_lt || op->code == OP_ge, run_right = op->code == OP_gt || op->code == OP_le;
  for (int i = 0; i < r.rank; i++) {
    int64_t k = min64(a->constancy[i], b->constancy[i]), block = 1;
    if (run_left)
      block = min64(min64(a->contiguity[i], a->divisibility[i]), min64(b->divisibility[i], b->constancy[i]));
    if (run_right)
      block = min64(min64(b->contiguity[i], b->divisibility[i]), min64(a->divisibility[i], a->constancy[i]));
    r.constancy[i] = max64(k, block);
  }
  r.lo = 0, r.hi = 1, r.nonneg = true;
  return r;
}

/* and, or, xor, min, max: contiguity is lost; what is common to both sides stays. */
static axis_info common(const tir_op *op, const axis_info *a, const axis_info *b) {
  axis_info r = pessimistic(op->out[0]->type);
  for (int i = 0; i < r.rank; i++) {
    r.divisibility[i] = min64(at_block(a, i, 1, 1), at_block(b, i, 1, 1));
    if (op->code == OP_and) r.divisibility[i] = max64(at_block(a, i, 1, 1), at_block(b, i, 1, 1));
    r.constancy[i] = min64(a->constancy[i], b->constancy[i]);
  }
  r.nonneg = r.nonneg || (a->nonneg && b->nonneg);
  if (op->code == OP_min) {
    r.lo = min64(a->lo, b->lo), r.hi = min64(a->hi, b->hi);
  } else if (op->code == OP_max) {
    r.lo = max64(a->lo, b->lo), r.hi = max64(a->hi, b->hi), r.nonneg = a->nonneg || b->nonneg;
  } else if (op->code == OP_and && (a->lo >= 0 || b->lo >= 0)) {
    r.lo = 0, r.hi = a->lo >= 0 && b->lo >= 0 ? min64(a->hi, b->hi) : a->lo >= 0 ? a->hi : b->hi, r.nonneg = true;
  } else if (op->code != OP_and && a->lo >= 0 && b->lo >= 0) { /* or, xor: no bit above the highest of both */
    uint64_t bits = (uint64_t)max64(a->hi, b->hi);
    for (int shift = 1; shift < 64; shift *= 2) bits |= bits >> shift;
    r.lo = 0, r.hi = (int64_t)bits, r.nonneg = true;
  }
  return r;
}

static axis_info shape_op(const axis_facts *f, const tir_op *op) {
  const tir_value *in = tir_in(op, 0);
  const tir_type *to = op->out[0]->type;
  axis_info x = get(f, in), r = pessimistic(to);
  int64_t step = step_of(in), each = element_div(&x, step);
  r.lo = x.lo, r.hi = x.hi, r.nonneg = x.nonneg;
  for (int i = 0; i < r.rank; i++) r.divisibility[i] = each;
  switch (op->code) {
    case OP_splat:
    case OP_unsplat:
      for (int i = 0; i < r.rank; i++) r.constancy[i] = extent(to, i);
      break;
    case OP_expand_dims:
      if (tir_is_tile(in->type))
        for (int i = 0, at = (int)tir_attr_int(op, ATTR_axis, 0); i < r.rank; i++) {
          if (i == at) continue;
          int from = i < at ? i : i - 1;
          r.contiguity[i] = x.contiguity[from];
          r.divisibility[i] = x.divisibility[from];
          r.constancy[i] = x.constancy[from];
        }
      break;
    case OP_broadcast:
      for (int i = 0; i < r.rank; i++) {
        bool grown = extent(in->type, i) != extent(to, i);
        r.contiguity[i] = grown ? 1 : x.contiguity[i];
        r.divisibility[i] = x.divisibility[i];
        r.constancy[i] = grown ? extent(to, i) : x.constancy[i];
      }
      break;
    case OP_trans: {
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      for (int i = 0; i < r.rank; i++) {
        int from = (int)perm->ints[i];
        r.contiguity[i] = x.contiguity[from];
        r.divisibility[i] = x.divisibility[from];
        r.constancy[i] = x.constancy[from];
      }
      break;
    }
    case OP_reshape: {
      int to_minor = r.rank - 1, from_minor = x.rank - 1;
      int64_t both = min64(extent(to, to_minor), extent(in->type, from_minor));
      r.contiguity[to_minor] = min64(x.contiguity[from_minor], both);
      r.divisibility[to_minor] = at_block(&x, from_minor, r.contiguity[to_minor], step);
      r.constancy[to_minor] = min64(x.constancy[from_minor], both);
      break;
    }
    default: break;
  }
  return r;
}

static axis_info conversion(const axis_facts *f, const tir_op *op) {
  const tir_value *in = tir_in(op, 0);
  const tir_type *to = op->out[0]->type;
  axis_info x = get(f, in), r = pessimistic(to);
  if (!tracked(in->type) || tir_dtype_of(to) == DT_i1 || tir_dtype_of(in->type) == DT_i1) return r;
  if (tir_is_ptr(to) || tir_is_ptr(in->type)) {
    int64_t each = element_div(&x, step_of(in));
    for (int i = 0; i < r.rank; i++) r.divisibility[i] = each, r.constancy[i] = x.constancy[i];
    return r;
  }
  int bits = tir_dtypes[tir_dtype_of(to)].bits;
  bool fits = x.lo >= r.lo && x.hi <= r.hi && tir_dtype_of(to) != DT_u64, keeps = fits || bits == 64;
  int64_t cap = INT64_C(1) << min64(bits, 62);
  for (int i = 0; i < r.rank; i++) {
    /* A run that is cut off at the narrower type's end may jump inside a block, but not inside an aligned one. */
    r.contiguity[i] = keeps ? x.contiguity[i] : min64(x.contiguity[i], x.divisibility[i]);
    r.divisibility[i] = x.divisibility[i] > cap ? MAX_DIV : x.divisibility[i];
    r.constancy[i] = x.constancy[i];
  }
  if (fits) r.lo = x.lo, r.hi = x.hi;
  r.nonneg = r.nonneg || (x.nonneg && keeps);
  return r;
}

static void hint(axis_info *x, const tir_op *op) {
  const tir_attr *v = tir_attr_of(op, ATTR_values);
  const char *kind = tir_attr_str(op, ATTR_kind, "");
  for (int i = 0; i < x->rank && v && i < v->n; i++) {
    if (v->ints[i] <= 0) continue;
    int64_t n = pow2_of(v->ints[i]), room = extent(op->out[0]->type, i);
    if (!strcmp(kind, "multiple_of")) x->divisibility[i] = max64(x->divisibility[i], n);
    if (!strcmp(kind, "max_contiguous")) x->contiguity[i] = max64(x->contiguity[i], min64(n, room));
    if (!strcmp(kind, "max_constancy")) x->constancy[i] = max64(x->constancy[i], min64(n, room));
  }
}

static axis_info transfer(const axis_facts *f, const tir_op *op) {
  const tir_type *t = op->out[0]->type;
  axis_info r = pessimistic(t);
  if (!tracked(t)) return r;
  tir_opcode code = op->code;
  axis_info a = op->n_in > 0 ? get(f, tir_in(op, 0)) : r, b = op->n_in > 1 ? get(f, tir_in(op, 1)) : r;
  switch (code) {
    case OP_const: {
      int64_t v = tir_scalar_as_int(tir_dtype_of(t), tir_attr_of(op, ATTR_value)->scalar);
      for (int i = 0; i < r.rank; i++) r.divisibility[i] = pow2_of(v), r.constancy[i] = extent(t, i);
      if (!tir_is_ptr(t) && tir_dtype_of(t) != DT_u64) r.lo = r.hi = v, r.nonneg = v >= 0;
      return r;
    }
    case OP_arange: {
      int64_t start = tir_attr_int(op, ATTR_start, 0);
      r.contiguity[0] = t->shape[0];
      r.divisibility[0] = pow2_of(start);
      r.lo = start, r.hi = start + t->shape[0] - 1, r.nonneg = start >= 0;
      return r;
    }
    case OP_program_id: /* grid limits of CUDA: 2^31 - 1 along axis 0, 65535 along the others */
    case OP_num_programs:
      r.lo = code == OP_num_programs;
      r.hi = (tir_attr_int(op, ATTR_axis, 0) == 0 ? INT32_MAX : 65535) - (code == OP_program_id);
      r.nonneg = true;
      return r;
    case OP_splat:
    case OP_unsplat:
    case OP_expand_dims:
    case OP_broadcast:
    case OP_trans:
    case OP_reshape: return shape_op(f, op);
    case OP_add:
    case OP_sub:
    case OP_addptr: return sum(f, op, code);
    case OP_mul: return product(f, op, &a, &b);
    case OP_div: return quotient(op, &a, &b, false);
    case OP_rem: return quotient(op, &a, &b, true);
    case OP_shl:
    case OP_shr: {
      int bits = tir_dtypes[tir_dtype_of(t)].bits;
      if (b.lo != b.hi || b.lo < 0 || b.lo >= bits - 1) {
        for (int i = 0; i < r.rank; i++) r.constancy[i] = min64(a.constancy[i], b.constancy[i]);
        if (code == OP_shr) r.nonneg = r.nonneg || a.nonneg;
        return r;
      }
      axis_info by = b;
      by.lo = by.hi = INT64_C(1) << b.lo;
      by.nonneg = true;
      for (int i = 0; i < by.rank; i++) by.divisibility[i] = by.lo;
      return code == OP_shl ? product(f, op, &a, &by) : quotient(op, &a, &by, false);
    }
    case OP_and: {
      int64_t mask = b.lo;
      if (b.lo == b.hi && mask > 0 && mask < INT64_MAX && ((mask + 1) & mask) == 0 && a.nonneg) {
        axis_info by = b;
        by.lo = by.hi = mask + 1;
        for (int i = 0; i < by.rank; i++) by.divisibility[i] = mask + 1;
        return quotient(op, &a, &by, true);
      }
      return common(op, &a, &b);
    }
    case OP_or:
    case OP_xor:
      if (aligned_sum(&a, &b) || aligned_sum(&b, &a)) return sum(f, op, OP_add);
      return common(op, &a, &b);
    case OP_neg:
      for (int i = 0; i < r.rank; i++) {
        r.divisibility[i] = at_block(&a, i, 1, 1);
        r.constancy[i] = a.constancy[i];
      }
      if (a.lo > r.lo && a.hi <= r.hi && dt_is_signed(tir_dtype_of(t)))
        r.lo = -a.hi, r.hi = -a.lo, r.nonneg = r.lo >= 0;
      return r;
    case OP_min:
    case OP_max: return common(op, &a, &b);
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge: return comparison(op, &a, &b);
    case OP_select: {
      axis_info x = b, y = get(f, tir_in(op, 2));
      axis_info m = meet(&x, &y, step_of(op->out[0]));
      int64_t step = step_of(op->out[0]);
      for (int i = 0; i < m.rank; i++) {
        int64_t c = min64(m.contiguity[i], a.constancy[i]);
        m.divisibility[i] = min64(at_block(&x, i, c, step), at_block(&y, i, c, step));
        m.contiguity[i] = c;
        m.constancy[i] = min64(m.constancy[i], a.constancy[i]);
      }
      return m;
    }
    case OP_cast: return conversion(f, op);
    case OP_load: {
      int64_t k[TIR_MAX_RANK];
      for (int i = 0; i < r.rank; i++) k[i] = a.constancy[i];
      for (int j = 1; j < op->n_in; j++) {
        axis_info x = get(f, tir_in(op, j));
        for (int i = 0; i < r.rank; i++) k[i] = min64(k[i], tracked(tir_in(op, j)->type) ? x.constancy[i] : 1);
      }
      for (int i = 0; i < r.rank; i++) r.constancy[i] = tir_attr_int(op, ATTR_is_volatile, 0) ? 1 : k[i];
      return r;
    }
    case OP_hint: {
      r = a;
      hint(&r, op);
      return r;
    }
    case OP_convert_layout: return a;
    default:
      if (tir_ops[code].flags & OPF_ELT)
        for (int i = 0; i < r.rank; i++) {
          int64_t k = extent(t, i);
          for (int j = 0; j < op->n_in; j++) {
            axis_info x = get(f, tir_in(op, j));
            k = min64(k, tracked(tir_in(op, j)->type) ? x.constancy[i] : 1);
          }
          r.constancy[i] = k;
        }
      return r;
  }
}

static bool visit(axis_facts *f, const tir_region *r);

/* Meets `from` into the fact of `to`; ranges that still grow after the first visit go to the type's. */
static bool flow(axis_facts *f, const tir_value *to, const tir_value *from) {
  if (to->id >= f->n) return false;
  axis_info x = from->id < f->n ? f->at[from->id] : pessimistic(from->type);
  if (!x.visited) return false;
  axis_info old = f->at[to->id], m = meet(&old, &x, step_of(to));
  if (old.visited && f->visit > 1) {
    axis_info all = pessimistic(to->type);
    if (m.lo < old.lo) m.lo = all.lo;
    if (m.hi > old.hi) m.hi = all.hi;
  }
  return put(f, to, m);
}

static bool visit_for(axis_facts *f, const tir_op *op) {
  tir_region *body = op->regions[0];
  axis_info lb = get(f, tir_in(op, 0)), ub = get(f, tir_in(op, 1)), st = get(f, tir_in(op, 2));
  axis_info iv = pessimistic(body->args[0]->type);
  iv.divisibility[0] = min64(lb.divisibility[0], st.divisibility[0]);
  if (st.lo > 0) {
    iv.lo = lb.lo;
    if (ub.hi > INT64_MIN) iv.hi = max64(iv.lo, ub.hi - 1);
    iv.nonneg = lb.nonneg || lb.lo >= 0;
  } else if (st.hi < 0) {
    iv.hi = lb.hi;
    if (ub.lo < INT64_MAX) iv.lo = min64(iv.hi, ub.lo + 1);
    iv.nonneg = ub.lo >= -1;
  }
  bool changed = put(f, body->args[0], iv);
  int outer = f->visit;
  f->visit = 0;
  for (bool again = true; again;) {
    again = false;
    f->visit++;
    for (int i = 1; i < body->n_args; i++) {
      again |= flow(f, body->args[i], tir_in(op, i + 2));
      again |= flow(f, body->args[i], tir_in(body->last, i - 1)); /* not yet visited: no change */
    }
    again |= visit(f, body);
    changed |= again;
  }
  f->visit = outer;
  for (int i = 0; i < op->n_out; i++) {
    changed |= flow(f, op->out[i], tir_in(op, i + 3));
    changed |= flow(f, op->out[i], tir_in(body->last, i));
  }
  return changed;
}

static bool visit_while(axis_facts *f, const tir_op *op) {
  tir_region *before = op->regions[0], *after = op->regions[1];
  bool changed = false;
  int outer = f->visit;
  f->visit = 0;
  for (bool again = true; again;) {
    again = false;
    f->visit++;
    for (int i = 0; i < before->n_args; i++) {
      again |= flow(f, before->args[i], tir_in(op, i));
      again |= flow(f, before->args[i], tir_in(after->last, i));
    }
    again |= visit(f, before);
    for (int i = 0; i < after->n_args; i++) again |= flow(f, after->args[i], tir_in(before->last, i + 1));
    again |= visit(f, after);
    changed |= again;
  }
  f->visit = outer;
  for (int i = 0; i < op->n_out; i++) changed |= flow(f, op->out[i], tir_in(before->last, i + 1));
  return changed;
}

static bool visit(axis_facts *f, const tir_region *r) {
  bool changed = false;
  for (const tir_op *op = r->first; op; op = op->next) {
    switch (op->code) {
      case OP_for: changed |= visit_for(f, op); break;
      case OP_while: changed |= visit_while(f, op); break;
      case OP_if:
        for (int i = 0; i < 2; i++) {
          changed |= visit(f, op->regions[i]);
          for (int j = 0; j < op->n_out; j++) changed |= flow(f, op->out[j], tir_in(op->regions[i]->last, j));
        }
        break;
      case OP_reduce: {
        for (int i = 0; i < op->regions[0]->n_args; i++)
          changed |= put(f, op->regions[0]->args[i], pessimistic(op->regions[0]->args[i]->type));
        changed |= visit(f, op->regions[0]);
        for (int i = 0; i < op->n_out; i++) changed |= put(f, op->out[i], pessimistic(op->out[i]->type));
        break;
      }
      default:
        if (op->n_out == 1) {
          changed |= put(f, op->out[0], transfer(f, op));
        } else {
          for (int i = 0; i < op->n_out; i++) changed |= put(f, op->out[i], pessimistic(op->out[i]->type));
        }
    }
  }
  return changed;
}

static void assume_bound(axis_facts *f, const tir_value *v, int64_t div, int64_t lo, int64_t hi) {
  if (v->id >= f->n) return;
  struct assumed *as = &f->assumed[v->id];
  if (!as->div) *as = (struct assumed){1, INT64_MIN, INT64_MAX};
  as->div = max64(as->div, div);
  as->lo = max64(as->lo, lo);
  as->hi = min64(as->hi, hi);
}

/* x % c == 0, and comparisons of x with a constant, joined by `and`. */
static void assume(axis_facts *f, const tir_value *c) {
  const tir_op *op = c->def;
  if (!op || op->n_in != 2) return;
  if (op->code == OP_and) {
    assume(f, tir_in(op, 0));
    assume(f, tir_in(op, 1));
    return;
  }
  const tir_value *x = tir_in(op, 0), *y = tir_in(op, 1);
  tir_opcode code = op->code;
  int64_t n;
  if (!tracked(x->type) || tir_is_ptr(x->type) || tir_dtype_of(x->type) == DT_u64) return;
  if (tir_known_int(x, &n)) {
    x = y;
    code = code == OP_lt ? OP_gt : code == OP_le ? OP_ge : code == OP_gt ? OP_lt : code == OP_ge ? OP_le : code;
  } else if (!tir_known_int(y, &n)) {
    return;
  }
  switch (code) {
    case OP_eq:
      assume_bound(f, x, pow2_of(n), n, n);
      if (n == 0 && x->def && x->def->code == OP_rem && tir_known_int(tir_in(x->def, 1), &n) && n != 0)
        assume_bound(f, tir_in(x->def, 0), pow2_of(n), INT64_MIN, INT64_MAX);
      break;
    case OP_gt: assume_bound(f, x, 1, n == INT64_MAX ? n : n + 1, INT64_MAX); break;
    case OP_ge: assume_bound(f, x, 1, n, INT64_MAX); break;
    case OP_lt: assume_bound(f, x, 1, INT64_MIN, n == INT64_MIN ? n : n - 1); break;
    case OP_le: assume_bound(f, x, 1, INT64_MIN, n); break;
    default: break;
  }
}

axis_facts *axis_analyse(tir_fn *fn, arena *a) {
  axis_facts *f = ARENA_NEW(a, axis_facts);
  f->fn = fn;
  f->a = a;
  f->n = fn->n_values;
  f->at = ARENA_ARRAY(a, axis_info, f->n ? f->n : 1);
  f->assumed = ARENA_ARRAY(a, struct assumed, f->n ? f->n : 1);
  for (const tir_op *op = fn->body->first; op; op = op->next)
    if (op->code == OP_assume) assume(f, tir_in(op, 0));
  for (int i = 0; i < fn->n_params; i++) {
    const tir_param *p = &fn->params[i];
    axis_info x = pessimistic(p->value->type);
    if (p->divisibility > 1) x.divisibility[0] = pow2_of(p->divisibility);
    if (p->positive) x.lo = 1, x.nonneg = true;
    put(f, p->value, x);
  }
  visit(f, fn->body);
  return f;
}

axis_info axis_of(const axis_facts *f, const tir_value *v) {
  axis_info x = get(f, v);
  return x.visited ? x : pessimistic(v->type);
}

int axis_vector(const axis_facts *f, const tir_value *pointer, const tir_value *mask, int axis) {
  axis_info p = axis_of(f, pointer);
  int64_t bytes = pointee_bytes(pointer->type);
  int64_t n = min3(p.contiguity[axis], max64(1, p.divisibility[axis] / bytes), 16 / bytes);
  n = min64(n, extent(pointer->type, axis));
  if (mask) n = min64(n, axis_of(f, mask).constancy[axis]);
  return (int)max64(n, 1);
}

void axis_order(const axis_facts *f, const tir_value *pointer, int *order) {
  axis_info p = axis_of(f, pointer);
  int n = 0;
  for (int axis = p.rank - 1; axis >= 0; axis--) {
    int at = n++;
    for (; at > 0 && p.contiguity[order[at - 1]] < p.contiguity[axis]; at--) order[at] = order[at - 1];
    order[at] = axis;
  }
}

bool axis_no_wrap(const axis_facts *f, const tir_op *op) {
  if (op->code != OP_add && op->code != OP_sub && op->code != OP_mul) return false;
  const tir_type *t = op->out[0]->type;
  if (tir_is_ptr(t) || !dt_is_int(tir_dtype_of(t))) return false;
  axis_info a = axis_of(f, tir_in(op, 0)), b = axis_of(f, tir_in(op, 1));
  int64_t lo, hi, top = INT64_MAX >> (64 - tir_dtypes[tir_dtype_of(t)].bits);
  /* Unsigned operands above the signed maximum would be read as negative. */
  if (!dt_is_signed(tir_dtype_of(t)) && (a.lo < 0 || a.hi > top || b.lo < 0 || b.hi > top)) return false;
  if (exact_range(op->code, &a, &b, tir_dtype_of(t), &lo, &hi)) return lo >= -top - 1 && hi <= top;
  return op->code == OP_add && dt_is_signed(tir_dtype_of(t)) && (aligned_sum(&a, &b) || aligned_sum(&b, &a));
}
