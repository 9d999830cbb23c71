/* Text form of layouts: printing and reading back.
 *
 *   register layout   r(1,2,64)l(4..64)w(128,256)        bases in order, as flat elements; b(..) if there are block
 * bits shared layout     s(1..64,136,272)pad(5,4)tma(128,1)align(1024)
 *
 * `a..b` is a run of doublings a, 2a, 4a, .. b of three or more: most layouts are a few runs. The number of lane bases
 * is always five; the number of warp bases says for how many warps the layout is. A layout of no registers prints
 * `r()`.
 *
 * The reader takes any text: it stops at the first character that does not fit, and checks everything that lay_intern
 * would otherwise panic about. */
#include "compiler/ir/layout.h"
#include "compiler/ir/layout_internal.h"

#include <string.h>

static void print_list(textbuf *out, const char *name, const uint32_t *v, int n) {
  text_printf(out, "%s(", name);
  for (int i = 0; i < n;) {
    int run = 1;
    while (v[i] && i + run < n && v[i + run] == v[i] << run) ++run;
    if (i) text_char(out, ',');
    if (run >= 3) {
      text_printf(out, "%u..%u", v[i], v[i + run - 1]);
      i += run;
    } else {
      text_printf(out, "%u", v[i++]);
    }
  }
  text_char(out, ')');
}

static const char *const dim_name[LAY_NHW] = {"r", "l", "w", "b"};

void lay_print(textbuf *out, const lay_t *l) {
  for (int h = 0; h < LAY_NHW; ++h)
    if (h != LAY_BLOCK || l->nbits[h]) print_list(out, dim_name[h], l->basis[h], l->nbits[h]);
}

static const char *const kind_name[] = {
    [LAY_SH_ROWMAJOR] = "row", [LAY_SH_XOR] = "xor", [LAY_SH_TMA_BOX] = "tma", [LAY_SH_GENERIC] = "gen"};

void lay_sh_print(textbuf *out, const sh_t *s) {
  print_list(out, "s", s->col, s->d);
  text_printf(out, "%s(%u,%u)", kind_name[s->kind], s->swizzle_bytes, s->inner_axis);
  if (s->pad_log2) text_printf(out, "pad(%u,%u)", s->pad_log2, s->pad_elems);
  text_printf(out, "align(%u)", s->align_bytes);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const char *p, *why;
} reader;

static bool fail(reader *r, const char *why) {
  if (!r->why) r->why = why;
  return false;
}

static bool eat(reader *r, const char *word) {
  size_t n = strlen(word);
  if (strncmp(r->p, word, n) != 0) return false;
  r->p += n;
  return true;
}

static bool number(reader *r, uint32_t limit, uint32_t *out) {
  if (*r->p < '0' || *r->p > '9') return fail(r, "a number is expected");
  uint64_t v = 0;
  const char *at = r->p;
  while (*r->p >= '0' && *r->p <= '9') {
    v = 10 * v + (uint64_t)(*r->p++ - '0');
    if (v >= limit) {
      r->p = at;
      return fail(r, "the number is too large for the tile");
    }
  }
  *out = (uint32_t)v;
  return true;
}

/* name "(" [item {"," item}] ")", all values below limit */
static bool list(reader *r, const char *name, int max, uint32_t limit, uint32_t *out, int *count) {
  int n = 0;
  if (!eat(r, name) || !eat(r, "(")) return fail(r, "a list of bases is expected: r(..)l(..)w(..)");
  while (*r->p != ')') {
    uint32_t v, last;
    if (n && !eat(r, ",")) return fail(r, "',' or ')' is expected");
    if (!number(r, limit, &v)) return false;
    last = v;
    if (eat(r, "..")) {
      const char *at = r->p;
      if (!number(r, limit, &last)) return false;
      uint64_t x = v;
      while (x && x < last) x *= 2;
      if (x != last || v == 0) {
        r->p = at;
        return fail(r, "the end of a run is a power of two times its start");
      }
    }
    for (uint64_t x = v;; x *= 2) {
      if (n == max) return fail(r, "too many bases");
      out[n++] = (uint32_t)x;
      if (x >= last) break;
    }
  }
  r->p++;
  *count = n;
  return true;
}

static bool read_registers(reader *r, lay_t *l) {
  uint32_t limit = UINT32_C(1) << lay_bits(l);
  for (int h = 0; h < LAY_NHW; ++h) {
    int n = 0;
    if (h == LAY_BLOCK && strncmp(r->p, "b(", 2) != 0) break;
    const char *at = r->p;
    int max = h == LAY_REG ? 16 : h == LAY_LANE ? LAY_LANE_BITS : 5;
    if (!list(r, dim_name[h], max, limit, l->basis[h], &n)) return false;
    if (h == LAY_LANE && n != LAY_LANE_BITS) {
      r->p = at;
      return fail(r, "there are five lane bases");
    }
    l->nbits[h] = (uint8_t)n;
  }
  return true;
}

const lay_t *lay_read(lay_cx *cx, const char **p, lay_shape shape, const char **why) {
  reader r = {*p, NULL};
  lay_t l = lay_blank(shape);
  const lay_t *done = NULL;
  if (read_registers(&r, &l)) {
    done = lay_intern(cx, &l);
    if (!(done->flags & LAY_SURJECTIVE)) {
      done = NULL;
      r.p = *p;
      fail(&r, "the layout does not reach every element of the tile");
    }
  }
  *p = r.p;
  *why = r.why;
  return done;
}

static bool pair(reader *r, uint32_t limit_a, uint32_t limit_b, uint32_t *a, uint32_t *b) {
  return (eat(r, "(") || fail(r, "'(' is expected")) && number(r, limit_a, a) &&
         (eat(r, ",") || fail(r, "',' is expected")) && number(r, limit_b, b) &&
         (eat(r, ")") || fail(r, "')' is expected"));
}

static bool read_shared(reader *r, sh_t *s) {
  int n = 0;
  uint32_t a, b;
  const char *start = r->p;
  if (!list(r, "s", LAY_MAX_BITS, UINT32_C(1) << s->d, s->col, &n)) return false;
  if (n != s->d || lay_rank(s->col, n) != n) {
    r->p = start;
    return fail(r, "a shared layout has one independent column per bit of the tile");
  }
  for (int k = 0; k <= LAY_SH_GENERIC; ++k) {
    if (!eat(r, kind_name[k])) continue;
    s->kind = (uint8_t)k;
    if (!pair(r, 129, LAY_MAX_RANK, &a, &b)) return false;
    s->swizzle_bytes = (uint8_t)a;
    s->inner_axis = (uint8_t)b;
    if (eat(r, "pad")) {
      if (!pair(r, LAY_MAX_BITS, 1 << 15, &a, &b)) return false;
      s->pad_log2 = (uint8_t)a;
      s->pad_elems = (uint16_t)b;
    }
    if (!eat(r, "align(") || !number(r, 1 << 15, &a) || !eat(r, ")")) return fail(r, "align(bytes) is expected");
    s->align_bytes = (uint16_t)a;
    return true;
  }
  return fail(r, "the kind of a shared layout is expected: row, xor, tma or gen");
}

const sh_t *lay_sh_read(lay_cx *cx, const char **p, lay_shape shape, const char **why) {
  reader r = {*p, NULL};
  sh_t s = {.rank = shape.rank, .d = (uint8_t)lay_shape_bits(shape)};
  memcpy(s.axis_bits, shape.bits, sizeof s.axis_bits);
  bool ok = read_shared(&r, &s);
  *p = r.p;
  *why = r.why;
  return ok ? lay_sh_intern(cx, &s) : NULL;
}
