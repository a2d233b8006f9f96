// What code that nvcc generates says of its binaries, kernels and variables before main.
#include "registrations.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

using namespace cudart;

namespace {

struct Binary {
  const void* image;
  CUlibrary library = nullptr;  // loaded with the first kernel of it that is used
};

struct Registered {
  Binary* binary;
  std::string name;
  CUkernel kernel = nullptr;
};

struct Variable {
  Binary* binary;
  std::string name;
  std::size_t bytes;
  CUdeviceptr address = 0;  // of pinned memory, made with the first use
  int device = 0;           // in whose context it was made
};

struct Registrations {
  std::mutex mutex;
  std::set<const void*> handles;              // kernels that programs have by their handles
  std::map<const void*, Registered> kernels;  // by the address of the host's function
  std::map<const void*, Variable> variables;  // by the address of the host's variable
};

Registrations& registrations() {
  static auto* const instance = new Registrations;  // unregistered from exit handlers
  return *instance;
}

}  // namespace

namespace cudart {

cudaError_t FindKernel(const Driver& driver, const void* function, CUkernel* out) {
  const std::scoped_lock lock(registrations().mutex);
  const auto found = registrations().kernels.find(function);
  if (found == registrations().kernels.end()) {
    if (!registrations().handles.contains(function)) return cudaErrorInvalidDeviceFunction;
    *out = static_cast<CUkernel>(const_cast<void*>(function));
    return cudaSuccess;
  }
  Registered& entry = found->second;
  if (!entry.binary->library) {
    const CUresult error = driver.cuLibraryLoadData(&entry.binary->library, entry.binary->image,
                                                    nullptr, nullptr, 0, nullptr, nullptr, 0);
    if (error != CUDA_SUCCESS) return ToRuntime(error);
  }
  if (!entry.kernel) {
    const CUresult error =
        driver.cuLibraryGetKernel(&entry.kernel, entry.binary->library, entry.name.c_str());
    if (error != CUDA_SUCCESS) return ToRuntime(error);
  }
  *out = entry.kernel;
  return cudaSuccess;
}

cudaError_t FindFunction(const Driver& driver, const void* host_function, CUfunction* out) {
  CUkernel kernel = nullptr;
  if (const cudaError_t error = FindKernel(driver, host_function, &kernel)) return error;
  return ToRuntime(driver.cuKernelGetFunction(out, kernel));
}

void KnowKernel(CUkernel kernel) {
  const std::scoped_lock lock(registrations().mutex);
  registrations().handles.insert(kernel);
}

void* HostFunctionOf(const Driver& driver, CUkernel kernel, CUfunction function) {
  const std::scoped_lock lock(registrations().mutex);
  for (const auto& [host_function, entry] : registrations().kernels) {
    CUfunction of_it = nullptr;
    if (!entry.kernel) continue;
    if (!kernel) driver.cuKernelGetFunction(&of_it, entry.kernel);
    if (kernel ? entry.kernel == kernel : of_it == function)
      return const_cast<void*>(host_function);
  }
  return kernel ? static_cast<void*>(kernel) : static_cast<void*>(function);
}

cudaError_t FindVariable(const Driver& driver, const void* symbol, CUdeviceptr* out,
                         std::size_t* bytes) {
  const std::scoped_lock lock(registrations().mutex);
  const auto found = registrations().variables.find(symbol);
  if (found == registrations().variables.end()) return cudaErrorInvalidSymbol;
  Variable& variable = found->second;
  if (variable.address == 0) {
    void* memory = nullptr;
    CUresult error = driver.cuMemHostAlloc(&memory, variable.bytes,
                                           CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (error != CUDA_SUCCESS) return ToRuntime(error);
    std::memset(memory, 0, variable.bytes);
    variable.device = current_device();
    error = driver.cuMemHostGetDevicePointer_v2(&variable.address, memory, 0);
    if (error != CUDA_SUCCESS) return ToRuntime(error);
  }
  *out = variable.address;
  *bytes = variable.bytes;
  return cudaSuccess;
}

void ForgetVariables(int device) {
  const std::scoped_lock lock(registrations().mutex);
  for (auto& [symbol, variable] : registrations().variables) {
    if (variable.device == device) variable.address = 0;
  }
}

cudaError_t FindInVariable(const Driver& driver, const void* symbol, std::size_t offset,
                           std::size_t count, CUdeviceptr* out) {
  std::size_t bytes = 0;
  if (const cudaError_t error = FindVariable(driver, symbol, out, &bytes)) return error;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  *out += offset;
  return cudaSuccess;
}

}  // namespace cudart

extern "C" void** __cudaRegisterFatBinary(void* image) {
  return reinterpret_cast<void**>(new Binary{.image = image});
}

extern "C" void __cudaRegisterFatBinaryEnd(void** handle) {
  (void)handle;
}

// Runs when the program ends: no call of the driver any more.
extern "C" void __cudaUnregisterFatBinary(void** handle) {
  const std::scoped_lock lock(registrations().mutex);
  auto* const binary = reinterpret_cast<Binary*>(handle);
  const auto is_of_it = [&](const auto& entry) { return entry.second.binary == binary; };
  std::erase_if(registrations().kernels, is_of_it);
  std::erase_if(registrations().variables, is_of_it);
  delete binary;
}

extern "C" void __cudaRegisterFunction(void** handle, const char* host_function,
                                       char* device_function, const char* name, int thread_limit,
                                       uint3* tid, uint3* bid, dim3* block, dim3* grid,
                                       int* warp_size) {
  (void)device_function, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid;
  (void)warp_size;
  const std::scoped_lock lock(registrations().mutex);
  registrations().kernels[host_function] = {.binary = reinterpret_cast<Binary*>(handle),
                                            .name = name};
}

extern "C" void __cudaRegisterVar(void** handle, char* host_variable, char* device_address,
                                  const char* name, int external, size_t bytes, int constant,
                                  int global) {
  (void)device_address, (void)external, (void)constant, (void)global;
  const std::scoped_lock lock(registrations().mutex);
  registrations().variables[host_variable] = {
      .binary = reinterpret_cast<Binary*>(handle), .name = name, .bytes = bytes};
}

extern "C" void __cudaRegisterManagedVar(void** handle, void** host_variable, char* device_address,
                                         const char* name, int external, size_t bytes, int constant,
                                         int global) {
  (void)handle, (void)host_variable, (void)device_address, (void)name, (void)external;
  (void)bytes, (void)constant, (void)global;
}

extern "C" char __cudaInitModule(void** handle) {
  (void)handle;
  return 1;
}
