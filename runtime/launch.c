/* launch: from arguments as a caller gives them to a call of the driver.
 *
 *   arguments --variant_for--> variant --pack--> slots --grid--> numbers --maps--> bytes --> ops->launch
 *
 * What an argument must be was written down as a rule when the kernel was loaded, so a launch compares and stores, and
 * looks at no string, takes no lock and allocates nothing. One exception: the text of a grid expression is compared
 * with the texts that were compiled before.
 *
 * Tensor maps (tensor_map.c) depend on the arguments' values. Arguments that have none, an odd stride perhaps, run a
 * kernel of a source without maps: a second variant of the same specialisation.
 *
 * A kernel that is compiled at run time is specialised as Triton does it: the key of a launch has one word for each
 * argument: its type, whether the address, the value or a descriptor's last extent is a multiple of 16, whether an
 * integer is 1, and the block shape and padding of a descriptor; also where the source states the type, for a stride of
 * 1 decides the speed of a kernel. The variant found by key then checks the arguments by its own rules, like one that
 * was compiled ahead: one mechanism for both. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"

enum {
  MAX_ARGS = TK_ARTIFACT_MAX_PARAMS,
  MAX_HIDDEN = TK_ARTIFACT_MAX_MAPS + 1, /* parameters of the entry that are no arguments */
  MAX_GRID_TEXTS = 32,
  PROBLEM_BYTES = 256
};

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

/* Rounds v to a binary format with the given sizes of exponent and mantissa: to nearest, ties to even, in any
   rounding mode of the thread. Every step is exact in double but the one that drops bits. */
static uint64_t round_to(double v, int exponent_bits, int mantissa_bits) {
  uint64_t sign = signbit(v) ? UINT64_C(1) << (exponent_bits + mantissa_bits) : 0;
  uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << mantissa_bits;
  if (isnan(v)) return sign | infinity | UINT64_C(1) << (mantissa_bits - 1);
  if (isinf(v)) return sign | infinity;
  int bias = (1 << (exponent_bits - 1)) - 1, exponent;
  double magnitude = fabs(v);
  frexp(magnitude, &exponent);
  exponent--;
  if (magnitude == 0 || exponent < 1 - bias) exponent = 1 - bias;
  if (exponent > bias) return sign | infinity;
  double scaled = ldexp(magnitude, mantissa_bits - exponent), whole = floor(scaled), rest = scaled - whole;
  if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) == 1)) whole += 1;
  uint64_t implicit = UINT64_C(1) << mantissa_bits, mantissa = (uint64_t)whole;
  /* A subnormal has no implicit bit and exponent field 0; a carry out of the mantissa raises the field as it should. */
  uint64_t field = mantissa < implicit ? 0 : (uint64_t)(exponent + bias);
  uint64_t bits = field ? (field << mantissa_bits) + (mantissa - implicit) : mantissa;
  return sign | (bits > infinity ? infinity : bits);
}

bool tk__encode_float(double v, tk_dtype t, uint64_t *bits) {
  switch (t) {
    case TK_f16: *bits = round_to(v, 5, 10); return true;
    case TK_bf16: *bits = round_to(v, 8, 7); return true;
    case TK_f32: {
      float f = (float)v;
      uint32_t low;
      memcpy(&low, &f, sizeof f);
      *bits = low;
      return true;
    }
    case TK_f64: memcpy(bits, &v, sizeof v); return true;
    default: return false;
  }
}

/* Does the integer fit in the type? v holds a u64 argument's bits if `is_u64`. */
static bool int_fits(int64_t v, bool is_u64, tk_dtype t) {
  int bits = (int)(8 * tk_dtype_bytes(t));
  if (is_u64) return t == TK_u64;
  switch (tk__class_of(t)) {
    case TK__BOOL: return v == 0 || v == 1;
    case TK__SINT: return bits == 64 || (v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1));
    case TK__UINT: return v >= 0 && (bits == 64 || v < INT64_C(1) << bits);
    default: return false;
  }
}

/* A descriptor's type as a signature has it, without dtype and block if there is none. Returns its length. */
static int descriptor_text(tk_dtype dtype, int rank, const int *block, int divisor, bool pads_nan, char *out,
                           size_t size) {
  int n = snprintf(out, size, "tensordesc");
  if (dtype) n += snprintf(out + n, size - (size_t)n, "<%s[", tk_dtype_name(dtype));
  for (int i = 0; i < rank; i++) n += snprintf(out + n, size - (size_t)n, "%s%d", i ? ", " : "", block[i]);
  if (dtype) n += snprintf(out + n, size - (size_t)n, "]>");
  if (divisor > 1) n += snprintf(out + n, size - (size_t)n, ":%d", divisor);
  if (pads_nan) n += snprintf(out + n, size - (size_t)n, ":nan");
  return n;
}

/* ---- refusals: all text is made here, off the path of a good launch ---------------------------------------------- */

static const char *kind_name(const tk_arg *a) {
  switch (a->kind) {
    case TK_ARG_BUFFER: return "buffer";
    case TK_ARG_ADDRESS: return "address";
    case TK_ARG_INT: return a->dtype ? tk_dtype_name(a->dtype) : "integer";
    case TK_ARG_FLOAT: return a->dtype ? tk_dtype_name(a->dtype) : "float";
    case TK_ARG_DESCRIPTOR: return "descriptor";
  }
  return "broken tk_arg";
}

static tk_status refuse(const tk__variant *v, int i, tk_status s, const char *fmt, ...) TK__PRINTF(4, 5);

