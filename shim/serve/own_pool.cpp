#include "shim/serve/own_pool.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/tell/log.h"

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
  result =
      driver_.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemPoolDestroy(pool);
  }
  return result;
}

// Makes and warms it when there is none.
CUresult OwnPool::ready_pool(CUstream stream) noexcept {
  CUmemoryPool pool = handle();
  if (pool != nullptr) {
    return CUDA_SUCCESS;
  }
  CUmemoryPool made = nullptr;
  if (const CUresult result = make_pool(made); result != CUDA_SUCCESS) {
    return result;
  }
  try {
    device_.pools.add(made, Pools::Owner::kOurs);
    const std::lock_guard lock(mutex_);
    pool = pool_ == nullptr ? made : pool_;  // unless another thread was quicker
    pool_ = pool;
  } catch (const std::bad_alloc&) {
  }
  if (pool != made) {
    device_.pools.will_be_destroyed(made);
    driver_.cuMemPoolDestroy(made);
    return pool == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  for_each_peer(device_.peers.load(), [&](CUdevice peer) { give_access(peer); });
  warm(pool, stream);
  return CUDA_SUCCESS;
}

// nullptr when it has not allocated yet. Precondition: the lock is held.
OwnPool::User* OwnPool::user(std::uint64_t context_id) noexcept {
  const auto found = std::find_if(users_.begin(), users_.end(),
                                  [&](const User& each) { return each.context_id == context_id; });
  return found == users_.end() ? nullptr : &*found;
}

CUresult OwnPool::stream_of(const Context& context, CUstream& stream) noexcept try {
  const std::uint64_t id = context.id.load(std::memory_order_acquire);
  {
    const std::lock_guard lock(mutex_);
    if (const User* const known = user(id); known != nullptr) {
      stream = known->stream;
      return CUDA_SUCCESS;
    }
  }
  // What needs memory comes first.
  auto leftovers = std::make_unique<Leftovers>();
  leftovers->memory = std::make_shared<Blocks>(*this, id);
  {
    const std::lock_guard lock(mutex_);
    users_.reserve(users_.size() + 8);
  }
  {
    const PushedContext inside(driver_, context.handle);
    const CUresult result =
        inside.pushed() ? driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) : inside.result();
    if (result != CUDA_SUCCESS) {
      return result;
    }
  }
  std::unique_lock lock(mutex_);
  if (const User* const known = user(id); known != nullptr) {  // another thread was quicker
    const CUstream spare = std::exchange(stream, known->stream);
    lock.unlock();
    driver_.cuStreamDestroy_v2(spare);
    return CUDA_SUCCESS;
  }
  users_.push_back({id, stream});  // what fails here must not end the Blocks, under the lock
  users_.back().leftovers = std::move(leftovers);
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// CUBFC_ASYNC_PREALLOCATE, or what the device has of it.
void OwnPool::warm(CUmemoryPool pool, CUstream stream) noexcept try {
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
} catch (const std::bad_alloc&) {  // a line less
}

CUresult OwnPool::prepare(const Context& context) noexcept {
  give_back_orphans();
  const RelaxedCapture relaxed(driver_);
  CUstream stream = nullptr;
  const CUresult result = stream_of(context, stream);
  return result == CUDA_SUCCESS ? ready_pool(stream) : result;
}

CUresult OwnPool::allocate(const Context& context, CUdeviceptr* address,
                           std::size_t bytes) noexcept {
  const RelaxedCapture relaxed(driver_);
  CUstream stream = nullptr;
  if (const CUresult result = stream_of(context, stream); result != CUDA_SUCCESS) {
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
  if (const CUresult result = driver_.cuMemAllocFromPoolAsync(&got, bytes, handle(), stream);
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
    // It is not for lack of memory, and giving back some would help nobody.
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
  }
  *address = got;
  return CUDA_SUCCESS;
}

void OwnPool::undo(CUdeviceptr address) noexcept {
  const RelaxedCapture relaxed(driver_);
  driver_.cuMemFree_v2(address);
}

// The first that ends beyond the address.
OwnPool::Entries::const_iterator OwnPool::first_beyond(const Entries& entries,
                                                       CUdeviceptr address) noexcept {
  auto found = entries.upper_bound(address);
  if (found != entries.begin()) {
    const auto before = std::prev(found);
    found = address - before->first < before->second.claim.bytes() ? before : found;
  }
  return found;
}

// What lies there is what the driver has taken back already, on its way to say so: it gives nothing
// twice.
void OwnPool::add(Context& context, CUdeviceptr address, Claim&& claim) {
  const std::uint64_t context_id = context.id.load(std::memory_order_acquire);
  const std::uint64_t bytes = claim.bytes();
  Entries gone;  // their claims are given back without the lock
  const std::lock_guard lock(mutex_);
  auto each = first_beyond(entries_, address);
  while (each != entries_.end() && each->first < address + bytes) {
    stats_.bytes_in_use -= each->second.claim.bytes();
    gone.insert(entries_.extract(each++));
  }
  entries_.emplace(address,
                   Entry{std::move(claim), last_id_ + 1, &context, context_id, State::kLive});
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
          entry.second.state == State::kLive};
}

std::optional<OwnPool::Block> OwnPool::find(CUdeviceptr address) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const Entries* const entries : {&entries_, &orphans_}) {
    const auto found = first_beyond(*entries, address);
    if (found != entries->end() && found->first <= address) {
      return block_of(*found);
    }
  }
  return std::nullopt;
}

std::optional<OwnPool::Block> OwnPool::find_live_from(CUdeviceptr address) const noexcept {
  const std::lock_guard lock(mutex_);
  auto found = first_beyond(entries_, address);
  while (found != entries_.end() && found->second.state != State::kLive) {
    ++found;
  }
  return found == entries_.end() ? std::nullopt : std::optional(block_of(*found));
}

