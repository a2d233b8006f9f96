// The exported functions that copy within the devices' memory.
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

// The driver has refused a plain copy. Made between the devices, if that is what was lacking.
template <typename PeerFunction, typename... Stream>
[[gnu::noinline]] CUresult copy_as_peers(PeerFunction peer_function, CUdeviceptr to,
                                         CUdeviceptr from, size_t bytes, Stream... stream) {
  Process* const process = Process::active();
  if (process == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const NoCancellation no_cancellation;
  const auto ends = process->peer_copies().ends_of_refused(to, from);
  return ends ? call(peer_function, to, ends->to, from, ends->from, bytes, stream...)
              : CUDA_ERROR_INVALID_VALUE;
}

// The driver's plain copy. A thread that is cancelled in it is unwound through here, so nothing
// here is to be cleaned up. `stream` is one argument or none.
template <typename Function, typename PeerFunction, typename... Stream>
CUresult copy(Function function, PeerFunction peer_function, CUdeviceptr to, CUdeviceptr from,
              size_t bytes, Stream... stream) {
  const CUresult result = call(function, to, from, bytes, stream...);
  return result == CUDA_ERROR_INVALID_VALUE
             ? copy_as_peers(peer_function, to, from, bytes, stream...)
             : result;
}

bool may_be_lost(CUdeviceptr to) {
  Process* const process = Process::active();
  return process != nullptr && process->peer_copies().peer_copy_may_be_lost(to);
}

// The driver's copy between devices. Where that is not sure to write, the bytes are written once
// more, in the default stream `queue`: after the first copy, by which all earlier work on both
// devices is done, and with a wait, so that all later work comes after it. That order is what
// cudaMemcpyPeer promises. Nothing here is to be cleaned up, either.
CUresult copy_between(Peer peer_function, Plain function, CUstream queue, CUdeviceptr to,
                      CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                      size_t bytes) {
  const CUresult result = call(peer_function, to, to_context, from, from_context, bytes);
  if (result == CUDA_SUCCESS && may_be_lost(to) &&
      call(function, to, from, bytes) == CUDA_SUCCESS) {
    return call(&Functions::cuStreamSynchronize, queue);
  }
  return result;
}

// In a stream's order: a copy within the devices instead, if that can be had, where the other is
// not sure to write.
CUresult copy_between_async(PeerAsync peer_function, PlainAsync function, CUdeviceptr to,
                            CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                            size_t bytes, CUstream stream) {
  if (may_be_lost(to)) {
    const CUresult result = call(function, to, from, bytes, stream);
    if (result != CUDA_ERROR_INVALID_VALUE) {
      return result;
    }
  }
  return call(peer_function, to, to_context, from, from_context, bytes, stream);
}

}  // namespace

namespace wrapper {
extern "C" {

CUresult cubfc_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(Plain{&Functions::cuMemcpy}, Peer{&Functions::cuMemcpyPeer}, to, from, bytes);
}
CUresult cubfc_cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(Plain{&Functions::cuMemcpy_ptds}, Peer{&Functions::cuMemcpyPeer_ptds}, to, from,
              bytes);
}
CUresult cubfc_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(Plain{&Functions::cuMemcpyDtoD_v2}, Peer{&Functions::cuMemcpyPeer}, to, from, bytes);
}
CUresult cubfc_cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy(Plain{&Functions::cuMemcpyDtoD_v2_ptds}, Peer{&Functions::cuMemcpyPeer_ptds}, to,
              from, bytes);
}

CUresult cubfc_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(PlainAsync{&Functions::cuMemcpyAsync}, PeerAsync{&Functions::cuMemcpyPeerAsync}, to,
              from, bytes, stream);
}
CUresult cubfc_cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy(PlainAsync{&Functions::cuMemcpyAsync_ptsz},
              PeerAsync{&Functions::cuMemcpyPeerAsync_ptsz}, to, from, bytes, stream);
}
CUresult cubfc_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                    CUstream stream) {
  return copy(PlainAsync{&Functions::cuMemcpyDtoDAsync_v2},
              PeerAsync{&Functions::cuMemcpyPeerAsync}, to, from, bytes, stream);
}
CUresult cubfc_cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                         CUstream stream) {
  return copy(PlainAsync{&Functions::cuMemcpyDtoDAsync_v2_ptsz},
              PeerAsync{&Functions::cuMemcpyPeerAsync_ptsz}, to, from, bytes, stream);
}

CUresult cubfc_cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                            CUcontext from_context, size_t bytes) {
  return copy_between(&Functions::cuMemcpyPeer, &Functions::cuMemcpyDtoD_v2, CU_STREAM_LEGACY, to,
                      to_context, from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  return copy_between(&Functions::cuMemcpyPeer_ptds, &Functions::cuMemcpyDtoD_v2_ptds,
                      CU_STREAM_PER_THREAD, to, to_context, from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(&Functions::cuMemcpyPeerAsync, &Functions::cuMemcpyDtoDAsync_v2, to,
                            to_context, from, from_context, bytes, stream);
}
CUresult cubfc_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between_async(&Functions::cuMemcpyPeerAsync_ptsz,
                            &Functions::cuMemcpyDtoDAsync_v2_ptsz, to, to_context, from,
                            from_context, bytes, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
