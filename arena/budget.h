// A hard limit in bytes, shared by all that takes memory from one device: several arenas (one for
// each context) and allocations that bypass them. Thread-safe; lock-free but for what a shared
// account does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "arena/units.h"

namespace cubfc::arena {

// A limit that several processes share: what a Budget claims, it claims there, too. Thread-safe.
class SharedAccount {
 public:
  virtual ~SharedAccount() = default;
  // As Budget's functions of these names.
  virtual bool take(std::uint64_t bytes) noexcept = 0;
  virtual void force(std::uint64_t bytes) noexcept = 0;
  virtual void give(std::uint64_t bytes) noexcept = 0;
  virtual std::uint64_t used() const noexcept = 0;  // by all of them
  virtual std::uint64_t limit() const noexcept = 0;
};

class Budget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  // `shared` must outlive it; nullptr: there is none.
  explicit Budget(std::uint64_t limit_bytes = kUnlimited, SharedAccount* shared = nullptr)
      : limit_(shared == nullptr ? limit_bytes : std::min(limit_bytes, shared->limit())),
        shared_(shared) {}

  // Claims `bytes` if they fit under the limit, all or nothing.
  bool take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ || used > limit_ - bytes) {
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (shared_ != nullptr && !shared_->take(bytes)) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    return true;
  }

  // Claims `bytes` whether they fit or not: they are taken already.
  void force(std::uint64_t bytes) noexcept {
    used_.fetch_add(bytes, std::memory_order_relaxed);
    if (shared_ != nullptr) {
      shared_->force(bytes);
    }
  }

  // Gives back what take() or force() claimed.
  void give(std::uint64_t bytes) noexcept {
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    if (shared_ != nullptr) {
      shared_->give(bytes);
    }
  }
  // The same for what an arena has had and gives back because it does not use it.
  void release(std::uint64_t bytes) noexcept {
    give(bytes);
    releases_.fetch_add(1, std::memory_order_release);
  }
  // How often that was done: who was refused and sees another number than before may try again.
  std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_acquire); }

  std::uint64_t limit() const noexcept { return limit_; }
  bool limited() const noexcept { return limit_ != kUnlimited; }
  // By this process.
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  // To this process, and to it where others have taken nothing of what is shared.
  std::uint64_t left() const noexcept {
    const std::uint64_t own = own_left();
    return shared_ == nullptr ? own : std::min(own, less(shared_->limit(), shared_->used()));
  }
  std::uint64_t own_left() const noexcept { return less(limit_, used()); }

 private:
  const std::uint64_t limit_;
  SharedAccount* const shared_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> releases_{0};
};

}  // namespace cubfc::arena
