/* Float formats of at most 32 bits: exact values and correctly rounded results. */
#ifndef RUNTIME_EMU_HALF_H
#define RUNTIME_EMU_HALF_H

#include "runtime/emu/internal.h"

/* The exact value of the bits of a float type (.f64 included); ftz turns subnormals into zeros of the same sign. */
double emu__float_value(emu_type t, uint64_t bits, bool ftz);
/* v rounded once to the type by rounding mode `rnd` (a word of group RND; none is .rn). satfinite: what overflows
 * becomes the largest finite number. NaNs become the canonical NaN of hardware. For .f64 v is returned as it is. */
uint64_t emu__float_bits(emu_type t, double v, unsigned rnd, bool satfinite);
/* Turns a subnormal of the type into a zero. */
uint64_t emu__flush(emu_type t, uint64_t bits);
/* a + b rounded to odd: rounding the result again to fewer than 52 bits gives what rounding the exact sum would. */
double emu__add_odd(double a, double b);
/* An integer rounded to odd. */
double emu__int_odd(uint64_t v, bool is_signed);
/* The <fenv.h> mode for .rn, .rz, .rm, .rp. */
int emu__fenv_mode(unsigned rnd);

#endif
