/* What the files of the emulator share; nothing outside runtime/emu includes it.
 *
 * A module is decoded once into `emu_ins` records. Registers are 64-bit slots, one row of 32 lanes per register, so
 * that an operand is a pointer to 32 values whatever it is: a register row, an immediate (stored 32 times at decode
 * time), or a scratch row filled from a special register. Values are kept zero- or sign-extended only to the width of
 * their register; the upper bits are always clear, and every reader extends by the type of its instruction. */
#ifndef RUNTIME_EMU_INTERNAL_H
#define RUNTIME_EMU_INTERNAL_H

#include <setjmp.h>
#include <stdarg.h>

#include "runtime/emu/emu.h"

enum {
  EMU_LANES = 32,
  EMU_MAX_DEPTH = 16,
  EMU_MAX_BARRIERS = 16,
  EMU_MAX_WARPS = 32,
  EMU_MAX_OPERANDS = 8,
  EMU_MAX_VECTOR = 128
};

#if defined(__GNUC__)
#define EMU_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define EMU_PRINTF(f, a)
#endif

/* vocabularies */

typedef enum emu_type {
  EMU_T_NONE,
#define TYPE(id, text, bits, class) EMU_T_##id,
#include "runtime/emu/types.def"
#undef TYPE
  EMU_NTYPES
} emu_type;

typedef enum emu_class { EMU_C_NONE, EMU_C_BITS, EMU_C_UINT, EMU_C_SINT, EMU_C_FLT, EMU_C_PACK, EMU_C_PRED } emu_class;

typedef enum emu_mod {
  EMU_M_NONE,
#define MOD(id, text, groups) EMU_M_##id,
#include "runtime/emu/mods.def"
#undef MOD
  EMU_NMODS
} emu_mod;

typedef enum emu_group {
  EMU_G_RND,
  EMU_G_CMP,
  EMU_G_BOOL,
  EMU_G_SPACE,
  EMU_G_SPACE2,
  EMU_G_SEM,
  EMU_G_SCOPE,
  EMU_G_CACHE,
  EMU_G_L1,
  EMU_G_L2EVICT,
  EMU_G_L2SECOND,
  EMU_G_L2FETCH,
  EMU_G_LEVEL,
  EMU_G_VEC,
  EMU_G_AOP,
  EMU_G_RED,
  EMU_G_HALF,
  EMU_G_SHFL,
  EMU_G_VOTE,
  EMU_G_SHF,
  EMU_G_CLAMP,
  EMU_G_PRMT,
  EMU_G_TESTP,
  EMU_G_DONE,
  EMU_G_DIM,
  EMU_G_COUNT,
  EMU_G_SHAPE,
  EMU_G_FLAG,
  EMU_NGROUPS
} emu_group;

#define EMU_FLAG(id) ((uint64_t)1 << (EMU_M_##id - EMU_M_FTZ))
_Static_assert(EMU_NMODS - EMU_M_FTZ <= 64, "the switches of an instruction are one word");
_Static_assert(EMU_NMODS <= 256 && EMU_NTYPES <= 64, "modifiers are bytes, sets of types one word");

typedef enum emu_op {
#define INS(id, name, opds, types, ntypes, groups, need, flags, handler) EMU_I_##id,
#include "runtime/emu/isa.def"
#undef INS
  EMU_NOPS
} emu_op;

typedef enum emu_sreg {
#define SREG(id, name, bits) EMU_S_##id,
#include "runtime/emu/sregs.def"
#undef SREG
  EMU_NSREGS
} emu_sreg;

typedef enum emu_space { EMU_GENERIC, EMU_GLOBAL, EMU_SHARED, EMU_LOCAL, EMU_CONST, EMU_PARAM } emu_space;

/* Generic addresses: the top four bits choose the window, 0 is global memory. Shared memory starts at 1024 inside its
 * own space (the first KiB belongs to the system on current hardware), so that address 0 is never a valid one. */
enum { EMU_WINDOW_SHIFT = 60, EMU_SHARED_START = 1024, EMU_LOCAL_START = 64, EMU_SHARED_LIMIT = 227 * 1024 };

/* Set in an address of .param memory that belongs to a device function's frame, clear in one of the kernel's
 * parameters. */
#define EMU_PARAM_FRAME_BIT ((uint64_t)1 << 40)

/* the decoded program */

