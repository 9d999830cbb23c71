/* The runtime on a fake CUDA driver and on the CPU: contexts, buffers, modules, checking and packing of arguments,
 * grids, prepared launches, and a status with advice for everything that can go wrong. */
#include "runtime/tk.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/artifact.h"
#include "runtime/internal.h"
#include "tests/fake/start.h"
#include "tests/unit/runtime_checks.h"

/* Everything that the test opened is closed, and the driver's view agrees. */
static void close_clean(tk_context *cx) {
  OK(cx, tk_context_close(cx));
  fake->fail = NULL;
  cr_assert(fake->live_allocations == 0 && fake->live_pinned == 0 && fake->live_modules == 0 &&
                fake->live_streams == 0 && fake->live_events == 0 && fake->primary_references == 0,
            "left open: %d allocations, %d pinned, %d modules, %d streams, %d events, %d contexts",
            fake->live_allocations, fake->live_pinned, fake->live_modules, fake->live_streams, fake->live_events,
            fake->primary_references);
}

/* ---- a compiled file --------------------------------------------------------------------------------------------- */

static tk_artifact_param add_params[] = {
    {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_f32, .is_const = true, .divisible = 16, .passed = true},
    {.name = "n", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true},
    {.name = "m", .kind = TK_PARAM_SCALAR, .dtype = TK_i64, .divisible = 16, .passed = true},
    {.name = "stride", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .equals_one = true},
    {.name = "BLOCK", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_INT, .i = 256}},
    {.name = "ACT", .kind = TK_PARAM_CONSTEXPR, .divisible = 1, .value = {.kind = TK_CONSTANT_STRING, .text = "relu"}},
    {.name = "scale", .kind = TK_PARAM_SCALAR, .dtype = TK_f32, .divisible = 1, .passed = true},
    {.name = "half", .kind = TK_PARAM_SCALAR, .dtype = TK_f16, .divisible = 1, .passed = true},
    {.name = "flag", .kind = TK_PARAM_SCALAR, .dtype = TK_i1, .divisible = 1, .passed = true},
    {.name = "byte", .kind = TK_PARAM_SCALAR, .dtype = TK_u8, .divisible = 1, .passed = true},
    {.name = "wide", .kind = TK_PARAM_SCALAR, .dtype = TK_u64, .divisible = 1, .passed = true},
};
static tk_artifact_kernel kernels[] = {
    {.name = "add",
     .num_warps = 4,
     .num_stages = 3,
     .num_ctas = 1,
     .gang = 1,
     .grid = "cdiv(n, BLOCK)",
     .n_params = N(add_params),
     .params = add_params},
    {.name = "big", .num_warps = 8, .num_stages = 4, .num_ctas = 1, .gang = 1, .dynamic_shared_bytes = 100000},
    {.name = "cluster", .num_warps = 4, .num_stages = 3, .num_ctas = 2, .gang = 1},
    {.name = "ghost", .num_warps = 4, .num_stages = 3, .num_ctas = 1, .gang = 1},
};

static const char body[] =
    ".version 8.0\n.target sm_90a\n"
    ".visible .entry add(.param .u64 .ptr a0, .param .u32 a1, .param .u64 a2, .param .f32 a3, .param .b16 a4, .param "
    ".u8 a5, "
    ".param .u8 a6, .param .u64 a7) { ret; }\n"
    ".visible .entry big() { ret; }\n.visible .entry cluster() { ret; }\n";

/* The text of a file; free it. */
static char *ptx_for(const char *arch, int ptx_version) {
  tk_artifact a = {
      .source = "add.tk", .arch = arch, .ptx_version = ptx_version, .n_kernels = N(kernels), .kernels = kernels};
  char *head, *text;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(&a, &head, &e), "%s", e.message);
  text = malloc(strlen(head) + sizeof body);
  strcpy(text, head);
  strcat(text, body);
  free(head);
  return text;
}

static tk_module *load_module(tk_context *cx) {
  tk_module *m;
  char *text = ptx_for("sm_90a", 80);
  OK(cx, tk_module_load_text(cx, "add.ptx", text, strlen(text), NULL, &m));
  free(text);
  return m;
}

static tk_kernel *load_add(tk_context *cx) {
  tk_kernel *k;
  tk_module *m = load_module(cx);
  OK(cx, tk_module_kernel(m, "add", &k));
  tk_module_free(m);
  return k;
}

/* ---- status ------------------------------------------------------------------------------------------------------ */

