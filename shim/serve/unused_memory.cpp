#include "shim/serve/unused_memory.h"

#include <new>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/serve/waiting_frees.h"

namespace cubfc {

UnusedMemory::UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
                           WaitingFrees& waiting)
    : driver_(driver), contexts_(contexts), captures_(captures), waiting_(waiting) {
  contexts.add_listener(*this);
}

bool UnusedMemory::make_room(Device& device) {
  return waiting_.wait_for_oldest() || release(device) || drain_pools(device);
}

bool UnusedMemory::make_room_at_driver(std::optional<CUdevice> device) noexcept try {
  Context* const current = contexts_.current();
  if (current != nullptr && waiting_.any()) {
    const WaitPermit permit(captures_);
    if (permit.given()) {
      waiting_.wait_for_all(*current);
    }
  }
  Device* const of = device               ? contexts_.devices().get(*device)
                     : current == nullptr ? nullptr
                                          : &current->device;
  return of != nullptr && release(*of);
} catch (const std::bad_alloc&) {
  return false;
}

// What is freed in stream order comes back to the limit when the stream has got there.
bool UnusedMemory::drain_pools(Device& device) {
  const WaitPermit permit(captures_);
  const std::uint64_t before = device.limit.pools.unclaimed();
  if (!permit.given() || before == 0) {
    return false;
  }
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && &context->device == &device) {
      contexts_.synchronize(*context);
      device.limit.pools.refresh();
      return release(device) || device.limit.pools.unclaimed() < before;
    }
  }
  return false;
}

bool UnusedMemory::make_limit_hold(Device& device) {
  Pools& pools = device.limit.pools;
  return pools.refresh() || (release(device) && pools.refresh());
}

void UnusedMemory::context_will_end(Context& context) noexcept {
  Server& server = *context.device.server;
  const WaitPermit permit(captures_);
  if (!server.frees_blocks_before_end() || !permit.given()) {
    return;
  }
  const PushedContext inside(driver_, context.handle);
  if (inside.pushed() && driver_.cuCtxSynchronize() == CUDA_SUCCESS) {
    server.free_all_of(context);
  }
}

// What the device's arenas and pools hold without a block in it. True if there was anything.
bool UnusedMemory::release(Device& device) {
  Pools& pools = device.limit.pools;
  const bool asks_pools = device.server->has_blocks_beside_arenas() || pools.counts();
  std::uint64_t bytes = asks_pools && pools.trim() ? 1 : 0;
  contexts_.for_each_alive_on(device, [&](Context& context) {
    const ContextUse use(contexts_, context);
    if (use.allowed()) {
      // The current context may be another one, or none, and then the driver frees nothing.
      const PushedContext inside(driver_, context.handle);
      bytes += inside.pushed() ? context.arena.release_unused() : 0;
    }
  });
  return bytes > 0;
}

// The current context may be another, or none.
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
    waiting_.close_and_collect();
    bytes += context->arena.release_unused(preallocated ? 0 : context->preallocation.load());
    bytes += context->device.server->trim(preallocated);
  }
  return bytes;
}

}  // namespace cubfc
