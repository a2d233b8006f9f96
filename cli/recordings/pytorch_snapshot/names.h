// Gives numbers to the streams and categories in a snapshot, by which events refer to them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class SnapshotNames {
 public:
  // Streams are put into `recording`, as its threads; it must outlive the object.
  explicit SnapshotNames(Recording& recording) : recording_(recording) {}

  // The index in Recording::threads of a stream; all that come after 65,534 others share one.
  std::uint16_t stream(std::uint64_t handle);
  // The index in categories() of what PyTorch's profiler takes a block to be: "parameter",
  // "temporary"; all that come after 254 others share one. 0 for "".
  std::uint8_t category(std::string_view name);
  const std::vector<std::string>& categories() const { return categories_; }

 private:
  Recording& recording_;
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::unordered_map<std::string, std::uint8_t> numbers_{{"", 0}};
  std::vector<std::string> categories_{""};
};

}  // namespace cubfc::recordings
