#include "shim/limit/pools.h"

#include <algorithm>
#include <utility>

#include "arena/units.h"
#include "shim/driver/relaxed_capture.h"

namespace cubfc {

void Pools::add(CUmemoryPool pool, Owner owner) {
  const std::lock_guard lock(mutex_);
  pools_.push_back({last_id_ + 1, pool, owner});
  ++last_id_;
}

// nullptr when the pool is not known. Precondition: the lock is held.
Pools::Pool* Pools::find(CUmemoryPool pool) noexcept {
  for (Pool& each : pools_) {
    if (each.handle == pool && pool != nullptr && each.state == Pool::State::kThere) {
      return &each;
    }
  }
  return nullptr;
}

bool Pools::has(CUmemoryPool pool) noexcept {
  know_default_pool();
  const std::lock_guard lock(mutex_);
  return find(pool) != nullptr;
}

void Pools::know_default_pool() noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (knows_default_) {
      return;
    }
  }
  CUmemoryPool found = nullptr;
  if (driver_.cuDeviceGetDefaultMemPool == nullptr ||
      driver_.cuDeviceGetDefaultMemPool(&found, device_) != CUDA_SUCCESS) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!knows_default_) {
    pools_.push_back({last_id_ + 1, found, Owner::kProgram});
    ++last_id_;
    knows_default_ = true;
  }
} catch (const std::bad_alloc&) {  // the next call tries again
}

std::uint64_t Pools::begin_to_destroy(CUmemoryPool pool) noexcept {
  const std::lock_guard lock(mutex_);
  Pool* const found = find(pool);
  if (found == nullptr) {
    return 0;
  }
  found->state = Pool::State::kGoing;
  return found->id;
}

void Pools::end_to_destroy(std::uint64_t ticket, bool is_destroyed) noexcept {
  const std::lock_guard lock(mutex_);
  for (Pool& each : pools_) {
    if (each.id == ticket) {
      each.state = is_destroyed ? Pool::State::kDestroyed : Pool::State::kThere;
    }
  }
}

// Removes the destroyed pools from which nothing is claimed any more. What was allocated from a
// destroyed pool stays until it is freed, and counts. Precondition: the lock is held.
void Pools::forget_the_empty() noexcept {
  std::erase_if(pools_, [](const Pool& pool) {
    return pool.state == Pool::State::kDestroyed && pool.claimed == 0;
  });
}

// Precondition: the lock is held.
std::uint64_t Pools::needed() const noexcept {
  std::uint64_t bytes =
      counts_ == Counts::kAll ? std::max(graphs_, claimed_for_graphs_) : std::uint64_t{0};
  for (const Pool& pool : pools_) {
    if (is_counted(pool)) {
      bytes += pool.state == Pool::State::kDestroyed ? pool.claimed
                                                     : std::max(pool.reserved, pool.claimed);
    }
  }
  return bytes;
}

// False, and nothing is taken, when the limit has too little left. Precondition, here and in the
// next function: the lock is held.
bool Pools::take_what_is_needed() noexcept {
  const std::uint64_t lacking = arena::less(needed(), taken_);
  if (lacking > 0 && !budget_.take(lacking)) {
    return false;
  }
  taken_ += lacking;
  return true;
}

void Pools::give_what_is_not_needed() noexcept {
  const std::uint64_t left = arena::less(taken_, needed());
  budget_.give(left);
  taken_ -= left;
}

bool Pools::claim(CUmemoryPool pool, std::uint64_t bytes, std::uint64_t& id) noexcept {
  if (!counts()) {
    id = 0;
    return true;
  }
  refresh();
  const std::lock_guard lock(mutex_);
  Pool* const known = find(pool);
  Pool& from = known == nullptr ? pools_.front() : *known;
  from.claimed += bytes;
  if (!take_what_is_needed()) {
    from.claimed -= bytes;
    return false;
  }
  id = from.id;
  return true;
}

bool Pools::claim_for_graphs(std::uint64_t demand) noexcept {
  refresh();
  const std::lock_guard lock(mutex_);
  const std::uint64_t before =
      std::exchange(claimed_for_graphs_, std::max(claimed_for_graphs_, demand));
  if (!take_what_is_needed()) {
    claimed_for_graphs_ = before;
    return false;
  }
  ++launches_;
  return true;
}

