/* layout: linear layouts over GF(2), the only layout representation of the compiler.
 *
 * A register layout L (`lay_t`) says which tile element each hardware location (register, lane, warp, block) holds. All
 * sizes are powers of two and L is linear over XOR: L(x ^ y) = L(x) ^ L(y), L(0) = 0. So it is fixed by the images of
 * the single bits, its bases. Blocked layouts, tensor core fragments, slices of both: every one is a table of bases.
 *
 * Elements are flat: a tile of shape (s0 .. s[r-1]) is flattened row-major, so that the last axis owns the lowest bits
 * and a basis is one uint32_t. Reshape is then free and all algebra is on integers.
 *
 * A zero basis means that the hardware bit does not move the element: the value is replicated. Any other linear
 * dependence among the bases is replication as well. Layouts of tiles in the IR are surjective (each element is
 * somewhere), have exactly LAY_LANE_BITS lane bits (trailing zero bases are information: never dropped), and have no
 * dependent register bases (lay_dedupe).
 *
 * A shared layout S (`sh_t`) maps a flat tile element to an element offset in a shared buffer: linear and a bijection.
 * S(L(reg, lane, warp)) is then directly an address: nothing is inverted at code generation.
 *
 * Layouts are interned in a `lay_cx`: equality is pointer equality. Misuse (a rank too large, an extent that is no
 * power of two) is a panic; only the reader of the text form meets bad input, and reports it. */
#ifndef IR_LAYOUT_H
#define IR_LAYOUT_H

#include "compiler/base/base.h"

enum { LAY_REG, LAY_LANE, LAY_WARP, LAY_BLOCK, LAY_NHW }; /* hardware dims, minor to major */
enum {
  LAY_MAX_RANK = 8,
  LAY_MAX_BITS = 26,   /* log2 of the elements of a tile */
  LAY_MAX_HWBITS = 20, /* log2 of the size of one hardware dim */
  LAY_LANE_BITS = 5,
  LAY_MAX_COLS = LAY_NHW * LAY_MAX_HWBITS
};
enum { LAY_SURJECTIVE = 1, LAY_INJECTIVE = 2, LAY_UNIT = 4 /* every basis is 0 or has one bit */ };

typedef struct lay_shape {
  uint8_t rank;
  uint8_t bits[LAY_MAX_RANK]; /* log2 of the extents */
} lay_shape;

typedef struct lay_t {
  uint8_t rank;
  uint8_t axis_bits[LAY_MAX_RANK];
  uint8_t nbits[LAY_NHW]; /* log2 of the sizes of the hardware dims */
  uint8_t flags;
  uint32_t basis[LAY_NHW][LAY_MAX_HWBITS]; /* flat tile element of each hardware bit; zero beyond nbits */
  uint64_t hash;
} lay_t;

typedef enum lay_sh_kind { LAY_SH_ROWMAJOR, LAY_SH_XOR, LAY_SH_TMA_BOX, LAY_SH_GENERIC } lay_sh_kind;

typedef struct sh_t {
  uint8_t rank;
  uint8_t axis_bits[LAY_MAX_RANK];
  uint8_t d;                  /* bits of the tile = bits of the offset */
  uint8_t kind;               /* lay_sh_kind */
  uint8_t pad_log2;           /* 0 = no padding: pad_elems are inserted after every 2^pad_log2 elements */
  uint8_t swizzle_bytes;      /* 0, 32, 64, 128 when kind is TMA_BOX */
  uint8_t inner_axis;         /* the contiguous axis of a TMA box */
  uint16_t pad_elems;         /* elements */
  uint16_t align_bytes;       /* alignment the buffer needs so that the pattern is in phase */
  uint32_t col[LAY_MAX_BITS]; /* offset (elements) of each tile bit */
  uint64_t hash;
} sh_t;

/* ---- GF(2) (layout_gf2.c) --------------------------------------------------------------------------------------
   A linear map is its columns: image of bit i at [i]. Vectors of locations may have up to 64 bits. */

