/* Statements: recursive descent, and the entry ast_parse().
 *
 * A compound statement whose header broke still has its body parsed, and so has a block below a line that made no
 * sense: only their own line is lost to further messages.
 *
 * Host code. A .py file is parsed as a whole, since nothing but parsing tells where a function ends. Statements that
 * tkc has no use for (class, async, match, del ...) are skipped by their tokens and leave an OPAQUE node; `try` is
 * parsed, because imports and kernels stand in it, and keeps its first suite. */
#include "lang/lang_diags.h"
#include "lang/parser.h"

#include <string.h>

/* ---- suites --------------------------------------------------------------------------------------------------- */

static void statement(parser *p, node_list *out);
static void simple_statements(parser *p, node_list *out);

/* Statements up to the DEDENT that ends the block, which is consumed; at module level up to the end of the file. */
static void block(parser *p, node_list *out) {
  int extra = 0;
  while (p->tok.kind != TOK_END) {
    if (p->tok.kind == TOK_DEDENT) {
      parse_advance(p);
      if (extra == 0) return;
      extra--;
    } else if (p->tok.kind == TOK_INDENT) {
      diag_add(p->sink, p->tok.at, &D_unexpected_indent);
      parse_advance(p);
      extra++;
    } else {
      statement(p, out);
    }
  }
}

/* Skips the block whose INDENT is current; unreadable tokens are mistakes in skipped code too. */
static void skip_block(parser *p) {
  int open = 0;
  do {
    open += p->tok.kind == TOK_INDENT;
    open -= p->tok.kind == TOK_DEDENT;
    if (p->tok.kind == TOK_BROKEN) parse_report(p, &p->tok);
    parse_advance(p);
  } while (open > 0 && p->tok.kind != TOK_END);
}

/* An INDENT is current: its block goes to `out`, unless it is too deep. */
static void indented(parser *p, node_list *out) {
  if (parse_enter(p)) {
    parse_advance(p);
    block(p, out);
  } else {
    parse_recover(p, p->tok.at.pos);
    skip_block(p);
  }
  parse_leave(p);
}

/* The colon and the body of a compound statement; `what` is the part of the header before it, `keyword` its first word.
   A broken header is skipped first, and the suite's flag says so. */
static ast_node *suite(parser *p, const char *what, const char *keyword, span header) {
  ast_node *n = parse_node(p, AST_SUITE, p->tok.at.pos);
  node_list list = {0};
  bool missing = !p->broken && p->tok.kind != TOK_COLON;
  if (missing && p->tok.kind == TOK_NEWLINE && p->n_brackets == 0) {
    diag_add(p->sink, (span){p->end, 0}, &D_expected, arena_printf(p->a, "':' after %s", what), "the end of the line");
  } else if (missing) {
    parse_expected(p, arena_printf(p->a, "':' after %s", what));
  }
  n->flag = p->broken;
  if (p->broken) {
    do {
      parse_recover(p, header.pos);
      if (p->tok.kind == TOK_SEMICOLON) parse_skip(p);
    } while (p->tok.kind == TOK_SEMICOLON);
  }
  p->in_header = false;
  bool colon = !n->flag && parse_accept(p, TOK_COLON);
  if (n->flag && p->tok.kind == TOK_INDENT) {
    indented(p, &list);
  } else if (parse_accept(p, TOK_NEWLINE)) {
    if (p->tok.kind == TOK_INDENT) {
      indented(p, &list);
    } else if (!n->flag) {
      bool ends = p->tok.kind == TOK_DEDENT || p->tok.kind == TOK_END;
      diag *d = diag_add(p->sink, ends ? (span){p->end, 0} : p->tok.at, &D_expected_block, keyword);
      diag_note(d, header, "this line ends in ':' and needs a body below it, deeper than itself");
    }
  } else if (colon) {
    simple_statements(p, &list);
  }
  parse_set_list(n, &list);
  return parse_end(p, n);
}

