/* stream: streams and events, above whichever device. */
#include <stdlib.h>

#include "runtime/internal.h"

static tk_status stream_make(tk_context *cx, tk_stream **out, tk_stream **made) {
  if (out) *out = NULL;
  if (!cx || !cx->ops || !out) return TK_INVALID_ARGUMENT;
  *made = calloc(1, sizeof **made);
  if (!*made) return tk__no_memory(cx);
  (*made)->cx = cx;
  return TK_OK;
}

tk_status tk_stream_new(tk_context *cx, tk_stream **out) {
  tk_stream *s;
  tk_status status = stream_make(cx, out, &s);
  if (status != TK_OK) return status;
  status = cx->ops->stream_new(cx, &s->handle);
  if (status != TK_OK) {
    free(s);
    return status;
  }
  atomic_fetch_add(&cx->n_streams, 1);
  *out = s;
  return TK_OK;
}

tk_status tk_stream_adopt(tk_context *cx, void *cuda_stream, tk_stream **out) {
  tk_stream *s;
  tk_status status = stream_make(cx, out, &s);
  if (status != TK_OK) return status;
  s->handle = cuda_stream;
  s->adopted = true;
  atomic_fetch_add(&cx->n_streams, 1);
  *out = s;
  return TK_OK;
}

void tk_stream_free(tk_stream *s) {
  if (!s) return;
  if (!s->adopted) s->cx->ops->stream_release(s->cx, s->handle);
  atomic_fetch_sub(&s->cx->n_streams, 1);
  free(s);
}

static tk_status same_context(tk_context *cx, const tk_context *other, const char *what) {
  if (cx != other) return tk__fail(cx, TK_WRONG_CONTEXT, "the %s was made by another one", what);
  return TK_OK;
}

tk_status tk_stream_synchronize(tk_context *cx, tk_stream *s) {
  if (!cx || !cx->ops) return TK_INVALID_ARGUMENT;
  tk_status status = same_context(cx, s ? s->cx : cx, "stream");
  return status == TK_OK ? cx->ops->stream_synchronize(cx, s) : status;
}

tk_status tk_stream_wait(tk_context *cx, tk_stream *s, const tk_event *e) {
  if (!cx || !cx->ops || !e) return TK_INVALID_ARGUMENT;
  tk_status status = same_context(cx, s ? s->cx : cx, "stream");
  if (status == TK_OK) status = same_context(cx, e->cx, "event");
  if (status != TK_OK) return status;
  if (!e->recorded) return tk__fail(cx, TK_INVALID_ARGUMENT, "the event was never recorded");
  return cx->ops->stream_wait(cx, s, e);
}

tk_status tk_event_new(tk_context *cx, tk_event **out) {
  if (out) *out = NULL;
  if (!cx || !cx->ops || !out) return TK_INVALID_ARGUMENT;
  tk_event *e = calloc(1, sizeof *e);
  if (!e) return tk__no_memory(cx);
  e->cx = cx;
  tk_status status = cx->ops->event_new(cx, &e->handle);
  if (status != TK_OK) {
    free(e);
    return status;
  }
  atomic_fetch_add(&cx->n_events, 1);
  *out = e;
  return TK_OK;
}

void tk_event_free(tk_event *e) {
  if (!e) return;
  e->cx->ops->event_release(e->cx, e->handle);
  atomic_fetch_sub(&e->cx->n_events, 1);
  free(e);
}

tk_status tk_event_record(tk_event *e, tk_stream *s) {
  if (!e) return TK_INVALID_ARGUMENT;
  tk_status status = same_context(e->cx, s ? s->cx : e->cx, "stream");
  if (status == TK_OK) status = e->cx->ops->event_record(e, s);
  if (status == TK_OK) e->recorded = true;
  return status;
}

tk_status tk_event_synchronize(tk_event *e) {
  if (!e) return TK_INVALID_ARGUMENT;
  if (!e->recorded) return tk__fail(e->cx, TK_INVALID_ARGUMENT, "the event was never recorded");
  return e->cx->ops->event_synchronize(e);
}

tk_status tk_event_elapsed(const tk_event *begin, const tk_event *end, double *milliseconds) {
  if (milliseconds) *milliseconds = 0;
  if (!begin || !end || !milliseconds) return TK_INVALID_ARGUMENT;
  tk_status status = same_context(begin->cx, end->cx, "event");
  if (status != TK_OK) return status;
  if (!begin->recorded || !end->recorded)
    return tk__fail(begin->cx, TK_INVALID_ARGUMENT, "an event was never recorded");
  return begin->cx->ops->event_elapsed(begin, end, milliseconds);
}
