/* grid: expressions over the names of a launch, in exact integers.
 *
 * A text such as "cdiv(n, BLOCK) * 2, batch" is compiled once into code for a small stack machine, which a launch then
 * runs without looking at text again. Names become numbers at compile time (tk__names.find); their values are asked for
 * when the code runs. Precedence and rounding are Python's, since that is what kernels' host code is written in;
 * from loosest to tightest:
 *
 *     A if C else B  |  or  |  and  |  not  |  == != < <= > >=  |  + -  |  * // % /  |  - +  |  call, .member
 *
 * Every operation is checked: a result that does not fit in 64 bits, a division by zero, and an inexact `/` are errors,
 * for a wrong grid runs a kernel over part of the data and says nothing. Comparisons do not chain (an error, not a
 * surprise). `and`, `or` and the conditional evaluate only the side that they need, as in Python, hence the jumps.
 *
 * Limits: 1024 bytes of text, 96 instructions, 24 values on the stack; nesting is bounded by the stack, so hostile text
 * cannot exhaust the C stack. */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

typedef enum opcode {
#define GRID_OP(name, takes) OP_##name,
#include "runtime/grid.def"
#undef GRID_OP
} opcode;

static const uint8_t op_takes[] = {
#define GRID_OP(name, takes) takes,
#include "runtime/grid.def"
#undef GRID_OP
};

/* A jump leaves nothing where it stands: KEEP_IF_* keeps its value only where it lands. */
static bool op_jumps(opcode op) {
  return op == OP_JUMP || op == OP_JUMP_FALSE || op == OP_KEEP_IF_FALSE || op == OP_KEEP_IF_TRUE;
}

typedef struct function_row {
  const char *name;
  opcode op;
} function_row;

static const function_row functions[] = {
    {"cdiv", OP_CDIV}, {"min", OP_MIN}, {"max", OP_MAX}, {"abs", OP_ABS}, {"next_power_of_2", OP_NEXT_POWER_OF_2}};

/* One level of binary operators that group to the left. */
typedef struct operator_row {
  const char *sign;
  int level;
  opcode op;
} operator_row;

enum { MAX_NESTING = 32 };
enum { LEVEL_COMPARE, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_UNARY };

/* Longer signs before their prefixes. */
static const operator_row operators[] = {
    {"==", LEVEL_COMPARE, OP_EQ}, {"!=", LEVEL_COMPARE, OP_NE},       {"<=", LEVEL_COMPARE, OP_LE},
    {">=", LEVEL_COMPARE, OP_GE}, {"<", LEVEL_COMPARE, OP_LT},        {">", LEVEL_COMPARE, OP_GT},
    {"+", LEVEL_SUM, OP_ADD},     {"-", LEVEL_SUM, OP_SUB},           {"//", LEVEL_PRODUCT, OP_FLOOR_DIV},
    {"*", LEVEL_PRODUCT, OP_MUL}, {"/", LEVEL_PRODUCT, OP_EXACT_DIV}, {"%", LEVEL_PRODUCT, OP_MOD},
};

/* ---- compiling --------------------------------------------------------------------------------------------------- */

typedef struct compiler {
  const char *text, *at;
  const tk__names *names;
  tk__expr *out;
  int depth;   /* values on the stack here */
  int nesting; /* of the parser */
  char *message;
  size_t size;
} compiler;

static bool complain(compiler *c, const char *where, const char *fmt, ...) TK__PRINTF(3, 4);

static bool complain(compiler *c, const char *where, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = snprintf(c->message, c->size, "column %d: ", (int)(where - c->text) + 1);
  if (n >= 0 && (size_t)n < c->size) vsnprintf(c->message + n, c->size - (size_t)n, fmt, ap);
  va_end(ap);
  return false;
}

static void blanks(compiler *c) { c->at += strspn(c->at, " \t\r\n"); }

static bool is_word_char(char ch) {
  unsigned char u = (unsigned char)ch;
  return (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || (u >= '0' && u <= '9') || u == '_' || u >= 0x80;
}

static size_t word_length(const char *s) {
  size_t n = 0;
  if (*s >= '0' && *s <= '9') return 0;
  while (is_word_char(s[n])) n++;
  return n;
}

static bool is_word(const char *s, size_t n, const char *word) { return strlen(word) == n && memcmp(s, word, n) == 0; }

static const function_row *function_named(const char *s, size_t n) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (is_word(s, n, functions[i].name)) return &functions[i];
  return NULL;
}

