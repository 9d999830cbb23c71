/* layouts: a layout for every tile value.
 *
 * Three kinds of values:
 *   anchors   loads, stores, atomics: the layout that global memory likes (coalesced below); dots: the instruction's
 *             (dots.c);
 *   rigid     whatever is computed from an anchor's result: it follows its operands, and where two layouts meet, the
 *             cheaper conversions decide;
 *   flexible  index arithmetic, masks, constants, and any expand_dims or broadcast: computed afresh in whatever layout
 *             a use asks for. That is nearly always cheaper than moving data between threads, and common subexpressions
 *             are shared again afterwards.
 *
 * The function is walked once in program order. A rigid value gets its layout when it is met, so only loops need
 * foresight: the layout of a carried value must be known before the body. `foresee` guesses it, from what the body
 * yields, then the initial value, then the uses (a pointer that is advanced: the load it feeds). A wrong guess costs a
 * conversion, never correctness.
 *
 * A conversion, or a flexible value made for a use, stands right behind the original's definition: it then serves every
 * use, and a value from outside a loop is converted outside of it.
 *
 * The obvious way, one default layout everywhere and conversions around each access that a second pass removes again,
 * gives the same result for simple kernels with twice the machinery. */
#include "compiler/analysis/analysis.h"
#include "compiler/passes/dots.h"
#include "compiler/passes/passes.h"

#include <string.h>

typedef struct made { /* `value` in `layout` */
  const lay_t *layout;
  tir_value *value;
  struct made *next;
} made;

typedef struct anchor {
  const tir_op *op;
  const lay_t *layout;
  int order[TIR_MAX_RANK];
  int64_t per; /* consecutive elements per thread */
} anchor;

typedef struct pass_state {
  tir_fn *fn;
  tir_cx *cx;
  const pass_cx *pass;
  lay_cx *lays;
  arena *a;
  axis_facts *facts;
  VEC(anchor) anchors; /* in program order, as are `next_anchor` look-ups by hash */
  int *anchor_slot;    /* open addressing: index into anchors + 1 */
  int anchor_slots;
  VEC(made *) versions; /* by value id */
  uint32_t n_values;
  uint8_t *guessing; /* by value id: foresee is at it */
  tir_map copies;    /* scratch for tir_clone */
} state;

static int pointee_bytes(const tir_type *pointer) {
  const tir_type *p = tir_elem(pointer)->elem;
  return p->kind == TY_PTR ? 8 : tir_dtypes[p->dtype].bytes;
}

static int threads(const state *s) { return s->fn->num_warps * 32; }

static lay_shape shape_of(const tir_type *t) { return lay_shape_make(t->rank, t->shape); }

/* ---- anchors ---- */

/* The layout of an access: `per` elements along the fastest axis in each thread, lanes along that axis as far as it
   goes and then along the next; warps along the slower axes first, so that a row lies in one warp and reductions along
   it need no shared memory, else along the fastest. */
static const lay_t *coalesced(state *s, const tir_type *t, const int *order, int64_t per) {
  lay_blocking b;
  int64_t left[TIR_MAX_RANK], lanes = 32, warps = s->fn->num_warps;
  for (int i = 0; i < t->rank; i++) {
    b.order[i] = order[i];
    b.per_thread[i] = b.threads[i] = b.warps[i] = 1;
    left[i] = t->shape[i];
  }
  b.per_thread[order[0]] = (int)per;
  left[order[0]] /= per;
  for (int i = 0; i < t->rank; i++) {
    int64_t n = left[order[i]] < lanes ? left[order[i]] : lanes;
    b.threads[order[i]] = (int)n;
    left[order[i]] /= n;
    lanes /= n;
  }
  b.threads[order[0]] *= (int)lanes;
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t n = left[order[i]] < warps ? left[order[i]] : warps;
    b.warps[order[i]] *= (int)n;
    warps /= n;
  }
  b.warps[order[0]] *= (int)warps;
  return lay_blocked(s->lays, shape_of(t), &b);
}

static bool is_access(const tir_op *op) {
  return (op->code == OP_load || op->code == OP_store || op->code == OP_atomic_rmw) && tir_is_tile(tir_in(op, 0)->type);
}

static tir_value *mask_of(const tir_op *op) {
  int at = op->code == OP_load ? 1 : 2;
  return op->n_in > at ? tir_in(op, at) : NULL;
}

static uint64_t op_hash(const tir_op *op) { return hash_bytes(HASH_SEED, &op, sizeof op); }

static const anchor *anchor_of(const state *s, const tir_op *op) {
  for (uint64_t h = op_hash(op);; h++) {
    int i = s->anchor_slot[h % (uint64_t)s->anchor_slots];
    if (!i) return NULL;
    if (s->anchors.at[i - 1].op == op) return &s->anchors.at[i - 1];
  }
}

