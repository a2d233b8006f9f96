// What memory costs that nothing has cached yet. Each figure is of one call: no second one would be
// the same.
#include "clock.h"
#include "device.h"
#include "sections.h"

namespace cubfc::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFirstBytes = 1U << 20;

GrowthPoint measure(std::uint64_t bytes) {
  GrowthPoint point;
  point.bytes = bytes;
  point.reason = reason_not_to_hold(1, bytes);
  if (point.reason) {
    return point;
  }
  void* block = nullptr;
  const Clock::time_point start = Clock::now();
  const cudaError_t error = cudaMalloc(&block, bytes);
  const double allocate_ns = ns_since(start);
  if (error != cudaSuccess) {
    point.reason = take_error("cudaMalloc", error);
    return point;
  }
  point.allocate_ns = allocate_ns;
  const Clock::time_point again = Clock::now();
  must("cudaFree", cudaFree(block));
  point.free_ns = ns_since(again);
  return point;
}

// What a stream's first use takes is not the allocation's.
void use_device() {
  const Stream stream;
  must("cudaStreamSynchronize", cudaStreamSynchronize(stream.get()));
  must("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

}  // namespace

Growth measure_device_growth(const DeviceArguments& arguments) {
  use_device();
  Growth growth;
  growth.first = measure(kFirstBytes);
  for (const std::uint64_t bytes : arguments.growth_sizes) {
    growth.sizes.push_back(measure(bytes));
  }
  return growth;
}

}  // namespace cubfc::bench
