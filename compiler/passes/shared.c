/* shared: an offset in shared memory for every buffer and for every op that needs scratch.
 *
 * Ops are numbered in program order; each piece gets the interval of numbers in which its bytes matter, and pieces
 * whose intervals overlap must not overlap in memory. Largest first, each at the lowest offset that is free (first
 * fit). If that is too much, blocks run one program each after all: then rings end where the program does.
 *
 *   scratch  lives while its op runs. Two neighbours in one place would need a barrier between the reads of the first
 *            and the writes of the second; in different places, the barrier inside the second separates the first from
 *            the third. So a small scratch is kept until the next op with scratch has run.
 *   alloc    lives from its first use to its last, over the whole of a loop that uses it and does not contain it; and
 *            until asynchronous work on it has been waited for. A ring lives from the start.
 *   panels   scratch of a tma_store, which the copy engine reads when the op is over: live from there, or from the
 *            start of the outermost loop around it, to the end of the function.
 *   programs scratch of next_program: all the time. */
#include "compiler/passes/persistent.h"
#include "compiler/passes/shared.h"

#include "compiler/ir/scratch.h"

enum {
  ALIGN = 16,
  RING_ALIGN = 1024,   /* the largest of a piece */
  SPREAD_LIMIT = 8192, /* bytes: scratch up to this size is kept apart from its neighbour's */
  MOST_NOTES = 8
};

typedef struct piece {
  tir_op *op;
  bool common; /* for all programs of a gang */
  int64_t bytes, align, at;
  int from, to; /* op numbers, inclusive */
} piece;

typedef struct numbering {
  arena *a;
  int gang;          /* programs of a block */
  VEC(tir_op *) ops; /* in program order */
  VEC(int) end;      /* of each op: number of the last op inside of it, or its own */
  VEC(piece) pieces;
} numbering;

static int number_of(const numbering *n, const tir_op *op) {
  int i = 0;
  while (n->ops.at[i] != op) i++;
  return i;
}

static void number(numbering *n, tir_region *r) {
  for (tir_op *op = r->first; op; op = op->next) {
    int at = n->ops.n;
    VEC_PUSH(n->a, n->ops, op);
    VEC_PUSH(n->a, n->end, at);
    for (int i = 0; i < op->n_regions; i++) number(n, op->regions[i]);
    n->end.at[at] = n->ops.n - 1;
  }
}

static bool waits_for_all(const tir_op *op) {
  return (op->code == OP_wgmma_wait || op->code == OP_copy_wait) && tir_attr_int(op, ATTR_pending, 1) == 0;
}

static bool is_within(const tir_op *owner, const tir_op *op) {
  for (int i = 0; i < owner->n_regions; i++)
    if (tir_region_contains(owner->regions[i], op->parent)) return true;
  return false;
}

/* Widens p over every use of a buffer or a view of it. */
static void live_over_uses(const numbering *n, piece *p, const tir_value *buffer, bool *async) {
  for (const tir_use *u = buffer->uses; u; u = u->next) {
    tir_op *op = u->op;
    if (op->code == OP_buffer_at || op->code == OP_buffer_trans) {
      live_over_uses(n, p, op->out[0], async);
      continue;
    }
    if (op->code == OP_tma_load)
      for (int i = 0; i < op->n_out; i++)
        if (tir_in(op, 2 * i + 1) == buffer) live_over_uses(n, p, op->out[i], async);
    if (op->code == OP_wgmma || op->code == OP_copy_async) *async = true;
    int from = number_of(n, op), to = from;
    for (const tir_op *owner = op->parent->owner; owner; owner = owner->parent->owner)
      if (tir_is_loop(owner) && !is_within(owner, p->op)) {
        from = number_of(n, owner);
        to = n->end.at[from];
      }
    if (from < p->from) p->from = from;
    if (to > p->to) p->to = to;
  }
}

static void find_pieces(numbering *n) {
  int last_small = -1; /* piece that waits for the next op with scratch */
  for (int i = 0; i < n->ops.n; i++) {
    tir_op *op = n->ops.at[i];
    tir_scratch s = tir_scratch_of(op, n->a);
    if (!s.bytes) continue;
    piece p = {.op = op, .bytes = s.bytes, .align = s.align, .from = i, .to = i};
    p.common = n->gang > 1 && (tir_attr_int(op, ATTR_common, 0) || op->code == OP_next_program);
    if (op->code == OP_alloc) {
      bool async = false;
      p.from = n->ops.n;
      live_over_uses(n, &p, op->out[0], &async);
      if (p.from > p.to) p.from = p.to = i;
      if (tir_attr_int(op, ATTR_ring, 0)) p.from = 0; /* the producer begins when the kernel does */
      while (async && p.to + 1 < n->ops.n && !waits_for_all(n->ops.at[p.to])) p.to++;
    } else if (op->code == OP_tma_store) {
      for (const tir_op *owner = op->parent->owner; owner; owner = owner->parent->owner)
        if (tir_is_loop(owner)) p.from = number_of(n, owner);
      p.to = n->ops.n - 1;
    } else if (op->code == OP_next_program) {
      p.from = 0;
      p.to = n->ops.n - 1;
    } else {
      if (last_small >= 0 && s.bytes <= SPREAD_LIMIT) n->pieces.at[last_small].to = i;
      last_small = s.bytes <= SPREAD_LIMIT ? n->pieces.n : -1;
    }
    VEC_PUSH(n->a, n->pieces, p);
  }
}

static bool before(const piece *x, const piece *y) {
  return x->bytes != y->bytes ? x->bytes > y->bytes : x->from < y->from;
}