/* "*f32", "i32", "tensordesc<f16[128, 64]>" */
static const char *type_text(const tk__rule *r, char *out, size_t size) {
  if (r->klass == TK__DESCRIPTOR)
    descriptor_text(r->dtype, r->param->rank, r->param->block, r->mask + 1, r->param->pads_nan, out, size);
  else
    snprintf(out, size, "%s%s", r->klass == TK__POINTER ? "*" : "", tk_dtype_name(r->dtype));
  return out;
}

static tk_status refuse(const tk__variant *v, int i, tk_status s, const char *fmt, ...) {
  char text[256], type[96];
  const tk__rule *r = &v->rules[i];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return tk__fail(v->kernel->module->cx, s, "argument %d of '%s' (%s: %s) %s", i + 1, v->kernel->name, r->name,
                  type_text(r, type, sizeof type), text);
}

static tk_status refuse_type(const tk__variant *v, int i, const tk_arg *a) {
  const tk__rule *r = &v->rules[i];
  if (a->kind == TK_ARG_INT && !a->dtype && (r->klass == TK__SINT || r->klass == TK__UINT || r->klass == TK__BOOL))
    return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "cannot hold %" PRId64, a->v.i);
  if (a->kind == TK_ARG_FLOAT && r->klass == TK__FLOAT && !a->dtype)
    return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "cannot be passed by value; pass f32 and convert in the kernel");
  return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "was given as %s", kind_name(a));
}

static tk_status refuse_value(const tk__variant *v, int i, uint64_t value) {
  const tk__rule *r = &v->rules[i];
  if (r->equals_one)
    return refuse(v, i, TK_SPECIALIZATION_MISMATCH, "must be 1, the kernel was compiled for that; it is %" PRId64,
                  (int64_t)value);
  if (r->klass == TK__POINTER)
    return refuse(v, i, TK_SPECIALIZATION_MISMATCH,
                  "must be aligned to %d bytes, the kernel was compiled for that; it is 0x%" PRIx64, r->mask + 1,
                  value);
  return refuse(v, i, TK_SPECIALIZATION_MISMATCH,
                "must be a multiple of %d, the kernel was compiled for that; it is %" PRId64, r->mask + 1,
                (int64_t)value);
}

static tk_status refuse_buffer(const tk__variant *v, int i, const tk_arg *a) {
  const tk_buffer *b = a->v.buffer;
  if (!b) return refuse(v, i, TK_INVALID_ARGUMENT, "is a NULL buffer");
  if (b->cx != v->kernel->module->cx) return refuse(v, i, TK_WRONG_CONTEXT, "is a buffer of another context");
  if (a->offset > b->bytes)
    return refuse(v, i, TK_OUT_OF_RANGE, "starts %zu bytes into a buffer of %zu", a->offset, b->bytes);
  return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "is a buffer of %s", tk_dtype_name(b->dtype));
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* The address that argument i, or the base of its descriptor, says. */
static tk_status pack_address(const tk__variant *v, int i, const tk_arg *a, uint64_t *slot) {
  if (a->kind == TK_ARG_BUFFER) {
    const tk_buffer *b = a->v.buffer;
    if (!b || b->cx != v->kernel->module->cx || a->offset > b->bytes || (b->dtype && b->dtype != v->rules[i].dtype))
      return refuse_buffer(v, i, a);
    *slot = b->address + a->offset;
  } else if (a->kind == TK_ARG_ADDRESS) {
    *slot = a->v.address;
  } else {
    return refuse_type(v, i, a);
  }
  return TK_OK;
}

/* Argument i as a descriptor: what the caller gave, or the whole of a described buffer. */
static tk_status descriptor_of(const tk__variant *v, int i, const tk_arg *a, tk_descriptor *out) {
  if (a->kind == TK_ARG_DESCRIPTOR) {
    if (!a->v.descriptor) return refuse(v, i, TK_INVALID_ARGUMENT, "is a NULL descriptor");
    *out = *a->v.descriptor;
    return TK_OK;
  }
  if (a->kind != TK_ARG_BUFFER)
    return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "was given as %s: pass tk_desc", kind_name(a));
  const tk_buffer *b = a->v.buffer;
  if (!b) return refuse_buffer(v, i, a);
  if (b->rank < 0)
    return refuse(v, i, TK_WRONG_ARGUMENT_TYPE,
                  "was given as a buffer without a shape: pass tk_desc, or describe it with tk_buffer_describe");
  *out = (tk_descriptor){.base = *a, .rank = b->rank};
  for (int k = 0; k < b->rank && k < TK_MAX_DESCRIPTOR_RANK; k++) {
    out->shape[k] = b->shape[k];
    out->strides[k] = b->strides[k];
  }
  return TK_OK;
}

/* The sizes and strides of a descriptor of the right rank, and that the elements lie inside of its buffer. */
static tk_status check_axes(const tk__variant *v, int i, const tk_descriptor *d) {
  int64_t bytes = (int64_t)tk_dtype_bytes(v->rules[i].dtype), last = 0, reach;
  for (int k = 0; k < d->rank; k++) {
    int64_t n = d->shape[k], stride = d->strides[k];
    if (n < 1 || n > INT32_MAX)
      return refuse(v, i, TK_BAD_DESCRIPTOR, "has %" PRId64 " elements along axis %d, not 1 .. 2^31 - 1", n, k);
    if (k == d->rank - 1 && n & v->rules[i].mask)
      return refuse(v, i, TK_SPECIALIZATION_MISMATCH,
                    "has %" PRId64 " elements along its last axis: no multiple of %d, the kernel was compiled for that",
                    n, v->rules[i].mask + 1);
    if (k == d->rank - 1 && stride != 1)
      return refuse(v, i, TK_BAD_DESCRIPTOR, "has a last stride of %" PRId64 ", not 1", stride);
    if (k < d->rank - 1 && (stride < 0 || stride % (TK_ARTIFACT_ALIGN / bytes) != 0))
      return refuse(v, i, TK_BAD_DESCRIPTOR,
                    "has a stride of %" PRId64 " elements at axis %d: in bytes no multiple of %d", stride, k,
                    TK_ARTIFACT_ALIGN);
    if (__builtin_mul_overflow(stride, n - 1, &reach) || __builtin_add_overflow(last, reach, &last))
      return refuse(v, i, TK_BAD_DESCRIPTOR, "has the stride %" PRId64 " at axis %d, which is too large", stride, k);
  }
  if (d->base.kind != TK_ARG_BUFFER) return TK_OK;
  size_t room = (d->base.v.buffer->bytes - d->base.offset) / (size_t)bytes;
  if ((uint64_t)last < room) return TK_OK;
  return refuse(v, i, TK_OUT_OF_RANGE,
                "needs elements up to number %" PRId64 " of a buffer that ends with number %" PRId64, last,
                (int64_t)room - 1);
}

