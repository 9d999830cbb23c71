/* The parser's base: the token stream, reporting mistakes and going on after them, making nodes. See parser.h for how
 * mistakes travel up to the statement.
 *
 * Going on after a mistake. A statement that broke is skipped to its end: a line end or ';' outside brackets. If the
 * mistake was a bracket that nobody closed, that end would be the end of the file; so inside brackets a line that is
 * indented no more than the statement itself, and that does not start with a closing bracket, is taken for the next
 * statement, and the lexer starts again there with all brackets closed. */
#include "lang/lang_diags.h"
#include "lang/parser.h"

#include <string.h>

/* ---- tokens --------------------------------------------------------------------------------------------------- */

/* Of a long token, messages show the beginning. */
static int shown_length(const lex_token *t) { return (int)(t->at.len < 40 ? t->at.len : 40); }

void parse_report(parser *p, const lex_token *t) {
  if (t->problem) diag_add(p->sink, t->at, t->problem, arena_printf(p->a, "%.*s", shown_length(t), t->text));
}

void parse_skip(parser *p) {
  if (p->has_ahead)
    p->tok = p->ahead;
  else
    lex_next(&p->lex, &p->tok);
  p->has_ahead = false;
  if (p->tok.first && p->tok.depth == 0) p->line_col = p->tok.col;
}

void parse_advance(parser *p) {
  if (p->broken) return;
  if (p->tok.kind != TOK_BROKEN) parse_report(p, &p->tok);
  if (p->tok.kind > TOK_DEDENT) p->end = p->tok.at.pos + p->tok.at.len;
  parse_skip(p);
}

bool parse_accept(parser *p, lex_kind kind) {
  if (p->tok.kind != kind) return false;
  parse_advance(p);
  return true;
}

lex_kind parse_peek(parser *p) {
  if (p->broken) return TOK_BROKEN;
  if (!p->has_ahead) lex_next(&p->lex, &p->ahead);
  p->has_ahead = true;
  return p->ahead.kind;
}

bool parse_expect(parser *p, lex_kind kind, const char *wanted) {
  if (parse_accept(p, kind)) return true;
  parse_expected(p, wanted);
  return false;
}

void parse_break(parser *p) {
  if (p->broken) return;
  p->broken = true;
  p->resume = p->tok;
  p->tok.kind = TOK_BROKEN;
}

bool parse_enter(parser *p) {
  if (++p->depth <= PARSE_MAX_DEPTH) return true;
  if (!p->broken) diag_add(p->sink, p->tok.at, &D_too_deep, PARSE_MAX_DEPTH);
  parse_break(p);
  return false;
}

void parse_leave(parser *p) { p->depth--; }

void parse_open(parser *p) {
  if (parse_enter(p)) p->brackets[p->n_brackets] = p->tok.at;
  p->n_brackets++;
  parse_advance(p);
}

void parse_close(parser *p, lex_kind kind, const char *wanted) {
  if (p->tok.kind != kind) parse_expected(p, wanted);
  p->n_brackets--;
  parse_accept(p, kind);
  parse_leave(p);
}

const char *parse_name(parser *p, span *at, const char *wanted) {
  const char *name = p->tok.name;
  *at = p->tok.at;
  return parse_expect(p, TOK_NAME, wanted) ? name : NULL;
}

/* ---- mistakes ------------------------------------------------------------------------------------------------- */

static bool is_closer(lex_kind k) { return k == TOK_RPAREN || k == TOK_RBRACKET || k == TOK_RBRACE; }

const char *parse_found(parser *p, const lex_token *t) {
  switch (t->kind) {
    case TOK_END: return p->lex.embedded ? "the end of the string" : lex_kind_text(t->kind);
    case TOK_NEWLINE:
    case TOK_INDENT:
    case TOK_DEDENT:
    case TOK_STRING: return lex_kind_text(t->kind);
    case TOK_NAME: return arena_printf(p->a, "name '%.*s'", shown_length(t), t->text);
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_IMAG: return arena_printf(p->a, "number '%.*s'", shown_length(t), t->text);
    default: return arena_printf(p->a, "'%s'", lex_kind_text(t->kind));
  }
}

/* The current token is on a line that looks like the next statement, or the body of this one. */
static bool at_next_statement(parser *p) {
  const lex_token *t = &p->tok;
  if (t->kind <= TOK_DEDENT) return true;
  if (t->first && t->col <= p->line_col && !is_closer(t->kind)) return true;
  return p->in_header && t->kind == TOK_COLON && (parse_peek(p) <= TOK_DEDENT || p->ahead.first);
}

/* An operator of another language that ends with the current token or just before it: what to write here instead. */
static bool foreign_operator(parser *p) {
  static const struct {
    const char *text, *instead;
    size_t back; /* characters of it before the current token */
  } known[] = {{"&&", "and", 1}, {"||", "or", 1},  {"++", "+= 1", 2},   {"--", "-= 1", 2},
               {"<>", "!=", 1},  {"===", "==", 2}, {"=>", "lambda", 1}, {"?", "a if condition else b", 0},
               {"!", "not", 0}};
  const lex_token *t = &p->tok;
  const char *begin = p->lex.text;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].text), back = known[i].back;
    if ((size_t)(t->text - begin) < back || memcmp(t->text - back, known[i].text, n) != 0) continue;
    if ((t->at.len > 1 && back < n) || (back > 0 && p->end != t->at.pos)) continue;
    diag_add(p->sink, (span){t->at.pos - (uint32_t)back, (uint32_t)n}, &D_foreign_operator, known[i].text,
             known[i].instead);
    return true;
  }
  return false;
}

