// Reads the CSV files of RMM's logging adaptor. What is known of them, from RMM's source
// (logging_resource_adaptor, and before RMM 0.15 the log of rmm::Manager):
//   Thread,Time,Action,Pointer,Size,Stream
//     Action: "allocate", "free", "allocate failure". Time: the time of day, 15:47:02.841961 (with
//     a colon before the microseconds in old versions), or seconds. Pointer as printf's %p has it.
//   Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,...
//     Event Type: "Alloc", "Free" (whose size is 0). Start: seconds.
// Columns are found by their names; without a line of names they are the first layout's.
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Whether a file that begins so is one.
bool is_rmm_log(std::string_view beginning);

// A whole log; throws BadRecording. A request for nothing, which has no address, is left out. A
// free of what was not allocated here stays: it was before the log began.
Recording read_rmm_log(Input& input);

}  // namespace cubfc::recordings
