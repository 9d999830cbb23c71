/* The PTX emulator: one small kernel per instruction form with its expected result, then control flow, barriers, checks
 * and errors. All kernels of the table are one module, which ptxas assembles too where it is installed: what the
 * emulator accepts must be PTX. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/emu/emu.h"
#include "tests/unit/emu_cases.h"
#include "tests/unit/emu_programs.h"

static const char head[] = ".version 8.6\n.target sm_90a\n.address_size 64\n";

static const char table_head[] =
    ".global .align 16 .b8 gv[64];\n"
    ".const .align 4 .u32 cv[4] = {10, 20, 30, 40};\n"
    ".func (.param .b32 r) twice(.param .b32 a) {\n"
    " .reg .b32 %r<3>;\n ld.param.b32 %r1, [a];\n add.u32 %r1, %r1, %r1;\n st.param.b32 [r], %r1;\n ret;\n}\n";

static const char registers[] =
    " .reg .b32 %r<32>;\n .reg .b64 %rd<32>;\n .reg .f32 %f<16>;\n .reg .f64 %fd<16>;\n .reg .b16 %h<16>;\n .reg .pred "
    "%p<8>;\n"
    " .shared .align 16 .b8 sm[1024];\n .local .align 16 .b8 lm[64];\n"
    " ld.param.u64 %rd20, [out];\n cvta.to.global.u64 %rd20, %rd20;\n mov.u32 %r20, %tid.x;\n"
    " mad.wide.u32 %rd21, %r20, 8, %rd20;\n";

/* Where the result of a case is: the register class letter of emu_cases.h. */
static const char *store_of(char where) {
  switch (where) {
    case 'r': return " st.global.b32 [%rd21], %r0;\n";
    case 'd': return " st.global.b64 [%rd21], %rd0;\n";
    case 'h': return " st.global.b16 [%rd21], %h0;\n";
    case 'f': return " st.global.f32 [%rd21], %f0;\n";
    case 'F': return " st.global.f64 [%rd21], %fd0;\n";
    default: return " selp.b32 %r0, 1, 0, %p0;\n st.global.b32 [%rd21], %r0;\n";
  }
}

typedef struct buffer {
  char *s;
  size_t n, cap;
} buffer;

static void add(buffer *b, const char *s) {
  size_t n = strlen(s);
  if (b->n + n + 1 > b->cap) {
    b->cap = (b->n + n + 1) * 2;
    b->s = realloc(b->s, b->cap);
  }
  memcpy(b->s + b->n, s, n + 1);
  b->n += n;
}

static void add_kernel(buffer *b, const char *name, const char *body, const char *tail) {
  add(b, ".visible .entry ");
  add(b, name);
  add(b, "(.param .u64 out)\n{\n");
  add(b, registers);
  add(b, body);
  add(b, "\n");
  add(b, tail);
  add(b, " ret;\n}\n");
}

static emu_module *parse(const char *text) {
  emu_error err;
  emu_module *m = emu_parse(text, strlen(text), &err);
  if (m == NULL) cr_log_error("line %u: %s", err.line, err.text);
  return m;
}

static char *table_text(void) {
  buffer b = {0};
  add(&b, head);
  add(&b, table_head);
  for (size_t k = 0; k < EMU_NCASES; k++) {
    char name[32];
    snprintf(name, sizeof name, "k%zu", k);
    add_kernel(&b, name, emu_cases[k].body, store_of(emu_cases[k].where));
  }
  return b.s;
}

typedef struct run {
  uint64_t out[1024];
  emu_report report;
  emu_status status;
  char printed[256];
  size_t nprinted;
} run;

static void on_print(void *user, const char *text, size_t len) {
  run *r = user;
  if (r->nprinted + len < sizeof r->printed) memcpy(r->printed + r->nprinted, text, len);
  r->nprinted += len;
}

static void launch(emu_module *m, const char *name, unsigned threads, uint64_t budget, run *r) {
  emu_machine *mc = emu_machine_new();
  uint64_t device = 0;
  memset(r, 0, sizeof *r);
  cr_assert(emu_map(mc, r->out, sizeof r->out, "out", 0, &device));
  emu_launch_options o = {.grid = {1, 1, 1}, .block = {threads, 1, 1}, .params = &device, .params_size = sizeof device};
  o.max_instructions = budget;
  o.print = on_print;
  o.user = r;
  r->status = emu_launch(mc, m, emu_module_kernel(m, name), &o, &r->report);
  emu_machine_free(mc);
}

