// The stacks of a program that `cubfc fit` ran have frames of what it put in (cubfc_fit/mode.py),
// between the program's line and PyTorch's operator.
#pragma once

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Takes them out, with what they called: the stacks are then the program's own. What is left
// without any Python function ran on a thread of autograd's.
void leave_out_frames_of_fit(Recording& recording);

}  // namespace cubfc::recordings
