/* The statements of a function body: declarations, labels, instructions with their operands, calls.
 *
 * Operands are read without knowing the instruction; decode.c then holds them against the row of isa.def. A label may
 * be used before it is defined, so uses are kept in a list and resolved when the block that could hold the label is
 * closed; what stays open belongs to the block around it. */
#include "runtime/emu/parse.h"

#include <string.h>

static void resolve_ref(emu_parser *p, const emu_ref *r, const emu_sym *y) {
  if (r->ins == UINT32_MAX)
    p->m->targets[r->opd] = y->index;
  else
    p->m->ins[r->ins].opd[r->opd].reg = y->index;
}

void emu__resolve_refs(emu_parser *p) {
  uint32_t keep = p->scope_refs[p->scope];
  for (uint32_t k = keep; k < p->nrefs; k++) {
    emu_ref r = p->refs[k];
    const emu_sym *y = emu__lookup(p, r.name, r.len);
    bool is_table = r.ins != UINT32_MAX && p->m->ins[r.ins].op == EMU_I_BRX;
    if (y != NULL && y->scope == p->scope && y->kind == (is_table ? EMU_Y_TABLE : EMU_Y_LABEL)) {
      resolve_ref(p, &r, y);
    } else if (p->scope == 1) {
      p->line = r.line;
      emu__bad(p, "label '%.*s' is not defined", (int)(r.len < 120 ? r.len : 120), r.name);
    } else {
      p->refs[keep++] = r;
    }
  }
  p->nrefs = keep;
}

static void add_ref(emu_parser *p, const char *t, size_t n, uint32_t ins, uint32_t opd) {
  p->refs = emu__grow(&p->m->arena, p->refs, p->nrefs, &p->cap_refs, sizeof *p->refs);
  p->refs[p->nrefs++] = (emu_ref){t, n, p->line, ins, opd};
}

static void registers(emu_parser *p) {
  const char *t;
  size_t n = emu__directive(p, &t);
  emu_type type = emu__type_by_name(t, n);
  if (n == 0 || type == EMU_T_NONE) emu__bad(p, "register type '.%.*s' is not supported", (int)n, t);
  if (emu__type_bits[type] > 64) emu__bad(p, "128-bit registers are not supported");
  do {
    n = emu__word(p, &t);
    if (n == 0) emu__bad(p, "expected the name of a register");
    emu_sym *y = emu__declare(p, t, n, EMU_Y_REG);
    y->bits = emu__type_bits[type];
    if (emu__accept(p, '<')) {
      uint64_t count = emu__integer(p);
      if (count > (uint64_t)1 << 20) emu__bad(p, "more than 2^20 registers");
      y->kind = EMU_Y_RANGE;
      y->count = (uint32_t)count;
      y->rows = emu__alloc(&p->m->arena, (size_t)(count + 1) * sizeof *y->rows);
      emu__expect(p, '>');
    }
  } while (emu__accept(p, ','));
  emu__expect(p, ';');
}

/* The register called t: an exact name, or prefix and number of a range. The row is dealt out on first use. */
static bool find_register(emu_parser *p, const char *t, size_t n, uint8_t *bits, uint32_t *reg) {
  emu_sym *y = emu__lookup(p, t, n);
  uint32_t *row = NULL;
  if (y != NULL) {
    if (y->kind != EMU_Y_REG) return false;
    row = &y->index;
  } else {
    size_t stem = n;
    while (stem > 0 && t[stem - 1] >= '0' && t[stem - 1] <= '9') stem--;
    for (; y == NULL && stem < n; stem++) {
      y = emu__lookup(p, t, stem);
      if (y == NULL || y->kind != EMU_Y_RANGE) {
        y = NULL;
        continue;
      }
      uint64_t k = 0;
      if (n - stem > 7 || (t[stem] == '0' && n - stem > 1)) return false;
      for (size_t c = stem; c < n; c++) k = k * 10 + (unsigned)(t[c] - '0');
      if (k >= y->count) return false;
      row = &y->rows[k];
    }
    if (y == NULL) return false;
  }
  if (*row == 0) {
    if (p->fn->nregs >= 1u << 20) emu__bad(p, "more than 2^20 registers in use");
    *row = ++p->fn->nregs;
  }
  *bits = y->bits;
  *reg = *row - 1;
  return true;
}

