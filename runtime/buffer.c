/* buffer: device memory, pinned host memory, and copies between them.
 *
 * Every copy is checked against the sizes here, so that the devices below can trust offsets. The waiting forms queue on
 * the context's own stream and wait for it, which keeps them in order with launches there. */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static tk_status buffer_make(tk_context *cx, size_t bytes, tk_buffer **out, tk_buffer **made) {
  if (out) *out = NULL;
  if (!cx || !cx->ops || !out) return TK_INVALID_ARGUMENT;
  *made = calloc(1, sizeof **made);
  if (!*made) return tk__no_memory(cx);
  (*made)->cx = cx;
  (*made)->bytes = bytes;
  (*made)->rank = -1;
  return TK_OK;
}

static void publish(tk_buffer *b, tk_buffer **out) {
  atomic_fetch_add(&b->cx->n_buffers, 1);
  *out = b;
}

tk_status tk_buffer_new(tk_context *cx, size_t bytes, tk_buffer **out) {
  tk_buffer *b;
  tk_status s = buffer_make(cx, bytes, out, &b);
  if (s != TK_OK) return s;
  if (bytes) s = cx->ops->alloc(cx, bytes, &b->address);
  if (s != TK_OK) {
    free(b);
    return s;
  }
  publish(b, out);
  return TK_OK;
}

tk_status tk_buffer_wrap(tk_context *cx, void *device_pointer, size_t bytes, tk_buffer **out) {
  tk_buffer *b;
  if (cx && cx->ops && out && !device_pointer && bytes) {
    *out = NULL;
    return tk__fail(cx, TK_INVALID_ARGUMENT, "a NULL pointer cannot hold %zu bytes", bytes);
  }
  tk_status s = buffer_make(cx, bytes, out, &b);
  if (s != TK_OK) return s;
  b->address = (uint64_t)(uintptr_t)device_pointer;
  b->wrapped = true;
  publish(b, out);
  return TK_OK;
}

void tk_buffer_free(tk_buffer *b) {
  if (!b) return;
  if (!b->wrapped && b->address) b->cx->ops->release(b->cx, b->address);
  atomic_fetch_sub(&b->cx->n_buffers, 1);
  free(b);
}

/* Number of elements, checked; false on a negative size or overflow. */
static bool count_elements(int rank, const int64_t *shape, int64_t *out) {
  *out = 1;
  for (int i = 0; i < rank; i++)
    if (shape[i] < 0 || __builtin_mul_overflow(*out, shape[i], out)) return false;
  return true;
}

tk_status tk_tensor_new(tk_context *cx, tk_dtype dtype, int rank, const int64_t *shape, tk_buffer **out) {
  int64_t elements, bytes;
  if (out) *out = NULL;
  if (!cx || !cx->ops || !out) return TK_INVALID_ARGUMENT;
  if (rank < 0 || rank > TK_MAX_RANK || (rank && !shape) || !tk_dtype_bytes(dtype))
    return tk__fail(cx, TK_INVALID_ARGUMENT, "a tensor needs an element type and up to %d sizes", TK_MAX_RANK);
  if (!count_elements(rank, shape, &elements) ||
      __builtin_mul_overflow(elements, (int64_t)tk_dtype_bytes(dtype), &bytes))
    return tk__fail(cx, TK_INVALID_ARGUMENT, "a size is negative, or there are more than 2^63 bytes");
  tk_status s = tk_buffer_new(cx, (size_t)bytes, out);
  return s == TK_OK ? tk_buffer_describe(*out, dtype, rank, shape, NULL) : s;
}

