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

/* What ptxas -v says must not be there: a spill, or a warning about the scheduling of wgmma. */
static const char *unclean(arena *a, const char *log) {
  static const char *const zero[] = {"0 bytes spill stores", "0 bytes spill loads"};
  for (int i = 0; i < 2; i++)
    for (const char *p = log; p && (p = strstr(p, zero[i] + 2)); p++)
      if (p < log + 2 || p[-2] != '0' || (p > log + 2 && p[-3] >= '0' && p[-3] <= '9'))
        return arena_printf(a, "registers are spilled:\n%s", log);
  return strstr(log, "(C75") || strstr(log, "(C76") ? arena_printf(a, "ptxas warns:\n%s", log) : NULL;
}

static const char *assemble(arena *a, const char *ptx, const char *arch, bool clean) {
  const char *ptxas = find_ptxas(a);
  if (!ptxas) return NULL;
  const arch_t *target = arch_find(arch);
  if (!target) return arena_printf(a, "no target is called '%s'", arch);
  char in[] = "/tmp/tkc_ptxas_XXXXXX";
  int fd = mkstemp(in);
  if (fd < 0) return "no temporary file can be made";
  close(fd);
  const char *log = arena_printf(a, "%s.log", in), *problem = NULL;
  const char *const argv[] = {
      ptxas, "-o", "/dev/null", arena_printf(a, "-arch=%s", target->ptxas), in, clean ? "-v" : NULL, NULL};
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
  else if (clean)
    problem = unclean(a, test_read_file(a, log, NULL));
  posix_spawn_file_actions_destroy(&actions);
  unlink(in);
  unlink(log);
  return problem;
}

const char *test_ptxas(arena *a, const char *ptx, const char *arch) { return assemble(a, ptx, arch, false); }
const char *test_ptxas_clean(arena *a, const char *ptx, const char *arch) { return assemble(a, ptx, arch, true); }
