// Gives unused memory back while the program is idle, as CUBFC_TRIM_AFTER asks for. DeviceMemory
// calls start_once() at each allocation, and the first call starts a thread; without the option
// there is none. The thread looks four times in the time of CUBFC_TRIM_AFTER whether the program
// has allocated or freed anything. When it has not for so long, what is unused goes back, and no
// more is done until it allocates or frees again. The exit ends the thread. Knows nothing of
// memory.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace cubfc {

// Thread-safe.
class IdleTrimmer {
 public:
  // Called by the thread, without any lock.
  struct Owner {
    std::function<std::uint64_t()> trim;        // gives back what is unused; returns bytes
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner)
      : owner_(std::move(owner)),
        trim_after_(trim_after.value_or(std::chrono::milliseconds(0))),
        to_be_started_(trim_after.has_value()) {}

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
  pid_t pid_ = 0;  // a child that was forked later has no thread
  pthread_t thread_{};
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stop_wanted_;
  bool stopping_ = false;
};

}  // namespace cubfc
