/* tma_store: in kernels where the tensor memory accelerator loads tiles, it stores them as well.
 *
 * A store behind or around the loops, which writes a box of a tensor (boxes.h), before and after:
 *
 *   y = convert_layout x                     %map = tensor_map ..
 *   store pointers, y, mask                  tma_store map, x, coordinates
 *
 * The tile goes to shared memory as it lies in registers, a panel at a time, and is never read back by threads; nor do
 * they compute addresses and masks. What is stored lands later than the op is passed, so nothing in the kernel may look
 * at it: all accesses through that pointer must be such stores. Different parameters are taken to be different memory,
 * as in tma.c.
 *
 * Panels need shared memory that stays theirs (shared.c). Where they do not fit beside the rings, or another block per
 * multiprocessor would not, the stores through that pointer are left alone. */
#include "compiler/passes/boxes.h"
#include "compiler/passes/shared.h"

#include "compiler/analysis/roles.h"

enum {
  BLOCKS = 2, /* on a multiprocessor: enough that one computes while the other stores */
};

typedef struct candidate {
  tir_op *store;
  tir_op *conversion; /* of the value, that has no other use; or NULL */
  tir_value *tile;
  box box;
  int inner;
  lay_panels panels;
  bool by_warp;
  tir_op *made;
} candidate;

typedef struct state {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  box_cx boxes;
  VEC(candidate) list;
} state;

/* Whether a loop in r loads tiles; r itself may belong to one (in_loop). */
static bool loops_load(const tir_region *r, bool in_loop) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (op->code == OP_tma_load && in_loop) return true;
    for (int i = 0; i < op->n_regions; i++)
      if (loops_load(op->regions[i], in_loop || tir_is_loop(op))) return true;
  }
  return false;
}

/* Whether the innermost loop around `op` is one of blocks, with the loops that load them inside, or there is none. */
static bool behind_loops(const tir_op *op) {
  const tir_op *loop = op->parent->owner;
  while (loop && !tir_is_loop(loop)) loop = loop->parent->owner;
  return !loop || loops_load(loop->regions[loop->n_regions - 1], false);
}

/* Whether a program stores nothing else through the pointer: then there is no order to keep. */
static bool alone(state *s, const tir_op *store) {
  const tir_value *base, *other;
  for (const tir_op *loop = store->parent->owner; loop; loop = loop->parent->owner)
    if (tir_is_loop(loop) && !tir_next_program(loop)) return false;
  affine_address(&s->boxes.affine, tir_in(store, 0), &base);
  for (const tir_op *op = tir_first(s->fn); op; op = tir_next(op)) {
    if (op->code != OP_store || op == store) continue;
    affine_address(&s->boxes.affine, tir_in(op, 0), &other);
    if (!other || other == base) return false;
  }
  return true;
}

static const char *refused(state *s, tir_op *store, candidate *c) {
  const tir_type *to = tir_elem(tir_in(store, 0)->type)->elem;
  c->store = store;
  if (to->kind != TY_SCALAR || to->dtype == DT_i1 || tir_dtypes[to->dtype].bytes > 4)
    return "the copy engine has no elements of its type";
  if (tir_attr_of(store, ATTR_cache) || tir_attr_of(store, ATTR_evict)) return "it has a cache hint";
  if (!behind_loops(store)) return "it is in the loop that computes";
  c->tile = tir_in(store, 1);
  if (c->tile->def && c->tile->def->code == OP_convert_layout && !c->tile->uses->next) {
    c->conversion = c->tile->def;
    c->tile = tir_in(c->conversion, 0);
  }
  const char *why = NULL;
  for (c->inner = 1; c->inner >= 0; c->inner--) {
    const char *this = box_of(&s->boxes, store, c->inner, &c->box);
    if (!this) break;
    if (!why) why = this;
  }
  if (c->inner < 0) return why;
  int bytes = tir_dtypes[to->dtype].bytes;
  lay_cx *cx = s->fn->cx->layouts;
  const lay_t *l = c->tile->type->layout;
  c->by_warp = alone(s, store) && lay_panels_of(cx, s->a, l, c->inner, bytes, true, &c->panels);
  if (!c->by_warp && !lay_panels_of(cx, s->a, l, c->inner, bytes, false, &c->panels))
    return "its tile has no boxes of the copy engine";
  return NULL;
}

static void find(state *s) {
  for (tir_op *op = tir_first(s->fn); op; op = tir_next(op)) {
    if (op->code != OP_store || !tir_is_tile(tir_in(op, 0)->type) || tir_in(op, 0)->type->rank != 2) continue;
    candidate c = {0};
    const char *why = refused(s, op, &c);
    if (why)
      pass_remark(s->cx, op->at, "not by TMA: %s", why);
    else
      VEC_PUSH(s->a, s->list, c);
  }
}

