/* Which registers of a tile differ from its first register by a constant.
 *
 * The offsets of a tile that moves through memory in order are one value of the thread plus constants known from the
 * layout. Said in that form, all accesses of the tile share one 64-bit address and differ in the immediate, a loop
 * carries one pointer instead of one per register, and LLVM has nothing to find out. Leaving it to LLVM's
 * separate-const-offset-from-gep costs more time than emission and still makes two bases of one tile.
 *
 * value[r] = value[0] + delta[r] holds for integers as signed numbers that do not wrap (so only ops marked nowrap, or
 * modulo 2^64 in 64 bits) and for pointers in bytes. Loops start from the assumption that a carried value keeps the
 * deltas of its initial value and drop it for those whose next value does not have them. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

typedef struct walker {
  arena *a;
  const int64_t **delta; /* by value id */
} walker;

static const int64_t *get(const walker *w, const tir_value *v) {
  static const int64_t zero = 0;
  return tir_is_tile(v->type) ? w->delta[v->id] : &zero;
}

static int64_t *fresh(const walker *w, const tir_value *v) { return ARENA_ARRAY(w->a, int64_t, ll_regs(v->type)); }

static bool same(const int64_t *x, const int64_t *y, int n) {
  return x && y && memcmp(x, y, sizeof *x * (size_t)n) == 0;
}

static void of_arange(const walker *w, const tir_value *out) {
  lay_index at = lay_index_of(w->a, out->type->layout, 0);
  int64_t *d = fresh(w, out);
  for (int r = 0; r < ll_regs(out->type); r++) {
    if (at.reg[r] & at.terms.bits) return;
    d[r] = (int64_t)at.reg[r] - (int64_t)at.reg[0];
  }
  w->delta[out->id] = d;
}

static void of_renaming(const walker *w, const tir_op *op) {
  const tir_value *in = tir_in(op, 0), *out = tir_out(op, 0);
  const int64_t *from = get(w, in);
  if (!from) return;
  const uint16_t *map = tir_is_tile(in->type) ? ll_renaming(w->a, op) : NULL;
  int64_t *d = fresh(w, out);
  for (int r = 0; r < ll_regs(out->type); r++) d[r] = map ? from[map[r]] - from[map[0]] : 0;
  w->delta[out->id] = d;
}

static void of_arithmetic(const walker *w, const tir_op *op) {
  const tir_value *out = tir_out(op, 0);
  const int64_t *x = get(w, tir_in(op, 0)), *y = get(w, tir_in(op, 1));
  tir_dtype t = tir_dtype_of(out->type);
  bool exact = tir_dtypes[t].bits == 64 || (dt_is_signed(t) && tir_attr_int(op, ATTR_nowrap, 0));
  if (!x || !y || dt_is_float(t) || !exact) return;
  int64_t by = 0;
  int factor = op->code != OP_mul                  ? -1
               : tir_known_int(tir_in(op, 1), &by) ? 0
               : tir_known_int(tir_in(op, 0), &by) ? 1
                                                   : 2;
  int64_t *d = fresh(w, out);
  for (int r = 0; r < ll_regs(out->type); r++) {
    if (factor == 2 && (x[r] || y[r])) return;
    uint64_t a = (uint64_t)x[r], b = (uint64_t)y[r];
    d[r] = (int64_t)(op->code == OP_add ? a + b : op->code == OP_sub ? a - b : (factor == 0 ? a : b) * (uint64_t)by);
  }
  w->delta[out->id] = d;
}

static void of_addptr(const walker *w, const tir_op *op) {
  const tir_value *out = tir_out(op, 0), *off = tir_in(op, 1);
  const int64_t *x = get(w, tir_in(op, 0)), *y = get(w, off);
  tir_dtype t = tir_dtype_of(off->type);
  if (!x || !y || (tir_dtypes[t].bits != 64 && !dt_is_signed(t))) return;
  int64_t *d = fresh(w, out), bytes = ll_elem_bytes(tir_elem(out->type)->elem);
  for (int r = 0; r < ll_regs(out->type); r++) d[r] = (int64_t)((uint64_t)x[r] + (uint64_t)y[r] * (uint64_t)bytes);
  w->delta[out->id] = d;
}

