/* The lexer of the surface: bytes in, one token at a time out. Internal to lang/: the parser is its only user.
 *
 * The lexer reports nothing. What is wrong with a token travels in its `problem`, and the parser reports it when it
 * consumes the token: messages come in the order of the text, tokens that were only looked at stay silent, and what
 * recovery skips can be left unsaid. */
#ifndef LANG_LEXER_H
#define LANG_LEXER_H

#include "compiler/base/base.h"

typedef enum lex_kind {
#define TOKEN(name, text) TOK_##name,
#include "lang/tokens.def"
#undef TOKEN
  TOK_N
} lex_kind;

typedef struct lex_token {
  lex_kind kind;
  bool first; /* first of its line, not counting lines continued with '\' */
  int col;    /* of `first` tokens: 0-based, tabs to multiples of 8 */
  int depth;  /* brackets open before it */
  span at;
  const char *text;         /* at.len bytes of the source */
  const char *name;         /* NAME and keywords: interned */
  const diag_desc *problem; /* of the token or of the indentation before it; takes the token's text as "%s" */
} lex_token;

typedef struct lex_indent {
  int col; /* with tabs to multiples of 8 */
  int alt; /* with tabs as one column; both must order lines in the same way */
} lex_indent;

typedef struct lexer {
  arena *a;
  strtab *names;
  const char *text, *cursor, *limit; /* *limit is NUL */
  uint32_t base;                     /* position of text[0] */
  bool embedded;                     /* the inside of an f-string: see lex_init_embedded */
  int depth;
  VEC(lex_indent) indents;  /* open blocks, the outermost at column 0 first */
  int pending;              /* DEDENTs still to be given */
  bool line_start;          /* the cursor is at the start of a line whose indentation counts */
  bool line_used;           /* the current line has tokens */
  bool fresh;               /* no token yet since a line end */
  lex_indent here;          /* indentation of the current line */
  int odd_col, odd_level;   /* last line that matched no block and what it counted as: the next like it is not news */
  const diag_desc *problem; /* of the current line's indentation, until its first token takes it */
} lexer;

/* `text` is `len` bytes with a NUL behind them; `base` is the position of its first byte. A byte order mark is skipped.
 */
void lex_init(lexer *l, arena *a, strtab *names, const char *text, size_t len, uint32_t base);

/* Lexes one replacement field of an f-string, text[0] being just behind its '{': no layout, as if inside a bracket. At
   bracket depth 0 of the field, ':=' is ':' followed by '='. Tokens behind the end of the field are meaningless. */
void lex_init_embedded(lexer *l, arena *a, strtab *names, const char *text, size_t len, uint32_t base);

/* The next token. TOK_END for ever at the end; before it the last NEWLINE and DEDENTs. Any bytes are accepted. */
void lex_next(lexer *l, lex_token *t);

/* Takes every bracket for closed and starts again at the line that token t is first on: for recovery. */
void lex_restart(lexer *l, const lex_token *t);

/* As written, or as tokens.def describes it. */
const char *lex_kind_text(lex_kind k);
bool lex_is_keyword(lex_kind k);

/* ---- literals (literal.c) ------------------------------------------------------------------------------------- */

/* What a string literal starts with. */
typedef struct lex_string {
  bool raw, bytes, format;
  const char *body; /* between the quotes */
  size_t body_len;
} lex_string;
lex_string lex_string_parts(const lex_token *t);

/* Decodes the escapes of `len` bytes of a string literal and appends them to `out`; line ends become LF. `at` is the
   position of text[0]. Mistakes go to the sink and leave the escape as it is. */
void lex_decode(diag_sink *sink, textbuf *out, const lex_string *s, const char *text, size_t len, uint32_t at);

/* Value of an INT token; *big if it needs more than 64 bits. */
uint64_t lex_int(diag_sink *sink, const lex_token *t, bool *big);
/* Value of a FLOAT or IMAG token, rounded to nearest; the same in every locale. */
double lex_float(arena *a, const lex_token *t);

/* Reports bytes that are no UTF-8 text, and NULs: one message per line. */
void lex_check_text(diag_sink *sink, const src_file *f);

#endif
