/* Run tests: tests/run/NAME.tk, one Criterion test each. A kernel runs on given arguments, and every executor must
 * leave the same arrays behind:
 *
 *   the interpreter on the IR as the front end made it   judged by `# expect:`, `# reference:`, and its own checks
 *   the interpreter after each pass, sm_80 and sm_90a    the same bits
 *   the interpreter with the programs in another order   within tolerance (atomics may add in another order)
 *   the emulator on the PTX for sm_80 and sm_90a         within tolerance
 * and ptxas, where there is one, must assemble the PTX of each kind of GPU, without spills and without serialising
 * wgmma. On a GPU: tests/gpu/check.sh.
 *
 *   # run: OPTIONS       one run, in `tkc run`'s words: --grid --arg -D --num-warps --num-stages --signature
 *                        --seed --debug
 *   # with: OPTIONS      put before the options of every run
 *   # source: FILE       the kernel is in this file: examples are tested as they stand
 *   # reference: NAME    the arrays must be what tests/reference.def's function computes
 *   # expect: out = 1 2  the first elements of an array (may be repeated)
 *   # tolerance: 1e-5    instead of the element type's own
 *   # prints: yes        device_print says the same everywhere, in any order
 *   # spills: yes        (say why in a comment) registers may be spilled
 *   # emulator: no       (say why in a comment) the emulator is not asked
 *   # tensor_maps: yes   the PTX for sm_90a must copy through tensor maps; `refused`: which cannot be made of the
 *                        arguments, so that it is compiled again without
 *
 * A file with `#!` expectations is one whose kernel is wrong: the interpreter must find just that, and nothing else
 * runs. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/tkc.h"
#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/emu/emu.h"
#include "tests/reference.h"
#include "tests/test.h"

static const char words[] = "run with reference expect tolerance prints spills emulator tensor_maps source";
static const char *const targets[] = {"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

typedef struct run {
  arena *a;
  const test_file *file;
  const char *path, *text; /* of the kernel */
  size_t len;
  const char *what; /* "path, run 2": for messages */
  argument_list args;
  const char *grid_text;
  int64_t grid[3];
  tkc_options opt;
  VEC(const char *) defines;
  tk_artifact *artifact;
  const tk_artifact_kernel *kernel;
  textbuf printed;
} run;

/* The arrays of one execution, by the place of their argument. */
typedef struct results {
  array *at;
  const char *printed;
} results;

/* ---- the command line of a run ---------------------------------------------------------------------------------- */

static const char *next_word(run *r, const char **w, int *i) {
  cr_assert_not_null(w[*i + 1], "%s: %s needs a value", r->what, w[*i]);
  return w[++*i];
}

static void parse(run *r, const char *text) {
  int n;
  const char **w = test_words(r->a, text, &n);
  char message[512];
  for (int i = 0; i < n; i++) {
    if (!strcmp(w[i], "--arg")) {
      bool good = argument_add(&r->args, next_word(r, w, &i), message, sizeof message);
      cr_assert(good, "%s: %s", r->what, message);
    } else if (!strcmp(w[i], "--grid")) {
      r->grid_text = next_word(r, w, &i);
    } else if (!strcmp(w[i], "-D")) {
      const char *define = next_word(r, w, &i);
      VEC_PUSH(r->a, r->defines, define);
    } else if (!strcmp(w[i], "--signature")) {
      r->opt.signature = next_word(r, w, &i);
    } else if (!strcmp(w[i], "--num-warps")) {
      r->opt.num_warps = atoi(next_word(r, w, &i));
    } else if (!strcmp(w[i], "--num-stages")) {
      r->opt.num_stages = atoi(next_word(r, w, &i));
    } else if (!strcmp(w[i], "--seed")) {
      r->args.seed = strtoull(next_word(r, w, &i), NULL, 10);
    } else if (!strcmp(w[i], "--debug")) {
      r->opt.debug = true;
    } else {
      cr_assert_fail("%s: unknown option '%s'", r->what, w[i]);
    }
  }
  r->opt.defines = r->defines.at;
  r->opt.n_defines = r->defines.n;
}

