/* context: opening and closing a device, and the texts of failures.
 *
 * A failure's text belongs to the thread that failed, so that threads which share a context do not overwrite each
 * other's. The library has no thread-local variables (they would be global state); a context keeps a short list of
 * texts, one for each thread that ever failed on it, found by thread id. The obvious single buffer per context would
 * let tk_error hand out a string that another thread is about to free. Nothing here is on the path of a launch that
 * succeeds. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static tk__error *error_of_thread(tk_context *cx, bool make) {
  pthread_t self = pthread_self();
  tk__error *e = cx->errors;
  while (e && !pthread_equal(e->thread, self)) e = e->next;
  if (!e && make) {
    e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->thread = self;
    e->next = cx->errors;
    cx->errors = e;
  }
  return e;
}

/* "<status text>: <message>. <advice>", malloc'd */
static char *compose(tk_status status, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  const char *text = tk_status_text(status), *advice = tk_status_advice(status);
  size_t room = strlen(text) + strlen(advice) + (size_t)(n < 0 ? 0 : n) + 8;
  char *out = malloc(room);
  if (!out) return NULL;
  int at = snprintf(out, room, "%s: ", text);
  int m = vsnprintf(out + at, room - (size_t)at, fmt, ap);
  size_t end = (size_t)at + (size_t)(m < 0 ? 0 : m);
  while (end > 0 && (out[end - 1] == '\n' || out[end - 1] == ' ')) end--;
  bool closed = end > 0 && out[end - 1] == '.';
  snprintf(out + end, room - end, "%s%s%s", closed || !*advice ? "" : ".", !closed && *advice ? " " : "",
           closed ? "" : advice);
  return out;
}

tk_status tk__fail(const tk_context *cx, tk_status status, const char *fmt, ...) {
  tk_context *at = (tk_context *)cx; /* the text of a failure is no part of what a const handle promises */
  va_list ap;
  va_start(ap, fmt);
  char *text = compose(status, fmt, ap);
  va_end(ap);
  pthread_mutex_lock(&at->lock);
  tk__error *e = error_of_thread(at, true);
  if (e) {
    free(e->text);
    e->text = text;
    e->status = status;
  } else {
    free(text);
  }
  pthread_mutex_unlock(&at->lock);
  return status;
}

tk_status tk__no_memory(const tk_context *cx) { return tk__fail(cx, TK_OUT_OF_HOST_MEMORY, "an allocation failed"); }

const char *tk_error(const tk_context *cx) {
  if (!cx) return "out of host memory: there is no context";
  tk_context *at = (tk_context *)cx;
  pthread_mutex_lock(&at->lock);
  const tk__error *e = error_of_thread(at, false);
  const char *text = !e ? "" : e->text ? e->text : tk_status_text(e->status);
  pthread_mutex_unlock(&at->lock);
  return text;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* "cuda" and "cuda:N" */
static bool cuda_ordinal(const char *device, int *out) {
  if (strcmp(device, "cuda") == 0) {
    *out = 0;
    return true;
  }
  if (strncmp(device, "cuda:", 5) != 0 || !device[5] || strlen(device) > 9) return false;
  if (strspn(device + 5, "0123456789") != strlen(device + 5)) return false;
  *out = atoi(device + 5);
  return true;
}

static tk_status open_device(tk_context *cx, const tk_options *o) {
  const char *device = o->device ? o->device : "auto";
  int ordinal;
  if (o->cuda_context) return tk__cuda_open(cx, o, -1);
  if (strcmp(device, "cpu") == 0) {
    if (o->cuda_stream) return tk__fail(cx, TK_INVALID_ARGUMENT, "cuda_stream is of no use on the CPU");
    return tk__cpu_open(cx);
  }
  if (cuda_ordinal(device, &ordinal)) return tk__cuda_open(cx, o, ordinal);
  if (strcmp(device, "auto") != 0) return tk__fail(cx, TK_BAD_DEVICE, "'%.40s'", device);
  tk_status s = tk__cuda_open(cx, o, 0);
  if (s == TK_OK || o->cuda_stream) return s;
  snprintf(cx->fallback, sizeof cx->fallback, "%s", tk_error(cx));
  return tk__cpu_open(cx);
}

tk_status tk_context_open_version(tk_context **out, const tk_options *options, int version, size_t options_size) {
  static const tk_options defaults = {0};
  if (!out) return TK_INVALID_ARGUMENT;
  *out = NULL;
  tk_context *cx = calloc(1, sizeof *cx);
  if (!cx) return TK_OUT_OF_HOST_MEMORY;
  if (pthread_mutex_init(&cx->lock, NULL) != 0) {
    free(cx);
    return TK_OUT_OF_HOST_MEMORY;
  }
  *out = cx;
  if (version != TK_VERSION || options_size != sizeof(tk_options))
    return tk__fail(cx, TK_VERSION_MISMATCH, "the program was compiled for version %d.%d, the library is %d.%d",
                    version / 100, version % 100, TK_VERSION_MAJOR, TK_VERSION_MINOR);
  if (!options) options = &defaults;
  cx->compiler = options->compiler;
  cx->print = options->print;
  cx->print_user = options->print_user;
  tk_status s = open_device(cx, options);
  if (s != TK_OK) cx->ops = NULL;
  return s;
}

tk_status tk_context_close(tk_context *cx) {
  if (!cx) return TK_OK;
  const struct {
    atomic_int *n;
    const char *what;
  } open[] = {{&cx->n_prepared, "prepared launch"}, {&cx->n_modules, "module"}, {&cx->n_buffers, "buffer"},
              {&cx->n_pinned, "pinned block"},      {&cx->n_events, "event"},   {&cx->n_streams, "stream"}};
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
    int n = atomic_load(open[i].n);
    if (n) return tk__fail(cx, TK_IN_USE, "%d %s%s", n, open[i].what, n == 1 ? "" : "s");
  }
  if (cx->ops) cx->ops->close(cx);
  for (tk__error *e = cx->errors, *next; e; e = next) {
    next = e->next;
    free(e->text);
    free(e);
  }
  pthread_mutex_destroy(&cx->lock);
  free(cx);
  return TK_OK;
}

const char *tk_context_device(const tk_context *cx) { return cx ? cx->name : ""; }
const char *tk_context_fallback(const tk_context *cx) { return cx ? cx->fallback : ""; }
const char *tk_context_arch(const tk_context *cx) { return cx ? cx->arch : ""; }

tk_status tk_synchronize(tk_context *cx) {
  if (!cx || !cx->ops) return TK_INVALID_ARGUMENT;
  return cx->ops->synchronize(cx);
}
