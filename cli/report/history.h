// Joins a Recording's events to blocks and regions, each with its beginning and its end. Knows
// nothing of files, pages or figures.
//
// A block holds its bytes and its padding from its kAllocate to its kFree, or, if it is retired, to
// its kReclaim. An event that cannot have happened as it was recorded is counted in Faults. It is
// left out where it would make sums wrong. Nothing here fails, whatever a recording says.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::report {

using recordings::has_addresses;
using recordings::kNone;
using trace::Memory;

// Stands for the number of an event that has not happened. Events are numbered from 0. All that was
// there before the recording began came by event 0 (see Recording::before).
inline constexpr std::uint32_t kNever = kNone;
// The most bytes in use, or nanoseconds, that are counted: JavaScript's numbers are exact up to
// here.
inline constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 53) - 1;

struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // as asked for
  std::uint32_t padding = 0;
  std::uint32_t stack = kNone;
  std::uint32_t begin = 0;       // the event that made it
  std::uint32_t freed = kNever;  // the event by which the program freed it
  std::uint32_t end = kNever;    // the event from which on its memory is free
  std::uint32_t place = 0;
  std::uint16_t thread = 0;
  std::uint8_t caller = 0;

  [[nodiscard]] std::uint64_t held() const { return bytes + padding; }
  // lives_at(): after that event the block is live or retired. waits_at(): it is retired: the
  // program has freed the block, and its memory is not free yet.
  [[nodiscard]] bool lives_at(std::uint32_t event) const { return begin <= event && event < end; }
  [[nodiscard]] bool waits_at(std::uint32_t event) const { return freed <= event && event < end; }
};

// Memory of the device that a place had taken, from one event to another.
struct Region {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = kNever;
  std::uint32_t place = 0;
  // The recording does not tell what the place took: this is memory in which its blocks were.
  bool seen_only = false;
  bool apart = false;  // no block begins in it and ends beyond it
};

// Counts of events that cannot have happened, or not as they were recorded.
struct Faults {
  std::uint64_t frees_of_nothing = 0;     // no live block was there; it may be older than the file
  std::uint64_t reclaims_of_nothing = 0;  // no retired block was there
  std::uint64_t two_at_one_address = 0;   // the older block is taken to have ended then
  std::uint64_t overlapping = 0;          // both are counted
  std::uint64_t outside_taken = 0;        // blocks outside of their arena's regions; counted
  std::uint64_t other_sizes = 0;          // frees with another size than the block had
  std::uint64_t shrinks_of_nothing = 0;
  std::uint64_t grown_twice = 0;         // memory was taken that had been taken already
  std::uint64_t impossible_numbers = 0;  // left out: too large, or an index of nothing
  std::uint64_t times_going_back = 0;    // of one thread; taken to be as late as the event before

  [[nodiscard]] std::uint64_t all() const {
    return frees_of_nothing + reclaims_of_nothing + two_at_one_address + overlapping +
           outside_taken + other_sizes + shrinks_of_nothing + grown_twice + impossible_numbers +
           times_going_back;
  }
};

// The end of a block.
struct Change {
  std::uint32_t event;
  std::uint32_t index;  // of the block
};

// While the program slept (CUBFC_SLEEP).
struct Asleep {
  std::uint64_t times = 0;
  std::uint64_t ns = 0;          // in all; a sleep that goes on at the last event ends there
  std::uint64_t bytes = 0;       // that are on the host now, of all devices together
  std::uint64_t most_bytes = 0;  // of these at once
};

struct History {
  std::vector<std::uint64_t> times_ns;  // of each event; never goes back
  std::vector<Block> blocks;            // in the order of their beginning
  std::uint32_t blocks_before = 0;      // the first so many are from before the recording
  std::uint64_t bytes_before = 0;       // what these held
  std::vector<Change> block_ends;       // of blocks that have an end, in the order of the ends
  std::vector<Region> regions;
  std::vector<std::uint32_t> failures;  // the events that are kOutOfMemory
  std::uint64_t allocations = 0;        // of blocks, without those from before
  std::uint64_t frees = 0;              // of blocks, by the program
  std::uint64_t grows = 0;              // without those from before
  std::uint64_t shrinks = 0;
  std::uint64_t epochs = 0;
  std::uint64_t waits = 0;
  std::uint64_t waited_ns = 0;
  Asleep asleep;
  std::uint64_t left_at_end = 0;  // blocks that are there after the last event
  Faults faults;

  std::uint64_t longest_pause_ns = 0;  // the most time between two events
  // Whether more than half of the time is one pause: then a chart over time would show little.
  [[nodiscard]] bool is_mostly_a_pause() const {
    return !times_ns.empty() && longest_pause_ns > (times_ns.back() - times_ns.front()) / 2;
  }
  // kNever if there are no events.
  [[nodiscard]] std::uint32_t last_event() const {
    return times_ns.empty() ? kNever : static_cast<std::uint32_t>(times_ns.size() - 1);
  }
};

// The recording must not have 2^32 events or more.
[[nodiscard]] History history_of(const recordings::Recording& recording);

}  // namespace cubfc::report
