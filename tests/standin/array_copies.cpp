// Copies of boxes of bytes: cuMemcpy3D, and all copies to and from arrays.
#include "array_copies.h"

#include <cstring>

#include "arrays.h"
#include "behaviour.h"
#include "capture.h"
#include "contents.h"
#include "copies.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

// Where a box begins, and how far it is to the next row and the next layer.
struct Side {
  std::byte* at = nullptr;
  std::size_t pitch = 0;
  std::size_t layer = 0;
  std::size_t extent = 0;  // bytes from `at` to the end of the box; none of an array
  bool pageable = false;
  bool host = false;
  std::shared_ptr<std::byte> keep;  // of an array, until the copy is done
};

struct Place {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  std::size_t pitch, height, x, y, z, level;
};

struct Box {
  std::size_t width, height, depth;
};

Place Source(const CUDA_MEMCPY3D& copy) {
  return {copy.srcMemoryType, copy.srcHost,     copy.srcDevice, copy.srcArray, copy.srcPitch,
          copy.srcHeight,     copy.srcXInBytes, copy.srcY,      copy.srcZ,     copy.srcLOD};
}

Place Destination(const CUDA_MEMCPY3D& copy) {
  return {copy.dstMemoryType, copy.dstHost,     copy.dstDevice, copy.dstArray, copy.dstPitch,
          copy.dstHeight,     copy.dstXInBytes, copy.dstY,      copy.dstZ,     copy.dstLOD};
}

CUresult LocateArray(const Place& place, const Box& box, Side& out) {
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(place.array, false, array)) return error;
  if (place.x + box.width > array->pitch() || place.y + box.height > array->height() ||
      place.z + box.depth > array->depth()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::byte* const bytes = array->bytes();
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t layer = array->pitch() * array->height();
  out = {.at = bytes + place.z * layer + place.y * array->pitch() + place.x,
         .pitch = array->pitch(),
         .layer = layer,
         .keep = array->data};
  return CUDA_SUCCESS;
}

enum class Check { kNo, kYes };

// Plain memory is checked where the program names it; when a graph runs, it may be the graph's, and
// freed behind the copy.
CUresult Locate(const Place& place, const Box& box, Side& out, Check check = Check::kYes) {
  if (place.level != 0) return CUDA_ERROR_INVALID_VALUE;  // cuda.h: srcLOD and dstLOD must be 0
  if (place.type == CU_MEMORYTYPE_ARRAY) return LocateArray(place, box, out);
  const bool host = place.type == CU_MEMORYTYPE_HOST;
  if (!host && place.type != CU_MEMORYTYPE_DEVICE && place.type != CU_MEMORYTYPE_UNIFIED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // cuda.h: pitch and height are ignored for a copy of one row or of one layer.
  const std::size_t pitch = place.pitch == 0 ? place.x + box.width : place.pitch;
  const std::size_t height = place.height == 0 ? place.y + box.height : place.height;
  if (pitch < place.x + box.width || height < place.y + box.height) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto base = host ? reinterpret_cast<CUdeviceptr>(place.host) : place.device;
  const CUdeviceptr at = base + place.z * height * pitch + place.y * pitch + place.x;
  const std::size_t extent =
      (box.depth - 1) * height * pitch + (box.height - 1) * pitch + box.width;
  if (check == Check::kYes && place.type == CU_MEMORYTYPE_DEVICE && !IsDeviceRange(at, extent)) {
    return Behaviour("cuMemcpy.not_device_memory");
  }
  auto* const bytes = reinterpret_cast<std::byte*>(at);
  out = {.at = bytes,
         .pitch = pitch,
         .layer = height * pitch,
         .extent = extent,
         .pageable = !IsPinned(bytes),
         .host = host,
         .keep = {}};
  return CUDA_SUCCESS;
}

void Move(const Side& to, const Side& from, const Box& box) {
  for (std::size_t z = 0; z < box.depth; ++z) {
    for (std::size_t y = 0; y < box.height; ++y) {
      MoveBytes(reinterpret_cast<CUdeviceptr>(to.at + z * to.layer + y * to.pitch),
                reinterpret_cast<CUdeviceptr>(from.at + z * from.layer + y * from.pitch), box.width,
                box.width * box.height * box.depth);
    }
  }
}

// The box alone, without gaps, of the host's memory. Wants state().mutex held.
Side Staged(const Side& from, const Box& box) {
  Side to{.pitch = box.width, .layer = box.width * box.height, .keep = {}};
  const std::shared_ptr<std::byte[]> bytes(new std::byte[to.layer * box.depth]);
  to.keep = {bytes, bytes.get()};
  to.at = to.keep.get();
  for (std::size_t row = 0; row < box.height * box.depth; ++row) {
    std::memcpy(to.at + row * to.pitch,
                from.at + row / box.height * from.layer + row % box.height * from.pitch, box.width);
  }
  return to;
}

// An array's memory every device reaches.
Range RangeOf(const Side& side) {
  return {side.extent == 0 ? 0 : reinterpret_cast<CUdeviceptr>(side.at), side.extent};
}

}  // namespace

