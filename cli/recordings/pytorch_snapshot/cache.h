// Computes how many bytes of a segment PyTorch's cache gives to a request: these are in use, but a
// snapshot's history only has the bytes that were asked for. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace cubfc::recordings {

// Settings in PYTORCH_CUDA_ALLOC_CONF.
struct CacheSettings {
  // roundup_power2_divisions: the first is for requests below 2^21 bytes, the second for those
  // below 2^22, and so on; the last also for all larger ones. 0: round to 512 bytes.
  std::array<std::uint64_t, 16> divisions{};
  std::uint64_t max_split_bytes = ~std::uint64_t{0};  // blocks from this size on are never split
};

// The bytes of a request, rounded up.
std::uint64_t rounded(std::uint64_t bytes, const CacheSettings& settings);

// The bytes that a request for `bytes` is given at an address where `room` bytes are free: all of
// these, when too little would be left over to be kept. `segment_bytes`: the size of the segment
// there; 0 for one of expandable_segments.
std::uint64_t given(std::uint64_t bytes, std::uint64_t room, std::uint64_t segment_bytes,
                    const CacheSettings& settings);

}  // namespace cubfc::recordings
