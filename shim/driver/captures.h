// The stream captures that are open in the process. While one is open, nothing of ours may
// synchronise (WaitPermit), and a call that allocates or frees at the driver must be made in the
// relaxed mode (relaxed_capture.h), or the driver would invalidate the program's capture.
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
  // Whether any stream has captured in this process so far, or was about to: then another capture
  // may begin at any time.
  bool any_has_begun() const noexcept { return has_begun_.load(std::memory_order_acquire); }

  // Whether this stream captures. Asks the driver, if any_open(). Arguments as of stream_id().
  bool is_capturing(CUstream stream, bool per_thread) const;

  // will_begin() is called before the driver's call that begins a capture, begun() always after it.
  // will_begin() waits until no permit is out, 2 seconds at most. It does not wait for the end of a
  // call that itself waits for work (WaitPermit::block()). For each such call it gives the permit's
  // thread patience::kTimeToEnter to get into the driver. With a driver that can record a context's
  // work (12.5) frees make such calls only until the first capture of the process has begun: later
  // they wait by events. Throws std::bad_alloc, and has changed nothing then.
  void will_begin();
  // `success`: whether the driver's call has begun a capture.
  void begun(CUstream stream, bool per_thread, bool success);

  // Called after the driver's call that ends a capture, and after those that destroy a stream or a
  // context. If ending has failed, the driver is asked whether the stream still captures.
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
  void let_begin() noexcept;

  // permits_ has three numbers in one: how many permits are out; how many of these are in a call
  // that waits for work; how often one has entered or left such a call.
  static constexpr std::uint64_t kOut = 1;
  static constexpr std::uint64_t kBlocked = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kEnteredOrLeft = std::uint64_t{1} << 40;
  static constexpr std::uint64_t out_of(std::uint64_t permits) { return permits % kBlocked; }
  static constexpr std::uint64_t blocked_of(std::uint64_t permits) {
    return permits % kEnteredOrLeft / kBlocked;
  }

  const DriverFunctions& driver_;
  std::mutex mutex_;
  std::condition_variable no_wait_;
  std::vector<Open> captures_;
  int beginning_ = 0;
  // A permit counts itself and then looks whether a capture is open; a capture that begins counts
  // itself and then looks whether permits are out: one of the two sees the other.
  std::atomic<std::uint64_t> permits_{0};
  std::atomic<int> open_{0};  // captures open or about to begin
  std::atomic<bool> has_begun_{false};
};

// Permission to ask the driver about work on a device, and to wait for it. Not given while a
// capture is open. While a permit lives and given() is true, a capture that is about to begin waits
// for the permit's end. It does not wait for a block() that is inside the driver by then: the
// driver refuses calls that are made after a capture has begun, not those that are under way.
class WaitPermit {
 public:
  enum class For : bool {
    kAnything,
    kCallsThatBlock,  // for block() alone, which takes fewer instructions then
  };
  explicit WaitPermit(Captures& captures, For purpose = For::kAnything) noexcept
      : captures_(captures) {
    if (captures.any_open()) {
      return;
    }
    is_counted_as_blocked_ = purpose == For::kCallsThatBlock;
    captures.permits_.fetch_add(
        is_counted_as_blocked_ ? Captures::kOut + Captures::kBlocked : Captures::kOut,
        std::memory_order_seq_cst);
    is_out_ = true;
    given_ = captures.open_.load(std::memory_order_seq_cst) == 0;
  }
  ~WaitPermit() {
    if (is_out_) {
      captures_.permits_.fetch_sub(
          is_counted_as_blocked_ ? Captures::kOut + Captures::kBlocked : Captures::kOut,
          std::memory_order_seq_cst);
      if (captures_.open_.load(std::memory_order_seq_cst) > 0) [[unlikely]] {
        captures_.let_begin();
      }
    }
  }
  WaitPermit(const WaitPermit&) = delete;
  WaitPermit& operator=(const WaitPermit&) = delete;

  // May change to false when block() returns: a capture has begun meanwhile.
  bool given() const { return given_; }

  // Makes a call of the driver's that waits for work, and returns its answer. Precondition:
  // given().
  template <typename Call>
  CUresult block(Call call) {
    if (!is_counted_as_blocked_) {
      captures_.permits_.fetch_add(Captures::kEnteredOrLeft + Captures::kBlocked,
                                   std::memory_order_acq_rel);
    } else if (has_blocked_) {
      captures_.permits_.fetch_add(Captures::kEnteredOrLeft, std::memory_order_acq_rel);
    }
    has_blocked_ = true;
    const CUresult result = call();
    if (!is_counted_as_blocked_) {
      captures_.permits_.fetch_add(Captures::kEnteredOrLeft - Captures::kBlocked,
                                   std::memory_order_acq_rel);
    }
    given_ = !captures_.any_open();
    return result;
  }

 private:
  Captures& captures_;
  bool given_ = false;
  bool is_out_ = false;                 // it is counted in permits_
  bool is_counted_as_blocked_ = false;  // as long as it lives
  bool has_blocked_ = false;            // block() has been called
};

}  // namespace cubfc
