#include "shim/servers/pool_blocks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "shim/device/context.h"

namespace cubfc {
namespace {

// The newest id of a block, of all pools of the process. These ids are above those of blocks in
// arenas.
std::atomic<std::uint64_t> last_id{std::uint64_t{1} << 60};

}  // namespace

PoolBlocks::Block PoolBlocks::block_of(const Entries::value_type& entry) {
  return {entry.first, entry.second.claim.bytes(), entry.second.id, entry.second.context,
          entry.second.state == State::kLive};
}

// The first block that ends above the address.
PoolBlocks::Entries::const_iterator PoolBlocks::first_beyond(const Entries& entries,
                                                             CUdeviceptr address) noexcept {
  auto found = entries.upper_bound(address);
  if (found != entries.begin()) {
    const auto before = std::prev(found);
    found = address - before->first < before->second.claim.bytes() ? before : found;
  }
  return found;
}

void PoolBlocks::add(Context& context, CUdeviceptr address, Claim&& claim) {
  const std::uint64_t context_id = context.id.load(std::memory_order_acquire);
  const std::uint64_t bytes = claim.bytes();
  // What needs host memory comes first, without the lock: if it fails, the claim ends here.
  Entries added;
  added.emplace(address, Entry{std::move(claim), ++last_id, &context, context_id, State::kLive});
  Entries removed;  // whose claims end without the lock
  const std::lock_guard lock(mutex_);
  auto each = first_beyond(entries_, address);
  while (each != entries_.end() && each->first < address + bytes) {
    stats_.bytes_in_use -= each->second.claim.bytes();
    removed.insert(entries_.extract(each++));
  }
  entries_.insert(added.extract(added.begin())).position->second.claim.begin_use(address);
  ++stats_.operations;
  stats_.bytes_in_use += bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
}

std::optional<PoolBlocks::Block> PoolBlocks::find(CUdeviceptr address) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const Entries* const entries : {&entries_, &orphans_}) {
    const auto found = first_beyond(*entries, address);
    // Memory that the driver is freeing at this moment may be another pool's already.
    if (found != entries->end() && found->first <= address &&
        found->second.state != State::kGoing) {
      return block_of(*found);
    }
  }
  return std::nullopt;
}

std::optional<PoolBlocks::Block> PoolBlocks::find_live_from(CUdeviceptr address) const noexcept {
  const std::lock_guard lock(mutex_);
  auto found = first_beyond(entries_, address);
  while (found != entries_.end() && found->second.state != State::kLive) {
    ++found;
  }
  return found == entries_.end() ? std::nullopt : std::optional(block_of(*found));
}

// The live block that starts there; end() when there is none. Precondition: the lock is held.
PoolBlocks::Entries::iterator PoolBlocks::find_live(CUdeviceptr address) noexcept {
  const auto found = entries_.find(address);
  return found != entries_.end() && found->second.state == State::kLive ? found : entries_.end();
}

std::optional<PoolBlocks::Block> PoolBlocks::retire(CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = find_live(address);
  if (found == entries_.end()) {
    return std::nullopt;
  }
  found->second.state = State::kRetired;
  ++stats_.operations;
  stats_.bytes_retired += found->second.claim.bytes();
  return block_of(*found);
}

// Precondition: the lock is held, and the block is live or retired.
PoolBlocks::Going PoolBlocks::begin(Entries::value_type& entry) noexcept {
  const State before = std::exchange(entry.second.state, State::kGoing);
  entry.second.claim.end_use();
  stats_.bytes_retired -= before == State::kRetired ? entry.second.claim.bytes() : 0;
  return {entry.first, entry.second.id, entry.second.context_id, before};
}

std::optional<PoolBlocks::Going> PoolBlocks::begin_free(CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  ++stats_.operations;
  const auto found = find_live(address);
  return found == entries_.end() ? std::nullopt : std::optional(begin(*found));
}

std::optional<PoolBlocks::Going> PoolBlocks::begin_reclaim(CUdeviceptr address,
                                                           std::uint64_t id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(address);
  const bool is_there =
      found != entries_.end() && found->second.id == id && found->second.state == State::kRetired;
  return is_there ? std::optional(begin(*found)) : std::nullopt;
}

std::optional<PoolBlocks::Going> PoolBlocks::begin_next_of(std::uint64_t context_id,
                                                           CUdeviceptr from) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(entries_.lower_bound(from), entries_.end(), [&](const auto& each) {
        return each.second.context_id == context_id && each.second.state != State::kGoing;
      });
  return found == entries_.end() ? std::nullopt : std::optional(begin(*found));
}

std::optional<Claim> PoolBlocks::finish(const Going& going, bool is_gone) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(going.address);
  if (found == entries_.end() || found->second.id != going.id) {
    return std::nullopt;
  }
  if (is_gone) {
    stats_.bytes_in_use -= found->second.claim.bytes();
    return std::move(entries_.extract(found).mapped().claim);
  }
  found->second.claim.go_on_with_use();
  if (going.before == State::kRetired || found->second.is_left) {
    found->second.state = State::kRetired;
    orphans_.insert(entries_.extract(found));
  } else {
    found->second.state = State::kLive;
  }
  return std::nullopt;
}

void PoolBlocks::orphan_all_of(std::uint64_t context_id) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto each = entries_.begin(); each != entries_.end();) {
    Entry& entry = each->second;
    entry.is_left = entry.is_left || entry.context_id == context_id;
    if (entry.context_id == context_id && entry.state != State::kGoing) {
      stats_.bytes_retired -= entry.state == State::kRetired ? entry.claim.bytes() : 0;
      entry.state = State::kRetired;
      orphans_.insert(entries_.extract(each++));
    } else {
      ++each;
    }
  }
}

PoolBlocks::Orphan PoolBlocks::take_orphan() noexcept {
  const std::lock_guard lock(mutex_);
  return orphans_.empty() ? Orphan() : orphans_.extract(orphans_.begin());
}

// What is left in `orphan` ends, with its claim, after the lock is released.
void PoolBlocks::finish(Orphan orphan, bool is_gone) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_gone) {
    stats_.bytes_in_use -= orphan.mapped().claim.bytes();
  } else {
    orphans_.insert(std::move(orphan));
  }
}

PoolBlocks::Stats PoolBlocks::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace cubfc
