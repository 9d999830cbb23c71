/* The artefact's metadata: what is written reads back; what is broken is refused with a place; no bytes hurt. */
#include "runtime/artifact.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof *(a)))

static tk_artifact_param params[] = {
    {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .is_const = true, .divisible = 16, .passed = true},
    {.name = "out", .kind = TK_PARAM_POINTER, .dtype = TK_bf16, .divisible = 1, .passed = true},
    {.name = "n", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 16, .passed = true},
    {.name = "stride", .kind = TK_PARAM_SCALAR, .dtype = TK_i64, .divisible = 1, .equals_one = true},
    {.name = "BIG", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = INT64_MIN}},
    {.name = "EPS", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_FLOAT, .f = 0.1}},
    {.name = "INF", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_FLOAT, .f = -INFINITY}},
    {.name = "NAN", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_FLOAT, .f = NAN}},
    {.name = "ON", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_BOOL, .i = 1}},
    {.name = "ACT",
     .kind = TK_PARAM_CONSTEXPR,
     .divisible = 1,
     .value = {.kind = TK_CONSTANT_STRING, .text = "a\"b\\\n\xc3\xa9"}},
    {.name = "T", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_DTYPE, .text = "f16"}},
    {.name = "BIAS", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_NONE}},
    {.name = "F", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_OTHER, .text = "relu"}},
    {.name = "d",
     .kind = TK_PARAM_DESCRIPTOR,
     .dtype = TK_f16,
     .divisible = 16,
     .passed = true,
     .rank = 5,
     .block = {1, 2, 4, 1 << 10, 8},
     .pads_nan = true},
};

static tk_artifact_map maps[] = {{"x", "tf32", 2, "n, 4 * n", "1, stride", {32, 256}, 128},
                                 {"d", "f16", 2, "d.shape[4], d.shape[3]", "1, d.stride(3)", {8, 2}, 32},
                                 {"out", "bf16", 5, "n, n, 1, BIG, n", "1, n, n, n, n", {8, 1, 1, 2, 16}, 0}};

static tk_artifact_kernel kernels[] = {
    {.name = "add",
     .num_warps = 4,
     .num_stages = 3,
     .num_ctas = 1,
     .gang = 3,
     .shared_bytes = 1024,
     .dynamic_shared_bytes = 65536,
     .grid = "cdiv(n, BIG)",
     .n_params = N(params),
     .params = params,
     .producer_warps = 12,
     .n_maps = N(maps),
     .maps = maps,
     .persistent = true},
    {.name = "empty", .num_warps = 32, .num_stages = 1, .num_ctas = 2, .gang = 1},
};

static const tk_artifact whole = {.source = "add.tk",
                                  .source_hash = 0x0123456789abcdef,
                                  .arch = "sm_90a",
                                  .ptx_version = 80,
                                  .n_kernels = N(kernels),
                                  .kernels = kernels};

static char *written(const tk_artifact *a) {
  char *text;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(a, &text, &e), "%s", e.message);
  return text;
}

Test(artifact, text_is_what_the_header_shows) {
  tk_artifact_param p[] = {
      {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .is_const = true, .divisible = 16, .passed = true},
      {.name = "n", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .equals_one = true},
      {.name = "BLOCK", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = 1024}}};
  tk_artifact_map m = {"x", "f32", 2, "n, 4", "1, n", {16, 4}, 64};
  tk_artifact_kernel k = {.name = "add",
                          .num_warps = 4,
                          .num_stages = 3,
                          .num_ctas = 1,
                          .gang = 2,
                          .grid = "n",
                          .n_params = 3,
                          .params = p,
                          .producer_warps = 1,
                          .n_maps = 1,
                          .maps = &m,
                          .persistent = true};
  tk_artifact a = {
      .source = "v.tk", .source_hash = 0x1f, .arch = "sm_75", .ptx_version = 63, .n_kernels = 1, .kernels = &k};
  char *text = written(&a);
  cr_assert_str_eq(
      text,
      "// tkc 5 {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":1}\n"
      "// tkc kernel {\"name\":\"add\",\"warps\":4,\"producer_warps\":1,\"stages\":3,\"ctas\":1,\"shared\":0,"
      "\"dynamic_shared\":0,\"grid\":\"n\",\"params\":3,\"maps\":1,\"persistent\":true,\"gang\":2}\n"
      "// tkc param {\"name\":\"x\",\"kind\":\"pointer\",\"dtype\":\"f32\",\"const\":true,\"divisible\":16}\n"
      "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\",\"equals_one\":true,\"passed\":false}\n"
      "// tkc param {\"name\":\"BLOCK\",\"kind\":\"constexpr\",\"type\":\"int\",\"value\":\"1024\"}\n"
      "// tkc map {\"param\":\"x\",\"dtype\":\"f32\",\"sizes\":\"n, 4\",\"strides\":\"1, n\",\"box\":\"16, 4\","
      "\"swizzle\":64}\n");
  free(text);
}

