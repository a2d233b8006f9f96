// Makes a recording's events of what a snapshot says of a device. Knows nothing of pickles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/pytorch_snapshot/history.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// The time of the first entry of all devices; 0: there are no times.
std::uint64_t first_us_of(const DeviceHistories& histories);

// The events of one device, in the order of their times; what was there before the first entry
// comes first. Times count from `first_us`; without any, events are a nanosecond apart. Texts are
// put into `texts`. An event's caller is the number of its category.
std::vector<Event> events_of(const DeviceHistory& history, std::uint32_t place,
                             std::uint64_t first_us, std::vector<std::string>& texts);

}  // namespace cubfc::recordings
