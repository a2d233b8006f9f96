// Reads a recording of any known format: a trace of cubfc's, an RMM log or a PyTorch snapshot.
#pragma once

#include <string>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class Input;

// Tell the format from the first bytes. Throw BadRecording.
Recording open_recording(const std::string& path);
Recording read_recording(Input& input);

}  // namespace cubfc::recordings
