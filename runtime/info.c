/* info: what this machine has, without opening a context. A missing driver is an answer here, not a failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda.h"

/* The record, its devices and their arch names: one lifetime, three allocations. */
typedef struct full_info {
  tk_info info; /* first */
  char (*archs)[16];
} full_info;

static void problem(tk_info *info, tk_status s, const char *why) {
  info->driver_status = s;
  snprintf(info->problem, sizeof info->problem, "%s: %s. %s", tk_status_text(s), why, tk_status_advice(s));
}

static cu_result describe(const cuda_api *api, int ordinal, tk_device_info *out, char *arch) {
  cu_device d = 0;
  cuda_facts f = {0};
  cu_result r = api->DeviceGet(&d, ordinal);
  if (r == 0) r = api->DeviceGetName(out->name, (int)sizeof out->name, d);
  if (r == 0) r = api->DeviceTotalMem(&out->memory_bytes, d);
  if (r == 0) r = tk__cuda_facts_get(api, d, &f);
  if (r != 0) return r;
  int capability = 10 * f.major + f.minor;
  out->name[sizeof out->name - 1] = '\0';
  tk__cuda_arch_name(&f, arch);
  out->arch = arch;
  out->major = f.major;
  out->minor = f.minor;
  out->sm_count = f.sm_count;
  out->clock_khz = f.clock_khz;
  out->memory_clock_khz = f.memory_clock_khz;
  out->memory_bus_bits = f.memory_bus_bits;
  out->l2_bytes = f.l2_bytes;
  out->shared_bytes_per_block = f.shared_per_block;
#define CUDA_FEATURE(field, from, to) out->field = capability >= from && capability <= to;
#include "runtime/cuda.def"
  return 0;
}

static tk_status devices(const cuda_api *api, full_info *full) {
  tk_info *info = &full->info;
  char scratch[64];
  int n = 0;
  cu_result r = api->DriverGetVersion(&info->driver_version);
  info->ptx_version = tk__cuda_newest_ptx(info->driver_version);
  if (r == 0) r = api->DeviceGetCount(&n);
  if (r == 0 && n == 0) problem(info, TK_NO_DEVICE, "the driver works and lists no device");
  if (n > 0) {
    info->devices = calloc((size_t)n, sizeof *info->devices);
    full->archs = calloc((size_t)n, sizeof *full->archs);
    if (!info->devices || !full->archs) return TK_OUT_OF_HOST_MEMORY;
  }
  for (int i = 0; i < n && r == 0; i++) {
    r = describe(api, i, &info->devices[i], full->archs[i]);
    if (r == 0) info->n_devices++;
  }
  if (r != 0) problem(info, tk__cuda_status(r), tk__cuda_result_name(api, r, scratch, sizeof scratch));
  return TK_OK;
}

tk_status tk_info_get(const tk_options *options, tk_info **out) {
  char why[256];
  cuda_api api;
  if (!out) return TK_INVALID_ARGUMENT;
  *out = NULL;
  full_info *full = calloc(1, sizeof *full);
  if (!full) return TK_OUT_OF_HOST_MEMORY;
  tk_status s = tk__cuda_load(&api, options ? options->driver_path : NULL, why, sizeof why);
  if (s != TK_OK) {
    problem(&full->info, s, why);
  } else {
    s = devices(&api, full);
    tk__cuda_unload(&api);
    if (s != TK_OK) {
      tk_info_free(&full->info);
      return s;
    }
  }
  *out = &full->info;
  return TK_OK;
}

void tk_info_free(tk_info *info) {
  if (!info) return;
  full_info *full = (full_info *)(void *)info;
  free(info->devices);
  free(full->archs);
  free(full);
}
