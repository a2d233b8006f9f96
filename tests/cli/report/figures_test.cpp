// The figures of a report are those of a model that counts everything anew after each event.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "cli/report/figures.h"
#include "cli/report/lines.h"
#include "tests/cli/report/made_up.h"

namespace report = cubfc::report;
namespace recordings = cubfc::recordings;
using cubfc::trace::Kind;

namespace {

struct Held {
  std::uint64_t bytes;
  std::uint8_t caller;
  bool waits;
};

// Keeps nothing but what lives, by place and address, and looks at all of it each time.
struct Model {
  std::map<std::pair<std::uint32_t, std::uint64_t>, Held> live;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> taken;

  void take(const recordings::Event& event) {
    const std::pair key{event.place, event.address};
    switch (event.kind) {
      case Kind::kAllocate:
        live[key] = {event.bytes + event.padding, event.caller, false};
        break;
      case Kind::kFree:
        live.erase(key);
        break;
      case Kind::kRetire:
        live.at(key).waits = true;
        break;
      case Kind::kReclaim:
        live.erase(key);
        break;
      case Kind::kGrow:
        taken[key] = event.bytes;
        break;
      case Kind::kShrink:
        shrink(event);
        break;
      default:
        break;
    }
  }
  // From the end of what one place has: regions that it covers, and a part of the one before.
  void shrink(const recordings::Event& event) {
    const std::pair key{event.place, event.address};
    while (!taken.empty()) {
      const auto last = std::prev(taken.upper_bound({event.place, ~std::uint64_t{0}}));
      if (last->first.first != event.place || last->first.second + last->second <= key.second) {
        return;
      }
      if (last->first.second >= key.second) {
        taken.erase(last);
      } else {
        last->second = key.second - last->first.second;
        return;
      }
    }
  }

  template <typename Chosen>
  std::uint64_t in_use(Chosen chosen) const {
    std::uint64_t sum = 0;
    for (const auto& [key, held] : live) {
      sum += chosen(key.first, held) ? held.bytes : 0;
    }
    return sum;
  }
  std::uint64_t all_in_use() const {
    return in_use([](std::uint32_t, const Held&) { return true; });
  }
  std::uint64_t taken_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [key, bytes] : taken) {
      sum += bytes;
    }
    return sum;
  }
};

void compare_courses(const recordings::Recording& recording) {
  const report::History history = report::history_of(recording);
  const report::Figures figures = report::figures_of(recording, history);
  REQUIRE(history.faults.all() == 0);
  Model model;
  report::Peak whole;
  std::vector<report::Peak> devices(figures.devices.size());
  std::vector<report::Peak> callers(figures.callers.size());
  std::uint64_t most_taken = 0;
  const auto settle = [](report::Peak& peak, std::uint64_t bytes, std::uint32_t event) {
    if (bytes > peak.bytes) {
      peak = {bytes, event};
    }
  };
  for (std::uint32_t event = 0; event < recording.events.size(); ++event) {
    model.take(recording.events[event]);
    settle(whole, model.all_in_use(), event);
    most_taken = std::max(most_taken, model.taken_bytes());
    for (std::size_t n = 0; n < devices.size(); ++n) {
      settle(devices[n], model.in_use([&](std::uint32_t place, const Held&) {
        return recording.places[place].device == figures.device_numbers[n];
      }),
             event);
    }
    for (std::size_t n = 0; n < callers.size(); ++n) {
      settle(callers[n],
             model.in_use([&](std::uint32_t, const Held& held) { return held.caller == n; }),
             event);
    }
    if (event % 97 == 0) {
      const report::Moment moment = report::moment_of(recording, history, event);
      CHECK(moment.in_use.bytes == model.all_in_use());
      CHECK(moment.in_use.blocks == model.live.size());
      CHECK(moment.taken_bytes == model.taken_bytes());
      CHECK(moment.waiting.bytes ==
            model.in_use([](std::uint32_t, const Held& held) { return held.waits; }));
    }
  }
  CHECK(figures.whole.in_use.bytes == whole.bytes);
  CHECK(figures.whole.in_use.event == whole.event);
  CHECK(figures.whole.taken.bytes == most_taken);
  for (std::size_t n = 0; n < devices.size(); ++n) {
    CHECK(figures.devices[n].in_use.bytes == devices[n].bytes);
    CHECK(figures.devices[n].in_use.event == devices[n].event);
  }
  for (std::size_t n = 0; n < callers.size(); ++n) {
    CHECK(figures.callers[n].in_use.bytes == callers[n].bytes);
  }
  CHECK(figures.whole.in_use_at_end == model.all_in_use());
  CHECK(figures.whole.taken_at_end == model.taken_bytes());
}

