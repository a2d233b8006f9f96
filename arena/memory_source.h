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

  // Takes back whole regions that obtain() gave, and that nothing uses; not none. Called like
  // obtain().
  struct Extent {
    Address base;
    std::uint64_t bytes;
  };
  virtual void release(std::span<const Extent> regions) noexcept = 0;

  // A source whose addresses and memory are apart has pages: the arena then reserves addresses and
  // maps memory there itself, and obtain() and release() are not called. All called like obtain().
  // Bytes of a page, a power of two and a multiple of kPageBytes; 0: there are none.
  virtual std::uint64_t page_bytes() const noexcept { return 0; }
  // Addresses without memory, aligned to a page. The source keeps them until it ends.
  virtual Region reserve(std::uint64_t /*bytes*/) noexcept { return {}; }
  // Puts memory at reserved addresses, whole pages; all of it or, with an error, none. Where it is
  // exhausted, what there was is kept for the next map() until drop_spare().
  virtual Region map(Address /*base*/, std::uint64_t /*bytes*/) noexcept { return {}; }
  // Takes it away, from the same or other whole pages. The memory is kept for the next map() until
  // drop_spare(). False: it has failed, and the memory is there still.
  virtual bool unmap(Address /*base*/, std::uint64_t /*bytes*/) noexcept { return false; }
  virtual void drop_spare() noexcept {}
  // Bytes that are kept so.
  virtual std::uint64_t spare_bytes() const noexcept { return 0; }
  // Bytes that it has taken ahead, for what is mapped next.
  virtual std::uint64_t bytes_ahead() const noexcept { return 0; }
};

}  // namespace cubfc::arena
