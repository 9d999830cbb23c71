/* The lexer: every token of the table, layout, joining, literals, and what it says of text that is none. */
#include "lang/lexer.h"
#include "lang/lang_diags.h"

#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

typedef struct unit {
  arena *a;
  src_map *sources;
  diag_sink sink;
  const src_file *file;
  lexer lex;
} unit;

static void start(unit *u, const char *text, size_t len) {
  u->a = arena_new();
  u->sources = src_map_new(u->a);
  diag_sink_init(&u->sink, u->a, u->sources);
  u->file = src_add(u->sources, "t.tk", text, len);
  lex_init(&u->lex, u->a, strtab_new(u->a), u->file->text, len, u->file->base);
}

/* The tokens in short: layout as NL IN DE, others as written, unreadable ones as !id, and ?id before a token whose
   indentation is at fault. */
static const char *tokens(unit *u) {
  textbuf b;
  text_init(&b, u->a);
  lex_token t;
  for (lex_next(&u->lex, &t); t.kind != TOK_END; lex_next(&u->lex, &t)) {
    if (b.n) text_char(&b, ' ');
    if (t.kind == TOK_BROKEN) {
      text_printf(&b, "!%s", t.problem ? t.problem->id : "");
      continue;
    }
    if (t.problem) text_printf(&b, "?%s ", t.problem->id);
    if (t.kind == TOK_NEWLINE)
      text_str(&b, "NL");
    else if (t.kind == TOK_INDENT)
      text_str(&b, "IN");
    else if (t.kind == TOK_DEDENT)
      text_str(&b, "DE");
    else
      text_add(&b, t.text, t.at.len);
  }
  return b.at;
}

static const char *diagnostics(unit *u) {
  textbuf b;
  text_init(&b, u->a);
  diag_render(&u->sink, DIAG_LINE, false, &b);
  return b.at;
}

Test(lexer, every_token_of_the_table_is_read) {
  static const struct {
    lex_kind kind;
    const char *text;
  } rows[] = {
#define LAYOUT(name, text)
#define FAMILY(name, text)
#define TOKEN(name, text) {TOK_##name, text},
#include "lang/tokens.def"
#undef TOKEN
  };
  int n = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++, n++) {
    unit u;
    start(&u, rows[i].text, strlen(rows[i].text));
    lex_token t;
    lex_next(&u.lex, &t);
    cr_expect_eq(t.kind, rows[i].kind, "'%s' is read as %s", rows[i].text, lex_kind_text(t.kind));
    cr_expect_eq(t.at.len, strlen(rows[i].text));
    cr_expect_eq(lex_is_keyword(t.kind), t.name != NULL, "only keywords have names here: '%s'", rows[i].text);
    arena_free(u.a);
  }
  cr_assert_eq(n, TOK_N - TOK_FALSE);
}

typedef struct lexer_case {
  const char *text, *tokens;
} lexer_case;

static void run(const lexer_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unit u;
    start(&u, cases[i].text, strlen(cases[i].text));
    const char *got = tokens(&u);
    cr_expect_str_eq(got, cases[i].tokens, "case %zu\n  text:   %s\n  wanted: %s\n  got:    %s", i, cases[i].text,
                     cases[i].tokens, got);
    arena_free(u.a);
  }
}
#define RUN(cases) run(cases, sizeof cases / sizeof *cases)

