// The arena as the benchmarks drive it: by handle without a lock, and through its thread-safe
// interface by address. Contenders have the shape that play.h describes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "arena/epoch.h"
#include "arena/regions.h"

namespace cubfc::bench {

// As the driver aligns what a preload obtains from it.
inline constexpr arena::Address kFirstBase = 0x7F0000000000;
inline constexpr std::uint64_t kBaseAlignment = 2U << 20;

// The engine alone, in one or several regions of equal size.
class ByHandle {
 public:
  using Handle = arena::BlockIndex;

  explicit ByHandle(std::uint64_t capacity, std::uint64_t regions = 1) {
    const std::uint64_t each = arena::round_down(capacity / regions, arena::kGranuleBytes);
    arena::Address base = kFirstBase;
    for (std::uint64_t i = 0; i < regions; ++i) {
      regions_.add(base, each, arena::Regions::Kind::kSlice);
      base += arena::round_up(each, kBaseAlignment) + kBaseAlignment;
    }
  }

  Handle allocate(std::uint64_t bytes) {
    const Handle handle = regions_.allocate(bytes).index;
    return failed(handle) ? regions_.allocate(bytes, arena::Search::kEverywhere).index : handle;
  }
  void free(Handle handle) {
    regions_.retire(regions_.address_of(handle));
    regions_.reclaim(handle);
  }
  static bool failed(Handle handle) { return handle == arena::kNoBlock; }
  arena::Address address(Handle handle) const { return regions_.address_of(handle); }
  Handle find(arena::Address address) const { return regions_.find(address); }

 private:
  arena::Regions regions_;
};

// The engine by address, without a lock.
class ByLookUp {
 public:
  using Handle = arena::Address;

  explicit ByLookUp(std::uint64_t capacity, std::uint64_t regions = 1)
      : engine_(capacity, regions) {}

  Handle allocate(std::uint64_t bytes) {
    const ByHandle::Handle handle = engine_.allocate(bytes);
    return ByHandle::failed(handle) ? 0 : engine_.address(handle);
  }
  void free(Handle handle) { engine_.free(engine_.find(handle)); }
  static bool failed(Handle handle) { return handle == 0; }
  static arena::Address address(Handle handle) { return handle; }

 private:
  ByHandle engine_;
};

// Gives one region of a set size.
class OneRegion : public arena::MemorySource {
 public:
  explicit OneRegion(std::uint64_t bytes) : left_(bytes) {}

  Region obtain(std::uint64_t bytes) noexcept override {
    if (bytes > left_) {
      return {0, 2, true};
    }
    left_ = 0;
    return {kFirstBase, 0, false};
  }
  void release(std::span<const Extent> regions) noexcept override { left_ = regions.front().bytes; }

 private:
  std::uint64_t left_;
};

// A device of a set size as its driver gives it out: in units of 2 MiB, which need not lie side by
// side, so that only the sum counts. The budget is the limit.
class WholeDevice : public arena::MemorySource {
 public:
  explicit WholeDevice(std::uint64_t bytes)
      : left_(arena::round_up(bytes, kBaseAlignment) + kBaseAlignment) {}

  Region obtain(std::uint64_t bytes) noexcept override {
    const std::uint64_t taken = arena::round_up(bytes, kBaseAlignment);
    ++calls_;
    if (taken > left_) {
      return {0, 2, true};
    }
    left_ -= taken;
    const arena::Address base = next_;
    next_ += taken + kBaseAlignment;
    return {base, 0, false};
  }
  void release(std::span<const Extent> regions) noexcept override {
    for (const Extent& region : regions) {
      left_ += arena::round_up(region.bytes, kBaseAlignment);
      ++calls_;
    }
  }
  std::uint64_t calls() const { return calls_; }

 private:
  std::uint64_t left_;
  std::uint64_t calls_ = 0;
  arena::Address next_ = kFirstBase;
};

// The same by pages, for an arena that maps them.
class DevicePages : public arena::MemorySource {
 public:
  explicit DevicePages(std::uint64_t bytes)
      : left_(arena::round_up(bytes, kBaseAlignment) + kBaseAlignment) {}

  Region obtain(std::uint64_t /*bytes*/) noexcept override { return {}; }
  void release(std::span<const Extent> /*regions*/) noexcept override {}
  std::uint64_t page_bytes() const noexcept override { return kBaseAlignment; }
  Region reserve(std::uint64_t bytes) noexcept override {
    const arena::Address base = next_;
    next_ += bytes;
    return {base, 0, false};
  }
  Region map(arena::Address base, std::uint64_t bytes) noexcept override {
    if (bytes > left_) {
      return {0, 2, true};
    }
    left_ -= bytes;
    return {base, 0, false};
  }
  bool unmap(arena::Address /*base*/, std::uint64_t bytes) noexcept override {
    left_ += bytes;
    return true;
  }

