#include "shim/limit/device_limit.h"

#include <algorithm>
#include <string>

#include "shim/limit/kernel_limit.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

bool is_for_all(const config::Policy& policy) {
  return policy.limit_counts.value == config::LimitCounts::kAll;
}

}  // namespace

DeviceLimit::DeviceLimit(const DriverFunctions& driver, const config::Policy& policy, const Of& of,
                         DeviceUse& use, Callers& callers)
    : policy_(policy),
      of_process_(process_limit_on(driver, policy, of.device, of.total_bytes)),
      least_(hard_limit_on(driver, policy, of.device, of.total_bytes)),
      is_unusable_(policy.limit_unusable),
      group_(join_group(of)),
      budget(is_unusable_   ? 0
             : !of_process_ ? arena::Budget::kUnlimited
                            : of_process_->bytes,
             group_.get()),
      pools(driver, of.device, budget,
            !budget.limited()    ? Pools::Counts::kNothing
            : is_for_all(policy) ? Pools::Counts::kAll
                                 : Pools::Counts::kOurs),
      at_first(budget.limit()),
      use_(use),
      callers_(callers),
      counts_all_(is_for_all(policy)) {}

std::unique_ptr<Group> DeviceLimit::join_group(const Of& of) {
  const std::optional<std::uint64_t> limit =
      policy_.group_limit.value.on(static_cast<unsigned>(of.device), of.total_bytes);
  if (is_unusable_ || !policy_.group.value || !limit) {
    return nullptr;
  }
  std::string why_not;
  auto group = Group::join(*policy_.group.value, of.id, *limit, why_not,
                           {.where = where_group_meets(policy_),
                            .limit_is_enforced = policy_.group_limit.origin.enforced});
  is_unusable_ = group == nullptr;
  if (is_unusable_) {
    log::at(log::Level::kError,
            "GPU {}: group {} cannot be joined, so no device memory is given: {}", of.device,
            *policy_.group.value, why_not);
  } else if (const auto other = group->member_that_disagrees()) {
    log::warn(
        "GPU {}: group {}: process {} has a limit of {}, and this one {}; each keeps to its own. "
        "Give all members one CUBFC_GROUP_LIMIT",
        of.device, *policy_.group.value, other->first, log::bytes(other->second),
        log::bytes(group->limit()));
  }
  return group;
}

std::optional<DeviceLimit::Tightest> DeviceLimit::tightest() const noexcept {
  std::optional<Tightest> tightest;
  if (of_process_ || is_unusable_) {
    tightest = Tightest{is_unusable_ ? 0 : of_process_->bytes, budget.used(),
                        is_unusable_ ? nullptr : of_process_->origin};
  }
  if (group_ != nullptr) {
    const Tightest of_group{group_->limit(), group_->used(), &policy_.group_limit.origin};
    const auto left = [](const Tightest& limit) {
      return limit.bytes - std::min(limit.bytes, limit.taken);
    };
    if (!tightest || left(of_group) < left(*tightest) || of_group.bytes < tightest->bytes) {
      tightest = of_group;
    }
  }
  return tightest;
}

bool DeviceLimit::take(Memory memory, std::uint64_t bytes, CUmemoryPool pool,
                       std::uint64_t& pool_id) noexcept {
  bool taken = true;
  if (counts(memory)) {
    if (is_of_pool(memory)) {
      taken = pools.claim(pool, bytes, pool_id);
    } else {
      pools.refresh();
      taken = budget.take(bytes);
    }
  }
  held_for(memory).fetch_add(taken ? bytes : 0, std::memory_order_relaxed);
  return taken;
}

void DeviceLimit::give(Memory memory, std::uint64_t bytes, std::uint64_t pool_id) noexcept {
  held_for(memory).fetch_sub(bytes, std::memory_order_relaxed);
  if (is_of_pool(memory)) {
    pools.unclaim(pool_id, bytes);
  } else if (counts(memory)) {
    budget.give(bytes);
  }
}

}  // namespace cubfc
