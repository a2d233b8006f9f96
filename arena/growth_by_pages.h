// How an arena grows over a source with pages. The arena reserves a range of addresses, and a
// further range when a block fits into none of those that it has. To grow, the arena chooses a
// place for the block in a range, and maps the pages that the place lacks. When the source has no
// more, or when the arena has enough idle memory, the arena takes these pages from free blocks
// elsewhere. Growth is contiguous, so that free blocks coalesce across it. A request does not fail
// from fragmentation while the limit, less the pages in which live and retired blocks lie, is
// enough for the request.
#pragma once

#include <cstdint>
#include <vector>

#include "arena/block.h"
#include "arena/growth.h"
#include "arena/options.h"
#include "arena/pool.h"
#include "arena/regions.h"
#include "arena/units.h"

namespace cubfc::arena {

class GrowthByPages final : public Growth {
 public:
  explicit GrowthByPages(Pool& pool) : pool_(pool), page_(pool.source.page_bytes()) {}

  void begin(const Options& options) noexcept override;
  // No request has a region of its own.
  std::uint64_t largest_in_slice() const noexcept override { return kLargestRequestBytes; }
  std::uint64_t bytes_for(std::uint64_t request) const noexcept override { return request; }
  Outcome grow(Locked& lock, std::uint64_t request) override;
  Regions::Placed find_room_against_the_rule(std::uint64_t /*request*/) override { return {}; }
  std::uint64_t unused_bytes() const noexcept override;
  std::uint64_t release_unused(Locked& lock, std::uint64_t bytes) override;
  std::uint64_t release_beyond(Locked& lock, std::uint64_t keep_bytes) override;

 private:
  // A part of a free block that is taken out so that its memory can be unmapped.
  struct Move {
    BlockIndex block;
    Address base;
    std::uint64_t bytes;
    bool unmapped = false;
  };
  using Moves = std::vector<Move>;
  static std::uint64_t bytes_of(const Moves& moves);

  // Releases the source's spare memory when a growth ends, whether it has succeeded or not.
  struct DropsSpare {
    ~DropsSpare();
    GrowthByPages& growth;
    Locked& lock;
  };

  Outcome grow_with_spare(Locked& lock, std::uint64_t request);
  Outcome reserve_addresses(Locked& lock, std::uint64_t block_bytes);
  std::uint64_t idle_bytes(std::uint64_t least_bytes, std::uint64_t block_bytes) const;
  std::uint64_t bytes_ahead() const;
  Moves take_out_free_pages(std::uint64_t most_bytes, const Regions::Place& place);
  void put_back(const Moves& moves);
  Outcome map(Locked& lock, const Regions::Place& place, std::uint64_t bytes, Moves& from);
  std::uint64_t unmap(Locked& lock, Moves& moves);
  std::uint64_t release(Locked& lock, std::uint64_t most_bytes);
  void drop_spare(Locked& lock);
  std::uint32_t page_granules() const { return static_cast<std::uint32_t>(page_ / kGranuleBytes); }

  Pool& pool_;
  const std::uint64_t page_;          // in bytes
  std::uint64_t to_preallocate_ = 0;  // bytes to preallocate at the next growth
  std::uint64_t largest_bytes_ = 0;   // the largest request that is served, in bytes
};

}  // namespace cubfc::arena