recordings::Event event_of(Kind kind, std::uint64_t address, std::uint64_t bytes,
                           std::uint32_t padding = 0) {
  recordings::Event event;
  event.kind = kind;
  event.address = address;
  event.bytes = bytes;
  event.padding = padding;
  return event;
}

recordings::Recording recording_of(std::vector<recordings::Event> events) {
  recordings::Recording recording;
  recording.places = {{0, cubfc::trace::Memory::kArena, 1}};
  recording.callers = {""};
  recording.threads = {{}};
  recording.events = std::move(events);
  return recording;
}

}  // namespace

TEST_CASE("Peaks, ends and what is taken are those of a model that counts anew at each event") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    compare_courses(made_up::training(3000, seed));
  }
}

TEST_CASE("A retired block is in use until it is reclaimed") {
  const auto recording =
      recording_of({event_of(Kind::kAllocate, 512, 1000, 24), event_of(Kind::kRetire, 512, 1024),
                    event_of(Kind::kAllocate, 2048, 512), event_of(Kind::kReclaim, 512, 1024)});
  const auto history = report::history_of(recording);
  const auto figures = report::figures_of(recording, history);
  CHECK(figures.whole.in_use.bytes == 1536);
  CHECK(figures.whole.in_use.event == 2);
  CHECK(figures.at_peak.waiting.bytes == 1024);
  CHECK(figures.whole.in_use_at_end == 512);
  CHECK(history.faults.all() == 0);
}

TEST_CASE("A place that ends takes its blocks and its memory with it") {
  const auto recording =
      recording_of({event_of(Kind::kGrow, 0, 4096), event_of(Kind::kAllocate, 512, 1000, 24),
                    event_of(Kind::kEndPlace, 0, 0)});
  const auto figures = report::figures_of(recording, report::history_of(recording));
  CHECK(figures.whole.in_use_at_end == 0);
  CHECK(figures.whole.taken_at_end == 0);
  CHECK(figures.whole.taken.bytes == 4096);
}

TEST_CASE("A program that sleeps has taken less of the device meanwhile, and has the same in use") {
  auto recording =
      recording_of({event_of(Kind::kGrow, 0, 8192), event_of(Kind::kAllocate, 512, 1000, 24),
                    event_of(Kind::kShrink, 0, 4096), event_of(Kind::kSleep, 0, 4096),
                    event_of(Kind::kSleep, 0, 1000),  // of another device
                    event_of(Kind::kGrow, 0, 4096), event_of(Kind::kWake, 0, 4096),
                    event_of(Kind::kWake, 0, 1000), event_of(Kind::kFree, 512, 1024)});
  for (std::size_t n = 0; n < recording.events.size(); ++n) {
    recording.events[n].time_ns = 100 * n;
  }
  const auto history = report::history_of(recording);
  CHECK(history.faults.all() == 0);
  CHECK(history.asleep.times == 1);
  CHECK(history.asleep.ns == 400);
  CHECK(history.asleep.most_bytes == 5096);
  CHECK(history.asleep.bytes == 0);
  const auto figures = report::figures_of(recording, history);
  CHECK(figures.samples[3].taken_bytes == 4096);
  CHECK(figures.samples[3].in_use_bytes == 1024);
  CHECK(figures.whole.taken_at_end == 8192);

  recording.events.resize(5);  // killed while it sleeps
  const auto killed = report::history_of(recording);
  CHECK(killed.asleep.ns == 100);
  CHECK(killed.asleep.bytes == 5096);

  recording.events.push_back(event_of(Kind::kWake, 0, 6000));  // more than sleeps
  recording.events.push_back(event_of(Kind::kSleep, 0, 0));
  CHECK(report::history_of(recording).faults.impossible_numbers == 2);
}

TEST_CASE("What there was when memory ran out is told of the GPU that has run out") {
  auto recording =
      recording_of({event_of(Kind::kGrow, 0, 8192), event_of(Kind::kAllocate, 0, 6000),
                    event_of(Kind::kGrow, 0, 1024), event_of(Kind::kAllocate, 0, 512),
                    event_of(Kind::kOutOfMemory, 4096, 0), event_of(Kind::kOutOfMemory, 4096, 0)});
  recording.places.push_back({1, cubfc::trace::Memory::kArena, 0});
  for (const std::size_t event : {2U, 3U, 4U}) {
    recording.events[event].place = 1;
  }
  recording.events[5].place = recordings::kNone;
  const auto figures = report::figures_of(recording, report::history_of(recording));
  REQUIRE(figures.failures.size() == 2);
  CHECK(figures.failures[0].in_use_bytes == 512);
  CHECK(figures.failures[0].taken_bytes == 1024);
  CHECK(figures.failures[0].gaps->free_bytes == 512);
  CHECK(figures.failures[1].in_use_bytes == 6512);
  CHECK(figures.failures[1].taken_bytes == 9216);
}