static bool find_sreg(emu_parser *p, const char *t, size_t n, emu_opd *o) {
  char name[40];
  if (n + 3 > sizeof name) return false;
  memcpy(name, t, n);
  if (p->s[0] == '.' && p->s[1] >= 'x' && p->s[1] <= 'z') {
    name[n] = '.';
    name[n + 1] = p->s[1];
    n += 2;
  }
  for (uint32_t k = 0; k < EMU_NSREGS; k++) {
    if (!emu__is(name, n, emu__sreg_name[k])) continue;
    if (t + n != p->s) p->s += 2;
    o->kind = EMU_O_SREG;
    o->reg = k;
    o->bits = emu__sreg_bits[k];
    return true;
  }
  return false;
}

static bool is_number_start(const char *s) { return (*s >= '0' && *s <= '9') || *s == '-' || *s == '+'; }

/* name, %reg, %sreg, number, label; `target` is where the operand will be stored, for references to labels */
static emu_opd simple_operand(emu_parser *p, uint32_t ins, uint32_t index) {
  emu_opd o = {.bits = 64};
  emu__skip(p);
  if (is_number_start(p->s)) {
    o.kind = EMU_O_IMM;
    o.imm = emu__number(p, &o.lit);
    return o;
  }
  if (emu__accept(p, '!')) o.neg = true;
  const char *t;
  size_t n = emu__word(p, &t);
  if (n == 0) {
    if (p->s >= p->end) emu__bad(p, "expected an operand before the end of the text");
    unsigned char c = (unsigned char)*p->s;
    if (c < 32 || c > 126) emu__bad(p, "expected an operand, found byte 0x%02x", c);
    emu__bad(p, "expected an operand, found '%c'", c);
  }
  if (emu__is(t, n, "_")) {
    o.kind = EMU_O_SINK;
    return o;
  }
  if (find_register(p, t, n, &o.bits, &o.reg)) {
    o.kind = EMU_O_REG;
    return o;
  }
  if (o.neg) emu__bad(p, "'!' needs a predicate register");
  if (t[0] == '%') {
    if (find_sreg(p, t, n, &o)) return o;
    if (emu__is(t, n, "%envreg0") || p->s[0] == '.') n += p->s[0] == '.' ? 2 : 0;
    emu__bad(p, "register '%.*s' is not known", (int)(n < 120 ? n : 120), t);
  }
  if (emu__is(t, n, "WARP_SZ")) {
    o.kind = EMU_O_IMM;
    o.imm = EMU_LANES;
    o.lit = 'i';
    return o;
  }
  const emu_sym *y = emu__lookup(p, t, n);
  o.lit = 'i';
  if (y == NULL || y->kind == EMU_Y_LABEL || y->kind == EMU_Y_TABLE) {
    o.kind = EMU_O_LABEL;
    add_ref(p, t, n, ins, index);
  } else if (y->kind == EMU_Y_VAR) {
    o.kind = EMU_O_IMM;
    o.symbolic = true;
    o.reg = y->index;
  } else if (y->kind == EMU_Y_PARAM_ENTRY) {
    o.kind = EMU_O_IMM;
    o.imm = y->slot.offset;
  } else if (y->kind == EMU_Y_PARAM_FRAME) {
    o.kind = EMU_O_PARAM_FRAME;
    o.off = y->slot.offset;
  } else if (y->kind == EMU_Y_LOCAL) {
    o.kind = EMU_O_LOCAL_FRAME;
    o.off = y->slot.offset;
  } else {
    emu__bad(p, "'%.*s' cannot be an operand", (int)(n < 120 ? n : 120), t);
  }
  return o;
}

