/* The tables of targets and of their tensor core instructions, and the questions that need all of them. */
#include "compiler/arch/arch.h"

#include <limits.h>
#include <string.h>

static const arch_t archs[] = {
#define ARCH(n, sm_, here, ptxas_, ptx_, block, sm_bytes, warps, blocks, ...) \
  {.name = #n,                                                                \
   .sm = sm_,                                                                 \
   .only_here = here,                                                         \
   .ptxas = ptxas_,                                                           \
   .ptx = ptx_,                                                               \
   .shared_block = block,                                                     \
   .shared_sm = sm_bytes,                                                     \
   .warps_sm = warps,                                                         \
   .blocks_sm = blocks,                                                       \
   __VA_ARGS__},
#include "compiler/arch/archs.def"
#undef ARCH
};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

static const arch_mma mmas[] = {
#define MMA(name_, m_, n_, k_, kw_, a_, b_, acc_, fact_, ptx_) \
  {.name = name_,                                              \
   .m = m_,                                                    \
   .n = n_,                                                    \
   .k = k_,                                                    \
   .kw = kw_,                                                  \
   .a = a_,                                                    \
   .b = b_,                                                    \
   .acc = acc_,                                                \
   .fact = offsetof(arch_t, has_##fact_),                      \
   .ptx = ptx_},
#include "compiler/arch/mma.def"
#undef MMA
};
enum { N_MMAS = sizeof mmas / sizeof mmas[0] };

const arch_t *arch_find(const char *name) {
  for (int i = 0; i < N_ARCHS; i++)
    if (strcmp(archs[i].name, name) == 0) return &archs[i];
  return NULL;
}

const arch_t *arch_all(int *n) {
  *n = N_ARCHS;
  return archs;
}

const arch_t *arch_for_device(int sm) {
  const arch_t *best = NULL;
  for (int i = 0; i < N_ARCHS; i++) {
    const arch_t *a = &archs[i];
    if (a->only_here ? a->sm == sm : a->sm <= sm) best = a;
  }
  return best;
}

int arch_blocks_by_shared(const arch_t *arch, int64_t bytes) {
  enum { UNIT = 128 };
  int64_t each = (bytes + (arch->shared_sm - arch->shared_block) + UNIT - 1) / UNIT * UNIT;
  return each ? (int)(arch->shared_sm / each) : INT_MAX;
}

static bool fits(const arch_t *arch, const arch_mma *i, const char *a, const char *b, const char *acc) {
  bool has = *(const bool *)((const char *)arch + i->fact);
  return has && strcmp(i->a, a) == 0 && strcmp(i->b, b) == 0 && strcmp(i->acc, acc) == 0;
}

const arch_mma *arch_mma_find(const arch_t *arch, const char *a, const char *b, const char *acc, int k_available) {
  const arch_mma *best = NULL;
  for (const arch_mma *i = mmas; i < mmas + N_MMAS; i++)
    if (fits(arch, i, a, b, acc) && i->k <= k_available && (!best || i->k > best->k)) best = i;
  return best;
}

const arch_mma *arch_mma_named(const arch_t *arch, const char *name, const char *a, const char *b, const char *acc) {
  for (const arch_mma *i = mmas; i < mmas + N_MMAS; i++)
    if (fits(arch, i, a, b, acc) && strcmp(i->name, name) == 0) return i;
  return NULL;
}

bool arch_ptx_version_known(int version) {
  static const int last_minor[] = {[6] = 5, [7] = 8, [8] = 8, [9] = 0};
  int major = version / 10;
  return major >= 6 && major <= 9 && version % 10 <= last_minor[major];
}

void arch_list(textbuf *out) {
  for (int i = 0; i < N_ARCHS; i++) text_printf(out, "%s%s", i ? ", " : "", archs[i].name);
}