// In a graph: what the copy names is looked up when it runs.
void RunCopy(const CUDA_MEMCPY3D& copy) {
  const Box box{copy.WidthInBytes, copy.Height, copy.Depth};
  Side to;
  Side from;
  {
    const Lock lock(state().mutex);
    if (Locate(Destination(copy), box, to, Check::kNo) ||
        Locate(Source(copy), box, from, Check::kNo)) {
      return;
    }
  }
  Move(to, from, box);
}

// The rules of waiting are those of copies.cpp: an asynchronous copy has staged what it takes from
// pageable memory, and has done what it puts there; the others wait where one side is the host's.
CUresult CopyBox(const CUDA_MEMCPY3D* copy, CUstream handle, Wait wait, By by,
                 const std::optional<std::vector<CUcontext>>& between) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  if (wait == Wait::kForHost) {
    if (const CUresult error = CheckSynchronousUse(*stream)) return error;
  }
  const Box box{copy->WidthInBytes, copy->Height, copy->Depth};
  if (box.width == 0 || box.height == 0 || box.depth == 0) return CUDA_SUCCESS;
  Side to;
  Side from;
  if (const CUresult error = Locate(Destination(*copy), box, to)) return error;
  if (const CUresult error = Locate(Source(*copy), box, from)) return error;
  if (const CUresult error = CheckReach(*stream, by, RangeOf(to), RangeOf(from))) return error;
  if (stream->capture) return AddNode(*stream, CopyNode{*copy, stream->context->handle});
  const bool waits =
      wait == Wait::kForHost ? to.host || from.host || to.pageable || from.pageable : to.pageable;
  if (from.pageable && wait == Wait::kNever) from = Staged(from, box);
  FencePtr fence;
  const auto run = [=] { Move(to, from, box); };
  const CUresult submitted =
      between ? SubmitBetween(*stream, run, *between, &fence) : Submit(*stream, run, &fence);
  if (submitted != CUDA_SUCCESS) return submitted;
  if (waits && fence) WaitFor(lock, {fence});
  return CUDA_SUCCESS;
}

CUresult CopyRectangle(const CUDA_MEMCPY2D& copy, CUstream stream, Wait wait) {
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = copy.srcXInBytes;
  box.srcY = copy.srcY;
  box.srcMemoryType = copy.srcMemoryType;
  box.srcHost = copy.srcHost;
  box.srcDevice = copy.srcDevice;
  box.srcArray = copy.srcArray;
  box.srcPitch = copy.srcPitch;
  box.dstXInBytes = copy.dstXInBytes;
  box.dstY = copy.dstY;
  box.dstMemoryType = copy.dstMemoryType;
  box.dstHost = copy.dstHost;
  box.dstDevice = copy.dstDevice;
  box.dstArray = copy.dstArray;
  box.dstPitch = copy.dstPitch;
  box.WidthInBytes = copy.WidthInBytes;
  box.Height = copy.Height;
  box.Depth = 1;
  return CopyBox(&box, stream, wait);
}

