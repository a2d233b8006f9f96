// From the address of a block to its record: open addressing with linear probing, half full at
// most. A slot holds the low half of the address's hash beside the index, so that probing rarely
// touches a record that is not the wanted one.
#pragma once

#include <cstdint>
#include <vector>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe.
class AddressTable {
 public:
  // Makes sure that the next insert cannot fail. Throws std::bad_alloc and is unchanged then.
  void reserve_one() {
    if ((count_ + 1) * 2 > slots_.size()) {
      grow();
    }
  }

  // Precondition: reserve_one() since the last insert; the address is not in the table.
  void insert(Address address, BlockIndex index) {
    ++count_;
    place(hash_of(address), index);
  }

  // The index filed under `address`, or kNoBlock. is_at(index) tells whether a block lies there.
  template <typename IsAt>
  BlockIndex find(Address address, IsAt is_at) const {
    const std::uint32_t hash = hash_of(address);
    for (std::size_t slot = hash & mask();; slot = (slot + 1) & mask()) {
      const Slot& here = slots_[slot];
      if (here.index == kNoBlock) {
        return kNoBlock;
      }
      if (here.hash == hash && is_at(here.index)) {
        return here.index;
      }
    }
  }

  // Precondition: `index` is filed under `address`.
  void erase(Address address, BlockIndex index);

  // Keeps its host memory.
  void clear() noexcept {
    slots_.assign(slots_.size(), Slot{});
    count_ = 0;
  }

  std::size_t size() const { return count_; }
  std::size_t host_bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    BlockIndex index = kNoBlock;
  };

  static std::uint32_t hash_of(Address address) {
    // Fibonacci hashing: the high bits of the product depend on all bits of the granule's number.
    return static_cast<std::uint32_t>((address / kGranuleBytes * 0x9E3779B97F4A7C15U) >> 32);
  }
  std::size_t mask() const { return slots_.size() - 1; }
  void place(std::uint32_t hash, BlockIndex index);
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(64);  // a power of two
  std::size_t count_ = 0;
};

}  // namespace cubfc::arena
