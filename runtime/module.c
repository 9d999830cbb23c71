/* module: files of kernels, kernels, and the variants that launches run.
 *
 * A .ptx is loaded whole and each of its kernels has one variant, compiled for what its metadata says. A source is only
 * described at first; a variant is compiled when a launch brings a kind of arguments that has none yet (launch.c says
 * what a kind is). Variants are published on a list that only grows at its head, each complete before it is seen, so
 * launches look it up without a lock; compiling one holds the kernel's lock. They are freed with the kernel.
 *
 * A module counts its handles: the caller's and one for each kernel. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

enum { MAX_FILE = 1 << 28 };

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Reads a whole file into malloc'd, NUL-terminated memory. */
static tk_status read_file(tk_context *cx, const char *path, char **text, size_t *len) {
  FILE *f = fopen(path, "rb");
  *text = NULL;
  *len = 0;
  if (!f) return tk__fail(cx, TK_FILE_ERROR, "cannot open '%.300s': %s", path, strerror(errno));
  char *buffer = NULL;
  size_t n = 0, cap = 0;
  tk_status s = TK_OK;
  while (s == TK_OK) {
    if (n + 1 >= cap) {
      cap = cap ? cap * 2 : 1 << 16;
      char *grown = cap <= 2 * (size_t)MAX_FILE ? realloc(buffer, cap) : NULL;
      if (!grown) {
        s = cap > MAX_FILE ? tk__fail(cx, TK_FILE_ERROR, "'%.300s' is longer than %d bytes", path, MAX_FILE)
                           : tk__no_memory(cx);
        break;
      }
      buffer = grown;
    }
    size_t got = fread(buffer + n, 1, cap - n - 1, f);
    if (got == 0) break;
    n += got;
  }
  if (s == TK_OK && ferror(f)) s = tk__fail(cx, TK_FILE_ERROR, "cannot read '%.300s'", path);
  fclose(f);
  if (s != TK_OK) {
    free(buffer);
    return s;
  }
  buffer[n] = '\0';
  *text = buffer;
  *len = n;
  return TK_OK;
}

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n >= m && strcmp(s + n - m, tail) == 0;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static char *copy_string(const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = malloc(n);
  return copy ? memcpy(copy, s, n) : NULL;
}

static void options_free(tk_load_options *o) {
  for (int i = 0; o->defines && i < o->n_defines; i++) free((char *)o->defines[i]);
  free((void *)o->defines);
  free((char *)o->signature);
}