static void make_arguments(run *r) {
  char message[512];
  for (int i = 0; i < r->args.n; i++) {
    bool good = argument_evaluate(&r->args, &r->args.at[i], message, sizeof message);
    cr_assert(good, "%s: %s: %s", r->what, r->args.at[i].name, message);
  }
}

/* Types of the parameters that the source leaves open, as a launch would bind them: arrays by their elements and
   divisible by 16, or as descriptors, integers as i32 where they fit (divisible by 16 or equal to 1 if they are),
   floats as f32. */
static const char *infer_signature(run *r, const tkc_kernel *k) {
  textbuf b;
  text_init(&b, r->a);
  for (int i = 0; i < k->n_params; i++) {
    const tkc_param *p = &k->params[i];
    argument *x = argument_named(&r->args, p->name);
    if ((p->kind != TKC_PARAM_UNTYPED && p->kind != TKC_PARAM_DESCRIPTOR) || !x) continue;
    text_printf(&b, "%s%s=", b.n ? "," : "", p->name);
    int64_t v = x->scalar.v.i;
    const char *divisible = x->is_array && x->host.rank && x->host.shape[x->host.rank - 1] % 16 == 0 ? ":16" : "";
    if (p->kind == TKC_PARAM_DESCRIPTOR) {
      text_printf(&b, "tensordesc%s", divisible);
    } else if (x->block) {
      text_printf(&b, "tensordesc<%s[", tk_dtype_name(x->host.dtype));
      for (int axis = 0; axis < x->block_rank; axis++)
        text_printf(&b, "%s%lld", axis ? ", " : "", (long long)x->block_shape[axis]);
      text_printf(&b, "]>%s%s", divisible, x->pads_nan ? ":nan" : "");
    } else if (x->is_array)
      text_printf(&b, "*%s:16", tk_dtype_name(x->host.dtype));
    else if (x->scalar.kind == TK_ARG_FLOAT)
      text_str(&b, "f32");
    else if (x->scalar.dtype == TK_i1)
      text_str(&b, "i1");
    else
      text_printf(&b, "%s%s", v >= INT32_MIN && v <= INT32_MAX ? "i32" : "i64",
                  p->no_specialize ? ""
                  : v == 1         ? ":1"
                  : v % 16 == 0    ? ":16"
                                   : "");
  }
  return b.n ? b.at : NULL;
}

/* ---- compiling -------------------------------------------------------------------------------------------------- */

static tkc_session *open_session(run *r) {
  tkc_session *s = tkc_open();
  cr_assert_not_null(s);
  tkc_status status = tkc_load_text(s, r->path, r->text, r->len);
  cr_assert_eq(status, TKC_OK, "%s: status %d\n%s", r->what, (int)status, tkc_diagnostics(s, TKC_DIAG_TEXT, false));
  return s;
}

/* PTX for a target, in the test's arena. Warnings are as wrong as errors here, unless the file expects findings. */
static const char *compile(run *r, const char *arch) {
  tkc_session *s = open_session(r);
  tkc_options opt = r->opt;
  opt.arch = arch;
  tkc_output out;
  tkc_status status = tkc_compile(s, &opt, &out);
  const char *said = tkc_diagnostics(s, TKC_DIAG_TEXT, false);
  cr_assert_eq(status, TKC_OK, "%s: %s: status %d\n%s", r->what, arch, (int)status, said);
  const char *ptx = arena_copy(r->a, out.text, out.len + 1);
  tkc_close(s);
  return ptx;
}

static bool lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value) {
  run *r = user;
  if (argument_lookup(&r->args, name, member, index, value)) return true;
  for (int i = 0; !member && i < r->kernel->n_params; i++) {
    const tk_artifact_param *p = &r->kernel->params[i];
    bool number = p->value.kind == TK_CONSTANT_INT || p->value.kind == TK_CONSTANT_BOOL;
    if (p->kind != TK_PARAM_CONSTEXPR || !number || strcmp(p->name, name) != 0) continue;
    *value = p->value.i;
    return true;
  }
  return false;
}

