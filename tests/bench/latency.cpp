// One time stamp before and one behind each call.
#include "latency.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "arena_contenders.h"
#include "clock.h"
#include "play.h"

namespace cubfc::bench {
namespace {

using Ticks = std::vector<std::uint32_t>;

// By operation.
Ticks time_each(ByAddress& allocator, const Workload& workload, Handles<ByAddress>& handles) {
  Ticks ticks;
  ticks.reserve(workload.ops.size());
  for (const Op& op : workload.ops) {
    std::uint64_t spent = 0;
    if (op.bytes == 0) {
      const ByAddress::Handle handle = handles[op.slot];
      const std::uint64_t before = ticks_before();
      allocator.free(handle);
      spent = ticks_after() - before;
    } else {
      const std::uint64_t before = ticks_before();
      const ByAddress::Handle handle = allocator.allocate(op.bytes);
      spent = ticks_after() - before;
      handles[op.slot] = handle;
    }
    ticks.push_back(static_cast<std::uint32_t>(
        std::min<std::uint64_t>(spent, std::numeric_limits<std::uint32_t>::max())));
  }
  return ticks;
}

Distribution distribution_of(Ticks ticks, const TickScale& scale) {
  if (ticks.empty()) {
    return {};
  }
  std::sort(ticks.begin(), ticks.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(ticks.size()));
    return scale.ns(ticks[std::min(index, ticks.size() - 1)]);
  };
  return {at(0.5), at(0.99), at(0.999), scale.ns(ticks.back())};
}

void append_calls(Ticks& to, const Ticks& ticks, const Workload& workload, bool frees) {
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    if ((workload.ops[i].bytes == 0) == frees) {
      to.push_back(ticks[i]);
    }
  }
}

Ticks medians_by_operation(const std::vector<Ticks>& rounds) {
  Ticks medians = rounds.front();
  std::vector<std::uint32_t> one(rounds.size());
  for (std::size_t i = 0; i < medians.size(); ++i) {
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      one[round] = rounds[round][i];
    }
    const auto middle = one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2);
    std::nth_element(one.begin(), middle, one.end());
    medians[i] = *middle;
  }
  return medians;
}

}  // namespace

double host_bytes_a_block(const Workload& workload) {
  Workload start = workload;
  start.ops.resize(workload.ops_to_most_blocks);
  for (const double room : {1.25, 2.0}) {
    ByAddress allocator(ample_capacity(workload, room));
    Handles<ByAddress> handles(workload.slots);
    if (play(allocator, start, handles)) {
      return static_cast<double>(allocator.arena().host_bytes()) /
             static_cast<double>(workload.peak_live_blocks);
    }
  }
  return 0;
}

Latencies measure_latencies(const Workload& workload, int rounds) {
  const TickScale scale = calibrate_ticks();
  Handles<ByAddress> handles(workload.slots);
  Latencies latencies;
  Ticks first;
  for (int i = 0; i < rounds; ++i) {
    ByAddress fresh(ample_capacity(workload));
    append_calls(first, time_each(fresh, workload, handles), workload, false);
  }
  ByAddress allocator(ample_capacity(workload));
  play(allocator, workload, handles);
  std::vector<Ticks> timed;
  Ticks allocations;
  Ticks frees;
  for (int i = 0; i < rounds; ++i) {
    timed.push_back(time_each(allocator, workload, handles));
    append_calls(allocations, timed.back(), workload, false);
    append_calls(frees, timed.back(), workload, true);
  }
  Ticks steady;
  append_calls(steady, medians_by_operation(timed), workload, false);
  latencies.allocate = distribution_of(std::move(allocations), scale);
  latencies.free = distribution_of(std::move(frees), scale);
  latencies.steady = distribution_of(std::move(steady), scale);
  latencies.first_allocate = distribution_of(std::move(first), scale);
  return latencies;
}

}  // namespace cubfc::bench
