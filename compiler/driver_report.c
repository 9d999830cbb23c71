/* driver_report: what --resource-usage tells.
 *
 * The places to report on (loads, stores, dots) are listed once, behind canon: before it there are helpers' leftovers,
 * behind the later passes a load may be an asynchronous copy and a dot a wgmma. Remarks of passes are about places in
 * the source, so they find their subject whatever became of the op. Several ops at one place (an unrolled loop, a
 * helper that is called twice) are one subject if they look alike. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/analysis/analysis.h"
#include "compiler/driver.h"
#include "compiler/ir/scratch.h"

typedef struct driver_subject {
  span at;
  const char *what; /* "load of f16[128,64] through a" */
  int times;
} driver_subject;

driver_usage *driver_usage_new(tkc_session *s, const driver_plan *plan, const tir_fn *fn) {
  driver_usage *u = ARENA_NEW(s->a, driver_usage);
  *u = (driver_usage){.fn = fn, .arch = plan->arch, .remarks = {.a = s->a}, .next = s->usage};
  s->usage = u;
  return u;
}

/* ---- subjects ---- */

/* The argument that a pointer is derived from; NULL if that is not one. */
static const char *base_argument(const tir_value *v) {
  for (int steps = 0; steps < 1000; steps++) {
    const tir_op *op = v->def ? v->def : v->region->owner;
    if (!op) {
      const tir_fn *fn = v->region->fn;
      for (int i = 0; i < fn->n_params; i++)
        if (fn->params[i].value == v) return fn->params[i].name;
      return NULL;
    }
    if (op->code == OP_for) {
      int at = v->def ? v->index : v->index - 1;
      if (at < 0) return NULL;
      v = tir_in(op, at + 3);
    } else if (op->code == OP_while && op->n_in > v->index) {
      v = tir_in(op, v->index);
    } else if (v->def && op->n_in > 0 && tir_is_ptr(tir_in(op, 0)->type)) {
      v = tir_in(op, 0);
    } else {
      return NULL;
    }
  }
  return NULL;
}

static const char *describe(arena *a, const tir_op *op) {
  const tir_type *t = tir_in(op, 0)->type;
  if (op->code == OP_dot)
    return arena_printf(a, "dot of %s and %s into %s", tir_type_text(a, t), tir_type_text(a, tir_in(op, 1)->type),
                        tir_type_text(a, op->out[0]->type));
  const char *base = base_argument(tir_in(op, 0));
  textbuf b;
  text_init(&b, a);
  text_printf(&b, "%s of %s", tir_ops[op->code].name,
              tir_type_text(a, op->n_out ? op->out[0]->type : tir_in(op, 1)->type));
  if (base) text_printf(&b, " %s %s", op->code == OP_load ? "from" : "to", base);
  return b.at;
}

void driver_usage_list(tkc_session *s, driver_usage *u) {
  if (u->listed) return;
  u->listed = true;
  for (const tir_op *op = tir_first(u->fn); op; op = tir_next(op)) {
    bool access = op->code == OP_load || op->code == OP_store;
    if (!(access && tir_is_tile(tir_in(op, 0)->type)) && op->code != OP_dot) continue;
    const char *what = describe(s->a, op);
    driver_subject *same = NULL;
    for (int i = 0; i < u->subjects.n && !same; i++) {
      driver_subject *x = u->subjects.at[i];
      if (x->at.pos == op->at.pos && x->at.len == op->at.len && !strcmp(x->what, what)) same = x;
    }
    if (same) {
      same->times++;
      continue;
    }
    driver_subject *x = ARENA_NEW(s->a, driver_subject);
    *x = (driver_subject){op->at, what, 1};
    VEC_PUSH(s->a, u->subjects, x);
  }
}

static const char *place(tkc_session *s, span at) {
  src_loc l;
  return src_locate(s->sources, at, &l) ? arena_printf(s->a, "%s:%d", l.file->path, l.line) : "?";
}

static void tell_subjects(tkc_session *s, const driver_usage *u, textbuf *out) {
  for (int i = 0; i < u->subjects.n; i++) {
    const driver_subject *x = u->subjects.at[i];
    text_printf(out, "  %s: %s", place(s, x->at), x->what);
    if (x->times > 1) text_printf(out, ", %d times", x->times);
    text_char(out, '\n');
    for (int k = 0; k < u->remarks.list.n; k++) {
      const struct pass_remark *r = &u->remarks.list.at[k];
      if (r->at.pos == x->at.pos && r->at.len == x->at.len) text_printf(out, "    %s\n", r->text);
    }
  }
}

