// Device 0 through the CUDA runtime, as device_bench uses it: errors, streams, the two ways to
// allocate.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "arguments.h"

namespace cubfc::bench {

// A CUDA call that must not fail did; what() names it and the error.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// "cudaMalloc: cudaErrorMemoryAllocation (out of memory)". It is the thread's last error no longer.
std::string take_error(const char* call, cudaError_t error);

// Throws CudaError.
void must(const char* call, cudaError_t error);

struct Device {
  std::string name;
  int driver_version = 0;
  int runtime_version = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;  // before anything was allocated
  double context_seconds = 0;    // of the process's first call that needs a context
};

// Makes the context, allocates nothing. A text when there is no device or no driver; throws
// CudaError for anything else.
std::variant<Device, std::string> open_device();

// The pool of cudaMallocAsync gives nothing back to the device: who uses it for speed sets it so.
void keep_freed_memory();

// 80% of what is free now; the rest is for rounding, fragmentation and what the driver takes
// itself.
std::uint64_t bytes_to_use();

// Nothing when so many blocks of a size fit into bytes_to_use(); otherwise why it is not tried.
std::optional<std::string> reason_not_to_hold(std::uint64_t blocks, std::uint64_t bytes);

class Stream {
 public:
  Stream() { must("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream_, kFlags)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  static constexpr unsigned kFlags = cudaStreamNonBlocking;
  cudaStream_t stream_ = nullptr;
};

inline cudaError_t allocate(Through through, void** out, std::uint64_t bytes, cudaStream_t stream) {
  return through == Through::kMalloc ? cudaMalloc(out, bytes) : cudaMallocAsync(out, bytes, stream);
}

inline cudaError_t free_block(Through through, void* block, cudaStream_t stream) {
  return through == Through::kMalloc ? cudaFree(block) : cudaFreeAsync(block, stream);
}

// Blocks that are held; they are freed, and that has happened, when this goes.
class HeldBlocks {
 public:
  HeldBlocks(Through through, std::uint64_t count, std::uint64_t bytes);
  ~HeldBlocks() { free_all(); }
  HeldBlocks(const HeldBlocks&) = delete;
  HeldBlocks& operator=(const HeldBlocks&) = delete;

  // Why not all of them are there; nothing when they are.
  const std::optional<std::string>& reason() const { return reason_; }
  void* at(std::size_t index) const { return blocks_[index]; }

 private:
  void free_all() noexcept;

  Through through_;
  Stream stream_;
  std::vector<void*> blocks_;
  std::optional<std::string> reason_;
};

}  // namespace cubfc::bench
