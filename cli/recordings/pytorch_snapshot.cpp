#include "cli/recordings/pytorch_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/own_code.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/events.h"
#include "cli/recordings/pytorch_snapshot/reader.h"

namespace cubfc::recordings {
namespace {

// By who allocates most. An event has one byte for its caller, so there may be more than places.
// Where a stack has no Python function in it, nobody is known.
void name_callers(Recording& recording) {
  constexpr std::size_t kMost = 254;
  std::vector<std::string> caller_of_stack;
  for (const std::vector<std::uint32_t>& stack : recording.stacks) {
    const OwnLine line = own_line_of(recording, stack);
    const bool is_python = recording.frames[line.frame].kind == Frame::Kind::kPython;
    caller_of_stack.push_back(is_python ? text_of(recording, line, Path::kWhole) : "");
  }
  std::map<std::string_view, std::uint64_t> bytes;
  const auto name_of = [&](const Event& event) {
    return event.stack < caller_of_stack.size() ? std::string_view(caller_of_stack[event.stack])
                                                : std::string_view();
  };
  for (const Event& event : recording.events) {
    if (event.kind == trace::Kind::kAllocate && !name_of(event).empty()) {
      bytes[name_of(event)] += event.bytes;
    }
  }
  std::vector<std::string_view> names;
  for (const auto& [name, its_bytes] : bytes) {
    names.push_back(name);
  }
  std::ranges::stable_sort(names, [&](auto a, auto b) { return bytes[a] > bytes[b]; });
  std::map<std::string_view, std::uint8_t> number;
  for (std::size_t i = 0; i < names.size(); ++i) {
    number[names[i]] = static_cast<std::uint8_t>(std::min(i, kMost) + 1);
  }
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    recording.callers.emplace_back(names[i]);
  }
  if (names.size() > kMost) {
    recording.callers.emplace_back("(others)");
  }
  for (Event& event : recording.events) {
    const auto caller = number.find(name_of(event));
    event.caller = caller == number.end() ? std::uint8_t{0} : caller->second;
  }
}

}  // namespace

Recording read_pytorch_snapshot(Input& input) {
  Recording recording;
  recording.path = input.name();
  recording.format = "PyTorch snapshot";
  recording.callers.emplace_back();
  recording.threads.emplace_back();
  DeviceHistories histories;
  {
    const Pickle pickle(input);
    histories = read_histories(input, pickle, recording);
  }
  recording.is_state = std::ranges::all_of(
      histories, [](const auto& history) { return history.second.entries.empty(); });
  const std::uint64_t first_us = first_us_of(histories);
  recording.start_unix_ns = std::min(first_us, ~std::uint64_t{0} / 1000) * 1000;
  for (auto& [number, history] : histories) {
    recording.devices.emplace_back().number = static_cast<std::uint32_t>(number);
    const auto place = static_cast<std::uint32_t>(recording.places.size());
    recording.places.push_back({static_cast<std::uint32_t>(number), trace::Memory::kArena, 0});
    const std::vector<Event> events = events_of(history, place, first_us, recording.texts);
    const auto middle = static_cast<std::ptrdiff_t>(recording.events.size());
    recording.events.insert(recording.events.end(), events.begin(), events.end());
    std::ranges::inplace_merge(recording.events, recording.events.begin() + middle, {},
                               &Event::time_ns);
    history = {};
  }
  name_callers(recording);
  return recording;
}

}  // namespace cubfc::recordings
