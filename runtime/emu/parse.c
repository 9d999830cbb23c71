/* PTX text to a module: cursor and literals, the module's directives, variables with initialisers, functions and
 * kernels.
 *
 * One pass by recursive descent over a private copy of the text. The first mistake ends it with a line number (longjmp
 * to emu_parse), since a text that came out of a compiler has no second mistake worth showing. Nothing is skipped
 * silently: a directive that is not known is an error. Names live in one hash table with scopes, because inline
 * assembly opens blocks with registers and labels of their own; a declaration shadows and leaving the block uncovers.
 * Registers get a row on first use, so that the generous %r<N> of a code generator costs nothing. */
#include "runtime/emu/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void emu__bad(emu_parser *p, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (p->err != NULL) {
    p->err->line = p->line;
    vsnprintf(p->err->text, sizeof p->err->text, fmt, ap);
  }
  va_end(ap);
  longjmp(p->fail, 1);
}

void emu__skip(emu_parser *p) {
  for (;;) {
    char c = *p->s;
    if (c == '\n') {
      p->line++;
      p->s++;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      p->s++;
    } else if (c == '/' && p->s[1] == '/') {
      while (p->s < p->end && *p->s != '\n') p->s++;
    } else if (c == '/' && p->s[1] == '*') {
      uint32_t start = p->line;
      p->s += 2;
      while (p->s < p->end && !(p->s[0] == '*' && p->s[1] == '/')) {
        if (*p->s == '\n') p->line++;
        p->s++;
      }
      if (p->s >= p->end) {
        p->line = start;
        emu__bad(p, "comment without an end");
      }
      p->s += 2;
    } else {
      return;
    }
  }
}

bool emu__accept(emu_parser *p, char c) {
  emu__skip(p);
  if (p->s >= p->end || *p->s != c) return false;
  p->s++;
  return true;
}

void emu__expect(emu_parser *p, char c) {
  if (emu__accept(p, c)) return;
  if (p->s >= p->end) emu__bad(p, "expected '%c' before the end of the text", c);
  unsigned char got = (unsigned char)*p->s;
  if (got < 32 || got > 126)
    emu__bad(p, "expected '%c', found byte 0x%02x", c, got);
  else
    emu__bad(p, "expected '%c', found '%c'", c, got);
}

static bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

size_t emu__word(emu_parser *p, const char **text) {
  emu__skip(p);
  *text = p->s;
  while (is_word_char(*p->s)) p->s++;
  return (size_t)(p->s - *text);
}

bool emu__is(const char *text, size_t n, const char *what) { return strlen(what) == n && memcmp(text, what, n) == 0; }

size_t emu__directive(emu_parser *p, const char **text) {
  emu__skip(p);
  if (*p->s != '.' || !is_word_char(p->s[1])) return 0;
  p->s++;
  return emu__word(p, text);
}

static int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

static uint64_t digits(emu_parser *p, int base) {
  uint64_t v = 0;
  int n = 0;
  for (; digit_value(*p->s) < base; n++) {
    unsigned d = (unsigned)digit_value(*p->s++);
    if (v > (UINT64_MAX - d) / (unsigned)base) emu__bad(p, "number does not fit in 64 bits");
    v = v * (unsigned)base + d;
  }
  if (n == 0) emu__bad(p, "expected a number");
  return v;
}

static uint64_t unsigned_integer(emu_parser *p) {
  int base = 10;
  if (p->s[0] == '0' && (p->s[1] == 'x' || p->s[1] == 'X')) {
    base = 16;
    p->s += 2;
  } else if (p->s[0] == '0' && (p->s[1] == 'b' || p->s[1] == 'B')) {
    base = 2;
    p->s += 2;
  } else if (p->s[0] == '0' && p->s[1] >= '0' && p->s[1] <= '7') {
    base = 8;
  }
  uint64_t v = digits(p, base);
  if (*p->s == 'U') p->s++;
  return v;
}

uint64_t emu__integer(emu_parser *p) {
  emu__skip(p);
  return unsigned_integer(p);
}

static uint64_t hex_float(emu_parser *p, int ndigits) {
  uint64_t v = 0;
  for (int k = 0; k < ndigits; k++) {
    int d = digit_value(*p->s);
    if (d > 15) emu__bad(p, "a float literal needs %d hexadecimal digits", ndigits);
    v = v << 4 | (unsigned)d;
    p->s++;
  }
  return v;
}

