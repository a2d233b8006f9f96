// The stacks that a snapshot's blocks and entries were allocated from, each one once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cli/recordings/pytorch_snapshot/fields.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class SnapshotStacks {
 public:
  // They are put into `stacks`. Both must outlive it.
  SnapshotStacks(const SnapshotFields& fields, std::vector<std::vector<std::string>>& stacks)
      : fields_(fields), stacks_(stacks) {}

  // Which of the stacks a dictionary's "frames" are; kNone without any. Throws BadRecording when
  // all take too much.
  std::uint32_t stack_of(const Pickle::Value& dict);

  // Of each stack the innermost frame of the user's own, "train.py:12 (forward)": of Python, and
  // not in PyTorch. Empty where there is none.
  std::vector<std::string> take_callers() { return std::move(callers_); }

 private:
  std::uint32_t stack_of_frames(const std::vector<Pickle::Value>& frames);
  std::string text_of(const Pickle::Value& frame) const;
  std::string caller_of(const std::vector<Pickle::Value>& frames) const;

  const SnapshotFields& fields_;
  std::vector<std::vector<std::string>>& stacks_;
  std::unordered_map<std::string, std::uint32_t> by_frames_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_lists_;
  std::vector<std::string> callers_;
  std::uint64_t text_bytes_ = 0;
};

}  // namespace cubfc::recordings
