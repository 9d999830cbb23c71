/* The parts of the interpreter: what its files share.
 *
 *   plan.c     the function as arrays of ops with the values that die behind each        made once
 *   value.c    values: counted blocks of elements, and two shadow planes                 per worker
 *   exec.c     control flow and elementwise ops
 *   tile.c     ops that move elements; reduce.c and dot.c those that combine them
 *   memory.c   loads, stores, atomics, with every check of an address; race.c the shadow of memory
 *   shared.c   buffers in shared memory, asynchronous copies and products
 *   report.c   findings
 *   interp.c   arguments, the order of programs, threads
 *
 * A value is its elements in memory encoding, and what is known of each: whether it is defined (a byte: 0, or the
 * number of the place that left it undefined) and, for pointers, which buffer it was derived from. A plane that says
 * the same of all elements is left out, which is nearly always. */
#ifndef INTERP_MACHINE_H
#define INTERP_MACHINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "compiler/interp/interp.h"

/* ---- plan ----------------------------------------------------------------------------------------------------- */

typedef struct plan_region plan_region;

typedef struct plan_op {
  const tir_op *op;
  uint8_t origin; /* number of this op as the origin of undefined elements; 0 = it makes none */
  bool index;     /* an integer division by a run-time scalar, on the way to an address or a mask */
  bool once;      /* its value is the same in every program: computed once, never released */
  uint64_t cost;  /* steps: one, and one more per 256 elements */
  int n_dead;
  const uint32_t *dead; /* ids of values last used here */
  const plan_region *regions[2];
} plan_op;

struct plan_region {
  const tir_region *region;
  plan_op *ops;
  int n;
  bool structured; /* holds control flow */
};

enum { MAX_ORIGINS = 255 }; /* the last one stands for all further ones */
typedef struct plan {
  const plan_region *body;
  const tir_op *origins[MAX_ORIGINS + 1];
  int n_origins;
  int granule; /* bytes: the narrowest element that any op accesses in memory */
} plan;
const plan *plan_make(const tir_fn *fn, arena *a);

/* ---- values --------------------------------------------------------------------------------------------------- */

typedef struct block { /* elements follow the header */
  int refs, size_class;
  struct block *next_free;
} block;
_Static_assert(sizeof(block) % 16 == 0, "elements are aligned to 16 bytes");

enum { N_CLASSES = 48 };
typedef struct pool {
  arena *a;
  block *free[N_CLASSES];
} pool;
block *block_new(pool *p, size_t bytes); /* contents undetermined */
void block_drop(pool *p, block *b);      /* one reference less; NULL is allowed */
static inline void *block_at(block *b) { return b + 1; }

enum { BUFFER_UNKNOWN = -1 }; /* look it up by address */
typedef struct ival {
  size_t n;     /* elements: the type's number; in a reduction's region the number of combined pairs, or 1 */
  block *data;  /* NULL: no value */
  block *undef; /* uint8_t per element; NULL = all are defined */
  block *from;  /* int32_t per element: buffer a pointer belongs to; NULL = all to from_all */
  int32_t from_all;
  block *storage; /* of a buffer in shared memory: what is written through its views (shared.c) */
  bool in_flight; /* a product of wgmma that no wgmma_wait has handed on yet .. */
  uint8_t origin; /* .. and the number of its wgmma as an origin */
} ival;

typedef struct worker worker;

ival *val_of(worker *w, const tir_value *v);
void val_clear(worker *w, ival *x);
void val_take(worker *w, ival *to, ival *from);         /* moves */
ival val_share(const ival *x);                          /* one more reference */
void *val_new(worker *w, ival *x, size_t n, int bytes); /* a fresh value without planes */
uint8_t *val_undef_new(worker *w, ival *x);             /* its plane of zeros */
static inline void *val_at(const ival *x) { return block_at(x->data); }
static inline const uint8_t *val_undef(const ival *x) { return x->undef ? block_at(x->undef) : NULL; }
static inline int32_t val_buffer(const ival *x, size_t i) {
  return x->from ? ((const int32_t *)block_at(x->from))[i] : x->from_all;
}
ival *vals_new(worker *w, int n);   /* an array of no values */
void vals_drop(worker *w, ival *x); /* the array; its values were taken */
int elem_bytes(const tir_type *t);
uint64_t val_bits(const ival *x, const tir_type *t, size_t i); /* element i, zero-extended */
/* Copies n elements of `bytes` bytes from every `in_step`-th to every `out_step`-th. */
void copy_strided(void *out, int64_t out_step, const void *in, int64_t in_step, int64_t n, int bytes);
void val_splat(worker *w, ival *out, const ival *in, size_t n, int bytes); /* element 0 of in, n times */

/* ---- the machine ---------------------------------------------------------------------------------------------- */

typedef struct shadow shadow;
typedef struct memory_buffer {
  const char *name;
  char *data;
  size_t bytes;
  shadow *shadow;
} memory_buffer;

typedef struct finding {
  const diag_desc *what;
  span at;
  diag *diag;
  int64_t times, programs, last_program;
  struct finding *next;
} finding;

