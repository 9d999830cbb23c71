/* scratch: see scratch.h. */
#include "compiler/ir/scratch.h"

int tir_shared_bytes(const tir_type *t) { return tir_is_ptr(t) ? 8 : tir_dtypes[tir_dtype_of(t)].bytes; }

int64_t tir_scratch_part(const tir_op *reduce, int i, int64_t scratch_elems) {
  int64_t at = 0;
  for (int k = 0; k < i; k++) at += (scratch_elems * tir_shared_bytes(tir_in(reduce, k)->type) + 15) & ~INT64_C(15);
  return at;
}

/* Whether some thread holds an element that another one owns; if only warps count: in another warp. */
static bool replicated(const lay_t *l, bool only_warps) {
  uint32_t mask[LAY_NHW];
  lay_free_masks(l, mask);
  return mask[LAY_WARP] || (!only_warps && mask[LAY_LANE]);
}

tir_scratch tir_scratch_of(const tir_op *op, arena *a) {
  tir_scratch s = {0};
  const tir_type *t = op->n_in ? tir_in(op, 0)->type : NULL;
  switch (op->code) {
    case OP_convert_layout: {
      lay_cx *cx = tir_fn_of(op)->cx->layouts;
      const lay_cvt *plan = lay_convert(cx, a, t->layout, op->out[0]->type->layout, 8 * tir_shared_bytes(t), NULL);
      BASE_ASSERT(plan != NULL);
      if (plan->kind != LAY_CVT_SHARED) break;
      s.warp_local = plan->shared->warp_local;
      s.private = s.warp_local && replicated(t->layout, true);
      s.bytes = (int64_t)plan->shared->bytes * (s.private ? lay_warps(t->layout) : 1);
      break;
    }
    case OP_reduce: {
      const lay_reduce *plan =
          lay_reduce_plan(tir_fn_of(op)->cx->layouts, a, t->layout, (int)tir_attr_int(op, ATTR_axis, 0));
      BASE_ASSERT(plan != NULL);
      if (plan->n_warp > 1) s.bytes = tir_scratch_part(op, op->n_in, plan->scratch_elems);
      break;
    }
    case OP_atomic_rmw: {
      const tir_type *r = op->out[0]->type;
      if (tir_has_uses(op->out[0]) && (!tir_is_tile(r) || replicated(r->layout, false)))
        s.bytes = r->numel * tir_shared_bytes(r);
      break;
    }
    case OP_alloc: {
      const tir_type *b = op->out[0]->type;
      s.bytes = tir_buffer_stage_bytes(b) * (b->stages ? b->stages : 1);
      if (tir_attr_int(op, ATTR_ring, 0)) s.bytes += TIR_RING_BARRIERS * b->stages; /* behind the stages */
      s.align = b->shared->align_bytes;
      break;
    }
    case OP_tma_store: {
      lay_panels p;
      const tir_type *tile = tir_in(op, 1)->type;
      bool possible = lay_panels_of(tir_fn_of(op)->cx->layouts, a, tile->layout, (int)tir_attr_int(op, ATTR_axis, 0),
                                    tir_shared_bytes(tile), tir_attr_int(op, ATTR_by_warp, 0) != 0, &p);
      BASE_ASSERT(possible);
      s.bytes = (int64_t)p.part_bytes * p.n_buffers;
      s.align = p.shared->align_bytes;
      break;
    }
    case OP_next_program: s.bytes = TIR_PROGRAM_STAGES * (TIR_PROGRAM_BYTES + TIR_RING_BARRIERS); break;
    default: break;
  }
  if (s.align < 16) s.align = 16;
  return s;
}