static bool accept(compiler *c, const char *sign) {
  blanks(c);
  size_t n = strlen(sign);
  if (strncmp(c->at, sign, n) != 0) return false;
  c->at += n;
  return true;
}

static bool accept_word(compiler *c, const char *word) {
  blanks(c);
  size_t n = word_length(c->at);
  if (!is_word(c->at, n, word)) return false;
  c->at += n;
  return true;
}

static bool expect(compiler *c, const char *sign) {
  return accept(c, sign) || complain(c, c->at, "expected '%s'", sign);
}

/* Appends an instruction; `where` is the place in the text that it reports. */
static bool emit(compiler *c, const char *where, opcode op, int64_t value) {
  if (c->out->n_code == TK__EXPR_MAX_CODE) return complain(c, where, "the expression is too long");
  c->depth += 1 - op_takes[op];
  if (op_jumps(op)) c->depth--;
  if (c->depth > TK__EXPR_MAX_STACK) return complain(c, where, "the expression nests too deeply");
  c->out->code[c->out->n_code++] =
      (tk__instruction){.op = (uint8_t)op, .column = (uint16_t)(where - c->text + 1), .value = value};
  return true;
}

/* Makes the jump at `from` go to the next instruction. */
static void land(compiler *c, int from) { c->out->code[from].slot = (uint16_t)c->out->n_code; }

static bool conditional(compiler *c);

static bool number(compiler *c) {
  const char *start = c->at;
  int64_t v = 0;
  bool hex = start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
  int base = hex ? 16 : 10;
  if (hex) c->at += 2;
  const char *digits = c->at;
  for (;; c->at++) {
    char ch = *c->at;
    int d = ch >= '0' && ch <= '9'          ? ch - '0'
            : hex && ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
            : hex && ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                            : -1;
    if (ch == '_' && c->at > digits) continue;
    if (d < 0) break;
    if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, d, &v))
      return complain(c, start, "the number does not fit in 64 bits");
  }
  if (c->at == digits || is_word_char(*c->at)) return complain(c, start, "this is no number");
  if (*c->at == '.') return complain(c, start, "only integers can be used here");
  return emit(c, start, OP_CONSTANT, v);
}

/* (A, B) behind a function's name. min and max take two or more. */
static bool call(compiler *c, const char *where, opcode op) {
  int n = 0;
  if (!expect(c, "(")) return false;
  do {
    if (!conditional(c)) return false;
    n++;
    if (n > 1 && (op == OP_MIN || op == OP_MAX || n == op_takes[op]) && !emit(c, where, op, 0)) return false;
  } while (accept(c, ","));
  if (!expect(c, ")")) return false;
  if (op_takes[op] == 1 && n == 1) return emit(c, where, op, 0);
  bool right = op == OP_MIN || op == OP_MAX ? n >= 2 : n == op_takes[op];
  return right ||
         complain(c, where, "this function takes %d argument%s, not %d", op_takes[op], op_takes[op] == 1 ? "" : "s", n);
}

/* An axis written as a number; -1 is the last one. */
static bool index_between(compiler *c, const char *open, const char *close, int64_t *out) {
  if (!expect(c, open)) return false;
  blanks(c);
  const char *start = c->at;
  *out = 0;
  bool from_end = *c->at == '-';
  const char *digits = c->at += from_end;
  while (*c->at >= '0' && *c->at <= '9' && c->at - digits < 4) *out = *out * 10 + (*c->at++ - '0');
  if (c->at == digits) return complain(c, start, "expected an axis number");
  if (from_end) *out = -*out;
  return expect(c, close);
}

static bool member_of(compiler *c, const char *where, int slot) {
  tk__member member = TK__VALUE;
  int64_t index = 0;
  if (accept(c, ".")) {
    blanks(c);
    const char *start = c->at;
    if (accept_word(c, "shape")) {
      member = TK__SHAPE;
      if (!index_between(c, "[", "]", &index)) return false;
    } else if (accept_word(c, "stride")) {
      member = TK__STRIDE;
      if (!index_between(c, "(", ")", &index)) return false;
    } else if (accept_word(c, "numel")) {
      member = TK__NUMEL;
      if (!expect(c, "(") || !expect(c, ")")) return false;
    } else {
      return complain(c, start, "expected shape[axis], stride(axis) or numel()");
    }
  }
  if (!emit(c, where, OP_LOAD, index)) return false;
  tk__instruction *load = &c->out->code[c->out->n_code - 1];
  load->slot = (uint16_t)slot;
  load->member = (uint8_t)member;
  return true;
}

