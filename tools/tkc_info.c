/* tkc info: driver, GPUs, what is missing and how to get it. */
#include <stdio.h>
#include <stdlib.h>

#include "compiler/tkc.h"
#include "runtime/tk.h"
#include "tools/cli.h"

static const char *yes(bool b) { return b ? "yes" : "no"; }

static void say_ptxas(void) {
  bool have = system("ptxas --version >/dev/null 2>&1") == 0 ||
              system("/usr/local/cuda/bin/ptxas --version >/dev/null 2>&1") == 0;
  printf("ptxas      %s\n", have ? "found (--emit cubin)" : "not found: only --emit cubin needs it (CUDA toolkit)");
}

int cli_info(int argc, char **argv) {
  if (argc > 0) return cli_usage("tkc info takes no '%s'", argv[0]);
  tk_info *info;
  if (tk_info_get(NULL, &info) != TK_OK) {
    cli_say("cannot ask for devices");
    return EXIT_DEVICE;
  }
  printf("tkc        %d.%d\n", TKC_VERSION_MAJOR, TKC_VERSION_MINOR);
  printf("targets   ");
  for (int i = 0; tkc_arch_name(i); i++) printf(" %s", tkc_arch_name(i));
  printf("\n");
  say_ptxas();
  printf("cpu        kernels run here with every check (--device cpu)\n");
  if (info->driver_version)
    printf("driver     CUDA %d.%d, PTX up to %d.%d\n", info->driver_version / 1000, info->driver_version % 1000 / 10,
           info->ptx_version / 10, info->ptx_version % 10);
  for (int i = 0; i < info->n_devices; i++) {
    const tk_device_info *d = &info->devices[i];
    printf("cuda:%d     %s, compile for %s\n", i, d->name, d->arch);
    printf("           %.1f GiB, %d multiprocessors at %d MHz, L2 %d MiB, shared memory %d KiB a block\n",
           (double)d->memory_bytes / (1 << 30), d->sm_count, d->clock_khz / 1000, d->l2_bytes >> 20,
           d->shared_bytes_per_block >> 10);
    printf("           bf16 %s, fp8 %s, TMA %s, clusters %s, wgmma %s, tcgen05 %s\n", yes(d->has_bf16), yes(d->has_fp8),
           yes(d->has_tma), yes(d->has_clusters), yes(d->has_wgmma), yes(d->has_tcgen05));
  }
  if (info->problem[0]) printf("missing    %s\n", info->problem);
  tk_info_free(info);
  return EXIT_RIGHT;
}
