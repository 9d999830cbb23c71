/* Looking names up: locals, then the file's globals, then builtins, dtypes and the standard library; members of modules
 * and of dtypes; and what to say when there is no such name. */
#include "lang/sema.h"

#include <math.h>
#include <string.h>

static const char *const triton_names[] = {
#define NAME(name) #name,
#include "lang/triton_names.def"
#undef NAME
};

bool sema_is_triton_name(const char *name) {
  for (size_t i = 0; i < sizeof triton_names / sizeof *triton_names; i++)
    if (strcmp(triton_names[i], name) == 0) return true;
  return false;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

typedef enum module_kind { MODULE_TRITON, MODULE_LANGUAGE, MODULE_LIBDEVICE, MODULE_NAN, MODULE_MATH } module_kind;

static const struct {
  const char *path;
  module_kind kind;
} modules[] = {
    {"triton", MODULE_TRITON},
    {"triton.language", MODULE_LANGUAGE},
    {"triton.language.core", MODULE_LANGUAGE},
    {"triton.language.math", MODULE_LANGUAGE},
    {"triton.language.standard", MODULE_LANGUAGE},
    {"triton.language.semantic", MODULE_LANGUAGE},
    {"triton.language.extra", MODULE_LANGUAGE},
    {"triton.language.extra.cuda", MODULE_LANGUAGE},
    {"triton.language.libdevice", MODULE_LIBDEVICE},
    {"triton.language.math.libdevice", MODULE_LIBDEVICE},
    {"triton.language.extra.libdevice", MODULE_LIBDEVICE},
    {"triton.language.extra.cuda.libdevice", MODULE_LIBDEVICE},
    {"triton.language.PropagateNan", MODULE_NAN},
    {"triton.language.core.PropagateNan", MODULE_NAN},
    {"math", MODULE_MATH},
};

static int module_at(const char *path) {
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strcmp(modules[i].path, path) == 0) return (int)i;
  return -1;
}

bool sema_known_module(const char *path) { return module_at(path) >= 0; }

const sema_builtin *builtin_named(const lang_unit *u, const char *name) {
  int i = sema_map_get(&u->builtins, strtab_str(u->cx->names, name));
  return i < 0 ? NULL : &sema_builtins[i];
}

static lang_value *builtin_value(sema *s, const sema_builtin *b) {
  lang_value *v = value_new(s->a, LANG_BUILTIN);
  v->u.builtin = b;
  return v;
}

static lang_value *unknown_member(sema *s, span name_at, const char *module, const char *name) {
  if (sema_is_triton_name(name)) return sema_fail(s, name_at, &D_not_supported_yet, module, name);
  const char *near = sema_nearest(s, name, true);
  diag *d = sema_report(s, name_at, &D_no_member, module, name);
  if (near) diag_fix(d, sema_place(s, name_at), "did you mean '%s'?", near);
  return s->unit->poison;
}

static lang_value *language_member(sema *s, span name_at, const char *module, const char *name) {
  tir_dtype d;
  if (tir_dtype_named(name, strlen(name), &d)) return sema_type(s, tir_scalar_type(s->cx, d));
  if (strcmp(name, "pi32_t") == 0) return sema_type(s, tir_ptr_type(s->cx, tir_scalar_type(s->cx, DT_i32), false));
  if (strcmp(name, "TRITON_MAX_TENSOR_NUMEL") == 0) return sema_int(s, TIR_MAX_NUMEL);
  const sema_builtin *b = builtin_named(s->unit, name);
  if (b && !(b->flags & BUILTIN_PYTHON)) return builtin_value(s, b);
  lang_value *v = sema_std_function(s->unit, name);
  return v ? v : unknown_member(s, name_at, module, name);
}

