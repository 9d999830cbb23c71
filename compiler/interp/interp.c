/* Running a grid: arguments, the order of programs, workers. */
#include "compiler/interp/machine.h"

enum { DEFAULT_STEPS = 50 * 1000 * 1000, DEFAULT_FINDINGS = 20, MAX_THREADS = 256 };

/* ---- setting up ---- */

static bool grid_fits(const int64_t grid[3], int64_t *n) {
  *n = 1;
  for (int i = 0; i < 3; i++) {
    if (grid[i] < 0) return false;
    if (grid[i] > 0 && *n > INT32_MAX / grid[i]) return false;
    *n *= grid[i];
  }
  return true;
}

static int32_t buffer_of_argument(const machine *m, uint64_t address) {
  int32_t at_end = BUFFER_UNKNOWN;
  for (int i = 0; i < m->n_buffers; i++) {
    uint64_t base = (uint64_t)(uintptr_t)m->buffers[i].data;
    if (address == base || (address > base && address - base < m->buffers[i].bytes)) return i;
    if (address > base && address - base == m->buffers[i].bytes) at_end = i;
  }
  return at_end;
}

static bool arguments_fit(machine *m, int n_args) {
  const tir_fn *fn = m->fn;
  if (n_args != fn->n_params) {
    diag_add(m->sink, fn->at, &D_interp_arguments, fn->name, fn->n_params, n_args);
    return false;
  }
  int32_t *buffer = ARENA_ARRAY(m->a, int32_t, n_args);
  for (int i = 0; i < n_args; i++) {
    const tir_param *p = &fn->params[i];
    bool ptr = tir_is_ptr(p->value->type);
    buffer[i] = ptr ? buffer_of_argument(m, m->args[i]) : BUFFER_UNKNOWN;
    if (!ptr && dt_is_float(p->value->type->dtype)) continue;
    int64_t v = ptr ? (int64_t)m->args[i] : tir_scalar_as_int(p->value->type->dtype, (tir_scalar){m->args[i]});
    bool divides = v % p->divisibility == 0;
    if (!divides) diag_add(m->sink, p->at, &D_interp_divisible, p->name, (long long)v, p->divisibility);
    if (p->positive && v < 1) diag_add(m->sink, p->at, &D_interp_positive, p->name, (long long)v);
    if (!divides || (p->positive && v < 1)) return false;
  }
  m->arg_buffer = buffer;
  return true;
}

static uint64_t next_random(uint64_t *state) { /* SplitMix64 (Steele, Lea, Flood) */
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static const uint32_t *random_order(arena *a, int64_t n, uint64_t seed) {
  uint32_t *order = ARENA_ARRAY(a, uint32_t, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = (int64_t)(next_random(&seed) % (uint64_t)(i + 1));
    order[i] = order[k];
    order[k] = (uint32_t)i;
  }
  return order;
}

/* ---- programs ---- */

static void run_program(worker *w, int64_t program) {
  machine *m = w->m;
  const tir_fn *fn = m->fn;
  w->program = program;
  w->pid[0] = program % m->grid[0];
  w->pid[1] = program / m->grid[0] % m->grid[1];
  w->pid[2] = program / m->grid[0] / m->grid[1];
  w->steps = 0;
  async_begin_program(w);
  machine_lock(w);
  race_begin_program(w);
  machine_unlock(w);
  for (int i = 0; i < fn->n_params; i++) {
    const tir_value *v = fn->params[i].value;
    int bytes = elem_bytes(v->type);
    memcpy(val_new(w, val_of(w, v), 1, bytes), &m->args[i], (size_t)bytes);
    val_of(w, v)->from_all = m->arg_buffer[i];
  }
  const plan_op *end = exec_region(w, m->plan->body);
  if (end) release_dead(w, end);
}

static void run_programs(worker *w) {
  machine *m = w->m;
  while (!atomic_load(&m->stop) && !w->stopped) {
    int64_t k = atomic_fetch_add(&m->next, 1);
    if (k >= m->n_programs) break;
    run_program(w, m->order ? (int64_t)m->order[k] : k);
  }
}

/* A panic on a worker's thread is kept for the caller's; the worker's memory is freed, and the lock released, on both
   ways out. */
static void *worker_thread(void *user) {
  machine *m = user;
  base_guard g;
  arena *volatile a = NULL;
  worker *volatile w = NULL;
  base_guard_push(&g);
  if (setjmp(g.jump) == 0) {
    a = arena_new();
    w = ARENA_NEW(a, worker);
    w->m = m;
    w->pool.a = a;
    w->slots = ARENA_ARRAY(a, ival, m->fn->n_values);
    run_programs(w);
  } else {
    atomic_store(&m->stop, true);
    if (w && !w->holds_lock) machine_lock(w);
    snprintf(m->panic, sizeof m->panic, "%s", g.message);
    if (w) machine_unlock(w);
  }
  base_guard_pop(&g);
  arena_free(a);
  return NULL;
}

static void run_threads(machine *m, int n) {
  pthread_t threads[MAX_THREADS];
  int started = 0;
  pthread_mutex_init(&m->lock, NULL);
  while (started < n - 1 && pthread_create(&threads[started], NULL, worker_thread, m) == 0) started++;
  worker_thread(m);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&m->lock);
}

