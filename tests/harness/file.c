/* Test files: reading, the header's options, the split at `====`, comparison and update of whole goldens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

char *test_read_file(arena *a, const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  textbuf b;
  text_init(&b, a);
  char chunk[1 << 14];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) text_add(&b, chunk, n);
  bool bad = ferror(f) != 0;
  fclose(f);
  if (bad) return NULL;
  text_add(&b, "", 0);
  if (len) *len = b.n;
  return b.at ? b.at : arena_copy(a, "", 1);
}

bool test_write_file(const char *path, const char *text, size_t len) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(text, 1, len, f) == len;
  return fclose(f) == 0 && good;
}

static const char *skip_blanks(const char *s) { return s + strspn(s, " \t"); }

/* The text of a whole-line comment, or NULL. */
static const char *comment_of(const char *line) {
  const char *s = skip_blanks(line);
  if (s[0] == '/' && s[1] == '/') return s + 2;
  if (s[0] == '#' && s[1] != '!') return s + 1;
  return NULL;
}

static bool known(const char *words, const char *word, size_t n) {
  for (const char *w = skip_blanks(words); *w; w = skip_blanks(w)) {
    size_t len = strcspn(w, " \t");
    if (len == n && !memcmp(w, word, n)) return true;
    w += len;
  }
  return false;
}

/* `word: value` in the comment on one line; a comment that has no such form is prose. */
static const char *read_option(arena *a, test_file *f, const char *words, const char *comment, size_t len, int line) {
  const char *text = arena_printf(a, "%.*s", (int)len, comment);
  const char *word = skip_blanks(text);
  size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz_");
  if (n == 0 || word[n] != ':') return NULL;
  if (!known(words, word, n))
    return arena_printf(a, "%s:%d: unknown option '%.*s' (known: %s)", f->path, line, (int)n, word, words);
  const char *value = skip_blanks(word + n + 1);
  size_t end = strlen(value);
  while (end && strchr(" \t\r", value[end - 1])) end--;
  test_option o = {arena_printf(a, "%.*s", (int)n, word), arena_printf(a, "%.*s", (int)end, value), line};
  VEC_PUSH(a, f->options, o);
  return NULL;
}

test_file *test_file_read(arena *a, const char *path, const char *words, const char **problem) {
  test_file *f = ARENA_NEW(a, test_file);
  f->path = path;
  f->text = test_read_file(a, path, &f->len);
  if (!f->text) {
    *problem = arena_printf(a, "%s: cannot be read", path);
    return NULL;
  }
  f->input_len = f->len;
  bool header = true;
  int line = 1;
  for (const char *s = f->text; *s; line++) {
    size_t n = strcspn(s, "\n");
    const char *next = s[n] ? s + n + 1 : s + n;
    if (n == 4 && !memcmp(s, "====", 4)) {
      f->input_len = (size_t)(s - f->text);
      f->expected = next;
      break;
    }
    const char *comment = comment_of(s);
    if (comment && comment <= s + n && strstr(arena_printf(a, "%.*s", (int)(s + n - comment), comment), "CHECK"))
      f->has_checks = true;
    else if (!comment && n > 0)
      header = false;
    else if (comment && header) {
      *problem = read_option(a, f, words, comment, (size_t)(s + n - comment), line);
      if (*problem) return NULL;
    }
    s = next;
  }
  return f;
}

const char *test_option_get(const test_file *f, const char *word, const char *absent) {
  for (int i = f->options.n; i-- > 0;)
    if (!strcmp(f->options.at[i].word, word)) return f->options.at[i].value;
  return absent;
}

const char **test_words(arena *a, const char *value, int *n) {
  VEC(const char *) words = {0};
  for (const char *s = skip_blanks(value); *s; s = skip_blanks(s)) {
    textbuf b;
    text_init(&b, a);
    text_str(&b, "");
    for (bool quoted = false; *s && (quoted || (*s != ' ' && *s != '\t')); s++) {
      if (*s == '\'')
        quoted = !quoted;
      else
        text_char(&b, *s);
    }
    VEC_PUSH(a, words, b.at);
  }
  if (n) *n = words.n;
  VEC_PUSH(a, words, NULL);
  return words.at;
}

static size_t trimmed(const char *s, size_t n) {
  while (n && strchr(" \t\r", s[n - 1])) n--;
  return n;
}

const char *test_diff(arena *a, const char *path, const char *wanted, const char *got) {
  for (int line = 1; *wanted || *got; line++) {
    size_t nw = strcspn(wanted, "\n"), ng = strcspn(got, "\n");
    size_t tw = trimmed(wanted, nw), tg = trimmed(got, ng);
    if (tw != tg || memcmp(wanted, got, tw))
      return arena_printf(a, "%s: line %d of the output differs\n  wanted: %.*s\n  got:    %.*s\n", path, line, (int)tw,
                          wanted, (int)tg, got);
    wanted += nw + (wanted[nw] != 0);
    got += ng + (got[ng] != 0);
  }
  return NULL;
}

const char *test_golden(arena *a, const test_file *f, const char *got) {
  const char *why = f->expected ? test_diff(a, f->path, f->expected, got) : NULL;
  const char *update = getenv("UPDATE");
  if (f->expected && !why) return NULL;
  if (!update || strcmp(update, "1") != 0)
    return why ? arena_printf(a, "%s(`make update` rewrites it)\n%s", why, got)
               : arena_printf(a, "%s: has no ==== line and no CHECK", f->path);
  textbuf b;
  text_init(&b, a);
  text_add(&b, f->text, f->input_len);
  if (b.n && b.at[b.n - 1] != '\n') text_char(&b, '\n');
  text_str(&b, "====\n");
  text_str(&b, got);
  if (!test_write_file(f->path, b.at, b.n)) return arena_printf(a, "%s: cannot be rewritten", f->path);
  fprintf(stderr, "updated %s\n", f->path);
  return NULL;
}
