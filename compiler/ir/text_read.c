/* The text form of tile IR: reading (the form is described in text_print.c).
 *
 * A recursive descent over the bytes, without a token list. The first mistake ends it: every function returns false
 * once something was reported. Line ends matter in one place only: an op's operands begin on the line of its name, so
 * that `print` without operands does not take the next line's result for one. Numbers of `value` are kept as text until
 * the result type behind them is known.
 *
 * Names are global to the text: a value is known from its definition to the end, whatever region it is in. Using it
 * where it is not defined is the verifier's business. */
#include <math.h>
#include <string.h>

#include "compiler/ir/internal.h"

#define ERROR DIAG_ERROR
#define DIAG(id, severity, format) const diag_desc D_##id = {#id, severity, format};
#include "compiler/ir/diags.def"
#undef DIAG
#undef ERROR

enum { MAX_NESTING = 256 };

typedef struct named {
  const char *name; /* interned; NULL: free slot */
  tir_value *value;
} named;

typedef struct reader {
  tir_cx *cx;
  arena *a;
  diag_sink *sink;
  const src_file *source;
  const char *p, *end;
  const char *done; /* end of the last part of an op's line that was read: where its span ends */
  tir_fn *fn;
  named *values;
  size_t n_values, cap_values;
  int depth;
} reader;

typedef struct word {
  const char *at;
  size_t len;
} word;

/* ---- places and errors ---- */

static span span_at(const reader *r, const char *from, const char *to) {
  return (span){r->source->base + (uint32_t)(from - r->source->text), (uint32_t)(to - from)};
}

static span here(const reader *r) { return span_at(r, r->p, r->p < r->end ? r->p + 1 : r->p); }

/* Bytes of the input that go into a message: printable, and not more than fit a line. */
static const char *quoted(reader *r, word w) {
  size_t n = w.len < 60 ? w.len : 60;
  char *s = arena_alloc(r->a, n + 4);
  for (size_t i = 0; i < n; i++) s[i] = (unsigned char)w.at[i] < 0x20 || w.at[i] == 0x7f ? '?' : w.at[i];
  if (w.len > n) memcpy(s + n, "...", 3);
  return s;
}

static bool expected(reader *r, const char *what) {
  unsigned char c = r->p < r->end ? (unsigned char)*r->p : ' ';
  if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f)
    diag_add(r->sink, here(r), &D_tir_bad_byte, c);
  else
    diag_add(r->sink, here(r), &D_tir_expected, what);
  return false;
}

/* ---- tokens ---- */

static void skip_blanks(reader *r) {
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t')) r->p++;
}

static void skip_space(reader *r) {
  for (;;) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')) r->p++;
    if (r->end - r->p < 2 || r->p[0] != '/' || r->p[1] != '/') return;
    while (r->p < r->end && *r->p != '\n') r->p++;
  }
}

static bool next_is(reader *r, char c) {
  skip_space(r);
  return r->p < r->end && *r->p == c;
}

static bool accept(reader *r, char c) {
  if (!next_is(r, c)) return false;
  r->p++;
  return true;
}

static bool expect(reader *r, char c) {
  const char what[] = {'\'', c, '\'', '\0'};
  return accept(r, c) || expected(r, what);
}

static bool read_word(reader *r, word *w, const char *what) {
  skip_space(r);
  if (r->p == r->end || !tir_is_ident_start(*r->p)) return expected(r, what);
  w->at = r->p;
  while (r->p < r->end && tir_is_ident_char(*r->p)) r->p++;
  w->len = (size_t)(r->p - w->at);
  return true;
}

static bool word_is(word w, const char *text) { return strlen(text) == w.len && memcmp(w.at, text, w.len) == 0; }

static bool accept_word(reader *r, const char *text) {
  const char *back = r->p;
  word w;
  skip_space(r);
  if (r->p < r->end && tir_is_ident_start(*r->p) && read_word(r, &w, "") && word_is(w, text)) return true;
  r->p = back;
  return false;
}

/* The characters of a number: digits, letters (hexadecimal, exponents, inf, nan), '.' and signs. */
static bool read_number_text(reader *r, word *w) {
  skip_space(r);
  w->at = r->p;
  while (r->p < r->end && ((*r->p >= '0' && *r->p <= '9') || (*r->p >= 'a' && *r->p <= 'z') || *r->p == '.' ||
                           *r->p == '-' || *r->p == '+'))
    r->p++;
  w->len = (size_t)(r->p - w->at);
  return w->len > 0 || expected(r, "a number");
}

