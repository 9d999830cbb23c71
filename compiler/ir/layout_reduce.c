/* Plans of reductions and scans along an axis, read off the layout.
 *
 * Reduce. Let proj be L with the axis projected away. Locations that differ by a null vector of proj hold elements of
 * one result; null vectors of L itself are copies and must not be added twice. So the null vectors of proj modulo those
 * of L are the combining steps, and because the null space is computed with columns in the order registers, lanes,
 * warps, each step reaches no further than it must:
 *
 *     (reg)               fold registers of one thread
 *     (reg, lane)         partial[j] = op(partial[j], shfl.bfly(partial[partner j], lane)); the register part is zero
 * for ordinary layouts, and costs nothing more when it is not (reg, lane, warp)   through scratch memory
 *
 * A butterfly leaves the result in every lane that took part, which is what the result layout (the slice of L) says and
 * what a following broadcast wants. Counting lanes and warps along the axis, the obvious way, is wrong for swizzled
 * bases and for replicated operands.
 *
 * Across warps: after the first two stages a partial is determined by the element of the result and by the axis
 * coordinate modulo the space U that these stages covered. p = the coordinates of the axis modulo U numbers the
 * partials of a result; they lie next to each other in scratch, at result_element * n_warp + p, so that reading them is
 * a vector load, and every thread folds them in the same order: all copies of a result are equal to the last bit.
 *
 * Scan. The axis must run through low registers, lanes, warps, high registers in this order, each basis on the axis
 * moving along it only. The lane stage is Sklansky's: in step k the lanes whose position has bit k take the total of
 * the last position of the lower half, one AND and one OR away whatever lane bits the positions are made of.
 * Kogge-Stone, the usual choice, subtracts positions, which is lane arithmetic only if the bits are in a row. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

enum { NL = LAY_LANE_BITS };

static uint32_t axis_mask(const lay_t *l, int axis) {
  lay_shape s = lay_shape_of(l);
  return ((UINT32_C(1) << s.bits[axis]) - 1) << lay_axis_shift(s, axis);
}

/* tile bit -> flat element of the shape without the axis. */
static void projection(const lay_t *l, int axis, uint32_t *cols) {
  lay_shape s = lay_shape_of(l);
  int shift = lay_axis_shift(s, axis), d = lay_bits(l);
  for (int i = 0; i < d; ++i)
    cols[i] = i < shift ? UINT32_C(1) << i : i < shift + s.bits[axis] ? 0 : UINT32_C(1) << (i - s.bits[axis]);
}

typedef struct steps {
  int n_reg, n_lane, n_warp;
  uint32_t reg[LAY_MAX_HWBITS], lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS]; /* bits (reg | lane | warp) */
} steps;

static steps find_steps(const lay_t *l, const uint32_t *proj) {
  enum { THREADS = 1u << LAY_REG | 1u << LAY_LANE | 1u << LAY_WARP };
  uint32_t full[LAY_MAX_COLS], sliced[LAY_MAX_COLS];
  uint64_t copies[LAY_MAX_COLS], null[LAY_MAX_COLS];
  int n = lay_cols(l, THREADS, full), nr = l->nbits[LAY_REG];
  lay_matmul(proj, full, n, sliced);
  int n_copies = lay_nullspace(full, n, copies), n_null = lay_nullspace(sliced, n, null);
  lay_span seen;
  lay_span_init(&seen);
  for (int i = 0; i < n_copies; ++i) lay_span_add(&seen, (uint32_t)copies[i]);
  steps s = {0};
  for (int i = 0; i < n_null; ++i) {
    uint32_t v = (uint32_t)null[i];
    if (!lay_span_add(&seen, v)) continue;
    if (v >> (nr + NL))
      s.warp[s.n_warp++] = v;
    else if (v >> nr)
      s.lane[s.n_lane++] = v;
    else
      s.reg[s.n_reg++] = v;
  }
  return s;
}

/* Elements reached by a step's location vector. */
static uint32_t element_of(const lay_t *l, uint32_t v) {
  int nr = l->nbits[LAY_REG];
  return lay_apply(l, v & ((UINT32_C(1) << nr) - 1), v >> nr & ((1u << NL) - 1), v >> (nr + NL), 0);
}