typedef struct lay_span { /* incremental echelon basis that remembers where its rows came from */
  uint32_t row[32];       /* row[h] has leading bit h */
  uint64_t comb[32];      /* which of the vectors offered so far XOR to row[h] */
  uint32_t have;          /* bit h: row[h] is there */
  int offered;
} lay_span;

void lay_span_init(lay_span *s);
bool lay_span_add(lay_span *s, uint32_t v); /* true: v was independent. Every offer counts one coordinate. */
void lay_span_add_all(lay_span *s, const uint32_t *v, int n);
bool lay_span_has(const lay_span *s, uint32_t v);
bool lay_span_solve(const lay_span *s, uint32_t v, uint64_t *coords); /* which offered vectors XOR to v */
int lay_span_dim(const lay_span *s);

uint32_t lay_mul(const uint32_t *cols, uint64_t x); /* XOR of cols[i] over the set bits i of x */
int lay_rank(const uint32_t *v, int n);
/* Basis of {x : lay_mul(cols, x) == 0} into out (room for n); returns its size. Later columns are expressed by earlier.
 */
int lay_nullspace(const uint32_t *cols, int n, uint64_t *out);
int lay_independent(const uint32_t *v, int n, uint32_t *out); /* the vectors of v not spanned by earlier ones */
/* Basis of span(a) & span(b), vectors that stand in a first and in a's order. out: room for na. */
int lay_intersect(const uint32_t *a, int na, const uint32_t *b, int nb, uint32_t *out);
int lay_complement(const uint32_t *v, int n, int d, uint32_t *out); /* unit vectors that complete span(v) to d bits */
bool lay_invert(const uint32_t *cols, int n, uint32_t *out);        /* false: singular. in place is allowed */
void lay_matmul(const uint32_t *a, const uint32_t *b, int nb, uint32_t *out); /* out[i] = a . b[i] */

/* ---- construction (layout.c) ----------------------------------------------------------------------------------- */

typedef struct lay_cx lay_cx;
lay_cx *lay_cx_new(arena *a); /* lives and dies with the arena, as do its layouts */
arena *lay_cx_arena(lay_cx *cx);

/* The interned layout equal to *l (rank, axis_bits, nbits and bases are read; flags and hash are computed). */
const lay_t *lay_intern(lay_cx *cx, const lay_t *l);
const sh_t *lay_sh_intern(lay_cx *cx, const sh_t *s);

lay_shape lay_shape_make(int rank, const int64_t *extents); /* extents are powers of two */
lay_shape lay_shape_of(const lay_t *l);
bool lay_shape_eq(lay_shape a, lay_shape b);
int lay_shape_bits(lay_shape s);           /* log2 of the number of elements */
int lay_axis_shift(lay_shape s, int axis); /* lowest flat bit of an axis */
uint32_t lay_flat(lay_shape s, const uint32_t *coords);
void lay_unflat(lay_shape s, uint32_t flat, uint32_t *coords);

int lay_bits(const lay_t *l);  /* log2 of the number of elements */
int lay_regs(const lay_t *l);  /* registers (values) per thread */
int lay_warps(const lay_t *l); /* warps */
uint32_t lay_apply(const lay_t *l, uint32_t reg, uint32_t lane, uint32_t warp, uint32_t block); /* flat element */
uint32_t lay_coord(const lay_t *l, int axis, uint32_t flat); /* coordinate of a flat element */
int lay_cols(const lay_t *l, unsigned dims,
             uint32_t *out); /* bases of the dims in the mask 1<<LAY_x; returns how many */

/* `sizes[a]` positions of hardware dim `dim` along each axis; order[0] varies fastest. */
const lay_t *lay_identity(lay_cx *cx, int dim, int rank, const int *sizes, const int *order);
/* Per axis: elements per thread, threads per warp, warps. The product of threads must be 32. order[0] is the fastest
   axis. Covers `shape` exactly (lay_fit); register bases that repeat are dropped. */
