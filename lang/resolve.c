/* Files and what they define: functions, constants, imports; which functions are kernels; parameters as written.
 *
 * Nothing here needs types. A file may be Triton's own Python with host code in it: statements that do not define
 * something a kernel could use are passed over, and constants are evaluated only when a kernel uses them, so that a
 * host expression that tkc cannot evaluate harms nobody. */
#include "lang/sema.h"
#include "lang/std.h"

#include <string.h>

enum { MAX_SOURCE = 1 << 26 }; /* bytes; so that a wrong file is an error and not minutes of parsing */

/* ---- maps ----------------------------------------------------------------------------------------------------- */

static int map_slot(const sema_map *m, const char *key) {
  uint64_t h = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15); /* Knuth: 2^64 over the golden ratio */
  int k = (int)(h >> 40) & (m->cap - 1);
  while (m->key[k] && m->key[k] != key) k = (k + 1) & (m->cap - 1);
  return k;
}

int sema_map_get(const sema_map *m, const char *key) {
  if (m->cap == 0) return -1;
  int k = map_slot(m, key);
  return m->key[k] ? m->at[k] : -1;
}

void sema_map_put(arena *a, sema_map *m, const char *key, int at) {
  if (m->n * 2 >= m->cap) {
    sema_map old = *m;
    m->cap = old.cap ? old.cap * 2 : 64;
    m->key = ARENA_ARRAY(a, const char *, m->cap);
    m->at = ARENA_ARRAY(a, int, m->cap);
    m->n = 0;
    for (int i = 0; i < old.cap; i++)
      if (old.key[i]) sema_map_put(a, m, old.key[i], old.at[i]);
  }
  int k = map_slot(m, key);
  if (!m->key[k]) m->n++;
  m->key[k] = key;
  m->at[k] = at;
}

/* ---- evaluating outside of functions ---------------------------------------------------------------------------- */

sema *sema_new(lang_unit *u, const sema_scope *sc, diag_sink *sink) {
  sema_frame *frame = ARENA_NEW(u->a, sema_frame);
  sema *s = ARENA_NEW(u->a, sema);
  *frame = (sema_frame){.scope = sc};
  *s = (sema){.unit = u, .cx = u->cx, .a = u->a, .frame = frame, .sink = sink};
  return s;
}

/* ---- globals of a file ------------------------------------------------------------------------------------------ */

/* A later definition of a name wins, as in Python. */
static void define(sema_scope *sc, sema_global g) {
  int i = sema_map_get(&sc->index, g.name);
  if (i >= 0) {
    sc->globals.at[i] = g;
    return;
  }
  sema_map_put(sc->unit->a, &sc->index, g.name, sc->globals.n);
  VEC_PUSH(sc->unit->a, sc->globals, g);
}

static lang_value *named_value(lang_unit *u, lang_kind kind, const char *name) {
  lang_value *v = value_new(u->a, kind);
  v->u.name = name;
  return v;
}

/* What `from module import name` gives. */
static lang_value *imported(lang_unit *u, const char *module, const char *name) {
  const char *path = arena_printf(u->a, "%s.%s", module, name);
  if (sema_known_module(path)) return named_value(u, LANG_MODULE, path);
  if (sema_known_module(module)) {
    diag_sink quiet;
    diag_sink_init(&quiet, u->a, u->sources);
    lang_value *v = sema_module_member(sema_new(u, u->main, &quiet), (span){0, 0}, module, name);
    if (!sema_is_poison(v)) return v;
  }
  return named_value(u, LANG_FOREIGN, path);
}

static void define_import(sema_scope *sc, const ast_node *n) {
  lang_unit *u = sc->unit;
  for (int i = 0; i < n->n_list; i++) {
    const ast_node *item = n->list[i];
    if (item->kind != AST_IMPORT_NAME || !item->name) continue;
    const char *alias = item->u.s ? strtab_str(u->cx->names, item->u.s) : NULL;
    sema_global g = {.kind = GLOBAL_IMPORT, .node = item};
    if (n->name) {
      if (strcmp(item->name, "*") == 0) continue;
      g.name = alias ? alias : item->name;
      g.value = imported(u, n->name, item->name);
    } else {
      const char *dot = strchr(item->name, '.');
      const char *path =
          alias || !dot ? item->name : strtab_intern(u->cx->names, item->name, (size_t)(dot - item->name));
      g.name = alias ? alias : path;
      g.value = named_value(u, sema_known_module(path) ? LANG_MODULE : LANG_FOREIGN, path);
    }
    define(sc, g);
  }
}

