// Gives unused memory back to the device, that is, memory which the process has taken and in which
// no block lies. Does so for a request that would else fail, for other processes, on demand, when
// the program is idle, and before a context ends.
#pragma once

#include <cuda.h>

#include <cstdint>

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

  // Called by the sources (sources.h). Gives back unused memory of the device's pools; if there is
  // none, so many bytes of its arenas. With Waits::kNo only memory whose return does not wait for
  // work. Returns whether there was any.
  enum class Waits : bool { kNo, kYes };
  bool release(Device& device, std::uint64_t bytes, Waits waits);
  // Synchronises the contexts, so that pools get back what is freed in stream order. Returns
  // whether that has brought anything. Does nothing while a stream captures.
  bool drain_pools(Device& device);
  // How many bytes are given back at a time when the driver lacks memory and does not say how much.
  static constexpr std::uint64_t kStepBytes = 256ULL << 20;
  // The most that other processes are asked for when only the driver knows how much it lacks. A
  // context takes 527 MiB on an H200. An error with another cause than lack of memory must not cost
  // the other processes more.
  static constexpr std::uint64_t kMostUnknownBytes = 1ULL << 30;

  // Called by SoftReserve, when another process asks for `wanted` bytes of the device: gives back
  // `bytes` of them, or all that can be had without a wait for work. Returns the bytes given back.
  std::uint64_t give_to_others(Device& device, std::uint64_t bytes, std::uint64_t wanted) noexcept;
  // How many bytes give_to_others() could give back. `is_all`: the number holds until DeviceUse
  // is told of a change. It is false while freed blocks wait, or while the number depends on the
  // program's work. Begins to watch the device's arenas.
  struct ForOthers {
    std::uint64_t bytes;
    bool is_all;
  };
  ForOthers for_others(Device& device) noexcept;

  // Looks at what the device's pools have reserved by now, and gives memory back if that is beyond
  // the limit. Returns whether the limit holds.
  bool make_limit_hold(Device& device);

  // Gives back what no block needs, of all devices: for cubfc_trim and IdleTrimmer. What was
  // preallocated stays unless `preallocated`. Skips a context that may be ending. Returns the bytes
  // given back. Does not wait for the program's work, except with a driver before 12.5, where
  // giving back a region may wait.
  std::uint64_t trim(bool preallocated) noexcept;

 private:
  // The driver does not free a pool's blocks with the context: waits for the context's work, then
  // gives them back.
  void context_will_end(Context& context) noexcept override;
  // Releases what is preallocated on a device when no context is left there in which memory was
  // requested.
  void context_ended(std::uint64_t id) override;

  std::uint64_t release_of_arenas(Device& device, std::uint64_t bytes, Waits waits);
  bool is_released_at_once(Context& context);
  bool works(Context& context);
  std::uint64_t keep_preallocated(Device& device, std::uint64_t released);
  bool is_idle(Context& context);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
  WaitingFrees& waiting_;
};

}  // namespace cubfc
