/* ahead: see ahead.h.
 *
 * Wanted are the loads of a loop's body that its dots multiply, as they are or after computations: what a dot's operand
 * is computed from is followed back to loads. Those that a dot reads from a buffer as they were loaded are copied to
 * where it reads them. All others (weights in 8 or 4 bits, tiles that are scaled, what is added to scores) go to
 * registers from the stages, in the layout of the load or in that of a dot's fragments, if computations in between can
 * as well be made there. In the former case they lie in shared memory as in those registers, one after the other: no
 * bank conflicts, whether written or read.
 *
 * In a loop whose stages the source states, all loads are wanted.
 *
 * Tiles too small for that, such as scales of groups of weights, are loaded to registers one iteration ahead.
 *
 * What computes the addresses of a load, its slice, must be pure and may use the induction variable and carried values
 * that the slice itself advances (pa += BK). It may also load, as the tables of paged attention want it: such an index
 * is loaded one iteration before the copies that it is for, by a slice of its own. */
#include "compiler/passes/ahead.h"

#include "compiler/analysis/affine.h"
#include "compiler/passes/dots.h"

#include <string.h>

static int pointee_bytes(const tir_type *pointer) {
  const tir_type *p = tir_elem(pointer)->elem;
  return p->kind == TY_PTR ? 8 : tir_dtypes[p->dtype].bytes;
}

int64_t ahead_bytes(const ahead_loop *l, const ahead *x) { return l->stages * tir_buffer_stage_bytes(x->one); }

/* ---- addresses ---- */

static bool in_slice(const ahead_slice *s, const tir_op *op) {
  for (int i = 0; i < s->ops.n; i++)
    if (s->ops.at[i] == op) return true;
  return false;
}

/* The name of the pointer through which a store in r may write what `load` reads; NULL if none does. Different pointer
   parameters are taken not to overlap. */
static const char *stored_through(const ahead_loop *l, const tir_region *r, const tir_op *load) {
  affine_cx cx = {.fn = l->fn, .a = l->a};
  const tir_value *from, *to;
  affine_address(&cx, tir_in(load, 0), &from);
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_regions; i++) {
      const char *name = stored_through(l, op->regions[i], load);
      if (name) return name;
    }
    if (op->code != OP_store) continue;
    affine_address(&cx, tir_in(op, 0), &to);
    if (!from || !to || from == to) return to && to->name ? to->name : "a computed pointer";
  }
  return NULL;
}

/* A load for addresses. */
static bool is_index(const ahead_loop *l, const tir_op *op) {
  return op->code == OP_load && !tir_attr_int(op, ATTR_is_volatile, 0) && !tir_is_ptr(op->out[0]->type) &&
         !stored_through(l, l->body, op);
}

/* Takes what v is computed from inside the loop into slice s, but for what is loaded for addresses: that goes to the
   indices. False if it cannot be computed ahead. */
static bool take(ahead_loop *l, ahead_slice *s, tir_value *v) {
  tir_op *op = v->def;
  if (!op) {
    if (v->region != l->body || v->index == 0) return v->region == l->body || !tir_region_contains(l->body, v->region);
    if (s->carried[v->index - 1]) return true;
    s->carried[v->index - 1] = true;
    return take(l, s, tir_in(l->body->last, v->index - 1));
  }
  if (!tir_region_contains(l->body, op->parent) || in_slice(s, op)) return true;
  if (op->parent != l->body || op->n_regions || (tir_ops[op->code].effect != FX_PURE && !is_index(l, op))) return false;
  if (is_index(l, op) && s == &l->addresses) {
    for (int i = 0; i < l->index.n; i++)
      if (l->index.at[i] == v) return true;
    VEC_PUSH(l->a, l->index, v);
    return take(l, &l->indices, v);
  }
  VEC_PUSH(l->a, s->ops, op);
  for (int i = 0; i < op->n_in; i++)
    if (!take(l, s, tir_in(op, i))) return false;
  return true;
}

enum { SLICES = 3 };
typedef struct mark { /* how much has been taken */
  int ops[SLICES], index;
  bool *carried[SLICES];
} mark;

static ahead_slice *slice_at(ahead_loop *l, int i) { return i == 0 ? &l->addresses : i == 1 ? &l->indices : &l->early; }

static size_t carried_bytes(const ahead_loop *l) { return sizeof(bool) * (size_t)(l->n_carried + 1); }

static mark mark_of(ahead_loop *l) {
  mark m = {.index = l->index.n};
  for (int i = 0; i < SLICES; i++) {
    m.ops[i] = slice_at(l, i)->ops.n;
    m.carried[i] = arena_copy(l->a, slice_at(l, i)->carried, carried_bytes(l));
  }
  return m;
}

