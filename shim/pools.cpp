#include "shim/pools.h"

#include <algorithm>

#include "shim/captures.h"

namespace cubfc {

void Pools::add(CUmemoryPool pool) {
  const std::lock_guard lock(mutex_);
  pools_.push_back(pool);
}

bool Pools::remove(CUmemoryPool pool) noexcept {
  const std::lock_guard lock(mutex_);
  return std::erase(pools_, pool) > 0;
}

bool Pools::has(CUmemoryPool pool) noexcept {
  if (pool == default_pool()) {
    return true;
  }
  const std::lock_guard lock(mutex_);
  return std::find(pools_.begin(), pools_.end(), pool) != pools_.end();
}

// nullptr when the device has no pools.
CUmemoryPool Pools::default_pool() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (default_pool_ != nullptr) {
      return default_pool_;
    }
  }
  CUmemoryPool found = nullptr;
  if (driver_.cuDeviceGetDefaultMemPool == nullptr ||
      driver_.cuDeviceGetDefaultMemPool(&found, device_) != CUDA_SUCCESS) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  return default_pool_ = found;
}

// Of a pool that another thread destroys meanwhile the driver says that it is none.
template <typename Do>
void Pools::for_each(Do what) noexcept {
  if (const CUmemoryPool pool = default_pool(); pool != nullptr) {
    what(pool);
  }
  for (std::size_t i = 0;; ++i) {
    CUmemoryPool pool = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (i >= pools_.size()) {
        return;
      }
      pool = pools_[i];
    }
    what(pool);
  }
}

// 0 when the driver cannot tell.
std::uint64_t Pools::ask(CUmemoryPool pool, CUmemPool_attribute attribute) noexcept {
  cuuint64_t bytes = 0;
  const bool known = driver_.cuMemPoolGetAttribute != nullptr &&
                     driver_.cuMemPoolGetAttribute(pool, attribute, &bytes) == CUDA_SUCCESS;
  return known ? bytes : 0;
}

std::uint64_t Pools::reserved_by(CUmemoryPool pool) noexcept {
  const RelaxedCapture relaxed(driver_);
  return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

std::uint64_t Pools::idle_in(CUmemoryPool pool) noexcept {
  const RelaxedCapture relaxed(driver_);
  const std::uint64_t reserved = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  return reserved - std::min(reserved, ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
}

std::uint64_t Pools::reserved() noexcept {
  const RelaxedCapture relaxed(driver_);
  std::uint64_t bytes = 0;
  for_each([&](CUmemoryPool pool) { bytes += ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT); });
  cuuint64_t of_graphs = 0;
  if (driver_.cuDeviceGetGraphMemAttribute != nullptr &&
      driver_.cuDeviceGetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                           &of_graphs) == CUDA_SUCCESS) {
    bytes += of_graphs;
  }
  return bytes;
}

bool Pools::trim() noexcept {
  const std::uint64_t before = reserved();
  const RelaxedCapture relaxed(driver_);
  if (driver_.cuMemPoolTrimTo != nullptr) {
    for_each([&](CUmemoryPool pool) { driver_.cuMemPoolTrimTo(pool, 0); });
  }
  if (driver_.cuDeviceGraphMemTrim != nullptr) {
    driver_.cuDeviceGraphMemTrim(device_);
  }
  return reserved() < before;
}

}  // namespace cubfc