Test(lexer, layout) {
  static const lexer_case cases[] = {
      {"", ""},
      {"\n\n  \n# c\n\t#d", ""},
      {"a", "a NL"},
      {"a\nb\n", "a NL b NL"},
      {"a\r\nb\rc", "a NL b NL c NL"},
      {"a # c\n\n  # d\nb", "a NL b NL"},
      {"if a:\n  b\n  c\nd", "if a : NL IN b NL c NL DE d NL"},
      {"if a:\n  if b:\n      c", "if a : NL IN if b : NL IN c NL DE DE"},
      {"if a:\n  if b:\n      c\nd", "if a : NL IN if b : NL IN c NL DE DE d NL"},
      {"if a:\n\n # c\n  b\n\n\n # c\n  c", "if a : NL IN b NL c NL DE"},
      {"if a:\n\tb\n        c", "if a : NL IN b NL ?tab_space_mix c NL DE"},
      {"if a:\n  b\n\tc", "if a : NL IN b NL IN ?tab_space_mix c NL DE DE"},
      {"if a:\n   \tb\n   \tc", "if a : NL IN b NL c NL DE"},
      {"if a:\n   b\n\f   c", "if a : NL IN b NL c NL DE"},
      {"\xef\xbb\xbfif a:\n b", "if a : NL IN b NL DE"},
      /* lines that match no block count as one of the nearest, and are told once */
      {"if a:\n    b\n  c\n    d", "if a : NL IN b NL ?inconsistent_dedent c NL d NL DE"},
      {"if a:\n    b\n  c\n  d\n    e", "if a : NL IN b NL ?inconsistent_dedent c NL d NL e NL DE"},
      {"if a:\n    b\n  else:\n    d", "if a : NL IN b NL DE ?inconsistent_dedent else : NL IN d NL DE"},
      {"if a:\n    b\n  c\nif d:\n    b\n  c",
       "if a : NL IN b NL ?inconsistent_dedent c NL DE if d : NL IN b NL "
       "?inconsistent_dedent c NL DE"},
  };
  RUN(cases);
}

Test(lexer, joining) {
  static const lexer_case cases[] = {
      {"(a,\n  b\n\n # c\n)\nc", "( a , b ) NL c NL"},
      {"[\n{\n(\n)\n}\n]", "[ { ( ) } ] NL"},
      {"a + \\\n  b\nc", "a + b NL c NL"},
      {"a \\\r\n b", "a b NL"},
      {"if a \\\n   and b:\n  c", "if a and b : NL IN c NL DE"},
      {"a \\ b", "a !bad_continuation b NL"},
      {"a \\", "a !bad_continuation NL"},
      {"a)\nb", "a ) NL b NL"},
      /* a word that starts statements only closes what was left open */
      {"f(a,\nreturn b", "f ( a , NL return b NL"},
      {"def f():\n  g(a\n  return [\nclass", "def f ( ) : NL IN g ( a NL return [ NL DE class NL"},
      {"f(a,\n  x return b)", "f ( a , x return b ) NL"},
      {"f(a\nfor b in c if d else e)", "f ( a for b in c if d else e ) NL"},
  };
  RUN(cases);
}

Test(lexer, names_numbers_and_strings) {
  static const lexer_case cases[] = {
      {"a _b c1 \xc3\xa4\xe5\x90\x8d d\xc3\xa9", "a _b c1 \xc3\xa4\xe5\x90\x8d d\xc3\xa9 NL"},
      {"iff ifelse matchs", "iff ifelse matchs NL"},
      {"0 00 1_000 0xFf 0X_1 0b1_0 0o17", "0 00 1_000 0xFf 0X_1 0b1_0 0o17 NL"},
      {"1. .5 1.5 1e3 1E-3 1_0.0_1e+1_0 3j 1.5J .5e1j", "1. .5 1.5 1e3 1E-3 1_0.0_1e+1_0 3j 1.5J .5e1j NL"},
      {"1..x 1.0.x a.b...", "1. . x 1.0 . x a . b ... NL"},
      {"1if 0x1for 0xfor 1for 0xelse 2.5else 1e5or 3jin 0b1is 0x1fnot 1.and",
       "1 if 0x1f or 0xf or 1 for !bad_number 2.5 else 1e5 or 3j in 0b1 is 0x1f not 1. and NL"},
      {"1__0", "!bad_number NL"},
      {"0x 0b2 0o8 1_ 12ab 1e 1.5f 0xfg",
       "!bad_number !bad_number !bad_number !bad_number !bad_number !bad_number "
       "!bad_number !bad_number NL"},
      {"'a' \"b\" r'\\n' u'c' Rb'd' bR\"e\" f'g' fR'h' B''", "'a' \"b\" r'\\n' u'c' Rb'd' bR\"e\" f'g' fR'h' B'' NL"},
      {"'a\\'b' '\\\\' ''", "'a\\'b' '\\\\' '' NL"},
      {"'a\\\nb'", "'a\\\nb' NL"},
      {"'''a\n'b''c\\''''", "'''a\n'b''c\\'''' NL"},
      {"\"\"\"\n\"\"\"x", "\"\"\"\n\"\"\" x NL"},
      {"ur'a'", "ur 'a' NL"},
      {"'abc\nd", "!unterminated_string NL d NL"},
      {"x = '''abc\nd", "x = !unterminated_triple NL"},
      {"'a\xff"
       "b'",
       "'a\xff"
       "b' NL"},
      {"# \xff\na", "a NL"},
      {"a $ ? `", "a !unexpected_character !unexpected_character !unexpected_character NL"},
      {"\xe2\x80\x9c a\xc2\xa0"
       "b",
       "!lookalike_character a !lookalike_character b NL"},
      {"a \xff b", "a ! b NL"},
      {"a<b<<c<<=d", "a < b << c <<= d NL"},
      {"a**=b//=c->d:=e", "a **= b //= c -> d := e NL"},
      {"a!=b ! c", "a != b ! c NL"},
  };
  RUN(cases);
}

