// The stream captures that are open in the process. While one is open, nothing of ours may
// synchronise, and a call that allocates or frees at the driver must be made in the relaxed mode
// (cuda.h, cuThreadExchangeStreamCaptureMode), or the driver would invalidate the program's
// capture.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/driver/driver.h"
#include "shim/driver/stream_id.h"

namespace cubfc {

class WaitPermit;

// Thread-safe. Its lock is never held across a driver call.
class Captures {
 public:
  explicit Captures(const DriverFunctions& driver) : driver_(driver) {}

  // Some stream captures, or is about to.
  bool any_open() const noexcept { return open_.load(std::memory_order_acquire) > 0; }
  // Some stream has captured in this process, or was about to: another may any time.
  bool any_has_begun() const noexcept { return has_begun_.load(std::memory_order_acquire); }

  // Whether this stream captures. Asks the driver, if any_open(). Arguments as of stream_id().
  bool is_capturing(CUstream stream, bool per_thread) const;

  // The two go around the driver's call that begins a capture; begun() always follows. will_begin()
  // waits for permits that are out, but not for work: 250 ms for one that blocks, which where the
  // driver can record a context's work (12.5) only those do that were out at the first capture of
  // the process. It throws std::bad_alloc and has changed nothing then. `success`: the driver's.
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
  bool is_held_up() const;

  const DriverFunctions& driver_;
  std::mutex mutex_;
  std::condition_variable no_wait_;
  std::vector<Open> captures_;
  int beginning_ = 0;
  WaitPermit* permits_ = nullptr;  // that are out
  std::atomic<int> open_{0};       // captures open or about to begin
  std::atomic<bool> has_begun_{false};
};

// Permission to ask the driver about work on a device, and to wait for it. While it lives and
// given() is true, a capture that is about to begin is held up; but not by a call that blocks, once
// that has had time to enter the driver, which refuses only what is called after the capture has
// begun. Not given while a capture is open.
class WaitPermit {
 public:
  explicit WaitPermit(Captures& captures);
  ~WaitPermit();
  WaitPermit(const WaitPermit&) = delete;
  WaitPermit& operator=(const WaitPermit&) = delete;

  // May change to false when block() returns: a capture has begun meanwhile.
  bool given() const { return given_; }

  // Makes a call of the driver's that waits for work, and returns its answer. Precondition:
  // given().
  template <typename Call>
  CUresult block(Call call) {
    blocked_calls_.fetch_add(1, std::memory_order_acq_rel);  // odd: in the call
    const CUresult result = call();
    blocked_calls_.fetch_add(1, std::memory_order_acq_rel);
    given_ = !captures_.any_open();
    return result;
  }

 private:
  friend class Captures;

  Captures& captures_;
  bool given_;
  bool is_out_ = false;  // it was given at first
  std::atomic<std::uint64_t> blocked_calls_{0};
  std::uint64_t seen_calls_ = 0;  // by a capture that is about to begin, under the captures' lock
  WaitPermit* next_ = nullptr;    // in the list of those that are out
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
