/* The parser: trees, recovery, limits, whole host files, and the printed form. */
#include "lang/ast.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct unit {
  arena *a;
  diag_sink sink;
  ast_file *file;
} unit;

static void parse_bytes(unit *u, const char *text, size_t len) {
  u->a = arena_new();
  src_map *sources = src_map_new(u->a);
  diag_sink_init(&u->sink, u->a, sources);
  u->file = ast_parse(&u->sink, strtab_new(u->a), src_add(sources, "t", text, len));
}

static void parse(unit *u, const char *text) { parse_bytes(u, text, strlen(text)); }

static const char *diagnostics(const unit *u) {
  textbuf b;
  text_init(&b, u->a);
  diag_render(&u->sink, DIAG_LINE, false, &b);
  return b.at;
}

/* A tree in short: (kind payload ! kids list), '!' for the flag, '_' for a missing kid before a present one; names,
   literals and operators stand for themselves, expression statements for their expression. */
static void show(textbuf *b, const ast_node *n) {
  switch (n->kind) {
    case AST_NAME: text_str(b, n->name); return;
    case AST_INT: text_printf(b, "%llu", (unsigned long long)n->u.i); return;
    case AST_FLOAT: text_printf(b, "%g", n->u.f); return;
    case AST_STRING: text_printf(b, "%s'%s'", n->flag ? "b" : "", n->u.s); return;
    case AST_TRUE:
    case AST_FALSE:
    case AST_NONE:
    case AST_PASS:
    case AST_BREAK:
    case AST_CONTINUE:
    case AST_ERROR: text_str(b, ast_kind_name(n->kind)); return;
    case AST_EXPR: show(b, n->kid[0]); return;
    default: break;
  }
  bool is_operator = n->kind == AST_UNARY || n->kind == AST_BINARY || n->kind == AST_COMPARE || n->kind == AST_BOOLOP;
  text_printf(b, "(%s", is_operator ? ast_op_text(n->op) : ast_kind_name(n->kind));
  if (!is_operator && n->op) text_printf(b, " %s", ast_op_text(n->op));
  if (n->name) text_printf(b, " %s", n->name);
  if (n->kind == AST_IMPORT_NAME && n->u.s) text_printf(b, " as %s", n->u.s);
  if (n->flag) text_str(b, " !");
  int last = 3;
  while (last >= 0 && !n->kid[last]) last--;
  for (int i = 0; i <= last; i++) {
    text_char(b, ' ');
    if (n->kid[i])
      show(b, n->kid[i]);
    else
      text_char(b, '_');
  }
  for (int i = 0; i < n->n_list; i++) {
    text_char(b, ' ');
    show(b, n->list[i]);
  }
  text_char(b, ')');
}

static const char *shown(const unit *u) {
  textbuf b;
  text_init(&b, u->a);
  const ast_node *m = u->file->module;
  for (int i = 0; i < m->n_list; i++) {
    if (i) text_str(&b, "; ");
    show(&b, m->list[i]);
  }
  return b.at;
}

typedef struct parser_case {
  const char *text, *wanted;
} parser_case;

/* Trees without a diagnostic. */
static void trees(const parser_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unit u;
    parse(&u, cases[i].text);
    cr_expect_str_eq(shown(&u), cases[i].wanted, "%s\n  wanted: %s\n  got:    %s", cases[i].text, cases[i].wanted,
                     shown(&u));
    cr_expect_null(u.sink.first, "%s\n%s", cases[i].text, diagnostics(&u));
    arena_free(u.a);
  }
}
#define TREES(cases) trees(cases, sizeof cases / sizeof *cases)

Test(parser, operators_bind_as_in_python) {
  static const parser_case cases[] = {
      {"a or b and c", "(or a (and b c))"},
      {"a and b or c", "(or (and a b) c)"},
      {"not a and b", "(and (not a) b)"},
      {"not a == b", "(not (== a b))"},
      {"not not a", "(not (not a))"},
      {"a == b | c", "(== a (| b c))"},
      {"a | b ^ c & d", "(| a (^ b (& c d)))"},
      {"a & b << c", "(& a (<< b c))"},
      {"a << b + c >> d", "(>> (<< a (+ b c)) d)"},
      {"a + b * c - d", "(- (+ a (* b c)) d)"},
      {"a - b - c", "(- (- a b) c)"},
      {"a * b // c % d / e @ f", "(@ (/ (% (// (* a b) c) d) e) f)"},
      {"-a ** b", "(- (** a b))"},
      {"a ** -b ** c", "(** a (- (** b c)))"},
      {"a ** b ** c", "(** a (** b c))"},
      {"2 ** ~a.b", "(** 2 (~ (attribute b a)))"},
      {"-a * +b", "(* (- a) (+ b))"},
      {"(a + b) * c", "(* (+ a b) c)"},
      {"a is not b", "(is not a b)"},
      {"a is (not b)", "(is a (not b))"},
      {"a not in b", "(not in a b)"},
      {"a in b and not c in d", "(and (in a b) (not (in c d)))"},
      {"a < b", "(< a b)"},
      {"a < b <= c", "(and ! (< a b) (<= b c))"},
      {"a < b == c in d", "(and ! (and ! (< a b) (== b c)) (in c d))"},
      {"(a < b) < c", "(< (< a b) c)"},
      {"a < (b < c)", "(< a (< b c))"},
      {"a if b else c if d else e", "(ternary b a (ternary d c e))"},
      {"a or b if c and d else e", "(ternary (and c d) (or a b) e)"},
      {"lambda: a if b else c", "(lambda (ternary b a c))"},
      {"a + (b if c else d)", "(+ a (ternary c b d))"},
      {"a != b >= c > d", "(and ! (and ! (!= a b) (>= b c)) (> c d))"},
  };
  TREES(cases);
}

