/* for and while.
 *
 * A loop carries the variables that its body assigns and that exist before it; they are found by looking at the names
 * (sema_assigned), and what turns out not to change is taken out again. Their types must come back as they went in.
 * Numbers among them become tensors first. A variable that is born in the body ends with it. */
#include "lang/sema.h"

#include <string.h>

typedef struct carried {
  sema_local before; /* as the loop found it */
  lang_value *init;  /* its tensors made explicit */
  int first, n;      /* its slots */
  bool *changed;     /* by slot */
} carried;

typedef struct loop {
  VEC(carried) vars;
  sema_tensors init;
  VEC(sema_local) fixed; /* values without tensors that the body names too: they must stay */
  sema_locals base;
} loop;

static void collect(sema *s, loop *l, const ast_node *body, const ast_node *also, const ast_node *target) {
  sema_names names = {0}, own = {0};
  sema_assigned(s, body, &names);
  if (also) sema_assigned(s, also, &names);
  if (target && target->kind == AST_NAME) VEC_PUSH(s->a, own, target->name);
  l->base = sema_locals_copy(s, &s->frame->locals);
  sema_charge(s, (size_t)names.n * (size_t)(names.n + l->base.n) / 512); /* searched for one by one */
  for (int i = 0; i < l->base.n; i++) {
    const sema_local *v = &l->base.at[i];
    if (!sema_has_name(&names, v->name) || sema_has_name(&own, v->name) || sema_is_poison(v->value)) continue;
    lang_value *init = sema_decay(s, v->at, v->value);
    if (!value_has_tensor(init)) {
      VEC_PUSH(s->a, l->fixed, *v);
      continue;
    }
    carried c = {.before = *v, .init = init, .first = l->init.n};
    sema_flatten(s, init, &l->init);
    c.n = l->init.n - c.first;
    for (int k = c.first; k < l->init.n; k++) l->init.at[k] = sema_hinted(s, l->init.at[k]);
    sema_count(s, c.n);
    c.changed = ARENA_ARRAY(s->a, bool, c.n);
    VEC_PUSH(s->a, l->vars, c);
  }
}

/* Adds the region's arguments for the carried variables and binds the names to them. */
static void enter(sema *s, loop *l, tir_region *r) {
  s->b.region = r;
  s->b.before = NULL;
  for (int i = 0; i < l->vars.n; i++) {
    carried *c = &l->vars.at[i];
    tir_value **args = ARENA_ARRAY(s->a, tir_value *, c->n ? c->n : 1);
    for (int k = 0; k < c->n; k++) {
      args[k] = tir_region_add_arg(r, l->init.at[c->first + k]->type, sema_place(s, c->before.at));
      if (c->n == 1 && !s->frame->scope->is_std) args[k]->name = c->before.name;
    }
    tir_value *const *next = args;
    sema_local_set(s, c->before.name, c->before.at, sema_rebuild(s, c->init, &next));
  }
}

static span bound_at(const sema *s, const char *name, span otherwise) {
  for (int i = s->frame->locals.n - 1; i >= 0; i--)
    if (s->frame->locals.at[i].name == name) return s->frame->locals.at[i].at;
  return otherwise;
}

