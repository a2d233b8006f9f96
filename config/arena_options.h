// What a policy makes of an arena: of libcubfc.so's, and of those in which `cubfc replay` tries a
// policy out. Knows nothing of CUDA.
#pragma once

#include <cstdint>

#include "arena/options.h"
#include "config/policy.h"

namespace cubfc::config {

/// What an arena's options depend on of the device that its memory comes from.
struct ArenaDevice {
  std::uint64_t total_bytes = 0;
  std::uint64_t limit_bytes = 0;  ///< of the process there; arena::Budget::kUnlimited: none
  bool is_integrated = false;     ///< its memory is the host's
  bool is_managed = false;        ///< arenas have managed memory, which may be more than it has
};

/// How an arena begins, when Policy::preallocation() says that so many bytes are to be taken ahead.
[[nodiscard]] arena::Options arena_options(const Policy& policy, const ArenaDevice& device,
                                           std::uint64_t wanted) noexcept;

/// The pages of CUBFC_ALLOCATOR=vmm, for so many bytes of a device or of a limit; `granularity` is
/// the driver's, a power of two, and more than 0.
[[nodiscard]] std::uint64_t page_bytes(std::uint64_t bytes, std::uint64_t granularity) noexcept;

}  // namespace cubfc::config