typedef struct lay_blocking {
  int per_thread[LAY_MAX_RANK], threads[LAY_MAX_RANK], warps[LAY_MAX_RANK], order[LAY_MAX_RANK];
} lay_blocking;
const lay_t *lay_blocked(lay_cx *cx, lay_shape shape, const lay_blocking *b);
/* A reasonable blocked layout where nothing better is known: lanes and warps fill the last axis first. */
const lay_t *lay_default(lay_cx *cx, lay_shape shape, int num_warps);
/* Every thread holds every element it is asked for: all lane and warp bases zero (scalars, tiny tiles). */
const lay_t *lay_replicated(lay_cx *cx, lay_shape shape, int num_warps);
/* Make l cover `shape`: too small on an axis, repeat with registers (order[0] fastest); too large, the high bases
   become zero (replication). order NULL = last axis fastest. */
const lay_t *lay_fit(lay_cx *cx, const lay_t *l, lay_shape shape, const int *order);
const lay_t *lay_product(lay_cx *cx, const lay_t *tile, const lay_t *repeat); /* tile is minor on every axis and dim */
/* q with l == tile * q, or NULL: "does l start with this instruction's tile?" */
const lay_t *lay_divide_left(lay_cx *cx, const lay_t *l, const lay_t *tile);

/* ---- shape operations ------------------------------------------------------------------------------------------
   Result layout for which the operation is a renaming of registers; lay_regmap gives the renaming. */

const lay_t *lay_reshape(lay_cx *cx, const lay_t *l, lay_shape shape);
const lay_t *lay_permute(lay_cx *cx, const lay_t *l, const int *axes); /* result axis i is source axis axes[i] */
const lay_t *lay_expand_dims(lay_cx *cx, const lay_t *l, int axis);
const lay_t *lay_broadcast(lay_cx *cx, const lay_t *l, lay_shape shape); /* axes of extent 1 grow, by registers */
const lay_t *lay_slice(lay_cx *cx, const lay_t *l, int axis); /* drop the axis; keeps the number of registers */
const lay_t *lay_reduced(lay_cx *cx, const lay_t *l,
                         int axis);                 /* lay_dedupe(lay_slice): layout of a reduction's result */
const lay_t *lay_join(lay_cx *cx, const lay_t *l);  /* new last axis of extent 2, register bit 0 */
const lay_t *lay_split(lay_cx *cx, const lay_t *l); /* NULL: the last axis is not one register bit; convert first */
const lay_t *lay_cat(lay_cx *cx,
                     const lay_t *l); /* two tiles one after the other along axis 0: one more register bit */

/* Operand layout that makes `result` free, the inverse of the above; NULL where there is none. Deduped. */
const lay_t *lay_permute_back(lay_cx *cx, const lay_t *result, const int *axes);
const lay_t *lay_expand_dims_back(lay_cx *cx, const lay_t *result, int axis);
const lay_t *lay_broadcast_back(lay_cx *cx, const lay_t *result, lay_shape operand);
const lay_t *lay_join_back(lay_cx *cx, const lay_t *result);
const lay_t *lay_split_back(lay_cx *cx, const lay_t *result);
/* A layout of the reduction's operand whose lay_reduced is `result`: `operand` with its other axes moved as `result`
   does, when lanes and warps agree on what they do along the axis; else NULL. */
const lay_t *lay_reduced_back(lay_cx *cx, const lay_t *result, const lay_t *operand, int axis);

/* ---- redundancy ------------------------------------------------------------------------------------------------ */

/* Free bits per dim: a location owns its element iff all its free bits are 0. One owner per element. */
void lay_free_masks(const lay_t *l, uint32_t mask[LAY_NHW]);
/* l without dependent register bases. map (may be NULL; room for LAY_MAX_HWBITS) receives columns old register bit ->
   new register. */
const lay_t *lay_dedupe(lay_cx *cx, const lay_t *l, uint32_t *map);
/* tile bit -> location packed as bits of (reg | lane | warp | block) in that order; free variables 0. `inv` has
   lay_bits(l) entries. false: not surjective. */
bool lay_right_inverse(const lay_t *l, uint64_t *inv);