uint64_t emu__number(emu_parser *p, uint8_t *lit) {
  emu__skip(p);
  bool minus = false;
  while (*p->s == '-' || *p->s == '+') {
    minus ^= *p->s == '-';
    p->s++;
    emu__skip(p);
  }
  if (p->s[0] == '0' && (p->s[1] == 'f' || p->s[1] == 'F')) {
    p->s += 2;
    *lit = 'f';
    uint64_t v = hex_float(p, 8);
    return minus ? v ^ 0x80000000u : v;
  }
  if (p->s[0] == '0' && (p->s[1] == 'd' || p->s[1] == 'D')) {
    p->s += 2;
    *lit = 'd';
    uint64_t v = hex_float(p, 16);
    return minus ? v ^ (uint64_t)1 << 63 : v;
  }
  size_t n = 0;
  while (digit_value(p->s[n]) < 10) n++;
  if (n > 0 && (p->s[n] == '.' || p->s[n] == 'e' || p->s[n] == 'E')) {
    char buf[64];
    size_t k = 0;
    while (k + 1 < sizeof buf && (digit_value(p->s[k]) < 10 || p->s[k] == '.' || p->s[k] == 'e' || p->s[k] == 'E' ||
                                  ((p->s[k] == '-' || p->s[k] == '+') && k > 0 && (p->s[k - 1] | 32) == 'e'))) {
      buf[k] = p->s[k];
      k++;
    }
    buf[k] = '\0';
    char *stop;
    double v = strtod(buf, &stop);
    if (stop == buf || *stop != '\0') emu__bad(p, "bad float literal");
    p->s += k;
    *lit = 'd';
    if (minus) v = -v;
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
  }
  *lit = 'i';
  uint64_t v = unsigned_integer(p);
  return minus ? 0 - v : v;
}

/* names */

static uint32_t hash(const char *s, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t k = 0; k < n; k++) h = (h ^ (unsigned char)s[k]) * 16777619u;
  return h % EMU_BUCKETS;
}

emu_sym *emu__lookup(emu_parser *p, const char *text, size_t n) {
  for (emu_sym *y = p->buckets[hash(text, n)]; y != NULL; y = y->shadowed)
    if (y->len == n && memcmp(y->name, text, n) == 0) return y;
  return NULL;
}

emu_sym *emu__declare(emu_parser *p, const char *text, size_t n, emu_sym_kind kind) {
  if (n == 0) emu__bad(p, "expected a name");
  if (n > 4096) emu__bad(p, "name of %zu bytes is too long", n);
  emu_sym *old = emu__lookup(p, text, n);
  if (old != NULL && old->scope == p->scope) emu__bad(p, "'%.*s' is declared twice", (int)n, text);
  emu_sym *y = emu__alloc(&p->m->arena, sizeof *y);
  y->name = emu__strndup(&p->m->arena, text, n);
  y->len = n;
  y->kind = kind;
  y->scope = p->scope;
  emu_sym **head = &p->buckets[hash(text, n)];
  y->shadowed = *head;
  *head = y;
  p->syms = emu__grow(&p->m->arena, p->syms, p->nsyms, &p->cap_syms, sizeof *p->syms);
  p->syms[p->nsyms++] = y;
  return y;
}

void emu__open_scope(emu_parser *p) {
  if (p->scope + 1 >= EMU_MAX_SCOPES) emu__bad(p, "blocks are nested more than %d deep", EMU_MAX_SCOPES);
  p->scope++;
  p->scope_syms[p->scope] = p->nsyms;
  p->scope_refs[p->scope] = p->nrefs;
}

void emu__close_scope(emu_parser *p) {
  emu__resolve_refs(p);
  while (p->nsyms > p->scope_syms[p->scope]) {
    emu_sym *y = p->syms[--p->nsyms];
    p->buckets[hash(y->name, y->len)] = y->shadowed;
  }
  p->scope--;
}

/* variables and parameters */

typedef struct decl {
  emu_type type;
  uint64_t align, elem, count;
  const char *name;
  size_t len;
  bool unsized, is_array, is_pointer;
} decl;

static void alignment(emu_parser *p, uint64_t *align) {
  *align = emu__integer(p);
  if (*align == 0 || (*align & (*align - 1)) != 0 || *align > 65536)
    emu__bad(p, "bad alignment %llu", (unsigned long long)*align);
}

