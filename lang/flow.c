/* if, early return, ternaries: two arms that become two regions, and how their variables meet again.
 *
 * Tile IR has no jumps, so an early return is structure. In
 *     if c: return a
 *     rest
 * the rest of the function moves into the other arm: the statements after an `if` are handed down (sema_rest), and the
 * arm that goes on executes them in its own region. Where both arms may go on and one may also return, a flag is
 * carried out of the `if` and the rest runs under another `if` (sema_exec_unless). The obvious way, repeating the rest
 * in every arm that goes on, doubles the code at each such statement.
 *
 * A variable keeps one type over an `if`: both arms yield it. An arm that has returned yields zeros for what it does
 * not have, which nobody reads. */
#include "lang/sema.h"

/* ---- values as lists of tensors ---------------------------------------------------------------------------------- */

void sema_flatten(sema *s, lang_value *v, sema_tensors *out) {
  if (v->kind == LANG_TENSOR) VEC_PUSH(s->a, *out, v->u.tensor);
  if (value_has_items(v))
    for (int i = 0; i < v->u.items.n; i++) sema_flatten(s, v->u.items.at[i], out);
}

lang_value *sema_rebuild(sema *s, lang_value *like, tir_value *const **next) {
  if (like->kind == LANG_TENSOR) return sema_tensor(s, *(*next)++);
  if (!value_has_items(like)) return like;
  lang_value **items = ARENA_ARRAY(s->a, lang_value *, like->u.items.n ? like->u.items.n : 1);
  for (int i = 0; i < like->u.items.n; i++) items[i] = sema_rebuild(s, like->u.items.at[i], next);
  return value_with_items(s, like, items);
}

bool sema_same_type(const lang_value *x, const lang_value *y) {
  if (x->kind != y->kind) return false;
  if (x->kind == LANG_TENSOR) return x->u.tensor->type == y->u.tensor->type;
  if (!value_has_items(x)) return lang_value_equal(x, y);
  if (!value_same_form(x, y)) return false;
  for (int i = 0; i < x->u.items.n; i++)
    if (!sema_same_type(x->u.items.at[i], y->u.items.at[i])) return false;
  return true;
}

