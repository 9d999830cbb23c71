/* dtype: the element types that buffers, kernel parameters and artefacts speak of. Part of tk.h's public surface. */
#ifndef TK_DTYPE_H
#define TK_DTYPE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tk_dtype {
  TK_NO_DTYPE, /* not stated */
#define TK_DTYPE(name, bits, bytes, class) TK_##name,
#include "dtypes.def"
#undef TK_DTYPE
  TK_N_DTYPES
} tk_dtype;

const char *tk_dtype_name(tk_dtype t); /* "f32"; "?" for TK_NO_DTYPE and for a value outside the enumeration */
size_t tk_dtype_bytes(tk_dtype t);     /* bytes of one element in memory; 0 for no dtype */
bool tk_dtype_parse(const char *name, size_t len, tk_dtype *out);

#ifdef __cplusplus
}
#endif
#endif
