/* bench: how long a launch takes on its device.
 *
 * The method is Triton's do_bench, so that numbers can be set side by side: run once, estimate from five runs, warm up
 * for a given time, then measure single runs for a given time. Before each measured run a buffer larger than any L2
 * cache is cleared, outside of the two events around the run, so that the run finds its inputs in DRAM; the clearing
 * also keeps the device busy while the host queues the run, which hides the cost of launching. Quantiles interpolate
 * linearly between the sorted times.
 *
 * On the CPU nothing is cleared: the interpreter is no measure of memory. */
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

enum { ESTIMATE_RUNS = 5, DEFAULT_FLUSH = 256 << 20 };

typedef struct bench {
  tk_context *cx;
  tk_stream *stream;
  tk_bench_fn fn;
  void *user;
  tk_buffer *flush; /* NULL = none */
} bench;

/* One run, with an event on each side if there are events. */
static tk_status run_once(bench *b, tk_event *begin, tk_event *end) {
  tk_status s = TK_OK;
  if (b->flush) s = tk_fill_async(b->flush, 0, 0, b->flush->bytes, b->stream);
  if (s == TK_OK && begin) s = tk_event_record(begin, b->stream);
  if (s == TK_OK) s = b->fn(b->user, b->stream);
  if (s == TK_OK && end) s = tk_event_record(end, b->stream);
  return s;
}

static tk_status run_many(bench *b, int n) {
  tk_status s = TK_OK;
  for (int i = 0; i < n && s == TK_OK; i++) s = run_once(b, NULL, NULL);
  return s;
}

/* Milliseconds of one run, flush included. */
static tk_status estimate(bench *b, tk_event *begin, tk_event *end, double *ms) {
  tk_status s = run_once(b, NULL, NULL);
  if (s == TK_OK) s = tk_stream_synchronize(b->cx, b->stream);
  if (s == TK_OK) s = tk_event_record(begin, b->stream);
  if (s == TK_OK) s = run_many(b, ESTIMATE_RUNS);
  if (s == TK_OK) s = tk_event_record(end, b->stream);
  if (s == TK_OK) s = tk_event_synchronize(end);
  if (s == TK_OK) s = tk_event_elapsed(begin, end, ms);
  *ms /= ESTIMATE_RUNS;
  return s;
}

static int runs_in(double ms, double one_ms, int least, int most) {
  double n = one_ms > 0 ? ms / one_ms : most;
  return n < least ? least : n > most ? most : (int)n;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q) {
  double at = q * (n - 1);
  int low = (int)at;
  return low + 1 < n ? sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
}

static void summarize(double *ms, int n, tk_bench_result *out) {
  double sum = 0;
  qsort(ms, (size_t)n, sizeof *ms, ascending);
  for (int i = 0; i < n; i++) sum += ms[i];
  *out = (tk_bench_result){.runs = n,
                           .median_ms = quantile(ms, n, 0.5),
                           .p20_ms = quantile(ms, n, 0.2),
                           .p80_ms = quantile(ms, n, 0.8),
                           .mean_ms = sum / n,
                           .min_ms = ms[0],
                           .max_ms = ms[n - 1]};
}

/* Queues all runs, waits once, and reads the 2 * n events. */
static tk_status measure(bench *b, tk_event **events, int n, double *ms) {
  tk_status s = TK_OK;
  for (int i = 0; i < n && s == TK_OK; i++) s = run_once(b, events[2 * i], events[2 * i + 1]);
  if (s == TK_OK) s = tk_stream_synchronize(b->cx, b->stream);
  for (int i = 0; i < n && s == TK_OK; i++) s = tk_event_elapsed(events[2 * i], events[2 * i + 1], &ms[i]);
  return s;
}

static tk_status measure_all(bench *b, int n, tk_bench_result *out) {
  size_t n_events = 2 * (size_t)n;
  tk_event **events = calloc(n_events, sizeof *events);
  double *ms = calloc((size_t)n, sizeof *ms);
  tk_status s = events && ms ? TK_OK : tk__no_memory(b->cx);
  for (size_t i = 0; i < n_events && s == TK_OK; i++) s = tk_event_new(b->cx, &events[i]);
  if (s == TK_OK) s = measure(b, events, n, ms);
  if (s == TK_OK) summarize(ms, n, out);
  for (size_t i = 0; events && i < n_events; i++) tk_event_free(events[i]);
  free(events);
  free(ms);
  return s;
}

tk_status tk_bench(tk_context *cx, tk_stream *stream, tk_bench_fn fn, void *user, const tk_bench_options *options,
                   tk_bench_result *out) {
  static const tk_bench_options defaults = {0};
  const tk_bench_options *o = options ? options : &defaults;
  if (!cx || !cx->ops || !fn || !out) return TK_INVALID_ARGUMENT;
  bench b = {.cx = cx, .stream = stream, .fn = fn, .user = user};
  int least = o->min_runs > 0 ? o->min_runs : 5, most = o->max_runs > 0 ? o->max_runs : 10000;
  double warmup = o->warmup_ms > 0 ? o->warmup_ms : 25, length = o->measure_ms > 0 ? o->measure_ms : 100, one = 0;
  tk_event *begin = NULL, *end = NULL;
  *out = (tk_bench_result){0};
  if (least > most) return tk__fail(cx, TK_INVALID_ARGUMENT, "at least %d runs and at most %d", least, most);

  tk_status s = TK_OK;
  if (!o->no_flush && !cx->ops->interprets)
    s = tk_buffer_new(cx, o->flush_bytes ? o->flush_bytes : DEFAULT_FLUSH, &b.flush);
  if (s == TK_OK) s = tk_event_new(cx, &begin);
  if (s == TK_OK) s = tk_event_new(cx, &end);
  if (s == TK_OK) s = estimate(&b, begin, end, &one);
  if (s == TK_OK) s = run_many(&b, runs_in(warmup, one, 1, most));
  if (s == TK_OK) s = measure_all(&b, runs_in(length, one, least, most), out);
  tk_event_free(begin);
  tk_event_free(end);
  tk_buffer_free(b.flush);
  return s;
}

static tk_status run_prepared(void *user, tk_stream *s) {
  (void)s;
  return tk_prepared_run(user);
}

tk_status tk_bench_prepared(tk_prepared *p, const tk_bench_options *options, tk_bench_result *out) {
  if (!p || !out) return TK_INVALID_ARGUMENT;
  return tk_bench(tk__prepared_context(p), tk__prepared_stream(p), run_prepared, p, options, out);
}
