// What a request that lacks memory may wait for beside the program's own work, and for how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "shim/patience.h"

namespace cubfc {

// The program's work is waited for as long as it takes. Everything else comes from somebody who may
// never be done: the time is limited, and counted for each request from the first question.
class Patience {
 public:
  enum class For : std::uint8_t {
    kOthers,  // threads and processes that give back and take, as long as there is enough in all
    kEnding,  // a process that gives back all that it has, or whose memory the driver takes back
  };

  // Whether it may still be waited for.
  bool lasts(For what) {
    const auto now = std::chrono::steady_clock::now();
    const bool is_of_others = what == For::kOthers;
    auto& until = is_of_others ? others_until_ : ending_until_;
    until = until.value_or(now + (is_of_others ? patience::kForOthers : patience::kForEnding));
    return now <= *until;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> others_until_;
  std::optional<std::chrono::steady_clock::time_point> ending_until_;
};

}  // namespace cubfc