static void back_to(ahead_loop *l, const mark *m) {
  l->index.n = m->index;
  for (int i = 0; i < SLICES; i++) {
    slice_at(l, i)->ops.n = m->ops[i];
    memcpy(slice_at(l, i)->carried, m->carried[i], carried_bytes(l));
  }
}

/* Takes address and mask of a load; if that cannot be, nothing. */
static bool take_address(ahead_loop *l, const tir_op *load) {
  mark before = mark_of(l);
  for (int i = 0; i < load->n_in && i < 2; i++)
    if (!take(l, &l->addresses, tir_in(load, i))) {
      back_to(l, &before);
      return false;
    }
  return true;
}

/* Takes a small load itself, with all that it is computed from; if that cannot be, nothing. */
static bool take_small(ahead_loop *l, tir_op *load) {
  mark before = mark_of(l);
  if (is_index(l, load) && take(l, &l->early, load->out[0])) return true;
  back_to(l, &before);
  return false;
}

/* Program order, for a slice that was found from its uses. */
static void order(const ahead_loop *l, ahead_slice *s) {
  VEC(tir_op *) sorted = {0};
  for (tir_op *op = l->body->first; op; op = op->next)
    if (in_slice(s, op)) VEC_PUSH(l->a, sorted, op);
  if (sorted.n) memcpy(s->ops.at, sorted.at, sizeof(tir_op *) * (size_t)sorted.n);
}

/* ---- what can be copied ahead ---- */

bool ahead_is_zero(const tir_value *v) {
  tir_scalar s;
  return tir_known_scalar(v, &s) && s.bits == 0;
}

/* Whether r writes memory; with stores that are told apart from what is loaded, whether in other ways. */
static bool writes_memory(const tir_region *r, bool but_stores) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if ((tir_ops[op->code].effect == FX_WRITE && !(but_stores && op->code == OP_store)) ||
        tir_ops[op->code].effect == FX_RMW || op->code == OP_debug_barrier)
      return true;
    for (int i = 0; i < op->n_regions; i++)
      if (writes_memory(op->regions[i], but_stores)) return true;
  }
  return false;
}

/* Why nothing of the loop can be copied ahead; NULL if something can. */
static const char *loop_refused(const ahead_loop *l) {
  if (l->stages < 2) return "num_stages is 1";
  if (writes_memory(l->body, l->marked)) return "the loop writes memory";
  return l->cx->arch->has_cp_async ? NULL : "the target has no asynchronous copies";
}

static const char *load_refused(ahead_loop *l, const tir_op *load) {
  enum { SMALLEST_COPY = 4 };
  if (tir_attr_int(load, ATTR_is_volatile, 0)) return "the load is volatile";
  const char *stored = stored_through(l, l->body, load);
  if (stored) return arena_printf(l->a, "the loop stores through %s", stored);
  if (tir_attr_int(load, ATTR_vec, 1) * pointee_bytes(tir_in(load, 0)->type) < SMALLEST_COPY)
    return "its elements are not known to be contiguous and aligned over 4 bytes: state the divisibility of pointer "
           "and strides";
  return take_address(l, load) ? NULL : "its address depends on what the loop loads or decides";
}

/* Why the tile that `store` puts into a buffer cannot be copied there ahead. */
static const char *operand_refused(ahead_loop *l, const tir_op *store) {
  const tir_op *load = tir_in(store, 0)->def, *alloc = tir_in(store, 1)->def;
  if (!load || load->code != OP_load || load->parent != l->body) return "it is computed, not loaded";
  if (!alloc || alloc->code != OP_alloc || alloc->parent != l->body)
    return "its buffer lives longer than the iteration";
  for (const tir_use *u = load->out[0]->uses; u; u = u->next)
    if (u->op != store && u->op->code == OP_buffer_store) return "it goes to several buffers";
  if (load->n_in == 3 && !ahead_is_zero(tir_in(load, 2))) return "its `other` is not zero";
  return load_refused(l, load);
}

/* ---- layouts of tiles that go to registers ---- */

static bool is_between(const ahead *x, const tir_value *v) {
  if (v == x->load->out[0]) return true;
  for (int i = 0; i < x->between.n; i++)
    if (x->between.at[i]->out[0] == v) return true;
  return false;
}

/* Whether all that comes of v by elementwise ops is converted, by one op. */
static bool find_between(const ahead_loop *l, ahead *x, const tir_value *v) {
  for (const tir_use *u = v->uses; u; u = u->next) {
    tir_op *op = u->op;
    if (op->parent != l->body) return false;
    if (op->code == OP_convert_layout && (!x->convert || x->convert == op)) {
      x->convert = op;
      continue;
    }
    if (!(tir_ops[op->code].flags & OPF_ELT) || op->n_out != 1) return false;
    if (is_between(x, op->out[0])) continue;
    VEC_PUSH(l->a, x->between, op);
    if (!find_between(l, x, op->out[0])) return false;
  }
  return true;
}

