// Texts for people about processes that have ended without a summary.
#pragma once

#include <string>
#include <vector>

#include "cli/live/processes.h"

namespace cubfc::live {

// "train.py --epochs 3 (process 4711), since 2026-11-28 04:11:02, ended without a summary"
std::string title_of_ended(const Process& process);

// What the process used: the lines of the summary that it would have printed at its end, and the
// JSON that CUBFC_SUMMARY would have had.
std::vector<std::string> lines_of_ended(const Process& process);
std::string json_of_ended(const Process& process);

// One line about this user's newest process under `cubfc run` that has ended without a summary and
// that no command has told of: "train.py (process 4711) ended without a summary, with a peak of
// 4.10 GiB; `cubfc last 4711` tells more". Empty where there is none. Notes all such processes as
// told.
std::string tell_last_run();

}  // namespace cubfc::live