/* The values of expressions that are separated by commas, at most `most`. */
static void evaluate(run *r, const char *what, const char *text, int64_t *out, int most) {
  int n = 0, depth = 0;
  const char *from = text;
  for (const char *p = text;; p++) {
    depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
    if (*p && !(*p == ',' && depth == 0)) continue;
    char message[512];
    cr_assert_lt(n, most, "%s: %s has more than %d axes", r->what, what, most);
    const char *one = arena_printf(r->a, "%.*s", (int)(p - from), from);
    bool good = tk_evaluate(one, lookup, r, &out[n++], message, sizeof message);
    cr_assert(good, "%s: %s %s: %s", r->what, what, text, message);
    if (!*p) break;
    from = p + 1;
  }
}

/* The metadata says which arguments a launch has, and what constexprs a grid may use. */
static void read_metadata(run *r, const char *ptx) {
  tk_artifact_error error;
  bool good = tk_artifact_parse(ptx, strlen(ptx), &r->artifact, &error);
  cr_assert(good, "%s: metadata %d:%d: %s", r->what, error.line, error.column, error.message);
  cr_assert_eq(r->artifact->n_kernels, 1, "%s: a run test has one kernel", r->what);
  r->kernel = &r->artifact->kernels[0];
  const char *text = r->grid_text ? r->grid_text : r->kernel->grid;
  cr_assert_not_null(text, "%s: no --grid, and the kernel states none", r->what);
  r->grid[0] = r->grid[1] = r->grid[2] = 1;
  evaluate(r, "the grid", text, r->grid, 3);
}

/* ---- executing -------------------------------------------------------------------------------------------------- */

static void print(void *user, const char *text, size_t len) { text_add(user, text, len); }

static results clone(run *r) {
  results out = {.at = ARENA_ARRAY(r->a, array, r->args.n + 1)};
  for (int i = 0; i < r->args.n; i++)
    if (r->args.at[i].is_array) out.at[i] = array_copy(&r->args.at[i].host);
  text_init(&r->printed, r->a);
  text_str(&r->printed, "");
  return out;
}

static void drop(run *r, results *x) {
  for (int i = 0; i < r->args.n; i++)
    if (r->args.at[i].is_array) array_free(&x->at[i]);
}

/* A scalar argument in the encoding of its parameter. */
static uint64_t encode(run *r, const argument *x, tk_dtype dtype) {
  int64_t one = 1;
  array box = {.dtype = dtype, .rank = 1, .shape = {one}, .numel = 1, .bytes = tk_dtype_bytes(dtype)};
  uint64_t bits = 0;
  bool is_float = dtype == TK_f8e4m3 || dtype == TK_f8e5m2 || dtype == TK_f16 || dtype == TK_bf16 || dtype == TK_f32 ||
                  dtype == TK_f64;
  cr_assert(!x->is_array, "%s: %s is an array, the kernel takes a scalar", r->what, x->name);
  if (is_float) {
    box.data = (unsigned char *)&bits;
    array_set(&box, 0, x->scalar.kind == TK_ARG_FLOAT ? x->scalar.v.f : (double)x->scalar.v.i);
    return bits;
  }
  cr_assert(x->scalar.kind == TK_ARG_INT, "%s: %s is a float, the kernel takes an integer", r->what, x->name);
  memcpy(&bits, &x->scalar.v.i, box.bytes); /* little endian: the low bytes */
  return bits;
}

static const argument *argument_of(run *r, const tk_artifact_param *p) {
  const argument *x = argument_named(&r->args, p->name);
  cr_assert_not_null(x, "%s: no --arg %s", r->what, p->name);
  bool wants_array = p->kind == TK_PARAM_POINTER || p->kind == TK_PARAM_DESCRIPTOR;
  cr_assert(!wants_array || x->is_array, "%s: %s must be an array", r->what, p->name);
  return x;
}