TEST_CASE("What is free between blocks is told in pieces, over regions that touch") {
  const auto recording =
      recording_of({event_of(Kind::kGrow, 4096, 4096), event_of(Kind::kGrow, 8192, 4096),
                    event_of(Kind::kAllocate, 4096, 512), event_of(Kind::kAllocate, 11776, 512),
                    event_of(Kind::kAllocate, 5120, 512)});
  const auto figures = report::figures_of(recording, report::history_of(recording));
  REQUIRE_FALSE(figures.samples.empty());
  const report::Gaps& gaps = figures.samples.back().gaps;
  CHECK(gaps.pieces == 2);
  CHECK(gaps.free_bytes == 8192 - 3 * 512);
  CHECK(gaps.largest_bytes == 11776 - 5632);
}

TEST_CASE("What is free is told by regions that touch but are apart") {
  auto recording =
      recording_of({event_of(Kind::kGrow, 4096, 4096), event_of(Kind::kGrow, 8192, 4096),
                    event_of(Kind::kGrow, 12288, 4096), event_of(Kind::kGrow, 16384, 4096),
                    event_of(Kind::kShrink, 4096, 2048), event_of(Kind::kAllocate, 9216, 512)});
  recording.events[0].apart = recording.events[1].apart = true;
  const auto figures = report::figures_of(recording, report::history_of(recording));
  const report::Gaps& gaps = figures.samples.back().gaps;
  CHECK(gaps.pieces == 4);  // 2048 | 1024, 2560 | 8192
  CHECK(gaps.free_bytes == 2048 + 1024 + 2560 + 8192);
  CHECK(gaps.largest_bytes == 8192);
}

TEST_CASE("What was there before a recording comes by event 0, and is not counted as allocated") {
  auto recording =
      recording_of({event_of(Kind::kGrow, 4096, 8192), event_of(Kind::kAllocate, 4096, 500, 12),
                    event_of(Kind::kAllocate, 8192, 512), event_of(Kind::kAllocate, 5120, 1000, 24),
                    event_of(Kind::kFree, 4096, 512), event_of(Kind::kGrow, 16384, 4096),
                    event_of(Kind::kOutOfMemory, 99, 0)});
  recording.before = 3;
  for (std::size_t n = 3; n < recording.events.size(); ++n) {
    recording.events[n].time_ns = 10 * n;
  }
  const auto history = report::history_of(recording);
  const auto figures = report::figures_of(recording, history);
  CHECK(history.faults.all() == 0);
  CHECK(history.times_ns == std::vector<std::uint64_t>{0, 30, 40, 50, 60});
  CHECK(history.blocks_before == 2);
  CHECK(history.bytes_before == 1024);
  CHECK(history.allocations == 1);
  CHECK(history.grows == 1);
  CHECK(history.frees == 1);
  CHECK(figures.whole.allocations == 1);
  CHECK(figures.whole.bytes_allocated == 1024);
  CHECK(figures.whole.in_use.bytes == 2048);
  CHECK(figures.whole.in_use.event == 1);
  CHECK(figures.at_peak.asked_bytes == 500 + 512 + 1000);
  CHECK(report::moment_of(recording, history, 0).in_use.bytes == 1024);
  CHECK(report::moment_of(recording, history, 0).taken_bytes == 8192);
  CHECK(figures.failures.at(0).event == 4);
  CHECK(figures.failures.at(0).asked_bytes == 99);
  CHECK(figures.sizes.at(8).all.blocks == 0);  // nobody knows how long it has lived
  CHECK(figures.sizes.at(8).at_peak.blocks == 1);
  CHECK(figures.lifetimes.never_freed.blocks == 1);
}

TEST_CASE("Blocks outside of what was taken are counted") {
  const auto recording =
      recording_of({event_of(Kind::kAllocate, 0, 512), event_of(Kind::kGrow, 4096, 4096),
                    event_of(Kind::kGrow, 8192, 4096), event_of(Kind::kAllocate, 4096, 512),
                    event_of(Kind::kAllocate, 8000, 512), event_of(Kind::kAllocate, 12000, 512),
                    event_of(Kind::kAllocate, 3584, 512), event_of(Kind::kShrink, 8192, 4096),
                    event_of(Kind::kAllocate, 10240, 512)});
  const auto history = report::history_of(recording);
  CHECK(history.faults.outside_taken == 3);  // not the one before anything was told to be taken
  CHECK(history.faults.all() == 3);
}

