/* The verifier: structure. What one op demands of its operands is in verify_ops.c.
 *
 * Three walks. The first follows the lists of ops and regions and checks every back link, since the others trust them
 * (a damaged list ends the check: it could not even be printed). The second walks in program order with one byte per
 * value, visible or not: an op's results become visible behind it, a region's values vanish at its end. That is all
 * that dominance is with structured control flow. It also counts the operand slots of each value. The third compares
 * these counts with the use lists, so that every use is known from both of its ends.
 *
 * Complaints are collected, not raised: one run shows everything that is wrong. */
#include <stdarg.h>

#include "compiler/ir/internal.h"

typedef struct complaint {
  const tir_op *op;
  const char *text;
  struct complaint *next;
} complaint;

void tir_complain(verifier *v, const tir_op *op, const char *fmt, ...) {
  complaint *c = ARENA_NEW(v->fn->a, complaint);
  va_list ap;
  va_start(ap, fmt);
  c->text = arena_vprintf(v->fn->a, fmt, ap);
  va_end(ap);
  c->op = op;
  *v->last = c;
  v->last = &c->next;
}

static const char *name_of(const tir_op *op) { return op ? tir_ops[op->code].name : "the kernel"; }

/* ---- lists and back links ---- */

static void check_values(verifier *v, const tir_op *op, tir_value *const *values, int n, const tir_op *def,
                         const tir_region *region) {
  for (int i = 0; i < n; i++) {
    const tir_value *x = values[i];
    if (!x || !x->type) {
      tir_complain(v, op, "value %d is missing or has no type", i);
      v->broken = true;
    } else if (x->def != def || x->region != region || x->index != i) {
      tir_complain(v, op, "%s %d does not know that it is one", def ? "result" : "argument", i);
    } else if (x->id >= v->fn->n_values) {
      tir_complain(v, op, "id %u is not below the function's %u", x->id, v->fn->n_values);
      v->broken = true;
    }
  }
}

static void check_links(verifier *v, const tir_region *r) {
  const tir_op *prev = NULL;
  if (r->fn != v->fn) tir_complain(v, r->owner, "a region belongs to another function");
  check_values(v, r->owner, r->args, r->n_args, NULL, r);
  for (const tir_op *op = r->first; op; prev = op, op = op->next) {
    if (op->parent != r || op->prev != prev || op->code >= OP_N) {
      tir_complain(v, r->owner, "the list of ops is damaged near '%s'", op->code < OP_N ? name_of(op) : "?");
      v->broken = true;
      return;
    }
    check_values(v, op, op->out, op->n_out, op, NULL);
    for (int i = 0; i < op->n_in; i++) {
      if (op->in[i].value && op->in[i].op == op) continue;
      tir_complain(v, op, "operand %d is missing", i);
      v->broken = true;
    }
    for (int i = 0; i < op->n_regions; i++) {
      if (op->regions[i]->owner != op) {
        tir_complain(v, op, "region %d has another owner", i);
        v->broken = true;
        return;
      }
      check_links(v, op->regions[i]);
    }
  }
  if (r->last != prev) {
    tir_complain(v, r->owner, "the list of ops does not end where it should");
    v->broken = true;
  }
}

/* ---- terminators ---- */

static tir_opcode wanted_terminator(const tir_op *owner, int region) {
  if (!owner) return OP_return;
  return owner->code == OP_while && region == 0 ? OP_condition : OP_yield;
}

/* The region's last op is the right terminator and hands on values of these types. */
static void check_terminator(verifier *v, const tir_op *owner, int index, const tir_region *r) {
  tir_opcode want = wanted_terminator(owner, index);
  for (const tir_op *op = r->first; op; op = op->next)
    if (tir_is_term(op) && op != r->last) tir_complain(v, op, "a terminator stands before the end of its region");
  if (!r->last || r->last->code != want) {
    tir_complain(v, r->last ? r->last : owner, "region %d of %s must end in %s", index, name_of(owner),
                 tir_ops[want].name);
    return;
  }
  if (!owner) return;
  int skip = want == OP_condition;
  if (r->last->n_in != owner->n_out + skip) {
    tir_complain(v, r->last, "%s hands on %d values, %s has %d results", name_of(r->last), r->last->n_in - skip,
                 name_of(owner), owner->n_out);
    return;
  }
  for (int i = 0; i < owner->n_out; i++) {
    const tir_type *have = tir_in(r->last, i + skip)->type;
    const tir_type *expected = owner->out[i]->type;
    /* A reduction's region works on elements, the others on what the op carries. */
    if (owner->code == OP_reduce) expected = tir_elem(expected);
    if (have != expected)
      tir_complain(v, r->last, "value %d is %s, not %s as result %d of %s", i, tir_type_text(v->fn->a, have),
                   tir_type_text(v->fn->a, expected), i, name_of(owner));
  }
}