static void find_anchors(state *s) {
  for (const tir_op *op = tir_first(s->fn); op; op = tir_next(op)) {
    if (!is_access(op)) continue;
    anchor n = {.op = op};
    tir_value *p = tir_in(op, 0);
    axis_order(s->facts, p, n.order);
    int64_t share = p->type->numel / threads(s);
    n.per = op->code == OP_atomic_rmw ? 1 : axis_vector(s->facts, p, mask_of(op), n.order[0]);
    if (n.per > share) n.per = share > 1 ? share : 1;
    VEC_PUSH(s->a, s->anchors, n);
  }
  /* Accesses of one shape and order that meet in one expression should agree: loads take the widest of them all, stores
     what 16 bytes hold, since a wider run leaves gaps within a warp's store. */
  for (int i = 0; i < s->anchors.n; i++) {
    anchor *x = &s->anchors.at[i];
    const tir_type *t = tir_in(x->op, 0)->type;
    int64_t per = x->per;
    for (int j = 0; j < s->anchors.n; j++) {
      const anchor *y = &s->anchors.at[j];
      const tir_type *u = tir_in(y->op, 0)->type;
      if (!tir_same_shape(t, u) || memcmp(x->order, y->order, sizeof(int) * (size_t)t->rank)) continue;
      if (y->op->code == OP_load && x->op->code != OP_atomic_rmw && y->per > per) per = y->per;
    }
    if (x->op->code == OP_store && per * pointee_bytes(t) > 16) per = 16 / pointee_bytes(t);
    x->layout = coalesced(s, t, x->order, per);
  }
  s->anchor_slots = 2 * s->anchors.n + 1;
  s->anchor_slot = ARENA_ARRAY(s->a, int, s->anchor_slots);
  for (int i = 0; i < s->anchors.n; i++) {
    uint64_t h = op_hash(s->anchors.at[i].op);
    while (s->anchor_slot[h % (uint64_t)s->anchor_slots]) h++;
    s->anchor_slot[h % (uint64_t)s->anchor_slots] = i + 1;
  }
}

/* The load that a dot's operand comes straight from, perhaps transposed; NULL if it is computed. */
static const tir_op *loaded(const tir_value *v) {
  while (v->def && v->def->code == OP_trans) v = tir_in(v->def, 0);
  return v->def && v->def->code == OP_load && is_access(v->def) ? v->def : NULL;
}

/* Axis of a dot's operand that is contiguous in memory; -1 if it does not come straight from a load. */
static int inner_axis(const state *s, const tir_value *v) {
  const tir_op *load = loaded(v);
  if (!load) return -1;
  int inner = anchor_of(s, load)->order[0], transposes = 0;
  for (; v->def != load; v = tir_in(v->def, 0)) transposes++;
  return v->type->rank == 2 && transposes % 2 ? 1 - inner : inner;
}

/* Whether the result becomes the first operand of another dot. */
static bool feeds_dot(const tir_value *v, int depth) {
  for (const tir_use *u = v->uses; u; u = u->next) {
    if (u->op->code == OP_dot && tir_in(u->op, 0) == v) return true;
    if (depth > 0 && (tir_ops[u->op->code].flags & OPF_ELT) && feeds_dot(u->op->out[0], depth - 1)) return true;
  }
  return false;
}

static dot_plan plan_dot(state *s, const tir_op *op) {
  enum { FAR = 12 };
  return dot_choose(s->fn, s->pass, op, inner_axis(s, tir_in(op, 0)), inner_axis(s, tir_in(op, 1)),
                    feeds_dot(op->out[0], FAR));
}

static const lay_t *dot_layout(state *s, const tir_op *op) { return plan_dot(s, op).c; }

static const lay_t *default_layout(state *s, const tir_type *t) {
  return lay_default(s->lays, shape_of(t), s->fn->num_warps);
}

/* ---- flexible values ---- */

static bool elementwise(const tir_op *op) { return (tir_ops[op->code].flags & OPF_ELT) != 0; }

static bool flexible(const tir_value *v) {
  const tir_op *op = v->def;
  if (!tir_is_tile(v->type) || v->type->layout) return false;
  if (!op) return false;
  switch (op->code) {
    case OP_const:
    case OP_arange:
    case OP_splat:
    case OP_expand_dims:
    case OP_broadcast: return true;
    default: break;
  }
  if (!elementwise(op) && op->code != OP_hint && op->code != OP_trans && op->code != OP_reshape) return false;
  for (int i = 0; i < op->n_in; i++)
    if (tir_is_tile(tir_in(op, i)->type) && !flexible(tir_in(op, i))) return false;
  return true;
}

