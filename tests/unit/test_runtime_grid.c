/* Grid expressions: Python's arithmetic in exact integers; every mistake has a column. */
#include "runtime/internal.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define N(a) ((int)(sizeof(a) / sizeof *(a)))

static const struct {
  const char *name;
  int64_t value;
} names[] = {{"n", 1000},        {"BLOCK", 256},       {"zero", 0},    {"neg", -7},
             {"big", INT64_MAX}, {"small", INT64_MIN}, {"\xc3\xa9", 3}};

static int find(const void *user, const char *name, size_t len) {
  (void)user;
  for (int i = 0; i < N(names); i++)
    if (strlen(names[i].name) == len && memcmp(names[i].name, name, len) == 0) return i;
  return -1;
}

static const char *get(const void *user, int slot, tk__member member, int64_t index, int64_t *value) {
  (void)user;
  if (member == TK__SHAPE) return *value = 10 + index, index < 2 ? NULL : "too few axes";
  if (member == TK__STRIDE) return *value = 20 + index, NULL;
  if (member == TK__NUMEL) return *value = 30, NULL;
  return *value = names[slot].value, NULL;
}

static const tk__names some_names = {find, get, NULL};

static const struct {
  const char *text;
  int64_t x, y, z;
} good[] = {
    {"4", 4, 1, 1},
    {"4, 5", 4, 5, 1},
    {" 4 ,5,6 ", 4, 5, 6},
    {"(4, 5)", 4, 5, 1},
    {"(4,)", 4, 1, 1},
    {"(cdiv(n, BLOCK),)", 4, 1, 1},
    {"(2)*(3)", 6, 1, 1},
    {"(2)*(3), (4)", 6, 4, 1},
    {"cdiv(n, BLOCK)", 4, 1, 1},
    {"triton.cdiv(n, BLOCK)", 4, 1, 1},
    {"tl.cdiv(n,BLOCK)", 4, 1, 1},
    {"cdiv(1024, 256)", 4, 1, 1},
    {"cdiv(0, 256)", 0, 1, 1},
    {"cdiv(neg, 2)", -3, 1, 1},
    {"1 + 2 * 3", 7, 1, 1},
    {"(1 + 2) * 3", 9, 1, 1},
    {"10 - 4 - 3", 3, 1, 1},
    {"neg // 2", -4, 1, 1},
    {"neg % 2", 1, 1, 1},
    {"7 // -2", -4, 1, 1},
    {"7 % -2", -1, 1, 1},
    {"small % -1", 0, 1, 1},
    {"1024 / 256", 4, 1, 1},
    {"-n + 1001", 1, 1, 1},
    {"- - 3", 3, 1, 1},
    {"+3", 3, 1, 1},
    {"min(n, BLOCK)", 256, 1, 1},
    {"max(1, 2, 3, n)", 1000, 1, 1},
    {"abs(neg)", 7, 1, 1},
    {"next_power_of_2(n)", 1024, 1, 1},
    {"next_power_of_2(1024)", 1024, 1, 1},
    {"next_power_of_2(1)", 1, 1, 1},
    {"next_power_of_2(0)", 0, 1, 1},
    {"n > BLOCK", 1, 1, 1},
    {"n < BLOCK", 0, 1, 1},
    {"1 == 1, 1 != 1, 2 <= 1", 1, 0, 0},
    {"2 >= 2", 1, 1, 1},
    {"1 if n > BLOCK else 2", 1, 1, 1},
    {"1 if n < BLOCK else 2", 2, 1, 1},
    {"1 if zero else 2 if zero else 3", 3, 1, 1},
    {"(1 if n else 2) + (5 if zero else 7)", 8, 1, 1},
    {"(1 if (zero or n) and not zero else 2) if n else 9", 1, 1, 1},
    {"n // zero if zero else 5", 5, 1, 1},
    {"zero and 1 // zero", 0, 1, 1},
    {"n or 1 // zero", 1000, 1, 1},
    {"zero or neg", -7, 1, 1},
    {"n and BLOCK", 256, 1, 1},
    {"not n", 0, 1, 1},
    {"not not n", 1, 1, 1},
    {"not n == 1", 1, 1, 1},
    {"True + True", 2, 1, 1},
    {"0x10", 16, 1, 1},
    {"1_000", 1000, 1, 1},
    {"n.shape[1] * n.stride(3) + n.numel()", 11 * 23 + 30, 1, 1},
    {"n . shape [ 0 ]", 10, 1, 1},
    {"9223372036854775807", INT64_MAX, 1, 1},
    {"\xc3\xa9 * 2", 6, 1, 1},
    {"n\n*\t2", 2000, 1, 1},
};

