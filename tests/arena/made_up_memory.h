// A memory source that makes up addresses, for tests: a device of a set size that fails on command
// and checks that each region is released once, whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "arena/memory_source.h"

namespace cubfc::arena {

class MadeUpMemory : public MemorySource {
 public:
  explicit MadeUpMemory(std::uint64_t device_bytes) : free_(device_bytes) {}

  Region obtain(std::uint64_t bytes) noexcept override {
    if (before_obtain) {
      before_obtain(bytes);
    }
    const std::lock_guard lock(mutex_);
    asked.push_back(bytes);
    if (broken_with != 0) {
      return {0, broken_with, false};
    }
    if (bytes > free_) {
      return {0, 2, true};
    }
    free_ -= bytes;
    next_ = align_up(next_, alignment_);
    const Address base = next_;
    // A gap between regions, so that nothing coalesces across them by luck, and a base that is
    // aligned to no more than the driver promises.
    next_ += round_up(bytes, kGranuleBytes) + 77 * kGranuleBytes;
    regions_[base] = bytes;
    return {base, 0, false};
  }

  void release(std::span<const Extent> regions) noexcept override {
    if (before_release) {
      before_release();
    }
    const std::lock_guard lock(mutex_);
    wrong_releases += regions.empty() ? 1 : 0;
    for (const auto& [base, bytes] : regions) {
      const auto region = regions_.find(base);
      if (region == regions_.end() || region->second != bytes) {
        ++wrong_releases;
        continue;
      }
      regions_.erase(region);
      free_ += bytes;
    }
  }

  // Regions from now on start on multiples of this, a power of two.
  void align_to(std::uint64_t alignment) { alignment_ = alignment; }
  std::uint64_t free_bytes() const { return free_; }
  std::size_t regions() const { return regions_.size(); }

  std::vector<std::uint64_t> asked;  // every size asked for, in order
  int broken_with = 0;               // when not 0: every obtain fails with this error
  int wrong_releases = 0;
  std::function<void(std::uint64_t)> before_obtain;  // runs inside obtain, before anything else
  std::function<void()> before_release;              // the same for release

 private:
  std::mutex mutex_;
  std::uint64_t free_;
  std::uint64_t alignment_ = kGranuleBytes;
  Address next_ = 0x7f0000000000 + 3 * kGranuleBytes;
  std::map<Address, std::uint64_t> regions_;
};

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

}  // namespace cubfc::arena
