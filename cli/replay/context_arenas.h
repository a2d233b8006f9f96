// Which contexts have an arena now, on which device: made at a context's first request, gone with
// the context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/replay/conditions.h"
#include "cli/replay/played_arena.h"
#include "cli/replay/played_trace.h"
#include "cli/replay/simulated_device.h"
#include "cli/replay/workload.h"

namespace cubfc::replay {

class ContextArenas {
 public:
  // All must outlive it. `devices` are the workload's.
  ContextArenas(const Workload& workload, const config::Policy& policy,
                const SimulatedDevices& devices, PlayedTrace& trace);

  // The arena of a group, which is made if there is none; NULL where the group's memory lies in
  // none. Throws std::runtime_error when there are too many.
  PlayedArena* of(std::uint32_t group);
  // NULL if there is none.
  PlayedArena* find(std::uint32_t group) const { return arenas_[group].get(); }
  const std::vector<PlayedArena*>& on_device(std::uint32_t device) const {
    return on_device_[device];
  }
  // Its context has ended. Nothing, if it has none.
  void end(std::uint32_t group);

  // By all that there are, and that there were.
  std::uint64_t driver_calls() const;

 private:
  void make(std::uint32_t group);
  void begin(PlayedArena& played) const;

  const Workload& workload_;
  const config::Policy& policy_;
  const SimulatedDevices& devices_;
  PlayedTrace& trace_;
  std::vector<std::unique_ptr<PlayedArena>> arenas_;  // of each group that has one now
  std::vector<std::vector<PlayedArena*>> on_device_;
  std::size_t count_ = 0;
  std::uint64_t ended_calls_ = 0;  // by those that there were
};

}  // namespace cubfc::replay
