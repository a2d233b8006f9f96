// The summary of a run (CUBFC_SHOW_STATS, CUBFC_SUMMARY, `cubfc last`): what the program used of
// each device, by what function and by whom, from the figures of the process.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "shim/tell/figures.h"

namespace cubfc {

struct Summary {
  const figures::ProcessFigures& process;
  std::chrono::nanoseconds in_calls;  // TimeInCalls::spent(); 0 where it was not measured
  bool is_end;                        // whether the process ends, or has ended
};

// A line for each device, and more for what it holds; none if there is nothing to say.
std::vector<std::string> summary_lines(const Summary& summary);

// The same, and all else that is known, as one JSON object with an end of line.
std::string summary_json(const Summary& summary);

}  // namespace cubfc
