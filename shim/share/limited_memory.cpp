#include "shim/share/limited_memory.h"

#include <algorithm>
#include <string_view>

#include "arena/units.h"
#include "shim/meet/group.h"
#include "shim/share/neighbours.h"

namespace cubfc {
namespace {

const figures::DeviceFigures* own_figures(const DeviceId& id, const figures::ProcessFigures* own) {
  if (own == nullptr) {
    return nullptr;
  }
  const auto* const found =
      std::find_if(own->devices.begin(), own->devices.end(),
                   [&](const figures::DeviceFigures& device) { return are_of(device, id); });
  return found == own->devices.end() ? nullptr : found;
}

bool is_same_for_all(const config::Policy& policy) {
  return policy.mem_limit.value.listed.empty() && policy.group_limit.value.listed.empty() &&
         policy.enforced.mem_limit.value.listed.empty();
}

// Whether a process that has these figures of a GPU has its limit from the same setting. NVML's
// size of a GPU is not always CUDA's, of which a share is taken, so theirs counts. The name may be
// cut.
bool has_this_limit(const config::Policy& policy, const figures::DeviceFigures& device) {
  constexpr std::size_t kMost = sizeof(device.limit_origin.characters) - 1;
  const auto limit = policy.hard_limit(device.total_bytes, device.number);
  return limit && limit->origin != nullptr && device.limit_bytes == limit->bytes &&
         device.limit_origin.get() == std::string_view(limit->origin->variable).substr(0, kMost);
}

// The GPU as those who have this limit know it, and what they have taken of it.
struct Known {
  std::optional<int> number;      // as CUDA counts
  std::uint64_t total_bytes = 0;  // as CUDA says; 0: nobody has used it
  std::uint64_t taken_bytes = 0;
};
Known known_of(const config::Policy& policy, const DeviceId& id,
               const figures::ProcessFigures* own) {
  Known known;
  const figures::DeviceFigures* const own_device = own_figures(id, own);
  const auto add = [&](const figures::DeviceFigures& device) {
    if (!known.number) {  // this process's own first
      known.number = device.number;
      known.total_bytes = device.total_bytes;
    }
    known.taken_bytes = arena::plus(known.taken_bytes, figures::read(device.bytes_taken));
  };
  if (own_device != nullptr) {
    add(*own_device);
  }
  for_each_neighbour(id, own, [&](const auto& /*process*/, const auto& device) {
    if (has_this_limit(policy, device)) {
      add(device);
    }
  });
  if (!known.number && is_same_for_all(policy)) {
    known.number = 0;  // any
  }
  return known;
}

}  // namespace

std::optional<LimitedMemory> limited_memory(const config::Policy& policy, const DeviceId& id,
                                            std::uint64_t total_bytes,
                                            const figures::ProcessFigures* own) {
  if (!policy.limits()) {
    return std::nullopt;
  }
  const Known known = known_of(policy, id, own);
  if (known.total_bytes != 0) {
    total_bytes = known.total_bytes;
  }
  const auto limit = known.number ? policy.hard_limit(total_bytes, *known.number) : std::nullopt;
  if (!limit || !policy.is_shown_by_nvml(*limit)) {
    return std::nullopt;
  }
  const bool is_of_group = limit->origin == &policy.group_limit.origin && policy.group.value;
  const std::uint64_t used =
      is_of_group ? Group::used_by(*policy.group.value, id,
                                   policy.group.origin.enforced ? Where::kFixed : Where::kAsSet)
                        .value_or(0)
                  : known.taken_bytes;
  const std::uint64_t total = std::min(total_bytes, limit->bytes);
  return LimitedMemory{total, std::min(used, total)};
}

}  // namespace cubfc
