/* tkc run: one kernel on one device, with arrays made on the spot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tkc.h"
#include "runtime/tk.h"
#include "tools/argument.h"
#include "tools/cli.h"

typedef struct command {
  const char *file, *kernel, *grid, *device;
  int seed;
  bool check, bench;
  double tolerance; /* negative = the element type's own */
  tk_load_options load;
  cli_list defines, print, save;
  argument_list args;
} command;

/* A device with the kernel and its arguments on it. */
typedef struct place {
  tk_context *cx;
  tk_kernel *kernel;
  tk_buffer **buffers; /* of launch arguments; NULL for scalars */
  int n;
  bool silent; /* what the kernel prints is dropped: it has been seen */
} place;

/* ---- the command line ---- */

static int set_file(command *c, const char *text) {
  if (c->file) return cli_usage("one file at a time: '%s' and '%s'", c->file, text);
  const char *colon = strrchr(text, ':');
  if (!colon || strchr(colon, '/') || strchr(colon, '.')) {
    c->file = text;
    return EXIT_RIGHT;
  }
  char *file = cli_alloc((size_t)(colon - text) + 1);
  memcpy(file, text, (size_t)(colon - text));
  c->file = file;
  c->kernel = colon + 1;
  return EXIT_RIGHT;
}

/* --print and --save are for array arguments. */
static bool names_array(command *c, const char *option, const char *name, size_t len) {
  for (int i = 0; i < c->args.n; i++) {
    const argument *a = &c->args.at[i];
    if (strlen(a->name) != len || memcmp(a->name, name, len)) continue;
    if (!a->is_array) cli_usage("%s %s: that is a scalar, and stays what it is", option, a->name);
    return a->is_array;
  }
  cli_usage("%s %.*s: there is no --arg of that name", option, (int)(len < 200 ? len : 200), name);
  return false;
}

static int parse(command *c, int argc, char **argv) {
  cli_args a = {.argc = argc, .argv = argv};
  int bad = EXIT_RIGHT;
  char message[256];
  while (a.at < argc && !bad && !a.wrong) {
    if (cli_option(&a, "--arg")) {
      if (!argument_add(&c->args, a.value, message, sizeof message)) bad = cli_usage("%s", message);
    } else if (cli_option(&a, "--grid"))
      c->grid = a.value;
    else if (cli_option(&a, "--print"))
      cli_push(&c->print, a.value);
    else if (cli_option(&a, "--save"))
      cli_push(&c->save, a.value);
    else if (cli_option(&a, "--device"))
      c->device = a.value;
    else if (cli_option(&a, "--signature"))
      c->load.signature = a.value;
    else if (cli_option(&a, "-D"))
      cli_push(&c->defines, a.value);
    else if (cli_flag(&a, "--check"))
      c->check = true;
    else if (cli_option(&a, "--tolerance")) {
      char *end;
      c->tolerance = strtod(a.value, &end);
      if (end == a.value || *end || !(c->tolerance >= 0))
        bad = cli_usage("--tolerance takes a number like 1e-5, not '%s'", a.value);
    } else if (cli_flag(&a, "--bench"))
      c->bench = true;
    else if (cli_flag(&a, "--debug"))
      c->load.debug = true;
    else if (cli_flag(&a, "--no-tensor-maps"))
      c->load.no_tensor_maps = true;
    else if (cli_flag(&a, "--no-gang"))
      c->load.no_gang = true;
    else if (cli_option(&a, "--seed")) {
      if (!cli_int(a.value, 0, 2147483647, &c->seed)) bad = cli_usage("--seed takes a number, not '%s'", a.value);
    } else if (cli_option(&a, "--num-warps")) {
      if (!cli_int(a.value, 1, 32, &c->load.num_warps)) bad = cli_usage("--num-warps takes 1 to 32, not '%s'", a.value);
    } else if (cli_option(&a, "--num-stages")) {
      if (!cli_int(a.value, 1, 16, &c->load.num_stages))
        bad = cli_usage("--num-stages takes 1 to 16, not '%s'", a.value);
    } else if (argv[a.at][0] == '-')
      bad = cli_usage("unknown option '%s'", argv[a.at]);
    else
      bad = set_file(c, argv[a.at++]);
  }
  if (bad || a.wrong) return EXIT_USAGE;
  if (!c->file) return cli_usage("tkc run needs a file");
  for (int i = 0; i < c->print.n; i++)
    if (!names_array(c, "--print", c->print.at[i], strlen(c->print.at[i]))) return EXIT_USAGE;
  for (int i = 0; i < c->save.n; i++) {
    const char *s = c->save.at[i], *eq = strchr(s, '=');
    if (!eq || !eq[1]) return cli_usage("--save takes NAME=FILE.npy, not '%s'", s);
    if (!names_array(c, "--save", s, (size_t)(eq - s))) return EXIT_USAGE;
  }
  c->load.defines = c->defines.at;
  c->load.n_defines = c->defines.n;
  return EXIT_RIGHT;
}

