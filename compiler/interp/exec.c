/* Control flow and elementwise ops.
 *
 * Undefined elements follow the arithmetic exactly as far as it is certain: `select` passes on the chosen side only,
 * and 0 & x, all ones | x and 0 * x (integers) are defined whatever x is. Everything else is undefined if an operand
 * is. Nothing is reported here but a branch or a bound that depends on an undefined value: what is masked off later
 * does not matter, and a checker that cries at every such lane is switched off.
 *
 * In a reduction's region the values are arrays, one element per pair that is combined. Ops do not notice: they run
 * over as many elements as their operands have, and an operand with one element is spread over the others' number. */
#include "compiler/interp/machine.h"

/* ---- steps ---- */

static void stop(worker *w) { w->stopped = true; }

static bool step(worker *w, const tir_op *op, uint64_t cost) {
  if (atomic_load_explicit(&w->m->stop, memory_order_relaxed)) {
    stop(w);
  } else if ((w->steps += cost) > w->m->max_steps) {
    machine_lock(w);
    if (finding_first(w, &D_interp_steps, op->at)) {
      diag *d = diag_add(w->m->sink, op->at, &D_interp_steps, (unsigned long long)w->m->max_steps);
      finding_describe(w, d, NULL, NO_LANE);
      diag_fix(d, op->at, "does this loop end? Programs run one after the other here: none can wait for a later one");
    }
    atomic_store(&w->m->stop, true);
    machine_unlock(w);
    stop(w);
  }
  return !w->stopped;
}

void release_dead(worker *w, const plan_op *p) {
  for (int i = 0; i < p->n_dead; i++) val_clear(w, &w->slots[p->dead[i]]);
}

/* ---- control flow ---- */

static void check_branch(worker *w, const tir_op *op, const tir_value *v, const char *what) {
  const ival *x = val_of(w, v);
  if (!x->undef || !*val_undef(x)) return;
  machine_lock(w);
  finding_undefined(w, &D_interp_undef_branch, what, op, v->type, NO_LANE, *val_undef(x));
  machine_unlock(w);
}

/* The operands of an op from `skip` on, held aside: what a loop carries may change places. */
static void hold(worker *w, const tir_op *op, int skip, ival *held) {
  for (int i = skip; i < op->n_in; i++) held[i - skip] = val_share(val_of(w, tir_in(op, i)));
}

static void hand_to_args(worker *w, ival *taken, const tir_region *r, int first) {
  for (int i = first; i < r->n_args; i++) val_take(w, val_of(w, r->args[i]), &taken[i - first]);
}

static void hand_to_results(worker *w, ival *taken, const tir_op *op) {
  for (int i = 0; i < op->n_out; i++) val_take(w, val_of(w, op->out[i]), &taken[i]);
}

static bool index_in_range(tir_dtype d, uint64_t iv, uint64_t ub, bool down) {
  int64_t i = tir_scalar_as_int(d, (tir_scalar){iv}), u = tir_scalar_as_int(d, (tir_scalar){ub});
  if (dt_is_signed(d)) return down ? i > u : i < u;
  return iv < ub;
}

static void exec_for(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  const tir_region *r = p->regions[0]->region;
  const tir_type *t = tir_in(op, 0)->type;
  tir_dtype d = t->dtype;
  uint64_t bound[3];
  for (int i = 0; i < 3; i++) {
    check_branch(w, op, tir_in(op, i), "how often this loop runs");
    bound[i] = val_bits(val_of(w, tir_in(op, i)), t, 0);
  }
  int64_t known;
  bool down = tir_known_int(tir_in(op, 2), &known) && known < 0 && dt_is_signed(d);
  ival *carried = vals_new(w, op->n_out);
  hold(w, op, 3, carried);
  bool more = true;
  for (uint64_t iv = bound[0]; more && index_in_range(d, iv, bound[1], down) && step(w, op, 1);) {
    memcpy(val_new(w, val_of(w, r->args[0]), 1, elem_bytes(t)), &iv, (size_t)elem_bytes(t));
    hand_to_args(w, carried, r, 1);
    const plan_op *yield = exec_region(w, p->regions[0]);
    if (!yield) return;
    hold(w, yield->op, 0, carried);
    release_dead(w, yield);
    uint64_t next = tir_scalar_int(d, (int64_t)(iv + bound[2])).bits;
    more = next == iv || index_in_range(d, iv, next, down); /* not where it has wrapped */
    iv = next;
  }
  hand_to_results(w, carried, op);
  vals_drop(w, carried);
}

