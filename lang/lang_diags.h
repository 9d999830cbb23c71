/* The front end's diagnostics as values: one D_id per row of diags.def. */
#ifndef LANG_LANG_DIAGS_H
#define LANG_LANG_DIAGS_H

#include "compiler/base/base.h"

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "lang/diags.def"
#undef DIAG

#endif
