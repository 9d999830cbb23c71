/* tma: loads of tiles for dots become copies by the tensor memory accelerator, made by warps of their own.
 *
 * A load in a loop whose tile goes to a buffer, and which reads a box of a tensor (boxes.h), before and after:
 *
 *   for k:                                     %ring = alloc {ring}, num_stages deep
 *     x = load p(k)                            for k:
 *     buffer_store x, buf                        view = tma_load map, ring, coordinates(k)
 *     .. wgmma of buf ..                         .. wgmma of view ..
 *     wgmma_wait                                 wgmma_wait; tma_release ring
 *
 * Loads whose buffers are filled side by side, with no use of one in between, are one tma_load: they share barriers.
 * Loops that do not run at the same time share rings, so that what the second loop needs is on its way before the first
 * has ended; where few blocks run at a time, each runs one program after the other (persistent.h), and what the next
 * one begins with is on its way before the last has ended. A tile that is loaded before a loop and read in it (the
 * queries of attention) has a ring of its own, and so has one with uses besides the dot: those load it from its stage.
 * Programs whose loops read the same tiles run side by side in a block, with one ring for all (gang.h).
 *
 * The function stays one sequence of ops. On the GPU its tma_loads, and what their coordinates and the control flow
 * around them need, are executed a second time by a thread of the producer warps, which runs ahead as far as rings have
 * free stages; to the other warps a tma_load is a wait (llvm/ll_tma.c). So all of that must be scalar arithmetic: the
 * producer's slice (analysis/slice.h).
 *
 * A product may still read its stage when the next iteration has begun (flight.h), and so may a load to registers for
 * all that a barrier says: then what is released is the stage before, and the first release of the kernel has no effect
 * (`early`). */
#include "compiler/passes/boxes.h"
#include "compiler/passes/flight.h"
#include "compiler/passes/gang.h"
#include "compiler/passes/persistent.h"

#include "compiler/analysis/analysis.h"
#include "compiler/analysis/roles.h"
#include "compiler/analysis/slice.h"
#include "compiler/ir/scratch.h"

enum {
  ALIGNMENT = 1024, /* bytes, of a ring */
  LONGEST = 256,    /* side of a box */
  PRODUCERS = 4,    /* warps */
};

typedef struct copy { /* one load */
  tir_op *load, *store, *alloc;
  box box;
  bool inside;    /* the tile is read in loops further in */
  bool registers; /* it has other uses than through its buffer: loaded from there, they get it */
  tir_value *map, *ring;
} copy;

typedef struct group { /* loads that are one tma_load */
  tir_region *region;
  int first, n; /* in copies */
  tir_op *lead; /* alloc of its first ring */
  tir_op *made; /* the tma_load */
} group;

typedef struct state {
  tir_fn *fn;
  const pass_cx *cx;
  arena *a;
  box_cx boxes;
  VEC(copy) copies;
  VEC(group) groups;
  bool worthwhile; /* there is a tile that an iteration reads and the next one overwrites */
} state;

/* Of the ring of a load in r; 0: r is no loop's body, and a load there has to find a ring that has been made. */
static int stages_of(const state *s, const tir_region *r) {
  const tir_op *loop = r->owner;
  if (!loop || loop->code != OP_for) return 0;
  int stages = (int)tir_attr_int(loop, ATTR_num_stages, s->fn->num_stages);
  return stages > 1 && tir_attr_int(loop, ATTR_warp_specialize, 1) ? stages : 1;
}

/* ---- what can be copied ---- */

static bool is_zero(const tir_value *v) {
  tir_scalar c;
  return tir_known_scalar(v, &c) && c.bits == 0;
}

/* Whether a store or an atomic in `r` may write to what `base` points to. Different parameters are taken to be
   different memory, as everywhere between programs; a pointer of unknown origin may point anywhere. */
