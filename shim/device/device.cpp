#include "shim/device/device.h"

#include <algorithm>
#include <array>

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

Device::Device(const DriverFunctions& driver, const config::Policy& policy,
               ChooseServer choose_server, CUdevice device_handle, std::uint64_t its_bytes)
    : handle(device_handle),
      name(name_of(driver, device_handle)),
      total_bytes(its_bytes),
      limit(driver, policy, device_handle, its_bytes),
      preallocation(driver, device_handle, limit.budget, its_bytes),
      managed(policy.unified_memory.value && has_managed_memory(driver, device_handle)),
      server(choose_server(driver, policy, *this)) {
  if (policy.unified_memory.value && !managed) {
    log::warn("GPU {} ({}) has no managed memory, so CUBFC_UNIFIED_MEMORY is without effect there",
              handle, name);
  }
}

arena::Options Device::begin_arena(const config::Policy& policy, std::uint64_t wanted) {
  arena::Options options;
  options.whole = managed || policy.preallocate.value == config::Preallocate::kWhole;
  if (!managed) {
    const std::uint64_t all = std::min(total_bytes, limit.budget.limit());
    const arena::Options rule = arena::Options::in_slices_of(all);
    options.slice_bytes = rule.slice_bytes;
    options.own_above_bytes = options.whole ? options.own_above_bytes : rule.own_above_bytes;
    options.largest_bytes = total_bytes;
  }
  if (!options.whole && preallocation.possible() &&
      server->allocator() == config::Allocator::kBfc) {
    preallocation.plan(wanted);
  } else {
    options.preallocate_bytes = wanted;
  }
  return options;
}

bool Context::is_broken(const DriverFunctions& driver) {
  if (!broken.load(std::memory_order_acquire)) {
    return false;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const RelaxedCapture relaxed(driver);
  const bool is_still = stays(driver.cuMemGetInfo_v2(&free_bytes, &total_bytes));
  broken.store(is_still, std::memory_order_release);
  return is_still;
}

}  // namespace cubfc
