#include "cli/recordings/pytorch_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/recordings/own_code.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/events.h"
#include "cli/recordings/pytorch_snapshot/names.h"
#include "cli/recordings/pytorch_snapshot/reader.h"

namespace cubfc::recordings {
namespace {

// The line of the user's own that asked, and what PyTorch takes it to be; empty where neither is
// known.
std::string caller_of(const Recording& recording, const Event& event,
                      const std::vector<std::string>& categories) {
  const std::string& category = categories[event.caller];
  std::string line;
  if (event.stack < recording.stacks.size()) {
    const OwnLine own = own_line_of(recording, recording.stacks[event.stack]);
    const bool is_native = recording.frames[own.frame].kind == Frame::Kind::kNative;
    line = is_native ? "" : text_of(recording, own, Path::kWhole);
  }
  return category.empty() ? line : line + (line.empty() ? "" : " ") + '[' + category + ']';
}

// By who allocates most. An event has one byte for its caller, so there may be more than places.
void name_callers(Recording& recording, const std::vector<std::string>& categories) {
  constexpr std::size_t kMost = 254;
  std::map<std::pair<std::uint32_t, std::uint8_t>, std::uint32_t> name_of_kind;
  std::vector<std::string> names;
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> name_of(recording.events.size(), kNone);
  for (std::size_t n = 0; n < recording.events.size(); ++n) {
    const Event& event = recording.events[n];
    if (event.kind != trace::Kind::kAllocate) {
      continue;
    }
    const auto [of_kind, is_new] = name_of_kind.try_emplace({event.stack, event.caller}, 0);
    if (is_new) {
      const std::string name = caller_of(recording, event, categories);
      const auto [number, is_new_name] =
          numbers.try_emplace(name, static_cast<std::uint32_t>(names.size()));
      if (is_new_name) {
        names.push_back(name);
        bytes.push_back(0);
      }
      of_kind->second = number->second;
    }
    name_of[n] = of_kind->second;
    bytes[of_kind->second] += event.bytes;
  }
  std::vector<std::uint32_t> order;
  for (std::uint32_t n = 0; n < names.size(); ++n) {
    if (!names[n].empty()) {
      order.push_back(n);
    }
  }
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return bytes[a] != bytes[b] ? bytes[a] > bytes[b] : names[a] < names[b];
  });
  std::vector<std::uint8_t> caller_of_name(names.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    caller_of_name[order[i]] = static_cast<std::uint8_t>(std::min(i, kMost) + 1);
    if (i <= kMost) {
      recording.callers.emplace_back(i < kMost ? names[order[i]] : "(others)");
    }
  }
  for (std::size_t n = 0; n < recording.events.size(); ++n) {
    recording.events[n].caller = name_of[n] == kNone ? std::uint8_t{0} : caller_of_name[name_of[n]];
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
  recording.threads_are = "stream";
  SnapshotNames names(recording);
  {
    const Pickle pickle(input);
    histories = read_histories(input, pickle, recording, names);
  }
  recording.is_state = std::ranges::all_of(
      histories, [](const auto& history) { return history.second.entries.empty(); });
  const std::uint64_t first_us = first_us_of(histories);
  recording.has_times = first_us != 0;
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
  name_callers(recording, names.categories());
  return recording;
}

}  // namespace cubfc::recordings
