// The workloads of the two programs whose instructions are counted, by name.
#pragma once

#include <string>

#include "workload.h"

namespace cubfc::bench {

// "ring_N": N blocks of 1 MiB are live, and the oldest makes way for the next. "live_N": N blocks
// of 512 B to 16 MiB, of which any one makes way. "training_like": a made-up trace. Else the file
// of a recorded one. Throws std::exception.
Workload named_workload(const std::string& name);

}  // namespace cubfc::bench