typedef enum emu_opd_kind {
  EMU_O_NONE,
  EMU_O_REG,
  EMU_O_IMM,
  EMU_O_SREG,
  EMU_O_SINK,
  EMU_O_VEC,
  EMU_O_MEM,
  EMU_O_LABEL,
  EMU_O_LOCAL_FRAME, /* address of a .local variable of the running function: off bytes into its frame */
  EMU_O_PARAM_FRAME  /* the same for its .param variables */
} emu_opd_kind;

typedef struct emu_opd {
  uint8_t kind;
  uint8_t bits;   /* register width */
  uint8_t n;      /* elements of a vector */
  bool neg;       /* !predicate */
  bool pair;      /* stood after '|' */
  bool symbolic;  /* IMM: the address of variable number `reg` plus off, filled in when all variables are placed */
  uint8_t lit;    /* 'i' integer, 'f' 32-bit float, 'd' 64-bit float literal */
  uint32_t reg;   /* REG: register; SREG: which; LABEL: target instruction or branch table */
  uint32_t first; /* VEC, MEM: index of the first part in the module's operand pool */
  int64_t off;    /* MEM: displacement */
  uint64_t imm;
  uint64_t *row; /* IMM: the value, once per lane */
} emu_opd;

typedef struct emu_exec emu_exec;
typedef struct emu_ins emu_ins;
typedef enum emu_next { EMU_NEXT, EMU_JUMPED, EMU_BLOCKED, EMU_FAILED } emu_next;
typedef emu_next emu_handler(emu_exec *x, const emu_ins *i, uint32_t mask);

struct emu_ins {
  emu_handler *run;
  uint64_t flags;
  uint16_t op;
  uint8_t nopd;
  uint8_t ntypes;
  uint8_t type[4];
  uint8_t mod[EMU_NGROUPS];
  uint16_t wide_n, wide_k; /* shape m64nNkK */
  bool guarded, guard_neg;
  uint32_t guard; /* register */
  uint32_t line;
  uint32_t loc;  /* index into the module's source positions, 0 = none */
  uint32_t call; /* CALL: index into the module's call sites */
  emu_opd opd[EMU_MAX_OPERANDS];
};

typedef struct emu_slot { /* a parameter or local variable in per-thread memory */
  const char *name;
  uint32_t offset, size, align;
} emu_slot;

typedef enum emu_builtin { EMU_FN_USER, EMU_FN_VPRINTF, EMU_FN_ASSERT } emu_builtin;

typedef struct emu_func {
  const char *name;
  bool is_entry, has_body;
  emu_builtin builtin;
  uint32_t line;
  uint32_t first, end; /* instructions [first, end) */
  uint32_t nregs;      /* register rows of one frame */
  uint32_t local_size; /* bytes of .local memory of one frame */
  uint32_t param_size; /* bytes of .param memory of one frame (formal and call-site parameters) */
  uint32_t nin, nout;
  emu_slot *in, *out;
  emu_kernel kernel;
} emu_func;

typedef struct emu_call {
  uint32_t func;
  uint32_t nin, nout;
  emu_slot *in, *out; /* call-site .param variables in the caller's frame */
} emu_call;

typedef struct emu_var {
  const char *name;
  emu_space space;
  uint64_t addr; /* address in its own space */
  uint64_t size;
  uint8_t *data; /* GLOBAL and CONST storage */
  bool external;
  uint32_t align;
  uint32_t user; /* SHARED: 0 nobody, 1 + the only kernel that mentions it, or UINT32_MAX */
} emu_var;

typedef struct emu_loc {
  uint32_t file, line, column;
} emu_loc;

typedef struct emu_block {
  struct emu_block *next;
  size_t used, size;
  /* bytes follow */
} emu_block;

typedef struct emu_arena {
  emu_block *head;
  size_t total;
  jmp_buf *oom; /* where to go when memory is short */
} emu_arena;

struct emu_module {
  emu_arena arena;
  char target[32];
  unsigned version; /* major * 10 + minor */
  emu_ins *ins;
  uint32_t nins, cap_ins;
  emu_opd *pool;
  uint32_t npool, cap_pool;
  emu_func *funcs;
  uint32_t nfuncs, cap_funcs;
  emu_call *calls;
  uint32_t ncalls, cap_calls;
  emu_var *vars;
  uint32_t nvars, cap_vars;
  emu_loc *locs;
  uint32_t nlocs, cap_locs;
  uint32_t *targets; /* branch tables, flattened: count, target, target ... */
  uint32_t ntargets, cap_targets;
  const char **files; /* by .file number */
  uint32_t nfiles;
  const char **kernel_names;
  uint32_t dynamic_start; /* where dynamic shared memory begins, from the start of shared memory */
  uint32_t shared_align;  /* of the dynamic part */
  uint64_t const_size;
};

