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
  // The source and the budget must outlive the arena.
  Arena(MemorySource& source, Budget& budget, const Options& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() = default;  // gives no memory back: call release_unused() or abandon() first

  // To be called before any other function. From then on the arena writes the figures and calls the
  // observer. Others may write look_at, but no other figure. `peaks`: see CallerFigures. All three
  // must outlive the arena.
  void observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept;

  // Allocates at least `bytes` > 0. The block is aligned as alignment_for() says, if the source
  // aligns its regions to at least as many bytes. When memory is short, the caller may give unused
  // memory back, of this arena or of others, and try again. The arena leaves that to the caller,
  // because giving back may wait for the device.
  Allocation allocate(std::uint64_t bytes, Caller caller = 0) noexcept {
    const Address address = allocate_without_growth(bytes, caller);
    return address != 0 ? Allocation{address} : allocate_with_growth(bytes, caller);
  }
  // To be called when allocate() has failed for lack of memory and nothing can be given back.
  // Allocates from regions that are not meant for such a request; 0 when those have no room. Such a
  // block may keep a region from being given back, so this is the last resort.
  Address allocate_against_the_rule(std::uint64_t bytes, Caller caller = 0) noexcept;
  // For the statistics: the caller has given up on a request.
  void count_failure() noexcept;
  // Allocates from memory that the arena has, after a bounded search; 0 when that finds no room.
  // Then allocate() may still succeed: it also grows the arena, and searches every hole.
  Address allocate_without_growth(std::uint64_t bytes, Caller caller = 0) noexcept;

  // Makes the live block that starts at `address` free at once: the caller must have waited for the
  // device. False when no live block starts there.
  bool free(Address address) noexcept;

  // The same in two steps, for a caller that cannot wait yet: retire() takes the block away from
  // the program (nothing finds it any more, freeing it again fails), reclaim() makes it free.
  // std::nullopt when no live block starts at `address`.
  std::optional<RetiredBlock> retire(Address address) noexcept;
  void reclaim(const RetiredBlock& block) noexcept;
  // The same for many blocks at once, without taking host memory: gather() retires a block and
  // keeps it with those that were gathered before, until take_gathered() hands all of them over.
  enum class Gathered : std::uint8_t {
    kNot,  // no live block starts there
    kYes,
    kFull,  // the block is retired, and is_epoch_full() holds for all that are gathered
  };
  // `free_beside`: bytes that the arena could obtain at once, for is_epoch_full().
  Gathered gather(Address address, std::uint64_t free_beside) noexcept;
  GatheredBlocks take_gathered() noexcept;
  bool has_gathered() const noexcept;
  void reclaim(const GatheredBlocks& blocks) noexcept;
  // To be called instead of reclaim(): serves a request of `bytes` with the retired block, although
  // the device may still be using it. Returns its address; 0 when the block went with abandon(), is
  // too small, is not aligned for the request, or is more than a quarter larger than `bytes`.
  Address revive(const RetiredBlock& block, std::uint64_t bytes, Caller caller = 0) noexcept;

  // The live block that contains `address`.
  std::optional<BlockInfo> find_containing(Address address) const noexcept;
  // The live block that contains `address`, else the next live block in the same region.
  std::optional<BlockInfo> find_live_from(Address address) const noexcept;
  // The number of the region in which `address` lies, whatever block is there; 0 if it lies in
  // none. When two arenas have a region at `address`, the one with the higher number is valid: the
  // other region's memory went with its context, and its arena has not been told yet (see
  // abandon()). Takes no lock.
  std::uint64_t region_at(Address address) const noexcept {
    return pool_.regions.number_at(address);
  }

  // Gives whole regions, or whole pages, that hold no live or retired block back to the source.
  // Chooses few of them, which together have at least `bytes`; gives all back if they have less.
  // Regions for one block go first. Returns the bytes given back.
  std::uint64_t release_unused(std::uint64_t bytes = kLargestRequestBytes) noexcept;
  // Gives unused regions or pages back, as many as leave the arena at least `keep_bytes`. Returns
  // the bytes given back.
  std::uint64_t release_beyond(std::uint64_t keep_bytes) noexcept;
  // Waits, up to 2 seconds, for other threads that are calling the source: such a thread may have
  // claimed more of the budget than it needs, or be giving memory back. True when the arena has
  // grown or memory was given back meanwhile.
  bool wait_for_others() noexcept;
  // The bytes that the arena would obtain from the source for a request of `bytes`, if the source
  // had them.
  std::uint64_t growth_for(std::uint64_t bytes) const noexcept;
  // After this, Observer::changed() is called once for each caller: when the next block of that
  // caller becomes used or free. Does nothing without an observer.
  void watch() noexcept;
  // The bytes that release_unused() can give back.
  std::uint64_t unused_bytes() const noexcept;
  // Forgets all regions and blocks without giving anything back: their memory is gone already. The
  // statistics go on.
  void abandon() noexcept;
  // Called when the source has taken memory away from under the arena's blocks, or has put it back
  // at the same addresses. Only tells the observer. Does nothing if no region is there any more.
  void memory_is_away(Address base, std::uint64_t bytes) noexcept;
  void memory_is_back(Address base, std::uint64_t bytes) noexcept;
  // Sets new options: after abandon(), or before the first allocation.
  void begin(const Options& options) noexcept;

  // Writes the figures that are not written at each allocation and free.
  void refresh_figures() noexcept;
  // A few figures, at much less cost than stats().
  Headroom headroom() const noexcept;
  Stats stats() const noexcept;
  // The two peaks in marked() are the highest values since restart_marked_peak() and
  // restart_marked_pool_peak() were called last. Each of these sets its peak to the present value.
  Marked marked() const noexcept;
  void restart_marked_peak() noexcept;
  void restart_marked_pool_peak() noexcept;
  // Throws std::bad_alloc.
  std::vector<BlockSnapshot> snapshot() const;
  std::size_t host_bytes() const noexcept;
  // Regions::verify(), and whether the statistics agree with the blocks.
  std::string verify() const;

 private:
  void set_options(const Options& options);
  Growth& way_to_grow(const Options& options);
  bool is_possible(std::uint64_t bytes) const {
    return bytes - 1 < largest_possible_ && bytes <= pool_.budget.most();
  }
  // Whether the request is possible, and is served from a slice.
  bool is_plain(std::uint64_t bytes) const { return bytes - 1 < largest_in_slice_; }
  Allocation allocate_with_growth(std::uint64_t bytes, Caller caller) noexcept;
  Growth::Outcome grow(Locked& lock, std::uint64_t bytes);
  bool wait_for_growth(Locked& lock);
  Regions::Placed find_room(std::uint64_t bytes, Search search);
  Address count_allocation(const Regions::Placed& placed, std::uint64_t bytes, Caller caller);
  void make_free(BlockIndex index);
  BlockInfo info_of(BlockIndex index) const;

  // pool_.lock guards all members. Only region_at() reads without it, from the regions' map.
  // The members that each call reads come first, side by side.
  std::uint64_t largest_possible_ = 0;  // the largest request that is served, in bytes
  std::uint64_t largest_in_slice_ = 0;  // the largest that is served from a slice, in bytes
  GatheredBlocks gathered_;
  bool source_is_dry_ = false;  // the arena could not grow when it last tried
  Pool pool_;
  GrowthByRegions by_regions_{pool_};
  GrowthInOneRegion in_one_region_{pool_};
  GrowthByPages by_pages_{pool_};
  Growth* growth_ = &by_regions_;  // one of the three above
};

}  // namespace cubfc::arena
