/* Arguments: names with specs, evaluated on demand, because a shape may use a scalar that is given later and the other
 * way round. An argument that is asked for while it is being evaluated depends on itself, which is an error.
 *
 * Random numbers are a hash of (seed, name, index): any element can be made without those before it, and one argument
 * more or less changes no other. */
#include "tools/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool fail(args *s, const char *fmt, ...) BASE_PRINTF(2, 3);
static bool fail(args *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->a, fmt, ap);
  va_end(ap);
  if (!s->problem) s->problem = text; /* the innermost says it best */
  return false;
}

void args_init(args *s, arena *a, uint64_t seed) { *s = (args){.a = a, .seed = seed}; }

arg *args_named(args *s, const char *name) {
  for (int i = 0; i < s->list.n; i++)
    if (!strcmp(s->list.at[i].name, name)) return &s->list.at[i];
  return NULL;
}

static bool add(args *s, const char *text, bool is_define) {
  s->problem = NULL;
  size_t n = strcspn(text, "=");
  if (n == 0 || !text[n]) return fail(s, "'%s' is not of the form NAME=VALUE", text);
  arg x = {.name = arena_printf(s->a, "%.*s", (int)n, text), .spec = arena_printf(s->a, "%s", text + n + 1)};
  x.is_define = is_define;
  if (args_named(s, x.name)) return fail(s, "%s is given twice", x.name);
  VEC_PUSH(s->a, s->list, x);
  return true;
}

bool args_add(args *s, const char *text) { return add(s, text, false); }
bool args_define(args *s, const char *text) { return add(s, text, true); }

void args_free(args *s) {
  for (int i = 0; i < s->list.n; i++) array_free(&s->list.at[i].array);
}

/* ---- scalars ---------------------------------------------------------------------------------------------------- */

static bool make(args *s, arg *x);

bool args_lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value) {
  args *s = user;
  arg *x = args_named(s, name);
  if (!x || !make(s, x)) return false;
  if (!member) {
    *value = x->i;
    return x->kind == ARG_INT;
  }
  if (x->kind != ARG_ARRAY) return false;
  const array *a = &x->array;
  if (!strcmp(member, "numel")) {
    *value = a->numel;
    return true;
  }
  if (index < 0) index += a->rank;
  if (index < 0 || index >= a->rank) return false;
  *value = a->shape[index];
  if (!strcmp(member, "shape")) return true;
  *value = 1;
  for (int i = (int)index + 1; i < a->rank; i++) *value *= a->shape[i];
  return !strcmp(member, "stride");
}

static bool evaluate(args *s, const char *text, int64_t *value) {
  char message[512];
  if (tk_evaluate(text, args_lookup, s, value, message, sizeof message)) return true;
  return fail(s, "%s: %s", text, message);
}

/* A number that no integer expression can be: with a point or an exponent, or inf or nan. */
static bool is_float(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  return end != text && !*end && strpbrk(text, ".eEiInN") && !strpbrk(text, "xX(");
}

static bool make_scalar(args *s, arg *x) {
  bool yes = !strcmp(x->spec, "True");
  if (yes || !strcmp(x->spec, "False")) {
    x->kind = ARG_INT;
    x->i = yes;
    return true;
  }
  if (is_float(x->spec, &x->f)) {
    x->kind = ARG_FLOAT;
    return true;
  }
  x->kind = ARG_INT;
  const char *outer = s->problem;
  if (evaluate(s, x->spec, &x->i)) return true;
  if (!x->is_define) return false;
  s->problem = outer;
  x->kind = ARG_TEXT; /* a dtype, a string, a lambda: the compiler's business */
  return true;
}

/* ---- arrays ----------------------------------------------------------------------------------------------------- */

/* Bijective mixing of 64 bits (splitmix64's finaliser: Steele, Lea, Flood, "Fast splittable pseudorandom number
   generators", 2014). */
