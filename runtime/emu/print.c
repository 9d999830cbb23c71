/* vprintf and __assertfail: the device's system calls, whose strings and argument blocks are read through checked
 * accesses. */
#include "runtime/emu/internal.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 4096 };

typedef struct text {
  char s[MAX_TEXT];
  size_t n;
} text;

static void put(text *t, const char *s, size_t n) {
  if (n > MAX_TEXT - t->n) n = MAX_TEXT - t->n;
  memcpy(t->s + t->n, s, n);
  t->n += n;
}

/* A zero-terminated string of the device; false after a fault. Longer ones are cut. */
static bool device_string(emu_exec *x, uint64_t addr, uint32_t lane, text *out) {
  for (; out->n < MAX_TEXT; addr++) {
    const uint8_t *c = emu__access(x, EMU_GENERIC, addr, 1, lane, EMU_READ);
    if (c == NULL) return false;
    if (*c == 0) return true;
    out->s[out->n++] = (char)*c;
  }
  return true;
}

/* The next argument of `size` bytes from the block, which packs arguments at their natural alignment. */
static bool argument(emu_exec *x, uint64_t *args, uint32_t size, uint32_t lane, uint64_t *out) {
  *args = (*args + size - 1) & ~(uint64_t)(size - 1);
  const uint8_t *p = emu__access(x, EMU_GENERIC, *args, size, lane, EMU_READ);
  if (p == NULL) return false;
  *out = 0;
  memcpy(out, p, size);
  *args += size;
  return true;
}

typedef struct spec {
  char text[24]; /* flags, width and precision, from '%' on */
  size_t n;
  bool wide; /* l, ll, j, z, t */
} spec;

static bool one(emu_exec *x, spec *s, char conv, uint64_t *args, uint32_t lane, text *out) {
  char buf[512];
  int n = 0;
  uint64_t v;
  if (conv == 's') {
    text str = {.n = 0};
    if (!argument(x, args, 8, lane, &v) || !device_string(x, v, lane, &str)) return false;
    memcpy(s->text + s->n, ".*s", 4);
    char whole[MAX_TEXT + 1];
    memcpy(whole, str.s, str.n);
    whole[str.n] = '\0';
    put(out, whole, strlen(whole));
    return true;
  }
  if (strchr("eEfFgGaA", conv) != NULL) {
    double d;
    if (!argument(x, args, 8, lane, &v)) return false;
    memcpy(&d, &v, sizeof d);
    s->text[s->n++] = conv;
    s->text[s->n] = '\0';
    n = snprintf(buf, sizeof buf, s->text, d);
  } else if (conv == 'p') {
    if (!argument(x, args, 8, lane, &v)) return false;
    n = snprintf(buf, sizeof buf, "0x%llx", (unsigned long long)v);
  } else if (conv == 'c') {
    if (!argument(x, args, 4, lane, &v)) return false;
    n = snprintf(buf, sizeof buf, "%c", (int)(v & 0xff));
  } else {
    if (!argument(x, args, s->wide ? 8 : 4, lane, &v)) return false;
    s->text[s->n++] = 'l';
    s->text[s->n++] = 'l';
    s->text[s->n++] = conv;
    s->text[s->n] = '\0';
    bool is_signed = conv == 'd' || conv == 'i';
    if (is_signed)
      n = snprintf(buf, sizeof buf, s->text, (long long)emu__sext(v, s->wide ? 64 : 32));
    else
      n = snprintf(buf, sizeof buf, s->text, (unsigned long long)v);
  }
  if (n > 0) put(out, buf, (size_t)n < sizeof buf ? (size_t)n : sizeof buf - 1);
  return true;
}

/* Reads the specification behind '%'; returns its length, 0 if it is none that printf knows. */
static size_t read_spec(const char *f, size_t left, spec *s, char *conv) {
  size_t k = 0;
  s->n = 0;
  s->wide = false;
  s->text[s->n++] = '%';
  unsigned digits = 0;
  while (k < left && strchr("-+ #0123456789.", f[k]) != NULL && f[k] != '\0') {
    if (s->n >= sizeof s->text - 6 || (f[k] >= '0' && f[k] <= '9' && ++digits > 5)) return 0;
    s->text[s->n++] = f[k++];
  }
  while (k < left && f[k] != '\0' && strchr("hljzt", f[k]) != NULL) s->wide |= f[k++] != 'h';
  if (k == left || f[k] == '\0' || strchr("diouxXcsfFeEgGaAp", f[k]) == NULL) return 0;
  *conv = f[k];
  return k + 1;
}

emu_next emu__print(emu_exec *x, uint64_t format, uint64_t args, uint32_t lane) {
  text f = {.n = 0}, out = {.n = 0};
  if (!device_string(x, format, lane, &f)) return EMU_FAILED;
  for (size_t k = 0; k < f.n;) {
    if (f.s[k] != '%') {
      put(&out, &f.s[k++], 1);
      continue;
    }
    if (k + 1 < f.n && f.s[k + 1] == '%') {
      put(&out, "%", 1);
      k += 2;
      continue;
    }
    spec s;
    char conv = 0;
    size_t len = read_spec(f.s + k + 1, f.n - k - 1, &s, &conv);
    if (len == 0) return emu__fault(x, (int)lane, "printf format '%.*s' cannot be read at byte %zu", (int)f.n, f.s, k);
    if (!one(x, &s, conv, &args, lane, &out)) return EMU_FAILED;
    k += 1 + len;
  }
  if (x->o->print != NULL) x->o->print(x->o->user, out.s, out.n);
  return EMU_NEXT;
}

emu_next emu__assert_fail(emu_exec *x, const uint64_t args[3], uint32_t lane) {
  text message = {.n = 0}, file = {.n = 0};
  if (!device_string(x, args[0], lane, &message) || !device_string(x, args[1], lane, &file)) return EMU_FAILED;
  return emu__fault(x, (int)lane, "assertion failed: %.*s (%.*s:%u)", (int)message.n, message.s, (int)file.n, file.s,
                    (uint32_t)args[2]);
}