static bool is_candidate(const state *s, const tir_op *op) {
  for (int i = 0; i < s->list.n; i++)
    if (s->list.at[i].store == op) return true;
  return false;
}

/* Whether anything but candidates may access what `base` points to. A pointer of unknown origin may point anywhere. */
static bool met(state *s, const tir_value *base) {
  for (const tir_op *op = tir_first(s->fn); op; op = tir_next(op)) {
    tir_effect effect = tir_ops[op->code].effect;
    bool access = effect == FX_READ || effect == FX_WRITE || effect == FX_RMW || op->code == OP_copy_async;
    const tir_value *to;
    if (op->code == OP_tensor_map && tir_in(op, 0) == base) return true;
    if (!access || op->code == OP_tma_store || is_candidate(s, op)) continue;
    affine_address(&s->boxes.affine, tir_in(op, 0), &to);
    if (!to || to == base) return true;
  }
  return false;
}

static tir_op *map_of(state *s, const candidate *c) {
  tir_builder front = {s->fn, s->fn->body, s->fn->body->first, c->store->at};
  return box_map(&front, &c->box, (int64_t[]){c->panels.width, c->panels.rows}, c->panels.shared->swizzle_bytes);
}

static void make(state *s, candidate *c) {
  const tir_type *i32 = tir_scalar_type(s->fn->cx, DT_i32);
  tir_value *in[2 + TIR_MAX_MAP_RANK] = {map_of(s, c)->out[0], c->tile};
  tir_builder b = tir_before(s->fn, c->store);
  b.at = c->store->at;
  for (int i = 0; i < c->box.rank; i++) in[2 + i] = affine_build(&b, &c->box.at[i], i32);
  c->made = tir_build(&b, OP_tma_store, 2 + c->box.rank, in, 0, NULL);
  tir_set_int(c->made, ATTR_axis, c->inner);
  if (c->by_warp) tir_set_int(c->made, ATTR_by_warp, 1);
}

/* Blocks that a multiprocessor runs at a time with so much shared memory each, as far as that matters; 0: none. */
static int blocks(const state *s, int64_t bytes) {
  if (bytes > s->cx->arch->shared_block) return 0;
  int n = roles_of(s->fn, s->cx->arch, s->fn->producer_warps, bytes).blocks;
  return n > BLOCKS ? BLOCKS : n;
}

/* Replaces the candidates with this base, all or none. */
static bool replace(state *s, const tir_value *base, int blocks_before) {
  VEC(const tir_op *) without = {0};
  for (int i = 0; i < s->list.n; i++) {
    candidate *c = &s->list.at[i];
    if (c->made && c->conversion) VEC_PUSH(s->a, without, c->conversion);
    if (c->box.base != base) continue;
    make(s, c);
    if (c->conversion) VEC_PUSH(s->a, without, c->conversion);
  }
  int blocks_with = blocks(s, shared_bytes_of(s->fn, without.at, without.n));
  bool fits = blocks_with > 0 && blocks_with >= blocks_before;
  for (int i = 0; i < s->list.n; i++) {
    candidate *c = &s->list.at[i];
    if (c->box.base != base) continue;
    if (fits) pass_remark_no_width(s->cx, c->store->at);
    pass_remark(s->cx, c->store->at,
                fits ? "by TMA" : "not by TMA: its panels do not fit into shared memory beside the rings");
    tir_remove(fits ? c->store : c->made);
    if (!fits) c->made = NULL;
  }
  return fits;
}

bool pass_tma_store(tir_fn *fn, const pass_cx *cx) {
  if (!fn->producer_warps) return false;
  state s = {.fn = fn, .cx = cx, .a = arena_new()};
  s.boxes.affine = (affine_cx){.fn = fn, .a = s.a};
  s.boxes.facts = axis_analyse(fn, s.a);
  find(&s);
  int before = blocks(&s, shared_bytes_of(fn, NULL, 0));
  bool changed = false;
  for (int i = 0; i < s.list.n; i++) {
    const tir_value *base = s.list.at[i].box.base;
    bool first = true;
    for (int k = 0; k < i; k++) first &= s.list.at[k].box.base != base;
    if (!first) continue;
    if (!met(&s, base))
      changed |= replace(&s, base, before);
    else
      for (int k = i; k < s.list.n; k++)
        if (s.list.at[k].box.base == base)
          pass_remark(cx, s.list.at[k].store->at, "not by TMA: the kernel may access what it writes in other ways");
  }
  if (s.list.n) pass_canon(fn, cx);
  arena_free(s.a);
  return changed;
}
