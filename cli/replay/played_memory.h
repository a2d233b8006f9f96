// All memory of a workload's devices while the workload is played. Serves requests as Allocations
// does in shim/serve/. Knows nothing of recordings; writes allocations and frees to the trace.
#pragma once

#include <cstdint>

#include "arena/arena.h"
#include "cli/replay/beside_arenas.h"
#include "cli/replay/conditions.h"
#include "cli/replay/context_arenas.h"
#include "cli/replay/out_of_memory.h"
#include "cli/replay/played_trace.h"
#include "cli/replay/simulated_device.h"
#include "cli/replay/workload.h"

namespace cubfc::replay {

class PlayedMemory {
 public:
  // All must outlive the object.
  PlayedMemory(const Workload& workload, const Conditions& conditions, PlayedTrace& trace);

  // Allocates a block for a request of that group; 0 when there is no memory.
  arena::Address allocate(std::uint32_t group, std::uint64_t bytes);
  // Frees a block. `bytes`: what the request asked for.
  void free(std::uint32_t group, arena::Address address, std::uint64_t bytes);
  // Called when the context of that group has ended: gives back the memory of all groups in this
  // context.
  void end_context_of(std::uint32_t group);

  // Describes the last request, which has failed.
  OutOfMemory describe_failure(std::uint32_t group, std::uint64_t bytes) const;

  const SimulatedDevices& devices() const { return devices_; }
  std::uint64_t driver_calls() const { return arenas_.driver_calls() + beside_.driver_calls(); }
  std::uint64_t waits() const { return waits_; }  // how often a request waited for freed blocks

 private:
  arena::Address serve(PlayedArena* played, std::uint32_t group, std::uint64_t bytes);
  arena::Address take_from(PlayedArena& played, std::uint32_t group, std::uint64_t bytes);
  arena::Address take_beside(std::uint32_t group, std::uint64_t bytes);
  Search search_for(std::uint32_t group, const Need& need) const;
  bool frees_are_deferred() const {
    return conditions_.policy.free_mode.value == config::FreeMode::kDeferred;
  }

  const Workload& workload_;
  const Conditions& conditions_;
  PlayedTrace& trace_;
  const SimulatedDevices devices_;
  ContextArenas arenas_;
  BesideArenas beside_;
  arena::Failure last_failure_ = arena::Failure::kNone;
  std::uint64_t waits_ = 0;
};

}  // namespace cubfc::replay
