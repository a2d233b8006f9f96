// When a process last ended that had memory of a device: for some time the driver may be at taking
// that back, and the device has less to give than it will. Lies in memory that processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace cubfc {

// Zeros are none. Any thread of any process, at any time.
class RecentLoss {
 public:
  void note() noexcept { ns_.store(now_ns(), std::memory_order_relaxed); }

  // Whether that was within this time, in which the driver may still be at it.
  bool is_within(std::chrono::nanoseconds time) const noexcept {
    const std::uint64_t noted = ns_.load(std::memory_order_relaxed);
    return noted != 0 && now_ns() - noted < static_cast<std::uint64_t>(time.count());
  }

 private:
  // The same clock in all processes.
  static std::uint64_t now_ns() noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  }

  std::atomic<std::uint64_t> ns_;
};

}  // namespace cubfc
