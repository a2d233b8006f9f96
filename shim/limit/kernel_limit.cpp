#include "shim/limit/kernel_limit.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "shim/limit/cgroup_memory.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

struct KernelLimit {
  CgroupMemory memory;
  config::Origin origin;

  std::optional<config::HardLimit> limit() const {
    return memory.max ? std::optional(config::HardLimit{*memory.max, &origin}) : std::nullopt;
  }
};

std::string pci_address_of(const DriverFunctions& driver, CUdevice device) {
  int domain = 0;
  int bus = 0;
  int slot = 0;
  const bool is_known =
      driver.cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device) ==
          CUDA_SUCCESS &&
      driver.cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) == CUDA_SUCCESS &&
      driver.cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) == CUDA_SUCCESS;
  return is_known ? format("{:04x}:{:02x}:{:02x}.", domain, bus, slot) : "";
}

KernelLimit look_at(const DriverFunctions& driver, CUdevice device) {
  const std::string address = pci_address_of(driver, device);
  KernelLimit found{address.empty() ? CgroupMemory{} : own_cgroup_memory(address), {}};
  if (found.memory.max) {
    found.origin.variable = "dmem.max";
    found.origin.value = std::to_string(*found.memory.max);
    found.origin.file = found.memory.max_file.substr(0, found.memory.max_file.rfind('/'));
  }
  return found;
}

// Read once for each device: the process keeps the limit that it finds first, even if the cgroup's
// is changed.
const KernelLimit& kernel_limit(const DriverFunctions& driver, CUdevice device) {
  static std::mutex mutex;
  static auto& known = *new std::map<CUdevice, KernelLimit>;  // never destroyed: used until the end
  const std::lock_guard lock(mutex);
  const auto before = known.find(device);
  return before != known.end() ? before->second
                               : known.emplace(device, look_at(driver, device)).first->second;
}

std::optional<config::HardLimit> lesser(const std::optional<config::HardLimit>& a,
                                        const std::optional<config::HardLimit>& b) {
  return !b || (a && a->bytes <= b->bytes) ? a : b;
}

}  // namespace

std::optional<config::HardLimit> process_limit_on(const DriverFunctions& driver,
                                                  const config::Policy& policy, CUdevice device,
                                                  std::uint64_t total_bytes) {
  const auto limit = policy.process_limit(total_bytes, device);
  return policy.limits() ? lesser(limit, kernel_limit(driver, device).limit()) : limit;
}

std::optional<config::HardLimit> hard_limit_on(const DriverFunctions& driver,
                                               const config::Policy& policy, CUdevice device,
                                               std::uint64_t total_bytes) {
  const auto limit = policy.hard_limit(total_bytes, device);
  return policy.limits() ? lesser(limit, kernel_limit(driver, device).limit()) : limit;
}

}  // namespace cubfc