/* The values that one parameter of the source passes, where its array lies at `address`; how many they are. */
static int values_of(run *r, const tk_artifact_param *p, const argument *x, uint64_t address,
                     uint64_t out[2 * TK_MAX_DESCRIPTOR_RANK]) {
  out[0] = p->kind == TK_PARAM_SCALAR ? encode(r, x, p->dtype) : address;
  if (p->kind != TK_PARAM_DESCRIPTOR) return 1;
  const int64_t *shape = x->host.shape;
  int64_t stride = 1;
  cr_assert_eq(x->host.rank, p->rank, "%s: %s has %d axes, the kernel takes %d", r->what, p->name, x->host.rank,
               p->rank);
  for (int i = p->rank - 1; i >= 0; i--) {
    out[1 + i] = (uint64_t)shape[i];
    if (i < p->rank - 1) out[1 + p->rank + i] = (uint64_t)stride;
    stride *= shape[i];
  }
  return tk_artifact_n_passed(p);
}

/* The interpreter; `said` receives what it reports, one diagnostic a line. */
static tkc_status interpret(run *r, const char *pass, uint64_t order, results *out, const char **said) {
  *out = clone(r);
  VEC(tkc_buffer) buffers = {0};
  VEC(tkc_arg) args = {0};
  for (int i = 0; i < r->args.n; i++) {
    tkc_buffer b = {r->args.at[i].name, out->at[i].data, out->at[i].bytes};
    if (r->args.at[i].is_array) VEC_PUSH(r->a, buffers, b);
  }
  for (int i = 0; i < r->kernel->n_params; i++) {
    const tk_artifact_param *p = &r->kernel->params[i];
    if (!p->passed) continue;
    const argument *x = argument_of(r, p);
    uint64_t values[2 * TK_MAX_DESCRIPTOR_RANK];
    int n = values_of(r, p, x, (uint64_t)(uintptr_t)out->at[x - r->args.at].data, values);
    for (int k = 0; k < n; k++) {
      tkc_arg v = {.v.bits = values[k]};
      VEC_PUSH(r->a, args, v);
    }
  }
  tkc_session *s = open_session(r);
  tkc_options opt = r->opt;
  if (!opt.arch) opt.arch = "sm_80";
  const tkc_run_options how = {.after_pass = pass, .order_seed = order, .print = print, .user = &r->printed};
  tkc_status status = tkc_interpret(s, &opt, r->grid, buffers.at, buffers.n, args.at, args.n, &how);
  *said = arena_printf(r->a, "%s", tkc_diagnostics(s, TKC_DIAG_LINE, false));
  tkc_close(s);
  out->printed = r->printed.at;
  return status;
}

static results interpret_cleanly(run *r, const char *pass, uint64_t order) {
  results out;
  const char *said;
  tkc_status status = interpret(r, pass, order, &out, &said);
  cr_assert_eq(status, TKC_OK, "%s: interpreter%s%s%s: status %d\n%s", r->what, pass ? " after " : "", pass ? pass : "",
               order ? ", programs in another order" : "", (int)status, said);
  cr_assert_str_empty(said, "%s: unexpected\n%s", r->what, said);
  return out;
}

/* Leaves PTX that is wrong in a file for whoever looks into it, and says where. */
static const char *keep_ptx(run *r, const char *ptx, const char *arch) {
  const char *tmp = getenv("TMPDIR"), *base = strrchr(r->file->path, '/');
  const char *path = arena_printf(r->a, "%s/tkc_%s_%s.ptx", tmp ? tmp : "/tmp", base ? base + 1 : "run", arch);
  return test_write_file(path, ptx, strlen(ptx)) ? arena_printf(r->a, "The PTX is in %s\n", path) : "";
}