/* .align N .v4 .type .ptr .space .align M name [dims] */
static decl declaration(emu_parser *p) {
  decl d = {0};
  uint64_t pointee;
  unsigned vec = 1;
  const char *t;
  size_t n;
  while ((n = emu__directive(p, &t)) != 0) {
    if (emu__is(t, n, "align")) {
      if (d.is_pointer)
        alignment(p, &pointee);
      else
        alignment(p, &d.align);
    } else if (emu__is(t, n, "ptr")) {
      d.is_pointer = true;
    } else if (d.is_pointer && (emu__is(t, n, "global") || emu__is(t, n, "shared") || emu__is(t, n, "const") ||
                                emu__is(t, n, "local"))) {
    } else if (emu__is(t, n, "v2")) {
      vec = 2;
    } else if (emu__is(t, n, "v4")) {
      vec = 4;
    } else if (d.type == EMU_T_NONE && emu__type_by_name(t, n) != EMU_T_NONE) {
      d.type = emu__type_by_name(t, n);
    } else {
      emu__bad(p, "'.%.*s' is not known in a declaration", (int)n, t);
    }
  }
  if (d.type == EMU_T_NONE) emu__bad(p, "declaration without a type");
  if (d.type == EMU_T_PRED) emu__bad(p, "a variable cannot be of type .pred");
  d.elem = emu__type_bits[d.type] / 8u * vec;
  if (d.align == 0) d.align = d.elem;
  d.len = emu__word(p, &d.name);
  if (d.len == 0) emu__bad(p, "expected a name");
  d.count = 1;
  while (emu__accept(p, '[')) {
    d.is_array = true;
    emu__skip(p);
    if (*p->s == ']') {
      d.unsized = true;
    } else {
      uint64_t dim = emu__integer(p);
      if (dim > (uint64_t)1 << 32 || d.count * dim > (uint64_t)1 << 32)
        emu__bad(p, "'%.*s' is too large", (int)d.len, d.name);
      d.count *= dim;
    }
    emu__expect(p, ']');
  }
  return d;
}

static uint64_t round_up(uint64_t v, uint64_t align) { return (v + align - 1) / align * align; }

static uint64_t address_of(emu_parser *p, const char *t, size_t n, bool generic) {
  emu_sym *y = emu__lookup(p, t, n);
  if (y == NULL || y->kind != EMU_Y_VAR) emu__bad(p, "'%.*s' is not a variable", (int)n, t);
  const emu_var *v = &p->m->vars[y->index];
  if (!generic || v->space == EMU_GLOBAL) return v->addr;
  return v->addr | (uint64_t)v->space << EMU_WINDOW_SHIFT;
}

/* One element of an initialiser. An address may be `name`, `generic(name)`, and either with + or - a number. */
static void init_element(emu_parser *p, const decl *d, uint8_t *out) {
  emu__skip(p);
  unsigned size = emu__type_bits[d->type] / 8u;
  uint64_t v;
  char c = *p->s;
  if ((c >= '0' && c <= '9') || c == '-' || c == '+') {
    uint8_t lit;
    v = emu__number(p, &lit);
    if (lit == 'd' && d->type == EMU_T_F32) {
      double dv;
      memcpy(&dv, &v, sizeof dv);
      float fv = (float)dv;
      uint32_t b;
      memcpy(&b, &fv, sizeof b);
      v = b;
    } else if (lit == 'f' && d->type == EMU_T_F64) {
      uint32_t b = (uint32_t)v;
      float fv;
      memcpy(&fv, &b, sizeof fv);
      double dv = (double)fv;
      memcpy(&v, &dv, sizeof v);
    } else if (lit == 'i' && emu__type_class[d->type] == EMU_C_FLT) {
      emu__bad(p, "a float variable needs float initialisers");
    }
  } else {
    const char *t;
    size_t n = emu__word(p, &t);
    if (n == 0) emu__bad(p, "expected an initialiser");
    bool generic = emu__is(t, n, "generic");
    if (generic) {
      emu__expect(p, '(');
      n = emu__word(p, &t);
      emu__expect(p, ')');
    }
    v = address_of(p, t, n, generic);
    emu__skip(p);
    if (*p->s == '+' || *p->s == '-') {
      uint8_t lit;
      v += emu__number(p, &lit);
    }
    if (size < 8) emu__bad(p, "an address needs a 64-bit variable");
  }
  memcpy(out, &v, size > 8 ? 8 : size);
}

