// The wrappers of functions that copy from and to device memory. The driver makes each copy. If it
// refuses a copy because the stream's device cannot reach a block of cubfc's, the copy is made once
// more, in such a way that each end's own device does its part.
#include <algorithm>

#include "shim/ask/peer_copies.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/hook/calls.h"

namespace cubfc {
namespace {

using Functions = DriverFunctions;
using Plain = CUresult (*Functions::*)(CUdeviceptr, CUdeviceptr, size_t);
using PlainAsync = CUresult (*Functions::*)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
using Peer = CUresult (*Functions::*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
using PeerAsync = CUresult (*Functions::*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
                                           CUstream);
using PeerBox = CUresult (*Functions::*)(const CUDA_MEMCPY3D_PEER*);

// --- what is copied, as cuMemcpy3DPeer describes it

// One end of a row of bytes.
struct RowEnd {
  CUmemorytype type;
  CUdeviceptr address;
};

RowEnd anywhere(CUdeviceptr address) {
  return {CU_MEMORYTYPE_UNIFIED, address};
}
RowEnd on_device(CUdeviceptr address) {
  return {CU_MEMORYTYPE_DEVICE, address};
}
RowEnd on_host(const void* address) {
  return {CU_MEMORYTYPE_HOST, reinterpret_cast<CUdeviceptr>(address)};
}

CUDA_MEMCPY3D_PEER row_of(const RowEnd& to, const RowEnd& from, size_t bytes) {
  CUDA_MEMCPY3D_PEER copy{};
  copy.dstMemoryType = to.type;
  copy.dstDevice = to.address;
  copy.dstHost = reinterpret_cast<void*>(to.address);
  copy.srcMemoryType = from.type;
  copy.srcDevice = from.address;
  copy.srcHost = reinterpret_cast<const void*>(from.address);
  copy.WidthInBytes = bytes;
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

// The fields that CUDA_MEMCPY2D and CUDA_MEMCPY3D have in common.
template <typename Shape>
CUDA_MEMCPY3D_PEER rectangle_of(const Shape& shape) {
  CUDA_MEMCPY3D_PEER copy{};
  copy.dstXInBytes = shape.dstXInBytes;
  copy.dstY = shape.dstY;
  copy.dstMemoryType = shape.dstMemoryType;
  copy.dstHost = shape.dstHost;
  copy.dstDevice = shape.dstDevice;
  copy.dstArray = shape.dstArray;
  copy.dstPitch = shape.dstPitch;
  copy.srcXInBytes = shape.srcXInBytes;
  copy.srcY = shape.srcY;
  copy.srcMemoryType = shape.srcMemoryType;
  copy.srcHost = shape.srcHost;
  copy.srcDevice = shape.srcDevice;
  copy.srcArray = shape.srcArray;
  copy.srcPitch = shape.srcPitch;
  copy.WidthInBytes = shape.WidthInBytes;
  copy.Height = shape.Height;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMCPY3D_PEER box_of(const CUDA_MEMCPY2D& shape) {
  return rectangle_of(shape);
}
CUDA_MEMCPY3D_PEER box_of(const CUDA_MEMCPY3D& shape) {
  CUDA_MEMCPY3D_PEER copy = rectangle_of(shape);
  copy.dstZ = shape.dstZ;
  copy.dstLOD = shape.dstLOD;
  copy.dstHeight = shape.dstHeight;
  copy.srcZ = shape.srcZ;
  copy.srcLOD = shape.srcLOD;
  copy.srcHeight = shape.srcHeight;
  copy.Depth = shape.Depth;
  return copy;
}

// --- a refused copy, made once more by each end's own device

// The stream of a copy, by its handle or as a default stream. `waits`: the function is a
// synchronous one, so the host may use what is copied when the call returns.
struct Queue {
  CUstream stream;
  bool waits;
};
constexpr bool kPerThread = true;

Queue of_synchronous(bool per_thread) {
  return {per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY, true};
}
Queue in_order_of(CUstream stream, bool per_thread) {
  return {stream == nullptr ? of_synchronous(per_thread).stream : stream, false};
}

bool may_be_lost(CUdeviceptr to) {
  Process* const process = Process::active();
  return process != nullptr && process->peer_copies().peer_copy_may_be_lost(to);
}

CUresult copy_ends_of_box(const CUDA_MEMCPY3D_PEER& box, CUstream stream) {
  return call(&Functions::cuMemcpy3DPeerAsync, &box, stream);
}

// Copies a row in parts, each by copy_part, because a row of a box must not exceed the greatest
// pitch, which is 2 GiB less one byte (CU_DEVICE_ATTRIBUTE_MAX_PITCH).
constexpr size_t kMostOfARow = size_t{1} << 30;

template <typename CopyPart>
CUresult copy_parts(CUDA_MEMCPY3D_PEER part, CopyPart copy_part) {
  size_t left = part.WidthInBytes;
  CUresult result = CUDA_SUCCESS;
  while (left > 0 && result == CUDA_SUCCESS) {
    const size_t bytes = std::min(left, kMostOfARow);
    part.WidthInBytes = part.dstPitch = part.srcPitch = bytes;
    result = copy_part(part);
    part.dstDevice += bytes;
    part.dstHost = static_cast<char*>(part.dstHost) + bytes;
    part.srcDevice += bytes;
    part.srcHost = static_cast<const char*>(part.srcHost) + bytes;
    left -= bytes;
  }
  return result;
}

CUresult copy_ends_of_row(const CUDA_MEMCPY3D_PEER& row, CUstream stream) {
  const bool between =
      row.dstMemoryType == CU_MEMORYTYPE_DEVICE && row.srcMemoryType == CU_MEMORYTYPE_DEVICE;
  if (between && !may_be_lost(row.dstDevice)) {
    return call(&Functions::cuMemcpyPeerAsync, row.dstDevice, row.dstContext, row.srcDevice,
                row.srcContext, row.WidthInBytes, stream);
  }
  return copy_parts(row,
                    [&](const CUDA_MEMCPY3D_PEER& part) { return copy_ends_of_box(part, stream); });
}

// Called when the driver has refused a copy with the error `refused`, whatever the error is. (In
// all reports of such refused copies the error was CUDA_ERROR_INVALID_VALUE.) If the stream's
// device may be unable to reach a block of cubfc's, makes the copy once more, by copy_ends, in the
// order of its stream. Returns what the second copy returned; but `refused` if there was none, or
// if its error says that it cannot be made.
template <typename CopyEnds>
[[gnu::noinline]] CUresult copy_as_peers(CUresult refused, CopyEnds copy_ends,
                                         CUDA_MEMCPY3D_PEER copy, const Queue& queue) {
  Process* const process = Process::active();
  if (process == nullptr || copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) {
    return refused;
  }
  const NoCancellation no_cancellation;
  const auto ends = process->peer_copies().name_ends(copy, queue.stream);
  if (!ends) {
    return refused;
  }
  const CUresult result = copy_ends(copy, queue.stream);
  if (result == CUDA_SUCCESS && queue.waits && ends->host_uses_one) {
    const RelaxedCapture relaxed(process->driver());
    return call(&Functions::cuStreamSynchronize, queue.stream);
  }
  const bool cannot = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND ||
                      result == CUDA_ERROR_NOT_SUPPORTED;
  return cannot ? refused : result;
}

// Makes the driver's copy of a row, and copy_as_peers() if the driver refuses it. A thread that is
// cancelled in the driver's call is unwound through here, so nothing here may need cleaning up.
// `stream`: one argument, or none for a synchronous function.
template <typename To, typename From, typename... Args, typename... Stream>
CUresult copy_row(CUresult (*Functions::*function)(Args...), const Queue& queue,
                  const RowEnd& target, const RowEnd& source, To to, From from, size_t bytes,
                  Stream... stream) {
  const CUresult result = call(function, to, from, bytes, stream...);
  return result == CUDA_SUCCESS
             ? result
             : copy_as_peers(result, &copy_ends_of_row, row_of(target, source, bytes), queue);
}

// As copy_row(), for a rectangle or a box.
template <typename Shape, typename... Stream>
CUresult copy_box(CUresult (*Functions::*function)(const Shape*, Stream...), const Queue& queue,
                  const Shape* shape, Stream... stream) {
  const CUresult result = call(function, shape, stream...);
  return result == CUDA_SUCCESS || shape == nullptr
             ? result
             : copy_as_peers(result, &copy_ends_of_box, box_of(*shape), queue);
}

// Between an array and memory of a device.
CUDA_MEMCPY3D_PEER to_array(CUarray array, size_t offset, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D_PEER copy = row_of({CU_MEMORYTYPE_ARRAY, 0}, on_device(from), bytes);
  copy.dstArray = array;
  copy.dstXInBytes = offset;
  return copy;
}
CUDA_MEMCPY3D_PEER from_array(CUdeviceptr to, CUarray array, size_t offset, size_t bytes) {
  CUDA_MEMCPY3D_PEER copy = row_of(on_device(to), {CU_MEMORYTYPE_ARRAY, 0}, bytes);
  copy.srcArray = array;
  copy.srcXInBytes = offset;
  return copy;
}
template <typename... Args>
CUresult copy_array(CUresult (*Functions::*function)(Args...), bool per_thread,
                    CUDA_MEMCPY3D_PEER (*describe)(Args...), Args... args) {
  const CUresult result = call(function, args...);
  return result == CUDA_SUCCESS ? result
                                : copy_as_peers(result, &copy_ends_of_box, describe(args...),
                                                of_synchronous(per_thread));
}

// --- copies that the program makes between two contexts

CUDA_MEMCPY3D_PEER row_between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, size_t bytes) {
  CUDA_MEMCPY3D_PEER row = row_of(on_device(to), on_device(from), bytes);
  row.dstContext = to_context;
  row.srcContext = from_context;
  return row;
}

// Makes the driver's copy between two contexts. If the driver may lose that copy (report success
// and write nothing, see PeerCopies), copies the bytes once more, by `plain`. All earlier work of
// both contexts comes before the first copy, and so before the second. A third copy, of one byte,
// makes all later work of both contexts come after the second copy. That is the order that
// cudaMemcpyPeer promises. If `plain` is refused, `box` copies the bytes. Waits for nothing. As in
// copy_row(), nothing here may need cleaning up.
CUresult copy_between(Peer peer, Plain plain, PeerBox box, CUdeviceptr to, CUcontext to_context,
                      CUdeviceptr from, CUcontext from_context, size_t bytes) {
  const CUresult result = call(peer, to, to_context, from, from_context, bytes);
  if (result != CUDA_SUCCESS || bytes == 0 || !may_be_lost(to)) {
    return result;
  }
  if (call(plain, to, from, bytes) == CUDA_SUCCESS) {
    return call(peer, to, to_context, from, from_context, 1);
  }
  return copy_parts(row_between(to, to_context, from, from_context, bytes),
                    [&](const CUDA_MEMCPY3D_PEER& part) { return call(box, &part); });
}

// As copy_between(), in the order of a stream. If the driver may lose the copy, makes it by `plain`
// instead; or, if `plain` is refused because the stream's device does not reach both ends, by
// cuMemcpy3DPeerAsync, which nobody has reported to lose anything.
CUresult copy_between_async(PeerAsync peer, PlainAsync plain, CUdeviceptr to, CUcontext to_context,
                            CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream,
                            bool per_thread) {
  if (bytes == 0 || !may_be_lost(to)) {
    return call(peer, to, to_context, from, from_context, bytes, stream);
  }
  if (const CUresult result = call(plain, to, from, bytes, stream); result == CUDA_SUCCESS) {
    return result;
  }
  return copy_ends_of_row(row_between(to, to_context, from, from_context, bytes),
                          in_order_of(stream, per_thread).stream);
}

}  // namespace

namespace wrapper {
extern "C" {

// Each function, and its variant whose stream 0 is the per-thread default stream.
#define CUBFC_COPY_ROW(name, To, to_end, From, from_end)                                           \
  CUresult cubfc_##name(To to, From from, size_t bytes) {                                          \
    return copy_row(&Functions::name, of_synchronous(!kPerThread), to_end(to), from_end(from), to, \
                    from, bytes);                                                                  \
  }                                                                                                \
  CUresult cubfc_##name##_ptds(To to, From from, size_t bytes) {                                   \
    return copy_row(&Functions::name##_ptds, of_synchronous(kPerThread), to_end(to),               \
                    from_end(from), to, from, bytes);                                              \
  }
#define CUBFC_COPY_ROW_ASYNC(name, To, to_end, From, from_end)                            \
  CUresult cubfc_##name(To to, From from, size_t bytes, CUstream stream) {                \
    return copy_row(&Functions::name, in_order_of(stream, !kPerThread), to_end(to),       \
                    from_end(from), to, from, bytes, stream);                             \
  }                                                                                       \
  CUresult cubfc_##name##_ptsz(To to, From from, size_t bytes, CUstream stream) {         \
    return copy_row(&Functions::name##_ptsz, in_order_of(stream, kPerThread), to_end(to), \
                    from_end(from), to, from, bytes, stream);                             \
  }
#define CUBFC_COPY_BOX(name, Shape)                                              \
  CUresult cubfc_##name(const Shape* shape) {                                    \
    return copy_box(&Functions::name, of_synchronous(!kPerThread), shape);       \
  }                                                                              \
  CUresult cubfc_##name##_ptds(const Shape* shape) {                             \
    return copy_box(&Functions::name##_ptds, of_synchronous(kPerThread), shape); \
  }