 private:
  std::uint64_t left_;
  arena::Address next_ = kFirstBase;
};

// The thread-safe interface: three calls a pair, each with the lock.
template <typename Source>
class ThroughArena {
 public:
  using Handle = arena::Address;

  explicit ThroughArena(std::uint64_t capacity, arena::Options options)
      : source_(arena::round_down(capacity, arena::kGranuleBytes)),
        budget_(arena::round_down(capacity, arena::kGranuleBytes)),
        arena_(source_, budget_, options) {}

  // What is not used goes back before a request fails.
  Handle allocate(std::uint64_t bytes) {
    arena::Address got = arena_.allocate(bytes).address;
    while (got == 0 && arena_.release_unused(arena_.growth_for(bytes)) > 0) {
      got = arena_.allocate(bytes).address;
    }
    return got != 0 ? got : arena_.allocate_against_the_rule(bytes);
  }
  void free(Handle handle) { arena_.free(handle); }
  static bool failed(Handle handle) { return handle == 0; }
  static arena::Address address(Handle handle) { return handle; }
  const arena::Arena& arena() const { return arena_; }
  arena::Arena& arena() { return arena_; }
  std::uint64_t source_calls() const { return source_.calls(); }

 private:
  Source source_;
  arena::Budget budget_;
  arena::Arena arena_;
};

// In one region.
class ByAddress : public ThroughArena<OneRegion> {
 public:
  explicit ByAddress(std::uint64_t capacity)
      : ThroughArena(capacity, {arena::round_down(capacity, arena::kGranuleBytes), true}) {}
};

// As the shim's arenas on a device of that size: what is preallocated is physical memory that they
// take their regions from. Preallocated: where the device has no such memory.
class Grown : public ThroughArena<WholeDevice> {
 public:
  explicit Grown(std::uint64_t capacity, std::uint64_t preallocated = 0)
      : ThroughArena(capacity, options(capacity, preallocated)) {}

 private:
  static arena::Options options(std::uint64_t capacity, std::uint64_t preallocated) {
    arena::Options options = arena::Options::in_slices_of(capacity);
    options.preallocate_bytes = preallocated;
    return options;
  }
};
class Preallocated : public Grown {
 public:
  explicit Preallocated(std::uint64_t capacity)
      : Grown(capacity, arena::round_down(capacity, arena::kGranuleBytes)) {}
};

// Over pages that are mapped on demand, as under CUBFC_ALLOCATOR=vmm.
class Mapped : public ThroughArena<DevicePages> {
 public:
  explicit Mapped(std::uint64_t capacity)
      : ThroughArena(capacity, {.largest_bytes = std::uint64_t{128} << 30}) {}
};

// A free as a program's cuMemFree makes it: which arena owns the address is asked first.
class AsTheShim : public ByAddress {
 public:
  using ByAddress::ByAddress;

  void free(Handle handle) {
    if (arena().region_at(handle) != 0) {
      ByAddress::free(handle);
    }
  }
};

// Frees as CUBFC_FREE=deferred makes them, with a device that lags: an epoch is done when the one
// after it is closed, or when it is waited for.
class Deferred : public ByAddress {
 public:
  using ByAddress::ByAddress;

  Handle allocate(std::uint64_t bytes) {
    while (closed_.size() > 1) {
      reclaim_oldest();
    }
    Handle got = arena().allocate_without_growth(bytes);
    while (failed(got)) {
      got = arena().allocate(bytes).address;
      if (failed(got) && !reclaim_oldest()) {
        break;
      }
    }
    return got;
  }

  void free(Handle handle) {
    open_.push_back(*arena().retire(handle));
    open_bytes_ += open_.back().bytes;
    if (arena::is_epoch_full(open_.size(), open_bytes_, arena().headroom())) {
      close();
    }
  }

 private:
  void close() {
    closed_.push_back(std::move(open_));
    open_.clear();
    open_bytes_ = 0;
  }

  bool reclaim_oldest() {
    if (closed_.empty()) {
      close();
    }
    const bool any = !closed_.front().empty();
    for (const arena::RetiredBlock& block : closed_.front()) {
      arena().reclaim(block);
    }
    closed_.pop_front();
    return any;
  }

  std::vector<arena::RetiredBlock> open_;
  std::uint64_t open_bytes_ = 0;
  std::deque<std::vector<arena::RetiredBlock>> closed_;  // oldest first
};

}  // namespace cubfc::bench