Test(runtime, every_status_has_a_text) {
  for (int s = 0; s < TK_N_STATUS; s++) {
    cr_assert(*tk_status_name((tk_status)s) && *tk_status_text((tk_status)s));
    for (int t = 0; t < s; t++) cr_assert_str_neq(tk_status_text((tk_status)s), tk_status_text((tk_status)t));
  }
  cr_assert_str_eq(tk_status_name((tk_status)9999), "UNKNOWN");
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static void open_fails(tk_options o, tk_status wanted, const char *says) {
  tk_context *cx;
  tk_status s = tk_context_open(&cx, &o);
  cr_assert(s == wanted, "%s, not %s: %s", tk_status_name(s), tk_status_name(wanted), tk_error(cx));
  cr_assert(cx && strstr(tk_error(cx), says) && strstr(tk_error(cx), tk_status_text(wanted)) &&
                strstr(tk_error(cx), tk_status_advice(wanted)),
            "%s", tk_error(cx));
  tk_buffer *b;
  cr_assert_eq(tk_buffer_new(cx, 4, &b), TK_INVALID_ARGUMENT);
  cr_assert_eq(tk_context_close(cx), TK_OK);
}

Test(runtime, open_without_a_driver) {
  open_fails((tk_options){.device = "cuda", .driver_path = "./no/such/libcuda.so"}, TK_NO_DRIVER, "no/such");
}

Test(runtime, open_with_a_driver_that_lacks_functions) {
  char path[160];
  snprintf(path, sizeof path, "./%s", fake_library("fake_cuda_old", "-DWITHOUT_LAUNCH"));
  open_fails((tk_options){.device = "cuda", .driver_path = path}, TK_DRIVER_TOO_OLD, "cuLaunchKernel");
}

Test(runtime, open_with_a_wrong_name) {
  static const char *const names[] = {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999", "CPU"};
  for (int i = 0; i < N(names); i++) open_fails((tk_options){.device = names[i]}, TK_BAD_DEVICE, names[i]);
}

Test(runtime, open_errors_of_the_driver) {
  static const struct {
    const char *function;
    int result;
    tk_status status;
    const char *says;
  } cases[] = {
      {"cuInit", 100, TK_NO_DEVICE, "CUDA_ERROR_NO_DEVICE (100)"},
      {"cuInit", 34, TK_NO_DRIVER, "STUB_LIBRARY"},
      {"cuInit", 803, TK_DRIVER_MISMATCH, "SYSTEM_DRIVER_MISMATCH"},
      {"cuInit", 999, TK_DEVICE_FAILURE, "999"},
      {"cuInit", 1, TK_DEVICE_FAILURE, "INVALID_VALUE"},
      {"cuDriverGetVersion", 999, TK_DEVICE_FAILURE, "cuDriverGetVersion"},
      {"cuDeviceGetCount", 999, TK_DEVICE_FAILURE, "opening the device"},
      {"cuDevicePrimaryCtxRetain", 2, TK_OUT_OF_MEMORY, "OUT_OF_MEMORY"},
      {"cuDevicePrimaryCtxRetain", 46, TK_DEVICE_BUSY, "DEVICE_UNAVAILABLE"},
      {"cuDeviceGetAttribute", 12345, TK_DEVICE_FAILURE, "FROM_THE_FUTURE"},
  };
  tk_options o = fake_start();
  for (int i = 0; i < N(cases); i++) {
    fail_with(cases[i].function, cases[i].result);
    open_fails(o, cases[i].status, cases[i].says);
    cr_assert_eq(fake->primary_references, 0);
  }
}

Test(runtime, open_without_a_usable_device) {
  tk_options o = fake_start();
  o.device = "cuda:7";
  open_fails(o, TK_BAD_DEVICE, "lists 2 devices");
  o.device = "cuda";
  fake->driver_version = 10020;
  open_fails(o, TK_DRIVER_TOO_OLD, "supports CUDA 10.2");
  fake->driver_version = 0;
  fake->no_devices = 1;
  open_fails(o, TK_NO_DEVICE, "lists no device");
}

Test(runtime, auto_takes_the_gpu_or_says_why_not) {
  tk_context *cx;
  tk_options o = fake_start();
  o.device = NULL;
  OK(cx, tk_context_open(&cx, &o));
  cr_assert_str_eq(tk_context_device(cx), "cuda:0");
  cr_assert_str_eq(tk_context_arch(cx), "sm_90a");
  cr_assert_str_eq(tk_context_fallback(cx), "");
  close_clean(cx);
  fake->no_devices = 1;
  OK(cx, tk_context_open(&cx, &o));
  cr_assert_str_eq(tk_context_device(cx), "cpu");
  cr_assert(strstr(tk_context_fallback(cx), "no GPU"), "%s", tk_context_fallback(cx));
  close_clean(cx);
}

Test(runtime, versions_are_compared) {
  tk_context *cx;
  tk_options o = {.device = "cpu"};
  FAILS(cx, TK_VERSION_MISMATCH, "compiled for version 9.7", tk_context_open_version(&cx, &o, 907, sizeof o));
  cr_assert_eq(tk_context_close(cx), TK_OK);
  cr_assert_eq(tk_context_open_version(&cx, &o, TK_VERSION, sizeof o - 8), TK_VERSION_MISMATCH);
  cr_assert_eq(tk_context_close(cx), TK_OK);
  cr_assert_eq(tk_version(), TK_VERSION);
  cr_assert_eq(tk_context_open(NULL, &o), TK_INVALID_ARGUMENT);
}

Test(runtime, arch_names) {
  static const struct {
    int capability;
    const char *arch;
  } cases[] = {{70, "sm_70"},  {75, "sm_75"},    {86, "sm_86"},    {89, "sm_89"},
               {90, "sm_90a"}, {100, "sm_100a"}, {103, "sm_103a"}, {120, "sm_120a"}};
  tk_options o = fake_start();
  for (int i = 0; i < N(cases); i++) {
    tk_context *cx;
    fake->capability = cases[i].capability;
    OK(cx, tk_context_open(&cx, &o));
    cr_assert_str_eq(tk_context_arch(cx), cases[i].arch);
    close_clean(cx);
  }
}

Test(runtime, lives_in_a_foreign_context) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_stream *s;
  int theirs, another, stream, stream2;
  o.device = "ignored";
  o.cuda_context = &theirs;
  o.cuda_stream = &stream;
  OK(cx, tk_context_open(&cx, &o));
  cr_assert_str_eq(tk_context_device(cx), "cuda:1"); /* what the fake says of any context */
  tk_kernel *k = load_add(cx);
  tk_arg args[] = {tk_ptr(256), tk_i32(3),  tk_i64(16), tk_i32(1), tk_f32(0),
                   tk_float(1), tk_bool(1), tk_u8(1),   tk_u64(1)};

  /* another context is current on this thread, and must be so afterwards */
  void *library = dlopen(o.driver_path, RTLD_NOW);
  int (*push)(void *), (*current)(void **);
  void *symbol = dlsym(library, "cuCtxPushCurrent_v2"), *found = NULL;
  memcpy(&push, &symbol, sizeof symbol);
  symbol = dlsym(library, "cuCtxGetCurrent");
  memcpy(&current, &symbol, sizeof symbol);
  push(&another);
  OK(cx, tk_launch(k, NULL, args, N(args)));
  cr_assert(fake->last.context == &theirs && fake->last.stream == &stream);
  current(&found);
  cr_assert_eq(found, (void *)&another);

  OK(cx, tk_stream_adopt(cx, &stream2, &s));
  OK(cx, tk_launch(k, &(tk_launch_opts){.stream = s}, args, N(args)));
  cr_assert_eq(fake->last.stream, (void *)&stream2);
  tk_stream_free(s);
  tk_kernel_free(k);
  close_clean(cx);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void *fails_elsewhere(void *user) {
  tk_context *cx = user;
  tk_kernel *k;
  cr_expect_str_eq(tk_error(cx), "");
  cr_expect_eq(tk_kernel_load(cx, "nowhere.ptx", "a", NULL, &k), TK_FILE_ERROR);
  cr_expect(strstr(tk_error(cx), "nowhere.ptx"));
  return NULL;
}

Test(runtime, each_thread_has_its_own_error) {
  tk_context *cx;
  pthread_t t;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  cr_assert_str_eq(tk_error(cx), "");
  FAILS(cx, TK_FILE_ERROR, "'here.txt' is neither", tk_module_load(cx, "here.txt", NULL, &(tk_module *){NULL}));
  const char *mine = tk_error(cx);
  cr_assert_eq(pthread_create(&t, NULL, fails_elsewhere, cx), 0);
  pthread_join(t, NULL);
  cr_assert(strstr(mine, "here.txt") && tk_error(cx) == mine);
  cr_assert_eq(tk_context_close(cx), TK_OK);
  cr_assert(strstr(tk_error(NULL), "memory"));
}

Test(runtime, closing_waits_for_open_handles) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_buffer *a, *b;
  tk_event *e;
  OK(cx, tk_context_open(&cx, &o));
  OK(cx, tk_buffer_new(cx, 4, &a));
  OK(cx, tk_buffer_new(cx, 4, &b));
  OK(cx, tk_event_new(cx, &e));
  FAILS(cx, TK_IN_USE, "2 buffers", tk_context_close(cx));
  tk_buffer_free(a);
  tk_buffer_free(b);
  FAILS(cx, TK_IN_USE, "1 event", tk_context_close(cx));
  tk_event_free(e);
  close_clean(cx);
  cr_assert_eq(tk_context_close(NULL), TK_OK);
}

/* Each result of a call becomes its own status, with the advice. */
Test(runtime, results_become_statuses) {
  static const struct {
    int result;
    tk_status status;
  } cases[] = {{700, TK_ILLEGAL_ACCESS}, {716, TK_MISALIGNED_ADDRESS}, {701, TK_LAUNCH_OUT_OF_RESOURCES},
               {702, TK_LAUNCH_TIMEOUT}, {710, TK_KERNEL_ASSERT},      {719, TK_KERNEL_FAULT},
               {715, TK_KERNEL_FAULT},   {2, TK_OUT_OF_MEMORY},        {999, TK_DEVICE_FAILURE},
               {1, TK_INVALID_ARGUMENT}, {12345, TK_DEVICE_FAILURE}};
  tk_options o = fake_start();
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load_add(cx);
  tk_arg args[] = {tk_ptr(256), tk_i32(3),  tk_i64(16), tk_i32(1), tk_f32(0),
                   tk_float(1), tk_bool(1), tk_u8(1),   tk_u64(1)};
  for (int i = 0; i < N(cases); i++) {
    fail_with("cuCtxSynchronize", cases[i].result);
    FAILS(cx, cases[i].status, tk_status_advice(cases[i].status), tk_synchronize(cx));
    fail_with("cuLaunchKernel", cases[i].result);
    FAILS(cx, cases[i].status, "launching 'add' with a grid of 1 x 1 x 1", tk_launch(k, NULL, args, N(args)));
    fail_with("cuCtxGetCurrent", cases[i].result);
    FAILS(cx, cases[i].status, "launching 'add'", tk_launch(k, NULL, args, N(args)));
  }
  fake->fail = NULL;
  tk_kernel_free(k);
  close_clean(cx);
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static void buffers_of(tk_context *cx) {
  tk_buffer *a, *b, *none, *view;
  uint32_t in[4] = {1, 2, 3, 4}, out[4] = {0};
  OK(cx, tk_buffer_new(cx, 16, &a));
  OK(cx, tk_buffer_new(cx, 16, &b));
  OK(cx, tk_buffer_new(cx, 0, &none));
  cr_assert(tk_buffer_bytes(a) == 16 && tk_buffer_address(a) % 256 == 0 && tk_buffer_address(none) == 0);
  OK(cx, tk_upload(a, 0, in, 16));
  OK(cx, tk_copy(b, 4, a, 0, 12));
  OK(cx, tk_fill(b, 0, 0xff, 4));
  OK(cx, tk_download(b, 0, out, 16));
  cr_assert(out[0] == 0xffffffff && out[1] == 1 && out[2] == 2 && out[3] == 3);
  OK(cx, tk_upload(none, 0, NULL, 0));
  OK(cx, tk_upload(a, 16, in, 0));

  FAILS(cx, TK_OUT_OF_RANGE, "bytes 1 to 17 of a buffer of 16", tk_upload(a, 1, in, 16));
  FAILS(cx, TK_OUT_OF_RANGE, "of 16", tk_download(a, SIZE_MAX, out, 2));
  FAILS(cx, TK_OUT_OF_RANGE, "of 16", tk_fill(a, 17, 0, 0));
  FAILS(cx, TK_OUT_OF_RANGE, "of 0", tk_copy(a, 0, none, 0, 1));
  FAILS(cx, TK_INVALID_ARGUMENT, "overlap", tk_copy(a, 0, a, 4, 8));
  OK(cx, tk_copy(a, 0, a, 8, 8));
  cr_assert_eq(tk_upload(NULL, 0, in, 1), TK_INVALID_ARGUMENT);
  cr_assert_eq(tk_upload(a, 0, NULL, 1), TK_INVALID_ARGUMENT);

  FAILS(cx, TK_INVALID_ARGUMENT, "NULL pointer", tk_buffer_wrap(cx, NULL, 8, &view));
  OK(cx, tk_buffer_wrap(cx, (void *)(uintptr_t)tk_buffer_address(b), 8, &view));
  OK(cx, tk_download(view, 4, out, 4));
  cr_assert_eq(out[0], 1u);
  FAILS(cx, TK_OUT_OF_RANGE, "of 8", tk_download(view, 8, out, 4));
  tk_buffer_free(view);

  void *pinned;
  OK(cx, tk_host_alloc(cx, 1000, &pinned));
  memset(pinned, 1, 1000);
  tk_host_free(cx, pinned);
  tk_buffer_free(a);
  tk_buffer_free(b);
  tk_buffer_free(none);
  tk_buffer_free(NULL);
}

static void streams_of(tk_context *cx) {
  tk_stream *s;
  tk_event *begin, *end;
  tk_buffer *b;
  double ms = -1;
  int value = 5, back = 0;
  OK(cx, tk_stream_new(cx, &s));
  OK(cx, tk_event_new(cx, &begin));
  OK(cx, tk_event_new(cx, &end));
  OK(cx, tk_buffer_new(cx, 4, &b));
  FAILS(cx, TK_INVALID_ARGUMENT, "never recorded", tk_event_elapsed(begin, end, &ms));
  FAILS(cx, TK_INVALID_ARGUMENT, "never recorded", tk_stream_wait(cx, s, begin));
  FAILS(cx, TK_INVALID_ARGUMENT, "never recorded", tk_event_synchronize(begin));
  OK(cx, tk_event_record(begin, s));
  OK(cx, tk_upload_async(b, 0, &value, 4, s));
  OK(cx, tk_download_async(b, 0, &back, 4, s));
  OK(cx, tk_event_record(end, s));
  OK(cx, tk_stream_wait(cx, NULL, end));
  OK(cx, tk_stream_synchronize(cx, s));
  OK(cx, tk_event_synchronize(end));
  OK(cx, tk_event_elapsed(begin, end, &ms));
  cr_assert(back == 5 && ms >= 0);
  OK(cx, tk_synchronize(cx));
  tk_stream_free(s);
  tk_event_free(begin);
  tk_event_free(end);
  tk_buffer_free(b);
}

Test(runtime, buffers_and_streams) {
  tk_options o = fake_start();
  tk_context *cx;
  OK(cx, tk_context_open(&cx, &o));
  buffers_of(cx);
  streams_of(cx);
  close_clean(cx);
  o.device = "cpu";
  OK(cx, tk_context_open(&cx, &o));
  buffers_of(cx);
  streams_of(cx);
  close_clean(cx);
}

Test(runtime, out_of_device_memory_tells_how_much_is_free) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_buffer *b, *c;
  fake->memory = 1000;
  OK(cx, tk_context_open(&cx, &o));
  OK(cx, tk_buffer_new(cx, 600, &b));
  FAILS(cx, TK_OUT_OF_MEMORY, "500 bytes on cuda:0, where 400 of 1000 are free", tk_buffer_new(cx, 500, &c));
  cr_assert_null(c);
  tk_buffer_free(b);
  close_clean(cx);
}

Test(runtime, handles_of_another_context) {
  tk_options o = fake_start();
  tk_context *one, *two;
  tk_buffer *a, *b;
  tk_stream *s;
  OK(one, tk_context_open(&one, &o));
  OK(two, tk_context_open(&two, &(tk_options){.device = "cpu"}));
  OK(one, tk_buffer_new(one, 8, &a));
  OK(two, tk_buffer_new(two, 8, &b));
  OK(two, tk_stream_new(two, &s));
  FAILS(one, TK_WRONG_CONTEXT, "different", tk_copy(a, 0, b, 0, 8));
  FAILS(one, TK_WRONG_CONTEXT, "stream", tk_fill_async(a, 0, 0, 8, s));
  FAILS(one, TK_WRONG_CONTEXT, "stream", tk_stream_synchronize(one, s));
  tk_buffer_free(a);
  tk_buffer_free(b);
  tk_stream_free(s);
  cr_assert_eq(tk_context_close(two), TK_OK);
  close_clean(one);
}

Test(runtime, descriptions) {
  tk_context *cx;
  tk_buffer *b;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  OK(cx, tk_tensor_new(cx, TK_f16, 2, (int64_t[]){3, 5}, &b));
  cr_assert(tk_buffer_bytes(b) == 30 && tk_buffer_dtype(b) == TK_f16);
  cr_assert(b->strides[0] == 5 && b->strides[1] == 1);
  OK(cx, tk_buffer_describe(b, TK_u8, 2, (int64_t[]){2, 3}, (int64_t[]){3, 12}));
  FAILS(cx, TK_OUT_OF_RANGE, "30 bytes", tk_buffer_describe(b, TK_u8, 2, (int64_t[]){2, 4}, (int64_t[]){3, 12}));
  FAILS(cx, TK_INVALID_ARGUMENT, "negative", tk_buffer_describe(b, TK_u8, 1, (int64_t[]){2}, (int64_t[]){-1}));
  FAILS(cx, TK_INVALID_ARGUMENT, "negative", tk_buffer_describe(b, TK_u8, 1, (int64_t[]){-2}, NULL));
  FAILS(cx, TK_INVALID_ARGUMENT, "2^63", tk_buffer_describe(b, TK_u8, 2, (int64_t[]){INT64_MAX, 2}, NULL));
  FAILS(cx, TK_INVALID_ARGUMENT, "too large",
        tk_buffer_describe(b, TK_u8, 2, (int64_t[]){3, 3}, (int64_t[]){INT64_MAX, 1}));
  FAILS(cx, TK_OUT_OF_RANGE, "30 bytes", tk_buffer_describe(b, TK_f64, 1, (int64_t[]){INT64_MAX}, NULL));
  FAILS(cx, TK_INVALID_ARGUMENT, "element type", tk_buffer_describe(b, TK_NO_DTYPE, 0, NULL, NULL));
  FAILS(cx, TK_INVALID_ARGUMENT, "element type", tk_buffer_describe(b, TK_f32, 9, (int64_t[9]){0}, NULL));
  cr_assert(tk_buffer_dtype(b) == TK_u8 && b->shape[1] == 3); /* as it was described last */
  tk_buffer_free(b);
  OK(cx, tk_tensor_new(cx, TK_f32, 2, (int64_t[]){0, INT64_MAX}, &b));
  cr_assert_eq(tk_buffer_bytes(b), 0u);
  tk_buffer_free(b);
  FAILS(cx, TK_INVALID_ARGUMENT, "2^63", tk_tensor_new(cx, TK_f32, 1, (int64_t[]){INT64_MAX}, &b));
  cr_assert_eq(tk_context_close(cx), TK_OK);
}

/* ---- modules ----------------------------------------------------------------------------------------------------- */

Test(runtime, modules_and_kernels) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_kernel *k, *again;
  OK(cx, tk_context_open(&cx, &o));
  tk_module *m = load_module(cx);
  cr_assert_eq(tk_module_count(m), 4);
  cr_assert_str_eq(tk_module_kernel_name(m, 1), "big");
  cr_assert(!tk_module_kernel_name(m, 4) && !tk_module_kernel_name(m, -1));
  OK(cx, tk_module_kernel(m, "add", &k));
  OK(cx, tk_module_kernel(m, "add", &again));
  cr_assert_str_eq(tk_kernel_name(k), "add");
  cr_assert_eq(tk_kernel_n_args(k), 9);
  cr_assert_str_eq(tk_kernel_arg_name(k, 4), "scale");
  cr_assert(!tk_kernel_arg_name(k, 9));
  tk_kernel_free(again);
  FAILS(cx, TK_NO_SUCH_KERNEL, "'sub' is not in add.ptx, which holds: add, big, cluster, ghost",
        tk_module_kernel(m, "sub", &again));
  FAILS(cx, TK_NO_SUCH_KERNEL, "a name is needed", tk_module_kernel(m, NULL, &again));
  FAILS(cx, TK_NO_SUCH_KERNEL, "no such entry", tk_module_kernel(m, "ghost", &again));
  FAILS(cx, TK_UNSUPPORTED, "clusters of 2", tk_module_kernel(m, "cluster", &again));
  cr_assert_null(again);
  tk_module_free(m); /* the kernel keeps it */
  cr_assert_eq(fake->live_modules, 1);
  FAILS(cx, TK_IN_USE, "1 module", tk_context_close(cx));

  tk_kernel_attributes a;
  OK(cx, tk_kernel_attributes_get(k, &a));
  cr_assert(a.num_warps == 4 && a.num_stages == 3 && a.registers == 40 && a.local_bytes == 8 && a.max_threads == 1024 &&
            a.blocks_per_sm == 8 && a.occupancy == 0.5 && a.ptx_version == 80);
  tk_kernel_free(k);
  close_clean(cx);
}

