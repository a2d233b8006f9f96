// Reads the stacks in which a snapshot's blocks were allocated, and keeps each of them once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cli/recordings/frame_table.h"
#include "cli/recordings/own_code.h"
#include "cli/recordings/pytorch_snapshot/fields.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class SnapshotStacks {
 public:
  // Stacks and frames are put into `recording`. Both must outlive the object.
  SnapshotStacks(const SnapshotFields& fields, Recording& recording)
      : fields_(fields), recording_(recording) {}

  // The index in Recording::stacks of the "frames" of a dictionary; kNone if it has none. Throws
  // BadRecording when all stacks take more than kMostStackBytes.
  std::uint32_t stack_of(const Pickle::Value& dict);

 private:
  std::uint32_t stack_of_frames(const std::vector<Pickle::Value>& frames);
  std::uint32_t frame_of(const Pickle::Value& dict);
  bool is_of_autograd(const std::vector<std::uint32_t>& stack) const;
  void check_bytes() const;

  const SnapshotFields& fields_;
  Recording& recording_;
  std::unordered_map<std::string, std::uint32_t> by_frames_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_lists_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_dicts_;
  FrameTable frames_{recording_};
  std::uint64_t bytes_ = 0;
};

}  // namespace cubfc::recordings