lang_value *sema_decay(sema *s, span at, lang_value *v) {
  if (sema_is_number(v)) return sema_lift(s, at, v);
  if (v->kind != LANG_TUPLE) return v;
  lang_value **items = ARENA_ARRAY(s->a, lang_value *, v->u.items.n ? v->u.items.n : 1);
  for (int i = 0; i < v->u.items.n; i++) {
    items[i] = sema_decay(s, at, v->u.items.at[i]);
    if (sema_is_poison(items[i])) return items[i];
  }
  return sema_tuple(s, items, v->u.items.n);
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

typedef struct joined {
  lang_value *like; /* the value's structure */
  int first;        /* -1, or its tensors are the op's results from here on */
} joined;

typedef struct join {
  tir_op *op;
  sema_tensors yield[2];
} join;

static void into(sema *s, tir_region *r) {
  s->b.region = r;
  s->b.before = NULL;
}

/* Both arms' values of one thing. Either may be NULL: that arm has none and yields zeros. False: types differ; x and y
   are then as they would have been joined, for the message. */
static bool join_add(sema *s, join *j, span at, lang_value **x, lang_value **y, joined *out) {
  lang_value *v[2] = {*x, *y};
  out->like = v[0] ? v[0] : v[1];
  out->first = -1;
  if ((v[0] && sema_is_poison(v[0])) || (v[1] && sema_is_poison(v[1]))) {
    out->like = s->unit->poison;
    return true;
  }
  bool known_equal =
      v[0] && v[1] && v[0]->kind == v[1]->kind && !value_has_tensor(v[0]) && lang_value_equal(v[0], v[1]);
  if (v[0] == v[1] || known_equal || (!(v[0] && v[1]) && !value_has_tensor(out->like))) return true;
  for (int k = 0; k < 2; k++)
    if (v[k]) {
      into(s, j->op->regions[k]);
      v[k] = sema_decay(s, at, v[k]);
      if (sema_is_poison(v[k])) {
        out->like = v[k];
        return true;
      }
    }
  *x = v[0];
  *y = v[1];
  if (v[0] && v[1] && !sema_same_type(v[0], v[1])) {
    out->like = s->unit->poison;
    return false;
  }
  sema_tensors flat[2] = {{0}, {0}};
  for (int k = 0; k < 2; k++)
    if (v[k]) sema_flatten(s, v[k], &flat[k]);
  int n = v[0] ? flat[0].n : flat[1].n;
  out->first = j->yield[0].n;
  sema_count(s, n);
  for (int k = 0; k < 2; k++) {
    into(s, j->op->regions[k]);
    for (int i = 0; i < n; i++)
      VEC_PUSH(s->a, j->yield[k], v[k] ? sema_hinted(s, flat[k].at[i]) : sema_zero(s, flat[1 - k].at[i]->type));
  }
  out->like = v[0] ? v[0] : v[1];
  return true;
}

/* Ends both regions; the op's results then exist. Removes an `if` that does nothing. */
static void join_end(sema *s, join *j, tir_region *outer) {
  for (int i = 0; i < j->yield[0].n; i++) tir_append_out(j->op, j->yield[0].at[i]->type);
  bool idle = j->yield[0].n == 0;
  for (int k = 0; k < 2; k++) {
    idle = idle && j->op->regions[k]->first == NULL;
    into(s, j->op->regions[k]);
    tir_build(&s->b, OP_yield, j->yield[k].n, j->yield[k].at, 0, NULL);
  }
  into(s, outer);
  if (idle) tir_remove(j->op);
}

static lang_value *join_value(sema *s, const join *j, const joined *v) {
  if (v->first < 0) return v->like;
  tir_value *const *next = j->op->out + v->first;
  return sema_rebuild(s, v->like, &next);
}

static tir_op *new_if(sema *s, tir_value *cond) {
  sema_count(s, 3);
  return tir_build(&s->b, OP_if, 1, &cond, 0, NULL);
}

/* ---- two arms ---------------------------------------------------------------------------------------------------- */

typedef struct arms {
  sema_locals base, after[2];
  sema_flow flow[2];
} arms;

static sema_local *local_in(sema_locals *l, const char *name) {
  for (int i = l->n - 1; i >= 0; i--)
    if (l->at[i].name == name) return &l->at[i];
  return NULL;
}

static void mismatch(sema *s, span at, const char *name, lang_value *x, lang_value *y, const lang_value *before) {
  diag *d;
  if (before && x && sema_same_type(before, x))
    d = sema_report(s, at, &D_if_redefines, name, value_describe(s->a, x), "else", value_describe(s->a, y));
  else if (before && sema_same_type(before, y))
    d = sema_report(s, at, &D_if_redefines, name, value_describe(s->a, y), "then", value_describe(s->a, x));
  else
    d = sema_report(s, at, &D_if_mismatch, name, value_describe(s->a, x), value_describe(s->a, y));
  if (x->kind == LANG_TENSOR && y->kind == LANG_TENSOR && tir_same_shape(x->u.tensor->type, y->u.tensor->type))
    diag_fix(d, sema_place(s, at), "convert one of them with .to(...)");
}

typedef struct slot {
  sema_local local;
  joined value;
} slot;
typedef VEC(slot) slots;

/* Variables that the arms have changed. */
static void join_locals(sema *s, join *j, span at, arms *a, slots *out) {
  bool returned[2] = {a->flow[0].kind == FLOW_RETURNED, a->flow[1].kind == FLOW_RETURNED};
  if (returned[0] && returned[1]) return;
  sema_charge(s, (size_t)a->base.n * (size_t)a->base.n / 512); /* names are searched for one by one */
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < a->after[side].n; i++) {
      const char *name = a->after[side].at[i].name;
      sema_local *l[2] = {local_in(&a->after[0], name), local_in(&a->after[1], name)},
                 *before = local_in(&a->base, name);
      if (side == 1 && l[0]) continue;
      bool changed = false;
      for (int k = 0; k < 2; k++) {
        if (returned[k]) l[k] = NULL;
        changed = changed || (l[k] && (!before || l[k]->value != before->value));
      }
      if (!changed) continue;
      if ((!l[0] && !returned[0]) || (!l[1] && !returned[1])) {
        sema_gone(s, name);
        continue;
      }
      lang_value *v[2] = {l[0] ? l[0]->value : NULL, l[1] ? l[1]->value : NULL};
      const sema_local *newer = l[0] && (!before || l[0]->value != before->value) ? l[0] : l[1] ? l[1] : l[0];
      slot x = {.local = *newer};
      if (!join_add(s, j, at, &v[0], &v[1], &x.value))
        mismatch(s, newer->at, name, v[0], v[1], before ? before->value : NULL);
      VEC_PUSH(s->a, *out, x);
    }
}

