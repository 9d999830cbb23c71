/* Symbols newer than glibc 2.34 that the static libraries of a Debian 12 ask for, so that tkc starts on older systems.
 *
 * arc4random (2.36) is LLVM's source of names for temporary files. _dl_find_object (2.35) is how the static libgcc
 * finds unwind tables; "nothing found" makes a thrown C++ exception terminate, and LLVM is built without exceptions.
 * Hidden: a shared library of the process must go on finding its own. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/types.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void);
__attribute__((visibility("hidden"))) int _dl_find_object(void *address, void *result);

uint32_t arc4random(void) {
  uint32_t r;
  if (getrandom(&r, sizeof r, 0) != (ssize_t)sizeof r) abort();
  return r;
}

int _dl_find_object(void *address, void *result) {
  (void)address;
  (void)result;
  return -1;
}