static void initialiser(emu_parser *p, const decl *d, uint8_t *data) {
  unsigned size = emu__type_bits[d->type] / 8u;
  uint64_t total = d->count * (d->elem / size), k = 0;
  if (!emu__accept(p, '{')) {
    init_element(p, d, data);
    return;
  }
  unsigned depth = 1;
  while (depth > 0) {
    if (emu__accept(p, '{')) {
      if (++depth > 8) emu__bad(p, "initialiser nested too deep");
      continue;
    }
    if (emu__accept(p, '}')) {
      depth--;
      emu__accept(p, ',');
      continue;
    }
    if (k >= total) emu__bad(p, "too many initialisers");
    init_element(p, d, data + k * size);
    k++;
    emu__skip(p);
    if (*p->s != '}') emu__expect(p, ',');
  }
}

static void module_variable(emu_parser *p, emu_space space, bool external, const decl *d) {
  emu_module *m = p->m;
  emu_sym *y = emu__lookup(p, d->name, d->len);
  if (y != NULL && y->kind == EMU_Y_VAR && m->vars[y->index].external && y->scope == p->scope) {
    if (external) return;
  } else {
    y = emu__declare(p, d->name, d->len, EMU_Y_VAR);
    m->vars = emu__grow(&m->arena, m->vars, m->nvars, &m->cap_vars, sizeof *m->vars);
    y->index = m->nvars++;
    memset(&m->vars[y->index], 0, sizeof m->vars[0]);
  }
  emu_var *v = &m->vars[y->index];
  v->name = y->name;
  v->space = space;
  v->size = d->elem * d->count;
  v->external = external;
  v->align = (uint32_t)d->align;
  if (space == EMU_SHARED) {
    if (d->unsized || (external && v->size == 0)) {
      v->external = true;
      v->size = 0;
      if (d->align > m->shared_align) m->shared_align = (uint32_t)d->align;
    } else {
      if (v->size > EMU_SHARED_LIMIT) emu__bad(p, "more than %d bytes of static shared memory", EMU_SHARED_LIMIT);
    }
    return;
  }
  if (external) emu__bad(p, "'%s' is external; only .shared variables can be", v->name);
  if (d->unsized) emu__bad(p, "'%s' needs a size", v->name);
  if (v->size == 0) emu__bad(p, "'%s' has no bytes", v->name);
  uint8_t *raw = emu__alloc(&m->arena, v->size + d->align);
  v->data = raw + (d->align - (uintptr_t)raw % d->align) % d->align;
  if (space == EMU_CONST) {
    v->addr = round_up(m->const_size, d->align);
    m->const_size = v->addr + v->size;
    if (m->const_size > 65536 * 4) emu__bad(p, "too much .const memory");
  } else {
    v->addr = (uint64_t)(uintptr_t)v->data;
  }
}

void emu__variable(emu_parser *p, emu_space space, bool external) {
  decl d = declaration(p);
  if (space == EMU_LOCAL || space == EMU_PARAM) {
    if (p->fn == NULL) emu__bad(p, "'%.*s': .local and .param variables belong into functions", (int)d.len, d.name);
    if (d.unsized) emu__bad(p, "'%.*s' needs a size", (int)d.len, d.name);
    emu_sym *y = emu__declare(p, d.name, d.len, space == EMU_LOCAL ? EMU_Y_LOCAL : EMU_Y_PARAM_FRAME);
    uint32_t *top = space == EMU_LOCAL ? &p->fn->local_size : &p->fn->param_size;
    uint64_t at = round_up(*top, d.align > 16 ? d.align : 16), size = d.elem * d.count;
    if (at + size > (uint64_t)512 << 10) emu__bad(p, "more than 512 KiB of per-thread memory");
    y->slot = (emu_slot){y->name, (uint32_t)at, (uint32_t)size, (uint32_t)d.align};
    *top = (uint32_t)(at + size);
  } else {
    module_variable(p, space, external, &d);
    if (emu__accept(p, '=')) {
      emu_var *v = &p->m->vars[emu__lookup(p, d.name, d.len)->index];
      if (v->data == NULL) emu__bad(p, "'%s' cannot have an initialiser", v->name);
      initialiser(p, &d, v->data);
    }
  }
  emu__expect(p, ';');
}