Test(emu, instructions) {
  char *text = table_text();
  emu_module *m = parse(text);
  cr_assert_not_null(m);
  static run r;
  for (size_t k = 0; k < EMU_NCASES; k++) {
    const emu_case *c = &emu_cases[k];
    char name[32];
    snprintf(name, sizeof name, "k%zu", k);
    launch(m, name, 32, 100000, &r);
    cr_expect_eq(r.status, EMU_OK, "%s: %s", c->body, r.report.text);
    for (unsigned l = 0; l < 32; l++) {
      uint64_t want = c->by_lane != NULL ? c->by_lane(l) : c->want;
      if (r.out[l] == want) continue;
      cr_expect(false, "%s: lane %u gives 0x%llx, not 0x%llx", c->body, l, (unsigned long long)r.out[l],
                (unsigned long long)want);
      break;
    }
  }
  emu_module_free(m);
  free(text);
}

static bool assembles(const char *text, const char *arch) {
  char path[] = "/tmp/emu-test-XXXXXX", command[256];
  int fd = mkstemp(path);
  if (fd < 0) return false;
  size_t n = strlen(text);
  bool written = write(fd, text, n) == (ssize_t)n;
  close(fd);
  snprintf(command, sizeof command, "/usr/local/cuda/bin/ptxas -O1 -arch=%s %s -o /dev/null", arch, path);
  bool ok = written && system(command) == 0;
  unlink(path);
  return ok;
}

Test(emu, cases_are_ptx) {
  if (access("/usr/local/cuda/bin/ptxas", X_OK) != 0) return;
  char *text = table_text();
  cr_expect(assembles(text, "sm_90a"));
  free(text);
}

/* programs: several warps, control flow, and the checks */

static emu_module *program_module(const emu_program *p) {
  buffer b = {0};
  add(&b, head);
  add(&b, table_head);
  add_kernel(&b, "p", p->body, "");
  emu_module *m = parse(b.s);
  free(b.s);
  return m;
}

Test(emu, programs) {
  static run r;
  for (size_t k = 0; k < EMU_NPROGRAMS; k++) {
    const emu_program *p = &emu_programs[k];
    emu_module *m = program_module(p);
    cr_expect_not_null(m, "%s", p->name);
    if (m == NULL) continue;
    launch(m, "p", p->threads, 200000, &r);
    cr_expect_eq(r.status, p->status, "%s: %s: %s", p->name, emu_status_text(r.status), r.report.text);
    if (p->says != NULL) cr_expect_not_null(strstr(r.report.text, p->says), "%s: %s", p->name, r.report.text);
    for (unsigned t = 0; p->want != NULL && t < p->threads; t++)
      cr_expect_eq(r.out[t], p->want(t), "%s: thread %u gives %llu, not %llu", p->name, t, (unsigned long long)r.out[t],
                   (unsigned long long)p->want(t));
    emu_module_free(m);
  }
}

Test(emu, programs_are_ptx) {
  if (access("/usr/local/cuda/bin/ptxas", X_OK) != 0) return;
  buffer b = {0};
  add(&b, head);
  add(&b, table_head);
  for (size_t k = 0; k < EMU_NPROGRAMS; k++) {
    char name[16];
    snprintf(name, sizeof name, "p%zu", k);
    add_kernel(&b, name, emu_programs[k].body, "");
  }
  cr_expect(assembles(b.s, "sm_90a"));
  free(b.s);
}

/* texts that are refused */

typedef struct refusal {
  const char *body, *says;
} refusal;

