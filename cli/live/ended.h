// How processes are called that have ended without a summary. For people.
#pragma once

#include <string>
#include <vector>

#include "cli/live/processes.h"

namespace cubfc::live {

// "train.py --epochs 3 (process 4711), since 2026-11-28 04:11:02, ended without a summary"
std::string title_of_ended(const Process& process);

// What it used: as its summary would have said it at its end, and as CUBFC_SUMMARY writes that.
std::vector<std::string> lines_of_ended(const Process& process);
std::string json_of_ended(const Process& process);

// One line of the last `cubfc run` of this user of which nobody has told: "train.py (process 4711)
// ended without a summary, with a peak of 4.10 GiB; `cubfc last 4711` tells more". Empty where
// there is none. It counts as told from here on.
std::string tell_last_run();

}  // namespace cubfc::live
