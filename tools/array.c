/* array: see array.h. Conversions of element types are those of the compiler (tir_scalar_float), so that what `tkc run`
 * feeds a kernel is what the kernel itself would have made. */
#include "tools/array.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/ir/tir.h"
#include "tools/cli.h"

static const double TWO_PI = 6.283185307179586476925;

static tir_dtype ir_type(tk_dtype d) {
  tir_dtype t = DT_f32;
  const char *name = tk_dtype_name(d);
  tir_dtype_named(name, strlen(name), &t);
  return t;
}

double array_get(const array *a, size_t i) {
  tir_dtype t = ir_type(a->dtype);
  tir_scalar s = {0};
  memcpy(&s.bits, a->data + i * tir_dtypes[t].bytes, tir_dtypes[t].bytes);
  return tir_scalar_as_float(t, s);
}

void array_set(array *a, size_t i, double v) {
  tir_dtype t = ir_type(a->dtype);
  tir_scalar s;
  if (t == DT_i1)
    s = tir_scalar_int(t, v != 0);
  else if (dt_is_float(t))
    s = tir_scalar_float(t, v);
  else
    s = tir_scalar_int(t, v >= 9.2e18 ? INT64_MAX : v <= -9.2e18 ? INT64_MIN : v != v ? 0 : (int64_t)v);
  memcpy(a->data + i * tir_dtypes[t].bytes, &s.bits, tir_dtypes[t].bytes);
}

static bool allocate(array *a, char *message, size_t size) {
  a->numel = 1;
  for (int i = 0; i < a->rank; i++) {
    if (a->shape[i] < 0 || (a->shape[i] > 0 && a->numel > ((size_t)1 << 40) / (size_t)a->shape[i])) {
      snprintf(message, size, "an array of these extents is too large");
      return false;
    }
    a->numel *= (size_t)a->shape[i];
  }
  a->bytes = a->numel * tk_dtype_bytes(a->dtype);
  a->data = calloc(1, a->bytes ? a->bytes : 1);
  if (!a->data) snprintf(message, size, "no memory for %zu bytes", a->bytes);
  return a->data != NULL;
}

void array_free(array *a) {
  free(a->data);
  a->data = NULL;
}

array array_copy(const array *a) {
  array c = *a;
  c.data = cli_alloc(a->bytes);
  memcpy(c.data, a->data, a->bytes);
  return c;
}

/* ---- specs ---- */