/* ---- running ---- */

static int device_exit(tk_status s) {
  switch (s) {
    case TK_INVALID_ARGUMENT:
    case TK_FILE_ERROR:
    case TK_BAD_ARTIFACT:
    case TK_COMPILE_ERROR:
    case TK_NO_SUCH_KERNEL:
    case TK_WRONG_ARGUMENT_COUNT:
    case TK_WRONG_ARGUMENT_TYPE:
    case TK_SPECIALIZATION_MISMATCH:
    case TK_BAD_DESCRIPTOR:
    case TK_BAD_GRID:
    case TK_OUT_OF_RANGE:
    case TK_CHECK_FAILED:
    case TK_CPU_CANNOT_RUN_PTX: return EXIT_WRONG;
    case TK_BAD_DEVICE: return EXIT_USAGE;
    default: return EXIT_DEVICE;
  }
}

static int failed(const place *p, tk_status s) {
  const char *text = tk_error(p->cx);
  size_t n = strlen(text);
  fprintf(stderr, "tkc: %s%s", text, n && text[n - 1] == '\n' ? "" : "\n");
  return device_exit(s);
}

#define TRY(p, call)                           \
  do {                                         \
    tk_status try_ = (call);                   \
    if (try_ != TK_OK) return failed(p, try_); \
  } while (0)

/* descriptors: as many places as there are arguments. */
static int order_arguments(command *c, const place *p, tk_arg *out, tk_descriptor *descriptors) {
  for (int i = 0; i < p->n; i++) {
    const char *name = tk_kernel_arg_name(p->kernel, i);
    argument *a = argument_named(&c->args, name);
    if (!a)
      return cli_usage("argument '%s' of the kernel is missing: --arg %s=..., or -D %s=None if the source does without",
                       name, name, name);
    out[i] = a->is_array ? argument_of_buffer(a, p->buffers[i], &descriptors[i]) : a->scalar;
  }
  for (int i = 0; i < c->args.n; i++) {
    bool known = false;
    for (int k = 0; k < p->n; k++) known |= !strcmp(c->args.at[i].name, tk_kernel_arg_name(p->kernel, k));
    if (!known)
      return cli_usage("the kernel %s has no argument '%s' (constexprs are given with -D)", tk_kernel_name(p->kernel),
                       c->args.at[i].name);
  }
  return EXIT_RIGHT;
}

static void show(void *user, const char *text, size_t len) {
  (void)user;
  fwrite(text, 1, len, stdout);
}

static int open_place(command *c, const char *device, place *p) {
  tk_options o = {.device = device, .compiler = tk_jit(), .print = p->silent ? NULL : show};
  TRY(p, tk_context_open(&p->cx, &o));
  TRY(p, tk_kernel_load(p->cx, c->file, c->kernel, &c->load, &p->kernel));
  p->n = tk_kernel_n_args(p->kernel);
  p->buffers = cli_alloc(sizeof *p->buffers * (size_t)(p->n + 1));
  return EXIT_RIGHT;
}