Test(parser, expressions) {
  static const parser_case cases[] = {
      {"f()", "(call f)"},
      {"f(a, *c, b=1, **e,)", "(call f a (star c) (keyword b 1) (dstar e))"},
      {"f(*a if b else c, **d or e)", "(call f (star (ternary b a c)) (dstar (or d e)))"},
      {"f(x for x in y)", "(call f (comprehension ! x x y))"},
      {"f(a)(b)[c].d", "(attribute d (subscript (call (call f a) b) c))"},
      {"a[1]", "(subscript a 1)"},
      {"a[1,]", "(subscript ! a 1)"},
      {"a[:, None]", "(subscript ! a (slice) None)"},
      {"a[1:2, ::3, x:, :-y]", "(subscript ! a (slice 1 2) (slice _ _ 3) (slice x) (slice _ (- y)))"},
      {"a[...]", "(subscript a (Ellipsis))"},
      {"()", "(tuple !)"},
      {"(a)", "a"},
      {"(a,)", "(tuple ! a)"},
      {"(a, *b)", "(tuple ! a (star b))"},
      {"a, b,", "(tuple a b)"},
      {"*a, b", "(tuple (star a) b)"},
      {"[]", "(list)"},
      {"[a, *b, c,]", "(list a (star b) c)"},
      {"[f(x) for x, y in z if x if not y]", "(comprehension (call f x) (tuple x y) z x (not y))"},
      {"(x for x in a if b)", "(comprehension ! x x a b)"},
      {"{}", "(dict)"},
      {"{a: b, 'c': 1,}", "(dict a b 'c' 1)"},
      {"{a, b}", "(opaque set)"},
      {"{**a, b: c}", "(opaque dict)"},
      {"{a: b for a in c}", "(opaque comprehension)"},
      {"{a for a in c}", "(opaque comprehension)"},
      {"[a for b in c for a in b]", "(opaque comprehension)"},
      {"(n := 3)", "(walrus n 3)"},
      {"f(n := 3, m=n)", "(call f (walrus n 3) (keyword m n))"},
      {"lambda x, *y, z=1, **k: x", "(lambda x (param x) (param * y) (param z ! _ 1) (param ** k))"},
      {"lambda *, a: a", "(lambda a (param a !))"},
      {"await f(x) + 1", "(+ (opaque await) 1)"},
      {"x = yield", "(assign (opaque yield) x)"},
      {"x = yield from y", "(assign (opaque yield) x)"},
      {"True, False, None", "(tuple True False None)"},
      {"0x10 + 1_0", "(+ 16 10)"},
      {"1.5e1", "15"},
  };
  TREES(cases);
}

Test(parser, strings) {
  static const parser_case cases[] = {
      {"'a' \"b\" '''c'''", "'abc'"},
      {"('a'\n 'b')", "'ab'"},
      {"b'a' b'b'", "b'ab'"},
      {"f''", "(fstring)"},
      {"f'a'", "(fstring 'a')"},
      {"f'a{b}c'", "(fstring 'a' (fvalue b) 'c')"},
      {"'x' f'{b}' 'y' f'z{c}'", "(fstring 'x' (fvalue b) 'yz' (fvalue c))"},
      {"f'{{{a}}}'", "(fstring '{' (fvalue a) '}')"},
      {"f'{a!r}{b!s:>5}'", "(fstring (fvalue r a) (fvalue s b (fstring '>5')))"},
      {"f'{a:{w}.{p}f}'", "(fstring (fvalue a (fstring (fvalue w) '.' (fvalue p) 'f')))"},
      {"f'{a=}'", "(fstring 'a=' (fvalue r ! a))"},
      {"f'{ a + 1 = :3}'", "(fstring ' a + 1 = ' (fvalue ! (+ a 1) (fstring '3')))"},
      {"f'{a==b}{a!=b}{a<=b}'", "(fstring (fvalue (== a b)) (fvalue (!= a b)) (fvalue (<= a b)))"},
      {"f'{(n:=3)}{n:=3}'", "(fstring (fvalue (walrus n 3)) (fvalue n (fstring '=3')))"},
      {"f'{a, b}{[1, 2][0]}{ {1: 2}[1] }'",
       "(fstring (fvalue (tuple a b)) (fvalue (subscript (list 1 2) 0)) (fvalue (subscript (dict 1 2) 1)))"},
      {"f'{d[\"k\"]}'", "(fstring (fvalue (subscript d 'k')))"},
      {"f'{f\"{x}\"}'", "(fstring (fvalue (fstring (fvalue x))))"},
      {"f'''{\na\n}'''", "(fstring (fvalue a))"},
      {"f'\\x41\\n{a}\\''", "(fstring 'A\n' (fvalue a) ''')"},
      {"rf'\\d{a}'", "(fstring '\\d' (fvalue a))"},
      {"f'\\{a}'", "(fstring '\\' (fvalue a))"},
      {"f'{(lambda x: x)(1)}'", "(fstring (fvalue (call (lambda x (param x)) 1)))"},
  };
  TREES(cases);
}

