/* tkc: the command line. `tkc FILE` compiles, `tkc run` runs, `tkc info` says what this machine has. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "compiler/tkc.h"
#include "tools/cli.h"

static void help(void) {
  puts(
      "tkc kernel.tk -o kernel.ptx            compile every entry kernel of the file; -o - for stdout\n"
      "  --kernel NAME                        this kernel only\n"
      "  -D NAME=VALUE                        value of a constexpr parameter (more than once)\n"
      "  --signature 'x=*f32:16,n=i32'        types of parameters; :16 = divisible by 16, :1 = equal to 1;\n"
      "                                       a tensor descriptor is tensordesc<f16[64, 32]>\n"
      "  --arch sm_90a|native                 target (default sm_80)\n"
      "  --num-warps N  --num-stages N        instead of the kernel's own, else 4 and 3\n"
      "  --ptx-version 8.3                    write this PTX version instead of the lowest that does\n"
      "  --emit ptx|llvm|tile|ast|cubin       what to write (cubin needs ptxas)\n"
      "  --dump-after=PASS[,PASS]|all         the IR after passes, on stderr\n"
      "  --stop-after=PASS                    with --emit tile: the IR after this pass\n"
      "  --resource-usage                     registers, shared memory, occupancy, what each access and dot became and "
      "why,\n"
      "                                       on stderr\n"
      "  --time-passes  --verify              time of each pass, on stderr; check the IR after each pass\n"
      "  --debug                              device_assert is active\n"
      "  --no-line-info                       no line table\n"
      "  --no-tensor-maps                     no copies through tensor maps: strides may be anything\n"
      "  --no-gang                            no programs side by side in a block: for grids of one or two along x\n"
      "  -W[no-]NAME  -Werror                 warnings on, off, as errors\n"
      "  --diagnostics=text|line|json         how messages are written\n"
      "\n"
      "tkc run FILE[:KERNEL] --grid 'cdiv(n, BLOCK)' --arg x=randn:f32[1000] --arg n=1000 --arg out=zeros:f32[1000]\n"
      "  --arg NAME=ARRAY                     zeros|ones|arange|rand|randn|randint(lo,hi)|full(v) :dtype[shape], or\n"
      "                                       @file.npy[:dtype]\n"
      "  --arg NAME=ARRAY/[64,32][:nan]       as a tensor descriptor with blocks of 64 x 32 (NaN outside), where the "
      "kernel states no type\n"
      "  --arg NAME=EXPRESSION                a number, or over other arguments: x.shape[0], x.stride(0), x.numel()\n"
      "  --print NAME  --save NAME=FILE.npy   afterwards (more than once)\n"
      "  --device auto|cpu|cuda[:N]  --seed N\n"
      "  --check                              run on the CPU with every check too, and compare\n"
      "  --tolerance X                        largest relative difference of floats that --check allows\n"
      "  --bench                              time it\n"
      "  -D, --num-warps, --num-stages, --debug, --signature, --no-tensor-maps, --no-gang as above\n"
      "\n"
      "tkc info                               driver, GPUs, what is missing and how to get it\n"
      "tkc --version\n"
      "\n"
      "Exit status: 0 right, 1 errors or a failed check, 2 usage, 3 device trouble, 70 a bug of tkc.");
  printf("\nTargets:");
  for (int i = 0; tkc_arch_name(i); i++) printf(" %s", tkc_arch_name(i));
  printf("\nPasses:\n  specialise   the front end's output\n");
  for (int i = 0; tkc_pass_name(i); i++) printf("  %-12s %s\n", tkc_pass_name(i), tkc_pass_sentence(i));
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN);
  if (argc < 2) return cli_usage("nothing to do");
  const char *first = argv[1];
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h") || (i == 1 && !strcmp(argv[i], "help"))) {
      help();
      return EXIT_RIGHT;
    }
  if (!strcmp(first, "--version")) {
    printf("tkc %d.%d\n", TKC_VERSION_MAJOR, TKC_VERSION_MINOR);
    return EXIT_RIGHT;
  }
  if (!strcmp(first, "run")) return cli_run(argc - 2, argv + 2);
  if (!strcmp(first, "info")) return cli_info(argc - 2, argv + 2);
  return cli_compile(argc - 1, argv + 1);
}