static interp_status run(machine *m, const interp_buffer *buffers, int n_args) {
  const interp_options *o = m->options;
  if (!grid_fits(o->grid, &m->n_programs)) {
    diag_add(m->sink, m->fn->at, &D_interp_grid, (long long)o->grid[0], (long long)o->grid[1], (long long)o->grid[2]);
    return INTERP_REFUSED;
  }
  m->buffers = ARENA_ARRAY(m->a, memory_buffer, m->n_buffers);
  for (int i = 0; i < m->n_buffers; i++)
    m->buffers[i] = (memory_buffer){.name = buffers[i].name, .data = buffers[i].data, .bytes = buffers[i].bytes};
  if (!arguments_fit(m, n_args)) return INTERP_REFUSED;
  m->plan = plan_make(m->fn, m->a);
  m->races = race_log_new(m);
  if (o->order_seed) m->order = random_order(m->a, m->n_programs, o->order_seed);
  int threads = o->threads < 1 ? 1 : o->threads > MAX_THREADS ? MAX_THREADS : o->threads;
  if (threads > m->n_programs) threads = m->n_programs > 0 ? (int)m->n_programs : 1;
  m->threaded = threads > 1;
  run_threads(m, threads);
  if (m->panic[0]) base_panic("%s", m->panic);
  findings_close(m);
  return m->n_errors ? INTERP_FINDINGS : INTERP_OK;
}

interp_status interp_run(const tir_fn *fn, const interp_buffer *buffers, int n_buffers, const uint64_t *args,
                         int n_args, const interp_options *options, diag_sink *sink) {
  arena *volatile a = NULL;
  base_guard g;
  volatile interp_status status = INTERP_REFUSED;
  volatile bool sound = false;
  base_guard_push(&g);
  if (setjmp(g.jump) == 0) {
    a = arena_new();
    machine *m = ARENA_NEW(a, machine);
    m->a = a;
    m->fn = fn;
    m->options = options;
    m->sink = sink;
    m->args = args;
    m->n_buffers = n_buffers;
    m->max_steps = options->max_steps ? options->max_steps : DEFAULT_STEPS;
    m->max_findings = options->max_findings ? options->max_findings : DEFAULT_FINDINGS;
    memcpy(m->grid, options->grid, sizeof m->grid);
    status = run(m, buffers, n_args);
    sound = true;
  }
  base_guard_pop(&g);
  arena_free(a);
  if (!sound) base_panic("%s", g.message);
  return status;
}