static bool widens(const tir_op *op) {
  const tir_type *from = tir_in(op, 0)->type, *to = tir_out(op, 0)->type;
  if (tir_is_ptr(from) || tir_is_ptr(to)) return false;
  return dt_is_signed(tir_dtype_of(from)) && dt_is_int(tir_dtype_of(to)) && ll_elem_bytes(from) < 8 &&
         ll_elem_bytes(to) == 8;
}

static void walk(const walker *w, const tir_region *r);

static void of_for(const walker *w, const tir_op *op) {
  const tir_region *body = op->regions[0];
  for (int i = 0; i < op->n_out; i++) w->delta[body->args[i + 1]->id] = get(w, tir_in(op, i + 3));
  for (bool changed = true; changed;) {
    walk(w, body);
    changed = false;
    for (int i = 0; i < op->n_out; i++) {
      const tir_value *arg = body->args[i + 1], *next = tir_in(body->last, i);
      if (!tir_is_tile(arg->type) || !w->delta[arg->id] || same(w->delta[arg->id], get(w, next), ll_regs(arg->type)))
        continue;
      w->delta[arg->id] = NULL;
      changed = true;
    }
  }
  for (int i = 0; i < op->n_out; i++) w->delta[tir_out(op, i)->id] = w->delta[body->args[i + 1]->id];
}

static void of_if(const walker *w, const tir_op *op) {
  walk(w, op->regions[0]);
  walk(w, op->regions[1]);
  for (int i = 0; i < op->n_out; i++) {
    const tir_value *out = tir_out(op, i);
    const int64_t *x = get(w, tir_in(op->regions[0]->last, i)), *y = get(w, tir_in(op->regions[1]->last, i));
    w->delta[out->id] = tir_is_tile(out->type) && same(x, y, ll_regs(out->type)) ? x : NULL;
  }
}

static void of_op(const walker *w, const tir_op *op) {
  for (int i = 0; i < op->n_out; i++) w->delta[tir_out(op, i)->id] = NULL;
  switch (op->code) {
    case OP_for: of_for(w, op); return;
    case OP_if: of_if(w, op); return;
    case OP_while:
      walk(w, op->regions[0]);
      walk(w, op->regions[1]);
      return;
    default: break;
  }
  if (op->n_out != 1 || !tir_is_tile(tir_out(op, 0)->type)) return;
  switch (op->code) {
    case OP_arange: of_arange(w, tir_out(op, 0)); return;
    case OP_const:
    case OP_splat: w->delta[tir_out(op, 0)->id] = fresh(w, tir_out(op, 0)); return;
    case OP_expand_dims:
    case OP_broadcast:
    case OP_reshape:
    case OP_trans: of_renaming(w, op); return;
    case OP_add:
    case OP_sub:
    case OP_mul: of_arithmetic(w, op); return;
    case OP_addptr: of_addptr(w, op); return;
    case OP_cast:
      if (widens(op)) w->delta[tir_out(op, 0)->id] = get(w, tir_in(op, 0));
      return;
    case OP_hint: w->delta[tir_out(op, 0)->id] = get(w, tir_in(op, 0)); return;
    default: return;
  }
}

static void walk(const walker *w, const tir_region *r) {
  for (const tir_op *op = r->first; op; op = op->next) of_op(w, op);
}

const int64_t **ll_deltas(arena *a, const tir_fn *fn) {
  walker w = {a, ARENA_ARRAY(a, const int64_t *, fn->n_values + 1)};
  walk(&w, fn->body);
  return w.delta;
}

bool ll_derive(ll *e, const tir_value *v, ll_v *regs) {
  const int64_t *d = tir_is_tile(v->type) ? e->delta[v->id] : NULL;
  if (!d) return false;
  bool pointer = tir_is_ptr(v->type);
  for (int r = 1; r < ll_regs(v->type); r++) {
    if (!d[r]) {
      regs[r] = regs[0];
    } else if (pointer) {
      ll_v by = ll_int(e->i64, (uint64_t)d[r]);
      regs[r] = LLVMBuildGEP2(e->b, e->i8, regs[0], &by, 1, "");
    } else {
      LLVMTypeRef t = LLVMTypeOf(regs[0]);
      regs[r] = LLVMBuildAdd(e->b, regs[0], LLVMConstInt(t, (uint64_t)d[r], true), "");
      if (t != e->i64 && LLVMIsAInstruction(regs[r])) LLVMSetNSW(regs[r], true);
    }
  }
  return true;
}
