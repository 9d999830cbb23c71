/* What the files of builtins share. Each defines handlers of builtins.def, named builtin_HANDLER. */
#ifndef LANG_BUILTIN_H
#define LANG_BUILTIN_H

#include "lang/sema.h"

#define BUILTIN(name, params, flags, handler, data) lang_value *builtin_##handler(sema *s, const sema_call_info *c);
#include "lang/builtins.def"
#undef BUILTIN

const char *arg_name(sema *s, const sema_call_info *c, int i);
/* "'other' of 'load' must be WANTED, not GOT" */
lang_value *arg_wrong(sema *s, const sema_call_info *c, int i, const char *wanted, const lang_value *got);

#endif
