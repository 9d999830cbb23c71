/* Panics: leaving tkc's own bugs and exhausted memory without exiting the process.
 *
 * Guards form a stack per thread, linked through the callers' frames. A panic unlinks its guard before it jumps, so
 * that a panic inside the handler reaches the next guard out instead of jumping to the same place for ever;
 * base_guard_pop is therefore allowed to find its guard already gone. */
#include "compiler/base/base.h"

#include <stdlib.h>

static _Thread_local base_guard *innermost;

void base_guard_push(base_guard *g) {
  g->outer = innermost;
  g->message[0] = '\0';
  innermost = g;
}

void base_guard_pop(base_guard *g) {
  if (innermost == g) innermost = g->outer;
}

_Noreturn void base_panic(const char *fmt, ...) {
  base_guard *g = innermost;
  va_list ap;
  va_start(ap, fmt);
  if (!g) {
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
  }
  vsnprintf(g->message, sizeof g->message, fmt, ap);
  va_end(ap);
  innermost = g->outer;
  longjmp(g->jump, 1);
}