void Pools::unclaim_for_graphs() noexcept {
  {
    const std::lock_guard lock(mutex_);
    --launches_;
    claimed_for_graphs_ = launches_ == 0 ? 0 : claimed_for_graphs_;
  }
  refresh();
}

void Pools::unclaim(std::uint64_t id, std::uint64_t bytes) noexcept {
  if (id == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto from =
      std::find_if(pools_.begin(), pools_.end(), [id](const Pool& pool) { return pool.id == id; });
  from->claimed -= bytes;
  give_what_is_not_needed();
}

// Several threads may ask the driver at once. `turn` numbers the calls: an older answer that comes
// late must not replace a newer one.
bool Pools::refresh() noexcept {
  if (!counts()) {
    return true;
  }
  const std::uint64_t turn = turn_.fetch_add(1) + 1;
  const RelaxedCapture relaxed(driver_);
  know_default_pool();
  for_each([&](CUmemoryPool handle) {
    const std::uint64_t reserved = ask(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    const std::lock_guard lock(mutex_);
    if (Pool* const pool = find(handle); pool != nullptr && pool->asked < turn) {
      pool->reserved = reserved;
      pool->asked = turn;
    }
  });
  const std::uint64_t of_graphs = kept_by_graphs();
  const std::lock_guard lock(mutex_);
  if (graphs_asked_ < turn) {
    graphs_ = of_graphs;
    graphs_asked_ = turn;
  }
  forget_the_empty();
  if (const std::uint64_t lacking = arena::less(needed(), taken_); lacking > 0) {
    budget_.force(lacking);
    taken_ += lacking;
  }
  give_what_is_not_needed();
  return budget_.used() <= budget_.most();
}

std::uint64_t Pools::unclaimed() const noexcept {
  const std::lock_guard lock(mutex_);
  std::uint64_t claimed = 0;
  for (const Pool& pool : pools_) {
    claimed += is_counted(pool) ? pool.claimed : 0;
  }
  return taken_ - std::min(taken_, claimed);
}

// Calls `what` for each pool that is not destroyed, without the lock. Another thread may destroy
// the pool meanwhile: the driver's call then fails.
template <typename Do>
void Pools::for_each(Do what) noexcept {
  for (std::uint64_t id = kUnknown;;) {
    CUmemoryPool handle = nullptr;
    {
      const std::lock_guard lock(mutex_);
      const auto next = std::find_if(pools_.begin(), pools_.end(), [id](const Pool& pool) {
        return pool.id > id && pool.state == Pool::State::kThere;
      });
      if (next == pools_.end()) {
        return;
      }
      id = next->id;
      handle = next->handle;
    }
    what(handle);
  }
}

// 0 when the driver cannot tell.
std::uint64_t Pools::ask(CUmemoryPool pool, CUmemPool_attribute attribute) noexcept {
  cuuint64_t bytes = 0;
  const bool known = driver_.cuMemPoolGetAttribute != nullptr &&
                     driver_.cuMemPoolGetAttribute(pool, attribute, &bytes) == CUDA_SUCCESS;
  return known ? bytes : 0;
}

std::uint64_t Pools::kept_by_graphs() noexcept {
  cuuint64_t bytes = 0;
  if (counts_ == Counts::kAll && driver_.cuDeviceGetGraphMemAttribute != nullptr) {
    driver_.cuDeviceGetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
  }
  return bytes;
}

std::uint64_t Pools::reserved_by(CUmemoryPool pool) noexcept {
  const RelaxedCapture relaxed(driver_);
  return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

bool Pools::trim() noexcept {
  const RelaxedCapture relaxed(driver_);
  bool any = false;
  for_each([&](CUmemoryPool pool) {
    const std::uint64_t before = reserved_by(pool);
    if (driver_.cuMemPoolTrimTo != nullptr) {
      driver_.cuMemPoolTrimTo(pool, 0);
    }
    any = reserved_by(pool) < before || any;
  });
  const std::uint64_t before = kept_by_graphs();
  if (counts_ == Counts::kAll && driver_.cuDeviceGraphMemTrim != nullptr) {
    driver_.cuDeviceGraphMemTrim(device_);
  }
  any = kept_by_graphs() < before || any;
  refresh();
  return any;
}

}  // namespace cubfc
