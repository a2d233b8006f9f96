// The blocks of all devices that the program has freed and that work may still use. Each device has
// a queue of its own, so that work of one device does not hold up the blocks of another.
#pragma once

#include "shim/device/context_end.h"
#include "shim/wait/device_frees.h"
#include "shim/wait/fences.h"

namespace cubfc {

// Thread-safe.
class WaitingFrees : private ContextListener {
 public:
  WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures);

  // The device's queue, which the first call makes. Only that call may throw std::bad_alloc.
  DeviceFrees& of(Device& device);
  // The device's queue; nullptr if it has not been made yet.
  static DeviceFrees* known_of(const Device& device) noexcept;

  // Called before a capture begins, during which open epochs cannot be closed: closes them.
  void prepare_for_capture() noexcept;
  // Called before the driver destroys a stream, since another stream may get its handle.
  void stream_will_end(CUstream stream);

  Fences& fences() { return fences_; }

 private:
  // Called before contexts may end. The driver frees a context's memory with it, and waits for that
  // context's own work only. Work of other contexts may still use freed blocks of that context, so
  // this waits until all of these blocks are free.
  void context_may_end(const WhichContexts& which) noexcept override;

  Contexts& contexts_;
  Captures& captures_;
  Fences fences_;
};

}  // namespace cubfc