static bool written(state *s, const tir_region *r, const tir_value *base) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (tir_ops[op->code].effect == FX_WRITE || tir_ops[op->code].effect == FX_RMW) {
      const tir_value *to;
      affine_address(&s->boxes.affine, tir_in(op, 0), &to);
      if (!to || to == base) return true;
    }
    for (int i = 0; i < op->n_regions; i++)
      if (written(s, op->regions[i], base)) return true;
  }
  return false;
}

/* Whether coordinates and the control flow around the load can be computed by the producer. */
static const char *not_ahead(state *s, const copy *c) {
  slice *sl = slice_new(s->fn, s->a);
  slice_need_around(sl, c->load->parent);
  if (c->box.when) slice_need(sl, c->box.when);
  for (int i = 0; i < c->box.rank; i++)
    for (int t = 0; t < c->box.at[i].n; t++)
      for (int k = 0; k < c->box.at[i].at[t].n; k++) slice_need(sl, c->box.at[i].at[t].atom[k]);
  return slice_problem(sl);
}

/* The last op of `body` that reads a view, directly or through another one, or that holds one that does (*inside). NULL
   if nothing in the body reads it. */
static tir_op *last_reader(const tir_value *view, const tir_region *body, bool *inside) {
  tir_op *last = NULL;
  for (const tir_use *u = view->uses; u; u = u->next) {
    if (u->op->code == OP_buffer_store) continue;
    tir_op *reader = u->op->code == OP_buffer_trans ? last_reader(u->op->out[0], body, inside) : u->op;
    while (reader && reader->parent != body) {
      reader = reader->parent->owner;
      *inside = true;
    }
    if (!reader) continue;
    bool later = !last;
    for (const tir_op *op = last; op && !later; op = op->next) later = op == reader;
    if (later) last = reader;
  }
  return last;
}

static const char *refused(state *s, const tir_op *store, copy *c) {
  c->alloc = tir_in(store, 1)->def;
  if (!c->load || c->load->code != OP_load || c->load->parent != store->parent) return "it is computed, not loaded";
  if (!c->alloc || c->alloc->code != OP_alloc || c->alloc->parent != store->parent)
    return "its buffer lives longer than the iteration";
  for (const tir_use *u = c->load->out[0]->uses; u; u = u->next) {
    if (u->op != store && u->op->code == OP_buffer_store) return "it goes to several buffers";
    c->registers |= u->op != store;
  }
  if (tir_attr_int(c->load, ATTR_is_volatile, 0)) return "the load is volatile";
  if (c->load->n_in == 3 && !is_zero(tir_in(c->load, 2))) return "its `other` is not zero";
  if (!last_reader(c->alloc->out[0], store->parent, &c->inside)) return "nothing reads it";
  const tir_type *t = c->alloc->out[0]->type;
  if (t->rank != 2 || t->shared->kind != LAY_SH_TMA_BOX) return "its tile has no layout of the copy engine";
  if (t->shape[1 - t->shared->inner_axis] > LONGEST) return "its tile is longer than 256";
  const char *why = box_of(&s->boxes, c->load, t->shared->inner_axis, &c->box);
  if (!why) why = not_ahead(s, c);
  return !why && written(s, s->fn->body, c->box.base) ? "the kernel may write to what it reads" : why;
}

/* Whether op uses, directly or through a view, a buffer that one of the last copies fills. */
static bool uses_buffer(const tir_op *op) {
  for (int i = 0; i < op->n_in; i++)
    if (tir_is_buffer(tir_in(op, i)->type) && op->code != OP_buffer_store && op->code != OP_buffer_trans) return true;
  return false;
}

