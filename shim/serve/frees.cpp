#include "shim/serve/frees.h"

#include "config/policy.h"
#include "shim/device/blocks.h"
#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/serve/driver_requests.h"
#include "shim/share/ipc.h"
#include "shim/tell/log.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

Frees::Frees(const DriverFunctions& driver, const config::Policy& policy, const Uses& uses)
    : driver_(driver),
      contexts_(uses.contexts),
      ipc_(uses.ipc),
      waiting_(uses.waiting),
      requests_(uses.requests),
      time_(uses.time),
      is_deferred_(policy.free_mode.value == config::FreeMode::kDeferred),
      at_hand_(is_deferred_ && !uses.time.watches_each_call()),
      times_waits_(policy.observes()) {}

arena::Arena::Gathered Frees::free_at_hand(CUdeviceptr address) {
  Context* const context = at_hand_ ? contexts_.current_if_remembered() : nullptr;
  DeviceFrees* const frees = context != nullptr && context->is_plain() && !ipc_.any_exports()
                                 ? WaitingFrees::known_of(context->device)
                                 : nullptr;
  return frees != nullptr ? frees->gather(*context, address) : arena::Arena::Gathered::kNot;
}

// Most blocks that are freed lie in the arena of the current context, so that arena is asked first.
// If none of its regions is there, the owner is looked up among all contexts. No owner: the memory
// is the driver's.
inline Frees::Freed Frees::find_freed(CUdeviceptr address) {
  Context* const current = contexts_.current();
  const bool is_owner =
      current != nullptr && current->is_plain() && current->arena.region_at(address) != 0;
  return {is_owner ? current : contexts_.owner_of(address), current};
}

// Frees a block of the owner's arena, or a block that the owner has from cubfc's pool, unless the
// driver would refuse the free.
CUresult Frees::free_of(const Freed& freed, CUdeviceptr address) {
  CUcontext current = nullptr;
  const bool has_context =
      freed.current != nullptr ||
      (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr);
  CUresult result = refused_by_driver(*freed.owner, address, has_context);
  if (result == CUDA_SUCCESS) {
    result = free_block(freed, address);
    if (log::enabled(log::Level::kTrace)) [[unlikely]] {
      log::trace("cuMemFree {:#x}: {}", address, name_of(driver_, result));
    }
  }
  return result;
}

// Full epochs of all devices are closed, but only the current context's device is waited for: what
// free_at_hand() frees lies in the arena of the current context.
CUresult Frees::tidy() noexcept {
  contexts_.devices().for_each([&](const Device& device) {
    if (DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
      frees->close_when_due();
    }
  });
  Context* const current = contexts_.current_if_remembered();
  DeviceFrees* const frees = current == nullptr ? nullptr : WaitingFrees::known_of(current->device);
  return frees == nullptr ? CUDA_SUCCESS : frees->hold_back(*current);
}

CUresult Frees::free(CUdeviceptr address) {
  const TimeInCalls::Stopwatch stopwatch(time_);
  const Freed freed = find_freed(address);
  return freed.owner == nullptr
             ? requests_.free(address, [&] { return driver_.cuMemFree_v2(address); })
             : free_of(freed, address);
}

bool Frees::try_free(CUdeviceptr address) {
  const TimeInCalls::Stopwatch stopwatch(time_);
  const Freed freed = find_freed(address);
  return freed.owner != nullptr && free_of(freed, address) == CUDA_SUCCESS;
}

// Asks the driver to free an address that it can only refuse: one inside a region, or kNowhere. (A
// block may start where its region starts; asked for that address, the driver would free the
// region.) Usually the driver refuses with CUDA_ERROR_INVALID_VALUE. If it answers with another
// error, it is asked again in the owner's context, in the relaxed capture mode. If it gives the
// same error there, that error is this driver's answer to such an address, and does not mean that
// the block cannot be freed.
CUresult Frees::refused_by_driver(Context& owner, CUdeviceptr address, bool has_context) const {
  if (has_context && !owner.has(Context::kBroken)) [[likely]] {
    return CUDA_SUCCESS;
  }
  const CUdeviceptr none = owner.device.server->has_blocks_beside_arenas() ? kNowhere : address + 1;
  const CUresult result = driver_.cuMemFree_v2(none);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE) {
    return CUDA_SUCCESS;
  }
  const ContextUse use(contexts_, owner, ContextUse::Waits::kNo);
  if (owner.has(Context::kBroken) || !use.allowed()) {
    return result;
  }
  const RelaxedCapture relaxed(driver_);
  const PushedContext inside(driver_, owner.handle);
  return inside.pushed() && driver_.cuMemFree_v2(none) == result ? CUDA_SUCCESS : result;
}

// Waits for the device, then frees; or leaves the wait to DeviceFrees: always under
// CUBFC_FREE=deferred, else while a stream captures or a context may be ending (the two errors
// below). An interior pointer or a double free must not be passed to the driver, which knows only
// regions.
CUresult Frees::free_block(const Freed& freed, CUdeviceptr address) {
  Context& owner = *freed.owner;
  if (!is_deferred_) {
    const CUresult result = wait_in_free(freed);
    if (result == CUDA_SUCCESS) {
      ipc_.will_free(address);
      return owner.device.server->free(owner, address);
    }
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result != CUDA_ERROR_NOT_READY) {
      return result;  // of earlier work; the free has not happened (cuda.h, cuMemFree)
    }
  }
  const CUresult result =
      free_later(owner, address, {.in = freed.current == &owner ? nullptr : freed.current});
  return result != CUDA_SUCCESS ? result : waiting_.of(owner.device).hold_back(owner);
}

CUresult Frees::free_later(Context& context, CUdeviceptr address, const DeviceFrees::How& how) {
  DeviceFrees& frees = waiting_.of(context.device);
  ipc_.will_free(address);
  if (!frees.add(context, address, how)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  frees.close_when_due();
  return CUDA_SUCCESS;
}

// A function of its own, so that counts of instructions (tests/bench/instructions) can leave it
// out: whether it is called depends on the time that a wait takes.
[[gnu::noinline, gnu::cold]] void Frees::note_long_wait(const Freed& freed,
                                                        TickCounter::Ticks start,
                                                        TickCounter::Ticks end) {
  freed.owner->device.use.waited(ticks_.time_between(start, end));
}

CUresult Frees::wait_in_free(const Freed& freed) {
  DeviceFrees& frees = waiting_.of(freed.owner->device);
  if (!times_waits_) {
    return frees.wait_for_all(*freed.owner, freed.current);
  }
  const TickCounter::Ticks start = TickCounter::now();
  const CUresult result = frees.wait_for_all(*freed.owner, freed.current);
  const TickCounter::Ticks end = TickCounter::now();
  if (ticks_.is_long(start, end)) [[unlikely]] {
    note_long_wait(freed, start, end);
  }
  return result;
}

}  // namespace cubfc