static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}
static uint64_t random_bits(uint64_t key, int64_t i) {
  return mix(key + ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}
static double uniform(uint64_t key, int64_t i) { return (double)(random_bits(key, i) >> 11) * 0x1p-53; }

/* Box and Muller, "A note on the generation of random normal deviates", 1958: elements 2k and 2k+1 share a radius. */
static void fill_normal(array *a, uint64_t key) {
  for (int64_t i = 0; i < a->numel; i += 2) {
    double radius = sqrt(-2 * log(1 - uniform(key, i))), angle = 6.283185307179586 * uniform(key, i + 1);
    array_set(a, i, radius * cos(angle));
    if (i + 1 < a->numel) array_set(a, i + 1, radius * sin(angle));
  }
}

/* The operands in the parentheses of a kind: "(lo, hi)". */
static bool operands(args *s, const char *kind, const char **text, int n, const char *out[2]) {
  const char *p = *text;
  if (*p != '(') return fail(s, "%s needs (%s)", kind, n == 2 ? "lo, hi" : "value");
  int depth = 0, k = 0;
  const char *from = p + 1;
  for (;; p++) {
    if (!*p) return fail(s, "%s: a parenthesis is missing", kind);
    depth += *p == '(' || *p == '[';
    depth -= *p == ')' || *p == ']';
    if (depth == 0 || (depth == 1 && *p == ',')) {
      if (k == n) return fail(s, "%s takes %d operand%s", kind, n, n == 1 ? "" : "s");
      from += strspn(from, " ");
      out[k++] = arena_printf(s->a, "%.*s", (int)(p - from), from);
      from = p + 1;
    }
    if (depth == 0) break;
  }
  if (k != n) return fail(s, "%s takes %d operand%s", kind, n, n == 1 ? "" : "s");
  *text = p + 1;
  return true;
}

/* ":f32[n, 64]" */
static bool read_type(args *s, const arg *x, const char *text, array *out) {
  if (*text != ':') return fail(s, "%s: a type is missing, as in zeros:f32[1024]", x->name);
  text++;
  size_t n = strcspn(text, "[");
  tk_dtype dtype;
  if (!tk_dtype_parse(text, n, &dtype)) return fail(s, "%s: '%.*s' is no element type", x->name, (int)n, text);
  text += n;
  size_t len = strlen(text);
  if (len < 2 || text[len - 1] != ']') return fail(s, "%s: a shape is missing, as in zeros:f32[1024]", x->name);
  int64_t shape[TK_MAX_RANK];
  int rank = 0, depth = 0;
  const char *from = text + 1;
  for (const char *p = from; p < text + len; p++) {
    bool end = p == text + len - 1;
    depth += !end && (*p == '(' || *p == '[');
    depth -= !end && (*p == ')' || *p == ']');
    if (!end && !(depth == 0 && *p == ',')) continue;
    if (rank == TK_MAX_RANK) return fail(s, "%s: more than %d axes", x->name, TK_MAX_RANK);
    if (!evaluate(s, arena_printf(s->a, "%.*s", (int)(p - from), from), &shape[rank++])) return false;
    if (shape[rank - 1] < 0)
      return fail(s, "%s: axis %d has %lld elements", x->name, rank - 1, (long long)shape[rank - 1]);
    from = p + 1;
  }
  if (!array_new(out, dtype, rank, shape)) return fail(s, "%s: there is not enough memory for it", x->name);
  return true;
}

static bool read_file(args *s, const arg *x, array *out) {
  const char *path = x->spec + 1, *colon = strrchr(path, ':');
  tk_dtype as = TK_NO_DTYPE;
  if (colon && tk_dtype_parse(colon + 1, strlen(colon + 1), &as))
    path = arena_printf(s->a, "%.*s", (int)(colon - path), path);
  const char *bad = array_read_npy(s->a, path, out);
  if (bad) return fail(s, "%s: %s", x->name, bad);
  if (as == TK_NO_DTYPE) return true;
  if (tk_dtype_bytes(as) != tk_dtype_bytes(out->dtype))
    return fail(s, "%s: %s holds %s, whose elements differ in size from %s", x->name, path, tk_dtype_name(out->dtype),
                tk_dtype_name(as));
  out->dtype = as;
  return tir_dtype_named(tk_dtype_name(as), strlen(tk_dtype_name(as)), &out->element);
}

static bool make_array(args *s, arg *x) {
  x->kind = ARG_ARRAY;
  if (x->spec[0] == '@') return read_file(s, x, &x->array);
  static const struct {
    const char *name;
    int operands;
  } kinds[] = {{"zeros", 0}, {"ones", 0}, {"arange", 0}, {"rand", 0}, {"randn", 0}, {"randint", 2}, {"full", 1}};
  enum { ZEROS, ONES, ARANGE, RAND, RANDN, RANDINT, FULL, N_KINDS };
  size_t n = strcspn(x->spec, ":(");
  int kind = 0;
  while (kind < N_KINDS && !(strlen(kinds[kind].name) == n && !memcmp(kinds[kind].name, x->spec, n))) kind++;
  if (kind == N_KINDS)
    return fail(s, "%s: '%.*s' makes no array (zeros ones arange rand randn randint(lo,hi) full(v) or @file.npy)",
                x->name, (int)n, x->spec);
  const char *text = x->spec + n, *given[2];
  if (kinds[kind].operands && !operands(s, kinds[kind].name, &text, kinds[kind].operands, given)) return false;
  int64_t low = 0, high = 0;
  if (kind == RANDINT) {
    if (!evaluate(s, given[0], &low) || !evaluate(s, given[1], &high)) return false;
    if (low >= high) return fail(s, "%s: randint(%lld, %lld) is empty", x->name, (long long)low, (long long)high);
  }
  double value = kind == ONES;
  if (kind == FULL && !is_float(given[0], &value)) {
    if (!evaluate(s, given[0], &low)) return false;
    value = (double)low;
  }
  array *a = &x->array;
  if (!read_type(s, x, text, a)) return false;
  uint64_t key = mix(hash_bytes(HASH_SEED ^ mix(s->seed), x->name, strlen(x->name)));
  uint64_t range = (uint64_t)high - (uint64_t)low;
  switch (kind) {
    case ZEROS: break; /* as array_new leaves it */
    case RANDN: fill_normal(a, key); break;
    case ARANGE:
      for (int64_t i = 0; i < a->numel; i++) array_set(a, i, (double)i);
      break;
    case RAND:
      for (int64_t i = 0; i < a->numel; i++) array_set(a, i, uniform(key, i));
      break;
    case RANDINT:
      for (int64_t i = 0; i < a->numel; i++)
        array_set(a, i, (double)(int64_t)((uint64_t)low + random_bits(key, i) % range));
      break;
    default:
      for (int64_t i = 0; i < a->numel; i++) array_set(a, i, value);
  }
  return true;
}

/* Whether a spec means an array: a file, or a kind and a type. */
static bool is_array(const char *spec) {
  if (spec[0] == '@') return true;
  size_t n = strspn(spec, "abcdefghijklmnopqrstuvwxyz");
  return n && (spec[n] == ':' || strchr(spec, ':'));
}

static bool make(args *s, arg *x) {
  if (x->state == ARG_DONE) return true;
  if (x->state == ARG_BUSY) return fail(s, "%s depends on itself", x->name);
  x->state = ARG_BUSY;
  bool good = !x->is_define && is_array(x->spec) ? make_array(s, x) : make_scalar(s, x);
  x->state = good ? ARG_DONE : ARG_RAW;
  return good;
}

bool args_make(args *s) {
  s->problem = NULL;
  for (int i = 0; i < s->list.n; i++)
    if (!make(s, &s->list.at[i])) return false;
  return true;
}

bool args_grid(args *s, const char *text, int64_t grid[3]) {
  s->problem = NULL;
  int n = 0, depth = 0;
  const char *from = text;
  grid[0] = grid[1] = grid[2] = 1;
  for (const char *p = text;; p++) {
    depth += *p == '(' || *p == '[';
    depth -= *p == ')' || *p == ']';
    if (*p && !(depth == 0 && *p == ',')) continue;
    if (n == 3) return fail(s, "a grid has at most three axes: %s", text);
    if (!evaluate(s, arena_printf(s->a, "%.*s", (int)(p - from), from), &grid[n++])) return false;
    if (grid[n - 1] < 0) return fail(s, "grid axis %d has %lld programs", n - 1, (long long)grid[n - 1]);
    if (!*p) return true;
    from = p + 1;
  }
}
