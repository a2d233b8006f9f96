// Adds to the policy's limits the one that the kernel enforces for the process's cgroup on a GPU.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "config/policy.h"
#include "shim/driver/driver.h"

namespace cubfc {

// As Policy::process_limit() and Policy::hard_limit(), with the kernel's limit among the others:
// the lowest one is returned. Where the policy has no limit, the kernel's is neither read nor
// returned, since the kernel enforces it anyhow. The origin in the answer stays valid as long as
// the policy. Thread-safe. Throw std::bad_alloc.
std::optional<config::HardLimit> process_limit_on(const DriverFunctions& driver,
                                                  const config::Policy& policy, CUdevice device,
                                                  std::uint64_t total_bytes);
std::optional<config::HardLimit> hard_limit_on(const DriverFunctions& driver,
                                               const config::Policy& policy, CUdevice device,
                                               std::uint64_t total_bytes);
}  // namespace cubfc
