// Reads what CUBFC_TRACE wrote (shim/tell/trace_format.h).
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// A whole trace, from its first byte; throws BadRecording. It may end after any record. Records of
// unknown kinds are left out. A number that names another place, thread or caller than before
// gets another index in the Recording; the same place again, as long as it has not ended, has the
// same one. Frames of stacks are "path+0x1f20", or the address where no object is known.
Recording read_trace(Input& input);

}  // namespace cubfc::recordings
