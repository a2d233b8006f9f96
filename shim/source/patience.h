// What a request that lacks memory may wait for beside the program's own work, and for how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace cubfc {

// The program's work is waited for as long as it takes: without cubfc its cuMemFree would have
// waited for it. Everything else comes from somebody who may never be done: the time is limited,
// and counted for each request from the first question.
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
    until = until.value_or(now + (is_of_others ? kForOthers : kForEnding));
    return now <= *until;
  }

  // Between two tries. An H200 takes back what is preallocated at 0.25 ms a GiB; a program's end
  // takes it 50 ms, and for one that ends the dead of a group are looked for each time.
  static constexpr std::chrono::milliseconds kNapForOthers{1};
  static constexpr std::chrono::milliseconds kNapForEnding{10};

 private:
  // Of ten processes that begin at once on an H200, which makes their contexts one after the other,
  // 250 ms each, none is refused with this. What is not to be had fails so much later, but only
  // where others have enough.
  static constexpr std::chrono::seconds kForOthers{2};
  // An H200 takes up to 0.13 s for the end of a process that has preallocated 105 GiB, and others
  // may be ending before it. They may end, one after the other, for ever.
  static constexpr std::chrono::seconds kForEnding{6};

  std::optional<std::chrono::steady_clock::time_point> others_until_;
  std::optional<std::chrono::steady_clock::time_point> ending_until_;
};

}  // namespace cubfc
