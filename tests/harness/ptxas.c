/* The assembler as a judge of PTX, where it is installed: $TKC_PTXAS, else the first in PATH, else the toolkit's place.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/arch/arch.h"
#include "tests/test.h"

extern char **environ;

static const char *find_ptxas(arena *a) {
  const char *named = getenv("TKC_PTXAS");
  if (named) return *named ? named : NULL;
  const char *path = getenv("PATH");
  for (const char *p = path ? path : ""; *p;) {
    size_t n = strcspn(p, ":");
    const char *file = arena_printf(a, "%.*s/ptxas", (int)n, p);
    if (n && access(file, X_OK) == 0) return file;
    p += n + (p[n] != 0);
  }
  static const char toolkit[] = "/usr/local/cuda/bin/ptxas";
  return access(toolkit, X_OK) == 0 ? toolkit : NULL;
}

bool test_has_ptxas(void) {
  arena *a = arena_new();
  bool has = find_ptxas(a) != NULL;
  arena_free(a);
  return has;
}

const char *test_ptxas(arena *a, const char *ptx, const char *arch) {
  const char *ptxas = find_ptxas(a);
  if (!ptxas) return NULL;
  const arch_t *target = arch_find(arch);
  if (!target) return arena_printf(a, "no target is called '%s'", arch);
  char in[] = "/tmp/tkc_ptxas_XXXXXX";
  int fd = mkstemp(in);
  if (fd < 0) return "no temporary file can be made";
  close(fd);
  const char *log = arena_printf(a, "%s.log", in), *problem = NULL;
  const char *const argv[] = {ptxas, "-o", "/dev/null", arena_printf(a, "-arch=%s", target->ptxas), in, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid;
  int status = -1;
  if (!test_write_file(in, ptx, strlen(ptx)))
    problem = "the PTX cannot be written";
  else if (posix_spawn(&pid, ptxas, &actions, NULL, (char *const *)argv, environ) != 0)
    problem = arena_printf(a, "%s cannot be started", ptxas);
  else if (waitpid(pid, &status, 0) != pid || status != 0)
    problem = arena_printf(a, "ptxas -arch=%s refuses it (status %d):\n%s", target->ptxas, status,
                           test_read_file(a, log, NULL));
  posix_spawn_file_actions_destroy(&actions);
  unlink(in);
  unlink(log);
  return problem;
}
