// What is given back: for a request that would fail else, on demand, and before a context ends.
#include "shim/driver/pushed_context.h"
#include "shim/serve/device_memory.h"

namespace cubfc {

// Makes free what waits for the device, else gives back what the arenas of this device, or of all,
// hold without a block in it. True if that may help.
bool DeviceMemory::make_room(Device* device) {
  return waiting_.wait_for_oldest() || release_unused(device) ||
         (device != nullptr && drain_pools(*device));
}

bool DeviceMemory::make_room_at_driver(std::optional<CUdevice> device) noexcept try {
  Context* const current = contexts_.current();
  if (current != nullptr && waiting_.any()) {
    const DeviceWait wait(captures_);
    if (wait.allowed()) {
      waiting_.wait_for_all(*current);
    }
  }
  const Device* const of = device               ? contexts_.device(*device)
                           : current == nullptr ? nullptr
                                                : &current->device;
  return of != nullptr && release_unused(of);
} catch (const std::bad_alloc&) {
  return false;
}

// What is freed in stream order comes back to the limit when the stream has got there.
bool DeviceMemory::drain_pools(Device& device) {
  const DeviceWait wait(captures_);
  const std::uint64_t before = device.pools.unclaimed();
  if (!wait.allowed() || before == 0) {
    return false;
  }
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && &context->device == &device) {
      contexts_.synchronize(*context);
      device.pools.refresh();
      return release_unused(&device) || device.pools.unclaimed() < before;
    }
  }
  return false;
}

// Whether the limit holds for what pools have reserved by now.
bool DeviceMemory::fits_limit(Device& device) {
  return device.pools.refresh() || (release_unused(&device) && device.pools.refresh());
}

void DeviceMemory::context_may_end() noexcept {
  const bool waits = contexts_.several_alive() || contexts_.any_beside_arenas();
  while (waits && waiting_.any() && waiting_.wait_for_oldest()) {
  }
}

void DeviceMemory::context_will_end(Context& context) noexcept {
  Server& server = *context.device.server;
  const DeviceWait wait(captures_);
  if (server.blocks_go_with_context() || !wait.allowed()) {
    return;
  }
  const PushedContext inside(driver_, context.handle);
  if (inside.pushed() && driver_.cuCtxSynchronize() == CUDA_SUCCESS) {
    server.free_all_of(context);
  }
}

// What arenas and pools of the device, or of all, hold without a block in it. True if there was
// anything.
bool DeviceMemory::release_unused(const Device* device) {
  std::uint64_t bytes = contexts_.trim_pools(device) ? 1 : 0;
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && (device == nullptr || &context->device == device)) {
      const ContextUse use(contexts_, *context);
      if (use.allowed()) {
        // The current context may be another one, or none, and then the driver frees nothing.
        const PushedContext inside(driver_, context->handle);
        bytes += inside.pushed() ? context->arena.release_unused() : 0;
      }
    }
  }
  return bytes > 0;
}

// The current context may be another, or none.
std::uint64_t DeviceMemory::trim(bool preallocated) noexcept {
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

std::uint64_t DeviceMemory::operations() const noexcept {
  std::uint64_t operations = ledger_.totals().allocations + ledger_.totals().frees;
  for (const Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const arena::Stats stats = context->arena.stats();
    operations += stats.num_allocs + stats.num_frees + stats.num_failures;
  }
  contexts_.for_each_device([&](const Device& device) {
    operations += device.server->stats().value_or(Server::Stats{}).operations;
  });
  return operations;
}

}  // namespace cubfc
