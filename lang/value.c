/* Compile-time values: making, comparing and printing them.
 *
 * Values are immutable and live in an arena; whoever holds a pointer may keep it. Ints have 128 bits, which is more
 * than any dtype needs: what Python computes beyond that is reported where it happens (constexpr.c). */
#include "lang/sema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "lang/sema_diags.def"
#undef DIAG

/* ---- making --------------------------------------------------------------------------------------------------- */

lang_value *value_new(arena *a, lang_kind kind) {
  lang_value *v = ARENA_NEW(a, lang_value);
  v->kind = kind;
  return v;
}

lang_value *sema_int(sema *s, lang_int i) {
  lang_value *v = value_new(s->a, LANG_INT);
  v->u.i = i;
  return v;
}

lang_value *sema_float(sema *s, double f) {
  lang_value *v = value_new(s->a, LANG_FLOAT);
  v->u.f = f;
  return v;
}

lang_value *sema_bool(sema *s, bool b) { return b ? s->unit->yes : s->unit->no; }

lang_value *value_str(arena *a, const char *p, size_t len) {
  lang_value *v = value_new(a, LANG_STR);
  char *copy = arena_alloc(a, len + 1);
  if (len) memcpy(copy, p, len);
  v->u.str.s = copy;
  v->u.str.len = len;
  return v;
}

lang_value *sema_str(sema *s, const char *p, size_t len) {
  if (len > SEMA_MAX_STRING) return sema_fail(s, s->b.at, &D_sequence_too_long, SEMA_MAX_STRING);
  sema_charge(s, len / 64);
  return value_str(s->a, p, len);
}

lang_value *sema_type(sema *s, const tir_type *t) {
  lang_value *v = value_new(s->a, LANG_TYPE);
  v->u.type = t;
  return v;
}

lang_value *sema_tuple(sema *s, lang_value *const *at, int n) {
  int size = n, depth = 1;
  for (int i = 0; i < n && size <= SEMA_MAX_TUPLE; i++) {
    const lang_value *x = at[i];
    if (x->kind == LANG_STR) size += (int)(x->u.str.len / 64);
    if (!value_has_items(x)) continue;
    size += x->u.items.size;
    if (x->u.items.depth >= depth) depth = x->u.items.depth + 1;
  }
  if (size > SEMA_MAX_TUPLE || depth > SEMA_MAX_TUPLE_DEPTH)
    return sema_fail(s, s->b.at, &D_sequence_too_long, SEMA_MAX_TUPLE);
  sema_charge(s, (size_t)n / 8);
  lang_value *v = value_new(s->a, LANG_TUPLE);
  v->u.items.size = size;
  v->u.items.depth = depth;
  v->u.items.at = n ? arena_copy(s->a, at, sizeof *at * (size_t)n) : NULL;
  v->u.items.n = n;
  return v;
}

lang_value *value_block(arena *a, const sema_block *form, lang_value *const *at, int n) {
  lang_value *v = value_new(a, LANG_BLOCK);
  v->u.items.at = arena_copy(a, at, sizeof *at * (size_t)n);
  v->u.items.n = v->u.items.size = n;
  v->u.items.depth = 1;
  v->u.items.form = form;
  return v;
}

lang_value *value_with_items(sema *s, const lang_value *like, lang_value *const *at) {
  return like->kind == LANG_BLOCK ? value_block(s->a, like->u.items.form, at, like->u.items.n)
                                  : sema_tuple(s, at, like->u.items.n);
}

lang_value *sema_tensor(sema *s, tir_value *t) {
  lang_value *v = value_new(s->a, LANG_TENSOR);
  v->u.tensor = t;
  return v;
}

lang_value *sema_module(sema *s, const char *path) {
  lang_value *v = value_new(s->a, LANG_MODULE);
  v->u.name = path;
  return v;
}

lang_value *value_int(arena *a, int64_t i) {
  lang_value *v = value_new(a, LANG_INT);
  v->u.i = i;
  return v;
}

/* ---- asking --------------------------------------------------------------------------------------------------- */

const char *value_kind_name(const lang_value *v) {
  switch (v->kind) {
    case LANG_POISON: return "error";
    case LANG_NONE: return "None";
    case LANG_BOOL: return "bool";
    case LANG_INT: return "int";
    case LANG_FLOAT: return "float";
    case LANG_STR: return "str";
    case LANG_TYPE: return "dtype";
    case LANG_TUPLE: return "tuple";
    case LANG_ELLIPSIS: return "ellipsis";
    case LANG_SLICE: return "slice";
    case LANG_RANGE: return "range";
    case LANG_FUNCTION: return "function";
    case LANG_BUILTIN: return "builtin function";
    case LANG_MODULE: return "module";
    case LANG_FOREIGN: return "host value";
    case LANG_BLOCK: return v->u.items.form->is_descriptor ? "tensor descriptor" : "block pointer";
    case LANG_TENSOR: return "tensor";
  }
  return "value";
}

