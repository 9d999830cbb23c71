/* driver_meta: the artefact's metadata, from how a kernel's parameters were bound. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/driver.h"
#include "runtime/artifact.h"

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static tk_dtype dtype_of(const tir_type *t) {
  tk_dtype d = TK_NO_DTYPE;
  if (t->kind == TY_PTR) t = t->elem;
  if (t->kind == TY_TILE) t = t->elem;
  const char *name = t->kind == TY_PTR ? "u64" : tir_dtypes[t->dtype].text; /* a pointer to pointers holds addresses */
  tk_dtype_parse(name, strlen(name), &d);
  return d;
}

static tk_constant constant(tkc_session *s, const lang_value *v) {
  tk_constant c = {.kind = TK_CONSTANT_OTHER, .text = lang_value_text(s->a, v)};
  int64_t i;
  switch (v->kind) {
    case LANG_NONE: c.kind = TK_CONSTANT_NONE; break;
    case LANG_BOOL: c.kind = TK_CONSTANT_BOOL, c.i = v->u.b; break;
    case LANG_INT:
      if (lang_value_as_int(v, &i)) c.kind = TK_CONSTANT_INT, c.i = i;
      break;
    case LANG_FLOAT: c.kind = TK_CONSTANT_FLOAT, c.f = v->u.f; break;
    case LANG_STR: c.kind = TK_CONSTANT_STRING, c.text = v->u.str.s; break;
    case LANG_TYPE: c.kind = TK_CONSTANT_DTYPE; break;
    default: break;
  }
  return c;
}

static tk_artifact_param param(const char *name, const tir_type *t, int divisibility) {
  return (tk_artifact_param){.name = name,
                             .kind = t->kind == TY_PTR ? TK_PARAM_POINTER : TK_PARAM_SCALAR,
                             .dtype = dtype_of(t),
                             .is_const = t->is_const,
                             .divisible = divisibility > 0 ? divisibility : 1,
                             .passed = true};
}

static tk_artifact_param descriptor(const char *name, const lang_binding *b) {
  const tir_type *tile = b->type;
  tk_artifact_param p = param(name, tile, b->divisibility);
  p.kind = TK_PARAM_DESCRIPTOR;
  p.rank = tile->rank;
  p.pads_nan = b->pads_nan;
  for (int i = 0; i < tile->rank; i++) p.block[i] = (int)tile->shape[i];
  return p;
}

static void list_params(tkc_session *s, const driver_kernel *k, tk_artifact_kernel *out) {
  int n = k->kernel ? k->kernel->n_params : k->fn->n_params;
  out->params = ARENA_ARRAY(s->a, tk_artifact_param, n + 1);
  out->n_params = n;
  for (int i = 0; i < n; i++) {
    tk_artifact_param *p = &out->params[i];
    if (!k->kernel) {
      const tir_param *q = &k->fn->params[i];
      *p = param(q->name, q->value->type, q->divisibility);
      continue;
    }
    const lang_binding *b = &k->bindings[i];
    const char *name = k->kernel->params[i].name;
    if (b->bound == LANG_ARGUMENT && lang_is_descriptor(b->type)) {
      *p = descriptor(name, b);
    } else if (b->bound == LANG_ARGUMENT) {
      *p = param(name, b->type, b->divisibility);
    } else if (b->folded && b->type) {
      *p = param(name, b->type, 1);
      p->equals_one = true;
      p->passed = false;
    } else {
      *p = (tk_artifact_param){.name = name,
                               .kind = TK_PARAM_CONSTEXPR,
                               .dtype = TK_NO_DTYPE,
                               .divisible = 1,
                               .passed = false,
                               .value = constant(s, b->value)};
    }
  }
}

/* ---- tensor maps ---- */

/* A parameter of the function as grid expressions call it: what belongs to a descriptor is a member of it. */
static const char *param_name(tkc_session *s, const driver_kernel *k, const tir_value *v) {
  int at = 0;
  while (at < k->fn->n_params && k->fn->params[at].value != v) at++;
  if (at == k->fn->n_params) base_panic("a tensor map depends on more than the kernel's arguments");
  int n_source = k->kernel ? k->kernel->n_params : 0, first = 0;
  for (int i = 0; i < n_source; i++) {
    const lang_binding *b = &k->bindings[i];
    if (b->bound != LANG_ARGUMENT) continue;
    int axis = at - first - 1;
    first += lang_n_passed(b->type);
    if (at >= first || axis < 0) continue;
    const char *name = k->kernel->params[i].name;
    return axis < b->type->rank ? arena_printf(s->a, "%s.shape[%d]", name, axis)
                                : arena_printf(s->a, "%s.stride(%d)", name, axis - b->type->rank);
  }
  return k->fn->params[at].name;
}

