// cudaSetDevice, cudaDevice*, cudaGetDeviceProperties, versions and errors.
#include <cstdio>
#include <cstring>

#include "convert.h"
#include "forward.h"
#include "registrations.h"

using namespace cudart;

CUDART_API cudaGetDeviceCount(int* out) {
  return WithDriver([&](const Driver& driver) {
    return out ? driver.cuDeviceGetCount(out) : CUDA_ERROR_INVALID_VALUE;
  });
}

CUDART_API cudaSetDevice(int device) {
  return WithDriver([&](const Driver& driver) {
    // Since CUDA 12 this makes the primary context.
    CUcontext primary = nullptr;
    if (const cudaError_t error = PrimaryContext(driver, device, &primary)) return error;
    current_device() = device;
    return ToRuntime(driver.cuCtxSetCurrent(primary));
  });
}

CUDART_API cudaGetDevice(int* out) {
  if (!out) return Remember(cudaErrorInvalidValue);
  *out = current_device();
  return cudaSuccess;
}

CUDART_API cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
  (void)device_flags, (void)flags;
  return WithDriver([&](const Driver& driver) {
    CUcontext primary = nullptr;
    return PrimaryContext(driver, device, &primary);
  });
}

CUDART_API cudaSetDeviceFlags(unsigned flags) {
  return WithDriver([&](const Driver& driver) {
    // That memory of the host can be mapped, which it always can, is no flag of the driver's.
    return driver.cuDevicePrimaryCtxSetFlags_v2(current_device(), flags & ~cudaDeviceMapHost);
  });
}

CUDART_API cudaDeviceReset() {
  return WithDriver([](const Driver& driver) {
    const int device = current_device();
    CUcontext primary = nullptr;
    if (const cudaError_t error = PrimaryContext(driver, device, &primary)) return error;
    const CUresult result = driver.cuDevicePrimaryCtxReset_v2(device);
    ForgetPrimaryContext(device);
    ForgetVariables(device);
    driver.cuDevicePrimaryCtxRelease_v2(device);
    driver.cuCtxSetCurrent(nullptr);
    return ToRuntime(result);
  });
}

CUDART_FORWARD(1, cudaGetDeviceFlags, cuCtxGetFlags)
CUDART_FORWARD(0, cudaDeviceSynchronize, cuCtxSynchronize)
CUDART_FORWARD(2, cudaDeviceGetLimit, cuCtxGetLimit)
CUDART_FORWARD(2, cudaDeviceSetLimit, cuCtxSetLimit)
CUDART_FORWARD(2, cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange)
CUDART_FORWARD(1, cudaDeviceGetCacheConfig, cuCtxGetCacheConfig)
CUDART_FORWARD(1, cudaDeviceSetCacheConfig, cuCtxSetCacheConfig)
CUDART_FORWARD(1, cudaDeviceGetSharedMemConfig, cuCtxGetSharedMemConfig)
CUDART_FORWARD(1, cudaDeviceSetSharedMemConfig, cuCtxSetSharedMemConfig)
CUDART_FORWARD(0, cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache)
CUDART_FORWARD(2, cudaDeviceFlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites)
CUDART_FORWARD_WITHOUT_CONTEXT(1, cudaDriverGetVersion, cuDriverGetVersion)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceGetAttribute, cuDeviceGetAttribute)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer)
CUDART_FORWARD_WITHOUT_CONTEXT(4, cudaDeviceGetP2PAttribute, cuDeviceGetP2PAttribute)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaGetExportTable, cuGetExportTable)
CUDART_FORWARD_WITHOUT_CONTEXT(4, cudaDeviceRegisterAsyncNotification,
                               cuDeviceRegisterAsyncNotification)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaDeviceUnregisterAsyncNotification,
                               cuDeviceUnregisterAsyncNotification)
#if CUDART_VERSION >= 13000
CUDART_FORWARD_WITHOUT_CONTEXT(4, cudaDeviceGetHostAtomicCapabilities,
                               cuDeviceGetHostAtomicCapabilities)
CUDART_FORWARD_WITHOUT_CONTEXT(5, cudaDeviceGetP2PAtomicCapabilities,
                               cuDeviceGetP2PAtomicCapabilities)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaLogsRegisterCallback, cuLogsRegisterCallback)
