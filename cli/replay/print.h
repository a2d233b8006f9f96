// The output of `cubfc replay`: text for people, and JSON for scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/replay/player.h"

namespace cubfc::replay {

// One policy, and the outcome under it.
struct Result {
  std::string name;  // "vmm, free deferred"
  Conditions conditions;
  Outcome outcome;
  bool looked_for_least = false;
  std::optional<std::uint64_t> least_limit;
};

// Each returns whole lines, with a newline after the last. `in_color`: with a terminal's escapes.
std::string describe(const recordings::Recording& recording, const Workload& workload);
std::string describe(const Workload& workload, const Result& result, bool in_color);
std::string table(const Workload& workload, const std::vector<Result>& results, bool in_color);
std::string json(const recordings::Recording& recording, const Workload& workload,
                 const std::vector<Result>& results);

}  // namespace cubfc::replay
