// The arithmetic of a policy.
#include "config/policy.h"

#include <algorithm>

namespace cubfc::config {

std::optional<HardLimit> Policy::process_limit(std::uint64_t total_bytes, int device) const {
  if (limit_unusable) {
    return HardLimit{0, nullptr};
  }
  std::optional<HardLimit> least;
  const auto add = [&](std::optional<std::uint64_t> bytes, const Origin& origin) {
    if (bytes && (!least || *bytes < least->bytes)) {
      least = HardLimit{*bytes, &origin};
    }
  };
  const auto add_size = [&](const Setting<DeviceAmounts>& size) {
    add(size.value.on(static_cast<unsigned>(device), total_bytes), size.origin);
  };
  const auto add_fraction = [&](const Setting<std::optional<Fraction>>& fraction) {
    if (fraction.value && fraction.value->limit) {
      add(share_of(total_bytes, *fraction.value->limit), fraction.origin);
    }
  };
  add_size(mem_limit);
  if (!least || !least->origin->own_name) {
    add_fraction(mem_fraction);
  }
  add_size(container_limit);
  add_size(enforced.mem_limit);
  add_fraction(enforced.mem_fraction);
  // Managed memory may be more than the device has.
  if (least && !unified_memory.value) {
    least->bytes = std::min(least->bytes, total_bytes);
  }
  return least;
}

std::optional<HardLimit> Policy::hard_limit(std::uint64_t total_bytes, int device) const {
  std::optional<HardLimit> limit = process_limit(total_bytes, device);
  const std::optional<std::uint64_t> of_group =
      group_limit.value.on(static_cast<unsigned>(device), total_bytes);
  if (of_group && (!limit || *of_group < limit->bytes)) {
    limit = HardLimit{unified_memory.value ? *of_group : std::min(*of_group, total_bytes),
                      &group_limit.origin};
  }
  return limit;
}

std::uint64_t Policy::kept_from_others(std::uint64_t total_bytes, int device) const {
  return mem_request.value.on(static_cast<unsigned>(device), total_bytes).value_or(0);
}

bool Policy::is_shown_by_nvml(const HardLimit& limit) const noexcept {
  return limit.is_seen() && nvml.value != Nvml::kNo &&
         (nvml.value == Nvml::kYes || limit.origin->file.empty());
}

bool Policy::gives_to_others() const noexcept {
  if (group.value) {
    return true;
  }
  const bool holds =
      preallocate.value == Preallocate::kYes || preallocate.value == Preallocate::kWhole;
  return !holds && !mem_fraction.is_set() && async_preallocate.value == 0;
}

bool Policy::limits() const noexcept {
  const auto is_limit = [](const Setting<std::optional<Fraction>>& fraction) {
    return fraction.value && fraction.value->limit;
  };
  return limit_unusable || !mem_limit.value.empty() || !container_limit.value.empty() ||
         !enforced.mem_limit.value.empty() || is_limit(mem_fraction) ||
         is_limit(enforced.mem_fraction) || !group_limit.value.empty();
}

const Origin* Policy::firm_limit() const noexcept {
  const auto of_size = [](const Setting<DeviceAmounts>& size) { return !size.value.empty(); };
  const auto of_share = [](const Setting<std::optional<Fraction>>& fraction) {
    return fraction.value && fraction.value->limit;
  };
  return of_size(enforced.mem_limit)                              ? &enforced.mem_limit.origin
         : of_share(enforced.mem_fraction)                        ? &enforced.mem_fraction.origin
         : of_size(group_limit)                                   ? &group_limit.origin
         : of_size(mem_limit) && mem_limit.origin.own_name        ? &mem_limit.origin
         : of_share(mem_fraction) && mem_fraction.origin.own_name ? &mem_fraction.origin
                                                                  : nullptr;
}

std::uint64_t Policy::preallocation(std::uint64_t free_bytes, std::uint64_t total_bytes,
                                    int device) const {
  // With CUBFC_IPC=driver the driver serves requests of 1 MiB and more, and cannot use memory that
  // the arena holds: so nothing is preallocated by default.
  const bool by_default = preallocate.value == Preallocate::kSoft;
  if (preallocate.value == Preallocate::kNo || (by_default && ipc.value == Ipc::kDriver)) {
    return 0;
  }
  const double share = mem_fraction.value ? mem_fraction.value->start : kDefaultFraction;
  const std::uint64_t whole =
      mem_fraction_of.value == FractionOf::kTotal ? total_bytes : free_bytes;
  std::uint64_t bytes = share_of(whole, share);
  if (!unified_memory.value) {
    bytes = std::min(bytes, beyond_reserve(free_bytes));
  }
  if (preallocate_limit.value) {
    bytes = std::min(bytes, *preallocate_limit.value);
  }
  if (const std::optional<HardLimit> limit = hard_limit(total_bytes, device)) {
    bytes = std::min(bytes, limit->bytes);
  }
  return bytes;
}

Policy Policy::beside_xla() const {
  Policy policy = *this;
  const auto is_theirs = [](const auto& setting) {
    return setting.is_set() && !setting.origin.own_name && setting.origin.file.empty();
  };
  if (is_theirs(policy.allocator)) {
    policy.allocator = Policy{}.allocator;
  }
  if (is_theirs(policy.mem_fraction) && policy.mem_fraction.value) {
    policy.mem_fraction.value->limit.reset();
  }
  if (is_theirs(policy.unified_memory)) {
    policy.unified_memory = Policy{}.unified_memory;
  }
  return policy;
}

std::uint64_t Policy::beyond_reserve(std::uint64_t free_bytes) const noexcept {
  return free_bytes - std::min(free_bytes, reserve.value);
}

}  // namespace cubfc::config
