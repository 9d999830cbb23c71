/* cli: what the subcommands of tkc share. Only the tools print and exit. */
#ifndef TOOLS_CLI_H
#define TOOLS_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit status of tkc. */
enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_DEVICE = 3, EXIT_BUG = 70 };

int cli_compile(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_info(int argc, char **argv);

/* Options are "--name value", "--name=value" or flags. A cursor walks argv. */
typedef struct cli_args {
  int argc, at;
  char **argv;
  const char *value; /* set by cli_option */
  bool wrong;        /* a value was missing: reported */
} cli_args;

/* Whether the argument at the cursor is the option; takes it and its value (--name v, --name=v, and -Xv for one
 * letter). */
bool cli_option(cli_args *a, const char *name);
bool cli_flag(cli_args *a, const char *name); /* no value */
/* "tkc: message" on stderr; returns EXIT_USAGE. */
int cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A list that grows; the strings are the caller's. */
typedef struct cli_list {
  const char **at;
  int n, cap;
} cli_list;
void cli_push(cli_list *l, const char *s);

bool cli_int(const char *text, int lo, int hi, int *out);
void *cli_alloc(size_t bytes); /* zeroed; never NULL: running out of memory ends the program */

/* Where an output is written before it takes its place, so that nobody sees half of one: beside the file that `path`
   names (through links). What is no file, such as /dev/null or a pipe, is written as it is. */
typedef struct cli_output {
  const char *named;   /* the caller's */
  char *path, *beside; /* equal: nothing to rename */
} cli_output;
bool cli_output_begin(cli_output *o, const char *path); /* false, reported: it cannot be written */
/* Renames, or removes what was written if !ok; `why` is an errno for the report, 0: reported already. Returns ok. */
bool cli_output_end(cli_output *o, bool ok, int why);

/* Writes a whole output, or none; "-" is stdout. Reports and returns false on failure. */
bool cli_write(const char *path, const void *data, size_t len);
/* A whole file (limit 8 GiB), NUL-terminated; NULL and errno if it cannot be read. free() it. */
char *cli_read(const char *path, size_t *len);

/* The arch of the first GPU for --arch native; NULL, reported, if there is none. Lives until the program ends. */
const char *cli_native_arch(void);

#endif