static lang_value *math_member(sema *s, span name_at, const char *name) {
  static const struct {
    const char *name;
    double value;
  } constants[] = {{"pi", 3.14159265358979323846},
                   {"e", 2.71828182845904523536},
                   {"tau", 6.28318530717958647692},
                   {"inf", HUGE_VAL}};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (strcmp(constants[i].name, name) == 0) return sema_float(s, constants[i].value);
  if (strcmp(name, "nan") == 0) return sema_float(s, (double)NAN);
  return sema_fail(s, name_at, &D_host_member, "math", name);
}

lang_value *sema_module_member(sema *s, span name_at, const char *module, const char *name) {
  const char *path = arena_printf(s->a, "%s.%s", module, name);
  if (module_at(path) >= 0) return sema_module(s, path);
  int m = module_at(module);
  if (m < 0) return sema_fail(s, name_at, &D_host_member, module, name);
  switch (modules[m].kind) {
    case MODULE_LANGUAGE: return language_member(s, name_at, "tl", name);
    case MODULE_MATH: return math_member(s, name_at, name);
    case MODULE_NAN:
      if (strcmp(name, "ALL") == 0 || strcmp(name, "NONE") == 0) return sema_str(s, name, strlen(name));
      return unknown_member(s, name_at, "PropagateNan", name);
    case MODULE_LIBDEVICE: {
      const sema_builtin *b = builtin_named(s->unit, name);
      if (b && (b->flags & BUILTIN_LIBDEVICE)) return builtin_value(s, b);
      return unknown_member(s, name_at, "libdevice", name);
    }
    default: {
      const sema_builtin *b = builtin_named(s->unit, name);
      if (b && (b->flags & BUILTIN_TRITON)) return builtin_value(s, b);
      if (strcmp(name, "cdiv") == 0) return sema_std_function(s->unit, name);
      return sema_fail(s, name_at, &D_host_member, module, name);
    }
  }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static lang_value *global_value(sema *s, const sema_scope *sc, int index) {
  sema_global *g = &sc->globals.at[index];
  if (g->value) return g->value;
  if (!g->busy) {
    g->busy = true;
    diag_sink quiet;
    diag_sink_init(&quiet, s->unit->a, s->unit->sources);
    sema_frame frame = {.scope = sc};
    sema inner = {.unit = s->unit,
                  .cx = s->cx,
                  .a = s->unit->a,
                  .opt = s->opt,
                  .frame = &frame,
                  .depth = s->depth,
                  .sink = &quiet};
    lang_value *v = sema_eval(&inner, g->node);
    g->busy = false;
    if (!sema_is_poison(v) && !inner.failed) return g->value = v;
  }
  g->value = value_new(s->unit->a, LANG_FOREIGN);
  g->value->u.name = g->name;
  return g->value;
}

lang_value *sema_local_get(const sema_frame *f, const char *name) {
  for (int i = f->locals.n - 1; i >= 0; i--)
    if (f->locals.at[i].name == name) return f->locals.at[i].value;
  return NULL;
}

/* A name of the language that needs no import; also `tl` and the like, whose import may stand in a `try` that nobody
   reads. */
static lang_value *bare_name(sema *s, const char *name) {
  const sema_builtin *b = builtin_named(s->unit, name);
  if (b && (!(b->flags & BUILTIN_HIDDEN) || s->frame->scope->is_std)) return builtin_value(s, b);
  tir_dtype d;
  if (tir_dtype_named(name, strlen(name), &d)) return sema_type(s, tir_scalar_type(s->cx, d));
  static const char *const usual[][2] = {
      {"tl", "triton.language"}, {"triton", "triton"}, {"libdevice", "triton.language.extra.libdevice"}};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strcmp(usual[i][0], name) == 0) return sema_module(s, usual[i][1]);
  return sema_std_function(s->unit, name);
}