/* Whether v, which may have a layout already, can be computed in any from scalars. */
static bool from_scalars(const tir_value *v, int depth) {
  const tir_op *op = v->def;
  if (!tir_is_tile(v->type) || !op || depth == 0) return false;
  switch (op->code) {
    case OP_const:
    case OP_arange:
    case OP_splat: return true;
    default: break;
  }
  bool shape = op->code == OP_hint || op->code == OP_trans || op->code == OP_reshape || op->code == OP_expand_dims ||
               op->code == OP_broadcast;
  if (!elementwise(op) && !shape) return false;
  for (int i = 0; i < op->n_in; i++)
    if (tir_is_tile(tir_in(op, i)->type) && !from_scalars(tir_in(op, i), depth - 1)) return false;
  return true;
}

/* Whether v is a small tile that had better be loaded again in another layout, with what is computed from it, than be
   converted through shared memory: scales and biases of which each thread needs a few. Right where it was loaded
   before, a load brings the same. */
static bool repeatable(const tir_value *v, int depth) {
  enum { SMALL = 512 /* bytes */ };
  const tir_op *op = v->def;
  if (!op || depth == 0 || !tir_is_tile(v->type)) return false;
  bool load = op->code == OP_load;
  if (load && (tir_attr_int(op, ATTR_is_volatile, 0) || tir_is_ptr(v->type) ||
               v->type->numel * tir_dtypes[tir_dtype_of(v->type)].bytes > SMALL))
    return false;
  if (!load && !elementwise(op)) return false;
  for (int i = 0; i < op->n_in; i++) {
    const tir_value *x = tir_in(op, i);
    if (tir_is_tile(x->type) && !from_scalars(x, depth) && (load || !repeatable(x, depth - 1))) return false;
  }
  return true;
}

/* Layout that operand i must have for the result to have layout l; scalars: NULL. */
static const lay_t *wanted(state *s, const tir_op *op, int i, const lay_t *l) {
  const tir_type *in = tir_in(op, i)->type;
  if (!tir_is_tile(in)) return NULL;
  switch (op->code) {
    case OP_expand_dims: return lay_expand_dims_back(s->lays, l, (int)tir_attr_int(op, ATTR_axis, 0));
    case OP_broadcast: return lay_broadcast_back(s->lays, l, shape_of(in));
    case OP_reshape: return lay_reshape(s->lays, l, shape_of(in));
    case OP_trans: {
      int axes[TIR_MAX_RANK];
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      for (int k = 0; k < perm->n; k++) axes[k] = (int)perm->ints[k];
      return lay_permute_back(s->lays, l, axes);
    }
    default: return l;
  }
}

static tir_builder behind(state *s, const tir_value *v) {
  if (!v->def) return (tir_builder){s->fn, v->region, v->region->first, v->at};
  return (tir_builder){s->fn, v->def->parent, v->def->next, v->def->at};
}

static void set_layout(state *s, tir_value *v, const lay_t *l) { v->type = tir_with_layout(s->cx, v->type, l); }

/* The value in a layout: itself, a version made before, a fresh computation, or a conversion. */
static tir_value *in_layout(state *s, tir_value *v, const lay_t *l) {
  if (!tir_is_tile(v->type) || v->type->layout == l) return v;
  while ((uint32_t)s->versions.n <= v->id) VEC_PUSH(s->a, s->versions, NULL);
  for (made *m = s->versions.at[v->id]; m; m = m->next)
    if (m->layout == l) return m->value;
  tir_value *result;
  enum { FEW_REGISTERS = 8, DEEP = 12 };
  if (flexible(v) || (lay_regs(l) <= FEW_REGISTERS && (from_scalars(v, DEEP) || repeatable(v, DEEP)))) {
    tir_op *op = v->def;
    tir_value **in = ARENA_ARRAY(s->a, tir_value *, op->n_in + 1);
    for (int i = 0; i < op->n_in; i++) in[i] = in_layout(s, tir_in(op, i), wanted(s, op, i, l));
    tir_builder b = behind(s, v);
    tir_op *copy = tir_clone(&b, op, &s->copies);
    for (int i = 0; i < op->n_in; i++) tir_set_in(copy, i, in[i]);
    result = copy->out[0];
    set_layout(s, result, l);
  } else {
    BASE_ASSERT(v->type->layout != NULL);
    tir_builder b = behind(s, v);
    result = tir_build1(&b, OP_convert_layout, 1, &v, tir_with_layout(s->cx, v->type, l));
  }
  made *m = ARENA_NEW(s->a, made);
  *m = (made){l, result, s->versions.at[v->id]};
  s->versions.at[v->id] = m;
  return result;
}

static void use_in(state *s, tir_op *op, int i, const lay_t *l) {
  tir_value *v = tir_in(op, i), *w = in_layout(s, v, l);
  if (w != v) tir_set_in(op, i, w);
}

/* ---- foresight ---- */

static const lay_t *foresee(state *s, const tir_value *v);

