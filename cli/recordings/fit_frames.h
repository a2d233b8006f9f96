// When `cubfc fit` runs a program, functions of its package cubfc_fit (mode.py) stand in the stacks
// between the program's line and PyTorch's operator.
#pragma once

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Called for each trace. Removes the frames of cubfc_fit and of what it called from the stacks,
// which are then the program's own. A stack that is left without a Python frame ran on a thread of
// autograd's: it gets frame_of_autograd().
void leave_out_frames_of_fit(Recording& recording);

}  // namespace cubfc::recordings