Test(artifact, reads_back) {
  char *text = written(&whole);
  tk_artifact *a;
  tk_artifact_error e;
  size_t n = strlen(text);
  char *file = malloc(n + 32); /* no NUL behind the file: the sanitizer would see a read past its length */
  memcpy(file, text, n);
  memcpy(file + n, ".version 8.0 is not looked at...", 32);
  cr_assert(tk_artifact_parse(file, n + 32, &a, &e), "%d:%d: %s", e.line, e.column, e.message);
  char *again = written(a);
  cr_assert_str_eq(again, text);

  cr_assert_str_eq(a->source, "add.tk");
  cr_assert_eq(a->source_hash, whole.source_hash);
  cr_assert_eq(a->ptx_version, 80);
  cr_assert_eq(a->n_kernels, 2);
  const tk_artifact_kernel *k = tk_artifact_find(a, "add");
  cr_assert(k && !tk_artifact_find(a, "ad"));
  cr_assert_eq(k->dynamic_shared_bytes, 65536);
  cr_assert_str_eq(k->grid, "cdiv(n, BIG)");
  cr_assert_eq(k->n_params, N(params));
  cr_assert(k->params[0].is_const && k->params[0].divisible == 16 && k->params[0].dtype == TK_f32);
  cr_assert(!k->params[3].passed && k->params[3].equals_one);
  cr_assert_eq(k->params[4].value.i, INT64_MIN);
  cr_assert_eq(k->params[5].value.f, 0.1);
  cr_assert(isinf(k->params[6].value.f) && k->params[6].value.f < 0 && isnan(k->params[7].value.f));
  cr_assert_str_eq(k->params[9].value.text, "a\"b\\\n\xc3\xa9");
  cr_assert(k->persistent);
  cr_assert(tk_artifact_threads(k) == 32 * 24 && k->n_maps == 3 && k->maps[2].rank == 5 && k->maps[2].box[4] == 16);
  const tk_artifact_param *d = &k->params[N(params) - 1];
  cr_assert(d->kind == TK_PARAM_DESCRIPTOR && d->rank == 5 && d->block[3] == 1024 && d->divisible == 16 &&
            d->pads_nan && tk_artifact_n_passed(d) == 10);
  cr_assert(tk_artifact_passed_bytes(d, 0) == 8 && tk_artifact_passed_bytes(d, 1) == 4 &&
            tk_artifact_passed_bytes(d, 5) == 4 && tk_artifact_passed_bytes(d, 6) == 8);
  cr_assert_str_eq(k->maps[0].sizes, "n, 4 * n");
  tk_dtype t;
  bool is_tf32;
  cr_assert(tk_artifact_map_dtype(&k->maps[0], &t, &is_tf32) && t == TK_f32 && is_tf32);
  cr_assert(tk_artifact_map_dtype(&k->maps[2], &t, &is_tf32) && t == TK_bf16 && !is_tf32);
  free(again);
  free(file);
  free(text);
  tk_artifact_free(a);
}

Test(artifact, windows_line_ends) {
  char *text = written(&whole), *crlf = calloc(2, strlen(text) + 1), *q = crlf;
  for (char *p = text; *p; p++) {
    if (*p == '\n') *q++ = '\r';
    *q++ = *p;
  }
  tk_artifact *a;
  tk_artifact_error e;
  cr_assert(tk_artifact_parse(crlf, strlen(crlf), &a, &e), "%d:%d: %s", e.line, e.column, e.message);
  tk_artifact_free(a);
  free(crlf);
  free(text);
}

#define FILE_LINE FORMAT("1")
#define FORMAT(n)                                                                                         \
  "// tkc " n                                                                                             \
  " {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":1}" \
  "\n"
#define KERNEL(n)                                                                                                     \
  "// tkc kernel {\"name\":\"k\",\"warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,\"dynamic_shared\":0,\"params\":" n \
  "}\n"
#define PARAM "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\"}\n"

