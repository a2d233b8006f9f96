// cuMemPool* and the pools that serve a device: their life, attributes and access.
#include "pools.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"

namespace standin {

Registry<CUmemoryPool, Pool>& pools() {
  static auto* const instance = new Registry<CUmemoryPool, Pool>;
  return *instance;
}

CUresult FindPool(CUmemoryPool handle, std::shared_ptr<Pool>& out) {
  const auto found = pools().find(handle);
  if (found == pools().end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  return CUDA_SUCCESS;
}

namespace {

// What cuMemAllocAsync and its like take memory of a kind from, until the program says otherwise.
struct Current {
  CUmemoryPool by_default = nullptr;
  CUmemoryPool now = nullptr;
};

// By where the memory is and what it is. Guarded by state().mutex.
Current& CurrentOf(const PoolPlace& place) {
  static auto* const instance = new std::map<PoolPlace, Current>;
  Current& current = (*instance)[place];
  if (!current.by_default) {
    current.by_default =
        AddTo(pools(), std::make_shared<Pool>(Pool{.location_type = place.location_type,
                                                   .device = place.device,
                                                   .type = place.type,
                                                   .is_default = true}));
  }
  if (!current.now || !pools().contains(current.now)) current.now = current.by_default;
  return current;
}

PoolPlace OfDevice(int ordinal) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, ordinal, CU_MEM_ALLOCATION_TYPE_PINNED};
}

bool IsOfHost(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

#if CUDA_VERSION >= 13000
constexpr CUmemAllocationType kManaged = CU_MEM_ALLOCATION_TYPE_MANAGED;
constexpr CUmemLocationType kNoPlace = CU_MEM_LOCATION_TYPE_NONE;
#else
constexpr auto kManaged = static_cast<CUmemAllocationType>(2);
constexpr auto kNoPlace = CU_MEM_LOCATION_TYPE_INVALID;
#endif

DeviceMemory& MemoryOf(const Pool& pool) {
  return state().devices[static_cast<std::size_t>(pool.device)]->memory;
}

cuuint64_t ReservedOf(CUmemoryPool handle, const Pool& pool) {
  return UsedOf(handle) + pool.kept;
}

cuuint64_t ReportedUseOf(CUmemoryPool handle, const Pool& pool) {
  return UsedOf(handle) + pool.forgotten;
}

CUresult GetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* out) {
  const Lock lock(state().mutex);
  if (const CUresult error = CheckAllowedDuringCapture("cuMemPoolGetAttribute")) return error;
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
      number = ReservedOf(handle, *pool);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      number = ReportedUseOf(handle, *pool);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      number = pool->most_reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      number = pool->most_used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, const void* value) {
  const Lock lock(state().mutex);
  if (const CUresult error = CheckAllowedDuringCapture("cuMemPoolSetAttribute")) return error;
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->switches[attribute] = *static_cast<const int*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->release_threshold = *static_cast<const cuuint64_t*>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:  // cuda.h: can only be reset to zero
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
      if (*static_cast<const cuuint64_t*>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      const bool reserved = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
      (reserved ? pool->most_reserved : pool->most_used) =
          reserved ? ReservedOf(handle, *pool) : ReportedUseOf(handle, *pool);
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUmemAccess_flags AccessOf(const Pool& pool, int device) {
  if (device == pool.device) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto found = pool.access.find(device);
  return found == pool.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}

// For what is there already and for what is allocated later. A pool's own device keeps its access;
// a device that the hardware does not let reach the memory gets none.
CUresult SetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, std::size_t count) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!access && count > 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [type, id] = access[i].location;
    Device* device = nullptr;
    if (IsOfHost(type) && IsOfHost(pool->location_type)) continue;
    if (type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = FindDevice(id, device)) return error;
    const bool possible = id == pool->device ? access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                             : !pool->is_of_device() || ArePeers(pool->device, id);
    if (!possible) return CUDA_ERROR_INVALID_DEVICE;
    if (id != pool->device && pool->is_of_device()) {
      if (const CUresult error = Behaviour("cuMemPoolSetAccess.peer")) return error;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!IsOfHost(access[i].location.type)) pool->access[access[i].location.id] = access[i].flags;
  }
  return CUDA_SUCCESS;
}

