// cuMemcpy*: the bytes really move, in a stream's order.
#include "copies.h"

#include <cstring>
#include <memory>

#include "array_copies.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "vmm.h"
#include "work.h"

namespace standin {

bool IsDeviceRange(CUdeviceptr address, std::size_t bytes) {
  const Allocation* const found = FindAllocation(address);
  if (!found) return false;
  if (found->kind != Kind::kReserved) return bytes <= found->base + found->bytes - address;
  CUdeviceptr base = 0;
  std::size_t size = 0;
  for (CUdeviceptr at = address; at < address + bytes; at = base + size) {
    if (!FindMapping(at, &base, &size)) return false;
  }
  return true;
}

bool IsPinned(const void* address) {
  return FindAllocation(reinterpret_cast<CUdeviceptr>(address)) != nullptr;
}

namespace {

// One side of a copy. A pointer of unknown kind (cuMemcpy takes any) is told by its allocation.
struct Side {
  CUdeviceptr address;
  bool must_be_device;
};

Side DeviceSide(CUdeviceptr address) {
  return {address, true};
}
Side AnySide(CUdeviceptr address) {
  return {address, false};
}
Side HostSide(const void* address) {
  return {reinterpret_cast<CUdeviceptr>(address), false};
}

struct Shape {
  std::size_t width;  // bytes of a row
  std::size_t height = 1;
  std::size_t to_pitch = 0;
  std::size_t from_pitch = 0;
};

std::size_t Extent(const Shape& shape, std::size_t pitch) {
  return shape.height == 0 ? 0 : (shape.height - 1) * pitch + shape.width;
}

bool Valid(const Side& side, std::size_t bytes) {
  return !side.must_be_device || IsDeviceRange(side.address, bytes);
}

void CopyRows(CUdeviceptr to, CUdeviceptr from, const Shape& shape) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    std::memmove(reinterpret_cast<void*>(to + row * shape.to_pitch),
                 reinterpret_cast<const void*>(from + row * shape.from_pitch), shape.width);
  }
}

enum class Waits { kAlways, kForHost, kNever };

// CUDA API synchronization behavior: from pageable memory an asynchronous copy returns when the
// bytes are staged, to pageable memory when they are there; a copy within the device never waits.
CUresult Copy(Side to, Side from, Shape shape, CUstream handle, Waits waits) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (waits == Waits::kForHost) {
    if (const CUresult error = CheckSynchronousUse(*stream)) return error;
  }
  if (shape.width == 0 || shape.height == 0) return CUDA_SUCCESS;
  const std::size_t from_bytes = Extent(shape, shape.from_pitch);
  if (!Valid(to, Extent(shape, shape.to_pitch)) || !Valid(from, from_bytes)) {
    return Behaviour("cuMemcpy.not_device_memory");
  }
  const bool to_pageable = !IsPinned(reinterpret_cast<void*>(to.address));
  const bool from_pageable = !IsPinned(reinterpret_cast<void*>(from.address));
  std::function<void()> run = [=] { CopyRows(to.address, from.address, shape); };
  if (from_pageable && !stream->capture && waits == Waits::kNever) {
    const std::shared_ptr<char[]> staged(new char[from_bytes]);
    std::memcpy(staged.get(), reinterpret_cast<const void*>(from.address), from_bytes);
    run = [=] { CopyRows(to.address, reinterpret_cast<CUdeviceptr>(staged.get()), shape); };
  }
  FencePtr fence;
  if (const CUresult error = Submit(*stream, std::move(run), &fence)) return error;
  const bool within_device = to.must_be_device && from.must_be_device;
  const bool wait = waits == Waits::kAlways || (waits == Waits::kForHost && !within_device) ||
                    (waits == Waits::kNever && to_pageable);
  if (wait && fence) WaitFor(lock, {fence});
  return CUDA_SUCCESS;
}

bool Locate(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t pitch,
            std::size_t x, std::size_t y, Side& out) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      out = HostSide(host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      out = DeviceSide(device);
      break;
    case CU_MEMORYTYPE_UNIFIED:
      out = AnySide(device);
      break;
    default:
      return false;
  }
  out.address += y * pitch + x;
  return true;
}

CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream stream, Waits waits) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CopyRectangle(*copy, stream, waits == Waits::kNever ? Wait::kNever : Wait::kForHost);
  }
  Shape shape{copy->WidthInBytes, copy->Height, copy->dstPitch, copy->srcPitch};
  if (shape.to_pitch == 0) shape.to_pitch = shape.width;
  if (shape.from_pitch == 0) shape.from_pitch = shape.width;
  if (shape.to_pitch < shape.width || shape.from_pitch < shape.width) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Side to{};
  Side from{};
  if (!Locate(copy->dstMemoryType, copy->dstHost, copy->dstDevice, shape.to_pitch,
              copy->dstXInBytes, copy->dstY, to) ||
      !Locate(copy->srcMemoryType, copy->srcHost, copy->srcDevice, shape.from_pitch,
              copy->srcXInBytes, copy->srcY, from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Copy(to, from, shape, stream, waits);
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
  return Copy(AnySide(to), AnySide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyAsync, _ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
             (to, from, bytes, stream)) {
  return Copy(AnySide(to), AnySide(from), {bytes}, stream, Waits::kNever);
}

STREAM_ENTRY(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void* from, size_t bytes),
             (to, from, bytes)) {
  return Copy(DeviceSide(to), HostSide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyHtoDAsync_v2, _ptsz,
             (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
             (to, from, bytes, stream)) {
  return Copy(DeviceSide(to), HostSide(from), {bytes}, stream, Waits::kNever);
}

STREAM_ENTRY(cuMemcpyDtoH_v2, _ptds, (void* to, CUdeviceptr from, size_t bytes),
             (to, from, bytes)) {
  return Copy(HostSide(to), DeviceSide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyDtoHAsync_v2, _ptsz,
             (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
             (to, from, bytes, stream)) {
  return Copy(HostSide(to), DeviceSide(from), {bytes}, stream, Waits::kNever);
}

STREAM_ENTRY(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
             (to, from, bytes)) {
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyDtoDAsync_v2, _ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
             (to, from, bytes, stream)) {
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, stream, Waits::kNever);
}

STREAM_ENTRY(cuMemcpyPeer, _ptds,
             (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes),
             (to, to_context, from, from_context, bytes)) {
  (void)to_context, (void)from_context;
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyPeerAsync, _ptsz,
             (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes, CUstream stream),
             (to, to_context, from, from_context, bytes, stream)) {
  (void)to_context, (void)from_context;
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, stream, Waits::kNever);
}

STREAM_ENTRY(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D* copy), (copy)) {
  return Copy2D(copy, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D* copy), (copy)) {
  return Copy2D(copy, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D* copy, CUstream stream),
             (copy, stream)) {
  return Copy2D(copy, stream, Waits::kNever);
}
