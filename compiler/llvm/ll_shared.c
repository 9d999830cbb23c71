/* Buffers in shared memory: places, stores, loads, asynchronous copies.
 *
 * A buffer or view is its address in shared memory, as an i32: what ldmatrix, cp.async and descriptors take. Where an
 * access of a tile goes is the XOR of a part that depends on the thread and a constant for each group of registers
 * (layout.h). Only constant bits that the thread's part can set too need an XOR; the others are added, and become
 * immediates of the instruction. So a tile needs as many address registers as there are different values of the former
 * bits: four for the steps along K in a swizzled row of 128 bytes, whatever the number of rows. Of accesses
 * in loops they are computed in the entry block, as they depend on the thread alone, because LLVM's hoisting is
 * switched off; the view's address is added in place. A padded layout keeps this form: its gaps are a sum over the bits
 * of the offset, as long as no two parts share a bit.
 *
 * Tiles move by ldmatrix or stmatrix where layouts and target allow it and that is cheaper, else by vectors of up to 16
 * bytes. Copies from global memory go by cp.async where an access is 4, 8 or 16 bytes; a masked-off access reads
 * nothing and writes zeros. Narrower accesses, and targets without cp.async, load and store at once: the data is there
 * earlier than it has to be, which nobody can tell. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

enum { MAX_VEC_BYTES = 16, MAX_VEC = 16 };

/* ---- places --------------------------------------------------------------------------------------------------- */

typedef struct places {
  ll_v base; /* the view's address */
  const lay_terms *terms;
  uint32_t pad_log2, pad_elems, elem_bytes;
  bool hoist;        /* the access is in a loop */
  uint32_t n, x[32]; /* what the thread's part was XORed with, */
  ll_v at[32];       /* and the address */
} places;

static ll_v add(ll *e, ll_v a, ll_v b) {
  ll_v v = LLVMBuildAdd(e->b, a, b, "");
  if (LLVMIsAInstruction(v)) {
    LLVMSetNUW(v, true);
    LLVMSetNSW(v, true);
  }
  return v;
}

static ll_v scaled(ll *e, ll_v v, uint32_t by) {
  v = LLVMBuildMul(e->b, v, ll_i32(e, by), "");
  if (LLVMIsAInstruction(v)) {
    LLVMSetNUW(v, true);
    LLVMSetNSW(v, true);
  }
  return v;
}

static uint32_t with_gaps(const places *p, uint32_t offset) {
  return p->pad_elems ? offset + (offset >> p->pad_log2) * p->pad_elems : offset;
}

/* Address register of the access at `offset` (elements); *rest is what the instruction has to add (bytes). */
static ll_v place(ll *e, places *p, uint32_t offset, uint32_t *rest) {
  uint32_t x = offset & p->terms->bits, i = 0;
  *rest = with_gaps(p, offset & ~p->terms->bits) * p->elem_bytes;
  while (i < p->n && p->x[i] != x) i++;
  if (i < p->n) return p->at[i];
  LLVMBasicBlockRef here = p->hoist ? ll_hoist_begin(e) : NULL;
  ll_v at = ll_terms(e, p->terms);
  if (x) at = LLVMBuildXor(e->b, at, ll_i32(e, x), "");
  if (p->pad_elems) at = add(e, at, scaled(e, LLVMBuildLShr(e->b, at, ll_i32(e, p->pad_log2), ""), p->pad_elems));
  at = scaled(e, at, p->elem_bytes);
  if (here) ll_hoist_end(e, here);
  at = add(e, p->base, at);
  if (p->n < 32) {
    p->x[p->n] = x;
    p->at[p->n++] = at;
  }
  return at;
}

/* The same as a pointer, for accesses that LLVM knows. */
static ll_v place_pointer(ll *e, places *p, uint32_t offset) {
  uint32_t rest;
  ll_v at = LLVMBuildIntToPtr(e->b, place(e, p, offset, &rest), e->shared_ptr, "");
  ll_v by = ll_i32(e, rest);
  return rest ? LLVMBuildInBoundsGEP2(e->b, e->i8, at, &by, 1, "") : at;
}

