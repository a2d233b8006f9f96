// The exported functions that copy from and to the devices' memory. All are the driver's; what it
// refuses because the stream's device cannot reach a block of ours is made once more, so that each
// end's own device does its part.
#include <algorithm>

#include "shim/ask/peer_copies.h"
#include "shim/hook/calls.h"

namespace cubfc {
namespace {

using Functions = DriverFunctions;
using Plain = CUresult (*Functions::*)(CUdeviceptr, CUdeviceptr, size_t);
using PlainAsync = CUresult (*Functions::*)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
using Peer = CUresult (*Functions::*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
using PeerAsync = CUresult (*Functions::*)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t,
                                           CUstream);

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

// What a rectangle and a box have in common.
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

// --- how each end's own device is had to do its part

// Where the caller waits.
struct Waiting {
  Peer row;
  CUresult (*Functions::*box)(const CUDA_MEMCPY3D_PEER*);
  bool per_thread;
  CUstream queue() const { return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY; }
};
constexpr Waiting kInLegacy{&Functions::cuMemcpyPeer, &Functions::cuMemcpy3DPeer, false};
constexpr Waiting kInPerThread{&Functions::cuMemcpyPeer_ptds, &Functions::cuMemcpy3DPeer_ptds,
                               true};

// In the order of a stream, which is named in each call.
struct InOrder {
  PeerAsync row;
  CUresult (*Functions::*box)(const CUDA_MEMCPY3D_PEER*, CUstream);
};
constexpr InOrder kInStream{&Functions::cuMemcpyPeerAsync, &Functions::cuMemcpy3DPeerAsync};
constexpr InOrder kInStreamPerThread{&Functions::cuMemcpyPeerAsync_ptsz,
                                     &Functions::cuMemcpy3DPeerAsync_ptsz};

template <typename Way, typename... Stream>
CUresult copy_ends_of_box(const Way& way, const CUDA_MEMCPY3D_PEER& box, Stream... stream) {
  return call(way.box, &box, stream...);
}

// A row of a box is no longer than the greatest pitch, which is 2 GiB less one byte
// (CU_DEVICE_ATTRIBUTE_MAX_PITCH): one from or to the host is copied in parts.
constexpr size_t kMostOfARow = size_t{1} << 30;

template <typename Way, typename... Stream>
CUresult copy_ends_of_row(const Way& way, CUDA_MEMCPY3D_PEER part, Stream... stream) {
  if (part.dstMemoryType == CU_MEMORYTYPE_DEVICE && part.srcMemoryType == CU_MEMORYTYPE_DEVICE) {
    return call(way.row, part.dstDevice, part.dstContext, part.srcDevice, part.srcContext,
                part.WidthInBytes, stream...);
  }
  size_t left = part.WidthInBytes;
  CUresult result = CUDA_SUCCESS;
  while (left > 0 && result == CUDA_SUCCESS) {
    const size_t bytes = std::min(left, kMostOfARow);
    part.WidthInBytes = part.dstPitch = part.srcPitch = bytes;
    result = call(way.box, &part, stream...);
    part.dstDevice += bytes;
    part.dstHost = static_cast<char*>(part.dstHost) + bytes;
    part.srcDevice += bytes;
    part.srcHost = static_cast<const char*>(part.srcHost) + bytes;
    left -= bytes;
  }
  return result;
}

// The driver has refused the copy, by whatever error: INVALID_VALUE by all reports. Made once more,
// if the stream's device may be unable to reach one of our blocks. What is refused then, too, has
// the first answer; another error is told.
template <typename Way, typename Ends, typename... Stream>
[[gnu::noinline]] CUresult copy_as_peers(CUresult refused, const Way& way, Ends copy_ends,
                                         CUDA_MEMCPY3D_PEER copy, Stream... stream) {
  Process* const process = Process::active();
  if (process == nullptr) {
    return refused;
  }
  const NoCancellation no_cancellation;
  if (!process->peer_copies().name_ends(copy)) {
    return refused;
  }
  const CUresult result = copy_ends(way, copy, stream...);
  if constexpr (sizeof...(Stream) == 0) {
    if (result == CUDA_SUCCESS) {  // one end may be the host's, managed memory included
      return call(&Functions::cuStreamSynchronize, way.queue());
    }
  }
  return result == CUDA_ERROR_INVALID_VALUE ? refused : result;
}

// The driver's copy of a row. A thread that is cancelled in it is unwound through here, so nothing
// here is to be cleaned up. `stream` is one argument or none.
template <typename Way, typename To, typename From, typename... Args, typename... Stream>
CUresult copy_row(const Way& way, CUresult (*Functions::*function)(Args...), To to, From from,
                  const RowEnd& target, const RowEnd& source, size_t bytes, Stream... stream) {
  const CUresult result = call(function, to, from, bytes, stream...);
  return result == CUDA_SUCCESS ? result
                                : copy_as_peers(result, way, &copy_ends_of_row<Way, Stream...>,
                                                row_of(target, source, bytes), stream...);
}

// The same of a rectangle or of a box.
template <typename Way, typename Shape, typename... Stream>
CUresult copy_box(const Way& way, CUresult (*Functions::*function)(const Shape*, Stream...),
                  const Shape* shape, Stream... stream) {
  const CUresult result = call(function, shape, stream...);
  return result == CUDA_SUCCESS || shape == nullptr
             ? result
             : copy_as_peers(result, way, &copy_ends_of_box<Way, Stream...>, box_of(*shape),
                             stream...);
}

// --- copies that the program makes between two contexts

bool may_be_lost(CUdeviceptr to) {
  Process* const process = Process::active();
  return process != nullptr && process->peer_copies().peer_copy_may_be_lost(to);
}

// The driver's copy between devices. Where that is not sure to write, the bytes are written once
// more, in the same default stream: after the first copy, by which all earlier work on both
// devices is done, and with a wait, so that all later work comes after it. That order is what
// cudaMemcpyPeer promises. Nothing here is to be cleaned up, either.
CUresult copy_between(const Waiting& way, Plain function, CUdeviceptr to, CUcontext to_context,
                      CUdeviceptr from, CUcontext from_context, size_t bytes) {
  const CUresult result = call(way.row, to, to_context, from, from_context, bytes);
  if (result == CUDA_SUCCESS && may_be_lost(to) &&
      call(function, to, from, bytes) == CUDA_SUCCESS) {
    return call(&Functions::cuStreamSynchronize, way.queue());
  }
  return result;
}

// In a stream's order: a copy within the devices instead, if that can be had, where the other is
// not sure to write.
CUresult copy_between_async(const InOrder& way, PlainAsync function, CUdeviceptr to,
                            CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                            size_t bytes, CUstream stream) {
  if (may_be_lost(to)) {
    const CUresult result = call(function, to, from, bytes, stream);
    if (result == CUDA_SUCCESS) {
      return result;
    }
  }
  return call(way.row, to, to_context, from, from_context, bytes, stream);
}

}  // namespace

namespace wrapper {
extern "C" {

// Each function, and its form whose stream 0 is the thread's own.
#define CUBFC_COPY_ROW(name, To, to_end, From, from_end)                                         \
  CUresult cubfc_##name(To to, From from, size_t bytes) {                                        \
    return copy_row(kInLegacy, &Functions::name, to, from, to_end(to), from_end(from), bytes);   \
  }                                                                                              \
  CUresult cubfc_##name##_ptds(To to, From from, size_t bytes) {                                 \
    return copy_row(kInPerThread, &Functions::name##_ptds, to, from, to_end(to), from_end(from), \
                    bytes);                                                                      \
  }
#define CUBFC_COPY_ROW_ASYNC(name, To, to_end, From, from_end)                                \
  CUresult cubfc_##name(To to, From from, size_t bytes, CUstream stream) {                    \
    return copy_row(kInStream, &Functions::name, to, from, to_end(to), from_end(from), bytes, \
                    stream);                                                                  \
  }                                                                                           \
  CUresult cubfc_##name##_ptsz(To to, From from, size_t bytes, CUstream stream) {             \
    return copy_row(kInStreamPerThread, &Functions::name##_ptsz, to, from, to_end(to),        \
                    from_end(from), bytes, stream);                                           \
  }