Test(parser, statements) {
  static const parser_case cases[] = {
      {"a = 1", "(assign 1 a)"},
      {"a = b, *c = d", "(assign d a (tuple b (star c)))"},
      {"(a, [b, c]) = d", "(assign d (tuple ! a (list b c)))"},
      {"a.b[c] = *d, e", "(assign (tuple (star d) e) (subscript (attribute b a) c))"},
      {"a += b, c", "(augassign + a (tuple b c))"},
      {"a -= 1; a *= 1; a /= 1; a //= 1; a %= 1; a **= 1; a @= 1",
       "(augassign - a 1); (augassign * a 1); (augassign / a 1); (augassign // a 1); (augassign % a 1); "
       "(augassign ** a 1); (augassign @ a 1)"},
      {"a &= 1; a |= 1; a ^= 1; a <<= 1; a >>= 1;",
       "(augassign & a 1); (augassign | a 1); (augassign ^ a 1); (augassign << a 1); (augassign >> a 1)"},
      {"a: tl.constexpr = 5", "(annassign a (attribute constexpr tl) 5)"},
      {"a.b: int", "(annassign (attribute b a) int)"},
      {"if a: b\nelif c: d\nelse: e", "(if a (suite b) (if c (suite d) (suite e)))"},
      {"if a:\n  b; c\n  d\ne", "(if a (suite b c d)); e"},
      {"while a:\n  break\nelse:\n  b", "(while a (suite break) (suite b))"},
      {"for i, *j in a, b:\n  continue\nelse:\n  c", "(for (tuple i (star j)) (tuple a b) (suite continue) (suite c))"},
      {"for x.y[0] in z: pass", "(for (subscript (attribute y x) 0) z (suite pass))"},
      {"while (n := f()) > 0: pass", "(while (> (walrus n (call f)) 0) (suite pass))"},
      {"assert a, 'b'", "(assert a 'b')"},
      {"import a.b.c as d, e", "(import (import-name a.b.c as d) (import-name e))"},
      {"from a.b import c as d, e", "(import a.b (import-name c as d) (import-name e))"},
      {"from . import (a, b as c,)", "(import . (import-name a) (import-name b as c))"},
      {"from ...a.b import *", "(import ...a.b (import-name *))"},
      {"with a: pass", "(with (suite pass) a)"},
      {"with a as b, c.d(): pass", "(with (suite pass) (assign a b) (call (attribute d c)))"},
      {"with (a as b, c as d,): pass", "(with (suite pass) (assign a b) (assign c d))"},
      {"with (a as b): pass", "(with (suite pass) (assign a b))"},
      {"with (a, b): pass", "(with (suite pass) a b)"},
      {"with (a).b as c: pass", "(with (suite pass) (assign (attribute b a) c))"},
      {"def f(): pass", "(def f _ (suite pass))"},
      {"def f():\n  return\n  return 1, *a", "(def f _ (suite (return) (return (tuple 1 (star a)))))"},
      {"def f():\n  def g(x): return x\n  return g",
       "(def f _ (suite (def g _ (suite (return x)) (param x)) (return g)))"},
      {"@a\n@b.c(d=1)\ndef f(x, y=1): pass",
       "(def f _ (suite pass) (param x) (param y _ 1) (decorator a) (decorator (call (attribute c b) (keyword d 1))))"},
      {"def f(a, /, b: int = 1, *c: x, d, e=2, **g) -> (int, str): pass",
       "(def f (tuple ! int str) (suite pass) (param a) (param b int 1) (param * c x) (param d !) (param e ! _ 2) "
       "(param ** g))"},
      {"def f(a, *, b): pass", "(def f _ (suite pass) (param a) (param b !))"},
      {"def f[T: int](a: T) -> T: pass", "(def f T (suite pass) (param a T))"},
  };
  TREES(cases);
}

Test(parser, annotations_of_kernels) {
  static const parser_case cases[] = {
      {"def f(x: *f32): pass", "(def f _ (suite pass) (param x (pointer f32)))"},
      {"def f(x: *const f32): pass", "(def f _ (suite pass) (param x (pointer ! f32)))"},
      {"def f(x: **f32): pass", "(def f _ (suite pass) (param x (pointer (pointer f32))))"},
      {"def f(x: *const *f32): pass", "(def f _ (suite pass) (param x (pointer ! (pointer f32))))"},
      {"def f(x: *const): pass", "(def f _ (suite pass) (param x (pointer const)))"},
      {"def f(x: *f16:16, n: i32:8=4): pass",
       "(def f _ (suite pass) (param x (divisible (pointer f16) 16)) (param n (divisible i32 8) 4))"},
      {"def f(B: constexpr = 1024): pass", "(def f _ (suite pass) (param B constexpr 1024))"},
      {"def f(B: 'tl.constexpr'): pass", "(def f _ (suite pass) (param B 'tl.constexpr'))"},
      {"def f(p: tl.pointer_type(tl.float32)): pass",
       "(def f _ (suite pass) (param p (call (attribute pointer_type tl) (attribute float32 tl))))"},
      {"def f(x: Optional[int] | None = None) -> i32: pass",
       "(def f i32 (suite pass) (param x (| (subscript Optional int) None) None))"},
      {"n: i32:16 = 3", "(annassign n (divisible i32 16) 3)"},
  };
  TREES(cases);
}

Test(parser, host_code_is_opaque) {
  static const parser_case cases[] = {
      {"class A(B, metaclass=C):\n  x: int = 1\n  def f(self):\n    if a:\n      pass\n  y = 2\na",
       "(opaque class); a"},
      {"class A: pass", "(opaque class)"},
      {"@d\nclass A:\n  pass\nb", "(opaque class); b"},
      {"async def f(x):\n  async with a as b:\n    await c\nd", "(opaque async); d"},
      {"@d\nasync def f(x): pass", "(opaque async)"},
      {"match a:\n  case [b, *_]:\n    pass\n  case _:\n    pass\nc", "(opaque match); c"},
      {"match (a):\n  case b: pass\nc", "(opaque match); c"},
      {"match [a, b][0]:\n  case b: pass\nc", "(opaque match); c"},
      {"match -a:\n  case b: pass", "(opaque match)"},
      {"match = 1; match.a = 2; match(b); match[0] = 1; match -a",
       "(assign 1 match); (assign 2 (attribute a match)); (call match b); (assign 1 (subscript match 0)); (- match a)"},
      {"type X = int\ntype = 3", "(opaque type); (assign 3 type)"},
      {"try:\n  import a\n  x = 1\nexcept (B, C) as e:\n  y\nexcept* D:\n  y\nelse:\n  z\nfinally:\n  w\nq",
       "(opaque try (import (import-name a)) (assign 1 x)); q"},
      {"del a, b[0]; global c; nonlocal d; raise E('x') from e",
       "(opaque del); (opaque global); (opaque nonlocal); (opaque raise)"},
      {"def f():\n  global a\n  class B: pass\n  try: pass\n  finally: pass\n  yield a\n  async for x in y: pass",
       "(def f _ (suite (opaque global) (opaque class) (opaque try pass) (opaque yield) (opaque async)))"},
  };
  TREES(cases);
}

