// The variables that concern cubfc, as they were when the library was loaded. What the program does
// to its environment later changes nothing.
#pragma once

#include "config/policy.h"

namespace cubfc {

// Read once, never destroyed. Thread-safe; makes no CUDA call.
const config::Policy& policy_of_process();

}  // namespace cubfc