static void sort(numbering *n) {
  for (int i = 1; i < n->pieces.n; i++)
    for (int k = i; k > 0 && before(&n->pieces.at[k], &n->pieces.at[k - 1]); k--) {
      piece t = n->pieces.at[k];
      n->pieces.at[k] = n->pieces.at[k - 1];
      n->pieces.at[k - 1] = t;
    }
}

static int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

/* The lowest aligned offset, from `at` on, at which p meets no placed piece that lives at the same time. */
static int64_t first_fit(const numbering *n, int placed, const piece *p, int64_t at) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < placed; i++) {
      const piece *q = &n->pieces.at[i];
      if (q->to < p->from || p->to < q->from || q->common != p->common) continue;
      if (q->at + q->bytes <= at || at + p->bytes <= q->at) continue;
      at = round_up(q->at + q->bytes, p->align);
      moved = true;
    }
  }
  return at;
}

/* Bytes of a block: of what a gang shares, and where that and what one of its programs needs end. */
typedef struct extent {
  int64_t common, one, all;
} extent;

/* Places the pieces, largest first: what a gang shares in front of what each of its programs has for itself. */
static extent place(numbering *n) {
  extent e = {0};
  sort(n);
  for (int common = n->gang > 1; common >= 0; common--) {
    for (int i = 0; i < n->pieces.n; i++) {
      piece *p = &n->pieces.at[i];
      if (p->common != common) continue;
      p->at = first_fit(n, i, p, e.common);
      if (p->at + p->bytes > e.one) e.one = p->at + p->bytes;
    }
    if (common) e.common = e.one = round_up(e.one, RING_ALIGN);
  }
  if (n->gang > 1) e.one = round_up(e.one, RING_ALIGN);
  e.all = round_up(e.common + n->gang * (e.one - e.common), ALIGN);
  return e;
}

/* What would fit: fewer stages of the buffers that have most, else tiles of half the size and so on. By placing the
   pieces again with those sizes, for their lifetimes stay. */
static void suggest(diag *d, const tir_fn *fn, const numbering *n, int64_t room) {
  int most = 1;
  for (int i = 0; i < n->pieces.n; i++) {
    const tir_op *op = n->pieces.at[i].op;
    if (op->code == OP_alloc && op->out[0]->type->stages > most) most = op->out[0]->type->stages;
  }
  for (int step = 1; step < most + 6; step++) {
    int stages = step < most ? most - step : 1, part = step < most ? 1 : 1 << (step - most + 1);
    numbering less = {.a = n->a, .gang = n->gang};
    for (int i = 0; i < n->pieces.n; i++) {
      piece p = n->pieces.at[i];
      int own = p.op->code == OP_alloc ? p.op->out[0]->type->stages : 0;
      if (own > stages) p.bytes = p.bytes / own * stages;
      p.bytes = (p.bytes + part - 1) / part;
      VEC_PUSH(less.a, less.pieces, p);
    }
    int64_t bytes = place(&less).all;
    if (bytes > room) continue;
    if (part == 1)
      diag_fix(d, fn->at, "num_stages=%d would fit, with %lld bytes", stages, (long long)bytes);
    else
      diag_fix(d, fn->at, "blocks of 1/%d of the elements would fit%s, with about %lld bytes", part,
               most > 1 ? " with num_stages=1" : "", (long long)bytes);
    return;
  }
}

static void too_big(const pass_cx *cx, const tir_fn *fn, const numbering *n, int64_t total) {
  diag *d = diag_add(cx->sink, n->pieces.at[0].op->at, &D_shared_too_big, fn->name, (long long)total, cx->arch->name,
                     cx->arch->shared_block);
  for (int i = 0; i < n->pieces.n && i < MOST_NOTES; i++) {
    const piece *p = &n->pieces.at[i];
    if (p->op->code == OP_next_program) continue;
    const tir_value *in = p->op->code == OP_tma_store ? tir_in(p->op, 1) : p->op->n_in ? tir_in(p->op, 0) : NULL;
    const tir_type *t = in ? in->type : p->op->out[0]->type;
    diag_note(d, p->op->at, "%lld bytes: %s%s", (long long)p->bytes, p->op->code == OP_alloc ? "" : "to rearrange ",
              tir_type_text(n->a, t));
  }
  suggest(d, fn, n, cx->arch->shared_block);
}

int64_t shared_bytes_of(tir_fn *fn, const tir_op *const *without, int n_without) {
  numbering n = {.a = arena_new(), .gang = fn->gang};
  number(&n, fn->body);
  find_pieces(&n);
  for (int i = 0; i < n.pieces.n; i++)
    for (int k = 0; k < n_without; k++)
      if (n.pieces.at[i].op == without[k]) n.pieces.at[i].bytes = 0;
  int64_t total = place(&n).all;
  arena_free(n.a);
  return total;
}

bool pass_shared(tir_fn *fn, const pass_cx *cx) {
  numbering n = {.a = arena_new()};
  if (tir_is_persistent(fn)) {
    bool fits = shared_bytes_of(fn, NULL, 0) <= cx->arch->shared_block;
    pass_remark(cx, fn->at,
                fits ? "a block runs one program after the other"
                     : "a block runs one program: there is no shared memory for more");
    if (!fits) {
      persistent_unwrap(fn);
      fn->gang = 1;
    }
  }
  n.gang = fn->gang;
  number(&n, fn->body);
  find_pieces(&n);
  extent e = place(&n);
  fn->shared_bytes = e.all;
  fn->gang_bytes = e.common;
  for (int i = 0; i < n.pieces.n; i++) tir_set_int(n.pieces.at[i].op, ATTR_scratch, n.pieces.at[i].at);
  if (fn->shared_bytes > cx->arch->shared_block) too_big(cx, fn, &n, fn->shared_bytes);
  arena_free(n.a);
  return true;
}
