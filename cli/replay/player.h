// Plays a workload under a policy on simulated devices: serves its requests as the library would,
// as far as that is possible without a GPU. Uses the library's arena, with the options that the
// library gives it under the policy (config/arena_options.h).
//
// Three things are unlike a real device. A simulated device gives memory as asked, without rounding
// or fragmentation of its own. A free waits for no work: under CUBFC_FREE=deferred freed blocks
// gather in epochs as in the library, and an epoch's blocks are free once the next epoch is closed,
// or when memory is needed. Memory of cuMemAllocAsync counts with the bytes asked for; the driver's
// pools keep more.
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
  std::uint64_t peak_bytes = 0;  // the most that was taken at once, without the preallocation
};

struct Outcome {
  std::uint64_t failures = 0;
  // At most one: the request that failed here and not in the recording; if there is none, the first
  // request that failed.
  std::vector<OutOfMemory> first;
  std::vector<PlayedDevice> devices;
  std::uint64_t operations = 0;  // requests and frees that were played
  std::uint64_t driver_calls = 0;
  std::uint64_t waits = 0;  // how often a request waited for freed blocks
  double seconds = 0;

  bool fits() const { return failures == 0; }
};

// Called now and then with the share that is done, from 0 to 1.
using Progress = std::function<void(double)>;

// Plays to the end, or to the first request that got memory in the recording and gets none here.
// Writes what happens to `trace`, if it is not NULL; `trace` must have been made with names_of()
// (played_trace.h).
Outcome play(const recordings::Recording& recording, const Workload& workload,
             const Conditions& conditions, const Progress& progress,
             recordings::TraceWriter* trace = nullptr);

}  // namespace cubfc::replay
