// What code that nvcc generates calls: registration of its binaries and kernels, and their launch.
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime.h"

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
};

struct Registrations {
  std::mutex mutex;
  std::map<const void*, Registered> kernels;  // by the address of the host's function
  std::map<const void*, Variable> variables;  // by the address of the host's variable
};

Registrations& registrations() {
  static auto* const instance = new Registrations;  // unregistered from exit handlers
  return *instance;
}

cudaError_t FindKernel(const Driver& driver, const void* function, CUkernel* out) {
  const std::scoped_lock lock(registrations().mutex);
  const auto found = registrations().kernels.find(function);
  if (found == registrations().kernels.end()) return cudaErrorInvalidDeviceFunction;
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

// Runs body(driver, function) for the kernel that the host's function stands for.
template <typename Body>
cudaError_t WithFunction(const void* host_function, Body body) {
  return WithContext([&](const Driver& driver) {
    CUfunction function = nullptr;
    if (const cudaError_t error = FindFunction(driver, host_function, &function)) return error;
    return ToRuntime(body(driver, function));
  });
}

CUresult Launch(const Driver& driver, CUfunction function, dim3 grid, dim3 block, void** arguments,
                size_t shared_bytes, cudaStream_t stream) {
  return driver.cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                               static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
}

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  cudaStream_t stream;
};

std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

}  // namespace

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

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                cudaStream_t stream) {
  configurations().push_back({grid, block, shared_bytes, stream});
  return 0;
}

CUDART_API __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (configurations().empty()) return Remember(cudaErrorMissingConfiguration);
  const Configuration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

CUDART_API __cudaGetKernel(cudaKernel_t* out, const void* host_function) {
  return WithContext([&](const Driver& driver) {
    return FindKernel(driver, host_function, reinterpret_cast<CUkernel*>(out));
  });
}

CUDART_API cudaGetKernel(cudaKernel_t* out, const void* host_function) {
  return __cudaGetKernel(out, host_function);
}

CUDART_API cudaGetFuncBySymbol(cudaFunction_t* out, const void* host_function) {
  return WithContext(
      [&](const Driver& driver) { return FindFunction(driver, host_function, out); });
}

namespace {

// A variable of the device lies in pinned memory of the host: the binaries of nvcc's are not read,
// and it is no allocation of the program's.
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
    error = driver.cuMemHostGetDevicePointer_v2(&variable.address, memory, 0);
    if (error != CUDA_SUCCESS) return ToRuntime(error);
  }
  *out = variable.address;
  *bytes = variable.bytes;
  return cudaSuccess;
}

// Runs body(driver, address) for `count` bytes of the variable from `offset` on.
template <typename Body>
cudaError_t WithVariable(const void* symbol, std::size_t offset, std::size_t count, Body body) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    if (const cudaError_t error = FindVariable(driver, symbol, &address, &bytes)) return error;
    if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
    return ToRuntime(body(driver, address + offset));
  });
}

}  // namespace

CUDART_API cudaGetSymbolAddress(void** out, const void* symbol) {
  return WithVariable(symbol, 0, 0, [&](const Driver&, CUdeviceptr address) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<void*>(address);
    return CUDA_SUCCESS;
  });
}

CUDART_API cudaGetSymbolSize(size_t* out, const void* symbol) {
  return WithContext([&](const Driver& driver) {
    CUdeviceptr address = 0;
    return out ? FindVariable(driver, symbol, &address, out) : cudaErrorInvalidValue;
  });
}

CUDART_API cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                              cudaMemcpyKind kind) {
  (void)kind;  // the driver tells by the pointers
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr to) {
    return driver.cuMemcpy(to, reinterpret_cast<CUdeviceptr>(from), bytes);
  });
}

CUDART_API cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                cudaMemcpyKind kind) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr from) {
    return driver.cuMemcpy(reinterpret_cast<CUdeviceptr>(to), from, bytes);
  });
}

CUDART_API cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                   size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr to) {
    return driver.cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
  });
}

CUDART_API cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  (void)kind;
  return WithVariable(symbol, offset, bytes, [&](const Driver& driver, CUdeviceptr from) {
    return driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
  });
}

CUDART_API __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                              size_t shared_bytes, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    const auto function = reinterpret_cast<CUfunction>(kernel);
    return Launch(driver, function, grid, block, arguments, shared_bytes, stream);
  });
}

CUDART_API cudaLaunchKernel(const void* host_function, dim3 grid, dim3 block, void** arguments,
                            size_t shared_bytes, cudaStream_t stream) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return Launch(driver, function, grid, block, arguments, shared_bytes, stream);
  });
}

CUDART_API cudaLaunchCooperativeKernel(const void* host_function, dim3 grid, dim3 block,
                                       void** arguments, size_t shared_bytes, cudaStream_t stream) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuLaunchCooperativeKernel(function, grid.x, grid.y, grid.z, block.x, block.y,
                                            block.z, static_cast<unsigned>(shared_bytes), stream,
                                            arguments);
  });
}

CUDART_API cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host_function,
                               void** arguments) {
  if (!config) return Remember(cudaErrorInvalidValue);
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return Launch(driver, function, config->gridDim, config->blockDim, arguments,
                  config->dynamicSmemBytes, config->stream);
  });
}

CUDART_API cudaFuncGetAttributes(cudaFuncAttributes* out, const void* host_function) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
    driver.cuFuncGetAttribute(&out->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                              function);
    driver.cuFuncGetAttribute(&out->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
    driver.cuFuncGetAttribute(&out->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
    return driver.cuFuncGetAttribute(&out->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  });
}

CUDART_API cudaFuncSetAttribute(const void* host_function, cudaFuncAttribute attribute, int value) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);
  });
}

CUDART_API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* out, const void* host_function, int block_size, size_t shared_bytes, unsigned flags) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, function, block_size,
                                                                       shared_bytes, flags);
  });
}

CUDART_API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* host_function,
                                                         int block_size, size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, host_function, block_size,
                                                                shared_bytes, 0);
}