Test(lexer, nul_bytes_are_skipped) {
  unit u;
  static const char text[] = "a\0b '\0' \0\n\0 c";
  start(&u, text, sizeof text - 1);
  const char *got = tokens(&u);
  cr_assert_eq(strlen(got), 5, "the string keeps its NUL: %s", got);
  cr_assert_eq(memcmp(got, "a b '\0' NL IN c NL DE", 21), 0);
  arena_free(u.a);
}

Test(lexer, first_tokens_depths_and_places) {
  unit u;
  static const char text[] = "f(\n  a, b\n)\n\tc \\\nd";
  start(&u, text, sizeof text - 1);
  static const struct {
    lex_kind kind;
    bool first;
    int col, depth;
    uint32_t offset;
  } wanted[] = {
      {TOK_NAME, true, 0, 0, 0},      {TOK_LPAREN, false, 0, 0, 1},   {TOK_NAME, true, 2, 1, 5},
      {TOK_COMMA, false, 0, 1, 6},    {TOK_NAME, false, 0, 1, 8},     {TOK_RPAREN, true, 0, 1, 10},
      {TOK_NEWLINE, false, 0, 0, 11}, {TOK_INDENT, false, 0, 0, 12},  {TOK_NAME, true, 8, 0, 13},
      {TOK_NAME, false, 0, 0, 17},    {TOK_NEWLINE, false, 0, 0, 18}, {TOK_DEDENT, false, 0, 0, 18},
      {TOK_END, false, 0, 0, 18},     {TOK_END, false, 0, 0, 18},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    lex_token t;
    lex_next(&u.lex, &t);
    cr_expect(t.kind == wanted[i].kind && t.first == wanted[i].first && t.depth == wanted[i].depth &&
                  t.at.pos - u.file->base == wanted[i].offset && (!t.first || t.col == wanted[i].col),
              "token %zu: %s first %d col %d depth %d offset %u", i, lex_kind_text(t.kind), t.first, t.col, t.depth,
              t.at.pos - u.file->base);
  }
  arena_free(u.a);
}

Test(lexer, restart_closes_brackets) {
  unit u;
  start(&u, "f(a,\n  b\n  c", 12);
  lex_token t;
  do lex_next(&u.lex, &t);
  while (t.at.pos - u.file->base < 7);
  cr_assert_eq(*t.text, 'b');
  lex_restart(&u.lex, &t);
  cr_assert_str_eq(tokens(&u), "IN b NL c NL DE");
  arena_free(u.a);
}

