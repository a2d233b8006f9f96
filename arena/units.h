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

// A block of 2 MiB or more starts and ends on a multiple of 64 KiB. RDMA registers memory in pages
// of 64 KiB, so registering such a block never exposes a neighbour. Smaller blocks are not aligned
// so. The driver does not align them so either: it packs several of them into one piece of 2 MiB.
// With a threshold of 64 KiB instead of 2 MiB, a third of the recorded traces would need more
// memory, and a block slightly larger than 64 KiB would take twice its size.
inline constexpr std::uint64_t kPageBytes = std::uint64_t{64} * 1024;
inline constexpr std::uint64_t kLargeBytes = std::uint64_t{2} * 1024 * 1024;
inline constexpr std::uint32_t kGranulesPerPage = kPageBytes / kGranuleBytes;
inline constexpr std::uint32_t kLargeGranules = kLargeBytes / kGranuleBytes;

// A block starts on a multiple of the largest power of two that divides its size, up to this many
// bytes. Programs that allocate powers of two rely on that. The driver aligns each large allocation
// to 2 MiB, whatever its size; doing the same here would cost several percent of the memory.
inline constexpr std::uint64_t kMostAlignedBytes = std::uint64_t{2} * 1024 * 1024;

// The first page of each slice stays unused, so no block starts where its slice starts. A library
// that bypasses cubfc may pass a block's address to the driver to free it. If the address were the
// start of a slice, the driver would free the whole slice.
inline constexpr std::uint64_t kRegionLeadBytes = kPageBytes;

// Regions are mostly requested in multiples of this many bytes, in which memory sources allocate
// anyway.
inline constexpr std::uint64_t kSourceUnitBytes = std::uint64_t{2} * 1024 * 1024;

// Sizes within a region are 32-bit counts of granules; requests above 1 TiB are refused.
inline constexpr std::uint64_t kLargestRequestBytes = std::uint64_t{1} << 40;

// Precondition of both: multiple > 0. (The static analyzer warns of page_bytes() == 0, but only
// sources with pages get here.)
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;  // NOLINT(clang-analyzer-core.DivideZero)
}

constexpr std::uint64_t round_down(std::uint64_t value, std::uint64_t multiple) {
  return value / multiple * multiple;  // NOLINT(clang-analyzer-core.DivideZero)
}

// Sum and difference of sizes in bytes. The sum is at most the largest number, which means "no
// limit" as an operand and as a result. The difference is at least 0.
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

// The size of the block for a request of `bytes`, in granules and in bytes. Precondition: 0 < bytes
// <= kLargestRequestBytes.
constexpr std::uint32_t granules_for(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(bytes < kLargeBytes
                                        ? (bytes + kGranuleBytes - 1) / kGranuleBytes
                                        : (bytes + kPageBytes - 1) / kPageBytes * kGranulesPerPage);
}
constexpr std::uint64_t block_bytes_for(std::uint64_t bytes) {
  return std::uint64_t{granules_for(bytes)} * kGranuleBytes;
}

// The alignment of a block of that size, in granules and in bytes. Precondition: the argument is a
// result of granules_for(), or of block_bytes_for().
constexpr std::uint32_t alignment_of(std::uint32_t granules) {
  const std::uint32_t bits = granules | (kMostAlignedBytes / kGranuleBytes);
  return bits & (~bits + 1);
}
constexpr std::uint64_t alignment_for(std::uint64_t block_bytes) {
  return alignment_of(static_cast<std::uint32_t>(block_bytes / kGranuleBytes)) * kGranuleBytes;
}

}  // namespace cubfc::arena
