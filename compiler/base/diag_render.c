/* Rendering diagnostics: for people (TEXT), for tools that read lines (LINE), for editors (JSON).
 *
 * Source text is shown as a grid of cells: tabs become spaces up to the next multiple of 8, a code point takes one cell
 * (two where terminals draw it wide, none where it combines), and bytes that are no text (control characters, invalid
 * UTF-8) appear as \xNN, so that no source can send escape sequences to a terminal. Carets are laid out in the same
 * cells. Of a long line only a window around the span is shown: a file of one huge line with thousands of mistakes
 * would otherwise print thousands of copies of it. */
#include "compiler/base/base.h"

#include <string.h>

#define TAB_CELLS 8
#define WINDOW_BEFORE 80u /* bytes of a line shown before and after the start of a span */
#define WINDOW_AFTER 120u
#define SPAN_LINES 6 /* of a longer span, the first and last lines */

static const char *const severity_name[] = {"note", "warning", "error"};

/* ---- text in cells -------------------------------------------------------------------------------------------- */

/* Length of the well-formed UTF-8 sequence at s (RFC 3629), 0 if there is none; *cp receives the code point. */
static size_t utf8_at(const char *s, size_t n, uint32_t *cp) {
  const unsigned char *b = (const unsigned char *)s;
  uint32_t c = b[0];
  if (c < 0x80) {
    *cp = c;
    return 1;
  }
  size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
  if (c < 0xc2 || c > 0xf4 || len > n) return 0;
  uint32_t v = c & (0xffu >> (len + 1));
  for (size_t i = 1; i < len; i++) {
    if ((b[i] & 0xc0) != 0x80) return 0;
    v = v << 6 | (b[i] & 0x3fu);
  }
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff)) return 0;
  *cp = v;
  return len;
}

/* Terminal cells of a code point; the ranges are the blocks of Unicode's East Asian wide and of combining marks that
   occur in practice, not the whole tables. */
