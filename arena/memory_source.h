// Where an arena's regions come from. Injected: the device in libcubfc.so, made-up addresses in
// tests and replays.
#pragma once

#include <cstdint>
#include <span>

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

  // Takes back whole regions that obtain() gave and that nothing uses; at least one. Called like
  // obtain().
  struct Extent {
    Address base;
    std::uint64_t bytes;
  };
  virtual void release(std::span<const Extent> regions) noexcept = 0;

  // A source that can map memory at addresses that it reserved before has pages. The arena then
  // calls the functions below, and never obtain() and release(). All are called like obtain().
  // page_bytes(): the bytes of a page, a power of two and a multiple of kPageBytes; 0: the source
  // has no pages.
  virtual std::uint64_t page_bytes() const noexcept { return 0; }
  // Reserves addresses without memory, aligned to a page. They stay reserved until the source ends.
  virtual Region reserve(std::uint64_t /*bytes*/) noexcept { return {}; }
  // Maps memory at reserved addresses, in whole pages: all of it or, with an error, none. When
  // `exhausted` is returned, the pages that this call got before memory ran out are kept as spare
  // for the next map() until drop_spare().
  virtual Region map(Address /*base*/, std::uint64_t /*bytes*/) noexcept { return {}; }
  // Unmaps whole pages, which need not be those of one map(). Their memory is kept as spare for the
  // next map() until drop_spare(). False: unmapping failed, and the memory is mapped still.
  virtual bool unmap(Address /*base*/, std::uint64_t /*bytes*/) noexcept { return false; }
  virtual void drop_spare() noexcept {}
  // The bytes that are kept as spare.
  virtual std::uint64_t spare_bytes() const noexcept { return 0; }
  // The bytes that the source has preallocated for pages that are mapped later.
  virtual std::uint64_t bytes_ahead() const noexcept { return 0; }
};

}  // namespace cubfc::arena
