#include "cli/recordings/pytorch_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/events.h"
#include "cli/recordings/pytorch_snapshot/reader.h"

namespace cubfc::recordings {

Recording read_pytorch_snapshot(Input& input) {
  Recording recording;
  recording.path = input.name();
  recording.format = "PyTorch snapshot";
  recording.callers.emplace_back();
  recording.threads.emplace_back();
  DeviceHistories histories;
  {
    const Pickle pickle(input);
    histories = read_histories(input, pickle, recording.stacks);
  }
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
  return recording;
}

}  // namespace cubfc::recordings