Test(runtime, much_shared_memory_is_opted_in) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_kernel *k;
  OK(cx, tk_context_open(&cx, &o));
  tk_module *m = load_module(cx);
  OK(cx, tk_module_kernel(m, "big", &k));
  cr_assert_eq(fake->dynamic_shared_opt_in, 100000);
  OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(2, 3)}, NULL, 0));
  cr_assert(fake->last.dynamic_shared == 100000 && fake->last.block[0] == 256 && fake->last.grid[0] == 2 &&
            fake->last.grid[1] == 3 && fake->last.grid[2] == 1);
  tk_kernel_free(k);
  tk_module_free(m);
  close_clean(cx);

  fake->shared_per_block = 65536;
  OK(cx, tk_context_open(&cx, &o));
  m = load_module(cx);
  FAILS(cx, TK_LAUNCH_OUT_OF_RESOURCES, "needs 100000 bytes of shared memory, cuda:0 has 65536",
        tk_module_kernel(m, "big", &k));
  fake->max_threads = 64;
  FAILS(cx, TK_LAUNCH_OUT_OF_RESOURCES, "128 threads per block, its registers allow 64",
        tk_module_kernel(m, "add", &k));
  tk_module_free(m);
  close_clean(cx);
}

Test(runtime, modules_that_do_not_fit_the_device) {
  static const struct {
    int capability, driver;
    const char *arch;
    int ptx;
    tk_status status;
    const char *says;
  } cases[] = {
      {90, 12040, "sm_90a", 84, TK_OK, ""},
      {90, 12040, "sm_90a", 85, TK_DRIVER_TOO_OLD, "needs PTX 8.5, which this driver (CUDA 12.4) does not read"},
      {90, 12060, "sm_90a", 85, TK_OK, ""},
      {90, 99000, "sm_90a", 95, TK_OK, ""}, /* newer than the table: the driver decides */
      {90, 12040, "sm_80", 70, TK_OK, ""},
      {80, 12040, "sm_90", 80, TK_WRONG_ARCH, "for sm_90, and cuda:0 is sm_80"},
      {100, 13000, "sm_90a", 80, TK_WRONG_ARCH, "for sm_90a, and cuda:0 is sm_100a"},
      {100, 13000, "sm_90", 80, TK_OK, ""},
      {103, 13000, "sm_100f", 88, TK_OK, ""},
      {100, 13000, "sm_103f", 88, TK_WRONG_ARCH, "sm_103f"},
      {120, 13000, "sm_100f", 88, TK_WRONG_ARCH, "sm_100f"},
      {90, 12040, "sm_x", 80, TK_WRONG_ARCH, "sm_x"},
      {86, 12040, "sm_89", 80, TK_WRONG_ARCH, "sm_89"},
  };
  tk_options o = fake_start();
  for (int i = 0; i < N(cases); i++) {
    tk_context *cx;
    tk_module *m = NULL;
    char *text = ptx_for(cases[i].arch, cases[i].ptx);
    fake->capability = cases[i].capability;
    fake->driver_version = cases[i].driver;
    OK(cx, tk_context_open(&cx, &o));
    tk_status s = tk_module_load_text(cx, "k.ptx", text, strlen(text), NULL, &m);
    cr_expect(s == cases[i].status && strstr(tk_error(cx), cases[i].says), "case %d: %s: %s", i, tk_status_name(s),
              tk_error(cx));
    tk_module_free(m);
    free(text);
    close_clean(cx);
  }
}