CUDART_FORWARD_WITHOUT_CONTEXT(1, cudaLogsUnregisterCallback, cuLogsUnregisterCallback)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaLogsCurrent, cuLogsCurrent)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaLogsDumpToFile, cuLogsDumpToFile)
CUDART_FORWARD_WITHOUT_CONTEXT(4, cudaLogsDumpToMemory, cuLogsDumpToMemory)
#else  // names from before CUDA 4, which CUDA 13 left out
CUDART_FORWARD(0, cudaThreadSynchronize, cuCtxSynchronize)
CUDART_FORWARD(2, cudaThreadGetLimit, cuCtxGetLimit)
CUDART_FORWARD(2, cudaThreadSetLimit, cuCtxSetLimit)
CUDART_FORWARD(1, cudaThreadGetCacheConfig, cuCtxGetCacheConfig)
CUDART_FORWARD(1, cudaThreadSetCacheConfig, cuCtxSetCacheConfig)
CUDART_API cudaThreadExit() {
  return cudaDeviceReset();
}
#endif

CUDART_API cudaDeviceGetTexture1DLinearMaxWidth(size_t* out,
                                                const cudaChannelFormatDesc* description,
                                                int device) {
  return WithDriver([&](const Driver& driver) {
    Format format{};
    if (!description) return cudaErrorInvalidValue;
    if (const cudaError_t error = ToFormat(*description, format)) return error;
    return Ask(driver.cuDeviceGetTexture1DLinearMaxWidth, out, format.format, format.channels,
               device);
  });
}

CUDART_API cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    CUcontext primary = nullptr;
    if (const cudaError_t error = PrimaryContext(driver, peer, &primary)) return error;
    return ToRuntime(driver.cuCtxEnablePeerAccess(primary, flags));
  });
}

CUDART_API cudaDeviceDisablePeerAccess(int peer) {
  return WithContext([&](const Driver& driver) {
    CUcontext primary = nullptr;
    if (const cudaError_t error = PrimaryContext(driver, peer, &primary)) return error;
    return ToRuntime(driver.cuCtxDisablePeerAccess(primary));
  });
}

// Members of cudaDeviceProp that are attributes of the device.
#define CUDART_PROPERTIES(F)                                                                 \
  F(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                                     \
  F(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                                     \
  F(sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)                      \
  F(regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)                               \
  F(warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE)                                                 \
  F(memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH)                                                 \
  F(maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)                           \
  F(maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)                                   \
  F(maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)                                   \
  F(maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)                                   \
  F(maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)                                      \
  F(maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)                                      \
  F(maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)                                      \
  F(totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY)                                \
  F(textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)                                 \
  F(texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT)                      \
  F(multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                           \
  F(integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED)                                              \
  F(canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)                               \
  F(maxTexture1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH)                               \
  F(maxTexture2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH)                            \
  F(maxTexture2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT)                           \
  F(maxTexture3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH)                            \
  F(maxTexture3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT)                           \
  F(maxTexture3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH)                            \
  F(surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT)                                 \
  F(concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS)                               \
  F(ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED)                                             \
  F(pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)                                                \
  F(pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)                                          \
  F(pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)                                          \
  F(tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER)                                               \
  F(asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT)                                \
  F(unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)                               \
  F(memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)                             \
  F(l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)                                          \
  F(persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)              \
  F(maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)         \
  F(streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED)              \
  F(globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED)                   \
  F(localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED)                     \
  F(sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)    \
  F(regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)             \
  F(managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)                                       \
  F(isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD)                                    \
  F(multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID)                      \
  F(hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED)             \
  F(pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)                        \
  F(concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)                  \
  F(computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED)            \
  F(canUseHostPointerForRegisteredMem,                                                       \
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)                             \
  F(cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)                               \
  F(sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)           \
  F(pageableMemoryAccessUsesHostPageTables,                                                  \
    CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)                        \
  F(directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST) \
  F(maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)           \
  F(accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE)            \
  F(reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)         \
  F(hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)                      \
  F(sparseCudaArraySupported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED)               \
  F(memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)                        \
  F(gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED)                   \
  F(memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES)      \
  F(ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED)                              \
  F(clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)                                       \
  F(unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS)
// What CUDA 13 left out of it.
#if CUDART_VERSION < 13000
#define CUDART_OLD_PROPERTIES(F)                                       \
  F(clockRate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE)                         \
  F(memoryClockRate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)            \
  F(deviceOverlap, CU_DEVICE_ATTRIBUTE_GPU_OVERLAP)                    \
  F(kernelExecTimeoutEnabled, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT) \
  F(computeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)                     \
  F(cooperativeMultiDeviceLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH)
#else
#define CUDART_OLD_PROPERTIES(F)
#endif

// Named through its macro: the symbol is cudaGetDeviceProperties_v2 in CUDA 12.
CUDART_API cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return WithDriver([&](const Driver& driver) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    cudaDeviceProp properties{};
    if (const CUresult error =
            driver.cuDeviceGetName(properties.name, sizeof(properties.name), device)) {
      return error;
    }
    driver.cuDeviceTotalMem_v2(&properties.totalGlobalMem, device);
    driver.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties.uuid), device);
#define CUDART_SET(member, attribute)                                        \
  {                                                                          \
    int value = 0;                                                           \
    driver.cuDeviceGetAttribute(&value, attribute, device);                  \
    properties.member = static_cast<decltype(properties.member + 0)>(value); \
  }
    CUDART_PROPERTIES(CUDART_SET)
    CUDART_OLD_PROPERTIES(CUDART_SET)
#undef CUDART_SET
    *out = properties;
    return CUDA_SUCCESS;
  });
}