bool value_has_items(const lang_value *v) { return v->kind == LANG_TUPLE || v->kind == LANG_BLOCK; }

bool value_has_tensor(const lang_value *v) {
  if (v->kind == LANG_TENSOR) return true;
  if (value_has_items(v))
    for (int i = 0; i < v->u.items.n; i++)
      if (value_has_tensor(v->u.items.at[i])) return true;
  return false;
}

lang_value *sema_known(sema *s, lang_value *v) {
  if (sema_is_number(v)) return v;
  if (v->kind != LANG_TENSOR) return NULL;
  const tir_value *t = v->u.tensor;
  if (t->type->kind != TY_SCALAR || !tir_is_const(t)) return NULL;
  tir_scalar c = tir_attr_of(t->def, ATTR_value)->scalar;
  tir_dtype d = t->type->dtype;
  if (d == DT_i1) return sema_bool(s, c.bits != 0);
  if (dt_is_float(d)) return sema_float(s, tir_scalar_as_float(d, c));
  int64_t i = tir_scalar_as_int(d, c);
  return sema_int(s, dt_is_signed(d) ? (lang_int)i : (lang_int)(uint64_t)i);
}

bool lang_value_as_int(const lang_value *v, int64_t *out) {
  if (v->kind == LANG_BOOL) {
    *out = v->u.b;
    return true;
  }
  if (v->kind != LANG_INT || v->u.i < INT64_MIN || v->u.i > INT64_MAX) return false;
  *out = (int64_t)v->u.i;
  return true;
}

bool sema_known_int(sema *s, lang_value *v, int64_t *out) {
  lang_value *k = sema_known(s, v);
  return k && lang_value_as_int(k, out);
}

static double number_as_double(const lang_value *v) {
  return v->kind == LANG_FLOAT ? v->u.f : v->kind == LANG_BOOL ? (double)v->u.b : (double)v->u.i;
}

bool value_same_form(const lang_value *x, const lang_value *y) {
  if (x->kind != y->kind || x->u.items.n != y->u.items.n) return false;
  if (x->kind != LANG_BLOCK) return true;
  const sema_block *f = x->u.items.form, *g = y->u.items.form;
  return f->tile == g->tile && f->is_descriptor == g->is_descriptor && f->pads_nan == g->pads_nan;
}

bool lang_value_equal(const lang_value *x, const lang_value *y) {
  if (x == y) return true;
  if (sema_is_number(x) && sema_is_number(y)) {
    if (x->kind != LANG_FLOAT && y->kind != LANG_FLOAT)
      return (x->kind == LANG_BOOL ? x->u.b : x->u.i) == (y->kind == LANG_BOOL ? y->u.b : y->u.i);
    return number_as_double(x) == number_as_double(y);
  }
  if (x->kind != y->kind) return false;
  switch (x->kind) {
    case LANG_STR: return x->u.str.len == y->u.str.len && memcmp(x->u.str.s, y->u.str.s, x->u.str.len) == 0;
    case LANG_TYPE: return x->u.type == y->u.type;
    case LANG_FUNCTION: return x->u.fn.def == y->u.fn.def;
    case LANG_BUILTIN: return x->u.builtin == y->u.builtin;
    case LANG_MODULE: return strcmp(x->u.name, y->u.name) == 0;
    case LANG_TENSOR: return x->u.tensor == y->u.tensor;
    case LANG_BLOCK:
    case LANG_TUPLE:
    case LANG_RANGE:
    case LANG_SLICE:
      if (!value_same_form(x, y)) return false;
      for (int i = 0; i < x->u.items.n; i++)
        if (!lang_value_equal(x->u.items.at[i], y->u.items.at[i])) return false;
      return true;
    case LANG_NONE:
    case LANG_ELLIPSIS: return true;
    default: return false;
  }
}

/* ---- printing ------------------------------------------------------------------------------------------------- */

