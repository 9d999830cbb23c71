/* shared: an offset in shared memory for every op that needs scratch.
 *
 * Scratch lives only while its op runs, so all of it could lie at offset 0. Two ops in a row would then need a barrier
 * between the reads of the first and the writes of the second. Each op has a barrier inside; so if neighbours get
 * different places, the barrier inside the second one already separates the first from the third: alternate, as long as
 * that costs little memory. The barriers pass finds what remains. Offsets are multiples of 16 bytes. */
#include "compiler/ir/scratch.h"
#include "compiler/passes/passes.h"

enum { ALIGN = 16, SPREAD_LIMIT = 8192 /* bytes: neighbours up to this size are kept apart */ };

bool pass_shared(tir_fn *fn, const pass_cx *cx) {
  arena *a = arena_new();
  int64_t total = 0, before = 0, before_bytes = 0;
  const tir_op *largest = NULL;
  int64_t largest_bytes = 0;
  for (tir_op *op = tir_first(fn); op; op = tir_next(op)) {
    int64_t bytes = tir_scratch_of(op, a).bytes;
    if (!bytes) continue;
    bytes = (bytes + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
    int64_t at = 0;
    if (bytes <= SPREAD_LIMIT && before_bytes && before < bytes) at = before + before_bytes;
    if (at + bytes > total && at > SPREAD_LIMIT) at = 0;
    tir_set_int(op, ATTR_scratch, at);
    before = at, before_bytes = bytes;
    if (at + bytes > total) total = at + bytes;
    if (bytes > largest_bytes) largest = op, largest_bytes = bytes;
  }
  fn->shared_bytes = total;
  if (total > cx->arch->shared_block) {
    diag *d = diag_add(cx->sink, largest->at, &D_shared_too_big, fn->name, (long long)total, cx->arch->name,
                       cx->arch->shared_block);
    diag_note(d, largest->at, "the largest piece, %lld bytes, moves %s between threads here", (long long)largest_bytes,
              tir_type_text(a, tir_in(largest, 0)->type));
    diag_fix(d, fn->at, "use a smaller block");
  }
  arena_free(a);
  return true;
}
