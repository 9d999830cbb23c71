/* Tensor maps: their encoding and the copy of a box. */
#include "runtime/emu/half.h"
#include "runtime/emu/internal.h"

#include <string.h>

static const uint64_t magic = 0x70616d746d7565ff;

typedef struct encoded { /* the 128 bytes */
  uint64_t magic, address, dims[5], strides[4];
  uint32_t box[5];
  uint8_t rank, elem_bytes, swizzle, is_tf32;
} encoded;

_Static_assert(sizeof(encoded) <= 128, "a tensor map has 128 bytes");

static bool is_valid(const emu_tensor_map *m) {
  bool ok = m->rank >= 1 && m->rank <= 5 && m->address % 16 == 0;
  ok = ok && (m->elem_bytes == 1 || m->elem_bytes == 2 || m->elem_bytes == 4 || m->elem_bytes == 8);
  ok = ok && (!m->is_tf32 || m->elem_bytes == 4);
  ok = ok && (m->swizzle == 0 || m->swizzle == 32 || m->swizzle == 64 || m->swizzle == 128);
  for (uint32_t k = 0; ok && k < m->rank; k++) {
    ok = m->dims[k] >= 1 && m->dims[k] <= (uint64_t)1 << 32 && m->box[k] >= 1 && m->box[k] <= 256;
    if (k > 0) ok = ok && m->strides[k - 1] % 16 == 0 && m->strides[k - 1] < (uint64_t)1 << 40;
  }
  uint64_t row = ok ? (uint64_t)m->box[0] * m->elem_bytes : 0;
  return ok && row % 16 == 0 && (m->swizzle == 0 || row <= m->swizzle);
}

bool emu_tensor_map_encode(const emu_tensor_map *map, void *out) {
  if (!is_valid(map)) return false;
  encoded e = {
      .magic = magic, .address = map->address, .rank = (uint8_t)map->rank, .elem_bytes = (uint8_t)map->elem_bytes};
  e.swizzle = (uint8_t)map->swizzle;
  e.is_tf32 = map->is_tf32;
  memcpy(e.dims, map->dims, sizeof e.dims);
  memcpy(e.strides, map->strides, sizeof e.strides);
  memcpy(e.box, map->box, sizeof e.box);
  memset(out, 0, 128);
  memcpy(out, &e, sizeof e);
  return true;
}

bool emu__tensor_map(emu_exec *x, uint64_t addr, uint32_t lane, emu_tensor_map *map) {
  uint8_t bytes[128];
  if (addr % 64 != 0) {
    emu__fault(x, (int)lane, "the tensor map at 0x%llx is not aligned to 64 bytes", (unsigned long long)addr);
    return false;
  }
  for (uint32_t b = 0; b < sizeof bytes; b += 8) {
    const uint8_t *p = emu__access(x, EMU_GENERIC, addr + b, 8, lane, EMU_READ);
    if (p == NULL) return false;
    memcpy(bytes + b, p, 8);
  }
  encoded e;
  memcpy(&e, bytes, sizeof e);
  *map = (emu_tensor_map){e.rank, e.elem_bytes, e.is_tf32 != 0, e.swizzle, e.address, {0}, {0}, {0}};
  memcpy(map->dims, e.dims, sizeof e.dims);
  memcpy(map->strides, e.strides, sizeof e.strides);
  memcpy(map->box, e.box, sizeof e.box);
  if (e.magic == magic && is_valid(map)) return true;
  emu__fault(x, (int)lane, "there is no tensor map of emu_tensor_map_encode at 0x%llx", (unsigned long long)addr);
  return false;
}

/* To nearest, ties away from zero, as cvt.rna.tf32.f32 does. */
static void round_to_tf32(uint8_t *element) {
  uint32_t bits;
  memcpy(&bits, element, sizeof bits);
  bits = (uint32_t)emu__float_bits(EMU_T_TF32, emu__float_value(EMU_T_F32, bits, false), EMU_M_RNA, false);
  memcpy(element, &bits, sizeof bits);
}

bool emu__tensor_copy(emu_exec *x, const emu_tensor_map *map, const int32_t *at, uint32_t lane, bool write,
                      uint8_t *bytes) {
  uint32_t index[5] = {0}, size = map->elem_bytes;
  for (;; bytes += size) {
    uint64_t addr = map->address;
    bool inside = true;
    for (uint32_t k = 0; k < map->rank; k++) {
      int64_t c = (int64_t)at[k] + index[k];
      inside = inside && c >= 0 && (uint64_t)c < map->dims[k];
      addr += (uint64_t)c * (k == 0 ? size : map->strides[k - 1]);
    }
    if (inside) {
      uint8_t *p = emu__access(x, EMU_GLOBAL, addr, size, lane, write ? EMU_WRITE : EMU_READ);
      if (p == NULL) return false;
      memcpy(write ? p : bytes, write ? bytes : p, size);
      if (map->is_tf32 && !write) round_to_tf32(bytes);
    } else if (!write) {
      memset(bytes, 0, size);
    }
    uint32_t k = 0;
    while (k < map->rank && ++index[k] == map->box[k]) index[k++] = 0;
    if (k == map->rank) return true;
  }
}