/* Checks descriptor i and encodes it: address, extents, strides without the last. */
static tk_status pack_descriptor(const tk__variant *v, int i, const tk_arg *a, uint64_t *slot) {
  const tk__rule *r = &v->rules[i];
  tk_descriptor d;
  tk_status s = descriptor_of(v, i, a, &d);
  if (s == TK_OK) s = pack_address(v, i, &d.base, slot);
  if (s != TK_OK) return s;
  if (d.dtype && d.dtype != r->dtype)
    return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "is a descriptor of %s", tk_dtype_name(d.dtype));
  if (d.rank != r->param->rank) return refuse(v, i, TK_WRONG_ARGUMENT_TYPE, "was given with %d axes", d.rank);
  for (int k = 0; k < d.rank && d.block[0]; k++)
    if (d.block[k] != r->param->block[k])
      return refuse(v, i, TK_SPECIALIZATION_MISMATCH, "was given a block of %" PRId64 " elements along axis %d",
                    d.block[k], k);
  if (d.pads_nan && !r->param->pads_nan)
    return refuse(v, i, TK_SPECIALIZATION_MISMATCH, "was given with NaN outside, the kernel was compiled for zeros");
  if (*slot % TK_ARTIFACT_ALIGN != 0)
    return refuse(v, i, TK_BAD_DESCRIPTOR, "must be aligned to %d bytes; it is 0x%" PRIx64, TK_ARTIFACT_ALIGN, *slot);
  s = check_axes(v, i, &d);
  for (int k = 0; k < d.rank; k++) slot[1 + k] = (uint64_t)d.shape[k];
  for (int k = 0; k < d.rank - 1; k++) slot[1 + d.rank + k] = (uint64_t)d.strides[k];
  return s;
}

/* Checks argument i and encodes it into *slot. */
static tk_status pack_one(const tk__variant *v, int i, const tk_arg *a, uint64_t *slot) {
  const tk__rule *r = &v->rules[i];
  if (r->klass == TK__DESCRIPTOR) return pack_descriptor(v, i, a, slot);
  if (r->klass == TK__POINTER) {
    tk_status s = pack_address(v, i, a, slot);
    if (s != TK_OK) return s;
  } else if (a->kind == TK_ARG_INT) {
    if (r->klass == TK__FLOAT || (a->dtype && a->dtype != r->dtype)) return refuse_type(v, i, a);
    if (!int_fits(a->v.i, a->dtype == TK_u64 && a->v.i < 0, r->dtype)) return refuse_type(v, i, a);
    *slot = (uint64_t)a->v.i;
    if (r->equals_one && a->v.i != 1) return refuse_value(v, i, *slot);
  } else if (a->kind == TK_ARG_FLOAT) {
    if (r->klass != TK__FLOAT || (a->dtype && a->dtype != r->dtype)) return refuse_type(v, i, a);
    if (!tk__encode_float(a->v.f, r->dtype, slot)) return refuse_type(v, i, a);
    return TK_OK;
  } else {
    return refuse_type(v, i, a);
  }
  return *slot & r->mask ? refuse_value(v, i, *slot) : TK_OK;
}

static tk_status pack(const tk__variant *v, const tk_arg *args, uint64_t *slots) {
  for (int i = 0; i < v->n_args; i++) {
    tk_status s = pack_one(v, i, &args[i], &slots[v->rules[i].slot]);
    if (s != TK_OK) return s;
  }
  return TK_OK;
}

/* The parameters of the PTX entry: what is not folded, the tensor maps, what a persistent kernel has to know. */
static void list_passed(const tk__variant *v, tk__launch *l, uint64_t *slots, tk__map *maps) {
  int n = 0;
  for (int i = 0; i < v->n_args; i++)
    for (int k = 0; k < v->rules[i].n_slots && v->rules[i].passed; k++) l->passed[n++] = &slots[v->rules[i].slot + k];
  for (int i = 0; i < v->n_maps; i++) l->passed[n++] = maps[i].bytes;
  if (v->meta->persistent) l->passed[n++] = &l->programs;
}

/* ---- specialisation ---------------------------------------------------------------------------------------------- */

enum {
  KEY_DTYPE = 0x1f,
  KEY_DIVISIBLE = 0x20,
  KEY_ONE = 0x40,
  KEY_POINTER = 0x80,
  KEY_DESCRIPTOR = 0x100, /* no dtype, padding and block where the source states them */
  KEY_NAN = 0x200,
  KEY_BLOCK = 10, /* from that bit on, for each axis: its power of two, and 1 */
  KEY_AXIS = 5,
  AXIS_MASK = 0x1f,
  DIVISOR = 16
};
_Static_assert((int)TK_N_DTYPES <= (int)KEY_DTYPE, "a dtype fits in its part of a key");
_Static_assert(KEY_BLOCK + KEY_AXIS * TK_MAX_DESCRIPTOR_RANK <= 64, "a block fits in its part of a key");

