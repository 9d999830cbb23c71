/* cuda: loading the driver at run time, and the meaning of its results and versions.
 *
 * The library is opened for each context and closed with it; the dynamic linker counts. RTLD_NODELETE keeps it mapped
 * once it was there, because a driver that has started threads and exit handlers must not vanish under them.
 *
 * Which arch runs where (PTX ISA, ".target"): sm_XY runs on every device from X.Y on; sm_XYa only on X.Y itself; sm_XYf
 * on the devices of family X from X.Y on. */
#include "runtime/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUIRED = 1, OPTIONAL = 0 };

static const struct {
  const char *symbol;
  int need;
  size_t at;
} functions[] = {
#define CUDA_FN(need, field, symbol, params) {symbol, need, offsetof(cuda_api, field)},
#include "runtime/cuda.def"
};

tk_status tk__cuda_load(cuda_api *api, const char *path, char *why, size_t size) {
  *api = (cuda_api){0};
  api->library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!api->library) {
    const char *reason = dlerror();
    snprintf(why, size, "%s", reason ? reason : "libcuda.so.1 cannot be opened");
    return TK_NO_DRIVER;
  }
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *f = dlsym(api->library, functions[i].symbol);
    memcpy((char *)api + functions[i].at, &f, sizeof f);
    if (!f && functions[i].need == REQUIRED) {
      snprintf(why, size, "it has no %s", functions[i].symbol);
      tk__cuda_unload(api);
      return TK_DRIVER_TOO_OLD;
    }
  }
  cu_result r = api->Init(0);
  if (r == 0) return TK_OK;
  char scratch[64];
  snprintf(why, size, "cuInit says %s", tk__cuda_result_name(api, r, scratch, sizeof scratch));
  tk_status s = tk__cuda_status(r);
  tk__cuda_unload(api);
  return s == TK_OK || s == TK_INVALID_ARGUMENT ? TK_DEVICE_FAILURE : s;
}

void tk__cuda_unload(cuda_api *api) {
  if (api->library) dlclose(api->library);
  *api = (cuda_api){0};
}

static const struct {
  cu_result number;
  const char *name;
  tk_status status;
} results[] = {
#define CUDA_RESULT(number, name, status) {number, name, TK_##status},
#include "runtime/cuda.def"
};

enum { N_RESULTS = sizeof results / sizeof *results };

tk_status tk__cuda_status(cu_result r) {
  if (r == 0) return TK_OK;
  for (int i = 0; i < N_RESULTS; i++)
    if (results[i].number == r) return results[i].status;
  return TK_DEVICE_FAILURE;
}

const char *tk__cuda_result_name(const cuda_api *api, cu_result r, char *scratch, size_t size) {
  const char *name = NULL;
  for (int i = 0; i < N_RESULTS; i++) {
    if (results[i].number == r) {
      snprintf(scratch, size, "CUDA_ERROR_%s (%d)", results[i].name, r);
      return scratch;
    }
  }
  if (!api->GetErrorName || api->GetErrorName(r, &name) != 0 || !name) name = "CUDA error";
  snprintf(scratch, size, "%s (%d)", name, r);
  return scratch;
}

static const struct {
  int driver, ptx;
} ptx_versions[] = {
#define CUDA_PTX(driver, ptx) {driver, ptx},
#include "runtime/cuda.def"
};

enum { N_PTX_VERSIONS = sizeof ptx_versions / sizeof *ptx_versions };

int tk__cuda_newest_ptx(int driver_version) {
  int newest = 0;
  for (int i = 0; i < N_PTX_VERSIONS && ptx_versions[i].driver <= driver_version; i++) newest = ptx_versions[i].ptx;
  return newest;
}

bool tk__cuda_reads_ptx(int driver_version, int ptx_version) {
  return ptx_version <= tk__cuda_newest_ptx(driver_version) || driver_version > ptx_versions[N_PTX_VERSIONS - 1].driver;
}

cu_result tk__cuda_facts_get(const cuda_api *api, cu_device d, cuda_facts *out) {
  cu_result r = 0;
#define CUDA_ATTRIBUTE(field, number) \
  if (r == 0) r = api->DeviceGetAttribute(&out->field, number, d);
#include "runtime/cuda.def"
  return r;
}

void tk__cuda_arch_name(const cuda_facts *f, char *out) {
  snprintf(out, 16, "sm_%d%d%s", f->major % 1000, f->minor % 10, f->major >= 9 ? "a" : "");
}

bool tk__cuda_arch_fits(const char *arch, const cuda_facts *f) {
  char *end;
  if (strncmp(arch, "sm_", 3) != 0 || arch[3] < '0' || arch[3] > '9') return false;
  long number = strtol(arch + 3, &end, 10);
  long major = number / 10, minor = number % 10;
  if (strcmp(end, "a") == 0) return major == f->major && minor == f->minor;
  if (strcmp(end, "f") == 0) return major == f->major && minor <= f->minor;
  return *end == '\0' && (major < f->major || (major == f->major && minor <= f->minor));
}
