#include "shim/own_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shim/log.h"

namespace cubfc {
namespace {

// Less is not worth being kept ready.
constexpr std::uint64_t kLeastWarmBytes = std::uint64_t{1} << 20;

// Headers before CUDA 12.2 do not know it.
template <typename Properties>
void set_most(Properties& properties, std::uint64_t bytes) {
  if constexpr (requires { properties.maxSize; }) {
    properties.maxSize = bytes;
  }
}

}  // namespace

bool OwnPool::is_possible(const DriverFunctions& driver, CUdevice device) {
  int supported = 0;
  return driver.cuMemPoolCreate != nullptr && driver.cuMemPoolDestroy != nullptr &&
         driver.cuMemPoolSetAttribute != nullptr && driver.cuMemPoolGetAttribute != nullptr &&
         driver.cuMemPoolSetAccess != nullptr && driver.cuMemPoolTrimTo != nullptr &&
         driver.cuMemAllocFromPoolAsync != nullptr && driver.cuMemFreeAsync != nullptr &&
         driver.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                     device) == CUDA_SUCCESS &&
         supported != 0;
}

// One that keeps what is freed, and gives nothing that work in another stream has yet to leave.
CUresult OwnPool::make_pool(CUmemoryPool& pool) noexcept {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_.handle;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (device_.budget.limited()) {
    set_most(properties, device_.budget.limit());
    result = driver_.cuMemPoolCreate(&pool, &properties);
  }
  if (result == CUDA_ERROR_INVALID_VALUE) {  // no limit, or a driver that has no such bound
    set_most(properties, 0);
    result = driver_.cuMemPoolCreate(&pool, &properties);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  cuuint64_t keeps_all = std::numeric_limits<cuuint64_t>::max();
  int no = 0;
  driver_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keeps_all);
  return driver_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
                                       &no);
}