static const tk__declared_param *declared_arg(const tk_kernel *k, int index) {
  for (int i = 0;; i++)
    if (k->declared->params[i].kind != TK_PARAM_CONSTEXPR && index-- == 0) return &k->declared->params[i];
}

static tk_status cannot_type(const tk_kernel *k, int i, const tk_arg *a, const char *what) {
  return tk__fail(k->module->cx, TK_WRONG_ARGUMENT_TYPE, "argument %d of '%s' (%s) was given as %s: %s", i + 1, k->name,
                  k->arg_names[i], kind_name(a), what);
}

/* The last extent of a tensor, as far as one was given: whether it fits is checked where it is packed. */
static int64_t last_extent(const tk_arg *a) {
  const tk_descriptor *d = a->kind == TK_ARG_DESCRIPTOR ? a->v.descriptor : NULL;
  const tk_buffer *b = a->kind == TK_ARG_BUFFER ? a->v.buffer : NULL;
  if (d && d->rank >= 1 && d->rank <= TK_MAX_DESCRIPTOR_RANK) return d->shape[d->rank - 1];
  return b && b->rank >= 1 ? b->shape[b->rank - 1] : 1;
}

/* The key of a descriptor; nothing but the divisibility if its type is in the source. */
static tk_status descriptor_key(const tk_kernel *k, int i, const tk__declared_param *p, const tk_arg *a,
                                uint64_t *key) {
  bool divisible = !p->no_specialize && last_extent(a) % DIVISOR == 0;
  *key = KEY_DESCRIPTOR | (divisible ? KEY_DIVISIBLE : 0);
  if (p->kind == TK_PARAM_DESCRIPTOR) {
    if (p->divisibility >= DIVISOR) *key = KEY_DESCRIPTOR;
    if (a->kind == TK_ARG_DESCRIPTOR || a->kind == TK_ARG_BUFFER) return TK_OK;
    return cannot_type(k, i, a, "it is a tensor descriptor; pass tk_desc");
  }
  const tk_descriptor *d = a->v.descriptor;
  if (p->typed) return cannot_type(k, i, a, p->kind == TK_PARAM_POINTER ? "it is a pointer" : "it is a scalar");
  if (!d) return cannot_type(k, i, a, "it is NULL");
  const tk_buffer *b = d->base.kind == TK_ARG_BUFFER ? d->base.v.buffer : NULL;
  tk_dtype t = d->dtype ? d->dtype : b ? b->dtype : TK_NO_DTYPE;
  if (!tk_dtype_bytes(t)) return cannot_type(k, i, a, "its element type is not known; set dtype");
  if (d->rank < 1 || d->rank > TK_MAX_DESCRIPTOR_RANK) return cannot_type(k, i, a, "it has no rank from 1 to 5");
  *key |= (uint64_t)((int)t | (d->pads_nan ? KEY_NAN : 0));
  for (int axis = 0; axis < d->rank; axis++) {
    int64_t n = d->block[axis];
    int log2 = n > 0 && n <= INT32_MAX ? __builtin_ctz((unsigned)n) : AXIS_MASK;
    if (log2 + 1 > AXIS_MASK || n != INT64_C(1) << log2)
      return cannot_type(k, i, a, "its block is not known, or no power of two; set block");
    *key |= (uint64_t)(log2 + 1) << (KEY_BLOCK + KEY_AXIS * axis);
  }
  return TK_OK;
}

/* The key of one argument. */
static tk_status key_of(const tk_kernel *k, int i, const tk__declared_param *p, const tk_arg *a, uint64_t *key) {
  if (a->kind == TK_ARG_DESCRIPTOR || p->kind == TK_PARAM_DESCRIPTOR) return descriptor_key(k, i, p, a, key);
  bool pointer = a->kind == TK_ARG_BUFFER || a->kind == TK_ARG_ADDRESS, free_value = !p->no_specialize;
  tk_dtype t = p->typed ? p->dtype : TK_NO_DTYPE;
  if (p->typed && pointer != (p->kind == TK_PARAM_POINTER))
    return cannot_type(k, i, a, pointer ? "it is a scalar" : "it is a pointer");
  if (pointer) {
    const tk_buffer *b = a->kind == TK_ARG_BUFFER ? a->v.buffer : NULL;
    if (a->kind == TK_ARG_BUFFER && !b) return cannot_type(k, i, a, "it is NULL");
    if (!t && b) t = b->dtype;
    if (!t)
      return cannot_type(k, i, a, "its element type is not known; use tk_buffer_describe or a type in the source");
    uint64_t address = b ? b->address + a->offset : a->v.address;
    *key = (uint64_t)(KEY_POINTER | (int)t | (free_value && address % DIVISOR == 0 ? KEY_DIVISIBLE : 0));
  } else if (a->kind == TK_ARG_INT) {
    if (p->typed && tk__class_of(t) == TK__FLOAT) return cannot_type(k, i, a, "it is a float");
    if (!t) t = a->dtype ? a->dtype : int_fits(a->v.i, false, TK_i32) ? TK_i32 : TK_i64;
    bool one = free_value && a->v.i == 1 && t != TK_i1;
    bool divisible = free_value && t != TK_i1 && a->v.i % DIVISOR == 0;
    *key = (uint64_t)((int)t | (one ? KEY_ONE : divisible ? KEY_DIVISIBLE : 0));
  } else {
    if (p->typed && tk__class_of(t) != TK__FLOAT) return cannot_type(k, i, a, "it is an integer");
    if (!t) t = a->dtype ? a->dtype : TK_f32;
    *key = (uint64_t)t;
  }
  return TK_OK;
}

