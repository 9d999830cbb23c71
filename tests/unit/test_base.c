/* base: memory, strings, places in sources, diagnostics and their three renderings. */
#include "compiler/base/base.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory and strings --------------------------------------------------------------------------------------- */

Test(base, arena_gives_zeroed_aligned_memory_that_does_not_overlap) {
  arena *a = arena_new();
  enum { N = 4000 };
  unsigned char *at[N];
  size_t size[N];
  for (int i = 0; i < N; i++) {
    size[i] = i % 97 == 0 ? 40000 : (size_t)(i * 7 % 300);
    at[i] = arena_alloc(a, size[i]);
    cr_assert_eq((uintptr_t)at[i] % 16, 0, "item %d is not aligned", i);
    for (size_t k = 0; k < size[i]; k++) cr_assert_eq(at[i][k], 0, "byte %zu of item %d is not zero", k, i);
    memset(at[i], i % 255 + 1, size[i]);
  }
  for (int i = 0; i < N; i++)
    for (size_t k = 0; k < size[i]; k++) cr_assert_eq(at[i][k], i % 255 + 1, "item %d was overwritten", i);
  cr_assert_str_eq(arena_printf(a, "%s-%d", "x", 42), "x-42");
  arena_free(a);
  arena_free(NULL);
}

Test(base, vectors_keep_their_items) {
  arena *a = arena_new();
  VEC(int) v = {0};
  for (int i = 0; i < 10000; i++) VEC_PUSH(a, v, i * 3);
  cr_assert_eq(v.n, 10000);
  for (int i = 0; i < v.n; i++) cr_assert_eq(v.at[i], i * 3);
  arena_free(a);
}

Test(base, interning_makes_equal_text_one_pointer) {
  arena *a = arena_new();
  strtab *t = strtab_new(a);
  enum { N = 3000 };
  const char *first[N];
  char text[32];
  for (int i = 0; i < N; i++) {
    int n = snprintf(text, sizeof text, "name%d", i);
    first[i] = strtab_intern(t, text, (size_t)n);
    cr_assert_str_eq(first[i], text);
  }
  for (int i = 0; i < N; i++) {
    snprintf(text, sizeof text, "name%d", i);
    cr_assert_eq(strtab_str(t, text), first[i], "%s moved", text);
    cr_assert(i == 0 || first[i] != first[i - 1]);
  }
  const char *with_nul = strtab_intern(t, "a\0b", 3);
  cr_assert_neq(with_nul, strtab_intern(t, "a", 1));
  cr_assert_neq(with_nul, strtab_intern(t, "a\0c", 3));
  cr_assert_eq(with_nul, strtab_intern(t, "a\0b", 3));
  cr_assert_eq(memcmp(with_nul, "a\0b", 4), 0);
  cr_assert_eq(strtab_intern(t, "", 0), strtab_str(t, ""));
  arena_free(a);
}

Test(base, text_buffers_grow) {
  arena *a = arena_new();
  textbuf b;
  text_init(&b, a);
  cr_assert_str_eq(b.at, "");
  char wanted[20000] = "";
  size_t n = 0;
  for (int i = 0; i < 2000; i++) {
    n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%d,", i);
    if (i % 3 == 0)
      text_printf(&b, "%d,", i);
    else {
      text_str(&b, arena_printf(a, "%d", i));
      text_char(&b, ',');
    }
    cr_assert_eq(b.n, n);
  }
  cr_assert_str_eq(b.at, wanted);
  text_printf(&b, "%s", wanted);
  cr_assert_eq(b.n, 2 * n);
  cr_assert_str_eq(b.at + n, wanted);
  arena_free(a);
}

