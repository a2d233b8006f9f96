// A block's record, and the slab that the records live in. Records lie in host memory: the host
// cannot read device memory, so nothing about a block is ever stored in the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "arena/units.h"

namespace cubfc::arena {

// The index of a record in the slab. Record 0 is no block's, but may be written. So code that links
// blocks needs no check for kNoBlock, which would be a branch that the processor cannot predict.
using BlockIndex = std::uint32_t;
inline constexpr BlockIndex kNoBlock = 0;

// The bit of a caller's number (see Block::number()) that marks a block as one that Arena::marked()
// counts.
inline constexpr std::uint8_t kMarked = 0x80;

enum class BlockState : std::uint8_t {
  kUnused,   // the record describes nothing; it is on the slab's free list
  kFree,     // a hole, in exactly one bin
  kLive,     // handed out
  kRetired,  // freed by the program; not handed out again before it is reclaimed
  kVacant,   // addresses without memory, in exactly one bin of their own
  kMoving,   // on its way between free and vacant: memory is being mapped or unmapped there
  kEdge,     // no block: lies before a region's first block and behind its last one
};

// A trivial type, for which all zeros is a valid record: the slab hands out zero pages of the
// system as they are.
struct Block {
  // Where the block lies, in granules from the start of its region.
  std::uint32_t start;
  std::uint32_t granules;
  // The neighbours by address in the same region: a ring, closed by the region's edge.
  BlockIndex previous;
  BlockIndex next;

  struct Hole {  // of a free or vacant block: its place in its bin
    BlockIndex next;
    BlockIndex previous;
    std::uint32_t size_class;
  };
  struct Use {                       // of a live or retired block
    std::uint32_t number_halves[2];  // see number()
    union {
      std::uint32_t padding;     // of a live block: its bytes less the requested bytes
      BlockIndex next_gathered;  // of a retired block: see Arena::gather()
    };
  };
  union {
    Hole hole;
    Use use;
  };

  std::uint16_t region;
  BlockState state;

  enum Nature : std::uint8_t {
    kStays,         // of a size that had never been freed when it was handed out
    kComesAndGoes,  // its size had been freed before
    kOwnRegion,     // it is the only block of its region
  };
  Nature nature;  // of a live or retired block

  std::uint64_t end() const { return std::uint64_t{start} + granules; }

  // Of a live or retired block: kNumberStep times a number that no other block of the process has
  // or had, plus the caller that asked for it (kMarked included).
  static constexpr std::uint64_t kNumberStep = 256;
  void set_number(std::uint64_t number) { std::memcpy(use.number_halves, &number, sizeof(number)); }
  std::uint64_t number() const {
    std::uint64_t number = 0;
    std::memcpy(&number, use.number_halves, sizeof(number));
    return number;
  }
  std::uint64_t id() const { return number() / kNumberStep; }
  std::uint8_t caller() const { return static_cast<std::uint8_t>(number() % kMarked); }
  bool is_marked() const { return (number() & kMarked) != 0; }
  // Of a live block.
  std::uint64_t requested_bytes() const { return granules * kGranuleBytes - use.padding; }
};
static_assert(sizeof(Block) == 32, "two records share a cache line");

// All records of an arena, by index, in one array that grows. A reference is good until the next
// reserve(). Not thread-safe.
class BlockSlab {
 public:
  BlockSlab() = default;
  BlockSlab(const BlockSlab&) = delete;
  BlockSlab& operator=(const BlockSlab&) = delete;
  ~BlockSlab();

  Block& operator[](BlockIndex index) { return records_[index]; }
  const Block& operator[](BlockIndex index) const { return records_[index]; }

  // Makes sure that the next `count` acquires cannot fail, nor move the records. Throws
  // std::bad_alloc and is unchanged then.
  void reserve(std::uint32_t count) {
    if (std::size_t{size_} + count > capacity_) [[unlikely]] {
      grow(count);
    }
  }

  // An unused record. The caller must set its fields from `start` to `state`, and need not set
  // others. Precondition: reserve().
  BlockIndex acquire() {
    if (const BlockIndex index = first_unused_; index != kNoBlock) [[likely]] {
      first_unused_ = records_[index].next;
      return index;
    }
    return size_++;
  }

  // The record last released is the next to be acquired: it is still in the cache.
  void release(BlockIndex index) {
    records_[index].state = BlockState::kUnused;
    records_[index].next = std::exchange(first_unused_, index);
  }

  // Forgets every record; keeps their host memory.
  void clear() noexcept {
    size_ = 1;
    first_unused_ = kNoBlock;
  }

  // Host memory in bytes, as far as records have been used.
  std::size_t host_bytes() const { return std::size_t{size_} * sizeof(Block); }

 private:
  void grow(std::uint32_t count);

  Block* records_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint32_t size_ = 1;  // records ever acquired, the one of kNoBlock included
  BlockIndex first_unused_ = kNoBlock;
};

}  // namespace cubfc::arena
