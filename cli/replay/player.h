// Plays a workload under a policy, on devices that are not there: what the library does with the
// same requests, as far as that goes without a GPU. The arena is the library's, and so is what the
// policy makes of it (config/arena_options.h).
//
// What is modelled differently: a device gives memory as asked, without rounding or fragmentation
// of its own. A free waits for no work; under CUBFC_FREE=deferred freed blocks gather as in the
// library, and are free when the next ones have gathered, or when memory is needed. What
// cuMemAllocAsync gives counts with the bytes asked for; the driver's pools keep more.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cli/recordings/trace_writer.h"
#include "cli/replay/conditions.h"
#include "cli/replay/out_of_memory.h"
#include "cli/replay/workload.h"

namespace cubfc::replay {

struct PlayedDevice {
  std::uint32_t number = 0;
  std::uint64_t total_bytes = 0;
  const char* total_origin = "";  // "as recorded", "--total", ...
  std::uint64_t limit_bytes = 0;  // arena::Budget::kUnlimited: none
  std::uint64_t preallocated_bytes = 0;
  std::uint64_t peak_bytes = 0;  // taken of the device at most, the preallocation aside
};

struct Outcome {
  std::uint64_t failures = 0;
  std::vector<OutOfMemory> first;  // empty, or the first of them
  std::vector<PlayedDevice> devices;
  std::uint64_t operations = 0;  // that were played
  std::uint64_t driver_calls = 0;
  std::uint64_t waits = 0;  // for freed memory
  double seconds = 0;

  bool fits() const { return failures == 0; }
};

// Told now and then how far it is, from 0 to 1.
using Progress = std::function<void(double)>;

// Until the end, or the first request that got memory when it was recorded, and gets none here.
// Writes what happens to `trace`, which was opened with names_of() (played_trace.h), unless that is
// NULL.
Outcome play(const recordings::Recording& recording, const Workload& workload,
             const Conditions& conditions, const Progress& progress,
             recordings::TraceWriter* trace = nullptr);

}  // namespace cubfc::replay
