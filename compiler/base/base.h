/* base: memory by lifetime, interned strings, source text, diagnostics.
 *
 * Everything above stands on this header; it knows nothing of compilers. Rules that hold for all of tkc:
 *   - memory belongs to an arena and dies with it; nothing inside an arena is freed singly;
 *   - library code never prints and never exits. What is wrong with the input is a diagnostic in a sink that the
 *     caller owns. What is wrong with tkc itself, and running out of memory, is a panic: base_panic() jumps to the
 *     innermost base_guard of this thread (the driver sets one), or aborts if there is none. */
#ifndef BASE_H
#define BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define BASE_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BASE_PRINTF(fmt, args)
#endif

/* ---- panic ---------------------------------------------------------------------------------------------------- */

typedef struct base_guard {
  jmp_buf jump;
  struct base_guard *outer;
  char message[512];
} base_guard;

/* Usage: base_guard g; base_guard_push(&g); if (setjmp(g.jump) == 0) { work } else { g.message says why }
   base_guard_pop(&g) ends it on both ways out. Guards nest and are per thread. */
void base_guard_push(base_guard *g);
void base_guard_pop(base_guard *g);
_Noreturn void base_panic(const char *fmt, ...) BASE_PRINTF(1, 2);

/* A broken invariant of tkc's own: never reachable by bad input. */
#define BASE_ASSERT(cond) \
  ((cond) ? (void)0 : base_panic("%s:%d: internal assertion failed: %s", __FILE__, __LINE__, #cond))

/* ---- arena ---------------------------------------------------------------------------------------------------- */

typedef struct arena arena;

arena *arena_new(void);
void arena_free(arena *a); /* NULL is allowed */
/* Zeroed memory, aligned to 16 bytes; never NULL (running out of memory panics). */
void *arena_alloc(arena *a, size_t bytes);
void *arena_copy(arena *a, const void *from, size_t bytes);
char *arena_printf(arena *a, const char *fmt, ...) BASE_PRINTF(2, 3);
char *arena_vprintf(arena *a, const char *fmt, va_list ap);
#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* Vectors: three fields in any struct or local, grown in an arena. `VEC(int) v = {0}; VEC_PUSH(a, v, 7); v.at[i]` */
#define VEC(type) \
  struct {        \
    type *at;     \
    int n, cap;   \
  }
#define VEC_PUSH(a, v, x)                                                                  \
  do {                                                                                     \
    if ((v).n == (v).cap) (v).at = vec_grow((a), (v).at, &(v).cap, (v).n, sizeof *(v).at); \
    (v).at[(v).n++] = (x);                                                                 \
  } while (0)
void *vec_grow(arena *a, void *old, int *cap, int n, size_t item);

/* ---- strings -------------------------------------------------------------------------------------------------- */

/* An interned string: equal text means equal pointer within one strtab. NUL-terminated; may hold any other byte. */
typedef struct strtab strtab;
strtab *strtab_new(arena *a);
const char *strtab_intern(strtab *t, const char *s, size_t len);
const char *strtab_str(strtab *t, const char *s);

/* A growing text buffer in an arena: for printers. `at` is NUL-terminated after every call. */
typedef struct textbuf {
  arena *a;
  char *at;
  size_t n, cap;
} textbuf;
void text_init(textbuf *b, arena *a);
void text_add(textbuf *b, const char *s, size_t n);
void text_str(textbuf *b, const char *s);
void text_char(textbuf *b, char c);
void text_printf(textbuf *b, const char *fmt, ...) BASE_PRINTF(2, 3);

/* FNV-1a, 64 bits (Fowler, Noll, Vo): for hash tables, not for content hashes. */
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);
#define HASH_SEED UINT64_C(0xcbf29ce484222325)

/* ---- source text ---------------------------------------------------------------------------------------------- */

/* A place in the sources of one compilation: `pos` counts bytes over all of its files (0 = nowhere), so that a span
   is 8 bytes and needs no file number. */
typedef struct span {
  uint32_t pos, len;
} span;

typedef struct src_file {
  const char *path; /* as the user named it */
  const char *text; /* NUL-terminated; may contain NUL earlier, `len` counts */
  size_t len;
  uint32_t base; /* pos of its first byte */
  const uint32_t *line_start;
  int n_lines;
} src_file;

typedef struct src_map src_map;
src_map *src_map_new(arena *a);
/* Copies path and text. Files together may hold at most 2^31 bytes; returns NULL beyond that. */
const src_file *src_add(src_map *m, const char *path, const char *text, size_t len);
const src_file *src_file_of(const src_map *m, span s); /* NULL for a span that is nowhere */

typedef struct src_loc {
  const src_file *file;
  int line, col;         /* 1-based; col counts bytes */
  int end_line, end_col; /* one past the last byte */
} src_loc;
bool src_locate(const src_map *m, span s, src_loc *out);
void src_locate_in(const src_file *f, span s, src_loc *out); /* s must start in f */
/* Text of a 1-based line without its line end; *len receives its length. */
const char *src_line(const src_file *f, int line, size_t *len);
span span_join(span a, span b); /* smallest span over both; a span that is nowhere is neutral */

/* ---- diagnostics ---------------------------------------------------------------------------------------------- */

typedef enum diag_severity { DIAG_NOTE, DIAG_WARNING, DIAG_ERROR } diag_severity;

/* One row of a module's diags.def: DIAG(id, severity, "format"). The id of a warning is its -W name (with '_' as '-').
 */
typedef struct diag_desc {
  const char *id;
  diag_severity severity;
  const char *format;
} diag_desc;

typedef struct diag_remark {
  span at;
  bool is_fix; /* printed as "help:" rather than "note:" */
  const char *message;
  struct diag_remark *next;
} diag_remark;

typedef struct diag {
  const diag_desc *desc;
  diag_severity severity; /* after -Werror */
  span at;
  const char *message;
  diag_remark *remarks;
  struct diag *next;
  struct diag_sink *sink;
} diag;

/* Collects diagnostics in the order they are made. Owned by the caller; memory comes from the given arena. */
typedef struct diag_sink {
  arena *a;
  src_map *sources;
  diag *first, *last;
  int n_errors, n_warnings;
  int max_errors;        /* 0 = no limit; later errors are counted but not kept */
  bool warnings_error;   /* -Werror */
  VEC(const char *) off; /* ids of warnings switched off */
  VEC(diag *) seen;      /* hash set of those kept */
  diag ignored;          /* what diag_add returns for what is not kept */
} diag_sink;

void diag_sink_init(diag_sink *s, arena *a, src_map *sources);
/* Adds a diagnostic and returns it for notes; returns a harmless dummy for a warning that is off. Never NULL.
   An identical diagnostic (same id, place and text) is kept once. */
diag *diag_add(diag_sink *s, span at, const diag_desc *d, ...);
void diag_note(diag *d, span at, const char *fmt, ...) BASE_PRINTF(3, 4);
void diag_fix(diag *d, span at, const char *fmt, ...) BASE_PRINTF(3, 4);

typedef enum diag_style { DIAG_TEXT, DIAG_LINE, DIAG_JSON } diag_style;
/* Renders every diagnostic of the sink: TEXT with source lines and carets (ANSI colours if asked), LINE as
   `path:line:col: error: message [id]`, JSON as one array with a trailing newline. */
void diag_render(const diag_sink *s, diag_style style, bool colour, textbuf *out);

#endif