static bool options_copy(tk_load_options *to, const tk_load_options *from) {
  *to = *from;
  to->defines = NULL;
  to->signature = from->signature ? copy_string(from->signature) : NULL;
  char **defines = calloc((size_t)from->n_defines + 1, sizeof *defines);
  to->defines = (const char *const *)defines;
  if (!defines || (from->signature && !to->signature)) return false;
  for (int i = 0; i < from->n_defines; i++)
    if (!(defines[i] = copy_string(from->defines[i]))) return false;
  return true;
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static void module_unref(tk_module *m) {
  if (atomic_fetch_sub(&m->refs, 1) != 1) return;
  tk_context *cx = m->cx;
  if (m->device_module) cx->ops->unload(cx, m->device_module);
  if (m->declared) cx->compiler->forget(m->declared, m->n_declared);
  tk_artifact_free(m->artifact);
  options_free(&m->options);
  free(m->text);
  free(m->name);
  free(m);
  atomic_fetch_sub(&cx->n_modules, 1);
}

static tk_status parse_ptx(tk_context *cx, const char *name, const char *text, size_t len, tk_artifact **out) {
  tk_artifact_error e;
  if (memchr(text, '\0', len)) return tk__fail(cx, TK_BAD_ARTIFACT, "%s holds a NUL byte", name);
  if (tk_artifact_parse(text, len, out, &e)) return TK_OK;
  return tk__fail(cx, TK_BAD_ARTIFACT, "%s:%d:%d: %s", name, e.line, e.column, e.message);
}

/* What a define gives a value is no argument of launches, whatever the source says of it. */
static void apply_define(tk_module *m, const char *define) {
  define += strspn(define, " \t");
  size_t n = strcspn(define, "= \t");
  for (int i = 0; i < m->n_declared; i++)
    for (int j = 0; j < m->declared[i].n_params; j++) {
      tk__declared_param *p = &m->declared[i].params[j];
      if (strlen(p->name) == n && memcmp(p->name, define, n) == 0) p->kind = TK_PARAM_CONSTEXPR;
    }
}

static tk_status open_source(tk_module *m) {
  char *why = NULL;
  if (!m->cx->compiler) return tk__fail(m->cx, TK_NO_COMPILER, "%s is source text", m->name);
  if (m->cx->compiler->describe(m->name, m->text, m->len, &m->declared, &m->n_declared, &why)) {
    for (int i = 0; i < m->options.n_defines; i++) apply_define(m, m->options.defines[i]);
    return TK_OK;
  }
  tk_status s = tk__fail(m->cx, TK_COMPILE_ERROR, "%s:\n%s", m->name, why ? why : "out of memory");
  free(why);
  return s;
}

static tk_status open_ptx(tk_module *m) {
  tk_status s = parse_ptx(m->cx, m->name, m->text, m->len, &m->artifact);
  return s == TK_OK ? m->cx->ops->load(m->cx, m->name, m->text, m->len, m->artifact, &m->device_module) : s;
}

/* Makes a module of `text`, which it takes over. */
static tk_status module_new(tk_context *cx, const char *name, char *text, size_t len, const tk_load_options *options,
                            tk_module **out) {
  static const tk_load_options defaults = {0};
  tk_module *m = calloc(1, sizeof *m);
  if (!m) {
    free(text);
    return tk__no_memory(cx);
  }
  atomic_init(&m->refs, 1);
  atomic_fetch_add(&cx->n_modules, 1);
  m->cx = cx;
  m->text = text;
  m->len = len;
  m->name = copy_string(name);
  m->is_source = !ends_with(name, ".ptx");
  tk_status s = options_copy(&m->options, options ? options : &defaults) && m->name ? TK_OK : tk__no_memory(cx);
  if (s == TK_OK) s = m->is_source ? open_source(m) : open_ptx(m);
  if (s != TK_OK) {
    module_unref(m);
    return s;
  }
  *out = m;
  return TK_OK;
}

static tk_status check_load(tk_context *cx, const char *name, const tk_load_options *o, tk_module **out) {
  if (out) *out = NULL;
  if (!cx || !cx->ops || !name || !out) return TK_INVALID_ARGUMENT;
  if (o && (o->n_defines < 0 || (o->n_defines && !o->defines)))
    return tk__fail(cx, TK_INVALID_ARGUMENT, "%d defines without a list", o->n_defines);
  if (!ends_with(name, ".ptx") && !ends_with(name, ".tk") && !ends_with(name, ".py"))
    return tk__fail(cx, TK_FILE_ERROR, "'%.300s' is neither .ptx nor .tk nor .py", name);
  return TK_OK;
}

tk_status tk_module_load(tk_context *cx, const char *path, const tk_load_options *options, tk_module **out) {
  char *text;
  size_t len;
  tk_status s = check_load(cx, path, options, out);
  if (s == TK_OK) s = read_file(cx, path, &text, &len);
  return s == TK_OK ? module_new(cx, path, text, len, options, out) : s;
}

tk_status tk_module_load_text(tk_context *cx, const char *name, const char *text, size_t len,
                              const tk_load_options *options, tk_module **out) {
  tk_status s = check_load(cx, name, options, out);
  if (s != TK_OK) return s;
  if (!text && len) return TK_INVALID_ARGUMENT;
  char *copy = len < MAX_FILE ? malloc(len + 1) : NULL;
  if (!copy) return tk__no_memory(cx);
  if (len) memcpy(copy, text, len);
  copy[len] = '\0';
  return module_new(cx, name, copy, len, options, out);
}

void tk_module_free(tk_module *m) {
  if (m) module_unref(m);
}

int tk_module_count(const tk_module *m) { return !m ? 0 : m->is_source ? m->n_declared : m->artifact->n_kernels; }

const char *tk_module_kernel_name(const tk_module *m, int i) {
  if (i < 0 || i >= tk_module_count(m)) return NULL;
  return m->is_source ? m->declared[i].name : m->artifact->kernels[i].name;
}

/* ---- variants ---------------------------------------------------------------------------------------------------- */

static void variant_free(tk__variant *v) {
  if (!v) return;
  tk_context *cx = v->kernel->module->cx;
  for (tk__grid_entry *g = atomic_load(&v->grids), *next; g; g = next) {
    next = g->next;
    free(g);
  }
  for (int i = 0; i < TK__N_WITHOUT; i++) variant_free(atomic_load(&v->without[i]));
  if (v->device_module) cx->ops->unload(cx, v->device_module);
  tk_artifact_free(v->artifact);
  free(atomic_load(&v->kept));
  free(v->maps);
  free(v->signature);
  free(v->key);
  free(v->rules);
  free(v);
}

static tk__rule rule_of(const tk_artifact_param *p, int slot) {
  tk__class c = p->kind == TK_PARAM_POINTER      ? TK__POINTER
                : p->kind == TK_PARAM_DESCRIPTOR ? TK__DESCRIPTOR
                                                 : tk__class_of(p->dtype);
  return (tk__rule){.name = p->name,
                    .dtype = p->dtype,
                    .klass = (uint8_t)c,
                    .slot = (uint16_t)slot,
                    .n_slots = (uint8_t)tk_artifact_n_values(p),
                    .param = p,
                    .passed = p->passed,
                    .equals_one = p->equals_one,
                    .mask = (uint16_t)(p->divisible - 1)};
}

/* A variant with its rules, not bound to a device function yet. NULL for want of memory. */
static tk__variant *variant_new(tk_kernel *k, const tk_artifact_kernel *meta) {
  tk__variant *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->kernel = k;
  v->meta = meta;
  v->rules = calloc((size_t)meta->n_params + 1, sizeof *v->rules);
  for (int i = 0; v->rules && i < meta->n_params; i++) {
    if (meta->params[i].kind == TK_PARAM_CONSTEXPR) continue;
    v->rules[v->n_args] = rule_of(&meta->params[i], v->n_slots);
    v->n_slots += v->rules[v->n_args++].n_slots;
  }
  if (!v->rules) {
    free(v);
    return NULL;
  }
  return v;
}

static void publish(tk_kernel *k, tk__variant *v) {
  v->next = atomic_load_explicit(&k->variants, memory_order_relaxed);
  atomic_store_explicit(&k->variants, v, memory_order_release);
}

/* Compiles for the signature; *artifact belongs to the caller, as does *ptx. */
static tk_status compile(tk_kernel *k, const char *signature, int without, tk_artifact **artifact, char **ptx,
                         size_t *len) {
  tk_module *m = k->module;
  tk_context *cx = m->cx;
  char *why = NULL, *said = NULL;
  tk__build b = {.path = m->name,
                 .text = m->text,
                 .len = m->len,
                 .kernel = k->name,
                 .signature = signature,
                 .options = &m->options,
                 .arch = cx->arch,
                 .no_tensor_maps = without == TK__MAPS,
                 .no_gang = without == TK__GANG};
  if (!cx->compiler->compile(&b, ptx, len, &said, &why)) {
    tk_status s =
        tk__fail(cx, TK_COMPILE_ERROR, "kernel '%s' for (%s):\n%s", k->name, signature, why ? why : "out of memory");
    free(why);
    return s;
  }
  if (said && cx->print) cx->print(cx->print_user, said, strlen(said));
  free(said);
  return parse_ptx(cx, m->name, *ptx, *len, artifact);
}

/* As tk__variant_build, but publishes nothing. without: as in the variant, TK__N_WITHOUT: with everything. */
static tk_status build(tk_kernel *k, char *signature, uint64_t *key, int without, tk__variant **out) {
  tk_context *cx = k->module->cx;
  tk_artifact *artifact = NULL;
  char *ptx = NULL;
  size_t len = 0;
  tk__variant *v = NULL;
  tk_status s = compile(k, signature, without, &artifact, &ptx, &len);
  const tk_artifact_kernel *meta = s == TK_OK ? tk_artifact_find(artifact, k->name) : NULL;
  if (s == TK_OK && !meta) s = tk__fail(cx, TK_BAD_ARTIFACT, "the compiler's output lacks '%s'", k->name);
  if (s == TK_OK && !(v = variant_new(k, meta))) s = tk__no_memory(cx);
  if (!v) {
    tk_artifact_free(artifact);
    free(signature);
    free(key);
    free(ptx);
    return s;
  }
  v->artifact = artifact;
  v->signature = signature;
  v->key = key;
  if ((key || without != TK__N_WITHOUT) && v->n_args != k->n_args) /* else k takes its arguments from v */
    s = tk__fail(cx, TK_BAD_ARTIFACT, "the compiler's output gives '%s' %d arguments, not %d", k->name, v->n_args,
                 k->n_args);
  if (s == TK_OK && ((without == TK__MAPS && meta->n_maps) || (without == TK__GANG && meta->gang > 1)))
    s = tk__fail(cx, TK_BAD_ARTIFACT, "the compiler gives '%s' %s that was not asked for", k->name,
                 without == TK__MAPS ? "a tensor map" : "a gang");
  if (s == TK_OK && !cx->ops->interprets) {
    s = tk__maps_compile(v);
    if (s == TK_OK) s = cx->ops->load(cx, k->module->name, ptx, len, artifact, &v->device_module);
    if (s == TK_OK) s = cx->ops->bind(cx, v->device_module, meta, &v->fn, &v->room);
  }
  free(ptx);
  if (s != TK_OK) {
    variant_free(v);
    return s;
  }
  *out = v;
  return TK_OK;
}

tk_status tk__variant_build(tk_kernel *k, char *signature, uint64_t *key, tk__variant **out) {
  tk_status s = build(k, signature, key, TK__N_WITHOUT, out);
  if (s == TK_OK) publish(k, *out);
  return s;
}

tk_status tk__variant_without(tk__variant *v, int what, tk__variant **out) {
  tk_status s = TK_OK;
  *out = atomic_load_explicit(&v->without[what], memory_order_acquire);
  if (*out) return TK_OK;
  pthread_mutex_lock(&v->kernel->lock);
  *out = atomic_load_explicit(&v->without[what], memory_order_relaxed);
  if (!*out) {
    char *signature = copy_string(v->signature);
    s = signature ? build(v->kernel, signature, NULL, what, out) : tk__no_memory(v->kernel->module->cx);
    if (s == TK_OK) atomic_store_explicit(&v->without[what], *out, memory_order_release);
  }
  pthread_mutex_unlock(&v->kernel->lock);
  return s;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static void kernel_release(tk_kernel *k) {
  for (tk__variant *v = atomic_load(&k->variants), *next; v; v = next) {
    next = v->next;
    variant_free(v);
  }
  pthread_mutex_destroy(&k->lock);
  free(k->arg_names);
  free(k->name);
  module_unref(k->module);
  free(k);
}

void tk_kernel_free(tk_kernel *k) {
  if (k) kernel_release(k);
}

/* The arguments of launches, as a source declares them or the one variant has them. */
static tk_status list_args(tk_kernel *k, const tk__variant *v) {
  int most = v ? v->n_args : k->declared->n_params;
  k->arg_names = calloc((size_t)most + 1, sizeof *k->arg_names);
  if (!k->arg_names) return tk__no_memory(k->module->cx);
  for (int i = 0; i < most; i++)
    if (v)
      k->arg_names[k->n_args++] = v->rules[i].name;
    else if (k->declared->params[i].kind != TK_PARAM_CONSTEXPR)
      k->arg_names[k->n_args++] = k->declared->params[i].name;
  return TK_OK;
}

/* The launch arguments' names, and the one variant of a kernel that is compiled ahead. */
static tk_status fill_kernel(tk_kernel *k) {
  tk_module *m = k->module;
  if (m->is_source && !m->options.signature) return list_args(k, NULL);
  if (m->is_source) {
    tk__variant *v;
    char *signature = copy_string(m->options.signature);
    tk_status s = signature ? tk__variant_build(k, signature, NULL, &v) : tk__no_memory(m->cx);
    return s == TK_OK ? list_args(k, v) : s;
  }
  const tk_artifact_kernel *meta = tk_artifact_find(m->artifact, k->name);
  tk__variant *v = variant_new(k, meta);
  if (!v) return tk__no_memory(m->cx);
  publish(k, v);
  tk_status s = list_args(k, v);
  if (s == TK_OK) s = tk__maps_compile(v);
  return s == TK_OK ? m->cx->ops->bind(m->cx, m->device_module, meta, &v->fn, &v->room) : s;
}

static int kernel_index(const tk_module *m, const char *name) {
  for (int i = 0; i < tk_module_count(m); i++)
    if (!name || strcmp(tk_module_kernel_name(m, i), name) == 0) return i;
  return -1;
}

/* "a, b, c": for messages */
static void list_names(const tk_module *m, char *out, size_t size) {
  size_t n = 0;
  *out = '\0';
  for (int i = 0; i < tk_module_count(m) && n + 1 < size; i++) {
    int got = snprintf(out + n, size - n, "%s%s", i ? ", " : "", tk_module_kernel_name(m, i));
    n += got > 0 ? (size_t)got : 0;
  }
}

tk_status tk_module_kernel(tk_module *m, const char *name, tk_kernel **out) {
  if (out) *out = NULL;
  if (!m || !out) return TK_INVALID_ARGUMENT;
  char names[256];
  int n = tk_module_count(m), i = kernel_index(m, name);
  list_names(m, names, sizeof names);
  if (n == 0) return tk__fail(m->cx, TK_NO_SUCH_KERNEL, "%s holds no kernel", m->name);
  if (i < 0) return tk__fail(m->cx, TK_NO_SUCH_KERNEL, "'%.100s' is not in %s, which holds: %s", name, m->name, names);
  if (!name && n > 1)
    return tk__fail(m->cx, TK_NO_SUCH_KERNEL, "%s holds several, so a name is needed: %s", m->name, names);

  tk_kernel *k = calloc(1, sizeof *k);
  if (!k) return tk__no_memory(m->cx);
  if (pthread_mutex_init(&k->lock, NULL) != 0) {
    free(k);
    return tk__no_memory(m->cx);
  }
  k->module = m;
  atomic_fetch_add(&m->refs, 1);
  k->declared = m->is_source ? &m->declared[i] : NULL;
  k->name = copy_string(tk_module_kernel_name(m, i));
  tk_status s = k->name ? fill_kernel(k) : tk__no_memory(m->cx);
  if (s != TK_OK) {
    kernel_release(k);
    return s;
  }
  *out = k;
  return TK_OK;
}

tk_status tk_kernel_load(tk_context *cx, const char *path, const char *name, const tk_load_options *options,
                         tk_kernel **out) {
  tk_module *m;
  if (out) *out = NULL;
  if (!out) return TK_INVALID_ARGUMENT;
  tk_status s = tk_module_load(cx, path, options, &m);
  if (s != TK_OK) return s;
  s = tk_module_kernel(m, name, out);
  tk_module_free(m);
  return s;
}

const char *tk_kernel_name(const tk_kernel *k) { return k ? k->name : ""; }
int tk_kernel_n_args(const tk_kernel *k) { return k ? k->n_args : 0; }
const char *tk_kernel_arg_name(const tk_kernel *k, int i) {
  return k && i >= 0 && i < k->n_args ? k->arg_names[i] : NULL;
}

tk_status tk_kernel_attributes_get(const tk_kernel *k, tk_kernel_attributes *out) {
  if (!k || !out) return TK_INVALID_ARGUMENT;
  tk_context *cx = k->module->cx;
  *out = (tk_kernel_attributes){0};
  const tk__variant *v = atomic_load_explicit(&((tk_kernel *)k)->variants, memory_order_acquire);
  if (!v) return tk__fail(cx, TK_NOT_READY, "'%s' is compiled at its first launch", k->name);
  out->num_warps = v->meta->num_warps;
  out->programs_per_block = v->meta->gang;
  out->producer_warps = v->meta->producer_warps;
  out->num_stages = v->meta->num_stages;
  out->dynamic_shared_bytes = v->meta->dynamic_shared_bytes;
  out->ptx_version = (v->artifact ? v->artifact : k->module->artifact)->ptx_version;
  return cx->ops->attributes(cx, v->fn, v->meta, out);
}
