// cudaSetDevice, cudaDevice*, cudaGetDeviceProperties, versions and errors.
#include <cstdio>
#include <cstring>

#include "runtime.h"

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
    return driver.cuDevicePrimaryCtxSetFlags_v2(current_device(), flags);
  });
}

CUDART_API cudaGetDeviceFlags(unsigned* out) {
  return WithContext([&](const Driver& driver) { return driver.cuCtxGetFlags(out); });
}

CUDART_API cudaDeviceSynchronize() {
  return WithContext([](const Driver& driver) { return driver.cuCtxSynchronize(); });
}

CUDART_API cudaDeviceReset() {
  return WithDriver([](const Driver& driver) {
    const int device = current_device();
    CUcontext primary = nullptr;
    if (const cudaError_t error = PrimaryContext(driver, device, &primary)) return error;
    const CUresult result = driver.cuDevicePrimaryCtxReset_v2(device);
    ForgetPrimaryContext(device);
    driver.cuDevicePrimaryCtxRelease_v2(device);
    driver.cuCtxSetCurrent(nullptr);
    return ToRuntime(result);
  });
}

CUDART_API cudaDeviceGetAttribute(int* out, cudaDeviceAttr attribute, int device) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuDeviceGetAttribute(out, static_cast<CUdevice_attribute>(attribute), device);
  });
}

CUDART_API cudaDeviceGetPCIBusId(char* out, int length, int device) {
  return WithDriver(
      [&](const Driver& driver) { return driver.cuDeviceGetPCIBusId(out, length, device); });
}

CUDART_API cudaDeviceGetLimit(size_t* out, cudaLimit limit) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuCtxGetLimit(out, static_cast<CUlimit>(limit)); });
}

CUDART_API cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return WithContext([&](const Driver& driver) {
    return driver.cuCtxSetLimit(static_cast<CUlimit>(limit), value);
  });
}

CUDART_API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuCtxGetStreamPriorityRange(least, greatest); });
}

CUDART_API cudaDeviceCanAccessPeer(int* out, int device, int peer) {
  return WithDriver(
      [&](const Driver& driver) { return driver.cuDeviceCanAccessPeer(out, device, peer); });
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

// Named through its macro: the symbol is cudaGetDeviceProperties_v2 in CUDA 12.
CUDART_API cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return WithDriver([&](const Driver& driver) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    const auto attribute = [&](CUdevice_attribute which) {
      int value = 0;
      driver.cuDeviceGetAttribute(&value, which, device);
      return value;
    };
    cudaDeviceProp properties{};
    if (const CUresult error =
            driver.cuDeviceGetName(properties.name, sizeof(properties.name), device)) {
      return error;
    }
    driver.cuDeviceTotalMem_v2(&properties.totalGlobalMem, device);
    driver.cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&properties.uuid), device);
    properties.major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    properties.minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    properties.multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    properties.warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    properties.maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    properties.maxThreadsPerMultiProcessor =
        attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    properties.sharedMemPerBlock =
        static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
    properties.regsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    properties.memPitch = static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH));
    properties.textureAlignment =
        static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT));
    properties.unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    properties.managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
    properties.canMapHostMemory = attribute(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
    properties.concurrentKernels = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS);
    properties.pciBusID = attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    properties.l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    *out = properties;
    return CUDA_SUCCESS;
  });
}

CUDART_API cudaDriverGetVersion(int* out) {
  return WithDriver([&](const Driver& driver) { return driver.cuDriverGetVersion(out); });
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
