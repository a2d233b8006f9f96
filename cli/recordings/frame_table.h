// Puts each frame into a recording once, however often a file repeats it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class FrameTable {
 public:
  // Frames are put into `recording`, which must outlive this object.
  explicit FrameTable(Recording& recording) : recording_(recording) {}

  // The index in Recording::frames of an equal frame; adds `frame` if there is none.
  std::uint32_t number_of(Frame frame);
  // The host memory that the added frames take, roughly.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Recording& recording_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // by all fields of a frame
  std::uint64_t bytes_ = 0;
};

}  // namespace cubfc::recordings
