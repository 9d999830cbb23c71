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

bool argument_add(argument_list *l, const char *text, char *message, size_t size) {
  const char *eq = strchr(text, '=');
  if (!eq || eq == text) {
    snprintf(message, size, "--arg takes NAME=VALUE, not '%s'", text);
    return false;
  }
  char *name = cli_alloc((size_t)(eq - text) + 1);
  memcpy(name, text, (size_t)(eq - text));
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
  l->at[l->n++] = (argument){.name = name, .text = eq + 1, .is_array = array_is_spec(eq + 1)};
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
  a->in_work = false;
  return a->ready;
}

void argument_free(argument_list *l) {
  for (int i = 0; i < l->n; i++) {
    array_free(&l->at[i].host);
    free((char *)l->at[i].name);
  }
  free(l->at);
  *l = (argument_list){0};
}
