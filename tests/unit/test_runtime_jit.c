/* Kernels compiled for the arguments of a launch, with a compiler that only writes metadata: which signatures are asked
 * for, that each is compiled once, and what the CPU device hands to an interpreter. */
#include "runtime/internal.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runtime_checks.h"

/* ---- a compiler of metadata -------------------------------------------------------------------------------------- */

static struct {
  int compiled, interpreted;
  char signature[256], arch[16], define[64];
  tk__interpretation run; /* memory and args are copied below */
  tk__memory memory[8];
  uint64_t args[8];
  bool fault, refuse;
} saw;

static char *text_of(const char *s) {
  char *copy = malloc(strlen(s) + 1);
  return strcpy(copy, s);
}

static tk__declared_param params[] = {
    {.name = "x", .kind = TK_PARAM_SCALAR},
    {.name = "y", .kind = TK_PARAM_POINTER, .typed = true, .dtype = TK_f32, .is_const = true},
    {.name = "BLOCK", .kind = TK_PARAM_CONSTEXPR},
    {.name = "n", .kind = TK_PARAM_SCALAR},
    {.name = "m", .kind = TK_PARAM_SCALAR, .typed = true, .dtype = TK_i32},
    {.name = "s", .kind = TK_PARAM_SCALAR, .no_specialize = true},
};
static tk__declaration declaration = {"k", N(params), params};

static bool describe(const char *path, const char *text, size_t len, tk__declaration **out, int *n, char **why) {
  (void)path, (void)len;
  *out = &declaration;
  *n = 1;
  *why = NULL;
  if (strcmp(text, "broken") != 0) return true;
  *out = NULL;
  *why = text_of("k.tk:1:1: error: this is broken\n");
  return false;
}

static void forget(tk__declaration *d, int n) { cr_assert(d == &declaration && n == 1); }

/* Metadata of "x=*f32:16,y=*const f32,..." */
static bool compile(const tk__build *b, char **ptx, size_t *len, char **said, char **why) {
  tk_artifact_param p[8] = {0};
  tk_artifact_kernel k = {.name = "k", .num_warps = 4, .num_stages = 3, .num_ctas = 1, .gang = 1, .params = p};
  tk_artifact a = {.source = "k.tk", .arch = "sm_90a", .ptx_version = 80, .n_kernels = 1, .kernels = &k};
  tk_artifact_error e;
  char signature[256], *save = NULL;
  saw.compiled++;
  *said = *why = NULL;
  if (saw.refuse) {
    *why = text_of("k.tk:3:5: error: not today\n");
    return false;
  }
  snprintf(saw.signature, sizeof saw.signature, "%s", b->signature);
  snprintf(saw.arch, sizeof saw.arch, "%s", b->arch);
  if (b->options->n_defines) snprintf(saw.define, sizeof saw.define, "%s", b->options->defines[0]);
  snprintf(signature, sizeof signature, "%s", b->signature);
  for (char *item = strtok_r(signature, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
    tk_artifact_param *q = &p[k.n_params++];
    char *type = strchr(item, '='), *hint = strchr(item, ':');
    *type++ = '\0';
    if (hint) *hint++ = '\0';
    q->name = item;
    q->kind = *type == '*' ? TK_PARAM_POINTER : TK_PARAM_SCALAR;
    q->is_const = strstr(type, "const ") != NULL;
    type += strspn(type, "*") + (q->is_const ? 6 : 0);
    cr_assert(tk_dtype_parse(type, strlen(type), &q->dtype), "%s", b->signature);
    q->divisible = hint && strcmp(hint, "16") == 0 ? 16 : 1;
    q->equals_one = hint && strcmp(hint, "1") == 0;
    q->passed = !q->equals_one;
  }
  p[k.n_params++] = (tk_artifact_param){
      .name = "BLOCK", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = 64}};
  cr_assert(tk_artifact_write(&a, ptx, &e), "%s", e.message);
  *len = strlen(*ptx);
  return true;
}

