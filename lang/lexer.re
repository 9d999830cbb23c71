/* The lexer (see lexer.h). re2c makes build/.../lexer.c of it:
 *     re2c -W -Werror -i -b --no-generation-date lang/lexer.re -o build/.../lexer.c
 *
 * Layout is done by hand, everything else in the re2c block. At the start of a line outside brackets, line_start()
 * skips blank lines, measures the indentation and turns it into INDENT or pending DEDENTs; inside brackets line ends
 * are spaces. Indentation is measured twice, with tabs to 8 columns and as 1: where the two disagree about which of
 * two lines is deeper, the text is ambiguous (CPython's rule, Parser/tokenizer.c).
 *
 * Two decisions keep one mistake from costing the rest of the file:
 *   - a line that starts with a word that never occurs inside brackets (def, return, ...) closes all brackets: somebody
 *     forgot one. The parser sees the NEWLINE and says which;
 *   - a line dedented to no open block counts as one of the block it is nearest to from the left, and opens nothing:
 *     moving the block's column instead would make every following line wrong.
 *
 * Bytes from 0x80 on are names unless they are traps that people paste (typographic quotes, odd spaces, minus signs).
 * Strings and comments are skipped bytewise, since lex_check_text() has judged the encoding already: a bad byte in a
 * string must not make the string unreadable. NUL marks the end; others are skipped like spaces. */
#include "lang/lexer.h"

#include "lang/lang_diags.h"

#include <string.h>

/*!re2c
    re2c:define:YYCTYPE = "uint8_t";
    re2c:yyfill:enable = 0;
    re2c:encoding:utf8 = 1;
    re2c:encoding-policy = fail;

    trap    = [\u00a0\u00ad\u00b4\u00d7\u00f7\u2000-\u200f\u2010-\u2015\u2018-\u201f\u2028-\u202f\u2032-\u2036]
            | [\u2060\u2212\u3000\uff08\uff09\uff0c\uff1a\ufeff];
    letter  = [A-Za-z_] | ([\x80-\ud7ff\ue000-\U0010ffff] \ trap);
    digit   = [0-9];
    word    = letter (letter | digit)*;

    decimal = digit ("_"? digit)*;
    integer = decimal | "0" [xX] ("_"? [0-9a-fA-F])+ | "0" [oO] ("_"? [0-7])+ | "0" [bB] ("_"? [01])+;
    exp     = [eE] [+-]? decimal;
    float   = (decimal "." decimal? | "." decimal) exp? | decimal exp;
    imag    = (decimal | float) [jJ];

    prefix  = [rRbBfFuU] | [rR] [bBfF] | [bBfF] [rR];
*/

static const struct {
  const char *text;
  size_t len;
} tokens[] = {
#define TOKEN(name, text) {text, sizeof text - 1},
#include "lang/tokens.def"
#undef TOKEN
};

const char *lex_kind_text(lex_kind k) { return tokens[k].text; }

bool lex_is_keyword(lex_kind k) { return k >= TOK_FALSE && k <= TOK_YIELD; }

static lex_kind word_kind(const char *s, size_t len) {
  for (int k = TOK_FALSE; k <= TOK_YIELD; k++)
    if (tokens[k].len == len && tokens[k].text[0] == s[0] && memcmp(tokens[k].text, s, len) == 0) return (lex_kind)k;
  return TOK_NAME;
}

/* Words that start statements and stand in no expression. */
static bool ends_brackets(lex_kind k) {
  switch (k) {
    case TOK_ASSERT: case TOK_BREAK: case TOK_CLASS: case TOK_CONTINUE: case TOK_DEF: case TOK_DEL:
    case TOK_ELIF: case TOK_EXCEPT: case TOK_FINALLY: case TOK_GLOBAL: case TOK_IMPORT: case TOK_NONLOCAL:
    case TOK_PASS: case TOK_RAISE: case TOK_RETURN: case TOK_TRY: case TOK_WHILE: case TOK_WITH: return true;
    default: return false;
  }
}