static void exec_while(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  ival *carried = vals_new(w, op->n_out);
  hold(w, op, 0, carried);
  while (step(w, op, 1)) {
    hand_to_args(w, carried, p->regions[0]->region, 0);
    const plan_op *condition = exec_region(w, p->regions[0]);
    if (!condition) return;
    check_branch(w, condition->op, tir_in(condition->op, 0), "whether this loop goes on");
    bool go_on = val_bits(val_of(w, tir_in(condition->op, 0)), tir_in(condition->op, 0)->type, 0) & 1;
    hold(w, condition->op, 1, carried);
    release_dead(w, condition);
    if (!go_on) break;
    hand_to_args(w, carried, p->regions[1]->region, 0);
    const plan_op *yield = exec_region(w, p->regions[1]);
    if (!yield) return;
    hold(w, yield->op, 0, carried);
    release_dead(w, yield);
  }
  hand_to_results(w, carried, op);
  vals_drop(w, carried);
}

static void exec_if(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  check_branch(w, op, tir_in(op, 0), "this branch");
  bool c = val_bits(val_of(w, tir_in(op, 0)), tir_in(op, 0)->type, 0) & 1;
  const plan_op *yield = exec_region(w, p->regions[c ? 0 : 1]);
  if (!yield) return;
  ival *results = vals_new(w, op->n_out);
  hold(w, yield->op, 0, results);
  release_dead(w, yield);
  hand_to_results(w, results, op);
  vals_drop(w, results);
}

/* ---- elementwise ops ---- */

typedef struct operand {
  const ival *x;
  ival spread; /* x with its one element repeated, where that was needed */
} operand;

static bool is_zero(const char *at, int bytes) {
  uint64_t v = 0;
  memcpy(&v, at, (size_t)bytes);
  return v == 0;
}

static bool is_ones(const char *at, tir_dtype d) {
  uint64_t v = 0;
  memcpy(&v, at, tir_dtypes[d].bytes);
  return v == UINT64_MAX >> (64 - tir_dtypes[d].bits);
}

/* Whether the defined side i of a binary op decides the result alone. */
static bool decides(tir_opcode code, tir_dtype d, const ival *x, size_t i) {
  int bytes = tir_dtypes[d].bytes;
  const char *at = (const char *)val_at(x) + i * (size_t)bytes;
  if (code == OP_and || code == OP_mul) return is_zero(at, bytes);
  return code == OP_or && is_ones(at, d);
}

static void undef_of_select(const operand *in, uint8_t *out, size_t n) {
  const uint8_t *c = val_at(in[0].x), *cu = val_undef(in[0].x);
  const uint8_t *side[2] = {val_undef(in[2].x), val_undef(in[1].x)};
  for (size_t i = 0; i < n; i++) {
    const uint8_t *chosen = side[c[i] & 1];
    out[i] = cu && cu[i] ? cu[i] : chosen ? chosen[i] : 0;
  }
}

static void propagate_undef(worker *w, const tir_op *op, const operand *in, ival *out) {
  bool any = false;
  for (int i = 0; i < op->n_in; i++) any = any || in[i].x->undef;
  if (!any) return;
  uint8_t *u = val_undef_new(w, out);
  if (op->code == OP_select) {
    undef_of_select(in, u, out->n);
    return;
  }
  for (int k = 0; k < op->n_in; k++) {
    const uint8_t *from = val_undef(in[k].x);
    for (size_t i = 0; from && i < out->n; i++)
      if (!u[i]) u[i] = from[i];
  }
  tir_dtype d = tir_dtype_of(tir_in(op, 0)->type);
  if ((op->code != OP_and && op->code != OP_or && op->code != OP_mul) || dt_is_float(d)) return;
  for (int k = 0; k < 2; k++) {
    const uint8_t *own = val_undef(in[k].x);
    for (size_t i = 0; i < out->n; i++)
      if (u[i] && !(own && own[i]) && decides(op->code, d, in[k].x, i)) u[i] = 0;
  }
}

