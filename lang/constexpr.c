/* Arithmetic of compile-time values, by Python's rules: // and % floor, / gives a float, ints do not wrap, ** works.
 *
 * Ints have 128 bits; a result beyond that is an error rather than a wrong number. */
#include "lang/sema.h"

#include <math.h>
#include <string.h>

static lang_int as_int(const lang_value *v) { return v->kind == LANG_BOOL ? (lang_int)v->u.b : v->u.i; }
static double as_double(const lang_value *v) { return v->kind == LANG_FLOAT ? v->u.f : (double)as_int(v); }

bool const_truth(const lang_value *v, bool *out) {
  switch (v->kind) {
    case LANG_NONE: *out = false; return true;
    case LANG_BOOL: *out = v->u.b; return true;
    case LANG_INT: *out = v->u.i != 0; return true;
    case LANG_FLOAT: *out = v->u.f != 0; return true;
    case LANG_STR: *out = v->u.str.len != 0; return true;
    case LANG_TUPLE: *out = v->u.items.n != 0; return true;
    case LANG_TYPE:
    case LANG_FUNCTION:
    case LANG_BUILTIN:
    case LANG_MODULE: *out = true; return true;
    default: return false;
  }
}

static lang_value *int_too_big(sema *s, span at, ast_op op) {
  return sema_fail(s, at, &D_int_too_big, ast_op_text(op));
}

static lang_value *int_negate(sema *s, span at, lang_int x) {
  lang_int r = 0;
  return __builtin_sub_overflow(r, x, &r) ? int_too_big(s, at, AOP_NEG) : sema_int(s, r);
}

/* ---- unary ---------------------------------------------------------------------------------------------------- */

lang_value *const_unary(sema *s, span at, ast_op op, lang_value *x) {
  bool truth;
  if (op == AOP_NOT && const_truth(x, &truth)) return sema_bool(s, !truth);
  if (sema_is_number(x)) switch (op) {
      case AOP_POS: return x->kind == LANG_FLOAT ? x : sema_int(s, as_int(x));
      case AOP_NEG: return x->kind == LANG_FLOAT ? sema_float(s, -x->u.f) : int_negate(s, at, as_int(x));
      case AOP_INVERT:
        if (x->kind != LANG_FLOAT) return sema_int(s, ~as_int(x));
        break;
      default: break;
    }
  return sema_fail(s, at, &D_bad_unary, ast_op_text(op), value_describe(s->a, x));
}

/* ---- binary --------------------------------------------------------------------------------------------------- */

static lang_int floor_div(lang_int x, lang_int y) {
  lang_int q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}

static lang_value *int_power(sema *s, span at, lang_int x, lang_int y) {
  if (y < 0) return x == 0 ? sema_fail(s, at, &D_division_by_zero) : sema_float(s, pow((double)x, (double)y));
  lang_int r = 1;
  while (y > 0) {
    if (y & 1)
      if (__builtin_mul_overflow(r, x, &r)) return int_too_big(s, at, AOP_POW);
    y >>= 1;
    if (x == 0 || x == 1) y = y > 1 ? 1 : y;
    if (y > 0 && __builtin_mul_overflow(x, x, &x)) return int_too_big(s, at, AOP_POW);
  }
  return sema_int(s, r);
}

static lang_value *int_shift(sema *s, span at, ast_op op, lang_int x, lang_int y) {
  if (y < 0) return sema_fail(s, at, &D_negative_shift);
  if (op == AOP_SHR) return sema_int(s, y > 126 ? (x < 0 ? -1 : 0) : x >> (int)y);
  if (x == 0) return sema_int(s, 0);
  lang_int r = x;
  if (y > 126 || __builtin_mul_overflow(x, (lang_int)1 << (int)y, &r)) return int_too_big(s, at, op);
  return sema_int(s, r);
}

