/* Compiling, loading and steering the fake driver. For one test file each: the state is the process's. */
#ifndef TESTS_FAKE_START_H
#define TESTS_FAKE_START_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/tk.h"
#include "tests/fake/cuda.h"

extern char **environ;

static inline bool newer(const char *a, const char *b) {
  struct stat sa, sb;
  return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_mtime > sb.st_mtime;
}

/* Compiles the fake once for all tests (each runs in a process of its own) and returns its path. */
static inline const char *fake_library(const char *name, const char *define) {
  static char path[128];
  char temporary[160], command[768];
  pid_t pid;
  int status = -1;
  snprintf(path, sizeof path, "build/%s.so", name);
  if (newer(path, "tests/fake/cuda.c") && newer(path, "tests/fake/cuda.h")) return path;
  snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
  snprintf(command, sizeof command,
           "mkdir -p build && cc -std=c11 -D_POSIX_C_SOURCE=200809L -I. %s -shared -fPIC -O1 tests/fake/cuda.c -o %s "
           "&& mv %s %s",
           define, temporary, temporary, path);
  char *argv[] = {"sh", "-c", command, NULL};
  cr_assert(
      posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0,
      "cannot compile the fake driver: %s", command);
  return path;
}

static fake_cuda *fake; /* state of the fake, after fake_start */

static inline tk_options fake_start(void) {
  const char *path = fake_library("fake_cuda", "");
  static char kept[256];
  snprintf(kept, sizeof kept, "./%s", path);
  void *library = dlopen(kept, RTLD_NOW);
  cr_assert(library, "%s", dlerror());
  fake = dlsym(library, "fake_cuda_state");
  cr_assert(fake);
  return (tk_options){.device = "cuda:0", .driver_path = kept};
}

static inline void fail_with(const char *function, int result) {
  fake->fail = function;
  fake->fail_result = result;
  fake->fail_after = 0;
}

#endif