/* functions */

static emu_slot *param_list(emu_parser *p, uint32_t *count, emu_sym_kind kind, uint32_t *size, emu_func *fn) {
  emu_slot *slots = NULL;
  uint32_t cap = 0;
  *count = 0;
  if (emu__accept(p, ')')) return NULL;
  do {
    const char *t;
    size_t n = emu__directive(p, &t);
    if (!emu__is(t, n, "param")) emu__bad(p, "a parameter must be a .param variable");
    decl d = declaration(p);
    if (d.unsized) emu__bad(p, "'%.*s' needs a size", (int)d.len, d.name);
    emu_sym *y = emu__is(d.name, d.len, "_") ? NULL : emu__declare(p, d.name, d.len, kind);
    uint64_t at = round_up(*size, d.align), bytes = d.elem * d.count;
    if (at + bytes > 32764) emu__bad(p, "more than 32764 bytes of parameters");
    slots = emu__grow(&p->m->arena, slots, *count, &cap, sizeof *slots);
    emu_slot slot = {y != NULL ? y->name : "_", (uint32_t)at, (uint32_t)bytes, (uint32_t)d.align};
    if (y != NULL) y->slot = slot;
    slots[(*count)++] = slot;
    *size = (uint32_t)(at + bytes);
    if (fn->is_entry) {
      emu_kernel *k = &fn->kernel;
      emu_param *params = emu__alloc(&p->m->arena, (size_t)(k->nparams + 1) * sizeof *params);
      if (k->nparams > 0) memcpy(params, k->params, k->nparams * sizeof *params);
      params[k->nparams++] = (emu_param){slot.name, slot.offset, slot.size, slot.align, d.is_pointer};
      k->params = params;
      if (k->nparams > 4096) emu__bad(p, "more than 4096 parameters");
    }
  } while (emu__accept(p, ','));
  emu__expect(p, ')');
  return slots;
}

static void triple(emu_parser *p, uint32_t out[3]) {
  for (int k = 0; k < 3; k++) out[k] = 1;
  int k = 0;
  do {
    uint64_t v = emu__integer(p);
    if (k == 3 || v == 0 || v > UINT32_MAX) emu__bad(p, "bad extent");
    out[k++] = (uint32_t)v;
  } while (emu__accept(p, ','));
}

static void performance_directives(emu_parser *p, emu_func *fn) {
  const char *t;
  size_t n;
  while ((n = emu__directive(p, &t)) != 0) {
    uint32_t v[3];
    if (emu__is(t, n, "reqntid")) {
      triple(p, fn->kernel.reqntid);
    } else if (emu__is(t, n, "maxntid")) {
      triple(p, fn->kernel.maxntid);
    } else if (emu__is(t, n, "minnctapersm") || emu__is(t, n, "maxnctapersm") || emu__is(t, n, "maxnreg") ||
               emu__is(t, n, "maxclusterrank")) {
      emu__integer(p);
    } else if (emu__is(t, n, "reqnctapercluster")) {
      triple(p, v);
      if (v[0] != 1 || v[1] != 1 || v[2] != 1) emu__bad(p, "clusters of more than one block are not supported");
    } else if (emu__is(t, n, "explicitcluster") || emu__is(t, n, "noreturn")) {
    } else if (emu__is(t, n, "pragma")) {
      emu__pragma(p);
    } else {
      emu__bad(p, "directive '.%.*s' is not known here", (int)n, t);
    }
  }
}

static emu_func *find_or_add_func(emu_parser *p, const char *t, size_t n) {
  emu_module *m = p->m;
  emu_sym *y = emu__lookup(p, t, n);
  if (y != NULL) {
    if (y->kind != EMU_Y_FUNC) emu__bad(p, "'%.*s' is declared twice", (int)n, t);
    return &m->funcs[y->index];
  }
  uint32_t scope = p->scope; /* function names are global, although parameters of results are read before them */
  m->funcs = emu__grow(&m->arena, m->funcs, m->nfuncs, &m->cap_funcs, sizeof *m->funcs);
  y = emu__alloc(&m->arena, sizeof *y);
  y->name = emu__strndup(&m->arena, t, n);
  y->len = n;
  y->kind = EMU_Y_FUNC;
  y->index = m->nfuncs++;
  emu_sym **tail = &p->buckets[hash(t, n)];
  while (*tail != NULL) tail = &(*tail)->shadowed;
  *tail = y;
  p->scope = scope;
  emu_func *fn = &m->funcs[y->index];
  memset(fn, 0, sizeof *fn);
  fn->name = y->name;
  return fn;
}

