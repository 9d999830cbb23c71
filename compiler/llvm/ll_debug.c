/* Line tables, print and assert.
 *
 * Lines: emission kind DebugDirectivesOnly gives `.file` and `.loc` alone. The kinds that the C enum names also put
 * `debug` on `.target`, and ptxas then refuses to optimise.
 *
 * print and assert call what every CUDA driver provides: vprintf, whose arguments lie packed in local memory, and
 * __assertfail. Each thread prints the elements it owns, one call per element, with program and tile coordinates; a
 * failed assertion names file, line and kernel and ends the launch with an error. */
#include <string.h>

#include "compiler/llvm/ll_internal.h"

enum { DEBUG_DIRECTIVES_ONLY = 3 }; /* DICompileUnit::DebugDirectivesOnly, which llvm-c does not name */

/* ---- line tables ---------------------------------------------------------------------------------------------- */

static LLVMMetadataRef file_of(ll *e, const src_file *f) {
  if (f != e->di_file_key) {
    e->di_file_key = f;
    e->di_file = LLVMDIBuilderCreateFile(e->di, f->path, strlen(f->path), "", 0);
  }
  return e->di_file;
}

static void module_flag(ll *e, const char *name, uint32_t value) {
  LLVMAddModuleFlag(e->m, LLVMModuleFlagBehaviorWarning, name, strlen(name), LLVMValueAsMetadata(ll_i32(e, value)));
}

void ll_debug_begin(ll *e) {
  if (!e->o->line_tables || !e->sink->sources) return;
  e->di = LLVMCreateDIBuilder(e->m);
  module_flag(e, "Debug Info Version", LLVMDebugMetadataVersion());
  module_flag(e, "Dwarf Version", 2);
}

void ll_debug_fn(ll *e) {
  src_loc at;
  e->di_scope = NULL;
  if (!e->di || !src_locate(e->sink->sources, e->fn->at, &at)) return;
  LLVMMetadataRef file = file_of(e, at.file);
  if (!e->di_unit)
    e->di_unit =
        LLVMDIBuilderCreateCompileUnit(e->di, LLVMDWARFSourceLanguageC, file, "tkc", 3, true, "", 0, 0, "", 0,
                                       (LLVMDWARFEmissionKind)DEBUG_DIRECTIVES_ONLY, 0, false, false, "", 0, "", 0);
  LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(e->di, file, NULL, 0, LLVMDIFlagZero);
  size_t len = strlen(e->fn->name);
  e->di_scope = LLVMDIBuilderCreateFunction(e->di, file, e->fn->name, len, e->fn->name, len, file, (unsigned)at.line,
                                            type, false, true, (unsigned)at.line, LLVMDIFlagZero, true);
  LLVMSetSubprogram(e->f, e->di_scope);
}

void ll_debug_at(ll *e, span at) {
  src_loc loc;
  if (!e->di_scope) {
    LLVMSetCurrentDebugLocation2(e->b, NULL);
    return;
  }
  if (!src_locate(e->sink->sources, at, &loc)) return; /* stays on the line before */
  LLVMMetadataRef scope = e->di_scope;
  if (loc.file != e->di_file_key || LLVMDIScopeGetFile(scope) != e->di_file)
    scope = LLVMDIBuilderCreateLexicalBlockFile(e->di, scope, file_of(e, loc.file), 0);
  LLVMSetCurrentDebugLocation2(
      e->b, LLVMDIBuilderCreateDebugLocation(e->c, (unsigned)loc.line, (unsigned)loc.col, scope, NULL));
}

void ll_debug_end(ll *e) {
  if (!e->di) return;
  LLVMDIBuilderFinalize(e->di);
  LLVMDisposeDIBuilder(e->di);
}

/* ---- calls into the driver ------------------------------------------------------------------------------------ */

static ll_v generic(ll *e, ll_v p) { return LLVMBuildAddrSpaceCast(e->b, p, LLVMPointerTypeInContext(e->c, 0), ""); }

static ll_v text_constant(ll *e, const char *s) {
  ll_v data = LLVMConstStringInContext2(e->c, s, strlen(s), false);
  ll_v g = LLVMAddGlobalInAddressSpace(e->m, LLVMTypeOf(data), "", LL_GLOBAL);
  LLVMSetInitializer(g, data);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMInternalLinkage);
  LLVMSetValueName2(g, "tkc_text", 8);
  return generic(e, g);
}

static ll_v call_extern(ll *e, const char *name, LLVMTypeRef result, int n, ll_v *args) {
  LLVMTypeRef types[5];
  for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef ft = LLVMFunctionType(result, types, (unsigned)n, false);
  ll_v f = LLVMGetNamedFunction(e->m, name);
  if (!f) f = LLVMAddFunction(e->m, name, ft);
  return LLVMBuildCall2(e->b, ft, f, args, (unsigned)n, "");
}

typedef struct print_list {
  textbuf format;
  ll_v args[16];
  int n;
} print_list;

static void add_arg(print_list *p, ll_v v) {
  BASE_ASSERT(p->n < (int)(sizeof p->args / sizeof *p->args));
  p->args[p->n++] = v;
}

