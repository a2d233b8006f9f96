#include "cli/report/figures.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>

#include "cli/report/looks.h"
#include "cli/report/sweep.h"

namespace cubfc::report {
namespace {

using recordings::Recording;

// A region that begins and ends by the same event was never there.
bool was_there(const Region& region, std::uint32_t event) {
  return !region.seen_only && region.begin <= event && event < region.end;
}

// Counts what is in use, or taken. settle() keeps the most in a Peak.
struct Level {
  std::uint64_t now = 0;
  void rise(std::uint64_t bytes) { now += bytes; }
  void fall(std::uint64_t bytes) { now -= bytes; }
  void settle(Peak& peak, std::uint32_t event) const {
    if (now > peak.bytes) {
      peak = {now, event};
    }
  }
};

// Finds the courses in which a block or a region of a place counts.
class Courses {
 public:
  Courses(const Recording& recording, Figures& figures) : recording_(recording), figures_(figures) {
    for (std::uint32_t n = 0; n < recording.devices.size(); ++n) {
      const std::size_t device = index_of_device(recording.devices[n].number);
      figures.device_names[device] = std::min(figures.device_names[device], n);
    }
    for (const recordings::Place& place : recording.places) {
      device_of_place_.push_back(index_of_device(place.device));
    }
    figures.places.resize(recording.places.size());
    figures.callers.resize(recording.callers.size());
  }

  // Calls visit(course, slot) for each of these courses. Each has a slot of its own, from 0 on.
  template <typename Visit>
  void of_place(std::uint32_t place, Visit visit) {
    const std::size_t device = device_of_place_[place];
    const auto memory = static_cast<std::size_t>(recording_.places[place].memory);
    visit(figures_.whole, std::size_t{0});
    visit(figures_.memories.at(memory), 1 + memory);
    visit(figures_.devices[device], devices_begin() + device);
    visit(figures_.places[place], devices_begin() + figures_.devices.size() + place);
  }
  template <typename Visit>
  void of_block(const Block& block, Visit visit) {
    of_place(block.place, visit);
    visit(figures_.callers[block.caller],
          devices_begin() + figures_.devices.size() + figures_.places.size() + block.caller);
  }
  [[nodiscard]] std::size_t slots() const {
    return devices_begin() + figures_.devices.size() + figures_.places.size() +
           figures_.callers.size();
  }

 private:
  static std::size_t devices_begin() { return 1 + trace::kMemories; }

  std::size_t index_of_device(std::uint32_t number) {
    const auto [there, is_new] = index_of_number_.emplace(number, figures_.devices.size());
    if (is_new) {
      figures_.device_numbers.push_back(number);
      figures_.device_names.push_back(kNone);
      figures_.devices.emplace_back();
    }
    return there->second;
  }