Test(lexer, embedded_fields_have_no_layout) {
  static const lexer_case cases[] = {
      {"x}", "x }"},
      {"a\n  + b\nreturn}", "a + b return }"},
      {"x:=5}", "x : = 5 }"},
      {"f(y:=5)}", "f ( y := 5 ) }"},
      {"x!r:3}", "x ! r : 3 }"},
      {"{1:2}[1] != y", "{ 1 : 2 } [ 1 ] != y"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unit u;
    start(&u, cases[i].text, strlen(cases[i].text));
    lex_init_embedded(&u.lex, u.a, strtab_new(u.a), u.file->text, u.file->len, u.file->base);
    cr_expect_str_eq(tokens(&u), cases[i].tokens, "case %zu", i);
    arena_free(u.a);
  }
}

/* ---- values --------------------------------------------------------------------------------------------------- */

Test(lexer, integers) {
  static const struct {
    const char *text;
    uint64_t value;
    bool big;
    const char *says;
  } cases[] = {
      {"0", 0, false, ""},
      {"0_0", 0, false, ""},
      {"1_234", 1234, false, ""},
      {"0xdead_BEEF", 0xdeadbeef, false, ""},
      {"0b1011", 11, false, ""},
      {"0O777", 511, false, ""},
      {"18446744073709551615", UINT64_MAX, false, ""},
      {"0xffffffffffffffff", UINT64_MAX, false, ""},
      {"18446744073709551616", 0, true, ""},
      {"0x10000000000000000", 0, true, ""},
      {"99999999999999999999999999", 0, true, ""},
      {"0017", 17, false,
       "t.tk:1:1: error: a decimal number cannot start with 0; write 0o17 for octal, or drop the zeros "
       "[leading_zeros]\n"},
      {"08", 8, false, "t.tk:1:1: error: a decimal number cannot start with 0; drop the zeros [leading_zeros]\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unit u;
    start(&u, cases[i].text, strlen(cases[i].text));
    lex_token t;
    lex_next(&u.lex, &t);
    bool big;
    uint64_t value = lex_int(&u.sink, &t, &big);
    cr_expect_eq(big, cases[i].big, "%s", cases[i].text);
    cr_expect(big || value == cases[i].value, "%s is %llu", cases[i].text, (unsigned long long)value);
    cr_expect_str_eq(diagnostics(&u), cases[i].says);
    arena_free(u.a);
  }
}

Test(lexer, floats_in_any_locale) {
  static const struct {
    const char *text;
    double value;
  } cases[] = {{"1.5", 1.5},
               {".25", .25},
               {"1_0.5e-1", 1.05},
               {"1e400", INFINITY},
               {"4.9e-324", 4.9e-324},
               {"0.1", 0x1.999999999999ap-4},
               {"2.5j", 2.5},
               {"3J", 3},
               {"1.7976931348623157e308", DBL_MAX}};
  setlocale(LC_ALL, "de_DE.UTF-8");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unit u;
    start(&u, cases[i].text, strlen(cases[i].text));
    lex_token t;
    lex_next(&u.lex, &t);
    cr_expect_eq(lex_float(u.a, &t), cases[i].value, "%s is %a", cases[i].text, lex_float(u.a, &t));
    arena_free(u.a);
  }
}

Test(lexer, strings_are_decoded) {
  static const struct {
    const char *text, *bytes, *says;
  } cases[] = {
      {"'abc'", "abc", ""},
      {"'a\\n\\t\\\\\\'\\\"\\a\\b\\f\\r\\v'", "a\n\t\\'\"\a\b\f\r\v", ""},
      {"'\\x41\\u00e9\\U0001F600'", "A\xc3\xa9\xf0\x9f\x98\x80", ""},
      {"'\\101\\7\\1234'", "A\aS4", ""},
      {"'\\400'", "\xc4\x80", ""},
      {"b'\\xff\\377\\u0041'", "\xff\xff\\u0041", ""},
      {"'\\d\\ '", "\\d\\ ", ""},
      {"r'\\n\\'", NULL, ""},
      {"r'\\n\\\\'", "\\n\\\\", ""},
      {"'a\\\nb'", "ab", ""},
      {"'a\\\r\nb'", "ab", ""},
      {"'''a\r\nb\rc'''", "a\nb\nc", ""},
      {"'\xc3\xa9'", "\xc3\xa9", ""},
      {"'\\x4'", "\\x4",
       "t.tk:1:2: error: invalid escape '\\x4': two hexadecimal digits have to follow \\x [bad_escape]\n"},
      {"'\\u12'", "\\u12",
       "t.tk:1:2: error: invalid escape '\\u12': four hexadecimal digits have to follow \\u [bad_escape]\n"},
      {"'\\U0000'", "\\U0000",
       "t.tk:1:2: error: invalid escape '\\U0000': eight hexadecimal digits have to follow \\U [bad_escape]\n"},
      {"'\\ud800'", "\\ud800",
       "t.tk:1:2: error: invalid escape '\\ud800': there is no such Unicode character [bad_escape]\n"},
      {"'x\\N{DASH}y'", "x\\N{DASH}y",
       "t.tk:1:3: error: invalid escape '\\N{DASH}': characters by name are not supported; write the character or its "
       "\\uXXXX [bad_escape]\n"},
      {"b'\xc3\xa9'", "\xc3\xa9",
       "t.tk:1:3: error: a bytes literal holds ASCII characters only; write others as \\x escapes [bytes_not_ascii]\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unit u;
    start(&u, cases[i].text, strlen(cases[i].text));
    lex_token t;
    lex_next(&u.lex, &t);
    if (!cases[i].bytes) {
      cr_expect_eq(t.kind, TOK_BROKEN, "case %zu", i);
    } else {
      cr_assert_eq(t.kind, TOK_STRING, "case %zu", i);
      lex_string s = lex_string_parts(&t);
      textbuf b;
      text_init(&b, u.a);
      lex_decode(&u.sink, &b, &s, s.body, s.body_len, t.at.pos + (uint32_t)(s.body - t.text));
      cr_expect_str_eq(b.at, cases[i].bytes, "case %zu: %s", i, cases[i].text);
      cr_expect_str_eq(diagnostics(&u), cases[i].says, "case %zu: %s", i, diagnostics(&u));
    }
    arena_free(u.a);
  }
}

/* Against a definition from first principles: a sequence is right if it is how its code point is written. */
static bool well_formed(const unsigned char *s, size_t n) {
  uint32_t cp = n == 2 ? s[0] & 0x1fu : n == 3 ? s[0] & 0x0fu : s[0] & 0x07u;
  for (size_t i = 1; i < n; i++) {
    if (s[i] >> 6 != 2) return false;
    cp = cp << 6 | (s[i] & 0x3fu);
  }
  unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  unsigned char mask[] = {0, 0, 0xe0, 0xf0, 0xf8};
  uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  return (s[0] & mask[n]) == lead[n] && cp >= least[n] && cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
}

Test(lexer, encoding_is_checked) {
  static const unsigned char tails[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
  enum { N = sizeof tails };
  arena *a = arena_new();
  for (unsigned lead = 0x80; lead < 0x100; lead++) {
    for (unsigned code = 0; code < N * N * N; code++) {
      unsigned char s[] = {(unsigned char)lead, tails[code % N], tails[code / N % N], tails[code / N / N]};
      bool right = false;
      for (size_t n = 2; n <= 4; n++) right |= well_formed(s, n);
      diag_sink sink;
      src_map *m = src_map_new(a);
      diag_sink_init(&sink, a, m);
      /* The letters behind keep a wrong tail from being the mistake that is told. */
      lex_check_text(&sink, src_add(m, "t", (const char *)s, 4));
      bool first_wrong = sink.first && sink.first->at.pos == 1;
      cr_assert_eq(first_wrong, !right, "%02x %02x %02x %02x", s[0], s[1], s[2], s[3]);
    }
    arena_free(a);
    a = arena_new();
  }
  arena_free(a);

  unit u;
  start(&u, "a\xff\xfe\nb\0\0\nc\xe2\x82", 11);
  lex_check_text(&u.sink, u.file);
  cr_assert_str_eq(diagnostics(&u),
                   "t.tk:1:2: error: byte 0xff is not UTF-8 text; save the file as UTF-8 [invalid_utf8]\n"
                   "t.tk:2:2: error: a NUL byte is not text [nul_byte]\n"
                   "t.tk:3:2: error: byte 0xe2 is not UTF-8 text; save the file as UTF-8 [invalid_utf8]\n");
  arena_free(u.a);
}
