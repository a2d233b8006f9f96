// The limit that the kernel keeps for a process's cgroup on a GPU, beside those of the policy.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "config/policy.h"
#include "shim/driver/driver.h"

namespace cubfc {

// As Policy's functions of these names, with the kernel's limit among the others: the least counts.
// A policy without a limit costs no look at a file, and gets none: the kernel keeps its own anyhow.
// What they return stays valid. Thread-safe. Throw std::bad_alloc.
std::optional<config::HardLimit> process_limit_on(const DriverFunctions& driver,
                                                  const config::Policy& policy, CUdevice device,
                                                  std::uint64_t total_bytes);
std::optional<config::HardLimit> hard_limit_on(const DriverFunctions& driver,
                                               const config::Policy& policy, CUdevice device,
                                               std::uint64_t total_bytes);
}  // namespace cubfc
