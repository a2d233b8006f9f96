#include "shim/device/device.h"

#include <array>

#include "shim/device/server.h"
#include "shim/driver/captures.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

std::string name_of(const DriverFunctions& driver, CUdevice device) {
  std::array<char, 256> text{};
  driver.cuDeviceGetName(text.data(), static_cast<int>(text.size() - 1), device);
  return text.data();
}

bool has_managed_memory(const DriverFunctions& driver, CUdevice device) {
  int managed = 0;
  return driver.cuMemAllocManaged != nullptr &&
         driver.cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device) ==
             CUDA_SUCCESS &&
         managed != 0;
}

}  // namespace

Device::Device(const DriverFunctions& driver, const config::Policy& policy, CUdevice device_handle,
               std::uint64_t its_bytes)
    : handle(device_handle),
      name(name_of(driver, device_handle)),
      total_bytes(its_bytes),
      budget(policy.hard_limit(total_bytes).value_or(arena::Budget::kUnlimited)),
      managed(policy.unified_memory.value && has_managed_memory(driver, device_handle)),
      pools(driver, device_handle, budget,
            !budget.limited()                                        ? Pools::Counts::kNothing
            : policy.limit_counts.value == config::LimitCounts::kAll ? Pools::Counts::kAll
                                                                     : Pools::Counts::kOurs),
      server(choose_server(driver, policy, *this)),
      limits_all_(policy.limit_counts.value == config::LimitCounts::kAll) {
  if (policy.unified_memory.value && !managed) {
    log::warn("GPU {} ({}) has no managed memory, so CUBFC_UNIFIED_MEMORY is without effect there",
              handle, name);
  }
}

Device::~Device() = default;

bool Device::take(Holding holding, std::uint64_t bytes, CUmemoryPool pool,
                  std::uint64_t& pool_id) noexcept {
  bool taken = true;
  if (is_limited(holding)) {
    if (is_of_pool(holding)) {
      taken = pools.claim(pool, bytes, pool_id);
    } else {
      pools.refresh();
      taken = budget.take(bytes);
    }
  }
  held_for(holding).fetch_add(taken ? bytes : 0, std::memory_order_relaxed);
  return taken;
}

void Device::give(Holding holding, std::uint64_t bytes, std::uint64_t pool_id) noexcept {
  held_for(holding).fetch_sub(bytes, std::memory_order_relaxed);
  if (is_of_pool(holding)) {
    pools.unclaim(pool_id, bytes);
  } else if (is_limited(holding)) {
    budget.give(bytes);
  }
}

arena::Room Context::room() const {
  return device.server->room(*this);
}

bool Context::is_shareable() const {
  return device.server->is_shareable(*this);
}

arena::MemorySource::Region ContextMemory::obtain(std::uint64_t bytes) noexcept {
  if (!device_.pools.refresh()) {
    return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
  }
  const RelaxedCapture relaxed(driver_);
  if (policy_.reserve.value > 0 && !device_.managed) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        bytes > policy_.beyond_reserve(free_bytes)) {
      return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
    }
  }
  CUdeviceptr base = 0;
  const CUresult result = device_.managed
                              ? driver_.cuMemAllocManaged(&base, bytes, CU_MEM_ATTACH_GLOBAL)
                              : driver_.cuMemAlloc_v2(&base, bytes);
  log::debug("region of {}: driver says {}", log::bytes(bytes), name_of(driver_, result));
  if (result != CUDA_SUCCESS) {
    return {0, static_cast<int>(result), result == CUDA_ERROR_OUT_OF_MEMORY};
  }
  called();
  return {base, 0, false};
}

void ContextMemory::release(arena::Address base, std::uint64_t bytes) noexcept {
  const RelaxedCapture relaxed(driver_);
  const CUresult result = driver_.cuMemFree_v2(base);
  called();
  log::debug("region of {} given back: driver says {}", log::bytes(bytes),
             name_of(driver_, result));
}

}  // namespace cubfc
