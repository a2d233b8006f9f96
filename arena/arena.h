// One arena: best fit with coalescing over regions that it obtains from a MemorySource, under a
// Budget. This is the whole interface to the allocator. It knows addresses and sizes; nothing of
// CUDA, of the environment, or of logging.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arena/budget.h"
#include "arena/epoch.h"
#include "arena/figures.h"
#include "arena/growth.h"
#include "arena/growth_by_pages.h"
#include "arena/growth_by_regions.h"
#include "arena/growth_in_one_region.h"
#include "arena/memory_source.h"
#include "arena/options.h"
#include "arena/pool.h"
#include "arena/regions.h"
#include "arena/results.h"
#include "arena/source_calls.h"
#include "arena/stats.h"

namespace cubfc::arena {

// Thread-safe. No lock is held while the source is called.
class Arena {
 public:
  // Both must outlive the arena.
  Arena(MemorySource& source, Budget& budget, const Options& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;  // gives nothing back: call release_unused() or abandon() first

  // Before anything else is asked of it: from then on it keeps these figures, which nobody else
  // writes (but for look_at), and calls the observer. `peaks`: see CallerFigures. All three must
  // outlive the arena.
  void observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept;

  // At least `bytes` > 0, aligned as alignment_for() says where the source's regions are. If memory
  // is short, it may help to give back what is not used, here or elsewhere, and to try again: that
  // may wait for the device, so it is the caller's to decide.
  Allocation allocate(std::uint64_t bytes, Caller caller = 0) noexcept {
    const Address address = allocate_without_growth(bytes, caller);
    return address != 0 ? Allocation{address} : allocate_with_growth(bytes, caller);
  }
  // When allocate() fails for lack of memory and nothing can be given back: what the arena has in
  // regions that are not for such a request, or 0. Any room is better than none, but it keeps more
  // regions from being given back.
  Address allocate_against_the_rule(std::uint64_t bytes, Caller caller = 0) noexcept;
  // For the statistics: the caller has given up on a request.
  void count_failure() noexcept;
  // The same from what the arena has at hand; 0 when that does not do: allocate() looks harder.
  Address allocate_without_growth(std::uint64_t bytes, Caller caller = 0) noexcept;

  // Makes the live block that starts at `address` free at once: the caller has waited for the
  // device. False when there is none.
  bool free(Address address) noexcept;

  // The same in two steps, for a caller that cannot wait yet: retire() takes the block away from
  // the program (nothing finds it any more, freeing it again fails), reclaim() makes it free.
  // std::nullopt when no live block starts at `address`.
  std::optional<RetiredBlock> retire(Address address) noexcept;
  void reclaim(const RetiredBlock& block) noexcept;
  // The same for many at once, without host memory: gather() retires a block and keeps it with
  // those that were gathered before, until take_gathered() hands all of them over.
  enum class Gathered : std::uint8_t {
    kNot,  // no live block starts there
    kYes,
    kFull,  // and so many have gathered as is_epoch_full() says
  };
  // `free_beside`: bytes that the arena can have at once, for is_epoch_full().
  Gathered gather(Address address, std::uint64_t free_beside) noexcept;
  GatheredBlocks take_gathered() noexcept;
  bool has_gathered() const noexcept;
  void reclaim(const GatheredBlocks& blocks) noexcept;
  // Or, instead of reclaim(): serves a request of `bytes` with it, whoever may still be using it.
  // Returns its address; 0 when it is gone, or too small, or a quarter larger than is asked for.
  Address revive(const RetiredBlock& block, std::uint64_t bytes, Caller caller = 0) noexcept;

  // The live block that contains `address`.
  std::optional<BlockInfo> find_containing(Address address) const noexcept;
  // That one, else the next live block in the region in which `address` lies.
  std::optional<BlockInfo> find_live_from(Address address) const noexcept;
  // The number of the region in which `address` lies, whatever is there; 0 if in none. Of two
  // arenas that claim an address the one whose region has the higher number is right: the other's
  // memory has been taken away with its context, and it has not been told yet.
  // Takes no lock.
  std::uint64_t region_at(Address address) const noexcept {
    return pool_.regions.number_at(address);
  }

  // Gives back to the source what holds no live or retired block, whole regions or whole pages:
  // few that are at least so many bytes, regions of one block's first; all, if they are less.
  // Returns the bytes given back.
  std::uint64_t release_unused(std::uint64_t bytes = kLargestRequestBytes) noexcept;
  // The same, all that would not leave it with less than `keep_bytes`.
  std::uint64_t release_beyond(std::uint64_t keep_bytes) noexcept;
  // Waits, up to 2 seconds, while other threads call the source: one may have taken more from the
  // budget than it needs, or be giving back. True when the arena has grown or something was given
  // back meanwhile.
  bool wait_for_others() noexcept;
  // What it would ask the source for, if it could have it, to serve such a request.
  std::uint64_t growth_for(std::uint64_t bytes) const noexcept;
  // From now on, until it has happened once, the observer is told when a block becomes used or
  // free, or the arena's memory another. Nothing where there is none.
  void watch() noexcept;
  // What release_unused() would give back.
  std::uint64_t unused_bytes() const noexcept;
  // Forgets all regions and blocks without giving anything back: their memory is gone already. The
  // statistics go on.
  void abandon() noexcept;
  // Begins again after abandon(), or before the first allocation, under these options.
  void begin(const Options& options) noexcept;

  // Writes down the figures that are not written at each call.
  void refresh_figures() noexcept;
  // A few of the figures of stats(), for next to nothing.
  Headroom headroom() const noexcept;
  Stats stats() const noexcept;
  // The peaks are those since these were called last; each begins anew with what there is then.
  Marked marked() const noexcept;
  void restart_marked_peak() noexcept;
  void restart_marked_pool_peak() noexcept;
  // Throws std::bad_alloc.
  std::vector<BlockSnapshot> snapshot() const;
  std::size_t host_bytes() const noexcept;
  // Regions::verify(), and the statistics against the blocks.
  std::string verify() const;

 private:
  void set_options(const Options& options);
  Growth& way_to_grow(const Options& options);
  bool is_possible(std::uint64_t bytes) const {
    return bytes - 1 < largest_possible_ && bytes <= pool_.budget.most();
  }
  // And in a slice.
  bool is_plain(std::uint64_t bytes) const { return bytes - 1 < largest_in_slice_; }
  Allocation allocate_with_growth(std::uint64_t bytes, Caller caller) noexcept;
  Growth::Outcome grow(Locked& lock, std::uint64_t bytes);
  bool wait_for_growth(Locked& lock);
  Regions::Placed find_room(std::uint64_t bytes, Search search);
  Address count_allocation(const Regions::Placed& placed, std::uint64_t bytes, Caller caller);
  void make_free(BlockIndex index);
  BlockInfo info_of(BlockIndex index) const;

  // Guarded by the pool's lock, all of it, but for Regions::number_at(). What each call reads is
  // first, side by side.
  std::uint64_t largest_possible_ = 0;  // of requests, in bytes
  std::uint64_t largest_in_slice_ = 0;  // of those that have no region of their own
  GatheredBlocks gathered_;
  bool source_is_dry_ = false;  // it had too little when it was last asked
  Pool pool_;
  GrowthByRegions by_regions_{pool_};
  GrowthInOneRegion in_one_region_{pool_};
  GrowthByPages by_pages_{pool_};
  Growth* growth_ = &by_regions_;  // one of them
};

}  // namespace cubfc::arena