/* An affine map from elements of a result tile to elements of an operand tile: what a shape operation means. */
typedef struct lay_view {
  uint32_t col[LAY_MAX_BITS];
  uint32_t offset;
} lay_view;
lay_view lay_view_identity(int bits);                             /* reshape, expand_dims, elementwise */
lay_view lay_view_permute(lay_shape operand, const int *axes);    /* permute, trans */
lay_view lay_view_broadcast(lay_shape operand, lay_shape result); /* broadcast (equal ranks) */
lay_view lay_view_join(int result_bits); /* operand element of a joined element; its low bit says which operand */
lay_view lay_view_split(int result_bits, int which);
/* out register -> operand register such that out[r] = in[map[r]] is right in every lane and warp; NULL: the operation
   is not thread-local for these two layouts. lay_regs(result) entries in `a`. */
const uint16_t *lay_regmap(arena *a, const lay_t *operand, const lay_t *result, const lay_view *view);

/* ---- vectors and index arithmetic ------------------------------------------------------------------------------ */

/* Elements per thread that are consecutive and aligned along `axis`: a power of two. */
int lay_vec_len(const lay_t *l, int axis);
/* Registers grouped into vectors of `vec` elements consecutive along `axis` (vec <= lay_vec_len): regs[g*vec + i]. */
typedef struct lay_vectors {
  int vec, n_groups;
  const uint16_t *regs;
} lay_vectors;
lay_vectors lay_vectors_of(arena *a, const lay_t *l, int axis, int vec);

/* A linear function of (lane, warp, block) as an XOR of bit-field moves: sum of ((dim >> from) & (2^count - 1)) << to.
 */
typedef struct lay_term {
  uint8_t dim, from, count, to;
} lay_term;
typedef struct lay_terms {
  int n;
  bool disjoint; /* no result bit is written by two terms: XOR may be OR or ADD */
  uint32_t bits; /* all result bits the terms can set; a constant outside of them may be added */
  const lay_term *at;
} lay_terms;
lay_terms lay_terms_of(arena *a, const uint32_t *lane, int n_lane, const uint32_t *warp, int n_warp);
/* Index along an axis: terms for (lane, warp), and the constant of each register in reg[lay_regs(l)]. */
typedef struct lay_index {
  lay_terms terms;
  const uint32_t *reg;
} lay_index;
lay_index lay_index_of(arena *a, const lay_t *l, int axis);

/* ---- text ------------------------------------------------------------------------------------------------------
   `r(1,2,64)l(4..64)w(128,256)` [`b(..)`]: the bases in order, flat; `a..b` is a run of doublings a, 2a, .. b of three
   or more. `b` is printed only when there are block bits. The shape is not part of the text: the tile's type has it. */

void lay_print(textbuf *out, const lay_t *l);
/* Reads what lay_print writes from *p (NUL-terminated) for a tile of this shape; advances *p past it. NULL on an error:
 *p is where, *why (static text) says what. Surjectivity is checked. */
const lay_t *lay_read(lay_cx *cx, const char **p, lay_shape shape, const char **why);
void lay_sh_print(textbuf *out, const sh_t *s);
const sh_t *lay_sh_read(lay_cx *cx, const char **p, lay_shape shape, const char **why);

/* ---- tensor core fragments (layout_mma.c) ----------------------------------------------------------------------- */

typedef enum lay_operand { LAY_A, LAY_B, LAY_C } lay_operand; /* (m,k), (k,n), (m,n) */
/* kw = elements that are consecutive along K in one 32-bit register: 32 / bits of the type (f64: 1); of the narrower
   type when an operand is widened between load and dot, the same for A and B. */
const lay_t *lay_mma_tile(lay_cx *cx, lay_operand which, int m, int n, int k, int kw); /* one warp, no warp bits */
/* The CTA's layout of a dot operand by mma.sync m x n x k: warps_m x warps_n warps, n fastest if n_fast. */
typedef struct lay_mma {
  int m, n, k, kw, warps_m, warps_n;
  bool n_fast;
} lay_mma;
const lay_t *lay_mma_operand(lay_cx *cx, lay_operand which, const lay_mma *mma, lay_shape shape);
/* wgmma: accumulator, and operand A in registers. warps is a multiple of 4; warpgroups along M first, warps_n along N.
 */
