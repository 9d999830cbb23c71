/* Instructions of PTX with their results, for test_emu.c. Each body is a kernel run by one warp; the result is in %r0,
 * %rd0, %h0, %f0, %fd0 or %p0 by the letter r, d, h, f, F, p. %r20 holds the thread number. The expected values come
 * from the definition of the instruction, worked out by hand. */
#ifndef TESTS_UNIT_EMU_CASES_H
#define TESTS_UNIT_EMU_CASES_H

#include <stdint.h>

typedef struct emu_case {
  char where;
  const char *body;
  uint64_t want;
  uint64_t (*by_lane)(unsigned lane);
} emu_case;

static uint64_t lane_plus_5(unsigned l) { return l + 5; }
static uint64_t lane_xor_1(unsigned l) { return l ^ 1; }
static uint64_t lane_up_2(unsigned l) { return l < 2 ? l : l - 2; }
static uint64_t lane_down_4(unsigned l) { return l + 4 > 31 ? l : l + 4; }
static uint64_t lane_down_ok(unsigned l) { return l + 4 <= 31; }
static uint64_t lane_idx_8(unsigned l) { return (l & 24) + 3; }
static uint64_t lane_bit(unsigned l) { return 1u << l; }
static uint64_t lane_lt(unsigned l) { return (1u << l) - 1; }
static uint64_t lane_ge(unsigned l) { return 0xffffffffu << l; }
static uint64_t lane_is_0(unsigned l) { return l == 0; }
static uint64_t lane_sum_before(unsigned l) { return l * (l - 1) / 2 * (l > 0); }
static uint64_t lane_match4(unsigned l) { return 0x11111111u << (l & 3); }
static uint64_t lane_cold(unsigned l) { return l < 10 ? 100 + l : l; }
static uint64_t lane_matrix(unsigned l) {
  return (l / 4 * 8 + l % 4 * 2) | (uint64_t)(l / 4 * 8 + l % 4 * 2 + 1) << 16;
}
static uint64_t lane_matrix_t(unsigned l) { return (l / 4 + l % 4 * 16) | (uint64_t)(l / 4 + l % 4 * 16 + 8) << 16; }
static uint64_t lane_copy(unsigned l) { return l % 2 == 0 ? 7 : 0; }

#define R(body, want) {'r', body, want, 0},
#define D(body, want) {'d', body, want, 0},
#define H(body, want) {'h', body, want, 0},
#define F(body, want) {'f', body, want, 0},
#define FD(body, want) {'F', body, want, 0},
#define P(body, want) {'p', body, want, 0},
#define L(where, body, fn) {where, body, 0, fn},

/* 0f constants used below */
#define ONE "0f3F800000"
#define TWO "0f40000000"
#define NAN_ "0f7FC00000"
#define INF_ "0f7F800000"
#define TINY "0f00000001" /* the smallest subnormal */
#define ULP1 "0f33800000" /* 2^-24 */
#define MEM4              /* sm[4*tid] = tid, address in %r1 */ \
  "mov.u32 %r1, sm; shl.b32 %r2, %r20, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r20; bar.warp.sync -1; "

