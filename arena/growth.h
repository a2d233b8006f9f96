// How an arena obtains memory from its source and gives it back. Chosen when the arena
// begins: by regions, in one region first, or by pages.
#pragma once

#include <cstdint>

#include "arena/options.h"
#include "arena/pool.h"
#include "arena/regions.h"
#include "arena/results.h"
#include "arena/source_calls.h"

namespace cubfc::arena {

// The growth of one arena, whose pool must outlive it. Each function is called with the pool's lock
// held. One that is passed the `Locked` unlocks it while it calls the source.
class Growth {
 public:
  struct Outcome {
    bool grew = false;
    Failure failure = Failure::kNone;
    int source_error = 0;
  };

  virtual ~Growth() = default;

  // Called when the arena begins, and again after the pool has lost all memory (Arena::abandon()).
  // Growth follows these options from then on.
  virtual void begin(const Options& options) noexcept = 0;

  // The largest request, in bytes, that is served from a slice. A larger one gets a region of its
  // own.
  virtual std::uint64_t largest_in_slice() const noexcept = 0;
  // The bytes that the arena would obtain from the source for a request of this size.
  virtual std::uint64_t bytes_for(std::uint64_t request) const noexcept = 0;
  // Obtains memory that a request of this size fits into, or says why there is none. Another thread
  // may have taken the room when this returns. Throws std::bad_alloc.
  virtual Outcome grow(Locked& lock, std::uint64_t request) = 0;
  // Allocates a block in memory that is kept for other requests; empty when that has no room.
  // Throws std::bad_alloc.
  virtual Regions::Placed find_room_against_the_rule(std::uint64_t request) = 0;

  // The bytes of regions or pages that hold no live or retired block.
  virtual std::uint64_t unused_bytes() const noexcept = 0;
  // Give unused regions or pages back to the source. release_unused(): few of them, which together
  // have at least `bytes`; all of them if they have less. release_beyond(): as many as leave the
  // arena at least `keep_bytes`. Return the bytes that were given back. Throw std::bad_alloc and
  // have changed nothing then.
  virtual std::uint64_t release_unused(Locked& lock, std::uint64_t bytes) = 0;
  virtual std::uint64_t release_beyond(Locked& lock, std::uint64_t keep_bytes) = 0;
};

}  // namespace cubfc::arena
