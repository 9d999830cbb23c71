/* tkc FILE: compile, and write one of the forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/tkc.h"
#include "tools/cli.h"

typedef struct command {
  const char *input, *output;
  bool cubin;
  tkc_diag_style style;
  tkc_options opt;
  cli_list defines, warnings;
} command;

static int parse_emit(command *c, const char *v) {
  static const struct {
    const char *name;
    tkc_emit emit;
    bool cubin;
  } forms[] = {{"ptx", TKC_EMIT_PTX, false},
               {"llvm", TKC_EMIT_LLVM, false},
               {"tile", TKC_EMIT_TILE, false},
               {"ast", TKC_EMIT_AST, false},
               {"cubin", TKC_EMIT_PTX, true}};
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
    if (!strcmp(v, forms[i].name)) {
      c->opt.emit = forms[i].emit;
      c->cubin = forms[i].cubin;
      return EXIT_RIGHT;
    }
  return cli_usage("--emit takes ptx, llvm, tile, ast or cubin, not '%s'", v);
}

static int parse_style(command *c, const char *v) {
  static const char *const names[] = {"text", "line", "json"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(v, names[i])) {
      c->style = (tkc_diag_style)i;
      return EXIT_RIGHT;
    }
  return cli_usage("--diagnostics takes text, line or json, not '%s'", v);
}

static int parse_ptx_version(command *c, const char *v) {
  if (v[0] >= '1' && v[0] <= '9' && v[1] == '.' && v[2] >= '0' && v[2] <= '9' && !v[3]) {
    c->opt.ptx_version = 10 * (v[0] - '0') + (v[2] - '0');
    return EXIT_RIGHT;
  }
  return cli_usage("--ptx-version takes a version like 8.3, not '%s'", v);
}

static int parse(command *c, int argc, char **argv) {
  cli_args a = {.argc = argc, .argv = argv};
  int bad = EXIT_RIGHT;
  while (a.at < argc && !bad && !a.wrong) {
    tkc_options *o = &c->opt;
    if (cli_option(&a, "-o") || cli_option(&a, "--output"))
      c->output = a.value;
    else if (cli_option(&a, "--kernel"))
      o->kernel = a.value;
    else if (cli_option(&a, "-D"))
      cli_push(&c->defines, a.value);
    else if (cli_option(&a, "--signature"))
      o->signature = a.value;
    else if (cli_option(&a, "--arch"))
      o->arch = a.value;
    else if (cli_option(&a, "--emit"))
      bad = parse_emit(c, a.value);
    else if (cli_option(&a, "--diagnostics"))
      bad = parse_style(c, a.value);
    else if (cli_option(&a, "--dump-after"))
      o->dump_after = a.value;
    else if (cli_option(&a, "--stop-after"))
      o->stop_after = a.value;
    else if (cli_option(&a, "--ptx-version"))
      bad = parse_ptx_version(c, a.value);
    else if (cli_flag(&a, "--time-passes"))
      o->time_passes = true;
    else if (cli_flag(&a, "--resource-usage"))
      o->resource_usage = true;
    else if (cli_flag(&a, "--verify"))
      o->verify = true;
    else if (cli_flag(&a, "--debug"))
      o->debug = true;
    else if (cli_flag(&a, "--no-line-info"))
      o->no_line_info = true;
    else if (cli_flag(&a, "--no-tensor-maps"))
      o->no_tensor_maps = true;
    else if (cli_flag(&a, "--no-gang"))
      o->no_gang = true;
    else if (cli_flag(&a, "-Werror"))
      o->warnings_error = true;
    else if (cli_option(&a, "-W"))
      cli_push(&c->warnings, a.value);
    else if (cli_option(&a, "--num-warps")) {
      if (!cli_int(a.value, 1, 32, &o->num_warps)) bad = cli_usage("--num-warps takes 1 to 32, not '%s'", a.value);
    } else if (cli_option(&a, "--num-stages")) {
      if (!cli_int(a.value, 1, 16, &o->num_stages)) bad = cli_usage("--num-stages takes 1 to 16, not '%s'", a.value);
    } else if (argv[a.at][0] == '-' && argv[a.at][1])
      bad = cli_usage("unknown option '%s'", argv[a.at]);
    else if (c->input)
      bad = cli_usage("one file at a time: '%s' and '%s'", c->input, argv[a.at]);
    else
      c->input = argv[a.at++];
  }
  if (a.wrong) return EXIT_USAGE;
  if (bad) return bad;
  if (!c->input) return cli_usage("no file to compile");
  if (c->opt.stop_after && c->opt.emit != TKC_EMIT_TILE) return cli_usage("--stop-after goes with --emit tile");
  if (!c->output) return cli_usage("say where to write: -o FILE, or -o - for stdout");
  c->opt.defines = c->defines.at;
  c->opt.n_defines = c->defines.n;
  c->opt.warnings = c->warnings.at;
  c->opt.n_warnings = c->warnings.n;
  return EXIT_RIGHT;
}

enum { NO_PTXAS = 127 };

/* Starts ptxas on PTX from its stdin; what it says goes to `log`, or where this program's errors go if that is
   negative. Returns its exit status, NO_PTXAS if it is not installed, -1 if it could not be run. */
