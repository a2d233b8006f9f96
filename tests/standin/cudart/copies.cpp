// cudaMemcpy* and cudaMemset* of memory that pointers name.
#include "convert.h"
#include "forward.h"

using namespace cudart;

namespace {

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

// A box of bytes, slice by slice: as one rectangle where no rows lie between the slices.
template <typename Set>
CUresult EachSlice(const cudaPitchedPtr& to, const cudaExtent& box, Set set) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  if (box.height == to.ysize) return set(Device(to.ptr), box.height * box.depth);
  for (size_t z = 0; z < box.depth; ++z) {
    if (const CUresult error = set(Device(to.ptr) + z * to.ysize * to.pitch, box.height)) {
      return error;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

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

CUDART_FORWARD(3, cudaMemset, cuMemsetD8_v2)
CUDART_FORWARD(4, cudaMemsetAsync, cuMemsetD8Async)
CUDART_FORWARD(5, cudaMemset2D, cuMemsetD2D8_v2)
CUDART_FORWARD(6, cudaMemset2DAsync, cuMemsetD2D8Async)

CUDART_API cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent box) {
  return WithContext([&](const Driver& driver) {
    return EachSlice(to, box, [&](CUdeviceptr slice, size_t rows) {
      return driver.cuMemsetD2D8_v2(slice, to.pitch, static_cast<unsigned char>(value), box.width,
                                    rows);
    });
  });
}

CUDART_API cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent box, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) {
    return EachSlice(to, box, [&](CUdeviceptr slice, size_t rows) {
      return driver.cuMemsetD2D8Async(slice, to.pitch, static_cast<unsigned char>(value), box.width,
                                      rows, stream);
    });
  });
}

#if CUDART_VERSION >= 13000
CUDART_FORWARD(8, cudaMemcpyBatchAsync, cuMemcpyBatchAsync_v2)
CUDART_FORWARD(4, cudaMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2)
#endif
