#include "shim/share/limited_memory.h"

#include <algorithm>
#include <string_view>

#include "arena/units.h"
#include "shim/limit/device_limit.h"
#include "shim/meet/group_control.h"
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

// Whether the process with these figures has its limit on the GPU from the same setting as this
// process. A fraction is taken of CUDA's size of the GPU, which is in these figures; NVML's may
// differ. The variable's name in the figures may be cut.
bool has_this_limit(const config::Policy& policy, const figures::DeviceFigures& device) {
  const auto limit = policy.hard_limit(device.total_bytes, device.number);
  if (!limit || limit->origin == nullptr) {
    return false;
  }
  const auto is = [&](const auto& text, std::string_view all) {
    return text.get() == all.substr(0, sizeof(text.characters) - 1);
  };
  // The group's name is enough: its limit may have changed, and is read from the group's file.
  if (limit->origin == &policy.group_limit.origin) {
    return is(device.group, *policy.group.value);
  }
  return figures::read(device.limit_bytes) == limit->bytes &&
         is(device.limit_origin, limit->origin->variable);
}

// What the processes that have this limit know of the GPU, and what they have taken of it together.
struct Known {
  std::optional<int> number;      // the GPU's number in one of these processes, as CUDA counts
  std::uint64_t total_bytes = 0;  // as CUDA says; 0: none of them has used the GPU
  std::uint64_t taken_bytes = 0;
};
Known known_of(const config::Policy& policy, const DeviceId& id,
               const figures::ProcessFigures* own) {
  Known known;
  const figures::DeviceFigures* const own_device = own_figures(id, own);
  const auto add = [&](const figures::DeviceFigures& device) {
    if (!known.number) {  // this process's own first, if there are any
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
    known.number = 0;  // the limit is the same for any number
  }
  return known;
}

// The limit by which this process claims in its group, or would claim if it joined now.
std::optional<std::uint64_t> group_limit_now(const config::Policy& policy, const Known& known,
                                             const figures::DeviceFigures* own,
                                             const std::optional<GroupControl::Seen>& seen) {
  if (own != nullptr && !own->group.get().empty()) {
    return figures::read(own->group_limit_bytes);
  }
  const auto limit =
      policy.group_limit.value.on(static_cast<unsigned>(*known.number), known.total_bytes);
  return limit && seen ? std::min(*limit, seen->changed_limit.value_or(*limit)) : limit;
}

}  // namespace

std::optional<LimitedMemory> limited_memory(const config::Policy& policy, const DeviceId& id,
                                            std::uint64_t total_bytes,
                                            const figures::ProcessFigures* own) {
  if (!policy.limits()) {
    return std::nullopt;
  }
  Known known = known_of(policy, id, own);
  if (known.total_bytes == 0) {
    known.total_bytes = total_bytes;
  }
  if (!known.number) {
    return std::nullopt;
  }
  const auto seen = policy.group.value
                        ? GroupControl::see(*policy.group.value, id, where_group_meets(policy))
                        : std::nullopt;
  std::optional<config::HardLimit> limit = policy.process_limit(known.total_bytes, *known.number);
  const auto of_group = group_limit_now(policy, known, own_figures(id, own), seen);
  const bool is_of_group = of_group && (!limit || *of_group < limit->bytes);
  if (is_of_group) {
    limit = config::HardLimit{*of_group, &policy.group_limit.origin};
  }
  if (!limit || !policy.is_shown_by_nvml(*limit)) {
    return std::nullopt;
  }
  const std::uint64_t used =
      !is_of_group ? known.taken_bytes : (seen ? seen->used : std::uint64_t{0});
  const std::uint64_t total = std::min(known.total_bytes, limit->bytes);
  return LimitedMemory{total, std::min(used, total)};
}

}  // namespace cubfc
