/* NumPy's array files (numpy.lib.format, versions 1.0 to 3.0): a magic, a Python dict literal as text, the elements.
 *
 * The reader takes any bytes: the dict is read by a strict little parser of its three known keys, and the shape is held
 * against the file's size before any memory is asked for. Types that NumPy lacks travel as unsigned integers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/args.h"

typedef struct descr {
  const char *code; /* without the byte order */
  tk_dtype dtype;
} descr;

/* The first row of a type is how it is written, the first row of a code how it is read. */
static const descr descrs[] = {{"b1", TK_i1},  {"i1", TK_i8},  {"i2", TK_i16},  {"i4", TK_i32},    {"i8", TK_i64},
                               {"u1", TK_u8},  {"u2", TK_u16}, {"u4", TK_u32},  {"u8", TK_u64},    {"f2", TK_f16},
                               {"f4", TK_f32}, {"f8", TK_f64}, {"u2", TK_bf16}, {"u1", TK_f8e4m3}, {"u1", TK_f8e5m2}};
enum { N_DESCRS = sizeof descrs / sizeof descrs[0], MAX_HEADER = 1 << 16 };

typedef struct header {
  tk_dtype dtype;
  bool fortran;
  int rank;
  int64_t shape[TK_MAX_RANK];
} header;

static const char *skip(const char *s) { return s + strspn(s, " \t\r\n"); }

/* A quoted string without escapes; returns what follows it, or NULL. */
static const char *quoted(const char *s, char *out, size_t size) {
  if (*s != '\'' && *s != '"') return NULL;
  const char *end = strchr(s + 1, *s);
  if (!end || (size_t)(end - s) > size) return NULL;
  memcpy(out, s + 1, (size_t)(end - s - 1));
  out[end - s - 1] = 0;
  return end + 1;
}

static const char *read_shape(const char *s, header *h) {
  if (*s++ != '(') return NULL;
  for (s = skip(s); *s != ')'; s = skip(s)) {
    if (h->rank == TK_MAX_RANK || *s < '0' || *s > '9') return NULL;
    char *end;
    errno = 0;
    long long n = strtoll(s, &end, 10);
    if (errno) return NULL;
    h->shape[h->rank++] = n;
    s = skip(end);
    if (*s == ',')
      s++;
    else if (*s != ')')
      return NULL;
  }
  return s + 1;
}

static const char *read_descr(const char *s, header *h, bool *big_endian) {
  char code[8];
  s = quoted(s, code, sizeof code);
  if (!s || !strchr("<>|=", code[0])) return NULL;
  for (int i = 0; i < N_DESCRS && h->dtype == TK_NO_DTYPE; i++)
    if (!strcmp(code + 1, descrs[i].code)) h->dtype = descrs[i].dtype;
  *big_endian = code[0] == '>' && code[2] != '1';
  return s;
}

/* NULL, or what is wrong with the header's text. */
static const char *read_header(const char *s, header *h) {
  enum { DESCR = 1, FORTRAN = 2, SHAPE = 4 };
  int seen = 0;
  bool big_endian = false;
  s = skip(s);
  if (*s++ != '{') return "its header is no dict";
  for (s = skip(s); *s != '}'; s = skip(s)) {
    char key[16];
    s = quoted(s, key, sizeof key);
    if (!s || *(s = skip(s)) != ':') return "its header cannot be read";
    s = skip(s + 1);
    int which = !strcmp(key, "descr")           ? DESCR
                : !strcmp(key, "fortran_order") ? FORTRAN
                : !strcmp(key, "shape")         ? SHAPE
                                                : 0;
    if (!which || (seen & which)) return "its header has an unknown or repeated key";
    seen |= which;
    if (which == DESCR) {
      s = read_descr(s, h, &big_endian);
      if (!s) return "its element type is no plain number type";
    } else if (which == SHAPE) {
      s = read_shape(s, h);
      if (!s) return "its shape cannot be read, or has more than 8 axes";
    } else if (!strncmp(s, "True", 4)) {
      h->fortran = true;
      s += 4;
    } else if (!strncmp(s, "False", 5)) {
      s += 5;
    } else {
      return "its fortran_order is neither True nor False";
    }
    s = skip(s);
    if (*s == ',')
      s++;
    else if (*s != '}')
      return "its header cannot be read";
  }
  if (seen != (DESCR | FORTRAN | SHAPE)) return "its header lacks a key";
  if (big_endian) return "it is big endian";
  if (h->dtype == TK_NO_DTYPE) return "its element type has no counterpart here";
  if (h->fortran && h->rank > 1) return "it is in Fortran order: save it with numpy.ascontiguousarray";
  return NULL;
}