static void find_groups(state *s, tir_region *r) {
  bool open = false; /* the last group may get another load */
  int stages = stages_of(s, r);
  for (tir_op *op = r->first; op; op = op->next) {
    if (uses_buffer(op) || op->n_regions) open = false;
    if (op->code != OP_buffer_store) continue;
    copy c = {.store = op, .load = tir_in(op, 0)->def};
    const char *why = refused(s, op, &c);
    if (!why && stages == 1 && !c.inside)
      why = tir_attr_int(r->owner, ATTR_warp_specialize, 1) ? "num_stages is 1" : "warp_specialize is False";
    if (why) {
      if (stages && c.load && c.load->code == OP_load) pass_remark(s->cx, c.load->at, "not by TMA: %s", why);
      continue;
    }
    VEC_PUSH(s->a, s->copies, c);
    s->worthwhile |= !c.inside;
    if (!open || c.inside || c.registers) VEC_PUSH(s->a, s->groups, ((group){.region = r, .first = s->copies.n - 1}));
    s->groups.at[s->groups.n - 1].n++;
    open = !c.inside && !c.registers;
  }
}

/* Loops first: their loads make the rings that others share. */
static void find_all(state *s, tir_region *r, bool loops) {
  if ((stages_of(s, r) > 0) == loops) find_groups(s, r);
  for (tir_op *op = r->first; op; op = op->next)
    for (int i = 0; i < op->n_regions; i++) find_all(s, op->regions[i], loops);
}

/* ---- maps and rings ---- */

/* f32 that only wgmma reads is rounded to tf32 on the way; wgmma itself would cut it off. */
static bool for_wgmma(const tir_value *view) {
  for (const tir_use *u = view->uses; u; u = u->next) {
    if (u->op->code == OP_buffer_trans ? !for_wgmma(u->op->out[0])
                                       : u->op->code != OP_wgmma && u->op->code != OP_buffer_store)
      return false;
  }
  return true;
}

static bool wants_tf32(const copy *c) {
  return tir_dtype_of(c->alloc->out[0]->type) == DT_f32 && !c->registers && for_wgmma(c->alloc->out[0]);
}

static bool same_map(const copy *x, const copy *y) {
  bool same = x->box.base == y->box.base && x->box.rank == y->box.rank && x->ring->type == y->ring->type;
  for (int i = 0; same && i < x->box.rank; i++)
    same = affine_equal(&x->box.size[i], &y->box.size[i]) && affine_equal(&x->box.stride[i], &y->box.stride[i]);
  for (int i = 0; same && i < x->box.n_natural; i++) same = x->box.natural[i] == y->box.natural[i];
  return same && x->box.n_natural == y->box.n_natural && wants_tf32(x) == wants_tf32(y);
}

static void make_map(state *s, tir_builder *b, int index) {
  copy *c = &s->copies.at[index];
  if (!c->ring) return;
  for (int i = 0; i < index; i++)
    if (s->copies.at[i].ring && same_map(&s->copies.at[i], c)) {
      c->map = s->copies.at[i].map;
      return;
    }
  const tir_type *t = c->ring->type;
  int inner = t->shared->inner_axis, swizzle = t->shared->swizzle_bytes;
  int64_t width = swizzle / tir_dtypes[tir_dtype_of(t)].bytes, extent = t->shape[inner];
  int64_t sides[2] = {extent < width ? extent : width, t->shape[1 - inner]};
  tir_op *map = box_map(b, &c->box, sides, swizzle);
  if (wants_tf32(c)) tir_set_str(map, ATTR_rounding, "tf32");
  c->map = map->out[0];
}

/* Whether all that happens to x's tile, from its load to its last reader, is on one side of what holds region r. */
static bool apart(const state *s, const group *x, const tir_region *r) {
  const tir_op *from = s->copies.at[x->first].load, *around = r->owner;
  while (around && around->parent != x->region) around = around->parent->owner;
  if (!around) return true;
  bool inside, before = false;
  const tir_op *to = last_reader(s->copies.at[x->first + x->n - 1].alloc->out[0], x->region, &inside);
  for (const tir_op *op = x->region->first; op != around; op = op->next) before |= op == from;
  if (!before) return true;
  for (const tir_op *op = around->next; op; op = op->next)
    if (op == to) return false;
  return true;
}