static uint32_t add_pool(emu_parser *p, const emu_opd *o, unsigned n) {
  emu_module *m = p->m;
  uint32_t first = m->npool;
  for (unsigned k = 0; k < n; k++) {
    m->pool = emu__grow(&m->arena, m->pool, m->npool, &m->cap_pool, sizeof *m->pool);
    m->pool[m->npool++] = o[k];
  }
  return first;
}

static emu_opd memory_operand(emu_parser *p) {
  emu_opd o = {.kind = EMU_O_MEM};
  emu_opd base = simple_operand(p, 0, 0);
  if (base.kind == EMU_O_LABEL) {
    emu_ref r = p->refs[--p->nrefs];
    emu__bad(p, "'%.*s' is not declared", (int)(r.len < 120 ? r.len : 120), r.name);
  }
  if (base.kind == EMU_O_SINK || base.neg || base.lit == 'f' || base.lit == 'd') emu__bad(p, "bad address");
  for (;;) {
    emu__skip(p);
    if (*p->s != '+' && *p->s != '-') break;
    uint8_t lit;
    bool plus = *p->s == '+';
    if (plus) p->s++;
    uint64_t v = emu__number(p, &lit);
    if (lit != 'i') emu__bad(p, "bad displacement");
    o.off = (int64_t)((uint64_t)o.off + v);
  }
  emu_opd parts[6] = {base};
  if (emu__accept(p, ',')) {
    emu__expect(p, '{');
    do {
      if (o.n == 5) emu__bad(p, "a tensor has at most 5 coordinates");
      parts[1 + o.n++] = simple_operand(p, 0, 0);
      if (parts[o.n].kind != EMU_O_REG && parts[o.n].kind != EMU_O_IMM)
        emu__bad(p, "a coordinate is a register or a number");
    } while (emu__accept(p, ','));
    emu__expect(p, '}');
  }
  emu__expect(p, ']');
  o.first = add_pool(p, parts, 1u + o.n);
  return o;
}

static emu_opd vector_operand(emu_parser *p) {
  emu_opd part[EMU_MAX_VECTOR], o = {.kind = EMU_O_VEC};
  unsigned n = 0;
  do {
    if (n == EMU_MAX_VECTOR) emu__bad(p, "a vector has at most %d elements", EMU_MAX_VECTOR);
    part[n] = simple_operand(p, 0, 0);
    if (part[n].kind == EMU_O_LABEL) {
      emu_ref r = p->refs[--p->nrefs];
      emu__bad(p, "'%.*s' is not declared", (int)(r.len < 120 ? r.len : 120), r.name);
    }
    if (part[n].kind == EMU_O_SREG || part[n].neg) emu__bad(p, "a vector holds plain registers and numbers");
    n++;
  } while (emu__accept(p, ','));
  emu__expect(p, '}');
  o.n = (uint8_t)n;
  o.first = add_pool(p, part, n);
  return o;
}

/* Up to the ';'. Address displacements on variables (`smem+16`) are part of the operand. */
static void operands(emu_parser *p, emu_ins *i, uint32_t at) {
  if (emu__accept(p, ';')) return;
  for (;;) {
    if (i->nopd == EMU_MAX_OPERANDS) emu__bad(p, "more than %d operands", EMU_MAX_OPERANDS);
    emu_opd *o = &i->opd[i->nopd];
    if (emu__accept(p, '['))
      *o = memory_operand(p);
    else if (emu__accept(p, '{'))
      *o = vector_operand(p);
    else
      *o = simple_operand(p, at, i->nopd);
    emu__skip(p);
    if (o->kind == EMU_O_IMM && o->lit == 'i' && (*p->s == '+' || *p->s == '-')) {
      uint8_t lit;
      o->off += (int64_t)emu__number(p, &lit);
      o->imm += (uint64_t)o->off;
      if (lit != 'i') emu__bad(p, "bad displacement");
    }
    i->nopd++;
    if (emu__accept(p, '|')) {
      if (i->nopd == EMU_MAX_OPERANDS) emu__bad(p, "more than %d operands", EMU_MAX_OPERANDS);
      i->opd[i->nopd] = simple_operand(p, at, i->nopd);
      i->opd[i->nopd++].pair = true;
    }
    if (emu__accept(p, ';')) return;
    emu__expect(p, ',');
  }
}

