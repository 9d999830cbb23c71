/* analysis: facts about values that passes ask for. Computed on demand for a whole function, valid until it changes. */
#ifndef ANALYSIS_H
#define ANALYSIS_H

#include "compiler/ir/tir.h"

/* What is known of an integer or pointer value, per axis (scalars: one axis of one element). All counts are powers of
 * two. With the other axes fixed:
 *   contiguity c   in every aligned block of c elements the values are x, x+1, .. (pointers: steps of one element);
 *   divisibility d the first value of every such block is a multiple of d (pointers: in bytes);
 *   constancy k    in every aligned block of k elements all values are equal.
 * Integer values also have a range lo..hi (as signed 64-bit; u64 above 2^63 has the full range) and `nonneg`: not
 * negative unless index arithmetic overflowed, or divided by a negative number, on the way. */
typedef struct axis_info {
  int rank;
  int64_t contiguity[TIR_MAX_RANK], divisibility[TIR_MAX_RANK], constancy[TIR_MAX_RANK];
  int64_t lo, hi;
  bool nonneg;
  bool visited; /* false while the analysis runs: everything is still possible */
} axis_info;

typedef struct axis_facts axis_facts;

/* Analyses a function whose ids are dense (tir_renumber). The facts live in `a`. */
axis_facts *axis_analyse(tir_fn *fn, arena *a);
/* Facts of a value; pessimistic ones for a value that is younger than the analysis or no integer or pointer. */
axis_info axis_of(const axis_facts *f, const tir_value *v);

/* Elements along `axis` that one access of a pointer tile may move at once: contiguous, aligned, and, with a mask, all
 * on or all off; at most 16 bytes. mask may be NULL. */
int axis_vector(const axis_facts *f, const tir_value *pointer, const tir_value *mask, int axis);
/* Why an access of a pointer tile moves fewer elements along `axis` than 16 bytes, or the tile's extent, hold; `held`
 * is how many neighbours a thread owns. A clause that names what too little is known of, such as "the alignment is 2
 * bytes (n is not known to be a multiple of 8)", in `a`; NULL if nothing is in the way. */
const char *axis_vector_why(const axis_facts *f, const tir_value *pointer, const tir_value *mask, int axis, int held,
                            arena *a);
/* Axes of a pointer tile by decreasing contiguity (ties: the later axis first): order[0] is the fastest. */
void axis_order(const axis_facts *f, const tir_value *pointer, int *order);
/* Whether add, sub, mul or addptr's offset cannot wrap in its type when read as signed. */
bool axis_no_wrap(const axis_facts *f, const tir_op *op);

/* Registers that ptxas must have for one wgmma of the function: its accumulator and some more (its error C7602 names
   them); 0 without wgmma. */
int pressure_of_wgmma(const tir_fn *fn);

/* Where most registers are alive at once, estimated from the layouts, and the tiles that hold most of them. */
enum { PRESSURE_TILES = 5 };
typedef struct pressure {
  int registers; /* of 32 bits in each thread; 0: the function has no tiles */
  span at;
  int n;
  const tir_value *tiles[PRESSURE_TILES]; /* largest first */
  int held[PRESSURE_TILES];               /* registers of each */
} pressure;
/* Ids must be dense and layouts assigned. */
pressure pressure_of(const tir_fn *fn, arena *a);

#endif