/* A compound statement is whole, or AST_ERROR if its header made no sense. */
static ast_node *compound(parser *p, ast_node *n, bool bad) {
  n = parse_end(p, n);
  if (!bad) return n;
  ast_node *error = parse_node(p, AST_ERROR, n->at.pos);
  error->at = n->at;
  return error;
}

/* ---- compound statements -------------------------------------------------------------------------------------- */

/* Consumes the keyword that a header starts with. */
static ast_node *header(parser *p, ast_kind kind, span *keyword) {
  ast_node *n = parse_node(p, kind, p->tok.at.pos);
  *keyword = p->tok.at;
  p->in_header = true;
  parse_advance(p);
  return n;
}

static ast_node *condition(parser *p) {
  ast_node *n = parse_named(p);
  if (p->tok.kind != TOK_ASSIGN) return n;
  diag_add(p->sink, p->tok.at, &D_assign_in_expression);
  parse_advance(p);
  parse_expression(p);
  return parse_end(p, parse_node(p, AST_ERROR, n->at.pos));
}

static ast_node *else_suite(parser *p) {
  span keyword = p->tok.at;
  p->in_header = true;
  parse_advance(p);
  return suite(p, "'else'", "else", keyword);
}

static ast_node *if_statement(parser *p) {
  span keyword;
  const char *word = lex_kind_text(p->tok.kind);
  ast_node *n = header(p, AST_IF, &keyword);
  n->kid[0] = condition(p);
  n->kid[1] = suite(p, "the condition", word, keyword);
  bool bad = n->kid[1]->flag;
  bool else_if = p->tok.kind == TOK_ELSE && parse_peek(p) == TOK_IF;
  if (else_if) {
    diag_add(p->sink, span_join(p->tok.at, p->ahead.at), &D_else_if);
    parse_advance(p);
  }
  if (else_if || p->tok.kind == TOK_ELIF) {
    if (parse_enter(p)) {
      n->kid[2] = if_statement(p);
      bad |= n->kid[2]->kind == AST_ERROR;
    }
    parse_leave(p);
  } else if (p->tok.kind == TOK_ELSE) {
    n->kid[2] = else_suite(p);
    bad |= n->kid[2]->flag;
  }
  return compound(p, n, bad);
}

static ast_node *loop_body(parser *p, ast_node *n, int body, const char *what, const char *word, span keyword) {
  p->n_loops++;
  n->kid[body] = suite(p, what, word, keyword);
  p->n_loops--;
  bool bad = n->kid[body]->flag;
  if (p->tok.kind == TOK_ELSE) {
    n->kid[body + 1] = else_suite(p);
    bad |= n->kid[body + 1]->flag;
  }
  return compound(p, n, bad);
}

static ast_node *while_statement(parser *p) {
  span keyword;
  ast_node *n = header(p, AST_WHILE, &keyword);
  n->kid[0] = condition(p);
  return loop_body(p, n, 1, "the condition", "while", keyword);
}

static ast_node *for_statement(parser *p) {
  span keyword;
  ast_node *n = header(p, AST_FOR, &keyword);
  n->kid[0] = parse_target(p, true);
  parse_expect(p, TOK_IN, "'in' and what to iterate over");
  n->kid[1] = parse_list(p);
  return loop_body(p, n, 2, "what to iterate over", "for", keyword);
}

static ast_node *context(parser *p) {
  p->used_as = false;
  p->allow_as = p->tok.kind == TOK_LPAREN;
  ast_node *n = parse_expression(p);
  p->allow_as = false;
  if (p->used_as && n->kind != AST_ASSIGN && n->kind != AST_TUPLE) parse_expected(p, "':' after the context");
  if (!parse_accept(p, TOK_AS)) return n;
  ast_node *x = parse_node(p, AST_ASSIGN, n->at.pos);
  node_list targets = {0};
  x->kid[0] = n;
  VEC_PUSH(p->a, targets, parse_target(p, false));
  parse_set_list(x, &targets);
  return parse_end(p, x);
}

