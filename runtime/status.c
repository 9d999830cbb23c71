/* status: the tables of tk.h as functions. */
#include <string.h>

#include "runtime/internal.h"

int tk_version(void) { return TK_VERSION; }

static const struct {
  const char *name, *text, *advice;
} statuses[TK_N_STATUS] = {
#define ROW(name, text, advice) [TK_##name] = {#name, text, advice},
    TK_STATUS_TABLE(ROW)
#undef ROW
};

static bool is_status(tk_status s) { return (int)s >= 0 && s < TK_N_STATUS; }

const char *tk_status_name(tk_status s) { return is_status(s) ? statuses[s].name : "UNKNOWN"; }
const char *tk_status_text(tk_status s) { return is_status(s) ? statuses[s].text : "unknown status"; }
const char *tk_status_advice(tk_status s) { return is_status(s) ? statuses[s].advice : ""; }

static const struct {
  const char *name;
  size_t bytes;
  tk__class klass;
} dtypes[TK_N_DTYPES] = {[TK_NO_DTYPE] = {"?", 0, TK__ANY},
#define ROW(name, bytes, klass) [TK_##name] = {#name, bytes, TK__##klass},
                         TK_DTYPE_TABLE(ROW)
#undef ROW
};

static tk_dtype known(tk_dtype t) { return (int)t >= 0 && t < TK_N_DTYPES ? t : TK_NO_DTYPE; }

const char *tk_dtype_name(tk_dtype t) { return dtypes[known(t)].name; }
size_t tk_dtype_bytes(tk_dtype t) { return dtypes[known(t)].bytes; }
tk__class tk__class_of(tk_dtype t) { return dtypes[known(t)].klass; }

bool tk_dtype_parse(const char *name, size_t len, tk_dtype *out) {
  for (int t = TK_NO_DTYPE + 1; t < TK_N_DTYPES; t++) {
    if (strlen(dtypes[t].name) == len && memcmp(dtypes[t].name, name, len) == 0) {
      *out = (tk_dtype)t;
      return true;
    }
  }
  return false;
}
