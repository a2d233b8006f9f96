// One arena: best fit with coalescing over regions that it obtains from a MemorySource, under a
// Budget. This is the whole interface to the allocator. It knows addresses and sizes; nothing of
// CUDA, of the environment, or of logging.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena/budget.h"
#include "arena/epoch.h"
#include "arena/figures.h"
#include "arena/lock.h"
#include "arena/memory_source.h"
#include "arena/options.h"
#include "arena/regions.h"
#include "arena/stats.h"

namespace cubfc::arena {

// Why an allocation failed.
enum class Failure : std::uint8_t {
  kNone,
  kOverLimit,    // the budget does not allow it
  kFragmented,   // enough is free, but not in one piece, and the arena cannot grow
  kExhausted,    // the source has no more
  kTooLarge,     // more than there can ever be
  kSourceError,  // the source failed for another reason than lack of memory
  kHostMemory,   // the host has no memory for a record
};

struct Allocation {
  Address address = 0;   // 0 when it failed
  int source_error = 0;  // the source's own code, when it said no
  Failure failure = Failure::kNone;
  bool grew = false;  // this call obtained a region
};
static_assert(sizeof(Allocation) == 16, "it is returned in registers");

struct BlockInfo {
  Address address = 0;
  std::uint64_t bytes = 0;        // as requested
  std::uint64_t block_bytes = 0;  // with rounding
  std::uint64_t id = 0;           // no other block of this process has or had it; never 0
};

// A block between retire() and reclaim().
struct RetiredBlock {
  BlockIndex index = kNoBlock;
  std::uint64_t bytes = 0;       // rounding included
  std::uint64_t generation = 0;  // of the arena: abandon() ends it
};

// Blocks that gather() has retired, until reclaim() makes them free: a list in their records.
struct GatheredBlocks {
  BlockIndex first = kNoBlock;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;       // rounding included
  std::uint64_t generation = 0;  // as a RetiredBlock's
};

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
  std::uint64_t region_at(Address address) const noexcept { return regions_.number_at(address); }

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
  using Locked = std::unique_lock<Lock>;

  struct Growth {
    bool grew = false;
    Failure failure = Failure::kNone;
    int source_error = 0;
  };

  Growth grow(Locked& lock, std::uint64_t bytes);
  bool wait_for_growth(Locked& lock);
  Growth obtain_for(Locked& lock, std::uint64_t bytes);
  Growth obtain_slice(Locked& lock, std::uint64_t block_bytes, std::uint64_t most_bytes);
  void preallocate_slices(Locked& lock, std::uint64_t bytes);
  Growth preallocate_whole(Locked& lock, std::uint64_t least_bytes);
  // A region to be obtained.
  struct Wish {
    std::uint64_t bytes;
    std::uint64_t least_bytes;
    std::uint64_t back_off;     // when the source has too little, this part less is asked for
    std::uint64_t block_bytes;  // of the blocks that are to fill it; 0: whatever they are
    Regions::Kind kind;

