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
#include <string>
#include <vector>

#include "cli/recordings/trace_writer.h"
#include "cli/replay/workload.h"
#include "config/policy.h"

namespace cubfc::replay {

// Of what nothing bounds.
inline constexpr std::uint64_t kPlenty = ~std::uint64_t{0};

// The first request that did not get its memory.
struct OutOfMemory {
  std::uint64_t operation = 0;  // its number among the workload's allocations and frees, from 1
  std::uint64_t event = 0;      // its number in the recording, from 1
  std::uint64_t time_ns = 0;
  std::uint64_t asked_bytes = 0;
  std::uint32_t device = 0;   // its number
  bool was_recorded = false;  // the request failed in the recording, too
  // In this arena; 0 without one.
  std::uint64_t in_use_bytes = 0;   // rounding included
  std::uint64_t waiting_bytes = 0;  // of these: freed, and not yet to be used again
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free_bytes = 0;
  // On this device.
  std::uint64_t limit_left_bytes = 0;   // kPlenty: there is no limit
  std::uint64_t device_free_bytes = 0;  // kPlenty: only the limit counts
  std::string cause;
};

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

struct Conditions {
  config::Policy policy;  // bfc, vmm or platform
  // Of every device; 0: as recorded, and where that is not known the limit, or without one twice
  // what was in use at the peak.
  std::uint64_t total_bytes = 0;
  // Only the limit counts, not what the device has.
  bool device_is_large_enough = false;
};

// Told now and then how far it is, from 0 to 1.
using Progress = std::function<void(double)>;

// Until the end, or the first request that got memory when it was recorded, and gets none here.
// Writes what happens to `trace`, unless that is NULL.
Outcome play(const recordings::Recording& recording, const Workload& workload,
             const Conditions& conditions, const Progress& progress,
             recordings::TraceWriter* trace = nullptr);

// What a trace of it names: the recording's, with places and devices as they are here.
recordings::Recording names_of(const recordings::Recording& recording, const Workload& workload,
                               const Conditions& conditions, const std::string& settings);

}  // namespace cubfc::replay