static ast_node *with_statement(parser *p) {
  span keyword;
  ast_node *n = header(p, AST_WITH, &keyword);
  node_list contexts = {0};
  do VEC_PUSH(p->a, contexts, context(p));
  while (parse_accept(p, TOK_COMMA));
  ast_node *only = contexts.at[0];
  if (contexts.n == 1 && only->kind == AST_TUPLE && only->flag)
    parse_set_list(n, &(node_list){.at = only->list, .n = only->n_list});
  else
    parse_set_list(n, &contexts);
  n->kid[0] = suite(p, "the context", "with", keyword);
  return compound(p, n, n->kid[0]->flag);
}

static ast_node *try_statement(parser *p) {
  span keyword;
  ast_node *n = header(p, AST_OPAQUE, &keyword);
  n->name = strtab_str(p->names, "try");
  ast_node *first = suite(p, "'try'", "try", keyword);
  parse_set_list(n, &(node_list){.at = first->list, .n = first->n_list});
  bool handled = false;
  while (p->tok.kind == TOK_EXCEPT || p->tok.kind == TOK_FINALLY || (p->tok.kind == TOK_ELSE && handled)) {
    handled = true;
    const char *word = lex_kind_text(p->tok.kind);
    bool except = p->tok.kind == TOK_EXCEPT;
    keyword = p->tok.at;
    p->in_header = true;
    parse_advance(p);
    if (except) {
      parse_accept(p, TOK_STAR);
      if (p->tok.kind != TOK_COLON) parse_list(p);
      if (parse_accept(p, TOK_AS)) parse_name(p, &(span){0}, "a name after 'as'");
    }
    suite(p, arena_printf(p->a, "'%s'", word), word, keyword);
  }
  if (!handled && !first->flag) {
    diag *d = diag_add(p->sink, keyword, &D_stray_clause, "try", "'except' or 'finally'");
    diag_note(d, (span){p->end, 0}, "its block ends here");
  }
  return compound(p, n, first->flag);
}

static ast_node *function(parser *p, const node_list *decorators) {
  span keyword;
  ast_node *n = header(p, AST_FUNCTION, &keyword);
  node_list list = {0};
  n->name = parse_name(p, &n->name_at, "the name of the function");
  if (p->tok.kind == TOK_LBRACKET) {
    parse_open(p);
    while (p->tok.kind != TOK_RBRACKET && p->tok.kind > TOK_BROKEN) parse_advance(p);
    parse_close(p, TOK_RBRACKET, "']'");
  }
  if (p->tok.kind == TOK_LPAREN) {
    parse_open(p);
    parse_parameters(p, TOK_RPAREN, true, &list);
    parse_close(p, TOK_RPAREN, "',' or ')'");
  } else {
    parse_expected(p, "'(' and the parameters of the function");
  }
  if (parse_accept(p, TOK_ARROW)) n->kid[0] = parse_annotation(p, false);
  for (int i = 0; i < decorators->n; i++) VEC_PUSH(p->a, list, decorators->at[i]);
  parse_set_list(n, &list);
  int loops = p->n_loops;
  p->n_loops = 0;
  p->n_functions++;
  n->kid[1] = suite(p, "the parameters", "def", keyword);
  p->n_functions--;
  p->n_loops = loops;
  return compound(p, n, n->kid[1]->flag);
}

/* ---- host code ------------------------------------------------------------------------------------------------ */

/* Skips the tokens of a statement up to its end. */
static void skip_statement(parser *p, bool whole_line) {
  while (p->tok.kind > TOK_DEDENT) {
    if (p->tok.kind == TOK_SEMICOLON && p->tok.depth == 0 && !whole_line) return;
    if (p->tok.kind == TOK_BROKEN) parse_report(p, &p->tok);
    parse_advance(p);
  }
}