/* tile bit -> number of the partial (coordinates of the axis modulo what registers and lanes have folded). */
static void partial_number(const lay_t *l, const steps *s, int axis, uint32_t *cols) {
  lay_span axis_span;
  lay_span_init(&axis_span);
  for (int i = 0; i < s->n_reg; ++i) lay_span_add(&axis_span, element_of(l, s->reg[i]));
  for (int i = 0; i < s->n_lane; ++i) lay_span_add(&axis_span, element_of(l, s->lane[i]));
  for (int i = 0; i < s->n_warp; ++i) lay_span_add(&axis_span, element_of(l, s->warp[i]));
  uint32_t along = axis_mask(l, axis);
  for (int i = 0; i < lay_bits(l); ++i) {
    uint64_t c = 0;
    cols[i] = 0;
    if (!(along >> i & 1)) continue;
    BASE_ASSERT(lay_span_solve(&axis_span, UINT32_C(1) << i, &c));
    cols[i] = (uint32_t)(c >> (s->n_reg + s->n_lane));
  }
}

static void plan_scratch(arena *a, const lay_t *l, const steps *s, const uint32_t *proj, const uint32_t *keep,
                         lay_reduce *r) {
  uint32_t number[LAY_MAX_BITS], write[LAY_MAX_BITS];
  uint32_t wl[LAY_MAX_HWBITS], ww[LAY_MAX_HWBITS], rl[LAY_MAX_HWBITS], rw[LAY_MAX_HWBITS];
  partial_number(l, s, r->axis, number);
  for (int i = 0; i < lay_bits(l); ++i) write[i] = proj[i] << s->n_warp | number[i];
  for (int i = 0; i < l->nbits[LAY_LANE]; ++i) {
    wl[i] = lay_mul(write, l->basis[LAY_LANE][i]);
    rl[i] = r->result->basis[LAY_LANE][i] << s->n_warp;
  }
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i) {
    ww[i] = lay_mul(write, l->basis[LAY_WARP][i]);
    rw[i] = r->result->basis[LAY_WARP][i] << s->n_warp;
  }
  r->write = lay_terms_of(a, wl, l->nbits[LAY_LANE], ww, l->nbits[LAY_WARP]);
  r->read = lay_terms_of(a, rl, l->nbits[LAY_LANE], rw, l->nbits[LAY_WARP]);
  uint32_t *write_reg = ARENA_ARRAY(a, uint32_t, r->n_out), *read_reg = ARENA_ARRAY(a, uint32_t, r->n_out);
  for (int j = 0; j < r->n_out; ++j) {
    write_reg[j] = lay_mul(write, lay_mul(l->basis[LAY_REG], lay_mul(keep, (uint64_t)j)));
    read_reg[j] = lay_mul(r->result->basis[LAY_REG], (uint64_t)j) << s->n_warp;
  }
  r->write_reg = write_reg;
  r->read_reg = read_reg;
  r->scratch_elems = UINT32_C(1) << (lay_bits(r->result) + s->n_warp);
  lay_span owners; /* of (result element, partial number) */
  lay_span_init(&owners);
  for (int i = 0; i < l->nbits[LAY_REG]; ++i) lay_span_add(&owners, lay_mul(write, l->basis[LAY_REG][i]));
  for (int i = 0; i < l->nbits[LAY_LANE]; ++i)
    if (!lay_span_add(&owners, wl[i])) r->lane_free |= UINT32_C(1) << i;
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i)
    if (!lay_span_add(&owners, ww[i])) r->warp_free |= UINT32_C(1) << i;
}

