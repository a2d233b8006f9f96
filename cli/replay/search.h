// How memory is looked for when a request lacks it: as Search in shim/source/, as far as there is
// something to look at without a GPU, which is the arenas of the device.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/replay/played_arena.h"
#include "cli/replay/simulated_device.h"

namespace cubfc::replay {

// What a request lacks.
struct Need {
  std::uint64_t bytes = 0;
  bool of_device = true;  // of the device's memory; else at most of the limit
  bool counted = true;    // by the limit
};

// For one request, which is tried again after each time that something was found.
class Search {
 public:
  // `arenas`: all that are on the device. Both must outlive it.
  Search(const SimulatedDevice& device, const std::vector<PlayedArena*>& arenas, const Need& need)
      : device_(device), arenas_(arenas), need_(need) {}

  // An arena would take so much at once for the request.
  void growth_is(std::uint64_t bytes) { growth_ = bytes; }

  // Looks for what arenas hold and do not use, then, with Waits::kYes, for freed blocks that wait.
  // True when something has become free; false when nothing is left, and at once where all that
  // there is would not be enough.
  enum class Waits : bool { kNo, kYes };
  bool finds_more(Waits waits);

  // Times that it has waited.
  std::uint64_t waits() const { return waits_; }

 private:
  std::uint64_t held_bytes() const;
  bool give_back(std::uint64_t bytes);
  bool wait();

  const SimulatedDevice& device_;
  const std::vector<PlayedArena*>& arenas_;
  const Need need_;
  std::uint64_t growth_ = 0;
  int tries_ = 0;
  std::uint64_t waits_ = 0;
};

}  // namespace cubfc::replay