static const char host_file[] =
    "#!/usr/bin/env python3\n"
    "\"\"\"A kernel\n\nand its host.\"\"\"\n"
    "from __future__ import annotations\n"
    "import os, torch\n"
    "try:\n    import triton\n    import triton.language as tl\nexcept ImportError as e:\n    raise RuntimeError from "
    "e\n"
    "\n"
    "DEVICE = torch.device(f'cuda:{torch.cuda.current_device()}')\n"
    "CONFIGS = [triton.Config({'BLOCK': b, **extra}, num_warps=w) for b in (64, 128) for w in [4, 8]]\n"
    "table: dict[str, list[int]] = {k: [*v] for k, v in items.items() if v}\n"
    "names = {n.lower() for n in table}\n"
    "\n"
    "class Softmax(torch.autograd.Function):\n"
    "    @staticmethod\n"
    "    def forward(ctx, x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:\n"
    "        ctx.save_for_backward(x)\n"
    "        return x\n"
    "\n"
    "    value = property(lambda self: self._value)\n"
    "\n"
    "@triton.autotune(configs=CONFIGS, key=['n'])\n"
    "@triton.jit\n"
    "def kernel(x_ptr, n, stride: tl.int64, BLOCK: tl.constexpr = 128):\n"
    "    '''doc'''\n"
    "    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]  # comment\n"
    "    x = tl.load(x_ptr + offs * stride,\n"
    "                mask=offs < n,\n"
    "                other=-float('inf'))\n"
    "    if BLOCK >= 64 and \\\n"
    "            n is not None:\n"
    "        x += 1.0\n"
    "    tl.store(x_ptr + offs, x, mask=(offs < n))\n"
    "\n"
    "async def fetch(url):\n    async with session.get(url) as r:\n        return await r.json()\n"
    "\n"
    "def run(x, *args, block=lambda m: (triton.cdiv(x.numel(), m['BLOCK']),), **kwargs) -> None:\n"
    "    first, *rest = args\n"
    "    kernel[block](x, x.numel(), *rest, **{**kwargs, 'BLOCK': 64})\n"
    "    total = sum(i * j for i in range(3) for j in rest if j)\n"
    "    match first:\n        case {'a': 1}:\n            pass\n        case _ if total:\n            return\n"
    "    with open('f') as f, torch.no_grad():\n        f.write(f'{total!r:>{8}} {x.shape=}\\n')\n"
    "    print(*rest, sep='', end=\"\" if total else '\\n')\n"
    "    while (line := f.readline()):\n        yield line\n    else:\n        del line\n"
    "    try:\n        assert x[..., ::2].is_cuda, \"no\"\n    except (TypeError, ValueError):\n        pass\n"
    "    finally:\n        global done; done = True\n"
    "\n"
    "if __name__ == \"__main__\":\n    run(torch.rand(10, device=DEVICE))\n";

Test(parser, a_python_file_is_taken_as_it_is) {
  unit u;
  parse(&u, host_file);
  cr_assert_null(u.sink.first, "%s", diagnostics(&u));
  const ast_node *kernel = NULL;
  for (int i = 0; i < u.file->module->n_list; i++) {
    const ast_node *n = u.file->module->list[i];
    cr_assert_neq(n->kind, AST_ERROR);
    if (n->kind == AST_FUNCTION && !strcmp(n->name, "kernel")) kernel = n;
  }
  cr_assert_not_null(kernel);
  cr_assert_eq(kernel->n_list, 6, "four parameters and two decorators");
  cr_assert_eq(kernel->kid[1]->n_list, 5);
  textbuf b;
  text_init(&b, u.a);
  show(&b, kernel->kid[1]->list[3]);
  cr_assert_str_eq(b.at, "(if (and (>= BLOCK 64) (is not n None)) (suite (augassign + x 1)))");
  arena_free(u.a);
}

/* ---- mistakes ------------------------------------------------------------------------------------------------- */

/* Each text and all that is said about it, without the file name. */
static void mistakes(const parser_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unit u;
    parse(&u, cases[i].text);
    textbuf b;
    text_init(&b, u.a);
    for (const char *s = diagnostics(&u); *s; s = strchr(s, '\n') + 1) {
      if (b.n) text_str(&b, " | ");
      if (!strncmp(s, "t:", 2)) s += 2;
      text_add(&b, s, strcspn(s, "\n"));
    }
    cr_expect_str_eq(b.at, cases[i].wanted, "%s\n  wanted: %s\n  got:    %s", cases[i].text, cases[i].wanted, b.at);
    arena_free(u.a);
  }
}
#define MISTAKES(cases) mistakes(cases, sizeof cases / sizeof *cases)

