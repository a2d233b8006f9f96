// Makes one recording of several: those of the processes of a job, each with its own file.
#pragma once

#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// `all` must not be empty. Events stand in the order of their times, which count from the start of
// the earliest recording if each says when it started. Each recording keeps devices and places of
// its own: a device gets a new number, and a label with the name of the file. `closed`, `is_state`
// and `has_times` are true if they are so of all recordings, `is_cut` and `reached_limit` if of
// one.
Recording merged(std::vector<Recording> all);

}  // namespace cubfc::recordings