const lay_t *lay_wgmma_acc(lay_cx *cx, lay_shape shape, int warps, int warps_n);
const lay_t *lay_wgmma_a(lay_cx *cx, lay_shape shape, int kw, int warps, int warps_n);
/* Of 32-bit elements, operand A may also be loaded from a tile whose rows are neighbours in memory. Row r of the
   instruction is then row lay_wgmma_row(r) of the tile (layout_mma.c says why). lay_wgmma_paired makes that of one of
   the two layouts above, for a tile with the rows on `axis`: 1 also transposes. */
uint32_t lay_wgmma_row(uint32_t row);
const lay_t *lay_wgmma_paired(lay_cx *cx, const lay_t *l, int axis);
/* sm_70 m8n8k4: one fragment of A (m,k), B (as (n,k)) or C; lane bits 2,3 (quad pair) are zero bases. */
const lay_t *lay_volta_tile(lay_cx *cx, lay_operand which, bool row_major, bool acc32);
/* Operand of a dot by FMA whose result has layout c: A (m,k) or B (k,n) with all of K in registers. */
const lay_t *lay_fma_operand(lay_cx *cx, lay_operand which, const lay_t *c, int k);
/* A blocked layout for the result of a dot by FMA. */
const lay_t *lay_fma_result(lay_cx *cx, lay_shape shape, int num_warps);

/* ---- shared layouts (layout_shared.c) --------------------------------------------------------------------------- */

const sh_t *lay_sh_rowmajor(lay_cx *cx, lay_shape shape, const int *order); /* order[0] fastest; NULL = last axis */
/* chunk (vec elements) of the fast axis ^= (row / per_phase) % max_phase */
const sh_t *lay_sh_xor(lay_cx *cx, lay_shape shape, int vec, int per_phase, int max_phase, const int *order);
/* Where accesses of l by `vec` elements along `axis` lie side by side, those of a warp first: no bank conflicts. */
const sh_t *lay_sh_straight(lay_cx *cx, const lay_t *l, int axis, int vec);
/* Boxes of (rows x swizzle bytes) one after the other, as TMA writes and wgmma reads them. rank 2; inner = the
   contiguous axis. swizzle 32, 64, 128; the inner extent is at least one box. */
const sh_t *lay_sh_tma(lay_cx *cx, lay_shape shape, int inner, int swizzle, int elem_bytes);
int lay_sh_tma_width(lay_shape shape, int inner, int elem_bytes); /* widest legal swizzle; 0 = none fits */
const sh_t *lay_sh_padded(lay_cx *cx, const sh_t *s, int interval_log2, int pad_elems);
const sh_t *lay_sh_permute(lay_cx *cx, const sh_t *s, const int *axes); /* transposed view: free */
uint32_t lay_sh_offset(const sh_t *s, uint32_t flat);                   /* elements, padding included */
uint32_t lay_sh_elems(const sh_t *s); /* size of the buffer in elements, padding included */

/* wgmma matrix descriptor (64 bits) of an operand tile stored by lay_sh_tma; PTX ISA, "Matrix descriptor format". */
typedef struct lay_desc {
  uint64_t fixed;     /* all fields but the start address, which is (address >> 4) & 0x3fff in the low 14 bits */
  uint32_t k_step;    /* bytes added to the start address per instruction K (32 bytes of K) inside one box */
  uint32_t k_box;     /* K-major: bytes from one box to the next; a box holds box_steps instruction Ks */
  uint32_t box_steps; /* K-major: instruction Ks per box; MN-major: 0 (k_step always applies) */
  uint32_t mn_64;     /* bytes to the next 64 rows of M (K-major and MN-major) */
  bool transposed;    /* value of the tnspA/tnspB immediate: MN-major */
} lay_desc;
/* mn_axis: which axis of the tile is M or N. false: wgmma cannot read this layout. */
bool lay_sh_desc(const sh_t *s, int mn_axis, int elem_bytes, lay_desc *out);