static bool bad_number(reader *r, word w, const char *kind) {
  diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_bad_number, quoted(r, w), kind);
  return false;
}

/* Decimal digits with an optional sign; the magnitude must fit 64 bits. */
static bool parse_magnitude(word w, bool *negative, uint64_t *out) {
  size_t i = 0;
  *negative = w.len > 0 && w.at[0] == '-';
  if (*negative) i++;
  if (i == w.len) return false;
  uint64_t v = 0;
  for (; i < w.len; i++) {
    unsigned digit = (unsigned)(w.at[i] - '0');
    if (digit > 9 || v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *out = v;
  return true;
}

static bool read_int(reader *r, int64_t min, int64_t max, int64_t *out) {
  word w;
  bool negative;
  uint64_t v;
  if (!read_number_text(r, &w)) return false;
  if (!parse_magnitude(w, &negative, &v) || v > (uint64_t)INT64_MAX + negative)
    return bad_number(r, w, "64-bit integer");
  int64_t n = negative ? (int64_t)(0 - v) : (int64_t)v;
  if (n < min || n > max) return bad_number(r, w, "number that is possible here");
  *out = n;
  return true;
}

static bool parse_hex(word w, uint64_t *out) {
  if (w.len < 3 || w.len > 18 || w.at[0] != '0' || w.at[1] != 'x') return false;
  uint64_t v = 0;
  for (size_t i = 2; i < w.len; i++) {
    char c = w.at[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    v = v << 4 | (uint64_t)digit;
  }
  *out = v;
  return true;
}

static bool is_decimal(word w) {
  size_t i = 0, digits = 0;
  if (i < w.len && (w.at[i] == '-' || w.at[i] == '+')) i++;
  for (; i < w.len && ((w.at[i] >= '0' && w.at[i] <= '9') || w.at[i] == '.'); i++) digits += w.at[i] != '.';
  if (digits == 0) return false;
  if (i < w.len && w.at[i] == 'e') {
    i++;
    if (i < w.len && (w.at[i] == '-' || w.at[i] == '+')) i++;
    size_t from = i;
    while (i < w.len && w.at[i] >= '0' && w.at[i] <= '9') i++;
    if (i == from) return false;
  }
  return i == w.len && w.len < 64;
}

static bool parse_scalar(reader *r, word w, tir_dtype d, tir_scalar *out) {
  int bits = tir_dtypes[d].bits;
  uint64_t v;
  if (parse_hex(w, &v)) {
    if (bits < 64 && v >> bits) return bad_number(r, w, arena_printf(r->a, "bits of %s", tir_dtypes[d].text));
    out->bits = v;
    return true;
  }
  if (!dt_is_float(d)) {
    bool negative;
    uint64_t max = dt_is_signed(d) ? (UINT64_C(1) << (bits - 1)) - 1 : UINT64_MAX >> (64 - bits);
    if (!parse_magnitude(w, &negative, &v) || (negative && !dt_is_signed(d) && v) || v > max + negative)
      return bad_number(r, w, tir_dtypes[d].text);
    *out = tir_scalar_int(d, (int64_t)(negative ? 0 - v : v));
    return true;
  }
  if (word_is(w, "nan"))
    *out = tir_scalar_float(d, (double)NAN);
  else if (word_is(w, "inf"))
    *out = tir_scalar_float(d, (double)INFINITY);
  else if (word_is(w, "-inf"))
    *out = tir_scalar_float(d, -(double)INFINITY);
  else if (is_decimal(w))
    *out = tir_scalar_float(d, tir_decimal_read(arena_printf(r->a, "%.*s", (int)w.len, w.at)));
  else
    return bad_number(r, w, tir_dtypes[d].text);
  return true;
}

static bool read_string(reader *r, const char **out) {
  if (!expect(r, '"')) return false;
  textbuf b;
  text_init(&b, r->a);
  for (;;) {
    if (r->p == r->end || *r->p == '\n' || *r->p == '\0') return expected(r, "'\"' at the end of the string");
    char c = *r->p++;
    if (c == '"') break;
    if (c != '\\') {
      text_char(&b, c);
      continue;
    }
    char e = r->p < r->end ? *r->p++ : ' ';
    uint64_t byte = 0;
    if (e == 'n')
      text_char(&b, '\n');
    else if (e == 't')
      text_char(&b, '\t');
    else if (e == '"' || e == '\\')
      text_char(&b, e);
    else if (e == 'x' && r->end - r->p >= 2 && parse_hex((word){(char[]){'0', 'x', r->p[0], r->p[1]}, 4}, &byte) &&
             byte) {
      text_char(&b, (char)byte);
      r->p += 2;
    } else {
      r->p--;
      return expected(r, "an escape: \\n \\t \\\" \\\\ \\xHH");
    }
  }
  *out = strtab_intern(r->cx->names, b.at, b.n);
  return true;
}

/* ---- values ---- */

static named *value_slot(named *table, size_t cap, const char *name) {
  size_t k = (size_t)hash_bytes(HASH_SEED, &name, sizeof name) & (cap - 1);
  while (table[k].name && table[k].name != name) k = (k + 1) & (cap - 1);
  return &table[k];
}

static void value_define(reader *r, const char *name, tir_value *v) {
  if (r->n_values * 2 >= r->cap_values) {
    size_t cap = r->cap_values ? r->cap_values * 2 : 64;
    named *larger = ARENA_ARRAY(r->a, named, cap);
    for (size_t i = 0; i < r->cap_values; i++)
      if (r->values[i].name) *value_slot(larger, cap, r->values[i].name) = r->values[i];
    r->values = larger;
    r->cap_values = cap;
  }
  *value_slot(r->values, r->cap_values, name) = (named){name, v};
  r->n_values++;
}

static tir_value *value_named(const reader *r, const char *name) {
  return r->cap_values ? value_slot(r->values, r->cap_values, name)->value : NULL;
}

typedef struct value_name {
  const char *full; /* interned, without '%' */
  const char *hint; /* interned; NULL for a mere number */
  span at;
} value_name;

/* %12, %name or %name.12 */
static bool read_value_name(reader *r, value_name *out) {
  if (!next_is(r, '%')) return expected(r, "a value such as %x");
  const char *percent = r->p++, *from = r->p, *hint_end = r->p;
  if (r->p < r->end && tir_is_ident_start(*r->p)) {
    while (r->p < r->end && tir_is_ident_char(*r->p)) r->p++;
    hint_end = r->p;
    if (r->end - r->p >= 2 && *r->p == '.' && r->p[1] >= '0' && r->p[1] <= '9') r->p++;
  }
  while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
  if (r->p == from) return expected(r, "the name of a value");
  out->full = strtab_intern(r->cx->names, from, (size_t)(r->p - from));
  out->hint = hint_end > from ? strtab_intern(r->cx->names, from, (size_t)(hint_end - from)) : NULL;
  out->at = span_at(r, percent, r->p);
  r->done = r->p;
  return true;
}

static bool read_new_name(reader *r, value_name *out) {
  if (!read_value_name(r, out)) return false;
  if (!value_named(r, out->full)) return true;
  diag_add(r->sink, out->at, &D_tir_twice, "value", out->full);
  return false;
}

/* ---- types ---- */

/* `stages` < 0: a tile; else a buffer. */
static bool read_shape(reader *r, const tir_type *elem, int64_t stages, const tir_type **out) {
  int64_t shape[TIR_MAX_RANK + 1];
  int rank = 0;
  const char *from = r->p - 1;
  do {
    if (rank > TIR_MAX_RANK) break;
    if (!read_int(r, INT64_MIN, INT64_MAX, &shape[rank++])) return false;
  } while (accept(r, ','));
  const char *problem = tir_shape_problem(r->cx, rank, shape);
  if (problem) {
    diag_add(r->sink, span_at(r, from, r->p), &D_tir_bad_shape, problem);
    return false;
  }
  if (!expect(r, ']')) return false;
  const lay_t *layout = NULL;
  if (stages >= 0) {
    const char *why = "a buffer needs '@' and its shared layout";
    const sh_t *shared = NULL;
    if (elem->kind != TY_SCALAR) why = "a buffer holds scalars";
    if (elem->kind == TY_SCALAR && r->p < r->end && *r->p == '@') {
      r->p++;
      shared = lay_sh_read(r->cx->layouts, &r->p, lay_shape_make(rank, shape), &why);
    }
    if (!shared) {
      diag_add(r->sink, here(r), &D_tir_bad_layout, why);
      return false;
    }
    *out = tir_buffer_type(r->cx, elem, rank, shape, shared, (int)stages);
    return true;
  }
  if (r->p < r->end && *r->p == '@') {
    const char *why = NULL;
    r->p++;
    layout = lay_read(r->cx->layouts, &r->p, lay_shape_make(rank, shape), &why);
    if (!layout) {
      diag_add(r->sink, here(r), &D_tir_bad_layout, why);
      return false;
    }
  }
  *out = tir_tile_type(r->cx, elem, rank, shape, layout);
  return true;
}

static bool read_type(reader *r, const tir_type **out) {
  enum { MAX_STARS = 16, MAX_STAGES = 64 };
  int64_t stages = accept_word(r, "shared") ? 0 : -1;
  if (stages == 0 && accept(r, '(') && !(read_int(r, 1, MAX_STAGES, &stages) && expect(r, ')'))) return false;
  bool is_const[MAX_STARS];
  int stars = 0;
  while (accept(r, '*')) {
    if (stars == MAX_STARS) return expected(r, "a type with fewer '*'");
    is_const[stars++] = accept_word(r, "const");
  }
  word w;
  tir_dtype d;
  if (!read_word(r, &w, "a type")) return false;
  if (!tir_dtype_named(w.at, w.len, &d)) {
    diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_unknown_type, quoted(r, w));
    return false;
  }
  const tir_type *t = tir_scalar_type(r->cx, d);
  while (stars > 0) t = tir_ptr_type(r->cx, t, is_const[--stars]);
  *out = t;
  if (r->p < r->end && *r->p == '[') {
    r->p++;
    if (!read_shape(r, t, stages, out)) return false;
  } else if (stages >= 0) {
    return expected(r, "'[' and the shape of the buffer");
  }
  r->done = r->p;
  return true;
}

/* ---- ops ---- */

typedef VEC(tir_value *) value_list;
typedef VEC(const tir_type *) type_list;
typedef VEC(value_name) name_list;
typedef VEC(int64_t) int_list;

typedef struct attr_list {
  VEC(tir_attr) items;
  word scalar[ATTR_N]; /* text of SCALAR attributes, by key */
} attr_list;

static bool read_attr_value(reader *r, tir_attr *a, attr_list *attrs) {
  switch (tir_attr_table[a->key].type) {
    case AT_INT: return read_int(r, INT64_MIN, INT64_MAX, &a->i);
    case AT_STR: return read_string(r, &a->str);
    case AT_SCALAR: return read_number_text(r, &attrs->scalar[a->key]);
    case AT_INTS: break;
  }
  int_list list = {0};
  if (!expect(r, '[')) return false;
  if (!next_is(r, ']')) {
    do {
      int64_t v;
      if (!read_int(r, INT64_MIN, INT64_MAX, &v)) return false;
      VEC_PUSH(r->a, list, v);
    } while (accept(r, ','));
  }
  a->n = list.n;
  a->ints = list.at;
  return expect(r, ']');
}

static bool read_attrs(reader *r, attr_list *attrs) {
  do {
    word w;
    if (!read_word(r, &w, "the name of an attribute")) return false;
    int key = 0;
    while (key < ATTR_N && !word_is(w, tir_attr_table[key].name)) key++;
    if (key == ATTR_N) {
      diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_unknown_attr, quoted(r, w));
      return false;
    }
    for (int i = 0; i < attrs->items.n; i++) {
      if ((int)attrs->items.at[i].key != key) continue;
      diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_twice, "attribute", tir_attr_table[key].name);
      return false;
    }
    tir_attr a = {.key = (tir_attr_key)key};
    if (!expect(r, '=') || !read_attr_value(r, &a, attrs)) return false;
    VEC_PUSH(r->a, attrs->items, a);
  } while (accept(r, ','));
  if (!expect(r, '}')) return false;
  r->done = r->p;
  return true;
}