static const refusal refusals[] = {
    {"frob.u32 %r0, %r1;", "instruction 'frob.u32' is not known"},
    {"add.frob.u32 %r0, %r1, %r2;", "modifier '.frob' of 'add' is not known"},
    {"add.ftz.u32 %r0, %r1, %r2;", "does not take"},
    {"add.rn.rz.f32 %f0, %f1, %f2;", "does not take modifier '.rz'"},
    {"add.u32 %r0, %r1;", "too few operands"},
    {"add.u32 %r0, %r1, %r2, %r3;", "too many operands"},
    {"add.u32 5, %r1, %r2;", "operand 1 of 'add' is of the wrong kind"},
    {"add.u32 %r0, %r99, %r2;", "register '%r99' is not known"},
    {"add.u32 %r0, %nope, %r2;", "register '%nope' is not known"},
    {"bra NOWHERE;", "label 'NOWHERE' is not defined"},
    {"@%r0 bra X;\nX:", "'%r0' is not a predicate register"},
    {"ld.global.v4.u32 {%r0, %r1}, [%rd0];", "number of data registers"},
    {"ld.global.v8.b64 {%rd0,%rd1,%rd2,%rd3,%rd4,%rd5,%rd6,%rd7}, [%rd0];", "at most 32 bytes"},
    {"ld.global.u32 %r0, [nope];", "'nope' is not declared"},
    {"mov.b64 %rd0, {%r0};", "do not fill the type"},
    {"cvt.f32.f64 %f0, %fd0;", "needs a rounding mode"},
    {"cvt.s32.f32 %r0, %f0;", ".rni, .rzi"},
    {"div.f32 %f0, %f1, %f2;", "rounding mode or an approximation"},
    {"call (%r0), twice, (%r1);", "must be .param variables"},
    {"tcgen05.fence::before_thread_sync;", "is not known"},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.im2col [%r0], [%rd0, {%r1, %r2}], [%r1];", "'.im2col'"},
    {".reg .b128 %q<2>;", "128-bit registers"},
    {".frob 5;", "'.frob' is not supported"},
    {"mov.b32 %r0, 0f3F8;", "8 hexadecimal digits"},
    {"mov.u64 %rd0, 99999999999999999999;", "does not fit"},
    {"add.u32 %r0, %r1, %r2", "expected ','"},
    {"/* open", "comment without an end"},
    {"L: L: ret;", "declared twice"},
    {".pragma \"frob\";", "pragma \"frob\""},
    {"setp.lo.f32 %p0, %f0, %f1;", "comparison"},
    {"mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1,%r2,%r3}, {%r4,%r5}, "
     "{%f0,%f1,%f2,%f3};",
     "'.row'"},
};

Test(emu, refusals) {
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++) {
    buffer b = {0};
    add(&b, head);
    add(&b, table_head);
    unsigned line = 1;
    add(&b, ".visible .entry p(.param .u64 out)\n{\n");
    add(&b, registers);
    for (const char *c = b.s; *c != '\0'; c++) line += *c == '\n';
    add(&b, refusals[k].body);
    add(&b, "\nret;\n}\n");
    emu_error err;
    emu_module *m = emu_parse(b.s, b.n, &err);
    cr_expect_null(m, "%s was accepted", refusals[k].body);
    cr_expect_not_null(strstr(err.text, refusals[k].says), "%s: %s", refusals[k].body, err.text);
    cr_expect(err.line >= line && err.line <= line + 3, "%s: line %u, not %u", refusals[k].body, err.line, line);
    emu_module_free(m);
    free(b.s);
  }
  emu_error err;
  cr_expect_null(emu_parse("", 0, &err));
  cr_expect_null(emu_parse("\0\0\xff", 3, &err));
  cr_expect_null(emu_parse(".version 8.0\n.target gfx900\n", 28, &err));
  cr_expect_eq(err.line, 2u);
}

/* matrix products against the fragment formulas of the PTX ISA, written per element */

