/* The finishing touches on PTX text.
 *
 * LLVM writes the lowest `.version` that knows the target. It does not look into inline assembly, which may be younger,
 * and being given a higher version it would use that for no reason and lock older drivers out. So the instructions of
 * the text are looked up in features.def here and the version is raised to the highest one found. The text is walked
 * once, line by line: an instruction is the first word of a line behind an optional predicate and `{`, up to the space
 * before its operands; comments and directives are no instructions. */
#include <string.h>

#include "compiler/ptx/ptx.h"

#define ERROR DIAG_ERROR
#define DIAG(id, severity, format) const diag_desc D_##id = {#id, severity, format};
#include "compiler/ptx/diags.def"
#undef DIAG
#undef ERROR

static const struct {
  const char *mnemonic, *modifier;
  int version;
} features[] = {
#define FEATURE(mnemonic, modifier, version) {#mnemonic, modifier, version},
#include "compiler/ptx/features.def"
#undef FEATURE
};
enum { N_FEATURES = sizeof features / sizeof features[0] };

static bool blank(char c) { return c == ' ' || c == '\t' || c == '{' || c == '\r'; }
static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* The instruction's dotted name on a line; *n = 0 if there is none. */
static const char *instruction(const char *line, size_t len, size_t *n) {
  const char *end = line + len;
  while (line < end && blank(*line)) line++;
  if (line < end && *line == '@') {
    while (line < end && *line != ' ' && *line != '\t') line++;
    while (line < end && blank(*line)) line++;
  }
  const char *p = line;
  if (p < end && letter(*p))
    while (p < end && !blank(*p) && *p != ';') p++;
  *n = (size_t)(p - line);
  return line;
}

static bool contains(const char *name, size_t n, const char *part) {
  size_t len = strlen(part);
  for (size_t i = 0; i + len <= n; i++)
    if (memcmp(name + i, part, len) == 0) return true;
  return false;
}

static int version_of(const char *name, size_t n, const char **modifier) {
  int best = 0;
  for (int i = 0; i < N_FEATURES; i++) {
    size_t len = strlen(features[i].mnemonic);
    if (n < len || memcmp(name, features[i].mnemonic, len) != 0 || (n > len && name[len] != '.')) continue;
    if (features[i].version <= best || !contains(name + len, n - len, features[i].modifier)) continue;
    best = features[i].version;
    *modifier = *features[i].modifier ? features[i].modifier : features[i].mnemonic;
  }
  return best;
}

static int text_needs(const char *ptx, const char **why) {
  int best = 0;
  for (const char *p = ptx; *p;) {
    size_t len = strcspn(p, "\n"), n;
    const char *modifier = NULL, *name = instruction(p, len, &n);
    int v = n ? version_of(name, n, &modifier) : 0;
    if (v > best) {
      best = v;
      *why = modifier;
    }
    p += len + (p[len] != 0);
  }
  return best;
}

int ptx_version_needed(const char *ptx, const arch_t *arch, int wanted, diag_sink *sink) {
  const char *why = ".target";
  int need = text_needs(ptx, &why);
  if (need < arch->ptx) {
    need = arch->ptx;
    why = ".target";
  }
  if (!wanted) return need;
  if (wanted >= need) return wanted;
  diag_add(sink, (span){0, 0}, &D_ptx_version, wanted / 10, wanted % 10, why, arch->name, need / 10, need % 10);
  return 0;
}

void ptx_finish(const char *ptx, int version, const char *metadata, textbuf *out) {
  static const char directive[] = "\n.version ";
  const char *line = strncmp(ptx, directive + 1, sizeof directive - 2) == 0 ? ptx : strstr(ptx, directive);
  if (!line) base_panic("PTX without .version");
  if (*line == '\n') line++;
  const char *rest = line + strcspn(line, "\n");
  if (metadata) text_str(out, metadata);
  text_printf(out, ".version %d.%d", version / 10, version % 10);
  text_str(out, rest);
  if (out->at[out->n - 1] != '\n') text_char(out, '\n');
}
