/* The syntax tree of one .tk file. Nodes live in the compilation's arena and are not changed after parsing.
 *
 * One node type: a kind, a span, up to four fixed children and one list; `nodes.def` says what they mean for each
 * kind. Constants are already decoded; names are interned in the compilation's strtab, so == compares them. */
#ifndef LANG_AST_H
#define LANG_AST_H

#include "compiler/base/base.h"

/* name = node kind, text = name in --emit ast, then what `kid[0..3]`, `list` and the payload hold ("" = unused). */
typedef enum ast_kind {
#define NODE(name, text, kid0, kid1, kid2, kid3, list, payload) AST_##name,
#include "lang/nodes.def"
#undef NODE
  AST_N_KINDS
} ast_kind;

typedef enum ast_op { /* operators, unary and binary, of the surface */
#define OPERATOR(name, text) AOP_##name,
#include "lang/operators.def"
#undef OPERATOR
                      AOP_N
} ast_op;

#define AST_MAX_HEIGHT 1000

typedef struct ast_node ast_node;
struct ast_node {
  ast_kind kind;
  span at;      /* the whole construct */
  span name_at; /* where `name` stands, for definitions, parameters, keywords and attributes */
  ast_op op;    /* UNARY BINARY COMPARE BOOLOP AUGASSIGN PARAM */
  bool flag;    /* see nodes.def */
  short height; /* of the tree below: at most AST_MAX_HEIGHT, so that walking it may recurse */
  const char *name;
  union {
    double f; /* FLOAT */
    struct {  /* INT: magnitude up to 2^64-1; `big` marks a larger literal (an error on use) */
      uint64_t i;
      bool big;
    };
    struct { /* STRING: decoded bytes, NUL-terminated */
      const char *s;
      size_t s_len;
    };
  } u;
  ast_node *kid[4];
  ast_node **list;
  int n_list;
};

typedef struct ast_file {
  const src_file *source;
  ast_node *module; /* AST_MODULE; never NULL, also after errors */
} ast_file;

/* Parses a file. Reports to `sink` and recovers at statement ends: the tree holds what was understood (AST_ERROR
   nodes elsewhere), and many mistakes give many messages. `names` interns every identifier. Never returns NULL and
   takes any byte sequence. `sink->a` owns the tree. */
ast_file *ast_parse(diag_sink *sink, strtab *names, const src_file *source);

/* Prints the tree, one node a line, indented: the text of --emit ast. */
void ast_print(const ast_file *file, textbuf *out);

const char *ast_kind_name(ast_kind k);
const char *ast_op_text(ast_op op); /* as written in the source: "+", "not", "is not" */

#endif
