// Identifies a stream among all streams of the process. Knows which handles mean the same stream.
#pragma once

#include <cuda.h>

#include <atomic>
#include <compare>
#include <cstdint>

namespace cubfc {

struct StreamId {
  // Unique in the process; but the handle of a default stream is unique only in a context.
  std::uintptr_t handle;
  // number_of_thread() for a per-thread default stream, whose handle is the same in all threads;
  // else 0.
  std::uint64_t thread;
  // clang-tidy 14 takes a 0 in the code that the compiler generates here for a null pointer.
  auto operator<=>(const StreamId&) const = default;  // NOLINT(modernize-use-nullptr)

  bool is_default() const {
    return handle == reinterpret_cast<std::uintptr_t>(CU_STREAM_LEGACY) ||
           handle == reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD);
  }
};

// A number of this thread's that no other thread of the process has or had. Never 0.
inline std::uint64_t number_of_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

// `stream` as this thread named it; `per_thread` when its stream 0 is the per-thread default
// stream.
inline StreamId stream_id(CUstream stream, bool per_thread) {
  if (stream == nullptr) {
    stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }
  const bool of_thread = stream == CU_STREAM_PER_THREAD;
  return {reinterpret_cast<std::uintptr_t>(stream), of_thread ? number_of_thread() : 0};
}

}  // namespace cubfc
