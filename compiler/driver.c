/* driver: sessions, options, and the way from a source to text.
 *
 * Every public call runs inside a guard: a panic below becomes TKC_INTERNAL and a diagnostic, and the session accepts
 * nothing but reading its diagnostics and closing. */
#include "compiler/driver.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compiler/llvm/ll.h"
#include "compiler/ptx/ptx.h"

#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "compiler/diags.def"
#undef DIAG

static const span NOWHERE = {0, 0};

int tkc_version(void) { return 100 * TKC_VERSION_MAJOR + TKC_VERSION_MINOR; }

tkc_session *tkc_open(void) {
  base_guard g;
  base_guard_push(&g);
  tkc_session *volatile made = NULL;
  if (setjmp(g.jump) == 0) {
    arena *a = arena_new();
    tkc_session *s = ARENA_NEW(a, tkc_session);
    s->a = a;
    s->names = strtab_new(a);
    s->sources = src_map_new(a);
    diag_sink_init(&s->sink, a, s->sources);
    s->cx = tir_cx_new(a, s->names);
    text_init(&s->dump, a);
    text_init(&s->prints, a);
    made = s;
  }
  base_guard_pop(&g);
  return made;
}

void tkc_close(tkc_session *s) {
  if (s) arena_free(s->a);
}

/* ---- guards ---- */

tkc_status driver_internal_error(tkc_session *s, const base_guard *g) {
  s->broken = true;
  diag_add(&s->sink, NOWHERE, &D_internal, g->message);
  return TKC_INTERNAL;
}

/* ---- loading ---- */

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && !strcmp(s + n - m, end);
}

static const char *param_dtype(tkc_session *s, const lang_param *p) {
  if (!p->type) return NULL;
  return tir_type_text(s->a, p->type->kind == TY_PTR ? p->type->elem : p->type);
}

static void list_kernels(tkc_session *s) {
  if (s->read) {
    s->n_kernels = 1;
    s->kernels = ARENA_NEW(s->a, tkc_kernel);
    tkc_param *params = ARENA_ARRAY(s->a, tkc_param, s->read->n_params + 1);
    for (int i = 0; i < s->read->n_params; i++) {
      const tir_param *p = &s->read->params[i];
      const tir_type *t = p->value->type;
      params[i] = (tkc_param){.name = p->name,
                              .kind = t->kind == TY_PTR ? TKC_PARAM_POINTER : TKC_PARAM_SCALAR,
                              .dtype = tir_type_text(s->a, t->kind == TY_PTR ? t->elem : t),
                              .is_const = t->is_const,
                              .divisibility = p->divisibility};
    }
    *s->kernels = (tkc_kernel){s->read->name, s->read->n_params, params, NULL};
    return;
  }
  s->n_kernels = lang_n_kernels(s->unit);
  s->kernels = ARENA_ARRAY(s->a, tkc_kernel, s->n_kernels + 1);
  for (int i = 0; i < s->n_kernels; i++) {
    const lang_kernel *k = lang_kernel_at(s->unit, i);
    tkc_param *params = ARENA_ARRAY(s->a, tkc_param, k->n_params + 1);
    for (int j = 0; j < k->n_params; j++) {
      const lang_param *p = &k->params[j];
      static const tkc_param_kind kinds[] = {[LANG_PARAM_POINTER] = TKC_PARAM_POINTER,
                                             [LANG_PARAM_SCALAR] = TKC_PARAM_SCALAR,
                                             [LANG_PARAM_CONSTEXPR] = TKC_PARAM_CONSTEXPR,
                                             [LANG_PARAM_DESCRIPTOR] = TKC_PARAM_DESCRIPTOR,
                                             [LANG_PARAM_UNTYPED] = TKC_PARAM_UNTYPED};
      params[j] = (tkc_param){.name = p->name,
                              .kind = kinds[p->kind],
                              .dtype = param_dtype(s, p),
                              .is_const = p->is_const,
                              .no_specialize = p->no_specialise,
                              .divisibility = p->divisibility ? p->divisibility : 1,
                              .default_value = p->value ? lang_value_text(s->a, p->value) : NULL};
    }
    s->kernels[i] = (tkc_kernel){k->name, k->n_params, params, k->grid};
  }
}

