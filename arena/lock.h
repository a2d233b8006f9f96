// The lock of an arena. Held for some ten nanoseconds by whoever allocates or frees, which is less
// than std::mutex itself takes: its unlock is an atomic exchange, this one's a plain store.
#pragma once

#include <atomic>
#include <cstdint>

namespace cubfc::arena {

// A mutual-exclusion lock; not recursive. Any thread may wait; nobody keeps a core busy for longer
// than 0.1 ms: then it sleeps in the kernel. A child of fork() must not touch a lock that another
// thread of its parent may have held.
//
// No order among those who wait, on purpose: who has just unlocked mostly locks again before
// another core sees it. Two threads that do nothing but allocate and free get through 47 pairs in a
// microsecond that way; with a lock that serves in turn, which moves its cache line at each call,
// through 3. The price is the rare long wait of the other thread: one call in a thousand takes 5
// microseconds there, against 0.6 in turn.
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

  // False, and at once, when somebody has it.
  bool try_lock() noexcept {
    std::uint32_t unlocked = 0;
    return held_.compare_exchange_strong(unlocked, 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }

  // The store may pass the load: then a thread that has just announced itself is not woken. It
  // does not sleep for longer than kNap without looking again.
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