Test(runtime, modules_that_the_driver_refuses) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_module *m;
  char *text = ptx_for("sm_90a", 80);
  OK(cx, tk_context_open(&cx, &o));
  fake->log = "ptxas fatal: line 3";
  fail_with("cuModuleLoadDataEx", 218);
  FAILS(cx, TK_BAD_PTX, "k.ptx: CUDA_ERROR_INVALID_PTX (218):\nptxas fatal: line 3",
        tk_module_load_text(cx, "k.ptx", text, strlen(text), NULL, &m));
  fail_with("cuModuleLoadDataEx", 222);
  FAILS(cx, TK_DRIVER_TOO_OLD, "needs PTX 8.0", tk_module_load_text(cx, "k.ptx", text, strlen(text), NULL, &m));
  fail_with("cuModuleLoadDataEx", 209);
  FAILS(cx, TK_WRONG_ARCH, "NO_BINARY", tk_module_load_text(cx, "k.ptx", text, strlen(text), NULL, &m));
  fake->fail = NULL;
  FAILS(cx, TK_BAD_ARTIFACT, "k.ptx:1:1: this text does not begin",
        tk_module_load_text(cx, "k.ptx", body, strlen(body), NULL, &m));
  FAILS(cx, TK_BAD_ARTIFACT, "NUL byte", tk_module_load_text(cx, "k.ptx", text, strlen(text) + 1, NULL, &m));
  FAILS(cx, TK_BAD_ARTIFACT, "k.ptx:2:1",
        tk_module_load_text(cx, "k.ptx", text, (size_t)(strchr(text, '\n') - text), NULL, &m));
  FAILS(cx, TK_NO_COMPILER, "k.tk is source", tk_module_load_text(cx, "k.tk", "", 0, NULL, &m));
  FAILS(cx, TK_FILE_ERROR, "neither", tk_module_load_text(cx, "k", text, 1, NULL, &m));
  FAILS(cx, TK_FILE_ERROR, "cannot open", tk_module_load(cx, "/no/such/file.ptx", NULL, &m));
  FAILS(cx, TK_INVALID_ARGUMENT, "defines",
        tk_module_load_text(cx, "k.ptx", text, 1, &(tk_load_options){.n_defines = 2}, &m));
  cr_assert_null(m);
  free(text);
  close_clean(cx);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

