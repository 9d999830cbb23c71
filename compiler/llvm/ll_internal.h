/* What the files of the emitter share: one record per module (with the state of the kernel that is being emitted), and
 * the verbs that every one of them uses.
 *
 *   ll_tma.c      rings: tma_load, tma_release, the two roles
 *   ll_gang.c     programs side by side in a block
 *   ll_tma_store.c  stores of tiles by the copy engine
 *   ll_module.c   contexts, targets, passes, errors        ll_reduce.c   reductions
 *   ll_fn.c       kernel signature, op dispatch            ll_convert.c  conversions between layouts
 *   ll_build.c    small verbs, indices from layouts        ll_dot.c      matrix products by fma
 *   ll_delta.c    constant distances of addresses          ll_mma.c      matrix products by mma.sync
 *   ll_scalar.c   elementwise arithmetic                   ll_wgmma.c    matrix products by warpgroups
 *   ll_cast.c     conversions between types                ll_shared.c   buffers in shared memory, copies
 *   ll_math.c     exp, log, erf ..                         ll_control.c  for, while, if
 *   ll_memory.c   loads and stores                         ll_atomic.c   read-modify-write
 *   ll_debug.c    print, assert, line tables               asm.def intrinsics.def   what LLVM has no instruction for */
#ifndef LL_INTERNAL_H
#define LL_INTERNAL_H

#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>

#include "compiler/analysis/slice.h"
#include "compiler/llvm/ll.h"

typedef LLVMValueRef ll_v;

enum { LL_GLOBAL = 1, LL_SHARED = 3, LL_LOCAL = 5 }; /* address spaces */

typedef enum ll_asm_id {
#define ASM(name, text, constraints, kind) ASM_##name,
#include "compiler/llvm/asm.def"
#undef ASM
  ASM_N
} ll_asm_id;

typedef enum ll_intrinsic_id {
#define INTRINSIC(id, name, overloaded) IN_##id,
#include "compiler/llvm/intrinsics.def"
#undef INTRINSIC
  IN_N
} ll_intrinsic_id;

typedef enum ll_asm_kind { LL_PURE, LL_CONVERGENT, LL_EFFECT, LL_COLLECTIVE } ll_asm_kind; /* asm.def */
#define LL_FUNCTION ((LLVMAttributeIndex)LLVMAttributeFunctionIndex)

typedef struct ll_gang { /* which of a block's programs code is for (ll_gang.c) */
  int index;             /* in the producer's part, where it is known; else 0 */
  ll_v member;           /* i32: in the consumers' part that of this warp */
  ll_v offset;           /* i32: bytes from the first one's own shared memory to its own */
} ll_gang;

typedef struct ll {
  const ll_options *o;
  const arch_t *arch;
  diag_sink *sink;
  arena *a;
  LLVMContextRef c;
  LLVMModuleRef m;
  LLVMBuilderRef b;
  LLVMTypeRef void_, i1, i8, i16, i32, i64, f16, bf16, f32, f64, global_ptr, shared_ptr;
  ll_v smem; /* the block's dynamic shared memory; made on first use */
  bool uses_library;
  bool multiplies; /* the kernel has products on tensor cores */
  LLVMDIBuilderRef di;
  LLVMMetadataRef di_unit, di_scope;
  const src_file *di_file_key;
  LLVMMetadataRef di_file;

  tir_fn *fn; /* the kernel being emitted */
  ll_v f;
  ll_v **val;            /* by value id: the registers */
  const int64_t **delta; /* by value id: constant distances of the registers (ll_delta.c), or NULL */
  const slice *ahead;    /* while the producer's part is emitted: what belongs to it; else NULL */
  struct ll_rings *rings;
  bool uses_rings; /* a kernel of the module */
  struct {         /* ll_program.c */
    ll_v param, counter, drawn, turns, counted, grid[3];
  } programs;
  ll_gang gang;   /* of kernels whose blocks run several programs side by side */
  ll_v tid;       /* 0 .. 32 * num_warps - 1; in a kernel with more warps more, until the roles part */
  int warp_bits;  /* log2 of num_warps */
  ll_v warp;      /* ll_uniform_warp; made on first use */
  ll_v policy[2]; /* L2 policies evict_first, evict_last; made on first use */
} ll;