static void mark_divisions(worker *w, const plan_op *p, const operand *in, ival *out) {
  int bytes = elem_bytes(tir_in(p->op, 1)->type);
  uint8_t *u = val_undef_new(w, out);
  const char *divisor = val_at(in[1].x);
  for (size_t i = 0; i < out->n; i++)
    if (!u[i] && is_zero(divisor + i * (size_t)bytes, bytes)) u[i] = p->origin;
}

/* Accesses are widened on the assumption that indices are divided by positive numbers (analysis/axis.c). */
static void check_divisor(worker *w, const tir_op *op, const ival *divisor) {
  const tir_type *t = tir_in(op, 1)->type;
  const uint8_t *undef = val_undef(divisor);
  for (size_t i = 0; i < divisor->n; i++) {
    int64_t by = tir_scalar_as_int(tir_dtype_of(t), (tir_scalar){.bits = val_bits(divisor, t, i)});
    if (by >= 0 || (undef && undef[i])) continue;
    machine_lock(w);
    if (finding_first(w, &D_interp_negative_divisor, op->at)) {
      diag *d = diag_add(w->m->sink, op->at, &D_interp_negative_divisor, (long long)by);
      finding_describe(w, d, t, (int64_t)i);
      diag_fix(d, op->at, "divide by a positive number, e.g. maximum(d, 1)");
    }
    machine_unlock(w);
    return;
  }
}

/* Which buffer the pointers of the result belong to. */
static void propagate_buffers(worker *w, const tir_op *op, const operand *in, ival *out) {
  out->from_all = BUFFER_UNKNOWN;
  if (!tir_is_ptr(op->out[0]->type)) return;
  const ival *x = in[0].x;
  if (op->code == OP_select) {
    const ival *a = in[1].x, *b = in[2].x;
    x = a;
    if (a->from || b->from || a->from_all != b->from_all) {
      const uint8_t *c = val_at(in[0].x);
      out->from = block_new(&w->pool, out->n * sizeof(int32_t));
      int32_t *from = block_at(out->from);
      for (size_t i = 0; i < out->n; i++) from[i] = val_buffer(c[i] & 1 ? a : b, i);
      return;
    }
  }
  out->from_all = x->from_all;
  if (!x->from) return;
  out->from = x->from;
  out->from->refs++;
}

static int pointee_bytes(const tir_type *t) { return elem_bytes(tir_elem(t)->elem); }

static void exec_elementwise(worker *w, const plan_op *p) {
  enum { MAX_IN = 3 };
  const tir_op *op = p->op;
  operand in[MAX_IN];
  tir_dtype dt[MAX_IN];
  const void *at[MAX_IN];
  size_t n = 1;
  for (int i = 0; i < op->n_in; i++) {
    in[i] = (operand){.x = val_of(w, tir_in(op, i))};
    if (in[i].x->n > n) n = in[i].x->n;
  }
  for (int i = 0; i < op->n_in; i++) {
    const tir_type *t = tir_in(op, i)->type;
    if (in[i].x->n < n) {
      val_splat(w, &in[i].spread, in[i].x, n, elem_bytes(t));
      in[i].x = &in[i].spread;
    }
    dt[i] = tir_dtype_of(t);
    at[i] = val_at(in[i].x);
  }
  const tir_type *t = op->out[0]->type;
  ival out = {0};
  void *data = val_new(w, &out, n, elem_bytes(t));
  tir_eval_opts opts = {.rtz = op->code == OP_cast && tir_attr_of(op, ATTR_rounding)};
  if (op->code == OP_addptr) opts.scale = pointee_bytes(t);
  int64_t by_zero = tir_eval(op->code, op->n_in, dt, at, tir_dtype_of(t), data, n, opts);
  propagate_undef(w, op, in, &out);
  if (by_zero) mark_divisions(w, p, in, &out);
  if (p->index) check_divisor(w, op, in[1].x);
  propagate_buffers(w, op, in, &out);
  for (int i = 0; i < op->n_in; i++)
    if (in[i].x == &in[i].spread) val_clear(w, &in[i].spread);
  val_take(w, val_of(w, op->out[0]), &out);
}

/* ---- checks that a kernel asks for ---- */