/* Format 2: a pointer `p` of f16 and the maps behind it. */
#define MAPPED(more)                                                                                                 \
  "// tkc 2 {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_90a\",\"ptx\":\"8.0\",\"kernels\":1}\n" \
  "// tkc kernel "                                                                                                   \
  "{\"name\":\"k\",\"warps\":8,\"stages\":3,\"ctas\":1,\"shared\":0,\"dynamic_shared\":0,\"params\":2," more         \
  "}\n"                                                                                                              \
  "// tkc param {\"name\":\"p\",\"kind\":\"pointer\",\"dtype\":\"f16\"}\n" PARAM
#define MAP(param, dtype, sizes, box, swizzle)                                     \
  "// tkc map {\"param\":\"" param "\",\"dtype\":\"" dtype "\",\"sizes\":\"" sizes \
  "\",\"strides\":\"1, 64\","                                                      \
  "\"box\":\"" box "\",\"swizzle\":" swizzle "}\n"

/* Format 4: one parameter, with what follows its dtype. */
#define DESCRIBED(more)                                                                                            \
  "// tkc 4 "                                                                                                      \
  "{\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":1}\n" KERNEL( \
      "1") "// tkc param {\"name\":\"d\",\"kind\":\"descriptor\",\"dtype\":\"f16\"" more "}\n"

