// What one run found.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fit.h"
#include "latency.h"
#include "scaling.h"
#include "speed.h"
#include "workload.h"

namespace cubfc::bench {

struct InputResult {
  const Workload* workload = nullptr;
  PairTimes pairs;
  Latencies latencies;
  double host_bytes_a_block = 0;
  std::vector<Fit> fits;  // in the order of kFitters; fewer when some were left out
};

// Geometric means of ratios over the floor.
struct Summary {
  std::size_t inputs = 0;
  double by_handle = 0;  // over the floor without a lock
  double locked = 0;     // over the floor with two lock-unlock pairs
  double as_the_shim = 0;
  double locked_ns = 0;
};

struct Results {
  std::vector<InputResult> inputs;
  std::optional<Summary> training;  // over the training traces
  std::vector<const Workload*> jittered_of;
  std::vector<JitteredFit> jittered;
  std::vector<Retrievable> retrievable;  // of jittered_of
  std::vector<ThreadsTime> threads;
  std::vector<RegionsTime> regions;
  std::string regions_of;  // the input the regions were measured with
};

}  // namespace cubfc::bench