/* Wavefronts of one warp access: n byte addresses (UINT32_MAX = lane off), each `bytes` wide (1..16). The model: 32
   banks of 4 bytes, 8-byte accesses in 2 phases of 16 lanes, 16-byte accesses in 4 phases of 8. */
int lay_wavefronts(const uint32_t *addr, int n, int bytes);

/* One side of a shared memory access, ready to walk: element offset of vector group g in (lane, warp) is
   base.terms(lane, warp) ^ offset[g]; registers regs[g*vec + i] are elements offset + i. */
typedef struct lay_access {
  int vec;      /* elements per access: a power of two, at most 16 bytes */
  int n_groups; /* accesses per thread and round times rounds; groups of one round are together */
  const uint16_t *regs;
  const uint32_t *offset;
  lay_terms terms;
  uint32_t pad_log2, pad_elems;  /* as in sh_t: apply to the XORed offset */
  uint32_t lane_free, warp_free; /* lanes/warps with such a bit set repeat what another one accesses */
  int wavefronts, ideal;         /* of one warp over all groups */
} lay_access;
/* Access of a register tile to a shared buffer of the same shape with the widest vectors both allow (max_vec_bytes <=
   16). Registers of l are deduped: every element once. */
lay_access lay_sh_access(lay_cx *cx, arena *a, const lay_t *l, const sh_t *s, int elem_bytes, int max_vec_bytes);

/* ---- ldmatrix, stmatrix (layout_ldmatrix.c) --------------------------------------------------------------------- */

/* Instruction g (of n_groups) moves n_matrix (1, 2, 4) 8x8 matrices of 16-bit pairs: lane l supplies the address
   rows(l) ^ warp terms ^ offset[g] (elements; rows.. are in `terms`), and gets, for matrix j, registers
   regs[(g*n_matrix + j)*per_matrix + i]. */
typedef struct lay_matrix {
  bool trans;
  int n_matrix, n_groups, per_matrix;
  const uint16_t *regs;
  const uint32_t *offset;
  lay_terms terms;
  uint32_t pad_log2, pad_elems;
  int wavefronts; /* of one warp; 4 per x4 is the minimum */
} lay_matrix;
/* false: the instruction does not fit this pair. A load brings words in the order of the registers, as instructions
   want them that take several, unless that needs many more addresses. */
bool lay_ldmatrix(lay_cx *cx, arena *a, const lay_t *l, const sh_t *s, int elem_bytes, bool trans, bool load,
                  lay_matrix *out);

/* How a register tile goes to or from shared memory: by matrices, or by vectors. The other one is not filled in. */
typedef struct lay_way {
  bool by_matrix;
  lay_matrix matrix;
  lay_access vectors;
} lay_way;
/* The cheaper way to load a tile from a buffer, or to store it there, counting instructions and wavefronts; matrices
   only if `matrices`. */
lay_way lay_way_of(lay_cx *cx, arena *a, const lay_t *l, const sh_t *s, int elem_bytes, bool matrices, bool load);

/* ---- tiles that the copy engine stores (layout_panels.c) -------------------------------------------------------- */

/* A tile of registers goes to shared memory, and from there to a tensor, in `rounds` parts of equal size. A part is
   some of the registers, part register r of round k is regs[k * lay_regs(part) + r]; in shared memory it is n_boxes
   boxes of (rows x width). Box b begins at byte from[b] of the part and, in round k, at element first[k * n_boxes + b]
   of the tile. Rounds take turns at n_buffers buffers.

   By warp: every warp has n_boxes boxes, of rows that it alone holds; they begin warp_rows(warp) rows further on, in
   shared memory as in the tile. */
typedef struct lay_panels {
  int rounds, n_boxes, width, rows, n_buffers;
  uint32_t part_bytes;
  const lay_t *part;
  const sh_t *shared; /* of a part */
  const uint16_t *regs;
  const uint32_t *from, *first;
  lay_terms warp_rows;
} lay_panels;
/* inner: the axis that is contiguous in memory. false: there is no way. */
bool lay_panels_of(lay_cx *cx, arena *a, const lay_t *l, int inner, int elem_bytes, bool by_warp, lay_panels *out);

