/* axis_why: what keeps an access narrow, in words.
 *
 * The width of an access is the least of four facts: the run of adjacent elements, the alignment where runs begin, the
 * stretch over which the mask does not change, and what a thread holds. For each that is too small the search goes back
 * from the pointer (or mask) through the ops that still lack the fact, to where it was lost: an argument about which
 * too little is known, an index that comes from memory, a step that is not 1. It blames places, not arguments that
 * happen to occur: in `rows * stride` the stride is what aligns the rows, so `rows` is not searched for alignment at
 * all. */
#include "compiler/analysis/analysis.h"

#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct search {
  const axis_facts *facts;
  arena *a;
  VEC(const char *) reasons;
  VEC(const tir_value *) seen;
  VEC(const char *) strides; /* arguments that should be 1: their alignment does not matter */
} search;

static void reason(search *s, const char *text) {
  for (int i = 0; i < s->reasons.n; i++)
    if (!strcmp(s->reasons.at[i], text)) return;
  VEC_PUSH(s->a, s->reasons, text);
}

static bool met_before(search *s, const tir_value *v) {
  for (int i = 0; i < s->seen.n; i++)
    if (s->seen.at[i] == v) return true;
  VEC_PUSH(s->a, s->seen, v);
  return false;
}

/* A parameter of the kernel; NULL for all other values. */
static const tir_param *param_of(const tir_value *v) {
  if (v->def || v->region->owner) return NULL;
  const tir_fn *fn = v->region->fn;
  for (int i = 0; i < fn->n_params; i++)
    if (fn->params[i].value == v) return &fn->params[i];
  return NULL;
}

static const char *param_name(const tir_value *v) {
  const tir_param *p = param_of(v);
  return p ? p->name : NULL;
}

static int64_t step_bytes(const tir_type *pointer) {
  const tir_type *p = tir_elem(pointer)->elem;
  return p->kind == TY_PTR ? 8 : tir_dtypes[p->dtype].bytes;
}

/* Whether all elements of the tile are one value. */
static bool uniform(const search *s, const tir_value *v) {
  axis_info x = axis_of(s->facts, v);
  for (int i = 0; tir_is_tile(v->type) && i < x.rank; i++)
    if (x.constancy[i] < v->type->shape[i]) return false;
  return true;
}

/* The axis of operand 0 that the op's axis comes from; -1: it comes from none (all elements along it are equal). */
static int axis_before(const tir_op *op, int axis) {
  switch (op->code) {
    case OP_expand_dims: {
      int at = (int)tir_attr_int(op, ATTR_axis, 0);
      return axis == at ? -1 : axis < at ? axis : axis - 1;
    }
    case OP_splat: return -1;
    case OP_trans: return (int)tir_attr_of(op, ATTR_perm)->ints[axis];
    default: return axis;
  }
}

static bool keeps_elements(const tir_op *op) {
  switch (op->code) {
    case OP_expand_dims:
    case OP_broadcast:
    case OP_splat:
    case OP_unsplat:
    case OP_trans:
    case OP_hint:
    case OP_cast:
    case OP_convert_layout: return true;
    default: return false;
  }
}

/* The values that v may be, where control flow decides; calls `visit` on each. False if v is no such value. */
typedef void visitor(search *s, const tir_value *v, int axis, int64_t need, int depth);

static bool through_control_flow(search *s, const tir_value *v, int axis, int64_t need, int depth, visitor *visit) {
  const tir_op *op = v->def ? v->def : v->region->owner;
  if (!op) return false;
  int skip = op->code == OP_for ? 3 : 0;
  if (v->def && op->code == OP_if) {
    for (int i = 0; i < 2; i++) visit(s, tir_in(op->regions[i]->last, v->index), axis, need, depth);
    return true;
  }
  if (op->code != OP_for && op->code != OP_while) return false;
  int at = v->def ? v->index : v->index - (op->code == OP_for);
  if (at < 0) return false; /* the loop's index */
  const tir_op *last = op->regions[op->n_regions - 1]->last;
  visit(s, tir_in(op, at + skip), axis, need, depth);
  visit(s, tir_in(last, at), axis, need, depth);
  return true;
}

/* ---- alignment: v should be a multiple of `need` (pointers: bytes) where blocks along the axis begin ---- */