static bool word(compiler *c) {
  const char *start = c->at;
  size_t n = word_length(start);
  const char *rest = start + n + 1; /* triton.cdiv, tl.cdiv */
  if (start[n] == '.' && (is_word(start, n, "triton") || is_word(start, n, "tl")) &&
      function_named(rest, word_length(rest))) {
    start = c->at = rest;
    n = word_length(start);
  }
  c->at += n;
  blanks(c);
  if (*c->at == '(') {
    const function_row *f = function_named(start, n);
    if (f) return call(c, start, f->op);
    return complain(c, start, "unknown function '%.*s'; there are cdiv, min, max, abs, next_power_of_2",
                    (int)(n < 60 ? n : 60), start);
  }
  if (is_word(start, n, "True") || is_word(start, n, "False")) return emit(c, start, OP_CONSTANT, *start == 'T');
  int slot = c->names->find(c->names->user, start, n);
  if (slot < 0 || slot > UINT16_MAX) return complain(c, start, "unknown name '%.*s'", (int)(n < 60 ? n : 60), start);
  return member_of(c, start, slot);
}

static bool primary(compiler *c) {
  blanks(c);
  if (accept(c, "(")) return conditional(c) && expect(c, ")");
  if (*c->at >= '0' && *c->at <= '9') return number(c);
  if (word_length(c->at)) return word(c);
  return complain(c, c->at, "expected a value");
}

static bool unary(compiler *c) {
  blanks(c);
  const char *where = c->at;
  if (++c->nesting > MAX_NESTING) return complain(c, where, "the expression nests too deeply");
  bool ok = accept(c, "-") ? unary(c) && emit(c, where, OP_NEGATE, 0) : accept(c, "+") ? unary(c) : primary(c);
  c->nesting--;
  return ok;
}

static const operator_row *operator_here(compiler *c, int level) {
  blanks(c);
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    size_t n = strlen(operators[i].sign);
    if (strncmp(c->at, operators[i].sign, n) == 0) return operators[i].level == level ? &operators[i] : NULL;
  }
  return NULL;
}

static bool binary(compiler *c, int level) {
  if (level == LEVEL_UNARY) return unary(c);
  if (!binary(c, level + 1)) return false;
  const operator_row *o;
  for (int n = 0; (o = operator_here(c, level)); n++) {
    const char *where = c->at;
    if (level == LEVEL_COMPARE && n > 0) return complain(c, where, "comparisons do not chain: write A < B and B < C");
    if (strncmp(where, "**", 2) == 0) return complain(c, where, "there is no operator **");
    c->at += strlen(o->sign);
    if (!binary(c, level + 1) || !emit(c, where, o->op, 0)) return false;
  }
  return true;
}

static bool negation(compiler *c) {
  blanks(c);
  const char *where = c->at;
  if (!accept_word(c, "not")) return binary(c, LEVEL_COMPARE);
  if (++c->nesting > MAX_NESTING) return complain(c, where, "the expression nests too deeply");
  bool ok = negation(c) && emit(c, where, OP_NOT, 0);
  c->nesting--;
  return ok;
}

/* `and` binds closer than `or`; both leave one of their operands, as in Python. */
static bool logical(compiler *c, const char *sign, opcode keep, bool (*operand)(compiler *)) {
  if (!operand(c)) return false;
  for (;;) {
    blanks(c);
    const char *where = c->at;
    if (!accept_word(c, sign)) return true;
    int jump = c->out->n_code;
    if (!emit(c, where, keep, 0) || !operand(c)) return false;
    land(c, jump);
  }
}

static bool conjunction(compiler *c) { return logical(c, "and", OP_KEEP_IF_FALSE, negation); }
static bool disjunction(compiler *c) { return logical(c, "or", OP_KEEP_IF_TRUE, conjunction); }