Test(runtime, arguments_are_packed) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_buffer *x;
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load_add(cx);
  OK(cx, tk_buffer_new(cx, 64, &x));
  OK(cx, tk_launch(k, NULL,
                   TK_ARGS(tk_buf_at(x, 32), tk_i32(-2), tk_i64(1600), tk_i32(1), tk_f32(1.5f), tk_float(-2.0),
                           tk_bool(true), tk_u8(200), tk_u64(UINT64_MAX))));
  cr_assert_eq(fake->n_launches, 0); /* cdiv(-2, 256) = 0: nothing to run */
  OK(cx, tk_launch(k, NULL,
                   TK_ARGS(tk_buf_at(x, 32), tk_i32(700), tk_i64(-1600), tk_i32(1), tk_f32(1.5f), tk_float(-2.0),
                           tk_bool(true), tk_u8(200), tk_u64(UINT64_MAX))));
  const fake_launch *l = &fake->last;
  cr_assert(fake->n_launches == 1 && l->n_params == 8 && l->grid[0] == 3 && l->block[0] == 128 && l->stream == NULL);
  cr_assert_str_eq(l->kernel, "add");
  static const struct {
    unsigned size;
    uint64_t value;
  } wanted[] = {{8, 0}, {4, 700}, {8, (uint64_t)-1600}, {4, 0x3fc00000}, {2, 0xc000},
                {1, 1}, {1, 200}, {8, UINT64_MAX}};
  for (int i = 0; i < l->n_params; i++) {
    uint64_t got = 0, want = i ? wanted[i].value : tk_buffer_address(x) + 32;
    memcpy(&got, l->params[i].bytes, l->params[i].size);
    cr_assert(l->params[i].size == wanted[i].size && got == want, "parameter %d: %llx", i, (unsigned long long)got);
  }
  tk_buffer_free(x);
  tk_kernel_free(k);
  close_clean(cx);
}

Test(runtime, arguments_are_checked) {
  tk_options o = fake_start();
  tk_context *cx, *other;
  tk_buffer *x, *half, *foreign, *null = NULL;
  OK(cx, tk_context_open(&cx, &o));
  OK(other, tk_context_open(&other, &(tk_options){.device = "cpu"}));
  tk_kernel *k = load_add(cx);
  OK(cx, tk_tensor_new(cx, TK_f32, 1, (int64_t[]){64}, &x));
  OK(cx, tk_tensor_new(cx, TK_f16, 1, (int64_t[]){64}, &half));
  OK(other, tk_buffer_new(other, 64, &foreign));
  const tk_arg good[] = {tk_buf(x),   tk_i32(3),  tk_i64(16), tk_i32(1), tk_f32(0),
                         tk_float(1), tk_bool(1), tk_u8(1),   tk_u64(1)};
  const struct {
    int index;
    tk_arg arg;
    tk_status status;
    const char *says;
  } cases[] = {
      {0, tk_ptr(4096), TK_OK, ""},
      {0, tk_ptr(4100), TK_SPECIALIZATION_MISMATCH,
       "argument 1 of 'add' (x: *f32) must be aligned to 16 bytes, the kernel was compiled for that; it is 0x1004"},
      {0, tk_buf_at(x, 4), TK_SPECIALIZATION_MISMATCH, "aligned to 16"},
      {0, tk_buf_at(x, 256), TK_OK, ""},
      {0, tk_buf_at(x, 257), TK_OUT_OF_RANGE, "starts 257 bytes into a buffer of 256"},
      {0, tk_buf(half), TK_WRONG_ARGUMENT_TYPE, "(x: *f32) is a buffer of f16"},
      {0, tk_buf(foreign), TK_WRONG_CONTEXT, "another context"},
      {0, tk_buf(null), TK_INVALID_ARGUMENT, "NULL buffer"},
      {0, tk_i64(4096), TK_WRONG_ARGUMENT_TYPE, "(x: *f32) was given as i64"},
      {1, tk_int(3), TK_OK, ""},
      {1, tk_int(1), TK_OK, ""},
      {1, tk_int(INT64_C(1) << 31), TK_WRONG_ARGUMENT_TYPE, "argument 2 of 'add' (n: i32) cannot hold 2147483648"},
      {1, tk_int(-(INT64_C(1) << 31)), TK_OK, ""},
      {1, tk_i64(3), TK_WRONG_ARGUMENT_TYPE, "was given as i64"},
      {1, tk_u32(3), TK_WRONG_ARGUMENT_TYPE, "was given as u32"},
      {1, tk_f32(3), TK_WRONG_ARGUMENT_TYPE, "was given as f32"},
      {1, tk_buf(x), TK_WRONG_ARGUMENT_TYPE, "was given as buffer"},
      {1, tk_ptr(0), TK_WRONG_ARGUMENT_TYPE, "was given as address"},
      {2, tk_i64(0), TK_OK, ""},
      {2, tk_i64(8), TK_SPECIALIZATION_MISMATCH, "must be a multiple of 16, the kernel was compiled for that; it is 8"},
      {2, tk_i32(16), TK_WRONG_ARGUMENT_TYPE, "was given as i32"},
      {3, tk_i32(2), TK_SPECIALIZATION_MISMATCH, "(stride: i32) must be 1, the kernel was compiled for that; it is 2"},
      {4, tk_float(0.1), TK_OK, ""},
      {4, tk_f64(0.1), TK_WRONG_ARGUMENT_TYPE, "was given as f64"},
      {4, tk_int(1), TK_WRONG_ARGUMENT_TYPE, "was given as integer"},
      {5, tk_f32(1), TK_WRONG_ARGUMENT_TYPE, "was given as f32"},
      {6, tk_int(1), TK_OK, ""},
      {6, tk_int(2), TK_WRONG_ARGUMENT_TYPE, "(flag: i1) cannot hold 2"},
      {7, tk_int(255), TK_OK, ""},
      {7, tk_int(256), TK_WRONG_ARGUMENT_TYPE, "(byte: u8) cannot hold 256"},
      {7, tk_int(-1), TK_WRONG_ARGUMENT_TYPE, "cannot hold -1"},
      {8, tk_int(-1), TK_WRONG_ARGUMENT_TYPE, "(wide: u64) cannot hold -1"},
      {8, tk_u64(UINT64_MAX), TK_OK, ""},
      {8, (tk_arg){.kind = (tk_arg_kind)77}, TK_WRONG_ARGUMENT_TYPE, "broken"},
  };
  for (int i = 0; i < N(cases); i++) {
    tk_arg args[N(good)];
    int before = fake->n_launches;
    memcpy(args, good, sizeof good);
    args[cases[i].index] = cases[i].arg;
    tk_status s = tk_launch(k, &(tk_launch_opts){.grid = TK_GRID(1)}, args, N(args));
    cr_expect(s == cases[i].status && strstr(tk_error(cx), cases[i].says) && fake->n_launches == before + (s == TK_OK),
              "case %d: %s: %s", i, tk_status_name(s), tk_error(cx));
  }
  FAILS(cx, TK_WRONG_ARGUMENT_COUNT, "'add' takes 9, not 8", tk_launch(k, NULL, good, 8));
  FAILS(cx, TK_WRONG_ARGUMENT_COUNT, "'add' takes 9, not 0", tk_launch(k, NULL, NULL, 0));
  cr_assert_eq(tk_launch(NULL, NULL, good, 9), TK_INVALID_ARGUMENT);
  cr_assert_eq(tk_launch(k, NULL, NULL, 9), TK_INVALID_ARGUMENT);
  tk_buffer_free(x);
  tk_buffer_free(half);
  tk_buffer_free(foreign);
  tk_kernel_free(k);
  cr_assert_eq(tk_context_close(other), TK_OK);
  close_clean(cx);
}