static bool counts_are_right(verifier *v, const tir_op *op) {
  const tir_op_info *info = &tir_ops[op->code];
  bool right = true;
  if (info->n_in != TIR_ANY && op->n_in != info->n_in) {
    tir_complain(v, op, "%d operands, not %d", op->n_in, info->n_in);
    right = false;
  }
  if (info->n_out != TIR_ANY && op->n_out != info->n_out) {
    tir_complain(v, op, "%d results, not %d", op->n_out, info->n_out);
    right = false;
  }
  if (op->n_regions != info->n_regions) {
    tir_complain(v, op, "%d regions, not %d", op->n_regions, info->n_regions);
    right = false;
  }
  return right;
}

/* ---- visibility ---- */

enum { UNSEEN, VISIBLE, GONE };

typedef struct scope {
  verifier *v;
  uint8_t *state; /* by value id */
  int *slots;     /* by value id: operand slots that hold it */
  int total;
} scope;

static void show(scope *s, const tir_op *op, const tir_value *x) {
  if (s->state[x->id] != UNSEEN) tir_complain(s->v, op, "id %u belongs to two values", x->id);
  s->state[x->id] = VISIBLE;
}

static void check_region(scope *s, const tir_region *r, int index) {
  for (int i = 0; i < r->n_args; i++) show(s, r->owner, r->args[i]);
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_in; i++) {
      const tir_value *x = tir_in(op, i);
      bool known = x->id < s->v->fn->n_values;
      if (!known || s->state[x->id] != VISIBLE)
        tir_complain(s->v, op, "operand %d is %s", i,
                     known && s->state[x->id] == GONE ? "defined in a region that has ended" : "not defined before it");
      if (known) s->slots[x->id]++;
      s->total++;
    }
    if (counts_are_right(s->v, op)) tir_verify_op(s->v, op);
    for (int i = 0; i < op->n_regions; i++) check_region(s, op->regions[i], i);
    for (int i = 0; i < op->n_out; i++) show(s, op, op->out[i]);
  }
  check_terminator(s->v, r->owner, index, r);
  for (int i = 0; i < r->n_args; i++) s->state[r->args[i]->id] = GONE;
  for (const tir_op *op = r->first; op; op = op->next)
    for (int i = 0; i < op->n_out; i++) s->state[op->out[i]->id] = GONE;
}

/* ---- uses ---- */

static void check_uses(scope *s, const tir_op *op, const tir_value *x) {
  int n = 0;
  for (const tir_use *u = x->uses; u; u = u->next) {
    bool sound = u->value == x && u->op && u >= u->op->in && u < u->op->in + u->op->n_in && *u->link == u;
    if (!sound || ++n > s->total) {
      tir_complain(s->v, op, "the use list of a value is damaged");
      return;
    }
    if (!u->op->parent || u->op->parent->fn != s->v->fn) {
      tir_complain(s->v, op, "a value is used by '%s', which is not in the function", name_of(u->op));
      return;
    }
  }
  if (n != s->slots[x->id])
    tir_complain(s->v, op, "a value has %d uses in its list and %d in the function", n, s->slots[x->id]);
}

static void check_region_uses(scope *s, const tir_region *r) {
  for (int i = 0; i < r->n_args; i++) check_uses(s, r->owner, r->args[i]);
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_out; i++) check_uses(s, op, op->out[i]);
    for (int i = 0; i < op->n_regions; i++) check_region_uses(s, op->regions[i]);
  }
}

/* ---- the function ---- */