static const struct {
  const char *text;
  int line, column;
  const char *says; /* a part of the message */
} broken[] = {
    {"", 1, 1, "does not begin"},
    {".version 8.0\n", 1, 1, "does not begin"},
    {"// tkc", 1, 1, "does not begin"},
    {"// tkc 0 {}\n", 1, 8, "format"},
    {"// tkc 6 {}\n", 1, 8, "it reads formats up to 5"},
    {"// tkc 10 {}\n", 1, 8, "format"},
    {"// tkc 1 ", 1, 10, "not JSON"},
    {"// tkc 1 {\"source\":}\n", 1, 20, "not JSON"},
    {"// tkc 1 [1]\n", 1, 10, "object"},
    {"// tkc 1 {} x\n", 1, 12, "follows"},
    {"// tkc 1 {}\n", 1, 10, "\"source\" is missing"},
    {"// tkc 1 {\"source\":7}\n", 1, 11, "must be a string"},
    {"// tkc 1 {\"source\":\"a\x01\"}\n", 1, 22, "control"},
    {"// tkc 1 {\"source\":\"a\\u0000\"}\n", 1, 22, "control"},
    {"// tkc 1 "
     "{\"source\":\"d/v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":0}\n",
     1, 10, "directory"},
    {"// tkc 1 {\"source\":\"v.tk\",\"hash\":\"000000000000001F\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":0}\n",
     1, 27, "hexadecimal"},
    {"// tkc 1 {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"gfx9\",\"ptx\":\"6.3\",\"kernels\":0}\n",
     1, 10, "architecture"},
    {"// tkc 1 {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.30\",\"kernels\":0}\n",
     1, 68, "like 8.0"},
    {"// tkc 1 {\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":-1}\n",
     1, 10, "outside"},
    {"// tkc 1 "
     "{\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":1e99}\n",
     1, 80, "integer"},
    {"// tkc 1 "
     "{\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":0,\"x\":1}\n",
     1, 92, "unknown"},
    {"// tkc 1 "
     "{\"source\":\"v.tk\",\"hash\":\"000000000000001f\",\"arch\":\"sm_75\",\"ptx\":\"6.3\",\"kernels\":0,\"ptx\":\"1."
     "0\"}\n",
     1, 68, "repeated"},
    {FILE_LINE, 2, 1, "expected a kernel"},
    {FILE_LINE ".version", 2, 1, "expected a kernel"},
    {FILE_LINE KERNEL("1"), 3, 1, "expected a parameter"},
    {FILE_LINE KERNEL("1") KERNEL("0"), 3, 1, "expected a parameter"},
    {FILE_LINE KERNEL("513"), 2, 15, "parameters is 513"},
    {FILE_LINE KERNEL("0.5"), 2, 87, "integer"},
    {FILE_LINE KERNEL("2") PARAM PARAM, 4, 14, "two parameters"},
    {FILE_LINE "// tkc kernel "
               "{\"name\":\"k\",\"warps\":3,\"stages\":3,\"ctas\":1,\"shared\":0,\"dynamic_shared\":0,\"params\":0}\n",
     2, 15, "power of two"},
    {FILE_LINE "// tkc kernel "
               "{\"name\":\"\",\"warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,\"dynamic_shared\":0,\"params\":0}\n",
     2, 15, "empty"},
    {FILE_LINE "// tkc kernel "
               "{\"name\":\"k\",\"warps\":4,\"stages\":3,\"ctas\":1,\"shared\":0,\"dynamic_shared\":0,\"grid\":\"\","
               "\"params\":0}\n",
     2, 15, "grid"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"tile\"}\n", 3, 26, "unknown kind"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"scalar\"}\n", 3, 14, "\"dtype\" is missing"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i33\"}\n", 3, 42,
     "unknown dtype"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\",\"divisible\":12}\n", 3,
     14, "power of two"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\",\"passed\":false}\n", 3,
     14, "not passed"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"scalar\",\"dtype\":\"i32\",\"const\":true}\n", 3,
     14, "const"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"pointer\",\"dtype\":\"i32\",\"equals_one\":true}\n",
     3, 14, "folded"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"pointer\",\"dtype\":\"i32\",\"const\":\"yes\"}\n",
     3, 57, "true or false"},
    {FILE_LINE KERNEL(
         "1") "// tkc param "
              "{\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"int\",\"value\":\"9223372036854775808\"}\n",
     3, 58, "no int"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"int\",\"value\":\" 7\"}\n",
     3, 58, "no int"},
    {FILE_LINE KERNEL(
         "1") "// tkc param {\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"float\",\"value\":\"1.5x\"}\n",
     3, 60, "no float"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"bool\",\"value\":\"1\"}\n",
     3, 59, "no bool"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"none\",\"value\":\"\"}\n", 3,
     59, "no none"},
    {FILE_LINE KERNEL(
         "1") "// tkc param "
              "{\"name\":\"n\",\"kind\":\"constexpr\",\"type\":\"int\",\"value\":\"7\",\"dtype\":\"i32\"}\n",
     3, 70, "unknown or repeated"},
    {FILE_LINE KERNEL("0,\"maps\":0"), 2, 98, "unknown or repeated key \"maps\""}, /* format 1 had none */
    {FILE_LINE KERNEL("0,\"producer_warps\":4"), 2, 98, "unknown or repeated key \"producer_warps\""},
    {MAPPED("\"persistent\":true"), 2, 98, "unknown or repeated key \"persistent\""}, /* nor had format 2 */
    {FORMAT("4") KERNEL("0,\"persistent\":true,\"gang\":2"), 2, 116, "unknown or repeated key \"gang\""},
    {FORMAT("5") KERNEL("0,\"gang\":2"), 2, 15, "'k' has a gang, but is not persistent"},
    {FORMAT("5") KERNEL("0,\"persistent\":true,\"gang\":9"), 2, 15, "gang is 9, outside 1 .. 8"},
    {FORMAT("5") KERNEL("0,\"persistent\":true,\"gang\":0"), 2, 15, "gang is 0, outside 1"},
    {MAPPED("\"producer_warps\":25"), 2, 15, "producer_warps is 25, outside 0 .. 24"},
    {MAPPED("\"producer_warps\":-1"), 2, 15, "producer_warps is -1"},
    {MAPPED("\"maps\":17"), 2, 15, "tensor maps is 17"},
    {MAPPED("\"maps\":1"), 5, 1, "expected a tensor map"},
    {MAPPED("\"maps\":1") PARAM, 5, 1, "expected a tensor map"},
    {MAPPED("\"maps\":1") MAP("q", "f16", "n, n", "64, 8", "128"), 5, 12, "no such pointer parameter"},
    {MAPPED("\"maps\":1") MAP("n", "i32", "n, n", "64, 8", "128"), 5, 12, "no such pointer parameter"},
    {MAPPED("\"maps\":1") MAP("p", "f17", "n, n", "64, 8", "128"), 5, 12, "unknown dtype \"f17\""},
    {MAPPED("\"maps\":1") MAP("p", "tf32", "n, n", "32, 8", "128"), 5, 12, "elements of 4 bytes, the parameter of 2"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "", "64, 8", "128"), 5, 12, "lacks its sizes"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "", "128"), 5, 72, "a box has 1 to 5 extents"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "64,", "128"), 5, 72, "a box has 1 to 5 extents"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "8, 8, 1, 1, 1, 1", "0"), 5, 72, "a box has 1 to 5 extents"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "64, 99999999999", "128"), 5, 72, "a box has 1 to 5 extents"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "64, 257", "128"), 5, 12, "extent is 257, outside 1 .. 256"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "64, 0", "128"), 5, 12, "extent is 0"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "64, 8", "16"), 5, 12, "swizzle of 'p' is 16"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "72, 8", "128"), 5, 12, "has 144 bytes"},
    {MAPPED("\"maps\":1") MAP("p", "f16", "n, n", "4, 8", "0"), 5, 12, "has 8 bytes"},
    {MAPPED("\"maps\":1") "// tkc map {\"param\":\"p\",\"dtype\":\"f16\",\"sizes\":\"n\",\"box\":\"8\"}\n", 5, 12,
     "\"strides\" is missing"},
    {FILE_LINE KERNEL("1") "// tkc param {\"name\":\"d\",\"kind\":\"descriptor\"}\n", 3, 26,
     "unknown kind"}, /* format 1 */
    {DESCRIBED(""), 3, 14, "\"block\" is missing"},
    {DESCRIBED(",\"block\":\"\""), 3, 60, "a block has 1 to 5 extents"},
    {DESCRIBED(",\"block\":\"1, 1, 1, 1, 1, 8\""), 3, 60, "a block has 1 to 5 extents"},
    {DESCRIBED(",\"block\":\"48, 64\""), 3, 14, "extent 48, not a power of two"},
    {DESCRIBED(",\"block\":\"64, 4\""), 3, 14, "has less than 16 bytes"},
    {DESCRIBED(",\"passed\":false,\"block\":\"8\""), 3, 14, "another kind of parameter"},
    {DESCRIBED(",\"block\":\"8\",\"nan\":1"), 3, 72, "must be true or false"},
    {DESCRIBED(",\"divisible\":12,\"block\":\"8\""), 3, 14, "not a power of two"},
};