static int cells_of(uint32_t cp) {
  static const struct {
    uint32_t lo, hi;
    int cells;
  } ranges[] = {
      {0x0300, 0x036f, 0}, {0x200b, 0x200f, 0}, {0xfe00, 0xfe0f, 0}, {0x1100, 0x115f, 2},   {0x2e80, 0xa4cf, 2},
      {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xff00, 0xff60, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (cp >= ranges[i].lo && cp <= ranges[i].hi) return ranges[i].cells;
  return 1;
}

/* Bytes of the character at s and the cells it takes at cell `column`; appends it to `out` unless that is NULL. */
static size_t show_char(textbuf *out, const char *s, size_t n, int column, int *cells) {
  uint32_t cp = 0;
  size_t len = utf8_at(s, n, &cp);
  if (len == 1 && cp == '\t') {
    *cells = TAB_CELLS - column % TAB_CELLS;
    for (int i = 0; out && i < *cells; i++) text_char(out, ' ');
    return 1;
  }
  if (len == 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0)) {
    *cells = 4;
    if (out) text_printf(out, "\\x%02x", (unsigned)(unsigned char)s[0]);
    if (len > 1) {
      *cells = 8;
      if (out) text_printf(out, "\\x%02x", (unsigned)(unsigned char)s[1]);
    }
    return len ? len : 1;
  }
  *cells = cells_of(cp);
  if (out) text_add(out, s, len);
  return len;
}

/* Message or path for a terminal: printable, newlines kept if asked. */
static void show_message(textbuf *out, const char *s, bool newlines) {
  for (size_t n = strlen(s), len; n > 0; s += len, n -= len) {
    int cells;
    if (*s == '\n') {
      text_str(out, newlines ? "\n" : "\\n");
      len = 1;
    } else {
      len = show_char(out, s, n, 0, &cells);
    }
  }
}

static void show_cells(textbuf *out, char c, int n) {
  for (int i = 0; i < n; i++) text_char(out, c);
}

/* ---- source lines with carets --------------------------------------------------------------------------------- */

typedef struct palette {
  const char *severity[3], *place, *gutter, *off;
} palette;

static const palette plain = {{"", "", ""}, "", "", ""};
static const palette colours = {{"\033[1;36m", "\033[1;35m", "\033[1;31m"}, "\033[1m", "\033[34m", "\033[0m"};

/* One source line with carets under bytes [from, to). */
static void show_line(textbuf *out, const palette *p, const char *caret_colour, const src_file *f, int line,
                      size_t from, size_t to) {
  size_t len;
  const char *s = src_line(f, line, &len);
  if (from > len) from = len;
  if (to > len) to = len;

  size_t begin = from > WINDOW_BEFORE ? from - WINDOW_BEFORE : 0;
  while (begin > 0 && ((unsigned char)s[begin] & 0xc0) == 0x80 && from - begin < WINDOW_BEFORE + 4) begin--;
  size_t end = len - from > WINDOW_AFTER ? from + WINDOW_AFTER : len;
  while (end < len && ((unsigned char)s[end] & 0xc0) == 0x80 && end - from < WINDOW_AFTER + 4) end++;

  text_printf(out, "%s%5d |%s ", p->gutter, line, p->off);
  int column = 0, caret_from = 0, caret_to = 0;
  if (begin > 0) {
    text_str(out, "... ");
    column = 4;
    caret_from = 4;
  }
  bool started = false;
  for (size_t i = begin; i < end;) {
    if (!started && i >= from) {
      caret_from = column;
      started = true;
    }
    int cells;
    size_t n = show_char(out, s + i, end - i, column, &cells);
    column += cells;
    i += n;
    if (i <= to || (i > from && i - n < to)) caret_to = column;
  }
  if (!started) caret_from = column;
  if (caret_to <= caret_from) caret_to = caret_from + 1;
  if (end < len) text_str(out, " ...");
  text_printf(out, "\n%s      |%s ", p->gutter, p->off);
  show_cells(out, ' ', caret_from);
  text_str(out, caret_colour);
  show_cells(out, '^', caret_to - caret_from);
  text_printf(out, "%s\n", p->off);
}

/* Bytes of leading white space of a line. */
static size_t line_indent(const src_file *f, int line) {
  size_t len, i = 0;
  const char *s = src_line(f, line, &len);
  while (i < len && (s[i] == ' ' || s[i] == '\t' || s[i] == '\f')) i++;
  return i;
}

static void show_source(textbuf *out, const palette *p, const char *caret_colour, const src_loc *at) {
  int n = at->end_line - at->line + 1;
  for (int line = at->line; line <= at->end_line; line++) {
    if (n > SPAN_LINES && line == at->line + SPAN_LINES - 2) {
      text_printf(out, "%s  ... |%s\n", p->gutter, p->off);
      line = at->end_line;
    }
    size_t len;
    src_line(at->file, line, &len);
    size_t from = line == at->line ? (size_t)at->col - 1 : line_indent(at->file, line);
    size_t to = line == at->end_line ? (size_t)at->end_col - 1 : len;
    if (from >= to && line != at->line) continue;
    show_line(out, p, caret_colour, at->file, line, from, to);
  }
}

/* ---- the three forms ------------------------------------------------------------------------------------------ */

static void show_id(textbuf *out, const diag *d) {
  text_str(out, " [");
  if (d->desc->severity == DIAG_WARNING) {
    text_str(out, "-W");
    for (const char *c = d->desc->id; *c; c++) text_char(out, *c == '_' ? '-' : *c);
  } else {
    text_str(out, d->desc->id);
  }
  text_char(out, ']');
}

static void text_part(const diag_sink *s, const palette *p, span at, const char *label, const char *label_colour,
                      const char *message, const diag *with_id, textbuf *out) {
  src_loc loc;
  bool somewhere = src_locate(s->sources, at, &loc);
  text_str(out, p->place);
  if (somewhere) {
    show_message(out, loc.file->path, false);
    text_printf(out, ":%d:%d: ", loc.line, loc.col);
  }
  text_printf(out, "%s%s%s:%s ", p->off, label_colour, label, p->off);
  show_message(out, message, true);
  if (with_id) show_id(out, with_id);
  text_char(out, '\n');
  if (somewhere) show_source(out, p, label_colour, &loc);
}

static void render_text(const diag_sink *s, bool colour, textbuf *out) {
  const palette *p = colour ? &colours : &plain;
  int errors_shown = 0;
  for (const diag *d = s->first; d; d = d->next) {
    errors_shown += d->severity == DIAG_ERROR;
    text_part(s, p, d->at, severity_name[d->severity], p->severity[d->severity], d->message, d, out);
    for (const diag_remark *r = d->remarks; r; r = r->next)
      text_part(s, p, r->at, r->is_fix ? "help" : "note", p->severity[DIAG_NOTE], r->message, NULL, out);
  }
  if (s->n_errors > errors_shown)
    text_printf(out, "%d more error%s not shown\n", s->n_errors - errors_shown,
                s->n_errors - errors_shown == 1 ? "" : "s");
}

static void line_part(const diag_sink *s, span at, const char *label, const char *message, const char *id,
                      textbuf *out) {
  src_loc loc;
  if (src_locate(s->sources, at, &loc)) {
    show_message(out, loc.file->path, false);
    text_printf(out, ":%d:%d: ", loc.line, loc.col);
  }
  text_printf(out, "%s: ", label);
  show_message(out, message, false);
  if (id) text_printf(out, " [%s]", id);
  text_char(out, '\n');
}

static void render_lines(const diag_sink *s, textbuf *out) {
  for (const diag *d = s->first; d; d = d->next) {
    line_part(s, d->at, severity_name[d->severity], d->message, d->desc->id, out);
    for (const diag_remark *r = d->remarks; r; r = r->next)
      line_part(s, r->at, r->is_fix ? "help" : "note", r->message, NULL, out);
  }
}

/* A JSON string (RFC 8259): well-formed UTF-8 stays, other bytes become U+FFFD. */
static void json_string(textbuf *out, const char *s, size_t n) {
  text_char(out, '"');
  for (size_t i = 0; i < n;) {
    uint32_t cp = 0;
    size_t len = utf8_at(s + i, n - i, &cp);
    if (len == 0)
      text_str(out, "\\ufffd");
    else if (cp == '"' || cp == '\\')
      text_printf(out, "\\%c", (char)cp);
    else if (cp == '\n')
      text_str(out, "\\n");
    else if (cp < 0x20 || cp == 0x7f)
      text_printf(out, "\\u%04x", (unsigned)cp);
    else
      text_add(out, s + i, len);
    i += len ? len : 1;
  }
  text_char(out, '"');
}

/* Members that diagnostics and remarks have in common; columns are 1-based bytes, offset and length bytes of the file.
 */
static void json_members(const diag_sink *s, span at, const char *message, textbuf *out) {
  text_str(out, ",\"message\":");
  json_string(out, message, strlen(message));
  src_loc loc;
  if (!src_locate(s->sources, at, &loc)) return;
  text_str(out, ",\"path\":");
  json_string(out, loc.file->path, strlen(loc.file->path));
  text_printf(out, ",\"line\":%d,\"column\":%d,\"end_line\":%d,\"end_column\":%d,\"offset\":%u,\"length\":%u", loc.line,
              loc.col, loc.end_line, loc.end_col, (unsigned)(at.pos - loc.file->base), (unsigned)at.len);
}

static void render_json(const diag_sink *s, textbuf *out) {
  text_char(out, '[');
  for (const diag *d = s->first; d; d = d->next) {
    text_str(out, d == s->first ? "\n" : ",\n");
    text_str(out, "{\"id\":");
    json_string(out, d->desc->id, strlen(d->desc->id));
    text_printf(out, ",\"severity\":\"%s\"", severity_name[d->severity]);
    json_members(s, d->at, d->message, out);
    text_str(out, ",\"remarks\":[");
    for (const diag_remark *r = d->remarks; r; r = r->next) {
      text_printf(out, "%s{\"kind\":\"%s\"", r == d->remarks ? "" : ",", r->is_fix ? "help" : "note");
      json_members(s, r->at, r->message, out);
      text_char(out, '}');
    }
    text_str(out, "]}");
  }
  text_str(out, s->first ? "\n]\n" : "]\n");
}

void diag_render(const diag_sink *s, diag_style style, bool colour, textbuf *out) {
  switch (style) {
    case DIAG_TEXT: render_text(s, colour, out); break;
    case DIAG_LINE: render_lines(s, out); break;
    case DIAG_JSON: render_json(s, out); break;
  }
}
