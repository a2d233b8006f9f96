// What program_free_memory says: "LIVE FREE GOT", in MiB.
#pragma once

#include <sstream>

#include "catch.h"
#include "preload/launch.h"

namespace cubfc::test {

struct Figures {
  double live = 0;
  double free = 0;
  double got = 0;
};

inline Figures figures_of(const Outcome& outcome) {
  INFO(outcome.out << outcome.err);
  REQUIRE(outcome.status == 0);
  Figures found;
  std::istringstream(outcome.out) >> found.live >> found.free >> found.got;
  return found;
}

}  // namespace cubfc::test
