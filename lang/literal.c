/* The values of literals: numbers, and strings with their prefixes and escapes (Python 3.11, lexical analysis 2.4).
 *
 * Strings are decoded to UTF-8 bytes; bytes literals to the bytes themselves. Escapes that Python does not know stay as
 * they are, as there. Named characters (\N{...}) would need the Unicode name table: they are an error that says what to
 * write instead. */
#include "lang/lang_diags.h"
#include "lang/lexer.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------------------------- */

static unsigned digit_value(char c) {
  if (c >= '0' && c <= '9') return (unsigned)(c - '0');
  if (c >= 'a' && c <= 'f') return (unsigned)(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return (unsigned)(c - 'A') + 10;
  return 16;
}

static unsigned base_of_letter(char c) {
  switch (c) {
    case 'x':
    case 'X': return 16;
    case 'o':
    case 'O': return 8;
    case 'b':
    case 'B': return 2;
    default: return 10;
  }
}

uint64_t lex_int(diag_sink *sink, const lex_token *t, bool *big) {
  const char *s = t->text;
  size_t n = t->at.len, i = 0;
  unsigned base = n > 2 && s[0] == '0' ? base_of_letter(s[1]) : 10;
  if (base != 10) i = 2;
  uint64_t value = 0;
  *big = false;
  for (; i < n; i++) {
    if (s[i] == '_') continue;
    unsigned digit = digit_value(s[i]);
    if (value > (UINT64_MAX - digit) / base) *big = true;
    value = value * base + digit;
  }
  if (base == 10 && n > 1 && s[0] == '0' && (value > 0 || *big)) {
    size_t zeros = strspn(s, "0_");
    bool octal = n - zeros < 20 && strspn(s + zeros, "01234567_") >= n - zeros;
    const char *remedy = octal ? arena_printf(sink->a, "write 0o%.*s for octal, or", (int)(n - zeros), s + zeros) : "";
    diag_add(sink, t->at, &D_leading_zeros, remedy, *remedy ? " " : "");
  }
  return value;
}

double lex_float(arena *a, const lex_token *t) {
  char *digits = arena_alloc(a, t->at.len + 1);
  size_t n = 0;
  for (size_t i = 0; i < t->at.len; i++) {
    char c = t->text[i];
    if (c != '_' && c != 'j' && c != 'J') digits[n++] = c;
  }
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0) base_panic("out of memory (the C locale)");
  locale_t before = uselocale(c_locale);
  double value = strtod(digits, NULL);
  uselocale(before);
  freelocale(c_locale);
  return value;
}

/* ---- strings -------------------------------------------------------------------------------------------------- */

lex_string lex_string_parts(const lex_token *t) {
  lex_string x = {0};
  const char *s = t->text, *end = s + t->at.len;
  for (; *s != '"' && *s != '\''; s++) {
    x.raw |= *s == 'r' || *s == 'R';
    x.bytes |= *s == 'b' || *s == 'B';
    x.format |= *s == 'f' || *s == 'F';
  }
  size_t quotes = end - s >= 6 && s[1] == s[0] && s[2] == s[0] ? 3 : 1;
  x.body = s + quotes;
  x.body_len = (size_t)(end - s) - 2 * quotes;
  return x;
}

static void add_utf8(textbuf *out, uint32_t cp) {
  if (cp < 0x80) {
    text_char(out, (char)cp);
  } else if (cp < 0x800) {
    text_char(out, (char)(0xc0 | cp >> 6));
    text_char(out, (char)(0x80 | (cp & 0x3f)));
  } else if (cp < 0x10000) {
    text_char(out, (char)(0xe0 | cp >> 12));
    text_char(out, (char)(0x80 | (cp >> 6 & 0x3f)));
    text_char(out, (char)(0x80 | (cp & 0x3f)));
  } else {
    text_char(out, (char)(0xf0 | cp >> 18));
    text_char(out, (char)(0x80 | (cp >> 12 & 0x3f)));
    text_char(out, (char)(0x80 | (cp >> 6 & 0x3f)));
    text_char(out, (char)(0x80 | (cp & 0x3f)));
  }
}

/* An escape that cannot be decoded: reported, and kept as text. */
static size_t bad_escape(diag_sink *sink, textbuf *out, const char *text, size_t len, uint32_t at, const char *why) {
  diag_add(sink, (span){at, (uint32_t)len}, &D_bad_escape, arena_printf(sink->a, "%.*s", (int)len, text), why);
  text_add(out, text, len);
  return len;
}

