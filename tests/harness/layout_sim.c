#include "tests/harness/layout_sim.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 32 };

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint32_t sim_next(sim_rng *r) {
  uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((z ^ z >> 31) >> 16);
}

int sim_below(sim_rng *r, int n) { return (int)(sim_next(r) % (uint32_t)n); }
bool sim_chance(sim_rng *r, int percent) { return sim_below(r, 100) < percent; }

lay_shape sim_shape2(int rows, int cols) {
  int64_t e[2] = {rows, cols};
  return lay_shape_make(2, e);
}

lay_shape sim_shape1(int n) {
  int64_t e = n;
  return lay_shape_make(1, &e);
}

static int pick_power(sim_rng *r, int max_log2) { return 1 << sim_below(r, max_log2 + 1); }

const lay_t *sim_blocked(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps) {
  lay_blocking b;
  for (int a = 0; a < s.rank; ++a) {
    b.order[a] = a;
    b.per_thread[a] = b.threads[a] = b.warps[a] = 1;
  }
  for (int a = s.rank - 1; a > 0; --a) {
    int j = sim_below(r, a + 1), t = b.order[a];
    b.order[a] = b.order[j];
    b.order[j] = t;
  }
  b.per_thread[b.order[0]] = pick_power(r, 3);
  if (sim_chance(r, 30)) b.per_thread[b.order[s.rank - 1]] = pick_power(r, 2);
  for (int i = 0; i < LAY_LANE_BITS; ++i) b.threads[sim_below(r, s.rank)] *= 2;
  for (int i = 1; i < num_warps; i *= 2) b.warps[sim_below(r, s.rank)] *= 2;
  return lay_blocked(cx, s, &b);
}

const lay_t *sim_mma(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps) {
  int kind = sim_below(r, 4), kw = pick_power(r, 2);
  int wm = 1;
  while (wm < num_warps && sim_chance(r, 60)) wm *= 2;
  lay_mma m = {16, 8, 8 * kw, kw, wm, num_warps / wm, sim_chance(r, 50)};
  if (kind == 1 && num_warps >= 4) return lay_wgmma_acc(cx, s, num_warps, 1);
  return lay_mma_operand(cx, kind == 2 ? LAY_A : kind == 3 ? LAY_B : LAY_C, &m, s);
}

const lay_t *sim_linear(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps) {
  lay_t l = {.rank = s.rank};
  memcpy(l.axis_bits, s.bits, sizeof l.axis_bits);
  int d = lay_shape_bits(s), have = 0, nw = 0;
  while (1 << nw < num_warps) ++nw;
  lay_span seen;
  lay_span_init(&seen);
  while (have < d) {
    uint32_t v = sim_next(r) & ((UINT32_C(1) << d) - 1);
    if (!lay_span_add(&seen, v)) continue;
    int dim = have < LAY_LANE_BITS ? LAY_LANE : have < LAY_LANE_BITS + nw ? LAY_WARP : LAY_REG;
    l.basis[dim][l.nbits[dim]++] = v;
    ++have;
  }
  return lay_intern(cx, &l);
}

const lay_t *sim_any(lay_cx *cx, sim_rng *r, lay_shape s, int num_warps, unsigned kinds) {
  for (;;) {
    unsigned k = 1u << sim_below(r, 3);
    if (!(k & kinds)) continue;
    if (k == SIM_BLOCKED) return sim_blocked(cx, r, s, num_warps);
    if (k == SIM_MMA) return sim_mma(cx, r, s, num_warps);
    return sim_linear(cx, r, s, num_warps);
  }
}

/* ---- interpreter ------------------------------------------------------------------------------------------------- */

static char message[256];

#define FAIL(...)                                   \
  do {                                              \
    snprintf(message, sizeof message, __VA_ARGS__); \
    return message;                                 \
  } while (0)