#define CUBFC_COPY_BOX_ASYNC(name, Shape)                                                     \
  CUresult cubfc_##name(const Shape* shape, CUstream stream) {                                \
    return copy_box(&Functions::name, in_order_of(stream, !kPerThread), shape, stream);       \
  }                                                                                           \
  CUresult cubfc_##name##_ptsz(const Shape* shape, CUstream stream) {                         \
    return copy_box(&Functions::name##_ptsz, in_order_of(stream, kPerThread), shape, stream); \
  }

CUBFC_COPY_ROW(cuMemcpy, CUdeviceptr, anywhere, CUdeviceptr, anywhere)
CUBFC_COPY_ROW_ASYNC(cuMemcpyAsync, CUdeviceptr, anywhere, CUdeviceptr, anywhere)
CUBFC_COPY_ROW(cuMemcpyHtoD_v2, CUdeviceptr, on_device, const void*, on_host)
CUBFC_COPY_ROW_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, on_device, const void*, on_host)
CUBFC_COPY_ROW(cuMemcpyDtoH_v2, void*, on_host, CUdeviceptr, on_device)
CUBFC_COPY_ROW_ASYNC(cuMemcpyDtoHAsync_v2, void*, on_host, CUdeviceptr, on_device)
CUBFC_COPY_ROW(cuMemcpyDtoD_v2, CUdeviceptr, on_device, CUdeviceptr, on_device)
CUBFC_COPY_ROW_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, on_device, CUdeviceptr, on_device)
CUBFC_COPY_BOX(cuMemcpy2D_v2, CUDA_MEMCPY2D)
CUBFC_COPY_BOX(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D)
CUBFC_COPY_BOX_ASYNC(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D)
CUBFC_COPY_BOX(cuMemcpy3D_v2, CUDA_MEMCPY3D)
CUBFC_COPY_BOX_ASYNC(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D)

