/* Diagnostics against the expectations beside the guilty lines: `#! text`, `#!^ text`. */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

typedef struct expectation {
  const char *text;
  size_t len;
  int line; /* of the diagnostic */
  int from; /* where the expectation stands */
  bool met;
} expectation;

/* The expectations on one line: everything from the first `#!`, split at each further one. */
static const char *read_line(const char *s, const char *end, const char **text, size_t *len, int *above) {
  const char *at = NULL;
  for (const char *p = s; p + 1 < end && !at; p++)
    if (p[0] == '#' && p[1] == '!') at = p + 2;
  if (!at) return NULL;
  for (*above = 0; at < end && *at == '^'; at++) ++*above;
  while (at < end && *at == ' ') at++;
  const char *stop = at;
  while (stop < end && !(stop + 1 < end && stop[0] == '#' && stop[1] == '!')) stop++;
  *text = at;
  *len = (size_t)(stop - at);
  while (*len && strchr(" \t\r", at[*len - 1])) --*len;
  return stop;
}

/* One line of rendered diagnostics: the line it points at (0: nowhere, or into another file) and its text from the
   severity on. */
static const char *read_diag(const char *path, const char *s, int *line) {
  *line = 0;
  size_t n = strlen(path);
  if (strncmp(s, path, n) != 0 || s[n] != ':') return s;
  char *stop;
  long at = strtol(s + n + 1, &stop, 10);
  if (*stop != ':') return s;
  strtol(stop + 1, &stop, 10);
  if (stop[0] != ':' || stop[1] != ' ') return s;
  *line = (int)at;
  return stop + 2;
}

const char *test_expect_diags(arena *a, const char *path, const char *source, const char *rendered) {
  VEC(expectation) want = {0};
  int line = 1;
  for (const char *s = source; *s; line++) {
    const char *end = s + strcspn(s, "\n");
    expectation e = {.from = line};
    int above = 0;
    for (const char *p = s; (p = read_line(p, end, &e.text, &e.len, &above)) != NULL;) {
      e.line = line - above;
      if (e.len == 0) return arena_printf(a, "%s:%d: an expectation without text\n", path, line);
      VEC_PUSH(a, want, e);
    }
    s = *end ? end + 1 : end;
  }
  textbuf out;
  text_init(&out, a);
  for (const char *s = rendered; *s;) {
    size_t n = strcspn(s, "\n");
    int at;
    const char *text = read_diag(path, arena_printf(a, "%.*s", (int)n, s), &at);
    bool met = strncmp(text, "note: ", 6) == 0 || strncmp(text, "help: ", 6) == 0;
    for (int i = 0; i < want.n; i++) {
      expectation *e = &want.at[i];
      if (e->met || e->line != at || !strstr(text, arena_printf(a, "%.*s", (int)e->len, e->text))) continue;
      e->met = met = true;
      break;
    }
    if (!met) text_printf(&out, "%s:%d: unexpected %s\n", path, at, text);
    s += n + (s[n] != 0);
  }
  for (int i = 0; i < want.n; i++)
    if (!want.at[i].met)
      text_printf(&out, "%s:%d: missing on line %d: %.*s\n", path, want.at[i].from, want.at[i].line,
                  (int)want.at[i].len, want.at[i].text);
  return out.n ? out.at : NULL;
}

static bool word_char(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool test_has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *s = text; (s = strstr(s, word)) != NULL; s++)
    if ((s == text || !word_char(s[-1])) && !word_char(s[n])) return true;
  return false;
}
