#include "shim/serve/failed_requests.h"

#include <array>
#include <new>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// The device's arena that holds most; nullptr when there is none.
const Context* largest_on(const Contexts& contexts, const Device& device) {
  const Context* largest = nullptr;
  std::uint64_t most = 0;
  contexts.for_each_alive_on(device, [&](const Context& each) {
    const std::uint64_t bytes = each.arena.stats().pool_bytes;
    if (largest == nullptr || bytes > most) {
      largest = &each;
      most = bytes;
    }
  });
  return largest;
}

// The device's memory in all arenas of this process.
std::uint64_t in_arenas(const Contexts& contexts, const Device& device) {
  std::uint64_t bytes = 0;
  contexts.for_each_alive_on(device,
                             [&](const Context& each) { bytes += each.arena.stats().pool_bytes; });
  return bytes;
}

std::vector<OutOfMemory::Part> held_outside(const DeviceLimit& limit) {
  constexpr std::array<std::pair<Holding, const char*>, kHoldings> kNames{
      {{Holding::kPlain, "by cuMemAlloc past the arena"},
       {Holding::kOwnPool, "by cuMemAlloc from cubfc's pool"},
       {Holding::kPool, "from pools"},
       {Holding::kManaged, "managed"},
       {Holding::kPhysical, "by cuMemCreate"},
       {Holding::kArray, "in arrays"}}};
  std::vector<OutOfMemory::Part> parts;
  for (const auto& [holding, name] : kNames) {
    if (const std::uint64_t bytes = limit.held(holding); bytes > 0) {
      parts.push_back({bytes, name});
    }
  }
  if (const std::uint64_t idle = limit.pools.unclaimed(); idle > 0) {
    parts.push_back({idle, "kept by pools and graphs"});
  }
  return parts;
}

// What it takes of the device itself. Managed memory may lie on the host.
std::uint64_t held_of_device(const DeviceLimit& limit) {
  return limit.held(Holding::kPlain) + limit.held(Holding::kOwnPool) + limit.held(Holding::kPool) +
         limit.pools.unclaimed() + limit.held(Holding::kPhysical) + limit.held(Holding::kArray);
}

}  // namespace

void FailedRequests::report(const Request& request, arena::Failure failure,
                            const Context* context) noexcept try {
  if (!log::enabled(log::Level::kWarn)) {
    return;
  }
  const RelaxedCapture relaxed(driver_);
  const Device& device = request.device;
  const Context* const shown = context == nullptr ? largest_on(contexts_, device) : context;
  OutOfMemory known{device.handle, request.function, request.bytes, failure, {}, {}, {}, {}, {}};
  if (shown != nullptr) {
    known.stats = shown->arena.stats();
  }
  reporter_.report(std::move(known), [&](OutOfMemory& full) { complete(full, device, shown); });
} catch (const std::bad_alloc&) {
  log::write(log::Level::kWarn, "out of memory, and the host has none left for a report");
}

// The driver tells what is free of the current context's device only.
void FailedRequests::complete(OutOfMemory& failure, const Device& device,
                              const Context* context) const {
  if (context != nullptr && failure.stats.regions > 0) {
    failure.blocks = context->arena.snapshot();
  }
  const arena::Budget& budget = device.limit.budget;
  if (budget.limited()) {
    failure.limit = {budget.limit(), budget.used()};
  }
  failure.outside = held_outside(device.limit);
  CUdevice current = -1;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (driver_.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device.handle &&
      driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
    failure.now = {
        total_bytes, free_bytes,
        in_arenas(contexts_, device) + device.preallocation.bytes() + held_of_device(device.limit)};
  }
}

}  // namespace cubfc