/* The tensor map that a launch makes; false: there is none of these arguments. */
static bool make_map(run *r, const tk_artifact_map *m, uint64_t address, unsigned char *out) {
  int64_t sizes[TK_MAX_RANK] = {0}, strides[TK_MAX_RANK] = {0};
  tk_dtype dtype = TK_NO_DTYPE;
  emu_tensor_map map = {.rank = (uint32_t)m->rank, .swizzle = (uint32_t)m->swizzle, .address = address};
  cr_assert(tk_artifact_map_dtype(m, &dtype, &map.is_tf32));
  map.elem_bytes = (uint32_t)tk_dtype_bytes(dtype);
  evaluate(r, "a tensor map", m->sizes, sizes, m->rank);
  evaluate(r, "a tensor map", m->strides, strides, m->rank);
  bool empty = false;
  for (int i = 0; i < m->rank; i++) {
    empty |= sizes[i] == 0;
    map.dims[i] = (uint64_t)sizes[i];
    map.box[i] = (uint32_t)m->box[i];
    if (i) map.strides[i - 1] = (uint64_t)strides[i] * map.elem_bytes;
  }
  return !empty && emu_tensor_map_encode(&map, out);
}

/* False, and nothing is executed, if a tensor map cannot be made. counted: a persistent kernel is told how many turns
   there are; else it has a block for each program. */
static bool emulate(run *r, const char *ptx, const char *arch, bool counted, results *result) {
  results out = clone(r);
  tk_artifact *artifact;
  tk_artifact_error bad;
  cr_assert(tk_artifact_parse(ptx, strlen(ptx), &artifact, &bad), "%s: %s: %s", r->what, arch, bad.message);
  const tk_artifact_kernel *k = tk_artifact_find(artifact, r->kernel->name);
  emu_error error;
  emu_module *m = emu_parse(ptx, strlen(ptx), &error);
  cr_assert_not_null(m, "%s: %s: the emulator cannot read line %u: %s", r->what, arch, (unsigned)error.line,
                     error.text);
  emu_machine *machine = emu_machine_new();
  const emu_kernel *entry = emu_module_kernel(m, k->name);
  cr_assert(machine && entry, "%s: %s: no entry '%s' in the PTX", r->what, arch, k->name);
  uint64_t *addresses = ARENA_ARRAY(r->a, uint64_t, r->args.n + 1);
  for (int i = 0; i < r->args.n; i++) {
    if (!r->args.at[i].is_array || r->args.at[i].host.bytes == 0) continue;
    bool good = emu_map(machine, out.at[i].data, out.at[i].bytes, r->args.at[i].name, 0, &addresses[i]);
    cr_assert(good, "%s: %s cannot be mapped", r->what, r->args.at[i].name);
  }
  unsigned char *params = ARENA_ARRAY(r->a, unsigned char, entry->params_size + 1);
  uint32_t n = 0;
  for (int i = 0; i < k->n_params; i++) {
    const tk_artifact_param *p = &k->params[i];
    if (!p->passed) continue;
    const argument *x = argument_of(r, p);
    uint64_t values[2 * TK_MAX_DESCRIPTOR_RANK];
    int count = values_of(r, p, x, addresses[x - r->args.at], values);
    for (int j = 0; j < count; j++, n++) {
      cr_assert_lt(n, entry->nparams, "%s: %s: the entry has too few parameters", r->what, arch);
      memcpy(params + entry->params[n].offset, &values[j], entry->params[n].size);
    }
  }
  bool fit = true;
  for (int i = 0; i < k->n_maps; i++) {
    cr_assert_lt(n, entry->nparams, "%s: %s: the entry has too few parameters", r->what, arch);
    fit &= make_map(r, &k->maps[i], addresses[argument_named(&r->args, k->maps[i].param) - r->args.at],
                    params + entry->params[n++].offset);
  }
  enum { BLOCKS = 2 }; /* of a persistent kernel, where it has more programs */
  uint32_t grid[] = {(uint32_t)r->grid[0], (uint32_t)r->grid[1], (uint32_t)r->grid[2]}, counter = 0;
  uint32_t gang = (uint32_t)k->gang;
  tk__programs programs = {.grid = {grid[0], grid[1], grid[2]},
                           .turns = (grid[0] + gang - 1) / gang * grid[1] * grid[2]};
  bool draws = counted && k->persistent && programs.turns > BLOCKS, shares = draws || (counted && gang > 1);
  if (draws) cr_assert(emu_map(machine, &counter, sizeof counter, "counter", 0, &programs.counter));
  if (shares) {
    grid[0] = draws ? BLOCKS : programs.turns;
    grid[1] = grid[2] = 1;
  }
  if (k->persistent) {
    cr_assert_lt(n, entry->nparams, "%s: %s: the entry has too few parameters", r->what, arch);
    if (shares) memcpy(params + entry->params[n].offset, &programs, sizeof programs);
    n++;
  }
  cr_assert_eq(n, entry->nparams, "%s: %s: the entry has %u parameters, the metadata passes %u", r->what, arch,
               (unsigned)entry->nparams, (unsigned)n);
  const emu_launch_options o = {.grid = {grid[0], grid[1], grid[2]},
                                .block = {(uint32_t)tk_artifact_threads(k), 1, 1},
                                .dynamic_shared = (uint32_t)k->dynamic_shared_bytes,
                                .params = params,
                                .params_size = entry->params_size,
                                .print = print,
                                .user = &r->printed};
  static emu_report report;
  emu_status status = fit ? emu_launch(machine, m, entry, &o, &report) : EMU_OK;
  cr_assert_eq(status, EMU_OK, "%s: %s: emulator: %s\n%s\n%s", r->what, arch, emu_status_text(status), report.text,
               ptx);
  cr_assert_eq(counter, 0, "%s: %s: the counter of programs is left at %u", r->what, arch, (unsigned)counter);
  emu_machine_free(machine);
  emu_module_free(m);
  tk_artifact_free(artifact);
  out.printed = r->printed.at;
  *result = out;
  if (!fit) drop(r, &out);
  return fit;
}