static int upload(command *c, place *p) {
  for (int i = 0; i < p->n; i++) {
    argument *a = argument_named(&c->args, tk_kernel_arg_name(p->kernel, i));
    if (!a || !a->is_array) continue;
    TRY(p, tk_tensor_new(p->cx, a->host.dtype, a->host.rank, a->host.shape, &p->buffers[i]));
    if (a->host.bytes) TRY(p, tk_upload(p->buffers[i], 0, a->host.data, a->host.bytes));
  }
  return EXIT_RIGHT;
}

static int launch(command *c, place *p) {
  tk_arg *args = cli_alloc(sizeof *args * (size_t)(p->n + 1));
  tk_descriptor *descriptors = cli_alloc(sizeof *descriptors * (size_t)(p->n + 1));
  tk_launch_opts o = {0};
  if (c->grid) o.grid = TK_GRID_EXPR(c->grid);
  int bad = order_arguments(c, p, args, descriptors);
  if (!bad) {
    tk_status s = tk_launch(p->kernel, &o, args, p->n);
    if (s == TK_OK) s = tk_synchronize(p->cx);
    if (s != TK_OK) bad = failed(p, s);
  }
  free(descriptors);
  free(args);
  return bad;
}

static int bench(command *c, place *p) {
  tk_arg *args = cli_alloc(sizeof *args * (size_t)(p->n + 1));
  tk_descriptor *descriptors = cli_alloc(sizeof *descriptors * (size_t)(p->n + 1));
  tk_launch_opts o = {0};
  if (c->grid) o.grid = TK_GRID_EXPR(c->grid);
  tk_prepared *prepared = NULL;
  tk_bench_result r;
  int bad = order_arguments(c, p, args, descriptors);
  if (!bad) {
    tk_status s = tk_launch_prepare(p->kernel, &o, args, p->n, &prepared);
    if (s == TK_OK) s = tk_bench_prepared(prepared, NULL, &r);
    if (s != TK_OK) bad = failed(p, s);
  }
  tk_prepared_free(prepared);
  free(descriptors);
  free(args);
  if (bad) return bad;
  double bytes = 0;
  for (int i = 0; i < p->n; i++) bytes += p->buffers[i] ? (double)tk_buffer_bytes(p->buffers[i]) : 0;
  printf("%s: median %.4f ms (20%% %.4f, 80%% %.4f, %d runs)", tk_kernel_name(p->kernel), r.median_ms, r.p20_ms,
         r.p80_ms, r.runs);
  if (bytes > 0) printf(", %.1f GB/s if every array is moved once", bytes / r.median_ms / 1e6);
  tk_kernel_attributes at;
  if (tk_kernel_attributes_get(p->kernel, &at) == TK_OK)
    printf("; %d registers, %d bytes spilled, %d bytes shared, occupancy %.2f", at.registers, at.local_bytes,
           at.shared_bytes + at.dynamic_shared_bytes, at.occupancy);
  putchar('\n');
  return EXIT_RIGHT;
}

/* Brings the arrays back as they are after the run. results[i] is filled for array arguments. */
static int download(command *c, place *p, array *results) {
  for (int i = 0; i < p->n; i++) {
    argument *a = argument_named(&c->args, tk_kernel_arg_name(p->kernel, i));
    if (!a || !a->is_array) continue;
    results[i] = array_copy(&a->host);
    if (a->host.bytes) TRY(p, tk_download(p->buffers[i], 0, results[i].data, results[i].bytes));
  }
  return EXIT_RIGHT;
}

static void close_place(place *p) {
  for (int i = 0; i < p->n; i++) tk_buffer_free(p->buffers[i]);
  free(p->buffers);
  tk_kernel_free(p->kernel);
  tk_context_close(p->cx);
}