const lay_reduce *lay_reduce_plan(lay_cx *cx, arena *a, const lay_t *operand, int axis) {
  uint32_t along = axis_mask(operand, axis), proj[LAY_MAX_BITS];
  BASE_ASSERT(operand->flags & LAY_SURJECTIVE);
  for (int i = 0; i < operand->nbits[LAY_BLOCK]; ++i)
    if (operand->basis[LAY_BLOCK][i] & along) return NULL;
  uint8_t kept[LAY_MAX_HWBITS], out_kept[LAY_MAX_HWBITS];
  lay_kept_regs(operand, kept);
  const lay_t *l = lay_dedupe(cx, operand, NULL);
  projection(l, axis, proj);
  steps s = find_steps(l, proj);

  lay_reduce *r = ARENA_NEW(a, lay_reduce);
  r->operand = operand;
  r->result = lay_reduced(cx, operand, axis);
  r->axis = axis;
  r->n_fold = 1 << s.n_reg;
  r->n_out = lay_regs(r->result);
  BASE_ASSERT(r->n_out * r->n_fold == lay_regs(l));

  /* Result register j is represented by the operand's registers at the positions that survive the slice. */
  const lay_t *sliced = lay_slice(cx, l, axis);
  uint32_t keep[LAY_MAX_HWBITS], to_out[LAY_MAX_HWBITS], fold[LAY_MAX_HWBITS];
  int n_keep = lay_kept_regs(sliced, out_kept);
  for (int i = 0; i < n_keep; ++i) keep[i] = UINT32_C(1) << out_kept[i];
  lay_dedupe(cx, sliced, to_out);
  /* Fold in ascending order along the axis where the registers allow it: sort the steps by the element they move to. */
  for (int i = 0; i < s.n_reg; ++i) {
    int at = i;
    while (at > 0 && element_of(l, fold[at - 1]) > element_of(l, s.reg[i])) {
      fold[at] = fold[at - 1];
      --at;
    }
    fold[at] = s.reg[i];
  }
  uint16_t *regs = ARENA_ARRAY(a, uint16_t, r->n_out * r->n_fold);
  for (int j = 0; j < r->n_out; ++j)
    for (int i = 0; i < r->n_fold; ++i) {
      uint32_t x = lay_mul(keep, (uint64_t)j) ^ lay_mul(fold, (uint64_t)i);
      regs[j * r->n_fold + i] = (uint16_t)lay_old_reg(x, kept);
    }
  r->fold = regs;

  BASE_ASSERT(s.n_lane <= NL);
  r->n_lane_steps = s.n_lane;
  uint32_t low = (UINT32_C(1) << l->nbits[LAY_REG]) - 1;
  for (int k = 0; k < s.n_lane; ++k) {
    uint16_t *partner = ARENA_ARRAY(a, uint16_t, r->n_out);
    uint32_t shift = lay_mul(to_out, s.lane[k] & low);
    for (int j = 0; j < r->n_out; ++j) partner[j] = (uint16_t)((uint32_t)j ^ shift);
    r->lane_step[k] = (lay_lane_step){(uint8_t)(s.lane[k] >> l->nbits[LAY_REG]), partner};
  }
  r->n_warp = 1 << s.n_warp;
  if (s.n_warp) plan_scratch(a, l, &s, proj, keep, r);
  return r;
}

/* ---- scans ------------------------------------------------------------------------------------------------------- */

typedef struct bits {
  int n;
  uint8_t at[LAY_MAX_HWBITS];     /* hardware bits, ascending along the axis */
  uint32_t coord[LAY_MAX_HWBITS]; /* what they add to the axis coordinate */
} bits;

/* The bits of a hardware dim that move along the axis; false if one moves elsewhere as well, or not by a single bit. */
static bool axis_bits_of(const lay_t *l, int dim, uint32_t along, bits *out) {
  out->n = 0;
  for (int i = 0; i < l->nbits[dim]; ++i) {
    uint32_t v = l->basis[dim][i];
    if (!(v & along)) continue;
    if (v & ~along || (v & (v - 1))) return false;
    int at = out->n++;
    for (; at > 0 && out->coord[at - 1] > v; --at) {
      out->at[at] = out->at[at - 1];
      out->coord[at] = out->coord[at - 1];
    }
    out->at[at] = (uint8_t)i;
    out->coord[at] = v;
  }
  return true;
}

static uint32_t put(const uint8_t *at, int n, uint32_t x) {
  uint32_t r = 0;
  for (int i = 0; i < n; ++i) r |= (x >> i & 1) << at[i];
  return r;
}

