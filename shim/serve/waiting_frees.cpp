#include "shim/serve/waiting_frees.h"

#include <memory>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

void WaitingFrees::listen() {
  contexts_.add_listener(*this);
}

DeviceFrees* WaitingFrees::known_of(const Device& device) noexcept {
  return device.frees.load(std::memory_order_acquire);
}

// Of several threads that make it, the first one's is kept. It stays as long as the device.
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

void WaitingFrees::close_and_collect() noexcept {
  contexts_.devices().for_each([](const Device& device) {
    if (DeviceFrees* const frees = known_of(device); frees != nullptr) {
      frees->close_and_collect();
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
    bool concerned = !which.device || *which.device == device.handle;
    if (concerned && which.handle != nullptr) {
      concerned = false;
      contexts_.for_each_alive_on(device, [&](const Context& context) {
        concerned = concerned || context.handle == which.handle;
      });
    }
    while (concerned && frees != nullptr && frees->any() && frees->wait_for_oldest()) {
    }
  });
}

}  // namespace cubfc
