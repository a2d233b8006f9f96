// The summary at exit (CUBFC_SHOW_STATS, CUBFC_SUMMARY): what the program used of each device, by
// what function and by whom, from the figures of the process.
#pragma once

#include <chrono>
#include <string>

#include "shim/tell/figures.h"

namespace cubfc {

// A line for each device and more for what it holds, without "cubfc: " before the first; empty when
// there is nothing to say. `in_calls`: TimeInCalls::spent(), 0 where it was not measured.
std::string summary_text(const figures::ProcessFigures& process, std::chrono::nanoseconds in_calls);

// The same and all else that is known, as one JSON object and an end of line.
std::string summary_json(const figures::ProcessFigures& process, std::chrono::nanoseconds in_calls);

// Writes it to the file that CUBFC_SUMMARY names: as JSON if the name ends in ".json". What is
// wrong is logged.
void write_summary(const std::string& path, const figures::ProcessFigures& process,
                   std::chrono::nanoseconds in_calls) noexcept;

}  // namespace cubfc
