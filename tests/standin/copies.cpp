// cuMemcpy*: the bytes really move, in a stream's order.
#include "copies.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "array_copies.h"
#include "behaviour.h"
#include "capture.h"
#include "contents.h"
#include "entry_point.h"
#include "pools.h"
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

bool IsReadByHost(CUdeviceptr address) {
  const Allocation* const found = FindAllocation(address);
  return found &&
         (IsManaged(found->kind) || (IsHost(found->kind) && found->kind != Kind::kHostPool));
}

namespace {

// The device whose memory that is; nothing of the host's, and of managed memory, which has no
// place.
std::optional<int> DeviceOf(CUdeviceptr address) {
  const Allocation* const found = FindAllocation(address);
  if (!found || IsManaged(found->kind) || IsHost(found->kind)) return std::nullopt;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  int device = found->device;
  if (found->kind == Kind::kReserved) FindMapping(address, &base, &bytes, &device);
  return device;
}

bool Reaches(int device, const Range& range, bool write) {
  const Allocation* const found = FindAllocation(range.address);
  if (!found) return true;
  if (found->kind == Kind::kPool || found->kind == Kind::kImportedPool) {
    return IsReachable(found->pool, device);
  }
  if (found->kind != Kind::kReserved) return true;
  const CUmemAccess_flags wanted =
      write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  CUdeviceptr base = 0;
  std::size_t size = 0;
  for (CUdeviceptr at = range.address; at < range.address + range.bytes; at = base + size) {
    if (!FindMapping(at, &base, &size) || AccessTo(at, device) < wanted) return false;
  }
  return true;
}

}  // namespace