// end() when there is none. Precondition: the lock is held.
OwnPool::Entries::iterator OwnPool::find_live(CUdeviceptr address) noexcept {
  const auto found = entries_.find(address);
  return found != entries_.end() && found->second.state == State::kLive ? found : entries_.end();
}

std::optional<OwnPool::Block> OwnPool::retire(CUdeviceptr address) noexcept {
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

void OwnPool::reclaim(CUdeviceptr address, std::uint64_t id) noexcept {
  take_back(address, id, State::kRetired);
}

CUresult OwnPool::free(CUdeviceptr address) noexcept {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find_live(address);
    id = found == entries_.end() ? 0 : found->second.id;
    ++stats_.operations;
  }
  return id == 0 ? CUDA_ERROR_INVALID_VALUE : take_back(address, id, State::kLive);
}

// To the driver. Until that has answered the address is not looked up as anybody's: as soon as it
// has the memory, another thread may be given it. What the driver says is none is gone.
CUresult OwnPool::take_back(CUdeviceptr address, std::uint64_t id, State before) noexcept {
  const auto find = [&] {
    const auto found = entries_.find(address);
    return found != entries_.end() && found->second.id == id ? found : entries_.end();
  };
  {
    const std::lock_guard lock(mutex_);
    const auto found = find();
    if (found == entries_.end() || found->second.state != before) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    found->second.state = State::kGoing;
    stats_.bytes_retired -= before == State::kRetired ? found->second.claim.bytes() : 0;
  }
  CUresult result = CUDA_SUCCESS;
  {
    const RelaxedCapture relaxed(driver_);
    result = driver_.cuMemFree_v2(address);
  }
  Entries::node_type gone;  // its claim is given back without the lock
  const std::lock_guard lock(mutex_);
  const auto found = find();
  if (found == entries_.end()) {
    return result;  // another allocation has its address already
  }
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE) {
    stats_.bytes_in_use -= found->second.claim.bytes();
    exhausted_ = false;
    gone = entries_.extract(found);
  } else if (before == State::kRetired) {
    orphans_.insert(entries_.extract(found));  // the next call that can, gives it back
  } else {
    found->second.state = State::kLive;
  }
  return result;
}

void OwnPool::free_all_of(const Context& context) noexcept {
  give_back_orphans();
  const std::uint64_t context_id = context.id.load(std::memory_order_acquire);
  CUdeviceptr next = 0;
  for (;;) {
    Block block{};
    State state = State::kGoing;
    {
      const std::lock_guard lock(mutex_);
      const auto found =
          std::find_if(entries_.lower_bound(next), entries_.end(), [&](const auto& each) {
            return each.second.context_id == context_id && each.second.state != State::kGoing;
          });
      if (found == entries_.end()) {
        return;
      }
      block = block_of(*found);
      state = found->second.state;
    }
    take_back(block.address, block.id, state);
    next = block.address + 1;
  }
}

// Only those that a context is there for.
void OwnPool::give_back_orphans() noexcept {
  for (;;) {
    Entries::node_type orphan;
    {
      const std::lock_guard lock(mutex_);
      if (orphans_.empty()) {
        return;
      }
      orphan = orphans_.extract(orphans_.begin());
    }
    CUresult result = CUDA_SUCCESS;
    {
      const RelaxedCapture relaxed(driver_);
      result = driver_.cuMemFree_v2(orphan.key());
    }
    const std::lock_guard lock(mutex_);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) {
      orphans_.insert(std::move(orphan));
      return;
    }
    stats_.bytes_in_use -= orphan.mapped().claim.bytes();
  }
}

std::unique_ptr<Leftovers> OwnPool::leave_behind(std::uint64_t context_id) noexcept {
  const std::lock_guard lock(mutex_);
  User* const leaving = user(context_id);
  if (leaving == nullptr) {
    return nullptr;
  }
  std::unique_ptr<Leftovers> leftovers = std::move(leaving->leftovers);
  *leaving = std::move(users_.back());
  users_.pop_back();
  return leftovers;
}

void OwnPool::give_up(std::uint64_t context_id) noexcept {
  CUmemoryPool pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (user(context_id) != nullptr) {
      return;  // it was another thread's, which was quicker
    }
    for (auto each = entries_.begin(); each != entries_.end();) {
      Entry& entry = each->second;
      if (entry.context_id == context_id && entry.state != State::kGoing) {
        stats_.bytes_retired -= entry.state == State::kRetired ? entry.claim.bytes() : 0;
        entry.state = State::kRetired;
        orphans_.insert(entries_.extract(each++));
      } else {
        ++each;
      }
    }
    if (users_.empty()) {
      pool = std::exchange(pool_, nullptr);
      exhausted_ = false;
    }
  }
  give_back_orphans();
  if (pool != nullptr) {
    device_.pools.will_be_destroyed(pool);
    driver_.cuMemPoolDestroy(pool);
    device_.pools.refresh();
  }
}

// Nothing to do before the pool is there: it begins with all peers of its device.
void OwnPool::give_access(CUdevice peer) noexcept {
  const CUmemoryPool pool = handle();
  if (pool == nullptr) {
    return;
  }
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = peer;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const RelaxedCapture relaxed(driver_);
  if (const CUresult result = driver_.cuMemPoolSetAccess(pool, &access, 1);
      result != CUDA_SUCCESS) {
    log::warn("GPU {} could not be given access to the pool of GPU {}: driver says {}", peer,
              device_.handle, name_of(driver_, result));
  }
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
  device_.pools.refresh();
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
