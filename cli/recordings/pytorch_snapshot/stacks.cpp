#include "cli/recordings/pytorch_snapshot/stacks.h"

namespace cubfc::recordings {

std::uint32_t SnapshotStacks::stack_of(const Pickle::Value& dict) {
  const Pickle::Value* const frames = fields_.find(dict, "frames");
  if (frames == nullptr || fields_.items(*frames).empty()) {
    return kNone;
  }
  const auto [known, is_new] = by_lists_.try_emplace(frames->index, kNone);
  if (is_new) {
    known->second = stack_of_frames(fields_.items(*frames));
  }
  return known->second;
}

// Other lists may have the same frames, which are mostly the same dictionaries.
std::uint32_t SnapshotStacks::stack_of_frames(const std::vector<Pickle::Value>& frames) {
  std::string key;
  for (const Pickle::Value& frame : frames) {
    key.append(reinterpret_cast<const char*>(&frame.index), sizeof(frame.index));
  }
  const auto [known, is_new] =
      by_frames_.try_emplace(key, static_cast<std::uint32_t>(stacks_.size()));
  if (is_new) {
    std::vector<std::string>& stack = stacks_.emplace_back();
    for (const Pickle::Value& frame : frames) {
      stack.push_back(text_of(frame));
      text_bytes_ += stack.back().size() + sizeof(std::string);
      if (text_bytes_ > kMostStackText) {
        fields_.fail("the stacks take more than 1 GiB");
      }
    }
    callers_.push_back(caller_of(frames));
    text_bytes_ += callers_.back().size();
  }
  return known->second;
}

std::string SnapshotStacks::caller_of(const std::vector<Pickle::Value>& frames) const {
  for (const Pickle::Value& frame : frames) {
    const std::string_view file = fields_.text_or_nothing(frame, "filename");
    const bool is_python = file.ends_with(".py") || file.starts_with("<");
    const bool is_torch = file.find("/torch/") != std::string_view::npos ||
                          file.starts_with("torch/") || file.starts_with("<frozen ") ||
                          file.starts_with("<eval_with_key>");
    if (is_python && !is_torch) {
      return std::string(file) + ":" + std::to_string(fields_.number_or(frame, "line", 0)) + " (" +
             std::string(fields_.text_or_nothing(frame, "name")) + ")";
    }
  }
  return {};
}

// "forward (model.py:12)"
std::string SnapshotStacks::text_of(const Pickle::Value& frame) const {
  const std::string file(fields_.text_or_nothing(frame, "filename"));
  const std::uint64_t line = fields_.number_or(frame, "line", 0);
  return std::string(fields_.text_or_nothing(frame, "name")) +
         (file.empty() || file == "??" ? "" : " (" + file) +
         (file.empty() || file == "??" ? ""
          : line == 0                  ? ")"
                                       : ":" + std::to_string(line) + ")");
}

}  // namespace cubfc::recordings