static emu_slot *call_list(emu_parser *p, uint32_t *count) {
  emu_slot *slots = NULL;
  uint32_t cap = 0;
  if (emu__accept(p, ')')) return NULL;
  do {
    const char *t;
    size_t n = emu__word(p, &t);
    const emu_sym *y = emu__lookup(p, t, n);
    if (n == 0 || y == NULL || y->kind != EMU_Y_PARAM_FRAME)
      emu__bad(p, "arguments of a call must be .param variables");
    slots = emu__grow(&p->m->arena, slots, *count, &cap, sizeof *slots);
    slots[(*count)++] = y->slot;
  } while (emu__accept(p, ','));
  emu__expect(p, ')');
  return slots;
}

static void call_operands(emu_parser *p, emu_ins *i) {
  emu_module *m = p->m;
  emu_call c = {0};
  if (emu__accept(p, '(')) {
    c.out = call_list(p, &c.nout);
    emu__expect(p, ',');
  }
  const char *t;
  size_t n = emu__word(p, &t);
  const emu_sym *y = emu__lookup(p, t, n);
  if (n > 0 && (y == NULL || y->kind != EMU_Y_FUNC)) {
    if (t[0] == '%') emu__bad(p, "calls through a register are not supported");
    emu__bad(p, "'%.*s' is not a function", (int)(n < 120 ? n : 120), t);
  }
  if (n == 0) emu__bad(p, "expected the name of a function");
  c.func = y->index;
  if (m->funcs[c.func].is_entry) emu__bad(p, "a kernel cannot be called");
  if (emu__accept(p, ',')) {
    emu__expect(p, '(');
    c.in = call_list(p, &c.nin);
  }
  emu__expect(p, ';');
  m->calls = emu__grow(&m->arena, m->calls, m->ncalls, &m->cap_calls, sizeof *m->calls);
  i->call = m->ncalls;
  m->calls[m->ncalls++] = c;
}

static size_t mnemonic(emu_parser *p, const char **text) {
  size_t n = emu__word(p, text);
  for (;;) {
    if (p->s[0] == '.' || (p->s[0] == ':' && p->s[1] == ':' && n > 0)) {
      p->s += p->s[0] == ':' ? 2 : 1;
      const char *rest;
      const char *before = p->s;
      if (emu__word(p, &rest) == 0 || rest != before) emu__bad(p, "bad instruction name");
      n = (size_t)(p->s - *text);
    } else {
      return n;
    }
  }
}

static void instruction(emu_parser *p) {
  emu_module *m = p->m;
  emu_ins i = {.line = p->line, .loc = p->loc};
  if (emu__accept(p, '@')) {
    i.guarded = true;
    i.guard_neg = emu__accept(p, '!');
    const char *t;
    size_t n = emu__word(p, &t);
    uint8_t bits = 0;
    if (n == 0 || !find_register(p, t, n, &bits, &i.guard) || bits != 1)
      emu__bad(p, "'%.*s' is not a predicate register", (int)(n < 120 ? n : 120), t);
  }
  emu__skip(p);
  i.line = p->line;
  const char *t;
  size_t n = mnemonic(p, &t);
  if (n == 0) emu__bad(p, "expected an instruction");
  uint32_t last = p->line;
  if (emu__is(t, n, "call") || emu__is(t, n, "call.uni"))
    call_operands(p, &i);
  else
    operands(p, &i, m->nins);
  char msg[256];
  last = p->line;
  p->line = i.line;
  if (!emu__decode(m, t, n, &i, msg, sizeof msg)) emu__bad(p, "%s", msg);
  p->line = last;
  m->ins = emu__grow(&m->arena, m->ins, m->nins, &m->cap_ins, sizeof *m->ins);
  m->ins[m->nins++] = i;
}