static tkc_status load(tkc_session *s, const char *path, const char *text, size_t len) {
  int errors = s->sink.n_errors;
  if (len > INT32_MAX) {
    diag_add(&s->sink, NOWHERE, &D_file_too_big, path);
    return TKC_ERRORS;
  }
  if (ends_with(path, ".tir")) {
    s->source = src_add(s->sources, path, text, len);
    s->read = tir_read(s->cx, s->a, &s->sink, s->source);
    if (s->read) {
      const char *why = tir_verify(s->read);
      if (why) {
        diag_add(&s->sink, s->read->at, &D_bad_tir, why);
        s->read = NULL;
      }
    }
    if (!s->read) return TKC_ERRORS;
  } else {
    s->unit = lang_load(s->cx, &s->sink, s->sources, path, text, len);
    s->source = lang_syntax(s->unit)->source;
  }
  if (s->sink.n_errors > errors) return TKC_ERRORS;
  list_kernels(s);
  return TKC_OK;
}

static tkc_status load_file(tkc_session *s, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    diag_add(&s->sink, NOWHERE, &D_cannot_read, path, strerror(errno));
    return TKC_ERRORS;
  }
  textbuf b;
  text_init(&b, s->a);
  char chunk[65536];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && b.n <= INT32_MAX) text_add(&b, chunk, n);
  int failed = ferror(f) ? errno : 0;
  fclose(f);
  if (failed) {
    diag_add(&s->sink, NOWHERE, &D_cannot_read, path, strerror(failed));
    return TKC_ERRORS;
  }
  return load(s, path, b.at ? b.at : "", b.n);
}

tkc_status tkc_load_file(tkc_session *s, const char *path) { DRIVER_GUARDED(s, load_file(s, path)); }

tkc_status tkc_load_text(tkc_session *s, const char *path, const char *text, size_t len) {
  DRIVER_GUARDED(s, load(s, path, text, len));
}

int tkc_n_kernels(const tkc_session *s) { return s->n_kernels; }

const tkc_kernel *tkc_kernel_at(const tkc_session *s, int i) {
  return i >= 0 && i < s->n_kernels ? &s->kernels[i] : NULL;
}

/* ---- options ---- */

static int pass_index(tkc_session *s, const char *name, size_t len) {
  if (len == strlen("specialise") && !memcmp(name, "specialise", len)) return -1;
  int i = pass_named(name, len);
  if (i >= 0) return i;
  textbuf all;
  text_init(&all, s->a);
  text_str(&all, "specialise");
  for (int k = 0; k < pass_count; k++) text_printf(&all, ", %s", pass_table[k].name);
  diag_add(&s->sink, NOWHERE, &D_unknown_pass, arena_printf(s->a, "%.*s", (int)len, name), all.at);
  return -2;
}

static bool wants_dump(const tkc_options *opt, const char *name) {
  if (!opt->dump_after) return false;
  size_t n = strlen(name);
  for (const char *p = opt->dump_after; *p; p += strcspn(p, ","), p += *p == ',') {
    size_t len = strcspn(p, ",");
    if ((len == n && !memcmp(p, name, n)) || (len == 3 && !memcmp(p, "all", 3))) return true;
  }
  return false;
}

/* One -W: a lint's name, with - or _ between its words, "all", or "no-" and a name. */
static void check_warning(tkc_session *s, const char *option) {
  static const char *const ids[] = {
#define DIAG(id, severity, format) #id,
#include "lang/lint_diags.def"
#undef DIAG
  };
  enum { N = sizeof ids / sizeof *ids };
  bool off = strncmp(option, "no-", 3) == 0;
  char *id = arena_printf(s->a, "%s", off ? option + 3 : option);
  for (char *c = id; *c; c++)
    if (*c == '-') *c = '_';
  int i = 0;
  while (i < N && strcmp(ids[i], id)) i++;
  if (i == N && (off || strcmp(id, "all"))) {
    textbuf names;
    text_init(&names, s->a);
    for (int k = 0; k < N; k++) text_printf(&names, "%s%s", k ? ", " : "", ids[k]);
    for (size_t k = 0; k < names.n; k++)
      if (names.at[k] == '_') names.at[k] = '-';
    diag_add(&s->sink, NOWHERE, &D_unknown_warning, option, names.at);
  } else if (off) {
    VEC_PUSH(s->a, s->sink.off, id);
  }
}

