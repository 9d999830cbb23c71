/* Source texts and places in them.
 *
 * All files of a compilation share one line of byte positions: a file takes len + 1 of them, so that its end is a place
 * too, and position 0 stays free to mean "nowhere". Finding the file and then the line of a position are two binary
 * searches. Lines end at LF, CR LF or a lone CR, as in Python; a text that ends with a line end has an empty last line,
 * which is where messages about its end point to. */
#include "compiler/base/base.h"

#include <string.h>

struct src_map {
  arena *a;
  VEC(src_file *) files;
  uint32_t next;
};

#define POSITION_LIMIT (UINT32_C(1) << 31)

src_map *src_map_new(arena *a) {
  src_map *m = ARENA_NEW(a, src_map);
  m->a = a;
  m->next = 1;
  return m;
}

/* Length of the line end at text[i], 0 if there is none. */
static size_t line_end_at(const char *text, size_t len, size_t i) {
  if (text[i] == '\n') return 1;
  if (text[i] != '\r') return 0;
  return i + 1 < len && text[i + 1] == '\n' ? 2 : 1;
}

const src_file *src_add(src_map *m, const char *path, const char *text, size_t len) {
  if (len >= POSITION_LIMIT - m->next) return NULL;
  src_file *f = ARENA_NEW(m->a, src_file);
  char *copy = arena_alloc(m->a, len + 1);
  if (len) memcpy(copy, text, len);
  f->path = arena_copy(m->a, path, strlen(path) + 1);
  f->text = copy;
  f->len = len;
  f->base = m->next;
  m->next += (uint32_t)len + 1;

  int n = 1;
  for (size_t i = 0, end; i < len; i += end ? end : 1) n += (end = line_end_at(copy, len, i)) != 0;
  uint32_t *start = ARENA_ARRAY(m->a, uint32_t, n);
  int line = 1;
  for (size_t i = 0, end; i < len; i += end ? end : 1) {
    end = line_end_at(copy, len, i);
    if (end) start[line++] = (uint32_t)(i + end);
  }
  f->line_start = start;
  f->n_lines = n;
  VEC_PUSH(m->a, m->files, f);
  return f;
}

const src_file *src_file_of(const src_map *m, span s) {
  if (s.pos == 0 || s.pos >= m->next) return NULL;
  int lo = 0, hi = m->files.n - 1;
  while (lo < hi) {
    int mid = lo + (hi - lo + 1) / 2;
    if (m->files.at[mid]->base <= s.pos)
      lo = mid;
    else
      hi = mid - 1;
  }
  return m->files.at[lo];
}

/* 1-based line that holds the byte at `offset`. */
static int line_of(const src_file *f, uint32_t offset) {
  int lo = 0, hi = f->n_lines - 1;
  while (lo < hi) {
    int mid = lo + (hi - lo + 1) / 2;
    if (f->line_start[mid] <= offset)
      lo = mid;
    else
      hi = mid - 1;
  }
  return lo + 1;
}

void src_locate_in(const src_file *f, span s, src_loc *out) {
  BASE_ASSERT(s.pos >= f->base && s.pos - f->base <= f->len);
  uint32_t begin = s.pos - f->base;
  uint32_t room = (uint32_t)f->len - begin;
  uint32_t end = begin + (s.len < room ? s.len : room);
  out->file = f;
  out->line = line_of(f, begin);
  out->col = (int)(begin - f->line_start[out->line - 1]) + 1;
  /* The end of a span that closes with a line end belongs to the line it closes. */
  out->end_line = end > begin ? line_of(f, end - 1) : out->line;
  out->end_col = (int)(end - f->line_start[out->end_line - 1]) + 1;
}

bool src_locate(const src_map *m, span s, src_loc *out) {
  const src_file *f = src_file_of(m, s);
  if (f) src_locate_in(f, s, out);
  return f != NULL;
}

const char *src_line(const src_file *f, int line, size_t *len) {
  BASE_ASSERT(line >= 1 && line <= f->n_lines);
  size_t begin = f->line_start[line - 1];
  size_t end = line < f->n_lines ? f->line_start[line] : f->len;
  if (end > begin && f->text[end - 1] == '\n' && line < f->n_lines) end--;
  if (end > begin && f->text[end - 1] == '\r' && line < f->n_lines) end--;
  *len = end - begin;
  return f->text + begin;
}

span span_join(span a, span b) {
  if (a.pos == 0) return b;
  if (b.pos == 0) return a;
  uint32_t begin = a.pos < b.pos ? a.pos : b.pos;
  uint32_t end = a.pos + a.len > b.pos + b.len ? a.pos + a.len : b.pos + b.len;
  return (span){.pos = begin, .len = end - begin};
}
