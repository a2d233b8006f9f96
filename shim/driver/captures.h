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

  // Some stream captures, or is about to.
  bool any_open() const noexcept { return open_.load(std::memory_order_acquire) > 0; }

  // Whether this stream captures. Asks the driver, if any_open(). Arguments as of stream_id().
  bool is_capturing(CUstream stream, bool per_thread) const;

  // The two go around the driver's call that begins a capture; begun() always follows. will_begin()
  // waits for permits that are out, 2 seconds at most, because what they wait for may be waiting
  // for this thread. It throws std::bad_alloc and has changed nothing then. `success`: the
  // driver's.
  void will_begin();
  void begun(CUstream stream, bool per_thread, bool success);

  // After the driver's call that ends a capture, and after those that destroy a stream or a
  // context. If ending failed, the driver is asked whether the stream still captures.
  void end_called(CUstream stream, bool per_thread, bool success);
  void stream_destroyed(CUstream stream);
  void context_ended(CUcontext context);

 private:
  friend class WaitPermit;

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

// Permission to wait for the device. While it lives and given() is true, a capture that is about to
// begin is held up, for 2 seconds at most. Not given while a capture is open. Does not wait itself.
class WaitPermit {
 public:
  explicit WaitPermit(Captures& captures);
  ~WaitPermit();
  WaitPermit(const WaitPermit&) = delete;
  WaitPermit& operator=(const WaitPermit&) = delete;

  bool given() const { return given_; }

 private:
  Captures& captures_;
  bool given_;
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
