// How much of a segment PyTorch's cache gives to a request. A history has what was asked for; what
// is in use is what was given. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace cubfc::recordings {

// Of PYTORCH_CUDA_ALLOC_CONF.
struct CacheSettings {
  // roundup_power2_divisions: of requests from 2^20 bytes on, of twice as much, and so on; the
  // first is for what is smaller, too. 0: round to 512 bytes.
  std::array<std::uint64_t, 16> divisions{};
  std::uint64_t max_split_bytes = ~std::uint64_t{0};  // blocks from this size on are never split
};

// A request, rounded up.
std::uint64_t rounded(std::uint64_t bytes, const CacheSettings& settings);

// What a request for `bytes` is given at a place where `room` bytes are free: all of it, when what
// would be left over is too small to be kept. `segment_bytes` are those of the segment there; 0 for
// one of expandable_segments.
std::uint64_t given(std::uint64_t bytes, std::uint64_t room, std::uint64_t segment_bytes,
                    const CacheSettings& settings);

}  // namespace cubfc::recordings
