/* Expressions: precedence climbing over the table precedence.def, whose levels follow Python's grammar.
 *
 * '**' binds tighter than a sign on its left and weaker than one on its right, so its right operand is parsed at the
 * level of signs. Conditional expressions, lambdas and ':=' are not in the table: they are not operators of equal
 * standing, since each of them is allowed in some places only.
 *
 * What tkc has no node for, because no kernel may use it (sets, nested comprehensions, await, yield), is parsed and
 * dropped; an OPAQUE node with a name remains, for whoever meets it to refuse. */
#include "lang/lang_diags.h"
#include "lang/parser.h"

/* ---- operators ------------------------------------------------------------------------------------------------ */

typedef enum level { NOT_INFIX, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, SIGN, POWER } level;

typedef struct operator_row {
  level infix;
  ast_kind kind;
  ast_op op;
  level prefix;
  ast_op prefix_op;
  ast_op augmented;
} operator_row;

static const operator_row operators[TOK_N] = {
#define INFIX(token, level, node, operator) \
  [TOK_##token].infix = level, [TOK_##token].kind = AST_##node, [TOK_##token].op = AOP_##operator,
#define PREFIX(token, level, operator) [TOK_##token].prefix = level, [TOK_##token].prefix_op = AOP_##operator,
#define AUGMENTED(token, operator) [TOK_##token].augmented = AOP_##operator,
#include "lang/precedence.def"
#undef INFIX
#undef PREFIX
#undef AUGMENTED
};

ast_op parse_augmented(lex_kind k) { return operators[k].augmented; }

static ast_node *binary(parser *p, level least);
static ast_node *atom(parser *p);

bool parse_starts_expression(lex_kind k) {
  switch (k) {
    case TOK_NAME:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_IMAG:
    case TOK_STRING:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE:
    case TOK_ELLIPSIS:
    case TOK_LPAREN:
    case TOK_LBRACKET:
    case TOK_LBRACE:
    case TOK_LAMBDA:
    case TOK_AWAIT:
    case TOK_STAR: return true;
    default: return operators[k].prefix != 0;
  }
}

static ast_node *opaque(parser *p, uint32_t from, const char *name) {
  ast_node *n = parse_node(p, AST_OPAQUE, from);
  n->name = strtab_str(p->names, name);
  return parse_end(p, n);
}

static ast_node *prefix(parser *p, level least) {
  const operator_row *row = &operators[p->tok.kind];
  uint32_t from = p->tok.at.pos;
  if (row->prefix) {
    if (row->prefix < least) {
      parse_expected(p, "an operand; put 'not' and what follows in parentheses");
      return parse_node(p, AST_ERROR, from);
    }
    ast_node *n = parse_node(p, AST_UNARY, from);
    n->op = row->prefix_op;
    parse_enter(p);
    if (!p->broken) parse_advance(p);
    n->kid[0] = binary(p, row->prefix);
    parse_leave(p);
    return parse_end(p, n);
  }
  if (p->tok.kind == TOK_AWAIT) {
    parse_enter(p);
    if (!p->broken) parse_advance(p);
    prefix(p, POWER);
    parse_leave(p);
    return opaque(p, from, "await");
  }
  return atom(p);
}

/* a < b < c: `left` is the comparison a < b, or the chain so far; its right operand is shared with the new one. */
static ast_node *chain(parser *p, uint32_t from, ast_node *left, ast_node *last, ast_op op, ast_node *right) {
  ast_node *next = parse_node(p, AST_COMPARE, last->kid[1]->at.pos);
  next->op = op;
  next->kid[0] = last->kid[1];
  next->kid[1] = right;
  ast_node *both = parse_node(p, AST_BOOLOP, from);
  both->op = AOP_AND;
  both->flag = true;
  both->kid[0] = left;
  both->kid[1] = parse_end(p, next);
  return parse_end(p, both);
}

static ast_node *binary(parser *p, level least) {
  uint32_t from = p->tok.at.pos;
  ast_node *left = prefix(p, least);
  ast_node *last = NULL; /* the last comparison of a chain */
  for (;;) {
    const operator_row *row = &operators[p->tok.kind];
    bool not_in = p->tok.kind == TOK_NOT && parse_peek(p) == TOK_IN;
    if (not_in) row = &operators[TOK_IN];
    if (row->infix == NOT_INFIX || row->infix < least) return left;
    ast_op op = not_in ? AOP_NOT_IN : row->op;
    if (not_in) parse_advance(p);
    parse_advance(p);
    if (op == AOP_IS && parse_accept(p, TOK_NOT)) op = AOP_IS_NOT;

    ast_node *right;
    if (row->infix == POWER) {
      parse_enter(p);
      right = binary(p, SIGN);
      parse_leave(p);
    } else {
      right = binary(p, row->infix + 1);
    }
    if (row->infix == COMPARE && last) {
      left = chain(p, from, left, last, op, right);
      last = left->kind == AST_BOOLOP ? left->kid[1] : NULL;
      continue;
    }
    ast_node *n = parse_node(p, row->kind, from);
    n->op = op;
    n->kid[0] = left;
    n->kid[1] = right;
    left = parse_end(p, n);
    last = row->infix == COMPARE && left->kind == AST_COMPARE ? left : NULL;
  }
}

/* ---- below the table ------------------------------------------------------------------------------------------ */

static ast_node *lambda(parser *p) {
  ast_node *n = parse_node(p, AST_LAMBDA, p->tok.at.pos);
  node_list params = {0};
  parse_enter(p);
  if (!p->broken) parse_advance(p);
  parse_parameters(p, TOK_COLON, false, &params);
  parse_expect(p, TOK_COLON, "':' after the parameters of the lambda");
  n->kid[0] = parse_expression(p);
  parse_leave(p);
  parse_set_list(n, &params);
  return parse_end(p, n);
}

ast_node *parse_expression(parser *p) {
  if (p->tok.kind == TOK_LAMBDA) return lambda(p);
  uint32_t from = p->tok.at.pos;
  ast_node *value = binary(p, OR);
  if (p->tok.kind != TOK_IF) return value;
  ast_node *n = parse_node(p, AST_TERNARY, from);
  n->kid[1] = value;
  parse_enter(p);
  if (!p->broken) parse_advance(p);
  n->kid[0] = binary(p, OR);
  parse_expect(p, TOK_ELSE, "'else' and the other value of the conditional expression");
  n->kid[2] = parse_expression(p);
  parse_leave(p);
  return parse_end(p, n);
}

ast_node *parse_named(parser *p) {
  if (p->tok.kind != TOK_NAME || parse_peek(p) != TOK_WALRUS) return parse_expression(p);
  ast_node *n = parse_node(p, AST_WALRUS, p->tok.at.pos);
  n->kid[0] = atom(p);
  parse_advance(p);
  n->kid[1] = parse_expression(p);
  return parse_end(p, n);
}

/* *value or **value, with the stars current. */
static ast_node *star(parser *p, ast_kind kind, ast_node *value(parser *)) {
  ast_node *n = parse_node(p, kind, p->tok.at.pos);
  parse_advance(p);
  n->kid[0] = value(p);
  return parse_end(p, n);
}

static ast_node *operand(parser *p) { return binary(p, BITOR); }

static ast_node *item(parser *p) { return p->tok.kind == TOK_STAR ? star(p, AST_STAR, operand) : parse_named(p); }

static ast_node *yield(parser *p) {
  uint32_t from = p->tok.at.pos;
  parse_enter(p);
  if (!p->broken) parse_advance(p);
  if (parse_accept(p, TOK_FROM))
    parse_expression(p);
  else if (parse_starts_expression(p->tok.kind))
    parse_list(p);
  parse_leave(p);
  return opaque(p, from, "yield");
}

/* The rest of a tuple whose first item is there, with its comma current. */
static ast_node *tuple(parser *p, ast_node *first, uint32_t from, ast_node *(*next)(parser *)) {
  ast_node *n = parse_node(p, AST_TUPLE, from);
  node_list items = {0};
  VEC_PUSH(p->a, items, first);
  while (parse_accept(p, TOK_COMMA) && parse_starts_expression(p->tok.kind)) VEC_PUSH(p->a, items, next(p));
  parse_set_list(n, &items);
  return parse_end(p, n);
}

ast_node *parse_list(parser *p) {
  if (p->tok.kind == TOK_YIELD) return yield(p);
  uint32_t from = p->tok.at.pos;
  ast_node *first = item(p);
  if (p->tok.kind == TOK_COMMA) return tuple(p, first, from, item);
  if (first->kind == AST_STAR && !p->broken) diag_add(p->sink, first->at, &D_stray_star);
  return first;
}

/* ---- targets -------------------------------------------------------------------------------------------------- */

static const char *target_fault(const ast_node *n) {
  switch (n->kind) {
    case AST_NAME:
    case AST_ATTRIBUTE:
    case AST_SUBSCRIPT:
    case AST_ERROR: return NULL;
    case AST_STAR: return target_fault(n->kid[0]);
    case AST_TUPLE:
    case AST_LIST:
      for (int i = 0; i < n->n_list; i++) {
        const char *fault = target_fault(n->list[i]);
        if (fault) return fault;
      }
      return NULL;
    case AST_CALL: return "a call";
    case AST_INT:
    case AST_FLOAT:
    case AST_IMAG:
    case AST_STRING:
    case AST_FSTRING: return "a literal";
    case AST_TRUE: return "True";
    case AST_FALSE: return "False";
    case AST_NONE: return "None";
    case AST_COMPARE: return "a comparison";
    case AST_TERNARY: return "a conditional expression";
    default: return "an expression";
  }
}

void parse_check_target(parser *p, const ast_node *n) {
  const char *fault = p->broken ? NULL : target_fault(n);
  if (fault) diag_add(p->sink, n->at, &D_bad_target, fault);
}

static ast_node *target_item(parser *p) { return p->tok.kind == TOK_STAR ? star(p, AST_STAR, operand) : operand(p); }

ast_node *parse_target(parser *p, bool many) {
  uint32_t from = p->tok.at.pos;
  ast_node *n = target_item(p);
  if (many && p->tok.kind == TOK_COMMA) n = tuple(p, n, from, target_item);
  parse_check_target(p, n);
  return n;
}

/* ---- parameters and annotations ------------------------------------------------------------------------------- */

static ast_node *parameter(parser *p, bool annotated, bool keyword_only, ast_op packs, bool *defaults) {
  ast_node *n = parse_node(p, AST_PARAM, p->tok.at.pos);
  n->op = packs;
  n->flag = keyword_only;
  if (packs) parse_advance(p);
  n->name = parse_name(p, &n->name_at, "the name of a parameter");
  if (annotated && parse_accept(p, TOK_COLON)) n->kid[0] = parse_annotation(p, true);
  if (!packs && parse_accept(p, TOK_ASSIGN)) {
    n->kid[1] = parse_expression(p);
    *defaults |= !keyword_only;
  } else if (*defaults && !keyword_only && !packs && !p->broken) {
    diag_add(p->sink, n->name_at, &D_default_order, n->name);
  }
  return parse_end(p, n);
}

/* The last of the list; looks at no more than 1000 names before it, since a text may be hostile. */
static void check_name_is_new(parser *p, const node_list *list) {
  const ast_node *n = list->at[list->n - 1];
  for (int i = list->n - 2; n->name && !p->broken && i >= 0 && i > list->n - 1000; i--)
    if (list->at[i]->name == n->name) {
      diag *d = diag_add(p->sink, n->name_at, &D_parameter_twice, n->name);
      diag_note(d, list->at[i]->name_at, "the first one is here");
      return;
    }
}

void parse_parameters(parser *p, lex_kind closer, bool annotated, node_list *out) {
  bool keyword_only = false, defaults = false;
  while (p->tok.kind != closer && !p->broken) {
    int n = out->n;
    if (p->tok.kind == TOK_SLASH) {
      parse_advance(p);
    } else if (p->tok.kind == TOK_STAR && parse_peek(p) != TOK_NAME) {
      parse_advance(p);
      keyword_only = true;
    } else if (p->tok.kind == TOK_STAR) {
      VEC_PUSH(p->a, *out, parameter(p, annotated, false, AOP_MUL, &defaults));
      keyword_only = true;
    } else if (p->tok.kind == TOK_DOUBLESTAR) {
      VEC_PUSH(p->a, *out, parameter(p, annotated, false, AOP_POW, &defaults));
    } else {
      VEC_PUSH(p->a, *out, parameter(p, annotated, keyword_only, AOP_NOP, &defaults));
    }
    if (out->n > n) check_name_is_new(p, out);
    if (!parse_accept(p, TOK_COMMA)) break;
  }
}

/* A type: an expression, or one or more '*' (each with `const` behind it if what it points to is only read) before
   another type. */
static ast_node *type(parser *p) {
  uint32_t from = p->tok.at.pos;
  bool two = p->tok.kind == TOK_DOUBLESTAR;
  if (!two && p->tok.kind != TOK_STAR) return parse_expression(p);
  ast_node *n = parse_node(p, AST_POINTER, two ? from + 1 : from);
  parse_enter(p);
  if (!p->broken) parse_advance(p);
  if (p->tok.kind == TOK_NAME && p->tok.name == p->word_const) {
    lex_kind next = parse_peek(p);
    n->flag = next == TOK_NAME || next == TOK_STAR || next == TOK_DOUBLESTAR;
    if (n->flag) parse_advance(p);
  }
  n->kid[0] = type(p);
  parse_leave(p);
  n = parse_end(p, n);
  if (!two) return n;
  ast_node *outer = parse_node(p, AST_POINTER, from);
  outer->kid[0] = n;
  return parse_end(p, outer);
}

ast_node *parse_annotation(parser *p, bool divisible) {
  ast_node *n = type(p);
  if (!divisible || p->tok.kind != TOK_COLON) return n;
  ast_node *d = parse_node(p, AST_DIVISIBLE, n->at.pos);
  parse_advance(p);
  d->kid[0] = n;
  d->kid[1] = binary(p, BITOR);
  return parse_end(p, d);
}

/* ---- brackets ------------------------------------------------------------------------------------------------- */

/* The clauses behind an element, with `for` or `async` current. More than one, or an asynchronous one: OPAQUE. */
static ast_node *comprehension(parser *p, ast_node *element, bool generator) {
  ast_node *n = parse_node(p, AST_COMPREHENSION, element->at.pos);
  n->kid[0] = element;
  n->flag = generator;
  node_list conditions = {0};
  int clauses = 0;
  bool async = false;
  while (p->tok.kind == TOK_FOR || p->tok.kind == TOK_ASYNC) {
    async |= parse_accept(p, TOK_ASYNC);
    parse_expect(p, TOK_FOR, "'for'");
    ast_node *target = parse_target(p, true);
    parse_expect(p, TOK_IN, "'in' and what to iterate over");
    ast_node *iterable = binary(p, OR);
    if (clauses++ == 0) {
      n->kid[1] = target;
      n->kid[2] = iterable;
    }
    while (parse_accept(p, TOK_IF)) {
      ast_node *condition = p->tok.kind == TOK_NAME && parse_peek(p) == TOK_WALRUS ? parse_named(p) : binary(p, OR);
      VEC_PUSH(p->a, conditions, condition);
    }
  }
  if (clauses != 1 || async) return opaque(p, element->at.pos, "comprehension");
  parse_set_list(n, &conditions);
  return parse_end(p, n);
}

static bool at_comprehension(const parser *p) { return p->tok.kind == TOK_FOR || p->tok.kind == TOK_ASYNC; }

/* `context as target` of a parenthesised `with`. */
static ast_node *as_item(parser *p) {
  ast_node *value = item(p);
  if (!parse_accept(p, TOK_AS)) return value;
  ast_node *n = parse_node(p, AST_ASSIGN, value->at.pos);
  node_list targets = {0};
  n->kid[0] = value;
  VEC_PUSH(p->a, targets, parse_target(p, false));
  parse_set_list(n, &targets);
  p->used_as = true;
  return parse_end(p, n);
}

static ast_node *parenthesised(parser *p) {
  uint32_t from = p->tok.at.pos;
  ast_node *(*next)(parser *) = p->allow_as ? as_item : item;
  p->allow_as = false;
  parse_open(p);
  ast_node *n;
  if (p->tok.kind == TOK_RPAREN) {
    n = parse_node(p, AST_TUPLE, from);
  } else if (p->tok.kind == TOK_YIELD) {
    n = yield(p);
  } else {
    n = next(p);
    if (at_comprehension(p))
      n = comprehension(p, n, true);
    else if (p->tok.kind == TOK_COMMA)
      n = tuple(p, n, from, next);
    else if (n->kind == AST_STAR && !p->broken)
      diag_add(p->sink, n->at, &D_stray_star);
  }
  bool whole = n->kind == AST_TUPLE && n->at.pos == from;
  parse_close(p, TOK_RPAREN, "',' or ')'");
  if (!whole && n->kind != AST_COMPREHENSION) return n;
  n->at.pos = from;
  n->flag = true;
  return parse_end(p, n);
}

static ast_node *list_display(parser *p) {
  ast_node *n = parse_node(p, AST_LIST, p->tok.at.pos);
  node_list items = {0};
  parse_open(p);
  if (p->tok.kind != TOK_RBRACKET) {
    do VEC_PUSH(p->a, items, item(p));
    while (!at_comprehension(p) && parse_accept(p, TOK_COMMA) && p->tok.kind != TOK_RBRACKET);
  }
  ast_node *made = items.n == 1 && at_comprehension(p) ? comprehension(p, items.at[0], false) : NULL;
  parse_close(p, TOK_RBRACKET, "',' or ']'");
  if (made) {
    made->at.pos = n->at.pos;
    return parse_end(p, made);
  }
  parse_set_list(n, &items);
  return parse_end(p, n);
}

/* {} with key: value pairs is a DICT; sets, comprehensions and ** are OPAQUE. */
static ast_node *brace_display(parser *p) {
  ast_node *n = parse_node(p, AST_DICT, p->tok.at.pos);
  node_list items = {0};
  const char *host = NULL;
  parse_open(p);
  while (p->tok.kind != TOK_RBRACE && !p->broken) {
    if (p->tok.kind == TOK_DOUBLESTAR) {
      star(p, AST_DSTAR, operand);
      host = "dict";
    } else {
      ast_node *key = item(p);
      VEC_PUSH(p->a, items, key);
      if (parse_accept(p, TOK_COLON))
        VEC_PUSH(p->a, items, parse_expression(p));
      else
        host = "set";
      if (at_comprehension(p)) {
        comprehension(p, key, false);
        host = "comprehension";
      }
    }
    if (!parse_accept(p, TOK_COMMA)) break;
  }
  parse_close(p, TOK_RBRACE, "',' or '}'");
  if (host) return opaque(p, n->at.pos, host);
  parse_set_list(n, &items);
  return parse_end(p, n);
}

static ast_node *argument(parser *p) {
  if (p->tok.kind == TOK_STAR) return star(p, AST_STAR, parse_expression);
  if (p->tok.kind == TOK_DOUBLESTAR) return star(p, AST_DSTAR, parse_expression);
  if (p->tok.kind == TOK_NAME && parse_peek(p) == TOK_ASSIGN) {
    ast_node *n = parse_node(p, AST_KEYWORD, p->tok.at.pos);
    n->name = parse_name(p, &n->name_at, "a name");
    parse_advance(p);
    n->kid[0] = parse_expression(p);
    return parse_end(p, n);
  }
  ast_node *n = parse_named(p);
  return at_comprehension(p) ? comprehension(p, n, true) : n;
}

static ast_node *call(parser *p, ast_node *callee, uint32_t from) {
  ast_node *n = parse_node(p, AST_CALL, from);
  n->kid[0] = callee;
  node_list arguments = {0};
  bool named = false;
  parse_open(p);
  while (p->tok.kind != TOK_RPAREN && !p->broken) {
    ast_node *x = argument(p);
    if (x->kind == AST_KEYWORD || x->kind == AST_DSTAR)
      named = true;
    else if (named && x->kind != AST_STAR && !p->broken)
      diag_add(p->sink, x->at, &D_argument_order);
    VEC_PUSH(p->a, arguments, x);
    if (!parse_accept(p, TOK_COMMA)) break;
  }
  parse_close(p, TOK_RPAREN, "',' or ')'");
  parse_set_list(n, &arguments);
  return parse_end(p, n);
}

static ast_node *index_item(parser *p) {
  uint32_t from = p->tok.at.pos;
  ast_node *start = p->tok.kind == TOK_COLON ? NULL : item(p);
  if (p->tok.kind != TOK_COLON) return start;
  ast_node *n = parse_node(p, AST_SLICE, from);
  n->kid[0] = start;
  for (int i = 1; i <= 2 && parse_accept(p, TOK_COLON); i++)
    if (parse_starts_expression(p->tok.kind)) n->kid[i] = parse_expression(p);
  return parse_end(p, n);
}

static ast_node *subscript(parser *p, ast_node *object, uint32_t from) {
  ast_node *n = parse_node(p, AST_SUBSCRIPT, from);
  n->kid[0] = object;
  node_list indices = {0};
  parse_open(p);
  do VEC_PUSH(p->a, indices, index_item(p));
  while (p->tok.kind == TOK_COMMA && (n->flag = true) && parse_accept(p, TOK_COMMA) && p->tok.kind != TOK_RBRACKET);
  parse_close(p, TOK_RBRACKET, "',' or ']'");
  parse_set_list(n, &indices);
  return parse_end(p, n);
}

/* ---- atoms ---------------------------------------------------------------------------------------------------- */

static ast_node *simple_atom(parser *p, ast_kind kind) {
  ast_node *n = parse_node(p, kind, p->tok.at.pos);
  if (kind == AST_NAME) n->name = p->tok.name;
  if (kind == AST_INT) n->u.i = lex_int(p->sink, &p->tok, &n->u.big);
  if (kind == AST_FLOAT || kind == AST_IMAG) n->u.f = lex_float(p->a, &p->tok);
  n->name_at = p->tok.at;
  parse_advance(p);
  return parse_end(p, n);
}

static ast_node *primary(parser *p) {
  switch (p->tok.kind) {
    case TOK_NAME: return simple_atom(p, AST_NAME);
    case TOK_INT: return simple_atom(p, AST_INT);
    case TOK_FLOAT: return simple_atom(p, AST_FLOAT);
    case TOK_IMAG: return simple_atom(p, AST_IMAG);
    case TOK_TRUE: return simple_atom(p, AST_TRUE);
    case TOK_FALSE: return simple_atom(p, AST_FALSE);
    case TOK_NONE: return simple_atom(p, AST_NONE);
    case TOK_ELLIPSIS: return simple_atom(p, AST_ELLIPSIS);
    case TOK_STRING: return parse_strings(p);
    case TOK_LPAREN: return parenthesised(p);
    case TOK_LBRACKET: return list_display(p);
    case TOK_LBRACE: return brace_display(p);
    default: parse_expected(p, "an expression"); return parse_node(p, AST_ERROR, p->tok.at.pos);
  }
}

static ast_node *atom(parser *p) {
  uint32_t from = p->tok.at.pos;
  ast_node *n = primary(p);
  for (;;) {
    if (p->tok.kind == TOK_LPAREN) {
      n = call(p, n, from);
    } else if (p->tok.kind == TOK_LBRACKET) {
      n = subscript(p, n, from);
    } else if (p->tok.kind == TOK_DOT) {
      ast_node *x = parse_node(p, AST_ATTRIBUTE, from);
      parse_advance(p);
      x->kid[0] = n;
      x->name = parse_name(p, &x->name_at, "the name of an attribute after '.'");
      n = parse_end(p, x);
    } else {
      return n;
    }
  }
}
