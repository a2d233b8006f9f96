#include "cli/recordings/pytorch_snapshot/stacks.h"

#include <algorithm>
#include <limits>
#include <utility>

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

void SnapshotStacks::check_bytes() const {
  if (frames_.bytes() + bytes_ > kMostStackBytes) {
    fields_.fail("the stacks take more than 1 GiB");
  }
}

// Two lists in the pickle may have the same frames; these are one stack in the recording.
std::uint32_t SnapshotStacks::stack_of_frames(const std::vector<Pickle::Value>& frames) {
  std::vector<std::uint32_t> stack;
  std::string key;
  for (const Pickle::Value& frame : frames) {
    stack.push_back(frame_of(frame));
    key.append(reinterpret_cast<const char*>(&stack.back()), sizeof(stack.back()));
  }
  if (is_of_autograd(stack)) {
    stack.push_back(frames_.number_of(frame_of_autograd()));
  }
  const auto [known, is_new] =
      by_frames_.try_emplace(key, static_cast<std::uint32_t>(recording_.stacks.size()));
  if (is_new) {
    bytes_ += 2 * key.size() + sizeof(stack);
    check_bytes();
    recording_.stacks.push_back(std::move(stack));
  }
  return known->second;
}

// Whether a stack is of the backward pass, which no Python function has called.
bool SnapshotStacks::is_of_autograd(const std::vector<std::uint32_t>& stack) const {
  const auto any_of = [&](auto is_so) {
    return std::ranges::any_of(
        stack, [&](std::uint32_t frame) { return is_so(recording_.frames[frame]); });
  };
  return any_of([](const Frame& frame) {
           return frame.function.find("torch::autograd::Engine") != std::string::npos;
         }) &&
         !any_of([](const Frame& frame) { return frame.kind == Frame::Kind::kPython; });
}

// Equal frames are mostly one dictionary in the pickle (by_dicts_), else several with the same
// texts (frames_).
std::uint32_t SnapshotStacks::frame_of(const Pickle::Value& dict) {
  const bool is_dict = dict.type == Pickle::Type::kDict;
  if (const auto known = by_dicts_.find(dict.index); is_dict && known != by_dicts_.end()) {
    return known->second;
  }
  Frame frame;
  frame.function = fields_.text_or_nothing(dict, "name");
  frame.file = fields_.text_or_nothing(dict, "filename");
  frame.line = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      fields_.number_or(dict, "line", 0), std::numeric_limits<std::uint32_t>::max()));
  const bool is_library = frame.file.find(".so") != std::string::npos;
  if (frame.file == "??" || is_library) {  // then the line is an offset in the library
    frame.object = is_library ? frame.file : "";
    frame.offset = is_library ? frame.line : 0;
    frame.file.clear();
    frame.line = 0;
  }
  frame.kind = frame.file.ends_with(".py") || frame.file.starts_with("<") ? Frame::Kind::kPython
                                                                          : Frame::Kind::kNative;
  const std::uint32_t number = frames_.number_of(std::move(frame));
  check_bytes();
  if (is_dict) {
    by_dicts_[dict.index] = number;
  }
  return number;
}

}  // namespace cubfc::recordings
