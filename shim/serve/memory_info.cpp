#include "shim/serve/memory_info.h"

#include <algorithm>

#include "shim/device/contexts.h"
#include "shim/serve/waiting_frees.h"
#include "shim/share/rendezvous.h"

namespace cubfc {

// Where the driver does not tell which context is current, the limit holds all the same.
CUresult MemoryInfo::of_current_context(std::size_t* free_bytes, std::size_t* total_bytes) {
  std::size_t device_free = 0;
  std::size_t device_total = 0;
  if (const CUresult result = driver_.cuMemGetInfo_v2(&device_free, &device_total);
      result != CUDA_SUCCESS) {
    return result;
  }
  Context* const context = contexts_.current();
  const std::uint64_t total =
      context != nullptr && policy_.limit_is_reported()
          ? std::min<std::uint64_t>(device_total, context->device.limit.budget.limit())
          : shown_total(device_total);
  if (free_bytes != nullptr) {
    *free_bytes =
        std::min(context == nullptr ? device_free : left_to(*context, device_free), total);
  }
  if (total_bytes != nullptr) {
    *total_bytes = total;
  }
  return CUDA_SUCCESS;
}

// What waits for the device is given to whoever asks for it (it counts here also while a stream
// captures, when nobody may wait for it); so is what pools keep, and what other contexts of the
// device do not use, and what other processes have in a soft reserve. What is free between blocks
// counts, too, though only requests that fit get it: a program that measures what it takes must see
// each allocation and each free.
std::uint64_t MemoryInfo::left_to(const Context& context, std::uint64_t device_free) {
  DeviceLimit& limit = context.device.limit;
  limit.pools.refresh();
  device_free += rendezvous_.offered(context.device.id);
  // Others would give that up, to the device and to the limit.
  const std::uint64_t of_others = unused_by_others(context);
  const std::uint64_t limit_left = limit.budget.left();
  const std::uint64_t to_grow = std::min(
      policy_.beyond_reserve(device_free + context.device.preallocation.bytes() + of_others),
      limit_left + std::min(of_others, arena::Budget::kUnlimited - limit_left));
  Server& server = *context.device.server;
  return server.bytes_at_hand(context) +
         server.growth_in(context.device.beyond_host_reserve(to_grow));
}

// Of its device's memory, what arenas of other contexts would give up for a request in this one.
std::uint64_t MemoryInfo::unused_by_others(const Context& context) {
  int contexts = 0;
  contexts_.for_each_alive_on(context.device, [&](const Context& /*each*/) { ++contexts; });
  if (contexts < 2) {
    return 0;
  }
  if (DeviceFrees* const frees = WaitingFrees::known_of(context.device); frees != nullptr) {
    frees->close_and_collect();  // a block that waits keeps its whole region
  }
  std::uint64_t bytes = 0;
  contexts_.for_each_alive_on(context.device, [&](const Context& other) {
    bytes += &other == &context ? 0 : other.arena.unused_bytes();
  });
  return bytes;
}

CUresult MemoryInfo::total(std::size_t* bytes, CUdevice device) const {
  const CUresult result = driver_.cuDeviceTotalMem_v2(bytes, device);
  if (result == CUDA_SUCCESS) {
    *bytes = shown_total(*bytes);
  }
  return result;
}

// Of a device of so many bytes.
std::uint64_t MemoryInfo::shown_total(std::uint64_t bytes) const {
  return policy_.limit_is_reported() ? std::min(bytes, policy_.hard_limit(bytes).value_or(bytes))
                                     : bytes;
}

}  // namespace cubfc
