/* Lints: what is legal and bites in practice. Given only when asked for, by name or with "all".
 *
 * One forward pass over the finished function collects facts about values (does it depend on program_id, may it hold
 * lanes that were never loaded, is it a 32-bit product of run-time values), as bits that only grow; it is repeated
 * until nothing changes, because loops carry values around. Then every op that a lint is about is looked at once. The
 * facts err on the silent side: whatever comes from memory depends on everything its address does, and a `where` is
 * taken to guard the lanes that it chooses. */
#include "lang/sema.h"

#include <string.h>

#define DIAG(id, severity, format) static const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "lang/lint_diags.def"
#undef DIAG

enum { PROGRAM = 1, UNDEFINED = 2, RUNTIME = 4, PRODUCT = 8 };

typedef struct lint {
  uint8_t *bits; /* by value id */
  bool changed, uses_program_id;
} lint;

static int bits_of(const lint *l, const tir_value *v) { return l->bits[v->id]; }

static void grow(lint *l, const tir_value *v, int bits) {
  if ((l->bits[v->id] | bits) == l->bits[v->id]) return;
  l->bits[v->id] |= (uint8_t)bits;
  l->changed = true;
}

static int union_of(const lint *l, const tir_op *op) {
  int bits = 0;
  for (int i = 0; i < op->n_in; i++) bits |= bits_of(l, tir_in(op, i));
  return bits;
}

/* Values that a region's end hands to the op's results, and for loops to the next round. */
static void through_regions(lint *l, const tir_op *op) {
  bool loop = op->code != OP_if;
  int first_in = op->code == OP_for ? 3 : op->code == OP_if ? 1 : 0, control = 0;
  for (int i = 0; i < first_in; i++) control |= bits_of(l, tir_in(op, i)) & PROGRAM;
  for (int r = 0; r < op->n_regions; r++) {
    const tir_region *g = op->regions[r];
    int first_arg = op->code == OP_for ? 1 : 0, t0 = g->last && g->last->code == OP_condition ? 1 : 0;
    if (op->code == OP_for) grow(l, g->args[0], union_of(l, op) & (PROGRAM | RUNTIME));
    for (int i = 0; i < op->n_out; i++) {
      const tir_value *end = g->last ? tir_in(g->last, t0 + i) : NULL;
      int bits = (end ? bits_of(l, end) : 0) | control;
      if (loop) bits |= bits_of(l, tir_in(op, first_in + i));
      grow(l, op->out[i], bits);
      for (int k = 0; loop && k < op->n_regions; k++) grow(l, op->regions[k]->args[first_arg + i], bits);
    }
  }
}

static void transfer(lint *l, const tir_op *op) {
  int bits = union_of(l, op);
  switch (op->code) {
    case OP_for:
    case OP_while:
    case OP_if: through_regions(l, op); return;
    case OP_program_id:
      l->uses_program_id = true;
      bits = PROGRAM | RUNTIME;
      break;
    case OP_num_programs: bits = RUNTIME; break;
    case OP_load: {
      int64_t mask;
      bits = (bits & PROGRAM) | RUNTIME;
      if (op->n_in == 2 && !(tir_known_int(tir_in(op, 1), &mask) && mask)) bits |= UNDEFINED;
      break;
    }
    case OP_atomic_rmw: bits = PROGRAM | RUNTIME; break;
    case OP_select: bits &= ~UNDEFINED; break;
    case OP_reduce: bits &= ~UNDEFINED; break;
    case OP_mul: {
      tir_dtype d = tir_dtype_of(op->out[0]->type);
      bool both = (bits_of(l, tir_in(op, 0)) & RUNTIME) && (bits_of(l, tir_in(op, 1)) & RUNTIME);
      if (both && (d == DT_i32 || d == DT_u32)) bits |= PRODUCT;
      break;
    }
    default: break;
  }
  for (int i = 0; i < op->n_out; i++) grow(l, op->out[i], bits);
}

/* Whether an enclosing condition depends on program_id. */
static bool is_guarded(const lint *l, const tir_op *op) {
  for (const tir_op *o = op->parent->owner; o; o = o->parent->owner)
    if (o->code == OP_if && (bits_of(l, tir_in(o, 0)) & PROGRAM)) return true;
  return false;
}

static void look(const lint *l, const tir_op *op, diag_sink *sink, const bool *on) {
  enum { INT32_OFFSET, SHARED_STORE, UNDEFINED_LANES };
  if (on[INT32_OFFSET] && op->code == OP_addptr && tir_dtypes[tir_dtype_of(tir_in(op, 1)->type)].bits == 32 &&
      (bits_of(l, tir_in(op, 1)) & PRODUCT))
    diag_add(sink, op->at, &D_int32_offset);
  if (on[SHARED_STORE] && op->code == OP_store && l->uses_program_id && !(bits_of(l, tir_in(op, 0)) & PROGRAM) &&
      !(op->n_in == 3 && (bits_of(l, tir_in(op, 2)) & PROGRAM)) && !is_guarded(l, op))
    diag_add(sink, op->at, &D_shared_store);
  if (on[UNDEFINED_LANES] && op->code == OP_reduce && (union_of(l, op) & UNDEFINED)) {
    diag *d = diag_add(sink, op->at, &D_undefined_lanes);
    diag_fix(d, op->at, "give the load an `other` that does not change the result, or choose with where(mask, x, ..)");
  }
}

void sema_lint(const tir_fn *fn, diag_sink *sink, arena *a, const char *const *names, int n_names) {
  static const char *const ids[] = {
#define DIAG(id, severity, format) #id,
#include "lang/lint_diags.def"
#undef DIAG
  };
  enum { N = sizeof ids / sizeof *ids };
  bool on[N] = {false}, any = false;
  for (int i = 0; i < n_names; i++)
    for (int k = 0; k < N; k++) {
      bool same = strlen(names[i]) == strlen(ids[k]);
      for (size_t c = 0; same && ids[k][c]; c++)
        same = names[i][c] == ids[k][c] || (names[i][c] == '-' && ids[k][c] == '_');
      if (same || strcmp(names[i], "all") == 0) on[k] = any = true;
    }
  if (!any) return;
  lint l = {.bits = ARENA_ARRAY(a, uint8_t, fn->n_values ? fn->n_values : 1)};
  for (int i = 0; i < fn->n_params; i++) l.bits[fn->params[i].value->id] = RUNTIME;
  do {
    l.changed = false;
    for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) transfer(&l, op);
  } while (l.changed);
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) look(&l, op, sink, on);
}