void lex_init(lexer *l, arena *a, strtab *names, const char *text, size_t len, uint32_t base) {
  memset(l, 0, sizeof *l);
  l->a = a;
  l->names = names;
  l->text = l->cursor = text;
  l->limit = text + len;
  l->base = base;
  l->line_start = l->fresh = true;
  l->odd_col = -1;
  VEC_PUSH(a, l->indents, (lex_indent){0});
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) l->cursor += 3;
}

void lex_init_embedded(lexer *l, arena *a, strtab *names, const char *text, size_t len, uint32_t base) {
  lex_init(l, a, names, text, len, base);
  l->cursor = text;
  l->embedded = true;
  l->line_start = l->fresh = false;
}

void lex_restart(lexer *l, const lex_token *t) {
  const char *s = t->text;
  while (s > l->text && s[-1] != '\n' && s[-1] != '\r') s--;
  l->cursor = s;
  l->depth = 0;
  l->pending = 0;
  l->problem = NULL;
  l->line_start = l->fresh = true;
  l->line_used = false;
}

/* ---- layout --------------------------------------------------------------------------------------------------- */

static void token_at(const lexer *l, lex_token *t, lex_kind kind, const char *from, const char *to) {
  *t = (lex_token){.kind = kind, .depth = l->depth, .text = from};
  t->at = (span){l->base + (uint32_t)(from - l->text), (uint32_t)(to - from)};
}

/* Behind the line end at s, which may be the limit. */
static const char *skip_line_end(const lexer *l, const char *s) {
  if (s == l->limit) return s;
  if (s[0] == '\r' && s[1] == '\n') return s + 2;
  return s + 1;
}

static bool at_line_end(const lexer *l, const char *s) { return s == l->limit || *s == '\n' || *s == '\r'; }

static const char *skip_comment(const lexer *l, const char *s) {
  while (!at_line_end(l, s)) s++;
  return s;
}

/* Columns of the white space at s; *end receives the first byte behind it. A form feed starts over. */
static lex_indent measure(const lexer *l, const char *s, const char **end) {
  lex_indent x = {0};
  for (; s < l->limit; s++) {
    if (*s == ' ')
      x.col++, x.alt++;
    else if (*s == '\t')
      x.col = x.col / 8 * 8 + 8, x.alt++;
    else if (*s == '\f')
      x = (lex_indent){0};
    else if (*s != '\0')
      break;
  }
  *end = s;
  return x;
}

/* else, elif, except and finally belong to the block around the one that they end. */
static bool at_clause_word(const lexer *l, const char *s) {
  static const char *const words[] = {"else", "elif", "except", "finally"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]);
    if ((size_t)(l->limit - s) > n && memcmp(s, words[i], n) == 0 && (s[n] == ':' || s[n] == ' ')) return true;
  }
  return false;
}

/* At the start of a line: skips blank lines, then compares the indentation with the open blocks. True: *t is an INDENT.
   Otherwise l->pending DEDENTs come first. */
static bool line_start(lexer *l, lex_token *t) {
  const char *s = l->cursor;
  for (;;) {
    l->here = measure(l, s, &s);
    if (s < l->limit && *s == '#') s = skip_comment(l, s);
    if (!at_line_end(l, s)) break;
    if (s == l->limit) {
      l->cursor = s;
      return false;
    }
    s = skip_line_end(l, s);
  }
  const char *begin = l->cursor;
  l->cursor = s;
  l->line_start = false;
  l->fresh = true;
  l->problem = NULL;

  lex_indent top = l->indents.at[l->indents.n - 1], here = l->here;
  if (here.col > top.col) {
    if (here.alt <= top.alt) l->problem = &D_tab_space_mix;
    VEC_PUSH(l->a, l->indents, here);
    while (begin < s && s[-1] != '\n' && s[-1] != '\r') s--;
    token_at(l, t, TOK_INDENT, s, l->cursor);
    return true;
  }
  int level = l->indents.n - 1;
  while (l->indents.at[level].col > here.col) level--;
  lex_indent match = l->indents.at[level];
  if (match.col == here.col) {
    if (match.alt != here.alt) l->problem = &D_tab_space_mix;
    if (level <= l->odd_level) l->odd_col = -1;
  } else {
    if (!at_clause_word(l, l->cursor)) level++;
    if (l->odd_col != here.col || l->odd_level != level) l->problem = &D_inconsistent_dedent;
    l->odd_col = here.col;
    l->odd_level = level;
  }
  l->pending = l->indents.n - 1 - level;
  l->indents.n = level + 1;
  return false;
}