static void exec_assert(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  const ival *c = val_of(w, tir_in(op, 0)), *mask = op->n_in == 2 ? val_of(w, tir_in(op, 1)) : NULL;
  const uint8_t *ok = val_at(c), *on = mask ? val_at(mask) : NULL, *undef = val_undef(c);
  const tir_type *t = tir_in(op, 0)->type;
  machine_lock(w);
  for (size_t i = 0; i < c->n; i++) {
    if (on && !on[i]) continue;
    if (undef && undef[i]) {
      finding_undefined(w, &D_interp_undef_branch, "this assertion", op, t, (int64_t)i, undef[i]);
    } else if (!ok[i] && finding_first(w, &D_interp_assert, op->at)) {
      diag *d = diag_add(w->m->sink, op->at, &D_interp_assert, tir_attr_str(op, ATTR_message, ""));
      finding_describe(w, d, t, (int64_t)i);
    }
  }
  machine_unlock(w);
}

static void exec_assume(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  const ival *c = val_of(w, tir_in(op, 0));
  check_branch(w, op, tir_in(op, 0), "this assumption");
  if ((c->undef && *val_undef(c)) || (val_bits(c, tir_in(op, 0)->type, 0) & 1)) return;
  machine_lock(w);
  if (finding_first(w, &D_interp_assume, op->at))
    finding_describe(w, diag_add(w->m->sink, op->at, &D_interp_assume), NULL, NO_LANE);
  machine_unlock(w);
}

static void set_i32(worker *w, const tir_op *op, int64_t v) {
  *(int32_t *)val_new(w, val_of(w, op->out[0]), 1, 4) = (int32_t)v;
}

/* ---- dispatch ---- */

/* Whoever uses a product that was not waited for gets no value. Loops may carry it on, the next product may add to it.
 */
static void poison_products(worker *w, const tir_op *op) {
  if (op->n_regions || op->code == OP_wgmma_wait) return;
  for (int i = 0; i < op->n_in; i++) {
    ival *x = val_of(w, tir_in(op, i));
    if (!x->in_flight || (op->code == OP_wgmma && i == 2)) continue;
    size_t bytes = x->n * (size_t)elem_bytes(tir_in(op, i)->type);
    ival lost = {0};
    memset(val_new(w, &lost, x->n, elem_bytes(tir_in(op, i)->type)), 0, bytes);
    memset(val_undef_new(w, &lost), x->origin, x->n);
    val_take(w, x, &lost);
  }
}

static void exec_op(worker *w, const plan_op *p) {
  const tir_op *op = p->op;
  if (w->async) poison_products(w, op);
  if (tir_ops[op->code].effect == FX_SHARED || op->code == OP_buffer_at || op->code == OP_buffer_trans ||
      op->code == OP_tensor_map || op->code == OP_tma_store) {
    exec_shared(w, p);
    return;
  }
  if (tir_ops[op->code].flags & OPF_ELT) {
    exec_elementwise(w, p);
    return;
  }
  switch (op->code) {
    case OP_for: exec_for(w, p); break;
    case OP_while: exec_while(w, p); break;
    case OP_if: exec_if(w, p); break;
    case OP_program_id: set_i32(w, op, w->pid[tir_attr_int(op, ATTR_axis, 0)]); break;
    case OP_num_programs: set_i32(w, op, w->m->grid[tir_attr_int(op, ATTR_axis, 0)]); break;
    case OP_reduce: exec_reduce(w, p); break;
    case OP_dot: exec_dot(w, p); break;
    case OP_load: exec_load(w, p); break;
    case OP_store: exec_store(w, p); break;
    case OP_atomic_rmw: exec_atomic(w, p); break;
    case OP_print: exec_print(w, p); break;
    case OP_assert: exec_assert(w, p); break;
    case OP_assume: exec_assume(w, p); break;
    case OP_debug_barrier:
    case OP_barrier: break;
    default: exec_tile(w, p);
  }
}

const plan_op *exec_region(worker *w, const plan_region *r) {
  for (int i = 0; i < r->n; i++) {
    const plan_op *p = &r->ops[i];
    if (tir_is_term(p->op)) return p;
    if (!p->once || !val_of(w, p->op->out[0])->data) {
      if (!step(w, p->op, p->cost)) return NULL;
      exec_op(w, p);
      if (w->stopped) return NULL;
    }
    release_dead(w, p);
  }
  base_panic("a region without terminator");
}
