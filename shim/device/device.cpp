#include "shim/device/device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "config/arena_options.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

std::string name_of(const DriverFunctions& driver, CUdevice device) {
  std::array<char, 256> text{};
  driver.cuDeviceGetName(text.data(), static_cast<int>(text.size() - 1), device);
  return text.data();
}

bool has(const DriverFunctions& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

// The bytes of the host's memory that programs can get without swapping; nothing if the kernel does
// not tell.
std::optional<std::uint64_t> available_on_host() noexcept {
  std::optional<std::uint64_t> bytes;
  if (std::FILE* const file = std::fopen("/proc/meminfo", "re"); file != nullptr) {
    std::array<char, 128> line{};
    unsigned long long kibibytes = 0;
    while (!bytes && std::fgets(line.data(), line.size(), file) != nullptr) {
      if (std::sscanf(line.data(), "MemAvailable: %llu kB", &kibibytes) == 1) {
        bytes = std::uint64_t{kibibytes} * 1024;
      }
    }
    std::fclose(file);
  }
  return bytes;
}

bool has_managed_memory(const DriverFunctions& driver, CUdevice device) {
  return driver.cuMemAllocManaged != nullptr &&
         has(driver, device, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
}

}  // namespace

DeviceId device_id_of(const DriverFunctions& driver, CUdevice device) {
  DeviceId id{};
  CUuuid uuid{};
  static_assert(sizeof(uuid.bytes) == sizeof(id));
  if (driver.cuDeviceGetUuid_v2 != nullptr &&
      driver.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS) {
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), id.begin());
  }
  return id;
}

Device::Device(const DriverFunctions& driver, const config::Policy& its_policy,
               ChooseServer choose_server, CUdevice device_handle, std::uint64_t its_bytes,
               Observers observers)
    : policy(its_policy),
      handle(device_handle),
      name(name_of(driver, device_handle)),
      id(device_id_of(driver, device_handle)),
      total_bytes(its_bytes),
      use(observers.figures, observers.trace),
      limit(driver, policy, {device_handle, id, its_bytes}, use, observers.callers),
      preallocation(driver, device_handle, limit.budget, its_bytes, use),
      has_pools(has(driver, device_handle, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)),
      integrated(has(driver, device_handle, CU_DEVICE_ATTRIBUTE_INTEGRATED)),
      managed(policy.unified_memory.value && has_managed_memory(driver, device_handle)),
      server(choose_server(driver, policy, *this)) {
  if (policy.unified_memory.value && !managed) {
    log::warn("GPU {} ({}) has no managed memory, so CUBFC_UNIFIED_MEMORY has no effect there",
              handle, name);
  }
  write_figures();
}

// Writes the figures that do not change, and the limits as they are now.
void Device::write_figures() {
  figures::DeviceFigures& figures = use.figures();
  figures.number = handle;
  std::copy(id.begin(), id.end(), figures.uuid.begin());
  figures.name.set(name);
  figures.total_bytes = total_bytes;
  figures::put(figures.limit_bytes, limit.budget.limit());
  const auto set_origin = [](auto& text, const config::Origin* origin) {
    text.set(origin == nullptr ? "" : origin->variable);
  };
  set_origin(figures.limit_origin, limit.origin());
  if (const Group* const group = limit.group(); group != nullptr) {
    figures.group.set(group->name());
    set_origin(figures.group_limit_origin, &policy.group_limit.origin);
    figures::put(figures.group_limit_bytes, group->limit());
  }
  figures.allocator.set(config::name_of(server->allocator()));
  figures.free_mode.set(config::name_of(policy.free_mode.value));
}

void Device::look_at_group_limit() {
  const Group* const group = limit.group();
  figures::DeviceFigures& figures = use.figures();
  if (group == nullptr || group->limit() == figures::read(figures.group_limit_bytes)) {
    return;
  }
  const std::uint64_t before = figures::read(figures.group_limit_bytes);
  figures::put(figures.group_limit_bytes, group->limit());
  figures::put(figures.limit_bytes, limit.budget.limit());
  log::info("GPU {}: the limit of group {} is {} from now on; it was {}", handle, group->name(),
            log::bytes(group->limit()), log::bytes(before));
}

bool Device::reserves_allow(const DriverFunctions& driver, std::uint64_t bytes,
                            std::uint64_t of_ours) const noexcept {
  std::size_t free_bytes = 0;
  std::size_t total_bytes_now = 0;
  if (policy.reserve.value > 0 && !managed &&
      driver.cuMemGetInfo_v2(&free_bytes, &total_bytes_now) == CUDA_SUCCESS &&
      bytes > policy.beyond_reserve(free_bytes) + of_ours) {
    return false;
  }
  return host_reserve_allows(bytes - std::min(bytes, of_ours));
}

std::uint64_t Device::beyond_request() const noexcept {
  const std::uint64_t request = policy.kept_from_others(total_bytes, handle);
  if (request == 0) {
    return arena::kLargestRequestBytes;
  }
  std::uint64_t held = limit.budget.used() + preallocation.bytes();
  if (!limit.pools.counts()) {
    held += limit.held(Memory::kOwnPool) + server->idle_pool_bytes();
  }
  return held - std::min(held, request);
}

std::uint64_t Device::beyond_host_reserve(std::uint64_t bytes) const noexcept {
  if (!integrated || policy.host_reserve.value == 0) {
    return bytes;
  }
  const std::uint64_t available = available_on_host().value_or(std::uint64_t(-1));
  return std::min(bytes, available - std::min(available, policy.host_reserve.value));
}

arena::Options Device::begin_arena(std::uint64_t wanted) {
  arena::Options options = config::arena_options(policy,
                                                 {.total_bytes = total_bytes,
                                                  .limit_bytes = limit.budget.limit(),
                                                  .is_integrated = integrated,
                                                  .is_managed = managed},
                                                 wanted);
  if (!options.whole && preallocation.possible() && server->by == Server::By::kArena) {
    preallocation.plan(std::exchange(options.preallocate_bytes, 0),
                       policy.preallocates_by_default() ? Preallocation::IfLess::kLeaveQuarter
                                                        : Preallocation::IfLess::kTakeAll);
  }
  return options;
}

}  // namespace cubfc
