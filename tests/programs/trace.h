// A sequence of allocations and frees, recorded or made up. Knows nothing of CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace programs {

struct TraceOp {
  enum class Action { kAllocate, kFree };
  Action action;
  std::uint32_t block;  ///< which one, from 0; no number stands for two allocations
  std::uint64_t bytes;  ///< of an allocation
};

struct Trace {
  std::vector<TraceOp> ops;
  std::uint32_t blocks = 0;             ///< how many allocations there are
  std::uint64_t recorded_failures = 0;  ///< requests that got no memory; they are not played
  std::uint64_t unknown_frees =
      0;  ///< frees of what was allocated before the recording; not played
};

/// Reads any recording that `cubfc replay` reads, such as a log of RMM's. Throws
/// std::runtime_error, whose text names the file and what is wrong where.
Trace read_trace(const std::string& path);

/// A made-up trace of `ops` operations with the sizes and lifetimes of training: many small
/// short-lived blocks, a few large ones that stay. The same for the same seed on every machine.
Trace synthetic_trace(std::uint64_t ops, std::uint64_t seed);

}  // namespace programs
