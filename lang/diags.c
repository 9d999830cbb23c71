/* Storage of the front end's diagnostics. */
#include "lang/lang_diags.h"

#define DIAG(id, severity, format) const diag_desc D_##id = {#id, DIAG_##severity, format};
#include "lang/diags.def"
#undef DIAG