static const char mma_text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry p(.param .u64 out)\n{\n .reg .b64 %rd<4>;\n .reg "
    ".b32 %r<24>;\n"
    " .reg .f32 %f<8>;\n ld.param.u64 %rd0, [out];\n mov.u32 %r20, %tid.x;\n mad.wide.u32 %rd1, %r20, 64, %rd0;\n"
    " ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd1];\n ld.global.v2.b32 {%r4, %r5}, [%rd1+16];\n ld.global.v4.f32 "
    "{%f0, %f1, %f2, %f3}, [%rd1+32];\n"
    " ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%rd1+32];\n"
    " mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, "
    "%f1, %f2, %f3};\n"
    " mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r12, %r13, %r14, %r15}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, "
    "{%r8, %r9, %r10, %r11};\n"
    " st.global.v4.f32 [%rd1], {%f4, %f5, %f6, %f7};\n st.global.v4.b32 [%rd1+16], {%r12, %r13, %r14, %r15};\n "
    "ret;\n}\n";

static double half_value(uint16_t h) {
  return h == 0 ? 0 : (1 + (h & 0x3ff) / 1024.0) * (double)(1u << (h >> 10 & 15)) / 32768;
}

Test(emu, matrix_fragments) {
  static union lane {
    struct {
      uint16_t a[8], b[4], pad[4];
      float c[4], rest[4];
    } h;
    struct {
      int8_t a[16];
      uint8_t b[8], pad[8];
      int32_t c[4], rest[4];
    } i;
    struct {
      float d[4];
      int32_t id[4];
    } out;
  } lanes[32], before[32];
  double a[16][16], b[16][8], c[16][8];
  int ia[16][32], ib[32][8], ic[16][8];
  for (int l = 0; l < 32; l++) {
    int g = l / 4, t = l % 4;
    for (int e = 0; e < 8; e++) lanes[l].h.a[e] = (uint16_t)(0x3800 + (l * 37 + e * 101) % 1500);
    for (int e = 0; e < 4; e++) lanes[l].h.b[e] = (uint16_t)(0x3800 + (l * 53 + e * 211) % 1500);
    for (int e = 0; e < 4; e++) lanes[l].h.c[e] = (float)(l + e);
    for (int e = 0; e < 8; e++) {
      int row = e < 2 || (e >= 4 && e < 6) ? g : g + 8, col = t * 2 + (e & 1) + (e < 4 ? 0 : 8);
      a[row][col] = half_value(lanes[l].h.a[e]);
    }
    for (int e = 0; e < 4; e++) b[t * 2 + (e & 1) + (e < 2 ? 0 : 8)][g] = half_value(lanes[l].h.b[e]);
    for (int e = 0; e < 16; e++) {
      int row = e < 4 || (e >= 8 && e < 12) ? g : g + 8, col = t * 4 + (e & 3) + (e < 8 ? 0 : 16);
      ia[row][col] = lanes[l].i.a[e];
    }
    for (int e = 0; e < 8; e++) ib[t * 4 + (e & 3) + (e < 4 ? 0 : 16)][g] = lanes[l].i.b[e];
    for (int e = 0; e < 4; e++) {
      c[e < 2 ? g : g + 8][t * 2 + (e & 1)] = (double)lanes[l].h.c[e];
      ic[e < 2 ? g : g + 8][t * 2 + (e & 1)] = lanes[l].i.c[e];
    }
  }
  memcpy(before, lanes, sizeof before);
  emu_module *m = parse(mma_text);
  emu_machine *mc = emu_machine_new();
  uint64_t device = 0;
  emu_map(mc, lanes, sizeof lanes, "lanes", 0, &device);
  static emu_report r;
  emu_launch_options o = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .params = &device, .params_size = 8};
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "p"), &o, &r), EMU_OK, "%s", r.text);
  for (int l = 0; l < 32; l++)
    for (int e = 0; e < 4; e++) {
      int row = e < 2 ? l / 4 : l / 4 + 8, col = l % 4 * 2 + (e & 1);
      double want = 0;
      int64_t iwant = ic[row][col];
      for (int k = 0; k < 16; k++) want += a[row][k] * b[k][col];
      for (int k = 0; k < 32; k++) iwant += ia[row][k] * ib[k][col];
      cr_expect_eq(lanes[l].out.d[e], (float)(want + c[row][col]), "lane %d element %d", l, e);
      cr_expect_eq(lanes[l].out.id[e], (int32_t)iwant, "lane %d element %d", l, e);
    }
  o.block[0] = 31;
  memcpy(lanes, before, sizeof before);
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "p"), &o, &r), EMU_FAULT);
  emu_machine_free(mc);
  emu_module_free(m);
}

/* tensor copies and wgmma: whole kernels with their own memory */