/* The same, and what else those ops use is one value everywhere. */
static bool leads_to_conversion(const ahead_loop *l, ahead *x) {
  if (!find_between(l, x, x->load->out[0]) || !x->convert) return false;
  for (int i = 0; i < x->between.n; i++)
    for (int k = 0; k < x->between.at[i]->n_in; k++) {
      const tir_value *v = tir_in(x->between.at[i], k);
      if (!is_between(x, v) && !tir_is_filled(v)) return false;
    }
  return true;
}

static int way_cost(const ahead_loop *l, const lay_t *layout, const sh_t *s, int bytes) {
  lay_way w = lay_way_of(l->fn->cx->layouts, l->a, layout, s, bytes, l->cx->arch->has_ldmatrix, true);
  return w.by_matrix ? w.matrix.n_groups + w.matrix.wavefronts : w.vectors.n_groups + w.vectors.wavefronts;
}

/* Lets the tile get its registers as a conversion further on wants them, where that is cheaper: the conversion is
   another round through shared memory, with barriers. The stages then have the swizzle of a dot's operand. */
static const sh_t *without_conversion(ahead_loop *l, ahead *x, const sh_t *straight, int axis, int vec) {
  lay_cx *lays = l->fn->cx->layouts;
  const tir_type *t = x->load->out[0]->type;
  bool other = x->load->n_in == 3 && !ahead_is_zero(tir_in(x->load, 2));
  if (other || !leads_to_conversion(l, x)) return NULL;
  const sh_t *swizzled = dot_shared_layout(l->fn->cx, t, axis);
  if (!swizzled) return NULL;
  const lay_t *from = t->layout, *to = x->convert->out[0]->type->layout;
  int bytes = tir_dtypes[tir_dtype_of(t)].bytes, more = lay_regs(to) - lay_regs(from);
  lay_access copies = lay_sh_access(lays, l->a, from, swizzled, bytes, 16);
  if (copies.vec < vec) return NULL;
  int converted = tir_dtypes[tir_dtype_of(x->convert->out[0]->type)].bytes;
  int with = 2 * way_cost(l, from, straight, bytes) + lay_convert_cost(lays, from, to, 8 * converted);
  int without = copies.n_groups + copies.wavefronts + way_cost(l, to, swizzled, bytes);
  if (without + (more > 0 ? more * x->between.n : 0) > with) return NULL;
  x->layout = to;
  return swizzled;
}

/* Why a tile cannot be copied ahead on its way to registers. */
static const char *small_tile = "its tile is small, and its address not known ahead";

static const char *registers_refused(ahead_loop *l, ahead *x) {
  enum { SMALLEST = 512 /* bytes of a tile: a barrier and an access of shared memory cost as much as it saves */ };
  const tir_type *t = x->load->out[0]->type;
  if (tir_is_ptr(t) || tir_dtype_of(t) == DT_i1) return "there are no buffers of its elements";
  int bytes = tir_dtypes[tir_dtype_of(t)].bytes;
  if (t->numel * bytes < SMALLEST) return small_tile;
  int axis = (int)tir_attr_int(x->load, ATTR_axis, 0), vec = (int)tir_attr_int(x->load, ATTR_vec, 1);
  while (vec * bytes > 16) vec /= 2;
  const sh_t *straight = lay_sh_straight(l->fn->cx->layouts, t->layout, axis, vec);
  const sh_t *swizzled = without_conversion(l, x, straight, axis, vec);
  x->one = tir_buffer_type(l->fn->cx, t->elem, t->rank, t->shape, swizzled ? swizzled : straight, 0);
  if (ahead_bytes(l, x) > l->most) return "there is no shared memory for its stages";
  return load_refused(l, x->load);
}

/* ---- what dots multiply ---- */

/* Marks the loads of the body that v is computed from, but for what other dots multiply; whether there are any. */
static bool mark_sources(const ahead_loop *l, uint8_t *seen, const tir_value *v) {
  enum { NONE = 1, SOME };
  const tir_op *op = v->def;
  bool carried = !op && v->region == l->body && v->index > 0;
  if (!carried && (!op || op->parent != l->body || op->code == OP_dot)) return false;
  if (seen[v->id]) return seen[v->id] == SOME;
  bool some = op && op->code == OP_load && tir_is_tile(v->type);
  seen[v->id] = NONE;
  if (carried) some = mark_sources(l, seen, tir_in(l->body->last, v->index - 1));
  for (int i = 0; op && tir_ops[op->code].effect == FX_PURE && i < op->n_in; i++)
    some |= mark_sources(l, seen, tir_in(op, i));
  if (some) seen[v->id] = SOME;
  return some;
}

