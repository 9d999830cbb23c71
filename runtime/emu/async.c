/* mbarriers, bulk and tensor copies, and arrivals bound to cp.async.
 *
 * An mbarrier is 64 bits of shared memory in a layout of our own: expected and pending arrivals, the bytes still to
 * come, the phase, and a mark that it has been initialised. A phase completes when no arrival and no byte is pending.
 *
 * An asynchronous operation stays in a list until somebody waits on what announces its end: a load into shared memory
 * until a wait on its mbarrier would otherwise fail, a store to global memory until the wait for its group. That is the
 * latest moment that the model allows, so a program that looks at the data without waiting meets marked bytes
 * (shadow.c). */
#include "runtime/emu/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ARRIVALS = (1 << 20) - 1, MAX_BULK = 1 << 20 };

typedef struct state {
  bool valid, phase;
  uint32_t expected, pending;
  int32_t tx;
} state;

static state unpack(uint64_t v) {
  return (state){v >> 62 & 1, v >> 63, v & MAX_ARRIVALS, v >> 20 & MAX_ARRIVALS, (int32_t)emu__sext(v >> 40, 22)};
}

static uint64_t pack(state s) {
  return (uint64_t)s.phase << 63 | (uint64_t)s.valid << 62 | emu__zext((uint64_t)s.tx, 22) << 40 |
         (uint64_t)s.pending << 20 | s.expected;
}

void emu__async_reset(emu_exec *x) {
  for (uint32_t k = 0; k < x->nasync; k++) free(x->async[k].data);
  x->nasync = x->nmbars = 0;
}

static emu_async *new_async(emu_exec *x) {
  if (x->nasync == x->cap_async) {
    uint32_t cap = x->cap_async == 0 ? 64 : x->cap_async * 2;
    emu_async *a = cap > 1u << 20 ? NULL : realloc(x->async, cap * sizeof *a);
    if (a == NULL) {
      x->status = EMU_NO_MEMORY;
      return NULL;
    }
    x->async = a;
    x->cap_async = cap;
  }
  emu_async *a = &x->async[x->nasync++];
  *a = (emu_async){.warp = (uint8_t)x->w->id, .line = x->i->line};
  return a;
}

static void remove_async(emu_exec *x, uint32_t k) {
  free(x->async[k].data);
  x->nasync--;
  memmove(&x->async[k], &x->async[k + 1], (x->nasync - k) * sizeof *x->async);
}

/* The clock that goes with the mbarrier at an offset; NULL when memory is short. */
static uint32_t *clock_of(emu_exec *x, uint32_t at) {
  for (uint32_t k = 0; k < x->nmbars; k++)
    if (x->mbars[k].at == at) return x->mbars[k].clock;
  if (x->nmbars == x->cap_mbars) {
    uint32_t cap = x->cap_mbars == 0 ? 16 : x->cap_mbars * 2;
    emu_mbar_clock *m = realloc(x->mbars, cap * sizeof *m);
    if (m == NULL) {
      x->status = EMU_NO_MEMORY;
      return NULL;
    }
    x->mbars = m;
    x->cap_mbars = cap;
  }
  emu_mbar_clock *m = &x->mbars[x->nmbars++];
  *m = (emu_mbar_clock){.at = at};
  return m->clock;
}

/* The 8 bytes of an mbarrier and their offset in shared memory; NULL after a fault. */
static uint8_t *find(emu_exec *x, const emu_ins *i, uint64_t addr, uint32_t lane, unsigned how, uint32_t *at) {
  emu_space space = emu__space(i, EMU_G_SPACE);
  if (space == EMU_GENERIC && addr >> EMU_WINDOW_SHIFT != EMU_SHARED) {
    emu__fault(x, (int)lane, "the mbarrier at 0x%llx is not in shared memory", (unsigned long long)addr);
    return NULL;
  }
  uint8_t *p = emu__access(x, space, addr, 8, lane, how);
  if (p != NULL) *at = (uint32_t)(p - x->shared);
  return p;
}

