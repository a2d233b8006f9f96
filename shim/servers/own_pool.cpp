#include "shim/servers/own_pool.h"

#include <algorithm>
#include <utility>

#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/servers/pool_creation.h"
#include "shim/tell/log.h"

namespace cubfc {

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

// Makes and warms the pool when there is none. The context of the stream is current.
CUresult OwnPool::ready_pool(CUstream stream) noexcept {
  CUmemoryPool pool = handle();
  if (pool != nullptr) {
    return CUDA_SUCCESS;
  }
  CUmemoryPool made = nullptr;
  if (const CUresult result = create_pool(driver_, device_, made); result != CUDA_SUCCESS) {
    return result;
  }
  try {
    device_.limit.pools.add(made, Pools::Owner::kOurs);
    const std::lock_guard lock(mutex_);
    pool = pool_ == nullptr ? made : pool_;  // unless another thread was quicker
    pool_ = pool;
  } catch (const std::bad_alloc&) {
  }
  if (pool != made) {
    destroy(made);
    return pool == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  }
  for_each_peer(device_.peers.load(), [&](CUdevice peer) { give_access(peer); });
  const std::uint64_t warm_bytes = warm_pool(driver_, policy_, device_, pool, stream);
  const std::lock_guard lock(mutex_);
  warm_bytes_ = warm_bytes;
  return CUDA_SUCCESS;
}

// The entry of the context; nullptr when it has not allocated yet. Precondition: the lock is held.
OwnPool::User* OwnPool::user(std::uint64_t context_id) noexcept {
  const auto found = std::find_if(users_.begin(), users_.end(),
                                  [&](const User& each) { return each.context_id == context_id; });
  return found == users_.end() ? nullptr : &*found;
}

// Gets the stream in which the context allocates; makes it at the context's first request.
CUresult OwnPool::stream_of(const Context& context, CUstream& stream) noexcept try {
  const std::uint64_t id = context.id.load(std::memory_order_acquire);
  {
    const std::lock_guard lock(mutex_);
    if (const User* const known = user(id); known != nullptr) {
      stream = known->stream;
      return CUDA_SUCCESS;
    }
  }
  // What needs host memory comes first.
  auto leftovers = std::make_unique<Leftovers>();
  leftovers->memory = std::make_shared<ContextBlocks>(*this, id);
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
  users_.push_back({id, stream});  // if this throws, `leftovers` ends without the lock
  users_.back().leftovers = std::move(leftovers);
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
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
  if (policy_.reserve.value > 0 && !device_.reserves_allow(driver_, bytes, idle_bytes())) {
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
    // The request has not failed for lack of memory. With CUDA_ERROR_OUT_OF_MEMORY the caller would
    // search for memory and try again, which cannot help.
    return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_UNKNOWN : result;
  }
  *address = got;
  return CUDA_SUCCESS;
}

void OwnPool::undo(CUdeviceptr address) noexcept {
  const RelaxedCapture relaxed(driver_);
  driver_.cuMemFree_v2(address);
}

void OwnPool::reclaim(CUdeviceptr address, std::uint64_t id) noexcept {
  if (const auto going = blocks_.begin_reclaim(address, id)) {
    take_back(*going);
  }
}

CUresult OwnPool::free(CUdeviceptr address) noexcept {
  const auto going = blocks_.begin_free(address);
  return going ? take_back(*going) : CUDA_ERROR_INVALID_VALUE;
}

// Gives memory back to the driver. cuMemFree takes a pool's memory, too (cuda.h). If the driver
// refuses cuMemFree, it is asked whether it knows the address. If the driver does not know the
// address, the memory is gone already. Else the memory is freed in the order of the stream in which
// it was allocated, and counts as given back from then on. Then waits for that stream, so that the
// next request can have the memory. Waits once more if an error of other work may have cut the
// first wait short.
OwnPool::GivenBack OwnPool::give_back(CUdeviceptr address, std::uint64_t context_id) noexcept {
  const RelaxedCapture relaxed(driver_);
  const CUresult result = driver_.cuMemFree_v2(address);
  if (result == CUDA_SUCCESS || stays(result)) {
    return {result, result == CUDA_SUCCESS};
  }
  unsigned type = 0;
  if (result == CUDA_ERROR_INVALID_VALUE &&
      driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
          CUDA_ERROR_INVALID_VALUE) {
    return {result, true};
  }
  CUstream stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const User* const its = user(context_id);
    stream = its == nullptr ? nullptr : its->stream;
  }
  if (stream == nullptr || driver_.cuMemFreeAsync(address, stream) != CUDA_SUCCESS) {
    return {result, false};
  }
  if (driver_.cuStreamSynchronize(stream) != CUDA_SUCCESS) {
    driver_.cuStreamSynchronize(stream);
  }
  return {CUDA_SUCCESS, true};
}