static bool interpret(const tk__build *b, const tk__interpretation *run, bool *fault, char **why) {
  saw.interpreted++;
  saw.run = *run;
  memcpy(saw.memory, run->memory, sizeof *run->memory * (size_t)run->n_memory);
  memcpy(saw.args, run->args, sizeof *run->args * (size_t)run->n_args);
  snprintf(saw.signature, sizeof saw.signature, "%s", b->signature);
  *why = saw.fault ? text_of("k.tk:7:3: error: load outside of y\n") : NULL;
  *fault = saw.fault;
  if (run->print) run->print(run->user, "hello", 5);
  return !saw.fault;
}

static const tk_compiler metadata_compiler = {describe, forget, compile, interpret};

static tk_context *open_cpu(void) {
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu", .compiler = &metadata_compiler}));
  return cx;
}

static tk_kernel *load(tk_context *cx, const tk_load_options *o) {
  tk_module *m;
  tk_kernel *k;
  OK(cx, tk_module_load_text(cx, "dir/k.tk", "source", 6, o, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  tk_module_free(m);
  return k;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

Test(runtime_jit, signatures) {
  tk_context *cx = open_cpu();
  tk_buffer *x, *y;
  const char *define = "BLOCK=64";
  tk_kernel *k = load(cx, &(tk_load_options){.defines = &define, .n_defines = 1});
  OK(cx, tk_tensor_new(cx, TK_f16, 1, (int64_t[]){64}, &x));
  OK(cx, tk_buffer_new(cx, 256, &y));
  const struct {
    tk_arg x, y, n, m, s;
    const char *signature;
    bool fresh; /* not compiled before */
  } cases[] = {
      {tk_buf(x), tk_buf(y), tk_i32(5), tk_i32(5), tk_i32(5), "x=*f16:16,y=*const f32:16,n=i32,m=i32,s=i32", true},
      {tk_buf(x), tk_buf(y), tk_i32(7), tk_i32(9), tk_i32(1), "x=*f16:16,y=*const f32:16,n=i32,m=i32,s=i32", false},
      {tk_buf(x), tk_buf(y), tk_i32(1), tk_i32(1), tk_i32(16), "x=*f16:16,y=*const f32:16,n=i32:1,m=i32:1,s=i32", true},
      {tk_buf(x), tk_buf(y), tk_i32(32), tk_i32(0), tk_i32(16), "x=*f16:16,y=*const f32:16,n=i32:16,m=i32:16,s=i32",
       true},
      {tk_buf(x), tk_buf(y), tk_i32(-16), tk_i32(16), tk_i32(2), "x=*f16:16,y=*const f32:16,n=i32:16,m=i32:16,s=i32",
       false},
      {tk_buf_at(x, 2), tk_buf_at(y, 8), tk_i32(5), tk_i32(5), tk_i32(5), "x=*f16,y=*const f32,n=i32,m=i32,s=i32",
       true},
      {tk_buf(x), tk_buf(y), tk_int(5), tk_int(5), tk_int(5), "x=*f16:16,y=*const f32:16,n=i32,m=i32,s=i32", false},
      {tk_buf(x), tk_buf(y), tk_int(INT64_C(1) << 31), tk_int(5), tk_i64(5),
       "x=*f16:16,y=*const f32:16,n=i64:16,m=i32,s=i64", true},
      {tk_buf(x), tk_buf(y), tk_float(1), tk_int(5), tk_f64(16), "x=*f16:16,y=*const f32:16,n=f32,m=i32,s=f64", true},
      {tk_buf(x), tk_buf(y), tk_bool(true), tk_int(5), tk_u8(5), "x=*f16:16,y=*const f32:16,n=i1,m=i32,s=u8", true},
      {tk_i32(3), tk_buf(y), tk_buf(x), tk_int(5), tk_u8(5), "x=i32,y=*const f32:16,n=*f16:16,m=i32,s=u8", true},
  };
  for (int i = 0; i < N(cases); i++) {
    tk_arg args[] = {cases[i].x, cases[i].y, cases[i].n, cases[i].m, cases[i].s};
    int before = saw.compiled;
    OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID_EXPR("BLOCK + 1")}, args, N(args)));
    cr_expect(saw.compiled == before + cases[i].fresh, "case %d: %s", i, saw.signature);
    cr_expect_str_eq(saw.signature, cases[i].signature);
    cr_expect_eq(saw.run.grid[0], 65u);
  }
  cr_assert_str_eq(saw.define, "BLOCK=64");
  cr_assert_str_eq(saw.arch, tk_context_arch(cx));
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

static void keep_text(void *user, const char *text, size_t len) { snprintf(user, 16, "%.*s", (int)len, text); }

Test(runtime_jit, what_the_interpreter_gets) {
  tk_context *cx;
  tk_buffer *x, *y;
  char said[16] = "";
  tk_prepared *p;
  tk_options o = {.device = "cpu", .compiler = &metadata_compiler, .print = keep_text, .print_user = said};
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load(cx, NULL);
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){64}, &x));
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){32}, &y));
  OK(cx, tk_launch_prepare(k, &(tk_launch_opts){.grid = TK_GRID(2, 3)},
                           TK_ARGS(tk_buf(x), tk_buf_at(y, 8), tk_i32(1), tk_i32(-2), tk_f32(0.5f)), &p));
  cr_assert_eq(saw.interpreted, 0);
  OK(cx, tk_prepared_run(p));
  cr_assert(saw.interpreted == 1 && saw.run.grid[0] == 2 && saw.run.grid[1] == 3 && saw.run.grid[2] == 1);
  cr_assert(saw.run.n_memory == 2 && saw.memory[1].bytes == 128 &&
            saw.memory[1].data == (void *)(uintptr_t)tk_buffer_address(y));
  cr_assert_eq(saw.run.n_args, 4); /* n = 1 is folded */
  cr_assert(saw.args[0] == tk_buffer_address(x) && saw.args[1] == tk_buffer_address(y) + 8 &&
            (int64_t)saw.args[2] == -2 && saw.args[3] == 0x3f000000);
  cr_assert_str_eq(said, "hello");
  OK(cx, tk_prepared_set(p, 1, tk_buf(x))); /* the same memory twice is one piece of memory */
  OK(cx, tk_prepared_set(p, 2, tk_i32(3)));
  OK(cx, tk_prepared_run(p));
  cr_assert(saw.run.n_memory == 1 && saw.run.n_args == 5);
  saw.fault = true;
  FAILS(cx, TK_CHECK_FAILED, "k.tk:7:3: error: load outside of y", tk_prepared_run(p));
  tk_prepared_free(p);
  tk_kernel_attributes a;
  FAILS(cx, TK_UNSUPPORTED, "CPU", tk_kernel_attributes_get(k, &a));
  FAILS(cx, TK_UNSUPPORTED, "tk_buffer_wrap",
        tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)},
                  TK_ARGS(tk_buf(x), tk_ptr(4096), tk_i32(1), tk_i32(1), tk_i32(1))));
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_jit, refusals) {
  tk_context *cx = open_cpu();
  tk_module *m;
  tk_buffer *plain, *null = NULL;
  tk_kernel_attributes a;
  FAILS(cx, TK_COMPILE_ERROR, "k.tk:1:1: error: this is broken",
        tk_module_load_text(cx, "k.tk", "broken", 6, NULL, &m));
  tk_kernel *k = load(cx, NULL);
  OK(cx, tk_buffer_new(cx, 64, &plain));
  FAILS(cx, TK_NOT_READY, "first launch", tk_kernel_attributes_get(k, &a));
  const struct {
    tk_arg x, y, n, m;
    tk_status status;
    const char *says;
  } cases[] = {
      {tk_buf(plain), tk_buf(plain), tk_i32(1), tk_i32(1), TK_WRONG_ARGUMENT_TYPE,
       "argument 1 of 'k' (x) was given as buffer: its element type is not known"},
      {tk_ptr(64), tk_buf(plain), tk_i32(1), tk_i32(1), TK_WRONG_ARGUMENT_TYPE, "not known"},
      {tk_buf(null), tk_buf(plain), tk_i32(1), tk_i32(1), TK_WRONG_ARGUMENT_TYPE, "NULL"},
      {tk_i32(2), tk_i32(2), tk_i32(1), tk_i32(1), TK_WRONG_ARGUMENT_TYPE, "(y) was given as i32: it is a pointer"},
      {tk_i32(2), tk_buf(plain), tk_i32(1), tk_buf(plain), TK_WRONG_ARGUMENT_TYPE,
       "(m) was given as buffer: it is a scalar"},
      {tk_i32(2), tk_buf(plain), tk_i32(1), tk_f32(1), TK_WRONG_ARGUMENT_TYPE,
       "(m) was given as f32: it is an integer"},
      {tk_i32(2), tk_buf(plain), tk_i32(1), tk_i64(1), TK_WRONG_ARGUMENT_TYPE, "(m: i32) was given as i64"},
      {tk_i32(2), tk_buf(plain), tk_i32(1), tk_int(INT64_C(1) << 40), TK_WRONG_ARGUMENT_TYPE, "cannot hold"},
  };
  for (int i = 0; i < N(cases); i++) {
    tk_arg args[] = {cases[i].x, cases[i].y, cases[i].n, cases[i].m, tk_i32(1)};
    tk_status s = tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, args, N(args));
    cr_expect(s == cases[i].status && strstr(tk_error(cx), cases[i].says), "case %d: %s: %s", i, tk_status_name(s),
              tk_error(cx));
  }
  tk_arg args[] = {tk_i32(2), tk_buf(plain), tk_i32(1), tk_int(5), tk_i32(1)};
  FAILS(cx, TK_WRONG_ARGUMENT_COUNT, "takes 5, not 4", tk_launch(k, NULL, args, 4));
  saw.refuse = true;
  saw.compiled = 0;
  tk_launch_opts twice = {.grid = TK_GRID(1)};
  args[2] = tk_float(3);
  for (int i = 1; i <= 2; i++) {
    FAILS(cx, TK_COMPILE_ERROR, "k.tk:3:5: error: not today", tk_launch(k, &twice, args, 5));
    cr_assert_eq(saw.compiled, i);
  }
  tk_buffer_free(plain);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_jit, a_given_signature_is_compiled_once_at_load) {
  tk_context *cx = open_cpu();
  tk_buffer *b;
  tk_kernel *k = load(cx, &(tk_load_options){.signature = "x=*f32:16,y=*f32,n=i32:16,m=i32,s=i32:1"});
  OK(cx, tk_buffer_new(cx, 64, &b));
  cr_assert_eq(saw.compiled, 1);
  tk_launch_opts o = {.grid = TK_GRID(1)};
  OK(cx, tk_launch(k, &o, TK_ARGS(tk_buf(b), tk_buf_at(b, 4), tk_i32(32), tk_i32(3), tk_i32(1))));
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "(n: i32) must be a multiple of 16",
        tk_launch(k, &o, TK_ARGS(tk_buf(b), tk_buf_at(b, 4), tk_i32(33), tk_i32(3), tk_i32(1))));
  cr_assert_eq(saw.compiled, 1);
  tk_buffer_free(b);
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

