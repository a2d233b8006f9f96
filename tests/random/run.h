// Runs a program on the driver, with real threads, and looks at every byte that it leaves.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "driver.h"
#include "program.h"

namespace random_programs {

/// Where each thread of the program that runs is, for a signal's handler when it does not end.
struct Place {
  enum class Doing : std::uint8_t { kNothing, kWaiting, kPerforming, kLeaving, kEnding };
  std::atomic<pid_t> thread{0};
  std::atomic<int> step{-1};  // by its place in the program
  std::atomic<Doing> doing{Doing::kNothing};
};
extern std::array<Place, kMostThreads> places;

class Runner {
 public:
  explicit Runner(const programs::Driver& api);

  /// How many the driver has, two at most: no program uses more.
  int devices() const;

  /// What is wrong, or nothing.
  std::string run(const Program& program);

 private:
  const programs::Driver& api_;
  CUcontext keeper_ = nullptr;     // no program ends it
  std::uint32_t* host_ = nullptr;  // room for the slots, page-locked
  std::uint16_t runs_ = 0;
};

}  // namespace random_programs
