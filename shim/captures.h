// The stream captures that are open in the process. While one is open, nothing of ours may
// synchronise, and a call that allocates or frees at the driver must be made in the relaxed mode
// (cuda.h, cuThreadExchangeStreamCaptureMode), or the driver would invalidate the program's
// capture.
#pragma once

#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "shim/driver.h"

namespace cubfc {

// Thread-safe.
class Captures {
 public:
  explicit Captures(const DriverFunctions& driver) : driver_(driver) {}

  bool any_open() const noexcept { return open_.load(std::memory_order_acquire) > 0; }

  // Reported by the wrappers, after the driver's own call. `stream` as the program named it;
  // `per_thread` when its stream 0 is the per-thread default stream.
  void begun(CUstream stream, bool per_thread);
  // The end was asked for; whether it came is asked of the driver.
  void maybe_ended(CUstream stream, bool per_thread);
  void stream_destroyed(CUstream stream);
  void context_ended(CUcontext context);

  void after_fork_in_child() { new (&mutex_) std::mutex; }

 private:
  struct Open {
    CUcontext context;
    CUstream stream;
    std::thread::id thread;  // only of a per-thread default stream
    bool operator==(const Open&) const = default;
  };
  Open describe(CUstream stream, bool per_thread) const;
  template <typename Predicate>
  void erase(Predicate predicate);

  const DriverFunctions& driver_;
  std::mutex mutex_;  // never held across a driver call
  std::vector<Open> captures_;
  std::atomic<int> open_{0};
};

// While it lives, this thread's driver calls do not disturb captures. Does nothing when none is
// open.
class RelaxedCapture {
 public:
  RelaxedCapture(const DriverFunctions& driver, const Captures& captures)
      : driver_(driver), active_(captures.any_open()) {
    if (active_) {
      driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  ~RelaxedCapture() {
    if (active_) {
      driver_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const DriverFunctions& driver_;
  const bool active_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace cubfc
