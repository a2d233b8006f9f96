// Where an arena's regions come from. Injected: the device in libcubfc.so, made-up addresses in
// tests and replays.
#pragma once

#include <cstdint>

#include "arena/units.h"

namespace cubfc::arena {

class MemorySource {
 public:
  struct Region {
    Address base = 0;        // aligned to kGranuleBytes; 0 when there is none
    int error = 0;           // why there is none: the source's own code, opaque to the arena
    bool exhausted = false;  // there is none because memory is short: asking for less may succeed
  };

  virtual ~MemorySource() = default;

  // A region of exactly `bytes` (a multiple of kGranuleBytes), which the caller owns until it
  // releases it. Called without any lock of the arena held, from any thread, concurrently.
  virtual Region obtain(std::uint64_t bytes) noexcept = 0;

  // Takes back a whole region that obtain() gave. Called like obtain().
  virtual void release(Address base, std::uint64_t bytes) noexcept = 0;
};

}  // namespace cubfc::arena
