#include "shim/source/unused_memory.h"

#include <algorithm>
#include <new>
#include <utility>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

UnusedMemory::UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
                           WaitingFrees& waiting)
    : driver_(driver), contexts_(contexts), captures_(captures), waiting_(waiting) {
  contexts.add_listener(*this);
}

std::uint64_t UnusedMemory::give_to_others(Device& device, std::uint64_t bytes,
                                           std::uint64_t wanted) noexcept {
  std::uint64_t given = device.preallocation.give_to_others(bytes, wanted);
  given += given < bytes ? release_of_arenas(device, bytes - given, Waits::kNo) : 0;
  return given + (given < bytes ? device.server->trim(true) : 0);
}

UnusedMemory::ForOthers UnusedMemory::for_others(Device& device) noexcept {
  // DeviceUse is not told of changes to what a pool has idle, or to which blocks wait under
  // CUBFC_FREE=deferred.
  ForOthers found{0, !device.server->has_blocks_beside_arenas() &&
                         device.policy.free_mode.value == config::FreeMode::kSync &&
                         device.preallocation.is_still()};
  if (DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
    frees->close_and_collect();  // a block that waits keeps its whole region
    found.is_all = found.is_all && !frees->any();
  }
  found.bytes = device.preallocation.bytes_for_others() + device.server->idle_pool_bytes();
  contexts_.for_each_alive_on(device, [&](Context& context) {
    const ContextUse use(contexts_, context, ContextUse::Waits::kNo);
    context.arena.watch();
    const std::uint64_t unused = use.allowed() ? context.arena.unused_bytes() : 0;
    const bool can = unused > 0 && works(context) && is_released_at_once(context);
    found.bytes += can ? unused : 0;
    found.is_all =
        found.is_all && use.allowed() && (can || unused == 0) && !context.memory->release_waits();
  });
  return found;
}

// Memory freed in stream order comes back to the limit when the stream has reached the free.
bool UnusedMemory::drain_pools(Device& device) {
  WaitPermit permit(captures_);
  const std::uint64_t before = device.limit.pools.unclaimed();
  if (!permit.given() || before == 0) {
    return false;
  }
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && &context->device == &device) {
      contexts_.synchronize(*context, permit);
      device.limit.pools.refresh();
      return release(device, kStepBytes, Waits::kYes) || device.limit.pools.unclaimed() < before;
    }
  }
  return false;
}

bool UnusedMemory::make_limit_hold(Device& device) {
  Pools& pools = device.limit.pools;
  const bool holds = pools.refresh();
  device.preallocation.keep_to_limit();
  return holds || (release(device, kStepBytes, Waits::kYes) && pools.refresh());
}

void UnusedMemory::context_will_end(Context& context) noexcept {
  Server& server = *context.device.server;
  WaitPermit permit(captures_);
  if (!server.frees_blocks_before_end() || !permit.given()) {
    return;
  }
  const PushedContext inside(driver_, context.handle);
  if (inside.pushed() && permit.block([&] { return driver_.cuCtxSynchronize(); }) == CUDA_SUCCESS) {
    server.free_all_of(context);
  }
}

void UnusedMemory::context_ended(std::uint64_t /*id*/) {
  contexts_.devices().for_each([&](Device& device) {
    bool any = false;
    contexts_.for_each_alive_on(
        device, [&](const Context& each) { any = any || each.has(Context::kStarted); });
    if (!any) {
      device.preallocation.end();
    }
  });
}

bool UnusedMemory::release(Device& device, std::uint64_t bytes, Waits waits) {
  Pools& pools = device.limit.pools;
  const bool asks_pools = device.server->has_blocks_beside_arenas() || pools.counts();
  if (asks_pools && pools.trim()) {
    device.use.resized();
    return true;
  }
  return release_of_arenas(device, bytes, waits) > 0;
}

// As release(), for arenas only. Returns the bytes given back.
std::uint64_t UnusedMemory::release_of_arenas(Device& device, std::uint64_t bytes, Waits waits) {
  std::uint64_t released = 0;
  contexts_.for_each_alive_on(device, [&](Context& context) {
    const bool at_once = waits == Waits::kNo;
    const ContextUse use(contexts_, context,
                         at_once ? ContextUse::Waits::kNo : ContextUse::Waits::kYes);
    if (released >= bytes || !use.allowed() || context.arena.unused_bytes() == 0 ||
        (at_once && !is_released_at_once(context))) {
      return;
    }
    // The current context may be another one, or none, and then the driver frees nothing.
    const PushedContext inside(driver_, context.handle);
    const bool can = inside.pushed() && works(context);
    released += can ? context.arena.release_unused(bytes - released) : 0;
  });
  return released;
}

// Whether calls in the context still succeed. After an error that stays the driver takes nothing
// back.
bool UnusedMemory::works(Context& context) {
  const RelaxedCapture relaxed(driver_);
  const PushedContext inside(driver_, context.handle);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes);
  context.note(result);
  return inside.pushed() && result == CUDA_SUCCESS;
}

// Whether memory of the context can go back without a wait. If it goes back by cuMemFree, which
// waits for the work of the context, it can only while the context is idle.
bool UnusedMemory::is_released_at_once(Context& context) {
  return !context.memory->release_waits() || is_idle(context);
}

bool UnusedMemory::is_idle(Context& context) {
  const WaitPermit permit(captures_);
  return permit.given() && waiting_.fences().is_idle(context, permit);
}

// Works in each context in turn: the current one may be another, or none.
std::uint64_t UnusedMemory::trim(bool preallocated) noexcept {
  std::uint64_t bytes = 0;
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const ContextUse use(contexts_, *context, ContextUse::Waits::kNo);
    if (!use.allowed()) {
      continue;
    }
    const PushedContext inside(driver_, context->handle);
    if (!inside.pushed()) {
      continue;
    }
    if (DeviceFrees* const frees = WaitingFrees::known_of(context->device); frees != nullptr) {
      frees->close_and_collect();
    }
    const bool waits = context->memory->release_waits() && context->arena.unused_bytes() > 0 &&
                       waiting_.fences().can_record() && !is_idle(*context);
    const std::uint64_t released =
        waits ? 0  // left for a later call
              : context->arena.release_beyond(preallocated ? 0 : context->preallocated.load());
    bytes += released;
    bytes -= preallocated ? 0 : keep_preallocated(context->device, released);
    bytes += context->device.server->trim(preallocated);
    context->device.use.resized();
  }
  if (preallocated) {
    contexts_.devices().for_each([&](Device& device) {
      bytes += device.preallocation.give_up(arena::kLargestRequestBytes);
    });
  }
  return bytes;
}

// Called when arenas have given back `released` bytes. If the arenas and the preallocated
// memory outside of them have less in all than was planned, preallocates the difference anew, but
// no more than `released` bytes. Returns how many bytes were preallocated.
std::uint64_t UnusedMemory::keep_preallocated(Device& device, std::uint64_t released) {
  Preallocation& shared = device.preallocation;
  std::uint64_t there = shared.bytes();
  contexts_.for_each_alive_on(
      device, [&](const Context& context) { there += context.arena.stats().pool_bytes; });
  const std::uint64_t before = shared.bytes();
  if (there < shared.planned()) {
    shared.hold(std::min(released, shared.planned() - there));
  }
  return std::min(released, shared.bytes() - std::min(shared.bytes(), before));
}

}  // namespace cubfc