/* Whether a loop lies between the last reader of x's tile and the load of y's, in one region. */
static bool loop_between(const state *s, const group *x, const group *y) {
  bool inside, loop = false;
  const tir_op *op = last_reader(s->copies.at[x->first + x->n - 1].alloc->out[0], x->region, &inside);
  for (; op; op = op->next) {
    if (op == s->copies.at[y->first].load) return loop;
    loop |= op->n_regions > 0 && op->code != OP_reduce;
  }
  return false;
}

/* Whether tiles of x and y are never wanted at the same time, so that they can come one after the other in one ring. */
static bool in_turn(const state *s, const group *x, const group *y) {
  if (x->region == y->region) return loop_between(s, x, y) || loop_between(s, y, x);
  return apart(s, x, y->region) && apart(s, y, x->region);
}

/* A group whose rings g can use: NULL if there is none. */
static const group *ring_owner(const state *s, const group *g) {
  int stages = stages_of(s, g->region);
  for (int i = 0; i < s->groups.n && &s->groups.at[i] != g; i++) {
    const group *o = &s->groups.at[i];
    bool fits = o->lead && o->n == g->n && (!stages || o->lead->out[0]->type->stages == stages);
    for (int k = 0; fits && k < g->n; k++)
      fits = s->copies.at[o->first + k].alloc->out[0]->type == s->copies.at[g->first + k].alloc->out[0]->type;
    for (int k = 0; fits && k < s->groups.n; k++) /* all that have them already */
      fits = s->groups.at[k].lead != o->lead || in_turn(s, &s->groups.at[k], g);
    if (fits) return o;
  }
  return NULL;
}

