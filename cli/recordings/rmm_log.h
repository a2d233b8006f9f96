// Reads the CSV files of RMM's logging adaptor. Their layouts, from RMM's source
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

// Whether a file that begins so is a log of RMM's.
bool is_rmm_log(std::string_view beginning);

// Reads a whole log; throws BadRecording. A request for 0 bytes, or one that got no address, is
// left out. The free of a block that was allocated before the log began stays, if the log says its
// size.
Recording read_rmm_log(Input& input);

}  // namespace cubfc::recordings