static lang_value *int_binary(sema *s, span at, ast_op op, const lang_value *vx, const lang_value *vy) {
  lang_int x = as_int(vx), y = as_int(vy), r = 0;
  bool both_bool = vx->kind == LANG_BOOL && vy->kind == LANG_BOOL;
  switch (op) {
    case AOP_ADD: return __builtin_add_overflow(x, y, &r) ? int_too_big(s, at, op) : sema_int(s, r);
    case AOP_SUB: return __builtin_sub_overflow(x, y, &r) ? int_too_big(s, at, op) : sema_int(s, r);
    case AOP_MUL: return __builtin_mul_overflow(x, y, &r) ? int_too_big(s, at, op) : sema_int(s, r);
    case AOP_DIV:
      if (y == 0) return sema_fail(s, at, &D_division_by_zero);
      return sema_float(s, (double)x / (double)y);
    case AOP_FLOORDIV:
    case AOP_MOD:
      if (y == 0) return sema_fail(s, at, &D_division_by_zero);
      if (y == -1) return op == AOP_MOD ? sema_int(s, 0) : int_negate(s, at, x);
      r = floor_div(x, y);
      return sema_int(s, op == AOP_MOD ? x - r * y : r);
    case AOP_POW: return int_power(s, at, x, y);
    case AOP_SHL:
    case AOP_SHR: return int_shift(s, at, op, x, y);
    case AOP_BITAND: return both_bool ? sema_bool(s, x & y) : sema_int(s, x & y);
    case AOP_BITOR: return both_bool ? sema_bool(s, x | y) : sema_int(s, x | y);
    case AOP_BITXOR: return both_bool ? sema_bool(s, x ^ y) : sema_int(s, x ^ y);
    default: return NULL;
  }
}

static lang_value *float_binary(sema *s, span at, ast_op op, double x, double y) {
  switch (op) {
    case AOP_ADD: return sema_float(s, x + y);
    case AOP_SUB: return sema_float(s, x - y);
    case AOP_MUL: return sema_float(s, x * y);
    case AOP_DIV: return y == 0 ? sema_fail(s, at, &D_division_by_zero) : sema_float(s, x / y);
    case AOP_FLOORDIV: return y == 0 ? sema_fail(s, at, &D_division_by_zero) : sema_float(s, floor(x / y));
    case AOP_MOD: {
      if (y == 0) return sema_fail(s, at, &D_division_by_zero);
      double r = fmod(x, y);
      return sema_float(s, r != 0 && (r < 0) != (y < 0) ? r + y : r);
    }
    case AOP_POW: return sema_float(s, pow(x, y));
    default: return NULL;
  }
}

static lang_value *concat(sema *s, span at, const lang_value *x, const lang_value *y) {
  if (x->kind == LANG_STR) {
    size_t n = x->u.str.len, m = y->u.str.len;
    if (n + m > SEMA_MAX_STRING) return sema_fail(s, at, &D_sequence_too_long, SEMA_MAX_STRING);
    char *p = arena_alloc(s->a, n + m + 1);
    memcpy(p, x->u.str.s, n);
    memcpy(p + n, y->u.str.s, m);
    return sema_str(s, p, n + m);
  }
  int n = x->u.items.n + y->u.items.n;
  lang_value **items = ARENA_ARRAY(s->a, lang_value *, n ? n : 1);
  for (int i = 0; i < n; i++) items[i] = i < x->u.items.n ? x->u.items.at[i] : y->u.items.at[i - x->u.items.n];
  return sema_tuple(s, items, n);
}

static lang_value *repeat(sema *s, span at, const lang_value *x, lang_int times) {
  bool is_str = x->kind == LANG_STR;
  lang_int unit = is_str ? (lang_int)x->u.str.len : x->u.items.n;
  int most = is_str ? SEMA_MAX_STRING : SEMA_MAX_TUPLE;
  if (times < 0 || unit == 0) times = 0;
  if (times > 0 && times > most / unit) return sema_fail(s, at, &D_sequence_too_long, most);
  size_t n = (size_t)(times * unit);
  char *text = arena_alloc(s->a, is_str ? n + 1 : 1);
  lang_value **items = ARENA_ARRAY(s->a, lang_value *, is_str ? 1 : n + 1);
  for (size_t i = 0; i < n; i++)
    if (is_str)
      text[i] = x->u.str.s[i % (size_t)unit];
    else
      items[i] = x->u.items.at[i % (size_t)unit];
  return is_str ? sema_str(s, text, n) : sema_tuple(s, items, (int)n);
}