/* Bytes of a ring, with what the next one's alignment needs. */
static int64_t ring_bytes(const tir_type *tile, int stages) {
  int64_t bytes = stages * (tir_buffer_stage_bytes(tile) + TIR_RING_BARRIERS);
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Shared memory of the rings that a gang shares, of other rings and buffers, and of the largest scratch, roughly. */
typedef struct memory {
  int64_t common, own, scratch;
} memory;

/* Of a block, whose programs have rings and buffers of `own` bytes each. */
static int64_t block_bytes(const state *s, const memory *m, int64_t own) { return m->common + s->fn->gang * own; }

static bool is_copied(const state *s, const tir_op *alloc) {
  for (int i = 0; i < s->copies.n; i++)
    if (s->copies.at[i].alloc == alloc) return true;
  return false;
}

/* A buffer that is no ring: of a loop it becomes one, filled by copies of another kind (pipeline.c). */
static int64_t buffer_bytes(const state *s, const tir_op *alloc) {
  int stages = stages_of(s, alloc->parent);
  return is_copied(s, alloc) ? 0 : tir_buffer_stage_bytes(alloc->out[0]->type) * (stages > 1 ? stages : 1);
}

/* Whether all programs of a gang read the tiles of a ring. */
static bool is_common(const state *s, const tir_op *alloc) {
  for (int i = 0; i < s->copies.n; i++)
    if (s->copies.at[i].ring == alloc->out[0]) return s->fn->gang > 1 && !s->copies.at[i].inside;
  return false;
}

static memory memory_of(const state *s) {
  memory m = {0};
  for (const tir_op *op = tir_first(s->fn); op; op = tir_next(op)) {
    int64_t bytes = tir_scratch_of(op, s->a).bytes;
    if (op->code == OP_alloc)
      *(is_common(s, op) ? &m.common : &m.own) +=
          tir_attr_int(op, ATTR_ring, 0) ? ring_bytes(op->out[0]->type, op->out[0]->type->stages) : buffer_bytes(s, op);
    else if (bytes > m.scratch)
      m.scratch = bytes;
  }
  return m;
}

/* Blocks of so many bytes that a multiprocessor would run at a time; 0: none. */
static int blocks_with(const state *s, int64_t bytes) {
  return bytes > s->cx->arch->shared_block ? 0 : roles_of(s->fn, s->cx->arch, PRODUCERS, bytes).blocks;
}

/* Of the ring of a tile that is read in loops further in: two if it is loaded again and again and there is room, so
   that the producer need not wait for the end of those loops; else one. */
static int stages_inside(const state *s, const group *g) {
  const tir_op *owner = g->region->owner;
  if (!owner || owner->code == OP_if) return 1;
  const tir_type *tile = s->copies.at[g->first].alloc->out[0]->type;
  memory m = memory_of(s);
  int64_t own = m.own + m.scratch;
  int with_two = blocks_with(s, block_bytes(s, &m, own + ring_bytes(tile, 2)));
  return with_two > 0 && with_two >= blocks_with(s, block_bytes(s, &m, own + ring_bytes(tile, 1))) ? 2 : 1;
}

/* Leaves the group without rings if it would be alone with them. */
static void give_rings(state *s, tir_builder *b, group *g) {
  bool inside = s->copies.at[g->first].inside;
  const group *owner = inside ? NULL : ring_owner(s, g);
  int stages = inside ? stages_inside(s, g) : stages_of(s, g->region);
  if (!owner && !stages) return;
  for (int k = 0; k < g->n; k++) {
    copy *c = &s->copies.at[g->first + k];
    if (owner) {
      c->ring = s->copies.at[owner->first + k].ring;
      continue;
    }
    const tir_type *t = c->alloc->out[0]->type;
    const tir_type *ring = tir_buffer_type(s->fn->cx, t->elem, 2, t->shape, t->shared, stages);
    b->at = c->load->at;
    tir_op *alloc = tir_build(b, OP_alloc, 0, NULL, 1, &ring);
    tir_set_int(alloc, ATTR_managed, 1);
    tir_set_int(alloc, ATTR_ring, 1);
    c->ring = alloc->out[0];
  }
  g->lead = s->copies.at[g->first].ring->def;
}

/* ---- the change ---- */

/* Where the box of c begins along an axis. A tile that is not wanted lies in front of the tensor, where all is 0. */
static tir_value *position(state *s, tir_builder *b, const copy *c, int axis) {
  const tir_type *i32 = tir_scalar_type(s->fn->cx, DT_i32);
  tir_value *at = affine_build(b, &c->box.at[axis], i32);
  if (!c->box.when || axis != 1) return at;
  return tir_select(b, (tir_value *)c->box.when, at, tir_const_int(b, i32, INT32_MIN));
}

static void replace_loads(state *s, group *g) {
  copy *c = &s->copies.at[g->first];
  const tir_type **types = ARENA_ARRAY(s->a, const tir_type *, g->n);
  tir_value **in = ARENA_ARRAY(s->a, tir_value *, g->n * (2 + TIR_MAX_MAP_RANK));
  tir_builder b = tir_before(s->fn, c->registers ? c->load : c[g->n - 1].store);
  b.at = c->load->at;
  int n = 2 * g->n;
  for (int k = 0; k < g->n; k++) {
    types[k] = c[k].alloc->out[0]->type;
    in[2 * k] = c[k].map;
    in[2 * k + 1] = c[k].ring;
    for (int i = 0; i < c[k].box.rank; i++) in[n++] = position(s, &b, &c[k], i);
  }
  g->made = tir_build(&b, OP_tma_load, n, in, g->n, types);
  for (int k = 0; k < g->n; k++) {
    int stages = g->lead->out[0]->type->stages;
    pass_remark_no_width(s->cx, c[k].load->at);
    pass_remark(s->cx, c[k].load->at, stages > 1 ? "by TMA, pipelined over %d stages" : "by TMA", stages);
    while (c[k].inside && (c[k].store->next->code == OP_fence_async || c[k].store->next->code == OP_barrier))
      tir_remove(c[k].store->next); /* those of the store */
    tir_remove(c[k].store);
    if (c[k].registers)
      tir_replace_uses(c[k].load->out[0], tir_build1(&b, OP_buffer_load, 1, &g->made->out[k], c[k].load->out[0]->type));
    tir_remove(c[k].load);
    for (tir_use *u = c[k].alloc->out[0]->uses; u; u = u->next) /* views that were made before the last store */
      if (u->op->code == OP_buffer_trans) tir_move_before(u->op, g->made->next);
    tir_replace_uses(c[k].alloc->out[0], g->made->out[k]);
    tir_remove(c[k].alloc);
  }
}

static bool stores(const tir_region *r) {
  for (const tir_op *op = r->first; op; op = op->next) {
    if (op->code == OP_buffer_store) return true;
    for (int i = 0; i < op->n_regions; i++)
      if (stores(op->regions[i])) return true;
  }
  return false;
}

/* What the copy engine wrote needs no fence. */
static void drop_fences(const tir_region *r) {
  if (stores(r)) return;
  for (tir_op *op = r->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_fence_async) tir_remove(op);
  }
}