lang_value *sema_lookup(sema *s, const ast_node *e) {
  const char *name = e->name;
  lang_value *v = sema_local_get(s->frame, name);
  if (v) return v;
  const sema_scope *sc = s->frame->scope;
  int g = sema_map_get(&sc->index, name);
  if (g >= 0) {
    v = global_value(s, sc, g);
    if (v->kind != LANG_FOREIGN) return v;
    if (s->frame->def == NULL) return s->failed = true, v; /* a host value made of host values */
    diag *d = sema_report(s, e->at, &D_host_value, v->u.name);
    if (sc->globals.at[g].kind == GLOBAL_IMPORT)
      diag_note(d, sc->globals.at[g].node->at,
                "it is imported here; tkc does not read other files: copy the function into this one");
    else
      diag_note(d, sc->globals.at[g].node->at,
                "this value is computed by host code; a kernel may use numbers, strings, dtypes and tuples of them");
    return s->unit->poison;
  }
  for (int i = 0; i < s->frame->gone.n; i++)
    if (s->frame->gone.at[i] == name) return sema_fail(s, e->at, &D_maybe_undefined, name);
  v = bare_name(s, name);
  if (v) return v;
  if (sema_is_triton_name(name)) return sema_fail(s, e->at, &D_not_supported_yet, "tl", name);
  if (sema_known_module(arena_printf(s->a, "triton.language.%s", name)))
    return sema_module(s, arena_printf(s->a, "triton.language.%s", name));
  diag *d = sema_report(s, e->at, &D_undefined, name);
  const char *near = sema_nearest(s, name, false);
  if (near) diag_fix(d, sema_place(s, e->at), "did you mean '%s'?", near);
  return s->unit->poison;
}

/* ---- near misses ------------------------------------------------------------------------------------------------- */

/* Edits between two short words (insert, delete, replace, swap of neighbours), at most `limit` + 1. Damerau 1964. */
static int distance(const char *a, const char *b, int limit) {
  enum { MAX = 40 };
  int n = (int)strlen(a), m = (int)strlen(b);
  if (n > MAX || m > MAX || n - m > limit || m - n > limit) return limit + 1;
  int row[3][MAX + 1];
  for (int j = 0; j <= m; j++) row[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      int best = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < best) best = last[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      now[j] = best;
    }
  }
  return row[n % 3][m];
}

typedef struct nearest {
  const char *name, *best;
  int limit;
} nearest;

static void consider(nearest *n, const char *candidate) {
  if (candidate[0] == '_' && n->name[0] != '_') return;
  int d = distance(n->name, candidate, n->limit);
  if (d > n->limit || d == 0) return;
  n->best = candidate;
  n->limit = d - 1;
}

const char *sema_nearest(sema *s, const char *name, bool in_language) {
  size_t len = strlen(name);
  if (len < 2 || s->sink->n_errors > 50) return NULL; /* so many mistakes have another cause */
  nearest n = {.name = name, .limit = len <= 3 ? 1 : len <= 8 ? 2 : 3};
  if (!in_language) {
    for (int i = 0; i < s->frame->locals.n; i++) consider(&n, s->frame->locals.at[i].name);
    for (int i = 0; i < s->frame->scope->globals.n && i < 2000; i++) consider(&n, s->frame->scope->globals.at[i].name);
  }
  for (int i = 0; i < sema_n_builtins; i++)
    if (!(sema_builtins[i].flags & BUILTIN_HIDDEN)) consider(&n, sema_builtins[i].name);
  for (int i = 0; i < s->unit->n_std; i++)
    for (int k = 0; k < s->unit->std[i]->globals.n; k++) consider(&n, s->unit->std[i]->globals.at[k].name);
  return n.best;
}

/* ---- members of dtypes ------------------------------------------------------------------------------------------- */

