/* Descriptor parameters: `tensordesc<fp16[128, 64]>` of a signature, `tensordesc[f16[BM, BK]]` of a source.
 *
 * A binding holds such a type as the tile of one access; no other parameter is a tile. What an annotation says may
 * depend on constexpr parameters, so it is evaluated when all others are bound. In the kernel the parameter is the
 * value that make_tensor_descriptor would have made (block_parameter in builtin_block.c). */
#include "lang/sema.h"

#include <string.h>

static const char word[] = "tensordesc";
enum { WORD = sizeof word - 1 };

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void skip_blanks(const char **p, const char *end) {
  while (*p < end && is_blank(**p)) ++*p;
}

static bool take(const char **p, const char *end, char c) {
  skip_blanks(p, end);
  if (*p == end || **p != c) return false;
  ++*p;
  return true;
}

const char *descriptor_text(arena *a, const lang_binding *b) {
  textbuf t;
  text_init(&t, a);
  text_printf(&t, "%s<%s[", word, tir_type_text(a, b->type->elem));
  for (int i = 0; i < b->type->rank; i++) text_printf(&t, "%s%lld", i ? ", " : "", (long long)b->type->shape[i]);
  text_str(&t, "]>");
  if (b->divisibility > 1) text_printf(&t, ":%d", b->divisibility);
  if (b->pads_nan) text_str(&t, ":nan");
  return t.at;
}

/* Binds, if hardware's descriptors have such blocks; false: reported. */
static bool bind(sema *s, span at, const tir_type *elem, int rank, const int64_t *shape, lang_binding *out) {
  if (!sema_check_shape(s, at, rank, shape)) return false;
  if (out->pads_nan && !dt_is_float(elem->dtype)) {
    sema_fail(s, at, &D_block_nan, tir_type_text(s->a, elem));
    return false;
  }
  out->bound = LANG_ARGUMENT;
  out->type = tir_tile_type(s->cx, elem, rank, shape, NULL);
  return block_fits_descriptor(s, at, out->type);
}

/* ---- signatures -------------------------------------------------------------------------------------------------- */

bool descriptor_is_text(const char *p, size_t n) {
  const char *end = p + n, *q = p + WORD;
  return n > WORD && memcmp(p, word, WORD) == 0 && take(&q, end, '<');
}

static bool take_number(const char **p, const char *end, int64_t *out) {
  int digits = 0;
  skip_blanks(p, end);
  for (*out = 0; *p < end && **p >= '0' && **p <= '9' && digits < 10; ++*p, digits++) *out = 10 * *out + (**p - '0');
  return digits > 0;
}

/* What stands behind colons: 16, nan. */
static bool read_options(const char **p, const char *end, lang_binding *out) {
  int64_t n;
  while (take(p, end, ':')) {
    skip_blanks(p, end);
    if (end - *p >= 3 && memcmp(*p, "nan", 3) == 0) {
      *p += 3;
      out->pads_nan = true;
    } else if (take_number(p, end, &n) && sema_is_divisibility((uint64_t)n)) {
      out->divisibility = (int)n;
    } else {
      return false;
    }
  }
  return true;
}

/* ELEMENT[EXTENT, ..]> and options; false if it is written in another way. */
static bool read_text(tir_cx *cx, const char *p, const char *end, const tir_type **elem, int *rank, int64_t *shape,
                      lang_binding *out) {
  const char *bracket = memchr(p, '[', (size_t)(end - p));
  *elem = bracket ? lang_type_named(cx, p, (size_t)(bracket - p)) : NULL;
  if (!*elem || (*elem)->kind != TY_SCALAR) return false;
  p = bracket + 1;
  for (*rank = 0; *rank < TIR_MAX_RANK;) {
    if (!take_number(&p, end, &shape[(*rank)++])) return false;
    if (!take(&p, end, ',')) break;
  }
  if (!take(&p, end, ']') || !take(&p, end, '>') || !read_options(&p, end, out)) return false;
  skip_blanks(&p, end);
  return p == end;
}

bool descriptor_of_text(lang_unit *u, span at, const char *p, size_t n, lang_binding *out) {
  const tir_type *elem;
  int rank;
  int64_t shape[TIR_MAX_RANK];
  sema *s = sema_new(u, u->main, u->sink);
  const char *q = p + WORD;
  *out = (lang_binding){.divisibility = 1};
  if (descriptor_is_text(p, n) && take(&q, p + n, '<') && read_text(u->cx, q, p + n, &elem, &rank, shape, out))
    return bind(s, at, elem, rank, shape, out);
  sema_fail(s, at, &D_descriptor_type);
  return false;
}

