// What an allocator is put through: a flat list of operations, made ready so that a loop over it
// costs next to nothing beside the allocator. Knows sizes and lifetimes; nothing of allocators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace.h"

namespace cubfc::bench {

struct Op {
  std::uint64_t bytes;  // 0: the block in `slot` is freed
  std::uint32_t slot;   // where the program keeps the block; used again after a free
};

enum class Kind : std::uint8_t {
  kTraining,        // recorded, in the order in which a program called
  kStaticLifetime,  // recorded, but of a planner's lifetimes: no program called in this order
  kSynthetic,
};
const char* describe(Kind kind);

struct Workload {
  std::string name;
  Kind kind = Kind::kSynthetic;
  std::vector<Op> ops;  // all that is allocated is freed at the end, so a pass can be repeated
  std::uint32_t slots = 0;
  std::uint64_t allocations = 0;
  std::uint64_t peak_live_bytes = 0;   // as requested
  std::uint64_t peak_block_bytes = 0;  // with the arena's rounding: what no allocator can go below
  std::uint64_t peak_live_blocks = 0;
  std::size_t ops_to_most_blocks = 0;  // after so many, peak_live_blocks are live for the last time
};

// Splitmix64, the same numbers everywhere: the standard's distributions differ between libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  std::uint64_t state_;
};

// Blocks that the trace leaves live are freed after its end, oldest first.
Workload from_trace(const programs::Trace& trace, std::string name, Kind kind);

// Sizes of equal density on a logarithmic scale; `live` blocks; each further operation pair frees
// one of them at random and allocates another.
Workload log_uniform(std::string name, std::uint64_t live, std::uint64_t churn,
                     std::uint64_t largest_bytes);

// Like log_uniform(), of one size.
Workload one_size(std::string name, std::uint64_t live, std::uint64_t churn, std::uint64_t bytes);

// Against best fit: each generation asks for a little less than what the holes of the one before
// offer, so that the tightest hole is always split into a block and a sliver, then for a little
// more than any hole has.
Workload slivers(std::string name);

// The workload with each distinct size scaled by up to 6%, the same for the same variant. Sees
// through the chaos of a single trace, where one block more or less decides about percents.
Workload jittered(const Workload& workload, std::uint64_t variant);

}  // namespace cubfc::bench
