/* Whole kernels for test_emu.c: control flow, barriers, and what the checks report. Each runs as one block; the result
 * of thread t is the 8 bytes at %rd21. The bodies share the registers and variables that test_emu.c declares in front
 * of them. */
#ifndef TESTS_UNIT_EMU_PROGRAMS_H
#define TESTS_UNIT_EMU_PROGRAMS_H

#include "runtime/emu/emu.h"

typedef struct emu_program {
  const char *name, *body;
  unsigned threads;
  emu_status status;
  const char *says; /* part of the report, NULL when there is none */
  uint64_t (*want)(unsigned thread);
} emu_program;

static uint64_t collatz(unsigned t) {
  uint64_t n = t + 1, k = 0;
  for (; n != 1; k++) n = n % 2 ? 3 * n + 1 : n / 2;
  return k;
}
static uint64_t zero(unsigned t) { return t * 0; }
static uint64_t nested(unsigned t) { return (t & 1 ? (t & 2 ? 11u : 12u) : 13u) + 100; }
static uint64_t table4(unsigned t) { return (t & 3) == 0 ? 5 : (t & 3) == 1 ? 6 : (t & 3) == 2 ? 7 : 5; }
static uint64_t called(unsigned t) { return t < 7 ? 2 * t : t; }
static uint64_t next_thread(unsigned t) { return (t + 1) % 128; }
static uint64_t count_even(unsigned t) { return 64 + 0 * t; }
static uint64_t sum_128(unsigned t) { return 127 * 128 / 2 + 0 * t; }
static uint64_t plus_warp(unsigned t) { return t < 32 ? 0 : t - 32; }
static uint64_t one_lock(unsigned t) { return 32 + 0 * t; }
static uint64_t pairs(unsigned t) { return t ^ 1; }
static uint64_t plus_one(unsigned t) { return t + 1; }
static uint64_t triple(unsigned t) { return 3 * t; }
static uint64_t ring_sum(unsigned t) { return t < 32 ? 0 : t * 7; }
static uint64_t early(unsigned t) { return t < 40 ? 0 : 7; }

#define SET_UP /* an mbarrier for COUNT arrivals at sm */ \
  " setp.eq.u32 %p1, %r20, 0;\n mov.u32 %r10, sm;\n @%p1 mbarrier.init.shared::cta.b64 [%r10], "
#define READY \
  ";\n fence.mbarrier_init.release.cluster;\n cvt.u64.u32 %rd9, %r20;\n st.global.u64 [%rd21], %rd9;\n bar.sync 0;\n"
#define WAIT "WAIT:\n mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r10], 0;\n @!%p2 bra WAIT;\n"
#define STORE " st.global.b32 [%rd21], %r0;\n"