/* Python lets the last of two functions win; of two kernels, one would be missing from the output without a word. */
static void check_one_kernel(const sema_scope *sc, const ast_node *def) {
  int at = sema_map_get(&sc->index, def->name);
  if (at < 0 || sc->globals.at[at].kind != GLOBAL_FUNCTION || !sema_decorator(def, "kernel")) return;
  const ast_node *first = sc->globals.at[at].node;
  if (!sema_decorator(first, "kernel")) return;
  diag *d = diag_add(sc->unit->sink, def->name_at, &D_kernel_twice, def->name);
  diag_note(d, first->name_at, "the first one is here");
}

static void define_all(sema_scope *sc, const ast_node *suite) {
  if (!suite) return;
  if (suite->kind == AST_IF) {
    define_all(sc, suite->kid[1]);
    define_all(sc, suite->kid[2]);
    return;
  }
  for (int i = 0; i < suite->n_list; i++) {
    const ast_node *n = suite->list[i];
    switch (n->kind) {
      case AST_FUNCTION: {
        check_one_kernel(sc, n);
        lang_value *v = value_new(sc->unit->a, LANG_FUNCTION);
        v->u.fn.def = n;
        v->u.fn.scope = sc;
        define(sc, (sema_global){.name = n->name, .kind = GLOBAL_FUNCTION, .node = n, .value = v});
        break;
      }
      case AST_ASSIGN:
        for (int k = 0; k < n->n_list; k++)
          if (n->list[k]->kind == AST_NAME)
            define(sc, (sema_global){.name = n->list[k]->name, .kind = GLOBAL_CONSTANT, .node = n->kid[0]});
        break;
      case AST_ANNASSIGN:
        if (n->kid[0]->kind == AST_NAME && n->kid[2])
          define(sc, (sema_global){.name = n->kid[0]->name, .kind = GLOBAL_CONSTANT, .node = n->kid[2]});
        break;
      case AST_IMPORT: define_import(sc, n); break;
      case AST_IF: define_all(sc, n); break;
      case AST_WITH: define_all(sc, n->kid[0]); break;
      default: break;
    }
  }
}

static sema_scope *new_scope(lang_unit *u, const src_file *file, bool is_std) {
  sema_scope *sc = ARENA_NEW(u->a, sema_scope);
  sc->unit = u;
  sc->is_std = is_std;
  sc->file = ast_parse(u->sink, u->cx->names, file);
  return sc;
}

/* ---- decorators ------------------------------------------------------------------------------------------------- */

/* Last component of a decorator's name: jit of @triton.jit(...). */
static const char *decorator_name(const ast_node *d) {
  const ast_node *e = d->kid[0];
  if (e && e->kind == AST_CALL) e = e->kid[0];
  return e && (e->kind == AST_NAME || e->kind == AST_ATTRIBUTE) && e->name ? e->name : "";
}

const ast_node *sema_decorator(const ast_node *def, const char *name) {
  for (int i = 0; i < def->n_list; i++)
    if (def->list[i]->kind == AST_DECORATOR && strcmp(decorator_name(def->list[i]), name) == 0) return def->list[i];
  return NULL;
}

static const ast_node *decorator_keyword(const ast_node *d, const char *name) {
  const ast_node *call = d ? d->kid[0] : NULL;
  if (!call || call->kind != AST_CALL) return NULL;
  for (int i = 0; i < call->n_list; i++)
    if (call->list[i]->kind == AST_KEYWORD && strcmp(call->list[i]->name, name) == 0) return call->list[i]->kid[0];
  return NULL;
}

