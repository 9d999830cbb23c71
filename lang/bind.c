/* Binding a kernel's parameters: annotations and defaults, `-D NAME=VALUE`, `--signature`. A launch says what it knows
 * of its arguments as a signature.
 *
 * The texts are registered as sources of their own, so that a mistake in them is shown with a caret like any other; a
 * value is parsed and evaluated by the language itself. */
#include "lang/sema.h"

#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (unsigned char)c >= 128;
}

/* ---- types as text ----------------------------------------------------------------------------------------------- */

static void trim(const char **p, size_t *n) {
  while (*n && is_space(**p)) ++*p, --*n;
  while (*n && is_space((*p)[*n - 1])) --*n;
}

const tir_type *lang_type_named(tir_cx *cx, const char *text, size_t len) {
  trim(&text, &len);
  if (len && *text == '*') {
    text++;
    len--;
    trim(&text, &len);
    bool is_const = false;
    if (len > 6 && strncmp(text, "const", 5) == 0 && is_space(text[5])) {
      is_const = true;
      text += 6;
      len -= 6;
    } else if (len > 1 && text[0] == 'k') { /* Triton's *kfp32 */
      is_const = true;
      text++;
      len--;
    }
    const tir_type *of = len < 64 ? lang_type_named(cx, text, len) : NULL;
    return of ? tir_ptr_type(cx, of, is_const) : NULL;
  }
  static const struct {
    const char *text;
    tir_dtype d;
  } alias[] = {{"half", DT_f16},          {"float", DT_f32}, {"double", DT_f64},
               {"int", DT_i32},           {"bool", DT_i1},   {"u1", DT_i1},
               {"uint1", DT_i1},          {"int1", DT_i1},   {"float8_e4m3fn", DT_f8e4m3},
               {"float8_e5m2", DT_f8e5m2}};
  tir_dtype d;
  if (tir_dtype_named(text, len, &d)) return tir_scalar_type(cx, d);
  for (size_t i = 0; i < sizeof alias / sizeof *alias; i++)
    if (strlen(alias[i].text) == len && memcmp(alias[i].text, text, len) == 0) return tir_scalar_type(cx, alias[i].d);
  return NULL;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

void lang_bind_init(const lang_kernel *k, lang_binding *b) {
  for (int i = 0; i < k->n_params; i++) {
    const lang_param *p = &k->params[i];
    b[i] = (lang_binding){.bound = LANG_UNBOUND, .divisibility = 1};
    bool typed = p->type || p->kind == LANG_PARAM_DESCRIPTOR;
    if (p->value && (!typed || p->value->kind == LANG_NONE)) { /* a typed default is the launch's business */
      b[i].bound = LANG_CONSTANT;
      b[i].value = p->value;
      b[i].by_default = true;
    } else if (p->type) {
      b[i].bound = LANG_ARGUMENT;
      b[i].type = p->type;
      b[i].divisibility = p->divisibility ? p->divisibility : 1;
    }
  }
}

static void bind_constant(lang_binding *b, lang_value *value) {
  *b = (lang_binding){.bound = LANG_CONSTANT, .value = value, .divisibility = 1};
}

static void bind_type(lang_unit *u, const lang_param *p, const tir_type *type, int divisibility, lang_binding *b) {
  if (p->type && p->kind == LANG_PARAM_SCALAR) type = p->type;
  bool is_const = p->is_const || (p->type && p->type->kind == TY_PTR && p->type->is_const);
  if (type->kind == TY_PTR && is_const && !type->is_const) type = tir_ptr_type(u->cx, type->elem, true);
  *b = (lang_binding){.bound = LANG_ARGUMENT, .type = type, .divisibility = divisibility};
}

static span place(const src_file *f, const char *p, size_t n) {
  return f ? (span){f->base + (uint32_t)(p - f->text), (uint32_t)n} : (span){0, 0};
}

static int param_of(lang_unit *u, const lang_kernel *k, span at, const char *name) {
  int i = lang_param_index(k, name);
  if (i < 0) {
    diag *d = diag_add(u->sink, at, &D_param_unknown, k->name, name);
    textbuf b;
    text_init(&b, u->a);
    for (int j = 0; j < k->n_params && j < 30; j++) text_printf(&b, "%s%s", j ? ", " : "", k->params[j].name);
    if (b.n) diag_note(d, k->at, "its parameters: %s", b.at);
  }
  return i;
}

/* One NAME=VALUE that lies in `file` from p, n bytes. */
static bool define_one(lang_unit *u, const lang_kernel *k, const src_file *file, const char *p, size_t n,
                       lang_binding *b) {
  trim(&p, &n);
  size_t name_len = 0;
  while (name_len < n && is_name_char(p[name_len])) name_len++;
  size_t eq = name_len;
  while (eq < n && is_space(p[eq])) eq++;
  if (name_len == 0 || eq >= n || p[eq] != '=') {
    diag_add(u->sink, place(file, p, n), &D_bad_define);
    return false;
  }
  const char *name = arena_printf(u->a, "%.*s", (int)name_len, p);
  int param = param_of(u, k, place(file, p, name_len), name);
  if (param < 0) return false;
  const char *text = p + eq + 1;
  size_t len = n - eq - 1;
  trim(&text, &len);
  span at = place(file, text, len);

  bool bare = len > 0;
  for (size_t i = 0; i < len; i++) bare = bare && is_name_char(text[i]);
  const tir_type *t = lang_type_named(u->cx, text, len);
  lang_value *v = NULL;
  if (t) {
    v = value_new(u->a, LANG_TYPE);
    v->u.type = t;
  } else if (bare && !(text[0] >= '0' && text[0] <= '9') &&
             strcmp(arena_printf(u->a, "%.*s", (int)len, text), "True") != 0 && strncmp(text, "False", len) != 0 &&
             strncmp(text, "None", len) != 0) {
    const char *word = strtab_intern(u->cx->names, text, len);
    int g = sema_map_get(&u->main->index, word);
    if (g >= 0 && u->main->globals.at[g].kind == GLOBAL_FUNCTION)
      v = u->main->globals.at[g].value;
    else
      v = value_str(u->a, text, len); /* ACTIVATION=gelu */
  } else {
    const src_file *source = src_add(u->sources, file->path, text, len);
    diag_sink quiet;
    diag_sink_init(&quiet, u->a, u->sources);
    const ast_file *f = source ? ast_parse(&quiet, u->cx->names, source) : NULL;
    const ast_node *m = f ? f->module : NULL;
    if (m && quiet.n_errors == 0 && m->n_list == 1 && m->list[0]->kind == AST_EXPR)
      v = sema_eval(sema_new(u, u->main, &quiet), m->list[0]->kid[0]);
  }
  if (!v || sema_is_poison(v) || value_has_tensor(v)) {
    diag *d = diag_add(u->sink, at, &D_bad_define_value, name);
    diag_fix(d, at, "give a number, True, False, None, a string, a dtype, a tuple, or a function of the file");
    return false;
  }
  bind_constant(&b[param], v);
  return true;
}

bool lang_bind_define(lang_unit *u, const lang_kernel *k, const char *text, lang_binding *b) {
  const src_file *f = src_add(u->sources, "<-D>", text, strlen(text));
  return f && define_one(u, k, f, f->text, f->len, b);
}

/* TYPE[:DIVISIBILITY] of a signature; false if it is no type. */
static bool signature_type(lang_unit *u, const char *p, size_t n, const tir_type **type, int *divisibility) {
  const char *colon = memchr(p, ':', n);
  size_t type_len = colon ? (size_t)(colon - p) : n;
  *type = lang_type_named(u->cx, p, type_len);
  *divisibility = 1;
  if (!*type || !colon) return *type != NULL;
  int64_t d = 0;
  const char *q = colon + 1;
  size_t left = n - type_len - 1;
  trim(&q, &left);
  if (left == 0 || left > 9) return false;
  for (size_t i = 0; i < left; i++) {
    if (q[i] < '0' || q[i] > '9') return false;
    d = d * 10 + (q[i] - '0');
  }
  *divisibility = (int)d;
  return d >= 1;
}

/* A signature's descriptor for parameter `q`, given as the text at `p`. */
static bool bind_descriptor(lang_unit *u, const lang_param *q, span at, const char *p, size_t n, lang_binding *b) {
  lang_binding stated;
  if (!descriptor_of_text(u, at, p, n, &stated)) return false;
  if (q->type || q->is_const || q->kind == LANG_PARAM_CONSTEXPR) {
    diag *d = diag_add(u->sink, at, &D_signature_conflict, q->name, descriptor_text(u->a, &stated));
    diag_note(d, q->at, "it is annotated as %s",
              q->type       ? tir_type_text(u->a, q->type)
              : q->is_const ? "a pointer"
                            : "constexpr");
    return false;
  }
  *b = stated;
  return true;
}

/* NAME=tensordesc: what the annotation says, not the default. */
static bool bind_as_annotated(lang_unit *u, const lang_param *q, span at, const char *p, size_t n, lang_binding *b) {
  lang_binding stated;
  if (!descriptor_of_word(u, at, p, n, &stated)) return false;
  if (!q->descriptor) {
    diag *d = diag_add(u->sink, at, &D_signature_conflict, q->name, arena_printf(u->a, "%.*s", (int)n, p));
    diag_note(d, q->at, "the source does not say which descriptor it is: write tensordesc<f16[64, 32]>");
    return false;
  }
  *b = stated;
  return true;
}

static bool signature_item(lang_unit *u, const lang_kernel *k, const src_file *f, const char *p, size_t n,
                           lang_binding *b) {
  trim(&p, &n);
  const char *eq = memchr(p, '=', n);
  if (!eq) {
    diag_add(u->sink, place(f, p, n), &D_bad_signature);
    return false;
  }
  const char *name = p;
  size_t name_len = (size_t)(eq - p);
  trim(&name, &name_len);
  const char *rest = eq + 1;
  size_t rest_len = n - (size_t)(eq - p) - 1;
  trim(&rest, &rest_len);
  const char *name_text = arena_printf(u->a, "%.*s", (int)name_len, name);
  if (descriptor_is_text(rest, rest_len)) {
    int i = param_of(u, k, place(f, name, name_len), name_text);
    return i >= 0 && bind_descriptor(u, &k->params[i], place(f, rest, rest_len), rest, rest_len, &b[i]);
  }
  if (descriptor_is_word(rest, rest_len)) {
    int i = param_of(u, k, place(f, name, name_len), name_text);
    if (i < 0) return false;
    if (k->params[i].kind != LANG_PARAM_CONSTEXPR)
      return bind_as_annotated(u, &k->params[i], place(f, rest, rest_len), rest, rest_len, &b[i]);
  }
  const tir_type *type;
  int divisibility;
  bool looks_typed = rest_len && (*rest == '*' || memchr(rest, ':', rest_len));
  bool is_type = signature_type(u, rest, rest_len, &type, &divisibility);
  if (!is_type && looks_typed && *rest != '"' && *rest != '\'' && *rest != '(') {
    diag_add(u->sink, place(f, rest, rest_len), &D_bad_signature_type, name_text);
    return false;
  }
  int param = param_of(u, k, place(f, name, name_len), name_text);
  if (param < 0) return false;
  if (!is_type || k->params[param].kind == LANG_PARAM_CONSTEXPR) return define_one(u, k, f, p, n, b);

  const lang_param *q = &k->params[param];
  if (q->descriptor || q->needs_block) {
    diag *d = diag_add(u->sink, place(f, rest, rest_len), &D_signature_conflict, name_text, tir_type_text(u->a, type));
    diag_note(d, q->at, "it is annotated as a tensor descriptor");
    return false;
  }
  if (q->type && (q->type->kind != type->kind || (type->kind == TY_SCALAR && type != q->type) ||
                  (type->kind == TY_PTR && type->elem != q->type->elem))) {
    diag *d = diag_add(u->sink, place(f, rest, rest_len), &D_signature_conflict, name_text, tir_type_text(u->a, type));
    diag_note(d, q->at, "it is annotated as %s", tir_type_text(u->a, q->type));
    return false;
  }
  bool has_divisibility = memchr(rest, ':', rest_len) != NULL;
  if (has_divisibility && type->kind == TY_SCALAR && dt_is_int(type->dtype) && divisibility == 1) {
    b[param] = (lang_binding){
        .bound = LANG_CONSTANT, .type = type, .value = value_int(u->a, 1), .folded = true, .divisibility = 1};
    return true;
  }
  bool may_divide = type->kind != TY_SCALAR || dt_is_int(type->dtype);
  if (has_divisibility && !(may_divide && sema_is_divisibility((uint64_t)divisibility))) {
    diag_add(u->sink, place(f, rest, rest_len), &D_bad_divisibility);
    return false;
  }
  bind_type(u, q, type, has_divisibility ? divisibility : q->divisibility ? q->divisibility : 1, &b[param]);
  return true;
}

bool lang_bind_signature(lang_unit *u, const lang_kernel *k, const char *text, lang_binding *b) {
  const src_file *f = src_add(u->sources, "<signature>", text, strlen(text));
  if (!f) return false;
  bool ok = true;
  int depth = 0;
  char quote = 0;
  const char *from = f->text;
  for (const char *p = f->text;; p++) {
    if (quote ? *p != '\0' : (*p != '\0' && (*p != ',' || depth > 0))) {
      if (quote)
        quote = *p == quote ? 0 : quote;
      else if (*p == '\'' || *p == '"')
        quote = *p;
      else
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
      continue;
    }
    const char *item = from;
    size_t n = (size_t)(p - from);
    trim(&item, &n);
    if (n > 0 && !signature_item(u, k, f, item, n, b)) ok = false;
    if (*p == '\0') return ok;
    from = p + 1;
  }
}

/* Binds a descriptor whose type the source states; a signature may state it again, and more of its last extent. */
static bool finish_descriptor(lang_unit *u, const lang_kernel *k, int i, lang_binding *b) {
  lang_binding stated;
  const lang_param *p = &k->params[i];
  if (b[i].bound == LANG_CONSTANT) return true;
  if (!descriptor_of_annotation(u, k, p, b, &stated)) return false;
  if (b[i].bound == LANG_ARGUMENT && (b[i].type != stated.type || b[i].pads_nan != stated.pads_nan)) {
    diag *d = diag_add(u->sink, p->at, &D_signature_conflict, p->name, descriptor_text(u->a, &b[i]));
    diag_note(d, p->descriptor->at, "it is annotated as %s", descriptor_text(u->a, &stated));
    return false;
  }
  if (b[i].divisibility > stated.divisibility) stated.divisibility = b[i].divisibility;
  b[i] = stated;
  return true;
}

bool lang_bind_finish(lang_unit *u, const lang_kernel *k, lang_binding *b) {
  bool ok = true;
  for (int i = 0; i < k->n_params; i++) {
    const lang_param *p = &k->params[i];
    if (p->descriptor) continue;
    if (b[i].bound != LANG_UNBOUND) {
      if (b[i].bound == LANG_ARGUMENT && p->kind == LANG_PARAM_CONSTEXPR) {
        diag_add(u->sink, p->at, &D_constexpr_needs_value, p->name, p->name);
        ok = false;
      }
      continue;
    }
    ok = false;
    if (p->is_wrong) continue;
    if (p->kind == LANG_PARAM_CONSTEXPR) {
      diag_add(u->sink, p->at, &D_constexpr_needs_value, p->name, p->name);
      continue;
    }
    diag *d = diag_add(u->sink, p->at, p->needs_block ? &D_descriptor_untyped : &D_param_untyped, p->name);
    if (p->needs_block)
      diag_fix(d, p->at, "annotate it as tensordesc[f16[64, 32]], or give --signature '%s=tensordesc<f16[64, 32]>'",
               p->name);
    else
      diag_fix(d, p->at, "annotate it (%s: *f32, or %s: i32), or give --signature '%s=*f32:16'", p->name, p->name,
               p->name);
  }
  for (int i = 0; i < k->n_params; i++)
    if (k->params[i].descriptor) ok = finish_descriptor(u, k, i, b) && ok;
  return ok;
}
