// What the program has freed and work may still use, of all devices. Each device has a queue of its
// own, because work of one does not hold up what another has to free.
#pragma once

#include "shim/device/context_end.h"
#include "shim/wait/device_frees.h"
#include "shim/wait/fences.h"

namespace cubfc {

// Thread-safe.
class WaitingFrees : private ContextListener {
 public:
  WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures);

  // The device's queue. Throws std::bad_alloc, the first time.
  DeviceFrees& of(Device& device);
  // nullptr where nothing has been freed yet that waited.
  static DeviceFrees* known_of(const Device& device) noexcept;

  // Before a capture begins: what waits cannot become free while it is open.
  void prepare_for_capture() noexcept;
  // Before the driver destroys a stream: its handle may mean another one soon.
  void stream_will_end(CUstream stream);

  Fences& fences() { return fences_; }

 private:
  // The driver takes a context's memory with it, and waits for the context's own work; but work of
  // other contexts may still use what was freed there: waits for that.
  void context_may_end(const WhichContexts& which) noexcept override;

  Contexts& contexts_;
  Captures& captures_;
  Fences fences_;
};

}  // namespace cubfc
