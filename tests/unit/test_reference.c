/* What is shown to readers specialises: the code blocks of lang/README.md (a block is marked ```tk; `signature:` behind
 * it binds what has no type), and the examples, those in Triton's surface as they are. */
#include <criterion/criterion.h>
#include <string.h>

#include "lang/lang.h"
#include "tests/test.h"

static void check_block(arena *a, const char *path, const char *text, size_t len, const char *signature) {
  src_map *sources = src_map_new(a);
  diag_sink sink;
  diag_sink_init(&sink, a, sources);
  tir_cx *cx = tir_cx_new(a, strtab_new(a));
  lang_unit *u = lang_load(cx, &sink, sources, path, text, len);
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
    check_block(a, "lang/README.md", body, (size_t)(end - body) + 1, signature ? signature + strlen(word) : "");
    p = end + 1;
  }
  cr_assert_geq(n, 5);
  arena_free(a);
}

Test(reference, examples_specialise) {
  static const char *const examples[][2] = {
      {"examples/vector_add.tk", ""},
      {"examples/softmax.tk", ""},
      {"examples/layer_norm.tk", ""},
      {"examples/matmul.tk", "ACTIVATION=leaky_relu"},
      {"examples/vector_add_triton.py",
       "x_ptr=*fp32:16,y_ptr=*fp32:16,out_ptr=*fp32:16,n_elements=i32,BLOCK_SIZE=1024"},
      {"examples/softmax_triton.py",
       "output_ptr=*bf16,input_ptr=*bf16,input_row_stride=i32:16,output_row_stride=i32,n_rows=i32,n_cols=i32,BLOCK_"
       "SIZE=512"},
      {"examples/matmul_triton.py",
       "a_ptr=*f16:16,b_ptr=*f16:16,c_ptr=*f16,M=i32,N=i32,K=i32,stride_am=i32:16,stride_ak=i32:1,stride_bk=i32:16,"
       "stride_bn=i32:1,stride_cm=i32,stride_cn=i32:1,BLOCK_SIZE_M=64,BLOCK_SIZE_N=32,BLOCK_SIZE_K=16,GROUP_SIZE_M=8,"
       "ACTIVATION=''"},
      {"examples/matmul_descriptors_triton.py",
       "a=tensordesc<fp16[64, 32]>,b=tensordesc<fp16[32, 64]>,c=tensordesc<fp16[64, 64]>,M=i32,N=i32,K=i32,BM=64,BN=64,"
       "BK=32,GROUP=8,PROGRAMS=132"},
  };
  arena *a = arena_new();
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    size_t len;
    char *text = test_read_file(a, examples[i][0], &len);
    cr_assert_not_null(text, "%s cannot be read", examples[i][0]);
    check_block(a, examples[i][0], text, len, examples[i][1]);
  }
  arena_free(a);
}

Test(reference, first_configuration_gives_defaults) {
  static const char source[] =
      "@triton.autotune(configs=[triton.Config({'B': 4 * 16, 'S': 'x'}, num_warps=8), triton.Config({'B': 32})], "
      "key=[])\n"
      "@triton.jit\ndef k(x: '*fp32', B: tl.constexpr, S: tl.constexpr, T: tl.constexpr = 2):\n"
      "  tl.static_assert(B == 64 and S == 'x' and T == 2)\n  tl.store(x + tl.arange(0, B), 1.0)\n";
  arena *a = arena_new();
  check_block(a, "config.py", source, sizeof source - 1, "");
  arena_free(a);
}
