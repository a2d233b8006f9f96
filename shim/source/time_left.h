// How long a request that lacks memory may go on waiting for memory that may never come.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "shim/patience.h"

namespace cubfc {

// One for each request. Waits for the program's own work have no bound and do not use this class.
class TimeLeft {
 public:
  enum class For : std::uint8_t {
    kOthers,  // threads and processes that give back and take: patience::kForOthers for all of them
    kEnding,  // a process that gives back all that it has, or whose memory the driver takes back:
              // patience::kForEnding
  };

  // Whether the request may wait for such a thing now. The first call starts the time.
  bool start_or_check(For what) {
    const auto now = std::chrono::steady_clock::now();
    auto& until = until_of(what);
    until =
        until.value_or(now + (what == For::kOthers ? patience::kForOthers : patience::kForEnding));
    return now <= *until;
  }
  // Whether the time was started, and is over.
  bool is_over(For what) const {
    const auto& until = what == For::kOthers ? others_until_ : ending_until_;
    return until && std::chrono::steady_clock::now() > *until;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point>& until_of(For what) {
    return what == For::kOthers ? others_until_ : ending_until_;
  }

  std::optional<std::chrono::steady_clock::time_point> others_until_;
  std::optional<std::chrono::steady_clock::time_point> ending_until_;
};

}  // namespace cubfc