/* \x, \u, \U: exactly `digits` hexadecimal digits. */
static size_t hex_escape(diag_sink *sink, textbuf *out, bool bytes, const char *s, size_t n, uint32_t at,
                         size_t digits) {
  uint32_t cp = 0;
  size_t i = 2;
  for (; i < digits + 2 && i < n && digit_value(s[i]) < 16; i++) cp = cp << 4 | digit_value(s[i]);
  if (i < digits + 2) {
    static const char *const why[] = {[2] = "two hexadecimal digits have to follow \\x",
                                      [4] = "four hexadecimal digits have to follow \\u",
                                      [8] = "eight hexadecimal digits have to follow \\U"};
    return bad_escape(sink, out, s, i, at, why[digits]);
  }
  if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
    return bad_escape(sink, out, s, i, at, "there is no such Unicode character");
  if (bytes)
    text_char(out, (char)cp);
  else
    add_utf8(out, cp);
  return i;
}

/* Decodes the escape at s[0] == '\\' and returns its length in the source. */
static size_t escape(diag_sink *sink, textbuf *out, bool bytes, const char *s, size_t n, uint32_t at) {
  static const char simple[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
  if (n < 2) {
    text_char(out, '\\');
    return 1;
  }
  char c = s[1];
  if (c == '\n') return 2;
  if (c == '\r') return n > 2 && s[2] == '\n' ? 3 : 2;
  for (const char *p = simple; *p; p += 2) {
    if (p[0] != c) continue;
    text_char(out, p[1]);
    return 2;
  }
  if (c >= '0' && c <= '7') {
    uint32_t cp = 0;
    size_t i = 1;
    for (; i < 4 && i < n && s[i] >= '0' && s[i] <= '7'; i++) cp = cp << 3 | digit_value(s[i]);
    if (bytes)
      text_char(out, (char)(cp & 0xff));
    else
      add_utf8(out, cp);
    return i;
  }
  if (c == 'x') return hex_escape(sink, out, bytes, s, n, at, 2);
  if (c == 'u' && !bytes) return hex_escape(sink, out, bytes, s, n, at, 4);
  if (c == 'U' && !bytes) return hex_escape(sink, out, bytes, s, n, at, 8);
  if (c == 'N' && !bytes) {
    size_t i = 2;
    if (i < n && s[i] == '{') {
      while (i < n && s[i] != '}') i++;
      if (i < n) i++;
    }
    return bad_escape(sink, out, s, i, at, "characters by name are not supported; write the character or its \\uXXXX");
  }
  text_char(out, '\\');
  return 1;
}

void lex_decode(diag_sink *sink, textbuf *out, const lex_string *s, const char *text, size_t len, uint32_t at) {
  bool ascii = true;
  for (size_t i = 0; i < len;) {
    if (text[i] == '\\' && !s->raw) {
      i += escape(sink, out, s->bytes, text + i, len - i, at + (uint32_t)i);
    } else if (text[i] == '\r') {
      text_char(out, '\n');
      i += i + 1 < len && text[i + 1] == '\n' ? 2 : 1;
    } else {
      ascii &= (unsigned char)text[i] < 0x80;
      text_char(out, text[i++]);
    }
  }
  if (s->bytes && !ascii) diag_add(sink, (span){at, (uint32_t)len}, &D_bytes_not_ascii);
}

/* ---- encoding ------------------------------------------------------------------------------------------------- */

/* Length of the well-formed UTF-8 sequence at s (RFC 3629, table 3-7 of the Unicode standard), 0 if there is none; the
   NUL behind the text ends every sequence. */
static size_t utf8_length(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  unsigned lo = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
  unsigned hi = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
  if (s[1] < lo || s[1] > hi) return 0;
  for (size_t i = 2; i < len; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  return len;
}

void lex_check_text(diag_sink *sink, const src_file *f) {
  bool told = false;
  for (size_t i = 0; i < f->len;) {
    const unsigned char *s = (const unsigned char *)f->text + i;
    size_t n = utf8_length(s);
    if ((n == 0 || *s == '\0') && !told) {
      span at = {f->base + (uint32_t)i, 1};
      if (n == 0)
        diag_add(sink, at, &D_invalid_utf8, arena_printf(sink->a, "0x%02x", (unsigned)*s));
      else
        diag_add(sink, at, &D_nul_byte);
      told = true;
    }
    if (*s == '\n') told = false;
    i += n ? n : 1;
  }
}
