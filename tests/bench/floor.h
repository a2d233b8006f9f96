// What no allocator can be faster than in this loop on this machine at this moment: nearly nothing
// to do, with and without two uncontended lock-unlock pairs around it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <vector>

#include "arena/lock.h"

namespace cubfc::bench {

// A last-in first-out stack of addresses for each power of two; nothing is split or coalesced.
class Stacks {
 public:
  std::uint64_t allocate(std::uint64_t bytes) {
    const auto size_class = static_cast<std::uint32_t>(std::bit_width(bytes));
    std::vector<std::uint64_t>& stack = stacks_[size_class];
    if (stack.empty()) {
      next_ += std::uint64_t{1} << size_class;
      return next_ << kClassBits | size_class;
    }
    const std::uint64_t top = stack.back();
    stack.pop_back();
    return top;
  }
  void free(std::uint64_t handle) { stacks_[handle % (1U << kClassBits)].push_back(handle); }
  static std::uint64_t address(std::uint64_t handle) { return handle >> kClassBits; }

 private:
  static constexpr std::uint32_t kClassBits = 6;

  std::array<std::vector<std::uint64_t>, 1U << kClassBits> stacks_;
  std::uint64_t next_ = 0;
};

// Not inlined, because no allocator behind an interface is.
class Floor {
 public:
  using Handle = std::uint64_t;

  explicit Floor(std::uint64_t /*capacity*/) {}
  [[gnu::noinline]] Handle allocate(std::uint64_t bytes) { return stacks_.allocate(bytes); }
  [[gnu::noinline]] void free(Handle handle) { stacks_.free(handle); }
  static bool failed(Handle handle) { return handle == 0; }
  static std::uint64_t address(Handle handle) { return Stacks::address(handle); }

 private:
  Stacks stacks_;
};

class LockedFloor {
 public:
  using Handle = std::uint64_t;

  explicit LockedFloor(std::uint64_t /*capacity*/) {}
  [[gnu::noinline]] Handle allocate(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return stacks_.allocate(bytes);
  }
  [[gnu::noinline]] void free(Handle handle) {
    const std::lock_guard lock(mutex_);
    stacks_.free(handle);
  }
  static bool failed(Handle handle) { return handle == 0; }
  static std::uint64_t address(Handle handle) { return Stacks::address(handle); }

 private:
  arena::Lock mutex_;
  Stacks stacks_;
};

}  // namespace cubfc::bench
