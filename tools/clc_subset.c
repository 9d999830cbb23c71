/* clc_subset: cuts libclc down to the functions that tkc uses, when tkc is built.
 *
 * Usage: clc_subset /usr/lib/clc/nvptx64--.bc OUT.bc
 *
 * The whole library (9700 functions) costs half a second to link into a kernel, however lazily it is read. So:
 * keep the functions of clc.def, make the rest internal, let globaldce drop what they do not reach, and give what is
 * left linkonce_odr linkage, because the linker then takes only what a kernel references (the C API has no flag for
 * that). String attributes go too: they name a PTX version and a CPU that would contradict the kernel's own. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/Transforms/PassBuilder.h>

typedef struct wanted {
  const char *name;
  int operands;
} wanted;

static const wanted functions[] = {
#define CLC(name, operands) {#name, operands},
#include "compiler/llvm/clc.def"
#undef CLC
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

static _Noreturn void fail(const char *what, const char *detail) {
  fprintf(stderr, "clc_subset: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
  exit(1);
}

static LLVMValueRef find(LLVMModuleRef m, const wanted *w, char type) {
  char name[64];
  int n = snprintf(name, sizeof name, "_Z%zu%s", strlen(w->name), w->name);
  for (int i = 0; i < w->operands; i++) name[n++] = type;
  name[n] = 0;
  LLVMValueRef f = LLVMGetNamedFunction(m, name);
  if (!f || LLVMIsDeclaration(f)) fail("the library does not define", name);
  return f;
}

static bool is_wanted(LLVMValueRef f, const LLVMValueRef *keep, int n) {
  for (int i = 0; i < n; i++)
    if (keep[i] == f) return true;
  return false;
}

static void drop_string_attributes(LLVMValueRef f) {
  unsigned n = LLVMGetAttributeCountAtIndex(f, (unsigned)LLVMAttributeFunctionIndex);
  LLVMAttributeRef *all = malloc((n + 1) * sizeof *all);
  if (!all) fail("out of memory", NULL);
  LLVMGetAttributesAtIndex(f, (unsigned)LLVMAttributeFunctionIndex, all);
  for (unsigned i = 0; i < n; i++) {
    if (!LLVMIsStringAttribute(all[i])) continue;
    unsigned len = 0;
    const char *key = LLVMGetStringAttributeKind(all[i], &len);
    LLVMRemoveStringAttributeAtIndex(f, (unsigned)LLVMAttributeFunctionIndex, key, len);
  }
  free(all);
}

static void run_passes(LLVMModuleRef m, const char *passes) {
  LLVMPassBuilderOptionsRef opts = LLVMCreatePassBuilderOptions();
  LLVMErrorRef err = LLVMRunPasses(m, passes, NULL, opts);
  if (err) fail(passes, LLVMGetErrorMessage(err));
  LLVMDisposePassBuilderOptions(opts);
}

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: clc_subset LIBRARY.bc OUT.bc", NULL);
  LLVMContextRef cx = LLVMContextCreate();
  LLVMMemoryBufferRef buffer;
  char *message = NULL;
  if (LLVMCreateMemoryBufferWithContentsOfFile(argv[1], &buffer, &message)) fail(argv[1], message);
  LLVMModuleRef m;
  if (LLVMParseBitcodeInContext2(cx, buffer, &m)) fail("no bitcode", argv[1]);
  LLVMDisposeMemoryBuffer(buffer);

  LLVMValueRef keep[2 * N_FUNCTIONS];
  for (int i = 0; i < N_FUNCTIONS; i++) {
    keep[2 * i] = find(m, &functions[i], 'f');
    keep[2 * i + 1] = find(m, &functions[i], 'd');
  }
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
    if (!LLVMIsDeclaration(f) && !is_wanted(f, keep, 2 * N_FUNCTIONS)) LLVMSetLinkage(f, LLVMInternalLinkage);
  for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g))
    if (!LLVMIsDeclaration(g)) LLVMSetLinkage(g, LLVMInternalLinkage);
  run_passes(m, "globaldce,strip-dead-prototypes");

  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f)) {
    drop_string_attributes(f);
    if (!LLVMIsDeclaration(f)) {
      LLVMSetLinkage(f, LLVMLinkOnceODRLinkage);
      continue;
    }
    if (!LLVMGetIntrinsicID(f)) fail("a kept function calls one that the library lacks", LLVMGetValueName(f));
  }
  for (LLVMValueRef g = LLVMGetFirstGlobal(m); g; g = LLVMGetNextGlobal(g)) {
    if (LLVMIsDeclaration(g)) fail("a kept function uses an object that the library lacks", LLVMGetValueName(g));
    LLVMSetLinkage(g, LLVMLinkOnceODRLinkage);
  }
  LLVMSetModuleIdentifier(m, "clc", 3);
  LLVMSetSourceFileName(m, "clc", 3);
  if (LLVMWriteBitcodeToFile(m, argv[2])) fail("cannot write", argv[2]);
  LLVMDisposeModule(m);
  LLVMContextDispose(cx);
  return 0;
}