  const Recording& recording_;
  Figures& figures_;
  std::map<std::uint32_t, std::size_t> index_of_number_;  // of devices
  std::vector<std::size_t> device_of_place_;
};

void add_use(const History& history, Courses& courses) {
  std::vector<Level> levels(courses.slots());
  BlockSweep sweep{history};
  const auto begin = [&](std::uint32_t index) {
    const Block& block = history.blocks[index];
    courses.of_block(block, [&](Course& course, std::size_t slot) {
      if (index >= history.blocks_before) {
        ++course.allocations;
        const std::uint64_t room =
            std::numeric_limits<std::uint64_t>::max() - course.bytes_allocated;
        course.bytes_allocated += std::min(room, block.held());
      }
      levels[slot].rise(block.held());
      levels[slot].settle(course.in_use, block.begin);
    });
  };
  const auto end = [&](std::uint32_t index) {
    const Block& block = history.blocks[index];
    courses.of_block(block, [&](Course&, std::size_t slot) { levels[slot].fall(block.held()); });
  };
  sweep.forward_to(kNever - 1, begin, end);
  for (const Block& block : history.blocks) {
    if (block.end == kNever) {
      courses.of_block(block,
                       [&](Course& course, std::size_t) { course.in_use_at_end += block.held(); });
    }
  }
}

void add_taken(const History& history, Courses& courses) {
  std::vector<Level> levels(courses.slots());
  const std::vector<RegionChange> changes = region_changes(history);
  for (std::size_t next = 0; next < changes.size();) {
    const std::size_t first = next;
    for (; next < changes.size() && changes[next].event == changes[first].event; ++next) {
      const Region& region = history.regions[changes[next].region];
      courses.of_place(region.place, [&](Course& course, std::size_t slot) {
        if (changes[next].begins) {
          levels[slot].rise(region.bytes);
        } else {
          levels[slot].fall(region.bytes);
        }
        course.taken_at_end = levels[slot].now;
      });
    }
    courses.of_place(history.regions[changes[first].region].place,
                     [&](Course& course, std::size_t slot) {
                       levels[slot].settle(course.taken, changes[first].event);
                     });
  }
}

void add_lifetime(Lifetimes& lifetimes, std::uint64_t lifetime_ns, const Block& block) {
  std::size_t n = 0;
  for (std::uint64_t end = 10; n + 1 < kLifetimeClasses && lifetime_ns >= end; end *= 10) {
    ++n;
  }
  lifetimes.classes.at(n) += block;
}

void add_sizes_and_lifetimes(const Recording& recording, const History& history, std::uint32_t peak,
                             Figures& figures) {
  std::vector<std::vector<std::uint64_t>> lifetimes;
  for (std::size_t index = 0; index < history.blocks.size(); ++index) {
    const Block& block = history.blocks[index];
    const std::size_t n = size_class_of(block.bytes);
    if (n >= figures.sizes.size()) {
      figures.sizes.resize(n + 1);
      lifetimes.resize(n + 1);
    }
    SizeClass& size = figures.sizes[n];
    if (peak != kNever && block.lives_at(peak)) {
      size.at_peak += block;
    }
    if (block.end == kNever) {
      size.at_end += block;
    }
    if (index < history.blocks_before) {
      continue;
    }
    size.all += block;
    size.freed += block.freed == kNever ? 0U : 1U;
    if (!recording.has_times) {
      continue;
    }
    if (block.freed == kNever) {
      figures.lifetimes.never_freed += block;
      continue;
    }
    const std::uint64_t lifetime = history.times_ns[block.freed] - history.times_ns[block.begin];
    lifetimes[n].push_back(lifetime);
    add_lifetime(figures.lifetimes, lifetime, block);
  }
  for (std::size_t n = 0; n < lifetimes.size(); ++n) {
    std::vector<std::uint64_t>& all = lifetimes[n];
    if (!all.empty()) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
      std::nth_element(all.begin(), middle, all.end());
      figures.sizes[n].median_lifetime_ns = *middle;
      figures.sizes[n].longest_lifetime_ns = *std::max_element(middle, all.end());
    }
  }
}

void add_failures(const Recording& recording, const History& history, Courses& courses,
                  Figures& figures) {
  for (const std::uint32_t event : history.failures) {
    const recordings::Event& failure = recording.event(event);
    figures.failures.push_back({event, failure.address, 0, 0, {}});
    if (failure.place < recording.places.size()) {
      courses.of_place(failure.place, [](Course& course, std::size_t) { ++course.failures; });
    } else {
      ++figures.whole.failures;
    }
    if (failure.caller < figures.callers.size()) {
      ++figures.callers[failure.caller].failures;
    }
  }
}

}  // namespace

std::size_t size_class_of(std::uint64_t bytes) {
  return bytes == 0 ? 0 : static_cast<std::size_t>(std::bit_width(bytes)) - 1;
}

Moment moment_of(const Recording& recording, const History& history, std::uint32_t event) {
  Moment moment;
  moment.by_place.resize(recording.places.size());
  moment.by_caller.resize(recording.callers.size());
  moment.by_thread.resize(recording.threads.size());
  std::vector<std::uint32_t> live;
  for (std::uint32_t index = 0; index < history.blocks.size(); ++index) {
    const Block& block = history.blocks[index];
    if (!block.lives_at(event)) {
      continue;
    }
    live.push_back(index);
    moment.in_use += block;
    moment.asked_bytes += block.bytes;
    if (block.waits_at(event)) {
      moment.waiting += block;
    }
    moment.by_memory.at(static_cast<std::size_t>(recording.places[block.place].memory)) += block;
    moment.by_place[block.place] += block;
    moment.by_caller[block.caller] += block;
    moment.by_thread[block.thread] += block;
  }
  for (const Region& region : history.regions) {
    if (was_there(region, event)) {
      moment.taken_bytes += region.bytes;
      ++moment.taken_pieces;
    }
  }
  const auto count = std::min(live.size(), kBiggest);
  std::partial_sort(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(count), live.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      const std::uint64_t held_a = history.blocks[a].held();
                      const std::uint64_t held_b = history.blocks[b].held();
                      return held_a != held_b ? held_a > held_b : a < b;
                    });
  live.resize(count);
  moment.biggest = std::move(live);
  return moment;
}

Figures figures_of(const Recording& recording, const History& history) {
  Figures figures;
  Courses courses{recording, figures};
  add_use(history, courses);
  add_taken(history, courses);
  add_failures(recording, history, courses, figures);
  const std::uint32_t peak = figures.whole.in_use.event;
  add_sizes_and_lifetimes(recording, history, peak, figures);
  // `peak` is kNever if nothing was ever in use: no block lives at that moment.
  figures.at_peak = moment_of(recording, history, peak);
  figures.at_end = moment_of(recording, history, history.last_event());
  add_looks(recording, history, figures);
  return figures;
}

}  // namespace cubfc::report