static bool read_region(reader *r, tir_region *region);

static bool read_args(reader *r, tir_region *region) {
  if (!accept(r, '(')) return true;
  do {
    value_name name;
    const tir_type *type;
    if (!read_new_name(r, &name) || !expect(r, ':') || !read_type(r, &type)) return false;
    tir_value *v = tir_region_add_arg(region, type, name.at);
    v->name = name.hint;
    value_define(r, name.full, v);
  } while (accept(r, ','));
  return expect(r, ')');
}

static bool count_is(reader *r, span at, tir_opcode code, int n, int want, const char *what) {
  if (want == TIR_ANY || n == want) return true;
  diag_add(r->sink, at, &D_tir_count, tir_ops[code].name, n, what, want);
  return false;
}

static bool read_operands(reader *r, value_list *in) {
  skip_blanks(r);
  if (r->p == r->end || *r->p != '%') return true;
  do {
    value_name name;
    if (!read_value_name(r, &name)) return false;
    tir_value *v = value_named(r, name.full);
    if (!v) {
      diag_add(r->sink, name.at, &D_tir_unknown_value, quoted(r, (word){name.full, strlen(name.full)}));
      return false;
    }
    VEC_PUSH(r->a, *in, v);
  } while (accept(r, ','));
  return true;
}

