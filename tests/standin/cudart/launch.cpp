// Launches, and what is told of kernels and set for them.
#include <vector>

#include "forward.h"
#include "registrations.h"

using namespace cudart;

namespace {

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

// The attributes of both have the same form.
CUlaunchConfig ToConfig(const cudaLaunchConfig_t& config) {
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  CUlaunchConfig out{};
  out.gridDimX = config.gridDim.x;
  out.gridDimY = config.gridDim.y;
  out.gridDimZ = config.gridDim.z;
  out.blockDimX = config.blockDim.x;
  out.blockDimY = config.blockDim.y;
  out.blockDimZ = config.blockDim.z;
  out.sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes);
  out.hStream = config.stream;
  out.attrs = reinterpret_cast<CUlaunchAttribute*>(config.attrs);
  out.numAttrs = config.numAttrs;
  return out;
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
    CUkernel kernel = nullptr;
    if (!out) return cudaErrorInvalidValue;
    if (const cudaError_t error = FindKernel(driver, host_function, &kernel)) return error;
    KnowKernel(kernel);
    *out = reinterpret_cast<cudaKernel_t>(kernel);
    return cudaSuccess;
  });
}

CUDART_API cudaGetKernel(cudaKernel_t* out, const void* host_function) {
  return __cudaGetKernel(out, host_function);
}

CUDART_API cudaGetFuncBySymbol(cudaFunction_t* out, const void* host_function) {
  return WithContext([&](const Driver& driver) {
    CUfunction found = nullptr;
    const cudaError_t error = FindFunction(driver, host_function, &found);
    if (error == cudaSuccess && out) *out = found;  // an RTX 3060's runtime wants none, either
    return error;
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
    const CUlaunchConfig asked = ToConfig(*config);
    return driver.cuLaunchKernelEx(&asked, function, arguments, nullptr);
  });
}

CUDART_API cudaFuncGetAttributes(cudaFuncAttributes* out, const void* host_function) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = {};
#define CUDART_SET(member, attribute)                                                     \
  {                                                                                       \
    int value = 0;                                                                        \
    if (const CUresult error =                                                            \
            driver.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_##attribute, function)) { \
      return error;                                                                       \
    }                                                                                     \
    out->member = static_cast<decltype(out->member)>(value);                              \
  }
    CUDART_SET(sharedSizeBytes, SHARED_SIZE_BYTES)
    CUDART_SET(constSizeBytes, CONST_SIZE_BYTES)
    CUDART_SET(localSizeBytes, LOCAL_SIZE_BYTES)
    CUDART_SET(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)
    CUDART_SET(numRegs, NUM_REGS)
    CUDART_SET(ptxVersion, PTX_VERSION)
    CUDART_SET(binaryVersion, BINARY_VERSION)
    CUDART_SET(cacheModeCA, CACHE_MODE_CA)
    CUDART_SET(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES)
    CUDART_SET(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT)
    CUDART_SET(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET)
    CUDART_SET(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH)
    CUDART_SET(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT)
    CUDART_SET(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH)
    CUDART_SET(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE)
    CUDART_SET(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
#undef CUDART_SET
    return CUDA_SUCCESS;
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

CUDART_API cudaFuncSetCacheConfig(const void* host_function, cudaFuncCache config) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config));
  });
}

CUDART_API cudaFuncSetSharedMemConfig(const void* host_function, cudaSharedMemConfig config) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuFuncSetSharedMemConfig(function, static_cast<CUsharedconfig>(config));
  });
}

CUDART_API cudaFuncGetName(const char** out, const void* host_function) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuFuncGetName(out, function);
  });
}

CUDART_API cudaFuncGetParamInfo(const void* host_function, size_t index, size_t* offset,
                                size_t* bytes) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuFuncGetParamInfo(function, index, offset, bytes);
  });
}

CUDART_API cudaOccupancyAvailableDynamicSMemPerBlock(size_t* out, const void* host_function,
                                                     int blocks, int block_size) {
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    return driver.cuOccupancyAvailableDynamicSMemPerBlock(out, function, blocks, block_size);
  });
}

CUDART_API cudaOccupancyMaxPotentialClusterSize(int* out, const void* host_function,
                                                const cudaLaunchConfig_t* config) {
  if (!config) return Remember(cudaErrorInvalidValue);
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    const CUlaunchConfig asked = ToConfig(*config);
    return driver.cuOccupancyMaxPotentialClusterSize(out, function, &asked);
  });
}

CUDART_API cudaOccupancyMaxActiveClusters(int* out, const void* host_function,
                                          const cudaLaunchConfig_t* config) {
  if (!config) return Remember(cudaErrorInvalidValue);
  return WithFunction(host_function, [&](const Driver& driver, CUfunction function) {
    const CUlaunchConfig asked = ToConfig(*config);
    return driver.cuOccupancyMaxActiveClusters(out, function, &asked);
  });
}
