// What device_bench measures, one function a section. Each takes a device on which open_device()
// has made a context; each throws CudaError when a call fails that must not. An allocation that
// fails is no error but a reason: the figure is then missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arguments.h"
#include "workload.h"

namespace cubfc::bench {

using Reason = std::optional<std::string>;  // why figures are missing; nothing when they are there

// How long single calls took. Nothing where too few were timed to tell.
struct Quantiles {
  std::uint64_t calls = 0;
  std::optional<double> p50_ns;
  std::optional<double> p99_ns;   // of 100 calls and more
  std::optional<double> p999_ns;  // of 1000 calls and more
};

struct PairPoint {
  Through through{};
  std::uint64_t bytes = 0;
  std::uint64_t threads = 0;
  std::uint64_t live = 0;
  std::uint64_t pairs = 0;                  // in all rounds
  std::optional<double> ns_per_pair;        // as one thread sees it; without the synchronization
  std::optional<double> pairs_per_second;   // of all threads together
  std::optional<double> sync_ns_per_batch;  // through kAsync: of cudaStreamSynchronize
  std::optional<Quantiles> allocate;        // one thread only
  std::optional<Quantiles> free;
  Reason reason;
};

// Pairs between two synchronizations of the stream, through kAsync.
inline constexpr std::uint64_t kPairsPerBatch = 64;

std::vector<PairPoint> measure_device_pairs(const DeviceArguments& arguments);

struct IterationTimes {
  double host_ns = 0;  // until the host is through the loop
  double done_ns = 0;  // until the device is done, too
};

struct LoopPoint {
  Through through{};
  std::uint64_t streams = 0;
  std::uint64_t bytes = 0;
  std::uint64_t iterations = 0;  // of the shortest round
  std::size_t rounds = 0;
  std::optional<IterationTimes> allocating;
  std::optional<IterationTimes> floor;  // without allocation
  Reason reason;
};

std::vector<LoopPoint> measure_loop(const DeviceArguments& arguments);

struct TracePass {
  std::uint64_t operations = 0;  // fewer than the trace has when it took too long
  std::uint64_t failures = 0;    // allocations that failed
  std::uint64_t peak_bytes = 0;  // of what was live at once
  double allocate_seconds = 0;
  double free_seconds = 0;
  std::optional<double> ns_per_pair;  // nothing when no allocation succeeded
};

struct TraceResult {
  std::string name;
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t peak_bytes = 0;  // as recorded
  std::uint64_t divided_by = 1;  // the sizes, to fit the device or as asked
  bool divided_to_fit = false;   // by more than was asked
  TracePass first;
  TracePass repeated;  // the pass with the median time of those after the first
  std::size_t repetitions = 0;
};

std::vector<TraceResult> measure_traces(const DeviceArguments& arguments,
                                        const std::vector<Workload>& traces);

struct GrowthPoint {
  std::uint64_t bytes = 0;
  std::optional<double> allocate_ns;
  std::optional<double> free_ns;
  Reason reason;
};

struct Growth {
  GrowthPoint first;  // the first cudaMalloc of the process
  std::vector<GrowthPoint> sizes;
};

Growth measure_device_growth(const DeviceArguments& arguments);

struct Idle {
  std::uint64_t launches = 0;  // of a round
  std::size_t rounds = 0;
  std::optional<double> seconds;  // of a round
  Reason reason;
};

Idle measure_idle(const DeviceArguments& arguments);

}  // namespace cubfc::bench