static void *zeroed(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

uint32_t sim_terms(const lay_terms *t, uint32_t lane, uint32_t warp) {
  uint32_t x = 0;
  for (int i = 0; i < t->n; ++i) {
    lay_term f = t->at[i];
    uint32_t from = f.dim == LAY_LANE ? lane : warp;
    uint32_t part = (from >> f.from & ((UINT32_C(1) << f.count) - 1)) << f.to;
    if (t->disjoint && (x & part)) abort();
    if (part & ~t->bits) abort();
    x ^= part;
  }
  return x;
}

static uint32_t parity(uint32_t x) { return (uint32_t)__builtin_parity(x); }

static void select_layers(const lay_select *s, int n, int n_work, uint32_t *w) {
  uint32_t *next = zeroed((size_t)n_work * LANES, sizeof *next);
  for (int k = 0; k < n; ++k) {
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (uint32_t x = 0; x < (uint32_t)n_work; ++x)
        next[lane * (uint32_t)n_work + x] = w[lane * (uint32_t)n_work + (parity(lane & s[k].lanes) ? x ^ s[k].reg : x)];
    memcpy(w, next, sizeof *w * (size_t)n_work * LANES);
  }
  free(next);
}

static const char *run_shuffle(const lay_cvt *c, uint32_t warp) {
  const lay_shuffle *p = c->shuffle;
  uint32_t n = (uint32_t)p->n_work;
  uint32_t *w = zeroed((size_t)n * LANES, sizeof *w), *u = zeroed((size_t)n * LANES, sizeof *u);
  const char *bad = NULL;
  int shuffles = 0;
  for (uint32_t lane = 0; lane < LANES; ++lane)
    for (uint32_t x = 0; x < n; ++x) w[lane * n + x] = lay_apply(c->src, p->first[x], lane, warp, 0);
  select_layers(p->pre, p->n_pre, p->n_work, w);
  for (int k = 0; k < p->n_words; ++k) {
    const lay_word *word = &p->words[k];
    shuffles += word->moves ? (c->elem_bytes > 4 ? c->elem_bytes / 4 : 1) : 0;
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (int i = 0; i < word->n; ++i) {
        uint32_t from = word->lane_xor ^ (p->butterfly ? lane : sim_terms(&p->lane_map, lane, 0));
        if (!word->moves) from = lane;
        u[lane * n + word->to[i]] = w[from * n + word->from[i]];
      }
    if (word->n * c->elem_bytes > 4 && word->n > 1) bad = "a shuffled word is too large";
  }
  if (shuffles != p->shuffles) bad = "the plan miscounts its shuffles";
  select_layers(p->post, p->n_post, p->n_work, u);
  for (uint32_t lane = 0; lane < LANES && !bad; ++lane)
    for (uint32_t r = 0; r < (uint32_t)p->n_out && !bad; ++r)
      if (u[lane * n + p->last[r]] != lay_apply(c->dst, r, lane, warp, 0)) bad = "a register holds the wrong element";
  free(w);
  free(u);
  return bad;
}

static uint32_t pad(uint32_t o, uint32_t log2, uint32_t elems) { return log2 ? o + (o >> log2) * elems : o; }

/* One element that a way moves: its place in memory and its register. */
typedef void (*move_fn)(void *user, uint32_t at, uint32_t lane, uint32_t warp, uint32_t reg);

/* Calls f for every element that a warp moves in a round; false: a place is not aligned. */
static bool walk_way(const lay_way *w, uint32_t elem_bytes, int round, int rounds, uint32_t warp, move_fn f,
                     void *user) {
  const lay_matrix *m = &w->matrix;
  const lay_access *v = &w->vectors;
  int n = (w->by_matrix ? m->n_groups : v->n_groups) / rounds;
  bool aligned = true;
  for (int g = round * n; g < (round + 1) * n; ++g) {
    if (!w->by_matrix) {
      for (uint32_t lane = 0; lane < LANES; ++lane) {
        uint32_t o = sim_terms(&v->terms, lane, warp) ^ v->offset[g];
        aligned = aligned && o % (uint32_t)v->vec == 0;
        for (int i = 0; i < v->vec; ++i) f(user, o + (uint32_t)i, lane, warp, v->regs[g * v->vec + i]);
      }
      continue;
    }
    uint32_t addr[LANES], per_word = 4 / elem_bytes;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      addr[lane] = sim_terms(&m->terms, lane, warp) ^ m->offset[g];
      aligned = aligned && addr[lane] * elem_bytes % 16 == 0;
    }
    for (uint32_t j = 0; j < (uint32_t)m->n_matrix; ++j)
      for (uint32_t lane = 0; lane < LANES; ++lane)
        for (uint32_t i = 0; i < (uint32_t)m->per_matrix; ++i) {
          uint32_t row = m->trans ? 2 * (lane % 4) + i : lane / 4;
          uint32_t in_row = m->trans ? lane / 4 : lane % 4 * per_word + i;
          f(user, addr[8 * j + row] + in_row, lane, warp,
            m->regs[((uint32_t)g * (uint32_t)m->n_matrix + j) * (uint32_t)m->per_matrix + i]);
        }
  }
  return aligned;
}

