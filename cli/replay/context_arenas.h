// The arenas that contexts have now, by device. An arena is made at the first request in its
// context, and ends with the context.
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
  // All must outlive the object. `devices` are the workload's.
  ContextArenas(const Workload& workload, const config::Policy& policy,
                const SimulatedDevices& devices, PlayedTrace& trace);

  // The arena of a group; makes it if there is none. NULL if the group's memory is in no arena.
  // Throws std::runtime_error when there are kMostArenas already.
  PlayedArena* of(std::uint32_t group);
  // The arena that a group has now; NULL if it has none.
  PlayedArena* find(std::uint32_t group) const { return arenas_[group].get(); }
  const std::vector<PlayedArena*>& on_device(std::uint32_t device) const {
    return on_device_[device];
  }
  // Called when the group's context has ended: ends its arena, if it has one.
  void end(std::uint32_t group);

  // The driver calls of all arenas so far, those that have ended included.
  std::uint64_t driver_calls() const;

 private:
  void make(std::uint32_t group);
  void begin(PlayedArena& played) const;

  const Workload& workload_;
  const config::Policy& policy_;
  const SimulatedDevices& devices_;
  PlayedTrace& trace_;
  std::vector<std::unique_ptr<PlayedArena>> arenas_;  // by group; NULL: it has none now
  std::vector<std::vector<PlayedArena*>> on_device_;
  std::size_t count_ = 0;
  std::uint64_t ended_calls_ = 0;  // driver calls of arenas that have ended
};

}  // namespace cubfc::replay