static const char tensor_text[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry p(.param .align 64 .b8 map[128], .param .u64 "
    "out)\n{\n"
    " .shared .align 1024 .b8 tile[1024];\n .shared .align 8 .b64 bar;\n .reg .b64 %rd<8>;\n .reg .b32 %r<8>;\n .reg "
    ".pred %p<4>;\n"
    " mov.b64 %rd0, map;\n cvta.param.u64 %rd0, %rd0;\n ld.param.u64 %rd1, [out];\n mov.u32 %r0, %tid.x;\n setp.eq.u32 "
    "%p0, %r0, 0;\n"
    " mov.u32 %r1, tile;\n mov.u32 %r2, bar;\n @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;\n bar.sync 0;\n"
    " @!%p0 bra W;\n prefetch.tensormap [%rd0];\n mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;\n"
    " cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0, {16, 4}], [%r2];\n"
    "W:\n mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0;\n @!%p1 bra W;\n mad.lo.u32 %r3, %r0, 4, %r1;\n "
    "ld.shared.u32 %r4, [%r3];\n"
    " mad.wide.u32 %rd2, %r0, 4, %rd1;\n st.global.u32 [%rd2], %r4;\n bar.sync 0;\n @!%p0 bra E;\n mov.u32 %r5, 0;\n"
    " cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd0, {%r5, 3}], [%r1];\n cp.async.bulk.commit_group;\n"
    " cp.async.bulk.wait_group 0;\nE:\n ret;\n}\n";

Test(emu, tensor_copies) {
  enum { ROWS = 6, COLS = 40 };
  static uint32_t tensor[ROWS][COLS], before[ROWS][COLS], out[128];
  struct {
    uint8_t map[128];
    uint64_t out;
  } params;
  for (uint32_t k = 0; k < ROWS * COLS; k++) tensor[k / COLS][k % COLS] = 1000 + k;
  memcpy(before, tensor, sizeof before);
  emu_module *m = parse(tensor_text);
  emu_machine *mc = emu_machine_new();
  emu_tensor_map map = {
      .rank = 2, .elem_bytes = 4, .swizzle = 128, .dims = {COLS, ROWS}, .strides = {COLS * 4}, .box = {32, 4}};
  cr_assert(emu_map(mc, tensor, sizeof tensor, "tensor", 0, &map.address) &&
            emu_map(mc, out, sizeof out, "out", 0, &params.out));
  cr_assert(emu_tensor_map_encode(&map, params.map));
  static emu_report r;
  emu_launch_options o = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .params = &params, .params_size = sizeof params};
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "p"), &o, &r), EMU_OK, "%s", r.text);
  for (uint32_t t = 0; t < 128; t++) {
    uint32_t row = t / 32, col = ((t % 32 / 4) ^ row) * 4 + t % 4; /* chunk ^ row: the 128-byte swizzle */
    uint32_t want = 4 + row < ROWS && 16 + col < COLS ? before[4 + row][16 + col] : 0;
    cr_expect_eq(out[t], want, "word %u is %u, not %u", t, out[t], want);
  }
  for (uint32_t row = 0; row < ROWS; row++) /* the box went back with its last row behind the tensor */
    for (uint32_t col = 0; col < COLS; col++) {
      uint32_t from = row - 3, want = before[row][col];
      if (row >= 3 && col < 32) want = 4 + from < ROWS && 16 + col < COLS ? before[4 + from][16 + col] : 0;
      cr_expect_eq(tensor[row][col], want, "row %u column %u", row, col);
    }
  static char above[sizeof tensor_text];
  memcpy(above, tensor_text, sizeof above);
  memcpy(strstr(above, " 3}], [%r1]"), "-1", 2);
  emu_module *bad = parse(above);
  cr_expect_eq(emu_launch(mc, bad, emu_module_kernel(bad, "p"), &o, &r), EMU_FAULT);
  cr_expect_not_null(strstr(r.text, "must not be negative"), "%s", r.text);
  emu_module_free(bad);
  memset(params.map, 0, 64);
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "p"), &o, &r), EMU_FAULT);
  cr_expect_not_null(strstr(r.text, "no tensor map"), "%s", r.text);
  map.box[0] = 64;
  cr_expect_not(emu_tensor_map_encode(&map, params.map), "a row wider than the swizzle");
  emu_machine_free(mc);
  emu_module_free(m);
}

