#include "cli/recordings/frame_table.h"

#include <utility>

namespace cubfc::recordings {
namespace {

void add(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// A key that only equal frames share.
std::string key_of(const Frame& frame) {
  std::string key;
  add(key, frame.offset);
  add(key, std::uint64_t{frame.line} << 8U | static_cast<std::uint8_t>(frame.kind));
  for (const std::string* const text : {&frame.object, &frame.file, &frame.function}) {
    add(key, text->size());
    key += *text;
  }
  return key;
}

}  // namespace

std::uint32_t FrameTable::number_of(Frame frame) {
  const auto [known, is_new] =
      numbers_.try_emplace(key_of(frame), static_cast<std::uint32_t>(recording_.frames.size()));
  if (is_new) {
    bytes_ += sizeof(Frame) + frame.function.size() + frame.file.size() + frame.object.size();
    recording_.frames.push_back(std::move(frame));
  }
  return known->second;
}

}  // namespace cubfc::recordings