Test(runtime, floats_round_to_nearest_even) {
  static const struct {
    double v;
    tk_dtype t;
    uint64_t bits;
  } cases[] = {
      {0.0, TK_f16, 0},
      {-0.0, TK_f16, 0x8000},
      {1.0, TK_f16, 0x3c00},
      {65504.0, TK_f16, 0x7bff},
      {65519.99, TK_f16, 0x7bff},
      {65520.0, TK_f16, 0x7c00},
      {-1e30, TK_f16, 0xfc00},
      {0x1p-24, TK_f16, 1},
      {0x1p-25, TK_f16, 0},
      {0x1.8p-25, TK_f16, 1},
      {0x1.8p-24, TK_f16, 2},
      {0x1.ff8p-15, TK_f16, 0x03ff},
      {0x1.ffcp-15, TK_f16, 0x0400},
      {0x1.002p0, TK_f16, 0x3c00},
      {0x1.006p0, TK_f16, 0x3c02},
      {0x1.ffep0, TK_f16, 0x4000},
      {1.0, TK_bf16, 0x3f80},
      {0x1.01p0, TK_bf16, 0x3f80},
      {0x1.03p0, TK_bf16, 0x3f82},
      {3.4e38, TK_bf16, 0x7f80},
      {0x1p-133, TK_bf16, 1},
      {-2.5, TK_bf16, 0xc020},
      {1.5, TK_f32, 0x3fc00000},
      {1e300, TK_f32, 0x7f800000},
      {0x1p-149, TK_f32, 1},
      {1.5, TK_f64, 0x3ff8000000000000},
  };
  for (int i = 0; i < N(cases); i++) {
    uint64_t bits = 99;
    cr_expect(tk__encode_float(cases[i].v, cases[i].t, &bits) && bits == cases[i].bits, "%a as %s is %llx", cases[i].v,
              tk_dtype_name(cases[i].t), (unsigned long long)bits);
  }
  uint64_t bits;
  double inf = strtod("inf", NULL), nan = strtod("nan", NULL);
  cr_assert(tk__encode_float(-inf, TK_f16, &bits) && bits == 0xfc00);
  cr_assert(tk__encode_float(nan, TK_f16, &bits) && (bits & 0x7fff) == 0x7e00);
  cr_assert(tk__encode_float(nan, TK_bf16, &bits) && (bits & 0x7fff) == 0x7fc0);
  cr_assert(!tk__encode_float(1, TK_f8e4m3, &bits) && !tk__encode_float(1, TK_i32, &bits));
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static tk_grid by_block(const tk_meta *meta, void *user) {
  *(int64_t *)user = tk_meta_int(meta, "BLOCK") * 1000 + tk_meta_has(meta, "n") * 10 + tk_meta_has(meta, "N");
  return TK_GRID(tk_meta_int(meta, "n") / tk_meta_int(meta, "stride"), tk_meta_int(meta, "x.shape[1]"));
}
static tk_grid by_nothing(const tk_meta *meta, void *user) { return (void)meta, (void)user, (tk_grid){0}; }
static tk_grid by_typo(const tk_meta *meta, void *user) { return (void)user, TK_GRID(tk_meta_int(meta, "BLOK")); }
static tk_grid by_string(const tk_meta *meta, void *user) { return (void)user, TK_GRID(tk_meta_int(meta, "ACT")); }
static tk_grid by_text(const tk_meta *meta, void *user) { return (void)meta, (void)user, TK_GRID_EXPR("1"); }

Test(runtime, grids) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_buffer *x;
  int64_t seen = 0;
  OK(cx, tk_context_open(&cx, &o));
  tk_kernel *k = load_add(cx);
  OK(cx, tk_tensor_new(cx, TK_f32, 2, (int64_t[]){4, 6}, &x));
  tk_arg args[] = {tk_buf(x),   tk_i32(700), tk_i64(16), tk_i32(1), tk_f32(0),
                   tk_float(1), tk_bool(1),  tk_u8(1),   tk_u64(1)};
  const struct {
    tk_grid grid;
    tk_status status;
    const char *says;
    unsigned x, y, z; /* 0 = no launch */
  } cases[] = {
      {{0}, TK_OK, "", 3, 1, 1},
      {TK_GRID(5), TK_OK, "", 5, 1, 1},
      {TK_GRID(5, 6), TK_OK, "", 5, 6, 1},
      {TK_GRID(5, 6, 7), TK_OK, "", 5, 6, 7},
      {TK_GRID(2147483647, 65535, 65535), TK_OK, "", 2147483647, 65535, 65535},
      {TK_GRID(0), TK_OK, "", 0, 0, 0},
      {TK_GRID(5, 0), TK_OK, "", 0, 0, 0},
      {TK_GRID(5, 5, 0), TK_OK, "", 0, 0, 0},
      {TK_GRID(2147483648), TK_BAD_GRID, "x is 2147483648, and may be 0 .. 2147483647", 0, 0, 0},
      {TK_GRID(1, 65536), TK_BAD_GRID, "y is 65536, and may be 0 .. 65535; a long axis belongs in x", 0, 0, 0},
      {TK_GRID(1, 1, 65536), TK_BAD_GRID, "z is 65536", 0, 0, 0},
      {TK_GRID(-1), TK_BAD_GRID, "x is -1", 0, 0, 0},
      {TK_GRID_EXPR("cdiv(n, BLOCK), x.shape[0], stride"), TK_OK, "", 3, 4, 1},
      {TK_GRID_EXPR("cdiv(n, BLOCK), x.shape[0], stride"), TK_OK, "", 3, 4, 1},
      {TK_GRID_EXPR("x.stride(0) * flag"), TK_OK, "", 6, 1, 1},
      {TK_GRID_EXPR("x.numel() - byte"), TK_OK, "", 23, 1, 1},
      {TK_GRID_EXPR("n - 700"), TK_OK, "", 0, 0, 0},
      {TK_GRID_EXPR("cdiv(n, BLOK)"), TK_BAD_GRID, "\"cdiv(n, BLOK)\": column 9: unknown name 'BLOK'", 0, 0, 0},
      {TK_GRID_EXPR("n // (n - 700)"), TK_BAD_GRID, "column 3: division by zero", 0, 0, 0},
      {TK_GRID_EXPR("ACT"), TK_BAD_GRID, "no integer", 0, 0, 0},
      {TK_GRID_EXPR("x"), TK_BAD_GRID, "no integer", 0, 0, 0},
      {TK_GRID_EXPR("scale"), TK_BAD_GRID, "no integer", 0, 0, 0},
      {TK_GRID_EXPR("x.shape[2]"), TK_BAD_GRID, "fewer axes", 0, 0, 0},
      {TK_GRID_EXPR("n.shape[0]"), TK_BAD_GRID, "no buffer", 0, 0, 0},
      {TK_GRID_FN(by_block, &seen), TK_OK, "", 700, 6, 1},
      {TK_GRID_FN(by_nothing, NULL), TK_BAD_GRID, "TK_GRID(x)", 0, 0, 0},
      {TK_GRID_FN(by_typo, NULL), TK_BAD_GRID, "asked for 'BLOK': column 1: unknown name", 0, 0, 0},
      {TK_GRID_FN(by_string, NULL), TK_BAD_GRID, "asked for 'ACT'", 0, 0, 0},
      {TK_GRID_FN(by_text, NULL), TK_BAD_GRID, "must answer with numbers", 0, 0, 0},
      {{.dims = 1, .at = {1}, .expr = "1"}, TK_BAD_GRID, "also", 0, 0, 0},
      {{.dims = 4}, TK_BAD_GRID, "TK_GRID(x)", 0, 0, 0},
  };
  for (int i = 0; i < N(cases); i++) {
    int before = fake->n_launches;
    tk_status s = tk_launch(k, &(tk_launch_opts){.grid = cases[i].grid}, args, N(args));
    cr_expect(s == cases[i].status && strstr(tk_error(cx), cases[i].says), "case %d: %s: %s", i, tk_status_name(s),
              tk_error(cx));
    cr_expect(fake->n_launches == before + (cases[i].x != 0), "case %d", i);
    const unsigned *g = fake->last.grid;
    if (cases[i].x)
      cr_expect(g[0] == cases[i].x && g[1] == cases[i].y && g[2] == cases[i].z, "case %d: %u %u %u", i, g[0], g[1],
                g[2]);
  }
  cr_assert_eq(seen, 256010);
  for (int i = 0; i < 100; i++) { /* more texts than are kept */
    char text[32];
    snprintf(text, sizeof text, "n - 700 + %d", i + 1);
    OK(cx, tk_launch(k, &(tk_launch_opts){.grid = TK_GRID_EXPR(text)}, args, N(args)));
    cr_assert_eq(fake->last.grid[0], (unsigned)i + 1);
  }
  tk_module *m = load_module(cx);
  tk_kernel *big;
  OK(cx, tk_module_kernel(m, "big", &big));
  FAILS(cx, TK_BAD_GRID, "no @grid", tk_launch(big, NULL, NULL, 0));
  tk_kernel_free(big);
  tk_module_free(m);
  tk_buffer_free(x);
  tk_kernel_free(k);
  close_clean(cx);
}

