// The arena as the benchmarks drive it: by handle without a lock, and through its thread-safe
// interface by address. Contenders share one shape, see play.h.
#pragma once

#include <cstdint>
#include <limits>

#include "arena/arena.h"
#include "arena/regions.h"

namespace cubfc::bench {

// As the driver aligns what a preload obtains from it.
inline constexpr arena::Address kFirstBase = 0x7F0000000000;
inline constexpr std::uint64_t kBaseAlignment = 2 * 1024 * 1024;

// The engine alone, in one or several regions of equal size.
class ByHandle {
 public:
  using Handle = arena::BlockIndex;

  explicit ByHandle(std::uint64_t capacity, std::uint64_t regions = 1) {
    const std::uint64_t each = arena::round_down(capacity / regions, arena::kGranuleBytes);
    arena::Address base = kFirstBase;
    for (std::uint64_t i = 0; i < regions; ++i) {
      regions_.add(base, each);
      base += arena::round_up(each, kBaseAlignment) + kBaseAlignment;
    }
  }

  Handle allocate(std::uint64_t bytes) { return regions_.allocate(bytes); }
  void free(Handle handle) {
    regions_.retire(handle);
    regions_.reclaim(handle);
  }
  static bool failed(Handle handle) { return handle == arena::kNoBlock; }
  std::uint64_t address(Handle handle) const { return regions_.address_of(handle); }

 private:
  arena::Regions regions_;
};

// The engine by address, without a lock.
class ByLookUp {
 public:
  using Handle = arena::Address;

  explicit ByLookUp(std::uint64_t capacity, std::uint64_t regions = 1)
      : by_handle_(capacity, regions) {}

  Handle allocate(std::uint64_t bytes) {
    const arena::BlockIndex index = by_handle_.allocate(bytes);
    return index == arena::kNoBlock ? 0 : by_handle_.address(index);
  }
  void free(Handle handle) { by_handle_.free(by_handle_.find(handle)); }
  static bool failed(Handle handle) { return handle == 0; }
  static std::uint64_t address(Handle handle) { return handle; }

 private:
  class Findable : public ByHandle {
   public:
    using ByHandle::ByHandle;
  };
  ByHandle by_handle_;
};

}  // namespace cubfc::bench