Test(parser, mistakes_are_told_once_and_say_what_to_do) {
  static const parser_case cases[] = {
      {"x = \ny = 1", "1:5: error: expected an expression, found the end of the line [expected]"},
      {"x = = 3", "1:5: error: expected an expression, found '=' [expected]"},
      {"x y", "1:3: error: expected the end of the statement, found name 'y' [expected]"},
      {"fro i in x:\n  pass\nelse:\n  pass",
       "1:5: error: expected the end of the statement, found name 'i' [expected] | 1:1: help: did you mean 'for'?"},
      {"esle:\n  pass",
       "1:6: error: expected a type after ':', found the end of the line [expected] | 1:1: help: did you mean 'else'?"},
      {"retrun x",
       "1:8: error: expected the end of the statement, found name 'x' [expected] | 1:1: help: did you mean 'return'?"},
      {"if a\n  b", "1:5: error: expected ':' after the condition, found the end of the line [expected]"},
      {"if a b:\n  c = = 1",
       "1:6: error: expected ':' after the condition, found name 'b' [expected] | 2:7: error: expected an expression, "
       "found '=' [expected]"},
      {"if a = 3:\n  b",
       "1:6: error: '=' assigns and cannot stand inside an expression; did you mean '=='? [assign_in_expression]"},
      {"f(a.b=1)",
       "1:6: error: '=' assigns and cannot stand inside an expression; did you mean '=='? [assign_in_expression]"},
      {"if a:\nb",
       "2:1: error: expected an indented block after 'if' [expected_block] | 1:1: note: this line ends in ':' and "
       "needs "
       "a body below it, deeper than itself"},
      {"def f():\n  if a:\n  b",
       "3:3: error: expected an indented block after 'if' [expected_block] | 2:3: note: this line ends in ':' and "
       "needs "
       "a body below it, deeper than itself"},
      {"a\n  b\n  c\nd", "2:1: error: unexpected indentation [unexpected_indent]"},
      {"if a:\n    b\n  c\n", "3:3: error: this indentation matches no enclosing block [inconsistent_dedent]"},
      {"if a:\n\tb\n        c",
       "3:9: error: this indentation mixes tabs and spaces so that its depth depends on the tab width; use spaces only "
       "[tab_space_mix]"},
      {"if a:\n  b\nelse if c:\n  d\nelse:\n  e", "3:1: error: 'else if' is spelled 'elif' [else_if]"},
      {"else:\n  a", "1:1: error: 'else' without a matching 'if', 'for' or 'while' at this indentation [stray_clause]"},
      {"except:\n  a", "1:1: error: 'except' without a matching 'try' at this indentation [stray_clause]"},
      {"try:\n  a\nb",
       "1:1: error: 'try' without a matching 'except' or 'finally' at this indentation [stray_clause] | 2:4: note: its "
       "block ends here"},
      {"for i range(3):\n  a = = 1",
       "1:7: error: expected 'in' and what to iterate over, found name 'range' [expected] | 2:7: error: expected an "
       "expression, found '=' [expected]"},
      {"def f(a b):\n  return\n",
       "1:9: error: expected ',' or ')', found name 'b' [expected] | 1:6: note: '(' was "
       "opened here"},
      {"def f:\n  return", "1:6: error: expected '(' and the parameters of the function, found ':' [expected]"},
      {"def f(a=1, b): pass",
       "1:12: error: parameter 'b' needs a default value because one before it has one [default_order]"},
      {"def f(a, b, *a): pass",
       "1:14: error: there are two parameters 'a' [parameter_twice] | 1:7: note: the first one is here"},
      {"f(a=1, b)",
       "1:8: error: a positional argument cannot follow a keyword argument; move it to the front or name it "
       "[argument_order]"},
      {"@a\nx = 1", "2:1: error: expected 'def' or 'class' after the decorator, found name 'x' [expected]"},
      {"return 1", "1:1: error: 'return' outside a function [outside_function]"},
      {"def f():\n  break", "2:3: error: 'break' outside a loop [outside_loop]"},
      {"for i in a:\n  def f(): continue", "2:12: error: 'continue' outside a loop [outside_loop]"},
      {"f() = 1", "1:1: error: cannot assign to a call [bad_target]"},
      {"1, a = b", "1:1: error: cannot assign to a literal [bad_target]"},
      {"a + b = c", "1:1: error: cannot assign to an expression [bad_target]"},
      {"for None in a: pass", "1:5: error: cannot assign to None [bad_target]"},
      {"a, b += 1", "1:1: error: cannot assign to several targets at once with an operator [bad_target]"},
      {"a, b: int", "1:1: error: cannot assign to several targets at once with a type [bad_target]"},
      {"x = *a", "1:5: error: '*' unpacks only inside a call, a list or a tuple [stray_star]"},
      {"x = a && b", "1:7: error: '&&' is not an operator; write 'and' [foreign_operator]"},
      {"x = a || b", "1:7: error: '||' is not an operator; write 'or' [foreign_operator]"},
      {"x = !a", "1:5: error: '!' is not an operator; write 'not' [foreign_operator]"},
      {"x =  # c++\n", "1:11: error: expected an expression, found the end of the line [expected]"},
      {"i++", "1:2: error: '++' is not an operator; write '+= 1' [foreign_operator]"},
      {"x = a ? b : c", "1:7: error: '?' is not an operator; write 'a if condition else b' [foreign_operator]"},
      {"x = a <> b", "1:7: error: '<>' is not an operator; write '!=' [foreign_operator]"},
      {"x = a === b", "1:7: error: '===' is not an operator; write '==' [foreign_operator]"},
      {"a + not b",
       "1:5: error: expected an operand; put 'not' and what follows in parentheses, found 'not' [expected]"},
      {"x = a if b",
       "1:11: error: expected 'else' and the other value of the conditional expression, found the end of the line "
       "[expected]"},
      {"a.1", "1:2: error: expected the end of the statement, found number '.1' [expected]"},
      {"a.\nb", "1:3: error: expected the name of an attribute after '.', found the end of the line [expected]"},
      {"import", "1:7: error: expected the name of a module, found the end of the line [expected]"},
      {"from a import", "1:14: error: expected the name to import, found the end of the line [expected]"},
      {"x = 08", "1:5: error: a decimal number cannot start with 0; drop the zeros [leading_zeros]"},
      {"x = 1.5f", "1:5: error: '1.5f' is not a number [bad_number]"},
      {"x = 'abc\ny = 1", "1:5: error: this string has no closing quote on its line [unterminated_string]"},
      {"x = '''abc\ny = 1", "1:5: error: this triple-quoted string is never closed [unterminated_triple]"},
      {"class A:\n  x = $\ny = = 1",
       "2:7: error: '$' has no meaning here [unexpected_character] | 3:5: error: expected an expression, found '=' "
       "[expected]"},
      {"x = 1 $ 2", "1:7: error: '$' has no meaning here [unexpected_character]"},
      {"x = \xe2\x80\x9c"
       "a\xe2\x80\x9d",
       "1:5: error: '\xe2\x80\x9c' only looks like a plain character; type the ASCII quote, space, minus or letter "
       "instead [lookalike_character]"},
      {"x = 1 \\ 2",
       "1:7: error: only the end of the line may follow the '\\' that continues a line [bad_continuation]"},
      {"x = '\\x1'", "1:6: error: invalid escape '\\x1': two hexadecimal digits have to follow \\x [bad_escape]"},
      {"x = b'\xc3\xa9'",
       "1:7: error: a bytes literal holds ASCII characters only; write others as \\x escapes [bytes_not_ascii]"},
      {"x = 'a' b'c'", "1:9: error: a bytes literal cannot be joined with a text string [mixed_bytes]"},
      {"x = '\xff' + 1", "1:6: error: byte 0xff is not UTF-8 text; save the file as UTF-8 [invalid_utf8]"},
      {"x = 1; y = = 2; z = 3; w = ) ; v",
       "1:12: error: expected an expression, found '=' [expected] | 1:28: error: ')' closes nothing "
       "[unmatched_bracket]"},
  };
  MISTAKES(cases);
}