/* As a launch does: compiled again if tensor maps cannot be made of the arguments. */
static results launch(run *r, const char *ptx, const char *arch) {
  const char *wanted = test_option_get(r->file, "tensor_maps", "");
  bool copies = strstr(ptx, "cp.async.bulk.tensor") != NULL;
  if (*wanted && !strcmp(arch, "sm_90a")) cr_assert(copies, "%s: no copies through tensor maps\n%s", r->what, ptx);
  results out;
  bool fit = emulate(r, ptx, arch, true, &out);
  cr_assert_eq(!fit, copies && !strcmp(wanted, "refused"), "%s: the tensor maps %s the arguments", r->what,
               fit ? "fit" : "do not fit");
  if (fit) return out;
  r->opt.no_tensor_maps = true;
  emulate(r, compile(r, arch), arch, true, &out);
  r->opt.no_tensor_maps = false;
  return out;
}

/* ---- judging ---------------------------------------------------------------------------------------------------- */

static double tolerance_of(run *r, tk_dtype dtype) {
  const char *given = test_option_get(r->file, "tolerance", NULL);
  double t = array_tolerance(dtype);
  return given && t > 0 ? strtod(given, NULL) : t;
}

static void close_to(run *r, const char *who, const results *want, const results *got) {
  for (int i = 0; i < r->args.n; i++) {
    if (!r->args.at[i].is_array) continue;
    size_t at = 0;
    double d = array_distance(&got->at[i], &want->at[i], &at), limit = tolerance_of(r, want->at[i].dtype);
    cr_assert(d <= limit, "%s: %s: %s[%zu] is %.9g, wanted %.9g (difference %.3g, allowed %.3g)", r->what, who,
              r->args.at[i].name, at, array_get(&got->at[i], at), array_get(&want->at[i], at), d, limit);
  }
}