// Makes and warms it when there is none.
CUresult OwnPool::pool_to_use(CUmemoryPool& pool, CUstream stream) noexcept try {
  {
    const std::lock_guard lock(mutex_);
    if (pool_ != nullptr) {
      pool = pool_;
      return CUDA_SUCCESS;
    }
  }
  if (const CUresult result = make_pool(pool); result != CUDA_SUCCESS) {
    return result;
  }
  std::vector<CUdevice> peers;
  {
    std::unique_lock lock(mutex_);
    if (pool_ != nullptr) {  // another thread was quicker
      const CUmemoryPool spare = std::exchange(pool, pool_);
      lock.unlock();
      driver_.cuMemPoolDestroy(spare);
      return CUDA_SUCCESS;
    }
    peers = peers_;
    pool_ = pool;
  }
  device_.pools.add(pool);
  for (const CUdevice peer : peers) {
    set_peer(peer);
  }
  warm(pool, stream);
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult OwnPool::stream_of(const Context& context, CUstream& stream) noexcept try {
  const std::uint64_t id = context.id.load(std::memory_order_acquire);
  const auto known = [&] {
    const auto user = std::find_if(users_.begin(), users_.end(),
                                   [id](const User& each) { return each.context_id == id; });
    stream = user == users_.end() ? nullptr : user->stream;
    return user != users_.end();
  };
  {
    const std::lock_guard lock(mutex_);
    if (known()) {
      return CUDA_SUCCESS;
    }
  }
  User user{id, nullptr, std::make_shared<Blocks>(Blocks{*this, id}), std::make_shared<Remains>()};
  if (const CUresult result = driver_.cuCtxPushCurrent_v2(context.handle); result != CUDA_SUCCESS) {
    return result;
  }
  const CUresult result = driver_.cuStreamCreate(&user.stream, CU_STREAM_NON_BLOCKING);
  CUcontext popped = nullptr;
  driver_.cuCtxPopCurrent_v2(&popped);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  std::unique_lock lock(mutex_);
  if (known()) {  // another thread was quicker
    lock.unlock();
    driver_.cuStreamDestroy_v2(user.stream);
    return CUDA_SUCCESS;
  }
  stream = user.stream;
  users_.push_back(std::move(user));
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// CUBFC_ASYNC_PREALLOCATE, or what the device has of it.
void OwnPool::warm(CUmemoryPool pool, CUstream stream) noexcept {
  const std::int64_t asked = policy_.async_preallocate.value;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (asked == 0 || driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return;
  }
  const std::uint64_t wanted = asked < 0 ? policy_.preallocation(free_bytes, total_bytes)
                                         : static_cast<std::uint64_t>(asked);
  std::uint64_t bytes =
      std::min({wanted, device_.budget.left(), policy_.beyond_reserve(free_bytes)});
  CUdeviceptr all = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  while (bytes >= kLeastWarmBytes && result == CUDA_ERROR_OUT_OF_MEMORY) {
    result = driver_.cuMemAllocFromPoolAsync(&all, bytes, pool, stream);
    bytes -= result == CUDA_SUCCESS ? 0 : bytes / 10;
  }
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemFreeAsync(all, stream);
    driver_.cuStreamSynchronize(stream);
  }
  {
    const std::lock_guard lock(mutex_);
    warm_bytes_ = result == CUDA_SUCCESS ? bytes : 0;
  }
  const bool done = result == CUDA_SUCCESS && bytes == wanted;
  log::at(done ? log::Level::kInfo : log::Level::kWarn, "GPU {}: the pool is warmed with {}{}",
          device_.handle, log::bytes(result == CUDA_SUCCESS ? bytes : 0),
          done ? "" : format(" of {}: the device, or the limit, has not more", log::bytes(wanted)));
}

CUresult OwnPool::allocate(const Context& context, CUdeviceptr* address,
                           std::size_t bytes) noexcept {
  give_back_orphans();
  const RelaxedCapture relaxed(driver_);
  CUmemoryPool pool = nullptr;
  CUstream stream = nullptr;
  if (const CUresult result = stream_of(context, stream); result != CUDA_SUCCESS) {
    return result;
  }
  if (const CUresult result = pool_to_use(pool, stream); result != CUDA_SUCCESS) {
    return result;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (policy_.reserve.value > 0 &&
      driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
      bytes > policy_.beyond_reserve(free_bytes) + idle_bytes()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUdeviceptr got = 0;
  if (const CUresult result = driver_.cuMemAllocFromPoolAsync(&got, bytes, pool, stream);
      result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    exhausted_ = exhausted_ || result == CUDA_ERROR_OUT_OF_MEMORY;
    return result;
  }
  CUresult result = driver_.cuStreamQuery(stream);
  if (result == CUDA_ERROR_NOT_READY) {
    result = driver_.cuStreamSynchronize(stream);
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemFree_v2(got);
    return result;
  }
  *address = got;
  return CUDA_SUCCESS;
}

void OwnPool::add(Context& context, CUdeviceptr address, Claim&& claim) {
  const std::uint64_t context_id = context.id.load(std::memory_order_acquire);
  const std::lock_guard lock(mutex_);
  const std::uint64_t bytes = claim.bytes();
  entries_.try_emplace(
      address, Entry{std::move(claim), last_id_ + 1, &context, context_id, Entry::State::kLive});
  ++last_id_;
  ++stats_.num_allocs;
  ++stats_.operations;
  stats_.bytes_in_use += bytes;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
}

void OwnPool::failed() noexcept {
  const std::lock_guard lock(mutex_);
  ++stats_.num_failures;
}

OwnPool::Block OwnPool::block_of(const Entries::value_type& entry) {
  return {entry.first, entry.second.claim.bytes(), entry.second.id, entry.second.context,
          entry.second.state == Entry::State::kLive};
}

std::optional<OwnPool::Block> OwnPool::find(CUdeviceptr address) const noexcept {
  const std::lock_guard lock(mutex_);
  auto found = entries_.upper_bound(address);
  if (found == entries_.begin()) {
    return std::nullopt;
  }
  --found;
  const bool contains = address - found->first < found->second.claim.bytes();
  return contains ? std::optional(block_of(*found)) : std::nullopt;
}

// end() when there is none. Precondition: the lock is held.
OwnPool::Entries::iterator OwnPool::find_live(CUdeviceptr address) noexcept {
  const auto found = entries_.find(address);
  const bool live = found != entries_.end() && found->second.state == Entry::State::kLive;
  return live ? found : entries_.end();
}

std::optional<OwnPool::Block> OwnPool::retire(CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = find_live(address);
  if (found == entries_.end()) {
    return std::nullopt;
  }
  found->second.state = Entry::State::kRetired;
  ++stats_.operations;
  stats_.bytes_retired += found->second.claim.bytes();
  return block_of(*found);
}

void OwnPool::reclaim(CUdeviceptr address, std::uint64_t id) noexcept {
  Entries::node_type entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(address);
    if (found == entries_.end() || found->second.id != id ||
        found->second.state != Entry::State::kRetired) {
      return;
    }
    entry = entries_.extract(found);
    stats_.bytes_retired -= entry.mapped().claim.bytes();
  }
  if (give_back(entry) != CUDA_SUCCESS) {
    make_orphan(std::move(entry));
  }
}

CUresult OwnPool::free(CUdeviceptr address) noexcept {
  Entries::node_type entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find_live(address);
    if (found == entries_.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    entry = entries_.extract(found);
    ++stats_.operations;
  }
  const CUresult result = give_back(entry);
  if (result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    entries_.insert(std::move(entry));  // needs no memory
  }
  return result;
}

// Afterwards the entry may go.
CUresult OwnPool::give_back(const Entries::node_type& entry) noexcept {
  const CUresult result = free_now(entry.key(), entry.mapped());
  if (result == CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    stats_.bytes_in_use -= entry.mapped().claim.bytes();
    exhausted_ = false;
  }
  return result;
}

// In the current context; where that does not do, because there is none or it has ended, in the
// block's own, or in the primary context, which that may bring to life for a moment.
CUresult OwnPool::free_now(CUdeviceptr address, const Entry& entry) noexcept {
  const RelaxedCapture relaxed(driver_);
  const CUresult result = driver_.cuMemFree_v2(address);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE ||
      result == CUDA_ERROR_DEINITIALIZED) {
    return result;
  }
  const bool own = entry.context->id == entry.context_id;
  CUcontext context = entry.context->handle;
  if (!own && driver_.cuDevicePrimaryCtxRetain(&context, device_.handle) != CUDA_SUCCESS) {
    return result;
  }
  CUresult again = driver_.cuCtxPushCurrent_v2(context);
  if (again == CUDA_SUCCESS) {
    again = driver_.cuMemFree_v2(address);
    CUcontext popped = nullptr;
    driver_.cuCtxPopCurrent_v2(&popped);
  }
  if (!own) {
    driver_.cuDevicePrimaryCtxRelease_v2(device_.handle);
  }
  return again;
}

// The next call that can, gives it back.
void OwnPool::make_orphan(Entries::node_type entry) noexcept {
  const std::lock_guard lock(mutex_);
  entry.mapped().state = Entry::State::kOrphan;
  entries_.insert(std::move(entry));
  ++orphans_;
}

void OwnPool::give_back_orphans() noexcept {
  for (;;) {
    Entries::node_type orphan;
    {
      const std::lock_guard lock(mutex_);
      if (orphans_ == 0) {
        return;
      }
      const auto found = std::find_if(entries_.begin(), entries_.end(), [](const auto& each) {
        return each.second.state == Entry::State::kOrphan;
      });
      orphan = entries_.extract(found);
      --orphans_;
    }
    if (give_back(orphan) != CUDA_SUCCESS) {
      make_orphan(std::move(orphan));
      return;
    }
  }
}

OwnPool::Blocks::~Blocks() {
  if (given_up) {
    pool.give_back_all_of(context_id);
  }
}

std::shared_ptr<Remains> OwnPool::leave_behind(std::uint64_t context_id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto user = std::find_if(users_.begin(), users_.end(),
                                 [&](const User& each) { return each.context_id == context_id; });
  if (user == users_.end()) {
    return nullptr;
  }
  std::shared_ptr<Remains> remains = std::move(user->remains);
  user->blocks->given_up = true;
  remains->memory = std::move(user->blocks);
  users_.erase(user);
  return remains;
}

void OwnPool::give_back_all_of(std::uint64_t context_id) noexcept {
  CUmemoryPool pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [address, entry] : entries_) {
      if (entry.context_id == context_id && entry.state != Entry::State::kOrphan) {
        stats_.bytes_retired -= entry.state == Entry::State::kRetired ? entry.claim.bytes() : 0;
        entry.state = Entry::State::kOrphan;
        ++orphans_;
      }
    }
    if (users_.empty()) {
      pool = std::exchange(pool_, nullptr);
      exhausted_ = false;
    }
  }
  give_back_orphans();
  if (pool != nullptr) {
    device_.pools.remove(pool);
    driver_.cuMemPoolDestroy(pool);
  }
}

