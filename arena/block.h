// A block's record, and the slab that the records live in. Records lie in host memory: the host
// cannot read device memory, so nothing about a block is ever stored in the block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cubfc::arena {

// Names a record. Record 0 is a sentinel: always "live", so that code which looks at a neighbour
// needs no test for the end of a region.
using BlockIndex = std::uint32_t;
inline constexpr BlockIndex kNoBlock = 0;

enum class BlockState : std::uint8_t {
  kUnused,   // the record describes nothing; it is on the slab's free list
  kFree,     // a hole, in exactly one bin
  kLive,     // handed out
  kRetired,  // freed by the program; not handed out again before it is reclaimed
};

struct Block {
  // Where the block lies, in granules from the start of its region.
  std::uint32_t start = 0;
  std::uint32_t granules = 0;
  // The neighbours by address in the same region, kNoBlock at its ends.
  BlockIndex previous = kNoBlock;
  BlockIndex next = kNoBlock;
  std::uint16_t region = 0;
  BlockState state = BlockState::kUnused;
  bool in_trie =
      false;  // of a free block: a node of its bin's trie, not a follower in a node's ring

  struct Hole {  // of a free block: its place in its bin
    BlockIndex child[2];
    BlockIndex parent;
    BlockIndex ring_next;
    BlockIndex ring_previous;
  };
  struct Use {                   // of a live or retired block
    std::uint32_t unused_bytes;  // the block's bytes less the bytes that were asked for
    std::uint32_t id_low;        // a number that no other block of the process has
    std::uint32_t id_high;
  };
  union {
    Hole hole;
    Use use;
  };

  Block() : hole{} {}
};
static_assert(sizeof(Block) == 40);

// All records of an arena, by index. Chunks never move, so a reference outlives later acquires.
// Not thread-safe.
class BlockSlab {
 public:
  BlockSlab() {
    chunks_.push_back(std::make_unique<Block[]>(kChunk));
    chunks_[0][kNoBlock].state = BlockState::kLive;
  }

  Block& operator[](BlockIndex index) { return chunks_[index / kChunk][index % kChunk]; }
  const Block& operator[](BlockIndex index) const {
    return chunks_[index / kChunk][index % kChunk];
  }

  // A record that nobody else has. Throws std::bad_alloc when the host has no memory.
  BlockIndex acquire() {
    BlockIndex index = first_unused_;
    if (index != kNoBlock) {
      first_unused_ = (*this)[index].next;
    } else {
      reserve(1);
      index = size_++;
    }
    (*this)[index] = Block{};
    return index;
  }

  // Makes sure that the next `count` acquires cannot fail. Throws std::bad_alloc.
  void reserve(std::uint32_t count) {
    while (chunks_.size() * kChunk < std::size_t{size_} + count) {
      chunks_.push_back(std::make_unique<Block[]>(kChunk));
    }
  }

  void release(BlockIndex index) {
    Block& block = (*this)[index];
    block.state = BlockState::kUnused;
    block.next = first_unused_;
    first_unused_ = index;
  }

  // Forgets every record; keeps their host memory.
  void clear() noexcept {
    size_ = 1;
    first_unused_ = kNoBlock;
  }

  // Host memory in bytes.
  std::size_t host_bytes() const { return chunks_.size() * kChunk * sizeof(Block); }

 private:
  static constexpr std::uint32_t kChunk = 1024;

  std::vector<std::unique_ptr<Block[]>> chunks_;
  std::uint32_t size_ = 1;  // records ever acquired, the sentinel included
  BlockIndex first_unused_ = kNoBlock;
};

}  // namespace cubfc::arena
