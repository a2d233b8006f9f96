// Where memory comes from when a request lacks it. One for the process.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/source/search.h"

namespace cubfc {

class Contexts;
class Rendezvous;
class UnusedMemory;

// Thread-safe.
class MemorySources {
 public:
  MemorySources(Contexts& contexts, UnusedMemory& unused, Rendezvous& rendezvous)
      : contexts_(contexts), unused_(unused), rendezvous_(rendezvous) {}

  // Makes a driver call that takes memory by itself (for a context, a module, a graph). Repeats it
  // as long as it fails for lack of memory and more memory is found on this device; on that of the
  // current context if none is named. Returns the driver's last answer.
  template <typename Call>
  CUresult call_with_room(std::optional<CUdevice> device, Call call) const {
    return call_again_with_room(call(), device, call);
  }
  // As call_with_room(), when the driver has answered a first call with `result` already.
  template <typename Call>
  CUresult call_again_with_room(CUresult result, std::optional<CUdevice> device, Call call) const {
    Device* const of = result == CUDA_ERROR_OUT_OF_MEMORY ? device_of(device) : nullptr;
    if (of != nullptr) {
      Search search(*this, *of, {});
      while (result == CUDA_ERROR_OUT_OF_MEMORY && search.finds_more()) {
        result = call();
      }
    }
    return result;
  }

  // Called before the driver allocates managed memory, which it places on the host if the device
  // has too little free. Releases preallocated memory for what is lacking; if that is not enough,
  // and other processes have the rest, asks them for it.
  void give_up_preallocated(Device& device, std::uint64_t bytes) const;

  // For the sources.
  Contexts& contexts() const { return contexts_; }
  UnusedMemory& unused() const { return unused_; }
  Rendezvous& rendezvous() const { return rendezvous_; }

 private:
  Device* device_of(std::optional<CUdevice> device) const noexcept;

  Contexts& contexts_;
  UnusedMemory& unused_;
  Rendezvous& rendezvous_;
};

}  // namespace cubfc
