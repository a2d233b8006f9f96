#include "shim/wait/waiting_frees.h"

#include <memory>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

WaitingFrees::WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures)
    : contexts_(contexts), captures_(captures), fences_(driver, contexts) {
  contexts.add_listener(*this);
}

DeviceFrees* WaitingFrees::known_of(const Device& device) noexcept {
  return device.frees.load(std::memory_order_acquire);
}

// If several threads make the queue at once, the first one's is kept. The queue is never destroyed,
// and neither is its device.
DeviceFrees& WaitingFrees::of(Device& device) {
  DeviceFrees* known = known_of(device);
  if (known == nullptr) {
    auto made = std::make_unique<DeviceFrees>(device, contexts_, captures_, fences_);
    if (device.frees.compare_exchange_strong(known, made.get())) {
      known = made.release();
    }
  }
  return *known;
}

void WaitingFrees::prepare_for_capture() noexcept {
  contexts_.devices().for_each([](const Device& device) {
    if (DeviceFrees* const frees = known_of(device); frees != nullptr) {
      frees->prepare_for_capture();
    }
  });
}

void WaitingFrees::stream_will_end(CUstream stream) {
  contexts_.devices().for_each([&](const Device& device) {
    if (DeviceFrees* const frees = known_of(device); frees != nullptr) {
      frees->stream_will_end(stream);
    }
  });
}

void WaitingFrees::context_may_end(const WhichContexts& which) noexcept {
  contexts_.devices().for_each([&](const Device& device) {
    DeviceFrees* const frees = known_of(device);
    if (frees == nullptr || (which.device && *which.device != device.handle)) {
      return;
    }
    contexts_.for_each_alive_on(device, [&](const Context& context) {
      const bool may_end = which.handle != nullptr ? context.handle == which.handle
                                                   : !which.device || context.primary;
      if (may_end) {
        frees->wait_for_blocks_of(context);
      }
    });
  });
}

}  // namespace cubfc
