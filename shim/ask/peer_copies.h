// Copies between two devices, of memory that cubfc has mapped or taken from a pool. A program
// expects what memory of cuMemAlloc can do: any device copies to and from it, by a plain copy as by
// cuMemcpyPeer, whether the hardware lets the two reach each other or not.
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

  // The driver has refused a plain copy (CUDA_ERROR_INVALID_VALUE). If that may be because the
  // stream's device cannot reach one of the ends, though memory of cuMemAlloc would have been
  // copied: the contexts to name to cuMemcpyPeer, by which each device does its own part.
  struct Ends {
    CUcontext to;
    CUcontext from;
  };
  std::optional<Ends> ends_of_refused(CUdeviceptr to, CUdeviceptr from) const noexcept;

  // Whether cuMemcpyPeer is not sure to write: into a pool that other devices have access to it is
  // reported to succeed and to write nothing (CUDA.jl#3112: Turing, driver 590.48).
  bool peer_copy_may_be_lost(CUdeviceptr to) const noexcept;

 private:
  struct End {
    CUcontext context = nullptr;       // nullptr: the driver knows none, or no such memory
    const Context* of_ours = nullptr;  // whose block it is, if it is one of ours
  };
  End end_at(CUdeviceptr address, const Context* current) const noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
};

}  // namespace cubfc