static const emu_program emu_programs[] = {
    {"loop with a trip count of its own in each lane",
     " add.u32 %r1, %r20, 1;\n mov.u32 %r0, 0;\nLOOP:\n setp.eq.u32 %p1, %r1, 1;\n @%p1 bra DONE;\n and.b32 %r2, %r1, "
     "1;\n"
     " setp.eq.u32 %p2, %r2, 1;\n @%p2 bra ODD;\n shr.u32 %r1, %r1, 1;\n bra NEXT;\nODD:\n mad.lo.u32 %r1, %r1, 3, "
     "1;\nNEXT:\n"
     " add.u32 %r0, %r0, 1;\n bra LOOP;\nDONE:\n" STORE,
     64, EMU_OK, NULL, collatz},
    {"nested branches meet again before a vote of the whole warp",
     " and.b32 %r1, %r20, 1;\n setp.eq.u32 %p1, %r1, 0;\n @%p1 bra EVEN;\n and.b32 %r1, %r20, 2;\n setp.eq.u32 %p1, "
     "%r1, 0;\n"
     " @%p1 bra B;\n mov.u32 %r0, 11;\n bra JOIN;\nB:\n mov.u32 %r0, 12;\n bra JOIN;\nEVEN:\n mov.u32 %r0, 13;\nJOIN:\n"
     " setp.ne.u32 %p2, %r0, 0;\n vote.sync.ballot.b32 %r2, %p2, 0xffffffff;\n activemask.b32 %r3;\n"
     " setp.eq.and.u32 %p3, %r3, 0xffffffff, %p2;\n @%p3 add.u32 %r0, %r0, 100;\n" STORE,
     32, EMU_OK, NULL, nested},
    {"a sync instruction waits for lanes that come from behind",
     " setp.lt.u32 %p1, %r20, 5;\n @%p1 bra COLD;\nHOT:\n setp.eq.u32 %p2, %r20, %r20;\n"
     " vote.sync.ballot.b32 %r0, %p2, 0xffffffff;\n setp.eq.u32 %p3, %r0, 0xffffffff;\n selp.b32 %r0, 0, 1, "
     "%p3;\n" STORE " ret;\nCOLD:\n bra HOT;\n",
     32, EMU_OK, NULL, zero},
    {"branch table",
     " and.b32 %r1, %r20, 3;\nTAB:\n .branchtargets L5, L6, L7, L5;\n brx.idx %r1, TAB;\nL5:\n mov.u32 %r0, 5;\n bra "
     "END;\nL6:\n"
     " mov.u32 %r0, 6;\n bra END;\nL7:\n mov.u32 %r0, 7;\nEND:\n" STORE,
     32, EMU_OK, NULL, table4},
    {"branch table index out of range",
     "TAB:\n .branchtargets L5, L6;\n brx.idx %r20, TAB;\nL5:\n mov.u32 %r0, 5;\nL6:\n" STORE, 32, EMU_FAULT,
     "past its table", NULL},
    {"a call by some of the lanes",
     " mov.u32 %r0, %r20;\n setp.ge.u32 %p1, %r20, 7;\n @%p1 bra SKIP;\n {\n .param .b32 p0;\n .param .b32 q0;\n"
     " st.param.b32 [p0], %r20;\n call.uni (q0), twice, (p0);\n ld.param.b32 %r0, [q0];\n }\nSKIP:\n bar.warp.sync "
     "0xffffffff;\n" STORE,
     32, EMU_OK, NULL, called},
    {"exchange through shared memory across a barrier",
     " shl.b32 %r1, %r20, 2;\n mov.u32 %r2, sm;\n add.u32 %r3, %r2, %r1;\n st.shared.u32 [%r3], %r20;\n bar.sync 0;\n"
     " add.u32 %r4, %r20, 1;\n and.b32 %r4, %r4, 127;\n shl.b32 %r4, %r4, 2;\n add.u32 %r4, %r2, %r4;\n ld.shared.u32 "
     "%r0, [%r4];\n" STORE,
     128, EMU_OK, NULL, next_thread},
    {"the same without the barrier is a race",
     " shl.b32 %r1, %r20, 2;\n mov.u32 %r2, sm;\n add.u32 %r3, %r2, %r1;\n st.shared.u32 [%r3], %r20;\n"
     " xor.b32 %r4, %r1, 128;\n add.u32 %r4, %r2, %r4;\n bar.warp.sync -1;\n st.shared.u32 [%r4], %r20;\n" STORE,
     64, EMU_FAULT, "race in shared memory: write of 'sm'", NULL},
    {"a write after others have read needs a barrier too",
     " shl.b32 %r1, %r20, 2;\n mov.u32 %r2, sm;\n add.u32 %r3, %r2, %r1;\n st.shared.u32 [%r3], %r20;\n bar.sync 0;\n"
     " ld.shared.u32 %r0, [sm];\n setp.eq.u32 %p1, %r20, 32;\n @%p1 st.shared.u32 [sm], %r20;\n" STORE,
     64, EMU_FAULT, "and write by warp 1 at PTX line", NULL},
    {"lanes of one warp are ordered by the program",
     " shl.b32 %r1, %r20, 2;\n mov.u32 %r2, sm;\n add.u32 %r3, %r2, %r1;\n st.shared.u32 [%r3], %r20;\n bar.warp.sync "
     "-1;\n"
     " xor.b32 %r1, %r1, 4;\n add.u32 %r3, %r2, %r1;\n ld.shared.u32 %r0, [%r3];\n" STORE,
     32, EMU_OK, NULL, pairs},
    {"reading shared memory that nobody wrote", " ld.shared.u32 %r0, [sm+16];\n" STORE, 32, EMU_FAULT,
     "never written: 'sm' + 16", NULL},
    {"a producer and a consumer warp on a named barrier",
     " mov.u32 %r2, sm;\n and.b32 %r1, %r20, 31;\n shl.b32 %r1, %r1, 2;\n add.u32 %r2, %r2, %r1;\n mov.u32 %r0, 0;\n"
     " setp.ge.u32 %p1, %r20, 32;\n @%p1 bra CONSUME;\n st.shared.u32 [%r2], %r20;\n bar.arrive 1, 64;\n bra "
     "END;\nCONSUME:\n"
     " bar.sync 1, 64;\n ld.shared.u32 %r0, [%r2];\nEND:\n" STORE,
     64, EMU_OK, NULL, plus_warp},
    {"barrier with a reduction",
     " and.b32 %r1, %r20, 1;\n setp.eq.u32 %p1, %r1, 0;\n bar.red.popc.u32 %r0, 0, %p1;\n" STORE, 128, EMU_OK, NULL,
     count_even},
    {"shared atomics of all warps, then a barrier",
     " setp.eq.u32 %p1, %r20, 0;\n mov.u32 %r1, 0;\n @%p1 st.shared.u32 [sm], %r1;\n bar.sync 0;\n"
     " red.shared.add.u32 [sm], %r20;\n bar.sync 0;\n ld.shared.u32 %r0, [sm];\n" STORE,
     128, EMU_OK, NULL, sum_128},
    {"a spin lock among the lanes of a warp",
     "SPIN:\n atom.global.cas.b32 %r1, [gv], 0, 1;\n setp.ne.u32 %p1, %r1, 0;\n @%p1 bra SPIN;\n "
     "ld.volatile.global.u32 %r2, [gv+4];\n"
     " add.u32 %r2, %r2, 1;\n st.volatile.global.u32 [gv+4], %r2;\n membar.gl;\n atom.global.exch.b32 %r1, [gv], 0;\n"
     " bar.warp.sync -1;\n ld.global.u32 %r0, [gv+4];\n" STORE,
     32, EMU_OK, NULL, one_lock},
    {"a flag with release and acquire orders shared memory",
     " mov.u32 %r0, 0;\n mov.u32 %r3, 1;\n setp.eq.u32 %p1, %r20, 0;\n mov.u32 %r4, 0;\n @%p1 st.shared.u32 [sm+8], "
     "%r4;\n bar.sync 0;\n"
     " setp.ge.u32 %p2, %r20, 32;\n @%p2 bra READ;\n @!%p1 bra END;\n mov.u32 %r5, 0;\n st.shared.u32 [sm], %r5;\n"
     " st.release.cta.shared.u32 [sm+8], %r3;\n bra END;\nREAD:\n ld.acquire.cta.shared.u32 %r4, [sm+8];\n setp.eq.u32 "
     "%p3, %r4, 0;\n"
     " @%p3 bra READ;\n ld.shared.u32 %r0, [sm];\nEND:\n" STORE,
     64, EMU_OK, NULL, zero},
    {"threads that have left do not hold up a barrier",
     " setp.lt.u32 %p1, %r20, 40;\n @%p1 exit;\n barrier.sync 0;\n mov.u32 %r0, 7;\n" STORE, 64, EMU_OK, NULL, early},
    {"deadlock", " setp.lt.u32 %p1, %r20, 32;\n @%p1 bra A;\n bar.sync 1, 64;\n bra E;\nA:\n bar.sync 2, 64;\nE:\n", 64,
     EMU_FAULT, "warp 1, lanes 0xffffffff: bar.sync at PTX line", NULL},
    {"aligned barrier in divergent code",
     " setp.lt.u32 %p1, %r20, 3;\n @%p1 bra A;\n bar.sync 0;\n bra E;\nA:\n bar.sync 0;\nE:\n", 32, EMU_FAULT,
     "deadlock", NULL},
    {"barrier counts that disagree",
     " setp.lt.u32 %p1, %r20, 32;\n @%p1 bra A;\n bar.sync 1, 64;\n bra E;\nA:\n bar.sync 1, 96;\nE:\n", 64, EMU_FAULT,
     "barrier 1 is used with", NULL},
    {"read past a buffer", " ld.global.u32 %r0, [%rd20+8192];\n", 32, EMU_FAULT,
     "read of 4 bytes out of bounds at global address 0x200002000: 0 bytes past the end of 'out' (8192 bytes)", NULL},
    {"write before a buffer", " st.global.v2.u32 [%rd20+-8], {%r20, %r20};\n", 32, EMU_FAULT,
     "8 bytes before the start of 'out'", NULL},
    {"misaligned vector", " ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%rd20+8];\n", 32, EMU_FAULT,
     "misaligned read of 16 bytes", NULL},
    {"null pointer", " mov.u64 %rd1, 0;\n ld.global.u32 %r0, [%rd1];\n", 32, EMU_FAULT, "null pointer", NULL},
    {"shared memory out of bounds", " st.shared.u32 [sm+1024], %r20;\n", 32, EMU_FAULT,
     "0 bytes past the end of 'sm' (1024 bytes)", NULL},
    {"local memory out of bounds", " st.local.u32 [lm+64], %r20;\n", 32, EMU_FAULT, "out of bounds at local address",
     NULL},
    {"write to constant memory through a generic address",
     " mov.u64 %rd1, cv;\n cvta.const.u64 %rd1, %rd1;\n st.u32 [%rd1], %r20;\n", 32, EMU_FAULT,
     "write to constant memory", NULL},
    {"trap in one lane", " setp.eq.u32 %p1, %r20, 9;\n @%p1 trap;\n", 32, EMU_FAULT, "thread (9,0,0)", NULL},
    {"endless loop", "L:\n bra L;\n", 32, EMU_TIMEOUT, "used up its", NULL},
    {"shuffle from a lane that is not there",
     " setp.lt.u32 %p1, %r20, 16;\n @!%p1 bra E;\n shfl.sync.bfly.b32 %r0, %r20, 16, 31, 0xffff;\nE:\n", 32, EMU_FAULT,
     "does not take part", NULL},
    {"lane outside its own mask", " shfl.sync.bfly.b32 %r0, %r20, 1, 31, 1;\n", 32, EMU_FAULT, "lacks the lane itself",
     NULL},
    {"asynchronous copy read too early",
     " mov.u32 %r1, sm;\n shl.b32 %r2, %r20, 4;\n add.u32 %r1, %r1, %r2;\n cvt.u64.u32 %rd1, %r2;\n add.u64 %rd1, "
     "%rd20, %rd1;\n"
     " cp.async.cg.shared.global [%r1], [%rd1], 16;\n cp.async.commit_group;\n ld.shared.u32 %r0, [%r1];\n" STORE,
     32, EMU_FAULT, "in flight", NULL},
    {"asynchronous copy, wait, but no barrier",
     " mov.u32 %r1, sm;\n and.b32 %r2, %r20, 31;\n shl.b32 %r2, %r2, 4;\n add.u32 %r1, %r1, %r2;\n cvt.u64.u32 %rd1, "
     "%r2;\n"
     " add.u64 %rd1, %rd20, %rd1;\n setp.lt.u32 %p1, %r20, 32;\n @%p1 cp.async.cg.shared.global [%r1], [%rd1], 16;\n"
     " cp.async.commit_group;\n cp.async.wait_group 0;\n ld.shared.u32 %r0, [%r1];\n" STORE,
     64, EMU_FAULT, "race", NULL},
    {"bulk load announced by an mbarrier",
     SET_UP "1" READY " @!%p1 bra WAIT;\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;\n"
            " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+128], [%rd20], 512, [%r10];\n" WAIT
            " mad.lo.u32 %r1, %r20, 8, %r10;\n ld.shared.u32 %r0, [%r1+128];\n add.u32 %r0, %r0, 1;\n" STORE,
     64, EMU_OK, NULL, plus_one},
    {"bulk load read without waiting",
     SET_UP "1" READY " @!%p1 bra END;\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;\n"
            " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+128], [%rd20], 512, [%r10];\n"
            " ld.shared.u32 %r0, [sm+128];\nEND:\n",
     64, EMU_FAULT, "while a copy into it is in flight", NULL},
    {"mbarrier used before all threads know that it is there",
     SET_UP "1"
            ";\n setp.eq.u32 %p3, %r20, 32;\n @%p3 mbarrier.arrive.shared::cta.b64 %rd1, [%r10];\n",
     64, EMU_FAULT, "race", NULL},
    {"mbarrier without initialisation",
     " st.shared.u64 [sm], 0;\n bar.warp.sync -1;\n mbarrier.arrive.shared::cta.b64 %rd1, [sm];\n", 1, EMU_FAULT,
     "is not initialised", NULL},
    {"more arrivals than an mbarrier expects in one phase",
     SET_UP "2" READY " @%p1 mbarrier.arrive.shared::cta.b64 %rd1, [%r10], 3;\n", 32, EMU_FAULT,
     "3 arrivals at an mbarrier that expects 2", NULL},
    {"phases by token",
     SET_UP
     "64" READY
     " mbarrier.arrive.shared::cta.b64 %rd1, [%r10];\nW:\n mbarrier.test_wait.shared::cta.b64 %p2, [%r10], %rd1;\n"
     " @!%p2 bra W;\n add.u32 %r0, %r20, 1;\n" STORE,
     64, EMU_OK, NULL, plus_one},
    {"cp.async announced by an mbarrier",
     SET_UP
     "32" READY
     " shl.b32 %r1, %r20, 3;\n cvt.u64.u32 %rd1, %r1;\n add.u64 %rd1, %rd20, %rd1;\n add.u32 %r1, %r10, %r1;\n"
     " cp.async.ca.shared.global [%r1+128], [%rd1], 8;\n cp.async.mbarrier.arrive.noinc.shared.b64 [%r10];\n" WAIT
     " xor.b32 %r1, %r20, 1;\n mad.lo.u32 %r1, %r1, 8, %r10;\n ld.shared.u32 %r0, [%r1+128];\n" STORE,
     32, EMU_OK, NULL, pairs},
    {"bulk store of a bulk group",
     " mul.lo.u32 %r1, %r20, 3;\n mov.u32 %r2, sm;\n mad.lo.u32 %r2, %r20, 8, %r2;\n cvt.u64.u32 %rd1, %r1;\n "
     "st.shared.u64 [%r2], %rd1;\n"
     " fence.proxy.async.shared::cta;\n bar.sync 0;\n setp.eq.u32 %p1, %r20, 0;\n @!%p1 bra END;\n"
     " cp.async.bulk.global.shared::cta.bulk_group [%rd20], [sm], 512;\n cp.async.bulk.commit_group;\n "
     "cp.async.bulk.wait_group 0;\nEND:\n",
     64, EMU_OK, NULL, triple},
    {"bulk store whose source is overwritten",
     " st.shared.v4.u32 [sm], {1, 2, 3, 4};\n cp.async.bulk.global.shared::cta.bulk_group [%rd20], [sm], 16;\n"
     " cp.async.bulk.commit_group;\n st.shared.u32 [sm], 5;\n cp.async.bulk.wait_group.read 0;\n",
     1, EMU_FAULT, "while a bulk copy out of it is in flight", NULL},
    {"bulk store that nobody waits for",
     " st.shared.v4.u32 [sm], {1, 2, 3, 4};\n cp.async.bulk.global.shared::cta.bulk_group [%rd20], [sm], 16;\n", 1,
     EMU_FAULT, "the thread ends while its bulk copy", NULL},
    {"bulk load of a bad size",
     SET_UP "1" READY
            " mov.u32 %r5, 24;\n @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+128], "
            "[%rd20], %r5, [%r10];\n",
     32, EMU_FAULT, "must be multiples of 16", NULL},
    {"bulk load over data that others still read",
     SET_UP
     "1" READY " @!%p1 bra WAIT;\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;\n"
     " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+128], [%rd20], 512, [%r10];\n" WAIT
     " mad.lo.u32 %r1, %r20, 8, %r10;\n ld.shared.u32 %r0, [%r1+128];\n @!%p1 bra END;\n "
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;\n"
     " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+128], [%rd20], 512, [%r10];\nEND:\n",
     64, EMU_FAULT, "shared memory", NULL},
    /* Two stages with a full and an empty mbarrier each: warp 0 loads, warp 1 adds up seven rounds of 32 numbers. */
    {"ring of two buffers",
     " mov.u32 %r10, sm;\n mov.u32 %r0, 0;\n setp.eq.u32 %p1, %r20, 0;\n @!%p1 bra UP;\n"
     " mbarrier.init.shared::cta.b64 [%r10], 1;\n mbarrier.init.shared::cta.b64 [%r10+8], 1;\n"
     " mbarrier.init.shared::cta.b64 [%r10+16], 1;\n mbarrier.init.shared::cta.b64 [%r10+24], 1;\nUP:\n"
     " cvt.u64.u32 %rd1, %r20;\n st.global.u64 [%rd21], %rd1;\n bar.sync 0;\n mov.u32 %r1, 0;\n setp.ge.u32 %p2, %r20, "
     "32;\n @%p2 bra CONSUME;\n"
     " @!%p1 bra END;\nPRODUCE:\n and.b32 %r2, %r1, 1;\n mad.lo.u32 %r3, %r2, 8, %r10;\n mad.lo.u32 %r4, %r2, 256, "
     "%r10;\n shr.u32 %r5, %r1, 1;\n"
     " and.b32 %r5, %r5, 1;\n xor.b32 %r5, %r5, 1;\nEMPTY:\n mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3+16], "
     "%r5;\n @!%p3 bra EMPTY;\n"
     " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;\n"
     " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4+128], [%rd20+256], 256, [%r3];\n"
     " add.u32 %r1, %r1, 1;\n setp.lt.u32 %p4, %r1, 7;\n @%p4 bra PRODUCE;\n bra END;\nCONSUME:\n and.b32 %r2, %r1, "
     "1;\n"
     " mad.lo.u32 %r3, %r2, 8, %r10;\n mad.lo.u32 %r4, %r2, 256, %r10;\n and.b32 %r6, %r20, 31;\n mad.lo.u32 %r4, %r6, "
     "8, %r4;\n"
     " shr.u32 %r5, %r1, 1;\n and.b32 %r5, %r5, 1;\nFULL:\n mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], "
     "%r5;\n @!%p3 bra FULL;\n"
     " ld.shared.u32 %r7, [%r4+128];\n add.u32 %r0, %r0, %r7;\n add.u32 %r0, %r0, %r1;\n bar.warp.sync -1;\n "
     "setp.eq.u32 %p5, %r6, 0;\n"
     " @%p5 mbarrier.arrive.shared::cta.b64 _, [%r3+16];\n add.u32 %r1, %r1, 1;\n setp.lt.u32 %p4, %r1, 7;\n @%p4 bra "
     "CONSUME;\n"
     " sub.u32 %r0, %r0, 21;\n bra OUT;\nEND:\n mov.u32 %r0, 0;\nOUT:\n" STORE,
     64, EMU_OK, NULL, ring_sum},
};

enum { EMU_NPROGRAMS = sizeof emu_programs / sizeof *emu_programs };

#undef STORE
#undef SET_UP
#undef READY
#undef WAIT

#endif