static int decorator_int(lang_unit *u, const ast_node *d, const char *name) {
  const ast_node *e = decorator_keyword(d, name);
  if (!e) return 0;
  bool is_warps = strcmp(name, "num_warps") == 0;
  bool ok = e->kind == AST_INT && !e->u.big && e->u.i >= 1 && e->u.i <= (is_warps ? 32 : 16);
  if (ok && is_warps) ok = (e->u.i & (e->u.i - 1)) == 0;
  if (!ok) {
    diag_add(u->sink, e->at, &D_bad_option, name, is_warps ? "a power of two from 1 to 32" : "a number from 1 to 16");
    return 0;
  }
  return (int)e->u.i;
}

static const char *source_text(lang_unit *u, span at) {
  const src_file *f = src_file_of(u->sources, at);
  return f ? arena_printf(u->a, "%.*s", (int)at.len, f->text + (at.pos - f->base)) : NULL;
}

static void grid_of(lang_unit *u, lang_kernel *k) {
  const ast_node *d = sema_decorator(k->def, "grid");
  if (!d) return;
  const ast_node *call = d->kid[0];
  if (call->kind != AST_CALL || call->n_list < 1 || call->n_list > 3) {
    diag_add(u->sink, d->at, &D_bad_grid);
    return;
  }
  k->grid = source_text(u, span_join(call->list[0]->at, call->list[call->n_list - 1]->at));
}