TEST_CASE("Lines are told of what they hold at the peak and at the end, whole at every stack") {
  auto recording =
      recording_of({event_of(Kind::kAllocate, 0, 512), event_of(Kind::kAllocate, 1024, 64),
                    event_of(Kind::kFree, 0, 512), event_of(Kind::kAllocate, 2048, 32)});
  for (const char* function : {"helper", "step", "main"}) {
    recordings::Frame& frame = recording.frames.emplace_back();
    frame.kind = recordings::Frame::Kind::kPython;
    frame.function = function;
    frame.file = std::string("/me/") + function + ".py";
    frame.line = 7;
  }
  recording.stacks = {{0, 2}, {0, 1, 2}, {1, 2}};
  recording.events[0].stack = 0;
  recording.events[1].stack = 1;
  recording.events[3].stack = 2;
  const auto history = report::history_of(recording);
  const auto figures = report::figures_of(recording, history);
  const report::CodeLines lines = report::lines_of(recording, history, figures);
  REQUIRE(lines.texts ==
          std::vector<std::string>{"/me/helper.py:7 (helper)", "/me/step.py:7 (step)"});
  CHECK(lines.held[0].at_peak.bytes == 512 + 64);
  CHECK(lines.held[0].at_end.bytes == 64);
  CHECK(lines.held[1].at_peak.bytes == 0);
  CHECK(lines.held[1].at_end.bytes == 32);
  CHECK(lines.by_peak == std::vector<std::uint32_t>{0, 1});
  const report::CallTree tree = report::call_tree_of(recording, lines);
  REQUIRE(tree.nodes.size() == 3);
  CHECK(tree.nodes[0].held.bytes == 576);
  CHECK(tree.nodes[0].frames == std::vector<std::uint32_t>{2});
  CHECK(tree.nodes[1].frames == std::vector<std::uint32_t>{0});
  CHECK(tree.nodes[2].frames == std::vector<std::uint32_t>{1, 0});
}

TEST_CASE("What cannot have happened is counted and left out") {
  const auto recording =
      recording_of({event_of(Kind::kFree, 512, 512), event_of(Kind::kReclaim, 512, 512),
                    event_of(Kind::kAllocate, 512, 1024), event_of(Kind::kAllocate, 512, 512),
                    event_of(Kind::kAllocate, 768, 512), event_of(Kind::kAllocate, 4096, ~0ULL),
                    event_of(Kind::kFree, 768, 500), event_of(Kind::kShrink, 0, 512),
                    event_of(Kind::kGrow, 0, 512), event_of(Kind::kGrow, 256, 512)});
  const auto history = report::history_of(recording);
  CHECK(history.faults.frees_of_nothing == 1);
  CHECK(history.faults.reclaims_of_nothing == 1);
  CHECK(history.faults.two_at_one_address == 1);
  CHECK(history.faults.overlapping == 1);
  CHECK(history.faults.impossible_numbers == 1);
  CHECK(history.faults.other_sizes == 1);
  CHECK(history.faults.shrinks_of_nothing == 1);
  CHECK(history.faults.grown_twice == 1);
  const auto figures = report::figures_of(recording, history);
  CHECK(figures.whole.in_use_at_end == 512);
  CHECK(figures.whole.taken_at_end == 768);
}

TEST_CASE("Whatever a recording holds, its sums agree with each other") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const auto recording = made_up::nonsense(2000, seed);
    const auto history = report::history_of(recording);
    const auto figures = report::figures_of(recording, history);
    CHECK(history.faults.all() > 0);
    CHECK(figures.at_peak.in_use.bytes == figures.whole.in_use.bytes);
    CHECK(figures.at_end.in_use.bytes == figures.whole.in_use_at_end);
    CHECK(figures.at_end.in_use.blocks == history.left_at_end);
    CHECK(figures.at_end.taken_bytes == figures.whole.taken_at_end);
    CHECK(figures.samples.back().in_use_bytes == figures.whole.in_use_at_end);
    std::uint64_t of_callers = 0;
    for (const report::Share& share : figures.at_peak.by_caller) {
      of_callers += share.bytes;
    }
    CHECK(of_callers == figures.whole.in_use.bytes);
    for (std::uint32_t event = 0; event < recording.events.size(); event += 211) {
      CHECK(report::moment_of(recording, history, event).in_use.bytes <=
            figures.whole.in_use.bytes);
    }
  }
}

TEST_CASE("A recording without events has figures") {
  const auto recording = recording_of({});
  const auto figures = report::figures_of(recording, report::history_of(recording));
  CHECK(figures.whole.in_use.bytes == 0);
  CHECK(figures.samples.empty());
}