static uint64_t next_random(uint64_t *state) { /* splitmix64: Steele, Lea, Flood 2014 */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static double uniform(uint64_t *state) { return (double)(next_random(state) >> 11) * 0x1p-53; }

static double normal(uint64_t *state) {
  double u = 1.0 - uniform(state), v = uniform(state);
  return sqrt(-2.0 * log(u)) * cos(TWO_PI * v);
}

typedef enum kind { ZEROS, ONES, ARANGE, RAND, RANDN, RANDINT, FULL } kind;
static const struct {
  const char *name;
  int n_numbers;
} kinds[] = {[ZEROS] = {"zeros", 0}, [ONES] = {"ones", 0},       [ARANGE] = {"arange", 0}, [RAND] = {"rand", 0},
             [RANDN] = {"randn", 0}, [RANDINT] = {"randint", 2}, [FULL] = {"full", 1}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static int kind_of(const char *text, size_t *len) {
  size_t n = strcspn(text, "(:");
  for (int i = 0; i < N_KINDS; i++)
    if (strlen(kinds[i].name) == n && !memcmp(text, kinds[i].name, n) && text[n]) {
      *len = n;
      return i;
    }
  return -1;
}

bool array_is_spec(const char *text) {
  size_t n;
  return text[0] == '@' || kind_of(text, &n) >= 0;
}

static bool numbers(const char **p, double *out, int n, char *message, size_t size) {
  const char *at = *p;
  if (*at++ != '(') {
    snprintf(message, size, "expected '(' and %d number%s", n, n > 1 ? "s" : "");
    return false;
  }
  for (int i = 0; i < n; i++) {
    char *end;
    out[i] = strtod(at, &end);
    char want = i + 1 < n ? ',' : ')';
    end += strspn(end, " ");
    if (end == at || *end != want) {
      snprintf(message, size, "expected %d number%s in parentheses", n, n > 1 ? "s" : "");
      return false;
    }
    at = end + 1;
  }
  *p = at;
  return true;
}

/* ":dtype" and "[a, b]". */
static bool dtype_of(const char **p, tk_dtype *out, char *message, size_t size) {
  size_t n = strcspn(*p, "[");
  if (tk_dtype_parse(*p, n, out) && *out != TK_NO_DTYPE) {
    *p += n;
    return true;
  }
  snprintf(message, size, "'%.*s' is no element type (i1 i8 .. i64 u8 .. u64 f8e4m3 f8e5m2 f16 bf16 f32 f64)",
           n < 40 ? (int)n : 40, *p);
  return false;
}

bool array_extents(const char *p, const array_names *names, int most, int64_t *shape, int *rank, char *message,
                   size_t size) {
  if (*p != '[' || p[strlen(p) - 1] != ']') {
    snprintf(message, size, "expected [extents] after the element type");
    return false;
  }
  *rank = 0;
  p++;
  while (strcmp(p, "]")) {
    int depth = 0;
    size_t n = 0;
    while (p[n + 1] && !(depth == 0 && p[n] == ',')) {
      depth += p[n] == '(' || p[n] == '[';
      depth -= p[n] == ')' || (p[n] == ']' && depth > 0);
      n++;
    }
    char text[256];
    if (n >= sizeof text || *rank == most) {
      snprintf(message, size, "too many extents (at most %d)", most);
      return false;
    }
    memcpy(text, p, n);
    text[n] = 0;
    if (!tk_evaluate(text, names ? names->lookup : NULL, names ? names->user : NULL, &shape[*rank], message, size))
      return false;
    if (shape[(*rank)++] < 0) {
      snprintf(message, size, "the extent %s is negative", text);
      return false;
    }
    p += n;
    if (*p == ',') p++;
  }
  return true;
}

static void fill(array *a, kind k, const double *arg, uint64_t seed) {
  uint64_t state = seed ^ UINT64_C(0x5851f42d4c957f2d);
  for (size_t i = 0; i < a->numel; i++) {
    double v = 0;
    switch (k) {
      case ZEROS: return;
      case ONES: v = 1; break;
      case ARANGE: v = (double)i; break;
      case RAND: v = uniform(&state); break;
      case RANDN: v = normal(&state); break;
      case RANDINT: v = floor(arg[0] + uniform(&state) * (arg[1] - arg[0])); break;
      case FULL: v = arg[0]; break;
    }
    array_set(a, i, v);
  }
}

static bool from_file(const char *text, array *out, char *message, size_t size) {
  const char *colon = strrchr(text, ':');
  tk_dtype want = TK_NO_DTYPE;
  size_t n = strlen(text);
  if (colon && tk_dtype_parse(colon + 1, strlen(colon + 1), &want)) n = (size_t)(colon - text);
  char *path = cli_alloc(n + 1);
  memcpy(path, text, n);
  size_t len;
  char *bytes = cli_read(path, &len);
  char why[256] = "";
  bool ok = bytes && array_from_npy((unsigned char *)bytes, len, out, why, sizeof why);
  if (!bytes)
    snprintf(message, size, "cannot read %s: %s", path, strerror(errno));
  else if (!ok)
    snprintf(message, size, "%s: %s", path, why);
  free(bytes);
  free(path);
  if (!ok || want == TK_NO_DTYPE || want == out->dtype) return ok;
  array cast = *out;
  cast.dtype = want;
  ok = allocate(&cast, message, size);
  for (size_t i = 0; ok && i < cast.numel; i++) array_set(&cast, i, array_get(out, i));
  array_free(out);
  if (ok) *out = cast;
  return ok;
}

bool array_make(const char *spec, uint64_t seed, const array_names *names, array *out, char *message, size_t size) {
  *out = (array){0};
  if (spec[0] == '@') return from_file(spec + 1, out, message, size);
  size_t n;
  int k = kind_of(spec, &n);
  if (k < 0) {
    snprintf(message, size, "expected zeros, ones, arange, rand, randn, randint(lo,hi) or full(v), then :dtype[shape]");
    return false;
  }
  const char *p = spec + n;
  double arg[2] = {0, 0};
  if (kinds[k].n_numbers && !numbers(&p, arg, kinds[k].n_numbers, message, size)) return false;
  if (k == RANDINT && !(arg[0] < arg[1])) {
    snprintf(message, size, "randint(lo,hi) draws from lo up to, but not including, hi: lo must be less");
    return false;
  }
  if (*p != ':') {
    snprintf(message, size, "expected ':' and an element type after %s", kinds[k].name);
    return false;
  }
  p++;
  if (!dtype_of(&p, &out->dtype, message, size) ||
      !array_extents(p, names, TK_MAX_RANK, out->shape, &out->rank, message, size))
    return false;
  if (!allocate(out, message, size)) return false;
  fill(out, (kind)k, arg, seed);
  return true;
}

/* ---- .npy (NumPy Enhancement Proposal 1) ---- */

static const struct {
  const char *descr; /* kind and bytes */
  tk_dtype dtype;
} npy_types[] = {{"b1", TK_i1},  {"i1", TK_i8},  {"i2", TK_i16}, {"i4", TK_i32}, {"i8", TK_i64}, {"u1", TK_u8},
                 {"u2", TK_u16}, {"u4", TK_u32}, {"u8", TK_u64}, {"f2", TK_f16}, {"f4", TK_f32}, {"f8", TK_f64}};
enum { N_NPY = sizeof npy_types / sizeof npy_types[0] };

unsigned char *array_npy(const array *a, size_t *len) {
  array as = *a;
  const char *descr = NULL;
  for (int i = 0; i < N_NPY; i++)
    if (npy_types[i].dtype == a->dtype) descr = npy_types[i].descr;
  if (!descr) {
    descr = "f4";
    as.dtype = TK_f32;
    as.bytes = as.numel * 4;
    as.data = cli_alloc(as.bytes);
    for (size_t i = 0; i < as.numel; i++) array_set(&as, i, array_get(a, i));
  }
  char header[512];
  int n = snprintf(header, sizeof header, "{'descr': '%s%s', 'fortran_order': False, 'shape': (",
                   descr[1] == '1' ? "|" : "<", descr);
  for (int i = 0; i < a->rank; i++)
    n += snprintf(header + n, sizeof header - (size_t)n, i + 1 < a->rank || a->rank == 1 ? "%" PRId64 ", " : "%" PRId64,
                  a->shape[i]);
  n += snprintf(header + n, sizeof header - (size_t)n, "), }");
  while ((10 + n + 1) % 64) header[n++] = ' ';
  header[n++] = '\n';
  *len = 10 + (size_t)n + as.bytes;
  unsigned char *out = cli_alloc(*len);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (unsigned char)(n & 255);
  out[9] = (unsigned char)(n >> 8);
  memcpy(out + 10, header, (size_t)n);
  memcpy(out + 10 + n, as.data, as.bytes);
  if (as.data != a->data) free(as.data);
  return out;
}

typedef struct cursor {
  const char *text;
  size_t at, len;
} cursor;

static void blanks(cursor *c) {
  while (c->at < c->len && strchr(" \t\n", c->text[c->at])) c->at++;
}

static bool take(cursor *c, const char *s) {
  blanks(c);
  size_t n = strlen(s);
  if (c->len - c->at < n || memcmp(c->text + c->at, s, n)) return false;
  c->at += n;
  return true;
}

static bool quoted(cursor *c, char *out, size_t size) {
  blanks(c);
  if (c->at >= c->len || (c->text[c->at] != '\'' && c->text[c->at] != '"')) return false;
  char q = c->text[c->at++];
  size_t n = 0;
  while (c->at < c->len && c->text[c->at] != q && n + 1 < size) out[n++] = c->text[c->at++];
  out[n] = 0;
  return take(c, q == '"' ? "\"" : "'");
}

static bool header_shape(cursor *c, array *out) {
  if (!take(c, "(")) return false;
  while (!take(c, ")")) {
    blanks(c);
    uint64_t v = 0;
    size_t start = c->at;
    while (c->at < c->len && c->text[c->at] >= '0' && c->text[c->at] <= '9' && v < UINT64_C(1) << 50)
      v = 10 * v + (uint64_t)(c->text[c->at++] - '0');
    if (c->at == start || out->rank == TK_MAX_RANK) return false;
    out->shape[out->rank++] = (int64_t)v;
    take(c, "L");
    if (take(c, ",")) continue;
    return take(c, ")");
  }
  return true;
}

static bool header_fields(cursor *c, array *out, char *order, bool *fortran) {
  bool descr = false, shape = false;
  if (!take(c, "{")) return false;
  while (!take(c, "}")) {
    char key[32], value[32];
    if (!quoted(c, key, sizeof key) || !take(c, ":")) return false;
    if (!strcmp(key, "descr")) {
      if (!quoted(c, value, sizeof value) || !value[0]) return false;
      *order = value[0];
      for (int i = 0; i < N_NPY; i++)
        if (!strcmp(value + 1, npy_types[i].descr)) out->dtype = npy_types[i].dtype, descr = true;
      if (!descr) return false;
    } else if (!strcmp(key, "fortran_order")) {
      *fortran = take(c, "True");
      if (!*fortran && !take(c, "False")) return false;
    } else if (!strcmp(key, "shape")) {
      if (!header_shape(c, out)) return false;
      shape = true;
    } else {
      return false;
    }
    take(c, ",");
  }
  return descr && shape && strchr("<>|=", *order);
}

static void swap_bytes(unsigned char *p, size_t numel, size_t bytes) {
  for (size_t i = 0; i < numel; i++, p += bytes)
    for (size_t j = 0; j < bytes / 2; j++) {
      unsigned char t = p[j];
      p[j] = p[bytes - 1 - j];
      p[bytes - 1 - j] = t;
    }
}

/* First axis fastest -> last axis fastest. */
static void from_fortran(array *a) {
  size_t bytes = tk_dtype_bytes(a->dtype);
  unsigned char *out = cli_alloc(a->bytes);
  for (size_t i = 0; i < a->numel; i++) {
    size_t rest = i, from = 0, stride = 1, coord[TK_MAX_RANK];
    for (int k = a->rank - 1; k >= 0; k--) coord[k] = rest % (size_t)a->shape[k], rest /= (size_t)a->shape[k];
    for (int k = 0; k < a->rank; k++) from += coord[k] * stride, stride *= (size_t)a->shape[k];
    memcpy(out + i * bytes, a->data + from * bytes, bytes);
  }
  free(a->data);
  a->data = out;
}

bool array_from_npy(const unsigned char *bytes, size_t len, array *out, char *message, size_t size) {
  *out = (array){0};
  if (len < 10 || memcmp(bytes, "\x93NUMPY", 6)) {
    snprintf(message, size, "byte 0: this is no .npy file");
    return false;
  }
  size_t head = bytes[6] >= 2 ? 12 : 10, n = (size_t)bytes[8] | (size_t)bytes[9] << 8;
  if (bytes[6] < 1 || bytes[6] > 3) {
    snprintf(message, size, "byte 6: format %d is unknown", bytes[6]);
    return false;
  }
  if (head == 12) n = len < 12 ? len : n | (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
  if (len < head || n > len - head || n > 65536) {
    snprintf(message, size, "byte 8: the header is cut off or too long");
    return false;
  }
  cursor c = {(const char *)bytes + head, 0, n};
  char order = '<';
  bool fortran = false;
  if (!header_fields(&c, out, &order, &fortran)) {
    snprintf(message, size, "byte %zu: expected descr (a plain number type), fortran_order and shape", head + c.at);
    return false;
  }
  if (!allocate(out, message, size)) return false;
  if (len - head - n < out->bytes) {
    snprintf(message, size, "byte %zu: %zu bytes of elements are needed, %zu are there", head + n, out->bytes,
             len - head - n);
    array_free(out);
    return false;
  }
  memcpy(out->data, bytes + head + n, out->bytes);
  if (order == '>') swap_bytes(out->data, out->numel, tk_dtype_bytes(out->dtype));
  if (fortran && out->rank > 1) from_fortran(out);
  if (out->dtype == TK_i1)
    for (size_t i = 0; i < out->numel; i++) out->data[i] = out->data[i] != 0;
  return true;
}

/* ---- printing ---- */

static void print_element(const array *a, size_t i) {
  tir_dtype t = ir_type(a->dtype);
  tir_scalar s = {0};
  memcpy(&s.bits, a->data + i * tir_dtypes[t].bytes, tir_dtypes[t].bytes);
  if (dt_is_float(t))
    printf(t == DT_f64 ? "%.12g" : "%.7g", tir_scalar_as_float(t, s));
  else if (t == DT_u64)
    printf("%" PRIu64, s.bits);
  else
    printf("%" PRId64, tir_scalar_as_int(t, s));
}

static void print_axis(const array *a, int axis, size_t from, size_t stride, bool shorten) {
  if (axis == a->rank) {
    print_element(a, from);
    return;
  }
  int64_t n = a->shape[axis];
  stride /= n ? (size_t)n : 1;
  putchar('[');
  for (int64_t i = 0; i < n; i++) {
    if (shorten && n > 7 && i == 3) {
      printf(axis + 1 == a->rank ? "..., " : "...,\n%*s", axis + 1, "");
      i = n - 3;
    }
    print_axis(a, axis + 1, from + (size_t)i * stride, stride, shorten);
    if (i + 1 < n) {
      if (axis + 1 == a->rank)
        printf(", ");
      else
        printf(",\n%*s", axis + 1, "");
    }
  }
  putchar(']');
}

void array_print(const array *a) {
  print_axis(a, 0, 0, a->numel, a->numel > 200);
  putchar('\n');
}

/* ---- comparing ---- */

/* Root mean square of the finite elements. */
static double typical(const array *a) {
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < a->numel; i++) {
    double v = array_get(a, i);
    if (!isfinite(v)) continue;
    sum += v * v;
    n++;
  }
  return n ? sqrt(sum / (double)n) : 0;
}

double array_distance(const array *got, const array *want, size_t *at) {
  double worst = 0, scale = typical(want);
  size_t size = tk_dtype_bytes(want->dtype);
  bool exact = dt_is_int(ir_type(want->dtype));
  *at = 0;
  for (size_t i = 0; i < want->numel; i++) {
    double g = array_get(got, i), w = array_get(want, i), d;
    bool equal = exact ? !memcmp(got->data + i * size, want->data + i * size, size) : g == w || (isnan(g) && isnan(w));
    if (equal) continue;
    d = exact ? fmax(1, fabs(g - w)) : fabs(g - w) / fmax(scale, fabs(w));
    if (isnan(d)) d = INFINITY;
    if (d > worst) worst = d, *at = i;
  }
  return worst;
}

double array_tolerance(tk_dtype dtype) {
  tir_dtype t = ir_type(dtype);
  if (!dt_is_float(t)) return 0;
  return t == DT_f64 ? 1e-12 : t == DT_f32 ? 1e-5 : ldexp(1.0, 1 - tir_dtypes[t].mantissa);
}