/* Marks the parameters named in do_not_specialize=[names or indices]. */
static void mark_params(lang_kernel *k, const ast_node *list, bool alignment_only) {
  if (!list || (list->kind != AST_LIST && list->kind != AST_TUPLE)) return;
  for (int i = 0; i < list->n_list; i++) {
    const ast_node *e = list->list[i];
    int at = e->kind == AST_STRING                 ? lang_param_index(k, e->u.s)
             : e->kind == AST_INT && e->u.i < 1000 ? (int)e->u.i
                                                   : -1;
    if (at < 0 || at >= k->n_params) continue;
    if (alignment_only)
      k->params[at].no_alignment = true;
    else
      k->params[at].no_specialise = true;
  }
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static lang_value *evaluate(lang_unit *u, sema_scope *sc, const ast_node *e, diag_sink *sink) {
  return sema_eval(sema_new(u, sc, sink), e);
}

static void bad_annotation(lang_unit *u, const ast_node *e, lang_param *p) {
  p->is_wrong = true;
  diag *d = diag_add(u->sink, e->at, &D_bad_annotation, source_text(u, e->at));
  diag_fix(d, e->at, "types are written f32, i64, *f16 (pointer), *const f32, i32:16 (a multiple of 16), constexpr");
}

static void bare_descriptor(lang_unit *u, const ast_node *e, lang_param *p) {
  p->is_wrong = true;
  diag_add(u->sink, e->at, &D_descriptor_type);
}

static void read_annotation(lang_unit *u, sema_scope *sc, const ast_node *e, lang_param *p) {
  if (!e) return;
  switch (e->kind) {
    case AST_DIVISIBLE: {
      read_annotation(u, sc, e->kid[0], p);
      const ast_node *n = e->kid[1];
      bool ok = n && n->kind == AST_INT && !n->u.big && sema_is_divisibility(n->u.i);
      if (!ok || p->kind == LANG_PARAM_CONSTEXPR ||
          (p->type && p->type->kind == TY_SCALAR && !dt_is_int(p->type->dtype)))
        diag_add(u->sink, n ? n->at : e->at, &D_bad_divisibility);
      else
        p->divisibility = (int)n->u.i;
      return;
    }
    case AST_POINTER: {
      lang_param of = {0};
      of.kind = LANG_PARAM_UNTYPED;
      read_annotation(u, sc, e->kid[0], &of);
      if (!of.type) {
        p->is_wrong = of.is_wrong;
        if (!of.is_wrong && e->kid[0] && e->kid[0]->kind != AST_ERROR) bad_annotation(u, e, p);
        return;
      }
      p->kind = LANG_PARAM_POINTER;
      p->type = tir_ptr_type(u->cx, of.type, e->flag);
      return;
    }
    case AST_STRING: {
      if (descriptor_is_annotation(e)) {
        p->kind = LANG_PARAM_DESCRIPTOR;
        p->descriptor = e;
        return;
      }
      if (descriptor_is_word(e->u.s, e->u.s_len)) {
        bare_descriptor(u, e, p);
        return;
      }
      if (strcmp(e->u.s, "constexpr") == 0 || strcmp(e->u.s, "tl.constexpr") == 0) {
        p->kind = LANG_PARAM_CONSTEXPR;
        return;
      }
      const tir_type *t = lang_type_named(u->cx, e->u.s, e->u.s_len);
      if (!t) return;
      p->type = t;
      p->kind = t->kind == TY_PTR ? LANG_PARAM_POINTER : LANG_PARAM_SCALAR;
      return;
    }
    case AST_SUBSCRIPT:
      if (!descriptor_is_annotation(e) || sema_map_get(&sc->index, e->kid[0]->name) >= 0) break;
      p->kind = LANG_PARAM_DESCRIPTOR;
      p->descriptor = e;
      return;
    case AST_ERROR:
    case AST_NONE: return;
    default: break;
  }
  /* Python's own types, also in files where no name says so. */
  if (e->kind == AST_NAME && sema_map_get(&sc->index, e->name) < 0) {
    const char *dtype = strcmp(e->name, "int") == 0     ? "i32"
                        : strcmp(e->name, "float") == 0 ? "f32"
                        : strcmp(e->name, "bool") == 0  ? "i1"
                                                        : NULL;
    if (dtype) {
      p->type = lang_type_named(u->cx, dtype, strlen(dtype));
      p->kind = LANG_PARAM_SCALAR;
      return;
    }
    if (descriptor_is_word(e->name, strlen(e->name))) {
      bare_descriptor(u, e, p);
      return;
    }
  }
  diag_sink quiet;
  diag_sink_init(&quiet, u->a, u->sources);
  lang_value *v = evaluate(u, sc, e, &quiet);
  if (v->kind == LANG_TYPE && v->u.type->kind != TY_TILE) {
    p->type = v->u.type;
    p->kind = v->u.type->kind == TY_PTR ? LANG_PARAM_POINTER : LANG_PARAM_SCALAR;
  } else if (v->kind == LANG_BUILTIN && strcmp(v->u.builtin->name, "constexpr") == 0) {
    p->kind = LANG_PARAM_CONSTEXPR;
  } else if (v->kind == LANG_BUILTIN && strcmp(v->u.builtin->name, "const") == 0) {
    p->is_const = true;
  } else if (v->kind == LANG_BUILTIN && strcmp(v->u.builtin->name, "tensor_descriptor") == 0) {
    p->needs_block = true;
  } else if (sema_is_poison(v) && e->kind == AST_NAME) {
    bad_annotation(u, e, p);
  }
}

int lang_param_index(const lang_kernel *k, const char *name) {
  for (int i = 0; i < k->n_params; i++)
    if (strcmp(k->params[i].name, name) == 0) return i;
  return -1;
}

/* The first configuration that @autotune(configs=[Config({"BLOCK": 128}, num_warps=4), ..]) writes out gives values to
   parameters that have none, until a tuner or the command line chooses. */
static void first_config(lang_unit *u, lang_kernel *k, int *num_warps, int *num_stages) {
  const ast_node *d = sema_decorator(k->def, "autotune"), *list = decorator_keyword(d, "configs");
  if (d && !list && d->kid[0]->kind == AST_CALL && d->kid[0]->n_list) list = d->kid[0]->list[0];
  if (!list || (list->kind != AST_LIST && list->kind != AST_TUPLE) || list->n_list == 0) return;
  const ast_node *config = list->list[0], *values = NULL;
  if (config->kind != AST_CALL) return;
  for (int i = 0; i < config->n_list; i++) {
    const ast_node *e = config->list[i];
    bool named = e->kind == AST_KEYWORD;
    if (i == 0 && !named) values = e;
    if (!named) continue;
    const ast_node *v = e->kid[0];
    bool is_int = v->kind == AST_INT && !v->u.big && v->u.i >= 1 && v->u.i <= 32;
    if (strcmp(e->name, "kwargs") == 0) values = v;
    if (strcmp(e->name, "num_warps") == 0 && is_int && (v->u.i & (v->u.i - 1)) == 0) *num_warps = (int)v->u.i;
    if (strcmp(e->name, "num_stages") == 0 && is_int) *num_stages = (int)v->u.i;
  }
  if (!values || values->kind != AST_DICT) return;
  diag_sink quiet;
  diag_sink_init(&quiet, u->a, u->sources);
  for (int i = 0; i + 1 < values->n_list; i += 2) {
    const ast_node *key = values->list[i];
    int at = key->kind == AST_STRING ? lang_param_index(k, key->u.s) : -1;
    if (at < 0 || k->params[at].value) continue;
    lang_value *v = evaluate(u, u->main, values->list[i + 1], &quiet);
    if (!sema_is_poison(v) && v->kind != LANG_FOREIGN) k->params[at].value = v;
  }
}

static lang_kernel *new_kernel(lang_unit *u, const ast_node *def) {
  lang_kernel *k = ARENA_NEW(u->a, lang_kernel);
  k->name = def->name;
  k->at = def->name_at;
  k->def = def;
  k->params = ARENA_ARRAY(u->a, lang_param, def->n_list ? def->n_list : 1);
  for (int i = 0; i < def->n_list; i++) {
    const ast_node *n = def->list[i];
    if (n->kind != AST_PARAM || !n->name) continue;
    if (n->op != AOP_NOP) {
      diag_add(u->sink, n->at, &D_kernel_varargs, n->name);
      continue;
    }
    lang_param *p = &k->params[k->n_params++];
    *p = (lang_param){.name = n->name, .at = n->name_at, .kind = LANG_PARAM_UNTYPED};
    read_annotation(u, u->main, n->kid[0], p);
    if (n->kid[1]) {
      lang_value *v = evaluate(u, u->main, n->kid[1], u->sink);
      bool is_descriptor = p->descriptor || p->needs_block, fits = !is_descriptor || v->kind == LANG_NONE;
      if (!fits && !sema_is_poison(v)) diag_add(u->sink, n->kid[1]->at, &D_descriptor_default, value_describe(u->a, v));
      if (sema_is_poison(v) || !fits)
        p->is_wrong = true;
      else
        p->value = v;
    }
  }
  const ast_node *jit = sema_decorator(def, "jit"), *kernel = sema_decorator(def, "kernel");
  k->num_warps = decorator_int(u, kernel, "num_warps");
  k->num_stages = decorator_int(u, kernel, "num_stages");
  mark_params(k, decorator_keyword(jit, "do_not_specialize"), false);
  mark_params(k, decorator_keyword(kernel, "do_not_specialize"), false);
  mark_params(k, decorator_keyword(jit, "do_not_specialize_on_alignment"), true);
  mark_params(k, decorator_keyword(kernel, "do_not_specialize_on_alignment"), true);
  first_config(u, k, &k->num_warps, &k->num_stages);
  grid_of(u, k);
  return k;
}

/* ---- which functions are kernels --------------------------------------------------------------------------------- */

/* Marks every name that occurs in a tree. */
static void mark_names(lang_unit *u, const ast_node *n, sema_map *used) {
  if (!n) return;
  if (n->kind == AST_NAME) sema_map_put(u->a, used, n->name, 1);
  for (int i = 0; i < 4; i++) mark_names(u, n->kid[i], used);
  for (int i = 0; i < n->n_list; i++)
    if (n->list[i]->kind != AST_DECORATOR) mark_names(u, n->list[i], used);
}

static void find_kernels(lang_unit *u) {
  sema_scope *sc = u->main;
  bool marked = false;
  sema_map used = {0};
  int n_jit = 0, n_functions = 0;
  for (int i = 0; i < sc->globals.n; i++) {
    const sema_global *g = &sc->globals.at[i];
    if (g->kind != GLOBAL_FUNCTION) continue;
    n_functions++;
    if (sema_decorator(g->node, "kernel")) marked = true;
    if (!sema_decorator(g->node, "jit")) continue;
    n_jit++;
    sema_map own = {0};
    mark_names(u, g->node, &own);
    for (int k = 0; k < own.cap; k++)
      if (own.key[k] && own.key[k] != g->name) sema_map_put(u->a, &used, own.key[k], 1);
  }
  for (int i = 0; i < sc->globals.n; i++) {
    const sema_global *g = &sc->globals.at[i];
    if (g->kind != GLOBAL_FUNCTION) continue;
    bool entry = marked ? sema_decorator(g->node, "kernel") != NULL
                        : sema_decorator(g->node, "jit") != NULL && sema_map_get(&used, g->name) < 0;
    if (entry) VEC_PUSH(u->a, u->kernels, new_kernel(u, g->node));
  }
  if (u->kernels.n == 0 && n_jit == 0 && !marked && u->sink->n_errors == 0) {
    span at = {sc->file->source->base, 0};
    diag *d = diag_add(u->sink, at, &D_no_kernel);
    if (n_functions) diag_fix(d, at, "write @kernel (or @triton.jit) above the function that is launched");
  }
}

/* ---- interface --------------------------------------------------------------------------------------------------- */

lang_unit *lang_load(tir_cx *cx, diag_sink *sink, src_map *sources, const char *path, const char *text, size_t len) {
  arena *a = cx->a;
  lang_unit *u = ARENA_NEW(a, lang_unit);
  *u = (lang_unit){.cx = cx, .a = a, .sink = sink, .sources = sources};
  u->none = value_new(a, LANG_NONE);
  u->poison = value_new(a, LANG_POISON);
  u->ellipsis = value_new(a, LANG_ELLIPSIS);
  u->yes = value_new(a, LANG_BOOL);
  u->yes->u.b = true;
  u->no = value_new(a, LANG_BOOL);
  for (int i = 0; i < sema_n_builtins; i++)
    sema_map_put(a, &u->builtins, strtab_str(cx->names, sema_builtins[i].name), i);

  const src_file *source = src_add(sources, path, text, len > MAX_SOURCE ? 0 : len);
  if (!source) base_panic("the source map is full");
  if (len > MAX_SOURCE) diag_add(sink, (span){source->base, 0}, &D_source_too_big, (int)MAX_SOURCE);
  u->main = new_scope(u, source, false);
  u->std = ARENA_ARRAY(a, sema_scope *, lang_n_std_files ? lang_n_std_files : 1);
  for (int i = 0; i < lang_n_std_files; i++) {
    const src_file *f = src_add(sources, lang_std_files[i].path, lang_std_files[i].text, lang_std_files[i].len);
    if (!f) base_panic("no room for the standard library's source");
    u->std[u->n_std++] = new_scope(u, f, true);
    define_all(u->std[i], u->std[i]->file->module);
  }
  define_all(u->main, u->main->file->module);
  find_kernels(u);
  return u;
}

int lang_n_kernels(const lang_unit *u) { return u->kernels.n; }
const lang_kernel *lang_kernel_at(const lang_unit *u, int i) { return u->kernels.at[i]; }
const ast_file *lang_syntax(const lang_unit *u) { return u->main->file; }

const lang_kernel *lang_kernel_named(lang_unit *u, const char *name) {
  for (int i = 0; i < u->kernels.n; i++)
    if (strcmp(u->kernels.at[i]->name, name) == 0) return u->kernels.at[i];
  int at = sema_map_get(&u->main->index, strtab_str(u->cx->names, name));
  if (at >= 0 && u->main->globals.at[at].kind == GLOBAL_FUNCTION) return new_kernel(u, u->main->globals.at[at].node);
  span top = {u->main->file->source->base, 0};
  diag *d = diag_add(u->sink, top, &D_kernel_unknown, name);
  textbuf b;
  text_init(&b, u->a);
  for (int i = 0; i < u->kernels.n && i < 10; i++) text_printf(&b, "%s%s", i ? ", " : "", u->kernels.at[i]->name);
  if (b.n) diag_note(d, top, "the file's kernels: %s", b.at);
  return NULL;
}

lang_value *sema_std_function(const lang_unit *u, const char *name) {
  if (name[0] == '_') return NULL;
  name = strtab_str(u->cx->names, name);
  for (int i = 0; i < u->n_std; i++) {
    int at = sema_map_get(&u->std[i]->index, name);
    if (at >= 0 && u->std[i]->globals.at[at].kind == GLOBAL_FUNCTION) return u->std[i]->globals.at[at].value;
  }
  return NULL;
}