/* ---- ll_build.c: values ---- */

int ll_regs(const tir_type *t);                      /* LLVM values of a value of this type in each thread */
LLVMTypeRef ll_dtype(const ll *e, tir_dtype d);      /* of a value: f8 is i8 */
LLVMTypeRef ll_type(const ll *e, const tir_type *t); /* of one element */
int ll_elem_bytes(const tir_type *t);                /* of one element in memory */
ll_v *ll_use(ll *e, const tir_value *v);             /* registers of a value that was emitted */
ll_v ll_use_scalar(ll *e, const tir_value *v);
ll_v *ll_new(ll *e, int n);
void ll_def(ll *e, const tir_value *v, ll_v *regs);

ll_v ll_int(LLVMTypeRef t, uint64_t v);
ll_v ll_i32(const ll *e, uint32_t v);
ll_v ll_f32(const ll *e, double v);
ll_v ll_const(const ll *e, const tir_type *elem, tir_scalar v);
bool ll_is_true(ll_v v);            /* the constant */
ll_v ll_and(ll *e, ll_v a, ll_v b); /* of i1; NULL is true */
/* Bits of an element as an integer of its width in memory (i1 as i8, pointers as i64), and back. */
ll_v ll_to_bits(ll *e, ll_v v);
ll_v ll_from_bits(ll *e, ll_v bits, LLVMTypeRef t);
ll_v ll_intrinsic(ll *e, ll_intrinsic_id id, int n, ll_v *args);
ll_v ll_asm(ll *e, ll_asm_id id, LLVMTypeRef result, int n, ll_v *args);
/* Assembly put together at emission. `memory_operand` (or -1): that argument is a pointer used through "*m". */
ll_v ll_asm_text(ll *e, const char *text, const char *constraints, LLVMTypeRef result, int n, ll_v *args,
                 int memory_operand, ll_asm_kind kind);
/* Calls `double f(double)`-like library functions by OpenCL name ("exp"); f32 or f64. */
ll_v ll_library(ll *e, const char *name, int n, ll_v *args);

/* Flat element -> register, for the thread whose lane and warp part is zero; panics if there is none. Of registers that
   hold the same element it is always the same one. */
lay_span ll_register_span(const lay_t *l);
int ll_register_of(const lay_span *regs, uint32_t element);

/* ---- ll_build.c: threads and indices ---- */

/* Between the two, code goes to the end of the entry block: for what depends on the thread alone, since LLVM's own
   hoisting is switched off. */
LLVMBasicBlockRef ll_hoist_begin(ll *e);
void ll_hoist_end(ll *e, LLVMBasicBlockRef here);
ll_v ll_uniform_warp(ll *e); /* the warp's number, by a shuffle: ptxas then knows that it is one value for the warp */
ll_v ll_lane(ll *e);
ll_v ll_terms(ll *e, const lay_terms *t);                            /* their value in this thread, i32 */
ll_v ll_at(ll *e, ll_v base, const lay_terms *t, uint32_t constant); /* base (value of t) ^ constant */
/* i1: this thread has none of the bits set; NULL if there are no bits. */
ll_v ll_owner(ll *e, uint32_t lane_free, uint32_t warp_free);
ll_v ll_single_thread(ll *e);                 /* i1: thread 0 */
ll_v ll_shared_at(ll *e, int64_t bytes);      /* pointer into the block's shared memory */
ll_v ll_shared_address(ll *e, int64_t bytes); /* the same as an i32 */
void ll_barrier(ll *e);                       /* all threads of the block */
void ll_warp_sync(ll *e);                     /* of the warp */
/* Runs what is emitted between the two only where cond holds (NULL: always). */
typedef struct ll_guard {
  LLVMBasicBlockRef after;
} ll_guard;
ll_guard ll_if(ll *e, ll_v cond);
void ll_end_if(ll *e, ll_guard g);

