// A hard limit in bytes for all memory that is taken from one device: by several arenas (one for
// each context), and by allocations that bypass them. Thread-safe; lock-free but for what a shared
// account does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

#include "arena/units.h"

namespace cubfc::arena {

// A limit that several processes share. What a Budget claims, it claims in its shared account, too.
// Thread-safe.
class SharedAccount {
 public:
  virtual ~SharedAccount() = default;
  // As Budget's functions of these names.
  virtual bool take(std::uint64_t bytes) noexcept = 0;
  virtual void force(std::uint64_t bytes) noexcept = 0;
  virtual void give(std::uint64_t bytes) noexcept = 0;
  virtual std::uint64_t used() const noexcept = 0;  // by all processes
  virtual std::uint64_t limit() const noexcept = 0;

  // The most that limit() can ever become.
  virtual std::uint64_t highest() const noexcept { return limit(); }
  // left(): the bytes that take() would still give this process now. most(): the largest total that
  // it could ever give this process. Both may be more than the limit says, for a process that had
  // more when the limit was lowered.
  virtual std::uint64_t left() const noexcept { return less(limit(), used()); }
  virtual std::uint64_t most() const noexcept { return limit(); }
};

class Budget {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

  // `shared` must outlive the budget; nullptr: there is none.
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

  // Claims `bytes` whether they fit or not, for memory that is taken already.
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
  // give() for memory that an arena has given back because it did not use it.
  void release(std::uint64_t bytes) noexcept {
    give(bytes);
    releases_.fetch_add(1, std::memory_order_release);
  }
  // How often release() was called. A caller whose take() was refused may try again once this
  // number has changed.
  std::uint64_t releases() const noexcept { return releases_.load(std::memory_order_acquire); }

  // Each is the lesser of this process's own limit and of what the shared account says. limit():
  // the limit now. most(): the largest request that could be served if nobody held anything.
  // highest(): what the limit never exceeds. They differ only where the shared limit can be
  // changed.
  std::uint64_t limit() const noexcept { return lesser(&SharedAccount::limit); }
  std::uint64_t most() const noexcept { return lesser(&SharedAccount::most); }
  std::uint64_t highest() const noexcept { return lesser(&SharedAccount::highest); }
  bool limited() const noexcept { return own_limit_ != kUnlimited || shared_ != nullptr; }
  // The bytes that this process has claimed.
  std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  // left(): the bytes that this process may still claim. own_left(): the bytes that it could still
  // claim if other processes had claimed nothing of the shared limit.
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
