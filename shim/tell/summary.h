// The summary at exit (CUBFC_SHOW_STATS, CUBFC_SUMMARY): what the program used of each device, by
// what function and by whom, from the figures of the process.
#pragma once

#include <chrono>
#include <string>

#include "shim/tell/figures.h"

namespace cubfc {

// Where it was measured: see DeviceMemory::time_spent().
struct TimeSpent {
  std::chrono::nanoseconds in_calls{};  // in allocations and frees, waits included
  std::chrono::nanoseconds waited{};    // by frees, for the device
};

// A line for each device and more for what it holds, without "cubfc: " before the first; empty when
// there is nothing to say.
std::string summary_text(const figures::ProcessFigures& process, const TimeSpent& time);

// The same and all else that is known, as one JSON object and an end of line.
std::string summary_json(const figures::ProcessFigures& process, const TimeSpent& time);

// Writes it to the file that CUBFC_SUMMARY names: as JSON if the name ends in ".json". What is
// wrong is logged.
void write_summary(const std::string& path, const figures::ProcessFigures& process,
                   const TimeSpent& time) noexcept;

}  // namespace cubfc