static const char *address_text(ll *e, int operand, uint32_t rest) {
  return rest ? arena_printf(e->a, "[$%d+%u]", operand, rest) : arena_printf(e->a, "[$%d]", operand);
}

/* ---- buffers and views ---------------------------------------------------------------------------------------- */

static void define(ll *e, const tir_op *op, ll_v v) {
  ll_v *one = ll_new(e, 1);
  one[0] = v;
  ll_def(e, tir_out(op, 0), one);
}

void ll_alloc(ll *e, const tir_op *op) {
  const tir_type *t = tir_out(op, 0)->type;
  int64_t at = tir_attr_int(op, ATTR_scratch, -1), bytes = tir_buffer_stage_bytes(t) * (t->stages ? t->stages : 1);
  BASE_ASSERT(at >= 0 && at % t->shared->align_bytes == 0 && at + bytes <= e->fn->shared_bytes);
  define(e, op, ll_shared_address(e, at));
}

void ll_buffer_at(ll *e, const tir_op *op) {
  int64_t bytes = tir_buffer_stage_bytes(tir_in(op, 0)->type);
  ll_v stage = ll_use_scalar(e, tir_in(op, 1));
  define(e, op, add(e, ll_use_scalar(e, tir_in(op, 0)), scaled(e, stage, (uint32_t)bytes)));
}

void ll_buffer_trans(ll *e, const tir_op *op) { define(e, op, ll_use_scalar(e, tir_in(op, 0))); }

/* ---- tiles ---------------------------------------------------------------------------------------------------- */

static places places_of(ll_v base, const lay_way *w, int elem_bytes) {
  const lay_matrix *m = &w->matrix;
  const lay_access *v = &w->vectors;
  return (places){.base = base,
                  .terms = w->by_matrix ? &m->terms : &v->terms,
                  .pad_log2 = w->by_matrix ? m->pad_log2 : v->pad_log2,
                  .pad_elems = w->by_matrix ? m->pad_elems : v->pad_elems,
                  .elem_bytes = (uint32_t)elem_bytes};
}

static const char *matrix_name(ll *e, const lay_matrix *m, const char *verb) {
  return arena_printf(e->a, "%s.sync.aligned.m8n8.x%d%s.shared.b16", verb, m->n_matrix, m->trans ? ".trans" : "");
}

static const char *words_text(ll *e, int first, int n) {
  textbuf t;
  text_init(&t, e->a);
  for (int i = 0; i < n; i++) text_printf(&t, "%s$%d", i ? ", " : "{", first + i);
  text_char(&t, '}');
  return t.at;
}

static void store_matrices(ll *e, places *p, const lay_matrix *m, const ll_v *x, int first, int n) {
  const char *name = matrix_name(e, m, "stmatrix"), *list = words_text(e, 1, m->n_matrix);
  for (int g = first; g < first + n; g++) {
    ll_v args[5], in[4];
    uint32_t rest;
    args[0] = place(e, p, m->offset[g], &rest);
    for (int j = 0; j < m->n_matrix; j++) {
      for (int i = 0; i < m->per_matrix; i++) {
        in[i] = x[m->regs[(g * m->n_matrix + j) * m->per_matrix + i]];
        if (LLVMTypeOf(in[i]) == e->i1) in[i] = ll_to_bits(e, in[i]);
      }
      args[1 + j] = ll_pack_word(e, in, m->per_matrix);
    }
    static const char *const constraints[] = {"r,r,~{memory}", "r,r,r,~{memory}", "r,r,r,r,r,~{memory}"};
    ll_asm_text(e, arena_printf(e->a, "%s %s, %s;", name, address_text(e, 0, rest), list), constraints[m->n_matrix / 2],
                e->void_, 1 + m->n_matrix, args, -1, LL_COLLECTIVE);
  }
}