/* ---- prepared launches, timing ----------------------------------------------------------------------------------- */

Test(runtime, prepared_launches) {
  tk_options o = fake_start();
  tk_context *cx;
  tk_stream *s;
  tk_prepared *p;
  char expr[] = "cdiv(n, BLOCK)";
  OK(cx, tk_context_open(&cx, &o));
  OK(cx, tk_stream_new(cx, &s));
  tk_kernel *k = load_add(cx);
  tk_arg args[] = {tk_ptr(256), tk_i32(700), tk_i64(16), tk_i32(1), tk_f32(0),
                   tk_float(1), tk_bool(1),  tk_u8(1),   tk_u64(1)};
  tk_launch_opts opts = {.grid = TK_GRID_EXPR(expr), .stream = s};
  FAILS(cx, TK_WRONG_ARGUMENT_COUNT, "not 3", tk_launch_prepare(k, &opts, args, 3, &p));
  FAILS(cx, TK_WRONG_ARGUMENT_TYPE, "was given", tk_launch_prepare(k, &opts, (tk_arg[9]){{.kind = TK_ARG_INT}}, 9, &p));
  cr_assert_null(p);
  OK(cx, tk_launch_prepare(k, &opts, args, N(args), &p));
  memset(expr, 'x', strlen(expr));
  args[1] = tk_i32(0);
  cr_assert_eq(fake->n_launches, 0);
  for (int i = 0; i < 3; i++) OK(cx, tk_prepared_run(p));
  cr_assert(fake->n_launches == 3 && fake->last.grid[0] == 3 && fake->last.stream != NULL &&
            fake->last.params[1].bytes[0] == (700 & 255));

  OK(cx, tk_prepared_set(p, 1, tk_i32(256 * 9)));
  OK(cx, tk_prepared_set(p, 3, tk_i32(1)));
  FAILS(cx, TK_SPECIALIZATION_MISMATCH, "must be 1", tk_prepared_set(p, 3, tk_i32(2)));
  FAILS(cx, TK_INVALID_ARGUMENT, "has 9", tk_prepared_set(p, 9, tk_i32(2)));
  OK(cx, tk_prepared_run(p));
  cr_assert(fake->last.grid[0] == 9 && fake->last.params[1].bytes[1] == 9);
  OK(cx, tk_prepared_set(p, 1, tk_i32(0)));
  OK(cx, tk_prepared_run(p));
  cr_assert_eq(fake->n_launches, 4);

  OK(cx, tk_prepared_set(p, 1, tk_i32(10)));
  tk_bench_result r;
  OK(cx, tk_bench_prepared(p, &(tk_bench_options){.min_runs = 7, .max_runs = 7, .flush_bytes = 4096}, &r));
  cr_assert(r.runs == 7 && r.median_ms == 1 && r.p20_ms == 1 && r.p80_ms == 1 && r.min_ms == 1 && r.max_ms == 1);
  fail_with("cuLaunchKernel", 700);
  FAILS(cx, TK_ILLEGAL_ACCESS, "launching 'add'", tk_bench_prepared(p, NULL, &r));
  fake->fail = NULL;
  FAILS(cx, TK_IN_USE, "1 prepared launch", tk_context_close(cx));
  tk_prepared_free(p);
  tk_stream_free(s);
  tk_kernel_free(k);
  close_clean(cx);
}

static tk_status sleepy(void *user, tk_stream *s) {
  (void)s;
  ++*(int *)user;
  return TK_OK;
}

Test(runtime, timing_on_the_cpu) {
  tk_context *cx;
  int calls = 0;
  tk_bench_result r;
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  OK(cx, tk_bench(cx, NULL, sleepy, &calls, &(tk_bench_options){.max_runs = 50, .warmup_ms = 1, .measure_ms = 1}, &r));
  cr_assert(r.runs >= 5 && r.runs <= 50 && calls > r.runs && r.min_ms <= r.median_ms && r.median_ms <= r.max_ms &&
            r.p20_ms <= r.p80_ms);
  cr_assert_eq(tk_context_close(cx), TK_OK);
}

/* ---- the PTX emulator of the CPU device ------------------------------------------------------------------------- */