/* The flag that an arm has returned, as a value of its region. */
static tir_value *returned_flag(sema *s, join *j, int arm, const sema_flow *f) {
  const tir_type *i1 = tir_scalar_type(s->cx, DT_i1);
  into(s, j->op->regions[arm]);
  sema_count(s, 1);
  if (f->kind != FLOW_MAYBE) return tir_const_int(&s->b, i1, f->kind == FLOW_RETURNED);
  return f->when ? f->flag : sema_emit2(s, OP_xor, f->flag, tir_const_int(&s->b, i1, 1));
}

static bool returns_nothing(const sema_flow *f) { return f->kind == FLOW_ON || !f->ret || f->ret->kind == LANG_NONE; }

/* Ends the `if`. `last`: the function ends here too, so that variables are not needed any more, and going on is the
   same as returning nothing. */
static sema_flow meet(sema *s, span at, tir_op *op, arms *a, tir_region *outer, bool last) {
  const sema_flow *f = a->flow;
  join j = {.op = op};
  slots changed = {0};
  if (last && returns_nothing(&f[0]) && returns_nothing(&f[1])) {
    join_end(s, &j, outer);
    s->frame->locals = a->base;
    return (sema_flow){.kind = FLOW_RETURNED, .ret = s->unit->none, .at = at};
  }
  if (!last) join_locals(s, &j, at, a, &changed);

  sema_flow r = {.kind = FLOW_ON, .when = true, .at = f[0].kind != FLOW_ON ? f[0].at : f[1].at};
  joined ret = {.first = -1}, flag = {.first = -1};
  if (f[0].kind != FLOW_ON || f[1].kind != FLOW_ON) {
    lang_value *v[2] = {f[0].kind == FLOW_ON ? NULL : f[0].ret, f[1].kind == FLOW_ON ? NULL : f[1].ret};
    if (!join_add(s, &j, at, &v[0], &v[1], &ret))
      sema_fail(s, f[1].at, &D_return_mismatch, value_describe(s->a, v[0]), value_describe(s->a, v[1]));
    bool always[2] = {f[0].kind == FLOW_RETURNED, f[1].kind == FLOW_RETURNED};
    bool plain = (always[0] && f[1].kind == FLOW_ON) || (always[1] && f[0].kind == FLOW_ON);
    r.kind = always[0] && always[1] ? FLOW_RETURNED : FLOW_MAYBE;
    if (plain) {
      r.flag = tir_in(op, 0);
      r.when = always[0];
    } else if (r.kind == FLOW_MAYBE) {
      flag.first = j.yield[0].n;
      for (int k = 0; k < 2; k++) {
        tir_value *v1 = returned_flag(s, &j, k, &f[k]);
        VEC_PUSH(s->a, j.yield[k], v1);
      }
    }
  }
  join_end(s, &j, outer);
  if (flag.first >= 0) r.flag = tir_out(op, flag.first);
  if (ret.like) r.ret = join_value(s, &j, &ret);

  s->frame->locals = a->base;
  for (int i = 0; i < changed.n; i++) {
    const slot *x = &changed.at[i];
    sema_local_set(s, x->local.name, x->local.at, join_value(s, &j, &x->value));
  }
  s->b.at = sema_place(s, at);
  return r;
}

static bool ends_function(const sema_rest *r) {
  while (r->next) r = r->next;
  return r->last;
}

static bool is_empty(const sema_rest *r) {
  for (; r; r = r->next)
    if (r->i < r->n) return false;
  return true;
}

