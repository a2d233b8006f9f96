// Writes a log as RMM's logging adaptor does: Thread,Time,Action,Pointer,Size,Stream; and, if there
// are several GPUs, the GPU's number.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "cli/report/forms.h"

namespace cubfc::report {
namespace {

using trace::Kind;

// The time since the start as RMM writes it: a time of day, to a microsecond. The recording is
// taken to start at midnight; after a day, the time of day begins anew.
std::string time_of_day(std::uint64_t nanoseconds) {
  const std::uint64_t microseconds = nanoseconds / 1000;
  const std::uint64_t seconds = microseconds / 1'000'000;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%02u:%02u:%02u.%06u",
                static_cast<unsigned>(seconds / 3600 % 24),
                static_cast<unsigned>(seconds / 60 % 60), static_cast<unsigned>(seconds % 60),
                static_cast<unsigned>(microseconds % 1'000'000));
  return text.data();
}

class Lines {
 public:
  Lines(const Told& told, Output& output)
      : told_(told), output_(output), names_devices_(told.figures.devices.size() > 1) {
    output.write(std::string("Thread,Time,Action,Pointer,Size,Stream") +
                 (names_devices_ ? ",Device ID\n" : "\n"));
  }

  void write(std::uint32_t event, std::uint16_t thread, const char* action, std::uint64_t address,
             std::uint64_t bytes, std::uint32_t place) {
    const bool known = thread < told_.recording.threads.size();
    std::array<char, 160> line{};
    const int length =
        std::snprintf(line.data(), line.size(), "%" PRIu64 ",%s,%s,0x%" PRIx64 ",%" PRIu64 ",0x0",
                      known ? told_.recording.threads[thread].id : 0,
                      time_of_day(told_.history.times_ns[event]).c_str(), action, address, bytes);
    std::string text(line.data(), static_cast<std::size_t>(length));
    if (names_devices_) {
      const std::vector<recordings::Place>& places = told_.recording.places;
      text += "," + std::to_string(place < places.size() ? places[place].device : 0);
    }
    output_.write(text + "\n");
  }

 private:
  const Told& told_;
  Output& output_;
  const bool
      names_devices_;  // in a last column named as by RMM before 0.15, which readers may ignore
};

}  // namespace

std::uint64_t write_rmm(const Told& told, Output& output) {
  const std::vector<Block>& blocks = told.history.blocks;
  // The program's frees, in their order. A block that is retired has been freed by the program.
  std::vector<std::uint32_t> freed;
  std::uint64_t left_out = 0;
  for (std::uint32_t index = 0; index < blocks.size(); ++index) {
    const bool written = has_addresses(told.recording.places[blocks[index].place].memory);
    left_out += written ? 0 : 1;
    if (written && blocks[index].freed != kNever) {
      freed.push_back(index);
    }
  }
  std::stable_sort(freed.begin(), freed.end(), [&](std::uint32_t a, std::uint32_t b) {
    return blocks[a].freed < blocks[b].freed;
  });
  Lines lines{told, output};
  std::size_t next_free = 0;
  std::size_t next_block = 0;
  std::size_t next_failure = 0;
  for (std::uint32_t event = 0; event < told.recording.numbers(); ++event) {
    const recordings::Event& here = told.recording.event(event);
    for (; next_free < freed.size() && blocks[freed[next_free]].freed == event; ++next_free) {
      const Block& block = blocks[freed[next_free]];
      lines.write(event, here.thread, "free", block.address, block.bytes, block.place);
    }
    for (; next_block < blocks.size() && blocks[next_block].begin == event; ++next_block) {
      const Block& block = blocks[next_block];
      if (has_addresses(told.recording.places[block.place].memory)) {
        lines.write(event, block.thread, "allocate", block.address, block.bytes, block.place);
      }
    }
    if (next_failure < told.history.failures.size() &&
        told.history.failures[next_failure] == event) {
      ++next_failure;
      lines.write(event, here.thread, "allocate failure", 0, here.address, here.place);
    }
  }
  return left_out;
}

}  // namespace cubfc::report
