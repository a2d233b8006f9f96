#include "cli/recordings/pytorch_snapshot/cache.h"

#include <algorithm>
#include <bit>

namespace cubfc::recordings {
namespace {

constexpr std::uint64_t kUnit = 512;
// Requests of up to 1 MiB share segments of this size. Larger requests have larger segments.
constexpr std::uint64_t kSmallSegment = std::uint64_t{2} << 20U;
constexpr std::uint64_t kMostLeftWithBlock = std::uint64_t{1} << 20U;  // in a large segment
constexpr int kFirstDivision = 20;  // log2 of the request that divisions[0] is for
constexpr std::uint64_t kMostRounded = std::uint64_t{1} << 62U;

std::uint64_t up_to_multiple(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t rounded(std::uint64_t bytes, const CacheSettings& settings) {
  if (bytes > kMostRounded) {
    return bytes;
  }
  bytes = std::max<std::uint64_t>(bytes, 1);
  const int size = static_cast<int>(std::bit_width(bytes)) - 1;
  const auto last = static_cast<int>(settings.divisions.size()) - 1;
  const std::uint64_t divisions =
      settings.divisions.at(static_cast<std::size_t>(std::clamp(size - kFirstDivision, 0, last)));
  if (divisions <= 1 || divisions > kMostRounded / kUnit || bytes <= kUnit * divisions) {
    return up_to_multiple(bytes, kUnit);
  }
  return up_to_multiple(bytes, std::bit_floor(bytes) / std::bit_floor(divisions));
}

std::uint64_t given(std::uint64_t bytes, std::uint64_t room, std::uint64_t segment_bytes,
                    const CacheSettings& settings) {
  const std::uint64_t wanted = rounded(bytes, settings);
  if (room < wanted) {  // this version of the cache rounds in a way that is not known here
    return std::max(bytes, room);
  }
  const bool is_small = segment_bytes == 0 || segment_bytes == kSmallSegment;
  const bool is_split =
      is_small ? room - wanted >= kUnit
               : wanted < settings.max_split_bytes && room - wanted > kMostLeftWithBlock;
  return is_split ? wanted : room;
}

}  // namespace cubfc::recordings