/* A statement with its block, by its tokens; `from` is where it starts, which may be before the current token. */
static ast_node *opaque_block(parser *p, uint32_t from, const char *name) {
  ast_node *n = parse_node(p, AST_OPAQUE, from);
  n->name = name;
  skip_statement(p, true);
  parse_accept(p, TOK_NEWLINE);
  if (p->tok.kind == TOK_INDENT) skip_block(p);
  return parse_end(p, n);
}

static ast_node *opaque_simple(parser *p) {
  ast_node *n = parse_node(p, AST_OPAQUE, p->tok.at.pos);
  n->name = p->tok.name;
  skip_statement(p, false);
  return parse_end(p, n);
}

/* `match` is a name unless the statement can be nothing else; `match (x):` is found out at its colon. */
static bool at_match(parser *p) {
  if (p->tok.kind != TOK_NAME || p->tok.name != p->word_match) return false;
  switch (parse_peek(p)) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_IMAG:
    case TOK_STRING:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE:
    case TOK_LBRACE:
    case TOK_TILDE:
    case TOK_LAMBDA:
    case TOK_AWAIT: return true;
    default: return false;
  }
}

/* ---- simple statements ---------------------------------------------------------------------------------------- */

static ast_node *dotted_name(parser *p, ast_node *n) {
  textbuf b;
  text_init(&b, p->a);
  span at = p->tok.at;
  do {
    const char *part = parse_name(p, &n->name_at, "the name of a module");
    if (!part) return n;
    if (b.n) text_char(&b, '.');
    text_str(&b, part);
  } while (parse_accept(p, TOK_DOT));
  n->name_at = span_join(at, n->name_at);
  n->name = strtab_intern(p->names, b.at, b.n);
  return n;
}

static ast_node *import_alias(parser *p, ast_node *n) {
  if (parse_accept(p, TOK_AS)) {
    span at;
    n->u.s = parse_name(p, &at, "a name after 'as'");
    n->u.s_len = n->u.s ? strlen(n->u.s) : 0;
  }
  return parse_end(p, n);
}

static ast_node *import_statement(parser *p) {
  ast_node *n = parse_node(p, AST_IMPORT, p->tok.at.pos);
  node_list names = {0};
  parse_advance(p);
  do VEC_PUSH(p->a, names, import_alias(p, dotted_name(p, parse_node(p, AST_IMPORT_NAME, p->tok.at.pos))));
  while (parse_accept(p, TOK_COMMA));
  parse_set_list(n, &names);
  return parse_end(p, n);
}

static ast_node *imported_name(parser *p) {
  ast_node *x = parse_node(p, AST_IMPORT_NAME, p->tok.at.pos);
  x->name = parse_name(p, &x->name_at, "the name to import");
  return import_alias(p, x);
}

/* from M import names */
static ast_node *from_statement(parser *p) {
  ast_node *n = parse_node(p, AST_IMPORT, p->tok.at.pos);
  node_list names = {0};
  textbuf module;
  text_init(&module, p->a);
  parse_advance(p);
  for (; p->tok.kind == TOK_DOT || p->tok.kind == TOK_ELLIPSIS; parse_advance(p)) {
    n->name_at = span_join(n->name_at, p->tok.at);
    text_str(&module, lex_kind_text(p->tok.kind));
  }
  if (module.n == 0 || p->tok.kind != TOK_IMPORT) {
    ast_node path = {0};
    dotted_name(p, &path);
    if (path.name) text_str(&module, path.name);
    n->name_at = span_join(n->name_at, path.name_at);
  }
  n->name = strtab_intern(p->names, module.at, module.n);
  parse_expect(p, TOK_IMPORT, "'import' and the names to import");
  if (p->tok.kind == TOK_STAR) {
    ast_node *all = parse_node(p, AST_IMPORT_NAME, p->tok.at.pos);
    all->name = strtab_str(p->names, "*");
    all->name_at = p->tok.at;
    parse_advance(p);
    VEC_PUSH(p->a, names, parse_end(p, all));
  } else if (p->tok.kind == TOK_LPAREN) {
    parse_open(p);
    do VEC_PUSH(p->a, names, imported_name(p));
    while (parse_accept(p, TOK_COMMA) && p->tok.kind != TOK_RPAREN);
    parse_close(p, TOK_RPAREN, "',' or ')'");
  } else {
    do VEC_PUSH(p->a, names, imported_name(p));
    while (parse_accept(p, TOK_COMMA));
  }
  parse_set_list(n, &names);
  return parse_end(p, n);
}

