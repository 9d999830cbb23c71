/* Scalar types: names and the conversion of constants. */
#include <stdlib.h>

#include "compiler/ir/convert.h"
#include "compiler/ir/internal.h"

const tir_dtype_info tir_dtypes[DT_N] = {
#define DTYPE(name, text, triton, bits, bytes, kind, mantissa) {text, triton, bits, bytes, DK_##kind, mantissa},
#include "compiler/ir/dtypes.def"
#undef DTYPE
};

/* Names beyond the two columns of dtypes.def: Triton's and torch's long spellings. */
static const struct {
  const char *text;
  tir_dtype dtype;
} long_names[] = {
    {"bool", DT_i1},           {"int1", DT_i1},
    {"uint1", DT_i1},          {"u1", DT_i1},
    {"int8", DT_i8},           {"int16", DT_i16},
    {"int32", DT_i32},         {"int64", DT_i64},
    {"int", DT_i32},           {"uint8", DT_u8},
    {"uint16", DT_u16},        {"uint32", DT_u32},
    {"uint64", DT_u64},        {"float16", DT_f16},
    {"half", DT_f16},          {"bfloat16", DT_bf16},
    {"float32", DT_f32},       {"float", DT_f32},
    {"float64", DT_f64},       {"double", DT_f64},
    {"float8e5", DT_f8e5m2},   {"float8_e5m2", DT_f8e5m2},
    {"float8e4nv", DT_f8e4m3}, {"float8_e4m3fn", DT_f8e4m3},
};

static bool is_text(const char *name, const char *text, size_t len) {
  return strlen(name) == len && memcmp(name, text, len) == 0;
}

bool tir_dtype_named(const char *text, size_t len, tir_dtype *out) {
  for (int d = 0; d < DT_N; d++) {
    if (is_text(tir_dtypes[d].text, text, len) || is_text(tir_dtypes[d].triton, text, len)) {
      *out = (tir_dtype)d;
      return true;
    }
  }
  for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++) {
    if (is_text(long_names[i].text, text, len)) {
      *out = long_names[i].dtype;
      return true;
    }
  }
  return false;
}

static uint64_t low_bits(uint64_t v, int bits) { return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1); }

tir_scalar tir_scalar_int(tir_dtype d, int64_t v) {
  if (!dt_is_float(d)) return (tir_scalar){low_bits((uint64_t)v, tir_dtypes[d].bits)};
  if (d == DT_f64) return (tir_scalar){bits_of_double((double)v)};
  return (tir_scalar){float_from_int(float_format_of(d), true, (uint64_t)v)};
}

tir_scalar tir_scalar_float(tir_dtype d, double v) {
  if (d == DT_f64) return (tir_scalar){bits_of_double(v)};
  if (dt_is_float(d)) return (tir_scalar){float_from_double(float_format_of(d), v, false)};
  if (d == DT_i1) return (tir_scalar){v != 0};
  int width = tir_dtypes[d].bits;
  return (tir_scalar){low_bits(int_from_double(v, width < 32 ? 32 : width, dt_is_signed(d)), width)};
}

int64_t tir_scalar_as_int(tir_dtype d, tir_scalar s) {
  int bits = tir_dtypes[d].bits;
  if (dt_is_signed(d) && bits < 64 && s.bits >> (bits - 1) & 1) return (int64_t)(s.bits | UINT64_MAX << bits);
  return (int64_t)s.bits;
}

double tir_scalar_as_float(tir_dtype d, tir_scalar s) {
  if (d == DT_f64) return double_of_bits(s.bits);
  if (dt_is_float(d)) return float_to_double(float_format_of(d), (uint32_t)s.bits);
  if (d == DT_u64) return (double)s.bits;
  return (double)tir_scalar_as_int(d, s);
}

/* The decimal point of the locale, found by printing one: a program that embeds tkc may have set any. */
static size_t decimal_point(char *point, size_t size) {
  char half[16];
  snprintf(half, sizeof half, "%.1f", 0.5);
  size_t n = strlen(half) - 2;
  BASE_ASSERT(n >= 1 && n < size);
  memcpy(point, half + 1, n);
  return n;
}

void tir_decimal_print(double v, int digits, char *out, size_t size) {
  char point[8];
  size_t n = decimal_point(point, sizeof point);
  if (digits)
    snprintf(out, size, "%.*g", digits, v);
  else
    snprintf(out, size, "%.1f", v);
  for (char *p = out; *p; p++) {
    if (memcmp(p, point, n < strlen(p) ? n : strlen(p)) != 0) continue;
    *p = '.';
    memmove(p + 1, p + n, strlen(p + n) + 1);
    return;
  }
}

double tir_decimal_read(const char *text) {
  char local[416], point[8];
  size_t n = decimal_point(point, sizeof point), k = 0;
  for (; *text && k + n < 400; text++) {
    if (*text != '.') {
      local[k++] = *text;
    } else {
      memcpy(local + k, point, n);
      k += n;
    }
  }
  local[k] = '\0';
  return strtod(local, NULL);
}
