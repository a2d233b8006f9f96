#include "cli/report/history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "cli/report/regions.h"

namespace cubfc::report {
namespace {

using recordings::Event;
using recordings::Recording;
using trace::Kind;

class Historian {
 public:
  Historian(const Recording& recording, History& history)
      : recording_(recording), history_(history), live_(recording.places.size()) {
    for (const recordings::Place& place : recording.places) {
      taken_.emplace_back(history.regions, has_addresses(place.memory));
    }
  }

  // Called after the events from before the recording: counts begin anew.
  void begin() {
    history_.blocks_before = static_cast<std::uint32_t>(history_.blocks.size());
    history_.bytes_before = in_use_;
    history_.allocations = 0;
    history_.grows = 0;
  }

  void take(std::uint32_t number, const Event& event) {
    if (concerns_a_place(event.kind) && !makes_sense(event)) {
      ++history_.faults.impossible_numbers;
      return;
    }
    switch (event.kind) {
      case Kind::kAllocate:
        return allocate(number, event);
      case Kind::kFree:
        return free(number, event, /*memory_too=*/true);
      case Kind::kRetire:
        return free(number, event, /*memory_too=*/false);
      case Kind::kReclaim:
        return reclaim(number, event);
      case Kind::kGrow:
        return grow(number, event);
      case Kind::kShrink:
        return shrink(number, event);
      case Kind::kEndPlace:
        return end_place(number, event.place);
      default:
        return take_moment(number, event);
    }
  }

  // Called after the last event.
  void finish() {
    if (history_.asleep.bytes > 0) {
      history_.asleep.ns += history_.times_ns.back() - fell_asleep_ns_;
    }
    std::vector<bool> untold(taken_.size());
    for (std::size_t place = 0; place < taken_.size(); ++place) {
      history_.left_at_end += live_[place].size();
      untold[place] = !taken_[place].ever_grown() && has_addresses(recording_.places[place].memory);
    }
    add_regions_seen(history_, untold);
  }

 private:
  using Live = std::map<std::uint64_t, std::uint32_t>;  // address to block, of one place

  static bool concerns_a_place(Kind kind) {
    return kind >= Kind::kAllocate && kind <= Kind::kEndPlace;
  }

  bool makes_sense(const Event& event) const {
    return event.place < recording_.places.size() && event.thread < recording_.threads.size() &&
           event.caller < recording_.callers.size() && event.bytes <= kMostBytes &&
           event.address + event.bytes >= event.address &&
           event.address + event.bytes + event.padding >= event.address + event.bytes;
  }

  void allocate(std::uint32_t number, const Event& event) {
    const std::uint64_t held = event.bytes + event.padding;
    Live& live = live_[event.place];
    const auto there = live.find(event.address);
    if (there != live.end()) {
      ++history_.faults.two_at_one_address;
      end_block(number, there->second);
      live.erase(there);
    }
    if (held > kMostBytes - in_use_) {
      ++history_.faults.impossible_numbers;
      return;
    }
    Block block;
    block.address = event.address;
    block.bytes = event.bytes;
    block.padding = event.padding;
    block.stack = event.stack < recording_.stacks.size() ? event.stack : kNone;
    block.begin = number;
    block.place = event.place;
    block.thread = event.thread;
    block.caller = event.caller;
    const auto position =
        live.emplace(event.address, static_cast<std::uint32_t>(history_.blocks.size())).first;
    history_.blocks.push_back(block);
    ++history_.allocations;
    in_use_ += held;
    if (has_addresses(recording_.places[event.place].memory) && overlaps_another(live, position)) {
      ++history_.faults.overlapping;
    }
    const Taken& taken = taken_[event.place];
    if (recording_.places[event.place].memory == Memory::kArena && taken.ever_grown() &&
        !taken.covers(block.address, block.address + held)) {
      ++history_.faults.outside_taken;
    }
  }

  bool overlaps_another(const Live& live, Live::const_iterator position) const {
    const Block& block = history_.blocks[position->second];
    if (position != live.begin()) {
      const Block& before = history_.blocks[std::prev(position)->second];
      if (before.address + before.held() > block.address) {
        return true;
      }
    }
    const auto after = std::next(position);
    return after != live.end() && block.address + block.held() > after->first;
  }

  void free(std::uint32_t number, const Event& event, bool memory_too) {
    Live& live = live_[event.place];
    const auto there = live.find(event.address);
    if (there == live.end() || history_.blocks[there->second].freed != kNever) {
      ++history_.faults.frees_of_nothing;
      return;
    }
    Block& block = history_.blocks[there->second];
    if (event.bytes != block.held() && event.bytes != 0) {
      ++history_.faults.other_sizes;
    }
    ++history_.frees;
    block.freed = number;
    if (memory_too) {
      end_block(number, there->second);
      live.erase(there);
    }
  }

  // Ends a block even if it was not retired: its memory is free.
  void reclaim(std::uint32_t number, const Event& event) {
    Live& live = live_[event.place];
    const auto there = live.find(event.address);
    if (there == live.end() || history_.blocks[there->second].freed == kNever) {
      ++history_.faults.reclaims_of_nothing;
    }
    if (there != live.end()) {
      end_block(number, there->second);
      live.erase(there);
    }
  }