static const lay_t *foresee_uses(state *s, const tir_value *v, int depth) {
  for (const tir_use *u = v->uses; u; u = u->next) {
    const tir_op *op = u->op;
    if (is_access(op)) return anchor_of(s, op)->layout;
    if (op->code == OP_dot && tir_in(op, 2) == v) return dot_layout(s, op);
    if (depth > 0 && (elementwise(op) || op->code == OP_hint) && tir_is_tile(op->out[0]->type)) {
      for (int i = 0; i < op->n_in; i++)
        if (tir_in(op, i) != v) {
          const lay_t *l = foresee(s, tir_in(op, i));
          if (l) return l;
        }
      const lay_t *l = foresee_uses(s, op->out[0], depth - 1);
      if (l) return l;
    }
  }
  return NULL;
}

static const lay_t *foresee_op(state *s, const tir_op *op, const tir_value *v) {
  switch (op->code) {
    case OP_load:
    case OP_atomic_rmw: return is_access(op) ? anchor_of(s, op)->layout : NULL;
    case OP_dot: return dot_layout(s, op);
    case OP_reduce:
      for (int i = 0; i < op->n_in; i++) {
        const lay_t *l = foresee(s, tir_in(op, i));
        if (l) return lay_reduced(s->lays, l, (int)tir_attr_int(op, ATTR_axis, 0));
      }
      return NULL;
    case OP_for: return foresee(s, op->regions[0]->args[v->index + 1]);
    case OP_while: return foresee(s, op->regions[0]->args[v->index]);
    case OP_if: {
      const lay_t *l = foresee(s, tir_in(op->regions[0]->last, v->index));
      return l ? l : foresee(s, tir_in(op->regions[1]->last, v->index));
    }
    default:
      if (elementwise(op) || op->code == OP_hint)
        for (int i = 0; i < op->n_in; i++) {
          const lay_t *l = foresee(s, tir_in(op, i));
          if (l) return l;
        }
      return NULL;
  }
}

/* The layout that a value will probably get; NULL when nothing speaks for one. */
static const lay_t *foresee(state *s, const tir_value *v) {
  if (!tir_is_tile(v->type)) return NULL;
  if (v->type->layout) return v->type->layout;
  if (v->id >= s->n_values || s->guessing[v->id]) return NULL;
  s->guessing[v->id] = 1;
  const lay_t *l = NULL;
  if (v->def) {
    l = foresee_op(s, v->def, v);
  } else if (v->region->owner && v->region->owner->code == OP_for && v->index > 0) {
    const tir_op *loop = v->region->owner;
    l = foresee(s, tir_in(v->region->last, v->index - 1));
    if (!l) l = foresee(s, tir_in(loop, v->index + 2));
    if (!l) l = foresee_uses(s, v, 3);
  } else if (v->region->owner && v->region->owner->code == OP_while) {
    const tir_op *loop = v->region->owner;
    l = foresee(s, tir_in(loop->regions[1]->last, v->index));
    if (!l) l = foresee(s, tir_in(loop, v->index));
    if (!l) l = foresee_uses(s, loop->regions[1]->args[v->index], 3);
  }
  s->guessing[v->id] = 0;
  return l;
}

/* ---- the walk ---- */

static void walk(state *s, tir_region *r);

/* Which layout an op with several tile operands works in: of those its rigid operands have, the one that makes the
   others cheapest to bring along; NULL if no operand is rigid. */
static const lay_t *agree(state *s, const tir_op *op, int first, int last) {
  const lay_t *best = NULL;
  int64_t best_cost = INT64_MAX;
  for (int i = first; i <= last; i++) {
    const tir_type *t = tir_in(op, i)->type;
    if (!tir_is_tile(t) || !t->layout || t->layout == best) continue;
    int64_t cost = 0;
    for (int j = first; j <= last; j++) {
      const tir_type *u = tir_in(op, j)->type;
      if (tir_is_tile(u) && u->layout && u->layout != t->layout)
        cost += lay_convert_cost(s->lays, u->layout, t->layout,
                                 8 * (tir_is_ptr(u) ? 8 : tir_dtypes[tir_dtype_of(u)].bytes));
    }
    if (cost < best_cost) best = t->layout, best_cost = cost;
  }
  return best;
}

/* 32-byte sectors that one warp's accesses touch in a layout, when elements along `axis` are contiguous in memory and
   everything else is far apart. */
