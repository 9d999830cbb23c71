/* cli: options, files, messages. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "tools/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/tk.h"

void cli_say(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("tkc: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputc('\n', stderr);
  va_end(ap);
}

int cli_usage(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fputs("tkc: ", stderr);
  vfprintf(stderr, fmt, ap);
  fputs(" (tkc --help)\n", stderr);
  va_end(ap);
  return EXIT_USAGE;
}

bool cli_flag(cli_args *a, const char *name) {
  if (a->at >= a->argc || strcmp(a->argv[a->at], name)) return false;
  a->at++;
  return true;
}

bool cli_option(cli_args *a, const char *name) {
  if (a->at >= a->argc) return false;
  const char *arg = a->argv[a->at];
  size_t n = strlen(name);
  if (strncmp(arg, name, n)) return false;
  bool letter = n == 2;
  if (arg[n] == '=' && !letter) {
    a->value = arg + n + 1;
  } else if (arg[n] && letter) {
    a->value = arg + n;
  } else if (arg[n]) {
    return false;
  } else if (a->at + 1 < a->argc) {
    a->value = a->argv[++a->at];
  } else {
    cli_usage("%s needs a value", name);
    a->wrong = true;
    a->value = "";
  }
  a->at++;
  return true;
}

void *cli_alloc(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p) {
    cli_say("out of memory (%zu bytes)", bytes);
    exit(EXIT_WRONG);
  }
  return p;
}

void cli_push(cli_list *l, const char *s) {
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 8;
    const char **at = cli_alloc(sizeof *at * (size_t)cap);
    if (l->n) memcpy(at, l->at, sizeof *at * (size_t)l->n);
    free(l->at);
    l->at = at;
    l->cap = cap;
  }
  l->at[l->n++] = s;
}

bool cli_int(const char *text, int lo, int hi, int *out) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (errno || end == text || *end || v < lo || v > hi) return false;
  *out = (int)v;
  return true;
}

bool cli_output_begin(cli_output *o, const char *path) {
  struct stat st;
  bool exists = stat(path, &st) == 0;
  char *target = exists ? realpath(path, NULL) : NULL;
  size_t n = strlen(target ? target : path) + 32;
  o->named = path;
  o->path = o->beside = cli_alloc(n);
  snprintf(o->path, n, "%s", target ? target : path);
  free(target);
  if (exists && (S_ISDIR(st.st_mode) || access(path, W_OK) != 0))
    return cli_output_end(o, false, S_ISDIR(st.st_mode) ? EISDIR : errno);
  if (exists && !S_ISREG(st.st_mode)) return true;
  o->beside = cli_alloc(n);
  snprintf(o->beside, n, "%s.%ld.tmp", o->path, (long)getpid());
  FILE *f = fopen(o->beside, "wb");
  if (!f) return cli_output_end(o, false, errno);
  fclose(f);
  return true;
}

bool cli_output_end(cli_output *o, bool ok, int why) {
  if (o->beside != o->path) {
    if (ok && rename(o->beside, o->path) != 0) ok = false, why = errno;
    if (!ok) remove(o->beside);
    free(o->beside);
  }
  if (!ok && why) cli_say("cannot write %s: %s", o->named, strerror(why));
  free(o->path);
  return ok;
}

bool cli_write(const char *path, const void *data, size_t len) {
  if (!strcmp(path, "-")) {
    if (fwrite(data, 1, len, stdout) == len && fflush(stdout) == 0) return true;
    cli_say("cannot write to stdout: %s", strerror(errno));
    return false;
  }
  cli_output o;
  if (!cli_output_begin(&o, path)) return false;
  FILE *f = fopen(o.beside, "wb");
  bool ok = f && fwrite(data, 1, len, f) == len;
  int why = errno;
  if (f && fclose(f) != 0 && ok) ok = false, why = errno;
  return cli_output_end(&o, ok, why);
}

char *cli_read(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = NULL;
  size_t n = 0, cap = 0, got;
  int why = 0;
  do {
    if (cap - n < 65537) {
      cap = cap ? 2 * cap : 1 << 17;
      char *grown = cap <= (size_t)1 << 33 ? realloc(text, cap) : NULL;
      if (!grown) {
        why = cap <= (size_t)1 << 33 ? ENOMEM : EFBIG;
        break;
      }
      text = grown;
    }
    got = fread(text + n, 1, 65536, f);
    n += got;
    if (got == 0 && ferror(f)) why = errno;
  } while (got);
  fclose(f);
  if (why) {
    free(text);
    errno = why;
    return NULL;
  }
  text[n] = 0;
  *len = n;
  return text;
}

const char *cli_native_arch(void) {
  tk_info *info = NULL;
  static char arch[32]; /* the program's own answer, asked for once */
  arch[0] = 0;
  if (tk_info_get(NULL, &info) == TK_OK && info->n_devices > 0)
    snprintf(arch, sizeof arch, "%s", info->devices[0].arch);
  else
    cli_say("--arch native: %s", info && info->problem[0] ? info->problem : "there is no GPU");
  tk_info_free(info);
  return arch[0] ? arch : NULL;
}