/* ---- ll_delta.c ---- */

const int64_t **ll_deltas(arena *a, const tir_fn *fn);
/* Fills regs[1..] from regs[0] if they differ from it by constants; false: they do not. */
bool ll_derive(ll *e, const tir_value *v, ll_v *regs);
/* expand_dims, broadcast, reshape, trans of a tile: the operand's register for each result register. */
const uint16_t *ll_renaming(arena *a, const tir_op *op);

/* ---- ops ---- */

ll_v ll_scalar_op(ll *e, const tir_op *op, const tir_dtype *in_dt, tir_dtype out_dt, ll_v *in); /* one element */
ll_v ll_binary(ll *e, tir_opcode code, tir_dtype d, ll_v x, ll_v y);
ll_v ll_cast(ll *e, ll_v x, tir_dtype from, tir_dtype to, bool rtz);
/* All registers of a tile; small: integers of -256 .. 255. */
void ll_cast_all(ll *e, const ll_v *x, ll_v *out, int n, tir_dtype from, tir_dtype to, bool rtz, bool small);
ll_v ll_math(ll *e, tir_opcode code, tir_dtype d, ll_v x);
ll_v ll_div(ll *e, tir_dtype d, ll_v x, ll_v y, bool approx);
void ll_div_shared(ll *e, int n, const ll_v *x, const ll_v *y, ll_v *out); /* f32, approximate */
ll_v ll_rem(ll *e, tir_dtype d, ll_v x, ll_v y);

void ll_load(ll *e, const tir_op *op);
void ll_store(ll *e, const tir_op *op);
void ll_atomic(ll *e, const tir_op *op);
void ll_reduce(ll *e, const tir_op *op);
void ll_convert(ll *e, const tir_op *op);
void ll_dot(ll *e, const tir_op *op);
void ll_mma(ll *e, const tir_op *op);
/* n elements of 32 / n bits as one i32, and back. */
ll_v ll_pack_word(ll *e, const ll_v *x, int n);
/* The i32 of which the n values are the elements in order, as ll_unpack_word makes them; NULL if they are not. */
ll_v ll_word_of(ll *e, const ll_v *x, int n);
void ll_unpack_word(ll *e, ll_v word, LLVMTypeRef elem, ll_v *x, int n);
void ll_alloc(ll *e, const tir_op *op);
void ll_buffer_at(ll *e, const tir_op *op);
void ll_buffer_trans(ll *e, const tir_op *op);
void ll_buffer_store(ll *e, const tir_op *op);
void ll_buffer_load(ll *e, const tir_op *op);
/* A tile that `op` reads from a view register by register: an access is made when the first of its registers is asked
   for. Registers are bits. */
typedef struct ll_reader ll_reader;
ll_reader *ll_reader_new(ll *e, const tir_op *op, const tir_value *view, const lay_t *l);
ll_v ll_reader_get(ll *e, ll_reader *r, int reg);
void ll_copy_async(ll *e, const tir_op *op);
void ll_copy_commit(ll *e);
void ll_copy_wait(ll *e, const tir_op *op);
void ll_fence_async(ll *e);
void ll_wgmma(ll *e, const tir_op *op);
void ll_wgmma_wait(ll *e, const tir_op *op);
/* What a copy_async reads, by register, as bits: zeros where it is masked off. */
void ll_copy_load(ll *e, const tir_op *op, ll_v *bits);
ll_v ll_l2_policy(ll *e, bool last); /* evict_last or evict_first; created once per kernel */
/* One access of `elems` consecutive elements, aligned to all of it (at most 16 bytes); bits hold an element each. */
void ll_vector_load(ll *e, ll_v at, int elems, int elem_bytes, ll_v *bits);
void ll_vector_store(ll *e, ll_v at, int elems, int elem_bytes, const ll_v *bits);
/* Kernels with tma_loads: everything of theirs that comes before the body, the producer's part included; code goes to
   the start of the consumers' part then. Others: nothing. */
