// Stands around driver calls of cubfc's own that allocate or free. In the thread's own capture mode
// such a call would invalidate the program's stream captures (cuda.h,
// cuThreadExchangeStreamCaptureMode).
#pragma once

#include "shim/driver/driver.h"

namespace cubfc {

// While an object of this class lives, driver calls of this thread invalidate no capture, not even
// one that another thread begins meanwhile.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const DriverFunctions& driver)
      : driver_(driver),
        changed_(driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~RelaxedCapture() {
    if (changed_ && driver_.cuThreadExchangeStreamCaptureMode(&mode_) != CUDA_SUCCESS) {
      driver_.cuThreadExchangeStreamCaptureMode(&mode_);  // the thread must not stay in this mode
    }
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverFunctions& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // once constructed: the thread's own
  const bool changed_;
};

}  // namespace cubfc