static void load_matrices(ll *e, places *p, const lay_matrix *m, LLVMTypeRef type, ll_v *x, int first, int n) {
  static const char *const constraints[] = {"=r,r,~{memory}", "=r,=r,r,~{memory}", "=r,=r,=r,=r,r,~{memory}"};
  const char *name = matrix_name(e, m, "ldmatrix"), *list = words_text(e, 0, m->n_matrix);
  LLVMTypeRef words[4] = {e->i32, e->i32, e->i32, e->i32};
  LLVMTypeRef result = m->n_matrix > 1 ? LLVMStructTypeInContext(e->c, words, (unsigned)m->n_matrix, false) : e->i32;
  for (int g = first; g < first + n; g++) {
    uint32_t rest;
    ll_v at = place(e, p, m->offset[g], &rest), out[4];
    ll_v v = ll_asm_text(e, arena_printf(e->a, "%s %s, %s;", name, list, address_text(e, m->n_matrix, rest)),
                         constraints[m->n_matrix / 2], result, 1, &at, -1, LL_COLLECTIVE);
    for (int j = 0; j < m->n_matrix; j++) {
      ll_v word = m->n_matrix > 1 ? LLVMBuildExtractValue(e->b, v, (unsigned)j, "") : v;
      ll_unpack_word(e, word, type == e->i1 ? e->i8 : type, out, m->per_matrix);
      for (int i = 0; i < m->per_matrix; i++)
        x[m->regs[(g * m->n_matrix + j) * m->per_matrix + i]] = type == e->i1 ? ll_from_bits(e, out[i], type) : out[i];
    }
  }
}

static void store_vectors(ll *e, places *p, const lay_access *s, const ll_v *x, int first, int n) {
  for (int g = first; g < first + n; g++) {
    ll_v in[MAX_VEC];
    for (int i = 0; i < s->vec; i++) in[i] = ll_to_bits(e, x[s->regs[g * s->vec + i]]);
    ll_vector_store(e, place_pointer(e, p, s->offset[g]), s->vec, (int)p->elem_bytes, in);
  }
}

static void load_vectors(ll *e, places *p, const lay_access *s, LLVMTypeRef type, ll_v *x, int first, int n) {
  for (int g = first; g < first + n; g++) {
    ll_v bits[MAX_VEC];
    ll_vector_load(e, place_pointer(e, p, s->offset[g]), s->vec, (int)p->elem_bytes, bits);
    for (int i = 0; i < s->vec; i++) x[s->regs[g * s->vec + i]] = ll_from_bits(e, bits[i], type);
  }
}

static void store_tile(ll *e, places *p, const lay_way *w, const ll_v *x, int round, int rounds) {
  int n = (w->by_matrix ? w->matrix.n_groups : w->vectors.n_groups) / rounds;
  if (w->by_matrix)
    store_matrices(e, p, &w->matrix, x, round * n, n);
  else
    store_vectors(e, p, &w->vectors, x, round * n, n);
}

static void load_tile(ll *e, places *p, const lay_way *w, LLVMTypeRef type, ll_v *x, int round, int rounds) {
  int n = (w->by_matrix ? w->matrix.n_groups : w->vectors.n_groups) / rounds;
  if (w->by_matrix)
    load_matrices(e, p, &w->matrix, type, x, round * n, n);
  else
    load_vectors(e, p, &w->vectors, type, x, round * n, n);
}

void ll_shared_store(ll *e, ll_v base, const lay_way *w, int elem_bytes, const ll_v *x, int round, int rounds) {
  places p = places_of(base, w, elem_bytes);
  store_tile(e, &p, w, x, round, rounds);
}

void ll_shared_load(ll *e, ll_v base, const lay_way *w, int elem_bytes, LLVMTypeRef type, ll_v *x, int round,
                    int rounds) {
  places p = places_of(base, w, elem_bytes);
  load_tile(e, &p, w, type, x, round, rounds);
}