/* Executes one arm in its region, from the variables before the `if`. */
static void run_arm(sema *s, tir_op *op, arms *a, int k, const sema_locals *from, const sema_rest *what) {
  into(s, op->regions[k]);
  s->frame->locals = sema_locals_copy(s, from);
  a->flow[k] = sema_exec(s, what);
  a->after[k] = s->frame->locals;
}

sema_flow sema_exec_unless(sema *s, span at, sema_flow f, const sema_rest *rest) {
  if (is_empty(rest)) return f;
  tir_region *outer = s->b.region;
  tir_op *op = new_if(s, f.flag);
  int gone = f.when ? 0 : 1;
  arms a = {.base = sema_locals_copy(s, &s->frame->locals)};
  a.flow[gone] = (sema_flow){.kind = FLOW_RETURNED, .ret = f.ret, .at = f.at};
  a.after[gone] = a.base;
  run_arm(s, op, &a, 1 - gone, &a.base, rest);
  return meet(s, at, op, &a, outer, ends_function(rest));
}

static sema_rest suite_of(const ast_node *n, ast_node *const *holder, const sema_rest *next) {
  sema_rest r = {.next = next};
  if (n && n->kind == AST_SUITE) {
    r.stmt = n->list;
    r.n = n->n_list;
  } else if (n) { /* elif: one statement */
    r.stmt = holder;
    r.n = 1;
  }
  return r;
}

sema_flow sema_exec_if(sema *s, const ast_node *n, const sema_rest *rest, bool *took_rest) {
  lang_value *c = sema_condition(s, n->kid[0]->at, sema_eval(s, n->kid[0]), "if");
  if (sema_is_poison(c)) {
    sema_poison_names(s, n->kid[1]);
    if (n->kid[2]) sema_poison_names(s, n->kid[2]);
    return (sema_flow){.kind = FLOW_ON};
  }
  if (c->kind == LANG_BOOL) {
    int live = c->u.b ? 1 : 2;
    if (!n->kid[live]) return (sema_flow){.kind = FLOW_ON};
    *took_rest = sema_contains_return(n->kid[live]);
    sema_rest suite = suite_of(n->kid[live], &n->kid[live], *took_rest ? rest : NULL);
    return sema_exec(s, &suite);
  }
  s->b.at = sema_place(s, n->at);
  tir_region *outer = s->b.region;
  tir_op *op = new_if(s, c->u.tensor);
  arms a = {.base = sema_locals_copy(s, &s->frame->locals)};
  sema_rest suite = suite_of(n->kid[1], &n->kid[1], NULL);
  run_arm(s, op, &a, 0, &a.base, &suite);
  bool more = !is_empty(rest);
  *took_rest = more && a.flow[0].kind == FLOW_RETURNED;
  suite = suite_of(n->kid[2], &n->kid[2], *took_rest ? rest : NULL);
  run_arm(s, op, &a, 1, &a.base, &suite);
  if (more && a.flow[1].kind == FLOW_RETURNED && a.flow[0].kind == FLOW_ON) {
    *took_rest = true;
    sema_locals reached = a.after[0];
    run_arm(s, op, &a, 0, &reached, rest);
  }
  return meet(s, n->kid[0]->at, op, &a, outer, (*took_rest || !more) && ends_function(rest));
}

lang_value *sema_arms(sema *s, span at, tir_value *cond, const ast_node *yes, const ast_node *no) {
  tir_region *outer = s->b.region;
  tir_op *op = new_if(s, cond);
  sema_locals before = sema_locals_copy(s, &s->frame->locals);
  lang_value *v[2];
  for (int k = 0; k < 2; k++) {
    into(s, op->regions[k]);
    s->frame->locals = sema_locals_copy(s, &before);
    v[k] = sema_eval(s, k == 0 ? yes : no);
  }
  s->frame->locals = before;
  join j = {.op = op};
  joined r;
  if (!join_add(s, &j, at, &v[0], &v[1], &r)) {
    diag *d = sema_report(s, at, &D_ternary_mismatch, value_describe(s->a, v[0]), value_describe(s->a, v[1]));
    diag_fix(d, sema_place(s, at), "convert one side with .to(...), or choose per element with where(c, x, y)");
  }
  join_end(s, &j, outer);
  s->b.at = sema_place(s, at);
  return join_value(s, &j, &r);
}
