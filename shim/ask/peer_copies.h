// Helps with copies to and from a block that is mapped memory or a pool's, by a device that cannot
// reach the block. A program expects of each block what memory of cuMemAlloc can do: a stream of
// any device copies between the block and any device or the host, whether or not the hardware lets
// the devices reach each other.
#pragma once

#include <cuda.h>

#include <optional>

namespace cubfc {

class Contexts;
struct Context;
struct DriverFunctions;

// Thread-safe. Makes no driver call if all arenas have memory of cuMemAlloc.
class PeerCopies {
 public:
  PeerCopies(const DriverFunctions& driver, Contexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  // Called when the driver has refused the plain copy that `copy` describes. `stream`: the copy's,
  // a handle or CU_STREAM_LEGACY or CU_STREAM_PER_THREAD. If one end is a block of cubfc's that the
  // stream's device may not reach, sets for each end of `copy` the type of its memory (never
  // CU_MEMORYTYPE_UNIFIED) and its context. With these, the driver copies by each end's own device
  // (cuMemcpyPeer, cuMemcpy3DPeer). Returns nothing if the copy was refused for another reason;
  // `copy` may have been changed all the same.
  struct Ends {
    bool host_uses_one;  // one end is the host's own memory, or managed
  };
  std::optional<Ends> name_ends(CUDA_MEMCPY3D_PEER& copy, CUstream stream) const noexcept;

  // Whether cuMemcpyPeer may lose a copy to this address. According to a report it returns success
  // and writes nothing if the address is a pool's that other devices have access to (CUDA.jl#3112:
  // Turing, driver 590.48).
  bool peer_copy_may_be_lost(CUdeviceptr to) const noexcept;

 private:
  struct End {
    CUmemorytype type = CU_MEMORYTYPE_HOST;  // memory that the driver does not know, or pinned
    CUcontext context = nullptr;             // of device memory; nullptr: it has none
    const Context* of_ours = nullptr;        // whose block it is, if it is cubfc's
    bool is_known = false;                   // whether the driver knows the memory
    bool may_be_pageable = false;            // the driver's error is that for pageable host memory
  };
  End end_at(CUdeviceptr address) const noexcept;
  // The context in which the stream works, if that is the current one; else nullptr.
  const Context* context_of(CUstream stream) const noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
};

}  // namespace cubfc