Test(runtime_grid, values) {
  for (int i = 0; i < N(good); i++) {
    tk__expr e;
    int64_t v[3] = {1, 1, 1};
    char why[160] = "";
    bool ok = tk__expr_compile(good[i].text, 3, &some_names, &e, why, sizeof why) &&
              tk__expr_run(&e, &some_names, v, why, sizeof why);
    cr_expect(ok, "%s: %s", good[i].text, why);
    cr_expect(v[0] == good[i].x && v[1] == good[i].y && v[2] == good[i].z, "%s = %" PRId64 ", %" PRId64 ", %" PRId64,
              good[i].text, v[0], v[1], v[2]);
  }
}

Test(runtime_grid, five_values) {
  tk__expr e;
  int64_t v[6] = {0};
  char why[160] = "";
  cr_assert(tk__expr_compile("n, 2, (3), 4 * n, 5", 5, &some_names, &e, why, sizeof why), "%s", why);
  cr_assert(tk__expr_run(&e, &some_names, v, why, sizeof why), "%s", why);
  cr_assert(e.dims == 5 && v[0] == 1000 && v[1] == 2 && v[2] == 3 && v[3] == 4000 && v[4] == 5 && v[5] == 0);
  cr_assert(!tk__expr_compile("1, 2, 3, 4, 5, 6", 5, &some_names, &e, why, sizeof why) && strstr(why, "more than 5"));
}

static const struct {
  const char *text;
  int column;
  const char *says;
} bad[] = {
    {"", 1, "expected a value"},
    {"  ", 3, "expected a value"},
    {"4,", 3, "expected a value"},
    {"1,2,3,4", 7, "more than 3"},
    {"()", 2, "expected a value"},
    {"(4", 3, "expected ')'"},
    {"4)", 2, "operator or the end"},
    {"4 5", 3, "operator or the end"},
    {"nn", 1, "unknown name 'nn'"},
    {"n + BLOK", 5, "unknown name 'BLOK'"},
    {"foo(1)", 1, "unknown function"},
    {"cdiv(1)", 1, "takes 2 arguments, not 1"},
    {"cdiv(1,2,3)", 1, "takes 2 arguments, not 3"},
    {"min(1)", 1, "takes 2"},
    {"abs(1,2)", 1, "takes 1 argument, not 2"},
    {"cdiv 1", 1, "unknown name"},
    {"cdiv(1", 7, "expected ')'"},
    {"1 / 0", 3, "division by zero"},
    {"1 // zero", 3, "division by zero"},
    {"1 % zero", 3, "division by zero"},
    {"cdiv(n, zero)", 1, "division by zero"},
    {"n / BLOCK", 3, "exactly"},
    {"big + 1", 5, "64 bits"},
    {"big * 2", 5, "64 bits"},
    {"small - 1", 7, "64 bits"},
    {"-small", 1, "64 bits"},
    {"small // -1", 7, "64 bits"},
    {"abs(small)", 1, "64 bits"},
    {"next_power_of_2(big)", 1, "64 bits"},
    {"9223372036854775808", 1, "64 bits"},
    {"1.5", 1, "only integers"},
    {"12ab", 1, "no number"},
    {"0x", 1, "no number"},
    {"1 < 2 < 3", 7, "do not chain"},
    {"2 ** 3", 3, "no operator **"},
    {"1 = 2", 3, "operator or the end"},
    {"1 if 2", 7, "expected 'else'"},
    {"1 if 2 else", 12, "expected a value"},
    {"n.size", 3, "expected shape"},
    {"n.shape", 8, "expected '['"},
    {"n.shape[x]", 9, "axis number"},
    {"n.shape[7]", 1, "too few axes"},
    {"n.numel(1)", 9, "expected ')'"},
    {"$", 1, "expected a value"},
    {"n; drop", 2, "operator or the end"},
};