static void branch_targets(emu_parser *p, emu_sym *y) {
  emu_module *m = p->m;
  y->kind = EMU_Y_TABLE;
  y->index = m->ntargets;
  m->targets = emu__grow(&m->arena, m->targets, m->ntargets, &m->cap_targets, sizeof *m->targets);
  m->targets[m->ntargets++] = 0;
  do {
    const char *t;
    size_t n = emu__word(p, &t);
    if (n == 0) emu__bad(p, "expected a label");
    m->targets = emu__grow(&m->arena, m->targets, m->ntargets, &m->cap_targets, sizeof *m->targets);
    add_ref(p, t, n, UINT32_MAX, m->ntargets++);
    m->targets[y->index]++;
  } while (emu__accept(p, ','));
  emu__expect(p, ';');
}

static bool label(emu_parser *p) {
  const char *at = p->s, *t;
  uint32_t line = p->line;
  size_t n = emu__word(p, &t);
  if (n == 0 || *p->s == '.' || !emu__accept(p, ':')) {
    p->s = at;
    p->line = line;
    return false;
  }
  if (*p->s == ':') emu__bad(p, "expected an instruction");
  emu_sym *y = emu__declare(p, t, n, EMU_Y_LABEL);
  y->index = p->m->nins;
  const char *d;
  at = p->s;
  line = p->line;
  size_t dn = emu__directive(p, &d);
  if (emu__is(d, dn, "branchtargets") && dn > 0) {
    branch_targets(p, y);
  } else if (dn > 0 && emu__is(d, dn, "callprototype")) {
    emu__bad(p, "calls through a prototype are not supported");
  } else {
    p->s = at;
    p->line = line;
  }
  return true;
}

static void statement_directive(emu_parser *p) {
  const char *t;
  size_t n = emu__directive(p, &t);
  if (emu__is(t, n, "reg"))
    registers(p);
  else if (emu__is(t, n, "local"))
    emu__variable(p, EMU_LOCAL, false);
  else if (emu__is(t, n, "param"))
    emu__variable(p, EMU_PARAM, false);
  else if (emu__is(t, n, "shared"))
    emu__variable(p, EMU_SHARED, false);
  else if (emu__is(t, n, "global"))
    emu__variable(p, EMU_GLOBAL, false);
  else if (emu__is(t, n, "const"))
    emu__variable(p, EMU_CONST, false);
  else if (emu__is(t, n, "loc"))
    emu__loc(p);
  else if (emu__is(t, n, "pragma"))
    emu__pragma(p);
  else
    emu__bad(p, "directive '.%.*s' is not supported in a body", (int)n, t);
}

void emu__body(emu_parser *p) {
  uint32_t outer = p->scope;
  emu__expect(p, '{');
  for (;;) {
    emu__skip(p);
    if (p->s >= p->end) emu__bad(p, "the body of '%s' has no end", p->fn->name);
    if (*p->s == '}') {
      p->s++;
      if (p->scope == outer) break;
      emu__close_scope(p);
    } else if (*p->s == '{') {
      p->s++;
      emu__open_scope(p);
    } else if (*p->s == ';') {
      p->s++;
    } else if (*p->s == '.') {
      statement_directive(p);
    } else if (!label(p)) {
      instruction(p);
    }
  }
  emu_module *m = p->m;
  static const char end[] = "ret";
  emu_ins i = {.line = p->line, .loc = 0};
  char msg[64];
  if (!emu__decode(m, end, sizeof end - 1, &i, msg, sizeof msg)) emu__bad(p, "%s", msg);
  m->ins = emu__grow(&m->arena, m->ins, m->nins, &m->cap_ins, sizeof *m->ins);
  m->ins[m->nins++] = i;
}