// Gives the block to the driver, and notes the result. If the driver has taken it, the pool has
// memory for the next request again.
CUresult OwnPool::take_back(const PoolBlocks::Going& going) noexcept {
  const GivenBack back = give_back(going.address, going.context_id);
  std::optional<Claim> claim;          // ends without the lock
  const std::lock_guard lock(mutex_);  // headroom() sees both changes or none
  claim = blocks_.finish(going, back.is_gone);
  exhausted_ = exhausted_ && !claim;
  return back.result;
}

void OwnPool::free_all_of(const Context& context) noexcept {
  give_back_orphans();
  const std::uint64_t context_id = context.id.load(std::memory_order_acquire);
  CUdeviceptr from = 0;  // so that a block that the driver refuses is tried once
  while (const auto going = blocks_.begin_next_of(context_id, from)) {
    take_back(*going);
    from = going->address + 1;
  }
}

// Gives orphans back to the driver until it refuses one, as it does while there is no context.
void OwnPool::give_back_orphans() noexcept {
  for (bool is_gone = true; is_gone;) {
    PoolBlocks::Orphan orphan = blocks_.take_orphan();
    if (orphan.empty()) {
      return;
    }
    is_gone = give_back(orphan.key(), PoolBlocks::context_of(orphan)).is_gone;
    blocks_.finish(std::move(orphan), is_gone);
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

// Called by the destructor of ContextBlocks: after the context has ended, or when stream_of() has
// made a ContextBlocks that is not needed. Looks for the context's entry, makes the orphans and
// takes the pool in one step under the lock. So no blocks become orphans if stream_of() has entered
// their context meanwhile, and the pool goes only with the last context.
void OwnPool::give_up(std::uint64_t context_id) noexcept {
  CUmemoryPool pool = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (user(context_id) != nullptr) {
      return;  // it allocates: stream_of() on another thread was quicker
    }
    blocks_.orphan_all_of(context_id);
    if (users_.empty()) {
      pool = std::exchange(pool_, nullptr);
      exhausted_ = false;
    }
  }
  give_back_orphans();
  if (pool != nullptr) {
    destroy(pool);
    device_.limit.pools.refresh();
  }
}

// Whatever the driver answers, nothing is allocated from the pool any more.
void OwnPool::destroy(CUmemoryPool pool) noexcept {
  const std::uint64_t ticket = device_.limit.pools.begin_to_destroy(pool);
  driver_.cuMemPoolDestroy(pool);
  device_.limit.pools.end_to_destroy(ticket, /*is_destroyed=*/true);
}

// Before the pool is made there is nothing to do: ready_pool() gives all peers access.
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

// Takes the peak of bytes in use for what the pool holds, because the pool keeps what is freed.
arena::Headroom OwnPool::headroom() const noexcept {
  const std::lock_guard lock(mutex_);
  const Stats stats = blocks_.stats();
  const std::uint64_t beyond =
      device_.total_bytes - std::min(device_.total_bytes, stats.peak_bytes_in_use);
  return {stats.peak_bytes_in_use, stats.peak_bytes_in_use - stats.bytes_in_use,
          stats.bytes_retired, exhausted_ ? 0 : std::min(device_.limit.budget.left(), beyond),
          stats.bytes_in_use};
}

std::uint64_t OwnPool::trim(std::uint64_t keep_bytes) noexcept {
  give_back_orphans();
  const CUmemoryPool pool = handle();
  if (pool == nullptr) {
    return 0;
  }
  const std::uint64_t before = device_.limit.pools.reserved_by(pool);
  {
    const RelaxedCapture relaxed(driver_);
    driver_.cuMemPoolTrimTo(pool, keep_bytes);
  }
  const std::uint64_t after = device_.limit.pools.reserved_by(pool);
  device_.limit.pools.refresh();
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

// By cubfc's own count of blocks: the driver's (CU_MEMPOOL_ATTR_USED_MEM_CURRENT) does not go down
// when cuMemFree takes one back, on an H200 with driver 580.159.04.
std::uint64_t OwnPool::idle_bytes() noexcept {
  const CUmemoryPool pool = handle();
  const std::uint64_t reserved = pool == nullptr ? 0 : device_.limit.pools.reserved_by(pool);
  return reserved - std::min(reserved, blocks_.stats().bytes_in_use);
}

}  // namespace cubfc
