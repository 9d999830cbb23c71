/* ptx: from the text that LLVM produced to the text that ships. */
#ifndef PTX_PTX_H
#define PTX_PTX_H

#include "compiler/arch/arch.h"

/* The `.version` (major * 10 + minor) to ship a text with: the lowest that the target and every instruction of the text
   need, or `wanted` if that is given and high enough. 0, with a diagnostic, if it is not. */
int ptx_version_needed(const char *ptx, const arch_t *arch, int wanted, diag_sink *sink);

/* Appends the finished text to out: metadata (a comment block, lines starting with "//", each ended; NULL = none), then
   the PTX with its `.version` set. A text without `.version` line did not come from the emitter: a panic. */
void ptx_finish(const char *ptx, int version, const char *metadata, textbuf *out);

#define DIAG(id, severity, format) extern const diag_desc D_##id;
#include "compiler/ptx/diags.def"
#undef DIAG

#endif
