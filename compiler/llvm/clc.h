/* clc: the embedded math functions, as LLVM bitcode.
 *
 * The module holds every function of clc.def and what they need, all with linkonce_odr linkage: linking it into a
 * kernel's module pulls in only what is referenced. Written by tools/clc_subset.c when tkc is built. */
#ifndef LL_CLC_H
#define LL_CLC_H

extern const unsigned char ll_clc_bitcode[]; /* ll_clc_bitcode_len bytes, then a NUL */
extern const unsigned long ll_clc_bitcode_len;

#endif
