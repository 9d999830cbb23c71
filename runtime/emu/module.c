/* A PTX text as a whole: the directives of the module, functions and kernels with their parameters, and the layout of
 * shared memory once everything has been read. */
#include "runtime/emu/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static emu_slot *param_list(emu_parser *p, uint32_t *count, emu_sym_kind kind, uint32_t *size, emu_func *fn) {
  emu_slot *slots = NULL;
  uint32_t cap = 0;
  *count = 0;
  if (emu__accept(p, ')')) return NULL;
  do {
    const char *t;
    size_t n = emu__directive(p, &t);
    if (!emu__is(t, n, "param")) emu__bad(p, "a parameter must be a .param variable");
    emu_decl d = emu__declaration(p);
    if (d.unsized) emu__bad(p, "'%.*s' needs a size", (int)d.len, d.name);
    emu_sym *y = emu__is(d.name, d.len, "_") ? NULL : emu__declare(p, d.name, d.len, kind);
    uint64_t at = emu__round_up(*size, d.align), bytes = d.elem * d.count;
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
  emu_sym **tail = &p->buckets[emu__bucket(t, n)];
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
        uint32_t parts = o->kind == EMU_O_VEC ? o->n : o->kind == EMU_O_MEM ? 1u + o->n : 0;
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
    v->addr = emu__round_up(top, v->align);
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
  top = emu__round_up(top, m->shared_align);
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
