// The numbers of a report: peaks and who held them, what was taken, sizes, lifetimes,
// fragmentation, and what it was like whenever memory ran out. All of them come from a History;
// every form of the report shows these and no others. Knows nothing of how they are shown.
//
// In use is what live blocks hold (see history.h). A peak is the first event after which the most
// was in use.
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
  std::uint32_t event = kNever;  // never anything
};

// What is free between the blocks of places that tell what they take, after an event. Stretches of
// one place that touch are one, but for those that are apart.
struct Gaps {
  std::uint64_t free_bytes = 0;
  std::uint64_t pieces = 0;
  std::uint64_t largest_bytes = 0;
};

// What is in use after an event.
struct Moment {
  Share in_use;                   // waiting included
  std::uint64_t asked_bytes = 0;  // of it, without the padding
  Share waiting;                  // freed by the program, not free yet
  std::uint64_t taken_bytes = 0;
  std::uint64_t taken_pieces = 0;  // a segment of PyTorch's, a region of an arena
  Gaps gaps;                       // of Figures::at_peak and at_end
  std::array<Share, trace::kMemories> by_memory{};
  std::vector<Share> by_place;
  std::vector<Share> by_caller;
  std::vector<Share> by_thread;
  std::vector<std::uint32_t> biggest;  // blocks, the biggest first, at most kBiggest
};
inline constexpr std::size_t kBiggest = 20;

// Of a device, a kind of memory, a place or a caller, over the whole recording.
struct Course {
  std::uint64_t allocations = 0;      // this and bytes_allocated without what was there before
  std::uint64_t bytes_allocated = 0;  // held, of all its blocks; no more than fits
  std::uint64_t failures = 0;
  Peak in_use;
  Peak taken;
  std::uint64_t in_use_at_end = 0;
  std::uint64_t taken_at_end = 0;
};

// Blocks of 2^n to 2^(n+1) - 1 bytes as asked for; those of 0 bytes are with those of 1.
struct SizeClass {
  Share all;  // that were allocated
  Share at_peak;
  Share at_end;
  std::uint64_t freed = 0;
  std::uint64_t median_lifetime_ns = 0;  // of those that were freed, until the program did
  std::uint64_t longest_lifetime_ns = 0;
};

// Blocks that lived for 10^n ns to less than 10^(n+1) ns; the first from 0, the last to any time.
// How old those are that were there before nobody knows; without times all of it is empty.
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

// An out-of-memory moment.
struct Failure {
  std::uint32_t event = 0;
  std::uint64_t asked_bytes = 0;
  // Of its device, as all that follows; of all where nobody knows which it was.
  std::uint64_t in_use_bytes = 0;
  std::uint64_t taken_bytes = 0;
  std::optional<Gaps> gaps;  // of the first kFailuresLookedAt
};
inline constexpr std::size_t kFailuresLookedAt = 200;

struct Figures {
  Course whole;
  std::vector<Course> devices;  // as Recording::devices, then those that only places name
  std::vector<std::uint32_t> device_numbers;
  std::vector<std::uint32_t> device_names;  // which of Recording::devices; kNone: it has no name
  std::array<Course, trace::kMemories> memories{};
  std::vector<Course> places;   // as Recording::places
  std::vector<Course> callers;  // as Recording::callers; nothing is taken by a caller
  Moment at_peak;
  Moment at_end;
  std::vector<SizeClass> sizes;  // by n
  Lifetimes lifetimes;
  std::vector<Sample> samples;  // over the recording, in order; event 0, the peak and the end, too
  std::vector<Failure> failures;
};

[[nodiscard]] Figures figures_of(const recordings::Recording& recording, const History& history);

[[nodiscard]] Moment moment_of(const recordings::Recording& recording, const History& history,
                               std::uint32_t event);

// 0 for 0.
[[nodiscard]] std::size_t size_class_of(std::uint64_t bytes);

}  // namespace cubfc::report