/* An integer that the runtime computes from the arguments, as a grid expression. */
static void expression(tkc_session *s, const driver_kernel *k, const tir_value *v, textbuf *out) {
  static const char *const signs[OP_N] = {[OP_add] = " + ", [OP_sub] = " - ", [OP_mul] = " * ", [OP_ge] = " >= "};
  int64_t c;
  const tir_op *op = v->def;
  if (tir_known_int(v, &c)) {
    text_printf(out, "%lld", (long long)c);
  } else if (!op) {
    text_str(out, param_name(s, k, v));
  } else if (op->code == OP_cast) {
    expression(s, k, tir_in(op, 0), out);
  } else if (op->code == OP_select) {
    text_char(out, '(');
    expression(s, k, tir_in(op, 1), out);
    text_str(out, " if ");
    expression(s, k, tir_in(op, 0), out);
    text_str(out, " else ");
    expression(s, k, tir_in(op, 2), out);
    text_char(out, ')');
  } else {
    if (!signs[op->code]) base_panic("a tensor map with a %s", tir_ops[op->code].name);
    text_char(out, '(');
    expression(s, k, tir_in(op, 0), out);
    text_str(out, signs[op->code]);
    expression(s, k, tir_in(op, 1), out);
    text_char(out, ')');
  }
}

static tk_artifact_map map(tkc_session *s, const driver_kernel *k, const tir_op *op) {
  const tir_attr *box = tir_attr_of(op, ATTR_box);
  const tir_value *base = tir_in(op, 0);
  textbuf sizes, strides;
  text_init(&sizes, s->a);
  text_init(&strides, s->a);
  text_str(&strides, "1");
  tk_artifact_map m = {.param = param_name(s, k, base),
                       .dtype = tir_attr_str(op, ATTR_rounding, tir_dtypes[base->type->elem->dtype].text),
                       .rank = box->n,
                       .swizzle = (int)tir_attr_int(op, ATTR_swizzle, 0)};
  for (int i = 0; i < box->n; i++) {
    m.box[i] = (int)box->ints[i];
    if (i) text_str(&sizes, ", ");
    expression(s, k, tir_in(op, 1 + i), &sizes);
    if (!i) continue;
    text_str(&strides, ", ");
    expression(s, k, tir_in(op, box->n + i), &strides);
  }
  m.sizes = sizes.at;
  m.strides = strides.at;
  return m;
}

static void list_maps(tkc_session *s, const driver_kernel *k, tk_artifact_kernel *out) {
  int n = 0;
  for (const tir_op *op = tir_first(k->fn); op; op = tir_next(op)) n += op->code == OP_tensor_map;
  out->maps = ARENA_ARRAY(s->a, tk_artifact_map, n + 1);
  for (const tir_op *op = tir_first(k->fn); op; op = tir_next(op))
    if (op->code == OP_tensor_map) out->maps[out->n_maps++] = map(s, k, op);
}

const char *driver_metadata(tkc_session *s, const driver_plan *plan, const driver_kernel *ks, int n, int ptx_version) {
  tk_artifact a = {.source = base_name(s->source->path),
                   .source_hash = XXH3_64bits(s->source->text, s->source->len),
                   .arch = plan->arch->name,
                   .ptx_version = ptx_version,
                   .n_kernels = n,
                   .kernels = ARENA_ARRAY(s->a, tk_artifact_kernel, n)};
  for (int i = 0; i < n; i++) {
    tk_artifact_kernel *k = &a.kernels[i];
    *k = (tk_artifact_kernel){.name = ks[i].fn->name,
                              .num_warps = ks[i].fn->num_warps,
                              .num_stages = ks[i].fn->num_stages,
                              .num_ctas = 1,
                              .dynamic_shared_bytes = (int)ks[i].fn->shared_bytes,
                              .grid = ks[i].kernel ? ks[i].kernel->grid : NULL};
    k->producer_warps = ks[i].fn->producer_warps;
    k->gang = ks[i].fn->gang;
    k->persistent = tir_is_persistent(ks[i].fn);
    list_params(s, &ks[i], k);
    list_maps(s, &ks[i], k);
  }
  char *text;
  tk_artifact_error error;
  if (!tk_artifact_write(&a, &text, &error)) {
    diag_add(&s->sink, (span){0, 0}, &D_metadata, s->source->path, error.message);
    return NULL;
  }
  const char *kept = arena_printf(s->a, "%s", text);
  free(text);
  return kept;
}
