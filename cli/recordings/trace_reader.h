// Reads the file that CUBFC_TRACE has written (shim/tell/trace_format.h).
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Reads a whole trace, from its first byte; throws BadRecording. A trace may end after any record.
// Records of unknown kinds are left out. When a number names another place, thread or caller than
// before, that gets another index in the Recording; a place that is named again, and has not ended,
// keeps its index. A native frame has an object and an offset in it, or, where no object is known,
// an address.
Recording read_trace(Input& input);

}  // namespace cubfc::recordings
