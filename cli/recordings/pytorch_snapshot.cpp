#include "cli/recordings/pytorch_snapshot.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/recordings/own_code.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/events.h"
#include "cli/recordings/pytorch_snapshot/names.h"
#include "cli/recordings/pytorch_snapshot/reader.h"

namespace cubfc::recordings {
namespace {

// The line of the program's own code that asked for a block, and the block's category in brackets.
std::string caller_of(const Recording& recording, std::size_t index,
                      const std::vector<std::string>& categories) {
  const Event& event = recording.events[index];
  const std::string& category = categories[event.caller];
  std::string line;
  if (event.stack < recording.stacks.size()) {
    line = text_of(recording, own_line_of(recording, recording.stacks[event.stack]), Path::kWhole);
  } else if (category.empty()) {
    line = index < recording.before ? kNoStackOfBefore : kNoStack;
  }
  return category.empty() ? line : line + (line.empty() ? "" : " ") + '[' + category + ']';
}

// Numbers the callers, those that allocate most bytes first. An event has one byte for its caller,
// so all after the first 254 are "(others)".
void name_callers(Recording& recording, const std::vector<std::string>& categories) {
  constexpr std::size_t kMost = 254;
  std::map<std::tuple<bool, std::uint32_t, std::uint8_t>, std::uint32_t> name_of_kind;
  std::vector<std::string> names;
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> name_of(recording.events.size(), kNone);
  for (std::size_t n = 0; n < recording.events.size(); ++n) {
    const Event& event = recording.events[n];
    if (event.kind != trace::Kind::kAllocate) {
      continue;
    }
    const auto [of_kind, is_new] =
        name_of_kind.try_emplace({n < recording.before, event.stack, event.caller}, 0);
    if (is_new) {
      const std::string name = caller_of(recording, n, categories);
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
  recording.threads_are = "stream";
  recording.arena_is = "PyTorch's cache";
  recording.callers.emplace_back();
  recording.threads.emplace_back();
  Histories histories;
  SnapshotNames names(recording);
  {
    const Pickle pickle(input);
    histories = read_histories(input, pickle, recording, names);
  }
  if (!histories.settings_text.empty()) {
    recording.settings = "PYTORCH_CUDA_ALLOC_CONF=" + histories.settings_text + "\n";
  }
  recording.callers_are = names.categories().size() > 1 ? "line and category" : "line";
  recording.is_state = std::ranges::all_of(
      histories.devices, [](const auto& history) { return history.second.entries.empty(); });
  const Span span = span_of(histories);
  recording.has_times = span.first_us < span.last_us;
  recording.start_unix_ns = std::min(span.first_us, ~std::uint64_t{0} / 1000) * 1000;
  for (auto& [number, history] : histories.devices) {
    recording.devices.emplace_back().number = static_cast<std::uint32_t>(number);
    const auto place = static_cast<std::uint32_t>(recording.places.size());
    recording.places.push_back({static_cast<std::uint32_t>(number), trace::Memory::kArena, 0});
    DeviceEvents its = events_of(history, histories.settings, place, span, recording.texts);
    recording.add(std::move(its.events), its.before);
    history = {};
  }
  name_callers(recording, names.categories());
  return recording;
}

}  // namespace cubfc::recordings
