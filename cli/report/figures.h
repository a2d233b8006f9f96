// The numbers of a report: peaks and who held them, what was taken, sizes, lifetimes,
// fragmentation, and the state whenever memory ran out. All come from a History; every form of the
// report shows these numbers and no others. Knows nothing of how they are shown.
//
// In use are the bytes that live blocks hold (see history.h). A peak is the first event after which
// the most was in use.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/recordings/recording.h"
#include "cli/report/history.h"

namespace cubfc::report {

struct Share {
  std::uint64_t bytes = 0;  // held
  std::uint64_t blocks = 0;

  Share& operator+=(const Share& other) noexcept {
    bytes += other.bytes;
    blocks += other.blocks;
    return *this;
  }
  Share& operator+=(const Block& block) noexcept { return *this += Share{block.held(), 1}; }
};

struct Peak {
  std::uint64_t bytes = 0;
  std::uint32_t event = kNever;  // kNever: there was never anything
};

// What is free after an event, between the blocks in the regions of all places. Regions of one
// place that touch count as one, but for those that are `apart`.
struct Gaps {
  std::uint64_t free_bytes = 0;
  std::uint64_t pieces = 0;
  std::uint64_t largest_bytes = 0;
};

// The state after an event.
struct Moment {
  Share in_use;                   // with blocks that wait
  std::uint64_t asked_bytes = 0;  // in_use without the padding
  Share waiting;                  // freed by the program, not free yet
  std::uint64_t taken_bytes = 0;
  std::uint64_t taken_pieces = 0;  // a segment of PyTorch's, a region of an arena
  Gaps gaps;                       // only in Figures::at_peak and at_end
  std::array<Share, trace::kMemories> by_memory{};
  std::vector<Share> by_place;
  std::vector<Share> by_caller;
  std::vector<Share> by_thread;
  std::vector<std::uint32_t> biggest;  // blocks, the biggest first, at most kBiggest
};
inline constexpr std::size_t kBiggest = 20;

// What happened over the whole recording: on a device, in a kind of memory, in a place, by a
// caller, or in all.
struct Course {
  std::uint64_t allocations = 0;      // like bytes_allocated: without blocks from before
  std::uint64_t bytes_allocated = 0;  // held by all blocks together; at most what fits 64 bits
  std::uint64_t failures = 0;
  Peak in_use;
  Peak taken;
  std::uint64_t in_use_at_end = 0;
  std::uint64_t taken_at_end = 0;
};

// Blocks of 2^n to 2^(n+1) - 1 bytes as asked for. Those of 0 bytes count with those of 1.
struct SizeClass {
  Share all;  // allocated during the recording
  Share at_peak;
  Share at_end;
  std::uint64_t freed = 0;
  std::uint64_t median_lifetime_ns = 0;  // until the program's free; of the freed blocks
  std::uint64_t longest_lifetime_ns = 0;
};

// Class n: blocks that lived for 10^n ns to less than 10^(n+1) ns. The first class begins at 0, the
// last has no end. Blocks from before the recording are in none, since their age is not known.
// Without times all classes are empty.
inline constexpr std::size_t kLifetimeClasses = 13;
struct Lifetimes {
  std::array<Share, kLifetimeClasses> classes{};
  Share never_freed;
};

struct Sample {
  std::uint32_t event = 0;
  std::uint64_t in_use_bytes = 0;
  std::uint64_t taken_bytes = 0;
  Gaps gaps;
};

// A moment at which memory ran out.
struct Failure {
  std::uint32_t event = 0;
  std::uint64_t asked_bytes = 0;
  // These are of the device that lacked memory; of all devices, if the recording does not name it.
  std::uint64_t in_use_bytes = 0;
  std::uint64_t taken_bytes = 0;
  std::optional<Gaps> gaps;  // only for the first kFailuresLookedAt failures
};
inline constexpr std::size_t kFailuresLookedAt = 200;

struct Figures {
  Course whole;
  std::vector<Course> devices;  // as Recording::devices, then those that only places name
  std::vector<std::uint32_t> device_numbers;
  std::vector<std::uint32_t> device_names;  // which of Recording::devices; kNone: it has no name
  std::array<Course, trace::kMemories> memories{};
  std::vector<Course> places;   // as Recording::places
  std::vector<Course> callers;  // as Recording::callers; without what is taken
  Moment at_peak;
  Moment at_end;
  std::vector<SizeClass> sizes;  // by the n of SizeClass
  Lifetimes lifetimes;
  std::vector<Sample> samples;  // over the recording, in order; event 0, the peak and the end, too
  std::vector<Failure> failures;
};

[[nodiscard]] Figures figures_of(const recordings::Recording& recording, const History& history);

[[nodiscard]] Moment moment_of(const recordings::Recording& recording, const History& history,
                               std::uint32_t event);

// The n of the SizeClass of a block of so many bytes; 0 for 0 bytes.
[[nodiscard]] std::size_t size_class_of(std::uint64_t bytes);

}  // namespace cubfc::report
