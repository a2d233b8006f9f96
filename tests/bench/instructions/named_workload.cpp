#include "named_workload.h"

#include <stdexcept>

#include "inputs.h"

namespace cubfc::bench {
namespace {

Workload ring(std::uint32_t live) {
  constexpr std::uint32_t kRounds = 4096;
  Workload ring;
  ring.name = "ring";
  ring.slots = live;
  for (std::uint32_t i = 0; i < live + kRounds; ++i) {
    if (i >= live) {
      ring.ops.push_back({0, i % live});
    }
    ring.ops.push_back({1U << 20, i % live});
  }
  for (std::uint32_t i = 0; i < live; ++i) {
    ring.ops.push_back({0, i});
  }
  ring.allocations = live + kRounds;
  ring.peak_live_bytes = std::uint64_t{live} << 20;
  ring.peak_block_bytes = ring.peak_live_bytes;
  ring.peak_live_blocks = live;
  return ring;
}

// The number behind the prefix; 0: the name is another's.
std::uint32_t number_behind(const std::string& prefix, const std::string& name) {
  return name.starts_with(prefix)
             ? static_cast<std::uint32_t>(std::stoul(name.substr(prefix.size())))
             : 0;
}

}  // namespace

Workload named_workload(const std::string& name) {
  if (const std::uint32_t live = number_behind("ring_", name); live > 0) {
    return ring(live);
  }
  if (const std::uint32_t live = number_behind("live_", name); live > 0) {
    return log_uniform(name, live, 10'000, 16U << 20);
  }
  if (name == "training_like") {
    return from_trace(programs::synthetic_trace(20'000, 1), name, Kind::kSynthetic);
  }
  return recorded_input(name);
}

}  // namespace cubfc::bench
