/* artifact: writer and reader of the metadata block that artifact.h describes.
 *
 * Both directions share one set of rules (check_*), so the writer cannot produce what the reader refuses. JSON itself
 * is cJSON's work, one line at a time: a line is bounded before cJSON sees it, every object is flat, and nesting
 * therefore costs a hostile file nothing. Everything about keys (unknown, doubled, missing, wrong type) is decided
 * here, by taking keys out of the object as they are read: what is left at the end is unknown.
 *
 * Numbers: JSON numbers are doubles, so only small integers are written as numbers. Values of constexprs are strings;
 * floats are printed with 17 digits, which reads back to the same double, and with '.' in any locale.
 *
 * A parsed artefact lives in one chain of blocks and is freed as a whole. */
#include "runtime/artifact.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "// tkc "

static bool fail(tk_artifact_error *e, int line, int column, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static bool fail(tk_artifact_error *e, int line, int column, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  e->line = line;
  e->column = column;
  vsnprintf(e->message, sizeof e->message, fmt, ap);
  va_end(ap);
  return false;
}

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

static const char *const param_kinds[] = {[TK_PARAM_POINTER] = "pointer",
                                          [TK_PARAM_SCALAR] = "scalar",
                                          [TK_PARAM_CONSTEXPR] = "constexpr",
                                          [TK_PARAM_DESCRIPTOR] = "descriptor"};

static const char *const constant_kinds[] = {
    [TK_CONSTANT_INT] = "int",    [TK_CONSTANT_FLOAT] = "float", [TK_CONSTANT_BOOL] = "bool",
    [TK_CONSTANT_STRING] = "str", [TK_CONSTANT_DTYPE] = "dtype", [TK_CONSTANT_NONE] = "none",
    [TK_CONSTANT_OTHER] = "other"};

enum {
  N_PARAM_KINDS = sizeof param_kinds / sizeof *param_kinds,
  N_CONSTANT_KINDS = sizeof constant_kinds / sizeof *constant_kinds
};

static bool word_in(const char *const *words, int n, const char *word, int *out) {
  for (int i = 0; i < n; i++) {
    if (strcmp(words[i], word) == 0) {
      *out = i;
      return true;
    }
  }
  return false;
}

/* ---- rules of both directions ------------------------------------------------------------------------------------ */

/* A name that can stand in a message and in a PTX comment: no control characters. */
static bool check_name(const char *s, const char *what, tk_artifact_error *e) {
  if (!s || !*s) return fail(e, 0, 0, "the name of a %s is empty", what);
  if (strlen(s) > TK_ARTIFACT_MAX_NAME)
    return fail(e, 0, 0, "the name of a %s is longer than %d bytes", what, TK_ARTIFACT_MAX_NAME);
  for (const unsigned char *p = (const unsigned char *)s; *p; p++)
    if (*p < 0x20 || *p == 0x7f) return fail(e, 0, 0, "the name of a %s holds a control character", what);
  return true;
}

static bool check_range(int v, int lo, int hi, const char *what, tk_artifact_error *e) {
  return (v >= lo && v <= hi) || fail(e, 0, 0, "%s is %d, outside %d .. %d", what, v, lo, hi);
}

static bool power_of_two(int v) { return v > 0 && (v & (v - 1)) == 0; }

static bool check_constant(const tk_constant *c, tk_artifact_error *e) {
  if ((int)c->kind < 0 || (int)c->kind >= N_CONSTANT_KINDS) return fail(e, 0, 0, "unknown kind of constexpr value");
  if (c->kind == TK_CONSTANT_BOOL && c->i != 0 && c->i != 1) return fail(e, 0, 0, "a bool is neither 0 nor 1");
  bool has_text = c->kind == TK_CONSTANT_STRING || c->kind == TK_CONSTANT_DTYPE || c->kind == TK_CONSTANT_OTHER;
  if (has_text && !c->text) return fail(e, 0, 0, "a constexpr value lacks its text");
  return true;
}

static bool check_descriptor(const tk_artifact_param *p, tk_artifact_error *e) {
  if (!check_range(p->rank, 1, TK_ARTIFACT_MAX_RANK, "the rank of a descriptor", e)) return false;
  if (!p->passed || p->equals_one || p->is_const)
    return fail(e, 0, 0, "descriptor '%s' has attributes of another kind of parameter", p->name);
  for (int i = 0; i < p->rank; i++)
    if (!power_of_two(p->block[i]))
      return fail(e, 0, 0, "the block of '%s' has the extent %d, not a power of two", p->name, p->block[i]);
  if ((size_t)p->block[p->rank - 1] * tk_dtype_bytes(p->dtype) < TK_ARTIFACT_ALIGN)
    return fail(e, 0, 0, "a row of the block of '%s' has less than %d bytes", p->name, TK_ARTIFACT_ALIGN);
  if (p->pads_nan && p->dtype < TK_f8e4m3) /* floats are the last of the dtypes */
    return fail(e, 0, 0, "descriptor '%s' pads %s with NaN", p->name, tk_dtype_name(p->dtype));
  return true;
}

static bool check_param(const tk_artifact_param *p, tk_artifact_error *e) {
  if (!check_name(p->name, "parameter", e)) return false;
  if ((int)p->kind < 0 || (int)p->kind >= N_PARAM_KINDS)
    return fail(e, 0, 0, "parameter '%s' has an unknown kind", p->name);
  if (p->kind == TK_PARAM_CONSTEXPR) {
    if (p->passed || p->equals_one || p->is_const || p->dtype != TK_NO_DTYPE || p->divisible != 1)
      return fail(e, 0, 0, "constexpr parameter '%s' has attributes of a run-time parameter", p->name);
    return check_constant(&p->value, e);
  }
  if (p->dtype <= TK_NO_DTYPE || p->dtype >= TK_N_DTYPES) return fail(e, 0, 0, "parameter '%s' has no dtype", p->name);
  if (!power_of_two(p->divisible) || p->divisible > 4096)
    return fail(e, 0, 0, "divisibility of parameter '%s' is %d, not a power of two up to 4096", p->name, p->divisible);
  if (p->kind == TK_PARAM_DESCRIPTOR) return check_descriptor(p, e);
  if (p->rank != 0) return fail(e, 0, 0, "parameter '%s' has a block and is no descriptor", p->name);
  if (p->kind == TK_PARAM_SCALAR && p->is_const) return fail(e, 0, 0, "scalar parameter '%s' is marked const", p->name);
  if (p->kind == TK_PARAM_POINTER && (p->equals_one || !p->passed))
    return fail(e, 0, 0, "pointer parameter '%s' is folded away", p->name);
  if (!p->passed && !p->equals_one)
    return fail(e, 0, 0, "parameter '%s' is not passed, yet nothing says its value", p->name);
  if (p->equals_one && p->divisible != 1)
    return fail(e, 0, 0, "parameter '%s' is 1 and divisible by %d", p->name, p->divisible);
  return true;
}

bool tk_artifact_map_dtype(const tk_artifact_map *m, tk_dtype *out, bool *is_tf32) {
  *is_tf32 = strcmp(m->dtype, "tf32") == 0;
  const char *name = *is_tf32 ? "f32" : m->dtype;
  return tk_dtype_parse(name, strlen(name), out);
}

/* What the copy engine demands of a box, and that the map belongs to a pointer of the kernel. */
static bool check_map(const tk_artifact_kernel *k, const tk_artifact_map *m, tk_artifact_error *e) {
  if (!check_name(m->param, "tensor map's parameter", e)) return false;
  const tk_artifact_param *p = NULL;
  for (int i = 0; i < k->n_params && !p; i++)
    if (strcmp(k->params[i].name, m->param) == 0) p = &k->params[i];
  if (!p || (p->kind != TK_PARAM_POINTER && p->kind != TK_PARAM_DESCRIPTOR))
    return fail(e, 0, 0, "the tensor map of '%s': '%s' has no such pointer parameter", m->param, k->name);
  tk_dtype t;
  bool is_tf32;
  if (!m->dtype || !tk_artifact_map_dtype(m, &t, &is_tf32))
    return fail(e, 0, 0, "the tensor map of '%s' has the unknown dtype \"%.60s\"", m->param, m->dtype ? m->dtype : "");
  int bytes = (int)tk_dtype_bytes(t);
  if (tk_dtype_bytes(p->dtype) != (size_t)bytes)
    return fail(e, 0, 0, "the tensor map of '%s' has elements of %d bytes, the parameter of %zu", m->param, bytes,
                tk_dtype_bytes(p->dtype));
  if (!m->sizes || !*m->sizes || !m->strides || !*m->strides)
    return fail(e, 0, 0, "the tensor map of '%s' lacks its sizes or strides", m->param);
  if (!check_range(m->rank, 1, TK_ARTIFACT_MAX_RANK, "the rank of a tensor map", e)) return false;
  for (int i = 0; i < m->rank; i++)
    if (!check_range(m->box[i], 1, 256, "a box's extent", e)) return false;
  if (m->swizzle != 0 && m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)
    return fail(e, 0, 0, "the swizzle of '%s' is %d, not 0, 32, 64 or 128", m->param, m->swizzle);
  int row = m->box[0] * bytes;
  if (row % 16 != 0 || (m->swizzle && row > m->swizzle))
    return fail(e, 0, 0, "a row of the box of '%s' has %d bytes: not a multiple of 16, or more than the swizzle %d",
                m->param, row, m->swizzle);
  return true;
}

/* The kernel without its parameters and maps. */
static bool check_kernel(const tk_artifact_kernel *k, tk_artifact_error *e) {
  if (!check_name(k->name, "kernel", e)) return false;
  if (!power_of_two(k->num_warps) || k->num_warps > 32)
    return fail(e, 0, 0, "num_warps of '%s' is %d, not a power of two up to 32", k->name, k->num_warps);
  if (!power_of_two(k->num_ctas) || k->num_ctas > 16)
    return fail(e, 0, 0, "num_ctas of '%s' is %d, not a power of two up to 16", k->name, k->num_ctas);
  if (!k->persistent && k->gang > 1) return fail(e, 0, 0, "'%s' has a gang, but is not persistent", k->name);
  return check_range(k->gang, 1, 32 / k->num_warps, "gang", e) &&
         check_range(k->producer_warps, 0, 32 - k->num_warps * k->gang, "producer_warps", e) &&
         check_range(k->num_stages, 1, 64, "num_stages", e) &&
         check_range(k->shared_bytes, 0, TK_ARTIFACT_MAX_SHARED, "shared bytes", e) &&
         check_range(k->dynamic_shared_bytes, 0, TK_ARTIFACT_MAX_SHARED, "dynamic shared bytes", e) &&
         check_range(k->n_params, 0, TK_ARTIFACT_MAX_PARAMS, "the number of parameters", e) &&
         check_range(k->n_maps, 0, TK_ARTIFACT_MAX_MAPS, "the number of tensor maps", e) &&
         (!k->grid || *k->grid || fail(e, 0, 0, "the default grid of '%s' is empty", k->name));
}

/* That a launch does not have too many values. */
static bool check_values(const tk_artifact_kernel *k, tk_artifact_error *e) {
  int n = 0;
  for (int i = 0; i < k->n_params; i++) n += tk_artifact_n_values(&k->params[i]);
  return check_range(n, 0, TK_ARTIFACT_MAX_PARAMS, "the number of values of a launch", e);
}

/* The file without its kernels. */
static bool check_file(const tk_artifact *a, tk_artifact_error *e) {
  if (!check_name(a->source, "source file", e) || !check_name(a->arch, "target architecture", e)) return false;
  if (strchr(a->source, '/')) return fail(e, 0, 0, "the source name '%s' holds a directory", a->source);
  if (strncmp(a->arch, "sm_", 3) != 0) return fail(e, 0, 0, "'%s' is no target architecture (such as sm_90a)", a->arch);
  return check_range(a->ptx_version, 10, 999, "the PTX version times ten", e) &&
         check_range(a->n_kernels, 0, TK_ARTIFACT_MAX_KERNELS, "the number of kernels", e);
}

static bool kernel_name_is_new(const tk_artifact *a, int i, tk_artifact_error *e) {
  for (int j = 0; j < i; j++)
    if (strcmp(a->kernels[j].name, a->kernels[i].name) == 0)
      return fail(e, 0, 0, "two kernels are called '%s'", a->kernels[i].name);
  return true;
}

static bool param_name_is_new(const tk_artifact_kernel *k, int i, tk_artifact_error *e) {
  for (int j = 0; j < i; j++)
    if (strcmp(k->params[j].name, k->params[i].name) == 0)
      return fail(e, 0, 0, "two parameters of '%s' are called '%s'", k->name, k->params[i].name);
  return true;
}

/* ---- floats as text, in any locale ------------------------------------------------------------------------------- */

static void replace_char(char *s, char from, char to) {
  for (; *s; s++)
    if (*s == from) *s = to;
}

static void print_double(char *out, size_t size, double v) {
  if (isnan(v)) {
    snprintf(out, size, "nan");
  } else if (isinf(v)) {
    snprintf(out, size, v > 0 ? "inf" : "-inf");
  } else {
    snprintf(out, size, "%.17g", v);
    replace_char(out, *localeconv()->decimal_point, '.');
  }
}

static bool read_double(const char *text, double *out) {
  char copy[64];
  size_t n = strlen(text);
  if (n == 0 || n >= sizeof copy || strspn(text, "0123456789+-.eEinfa") != n) return false;
  memcpy(copy, text, n + 1);
  replace_char(copy, '.', *localeconv()->decimal_point);
  char *end;
  *out = strtod(copy, &end);
  return *end == '\0';
}

/* ---- writer ------------------------------------------------------------------------------------------------------ */

typedef struct writer {
  char *text;
  size_t n, cap;
  bool failed; /* no memory */
} writer;

static void put(writer *w, const char *s) {
  size_t n = strlen(s);
  if (w->failed) return;
  if (n + 1 > w->cap - w->n) {
    size_t cap = (w->cap + n + 1) * 2;
    char *grown = realloc(w->text, cap);
    if (!grown) {
      w->failed = true;
      return;
    }
    w->text = grown;
    w->cap = cap;
  }
  memcpy(w->text + w->n, s, n + 1);
  w->n += n;
}

/* Writes one line and frees the object. */
static void put_line(writer *w, const char *head, cJSON *object, tk_artifact_error *e) {
  char *json = object ? cJSON_PrintUnformatted(object) : NULL;
  cJSON_Delete(object);
  if (!json) w->failed = true;
  if (json && strlen(json) + strlen(head) + sizeof PREFIX > TK_ARTIFACT_MAX_LINE) {
    w->failed = true;
    fail(e, 0, 0, "a metadata line is longer than %d bytes", TK_ARTIFACT_MAX_LINE);
  }
  put(w, PREFIX);
  put(w, head);
  if (json) put(w, json);
  put(w, "\n");
  cJSON_free(json);
}

/* cJSON reports a failed addition by NULL; the object is complete only if none failed. */
static void add_string(writer *w, cJSON *o, const char *key, const char *value) {
  if (!cJSON_AddStringToObject(o, key, value)) w->failed = true;
}
static void add_int(writer *w, cJSON *o, const char *key, int value) {
  if (!cJSON_AddNumberToObject(o, key, value)) w->failed = true;
}
static void add_bool(writer *w, cJSON *o, const char *key, bool value) {
  if (!cJSON_AddBoolToObject(o, key, value)) w->failed = true;
}

static void write_constant(writer *w, cJSON *o, const tk_constant *c) {
  char number[64];
  const char *text = "";
  switch (c->kind) {
    case TK_CONSTANT_INT:
      snprintf(number, sizeof number, "%" PRId64, c->i);
      text = number;
      break;
    case TK_CONSTANT_FLOAT:
      print_double(number, sizeof number, c->f);
      text = number;
      break;
    case TK_CONSTANT_BOOL: text = c->i ? "true" : "false"; break;
    case TK_CONSTANT_NONE: text = "None"; break;
    case TK_CONSTANT_STRING:
    case TK_CONSTANT_DTYPE:
    case TK_CONSTANT_OTHER: text = c->text; break;
  }
  add_string(w, o, "type", constant_kinds[c->kind]);
  add_string(w, o, "value", text);
}

/* "64, 128" */
static const char *list_text(const int *at, int n, char out[64]) {
  *out = '\0';
  for (int i = 0, used = 0; i < n; i++) used += snprintf(out + used, 64 - (size_t)used, "%s%d", i ? ", " : "", at[i]);
  return out;
}

static void write_param(writer *w, const tk_artifact_param *p, tk_artifact_error *e) {
  cJSON *o = cJSON_CreateObject();
  add_string(w, o, "name", p->name);
  add_string(w, o, "kind", param_kinds[p->kind]);
  if (p->kind == TK_PARAM_CONSTEXPR) {
    write_constant(w, o, &p->value);
  } else {
    char block[64];
    add_string(w, o, "dtype", tk_dtype_name(p->dtype));
    if (p->kind == TK_PARAM_DESCRIPTOR) add_string(w, o, "block", list_text(p->block, p->rank, block));
    if (p->pads_nan) add_bool(w, o, "nan", true);
    if (p->is_const) add_bool(w, o, "const", true);
    if (p->divisible != 1) add_int(w, o, "divisible", p->divisible);
    if (p->equals_one) add_bool(w, o, "equals_one", true);
    if (!p->passed) add_bool(w, o, "passed", false);
  }
  put_line(w, "param ", o, e);
}

static void write_map(writer *w, const tk_artifact_map *m, tk_artifact_error *e) {
  cJSON *o = cJSON_CreateObject();
  char box[64];
  add_string(w, o, "param", m->param);
  add_string(w, o, "dtype", m->dtype);
  add_string(w, o, "sizes", m->sizes);
  add_string(w, o, "strides", m->strides);
  add_string(w, o, "box", list_text(m->box, m->rank, box));
  add_int(w, o, "swizzle", m->swizzle);
  put_line(w, "map ", o, e);
}

static void write_kernel(writer *w, const tk_artifact_kernel *k, tk_artifact_error *e) {
  cJSON *o = cJSON_CreateObject();
  add_string(w, o, "name", k->name);
  add_int(w, o, "warps", k->num_warps);
  if (k->producer_warps) add_int(w, o, "producer_warps", k->producer_warps);
  add_int(w, o, "stages", k->num_stages);
  add_int(w, o, "ctas", k->num_ctas);
  add_int(w, o, "shared", k->shared_bytes);
  add_int(w, o, "dynamic_shared", k->dynamic_shared_bytes);
  if (k->grid) add_string(w, o, "grid", k->grid);
  add_int(w, o, "params", k->n_params);
  if (k->n_maps) add_int(w, o, "maps", k->n_maps);
  if (k->persistent) add_bool(w, o, "persistent", true);
  if (k->gang != 1) add_int(w, o, "gang", k->gang);
  put_line(w, "kernel ", o, e);
  for (int i = 0; i < k->n_params; i++) write_param(w, &k->params[i], e);
  for (int i = 0; i < k->n_maps; i++) write_map(w, &k->maps[i], e);
}

static bool check_all(const tk_artifact *a, tk_artifact_error *e) {
  if (!check_file(a, e)) return false;
  for (int i = 0; i < a->n_kernels; i++) {
    const tk_artifact_kernel *k = &a->kernels[i];
    if (!check_kernel(k, e) || !kernel_name_is_new(a, i, e)) return false;
    for (int j = 0; j < k->n_params; j++)
      if (!check_param(&k->params[j], e) || !param_name_is_new(k, j, e)) return false;
    if (!check_values(k, e)) return false;
    for (int j = 0; j < k->n_maps; j++)
      if (!check_map(k, &k->maps[j], e)) return false;
  }
  return true;
}

bool tk_artifact_write(const tk_artifact *a, char **out, tk_artifact_error *error) {
  writer w = {0};
  char head[32], text[32];
  *out = NULL;
  *error = (tk_artifact_error){0};
  if (!check_all(a, error)) return false;

  cJSON *o = cJSON_CreateObject();
  add_string(&w, o, "source", a->source);
  snprintf(text, sizeof text, "%016" PRIx64, a->source_hash);
  add_string(&w, o, "hash", text);
  add_string(&w, o, "arch", a->arch);
  snprintf(text, sizeof text, "%d.%d", a->ptx_version / 10, a->ptx_version % 10);
  add_string(&w, o, "ptx", text);
  add_int(&w, o, "kernels", a->n_kernels);
  snprintf(head, sizeof head, "%d ", TK_ARTIFACT_FORMAT);
  put_line(&w, head, o, error);
  for (int i = 0; i < a->n_kernels; i++) write_kernel(&w, &a->kernels[i], error);
  if (w.failed) {
    free(w.text);
    return error->message[0] ? false : fail(error, 0, 0, "out of memory");
  }
  *out = w.text;
  return true;
}

/* ---- reader ------------------------------------------------------------------------------------------------------ */

typedef struct block {
  struct block *next;
  max_align_t data[];
} block;

typedef struct owned {
  tk_artifact artifact; /* first, so that the public pointer is the pointer to free */
  block *blocks;
} owned;

typedef struct reader {
  const char *at, *end; /* rest of the text */
  int format;           /* of this file */
  int line;             /* of the line in hand, 1-based */
  const char *line_at;  /* its first byte */
  size_t line_len;
  int json_column; /* where its JSON begins */
  cJSON *object;   /* its keys that were not taken yet */
  owned *own;
  tk_artifact_error *error;
} reader;

static void *keep(reader *r, size_t bytes) {
  block *b = calloc(1, sizeof(block) + bytes);
  if (!b) {
    fail(r->error, r->line, 1, "out of memory");
    return NULL;
  }
  b->next = r->own->blocks;
  r->own->blocks = b;
  return b->data;
}

static const char *keep_string(reader *r, const char *s) {
  size_t n = strlen(s) + 1;
  char *copy = keep(r, n);
  return copy ? memcpy(copy, s, n) : NULL;
}

/* Column of `"key"` in the line, or of the JSON. */
static int column_of(const reader *r, const char *key) {
  size_t n = strlen(key);
  for (size_t i = (size_t)r->json_column; i + n + 1 < r->line_len; i++)
    if (r->line_at[i] == '"' && memcmp(r->line_at + i + 1, key, n) == 0 && r->line_at[i + 1 + n] == '"')
      return (int)i + 1;
  return r->json_column;
}

/* Gives the place of the line in hand to an error that a rule reported without one. */
static bool placed(reader *r, bool ok) {
  if (!ok && r->error->line == 0) {
    r->error->line = r->line;
    r->error->column = r->json_column;
  }
  return ok;
}

/* Fetches the next line, whose text must begin with `head`, and parses the JSON behind it. */
static bool next_line(reader *r, const char *head, const char *what) {
  r->line++;
  r->line_at = r->at;
  size_t rest = (size_t)(r->end - r->at);
  size_t scan = rest < TK_ARTIFACT_MAX_LINE ? rest : TK_ARTIFACT_MAX_LINE;
  const char *newline = scan ? memchr(r->at, '\n', scan) : NULL;
  if (!newline && rest > scan)
    return fail(r->error, r->line, 1, "the line is longer than %d bytes", TK_ARTIFACT_MAX_LINE);
  r->line_len = newline ? (size_t)(newline - r->at) : rest;
  r->at += r->line_len + (newline ? 1 : 0);
  if (r->line_len > 0 && r->line_at[r->line_len - 1] == '\r') r->line_len--;

  size_t head_len = strlen(head);
  if (r->line_len < head_len || memcmp(r->line_at, head, head_len) != 0)
    return fail(r->error, r->line, 1, "expected %s here: a line that begins with \"%s\"", what, head);
  r->json_column = (int)head_len + 1;
  const char *json = r->line_at + head_len;
  size_t json_len = r->line_len - head_len;
  for (size_t i = 0; i < json_len; i++) {
    bool escaped_nul = json_len - i >= 6 && memcmp(json + i, "\\u0000", 6) == 0;
    if ((unsigned char)json[i] < 0x20 || escaped_nul)
      return fail(r->error, r->line, (int)(head_len + i) + 1, "control character in the metadata");
  }
  const char *stop = json;
  r->object = cJSON_ParseWithLengthOpts(json, json_len, &stop, false);
  int column = (int)(stop - r->line_at) + 1;
  if (!r->object) return fail(r->error, r->line, column, "this is not JSON");
  if (stop != json + json_len) return fail(r->error, r->line, column, "something follows the JSON object");
  if (!cJSON_IsObject(r->object)) return fail(r->error, r->line, r->json_column, "expected a JSON object");
  return true;
}

/* Ends the line: every key must have been taken. */
static bool end_line(reader *r) {
  const cJSON *left = r->object->child;
  bool ok =
      !left || fail(r->error, r->line, column_of(r, left->string), "unknown or repeated key \"%.60s\"", left->string);
  cJSON_Delete(r->object);
  r->object = NULL;
  return ok;
}

/* Takes a key out of the object. NULL if it is absent, which is an error if `required`. The caller deletes it. */
static cJSON *take(reader *r, const char *key, bool required) {
  cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(r->object, key);
  if (!item && required) fail(r->error, r->line, r->json_column, "key \"%s\" is missing", key);
  return item;
}

static bool take_string(reader *r, const char *key, bool required, const char **out) {
  *out = NULL;
  cJSON *item = take(r, key, required);
  if (!item) return !required;
  bool ok = cJSON_IsString(item) || fail(r->error, r->line, column_of(r, key), "\"%s\" must be a string", key);
  if (ok) *out = keep_string(r, item->valuestring);
  cJSON_Delete(item);
  return ok && *out;
}

static bool take_int(reader *r, const char *key, bool required, int otherwise, int *out) {
  *out = otherwise;
  cJSON *item = take(r, key, required);
  if (!item) return !required;
  double v = item->valuedouble;
  bool ok = (cJSON_IsNumber(item) && v >= -2147483647.0 && v <= 2147483647.0 && v == floor(v)) ||
            fail(r->error, r->line, column_of(r, key), "\"%s\" must be a 32-bit integer", key);
  if (ok) *out = (int)v;
  cJSON_Delete(item);
  return ok;
}

static bool take_bool(reader *r, const char *key, bool otherwise, bool *out) {
  *out = otherwise;
  cJSON *item = take(r, key, false);
  if (!item) return true;
  bool ok = cJSON_IsBool(item) || fail(r->error, r->line, column_of(r, key), "\"%s\" must be true or false", key);
  *out = ok && cJSON_IsTrue(item);
  cJSON_Delete(item);
  return ok;
}

static bool take_word(reader *r, const char *key, const char *const *words, int n, int *out) {
  const char *word;
  if (!take_string(r, key, true, &word)) return false;
  return word_in(words, n, word, out) || fail(r->error, r->line, column_of(r, key), "unknown %s \"%.60s\"", key, word);
}

static bool read_int64(const char *text, int64_t *out) {
  char *end;
  size_t n = strlen(text);
  if (n == 0 || strspn(text, "-0123456789") != n) return false;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  *out = v;
  return errno == 0 && *end == '\0';
}

static bool read_constant(reader *r, tk_constant *c) {
  int kind;
  const char *text;
  if (!take_word(r, "type", constant_kinds, N_CONSTANT_KINDS, &kind) || !take_string(r, "value", true, &text))
    return false;
  c->kind = (tk_constant_kind)kind;
  bool ok = true;
  switch (c->kind) {
    case TK_CONSTANT_INT: ok = read_int64(text, &c->i); break;
    case TK_CONSTANT_FLOAT: ok = read_double(text, &c->f); break;
    case TK_CONSTANT_BOOL:
      c->i = strcmp(text, "true") == 0;
      ok = c->i || strcmp(text, "false") == 0;
      break;
    case TK_CONSTANT_NONE: ok = strcmp(text, "None") == 0; break;
    case TK_CONSTANT_STRING:
    case TK_CONSTANT_DTYPE:
    case TK_CONSTANT_OTHER: c->text = text; break;
  }
  return ok || fail(r->error, r->line, column_of(r, "value"), "\"%.60s\" is no %s value", text, constant_kinds[kind]);
}

/* "64, 128" */
static bool read_list(const char *text, int *at, int *n) {
  for (*n = 0; *n < TK_ARTIFACT_MAX_RANK; text++) {
    text += strspn(text, " ");
    size_t digits = strspn(text, "0123456789");
    if (digits < 1 || digits > 7) return false;
    at[(*n)++] = atoi(text);
    text += digits;
    text += strspn(text, " ");
    if (*text != ',') return *text == '\0';
  }
  return false;
}

/* Takes a list of extents; false, reported, if it is none. */
static bool take_list(reader *r, const char *key, int *at, int *n) {
  const char *text;
  if (!take_string(r, key, true, &text)) return false;
  return read_list(text, at, n) || fail(r->error, r->line, column_of(r, key),
                                        "a %s has 1 to %d extents, such as \"64, 128\"", key, TK_ARTIFACT_MAX_RANK);
}

static bool read_param(reader *r, tk_artifact_param *p) {
  int kind, n_kinds = r->format >= 4 ? N_PARAM_KINDS : TK_PARAM_DESCRIPTOR;
  const char *dtype;
  if (!next_line(r, PREFIX "param ", "a parameter")) return false;
  if (!take_string(r, "name", true, &p->name) || !take_word(r, "kind", param_kinds, n_kinds, &kind)) return false;
  p->kind = (tk_param_kind)kind;
  p->divisible = 1;
  if (p->kind == TK_PARAM_CONSTEXPR) {
    if (!read_constant(r, &p->value)) return false;
  } else {
    if (!take_string(r, "dtype", true, &dtype)) return false;
    if (!tk_dtype_parse(dtype, strlen(dtype), &p->dtype))
      return fail(r->error, r->line, column_of(r, "dtype"), "unknown dtype \"%.60s\"", dtype);
    if (!take_bool(r, "const", false, &p->is_const) || !take_int(r, "divisible", false, 1, &p->divisible) ||
        !take_bool(r, "equals_one", false, &p->equals_one) || !take_bool(r, "passed", true, &p->passed))
      return false;
    if (p->kind == TK_PARAM_DESCRIPTOR &&
        (!take_list(r, "block", p->block, &p->rank) || !take_bool(r, "nan", false, &p->pads_nan)))
      return false;
  }
  return placed(r, check_param(p, r->error)) && end_line(r);
}

static bool read_map(reader *r, const tk_artifact_kernel *k, tk_artifact_map *m) {
  if (!next_line(r, PREFIX "map ", "a tensor map")) return false;
  if (!take_string(r, "param", true, &m->param) || !take_string(r, "dtype", true, &m->dtype) ||
      !take_string(r, "sizes", true, &m->sizes) || !take_string(r, "strides", true, &m->strides) ||
      !take_list(r, "box", m->box, &m->rank) || !take_int(r, "swizzle", true, 0, &m->swizzle))
    return false;
  return placed(r, check_map(k, m, r->error)) && end_line(r);
}

static bool read_kernel(reader *r, tk_artifact_kernel *k) {
  if (!next_line(r, PREFIX "kernel ", "a kernel")) return false;
  if (!take_string(r, "name", true, &k->name) || !take_int(r, "warps", true, 0, &k->num_warps) ||
      !take_int(r, "stages", true, 0, &k->num_stages) || !take_int(r, "ctas", true, 0, &k->num_ctas) ||
      !take_int(r, "shared", true, 0, &k->shared_bytes) ||
      !take_int(r, "dynamic_shared", true, 0, &k->dynamic_shared_bytes) || !take_string(r, "grid", false, &k->grid) ||
      !take_int(r, "params", true, 0, &k->n_params))
    return false;
  if (r->format >= 2 &&
      (!take_int(r, "producer_warps", false, 0, &k->producer_warps) || !take_int(r, "maps", false, 0, &k->n_maps)))
    return false;
  k->gang = 1;
  if (r->format >= 3 && !take_bool(r, "persistent", false, &k->persistent)) return false;
  if (r->format >= 5 && !take_int(r, "gang", false, 1, &k->gang)) return false;
  if (!placed(r, check_kernel(k, r->error)) || !end_line(r)) return false;
  int n = k->n_params, n_maps = k->n_maps;
  k->n_params = k->n_maps = 0;
  k->params = keep(r, sizeof *k->params * (size_t)(n ? n : 1));
  if (!k->params) return false;
  for (int i = 0; i < n; i++) {
    if (!read_param(r, &k->params[i]) || !placed(r, param_name_is_new(k, i, r->error))) return false;
    k->n_params++;
  }
  if (!placed(r, check_values(k, r->error))) return false;
  if (n_maps && !(k->maps = keep(r, sizeof *k->maps * (size_t)n_maps))) return false;
  for (; k->n_maps < n_maps; k->n_maps++)
    if (!read_map(r, k, &k->maps[k->n_maps])) return false;
  return true;
}

static bool hex_digits(const char *s, uint64_t *out) {
  if (strlen(s) != 16 || strspn(s, "0123456789abcdef") != 16) return false;
  *out = strtoull(s, NULL, 16);
  return true;
}

/* "8.0" -> 80 */
static bool ptx_version(const char *s, int *out) {
  size_t major = strspn(s, "0123456789");
  if (major == 0 || major > 2 || s[major] != '.' || s[major + 1] < '0' || s[major + 1] > '9' || s[major + 2])
    return false;
  *out = atoi(s) * 10 + (s[major + 1] - '0');
  return true;
}

static bool read_file(reader *r) {
  tk_artifact *a = &r->own->artifact;
  const char *hash, *ptx;
  char head[32];
  size_t len = (size_t)(r->end - r->at);
  size_t prefix = strlen(PREFIX);
  if (len < prefix || memcmp(r->at, PREFIX, prefix) != 0)
    return fail(r->error, 1, 1, "this text does not begin with a tkc metadata block (\"" PREFIX "%d {...}\")",
                TK_ARTIFACT_FORMAT);
  char digit = len > prefix + 1 && r->at[prefix + 1] == ' ' ? r->at[prefix] : '\0';
  r->format = digit >= '1' && digit < '0' + TK_ARTIFACT_FORMAT ? digit - '0' : TK_ARTIFACT_FORMAT;
  snprintf(head, sizeof head, PREFIX "%d ", r->format);
  if (len > prefix && r->at[prefix] >= '0' && r->at[prefix] <= '9' &&
      (len < strlen(head) || memcmp(r->at, head, strlen(head)) != 0))
    return fail(r->error, 1, (int)prefix + 1,
                "this metadata has a format that this library does not read; it reads formats up to %d",
                TK_ARTIFACT_FORMAT);
  if (!next_line(r, head, "the file's metadata") || !take_string(r, "source", true, &a->source) ||
      !take_string(r, "hash", true, &hash) || !take_string(r, "arch", true, &a->arch) ||
      !take_string(r, "ptx", true, &ptx) || !take_int(r, "kernels", true, 0, &a->n_kernels))
    return false;
  if (!hex_digits(hash, &a->source_hash))
    return fail(r->error, r->line, column_of(r, "hash"), "the hash must have 16 hexadecimal digits");
  if (!ptx_version(ptx, &a->ptx_version))
    return fail(r->error, r->line, column_of(r, "ptx"), "the PTX version must look like 8.0");
  if (!placed(r, check_file(a, r->error)) || !end_line(r)) return false;

  int n = a->n_kernels;
  a->n_kernels = 0;
  a->kernels = keep(r, sizeof *a->kernels * (size_t)(n ? n : 1));
  if (!a->kernels) return false;
  for (int i = 0; i < n; i++) {
    if (!read_kernel(r, &a->kernels[i]) || !placed(r, kernel_name_is_new(a, i, r->error))) return false;
    a->n_kernels++;
  }
  return true;
}

bool tk_artifact_parse(const char *text, size_t len, tk_artifact **out, tk_artifact_error *error) {
  *out = NULL;
  *error = (tk_artifact_error){0};
  owned *own = calloc(1, sizeof *own);
  if (!own) return fail(error, 0, 0, "out of memory");
  reader r = {.at = text, .end = text + len, .own = own, .error = error};
  if (!read_file(&r)) {
    cJSON_Delete(r.object);
    tk_artifact_free(&own->artifact);
    return false;
  }
  *out = &own->artifact;
  return true;
}

void tk_artifact_free(tk_artifact *a) {
  if (!a) return;
  owned *own = (owned *)(void *)a;
  for (block *b = own->blocks, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(own);
}

const tk_artifact_kernel *tk_artifact_find(const tk_artifact *a, const char *name) {
  for (int i = 0; i < a->n_kernels; i++)
    if (strcmp(a->kernels[i].name, name) == 0) return &a->kernels[i];
  return NULL;
}