/* A if C else B. A stands first in the text and runs second: its code is moved behind the test. */
static bool conditional(compiler *c) {
  tk__expr *e = c->out;
  int begin = e->n_code;
  if (++c->nesting > MAX_NESTING) return complain(c, c->at, "the expression nests too deeply");
  if (!disjunction(c)) return false;
  blanks(c);
  const char *where = c->at;
  if (accept_word(c, "if")) {
    tk__instruction chosen[TK__EXPR_MAX_CODE];
    int n = e->n_code - begin;
    memcpy(chosen, e->code + begin, sizeof *chosen * (size_t)n);
    e->n_code = begin;
    c->depth--;
    if (!disjunction(c)) return false;
    int test = e->n_code;
    if (!emit(c, where, OP_JUMP_FALSE, 0)) return false;
    int moved = e->n_code;
    if (moved + n > TK__EXPR_MAX_CODE) return complain(c, where, "the expression is too long");
    for (int i = 0; i < n; i++) {
      if (op_jumps((opcode)chosen[i].op)) chosen[i].slot = (uint16_t)(chosen[i].slot - begin + moved);
      e->code[e->n_code++] = chosen[i];
    }
    int done = e->n_code;
    if (!emit(c, where, OP_JUMP, 0)) return false;
    land(c, test);
    if (!accept_word(c, "else")) return complain(c, c->at, "expected 'else'");
    if (!conditional(c)) return false;
    land(c, done);
  }
  c->nesting--;
  return true;
}

/* Does one pair of parentheses enclose the whole text, as in the tuple "(a, b)"? */
static bool enclosed(const char *s, size_t n) {
  int depth = 0;
  if (n == 0 || s[0] != '(') return false;
  for (size_t i = 0; i < n; i++) {
    depth += (s[i] == '(') - (s[i] == ')');
    if (depth == 0) return i + 1 == n;
  }
  return false;
}