static int ptxas(const char *ptx, size_t len, const char *arch, const char *output, int log) {
  char target[64];
  snprintf(target, sizeof target, "-arch=%s", arch);
  int ends[2];
  if (pipe(ends) != 0) return -1;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], 0);
    close(ends[0]);
    close(ends[1]);
    if (log >= 0) {
      dup2(log, 1);
      dup2(log, 2);
    }
    char *argv[] = {"ptxas", target, "-lineinfo", "-o", (char *)output, "-", log >= 0 ? "-v" : NULL, NULL};
    execvp("ptxas", argv);
    execv("/usr/local/cuda/bin/ptxas", argv);
    _exit(NO_PTXAS);
  }
  close(ends[0]);
  bool sent = child > 0;
  for (size_t at = 0; sent && at < len;) {
    ssize_t k = write(ends[1], ptx + at, len - at);
    sent = k > 0;
    at += sent ? (size_t)k : 0;
  }
  close(ends[1]);
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

/* The rest of a file; NULL if there is no memory for it. free() it. */
static char *read_back(FILE *f) {
  size_t n = 0, cap = 1 << 14;
  char *text = malloc(cap + 1);
  rewind(f);
  for (size_t got; text && (got = fread(text + n, 1, cap - n, f)) > 0;) {
    n += got;
    if (n < cap) continue;
    char *grown = realloc(text, 2 * cap + 1);
    if (!grown) free(text);
    text = grown;
    cap *= 2;
  }
  if (text) text[n] = 0;
  return text;
}

/* PTX to a cubin, or for a report only (no output). The cubin is written beside its place and renamed. */
static int assemble(const command *c, tkc_session *s, const tkc_output *ptx) {
  const char *arch = c->opt.arch ? c->opt.arch : "sm_80";
  if (c->cubin && !strcmp(c->output, "-")) return cli_usage("--emit cubin writes a file: -o FILE");
  cli_output o;
  if (c->cubin && !cli_output_begin(&o, c->output)) return EXIT_WRONG;
  FILE *log = c->opt.resource_usage ? tmpfile() : NULL;
  int status = ptxas(ptx->text, ptx->len, arch, c->cubin ? o.beside : "/dev/null", log ? fileno(log) : -1),
      result = EXIT_RIGHT;
  char *said = log ? read_back(log) : NULL;
  if (log) fclose(log);
  if (c->opt.resource_usage) fputs(tkc_report(s, status == 0 ? said : NULL), stderr);
  if (status != 0 && status != NO_PTXAS && said) fputs(said, stderr);
  if (c->cubin) {
    result = EXIT_WRONG;
    if (status == NO_PTXAS)
      cli_say("--emit cubin needs ptxas (CUDA toolkit), which is not in PATH");
    else if (status != 0)
      cli_say("ptxas does not accept the PTX: this is a bug of tkc"), result = EXIT_BUG;
    else
      result = EXIT_RIGHT;
    if (!cli_output_end(&o, result == EXIT_RIGHT, 0) && result == EXIT_RIGHT) result = EXIT_WRONG;
  }
  free(said);
  return result;
}

static int emit(command *c, tkc_session *s) {
  tkc_output out;
  tkc_status st = tkc_load_file(s, c->input);
  if (st == TKC_OK) st = tkc_compile(s, &c->opt, &out);
  fputs(tkc_static_prints(s), stdout);
  fputs(tkc_dump(s), stderr);
  fputs(tkc_diagnostics(s, c->style, c->style == TKC_DIAG_TEXT && isatty(2)), stderr);
  if (st != TKC_OK) return (int)st;
  if (c->cubin) return assemble(c, s, &out);
  if (c->opt.resource_usage) {
    if (c->opt.emit == TKC_EMIT_PTX)
      assemble(c, s, &out);
    else
      fputs(tkc_report(s, NULL), stderr);
  }
  return cli_write(c->output, out.text, out.len) ? EXIT_RIGHT : EXIT_WRONG;
}

int cli_compile(int argc, char **argv) {
  command c = {0};
  int bad = parse(&c, argc, argv);
  if (!bad && c.opt.arch && !strcmp(c.opt.arch, "native")) {
    c.opt.arch = cli_native_arch();
    if (!c.opt.arch) bad = EXIT_DEVICE;
  }
  if (!bad) {
    tkc_session *s = tkc_open();
    if (!s) {
      cli_say("out of memory");
      return EXIT_WRONG;
    }
    bad = emit(&c, s);
    tkc_close(s);
  }
  free(c.defines.at);
  free(c.warnings.at);
  return bad;
}