static const emu_case emu_cases[] = {
    /* integers */
    R("mov.u32 %r1, 7; add.u32 %r0, %r1, -9;", 0xfffffffe) R(
        "mov.u32 %r1, 0x7fffffff; add.sat.s32 %r0, %r1, 1;",
        0x7fffffff) R("mov.u32 %r1, 0x80000000; sub.sat.s32 %r0, %r1, 1;",
                      0x80000000) D("mov.u64 %rd1, 1; sub.u64 %rd0, %rd1, 2;",
                                    0xffffffffffffffff) H("mov.b16 %h1, 0x7fff; add.s16 %h0, %h1, 1;", 0x8000)
        D("mov.u32 %r1, -1; add.cc.u32 %r2, %r1, 1; addc.u32 %r3, %r1, 3; mov.b64 %rd0, {%r2, %r3};", 0x300000000) D(
            "mov.u32 %r1, 0; sub.cc.u32 %r2, %r1, 1; subc.u32 %r3, %r1, 0; mov.b64 %rd0, {%r2, %r3};",
            0xffffffffffffffff) R("mov.u32 %r1, 0x10001; mul.lo.u32 %r0, %r1, %r1;",
                                  0x20001) R("mov.u32 %r1, -2; mul.hi.s32 %r0, %r1, 3;",
                                             0xffffffff) R("mov.u32 %r1, -2; mul.hi.u32 %r0, %r1, 3;", 2)
            D("mov.u32 %r1, -2; mul.wide.s32 %rd0, %r1, 3;", 0xfffffffffffffffa) D(
                "mov.u32 %r1, -2; mul.wide.u32 %rd0, %r1, 3;",
                0x2fffffffa) R("mov.b16 %h1, -2; mul.wide.s16 %r0, %h1, %h1;",
                               4) D("mov.u64 %rd1, 0x100000000; mul.hi.u64 %rd0, %rd1, %rd1;",
                                    1) R("mov.u32 %r1, 6; mad.lo.s32 %r0, %r1, 7, -2;",
                                         40) D("mov.u32 %r1, 6; mov.u64 %rd1, 5; mad.wide.u32 %rd0, %r1, 7, %rd1;",
                                               47) D("mov.u32 %r1, -1; mov.u32 %r9, 1; mad.lo.cc.u32 %r2, %r1, %r1, "
                                                     "%r1; madc.hi.u32 %r3, %r1, %r1, %r9; mov.b64 %rd0, {%r2, %r3};",
                                                     0x00000000) R("mov.u32 %r1, -7; div.s32 %r0, %r1, 2;", 0xfffffffd)
                R("mov.u32 %r1, -7; rem.s32 %r0, %r1, 2;", 0xffffffff) R(
                    "mov.u32 %r1, -7; div.u32 %r0, %r1, 2;",
                    0x7ffffffc) R("mov.u32 %r1, 0x80000000; div.s32 %r0, %r1, -1;",
                                  0x80000000) D("mov.u64 %rd1, -7; rem.u64 %rd0, %rd1, 10;", 9)
                    R("mov.u32 %r1, -7; min.s32 %r0, %r1, 2;", 0xfffffff9) R("mov.u32 %r1, -7; min.u32 %r0, %r1, 2;", 2)
                        R("mov.u32 %r1, -7; max.s32 %r0, %r1, 2;", 2) R("mov.u32 %r1, -7; abs.s32 %r0, %r1;", 7) R(
                            "mov.u32 %r1, 7; neg.s32 %r0, %r1;",
                            0xfffffff9) R("mov.b32 %r1, 0xff00ff00; not.b32 %r0, %r1;", 0x00ff00ff)
                            R("mov.b32 %r1, 0; cnot.b32 %r0, %r1;",
                              1) R("mov.b32 %r1, 0xf0f0; and.b32 %r0, %r1, 0xff;",
                                   0xf0) R("mov.b32 %r1, 0xf0f0; or.b32 %r0, %r1, 0xff;",
                                           0xf0ff) R("mov.b32 %r1, 0xf0f0; xor.b32 %r0, %r1, 0xff;",
                                                     0xf00f) R("mov.b32 %r1, 3; shl.b32 %r0, %r1, 31;",
                                                               0x80000000) R("mov.b32 %r1, 3; shl.b32 %r0, %r1, 32;", 0)
                                R("mov.b32 %r1, 0x80000000; shr.s32 %r0, %r1, 40;", 0xffffffff) R(
                                    "mov.b32 %r1, 0x80000000; shr.u32 %r0, %r1, 31;",
                                    1) D("mov.b64 %rd1, 1; shl.b64 %rd0, %rd1, 63;",
                                         0x8000000000000000) R("mov.b32 %r1, 0x11223344; mov.b32 %r2, 0x55667788; "
                                                               "shf.l.wrap.b32 %r0, %r1, %r2, 8;",
                                                               0x66778811) R("mov.b32 %r1, 0x11223344; mov.b32 %r2, "
                                                                             "0x55667788; shf.r.wrap.b32 %r0, %r1, "
                                                                             "%r2, 40;",
                                                                             0x88112233)
                                    R("mov.b32 %r1, 0x11223344; mov.b32 %r2, 0x55667788; shf.r.clamp.b32 %r0, %r1, "
                                      "%r2, 40;",
                                      0x55667788) R("mov.b32 %r1, 0x12345678; bfe.u32 %r0, %r1, 8, 12;", 0x456)
                                        R("mov.b32 %r1, 0x00000f00; bfe.s32 %r0, %r1, 8, 4;", 0xffffffff)
                                            R("mov.b32 %r1, 0x80000000; bfe.s32 %r0, %r1, 28, 8;", 0xfffffff8) R(
                                                "mov.b32 %r1, 0xab; mov.b32 %r2, -1; bfi.b32 %r0, %r1, %r2, 8, 8;",
                                                0xffffabff) R("mov.b32 %r1, 0x00010000; bfind.u32 %r0, %r1;",
                                                              16) R("mov.b32 %r1, 0; bfind.u32 %r0, %r1;", 0xffffffff)
                                                R("mov.b32 %r1, -2; bfind.s32 %r0, %r1;", 0) R(
                                                    "mov.b32 %r1, 0x00010000; bfind.shiftamt.u32 %r0, %r1;", 15)
                                                    R("mov.b32 %r1, 1; brev.b32 %r0, %r1;", 0x80000000) R(
                                                        "mov.b64 %rd1, 0xff00000000000001; popc.b64 %r0, %rd1;",
                                                        9) R("mov.b32 %r1, 0x10; clz.b32 %r0, %r1;",
                                                             27) R("mov.b64 %rd1, 0x10; clz.b64 %r0, %rd1;",
                                                                   59) R("mov.b32 %r1, 0x33221100; mov.b32 %r2, "
                                                                         "0x77665544; prmt.b32 %r0, %r1, %r2, 0x5410;",
                                                                         0x55441100) R("mov.b32 %r1, 0x80; mov.b32 "
                                                                                       "%r2, 0; prmt.b32 %r0, %r1, "
                                                                                       "%r2, 0x8888;",
                                                                                       0xffffffff)
                                                        R("mov.b32 %r1, 0x33221100; mov.b32 %r2, 0x77665544; "
                                                          "prmt.b32.f4e %r0, %r1, %r2, 1;",
                                                          0x44332211)
                                                            R("mov.b32 %r1, 0xf0; mov.b32 %r2, 0xcc; mov.b32 %r3, "
                                                              "0xaa; lop3.b32 %r0, %r1, %r2, %r3, 0x96;",
                                                              0xf0 ^ 0xcc ^ 0xaa) R("mov.b32 %r1, 0xf0; mov.b32 %r2, "
                                                                                    "0xcc; mov.b32 %r3, 0xaa; lop3.b32 "
                                                                                    "%r0, %r1, %r2, %r3, 0x80;",
                                                                                    0x80)
                                                                R("mov.u32 %r1, 3; mov.u32 %r2, 10; sad.u32 %r0, %r1, "
                                                                  "%r2, 100;",
                                                                  107) R("mov.b32 %r1, 0xff020304; mov.b32 %r2, "
                                                                         "0x01010101; dp4a.s32.s32 %r0, %r1, %r2, 10;",
                                                                         18)
                                                                    R("mov.b32 %r1, 0xff020304; mov.b32 %r2, "
                                                                      "0x01010101; dp4a.u32.u32 %r0, %r1, %r2, 10;",
                                                                      274) R("mov.b32 %r1, 0x00ff0001; szext.wrap.s32 "
                                                                             "%r0, %r1, 1;",
                                                                             0xffffffff)
                                                                        R("mov.b32 %r1, 4; bmsk.clamp.b32 %r0, %r1, 8;",
                                                                          0xff0)
                                                                            R("mov.b32 %r1, 0x7fff0001; mov.b32 %r2, "
                                                                              "0x0001ffff; add.u16x2 %r0, %r1, %r2;",
                                                                              0x80000000) R("mov.b32 %r1, 0x7fff0001; "
                                                                                            "mov.b32 %r2, 0x0001ffff; "
                                                                                            "min.s16x2 %r0, %r1, %r2;",
                                                                                            0x0001ffff)

    /* comparison and selection */
    P(
        "mov.u32 %r1, -1; setp.lt.s32 %p0, %r1, 1;",
        1) P("mov.u32 %r1, -1; setp.lt.u32 %p0, %r1, 1;",
             0) P("mov.u32 %r1, -1; setp.hi.u32 %p0, %r1, 1;",
                  1) P("mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; setp.ne.and.u32 %p0, %r1, 4, %p1;",
                       1) P("mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; setp.ne.and.u32 %p0, %r1, 4, !%p1;",
                            0) P("mov.u32 %r1, 5; setp.eq.u32 %p1|%p0, %r1, 4;",
                                 1) P("mov.f32 %f1, " NAN_ "; setp.lt.f32 %p0, %f1, " ONE ";",
                                      0) P("mov.f32 %f1, " NAN_ "; setp.ltu.f32 %p0, %f1, " ONE ";",
                                           1) P("mov.f32 %f1, " NAN_ "; setp.ne.f32 %p0, %f1, %f1;",
                                                0) P("mov.f32 %f1, " NAN_ "; setp.neu.f32 %p0, %f1, %f1;",
                                                     1) P("mov.f32 %f1, " NAN_ "; setp.nan.f32 %p0, %f1, %f1;",
                                                          1) P("mov.f32 %f1, " TINY
                                                               "; setp.gt.ftz.f32 %p0, %f1, 0f00000000;",
                                                               0)
        P("mov.f32 %f1, " TINY "; setp.gt.f32 %p0, %f1, 0f00000000;", 1) P(
            "mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x4000; setp.lt.f16 %p0, %h1, %h2;",
            1) P("mov.b16 %h1, 0x3f80; mov.b16 %h2, 0xbf80; setp.lt.bf16 %p0, %h1, %h2;",
                 0) P("mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0x40003c00; setp.lt.f16x2 %p1|%p0, %r1, %r2;", 1)
            P("mov.f64 %fd1, 0d3FF0000000000000; setp.ge.f64 %p0, %fd1, 1.0;", 1) P(
                "mov.pred %p1, 1; mov.pred %p2, 0; xor.pred %p1, %p1, %p2; not.pred %p2, %p2; and.pred %p0, %p1, %p2;",
                1) R("mov.u32 %r1, 5; set.eq.u32.u32 %r0, %r1, 5;", 0xffffffff)
                F("mov.u32 %r1, 5; set.eq.f32.s32 %f0, %r1, 5;", 0x3f800000)
                    R("mov.u32 %r1, 5; setp.gt.u32 %p1, %r1, 9; selp.b32 %r0, 11, 22, %p1;", 22)
                        R("mov.u32 %r1, -5; slct.u32.s32 %r0, 11, 22, %r1;", 22)
                            R("mov.f32 %f1, " TWO "; slct.b32.f32 %r0, 11, 22, %f1;", 11)

    /* moves and integer conversions */
    R("mov.b16 %h1, 0x1122; mov.b16 %h2, 0x3344; mov.b32 %r0, {%h1, %h2};", 0x33441122)
        H("mov.b32 %r1, 0x33441122; mov.b32 {%h1, %h0}, %r1;", 0x3344)
            H("mov.b32 %r1, 0x33441122; mov.b32 {_, %h0}, %r1;", 0x3344)
                D("mov.b16 %h1, 1; mov.b16 %h2, 2; mov.b64 %rd0, {%h1, %h2, %h1, %h2};", 0x0002000100020001)
                    R("mov.u32 %r1, 0x180; cvt.s32.s8 %r0, %r1;", 0xffffff80)
                        R("mov.u32 %r1, 0x180; cvt.u32.u8 %r0, %r1;", 0x80)
                            D("mov.u32 %r1, -5; cvt.s64.s32 %rd0, %r1;", 0xfffffffffffffffb)
                                D("mov.u32 %r1, -5; cvt.u64.u32 %rd0, %r1;", 0xfffffffb)
                                    R("mov.u32 %r1, 300; cvt.sat.u8.u32 %r0, %r1;", 255)
                                        R("mov.u32 %r1, -300; cvt.sat.s8.s32 %r0, %r1;", 0xffffff80)
                                            R("mov.u32 %r1, -300; cvt.sat.u8.s32 %r0, %r1;", 0)
                                                H("mov.u32 %r1, 0x12345; cvt.u16.u32 %h0, %r1;", 0x2345)

    /* conversions with floats */
    R("mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r0, %f1;", 2) R(
        "mov.f32 %f1, 0fC0200000; cvt.rzi.s32.f32 %r0, %f1;",
        0xfffffffe) R("mov.f32 %f1, 0fC0200000; cvt.rmi.s32.f32 %r0, %f1;", 0xfffffffd)
        R("mov.f32 %f1, 0f40200000; cvt.rpi.s32.f32 %r0, %f1;", 3) R(
            "mov.f32 %f1, 0f7F000000; cvt.rzi.s32.f32 %r0, %f1;", 0x7fffffff)
            R("mov.f32 %f1, 0fFF000000; cvt.rzi.u32.f32 %r0, %f1;", 0) R(
                "mov.f32 %f1, " NAN_ "; cvt.rzi.s32.f32 %r0, %f1;", 0)
                D("mov.f64 %fd1, 0d43E0000000000000; cvt.rzi.s64.f64 %rd0, %fd1;", 0x7fffffffffffffff) D(
                    "mov.f64 %fd1, 0d43E0000000000000; cvt.rzi.u64.f64 %rd0, %fd1;", 0x8000000000000000)
                    F("mov.u32 %r1, 0x1000001; cvt.rn.f32.u32 %f0, %r1;", 0x4b800000) F(
                        "mov.u32 %r1, 0x1000001; cvt.rp.f32.u32 %f0, %r1;", 0x4b800001)
                        F("mov.u64 %rd1, 0x100000080000001; cvt.rn.f32.u64 %f0, %rd1;", 0x5b800000) F(
                            "mov.u64 %rd1, 0x100000100000001; cvt.rn.f32.u64 %f0, %rd1;", 0x5b800001)
                            F("mov.u64 %rd1, 0x100008000000001; cvt.rn.f32.u64 %f0, %rd1;", 0x5b800040) F(
                                "mov.u64 %rd1, 0x8000008000000001; cvt.rn.f32.u64 %f0, %rd1;", 0x5f000001)
                                FD("mov.u32 %r1, -3; cvt.rn.f64.s32 %fd0, %r1;", 0xc008000000000000) FD(
                                    "mov.u64 %rd1, 0x20000000000001; cvt.rp.f64.u64 %fd0, %rd1;", 0x4340000000000001)
                                    F("mov.f64 %fd1, 0d3FF0000010000000; cvt.rn.f32.f64 %f0, %fd1;", 0x3f800000)
                                        F("mov.f64 %fd1, 0d3FF0000010000001; cvt.rn.f32.f64 %f0, %fd1;", 0x3f800001) F(
                                            "mov.f64 %fd1, 0d3FF0000010000001; cvt.rz.f32.f64 %f0, %fd1;", 0x3f800000)
                                            FD("mov.f32 %f1, " TINY "; cvt.f64.f32 %fd0, %f1;", 0x36a0000000000000) FD(
                                                "mov.f32 %f1, " TINY "; cvt.ftz.f64.f32 %fd0, %f1;", 0)
                                                F("mov.f32 %f1, 0f3FC00000; cvt.rni.f32.f32 %f0, %f1;", 0x40000000) F(
                                                    "mov.f32 %f1, 0fC0200000; cvt.rni.f32.f32 %f0, %f1;", 0xc0000000)
                                                    F("mov.f32 %f1, 0f40200000; cvt.sat.f32.f32 %f0, %f1;", 0x3f800000)
                                                        H("mov.f32 %f1, 0f3F801000; cvt.rn.f16.f32 %h0, %f1;",
                                                          0x3c00) /* tie to even */
    H("mov.f32 %f1, 0f3F803000; cvt.rn.f16.f32 %h0, %f1;", 0x3c02)
        H("mov.f32 %f1, 0f477FF000; cvt.rn.f16.f32 %h0, %f1;", 0x7c00) /* 65520 overflows */
    H("mov.f32 %f1, 0f477FF000; cvt.rz.f16.f32 %h0, %f1;", 0x7bff)
        H("mov.f32 %f1, 0f33000000; cvt.rn.f16.f32 %h0, %f1;", 0) /* 2^-25 ties to 0 */
    H("mov.f32 %f1, 0f33000001; cvt.rn.f16.f32 %h0, %f1;", 1) H(
        "mov.f32 %f1, 0fBF800000; cvt.rn.relu.f16.f32 %h0, %f1;", 0)
        H("mov.f64 %fd1, 0d3FF0020000000001; cvt.rn.f16.f64 %h0, %fd1;", 0x3c01) /* a double rounding would give 3c00 */
    F("mov.b16 %h1, 0x0001; cvt.f32.f16 %f0, %h1;", 0x33800000) F(
        "mov.b16 %h1, 0xfc00; cvt.f32.f16 %f0, %h1;",
        0xff800000) F("mov.b16 %h1, 0x4049; cvt.f32.bf16 %f0, %h1;",
                      0x40490000) H("mov.f32 %f1, 0f3F808000; cvt.rn.bf16.f32 %h0, %f1;",
                                    0x3f80) H("mov.f32 %f1, 0f3F818000; cvt.rn.bf16.f32 %h0, %f1;",
                                              0x3f82) H("mov.f32 %f1, 0f7F7FFFFF; cvt.rn.bf16.f32 %h0, %f1;", 0x7f80)
        H("mov.u32 %r1, 257; cvt.rn.bf16.s32 %h0, %r1;", 0x4380) H(
            "mov.u32 %r1, 2049; cvt.rn.f16.u32 %h0, %r1;",
            0x6800) R("mov.f32 %f1, " ONE "; mov.f32 %f2, " TWO "; cvt.rn.f16x2.f32 %r0, %f1, %f2;", 0x3c004000)
            R("mov.f32 %f1, " ONE "; mov.f32 %f2, 0fC0000000; cvt.rn.relu.bf16x2.f32 %r0, %f1, %f2;", 0x3f800000) H(
                "mov.f32 %f1, " ONE "; mov.f32 %f2, 0f44800000; cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f2;", 0x387e)
                H("mov.f32 %f1, 0fBF800000; mov.f32 %f2, 0f3B000000; cvt.rn.satfinite.e4m3x2.f32 %h0, %f1, %f2;",
                  0xb801) H("mov.f32 %f1, " ONE "; mov.f32 %f2, 0f48000000; cvt.rn.satfinite.e5m2x2.f32 %h0, %f1, %f2;",
                            0x3c7b) R("mov.b16 %h1, 0x387e; cvt.rn.f16x2.e4m3x2 %r0, %h1;", 0x3c005f00)
                    R("mov.b16 %h1, 0x3c01; cvt.rn.f16x2.e5m2x2 %r0, %h1;", 0x3c000100)
                        H("mov.b32 %r1, 0x3c007c00; cvt.rn.satfinite.e4m3x2.f16x2 %h0, %r1;", 0x387e)
                            R("mov.f32 %f1, 0f3F801000; cvt.rna.tf32.f32 %r0, %f1;", 0x3f802000)
                                R("mov.f32 %f1, 0f3F801000; cvt.rn.tf32.f32 %r0, %f1;", 0x3f800000)

    /* float arithmetic */
    F("mov.f32 %f1, " ONE "; add.f32 %f0, %f1, " ULP1 ";", 0x3f800000) F(
        "mov.f32 %f1, " ONE "; add.rp.f32 %f0, %f1, " ULP1 ";",
        0x3f800001) F("mov.f32 %f1, " ONE "; add.rz.f32 %f0, %f1, 0fB3000000;",
                      0x3f7fffff) F("mov.f32 %f1, 0f3F000000; add.sat.f32 %f0, %f1, " ONE ";",
                                    0x3f800000) F("mov.f32 %f1, " TINY "; add.ftz.f32 %f0, %f1, %f1;",
                                                  0) F("mov.f32 %f1, " TINY "; add.f32 %f0, %f1, %f1;",
                                                       2) F("mov.f32 %f1, " INF_ "; sub.f32 %f0, %f1, %f1;", 0x7fffffff)
        F("mov.f32 %f1, 0f3F800001; mul.rn.f32 %f0, %f1, %f1;", 0x3f800002) F(
            "mov.f32 %f1, 0f3F800001; fma.rn.f32 %f0, %f1, %f1, 0fBF800002;",
            0x28800000) F("mov.f32 %f1, 0f3F800001; mad.rn.f32 %f0, %f1, " TWO ", " ONE ";", 0x40400001)
            F("mov.f32 %f1, " ONE "; div.rn.f32 %f0, %f1, 0f40400000;",
              0x3eaaaaab) F("mov.f32 %f1, " ONE "; div.rz.f32 %f0, %f1, 0f40400000;", 0x3eaaaaaa)
                F("mov.f32 %f1, " ONE "; div.approx.f32 %f0, %f1, 0f7EA00000;",
                  0) F("mov.f32 %f1, " ONE "; div.full.f32 %f0, %f1, " TWO ";",
                       0x3f000000) F("mov.f32 %f1, 0f40400000; rcp.rn.f32 %f0, %f1;",
                                     0x3eaaaaab) F("mov.f32 %f1, 0f40800000; rcp.approx.ftz.f32 %f0, %f1;", 0x3e800000)
                    F("mov.f32 %f1, " TWO "; sqrt.rn.f32 %f0, %f1;", 0x3fb504f3) F(
                        "mov.f32 %f1, " TWO
                        "; sqrt.rp.f32 %f0, %f1;",
                        0x3fb504f4) F("mov.f32 %f1, 0f40800000; rsqrt.approx.f32 %f0, %f1;", 0x3f000000)
                        F("mov.f32 %f1, 0f40400000; ex2.approx.ftz.f32 %f0, %f1;", 0x41000000) F(
                            "mov.f32 %f1, 0f41000000; lg2.approx.f32 %f0, %f1;",
                            0x40400000) F("mov.f32 %f1, 0f00000000; cos.approx.f32 %f0, %f1;", 0x3f800000)
                            F("mov.f32 %f1, 0f80000000; sin.approx.f32 %f0, %f1;", 0x80000000) F(
                                "mov.f32 %f1, " INF_ "; tanh.approx.f32 %f0, %f1;",
                                0x3f800000) F("mov.f32 %f1, " NAN_ "; min.f32 %f0, %f1, " ONE ";", 0x3f800000)
                                F("mov.f32 %f1, " NAN_ "; min.NaN.f32 %f0, %f1, " ONE ";", 0x7fffffff) F(
                                    "mov.f32 %f1, 0f80000000; max.f32 %f0, %f1, 0f00000000;",
                                    0) F("mov.f32 %f1, 0f00000000; min.f32 %f0, %f1, 0f80000000;",
                                         0x80000000) F("mov.f32 %f1, 0fC0000000; max.xorsign.abs.f32 %f0, %f1, " ONE
                                                       ";",
                                                       0xc0000000) F("mov.f32 %f1, 0fC0000000; abs.f32 %f0, %f1;",
                                                                     0x40000000)
                                    F("mov.f32 %f1, " TINY "; neg.ftz.f32 %f0, %f1;", 0x80000000) F(
                                        "mov.f32 %f1, 0fC0000000; copysign.f32 %f0, %f1, " ONE ";",
                                        0xbf800000) P("mov.f32 %f1, " TINY "; testp.subnormal.f32 %p0, %f1;", 1)
                                        P("mov.f32 %f1, " INF_ "; testp.finite.f32 %p0, %f1;", 0) FD(
                                            "mov.f64 %fd1, 0d3FF0000000000000; add.f64 %fd0, %fd1, 0d3CA0000000000000;",
                                            0x3ff0000000000000) FD("mov.f64 %fd1, 0d3FF0000000000000; add.rp.f64 %fd0, "
                                                                   "%fd1, 0d3CA0000000000000;",
                                                                   0x3ff0000000000001)
                                            FD("mov.f64 %fd1, 0d3FF0000000000001; fma.rn.f64 %fd0, %fd1, %fd1, "
                                               "0dBFF0000000000002;",
                                               0x3970000000000000) FD("mov.f64 %fd1, 0d3FF0000000000000; div.rn.f64 "
                                                                      "%fd0, %fd1, 0d4008000000000000;",
                                                                      0x3fd5555555555555)
                                                FD("mov.f64 %fd1, 0d4000000000000000; sqrt.rn.f64 %fd0, %fd1;",
                                                   0x3ff6a09e667f3bcd) FD("mov.f64 %fd1, 0d4000000000000000; max.f64 "
                                                                          "%fd0, %fd1, 0dC000000000000000;",
                                                                          0x4000000000000000)
                                                    H("mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x1000; add.rn.f16 %h0, %h1, "
                                                      "%h2;",
                                                      0x3c00) /* 1 + 2^-11: tie */
    H("mov.b16 %h1, 0x3c01; mov.b16 %h2, 0x1000; add.f16 %h0, %h1, %h2;", 0x3c02)
        H("mov.b16 %h1, 0x7bff; mov.b16 %h2, 0x7bff; add.f16 %h0, %h1, %h2;", 0x7c00)
            H("mov.b16 %h1, 0x3c01; mov.b16 %h2, 0x3c01; mul.f16 %h0, %h1, %h2;", 0x3c02) H(
                "mov.b16 %h1, 0x3c00; mov.b16 %h2, 0x3c00; mov.b16 %h3, 0x0001; fma.rn.f16 %h0, %h1, %h2, %h3;", 0x3c00)
    /* (1 + 2^-10) * 2^-11 * 1 + 1: just above the tie, which a sum rounded to double first would still see; then with
       2^-24 */
    H("mov.b16 %h1, 0x3c01; mov.b16 %h2, 0x1000; mov.b16 %h3, 0x3c00; fma.rn.f16 %h0, %h1, %h2, %h3;", 0x3c01)
        H("mov.b16 %h1, 0x3f80; mov.b16 %h2, 0x3b80; mov.b16 %h3, 0x3f80; fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3f80)
            H("mov.b16 %h1, 0x3f81; mov.b16 %h2, 0x3b80; mov.b16 %h3, 0x3f80; fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3f81)
    /* 1 + 2^-8 + 2^-133: a tie but for the smallest subnormal, far below the bits of a double */
    H("mov.b16 %h1, 0x3f81; mov.b16 %h2, 0x3f80; mov.b16 %h3, 0x0001; fma.rn.bf16 %h0, %h1, %h2, %h3;", 0x3f81)
        H("mov.b16 %h1, 0x3b80; mov.b16 %h2, 0x3f80; add.bf16 %h0, %h1, %h2;", 0x3f80)
            H("mov.b16 %h1, 0xbc00; mov.b16 %h2, 0x3c00; mov.b16 %h3, 0x0000; fma.rn.relu.f16 %h0, %h1, %h2, %h3;", 0)
                R("mov.b32 %r1, 0x3c004000; add.f16x2 %r0, %r1, %r1;", 0x40004400)
                    R("mov.b32 %r1, 0x3f804000; mul.bf16x2 %r0, %r1, %r1;", 0x3f804080) R(
                        "mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0xbc007e00; max.f16x2 %r0, %r1, %r2;", 0x3c004000)
                        R("mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0xbc007e00; max.NaN.f16x2 %r0, %r1, %r2;", 0x3c007fff)
                            R("mov.b32 %r1, 0x3f80c000; neg.bf16x2 %r0, %r1;", 0xbf804000)
                                R("mov.b32 %r1, 0x40004200; ex2.approx.f16x2 %r0, %r1;", 0x44004800)
                                    R("mov.b32 %r1, 0x00007c00; tanh.approx.f16x2 %r0, %r1;", 0x00003c00)

    /* memory */
    D("mov.u64 %rd1, out; cvta.param.u64 %rd1, %rd1; ld.u64 %rd2, [%rd1]; sub.u64 %rd0, %rd2, %rd20;", 0)
        R("ld.const.u32 %r0, [cv+8];", 30) R("mov.u64 %rd1, cv; cvta.const.u64 %rd1, %rd1; ld.u32 %r0, [%rd1+4];", 20)
            R("mov.u32 %r1, 0x8899aabb; st.local.u32 [lm], %r1; ld.local.s8 %r0, [lm+3];", 0xffffff88)
                R("mov.u32 %r1, 0x8899aabb; st.local.u32 [lm], %r1; ld.local.u16 %r0, [lm+2];", 0x8899) R(
                    "mov.u64 %rd1, lm; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+8], 77; ld.local.u32 %r0, [lm+8];", 77)
                    R("mov.u64 %rd1, sm; cvta.shared.u64 %rd2, %rd1; st.v2.u32 [%rd2], {5, 6}; bar.warp.sync -1; "
                      "ld.shared.u32 %r0, [sm+4];",
                      6) R("mov.u64 %rd1, sm; cvta.shared.u64 %rd2, %rd1; cvta.to.shared.u64 %rd3, %rd2; st.shared.u32 "
                           "[sm], 9; ld.shared.u32 %r0, [%rd3];",
                           9) D("st.local.v4.u32 [lm], {1, 2, 3, 4}; ld.local.v2.u64 {%rd1, %rd0}, [lm];", 0x400000003)
                        R("st.local.v4.u8 [lm], {1, 2, 3, 4}; ld.local.u32 %r0, [lm];", 0x04030201)
                            R("st.relaxed.gpu.global.u32 [gv], 3; ld.acquire.gpu.global.u32 %r0, [gv];", 3)
                                L('r', MEM4 "xor.b32 %r2, %r1, 4; ld.shared.u32 %r0, [%r2];", lane_xor_1)
                                    R("createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0; st.global.u32 [gv+8], 4; "
                                      "ld.global.L1::no_allocate.L2::cache_hint.u32 %r0, [gv+8], %rd1;",
                                      4) R("prefetch.global.L2 [gv]; mov.u32 %r0, 1;", 1)

    /* atomics; the lanes act one after the other */
    L('r', "mov.u32 %r1, 0; st.shared.u32 [sm], %r1; bar.warp.sync -1; atom.shared.add.u32 %r0, [sm], %r20;",
      lane_sum_before) R("st.local.u32 [lm], 0; mov.u32 %r1, 5; st.global.u32 [gv], %r1; bar.warp.sync -1; "
                         "red.global.max.u32 [gv], %r20; ld.global.u32 %r0, [gv];",
                         31) R("st.shared.u32 [sm], 0; bar.warp.sync -1; red.shared.add.s32 [sm], -1; bar.warp.sync "
                               "-1; ld.shared.u32 %r0, [sm];",
                               0xffffffe0) R("st.shared.u32 [sm], 0; bar.warp.sync -1; red.shared.inc.u32 [sm], 9; "
                                             "bar.warp.sync -1; ld.shared.u32 %r0, [sm];",
                                             2)
        R("st.shared.u32 [sm], 0; bar.warp.sync -1; mov.f32 %f1, " ONE
          "; red.shared.add.f32 [sm], %f1; bar.warp.sync -1; ld.shared.u32 %r0, [sm];",
          0x42000000) D("st.shared.u64 [sm], 0; bar.warp.sync -1; red.shared.or.b64 [sm], 0x100000001; bar.warp.sync "
                        "-1; ld.shared.u64 %rd0, [sm];",
                        0x100000001) R("st.shared.u32 [sm], 5; bar.warp.sync -1; atom.shared.cas.b32 %r1, [sm], 5, 6; "
                                       "bar.warp.sync -1; ld.shared.u32 %r0, [sm];",
                                       6)
            R("st.global.u32 [gv], 0; bar.warp.sync -1; mov.b32 %r1, 0x3c003800; "
              "red.relaxed.gpu.global.add.noftz.f16x2 [gv], %r1; ld.global.u32 %r0, [gv];",
              0x50004c00) H("st.shared.u16 [sm], 0; bar.warp.sync -1; mov.b16 %h1, 0x3c00; atom.shared.add.noftz.f16 "
                            "%h2, [sm], %h1; bar.warp.sync -1; ld.shared.b16 %h0, [sm];",
                            0x5000) R("st.global.v2.u32 [gv], {0, 0}; bar.warp.sync -1; mov.f32 %f1, " ONE
                                      "; mov.f32 %f2, " TWO
                                      "; red.global.add.v2.f32 [gv], {%f1, %f2}; ld.global.u32 %r0, [gv+4];",
                                      0x42800000)
                R("st.global.u32 [gv], 1; atom.acq_rel.gpu.global.exch.b32 %r1, [gv], 8; ld.global.u32 %r0, [gv];", 8)

    /* lanes */
    L('r', "add.u32 %r0, %r20, 5;", lane_plus_5) L('r', "shfl.sync.bfly.b32 %r0, %r20, 1, 31, -1;", lane_xor_1) L(
        'r', "shfl.sync.up.b32 %r0, %r20, 2, 0, -1;",
        lane_up_2) L('r', "shfl.sync.down.b32 %r0, %r20, 4, 31, -1;",
                     lane_down_4) L('p', "shfl.sync.down.b32 %r0|%p0, %r20, 4, 31, -1;",
                                    lane_down_ok) L('r', "shfl.sync.idx.b32 %r0, %r20, 3, 0x181f, -1;", lane_idx_8)
        R("setp.lt.u32 %p1, %r20, 4; vote.sync.ballot.b32 %r0, %p1, -1;", 15) R(
            "setp.lt.u32 %p1, %r20, 4; vote.sync.ballot.b32 %r0, !%p1, -1;",
            0xfffffff0) P("setp.lt.u32 %p1, %r20, 4; vote.sync.any.pred %p0, %p1, -1;", 1)
            P("setp.lt.u32 %p1, %r20, 4; vote.sync.all.pred %p0, %p1, -1;", 0) P(
                "setp.lt.u32 %p1, %r20, 40; vote.sync.uni.pred %p0, %p1, -1;", 1) R("activemask.b32 %r0;", 0xffffffff)
                L('r', "and.b32 %r1, %r20, 3; match.any.sync.b32 %r0, %r1, -1;",
                  lane_match4) P("match.all.sync.b32 %r1|%p0, %r20, -1;", 0) R("redux.sync.add.s32 %r0, %r20, -1;", 496)
                    R("redux.sync.max.u32 %r0, %r20, -1;", 31) R("redux.sync.xor.b32 %r0, %r20, -1;", 0)
                        L('p', "elect.sync %r1|%p0, -1;", lane_is_0) L(
                            'r', "mov.u32 %r0, %laneid; xor.b32 %r0, %r0, 1;", lane_xor_1)
                            L('r', "mov.u32 %r0, %lanemask_eq;", lane_bit) L('r', "mov.u32 %r0, %lanemask_lt;", lane_lt)
                                L('r', "mov.u32 %r0, %lanemask_ge;", lane_ge)
                                    R("mov.u32 %r1, %ntid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 "
                                      "%r0, %r1, %r2, %r3;",
                                      32) L('r',
                                            "mov.u32 %r0, %r20; setp.lt.u32 %p1, %r20, 10; @%p1 add.u32 %r0, %r0, 100;",
                                            lane_cold)

    /* matrices */
    L('r',
      "mov.u32 %r1, sm; shl.b32 %r2, %r20, 2; add.u32 %r1, %r1, %r2; mad.lo.u32 %r3, %r20, 0x20002, 0x10000;"
      " st.shared.u32 [%r1], %r3; bar.warp.sync -1; and.b32 %r4, %r20, 7; shl.b32 %r4, %r4, 4; mov.u32 %r5, sm; "
      "add.u32 %r5, %r5, %r4;"
      " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r5];",
      lane_matrix)
        L('r',
          "mov.u32 %r1, sm; shl.b32 %r2, %r20, 2; add.u32 %r1, %r1, %r2; mad.lo.u32 %r3, %r20, 0x20002, 0x10000;"
          " st.shared.u32 [%r1], %r3; bar.warp.sync -1; and.b32 %r4, %r20, 7; shl.b32 %r4, %r4, 4; mov.u32 %r5, sm; "
          "add.u32 %r5, %r5, %r4;"
          " ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r0}, [%r5];",
          lane_matrix_t) L('r',
                           "mad.lo.u32 %r3, %r20, 0x20002, 0x10000; and.b32 %r4, %r20, 7; shl.b32 %r4, %r4, 4; mov.u32 "
                           "%r5, sm; add.u32 %r5, %r5, %r4;"
                           " stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r3}; bar.warp.sync -1; mov.u32 %r1, sm; "
                           "shl.b32 %r2, %r20, 2;"
                           " add.u32 %r1, %r1, %r2; ld.shared.u32 %r0, [%r1];",
                           lane_matrix)
    /* all ones: 16 products each, plus the accumulator */
    F("mov.b32 %r1, 0x3c003c00; mov.f32 %f1, " ONE
      "; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f2,%f3,%f4},"
      " {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f1,%f1,%f1};",
      0x41880000) F("mov.b32 %r1, 0x3f803f80; mov.f32 %f1, " ONE
                    "; mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f2,%f3,%f4,%f0},"
                    " {%r1,%r1}, {%r1}, {%f1,%f1,%f1,%f1};",
                    0x41100000) F("mov.b32 %r1, 0x3f800000; mov.f32 %f1, " ONE
                                  "; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f2,%f3,%f4},"
                                  " {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%f1,%f1,%f1,%f1};",
                                  0x41100000)
        R("mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0; mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0,%r3},"
          " {%r1,%r1,%r1,%r1}, {%r1,%r1}, {%r2,%r2};",
          0x4c004c00) R("mov.b32 %r1, 0xff020304; mov.b32 %r2, 0x01010101; mov.b32 %r3, 5; "
                        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r0,%r4,%r5,%r6},"
                        " {%r1,%r1,%r1,%r1}, {%r2,%r2}, {%r3,%r3,%r3,%r3};",
                        69)

    /* asynchronous copies: the odd lanes fill with zeros */
    L('r',
      "st.global.u32 [gv+16], 7; mov.u32 %r1, sm; shl.b32 %r2, %r20, 2; add.u32 %r1, %r1, %r2; and.b32 %r3, %r20, 1; "
      "xor.b32 %r3, %r3, 1;"
      " shl.b32 %r3, %r3, 2; mov.u64 %rd1, gv; cp.async.ca.shared.global [%r1], [%rd1+16], 4, %r3; "
      "cp.async.commit_group;"
      " cp.async.wait_group 0; ld.shared.u32 %r0, [%r1];",
      lane_copy)};

enum { EMU_NCASES = sizeof emu_cases / sizeof *emu_cases };

#undef R
#undef D
#undef H
#undef F
#undef FD
#undef P
#undef L

#endif
