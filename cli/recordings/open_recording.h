// Opens a recording of any of the formats that are known.
#pragma once

#include <string>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class Input;

// Which format it is, its first bytes tell. Throws BadRecording.
Recording open_recording(const std::string& path);
Recording read_recording(Input& input);

}  // namespace cubfc::recordings
