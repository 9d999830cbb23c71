/* The CUDA driver that tests use on machines without a GPU: a shared object with the driver's symbols on host memory.
 * It records launches and fails on request. Tests reach its state through the symbol `fake_cuda_state`. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

enum { FAKE_MAX_PARAMS = 64, FAKE_MAX_CONTEXTS = 16 };

typedef struct fake_param {
  unsigned size; /* bytes, from the PTX */
  unsigned char bytes[128];
} fake_param;

/* A tensor map of this driver: what was asked for. */
typedef struct fake_map {
  uint64_t address, sizes[5], strides[4];
  uint32_t box[5];
  uint8_t type, rank, swizzle, promotion;
} fake_map;

typedef struct fake_launch {
  char kernel[64];
  unsigned grid[3], block[3], dynamic_shared;
  void *stream, *context;
  int n_params;
  fake_param params[FAKE_MAX_PARAMS];
} fake_launch;

typedef struct fake_cuda {
  /* set by tests; 0 = the default in brackets */
  int driver_version;                     /* [12040] */
  int no_devices;                         /* lists none */
  int capability;                         /* [90] */
  int shared_per_block;                   /* [232448] */
  int max_threads;                        /* of every kernel [1024] */
  size_t memory;                          /* bytes of the device [1 GiB] */
  int capturing;                          /* every stream is */
  const char *fail;                       /* this function fails ... */
  int fail_result;                        /* ... with this result ... */
  int fail_after;                         /* ... after so many good calls */
  const char *log;                        /* what the PTX assembler says when a load fails */
  void (*launched)(const fake_launch *l); /* called for each launch, on its thread */
  /* kept by the fake */
  int n_launches, n_encoded; /* tensor maps */
  fake_launch last;
  int live_allocations, live_pinned, live_modules, live_streams, live_events, primary_references;
  int dynamic_shared_opt_in; /* last value that was set */
  size_t allocated;
} fake_cuda;

#endif
