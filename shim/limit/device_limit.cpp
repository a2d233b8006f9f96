#include "shim/limit/device_limit.h"

namespace cubfc {
namespace {

bool is_for_all(const config::Policy& policy) {
  return policy.limit_counts.value == config::LimitCounts::kAll;
}

}  // namespace

DeviceLimit::DeviceLimit(const DriverFunctions& driver, const config::Policy& policy,
                         CUdevice device, std::uint64_t total_bytes, DeviceUse& use,
                         Callers& callers)
    : budget(policy.hard_limit(total_bytes).value_or(arena::Budget::kUnlimited)),
      pools(driver, device, budget,
            !budget.limited()    ? Pools::Counts::kNothing
            : is_for_all(policy) ? Pools::Counts::kAll
                                 : Pools::Counts::kOurs),
      use_(use),
      callers_(callers),
      counts_all_(is_for_all(policy)) {}

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