/* ---- releases ---- */

static bool reads(const tir_op *op, const group *g) {
  for (int i = 0; i < op->n_in; i++) {
    const tir_value *v = tir_in(op, i);
    if (v->def && v->def->code == OP_buffer_trans) v = tir_in(v->def, 0);
    if (v->def == g->made && op->code != OP_buffer_trans) return true;
  }
  return false;
}

/* Behind which op `product`, and what has been issued before it, has ended: a wait that leaves no more groups pending
   than have been issued since. If none comes before the end of the body, the one of the next iteration: *early. */
static tir_op *wait_for_product(const tir_region *body, const tir_op *product, bool *early) {
  int64_t issued = 0;
  tir_op *op = product->next;
  int rounds = body->owner && body->owner->code == OP_for ? 2 : 1; /* flight.c leaves it to the next iteration */
  *early = false;
  for (int round = 0; round < rounds; round++, op = body->first, *early = true)
    for (; op; op = op->next) {
      if (op->code == OP_wgmma) issued++;
      if (op->code == OP_wgmma_wait && tir_attr_int(op, ATTR_pending, 0) <= issued) return op;
    }
  base_panic("nothing waits for a product");
}

static tir_op *fence_behind(state *s, const group *g, tir_op *op) {
  tir_builder b = {s->fn, g->region, op->next, g->made->at};
  return tir_build(&b, OP_fence_async, 0, NULL, 0, NULL);
}

/* Behind which op everything that read the stage has ended; *early: in the next iteration. A load to registers may
   still be under way when a later op begins that does not need them, and the copy engine, which writes there next, is
   not ordered behind it by the barrier: there is a fence; or, without products, the next iteration has begun, for which
   all that needed the registers has. */
static tir_op *read_by_all(state *s, const group *g, bool *early) {
  const tir_region *body = g->region;
  tir_op *product = NULL, *load = NULL, *last = NULL;
  bool inside;
  for (tir_op *op = g->made->next; op; op = op->next)
    for (int k = 0; k < g->n; k++)
      if (last_reader(g->made->out[k], body, &inside) == op) last = op;
  BASE_ASSERT(last);
  *early = false;
  if (last->n_regions) {
    tir_builder b = {s->fn, g->region, last->next, g->made->at};
    for (tir_op *op = last->next; op; op = op->next)
      if (op->code == OP_wgmma_wait && tir_attr_int(op, ATTR_pending, 0) == 0) return op;
    tir_op *wait = tir_build(&b, OP_wgmma_wait, 0, NULL, 0, NULL);
    tir_set_int(wait, ATTR_pending, 0);
    return wait;
  }
  for (tir_op *op = g->made->next; op != last->next; op = op->next)
    if (reads(op, g)) *(op->code == OP_wgmma ? &product : &load) = op;
  if (product) {
    tir_op *wait = wait_for_product(body, product, early), *behind = wait;
    if (!load || *early) return wait;
    for (tir_op *op = wait; op; op = op->next)
      if (op == load) behind = load;
    return fence_behind(s, g, behind);
  }
  bool again = body->owner && body->owner->code == OP_for && g->lead->out[0]->type->stages > 1;
  if (!again) return fence_behind(s, g, load);
  *early = true;
  return g->made;
}