static int64_t sectors(state *s, const tir_type *t, const lay_t *l, int axis, int bytes) {
  int vec = lay_vec_len(l, axis);
  if (vec * bytes > 16) vec = 16 / bytes;
  lay_vectors v = lay_vectors_of(s->a, l, axis, vec);
  lay_shape shape = shape_of(t);
  uint32_t axis_mask = ((1u << shape.bits[axis]) - 1) << lay_axis_shift(shape, axis);
  int64_t n = 0;
  for (int g = 0; g < v.n_groups; g++) {
    uint32_t row[64], line[64];
    int have = 0;
    for (uint32_t lane = 0; lane < 32; lane++) {
      uint32_t e = lay_apply(l, v.regs[g * vec], lane, 0, 0);
      uint32_t other = e & ~axis_mask, at = lay_coord(l, axis, e) * (uint32_t)bytes / 32;
      int k = 0;
      while (k < have && !(row[k] == other && line[k] == at)) k++;
      if (k == have) row[have] = other, line[have++] = at;
    }
    n += have;
  }
  return n;
}

static void lay_store(state *s, tir_op *op) {
  const anchor *x = anchor_of(s, op);
  const tir_type *t = tir_in(op, 1)->type;
  const lay_t *l = x->layout;
  if (t->layout && t->layout != l && op->code == OP_store) {
    /* The value may as well be stored as it lies if that touches no more memory. */
    int bytes = pointee_bytes(tir_in(op, 0)->type);
    int64_t here = sectors(s, t, t->layout, x->order[0], bytes), there = sectors(s, t, l, x->order[0], bytes);
    if (4 * here <= 5 * there) l = t->layout;
  }
  for (int i = 0; i < op->n_in; i++) use_in(s, op, i, l);
  if (op->n_out) set_layout(s, op->out[0], l);
}

/* The buffer of type t that `tile` has been stored to already, behind its definition. */
static tir_value *stored_before(const tir_value *tile, const tir_type *t) {
  for (const tir_use *u = tile->uses; u; u = u->next)
    if (u->op->code == OP_buffer_store && u->op->parent == tile->def->parent && tir_in(u->op, 1)->type == t)
      return tir_in(u->op, 1);
  return NULL;
}

/* A view of a dot's operand in shared memory. A transposed load is stored as it was loaded and looked at transposed.
   What is made outside of the dot's region (the queries of attention) is stored there, once. NULL if the tile is too
   narrow. */
static tir_value *in_shared(state *s, tir_op *dot, tir_value *v) {
  bool flip = v->def && v->def->code == OP_trans && loaded(v) == tir_in(v->def, 0)->def;
  tir_value *stored = flip ? tir_in(v->def, 0) : v;
  int inner = inner_axis(s, stored);
  const sh_t *sh = dot_shared_layout(s->cx, stored->type, inner < 0 ? 1 : inner);
  if (!sh) return NULL;
  if (!stored->type->layout) stored = in_layout(s, stored, default_layout(s, stored->type));
  const tir_type *t = tir_buffer_type(s->cx, tir_elem(stored->type), 2, stored->type->shape, sh, 0);
  bool outside = stored->def && stored->def->parent != dot->parent;
  tir_value *buffer = stored->def ? stored_before(stored, t) : NULL;
  tir_builder b = outside ? behind(s, stored) : tir_before(s->fn, dot);
  if (!buffer) {
    b.at = stored->def ? stored->def->at : dot->at;
    buffer = tir_build1(&b, OP_alloc, 0, NULL, t);
    tir_build(&b, OP_buffer_store, 2, (tir_value *[]){stored, buffer}, 0, NULL);
    if (outside) {
      tir_build(&b, OP_fence_async, 0, NULL, 0, NULL);
      tir_build(&b, OP_barrier, 0, NULL, 0, NULL);
    }
  }
  if (outside) b = tir_before(s->fn, dot);
  if (!flip) return buffer;
  const tir_attr *perm = tir_attr_of(v->def, ATTR_perm);
  const int axes[2] = {(int)perm->ints[0], (int)perm->ints[1]};
  const sh_t *turned = lay_sh_permute(s->lays, sh, axes);
  const tir_type *view = tir_buffer_type(s->cx, t->elem, 2, v->type->shape, turned, 0);
  tir_op *trans = tir_build(&b, OP_buffer_trans, 1, &buffer, 1, &view);
  tir_set_ints(trans, ATTR_perm, perm->n, perm->ints);
  return trans->out[0];
}

/* Elements of K whose products wgmma may sum by itself, which it does with fewer bits than f32 has when they are f8: a
   multiple of what one instruction takes; 0: any number. As in Triton a dot that does not say sums all of K and adds to
   the accumulator so, too; one that says K adds its own sum in f32. */
static int64_t imprecise_sums(const tir_op *dot) {
  const tir_type *a = tir_in(dot, 0)->type;
  int64_t most = tir_attr_int(dot, ATTR_max_imprecise, INT64_MAX);
  bool f8 = tir_dtype_of(a) == DT_f8e4m3 || tir_dtype_of(a) == DT_f8e5m2;
  if (!f8 || tir_dtype_of(tir_in(dot, 2)->type) != DT_f32 || most > a->shape[1]) return 0;
  enum { INSTRUCTION = 32 };
  return most <= INSTRUCTION ? INSTRUCTION : (most + INSTRUCTION - 1) / INSTRUCTION * INSTRUCTION;
}