tk_status tk_buffer_describe(tk_buffer *b, tk_dtype dtype, int rank, const int64_t *shape, const int64_t *strides) {
  int64_t dense[TK_MAX_RANK], elements, bytes;
  if (!b) return TK_INVALID_ARGUMENT;
  if (rank < 0 || rank > TK_MAX_RANK || (rank && !shape) || !tk_dtype_bytes(dtype))
    return tk__fail(b->cx, TK_INVALID_ARGUMENT, "a description needs an element type and up to %d sizes", TK_MAX_RANK);
  if (!count_elements(rank, shape, &elements))
    return tk__fail(b->cx, TK_INVALID_ARGUMENT, "a size is negative, or there are more than 2^63 elements");
  if (!strides) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
      dense[i] = stride;
      stride *= shape[i] ? shape[i] : 1; /* no overflow: count_elements saw the product, or a zero makes it unused */
      if (elements == 0) stride = 1;
    }
    strides = dense;
  }
  int64_t last = 0;
  for (int i = 0; i < rank && elements; i++) {
    int64_t reach;
    if (strides[i] < 0 || __builtin_mul_overflow(strides[i], shape[i] - 1, &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return tk__fail(b->cx, TK_INVALID_ARGUMENT, "stride %d is negative or too large", i);
  }
  if (elements && (last == INT64_MAX || __builtin_mul_overflow(last + 1, (int64_t)tk_dtype_bytes(dtype), &bytes) ||
                   (uint64_t)bytes > b->bytes))
    return tk__fail(b->cx, TK_OUT_OF_RANGE, "the described elements need more than the buffer's %zu bytes", b->bytes);
  b->dtype = dtype;
  b->rank = rank;
  for (int i = 0; i < rank; i++) {
    b->shape[i] = shape[i];
    b->strides[i] = strides[i];
  }
  return TK_OK;
}

uint64_t tk_buffer_address(const tk_buffer *b) { return b ? b->address : 0; }
size_t tk_buffer_bytes(const tk_buffer *b) { return b ? b->bytes : 0; }
tk_dtype tk_buffer_dtype(const tk_buffer *b) { return b ? b->dtype : TK_NO_DTYPE; }

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static tk_status in_range(const tk_buffer *b, size_t offset, size_t bytes) {
  if (offset > b->bytes || bytes > b->bytes - offset)
    return tk__fail(b->cx, TK_OUT_OF_RANGE, "bytes %zu to %zu of a buffer of %zu", offset, offset + bytes, b->bytes);
  return TK_OK;
}

static tk_status on_stream(const tk_context *cx, const tk_stream *s) {
  if (s && s->cx != cx) return tk__fail(cx, TK_WRONG_CONTEXT, "the stream was made by another one");
  return TK_OK;
}

static tk_status waited(tk_context *cx, tk_status s) { return s == TK_OK ? cx->ops->stream_synchronize(cx, NULL) : s; }

tk_status tk_upload_async(tk_buffer *to, size_t offset, const void *from, size_t bytes, tk_stream *s) {
  if (!to || (!from && bytes)) return TK_INVALID_ARGUMENT;
  tk_status status = in_range(to, offset, bytes);
  if (status == TK_OK) status = on_stream(to->cx, s);
  if (status != TK_OK || bytes == 0) return status;
  return to->cx->ops->upload(to->cx, to->address + offset, from, bytes, s);
}

tk_status tk_download_async(const tk_buffer *from, size_t offset, void *to, size_t bytes, tk_stream *s) {
  if (!from || (!to && bytes)) return TK_INVALID_ARGUMENT;
  tk_status status = in_range(from, offset, bytes);
  if (status == TK_OK) status = on_stream(from->cx, s);
  if (status != TK_OK || bytes == 0) return status;
  return from->cx->ops->download(from->cx, to, from->address + offset, bytes, s);
}

tk_status tk_copy_async(tk_buffer *to, size_t to_offset, const tk_buffer *from, size_t from_offset, size_t bytes,
                        tk_stream *s) {
  if (!to || !from) return TK_INVALID_ARGUMENT;
  if (to->cx != from->cx) return tk__fail(to->cx, TK_WRONG_CONTEXT, "the buffers belong to different ones");
  tk_status status = in_range(to, to_offset, bytes);
  if (status == TK_OK) status = in_range(from, from_offset, bytes);
  if (status == TK_OK) status = on_stream(to->cx, s);
  if (status != TK_OK || bytes == 0) return status;
  uint64_t a = to->address + to_offset, b = from->address + from_offset;
  if (a < b + bytes && b < a + bytes) return tk__fail(to->cx, TK_INVALID_ARGUMENT, "source and destination overlap");
  return to->cx->ops->copy(to->cx, a, b, bytes, s);
}

tk_status tk_fill_async(tk_buffer *to, size_t offset, uint8_t value, size_t bytes, tk_stream *s) {
  if (!to) return TK_INVALID_ARGUMENT;
  tk_status status = in_range(to, offset, bytes);
  if (status == TK_OK) status = on_stream(to->cx, s);
  if (status != TK_OK || bytes == 0) return status;
  return to->cx->ops->fill(to->cx, to->address + offset, value, bytes, s);
}

tk_status tk_upload(tk_buffer *to, size_t offset, const void *from, size_t bytes) {
  tk_status s = tk_upload_async(to, offset, from, bytes, NULL);
  return s == TK_OK ? waited(to->cx, s) : s;
}

tk_status tk_download(const tk_buffer *from, size_t offset, void *to, size_t bytes) {
  tk_status s = tk_download_async(from, offset, to, bytes, NULL);
  return s == TK_OK ? waited(from->cx, s) : s;
}

tk_status tk_copy(tk_buffer *to, size_t to_offset, const tk_buffer *from, size_t from_offset, size_t bytes) {
  tk_status s = tk_copy_async(to, to_offset, from, from_offset, bytes, NULL);
  return s == TK_OK ? waited(to->cx, s) : s;
}

tk_status tk_fill(tk_buffer *to, size_t offset, uint8_t value, size_t bytes) {
  tk_status s = tk_fill_async(to, offset, value, bytes, NULL);
  return s == TK_OK ? waited(to->cx, s) : s;
}

/* ---- pinned host memory ------------------------------------------------------------------------------------------ */

tk_status tk_host_alloc(tk_context *cx, size_t bytes, void **out) {
  if (out) *out = NULL;
  if (!cx || !cx->ops || !out) return TK_INVALID_ARGUMENT;
  tk_status s = cx->ops->host_alloc(cx, bytes ? bytes : 1, out);
  if (s == TK_OK) atomic_fetch_add(&cx->n_pinned, 1);
  return s;
}

void tk_host_free(tk_context *cx, void *memory) {
  if (!cx || !cx->ops || !memory) return;
  cx->ops->host_release(cx, memory);
  atomic_fetch_sub(&cx->n_pinned, 1);
}