void parse_expected(parser *p, const char *wanted) {
  if (p->broken) return;
  const lex_token *t = &p->tok;
  bool inside = p->n_brackets > p->bracket_floor;
  span open = inside ? p->brackets[p->n_brackets - 1] : (span){0};
  const char opener[] = {inside ? p->lex.text[open.pos - p->lex.base] : '\0', '\0'};
  if (t->kind == TOK_BROKEN && t->problem != &D_unexpected_character) {
    parse_report(p, t);
  } else if (inside && at_next_statement(p)) {
    diag *d = diag_add(p->sink, open, &D_never_closed, opener);
    if (t->kind != TOK_END) diag_note(d, t->at, "it is still open here");
  } else if (is_closer(t->kind) && inside) {
    diag *d = diag_add(p->sink, t->at, &D_mismatched_bracket, lex_kind_text(t->kind), opener);
    diag_note(d, open, "this is the bracket to close");
  } else if (is_closer(t->kind) && !p->lex.embedded) {
    diag_add(p->sink, t->at, &D_unmatched_bracket, lex_kind_text(t->kind));
  } else if (foreign_operator(p)) {
    /* reported */
  } else if (t->kind == TOK_BROKEN) {
    parse_report(p, t);
  } else if (t->kind == TOK_ASSIGN && strncmp(wanted, "an expression", 13) != 0) {
    diag_add(p->sink, t->at, &D_assign_in_expression);
  } else {
    diag *d = diag_add(p->sink, t->at, &D_expected, wanted, parse_found(p, t));
    if (inside) diag_note(d, open, "'%s' was opened here", opener);
  }
  parse_break(p);
}

/* Whether b is a with one letter left out, added, changed, or two neighbours swapped. */
static bool one_slip(const char *a, size_t n, const char *b) {
  size_t m = strlen(b), i = 0, back = 0;
  while (i < n && i < m && a[i] == b[i]) i++;
  while (back < n - i && back < m - i && a[n - 1 - back] == b[m - 1 - back]) back++;
  size_t da = n - i - back, db = m - i - back;
  if (da + db == 1 || (da == 1 && db == 1)) return true;
  return da == 2 && db == 2 && a[i] == b[i + 1] && a[i + 1] == b[i];
}

const char *parse_similar_keyword(const char *name) {
  static const lex_kind starters[] = {TOK_DEF,  TOK_IF,     TOK_ELIF,   TOK_ELSE,   TOK_FOR,   TOK_WHILE, TOK_WITH,
                                      TOK_FROM, TOK_IMPORT, TOK_RETURN, TOK_ASSERT, TOK_CLASS, TOK_RAISE};
  size_t n = strlen(name);
  for (size_t i = 0; n > 1 && i < sizeof starters / sizeof *starters; i++)
    if (one_slip(name, n, lex_kind_text(starters[i]))) return lex_kind_text(starters[i]);
  return NULL;
}

void parse_recover(parser *p, uint32_t from) {
  p->tok = p->resume;
  p->broken = false;
  for (bool moved = p->tok.at.pos != from; p->tok.kind > TOK_DEDENT; moved = true) {
    const lex_token *t = &p->tok;
    if (moved && t->kind == TOK_SEMICOLON && t->depth == 0) return;
    bool header_end = p->in_header && t->kind == TOK_COLON && t->depth > 0;
    if (header_end) parse_peek(p);
    const lex_token *line = header_end ? &p->ahead : t;
    bool restart =
        line->first && line->depth > 0 && !is_closer(line->kind) && (header_end || (moved && t->col <= p->line_col));
    if (restart) {
      lex_restart(&p->lex, line);
      p->has_ahead = false;
      parse_skip(p);
      return;
    }
    if (t->problem == &D_unterminated_triple) parse_report(p, t);
    parse_skip(p);
  }
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

ast_node *parse_node(parser *p, ast_kind kind, uint32_t from) {
  ast_node *n = ARENA_NEW(p->a, ast_node);
  n->kind = kind;
  n->at.pos = from;
  n->height = 1;
  return n;
}

ast_node *parse_end(parser *p, ast_node *n) {
  if (p->end > n->at.pos) n->at.len = p->end - n->at.pos;
  int height = 0;
  for (int i = 0; i < 4; i++)
    if (n->kid[i] && n->kid[i]->height > height) height = n->kid[i]->height;
  for (int i = 0; i < n->n_list; i++)
    if (n->list[i]->height > height) height = n->list[i]->height;
  n->height = (short)(height + 1);
  if (n->height <= AST_MAX_HEIGHT) return n;
  if (!p->broken) diag_add(p->sink, (span){n->at.pos, 1}, &D_too_deep, AST_MAX_HEIGHT);
  parse_break(p);
  ast_node *error = parse_node(p, AST_ERROR, n->at.pos);
  error->at = n->at;
  return error;
}

void parse_set_list(ast_node *n, const node_list *list) {
  n->list = list->at;
  n->n_list = list->n;
}