static bool is_copied(const ahead_loop *l, const tir_op *load) {
  for (int i = 0; i < l->loads.n; i++)
    if (l->loads.at[i].load == load) return true;
  return false;
}

static void find_loads(ahead_loop *l) {
  const char *loop_why = loop_refused(l);
  uint8_t *seen = ARENA_ARRAY(l->a, uint8_t, l->fn->n_values);
  bool wgmma = false;
  for (tir_op *op = l->body->first; op; op = op->next) {
    bool product = op->code == OP_dot || op->code == OP_wgmma;
    wgmma |= op->code == OP_wgmma;
    for (int i = 0; product && i < 2; i++) mark_sources(l, seen, tir_in(op, i));
    if (op->code != OP_buffer_store) continue;
    const char *why = loop_why ? loop_why : operand_refused(l, op);
    const tir_value *v = tir_in(op, 0);
    if (!why)
      VEC_PUSH(l->a, l->loads,
               ((ahead){.load = v->def, .store = op, .alloc = tir_in(op, 1)->def, .layout = v->type->layout}));
    else if (!mark_sources(l, seen, v))
      pass_remark(l->cx, v->def ? v->def->at : op->at, "not pipelined: %s", why);
  }
  for (int i = 0; i < l->loads.n; i++) l->loads.at[i].one = l->loads.at[i].alloc->out[0]->type;
  l->wgmma = wgmma && l->loads.n > 0;
  for (tir_op *op = l->body->first; op; op = op->next) {
    if (op->code != OP_load || !tir_is_tile(op->out[0]->type) || is_copied(l, op)) continue;
    if (!l->marked && !seen[op->out[0]->id]) continue;
    ahead x = {.load = op, .layout = op->out[0]->type->layout};
    const char *why = loop_why ? loop_why : registers_refused(l, &x);
    if (!why)
      VEC_PUSH(l->a, l->loads, x);
    else if (why == small_tile && take_small(l, op))
      VEC_PUSH(l->a, l->small, op);
    else
      pass_remark(l->cx, op->at, "not pipelined: %s", why);
  }
}

/* Small loads whose places tiles say that are copied stay where they are: those tiles are elsewhere ahead. */
static void drop_small(ahead_loop *l) {
  for (int i = 0; i < l->early.ops.n; i++)
    if (is_copied(l, l->early.ops.at[i])) l->small.n = l->early.ops.n = 0;
}

/* Whether a load's tile has the same elements of memory several times, as packed weights that each of their rows is
   unpacked from. */
static bool repeats(const axis_facts *facts, const tir_op *load) {
  const tir_value *p = tir_in(load, 0);
  axis_info x = axis_of(facts, p);
  for (int i = 0; i < p->type->rank; i++)
    if (x.constancy[i] > 1) return true;
  return false;
}

bool ahead_find(ahead_loop *l, tir_fn *fn, const pass_cx *cx, const axis_facts *facts, arena *a, tir_op *op,
                int64_t most) {
  *l = (ahead_loop){.fn = fn, .cx = cx, .a = a, .op = op, .body = op->regions[0], .most = most};
  l->stages = (int)tir_attr_int(op, ATTR_num_stages, fn->num_stages);
  l->marked = tir_attr_of(op, ATTR_num_stages) != NULL;
  l->n_carried = op->n_out;
  l->addresses.carried = ARENA_ARRAY(a, bool, op->n_out + 1);
  l->indices.carried = ARENA_ARRAY(a, bool, op->n_out + 1);
  l->early.carried = ARENA_ARRAY(a, bool, op->n_out + 1);
  if (!tir_known_int(tir_in(op, 2), &l->step)) l->step = 0;
  find_loads(l);
  order(l, &l->addresses);
  order(l, &l->indices);
  drop_small(l);
  order(l, &l->early);
  for (int i = 0; i < l->small.n; i++) pass_remark(cx, l->small.at[i]->at, "loaded one iteration ahead");
  for (int i = 0; i < l->index.n; i++)
    pass_remark(cx, l->index.at[i]->def->at, "loaded ahead, one iteration before the copies that it is for");
  for (int i = 0; i < l->loads.n; i++) {
    l->loads.at[i].repeats = facts && repeats(facts, l->loads.at[i].load);
    pass_remark(cx, l->loads.at[i].load->at, "pipelined over %d stages", l->stages);
  }
  return l->loads.n > 0 || l->small.n > 0;
}
