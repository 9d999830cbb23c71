/* dtype: names and sizes of the element types, all from dtypes.def. */
#include "runtime/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  size_t bytes;
} rows[TK_N_DTYPES] = {
    [TK_NO_DTYPE] = {"?", 0},
#define TK_DTYPE(name, bits, bytes, class) [TK_##name] = {#name, bytes},
#include "runtime/dtypes.def"
#undef TK_DTYPE
};

static bool known(tk_dtype t) { return (int)t >= 0 && t < TK_N_DTYPES; }

const char *tk_dtype_name(tk_dtype t) { return rows[known(t) ? t : TK_NO_DTYPE].name; }

size_t tk_dtype_bytes(tk_dtype t) { return rows[known(t) ? t : TK_NO_DTYPE].bytes; }

bool tk_dtype_parse(const char *name, size_t len, tk_dtype *out) {
  for (int t = TK_NO_DTYPE + 1; t < TK_N_DTYPES; t++) {
    if (strlen(rows[t].name) == len && memcmp(rows[t].name, name, len) == 0) {
      *out = (tk_dtype)t;
      return true;
    }
  }
  return false;
}