/* memory */

typedef struct emu_region {
  uint64_t addr, size;
  uint8_t *host;
  char *name;
  bool read_only;
} emu_region;

struct emu_machine {
  emu_region *regions; /* by address */
  uint32_t nregions, cap_regions;
  uint64_t next;
};

/* What is known of one byte of shared memory. Clocks are per warp and advance at barriers; a write or read of warp w at
 * clock c is ordered before warp v exactly when v's vector clock has reached c in its component w. */
typedef struct emu_shadow {
  uint32_t write_clock, write_line;
  uint32_t read_clock, read_line;
  uint32_t readers; /* index + 1 of a full read vector, 0 while one reader describes all */
  uint8_t write_warp, read_warp;
  uint8_t state; /* EMU_SH_* */
  uint8_t pad;
} emu_shadow;

enum {
  EMU_SH_INIT = 1,
  EMU_SH_WRITTEN = 2,
  EMU_SH_READ = 4,
  EMU_SH_STRONG_W = 8,
  EMU_SH_STRONG_R = 16,
  EMU_SH_PENDING = 32, /* a copy into it is in flight */
  EMU_SH_SOURCE = 64   /* a copy out of it is in flight */
};

/* A warp's threads at one place of the program. */
typedef enum emu_frag_state { EMU_F_RUN, EMU_F_SYNC, EMU_F_BARRIER } emu_frag_state;

typedef struct emu_frame {
  uint32_t pc; /* of the call in the frame below, of the next instruction in the top one */
  uint32_t func;
  uint32_t reg_base, local_base, param_base;
} emu_frame;

typedef struct emu_frag {
  uint32_t mask;
  uint32_t depth; /* index of the top frame */
  emu_frag_state state;
  uint32_t barrier;
  emu_frame stack[EMU_MAX_DEPTH];
} emu_frag;

typedef struct emu_copy { /* one lane's cp.async, in flight */
  uint32_t shared;
  uint32_t group, number; /* number: counts the copies of the warp */
  uint32_t line;
  uint8_t lane, size;
  uint8_t data[16];
} emu_copy;

typedef struct emu_wgmma { /* one wgmma.mma_async, in flight */
  const emu_ins *i;
  uint32_t reg_base, group;
  uint64_t a, b; /* descriptors; a is unused when A comes from registers */
  bool keep;     /* scale-d */
} emu_wgmma;

typedef struct emu_warp {
  uint32_t id;
  uint32_t live; /* lanes that have not exited */
  uint32_t nfrag;
  uint32_t carry; /* condition code CC.CF by lane */
  uint32_t turn;
  uint64_t *regs;
  uint32_t regs_rows;
  uint8_t *local, *param; /* per lane: cap bytes each */
  uint32_t local_cap, param_cap;
  uint32_t clock[EMU_MAX_WARPS];
  emu_copy *copies;
  uint32_t ncopies, cap_copies;
  uint32_t copy_number;
  emu_wgmma *wgmma;
  uint32_t nwgmma, cap_wgmma, wgmma_groups;
  uint32_t bulk_groups[EMU_LANES];
  uint32_t groups[EMU_LANES]; /* cp.async groups committed by each lane */
  emu_frag frag[EMU_LANES];
} emu_warp;

typedef struct emu_barrier {
  uint32_t expected; /* 0: all live threads */
  uint32_t arrived;
  bool active, counted;
  uint32_t popc;
  bool all, any;
  uint32_t clock[EMU_MAX_WARPS];
} emu_barrier;

/* An operation that completes later: a bulk copy, or an arrival bound to the cp.async of a thread. */
typedef struct emu_async {
  enum { EMU_A_LOAD, EMU_A_STORE, EMU_A_ARRIVE } kind;
  uint8_t warp, lane;
  bool noinc;
  uint32_t line;
  uint32_t mbar;   /* LOAD, ARRIVE: offset of the mbarrier in shared memory */
  uint32_t shared; /* LOAD, STORE: offset in shared memory */
  uint32_t size, group;
  uint32_t width;  /* bytes of a swizzled row in shared memory, 0 without */
  bool tensor;     /* STORE: through the tensor map in data */
  int32_t at[5];   /* its coordinates */
  uint32_t number; /* ARRIVE: waits for copies of the lane with lower numbers */
  uint64_t global;
  uint8_t *data; /* LOAD: what was read; tensor STORE: the map */
} emu_async;

typedef struct emu_mbar_clock { /* what a successful wait on the mbarrier is ordered behind */
  uint32_t at;
  uint32_t clock[EMU_MAX_WARPS];
} emu_mbar_clock;

