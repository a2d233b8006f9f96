// A recorded sequence of allocations and frees, in the format that RMM's logging adaptor writes
// (Thread,Time,Action,Pointer,Size,Stream). Knows text and numbers, nothing of CUDA.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <variant>
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
  std::uint64_t recorded_failures = 0;  ///< "allocate failure" lines; they are not played
  std::uint64_t unknown_frees =
      0;  ///< frees of what was allocated before the recording; not played
};

/// "line 7: the size is not a number".
struct TraceError {
  std::string text;
};

/// Reads a whole trace, or says what is wrong with its first bad line. An empty line is no error; a
/// header line is expected.
std::variant<Trace, TraceError> read_trace(std::istream& input);

/// A made-up trace of `ops` operations with the sizes and lifetimes of training: many small
/// short-lived blocks, a few large ones that stay. The same for the same seed on every machine.
Trace synthetic_trace(std::uint64_t ops, std::uint64_t seed);

}  // namespace programs
