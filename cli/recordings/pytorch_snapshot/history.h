// What a PyTorch snapshot says of each device. The reader of the pickle (reader.h) fills it in, and
// events are made from it (events.h).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cli/recordings/pytorch_snapshot/cache.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

struct DeviceHistory {
  // An entry of the device's trace: something that happened.
  struct Entry {
    trace::Kind kind = trace::Kind::kNothing;
    std::uint64_t time_us = 0;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t free_bytes = 0;  // kOutOfMemory: what was free on the device
    std::uint32_t stack = kNone;
    std::uint16_t stream = 0;   // which of Recording::threads
    std::uint8_t category = 0;  // which of SnapshotNames::categories
    bool expandable = false;    // kGrow, kShrink: of a segment whose pieces are mapped one by one
  };
  // A block or a segment.
  struct Extent {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t padding = 0;
    std::uint32_t stack = kNone;
    std::uint16_t stream = 0;
    std::uint8_t category = 0;
    bool expandable = false;
  };

  std::vector<Entry> entries;    // the oldest first
  std::vector<Extent> segments;  // those that are there at the end
  std::vector<Extent> blocks;    // likewise
};

struct Histories {
  std::map<std::uint64_t, DeviceHistory> devices;  // by their numbers
  CacheSettings settings;
  std::string settings_text;  // PYTORCH_CUDA_ALLOC_CONF as the environment has it
};

}  // namespace cubfc::recordings
