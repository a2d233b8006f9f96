// Memory that is taken from a device and that no block needs: it goes back to the device for a
// request that would fail else, on demand, when the program is idle, and before a context ends.
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

  // For the sources (sources.h). So many bytes of what the device's arenas and pools hold without a
  // block in it. With Waits::kNo only what can be had at once. True if there was anything.
  enum class Waits : bool { kNo, kYes };
  bool release(Device& device, std::uint64_t bytes, Waits waits);
  // Synchronises the contexts, so that pools get back what is freed in stream order. True if that
  // has brought anything. Not while a stream captures.
  bool drain_pools(Device& device);
  // What is given back at a time for the driver's own needs, which it does not tell.
  static constexpr std::uint64_t kStepBytes = 256ULL << 20;
  // What others are asked for where only the driver knows what it lacks. A context takes 527 MiB on
  // an H200. An error that has nothing to do with memory is to cost them no more.
  static constexpr std::uint64_t kMostUnknownBytes = 1ULL << 30;

  // For SoftReserve, when another process asks for `wanted` bytes of the device: gives back `bytes`
  // of them, or all that can be had without a wait for work. Returns the bytes given back.
  std::uint64_t give_to_others(Device& device, std::uint64_t bytes, std::uint64_t wanted) noexcept;
  // And how many it could be; and whether all that may change it is told to the device's use: its
  // arenas are watched from then on, and nothing waits, nor depends on the program's work.
  struct ForOthers {
    std::uint64_t bytes;
    bool is_all;
  };
  ForOthers for_others(Device& device) noexcept;

  // Whether the limit holds for what the device's pools have reserved by now; they are trimmed for
  // it.
  bool make_limit_hold(Device& device);

  // Gives back what no block needs, of all devices: for cubfc_trim and IdleTrimmer. What was
  // preallocated stays unless `preallocated`. Skips a context that may be ending. Returns bytes.
  // Does not wait for the program's work (but see WaitingFrees::collect).
  std::uint64_t trim(bool preallocated) noexcept;

 private:
  // What a pool gave it does not go with it: given back, once its work is done.
  void context_will_end(Context& context) noexcept override;
  // What is preallocated goes with the last context of a device in which memory was asked for.
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