static void call_printf(ll *e, const print_list *p) {
  LLVMTypeRef types[16];
  for (int i = 0; i < p->n; i++) types[i] = LLVMTypeOf(p->args[i]);
  LLVMTypeRef pack = LLVMStructTypeInContext(e->c, types, (unsigned)p->n, false);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b), entry = LLVMGetEntryBasicBlock(e->f);
  LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(entry));
  ll_v slot = LLVMBuildAlloca(e->b, pack, "");
  LLVMPositionBuilderAtEnd(e->b, here);
  for (int i = 0; i < p->n; i++)
    LLVMBuildStore(e->b, p->args[i], LLVMBuildStructGEP2(e->b, pack, slot, (unsigned)i, ""));
  ll_v args[2] = {text_constant(e, p->format.at), generic(e, slot)};
  call_extern(e, "vprintf", e->i32, 2, args);
}

static ll_v program_id(ll *e, int axis) {
  return ll_intrinsic(e, axis == 0 ? IN_ctaid_x : axis == 1 ? IN_ctaid_y : IN_ctaid_z, 0, NULL);
}

static void add_text(print_list *p, const char *s) {
  for (; *s; s++) text_str(&p->format, *s == '%' ? "%%" : (char[]){*s, 0});
}

static void add_value(ll *e, print_list *p, const tir_type *elem, ll_v v, bool hex) {
  bool pointer = elem->kind == TY_PTR;
  tir_dtype d = pointer ? DT_u64 : elem->dtype;
  if (pointer || hex) {
    int bytes = tir_dtypes[d].bytes;
    ll_v bits = ll_to_bits(e, v);
    text_printf(&p->format, "0x%%0%d%sx", 2 * bytes, bytes == 8 ? "ll" : "");
    add_arg(p, bytes == 8 ? bits : LLVMBuildZExtOrBitCast(e->b, bits, e->i32, ""));
  } else if (dt_is_float(d)) {
    text_str(&p->format, "%g");
    add_arg(p, ll_cast(e, v, d, DT_f64, false));
  } else {
    bool wide = tir_dtypes[d].bytes == 8, is_signed = dt_is_signed(d);
    text_printf(&p->format, "%%%s%c", wide ? "ll" : "", is_signed ? 'd' : 'u');
    add_arg(p, wide ? v : ll_cast(e, v, d, is_signed ? DT_i32 : DT_u32, false));
  }
}

static void add_message(print_list *p, const tir_op *op) {
  const char *message = tir_attr_str(op, ATTR_message, "");
  text_str(&p->format, *message ? ") " : ")");
  add_text(p, message);
}

/* pid (x, y, z) idx (i, j) message: value; one line per element, as the interpreter writes them. */
static void print_element(ll *e, const tir_op *op, int operand, int reg) {
  const tir_value *v = tir_in(op, operand);
  print_list p = {.n = 0};
  text_init(&p.format, e->a);
  text_str(&p.format, "pid (%u, %u, %u) idx (");
  for (int i = 0; i < 3; i++) add_arg(&p, program_id(e, i));
  for (int axis = 0; axis < v->type->rank; axis++) {
    lay_index at = lay_index_of(e->a, v->type->layout, axis);
    text_str(&p.format, axis ? ", %u" : "%u");
    add_arg(&p, ll_at(e, ll_terms(e, &at.terms), &at.terms, at.reg[reg]));
  }
  add_message(&p, op);
  text_str(&p.format, ": ");
  if (op->n_in > 1) text_printf(&p.format, "(operand %d) ", operand);
  add_value(e, &p, tir_elem(v->type), ll_use(e, v)[reg], tir_attr_int(op, ATTR_hex, 0) != 0);
  text_char(&p.format, '\n');
  call_printf(e, &p);
}

void ll_print(ll *e, const tir_op *op) {
  if (op->n_in == 0) {
    print_list p = {.n = 0};
    text_init(&p.format, e->a);
    text_str(&p.format, "pid (%u, %u, %u) idx (");
    for (int i = 0; i < 3; i++) add_arg(&p, program_id(e, i));
    add_message(&p, op);
    text_char(&p.format, '\n');
    ll_guard g = ll_if(e, ll_single_thread(e));
    call_printf(e, &p);
    ll_end_if(e, g);
    return;
  }
  for (int i = 0; i < op->n_in; i++) {
    const tir_value *v = tir_in(op, i);
    ll_v owner = ll_single_thread(e);
    if (tir_is_tile(v->type)) {
      uint32_t free_bits[LAY_NHW];
      lay_free_masks(v->type->layout, free_bits);
      owner = ll_owner(e, free_bits[LAY_LANE], free_bits[LAY_WARP]);
    }
    ll_guard g = ll_if(e, owner);
    for (int r = 0; r < ll_regs(v->type); r++) print_element(e, op, i, r);
    ll_end_if(e, g);
  }
}

void ll_assert(ll *e, const tir_op *op) {
  const tir_value *cond = tir_in(op, 0);
  ll_v *c = ll_use(e, cond), *mask = op->n_in > 1 ? ll_use(e, tir_in(op, 1)) : NULL, failed = NULL;
  for (int r = 0; r < ll_regs(cond->type); r++) {
    ll_v bad = ll_and(e, LLVMBuildNot(e->b, c[r], ""), mask ? mask[r] : NULL);
    failed = failed ? LLVMBuildOr(e->b, failed, bad, "") : bad;
  }
  src_loc at = {0};
  bool known = e->sink->sources && src_locate(e->sink->sources, op->at, &at);
  ll_guard g = ll_if(e, failed);
  ll_v args[5] = {text_constant(e, tir_attr_str(op, ATTR_message, "assertion failed")),
                  text_constant(e, known ? at.file->path : "?"), ll_i32(e, known ? (uint32_t)at.line : 0),
                  text_constant(e, e->fn->name), ll_int(e->i64, 1)};
  call_extern(e, "__assertfail", e->void_, 5, args);
  ll_end_if(e, g);
}