tkc_status driver_plan_make(tkc_session *s, const tkc_options *opt, driver_plan *out) {
  if (!s->unit && !s->read) {
    diag_add(&s->sink, NOWHERE, &D_no_source);
    return TKC_USAGE;
  }
  int errors = s->sink.n_errors;
  const char *name = opt->arch ? opt->arch : "sm_80";
  *out = (driver_plan){.opt = opt, .arch = arch_find(name), .last_pass = pass_count - 1};
  if (!out->arch) {
    textbuf all;
    text_init(&all, s->a);
    arch_list(&all);
    diag_add(&s->sink, NOWHERE, &D_unknown_arch, name, all.at);
  } else if (opt->ptx_version && (!arch_ptx_version_known(opt->ptx_version) || opt->ptx_version < out->arch->ptx)) {
    diag_add(&s->sink, NOWHERE, &D_bad_ptx_version, opt->ptx_version / 10, opt->ptx_version % 10, name,
             out->arch->ptx / 10, out->arch->ptx % 10);
  }
  if (opt->num_warps && (opt->num_warps < 1 || opt->num_warps > 32 || (opt->num_warps & (opt->num_warps - 1))))
    diag_add(&s->sink, NOWHERE, &D_bad_warps, opt->num_warps);
  if (opt->num_stages < 0 || opt->num_stages > 16) diag_add(&s->sink, NOWHERE, &D_bad_stages, opt->num_stages);
  if (opt->stop_after) out->last_pass = pass_index(s, opt->stop_after, strlen(opt->stop_after));
  if (opt->dump_after)
    for (const char *p = opt->dump_after; *p; p += strcspn(p, ","), p += *p == ',') {
      size_t len = strcspn(p, ",");
      if (len != 3 || memcmp(p, "all", 3)) pass_index(s, p, len);
    }
  s->sink.warnings_error = opt->warnings_error;
  for (int i = 0; i < opt->n_warnings; i++) check_warning(s, opt->warnings[i]);
  return s->sink.n_errors > errors ? TKC_USAGE : TKC_OK;
}

/* ---- kernels ---- */

/* Splits 'a=*f32:16, b=(1, 2)' at commas outside of brackets and quotes. */
static const char *next_part(const char *p, size_t *len) {
  int depth = 0;
  char quote = 0;
  size_t n = 0;
  for (; p[n]; n++) {
    char c = p[n];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (strchr("([{", c)) {
      depth++;
    } else if (strchr(")]}", c)) {
      depth--;
    } else if (c == ',' && depth <= 0) {
      break;
    }
  }
  *len = n;
  return p[n] ? p + n + 1 : p + n;
}

static const char *part_name(tkc_session *s, const char *part) {
  part += strspn(part, " \t\n");
  size_t n = strcspn(part, "= \t\n");
  return arena_printf(s->a, "%.*s", (int)n, part);
}

/* Binds parameters from options. Names that this kernel does not have may be another kernel's: `used` notes who was. */
static bool bind(tkc_session *s, const tkc_options *opt, const lang_kernel *k, lang_binding *b, bool *used_define,
                 bool *used_part) {
  lang_bind_init(k, b);
  bool ok = true;
  int i = 0;
  if (opt->signature)
    for (const char *p = opt->signature; *p; i++) {
      size_t len;
      const char *part = p;
      p = next_part(p, &len);
      char *one = arena_printf(s->a, "%.*s", (int)len, part);
      if (strchr(one, '=') && lang_param_index(k, part_name(s, one)) < 0) continue;
      used_part[i] = true;
      ok &= lang_bind_signature(s->unit, k, one, b);
    }
  for (i = 0; i < opt->n_defines; i++) {
    const char *d = opt->defines[i];
    if (strchr(d, '=') && lang_param_index(k, part_name(s, d)) < 0) continue;
    used_define[i] = true;
    ok &= lang_bind_define(s->unit, k, d, b);
  }
  return ok && lang_bind_finish(s->unit, k, b);
}

static void said(void *user, const char *text, size_t len) { text_add(&((tkc_session *)user)->prints, text, len); }

