// Memory that is taken from a device and that no block needs: it goes back to the device for a
// request that would fail else, on demand, when the program is idle, and before a context ends.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/device/context_end.h"

namespace cubfc {

class Captures;
class Contexts;
class WaitingFrees;
struct DriverFunctions;

// Thread-safe.
class UnusedMemory : private ContextListener {
 public:
  UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
               WaitingFrees& waiting);

  // For a request of our own servers, or one that is claimed from the limit, which has failed:
  // makes free what waits longest for the device, else gives back what arenas and pools of this
  // device hold without a block in it. To be called again as long as it returns true and the
  // request fails.
  bool make_room(Device& device);

  // For what the driver takes by itself (a context, a module, a graph) of this device's memory, or,
  // if none is named, of the current context's device's. True if anything was given back.
  bool make_room_at_driver(std::optional<CUdevice> device) noexcept;
  // Calls the driver, and once more if it lacks memory and that can be helped.
  template <typename Call>
  CUresult call_with_room(std::optional<CUdevice> device, Call call) {
    const CUresult result = call();
    return result == CUDA_ERROR_OUT_OF_MEMORY && make_room_at_driver(device) ? call() : result;
  }

  // Whether the limit holds for what the device's pools have reserved by now; they are trimmed for
  // it.
  bool make_limit_hold(Device& device);

  // On demand (cubfc_trim) and when idle: of all devices. What was preallocated only if
  // `preallocated`. Returns bytes. Does not wait.
  std::uint64_t trim(bool preallocated) noexcept;

 private:
  // The driver takes a context's memory with it, and waits for the context's own work; but work of
  // other contexts may still use what was freed there: waits for that.
  void context_may_end() noexcept override;
  // What a pool gave it does not go with it: given back, once its work is done.
  void context_will_end(Context& context) noexcept override;
  void context_ended(std::uint64_t /*id*/) override {}

  bool drain_pools(Device& device);
  bool release(Device& device);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
  WaitingFrees& waiting_;
};

}  // namespace cubfc
