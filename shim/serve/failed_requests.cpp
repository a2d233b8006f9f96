#include "shim/serve/failed_requests.h"

#include <array>
#include <new>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/servers/mapped_memory.h"
#include "shim/share/neighbours.h"
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
  constexpr std::array<std::pair<Memory, const char*>, trace::kMemories - 1> kNames{
      {{Memory::kDirect, "by cuMemAlloc past the arena"},
       {Memory::kOwnPool, "by cuMemAlloc from cubfc's pool"},
       {Memory::kPool, "from pools"},
       {Memory::kManaged, "managed"},
       {Memory::kMapped, "by cuMemCreate"},
       {Memory::kArray, "in arrays"}}};
  std::vector<OutOfMemory::Part> parts;
  for (const auto& [memory, name] : kNames) {
    if (const std::uint64_t bytes = limit.held(memory); bytes > 0) {
      parts.push_back({bytes, name});
    }
  }
  if (const std::uint64_t idle = limit.pools.unclaimed(); idle > 0) {
    parts.push_back({idle, "kept by pools and graphs"});
  }
  return parts;
}

// What is held outside of arenas and takes memory of the device itself. Managed memory is left out:
// it may lie on the host.
std::uint64_t held_of_device(const DeviceLimit& limit) {
  return limit.held(Memory::kDirect) + limit.held(Memory::kOwnPool) + limit.held(Memory::kPool) +
         limit.pools.unclaimed() + limit.held(Memory::kMapped) + limit.held(Memory::kArray);
}

}  // namespace

void FailedRequests::report(const Request& request, arena::Failure failure,
                            Context* context) noexcept try {
  Device& device = request.device;
  if (!log::enabled(log::Level::kWarn) && !device.policy.oom_report.value) {
    device.use.refused(request.bytes, {});
    return;
  }
  const RelaxedCapture relaxed(driver_);
  const bool is_possible = request.bytes <= device.total_bytes && !device.limit.is_unusable() &&
                           (!request.counted || request.bytes <= device.limit.budget.most());
  using Reporter = OutOfMemoryReporter;
  const std::string said = reporter_.report(
      is_possible ? Reporter::Request::kPossible : Reporter::Request::kImpossible, request.bytes,
      [&](Reporter::Detail detail) { return find_out(request, failure, context, detail); });
  device.use.refused(request.bytes, said);
  if (context != nullptr && reporter_.listens()) {
    context->set(Context::kListenedTo);
  }
} catch (const std::bad_alloc&) {
  log::write(log::Level::kWarn, "out of memory, and the host has none left for a report");
}

void FailedRequests::served(Context& context, std::uint64_t bytes) noexcept {
  served(bytes);
  if (context.has(Context::kListenedTo)) [[unlikely]] {
    listen_no_longer_than_needed(context);
  }
}

void FailedRequests::listen_no_longer_than_needed(Context& context) const noexcept {
  if (!reporter_.listens()) {
    context.clear(Context::kListenedTo);
    if (reporter_.listens()) {  // another thread has failed meanwhile
      context.set(Context::kListenedTo);
    }
  }
}

// What is free on the device is found out only if the current context is of that device: the driver
// tells of no other.
OutOfMemory FailedRequests::find_out(const Request& request, arena::Failure failure,
                                     const Context* context,
                                     OutOfMemoryReporter::Detail detail) const {
  const Device& device = request.device;
  OutOfMemory found{device.handle, request.function, {}, {}, {}, {}, {}, {}};
  FailedRequestFacts& facts = found.facts;
  facts.asked = request.bytes;
  facts.failure = failure;
  facts.of_arena = context != nullptr;
  facts.host_reserve_refuses = !device.host_reserve_allows(request.bytes);
  facts.limit_is_unusable = device.limit.is_unusable();
  if (const auto limit = device.limit.tightest(); limit && request.counted) {
    facts.limit = {limit->bytes, limit->taken, limit->origin};
  }
  if (const Group* const group = device.limit.group(); group != nullptr) {
    facts.group = {group->name(), group->limit(), group->used(), group->members(),
                   group->goes_by_changed_limit()};
  }
  CUdevice current = -1;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (driver_.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device.handle &&
      driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
    facts.device = {
        total_bytes, free_bytes,
        in_arenas(contexts_, device) + device.preallocation.bytes() + held_of_device(device.limit)};
  }
  const Context* const shown = context == nullptr ? largest_on(contexts_, device) : context;
  if (shown != nullptr) {
    found.stats = shown->arena.stats();
    facts.free_in_arena = found.stats.free_bytes();
    facts.waiting_in_arena = found.stats.bytes_retired;
  }
  if (detail == OutOfMemoryReporter::Detail::kAll) {
    if (found.stats.regions > 0) {
      found.blocks = shown->arena.snapshot();
      if (const std::uint64_t page_bytes = MappedMemory::page_bytes_for(driver_, device);
          page_bytes > 0) {
        facts.free_in_pages = arena::free_in_whole_pages(found.blocks, page_bytes);
      }
    }
    found.outside = held_outside(device.limit);
    found.neighbours = neighbours_on(device.id, device.use.process());
    found.callers = device.use.callers_now();
  }
  return found;
}

}  // namespace cubfc