static bool layout_token(lexer *l, lex_token *t) {
  if (l->line_start && !l->pending) {
    if (line_start(l, t)) return true;
    if (l->cursor == l->limit) {
      l->pending = l->indents.n - 1;
      l->indents.n = 1;
      l->line_start = false;
      l->fresh = true;
    }
  }
  if (!l->pending) return false;
  l->pending--;
  token_at(l, t, TOK_DEDENT, l->cursor, l->cursor);
  return true;
}

/* ---- tokens --------------------------------------------------------------------------------------------------- */

/* Behind the closing quote of the string whose first quote is at s; NULL: it is not closed, and *stop is where reading
   goes on. */
static const char *string_end(const lexer *l, const char *s, const char **stop) {
  char quote = *s;
  bool triple = s[1] == quote && s[2] == quote;
  s += triple ? 3 : 1;
  for (; s < l->limit; s++) {
    if (*s == quote && (!triple || (s[1] == quote && s[2] == quote))) return s + (triple ? 3 : 1);
    if (!triple && at_line_end(l, s)) break;
    if (*s == '\\' && s + 1 < l->limit) {
      s++;
      if (s[0] == '\r' && s[1] == '\n') s++;
    }
  }
  *stop = s;
  return NULL;
}

/* Ends a token that starts at `from`: common to all that are no layout. */
static void finish(lexer *l, lex_token *t, lex_kind kind, const char *from) {
  token_at(l, t, kind, from, l->cursor);
  t->first = l->fresh;
  t->col = l->here.col;
  t->problem = l->problem;
  l->problem = NULL;
  l->fresh = false;
  l->line_used = true;
}

/* A token that cannot be read; a complaint about the indentation before it is of less interest. */
static void broken(lexer *l, lex_token *t, const char *from, const diag_desc *problem) {
  finish(l, t, TOK_BROKEN, from);
  t->problem = problem;
}

static void string_token(lexer *l, lex_token *t, const char *from) {
  const char *quote = from, *stop = from;
  while (*quote != '"' && *quote != '\'') quote++;
  const char *end = string_end(l, quote, &stop);
  if (end) {
    l->cursor = end;
    finish(l, t, TOK_STRING, from);
    return;
  }
  bool triple = quote[1] == *quote && quote[2] == *quote;
  l->cursor = triple ? quote + 3 : stop;
  broken(l, t, from, triple ? &D_unterminated_triple : &D_unterminated_string);
  l->cursor = stop;
}

/* A word; false if it is one that closes brackets, and the line has to be read again. */
static bool word_token(lexer *l, lex_token *t, const char *from) {
  lex_kind kind = word_kind(from, (size_t)(l->cursor - from));
  if (l->depth > 0 && l->fresh && !l->embedded && ends_brackets(kind)) return false;
  finish(l, t, kind, from);
  t->name = strtab_intern(l->names, from, (size_t)(l->cursor - from));
  return true;
}

/* `1if x else y`: Python lets a keyword follow a number directly. Its length, given that [from, to) is a number and one
   of the keywords; the number takes what it can: 0x1for is 0x1f or, 1for is 1 for. */
static size_t glued_keyword(const char *from, const char *to) {
  static const char *const words[] = {"or", "for", "else", "and", "not", "if", "in", "is"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    size_t n = strlen(words[i]), digits = (size_t)(to - from) - n;
    if ((size_t)(to - from) <= n || memcmp(to - n, words[i], n) != 0) continue;
    bool hex = from[0] == '0' && (from[1] == 'x' || from[1] == 'X');
    const char *last = hex ? "0123456789abcdefABCDEF" : "0123456789.jJ";
    if (strchr(last, from[digits - 1]) && !(hex && digits == 2)) return n;
  }
  base_panic("no keyword behind a number");
}

