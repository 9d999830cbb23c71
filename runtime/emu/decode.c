/* A mnemonic and its operands to one decoded instruction.
 *
 * The rows of isa.def whose name is the longest prefix of the mnemonic are tried in order; each remaining word must be
 * a type that the row takes, or a modifier of a group that it takes and that has not been given yet. Nothing is
 * skipped: a word that no row takes is named in the error. When several rows fail, the message is that of the row that
 * came furthest. */
#include "runtime/emu/internal.h"

#include <stdio.h>
#include <string.h>

#define T(id) ((uint64_t)1 << EMU_T_##id)
#define G(id) ((uint32_t)1 << EMU_G_##id)
#define F(id) EMU_FLAG(id)
#define T_BITS (T(B16) | T(B32) | T(B64))
#define T_INT (T(U16) | T(U32) | T(U64) | T(S16) | T(S32) | T(S64))
#define T_INT8 (T(U8) | T(S8) | T(B8))
#define T_FLT (T(F16) | T(BF16) | T(F32) | T(F64))
#define T_FLT16 (T(F16) | T(BF16) | T(F16X2) | T(BF16X2))
#define T_FLTM (T_FLT | T(F16X2) | T(BF16X2))
#define T_FLTP (T_FLTM | T(F32X2))
#define T_ATOM (T_BITS | T(U32) | T(U64) | T(S32) | T(S64) | T(F16) | T(BF16) | T(F16X2) | T(BF16X2) | T(F32) | T(F64))
#define G_LDST (G(SEM) | G(SCOPE) | G(SPACE) | G(CACHE) | G(L1) | G(L2EVICT) | G(L2FETCH) | G(VEC))

#define C(class) EMU_C_##class
const uint8_t emu__type_bits[EMU_NTYPES] = {
    0,
#define TYPE(id, text, bits, class) bits,
#include "runtime/emu/types.def"
#undef TYPE
};
const uint8_t emu__type_class[EMU_NTYPES] = {
    0,
#define TYPE(id, text, bits, class) C(class),
#include "runtime/emu/types.def"
#undef TYPE
};
const char *const emu__type_name[EMU_NTYPES] = {
    "",
#define TYPE(id, text, bits, class) text,
#include "runtime/emu/types.def"
#undef TYPE
};
const char *const emu__sreg_name[EMU_NSREGS] = {
#define SREG(id, name, bits) name,
#include "runtime/emu/sregs.def"
#undef SREG
};
const uint8_t emu__sreg_bits[EMU_NSREGS] = {
#define SREG(id, name, bits) bits,
#include "runtime/emu/sregs.def"
#undef SREG
};
const char *const emu__op_name[EMU_NOPS] = {
#define INS(id, name, opds, types, ntypes, groups, need, flags, handler) name,
#include "runtime/emu/isa.def"
#undef INS
};

static const struct {
  const char *text;
  uint32_t groups;
} mods[EMU_NMODS] = {
    {"", 0},
#define MOD(id, text, groups) {text, groups},
#include "runtime/emu/mods.def"
#undef MOD
};

typedef struct row {
  const char *name, *opds;
  uint64_t types, flags;
  uint32_t groups, need;
  uint8_t ntypes;
  emu_handler *run;
} row;

