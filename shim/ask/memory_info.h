// What the program is told of a device's memory by cuMemGetInfo and cuDeviceTotalMem. Under a limit
// the total is the limit, if HardLimit::is_seen() (config/setting.h). In all other cases the total
// is the driver's. Free is what a request could still get: what the driver has and the limit
// leaves, what arenas hold and no block uses, and what other processes would give up.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "config/policy.h"

namespace cubfc {

class Contexts;
class Rendezvous;
struct Context;
struct Device;
struct DriverFunctions;

// Each function answers as the driver's of the same purpose would. Thread-safe.
class MemoryInfo {
 public:
  MemoryInfo(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts,
             Rendezvous& rendezvous)
      : driver_(driver), policy_(policy), contexts_(contexts), rendezvous_(rendezvous) {}

  CUresult of_current_context(std::size_t* free_bytes, std::size_t* total_bytes);
  CUresult total(std::size_t* bytes, CUdevice device);

 private:
  std::uint64_t left_to(const Context& context, std::uint64_t device_free);
  std::uint64_t unused_by_others(const Context& context);
  std::uint64_t shown_total(std::uint64_t bytes, const Device& device);
  std::uint64_t shown_total(std::uint64_t bytes, CUdevice device);
  std::uint64_t first_shown(CUdevice device, std::uint64_t now);

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Contexts& contexts_;
  Rendezvous& rendezvous_;
  // The total, in bytes, that the program was shown first of a device under a group's limit. By the
  // device's number; 0: none was shown yet. For higher numbers the first total is not kept.
  std::array<std::atomic<std::uint64_t>, 64> first_shown_{};
};

}  // namespace cubfc
