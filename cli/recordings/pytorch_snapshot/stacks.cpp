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

void SnapshotStacks::count(std::uint64_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kMostStackBytes) {
    fields_.fail("the stacks take more than 1 GiB");
  }
}

// Other lists may have the same frames.
std::uint32_t SnapshotStacks::stack_of_frames(const std::vector<Pickle::Value>& frames) {
  std::vector<std::uint32_t> stack;
  std::string key;
  for (const Pickle::Value& frame : frames) {
    stack.push_back(frame_of(frame));
    key.append(reinterpret_cast<const char*>(&stack.back()), sizeof(stack.back()));
  }
  const auto [known, is_new] =
      by_frames_.try_emplace(key, static_cast<std::uint32_t>(recording_.stacks.size()));
  if (is_new) {
    count(2 * key.size() + sizeof(stack));
    recording_.stacks.push_back(std::move(stack));
  }
  return known->second;
}

// They are mostly the same dictionaries, else with the same texts.
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
  if (frame.file == "??") {
    frame.file.clear();
    frame.line = 0;
  }
  frame.kind = frame.file.ends_with(".py") || frame.file.starts_with("<") ? Frame::Kind::kPython
                                                                          : Frame::Kind::kNative;
  const auto [of_text, is_new_text] = by_text_.try_emplace(
      frame.file + '\0' + std::to_string(frame.line) + '\0' + frame.function, kNone);
  if (is_new_text) {
    count(sizeof(Frame) + frame.function.size() + frame.file.size());
    of_text->second = static_cast<std::uint32_t>(recording_.frames.size());
    recording_.frames.push_back(std::move(frame));
  }
  if (is_dict) {
    by_dicts_[dict.index] = of_text->second;
  }
  return of_text->second;
}

}  // namespace cubfc::recordings