lang_value *const_binary(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  lang_value *r = NULL;
  bool sequence_x = x->kind == LANG_STR || x->kind == LANG_TUPLE,
       sequence_y = y->kind == LANG_STR || y->kind == LANG_TUPLE;
  if (sema_is_number(x) && sema_is_number(y)) {
    r = x->kind == LANG_FLOAT || y->kind == LANG_FLOAT ? float_binary(s, at, op, as_double(x), as_double(y))
                                                       : int_binary(s, at, op, x, y);
  } else if (op == AOP_ADD && sequence_x && x->kind == y->kind) {
    r = concat(s, at, x, y);
  } else if (op == AOP_MUL && sequence_x && sema_is_number(y) && y->kind != LANG_FLOAT) {
    r = repeat(s, at, x, as_int(y));
  } else if (op == AOP_MUL && sequence_y && sema_is_number(x) && x->kind != LANG_FLOAT) {
    r = repeat(s, at, y, as_int(x));
  }
  if (r) return r;
  return sema_fail(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static bool ordered(ast_op op, int less, int equal) {
  switch (op) {
    case AOP_LT: return less;
    case AOP_LE: return less || equal;
    case AOP_GT: return !less && !equal;
    default: return !less;
  }
}

static bool contains(const lang_value *x, const lang_value *y, bool *ok) {
  *ok = true;
  if (y->kind == LANG_TUPLE) {
    for (int i = 0; i < y->u.items.n; i++)
      if (lang_value_equal(x, y->u.items.at[i])) return true;
    return false;
  }
  if (y->kind == LANG_STR && x->kind == LANG_STR) {
    for (size_t i = 0; i + x->u.str.len <= y->u.str.len; i++)
      if (memcmp(y->u.str.s + i, x->u.str.s, x->u.str.len) == 0) return true;
    return false;
  }
  *ok = false;
  return false;
}

/* Steps that comparing with v may take. */
static size_t cost(const lang_value *v) {
  return v->kind == LANG_STR ? v->u.str.len / 64 : v->kind == LANG_TUPLE ? (size_t)v->u.items.size / 4 : 0;
}

lang_value *const_compare(sema *s, span at, ast_op op, lang_value *x, lang_value *y) {
  bool ok = true;
  sema_charge(s, cost(x) + cost(y));
  switch (op) {
    case AOP_EQ: return sema_bool(s, lang_value_equal(x, y));
    case AOP_NE: return sema_bool(s, !lang_value_equal(x, y));
    case AOP_IS:
    case AOP_IS_NOT: return sema_bool(s, (x->kind == y->kind && lang_value_equal(x, y)) == (op == AOP_IS));
    case AOP_IN:
    case AOP_NOT_IN: {
      bool in = contains(x, y, &ok);
      if (ok) return sema_bool(s, in == (op == AOP_IN));
      break;
    }
    default:
      if (sema_is_number(x) && sema_is_number(y)) {
        if (x->kind != LANG_FLOAT && y->kind != LANG_FLOAT)
          return sema_bool(s, ordered(op, as_int(x) < as_int(y), as_int(x) == as_int(y)));
        double a = as_double(x), b = as_double(y);
        if (isnan(a) || isnan(b)) return sema_bool(s, false);
        return sema_bool(s, ordered(op, a < b, a == b));
      }
      if (x->kind == LANG_STR && y->kind == LANG_STR) {
        size_t n = x->u.str.len < y->u.str.len ? x->u.str.len : y->u.str.len;
        int c = memcmp(x->u.str.s, y->u.str.s, n);
        if (c == 0) c = x->u.str.len < y->u.str.len ? -1 : x->u.str.len > y->u.str.len;
        return sema_bool(s, ordered(op, c < 0, c == 0));
      }
      if (x->kind == LANG_TUPLE && y->kind == LANG_TUPLE && !value_has_tensor(x) && !value_has_tensor(y)) {
        for (int i = 0; i < x->u.items.n && i < y->u.items.n; i++)
          if (!lang_value_equal(x->u.items.at[i], y->u.items.at[i]))
            return const_compare(s, at, op, x->u.items.at[i], y->u.items.at[i]);
        return sema_bool(s, ordered(op, x->u.items.n < y->u.items.n, x->u.items.n == y->u.items.n));
      }
  }
  return sema_fail(s, at, &D_bad_operands, ast_op_text(op), value_describe(s->a, x), value_describe(s->a, y));
}

/* ---- indexing ------------------------------------------------------------------------------------------------- */

/* Bounds of a slice over n items, as Python clips them. */
static bool slice_bound(sema *s, span at, const lang_value *v, int64_t otherwise, int64_t low, int64_t high, int64_t n,
                        int64_t *out) {
  *out = otherwise;
  if (v->kind == LANG_NONE) return true;
  int64_t i;
  if (!lang_value_as_int(v, &i)) {
    sema_fail(s, at, &D_bad_index, value_describe(s->a, v));
    return false;
  }
  if (i < 0) i += n;
  *out = i < low ? low : i > high ? high : i;
  return true;
}

static lang_value *slice_of(sema *s, span at, const lang_value *v, const lang_value *index) {
  int64_t n = v->kind == LANG_STR ? (int64_t)v->u.str.len : v->u.items.n, step = 1, from, to;
  const lang_value *st = index->u.items.at[2];
  if (st->kind != LANG_NONE && (!lang_value_as_int(st, &step) || step == 0))
    return sema_fail(s, at, &D_bad_index, value_describe(s->a, st));
  if (step < -SEMA_MAX_STRING) step = -SEMA_MAX_STRING;
  if (step > SEMA_MAX_STRING) step = SEMA_MAX_STRING;
  bool up = step > 0;
  if (!slice_bound(s, at, index->u.items.at[0], up ? 0 : n - 1, up ? 0 : -1, up ? n : n - 1, n, &from) ||
      !slice_bound(s, at, index->u.items.at[1], up ? n : -1, up ? 0 : -1, up ? n : n - 1, n, &to))
    return s->unit->poison;
  int64_t count =
      up ? (to > from ? (to - from + step - 1) / step : 0) : (from > to ? (from - to - step - 1) / -step : 0);
  if (v->kind == LANG_STR) {
    char *p = arena_alloc(s->a, (size_t)count + 1);
    for (int64_t i = 0; i < count; i++) p[i] = v->u.str.s[from + i * step];
    return sema_str(s, p, (size_t)count);
  }
  lang_value **items = ARENA_ARRAY(s->a, lang_value *, count ? count : 1);
  for (int64_t i = 0; i < count; i++) items[i] = v->u.items.at[from + i * step];
  return sema_tuple(s, items, (int)count);
}

lang_value *const_index(sema *s, span at, lang_value *v, lang_value *index) {
  if (v->kind != LANG_STR && v->kind != LANG_TUPLE) return sema_fail(s, at, &D_not_indexable, value_describe(s->a, v));
  if (index->kind == LANG_SLICE) return slice_of(s, at, v, index);
  int64_t n = v->kind == LANG_STR ? (int64_t)v->u.str.len : v->u.items.n, i;
  if (!sema_known_int(s, index, &i)) return sema_fail(s, at, &D_bad_index, value_describe(s->a, index));
  if (i < -n || i >= n) return sema_fail(s, at, &D_index_range, (long long)i, (long long)n);
  if (i < 0) i += n;
  return v->kind == LANG_STR ? sema_str(s, v->u.str.s + i, 1) : v->u.items.at[i];
}

/* ---- format specs: [[fill]align][sign][#][0][width][,][.precision][type] ---------------------------------------- */

typedef struct format_spec {
  char fill, align, sign, type;
  bool alternate, comma;
  int width, precision; /* precision -1: not given */
} format_spec;

static bool parse_number(const char *p, size_t len, size_t *i, int *out) {
  *out = 0;
  for (; *i < len && p[*i] >= '0' && p[*i] <= '9'; ++*i) {
    if (*out > 1000) return false;
    *out = *out * 10 + (p[*i] - '0');
  }
  return *out <= 1000;
}

static bool parse_spec(const char *p, size_t len, format_spec *f) {
  size_t i = 0;
  *f = (format_spec){.fill = ' ', .precision = -1};
  if (len >= 2 && strchr("<>=^", p[1]) && p[1]) {
    f->fill = p[0];
    f->align = p[1];
    i = 2;
  } else if (len >= 1 && p[0] && strchr("<>=^", p[0])) {
    f->align = p[0];
    i = 1;
  }
  if (i < len && p[i] && strchr("+- ", p[i])) f->sign = p[i++];
  if (i < len && p[i] == '#') f->alternate = true, i++;
  if (i < len && p[i] == '0') {
    if (!f->align) f->fill = '0', f->align = '=';
    i++;
  }
  if (!parse_number(p, len, &i, &f->width)) return false;
  if (i < len && p[i] == ',') f->comma = true, i++;
  if (i < len && p[i] == '.') {
    size_t from = ++i;
    if (!parse_number(p, len, &i, &f->precision) || i == from) return false;
  }
  if (i < len) f->type = p[i++];
  return i == len;
}

static void pad(textbuf *out, const format_spec *f, const char *sign, const char *text, size_t n, char standard) {
  size_t used = n + strlen(sign), fill = (size_t)f->width > used ? (size_t)f->width - used : 0;
  char align = f->align ? f->align : standard;
  size_t before = align == '>' ? fill : align == '^' ? fill / 2 : 0, inside = align == '=' ? fill : 0;
  for (size_t i = 0; i < before; i++) text_char(out, f->fill);
  text_str(out, sign);
  for (size_t i = 0; i < inside; i++) text_char(out, f->fill);
  text_add(out, text, n);
  for (size_t i = before + inside; i < fill; i++) text_char(out, f->fill);
}

static bool format_int(textbuf *out, const format_spec *f, lang_int v) {
  int base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
  if (f->precision >= 0) return false;
  const char *digits = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  char buf[200];
  char *p = buf + sizeof buf;
  lang_uint m = v < 0 ? -(lang_uint)v : (lang_uint)v;
  int n = 0;
  do {
    if (f->comma && n && n % 3 == 0) *--p = ',';
    *--p = digits[(int)(m % (unsigned)base)];
    m /= (unsigned)base;
    n++;
  } while (m);
  const char *prefix = !f->alternate || base == 10 ? ""
                       : base == 16                ? (f->type == 'X' ? "0X" : "0x")
                       : base == 8                 ? "0o"
                                                   : "0b";
  char sign[4];
  snprintf(sign, sizeof sign, "%s%s", v < 0 ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "", prefix);
  pad(out, f, sign, p, (size_t)(buf + sizeof buf - p), '>');
  return true;
}

static bool format_float(textbuf *out, const format_spec *f, double v) {
  if (f->comma || f->alternate) return false;
  char conversion[8], buf[1500];
  double m = fabs(v);
  bool percent = f->type == '%';
  if (f->type == 0 && f->precision < 0) {
    lang_value x = {.kind = LANG_FLOAT, .u.f = m};
    textbuf t;
    text_init(&t, out->a);
    value_print(&t, &x, false);
    snprintf(buf, sizeof buf, "%s", t.at);
  } else {
    snprintf(conversion, sizeof conversion, "%%.*%c", percent ? 'f' : f->type ? f->type : 'g');
    snprintf(buf, sizeof buf, conversion, f->precision < 0 ? 6 : f->precision, percent ? m * 100 : m);
    if (percent) strcat(buf, "%");
  }
  bool negative = signbit(v) && !isnan(v);
  pad(out, f, negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "", buf, strlen(buf), '>');
  return true;
}

bool const_format(sema *s, span at, textbuf *out, const lang_value *v, const char *spec, size_t len) {
  if (len == 0) {
    value_print(out, v, false);
    return true;
  }
  format_spec f;
  bool ok = parse_spec(spec, len, &f);
  if (ok && sema_is_number(v) && (f.type ? strchr("eEfFgG%", f.type) != NULL : v->kind == LANG_FLOAT)) {
    ok = format_float(out, &f, as_double(v));
  } else if (ok && sema_is_number(v) && v->kind != LANG_FLOAT && (!f.type || strchr("dxXob", f.type))) {
    ok = format_int(out, &f, as_int(v));
  } else if (ok && (f.type == 0 || f.type == 's') && f.align != '=' && !sema_is_number(v)) {
    textbuf t;
    text_init(&t, out->a);
    value_print(&t, v, false);
    size_t n = f.precision >= 0 && (size_t)f.precision < t.n ? (size_t)f.precision : t.n;
    pad(out, &f, "", t.n ? t.at : "", n, '<');
  } else {
    ok = false;
  }
  if (!ok) sema_fail(s, at, &D_bad_format, spec, value_kind_name(v));
  return ok;
}