CUresult CheckReach(const Stream& stream, By by, const Range& to, const Range& from) {
  const std::optional<int> to_device = DeviceOf(to.address);
  const std::optional<int> from_device = DeviceOf(from.address);
  const auto both_reached = [&](int reaches_to, int reaches_from) {
    return Reaches(reaches_to, to, true) && Reaches(reaches_from, from, false);
  };
  // By its own device at least.
  if (!both_reached(to_device.value_or(0), from_device.value_or(0))) {
    return Behaviour("cuMemcpy.no_access");
  }
  const int device = stream.context->device;
  if (by == By::kEachSidesDevice || both_reached(device, device)) return CUDA_SUCCESS;
  const bool between = to_device && from_device && *to_device != *from_device;
  return between || BehaviourFlag("cuMemcpy.host_copy_needs_access")
             ? Behaviour("cuMemcpy.no_peer_access")
             : CUDA_SUCCESS;
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

std::size_t BytesOf(const Shape& shape, std::size_t pitch) {
  return shape.height == 0 ? 0 : (shape.height - 1) * pitch + shape.width;
}

bool Valid(const Side& side, std::size_t bytes) {
  return !side.must_be_device || IsDeviceRange(side.address, bytes);
}

void CopyRows(CUdeviceptr to, CUdeviceptr from, const Shape& shape) {
  for (std::size_t row = 0; row < shape.height; ++row) {
    MoveBytes(to + row * shape.to_pitch, from + row * shape.from_pitch, shape.width,
              shape.width * shape.height);
  }
}

// The copy as a memcpy node of a graph. Memory that the driver knows is told apart, other is the
// host's.
CUDA_MEMCPY3D Described(const Side& to, const Side& from, const Shape& shape) {
  const auto type_of = [](const Side& side) {
    const Allocation* const known = FindAllocation(side.address);
    const bool host = !known || IsHost(known->kind);
    return host && !side.must_be_device ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  };
  CUDA_MEMCPY3D copy{};
  copy.dstMemoryType = type_of(to);
  copy.dstHost = reinterpret_cast<void*>(to.address);
  copy.dstDevice = to.address;
  copy.dstPitch = shape.to_pitch;
  copy.srcMemoryType = type_of(from);
  copy.srcHost = reinterpret_cast<const void*>(from.address);
  copy.srcDevice = from.address;
  copy.srcPitch = shape.from_pitch;
  copy.WidthInBytes = shape.width;
  copy.Height = shape.height;
  copy.Depth = 1;
  return copy;
}

// The numbers that this thread has been told to read (standin_answer_reads) and that the copy
// reads: one for up to eight bytes, one for each eight bytes of more. Empty if the copy reads no
// numbers, or more than are left.
std::vector<std::uint64_t> AnswerTo(const Side& to, const Side& from, const Shape& shape) {
  constexpr std::size_t kBytes = sizeof(std::uint64_t);
  std::vector<std::uint64_t>& answers = thread_state().answers;
  const std::size_t count = shape.width <= kBytes ? 1 : shape.width / kBytes;
  const bool are_numbers = shape.width <= kBytes || shape.width % kBytes == 0;
  if (!are_numbers || count > answers.size() || shape.height != 1 || DeviceOf(to.address) ||
      !DeviceOf(from.address)) {
    return {};
  }
  const auto first = answers.end() - static_cast<std::ptrdiff_t>(count);
  std::vector<std::uint64_t> next(first, answers.end());
  std::reverse(next.begin(), next.end());
  answers.erase(first, answers.end());
  return next;
}

enum class Waits { kAlways, kForHost, kNever };

// On a pool to which another device has access, cuMemcpyPeer is reported to succeed and to write
// nothing.
bool IsLost(const Side& to, By by) {
  const Allocation* const found = FindAllocation(to.address);
  return by == By::kEachSidesDevice && found && found->kind == Kind::kPool &&
         IsShared(found->pool) && !BehaviourFlag("cuMemcpyPeer.writes_to_shared_pool");
}

// CUDA API synchronization behavior: from pageable memory an asynchronous copy returns when the
// bytes are staged, to pageable memory when they are there; a copy within the device never waits.
// `between`: contexts whose work it stands between.
CUresult Copy(Side to, Side from, Shape shape, CUstream handle, Waits waits,
              By by = By::kStreamsDevice,
              const std::optional<std::vector<CUcontext>>& between = std::nullopt) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (waits == Waits::kForHost) {
    if (const CUresult error = CheckSynchronousUse(*stream)) return error;
  }
  if (shape.width == 0 || shape.height == 0) return CUDA_SUCCESS;
  const std::size_t from_bytes = BytesOf(shape, shape.from_pitch);
  const std::size_t to_bytes = BytesOf(shape, shape.to_pitch);
  if (!Valid(to, to_bytes) || !Valid(from, from_bytes)) {
    return Behaviour("cuMemcpy.not_device_memory");
  }
  if (const CUresult error =
          CheckReach(*stream, by, {to.address, to_bytes}, {from.address, from_bytes})) {
    return error;
  }
  if (stream->capture) {
    if (IsLost(to, by)) return AddNode(*stream, EmptyNode{});
    return AddNode(*stream, CopyNode{Described(to, from, shape), stream->context->handle});
  }
  const bool to_pageable = !IsPinned(reinterpret_cast<void*>(to.address));
  const bool from_pageable = !IsPinned(reinterpret_cast<void*>(from.address));
  std::function<void()> run = [=] { CopyRows(to.address, from.address, shape); };
  if (from_pageable && waits == Waits::kNever &&
      LeavesItsBytes(to.address, shape.width * shape.height)) {
    const std::shared_ptr<char[]> staged(new char[from_bytes]);
    std::memcpy(staged.get(), reinterpret_cast<const void*>(from.address), from_bytes);
    run = [=] { CopyRows(to.address, reinterpret_cast<CUdeviceptr>(staged.get()), shape); };
  }
  if (IsLost(to, by)) run = [] {};
  if (std::vector<std::uint64_t> numbers = AnswerTo(to, from, shape); !numbers.empty()) {
    run = [numbers = std::move(numbers), to, shape] {
      std::memcpy(reinterpret_cast<void*>(to.address), numbers.data(), shape.width);
    };
  }
  FencePtr fence;
  const CUresult submitted = between ? SubmitBetween(*stream, std::move(run), *between, &fence)
                                     : Submit(*stream, std::move(run), &fence);
  if (submitted != CUDA_SUCCESS) return submitted;
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

CUresult CopyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return Copy(AnySide(to), AnySide(from), {bytes}, stream, Waits::kNever);
}

}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
  return Copy(AnySide(to), AnySide(from), {bytes}, nullptr, Waits::kForHost);
}

STREAM_ENTRY(cuMemcpyAsync, _ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
             (to, from, bytes, stream)) {
  return CopyAsync(to, from, bytes, stream);
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
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, nullptr, Waits::kForHost,
              By::kEachSidesDevice, {{to_context, from_context}});
}

STREAM_ENTRY(cuMemcpyPeerAsync, _ptsz,
             (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t bytes, CUstream stream),
             (to, to_context, from, from_context, bytes, stream)) {
  (void)to_context, (void)from_context;
  return Copy(DeviceSide(to), DeviceSide(from), {bytes}, stream, Waits::kNever,
              By::kEachSidesDevice);
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
