// The units in which the arena counts, and how a request is rounded. Knows nothing of blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace cubfc::arena {

// An address in device memory. The arena never dereferences one: the host cannot.
using Address = std::uint64_t;

// Blocks start and end on granules: the driver aligns its allocations to 512 bytes, and programs
// count on that.
inline constexpr std::uint64_t kGranuleBytes = 512;

// A block of 2 MiB or more starts and ends on pages of 64 KiB, so that registering it for RDMA,
// which works on such pages, never exposes a neighbour. The driver does the same for no smaller
// ones: it puts several into one piece of 2 MiB. From 64 KiB on instead of 2 MiB, a third of the
// traces needs more memory, and blocks a little larger than 64 KiB would take twice their size.
inline constexpr std::uint64_t kPageBytes = std::uint64_t{64} * 1024;
inline constexpr std::uint64_t kLargeBytes = std::uint64_t{2} * 1024 * 1024;
inline constexpr std::uint32_t kGranulesPerPage = kPageBytes / kGranuleBytes;
inline constexpr std::uint32_t kLargeGranules = kLargeBytes / kGranuleBytes;

// A block starts on a multiple of the largest power of two that divides its size, up to this: what
// programs count on who take memory in powers of two. The driver's large allocations start on
// multiples of it, whatever their size; that would cost several percent of the memory.
inline constexpr std::uint64_t kMostAlignedBytes = std::uint64_t{2} * 1024 * 1024;

// The first page of each slice stays unused. A library that calls the driver behind the arena's
// back can free one of its pointers there; that must never be the start of a slice, or the driver
// would free all of it.
inline constexpr std::uint64_t kRegionLeadBytes = kPageBytes;

// Regions are asked for in multiples of this, as which sources give memory in any case.
inline constexpr std::uint64_t kSourceUnitBytes = std::uint64_t{2} * 1024 * 1024;

// Sizes within a region are 32-bit counts of granules; requests above 1 TiB are refused.
inline constexpr std::uint64_t kLargestRequestBytes = std::uint64_t{1} << 40;

// Precondition of both: multiple > 0. (The analyzer thinks of sources without pages where only
// those with pages come.)
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;  // NOLINT(clang-analyzer-core.DivideZero)
}

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) {
  return value / multiple * multiple;  // NOLINT(clang-analyzer-core.DivideZero)
}

// Sums and differences of sizes, of which some mean "no limit": at most the largest number, and at
// least 0.
constexpr std::uint64_t plus(std::uint64_t bytes, std::uint64_t more) {
  return bytes + std::min(more, std::numeric_limits<std::uint64_t>::max() - bytes);
}
constexpr std::uint64_t less(std::uint64_t bytes, std::uint64_t taken) {
  return bytes - std::min(bytes, taken);
}

// round_up() and round_down() for a multiple that is a power of two and not known to the compiler.
template <typename Number>
constexpr Number align_up(Number value, Number alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
template <typename Number>
constexpr Number align_down(Number value, Number alignment) {
  return value & ~(alignment - 1);
}

// What a request takes, in granules and in bytes. Precondition: 0 < bytes <= kLargestRequestBytes.
constexpr std::uint32_t granules_for(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(bytes < kLargeBytes
                                        ? (bytes + kGranuleBytes - 1) / kGranuleBytes
                                        : (bytes + kPageBytes - 1) / kPageBytes * kGranulesPerPage);
}
constexpr std::uint64_t block_bytes_for(std::uint64_t bytes) {
  return std::uint64_t{granules_for(bytes)} * kGranuleBytes;
}

// On a multiple of what such a block starts, likewise. Precondition: a result of granules_for(), or
// of block_bytes_for().
constexpr std::uint32_t alignment_of(std::uint32_t granules) {
  const std::uint32_t bits = granules | (kMostAlignedBytes / kGranuleBytes);
  return bits & (~bits + 1);
}
constexpr std::uint64_t alignment_for(std::uint64_t block_bytes) {
  return alignment_of(static_cast<std::uint32_t>(block_bytes / kGranuleBytes)) * kGranuleBytes;
}

}  // namespace cubfc::arena
