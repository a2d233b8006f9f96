// cuMemAllocAsync, cuMemFreeAsync and the pools. What is freed is free for all once its stream gets
// there, but for what the pool keeps: bytes that count and have no place, up to the pool's release
// threshold. The driver gives back the rest at the next synchronisation, and here it does so at
// once.
#include <algorithm>
#include <string>

#include "pools.h"

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "work.h"

namespace standin {
namespace {

struct Pool {
  int device;
  bool is_default;
  std::size_t most = SIZE_MAX;  // bytes
  cuuint64_t release_threshold = 0;
  std::size_t kept = 0;  // bytes
  cuuint64_t high = 0;
  std::map<CUmemPool_attribute, int> switches = {};
};

// Guarded by state().mutex.
Registry<CUmemoryPool, Pool>& pools() {
  static auto* const instance = new Registry<CUmemoryPool, Pool>;
  return *instance;
}

CUmemoryPool DefaultPoolOf(int ordinal) {
  Device& device = *state().devices[static_cast<std::size_t>(ordinal)];
  if (!device.default_pool) {
    device.default_pool =
        AddTo(pools(), std::make_shared<Pool>(Pool{.device = ordinal, .is_default = true}));
    device.pool = device.default_pool;
  }
  return device.default_pool;
}

cuuint64_t UsedOf(CUmemoryPool handle) {
  cuuint64_t used = 0;
  for (const auto& [base, allocation] : state().allocations) {
    if (allocation.kind == Kind::kPool && allocation.pool == handle) used += allocation.bytes;
  }
  return used;
}

DeviceMemory& MemoryOf(const Pool& pool) {
  return state().devices[static_cast<std::size_t>(pool.device)]->memory;
}

void Discard(Pool& pool, std::size_t bytes) {
  MemoryOf(pool).Discount(bytes);
  pool.kept -= bytes;
}

void Keep(Pool& pool, std::size_t bytes) {
  if (MemoryOf(pool).Count(bytes)) pool.kept += bytes;
}

// From what the pool keeps, as far as that goes.
Allocation* Take(Pool& pool, CUmemoryPool handle, Context& context, std::size_t bytes) {
  if (bytes > pool.most || UsedOf(handle) > pool.most - bytes) return nullptr;
  const std::size_t reused = std::min(pool.kept, bytes);
  Discard(pool, reused);
  Allocation* const added = Allocate(context, Kind::kPool, bytes);
  if (added) {
    added->pool = handle;
  } else {
    Keep(pool, reused);
  }
  return added;
}

// Takes memory, waiting for frees that are under way rather than failing.
Allocation* TakeFromPool(Lock& lock, Pool& pool, CUmemoryPool handle, Context& context,
                         std::size_t bytes) {
  for (;;) {
    if (Allocation* added = Take(pool, handle, context, bytes)) return added;
    Fences frees;
    for (const auto& [base, allocation] : state().allocations) {
      const bool pending = allocation.freed && allocation.device == context.device;
      if (pending) frees.push_back(allocation.freed);
    }
    if (frees.empty()) return nullptr;
    WaitFor(lock, frees);
  }
}

CUresult AllocateAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream handle) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!out) return Behaviour("cuMemAllocAsync.null_output");
  if (bytes == 0) return Behaviour("cuMemAllocAsync.size_zero");
  if (stream->capture) return AllocateCaptured(*stream, out, bytes);
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  DefaultPoolOf(stream->context->device);
  if (!pool) pool = state().devices[static_cast<std::size_t>(stream->context->device)]->pool;
  const auto found = pools().find(pool);
  if (found == pools().end()) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Pool> from = found->second;
  const Allocation* const added = TakeFromPool(lock, *from, pool, *stream->context, bytes);
  if (!added) return Behaviour("cuMemAllocAsync.above_device");
  from->high = std::max(from->high, UsedOf(pool));
  *out = added->base;
  return CUDA_SUCCESS;
}

CUresult CaseOfBadFree(CUdeviceptr address) {
  if (address == 0) return Behaviour("cuMemFreeAsync.null");
  if (FindAllocation(address)) return Behaviour("cuMemFreeAsync.interior");
  const std::string unknown = CaseOfUnknown(address);
  if (unknown == "freed") return Behaviour("cuMemFreeAsync.double");
  return Behaviour(unknown == "host_pointer" ? "cuMemFreeAsync.host_pointer"
                                             : "cuMemFreeAsync.garbage");
}

