// The lock of an arena. An allocation or a free holds it for some ten nanoseconds, which is less
// than std::mutex itself takes: std::mutex unlocks with an atomic exchange, this lock with a plain
// store.
#pragma once

#include <atomic>
#include <cstdint>

namespace cubfc::arena {

// A mutual-exclusion lock; not recursive. Any thread may wait. A waiting thread spins for at most
// 0.1 ms, then it sleeps in the kernel. A child of fork() must not touch a lock that another thread
// of its parent may have held.
//
// Waiting threads are served in no order, on purpose: a thread that has just unlocked mostly locks
// again before another core sees the lock free. Two threads that do nothing but allocate and free
// get through 47 pairs in a microsecond that way; with a fair lock, which moves its cache line at
// each call, through 3. The price is a rare long wait: one call in a thousand takes 5 microseconds,
// against 0.6 with a fair lock.
class Lock {
 public:
  Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() noexcept {
    if (!try_lock()) [[unlikely]] {
      wait_and_lock();
    }
  }

  // Returns false at once when the lock is held.
  bool try_lock() noexcept {
    std::uint32_t unlocked = 0;
    return held_.compare_exchange_strong(unlocked, 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // The processor may do the load before the store is visible. Then a thread that has just counted
  // itself in sleepers_ is not woken, and looks again after kNap at the latest.
  void unlock() noexcept {
    held_.store(0, std::memory_order_release);
    if (sleepers_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      wake_one();
    }
  }

 private:
  void wait_and_lock() noexcept;
  void wake_one() noexcept;

  std::atomic<std::uint32_t> held_{0};  // a futex
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace cubfc::arena