static void release(state *s, group *g) {
  bool early;
  tir_op *behind = read_by_all(s, g, &early);
  tir_builder b = {s->fn, g->region, behind->next, g->made->at};
  tir_build(&b, OP_tma_release, 1, &g->lead->out[0], 0, NULL);
  if (early) tir_set_int(g->lead, ATTR_early, 1);
}

/* Four more warps must fit into a block and leave each thread the registers that one wgmma takes. */
static bool has_room(const tir_fn *fn) {
  int threads = ARCH_WARP * (fn->num_warps + PRODUCERS);
  return threads <= ARCH_THREADS_BLOCK &&
         ARCH_REGISTERS_SM / threads / ARCH_REGISTER_STEP * ARCH_REGISTER_STEP >= pressure_of_wgmma(fn);
}

/* Whether the source has a loop around those that load. */
static bool in_outer_loop(const state *s) {
  for (int i = 0; i < s->groups.n; i++) {
    const tir_op *loop = s->groups.at[i].region->owner;
    if (!loop || s->copies.at[s->groups.at[i].first].inside) continue;
    if (tir_in_loop(loop)) return true;
  }
  return false;
}

enum { NUMBERS = TIR_PROGRAM_STAGES * (TIR_PROGRAM_BYTES + TIR_RING_BARRIERS) };

/* With what tiles that are read in loops further in need at least. */
static memory expected_memory(const state *s) {
  memory m = memory_of(s);
  for (int i = 0; i < s->groups.n; i++)
    if (!s->groups.at[i].lead) m.own += ring_bytes(s->copies.at[s->groups.at[i].first].alloc->out[0]->type, 1);
  return m;
}

/* How many blocks run at a time with what is expected, and what their consumers have; a gang's have persistent ones. */
static roles expected_roles(const state *s) {
  memory m = expected_memory(s);
  bool shares = s->fn->gang > 1;
  int64_t own = shares ? m.own + m.scratch : m.own > m.scratch ? m.own : m.scratch;
  int64_t bytes = block_bytes(s, &m, own) + (shares ? NUMBERS : 0);
  return bytes > s->cx->arch->shared_block ? (roles){0} : roles_of(s->fn, s->cx->arch, PRODUCERS, bytes);
}

/* Why programs do not run side by side; NULL if they may. */
static const char *gang_problem(state *s) {
  VEC(gang_load) loads = {0};
  for (int i = 0; i < s->copies.n; i++) {
    copy *c = &s->copies.at[i];
    const tir_type *t = c->alloc->out[0]->type;
    if (c->ring) VEC_PUSH(s->a, loads, ((gang_load){c->load, &c->box, c->ring, t->shape[1 - t->shared->inner_axis]}));
  }
  if (in_outer_loop(s)) return "there is a loop around those that load";
  const char *why = persistent_refused(s->fn);
  return why ? why : gang_refused(&s->boxes, s->fn->body, loads.at, loads.n);
}

/* Lets a block run programs side by side, if more of them then run at a time: they share rings, and registers go to
   fewer producers. */
