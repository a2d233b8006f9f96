// dlopen and dlsym of everything that the probe calls.
#include "driver.h"

#include <dlfcn.h>

#define PROBE_TEXT(name) #name
#define PROBE_NAME(name) PROBE_TEXT(name)

namespace probe {

Driver open_driver(std::string& failure) {
  Driver driver;
  driver.library = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver.library == nullptr) {
    const char* const why = dlerror();
    failure = why == nullptr ? "libcuda.so.1 cannot be opened" : why;
    return driver;
  }
  const auto find = [&](const char* name, auto& function) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(driver.library, name));
  };
#define PROBE_FIND(function) find(PROBE_NAME(function), driver.function);
  PROBE_DRIVER_FUNCTIONS(PROBE_FIND)
#undef PROBE_FIND
  find("cuCtxCreate_v2", driver.create_context);
  find("cuCtxRecordEvent", driver.record_context_event);
  find("cuCtxWaitEvent", driver.wait_context_event);
  find("cuMemAlloc", driver.alloc_32_bit);
  find("cuKernelGetName", driver.kernel_name);
  find("cuGetProcAddress", driver.old_proc_address);
#if CUDA_VERSION >= 12080
  find("cuMemcpyBatchAsync_v2", driver.copy_batch);
#endif
  // cuda.h: the elapsed time's second form came with CUDA 12.8; the first has the same parameters.
  if (driver.cuEventElapsedTime == nullptr) {
    find("cuEventElapsedTime", driver.cuEventElapsedTime);
  }
  return driver;
}

std::string missing_functions(const Driver& driver) {
  std::string missing;
#define PROBE_MISSING(function)                         \
  if (driver.function == nullptr) {                     \
    missing += std::string(" ") + PROBE_NAME(function); \
  }
  PROBE_DRIVER_FUNCTIONS(PROBE_MISSING)
#undef PROBE_MISSING
  return missing;
}

std::string name_of(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return "error " + std::to_string(static_cast<int>(result));
  }
  return name;
}

}  // namespace probe
