// Copies to and from memory that cubfc has mapped or taken from a pool, by a device that cannot
// reach it. A program expects what memory of cuMemAlloc can do: any device's stream copies to and
// from it, between devices and between it and the host, whether the hardware lets the devices reach
// each other or not.
#pragma once

#include <cuda.h>

namespace cubfc {

class Contexts;
struct Context;
struct DriverFunctions;

// Thread-safe. Asks the driver nothing where the arenas have memory of cuMemAlloc.
class PeerCopies {
 public:
  PeerCopies(const DriverFunctions& driver, Contexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  // The driver has refused a plain copy. True if that may be because the
  // stream's device cannot reach a block of ours at one end, though memory of cuMemAlloc would have
  // been copied. Then `copy`, which describes it, says of each end what it is (never
  // CU_MEMORYTYPE_UNIFIED) and whose: cuMemcpyPeer and cuMemcpy3DPeer have each end's own device do
  // its part.
  bool name_ends(CUDA_MEMCPY3D_PEER& copy) const noexcept;

  // Whether cuMemcpyPeer is not sure to write: into a pool that other devices have access to it is
  // reported to succeed and to write nothing (CUDA.jl#3112: Turing, driver 590.48).
  bool peer_copy_may_be_lost(CUdeviceptr to) const noexcept;

 private:
  struct End {
    CUmemorytype type = CU_MEMORYTYPE_HOST;  // the driver knows no such memory, or pinned
    CUcontext context = nullptr;             // of the device's memory; nullptr: of none
    bool is_ours = false;                    // a block of ours
    bool is_known = false;                   // to the driver; what is not may be pageable
  };
  End end_at(CUdeviceptr address) const noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
};

}  // namespace cubfc