typedef struct exchange_run {
  const lay_cvt *c;
  uint32_t elems, n_out;
  uint32_t *mem, *writer, *loaded;
  const char *bad;
} exchange_run;

static void store_element(void *user, uint32_t at, uint32_t lane, uint32_t warp, uint32_t reg) {
  exchange_run *x = user;
  uint32_t id = lay_apply(x->c->src, reg, lane, warp, 0);
  if (at >= x->elems) {
    x->bad = "a store is out of bounds";
    return;
  }
  if (x->mem[at] != UINT32_MAX && x->mem[at] != id) x->bad = "two elements in one place";
  x->mem[at] = id;
  x->writer[at] = warp;
}

static void load_element(void *user, uint32_t at, uint32_t lane, uint32_t warp, uint32_t reg) {
  exchange_run *x = user;
  if (at >= x->elems || reg >= x->n_out)
    x->bad = "a load is out of bounds";
  else
    x->loaded[(warp * LANES + lane) * x->n_out + reg] = x->mem[at];
  /* With a warp barrier only, a warp may read nothing but what it wrote itself. */
  if (at < x->elems && x->c->shared->warp_local && x->writer[at] != warp)
    x->bad = "a warp reads what another one wrote, without a barrier";
}

/* Warps that need no barrier of all take turns: each stores and loads before the next one does. */
static const char *run_exchange(const lay_cvt *c) {
  const lay_exchange *e = c->shared;
  uint32_t warps = (uint32_t)lay_warps(c->src), bytes = (uint32_t)c->elem_bytes;
  exchange_run x = {.c = c, .elems = e->bytes / bytes, .n_out = (uint32_t)lay_regs(c->dst)};
  x.mem = zeroed(x.elems, sizeof *x.mem);
  x.writer = zeroed(x.elems, sizeof *x.writer);
  x.loaded = zeroed((size_t)x.n_out * LANES * warps, sizeof *x.loaded);
  bool aligned = true;
  for (int round = 0; round < e->rounds; ++round) {
    for (uint32_t i = 0; i < x.elems; ++i) x.mem[i] = x.writer[i] = UINT32_MAX;
    for (uint32_t w = 0; w < warps; ++w) {
      if (!(w & e->warp_free)) aligned &= walk_way(&e->store, bytes, round, e->rounds, w, store_element, &x);
      if (e->warp_local) aligned &= walk_way(&e->load, bytes, round, e->rounds, w, load_element, &x);
    }
    for (uint32_t w = 0; w < warps && !e->warp_local; ++w)
      aligned &= walk_way(&e->load, bytes, round, e->rounds, w, load_element, &x);
  }
  if (!aligned) x.bad = "an access is not aligned";
  for (uint32_t w = 0; w < warps && !x.bad; ++w)
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (uint32_t r = 0; r < x.n_out; ++r)
        if (x.loaded[(w * LANES + lane) * x.n_out + e->held[r]] != lay_apply(c->dst, r, lane, w, 0))
          x.bad = "a register holds the wrong element";
  free(x.mem);
  free(x.writer);
  free(x.loaded);
  return x.bad;
}

const char *sim_convert(const lay_cvt *c) {
  if (c->kind == LAY_CVT_SHARED) return run_exchange(c);
  for (uint32_t w = 0; w < (uint32_t)lay_warps(c->src); ++w) {
    if (c->kind == LAY_CVT_SHUFFLE) {
      const char *bad = run_shuffle(c, w);
      if (bad) return bad;
      continue;
    }
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (uint32_t r = 0; r < (uint32_t)lay_regs(c->dst); ++r) {
        uint32_t from = c->kind == LAY_CVT_NOOP ? r : c->regs[r];
        if (lay_apply(c->src, from, lane, w, 0) != lay_apply(c->dst, r, lane, w, 0))
          FAIL("register %u of lane %u gets the wrong element", r, lane);
      }
  }
  return NULL;
}

