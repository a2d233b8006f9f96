// Copies to and from memory that cubfc has mapped or taken from a pool, by a device that cannot
// reach it. A program expects what memory of cuMemAlloc can do: any device's stream copies to and
// from it, between devices and between it and the host, whether the hardware lets the devices reach
// each other or not.
#pragma once

#include <cuda.h>

#include <optional>

namespace cubfc {

class Contexts;
struct Context;
struct DriverFunctions;

// Thread-safe. Asks the driver nothing where the arenas have memory of cuMemAlloc.
class PeerCopies {
 public:
  PeerCopies(const DriverFunctions& driver, Contexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  // The driver has refused a plain copy in this stream, which is named by its handle or as a
  // default stream. If that may be because the stream's device cannot reach a block of ours at one
  // end, though memory of cuMemAlloc would have been copied, `copy`, which describes it, says
  // afterwards of each end what it is (never CU_MEMORYTYPE_UNIFIED) and whose: cuMemcpyPeer and
  // cuMemcpy3DPeer have each end's own device do its part.
  struct Ends {
    bool host_uses_one;  // the host's own memory, or managed
  };
  std::optional<Ends> name_ends(CUDA_MEMCPY3D_PEER& copy, CUstream stream) const noexcept;

  // Whether cuMemcpyPeer is not sure to write: into a pool that other devices have access to it is
  // reported to succeed and to write nothing (CUDA.jl#3112: Turing, driver 590.48).
  bool peer_copy_may_be_lost(CUdeviceptr to) const noexcept;

 private:
  struct End {
    CUmemorytype type = CU_MEMORYTYPE_HOST;  // the driver knows no such memory, or pinned
    CUcontext context = nullptr;             // of the device's memory; nullptr: of none
    const Context* of_ours = nullptr;        // whose block it is, if it is one of ours
    bool is_known = false;                   // to the driver
    bool may_be_pageable = false;  // the driver says of it what it says of the host's own memory
  };
  End end_at(CUdeviceptr address) const noexcept;
  // The context in which the stream works; nullptr if that is not the current one.
  const Context* context_of(CUstream stream) const noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
};

}  // namespace cubfc
