// Gives unused memory back while the program is idle, as CUBFC_TRIM_AFTER asks for. Allocations
// calls start_once() at each allocation, and the first call starts a thread; without the option
// there is none. The thread looks four times in the time of CUBFC_TRIM_AFTER whether the program
// has allocated or freed anything. When it has not for so long, what is unused goes back, and no
// more is done until it allocates or frees again. Knows nothing of memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "shim/background/background_thread.h"

namespace cubfc {

// Thread-safe.
class IdleTrimmer {
 public:
  // Called by the thread, without any lock.
  struct Owner {
    std::function<std::uint64_t()> trim;        // gives back what is unused; returns bytes
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner);

  void start_once() noexcept {
    if (to_be_started_.load(std::memory_order_relaxed)) {
      start();
    }
  }

 private:
  void start() noexcept;
  void watch() noexcept;
  bool is_stopped_within(std::chrono::milliseconds time) noexcept;
  void stop() noexcept;

  const Owner owner_;
  const std::chrono::milliseconds trim_after_;
  std::atomic<bool> to_be_started_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stop_wanted_;
  bool stopping_ = false;
  BackgroundThread thread_;
};

}  // namespace cubfc
