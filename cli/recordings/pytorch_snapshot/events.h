// Makes a recording's events of what a snapshot says of a device. Knows nothing of pickles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/pytorch_snapshot/history.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Of the first and the last entry of all devices. Without times both are 0.
struct Span {
  std::uint64_t first_us = 0;
  std::uint64_t last_us = 0;
};
Span span_of(const Histories& histories);

struct DeviceEvents {
  std::vector<Event> events;  // in the order of their times
  std::size_t before = 0;     // see Recording::before
};
// Of one device. Times count from the span's beginning; where all are the same, events are a
// nanosecond apart. Texts are put into `texts`. An event's caller is the number of its category.
//
// What a block holds is what PyTorch's cache gave to it. Snapshots state that of blocks that are
// there at the end; of the others it follows from what was free around them.
DeviceEvents events_of(const DeviceHistory& history, const CacheSettings& settings,
                       std::uint32_t place, Span span, std::vector<std::string>& texts);

}  // namespace cubfc::recordings
