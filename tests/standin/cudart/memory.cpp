// cudaMalloc and its like, what is told of pointers, managed memory, IPC.
#include "convert.h"
#include "forward.h"

using namespace cudart;

namespace {

cudaError_t AllocateHost(void** out, size_t bytes, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    if (out && bytes == 0) {
      *out = nullptr;
      return CUDA_SUCCESS;
    }
    return driver.cuMemHostAlloc(out, bytes, flags);
  });
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

CUDART_API cudaMallocHost(void** out, size_t bytes) {
  return AllocateHost(out, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUDART_API cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  return AllocateHost(out, bytes, flags);
}

CUDART_API cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  if (!out) return Remember(cudaErrorInvalidValue);
  void* pointer = nullptr;
  size_t pitch = 0;
  const cudaError_t error =
      cudaMallocPitch(&pointer, &pitch, extent.width, extent.height * extent.depth);
  if (error == cudaSuccess) *out = {pointer, pitch, extent.width, extent.height};
  return error;
}

CUDART_API cudaFreeHost(void* pointer) {
  return WithContext(
      [&](const Driver& driver) { return pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS; });
}

CUDART_FORWARD(3, cudaMallocManaged, cuMemAllocManaged)
CUDART_FORWARD(3, cudaHostRegister, cuMemHostRegister_v2)
CUDART_FORWARD(1, cudaHostUnregister, cuMemHostUnregister)
CUDART_FORWARD(3, cudaHostGetDevicePointer, cuMemHostGetDevicePointer_v2)
CUDART_FORWARD(2, cudaHostGetFlags, cuMemHostGetFlags)
CUDART_FORWARD(2, cudaMemGetInfo, cuMemGetInfo_v2)
CUDART_FORWARD(5, cudaMemRangeGetAttribute, cuMemRangeGetAttribute)
CUDART_FORWARD(6, cudaMemRangeGetAttributes, cuMemRangeGetAttributes)

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

cudaError_t Advise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                   CUmemLocation where) {
  return WithContext([&](const Driver& driver) {
    return driver.cuMemAdvise_v2(Device(pointer), bytes, static_cast<CUmem_advise>(advice), where);
  });
}

#if CUDART_VERSION < 13000
CUmemLocation LocationOf(int device) {
  CUmemLocation result{};
  result.type = device == cudaCpuDeviceId ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
  result.id = device == cudaCpuDeviceId ? 0 : device;
  return result;
}
#endif

}  // namespace

#if CUDART_VERSION >= 13000
CUDART_API cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation to,
                                unsigned flags, cudaStream_t stream) {
  return Prefetch(pointer, bytes, Location(to), flags, stream);
}
CUDART_API cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                         cudaMemLocation where) {
  return Advise(pointer, bytes, advice, Location(where));
}
CUDART_FORWARD(8, cudaMemPrefetchBatchAsync, cuMemPrefetchBatchAsync)
CUDART_FORWARD(5, cudaMemDiscardBatchAsync, cuMemDiscardBatchAsync)
CUDART_FORWARD(8, cudaMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync)
#else
CUDART_API cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device,
                                cudaStream_t stream) {
  return Prefetch(pointer, bytes, LocationOf(device), 0, stream);
}
CUDART_API cudaMemPrefetchAsync_v2(const void* pointer, size_t bytes, cudaMemLocation to,
                                   unsigned flags, cudaStream_t stream) {
  return Prefetch(pointer, bytes, Location(to), flags, stream);
}
CUDART_API cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device) {
  return Advise(pointer, bytes, advice, LocationOf(device));
}
CUDART_API cudaMemAdvise_v2(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                            cudaMemLocation where) {
  return Advise(pointer, bytes, advice, Location(where));
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
