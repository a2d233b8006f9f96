// The memory that is in no arena: managed memory, arrays, and memory of cuMemCreate and
// cuMemAllocAsync; under CUBFC_ALLOCATOR=platform also that of cuMemAlloc. Only counts bytes. A
// request that lacks memory fails at once here: PlayedMemory looks for more (Search).
#pragma once

#include <cstdint>
#include <vector>

#include "arena/arena.h"
#include "cli/replay/conditions.h"
#include "cli/replay/search.h"
#include "cli/replay/simulated_device.h"
#include "cli/replay/workload.h"

namespace cubfc::replay {

class BesideArenas {
 public:
  // All must outlive the object. `devices` are the workload's.
  BesideArenas(const Workload& workload, const config::Policy& policy,
               const SimulatedDevices& devices)
      : workload_(workload), policy_(policy), devices_(devices), taken_(workload.groups.size()) {}

  // What a request of this group for so many bytes needs.
  Need need_of(std::uint32_t group, std::uint64_t bytes) const;
  // Takes so many bytes for the group. Returns why there were not enough; kNone: they are taken.
  arena::Failure take(std::uint32_t group, std::uint64_t bytes);
  void give(std::uint32_t group, std::uint64_t bytes);
  // Called when the group's context has ended: gives back all that the group has taken.
  void end(std::uint32_t group) { give(group, taken_[group]); }

  // An address for memory that take() has taken. No arena has such an address.
  arena::Address next_address();
  std::uint64_t driver_calls() const { return driver_calls_; }

 private:
  SimulatedDevice& device_of(std::uint32_t group) const {
    return *devices_[workload_.groups[group].device];
  }

  const Workload& workload_;
  const config::Policy& policy_;
  const SimulatedDevices& devices_;
  std::vector<std::uint64_t> taken_;  // of each group, in bytes
  std::uint64_t addresses_ = 0;
  std::uint64_t driver_calls_ = 0;
};

}  // namespace cubfc::replay
