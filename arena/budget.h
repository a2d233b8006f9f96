// A hard limit in bytes, shared by all that takes memory from one device: several arenas (one for
// each context) and allocations that bypass them. Thread-safe, lock-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace cubfc::arena {

class Budget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  explicit Budget(std::uint64_t limit_bytes = kUnlimited) : limit_(limit_bytes) {}

  // Claims `bytes` if they fit under the limit, all or nothing.
  bool take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ || used > limit_ - bytes) {
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }

  // Claims `bytes` whether they fit or not: they are taken already.
  void force(std::uint64_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }

  // Gives back what take() or force() claimed.
  void give(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  // The same for what an arena has had and gives back because it does not use it.
  void release(std::uint64_t bytes) noexcept {
    give(bytes);
    releases_.fetch_add(1, std::memory_order_release);
  }
  // How often that was done: who was refused and sees another number than before may try again.
  std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_acquire); }

  std::uint64_t limit() const noexcept { return limit_; }
  bool limited() const noexcept { return limit_ != kUnlimited; }
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  std::uint64_t left() const noexcept {
    const std::uint64_t now = used();
    return now < limit_ ? limit_ - now : 0;
  }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> releases_{0};
};

}  // namespace cubfc::arena
