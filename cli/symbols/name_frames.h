// Names the native frames of a recording, by the programs and libraries that they lie in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::symbols {

// Reads the programs and libraries that native frames lie in. Returns a line for each that cannot
// be read, or is no longer what it was when it was recorded: "/opt/libx.so: is another build than
// was recorded". Where functions were inlined, adds frames to the recording and to its stacks.
// Calls `progress` with the path of each file before it is read.
std::vector<std::string> name_frames(recordings::Recording& recording,
                                     const std::function<void(const std::string&)>& progress);

}  // namespace cubfc::symbols
