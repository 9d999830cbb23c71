/* tensor_map: the tensor maps of a launch, from its arguments to the 128 bytes that a kernel takes for each.
 *
 * A map says where a tensor lies and how large it is, so it changes with the arguments. The metadata gives sizes and
 * strides as expressions over them; these are compiled once for a variant and run at each launch, and only when a
 * result differs from what the bytes at hand were made from does a device encode new ones, a call of the driver each.
 * What hardware demands of addresses and strides is checked here, before any device sees it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

static const int64_t MOST_ELEMENTS = INT64_C(1) << 32; /* of an axis */
static const int64_t MOST_STRIDE = INT64_C(1) << 40;   /* bytes; itself not allowed */

/* ---- what the metadata says, compiled ---------------------------------------------------------------------------- */

static tk_status bad_map(const tk__variant *v, const tk_artifact_map *m, const char *what, const char *why) {
  return tk__fail(v->kernel->module->cx, TK_BAD_ARTIFACT, "the tensor map of '%s' in '%s' has %s \"%.100s\": %s",
                  m->param, v->kernel->name, m->sizes == what ? "the sizes" : "the strides", what, why);
}

/* One value for each axis. */
static tk_status compile_axes(const tk__variant *v, const tk_artifact_map *m, const char *text, tk__expr *out) {
  char why[160];
  tk__names names = tk__names_of(&(tk_meta){.variant = v});
  if (!tk__expr_compile(text, TK_ARTIFACT_MAX_RANK, &names, out, why, sizeof why)) return bad_map(v, m, text, why);
  if (out->dims != m->rank) return bad_map(v, m, text, "the box has another number of axes");
  return TK_OK;
}

tk_status tk__maps_compile(tk__variant *v) {
  int n = v->meta->n_maps;
  tk_status s = TK_OK;
  if (n == 0) return TK_OK;
  v->maps = calloc((size_t)n, sizeof *v->maps);
  tk__map *kept = aligned_alloc(_Alignof(tk__map), (size_t)n * sizeof *kept);
  if (!v->maps || !kept) {
    free(kept);
    return tk__no_memory(v->kernel->module->cx);
  }
  memset(kept, 0, (size_t)n * sizeof *kept);
  atomic_store(&v->kept, kept);
  for (int i = 0; i < n && s == TK_OK; i++) {
    const tk_artifact_map *m = &v->meta->maps[i];
    tk__map_rule *r = &v->maps[i];
    while (strcmp(v->rules[r->arg].name, m->param) != 0) r->arg++; /* the metadata was checked: there is one */
    tk_artifact_map_dtype(m, &r->dtype, &r->is_tf32);
    s = compile_axes(v, m, m->sizes, &r->sizes);
    if (s == TK_OK) s = compile_axes(v, m, m->strides, &r->strides);
  }
  if (s == TK_OK) v->n_maps = n;
  return s;
}

/* ---- a launch ---------------------------------------------------------------------------------------------------- */

static bool say(char *why, size_t size, const char *fmt, ...) TK__PRINTF(3, 4);

static bool say(char *why, size_t size, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, size, fmt, ap);
  va_end(ap);
  return true;
}

/* Half a sentence about what the copy engine cannot do; false if there is nothing. */
static bool misfits(const tk__tensor_map *t, const tk__map_source *from, char *why, size_t size) {
  if (t->address % 16 != 0) return say(why, size, "its address 0x%" PRIx64 " is no multiple of 16", t->address);
  if (from->strides[0] != 1)
    return say(why, size, "elements of its axis 0 lie %" PRId64 " apart, not side by side", from->strides[0]);
  for (int i = 0; i < t->rank; i++) {
    int64_t n = from->sizes[i], stride = from->strides[i];
    if (i == 0 && n == -1) /* compiler/passes/boxes.c says so where the parameters of a position must not be negative */
      return say(why, size, "an argument that its size or a position in it depends on is negative");
    if (n < 1 || n > MOST_ELEMENTS) return say(why, size, "its axis %d has %" PRId64 " elements, not 1 .. 2^32", i, n);
    if (i > 0 &&
        (stride < 0 || stride >= MOST_STRIDE || (int64_t)t->strides[i] >= MOST_STRIDE || t->strides[i] % 16 != 0))
      return say(why, size, "its axis %d has a stride of %" PRId64 " elements: in bytes no multiple of 16 below 2^40",
                 i, stride);
  }
  return false;
}

/* No map says that a tensor is empty. A kernel that loads what its mask leaves out has to do without; one that cannot
   gets zeros, which fault where it loads all the same. */
static tk_status encode(const tk__variant *v, int i, const tk__map_source *from, tk__map *out, tk__misfit *why) {
  const tk_artifact_map *m = &v->meta->maps[i];
  const tk__map_rule *r = &v->maps[i];
  tk_context *cx = v->kernel->module->cx;
  bool empty = false;
  tk__tensor_map t = {
      .dtype = r->dtype, .is_tf32 = r->is_tf32, .rank = m->rank, .swizzle = m->swizzle, .address = from->address};
  for (int a = 0; a < m->rank; a++) {
    empty |= from->sizes[a] == 0;
    t.sizes[a] = (uint64_t)from->sizes[a];
    t.strides[a] = (uint64_t)from->strides[a] * tk_dtype_bytes(r->dtype);
    t.box[a] = (uint32_t)m->box[a];
  }
  tk_status s = TK_OK;
  out->made = false;
  if (empty && v->kernel->module->is_source) {
    say(why->text, sizeof why->text, "it is empty");
    s = TK_SPECIALIZATION_MISMATCH;
  } else if (empty)
    memset(out->bytes, 0, sizeof out->bytes);
  else if (misfits(&t, from, why->text, sizeof why->text))
    s = TK_SPECIALIZATION_MISMATCH;
  else
    s = cx->ops->encode_map(cx, &t, out->bytes, why->text, sizeof why->text);
  out->from = *from;
  out->made = s == TK_OK;
  return s;
}

tk_status tk__maps_make(const tk__variant *v, const uint64_t *slots, const tk_arg *args, tk__map *maps,
                        tk__misfit *why) {
  tk_meta meta = {.variant = v, .args = args};
  tk__names names = tk__names_of(&meta);
  for (int i = 0; i < v->n_maps; i++) {
    const tk__map_rule *r = &v->maps[i];
    tk__map_source from = {.address = slots[v->rules[r->arg].slot]};
    why->param = v->rules[r->arg].name;
    if (!tk__expr_run(&r->sizes, &names, from.sizes, why->text, sizeof why->text) ||
        !tk__expr_run(&r->strides, &names, from.strides, why->text, sizeof why->text))
      return TK_SPECIALIZATION_MISMATCH;
    if (maps[i].made && memcmp(&maps[i].from, &from, sizeof from) == 0) continue;
    tk_status s = encode(v, i, &from, &maps[i], why);
    if (s != TK_OK) return s;
  }
  return TK_OK;
}