namespace {

// As cuMemcpyPeer: what is not asynchronous stands between the work before and after of both
// contexts.
CUresult CopyBetweenContexts(const CUDA_MEMCPY3D_PEER* copy, CUstream stream, Wait wait) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = copy->srcXInBytes;
  box.srcY = copy->srcY;
  box.srcZ = copy->srcZ;
  box.srcLOD = copy->srcLOD;
  box.srcMemoryType = copy->srcMemoryType;
  box.srcHost = copy->srcHost;
  box.srcDevice = copy->srcDevice;
  box.srcArray = copy->srcArray;
  box.srcPitch = copy->srcPitch;
  box.srcHeight = copy->srcHeight;
  box.dstXInBytes = copy->dstXInBytes;
  box.dstY = copy->dstY;
  box.dstZ = copy->dstZ;
  box.dstLOD = copy->dstLOD;
  box.dstMemoryType = copy->dstMemoryType;
  box.dstHost = copy->dstHost;
  box.dstDevice = copy->dstDevice;
  box.dstArray = copy->dstArray;
  box.dstPitch = copy->dstPitch;
  box.dstHeight = copy->dstHeight;
  box.WidthInBytes = copy->WidthInBytes;
  box.Height = copy->Height;
  box.Depth = copy->Depth;
  std::optional<std::vector<CUcontext>> between;
  if (wait == Wait::kForHost) between = {copy->dstContext, copy->srcContext};
  return CopyBox(&box, stream, wait, By::kEachSidesDevice, between);
}

Place InArray(CUarray array, std::size_t offset) {
  return {CU_MEMORYTYPE_ARRAY, nullptr, 0, array, 0, 0, offset, 0, 0, 0};
}
Place OnDevice(CUdeviceptr address) {
  return {CU_MEMORYTYPE_DEVICE, nullptr, address, nullptr, 0, 0, 0, 0, 0, 0};
}
Place OnHost(const void* address) {
  return {CU_MEMORYTYPE_HOST, address, 0, nullptr, 0, 0, 0, 0, 0, 0};
}

// One row of bytes.
CUresult CopyRow(const Place& to, const Place& from, std::size_t bytes, CUstream stream,
                 Wait wait) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from.type;
  copy.srcHost = from.host;
  copy.srcDevice = from.device;
  copy.srcArray = from.array;
  copy.srcXInBytes = from.x;
  copy.dstMemoryType = to.type;
  copy.dstHost = const_cast<void*>(to.host);
  copy.dstDevice = to.device;
  copy.dstArray = to.array;
  copy.dstXInBytes = to.x;
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return CopyBox(&copy, stream, wait);
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D* copy), (copy)) {
  return CopyBox(copy, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D* copy, CUstream stream),
             (copy, stream)) {
  return CopyBox(copy, stream, Wait::kNever);
}

STREAM_ENTRY(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER* copy), (copy)) {
  return CopyBetweenContexts(copy, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream),
             (copy, stream)) {
  return CopyBetweenContexts(copy, stream, Wait::kNever);
}

STREAM_ENTRY(cuMemcpyDtoA_v2, _ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
             (to, offset, from, bytes)) {
  return CopyRow(InArray(to, offset), OnDevice(from), bytes, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
             (to, from, offset, bytes)) {
  return CopyRow(OnDevice(to), InArray(from, offset), bytes, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpyHtoA_v2, _ptds, (CUarray to, size_t offset, const void* from, size_t bytes),
             (to, offset, from, bytes)) {
  return CopyRow(InArray(to, offset), OnHost(from), bytes, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpyHtoAAsync_v2, _ptsz,
             (CUarray to, size_t offset, const void* from, size_t bytes, CUstream stream),
             (to, offset, from, bytes, stream)) {
  return CopyRow(InArray(to, offset), OnHost(from), bytes, stream, Wait::kNever);
}

STREAM_ENTRY(cuMemcpyAtoH_v2, _ptds, (void* to, CUarray from, size_t offset, size_t bytes),
             (to, from, offset, bytes)) {
  return CopyRow(OnHost(to), InArray(from, offset), bytes, nullptr, Wait::kForHost);
}

STREAM_ENTRY(cuMemcpyAtoHAsync_v2, _ptsz,
             (void* to, CUarray from, size_t offset, size_t bytes, CUstream stream),
             (to, from, offset, bytes, stream)) {
  return CopyRow(OnHost(to), InArray(from, offset), bytes, stream, Wait::kNever);
}

STREAM_ENTRY(cuMemcpyAtoA_v2, _ptds,
             (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
             (to, to_offset, from, from_offset, bytes)) {
  return CopyRow(InArray(to, to_offset), InArray(from, from_offset), bytes, nullptr,
                 Wait::kForHost);
}