typedef struct dump_hook {
  tkc_session *s;
  const tkc_options *opt;
  driver_usage *usage; /* NULL: not asked for */
} dump_hook;

static void dump(tkc_session *s, tir_fn *fn, const char *name) {
  text_printf(&s->dump, "// %s after %s\n", fn->name, name);
  tir_print(fn, &s->dump);
}

static void after_pass(void *user, int pass, tir_fn *fn, double seconds) {
  dump_hook *h = user;
  if (h->usage) driver_usage_list(h->s, h->usage);
  if (wants_dump(h->opt, pass_table[pass].name)) dump(h->s, fn, pass_table[pass].name);
  if (h->opt->time_passes)
    text_printf(&h->s->dump, "%-12s %-20s %9.3f ms\n", pass_table[pass].name, fn->name, seconds * 1e3);
}

static bool run_passes(tkc_session *s, const driver_plan *plan, tir_fn *fn) {
  dump_hook h = {s, plan->opt, plan->opt->resource_usage ? driver_usage_new(s, plan, fn) : NULL};
  pass_hooks hooks = {.after = after_pass, .user = &h, .verify = plan->opt->verify};
  pass_cx cx = {.arch = plan->arch,
                .sink = &s->sink,
                .remarks = h.usage ? &h.usage->remarks : NULL,
                .no_tensor_maps = plan->opt->no_tensor_maps,
                .no_gang = plan->opt->no_gang};
  tir_renumber(fn);
  if (plan->opt->verify) {
    const char *why = tir_verify(fn);
    if (why) base_panic("the front end made broken IR:\n%s", why);
  }
  if (wants_dump(plan->opt, "specialise")) dump(s, fn, "specialise");
  int first = 0;
  if (fn->stage != STAGE_PLAIN)
    while (first < pass_count && pass_table[first].stage <= fn->stage) first++;
  bool right = pass_run(fn, &cx, first, plan->last_pass, &hooks);
  if (h.usage) driver_usage_list(s, h.usage);
  return right;
}

static driver_kernel *from_source(tkc_session *s, const driver_plan *plan, int *n) {
  const tkc_options *opt = plan->opt;
  int count = opt->kernel ? 1 : lang_n_kernels(s->unit), errors = s->sink.n_errors, parts = 0;
  if (count == 0) diag_add(&s->sink, NOWHERE, &D_file_without_kernel, s->source->path);
  driver_kernel *ks = ARENA_ARRAY(s->a, driver_kernel, count + 1);
  bool *used_define = ARENA_ARRAY(s->a, bool, opt->n_defines + 1);
  for (const char *p = opt->signature; p && *p; p++) parts++;
  bool *used_part = ARENA_ARRAY(s->a, bool, parts + 1);
  lang_options lo = {.num_warps = opt->num_warps,
                     .num_stages = opt->num_stages,
                     .debug = opt->debug,
                     .has_f8e4m3 = true,
                     .capability = plan->arch->sm,
                     .target = plan->arch->name,
                     .warnings = opt->warnings,
                     .n_warnings = opt->n_warnings,
                     .dot_precision = plan->arch->has_tf32 ? "tf32" : "ieee",
                     .print = said,
                     .user = s};
  for (int i = 0; i < count; i++) {
    const lang_kernel *k = opt->kernel ? lang_kernel_named(s->unit, opt->kernel) : lang_kernel_at(s->unit, i);
    if (!k) continue;
    ks[i].kernel = k;
    ks[i].bindings = ARENA_ARRAY(s->a, lang_binding, k->n_params + 1);
    if (!bind(s, opt, k, ks[i].bindings, used_define, used_part)) continue;
    ks[i].fn = lang_specialise(s->unit, k, ks[i].bindings, &lo, s->a);
    if (ks[i].fn) run_passes(s, plan, ks[i].fn);
  }
  if (s->sink.n_errors == errors) {
    for (int i = 0; i < opt->n_defines; i++)
      if (!used_define[i]) diag_add(&s->sink, NOWHERE, &D_unknown_define, opt->defines[i]);
    int i = 0;
    for (const char *p = opt->signature; p && *p; i++) {
      size_t len;
      const char *part = p;
      p = next_part(p, &len);
      if (!used_part[i]) diag_add(&s->sink, NOWHERE, &D_unknown_signature, arena_printf(s->a, "%.*s", (int)len, part));
    }
  }
  *n = s->sink.n_errors > errors ? 0 : count;
  return ks;
}

