/* The text form of tile IR: printing.
 *
 *   kernel @add(%x: *f32 {divisible = 16}, %n: i32) num_warps(4) num_stages(3) stage(plain) {
 *     %2 = program_id {axis = 0} : i32
 *     %s.5 = for %3, %n, %4, %init {num_stages = 2} : f32[128] (%i.6: i32, %s.7: f32[128]) {
 *       ..
 *       yield %9
 *     }
 *     store %p.8, %s.5, %m.9
 *     return
 *   }
 *
 * Every op: results `=` name operands `{attributes}` `: result types` regions. A region is its arguments in parentheses
 * (left out if there are none) and its ops in braces; the second region of an op stands behind `else`. A parameter is
 * `%name`, another value `%number`, or `%name.number` if it has a name. Numbers count values in program order whatever
 * their ids are, so that a text never depends on what was built and removed before. A function that the verifier would
 * reject prints as well. */
#include <math.h>
#include <string.h>

#include "compiler/ir/internal.h"

const char *const tir_stage_names[TIR_N_STAGES] = {"plain", "coalesced", "laid_out", "staged", "placed"};

typedef struct printer {
  const tir_fn *fn;
  textbuf *out;
  uint32_t *number; /* by value id; 0 = not defined in this function, else number + 1 */
  uint32_t n_ids;
  tir_after_line *after;
  void *user;
} printer;

bool tir_is_ident(const char *s) {
  if (!s || !tir_is_ident_start(*s)) return false;
  while (tir_is_ident_char(*s)) s++;
  return *s == '\0';
}

static uint32_t largest_id(const tir_region *r, uint32_t max) {
  for (int i = 0; i < r->n_args; i++)
    if (r->args[i]->id > max) max = r->args[i]->id;
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_out; i++)
      if (op->out[i]->id > max) max = op->out[i]->id;
    for (int i = 0; i < op->n_regions; i++) max = largest_id(op->regions[i], max);
  }
  return max;
}

static void number_values(printer *p, const tir_region *r, uint32_t *next) {
  for (int i = 0; i < r->n_args; i++) p->number[r->args[i]->id] = ++*next;
  for (const tir_op *op = r->first; op; op = op->next) {
    for (int i = 0; i < op->n_out; i++) p->number[op->out[i]->id] = ++*next;
    for (int i = 0; i < op->n_regions; i++) number_values(p, op->regions[i], next);
  }
}

static bool is_param(const printer *p, const tir_value *v) {
  return v->region == p->fn->body && v->index < p->fn->n_params && p->fn->params[v->index].value == v;
}

static void print_value(printer *p, const tir_value *v) {
  if (!v) {
    text_str(p->out, "%missing");
  } else if (is_param(p, v) && tir_is_ident(p->fn->params[v->index].name)) {
    text_printf(p->out, "%%%s", p->fn->params[v->index].name);
  } else {
    text_char(p->out, '%');
    if (tir_is_ident(v->name)) text_printf(p->out, "%s.", v->name);
    if (v->id < p->n_ids && p->number[v->id])
      text_printf(p->out, "%u", p->number[v->id] - 1);
    else
      text_printf(p->out, "foreign%u", v->id);
  }
}

static void print_string(textbuf *out, const char *s) {
  text_char(out, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      text_printf(out, "\\%c", c);
    else if (c == '\n')
      text_str(out, "\\n");
    else if (c == '\t')
      text_str(out, "\\t");
    else if (c < 0x20 || c == 0x7f)
      text_printf(out, "\\x%02x", c);
    else
      text_char(out, (char)c);
  }
  text_char(out, '"');
}

void tir_scalar_print(tir_dtype d, tir_scalar s, textbuf *out) {
  if (!dt_is_float(d)) {
    if (d == DT_u64)
      text_printf(out, "%llu", (unsigned long long)s.bits);
    else
      text_printf(out, "%lld", (long long)tir_scalar_as_int(d, s));
    return;
  }
  double v = tir_scalar_as_float(d, s);
  if (isnan(v) || tir_scalar_float(d, v).bits != s.bits) {
    if (tir_scalar_float(d, (double)NAN).bits == s.bits)
      text_str(out, "nan");
    else
      text_printf(out, "0x%llx", (unsigned long long)s.bits);
    return;
  }
  if (isinf(v)) {
    text_str(out, v < 0 ? "-inf" : "inf");
    return;
  }
  char number[40];
  if (v == trunc(v) && fabs(v) < 1e7) {
    tir_decimal_print(v, 0, number, sizeof number);
    text_str(out, number);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    tir_decimal_print(v, digits, number, sizeof number);
    if (tir_scalar_float(d, tir_decimal_read(number)).bits == s.bits) break;
  }
  text_str(out, number);
  if (!strpbrk(number, ".e")) text_str(out, ".0");
}