Test(artifact, broken_text_is_refused_with_its_place) {
  for (int i = 0; i < N(broken); i++) {
    tk_artifact *a;
    tk_artifact_error e;
    size_t n = strlen(broken[i].text);
    char *exact = malloc(n ? n : 1);
    memcpy(exact, broken[i].text, n);
    cr_assert(!tk_artifact_parse(exact, n, &a, &e) && !a, "case %d was accepted", i);
    cr_expect(e.line == broken[i].line && e.column == broken[i].column && strstr(e.message, broken[i].says),
              "case %d: %d:%d: %s\n  in: %s", i, e.line, e.column, e.message, broken[i].text);
    free(exact);
  }
}

Test(artifact, a_long_line_is_refused) {
  size_t n = TK_ARTIFACT_MAX_LINE + 100;
  char *text = malloc(n);
  memset(text, '[', n);
  memcpy(text, "// tkc 1 ", 9);
  tk_artifact *a;
  tk_artifact_error e;
  cr_assert(!tk_artifact_parse(text, n, &a, &e));
  cr_assert(strstr(e.message, "longer than"), "%s", e.message);
  cr_assert(!tk_artifact_parse(text, 60000, &a, &e)); /* deep nesting inside the limit */
  cr_assert(strstr(e.message, "not JSON"), "%s", e.message);
  free(text);
}

/* Every prefix, every flip of one bit, and bytes at random: refused or read, never a fault. What is read writes back.
 */
static void survive(const char *bytes, size_t n) {
  tk_artifact *a;
  tk_artifact_error e;
  char *exact = malloc(n ? n : 1);
  memcpy(exact, bytes, n);
  if (tk_artifact_parse(exact, n, &a, &e)) {
    free(written(a));
  } else {
    cr_assert(a == NULL && e.message[0] && e.line >= 1 && e.column >= 1, "%d:%d: %s", e.line, e.column, e.message);
  }
  tk_artifact_free(a);
  free(exact);
}

Test(artifact, hostile_bytes) {
  char *text = written(&whole);
  size_t n = strlen(text);
  for (size_t i = 0; i < n; i++) {
    survive(text, i);
    for (int bit = 0; bit < 8; bit++) {
      text[i] = (char)(text[i] ^ (1 << bit));
      survive(text, n);
      text[i] = (char)(text[i] ^ (1 << bit));
    }
  }
  free(text);
  uint64_t state = 1;
  for (int round = 0; round < 2000; round++) {
    char bytes[96] = "// tkc 5 {";
    for (size_t i = round % 2 ? 10 : 0; i < sizeof bytes; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes[i] = (char)(state >> 56);
    }
    survive(bytes, sizeof bytes);
  }
}

