/* A PTX emulator on the CPU: reads the PTX text that a compiler ships and runs it, one instruction for the 32 lanes of
 * a warp at a time, with every memory access checked. See README.md for what it models, checks and refuses.
 *
 * Ownership: a module and a machine are created and freed by the caller and may not be used by two threads at once.
 * Nothing here prints, exits or keeps global state. Every failure is a returned status with a text that names the
 * place. */
#ifndef RUNTIME_EMU_EMU_H
#define RUNTIME_EMU_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct emu_module emu_module;
typedef struct emu_machine emu_machine;

/* Why a text was refused: the 1-based line of the PTX text (0 when no line is to blame) and one sentence. */
typedef struct emu_error {
  uint32_t line;
  char text[320];
} emu_error;

typedef struct emu_param {
  const char *name;
  uint32_t offset; /* bytes from the start of the parameter buffer */
  uint32_t size;   /* bytes */
  uint32_t align;  /* bytes */
  bool is_pointer; /* declared `.ptr` */
} emu_param;

typedef struct emu_kernel {
  const char *name;
  uint32_t nparams;
  const emu_param *params;
  uint32_t params_size;   /* bytes of the whole parameter buffer */
  uint32_t reqntid[3];    /* 0,0,0 when the kernel states none */
  uint32_t maxntid[3];    /* 0,0,0 when the kernel states none */
  uint32_t static_shared; /* bytes of statically sized shared memory */
} emu_kernel;

/* Reads `len` bytes of PTX (no terminator needed, any bytes allowed). NULL on failure, with *err filled (err may be
 * NULL). The text is copied; the module owns everything it hands out until emu_module_free. */
emu_module *emu_parse(const char *text, size_t len, emu_error *err);
void emu_module_free(emu_module *m);

/* The kernels (`.entry`) in the order of the text. emu_module_kernel returns NULL for an unknown name,
 * emu_module_kernel_at for an index past the end. */
size_t emu_module_kernel_count(const emu_module *m);
const emu_kernel *emu_module_kernel_at(const emu_module *m, size_t index);
const emu_kernel *emu_module_kernel(const emu_module *m, const char *name);

/* The target named by `.target` (such as "sm_90a"). */
const char *emu_module_target(const emu_module *m);

emu_machine *emu_machine_new(void); /* NULL when memory is short */
void emu_machine_free(emu_machine *mc);

enum {
  EMU_MAP_IDENTITY = 1, /* the device address is the host pointer; without it a fake address with wide guard gaps */
  EMU_MAP_READ_ONLY = 2 /* a store or an atomic into it is an error */
};

/* Makes host[0..size) visible to kernels as global memory; *device receives its address (256-byte aligned unless
 * EMU_MAP_IDENTITY). `name` (copied, may be NULL) is used in reports. The memory stays the caller's and must live until
 * it is unmapped. False when memory is short, `size` is unreasonable, or an identity mapping overlaps another. */
bool emu_map(emu_machine *mc, void *host, size_t size, const char *name, unsigned flags, uint64_t *device);
bool emu_unmap(emu_machine *mc, uint64_t device);

/* A tiled tensor map, for kernels that copy tensors by cp.async.bulk.tensor. The 128 bytes that the driver makes are
 * opaque; these are the emulator's own. */
typedef struct emu_tensor_map {
  uint32_t rank, elem_bytes; /* 1..5; 1, 2, 4 or 8 */
  bool is_tf32;              /* f32 elements, which loads round to tf32 */
  uint32_t swizzle;          /* width in bytes: 0, 32, 64 or 128 */
  uint64_t address;          /* device address of the tensor, a multiple of 16 */
  uint64_t dims[5];          /* elements, innermost first */
  uint64_t strides[4];       /* bytes between neighbours of dimension 1, 2, ...; multiples of 16 */
  uint32_t box[5];           /* elements, at most 256 each */
} emu_tensor_map;

/* Writes the map to out[0..128), which a kernel receives as a parameter or in memory. False when the map breaks a rule.
 */
bool emu_tensor_map_encode(const emu_tensor_map *map, void *out);

typedef enum emu_status {
  EMU_OK,
  EMU_BAD_LAUNCH, /* the launch itself is wrong: sizes, parameters, too much shared memory */
  EMU_FAULT,      /* the kernel did something wrong; the report says what and where */
  EMU_TIMEOUT,    /* the instruction budget is used up */
  EMU_NO_MEMORY
} emu_status;

enum {
  EMU_NO_RACES = 1, /* do not look for shared-memory races */
  EMU_NO_UNINIT = 2 /* do not report reads of shared memory that nobody wrote */
};

typedef struct emu_launch_options {
  uint32_t grid[3];          /* blocks; each at least 1 */
  uint32_t block[3];         /* threads; at most 1024 in all */
  uint32_t dynamic_shared;   /* bytes */
  const void *params;        /* the kernel's parameter buffer, laid out as emu_kernel says */
  size_t params_size;        /* bytes */
  uint64_t max_instructions; /* warp instructions for the whole launch; 0 = 2^32 */
  unsigned flags;            /* EMU_NO_* */
  /* receives what the kernel prints (vprintf), one call per printing thread; NULL drops it */
  void (*print)(void *user, const char *text, size_t len);
  void *user;
} emu_launch_options;

typedef struct emu_report {
  uint64_t instructions; /* warp instructions executed */
  uint32_t count;        /* findings, including those that did not fit in the text */
  uint32_t line;         /* PTX line of the first finding, 0 if it has none */
  char text[4096];       /* findings, one per line, empty when there are none */
} emu_report;

/* Runs the kernel on every thread of the grid, blocks in order, and returns when all are done. The status is EMU_OK
 * exactly when there is no finding. `report` may be NULL. */
emu_status emu_launch(emu_machine *mc, emu_module *m, const emu_kernel *k, const emu_launch_options *o,
                      emu_report *report);

const char *emu_status_text(emu_status s);

#endif