static void consider_gang(state *s) {
  enum { LEAST_SPARE = 24 }; /* registers that code needs besides tiles; measured */
  if (s->fn->num_warps != 4 || !s->cx->arch->has_setmaxnreg || !pressure_of_wgmma(s->fn)) return;
  int apart = expected_roles(s).blocks;
  const char *why = s->cx->no_gang ? "--no-gang" : gang_problem(s);
  for (int n = TIR_MAX_GANG; !why && n > 1; n--) {
    s->fn->gang = n;
    roles r = expected_roles(s);
    if (r.blocks * n > apart && r.spare >= LEAST_SPARE) return;
  }
  s->fn->gang = 1;
  pass_remark(s->cx, s->fn->at, "no programs run side by side: %s", why ? why : "not more would run at a time");
}

/* Lets blocks run several programs, where that does not cost one: what one program ends with then needs memory besides
   the rings, which the next one fills already. With more than a few blocks at a time they overlap anyway. */
static void consider_sharing(state *s, tir_builder *front) {
  enum { FEW = 2 };
  memory m = expected_memory(s);
  int blocks = s->fn->gang > 1 ? 1 : expected_roles(s).blocks;
  const char *why = in_outer_loop(s) ? "it has a loop around those that load" : persistent_refused(s->fn);
  if (!why && blocks > FEW) why = "many run at a time";
  if (!why && blocks_with(s, block_bytes(s, &m, m.own + m.scratch) + NUMBERS) < blocks)
    why = "there is no shared memory for more";
  if (why) {
    pass_remark(s->cx, s->fn->at, "a block runs one program: %s", why);
    s->fn->gang = 1;
    return;
  }
  front->before = persistent_wrap(s->fn, front->before);
  for (int i = 0; i < s->groups.n; i++)
    if (s->groups.at[i].region == s->fn->body)
      s->groups.at[i].region = s->copies.at[s->groups.at[i].first].load->parent;
}

static void give_all_rings(state *s, tir_builder *front, bool inside) {
  for (int i = 0; i < s->groups.n; i++)
    if (s->copies.at[s->groups.at[i].first].inside == inside) give_rings(s, front, &s->groups.at[i]);
}

bool pass_tma(tir_fn *fn, const pass_cx *cx) {
  if (!cx->arch->has_wgmma || !cx->arch->has_tma || cx->no_tensor_maps || fn->num_warps % 4 || !has_room(fn))
    return false;
  state s = {.fn = fn, .cx = cx, .a = arena_new()};
  s.boxes.affine = (affine_cx){.fn = fn, .a = s.a};
  s.boxes.facts = axis_analyse(fn, s.a);
  find_all(&s, fn->body, true);
  bool any = s.worthwhile;
  if (any) find_all(&s, fn->body, false);
  if (!any) s.groups.n = s.copies.n = 0;
  tir_builder front = {fn, fn->body, fn->body->first, fn->at};
  give_all_rings(&s, &front, false);
  if (any) consider_gang(&s);
  if (any) consider_sharing(&s, &front);
  give_all_rings(&s, &front, true);
  for (int i = 0; i < s.copies.n; i++)
    if (s.copies.at[i].ring && is_common(&s, s.copies.at[i].ring->def))
      tir_set_int(s.copies.at[i].ring->def, ATTR_common, 1);
  for (int i = 0; i < s.copies.n; i++) make_map(&s, &front, i);
  for (int i = 0; i < s.groups.n; i++)
    if (s.groups.at[i].lead) replace_loads(&s, &s.groups.at[i]);
  for (int i = 0; i < s.groups.n; i++) {
    const group *g = &s.groups.at[i];
    if (!g->lead) continue;
    drop_fences(g->region);
    if (g->region->owner && g->region->owner->code == OP_for) flight_leave(fn, cx, g->region->owner);
  }
  for (int i = 0; i < s.groups.n; i++)
    if (s.groups.at[i].lead) release(&s, &s.groups.at[i]);
  if (any) {
    fn->producer_warps = PRODUCERS;
    pass_canon(fn, cx);
  }
  arena_free(s.a);
  return any;
}
