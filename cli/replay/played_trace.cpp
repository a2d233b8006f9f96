#include "cli/replay/played_trace.h"

#include <algorithm>
#include <utility>

#include "cli/replay/simulated_device.h"

namespace cubfc::replay {

using recordings::Event;
using recordings::kNone;
using recordings::Recording;
using trace::Kind;

Recording names_of(const Recording& recording, const Workload& workload,
                   const Conditions& conditions, const std::string& settings) {
  Recording names;
  names.start_unix_ns = recording.start_unix_ns;
  names.pid = recording.pid;
  names.command_line = recording.command_line;
  names.settings = settings;
  names.callers = recording.callers;
  names.threads = recording.threads;
  for (const Device& device : workload.devices) {
    const auto recorded =
        std::ranges::find(recording.devices, device.number, &recordings::Device::number);
    recordings::Device named =
        recorded == recording.devices.end() ? recordings::Device{} : *recorded;
    named.number = device.number;
    named.total_bytes = total_bytes_of(device, conditions);
    named.limit_bytes =
        hard_limit_bytes(conditions.policy, named.total_bytes, device.number).value_or(kPlenty);
    names.devices.push_back(std::move(named));
  }
  for (const Group& group : workload.groups) {
    recordings::Place place = group.place;
    place.memory = memory_of(conditions.policy, group);
    names.places.push_back(place);
  }
  return names;
}

void PlayedTrace::write_cause() {
  const Event& event = recording_.events[cause_];
  write(event.kind, kNone, event.address, event.bytes);
}

void PlayedTrace::end() {
  if (!is_wanted() || recording_.events.empty()) {
    return;
  }
  Event event;
  event.kind = Kind::kClose;
  event.place = kNone;
  event.time_ns = recording_.events[cause_].time_ns;
  writer_->write(event);
}

void PlayedTrace::put(Kind kind, std::uint32_t group, std::uint64_t address, std::uint64_t bytes,
                      std::uint64_t padding, std::string_view text) {
  const Event& cause = recording_.events[cause_];
  const bool has_caller = kind != Kind::kReclaim && kind != Kind::kEpoch;
  Event event;
  event.time_ns = cause.time_ns;
  event.kind = kind;
  event.place = group;
  event.address = address;
  event.bytes = bytes;
  event.padding = static_cast<std::uint32_t>(padding);
  event.thread = cause.thread;
  event.caller = has_caller ? cause.caller : std::uint8_t{0};
  writer_->write(event, text);
}

}  // namespace cubfc::replay