CUresult FreeAsync(CUdeviceptr address, CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return CaseOfBadFree(address);
  Allocation& allocation = found->second;
  if (allocation.freeing) return Behaviour("cuMemFreeAsync.double");
  if (stream->capture) return FreeCaptured(*stream, address);
  if (allocation.kind == Kind::kHost || allocation.kind == Kind::kRegistered ||
      allocation.kind == Kind::kReserved || allocation.kind == Kind::kIpc) {
    return Behaviour("cuMemFreeAsync.host_pointer");
  }
  if (allocation.kind == Kind::kDevice) {
    if (const CUresult error = Behaviour("cuMemFreeAsync.plain_pointer")) return error;
  }
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (allocation.kind == Kind::kGraph) return FreeGraphMemoryAsync(address, *stream);
  allocation.freeing = true;
  allocation.freed = Enqueue(*stream, [address] {
    const Lock own(state().mutex);
    Release(address);
  });
  return CUDA_SUCCESS;
}

CUresult FindPool(CUmemoryPool handle, std::shared_ptr<Pool>& out) {
  const auto found = pools().find(handle);
  if (found == pools().end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  return CUDA_SUCCESS;
}

CUresult GetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* out) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  auto& number = *static_cast<cuuint64_t*>(out);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int*>(out) = pool->switches.try_emplace(attribute, 1).first->second;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      number = pool->release_threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      number = UsedOf(handle) + pool->kept;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      number = UsedOf(handle);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      number = pool->high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, const void* value) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->release_threshold = *static_cast<const cuuint64_t*>(value);
  } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ||
             attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
    pool->high = UsedOf(handle);  // cuda.h: the value must be 0, which resets it
  } else {
    pool->switches[attribute] = *static_cast<const int*>(value);
  }
  return CUDA_SUCCESS;
}

CUresult DevicePool(CUmemoryPool* out, CUdevice ordinal, bool default_pool) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const CUmemoryPool fallback = DefaultPoolOf(ordinal);
  *out = default_pool ? fallback : device->pool;
  return CUDA_SUCCESS;
}

}  // namespace

void KeepFreed(const Allocation& allocation) {
  const auto found = pools().find(allocation.pool);
  if (found == pools().end()) return;  // it was destroyed
  Pool& pool = *found->second;
  const std::size_t reserved = UsedOf(allocation.pool) + pool.kept;
  if (reserved < pool.release_threshold) {
    Keep(pool, std::min<std::size_t>(allocation.bytes, pool.release_threshold - reserved));
  }
}

}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream),
             (out, bytes, stream)) {
  return AllocateAsync(out, bytes, nullptr, stream);
}

STREAM_ENTRY(cuMemAllocFromPoolAsync, _ptsz,
             (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
             (out, bytes, pool, stream)) {
  return pool ? AllocateAsync(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_ENTRY(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream), (address, stream)) {
  return FreeAsync(address, stream);
}

ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), (out, device)) {
  return DevicePool(out, device, true);
}

ENTRY(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), (out, device)) {
  return DevicePool(out, device, false);
}

ENTRY(cuDeviceSetMemPool, (CUdevice ordinal, CUmemoryPool handle), (ordinal, handle)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (const CUresult error = FindPool(handle, pool)) return error;
  DefaultPoolOf(ordinal);
  device->pool = handle;
  return CUDA_SUCCESS;
}

ENTRY(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps* properties), (out, properties)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindDevice(properties->location.id, device)) return error;
  std::size_t most = SIZE_MAX;
#if CUDA_VERSION >= 12020
  if (properties->maxSize > 0) most = properties->maxSize;
#endif
  *out = AddTo(pools(), std::make_shared<Pool>(Pool{
                            .device = properties->location.id, .is_default = false, .most = most}));
  return CUDA_SUCCESS;
}

ENTRY(cuMemPoolDestroy, (CUmemoryPool handle), (handle)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  Device& device = *state().devices[static_cast<std::size_t>(pool->device)];
  if (device.pool == handle) device.pool = device.default_pool;
  Discard(*pool, pool->kept);
  pools().erase(handle);
  return CUDA_SUCCESS;
}

ENTRY(cuMemPoolTrimTo, (CUmemoryPool handle, size_t keep), (handle, keep)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  const std::size_t used = UsedOf(handle);
  const std::size_t stays = keep > used ? std::min(keep - used, pool->kept) : 0;
  Discard(*pool, pool->kept - stays);
  return CUDA_SUCCESS;
}

ENTRY(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
      (pool, attribute, value)) {
  return SetAttribute(pool, attribute, value);
}

ENTRY(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value),
      (pool, attribute, value)) {
  return GetAttribute(pool, attribute, value);
}

ENTRY(cuMemPoolSetAccess, (CUmemoryPool handle, const CUmemAccessDesc* access, size_t count),
      (handle, access, count)) {
  (void)access, (void)count;  // every device can reach all memory here
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  return FindPool(handle, pool);
}

ENTRY(cuMemPoolGetAccess, (CUmemAccess_flags * out, CUmemoryPool handle, CUmemLocation* location),
      (out, handle, location)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!out || !location) return CUDA_ERROR_INVALID_VALUE;
  *out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
