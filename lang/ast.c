/* Printing the syntax tree: one node a line, indented by two columns a level.
 *
 *     role: kind payload flag @line:column
 *
 * Roles come from the column names of nodes.def (up to a '?' or a capital word); members of a node's list have none.
 * In a chained comparison the middle operand belongs to two nodes; it is printed once, since chains inside chains would
 * otherwise double the text at every level. */
#include "lang/ast.h"

#include <locale.h>
#include <string.h>

typedef struct node_row {
  const char *text;
  const char *role[4];
} node_row;

static const node_row rows[AST_N_KINDS] = {
#define NODE(name, text, kid0, kid1, kid2, kid3, list, payload) {text, {kid0, kid1, kid2, kid3}},
#include "lang/nodes.def"
#undef NODE
};

static const char *const op_text[AOP_N] = {
#define OPERATOR(name, text) text,
#include "lang/operators.def"
#undef OPERATOR
};

const char *ast_kind_name(ast_kind k) { return rows[k].text; }

const char *ast_op_text(ast_op op) { return op_text[op]; }

static size_t role_length(const char *role) {
  for (size_t i = 0; role[i]; i++)
    if (role[i] == '?' || (role[i] == ' ' && role[i + 1] >= 'A' && role[i + 1] <= 'Z')) return i;
  return strlen(role);
}

/* Text stays UTF-8; of a bytes literal everything but ASCII is escaped. */
static void print_string(textbuf *out, const char *s, size_t n, bool bytes) {
  text_char(out, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '\n')
      text_str(out, "\\n");
    else if (c == '"' || c == '\\')
      text_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f || (bytes && c >= 0x80))
      text_printf(out, "\\x%02x", (unsigned)c);
    else
      text_char(out, (char)c);
  }
  text_char(out, '"');
}

static void print_payload(const ast_node *n, textbuf *out) {
  switch (n->kind) {
    case AST_INT:
      if (n->u.big)
        text_str(out, " (more than 64 bits)");
      else
        text_printf(out, " %llu", (unsigned long long)n->u.i);
      break;
    case AST_FLOAT:
    case AST_IMAG: text_printf(out, " %.17g", n->u.f); break;
    case AST_STRING:
      text_str(out, n->flag ? " b" : " ");
      print_string(out, n->u.s, n->u.s_len, n->flag);
      return;
    default: break;
  }
  if (n->op != AOP_NOP) text_printf(out, " %s", op_text[n->op]);
  if (n->name) text_printf(out, " %s", n->name);
  if (n->kind == AST_IMPORT_NAME && n->u.s) text_printf(out, " as %s", n->u.s);
  if (n->flag) text_str(out, " flag");
}

/* `first` is the first kid to print: 1 for the comparison whose left operand has been printed. */
static void print(const src_file *f, const ast_node *n, const char *role, int first, int depth, textbuf *out) {
  src_loc at;
  src_locate_in(f, n->at, &at);
  text_printf(out, "%*s", depth * 2, "");
  if (role) text_printf(out, "%.*s: ", (int)role_length(role), role);
  text_str(out, rows[n->kind].text);
  print_payload(n, out);
  text_printf(out, " @%d:%d\n", at.line, at.col);

  bool chain = n->kind == AST_BOOLOP && n->flag;
  for (int i = first; i < 4; i++)
    if (n->kid[i]) print(f, n->kid[i], rows[n->kind].role[i], chain && i == 1, depth + 1, out);
  for (int i = 0; i < n->n_list; i++) print(f, n->list[i], NULL, 0, depth + 1, out);
}

/* Numbers are printed with a decimal point whatever the caller's locale says. */
void ast_print(const ast_file *file, textbuf *out) {
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c_locale == (locale_t)0) base_panic("out of memory (the C locale)");
  locale_t before = uselocale(c_locale);
  print(file->source, file->module, NULL, 0, 0, out);
  uselocale(before);
  freelocale(c_locale);
}