static const char *read_open(arena *a, FILE *f, int64_t size, array *out) {
  unsigned char magic[12];
  if (fread(magic, 1, 10, f) != 10 || memcmp(magic, "\x93NUMPY", 6) != 0) return "it is no .npy file";
  if (magic[6] < 1 || magic[6] > 3) return "its format version is unknown";
  size_t prefix = 10, len = magic[8] | (size_t)magic[9] << 8;
  if (magic[6] > 1) {
    if (fread(magic + 10, 1, 2, f) != 2) return "it ends inside its header";
    len |= (size_t)magic[10] << 16 | (size_t)magic[11] << 24;
    prefix = 12;
  }
  if (len > MAX_HEADER) return "its header is too long";
  char *text = arena_alloc(a, len + 1);
  if (fread(text, 1, len, f) != len) return "it ends inside its header";
  header h = {.dtype = TK_NO_DTYPE};
  const char *bad = read_header(text, &h);
  if (bad) return bad;
  int64_t room = size - (int64_t)(prefix + len), need = (int64_t)tk_dtype_bytes(h.dtype);
  for (int i = 0; i < h.rank; i++) {
    if (h.shape[i] && need > INT64_MAX / h.shape[i]) return "its shape is too large";
    need *= h.shape[i];
  }
  if (need != room)
    return arena_printf(a, "its shape needs %lld bytes of elements, and it holds %lld", (long long)need,
                        (long long)room);
  if (!array_new(out, h.dtype, h.rank, h.shape)) return "there is not enough memory for it";
  if (fread(out->data, 1, out->bytes, f) == out->bytes) return NULL;
  array_free(out);
  return "it cannot be read to its end";
}

const char *array_read_npy(arena *a, const char *path, array *out) {
  *out = (array){0};
  FILE *f = fopen(path, "rb");
  if (!f) return arena_printf(a, "%s: %s", path, strerror(errno));
  struct stat st;
  const char *bad = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) ? read_open(a, f, (int64_t)st.st_size, out)
                                                                      : "it is no regular file";
  fclose(f);
  return bad ? arena_printf(a, "%s: %s", path, bad) : NULL;
}

const char *array_write_npy(arena *a, const char *path, const array *from) {
  const char *code = NULL;
  for (int i = 0; i < N_DESCRS && !code; i++)
    if (descrs[i].dtype == from->dtype) code = descrs[i].code;
  textbuf h;
  text_init(&h, a);
  text_printf(&h, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", code[1] == '1' ? '|' : '<', code);
  for (int i = 0; i < from->rank; i++)
    text_printf(&h, "%lld%s", (long long)from->shape[i], from->rank == 1 ? "," : i + 1 < from->rank ? ", " : "");
  text_str(&h, "), }");
  while ((10 + h.n + 1) % 64 != 0) text_char(&h, ' ');
  text_char(&h, '\n');
  unsigned char magic[10] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(h.n & 255), (unsigned char)(h.n >> 8)};

  char *beside = arena_printf(a, "%s.XXXXXX", path);
  int fd = mkstemp(beside);
  FILE *f = fd >= 0 ? fdopen(fd, "wb") : NULL;
  if (!f) {
    const char *why = arena_printf(a, "%s: %s", path, strerror(errno));
    if (fd >= 0) {
      close(fd);
      unlink(beside);
    }
    return why;
  }
  mode_t mask = umask(0);
  umask(mask);
  bool good = fchmod(fd, 0666 & ~mask) == 0 && fwrite(magic, 1, sizeof magic, f) == sizeof magic &&
              fwrite(h.at, 1, h.n, f) == h.n && fwrite(from->data, 1, from->bytes, f) == from->bytes;
  good = fclose(f) == 0 && good;
  if (good && rename(beside, path) == 0) return NULL;
  const char *why = arena_printf(a, "%s: %s", path, strerror(errno));
  unlink(beside);
  return why;
}