static bool read_results(reader *r, name_list *names) {
  if (!next_is(r, '%')) return true;
  do {
    value_name name;
    if (!read_new_name(r, &name)) return false;
    VEC_PUSH(r->a, *names, name);
  } while (accept(r, ','));
  return expect(r, '=');
}

static bool read_opcode(reader *r, tir_opcode *code) {
  word w;
  if (!read_word(r, &w, "an op")) return false;
  for (int i = 0; i < OP_N; i++) {
    if (!word_is(w, tir_ops[i].name)) continue;
    *code = (tir_opcode)i;
    r->done = r->p;
    return true;
  }
  diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_unknown_op, quoted(r, w));
  return false;
}

static bool set_attrs(reader *r, tir_op *op, attr_list *attrs) {
  tir_dtype d = op->n_out ? tir_dtype_of(op->out[0]->type) : DT_u64;
  for (int i = 0; i < attrs->items.n; i++) {
    tir_attr *a = &attrs->items.at[i];
    if (tir_attr_table[a->key].type == AT_SCALAR && !parse_scalar(r, attrs->scalar[a->key], d, &a->scalar))
      return false;
    tir_attr_put(op, a);
  }
  return true;
}

static bool read_op(reader *r, tir_region *region) {
  name_list names = {0};
  value_list in = {0};
  type_list types = {0};
  attr_list attrs = {.items = {0}};
  tir_opcode code;
  skip_space(r);
  const char *from = r->p;
  if (!read_results(r, &names) || !read_opcode(r, &code) || !read_operands(r, &in)) return false;
  const tir_op_info *info = &tir_ops[code];
  skip_blanks(r);
  /* A brace on an op without attributes may open its region; no region begins with `name =`. */
  const char *back = r->p;
  if (r->p < r->end && *r->p == '{') {
    word w;
    r->p++;
    skip_space(r);
    bool is_attr = r->p < r->end && tir_is_ident_start(*r->p) && read_word(r, &w, "") && next_is(r, '=');
    r->p = is_attr || info->n_regions == 0 ? back + 1 : back;
    if (r->p != back && !read_attrs(r, &attrs)) return false;
  }
  if (names.n) {
    if (!expect(r, ':')) return false;
    do {
      const tir_type *t;
      if (!read_type(r, &t)) return false;
      VEC_PUSH(r->a, types, t);
    } while (accept(r, ','));
  }
  span at = span_at(r, from, r->done);
  if (!count_is(r, at, code, in.n, info->n_in, "operands") || !count_is(r, at, code, names.n, info->n_out, "results") ||
      !count_is(r, at, code, types.n, names.n, "result types"))
    return false;
  tir_op *op = tir_op_new(r->fn, code, at, in.n, in.at, types.n, types.at, info->n_regions);
  tir_op_insert(op, region, NULL);
  for (int i = 0; i < names.n; i++) {
    op->out[i]->name = names.at[i].hint;
    op->out[i]->at = names.at[i].at;
    value_define(r, names.at[i].full, op->out[i]);
  }
  if (!set_attrs(r, op, &attrs)) return false;
  for (int i = 0; i < op->n_regions; i++) {
    if (i && !accept_word(r, "else")) return expected(r, "'else' and the second region");
    if (!read_args(r, op->regions[i]) || !read_region(r, op->regions[i])) return false;
  }
  return true;
}

