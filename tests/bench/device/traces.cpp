// Recorded allocations at full speed. Every call is timed alone, so that the loop around them is
// not in the figures; the memory is never touched.
#include <algorithm>
#include <chrono>
#include <utility>

#include "clock.h"
#include "device.h"
#include "sections.h"

namespace cubfc::bench {
namespace {

constexpr std::size_t kMostRepetitions = 9;
// A pass is cut off then: a driver may take seconds for what an arena does in milliseconds.
constexpr double kLongestPassNs = 10e9;

class Player {
 public:
  Player(const Workload& trace, std::uint64_t divided_by, const TickScale& scale)
      : trace_(trace), divided_by_(divided_by), scale_(scale), blocks_(trace.slots) {}

  TracePass play() {
    pass_ = {};
    allocations_ = {};
    frees_ = {};
    live_bytes_ = 0;
    for (const Op& op : trace_.ops) {
      if (op.bytes == 0) {
        free(blocks_[op.slot]);
      } else {
        allocate(blocks_[op.slot], std::max<std::uint64_t>(op.bytes / divided_by_, 1));
      }
      ++pass_.operations;
      if (ns(allocations_) + ns(frees_) > kLongestPassNs) {
        break;
      }
    }
    const TracePass pass = finished();
    for (Block& block : blocks_) {  // what a pass that was cut off has left
      free(block);
    }
    return pass;
  }

 private:
  struct Block {
    void* address = nullptr;  // none: not allocated, or that failed
    std::uint64_t bytes = 0;
  };
  struct Calls {
    std::uint64_t count = 0;
    std::uint64_t ticks = 0;
  };

  void allocate(Block& block, std::uint64_t bytes) {
    const std::uint64_t before = ticks_before();
    const cudaError_t error = cudaMalloc(&block.address, bytes);
    allocations_.ticks += ticks_after() - before;
    ++allocations_.count;
    if (error != cudaSuccess) {
      cudaGetLastError();
      block.address = nullptr;
      ++pass_.failures;
      return;
    }
    block.bytes = bytes;
    live_bytes_ += bytes;
    pass_.peak_bytes = std::max(pass_.peak_bytes, live_bytes_);
  }

  void free(Block& block) {
    if (block.address == nullptr) {
      return;
    }
    const std::uint64_t before = ticks_before();
    const cudaError_t error = cudaFree(block.address);
    frees_.ticks += ticks_after() - before;
    ++frees_.count;
    must("cudaFree", error);
    live_bytes_ -= block.bytes;
    block = {};
  }

  double ns(const Calls& calls) const {
    const std::uint64_t overhead = calls.count * scale_.overhead_ticks;
    return calls.ticks > overhead ? static_cast<double>(calls.ticks - overhead) * scale_.ns_per_tick
                                  : 0;
  }

  TracePass finished() const {
    TracePass pass = pass_;
    pass.allocate_seconds = ns(allocations_) * 1e-9;
    pass.free_seconds = ns(frees_) * 1e-9;
    if (allocations_.count > pass.failures) {
      pass.ns_per_pair =
          (ns(allocations_) + ns(frees_)) / static_cast<double>(allocations_.count - pass.failures);
    }
    return pass;
  }

  const Workload& trace_;
  std::uint64_t divided_by_;
  const TickScale& scale_;
  std::vector<Block> blocks_;  // by slot
  std::uint64_t live_bytes_ = 0;
  Calls allocations_;
  Calls frees_;
  TracePass pass_;
};

double seconds_of(const TracePass& pass) {
  return pass.allocate_seconds + pass.free_seconds;
}

TraceResult measure(const Workload& trace, const DeviceArguments& arguments,
                    const TickScale& scale) {
  TraceResult result;
  result.name = trace.name;
  result.operations = trace.ops.size();
  result.allocations = trace.allocations;
  result.peak_bytes = trace.peak_live_bytes;
  const std::uint64_t room = std::max<std::uint64_t>(bytes_to_use(), 1);
  const std::uint64_t to_fit = (trace.peak_block_bytes + room - 1) / room;
  result.divided_to_fit = to_fit > arguments.scale;
  result.divided_by = std::max(arguments.scale, to_fit);
  Player player(trace, result.divided_by, scale);
  result.first = player.play();
  const double limit = std::chrono::duration<double>(arguments.time_per_point).count();
  std::vector<TracePass> passes;
  double spent = 0;
  do {
    passes.push_back(player.play());
    spent += seconds_of(passes.back());
  } while (spent < limit && passes.size() < kMostRepetitions);
  result.repetitions = passes.size();
  const auto middle = passes.begin() + static_cast<std::ptrdiff_t>(passes.size() / 2);
  std::nth_element(
      passes.begin(), middle, passes.end(),
      [](const TracePass& a, const TracePass& b) { return seconds_of(a) < seconds_of(b); });
  result.repeated = *middle;
  return result;
}

}  // namespace

std::vector<TraceResult> measure_traces(const DeviceArguments& arguments,
                                        const std::vector<Workload>& traces) {
  const TickScale scale = calibrate_ticks();
  std::vector<TraceResult> results;
  for (const Workload& trace : traces) {
    results.push_back(measure(trace, arguments, scale));
  }
  return results;
}

}  // namespace cubfc::bench
