// A GPU's memory as a program sees it whose limit is the size of the GPU, for a program that asks
// NVML: the limit, and what all processes that share it have taken.
#pragma once

#include <cstdint>
#include <optional>

#include "config/policy.h"
#include "shim/meet/device_id.h"
#include "shim/tell/figures.h"

namespace cubfc {

struct LimitedMemory {
  std::uint64_t total_bytes;
  std::uint64_t used_bytes;  // no more than that
};

// Of the GPU of this UUID and size. Used is what the group has claimed where the limit is a
// group's, else what all processes of the user have taken whose limit is as large and has the same
// origin. Nothing where NVML's own figures are to be told: there is no such limit, or it is another
// one for each GPU and nobody who shares it has used that GPU yet. `own`: the figures of this
// process; nullptr while it has none. Reads files. Thread-safe. Throws std::bad_alloc.
std::optional<LimitedMemory> limited_memory(const config::Policy& policy, const DeviceId& id,
                                            std::uint64_t total_bytes,
                                            const figures::ProcessFigures* own);

}  // namespace cubfc
