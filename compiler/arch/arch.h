/* arch: what each GPU target can do, as one table (archs.def) of named facts (facts.def). */
#ifndef ARCH_ARCH_H
#define ARCH_ARCH_H

#include "compiler/base/base.h"

enum { ARCH_WARP = 32, ARCH_THREADS_BLOCK = 1024 };
/* Registers: of a multiprocessor, at most of a thread, and the step of a thread's count that a launch and setmaxnreg
   know. */
enum { ARCH_REGISTERS_SM = 65536, ARCH_REGISTERS_THREAD = 255, ARCH_REGISTER_STEP = 8 };
enum { ARCH_PTX_NEWEST = 90 }; /* highest `.version` that LLVM 22 can be asked for */

typedef struct arch_t {
  const char *name; /* the `.target`, also LLVM's CPU name */
  int sm;           /* compute capability, major * 10 + minor */
  bool only_here;   /* runs on that capability alone */
  const char *ptxas;
  int ptx; /* lowest `.version`, major * 10 + minor */
  int shared_block, shared_sm;
  int warps_sm, blocks_sm;
#define FACT(name, meaning) bool has_##name;
#include "compiler/arch/facts.def"
#undef FACT
} arch_t;

/* A tensor core instruction of a warp: a row of mma.def, which says what the fields mean. */
typedef struct arch_mma {
  const char *name;
  int m, n, k, kw;
  const char *a, *b, *acc;
  size_t fact; /* where in arch_t the fact is that it needs */
  const char *ptx;
} arch_mma;

/* The mma.sync of the target for these element types ("f16", .., "tf32" for f32 operands) with the largest k that is at
   most k_available; NULL if there is none. */
const arch_mma *arch_mma_find(const arch_t *arch, const char *a, const char *b, const char *acc, int k_available);
/* The instruction that a dot of these types names; NULL if the target lacks it. */
const arch_mma *arch_mma_named(const arch_t *arch, const char *name, const char *a, const char *b, const char *acc);

/* The target of that name ("sm_90a"); NULL if there is none. */
const arch_t *arch_find(const char *name);
/* All targets, oldest first; *n receives their number. */
const arch_t *arch_all(int *n);
/* The best target for a device of compute capability sm (major * 10 + minor): its own `a` target, else its own, else
   the newest that runs there; NULL if it is older than all of them. */
const arch_t *arch_for_device(int sm);
/* Blocks with so many bytes of shared memory each that one multiprocessor has room for at a time; INT_MAX if they take
   none. Memory is given in units of 128 bytes, with 1 KiB a block for the system where shared_sm exceeds shared_block
   (CUDA C++ programming guide, "Multiprocessor level"). */
int arch_blocks_by_shared(const arch_t *arch, int64_t bytes);
/* Whether `version` (major * 10 + minor) is a PTX version that exists and LLVM knows. */
bool arch_ptx_version_known(int version);
/* Names of all targets, separated by ", ", for messages. */
void arch_list(textbuf *out);

#endif