static bool load(emu_exec *x, uint32_t at, uint32_t lane, state *s) {
  uint64_t v;
  memcpy(&v, x->shared + at, sizeof v);
  *s = unpack(v);
  if (!s->valid) emu__fault(x, (int)lane, "the mbarrier at shared offset %u is not initialised", at);
  return s->valid;
}

static void store(emu_exec *x, uint32_t at, state s) {
  if (s.pending == 0 && s.tx == 0) {
    s.phase = !s.phase;
    s.pending = s.expected;
  }
  uint64_t v = pack(s);
  memcpy(x->shared + at, &v, sizeof v);
}

/* `count` arrivals of the current warp, and `tx` more bytes to wait for (fewer, if negative). */
static bool arrive(emu_exec *x, uint32_t at, uint32_t lane, uint32_t count, int64_t tx) {
  state s;
  uint32_t *clock = clock_of(x, at);
  if (clock == NULL || !load(x, at, lane, &s)) return false;
  if (count > s.pending) {
    emu__fault(x, (int)lane, "%u arrivals at an mbarrier that expects %u more in this phase", count, s.pending);
    return false;
  }
  if (s.tx + tx > MAX_BULK - 1 || s.tx + tx < -(MAX_BULK - 1)) {
    emu__fault(x, (int)lane, "the transaction count of an mbarrier leaves its range");
    return false;
  }
  s.pending -= count;
  s.tx += (int32_t)tx;
  if (count > 0) {
    emu__clock_join(clock, x->w->clock);
    x->w->clock[x->w->id]++;
  }
  store(x, at, s);
  return true;
}

emu_next emu__x_mb_init(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES];
  const uint64_t *count = emu__src(x, &i->opd[1], 1);
  emu__addr(x, &i->opd[0], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at, n = (uint32_t)count[l];
    if (n == 0 || n > MAX_ARRIVALS) return emu__fault(x, (int)l, "an mbarrier cannot expect %u arrivals", n);
    if (find(x, i, addr[l], l, EMU_WRITE, &at) == NULL) return EMU_FAILED;
    uint64_t v = pack((state){.valid = true, .expected = n, .pending = n});
    memcpy(x->shared + at, &v, sizeof v);
  }
  return EMU_NEXT;
}

emu_next emu__x_mb_inval(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES];
  emu__addr(x, &i->opd[0], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at;
    state s;
    if (find(x, i, addr[l], l, EMU_WRITE, &at) == NULL || !load(x, at, l, &s)) return EMU_FAILED;
    memset(x->shared + at, 0, 8);
  }
  return EMU_NEXT;
}

emu_next emu__x_mb_arrive(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES];
  bool with_tx = i->op == EMU_I_MB_ARRIVE_TX;
  const uint64_t *n = i->nopd == 3 ? emu__src(x, &i->opd[2], 2) : NULL;
  uint64_t *d = emu__dst(x, &i->opd[0]);
  emu__addr(x, &i->opd[1], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at, count = n != NULL && !with_tx ? (uint32_t)n[l] : 1;
    uint64_t token;
    if (find(x, i, addr[l], l, EMU_READ | EMU_WRITE | EMU_STRONG, &at) == NULL) return EMU_FAILED;
    memcpy(&token, x->shared + at, sizeof token);
    if (!arrive(x, at, l, count, with_tx ? (int64_t)(uint32_t)n[l] : 0)) return EMU_FAILED;
    d[l] = emu__fit(&i->opd[0], token);
  }
  return EMU_NEXT;
}