static ast_node *assert_statement(parser *p) {
  ast_node *n = parse_node(p, AST_ASSERT, p->tok.at.pos);
  parse_advance(p);
  n->kid[0] = condition(p);
  if (parse_accept(p, TOK_COMMA)) n->kid[1] = parse_expression(p);
  return parse_end(p, n);
}

static ast_node *return_statement(parser *p) {
  ast_node *n = parse_node(p, AST_RETURN, p->tok.at.pos);
  if (p->n_functions == 0) diag_add(p->sink, p->tok.at, &D_outside_function, "return");
  parse_advance(p);
  if (parse_starts_expression(p->tok.kind) || p->tok.kind == TOK_YIELD) n->kid[0] = parse_list(p);
  return parse_end(p, n);
}

static ast_node *word_statement(parser *p, ast_kind kind) {
  ast_node *n = parse_node(p, kind, p->tok.at.pos);
  if (kind != AST_PASS && p->n_loops == 0) diag_add(p->sink, p->tok.at, &D_outside_loop, lex_kind_text(p->tok.kind));
  parse_advance(p);
  return parse_end(p, n);
}

static ast_node *annotated(parser *p, ast_node *target, uint32_t from) {
  ast_node *n = parse_node(p, AST_ANNASSIGN, from);
  const char *fault = target->kind == AST_TUPLE ? "several targets at once with a type" : NULL;
  if (fault)
    diag_add(p->sink, target->at, &D_bad_target, fault);
  else
    parse_check_target(p, target);
  parse_advance(p);
  if (p->tok.kind == TOK_NEWLINE) parse_expected(p, "a type after ':'");
  n->kid[0] = target;
  n->kid[1] = parse_annotation(p, true);
  if (parse_accept(p, TOK_ASSIGN)) n->kid[2] = parse_list(p);
  return parse_end(p, n);
}

static ast_node *assignment(parser *p, ast_node *first, uint32_t from) {
  ast_node *n = parse_node(p, AST_ASSIGN, from);
  node_list targets = {0};
  ast_node *value = first;
  while (parse_accept(p, TOK_ASSIGN)) {
    parse_check_target(p, value);
    VEC_PUSH(p->a, targets, value);
    value = parse_list(p);
  }
  n->kid[0] = value;
  parse_set_list(n, &targets);
  return parse_end(p, n);
}

/* An expression, or what an expression turns out to start: an assignment of some kind, or `match (x):`. */
static ast_node *expression_statement(parser *p) {
  uint32_t from = p->tok.at.pos;
  bool match = p->tok.kind == TOK_NAME && p->tok.name == p->word_match;
  ast_node *n = NULL;
  ast_node *first = p->tok.kind == TOK_STAR ? parse_target(p, true) : parse_list(p);
  ast_op op = parse_augmented(p->tok.kind);
  if (p->tok.kind == TOK_COLON && match && parse_peek(p) == TOK_NEWLINE) {
    n = opaque_block(p, from, p->word_match);
  } else if (p->tok.kind == TOK_COLON) {
    n = annotated(p, first, from);
  } else if (p->tok.kind == TOK_ASSIGN) {
    n = assignment(p, first, from);
  } else if (op != AOP_NOP) {
    n = parse_node(p, AST_AUGASSIGN, from);
    n->op = op;
    if (first->kind == AST_TUPLE || first->kind == AST_LIST)
      diag_add(p->sink, first->at, &D_bad_target, "several targets at once with an operator");
    else
      parse_check_target(p, first);
    parse_advance(p);
    n->kid[0] = first;
    n->kid[1] = parse_list(p);
  } else {
    n = parse_node(p, AST_EXPR, from);
    n->kid[0] = first;
  }
  return parse_end(p, n);
}

