// How little memory a workload can be served from: fragmentation as a program meets it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "workload.h"

namespace cubfc::bench {

enum class Fitter : std::uint8_t {
  kArena,
  kDeferred,
  kPreallocated,
  kGrown,
  kMapped,
  kXla,
  kFirstFit
};
inline constexpr std::array kFitters = {Fitter::kArena,   Fitter::kDeferred, Fitter::kPreallocated,
                                        Fitter::kGrown,   Fitter::kMapped,   Fitter::kXla,
                                        Fitter::kFirstFit};
const char* describe(Fitter fitter);

// All over the peak of live bytes, as requested. 0: not measured, or not to be had.
struct Fit {
  double extent = 0;           // addresses used when there is room in plenty
  double least_capacity = 0;   // the smallest region, or device, in which no allocation fails
  std::uint64_t overlaps = 0;  // blocks handed out that were not free
  // With room in plenty, of an arena that grows: the most memory that it has taken, and how often
  // it has grown.
  double taken = 0;
  std::uint64_t growths = 0;
};

// `look_for_least` costs about fifteen passes.
Fit measure_fit(Fitter fitter, const Workload& workload, bool look_for_least);

// The least capacity over the peak by bisection; 0 when four times the peak does not do.
double least_capacity(Fitter fitter, const Workload& workload);

// What a preallocated arena of slices could give back at any moment, on a device with a third more
// than the peak; in the second of two passes.
struct Retrievable {
  double share = 0;         // of what no live block takes, on average over all operations
  double driver_calls = 0;  // for each allocation
};
Retrievable measure_retrievable(const Workload& workload);

struct JitteredFit {
  Fitter fitter = Fitter::kArena;
  double mean = 0;
  double worst = 0;
  std::string worst_input;
  std::vector<double> means;  // of each input's variants
};

// Least capacity over peak of `variants` variants of each workload. Calls `progress` with each
// workload's name.
std::vector<JitteredFit> measure_jittered(const std::vector<const Workload*>& workloads,
                                          int variants,
                                          const std::function<void(const std::string&)>& progress);

}  // namespace cubfc::bench