static const char wgmma_text[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry p(.param .u64 a, .param .u64 b, .param .u64 "
    "d)\n{\n"
    " .shared .align 1024 .b8 sa[2048];\n .shared .align 1024 .b8 sb[256];\n .reg .b64 %rd<12>;\n .reg .b32 %r<16>;\n "
    ".reg .f32 %f<4>;\n"
    " .reg .pred %p<4>;\n ld.param.u64 %rd0, [a];\n ld.param.u64 %rd1, [b];\n ld.param.u64 %rd2, [d];\n mov.u32 %r0, "
    "%tid.x;\n"
    " mad.wide.u32 %rd3, %r0, 16, %rd0;\n ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd3];\n shr.u32 %r5, %r0, 4;\n "
    "and.b32 %r6, %r0, 1;\n"
    " bfe.u32 %r7, %r0, 1, 3;\n shl.b32 %r5, %r5, 8;\n mad.lo.u32 %r5, %r6, 128, %r5;\n mad.lo.u32 %r5, %r7, 16, "
    "%r5;\n mov.u32 %r8, sa;\n"
    " add.u32 %r9, %r8, %r5;\n st.shared.v4.b32 [%r9], {%r1, %r2, %r3, %r4};\n mov.u32 %r10, sb;\n setp.ge.u32 %p0, "
    "%r0, 16;\n @%p0 bra S;\n"
    " mad.wide.u32 %rd3, %r0, 16, %rd1;\n ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd3];\n add.u32 %r9, %r10, %r5;\n"
    " st.shared.v4.b32 [%r9], {%r1, %r2, %r3, %r4};\nS:\n fence.proxy.async;\n bar.sync 0;\n shr.u32 %r8, %r8, 4;\n "
    "shr.u32 %r10, %r10, 4;\n"
    " cvt.u64.u32 %rd4, %r8;\n cvt.u64.u32 %rd5, %r10;\n or.b64 %rd4, %rd4, 0x1000080000;\n or.b64 %rd5, %rd5, "
    "0x1000080000;\n"
    " mov.f32 %f0, 0f00000000;\n mov.f32 %f1, %f0;\n mov.f32 %f2, %f0;\n mov.f32 %f3, %f0;\n setp.ne.u32 %p1, %r0, "
    "%r0;\n setp.eq.u32 %p2, %r0, %r0;\n"
    " wgmma.fence.sync.aligned;\n wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd4, "
    "%rd5, %p1, 1, 1, 0, 0;\n"
    " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd4, %rd5, %p2, -1, 1, 0, 0;\n"
    " wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd4, %rd5, %p2, 1, 1, 0, 0;\n"
    " wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;\n mad.wide.u32 %rd6, %r0, 16, %rd2;\n"
    " st.global.v4.f32 [%rd6], {%f0, %f1, %f2, %f3};\n ret;\n}\n";

Test(emu, wgmma_against_the_product) {
  static uint16_t a[64][16], b[8][16];
  static float d[128][4];
  for (int r = 0; r < 64; r++)
    for (int k = 0; k < 16; k++) a[r][k] = (uint16_t)(0x3f80 + (r * 16 + k) * 7 % 128); /* 1 .. 2 */
  for (int n = 0; n < 8; n++)
    for (int k = 0; k < 16; k++) b[n][k] = (uint16_t)(0x3f80 + (n * 16 + k) * 11 % 128);
  emu_module *m = parse(wgmma_text);
  emu_machine *mc = emu_machine_new();
  uint64_t params[3] = {0};
  emu_map(mc, a, sizeof a, "a", 0, &params[0]);
  emu_map(mc, b, sizeof b, "b", 0, &params[1]);
  emu_map(mc, d, sizeof d, "d", 0, &params[2]);
  static emu_report r;
  emu_launch_options o = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .params = params, .params_size = sizeof params};
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "p"), &o, &r), EMU_OK, "%s", r.text);
  for (int t = 0; t < 128; t++)
    for (int e = 0; e < 4; e++) {
      int row = t / 32 * 16 + t % 32 / 4 + (e < 2 ? 0 : 8), col = t % 4 * 2 + (e & 1);
      double want = 0;
      for (int k = 0; k < 16; k++) want += (1 + (a[row][k] & 127) / 128.0) * (1 + (b[col][k] & 127) / 128.0);
      cr_expect_eq(d[t][e], (float)want, "thread %d register %d", t, e);
    }
  emu_machine_free(mc);
  emu_module_free(m);
  if (access("/usr/local/cuda/bin/ptxas", X_OK) == 0) {
    cr_expect(assembles(wgmma_text, "sm_90a"));
    cr_expect(assembles(tensor_text, "sm_90a"));
  }
}

