// Opening the device, and what of it is free.
#include "device.h"

#include <chrono>
#include <limits>

#include "clock.h"
#include "config/values.h"

namespace cubfc::bench {
namespace {

std::string no_device(const std::string& why) {
  return "there is no CUDA device to measure: " + why;
}

}  // namespace

std::string take_error(const char* call, cudaError_t error) {
  cudaGetLastError();
  return std::string(call) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) +
         ")";
}

void must(const char* call, cudaError_t error) {
  if (error != cudaSuccess) {
    throw CudaError(take_error(call, error));
  }
}

std::variant<Device, std::string> open_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    return no_device(take_error("cudaGetDeviceCount", error));
  }
  must("cudaGetDeviceCount", error);
  if (count == 0) {
    return no_device("cudaGetDeviceCount counts none");
  }
  Device device;
  const auto start = std::chrono::steady_clock::now();
  must("cudaFree", cudaFree(nullptr));
  device.context_seconds = ns_since(start) * 1e-9;
  cudaDeviceProp properties{};
  must("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0));
  device.name = properties.name;
  must("cudaDriverGetVersion", cudaDriverGetVersion(&device.driver_version));
  must("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&device.runtime_version));
  std::size_t free = 0;
  std::size_t total = 0;
  must("cudaMemGetInfo", cudaMemGetInfo(&free, &total));
  device.free_bytes = free;
  device.total_bytes = total;
  return device;
}

void keep_freed_memory() {
  cudaMemPool_t pool = nullptr;
  must("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t all = std::numeric_limits<std::uint64_t>::max();
  must("cudaMemPoolSetAttribute",
       cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

std::uint64_t bytes_to_use() {
  std::size_t free = 0;
  std::size_t total = 0;
  must("cudaMemGetInfo", cudaMemGetInfo(&free, &total));
  return free / 5 * 4;
}

std::optional<std::string> reason_not_to_hold(std::uint64_t blocks, std::uint64_t bytes) {
  const std::uint64_t most = bytes_to_use();
  if (bytes <= most && blocks <= most / bytes) {
    return std::nullopt;
  }
  return std::to_string(blocks) + (blocks == 1 ? " block of " : " blocks of ") +
         config::size_text(bytes) + " would take more than 80% of the free memory";
}

HeldBlocks::HeldBlocks(Through through, std::uint64_t count, std::uint64_t bytes)
    : through_(through) {
  blocks_.reserve(count);
  while (blocks_.size() < count) {
    void* block = nullptr;
    const cudaError_t error = allocate(through, &block, bytes, stream_.get());
    if (error != cudaSuccess) {
      reason_ = take_error("the blocks to hold", error);
      return;
    }
    blocks_.push_back(block);
  }
  // Other streams use the blocks.
  const cudaError_t error = cudaStreamSynchronize(stream_.get());
  if (error != cudaSuccess) {
    reason_ = take_error("cudaStreamSynchronize", error);
  }
}

void HeldBlocks::free_all() noexcept {
  for (void* const block : blocks_) {
    free_block(through_, block, stream_.get());
  }
  cudaStreamSynchronize(stream_.get());
}

}  // namespace cubfc::bench
