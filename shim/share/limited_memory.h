// What NVML is to tell a program of a GPU's memory if the program is shown its limit as the size of
// the GPU: the limit, and how much of the limit all processes that share it have taken.
#pragma once

#include <cstdint>
#include <optional>

#include "config/policy.h"
#include "shim/meet/device_id.h"
#include "shim/tell/figures.h"

namespace cubfc {

struct LimitedMemory {
  std::uint64_t total_bytes;
  std::uint64_t used_bytes;  // at most total_bytes
};

// For the GPU of this UUID and size in bytes. Under a group's limit, used_bytes is what the group
// has claimed. Under any other limit, used_bytes is the sum of what processes of the user have
// taken. Only those processes count whose limit is of the same size and from the same variable.
// Returns nothing, and NVML's own figures are right, in two cases: the program is shown no limit;
// or the limit may differ from GPU to GPU, and no process with that limit has used this GPU yet.
// `own`: the figures of this process; nullptr while it has none. Reads files. Thread-safe. Throws
// std::bad_alloc.
std::optional<LimitedMemory> limited_memory(const config::Policy& policy, const DeviceId& id,
                                            std::uint64_t total_bytes,
                                            const figures::ProcessFigures* own);

}  // namespace cubfc
