#include "tests/unit/poly_text.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static const char *atom_text(arena *a, const tir_value *v) {
  for (int i = 0; i < TIR_MAX_RANK; i++)
    if (v == &affine_axis[i]) return arena_printf(a, "$%d", i);
  return v->name ? v->name : v->def ? tir_ops[v->def->code].name : "?";
}

const char *poly_text(arena *a, const affine_poly *x) {
  const char *terms[AFFINE_TERMS];
  textbuf b;
  text_init(&b, a);
  if (!x->known) return "?";
  for (int i = 0; i < x->n; i++) {
    const char *names[AFFINE_ATOMS];
    const affine_term *t = &x->at[i];
    text_init(&b, a);
    for (int k = 0; k < t->n; k++) names[k] = atom_text(a, t->atom[k]);
    qsort(names, (size_t)t->n, sizeof *names, by_text);
    if (!t->n || (t->coef != 1 && t->coef != -1))
      text_printf(&b, "%+lld%s", (long long)t->coef, t->n ? "*" : "");
    else
      text_char(&b, t->coef < 0 ? '-' : '+');
    for (int k = 0; k < t->n; k++) text_printf(&b, "%s%s", k ? "*" : "", names[k]);
    terms[i] = b.at;
  }
  qsort(terms, (size_t)x->n, sizeof *terms, by_text);
  text_init(&b, a);
  text_str(&b, x->n ? "" : "0");
  for (int i = 0; i < x->n; i++) text_str(&b, terms[i]);
  return b.at;
}
