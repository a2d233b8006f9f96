// The names in a snapshot that its blocks refer to by numbers: streams and categories.
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
  // Streams are put into `recording`, as its threads. It must outlive this.
  explicit SnapshotNames(Recording& recording) : recording_(recording) {}

  // Which of Recording::threads; those that come after 65,534 others are one.
  std::uint16_t stream(std::uint64_t handle);
  // What PyTorch's profiler takes a block to be: "parameter", "temporary". 0 for "".
  std::uint8_t category(std::string_view name);
  const std::vector<std::string>& categories() const { return categories_; }

 private:
  Recording& recording_;
  std::unordered_map<std::uint64_t, std::uint16_t> streams_;
  std::unordered_map<std::string, std::uint8_t> numbers_{{"", 0}};
  std::vector<std::string> categories_{""};
};

}  // namespace cubfc::recordings