Test(artifact, writer_refuses_what_the_reader_would) {
  static const struct {
    tk_artifact_param p;
    const char *says;
  } bad[] = {
      {{.name = "", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true}, "empty"},
      {{.name = "a\nb", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true}, "control"},
      {{.name = "a", .kind = TK_PARAM_SCALAR, .divisible = 1, .passed = true}, "no dtype"},
      {{.name = "a", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 0, .passed = true}, "power of two"},
      {{.name = "a", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1}, "not passed"},
      {{.name = "a", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true, .rank = 1}, "block"},
      {{.name = "a", .kind = TK_PARAM_DESCRIPTOR, .dtype = TK_i32, .divisible = 1, .passed = true}, "rank"},
      {{.name = "a",
        .kind = TK_PARAM_DESCRIPTOR,
        .dtype = TK_i32,
        .divisible = 1,
        .passed = true,
        .rank = 1,
        .block = {8},
        .pads_nan = true},
       "pads i32 with NaN"},
      {{.name = "a", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .passed = true}, "run-time"},
      {{.name = "a", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_STRING}}, "text"},
  };
  for (int i = 0; i < N(bad); i++) {
    tk_artifact_param p = bad[i].p;
    tk_artifact_kernel k = {
        .name = "k", .num_warps = 4, .num_stages = 3, .num_ctas = 1, .gang = 1, .n_params = 1, .params = &p};
    tk_artifact a = {.source = "v.tk", .arch = "sm_75", .ptx_version = 63, .n_kernels = 1, .kernels = &k};
    char *text;
    tk_artifact_error e;
    cr_assert(!tk_artifact_write(&a, &text, &e) && !text, "case %d", i);
    cr_assert(strstr(e.message, bad[i].says), "case %d: %s", i, e.message);
  }
}

Test(artifact, writer_refuses_maps_that_the_reader_would) {
  static const tk_artifact_map bad[] = {
      {"n", "i32", 1, "n", "1", {4}, 0},       {"x", NULL, 1, "n", "1", {4}, 0},   {"x", "f32", 0, "n", "1", {4}, 0},
      {"x", "f32", 6, "n", "1", {4}, 0},       {"x", "f32", 1, NULL, "1", {4}, 0}, {"x", "f32", 1, "n", "", {4}, 0},
      {"x", "f32", 2, "n, n", "1, n", {4}, 0}, {NULL, "f32", 1, "n", "1", {4}, 0}, {"x", "f32", 1, "n", "1", {3}, 0}};
  for (int i = 0; i < N(bad); i++) {
    tk_artifact_map m = bad[i];
    tk_artifact_kernel k = kernels[0];
    tk_artifact a = whole;
    char *text;
    tk_artifact_error e;
    k.n_maps = 1;
    k.maps = &m;
    a.n_kernels = 1;
    a.kernels = &k;
    cr_assert(!tk_artifact_write(&a, &text, &e) && !text && *e.message, "case %d", i);
  }
}

Test(artifact, a_launch_has_a_bounded_number_of_values) {
  tk_artifact_param many[TK_ARTIFACT_MAX_PARAMS / 10 + 1];
  char names[N(many)][8];
  for (int i = 0; i < N(many); i++) {
    many[i] = params[N(params) - 1];
    snprintf(names[i], sizeof names[i], "d%d", i);
    many[i].name = names[i];
  }
  for (int n = N(many) - 1; n <= N(many); n++) {
    tk_artifact_kernel k = {
        .name = "k", .num_warps = 4, .num_stages = 3, .num_ctas = 1, .gang = 1, .n_params = n, .params = many};
    tk_artifact a = {.source = "v.tk", .arch = "sm_75", .ptx_version = 63, .n_kernels = 1, .kernels = &k};
    char *text;
    tk_artifact_error e;
    bool good = tk_artifact_write(&a, &text, &e);
    cr_assert(good == (n < N(many)) && (good || strstr(e.message, "values of a launch is 520")), "%s", e.message);
    free(text);
  }
}

Test(artifact, dtypes) {
  for (int t = TK_NO_DTYPE + 1; t < TK_N_DTYPES; t++) {
    tk_dtype back;
    const char *name = tk_dtype_name((tk_dtype)t);
    cr_assert(tk_dtype_parse(name, strlen(name), &back) && back == (tk_dtype)t && tk_dtype_bytes(back) >= 1);
  }
  tk_dtype none;
  cr_assert(!tk_dtype_parse("f3", 2, &none) && !tk_dtype_parse("", 0, &none));
  cr_assert_str_eq(tk_dtype_name((tk_dtype)99), "?");
}
