#include "kernels.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "fill.h"
#include "graph.h"

namespace standin {
namespace {

// __global__ void fill(uint32_t* data, uint32_t value, size_t count)
void Fill(const Launch& launch) {
  auto* const data = launch.argument<std::uint32_t*>(0);
  const auto count = std::min(launch.argument<std::uint64_t>(2), launch.threads());
  FillRow(data, count, launch.argument<std::uint32_t>(1));
}

// __global__ void add(float* out, const float* x, const float* y, size_t count)
void Add(const Launch& launch) {
  auto* const out = launch.argument<float*>(0);
  const auto* const x = launch.argument<const float*>(1);
  const auto* const y = launch.argument<const float*>(2);
  const auto count = std::min(launch.argument<std::uint64_t>(3), launch.threads());
  for (std::uint64_t i = 0; i < count; ++i) out[i] = x[i] + y[i];
}

// __global__ void spin(unsigned long long ns)
void Spin(const Launch& launch) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(launch.argument<std::uint64_t>(0)));
}

// __global__ void set_conditional(cudaGraphConditionalHandle handle, unsigned value): calls
// cudaGraphSetConditional
void SetConditional(const Launch& launch) {
  SetCondition(launch.argument<std::uint64_t>(0), launch.argument<unsigned>(1));
}

// __global__ void count_down(cudaGraphConditionalHandle handle, unsigned* left): takes one off what
// is left, and that is the handle's new value
void CountDown(const Launch& launch) {
  SetCondition(launch.argument<std::uint64_t>(0), --*launch.argument<unsigned*>(1));
}

}  // namespace

std::uint64_t Launch::threads() const {
  std::uint64_t result = 1;
  for (int i = 0; i < 3; ++i) result *= std::uint64_t{grid[i]} * block[i];
  return result;
}

const Kernel* FindKernel(std::string_view name) {
  static const auto* const kernels =
      new std::vector<Kernel>{{"fill", {8, 4, 8}, 1, Fill},
                              {"add", {8, 8, 8, 8}, 3, Add},
                              {"spin", {8}, 0, Spin},
                              {"set_conditional", {8, 4}, 0, SetConditional},
                              {"count_down", {8, 8}, 0, CountDown}};
  for (const Kernel& kernel : *kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace standin