static void function(emu_parser *p, bool is_entry) {
  emu_func shape = {.is_entry = is_entry, .line = p->line};
  emu__open_scope(p);
  if (!is_entry && emu__accept(p, '('))
    shape.out = param_list(p, &shape.nout, EMU_Y_PARAM_FRAME, &shape.param_size, &shape);
  const char *t;
  size_t n = emu__word(p, &t);
  if (n == 0) emu__bad(p, "expected the name of a function");
  emu_func *fn = find_or_add_func(p, t, n);
  if (fn->has_body) emu__bad(p, "'%s' has two bodies", fn->name);
  if (emu__accept(p, '('))
    shape.in = param_list(p, &shape.nin, is_entry ? EMU_Y_PARAM_ENTRY : EMU_Y_PARAM_FRAME,
                          is_entry ? &shape.kernel.params_size : &shape.param_size, &shape);
  performance_directives(p, &shape);
  shape.name = fn->name;
  shape.kernel.name = fn->name;
  if (!is_entry && emu__is(shape.name, strlen(shape.name), "vprintf")) shape.builtin = EMU_FN_VPRINTF;
  if (!is_entry && emu__is(shape.name, strlen(shape.name), "__assertfail")) shape.builtin = EMU_FN_ASSERT;
  *fn = shape;
  emu__skip(p);
  if (*p->s == '{') {
    if (fn->builtin != EMU_FN_USER) emu__bad(p, "'%s' is a system function and cannot have a body", fn->name);
    fn->has_body = true;
    p->fn = fn;
    p->loc = 0;
    fn->first = p->m->nins;
    emu__body(p);
    fn->end = p->m->nins;
    p->fn = NULL;
  } else {
    if (is_entry) emu__bad(p, "kernel '%s' has no body", fn->name);
    emu__expect(p, ';');
  }
  emu__close_scope(p);
}

/* the module */

void emu__pragma(emu_parser *p) {
  static const char *const known[] = {"nounroll", "used_bytes_mask", "enable_smem_spilling", "frequency"};
  do {
    emu__expect(p, '"');
    const char *t = p->s;
    while (*p->s != '"' && *p->s != '\n' && p->s < p->end) p->s++;
    size_t n = (size_t)(p->s - t), word = 0;
    while (word < n && t[word] != ' ') word++;
    emu__expect(p, '"');
    bool ok = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) ok |= emu__is(t, word, known[k]);
    if (!ok) emu__bad(p, "pragma \"%.*s\" is not known", (int)(n < 80 ? n : 80), t);
  } while (emu__accept(p, ','));
  emu__expect(p, ';');
}

/* .loc file line column, with what follows on the line (function_name, inlined_at) describing the inlined call only */
void emu__loc(emu_parser *p) {
  emu_module *m = p->m;
  uint32_t v[3];
  for (int k = 0; k < 3; k++) {
    uint64_t x = emu__integer(p);
    v[k] = x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
  }
  while (p->s < p->end && *p->s != '\n') p->s++;
  m->locs = emu__grow(&m->arena, m->locs, m->nlocs, &m->cap_locs, sizeof *m->locs);
  m->locs[m->nlocs] = (emu_loc){v[0], v[1], v[2]};
  p->loc = m->nlocs++;
}

static void file_directive(emu_parser *p) {
  emu_module *m = p->m;
  uint64_t index = emu__integer(p);
  emu__expect(p, '"');
  const char *t = p->s;
  while (*p->s != '"' && *p->s != '\n' && p->s < p->end) p->s++;
  size_t n = (size_t)(p->s - t);
  emu__expect(p, '"');
  while (emu__accept(p, ',')) emu__integer(p);
  if (index > 4096) emu__bad(p, "file number %llu is too large", (unsigned long long)index);
  if (index >= m->nfiles) {
    const char **files = emu__alloc(&m->arena, (index + 1) * sizeof *files);
    if (m->nfiles > 0) memcpy(files, m->files, m->nfiles * sizeof *files);
    m->files = files;
    m->nfiles = (uint32_t)index + 1;
  }
  m->files[index] = emu__strndup(&m->arena, t, n);
}

