#include "runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <mutex>

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

// Forms for the thread's own default stream came with CUDA 7.
constexpr int PerThreadSince(int since) {
  return std::max(since, 7000);
}

// What came with CUDA up to here, the driver must have.
constexpr int kDriverVersion = 12040;

struct Drivers {
  Driver legacy;      // stream 0 is the one for all threads
  Driver per_thread;  // stream 0 is the thread's own
};

void Keep(Drivers& drivers, const Request& request, void* address) {
#define CUDART_FUNCTION(function, base, since)                               \
  if (!std::strcmp(request.name, #base)) {                                   \
    const auto form = reinterpret_cast<decltype(Driver::function)>(address); \
    if (request.flags == 0 && request.version == (since)) {                  \
      drivers.legacy.function = form;                                        \
    }                                                                        \
    if (request.flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&    \
        request.version == PerThreadSince(since)) {                          \
      drivers.per_thread.function = form;                                    \
    }                                                                        \
  }
#include "driver_functions.inc"
#undef CUDART_FUNCTION
}

bool Complete(Drivers& drivers) {
#define CUDART_FUNCTION(function, base, since)                             \
  if (!drivers.legacy.function && (since) <= kDriverVersion) return false; \
  if (!drivers.per_thread.function) drivers.per_thread.function = drivers.legacy.function;
#include "driver_functions.inc"
#undef CUDART_FUNCTION
  drivers.per_thread.get_proc_address = drivers.legacy.get_proc_address;
  return true;
}

// One dlopen, one dlsym, all requests, then cuInit: as libcudart 13.0 does it.
cudaError_t LoadOnce(Drivers& drivers) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) return cudaErrorInsufficientDriver;
  const auto get_proc_address =
      reinterpret_cast<decltype(Driver::get_proc_address)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get_proc_address) return cudaErrorInsufficientDriver;
  drivers.legacy.get_proc_address = get_proc_address;
  for (const Request& request : kRequests) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult status{};
    get_proc_address(request.name, &address, request.version, request.flags, &status);
    if (address) Keep(drivers, request, address);
  }
  if (!Complete(drivers)) return cudaErrorInsufficientDriver;
  return ToRuntime(drivers.legacy.cuInit(0));
}

bool& default_stream_is_per_thread() {
  thread_local bool value = false;
  return value;
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
  static auto* const drivers = new Drivers;
  static const cudaError_t result = LoadOnce(*drivers);
  out = IsDefaultStreamPerThread() ? &drivers->per_thread : &drivers->legacy;
  return result;
}

bool IsDefaultStreamPerThread() {
  return default_stream_is_per_thread();
}

PerThreadDefaultStream::PerThreadDefaultStream() : before_(default_stream_is_per_thread()) {
  default_stream_is_per_thread() = true;
}

PerThreadDefaultStream::~PerThreadDefaultStream() {
  default_stream_is_per_thread() = before_;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
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