static ast_node *simple(parser *p) {
  switch (p->tok.kind) {
    case TOK_PASS: return word_statement(p, AST_PASS);
    case TOK_BREAK: return word_statement(p, AST_BREAK);
    case TOK_CONTINUE: return word_statement(p, AST_CONTINUE);
    case TOK_RETURN: return return_statement(p);
    case TOK_ASSERT: return assert_statement(p);
    case TOK_IMPORT: return import_statement(p);
    case TOK_FROM: return from_statement(p);
    case TOK_GLOBAL:
    case TOK_NONLOCAL:
    case TOK_DEL:
    case TOK_RAISE: return opaque_simple(p);
    default: break;
  }
  if (p->tok.kind == TOK_NAME && p->tok.name == p->word_type && parse_peek(p) == TOK_NAME) return opaque_simple(p);
  return expression_statement(p);
}

static bool is_clause(lex_kind k) { return k == TOK_ELSE || k == TOK_ELIF || k == TOK_EXCEPT || k == TOK_FINALLY; }

/* What belongs to a line that made no sense: a block below it, and the clauses behind that. */
static void absorb(parser *p) {
  node_list unused = {0};
  if (p->tok.kind == TOK_INDENT) indented(p, &unused);
  while (is_clause(p->tok.kind)) {
    span keyword = p->tok.at;
    const char *word = lex_kind_text(p->tok.kind);
    p->in_header = true;
    parse_advance(p);
    if (p->tok.kind == TOK_IF) {
      diag_add(p->sink, span_join(keyword, p->tok.at), &D_else_if);
      parse_advance(p);
    }
    if (p->tok.kind != TOK_COLON) condition(p);
    suite(p, "the condition", word, keyword);
  }
}

/* The keyword that the statement's first word may have been meant for, if what follows makes no sense behind a name. */
static const char *meant_keyword(parser *p) {
  if (p->tok.kind != TOK_NAME) return NULL;
  switch (parse_peek(p)) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_STRING:
    case TOK_COLON: return parse_similar_keyword(p->tok.name);
    default: return NULL;
  }
}

static void simple_statements(parser *p, node_list *out) {
  do {
    if (p->tok.kind == TOK_NEWLINE) break;
    uint32_t from = p->tok.at.pos;
    span first = p->tok.at;
    const char *meant = meant_keyword(p);
    const diag *before = p->sink->last;
    ast_node *n = simple(p);
    if (n->kind == AST_OPAQUE && n->name == p->word_match) {
      VEC_PUSH(p->a, *out, n);
      return;
    }
    if (!p->broken && p->tok.kind > TOK_NEWLINE && p->tok.kind != TOK_SEMICOLON)
      parse_expected(p, "the end of the statement");
    if (p->broken) {
      if (meant && p->sink->last != before) diag_fix(p->sink->last, first, "did you mean '%s'?", meant);
      parse_recover(p, from);
      n = parse_end(p, parse_node(p, AST_ERROR, from));
      VEC_PUSH(p->a, *out, n);
      if (p->tok.kind == TOK_SEMICOLON) continue;
      parse_accept(p, TOK_NEWLINE);
      absorb(p);
      return;
    }
    VEC_PUSH(p->a, *out, n);
  } while (parse_accept(p, TOK_SEMICOLON));
  parse_accept(p, TOK_NEWLINE);
}

/* ---- statements ----------------------------------------------------------------------------------------------- */