/* "tensordesc<f16[128, 64]>:16:nan", or "tensordesc:16": as the source says */
static int key_descriptor(uint64_t key, char *out, size_t size) {
  int block[TK_MAX_DESCRIPTOR_RANK], rank = 0, divisor = key & KEY_DIVISIBLE ? DIVISOR : 1;
  tk_dtype dtype = (tk_dtype)(key & KEY_DTYPE);
  for (int log2; rank < TK_MAX_DESCRIPTOR_RANK; block[rank++] = 1 << log2)
    if ((log2 = (int)(key >> (KEY_BLOCK + KEY_AXIS * rank) & AXIS_MASK) - 1) < 0) break;
  return descriptor_text(dtype, rank, block, divisor, key & KEY_NAN, out, size);
}

/* "x=*f32:16,n=i32,k=i32:1", malloc'd */
static char *signature_of(const tk_kernel *k, const uint64_t *key) {
  size_t room = 1;
  for (int i = 0; i < k->n_args; i++) room += strlen(k->arg_names[i]) + 96;
  char *out = malloc(room), *at = out;
  if (!out) return NULL;
  *at = '\0';
  for (int i = 0; i < k->n_args; i++) {
    const char *comma = at > out ? "," : "";
    if (key[i] & KEY_DESCRIPTOR) {
      at += snprintf(at, room - (size_t)(at - out), "%s%s=", comma, k->arg_names[i]);
      at += key_descriptor(key[i], at, room - (size_t)(at - out));
      continue;
    }
    const char *pointer = !(key[i] & KEY_POINTER) ? "" : declared_arg(k, i)->is_const ? "*const " : "*";
    const char *hint = key[i] & KEY_ONE ? ":1" : key[i] & KEY_DIVISIBLE ? ":16" : "";
    int n = snprintf(at, room - (size_t)(at - out), "%s%s=%s%s%s", comma, k->arg_names[i], pointer,
                     tk_dtype_name((tk_dtype)(key[i] & KEY_DTYPE)), hint);
    at += n > 0 ? n : 0;
  }
  return out;
}

static tk__variant *variant_with(tk_kernel *k, const uint64_t *key) {
  tk__variant *v = atomic_load_explicit(&k->variants, memory_order_acquire);
  while (v && memcmp(v->key, key, (size_t)k->n_args * sizeof *key) != 0) v = v->next;
  return v;
}

static tk_status compile_for(tk_kernel *k, const uint64_t *key, tk__variant **out) {
  tk_status s = TK_OK;
  pthread_mutex_lock(&k->lock);
  *out = variant_with(k, key);
  if (!*out) {
    uint64_t *copy = malloc(((size_t)k->n_args + 1) * sizeof *copy);
    char *signature = signature_of(k, key);
    if (copy && signature) {
      memcpy(copy, key, (size_t)k->n_args * sizeof *copy);
      s = tk__variant_build(k, signature, copy, out);
    } else {
      free(copy);
      free(signature);
      s = tk__no_memory(k->module->cx);
    }
  }
  pthread_mutex_unlock(&k->lock);
  return s;
}

static tk_status wrong_count(const tk_kernel *k, int n_args) {
  return tk__fail(k->module->cx, TK_WRONG_ARGUMENT_COUNT, "'%s' takes %d, not %d", k->name, k->n_args, n_args);
}

tk_status tk__variant_for(tk_kernel *k, const tk_arg *args, int n_args, tk__variant **out) {
  if (n_args != k->n_args) return wrong_count(k, n_args);
  if (!k->module->is_source || k->module->options.signature) {
    *out = atomic_load_explicit(&k->variants, memory_order_acquire);
    return TK_OK;
  }
  uint64_t key[MAX_ARGS];
  if (n_args > MAX_ARGS) return wrong_count(k, n_args);
  for (int i = 0, p = 0; i < n_args; i++, p++) {
    while (k->declared->params[p].kind == TK_PARAM_CONSTEXPR) p++;
    tk_status s = key_of(k, i, &k->declared->params[p], &args[i], &key[i]);
    if (s != TK_OK) return s;
  }
  *out = variant_with(k, key);
  return *out ? TK_OK : compile_for(k, key, out);
}

/* ---- names of a launch ------------------------------------------------------------------------------------------- */

/* Launch arguments are numbered 0 .., then all parameters again, of which the constexprs are looked up. */
static int find_name(const void *user, const char *name, size_t len) {
  const tk_meta *meta = user;
  const tk__variant *v = meta->variant;
  for (int i = 0; i < v->n_args; i++)
    if (strlen(v->rules[i].name) == len && memcmp(v->rules[i].name, name, len) == 0) return i;
  for (int i = 0; i < v->meta->n_params; i++) {
    const tk_artifact_param *p = &v->meta->params[i];
    if (p->kind == TK_PARAM_CONSTEXPR && strlen(p->name) == len && memcmp(p->name, name, len) == 0)
      return v->n_args + i;
  }
  return -1;
}

static const char *buffer_member(const tk_buffer *b, tk__member member, int64_t index, int64_t *value) {
  if (!b || b->rank < 0) return "this buffer has no shape: use tk_buffer_describe";
  if (member == TK__NUMEL) {
    *value = 1;
    for (int i = 0; i < b->rank; i++) *value *= b->shape[i]; /* was checked when it was described */
    return NULL;
  }
  if (index < 0) index += b->rank;
  if (index < 0 || index >= b->rank) return "this buffer has fewer axes";
  *value = member == TK__SHAPE ? b->shape[index] : b->strides[index];
  return NULL;
}

