// The exported functions that copy within the devices' memory.
#include "shim/entry_point_calls.h"

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

// The driver's copy between devices; or a plain one, if that can be had, where the other is not
// sure to write. Nothing here is to be cleaned up, either.
template <typename PeerFunction, typename Function, typename... Stream>
CUresult copy_between(PeerFunction peer_function, Function function, CUdeviceptr to,
                      CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                      Stream... stream) {
  Process* const process = Process::active();
  if (process != nullptr && process->peer_copies().peer_copy_may_be_lost(to)) {
    const CUresult result = call(function, to, from, bytes, stream...);
    if (result != CUDA_ERROR_INVALID_VALUE) {
      return result;
    }
  }
  return call(peer_function, to, to_context, from, from_context, bytes, stream...);
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
  return copy_between(Peer{&Functions::cuMemcpyPeer}, Plain{&Functions::cuMemcpy}, to, to_context,
                      from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes) {
  return copy_between(Peer{&Functions::cuMemcpyPeer_ptds}, Plain{&Functions::cuMemcpy_ptds}, to,
                      to_context, from, from_context, bytes);
}
CUresult cubfc_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                 CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between(PeerAsync{&Functions::cuMemcpyPeerAsync},
                      PlainAsync{&Functions::cuMemcpyAsync}, to, to_context, from, from_context,
                      bytes, stream);
}
CUresult cubfc_cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                      CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_between(PeerAsync{&Functions::cuMemcpyPeerAsync_ptsz},
                      PlainAsync{&Functions::cuMemcpyAsync_ptsz}, to, to_context, from,
                      from_context, bytes, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
