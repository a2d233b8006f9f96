// The frames of a recording, each once, whatever a file repeats.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class FrameTable {
 public:
  // Frames are put into `recording`, which must outlive it.
  explicit FrameTable(Recording& recording) : recording_(recording) {}

  // Which of Recording::frames it is; a new one where none is equal.
  std::uint32_t number_of(Frame frame);
  // What all of them take, more or less.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Recording& recording_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // by all that a frame tells
  std::uint64_t bytes_ = 0;
};

}  // namespace cubfc::recordings
