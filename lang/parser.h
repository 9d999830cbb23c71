/* What the chapters of the parser share: parser.c (tokens, mistakes, nodes), parser_statement.c (statements),
 * parser_expr.c (expressions), parser_text.c (strings and f-strings). Internal to lang/; ast.h is the interface.
 *
 * Mistakes. The first one of a statement is reported, and the current token is replaced by one that no rule accepts
 * (`broken`): every rule on the stack then ends by itself without a word, up to the statement, which finds the place to
 * go on. Nobody has to check for failure, but a loop must end when nothing is accepted. */
#ifndef LANG_PARSER_H
#define LANG_PARSER_H

#include "lang/ast.h"
#include "lang/lexer.h"

#define PARSE_MAX_DEPTH 200 /* blocks, brackets, prefix operators and conditional expressions inside one another */

typedef struct parser {
  arena *a;
  diag_sink *sink;
  strtab *names;
  lexer lex;
  lex_token tok, ahead; /* the current token, and the next one if has_ahead */
  bool has_ahead;
  bool broken;
  lex_token resume; /* the current token before it was replaced */
  uint32_t end;     /* position behind the last token consumed, layout aside */
  int line_col;     /* indentation of the current statement */
  int depth;
  span brackets[PARSE_MAX_DEPTH + 1]; /* open ones, the innermost last */
  int n_brackets, bracket_floor;      /* those below the floor are outside the f-string being parsed */
  bool in_header;                     /* of a compound statement: the next line may be its body */
  bool allow_as, used_as;             /* `with (a as b, c as d):` */
  int n_functions, n_loops;           /* around the current statement */
  const char *word_match, *word_type, *word_const;
} parser;

typedef struct node_list {
  ast_node **at;
  int n, cap;
} node_list;

/* ---- tokens (parser.c) ---------------------------------------------------------------------------------------- */

/* Consumes the current token and reports what is wrong with the indentation before it. */
void parse_advance(parser *p);
void parse_skip(parser *p); /* the same without a word */
bool parse_accept(parser *p, lex_kind kind);
lex_kind parse_peek(parser *p); /* kind of the token behind the current one */
/* Consumes a token of this kind or reports that `wanted` was expected. */
bool parse_expect(parser *p, lex_kind kind, const char *wanted);
/* One level deeper; false, and broken, if that is too deep. Each call needs its parse_leave. */
bool parse_enter(parser *p);
void parse_leave(parser *p);
/* Consumes an opening bracket and enters; parse_close expects its partner and leaves. */
void parse_open(parser *p);
void parse_close(parser *p, lex_kind kind, const char *wanted);
/* The current NAME: consumed, interned, and where it stood; NULL and a report if it is none. */
const char *parse_name(parser *p, span *at, const char *wanted);

/* ---- mistakes (parser.c) -------------------------------------------------------------------------------------- */

/* The current token is a mistake: reports it unless one is pending already, and breaks the statement. */
void parse_expected(parser *p, const char *wanted);
/* Breaks the statement for a mistake that has been reported. */
void parse_break(parser *p);
/* Skips the rest of a broken statement; `from` is where it started. Afterwards the current token is a ';' or line end
   outside brackets, or the start of another statement. */
void parse_recover(parser *p, uint32_t from);
/* Reports what the lexer found wrong with a token, if anything. */
void parse_report(parser *p, const lex_token *t);
/* A token in the words of a message. */
const char *parse_found(parser *p, const lex_token *t);
/* The keyword that starts statements and differs from this name by one slip; NULL if there is none. */
const char *parse_similar_keyword(const char *name);

/* ---- nodes (parser.c) ----------------------------------------------------------------------------------------- */

/* A node that starts at this position; parse_end sets its end behind the last token and its height. */
ast_node *parse_node(parser *p, ast_kind kind, uint32_t from);
ast_node *parse_end(parser *p, ast_node *n);
void parse_set_list(ast_node *n, const node_list *list);
/* ---- expressions (parser_expr.c) ------------------------------------------------------------------------------ */

ast_node *parse_expression(parser *p); /* conditional expression or lambda */
ast_node *parse_named(parser *p);      /* the same or `name := value` */
ast_node *parse_list(parser *p);       /* one expression, or a tuple without parentheses; also yield */
ast_node *parse_target(parser *p, bool tuple);
void parse_check_target(parser *p, const ast_node *n);
bool parse_starts_expression(lex_kind k);
ast_op parse_augmented(lex_kind k); /* operator of "+=" and its like; AOP_NOP for other tokens */
/* Parameters up to the closing token, which stays. */
void parse_parameters(parser *p, lex_kind closer, bool annotated, node_list *out);
ast_node *parse_annotation(parser *p, bool divisible);

/* ---- strings (parser_text.c) ---------------------------------------------------------------------------------- */

ast_node *parse_strings(parser *p); /* one or more STRING tokens */

#endif
