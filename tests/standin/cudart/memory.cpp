// cudaMalloc and its like, copies, sets, pools, IPC.
#include <vector>

#include "runtime.h"

using namespace cudart;

namespace {

CUdeviceptr Device(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
CUdeviceptr* Device(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}

cudaError_t AllocateHost(void** out, size_t bytes, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    if (out && bytes == 0) {
      *out = nullptr;
      return CUDA_SUCCESS;
    }
    return driver.cuMemHostAlloc(out, bytes, flags);
  });
}

CUresult Copy(const Driver& driver, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoD_v2(Device(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoH_v2(to, Device(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoD_v2(Device(to), Device(from), bytes);
    default:
      return driver.cuMemcpy(Device(to), Device(from), bytes);
  }
}

CUresult CopyAsync(const Driver& driver, void* to, const void* from, size_t bytes,
                   cudaMemcpyKind kind, cudaStream_t stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return driver.cuMemcpyHtoDAsync_v2(Device(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return driver.cuMemcpyDtoHAsync_v2(to, Device(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return driver.cuMemcpyDtoDAsync_v2(Device(to), Device(from), bytes, stream);
    default:
      return driver.cuMemcpyAsync(Device(to), Device(from), bytes, stream);
  }
}

CUDA_MEMCPY2D Rectangle(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t width, size_t height) {
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = Device(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = Device(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

}  // namespace

CUDART_API cudaMalloc(void** out, size_t bytes) {
  return WithContext([&](const Driver& driver) {
    if (out && bytes == 0) {  // as libcudart: nothing is allocated, and that succeeds
      *out = nullptr;
      return CUDA_SUCCESS;
    }
    return driver.cuMemAlloc_v2(Device(out), bytes);
  });
}

CUDART_API cudaFree(void* pointer) {
  return WithContext([&](const Driver& driver) {
    return pointer ? driver.cuMemFree_v2(Device(pointer)) : CUDA_SUCCESS;
  });
}

CUDART_API cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemAllocPitch_v2(Device(out), pitch, width, height, 4);
  });
}

CUDART_API cudaMallocManaged(void** out, size_t bytes, unsigned flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuMemAllocManaged(Device(out), bytes, flags); });
}

CUDART_API cudaMallocHost(void** out, size_t bytes) {
  return AllocateHost(out, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUDART_API cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  return AllocateHost(out, bytes, flags);
}

CUDART_API cudaFreeHost(void* pointer) {
  return WithContext(
      [&](const Driver& driver) { return pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}

CUDART_API cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuMemHostRegister_v2(pointer, bytes, flags); });
}

CUDART_API cudaHostUnregister(void* pointer) {
  return WithContext([&](const Driver& driver) { return driver.cuMemHostUnregister(pointer); });
}

CUDART_API cudaHostGetDevicePointer(void** out, void* pointer, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemHostGetDevicePointer_v2(Device(out), pointer, flags);
  });
}

CUDART_API cudaHostGetFlags(unsigned* out, void* pointer) {
  return WithContext([&](const Driver& driver) { return driver.cuMemHostGetFlags(out, pointer); });
}

CUDART_API cudaMemGetInfo(size_t* free, size_t* total) {
  return WithContext([&](const Driver& driver) { return driver.cuMemGetInfo_v2(free, total); });
}

CUDART_API cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return WithContext([&](const Driver& driver) { return Copy(driver, to, from, bytes, kind); });
}

CUDART_API cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                           cudaStream_t stream) {
  return WithContext(
      [&](const Driver& driver) { return CopyAsync(driver, to, from, bytes, kind, stream); });
}

CUDART_API cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                          size_t bytes) {
  return WithContext([&](const Driver& driver) {
    CUcontext contexts[2] = {};
    if (const cudaError_t error = PrimaryContext(driver, to_device, &contexts[0])) return error;
    if (const cudaError_t error = PrimaryContext(driver, from_device, &contexts[1])) return error;
    return ToRuntime(
        driver.cuMemcpyPeer(Device(to), contexts[0], Device(from), contexts[1], bytes));
  });
}

CUDART_API cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                               size_t bytes, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    CUcontext contexts[2] = {};
    if (const cudaError_t error = PrimaryContext(driver, to_device, &contexts[0])) return error;
    if (const cudaError_t error = PrimaryContext(driver, from_device, &contexts[1])) return error;
    return ToRuntime(driver.cuMemcpyPeerAsync(Device(to), contexts[0], Device(from), contexts[1],
                                              bytes, stream));
  });
}

CUDART_API cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                        size_t width, size_t height, cudaMemcpyKind kind) {
  (void)kind;  // the driver tells by the pointers
  return WithContext([&](const Driver& driver) {
    const CUDA_MEMCPY2D copy = Rectangle(to, to_pitch, from, from_pitch, width, height);
    return driver.cuMemcpy2DUnaligned_v2(&copy);
  });
}

CUDART_API cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                             size_t width, size_t height, cudaMemcpyKind kind,
                             cudaStream_t stream) {
  (void)kind;
  return WithContext([&](const Driver& driver) {
    const CUDA_MEMCPY2D copy = Rectangle(to, to_pitch, from, from_pitch, width, height);
    return driver.cuMemcpy2DAsync_v2(&copy, stream);
  });
}

CUDART_API cudaMemset(void* to, int value, size_t bytes) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemsetD8_v2(Device(to), static_cast<unsigned char>(value), bytes);
  });
}