static void scan_lanes(const bits *lanes, bool reverse, lay_scan *p) {
  uint32_t all = put(lanes->at, lanes->n, UINT32_MAX), seen = 0;
  p->n_steps = lanes->n;
  for (int k = 0; k < lanes->n; ++k) {
    uint32_t bit = UINT32_C(1) << lanes->at[k], low = put(lanes->at, k, UINT32_MAX);
    lay_scan_step s = {.bit = (uint8_t)bit, .seen = (uint8_t)seen};
    if (reverse) { /* the predecessor half has the bit set; its last position has the low bits clear */
      s.want = 0;
      s.and_mask = (uint8_t)(31u & ~low);
      s.or_mask = (uint8_t)bit;
      s.seen_none = (uint8_t)seen;
    } else {
      s.want = (uint8_t)bit;
      s.and_mask = (uint8_t)(31u & ~bit);
      s.or_mask = (uint8_t)low;
      s.seen_none = 0;
    }
    p->step[k] = s;
    seen |= bit;
  }
  p->last_mask = (uint8_t)all;
  p->last_value = (uint8_t)(reverse ? 0 : all);
}

/* Totals of a chunk lie at (key, position of the warp), where the key numbers what lanes and warps move off the axis.
   Keys are counted apart for each chain, so an owner is decided among lanes and warps alone. */
static void scan_scratch(arena *a, const lay_t *l, uint32_t along, const bits *warps, lay_scan *p) {
  uint32_t others[LAY_MAX_COLS], basis[LAY_MAX_BITS], lane[LAY_MAX_HWBITS], warp[LAY_MAX_HWBITS];
  uint32_t rl[LAY_MAX_HWBITS] = {0}, rw[LAY_MAX_HWBITS] = {0}, pos[LAY_MAX_HWBITS] = {0};
  int nw = warps->n, n = 0;
  for (int h = LAY_LANE; h <= LAY_WARP; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) others[n++] = l->basis[h][i] & ~along;
  int keys = lay_independent(others, n, basis);
  lay_span s;
  lay_span_init(&s);
  lay_span_add_all(&s, basis, keys);
  for (int h = LAY_LANE; h <= LAY_WARP; ++h)
    for (int i = 0; i < l->nbits[h]; ++i) {
      uint64_t c = 0;
      BASE_ASSERT(lay_span_solve(&s, l->basis[h][i] & ~along, &c));
      (h == LAY_LANE ? rl : rw)[i] = (uint32_t)c << nw;
    }
  for (int i = 0; i < l->nbits[LAY_LANE]; ++i) lane[i] = rl[i];
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i) warp[i] = rw[i];
  for (int i = 0; i < nw; ++i) {
    pos[warps->at[i]] = UINT32_C(1) << i;
    warp[warps->at[i]] ^= UINT32_C(1) << i;
  }
  p->write = lay_terms_of(a, lane, l->nbits[LAY_LANE], warp, l->nbits[LAY_WARP]);
  p->read = lay_terms_of(a, rl, l->nbits[LAY_LANE], rw, l->nbits[LAY_WARP]);
  p->warp_pos = lay_terms_of(a, NULL, 0, pos, l->nbits[LAY_WARP]);
  p->warp_pos_xor = p->reverse ? (UINT32_C(1) << nw) - 1 : 0;
  uint32_t *offset = ARENA_ARRAY(a, uint32_t, p->n_chain * p->n_chunk);
  for (int c = 0; c < p->n_chain * p->n_chunk; ++c) offset[c] = (uint32_t)c << (keys + nw);
  p->chunk_offset = offset;
  p->scratch_elems = (uint32_t)(p->n_chain * p->n_chunk) << (keys + nw);
  lay_span owners;
  lay_span_init(&owners);
  for (int i = 0; i < l->nbits[LAY_LANE]; ++i)
    if (!(p->last_mask >> i & 1) && !lay_span_add(&owners, lane[i])) p->lane_free |= UINT32_C(1) << i;
  for (int i = 0; i < l->nbits[LAY_WARP]; ++i)
    if (!lay_span_add(&owners, warp[i])) p->warp_free |= UINT32_C(1) << i;
}