/* launches, memory, printing */

Test(emu, launch_is_checked) {
  static const char text[] =
      ".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 128 .b8 dyn[];\n"
      ".visible .entry k(.param .u64 .ptr .global .align 16 x, .param .u32 n, .param .align 8 .b8 s[24])\n.reqntid 32, "
      "2, 1\n{\n"
      " .reg .b32 %r<4>;\n mov.u32 %r0, %tid.y;\n st.shared.u32 [dyn], %r0;\n ret;\n}\n";
  emu_module *m = parse(text);
  const emu_kernel *k = emu_module_kernel(m, "k");
  cr_assert_not_null(k);
  cr_expect_eq(emu_module_kernel_count(m), 1u);
  cr_expect_null(emu_module_kernel(m, "nope"));
  cr_expect_str_eq(emu_module_target(m), "sm_80");
  cr_expect_eq(k->nparams, 3u);
  cr_expect(k->params[0].is_pointer && !k->params[1].is_pointer);
  cr_expect_eq(k->params[1].offset, 8u);
  cr_expect_eq(k->params[2].offset, 16u);
  cr_expect_eq(k->params_size, 40u);
  cr_expect_eq(k->reqntid[1], 2u);
  emu_machine *mc = emu_machine_new();
  static emu_report r;
  char params[40] = {0};
  emu_launch_options good = {.grid = {1, 1, 1},
                             .block = {32, 2, 1},
                             .dynamic_shared = 4,
                             .params = params,
                             .params_size = 40,
                             .flags = EMU_NO_RACES};
  emu_launch_options o = good;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_OK, "%s", r.text);
  o.flags = 0;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_FAULT);
  o = good, o.block[1] = 1;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_BAD_LAUNCH);
  o = good, o.params_size = 36;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_BAD_LAUNCH);
  o = good, o.grid[2] = 0;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_BAD_LAUNCH);
  o = good, o.dynamic_shared = 300000;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_BAD_LAUNCH);
  o = good, o.dynamic_shared = 0;
  cr_expect_eq(emu_launch(mc, m, k, &o, &r), EMU_FAULT);
  emu_machine_free(mc);
  emu_module_free(m);
}

Test(emu, source_positions_and_identity_maps) {
  static const char text[] =
      ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n .reg .b64 %rd<2>;\n"
      " .loc 1 12 7\n ld.param.u64 %rd0, [x];\n st.global.u64 [%rd0], %rd0;\n ret;\n}\n .file 1 \"dir/kernel.tk\"\n";
  emu_module *m = parse(text);
  emu_machine *mc = emu_machine_new();
  static emu_report r;
  static uint64_t cell[2];
  uint64_t device = 0;
  cr_expect(emu_map(mc, &cell[0], 8, "cell", EMU_MAP_IDENTITY, &device));
  cr_expect_eq(device, (uint64_t)(uintptr_t)&cell[0]);
  cr_expect_not(emu_map(mc, (char *)cell + 4, 8, "overlap", EMU_MAP_IDENTITY, &device));
  device = (uint64_t)(uintptr_t)cell;
  emu_launch_options o = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = &device, .params_size = 8};
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "k"), &o, &r), EMU_OK, "%s", r.text);
  cr_expect_eq(cell[0], device);
  cr_expect(emu_unmap(mc, device));
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "k"), &o, &r), EMU_FAULT);
  cr_expect_not_null(strstr(r.text, "dir/kernel.tk:12:7"), "%s", r.text);
  cr_expect_eq(r.line, 9u);
  cr_expect(emu_map(mc, cell, 16, "ro", EMU_MAP_READ_ONLY, &device));
  cr_expect_eq(emu_launch(mc, m, emu_module_kernel(m, "k"), &o, &r), EMU_FAULT);
  cr_expect_not_null(strstr(r.text, "read-only buffer 'ro'"), "%s", r.text);
  emu_machine_free(mc);
  emu_module_free(m);
}