static void free_results(array *r, int n) {
  for (int i = 0; r && i < n; i++) array_free(&r[i]);
  free(r);
}

static int run_on(command *c, place *p, array **results) {
  int bad = upload(c, p);
  if (!bad) bad = launch(c, p);
  *results = cli_alloc(sizeof **results * (size_t)(p->n + 1));
  if (!bad) bad = download(c, p, *results);
  return bad;
}

static int compare(command *c, const place *p, const array *got) {
  place cpu = {.silent = true};
  array *want = NULL;
  int bad = open_place(c, "cpu", &cpu);
  if (!bad) bad = run_on(c, &cpu, &want);
  bool equal = true;
  for (int i = 0; !bad && i < p->n; i++) {
    if (!p->buffers[i]) continue;
    size_t at;
    double d = array_distance(&got[i], &want[i], &at), limit = array_tolerance(got[i].dtype);
    if (limit > 0 && c->tolerance >= 0) limit = c->tolerance;
    const char *name = tk_kernel_arg_name(p->kernel, i);
    bool fine = d <= limit;
    printf("check %s: largest difference %.3g (allowed %.3g)%s\n", name, d, limit, fine ? "" : "  FAILED");
    if (!fine)
      printf("  element %zu: %s has %.9g, the CPU %.9g\n", at, tk_context_device(p->cx), array_get(&got[i], at),
             array_get(&want[i], at));
    equal &= fine;
  }
  free_results(want, cpu.n);
  close_place(&cpu);
  return bad ? bad : equal ? EXIT_RIGHT : EXIT_WRONG;
}

static const array *result_named(const place *p, const array *r, const char *name, size_t len) {
  int i = 0;
  while (strlen(tk_kernel_arg_name(p->kernel, i)) != len || memcmp(tk_kernel_arg_name(p->kernel, i), name, len)) i++;
  return &r[i];
}

static int deliver(command *c, const place *p, const array *results) {
  for (int i = 0; i < c->print.n; i++) {
    const char *name = c->print.at[i];
    if (c->print.n > 1) printf("%s = ", name);
    array_print(result_named(p, results, name, strlen(name)));
  }
  for (int i = 0; i < c->save.n; i++) {
    const char *name = c->save.at[i], *file = strchr(name, '=') + 1;
    size_t len;
    unsigned char *npy = array_npy(result_named(p, results, name, (size_t)(file - 1 - name)), &len);
    bool ok = cli_write(file, npy, len);
    free(npy);
    if (!ok) return EXIT_WRONG;
  }
  return EXIT_RIGHT;
}

int cli_run(int argc, char **argv) {
  command c = {.device = "auto", .tolerance = -1};
  place p = {0};
  array *results = NULL;
  int bad = parse(&c, argc, argv);
  char message[512];
  c.args.seed = (uint64_t)c.seed;
  for (int i = 0; !bad && i < c.args.n; i++)
    if (!argument_evaluate(&c.args, &c.args.at[i], message, sizeof message)) {
      const argument *a = &c.args.at[i];
      if (a->text[0] == '@')
        cli_say("--arg %s: %s", a->name, message), bad = EXIT_WRONG;
      else
        bad = cli_usage("--arg %s: %s", a->name, message);
    }
  if (!bad) bad = open_place(&c, c.device, &p);
  if (!bad && !strcmp(c.device, "auto") && tk_context_fallback(p.cx)[0])
    fprintf(stderr, "tkc: on the CPU: %s\n", tk_context_fallback(p.cx));
  if (!bad) bad = run_on(&c, &p, &results);
  if (!bad) bad = deliver(&c, &p, results);
  if (!bad && c.check) bad = compare(&c, &p, results);
  if (!bad && c.bench) bad = bench(&c, &p);
  free_results(results, p.n);
  close_place(&p);
  argument_free(&c.args);
  if (c.kernel) free((char *)c.file);
  free(c.defines.at);
  free(c.print.at);
  free(c.save.at);
  return bad;
}