void ll_buffer_store(ll *e, const tir_op *op) {
  const tir_value *tile = tir_in(op, 0), *view = tir_in(op, 1);
  const lay_t *l = tile->type->layout;
  int bytes = ll_elem_bytes(view->type);
  lay_way w = lay_way_of(e->fn->cx->layouts, e->a, l, view->type->shared, bytes, e->arch->has_stmatrix, false);
  places p = places_of(ll_use_scalar(e, view), &w, bytes);
  p.hoist = tir_in_loop(op);
  uint32_t free_bits[LAY_NHW];
  lay_free_masks(l, free_bits);
  ll_guard g = ll_if(e, ll_owner(e, 0, free_bits[LAY_WARP]));
  store_tile(e, &p, &w, ll_use(e, tile), 0, 1);
  ll_end_if(e, g);
}

void ll_buffer_load(ll *e, const tir_op *op) {
  const tir_value *view = tir_in(op, 0), *out = tir_out(op, 0);
  const lay_t *l = out->type->layout;
  int bytes = ll_elem_bytes(view->type), n = ll_regs(out->type);
  lay_way w = lay_way_of(e->fn->cx->layouts, e->a, l, view->type->shared, bytes, e->arch->has_ldmatrix, true);
  places p = places_of(ll_use_scalar(e, view), &w, bytes);
  p.hoist = tir_in_loop(op);
  ll_v *x = ll_new(e, n);
  load_tile(e, &p, &w, ll_type(e, out->type), x, 0, 1);
  lay_span regs = ll_register_span(l);
  for (int r = 0; r < n; r++)
    if (!x[r]) x[r] = x[ll_register_of(&regs, lay_apply(l, (uint32_t)r, 0, 0, 0))];
  ll_def(e, out, x);
}

struct ll_reader {
  lay_way w;
  places p;
  ll_v *bits;
};

ll_reader *ll_reader_new(ll *e, const tir_op *op, const tir_value *view, const lay_t *l) {
  ll_reader *r = ARENA_NEW(e->a, ll_reader);
  int bytes = ll_elem_bytes(view->type);
  r->w = lay_way_of(e->fn->cx->layouts, e->a, l, view->type->shared, bytes, false, true);
  r->p = places_of(ll_use_scalar(e, view), &r->w, bytes);
  r->p.hoist = tir_in_loop(op);
  r->bits = ll_new(e, lay_regs(l));
  return r;
}