/* The carried values at the end of the body, in slot order; `arg0` is the first argument's index. */
static void leave(sema *s, loop *l, tir_region *r, int arg0, sema_tensors *yields) {
  for (int i = 0; i < l->vars.n; i++) {
    carried *c = &l->vars.at[i];
    lang_value *v = sema_local_get(s->frame, c->before.name);
    v = v ? sema_decay(s, c->before.at, v) : s->unit->poison;
    bool same = !sema_is_poison(v) && sema_same_type(v, c->init);
    if (!same && !sema_is_poison(v)) {
      span at = bound_at(s, c->before.name, c->before.at);
      diag *d =
          sema_report(s, at, &D_loop_type, c->before.name, value_describe(s->a, c->init), value_describe(s->a, v));
      diag_note(d, sema_place(s, c->before.at), "it enters the loop with this value");
      if (v->kind == LANG_TENSOR && c->init->kind == LANG_TENSOR) {
        const tir_type *to = c->init->u.tensor->type, *from = v->u.tensor->type;
        if (tir_same_shape(from, to))
          diag_fix(d, sema_place(s, at), "convert it back with .to(%s), or start with the other type",
                   tir_type_text(s->a, tir_elem(to)));
        else if (!tir_is_tile(to))
          diag_fix(d, sema_place(s, at), "start with a tile: zeros([...], %s)", tir_type_text(s->a, tir_elem(from)));
      }
    }
    sema_tensors flat = {0};
    if (same) sema_flatten(s, v, &flat);
    for (int k = 0; k < c->n; k++) {
      tir_value *arg = r->args[arg0 + c->first + k], *end = same ? flat.at[k] : arg;
      if (end != arg) end = sema_hinted(s, end);
      VEC_PUSH(s->a, *yields, end);
      c->changed[k] = c->changed[k] || end != arg;
    }
    if (!same) c->init = s->unit->poison;
  }
  for (int i = 0; i < l->fixed.n; i++) {
    const sema_local *f = &l->fixed.at[i];
    lang_value *v = sema_local_get(s->frame, f->name);
    if (v && !sema_is_poison(v) && !lang_value_equal(v, f->value)) {
      diag *d = sema_report(s, bound_at(s, f->name, f->at), &D_loop_type, f->name, value_describe(s->a, f->value),
                            value_describe(s->a, v));
      diag_note(d, sema_place(s, f->at), "it enters the loop with this value");
    }
  }
}

/* Restores the variables of before the loop, with the loop's results for those that it changed. */
static void finish(sema *s, loop *l, tir_op *op) {
  for (int i = 0; i < s->frame->locals.n; i++) {
    const char *name = s->frame->locals.at[i].name;
    bool was = false;
    for (int k = 0; k < l->base.n && !was; k++) was = l->base.at[k].name == name;
    if (!was) sema_gone(s, name);
  }
  s->frame->locals = l->base;
  int next_out = 0;
  for (int i = 0; i < l->vars.n; i++) {
    carried *c = &l->vars.at[i];
    tir_value **now = ARENA_ARRAY(s->a, tir_value *, c->n);
    bool changed = false;
    for (int k = 0; k < c->n; k++) {
      now[k] = c->changed[k] ? op->out[next_out++] : l->init.at[c->first + k];
      changed = changed || c->changed[k];
    }
    if (!changed && !sema_is_poison(c->init)) continue;
    if (changed && c->n == 1 && !s->frame->scope->is_std) now[0]->name = c->before.name;
    tir_value *const *next = now;
    lang_value *v = sema_is_poison(c->init) ? c->init : sema_rebuild(s, c->init, &next);
    sema_local_set(s, c->before.name, c->before.at, v);
  }
}

/* Takes what does not change out of the op, also single items of a variable; `in0`, `arg0`: where the slots begin.
 * Terminators' operands begin at t0. */
static void drop_unchanged(loop *l, tir_op *op, int in0) {
  for (int i = l->vars.n - 1; i >= 0; i--) {
    const carried *c = &l->vars.at[i];
    for (int k = c->first + c->n - 1; k >= c->first; k--) {
      if (c->changed[k - c->first]) continue;
      for (int r = 0; r < op->n_regions; r++) {
        tir_region *region = op->regions[r];
        int arg0 = op->code == OP_for ? 1 : 0, t0 = region->last->code == OP_condition ? 1 : 0;
        tir_replace_uses(region->args[arg0 + k], l->init.at[k]);
        tir_drop_in(region->last, t0 + k);
        tir_drop_arg(region, arg0 + k);
      }
      tir_drop_in(op, in0 + k);
      tir_drop_out(op, k);
    }
  }
}

static const tir_type **types_of(sema *s, const sema_tensors *t) {
  const tir_type **types = ARENA_ARRAY(s->a, const tir_type *, t->n ? t->n : 1);
  for (int i = 0; i < t->n; i++) types[i] = t->at[i]->type;
  return types;
}