/* Whether a product's operand is loaded, if it is in shared memory. */
static bool may_be_ahead(const tir_value *v) {
  while (v->def && v->def->code == OP_buffer_trans) v = tir_in(v->def, 0);
  for (const tir_use *u = v->uses; u; u = u->next)
    if (u->op->code == OP_buffer_store && (!tir_in(u->op, 0)->def || tir_in(u->op, 0)->def->code != OP_load))
      return false;
  return true;
}

/* The product whose sum `dot` alone goes on with, not waited for: products that add to the same registers end in their
   order. NULL if it is another accumulator, or one that is added to in other ways (tf32 from registers, sums of f8).
   Only in loops that copy ahead: elsewhere it would keep the tiles of all of them in shared memory at a time. */
static tir_value *under_way(const state *s, const tir_op *dot, const tir_value *acc) {
  const tir_op *loop = dot->parent->owner;
  tir_op *wait = acc->def;
  if (!loop || loop->code != OP_for || tir_attr_int(loop, ATTR_num_stages, s->fn->num_stages) < 2) return NULL;
  if (!wait || wait->code != OP_wgmma_wait || wait->n_in != 1 || wait->parent != dot->parent || acc->uses->next)
    return NULL;
  const tir_op *product = tir_in(wait, 0)->def, *each[] = {dot, product};
  for (int i = 0; i < 2; i++)
    if (tir_dtype_of(tir_in(each[i], 1)->type) == DT_f32 || tir_attr_of(each[i], ATTR_max_imprecise) ||
        !may_be_ahead(tir_in(product, i)))
      return NULL;
  return product->out[0];
}

/* acc + a*b by warpgroups, waited for at once: the pipeline may wait later. False if b is too narrow for shared memory.
 */
static bool lay_wgmma(state *s, tir_op *op, const dot_plan *p) {
  tir_value *b = in_shared(s, op, tir_in(op, 1)), *a = NULL;
  if (!b) return false;
  if (loaded(tir_in(op, 0))) a = in_shared(s, op, tir_in(op, 0));
  if (!a) a = in_layout(s, tir_in(op, 0), p->a);
  tir_value *acc = in_layout(s, tir_in(op, 2), p->c), *sum = under_way(s, op, acc);
  if (sum) {
    tir_op *wait = acc->def;
    tir_set_in(op, 2, sum);
    tir_remove(wait);
    acc = sum;
  }
  tir_builder at = tir_before(s->fn, op);
  tir_build(&at, OP_fence_async, 0, NULL, 0, NULL);
  tir_op *mma = tir_build(&at, OP_wgmma, 3, (tir_value *[]){a, b, acc}, 1, &acc->type);
  int64_t most = imprecise_sums(op);
  if (most) tir_set_int(mma, ATTR_max_imprecise, most);
  tir_op *wait = tir_build(&at, OP_wgmma_wait, 1, mma->out, 1, &acc->type);
  tir_set_int(wait, ATTR_pending, 0);
  pass_remark(s->pass, op->at, "on tensor cores by wgmma%s", p->transposed ? ", as the transposed product" : "");
  if (most) pass_remark(s->pass, op->at, "sums of %lld products added in f32", (long long)most);
  tir_replace_uses(op->out[0], wait->out[0]);
  tir_remove(op);
  return true;
}

/* An operand of mma.sync: through a buffer where it is loaded in a loop, so that the pipeline can copy it ahead. */
static void lay_fragment(state *s, tir_op *op, int i, const lay_t *l) {
  tir_value *v = tir_in(op, i), *view = NULL;
  const tir_op *load = loaded(v);
  bool ahead = load && s->pass->arch->has_cp_async && load->parent->owner && load->parent->owner->code == OP_for &&
               load->parent == op->parent && s->fn->num_stages > 1;
  if (ahead) view = in_shared(s, op, v);
  if (!view) {
    use_in(s, op, i, l);
    return;
  }
  tir_builder b = tir_before(s->fn, op);
  tir_set_in(op, i, tir_build1(&b, OP_buffer_load, 1, &view, tir_with_layout(s->cx, v->type, l)));
}

static void lay_dot(state *s, tir_op *op) {
  dot_plan p = plan_dot(s, op);
  if (p.why_slower && p.way == DOT_FMA) pass_remark(s->pass, op->at, "not on tensor cores: %s", p.why_slower);
  if (p.why_slower && p.way == DOT_MMA) pass_remark(s->pass, op->at, "not by wgmma: %s", p.why_slower);
  if (p.way == DOT_WGMMA) {
    if (lay_wgmma(s, op, &p)) return;
    BASE_ASSERT(!"dots.c promised operands that fit shared memory");
  }
  if (p.way == DOT_MMA) {
    tir_set_str(op, ATTR_inst, p.inst->name);
    pass_remark(s->pass, op->at, "on tensor cores by mma.sync %s", p.inst->name);
    lay_fragment(s, op, 0, p.a);
    lay_fragment(s, op, 1, p.b);
  } else {
    use_in(s, op, 0, p.a);
    use_in(s, op, 1, p.b);
  }
  use_in(s, op, 2, p.c);
  set_layout(s, op->out[0], p.c);
}