const char *sim_access(const lay_t *l, const sh_t *s, const lay_access *acc) {
  uint32_t n = UINT32_C(1) << s->d;
  uint32_t *seen = zeroed(n, sizeof *seen);
  const char *bad = NULL;
  for (uint32_t w = 0; w < (uint32_t)lay_warps(l); ++w)
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (int g = 0; g < acc->n_groups; ++g) {
        uint32_t first = pad(sim_terms(&acc->terms, lane, w) ^ acc->offset[g], acc->pad_log2, acc->pad_elems);
        if (first % (uint32_t)acc->vec) bad = "a vector is not aligned";
        for (int i = 0; i < acc->vec; ++i) {
          uint32_t e = lay_apply(l, acc->regs[g * acc->vec + i], lane, w, 0);
          if (lay_sh_offset(s, e) != first + (uint32_t)i) bad = "an element goes to the wrong place";
          if (!(lane & acc->lane_free) && !(w & acc->warp_free)) ++seen[e];
        }
      }
  for (uint32_t e = 0; e < n && !bad; ++e)
    if (seen[e] != 1) bad = "an element has not exactly one owner";
  free(seen);
  return bad;
}

const char *sim_ldmatrix(const lay_t *l, const sh_t *s, int elem_bytes, const lay_matrix *m) {
  uint32_t n = UINT32_C(1) << s->d, size = lay_sh_elems(s), per_word = 4 / (uint32_t)elem_bytes;
  uint32_t *mem = zeroed(size, sizeof *mem);
  const char *bad = NULL;
  for (uint32_t e = 0; e < n; ++e) mem[lay_sh_offset(s, e)] = e;
  for (uint32_t w = 0; w < (uint32_t)lay_warps(l); ++w)
    for (int g = 0; g < m->n_groups; ++g) {
      uint32_t addr[LANES];
      for (uint32_t lane = 0; lane < LANES; ++lane)
        addr[lane] = pad(sim_terms(&m->terms, lane, w) ^ m->offset[g], m->pad_log2, m->pad_elems);
      for (uint32_t j = 0; j < (uint32_t)m->n_matrix; ++j)
        for (uint32_t lane = 0; lane < LANES; ++lane)
          for (uint32_t i = 0; i < (uint32_t)m->per_matrix; ++i) {
            uint32_t row = m->trans ? 2 * (lane % 4) + i : lane / 4;
            uint32_t in_row = m->trans ? lane / 4 : lane % 4 * per_word + i;
            uint32_t r = m->regs[((uint32_t)g * (uint32_t)m->n_matrix + j) * (uint32_t)m->per_matrix + i];
            if (mem[addr[8 * j + row] + in_row] != lay_apply(l, r, lane, w, 0))
              bad = "a register gets the wrong element";
          }
    }
  free(mem);
  return bad;
}

/* ---- reductions and scans ---------------------------------------------------------------------------------------- */

static uint32_t drop_axis(lay_shape s, uint32_t flat, int axis) {
  int shift = lay_axis_shift(s, axis);
  return (flat & ((UINT32_C(1) << shift) - 1)) | flat >> (shift + s.bits[axis]) << shift;
}