Test(parser, open_brackets_cost_only_their_statement) {
  static const parser_case cases[] = {
      {"x = (1 + 2\ny = = 3",
       "1:5: error: '(' is never closed [never_closed] | 2:1: note: it is still open here | 2:5: error: expected an "
       "expression, found '=' [expected]"},
      {"x = f(a,\n  b\ny = 1\nz = = 2",
       "1:6: error: '(' is never closed [never_closed] | 3:1: note: it is still open here | 4:5: error: expected an "
       "expression, found '=' [expected]"},
      {"x = [1, (2]",
       "1:11: error: ']' does not close '(' [mismatched_bracket] | 1:9: note: this is the bracket to close"},
      {"x = 1)\ny = = 2",
       "1:6: error: ')' closes nothing [unmatched_bracket] | 2:5: error: expected an expression, found '=' [expected]"},
      {"if f(a, b:\n  c = = 1\nd = = 2",
       "1:5: error: '(' is never closed [never_closed] | 1:10: note: it is still open here | 2:7: error: expected an "
       "expression, found '=' [expected] | 3:5: error: expected an expression, found '=' [expected]"},
      {"def f():\n  x = {1: [2\n  return x\ny = = 1",
       "2:11: error: '[' is never closed [never_closed] | 3:1: note: it is still open here | 4:5: error: expected an "
       "expression, found '=' [expected]"},
      {"x = f(a b,\n      c,\n)\ny = = 1",
       "1:9: error: expected ',' or ')', found name 'b' [expected] | 1:6: note: '(' was opened here | 4:5: error: "
       "expected an expression, found '=' [expected]"},
      {"x = f(", "1:6: error: '(' is never closed [never_closed] | 1:7: note: it is still open here"},
  };
  MISTAKES(cases);
}

Test(parser, mistakes_in_f_strings) {
  static const parser_case cases[] = {
      {"f'{}'",
       "1:3: error: no expression follows '{' (write '{{' for the character) in this f-string [fstring_brace]"},
      {"f'{!r}'",
       "1:3: error: no expression follows '{' (write '{{' for the character) in this f-string "
       "[fstring_brace]"},
      {"f'a}'", "1:4: error: a single '}' (write '}}' for the character) in this f-string [fstring_brace]"},
      {"f'{a'", "1:3: error: '{' is never closed in this f-string [fstring_brace]"},
      {"f'{a:3'", "1:3: error: '{' is never closed in this f-string [fstring_brace]"},
      {"f'{a!x}'", "1:6: error: an unknown conversion (it is one of !r, !s and !a) in this f-string [fstring_brace]"},
      {"f'{a b}'; x = = 1",
       "1:6: error: expected '}', found name 'b' [expected] | 1:15: error: expected an expression, found '=' "
       "[expected]"},
      {"f'{a +}'", "1:7: error: expected an expression, found '}' [expected]"},
      {"f'{a + '", "1:8: error: expected an expression, found the end of the string [expected]"},
      {"f'{f(a}'", "1:7: error: '}' does not close '(' [mismatched_bracket] | 1:5: note: this is the bracket to close"},
      {"f'{a:{b c}}'", "1:9: error: expected '}', found name 'c' [expected]"},
  };
  MISTAKES(cases);
}