Test(runtime_grid, mistakes_have_a_column) {
  for (int i = 0; i < N(bad); i++) {
    tk__expr e;
    int64_t v[3];
    char why[160] = "", place[24];
    bool ok = tk__expr_compile(bad[i].text, 3, &some_names, &e, why, sizeof why) &&
              tk__expr_run(&e, &some_names, v, why, sizeof why);
    snprintf(place, sizeof place, "column %d: ", bad[i].column);
    cr_expect(!ok && strncmp(why, place, strlen(place)) == 0 && strstr(why, bad[i].says), "%s: %s", bad[i].text,
              ok ? "accepted" : why);
  }
}

Test(runtime_grid, limits) {
  static char text[5000];
  static const struct {
    const char *repeated;
    int times;
  } cases[] = {{"(", 900},    {"-", 900},     {"not ", 200}, {"1 if 1 else ", 80}, {"1+", 500},
               {"abs(", 200}, {"1 or ", 200}, {"(1+", 300},  {"1", 2000}};
  for (int i = 0; i < N(cases); i++) {
    tk__expr e;
    char why[160] = "";
    text[0] = '\0';
    for (int j = 0; j < cases[i].times; j++) strcat(text, cases[i].repeated);
    strcat(text, "1");
    cr_expect(!tk__expr_compile(text, 3, &some_names, &e, why, sizeof why) && why[0], "%s... was accepted",
              cases[i].repeated);
  }
}

/* Random text from the language's own pieces: compiled or refused, never a fault; what compiles runs. */
Test(runtime_grid, random_text) {
  static const char *const pieces[] = {
      "n",      "BLOCK", "zero", "1",    "7",     "(",    ")", "+",  "-",         "*", "//",  "/",    "%",  ",", " if ",
      " else ", " and ", " or ", "not ", "cdiv(", "min(", "<", "==", ".shape[0]", " ", "big", "\xff", "0x", "."};
  uint64_t state = 7;
  int compiled = 0;
  for (int round = 0; round < 50000; round++) {
    char text[200] = "", why[160];
    int n = 1 + (int)(state >> 60);
    for (int i = 0; i < n; i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      strcat(text, pieces[(state >> 33) % (uint64_t)N(pieces)]);
    }
    tk__expr e;
    int64_t v[3];
    if (!tk__expr_compile(text, 3, &some_names, &e, why, sizeof why)) continue;
    compiled++;
    tk__expr_run(&e, &some_names, v, why, sizeof why);
  }
  cr_assert(compiled > 500, "only %d texts compiled", compiled);
}

static bool lookup(void *user, const char *name, const char *member, int64_t index, int64_t *value) {
  (void)user;
  if (strcmp(name, "x") != 0) return false;
  *value = !member ? 5 : strcmp(member, "numel") == 0 ? 6 : strcmp(member, "shape") == 0 ? 7 + index : 8;
  return true;
}

Test(runtime_grid, evaluate) {
  int64_t v;
  char why[100];
  cr_assert(tk_evaluate("triton.cdiv(x.shape[1], x) + x.numel() * x.stride(0)", lookup, NULL, &v, why, sizeof why) &&
                v == 2 + 48,
            "%s", why);
  cr_assert(!tk_evaluate("y", lookup, NULL, &v, why, sizeof why) && strstr(why, "column 1"), "%s", why);
  cr_assert(!tk_evaluate("1, 2", lookup, NULL, &v, why, sizeof why) && strstr(why, "more than 1 value"), "%s", why);
  cr_assert(!tk_evaluate(NULL, lookup, NULL, &v, NULL, 0));
  cr_assert(!tk_evaluate("x", NULL, NULL, &v, NULL, 0));
}
