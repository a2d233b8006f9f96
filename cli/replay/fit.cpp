#include "cli/replay/fit.h"

#include <algorithm>
#include <array>
#include <limits>

#include "arena/units.h"

namespace cubfc::replay {

std::optional<std::uint64_t> least_limit(const recordings::Recording& recording,
                                         const Workload& workload, const Conditions& conditions,
                                         const Progress& progress) {
  constexpr int kExpectedRuns = 16;
  const std::uint64_t peak = workload.largest_peak_bytes();
  Conditions tried = conditions;
  tried.device_is_large_enough = true;
  tried.policy.mem_limit = {{}, {.variable = "--limit", .value = "", .own_name = true}};
  tried.policy.group_limit = {};
  int runs = 0;
  const auto suffices = [&](std::uint64_t limit) {
    tried.policy.mem_limit.value.others = config::Amount{.bytes = limit, .share = 0};
    const auto so_far = [&](double share) {
      progress(std::min(1.0, (runs + share) / kExpectedRuns));
    };
    const Outcome outcome = play(recording, workload, tried, progress ? so_far : Progress());
    ++runs;
    return outcome.fits();
  };
  if (peak == 0 || peak > std::numeric_limits<std::uint64_t>::max() / 8) {
    return std::nullopt;
  }
  std::uint64_t too_little = peak - 1;
  std::uint64_t enough = 0;
  constexpr std::array<std::uint64_t, 5> kEighths{8, 9, 12, 16, 32};
  for (const std::uint64_t eighths : kEighths) {
    const std::uint64_t limit =
        arena::round_up(peak / 8 * eighths + peak % 8 * eighths / 8, arena::kGranuleBytes);
    if (suffices(limit)) {
      enough = limit;
      break;
    }
    too_little = limit;
  }
  if (enough == 0) {
    return std::nullopt;
  }
  const std::uint64_t step =
      std::clamp(peak / 8192, 2 * arena::kGranuleBytes, arena::kSourceUnitBytes);
  while (enough - too_little > step) {
    const std::uint64_t middle =
        arena::round_up(too_little + (enough - too_little) / 2, arena::kGranuleBytes);
    (suffices(middle) ? enough : too_little) = middle;
  }
  return enough;
}

}  // namespace cubfc::replay