    std::uint64_t within(std::uint64_t most) const;
  };
  Growth obtain(Locked& lock, const Wish& wish);
  bool adopt(const MemorySource::Region& region, std::uint64_t bytes, Regions::Kind kind);
  bool has_own_region(std::uint64_t bytes) const { return bytes > options_.own_above_bytes; }
  Regions::Placed find_room(std::uint64_t bytes, Search search);
  Regions::Placed find_room_against_the_rule(std::uint64_t bytes);
  std::uint64_t bytes_of(const std::vector<std::uint16_t>& regions) const;
  std::uint64_t release(Locked& lock, const std::vector<std::uint16_t>& unused);
  std::vector<std::uint16_t> choose(std::vector<std::uint16_t> from, std::uint64_t bytes) const;
  // Calls the source, which other threads wait for if they must grow, too.
  template <typename Call>
  auto without_lock(Locked& lock, Call call) {
    ++growing_;
    lock.unlock();
    const bool nested = std::exchange(this_thread_obtains_, true);
    const auto result = call();
    this_thread_obtains_ = nested;
    lock.lock();
    --growing_;
    source_ended_.notify_all();
    return result;
  }
  // Over a source with pages: growth_by_pages.cpp.
  struct Move;
  using Moves = std::vector<Move>;
  Growth map_for(Locked& lock, std::uint64_t block_bytes);
  Growth reserve_addresses(Locked& lock, std::uint64_t block_bytes);
  std::uint64_t idle_bytes(std::uint64_t least_bytes, std::uint64_t block_bytes) const;
  std::uint64_t bytes_ahead(std::uint64_t page) const;
  std::uint64_t take_out_free_pages(std::uint64_t most_bytes, const Regions::Place& place,
                                    Moves& moves);
  static std::uint64_t bytes_of(const Moves& moves);
  void put_back(const Moves& moves);
  std::uint64_t unmap(Locked& lock, Moves& moves);
  Growth map(Locked& lock, const Regions::Place& place, std::uint64_t bytes, Moves& from);
  std::uint64_t unmap_unused(Locked& lock, std::uint64_t most_bytes);
  Allocation allocate_with_growth(std::uint64_t bytes, Caller caller) noexcept;
  bool is_possible(std::uint64_t bytes) const { return bytes - 1 < largest_possible_; }
  // And in a slice.
  bool is_plain(std::uint64_t bytes) const { return bytes - 1 < largest_in_slice_; }
  void set_options(const Options& options);
  std::uint64_t num_allocs() const {
    return (last_number_ - number_before_first_) / Block::kNumberStep;
  }
  Address count_allocation(const Regions::Placed& placed, std::uint64_t bytes, Caller caller);
  void count_free(const Block& block);
  void count_marked(const Block& block);
  static std::uint64_t requested_bytes(const Block& block);
  void count_pool_peaks() noexcept;
  void write_allocation(const Block& block, Address address, std::uint64_t bytes);
  void write_free(BlockIndex index);
  void write_retired(BlockIndex index);
  void write_reclaimed(BlockIndex index);
  void write_unused(BlockIndex index);
  FreedBlock freed_block(BlockIndex index) const;
  void record_reclaimed(BlockIndex first);
  void write_abandoned() noexcept;
  void write_resized() noexcept;
  void make_free(BlockIndex index);
  Headroom room() const noexcept;
  BlockInfo info_of(BlockIndex index) const;

  // Inside the source, where a hook of somebody else's may allocate: such an allocation waits for
  // nobody and takes no more than it needs.
  static constinit thread_local bool this_thread_obtains_;

  MemorySource& source_;
  Budget& budget_;
  Options options_;

  // Set once, by observe().
  Figures* figures_ = nullptr;
  const Figure* peaks_ = nullptr;
  Observer* observer_ = nullptr;
  Observer* recorder_ = nullptr;  // the same, if it records

  mutable Lock lock_;                   // guards all below, but for Regions::number_at()
  std::uint64_t largest_possible_ = 0;  // of requests, in bytes
  std::uint64_t largest_in_slice_ = 0;  // of those that have no region of their own
  // What each allocation and each free counts; stats() derives the rest.
  std::uint64_t last_number_;  // see Block::number()
  std::uint64_t num_frees_ = 0;
  std::uint64_t granules_in_use_ = 0;  // of live and retired blocks
  std::uint64_t peak_granules_in_use_ = 0;
  std::uint64_t padding_ = 0;  // bytes of live blocks beyond what was asked for
  std::uint64_t largest_request_ = 0;
  GatheredBlocks gathered_;
  Regions regions_;

  std::condition_variable_any source_ended_;
  int growing_ = 0;                   // threads that are asking the source right now
  int releasing_ = 0;                 // threads that are giving back
  std::uint64_t to_preallocate_ = 0;  // bytes, at the next growth
  bool source_is_dry_ = false;        // it had too little when it was last asked
  std::uint64_t next_step_bytes_ = 0;
  std::uint64_t generation_ = 1;
  const std::uint64_t number_before_first_;
  std::uint64_t num_failures_ = 0;
  std::uint64_t lost_blocks_ = 0;  // neither freed nor live: abandon() forgot them
  std::uint64_t granules_retired_ = 0;
  std::uint64_t regions_obtained_ = 0;
  std::uint64_t usable_bytes_ = 0;  // of regions, less their unused leads
  std::uint64_t pool_bytes_ = 0;    // of regions, as obtained
  std::uint64_t peak_pool_bytes_ = 0;
  std::uint64_t marked_bytes_ = 0;
  std::uint64_t peak_marked_bytes_ = 0;
  std::uint64_t marked_peak_pool_bytes_ = 0;
};

// "over the limit", "fragmented", ...: for messages.
const char* describe(Failure failure);

}  // namespace cubfc::arena
