/* The reader of PTX text: parse.c has the cursor, literals, names and variables, module.c
 * functions and the module, body.c the statements of a body.
 */
#ifndef RUNTIME_EMU_PARSE_H
#define RUNTIME_EMU_PARSE_H

#include "runtime/emu/internal.h"

enum { EMU_MAX_SCOPES = 64, EMU_BUCKETS = 4096 };

typedef enum emu_sym_kind {
  EMU_Y_REG,
  EMU_Y_RANGE, /* %r<N> */
  EMU_Y_VAR,
  EMU_Y_PARAM_ENTRY,
  EMU_Y_PARAM_FRAME,
  EMU_Y_LOCAL,
  EMU_Y_FUNC,
  EMU_Y_LABEL,
  EMU_Y_TABLE /* a label in front of .branchtargets */
} emu_sym_kind;

typedef struct emu_sym {
  const char *name;
  size_t len;
  struct emu_sym *shadowed; /* next in the bucket */
  emu_sym_kind kind;
  uint32_t scope; /* depth */
  uint8_t bits;
  uint32_t index; /* VAR, FUNC: index; LABEL: instruction; REG: register + 1, 0 before its first use */
  uint32_t count; /* RANGE */
  uint32_t *rows; /* RANGE: register + 1 of each name, 0 before its first use */
  emu_slot slot;  /* PARAM_*, LOCAL */
} emu_sym;

typedef struct emu_ref { /* a label used before the end of its scope */
  const char *name;
  size_t len;
  uint32_t line;
  uint32_t ins, opd; /* which operand; ins == UINT32_MAX: entry `opd` of the branch tables */
} emu_ref;

typedef struct emu_decl { /* .align N .v4 .type .ptr .space .align M name [dims] */
  emu_type type;
  uint64_t align, elem, count; /* elem: bytes */
  const char *name;
  size_t len;
  bool unsized, is_array, is_pointer;
} emu_decl;

typedef struct emu_parser {
  emu_module *m;
  const char *s, *end;
  uint32_t line;
  uint32_t loc;
  emu_error *err;
  jmp_buf fail;
  emu_sym *buckets[EMU_BUCKETS];
  emu_sym **syms;
  uint32_t nsyms, cap_syms;
  uint32_t scope;
  uint32_t scope_syms[EMU_MAX_SCOPES], scope_refs[EMU_MAX_SCOPES];
  emu_ref *refs;
  uint32_t nrefs, cap_refs;
  emu_func *fn; /* the function whose body is being read */
} emu_parser;

/* parse.c */
_Noreturn void emu__bad(emu_parser *p, const char *fmt, ...) EMU_PRINTF(2, 3);
void emu__skip(emu_parser *p);
bool emu__accept(emu_parser *p, char c);
void emu__expect(emu_parser *p, char c);
/* A word of letters, digits, '_', '$' and '%'; length 0 if there is none. */
size_t emu__word(emu_parser *p, const char **text);
bool emu__is(const char *text, size_t n, const char *what);
size_t emu__directive(emu_parser *p, const char **text); /* ".word", without the dot */
uint64_t emu__integer(emu_parser *p);
/* A number with optional sign; *lit becomes 'i', 'f' or 'd'. */
uint64_t emu__number(emu_parser *p, uint8_t *lit);
emu_sym *emu__lookup(emu_parser *p, const char *text, size_t n);
emu_sym *emu__declare(emu_parser *p, const char *text, size_t n, emu_sym_kind kind);
void emu__open_scope(emu_parser *p);
void emu__close_scope(emu_parser *p);
uint32_t emu__bucket(const char *text, size_t n);
static inline uint64_t emu__round_up(uint64_t v, uint64_t align) { return (v + align - 1) / align * align; }
emu_decl emu__declaration(emu_parser *p);
/* A variable declaration after its space directive, up to and including ';'. */
void emu__variable(emu_parser *p, emu_space space, bool external);

/* module.c */
void emu__pragma(emu_parser *p);
void emu__loc(emu_parser *p);

/* body.c */
void emu__body(emu_parser *p);
void emu__resolve_refs(emu_parser *p);

#endif