/* Test vectors of the FNV reference page (Noll), FNV-1a, 64 bits. */
Test(base, hash_is_fnv_1a) {
  cr_assert_eq(hash_bytes(HASH_SEED, "", 0), UINT64_C(0xcbf29ce484222325));
  cr_assert_eq(hash_bytes(HASH_SEED, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
  cr_assert_eq(hash_bytes(HASH_SEED, "foobar", 6), UINT64_C(0x85944171f73967e8));
}

Test(base, panics_reach_the_innermost_guard_once) {
  volatile int inner = 0, outer = 0;
  base_guard a, b;
  base_guard_push(&a);
  if (setjmp(a.jump) == 0) {
    base_guard_push(&b);
    if (setjmp(b.jump) == 0) {
      base_panic("number %d", 1);
    } else {
      inner++;
      cr_assert_str_eq(b.message, "number 1");
      base_panic("number %d", 2);
    }
  } else {
    outer++;
    cr_assert_str_eq(a.message, "number 2");
  }
  base_guard_pop(&a);
  cr_assert_eq(inner, 1);
  cr_assert_eq(outer, 1);

  arena *memory = arena_new();
  base_guard_push(&a);
  if (setjmp(a.jump) == 0) arena_alloc(memory, SIZE_MAX - 8);
  cr_assert(strstr(a.message, "out of memory"), "message: %s", a.message);
  base_guard_pop(&a);
  arena_free(memory);
}

/* ---- sources -------------------------------------------------------------------------------------------------- */

Test(base, places_are_found_in_every_file_and_line_end) {
  static const struct {
    const char *text;
    uint32_t offset, len;
    int line, col, end_line, end_col;
  } cases[] = {
      {"", 0, 0, 1, 1, 1, 1},         {"ab", 2, 0, 1, 3, 1, 3},      {"a\nbc\n", 2, 2, 2, 1, 2, 3},
      {"a\nbc\n", 5, 0, 3, 1, 3, 1},  {"a\r\nbc", 3, 1, 2, 1, 2, 2}, {"a\rb", 2, 1, 2, 1, 2, 2},
      {"a\n\n\nb", 0, 5, 1, 1, 4, 2}, {"a\nb", 0, 2, 1, 1, 1, 3},    {"a\nb", 2, 100, 2, 1, 2, 2},
  };
  enum { N = sizeof cases / sizeof *cases };
  arena *a = arena_new();
  src_map *m = src_map_new(a);
  const src_file *files[N];
  for (int i = 0; i < N; i++) files[i] = src_add(m, arena_printf(a, "file%d", i), cases[i].text, strlen(cases[i].text));
  for (int i = 0; i < N; i++) {
    span s = {files[i]->base + cases[i].offset, cases[i].len};
    src_loc at;
    cr_assert(src_locate(m, s, &at), "case %d is nowhere", i);
    cr_assert_eq(at.file, files[i], "case %d is in %s", i, at.file->path);
    cr_assert(at.line == cases[i].line && at.col == cases[i].col && at.end_line == cases[i].end_line &&
                  at.end_col == cases[i].end_col,
              "case %d: %d:%d-%d:%d", i, at.line, at.col, at.end_line, at.end_col);
  }
  src_loc none;
  cr_assert_not(src_locate(m, (span){0, 3}, &none));
  cr_assert_not(src_locate(m, (span){files[N - 1]->base + 100, 0}, &none));
  size_t len;
  const char *line = src_line(files[4], 1, &len);
  cr_assert(len == 1 && line[0] == 'a', "a line ends before CR LF");
  cr_assert_null(src_add(m, "huge", "", UINT32_C(1) << 31));

  span x = {10, 5}, y = {30, 2};
  cr_assert(span_join(x, y).pos == 10 && span_join(x, y).len == 22);
  cr_assert(span_join(y, x).pos == 10 && span_join(y, x).len == 22);
  cr_assert(span_join((span){0, 0}, y).pos == 30 && span_join(x, (span){0, 9}).len == 5);
  arena_free(a);
}

/* ---- diagnostics ---------------------------------------------------------------------------------------------- */

static const diag_desc an_error = {"bad_thing", DIAG_ERROR, "bad %s"};
static const diag_desc a_warning = {"odd_thing", DIAG_WARNING, "odd %d"};

Test(base, sinks_count_drop_and_limit) {
  arena *a = arena_new();
  diag_sink s;
  diag_sink_init(&s, a, src_map_new(a));
  diag_note(diag_add(&s, (span){1, 2}, &an_error, "x"), (span){0}, "first");
  diag_note(diag_add(&s, (span){1, 2}, &an_error, "x"), (span){0}, "again");
  diag_add(&s, (span){1, 3}, &an_error, "x");
  diag_add(&s, (span){1, 2}, &an_error, "y");
  cr_assert_eq(s.n_errors, 3, "the same diagnostic counts once");
  cr_assert_null(s.first->remarks->next, "a note on a dropped diagnostic is dropped");
  diag_add(&s, (span){0}, &a_warning, 1);
  cr_assert_eq(s.n_warnings, 1);
  VEC_PUSH(a, s.off, "odd-thing");
  diag_add(&s, (span){0}, &a_warning, 2);
  cr_assert_eq(s.n_warnings, 1, "a warning that is off");
  s.off.n = 0;
  s.warnings_error = true;
  cr_assert_eq(diag_add(&s, (span){0}, &a_warning, 3)->severity, DIAG_ERROR);
  cr_assert_eq(s.n_errors, 4);
  s.max_errors = 5;
  diag *last = s.last;
  for (int i = 0; i < 1000; i++) diag_add(&s, (span){5, (uint32_t)i}, &an_error, "many");
  cr_assert_eq(s.n_errors, 1004);
  cr_assert_eq(last->next, s.last, "one more was kept");

  diag_sink_init(&s, a, src_map_new(a));
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < 20000; i++) diag_add(&s, (span){i, 1}, &an_error, "z");
  cr_assert_eq(s.n_errors, 20000);
  arena_free(a);
}

static const char *render(arena *a, const char *text, span at, const char *message, diag_style style, bool colour) {
  src_map *m = src_map_new(a);
  diag_sink s;
  diag_sink_init(&s, a, m);
  const src_file *f = src_add(m, "dir/k.tk", text, strlen(text));
  diag_add(&s, (span){f->base + at.pos, at.len}, &an_error, message);
  textbuf b;
  text_init(&b, a);
  diag_render(&s, style, colour, &b);
  return b.at;
}

Test(base, carets_stand_under_the_span) {
  static const struct {
    const char *text;
    span at; /* from the start of the text */
    const char *lines;
  } cases[] = {
      {"abc def", {4, 3}, "    1 | abc def\n      |     ^^^\n"},
      {"abc", {3, 0}, "    1 | abc\n      |    ^\n"},
      {"\tab\tc", {1, 4}, "    1 |         ab      c\n      |         ^^^^^^^^^\n"},
      {"\xc3\xa9\xc3\xa9 x", {5, 1}, "    1 | \xc3\xa9\xc3\xa9 x\n      |    ^\n"},
      {"\xe4\xb8\xad x", {4, 1}, "    1 | \xe4\xb8\xad x\n      |    ^\n"},
      {"a\xff\x1b[1m b", {7, 1}, "    1 | a\\xff\\x1b[1m b\n      |              ^\n"},
      {"ab\n  cd\nef", {1, 8}, "    1 | ab\n      |  ^\n    2 |   cd\n      |   ^^\n    3 | ef\n      | ^\n"},
      {"ab\n\ncd", {0, 6}, "    1 | ab\n      | ^^\n    3 | cd\n      | ^^\n"},
      {"a\nb\nc\nd\ne\nf\ng\nh",
       {0, 15},
       "    1 | a\n      | ^\n    2 | b\n      | ^\n    3 | c\n      | ^\n    4 | d\n      | ^\n  ... |\n    8 | h\n"
       "      | ^\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    arena *a = arena_new();
    const char *got = strchr(render(a, cases[i].text, cases[i].at, "x", DIAG_TEXT, false), '\n') + 1;
    cr_expect_str_eq(got, cases[i].lines, "case %zu:\n%s", i, got);
    arena_free(a);
  }
}

Test(base, long_lines_are_shown_in_part) {
  arena *a = arena_new();
  char *text = arena_alloc(a, 100001);
  memset(text, 'x', 100000);
  text[50000] = 'Y';
  const char *got = render(a, text, (span){50000, 1}, "x", DIAG_TEXT, false);
  cr_assert_lt(strlen(got), 700);
  const char *source = strstr(got, "1 | "), *carets = strstr(source, "      | ");
  cr_assert_eq(strchr(source, 'Y') - source - 4, strchr(carets, '^') - carets - 8, "caret under Y:\n%s", got);
  arena_free(a);
}

Test(base, one_line_and_colour_forms) {
  arena *a = arena_new();
  cr_assert_str_eq(render(a, "a\nbc", (span){3, 1}, "new\nline \x1b", DIAG_LINE, false),
                   "dir/k.tk:2:2: error: bad new\\nline \\x1b [bad_thing]\n");
  const char *coloured = render(a, "ab", (span){0, 1}, "x", DIAG_TEXT, true);
  cr_assert(strstr(coloured, "\033[1;31merror:\033[0m bad x [bad_thing]"), "%s", coloured);
  cr_assert_null(strchr(render(a, "ab", (span){0, 1}, "x", DIAG_TEXT, false), '\033'));
  arena_free(a);
}

Test(base, json_survives_every_byte) {
  arena *a = arena_new();
  src_map *m = src_map_new(a);
  diag_sink s;
  diag_sink_init(&s, a, m);
  textbuf empty;
  text_init(&empty, a);
  diag_render(&s, DIAG_JSON, false, &empty);
  cr_assert_str_eq(empty.at, "[]\n");

  const src_file *f = src_add(m, "k\"\\\n.tk", "abc\ndef", 7);
  for (int c = 1; c < 256; c++) {
    char message[3] = {(char)c, 'z', 0};
    diag *d = diag_add(&s, (span){f->base + 5, 1}, &an_error, message);
    if (c == 'q') diag_fix(d, (span){f->base, 3}, "fix %d", 7);
  }
  textbuf b;
  text_init(&b, a);
  diag_render(&s, DIAG_JSON, false, &b);
  for (size_t i = 0; i < b.n; i++) cr_assert((unsigned char)b.at[i] < 0x80, "all bytes here are escaped or replaced");
  cJSON *list = cJSON_Parse(b.at);
  cr_assert_not_null(list, "cJSON cannot read it");
  cr_assert_eq(cJSON_GetArraySize(list), 255);
  int c = 1;
  cJSON *x;
  cJSON_ArrayForEach(x, list) {
    const char *message = cJSON_GetObjectItem(x, "message")->valuestring;
    char wanted[16];
    if (c < 0x80)
      snprintf(wanted, sizeof wanted, "bad %cz", c);
    else
      snprintf(wanted, sizeof wanted, "bad \xef\xbf\xbdz");
    cr_assert_str_eq(message, wanted);
    cr_assert_eq(cJSON_GetObjectItem(x, "line")->valueint, 2);
    cr_assert_eq(cJSON_GetObjectItem(x, "column")->valueint, 2);
    cr_assert_eq(cJSON_GetObjectItem(x, "offset")->valueint, 5);
    cr_assert_str_eq(cJSON_GetObjectItem(x, "path")->valuestring, "k\"\\\n.tk");
    cJSON *remarks = cJSON_GetObjectItem(x, "remarks");
    cr_assert_eq(cJSON_GetArraySize(remarks), c == 'q');
    if (c == 'q') cr_assert_str_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(remarks, 0), "kind")->valuestring, "help");
    c++;
  }
  cJSON_Delete(list);
  arena_free(a);
}