CUresult Create(CUmemoryPool* out, const CUmemPoolProps* properties) {
  const Lock lock(state().mutex);
  if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
  PoolPlace place;
  if (const CUresult error = PlaceOf(properties->location, properties->allocType, place)) {
    return error;
  }
  // cuda.h, cuMemPoolCreate: a pool of the host cannot be shared with other processes.
  const bool shareable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  if (place.location_type == CU_MEM_LOCATION_TYPE_HOST && shareable)
    return CUDA_ERROR_INVALID_VALUE;
  auto pool = std::make_shared<Pool>(
      Pool{.location_type = place.location_type, .device = place.device, .type = place.type});
  pool->handle_types = static_cast<int>(properties->handleTypes);
#if CUDA_VERSION >= 12080
  pool->decompressible = (properties->usage & CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS) != 0;
#endif
#if CUDA_VERSION >= 12020
  if (properties->maxSize > 0) pool->most = properties->maxSize;
#endif
  *out = AddTo(pools(), std::move(pool));
  return CUDA_SUCCESS;
}

CUresult DevicePool(CUmemoryPool* out, CUdevice ordinal, CUmemoryPool Current::*which) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = CurrentOf(OfDevice(ordinal)).*which;
  return CUDA_SUCCESS;
}

// The pool must be one of the place, and of this process.
CUresult SetCurrent(const PoolPlace& place, CUmemoryPool handle) {
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  const bool of_place = place == PoolPlace{pool->location_type, pool->device, pool->type};
  if (!of_place || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  CurrentOf(place).now = handle;
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult PoolOf(CUmemoryPool* out, const CUmemLocation* location, CUmemAllocationType type,
                CUmemoryPool Current::*which) {
  const Lock lock(state().mutex);
  if (!out || !location) return CUDA_ERROR_INVALID_VALUE;
  PoolPlace place;
  if (PlaceOf(*location, type, place) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  *out = CurrentOf(place).*which;
  return CUDA_SUCCESS;
}
#endif

}  // namespace

CUresult PlaceOf(const CUmemLocation& location, CUmemAllocationType type, PoolPlace& out) {
  const bool managed = type == kManaged;
  if (!managed && type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  out = {location.type, -1, type};
  if (IsOfHost(location.type)) return CUDA_SUCCESS;
  if (managed && location.type == kNoPlace) return CUDA_SUCCESS;
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  out.device = location.id;
  Device* device = nullptr;
  return FindDevice(location.id, device);
}

CUmemoryPool CurrentPoolOf(int ordinal) {
  return CurrentOf(OfDevice(ordinal)).now;
}

cuuint64_t UsedOf(CUmemoryPool handle) {
  cuuint64_t used = 0;
  for (const auto& [base, allocation] : state().allocations) {
    if (allocation.pool == handle) used += allocation.bytes;
  }
  return used;
}

void Discard(Pool& pool, std::size_t bytes) {
  if (bytes == 0) return;
  MemoryOf(pool).Discount(bytes);
  pool.kept -= bytes;
}

void Keep(Pool& pool, std::size_t bytes) {
  if (bytes > 0 && MemoryOf(pool).Count(bytes)) pool.kept += bytes;
}

void NoteUse(CUmemoryPool handle) {
  std::shared_ptr<Pool> pool;
  if (FindPool(handle, pool) != CUDA_SUCCESS) return;
  pool->most_used = std::max(pool->most_used, ReportedUseOf(handle, *pool));
  pool->most_reserved = std::max(pool->most_reserved, ReservedOf(handle, *pool));
}

void NotePlainFree(const Allocation& allocation) {
  std::shared_ptr<Pool> pool;
  if (FindPool(allocation.pool, pool) == CUDA_SUCCESS &&
      !BehaviourFlag("cuMemFree.lowers_the_use_of_a_pool")) {
    pool->forgotten += allocation.bytes;
  }
}

void KeepFreed(const Allocation& allocation) {
  std::shared_ptr<Pool> pool;
  if (FindPool(allocation.pool, pool) != CUDA_SUCCESS) return;  // it was destroyed
  const cuuint64_t reserved = ReservedOf(allocation.pool, *pool);
  if (reserved < pool->release_threshold) {
    Keep(*pool, std::min<std::size_t>(allocation.bytes, pool->release_threshold - reserved));
  }
}

bool IsReachable(CUmemoryPool handle, int device) {
  std::shared_ptr<Pool> pool;
  return FindPool(handle, pool) != CUDA_SUCCESS ||
         AccessOf(*pool, device) != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

bool IsShared(CUmemoryPool handle) {
  std::shared_ptr<Pool> pool;
  if (FindPool(handle, pool) != CUDA_SUCCESS) return false;
  return std::any_of(pool->access.begin(), pool->access.end(),
                     [&](const auto& each) { return each.first != pool->device; });
}

// What it gave stays until it is freed, and no other pool has its handle meanwhile.
void EndPool(CUmemoryPool handle, std::shared_ptr<Pool> pool) {
  Discard(*pool, pool->kept);
  pools().erase(handle);
  static auto& ended = *new std::map<CUmemoryPool, std::shared_ptr<Pool>>;
  std::erase_if(ended, [](const auto& entry) { return UsedOf(entry.first) == 0; });
  ended.emplace(handle, std::move(pool));
}

void EndPoolsOf(int device) {
  std::vector<std::pair<CUmemoryPool, std::shared_ptr<Pool>>> ending;
  for (const auto& [handle, pool] : pools()) {
    if (pool->is_of_device() && pool->device == device && !pool->is_default) {
      ending.emplace_back(handle, pool);
    }
  }
  for (auto& [handle, pool] : ending) EndPool(handle, std::move(pool));
}

}  // namespace standin

using namespace standin;

ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool * out, CUdevice device), (out, device)) {
  return DevicePool(out, device, &Current::by_default);
}

ENTRY(cuDeviceGetMemPool, (CUmemoryPool * out, CUdevice device), (out, device)) {
  return DevicePool(out, device, &Current::now);
}

ENTRY(cuDeviceSetMemPool, (CUdevice ordinal, CUmemoryPool handle), (ordinal, handle)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  return SetCurrent(OfDevice(ordinal), handle);
}

#if CUDA_VERSION >= 13000
ENTRY(cuMemGetDefaultMemPool,
      (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type),
      (out, location, type)) {
  return PoolOf(out, location, type, &Current::by_default);
}

ENTRY(cuMemGetMemPool, (CUmemoryPool * out, CUmemLocation* location, CUmemAllocationType type),
      (out, location, type)) {
  return PoolOf(out, location, type, &Current::now);
}

ENTRY(cuMemSetMemPool, (CUmemLocation * location, CUmemAllocationType type, CUmemoryPool pool),
      (location, type, pool)) {
  const Lock lock(state().mutex);
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  PoolPlace place;
  if (PlaceOf(*location, type, place) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  return SetCurrent(place, pool);
}
#endif

ENTRY(cuMemPoolCreate, (CUmemoryPool * out, const CUmemPoolProps* properties), (out, properties)) {
  return Create(out, properties);
}

ENTRY(cuMemPoolDestroy, (CUmemoryPool handle), (handle)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  EndPool(handle, std::move(pool));
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
  return SetAccess(handle, access, count);
}

ENTRY(cuMemPoolGetAccess, (CUmemAccess_flags * out, CUmemoryPool handle, CUmemLocation* location),
      (out, handle, location)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!out || !location) return CUDA_ERROR_INVALID_VALUE;
  const bool host = IsOfHost(location->type);
  *out = host ? (IsOfHost(pool->location_type) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                               : CU_MEM_ACCESS_FLAGS_PROT_NONE)
              : AccessOf(*pool, location->id);
  return CUDA_SUCCESS;
}
