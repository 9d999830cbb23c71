/* The standard library's source text: every lang/std/NAME.tk, embedded when tkc is built. */
#ifndef LANG_STD_H
#define LANG_STD_H

typedef struct lang_std_file {
  const char *path;  /* "std/NAME.tk": how diagnostics name it */
  const char *text;  /* NUL-terminated */
  unsigned long len; /* without the NUL */
} lang_std_file;

extern const lang_std_file lang_std_files[]; /* sorted by path; one all-NULL row after the last */
extern const int lang_n_std_files;

#endif
