// Several recordings as one: of the processes of a job, each with its own file.
#pragma once

#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// At least one. Events stand in the order of their times, which count from the first recording's
// start where all tell when they started. Each process's devices and places stay its own, and have
// its name, which is that of its file: devices have other numbers then. What is said of the
// recording is said of all: `closed` where all are, `is_cut` where one is.
Recording merged(std::vector<Recording> all);

}  // namespace cubfc::recordings
