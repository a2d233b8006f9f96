// Gives the native frames of a recording the names that the files have which they are in.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::symbols {

// Reads the programs and libraries that the stacks are in, where they are as they were when it was
// recorded, and says of the others what is wrong: "/opt/libx.so: is another build than was
// recorded". Where functions were inlined, there are more frames than before. `progress` is called
// with the name of each file before it is read.
std::vector<std::string> name_frames(recordings::Recording& recording,
                                     const std::function<void(const std::string&)>& progress);

}  // namespace cubfc::symbols
