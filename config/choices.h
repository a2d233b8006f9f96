// The values of settings that are one word of several.
#pragma once

#include <string_view>

namespace cubfc::config {

/// Where device memory comes from.
enum class Allocator {
  kBfc,        ///< best fit with coalescing over regions from cuMemAlloc
  kVmm,        ///< best fit with coalescing over one reserved address range
  kCudaAsync,  ///< the driver's stream-ordered pool
  kPlatform,   ///< every call goes to the driver
};

/// What is taken of a device at the first allocation.
enum class Preallocate {
  kSoft,   ///< a share, which goes back when the program, or a process that asks, needs it
  kNo,     ///< nothing: memory is taken as it is needed
  kYes,    ///< a share, which goes back when the program needs it outside of arenas
  kWhole,  ///< a share, in one region
};

/// What a free waits for.
enum class FreeMode {
  kSync,      ///< the device, as the driver's own free does
  kDeferred,  ///< nothing; the block is reused when the work before the free is done
};

/// What serves stream-ordered allocations (cuMemAllocAsync).
enum class StreamOrdered {
  kDriver,  ///< the driver's pools
  kArena,   ///< the arena, for requests that the driver would serve from its default pool
};

/// How memory that is shared with other processes is shared (cuIpcGetMemHandle).
enum class Ipc {
  kCubfc,   ///< by handles of cubfc's own, which only a process under cubfc can open
  kDriver,  ///< by the driver's handles: larger requests go to the driver
};

/// What a hard limit counts.
enum class LimitCounts {
  kAll,    ///< the arena and what the driver gives past it, by whatever function
  kArena,  ///< only what cuMemAlloc and its like give
};

/// Whether NVML's figures of a GPU's memory show a limit that the program sees.
enum class Nvml {
  kAuto,  ///< a limit of the environment's, and not one of a policy file's
  kYes,
  kNo,
};

/// What the preallocation is a fraction of. A limit is always a fraction of the total.
enum class FractionOf { kFree, kTotal };

/// spdlog's levels, by its names.
enum class LogLevel { kTrace, kDebug, kInfo, kWarn, kError, kCritical, kOff };

/// The word for each value, as it is written in the environment.
[[nodiscard]] std::string_view name_of(Allocator allocator) noexcept;
[[nodiscard]] std::string_view name_of(Preallocate preallocate) noexcept;
[[nodiscard]] std::string_view name_of(FreeMode mode) noexcept;
[[nodiscard]] std::string_view name_of(StreamOrdered by) noexcept;
[[nodiscard]] std::string_view name_of(Ipc ipc) noexcept;
[[nodiscard]] std::string_view name_of(LimitCounts counts) noexcept;
[[nodiscard]] std::string_view name_of(Nvml nvml) noexcept;
[[nodiscard]] std::string_view name_of(FractionOf of) noexcept;
[[nodiscard]] std::string_view name_of(LogLevel level) noexcept;

}  // namespace cubfc::config
