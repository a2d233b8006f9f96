// Tells whether a call took long, by the processor's counter of ticks. That takes a dozen
// instructions; reading a clock takes ten times as many.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace cubfc {

// Thread-safe.
class TickCounter {
 public:
  using Ticks = std::uint64_t;

  static Ticks now() noexcept {
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    Ticks ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<Ticks>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }

  // Whether the time between two answers of now() is long: some 10 µs, depending on the counter's
  // frequency. `end` may be before `start`, if the thread has moved to a processor whose counter is
  // behind: false.
  bool is_long(Ticks start, Ticks end) const noexcept {
    return end - start > long_ && end > start;
  }

  // The time between two answers of now(), by the counter's average rate since this object was
  // made.
  std::chrono::nanoseconds time_between(Ticks start, Ticks end) const noexcept {
    const std::chrono::duration<double, std::nano> all = std::chrono::steady_clock::now() - began_;
    const auto ticks = static_cast<double>(std::max<Ticks>(now() - began_ticks_, end - start));
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        all * (static_cast<double>(end - start) / ticks));
  }

 private:
  static Ticks long_ticks() noexcept {
#if defined(__x86_64__)
    return 20'000;  // such counters run at some 2 to 4 GHz
#elif defined(__aarch64__)
    Ticks hertz = 0;
    asm volatile("mrs %0, cntfrq_el0" : "=r"(hertz));
    return hertz / 100'000;
#else
    return 10'000;
#endif
  }

  const Ticks long_ = long_ticks();
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const Ticks began_ticks_ = now();
};

}  // namespace cubfc