typedef struct race_log race_log;

typedef struct machine {
  arena *a; /* of the run; used under the lock once workers run */
  const tir_fn *fn;
  const plan *plan;
  const interp_options *options;
  int64_t grid[3], n_programs;
  uint64_t max_steps;
  int max_findings;
  memory_buffer *buffers;
  int n_buffers;
  const uint64_t *args;      /* by parameter */
  const int32_t *arg_buffer; /* by parameter: the buffer a pointer is in */
  const uint32_t *order;     /* NULL = ascending */
  race_log *races;
  diag_sink *sink;
  finding *findings;
  int n_findings, n_errors;
  bool threaded;
  pthread_mutex_t lock;
  atomic_llong next; /* number of programs that were begun */
  atomic_bool stop;
  char panic[512]; /* message of the first worker that panicked */
} machine;

struct worker {
  machine *m;
  pool pool;
  ival *slots;     /* by value id */
  int64_t program; /* linear */
  int64_t pid[3];
  uint32_t segment; /* race.c */
  uint64_t steps;
  struct async_work *async; /* shared.c; made when first needed */
  bool stopped, holds_lock;
};

/* Held while memory, findings or the machine's arena are used. Does not nest. */
static inline void machine_lock(worker *w) {
  if (!w->m->threaded) return;
  pthread_mutex_lock(&w->m->lock);
  w->holds_lock = true;
}
static inline void machine_unlock(worker *w) {
  if (!w->m->threaded) return;
  w->holds_lock = false;
  pthread_mutex_unlock(&w->m->lock);
}

/* ---- running (exec.c, tile.c, reduce.c, dot.c, memory.c) -------------------------------------------------------- */

/* Executes a region up to its terminator, whose operands are still alive: release_dead when they were taken. NULL: the
   worker has stopped. */
const plan_op *exec_region(worker *w, const plan_region *r);
void release_dead(worker *w, const plan_op *p);
void exec_tile(worker *w, const plan_op *p);
void exec_reduce(worker *w, const plan_op *p);
void exec_dot(worker *w, const plan_op *p);
void exec_load(worker *w, const plan_op *p);
void exec_store(worker *w, const plan_op *p);
void exec_atomic(worker *w, const plan_op *p);
void exec_print(worker *w, const plan_op *p);
void exec_shared(worker *w, const plan_op *p);
void async_begin_program(worker *w); /* forgets what the program before left under way */
/* Loads through the pointers of operand 0, under the mask operand if the op has that many. A lane that is off becomes
   0, undefined if `origin_of_off` is not 0. */
void load_lanes(worker *w, const tir_op *op, int mask_index, ival *out, uint8_t origin_of_off);
/* n elements from the addresses, which are derived from `pointer`; where `on` is 0, the element is 0. `tile` is for
   findings. */
void load_addresses(worker *w, const tir_op *op, const tir_type *tile, const ival *pointer, const uint64_t *address,
                    const uint8_t *on, size_t n, ival *out);
/* The same the other way: elements of x go to those addresses where `on` is not 0. */
void store_addresses(worker *w, const tir_op *op, const tir_type *tile, const ival *pointer, const uint64_t *address,
                     const uint8_t *on, const ival *x);
/* acc + a * b; f32 operands as tf32 if asked. */
void dot_into(worker *w, ival *out, const ival *a, const tir_type *at, const ival *b, const tir_type *bt,
              const ival *acc, const tir_type *result, bool tf32);

/* ---- races (race.c); called under the lock ----------------------------------------------------------------------- */

enum { RACE_NONE = -1, RACE_SOMEONE = -2 }; /* or the linear number of the other program */
typedef struct race_found {
  bool write_write;
  int64_t other;
} race_found;
race_log *race_log_new(machine *m);
void race_begin_program(worker *w);
/* Marks bytes [offset, offset+size) of a buffer; *found says with whom this access races, if it does. */
bool race_read(worker *w, memory_buffer *b, size_t offset, int size, race_found *found);
bool race_write(worker *w, memory_buffer *b, size_t offset, int size, bool atomic, race_found *found);
/* A scalar atomic that orders programs. */
void race_sync(worker *w, uint64_t address, bool acquire, bool release);

/* ---- findings (report.c); called under the lock ------------------------------------------------------------------ */

enum { NO_LANE = -1 };
/* Counts a finding. True if it is the first of its kind at this place and shall be described. */
bool finding_first(worker *w, const diag_desc *what, span at);
/* Enters the diagnostic of a first finding, and notes the program, the lane and its coordinates in the tile. */
void finding_describe(worker *w, diag *d, const tir_type *tile, int64_t lane);
/* An undefined element was used where it matters: `what` says how for values that a load left undefined, a division by
   zero is reported at the division. */
void finding_undefined(worker *w, const diag_desc *what, const char *verb, const tir_op *op, const tir_type *tile,
                       int64_t lane, uint8_t origin);
void findings_close(machine *m); /* adds how often each was found */

#endif
