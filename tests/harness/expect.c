/* Diagnostics against the expectations beside the guilty lines: `#! text`, `#!^ text`. */
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

static const char *severity_word(diag_severity s) {
  return s == DIAG_ERROR ? "error" : s == DIAG_WARNING ? "warning" : "note";
}

const char *test_expect_diags(arena *a, const char *path, const char *source, const diag_sink *sink) {
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
  for (const diag *d = sink->first; d; d = d->next) {
    src_loc loc;
    int at = src_locate(sink->sources, d->at, &loc) ? loc.line : 0;
    const char *text = arena_printf(a, "%s: %s [%s]", severity_word(d->severity), d->message, d->desc->id);
    bool met = false;
    for (int i = 0; i < want.n && !met; i++) {
      expectation *e = &want.at[i];
      if (e->met || e->line != at || !strstr(text, arena_printf(a, "%.*s", (int)e->len, e->text))) continue;
      e->met = met = true;
    }
    if (!met) text_printf(&out, "%s:%d: unexpected %s\n", path, at, text);
  }
  for (int i = 0; i < want.n; i++)
    if (!want.at[i].met)
      text_printf(&out, "%s:%d: missing on line %d: %.*s\n", path, want.at[i].from, want.at[i].line,
                  (int)want.at[i].len, want.at[i].text);
  return out.n ? out.at : NULL;
}