static const char print_text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 "
    "b);\n"
    ".extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 fn, .param .b64 c);\n"
    ".global .align 1 .b8 fmt[22] = {37,100,32,37,53,46,50,102,32,37,108,108,120,32,37,37,32,37,115,10,0};\n"
    ".global .align 1 .b8 hi[3] = {104, 105};\n"
    ".visible .entry p(.param .u64 out)\n{\n .local .align 8 .b8 d[32];\n .reg .b64 %rd<8>;\n .reg .f64 %fd<2>;\n .reg "
    ".b32 %r<4>;\n .reg .pred %p<2>;\n"
    " mov.u32 %r0, %tid.x;\n sub.s32 %r0, %r0, 1;\n mov.u64 %rd0, d;\n cvta.local.u64 %rd1, %rd0;\n st.local.u32 "
    "[%rd0], %r0;\n"
    " mov.f64 %fd0, 0d400921FB54442D18;\n st.f64 [%rd1+8], %fd0;\n mov.u64 %rd2, 0xabcdef0123;\n st.u64 [%rd1+16], "
    "%rd2;\n"
    " mov.u64 %rd3, hi;\n cvta.global.u64 %rd3, %rd3;\n st.u64 [%rd1+24], %rd3;\n mov.u64 %rd4, fmt;\n {\n .param .b64 "
    "a;\n .param .b64 b;\n"
    " .param .b32 q;\n st.param.b64 [a], %rd4;\n st.param.b64 [b], %rd1;\n call.uni (q), vprintf, (a, b);\n "
    "ld.param.b32 %r1, [q];\n }\n"
    " setp.eq.s32 %p0, %r0, -1;\n @%p0 bra E;\n {\n .param .b64 a;\n .param .b64 b;\n .param .b32 c;\n .param .b64 "
    "e;\n .param .b64 f;\n"
    " st.param.b64 [a], %rd3;\n st.param.b64 [b], %rd3;\n st.param.b32 [c], 42;\n st.param.b64 [e], %rd3;\n "
    "st.param.b64 [f], 1;\n"
    " call.uni __assertfail, (a, b, c, e, f);\n }\nE:\n ret;\n}\n";

Test(emu, printing_and_assertions) {
  emu_module *m = parse(print_text);
  static run r;
  launch(m, "p", 1, 10000, &r);
  cr_expect_eq(r.status, EMU_OK, "%s", r.report.text);
  cr_expect_str_eq(r.printed, "-1  3.14 abcdef0123 % hi\n");
  launch(m, "p", 2, 10000, &r);
  cr_expect_eq(r.status, EMU_FAULT);
  cr_expect_not_null(strstr(r.report.text, "assertion failed: hi (hi:42)"), "%s", r.report.text);
  emu_module_free(m);
  if (access("/usr/local/cuda/bin/ptxas", X_OK) == 0) cr_expect(assembles(print_text, "sm_90a"));
}

/* hostile texts: whatever the bytes, an answer within the budget */

static uint32_t random_word(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*s >> 33);
}

Test(emu, mutated_texts_do_no_harm) {
  buffer b = {0};
  add(&b, head);
  add(&b, table_head);
  for (size_t k = 0; k < EMU_NPROGRAMS; k += 3) {
    char name[16];
    snprintf(name, sizeof name, "p%zu", k);
    add_kernel(&b, name, emu_programs[k].body, "");
  }
  uint64_t seed = 12345;
  char *copy = malloc(b.n + 1);
  static run r;
  unsigned parsed = 0;
  for (int round = 0; round < 600; round++) {
    memcpy(copy, b.s, b.n + 1);
    size_t n = b.n;
    for (uint32_t k = random_word(&seed) % 4; k < 4; k++) {
      size_t at = random_word(&seed) % n, from = random_word(&seed) % n, len = random_word(&seed) % 12;
      if (at + len > n || from + len > n) continue;
      if (random_word(&seed) % 2)
        memmove(copy + at, copy + from, len);
      else
        copy[at] = (char)random_word(&seed);
    }
    if (round % 10 == 0) n = random_word(&seed) % n;
    emu_error err;
    emu_module *m = emu_parse(copy, n, &err);
    if (m == NULL) {
      cr_expect(err.text[0] != '\0');
      continue;
    }
    parsed++;
    for (size_t k = 0; k < emu_module_kernel_count(m); k++)
      if (emu_module_kernel_at(m, k)->params_size == 8) launch(m, emu_module_kernel_at(m, k)->name, 64, 2000, &r);
    emu_module_free(m);
  }
  cr_expect(parsed > 0);
  free(copy);
  free(b.s);
}
