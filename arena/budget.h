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

  // Of a limit that changes: it never becomes more than that.
  virtual std::uint64_t highest() const noexcept { return limit(); }
  // What take() would give this process now, and if the others had taken nothing. More than the
  // limit leaves, where the process had more when the limit was lowered.
  virtual std::uint64_t left() const noexcept { return less(limit(), used()); }
  virtual std::uint64_t most() const noexcept { return limit(); }
};

class Budget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  // `shared` must outlive it; nullptr: there is none.
  explicit Budget(std::uint64_t limit_bytes = kUnlimited, SharedAccount* shared = nullptr)
      : own_limit_(limit_bytes), shared_(shared) {}

  // Claims `bytes` if they fit under the limit, all or nothing.
  bool take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > own_limit_ || used > own_limit_ - bytes) {
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

  // Of this process and of all that share, the lesser one: now; the most that a request may have if
  // nobody holds anything; and what neither ever exceeds. They differ where the limit that is
  // shared is changed.
  std::uint64_t limit() const noexcept { return lesser(&SharedAccount::limit); }
  std::uint64_t most() const noexcept { return lesser(&SharedAccount::most); }
  std::uint64_t highest() const noexcept { return lesser(&SharedAccount::highest); }
  bool limited() const noexcept { return own_limit_ != kUnlimited || shared_ != nullptr; }
  // By this process.
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  // To this process, and to it where others have taken nothing of what is shared.
  std::uint64_t left() const noexcept {
    const std::uint64_t own = less(own_limit_, used());
    return shared_ == nullptr ? own : std::min(own, shared_->left());
  }
  std::uint64_t own_left() const noexcept { return less(most(), used()); }

 private:
  std::uint64_t lesser(std::uint64_t (SharedAccount::*of_shared)() const noexcept) const noexcept {
    return shared_ == nullptr ? own_limit_ : std::min(own_limit_, (shared_->*of_shared)());
  }

  const std::uint64_t own_limit_;
  SharedAccount* const shared_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> releases_{0};
};

}  // namespace cubfc::arena