static const char *descriptor_member(const tk_descriptor *d, tk__member member, int64_t index, int64_t *value) {
  if (member == TK__NUMEL) {
    *value = 1;
    for (int i = 0; i < d->rank; i++)
      if (__builtin_mul_overflow(*value, d->shape[i], value)) return "this tensor has more than 2^63 elements";
    return NULL;
  }
  if (index < 0) index += d->rank;
  if (index < 0 || index >= d->rank) return "this descriptor has fewer axes";
  *value = member == TK__SHAPE ? d->shape[index] : d->strides[index];
  return NULL;
}

static const char *value_of(const void *user, int slot, tk__member member, int64_t index, int64_t *value) {
  const tk_meta *meta = user;
  const tk__variant *v = meta->variant;
  *value = 0;
  if (slot >= v->n_args) {
    const tk_constant *c = &v->meta->params[slot - v->n_args].value;
    if (member != TK__VALUE || (c->kind != TK_CONSTANT_INT && c->kind != TK_CONSTANT_BOOL))
      return "this constexpr is no integer";
    *value = c->i;
    return NULL;
  }
  const tk_arg *a = &meta->args[slot];
  if (member != TK__VALUE && a->kind == TK_ARG_DESCRIPTOR)
    return descriptor_member(a->v.descriptor, member, index, value);
  if (member != TK__VALUE)
    return a->kind == TK_ARG_BUFFER ? buffer_member(a->v.buffer, member, index, value) : "this argument is no buffer";
  if (a->kind != TK_ARG_INT) return "this argument is no integer";
  if (a->dtype == TK_u64 && a->v.i < 0) return "this argument does not fit in a signed 64-bit integer";
  *value = a->v.i;
  return NULL;
}

tk__names tk__names_of(const tk_meta *meta) { return (tk__names){find_name, value_of, meta}; }

/* `name` or `name.shape[0]`, through the evaluator of expressions. */
int64_t tk_meta_int(const tk_meta *meta, const char *name) {
  int64_t out;
  char why[120];
  tk__expr e;
  tk__names names = tk__names_of(meta);
  if (name && tk__expr_compile(name, 1, &names, &e, why, sizeof why) && tk__expr_run(&e, &names, &out, why, sizeof why))
    return out;
  if (!*meta->problem)
    snprintf(meta->problem, PROBLEM_BYTES, "the grid function asked for '%.30s': %s", name ? name : "(null)",
             name ? why : "");
  return 0;
}

bool tk_meta_has(const tk_meta *meta, const char *name) { return name && find_name(meta, name, strlen(name)) >= 0; }

/* ---- grids ------------------------------------------------------------------------------------------------------- */

static tk_status bad_grid(const tk__variant *v, const char *text, const char *why) {
  return tk__fail(v->kernel->module->cx, TK_BAD_GRID, "'%s'%s%s%s: %s", v->kernel->name,
                  text ? " with the grid \"" : "", text ? text : "", text ? "\"" : "", why);
}

static const tk__grid_entry *known_grid(tk__variant *v, const char *text) {
  const tk__grid_entry *g = atomic_load_explicit(&v->grids, memory_order_acquire);
  while (g && strcmp(g->text, text) != 0) g = g->next;
  return g;
}

/* Compiles an expression into *e, and keeps it unless there are too many already (texts made anew for each launch). */
static tk_status compile_grid(tk__variant *v, const char *text, const tk__names *names, tk__expr *e) {
  char why[160];
  if (!tk__expr_compile(text, 3, names, e, why, sizeof why)) return bad_grid(v, text, why);
  pthread_mutex_lock(&v->kernel->lock);
  tk__grid_entry *head = atomic_load_explicit(&v->grids, memory_order_relaxed);
  int n = 0;
  for (const tk__grid_entry *g = head; g; g = g->next) n++;
  size_t size = strlen(text) + 1;
  tk__grid_entry *g = n < MAX_GRID_TEXTS && !known_grid(v, text) ? malloc(sizeof *g + size) : NULL;
  if (g) {
    g->expr = *e;
    memcpy(g->text, text, size);
    g->next = head;
    atomic_store_explicit(&v->grids, g, memory_order_release);
  }
  pthread_mutex_unlock(&v->kernel->lock);
  return TK_OK;
}

static tk_status grid_from_text(tk__variant *v, const char *text, const tk_meta *meta, int64_t out[3]) {
  char why[160];
  tk__expr fresh;
  tk__names names = tk__names_of(meta);
  const tk__grid_entry *known = known_grid(v, text);
  if (!known) {
    tk_status s = compile_grid(v, text, &names, &fresh);
    if (s != TK_OK) return s;
  }
  return tk__expr_run(known ? &known->expr : &fresh, &names, out, why, sizeof why) ? TK_OK : bad_grid(v, text, why);
}

static tk_status grid_from_numbers(const tk__variant *v, const tk_grid *g, int64_t out[3]) {
  if (g->dims < 1 || g->dims > 3)
    return bad_grid(v, NULL, "it has no numbers; make it with TK_GRID(x), TK_GRID(x, y) or TK_GRID(x, y, z)");
  for (int d = 0; d < 3; d++) out[d] = d < g->dims ? g->at[d] : 1;
  return TK_OK;
}

static tk_status grid_from_function(const tk__variant *v, const tk_grid *g, const tk_meta *meta, int64_t out[3]) {
  tk_grid made = g->fn(meta, g->user);
  if (*meta->problem) return bad_grid(v, NULL, meta->problem);
  if (made.expr || made.fn) return bad_grid(v, NULL, "a grid function must answer with numbers");
  return grid_from_numbers(v, &made, out);
}