/* Remarks about loops and whatever else is no subject. */
static void tell_other_remarks(tkc_session *s, const driver_usage *u, textbuf *out) {
  for (int k = 0; k < u->remarks.list.n; k++) {
    const struct pass_remark *r = &u->remarks.list.at[k];
    bool told = false;
    for (int i = 0; i < u->subjects.n && !told; i++)
      told = u->subjects.at[i]->at.pos == r->at.pos && u->subjects.at[i]->at.len == r->at.len;
    if (!told) text_printf(out, "  %s: %s\n", place(s, r->at), r->text);
  }
}

/* ---- what the assembler said ---- */

typedef struct assembled {
  bool known;
  int registers;
  long spill_stores, spill_loads; /* bytes per thread */
} assembled;

/* The number that stands before `words` in a line; -1 if there is none. */
static long number_before(const char *line, size_t len, const char *words) {
  size_t n = strlen(words);
  for (size_t i = 0; i + n <= len; i++) {
    if (memcmp(line + i, words, n)) continue;
    size_t k = i;
    while (k > 0 && line[k - 1] == ' ') k--;
    size_t end = k;
    while (k > 0 && line[k - 1] >= '0' && line[k - 1] <= '9') k--;
    if (k < end) return strtol(line + k, NULL, 10);
  }
  return -1;
}

static bool line_names(const char *line, size_t len, const char *before, const char *name) {
  size_t n = strlen(before), m = strlen(name);
  for (size_t i = 0; i + n + m <= len; i++)
    if (!memcmp(line + i, before, n) && !memcmp(line + i + n, name, m))
      return i + n + m == len || line[i + n + m] == '\'' || line[i + n + m] == '\r' || line[i + n + m] == ' ';
  return false;
}

/* Reads ptxas -v: "Compiling entry function 'K' for ..", "N bytes spill stores, M bytes spill loads", "Used R
 * registers". */
static assembled read_log(const char *log, const char *kernel) {
  assembled r = {0};
  bool here = false;
  for (const char *line = log; line && *line;) {
    size_t len = strcspn(line, "\n");
    if (line_names(line, len, "Compiling entry function '", kernel))
      here = true;
    else if (number_before(line, len, " registers") < 0 && strstr(line, "Compiling entry function") &&
             strstr(line, "Compiling entry function") < line + len)
      here = false;
    if (here) {
      long spill = number_before(line, len, " bytes spill stores"), used = number_before(line, len, " registers");
      if (spill >= 0) {
        r.spill_stores = spill;
        r.spill_loads = number_before(line, len, " bytes spill loads");
      }
      if (used >= 0) {
        r.registers = (int)used;
        r.known = true;
      }
    }
    line += len + (line[len] != 0);
  }
  return r;
}

/* ---- resources ---- */

static int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) / to * to; }

/* Blocks that one multiprocessor holds at a time, and what limits their number. Registers are given to warps in units
   of 256 and to each of the four quarters of a multiprocessor apart (CUDA C++ programming guide, "Multiprocessor
   level"; the occupancy calculator of the toolkit). */
static int occupancy(const tir_fn *fn, const arch_t *arch, int registers, const char **limit) {
  int warps = tir_block_warps(fn);
  int64_t blocks = arch->blocks_sm;
  *limit = "the number of blocks";
  if (arch->warps_sm / warps < blocks) blocks = arch->warps_sm / warps, *limit = "warps";
  int shared = arch_blocks_by_shared(arch, fn->shared_bytes);
  if (shared < blocks) blocks = shared, *limit = "shared memory";
  if (registers > 0) {
    int64_t a_warp = round_up(registers * ARCH_WARP, 256), quarter = ARCH_REGISTERS_SM / 4 / a_warp;
    if (4 * quarter / warps < blocks) blocks = 4 * quarter / warps, *limit = "registers";
  }
  return (int)blocks;
}