static void run_body(sema *s, const ast_node *body) {
  sema_rest r = {body->list, body->n_list, 0, NULL, false};
  s->loops++;
  sema_exec(s, &r);
  s->loops--;
}

/* ---- for --------------------------------------------------------------------------------------------------------- */

enum { R_START, R_STOP, R_STEP, R_STATIC, R_STAGES, R_UNROLL, R_NO_MULTI, R_FLATTEN, R_SPECIALIZE, R_NO_LICM };

static void static_for(sema *s, const ast_node *n, lang_value *range) {
  int64_t b[3];
  for (int i = 0; i < 3; i++)
    if (!lang_value_as_int(range->u.items.at[i], &b[i])) {
      sema_fail(s, n->kid[1]->at, &D_static_range_bounds, "static_range");
      return;
    }
  if (b[2] == 0) {
    sema_fail(s, n->kid[1]->at, &D_zero_step);
    return;
  }
  for (int64_t i = b[0]; (b[2] > 0 ? i < b[1] : i > b[1]) && !s->stop; i += b[2]) {
    if (n->kid[0]->kind == AST_NAME)
      sema_local_set(s, n->kid[0]->name, n->kid[0]->at, sema_int(s, i));
    else
      sema_assign(s, n->kid[0], sema_int(s, i));
    if (!sema_step(s, n->kid[1]->at)) return;
    int errors = s->n_errors;
    run_body(s, n->kid[2]);
    if (s->n_errors > errors) return; /* the next round would say it again */
    if (b[2] > 0 ? i > INT64_MAX - b[2] : i < INT64_MIN - b[2]) break;
  }
}

/* Bounds of a run-time loop, in one integer type. */
static bool bounds(sema *s, span at, lang_value *range, tir_value *out[3]) {
  tir_dtype d = DT_i1;
  for (int i = 0; i < 3; i++) {
    lang_value *v = sema_lift(s, at, range->u.items.at[i]);
    if (sema_is_poison(v)) return false;
    out[i] = v->u.tensor;
    if (out[i]->type->kind == TY_TILE && out[i]->type->numel == 1)
      out[i] = sema_emit(s, OP_unsplat, 1, &out[i], tir_elem(out[i]->type));
    if (out[i]->type->kind != TY_SCALAR || dt_is_float(out[i]->type->dtype)) {
      sema_fail(s, at, &D_range_bound, value_describe(s->a, v));
      return false;
    }
    bool ok;
    d = i == 0 ? out[i]->type->dtype : sema_promoted(d, out[i]->type->dtype, PROMOTE_ARITH, &ok);
  }
  int64_t step;
  if (tir_known_int(out[2], &step) && step == 0) {
    sema_fail(s, at, &D_zero_step);
    return false;
  }
  for (int i = 0; i < 3; i++) out[i] = sema_cast(s, out[i], d);
  return true;
}

static void set_options(tir_op *op, lang_value *range) {
  static const struct {
    int item;
    tir_attr_key key;
  } options[] = {{R_STAGES, ATTR_num_stages},          {R_UNROLL, ATTR_unroll},
                 {R_NO_MULTI, ATTR_no_multi_buffer},   {R_FLATTEN, ATTR_flatten},
                 {R_SPECIALIZE, ATTR_warp_specialize}, {R_NO_LICM, ATTR_no_licm}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    int64_t v;
    lang_value *o = range->u.items.at[options[i].item];
    bool matters = o->kind == LANG_INT || v || options[i].item == R_SPECIALIZE; /* else False is what None is */
    if (lang_value_as_int(o, &v) && matters) tir_set_int(op, options[i].key, v);
  }
}

