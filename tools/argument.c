/* argument: see argument.h. Evaluation is on demand, because a shape may use a scalar that comes later and the other
 * way round; an argument that is asked for while it is being evaluated depends on itself. */
#include "tools/argument.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli.h"

argument *argument_named(const argument_list *l, const char *name) {
  for (int i = 0; i < l->n; i++)
    if (!strcmp(l->at[i].name, name)) return &l->at[i];
  return NULL;
}

static char *copy(const char *text, size_t n) {
  char *to = cli_alloc(n + 1);
  memcpy(to, text, n);
  return to;
}

static const char nan_suffix[] = ":nan";

/* The length of an array's text without what is said of a descriptor. */
static size_t without_nan(const char *text) {
  size_t n = strlen(text), suffix = sizeof nan_suffix - 1;
  return n > suffix && strcmp(text + n - suffix, nan_suffix) == 0 ? n - suffix : n;
}

/* Where "/[64, 32]" begins, at the end of the first n bytes of the text of an array; n if there is none. */
static size_t block_at(const char *text, size_t n) {
  if (n == 0 || text[n - 1] != ']') return n;
  for (size_t i = n; i-- > 0;)
    if (text[i] == '/' && text[i + 1] == '[') return i;
  return n;
}

bool argument_add(argument_list *l, const char *text, char *message, size_t size) {
  const char *eq = strchr(text, '=');
  if (!eq || eq == text) {
    snprintf(message, size, "--arg takes NAME=VALUE, not '%s'", text);
    return false;
  }
  char *name = copy(text, (size_t)(eq - text));
  if (argument_named(l, name)) {
    snprintf(message, size, "--arg %s is given twice", name);
    free(name);
    return false;
  }
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 16;
    argument *at = cli_alloc(sizeof *at * (size_t)cap);
    if (l->n) memcpy(at, l->at, sizeof *at * (size_t)l->n);
    free(l->at);
    l->at = at;
    l->cap = cap;
  }
  bool is_array = array_is_spec(eq + 1);
  argument a = {.name = name, .is_array = is_array};
  size_t all = strlen(eq + 1), end = is_array ? without_nan(eq + 1) : all, n = is_array ? block_at(eq + 1, end) : all;
  if (n < end) {
    a.block = copy(eq + 2 + n, end - n - 1);
    a.pads_nan = end < all;
  } else {
    n = all;
  }
  a.text = copy(eq + 1, n);
  l->at[l->n++] = a;
  return true;
}

bool argument_lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value) {
  argument_list *l = user;
  argument *a = argument_named(l, name);
  char message[256];
  if (!a || a->in_work || !argument_evaluate(l, a, message, sizeof message)) return false;
  if (!a->is_array) {
    if (member || a->scalar.kind != TK_ARG_INT) return false;
    *value = a->scalar.v.i;
    return true;
  }
  if (!member) return false;
  if (!strcmp(member, "numel")) {
    *value = (int64_t)a->host.numel;
    return true;
  }
  if (index < 0) index += a->host.rank;
  if (index < 0 || index >= a->host.rank) return false;
  *value = 1;
  if (!strcmp(member, "shape"))
    *value = a->host.shape[index];
  else
    for (int64_t i = index + 1; i < a->host.rank; i++) *value *= a->host.shape[i];
  return true;
}

static bool make_scalar(argument_list *l, argument *a, char *message, size_t size) {
  if (!strcmp(a->text, "True") || !strcmp(a->text, "False")) {
    a->scalar = tk_bool(a->text[0] == 'T');
    return true;
  }
  char *end;
  double f = strtod(a->text, &end);
  if (end != a->text && !*end && strpbrk(a->text, ".eEnN") && !strpbrk(a->text, "xX")) {
    a->scalar = tk_float(f);
    return true;
  }
  int64_t v = 0;
  bool ok = tk_evaluate(a->text, argument_lookup, l, &v, message, size);
  a->scalar = tk_int(v);
  return ok;
}

bool argument_evaluate(argument_list *l, argument *a, char *message, size_t size) {
  if (a->ready) return true;
  const array_names names = {argument_lookup, l};
  uint64_t seed = l->seed * 1000003 + (uint64_t)(a - l->at);
  a->in_work = true;
  a->ready =
      a->is_array ? array_make(a->text, seed, &names, &a->host, message, size) : make_scalar(l, a, message, size);
  a->in_work = false; /* its block may depend on its shape */
  if (a->ready && a->block)
    a->ready = array_extents(a->block, &names, TK_MAX_DESCRIPTOR_RANK, a->block_shape, &a->block_rank, message, size);
  if (a->ready && a->block && a->block_rank != a->host.rank) {
    snprintf(message, size, "the block %s has %d extents, the array %d", a->block, a->block_rank, a->host.rank);
    a->ready = false;
  }
  return a->ready;
}

tk_arg argument_of_buffer(const argument *a, const tk_buffer *b, tk_descriptor *d) {
  if (!a->block) return tk_buf(b);
  *d = (tk_descriptor){.base = tk_buf(b), .dtype = a->host.dtype, .rank = a->host.rank, .pads_nan = a->pads_nan};
  int64_t stride = 1;
  for (int i = d->rank - 1; i >= 0; i--) {
    d->shape[i] = a->host.shape[i];
    d->strides[i] = stride;
    d->block[i] = a->block_shape[i];
    stride *= d->shape[i];
  }
  return tk_desc(d);
}

void argument_free(argument_list *l) {
  for (int i = 0; i < l->n; i++) {
    array_free(&l->at[i].host);
    free(l->at[i].name);
    free(l->at[i].text);
    free(l->at[i].block);
  }
  free(l->at);
  *l = (argument_list){0};
}
