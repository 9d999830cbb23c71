/* cuda: the driver as a record of functions, and the facts about its devices. Own declarations: no CUDA header. */
#ifndef TK_CUDA_H
#define TK_CUDA_H

#include "runtime/internal.h"

typedef int cu_result; /* CUresult: 0 = success */
typedef int cu_device;
typedef void *cu_context, *cu_stream, *cu_event, *cu_module, *cu_function;

typedef struct cuda_api {
  void *library;
#define CUDA_FN(need, field, symbol, params) cu_result(*field) params;
#include "runtime/cuda.def"
} cuda_api;

typedef struct cuda_facts {
#define CUDA_ATTRIBUTE(field, number) int field;
#include "runtime/cuda.def"
} cuda_facts;

/* Opens the driver's library (path NULL: libcuda.so.1), finds its functions and initialises it. On failure returns a
   status other than TK_OK and writes why into `why`; the api then needs no unloading. */
tk_status tk__cuda_load(cuda_api *api, const char *path, char *why, size_t size);
void tk__cuda_unload(cuda_api *api);

/* The status that a result stands for, and its text: "CUDA_ERROR_INVALID_VALUE (1)" (static or in `scratch`). */
tk_status tk__cuda_status(cu_result r);
const char *tk__cuda_result_name(const cuda_api *api, cu_result r, char *scratch, size_t size);

int tk__cuda_newest_ptx(int driver_version); /* 10 * major + minor; 0 for a driver older than the table */
/* False only if it is known not to: a driver newer than the table may read more than the table says. */
bool tk__cuda_reads_ptx(int driver_version, int ptx_version);
cu_result tk__cuda_facts_get(const cuda_api *api, cu_device d, cuda_facts *out);
/* "sm_90a": the arch with every feature of the device. `out` holds at least 16 bytes. */
void tk__cuda_arch_name(const cuda_facts *f, char *out);
/* May code for `arch` run on the device? */
bool tk__cuda_arch_fits(const char *arch, const cuda_facts *f);

#endif
