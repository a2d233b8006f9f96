// What an arena returns: an allocation or why there is none, what it knows of a block, and what its
// caller keeps of blocks that are not free yet.
#pragma once

#include <cstdint>

#include "arena/block.h"
#include "arena/units.h"

namespace cubfc::arena {

// Why an allocation failed.
enum class Failure : std::uint8_t {
  kNone,
  kOverLimit,    // the budget does not allow it
  kFragmented,   // enough is free, but not in one piece, and the arena cannot grow
  kExhausted,    // the source has no more
  kTooLarge,     // larger than the arena can ever serve
  kSourceError,  // the source failed for another reason than lack of memory
  kHostMemory,   // the host has no memory for a record
};
// "over the limit", "fragmented", ...: for messages.
const char* describe(Failure failure);

struct Allocation {
  Address address = 0;   // 0 when it failed
  int source_error = 0;  // the source's own code, when the source failed
  Failure failure = Failure::kNone;
  bool grew = false;  // this call obtained memory from the source
};
static_assert(sizeof(Allocation) == 16, "it is returned in registers");

struct BlockInfo {
  Address address = 0;
  std::uint64_t bytes = 0;        // as requested
  std::uint64_t block_bytes = 0;  // with rounding
  std::uint64_t id = 0;           // no other block of this process has or had it; never 0
};

// A block between retire() and reclaim().
struct RetiredBlock {
  BlockIndex index = kNoBlock;
  std::uint64_t bytes = 0;       // rounding included
  std::uint64_t generation = 0;  // of the arena: another one after abandon()
};

// Blocks that gather() has retired, until reclaim() makes them free: a list through their records.
struct GatheredBlocks {
  BlockIndex first = kNoBlock;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;       // rounding included
  std::uint64_t generation = 0;  // as a RetiredBlock's
};

}  // namespace cubfc::arena
