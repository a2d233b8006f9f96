// Time stamps for single calls of some ten nanoseconds, and medians. On x86-64 the time-stamp
// counter, calibrated against the steady clock; elsewhere clock_gettime.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <ctime>
#endif

namespace cubfc::bench {

// What lies between ticks_before() and ticks_after() is executed between them: the fences keep the
// processor from moving it out.
#if defined(__x86_64__)
inline std::uint64_t ticks_before() {
  _mm_lfence();
  const std::uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}
inline std::uint64_t ticks_after() {
  unsigned processor = 0;
  const std::uint64_t ticks = __rdtscp(&processor);
  _mm_lfence();
  return ticks;
}
#else
inline std::uint64_t ticks_before() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}
inline std::uint64_t ticks_after() {
  return ticks_before();
}
#endif

inline double ns_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

struct TickScale {
  double ns_per_tick = 1;
  // Of a pair of stamps with nothing between them: the fastest seen. A slower one would be taken
  // off calls that did not pay it, and on a busy machine make them 0.
  std::uint64_t overhead_ticks = 0;

  double ns(std::uint64_t ticks) const {
    return ticks > overhead_ticks ? static_cast<double>(ticks - overhead_ticks) * ns_per_tick : 0;
  }
};

// Takes 20 ms.
inline TickScale calibrate_ticks() {
  TickScale scale;
  scale.overhead_ticks = std::numeric_limits<std::uint64_t>::max();
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t first = ticks_before();
  while (ns_since(start) < 20e6) {
    const std::uint64_t before = ticks_before();
    scale.overhead_ticks = std::min(scale.overhead_ticks, ticks_after() - before);
  }
  scale.ns_per_tick = ns_since(start) / static_cast<double>(ticks_after() - first);
  return scale;
}

// 0 of nothing.
inline double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace cubfc::bench