static void check_head(verifier *v) {
  const tir_fn *fn = v->fn;
  enum { MAX_WARPS = 32 };
  if (fn->num_warps < 1 || fn->num_warps > MAX_WARPS || (fn->num_warps & (fn->num_warps - 1)))
    tir_complain(v, NULL, "num_warps is %d: it must be a power of two up to %d", fn->num_warps, MAX_WARPS);
  if (fn->num_stages < 1) tir_complain(v, NULL, "num_stages is %d: it must be at least 1", fn->num_stages);
  if (fn->producer_warps != 0 && fn->producer_warps != 4)
    tir_complain(v, NULL, "producer_warps is %d, not 0 or 4", fn->producer_warps);
  if (fn->gang < 1 || fn->gang > TIR_MAX_GANG) tir_complain(v, NULL, "gang is %d, not 1 to %d", fn->gang, TIR_MAX_GANG);
  if (fn->gang > 1 && tir_block_warps(fn) > MAX_WARPS) tir_complain(v, NULL, "a gang of %d warps", tir_block_warps(fn));
  if (fn->gang_bytes < 0 || fn->gang_bytes > fn->shared_bytes)
    tir_complain(v, NULL, "a gang shares more than there is of shared memory");
  if (fn->shared_bytes < 0) tir_complain(v, NULL, "shared memory of negative size");
  if (fn->n_params != fn->body->n_args) {
    tir_complain(v, NULL, "%d parameters but %d arguments of the body", fn->n_params, fn->body->n_args);
    return;
  }
  for (int i = 0; i < fn->n_params; i++) {
    const tir_param *p = &fn->params[i];
    if (p->value != fn->body->args[i])
      tir_complain(v, NULL, "parameter %d is not argument %d of the body", i, i);
    else if (tir_is_tile(p->value->type))
      tir_complain(v, NULL, "parameter '%s' is a tile", p->name);
    if (p->positive && (p->value->type->kind != TY_SCALAR || !dt_is_int(p->value->type->dtype)))
      tir_complain(v, NULL, "parameter '%s' is no integer, but positive", p->name);
    if (p->divisibility < 1 || p->promised < 1)
      tir_complain(v, NULL, "divisibility of parameter '%s' is not positive", p->name);
  }
}

/* The body of the loop over programs; NULL if fn has none. */
static const tir_region *program_of(const tir_fn *fn) {
  for (const tir_op *op = fn->body->first; op; op = op->next)
    if (tir_next_program(op)) return op->regions[1];
  return NULL;
}

static bool is_common(const tir_op *load, int i) {
  const tir_op *ring = tir_in(load, 2 * i + 1)->def;
  return ring && tir_attr_int(ring, ATTR_common, 0);
}

/* Programs of a gang have a loop over programs, and loads that all share stand where their number can be counted: in a
   program, or in a loop of it that counts up. */
static void check_gang(verifier *v) {
  const tir_fn *fn = v->fn;
  const tir_region *program = program_of(fn);
  if (fn->gang == 1) return;
  if (!program || fn->producer_warps == 0) tir_complain(v, NULL, "a gang without producers or a loop over programs");
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    if (op->code != OP_tma_load) continue;
    for (int i = 1; i < op->n_out; i++)
      if (is_common(op, i) != is_common(op, 0)) tir_complain(v, op, "only some of its rings are common");
    int64_t step = 1;
    const tir_op *loop = op->parent == program ? NULL : op->parent->owner;
    if (loop && loop->code == OP_for && !tir_known_int(tir_in(loop, 2), &step)) step = 0;
    bool counted = !loop || (loop->code == OP_for && loop->parent == program && step > 0);
    if (is_common(op, 0) && !counted) tir_complain(v, op, "is for a gang, but in no loop of a program that counts up");
    if (!is_common(op, 0) && loop) tir_complain(v, op, "is one program's of a gang, but in a loop of it");
  }
}

static void print_complaints(void *user, const tir_op *op, textbuf *out) {
  const verifier *v = user;
  for (const complaint *c = v->first; c; c = c->next)
    if (c->op == op) text_printf(out, "// error: %s\n", c->text);
}

const char *tir_verify(tir_fn *fn) {
  verifier v = {.fn = fn};
  v.last = &v.first;
  check_head(&v);
  check_links(&v, fn->body);
  if (!v.broken) {
    arena *scratch = arena_new();
    scope s = {.v = &v,
               .state = ARENA_ARRAY(scratch, uint8_t, fn->n_values),
               .slots = ARENA_ARRAY(scratch, int, fn->n_values)};
    check_region(&s, fn->body, 0);
    check_region_uses(&s, fn->body);
    if (!v.first) check_gang(&v);
    arena_free(scratch);
  }
  if (!v.first) return NULL;
  textbuf out;
  text_init(&out, fn->a);
  if (v.broken) {
    for (const complaint *c = v.first; c; c = c->next) text_printf(&out, "// error: %s\n", c->text);
  } else {
    tir_print_with(fn, &out, print_complaints, &v);
  }
  return out.at;
}