static void target_directive(emu_parser *p) {
  const char *t;
  size_t n = emu__word(p, &t);
  if (n < 4 || memcmp(t, "sm_", 3) != 0 || n >= sizeof p->m->target) emu__bad(p, "bad .target");
  memcpy(p->m->target, t, n);
  while (emu__accept(p, ',')) {
    n = emu__word(p, &t);
    if (!emu__is(t, n, "debug")) emu__bad(p, "target option '%.*s' is not known", (int)n, t);
  }
}

static void skip_section(emu_parser *p) {
  while (p->s < p->end && *p->s != '{') {
    if (*p->s == '\n') p->line++;
    p->s++;
  }
  emu__expect(p, '{');
  while (p->s < p->end && *p->s != '}') {
    if (*p->s == '\n') p->line++;
    p->s++;
  }
  emu__expect(p, '}');
}

static void module_text(emu_parser *p) {
  emu_module *m = p->m;
  bool external = false;
  for (;;) {
    emu__skip(p);
    if (p->s >= p->end) break;
    const char *t;
    size_t n = emu__directive(p, &t);
    if (n == 0) {
      if (emu__accept(p, ';')) continue;
      emu__bad(p, "expected a directive");
    }
    if (emu__is(t, n, "version")) {
      m->version = (unsigned)(emu__integer(p) % 1000) * 10;
      emu__expect(p, '.');
      m->version += (unsigned)(emu__integer(p) % 10);
      continue;
    }
    if (m->version == 0) emu__bad(p, "a PTX text starts with .version");
    if (emu__is(t, n, "target")) {
      target_directive(p);
    } else if (emu__is(t, n, "address_size")) {
      if (emu__integer(p) != 64) emu__bad(p, "only 64-bit addresses are supported");
    } else if (emu__is(t, n, "file")) {
      file_directive(p);
    } else if (emu__is(t, n, "loc")) {
      emu__loc(p);
    } else if (emu__is(t, n, "section")) {
      skip_section(p);
    } else if (emu__is(t, n, "pragma")) {
      emu__pragma(p);
    } else if (emu__is(t, n, "extern")) {
      external = true;
      continue;
    } else if (emu__is(t, n, "visible") || emu__is(t, n, "weak") || emu__is(t, n, "common")) {
      continue;
    } else if (emu__is(t, n, "entry")) {
      function(p, true);
    } else if (emu__is(t, n, "func")) {
      function(p, false);
    } else if (emu__is(t, n, "global")) {
      emu__variable(p, EMU_GLOBAL, external);
    } else if (emu__is(t, n, "const")) {
      emu__variable(p, EMU_CONST, external);
    } else if (emu__is(t, n, "shared")) {
      emu__variable(p, EMU_SHARED, external);
    } else {
      emu__bad(p, "directive '.%.*s' is not supported", (int)n, t);
    }
    external = false;
  }
  if (m->target[0] == '\0') emu__bad(p, "the text has no .target");
}

static void place_address(emu_module *m, emu_opd *o) {
  if (o->kind != EMU_O_IMM || !o->symbolic) return;
  o->imm = m->vars[o->reg].addr + (uint64_t)o->off;
  for (int l = 0; l < EMU_LANES; l++) o->row[l] = o->imm;
}

static void mention(emu_module *m, const emu_opd *o, uint32_t user) {
  if (o->kind != EMU_O_IMM || !o->symbolic) return;
  emu_var *v = &m->vars[o->reg];
  v->user = v->user == 0 || v->user == user ? user : UINT32_MAX;
}

/* Who uses each variable: one kernel, or several functions. */
static void find_users(emu_module *m) {
  for (uint32_t f = 0; f < m->nfuncs; f++) {
    uint32_t user = m->funcs[f].is_entry ? f + 1 : UINT32_MAX;
    for (uint32_t k = m->funcs[f].first; k < m->funcs[f].end; k++) {
      const emu_ins *i = &m->ins[k];
      for (uint32_t a = 0; a < i->nopd; a++) {
        const emu_opd *o = &i->opd[a];
        mention(m, o, user);
        uint32_t parts = o->kind == EMU_O_VEC ? o->n : o->kind == EMU_O_MEM ? 1 : 0;
        for (uint32_t e = 0; e < parts; e++) mention(m, &m->pool[o->first + e], user);
      }
    }
  }
}