static void find_misaligned(search *s, const tir_value *v, int axis, int64_t need, int depth) {
  axis_info x = axis_of(s->facts, v);
  if (axis < 0 || axis >= x.rank) axis = 0;
  if (need <= 1 || depth > MAX_DEPTH || x.divisibility[axis] >= need || met_before(s, v)) return;
  const tir_param *param = param_of(v);
  if (param) {
    for (int i = 0; i < s->strides.n; i++)
      if (s->strides.at[i] == param->name) return;
    const char *remedy = param->positive ? "; of a descriptor's last extent :16 behind its type says so" : "";
    reason(s, tir_is_ptr(v->type)
                  ? arena_printf(s->a, "%s is not known to be aligned to %lld bytes", param->name, (long long)need)
                  : arena_printf(s->a, "%s is not known to be a multiple of %lld%s", param->name, (long long)need,
                                 remedy));
    return;
  }
  if (through_control_flow(s, v, axis, need, depth + 1, find_misaligned)) return;
  const tir_op *op = v->def;
  if (!op) { /* a loop's index: its start and step */
    const tir_op *loop = v->region->owner;
    if (loop && loop->code == OP_for) {
      find_misaligned(s, tir_in(loop, 0), 0, need, depth + 1);
      find_misaligned(s, tir_in(loop, 2), 0, need, depth + 1);
    }
    return;
  }
  if (keeps_elements(op)) {
    find_misaligned(s, tir_in(op, 0), axis_before(op, axis), need, depth + 1);
    return;
  }
  switch (op->code) {
    case OP_addptr:
      find_misaligned(s, tir_in(op, 0), axis, need, depth + 1);
      find_misaligned(s, tir_in(op, 1), axis, need / step_bytes(v->type), depth + 1);
      return;
    case OP_mul:
      for (int i = 0; i < 2; i++) {
        int64_t k;
        if (tir_known_int(tir_in(op, i), &k)) {
          int64_t pow2 = k ? k & -k : need;
          find_misaligned(s, tir_in(op, 1 - i), axis, need / pow2, depth + 1);
          return;
        }
      }
      for (int i = 0; i < 2; i++)
        if (uniform(s, tir_in(op, i)) || !uniform(s, tir_in(op, 1 - i)))
          find_misaligned(s, tir_in(op, i), axis, need, depth + 1);
      return;
    case OP_load: reason(s, "an offset is loaded from memory"); return;
    case OP_arange:
    case OP_program_id:
    case OP_num_programs:
    case OP_const: return;
    default:
      for (int i = 0; i < op->n_in; i++)
        if (!dt_is_float(tir_dtype_of(tir_in(op, i)->type))) find_misaligned(s, tir_in(op, i), axis, need, depth + 1);
  }
}

/* ---- runs: along the axis blocks of `need` elements should be adjacent, or all equal ---- */

static bool runs(const search *s, const tir_value *v, int axis, int64_t need) {
  axis_info x = axis_of(s->facts, v);
  return axis < 0 || axis >= x.rank || x.contiguity[axis] >= need || x.constancy[axis] >= need;
}

/* A factor that should be 1. */
static void blame_stride(search *s, const tir_value *v) {
  while (v->def && keeps_elements(v->def)) v = tir_in(v->def, 0);
  const char *name = param_name(v);
  int64_t k;
  if (tir_known_int(v, &k))
    reason(s, arena_printf(s->a, "neighbours are %lld elements apart", (long long)k));
  else if (name) {
    VEC_PUSH(s->a, s->strides, name);
    reason(s, arena_printf(s->a, "%s is not known to be 1", name));
  } else
    reason(s, "the stride is computed at run time");
}

static void find_broken_run(search *s, const tir_value *v, int axis, int64_t need, int depth) {
  if (depth > MAX_DEPTH || runs(s, v, axis, need) || met_before(s, v)) return;
  if (through_control_flow(s, v, axis, need, depth + 1, find_broken_run)) return;
  const tir_op *op = v->def;
  if (!op) return;
  if (keeps_elements(op)) {
    find_broken_run(s, tir_in(op, 0), axis_before(op, axis), need, depth + 1);
    return;
  }
  switch (op->code) {
    case OP_mul:
      for (int i = 0; i < 2; i++)
        if (axis_of(s->facts, tir_in(op, i)).constancy[axis] >= need) {
          find_broken_run(s, tir_in(op, 1 - i), axis, need, depth + 1);
          blame_stride(s, tir_in(op, i));
          return;
        }
      reason(s, "the offsets are a product of two indices");
      return;
    case OP_rem:
    case OP_div:
      find_broken_run(s, tir_in(op, 0), axis, need, depth + 1);
      if (runs(s, tir_in(op, 0), axis, need) && !axis_of(s->facts, tir_in(op, 0)).nonneg)
        reason(s, "what is divided may be negative: tl.assume says that it is not");
      find_misaligned(s, tir_in(op, 1), axis, need, depth + 1);
      find_misaligned(s, tir_in(op, 0), axis, need, depth + 1);
      return;
    case OP_load: reason(s, "an offset is loaded from memory"); return;
    case OP_add:
    case OP_sub:
    case OP_addptr: {
      bool broken = false;
      for (int i = 0; i < op->n_in; i++) {
        broken = broken || !runs(s, tir_in(op, i), axis, need);
        find_broken_run(s, tir_in(op, i), axis, need, depth + 1);
      }
      if (!broken) reason(s, "the offsets do not grow by one along any axis");
      return;
    }
    default: reason(s, arena_printf(s->a, "the offsets go through `%s`", tir_ops[op->code].name));
  }
}

