/* The code blocks of lang/README.md compile. A block is marked ```tk; `signature:` behind it binds what has no type. */
#include <criterion/criterion.h>
#include <string.h>

#include "lang/lang.h"
#include "tests/test.h"

static void check_block(arena *a, const char *text, size_t len, const char *signature) {
  src_map *sources = src_map_new(a);
  diag_sink sink;
  diag_sink_init(&sink, a, sources);
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  lang_unit *u = lang_load(cx, &sink, sources, "lang/README.md", text, len);
  cr_expect_gt(lang_n_kernels(u), 0, "a block without kernel:\n%.*s", (int)len, text);
  for (int i = 0; i < lang_n_kernels(u); i++) {
    const lang_kernel *k = lang_kernel_at(u, i);
    lang_binding *b = ARENA_ARRAY(a, lang_binding, k->n_params + 1);
    lang_bind_init(k, b);
    if (!lang_bind_signature(u, k, signature, b) || !lang_bind_finish(u, k, b)) continue;
    tir_fn *fn = lang_specialise(u, k, b, NULL, a);
    const char *broken = fn ? tir_verify(fn) : NULL;
    cr_expect_null(broken, "%s", broken);
  }
  textbuf said;
  text_init(&said, a);
  diag_render(&sink, DIAG_LINE, false, &said);
  cr_expect_eq(said.n, 0, "%s\nin\n%.*s", said.at, (int)len, text);
}

Test(reference, code_blocks_compile) {
  static const char fence[] = "\n```tk", word[] = "signature:";
  arena *a = arena_new();
  char *text = test_read_file(a, "lang/README.md", NULL);
  cr_assert_not_null(text, "lang/README.md cannot be read");
  int n = 0;
  for (char *p = text; (p = strstr(p, fence)) != NULL; n++) {
    char *line = p + strlen(fence), *body = strchr(line, '\n');
    cr_assert_not_null(body);
    *body++ = '\0';
    char *end = strstr(body, "\n```");
    cr_assert_not_null(end, "a block that does not end");
    const char *signature = strstr(line, word);
    check_block(a, body, (size_t)(end - body) + 1, signature ? signature + strlen(word) : "");
    p = end + 1;
  }
  cr_assert_geq(n, 5);
  arena_free(a);
}
