#include "shim/ask/memory_info.h"

#include <algorithm>
#include <optional>

#include "shim/device/contexts.h"
#include "shim/limit/kernel_limit.h"
#include "shim/meet/group_control.h"
#include "shim/meet/rendezvous.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {
namespace {

// Whether no other process has claimed anything in this process's group; true also without a group.
bool is_alone_in_group(const DeviceLimit& limit) {
  const Group* const group = limit.group();
  return group == nullptr || group->used() <= limit.budget.used();
}

// The limit of the policy's group on the device, if somebody has changed it while members run; else
// the largest number.
std::uint64_t changed_group_limit(const DriverFunctions& driver, const config::Policy& policy,
                                  CUdevice device) try {
  const auto seen = GroupControl::see(*policy.group.value, device_id_of(driver, device),
                                      where_group_meets(policy));
  return seen ? seen->changed_limit.value_or(arena::Budget::kUnlimited) : arena::Budget::kUnlimited;
} catch (const std::bad_alloc&) {
  return arena::Budget::kUnlimited;
}

}  // namespace

// If the driver does not tell which context is current, the total is limited all the same.
CUresult MemoryInfo::of_current_context(std::size_t* free_bytes, std::size_t* total_bytes) {
  std::size_t device_free = 0;
  std::size_t device_total = 0;
  if (const CUresult result = driver_.cuMemGetInfo_v2(&device_free, &device_total);
      result != CUDA_SUCCESS) {
    return result;
  }
  Context* const context = contexts_.current();
  CUdevice device = 0;
  if (context == nullptr) {
    driver_.cuCtxGetDevice(&device);
  }
  const std::uint64_t total =
      context != nullptr && context->device.limit.is_seen()
          ? shown_total(device_total, context->device)
          : shown_total(device_total, context == nullptr ? device : context->device.handle);
  if (free_bytes != nullptr) {
    const std::uint64_t left = context == nullptr ? device_free : left_to(*context, device_free);
    // What comes back when the program wakes is not free, whoever has it meanwhile.
    const std::uint64_t asleep = context == nullptr ? 0 : context->device.use.bytes_asleep();
    *free_bytes = std::min(arena::less(left, asleep), total);
  }
  if (total_bytes != nullptr) {
    *total_bytes = total;
  }
  return CUDA_SUCCESS;
}

// The bytes that cuMemGetInfo shows as free in this context. Freed blocks that wait for the device
// count, since a request waits for them. They count also while a stream captures, although a
// request must not wait then. What pools keep counts, and what other contexts of the device do not
// use, and what other processes hold as soft memory. What is free between blocks counts, too,
// although it serves only requests that fit there: a program that compares two answers must see
// each of its allocations and frees.
std::uint64_t MemoryInfo::left_to(const Context& context, std::uint64_t device_free) {
  Device& device = context.device;
  DeviceLimit& limit = device.limit;
  limit.pools.refresh();
  // What dead members of the group have claimed counts as free.
  Group* const group = limit.group();
  if (group != nullptr && limit.budget.left() < limit.budget.own_left()) {
    group->clear_the_dead();
  }
  const std::uint64_t of_others = unused_by_others(context);
  std::optional<Rendezvous::Lately> lately;
  const auto offered = [&] {
    if (!lately) {
      lately = rendezvous_.offered_lately(device.id, limit.group_key());
    }
    return *lately;
  };
  // What other members would give up of the group's budget.
  const std::uint64_t of_group = is_alone_in_group(limit) ? 0 : offered().in_group;
  const std::uint64_t limit_left =
      std::min(arena::plus(limit.budget.own_left(), of_others),
               arena::plus(arena::plus(limit.budget.left(), of_others), of_group));
  std::uint64_t to_grow =
      policy_.beyond_reserve(device_free + device.preallocation.bytes() + of_others);
  // Other processes need not be asked if the device has as much as the limit leaves.
  if (to_grow < limit_left) {
    to_grow = policy_.beyond_reserve(device_free + device.preallocation.bytes() + of_others +
                                     offered().bytes);
  }
  to_grow = std::min(to_grow, limit_left);
  Server& server = *device.server;
  const std::uint64_t at_hand = server.bytes_at_hand(context);
  const std::uint64_t bytes = at_hand + server.growth_in(device.beyond_host_reserve(to_grow));
  // If the group's limit was lowered below what the group has claimed, not even all bytes at hand
  // are free.
  return group == nullptr
             ? bytes
             : std::min(bytes,
                        arena::less(arena::plus(group->limit(), at_hand + of_others + of_group),
                                    group->used()));
}

// The bytes of the context's device that arenas of other contexts would give up for a request in
// this one.
std::uint64_t MemoryInfo::unused_by_others(const Context& context) {
  int contexts = 0;
  contexts_.for_each_alive_on(context.device, [&](const Context& /*each*/) { ++contexts; });
  if (contexts < 2) {
    return 0;
  }
  if (DeviceFrees* const frees = WaitingFrees::known_of(context.device); frees != nullptr) {
    frees->close_and_collect();  // a region with a block that waits is not unused
  }
  std::uint64_t bytes = 0;
  contexts_.for_each_alive_on(context.device, [&](const Context& other) {
    bytes += &other == &context ? 0 : other.arena.unused_bytes();
  });
  return bytes;
}

CUresult MemoryInfo::total(std::size_t* bytes, CUdevice device) {
  const CUresult result = driver_.cuDeviceTotalMem_v2(bytes, device);
  if (result == CUDA_SUCCESS) {
    *bytes = shown_total(*bytes, device);
  }
  return result;
}

// The total that the program is shown for a device of `bytes` bytes.
std::uint64_t MemoryInfo::shown_total(std::uint64_t bytes, const Device& device) {
  const std::uint64_t limited = std::min(bytes, device.limit.at_first);
  return device.limit.group() == nullptr ? limited : first_shown(device.handle, limited);
}

// The same by the device's number. If the process has no context on the device yet, it has not
// joined its group there either. So the group's limit is read from outside.
std::uint64_t MemoryInfo::shown_total(std::uint64_t bytes, CUdevice device) {
  const auto limit = hard_limit_on(driver_, policy_, device, bytes);
  if (!limit || !limit->is_seen()) {
    return bytes;
  }
  const std::uint64_t limited = std::min(bytes, limit->bytes);
  if (!policy_.group.value) {
    return limited;
  }
  const std::uint64_t before = first_shown(device, 0);
  return before != 0 ? before
                     : first_shown(device, std::min(limited,
                                                    changed_group_limit(driver_, policy_, device)));
}

// The total that the program was shown first for this device. The program is shown the same total
// at each later call, also when the group's limit is changed meanwhile. `now`: the total at this
// moment, which is kept if it is the first; 0: keeps nothing.
std::uint64_t MemoryInfo::first_shown(CUdevice device, std::uint64_t now) {
  if (static_cast<std::size_t>(device) >= first_shown_.size()) {
    return now;
  }
  std::uint64_t before = 0;
  return first_shown_[static_cast<std::size_t>(device)].compare_exchange_strong(before, now)
             ? now
             : before;
}

}  // namespace cubfc
