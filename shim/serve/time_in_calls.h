// The time that the program spends in its allocations and frees, for the summary; and whether each
// of these calls is timed or logged at all.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "config/policy.h"
#include "shim/tell/log.h"

namespace cubfc {

// Thread-safe. Counted only under CUBFC_SHOW_STATS.
class TimeInCalls {
 public:
  explicit TimeInCalls(const config::Policy& policy)
      : counts_(policy.show_stats.value),
        watches_each_call_(counts_ || policy.trace_stacks.value > 0 ||
                           log::enabled(log::Level::kTrace)) {}

  // Whether each allocation and each free is timed or logged. None may take the fast path then.
  bool watches_each_call() const { return watches_each_call_; }

  // The time spent in cuMemAlloc, cuMemAllocPitch, cudaMalloc and their frees, waits included.
  std::chrono::nanoseconds spent() const {
    return std::chrono::nanoseconds(spent_ns_.load(std::memory_order_relaxed));
  }

  // Counts the time for which it lives.
  class Stopwatch {
   public:
    explicit Stopwatch(TimeInCalls& time) : time_(time), running_(time.counts_) {
      if (running_) {
        start_ = std::chrono::steady_clock::now();
      }
    }
    ~Stopwatch() {
      if (running_) {
        const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
        time_.spent_ns_.fetch_add(static_cast<std::uint64_t>(spent.count()),
                                  std::memory_order_relaxed);
      }
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

   private:
    TimeInCalls& time_;
    const bool running_;
    std::chrono::steady_clock::time_point start_;
  };

 private:
  const bool counts_;
  const bool watches_each_call_;
  std::atomic<std::uint64_t> spent_ns_{0};
};

}  // namespace cubfc