bool tk__expr_compile(const char *text, int max_dims, const tk__names *names, tk__expr *out, char *message,
                      size_t size) {
  compiler c = {.text = text, .at = text, .names = names, .out = out, .message = message, .size = size};
  size_t n = strnlen(text, TK__EXPR_MAX_TEXT + 1);
  out->n_code = out->dims = 0;
  if (n > TK__EXPR_MAX_TEXT) return complain(&c, text, "the expression is longer than %d bytes", TK__EXPR_MAX_TEXT);
  blanks(&c);
  size_t lead = (size_t)(c.at - text);
  while (n > lead && strchr(" \t\r\n", text[n - 1])) n--;
  bool tuple = enclosed(c.at, n - lead);
  if (tuple) c.at++;
  for (;;) {
    if (out->dims == max_dims) return complain(&c, c.at, "more than %d value%s", max_dims, max_dims == 1 ? "" : "s");
    if (!conditional(&c)) return false;
    out->dims++;
    if (!accept(&c, ",")) break;
    blanks(&c);
    if (tuple && *c.at == ')') break;
  }
  if (tuple && !expect(&c, ")")) return false;
  blanks(&c);
  return *c.at == '\0' || complain(&c, c.at, "expected an operator or the end");
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* NULL, or what is wrong. */
static const char *apply(opcode op, int64_t a, int64_t b, int64_t *out) {
  static const char overflow[] = "the result does not fit in 64 bits";
  switch (op) {
    case OP_ADD: return __builtin_add_overflow(a, b, out) ? overflow : NULL;
    case OP_SUB: return __builtin_sub_overflow(a, b, out) ? overflow : NULL;
    case OP_MUL: return __builtin_mul_overflow(a, b, out) ? overflow : NULL;
    case OP_NEGATE: return __builtin_sub_overflow((int64_t)0, a, out) ? overflow : NULL;
    case OP_NOT: *out = !a; return NULL;
    case OP_EQ: *out = a == b; return NULL;
    case OP_NE: *out = a != b; return NULL;
    case OP_LT: *out = a < b; return NULL;
    case OP_LE: *out = a <= b; return NULL;
    case OP_GT: *out = a > b; return NULL;
    case OP_GE: *out = a >= b; return NULL;
    case OP_MIN: *out = a < b ? a : b; return NULL;
    case OP_MAX: *out = a > b ? a : b; return NULL;
    case OP_ABS:
      if (a == INT64_MIN) return overflow;
      *out = a < 0 ? -a : a;
      return NULL;
    case OP_NEXT_POWER_OF_2:
      if (a > INT64_C(1) << 62) return overflow;
      for (*out = a < 1 ? 0 : 1; *out && *out < a;) *out *= 2;
      return NULL;
    case OP_FLOOR_DIV:
    case OP_MOD:
    case OP_EXACT_DIV:
    case OP_CDIV: {
      if (b == 0) return "division by zero";
      if (a == INT64_MIN && b == -1) {
        *out = 0;
        return op == OP_MOD ? NULL : overflow;
      }
      int64_t quotient = a / b, rest = a % b;
      bool opposite = (a < 0) != (b < 0);
      if (op == OP_EXACT_DIV && rest) return "/ does not divide exactly; write // (rounds down) or cdiv (rounds up)";
      if (op == OP_MOD) *out = rest && opposite ? rest + b : rest;
      if (op == OP_FLOOR_DIV) *out = quotient - (rest && opposite);
      if (op == OP_CDIV) *out = quotient + (rest && !opposite);
      if (op == OP_EXACT_DIV) *out = quotient;
      return NULL;
    }
    case OP_CONSTANT:
    case OP_LOAD:
    case OP_JUMP:
    case OP_JUMP_FALSE:
    case OP_KEEP_IF_FALSE:
    case OP_KEEP_IF_TRUE: break;
  }
  return "broken code";
}

bool tk__expr_run(const tk__expr *e, const tk__names *names, int64_t *out, char *message, size_t size) {
  int64_t stack[TK__EXPR_MAX_STACK + 1];
  int n = 0;
  for (int pc = 0; pc < e->n_code; pc++) {
    const tk__instruction *i = &e->code[pc];
    const char *problem = NULL;
    switch ((opcode)i->op) {
      case OP_CONSTANT: stack[n++] = i->value; break;
      case OP_LOAD: problem = names->get(names->user, i->slot, (tk__member)i->member, i->value, &stack[n++]); break;
      case OP_JUMP: pc = i->slot - 1; break;
      case OP_JUMP_FALSE:
        if (!stack[--n]) pc = i->slot - 1;
        break;
      case OP_KEEP_IF_FALSE:
      case OP_KEEP_IF_TRUE:
        if ((stack[n - 1] != 0) == (i->op == OP_KEEP_IF_TRUE)) {
          pc = i->slot - 1;
        } else {
          n--;
        }
        break;
      default: {
        int64_t b = op_takes[i->op] == 2 ? stack[--n] : 0;
        problem = apply((opcode)i->op, stack[n - 1], b, &stack[n - 1]);
      }
    }
    if (problem) {
      snprintf(message, size, "column %d: %s", i->column, problem);
      return false;
    }
  }
  memcpy(out, stack, sizeof *out * (size_t)e->dims);
  return true;
}

/* ---- the public evaluator ---------------------------------------------------------------------------------------- */

enum { MAX_NAMES = 32, MAX_NAME = 128 };

typedef struct evaluation {
  tk_lookup_fn lookup;
  void *user;
  int n;
  char names[MAX_NAMES][MAX_NAME];
  char why[MAX_NAME + 64];
} evaluation;

static int evaluation_find(const void *user, const char *name, size_t len) {
  evaluation *v = (evaluation *)user;
  if (len >= MAX_NAME) return -1;
  for (int i = 0; i < v->n; i++)
    if (is_word(name, len, v->names[i])) return i;
  if (v->n == MAX_NAMES) return -1;
  memcpy(v->names[v->n], name, len);
  v->names[v->n][len] = '\0';
  return v->n++;
}

static const char *evaluation_get(const void *user, int slot, tk__member member, int64_t index, int64_t *value) {
  static const char *const members[] = {
      [TK__VALUE] = NULL, [TK__SHAPE] = "shape", [TK__STRIDE] = "stride", [TK__NUMEL] = "numel"};
  evaluation *v = (evaluation *)user;
  *value = 0;
  if (v->lookup && v->lookup(v->user, v->names[slot], members[member], index, value)) return NULL;
  snprintf(v->why, sizeof v->why, "'%s%s%s' has no integer value here", v->names[slot], member ? "." : "",
           member ? members[member] : "");
  return v->why;
}

bool tk_evaluate(const char *text, tk_lookup_fn lookup, void *user, int64_t *value, char *message,
                 size_t message_size) {
  evaluation v = {.lookup = lookup, .user = user};
  tk__names names = {evaluation_find, evaluation_get, &v};
  tk__expr e;
  int64_t out;
  char scratch[160];
  if (!message || !message_size) {
    message = scratch;
    message_size = sizeof scratch;
  }
  snprintf(message, message_size, "there is no text");
  *value = 0;
  if (!text || !tk__expr_compile(text, 1, &names, &e, message, message_size) ||
      !tk__expr_run(&e, &names, &out, message, message_size))
    return false;
  *value = out;
  return true;
}
