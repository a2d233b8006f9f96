// What an arena tells while it works: figures, which other threads read at any moment, and other
// processes, too, if the figures lie in shared memory; and each event, for an observer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Who asked for a block: a number that the arena's user gives out, below kCallers. With kMarked,
// the block is one of those that Arena::marked() counts.
using Caller = std::uint8_t;
inline constexpr std::size_t kCallers = 32;
static_assert(kCallers <= kMarked);

// Figures have one writer at a time, and so need no read-modify-write.
using Figure = std::atomic<std::uint64_t>;
inline std::uint64_t read(const Figure& figure) noexcept {
  return figure.load(std::memory_order_relaxed);
}
inline void put(Figure& figure, std::uint64_t value) noexcept {
  figure.store(value, std::memory_order_relaxed);
}

// How much one caller has, now and at the last peak of all callers together. Setting the latter for
// all callers at each new peak would take too long. So a caller's `before` is set by that caller's
// first change after the peak.
//
// A watch for the next change does not make change() slower. watch() sets a bit in `since` that no
// number of a peak has. change() compares `since` with the number of the last peak anyway.
struct CallerFigures {
  static constexpr std::uint64_t kIsWatched = std::uint64_t{1} << 63;

  Figure has;
  Figure before;  // what `has` was when peak number `since` was reached
  Figure since;   // plus kIsWatched while the next change is watched for

  // `by`: how many more granules the caller has. `peaks`: how many peaks there have been. True if
  // the change was watched for; the watch has then ended.
  bool change(std::uint64_t by, std::uint64_t peaks) noexcept {
    const std::uint64_t now = read(has);
    bool was_watched = false;
    if (const std::uint64_t last = read(since); last != peaks) [[unlikely]] {
      was_watched = (last & kIsWatched) != 0;
      if ((last & ~kIsWatched) != peaks) {
        put(before, now);
      }
      put(since, peaks);
    }
    put(has, now + by);  // modulo 2^64: `by` may stand for less
    return was_watched;
  }
  void watch() noexcept { put(since, read(since) | kIsWatched); }
  std::uint64_t at_peak(std::uint64_t peaks) const noexcept {
    return (read(since) & ~kIsWatched) == peaks ? read(before) : read(has);
  }
};

// All zeros is a valid beginning. What is written at each call is in the arena's own unit: sizes in
// granules, rounding included.
struct Figures {
  alignas(64) Figure first_number;  // Block::number() before the first allocation
  Figure last_number;               // of the last allocation
  Figure num_frees;
  Figure granules_in_use;  // of live and retired blocks
  Figure granules_retired;
  Figure look_at;  // granules in use beyond which Observer::exceeded() is called
  // These are written when the arena obtains memory or gives it back, and after a failure.
  Figure usable_bytes;
  Figure pool_bytes;
  Figure peak_pool_bytes;
  Figure num_failures;
  Figure regions;
  Figure largest_free_block_bytes;
  std::array<CallerFigures, kCallers> callers;  // in granules

  std::uint64_t num_allocs() const noexcept {
    return (read(last_number) - read(first_number)) / Block::kNumberStep;
  }
  std::uint64_t bytes_in_use() const noexcept { return read(granules_in_use) * kGranuleBytes; }
  std::uint64_t bytes_retired() const noexcept { return read(granules_retired) * kGranuleBytes; }
};

struct FreedBlock {
  Address address;
  std::uint64_t bytes;  // rounding included
};

// Called with the arena's lock held: must not call the arena, nor wait for a thread that may.
class Observer {
 public:
  virtual ~Observer() = default;

  // More is in use than Figures::look_at. The observer must set look_at anew.
  virtual void exceeded() noexcept = 0;
  // A block has become used or free, as the first one of its caller since Arena::watch() was
  // called. (One that is retired is not free yet.)
  virtual void changed() noexcept = 0;
  // The arena may have obtained memory, or given it back: see Figures::pool_bytes.
  virtual void resized() noexcept = 0;

  // Whether the functions below are to be called.
  virtual bool records() const noexcept = 0;
  virtual void allocated(Address address, std::uint64_t bytes, std::uint64_t padding,
                         Caller caller) noexcept = 0;
  virtual void freed(const FreedBlock& block) noexcept = 0;
  virtual void retired(const FreedBlock& block) noexcept = 0;
  virtual void reclaimed(std::span<const FreedBlock> blocks) noexcept = 0;
  virtual void grew(Address address, std::uint64_t bytes) noexcept = 0;
  virtual void shrank(Address address, std::uint64_t bytes) noexcept = 0;
  // All blocks and all memory of the arena are gone.
  virtual void abandoned() noexcept = 0;
};

}  // namespace cubfc::arena
