// From a policy to the options of an arena: for the arenas of libcubfc.so, and for those in which
// `cubfc replay` tries a policy out. Knows nothing of CUDA.
#pragma once

#include <cstdint>

#include "arena/options.h"
#include "config/policy.h"

namespace cubfc::config {

/// What the options of an arena depend on besides the policy: facts of the device that the arena's
/// memory comes from.
struct ArenaDevice {
  std::uint64_t total_bytes = 0;
  std::uint64_t limit_bytes = 0;  ///< the process's limit there; arena::Budget::kUnlimited: none
  bool is_integrated = false;     ///< the device's memory is the host's
  bool is_managed = false;        ///< arenas use managed memory: may be more than the device has
};

/// The options with which an arena begins. `wanted`: the bytes that are to be preallocated, as
/// Policy::preallocation() says.
[[nodiscard]] arena::Options arena_options(const Policy& policy, const ArenaDevice& device,
                                           std::uint64_t wanted) noexcept;

/// The size of a page of CUBFC_ALLOCATOR=vmm, in bytes, for a device or a limit of `bytes`.
/// `granularity` is the driver's: a power of two, and more than 0.
[[nodiscard]] std::uint64_t page_bytes(std::uint64_t bytes, std::uint64_t granularity) noexcept;

}  // namespace cubfc::config
