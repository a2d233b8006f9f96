// Finds a block's record by its address: open addressing with linear probing. The table grows step
// by step, so that no single call pays for all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe.
class AddressTable {
 public:
  // Makes sure that the next insert cannot fail. Throws std::bad_alloc and is unchanged then.
  void reserve_one() {
    if (count_ >= look_at_) [[unlikely]] {
      make_room();
    }
  }

  // Precondition: reserve_one() since the last insert; the address is not in the table.
  void insert(Address address, BlockIndex index) {
    ++count_;
    slots_.place(key_of(address), index);
  }

  // The index filed under `address`, or kNoBlock. is_at(index) must tell whether the block starts
  // at `address`: keys have 32 bits, and addresses 2 TiB apart have equal keys.
  template <typename IsAt>
  BlockIndex find(Address address, IsAt is_at) const {
    const BlockIndex index = slots_.index_at(slots_.find(key_of(address), is_at));
    return index != kNoBlock || !old_.exists() ? index
                                               : old_.index_at(old_.find(key_of(address), is_at));
  }

  // As find(), and takes the entry out of the table.
  template <typename IsAt>
  BlockIndex take(Address address, IsAt is_at) {
    BlockIndex index = slots_.take(slots_.find(key_of(address), is_at));
    if (index == kNoBlock && old_.exists()) {
      index = old_.take(old_.find(key_of(address), is_at));
    }
    count_ -= index != kNoBlock ? 1 : 0;
    return index;
  }

  // Forgets every entry; keeps the host memory.
  void clear() noexcept;

  std::size_t size() const { return count_; }
  std::size_t host_bytes() const { return slots_.host_bytes() + old_.host_bytes(); }

 private:
  struct Slot {
    std::uint32_t key;
    BlockIndex index;  // kNoBlock: empty
  };

  // One array of slots. It is never full, so that each run of used slots ends at an empty one.
  class Slots {
   public:
    Slots() = default;
    explicit Slots(std::uint32_t size_bits);  // throws std::bad_alloc

    bool exists() const { return slots_ != nullptr; }
    std::size_t size() const { return std::size_t{mask_} + 1; }
    std::size_t host_bytes() const { return exists() ? size() * sizeof(Slot) : 0; }

    void place(std::uint32_t key, BlockIndex index) {
      std::uint32_t at = home_of(key);
      while (slots_[at].index != kNoBlock) {
        at = next(at);
      }
      slots_[at] = {key, index};
    }

    // Where the block is filed, or the empty slot that ends the search.
    template <typename IsAt>
    std::uint32_t find(std::uint32_t key, IsAt is_at) const {
      for (std::uint32_t at = home_of(key);; at = next(at)) {
        const Slot& slot = slots_[at];
        if (slot.index == kNoBlock || (slot.key == key && is_at(slot.index))) {
          return at;
        }
      }
    }
    BlockIndex index_at(std::uint32_t at) const { return slots_[at].index; }

    // Empties a slot and returns what was in it. Closes the gap: goes through the rest of the run,
    // and moves an entry into the gap if the entry's home is the gap or a slot before the gap. The
    // slot that the entry leaves is the next gap.
    BlockIndex take(std::uint32_t gap) {
      const BlockIndex taken = slots_[gap].index;
      for (std::uint32_t at = next(gap); slots_[at].index != kNoBlock; at = next(at)) {
        const std::uint32_t home = home_of(slots_[at].key);
        if (((at - home) & mask_) >= ((at - gap) & mask_)) {
          slots_[gap] = slots_[at];
          gap = at;
        }
      }
      slots_[gap] = {};
      return taken;
    }

    Slot& operator[](std::uint32_t at) { return slots_[at]; }
    std::uint32_t next(std::uint32_t at) const { return (at + 1) & mask_; }
    void clear() noexcept { std::fill_n(slots_.get(), size(), Slot{}); }

   private:
    struct Deleter {
      void operator()(Slot* slots) const { std::free(slots); }
    };

    // Fibonacci hashing: the high bits of the product depend on all bits of the key.
    std::uint32_t home_of(std::uint32_t key) const { return (key * 0x9E3779B1U) >> shift_; }

    std::unique_ptr<Slot[], Deleter> slots_;
    std::uint32_t mask_ = 0;
    std::uint32_t shift_ = 0;
  };

  static std::uint32_t key_of(Address address) {
    return static_cast<std::uint32_t>(address / kGranuleBytes);
  }
  void make_room();
  void grow();
  void move_some();

  // A table of up to 256 KiB is at most a quarter full, which saves a mispredicted branch in many
  // searches; a larger one is at most half full.
  static constexpr std::uint32_t kFirstSizeBits = 13;
  static constexpr std::uint32_t kLastSparseSizeBits = 15;
  static std::size_t most_in(std::uint32_t size_bits) {
    return std::size_t{1} << (size_bits <= kLastSparseSizeBits ? size_bits - 2 : size_bits - 1);
  }

  Slots slots_{kFirstSizeBits};
  std::uint32_t size_bits_ = kFirstSizeBits;
  std::size_t count_ = 0;
  // From this count_ on, reserve_one() calls make_room(). 0 while growing.
  std::size_t look_at_ = most_in(kFirstSizeBits);
  // While growing: the old array, with the entries that have not been moved to slots_ yet.
  Slots old_;
  std::uint32_t next_to_move_ = 0;
  std::size_t left_to_move_ = 0;
};

}  // namespace cubfc::arena