/* Thirty copies of forty lines, each with one mistake: as many messages, none elsewhere. */
Test(parser, many_mistakes_give_many_messages) {
  static const char *const lines[] = {
      "a = \n",
      "b = (1 + 2\n",
      "c = f(a, b]\n",
      "d = 3 $ 4\n",
      "e = 'abc\n",
      "f() = 3\n",
      "g = a && b\n",
      "if a = 3:\n    b\n",
      "if a == 3\n    b\n",
      "for i range(3):\n    b\n",
      "h(a=1, 2)\n",
      "i = a[1, 2\n",
      "def j(a=1, b): pass\n",
      "fi a:\n    b\n",
      "k = f'{a b}'\n",
      "l = {1: 2\n",
      "import\n",
      "while a:\nb\n",
      "m = 08\n",
      "return\n",
      "break\n",
      "n = 1.5f\n",
      "o = )\n",
      "p = a not b\n",
      "q = = 3\n",
      "r = lambda x y: 3\n",
      "from a import\n",
      "s = a if b\n",
      "1 = t\n",
      "x = 'a' b'c'\n",
  };
  enum { N = sizeof lines / sizeof *lines, COPIES = 30 };
  arena *a = arena_new();
  textbuf b;
  text_init(&b, a);
  int wanted_line[N * COPIES], line = 1;
  for (int i = 0; i < N * COPIES; i++) {
    const char *s = lines[i % N];
    wanted_line[i] = line;
    text_str(&b, s);
    text_str(&b, "good = f(1)\n");
    for (line++; *s; s++) line += *s == '\n';
  }
  unit u;
  parse_bytes(&u, b.at, b.n);
  int i = 0;
  for (const diag *d = u.sink.first; d; d = d->next, i++) {
    src_loc at;
    cr_assert(src_locate(u.sink.sources, d->at, &at));
    cr_assert_lt(i, N * COPIES);
    int slack = !strcmp(d->desc->id, "expected_block");
    cr_assert_eq(at.line - slack, wanted_line[i], "message %d is at line %d: %s", i, at.line, d->message);
  }
  cr_assert_eq(i, N * COPIES);
  int good = 0;
  for (int k = 0; k < u.file->module->n_list; k++) {
    const ast_node *n = u.file->module->list[k];
    good += n->kind == AST_ASSIGN && n->list[0]->kind == AST_NAME && !strcmp(n->list[0]->name, "good");
  }
  cr_assert_eq(good, N * COPIES, "%d good lines survive", good);
  arena_free(u.a);
  arena_free(a);
}

/* ---- limits --------------------------------------------------------------------------------------------------- */

static char *repeated(arena *a, const char *head, const char *body, int n, const char *tail) {
  textbuf b;
  text_init(&b, a);
  text_str(&b, head);
  for (int i = 0; i < n; i++) text_str(&b, body);
  text_str(&b, tail);
  return b.at;
}

Test(parser, depth_is_bounded) {
  static const struct {
    const char *head, *body, *tail;
    int fits; /* so many repetitions are right, and a hundred thousand are one mistake */
  } cases[] = {
      {"x = ", "(", "", 0},
      {"x = ", "[", "", 0},
      {"x = ", "f(", "", 0},
      {"x = ", "{1:", "", 0},
      {"x = ", "-", "1", 199},
      {"x = ", "not ", "1", 199},
      {"x = ", "a**", "1", 199},
      {"x = ", "lambda: ", "1", 199},
      {"x = ", "a if b else ", "1", 199},
      {"x = ", "1+", "1", 900},
      {"x = ", "1<", "1", 900},
      {"x = a", ".b", "", 900},
      {"x = a", "[0]", "", 900},
      {"x = a", "()", "", 900},
      {"def f(x: ", "*", "f32): pass", 199},
      {"x = ", "await ", "1", 199},
      {"x = ", "1 and ", "1", 900},
      {"x = ", "a[", "", 0},
      {"if a: pass\n", "elif a: pass\n", "", 190},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    arena *a = arena_new();
    unit u;
    parse(&u, repeated(a, cases[i].head, cases[i].body, 100000, cases[i].tail));
    cr_expect_eq(u.sink.n_errors, 1, "'%s': %d errors", cases[i].body, u.sink.n_errors);
    cr_expect(u.sink.first && strstr(diagnostics(&u), "[too_deep]"), "'%s': %s", cases[i].body,
              u.sink.first ? u.sink.first->message : "");
    textbuf b;
    text_init(&b, u.a);
    ast_print(u.file, &b);
    arena_free(u.a);
    if (cases[i].fits) {
      parse(&u, repeated(a, cases[i].head, cases[i].body, cases[i].fits, cases[i].tail));
      cr_expect_eq(u.sink.n_errors, 0, "%d of '%s': %s", cases[i].fits, cases[i].body, diagnostics(&u));
      arena_free(u.a);
    }
    arena_free(a);
  }
}

Test(parser, nested_blocks_are_bounded) {
  for (int n = 150; n <= 1050; n += 900) {
    arena *a = arena_new();
    textbuf b;
    text_init(&b, a);
    for (int i = 0; i < n; i++) text_printf(&b, "%*sif a:\n", i, "");
    text_printf(&b, "%*spass\nx = = 1\n", n, "");
    unit u;
    parse_bytes(&u, b.at, b.n);
    cr_expect_eq(u.sink.n_errors, n == 150 ? 1 : 2, "%d blocks: %d errors", n, u.sink.n_errors);
    arena_free(u.a);
    arena_free(a);
  }
}

/* Chains whose middle operands hold chains: printing must not visit them twice. */
Test(parser, chains_in_chains_are_printed_once) {
  arena *a = arena_new();
  textbuf b;
  text_init(&b, a);
  text_str(&b, repeated(a, "x = ", "1 < (", 90, "2"));
  text_str(&b, repeated(a, "", ") < 3", 90, "\n"));
  unit u;
  parse_bytes(&u, b.at, b.n);
  cr_assert_null(u.sink.first, "%s", diagnostics(&u));
  textbuf out;
  text_init(&out, u.a);
  ast_print(u.file, &out);
  int lines = 0;
  for (size_t i = 0; i < out.n; i++) lines += out.at[i] == '\n';
  cr_assert_eq(lines, 3 + 5 * 90 + 1);
  arena_free(u.a);
  arena_free(a);
}

/* ---- the printed form and places ------------------------------------------------------------------------------ */

