// Knows what each opcode of a pickle means.
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/pickle.h"

namespace cubfc::recordings {

// Reads a whole pickle into an empty `pickle`, opcode by opcode, up to the one that ends it; throws
// BadRecording, with the byte of the opcode.
void obey_opcodes(Input& input, Pickle& pickle);

}  // namespace cubfc::recordings
