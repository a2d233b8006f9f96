// The least limit under which a workload gets all of its memory.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/replay/player.h"

namespace cubfc::replay {

// By bisection, with a precision of an 8,192nd of the peak or 2 MiB, whichever is less; what the
// device has does not count. A limit a little lower fails; whether one lower still would do again,
// as can happen with a best fit, is not looked for. Nothing when four times the peak do not do.
std::optional<std::uint64_t> least_limit(const recordings::Recording& recording,
                                         const Workload& workload, const Conditions& conditions,
                                         const Progress& progress);

}  // namespace cubfc::replay
