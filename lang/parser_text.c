/* String literals: implicit concatenation, and f-strings.
 *
 * An f-string arrives as one STRING token, closed by the first quote of its kind (Python up to 3.11). Its body is
 * copied once, so that it ends in a NUL, and walked: text up to the next brace is decoded, and a replacement field is
 * lexed and parsed in place by the ordinary rules with the lexer switched to the body. The field's own end token ('}',
 * ':' or '!') says where the text goes on; a format specification is the same walk again, one level deeper. A mistake
 * inside makes the whole string an AST_ERROR but does not break the statement around it. */
#include "lang/lang_diags.h"
#include "lang/parser.h"

#include <string.h>

typedef struct pieces {
  parser *p;
  lex_string string;
  uint32_t base; /* position of body[0] */
  const char *body, *end;
  node_list *list;
  textbuf text; /* literal text not yet in the list */
  uint32_t text_from;
  bool failed;
} pieces;

static ast_node *text_node(parser *p, uint32_t from, const textbuf *text, bool bytes) {
  ast_node *n = parse_node(p, AST_STRING, from);
  n->u.s = text->at;
  n->u.s_len = text->n;
  n->flag = bytes;
  return n;
}

static uint32_t position(const pieces *x, const char *s) { return x->base + (uint32_t)(s - x->body); }

/* Moves the pending text to the list. */
static void flush(pieces *x, const char *s) {
  if (x->text.n > 0) {
    ast_node *n = text_node(x->p, x->text_from, &x->text, false);
    n->at.len = position(x, s) - n->at.pos;
    VEC_PUSH(x->p->a, *x->list, n);
    text_init(&x->text, x->p->a);
  }
  x->text_from = position(x, s);
}

static const char *fail(pieces *x, const char *s, uint32_t len, const char *why) {
  diag_add(x->p->sink, (span){position(x, s), len}, &D_fstring_brace, why);
  x->failed = true;
  return NULL;
}

static const char *field(pieces *x, const char *open);

/* Behind the literal text at s: at a brace or the end. */
static const char *literal_end(const pieces *x, const char *s) {
  while (s < x->end && *s != '{' && *s != '}') {
    if (*s == '\\' && !x->string.raw && s + 1 < x->end) {
      s++;
      if (*s == 'N' && s[1] == '{')
        while (s < x->end && *s != '}') s++;
      else if (*s == '{' || *s == '}')
        break;
    }
    if (s < x->end) s++;
  }
  return s;
}

/* Text and fields from s on. Returns the end of the body, or of a format specification its '}'; NULL after a mistake.
 */
static const char *walk(pieces *x, const char *s, bool specification) {
  while (s < x->end) {
    if ((*s == '{' || *s == '}') && s[1] == *s && !specification) {
      text_char(&x->text, *s);
      s += 2;
    } else if (*s == '{') {
      s = field(x, s);
      if (!s) return NULL;
    } else if (*s == '}') {
      if (specification) return s;
      return fail(x, s, 1, "a single '}' (write '}}' for the character)");
    } else {
      const char *end = literal_end(x, s);
      lex_decode(x->p->sink, &x->text, &x->string, s, (size_t)(end - s), position(x, s));
      s = end;
    }
  }
  return s;
}

/* `: specification`, s behind the colon. */
static const char *specification(pieces *x, ast_node *value, const char *s) {
  ast_node *n = parse_node(x->p, AST_FSTRING, position(x, s));
  node_list list = {0};
  pieces inner = *x;
  inner.list = &list;
  inner.text_from = position(x, s);
  text_init(&inner.text, x->p->a);
  const char *end = walk(&inner, s, true);
  x->failed |= inner.failed;
  if (!end) return NULL;
  flush(&inner, end);
  parse_set_list(n, &list);
  n->at.len = position(x, end) - n->at.pos;
  value->kid[1] = n;
  return end;
}

