// How an arena grows over a source that gives regions, and which regions it gives back. A slice is
// a region for many blocks. The first slice is small and each next one twice as large, so that a
// program that needs little does not take much. A large request has a region of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "arena/growth.h"
#include "arena/memory_source.h"
#include "arena/options.h"
#include "arena/pool.h"
#include "arena/regions.h"

namespace cubfc::arena {

class GrowthByRegions : public Growth {
 public:
  explicit GrowthByRegions(Pool& pool) : pool_(pool) {}

  void begin(const Options& options) noexcept override;
  std::uint64_t largest_in_slice() const noexcept override { return options_.own_above_bytes; }
  std::uint64_t bytes_for(std::uint64_t request) const noexcept override;
  Outcome grow(Locked& lock, std::uint64_t request) override;
  Regions::Placed find_room_against_the_rule(std::uint64_t request) override;
  std::uint64_t unused_bytes() const noexcept override;
  std::uint64_t release_unused(Locked& lock, std::uint64_t bytes) override;
  std::uint64_t release_beyond(Locked& lock, std::uint64_t keep_bytes) override;

 protected:
  // A region to be obtained.
  struct Wish {
    std::uint64_t bytes;
    std::uint64_t least_bytes;
    std::uint64_t back_off;     // when the source has too little, ask for 1/back_off less
    std::uint64_t block_bytes;  // of each of the blocks that are to fill it; 0: of any size
    Regions::Kind kind;

    std::uint64_t within(std::uint64_t most) const;
  };
  Outcome obtain(Locked& lock, const Wish& wish);
  bool has_own_region(std::uint64_t request) const { return request > options_.own_above_bytes; }
  // Obtains a region for the request; preallocates nothing.
  Outcome obtain_for(Locked& lock, std::uint64_t request);
  static bool needs_less(const Outcome& outcome, std::uint64_t request);

  Pool& pool_;
  std::uint64_t to_preallocate_ = 0;  // bytes, at the next growth

 private:
  Outcome obtain_slice(Locked& lock, std::uint64_t block_bytes, std::uint64_t most_bytes);
  void preallocate_slices(Locked& lock, std::uint64_t bytes);
  bool adopt(const MemorySource::Region& region, std::uint64_t bytes, Regions::Kind kind);
  using Numbers = std::vector<std::uint16_t>;
  std::uint64_t bytes_of(const Numbers& regions) const;
  Numbers choose(Numbers from, std::uint64_t bytes) const;
  std::uint64_t release(Locked& lock, const Numbers& unused);

  Options options_;
  std::uint64_t next_step_bytes_ = 0;
};

}  // namespace cubfc::arena