/* ---- conversions (layout_convert.c, layout_shuffle.c, layout_swizzle.c) ----------------------------------------- */

typedef enum lay_move { LAY_MOVE_THREAD, LAY_MOVE_WARP, LAY_MOVE_BLOCK, LAY_MOVE_CLUSTER } lay_move;
/* The smallest scope in which every destination location finds its element. Exact. */
lay_move lay_movement(const lay_t *src, const lay_t *dst);

typedef struct lay_select { /* w'[x] = parity(lane & lanes) ? w[x ^ reg] : w[x], for all x at once */
  uint16_t reg;
  uint8_t lanes;
} lay_select;
typedef struct lay_word { /* one 32-bit shuffle of n packed elements (n * bits <= 32), or two of one 64-bit element */
  uint8_t n;
  uint8_t lane_xor;
  bool moves; /* false: stays in its lane, a copy */
  uint16_t from[4], to[4];
} lay_word;
/* work[x] = in[first[x]]; the pre selects in order; u[to] = shfl(work[from], lane_xor ^ lane_map(lane)) for every word;
   the post selects on u in order; out[r] = u[last[r]]. */
typedef struct lay_shuffle {
  int n_work, n_in, n_out;
  const uint16_t *first, *last;
  int n_pre, n_post, n_words;
  const lay_select *pre, *post;
  const lay_word *words;
  bool butterfly;        /* lane_map is the identity: shfl.bfly with the constant lane_xor */
  lay_terms lane_map;    /* source lane (before lane_xor) as a function of the lane */
  int shuffles, selects; /* instructions per thread on 32-bit words */
} lay_shuffle;

typedef struct lay_exchange { /* through shared memory */
  const sh_t *s;              /* of one round's elements when rounds > 1 (rank 1), else of the tile */
  lay_way store, load;        /* registers of the source; of the destination, deduped */
  const uint16_t *held;       /* out register r is register held[r] of the deduped destination */
  int rounds;         /* groups of round k are [k * n_groups/rounds, (k+1) * n_groups/rounds); synchronise between */
  uint32_t bytes;     /* scratch, aligned to 16 */
  uint32_t warp_free; /* warps with such a bit set have nothing to store */
  bool warp_local;    /* each warp reads only what it wrote: bar.warp.sync suffices */
} lay_exchange;

typedef enum lay_cvt_kind { LAY_CVT_NOOP, LAY_CVT_REGS, LAY_CVT_SHUFFLE, LAY_CVT_SHARED } lay_cvt_kind;
typedef struct lay_cvt {
  lay_cvt_kind kind;
  lay_move level;
  const lay_t *src, *dst;
  int elem_bytes;
  int cost;             /* issue slots per warp */
  const uint16_t *regs; /* NOOP, REGS: out register -> in register */
  const lay_shuffle *shuffle;
  const lay_exchange *shared;
} lay_cvt;
typedef struct lay_cvt_options {
  uint32_t max_scratch; /* bytes; 0 = no limit. More rounds are used where it would be exceeded */
  bool no_shuffle;      /* for tests: through shared memory whenever lanes matter */
  bool no_shared;       /* shuffles whenever they are possible */
} lay_cvt_options;
/* Plan of a conversion between register layouts of one shape. elem_bits: bits of the element as stored (i1 counts as 8;
   64 for pointers). opt NULL: as many rounds as bring the scratch down to 48 KB, or as many as there can be.
   NULL: not possible (data would cross blocks, or the scratch cannot be made small enough). */
const lay_cvt *lay_convert(lay_cx *cx, arena *a, const lay_t *src, const lay_t *dst, int elem_bits,
                           const lay_cvt_options *opt);
/* The plan for a target that has stmatrix, ldmatrix: matrices on either side where they are cheaper. What passes know
   of a plan, its kind, scratch, rounds and synchronisation, is the same for every target. */