static void same_bits(run *r, const char *who, const results *want, const results *got) {
  for (int i = 0; i < r->args.n; i++) {
    if (!r->args.at[i].is_array || !memcmp(want->at[i].data, got->at[i].data, want->at[i].bytes)) continue;
    const array *w = &want->at[i], *g = &got->at[i];
    size_t size = tk_dtype_bytes(w->dtype), at = 0;
    while (!memcmp(w->data + at * size, g->data + at * size, size)) at++;
    cr_assert_fail("%s: %s: %s[%zu] is %.17g, and was %.17g before the passes", r->what, who, r->args.at[i].name, at,
                   array_get(g, at), array_get(w, at));
  }
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static const char *sorted_lines(arena *a, const char *text) {
  VEC(const char *) lines = {0};
  for (const char *s = text; *s;) {
    size_t n = strcspn(s, "\n");
    const char *line = arena_printf(a, "%.*s", (int)n, s);
    VEC_PUSH(a, lines, line);
    s += n + (s[n] != 0);
  }
  if (lines.n) qsort(lines.at, (size_t)lines.n, sizeof lines.at[0], by_text);
  textbuf b;
  text_init(&b, a);
  text_str(&b, "");
  for (int i = 0; i < lines.n; i++) text_printf(&b, "%s\n", lines.at[i]);
  return b.at;
}

static void same_prints(run *r, const char *who, const results *want, const results *got) {
  if (strcmp(test_option_get(r->file, "prints", "no"), "yes") != 0) return;
  const char *why = test_diff(r->a, r->what, sorted_lines(r->a, want->printed), sorted_lines(r->a, got->printed));
  cr_assert_null(why, "%s prints something else: %s", who, why);
  cr_assert_str_not_empty(want->printed, "%s: nothing was printed", r->what);
}

/* `# expect: out = 1 2.5 inf` */
static void check_expected(run *r, const char *text, const results *got) {
  int n;
  const char **w = test_words(r->a, text, &n);
  cr_assert(n > 2 && !strcmp(w[1], "="), "%s: expect: NAME = VALUES", r->what);
  const argument *x = argument_named(&r->args, w[0]);
  cr_assert(x && x->is_array, "%s: expect: no array is called %s", r->what, w[0]);
  const array *a = &got->at[x - r->args.at];
  cr_assert_leq((size_t)(n - 2), a->numel, "%s: expect: %s has only %zu elements", r->what, w[0], a->numel);
  array want = array_copy(a), head = *a;
  head.rank = want.rank = 1;
  head.shape[0] = want.shape[0] = n - 2;
  head.numel = want.numel = (size_t)(n - 2);
  for (int i = 2; i < n; i++) array_set(&want, (size_t)(i - 2), strtod(w[i], NULL));
  size_t at = 0;
  double d = array_distance(&head, &want, &at);
  cr_assert(d <= tolerance_of(r, a->dtype), "%s: %s[%zu] is %.9g, expected %.9g", r->what, w[0], at,
            array_get(&head, at), array_get(&want, at));
  array_free(&want);
}

static void check_reference(run *r, const char *name, const results *got) {
  reference_fn f = reference_named(name);
  cr_assert_not_null(f, "%s: no reference is called '%s'", r->what, name);
  argument_list l = r->args;
  results want = clone(r);
  l.at = ARENA_ARRAY(r->a, argument, l.n + 1);
  for (int i = 0; i < l.n; i++) {
    l.at[i] = r->args.at[i];
    l.at[i].host = want.at[i];
  }
  cr_assert(f(&l), "%s: reference %s: an argument is missing, or has another rank", r->what, name);
  close_to(r, arena_printf(r->a, "reference %s", name), &want, got);
  drop(r, &want);
}

static void expect_findings(run *r) {
  results out;
  const char *said;
  interpret(r, NULL, 0, &out, &said);
  const char *why = test_expect_diags(r->a, r->file->path, r->file->text, said);
  cr_assert_null(why, "%s", why);
  drop(r, &out);
}

/* Targets whose every stage is executed; for the others the assembler must be content. */
static bool in_full(const char *target) { return !strcmp(target, "sm_80") || !strcmp(target, "sm_90a"); }

static void one_run(arena *a, const test_file *f, int number, const char *text) {
  run r = {.a = a,
           .file = f,
           .path = f->path,
           .text = f->text,
           .len = f->len,
           .what = arena_printf(a, "%s, run %d", f->path, number),
           .opt = {.verify = true}};
  const char *source = test_option_get(f, "source", NULL);
  if (source) {
    r.path = source;
    r.text = test_read_file(a, source, &r.len);
    cr_assert_not_null(r.text, "%s: %s cannot be read", f->path, source);
  }
  for (int i = 0; i < f->options.n; i++)
    if (!strcmp(f->options.at[i].word, "with")) parse(&r, f->options.at[i].value);
  parse(&r, text);
  make_arguments(&r);
  tkc_session *s = open_session(&r);
  cr_assert_eq(tkc_n_kernels(s), 1, "%s: a run test has one kernel", r.what);
  if (!r.opt.signature) r.opt.signature = infer_signature(&r, tkc_kernel_at(s, 0));
  if (r.opt.signature) r.opt.signature = arena_printf(a, "%s", r.opt.signature);
  tkc_close(s);

  const char *ptx = compile(&r, "sm_80");
  read_metadata(&r, ptx);
  if (strstr(f->text, "#!")) {
    expect_findings(&r);
  } else {
    results first = interpret_cleanly(&r, NULL, 0);
    for (int i = 0; i < f->options.n; i++)
      if (!strcmp(f->options.at[i].word, "expect")) check_expected(&r, f->options.at[i].value, &first);
    const char *reference = test_option_get(f, "reference", NULL);
    if (reference) check_reference(&r, reference, &first);
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
      if (!in_full(targets[t])) continue;
      r.opt.arch = targets[t];
      for (int p = 0; tkc_pass_name(p); p++) {
        results now = interpret_cleanly(&r, tkc_pass_name(p), 0);
        const char *who = arena_printf(a, "%s, after %s", targets[t], tkc_pass_name(p));
        same_bits(&r, who, &first, &now);
        same_prints(&r, who, &first, &now);
        drop(&r, &now);
      }
    }
    r.opt.arch = NULL;
    results shuffled = interpret_cleanly(&r, NULL, 7);
    close_to(&r, "programs in another order", &first, &shuffled);
    drop(&r, &shuffled);
    for (size_t t = 0; t < sizeof targets / sizeof targets[0]; t++) {
      bool emulated = in_full(targets[t]);
      if (!emulated && (number > 1 || !test_has_ptxas())) continue;
      ptx = compile(&r, targets[t]);
      bool spills = !strcmp(test_option_get(f, "spills", "no"), "yes");
      const char *refused = (spills ? test_ptxas : test_ptxas_clean)(a, ptx, targets[t]);
      cr_assert_null(refused, "%s: %s\n%s", r.what, refused, refused ? keep_ptx(&r, ptx, targets[t]) : "");
      if (!emulated || !strcmp(test_option_get(f, "emulator", "yes"), "no")) continue;
      results now = launch(&r, ptx, targets[t]);
      close_to(&r, arena_printf(a, "emulator, %s", targets[t]), &first, &now);
      same_prints(&r, targets[t], &first, &now);
      drop(&r, &now);
      if (!strstr(ptx, "\"gang\":")) continue;
      if (!emulate(&r, ptx, targets[t], false, &now)) continue;
      close_to(&r, arena_printf(a, "emulator, %s, a block for each program", targets[t]), &first, &now);
      drop(&r, &now);
    }
    drop(&r, &first);
  }
  tk_artifact_free(r.artifact);
  argument_free(&r.args);
}

static void run_tk(const char *path) {
  arena *a = arena_new();
  const char *problem = NULL;
  test_file *f = test_file_read(a, path, words, &problem);
  cr_assert_not_null(f, "%s", problem);
  int n = 0;
  for (int i = 0; i < f->options.n; i++)
    if (!strcmp(f->options.at[i].word, "run")) one_run(a, f, ++n, f->options.at[i].value);
  cr_assert_gt(n, 0, "%s: no `# run:` line", path);
  arena_free(a);
}

#define RUN_CASE(name) \
  Test(run, name, .timeout = 300) { run_tk("tests/run/" #name ".tk"); }
#include TEST_CASES