const char *value_int_text(arena *a, lang_int v) {
  char buf[48];
  char *p = buf + sizeof buf;
  bool negative = v < 0;
  lang_uint m = negative ? -(lang_uint)v : (lang_uint)v;
  *--p = '\0';
  do {
    *--p = (char)('0' + (int)(m % 10));
    m /= 10;
  } while (m);
  if (negative) *--p = '-';
  return arena_printf(a, "%s", p);
}

/* Shortest decimal text that reads back as the same double, as Python prints it. */
static void print_float(textbuf *out, double f) {
  if (isnan(f) || isinf(f)) {
    text_str(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
    return;
  }
  char buf[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, f);
    if (strtod(buf, NULL) == f) break;
  }
  double magnitude = fabs(f);
  if (strchr(buf, 'e') && magnitude >= 1e-4 && magnitude < 1e16) snprintf(buf, sizeof buf, "%.0f", f);
  text_str(out, buf);
  if (!strpbrk(buf, ".e")) text_str(out, ".0");
}

static void print_str_repr(textbuf *out, const char *p, size_t len) {
  char quote = memchr(p, '\'', len) && !memchr(p, '"', len) ? '"' : '\'';
  text_char(out, quote);
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)p[i];
    if (c == '\n')
      text_str(out, "\\n");
    else if (c == '\t')
      text_str(out, "\\t");
    else if (c == '\\' || c == (unsigned char)quote)
      text_printf(out, "\\%c", c);
    else if (c < 32 || c == 127)
      text_printf(out, "\\x%02x", c);
    else
      text_char(out, (char)c);
  }
  text_char(out, quote);
}

void value_print(textbuf *out, const lang_value *v, bool repr) {
  switch (v->kind) {
    case LANG_NONE: text_str(out, "None"); break;
    case LANG_BOOL: text_str(out, v->u.b ? "True" : "False"); break;
    case LANG_INT: text_str(out, value_int_text(out->a, v->u.i)); break;
    case LANG_FLOAT: print_float(out, v->u.f); break;
    case LANG_STR:
      if (repr)
        print_str_repr(out, v->u.str.s, v->u.str.len);
      else
        text_add(out, v->u.str.s, v->u.str.len);
      break;
    case LANG_TYPE: tir_type_print(v->u.type, false, out); break;
    case LANG_ELLIPSIS: text_str(out, "Ellipsis"); break;
    case LANG_TUPLE:
    case LANG_SLICE:
    case LANG_RANGE:
      text_str(out, v->kind == LANG_SLICE ? "slice(" : v->kind == LANG_RANGE ? "range(" : "(");
      for (int i = 0; i < v->u.items.n; i++) {
        if (i) text_str(out, ", ");
        value_print(out, v->u.items.at[i], true);
      }
      text_str(out, v->kind == LANG_TUPLE && v->u.items.n == 1 ? ",)" : ")");
      break;
    case LANG_FUNCTION: text_printf(out, "<function %s>", v->u.fn.def->name); break;
    case LANG_BUILTIN: text_printf(out, "<builtin %s>", v->u.builtin->name); break;
    case LANG_MODULE: text_printf(out, "<module %s>", v->u.name); break;
    case LANG_FOREIGN: text_printf(out, "<host value %s>", v->u.name); break;
    case LANG_BLOCK: text_printf(out, "<%s>", value_describe(out->a, v)); break;
    case LANG_TENSOR:
      text_str(out, "<tensor ");
      tir_type_print(v->u.tensor->type, false, out);
      text_str(out, ">");
      break;
    case LANG_POISON: text_str(out, "<error>"); break;
  }
}

const char *lang_value_text(arena *a, const lang_value *v) {
  textbuf b;
  text_init(&b, a);
  value_print(&b, v, true);
  return b.at ? b.at : "";
}

const char *value_describe(arena *a, const lang_value *v) {
  switch (v->kind) {
    case LANG_TENSOR: return tir_type_text(a, v->u.tensor->type);
    case LANG_BOOL:
    case LANG_INT:
    case LANG_FLOAT:
    case LANG_STR:
    case LANG_TYPE:
    case LANG_MODULE: return arena_printf(a, "%s %s", value_kind_name(v), lang_value_text(a, v));
    case LANG_FUNCTION: return arena_printf(a, "function '%s'", v->u.fn.def->name);
    case LANG_BUILTIN: return arena_printf(a, "builtin '%s'", v->u.builtin->name);
    case LANG_BLOCK: return arena_printf(a, "%s of %s", value_kind_name(v), tir_type_text(a, v->u.items.form->tile));
    case LANG_TUPLE: return arena_printf(a, "tuple of %d", v->u.items.n);
    default: return value_kind_name(v);
  }
}