/* ---- masks: along the axis blocks of `need` elements should be all on or all off ---- */

static void find_changing_mask(search *s, const tir_value *v, int axis, int64_t need, int depth) {
  axis_info x = axis_of(s->facts, v);
  if (axis < 0 || axis >= x.rank || depth > MAX_DEPTH || x.constancy[axis] >= need || met_before(s, v)) return;
  if (through_control_flow(s, v, axis, need, depth + 1, find_changing_mask)) return;
  const tir_op *op = v->def;
  if (!op) return;
  if (keeps_elements(op)) {
    find_changing_mask(s, tir_in(op, 0), axis_before(op, axis), need, depth + 1);
    return;
  }
  switch (op->code) {
    case OP_and:
    case OP_or:
    case OP_xor:
      for (int i = 0; i < op->n_in; i++) find_changing_mask(s, tir_in(op, i), axis, need, depth + 1);
      return;
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge:
      for (int i = 0; i < op->n_in; i++) find_misaligned(s, tir_in(op, i), axis, need, depth + 1);
      for (int i = 0; i < op->n_in; i++) find_broken_run(s, tir_in(op, i), axis, need, depth + 1);
      return;
    case OP_load: reason(s, "the mask is loaded from memory"); return;
    default: reason(s, arena_printf(s->a, "the mask goes through `%s`", tir_ops[op->code].name));
  }
}

/* ---- the clause ---- */

static void say(search *s, textbuf *out, const char *what) {
  text_printf(out, "%s%s", out->n ? "; " : "", what);
  for (int i = 0; i < s->reasons.n; i++) text_printf(out, "%s%s", i ? ", " : " (", s->reasons.at[i]);
  if (s->reasons.n) text_char(out, ')');
  s->reasons.n = s->seen.n = 0;
}

const char *axis_vector_why(const axis_facts *f, const tir_value *pointer, const tir_value *mask, int axis, int held,
                            arena *a) {
  search s = {.facts = f, .a = a};
  axis_info p = axis_of(f, pointer);
  int64_t bytes = step_bytes(pointer->type), want = 16 / bytes;
  if (pointer->type->shape[axis] < want) want = pointer->type->shape[axis];
  textbuf out;
  text_init(&out, a);
  if (p.contiguity[axis] < want) {
    find_broken_run(&s, pointer, axis, want, 0);
    say(&s, &out,
        arena_printf(a, "the contiguous run is %lld element%s", (long long)p.contiguity[axis],
                     p.contiguity[axis] == 1 ? "" : "s"));
  }
  if (p.divisibility[axis] < want * bytes) {
    find_misaligned(&s, pointer, axis, want * bytes, 0);
    /* A run that is short for a reason of its own is aligned no better than it is long. */
    int64_t known = p.divisibility[axis] < bytes ? bytes : p.divisibility[axis]; /* an element is always aligned */
    if (s.reasons.n || !out.n)
      say(&s, &out, arena_printf(a, "the alignment is %lld byte%s", (long long)known, known == 1 ? "" : "s"));
  }
  int64_t same = mask ? axis_of(f, mask).constancy[axis] : want;
  if (same < want) {
    find_changing_mask(&s, mask, axis, want, 0);
    say(&s, &out,
        same == 1 ? "the mask may change with every element"
                  : arena_printf(a, "the mask may change every %lld elements", (long long)same));
  }
  if (!out.n && held < want) text_printf(&out, "a thread holds %d neighbouring element%s", held, held == 1 ? "" : "s");
  return out.n ? out.at : NULL;
}