static void range_for(sema *s, const ast_node *n, lang_value *range) {
  tir_value *b[3];
  s->b.at = sema_place(s, n->kid[1]->at);
  if (!bounds(s, n->kid[1]->at, range, b)) {
    sema_poison_names(s, n);
    return;
  }
  loop l = {0};
  collect(s, &l, n->kid[2], NULL, n->kid[0]);
  int n_in = 3 + l.init.n;
  tir_value **in = ARENA_ARRAY(s->a, tir_value *, n_in);
  for (int i = 0; i < n_in; i++) in[i] = i < 3 ? b[i] : l.init.at[i - 3];
  tir_region *outer = s->b.region;
  sema_count(s, 2);
  s->b.at = sema_place(s, span_join(n->kid[0]->at, n->kid[1]->at));
  tir_op *op = tir_build(&s->b, OP_for, n_in, in, l.init.n, types_of(s, &l.init));
  set_options(op, range);
  tir_region *body = op->regions[0];
  tir_value *iv = tir_region_add_arg(body, b[0]->type, sema_place(s, n->kid[0]->at));
  enter(s, &l, body);
  if (n->kid[0]->kind == AST_NAME) iv->name = n->kid[0]->name;
  sema_assign(s, n->kid[0], sema_tensor(s, iv));
  run_body(s, n->kid[2]);
  sema_tensors yields = {0};
  leave(s, &l, body, 1, &yields);
  tir_build(&s->b, OP_yield, yields.n, yields.at, 0, NULL);
  s->b.region = outer;
  drop_unchanged(&l, op, 3);
  finish(s, &l, op);
}

void sema_exec_for(sema *s, const ast_node *n) {
  if (n->kid[3]) {
    sema_fail(s, n->at, &D_unsupported_syntax, "`else` of a loop");
    return;
  }
  lang_value *range = sema_eval(s, n->kid[1]);
  if (sema_is_poison(range)) {
    sema_poison_names(s, n);
    return;
  }
  if (range->kind != LANG_RANGE) {
    diag *d = sema_report(s, n->kid[1]->at, &D_loop_iterator, value_describe(s->a, range));
    if (range->kind == LANG_TUPLE)
      diag_fix(d, sema_place(s, n->kid[1]->at), "walk over the positions: for i in static_range(len(t)), then t[i]");
    sema_poison_names(s, n);
    return;
  }
  bool is_static = range->u.items.at[R_STATIC]->u.b;
  if (is_static)
    static_for(s, n, range);
  else
    range_for(s, n, range);
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

void sema_exec_while(sema *s, const ast_node *n) {
  if (n->kid[2]) {
    sema_fail(s, n->at, &D_unsupported_syntax, "`else` of a loop");
    return;
  }
  loop l = {0};
  collect(s, &l, n->kid[1], n->kid[0], NULL);
  tir_region *outer = s->b.region;
  sema_count(s, 3);
  tir_op *op = tir_build(&s->b, OP_while, l.init.n, l.init.at, l.init.n, types_of(s, &l.init));

  enter(s, &l, op->regions[0]);
  lang_value *c = sema_condition(s, n->kid[0]->at, sema_eval(s, n->kid[0]), "while");
  if (c->kind == LANG_BOOL && c->u.b) {
    diag *d = sema_report(s, n->kid[0]->at, &D_endless_while);
    diag_fix(d, sema_place(s, n->kid[0]->at), "make the condition depend on a variable that the body changes");
  }
  if (c->kind != LANG_TENSOR) c = sema_lift(s, n->kid[0]->at, c->kind == LANG_BOOL ? c : s->unit->no);
  sema_tensors out = {0};
  VEC_PUSH(s->a, out, c->u.tensor);
  leave(s, &l, op->regions[0], 0, &out);
  tir_build(&s->b, OP_condition, out.n, out.at, 0, NULL);

  s->frame->locals = sema_locals_copy(s, &l.base); /* what the condition alone has bound does not reach the body */
  enter(s, &l, op->regions[1]);
  run_body(s, n->kid[1]);
  sema_tensors yields = {0};
  leave(s, &l, op->regions[1], 0, &yields);
  tir_build(&s->b, OP_yield, yields.n, yields.at, 0, NULL);
  s->b.region = outer;
  s->b.before = NULL;
  drop_unchanged(&l, op, 0);
  finish(s, &l, op);
}