static void print_attrs(printer *p, const tir_op *op) {
  if (!op->attrs) return;
  const char *between = " {";
  for (const tir_attr *a = op->attrs; a; a = a->next, between = ", ") {
    text_printf(p->out, "%s%s = ", between, tir_attr_table[a->key].name);
    switch (tir_attr_table[a->key].type) {
      case AT_INT: text_printf(p->out, "%lld", (long long)a->i); break;
      case AT_STR: print_string(p->out, a->str); break;
      case AT_INTS:
        text_char(p->out, '[');
        for (int i = 0; i < a->n; i++) text_printf(p->out, "%s%lld", i ? ", " : "", (long long)a->ints[i]);
        text_char(p->out, ']');
        break;
      case AT_SCALAR: tir_scalar_print(op->n_out ? tir_dtype_of(op->out[0]->type) : DT_u64, a->scalar, p->out); break;
    }
  }
  text_char(p->out, '}');
}

static void indent(printer *p, int depth) {
  for (int i = 0; i < depth; i++) text_str(p->out, "  ");
}

static void print_op(printer *p, const tir_op *op, int depth);

static void print_body(printer *p, const tir_region *r, int depth) {
  for (const tir_op *op = r->first; op; op = op->next) print_op(p, op, depth + 1);
  indent(p, depth);
  text_char(p->out, '}');
}

static void print_op(printer *p, const tir_op *op, int depth) {
  indent(p, depth);
  for (int i = 0; i < op->n_out; i++) {
    if (i) text_str(p->out, ", ");
    print_value(p, op->out[i]);
  }
  text_printf(p->out, "%s%s", op->n_out ? " = " : "", tir_ops[op->code].name);
  for (int i = 0; i < op->n_in; i++) {
    text_str(p->out, i ? ", " : " ");
    print_value(p, tir_in(op, i));
  }
  print_attrs(p, op);
  for (int i = 0; i < op->n_out; i++) {
    text_str(p->out, i ? ", " : " : ");
    tir_type_print(op->out[i]->type, true, p->out);
  }
  for (int i = 0; i < op->n_regions; i++) {
    const tir_region *r = op->regions[i];
    if (i) text_str(p->out, " else");
    for (int k = 0; k < r->n_args; k++) {
      text_str(p->out, k ? ", " : " (");
      print_value(p, r->args[k]);
      text_str(p->out, ": ");
      tir_type_print(r->args[k]->type, true, p->out);
    }
    text_str(p->out, r->n_args ? ") {\n" : " {\n");
    if (i == 0 && p->after) p->after(p->user, op, p->out);
    print_body(p, r, depth);
  }
  text_char(p->out, '\n');
  if (op->n_regions == 0 && p->after) p->after(p->user, op, p->out);
}

void tir_print_with(const tir_fn *fn, textbuf *out, tir_after_line *after, void *user) {
  printer p = {.fn = fn, .out = out, .after = after, .user = user};
  p.n_ids = largest_id(fn->body, fn->n_values) + 1;
  p.number = ARENA_ARRAY(out->a, uint32_t, p.n_ids);
  uint32_t next = 0;
  number_values(&p, fn->body, &next);
  text_str(out, "kernel @");
  if (tir_is_ident(fn->name))
    text_str(out, fn->name);
  else
    print_string(out, fn->name);
  text_char(out, '(');
  for (int i = 0; i < fn->n_params; i++) {
    const tir_param *param = &fn->params[i];
    if (i) text_str(out, ", ");
    print_value(&p, param->value);
    text_str(out, ": ");
    tir_type_print(param->value->type, true, out);
    const char *before = " {";
    if (param->divisibility != 1) text_printf(out, "%sdivisible = %d", before, param->divisibility), before = ", ";
    if (param->positive) text_printf(out, "%spositive", before), before = ", ";
    if (param->promised != 1) text_printf(out, "%spromised = %d", before, param->promised), before = ", ";
    if (*before == ',') text_char(out, '}');
  }
  text_printf(out, ") num_warps(%d) num_stages(%d) stage(%s)", fn->num_warps, fn->num_stages,
              tir_stage_names[fn->stage]);
  if (fn->producer_warps) text_printf(out, " producer_warps(%d)", fn->producer_warps);
  if (fn->gang != 1) text_printf(out, " gang(%d)", fn->gang);
  if (fn->shared_bytes) text_printf(out, " shared(%lld)", (long long)fn->shared_bytes);
  if (fn->gang_bytes) text_printf(out, " gang_shared(%lld)", (long long)fn->gang_bytes);
  text_str(out, " {\n");
  if (after) after(user, NULL, out);
  print_body(&p, fn->body, 0);
  text_char(out, '\n');
}

void tir_print(const tir_fn *fn, textbuf *out) { tir_print_with(fn, out, NULL, NULL); }