static const row rows[EMU_NOPS] = {
#define INS(id, name, opds, types, ntypes, groups, need, flags, handler) \
  {name, opds, types, flags, groups, need, ntypes, emu__x_##handler},
#include "runtime/emu/isa.def"
#undef INS
};

emu_type emu__type_by_name(const char *text, size_t n) {
  for (int k = 1; k < EMU_NTYPES; k++)
    if (strlen(emu__type_name[k]) == n && memcmp(emu__type_name[k], text, n) == 0) return (emu_type)k;
  return EMU_T_NONE;
}

static emu_mod mod_by_name(const char *text, size_t n) {
  for (int k = 1; k < EMU_NMODS; k++)
    if (strlen(mods[k].text) == n && memcmp(mods[k].text, text, n) == 0) return (emu_mod)k;
  return EMU_M_NONE;
}

/* m64nNkK */
static bool wide_shape(const char *w, size_t n, emu_ins *i) {
  char text[16];
  unsigned cols, depth;
  int end = 0;
  if (n < 7 || n >= sizeof text || memcmp(w, "m64n", 4) != 0) return false;
  memcpy(text, w, n);
  text[n] = '\0';
  if (sscanf(text, "m64n%3uk%2u%n", &cols, &depth, &end) != 2 || (size_t)end != n) return false;
  if (cols == 0 || cols > 256 || cols % 8 != 0 || (depth != 8 && depth != 16 && depth != 32)) return false;
  i->wide_n = (uint16_t)cols;
  i->wide_k = (uint16_t)depth;
  return true;
}

static bool take_word(const row *r, const char *w, size_t n, emu_ins *i, uint32_t *given, char *msg, size_t cap) {
  emu_type t = emu__type_by_name(w, n);
  if (t != EMU_T_NONE) {
    if (!(r->types & (uint64_t)1 << t) || i->ntypes == r->ntypes) {
      snprintf(msg, cap, "'%s' does not take type '.%s' here", r->name, emu__type_name[t]);
      return false;
    }
    i->type[i->ntypes++] = (uint8_t)t;
    return true;
  }
  emu_mod k = wide_shape(w, n, i) ? EMU_M_M64 : mod_by_name(w, n);
  if (k == EMU_M_NONE) {
    snprintf(msg, cap, "modifier '.%.*s' of '%s' is not known", (int)(n < 80 ? n : 80), w, r->name);
    return false;
  }
  if ((mods[k].groups & G(FLAG)) && (r->flags & (uint64_t)1 << (k - EMU_M_FTZ)) &&
      !(i->flags & (uint64_t)1 << (k - EMU_M_FTZ))) {
    i->flags |= (uint64_t)1 << (k - EMU_M_FTZ);
    return true;
  }
  for (int g = 0; g < EMU_G_FLAG; g++) {
    uint32_t bit = (uint32_t)1 << g;
    if (!(mods[k].groups & r->groups & bit) || (*given & bit)) continue;
    *given |= bit;
    i->mod[g] = (uint8_t)k;
    return true;
  }
  snprintf(msg, cap, "'%s' does not take modifier '.%s' here", r->name, mods[k].text);
  return false;
}

static bool is_source(const emu_opd *o) {
  return (o->kind == EMU_O_REG || o->kind == EMU_O_IMM || o->kind == EMU_O_SREG || o->kind == EMU_O_LOCAL_FRAME) &&
         !o->neg && !o->pair;
}

static bool vector_of(const emu_module *m, const emu_opd *o, bool written) {
  for (unsigned k = 0; k < o->n; k++) {
    uint8_t kind = m->pool[o->first + k].kind;
    if (written ? kind != EMU_O_REG && kind != EMU_O_SINK : kind != EMU_O_REG && kind != EMU_O_IMM) return false;
  }
  return true;
}

static bool matches(const emu_module *m, char c, const emu_opd *o) {
  switch (c) {
    case 'd': return (o->kind == EMU_O_REG || o->kind == EMU_O_SINK) && !o->neg && !o->pair;
    case 'q': return (o->kind == EMU_O_REG || o->kind == EMU_O_SINK) && !o->neg && o->pair;
    case 's': return is_source(o);
    case 'p': return o->kind == EMU_O_REG && o->bits == 1 && !o->pair;
    case 'm': return o->kind == EMU_O_MEM && o->n == 0 && !o->pair;
    case 't': return o->kind == EMU_O_MEM && o->n > 0 && !o->pair;
    case 'i': return o->kind == EMU_O_IMM && !o->symbolic && !o->pair && o->lit == 'i';
    case 'L':
    case 'T': return o->kind == EMU_O_LABEL && !o->pair;
    case 'v': return (o->kind == EMU_O_VEC && vector_of(m, o, true)) || matches(m, 'd', o);
    case 'V': return (o->kind == EMU_O_VEC && vector_of(m, o, false)) || is_source(o);
    default: return false;
  }
}

/* Holds the operands against the row's letters; a missing 'q' becomes a sink so that handlers find the others in place.
 */
static bool take_operands(const emu_module *m, const row *r, emu_ins *i, char *msg, size_t cap) {
  bool optional = false;
  unsigned at = 0;
  for (const char *c = r->opds; *c != '\0'; c++) {
    if (*c == '?') {
      optional = true;
      continue;
    }
    if (*c == 'q' && !(at < i->nopd && i->opd[at].pair)) {
      if (i->nopd == EMU_MAX_OPERANDS) break;
      memmove(&i->opd[at + 1], &i->opd[at], (i->nopd - at) * sizeof i->opd[0]);
      i->opd[at] = (emu_opd){.kind = EMU_O_SINK, .pair = true};
      i->nopd++;
    }
    if (at >= i->nopd) {
      if (optional) return true;
      snprintf(msg, cap, "'%s' has too few operands", r->name);
      return false;
    }
    if (!matches(m, *c, &i->opd[at])) {
      snprintf(msg, cap, "operand %u of '%s' is of the wrong kind", at + 1, r->name);
      return false;
    }
    at++;
  }
  if (at < i->nopd) {
    snprintf(msg, cap, "'%s' has too many operands", r->name);
    return false;
  }
  return true;
}

static unsigned vector_length(const emu_ins *i) {
  switch (i->mod[EMU_G_VEC]) {
    case EMU_M_V2: return 2;
    case EMU_M_V4: return 4;
    case EMU_M_V8: return 8;
    default: return 1;
  }
}

static const char *check_memory(const emu_ins *i) {
  unsigned n = vector_length(i), bytes = n * emu__type_bits[i->type[0]] / 8;
  bool store = i->op == EMU_I_ST;
  const emu_opd *data = &i->opd[store ? 1 : 0];
  unsigned space = i->mod[EMU_G_SPACE];
  if (emu__count(data) != n) return "the number of data registers does not match the vector modifier";
  if (bytes > 32) return "a vector access has at most 32 bytes";
  if (store && (space == EMU_M_CONST || space == EMU_M_PARAMENTRY)) return "a store cannot go to this space";
  if ((i->flags & F(NC)) && space != EMU_M_GLOBAL && space != 0) return ".nc needs .global";
  bool hint = (i->flags & F(CACHE_HINT)) != 0;
  if (i->nopd != 2u + hint) return "operand for a cache policy and .L2::cache_hint must come together";
  unsigned sem = i->mod[EMU_G_SEM];
  if (store ? sem == EMU_M_ACQUIRE : sem == EMU_M_RELEASE)
    return "memory order does not fit the direction of the access";
  if (sem == EMU_M_ACQ_REL || sem == EMU_M_SC) return "a load or store cannot have this memory order";
  return NULL;
}

static const char *check_atomic(const emu_ins *i) {
  unsigned op = i->mod[EMU_G_AOP], n = vector_length(i);
  uint64_t t = (uint64_t)1 << i->type[0];
  bool red = i->op == EMU_I_RED;
  bool hint = (i->flags & F(CACHE_HINT)) != 0, cas = op == EMU_M_CAS;
  const emu_opd *data = &i->opd[red ? 1 : 2];
  if (emu__count(data) != n || (!red && emu__count(&i->opd[0]) != n)) return "the number of registers does not match";
  if (i->nopd != (red ? 2u : 3u) + cas + hint) return "wrong number of operands";
  if (cas && red) return "'red' has no .cas";
  if (red && op == EMU_M_EXCH) return "'red' has no .exch";
  if (n > 1 && (cas || n * emu__type_bits[i->type[0]] > 128 || emu__type_class[i->type[0]] < EMU_C_FLT))
    return "this atomic has no vector form";
  uint64_t ok = 0;
  switch (op) {
    case EMU_M_ADD: ok = T(U32) | T(U64) | T(S32) | T(S64) | T_FLTM; break;
    case EMU_M_MIN:
    case EMU_M_MAX: ok = T(U32) | T(U64) | T(S32) | T(S64) | T_FLT16; break;
    case EMU_M_INC:
    case EMU_M_DEC: ok = T(U32); break;
    case EMU_M_AND:
    case EMU_M_OR:
    case EMU_M_XOR: ok = T(B32) | T(B64); break;
    case EMU_M_EXCH: ok = T(B32) | T(B64); break;
    case EMU_M_CAS: ok = T(B16) | T(B32) | T(B64); break;
    default: break;
  }
  if (!(ok & t)) return "this atomic operation does not exist for this type";
  return NULL;
}

static const char *check_convert(const emu_ins *i) {
  emu_type d = (emu_type)i->type[0], s = (emu_type)i->type[1];
  unsigned r = i->mod[EMU_G_RND];
  bool df = emu__type_class[d] == EMU_C_FLT, sf = emu__type_class[s] == EMU_C_FLT;
  bool integral = r == EMU_M_RNI || r == EMU_M_RZI || r == EMU_M_RMI || r == EMU_M_RPI;
  if (d == EMU_T_B8 || s == EMU_T_B8 || s == EMU_T_TF32) return "this conversion does not exist";
  if (d == EMU_T_TF32)
    return s == EMU_T_F32 && (r == EMU_M_RN || r == EMU_M_RZ || r == EMU_M_RNA)
               ? NULL
               : "cvt to .tf32 needs .rn, .rz or .rna and an .f32 source";
  if (r == EMU_M_RNA) return ".rna exists for .tf32 only";
  if (!df && sf && !integral) return "a conversion from float to integer needs .rni, .rzi, .rmi or .rpi";
  if (df && sf && integral && emu__type_bits[d] != emu__type_bits[s])
    return "rounding to an integral value keeps the type";
  if (df && sf && r == 0 && emu__type_bits[d] < emu__type_bits[s])
    return "a narrowing conversion needs a rounding mode";
  if (df && !sf && (r == 0 || integral)) return "a conversion from integer to float needs .rn, .rz, .rm or .rp";
  if (!df && !sf && r != 0) return "a conversion between integers has no rounding mode";
  return NULL;
}

static const char *check_packed(const emu_ins *i) {
  emu_type d = (emu_type)i->type[0], s = (emu_type)i->type[1];
  unsigned r = i->mod[EMU_G_RND];
  bool fp8 = d == EMU_T_E4M3X2 || d == EMU_T_E5M2X2;
  if (i->op == EMU_I_CVT_PACKED) {
    if (s != EMU_T_F32 || d == EMU_T_F32) return "this conversion does not exist";
    if (fp8 && (r != EMU_M_RN || !(i->flags & F(SATFINITE)))) return "a conversion to 8-bit floats needs .rn.satfinite";
    if (r != EMU_M_RN && r != EMU_M_RZ) return "a packed conversion rounds by .rn or .rz";
    return NULL;
  }
  if (r != EMU_M_RN) return "this conversion needs .rn";
  if (fp8)
    return s == EMU_T_F16X2 && (i->flags & F(SATFINITE)) ? NULL
                                                         : "a conversion to 8-bit floats needs .satfinite and .f16x2";
  return d == EMU_T_F16X2 && s != EMU_T_F16X2 && !(i->flags & F(SATFINITE)) ? NULL : "this conversion does not exist";
}

static unsigned operand_bits(const emu_module *m, const emu_opd *o, unsigned whole) {
  unsigned n = 0, free = 0;
  if (o->kind != EMU_O_VEC) return whole;
  for (unsigned k = 0; k < o->n; k++) {
    const emu_opd *e = &m->pool[o->first + k];
    if (e->kind == EMU_O_REG)
      n += e->bits;
    else
      free++;
  }
  return free > 0 ? whole : n;
}

static const char *check_move(const emu_module *m, const emu_ins *i) {
  unsigned bits = emu__type_bits[i->type[0]];
  const emu_opd *d = &i->opd[0], *s = &i->opd[1];
  if (d->kind == EMU_O_VEC && s->kind == EMU_O_VEC) return "'mov' packs or unpacks, not both";
  const emu_opd *v = d->kind == EMU_O_VEC ? d : s;
  if (v->kind == EMU_O_VEC && (bits % v->n != 0 || bits / v->n < 8 || operand_bits(m, v, bits) != bits))
    return "the elements do not fill the type";
  return NULL;
}

static const char *check_sync(const emu_ins *i) {
  if (!(i->flags & F(SYNC)) || !(i->flags & F(ALIGNED))) return "'.sync.aligned' is missing";
  return NULL;
}

static const char *check_matrix(const emu_ins *i) {
  unsigned c = i->mod[EMU_G_COUNT], n = c == EMU_M_X1 ? 1 : c == EMU_M_X2 ? 2 : 4;
  const emu_opd *v = &i->opd[i->op == EMU_I_LDMATRIX ? 0 : 1];
  unsigned s = i->mod[EMU_G_SPACE];
  if (i->mod[EMU_G_SHAPE] != EMU_M_M8N8) return "only .m8n8 is supported";
  if (s != 0 && s != EMU_M_SHARED && s != EMU_M_SHAREDCTA) return "matrices are in shared memory";
  if (emu__count(v) != n) return "the number of registers does not match";
  return check_sync(i);
}

static const char *check_mma(const emu_ins *i) {
  unsigned shape = i->mod[EMU_G_SHAPE];
  emu_type d = (emu_type)i->type[0], a = (emu_type)i->type[1], b = (emu_type)i->type[2], c = (emu_type)i->type[3];
  if (!(i->flags & F(ROW)) || !(i->flags & F(COL))) return "only .row.col is supported";
  if (shape == EMU_M_M8N8 || shape == EMU_M_M64) return "this shape is not supported";
  unsigned k = emu__mma_depth(shape), height = emu__mma_rows(shape);
  bool integer = (a == EMU_T_S8 || a == EMU_T_U8) && (b == EMU_T_S8 || b == EMU_T_U8);
  bool fp8 = (a == EMU_T_E4M3 || a == EMU_T_E5M2) && (b == EMU_T_E4M3 || b == EMU_T_E5M2);
  bool half = a == b && (a == EMU_T_F16 || a == EMU_T_BF16), tf32 = a == b && a == EMU_T_TF32;
  bool f64 = a == b && a == EMU_T_F64;
  bool ok = (half && (k == 8 || k == 16)) || (tf32 && (k == 4 || k == 8)) || ((integer || fp8) && (k == 16 || k == 32));
  if (f64) ok = k <= 16;
  if (height == 8) ok = (f64 && k == 4) || (integer && k == 16);
  bool acc16 = d == EMU_T_F16 && c == EMU_T_F16 && (a == EMU_T_F16 || fp8);
  if (integer)
    ok = ok && d == EMU_T_S32 && c == EMU_T_S32;
  else if (f64)
    ok = ok && d == EMU_T_F64 && c == EMU_T_F64;
  else
    ok = ok && ((d == EMU_T_F32 && c == EMU_T_F32) || acc16);
  if (!ok) return "this combination of shape and types is not supported";
  if ((i->flags & F(SATFINITE)) && !integer) return ".satfinite is for integers";
  unsigned bits = f64 ? 32 : emu__type_bits[a]; /* an f64 has a register of its own, as a 32-bit element does */
  unsigned na = height * k * bits / 1024, nb = 8 * k * bits / 1024, nc = acc16 ? 2 : height / 4;
  if (emu__count(&i->opd[0]) != nc || emu__count(&i->opd[1]) != na || emu__count(&i->opd[2]) != nb ||
      emu__count(&i->opd[3]) != nc)
    return "the number of registers does not match the shape";
  return check_sync(i);
}

static const char *check_wgmma(const emu_module *m, const emu_ins *i) {
  emu_type d = (emu_type)i->type[0], a = (emu_type)i->type[1], b = (emu_type)i->type[2];
  bool integer = i->op == EMU_I_WGMMA_INT, half = a == EMU_T_F16 || a == EMU_T_BF16;
  bool fp8 = (a == EMU_T_E4M3 || a == EMU_T_E5M2) && (b == EMU_T_E4M3 || b == EMU_T_E5M2);
  bool bytes = (a == EMU_T_S8 || a == EMU_T_U8) && (b == EMU_T_S8 || b == EMU_T_U8);
  if (i->mod[EMU_G_SHAPE] != EMU_M_M64) return "the shape must be m64nNkK";
  bool types = integer ? bytes && d == EMU_T_S32 : fp8 || (a == b && (half || a == EMU_T_TF32));
  if (!integer && d != EMU_T_F32 && !(d == EMU_T_F16 && (a == EMU_T_F16 || fp8))) types = false;
  if (!types || i->wide_k * emu__type_bits[a] != 256) return "this combination of shape and types does not exist";
  if (emu__count(&i->opd[0]) != i->wide_n / (d == EMU_T_F16 ? 4u : 2u))
    return "the number of registers does not match the shape";
  if (i->opd[0].kind != EMU_O_VEC || (i->opd[1].kind == EMU_O_VEC && i->opd[1].n != 4))
    return "A is a descriptor or four registers";
  for (unsigned v = 0; v < 2; v++)
    for (unsigned k = 0; i->opd[v].kind == EMU_O_VEC && k < i->opd[v].n; k++)
      if (m->pool[i->opd[v].first + k].kind != EMU_O_REG) return "fragments are held in registers";
  if (!integer && i->nopd != (half ? (i->opd[1].kind == EMU_O_VEC ? 7u : 8u) : 6u))
    return "16-bit types, and only they, say whether operands are transposed";
  for (unsigned k = 4; k < i->nopd; k++)
    if (k < 6 ? i->opd[k].imm != 1 && i->opd[k].imm != UINT64_MAX : i->opd[k].imm > 1)
      return "a scale is 1 or -1, a transposition 0 or 1";
  return check_sync(i);
}

static const char *check_copy(const emu_ins *i) {
  unsigned dst = i->mod[EMU_G_SPACE], c = i->mod[EMU_G_CACHE];
  uint64_t size = i->opd[2].imm;
  if ((dst != EMU_M_SHARED && dst != EMU_M_SHAREDCTA) || i->mod[EMU_G_SPACE2] != EMU_M_GLOBAL)
    return "cp.async goes from .global to .shared";
  if (c != EMU_M_CA && c != EMU_M_CG) return "cp.async needs .ca or .cg";
  if (c == EMU_M_CG ? size != 16 : size != 4 && size != 8 && size != 16) return "bad size of a copy";
  if ((i->flags & F(CACHE_HINT)) && i->nopd < 4) return "the cache policy is missing";
  if (!(i->flags & F(CACHE_HINT)) && i->nopd == 5) return "a cache policy needs .L2::cache_hint";
  return NULL;
}

static const char *check_bulk(const emu_ins *i) {
  bool tensor = i->op == EMU_I_TENSOR_LOAD || i->op == EMU_I_TENSOR_STORE;
  bool load = i->op == EMU_I_BULK_LOAD || i->op == EMU_I_TENSOR_LOAD;
  bool hint = (i->flags & F(CACHE_HINT)) != 0;
  if (i->nopd != (load ? 4u : 3u) - tensor + hint)
    return "operand for a cache policy and .L2::cache_hint must come together";
  if (tensor && i->opd[load ? 1 : 0].n != i->mod[EMU_G_DIM] - EMU_M_DIM1 + 1u)
    return "the number of coordinates does not match";
  if (i->mod[EMU_G_DONE] != (load ? EMU_M_COMPLETE_TX : EMU_M_BULK_GROUP))
    return "the operands do not fit the way of completion";
  unsigned to = i->mod[EMU_G_SPACE], from = i->mod[EMU_G_SPACE2];
  bool to_shared = to == EMU_M_SHAREDCTA || to == EMU_M_SHAREDCLUSTER;
  if (load ? !to_shared || from != EMU_M_GLOBAL : to != EMU_M_GLOBAL || from != EMU_M_SHAREDCTA)
    return "a bulk copy goes from .global to shared memory with an mbarrier, or back with a bulk group";
  return NULL;
}

static const char *check_float(const emu_ins *i) {
  unsigned r = i->mod[EMU_G_RND];
  emu_type t = (emu_type)i->type[0];
  bool approx = (i->flags & (F(APPROX) | F(FULL))) != 0;
  bool small = emu__type_bits[t] == 16 || t == EMU_T_F16X2 || t == EMU_T_BF16X2;
  if (r == EMU_M_RNA || r >= EMU_M_RNI) return "rounding mode does not exist here";
  if (small && r != 0 && r != EMU_M_RN) return "16-bit floats round by .rn";
  if (t == EMU_T_F64 && (i->flags & (F(FTZ) | F(SAT)))) return ".f64 has no .ftz or .sat";
  if ((i->op == EMU_I_FDIV || i->op == EMU_I_RCP || i->op == EMU_I_SQRT) && approx == (r != 0))
    return "either a rounding mode or an approximation must be given";
  if ((i->op == EMU_I_RSQRT || i->op == EMU_I_EX2 || i->op == EMU_I_LG2 || i->op == EMU_I_SIN || i->op == EMU_I_COS ||
       i->op == EMU_I_TANH) &&
      !approx)
    return "'.approx' is missing";
  if (t == EMU_T_F64 && approx && i->op != EMU_I_RSQRT && !(i->op == EMU_I_RCP && (i->flags & F(FTZ))))
    return "this approximation does not exist for .f64";
  return NULL;
}

static const char *check_compare(const emu_ins *i) {
  unsigned cmp = i->mod[EMU_G_CMP], t = i->type[i->ntypes - 1];
  bool is_float = emu__type_class[t] == EMU_C_FLT || emu__type_class[t] == EMU_C_PACK;
  bool has_extra = i->nopd == (i->op == EMU_I_SETP ? 5 : 4);
  if (is_float ? cmp >= EMU_M_LO && cmp <= EMU_M_HS : cmp > EMU_M_HS)
    return "this comparison does not exist for this type";
  if (emu__type_class[t] == EMU_C_BITS && cmp > EMU_M_NE) return "untyped bits compare by .eq and .ne only";
  if (has_extra != (i->mod[EMU_G_BOOL] != 0)) return "a predicate operand and .and, .or or .xor must come together";
  if (i->op != EMU_I_SET) return NULL;
  return (uint64_t)1 << i->type[0] & (T(U32) | T(S32) | T(F32) | T(B32)) ? NULL
                                                                         : "the result of 'set' is .u32, .s32 or .f32";
}

static const char *check(const emu_module *m, const emu_ins *i) {
  switch (i->op) {
    case EMU_I_MOV: return check_move(m, i);
    case EMU_I_CVT: return check_convert(i);
    case EMU_I_CVT_PACKED:
    case EMU_I_CVT_UNPACK: return check_packed(i);
    case EMU_I_LD:
    case EMU_I_ST: return check_memory(i);
    case EMU_I_LDU: return emu__count(&i->opd[0]) == vector_length(i) ? NULL : "the number of registers does not match";
    case EMU_I_ATOM:
    case EMU_I_RED: return check_atomic(i);
    case EMU_I_LDMATRIX:
    case EMU_I_STMATRIX: return check_matrix(i);
    case EMU_I_MMA: return check_mma(i);
    case EMU_I_WGMMA:
    case EMU_I_WGMMA_INT: return check_wgmma(m, i);
    case EMU_I_CP_ASYNC: return check_copy(i);
    case EMU_I_TENSOR_LOAD:
    case EMU_I_TENSOR_STORE:
    case EMU_I_BULK_LOAD:
    case EMU_I_BULK_STORE: return check_bulk(i);
    case EMU_I_FADD:
    case EMU_I_FSUB:
    case EMU_I_FMUL:
    case EMU_I_FFMA:
    case EMU_I_FMAD:
    case EMU_I_FDIV:
    case EMU_I_RCP:
    case EMU_I_SQRT:
    case EMU_I_RSQRT:
    case EMU_I_EX2:
    case EMU_I_LG2:
    case EMU_I_SIN:
    case EMU_I_COS:
    case EMU_I_TANH: return check_float(i);
    case EMU_I_FMIN:
    case EMU_I_FMAX:
      if ((i->flags & F(ABS)) && !(i->flags & F(XORSIGN)) && i->nopd == 3)
        return ".abs goes with .xorsign or three sources";
      if (i->nopd == 4 && (i->type[0] != EMU_T_F32 || (i->flags & F(XORSIGN)))) return "only .f32 has three sources";
      return NULL;
    case EMU_I_FADD_MIXED:
    case EMU_I_FSUB_MIXED:
    case EMU_I_FFMA_MIXED:
      return i->type[0] != EMU_T_F32 || i->type[1] == EMU_T_F32 ? "mixed precision is .f32 with .f16 or .bf16" : NULL;
    case EMU_I_MULWIDE:
    case EMU_I_MADWIDE: return emu__type_bits[i->type[0]] == 64 ? "there is no wide form of 64-bit integers" : NULL;
    case EMU_I_MIN:
    case EMU_I_MAX:
      return (i->flags & F(RELU)) && emu__type_class[i->type[0]] != EMU_C_SINT && i->type[0] != EMU_T_S16X2
                 ? ".relu needs a signed type"
                 : NULL;
    case EMU_I_SET:
    case EMU_I_SETP: return check_compare(i);
    default: return NULL;
  }
}

/* Gives a literal the bits that the instruction's type wants. */
static bool place_literal(emu_module *m, const emu_ins *i, emu_opd *o, char *msg, size_t cap) {
  if (o->kind != EMU_O_IMM) return true;
  emu_type t = (emu_type)(i->ntypes > 0 ? i->type[i->ntypes - 1] : EMU_T_F32);
  if (i->op == EMU_I_SLCT) t = (emu_type)i->type[0];
  unsigned bits = emu__type_bits[t];
  if (o->lit == 'f' && t == EMU_T_F64) {
    uint32_t b = (uint32_t)o->imm;
    float f;
    memcpy(&f, &b, sizeof f);
    double d = (double)f;
    memcpy(&o->imm, &d, sizeof d);
  } else if (o->lit == 'd' && bits == 32 && i->op != EMU_I_POLICY_FRACTIONAL) {
    double d;
    memcpy(&d, &o->imm, sizeof d);
    float f = (float)d;
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    o->imm = b;
  } else if ((o->lit == 'f' || o->lit == 'd') && bits < 32) {
    snprintf(msg, cap, "a float literal does not fit a %u-bit type", bits);
    return false;
  }
  o->row = emu__alloc(&m->arena, EMU_LANES * sizeof *o->row);
  for (int l = 0; l < EMU_LANES; l++) o->row[l] = o->imm;
  return true;
}

static bool place_literals(emu_module *m, emu_ins *i, char *msg, size_t cap) {
  for (unsigned a = 0; a < i->nopd; a++) {
    emu_opd *o = &i->opd[a];
    if (!place_literal(m, i, o, msg, cap)) return false;
    unsigned parts = o->kind == EMU_O_VEC ? o->n : o->kind == EMU_O_MEM ? 1u + o->n : 0;
    for (unsigned k = 0; k < parts; k++)
      if (!place_literal(m, i, &m->pool[o->first + k], msg, cap)) return false;
  }
  return true;
}

enum { WORDS_FIT = 100, OPERANDS_FIT = 101, DECODED = 102 };

/* How far the row gets: the number of words that it takes, or one of the above. */
static int try_row(emu_module *m, int op, const char *rest, const char *end, emu_ins *i, char *msg, size_t cap) {
  const row *r = &rows[op];
  uint32_t given = 0;
  int words = 0;
  i->op = (uint16_t)op;
  i->run = r->run;
  while (rest < end) {
    const char *w = ++rest;
    while (rest < end && *rest != '.') rest++;
    if (!take_word(r, w, (size_t)(rest - w), i, &given, msg, cap)) return words;
    words++;
  }
  if (i->ntypes != r->ntypes) {
    snprintf(msg, cap, "'%s' needs %u type%s, not %u", r->name, r->ntypes, r->ntypes == 1 ? "" : "s", i->ntypes);
    return words;
  }
  if ((given & r->need) != r->need) {
    snprintf(msg, cap, "'%s' lacks a modifier", r->name);
    return words;
  }
  if (!take_operands(m, r, i, msg, cap)) return WORDS_FIT;
  const char *why = check(m, i);
  if (why != NULL) {
    snprintf(msg, cap, "'%s': %s", r->name, why);
    return OPERANDS_FIT;
  }
  return place_literals(m, i, msg, cap) ? DECODED : OPERANDS_FIT;
}

bool emu__decode(emu_module *m, const char *text, size_t n, emu_ins *i, char *msg, size_t cap) {
  size_t best = 0;
  for (int k = 0; k < EMU_NOPS; k++) {
    size_t len = strlen(rows[k].name);
    if (len > best && len <= n && memcmp(rows[k].name, text, len) == 0 && (len == n || text[len] == '.')) best = len;
  }
  int furthest = -1;
  for (int k = 0; best > 0 && k < EMU_NOPS; k++) {
    if (strlen(rows[k].name) != best || memcmp(rows[k].name, text, best) != 0) continue;
    emu_ins trial = *i;
    char why[256];
    int got = try_row(m, k, text + best, text + n, &trial, why, sizeof why);
    if (got == DECODED) {
      *i = trial;
      return true;
    }
    if (got > furthest) {
      furthest = got;
      snprintf(msg, cap, "%s (in '%.*s')", why, (int)(n < 80 ? n : 80), text);
    }
  }
  if (furthest < 0) snprintf(msg, cap, "instruction '%.*s' is not known", (int)(n < 120 ? n : 120), text);
  return false;
}
