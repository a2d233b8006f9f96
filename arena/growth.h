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

// Of one arena, whose pool outlives it. Used with the lock of its pool held at each call; where a
// `Locked` is handed over it is let go of while the source is called.
class Growth {
 public:
  struct Outcome {
    bool grew = false;
    Failure failure = Failure::kNone;
    int source_error = 0;
  };

  virtual ~Growth() = default;

  // At the beginning, and when the pool has lost all that it had: grows under these from now on.
  virtual void begin(const Options& options) noexcept = 0;

  // A larger request, in bytes, has a region of its own.
  virtual std::uint64_t largest_in_slice() const noexcept = 0;
  // What it would ask the source for, to serve such a request.
  virtual std::uint64_t bytes_for(std::uint64_t request) const noexcept = 0;
  // Obtains memory that such a request fits into, or says why there is none. The room may be gone
  // again when it returns. Throws std::bad_alloc.
  virtual Outcome grow(Locked& lock, std::uint64_t request) = 0;
  // A block for a request in memory that is kept for others. None: there is none. Throws
  // std::bad_alloc.
  virtual Regions::Placed find_room_against_the_rule(std::uint64_t request) = 0;

  // What holds no live or retired block, in bytes.
  virtual std::uint64_t unused_bytes() const noexcept = 0;
  // Give of that back, whole regions or pages: few that are at least so many bytes, or all of it if
  // it is less; or all that leave the arena so many bytes. Return the bytes that were given back.
  // Throw std::bad_alloc and have changed nothing then.
  virtual std::uint64_t release_unused(Locked& lock, std::uint64_t bytes) = 0;
  virtual std::uint64_t release_beyond(Locked& lock, std::uint64_t keep_bytes) = 0;
};

}  // namespace cubfc::arena
