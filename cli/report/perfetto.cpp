// Perfetto's trace format: protocol-buffer messages of perfetto/protos/perfetto/trace, written
// field by field. The numbers are those of trace_packet.proto, track_descriptor.proto,
// counter_descriptor.proto, process_descriptor.proto, track_event.proto and debug_annotation.proto.
#include <string>
#include <string_view>

#include "cli/report/forms.h"
#include "cli/report/sweep.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

constexpr std::uint32_t kSequence = 1;
constexpr std::uint64_t kProcessTrack = 1;
constexpr std::uint64_t kFailureTrack = 2;
constexpr std::uint64_t kFirstCounter = 16;  // two for each place

class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    varint(field << 3U);
    varint(value);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
      bytes_ += static_cast<char>(value | 0x80);
    }
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

class Packets {
 public:
  explicit Packets(Output& output) : output_(output) {}

  void track(const Message& descriptor) { write(Message{}.message(60, descriptor)); }

  void counter(std::uint64_t time_ns, std::uint64_t track, std::uint64_t value) {
    constexpr std::uint64_t kTypeCounter = 4;
    write(Message{}
              .number(8, time_ns)
              .message(11, Message{}.number(9, kTypeCounter).number(11, track).number(30, value)));
  }

  void failure(std::uint64_t time_ns, std::uint64_t asked_bytes, std::string_view report) {
    constexpr std::uint64_t kTypeInstant = 3;
    write(Message{}
              .number(8, time_ns)
              .message(11, Message{}
                               .message(4, Message{}.text(10, "asked_bytes").number(3, asked_bytes))
                               .message(4, Message{}.text(10, "report").text(6, report))
                               .number(9, kTypeInstant)
                               .number(11, kFailureTrack)
                               .text(23, "out of memory")));
  }

 private:
  void write(Message packet) {
    packet.number(10, kSequence);
    output_.write(Message{}.message(1, packet).bytes());
  }
  Output& output_;
};

std::uint64_t in_use_track(std::uint32_t place) {
  return kFirstCounter + 2ULL * place;
}
std::uint64_t taken_track(std::uint32_t place) {
  return in_use_track(place) + 1;
}

void write_tracks(const Told& told, Packets& packets) {
  constexpr std::uint64_t kUnitSizeBytes = 3;
  const recordings::Recording& recording = told.recording;
  Message process;
  process.number(1, recording.pid & 0x7fffffff);
  process.text(6, printable(command_text(recording)));
  packets.track(Message{}.number(1, kProcessTrack).message(3, process));
  packets.track(
      Message{}.number(1, kFailureTrack).text(2, "Out of memory").number(5, kProcessTrack));
  for (std::uint32_t place = 0; place < recording.places.size(); ++place) {
    const std::string name = place_name(recording, place);
    const Message counter = Message{}.number(3, kUnitSizeBytes);
    packets.track(Message{}
                      .number(1, in_use_track(place))
                      .text(2, name + " in use")
                      .number(5, kProcessTrack)
                      .message(8, counter));
    packets.track(Message{}
                      .number(1, taken_track(place))
                      .text(2, name + " taken")
                      .number(5, kProcessTrack)
                      .message(8, counter));
  }
}

}  // namespace

void write_perfetto(const Told& told, Output& output) {
  const History& history = told.history;
  Packets packets{output};
  write_tracks(told, packets);
  std::vector<std::uint64_t> in_use(told.recording.places.size());
  std::vector<std::uint64_t> taken(told.recording.places.size());
  BlockSweep blocks{history};
  const std::vector<RegionChange> regions = region_changes(history);
  std::size_t next_region = 0;
  std::size_t next_failure = 0;
  for (std::uint32_t event = 0; event < told.recording.numbers(); ++event) {
    const std::uint64_t time = history.times_ns[event];
    const auto set = [&](std::uint32_t index, bool begins) {
      const Block& block = history.blocks[index];
      std::uint64_t& now = in_use[block.place];
      now = begins ? now + block.held() : now - block.held();
      packets.counter(time, in_use_track(block.place), now);
    };
    blocks.forward_to(
        event, [&](std::uint32_t index) { set(index, true); },
        [&](std::uint32_t index) { set(index, false); });
    for (; next_region < regions.size() && regions[next_region].event == event; ++next_region) {
      const Region& region = history.regions[regions[next_region].region];
      std::uint64_t& now = taken[region.place];
      now = regions[next_region].begins ? now + region.bytes : now - region.bytes;
      packets.counter(time, taken_track(region.place), now);
    }
    if (next_failure < history.failures.size() && history.failures[next_failure] == event) {
      ++next_failure;
      const recordings::Event& failure = told.recording.event(event);
      const bool has_text = failure.text < told.recording.texts.size();
      packets.failure(time, failure.address,
                      has_text ? printable(told.recording.texts[failure.text], true) : "");
    }
  }
}

}  // namespace cubfc::report