CUDART_API cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemsetD8Async(Device(to), static_cast<unsigned char>(value), bytes, stream);
  });
}

CUDART_API cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemsetD2D8_v2(Device(to), pitch, static_cast<unsigned char>(value), width,
                                  height);
  });
}

CUDART_API cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                             cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemsetD2D8Async(Device(to), pitch, static_cast<unsigned char>(value), width,
                                    height, stream);
  });
}

CUDART_API cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuMemAllocAsync(Device(out), bytes, stream); });
}

CUDART_API cudaMallocFromPoolAsync(void** out, size_t bytes, cudaMemPool_t pool,
                                   cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemAllocFromPoolAsync(Device(out), bytes, pool, stream);
  });
}

CUDART_API cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuMemFreeAsync(Device(pointer), stream); });
}

CUDART_API cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  return WithDriver(
      [&](const Driver& driver) { return driver.cuDeviceGetDefaultMemPool(out, device); });
}

CUDART_API cudaDeviceGetMemPool(cudaMemPool_t* out, int device) {
  return WithDriver([&](const Driver& driver) { return driver.cuDeviceGetMemPool(out, device); });
}

CUDART_API cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return WithDriver([&](const Driver& driver) { return driver.cuDeviceSetMemPool(device, pool); });
}

namespace {

CUmemLocation Location(const cudaMemLocation& location) {
  CUmemLocation result{};
  result.type = static_cast<CUmemLocationType>(location.type);
  result.id = location.id;
  return result;
}

}  // namespace

CUDART_API cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* asked) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    CUmemPoolProps properties{};
    properties.allocType = static_cast<CUmemAllocationType>(asked->allocType);
    properties.handleTypes = static_cast<CUmemAllocationHandleType>(asked->handleTypes);
    properties.location = Location(asked->location);
    properties.maxSize = asked->maxSize;
    properties.usage = asked->usage;
    return driver.cuMemPoolCreate(out, &properties);
  });
}

CUDART_API cudaMemPoolDestroy(cudaMemPool_t pool) {
  return WithContext([&](const Driver& driver) { return driver.cuMemPoolDestroy(pool); });
}

CUDART_API cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* asked, size_t count) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUmemAccessDesc> access(count);
    for (size_t i = 0; i < count; ++i) {
      access[i].location = Location(asked[i].location);
      access[i].flags = static_cast<CUmemAccess_flags>(asked[i].flags);
    }
    return driver.cuMemPoolSetAccess(pool, access.data(), count);
  });
}

CUDART_API cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return WithDriver([&](const Driver& driver) { return driver.cuMemPoolTrimTo(pool, keep); });
}

CUDART_API cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuMemPoolSetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

CUDART_API cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuMemPoolGetAttribute(pool, static_cast<CUmemPool_attribute>(attribute), value);
  });
}

CUDART_API cudaPointerGetAttributes(cudaPointerAttributes* out, const void* pointer) {
  return WithContext([&](const Driver& driver) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    unsigned type = 0;
    unsigned managed = 0;
    int device = -2;
    cudaPointerAttributes found{};
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void* values[] = {&type, &managed, &device, &found.devicePointer, &found.hostPointer};
    if (const CUresult error =
            driver.cuPointerGetAttributes(5, attributes, values, Device(pointer))) {
      return error;
    }
    found.type = managed                        ? cudaMemoryTypeManaged
                 : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                 : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                : cudaMemoryTypeUnregistered;
    found.device = device;
    // cuda_runtime_api.h: the host pointer of unregistered memory is the pointer itself.
    if (found.type == cudaMemoryTypeUnregistered) found.hostPointer = const_cast<void*>(pointer);
    *out = found;
    return CUDA_SUCCESS;
  });
}

namespace {

cudaError_t Prefetch(const void* pointer, size_t bytes, CUmemLocation to, unsigned flags,
                     cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemPrefetchAsync_v2(Device(pointer), bytes, to, flags, stream);
  });
}

}  // namespace

#if CUDART_VERSION >= 13000
CUDART_API cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation to,
                                unsigned flags, cudaStream_t stream) {
  return Prefetch(pointer, bytes, Location(to), flags, stream);
}
#else
CUDART_API cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device,
                                cudaStream_t stream) {
  CUmemLocation to{};
  to.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  to.id = device == cudaCpuDeviceId ? 0 : device;
  return Prefetch(pointer, bytes, to, 0, stream);
}
CUDART_API cudaMemPrefetchAsync_v2(const void* pointer, size_t bytes, cudaMemLocation to,
                                   unsigned flags, cudaStream_t stream) {
  return Prefetch(pointer, bytes, Location(to), flags, stream);
}
#endif

CUDART_API cudaIpcGetMemHandle(cudaIpcMemHandle_t* out, void* pointer) {
  return WithContext([&](const Driver& driver) {
    return driver.cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(out), Device(pointer));
  });
}

CUDART_API cudaIpcOpenMemHandle(void** out, cudaIpcMemHandle_t handle, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    return driver.cuIpcOpenMemHandle_v2(Device(out),
                                        reinterpret_cast<const CUipcMemHandle&>(handle), flags);
  });
}

CUDART_API cudaIpcCloseMemHandle(void* pointer) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuIpcCloseMemHandle(Device(pointer)); });
}