Test(parser, printed_form) {
  unit u;
  parse(&u,
        "@kernel\ndef f(x: *const f32, *, B: constexpr = 4):\n    if not x:\n        return 1.5, b\"\\x00\\xc3\\n\"\n"
        "    y += a < 0x10 < c\n    import t.l as tl\n");
  textbuf b;
  text_init(&b, u.a);
  ast_print(u.file, &b);
  cr_assert_str_eq(b.at,
                   "module @1:1\n"
                   "  def f @2:1\n"
                   "    body: suite @2:42\n"
                   "      if @3:5\n"
                   "        condition: unary not @3:8\n"
                   "          operand: name x @3:12\n"
                   "        then: suite @3:13\n"
                   "          return @4:9\n"
                   "            value: tuple @4:16\n"
                   "              float 1.5 @4:16\n"
                   "              string b\"\\x00\\xc3\\n\" @4:21\n"
                   "      augassign + @5:5\n"
                   "        target: name y @5:5\n"
                   "        value: boolop and flag @5:10\n"
                   "          left: compare < @5:10\n"
                   "            left: name a @5:10\n"
                   "            right: int 16 @5:14\n"
                   "          right: compare < @5:14\n"
                   "            right: name c @5:21\n"
                   "      import @6:5\n"
                   "        import-name t.l as tl @6:12\n"
                   "    param x @2:7\n"
                   "      annotation: pointer flag @2:10\n"
                   "        element type: name f32 @2:17\n"
                   "    param B flag @2:25\n"
                   "      annotation: name constexpr @2:28\n"
                   "      default: int 4 @2:40\n"
                   "    decorator @1:1\n"
                   "      expression: name kernel @1:2\n");
  arena_free(u.a);
}

static const ast_node *find(const ast_node *n, ast_kind kind) {
  if (n->kind == kind) return n;
  const ast_node *got = NULL;
  for (int i = 0; i < 4 && !got; i++)
    if (n->kid[i]) got = find(n->kid[i], kind);
  for (int i = 0; i < n->n_list && !got; i++) got = find(n->list[i], kind);
  return got;
}

Test(parser, spans_cover_their_construct) {
  static const struct {
    const char *text;
    ast_kind kind;
    const char *span;
  } cases[] = {
      {"x = (a + b) * c # d", AST_BINARY, "(a + b) * c"},
      {"x = f(a,\n  b).c", AST_CALL, "f(a,\n  b)"},
      {"x = (f)(1)", AST_CALL, "(f)(1)"},
      {"x = (a)[1]", AST_SUBSCRIPT, "(a)[1]"},
      {"x = ( a , b )", AST_TUPLE, "( a , b )"},
      {"x = a , b", AST_TUPLE, "a , b"},
      {"x = [i for i in y]", AST_COMPREHENSION, "[i for i in y]"},
      {"f(i for i in y)", AST_COMPREHENSION, "i for i in y"},
      {"x = (a) if b else c", AST_TERNARY, "(a) if b else c"},
      {"x = 'a'  'b' ", AST_STRING, "'a'  'b'"},
      {"x = f'ab{ c !r:3}'", AST_FVALUE, "{ c !r:3}"},
      {"if a:\n  b\n\nc", AST_IF, "if a:\n  b"},
      {"@a\ndef f(x):\n  y\n\nz", AST_FUNCTION, "def f(x):\n  y"},
      {"def f(x : i32 = 3): pass", AST_PARAM, "x : i32 = 3"},
      {"def f(x: *f16 : 16): pass", AST_DIVISIBLE, "*f16 : 16"},
      {"class A:\n  b\nc", AST_OPAQUE, "class A:\n  b"},
      {"x = -  a", AST_UNARY, "-  a"},
      {"x = = 1", AST_ERROR, "x ="},
      {"f(a, k = 1)", AST_KEYWORD, "k = 1"},
      {"a[1 : 2]", AST_SLICE, "1 : 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unit u;
    parse(&u, cases[i].text);
    const ast_node *n = find(u.file->module, cases[i].kind);
    cr_assert_not_null(n, "%s", cases[i].text);
    const char *got = arena_printf(u.a, "%.*s", (int)n->at.len, cases[i].text + (n->at.pos - u.file->source->base));
    cr_expect_str_eq(got, cases[i].span, "%s: %s", cases[i].text, got);
    arena_free(u.a);
  }
  unit u;
  parse(&u, "def name(arg): call(key=value.attr)");
  static const struct {
    ast_kind kind;
    const char *name;
  } named[] = {{AST_FUNCTION, "name"}, {AST_PARAM, "arg"}, {AST_KEYWORD, "key"}, {AST_ATTRIBUTE, "attr"}};
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    const ast_node *n = find(u.file->module, named[i].kind);
    const src_file *f = u.file->source;
    cr_expect_eq(n->name_at.len, strlen(named[i].name));
    cr_expect_eq(memcmp(f->text + (n->name_at.pos - f->base), named[i].name, n->name_at.len), 0, "%s", named[i].name);
  }
  arena_free(u.a);
}

Test(parser, any_bytes_are_taken) {
  static const char *const texts[] = {"\xff\xfe\0\0", "\0\0\0\0", "((((",    "))))",   "\\\\\\\\",
                                      "\"\"\"\"",     "{{{{",     "\t \t\n", "f'{'",   "@@@@",
                                      "\r\r\r\r",     "def ",     "::::",    "if\n\n", "\xe2\x80\x9c\x80"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
      char text[8];
      memcpy(text, texts[i], 4);
      memcpy(text + 4, texts[k], 4);
      unit u;
      parse_bytes(&u, text, sizeof text);
      cr_assert_eq(u.file->module->kind, AST_MODULE);
      arena_free(u.a);
    }
  }
}
