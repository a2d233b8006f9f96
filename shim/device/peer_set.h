// Which GPUs may use another one's memory.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>

namespace cubfc {

// A set of GPUs, a bit for each ordinal; those from kMostPeers - 1 on share the last one. Access is
// not given to ordinals from kMostPeers on.
using PeerSet = std::uint64_t;
inline constexpr int kMostPeers = 64;
inline PeerSet peer_bit(CUdevice device) {
  return PeerSet{1} << static_cast<unsigned>(std::min(device, kMostPeers - 1));
}
template <typename Do>
void for_each_peer(PeerSet peers, Do what) {
  for (CUdevice device = 0; device < kMostPeers; ++device) {
    if ((peers & peer_bit(device)) != 0) {
      what(device);
    }
  }
}

}  // namespace cubfc
