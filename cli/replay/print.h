// What `cubfc replay` says: for people, and as JSON for scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/replay/player.h"

namespace cubfc::replay {

// One policy, and what came of it.
struct Result {
  std::string name;  // "vmm, free deferred"
  Conditions conditions;
  Outcome outcome;
  bool looked_for_least = false;
  std::optional<std::uint64_t> least_limit;
};

// Lines, each ended. `in_color`: for a terminal.
std::string describe(const recordings::Recording& recording, const Workload& workload);
std::string describe(const Workload& workload, const Result& result, bool in_color);
std::string table(const Workload& workload, const std::vector<Result>& results, bool in_color);
std::string json(const recordings::Recording& recording, const Workload& workload,
                 const std::vector<Result>& results);

}  // namespace cubfc::replay