const lay_cvt *lay_with_matrices(lay_cx *cx, arena *a, const lay_cvt *c, bool stmatrix, bool ldmatrix);
/* Cost alone, cached per (src, dst, elem_bits) in the cx: for layout assignment. INT32_MAX where not possible. */
int lay_convert_cost(lay_cx *cx, const lay_t *src, const lay_t *dst, int elem_bits);

/* ---- reductions and scans (layout_reduce.c) --------------------------------------------------------------------- */

/* Reduce along an axis by a commutative, associative operator. 1: partial[j] = fold of in[fold[j*n_fold + i]], i
   ascending; j counts the registers of `result`. 2: for each lane step, all j at once: partial[j] = op(partial[j],
   shfl.bfly(partial[partner[j]], lane_xor)). 3, if n_warp > 1: threads with (lane & lane_free) == 0 and (warp &
   warp_free) == 0 write partial[j] at scratch[write.terms ^ write_reg[j]]; barrier; every thread reads n_warp
   consecutive elements from read.terms ^ read_reg[j] and folds them in order. All offsets in elements. */
typedef struct lay_lane_step {
  uint8_t lane_xor;
  const uint16_t *partner;
} lay_lane_step;
typedef struct lay_reduce {
  const lay_t *operand, *result;
  int axis;
  int n_out, n_fold;
  const uint16_t *fold;
  int n_lane_steps;
  lay_lane_step lane_step[LAY_LANE_BITS];
  int n_warp;
  uint32_t scratch_elems;
  lay_terms write, read;
  const uint32_t *write_reg, *read_reg;
  uint32_t lane_free, warp_free;
} lay_reduce;
/* NULL: elements along the axis are spread over blocks. */
const lay_reduce *lay_reduce_plan(lay_cx *cx, arena *a, const lay_t *l, int axis);

/* Inclusive scan along an axis by an associative operator, which need not commute. Chains are independent. regs in the
   order of the scan (reverse is already applied): chain c, chunk h, position i: regs[(c*n_chunk + h)*n_lo + i].
   1. In each chunk fold serially over its n_lo registers; `total` = the last one.
   2. For each lane step k in order: t = shfl.idx(total, (lane & and_mask) | or_mask); where (lane & bit) == want:
      prefix = (lane & seen) == seen_none ? t : op(t, prefix); total = op(t, total).
      `seen` is the mask of the bits of earlier steps, seen_none the pattern that has no predecessor among them.
   3. If n_warp > 1: with pos(warp) = warp_pos.terms ^ warp_pos_xor, lanes with (lane & last_mask) == last_value and no
      free bit write total at scratch[write.terms ^ warp_pos_xor ^ chunk_offset[c*n_chunk + h]]; barrier; the total of
      position q is at (read.terms ^ chunk_offset[..]) + q. Those of positions below pos(warp) are this warp's prefix,
   all n_warp of them are the chunk's sum. If n_warp == 1 and n_chunk > 1 the chunk's sum is shfl.idx(total, (lane &
   ~last_mask) | last_value).
   4. Every register of the chunk: op(carry of earlier chunks, warp prefix, lane prefix, value), leaving out what is not
      there. */
typedef struct lay_scan_step {
  uint8_t bit, want, and_mask, or_mask, seen, seen_none;
} lay_scan_step;
typedef struct lay_scan {
  const lay_t *lay; /* operand and result */
  int axis;
  bool reverse;
  int n_chain, n_chunk, n_lo;
  const uint16_t *regs;
  int n_steps;
  lay_scan_step step[LAY_LANE_BITS];
  uint8_t last_mask, last_value;
  int n_warp;
  uint32_t scratch_elems;
  lay_terms write, read, warp_pos;
  uint32_t warp_pos_xor;
  const uint32_t *chunk_offset;
  uint32_t lane_free, warp_free;
} lay_scan;
/* NULL: the layout does not keep the axis in the order registers, lanes, warps, registers: convert to lay_scan_layout.
 */
const lay_scan *lay_scan_plan(lay_cx *cx, arena *a, const lay_t *l, int axis, bool reverse);
const lay_t *lay_scan_layout(lay_cx *cx, lay_shape shape, int axis, int num_warps);

#endif