lang_value *type_member(sema *s, const tir_type *t, const char *name, bool *is_method) {
  const tir_type *e = tir_elem(t);
  bool scalar = t->kind == TY_SCALAR;
  tir_dtype d = scalar ? t->dtype : DT_i1;
  const tir_dtype_info *info = &tir_dtypes[d];
  bool is_float = scalar && dt_is_float(d);
  *is_method = true;
  if (strncmp(name, "is_", 3) == 0) {
    const char *q = name + 3;
    if (strcmp(q, "fp8") == 0) return sema_bool(s, is_float && info->bits == 8);
    if (strcmp(q, "floating") == 0) return sema_bool(s, is_float);
    if (strcmp(q, "standard_floating") == 0) return sema_bool(s, is_float && info->bits > 8);
    if (strcmp(q, "int_signed") == 0) return sema_bool(s, scalar && info->kind == DK_SINT);
    if (strcmp(q, "int_unsigned") == 0) return sema_bool(s, scalar && (info->kind == DK_UINT || info->kind == DK_BOOL));
    if (strcmp(q, "int") == 0) return sema_bool(s, scalar && !is_float);
    if (strcmp(q, "bool") == 0) return sema_bool(s, scalar && d == DT_i1);
    if (strcmp(q, "void") == 0) return sema_bool(s, false);
    if (strcmp(q, "block") == 0) return sema_bool(s, t->kind == TY_TILE);
    if (strcmp(q, "ptr") == 0) return sema_bool(s, t->kind == TY_PTR);
    if (strcmp(q, "const") == 0) return sema_bool(s, t->kind == TY_PTR && t->is_const);
    tir_dtype want;
    if (tir_dtype_named(q, strlen(q), &want)) return sema_bool(s, scalar && d == want);
    static const char *const other[] = {"fp8e4b8", "fp8e4b15", "fp8e5b16"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
      if (strcmp(q, other[i]) == 0) return sema_bool(s, false);
  }
  if (strcmp(name, "get_int_max_value") == 0 && scalar && !is_float)
    return sema_int(s, ((lang_int)1 << (info->kind == DK_SINT ? info->bits - 1 : info->bits)) - 1);
  if (strcmp(name, "get_int_min_value") == 0 && scalar && !is_float)
    return sema_int(s, info->kind == DK_SINT ? -((lang_int)1 << (info->bits - 1)) : 0);
  if (strcmp(name, "get_block_shapes") == 0 && t->kind == TY_TILE) {
    lang_value *dims[TIR_MAX_RANK];
    for (int i = 0; i < t->rank; i++) dims[i] = sema_int(s, t->shape[i]);
    return sema_tuple(s, dims, t->rank);
  }
  *is_method = false;
  if (strcmp(name, "scalar") == 0) return sema_type(s, e);
  if (strcmp(name, "element_ty") == 0 || strcmp(name, "dtype") == 0) {
    if (t->kind == TY_TILE) return sema_type(s, e);
    if (t->kind == TY_PTR) return sema_type(s, t->elem);
    if (name[0] == 'e') return NULL;
  }
  if (strcmp(name, "shape") == 0 && t->kind == TY_TILE) {
    bool method;
    return type_member(s, t, "get_block_shapes", &method);
  }
  if (strcmp(name, "primitive_bitwidth") == 0) return sema_int(s, e->kind == TY_PTR ? 64 : tir_dtypes[e->dtype].bits);
  if (strcmp(name, "itemsize") == 0) return sema_int(s, e->kind == TY_PTR ? 8 : tir_dtypes[e->dtype].bytes);
  if (!scalar) return NULL;
  if (strcmp(name, "int_bitwidth") == 0 && !is_float) return sema_int(s, info->bits);
  if (strcmp(name, "fp_mantissa_width") == 0 && is_float) return sema_int(s, info->mantissa);
  if (strcmp(name, "name") == 0) return sema_str(s, info->triton, strlen(info->triton));
  if (strcmp(name, "exponent_bias") == 0 && is_float)
    return sema_int(s, d == DT_f64 ? 1023 : d == DT_f16 || d == DT_f8e5m2 ? 15 : d == DT_f8e4m3 ? 7 : 127);
  return NULL;
}