struct emu_exec {
  emu_machine *mc;
  emu_module *m;
  const emu_func *kernel;
  const emu_launch_options *o;
  uint8_t *params; /* a copy of the parameter buffer */
  emu_report *report;
  size_t report_len;
  emu_status status;
  uint32_t ctaid[3];
  uint64_t cta_index;
  uint32_t nthreads, nwarps;
  uint64_t budget, executed;
  uint32_t shared_size; /* static and dynamic bytes */
  uint8_t *shared;
  emu_shadow *shadow;
  uint32_t (*readers)[EMU_MAX_WARPS];
  uint32_t nreaders, cap_readers;
  uint32_t sync_clock[EMU_MAX_WARPS]; /* joined by releases, taken over by acquires */
  emu_warp *warps;
  emu_barrier barriers[EMU_MAX_BARRIERS];
  emu_async *async; /* operations in flight, in order of issue */
  uint32_t nasync, cap_async;
  emu_mbar_clock *mbars;
  uint32_t nmbars, cap_mbars;
  uint32_t last_region;
  uint32_t seen[64]; /* lines already reported as a race or an uninitialised read */
  uint32_t nseen;
  /* the instruction in progress */
  emu_warp *w;
  emu_frag *f;
  const emu_ins *i;
  uint64_t scratch[EMU_MAX_OPERANDS][EMU_LANES];
  uint64_t sink[EMU_LANES];
};

/* arena.c */
void *emu__alloc(emu_arena *a, size_t size);
char *emu__strndup(emu_arena *a, const char *s, size_t n);
/* Grows an array of the arena so that one more element fits; the old copy stays in the arena. */
void *emu__grow(emu_arena *a, void *old, uint32_t count, uint32_t *cap, size_t elem);
void emu__arena_free(emu_arena *a);

/* decode.c */
extern const uint8_t emu__type_bits[EMU_NTYPES];
extern const uint8_t emu__type_class[EMU_NTYPES];
extern const char *const emu__type_name[EMU_NTYPES];
extern const char *const emu__sreg_name[EMU_NSREGS];
extern const uint8_t emu__sreg_bits[EMU_NSREGS];
extern const char *const emu__op_name[EMU_NOPS];
/* The type named by `text` (without its dot), EMU_T_NONE if there is none. */
emu_type emu__type_by_name(const char *text, size_t n);
/* Chooses the row for the mnemonic and fills op, types, modifiers, flags and handler of *i, whose operands are already
 * there. False with a sentence in msg otherwise. Immediate rows are made here because their meaning depends on the
 * type. */
bool emu__decode(emu_module *m, const char *mnemonic, size_t n, emu_ins *i, char *msg, size_t cap);

/* memory.c */
typedef enum emu_access { EMU_READ = 1, EMU_WRITE = 2, EMU_STRONG = 4 } emu_access;
/* The host bytes behind addr..addr+size of one lane, after every check; NULL after a fault has been reported. `size` is
 * a power of two and the alignment asked for. */
uint8_t *emu__access(emu_exec *x, emu_space space, uint64_t addr, uint32_t size, uint32_t lane, unsigned how);
/* A description of an address for reports: the buffer it lies in or near, and the offset. */
void emu__describe(const emu_exec *x, emu_space space, uint64_t addr, char *out, size_t cap);

/* shadow.c */
/* Checks and records an access of the current warp to shared bytes [at, at+size), counted from the start of the CTA's
 * shared memory; `line` is the PTX line to blame. */
void emu__shadow_touch(emu_exec *x, uint32_t at, uint32_t size, uint32_t lane, unsigned how, uint32_t line);
void emu__clock_join(uint32_t *into, const uint32_t *from);
void emu__acquire(emu_exec *x);
void emu__release(emu_exec *x);
/* Completes the copies of `lane` whose group is below `groups` and whose number is below `numbers`. */
void emu__land_copies(emu_exec *x, uint32_t lane, uint32_t groups, uint32_t numbers);

/* tensor.c */
/* The map at a generic address of lane; false after a fault. */
bool emu__tensor_map(emu_exec *x, uint64_t addr, uint32_t lane, emu_tensor_map *map);
/* Copies the box at `at` between global memory and `bytes` (dense, first dimension innermost). What lies outside the
 * tensor reads as zero and is not written. */
bool emu__tensor_copy(emu_exec *x, const emu_tensor_map *map, const int32_t *at, uint32_t lane, bool write,
                      uint8_t *bytes);

