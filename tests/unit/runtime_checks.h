/* Assertions about calls of the runtime. */
#ifndef TESTS_UNIT_RUNTIME_CHECKS_H
#define TESTS_UNIT_RUNTIME_CHECKS_H

#include <criterion/criterion.h>
#include <string.h>

#include "runtime/tk.h"

#define N(a) ((int)(sizeof(a) / sizeof *(a)))

#define OK(cx, call)                                                                       \
  do {                                                                                     \
    tk_status s_ = (call);                                                                 \
    cr_assert(s_ == TK_OK, "line %d: %s: %s", __LINE__, tk_status_name(s_), tk_error(cx)); \
  } while (0)

/* The call fails with this status, and the text says so. */
#define FAILS(cx, wanted, says, call)                                                                              \
  do {                                                                                                             \
    tk_status s_ = (call);                                                                                         \
    cr_assert(s_ == (wanted), "line %d: %s, not %s: %s", __LINE__, tk_status_name(s_), tk_status_name(wanted),     \
              tk_error(cx));                                                                                       \
    cr_assert(strstr(tk_error(cx), says) && strstr(tk_error(cx), tk_status_text(wanted)), "line %d: %s", __LINE__, \
              tk_error(cx));                                                                                       \
  } while (0)

#endif
