#include "runtime.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace cudart {
namespace {

struct Request {
  const char* name;
  int version;
  cuuint64_t flags;
};

constexpr Request kRequests[] = {
#define CUDART_REQUEST(name, version, flags) {name, version, flags},
#include "requests.inc"
#undef CUDART_REQUEST
};

void Keep(Driver& driver, const Request& request, void* address) {
#define CUDART_KEEP(function, base, since)                                                   \
  if (request.flags == 0 && request.version == since && !std::strcmp(request.name, #base)) { \
    driver.function = reinterpret_cast<decltype(driver.function)>(address);                  \
  }
  CUDART_DRIVER_FUNCTIONS(CUDART_KEEP)
#undef CUDART_KEEP
}

bool IsComplete(const Driver& driver) {
#define CUDART_CHECK(function, base, since) \
  if (!driver.function) return false;
  CUDART_DRIVER_FUNCTIONS(CUDART_CHECK)
#undef CUDART_CHECK
  return true;
}

// One dlopen, one dlsym, all requests, then cuInit: as libcudart 13.0 does it.
cudaError_t LoadOnce(Driver& driver) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return cudaErrorInsufficientDriver;
  driver.get_proc_address =
      reinterpret_cast<decltype(driver.get_proc_address)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!driver.get_proc_address) return cudaErrorInsufficientDriver;
  for (const Request& request : kRequests) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    driver.get_proc_address(request.name, &address, request.version, request.flags, &status);
    if (address) Keep(driver, request, address);
  }
  if (!IsComplete(driver)) return cudaErrorInsufficientDriver;
  return ToRuntime(driver.cuInit(0));
}

struct Primaries {
  static constexpr int kMost = 64;
  std::mutex mutex;
  CUcontext contexts[kMost] = {};
};

Primaries& primaries() {
  static auto* const instance = new Primaries;  // outlives exit handlers
  return *instance;
}

}  // namespace

cudaError_t Load(const Driver*& out) {
  static auto* const driver = new Driver;
  static const cudaError_t result = LoadOnce(*driver);
  out = driver;
  return result;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t NotServed(const char* what) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  const std::scoped_lock lock(mutex);
  if (said->insert(what).second)
    std::fprintf(stderr, "standin: libcudart: %s is not served\n", what);
  return cudaErrorNotSupported;
}

cudaError_t PrimaryContext(const Driver& driver, int device, CUcontext* out) {
  if (device < 0 || device >= Primaries::kMost) return cudaErrorInvalidDevice;
  const std::scoped_lock lock(primaries().mutex);
  CUcontext& context = primaries().contexts[device];
  if (!context) {
    if (const CUresult error = driver.cuDevicePrimaryCtxRetain(&context, device)) {
      context = nullptr;
      return ToRuntime(error);
    }
  }
  *out = context;
  return cudaSuccess;
}

void ForgetPrimaryContext(int device) {
  const std::scoped_lock lock(primaries().mutex);
  primaries().contexts[device] = nullptr;
}

cudaError_t MakeContextCurrent(const Driver& driver) {
  CUcontext current = nullptr;
  if (const CUresult error = driver.cuCtxGetCurrent(&current)) return ToRuntime(error);
  // A context that the program made current by the driver API is used as it is. The primary one may
  // have been reset by another thread since, and is retained anew then.
  thread_local CUcontext mine = nullptr;
  if (current && current != mine) return cudaSuccess;
  CUcontext primary = nullptr;
  if (const cudaError_t error = PrimaryContext(driver, current_device(), &primary)) return error;
  mine = primary;
  return primary == current ? cudaSuccess : ToRuntime(driver.cuCtxSetCurrent(primary));
}

}  // namespace cudart