driver_kernel *driver_kernels(tkc_session *s, const driver_plan *plan, int *n) {
  if (s->unit) return from_source(s, plan, n);
  driver_kernel *k = ARENA_NEW(s->a, driver_kernel);
  k->fn = s->read;
  if (plan->opt->num_warps) k->fn->num_warps = plan->opt->num_warps;
  *n = run_passes(s, plan, k->fn) ? 1 : 0;
  return k;
}

/* ---- output ---- */

static bool emit_text(tkc_session *s, const driver_plan *plan, const driver_kernel *ks, int n, textbuf *out) {
  const tkc_options *opt = plan->opt;
  if (opt->emit == TKC_EMIT_TILE) {
    for (int i = 0; i < n; i++) {
      if (i) text_char(out, '\n');
      tir_print(ks[i].fn, out);
    }
    return true;
  }
  tir_fn **fns = ARENA_ARRAY(s->a, tir_fn *, n);
  for (int i = 0; i < n; i++) fns[i] = ks[i].fn;
  ll_options lo = {
      .arch = plan->arch, .ptx_version = opt->ptx_version, .line_tables = !opt->no_line_info, .fp_fusion = true};
  textbuf ptx, ir;
  text_init(&ptx, s->a);
  text_init(&ir, s->a);
  bool want_ir = opt->emit == TKC_EMIT_LLVM;
  if (!ll_emit(&lo, fns, n, &s->sink, &ptx, want_ir ? &ir : NULL)) return false;
  if (want_ir) {
    text_add(out, ir.at, ir.n);
    return true;
  }
  int version = ptx_version_needed(ptx.at, plan->arch, opt->ptx_version, &s->sink);
  const char *meta = version ? driver_metadata(s, plan, ks, n, version) : NULL;
  if (meta) ptx_finish(ptx.at, version, meta, out);
  return meta != NULL;
}

static tkc_status compile(tkc_session *s, const tkc_options *opt, tkc_output *out) {
  driver_plan plan;
  tkc_status st = driver_plan_make(s, opt, &plan);
  if (st != TKC_OK) return st;
  textbuf text;
  text_init(&text, s->a);
  text_str(&text, "");
  if (opt->emit == TKC_EMIT_AST) {
    if (s->unit) ast_print(lang_syntax(s->unit), &text);
  } else {
    if (opt->emit != TKC_EMIT_TILE) plan.last_pass = pass_count - 1;
    int n, errors = s->sink.n_errors;
    driver_kernel *ks = driver_kernels(s, &plan, &n);
    if (!n || !emit_text(s, &plan, ks, n, &text) || s->sink.n_errors > errors) return TKC_ERRORS;
  }
  *out = (tkc_output){text.at, text.n};
  return TKC_OK;
}

tkc_status tkc_compile(tkc_session *s, const tkc_options *opt, tkc_output *out) {
  DRIVER_GUARDED(s, compile(s, opt, out));
}

static const char *text_of(const textbuf *b) { return b->at ? b->at : ""; }
const char *tkc_dump(const tkc_session *s) { return text_of(&s->dump); }
const char *tkc_static_prints(const tkc_session *s) { return text_of(&s->prints); }
int tkc_n_errors(const tkc_session *s) { return s->sink.n_errors; }

const char *tkc_diagnostics(tkc_session *s, tkc_diag_style style, bool colour) {
  static const diag_style styles[] = {
      [TKC_DIAG_TEXT] = DIAG_TEXT, [TKC_DIAG_LINE] = DIAG_LINE, [TKC_DIAG_JSON] = DIAG_JSON};
  textbuf out;
  text_init(&out, s->a);
  diag_render(&s->sink, styles[style], colour, &out);
  return text_of(&out);
}

const char *tkc_pass_name(int i) { return i >= 0 && i < pass_count ? pass_table[i].name : NULL; }
const char *tkc_pass_sentence(int i) { return i >= 0 && i < pass_count ? pass_table[i].sentence : NULL; }
const char *tkc_arch_name(int i) {
  int n;
  const arch_t *all = arch_all(&n);
  return i >= 0 && i < n ? all[i].name : NULL;
}
