#include "shim/share/limited_memory.h"

#include <algorithm>
#include <cstring>

#include "arena/units.h"
#include "shim/meet/group.h"
#include "shim/share/neighbours.h"

namespace cubfc {
namespace {

const figures::DeviceFigures* own_figures(const DeviceId& id, const figures::ProcessFigures* own) {
  if (own == nullptr) {
    return nullptr;
  }
  const auto* const found = std::find_if(
      own->devices.begin(), own->devices.end(), [&](const figures::DeviceFigures& device) {
        return device.ready.load() == 1 &&
               std::memcmp(device.uuid.data(), id.data(), id.size()) == 0;
      });
  return found == own->devices.end() ? nullptr : found;
}

bool is_same_for_all(const config::Policy& policy) {
  return policy.mem_limit.value.listed.empty() && policy.group_limit.value.listed.empty() &&
         policy.enforced.mem_limit.value.listed.empty();
}

// Among the figures the name of a setting may be cut.
bool is_of(const figures::DeviceFigures& device, const config::Origin& origin) {
  constexpr std::size_t kMost = sizeof(device.limit_origin.characters) - 1;
  return !origin.variable.empty() &&
         device.limit_origin.get() == std::string_view(origin.variable).substr(0, kMost);
}

// The GPU's number, as CUDA counts in this process, or in one that has its limit from the same
// setting; nothing where nobody has used the GPU yet. Any number where it does not matter.
std::optional<int> number_of(const config::Policy& policy, const DeviceId& id,
                             const figures::ProcessFigures* own,
                             const figures::DeviceFigures* own_device) {
  if (own_device != nullptr) {
    return own_device->number;
  }
  std::optional<int> number;
  if (is_same_for_all(policy)) {
    number = 0;
  } else {
    for_each_neighbour(id, own, [&](const auto& /*process*/, const auto& device) {
      if (is_of(device, policy.mem_limit.origin) || is_of(device, policy.container_limit.origin) ||
          is_of(device, policy.group_limit.origin) ||
          is_of(device, policy.enforced.mem_limit.origin)) {
        number = device.number;
      }
    });
  }
  return number;
}

std::uint64_t used_of(const config::HardLimit& limit, const DeviceId& id,
                      const figures::ProcessFigures* own,
                      const figures::DeviceFigures* own_device) {
  std::uint64_t used = own_device == nullptr ? 0 : figures::read(own_device->bytes_taken);
  for_each_neighbour(id, own, [&](const auto& /*process*/, const figures::DeviceFigures& device) {
    if (device.limit_bytes == limit.bytes && is_of(device, *limit.origin)) {
      used = arena::plus(used, figures::read(device.bytes_taken));
    }
  });
  return used;
}

}  // namespace

std::optional<LimitedMemory> limited_memory(const config::Policy& policy, const DeviceId& id,
                                            std::uint64_t total_bytes,
                                            const figures::ProcessFigures* own) {
  const figures::DeviceFigures* const own_device = own_figures(id, own);
  const std::optional<int> number =
      policy.limits() ? number_of(policy, id, own, own_device) : std::nullopt;
  const auto limit = number ? policy.hard_limit(total_bytes, *number) : std::nullopt;
  if (!limit || !policy.is_shown_by_nvml(*limit)) {
    return std::nullopt;
  }
  const bool is_of_group = limit->origin == &policy.group_limit.origin && policy.group.value;
  const std::uint64_t used =
      is_of_group ? Group::used_by(*policy.group.value, id,
                                   policy.group.origin.enforced ? Where::kFixed : Where::kAsSet)
                        .value_or(0)
                  : used_of(*limit, id, own, own_device);
  const std::uint64_t total = std::min(total_bytes, limit->bytes);
  return LimitedMemory{total, std::min(used, total)};
}

}  // namespace cubfc