static void tell_shared(tkc_session *s, const driver_usage *u, textbuf *out) {
  const tir_fn *fn = u->fn;
  text_printf(out, "  shared memory: %" PRId64 " of %d bytes\n", fn->shared_bytes, u->arch->shared_block);
  arena *a = arena_new();
  for (const tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    int64_t bytes = tir_scratch_of(op, a).bytes;
    if (!bytes) continue;
    const tir_type *t = !op->n_in                  ? op->out[0]->type
                        : op->code == OP_tma_store ? tir_in(op, 1)->type
                                                   : tir_in(op, 0)->type;
    const char *what = op->code == OP_alloc            ? ""
                       : op->code == OP_next_program   ? "numbers of programs: "
                       : op->code == OP_tma_store      ? "panels of "
                       : op->code == OP_convert_layout ? "conversion of "
                       : op->code == OP_reduce         ? "reduction of "
                                                       : "results of an atomic on ";
    int64_t at = tir_attr_int(op, ATTR_scratch, 0);
    text_printf(out, "    %7" PRId64 " at %6" PRId64 "  %s: %s%s%s\n", bytes, at, place(s, op->at), what,
                tir_type_text(s->a, t), fn->gang > 1 && at >= fn->gang_bytes ? ", for each program" : "");
  }
  arena_free(a);
}

/* The tiles that are to be made smaller. */
static void tell_pressure(tkc_session *s, const driver_usage *u, textbuf *out) {
  arena *a = arena_new();
  pressure p = pressure_of(u->fn, a);
  if (p.n) text_printf(out, "    most tiles are alive at %s, with about %d registers:\n", place(s, p.at), p.registers);
  for (int i = 0; i < p.n; i++)
    text_printf(out, "    %7d  %s: %s\n", p.held[i], place(s, p.tiles[i]->at), tir_type_text(s->a, p.tiles[i]->type));
  arena_free(a);
}

static void tell_kernel(tkc_session *s, const driver_usage *u, const char *log, textbuf *out) {
  const tir_fn *fn = u->fn;
  assembled as = log ? read_log(log, fn->name) : (assembled){0};
  text_printf(out, "kernel %s for %s: %d warp%s, num_stages %d\n", fn->name, u->arch->name, fn->num_warps,
              fn->num_warps == 1 ? "" : "s", fn->num_stages);
  if (fn->gang > 1) text_printf(out, "  a block runs %d programs side by side\n", fn->gang);
  if (fn->producer_warps) text_printf(out, "  %d more warps copy tiles ahead\n", fn->producer_warps);
  if (!as.known) {
    text_str(out, "  registers: not known without ptxas\n");
  } else if (as.spill_stores > 0 || as.spill_loads > 0) {
    text_printf(
        out, "  registers: %d of %d; warning: %ld bytes are spilled, %ld read back: use smaller tiles or more warps\n",
        as.registers, ARCH_REGISTERS_THREAD, as.spill_stores, as.spill_loads);
    if (fn->stage == STAGE_PLACED) tell_pressure(s, u, out);
  } else {
    text_printf(out, "  registers: %d of %d, none spilled\n", as.registers, ARCH_REGISTERS_THREAD);
  }
  if (fn->stage == STAGE_PLACED) {
    tell_shared(s, u, out);
    const char *limit;
    int blocks = occupancy(fn, u->arch, as.registers, &limit);
    text_printf(out, "  occupancy: %d block%s, %d of %d warps on a multiprocessor, limited by %s%s\n", blocks,
                blocks == 1 ? "" : "s", blocks * tir_block_warps(fn), u->arch->warps_sm, limit,
                as.known ? "" : " (registers not counted)");
  }
  tell_subjects(s, u, out);
  tell_other_remarks(s, u, out);
}

static const char *report(tkc_session *s, const char *log) {
  textbuf out;
  text_init(&out, s->a);
  int n = 0;
  for (const driver_usage *u = s->usage; u; u = u->next) n++;
  for (; n > 0; n--) {
    const driver_usage *u = s->usage;
    for (int i = 1; i < n; i++) u = u->next;
    tell_kernel(s, u, log, &out);
  }
  return out.at;
}

const char *tkc_report(tkc_session *s, const char *assembler_log) {
  if (s->broken) return "";
  base_guard g;
  base_guard_push(&g);
  const char *volatile text = "";
  if (setjmp(g.jump) == 0)
    text = report(s, assembler_log);
  else
    driver_internal_error(s, &g);
  base_guard_pop(&g);
  return text;
}
