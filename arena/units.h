// The units in which the arena counts, and how a request is rounded. Knows nothing of blocks.
#pragma once

#include <cstdint>

namespace cubfc::arena {

// An address in device memory. The arena never dereferences one: the host cannot.
using Address = std::uint64_t;

// Blocks start and end on granules: the driver aligns its allocations to 512 bytes, and programs
// count on that.
inline constexpr std::uint64_t kGranuleBytes = 512;

// A block of this size or more starts and ends on a multiple of it, so that registering the block
// for RDMA, which works on pages of this size, never exposes a neighbour.
inline constexpr std::uint64_t kPageBytes = std::uint64_t{64} * 1024;
inline constexpr std::uint32_t kGranulesPerPage = kPageBytes / kGranuleBytes;

// The first page of each region stays unused. A library that calls the driver behind the arena's
// back can free one of its pointers there; that must never be the start of a region, or the driver
// would free all of it.
inline constexpr std::uint64_t kRegionLeadBytes = kPageBytes;

// Sizes within a region are 32-bit counts of granules; requests above 1 TiB are refused.
inline constexpr std::uint64_t kLargestRequestBytes = std::uint64_t{1} << 40;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) {
  return value / multiple * multiple;
}

// The bytes a request takes. Precondition: 0 < bytes <= kLargestRequestBytes.
constexpr std::uint64_t block_bytes_for(std::uint64_t bytes) {
  return round_up(bytes, bytes < kPageBytes ? kGranuleBytes : kPageBytes);
}

}  // namespace cubfc::arena