/* Static shared variables of `user`, from `top` on; returns their end. */
static uint64_t place_shared(emu_parser *p, uint32_t user, uint64_t top) {
  emu_module *m = p->m;
  for (uint32_t k = 0; k < m->nvars; k++) {
    emu_var *v = &m->vars[k];
    if (v->space != EMU_SHARED || v->external || v->user != user) continue;
    v->addr = round_up(top, v->align);
    top = v->addr + v->size;
  }
  if (top > EMU_SHARED_START + EMU_SHARED_LIMIT)
    emu__bad(p, "more than %d bytes of static shared memory", EMU_SHARED_LIMIT);
  return top;
}

/* Lays out shared memory. What several functions mention comes first; behind it lies, for each kernel on its own, what
 * only that kernel mentions; dynamic memory starts at one place for all kernels, behind the largest of them. Then the
 * addresses of variables are filled in, and calls are held against the functions that they call. */
static void finish(emu_parser *p) {
  emu_module *m = p->m;
  find_users(m);
  uint64_t common = place_shared(p, UINT32_MAX, EMU_SHARED_START), top = common;
  for (uint32_t k = 0; k < m->nfuncs; k++) {
    uint64_t end = place_shared(p, k + 1, common);
    m->funcs[k].kernel.static_shared = (uint32_t)(end - EMU_SHARED_START);
    if (end > top) top = end;
  }
  top = round_up(top, m->shared_align);
  m->dynamic_start = (uint32_t)(top - EMU_SHARED_START);
  for (uint32_t k = 0; k < m->nvars; k++)
    if (m->vars[k].space == EMU_SHARED && m->vars[k].external) m->vars[k].addr = top;
  for (uint32_t k = 0; k < m->nins; k++)
    for (uint32_t a = 0; a < m->ins[k].nopd; a++) place_address(m, &m->ins[k].opd[a]);
  for (uint32_t k = 0; k < m->npool; k++) place_address(m, &m->pool[k]);
  for (uint32_t k = 0; k < m->ncalls; k++) {
    const emu_func *fn = &m->funcs[m->calls[k].func];
    const emu_call *c = &m->calls[k];
    if (!fn->has_body && fn->builtin == EMU_FN_USER) emu__bad(p, "function '%s' is called but has no body", fn->name);
    bool fits = c->nin == fn->nin && c->nout == fn->nout;
    for (uint32_t a = 0; fits && a < c->nin; a++) fits = c->in[a].size == fn->in[a].size;
    for (uint32_t a = 0; fits && a < c->nout; a++) fits = c->out[a].size == fn->out[a].size;
    if (!fits) emu__bad(p, "a call of '%s' does not match its parameters", fn->name);
  }
}

static bool read_text(emu_parser *p, const char *text, size_t len) {
  emu_module *m = p->m;
  int why = setjmp(p->fail);
  if (why == 2 && p->err != NULL) {
    p->err->line = p->line;
    snprintf(p->err->text, sizeof p->err->text, "out of memory");
  }
  if (why != 0) return false;
  m->const_size = 64;
  m->shared_align = 16;
  m->locs = emu__grow(&m->arena, NULL, 0, &m->cap_locs, sizeof *m->locs);
  m->nlocs = 1;
  p->s = emu__strndup(&m->arena, text, len);
  p->end = p->s + len;
  module_text(p);
  finish(p);
  return true;
}

emu_module *emu_parse(const char *text, size_t len, emu_error *err) {
  if (err != NULL) *err = (emu_error){0};
  emu_module *m = calloc(1, sizeof *m);
  emu_parser *p = calloc(1, sizeof *p);
  if (m == NULL || p == NULL || len > (size_t)1 << 30) {
    if (err != NULL)
      snprintf(err->text, sizeof err->text, "%s", len > (size_t)1 << 30 ? "the text is too long" : "out of memory");
    free(m);
    free(p);
    return NULL;
  }
  p->m = m;
  p->err = err;
  p->line = 1;
  m->arena.oom = &p->fail;
  bool ok = read_text(p, text, len);
  m->arena.oom = NULL;
  free(p);
  if (ok) return m;
  emu_module_free(m);
  return NULL;
}

void emu_module_free(emu_module *m) {
  if (m == NULL) return;
  emu__arena_free(&m->arena);
  free(m);
}