const lay_scan *lay_scan_plan(lay_cx *cx, arena *a, const lay_t *l, int axis, bool reverse) {
  uint32_t along = axis_mask(l, axis);
  bits regs, lanes, warps;
  if (lay_dedupe(cx, l, NULL) != l || l->nbits[LAY_BLOCK] || !axis_bits_of(l, LAY_REG, along, &regs) ||
      !axis_bits_of(l, LAY_LANE, along, &lanes) || !axis_bits_of(l, LAY_WARP, along, &warps))
    return NULL;
  uint32_t last = 0;
  int n_lo = 0;
  uint32_t first_thread = lanes.n ? lanes.coord[0] : warps.n ? warps.coord[0] : UINT32_MAX;
  while (n_lo < regs.n && regs.coord[n_lo] < first_thread) last = regs.coord[n_lo++];
  for (int i = 0; i < lanes.n; ++i) {
    if (lanes.coord[i] <= last) return NULL;
    last = lanes.coord[i];
  }
  for (int i = 0; i < warps.n; ++i) {
    if (warps.coord[i] <= last) return NULL;
    last = warps.coord[i];
  }
  for (int i = n_lo; i < regs.n; ++i) {
    if (regs.coord[i] <= last) return NULL;
    last = regs.coord[i];
  }
  lay_scan *p = ARENA_NEW(a, lay_scan);
  p->lay = l;
  p->axis = axis;
  p->reverse = reverse;
  p->n_lo = 1 << n_lo;
  p->n_chunk = 1 << (regs.n - n_lo);
  uint8_t other[LAY_MAX_HWBITS];
  int n_other = 0;
  for (int i = 0; i < l->nbits[LAY_REG]; ++i)
    if (!(l->basis[LAY_REG][i] & along)) other[n_other++] = (uint8_t)i;
  p->n_chain = 1 << n_other;
  uint16_t *out = ARENA_ARRAY(a, uint16_t, lay_regs(l));
  for (int c = 0; c < p->n_chain; ++c)
    for (int h = 0; h < p->n_chunk; ++h)
      for (int i = 0; i < p->n_lo; ++i) {
        uint32_t along_regs = (uint32_t)(h * p->n_lo + i);
        if (reverse) along_regs = (uint32_t)(p->n_chunk * p->n_lo - 1) - along_regs;
        uint32_t x = put(other, n_other, (uint32_t)c) | put(regs.at, regs.n, along_regs);
        out[(c * p->n_chunk + h) * p->n_lo + i] = (uint16_t)x;
      }
  p->regs = out;
  scan_lanes(&lanes, reverse, p);
  p->n_warp = 1 << warps.n;
  if (warps.n) scan_scratch(a, l, along, &warps, p);
  return p;
}

const lay_t *lay_scan_layout(lay_cx *cx, lay_shape shape, int axis, int num_warps) {
  BASE_ASSERT(shape.rank > 0 && axis < shape.rank);
  lay_blocking b;
  int64_t numel = INT64_C(1) << lay_shape_bits(shape);
  int left = 1 << LAY_LANE_BITS, warps = num_warps, extent = 1 << shape.bits[axis];
  b.order[0] = axis;
  for (int a = shape.rank - 1, k = 1; a >= 0; --a)
    if (a != axis) b.order[k++] = a;
  int per = extent / left > 0 ? extent / left : 1;
  int64_t share = numel / (left * num_warps) > 0 ? numel / (left * num_warps) : 1;
  if (per > share) per = (int)share;
  for (int k = 0; k < shape.rank; ++k) {
    int a = b.order[k];
    b.per_thread[a] = k == 0 ? per : 1;
    int room = (1 << shape.bits[a]) / b.per_thread[a];
    b.threads[a] = room < left ? room : left;
    left /= b.threads[a];
  }
  /* warps along the other axes first: a scan across warps needs a barrier */
  for (int k = shape.rank - 1; k >= 0; --k) {
    int a = b.order[k], room = (1 << shape.bits[a]) / b.per_thread[a] / b.threads[a];
    if (room < 1) room = 1;
    b.warps[a] = room < warps ? room : warps;
    warps /= b.warps[a];
  }
  b.threads[b.order[shape.rank - 1]] *= left;
  b.warps[b.order[shape.rank - 1]] *= warps;
  return lay_blocked(cx, shape, &b);
}