emu_next emu__x_mb_tx(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES];
  const uint64_t *n = emu__src(x, &i->opd[1], 1);
  emu__addr(x, &i->opd[0], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at;
    int64_t tx = (uint32_t)n[l];
    if (find(x, i, addr[l], l, EMU_READ | EMU_WRITE | EMU_STRONG, &at) == NULL) return EMU_FAILED;
    if (!arrive(x, at, l, 0, i->op == EMU_I_MB_EXPECT ? tx : -tx)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

/* Where byte `off` of a copy lies in shared memory: swizzling exchanges 16-byte chunks by address bits (PTX ISA,
 * "Swizzling modes"). */
static uint32_t chunk_at(uint32_t shared, uint32_t off, uint32_t width) {
  uint32_t addr = EMU_SHARED_START + shared + off;
  if (width != 0) addr ^= (addr >> 7 & (width / 16 - 1)) << 4;
  return addr - EMU_SHARED_START;
}

/* Completes operation k, which announces itself at an mbarrier, in the name of the warp that issued it. */
static bool finish(emu_exec *x, uint32_t k) {
  emu_async a = x->async[k];
  emu_warp *mine = x->w;
  x->w = &x->warps[a.warp];
  bool ok;
  if (a.kind == EMU_A_LOAD) {
    for (uint32_t b = 0; b < a.size; b += 16) {
      uint32_t at = chunk_at(a.shared, b, a.width);
      for (uint32_t c = 0; c < 16; c++) x->shadow[at + c].state &= (uint8_t)~EMU_SH_PENDING;
      emu__shadow_touch(x, at, 16, a.lane, EMU_WRITE, a.line);
      memcpy(x->shared + at, a.data + b, 16);
    }
    uint32_t *clock = clock_of(x, a.mbar);
    ok = clock != NULL && arrive(x, a.mbar, a.lane, 0, -(int64_t)a.size);
    if (ok && clock[a.warp] < x->w->clock[a.warp]) clock[a.warp] = x->w->clock[a.warp];
    x->w->clock[a.warp]++;
  } else {
    emu__land_copies(x, a.lane, UINT32_MAX, a.number);
    ok = arrive(x, a.mbar, a.lane, 1, 0);
  }
  x->w = mine;
  remove_async(x, k);
  return ok;
}

/* Whether the phase that the lane waits for is over; completes what is in flight for the mbarrier only when it is not.
 */
static bool wait_phase(emu_exec *x, uint32_t at, uint32_t lane, bool phase, bool *over) {
  state s;
  for (uint32_t k = 0;;) {
    if (!load(x, at, lane, &s)) return false;
    *over = s.phase != phase;
    if (*over) return true;
    while (k < x->nasync && (x->async[k].kind == EMU_A_STORE || x->async[k].mbar != at)) k++;
    if (k == x->nasync) return true;
    if (!finish(x, k)) return false;
  }
}

emu_next emu__x_mb_wait(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES], *d = emu__dst(x, &i->opd[0]);
  const uint64_t *what = emu__src(x, &i->opd[2], 2);
  bool parity = i->op == EMU_I_MB_TEST_PARITY || i->op == EMU_I_MB_TRY_PARITY;
  emu__addr(x, &i->opd[1], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at;
    bool over, phase = parity ? what[l] & 1 : what[l] >> 63;
    if (find(x, i, addr[l], l, EMU_READ | EMU_STRONG, &at) == NULL) return EMU_FAILED;
    if (!wait_phase(x, at, l, phase, &over)) return EMU_FAILED;
    uint32_t *clock = clock_of(x, at);
    if (clock == NULL) return EMU_FAILED;
    if (over && i->mod[EMU_G_SEM] != EMU_M_RELAXED) emu__clock_join(x->w->clock, clock);
    d[l] = emu__fit(&i->opd[0], over);
  }
  return EMU_NEXT;
}

/* The arrival happens once the cp.async that the thread has issued so far are complete. Without .noinc it is announced
 * to the mbarrier by one more pending arrival. */
emu_next emu__x_cp_arrive(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t addr[EMU_LANES];
  emu__addr(x, &i->opd[0], addr);
  EMU_FOR_LANES(mask, l) {
    uint32_t at;
    state s;
    if (find(x, i, addr[l], l, EMU_READ | EMU_WRITE | EMU_STRONG, &at) == NULL || !load(x, at, l, &s))
      return EMU_FAILED;
    if (!(i->flags & EMU_FLAG(NOINC))) {
      if (s.pending == MAX_ARRIVALS) return emu__fault(x, (int)l, "too many pending arrivals at an mbarrier");
      s.pending++;
      store(x, at, s);
    }
    emu_async *a = new_async(x);
    if (a == NULL) return EMU_FAILED;
    a->kind = EMU_A_ARRIVE;
    a->lane = (uint8_t)l;
    a->mbar = at;
    a->number = x->w->copy_number;
  }
  return EMU_NEXT;
}

/* bulk copies */

static bool check_size(emu_exec *x, uint32_t lane, uint32_t size, uint64_t a, uint64_t b) {
  if (size != 0 && size % 16 == 0 && size < MAX_BULK && a % 16 == 0 && b % 16 == 0) return true;
  emu__fault(x, (int)lane, "a bulk copy of %u bytes between 0x%llx and 0x%llx: all must be multiples of 16", size,
             (unsigned long long)a, (unsigned long long)b);
  return false;
}

/* Checks `size` bytes of global memory and copies them from or to `bytes`. */
static bool global_bytes(emu_exec *x, uint64_t addr, uint32_t size, uint32_t lane, bool write, uint8_t *bytes) {
  for (uint32_t b = 0; b < size; b += 16) {
    uint8_t *p = emu__access(x, EMU_GLOBAL, addr + b, 16, lane, write ? EMU_WRITE : EMU_READ);
    if (p == NULL) return false;
    if (write)
      memcpy(p, bytes + b, 16);
    else
      memcpy(bytes + b, p, 16);
  }
  return true;
}

/* Checks and marks the shared bytes of operation k; false after a fault. */
static bool shared_bytes(emu_exec *x, uint32_t k, uint64_t addr, unsigned how) {
  emu_async *a = &x->async[k];
  uint8_t mark = how == EMU_WRITE ? EMU_SH_PENDING : EMU_SH_SOURCE;
  a->shared = (uint32_t)addr - EMU_SHARED_START;
  for (uint32_t b = 0; b < a->size; b += 16) {
    uint64_t at = EMU_SHARED_START + (uint64_t)chunk_at(a->shared, b, a->width);
    uint8_t *p = emu__access(x, EMU_SHARED, addr >> 32 != 0 ? addr : at, 16, a->lane, how);
    if (p == NULL) return false;
  }
  for (uint32_t b = 0; b < a->size; b += 16)
    for (uint32_t c = 0; c < 16; c++) x->shadow[chunk_at(a->shared, b, a->width) + c].state |= mark;
  return true;
}

/* A load that announces itself at the mbarrier; NULL after a fault. */
static emu_async *new_load(emu_exec *x, uint64_t mbar, uint32_t size, uint32_t lane) {
  state s;
  uint8_t *p = emu__access(x, EMU_SHARED, mbar, 8, lane, EMU_READ | EMU_WRITE | EMU_STRONG);
  if (p == NULL || !load(x, (uint32_t)(p - x->shared), lane, &s)) return NULL;
  emu_async *a = new_async(x);
  if (a == NULL) return NULL;
  a->kind = EMU_A_LOAD;
  a->lane = (uint8_t)lane;
  a->mbar = (uint32_t)(p - x->shared);
  a->size = size;
  a->data = malloc(size);
  if (a->data != NULL) return a;
  x->status = EMU_NO_MEMORY;
  return NULL;
}

static emu_async *new_store(emu_exec *x, uint32_t size, uint32_t lane) {
  emu_async *a = new_async(x);
  if (a == NULL) return NULL;
  a->kind = EMU_A_STORE;
  a->lane = (uint8_t)lane;
  a->size = size;
  a->group = x->w->bulk_groups[lane];
  return a;
}

emu_next emu__x_bulk_load(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t dst[EMU_LANES], src[EMU_LANES], bar[EMU_LANES];
  const uint64_t *size = emu__src(x, &i->opd[2], 2);
  emu__addr(x, &i->opd[0], dst);
  emu__addr(x, &i->opd[1], src);
  emu__addr(x, &i->opd[3], bar);
  EMU_FOR_LANES(mask, l) {
    uint32_t n = (uint32_t)size[l];
    if (!check_size(x, l, n, dst[l], src[l])) return EMU_FAILED;
    emu_async *a = new_load(x, bar[l], n, l);
    if (a == NULL || !global_bytes(x, src[l], n, l, false, a->data)) return EMU_FAILED;
    if (!shared_bytes(x, x->nasync - 1, dst[l], EMU_WRITE)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

emu_next emu__x_bulk_store(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t dst[EMU_LANES], src[EMU_LANES];
  const uint64_t *size = emu__src(x, &i->opd[2], 2);
  emu__addr(x, &i->opd[0], dst);
  emu__addr(x, &i->opd[1], src);
  EMU_FOR_LANES(mask, l) {
    uint32_t n = (uint32_t)size[l];
    if (!check_size(x, l, n, dst[l], src[l])) return EMU_FAILED;
    emu_async *a = new_store(x, n, l);
    if (a == NULL) return EMU_FAILED;
    a->global = dst[l];
    if (!shared_bytes(x, x->nasync - 1, src[l], EMU_READ)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

/* The map and the coordinates that a lane names, and the bytes of a box. */
static bool tensor_operand(emu_exec *x, const emu_opd *o, uint32_t lane, emu_tensor_map *map, int32_t at[5],
                           uint32_t *bytes) {
  uint64_t addr[EMU_LANES];
  emu__addr(x, o, addr);
  for (unsigned k = 0; k < o->n; k++) at[k] = (int32_t)emu__src(x, &x->m->pool[o->first + 1 + k], 0)[lane];
  if (!emu__tensor_map(x, addr[lane], lane, map)) return false;
  if (map->rank != o->n) {
    emu__fault(x, (int)lane, "%u coordinates for a tensor map of rank %u", o->n, map->rank);
    return false;
  }
  uint64_t n = map->elem_bytes;
  for (unsigned k = 0; k < map->rank; k++) n *= map->box[k];
  *bytes = n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
  return true;
}

emu_next emu__x_tensor_load(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t dst[EMU_LANES], bar[EMU_LANES];
  emu__addr(x, &i->opd[0], dst);
  emu__addr(x, &i->opd[2], bar);
  EMU_FOR_LANES(mask, l) {
    emu_tensor_map map;
    int32_t at[5];
    uint32_t n;
    if (!tensor_operand(x, &i->opd[1], l, &map, at, &n) || !check_size(x, l, n, dst[l], 0)) return EMU_FAILED;
    if (dst[l] % 128 != 0) return emu__fault(x, (int)l, "a tensor copy needs a multiple of 128 as shared address");
    emu_async *a = new_load(x, bar[l], n, l);
    if (a == NULL) return EMU_FAILED;
    a->width = map.swizzle;
    if (!emu__tensor_copy(x, &map, at, l, false, a->data)) return EMU_FAILED;
    if (!shared_bytes(x, x->nasync - 1, dst[l], EMU_WRITE)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

emu_next emu__x_tensor_store(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t src[EMU_LANES];
  emu__addr(x, &i->opd[1], src);
  EMU_FOR_LANES(mask, l) {
    emu_tensor_map map;
    int32_t at[5] = {0};
    uint32_t n;
    if (!tensor_operand(x, &i->opd[0], l, &map, at, &n) || !check_size(x, l, n, src[l], 0)) return EMU_FAILED;
    if (src[l] % 128 != 0) return emu__fault(x, (int)l, "a tensor copy needs a multiple of 128 as shared address");
    for (uint32_t k = 0; k < map.rank; k++) /* seen on an H200: CUDA_ERROR_ILLEGAL_INSTRUCTION */
      if (at[k] < 0)
        return emu__fault(x, (int)l, "coordinate %u of a tensor store is %d: it must not be negative", k, at[k]);
    emu_async *a = new_store(x, n, l);
    if (a == NULL) return EMU_FAILED;
    a->data = malloc(sizeof map);
    if (a->data == NULL) {
      x->status = EMU_NO_MEMORY;
      return EMU_FAILED;
    }
    memcpy(a->data, &map, sizeof map);
    memcpy(a->at, at, sizeof at);
    a->tensor = true;
    a->width = map.swizzle;
    if (!shared_bytes(x, x->nasync - 1, src[l], EMU_READ)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

emu_next emu__x_bulk_commit(emu_exec *x, const emu_ins *i, uint32_t mask) {
  (void)i;
  EMU_FOR_LANES(mask, l) x->w->bulk_groups[l]++;
  return EMU_NEXT;
}

/* Completes the stores of a lane in groups below `limit`: .read would let the writes to global memory come later still,
 * which no thread of the grid may observe without the full wait. */
static bool finish_stores(emu_exec *x, uint32_t lane, uint32_t limit) {
  for (uint32_t k = 0; k < x->nasync;) {
    const emu_async a = x->async[k];
    if (a.kind != EMU_A_STORE || a.warp != x->w->id || a.lane != lane || a.group >= limit) {
      k++;
      continue;
    }
    uint8_t *bytes = malloc(a.size);
    if (bytes == NULL) {
      x->status = EMU_NO_MEMORY;
      return false;
    }
    for (uint32_t b = 0; b < a.size; b += 16) {
      uint32_t at = chunk_at(a.shared, b, a.width);
      for (uint32_t c = 0; c < 16; c++) x->shadow[at + c].state &= (uint8_t)~EMU_SH_SOURCE;
      memcpy(bytes + b, x->shared + at, 16);
    }
    bool ok;
    if (a.tensor) {
      emu_tensor_map map;
      memcpy(&map, a.data, sizeof map);
      ok = emu__tensor_copy(x, &map, a.at, lane, true, bytes);
    } else {
      ok = global_bytes(x, a.global, a.size, lane, true, bytes);
    }
    free(bytes);
    if (!ok) return false;
    remove_async(x, k);
  }
  return true;
}

emu_next emu__x_bulk_wait(emu_exec *x, const emu_ins *i, uint32_t mask) {
  uint64_t n = i->opd[0].imm;
  EMU_FOR_LANES(mask, l) {
    uint32_t groups = x->w->bulk_groups[l];
    if (!finish_stores(x, l, groups > n ? groups - (uint32_t)n : 0)) return EMU_FAILED;
  }
  return EMU_NEXT;
}

bool emu__async_exit(emu_exec *x, uint32_t mask) {
  for (uint32_t k = 0; k < x->nasync; k++) {
    const emu_async *a = &x->async[k];
    if (a->kind != EMU_A_STORE || a->warp != x->w->id || !(mask >> a->lane & 1)) continue;
    emu__fault(x, a->lane, "the thread ends while its bulk copy of PTX line %u may still read shared memory", a->line);
    return false;
  }
  return true;
}

/* A cluster is one block, so the only rank is 0 and addresses map to themselves. */
emu_next emu__x_mapa(emu_exec *x, const emu_ins *i, uint32_t mask) {
  const uint64_t *a = emu__src(x, &i->opd[1], 1), *rank = emu__src(x, &i->opd[2], 2);
  uint64_t *d = emu__dst(x, &i->opd[0]);
  EMU_FOR_LANES(mask, l) {
    if ((uint32_t)rank[l] != 0)
      return emu__fault(x, (int)l, "mapa names block %u of a cluster of one", (uint32_t)rank[l]);
    d[l] = emu__fit(&i->opd[0], emu__zext(a[l], emu__bits(i, 0)));
  }
  return EMU_NEXT;
}