/* What stands between the braces, with its first token current. Returns where the closing '}' should be. */
static const char *field_inside(pieces *x, ast_node *value, const char *open) {
  parser *p = x->p;
  switch (p->tok.kind) {
    case TOK_RBRACE:
    case TOK_BANG:
    case TOK_COLON: return fail(x, open, 1, "no expression follows '{' (write '{{' for the character)");
    default: value->kid[0] = parse_list(p);
  }
  const char *debug_end = NULL;
  if (p->tok.kind == TOK_ASSIGN) {
    debug_end = p->tok.text + 1;
    while (*debug_end == ' ' || *debug_end == '\t') debug_end++;
    parse_advance(p);
    value->flag = true;
  }
  if (parse_accept(p, TOK_BANG)) {
    span at;
    const char *name = parse_name(p, &at, "'r', 's' or 'a' after '!'");
    if (name && (name[1] != '\0' || (*name != 'r' && *name != 's' && *name != 'a')))
      return fail(x, x->body + (at.pos - x->base), at.len, "an unknown conversion (it is one of !r, !s and !a)");
    value->name = name;
  }
  if (p->tok.kind == TOK_END) return fail(x, open, 1, "'{' is never closed");
  if (p->tok.kind != TOK_COLON && p->tok.kind != TOK_RBRACE) parse_expected(p, "'}'");
  if (p->broken) {
    x->failed = true;
    return NULL;
  }
  if (debug_end) {
    if (!value->name && p->tok.kind == TOK_RBRACE) value->name = strtab_str(p->names, "r");
    text_add(&x->text, open + 1, (size_t)(debug_end - open - 1));
  }
  if (p->tok.kind == TOK_RBRACE) return p->tok.text;
  return specification(x, value, p->tok.text + 1);
}

/* The replacement field whose '{' is at `open`; returns what follows its '}', NULL after a mistake. */
static const char *field(pieces *x, const char *open) {
  parser *p = x->p;
  lexer lex = p->lex;
  lex_token tok = p->tok, ahead = p->ahead;
  bool has_ahead = p->has_ahead;
  int floor = p->bracket_floor, brackets = p->n_brackets;
  uint32_t end = p->end;

  const char *close = NULL;
  ast_node *value = parse_node(p, AST_FVALUE, position(x, open));
  if (parse_enter(p)) {
    p->bracket_floor = p->n_brackets;
    p->has_ahead = false;
    lex_init_embedded(&p->lex, p->a, p->names, open + 1, (size_t)(x->end - open - 1), position(x, open + 1));
    lex_next(&p->lex, &p->tok);
    close = field_inside(x, value, open);
  }
  parse_leave(p);
  x->failed |= !close;
  p->broken = false;
  p->lex = lex;
  p->tok = tok;
  p->ahead = ahead;
  p->has_ahead = has_ahead;
  p->bracket_floor = floor;
  p->n_brackets = brackets;
  p->end = end;
  if (!close) return NULL;
  if (close == x->end) return fail(x, open, 1, "'{' is never closed");

  flush(x, open);
  value = parse_end(p, value);
  value->at = (span){position(x, open), (uint32_t)(close + 1 - open)};
  VEC_PUSH(p->a, *x->list, value);
  x->text_from = position(x, close + 1);
  return close + 1;
}

ast_node *parse_strings(parser *p) {
  uint32_t from = p->tok.at.pos;
  bool format = false, failed = false, mixed = false;
  bool bytes = lex_string_parts(&p->tok).bytes;
  node_list list = {0};
  pieces x = {.p = p, .list = &list, .text_from = from};
  text_init(&x.text, p->a);
  while (p->tok.kind == TOK_STRING) {
    x.string = lex_string_parts(&p->tok);
    x.base = p->tok.at.pos + (uint32_t)(x.string.body - p->tok.text);
    if (x.string.bytes != bytes && !mixed) {
      diag_add(p->sink, p->tok.at, &D_mixed_bytes);
      mixed = true;
    }
    if (x.string.format) {
      format = true;
      char *copy = arena_alloc(p->a, x.string.body_len + 1);
      if (x.string.body_len) memcpy(copy, x.string.body, x.string.body_len);
      x.body = copy;
      x.end = x.body + x.string.body_len;
      failed |= !walk(&x, x.body, false);
    } else {
      lex_decode(p->sink, &x.text, &x.string, x.string.body, x.string.body_len, x.base);
    }
    parse_advance(p);
  }
  ast_node *n;
  if (failed || mixed) {
    n = parse_node(p, AST_ERROR, from);
  } else if (format) {
    if (x.text.n > 0) {
      ast_node *rest = parse_end(p, text_node(p, x.text_from, &x.text, false));
      VEC_PUSH(p->a, list, rest);
    }
    n = parse_node(p, AST_FSTRING, from);
    parse_set_list(n, &list);
  } else {
    n = text_node(p, from, &x.text, bytes);
  }
  return parse_end(p, n);
}