#define CUBFC_COPY_BOX(name, Shape)                                \
  CUresult cubfc_##name(const Shape* shape) {                      \
    return copy_box(kInLegacy, &Functions::name, shape);           \
  }                                                                \
  CUresult cubfc_##name##_ptds(const Shape* shape) {               \
    return copy_box(kInPerThread, &Functions::name##_ptds, shape); \
  }
#define CUBFC_COPY_BOX_ASYNC(name, Shape)                                        \
  CUresult cubfc_##name(const Shape* shape, CUstream stream) {                   \
    return copy_box(kInStream, &Functions::name, shape, stream);                 \
  }                                                                              \
  CUresult cubfc_##name##_ptsz(const Shape* shape, CUstream stream) {            \
    return copy_box(kInStreamPerThread, &Functions::name##_ptsz, shape, stream); \
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

CUresult cubfc_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes) {
  return copy_between(kInLegacy, &Functions::cuMemcpyDtoD_v2, to, to_context, from, from_context,
                      bytes);
}
CUresult cubfc_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  return copy_between(kInPerThread, &Functions::cuMemcpyDtoD_v2_ptds, to, to_context, from,
                      from_context, bytes);
}
CUresult cubfc_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(kInStream, &Functions::cuMemcpyDtoDAsync_v2, to, to_context, from,
                            from_context, bytes, stream);
}
CUresult cubfc_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(kInStreamPerThread, &Functions::cuMemcpyDtoDAsync_v2_ptsz, to,
                            to_context, from, from_context, bytes, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