CUresult cubfc_cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return copy_array(&Functions::cuMemcpyDtoA_v2, !kPerThread, &to_array, to, offset, from, bytes);
}
CUresult cubfc_cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return copy_array(&Functions::cuMemcpyDtoA_v2_ptds, kPerThread, &to_array, to, offset, from,
                    bytes);
}
CUresult cubfc_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return copy_array(&Functions::cuMemcpyAtoD_v2, !kPerThread, &from_array, to, from, offset, bytes);
}
CUresult cubfc_cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return copy_array(&Functions::cuMemcpyAtoD_v2_ptds, kPerThread, &from_array, to, from, offset,
                    bytes);
}

CUresult cubfc_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes) {
  return copy_between(&Functions::cuMemcpyPeer, &Functions::cuMemcpyDtoD_v2,
                      &Functions::cuMemcpy3DPeer, to, to_context, from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  return copy_between(&Functions::cuMemcpyPeer_ptds, &Functions::cuMemcpyDtoD_v2_ptds,
                      &Functions::cuMemcpy3DPeer_ptds, to, to_context, from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(&Functions::cuMemcpyPeerAsync, &Functions::cuMemcpyDtoDAsync_v2, to,
                            to_context, from, from_context, bytes, stream, !kPerThread);
}
CUresult cubfc_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(&Functions::cuMemcpyPeerAsync_ptsz,
                            &Functions::cuMemcpyDtoDAsync_v2_ptsz, to, to_context, from,
                            from_context, bytes, stream, kPerThread);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
