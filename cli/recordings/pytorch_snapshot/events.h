// Makes a recording's events from what a snapshot says of a device. Knows nothing of pickles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/recordings/pytorch_snapshot/history.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// The times of the first and the last entry of all devices. Both are 0 if entries have no times.
struct Span {
  std::uint64_t first_us = 0;
  std::uint64_t last_us = 0;
};
Span span_of(const Histories& histories);

struct DeviceEvents {
  std::vector<Event> events;  // in the order of their times
  std::size_t before = 0;     // see Recording::before
};
// The events of one device, whose place is `place`. Times count from the span's beginning; if the
// span is empty, events are a nanosecond apart. Adds to `texts`. An event's caller is the number of
// its category.
//
// A block's padding is what PyTorch's cache gave beyond the bytes that were asked for. Snapshots
// state the padding of blocks that are there at the end. For other blocks the padding is computed
// from what was free behind them.
DeviceEvents events_of(const DeviceHistory& history, const CacheSettings& settings,
                       std::uint32_t place, Span span, std::vector<std::string>& texts);

}  // namespace cubfc::recordings