/* out[i] = x[i] + k for i < n, one block of 128 threads a program */
static const char add_body[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n"
    ".visible .entry addk(.param .u64 px, .param .u64 pout, .param .u32 pn, .param .u32 pk)\n"
    "{\n .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
    " ld.param.u64 %rd1, [px]; ld.param.u64 %rd2, [pout]; ld.param.u32 %r1, [pn]; ld.param.u32 %r2, [pk];\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %tid.x; shl.b32 %r5, %r3, 7; add.s32 %r5, %r5, %r4;\n"
    " setp.ge.s32 %p1, %r5, %r1; @%p1 bra DONE;\n"
    " mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
    " ld.global.u32 %r6, [%rd4]; add.s32 %r6, %r6, %r2; st.global.u32 [%rd5], %r6;\n"
    "DONE: ret;\n}\n";

static char *addk_ptx(bool wrong_type) {
  tk_artifact_param p[] = {
      {.name = "x", .kind = TK_PARAM_POINTER, .dtype = TK_i32, .divisible = 16, .passed = true},
      {.name = "out", .kind = TK_PARAM_POINTER, .dtype = TK_i32, .divisible = 16, .passed = true},
      {.name = "n", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .passed = true},
      {.name = "one", .kind = TK_PARAM_SCALAR, .dtype = TK_i32, .divisible = 1, .equals_one = true},
      {.name = "k", .kind = TK_PARAM_SCALAR, .dtype = wrong_type ? TK_i64 : TK_i32, .divisible = 1, .passed = true}};
  tk_artifact_kernel kernel = {.name = "addk",
                               .num_warps = 4,
                               .num_stages = 1,
                               .num_ctas = 1,
                               .gang = 1,
                               .grid = "cdiv(n, 128)",
                               .n_params = N(p),
                               .params = p};
  tk_artifact a = {.source = "a.tk", .arch = "sm_90a", .ptx_version = 80, .n_kernels = 1, .kernels = &kernel};
  char *head, *text;
  tk_artifact_error e;
  cr_assert(tk_artifact_write(&a, &head, &e), "%s", e.message);
  text = malloc(strlen(head) + sizeof add_body);
  strcpy(text, head);
  strcat(text, add_body);
  free(head);
  return text;
}

Test(runtime, ptx_on_the_cpu) {
  enum { COUNT = 1000 };
  static int32_t in[COUNT], out[COUNT];
  tk_context *cx;
  tk_module *m;
  tk_kernel *k;
  tk_buffer *x, *y, *small;
  char *text = addk_ptx(false);
  OK(cx, tk_context_open(&cx, &(tk_options){.device = "cpu"}));
  OK(cx, tk_module_load_text(cx, "a.ptx", text, strlen(text), NULL, &m));
  OK(cx, tk_module_kernel(m, NULL, &k));
  free(text);
  for (int i = 0; i < COUNT; i++) in[i] = i * 3;
  OK(cx, tk_tensor_new(cx, TK_i32, 1, (int64_t[]){COUNT}, &x));
  OK(cx, tk_tensor_new(cx, TK_i32, 1, (int64_t[]){COUNT}, &y));
  OK(cx, tk_tensor_new(cx, TK_i32, 1, (int64_t[]){COUNT - 1}, &small));
  OK(cx, tk_upload(x, 0, in, sizeof in));
  OK(cx, tk_launch(k, NULL, TK_ARGS(tk_buf(x), tk_buf(y), tk_i32(COUNT), tk_i32(1), tk_i32(-5))));
  OK(cx, tk_download(y, 0, out, sizeof out));
  for (int i = 0; i < COUNT; i++) cr_assert_eq(out[i], i * 3 - 5);
  OK(cx, tk_launch(k, NULL, TK_ARGS(tk_buf(x), tk_buf(x), tk_i32(COUNT), tk_i32(1), tk_i32(1)))); /* in place */
  OK(cx, tk_download(x, 0, out, sizeof out));
  cr_assert_eq(out[COUNT - 1], (COUNT - 1) * 3 + 1);
  FAILS(cx, TK_CHECK_FAILED, "kernel 'addk'",
        tk_launch(k, NULL, TK_ARGS(tk_buf(x), tk_buf(small), tk_i32(COUNT), tk_i32(1), tk_i32(1))));
  FAILS(cx, TK_UNSUPPORTED, "bounds",
        tk_launch(k, NULL, TK_ARGS(tk_buf(x), tk_ptr(4096), tk_i32(COUNT), tk_i32(1), tk_i32(1))));
  tk_kernel_free(k);
  tk_module_free(m);

  text = addk_ptx(true);
  OK(cx, tk_module_load_text(cx, "a.ptx", text, strlen(text), NULL, &m));
  FAILS(cx, TK_BAD_ARTIFACT, "'k' of 'addk' has 8 bytes in the metadata and 4 in the PTX",
        tk_module_kernel(m, NULL, &k));
  tk_module_free(m);
  strcpy(strstr(text, ".entry"), "?");
  FAILS(cx, TK_CPU_CANNOT_RUN_PTX, "a.ptx:", tk_module_load_text(cx, "a.ptx", text, strlen(text), NULL, &m));
  free(text);
  tk_buffer_free(x);
  tk_buffer_free(y);
  tk_buffer_free(small);
  OK(cx, tk_context_close(cx));
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct shared_kernel {
  tk_context *cx;
  tk_kernel *k;
} shared_kernel;

static void *launch_many(void *user) {
  const shared_kernel *shared = user;
  for (int i = 0; i < 300; i++) {
    char text[32];
    snprintf(text, sizeof text, "n + %d", i % 40);
    tk_arg args[] = {tk_ptr(256), tk_i32(i % 7), tk_i64(16), tk_i32(i % 5 ? 1 : 2), tk_f32(0), tk_float(1),
                     tk_bool(1),  tk_u8(1),      tk_u64(1)};
    tk_status s = tk_launch(shared->k, &(tk_launch_opts){.grid = TK_GRID_EXPR(text)}, args, N(args));
    cr_expect_eq(s, i % 5 ? TK_OK : TK_SPECIALIZATION_MISMATCH);
    if (s != TK_OK) cr_expect(strstr(tk_error(shared->cx), "must be 1"));
  }
  return NULL;
}

Test(runtime, threads_share_a_kernel) {
  tk_options o = fake_start();
  tk_context *cx;
  pthread_t t[4];
  OK(cx, tk_context_open(&cx, &o));
  shared_kernel shared = {cx, load_add(cx)};
  for (int i = 0; i < N(t); i++) cr_assert_eq(pthread_create(&t[i], NULL, launch_many, &shared), 0);
  for (int i = 0; i < N(t); i++) pthread_join(t[i], NULL);
  tk_kernel_free(shared.k);
  close_clean(cx);
}

/* ---- information ------------------------------------------------------------------------------------------------- */

Test(runtime, information) {
  tk_options o = fake_start();
  tk_info *info;
  cr_assert_eq(tk_info_get(&o, &info), TK_OK);
  cr_assert(info->driver_status == TK_OK && info->driver_version == 12040 && info->ptx_version == 84 &&
            info->n_devices == 2);
  const tk_device_info *d = &info->devices[1];
  cr_assert_str_eq(d->name, "Fake GPU 1");
  cr_assert_str_eq(d->arch, "sm_90a");
  cr_assert(d->sm_count == 132 && d->memory_bytes == (size_t)1 << 30 && d->has_tma && d->has_fp8 && d->has_wgmma &&
            !d->has_tcgen05);
  tk_info_free(info);
  fake->no_devices = 1;
  cr_assert_eq(tk_info_get(&o, &info), TK_OK);
  cr_assert(info->driver_status == TK_NO_DEVICE && strstr(info->problem, "nvidia-smi"));
  tk_info_free(info);
  fail_with("cuInit", 803);
  cr_assert_eq(tk_info_get(&o, &info), TK_OK);
  cr_assert(info->driver_status == TK_DRIVER_MISMATCH && info->n_devices == 0);
  tk_info_free(info);
  cr_assert_eq(tk_info_get(&(tk_options){.driver_path = "./none.so"}, &info), TK_OK);
  cr_assert(info->driver_status == TK_NO_DRIVER && info->driver_version == 0 && strstr(info->problem, "Install"));
  tk_info_free(info);
  tk_info_free(NULL);
}