static bool read_region(reader *r, tir_region *region) {
  if (!expect(r, '{')) return false;
  if (++r->depth > MAX_NESTING) {
    diag_add(r->sink, here(r), &D_tir_too_deep, MAX_NESTING);
    return false;
  }
  while (!next_is(r, '}')) {
    if (r->p == r->end) return expected(r, "'}'");
    if (!read_op(r, region)) return false;
  }
  r->p++;
  r->depth--;
  return true;
}

/* ---- functions ---- */

static bool read_params(reader *r) {
  if (!expect(r, '(')) return false;
  if (accept(r, ')')) return true;
  do {
    value_name name;
    const tir_type *type;
    int64_t divisible = 1, promised = 1;
    bool positive = false;
    if (!read_new_name(r, &name) || !expect(r, ':') || !read_type(r, &type)) return false;
    if (accept(r, '{')) {
      do {
        int64_t *number = accept_word(r, "divisible") ? &divisible : accept_word(r, "promised") ? &promised : NULL;
        if (number && (!expect(r, '=') || !read_int(r, 1, INT32_MAX, number))) return false;
        if (!number && !accept_word(r, "positive")) return expected(r, "'divisible', 'positive' or 'promised'");
        positive = positive || !number;
      } while (accept(r, ','));
      if (!expect(r, '}')) return false;
    }
    value_define(r, name.full, tir_fn_add_param(r->fn, name.full, type, (int)divisible, name.at));
    r->fn->params[r->fn->n_params - 1].positive = positive;
    r->fn->params[r->fn->n_params - 1].promised = (int)promised;
  } while (accept(r, ','));
  return expect(r, ')');
}