const char *sim_reduce(const lay_reduce *p, const uint32_t *data, sim_op op) {
  lay_shape s = lay_shape_of(p->operand);
  uint32_t warps = (uint32_t)lay_warps(p->operand), n = (uint32_t)p->n_out, d = (uint32_t)lay_bits(p->operand);
  uint32_t *acc = zeroed((size_t)warps * LANES * n, sizeof *acc),
           *next = zeroed((size_t)warps * LANES * n, sizeof *next);
  uint32_t *want = zeroed(UINT32_C(1) << lay_bits(p->result), sizeof *want);
  bool *begun = zeroed(UINT32_C(1) << lay_bits(p->result), sizeof *begun);
  const char *bad = NULL;
  for (uint32_t e = 0; e < UINT32_C(1) << d; ++e) {
    uint32_t o = drop_axis(s, e, p->axis);
    want[o] = begun[o] ? op(want[o], data[e]) : data[e];
    begun[o] = true;
  }
#define AT(a, w, l, j) (a)[((w)*LANES + (l)) * n + (j)]
  for (uint32_t w = 0; w < warps; ++w)
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (uint32_t j = 0; j < n; ++j)
        for (uint32_t i = 0; i < (uint32_t)p->n_fold; ++i) {
          uint32_t v = data[lay_apply(p->operand, p->fold[j * (uint32_t)p->n_fold + i], lane, w, 0)];
          AT(acc, w, lane, j) = i ? op(AT(acc, w, lane, j), v) : v;
        }
  for (int k = 0; k < p->n_lane_steps; ++k) {
    for (uint32_t w = 0; w < warps; ++w)
      for (uint32_t lane = 0; lane < LANES; ++lane)
        for (uint32_t j = 0; j < n; ++j)
          AT(next, w, lane, j) =
              op(AT(acc, w, lane, j), AT(acc, w, lane ^ p->lane_step[k].lane_xor, p->lane_step[k].partner[j]));
    memcpy(acc, next, sizeof *acc * warps * LANES * n);
  }
  if (p->n_warp > 1) {
    uint32_t *mem = zeroed(p->scratch_elems, sizeof *mem);
    uint8_t *written = zeroed(p->scratch_elems, 1);
    for (uint32_t w = 0; w < warps; ++w)
      for (uint32_t lane = 0; lane < LANES; ++lane)
        for (uint32_t j = 0; j < n; ++j) {
          if ((lane & p->lane_free) || (w & p->warp_free)) continue;
          uint32_t at = sim_terms(&p->write, lane, w) ^ p->write_reg[j];
          if (at >= p->scratch_elems) return "a partial is out of bounds";
          if (written[at]++) bad = "two threads write one partial";
          mem[at] = AT(acc, w, lane, j);
        }
    for (uint32_t w = 0; w < warps; ++w)
      for (uint32_t lane = 0; lane < LANES; ++lane)
        for (uint32_t j = 0; j < n; ++j) {
          uint32_t at = sim_terms(&p->read, lane, w) ^ p->read_reg[j];
          for (uint32_t i = 0; i < (uint32_t)p->n_warp; ++i) {
            if (!written[at + i]) bad = "a partial is read that nobody wrote";
            AT(next, w, lane, j) = i ? op(AT(next, w, lane, j), mem[at + i]) : mem[at];
          }
        }
    memcpy(acc, next, sizeof *acc * warps * LANES * n);
    free(mem);
    free(written);
  }
  for (uint32_t w = 0; w < warps && !bad; ++w)
    for (uint32_t lane = 0; lane < LANES; ++lane)
      for (uint32_t j = 0; j < n; ++j)
        if (AT(acc, w, lane, j) != want[lay_apply(p->result, j, lane, w, 0)]) bad = "a result is wrong";
#undef AT
  free(acc);
  free(next);
  free(want);
  free(begun);
  return bad;
}

typedef struct maybe {
  bool there;
  uint32_t v;
} maybe;

static maybe join(maybe a, maybe b, sim_op op) {
  if (!a.there) return b;
  if (!b.there) return a;
  return (maybe){true, op(a.v, b.v)};
}

