// Around driver calls of ours that allocate or free: in a thread's own mode they would invalidate
// the program's stream captures (cuda.h, cuThreadExchangeStreamCaptureMode).
#pragma once

#include "shim/driver/driver.h"

namespace cubfc {

// While it lives, this thread's driver calls do not disturb captures, those of other threads that
// begin meanwhile among them.
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
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
  const bool changed_;
};

}  // namespace cubfc