// It keeps the access when the peer gives it up.
void OwnPool::set_peer(CUdevice peer) noexcept try {
  CUmemoryPool pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (std::find(peers_.begin(), peers_.end(), peer) == peers_.end()) {
      peers_.push_back(peer);
    }
    pool = pool_;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = peer;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (pool != nullptr && peer != device_.handle) {
    if (const CUresult result = driver_.cuMemPoolSetAccess(pool, &access, 1);
        result != CUDA_SUCCESS) {
      log::warn("GPU {} could not be given access to the pool of GPU {}: driver says {}", peer,
                device_.handle, static_cast<int>(result));
    }
  }
} catch (const std::bad_alloc&) {
  log::warn("GPU {} has no access to the pool of GPU {}: the host has no memory", peer,
            device_.handle);
}

// What it is known to hold: the most that was ever in use, because it keeps what is freed.
arena::Room OwnPool::room() const noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t beyond =
      device_.total_bytes - std::min(device_.total_bytes, stats_.peak_bytes_in_use);
  return {stats_.peak_bytes_in_use, stats_.peak_bytes_in_use - stats_.bytes_in_use,
          stats_.bytes_retired, exhausted_ ? 0 : std::min(device_.budget.left(), beyond)};
}

std::uint64_t OwnPool::trim(std::uint64_t keep_bytes) noexcept {
  give_back_orphans();
  const CUmemoryPool pool = handle();
  if (pool == nullptr) {
    return 0;
  }
  const std::uint64_t before = device_.pools.reserved_by(pool);
  {
    const RelaxedCapture relaxed(driver_);
    driver_.cuMemPoolTrimTo(pool, keep_bytes);
  }
  const std::uint64_t after = device_.pools.reserved_by(pool);
  device_.count_pools();
  return before - std::min(before, after);
}

std::uint64_t OwnPool::warm_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return warm_bytes_;
}

CUmemoryPool OwnPool::handle() const noexcept {
  const std::lock_guard lock(mutex_);
  return pool_;
}

std::uint64_t OwnPool::idle_bytes() noexcept {
  const CUmemoryPool pool = handle();
  return pool == nullptr ? 0 : device_.pools.idle_in(pool);
}

OwnPool::Stats OwnPool::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace cubfc
