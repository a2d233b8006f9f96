// Finds the least limit under which a workload gets all of its memory.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/replay/player.h"

namespace cubfc::replay {

// Plays the workload under one limit after the other, by bisection, on devices that are large
// enough for all. The result is precise to an 8,192nd of the peak, but at best to 1 KiB and at
// worst to 2 MiB: a limit that is lower by so much has failed. An even lower limit may suffice
// again, since a best fit places blocks in another way under each limit; such limits are not tried.
// Nothing when four times the peak do not suffice.
std::optional<std::uint64_t> least_limit(const recordings::Recording& recording,
                                         const Workload& workload, const Conditions& conditions,
                                         const Progress& progress);

}  // namespace cubfc::replay
