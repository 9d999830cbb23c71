/* Reading PTX text: cursor and literals, names and scopes, variables with initialisers.
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

uint32_t emu__bucket(const char *s, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t k = 0; k < n; k++) h = (h ^ (unsigned char)s[k]) * 16777619u;
  return h % EMU_BUCKETS;
}

emu_sym *emu__lookup(emu_parser *p, const char *text, size_t n) {
  for (emu_sym *y = p->buckets[emu__bucket(text, n)]; y != NULL; y = y->shadowed)
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
  emu_sym **head = &p->buckets[emu__bucket(text, n)];
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
    p->buckets[emu__bucket(y->name, y->len)] = y->shadowed;
  }
  p->scope--;
}

/* variables and parameters */

static void alignment(emu_parser *p, uint64_t *align) {
  *align = emu__integer(p);
  if (*align == 0 || (*align & (*align - 1)) != 0 || *align > 65536)
    emu__bad(p, "bad alignment %llu", (unsigned long long)*align);
}

emu_decl emu__declaration(emu_parser *p) {
  emu_decl d = {0};
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

static uint64_t address_of(emu_parser *p, const char *t, size_t n, bool generic) {
  emu_sym *y = emu__lookup(p, t, n);
  if (y == NULL || y->kind != EMU_Y_VAR) emu__bad(p, "'%.*s' is not a variable", (int)n, t);
  const emu_var *v = &p->m->vars[y->index];
  if (!generic || v->space == EMU_GLOBAL) return v->addr;
  return v->addr | (uint64_t)v->space << EMU_WINDOW_SHIFT;
}

/* One element of an initialiser. An address may be `name`, `generic(name)`, and either with + or - a number. */
static void init_element(emu_parser *p, const emu_decl *d, uint8_t *out) {
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

static void initialiser(emu_parser *p, const emu_decl *d, uint8_t *data) {
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

static void module_variable(emu_parser *p, emu_space space, bool external, const emu_decl *d) {
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
    v->addr = emu__round_up(m->const_size, d->align);
    m->const_size = v->addr + v->size;
    if (m->const_size > 65536 * 4) emu__bad(p, "too much .const memory");
  } else {
    v->addr = (uint64_t)(uintptr_t)v->data;
  }
}

void emu__variable(emu_parser *p, emu_space space, bool external) {
  emu_decl d = emu__declaration(p);
  if (space == EMU_LOCAL || space == EMU_PARAM) {
    if (p->fn == NULL) emu__bad(p, "'%.*s': .local and .param variables belong into functions", (int)d.len, d.name);
    if (d.unsized) emu__bad(p, "'%.*s' needs a size", (int)d.len, d.name);
    emu_sym *y = emu__declare(p, d.name, d.len, space == EMU_LOCAL ? EMU_Y_LOCAL : EMU_Y_PARAM_FRAME);
    uint32_t *top = space == EMU_LOCAL ? &p->fn->local_size : &p->fn->param_size;
    uint64_t at = emu__round_up(*top, d.align > 16 ? d.align : 16), size = d.elem * d.count;
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
