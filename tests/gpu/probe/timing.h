// How long calls take.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace probe {

/// The median of some times, in nanoseconds.
class Times {
 public:
  template <class Call>
  auto time(const Call& call) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = call();
    const auto spent = std::chrono::steady_clock::now() - start;
    ns_.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
    return result;
  }

  /// -1 when nothing was timed.
  [[nodiscard]] std::int64_t median() {
    if (ns_.empty()) {
      return -1;
    }
    const auto middle = ns_.begin() + static_cast<std::ptrdiff_t>(ns_.size() / 2);
    std::nth_element(ns_.begin(), middle, ns_.end());
    return *middle;
  }

 private:
  std::vector<std::int64_t> ns_;
};

}  // namespace probe
