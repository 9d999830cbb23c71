/* The CHECK matcher: directives in the comments of one text, matched in order against the lines of another.
 *
 * A directive's text becomes a row of atoms (a character, a class, a run of blanks, the begin, end or use of a capture)
 * which a backtracking matcher tries at every column of a line. Captures are places in the text under test; those made
 * by an attempt that fails are undone by restoring the whole table. A CHECK-NOT is held back until the next directive
 * that finds a line says how far it reaches. */
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

enum { MAX_ATOMS = 256, MAX_CAPTURES = 32 };

typedef enum atom_kind { AT_CHAR, AT_DIGIT, AT_WORD, AT_ANY, AT_BLANKS, AT_BEGIN, AT_END, AT_USE } atom_kind;

typedef struct atom {
  atom_kind kind;
  char c;      /* CHAR */
  char repeat; /* 0, '*' or '+' */
  int capture; /* BEGIN, END, USE */
} atom;

typedef struct pattern {
  atom at[MAX_ATOMS];
  int n;
} pattern;

typedef struct capture {
  char name[16];
  const char *at; /* NULL: named, but not matched yet */
  size_t len;
} capture;

typedef struct captures {
  capture at[MAX_CAPTURES];
  int n;
} captures;

typedef struct line {
  const char *at, *end;
} line;

typedef struct matcher {
  arena *a;
  const char *path;
  VEC(line) lines;
  int next; /* the first line that no directive has consumed */
  captures caps;
} matcher;

typedef enum check_kind { CK_CHECK, CK_NEXT, CK_NOT, CK_COUNT } check_kind;

typedef struct directive {
  check_kind kind;
  int count, line_no;
  line text;
} directive;

/* ---- patterns --------------------------------------------------------------------------------------------------- */