/* Computes the grid; *empty if there is nothing to run. */
static tk_status grid_of(tk__variant *v, const tk_grid *g, const tk_arg *args, uint32_t out[3], bool *empty) {
  static const int64_t most[3] = {INT32_MAX, 65535, 65535};
  char problem[PROBLEM_BYTES] = "";
  int64_t n[3] = {1, 1, 1};
  tk_meta meta = {v, args, problem};
  tk_status s;
  if ((g->dims != 0) + (g->expr != NULL) + (g->fn != NULL) > 1)
    return bad_grid(v, g->expr, "there are also numbers or a function");
  if (g->fn) {
    s = grid_from_function(v, g, &meta, n);
  } else if (g->dims) {
    s = grid_from_numbers(v, g, n);
  } else if (g->expr || v->meta->grid) {
    s = grid_from_text(v, g->expr ? g->expr : v->meta->grid, &meta, n);
  } else {
    return bad_grid(v, NULL, "none was given, and the source has no @grid(...)");
  }
  if (s != TK_OK) return s;
  for (int d = 0; d < 3; d++) {
    if (n[d] < 0 || n[d] > most[d]) {
      snprintf(problem, sizeof problem, "%c is %" PRId64 ", and may be 0 .. %" PRId64 "%s", "xyz"[d], n[d], most[d],
               d && n[d] > 0 ? "; a long axis belongs in x" : "");
      return bad_grid(v, g->expr, problem);
    }
    out[d] = (uint32_t)n[d];
  }
  *empty = !n[0] || !n[1] || !n[2];
  return TK_OK;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static const tk_launch_opts default_opts = {0};

static tk_status check_call(const tk_kernel *k, const tk_launch_opts *o, const tk_arg *args, int n_args) {
  if (!k || n_args < 0 || (n_args && !args)) return TK_INVALID_ARGUMENT;
  if (o->stream && o->stream->cx != k->module->cx)
    return tk__fail(k->module->cx, TK_WRONG_CONTEXT, "the stream was made by another one");
  return TK_OK;
}

/* The arguments have no tensor maps: *instead runs them, or the failure says why nothing does. */
static tk_status without_maps(tk__variant *v, tk_status s, const tk__misfit *why, tk__variant **instead) {
  if (v->kernel->module->is_source) return tk__variant_without(v, TK__MAPS, instead);
  return tk__fail(v->kernel->module->cx, s,
                  "'%s' copies the tensor behind argument '%s' through a tensor map: %s. Compile it with "
                  "--no-tensor-maps.",
                  v->kernel->name, why->param, why->text);
}

/* Launches. Other threads find the maps gone meanwhile, and make their own. */
static tk_status launch_with_maps(tk__variant *v, tk__launch *l, uint64_t *slots, tk__variant **instead) {
  tk__map own[TK_ARTIFACT_MAX_MAPS];
  tk__map *kept = atomic_exchange_explicit(&v->kept, NULL, memory_order_acquire), *maps = kept ? kept : own;
  tk_context *cx = v->kernel->module->cx;
  tk__misfit why;
  for (int i = 0; i < v->n_maps && !kept; i++) own[i].made = false;
  tk_status s = tk__maps_make(v, slots, l->args, maps, &why);
  bool made = s == TK_OK;
  list_passed(v, l, slots, maps);
  if (made) s = cx->ops->launch(cx, l);
  if (kept) atomic_store_explicit(&v->kept, kept, memory_order_release);
  return made ? s : without_maps(v, s, &why, instead);
}

/* Whether programs of a gang would be alone in their blocks. */
static bool is_lonely(const tk__variant *v, const uint32_t grid[3]) {
  return v->meta->gang > 1 && grid[0] == 1 && v->kernel->module->is_source;
}

/* *instead is set, and nothing launched, if that variant has to run. */
static tk_status launch_variant(tk__variant *v, const tk_launch_opts *o, const tk_arg *args, tk__variant **instead) {
  uint64_t slots[MAX_ARGS];
  void *passed[MAX_ARGS + MAX_HIDDEN];
  bool empty;
  tk_context *cx = v->kernel->module->cx;
  tk__launch l = {.variant = v, .passed = passed, .slots = slots, .args = args, .stream = o->stream};
  *instead = NULL;
  tk_status s = pack(v, args, slots);
  if (s == TK_OK) s = grid_of(v, &o->grid, args, l.grid, &empty);
  if (s != TK_OK || empty) return s;
  if (is_lonely(v, l.grid)) return tk__variant_without(v, TK__GANG, instead);
  if (v->n_maps) return launch_with_maps(v, &l, slots, instead);
  list_passed(v, &l, slots, NULL);
  return cx->ops->launch(cx, &l);
}

tk_status tk_launch(tk_kernel *k, const tk_launch_opts *options, const tk_arg *args, int n_args) {
  tk__variant *v = NULL, *instead = NULL;
  const tk_launch_opts *o = options ? options : &default_opts;
  tk_status s = check_call(k, o, args, n_args);
  if (s == TK_OK) s = tk__variant_for(k, args, n_args, &v);
  for (; s == TK_OK && v; v = instead) s = launch_variant(v, o, args, &instead);
  return s;
}

struct tk_prepared {
  tk_context *cx;
  tk_kernel *kernel;
  tk_grid grid; /* expr is owned */
  int n_args;
  bool empty;
  tk__launch launch; /* points at the arrays below */
  tk_arg *args;
  tk_descriptor *descriptors; /* what args point at */
  uint64_t *slots;
  void **passed;
  tk__map maps[TK_ARTIFACT_MAX_MAPS];
};

/* Variants of one kernel may take descriptors of different ranks. */
static size_t prepared_slots(size_t n_args) {
  size_t most = n_args * 2 * TK_MAX_DESCRIPTOR_RANK;
  return most < MAX_ARGS ? most : MAX_ARGS;
}

/* Keeps arguments with the descriptors that they point at, which may be its own already. */
static void keep_args(tk_prepared *p, const tk_arg *args) {
  for (int i = 0; i < p->n_args; i++) {
    p->args[i] = args[i];
    if (args[i].kind != TK_ARG_DESCRIPTOR) continue;
    p->descriptors[i] = *args[i].v.descriptor;
    p->args[i].v.descriptor = &p->descriptors[i];
  }
}

/* Checks everything for `args` and, if all is well, makes the prepared launch run with them. *instead as above. */
static tk_status prepare_variant(tk_prepared *p, tk__variant *v, const tk_arg *args, tk__variant **instead) {
  uint64_t slots[MAX_ARGS];
  uint32_t grid[3];
  tk__map maps[TK_ARTIFACT_MAX_MAPS];
  tk__misfit why;
  bool empty;
  size_t n_maps = (size_t)v->n_maps;
  *instead = NULL;
  tk_status s = pack(v, args, slots);
  if (s == TK_OK) s = grid_of(v, &p->grid, args, grid, &empty);
  if (s != TK_OK) return s;
  if (!empty && is_lonely(v, grid)) return tk__variant_without(v, TK__GANG, instead);
  memcpy(maps, p->maps, sizeof *maps * n_maps);
  for (size_t i = 0; i < n_maps && v != p->launch.variant; i++) maps[i].made = false;
  s = empty ? TK_OK : tk__maps_make(v, slots, args, maps, &why);
  if (s != TK_OK) return without_maps(v, s, &why, instead);
  p->empty = empty;
  p->launch.variant = v;
  memcpy(p->launch.grid, grid, sizeof grid);
  memcpy(p->maps, maps, sizeof *maps * n_maps);
  if (p->n_args) {
    keep_args(p, args);
    memcpy(p->slots, slots, sizeof *slots * (size_t)v->n_slots);
  }
  list_passed(v, &p->launch, p->slots, p->maps);
  return TK_OK;
}

static tk_status prepare(tk_prepared *p, const tk_arg *args) {
  tk__variant *v = NULL, *instead = NULL;
  tk_status s = tk__variant_for(p->kernel, args, p->n_args, &v);
  for (; s == TK_OK && v; v = instead) s = prepare_variant(p, v, args, &instead);
  return s;
}

tk_status tk_launch_prepare(tk_kernel *k, const tk_launch_opts *options, const tk_arg *args, int n_args,
                            tk_prepared **out) {
  const tk_launch_opts *o = options ? options : &default_opts;
  if (out) *out = NULL;
  if (!out) return TK_INVALID_ARGUMENT;
  tk_status s = check_call(k, o, args, n_args);
  if (s != TK_OK) return s;
  if (n_args != k->n_args) return wrong_count(k, n_args);
  tk_context *cx = k->module->cx;
  size_t n = (size_t)n_args, slots = prepared_slots(n), text = o->grid.expr ? strlen(o->grid.expr) + 1 : 0,
         align = _Alignof(tk_prepared);
  size_t size = sizeof(tk_prepared) + n * (sizeof(tk_arg) + sizeof(tk_descriptor)) +
                slots * (sizeof(uint64_t) + sizeof(void *)) + MAX_HIDDEN * sizeof(void *) + text;
  tk_prepared *p = aligned_alloc(align, (size + align - 1) / align * align);
  if (!p) return tk__no_memory(cx);
  memset(p, 0, size);
  p->cx = cx;
  p->kernel = k;
  p->grid = o->grid;
  p->n_args = n_args;
  p->args = (tk_arg *)(void *)(p + 1);
  p->descriptors = (tk_descriptor *)(void *)(p->args + n);
  p->slots = (uint64_t *)(void *)(p->descriptors + n);
  p->passed = (void **)(void *)(p->slots + slots);
  if (text) p->grid.expr = memcpy(p->passed + slots + MAX_HIDDEN, o->grid.expr, text);
  p->launch = (tk__launch){.passed = p->passed, .slots = p->slots, .args = p->args, .stream = o->stream};
  s = prepare(p, args);
  if (s != TK_OK) {
    free(p);
    return s;
  }
  atomic_fetch_add(&cx->n_prepared, 1);
  *out = p;
  return TK_OK;
}

tk_status tk_prepared_set(tk_prepared *p, int index, tk_arg arg) {
  tk_arg args[MAX_ARGS];
  if (!p) return TK_INVALID_ARGUMENT;
  if (index < 0 || index >= p->n_args)
    return tk__fail(p->cx, TK_INVALID_ARGUMENT, "argument number %d, where '%s' has %d", index, p->kernel->name,
                    p->n_args);
  memcpy(args, p->args, sizeof *args * (size_t)p->n_args);
  args[index] = arg;
  return prepare(p, args);
}

tk_status tk_prepared_run(tk_prepared *p) {
  if (!p) return TK_INVALID_ARGUMENT;
  return p->empty ? TK_OK : p->cx->ops->launch(p->cx, &p->launch);
}

void tk_prepared_free(tk_prepared *p) {
  if (!p) return;
  atomic_fetch_sub(&p->cx->n_prepared, 1);
  free(p);
}

tk_context *tk__prepared_context(const tk_prepared *p) { return p->cx; }
tk_stream *tk__prepared_stream(const tk_prepared *p) { return p->launch.stream; }