/* `else` and its like where nothing is that they could belong to. */
static ast_node *stray_clause(parser *p) {
  lex_kind k = p->tok.kind;
  const char *owner = k == TOK_ELSE ? "'if', 'for' or 'while'" : k == TOK_ELIF ? "'if'" : "'try'";
  diag_add(p->sink, p->tok.at, &D_stray_clause, lex_kind_text(k), owner);
  uint32_t from = p->tok.at.pos;
  absorb(p);
  return parse_end(p, parse_node(p, AST_ERROR, from));
}

static ast_node *decorated(parser *p) {
  node_list decorators = {0};
  uint32_t from = p->tok.at.pos;
  while (p->tok.kind == TOK_AT) {
    ast_node *n = parse_node(p, AST_DECORATOR, p->tok.at.pos);
    uint32_t start = p->tok.at.pos;
    parse_advance(p);
    n->kid[0] = parse_named(p);
    if (p->tok.kind != TOK_NEWLINE) parse_expected(p, "the end of the line after the decorator");
    if (p->broken) {
      parse_recover(p, start);
      while (p->tok.kind == TOK_SEMICOLON) parse_skip(p);
    } else {
      VEC_PUSH(p->a, decorators, parse_end(p, n));
    }
    parse_accept(p, TOK_NEWLINE);
  }
  switch (p->tok.kind) {
    case TOK_DEF: return function(p, &decorators);
    case TOK_CLASS:
    case TOK_ASYNC: return opaque_block(p, from, p->tok.name);
    default:
      if (p->tok.kind != TOK_BROKEN)
        diag_add(p->sink, p->tok.at, &D_expected, "'def' or 'class' after the decorator", parse_found(p, &p->tok));
      return parse_end(p, parse_node(p, AST_ERROR, from));
  }
}

static void statement(parser *p, node_list *out) {
  ast_node *n;
  p->in_header = false;
  switch (p->tok.kind) {
    case TOK_IF: n = if_statement(p); break;
    case TOK_WHILE: n = while_statement(p); break;
    case TOK_FOR: n = for_statement(p); break;
    case TOK_WITH: n = with_statement(p); break;
    case TOK_TRY: n = try_statement(p); break;
    case TOK_DEF: n = function(p, &(node_list){0}); break;
    case TOK_AT: n = decorated(p); break;
    case TOK_CLASS:
    case TOK_ASYNC: n = opaque_block(p, p->tok.at.pos, p->tok.name); break;
    case TOK_ELSE:
    case TOK_ELIF:
    case TOK_EXCEPT:
    case TOK_FINALLY: n = stray_clause(p); break;
    case TOK_NEWLINE: parse_advance(p); return;
    default:
      if (!at_match(p)) {
        simple_statements(p, out);
        return;
      }
      n = opaque_block(p, p->tok.at.pos, p->word_match);
      break;
  }
  VEC_PUSH(p->a, *out, n);
  if (p->broken) {
    parse_recover(p, n->at.pos);
    parse_accept(p, TOK_NEWLINE);
    absorb(p);
  }
}

ast_file *ast_parse(diag_sink *sink, strtab *names, const src_file *source) {
  ast_file *file = ARENA_NEW(sink->a, ast_file);
  parser *p = ARENA_NEW(sink->a, parser);
  p->a = sink->a;
  p->sink = sink;
  p->names = names;
  p->word_match = strtab_str(names, "match");
  p->word_type = strtab_str(names, "type");
  p->word_const = strtab_str(names, "const");
  lex_check_text(sink, source);
  lex_init(&p->lex, p->a, names, source->text, source->len, source->base);
  parse_skip(p);

  node_list statements = {0};
  while (p->tok.kind != TOK_END) block(p, &statements);
  ast_node *module = parse_node(p, AST_MODULE, source->base);
  parse_set_list(module, &statements);
  module = parse_end(p, module);
  module->at.len = (uint32_t)source->len;
  file->source = source;
  file->module = module;
  return file;
}