static void *launch_some(void *user) {
  tk_kernel *k = user;
  for (int i = 0; i < 60; i++) {
    tk_arg args[] = {tk_i32(i % 3), tk_ptr(0), tk_int(i % 2 ? 5 : 16), tk_int(5), tk_int(7)};
    tk_prepared *p;
    cr_expect_eq(tk_launch_prepare(k, &(tk_launch_opts){.grid = TK_GRID(1)}, args, N(args), &p), TK_OK);
    tk_prepared_free(p);
  }
  return NULL;
}

Test(runtime_jit, threads_compile_each_variant_once) {
  tk_context *cx = open_cpu();
  tk_kernel *k = load(cx, NULL);
  pthread_t t[4];
  for (int i = 0; i < N(t); i++) cr_assert_eq(pthread_create(&t[i], NULL, launch_some, k), 0);
  for (int i = 0; i < N(t); i++) pthread_join(t[i], NULL);
  cr_assert_eq(saw.compiled, 6); /* x: 0, 1, 2 are three kinds; n: two */
  tk_kernel_free(k);
  OK(cx, tk_context_close(cx));
}

Test(runtime_jit, a_library_without_a_compiler_says_so) {
  tk_context *cx;
  tk_module *m;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  FAILS(cx, TK_NO_COMPILER, "Link libtkc", tk_module_load_text(cx, "k.tk", "", 0, NULL, &m));
  OK(cx, tk_context_close(cx));
}