  void grow(std::uint32_t number, const Event& event) {
    if (event.bytes > kMostBytes - bytes_taken_) {
      ++history_.faults.impossible_numbers;
      return;
    }
    Taken& taken = taken_[event.place];
    bytes_taken_ -= taken.bytes();
    ++history_.grows;
    history_.faults.grown_twice += taken.grow(number, event) ? 0U : 1U;
    bytes_taken_ += taken.bytes();
  }

  void shrink(std::uint32_t number, const Event& event) {
    Taken& taken = taken_[event.place];
    bytes_taken_ -= taken.bytes();
    ++history_.shrinks;
    history_.faults.shrinks_of_nothing += taken.shrink(number, event) ? 0U : 1U;
    bytes_taken_ += taken.bytes();
  }

  void end_place(std::uint32_t number, std::uint32_t place) {
    for (const auto& [address, block] : live_[place]) {
      end_block(number, block);
    }
    live_[place].clear();
    bytes_taken_ -= taken_[place].bytes();
    taken_[place].end(number);
  }

  void end_block(std::uint32_t number, std::uint32_t index) {
    Block& block = history_.blocks[index];
    block.freed = std::min(block.freed, number);
    block.end = number;
    in_use_ -= block.held();
    history_.block_ends.push_back({number, index});
  }

  void take_moment(std::uint32_t number, const Event& event) {
    if (event.kind == Kind::kOutOfMemory) {
      history_.failures.push_back(number);
    } else if (event.kind == Kind::kEpoch) {
      ++history_.epochs;
    } else if (event.kind == Kind::kWaited) {
      ++history_.waits;
      history_.waited_ns += std::min(event.bytes, kMostBytes);
    } else if (event.kind == Kind::kSleep) {
      fall_asleep(number, event.bytes);
    } else if (event.kind == Kind::kWake) {
      wake(number, event.bytes);
    }
  }

  // Each device has an event of its own: the program sleeps from the first to the last.
  void fall_asleep(std::uint32_t number, std::uint64_t bytes) {
    Asleep& asleep = history_.asleep;
    if (bytes == 0 || bytes > kMostBytes - asleep.bytes) {
      ++history_.faults.impossible_numbers;
      return;
    }
    if (asleep.bytes == 0) {
      ++asleep.times;
      fell_asleep_ns_ = history_.times_ns[number];
    }
    asleep.bytes += bytes;
    asleep.most_bytes = std::max(asleep.most_bytes, asleep.bytes);
  }

  void wake(std::uint32_t number, std::uint64_t bytes) {
    Asleep& asleep = history_.asleep;
    if (bytes == 0 || bytes > asleep.bytes) {
      ++history_.faults.impossible_numbers;
      return;
    }
    asleep.bytes -= bytes;
    asleep.ns += asleep.bytes == 0 ? history_.times_ns[number] - fell_asleep_ns_ : 0;
  }

  const Recording& recording_;
  History& history_;
  std::vector<Live> live_;
  std::vector<Taken> taken_;
  std::uint64_t in_use_ = 0;
  std::uint64_t bytes_taken_ = 0;
  std::uint64_t fell_asleep_ns_ = 0;
};

// Makes times that never go back. A thread gets its place in the file before it reads the clock, so
// events of two threads may stand in another order than their times. The times of one thread that
// go back are a fault.
void add_times(const Recording& recording, History& history) {
  history.times_ns.reserve(recording.numbers());
  std::vector<std::uint64_t> latest_of_thread(recording.threads.size());
  std::uint64_t latest = 0;
  std::size_t index = 0;
  for (const Event& event : recording.events) {
    const std::uint64_t time = std::min(event.time_ns, kMostBytes);
    if (event.thread < latest_of_thread.size()) {
      std::uint64_t& before = latest_of_thread[event.thread];
      history.faults.times_going_back += time < before ? 1U : 0U;
      before = std::max(before, time);
    }
    if (!history.times_ns.empty() && time > latest) {
      history.longest_pause_ns = std::max(history.longest_pause_ns, time - latest);
    }
    latest = std::max(latest, time);
    history.times_ns.resize(recording.number_of(index++) + 1, latest);
  }
}

}  // namespace

History history_of(const Recording& recording) {
  History history;
  add_times(recording, history);
  const auto allocations =
      std::count_if(recording.events.begin(), recording.events.end(),
                    [](const Event& event) { return event.kind == Kind::kAllocate; });
  history.blocks.reserve(static_cast<std::size_t>(allocations));
  history.block_ends.reserve(static_cast<std::size_t>(allocations));
  Historian historian{recording, history};
  for (std::size_t index = 0; index < recording.events.size(); ++index) {
    if (index == recording.before) {
      historian.begin();
    }
    historian.take(recording.number_of(index), recording.events[index]);
  }
  if (recording.before == recording.events.size()) {
    historian.begin();
  }
  historian.finish();
  return history;
}

}  // namespace cubfc::report