static const lay_t *or_default(state *s, const lay_t *l, const tir_type *t) { return l ? l : default_layout(s, t); }

static void lay_for(state *s, tir_op *op) {
  tir_region *body = op->regions[0];
  for (int i = 1; i < body->n_args; i++) {
    tir_value *arg = body->args[i];
    if (!tir_is_tile(arg->type)) continue;
    const lay_t *l = or_default(s, foresee(s, arg), arg->type);
    set_layout(s, arg, l);
    use_in(s, op, i + 2, l);
  }
  walk(s, body);
  for (int i = 1; i < body->n_args; i++) {
    const lay_t *l = tir_is_tile(body->args[i]->type) ? body->args[i]->type->layout : NULL;
    if (!l) continue;
    use_in(s, body->last, i - 1, l);
    set_layout(s, op->out[i - 1], l);
  }
}

static void lay_while(state *s, tir_op *op) {
  tir_region *before = op->regions[0], *after = op->regions[1];
  for (int i = 0; i < before->n_args; i++) {
    tir_value *arg = before->args[i];
    if (!tir_is_tile(arg->type)) continue;
    const lay_t *l = or_default(s, foresee(s, arg), arg->type);
    set_layout(s, arg, l);
    use_in(s, op, i, l);
  }
  walk(s, before);
  for (int i = 0; i < after->n_args; i++) {
    const lay_t *l = tir_is_tile(before->args[i]->type) ? before->args[i]->type->layout : NULL;
    if (!l) continue;
    use_in(s, before->last, i + 1, l);
    set_layout(s, after->args[i], l);
    set_layout(s, op->out[i], l);
  }
  walk(s, after);
  for (int i = 0; i < before->n_args; i++)
    if (tir_is_tile(before->args[i]->type)) use_in(s, after->last, i, before->args[i]->type->layout);
}

static void lay_if(state *s, tir_op *op) {
  walk(s, op->regions[0]);
  walk(s, op->regions[1]);
  for (int i = 0; i < op->n_out; i++) {
    if (!tir_is_tile(op->out[i]->type)) continue;
    const lay_t *l = foresee_op(s, op, op->out[i]);
    if (!l) l = or_default(s, foresee_uses(s, op->out[i], 3), op->out[i]->type);
    use_in(s, op->regions[0]->last, i, l);
    use_in(s, op->regions[1]->last, i, l);
    set_layout(s, op->out[i], l);
  }
}

/* Ops that need some layout for their operands and have no opinion which. */
static const lay_t *any(state *s, tir_op *op) {
  for (int i = 0; i < op->n_in; i++)
    if (tir_is_tile(tir_in(op, i)->type)) {
      const lay_t *l = agree(s, op, i, i);
      if (!l) use_in(s, op, i, l = default_layout(s, tir_in(op, i)->type));
    }
  return NULL;
}

static void lay_reduce_op(state *s, tir_op *op) {
  const lay_t *l = or_default(s, agree(s, op, 0, op->n_in - 1), tir_in(op, 0)->type);
  for (int i = 0; i < op->n_in; i++) use_in(s, op, i, l);
  const lay_t *out = lay_reduced(s->lays, l, (int)tir_attr_int(op, ATTR_axis, 0));
  for (int i = 0; i < op->n_out; i++)
    if (tir_is_tile(op->out[i]->type)) set_layout(s, op->out[i], out);
}

static void lay_shape_op(state *s, tir_op *op) {
  const lay_t *l = tir_in(op, 0)->type->layout;
  switch (op->code) {
    case OP_reshape: l = lay_reshape(s->lays, l, shape_of(op->out[0]->type)); break;
    case OP_trans: {
      int axes[TIR_MAX_RANK];
      const tir_attr *perm = tir_attr_of(op, ATTR_perm);
      for (int k = 0; k < perm->n; k++) axes[k] = (int)perm->ints[k];
      l = lay_permute(s->lays, l, axes);
      break;
    }
    default: break;
  }
  set_layout(s, op->out[0], l);
}

static void lay_join_op(state *s, tir_op *op) {
  if (!tir_is_tile(tir_in(op, 0)->type)) { /* two scalars: both in every thread */
    set_layout(s, op->out[0], lay_replicated(s->lays, shape_of(op->out[0]->type), s->fn->num_warps));
    return;
  }
  const lay_t *l = or_default(s, agree(s, op, 0, 1), tir_in(op, 0)->type);
  use_in(s, op, 0, l);
  use_in(s, op, 1, l);
  set_layout(s, op->out[0], lay_join(s->lays, l));
}