/* async.c */
void emu__async_reset(emu_exec *x);
/* Reports bulk copies that lanes leave behind when they end; false after a fault. */
bool emu__async_exit(emu_exec *x, uint32_t mask);

/* report.c */
/* Adds a finding about the current instruction and lane (-1: no lane in particular) and makes the launch fail in the
 * end. */
void emu__report(emu_exec *x, int lane, const char *fmt, ...) EMU_PRINTF(3, 4);
/* The same, and stops the launch. */
emu_next emu__fault(emu_exec *x, int lane, const char *fmt, ...) EMU_PRINTF(3, 4);
/* Continues the last finding. */
void emu__note(emu_exec *x, const char *fmt, ...) EMU_PRINTF(2, 3);

/* sched.c */
bool emu__run_cta(emu_exec *x);
/* Leaves in the current fragment only the lanes of `mask`; the others go on behind the current instruction. */
void emu__isolate(emu_exec *x, uint32_t mask);
/* Makes a copy of the current fragment for the lanes of `mask`, which leave it, at instruction pc. */
void emu__split(emu_exec *x, uint32_t mask, uint32_t pc);
void emu__kill(emu_exec *x, uint32_t mask);
/* Makes room for a frame of the function above what the warp has; false when memory is short. */
bool emu__reserve(emu_warp *w, const emu_func *fn, const emu_frame *base);
/* EMU_NEXT when all live lanes of `need` are in the current fragment, EMU_BLOCKED after parking it otherwise. */
emu_next emu__wait_for(emu_exec *x, uint32_t need);

/* barrier.c */
/* Releases every barrier whose threads have all arrived; false after a fault. */
bool emu__barrier_check(emu_exec *x);

/* print.c */
emu_next emu__print(emu_exec *x, uint64_t format, uint64_t args, uint32_t lane);
emu_next emu__assert_fail(emu_exec *x, const uint64_t args[3], uint32_t lane);

/* operands, inline because every handler starts with them */

#define EMU_FOR_LANES(mask, l) \
  for (uint32_t left_ = (mask), l = 0; left_ != 0 && (l = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

static inline uint32_t emu__popcount(uint32_t v) { return (uint32_t)__builtin_popcount(v); }
static inline const emu_frame *emu__top(const emu_frag *f) { return &f->stack[f->depth]; }

static inline uint64_t emu__ones(unsigned bits) { return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1; }
static inline uint64_t emu__zext(uint64_t v, unsigned bits) { return v & emu__ones(bits); }
static inline int64_t emu__sext(uint64_t v, unsigned bits) {
  return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}
static inline uint64_t *emu__reg(const emu_exec *x, uint32_t reg) {
  return x->w->regs + (size_t)(x->f->stack[x->f->depth].reg_base + reg) * EMU_LANES;
}
static inline bool emu__is_signed(const emu_ins *i, int k) { return emu__type_class[i->type[k]] == EMU_C_SINT; }
static inline unsigned emu__bits(const emu_ins *i, int k) { return emu__type_bits[i->type[k]]; }

/* operand.c */
void emu__sreg_row(const emu_exec *x, uint32_t sreg, uint64_t *row);
/* 32 values of operand k, valid until the next instruction. */
const uint64_t *emu__src(emu_exec *x, const emu_opd *o, unsigned k);
/* Where to write the 32 results of an operand; a sink for `_`. */
uint64_t *emu__dst(emu_exec *x, const emu_opd *o);
/* The lanes for which a predicate operand is true. */
uint32_t emu__pred(emu_exec *x, const emu_opd *o, unsigned k);
/* Number of elements of a vector or scalar operand, and its element e. */
static inline unsigned emu__count(const emu_opd *o) { return o->kind == EMU_O_VEC ? o->n : 1; }
const emu_opd *emu__elem(const emu_exec *x, const emu_opd *o, unsigned e);
/* The addresses of a memory operand for all lanes. */
void emu__addr(emu_exec *x, const emu_opd *o, uint64_t *out);
emu_space emu__space(const emu_ins *i, emu_group g);
static inline uint64_t emu__fit(const emu_opd *o, uint64_t v) { return v & emu__ones(o->bits); }
/* Rows of A and depth of an mma by its shape modifier. */
unsigned emu__mma_rows(unsigned shape);
unsigned emu__mma_depth(unsigned shape);

/* exec_*.c: one handler per row of isa.def */
#define INS(id, name, opds, types, ntypes, groups, need, flags, handler) emu_handler emu__x_##handler;
#include "runtime/emu/isa.def"
#undef INS

#endif
