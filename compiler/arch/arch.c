/* The table of targets and the questions that need all of it. */
#include "compiler/arch/arch.h"

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

bool arch_ptx_version_known(int version) {
  static const int last_minor[] = {[6] = 5, [7] = 8, [8] = 8, [9] = 0};
  int major = version / 10;
  return major >= 6 && major <= 9 && version % 10 <= last_minor[major];
}

void arch_list(textbuf *out) {
  for (int i = 0; i < N_ARCHS; i++) text_printf(out, "%s%s", i ? ", " : "", archs[i].name);
}
