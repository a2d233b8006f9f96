// Which region an address lies in. Asked for each pointer that any thread frees, so reading takes
// no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arena/units.h"

namespace cubfc::arena {

// One writer at a time; any number of readers at any time. A sequence lock: a reader that met a
// writer reads again. Each entry is read with acquire and written with release, so that a reader
// that saw a new entry also sees the odd version.
class RegionMap {
 public:
  struct Region {
    Address begin = 0;
    Address end = 0;
    std::uint64_t number = 0;
  };

  // Makes sure that assign() of `count` regions cannot fail. Throws std::bad_alloc.
  void reserve(std::size_t count);

  // Replaces all regions. They are in address order and do not overlap. Precondition: reserve().
  void assign(const std::vector<Region>& regions) noexcept;

  // The number of the region that contains `address`; 0 if none does.
  std::uint64_t number_at(Address address) const noexcept {
    for (;;) {
      const std::uint32_t version = version_.load(std::memory_order_acquire);
      const std::uint64_t number = search(address);
      if ((version & 1) == 0 && version_.load(std::memory_order_relaxed) == version) [[likely]] {
        return number;
      }
    }
  }

  std::size_t host_bytes() const;

 private:
  struct Entry {
    std::atomic<Address> begin{0};
    std::atomic<Address> end{0};
    std::atomic<std::uint64_t> number{0};
  };
  struct Entries {
    explicit Entries(std::size_t count) : all(count) {}
    std::vector<Entry> all;
    std::atomic<std::size_t> used{0};
  };

  std::uint64_t search(Address address) const noexcept;

  std::atomic<std::uint32_t> version_{0};  // odd while a writer changes the entries
  std::atomic<const Entries*> current_{nullptr};
  // All arrays of entries ever made; each has at least twice as many as the one before. None is
  // freed, because a reader may still read an old one.
  std::vector<std::unique_ptr<Entries>> ever_;
};

}  // namespace cubfc::arena