static lex_kind number_kind(const char *from, const char *to) {
  if (to[-1] == 'j' || to[-1] == 'J') return TOK_IMAG;
  bool other_base = from[0] == '0' && to - from > 2 && strchr("xXoObB", from[1]);
  for (const char *s = from; !other_base && s < to; s++)
    if (strchr(".eE", *s)) return TOK_FLOAT;
  return TOK_INT;
}

static void open_token(lexer *l, lex_token *t, lex_kind kind, const char *from) {
  finish(l, t, kind, from);
  l->depth++;
}

static void close_token(lexer *l, lex_token *t, lex_kind kind, const char *from) {
  finish(l, t, kind, from);
  if (l->depth > 0) l->depth--;
}

void lex_next(lexer *l, lex_token *t) {
again:
  if (layout_token(l, t)) return;
  const char *from = l->cursor;
  const uint8_t *YYCURSOR = (const uint8_t *)from, *YYMARKER = YYCURSOR;
#define TAKE(action)                    \
  do {                                  \
    l->cursor = (const char *)YYCURSOR; \
    action;                             \
    return;                             \
  } while (0)
#define SKIP()                          \
  do {                                  \
    l->cursor = (const char *)YYCURSOR; \
    goto again;                         \
  } while (0)
/*!re2c
    [ \t\f]+         { SKIP(); }

    "#"              { l->cursor = skip_comment(l, from); goto again; }

    "\r"? "\n" | "\r" {
      l->cursor = (const char *)YYCURSOR;
      if (l->depth > 0 || l->embedded) {
        l->fresh = !l->embedded;
        l->here = measure(l, l->cursor, &l->cursor);
        goto again;
      }
      l->line_start = true;
      if (!l->line_used) goto again;
      l->line_used = false;
      token_at(l, t, TOK_NEWLINE, from, l->cursor);
      return;
    }

    "\\" ("\r"? "\n" | "\r") { SKIP(); }
    "\\"             { TAKE(broken(l, t, from, &D_bad_continuation)); }

    word             {
      l->cursor = (const char *)YYCURSOR;
      if (word_token(l, t, from)) return;
      lex_token here;
      token_at(l, &here, TOK_NAME, from, from);
      lex_restart(l, &here);
      token_at(l, t, TOK_NEWLINE, l->cursor, l->cursor);
      return;
    }

    integer          { TAKE(finish(l, t, TOK_INT, from)); }
    float            { TAKE(finish(l, t, TOK_FLOAT, from)); }
    imag             { TAKE(finish(l, t, TOK_IMAG, from)); }
    (integer | float | imag) ("and" | "else" | "for" | "if" | "in" | "is" | "not" | "or") {
      YYCURSOR -= glued_keyword(from, (const char *)YYCURSOR);
      TAKE(finish(l, t, number_kind(from, l->cursor), from));
    }
    (integer | float | imag) word { TAKE(broken(l, t, from, &D_bad_number)); }

    prefix? ["']     { TAKE(string_token(l, t, from)); }

    "("              { TAKE(open_token(l, t, TOK_LPAREN, from)); }
    "["              { TAKE(open_token(l, t, TOK_LBRACKET, from)); }
    "{"              { TAKE(open_token(l, t, TOK_LBRACE, from)); }
    ")"              { TAKE(close_token(l, t, TOK_RPAREN, from)); }
    "]"              { TAKE(close_token(l, t, TOK_RBRACKET, from)); }
    "}"              { TAKE(close_token(l, t, TOK_RBRACE, from)); }

    ":="             {
      if (l->embedded && l->depth == 0) YYCURSOR--;
      TAKE(finish(l, t, l->cursor - from == 1 ? TOK_COLON : TOK_WALRUS, from));
    }
    ","              { TAKE(finish(l, t, TOK_COMMA, from)); }
    ":"              { TAKE(finish(l, t, TOK_COLON, from)); }
    ";"              { TAKE(finish(l, t, TOK_SEMICOLON, from)); }
    "."              { TAKE(finish(l, t, TOK_DOT, from)); }
    "..."            { TAKE(finish(l, t, TOK_ELLIPSIS, from)); }
    "->"             { TAKE(finish(l, t, TOK_ARROW, from)); }
    "="              { TAKE(finish(l, t, TOK_ASSIGN, from)); }
    "!"              { TAKE(finish(l, t, TOK_BANG, from)); }
    "+"              { TAKE(finish(l, t, TOK_PLUS, from)); }
    "-"              { TAKE(finish(l, t, TOK_MINUS, from)); }
    "*"              { TAKE(finish(l, t, TOK_STAR, from)); }
    "/"              { TAKE(finish(l, t, TOK_SLASH, from)); }
    "//"             { TAKE(finish(l, t, TOK_DOUBLESLASH, from)); }
    "%"              { TAKE(finish(l, t, TOK_PERCENT, from)); }
    "**"             { TAKE(finish(l, t, TOK_DOUBLESTAR, from)); }
    "@"              { TAKE(finish(l, t, TOK_AT, from)); }
    "&"              { TAKE(finish(l, t, TOK_AMPERSAND, from)); }
    "|"              { TAKE(finish(l, t, TOK_PIPE, from)); }
    "^"              { TAKE(finish(l, t, TOK_CARET, from)); }
    "~"              { TAKE(finish(l, t, TOK_TILDE, from)); }
    "<<"             { TAKE(finish(l, t, TOK_SHL, from)); }
    ">>"             { TAKE(finish(l, t, TOK_SHR, from)); }
    "<"              { TAKE(finish(l, t, TOK_LT, from)); }
    "<="             { TAKE(finish(l, t, TOK_LE, from)); }
    ">"              { TAKE(finish(l, t, TOK_GT, from)); }
    ">="             { TAKE(finish(l, t, TOK_GE, from)); }
    "=="             { TAKE(finish(l, t, TOK_EQ, from)); }
    "!="             { TAKE(finish(l, t, TOK_NE, from)); }
    "+="             { TAKE(finish(l, t, TOK_ADD_ASSIGN, from)); }
    "-="             { TAKE(finish(l, t, TOK_SUB_ASSIGN, from)); }
    "*="             { TAKE(finish(l, t, TOK_MUL_ASSIGN, from)); }
    "/="             { TAKE(finish(l, t, TOK_DIV_ASSIGN, from)); }
    "//="            { TAKE(finish(l, t, TOK_FLOORDIV_ASSIGN, from)); }
    "%="             { TAKE(finish(l, t, TOK_MOD_ASSIGN, from)); }
    "**="            { TAKE(finish(l, t, TOK_POW_ASSIGN, from)); }
    "@="             { TAKE(finish(l, t, TOK_MATMUL_ASSIGN, from)); }
    "&="             { TAKE(finish(l, t, TOK_AND_ASSIGN, from)); }
    "|="             { TAKE(finish(l, t, TOK_OR_ASSIGN, from)); }
    "^="             { TAKE(finish(l, t, TOK_XOR_ASSIGN, from)); }
    "<<="            { TAKE(finish(l, t, TOK_SHL_ASSIGN, from)); }
    ">>="            { TAKE(finish(l, t, TOK_SHR_ASSIGN, from)); }

    "\x00"           {
      if (from < l->limit) SKIP();
      l->cursor = l->limit;
      if (l->line_used && !l->embedded) {
        l->depth = 0;
        l->line_start = true;
        l->line_used = false;
        token_at(l, t, TOK_NEWLINE, l->limit, l->limit);
        return;
      }
      token_at(l, t, TOK_END, l->limit, l->limit);
      return;
    }

    trap             { TAKE(broken(l, t, from, &D_lookalike_character)); }
    *                { TAKE(broken(l, t, from, (uint8_t)*from < 0x80 ? &D_unexpected_character : NULL)); }
*/
#undef TAKE
#undef SKIP
}