ll_v ll_reader_get(ll *e, ll_reader *r, int reg) {
  const lay_access *s = &r->w.vectors;
  if (r->bits[reg]) return r->bits[reg];
  int first = 0;
  while (s->regs[first] != reg) first++;
  first -= first % s->vec;
  ll_v bits[MAX_VEC];
  ll_vector_load(e, place_pointer(e, &r->p, s->offset[first / s->vec]), s->vec, (int)r->p.elem_bytes, bits);
  for (int i = 0; i < s->vec; i++) r->bits[s->regs[first + i]] = bits[i];
  return r->bits[reg];
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

/* Elements of one cp.async: contiguous in global memory (the op says so) and in the view. 0: it has to be loads. */
static int copy_vec(const ll *e, const tir_op *op) {
  const tir_type *view = tir_in(op, 1)->type;
  const sh_t *s = view->shared;
  int bytes = ll_elem_bytes(view), axis = (int)tir_attr_int(op, ATTR_axis, view->rank - 1);
  int most = (int)tir_attr_int(op, ATTR_vec, 1), vec = 1;
  int shift = lay_axis_shift(lay_shape_make(view->rank, view->shape), axis);
  if (!e->arch->has_cp_async) return 0;
  for (int i = 0; i < s->axis_bits[axis] && 2 * vec <= most && 2 * vec * bytes <= MAX_VEC_BYTES; i++, vec *= 2)
    if (s->col[shift + i] != (uint32_t)vec) break;
  return vec * bytes >= 4 ? vec : 0;
}

static void copy_asynchronously(ll *e, const tir_op *op, const lay_access *s, places *p, ll_v *mask, ll_v owner) {
  int bytes = s->vec * (int)p->elem_bytes;
  const char *evict = tir_attr_str(op, ATTR_evict, NULL);
  bool past_l1 = bytes == 16 && !tir_attr_of(op, ATTR_cache);
  ll_v *from = ll_use(e, tir_in(op, 0)), policy = evict ? ll_l2_policy(e, strcmp(evict, "evict_last") == 0) : NULL;
  for (int g = 0; g < s->n_groups; g++) {
    int r = s->regs[g * s->vec], n = 0;
    ll_v args[5];
    uint32_t rest;
    textbuf text, cons;
    text_init(&text, e->a);
    text_init(&cons, e->a);
    args[n++] = place(e, p, s->offset[g], &rest);
    args[n++] = from[r];
    text_str(&cons, "r,*m");
    if (owner) text_printf(&text, "@$%d ", n + (mask && !ll_is_true(mask[r])) + (policy != NULL));
    text_printf(&text, "cp.async.%s.shared.global%s %s, $1, %d", past_l1 ? "cg" : "ca", policy ? ".L2::cache_hint" : "",
                address_text(e, 0, rest), bytes);
    if (mask && !ll_is_true(mask[r])) {
      text_printf(&text, ", $%d", n);
      text_str(&cons, ",r");
      args[n++] = LLVMBuildSelect(e->b, mask[r], ll_i32(e, (uint32_t)bytes), ll_i32(e, 0), "");
    }
    if (policy) {
      text_printf(&text, ", $%d", n);
      text_str(&cons, ",l");
      args[n++] = policy;
    }
    if (owner) {
      text_str(&cons, ",b");
      args[n++] = owner;
    }
    text_char(&text, ';');
    text_str(&cons, ",~{memory}");
    ll_asm_text(e, text.at, cons.at, e->void_, n, args, 1, LL_EFFECT);
  }
}

void ll_copy_async(ll *e, const tir_op *op) {
  const tir_value *pointers = tir_in(op, 0), *view = tir_in(op, 1);
  const lay_t *l = pointers->type->layout;
  int bytes = ll_elem_bytes(view->type), vec = copy_vec(e, op);
  lay_access s =
      lay_sh_access(e->fn->cx->layouts, e->a, l, view->type->shared, bytes, vec ? vec * bytes : MAX_VEC_BYTES);
  places p = {.base = ll_use_scalar(e, view),
              .terms = &s.terms,
              .pad_log2 = s.pad_log2,
              .pad_elems = s.pad_elems,
              .elem_bytes = (uint32_t)bytes,
              .hoist = tir_in_loop(op)};
  ll_v owner = ll_owner(e, s.lane_free, s.warp_free);
  if (vec && s.vec * bytes >= 4) {
    copy_asynchronously(e, op, &s, &p, op->n_in > 2 ? ll_use(e, tir_in(op, 2)) : NULL, owner);
    return;
  }
  ll_v *bits = ll_new(e, ll_regs(pointers->type));
  ll_copy_load(e, op, bits);
  ll_guard g = ll_if(e, owner);
  store_vectors(e, &p, &s, bits, 0, s.n_groups);
  ll_end_if(e, g);
}

void ll_copy_commit(ll *e) {
  if (e->arch->has_cp_async) ll_asm(e, ASM_copy_commit, e->void_, 0, NULL);
}

void ll_copy_wait(ll *e, const tir_op *op) {
  if (!e->arch->has_cp_async) return;
  const char *text = arena_printf(e->a, "cp.async.wait_group %d;", (int)tir_attr_int(op, ATTR_pending, 0));
  ll_asm_text(e, text, "~{memory}", e->void_, 0, NULL, -1, LL_COLLECTIVE);
}

void ll_fence_async(ll *e) {
  if (e->arch->has_tma) ll_asm(e, ASM_fence_async, e->void_, 0, NULL);
}