bool descriptor_is_word(const char *p, size_t n) {
  const char *end = p + n, *q = p + WORD;
  if (n < WORD || memcmp(p, word, WORD) != 0) return false;
  skip_blanks(&q, end);
  return q == end || *q == ':';
}

bool descriptor_of_word(lang_unit *u, span at, const char *p, size_t n, lang_binding *out) {
  const char *q = p + WORD, *end = p + n;
  *out = (lang_binding){.bound = LANG_UNBOUND, .divisibility = 1};
  bool ok = read_options(&q, end, out) && !out->pads_nan;
  skip_blanks(&q, end);
  if (!ok || q < end) diag_add(u->sink, at, &D_descriptor_word);
  return ok && q == end;
}

/* ---- annotations ------------------------------------------------------------------------------------------------- */

bool descriptor_is_annotation(const ast_node *e) {
  if (e->kind == AST_STRING) return descriptor_is_text(e->u.s, e->u.s_len);
  return e->kind == AST_SUBSCRIPT && e->kid[0]->kind == AST_NAME && strcmp(e->kid[0]->name, word) == 0;
}

/* A name in the annotation that is an argument of launches; NULL if there is none. */
static const ast_node *argument_in(const ast_node *n, const lang_kernel *k, const lang_binding *b) {
  const ast_node *found = NULL;
  if (!n) return NULL;
  int i = n->kind == AST_NAME ? lang_param_index(k, n->name) : -1;
  if (i >= 0 && (b[i].bound == LANG_ARGUMENT || k->params[i].descriptor)) return n;
  for (i = 0; i < 4 && !found; i++) found = argument_in(n->kid[i], k, b);
  for (i = 0; i < n->n_list && !found; i++) found = argument_in(n->list[i], k, b);
  return found;
}

/* Evaluates a part of the annotation; NULL, reported unless it touches what was reported already. */
static lang_value *part(sema *s, const ast_node *e) {
  lang_value *v = sema_eval(s, e);
  return sema_is_poison(v) ? NULL : v;
}

static bool evaluate(sema *s, const ast_node *e, lang_binding *out) {
  const ast_node *block = e->n_list ? e->list[0] : NULL, *padding = e->n_list == 2 ? e->list[1] : NULL;
  out->pads_nan = padding && padding->kind == AST_STRING && strcmp(padding->u.s, "nan") == 0;
  if (!block || block->kind != AST_SUBSCRIPT || block->n_list < 1 || e->n_list > 2 || (padding && !out->pads_nan)) {
    sema_fail(s, e->at, &D_descriptor_type);
    return false;
  }
  if (block->n_list > TIR_MAX_RANK) {
    sema_fail(s, block->at, &D_descriptor_rank, block->n_list);
    return false;
  }
  lang_value *elem = part(s, block->kid[0]);
  if (!elem) return false;
  if (elem->kind != LANG_TYPE || elem->u.type->kind != TY_SCALAR) {
    sema_fail(s, block->kid[0]->at, &D_descriptor_elem, value_describe(s->a, elem));
    return false;
  }
  int64_t shape[TIR_MAX_RANK];
  for (int i = 0; i < block->n_list; i++) {
    lang_value *n = part(s, block->list[i]);
    if (!n) return false;
    if (!lang_value_as_int(n, &shape[i])) {
      sema_fail(s, block->list[i]->at, &D_shape_not_constexpr, i, value_describe(s->a, n));
      return false;
    }
  }
  return bind(s, block->at, elem->u.type, block->n_list, shape, out);
}

bool descriptor_of_annotation(lang_unit *u, const lang_kernel *k, const lang_param *of, const lang_binding *b,
                              lang_binding *out) {
  const ast_node *e = of->descriptor;
  *out = (lang_binding){.divisibility = of->divisibility ? of->divisibility : 1};
  if (e->kind == AST_STRING) {
    if (!descriptor_of_text(u, e->at, e->u.s, e->u.s_len, out)) return false;
    if (of->divisibility) out->divisibility = of->divisibility;
    return true;
  }
  sema *s = sema_new(u, u->main, u->sink);
  const ast_node *argument = argument_in(e, k, b);
  if (argument) {
    sema_fail(s, argument->at, &D_descriptor_argument, argument->name);
    return false;
  }
  for (int i = 0; i < k->n_params; i++)
    sema_local_set(s, k->params[i].name, k->params[i].at, b[i].bound == LANG_CONSTANT ? b[i].value : u->poison);
  return evaluate(s, e, out);
}