const char *sim_scan(const lay_scan *p, const uint32_t *data, sim_op op) {
  lay_shape s = lay_shape_of(p->lay);
  uint32_t warps = (uint32_t)lay_warps(p->lay), nr = (uint32_t)lay_regs(p->lay), n_lo = (uint32_t)p->n_lo;
  uint32_t n_chunks = (uint32_t)(p->n_chain * p->n_chunk), threads = warps * LANES;
  uint32_t *val = zeroed((size_t)threads * nr, sizeof *val), *total = zeroed((size_t)threads * n_chunks, sizeof *total);
  maybe *prefix = zeroed((size_t)threads * n_chunks, sizeof *prefix);
  uint32_t *next = zeroed(LANES, sizeof *next), *mem = zeroed(p->scratch_elems, sizeof *mem);
  bool *written = zeroed(p->scratch_elems, sizeof *written);
  const char *bad = NULL;
  for (uint32_t t = 0; t < threads; ++t)
    for (uint32_t r = 0; r < nr; ++r) val[t * nr + r] = data[lay_apply(p->lay, r, t % LANES, t / LANES, 0)];
  for (uint32_t c = 0; c < n_chunks; ++c) {
    for (uint32_t t = 0; t < threads; ++t) {
      const uint16_t *regs = p->regs + c * n_lo;
      for (uint32_t i = 1; i < n_lo; ++i) val[t * nr + regs[i]] = op(val[t * nr + regs[i - 1]], val[t * nr + regs[i]]);
      total[t * n_chunks + c] = val[t * nr + regs[n_lo - 1]];
    }
    for (uint32_t w = 0; w < warps; ++w)
      for (int k = 0; k < p->n_steps; ++k) {
        lay_scan_step st = p->step[k];
        for (uint32_t lane = 0; lane < LANES; ++lane) {
          uint32_t t = w * LANES + lane, v = total[(w * LANES + ((lane & st.and_mask) | st.or_mask)) * n_chunks + c];
          next[lane] = total[t * n_chunks + c];
          if ((lane & st.bit) != st.want) continue;
          maybe *pre = &prefix[t * n_chunks + c];
          if (pre->there != ((lane & st.seen) != st.seen_none)) bad = "the plan is wrong about who has a predecessor";
          *pre = join((maybe){true, v}, *pre, op);
          next[lane] = op(v, next[lane]);
        }
        for (uint32_t lane = 0; lane < LANES; ++lane) total[(w * LANES + lane) * n_chunks + c] = next[lane];
      }
    if (p->n_warp > 1)
      for (uint32_t t = 0; t < threads; ++t) {
        uint32_t lane = t % LANES, w = t / LANES;
        if ((lane & p->last_mask) != p->last_value || (lane & p->lane_free) || (w & p->warp_free)) continue;
        uint32_t at = sim_terms(&p->write, lane, w) ^ p->warp_pos_xor ^ p->chunk_offset[c];
        if (written[at]) bad = "two threads write one total";
        written[at] = true;
        mem[at] = total[t * n_chunks + c];
      }
  }
  for (uint32_t t = 0; t < threads; ++t) {
    uint32_t lane = t % LANES, w = t / LANES;
    for (uint32_t chain = 0; chain < (uint32_t)p->n_chain; ++chain) {
      maybe carry = {false, 0};
      for (uint32_t h = 0; h < (uint32_t)p->n_chunk; ++h) {
        uint32_t c = chain * (uint32_t)p->n_chunk + h;
        maybe before = carry, sum = {false, 0};
        if (p->n_warp > 1) {
          uint32_t at = sim_terms(&p->read, lane, w) ^ p->chunk_offset[c];
          uint32_t pos = sim_terms(&p->warp_pos, 0, w) ^ p->warp_pos_xor;
          for (uint32_t q = 0; q < (uint32_t)p->n_warp; ++q) {
            uint32_t slot = at + q;
            if (!written[slot]) bad = "a total is read that nobody wrote";
            if (q < pos) before = join(before, (maybe){true, mem[slot]}, op);
            sum = join(sum, (maybe){true, mem[slot]}, op);
          }
        } else {
          uint32_t from = w * LANES + ((lane & ~(uint32_t)p->last_mask) | p->last_value);
          sum = (maybe){true, total[from * n_chunks + c]};
        }
        before = join(before, prefix[t * n_chunks + c], op);
        for (uint32_t i = 0; i < n_lo; ++i) {
          uint32_t *v = &val[t * nr + p->regs[c * n_lo + i]];
          *v = join(before, (maybe){true, *v}, op).v;
        }
        carry = join(carry, sum, op);
      }
    }
  }
  int shift = lay_axis_shift(s, p->axis);
  uint32_t extent = UINT32_C(1) << s.bits[p->axis];
  for (uint32_t t = 0; t < threads && !bad; ++t)
    for (uint32_t r = 0; r < nr; ++r) {
      uint32_t e = lay_apply(p->lay, r, t % LANES, t / LANES, 0), c = e >> shift & (extent - 1);
      uint32_t count = p->reverse ? extent - c : c + 1, want = 0;
      for (uint32_t i = 0; i < count; ++i) {
        uint32_t at = (e & ~((extent - 1) << shift)) | (p->reverse ? extent - 1 - i : i) << shift;
        want = i ? op(want, data[at]) : data[at];
      }
      if (val[t * nr + r] != want) bad = "a result of the scan is wrong";
    }
  free(val);
  free(total);
  free(prefix);
  free(next);
  free(mem);
  free(written);
  return bad;
}