static bool is_blank(char c) { return c == ' ' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int find_capture(captures *c, const char *name, size_t len, bool add) {
  if (len == 0 || len >= sizeof c->at[0].name) return -1;
  for (int i = 0; i < c->n; i++)
    if (strlen(c->at[i].name) == len && !memcmp(c->at[i].name, name, len)) return i;
  if (!add || c->n == MAX_CAPTURES) return -1;
  memset(&c->at[c->n], 0, sizeof c->at[c->n]);
  memcpy(c->at[c->n].name, name, len);
  return c->n++;
}

static bool add_atom(pattern *p, atom a) {
  if (p->n == MAX_ATOMS) return false;
  p->at[p->n++] = a;
  return true;
}

/* The pattern inside a capture: classes and repetition count here, and only here. */
static bool compile_capture(pattern *p, const char *s, const char *end) {
  while (s < end) {
    atom a = {.kind = AT_CHAR, .c = *s};
    if (*s == '.') a.kind = AT_ANY;
    if (*s == '\\' && s + 1 < end) {
      s++;
      a.c = *s;
      if (*s == 'd') a.kind = AT_DIGIT;
      if (*s == 'w') a.kind = AT_WORD;
    }
    s++;
    if (s < end && (*s == '*' || *s == '+')) a.repeat = *s++;
    if (!add_atom(p, a)) return false;
  }
  return true;
}

static const char *compile(matcher *m, const directive *d, pattern *p) {
  p->n = 0;
  const char *s = d->text.at, *end = d->text.end;
  while (s < end) {
    bool fits = true;
    if (is_blank(*s)) {
      while (s < end && is_blank(*s)) s++;
      fits = add_atom(p, (atom){.kind = AT_BLANKS});
    } else if (s + 2 < end && s[0] == '[' && s[1] == '[' && s[2] != '[') { /* "[[[r]]]" is "[", r, "]" */
      const char *name = s + 2, *close = name;
      while (close + 1 < end && !(close[0] == ']' && close[1] == ']')) close++;
      if (close + 1 >= end) return "[[ without ]]";
      const char *colon = memchr(name, ':', (size_t)(close - name));
      size_t len = (size_t)((colon ? colon : close) - name);
      int c = find_capture(&m->caps, name, len, colon != NULL);
      if (c < 0) return colon ? "too many captures or too long a name" : "a capture is used before it is made";
      if (colon) {
        fits = add_atom(p, (atom){.kind = AT_BEGIN, .capture = c}) && compile_capture(p, colon + 1, close) &&
               add_atom(p, (atom){.kind = AT_END, .capture = c});
      } else {
        fits = add_atom(p, (atom){.kind = AT_USE, .capture = c});
      }
      s = close + 2;
    } else {
      fits = add_atom(p, (atom){.kind = AT_CHAR, .c = *s++});
    }
    if (!fits) return "too long a pattern";
  }
  return p->n ? NULL : "an empty pattern";
}

static bool atom_takes(const atom *a, char c) {
  switch (a->kind) {
    case AT_CHAR: return c == a->c;
    case AT_DIGIT: return is_digit(c);
    case AT_WORD: return is_word(c);
    case AT_ANY: return true;
    default: return false;
  }
}

static bool match_here(captures *caps, const pattern *p, int i, const char *s, const char *end) {
  if (i == p->n) return true;
  const atom *a = &p->at[i];
  capture *c = &caps->at[a->capture];
  switch (a->kind) {
    case AT_BLANKS: {
      if (s == end ? p->n != i + 1 : !is_blank(*s)) return false;
      while (s < end && is_blank(*s)) s++;
      return match_here(caps, p, i + 1, s, end);
    }
    case AT_BEGIN: c->at = s; return match_here(caps, p, i + 1, s, end);
    case AT_END: c->len = (size_t)(s - c->at); return match_here(caps, p, i + 1, s, end);
    case AT_USE:
      if (!c->at || (size_t)(end - s) < c->len || memcmp(s, c->at, c->len) != 0) return false;
      return match_here(caps, p, i + 1, s + c->len, end);
    default: break;
  }
  if (!a->repeat) return s < end && atom_takes(a, *s) && match_here(caps, p, i + 1, s + 1, end);
  const char *stop = s;
  while (stop < end && atom_takes(a, *stop)) stop++;
  for (const char *t = stop; t >= s + (a->repeat == '+'); t--)
    if (match_here(caps, p, i + 1, t, end)) return true;
  return false;
}

static bool line_matches(matcher *m, const pattern *p, const line *l) {
  captures before = m->caps;
  for (const char *s = l->at; s <= l->end; s++) {
    if (match_here(&m->caps, p, 0, s, l->end)) return true;
    m->caps = before;
  }
  return false;
}

/* ---- directives ------------------------------------------------------------------------------------------------- */

/* Reads the directive of a comment line. Returns NULL and sets *found, or a problem. */
static const char *read_directive(const char *s, const char *end, int line_no, directive *d, bool *found) {
  *found = false;
  while (s < end && is_blank(*s)) s++;
  if (end - s >= 2 && s[0] == '/' && s[1] == '/')
    s += 2;
  else if (s < end && *s == '#')
    s += 1;
  else
    return NULL;
  while (s < end && is_blank(*s)) s++;
  if (end - s < 5 || memcmp(s, "CHECK", 5) != 0) return NULL;
  s += 5;
  const char *colon = memchr(s, ':', (size_t)(end - s));
  if (!colon) return "a CHECK without a colon";
  size_t n = (size_t)(colon - s);
  *d = (directive){.line_no = line_no};
  if (n == 0)
    d->kind = CK_CHECK;
  else if (n == 5 && !memcmp(s, "-NEXT", 5))
    d->kind = CK_NEXT;
  else if (n == 4 && !memcmp(s, "-NOT", 4))
    d->kind = CK_NOT;
  else if (n > 7 && !memcmp(s, "-COUNT ", 7)) {
    d->kind = CK_COUNT;
    char *stop;
    d->count = (int)strtol(s + 7, &stop, 10);
    if (stop != colon || d->count < 0) return "CHECK-COUNT needs a number";
  } else {
    return "an unknown CHECK directive";
  }
  s = colon + 1;
  while (s < end && is_blank(*s)) s++;
  while (end > s && (is_blank(end[-1]) || end[-1] == '\r')) end--;
  d->text = (line){s, end};
  *found = true;
  return NULL;
}

static const char *fail(matcher *m, const directive *d, const char *what, int at) {
  const char *near = "(end of the text)";
  if (at < m->lines.n)
    near = arena_printf(m->a, "%.*s", (int)(m->lines.at[at].end - m->lines.at[at].at), m->lines.at[at].at);
  return arena_printf(m->a, "%s:%d: %s: %.*s\n  at line %d of the text: %s\n", m->path, d->line_no, what,
                      (int)(d->text.end - d->text.at), d->text.at, at + 1, near);
}

/* No line of [from, to) may match one of the held-back CHECK-NOTs. */
static const char *check_nots(matcher *m, const directive *nots, int n, int from, int to) {
  pattern p;
  for (int i = 0; i < n; i++) {
    const char *bad = compile(m, &nots[i], &p);
    if (bad) return fail(m, &nots[i], bad, from);
    for (int k = from; k < to; k++)
      if (line_matches(m, &p, &m->lines.at[k])) return fail(m, &nots[i], "CHECK-NOT found", k);
  }
  return NULL;
}

static const char *run_directive(matcher *m, const directive *d, const directive *nots, int n_nots) {
  pattern p;
  const char *bad = compile(m, d, &p);
  if (bad) return fail(m, d, bad, m->next);
  if (d->kind == CK_COUNT) {
    int count = 0;
    captures before = m->caps;
    for (int k = m->next; k < m->lines.n; k++) {
      count += line_matches(m, &p, &m->lines.at[k]);
      m->caps = before;
    }
    return count == d->count ? NULL
                             : fail(m, d, arena_printf(m->a, "CHECK-COUNT is %d, found %d", d->count, count), m->next);
  }
  int last = d->kind == CK_NEXT ? m->next + 1 : m->lines.n;
  for (int k = m->next; k < last && k < m->lines.n; k++) {
    if (!line_matches(m, &p, &m->lines.at[k])) continue;
    bad = check_nots(m, nots, n_nots, m->next, k);
    m->next = k + 1;
    return bad;
  }
  return fail(m, d, d->kind == CK_NEXT ? "CHECK-NEXT does not match" : "CHECK not found", m->next);
}

const char *test_check(arena *a, const char *path, const char *directives, const char *text) {
  matcher *m = ARENA_NEW(a, matcher);
  m->a = a;
  m->path = path;
  for (const char *s = text; *s;) {
    size_t n = strcspn(s, "\n");
    line l = {s, s + n};
    VEC_PUSH(a, m->lines, l);
    s += n + (s[n] != 0);
  }
  VEC(directive) nots = {0};
  int line_no = 1, n_directives = 0;
  for (const char *s = directives; *s; line_no++) {
    size_t n = strcspn(s, "\n");
    directive d;
    bool found;
    const char *bad = read_directive(s, s + n, line_no, &d, &found);
    if (bad) return arena_printf(a, "%s:%d: %s\n", path, line_no, bad);
    s += n + (s[n] != 0);
    if (!found) continue;
    n_directives++;
    if (d.kind == CK_NOT) {
      VEC_PUSH(a, nots, d);
      continue;
    }
    bad = run_directive(m, &d, nots.at, nots.n);
    if (bad) return bad;
    if (d.kind != CK_COUNT) nots.n = 0;
  }
  if (n_directives == 0) return arena_printf(a, "%s: no CHECK directive\n", path);
  return check_nots(m, nots.at, nots.n, m->next, m->lines.n);
}