void ll_part_roles(ll *e);
/* Programs side by side in a block (ll_gang.c). Whether a tma_load fills rings whose tiles are for all of them: */
bool ll_is_common(const tir_op *load);
/* Takes up the tiles of `count` (i32) iterations of the loops that fill such rings and gives them back unread; where
   `whole` (i1), those that a program loads outside of its loops too. */
void ll_skip_tiles(ll *e, const tir_region *program, ll_v count, ll_v whole);
/* What is emitted next is for the program of that number; or for `member`, which is known at run time only. */
void ll_gang_for(ll *e, int index, ll_v member);
void ll_gang_begin(
    ll *e); /* what follows in the entry block is for the consumer's own; kernels without gangs: nothing */
void ll_gang_body(ll *e, const tir_region *body,
                  const tir_op *next); /* of the loop over programs, but its terminator */
int ll_n_maps(const tir_fn *fn);       /* tensor maps: as many parameters, behind the others */
enum {
  LL_PROGRAMS_COUNTER = 0,
  LL_PROGRAMS_GRID = 8,
  LL_PROGRAMS_TURNS = 20,
  LL_PROGRAMS_BYTES = 24,
  LL_PROGRAMS_ALIGN = 8
};
void ll_programs_begin(ll *e, ll_v param); /* of persistent kernels: one parameter more, the last */
ll_v ll_program_id(ll *e, const tir_op *op);
/* The same of a program number n, along an axis; and how many programs there are. */
ll_v ll_program_along(ll *e, ll_v n, int axis);
ll_v ll_programs_along(ll *e, int axis);
ll_v ll_num_programs(ll *e, const tir_op *op);
ll_v ll_draw_program(ll *e); /* for the block: i32 number of its next program, or -1 */
void ll_next_program(ll *e, const tir_op *op);
void ll_tensor_map(ll *e, const tir_op *op);
void ll_tma_load(ll *e, const tir_op *op);
void ll_tma_release(ll *e, const tir_op *op);
void ll_tma_store(ll *e, const tir_op *op);
void ll_end_stores(ll *e);                      /* at the kernel's end: what tma_stores have left to do */
bool ll_skips(const ll *e, const tir_value *v); /* does not belong to the role that is being emitted */
void ll_for(ll *e, const tir_op *op);
void ll_while(ll *e, const tir_op *op);
void ll_if_op(ll *e, const tir_op *op);
void ll_print(ll *e, const tir_op *op);
void ll_assert(ll *e, const tir_op *op);
/* Shared memory accesses of one side of a plan; `base` is the address of the scratch (i32), x the registers. Round k of
   `rounds`. */
void ll_shared_store(ll *e, ll_v base, const lay_way *w, int elem_bytes, const ll_v *x, int round, int rounds);
void ll_shared_load(ll *e, ll_v base, const lay_way *w, int elem_bytes, LLVMTypeRef type, ll_v *x, int round,
                    int rounds);

void ll_region(ll *e, const tir_region *r);                /* emits the ops but the terminator's */
void ll_ops(ll *e, const tir_op *from, const tir_op *end); /* the ops from one on, without `end` or a terminator */
bool ll_kernel(ll *e, tir_fn *fn);                         /* false: reported to the sink */
void ll_debug_begin(ll *e);                                /* module: nothing is done without line tables */
void ll_debug_fn(ll *e);
void ll_debug_at(ll *e, span at);
void ll_debug_end(ll *e);

#endif
