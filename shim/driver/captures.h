// The stream captures that are open in the process. While one is open, nothing of ours may
// synchronise, and a call that allocates or frees at the driver must be made in the relaxed mode
// (cuda.h, cuThreadExchangeStreamCaptureMode), or the driver would invalidate the program's
// capture.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/driver/driver.h"
#include "shim/driver/stream_id.h"

namespace cubfc {

// Thread-safe. Its lock is never held across a driver call.
class Captures {
 public:
  explicit Captures(const DriverFunctions& driver) : driver_(driver) {}

  bool any_open() const noexcept { return open_.load(std::memory_order_acquire) > 0; }

  // Whether the driver says so, if any capture is open. `stream` and `per_thread` as in
  // stream_id().
  bool is_capturing(CUstream stream, bool per_thread) const;

  // Around the driver's own call that begins a capture. `stream` as the program named it;
  // `per_thread` when its stream 0 is the per-thread default stream. will_begin() waits for
  // synchronisations of ours that are under way, because one that is caught by a capture's
  // beginning invalidates it; but not for long, because what they wait for may be waiting for this
  // thread.
  void will_begin();
  void begun(CUstream stream, bool per_thread, bool success);

  // After the driver's call that ends a capture. It may be over though that call has failed.
  void end_called(CUstream stream, bool per_thread, bool success);
  void stream_destroyed(CUstream stream);
  void context_ended(CUcontext context);

 private:
  friend class DeviceWait;

  struct Open {
    CUcontext context;
    StreamId stream;
  };
  std::optional<CUstreamCaptureStatus> status_of(CUstream stream, bool per_thread) const;
  Open describe(CUstream stream, bool per_thread) const;
  template <typename Predicate>
  void erase(Predicate predicate);
  void recount();

  const DriverFunctions& driver_;
  std::mutex mutex_;
  std::condition_variable no_wait_;
  std::vector<Open> captures_;
  int beginning_ = 0;
  int waiting_ = 0;
  std::atomic<int> open_{0};  // captures open or about to begin
};

// Permission to synchronise: while it lives and allowed() is true, no capture begins.
class DeviceWait {
 public:
  explicit DeviceWait(Captures& captures);
  ~DeviceWait();
  DeviceWait(const DeviceWait&) = delete;
  DeviceWait& operator=(const DeviceWait&) = delete;

  bool allowed() const { return allowed_; }

 private:
  Captures& captures_;
  bool allowed_;
};

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