namespace {

// How much of what is asked for a device has: 0 members stand for what is all the same.
int Matches(const cudaDeviceProp& device, const cudaDeviceProp& asked) {
  const int capability = device.major * 100 + device.minor;
  return (capability >= asked.major * 100 + asked.minor ? 1 : 0) +
         (device.totalGlobalMem >= asked.totalGlobalMem ? 1 : 0) +
         (device.sharedMemPerBlock >= asked.sharedMemPerBlock ? 1 : 0) +
         (device.maxThreadsPerBlock >= asked.maxThreadsPerBlock ? 1 : 0) +
         (device.multiProcessorCount >= asked.multiProcessorCount ? 1 : 0);
}

}  // namespace

CUDART_API cudaChooseDevice(int* out, const cudaDeviceProp* asked) {
  int count = 0;
  if (!out || !asked) return Remember(cudaErrorInvalidValue);
  if (const cudaError_t error = cudaGetDeviceCount(&count)) return error;
  int most = -1;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, device)) return error;
    const int matches = Matches(properties, *asked);
    if (matches <= most) continue;
    most = matches;
    *out = device;
  }
  return cudaSuccess;
}

CUDART_API cudaRuntimeGetVersion(int* out) {
  if (!out) return Remember(cudaErrorInvalidValue);
  *out = CUDART_VERSION;
  return cudaSuccess;
}

CUDART_API cudaGetLastError() {
  const cudaError_t error = last_error();
  last_error() = cudaSuccess;
  return error;
}

CUDART_API cudaPeekAtLastError() {
  return last_error();
}

namespace {

// The runtime's own errors, which the driver does not know.
struct Own {
  cudaError_t error;
  const char* text;
};
constexpr Own kOwn[] = {
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "launch was not configured before"},
};

constexpr const char* kUnknownError = "unrecognized error code";

}  // namespace

extern "C" const char* cudaGetErrorString(cudaError_t error) {
  for (const Own& own : kOwn) {
    if (own.error == error) return own.text;
  }
  const Driver* driver = nullptr;
  const char* text = nullptr;
  if (Load(driver) != cudaErrorInsufficientDriver && driver->cuGetErrorString) {
    driver->cuGetErrorString(static_cast<CUresult>(error), &text);
  }
  return text ? text : kUnknownError;
}

extern "C" const char* cudaGetErrorName(cudaError_t error) {
  switch (static_cast<int>(error)) {
#define X(number, name) \
  case number:          \
    return name;
#include "error_names.inc"
#undef X
    default:
      return kUnknownError;
  }
}

namespace {

cudaError_t EntryPoint(const char* symbol, void** out, int version, unsigned long long flags,
                       cudaDriverEntryPointQueryResult* status) {
  return WithDriver([&](const Driver& driver) {
    CUdriverProcAddressQueryResult found{};
    if (flags == cudaEnableDefault && IsDefaultStreamPerThread()) {
      flags = cudaEnablePerThreadDefaultStream;
    }
    const CUresult result = driver.get_proc_address(symbol, out, version, flags, &found);
    if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
    // cuda_runtime_api.h: with a status given, a symbol that there is not is no error.
    return result == CUDA_ERROR_NOT_FOUND && status ? CUDA_SUCCESS : result;
  });
}

}  // namespace

CUDART_API cudaGetDriverEntryPoint(const char* symbol, void** out, unsigned long long flags,
                                   cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(symbol, out, CUDART_VERSION, flags, status);
}

CUDART_API cudaGetDriverEntryPointByVersion(const char* symbol, void** out, unsigned version,
                                            unsigned long long flags,
                                            cudaDriverEntryPointQueryResult* status) {
  return EntryPoint(symbol, out, static_cast<int>(version), flags, status);
}