static bool read_in_parens(reader *r, int64_t max, int64_t *out) {
  return expect(r, '(') && read_int(r, 0, max, out) && expect(r, ')');
}

static bool read_stage(reader *r) {
  word w;
  if (!expect(r, '(') || !read_word(r, &w, "a stage")) return false;
  for (int i = 0; i < TIR_N_STAGES; i++) {
    if (!word_is(w, tir_stage_names[i])) continue;
    r->fn->stage = (tir_stage)i;
    return expect(r, ')');
  }
  diag_add(r->sink, span_at(r, w.at, w.at + w.len), &D_tir_unknown_stage, quoted(r, w));
  return false;
}

static bool read_options(reader *r) {
  int64_t v;
  while (!next_is(r, '{')) {
    if (accept_word(r, "num_warps")) {
      if (!read_in_parens(r, INT32_MAX, &v)) return false;
      r->fn->num_warps = (int)v;
    } else if (accept_word(r, "num_stages")) {
      if (!read_in_parens(r, INT32_MAX, &v)) return false;
      r->fn->num_stages = (int)v;
    } else if (accept_word(r, "producer_warps")) {
      if (!read_in_parens(r, INT32_MAX, &v)) return false;
      r->fn->producer_warps = (int)v;
    } else if (accept_word(r, "gang")) {
      if (!read_in_parens(r, INT32_MAX, &v)) return false;
      r->fn->gang = (int)v;
    } else if (accept_word(r, "shared")) {
      if (!read_in_parens(r, INT64_MAX, &r->fn->shared_bytes)) return false;
    } else if (accept_word(r, "gang_shared")) {
      if (!read_in_parens(r, INT64_MAX, &r->fn->gang_bytes)) return false;
    } else if (accept_word(r, "stage")) {
      if (!read_stage(r)) return false;
    } else {
      return expected(
          r,
          "num_warps(..), num_stages(..), stage(..), producer_warps(..), gang(..), shared(..), gang_shared(..) or '{'");
    }
  }
  return true;
}

static bool read_function(reader *r) {
  word w;
  const char *name;
  if (!accept_word(r, "kernel")) return expected(r, "'kernel'");
  if (!expect(r, '@')) return false;
  const char *from = r->p;
  if (next_is(r, '"')) {
    if (!read_string(r, &name)) return false;
  } else {
    if (!read_word(r, &w, "the kernel's name")) return false;
    name = strtab_intern(r->cx->names, w.at, w.len);
  }
  r->fn = tir_fn_new(r->cx, r->a, name, span_at(r, from, r->p));
  if (!read_params(r) || !read_options(r) || !read_region(r, r->fn->body)) return false;
  skip_space(r);
  return r->p == r->end || expected(r, "the end of the text");
}

tir_fn *tir_read(tir_cx *cx, arena *a, diag_sink *sink, const src_file *source) {
  reader r = {.cx = cx, .a = a, .sink = sink, .source = source, .p = source->text, .end = source->text + source->len};
  return read_function(&r) ? r.fn : NULL;
}
