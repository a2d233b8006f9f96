// What an arena can tell about itself.
#pragma once

#include <cstdint>
#include <span>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Counts and bytes at one moment. The first group has the names of XLA's allocator statistics.
struct Stats {
  std::uint64_t num_allocs = 0;    // allocations that succeeded
  std::uint64_t bytes_in_use = 0;  // of live and retired blocks, rounding included
  std::uint64_t peak_bytes_in_use = 0;
  std::uint64_t largest_alloc_size = 0;        // as requested
  std::uint64_t bytes_limit = 0;               // Budget::kUnlimited when there is none
  std::uint64_t largest_free_block_bytes = 0;  // the largest request that needs no growth
  std::uint64_t pool_bytes = 0;                // of regions, as obtained from the source
  std::uint64_t peak_pool_bytes = 0;

  std::uint64_t num_frees = 0;
  std::uint64_t num_failures = 0;     // count_failure()
  std::uint64_t bytes_requested = 0;  // of live blocks, as requested
  std::uint64_t bytes_retired = 0;    // freed by the program, waiting for the device
  std::uint64_t live_blocks = 0;
  std::uint64_t regions = 0;
  std::uint64_t regions_obtained = 0;  // since the arena began
  std::uint64_t usable_bytes = 0;      // of regions, less their unused leads

  std::uint64_t free_bytes() const { return usable_bytes - bytes_in_use; }
};

// The blocks that the arena's user has marked (kMarked), and the memory that all blocks come from.
struct Marked {
  std::uint64_t bytes = 0;  // of live blocks, as requested
  std::uint64_t peak_bytes = 0;
  std::uint64_t pool_bytes = 0;  // see Stats
  std::uint64_t peak_pool_bytes = 0;
};

// A block of a snapshot. Neighbours of one region follow each other in address order.
struct BlockSnapshot {
  Address address = 0;
  std::uint64_t bytes = 0;  // rounding included
  BlockState state = BlockState::kFree;
  std::uint64_t marked_bytes = 0;  // see Marked
};

// The bytes of whole pages in free blocks: where memory is mapped in pages, only these can move.
inline std::uint64_t free_in_whole_pages(std::span<const BlockSnapshot> blocks,
                                         std::uint64_t page_bytes) {
  std::uint64_t bytes = 0;
  for (const BlockSnapshot& block : blocks) {
    const std::uint64_t first = (block.address + page_bytes - 1) / page_bytes;
    const std::uint64_t end = (block.address + block.bytes) / page_bytes;
    if (block.state == BlockState::kFree && end > first) {
      bytes += (end - first) * page_bytes;
    }
  }
  return bytes;
}

}  // namespace cubfc::arena