static void lay_split_op(state *s, tir_op *op) {
  const tir_type *t = tir_in(op, 0)->type;
  const lay_t *half = t->layout ? lay_split(s->lays, t->layout) : NULL;
  if (!half) {
    if (tir_is_tile(op->out[0]->type)) {
      const lay_t *l = lay_split_back(s->lays, default_layout(s, op->out[0]->type));
      use_in(s, op, 0, l);
      half = lay_split(s->lays, l);
    } else {
      use_in(s, op, 0, lay_replicated(s->lays, shape_of(t), s->fn->num_warps));
    }
  }
  for (int i = 0; i < 2; i++)
    if (tir_is_tile(op->out[i]->type)) set_layout(s, op->out[i], half);
}

static void lay_op(state *s, tir_op *op) {
  switch (op->code) {
    case OP_for: lay_for(s, op); return;
    case OP_while: lay_while(s, op); return;
    case OP_if: lay_if(s, op); return;
    case OP_yield:
    case OP_condition:
    case OP_return: return; /* the owner's business */
    case OP_load:
      if (is_access(op)) {
        const lay_t *l = anchor_of(s, op)->layout;
        for (int i = 0; i < op->n_in; i++) use_in(s, op, i, l);
        set_layout(s, op->out[0], l);
      }
      return;
    case OP_store:
    case OP_atomic_rmw:
      if (is_access(op)) lay_store(s, op);
      return;
    case OP_dot: lay_dot(s, op); return;
    case OP_reduce: lay_reduce_op(s, op); return;
    case OP_join: lay_join_op(s, op); return;
    case OP_split: lay_split_op(s, op); return;
    case OP_print:
    case OP_assert:
    case OP_unsplat: any(s, op); return;
    default: break;
  }
  if (op->n_out != 1 || !tir_is_tile(op->out[0]->type) || flexible(op->out[0])) return;
  if (op->code == OP_reshape || op->code == OP_trans) {
    lay_shape_op(s, op);
    return;
  }
  BASE_ASSERT(elementwise(op) || op->code == OP_hint);
  const lay_t *l = agree(s, op, 0, op->n_in - 1);
  BASE_ASSERT(l != NULL);
  for (int i = 0; i < op->n_in; i++) use_in(s, op, i, l);
  set_layout(s, op->out[0], l);
}

static void walk(state *s, tir_region *r) {
  for (tir_op *op = r->first, *next; op; op = next) {
    next = op->next;
    lay_op(s, op);
  }
}

/* Flexible originals have been replaced by their versions, last uses first. */
static void drop_originals(tir_region *r) {
  for (tir_op *op = r->last, *prev; op; op = prev) {
    prev = op->prev;
    for (int i = 0; i < op->n_regions; i++) drop_originals(op->regions[i]);
    if (op->n_out == 1 && tir_is_tile(op->out[0]->type) && !op->out[0]->type->layout && tir_is_pure(op)) tir_remove(op);
  }
}

/* The op of region r that encloses op, which lies somewhere inside of r. */
static tir_op *at_level(const tir_region *r, tir_op *op) {
  while (op->parent != r) op = op->parent->owner;
  return op;
}

/* A conversion may synchronise all threads, so it moves down to its first use: loads that stand side by side in the
   source stay side by side and wait together. It never enters a loop, where it would run each time. */
static void sink_conversions(tir_region *r) {
  for (tir_op *op = r->last, *prev; op; op = prev) {
    prev = op->prev;
    for (int i = 0; i < op->n_regions; i++) sink_conversions(op->regions[i]);
    if (op->code != OP_convert_layout || !op->out[0]->uses) continue;
    tir_op *first = NULL, *at = op->next;
    while (at && !first) {
      for (const tir_use *u = op->out[0]->uses; u && !first; u = u->next)
        if (at_level(r, u->op) == at) first = at;
      at = at->next;
    }
    if (first && first != op->next) tir_move_before(op, first);
  }
}

bool pass_layouts(tir_fn *fn, const pass_cx *cx) {
  dot_widen_f8(fn, cx);
  tir_renumber(fn);
  arena *a = arena_new();
  state s = {.fn = fn, .cx = fn->cx, .pass = cx, .lays = fn->cx->layouts, .a = a, .n_values = fn->n_values};
  s.facts = axis_analyse(fn, a);
  s.guessing = ARENA_ARRAY(a, uint8_t, fn->n_values + 1);
  find_anchors(&s);
  walk(&s, fn->body);
  drop_originals(fn->body);
  sink_conversions(fn->body);
  arena_free(a);
  return true;
}
